//! `.sframe`: entries of what is linked, in one section, sorted.
//!
//! Few assemblers make the versions of the format that are in use, so the inputs are written by hand.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::Elf;
use linking::{Bench, Linker, check_image};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const SHT_GNU_SFRAME: u32 = 0x6fff_fff4;
const PT_GNU_SFRAME: u32 = 0x6474_e554;

/// Functions with their description: `.sframe` with one entry for each. Of each kind of rows there is one.
fn functions(version: u8, names: &[&str]) -> String {
    let mut text = String::new();
    for name in names {
        let _ = writeln!(
            text,
            ".section .text.{name}, \"ax\"\n.globl {name}\n.type {name}, @function\n{name}: push %rbp\n\
             mov $1, %eax\npop %rbp\nret\n.size {name}, . - {name}"
        );
    }
    text + &description(version, names, "3, 0, -8, 0")
}

/// The description alone. Distances are from the entries. `kind`: machine, fixed offsets, bytes that follow the header.
fn description(version: u8, names: &[&str], kind: &str) -> String {
    let mut text = format!(
        ".section .sframe, \"a\", @{SHT_GNU_SFRAME}\n.p2align 3\n.Lstart: .short 0xdee2\n.byte {version}, 4, {kind}\n\
         .long {}, {}, .Lend - .Lrows, 0, .Lrows - .Lindex\n.Lindex:\n",
        names.len(),
        2 * names.len()
    );
    for (n, name) in names.iter().enumerate() {
        let _ = match version {
            3 => writeln!(text, ".quad {name} - .\n.long 10, .Lrows{n} - .Lrows"),
            _ => writeln!(
                text,
                ".long {name} - ., 10, .Lrows{n} - .Lrows, 2\n.byte {}, 0, 0, 0",
                n % 3
            ),
        };
    }
    text += ".Lrows:\n";
    for n in 0..names.len() {
        let _ = writeln!(text, ".Lrows{n}:");
        if version == 3 {
            let _ = writeln!(text, ".short 2\n.byte {}, 0, 0", n % 3);
        }
        let offset = [".byte", ".short", ".long"][n % 3];
        // From the stack pointer, one word of one byte; then two words of two bytes.
        let _ = writeln!(
            text,
            "{offset} 0\n.byte 3, 8\n{offset} 1\n.byte 0x25\n.short 16, -16"
        );
    }
    text + ".Lend:\n.section .note.GNU-stack, \"\", @progbits\n"
}

/// The entries of an image: address of the function, its size, and its rows.
fn entries(image: &[u8]) -> Vec<(u64, u32, Vec<u8>)> {
    let elf = Elf::parse(image).expect("an ELF file");
    let header = elf
        .section_headers
        .iter()
        .find(|header| header.sh_type == SHT_GNU_SFRAME);
    let Some(header) = header else {
        assert!(
            !elf.program_headers
                .iter()
                .any(|segment| segment.p_type == PT_GNU_SFRAME)
        );
        return Vec::new();
    };
    assert_eq!(elf.shdr_strtab.get_at(header.sh_name), Some(".sframe"));
    let segment = elf
        .program_headers
        .iter()
        .find(|segment| segment.p_type == PT_GNU_SFRAME);
    let segment = segment.expect("a segment");
    assert_eq!(
        (segment.p_vaddr, segment.p_memsz),
        (header.sh_addr, header.sh_size)
    );
    let bytes = &image[header.sh_offset as usize..][..header.sh_size as usize];
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    assert_eq!(bytes[..2], [0xe2, 0xde]);
    let version = bytes[2];
    assert_eq!(bytes[3..8], [5, 3, 0, 0xf8, 0]);
    let (count, rows, index_size) = (word(8) as usize, 28 + word(24) as usize, word(24) as usize);
    assert_eq!(word(12) as usize, 2 * count);
    assert_eq!(rows + word(16) as usize, bytes.len());
    let size = if version == 3 { 16 } else { 20 };
    assert_eq!((word(20), index_size), (0, count * size));
    let mut entries = Vec::new();
    for n in 0..count {
        let at = 28 + n * size;
        let place = header.sh_addr + at as u64;
        let (distance, size, offset, kind) = match version {
            3 => {
                let distance =
                    i64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
                let offset = rows + word(at + 12) as usize;
                assert_eq!(bytes[offset..offset + 2], [2, 0]);
                (distance, word(at + 8), offset + 5, bytes[offset + 2])
            }
            _ => {
                let distance = i64::from(word(at) as i32);
                (
                    distance,
                    word(at + 4),
                    rows + word(at + 8) as usize,
                    bytes[at + 16],
                )
            }
        };
        let length = 2 * (1 << kind) + 2 + 5;
        entries.push((
            place.wrapping_add_signed(distance),
            size,
            bytes[offset..offset + length].to_vec(),
        ));
    }
    assert!(entries.is_sorted_by_key(|entry| entry.0), "{entries:?}");
    entries
}

/// The functions that an image describes, each by its name.
fn described(image: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let elf = Elf::parse(image).expect("an ELF file");
    let mut names = BTreeMap::new();
    for (address, size, rows) in entries(image) {
        let symbol = elf
            .syms
            .iter()
            .find(|symbol| symbol.st_value == address && symbol.st_size != 0);
        let symbol = symbol.expect("a function");
        assert_eq!(symbol.st_size, 8);
        assert_eq!(size, 10);
        let name = elf.strtab.get_at(symbol.st_name).expect("a name");
        names.insert(name.to_owned(), rows);
    }
    names
}

fn names(image: &[u8]) -> Vec<String> {
    described(image).into_keys().collect()
}

/// Objects `one.o` and `two.o`, and what begins.
fn write_inputs(bench: &Bench, versions: [u8; 2]) {
    bench
        .scratch
        .write("one.s", functions(versions[0], &["d", "a", "b", "unused"]));
    bench
        .scratch
        .write("two.s", functions(versions[1], &["e", "c"]));
    bench.scratch.write(
        "start.s",
        ".globl _start\n_start: call a\ncall b\ncall c\ncall d\ncall e\n.section .note.GNU-stack, \"\", @progbits\n",
    );
    for name in ["one", "two", "start"] {
        bench
            .driver(Linker::Reference, "gcc", &format!("-c {name}.s"))
            .ok();
    }
}

#[test]
fn descriptions_of_what_is_linked() {
    let Some(bench) = Bench::new() else { return };
    for version in [2, 3] {
        write_inputs(&bench, [version; 2]);
        let link = |options: &str| {
            bench
                .ld(
                    Linker::Ours,
                    &format!("{options} start.o two.o one.o -o out"),
                )
                .ok();
            let image = bench.read("out");
            check_image(&image);
            image
        };
        for kind in ["", "-pie", "-shared"] {
            let image = link(kind);
            assert_eq!(
                names(&image),
                ["a", "b", "c", "d", "e", "unused"],
                "{version} {kind}"
            );
            let described = described(&image);
            // The third of its file has offsets of four bytes, the second of two.
            assert_eq!(described["d"], [0, 3, 8, 1, 0x25, 16, 0, 0xf0, 0xff]);
            assert_eq!(described["a"][..4], [0, 0, 3, 8]);
            assert_eq!(described["b"][..6], [0, 0, 0, 0, 3, 8]);
        }
        assert_eq!(names(&link("--gc-sections")), ["a", "b", "c", "d", "e"]);
        assert!(names(&link("--discard-sframe")).is_empty());
        bench.scratch.write(
            "script.ld",
            "SECTIONS { . = SIZEOF_HEADERS; . = ALIGN(0x1000); .text : { *(.text*) } . = ALIGN(0x1000); .sframe : { *(.sframe) } }",
        );
        assert_eq!(names(&link("-pie -T script.ld")).len(), 6);
        bench.scratch.write(
            "script.ld",
            "SECTIONS { . = SIZEOF_HEADERS; . = ALIGN(0x1000); .text : { *(.text*) } . = ALIGN(0x1000); /DISCARD/ : { *(.sframe) } }",
        );
        assert!(names(&link("-T script.ld")).is_empty());
        // As an orphan.
        bench.scratch.write(
            "script.ld",
            "SECTIONS { . = SIZEOF_HEADERS; . = ALIGN(0x1000); .text : { *(.text*) } . = ALIGN(0x1000); }",
        );
        assert_eq!(names(&link("-T script.ld")).len(), 6);
    }
}

#[test]
fn copies_of_a_function_are_described_once() {
    let Some(bench) = Bench::new() else { return };
    for version in [2, 3] {
        for name in ["one", "two"] {
            let group = format!(
                ".section .text.same, \"axG\", @progbits, same, comdat\n.weak same\nlocal: .type same, @function\n\
                 same: push %rbp\nmov $1, %eax\npop %rbp\nret\n.size same, . - same\n.section .text.{name}, \"ax\"\n\
                 .globl {name}\n.type {name}, @function\n{name}: push %rbp\nmov $1, %eax\npop %rbp\nret\n\
                 .size {name}, . - {name}\n"
            );
            bench.assemble(
                name,
                // One copy is named by its symbol, the other by the section or a local one.
                group
                    + &description(version, &["same", name], "3, 0, -8, 0").replace(
                        "same - .",
                        if name == "two" {
                            "local - ."
                        } else {
                            "same - ."
                        },
                    ),
            );
        }
        bench.ld(Linker::Ours, "-shared one.o two.o -o direct").ok();
        assert_eq!(names(&bench.read("direct")), ["one", "same", "two"]);
        bench.ld(Linker::Ours, "-r one.o two.o -o both.o").ok();
        bench.ld(Linker::Ours, "-shared both.o -o through").ok();
        assert_eq!(names(&bench.read("through")), ["one", "same", "two"]);
        bench
            .ld(
                Linker::Ours,
                "-r --gc-sections -e one one.o two.o -o some.o",
            )
            .ok();
        bench.ld(Linker::Ours, "-shared some.o -o through").ok();
        assert_eq!(names(&bench.read("through")), ["one"]);
        // Code that is the same as other code is not there.
        bench
            .ld(
                Linker::Ours,
                "-shared --icf=all --no-undefined one.o two.o -o folded",
            )
            .ok();
        assert_eq!(entries(&bench.read("folded")).len(), 1);
    }
}

/// As assemblers wrote version 2 at first: the distances are from the section's start.
#[test]
fn distances_from_the_sections_start() {
    let Some(bench) = Bench::new() else { return };
    let text = functions(2, &["b", "a", "c"]);
    let text = text.replace(".byte 2, 4,", ".byte 2, 0,");
    let text = ["a", "b", "c"].iter().fold(text, |text, name| {
        text.replace(
            &format!(".long {name} - .,"),
            &format!(".long {name} - .Lstart,"),
        )
    });
    bench.assemble("first", text);
    bench.assemble("second", functions(2, &["d"]));
    bench
        .ld(Linker::Ours, "-shared second.o first.o -o out")
        .ok();
    assert_eq!(names(&bench.read("out")), ["a", "b", "c", "d"]);
}

#[test]
fn what_cannot_be_read_is_left_out() {
    let Some(bench) = Bench::new() else { return };
    write_inputs(&bench, [2, 3]);
    let said = bench
        .ld(Linker::Ours, "-shared one.o two.o -o out")
        .ok()
        .errors();
    assert!(
        said.contains("one.o: .sframe is left out: it is of version 2, others of version 3"),
        "{said}"
    );
    assert_eq!(names(&bench.read("out")), ["c", "e"]);
    let empty = ".section .sframe, \"a\", @0x6ffffff4\n";
    for (text, complaint) in [
        (
            description(1, &["f"], "3, 0, -8, 0"),
            "version 1 of the format is not known",
        ),
        (
            description(3, &["f"], "2, 0, -8, 0"),
            "it is for another machine",
        ),
        (
            description(3, &["f"], "3, 0, 0, 0"),
            "its frames are laid out in another way than those of others",
        ),
        (description(3, &["f"], "3, 0, -8, 200"), "it ends too early"),
        (
            format!("{empty}.short 0xdee2\n.byte 3, 4"),
            "it ends too early",
        ),
        (
            format!("{empty}.fill 40"),
            "it does not begin with its magic number",
        ),
        (
            description(3, &["f"], "3, 0, -8, 0").replace(".Lrows0 - .Lrows", "1000"),
            "entry 0 has bad rows",
        ),
        (
            description(3, &["f"], "3, 0, -8, 0").replace(".short 2\n", ".short 200\n"),
            "entry 0 has bad rows",
        ),
        (
            description(3, &["f"], "3, 0, -8, 0").replace(".quad f - .\n", ".quad f\n"),
            "entry 0 has a bad relocation",
        ),
        (empty.to_owned(), ""),
    ] {
        bench
            .scratch
            .write("bad.s", format!(".text\nf: ret\n.size f, 1\n{text}"));
        bench.driver(Linker::Reference, "gcc", "-c bad.s").ok();
        let said = bench
            .ld(Linker::Ours, "-shared two.o bad.o -o out")
            .ok()
            .errors();
        assert_eq!(names(&bench.read("out")), ["c", "e"], "{complaint}");
        match complaint {
            "" => assert_eq!(said, ""),
            _ => assert!(
                said.contains(&format!(
                    "warning: bad.o: .sframe is left out: {complaint}; "
                )),
                "{said}"
            ),
        }
        // Alone it leaves nothing.
        if complaint.starts_with("its frames") {
            continue;
        }
        bench.ld(Linker::Ours, "-shared bad.o -o out").ok();
        assert!(names(&bench.read("out")).is_empty());
    }
}
