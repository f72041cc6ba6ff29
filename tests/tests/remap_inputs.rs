//! `--remap-inputs`, `--remap-inputs-file`: inputs that stand for others.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use linking::{Bench, Linker};

/// A program whose exit code tells which of its parts were linked.
fn bench() -> Option<Bench> {
    let bench = Bench::new()?;
    bench.scratch.write(
        "main.c",
        "int f(void), g(void), h(void); int main(void) { return f() + g() + h(); }",
    );
    for (name, value) in [
        ("f1", 1),
        ("f2", 2),
        ("g1", 10),
        ("g2", 20),
        ("h1", 40),
        ("h2", 80),
    ] {
        let function = &name[..1];
        let source = format!("int {function}(void) {{ return {value}; }}");
        bench.scratch.write(format!("{name}.c"), source);
    }
    let line = "-fPIC -c main.c f1.c f2.c g1.c g2.c h1.c h2.c";
    bench.driver(Linker::Reference, "gcc", line).ok();
    for name in ["1", "2"] {
        let directory = format!("lib{name}");
        std::fs::create_dir(bench.path(&directory)).unwrap();
        let line = format!("rcs {directory}/libg.a g{name}.o");
        repo_tests::process::run(bench.scratch.command("ar").args(line.split(' '))).ok();
        let line = format!("-shared h{name}.o -o {directory}/libh.so -Wl,-soname,h{name}.so");
        bench.driver(Linker::Reference, "gcc", &line).ok();
        std::os::unix::fs::symlink(
            format!("{directory}/libh.so"),
            bench.path(&format!("h{name}.so")),
        )
        .unwrap();
    }
    Some(bench)
}

const LINE: &str = "main.o f1.o -L lib1 -lg lib1/libh.so -Wl,-rpath,$ORIGIN -o program";

#[test]
fn files_archives_and_shared_objects_stand_for_others() {
    let Some(bench) = bench() else { return };
    bench.scratch.write(
        "map",
        "# another file\n\nf1.o=f2.o # of the other kind\nlib1/*.a   lib2/libg.a# as above\n",
    );
    bench.scratch.write("second", "*h.so = lib2/libh.so\n");
    for (options, code) in [
        ("", 51),
        ("-Wl,--remap-inputs=f1.o=f2.o", 52),
        // What -l finds, by its whole path.
        ("-Wl,--remap-inputs=lib1/libg.a=lib2/libg.a", 61),
        ("-Wl,--remap-inputs=*/libg.a=lib2/libg.a", 61),
        ("-Wl,--remap-inputs=libg.a=lib2/libg.a", 51),
        ("-Wl,--remap-inputs=g=lib2/libg.a", 51),
        ("-Wl,--remap-inputs,lib1/libh.so=lib2/libh.so", 91),
        ("-Wl,--remap-inputs-file=map", 62),
        (
            "-Wl,--remap-inputs-file,map,--remap-inputs-file=second",
            102,
        ),
        // Names before patterns, the first before others; a file that comes in is not replaced again.
        (
            "-Wl,--remap-inputs=f*.o=none.o,--remap-inputs=f1.o=f2.o,--remap-inputs=f2.o=none.o",
            52,
        ),
        (
            "-Wl,--remap-inputs=f[1-3].o=f2.o,--remap-inputs=f?.o=none.o",
            52,
        ),
    ] {
        bench
            .driver(Linker::Ours, "gcc", &format!("{options} {LINE}"))
            .ok();
        bench.execute("program").code(code);
    }
    // `/dev/null` leaves an input out.
    bench.driver(Linker::Ours, "gcc", &format!("{LINE} none.o f2.o -Wl,--remap-inputs=none.o=/dev/null,--remap-inputs=f1.o=/dev/null")).ok();
    bench.execute("program").code(52);
    // The files that scripts name, too; and what is traced is what is read.
    bench.scratch.write("inputs.ld", "INPUT(f1.o)");
    let line = "main.o inputs.ld g1.o h1.o -o program -Wl,--trace,--remap-inputs=f1.o=f2.o,--dependency-file=deps,--remap-inputs-file=second";
    let said = bench.driver(Linker::Ours, "gcc", line).ok();
    assert!(
        said.text().lines().any(|line| line.ends_with("f2.o")),
        "{}",
        said.report()
    );
    assert!(!said.text().contains("f1.o"), "{}", said.report());
    bench.execute("program").code(52);
    let dependencies = String::from_utf8(bench.read("deps")).unwrap();
    assert!(
        dependencies.contains("second") && dependencies.contains("f2.o"),
        "{dependencies}"
    );
}

#[test]
fn mistakes_are_named() {
    let Some(bench) = bench() else { return };
    bench.scratch.write("map", "f1.o=f2.o\nf1.o\n");
    for (options, complaint) in [
        (
            "--remap-inputs=f1.o",
            "option '--remap-inputs': expected PATTERN=FILE, found 'f1.o'",
        ),
        (
            "--remap-inputs=f1.o=",
            "option '--remap-inputs': expected PATTERN=FILE, found 'f1.o='",
        ),
        (
            "--remap-inputs-file=map",
            "map:2: expected PATTERN=FILE, found 'f1.o'",
        ),
        (
            "--remap-inputs-file=nowhere",
            "--remap-inputs-file: cannot read nowhere",
        ),
        ("--remap-inputs=f1.o=nowhere.o", "cannot open nowhere.o"),
    ] {
        let failed = bench
            .driver(Linker::Ours, "gcc", &format!("{LINE} -Wl,{options}"))
            .failed();
        assert!(failed.errors().contains(complaint), "{}", failed.report());
    }
}
