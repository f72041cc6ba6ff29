//! What `repo-cc` passes through: everything that makes no object, and the
//! objects that no ticket can stand for.

use repo_tests::binaries::Binaries;
use repo_tests::build::Family;
use repo_tests::compare::{Comparison, is_ticket};
use repo_tests::programs::Language;

const A: &str = "#include \"a.h\"\nint f(int x) { return x + A; }\n";

fn c_sources(test: impl Fn(Comparison)) {
    for family in [Family::Gcc, Family::Clang] {
        if let Some(comparison) = Comparison::new(family, Language::C) {
            test(
                comparison
                    .source("a.c", A)
                    .source("a.h", "#define A 7\n")
                    .source("b.c", "int b;\n"),
            );
        }
    }
}

#[test]
fn preprocessing_assembly_and_dependencies() {
    c_sources(|it| {
        let done = it.pass(&["-E", "a.c"]);
        assert!(done.run.text().contains("x + 7"));
        it.pass(&["-E", "-P", "a.c", "-o", "a.i"]);
        it.pass(&["-E", "-dM", "a.c"]);
        it.pass(&["-E", "-c", "a.c", "-o", "x.o"]);
        it.pass(&["-S", "a.c"]);
        it.pass(&["-S", "-O2", "-g", "a.c", "b.c"]);
        it.pass(&["-S", "-c", "a.c", "-o", "-"]);
        it.pass(&["-M", "a.c"]);
        it.pass(&["-MM", "-MT", "x", "a.c"]);
        it.pass(&["-MM", "-MF", "dep", "-c", "a.c"]);
        it.pass(&["-fsyntax-only", "-Wall", "a.c"]);
    });
}

#[test]
fn questions_to_the_compiler() {
    c_sources(|it| {
        for question in [
            &["--version"][..],
            &["-v"],
            &["-dumpmachine"],
            &["-dumpversion"],
            &["-print-search-dirs"],
            &["-print-file-name=libc.so"],
            &["-print-prog-name=as"],
            &["-print-libgcc-file-name"],
            &["--help"],
            &[],
            &["-c"],
            &["-###", "-save-temps", "-c", "a.c"],
            &["-no-such-option", "-c", "a.c"],
            &["-c", "a.c", "b.c", "-o", "x.o"],
        ] {
            it.pass(question);
        }
    });
}

/// Configure scripts keep the answer for good, but what is in a cache may go at any time.
#[test]
fn which_linker_is_used() {
    for family in [Family::Gcc, Family::Clang] {
        let Some(it) = Comparison::new(family, Language::C) else {
            continue;
        };
        it.reset();
        for question in ["-print-prog-name=ld", "--print-prog-name=ld.bfd"] {
            let answer = it.then(&[question]).run.ok().text();
            let linker = Binaries::get().path("repo-ld");
            assert_eq!(answer, format!("{}\n", linker.display()));
        }
    }
}

#[test]
fn objects_to_standard_output_and_devices() {
    // gcc's assembler cannot write to a pipe, and says so; clang can.
    c_sources(|it| {
        it.pass(&["-c", "a.c", "-o", "-"]);
        let done = it.pass(&["-c", "a.c", "-o", "/dev/null"]);
        done.run.ok();
    });
}

#[test]
fn precompiled_headers() {
    c_sources(|it| {
        it.reset();
        for words in [
            &["-x", "c-header", "a.h"][..],
            &["-x", "c-header", "-c", "a.h", "-o", "a.h.gch"],
            &["a.h"],
        ] {
            let (plain, through) = (it.plain(words), it.through(words));
            assert!(plain.run.status.success(), "{}", plain.run.report());
            assert_eq!(plain.run.stderr, through.run.stderr);
            // gcc's hold addresses of the process that wrote them.
            assert_eq!(
                plain.files.keys().collect::<Vec<_>>(),
                through.files.keys().collect::<Vec<_>>()
            );
            let header = through.files.keys().find(|name| name.contains("ch"));
            let header = header.expect("a precompiled header");
            assert!(!is_ticket(&through.files[header].bytes));
            // And it can be used: a compiler that cannot, says so.
            let done = it.then(&["-Winvalid-pch", "-include", "a.h", "-c", "b.c"]);
            assert_eq!(done.run.ok().errors(), "");
        }
    });
}

#[test]
fn bitcode_and_link_time_optimization_stay_objects() {
    c_sources(|it| {
        it.pass(&["-flto", "-frandom-seed=1", "-c", "a.c"]).run.ok();
        it.compile(&["-flto", "-fno-lto", "-c", "a.c"], &["a.o"]);
    });
    if let Some(it) = Comparison::new(Family::Clang, Language::C) {
        let it = it.source("a.c", "int f(void) { return 1; }\n");
        it.pass(&["-emit-llvm", "-c", "a.c"]).run.ok();
        it.pass(&["-emit-llvm", "-S", "a.c"]).run.ok();
        it.pass(&["-flto=thin", "-c", "a.c"]).run.ok();
        // Bitcode as the source of an object.
        it.reset();
        it.then(&["-emit-llvm", "-c", "a.c", "-o", "a.bc"]).run.ok();
        let done = it.then(&["-c", "a.bc"]);
        assert!(is_ticket(&done.files["a.o"].bytes));
        done.run.ok();
    }
}

#[test]
fn other_machines_stay_objects() {
    if let Some(it) = Comparison::new(Family::Clang, Language::C) {
        let it = it.source("a.c", "int f(void) { return 1; }\n");
        it.pass(&["-m32", "-c", "a.c"]).run.ok();
        it.pass(&["--target=aarch64-linux-gnu", "-c", "a.c"])
            .run
            .ok();
        it.pass(&["-target", "x86_64-apple-darwin", "-c", "a.c"])
            .run
            .ok();
    }
    if let Some(it) = Comparison::new(Family::Gcc, Language::C) {
        it.source("a.c", "int f(void) { return 1; }\n")
            .pass(&["-m32", "-c", "a.c"])
            .run
            .ok();
    }
}
