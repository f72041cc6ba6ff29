//! Warnings about the link as a whole, in GNU ld's words, and the options that ask for them or turn them into errors.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::Elf;
use goblin::elf::program_header::PT_LOAD;
use linking::{BOTH, Bench, Linker};
use repo_tests::process::run;

/// With both linkers: whether these words are said, and whether the link succeeds.
fn says(bench: &Bench, arguments: &str, words: &str, said: bool, good: bool) {
    for linker in BOTH {
        let run = bench.driver(linker, "gcc", &format!("{arguments} -o output"));
        assert_eq!(run.status.success(), good, "{linker:?}: {}", run.report());
        assert_eq!(
            run.errors().contains(words),
            said,
            "{linker:?}: {words:?}\n{}",
            run.report()
        );
    }
}

#[test]
fn common_symbols() {
    let Some(bench) = Bench::new() else { return };
    bench
        .scratch
        .write("main.c", "int c; int main(void) { return c; }");
    bench.scratch.write("same.c", "int c;");
    bench.scratch.write("larger.c", "long c[2];");
    bench.scratch.write("defined.c", "int c = 0;");
    let warn = "-fcommon -Wl,--warn-common main.c";
    says(&bench, "-fcommon main.c same.c", "common of", false, true);
    let multiple = "multiple common of `c'";
    says(&bench, &format!("{warn} same.c"), multiple, true, true);
    let larger = "common of `c' overriding smaller common";
    says(&bench, &format!("{warn} larger.c"), larger, true, true);
    let defined = "definition of `c' overriding common";
    says(&bench, &format!("{warn} defined.c"), defined, true, true);
    let fatal = format!("{warn} same.c -Wl,--fatal-warnings");
    says(&bench, &fatal, multiple, true, false);
}

#[test]
fn executable_stacks() {
    let Some(bench) = Bench::new() else { return };
    bench
        .scratch
        .write("main.c", "int main(void) { return 0; }");
    bench
        .scratch
        .write("stack.s", ".section .note.GNU-stack,\"x\",@progbits\n");
    let words = "requires executable stack (because the .note.GNU-stack section is executable)";
    says(&bench, "main.c stack.s", words, true, true);
    let quiet = "main.c stack.s -Wl,--no-warn-execstack";
    says(&bench, quiet, words, false, true);
    says(
        &bench,
        "main.c stack.s -Wl,-z,noexecstack",
        words,
        false,
        true,
    );
    let option = "an executable stack because of -z execstack command line option";
    for (arguments, told) in [
        ("", false),
        (",--warn-execstack", true),
        (",--warn-execstack,--no-warn-execstack", false),
    ] {
        let arguments = format!("main.c -Wl,-z,execstack{arguments}");
        says(
            &bench,
            &arguments,
            &format!("enabling {option}"),
            told,
            true,
        );
    }
    let line = "main.c -Wl,-z,execstack,--warn-execstack";
    for (more, fails) in [
        (",--error-execstack", true),
        (",--error-execstack,--warn-execstack-objects", false),
    ] {
        let run = bench.driver(Linker::Ours, "gcc", &format!("{line}{more} -o output"));
        assert_eq!(!run.status.success(), fails, "{}", run.report());
        assert_eq!(
            run.errors().contains(&format!("error: creating {option}")),
            fails
        );
    }
    let arguments = "main.c stack.s -Wl,--error-execstack -o output";
    let run = bench.driver(Linker::Ours, "gcc", arguments).failed();
    assert!(run.errors().contains(words), "{}", run.report());
}

#[test]
fn segments_that_can_be_written_and_executed() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "start.s",
        ".globl _start\n_start: mov $60, %eax\n mov value(%rip), %edi\n syscall\n.data\nvalue: .long 7\n\
         .section .note.GNU-stack,\"\",@progbits\n",
    );
    let words = "has a LOAD segment with RWX permissions";
    let arguments = "-nostdlib -static start.s";
    says(&bench, arguments, words, false, true);
    says(&bench, &format!("{arguments} -Wl,-N"), words, true, true);
    assert_eq!(bench.execute("output").status.code(), Some(7));
    let quiet = format!("{arguments} -Wl,-N -Wl,--no-warn-rwx-segments");
    says(&bench, &quiet, words, false, true);
    // An option of newer linkers than the reference may be.
    let line = |options: &str| format!("{arguments} -Wl,-N,{options} -o output");
    for options in [
        "--error-rwx-segments",
        "--no-warn-rwx-segments,--error-rwx-segments",
    ] {
        let run = bench.driver(Linker::Ours, "gcc", &line(options)).failed();
        assert!(run.errors().contains(words), "{}", run.report());
    }
    let options =
        "--error-rwx-segments,--no-error-rwx-segments,--fatal-warnings,--no-warn-rwx-segments";
    bench.driver(Linker::Ours, "gcc", &line(options)).ok();
}

#[test]
fn images_that_begin_in_a_page() {
    let Some(bench) = Bench::new() else { return };
    let code = "int value = 7; int main(void) { return value; }";
    bench.scratch.write("main.c", code);
    let words = "address of `text-segment' isn't multiple of maximum page size";
    let at = |base: &str| format!("-no-pie main.c -Wl,-Ttext-segment={base}");
    says(&bench, &at("0x500000"), words, false, true);
    says(&bench, &at("0x500010"), words, true, true);
    // What was written last is ours.
    assert_eq!(bench.execute("output").status.code(), Some(7));
    let output = bench.read("output");
    let first = &Elf::parse(&output).unwrap().program_headers;
    let first = first.iter().find(|segment| segment.p_type == PT_LOAD);
    assert_eq!(first.unwrap().p_vaddr, 0x500000);
    // Without pages, too: the kernel loads by pages all the same.
    for magic in ["-n", "-N"] {
        let line = format!("{} -Wl,{magic}", at("0x500010"));
        bench
            .driver(Linker::Ours, "gcc", &format!("-static {line} -o output"))
            .ok();
        assert_eq!(bench.execute("output").status.code(), Some(7), "{magic}");
    }
}

#[test]
fn processor_features() {
    let Some(bench) = Bench::new() else { return };
    bench
        .scratch
        .write("with.c", "int main(void) { return 0; }");
    bench
        .scratch
        .write("without.c", "int f(void) { return 0; }");
    let compile = "-fcf-protection=full -c with.c";
    bench.driver(Linker::Reference, "gcc", compile).ok();
    let compile = "-fcf-protection=branch -c without.c";
    bench.driver(Linker::Reference, "gcc", compile).ok();
    let arguments = "-nostdlib -shared with.o without.o";
    let words = "missing SHSTK property";
    says(&bench, arguments, words, false, true);
    let report = |level: &str| format!("{arguments} -Wl,-z,cet-report={level}");
    says(&bench, &report("none"), words, false, true);
    says(&bench, &report("warning"), words, true, true);
    says(&bench, &report("error"), words, true, false);
    let both = "missing IBT and SHSTK properties";
    says(&bench, &report("warning"), both, false, true);
}

#[test]
fn required_symbols() {
    let Some(bench) = Bench::new() else { return };
    bench
        .scratch
        .write("main.c", "int main(void) { return 0; }");
    let words = "required symbol `missing' not defined";
    let arguments = "main.c -Wl,--require-defined=";
    says(&bench, &format!("{arguments}missing"), words, true, false);
    says(&bench, &format!("{arguments}main"), words, false, true);
}

#[test]
fn symbols_with_a_warning_of_their_own() {
    let Some(bench) = Bench::new() else { return };
    let warning =
        "const char text[] __attribute__((section(\".gnu.warning.old\"))) = \"old is no good\";";
    let library = format!("int old(void) {{ return 0; }} int new(void) {{ return 0; }} {warning}");
    bench.scratch.write("library.c", &library);
    let uses = "int old(void); int main(void) { return old(); }";
    bench.scratch.write("uses.c", uses);
    let not = "int new(void); int main(void) { return new(); }";
    bench.scratch.write("not.c", not);
    let own = "int old(void) { return 0; } int main(void) { return old(); }";
    bench.scratch.write("own.c", own);
    let words = "old is no good";
    bench
        .driver(Linker::Reference, "gcc", "-c library.c -o library.o")
        .ok();
    run(bench
        .scratch
        .command("ar")
        .args(["rc", "liblibrary.a", "library.o"]))
    .ok();
    let shared = "-shared -fPIC library.c -o liblibrary.so";
    bench.driver(Linker::Reference, "gcc", shared).ok();
    for library in ["library.o", "-L. -l:liblibrary.a", "-L. -l:liblibrary.so"] {
        says(&bench, &format!("uses.c {library}"), words, true, true);
        says(&bench, &format!("not.c {library}"), words, false, true);
        let fatal = format!("uses.c {library} -Wl,--fatal-warnings");
        says(&bench, &fatal, words, true, false);
        let quiet = format!("uses.c {library} -Wl,-w");
        says(&bench, &quiet, words, false, true);
    }
    // The library's definition is not the one that is used.
    let other = "own.c -L. -l:liblibrary.so";
    says(&bench, other, words, false, true);
    // It stays where another link may want it.
    for (option, kept) in [("-nostdlib -shared", true), ("-no-pie", false)] {
        for linker in BOTH {
            let arguments = format!("{option} -fPIC not.c library.c -o output");
            bench.driver(linker, "gcc", &arguments).ok();
            let image = bench.read("output");
            let elf = Elf::parse(&image).unwrap();
            let has = elf
                .section_headers
                .iter()
                .any(|section| elf.shdr_strtab.get_at(section.sh_name) == Some(".gnu.warning.old"));
            assert_eq!(has, kept, "{linker:?} {option}");
        }
    }
    // Where it is referred to.
    let run = bench.driver(Linker::Ours, "gcc", "-g uses.c library.o -o output");
    assert!(
        run.errors()
            .contains("warning: old is no good\n>>> referenced by")
            && run.errors().contains("uses.c:1\n")
            && run.errors().contains("(function main: .text+0x"),
        "{}",
        run.report()
    );
    // Code that is left out uses nothing.
    bench.scratch.write(
        "unused.c",
        "int old(void); int unused(void) { return old(); } int main(void) { return 0; }",
    );
    let run = bench.driver(
        Linker::Ours,
        "gcc",
        "-ffunction-sections -Wl,--gc-sections unused.c library.o -o output",
    );
    assert!(!run.errors().contains(words), "{}", run.report());
    // A section that names no symbol is about its file.
    bench.scratch.write(
        "file.c",
        "const char file[] __attribute__((section(\".gnu.warning\"))) = \"an old file\";",
    );
    says(&bench, "not.c library.o file.c", "an old file", true, true);
}
