//! Link-time optimisation through the compilers' plugins: gcc's `liblto_plugin.so` and
//! LLVM's `LLVMgold.so`. What a plugin compiles depends on what the linker answers it, so
//! the programs here fail to link, or say something else, if an answer is wrong.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::Elf;
use linking::{BOTH, Bench, Linker, exports, needed};
use repo_tests::binaries::Binaries;
use repo_tests::process::run;
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
            for program in [compiler.c, compiler.archiver] {
                if tools::on_path(program).is_none() {
                    tools::skip(program);
                    return false;
                }
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

/// A compiler, and a directory to build in.
struct Lto {
    compiler: Compiler,
    bench: Bench,
}

/// Runs `test` once for each compiler, in a directory of its own.
fn with_each_compiler(test: impl Fn(&Lto)) {
    for compiler in compilers() {
        let bench = Bench::new().expect("as when the compilers were looked for");
        test(&Lto { compiler, bench });
    }
}

impl Lto {
    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        self.bench.scratch.write(name, text);
    }

    fn cc(&self, arguments: &str) {
        self.compile(self.compiler.c, arguments);
    }

    fn cxx(&self, arguments: &str) {
        self.compile(self.compiler.cxx, arguments);
    }

    fn compile(&self, driver: &str, arguments: &str) {
        self.bench.driver(Linker::Reference, driver, arguments).ok();
    }

    fn archive(&self, arguments: &str) {
        let mut command = self.bench.scratch.command(self.compiler.archiver);
        run(command.args(arguments.split_whitespace())).ok();
    }

    /// Links `program` with `repo-ld`.
    fn link(&self, arguments: &str) {
        let line = format!("{arguments} -o program");
        self.bench.driver(Linker::Ours, self.compiler.c, &line).ok();
    }

    /// Links with both linkers; both programs say `text`.
    #[track_caller]
    fn both_say(&self, driver: &str, arguments: &str, text: &str) {
        self.bench.same_behaviour(driver, arguments);
        assert_eq!(self.bench.execute("program.Ours").text(), text);
    }

    /// What `program` prints.
    fn said(&self) -> String {
        self.bench.execute("program").text()
    }

    /// The exit code of `program`.
    fn code(&self) -> Option<i32> {
        self.bench.execute("program").status.code()
    }

    /// Whether the symbol table of a program has the name.
    fn has_symbol(&self, program: &str, name: &str) -> bool {
        let image = self.bench.read(program);
        let elf = Elf::parse(&image).unwrap();
        elf.syms
            .iter()
            .any(|symbol| symbol.st_shndx != 0 && elf.strtab.get_at(symbol.st_name) == Some(name))
    }
}

#[test]
fn across_files_and_languages() {
    with_each_compiler(|lto| {
        lto.write(
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
        lto.write(
            "throw.cpp",
            r#"
            #include <stdexcept>
            #include <string>
            struct Guard { ~Guard() { std::fputs("guard ", stdout); } };
            int thrower(int n) { Guard g; if (n == 3) throw std::runtime_error("thrown " + std::to_string(n)); return n; }"#
                .replace("#include <stdexcept>", "#include <cstdio>\n#include <stdexcept>"),
        );
        lto.write(
            "part.c",
            "int never_called(int n) { return n; } int from_c(int n) { return n * 2 + 2; }",
        );
        lto.cxx("-O2 -flto -c main.cpp throw.cpp");
        lto.cc("-O2 -flto -c part.c");
        for options in ["", "-static", "-fno-pie -no-pie", "-O0"] {
            let line = format!("-flto {options} main.o throw.o part.o");
            lto.both_say(lto.compiler.cxx, &line, "guard a b 42 thrown 3 ");
        }
        // Nobody else can call it, and nobody does.
        assert!(!lto.has_symbol("program.Ours", "never_called"));
    });
}

#[test]
fn machine_code_beside_intermediate_code() {
    with_each_compiler(|lto| {
        lto.write(
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
        lto.write(
            "native.c",
            r#"
            int called_by_native(int); int common_block; int strong_there = 7;
            __attribute__((weak)) int weak_here(void) { return 3; }
            int native(int n) { common_block = 5; return called_by_native(n) * 10; }"#,
        );
        lto.write("weak.c", "int weak_here(void) { return 4; }");
        lto.cc("-O2 -flto -fcommon -c main.c weak.c");
        lto.cc("-O2 -fcommon -fno-lto -c native.c");
        for order in ["main.o native.o weak.o", "native.o weak.o main.o"] {
            lto.both_say(
                lto.compiler.c,
                &format!("-flto -O2 {order}"),
                "20 4 7 105\n",
            );
        }
    });
}

/// gcc's driver asks for libraries with `-r`, too, which only the final link can have. Of intermediate code alone it makes
/// intermediate code again, and of a mixture machine code.
#[test]
fn objects_that_are_united_first() {
    with_each_compiler(|lto| {
        lto.write(
            "main.c",
            r#"
            #include <stdio.h>
            int half(int); int native(int);
            int main(void) { printf("%d %d\n", half(84), native(1)); }"#,
        );
        lto.write(
            "half.c",
            "int double_it(int); int half(int n) { return double_it(n) / 4; }",
        );
        lto.write("double.c", "int double_it(int n) { return n * 2; }");
        lto.write("native.c", "int native(int n) { return n + 6; }");
        lto.cc("-O2 -flto -g -c main.c half.c double.c");
        lto.cc("-O2 -fno-lto -c native.c");
        for (united, others) in [
            ("half.o double.o", "main.o native.o"),
            ("main.o half.o double.o", "native.o"),
            ("half.o native.o double.o", "main.o"),
            ("native.o main.o half.o double.o", ""),
        ] {
            let line = format!("-flto -O2 -r {united} -o united.o");
            lto.bench.driver(Linker::Ours, lto.compiler.c, &line).ok();
            let line = format!("-flto -O2 united.o {others}");
            lto.both_say(lto.compiler.c, &line, "42 7\n");
        }
    });
}

#[test]
fn members_of_archives() {
    with_each_compiler(|lto| {
        lto.write(
            "main.c",
            r#"
            #include <stdio.h>
            int a(int); int native(int);
            int main(void) { printf("main %d %d\n", a(1), native(2)); return 0; }"#,
        );
        lto.write("a.c", "int b(int); int a(int n) { return b(n) + 1; }");
        lto.write("b.c", "int b(int n) { return n * 10; }");
        // Not asked for: what it would do at the start must not happen.
        lto.write(
            "unused.c",
            r#"
            #include <stdio.h>
            int unused_one(void) { return 0; }
            __attribute__((constructor)) static void start(void) { puts("must not run"); }"#,
        );
        // Machine code that asks for intermediate code in the same archive.
        lto.write(
            "native.c",
            "int back(int); int native(int n) { return back(n); }",
        );
        lto.write("back.c", "int back(int n) { return n + 1000; }");
        lto.cc("-O2 -flto -c main.c a.c b.c unused.c back.c");
        lto.cc("-O2 -fno-lto -c native.c");
        lto.archive("rcs libx.a unused.o b.o a.o back.o native.o");
        lto.archive("rcsT libthin.a unused.o b.o a.o back.o native.o");
        for archive in [
            "libx.a",
            "libthin.a",
            "-Wl,--start-lib unused.o b.o a.o back.o native.o -Wl,--end-lib",
        ] {
            lto.link(&format!("-flto -O2 main.o {archive}"));
            assert_eq!(lto.said(), "main 11 1002\n", "{archive}");
            assert!(!lto.has_symbol("program", "unused_one"));
        }
        lto.link("-flto main.o -Wl,--whole-archive libx.a -Wl,--no-whole-archive");
        assert_eq!(lto.said(), "must not run\nmain 11 1002\n");
    });
}

/// Code that the compiler adds asks for a member that nothing asked for before, and that needs what is in the
/// intermediate code: it must not have gone.
#[test]
fn members_that_only_the_new_code_asks_for() {
    with_each_compiler(|lto| {
        lto.write(
            "main.c",
            r#"
            #include <stdio.h>
            volatile long long low = 21, divisor = 7;
            int counted;
            __attribute__((noinline)) void count(void) { counted++; }
            int main(void) { __int128 a = low, b = divisor; printf("%d ", (int)(a / b)); printf("%d\n", counted); return 0; }"#,
        );
        lto.write(
            "divide.c",
            r#"
            void count(void);
            __int128 __divti3(__int128 a, __int128 b) { count(); return (long long)a / (long long)b + 1; }"#,
        );
        lto.cc("-O2 -flto -c main.c");
        lto.cc("-O2 -c divide.c");
        lto.archive("rcs libdivide.a divide.o");
        lto.link("-O2 -flto main.o libdivide.a");
        assert_eq!(lto.said(), "4 1\n");
    });
}

#[test]
fn shared_objects() {
    with_each_compiler(|lto| {
        lto.write(
            "lib.c",
            r#"
            int callback(int);
            int hidden_helper(int n) { return callback(n) + 1; }
            int api(int n) { return hidden_helper(n) * 2; }
            int not_in_script(void) { return 1; }"#,
        );
        lto.write("lib.map", "V1 { global: api; local: *; };");
        lto.write(
            "main.c",
            r#"
            #include <stdio.h>
            int api(int);
            int callback(int n) { return n + 5; }
            int unneeded(int n) { return n; }
            int main(void) { printf("%d\n", api(1)); return 0; }"#,
        );
        lto.cc("-O2 -flto -fPIC -c lib.c");
        lto.cc("-O2 -flto -c main.c");
        let images = BOTH.map(|linker| {
            let line = "-shared -flto lib.o -Wl,--version-script=lib.map -Wl,-soname,liblto.so -o liblto.so";
            lto.bench.driver(linker, lto.compiler.c, line).ok();
            // `callback` is used by the library only, and must be found there at run time.
            lto.both_say(lto.compiler.c, "-flto main.o -L. -llto", "14\n");
            assert!(!lto.has_symbol("program.Ours", "unneeded"));
            let program = lto.bench.read("program.Ours");
            assert!(needed(&Elf::parse(&program).unwrap()).contains(&"liblto.so".to_owned()));
            lto.bench.read("liblto.so")
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
    });
}

/// What the command line says of a symbol counts as a use.
#[test]
fn symbols_of_the_command_line() {
    with_each_compiler(|lto| {
        lto.write(
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
        lto.cc("-O2 -flto -c main.c");
        lto.write("list", "{ by_list; };");
        lto.link(
            "-flto main.o -Wl,--defsym=alias=by_defsym -Wl,-u,by_undefined -Wl,--dynamic-list=list",
        );
        assert_eq!(lto.said(), "11\n");
        assert!(lto.has_symbol("program", "by_undefined"));
        assert!(lto.has_symbol("program", "by_list"));
        assert!(!lto.has_symbol("program", "by_nobody"));

        lto.write("a.c", "int __wrap_f(void); int f(void); int main(void) { return f(); } int __wrap_f(void) { return 3; }");
        lto.write("f.c", "int f(void) { return 4; }");
        lto.cc("-O2 -flto -c a.c");
        lto.cc("-O2 -c f.c");
        lto.link("-flto a.o f.o -Wl,--wrap=f");
        assert_eq!(lto.code(), Some(3));
    });
}

#[test]
fn objects_with_both_kinds_of_code() {
    with_each_compiler(|lto| {
        lto.write("main.c", "int f(void); int main(void) { return f(); }");
        lto.write(
            "f.c",
            "int f(void) { return 9; } int dropped(void) { return 1; }",
        );
        lto.cc("-O2 -flto -ffat-lto-objects -c main.c f.c");
        lto.link("-O2 -flto main.o f.o");
        assert_eq!(lto.code(), Some(9));
        assert!(!lto.has_symbol("program", "dropped"), "{}", lto.compiler.c);
        // Without a plugin the machine code is linked.
        lto.link("-O2 -fno-lto main.o f.o");
        assert_eq!(lto.code(), Some(9));
        assert!(lto.has_symbol("program", "dropped"));
    });
}

#[test]
fn thin_link_time_optimisation() {
    with_each_compiler(|lto| {
        if lto.compiler.c != CLANG.c {
            return;
        }
        lto.write(
            "main.c",
            "#include <stdio.h>\nint f(int); int main(void) { printf(\"%d\\n\", f(1)); return 0; }",
        );
        lto.write("f.c", "static int s; int g(int); int f(int n) { s += n; return g(s); } int dropped(void) { return 1; }");
        lto.write(
            "g.c",
            "static int s = 4; int g(int n) { s *= 3; return s + n; }",
        );
        lto.cc("-O2 -flto=thin -c main.c f.c g.c");
        lto.both_say(lto.compiler.c, "-O2 -flto=thin main.o f.o g.o", "13\n");
        assert!(!lto.has_symbol("program.Ours", "dropped"));
    });
}

#[test]
fn what_goes_wrong_is_said() {
    with_each_compiler(|lto| {
        lto.write(
            "a.c",
            "int f(void) { return 1; } int main(void) { return f(); }",
        );
        lto.write("b.c", "int f(void) { return 2; }");
        lto.write(
            "u.c",
            "int nowhere(void); int main(void) { return nowhere(); }",
        );
        lto.cc("-O2 -flto -c a.c b.c u.c");
        for (line, words) in [
            (
                "-flto a.o b.o -o no",
                &["duplicate symbol", "a.o", "b.o"][..],
            ),
            ("-flto u.o -o no", &["undefined", "nowhere"]),
            ("-flto a.o -Wl,-plugin,nowhere.so -o no", &["nowhere.so"]),
            ("-fno-lto a.o -o no", &["a.o"]),
        ] {
            let run = lto
                .bench
                .driver(Linker::Ours, lto.compiler.c, line)
                .failed();
            for word in words {
                assert!(
                    run.errors().contains(word),
                    "{line}: no '{word}' in {}",
                    run.errors()
                );
            }
            assert!(!lto.bench.path("no").exists(), "{line}");
        }
    });
}

/// An ordinary link does not load the plugin that gcc always names.
#[test]
fn the_plugin_is_loaded_only_for_intermediate_code() {
    let Some(bench) = Bench::new() else { return };
    bench
        .scratch
        .write("main.c", "int main(void) { return 6; }");
    bench
        .driver(Linker::Reference, "gcc", "-fno-lto -c main.c")
        .ok();
    let line = "-fno-lto main.o -Wl,-plugin,nowhere.so -o program";
    bench.driver(Linker::Ours, "gcc", line).ok();
    assert_eq!(bench.execute("program").status.code(), Some(6));
}

#[test]
fn through_the_compile_command() {
    with_each_compiler(|lto| {
        lto.write("main.c", "int f(void); int main(void) { return f(); }");
        lto.write(
            "f.c",
            "int f(void) { return 9; } int dropped(void) { return 1; }",
        );
        lto.write("plain.c", "int plain(void) { return 1; }");
        let log = lto.bench.path("log");
        let repo_cc = |arguments: &str| {
            let mut command = lto.bench.scratch.command(Binaries::get().path("repo-cc"));
            command.env("REPO_LOG", &log).arg(lto.compiler.c);
            command.args(arguments.split_whitespace());
            run(&mut command).ok();
        };
        repo_cc("-O2 -flto -c main.c f.c");
        repo_cc("-O2 -c plain.c");
        assert!(!repo_tests::compare::is_ticket_file(lto.bench.path("f.o")));
        assert!(repo_tests::compare::is_ticket_file(
            lto.bench.path("plain.o")
        ));
        repo_cc("-O2 -flto main.o f.o plain.o -o program");
        assert_eq!(lto.code(), Some(9));
        assert!(!lto.has_symbol("program", "dropped"));
        let log = std::fs::read_to_string(log).unwrap();
        assert!(log.contains("links with repo-ld"), "{log}");
    });
}
