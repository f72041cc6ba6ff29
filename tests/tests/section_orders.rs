//! In which order input sections stand, and which are there at all: `SORT`, `REVERSE`, `--section-ordering-file`, `LIB`.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::Elf;
use linking::{BOTH, Bench, Linker, check_image};

/// The names of an image's symbols by their addresses, without their numbers.
fn symbols_by_address(image: &[u8]) -> String {
    let elf = Elf::parse(image).expect("an ELF file");
    let mut symbols: Vec<(u64, &str)> = elf
        .syms
        .iter()
        .filter(|symbol| symbol.st_shndx != 0 && symbol.st_type() == 0)
        .map(|symbol| {
            (
                symbol.st_value,
                elf.strtab.get_at(symbol.st_name).expect("a name"),
            )
        })
        .collect();
    symbols.sort_unstable();
    let names: Vec<&str> = symbols.iter().map(|(_, name)| *name).collect();
    names.join(" ")
}

#[test]
fn orders_of_input_sections() {
    let Some(bench) = Bench::new() else { return };
    for n in 1..3 {
        let mut text = String::new();
        for (section, symbol) in [
            (".text.b", "b"),
            (".text.a", "a"),
            (".text.c", "c"),
            (".init.5", "five"),
            (".init.100", "hundred"),
            (".init", "init"),
        ] {
            text += &format!(".section {section}, \"ax\"\n.globl {symbol}{n}\n{symbol}{n}: nop\n");
        }
        bench.assemble(&n.to_string(), text);
    }
    // The expected ones are GNU ld 2.47's. Older ones do not know `REVERSE`.
    for (description, expected) in [
        ("*(SORT(.text*))", "a1 a2 b1 b2 c1 c2"),
        ("*(REVERSE(.text*))", "c1 c2 b1 b2 a1 a2"),
        ("*(SORT(REVERSE(.text*)))", "c1 c2 b1 b2 a1 a2"),
        (
            "KEEP(*(REVERSE(SORT_BY_NAME(.text*))))",
            "c1 c2 b1 b2 a1 a2",
        ),
        ("REVERSE(*)(.text*)", "b2 a2 c2 b1 a1 c1"),
        (
            "SORT(REVERSE(*))(.text* .init)",
            "b2 a2 c2 init2 b1 a1 c1 init1",
        ),
        ("REVERSE(*)(REVERSE(.text*))", "c2 b2 a2 c1 b1 a1"),
        (
            "*(SORT_BY_INIT_PRIORITY(.init*))",
            "init1 init2 five1 five2 hundred1 hundred2",
        ),
        (
            "*(SORT_BY_INIT_PRIORITY(.[it]*))",
            "init1 init2 five1 five2 hundred1 hundred2 a1 a2 b1 b2 c1 c2",
        ),
        (
            "*(REVERSE(SORT_BY_INIT_PRIORITY(.[it]*)))",
            "c1 c2 b1 b2 a1 a2 hundred1 hundred2 five1 five2 init1 init2",
        ),
    ] {
        bench.scratch.write(
            "order.ld",
            format!("SECTIONS {{ .x : {{ {description} }} /DISCARD/ : {{ *(*) }} }}"),
        );
        for linker in BOTH {
            if linker == Linker::Reference && description.contains("REVERSE") {
                continue;
            }
            bench.ld(linker, "-T order.ld 1.o 2.o -o order").ok();
            assert_eq!(
                symbols_by_address(&bench.read("order")),
                expected,
                "{description} {linker:?}"
            );
        }
    }
    bench.scratch.write(
        "order.ld",
        "SECTIONS { .x : { *(REVERSE(SORT_BY_ALIGNMENT(.text*))) } }",
    );
    let refused = bench.ld(Linker::Ours, "-T order.ld 1.o -o order").failed();
    assert!(
        refused
            .errors()
            .contains("order.ld:1: these sorts cannot be nested"),
        "{}",
        refused.report()
    );
}

/// `--section-ordering-file` (GNU ld 2.43).
#[test]
fn sections_that_come_first() {
    let Some(bench) = Bench::new() else { return };
    for n in 1..3 {
        let mut text = String::new();
        for (section, symbol) in [
            (".text.b, \"ax\"", "b"),
            (".text.a, \"ax\"", "a"),
            (".text, \"ax\"", "plain"),
            (".text.hot.c, \"ax\"", "hot"),
        ] {
            text += &format!(".section {section}\n.globl {symbol}{n}\n{symbol}{n}: nop\n");
        }
        bench.assemble(&n.to_string(), text);
    }
    let symbols = |options: &str| {
        bench
            .ld(Linker::Ours, &format!("{options} 1.o 2.o -o out"))
            .ok();
        let image = bench.read("out");
        check_image(&image);
        let all = symbols_by_address(&image);
        let own = all.split(' ').filter(|name| name.ends_with(['1', '2']));
        own.collect::<Vec<_>>().join(" ")
    };
    bench
        .scratch
        .write("order", ".text : { *(.text.a)\n 2.o(.text.b) *(.text) }");
    for options in ["", "-pie", "-shared", "-static"] {
        assert_eq!(
            symbols(&format!("{options} --section-ordering-file order")),
            "a1 a2 b2 plain1 plain2 hot1 hot2 b1",
            "{options}"
        );
        assert!(symbols(options).starts_with("hot1 hot2"), "{options}");
    }
    bench.scratch.write(
        "script.ld",
        "SECTIONS { .text : { *(.text.b) *(.text*) } /DISCARD/ : { *(.note*) } }",
    );
    assert_eq!(
        symbols("-T script.ld"),
        "b1 b2 plain1 a1 hot1 plain2 a2 hot2"
    );
    assert_eq!(
        symbols("-T script.ld --section-ordering-file=order"),
        "a1 a2 b2 plain1 plain2 b1 hot1 hot2"
    );
    for (text, options, complaint) in [
        (
            ".other : { *(.text.a) }",
            "",
            "order:1: the layout has no output section .other",
        ),
        (
            "\n.text : { . = 5; }",
            "",
            "order:2: a section ordering file can only say",
        ),
        (
            "a = 5;",
            "",
            "order:1: a section ordering file can only say",
        ),
        (
            "\n.text 0x1000 : { *(.text.a) }",
            "",
            "order:2: a section ordering file can only say",
        ),
        (
            ".text : { *(.text.a) } =0x90",
            "",
            "order:1: a section ordering file can only say",
        ),
        (
            ".text : { *(.text.a) } } SECTIONS {",
            "",
            "order: a section ordering file can only say",
        ),
        (
            ".text : { *(.text.a) } } ENTRY(a) SECTIONS {",
            "",
            "order: a section ordering file can only say",
        ),
        (".text : { *(.text.a }", "", "order:1: expected"),
        (
            ".text : { *(.text.a) }",
            "-r",
            "--section-ordering-file with -r is not supported yet",
        ),
    ] {
        bench.scratch.write("order", text);
        let refused = bench
            .ld(
                Linker::Ours,
                &format!("{options} --section-ordering-file order 1.o -o out"),
            )
            .failed();
        assert!(
            refused.errors().contains(complaint),
            "{complaint}: {}",
            refused.report()
        );
    }
}

/// `LIB` (GNU ld 2.47): what is not needed is not linked.
#[test]
fn objects_as_members_of_an_archive() {
    let Some(bench) = Bench::new() else { return };
    for (name, text) in [
        ("start", ".globl _start\n_start: call used\n"),
        ("used", ".globl used\nused: ret\n"),
        ("unused", ".globl unused\nunused: call missing\n"),
    ] {
        bench.assemble(name, text);
    }
    bench.scratch.write("both.ld", "LIB(unused.o, used.o)");
    bench.ld(Linker::Ours, "start.o both.ld -o program").ok();
    assert_eq!(
        symbols_by_address(&bench.read("program"))
            .matches("used")
            .count(),
        1
    );
    bench.scratch.write("both.ld", "INPUT(unused.o used.o)");
    bench
        .ld(Linker::Ours, "start.o both.ld -o program")
        .failed();
}
