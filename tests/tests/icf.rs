//! Identical code folding: `--icf=all` and `--icf=safe`, from objects and from tickets.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::Elf;
use linking::{Bench, Linker};
use repo_tests::binaries::Binaries;
use repo_tests::process::run;
use repo_tests::tools;
use std::collections::BTreeMap;

/// The functions of a program by name: address and size.
fn functions(bench: &Bench, program: &str) -> BTreeMap<String, (u64, u64)> {
    let image = bench.read(program);
    let elf = Elf::parse(&image).unwrap();
    elf.syms
        .iter()
        .filter(|symbol| symbol.is_function() && symbol.st_shndx != 0)
        .map(|symbol| {
            let name = elf.strtab.get_at(symbol.st_name).unwrap_or("").to_owned();
            (name, (symbol.st_value, symbol.st_size))
        })
        .collect()
}

fn size_of(bench: &Bench, program: &str, section: &str) -> u64 {
    let image = bench.read(program);
    let elf = Elf::parse(&image).unwrap();
    elf.section_headers
        .iter()
        .find(|header| elf.shdr_strtab.get_at(header.sh_name) == Some(section))
        .map_or(0, |header| header.sh_size)
}

/// Compiles `sources` to objects, or to tickets, and links them with `repo-ld`. (At `-O2` gcc folds within a file itself.)
fn build(bench: &Bench, compiler: &str, sources: &[&str], options: &str, tickets: bool) {
    let mut objects = Vec::new();
    for source in sources {
        let object = format!("{source}.o");
        let line = format!("-O1 -ffunction-sections -fdata-sections -c {source} -o {object}");
        match tickets {
            false => drop(bench.driver(Linker::Reference, compiler, &line).ok()),
            true => {
                let mut command = bench.scratch.command(Binaries::get().path("repo-cc"));
                command.arg(compiler).args(line.split_whitespace());
                run(&mut command).ok();
                assert!(repo_tests::compare::is_ticket_file(bench.path(&object)));
            }
        }
        objects.push(object);
    }
    let line = format!("{} {options} -o program", objects.join(" "));
    bench.driver(Linker::Ours, compiler, &line).ok();
    linking::check_image(&bench.read("program"));
}

const SAME: &str = r#"
    #include <stdio.h>
    static int counter;
    __attribute__((noinline)) int called_a(int n) { counter += n; return n * 31 + 7; }
    __attribute__((noinline)) int called_b(int n) { counter += n; return n * 31 + 7; }
    __attribute__((noinline)) int outer_a(int n) { return called_a(n) * 5; }
    __attribute__((noinline)) int outer_b(int n) { return called_b(n) * 5; }
    __attribute__((noinline)) int even_a(unsigned n); 
    __attribute__((noinline)) int odd_a(unsigned n) { if (n == 0) return 0; counter++; return even_a(n - 1) + 3; }
    __attribute__((noinline)) int even_a(unsigned n) { if (n == 0) return 1; counter++; return odd_a(n - 1) * 3; }
    __attribute__((noinline)) int even_b(unsigned n);
    __attribute__((noinline)) int odd_b(unsigned n) { if (n == 0) return 0; counter++; return even_b(n - 1) + 3; }
    __attribute__((noinline)) int even_b(unsigned n) { if (n == 0) return 1; counter++; return odd_b(n - 1) * 3; }
    __attribute__((noinline)) int differs(int n) { counter += n; return n * 31 + 8; }
    __attribute__((noinline)) int taken_a(int n) { return n ^ 0x55aa; }
    __attribute__((noinline)) int taken_b(int n) { return n ^ 0x55aa; }
    __attribute__((noinline)) void says_a(void) { puts("one"); }
    __attribute__((noinline)) void says_b(void) { puts("two"); }
    int (*volatile pa)(int) = taken_a, (*volatile pb)(int) = taken_b;
    int main(void) {
        printf("%d %d %d %d %d %d %d ", called_a(1), called_b(2), outer_a(3), outer_b(4), even_a(5), even_b(6), differs(1));
        printf("%d %d %d %d\n", odd_a(4), odd_b(4), pa(1), pb(1));
        says_a(); says_b();
        return pa == pb;
    }"#;
const SAID: &str = "38 69 500 655 ";

#[test]
fn what_is_the_same_is_one() {
    for compiler in ["gcc", "clang-19"] {
        if tools::on_path(compiler).is_none() {
            tools::skip(compiler);
            continue;
        }
        for tickets in [false, true] {
            for options in ["", "-static", "-Wl,--gc-sections -no-pie"] {
                let bench = Bench::new().unwrap();
                bench.scratch.write("same.c", SAME);
                build(&bench, compiler, &["same.c"], options, tickets);
                let plain = bench.execute("program");
                assert!(plain.text().starts_with(SAID), "{}", plain.text());
                assert_eq!(plain.status.code(), Some(0));
                assert!(
                    functions(&bench, "program")["called_a"]
                        != functions(&bench, "program")["called_b"]
                );

                for mode in ["safe", "all"] {
                    let case = format!("{compiler} {options} {mode}, tickets: {tickets}");
                    let line = format!("same.c.o {options} -Wl,--icf={mode} -o program");
                    bench.driver(Linker::Ours, compiler, &line).ok();
                    linking::check_image(&bench.read("program"));
                    let folded = bench.execute("program");
                    assert_eq!(folded.text(), plain.text(), "{case}");
                    let functions = functions(&bench, "program");
                    for (one, other) in [
                        ("called_a", "called_b"),
                        ("outer_a", "outer_b"),
                        ("even_a", "even_b"),
                        ("odd_a", "odd_b"),
                    ] {
                        assert_eq!(functions[one], functions[other], "{case}: {one}, {other}");
                    }
                    for (one, other) in [
                        ("called_a", "differs"),
                        ("says_a", "says_b"),
                        ("even_a", "odd_a"),
                    ] {
                        assert_ne!(
                            functions[one].0, functions[other].0,
                            "{case}: {one}, {other}"
                        );
                    }
                    // Pointers to different functions differ, unless that was given up.
                    let equal = mode == "all";
                    assert_eq!(
                        functions["taken_a"].0 == functions["taken_b"].0,
                        equal,
                        "{case}"
                    );
                    assert_eq!(folded.status.code(), Some(i32::from(equal)), "{case}");
                }
            }
        }
    }
}

/// Functions of different files that refer to equal strings, and exceptions through what was folded.
#[test]
fn across_files_and_with_exceptions() {
    let Some(bench) = Bench::new() else { return };
    let half = |name: &str, other: &str| {
        format!(
            r#"
            #include <cstdio>
            #include <stdexcept>
            #include <string>
            {other}
            struct Guard {{ ~Guard() {{ std::fputs("unwound ", stdout); }} }};
            __attribute__((noinline)) int throws_{name}(int n) {{
                Guard guard;
                if (n > 2) throw std::runtime_error("too large");
                std::puts("small");
                return n;
            }}
            __attribute__((noinline)) int catches_{name}(int n) {{
                try {{ return throws_{name}(n); }}
                catch (const std::runtime_error &error) {{ std::puts(error.what()); return -1; }}
            }}
            __attribute__((noinline)) int catches_other_{name}(int n) {{
                try {{ return throws_{name}(n); }}
                catch (const std::{error} &error) {{ return -2; }}
                catch (...) {{ return -3; }}
            }}"#,
            error = if name == "a" {
                "logic_error"
            } else {
                "runtime_error"
            },
        )
    };
    bench.scratch.write("a.cpp", half("a", ""));
    bench.scratch.write(
        "b.cpp",
        half("b", "int catches_a(int); int catches_other_a(int);")
            + r#"
            int main() {
                for (int n : {1, 5}) {
                    std::printf("%d %d ", catches_a(n), catches_b(n));
                    std::printf("%d %d\n", catches_other_a(n), catches_other_b(n));
                }
            }"#,
    );
    for tickets in [false, true] {
        for options in ["", "-static"] {
            build(&bench, "g++", &["a.cpp", "b.cpp"], options, tickets);
            let plain = bench.execute("program").ok().text();
            let unfolded = size_of(&bench, "program", ".eh_frame");
            build(
                &bench,
                "g++",
                &["a.cpp", "b.cpp"],
                &format!("{options} -Wl,--icf=all"),
                tickets,
            );
            assert_eq!(bench.execute("program").ok().text(), plain);
            let functions = functions(&bench, "program");
            assert_eq!(functions["_Z8throws_ai"], functions["_Z8throws_bi"]);
            assert_eq!(functions["_Z9catches_ai"], functions["_Z9catches_bi"]);
            // The same code, but other exceptions are caught.
            assert_ne!(
                functions["_Z15catches_other_ai"].0,
                functions["_Z15catches_other_bi"].0
            );
            assert!(size_of(&bench, "program", ".eh_frame") < unfolded);
        }
    }
}

/// What other modules can see keeps its address in safe mode, and a definition that can be preempted is still called by
/// its name.
#[test]
fn shared_objects() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "lib.c",
        r#"
        int seen_a(int n) { return n * 3 + 1; }
        int seen_b(int n) { return n * 3 + 1; }
        __attribute__((visibility("hidden"), noinline)) int inner_a(int n) { return n * 7 + 1; }
        __attribute__((visibility("hidden"), noinline)) int inner_b(int n) { return n * 7 + 1; }
        int calls_a(int n) { return seen_a(n) + inner_a(n); }
        int calls_b(int n) { return seen_b(n) + inner_b(n); }"#,
    );
    bench.scratch.write(
        "main.c",
        r#"
        #include <stdio.h>
        int calls_a(int); int calls_b(int);
        int seen_b(int n) { return 1000; }
        int main(void) { printf("%d %d\n", calls_a(1), calls_b(1)); return 0; }"#,
    );
    bench
        .driver(
            Linker::Reference,
            "gcc",
            "-O1 -fPIC -ffunction-sections -c lib.c",
        )
        .ok();
    bench.driver(Linker::Reference, "gcc", "-O1 -c main.c").ok();
    for mode in ["safe", "all"] {
        let line = format!("-shared lib.o -Wl,--icf={mode} -o libicf.so");
        bench.driver(Linker::Ours, "gcc", &line).ok();
        bench
            .driver(Linker::Ours, "gcc", "main.o -L. -licf -o program")
            .ok();
        assert_eq!(bench.execute("program").text(), "12 1008\n", "{mode}");
        let functions = functions(&bench, "libicf.so");
        assert_eq!(functions["inner_a"].0, functions["inner_b"].0, "{mode}");
        assert_eq!(
            functions["seen_a"].0 == functions["seen_b"].0,
            mode == "all"
        );
        assert_ne!(functions["calls_a"].0, functions["calls_b"].0, "{mode}");
    }
}

#[test]
fn what_was_folded_is_said() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("same.c", SAME);
    bench
        .driver(
            Linker::Reference,
            "gcc",
            "-O1 -ffunction-sections -c same.c",
        )
        .ok();
    let line = "same.o -Wl,--icf=all,--print-icf-sections -o program";
    let said = bench.driver(Linker::Ours, "gcc", line).ok().text();
    assert!(
        said.contains("selected section same.o:(.text.called_a)"),
        "{said}"
    );
    assert!(
        said.contains("  removing identical section same.o:(.text.called_b)"),
        "{said}"
    );
    // Twice the same.
    let first = bench.read("program");
    bench.driver(Linker::Ours, "gcc", line).ok();
    assert!(first == bench.read("program"));
}
