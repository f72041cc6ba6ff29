//! Linker scripts and maps see definitions that come from tickets by the names that they have in objects compiled with
//! `-ffunction-sections -fdata-sections`.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::Elf;
use linking::{Bench, Linker};
use repo_tests::binaries::Binaries;
use repo_tests::process::{Run, run};
use std::collections::BTreeMap;

const SOURCE: &str = r#"
int first = 1, blank; static int second = 2;
const char *message(void) { return "hello"; }
static __attribute__((noinline)) int hidden(void) { return second++; }
int f(void) { return hidden() + 1; }
int g(void) { return blank; }
__attribute__((section(".text.hot.special"))) int hot(void) { return 5; }
__attribute__((section(".data..apart"))) int apart = 6;
__attribute__((constructor)) static void early(void) { blank = 7; }
void _start(void) { f(); g(); hot(); message(); }
"#;

/// `object.o` and `ticket.o`, of one source.
fn bench() -> Option<Bench> {
    let bench = Bench::new()?;
    bench.scratch.write("source.c", SOURCE);
    let options = "-O1 -fno-pic -ffunction-sections -fdata-sections -c source.c";
    bench
        .driver(Linker::Reference, "gcc", &format!("{options} -o object.o"))
        .ok();
    // The build itself need not ask for the sections.
    let mut command = bench.scratch.command(Binaries::get().path("repo-cc"));
    command.args("gcc -O1 -fno-pic -c source.c -o ticket.o".split(' '));
    run(&mut command).ok();
    assert!(repo_tests::compare::is_ticket_file(bench.path("ticket.o")));
    Some(bench)
}

fn ld(bench: &Bench, arguments: &str) -> Run {
    let mut command = bench.scratch.command(Binaries::get().path("repo-ld"));
    command.args(arguments.split_whitespace());
    run(&mut command)
}

/// The section that each symbol is in.
fn places(image: &[u8]) -> BTreeMap<String, String> {
    let elf = Elf::parse(image).unwrap();
    let symbols = elf
        .syms
        .iter()
        .filter(|symbol| matches!(symbol.st_type(), 1 | 2));
    symbols
        .map(|symbol| {
            let section = elf.section_headers.get(symbol.st_shndx);
            let section = section.and_then(|section| elf.shdr_strtab.get_at(section.sh_name));
            let name = elf.strtab.get_at(symbol.st_name).unwrap_or("");
            (name.to_owned(), section.unwrap_or("").to_owned())
        })
        .collect()
}

/// Links by the script, from the object and from the ticket; both must be alike.
fn same_places(bench: &Bench, script: &str, options: &str) -> BTreeMap<String, String> {
    bench.scratch.write("s.t", script);
    let [object, ticket] = ["object", "ticket"].map(|input| {
        ld(bench, &format!("-T s.t {input}.o {options} -o {input}")).ok();
        places(&bench.read(input))
    });
    assert_eq!(object, ticket, "{script}");
    ticket
}

#[test]
fn patterns_match_definitions_of_tickets() {
    let Some(bench) = bench() else { return };
    let script = "SECTIONS { . = 0x400000;
        .one : { KEEP(*(.text.f)) *(.text.hot*) }
        .two : { *(.text.g .text.hidden) }
        .text : { *(.text .text.*) }
        .strings : { *(.rodata.str* .rodata.*.str*) }
        .rodata : { *(.rodata .rodata.*) }
        .init_array : { KEEP(*(.init_array .init_array.*)) }
        .first : { *(.data.first) }
        .apart : { *(.data..apart) }
        .blank : { *(.bss.blank) }
        .data : { *(.data .data.*) }
        .bss : { *(.bss .bss.* COMMON) } }";
    let found = same_places(&bench, script, "");
    for (symbol, section) in [
        ("f", ".one"),
        ("hot", ".one"),
        ("g", ".two"),
        ("hidden", ".two"),
        ("message", ".text"),
        ("first", ".first"),
        ("apart", ".apart"),
        ("second", ".data"),
        ("blank", ".blank"),
    ] {
        assert_eq!(found[symbol], section, "{symbol}");
    }
    let image = bench.read("ticket");
    let elf = Elf::parse(&image).unwrap();
    let strings = elf
        .section_headers
        .iter()
        .find(|section| elf.shdr_strtab.get_at(section.sh_name) == Some(".strings"));
    assert_eq!(strings.map(|section| section.sh_size), Some(6));
    // With garbage collection, `KEEP` is by these names as well.
    let script = "SECTIONS { . = 0x400000; .text : { KEEP(*(.text.g)) *(.text*) } .data : { *(.data*) } .bss : { *(.bss*) }
        /DISCARD/ : { *(.init_array) } }";
    let found = same_places(&bench, script, "--gc-sections -e hot");
    assert!(
        found.contains_key("g") && !found.contains_key("f"),
        "{found:?}"
    );
}

#[test]
fn sections_are_sorted_by_these_names() {
    let Some(bench) = bench() else { return };
    bench.scratch.write(
        "s.t",
        "SECTIONS { . = 0x400000; .text : { *(SORT_BY_NAME(.text.*)) } .data : { *(SORT_BY_NAME(.data.*)) *(.bss*) } }",
    );
    let order = |input: &str| {
        ld(&bench, &format!("-T s.t {input}.o -o {input}")).ok();
        let image = bench.read(input);
        let elf = Elf::parse(&image).unwrap();
        let mut symbols: Vec<(u64, String)> = elf
            .syms
            .iter()
            .filter(|symbol| symbol.st_type() == 2)
            .map(|symbol| {
                (
                    symbol.st_value,
                    elf.strtab.get_at(symbol.st_name).unwrap().to_owned(),
                )
            })
            .collect();
        symbols.sort();
        symbols
            .into_iter()
            .map(|(_, name)| name)
            .collect::<Vec<_>>()
    };
    let expected = ["_start", "early", "f", "g", "hidden", "hot", "message"];
    assert_eq!(order("object"), expected);
    assert_eq!(order("ticket"), expected);
}

#[test]
fn scripts_that_know_no_such_names_take_the_plain_ones() {
    let Some(bench) = bench() else { return };
    // As if compiled without the options: these names are of nobody's making.
    bench.scratch.write(
        "s.t",
        "SECTIONS { . = 0x400000; .code : { *(.text) } .hot : { *(.text.hot.special) } .rodata : { *(.rodata*) }
            .init_array : { *(.init_array) } .values : { *(.data) *(.data..apart) } .zeros : { *(.bss) } .rest : { *(.comment .eh_frame .note.*) } }",
    );
    ld(&bench, "-T s.t ticket.o --orphan-handling=error -o ticket").ok();
    let found = places(&bench.read("ticket"));
    for (symbol, section) in [
        ("f", ".code"),
        ("hot", ".hot"),
        ("first", ".values"),
        ("blank", ".zeros"),
    ] {
        assert_eq!(found[symbol], section, "{symbol}");
    }
}

#[test]
fn maps_show_these_names() {
    let Some(bench) = bench() else { return };
    for input in ["object", "ticket"] {
        let run = ld(
            &bench,
            &format!("{input}.o --print-map --gc-sections --print-gc-sections -o {input}"),
        );
        let run = run.ok();
        let map = run.text();
        for name in [".text.f", ".data.second", ".bss.blank"] {
            assert!(
                map.lines()
                    .any(|line| line.split_whitespace().next() == Some(name)),
                "{input}: {name}\n{map}"
            );
        }
        assert!(
            run.errors().contains("'.data.first'"),
            "{input}: {}",
            run.errors()
        );
    }
}
