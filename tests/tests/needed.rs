//! Which shared objects a program needs (`--as-needed`), and programs that name no dynamic linker.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::{Elf, program_header};
use linking::{BOTH, Bench, Linker, needed};

fn shared(bench: &Bench, name: &str, source: &str, options: &str) {
    bench.scratch.write(format!("{name}.c"), source);
    let arguments = format!("-shared -fPIC {name}.c {options} -o lib{name}.so");
    bench.driver(Linker::Reference, "gcc", &arguments).ok();
}

/// The shared objects of a program that are not the system's.
fn ours(image: &[u8]) -> Vec<String> {
    let all = needed(&Elf::parse(image).unwrap());
    all.into_iter()
        .filter(|name| !name.starts_with("libc."))
        .collect()
}

#[test]
fn what_a_needed_object_needs_is_needed() {
    let Some(bench) = Bench::new() else { return };
    shared(&bench, "base", "int base(void) { return 4; }", "");
    shared(
        &bench,
        "middle",
        "int base(void); int middle(void) { return base(); }",
        "",
    );
    shared(
        &bench,
        "asking",
        "int base(void); int middle(void) { return base(); }",
        "-Wl,--no-as-needed -L. -lbase",
    );
    shared(
        &bench,
        "feeble",
        "__attribute__((weak)) int base(void); int middle(void) { return base ? base() : 4; }",
        "",
    );
    shared(
        &bench,
        "top",
        "int middle(void); int top(void) { return middle(); }",
        "",
    );
    let all = "-Wl,-rpath,. -Wl,--as-needed";
    bench.scratch.write(
        "middle-main.c",
        "int middle(void); int main(void) { return middle() - 4; }",
    );
    bench.scratch.write(
        "top-main.c",
        "int top(void); int main(void) { return top() - 4; }",
    );
    bench
        .scratch
        .write("main.c", "int main(void) { return 0; }");
    let names = |names: &[&str]| {
        names
            .iter()
            .map(|name| format!("lib{name}.so"))
            .collect::<Vec<_>>()
    };
    for (inputs, expected, reference) in [
        (
            "middle-main.c libmiddle.so libbase.so",
            names(&["middle", "base"]),
            true,
        ),
        (
            "top-main.c libtop.so libmiddle.so libbase.so",
            names(&["top", "middle", "base"]),
            true,
        ),
        // The object itself asks for it.
        (
            "middle-main.c libasking.so libbase.so",
            names(&["asking"]),
            true,
        ),
        // A weak reference can do without.
        (
            "middle-main.c libfeeble.so libbase.so",
            names(&["feeble"]),
            true,
        ),
        // Nobody needs what is not needed itself.
        ("main.c libmiddle.so libbase.so", names(&[]), true),
        // GNU ld refuses these; with lld they do not start.
        (
            "middle-main.c libbase.so libmiddle.so",
            names(&["base", "middle"]),
            false,
        ),
        (
            "main.c libbase.so -Wl,--no-as-needed libmiddle.so",
            names(&["base", "middle"]),
            false,
        ),
    ] {
        for linker in BOTH {
            if linker == Linker::Reference && !reference {
                continue;
            }
            let arguments = format!("{all} {inputs} -o program");
            bench.driver(linker, "gcc", &arguments).ok();
            assert_eq!(
                ours(&bench.read("program")),
                expected,
                "{inputs} by {linker:?}"
            );
            assert_eq!(
                bench.execute("program").status.code(),
                Some(0),
                "{inputs} by {linker:?}"
            );
        }
    }
}

/// GNU ld's manual, `-rpath`: "If the -rpath option is not used when linking an ELF executable, the contents of the
/// environment variable LD_RUN_PATH will be used if it is defined."
#[test]
fn the_run_path_of_the_environment() {
    let Some(bench) = Bench::new() else { return };
    bench
        .scratch
        .write("main.c", "int main(void) { return 0; }\n");
    let found = |linker, value: &str, options: &str| {
        let mut command = bench.scratch.command("gcc");
        if linker == Linker::Ours {
            command.arg(format!("-B{}", bench.path("ours").display()));
        }
        command.args(["main.c", "-o", "program"]);
        command.args(options.split_whitespace());
        repo_tests::process::run(command.env("LD_RUN_PATH", value)).ok();
        let image = bench.read("program");
        let elf = Elf::parse(&image).unwrap();
        let owned = |list: &[&str]| list.iter().map(|&path| path.to_owned()).collect();
        let lists: [Vec<String>; 2] = [owned(&elf.runpaths), owned(&elf.rpaths)];
        lists
    };
    for (value, options, wanted) in [
        ("/a:/b:/a", "", [Some("/a:/b:/a"), None]),
        ("/a", "-shared -fPIC", [Some("/a"), None]),
        ("/a", "-Wl,--disable-new-dtags", [None, Some("/a")]),
        ("/a", "-Wl,-rpath-link,/c", [Some("/a"), None]),
        ("/a", "-Wl,-rpath,/c", [Some("/c"), None]),
        ("/a", "-static", [None, None]),
    ] {
        let wanted = wanted.map(|path| path.map(str::to_owned).into_iter().collect::<Vec<_>>());
        for linker in BOTH {
            assert_eq!(
                found(linker, value, options),
                wanted,
                "{options} by {linker:?}"
            );
        }
    }
}

#[test]
fn shared_objects_without_a_dynamic_linker() {
    let Some(bench) = Bench::new() else { return };
    shared(&bench, "base", "int base(void) { return 4; }", "");
    bench.scratch.write(
        "start.c",
        "int base(void); __attribute__((weak)) int nowhere(void);
        int main(void) { return nowhere ? 1 : base(); }",
    );
    for linker in BOTH {
        for kind in ["-pie -fPIE", "-no-pie -fno-pie"] {
            let none = "-Wl,--no-dynamic-linker";
            bench
                .driver(
                    linker,
                    "gcc",
                    &format!("{kind} start.c libbase.so {none} -o program"),
                )
                .ok();
            let image = bench.read("program");
            let elf = Elf::parse(&image).unwrap();
            let has = |wanted| {
                elf.program_headers
                    .iter()
                    .any(|header| header.p_type == wanted)
            };
            assert!(
                !has(program_header::PT_INTERP) && has(program_header::PT_DYNAMIC),
                "{kind} by {linker:?}"
            );
            assert_eq!(ours(&image), ["libbase.so"], "{kind} by {linker:?}");
            // A dynamic linker that is called by name loads it.
            let run = repo_tests::process::run(
                bench
                    .scratch
                    .command("/lib64/ld-linux-x86-64.so.2")
                    .arg(bench.path("program"))
                    .env("LD_LIBRARY_PATH", bench.scratch.path()),
            );
            assert_eq!(run.status.code(), Some(4), "{kind} by {linker:?}");
        }
        let run = bench.driver(linker, "gcc", "-static start.c libbase.so -o program");
        assert!(
            run.failed()
                .errors()
                .contains("attempted static link of dynamic object"),
            "{linker:?}"
        );
    }
}
