//! `--emit-relocs`, `--unique` and `--retain-symbols-file` in an executable. Kept
//! relocations are checked by what they say: applied to the output's own symbols they give
//! the bytes that are there.

use object::elf;
use object::read::elf::{ElfFile64, SectionHeader as _, Sym as _};
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _};
use repo_tests::binaries::Binaries;
use repo_tests::process::run;
use repo_tests::require;
use repo_tests::scratch::Scratch;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// The option that makes gcc use `repo-ld`.
fn ours(scratch: &Scratch) -> String {
    let directory = scratch.join("linker");
    if !directory.exists() {
        fs::create_dir(&directory).expect("a directory can be made");
        symlink(Binaries::get().path("repo-ld"), directory.join("ld")).expect("a link can be made");
    }
    format!("-B{}", directory.display())
}

/// A relocation that was kept.
#[derive(Debug)]
struct Kept {
    section: String,
    place: u64,
    kind: u32,
    /// Name of the symbol, or of its section; the symbol's value; and whether that is where the
    /// relocation leads: it is defined, and not reached through a PLT entry.
    symbol: Option<(String, u64, bool)>,
    addend: i64,
}

fn parse(bytes: &[u8]) -> ElfFile64<'_, Endianness> {
    ElfFile64::parse(bytes).expect("the output is an ELF file")
}

/// The relocations in sections that are not loaded.
fn kept(bytes: &[u8]) -> Vec<Kept> {
    let file = parse(bytes);
    let endian = file.endian();
    let table = file.elf_section_table();
    let symtab = table
        .symbols(endian, bytes, elf::SHT_SYMTAB)
        .expect("a symbol table");
    let mut found = Vec::new();
    for (_, header) in table.enumerate() {
        let flags = header.sh_flags(endian);
        if header.sh_type(endian) != elf::SHT_RELA || flags & u64::from(elf::SHF_ALLOC) != 0 {
            continue;
        }
        let (relas, link) = header
            .rela(endian, bytes)
            .expect("readable")
            .expect("relocations");
        assert_eq!(link, symtab.section(), "they are about .symtab");
        assert_ne!(flags & u64::from(elf::SHF_INFO_LINK), 0);
        let target = header.info_link(endian);
        let target = table.section(target).expect("they are for a section");
        let section = table
            .section_name(endian, target)
            .expect("which has a name");
        let section = String::from_utf8_lossy(section).into_owned();
        let own = table.section_name(endian, header).expect("as they have");
        assert_eq!(own, format!(".rela{section}").as_bytes());
        for rela in relas {
            let index = rela.r_sym(endian, false) as usize;
            let symbol = (index != 0).then(|| {
                let symbol = symtab
                    .symbol(object::SymbolIndex(index))
                    .expect("it exists");
                let name = if symbol.st_type() == elf::STT_SECTION {
                    let index = object::SectionIndex(symbol.st_shndx(endian).into());
                    let of = table.section(index).expect("a section's symbol has one");
                    assert_eq!(symbol.st_value(endian), of.sh_addr(endian));
                    table.section_name(endian, of).expect("with a name")
                } else {
                    symtab.symbol_name(endian, symbol).expect("it has a name")
                };
                let name = String::from_utf8_lossy(name).into_owned();
                let defined = symbol.st_shndx(endian) != elf::SHN_UNDEF
                    && symbol.st_type() != elf::STT_GNU_IFUNC;
                (name, symbol.st_value(endian), defined)
            });
            found.push(Kept {
                section: section.clone(),
                place: rela.r_offset.get(endian),
                kind: rela.r_type(endian, false),
                symbol,
                addend: rela.r_addend.get(endian),
            });
        }
    }
    found
}

/// The bytes at a place of a section.
fn bytes_at<'d>(file: &ElfFile64<'d, Endianness>, kept: &Kept, size: u64) -> &'d [u8] {
    let of_name = file.sections().filter(|s| s.name() == Ok(&kept.section));
    for section in of_name {
        let start = section.address();
        if (start..start + section.size()).contains(&kept.place) {
            let data = section.data().expect("it has bytes");
            let at = (kept.place - start) as usize;
            return &data[at..at + size as usize];
        }
    }
    panic!("{kept:?} is outside of its section");
}

/// Applies each plain relocation anew and compares; gives how many were compared.
fn check(bytes: &[u8]) -> usize {
    let file = parse(bytes);
    let mut compared = 0;
    for relocation in kept(bytes) {
        let Some((_, value, true)) = &relocation.symbol else {
            continue;
        };
        let target = value.wrapping_add(relocation.addend as u64);
        let want = match relocation.kind {
            elf::R_X86_64_64 => target.to_le_bytes().to_vec(),
            elf::R_X86_64_32 | elf::R_X86_64_32S => (target as u32).to_le_bytes().to_vec(),
            elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 => (target.wrapping_sub(relocation.place)
                as u32)
                .to_le_bytes()
                .to_vec(),
            _ => continue,
        };
        let got = bytes_at(&file, &relocation, want.len() as u64);
        assert_eq!(got, want, "{relocation:x?}");
        compared += 1;
    }
    compared
}

const PROGRAM: &str = "\
#include <cstdio>\n#include <vector>\n#include <stdexcept>\n\
static int table[4] = {1, 2, 3, 4}; int *into = table + 2; const char *const words[] = {\"one\", \"two\"};\n\
static thread_local int own = 3; extern int zero; int zero;\n\
template <typename T> __attribute__((noinline)) T twice(T x) { return x + x; }\n\
int dead(int x) { return twice(x) + table[0]; }\n\
__attribute__((noinline)) int thrower(int x) { if (x > 1) throw std::runtime_error(words[x & 1]); return own; }\n\
int main(int c, char **) {\n\
  std::vector<int> v(3, *into);\n\
  try { return thrower(c + 1); } catch (std::exception &e) { std::printf(\"%s %d %d\\n\", e.what(), twice(v[1]), zero); }\n\
}\n";

fn compile(scratch: &Scratch, cxx: &PathBuf, options: &[&str]) {
    scratch.write("main.cpp", PROGRAM);
    let mut compile = scratch.command(cxx);
    run(compile
        .args(["-O1", "-g", "-c", "main.cpp", "-ffunction-sections"])
        .args(options))
    .ok();
}

/// In all kinds of output, what is kept says what was done; and the program works.
#[test]
fn kept_relocations_say_what_was_done() {
    let [cxx] = require!("g++");
    let scratch = Scratch::new();
    let with = ours(&scratch);
    for options in [
        &["-fpie", "-pie"][..],
        &["-fno-pie", "-no-pie"],
        &["-fpie", "-pie", "-Wl,--gc-sections"],
        &["-fno-pie", "-static"],
        &["-fpie", "-pie", "-fno-plt", "-mtls-dialect=gnu2"],
    ] {
        let compile_options: Vec<&str> = options
            .iter()
            .copied()
            .filter(|o| o.starts_with("-f") || o.starts_with("-m"))
            .collect();
        compile(&scratch, &cxx, &compile_options);
        for linker in [None, Some(&with)] {
            let mut link = scratch.command(&cxx);
            link.args(options)
                .args(linker)
                .args(["-Wl,--emit-relocs", "main.o", "-o", "program"]);
            run(&mut link).ok();
            let done = run(&mut scratch.command(scratch.join("program"))).ok();
            assert_eq!(done.text(), "one 6 0\n", "{options:?} {linker:?}");
            let bytes = fs::read(scratch.join("program")).expect("it was made");
            let compared = check(&bytes);
            assert!(compared > 100, "{options:?} {linker:?}: {compared}");
        }
    }
}

/// From tickets as from objects.
#[test]
fn relocations_of_tickets_are_kept() {
    let [cxx] = require!("g++");
    let scratch = Scratch::new();
    let compiler = [Binaries::get().path("repo-cc").to_owned(), cxx.clone()];
    scratch.write("main.cpp", PROGRAM);
    let mut command = scratch.command(&compiler[0]);
    command.arg(&compiler[1]);
    run(command.args(["-O1", "-g", "-c", "main.cpp"])).ok();
    assert!(repo_tests::compare::is_ticket_file(scratch.join("main.o")));
    let mut link = scratch.command(&cxx);
    run(link.args([&ours(&scratch), "-Wl,-q", "main.o", "-o", "program"])).ok();
    let done = run(&mut scratch.command(scratch.join("program"))).ok();
    assert_eq!(done.text(), "one 6 0\n");
    let bytes = fs::read(scratch.join("program")).expect("it was made");
    assert!(check(&bytes) > 30);
    let names: BTreeSet<String> = kept(&bytes)
        .into_iter()
        .filter_map(|k| k.symbol)
        .map(|s| s.0)
        .collect();
    for name in ["_Z7throweri", "main", "_Z5twiceIiET_S0_", "zero", ".rodata"] {
        assert!(names.contains(name), "no {name} in {names:?}");
    }
}

/// The linker script that GNU ld has built in for a kind of output.
fn built_in_script(scratch: &Scratch, kind: &str) -> String {
    let said = run(scratch.command("ld").args([kind, "--verbose"])).ok();
    let text = said.text();
    let parts: Vec<&str> = text
        .split("==================================================\n")
        .collect();
    parts
        .get(1)
        .expect("the script is between two lines")
        .to_string()
}

/// A script may put sections anywhere, and some into others.
#[test]
fn relocations_of_layouts_by_scripts_are_kept() {
    let [cxx, _] = require!("g++", "ld");
    let scratch = Scratch::new();
    let with = ours(&scratch);
    scratch.write("main.cpp", PROGRAM);
    for (kind, compile_option) in [("-pie", "-fpie"), ("-no-pie", "-fno-pie")] {
        compile(&scratch, &cxx, &[compile_option]);
        let script = built_in_script(&scratch, kind);
        // Frames in another section, behind something else.
        let moved = script.replace(
            ".eh_frame       : ONLY_IF_RO { KEEP (*(.eh_frame)) *(.eh_frame.*) }",
            ".frames : ONLY_IF_RO { QUAD(0) KEEP (*(.eh_frame)) *(.eh_frame.*) }",
        );
        assert_ne!(script, moved, "the script is as it was");
        for text in [&script, &moved] {
            scratch.write("script.ld", text);
            let mut link = scratch.command(&cxx);
            link.args([kind, &with, "-Wl,--emit-relocs", "-Wl,-T,script.ld"]);
            run(link.args(["main.o", "-o", "program"])).ok();
            let bytes = fs::read(scratch.join("program")).expect("it was made");
            let compared = check(&bytes);
            assert!(compared > 100, "{kind}: {compared}");
            if text == &script {
                let done = run(&mut scratch.command(scratch.join("program"))).ok();
                assert_eq!(done.text(), "one 6 0\n", "{kind}");
            }
        }
    }
}

/// The same relocations, by place and symbol, as GNU ld keeps for the program's own code.
#[test]
fn the_same_as_ld_keeps() {
    same_as_ld_keeps(None);
    same_as_ld_keeps(Some(
        "SECTIONS { . = 0x1000; .text : { *(.text.unlikely) *(.text) *(.text.*) } .rodata : { *(.rodata*) }
            .data : { *(.data) *(.data.*) } .got : { *(.got*) } .bss : { *(.bss) *(COMMON) } }",
    ));
}

fn same_as_ld_keeps(script: Option<&str>) {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    scratch.write("script.ld", script.unwrap_or_default());
    scratch.write(
        "main.c",
        "extern int outside; int inside = 2; static int own[3]; int *p = own + 1; int g(int);\n\
         static __attribute__((noinline)) int local(int x) { return x + own[1]; }\n\
         int f(int x) { return g(x) + outside + inside + local(x) + (weak_one ? weak_one() : 0); }\n\
         void _start(void) { f(1); }\n"
            .replace("extern int outside;", "extern int outside; int weak_one(void) __attribute__((weak));"),
    );
    scratch.write("other.c", "int outside = 3; int g(int x) { return x; }\n");
    for source in ["main.c", "other.c"] {
        run(scratch.command(&gcc).args(["-O1", "-fpie", "-c", source])).ok();
    }
    let keep = |linker: Option<&String>| {
        let mut link = scratch.command(&gcc);
        link.args(linker).args([
            "-nostdlib",
            "-pie",
            "-Wl,-q",
            "main.o",
            "other.o",
            "-o",
            "program",
        ]);
        link.args(script.map(|_| "-Wl,-T,script.ld"));
        run(&mut link).ok();
        let bytes = fs::read(scratch.join("program")).expect("it was made");
        check(&bytes);
        let file = parse(&bytes);
        let start = |name: &str| {
            file.section_by_name(name)
                .map_or(0, |section| section.address())
        };
        let mut found: Vec<(String, u64, u32, String, i64)> = kept(&bytes)
            .into_iter()
            .map(|kept| {
                let place = kept.place - start(&kept.section);
                let name = kept.symbol.map_or(String::new(), |symbol| symbol.0);
                (kept.section, place, kept.kind, name, kept.addend)
            })
            .filter(|(section, ..)| section != ".eh_frame")
            .collect();
        found.sort();
        found
    };
    let (want, got) = (keep(None), keep(Some(&ours(&scratch))));
    assert!(want.len() >= 8, "{want:?}");
    assert_eq!(got, want);
}

/// Without a symbol table there is nothing that relocations could name.
#[test]
fn not_without_symbols() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    scratch.write("main.c", "int main(void) { return 0; }\n");
    let mut link = scratch.command(&gcc);
    let failed = run(link.args([&ours(&scratch), "-Wl,-q,-s", "main.c"])).failed();
    assert!(
        failed.errors().contains("--emit-relocs and -s"),
        "{}",
        failed.errors()
    );
}

/// `--unique`: each input section that matches is one of the output.
#[test]
fn sections_that_stay_apart() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    for (name, text) in [("a", "first"), ("b", "second")] {
        let text = format!(
            ".section .data.foo,\"aw\"\n.ascii \"{text}\"\n.section .data.bar,\"aw\"\n.ascii \"{text}\"\n\
             .section orphan,\"a\"\n.ascii \"{text}\"\n.globl _start\n.weak _start\n.text\n_start: nop\n"
        );
        scratch.write(format!("{name}.s"), text);
        run(scratch.command(&gcc).args(["-c", &format!("{name}.s")])).ok();
    }
    let sections = |linker: Option<&String>, option: &str| {
        let mut link = scratch.command(&gcc);
        link.args(linker).args([
            "-nostdlib",
            "-no-pie",
            option,
            "a.o",
            "b.o",
            "-o",
            "program",
        ]);
        run(&mut link).ok();
        let bytes = fs::read(scratch.join("program")).expect("it was made");
        let mut found: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        for section in parse(&bytes).sections() {
            let name = section.name().unwrap();
            if name.starts_with(".data") || name == "orphan" {
                found
                    .entry(name.to_owned())
                    .or_default()
                    .push(section.data().unwrap().to_vec());
            }
        }
        found
    };
    let with = ours(&scratch);
    for option in ["-Wl,--unique=*foo*", "-Wl,--unique", "-Wl,--unique=orphan"] {
        assert_eq!(
            sections(Some(&with), option),
            sections(None, option),
            "{option}"
        );
    }
    let found = sections(Some(&with), "-Wl,--unique=*foo*");
    assert_eq!(found[".data.foo"], [&b"first"[..], b"second"]);
}

/// `--retain-symbols-file` leaves the rest out of `.symtab`, and of nothing else.
#[test]
fn symbols_that_are_retained() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    scratch.write(
        "main.c",
        "#include <stdio.h>\nstatic __attribute__((noinline)) int local(void) { return 1; }\n\
         static __attribute__((noinline)) int other(void) { return 2; }\n\
         int kept, dropped; int main(void) { puts(\"works\"); return local() - other() + 1 + kept + dropped; }\n",
    );
    scratch.write("names", "kept\nlocal\nnot_there\n");
    let names = |linker: Option<&String>| {
        let mut link = scratch.command(&gcc);
        link.args(linker).args([
            "-rdynamic",
            "-Wl,--retain-symbols-file=names",
            "main.c",
            "-o",
            "program",
        ]);
        run(&mut link).ok();
        let done = run(&mut scratch.command(scratch.join("program"))).ok();
        assert_eq!(done.text(), "works\n");
        let bytes = fs::read(scratch.join("program")).expect("it was made");
        let file = parse(&bytes);
        let dynamic: BTreeSet<&str> = file.dynamic_symbols().map(|s| s.name().unwrap()).collect();
        assert!(dynamic.contains("dropped"));
        let defined = file
            .symbols()
            .filter(|s| s.is_definition() && !s.name().unwrap().is_empty());
        defined
            .map(|s| s.name().unwrap().to_owned())
            .collect::<BTreeSet<_>>()
    };
    let with = ours(&scratch);
    let want = BTreeSet::from(["kept".to_owned(), "local".to_owned()]);
    assert_eq!(names(Some(&with)), want);
    assert_eq!(names(None), want);
    let mut link = scratch.command(&gcc);
    let failed = run(link.args([&with, "-Wl,--retain-symbols-file=absent", "main.c"])).failed();
    assert!(failed.errors().contains("absent"), "{}", failed.errors());
}
