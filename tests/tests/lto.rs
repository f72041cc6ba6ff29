//! Link-time optimisation through the compilers' plugins: gcc's `liblto_plugin.so` and
//! LLVM's `LLVMgold.so`. What a plugin compiles depends on what the linker answers it, so
//! the programs here fail to link, or say something else, if an answer is wrong.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::Elf;
use linking::{BOTH, Bench, Linker, exports, needed};
use repo_tests::binaries::Binaries;
use repo_tests::process::Run;
use repo_tests::tools;

/// A compiler with a plugin.
#[derive(Clone, Copy)]
struct Compiler {
    c: &'static str,
    cxx: &'static str,
    archiver: &'static str,
}

const GCC: Compiler = Compiler {
    c: "gcc",
    cxx: "g++",
    archiver: "gcc-ar",
};
const CLANG: Compiler = Compiler {
    c: "clang-19",
    cxx: "clang++-19",
    archiver: "llvm-ar-19",
};

/// The compilers that can optimise at link time here. Those that cannot are recorded as skipped.
fn compilers() -> Vec<Compiler> {
    [GCC, CLANG]
        .into_iter()
        .filter(|compiler| {
            let Some(bench) = Bench::new() else {
                return false;
            };
            if tools::on_path(compiler.c).is_none() || tools::on_path(compiler.archiver).is_none() {
                tools::skip(compiler.c);
                return false;
            }
            bench
                .scratch
                .write("probe.c", "int main(void) { return 0; }");
            let probe = bench.driver(Linker::Reference, compiler.c, "-flto probe.c -o probe");
            if !probe.status.success() {
                tools::skip(&format!("{}'s linker plugin", compiler.c));
            }
            probe.status.success()
        })
        .collect()
}

impl Bench {
    fn cc(&self, driver: &str, arguments: &str) -> Run {
        self.driver(Linker::Reference, driver, arguments).ok()
    }

    fn archive(&self, compiler: Compiler, arguments: &str) {
        let mut command = self.scratch.command(compiler.archiver);
        command.args(arguments.split_whitespace());
        repo_tests::process::run(&mut command).ok();
    }

    /// Whether the symbol table of a program has the name.
    fn has_symbol(&self, program: &str, name: &str) -> bool {
        let image = self.read(program);
        let elf = Elf::parse(&image).unwrap();
        elf.syms
            .iter()
            .any(|symbol| symbol.st_shndx != 0 && elf.strtab.get_at(symbol.st_name) == Some(name))
    }
}

#[test]
fn across_files_and_languages() {
    for compiler in compilers() {
        let bench = Bench::new().unwrap();
        bench.scratch.write(
            "main.cpp",
            r#"
            #include <cstdio>
            #include <stdexcept>
            #include <string>
            #include <vector>
            extern "C" int from_c(int);
            int thrower(int n);
            int main() {
                std::vector<std::string> words = {"a", "b"};
                words.push_back(std::to_string(from_c(20)));
                try { thrower(3); } catch (const std::runtime_error &e) { words.push_back(e.what()); }
                for (auto &word : words) std::printf("%s ", word.c_str());
            }"#,
        );
        bench.scratch.write(
            "throw.cpp",
            r#"
            #include <stdexcept>
            #include <string>
            struct Guard { ~Guard() { std::fputs("guard ", stdout); } };
            int thrower(int n) { Guard g; if (n == 3) throw std::runtime_error("thrown " + std::to_string(n)); return n; }"#
                .replace("#include <stdexcept>", "#include <cstdio>\n#include <stdexcept>"),
        );
        bench.scratch.write(
            "part.c",
            "int never_called(int n) { return n; } int from_c(int n) { return n * 2 + 2; }",
        );
        bench.cc(compiler.cxx, "-O2 -flto -c main.cpp throw.cpp");
        bench.cc(compiler.c, "-O2 -flto -c part.c");
        for options in ["", "-static", "-fno-pie -no-pie", "-O0"] {
            let line = format!("-flto {options} main.o throw.o part.o");
            bench.same_behaviour(compiler.cxx, &line);
            assert_eq!(
                bench.execute("program.Ours").text(),
                "guard a b 42 thrown 3 "
            );
        }
        // Nobody else can call it, and nobody does.
        assert!(!bench.has_symbol("program.Ours", "never_called"));
    }
}

#[test]
fn machine_code_beside_intermediate_code() {
    for compiler in compilers() {
        let bench = Bench::new().unwrap();
        bench.scratch.write(
            "main.c",
            r#"
            #include <stdio.h>
            int native(int); int weak_here(void); int common_block; extern int strong_there;
            int called_by_native(int n) { return n + 1; }
            int only_here(int n) { return n + 100; }
            int main(void) {
                int first = native(1);
                printf("%d %d %d %d\n", first, weak_here(), strong_there, only_here(common_block));
            }"#,
        );
        bench.scratch.write(
            "native.c",
            r#"
            int called_by_native(int); int common_block; int strong_there = 7;
            __attribute__((weak)) int weak_here(void) { return 3; }
            int native(int n) { common_block = 5; return called_by_native(n) * 10; }"#,
        );
        bench
            .scratch
            .write("weak.c", "int weak_here(void) { return 4; }");
        bench.cc(compiler.c, "-O2 -flto -fcommon -c main.c weak.c");
        bench.cc(compiler.c, "-O2 -fcommon -fno-lto -c native.c");
        for order in ["main.o native.o weak.o", "native.o weak.o main.o"] {
            bench.same_behaviour(compiler.c, &format!("-flto -O2 {order}"));
            assert_eq!(bench.execute("program.Ours").text(), "20 4 7 105\n");
        }
    }
}

#[test]
fn members_of_archives() {
    for compiler in compilers() {
        let bench = Bench::new().unwrap();
        bench.scratch.write(
            "main.c",
            r#"
            #include <stdio.h>
            int a(int); int native(int);
            int main(void) { printf("main %d %d\n", a(1), native(2)); return 0; }"#,
        );
        bench
            .scratch
            .write("a.c", "int b(int); int a(int n) { return b(n) + 1; }");
        bench
            .scratch
            .write("b.c", "int b(int n) { return n * 10; }");
        // Not asked for: what it would do at the start must not happen.
        bench.scratch.write(
            "unused.c",
            r#"
            #include <stdio.h>
            int unused_one(void) { return 0; }
            __attribute__((constructor)) static void start(void) { puts("must not run"); }"#,
        );
        // Machine code that asks for intermediate code in the same archive.
        bench.scratch.write(
            "native.c",
            "int back(int); int native(int n) { return back(n); }",
        );
        bench
            .scratch
            .write("back.c", "int back(int n) { return n + 1000; }");
        bench.cc(compiler.c, "-O2 -flto -c main.c a.c b.c unused.c back.c");
        bench.cc(compiler.c, "-O2 -fno-lto -c native.c");
        bench.archive(compiler, "rcs libx.a unused.o b.o a.o back.o native.o");
        bench.archive(compiler, "rcsT libthin.a unused.o b.o a.o back.o native.o");
        for archive in [
            "libx.a",
            "libthin.a",
            "-Wl,--start-lib unused.o b.o a.o back.o native.o -Wl,--end-lib",
        ] {
            let run = bench.driver(
                Linker::Ours,
                compiler.c,
                &format!("-flto -O2 main.o {archive} -o program"),
            );
            run.ok();
            assert_eq!(
                bench.execute("program").text(),
                "main 11 1002\n",
                "{archive}"
            );
            assert!(!bench.has_symbol("program", "unused_one"));
        }
        bench
            .driver(
                Linker::Ours,
                compiler.c,
                "-flto main.o -Wl,--whole-archive libx.a -Wl,--no-whole-archive -o program",
            )
            .ok();
        assert_eq!(
            bench.execute("program").text(),
            "must not run\nmain 11 1002\n"
        );
    }
}

/// Code that the compiler adds asks for a member that nothing asked for before, and that needs what is in the
/// intermediate code: it must not have gone.
#[test]
fn members_that_only_the_new_code_asks_for() {
    for compiler in compilers() {
        let bench = Bench::new().unwrap();
        bench.scratch.write(
            "main.c",
            r#"
            #include <stdio.h>
            volatile long long low = 21, divisor = 7;
            int counted;
            __attribute__((noinline)) void count(void) { counted++; }
            int main(void) { __int128 a = low, b = divisor; printf("%d ", (int)(a / b)); printf("%d\n", counted); return 0; }"#,
        );
        bench.scratch.write(
            "divide.c",
            r#"
            void count(void);
            __int128 __divti3(__int128 a, __int128 b) { count(); return (long long)a / (long long)b + 1; }"#,
        );
        bench.cc(compiler.c, "-O2 -flto -c main.c");
        bench.cc(compiler.c, "-O2 -c divide.c");
        bench.archive(compiler, "rcs libdivide.a divide.o");
        bench
            .driver(
                Linker::Ours,
                compiler.c,
                "-O2 -flto main.o libdivide.a -o program",
            )
            .ok();
        assert_eq!(bench.execute("program").text(), "4 1\n");
    }
}

#[test]
fn shared_objects() {
    for compiler in compilers() {
        let bench = Bench::new().unwrap();
        bench.scratch.write(
            "lib.c",
            r#"
            int callback(int);
            int hidden_helper(int n) { return callback(n) + 1; }
            int api(int n) { return hidden_helper(n) * 2; }
            int not_in_script(void) { return 1; }"#,
        );
        bench
            .scratch
            .write("lib.map", "V1 { global: api; local: *; };");
        bench.scratch.write(
            "main.c",
            r#"
            #include <stdio.h>
            int api(int);
            int callback(int n) { return n + 5; }
            int unneeded(int n) { return n; }
            int main(void) { printf("%d\n", api(1)); return 0; }"#,
        );
        bench.cc(compiler.c, "-O2 -flto -fPIC -c lib.c");
        bench.cc(compiler.c, "-O2 -flto -c main.c");
        let images = BOTH.map(|linker| {
            let line = "-shared -flto lib.o -Wl,--version-script=lib.map -Wl,-soname,liblto.so -o liblto.so";
            bench.driver(linker, compiler.c, line).ok();
            // `callback` is used by the library only, and must be found there at run time.
            bench.same_behaviour(compiler.c, "-flto main.o -L. -llto");
            assert_eq!(bench.execute("program.Ours").text(), "14\n");
            assert!(!bench.has_symbol("program.Ours", "unneeded"));
            let program = bench.read("program.Ours");
            assert!(needed(&Elf::parse(&program).unwrap()).contains(&"liblto.so".to_owned()));
            bench.read("liblto.so")
        });
        let [theirs, ours] = images
            .each_ref()
            .map(|image| exports(&Elf::parse(image).unwrap()));
        let names = |set: &std::collections::BTreeSet<(String, u8)>| -> Vec<String> {
            set.iter()
                .map(|(name, _)| name.clone())
                .filter(|name| name != "V1")
                .collect()
        };
        assert_eq!(names(&theirs), names(&ours));
        assert!(
            names(&ours).contains(&"api".to_owned())
                && !names(&ours).contains(&"not_in_script".to_owned())
        );
    }
}

/// What the command line says of a symbol counts as a use.
#[test]
fn symbols_of_the_command_line() {
    for compiler in compilers() {
        let bench = Bench::new().unwrap();
        bench.scratch.write(
            "main.c",
            r#"
            #include <stdio.h>
            int by_defsym(void) { return 11; }
            int by_undefined(void) { return 12; }
            int by_list(void) { return 13; }
            int by_nobody(void) { return 14; }
            int alias(void);
            int main(void) { printf("%d\n", alias()); return 0; }"#,
        );
        bench.cc(compiler.c, "-O2 -flto -c main.c");
        bench.scratch.write("list", "{ by_list; };");
        bench
            .driver(
                Linker::Ours,
                compiler.c,
                "-flto main.o -Wl,--defsym=alias=by_defsym -Wl,-u,by_undefined -Wl,--dynamic-list=list -o program",
            )
            .ok();
        assert_eq!(bench.execute("program").text(), "11\n");
        assert!(bench.has_symbol("program", "by_undefined"));
        assert!(bench.has_symbol("program", "by_list"));
        assert!(!bench.has_symbol("program", "by_nobody"));

        bench.scratch.write("a.c", "int __wrap_f(void); int f(void); int main(void) { return f(); } int __wrap_f(void) { return 3; }");
        bench.scratch.write("f.c", "int f(void) { return 4; }");
        bench.cc(compiler.c, "-O2 -flto -c a.c");
        bench.cc(compiler.c, "-O2 -c f.c");
        bench
            .driver(
                Linker::Ours,
                compiler.c,
                "-flto a.o f.o -Wl,--wrap=f -o program",
            )
            .ok();
        assert_eq!(bench.execute("program").status.code(), Some(3));
    }
}

#[test]
fn objects_with_both_kinds_of_code() {
    let bench = Bench::new().unwrap();
    for compiler in compilers() {
        bench
            .scratch
            .write("main.c", "int f(void); int main(void) { return f(); }");
        bench.scratch.write(
            "f.c",
            "int f(void) { return 9; } int dropped(void) { return 1; }",
        );
        bench.cc(compiler.c, "-O2 -flto -ffat-lto-objects -c main.c f.c");
        bench
            .driver(Linker::Ours, compiler.c, "-O2 -flto main.o f.o -o program")
            .ok();
        assert_eq!(bench.execute("program").status.code(), Some(9));
        assert!(!bench.has_symbol("program", "dropped"), "{}", compiler.c);
        // Without a plugin the machine code is linked.
        bench
            .driver(
                Linker::Ours,
                compiler.c,
                "-O2 -fno-lto main.o f.o -o program",
            )
            .ok();
        assert_eq!(bench.execute("program").status.code(), Some(9));
        assert!(bench.has_symbol("program", "dropped"));
    }
}

#[test]
fn thin_link_time_optimisation() {
    for compiler in compilers()
        .into_iter()
        .filter(|compiler| compiler.c == CLANG.c)
    {
        let bench = Bench::new().unwrap();
        bench.scratch.write(
            "main.c",
            "#include <stdio.h>\nint f(int); int main(void) { printf(\"%d\\n\", f(1)); return 0; }",
        );
        bench.scratch.write("f.c", "static int s; int g(int); int f(int n) { s += n; return g(s); } int dropped(void) { return 1; }");
        bench.scratch.write(
            "g.c",
            "static int s = 4; int g(int n) { s *= 3; return s + n; }",
        );
        bench.cc(compiler.c, "-O2 -flto=thin -c main.c f.c g.c");
        bench.same_behaviour(compiler.c, "-O2 -flto=thin main.o f.o g.o");
        assert_eq!(bench.execute("program.Ours").text(), "13\n");
        assert!(!bench.has_symbol("program.Ours", "dropped"));
    }
}

#[test]
fn what_goes_wrong_is_said() {
    for compiler in compilers() {
        let bench = Bench::new().unwrap();
        bench.scratch.write(
            "a.c",
            "int f(void) { return 1; } int main(void) { return f(); }",
        );
        bench.scratch.write("b.c", "int f(void) { return 2; }");
        bench.scratch.write(
            "u.c",
            "int nowhere(void); int main(void) { return nowhere(); }",
        );
        bench.cc(compiler.c, "-O2 -flto -c a.c b.c u.c");
        for (line, words) in [
            (
                "-flto a.o b.o -o no",
                &["duplicate symbol", "a.o", "b.o"][..],
            ),
            ("-flto u.o -o no", &["undefined", "nowhere"]),
            ("-flto a.o -Wl,-plugin,nowhere.so -o no", &["nowhere.so"]),
            ("-fno-lto a.o -o no", &["a.o"]),
        ] {
            let run = bench.driver(Linker::Ours, compiler.c, line).failed();
            for word in words {
                assert!(
                    run.errors().contains(word),
                    "{line}: no '{word}' in {}",
                    run.errors()
                );
            }
            assert!(!bench.path("no").exists(), "{line}");
        }
    }
}

/// An ordinary link does not load the plugin that gcc always names.
#[test]
fn the_plugin_is_loaded_only_for_intermediate_code() {
    let Some(bench) = Bench::new() else { return };
    bench
        .scratch
        .write("main.c", "int main(void) { return 6; }");
    bench.cc("gcc", "-fno-lto -c main.c");
    let line = "-fno-lto main.o -Wl,-plugin,nowhere.so -o program";
    bench.driver(Linker::Ours, "gcc", line).ok();
    assert_eq!(bench.execute("program").status.code(), Some(6));
}

#[test]
fn through_the_compile_command() {
    for compiler in compilers() {
        let bench = Bench::new().unwrap();
        bench
            .scratch
            .write("main.c", "int f(void); int main(void) { return f(); }");
        bench.scratch.write(
            "f.c",
            "int f(void) { return 9; } int dropped(void) { return 1; }",
        );
        bench
            .scratch
            .write("plain.c", "int plain(void) { return 1; }");
        let log = bench.path("log");
        let repo_cc = |arguments: &str| {
            let mut command = bench.scratch.command(Binaries::get().path("repo-cc"));
            command.env("REPO_LOG", &log).arg(compiler.c);
            command.args(arguments.split_whitespace());
            repo_tests::process::run(&mut command).ok();
        };
        repo_cc("-O2 -flto -c main.c f.c");
        repo_cc("-O2 -c plain.c");
        assert!(!repo_tests::compare::is_ticket_file(bench.path("f.o")));
        assert!(repo_tests::compare::is_ticket_file(bench.path("plain.o")));
        repo_cc("-O2 -flto main.o f.o plain.o -o program");
        assert_eq!(bench.execute("program").status.code(), Some(9));
        assert!(!bench.has_symbol("program", "dropped"));
        let log = std::fs::read_to_string(log).unwrap();
        assert!(log.contains("links with repo-ld"), "{log}");
    }
}
