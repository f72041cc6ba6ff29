//! Linker scripts that cannot be obeyed: what is said, where, and with which exit code.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use linking::{Bench, Linker};
use repo_tests::binaries::Binaries;
use repo_tests::process::run;

/// Links an object with a script, which must fail with these words and leave nothing behind.
#[track_caller]
fn fails(bench: &Bench, script: &str, words: &[&str]) {
    bench.scratch.write("script.ld", script);
    let mut command = bench.scratch.command(Binaries::get().path("repo-ld"));
    command.args(["-T", "script.ld", "a.o", "-o", "program"]);
    let run = run(&mut command).code(1);
    for word in words {
        assert!(
            run.errors().contains(word),
            "no {word:?} in\n{}",
            run.report()
        );
    }
    assert!(!bench.path("program").exists(), "an output was left behind");
}

fn bench() -> Option<Bench> {
    let bench = Bench::new()?;
    bench.scratch.write(
        "a.s",
        ".globl _start\n.text\n_start: .skip 100\n.data\n.globl dat\ndat: .skip 40\n",
    );
    bench.driver(Linker::Reference, "gcc", "-c a.s -o a.o").ok();
    Some(bench)
}

#[test]
fn scripts_that_cannot_be_read() {
    let Some(bench) = bench() else { return };
    fails(
        &bench,
        "SECTIONS {\n  .text : { *(.text) }\n  .data : { *(.data }\n",
        &["repo-ld: error: script.ld:", "expected"],
    );
    fails(
        &bench,
        "FROBNICATE(1)\n",
        &["script.ld:1: expected a command"],
    );
    fails(
        &bench,
        "\nx = 1 +;\n",
        &["script.ld:2: expected an expression"],
    );
    fails(&bench, "SECTIONS { /* open\n", &["unclosed comment"]);
    bench.scratch.write("one.ld", "INCLUDE two.ld\n");
    bench.scratch.write("two.ld", "INCLUDE one.ld\n");
    fails(
        &bench,
        "INCLUDE one.ld",
        &["INCLUDE is nested too deeply (does a script include itself?)"],
    );
    // As inputs, of which each may name others several times.
    bench.scratch.write("three.ld", "GROUP(four.ld four.ld)");
    bench
        .scratch
        .write("four.ld", "INPUT(three.ld ./three.ld three.ld a.o)");
    fails(
        &bench,
        "INPUT(three.ld)",
        &["three.ld: the linker script names itself as an input"],
    );
    fails(
        &bench,
        "INCLUDE missing.ld",
        &["script.ld:1: cannot include 'missing.ld'"],
    );
    fails(
        &bench,
        "OUTPUT_FORMAT(elf32-i386)",
        &["script.ld:1: OUTPUT_FORMAT(elf32-i386) is not supported"],
    );
    let mut command = bench.scratch.command(Binaries::get().path("repo-ld"));
    command.args(["-T", "nowhere.ld", "a.o", "-o", "program"]);
    let run = run(&mut command).code(1);
    assert!(
        run.errors()
            .contains("cannot open linker script file nowhere.ld"),
        "{}",
        run.report()
    );
}

#[test]
fn expressions_without_a_value() {
    let Some(bench) = bench() else { return };
    fails(
        &bench,
        "x = 1;\ny = nowhere + 1;\n",
        &["script.ld:2: undefined symbol 'nowhere' referenced in expression"],
    );
    fails(
        &bench,
        "SECTIONS {\n.text : { *(.text) }\nx = ADDR(.missing);\n}",
        &["script.ld:3: undefined section '.missing' in expression"],
    );
    fails(
        &bench,
        "SECTIONS { .text : { *(.text) }\n x = 5 / SIZEOF(.missing); }",
        &["script.ld:2: division by zero in expression"],
    );
    fails(
        &bench,
        "SECTIONS { .text : {\n *(.text)\n . = 10; } }",
        &["script.ld:3: cannot move location counter backwards"],
    );
    fails(
        &bench,
        "SECTIONS { .text : ALIGN(3) { *(.text) } }",
        &["script.ld:1: alignment 0x3 is not a power of two"],
    );
    fails(&bench, "x = y; y = x;", &["undefined symbol"]);
}

#[test]
fn assertions_and_regions() {
    let Some(bench) = bench() else { return };
    fails(
        &bench,
        "SECTIONS { .text : { *(.text) }\nASSERT(SIZEOF(.text) < 10, \"the text is too large\") }",
        &["script.ld:2: assertion failed: the text is too large"],
    );
    fails(
        &bench,
        "ASSERT(0, \"never\")",
        &["script.ld:1: assertion failed: never"],
    );
    // The words are GNU ld's.
    fails(
        &bench,
        "MEMORY { rom : ORIGIN = 0x1000, LENGTH = 64 ram : ORIGIN = 0x8000, LENGTH = 1K }\n\
         SECTIONS { .text : { *(.text) } > rom .data : { *(.data) } > ram }",
        &[
            "program section `.text' will not fit in region `rom'",
            "region `rom' overflowed by 36 bytes",
        ],
    );
    fails(
        &bench,
        "MEMORY { rom (x) : ORIGIN = 0x1000, LENGTH = 1K }\nSECTIONS { .text : { *(.text) } > rom .data : { *(.data) } }",
        &["no memory region specified for loadable section `.data'"],
    );
    fails(
        &bench,
        "SECTIONS {\n.text : { *(.text) } > nowhere }",
        &["script.ld:2: memory region `nowhere' is not declared"],
    );
    fails(
        &bench,
        "MEMORY { rom : ORIGIN = 0x1000, LENGTH = 1K }\nSECTIONS { .text : AT(0x500) { *(.text) } > rom AT> rom }",
        &["script.ld:2: the section has both a load address and a load region"],
    );
    fails(
        &bench,
        "SECTIONS { .text : { *(.text) }\nx = ALIGNOF(.missing); }",
        &["script.ld:2: undefined section '.missing' in expression"],
    );
    fails(
        &bench,
        "PHDRS { text PT_LOAD FILEHDR PHDRS; }\nSECTIONS { .text : { *(.text) } :text }",
        &["script.ld:1: not enough room for program headers before section .text"],
    );
    fails(
        &bench,
        "PHDRS { text PT_LOAD; }\nSECTIONS { .text 0x20000 : { *(.text) } :text .data 0x1000 : { *(.data) } }",
        &[
            "script.ld:1: section .data at 0x1000 cannot be in the segment `text' behind .text at 0x20000",
        ],
    );
    fails(
        &bench,
        "PHDRS { text PT_LOAD; }\nSECTIONS { .text : { *(.text) } .data : { *(.data) } }",
        &["no sections assigned to phdrs"],
    );
    fails(
        &bench,
        "SECTIONS { .text 0x1000 : { *(.text) } .data 0x1010 : { *(.data) } }",
        &["section .data LMA [0000000000001010,0000000000001037] overlaps section .text LMA"],
    );
    fails(
        &bench,
        "PHDRS { text PT_LOAD; }\nSECTIONS { .text : { *(.text) } :text .data : { *(.data) } :nothing }",
        &["section `.data' assigned to non-existent phdr `nothing'"],
    );
    fails(
        &bench,
        "SECTIONS { .text : { *(.text) } } SECTIONS { .mine : { *(.mine) } } INSERT AFTER .nowhere;",
        &[".nowhere not found for insert"],
    );
    fails(
        &bench,
        "SECTIONS { .text : { *(.text) . += 0x800000000000; } }",
        &["section would become larger than 64 TiB"],
    );
    fails(
        &bench,
        "SECTIONS { .text 0xfffffffffffffff0 : { *(.text) } }",
        &["wraps around the address space"],
    );
}

#[test]
fn names_of_regions() {
    let Some(bench) = bench() else { return };
    let memory = "MEMORY { real (rwx) : ORIGIN = 0, LENGTH = 32K }\n";
    for (command, words) in [
        (
            "REGION_ALIAS(\"a\", real) REGION_ALIAS(\"a\", real)",
            "redefinition of memory region `a'",
        ),
        (
            "REGION_ALIAS(\"a\", \"none\")",
            "memory region `none' for alias `a' does not exist",
        ),
        (
            "REGION_ALIAS(\"a\", \"*default*\")",
            "alias for the default memory region",
        ),
    ] {
        let script = format!("{memory}{command} SECTIONS {{ .text : {{ *(.text) }} > a }}");
        fails(&bench, &script, &["script.ld:2", words]);
    }
    let script = "SECTIONS { .text : ALIGN(16) ALIGN_WITH_INPUT { *(.text) } }";
    fails(&bench, script, &["ALIGN_WITH_INPUT"]);
}
