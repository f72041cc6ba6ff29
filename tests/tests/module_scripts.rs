//! `-r -T`: linker scripts that say which sections a relocatable object has, as those of kernel modules do.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::Elf;
use linking::{BOTH, Bench, Linker};

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
            "SECTIONS { .text : { *(.text) end = .; } }",
            "an assignment in an output section is not supported with -r",
        ),
        (
            "SECTIONS { .text 0x1000 : { *(.text) } }",
            "an address of an output section is not supported with -r",
        ),
        (
            "SECTIONS { .data : { *(.data) BYTE(1) } }",
            "data in an output section is not supported with -r",
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
