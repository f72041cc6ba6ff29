//! `-r -T`: linker scripts that say which sections a relocatable object has, as those of kernel modules do.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::Elf;
use linking::{BOTH, Bench, Linker};
use std::collections::BTreeMap;

const SCRIPT: &str = "SECTIONS {
    /DISCARD/ : { *(.discard) *(.discard.*) }
    __table 0 : ALIGN(16) { *(SORT(___table+*)) }
    .init_array 0 : ALIGN(8) { *(SORT(.init_array.*)) *(.init_array) }
    .bss : { *(.bss .bss.[0-9a-zA-Z_]*) }
    .data : { *(.data .data.[0-9a-zA-Z_]*) }
    .rodata : { *(.rodata .rodata.[0-9a-zA-Z_]*) }
    .text : { *(.text .text.[0-9a-zA-Z_]*) }
    mixed : { *(my_zeros) *(my_bytes) }
}";

const FIRST: &str = r#"
    static int counter;
    int one = 1, two = 2, zeros[10];
    __attribute__((section("___table+zeta"))) int zeta = 26;
    __attribute__((section("___table+alpha"))) int alpha = 1;
    __attribute__((section(".discard.this"))) int gone = 3;
    __attribute__((section("orphan"))) int kept = 4;
    __asm__(".section my_zeros,\"aw\",@nobits\n.globl blank\nblank: .zero 8\n"
            ".section my_bytes,\"aw\",@progbits\n.globl full\nfull: .quad 42\n.text");
    int f(int a) { return a + counter; }
    int g(int a) { return f(a) * two + one; }
    __attribute__((constructor)) static void start(void) { counter = 10; }"#;

const SECOND: &str = r#"
    #include <stdio.h>
    int f(int), g(int);
    extern int zeros[], kept;
    extern long blank, full;
    __attribute__((section("___table+mid"))) int mid = 13;
    static const char *const names[] = { "zero", "one" };
    int main(int count, char **words) {
        (void)words;
        printf("%d %d %d %d %s %ld %ld\n", f(count), g(count), zeros[count], kept, names[count], blank, full);
        return 0;
    }"#;

/// Names of the loaded sections that are not about frames or relocations, in order, with their alignments.
fn sections(image: &[u8]) -> Vec<(String, u64)> {
    let elf = Elf::parse(image).expect("an independent reader understands it");
    let loaded = elf
        .section_headers
        .iter()
        .filter(|section| section.sh_flags & 2 != 0);
    let named = loaded.map(|section| {
        let name = elf.shdr_strtab.get_at(section.sh_name).unwrap_or("");
        (name.to_owned(), section.sh_addralign)
    });
    named
        .filter(|(name, _)| !name.starts_with(".eh_frame") && !name.starts_with(".note"))
        .collect()
}

fn value(image: &[u8], name: &str) -> Option<u64> {
    let elf = Elf::parse(image).unwrap();
    let found = elf
        .syms
        .iter()
        .find(|symbol| elf.strtab.get_at(symbol.st_name) == Some(name));
    found.map(|symbol| symbol.st_value)
}

#[test]
fn sections_go_together_as_the_script_says() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("module.lds", SCRIPT);
    bench.scratch.write("first.c", FIRST);
    bench.scratch.write("second.c", SECOND);
    bench
        .driver(
            Linker::Reference,
            "gcc",
            "-O1 -g -fPIC -ffunction-sections -fdata-sections -c first.c second.c",
        )
        .ok();
    for linker in BOTH {
        let arguments = "-r -nostdlib -T module.lds first.o second.o -o united.o";
        bench.driver(linker, "gcc", arguments).ok();
        let image = bench.read("united.o");
        let found = sections(&image);
        let at = |name: &str| {
            let mut of_name = found
                .iter()
                .enumerate()
                .filter(|(_, section)| section.0 == name);
            let first = of_name
                .next()
                .unwrap_or_else(|| panic!("{name} by {linker:?}: {found:?}"));
            assert!(
                of_name.next().is_none(),
                "{name} by {linker:?} once: {found:?}"
            );
            first.0
        };
        // All that is of one kind is in one section, and these are in the script's order.
        let order = ["__table", ".init_array", ".bss", ".data", ".text", "mixed"].map(at);
        assert!(order.is_sorted(), "by {linker:?}: {found:?}");
        assert_eq!(found[at("__table")].1, 16, "by {linker:?}");
        at("orphan");
        assert!(
            !found
                .iter()
                .any(|(name, _)| name.contains('+') || name.starts_with(".text."))
        );
        assert_eq!(value(&image, "gone"), None, "by {linker:?}");
        assert_eq!(
            ["alpha", "mid", "zeta"].map(|name| value(&image, name)),
            [Some(0), Some(4), Some(8)],
            "sorted by {linker:?}"
        );
        for kind in ["-pie", "-no-pie"] {
            let arguments = format!("{kind} united.o -o program");
            bench.driver(Linker::Reference, "gcc", &arguments).ok();
            assert_eq!(
                bench.execute("program").ok().text(),
                "11 23 0 4 one 0 42\n",
                "{kind} by {linker:?}"
            );
        }
    }
}

/// As the kernel's module.lds marks its tables of allocation tags, and what else a description can hold.
const MARKS: &str = "SECTIONS {
    .codetag.tags : { . = ALIGN(8); __start_tags = .; KEEP(*(tags)) __stop_tags = .; }
    .codetag.none : { . = ALIGN(8); __start_none = .; KEEP(*(none)) __stop_none = .; }
    .words 0 : { words = .; *(my_words) PROVIDE(words_end = .); PROVIDE(nobody = .); PROVIDE(own = 7); HIDDEN(hidden = 4); }
    .mixed 0 : { SHORT(0x1234) *(my_bytes) . = ALIGN(16); LONG(7 + 1) after = .; . += 3; ASSERT(. == 23, \"size\"); five = ABSOLUTE(5); }
    .gap 0x1000 : { . = . + 16; behind = .; }
    .kept : { . = .; }
    .zeros 0 : { *(my_zeros) . += 5; }
    ASSERT(SIZEOF(.mixed) == 23 && ALIGNOF(.zeros) == 1, \"sizes\")
}";

const MARKED: &str = r#"
    .section tags, "aw"
    .p2align 3
    .quad 1, foo
    .text
foo: ret
    .globl use, own
use: lea __start_tags(%rip), %rax
    lea __stop_tags(%rip), %rax
    lea words_end(%rip), %rax
own: ret
    .section my_words, "aMS", @progbits, 1
    .string "hello"
    .section my_bytes, "a"
    .byte 3
    .section my_zeros, "aw", @nobits
    .skip 3
    .section .note.GNU-stack, "", @progbits
"#;

/// Where each symbol is: section, offset, binding.
fn marks(image: &[u8]) -> BTreeMap<String, (String, u64, u8)> {
    let elf = Elf::parse(image).expect("an independent reader understands it");
    let named = elf.syms.iter().filter_map(|symbol| {
        let name = elf
            .strtab
            .get_at(symbol.st_name)
            .filter(|name| !name.is_empty())?;
        let section = elf.section_headers.get(symbol.st_shndx);
        let section = section.and_then(|section| elf.shdr_strtab.get_at(section.sh_name));
        let is_file = symbol.st_type() == 4;
        (!is_file).then(|| {
            let place = section.unwrap_or("none").to_owned();
            (name.to_owned(), (place, symbol.st_value, symbol.st_bind()))
        })
    });
    named.collect()
}

/// Type, flags, address, alignment and bytes of a section.
fn described(image: &[u8], name: &str) -> (u32, u64, u64, u64, Vec<u8>) {
    let elf = Elf::parse(image).unwrap();
    let section = elf
        .section_headers
        .iter()
        .find(|section| elf.shdr_strtab.get_at(section.sh_name) == Some(name));
    let section = section.unwrap_or_else(|| panic!("no {name}"));
    let bytes = section.file_range().map_or_else(
        || vec![0xee; section.sh_size as usize],
        |range| image[range].to_vec(),
    );
    (
        section.sh_type,
        section.sh_flags,
        section.sh_addr,
        section.sh_addralign,
        bytes,
    )
}

#[test]
fn symbols_and_data_between_sections() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("module.lds", MARKS);
    bench.scratch.write("marked.s", MARKED);
    bench.driver(Linker::Reference, "gcc", "-c marked.s").ok();
    let [theirs, ours] = BOTH.map(|linker| {
        let arguments = "-r -nostdlib -T module.lds marked.o -o united.o";
        bench.driver(linker, "gcc", arguments).ok();
        bench.read("united.o")
    });
    assert_eq!(marks(&ours), marks(&theirs));
    assert_eq!(
        marks(&ours)["__stop_tags"],
        (".codetag.tags".to_owned(), 16, 1)
    );
    for name in [".words", ".mixed", ".gap", ".zeros"] {
        assert_eq!(described(&ours, name), described(&theirs, name), "{name}");
    }
    for name in [".kept", ".codetag.none"] {
        assert!(described(&ours, name).4.is_empty(), "{name}");
    }
    // A sum, and a number that is not an offset, of other sections' symbols.
    let script = "SECTIONS { .a : { *(my_bytes) x = .; } .b : { w = .; *(my_words) y = x + 1; . = MAX(., 0x10); BYTE(. - w) z = 3 * 2; x = .; } }";
    bench.scratch.write("module.lds", script);
    bench
        .driver(
            Linker::Ours,
            "gcc",
            "-r -nostdlib -T module.lds marked.o -o united.o",
        )
        .ok();
    let image = bench.read("united.o");
    let found = marks(&image);
    assert_eq!(found["y"], (".a".to_owned(), 2, 1));
    assert_eq!(found["z"], (".b".to_owned(), 6, 1));
    assert_eq!(found["x"], (".b".to_owned(), 17, 1));
    assert_eq!(
        described(&image, ".b").4,
        b"hello\0\0\0\0\0\0\0\0\0\0\0\x10"
    );
}

#[test]
fn what_needs_addresses_is_refused_by_name() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("first.c", FIRST);
    bench.driver(Linker::Reference, "gcc", "-c first.c").ok();
    for (script, complaint) in [
        (
            "SECTIONS { .text : { *(.text) } here = .; }",
            "module.lds:1: a symbol in SECTIONS is not supported with -r",
        ),
        (
            "SECTIONS { . = 0x1000; .text : { *(.text) } }",
            "an address in SECTIONS is not supported with -r",
        ),
        (
            "SECTIONS { .text SIZEOF_HEADERS : { *(.text) } }",
            "an address of an output section that is not a number is not supported with -r",
        ),
        (
            "SECTIONS { .data : { *(.data) QUAD(.) } }",
            "module.lds:1: an address, with -r, is not known yet at this point of the link",
        ),
        (
            "SECTIONS { .data : { *(.data)\nend = f + 4; } }",
            "module.lds:2: a symbol that the script has not defined in an output section, with -r, is not known yet",
        ),
        (
            "SECTIONS { .text : { x = .; *(.text) }\n.data : { *(.data) LONG(. - x) } }",
            "module.lds:2: the address of another section, with -r, is not known yet",
        ),
        (
            "SECTIONS { .data : { *(.data)\nLONG(SIZEOF(.text)) } }",
            "module.lds:2: what becomes of a section is not known yet",
        ),
        (
            "SECTIONS { .data : { *(.data)\n. = 1; } }",
            "module.lds:2: cannot move location counter backwards",
        ),
        (
            "SECTIONS { .data : { *(.data)\n. = 1 << 60; } }",
            "module.lds:2: the output's section would be larger than",
        ),
        (
            "SECTIONS { .data : { *(.data) }\nASSERT(SIZEOF(.data) == 1, \"size\") }",
            "module.lds:2: assertion failed: size",
        ),
        (
            "SECTIONS { .data : { *(.data)\nASSERT(. < 4, \"end\") } }",
            "module.lds:2: assertion failed: end",
        ),
        (
            "SECTIONS { .data : ONLY_IF_RW { *(.data) BYTE(1) } }",
            "data or a symbol under ONLY_IF_RO or ONLY_IF_RW is not supported with -r",
        ),
        (
            "ASSERT(1, \"no\")",
            "ASSERT without SECTIONS in a linker script is not supported with -r",
        ),
        (
            "MEMORY { ram : ORIGIN = 0, LENGTH = 1M } SECTIONS { .text : { *(.text) } > ram }",
            "a memory region is not supported with -r",
        ),
    ] {
        bench.scratch.write("module.lds", script);
        let arguments = "-r -nostdlib -T module.lds first.o -o united.o";
        let refused = bench.driver(Linker::Ours, "gcc", arguments).failed();
        assert!(refused.errors().contains(complaint), "{}", refused.report());
        assert!(!bench.path("united.o").exists());
    }
}
