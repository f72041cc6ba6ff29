//! References that linker scripts make impossible: between sections that are never in memory together (`NOCROSSREFS`,
//! `OVERLAY`), and to common blocks that are thrown away. GNU ld refuses the same links.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use linking::{BOTH, Bench, Linker};

/// `a.o` of a source.
fn bench(source: &str) -> Option<Bench> {
    let bench = Bench::new()?;
    bench.scratch.write("a.s", source);
    bench.driver(Linker::Reference, "gcc", "-c a.s -o a.o").ok();
    Some(bench)
}

/// What must be said of a link by a script; nothing if it must succeed.
fn demand(bench: &Bench, script: &str, expected: &[&str]) {
    bench.scratch.write("s.t", script);
    for linker in BOTH {
        let run = bench.ld(linker, "-T s.t a.o -o output");
        let said = run.errors();
        for part in expected {
            assert!(said.contains(part), "{script} by {linker:?}: {said}");
        }
        match expected {
            [] => _ = run.ok(),
            _ => _ = run.failed(),
        }
        assert_eq!(
            said.matches("prohibited").count(),
            expected.len(),
            "{script} by {linker:?}: {said}"
        );
    }
}

#[test]
fn sections_that_must_not_refer_to_each_other() {
    let Some(bench) = bench(
        r#".globl _start, f, v, mark
        .section .text.start,"ax"; _start: call f; ret
        .section .text.f,"ax"; f: lea v(%rip), %rax; lea mark(%rip), %rax; ret
        .section .data.v,"aw"; v: .quad f, v, local
        .section .other,"aw"; local: .quad block
        .comm block,8,8"#,
    ) else {
        return;
    };
    let sections = "SECTIONS { . = 0x400000; .start : { *(.text.start) } .text : { *(.text*) } .data : { *(.data*) }
        .other : { mark = .; *(.other) } .bss : { *(.bss COMMON) } }\n";
    let f_v = "prohibited cross reference from .text to `v' in .data";
    let v_f = "prohibited cross reference from .data to `f' in .text";
    for (commands, expected) in [
        ("NOCROSSREFS(.text .data)", &[f_v, v_f][..]),
        ("NOCROSSREFS(.start .data .missing)", &[]),
        ("NOCROSSREFS_TO(.text .data)", &[v_f]),
        ("NOCROSSREFS_TO(.data .start .text)", &[f_v]),
        ("NOCROSSREFS_TO(.missing .start .text .data)", &[]),
        (
            "NOCROSSREFS(.start .text) NOCROSSREFS_TO(.bss .other)",
            &[
                "from .start to `f' in .text",
                "from .other to `block' in .bss",
            ],
        ),
        (
            "NOCROSSREFS(.text .other)",
            &["from .text to `mark' in .other"],
        ),
        ("NOCROSSREFS(.data .other)", &["in .other"]),
    ] {
        demand(&bench, &format!("{sections}{commands}\n"), expected);
    }
}

#[test]
fn overlays_that_must_not_refer_to_each_other() {
    let Some(bench) = bench(
        r#".globl _start, one, two
        .text; _start: call one; call two; ret
        .section .one,"ax"; one: call two; ret
        .section .two,"ax"; two: ret"#,
    ) else {
        return;
    };
    let script = |flag: &str| {
        format!(
            "SECTIONS {{ . = 0x400000; .text : {{ *(.text) }}
            OVERLAY 0x500000 : {flag} AT (0x600000) {{ .one {{ *(.one) }} .two {{ *(.two) }} }}
            .rest : {{ *(.data .bss) }} }}\n"
        )
    };
    demand(&bench, &script(""), &[]);
    demand(
        &bench,
        &script("NOCROSSREFS"),
        &["from .one to `two' in .two"],
    );
}

#[test]
fn common_blocks_can_be_thrown_away() {
    let script = "SECTIONS { . = 0x400000; .text : { *(.text) } /DISCARD/ : { *(COMMON) } }";
    let source = ".globl _start; _start: ret; .comm block,8,8\n";
    let Some(bench) = bench(source) else { return };
    demand(&bench, script, &[]);
    let image = bench.read("output");
    let elf = goblin::elf::Elf::parse(&image).unwrap();
    assert!(
        elf.syms
            .iter()
            .all(|symbol| elf.strtab.get_at(symbol.st_name) != Some("block"))
    );
    bench
        .scratch
        .write("a.s", format!("{source} lea block(%rip), %rax\n"));
    bench.driver(Linker::Reference, "gcc", "-c a.s -o a.o").ok();
    for linker in BOTH {
        let said = bench
            .ld(linker, "-T s.t a.o -o output")
            .failed()
            .errors()
            .to_owned();
        let expected = "defined in discarded section `COMMON' of a.o";
        assert!(said.contains(expected), "{linker:?}: {said}");
    }
}
