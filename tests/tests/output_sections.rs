//! What output sections say of themselves, and what is in them: flags, entry sizes, links to other sections, and the order
//! of what is about other sections. Reference is GNU ld.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::{Elf, section_header as sh};
use linking::{BOTH, Bench, Linker, check_image};
use std::collections::BTreeMap;

const LARGE: u64 = 0x1000_0000;
const RETAIN: u64 = 0x20_0000;

/// A section header, with the name of what `sh_link` names, and the section's bytes.
#[derive(Clone, Debug, PartialEq)]
struct Section {
    flags: u64,
    entsize: u64,
    address: u64,
    size: u64,
    link: String,
    bytes: Vec<u8>,
}

/// The sections of an image, by name.
fn sections(image: &[u8]) -> BTreeMap<String, Section> {
    let elf = Elf::parse(image).expect("an ELF file");
    let name = |header: &goblin::elf::SectionHeader| {
        let name = elf.shdr_strtab.get_at(header.sh_name);
        name.expect("it has a name").to_owned()
    };
    let headers = elf.section_headers.iter();
    headers
        .map(|header| {
            let section = Section {
                flags: header.sh_flags,
                entsize: header.sh_entsize,
                address: header.sh_addr,
                size: header.sh_size,
                link: name(&elf.section_headers[header.sh_link as usize]),
                bytes: header
                    .file_range()
                    .map_or(Vec::new(), |range| image[range].to_vec()),
            };
            (name(header), section)
        })
        .collect()
}

/// Assembles `text` to `NAME.o`.
fn assemble(bench: &Bench, name: &str, text: &str) {
    bench.scratch.write(format!("{name}.s"), text);
    let line = format!("-c {name}.s -o {name}.o");
    bench.driver(Linker::Reference, "gcc", &line).ok();
}

/// The sections of what both linkers make, that of the reference first.
fn link(bench: &Bench, arguments: &str) -> [BTreeMap<String, Section>; 2] {
    BOTH.map(|linker| {
        let output = format!("output.{linker:?}");
        bench.ld(linker, &format!("{arguments} -o {output}")).ok();
        let image = bench.read(&output);
        if !arguments.contains("-T") {
            check_image(&image);
        }
        sections(&image)
    })
}

/// The flags and entry sizes of sections.
fn kinds<'s>(
    sections: &BTreeMap<String, Section>,
    names: &[&'s str],
) -> BTreeMap<&'s str, (u64, u64)> {
    let kind = |section: &Section| (section.flags, section.entsize);
    let found = names.iter().filter_map(|name| {
        let section = sections.get(*name)?;
        Some((*name, kind(section)))
    });
    found.collect()
}

#[test]
fn pieces_of_one_kind_are_said_to_be_pieces() {
    let Some(bench) = Bench::new() else { return };
    assemble(
        &bench,
        "a",
        ".globl _start\n_start: nop\n\
         .section .rodata.str,\"aMS\",@progbits,1\n.asciz \"one\"\n\
         .section numbers,\"aM\",@progbits,4\n.long 1, 2, 1\n\
         .section mixed,\"aM\",@progbits,4,unique,1\n.long 1\n.section mixed,\"aM\",@progbits,8,unique,2\n.quad 1\n\
         .section with_others,\"aMS\",@progbits,1\n.asciz \"one\"\n\
         .section with_others,\"a\",@progbits,unique,3\n.byte 1\n",
    );
    let names = [".rodata", "numbers", "mixed", "with_others"];
    bench.scratch.write(
        "script.ld",
        "SECTIONS { .text : { *(.text) } .rodata : { *(.rodata .rodata.*) } numbers : { *(numbers) }
           mixed : { *(mixed) } with_others : { *(with_others) } }",
    );
    for options in ["a.o", "-T script.ld a.o"] {
        let [theirs, ours] = link(&bench, options).map(|sections| kinds(&sections, &names));
        assert_eq!(theirs, ours, "{options}");
        let (alloc, merge, strings) = (sh::SHF_ALLOC, sh::SHF_MERGE, sh::SHF_STRINGS);
        assert_eq!(ours[".rodata"], (u64::from(alloc | merge | strings), 1));
        assert_eq!(ours["numbers"], (u64::from(alloc | merge), 4));
    }
    // Bytes that the script puts there are no pieces.
    bench.scratch.write(
        "script.ld",
        "SECTIONS { .text : { *(.text) } numbers : { *(numbers) BYTE(1) } }",
    );
    bench.ld(Linker::Ours, "-T script.ld a.o -o data").ok();
    let data = sections(&bench.read("data"));
    assert_eq!(data["numbers"].flags, u64::from(sh::SHF_ALLOC));
}

#[test]
fn remarks_of_inputs_are_kept() {
    let Some(bench) = Bench::new() else { return };
    assemble(
        &bench,
        "a",
        ".globl _start\n_start: nop\n\
         .section kept,\"aR\",@progbits\n.quad 1\n\
         .section .data.kept,\"awR\",@progbits\n.quad 1\n\
         .section .ldata,\"awl\",@progbits\n.quad 1\n.section .ldata2,\"awl\",@progbits\n.quad 1\n\
         .section .lrodata,\"al\",@progbits\n.quad 1\n.section .lbss,\"awl\",@nobits\n.zero 64\n\
         .bss\n.zero 8\n",
    );
    let names = ["kept", ".ldata", ".ldata2", ".lrodata", ".lbss"];
    let script =
        "SECTIONS { .text : { *(.text) } kept : { *(kept) } .data : { *(.data .data.*) } }";
    bench.scratch.write("script.ld", script);
    for options in ["a.o", "--gc-sections a.o", "-T script.ld a.o"] {
        let [theirs, ours] = link(&bench, options);
        let kinds = [&theirs, &ours].map(|sections| kinds(sections, &names));
        assert_eq!(kinds[0], kinds[1], "{options}");
        assert_eq!(ours["kept"].flags, u64::from(sh::SHF_ALLOC) | RETAIN);
        // Whichever input section comes first.
        assert_ne!(ours[".data"].flags & RETAIN, 0, "{options}");
        if options == "a.o" {
            // What may be far away is behind what must be near.
            for (name, section) in &ours {
                let is_loaded = section.flags & u64::from(sh::SHF_ALLOC) != 0;
                let is_large = section.flags & LARGE != 0;
                let is_behind = section.address > ours[".bss"].address;
                assert!(
                    !is_loaded || is_large == is_behind || name == ".bss",
                    "{name}"
                );
            }
        }
    }
}

/// Two functions, each with a section that is about it, these in the wrong order; one that is about nothing, and one without
/// the flag.
const LINKED: &str = ".globl _start\n_start: nop\n\
    .section .text.a,\"ax\"\na: nop\n.section .text.hot.b,\"ax\"\nb: nop\n.section .text.c,\"ax\"\nc: nop\n\
    .section about,\"ao\",@progbits,.text.c\n.byte 3\n\
    .section about,\"ao\",@progbits,.text.a,unique,1\n.byte 2\n\
    .section about,\"ao\",@progbits,.text.hot.b,unique,2\n.byte 1\n\
    .section about,\"a\",@progbits,unique,3\n.byte 0\n";

#[test]
fn what_is_about_sections_is_ordered_as_they_are() {
    let Some(bench) = Bench::new() else { return };
    assemble(&bench, "a", LINKED);
    assemble(
        &bench,
        "b",
        ".section .text.hot.d,\"ax\"\nd: nop\n.section about,\"ao\",@progbits,.text.hot.d\n.byte 4\n",
    );
    bench.scratch.write(
        "script.ld",
        "SECTIONS { .text : { *(.text.hot.b) *(.text.c .text.a .text .text.*) } about : { *(about) } }",
    );
    for (options, bytes) in [
        ("a.o b.o", [0, 1, 4, 2, 3]),
        ("-T script.ld a.o b.o", [0, 1, 2, 3, 4]),
    ] {
        let [theirs, ours] = link(&bench, options).map(|sections| {
            let about = &sections["about"];
            (about.flags, about.link.clone(), about.bytes.clone())
        });
        assert_eq!(theirs, ours, "{options}");
        assert_eq!(ours.2, bytes, "{options}");
    }
}

#[test]
fn what_is_about_sections_lives_with_them() {
    let Some(bench) = Bench::new() else { return };
    assemble(
        &bench,
        "a",
        ".globl _start\n_start: call used\n\
         .section .text.used,\"ax\"\nused: nop\n.section .text.unused,\"ax\"\nunused: nop\n\
         .section sizes,\"o\",@progbits,.text.used\n.byte 1\n\
         .section sizes,\"o\",@progbits,.text.unused,unique,1\n.byte 2\n\
         .section about,\"ao\",@progbits,.text.used\n.byte 3\n\
         .section about,\"ao\",@progbits,.text.unused,unique,1\n.byte 4\n",
    );
    let [theirs, ours] = link(&bench, "--gc-sections a.o");
    for (name, byte) in [("sizes", 1), ("about", 3)] {
        assert_eq!(ours[name].bytes, [byte], "{name}");
        assert_eq!(theirs[name], ours[name].clone().at(&theirs[name]), "{name}");
    }
    // As it does when somebody walks over all that there is, as runtimes of sanitizers do.
    assemble(
        &bench,
        "walks",
        ".data\n.globl walk\nwalk: .quad __start_about, __stop_about\n",
    );
    for sections in link(&bench, "--gc-sections -u walk a.o walks.o") {
        assert_eq!(sections["about"].bytes, [3]);
    }
    // Thrown away by a script: what is about it goes as well.
    bench.scratch.write(
        "script.ld",
        "SECTIONS { .text : { *(.text .text.used) } /DISCARD/ : { *(.text.unused) } }",
    );
    bench.ld(Linker::Ours, "-T script.ld a.o -o discarded").ok();
    let discarded = sections(&bench.read("discarded"));
    assert_eq!(discarded["sizes"].bytes, [1]);
    assert_eq!(discarded["about"].bytes, [3]);

    assemble(
        &bench,
        "b",
        ".globl _start\n_start: .quad reached\n.section .text.unused,\"ax\"\nunused: nop\n\
         .section about,\"ao\",@progbits,.text.unused\nreached: .byte 4\n",
    );
    bench
        .ld(Linker::Reference, "--gc-sections b.o -o x")
        .failed();
    let run = bench.ld(Linker::Ours, "--gc-sections b.o -o x").failed();
    let words = "b.o: sh_link of section about points to discarded section .text.unused";
    assert!(run.errors().contains(words), "{}", run.report());
}

impl Section {
    /// The same at another's address.
    fn at(mut self, other: &Section) -> Section {
        self.address = other.address;
        self
    }
}

#[test]
fn groups_are_collected_as_a_whole() {
    let Some(bench) = Bench::new() else { return };
    assemble(
        &bench,
        "a",
        ".globl _start, f\n_start: nop\n\
         .section text.f,\"axG\",@progbits,f,comdat\nf: nop\n\
         .section data.f,\"awG\",@progbits,f,comdat\n.quad g\n\
         .section note.f,\"aG\",@note,f,comdat\n.quad 1\n\
         .section remark.f,\"G\",@note,f,comdat\n.quad 2\n\
         .section text.g,\"axG\",@progbits,g\n.globl g\ng: nop\n.section more.g,\"aG\",@progbits,g\n.quad 3\n\
         .section alone,\"\",@note\n.quad 4\n",
    );
    let all = [
        "text.f", "data.f", "note.f", "remark.f", "text.g", "more.g", "alone",
    ];
    for (entry, kept) in [("_start", &all[6..]), ("f", &all), ("g", &all[4..])] {
        for sections in link(&bench, &format!("--gc-sections -e {entry} a.o")) {
            let there = all.iter().filter(|name| sections.contains_key(**name));
            assert_eq!(
                there.collect::<Vec<_>>(),
                kept.iter().collect::<Vec<_>>(),
                "{entry}"
            );
        }
    }
}

#[test]
fn common_blocks_are_collected() {
    let Some(bench) = Bench::new() else { return };
    assemble(
        &bench,
        "a",
        ".data\n.globl _start\n_start: .quad used, more\n.section .data.dead,\"aw\"\n.quad half_dead\n\
         .comm used,8,8\n.comm more,64,8\n\
         .section remarks,\"\",@progbits\n.quad used, unused, unused+4\n",
    );
    // GNU ld keeps all of a file, or nothing.
    assemble(&bench, "b", ".comm unused,16,8\n.comm half_dead,32,8\n");
    let [theirs, ours] = link(&bench, "--gc-sections a.o b.o");
    assert_eq!(theirs[".bss"].size, ours[".bss"].size);
    assert_eq!(ours[".bss"].size, 8 + 64);
    let words = |section: &Section| {
        section
            .bytes
            .chunks(8)
            .map(<[u8]>::to_vec)
            .collect::<Vec<_>>()
    };
    let [used, unused, beside] = words(&ours["remarks"]).try_into().unwrap();
    assert_eq!(used, ours[".bss"].address.to_le_bytes());
    assert_eq!(
        [unused, beside],
        [0u64.to_le_bytes(); 2],
        "nothing is there"
    );
    let names = |image: &[u8]| {
        let elf = Elf::parse(image).unwrap();
        let names = elf
            .syms
            .iter()
            .filter_map(|symbol| elf.strtab.get_at(symbol.st_name));
        let names = names
            .map(str::to_owned)
            .collect::<std::collections::BTreeSet<_>>();
        ["used", "unused", "half_dead", "more"].map(|name| names.contains(name))
    };
    for linker in BOTH {
        let image = bench.read(&format!("output.{linker:?}"));
        assert_eq!(names(&image), [true, false, false, true], "{linker:?}");
    }
    // What is exported is in use, and so is what is asked for by name.
    for (options, size) in [("-shared", 8 + 16 + 32 + 64), ("-u unused", 8 + 16 + 64)] {
        let [_, ours] = link(&bench, &format!("--gc-sections {options} a.o b.o"));
        assert_eq!(ours[".bss"].size, size, "{options}");
    }
}

#[test]
fn shared_objects_keep_their_start() {
    let Some(bench) = Bench::new() else { return };
    assemble(
        &bench,
        "a",
        ".section start,\"ax\"\n.globl _start\n.hidden _start\n_start: .quad 1\n\
         .section more,\"ax\"\n.globl other\n.hidden other\nother: .quad 2\n",
    );
    for sections in link(&bench, "--gc-sections -shared a.o") {
        assert!(sections.contains_key("start") && !sections.contains_key("more"));
    }
}
