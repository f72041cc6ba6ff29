//! Equal inputs make equal bytes: with any number of threads, run after run, and
//! from tickets whatever else their repository has seen. So do equal mistakes
//! make equal messages.

use repo_tests::binaries::Binaries;
use repo_tests::build::{Family, Toolchain};
use repo_tests::process::run;
use repo_tests::programs::Language;
use repo_tests::scratch::Scratch;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

/// How many translation units: more than threads, so that they are really shared out.
const UNITS: usize = 20;

/// Threads of each link. The repeated numbers are repeated runs.
const THREADS: [u32; 6] = [1, 2, 7, 7, 2, 16];

/// An object that is so large that any number of [`THREADS`] is worth starting: what is small is linked by one. Nothing of
/// it comes into the output.
const BULK: &str = ".section .bulk, \"e\", @progbits\n.skip 20 << 20\n";

/// Makes `bulk.o`.
fn add_bulk(scratch: &Scratch, plain: &Toolchain) {
    scratch.write("bulk.s", BULK);
    run(plain
        .command(scratch, Language::C)
        .args(["-c", "bulk.s", "-o", "bulk.o"]))
    .ok();
}

/// A unit with what linkers keep in hash tables or meet in parallel: strings that
/// others have too, COMDAT groups, commons, weak and thread-local symbols, constructors,
/// and references to the other units and to shared objects.
fn unit(number: usize) -> String {
    let next = (number + 1) % UNITS;
    let shared = number % 7;
    format!(
        "#include <typeinfo>\n\
         template <int N> struct Shape {{ virtual ~Shape() {{}} virtual const char *name() {{ return \"shape {shared}\"; }} }};\n\
         thread_local int local_{number} = {number};\n\
         __attribute__((weak)) int weak_{shared} = {shared};\n\
         int zero_{number}[{number} + 1];\n\
         struct Early {{ Early() {{ zero_{number}[0] = 1; }} }} early_{number};\n\
         int unit_{next}(int);\n\
         int unit_{number}(int depth) {{\n\
           Shape<{shared}> shape; const char *list[] = {{shape.name(), \"only {number}\", \"all\"}};\n\
           try {{ if (depth > {UNITS}) throw depth; }} catch (int) {{ return local_{number}; }}\n\
           return unit_{next}(depth + 1) + weak_{shared} + zero_{number}[0] + list[depth % 3][0] + typeid(shape).name()[0];\n\
         }}\n"
    )
}

/// Compiles all units, in this order or the other, with `toolchain`.
fn compile(toolchain: &Toolchain, scratch: &Scratch, reversed: bool) {
    let mut numbers: Vec<usize> = (0..UNITS).collect();
    if reversed {
        numbers.reverse();
    }
    for number in numbers {
        scratch.write(format!("unit{number}.cpp"), unit(number));
        run(toolchain
            .command(scratch, Language::Cxx)
            .args(["-O1", "-g1", "-fPIC", "-ffunction-sections", "-c"])
            .arg(format!("unit{number}.cpp")))
        .ok();
    }
    scratch.write(
        "main.cpp",
        "#include <cstdio>\nint unit_0(int);\nint main() { printf(\"%d\\n\", unit_0(0)); }\n",
    );
    run(toolchain
        .command(scratch, Language::Cxx)
        .args(["-O1", "-g1", "-fPIC", "-c", "main.cpp"]))
    .ok();
}

/// Options of the driver for each kind of output.
const KINDS: [&[&str]; 4] = [
    &["-pie"],
    &["-no-pie", "-Wl,--gc-sections"],
    &["-static"],
    &["-shared", "-Wl,--hash-style=both"],
];

/// Links everything in every way with `threads` threads; returns the outputs.
fn link(scratch: &Scratch, toolchain: &Toolchain, threads: u32) -> Vec<Vec<u8>> {
    add_bulk(scratch, toolchain);
    let directory = scratch.join("linker");
    if !directory.exists() {
        fs::create_dir(&directory).expect("a directory can be made");
        symlink(Binaries::get().path("repo-ld"), directory.join("ld")).expect("a link can be made");
    }
    let outputs = KINDS.iter().map(|kind| {
        let mut command = toolchain.command(scratch, Language::Cxx);
        command.arg(format!("-B{}", directory.display()));
        command.args(*kind);
        command.args([
            format!("-Wl,--threads={threads}"),
            "-Wl,--build-id,--print-timing".to_owned(),
        ]);
        command.args((0..UNITS).map(|number| format!("unit{number}.o")));
        let linked = run(command.args(["main.o", "bulk.o", "-o", "program"])).ok();
        let used = format!("total, {threads} thread");
        assert!(linked.errors().contains(&used), "{}", linked.errors());
        fs::read(scratch.join("program")).expect("an output")
    });
    outputs.collect()
}

#[test]
fn objects_make_the_same_bytes_with_any_number_of_threads() {
    let Some(plain) = Toolchain::plain(Family::Gcc) else {
        return;
    };
    let scratch = Scratch::new();
    compile(&plain, &scratch, false);
    let first = link(&scratch, &plain, 3);
    for threads in THREADS {
        let again = link(&scratch, &plain, threads);
        for (kind, (first, again)) in KINDS.iter().zip(first.iter().zip(&again)) {
            assert!(first == again, "{kind:?} with {threads} threads differs");
        }
    }
}

#[test]
fn tickets_make_the_same_bytes_whatever_else_the_repository_has_seen() {
    let Some(plain) = Toolchain::plain(Family::Gcc) else {
        return;
    };
    let toolchain = plain.through_repository(Binaries::get());
    let scratch = Scratch::new();
    compile(&toolchain, &scratch, false);
    let first = link(&scratch, &plain, 3);
    for threads in THREADS {
        let again = link(&scratch, &plain, threads);
        for (kind, (first, again)) in KINDS.iter().zip(first.iter().zip(&again)) {
            assert!(first == again, "{kind:?} with {threads} threads differs");
        }
    }
    // The same units in another repository: all its names and strings have other numbers.
    let directory = scratch.path().to_owned();
    for entry in fs::read_dir(&directory).expect("the directory is there") {
        let path = entry.expect("an entry").path();
        let is_repository = path.extension().is_some_and(|end| end == "repo");
        if is_repository || path.extension().is_some_and(|end| end == "o") {
            fs::remove_file(path).expect("a file can be removed");
        }
    }
    compile(&toolchain, &scratch, true);
    let other = link(&scratch, &plain, 2);
    for (kind, (first, other)) in KINDS.iter().zip(first.iter().zip(&other)) {
        assert!(first == other, "{kind:?} from another repository differs");
    }
}

#[test]
fn messages_come_in_the_same_order() {
    let Some(plain) = Toolchain::plain(Family::Gcc) else {
        return;
    };
    let scratch = Scratch::new();
    let mut objects = Vec::new();
    for number in 0..UNITS {
        let name = format!("wrong{number}.c");
        scratch.write(
            &name,
            format!(
                "int missing_{number}(void); int missing_too(void); int twice = 1;\n\
                 int f{number}(void) {{ return missing_{number}() + missing_too(); }}\n"
            ),
        );
        run(plain.command(&scratch, Language::C).arg("-c").arg(&name)).ok();
        objects.push(format!("wrong{number}.o"));
    }
    add_bulk(&scratch, &plain);
    objects.push("bulk.o".to_owned());
    // Duplicates end the link; when they are allowed, undefined symbols do.
    for (duplicates, word) in [("relro", "twice"), ("muldefs", "missing_3")] {
        let mut seen = BTreeSet::new();
        for threads in THREADS {
            let linker = Binaries::get().path("repo-ld");
            let failed = run(scratch
                .command(linker)
                .arg(format!("--threads={threads}"))
                .args(["-z", duplicates, "-e", "f0", "-o", "nothing"])
                .args(&objects));
            seen.insert(failed.failed().errors());
        }
        assert_eq!(seen.len(), 1, "{seen:#?}");
        let text = seen.into_iter().next().unwrap_or_default();
        assert!(text.contains(word), "{text}");
    }
}
