//! `-z pack-relative-relocs`: the relocations in `.relr.dyn`, read by the gABI's rules,
//! and those left in `.rela.dyn` are together those of a link without it.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::Elf;
use linking::{BOTH, Bench, Linker, check_image, tag};
use repo_tests::require;
use std::collections::BTreeMap;

const DT_RELRSZ: u64 = 35;
const DT_RELR: u64 = 36;
const DT_RELRENT: u64 = 37;
const R_X86_64_RELATIVE: u32 = 8;
const SHT_RELR: u32 = 19;

/// Pointers in every kind of place: close together, far apart, in the GOT, at odd addresses, in thread data, to functions
/// that are chosen at run time.
const PROGRAM: &str = r#"#include <stdio.h>
    #define FOUR(x) x, x, x, x
    #define MANY(x) FOUR(x), FOUR(x), FOUR(x), FOUR(x), FOUR(x), FOUR(x), FOUR(x), FOUR(x)
    static int target[4] = { 1, 2, 3, 4 };
    int visible = 9;
    int *near[] = { MANY(target), 0, 0, MANY(target + 1), MANY(&visible) };
    int *const constant[] = { target, target + 2 };
    struct __attribute__((packed)) odd { char c; int *p; } odd[3] = { {1, target}, {2, target + 1}, {3, &visible} };
    struct { int *p; char gap[4000]; int *q; } far[3] = { { target, "", target }, { 0 }, { target + 3, "x", &visible } };
    static __thread int *local = target + 1;
    static int chosen(void) { return 5; }
    static void *resolve(void) { return chosen; }
    int choose(void) __attribute__((ifunc("resolve")));
    int (*indirect)(void) = choose;
    int (*put)(const char *) = puts;
    extern int *from_assembly[2];
    int main(void) {
        int sum = 0;
        for (unsigned i = 0; i < sizeof near / sizeof *near; i++) sum += near[i] ? *near[i] * (i + 1) : 0;
        for (int i = 0; i < 3; i++) sum += *odd[i].p * 1000;
        sum += *far[0].p + *far[0].q + *far[2].p + *far[2].q + *constant[0] + *constant[1] + *local + indirect();
        printf("%d %d\n", sum, *from_assembly[0] + *from_assembly[1]);
        return put("end") < 0;
    }"#;
/// A section that is not aligned, and pointers two bytes off.
const ASSEMBLY: &str = r#"
    .section .data.unaligned, "aw"
    .p2align 0
    .byte 1
    .quad number
    .data
    .p2align 3
    .globl from_assembly
from_assembly: .quad number, number + 4
    .word 7
    .quad number
number: .long 30, 12
    .section .note.GNU-stack, "", @progbits
"#;

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

/// The bytes of an image at an address.
fn at<'i>(elf: &Elf, image: &'i [u8], address: u64) -> &'i [u8] {
    let load = elf
        .program_headers
        .iter()
        .find(|p| p.p_type == 1 && p.p_vaddr <= address && address < p.p_vaddr + p.p_filesz);
    let load = load.expect("the address is loaded from the file");
    &image[(address - load.p_vaddr + load.p_offset) as usize..]
}

/// All relative relocations, packed or not: place, and what is to be added to the base.
fn relative(image: &[u8]) -> BTreeMap<u64, u64> {
    let elf = Elf::parse(image).unwrap();
    let plain = elf
        .dynrelas
        .iter()
        .filter(|rela| rela.r_type == R_X86_64_RELATIVE);
    let mut found: BTreeMap<u64, u64> = plain
        .map(|rela| (rela.r_offset, rela.r_addend.unwrap() as u64))
        .collect();
    for place in packed(image) {
        let addend = word(at(&elf, image, place));
        assert_eq!(
            found.insert(place, addend),
            None,
            "{place:#x} is relocated twice"
        );
    }
    found
}

/// The places in `.relr.dyn`.
fn packed(image: &[u8]) -> Vec<u64> {
    let elf = Elf::parse(image).unwrap();
    let Some(start) = tag(&elf, DT_RELR) else {
        return Vec::new();
    };
    assert_eq!(tag(&elf, DT_RELRENT), Some(8));
    let size = tag(&elf, DT_RELRSZ).unwrap() as usize;
    let (mut places, mut next) = (Vec::new(), 0);
    for entry in at(&elf, image, start)[..size].chunks_exact(8).map(word) {
        if entry & 1 == 0 {
            places.push(entry);
            next = entry + 8;
        } else {
            places.extend(
                (0..63)
                    .filter(|bit| entry >> (bit + 1) & 1 == 1)
                    .map(|bit| next + 8 * bit),
            );
            next += 63 * 8;
        }
    }
    places
}

fn write_sources(bench: &Bench) {
    bench.scratch.write("a.c", PROGRAM);
    bench.scratch.write("b.s", ASSEMBLY);
}

#[test]
fn packed_and_plain_relocations_are_all_there() {
    let Some(bench) = Bench::new() else { return };
    write_sources(&bench);
    for kind in [
        "-pie -fPIE",
        "-static-pie -fPIE",
        "-pie -fPIE -Wl,--gc-sections -ffunction-sections",
    ] {
        let options = format!("{kind} a.c b.s");
        let [theirs, ours] =
            bench.same_behaviour("gcc", &format!("{options} -Wl,-z,pack-relative-relocs"));
        check_image(&ours);
        bench
            .driver(Linker::Ours, "gcc", &format!("{options} -o plain"))
            .ok();
        let plain = bench.read("plain");
        assert_eq!(relative(&ours).len(), relative(&plain).len(), "{kind}");
        assert!(packed(&plain).is_empty());
        // What is left is what cannot be packed: two of three structures, and a section without alignment.
        let odd = |image: &[u8]| {
            let rest = Elf::parse(image)
                .unwrap()
                .dynrelas
                .iter()
                .filter(|r| r.r_type == R_X86_64_RELATIVE)
                .count();
            (
                rest,
                packed(image).iter().filter(|place| *place % 2 == 1).count(),
            )
        };
        assert_eq!(odd(&ours), odd(&theirs), "{kind}");
        assert!(odd(&ours).0 >= 2, "{kind}");
        let elf = Elf::parse(&ours).unwrap();
        let count = tag(&elf, 0x6fff_fff9).unwrap_or(0);
        assert_eq!(count as usize, odd(&ours).0, "DT_RELACOUNT");
        let section = elf
            .section_headers
            .iter()
            .find(|s| s.sh_type == SHT_RELR)
            .unwrap();
        assert_eq!(
            (section.sh_entsize, section.sh_addralign, section.sh_flags),
            (8, 8, 2)
        );
        let small = |image: &[u8]| image.len();
        assert!(small(&ours) <= small(&plain));
    }
}

#[test]
fn shared_objects_and_tickets() {
    let Some(bench) = Bench::new() else { return };
    let library = "int x = 3; int *p = &x; static int y = 4; int *q[] = { &y, &y, &x }; int sum(void) { return *p + *q[0]; }";
    bench.scratch.write("lib.c", library);
    bench
        .scratch
        .write("user.c", "int sum(void); int main(void) { return sum(); }");
    let repo_cc = repo_tests::binaries::Binaries::get().path("repo-cc");
    let mut command = bench.scratch.command(repo_cc);
    repo_tests::process::run(command.args(["gcc", "-fPIC", "-c", "lib.c", "-o", "ticket.o"])).ok();
    for source in ["lib.c", "ticket.o"] {
        let line =
            format!("-fPIC -shared {source} -o libx.so -Wl,-z,pack-relative-relocs,-Bsymbolic");
        bench.driver(Linker::Ours, "gcc", &line).ok();
        let image = bench.read("libx.so");
        check_image(&image);
        assert!(packed(&image).len() >= 4, "{source}");
        bench
            .driver(Linker::Ours, "gcc", "user.c libx.so -o user")
            .ok();
        bench.execute("user").code(7);
    }
}

/// The script says where everything goes, and the table's length follows from that: by the linkers' own scripts, and by
/// one of the test's.
#[test]
fn linker_scripts() {
    let Some(bench) = Bench::new() else { return };
    write_sources(&bench);
    let own = "SECTIONS { . = SIZEOF_HEADERS; .interp : { *(.interp) } .dynsym : { *(.dynsym) } \
        .dynstr : { *(.dynstr) } .gnu.hash : { *(.gnu.hash) } .rela.dyn : { *(.rela.dyn .rela.got .rela.data) } \
        .rela.plt : { *(.rela.plt) } .relr.dyn : { *(.relr.dyn) } relr_end = .; \
        .rodata : { *(.rodata .rodata.*) } . = ALIGN(0x1000); .init : { *(.init) } .fini : { *(.fini) } .text : { *(.text .text.* .plt*) } \
        . = ALIGN(0x1000); .tdata : { *(.tdata) } .data : { *(.got .got.plt) BYTE(1) *(.data.rel.ro*) BYTE(2) *(SORT(.data) .data.*) } \
        .dynamic : { *(.dynamic) } .bss : { *(.bss) } end = .; ASSERT(relr_end <= ADDR(.rodata), \"moved\") }";
    bench.scratch.write("own.ld", own);
    let verbose = |linker: Linker, kind: &str, name: &str| {
        let said = bench.driver(
            linker,
            "gcc",
            &format!("{kind} -Wl,--verbose a.c b.s -o none"),
        );
        let said = said.ok().text();
        let rule = "=".repeat(50);
        bench.scratch.write(name, said.split(&rule).nth(1).unwrap());
    };
    for (kind, scripts) in [
        ("-pie -fPIE", ["gnu.pie", "ours.pie", "own.ld"]),
        ("-shared -fPIC -Wl,-e,main", ["gnu.so", "ours.so", "own.ld"]),
    ] {
        verbose(Linker::Reference, kind, scripts[0]);
        verbose(Linker::Ours, kind, scripts[1]);
        for script in scripts {
            let line = format!("{kind} a.c b.s -Wl,-T,{script}");
            let packing = format!("{line} -Wl,-z,pack-relative-relocs,-Map=map");
            let run = bench
                .driver(Linker::Ours, "gcc", &format!("{packing} -o packed"))
                .ok();
            assert_eq!(run.text(), "");
            let map = String::from_utf8(bench.read("map")).unwrap();
            let sizes: Vec<&str> = map
                .lines()
                .filter(|line| line.trim_start().starts_with(".relr.dyn"))
                .filter_map(|line| line.split_whitespace().nth(2))
                .collect();
            assert_eq!(sizes.len(), 2, "{map}");
            assert_eq!(sizes[0], sizes[1]);
            bench
                .driver(Linker::Ours, "gcc", &format!("{line} -o plain"))
                .ok();
            let [image, plain] = ["packed", "plain"].map(|name| bench.read(name));
            check_image(&image);
            assert_eq!(relative(&image).len(), relative(&plain).len(), "{line}");
            assert!(packed(&image).len() > 60, "{line}");
            assert!(packed(&plain).is_empty());
            if kind.starts_with("-pie") {
                let said =
                    ["packed", "plain"].map(|name| bench.execute(name).ok().text().to_owned());
                assert_eq!(said[0], said[1], "{line}");
                assert!(said[0].ends_with("end\n"));
            }
        }
    }
    // Who discards the table wants the usual relocations.
    bench
        .scratch
        .write("without.ld", own.replace(".relr.dyn : {", "/DISCARD/ : {"));
    let line = "-pie -fPIE a.c b.s -Wl,-T,without.ld,-z,pack-relative-relocs -o without";
    bench.driver(Linker::Ours, "gcc", line).ok();
    assert!(packed(&bench.read("without")).is_empty());
    assert!(bench.execute("without").ok().text().ends_with("end\n"));
}

#[test]
fn the_c_library_must_know_the_table() {
    let Some(bench) = Bench::new() else { return };
    let [readelf] = require!("readelf");
    write_sources(&bench);
    let versions = |options: &str| {
        BOTH.map(|linker| {
            let name = format!("v.{linker:?}");
            bench
                .driver(linker, "gcc", &format!("{options} -o {name}"))
                .ok();
            let run =
                repo_tests::process::run(bench.scratch.command(&readelf).args(["-WV", &name])).ok();
            run.text().contains("GLIBC_ABI_DT_RELR")
        })
    };
    assert_eq!(
        versions("-pie a.c b.s -Wl,-z,pack-relative-relocs"),
        [true, true]
    );
    assert_eq!(
        versions("-pie a.c b.s -Wl,-z,nopack-relative-relocs"),
        [false, false]
    );
    assert_eq!(
        versions("-no-pie a.c b.s -Wl,-z,pack-relative-relocs"),
        [false, false]
    );
}

#[test]
fn androids_tags() {
    let Some(bench) = Bench::new() else { return };
    write_sources(&bench);
    let options = "-shared -fPIC a.c b.s -nostdlib -Wl,--pack-dyn-relocs=relr,--use-android-relr-tags -o android.so";
    bench.driver(Linker::Ours, "gcc", options).ok();
    let image = bench.read("android.so");
    let elf = Elf::parse(&image).unwrap();
    assert_eq!(tag(&elf, DT_RELR), None);
    let section = elf
        .section_headers
        .iter()
        .find(|s| s.sh_type == 0x6fff_ff00)
        .unwrap();
    assert_eq!(tag(&elf, 0x6fff_e000), Some(section.sh_addr));
    assert_eq!(tag(&elf, 0x6fff_e001), Some(section.sh_size));
    assert_eq!(tag(&elf, 0x6fff_e003), Some(8));
}
