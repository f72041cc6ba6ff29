//! Which input sections the patterns of a linker script mean, beside GNU ld.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::Elf;
use linking::{BOTH, Bench, Linker};
use std::collections::BTreeMap;

/// A bench with objects of these names and sources.
fn bench(sources: &[(&str, &str)]) -> Option<Bench> {
    let bench = Bench::new()?;
    for (name, text) in sources {
        bench
            .scratch
            .write(format!("{name}.s"), format!("{text}\n"));
        let arguments = format!("-c {name}.s -o {name}.o");
        bench.driver(Linker::Reference, "gcc", &arguments).ok();
    }
    Some(bench)
}

/// The bytes of each section that is not empty, but not of the tables.
fn contents(image: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let elf = Elf::parse(image).expect("an ELF file");
    let named = elf.section_headers.iter().map(|header| {
        let name = elf.shdr_strtab.get_at(header.sh_name).unwrap_or_default();
        let range = header.file_range();
        let bytes = range.map_or_else(Vec::new, |range| image[range].to_vec());
        (name.to_string(), bytes)
    });
    named
        .filter(|(name, bytes)| !bytes.is_empty() && !name.ends_with("tab"))
        .collect()
}

/// Links by both, and demands the same bytes in the same sections. Gives them.
#[track_caller]
fn same(bench: &Bench, script: &str, arguments: &str) -> BTreeMap<String, Vec<u8>> {
    bench.scratch.write("s.t", script);
    let [theirs, ours] = BOTH.map(|linker| {
        let arguments = format!("-T s.t {arguments} -o output");
        bench.ld(linker, &arguments).ok();
        contents(&bench.read("output"))
    });
    assert_eq!(theirs, ours, "{script}");
    ours
}

#[test]
fn members_of_archives() {
    let Some(bench) = bench(&[
        (
            "a",
            ".globl _start; _start: .section .data.a,\"aw\"; .byte 1",
        ),
        (
            "b",
            ".section .data.a,\"aw\"; .byte 2; .section .data.b,\"aw\"; .byte 3",
        ),
        ("c", ".section .data.a,\"aw\"; .byte 4"),
    ]) else {
        return;
    };
    bench
        .driver(Linker::Reference, "ar", "rc lib.a a.o b.o")
        .ok();
    for pattern in [
        "lib.a:a.o(.data*)",
        "\"lib.a:a.o\"(.data*)",
        "*.a:b.o(.data*)",
        "\"*.a:[bc].o\"(.data*)",
        "lib.a:(.data.a)",
        "*lib.a:*(.data.a)",
        "*b.o(.data*)",
        "\"*b.o\"(\".d*\")",
        "*(\"*.b\")",
        "[ab].o(.data*)",
        ":b.o(.data*)",
        "*:b.o(.data*)",
        ":c.o(.data*)",
        "c.o(.data*)",
        ":*(.data*)",
        "\"*\"(.data*)",
        // The archive's name alone is no member's.
        "*lib.a(.data*)",
        "lib.a(.data*)",
        // In EXCLUDE_FILE it is.
        "*(EXCLUDE_FILE(lib.a) .data*)",
        "*(EXCLUDE_FILE(*lib.a:b.o) .data*)",
        "*(EXCLUDE_FILE(\"*b.o\") .data*)",
        "*(EXCLUDE_FILE(b.o) .data*)",
    ] {
        let script = format!(
            "SECTIONS {{ .text : {{ *(.text) }} .found : {{ {pattern} }} .data : {{ *(.data .data.*) }} /DISCARD/ : {{ *(.note*) }} }}"
        );
        same(&bench, &script, "--whole-archive lib.a c.o");
    }
}

/// What is about a section that is discarded goes with it.
#[test]
fn sections_about_discarded_ones() {
    let Some(bench) = bench(&[(
        "a",
        r#".globl _start; _start: ret
        .section .moo,"ao",@progbits,.zed; .quad 1
        .section .zed,"ao",@progbits,.foo; .quad 2
        .section .foo,"a"; .quad 3
        .section .bar,"ao",@progbits,.foo; .quad .foo
        .section .kept,"ao",@progbits,.text; .quad 5
        .section .note.foo,"o",@progbits,.foo; .quad 6
        .section .rest,"ao",@progbits,.note.foo; .quad 7"#,
    )]) else {
        return;
    };
    let script =
        "SECTIONS { . = 0x10000; .text : { *(.text) } /DISCARD/ : { *(.foo) } .bar : { *(.bar) } }";
    let found = same(&bench, script, "a.o");
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(names, [".kept", ".text"]);
}

#[test]
fn flags_by_name_and_number() {
    let Some(bench) = bench(&[(
        "a",
        r#".globl _start; _start: ret
        .section .sec.a,"a"; .byte 1; .section .sec.x,"ax"; .byte 2; .section .sec.w,"aw"; .byte 3
        .section .sec.m,"aM",@progbits,4; .long 4; .section .sec.s,"aMS",@progbits,1; .asciz "5""#,
    )]) else {
        return;
    };
    for [read, code, write, merge, strings] in [
        [
            "SHF_ALLOC & !SHF_EXECINSTR & !SHF_WRITE & !SHF_MERGE",
            "SHF_EXECINSTR",
            "SHF_WRITE",
            "SHF_MERGE & !SHF_STRINGS",
            "SHF_STRINGS",
        ],
        [
            "0x2&!0x4 & !1 &!0x10",
            "0x2 & 4",
            " 1 ",
            "0x10 & !0x20",
            "32",
        ],
    ] {
        let script = format!(
            "SECTIONS {{ .text : {{ *(.text) }} .out1 : {{ INPUT_SECTION_FLAGS({read}) *(.sec.*) }}
             .out2 : {{ INPUT_SECTION_FLAGS ({code}) *(.sec.*) }} .out3 : {{ INPUT_SECTION_FLAGS({write}) *(.sec.*) }}
             .out4 : {{ INPUT_SECTION_FLAGS({merge}) *(.sec.*) }} .out5 : {{ INPUT_SECTION_FLAGS({strings}) *(.sec.*) }} }}"
        );
        // GNU ld knows no numbers here, says so, and goes on.
        let found = match read.starts_with("SHF") {
            true => same(&bench, &script, "a.o"),
            false => {
                bench.scratch.write("s.t", &script);
                bench.ld(Linker::Ours, "-T s.t a.o -o output").ok();
                contents(&bench.read("output"))
            }
        };
        assert_eq!(found.len(), 6, "{script}");
    }
}

/// `ONLY_IF_RO` is met if nothing is writable, `ONLY_IF_RW` if something is. What is not met is not there, its symbols
/// included.
#[test]
fn constraints() {
    let Some(bench) = bench(&[(
        "a",
        r#".globl _start; _start: ret; .section foo1,"a"; .byte 1; .section foo2,"aw"; .byte 2"#,
    )]) else {
        return;
    };
    for (sections, defined) in [
        (
            "bar : ONLY_IF_RO { sym1 = .; *(foo*) } bar : ONLY_IF_RW { sym2 = .; *(foo*) }",
            ["sym2"],
        ),
        (
            "bar : ONLY_IF_RW { sym1 = .; *(foo1) } bar : ONLY_IF_RO { sym2 = .; *(foo1) }",
            ["sym2"],
        ),
        (
            "bar : ONLY_IF_RO { sym1 = .; *(foo2) } baz : ONLY_IF_RW { sym2 = 1; *(foo2) }",
            ["sym2"],
        ),
    ] {
        let script = format!("SECTIONS {{ . = 0x10000; .text : {{ *(.text) }} {sections} }}");
        same(&bench, &script, "a.o");
        let image = bench.read("output");
        let elf = Elf::parse(&image).unwrap();
        let names = elf
            .syms
            .iter()
            .filter_map(|symbol| elf.strtab.get_at(symbol.st_name));
        let found: Vec<&str> = names.filter(|name| name.starts_with("sym")).collect();
        assert_eq!(found, defined, "{script}");
    }
}

/// `TARGET` says how the files are to be read that the script names behind it.
#[test]
fn raw_inputs_of_scripts() {
    let Some(bench) = bench(&[("a", ".globl _start; _start: ret")]) else {
        return;
    };
    bench.scratch.write(
        "s.t",
        "TARGET(binary) INPUT(\"a.o\") TARGET(elf64-x86-64) INPUT(\"a.o\")\n",
    );
    bench.ld(Linker::Ours, "-T s.t -o output").ok();
    let image = bench.read("output");
    let elf = Elf::parse(&image).unwrap();
    let names: Vec<&str> = elf
        .syms
        .iter()
        .filter_map(|symbol| elf.strtab.get_at(symbol.st_name))
        .collect();
    assert!(
        names.contains(&"_start") && names.contains(&"_binary_a_o_start"),
        "{names:?}"
    );
}
