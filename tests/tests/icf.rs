//! Identical code folding: `--icf=all`, `--icf=safe` and `--icf-thunks`, from objects and from tickets.

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
    build_with(bench, compiler, sources, "", options, tickets);
}

/// The same, with more options for the compiler, each with a space before it.
fn build_with(
    bench: &Bench,
    compiler: &str,
    sources: &[&str],
    more: &str,
    options: &str,
    tickets: bool,
) {
    let mut objects = Vec::new();
    for source in sources {
        let object = format!("{source}.o");
        let line = format!("-O1 -ffunction-sections -fdata-sections{more} -c {source} -o {object}");
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

const TAKEN: &str = r#"
    #include <cstdio>
    #include <cstdlib>
    #include <stdexcept>
    #define NOINLINE __attribute__((noinline))
    typedef int Function(int);
    struct Guard { ~Guard() { std::fputs("unwound ", stdout); } };
    extern volatile int limit;
    #define SAME(name) \
        NOINLINE int name(int n) { \
            Guard guard; \
            if (n > limit) throw std::runtime_error("too large"); \
            for (int i = 0; i < n; i++) std::printf("%d ", i * n + limit); \
            return n * 31 + 7; \
        }
    #define CHOICE(name) \
        NOINLINE int name(int n) { \
            switch (n) { \
                case 0: return limit + 11; case 1: return limit * 3; case 2: std::puts("two"); return 5; \
                case 3: return limit - 8; case 4: std::puts("four"); return limit; case 5: return 77; \
                case 6: return limit ^ 9; case 7: std::puts("seven"); return limit / 3; \
            } \
            return -1; \
        }
    // Each gives its own address, or that of another: they must not be one.
    #define SELF(name) NOINLINE Function *name(int n) { std::printf("%d ", limit + n); std::printf("%d ", n); return SAME_OF_##name; }
    SAME(taken_a) SAME(taken_b) SAME(taken_c)
    CHOICE(choice_a) CHOICE(choice_b)
    NOINLINE int small_a(int n) { return n; }
    NOINLINE int small_b(int n) { return n; }
    #define SAME_OF_gives_a taken_a
    #define SAME_OF_gives_b taken_b
    SELF(gives_a) SELF(gives_b)
    NOINLINE int calls_a(int n) { return taken_a(n) * 3; }
    NOINLINE int calls_b(int n) { return taken_b(n) * 3; }
    struct Base { NOINLINE int first(int n) { return taken_c(n) + 5 + limit; } NOINLINE int second(int n) { return taken_c(n) + 5 + limit; } };
    volatile int limit = 3;
    Function *volatile functions[] = { taken_a, taken_b, taken_c, choice_a, choice_b, small_a, small_b };
    int (Base::*volatile members[])(int) = { &Base::first, &Base::second };
    int main() {
        const int count = sizeof functions / sizeof *functions;
        for (int i = 0; i < count; i++)
            for (int j = 0; j < i; j++)
                if (functions[i] == functions[j]) { std::puts("equal"); return 1; }
        if (members[0] == members[1]) return 2;
        for (int n : {2, 5})
            for (Function *function : functions) {
                try { std::printf("%d\n", function(n)); }
                catch (const std::runtime_error &error) { std::puts(error.what()); }
            }
        Base base;
        std::printf("%d %d\n", (base.*members[0])(1), (base.*members[1])(1));
        std::printf("%d %d\n", calls_a(1), calls_b(1));
        std::printf("%d\n", gives_a(1) == functions[0] && gives_b(1) == functions[1]);
    }"#;

/// Functions whose address is compared become jumps to one of them.
#[test]
fn jumps_in_place_of_functions_whose_address_matters() {
    for compiler in ["g++", "clang++-19"] {
        if tools::on_path(compiler).is_none() {
            tools::skip(compiler);
            continue;
        }
        for (options, protection, tickets) in [
            ("", "", false),
            ("-static", " -fcf-protection=full", false),
            ("-no-pie", " -fcf-protection=full", true),
            ("-Wl,--gc-sections", "", true),
        ] {
            let bench = Bench::new().unwrap();
            bench.scratch.write("taken.cpp", TAKEN);
            build_with(
                &bench,
                compiler,
                &["taken.cpp"],
                protection,
                options,
                tickets,
            );
            let plain = bench.execute("program").ok().text();
            assert!(plain.contains("too large"), "{plain}");
            let before = size_of(&bench, "program", ".text");
            let unfolded = functions(&bench, "program");

            for mode in ["safe", "all"] {
                let case = format!("{compiler}{protection} {options} {mode}, tickets: {tickets}");
                let line = format!(
                    "taken.cpp.o {options} -Wl,--icf={mode},--icf-thunks,--print-icf-sections -o program"
                );
                let said = bench.driver(Linker::Ours, compiler, &line).ok().text();
                let jump = "  leaving a jump of identical section ";
                assert!(said.contains(jump), "{case}: {said}");
                linking::check_image(&bench.read("program"));
                assert_eq!(bench.execute("program").ok().text(), plain, "{case}");
                let functions = functions(&bench, "program");
                let size = |name: &str| functions[name].1;
                let address = |name: &str| functions[name].0;
                // One has its body still.
                let group = ["_Z7taken_ai", "_Z7taken_bi", "_Z7taken_ci"];
                let whole = unfolded[group[0]].1;
                let mut sizes = group.map(size);
                sizes.sort_unstable();
                let jump = if protection.is_empty() { 5 } else { 9 };
                assert_eq!(sizes, [jump, jump, whole], "{case}");
                // What only calls them is one, as nobody asks for its address; what gives their address is not.
                assert_eq!(address("_Z7calls_ai"), address("_Z7calls_bi"), "{case}");
                assert_ne!(address("_Z7gives_ai"), address("_Z7gives_bi"), "{case}");
                // Not worth a jump.
                assert_eq!(size("_Z7small_ai"), size("_Z7small_bi"), "{case}");
                assert!(size_of(&bench, "program", ".text") < before, "{case}");
                check_frames(&bench, "program", &functions, &group);
            }
        }
    }
}

/// Each function's frame description covers what is there of it, and no more.
fn check_frames(
    bench: &Bench,
    program: &str,
    functions: &BTreeMap<String, (u64, u64)>,
    names: &[&str],
) {
    let mut command = bench.scratch.command("readelf");
    command.args(["--debug-dump=frames", "--wide", program]);
    let frames = run(&mut command).ok().text();
    for name in names {
        let (address, size) = functions[*name];
        let range = format!("pc={address:016x}..{:016x}", address + size);
        assert!(frames.contains(&range), "{name}: no {range}");
    }
}

#[test]
fn without_folding_there_are_no_jumps() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("same.c", SAME);
    let compile = "-O1 -ffunction-sections -c same.c";
    bench.driver(Linker::Reference, "gcc", compile).ok();
    let mut images = Vec::new();
    for options in [
        "",
        "-Wl,--icf-thunks",
        "-Wl,--icf=safe,--icf-thunks,--no-icf",
    ] {
        let line = format!("same.o {options} -o program");
        bench.driver(Linker::Ours, "gcc", &line).ok();
        images.push(bench.read("program"));
    }
    assert!(images[0] == images[1] && images[0] == images[2]);
}
