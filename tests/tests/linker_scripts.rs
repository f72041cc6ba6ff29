//! Linker scripts: layouts by `SECTIONS`, `MEMORY` and `PHDRS`, and symbols that scripts assign, against GNU ld.
//!
//! The same objects are linked by both with the same script, and an independent reader must find the same sections at
//! the same addresses, the same loaded segments, the same symbols and the same bytes.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::{Elf, program_header, section_header};
use linking::{BOTH, Bench, Linker};
use repo_tests::binaries::Binaries;
use repo_tests::build::{Family, Toolchain};
use repo_tests::process::run;
use repo_tests::programs::Language;
use std::collections::{BTreeMap, BTreeSet};

const A: &str = r#"
.globl _start
.section .text,"ax"; _start: nop; ret
.section .text.hot,"ax"; .skip 5
.section .text.b,"ax"; .p2align 4; nop
.section .text.a,"ax"; .skip 3
.section .rodata,"a"; .long 1
.section .data,"aw"; .globl dat; dat: .quad _start
.section .bss,"aw",@nobits; .globl bs; bs: .skip 100
.section .init_array.5,"aw",@init_array; .quad 5
.section .init_array.100,"aw",@init_array; .quad 100
.section .init_array,"aw",@init_array; .quad 1
.section table,"a"; .byte 1,2,3
.section orphan_w,"aw"; .long 7
.section orphan_x,"ax"; .long 8
.section orphan_n,""; .long 9
.comm com,24,8
"#;

const B: &str = r#"
.section .text,"ax"; .globl f; f: .skip 33
.section .text.c,"ax"; .skip 2
.section .text.a,"ax"; .skip 9
.section .data,"aw"; .p2align 5; .globl dat2; dat2: .long 2
.section .bss,"aw",@nobits; .p2align 6; .skip 8
.section .init_array.7,"aw",@init_array; .quad 7
.section table,"a"; .byte 4
.section .discard,"a"; .long 4
"#;

/// `a.o` and `b.o`.
fn bench() -> Option<Bench> {
    let bench = Bench::new()?;
    for (name, text) in [("a", A), ("b", B)] {
        bench.scratch.write(format!("{name}.s"), text);
        let arguments = format!("-c {name}.s -o {name}.o");
        bench.driver(Linker::Reference, "gcc", &arguments).ok();
    }
    Some(bench)
}

/// A section: type, flags, address, size, alignment.
type Section = (u32, u64, u64, u64, u64);

/// What is compared of an output.
#[derive(Debug, PartialEq)]
struct Picture {
    sections: BTreeMap<String, Section>,
    /// Address, load address, size in the file and in memory, flags.
    loads: Vec<(u64, u64, u64, u64, u32)>,
    symbols: BTreeMap<String, u64>,
    /// Contents, but not of code, whose gaps each linker fills with instructions of its choice.
    bytes: BTreeMap<String, Vec<u8>>,
    entry: u64,
}

fn picture(image: &[u8]) -> Picture {
    let elf = Elf::parse(image).expect("an ELF file");
    let mut sections = BTreeMap::new();
    let mut bytes = BTreeMap::new();
    for header in &elf.section_headers {
        let name = elf.shdr_strtab.get_at(header.sh_name).unwrap().to_string();
        if matches!(name.as_str(), "" | ".symtab" | ".strtab" | ".shstrtab") {
            continue;
        }
        let facts = (
            header.sh_type,
            header.sh_flags,
            header.sh_addr,
            header.sh_size,
            header.sh_addralign,
        );
        sections.insert(name.clone(), facts);
        let code = u64::from(section_header::SHF_EXECINSTR);
        if header.sh_flags & code == 0
            && let Some(range) = header.file_range()
        {
            bytes.insert(name, image[range].to_vec());
        }
    }
    let loads = elf
        .program_headers
        .iter()
        .filter(|header| header.p_type == program_header::PT_LOAD)
        .map(|header| {
            (
                header.p_vaddr,
                header.p_paddr,
                header.p_filesz,
                header.p_memsz,
                header.p_flags,
            )
        })
        .collect();
    let symbols = elf
        .syms
        .iter()
        .filter(|symbol| symbol.st_shndx != 0 && symbol.st_name != 0)
        .map(|symbol| {
            let name = elf.strtab.get_at(symbol.st_name).unwrap();
            (name.to_string(), symbol.st_value)
        })
        .filter(|(name, _)| !name.ends_with(".o"))
        .collect();
    Picture {
        sections,
        loads,
        symbols,
        bytes,
        entry: elf.header.e_entry,
    }
}

/// Links with a script by both linkers and compares all that there is to see.
#[track_caller]
fn same(bench: &Bench, options: &str, script: &str) -> Picture {
    bench.scratch.write("script.ld", script);
    let [theirs, ours] = BOTH.map(|linker| {
        let arguments = format!("-T script.ld {options} a.o b.o -o out.{linker:?}");
        bench.ld(linker, &arguments).ok();
        picture(&bench.read(&format!("out.{linker:?}")))
    });
    assert_eq!(theirs.sections, ours.sections, "sections of {script}");
    assert_eq!(theirs.symbols, ours.symbols, "symbols of {script}");
    assert_eq!(theirs.loads, ours.loads, "segments of {script}");
    assert_eq!(theirs.bytes, ours.bytes, "contents of {script}");
    assert_eq!(theirs.entry, ours.entry, "entry of {script}");
    ours
}

#[test]
fn sections_symbols_and_data() {
    let Some(bench) = bench() else { return };
    let picture = same(
        &bench,
        "",
        r"ENTRY(f)
        SECTIONS {
            . = 0x100000; .text : { *(.text) *(.text.*) }
            . = ALIGN(0x1000);
            .rodata : { *(.rodata) table_start = .; *(table) table_end = .; }
            . = 0x200000;
            .data : { *(.data) LONG(0x12345678) BYTE(1) . = ALIGN(8); QUAD(dat2) end_of_data = .; }
            .bss : { *(.bss) *(COMMON) }
            _end = .;
            /DISCARD/ : { *(.discard) }
            size = SIZEOF(.text); a = ADDR(.data); la = LOADADDR(.data); al = ALIGNOF(.bss);
            d = DEFINED(dat) ? 1 : 2; m = MAX(3, 5) + MIN(1, 2); late = early + 1; early = 5;
            early += 2;
        }",
    );
    assert_eq!(
        picture.symbols["table_end"] - picture.symbols["table_start"],
        4
    );
}

#[test]
fn memory_regions() {
    let Some(bench) = bench() else { return };
    let picture = same(
        &bench,
        "",
        r#"ENTRY(_start)
        MEMORY { rom (rx) : ORIGIN = 0x8000, LENGTH = 16K
            ram (rw) : ORIGIN = 0x20000000, LENGTH = 1M }
        REGION_ALIAS("flash", rom)
        SECTIONS {
            .text : { *(SORT(.text.*)) *(.text) } > rom
            .rodata : { *(.rodata table) } >flash
            .init_array : { KEEP(*(SORT_BY_INIT_PRIORITY(.init_array.*))) KEEP(*(.init_array)) } >rom
            .data : { sdata = .; *(.data) } > ram AT> rom
            .bss (NOLOAD) : { *(.bss) *(COMMON) } > ram
            load = LOADADDR(.data); limit = ORIGIN(ram) + LENGTH(ram);
            /DISCARD/ : { *(.discard) *(orphan*) }
        }"#,
    );
    assert!(picture.symbols["load"] < 0x9000 && picture.symbols["sdata"] == 0x2000_0000);
}

#[test]
fn program_headers() {
    let Some(bench) = bench() else { return };
    same(
        &bench,
        "",
        r"PHDRS { text PT_LOAD FILEHDR PHDRS; data PT_LOAD FLAGS(6); note PT_NOTE; stack PT_GNU_STACK FLAGS(6); }
        SECTIONS {
            . = 0x400000 + SIZEOF_HEADERS;
            .text : { *(.text .text.*) } :text
            .rodata : { *(.rodata) *(table) }
            . = ALIGN(0x1000) + (. & 0xfff);
            .data : { *(.data) } :data
            .bss : { *(.bss) *(COMMON) }
            /DISCARD/ : { *(.discard) }
        }",
    );
}

/// GNU ld has empty tables between sections, whose alignments would count: the scripts discard them.
#[test]
fn alignments_fills_and_load_addresses() {
    let Some(bench) = bench() else { return };
    same(
        &bench,
        "",
        r"SECTIONS {
            .text 0x10000 : SUBALIGN(16) { a.o(.text) *b.o(.text) *(EXCLUDE_FILE(*b.o) .text.*) } =0x90cc
            .rest : ALIGN(64) { *(.text.*) }
            .filled 0x20000 : AT(0x50000) { FILL(0xabcd) . += 3; *(.rodata) . = 0x20; *(SORT_BY_ALIGNMENT(.data)) . = . + 4; *(.init_array*) }
            .more : { a.o(table) }
            .moved 0x30000 : { b.o(table) LONG(1) }
            .bss : { *(.bss) *(COMMON) }
            .stack (NOLOAD) : { . += 0x100; }
            /DISCARD/ : { *(.discard) *(.got* .igot* .rela* .iplt) }
        }",
    );
}

#[test]
fn overlays() {
    let Some(bench) = bench() else { return };
    same(
        &bench,
        "",
        r"SECTIONS {
            .text 0x1000 : { *(.text) *(.text.hot) *(orphan_x) }
            OVERLAY 0x4000 : AT(0x9000) { .ov1 { *(.text.a) } .ov2 { *(.text.b) *(.text.c) } }
            .data 0x6000 : { *(.data) *(.init_array*) } .bss : { *(.bss) *(COMMON) }
            x = __load_start_ov2; y = __load_stop_ov2;
            /DISCARD/ : { *(.discard) *(orphan_w) *(.rodata) *(table) *(.got* .igot* .rela* .iplt) }
        }",
    );
}

#[test]
fn orphans_and_empty_sections() {
    let Some(bench) = bench() else { return };
    same(
        &bench,
        "",
        r#"SECTIONS {
            . = 0x10000; .text : { *(.text*) } .empty : { *(.nothing) } .sym : { here = .; }
            .dot : { . += 8; } PROVIDE(prov = .); PROVIDE(f = 3); .data : { *(.data) }
            .bss : { *(.bss) *(COMMON) }
            . = . + 3; after = .; ASSERT(after > 0, "after")
        }"#,
    );
}

#[test]
fn options_give_addresses_where_the_script_does_not() {
    let Some(bench) = bench() else { return };
    let script = r"SECTIONS {
        .text : { *(.text*) *(orphan_x) } .rodata : { *(.rodata table) }
        .data : { *(.data .init_array*) *(orphan_w) } .bss : { *(.bss) *(COMMON) }
        /DISCARD/ : { *(.discard) }
    }";
    same(&bench, "-Ttext=0x30000 -Tdata=0x50000", script);
    same(
        &bench,
        "--section-start=.rodata=0x90000 -Ttext=0x8000 --defsym=x=f+4 --defsym=y=SIZEOF(.text)",
        script,
    );
}

#[test]
fn gc_keeps_what_the_script_keeps() {
    let Some(bench) = bench() else { return };
    bench.scratch.write(
        "script.ld",
        r"ENTRY(_start)
        SECTIONS {
            .text 0x10000 : { *(.text) } .t : { KEEP(*(table)) }
            .i : { KEEP(*(.init_array.5)) *(.init_array.7) } .d : { *(.data) *(.rodata) }
        }",
    );
    let [theirs, ours] = BOTH.map(|linker| {
        let arguments = format!("-T script.ld --gc-sections a.o b.o -o out.{linker:?}");
        bench.ld(linker, &arguments).ok();
        picture(&bench.read(&format!("out.{linker:?}")))
    });
    assert_eq!(theirs.sections, ours.sections);
    assert_eq!(theirs.bytes, ours.bytes);
    // Lists of functions are dropped like all else that no `KEEP` is about.
    let names: Vec<&String> = ours.sections.keys().collect();
    assert_eq!(names, [".i", ".t", ".text", "orphan_n"]);
    assert_eq!(ours.bytes[".i"], 5u64.to_le_bytes());
}

/// A linker's own script for an output of this kind.
fn own_script(bench: &Bench, linker: Linker, options: &str) -> String {
    let run = bench.ld(linker, &format!("{options} --verbose")).ok();
    let text = run.text();
    assert!(text.contains("\nusing internal linker script:\n"), "{text}");
    let mut parts = text.split("==================================================\n");
    parts
        .nth(1)
        .expect("a script between two lines")
        .to_string()
}

const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static __thread int local = 5; int common[10]; static int zeros[100];
__attribute__((constructor)) static void first(void) { puts("first"); }
__attribute__((destructor)) static void last(void) { puts("last"); }
static int chosen(void) { return 40; }
static void *choose(void) { return chosen; }
int indirect(void) __attribute__((ifunc("choose")));
int main(int argc, char **argv) {
    local += argc;
    printf("%d %d %d %d %s\n", local, common[3], zeros[4], indirect(), getenv("NONE") ? "?" : "none");
    return 3;
}
"#;

#[test]
fn the_linkers_own_scripts_make_working_programs() {
    let Some(bench) = bench() else { return };
    bench.scratch.write("program.c", PROGRAM);
    bench.scratch.write(
        "throws.cc",
        "#include <stdexcept>\n#include <iostream>\nint main() { try { throw std::runtime_error(\"thrown\"); } \
         catch (std::exception &e) { std::cout << e.what() << std::endl; } }",
    );
    for (kind, more) in [
        ("-no-pie", ""),
        ("-pie", ""),
        ("-pie", "-z now"),
        ("-static", ""),
        ("-pie", "-z noseparate-code"),
        ("-no-pie", "--gc-sections"),
    ] {
        let asked = format!("{} {more}", if kind == "-no-pie" { "" } else { kind });
        let asked = asked.replace("--gc-sections", "");
        for linker in BOTH {
            bench.scratch.write(
                format!("own.{linker:?}.ld"),
                own_script(&bench, linker, asked.trim()),
            );
        }
        let passed: String = more
            .split_whitespace()
            .map(|word| format!(" -Wl,{word}"))
            .collect();
        for (driver, source, code) in [("gcc", "program.c", 3), ("g++", "throws.cc", 0)] {
            let common = format!("-O1 -ffunction-sections {kind}{passed} {source}");
            let pic = if kind == "-pie" { "-fPIE" } else { "-fno-pie" };
            let mut said = BTreeSet::new();
            // Either one's by either one.
            for (script, linker) in BOTH.into_iter().flat_map(|s| BOTH.map(|l| (s, l))) {
                let link = format!("{pic} {common} -Wl,-T,own.{script:?}.ld -o program");
                bench.driver(linker, driver, &link).ok();
                said.insert(bench.execute("program").code(code).text());
            }
            assert_eq!(said.len(), 1, "{common}: {said:?}");
        }
    }
}

/// As glibc is linked: with the linker's own script after a change by `sed`, for which patterns stand on lines of their own.
#[test]
fn the_linkers_own_scripts_can_be_changed() {
    let Some(bench) = bench() else { return };
    bench.scratch.write(
        "library.c",
        "extern char mine_start[] __attribute__((visibility(\"hidden\"))), mine_stop[] __attribute__((visibility(\"hidden\")));\n\
         __attribute__((section(\"__libc_mine\"), used)) static int word = 7;\n\
         int data = 5; int size(void) { return mine_stop - mine_start + data++; }",
    );
    bench.scratch.write(
        "user.c",
        "#include <stdio.h>\nextern int data; int size(void); int main(void) { printf(\"%d\", size()); printf(\" %d\\n\", data); return 0; }",
    );
    let own = "mine_start = .; *(__libc_mine) mine_stop = .;";
    for linker in BOTH {
        for (line, added) in [
            ("*(.dynbss)", own.to_owned()),
            ("*(.jcr)", format!("__libc_mine : {{ {own} }}")),
        ] {
            let script: String = own_script(&bench, linker, "-shared")
                .lines()
                .map(|text| match text.contains(line) {
                    true => format!("{text} {added}\n"),
                    false => format!("{text}\n"),
                })
                .collect();
            assert!(script.contains(own), "{script}");
            bench.scratch.write("shared.ld", script);
            let link = "-shared -fPIC library.c -Wl,-T,shared.ld -o libmine.so";
            bench.driver(Linker::Ours, "gcc", link).ok();
            let link = "user.c -L. -lmine -o user";
            bench.driver(Linker::Ours, "gcc", link).ok();
            assert_eq!(bench.execute("user").ok().text(), "9 6\n", "{line}");
        }
    }
    // Relocatable outputs have one of their own.
    bench
        .scratch
        .write("own.ld", own_script(&bench, Linker::Ours, "-r"));
    for linker in BOTH {
        let sizes = ["", "-T own.ld"].map(|script| {
            let line = format!("-r {script} a.o b.o -o joined.o");
            bench.ld(linker, &line).ok();
            let image = bench.read("joined.o");
            let elf = Elf::parse(&image).expect("an object");
            let headers = elf.section_headers.iter();
            let bits =
                headers.filter(|s| s.sh_type == section_header::SHT_PROGBITS && s.sh_size > 0);
            bits.map(|s| {
                (
                    elf.shdr_strtab.get_at(s.sh_name).map(str::to_owned),
                    s.sh_size,
                )
            })
            .collect::<BTreeMap<_, _>>()
        });
        assert_eq!(sizes[0], sizes[1], "{linker:?}");
    }
    // It says all that there is to say.
    for inputs in [
        "a.o b.o",
        "b.o a.o",
        "--unique a.o b.o",
        "-d a.o b.o",
        "-g a.o",
    ] {
        let bytes = ["", "-T own.ld"].map(|script| {
            let line = format!("-r {script} {inputs} -o joined.o");
            bench.ld(Linker::Ours, &line).ok();
            bench.read("joined.o")
        });
        assert!(bytes[0] == bytes[1], "{inputs}");
    }
    // What is used instead is printed, too.
    let told = bench.ld(Linker::Ours, "--verbose -T shared.ld user.o");
    assert!(told.text().contains("using external linker script:"));
    assert!(told.text().contains(own));
}

#[test]
fn tickets_are_laid_out_as_objects_are() {
    let Some(bench) = bench() else { return };
    let Some(plain) = Toolchain::plain(Family::Gcc) else {
        return;
    };
    let toolchain = plain.through_repository(Binaries::get());
    bench.scratch.write("program.c", PROGRAM);
    let compile = |options: &str| {
        let mut command = toolchain.command(&bench.scratch, Language::C);
        command.args(options.split_whitespace());
        run(&mut command).ok()
    };
    for (kind, asked) in [
        ("-no-pie -fno-pie", ""),
        ("-pie -fPIE", "-pie"),
        ("-static -fno-pie", "-static"),
    ] {
        let script = own_script(&bench, Linker::Reference, asked);
        bench.scratch.write("own.ld", script);
        for more in ["", "-Wl,--gc-sections"] {
            let common = format!("-O1 -ffunction-sections {kind} program.c");
            bench
                .driver(
                    Linker::Reference,
                    "gcc",
                    &format!("{common} {more} -o theirs"),
                )
                .ok();
            compile(&format!("{common} -c -o ticket.o"));
            compile(&format!("{kind} {more} -Wl,-T,own.ld ticket.o -o mine"));
            let [theirs, ours] = ["theirs", "mine"].map(|name| bench.execute(name).code(3));
            assert_eq!(theirs.text(), ours.text(), "{common} {more}");
        }
    }
    // Where a script says, and with its symbols, as from an object. What `-ffunction-sections` adds to names is not in
    // tickets: a pattern for one function (`.text.f`) finds it in objects only.
    bench.scratch.write(
        "place.ld",
        "ENTRY(f) SECTIONS { .text 0x10000 : { *(.text .text.*) size = .; } \
         .data 0x20000 : { *(.data*) last = .; } .bss : { *(.bss*) *(COMMON) } /DISCARD/ : { *(.eh_frame .comment .note*) } }",
    );
    bench.scratch.write(
        "free.c",
        "int word = 7, zero; int g(void) { return word; } int f(void) { return g() + zero; }",
    );
    let options = "-O1 -ffunction-sections -fno-pie -fcf-protection=none -c free.c -o";
    bench
        .driver(Linker::Reference, "gcc", &format!("{options} object.o"))
        .ok();
    compile(&format!("{options} ticket.o"));
    let [theirs, ours] =
        [(Linker::Reference, "object.o"), (Linker::Ours, "ticket.o")].map(|(linker, input)| {
            bench
                .ld(linker, &format!("-T place.ld {input} -o placed"))
                .ok();
            picture(&bench.read("placed"))
        });
    assert_eq!(theirs.sections[".text"], ours.sections[".text"]);
    assert_eq!(theirs.symbols, ours.symbols);
    assert_eq!(theirs.bytes[".data"], ours.bytes[".data"]);
    assert_eq!(theirs.entry, ours.entry);
}

#[test]
fn insert_augments_the_default_layout() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "main.c",
        "#include <stdio.h>\nextern int start_of_mine[], end_of_mine[];\n\
         __attribute__((section(\"mine.a\"), used)) static int a = 1;\n\
         __attribute__((section(\"mine.b\"), used)) static int b = 2;\n\
         int main(void) { printf(\"%d %d\\n\", (int)(end_of_mine - start_of_mine), start_of_mine[1]); return 0; }",
    );
    bench.scratch.write(
        "insert.ld",
        "SECTIONS { .mine : { start_of_mine = .; *(SORT(mine.*)) end_of_mine = .; } } INSERT AFTER .data;",
    );
    for kind in ["-no-pie -fno-pie", "-pie -fPIE", "-static -fno-pie"] {
        for option in ["-Wl,-T,insert.ld", "insert.ld"] {
            for linker in BOTH {
                // For GNU ld, a script among the inputs cannot insert into its default layout.
                if linker == Linker::Reference && option == "insert.ld" {
                    continue;
                }
                let arguments = format!("{kind} main.c {option} -o program");
                bench.driver(linker, "gcc", &arguments).ok();
                assert_eq!(bench.execute("program").ok().text(), "2 2\n", "{arguments}");
            }
        }
    }
}

/// "Implicit Linker Scripts": what they say of sections adds to the layout, behind it.
#[test]
fn sections_of_an_input_script_add_to_the_layout() {
    let Some(bench) = bench() else { return };
    let scratch = &bench.scratch;
    scratch.write(
        "main.c",
        "#include <stdio.h>\nextern int start_of_mine[], end_of_mine[]; extern char behind[], _end[]; int zero[100];\n\
         __attribute__((section(\"mine.a\"), used)) static int a = 1;\n\
         __attribute__((section(\"mine.b\"), used)) static int b = 2;\n\
         int main(void) { printf(\"%d %d %d %d\\n\", (int)(end_of_mine - start_of_mine), start_of_mine[1],\n\
         start_of_mine > zero, behind >= _end); return 0; }",
    );
    scratch.write(
        "more.ld",
        "SECTIONS { behind = .; .mine : { start_of_mine = .; *(SORT(mine.*)) end_of_mine = .; } .all : { *(.text) } }",
    );
    for kind in ["-no-pie -fno-pie", "-pie -fPIE", "-static -fno-pie"] {
        // GNU ld makes no whole programs with such a script: it says that a PHDR segment is not covered, or that
        // `__ehdr_start` is not defined.
        let arguments = format!("{kind} main.c more.ld -o program");
        let done = bench.driver(Linker::Ours, "gcc", &arguments).ok();
        assert!(done.errors().contains("use -T"), "{arguments}");
        assert_eq!(
            bench.execute("program").ok().text(),
            "2 2 1 1\n",
            "{arguments}"
        );
    }
    // Relocatable objects have none to add to.
    let refused = bench.ld(Linker::Ours, "-r a.o b.o more.ld -o out").failed();
    assert!(
        refused
            .errors()
            .contains("is not supported with -r; use -T"),
        "{}",
        refused.errors()
    );
    // To the layout of another script just as well; without output sections there is nothing to warn of.
    let script = "SECTIONS { . = 0x10000; .text : { *(.text .text.*) } .data : { *(.data) } .bss : { *(.bss) } }";
    for more in [
        "SECTIONS { .table : { *(table) } . = 0x90000; .last : { *(orphan_w) *(.text) } }",
        "SECTIONS { here = .; PROVIDE(there = 0x100); }",
        "SECTIONS { }",
    ] {
        scratch.write("more.ld", more);
        let wanted = same(&bench, "-u there more.ld", script);
        assert_eq!(
            wanted.sections.contains_key(".last"),
            more.contains(".last")
        );
        let arguments = "-T script.ld -u there more.ld a.o b.o -o out";
        let done = bench.ld(Linker::Ours, arguments).ok();
        let warns = done.errors().contains("use -T");
        assert_eq!(warns, more.contains(".last"), "{more}");
    }
}

#[test]
fn assignments_beside_the_default_layout() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "main.c",
        "#include <stdio.h>\nextern char five[], over[]; int alias(void); int named(void) { return 7; } int taken(void) { return 1; }\n\
         int main(void) { printf(\"%ld %ld %d %d\\n\", (long)five, (long)over, alias(), taken()); return 0; }",
    );
    bench.scratch.write(
        "assign.ld",
        "five = 5; over = five * 3; over += 1; alias = named; PROVIDE(taken = 9); PROVIDE(unused = nowhere);\n\
         HIDDEN(hidden = alias); ASSERT(hidden == named, \"the same\")",
    );
    for option in ["assign.ld", "-Wl,-T,assign.ld"] {
        let arguments = format!("-no-pie -fno-pie main.c {option} -o program");
        bench.driver(Linker::Ours, "gcc", &arguments).ok();
        assert_eq!(bench.execute("program").ok().text(), "5 16 7 1\n");
    }
    // In a shared object an alias of a function is a function.
    bench
        .scratch
        .write("library.c", "int named(void) { return 7; }");
    bench.scratch.write("alias.ld", "alias = named;");
    for linker in BOTH {
        bench
            .driver(
                linker,
                "gcc",
                "-shared -fPIC library.c alias.ld -o libalias.so",
            )
            .ok();
        let image = bench.read("libalias.so");
        let elf = Elf::parse(&image).unwrap();
        let find = |name| {
            let mut all = elf.dynsyms.iter();
            all.find(|symbol| elf.dynstrtab.get_at(symbol.st_name) == Some(name))
                .unwrap()
        };
        let (alias, named) = (find("alias"), find("named"));
        assert_eq!(alias.st_value, named.st_value);
        assert_eq!(alias.st_type(), goblin::elf::sym::STT_FUNC, "{linker:?}");
    }
}

#[test]
fn raw_bytes_and_symbols_of_another_program() {
    let Some(bench) = bench() else { return };
    bench.scratch.write("some-data.bin", b"hello, raw world\n");
    bench.scratch.write(
        "script.ld",
        "SECTIONS { .text 0x10000 : { *(.text*) } .data 0x20000 : { *(.data) } .bss : { *(.bss) *(COMMON) } }",
    );
    for linker in BOTH {
        let name = format!("raw.{linker:?}");
        let arguments =
            format!("-T script.ld a.o b.o -b binary some-data.bin -b elf64-x86-64 -o {name}");
        bench.ld(linker, &arguments).ok();
        // A second program that knows the addresses of the first.
        bench.scratch.write(
            "second.s",
            ".globl second\nsecond: .quad _start, dat, _binary_some_data_bin_end\n",
        );
        bench
            .driver(Linker::Reference, "gcc", "-c second.s -o second.o")
            .ok();
        let arguments = format!("-e second -Ttext=0x70000 second.o -R {name} -o second.{linker:?}");
        bench.ld(linker, &arguments).ok();
        let flat = format!("-T script.ld --oformat binary a.o b.o -o flat.{linker:?}");
        bench.ld(linker, &flat).ok();
    }
    let [theirs, ours] = BOTH.map(|linker| picture(&bench.read(&format!("raw.{linker:?}"))));
    assert_eq!(theirs.symbols, ours.symbols);
    assert_eq!(theirs.bytes[".data"], ours.bytes[".data"]);
    let size = ours.symbols["_binary_some_data_bin_size"];
    let start = ours.symbols["_binary_some_data_bin_start"];
    assert_eq!(
        (size, ours.symbols["_binary_some_data_bin_end"]),
        (17, start + 17)
    );
    let [theirs, ours] = BOTH.map(|linker| {
        let image = bench.read(&format!("second.{linker:?}"));
        let elf = Elf::parse(&image).unwrap();
        let text = elf
            .section_headers
            .iter()
            .find(|header| header.sh_addr == 0x70000);
        image[text.unwrap().file_range().unwrap()].to_vec()
    });
    assert_eq!(theirs, ours, "addresses of the first program");
    let [theirs, ours] = BOTH.map(|linker| bench.read(&format!("flat.{linker:?}")));
    assert_eq!(theirs.len(), ours.len(), "size of the flat image");
    assert_eq!(theirs[0x10000..], ours[0x10000..], "its data");
}

#[test]
fn memory_usage_is_printed() {
    let Some(bench) = bench() else { return };
    bench.scratch.write(
        "script.ld",
        "MEMORY { rom : ORIGIN = 0, LENGTH = 16K  ram : ORIGIN = 0x8000, LENGTH = 1K }\n\
         SECTIONS { .text : { *(.text*) *(.rodata) *(table) } > rom .data : { *(.data) } > ram .rest : { *(.bss) *(COMMON) } > ram /DISCARD/ : { *(.*) *(orphan*) } }",
    );
    let [theirs, ours] = BOTH.map(|linker| {
        let arguments =
            format!("-T script.ld --print-memory-usage a.o b.o -e _start -o out.{linker:?}");
        bench.ld(linker, &arguments).ok().text()
    });
    assert_eq!(theirs, ours);
}

/// `-Ttext` and its like count more than the addresses of the script.
#[test]
fn options_overrule_the_addresses_of_a_script() {
    let Some(bench) = bench() else { return };
    let script = r"SECTIONS {
        .text 0x200000 : { *(.text*) *(orphan_x) } .rodata 0x300000 : { *(.rodata table) }
        .data 0x400000 : { *(.data .init_array*) *(orphan_w) } .bss : { *(.bss) *(COMMON) }
        /DISCARD/ : { *(.discard) }
    }";
    let picture = same(&bench, "-Ttext=0x30000 -Tdata=0x50000", script);
    assert_eq!(picture.sections[".text"].2, 0x30000);
    assert_eq!(picture.sections[".rodata"].2, 0x300000);
}

/// Common blocks are placed as sections of the file that gives the largest size.
#[test]
fn common_blocks_are_placed_by_their_files() {
    let Some(bench) = Bench::new() else { return };
    for (name, text) in [
        (
            "a",
            ".globl _start; _start: .quad one, shared; .comm one,4,4; .comm shared,8,8",
        ),
        (
            "b",
            ".quad two, shared; .comm two,8,8; .comm shared,32,16; .comm rest,24,8",
        ),
        ("c", ".comm three,16,16; .comm shared,16,8"),
        ("d", ".comm unused,16,16"),
    ] {
        bench
            .scratch
            .write(format!("{name}.s"), format!("{text}\n"));
        let arguments = format!("-c {name}.s -o {name}.o");
        bench.driver(Linker::Reference, "gcc", &arguments).ok();
    }
    for script in [
        ".c0 : { *a.o(COMMON) } .c1 : { *b.o(COMMON) } .c2 : { *c.o(COMMON) } /DISCARD/ : { *d.o(COMMON) }",
        ".c0 : { *(EXCLUDE_FILE(*b.o) COMMON) } .c1 : { *(COMMON) }",
        ".c0 : { c.o(COMMON) } .data : { QUAD(1) *b.o(.data COMMON) } .bss : { *(COMMON) }",
        ".c0 : { c.o(COMMON) . = ALIGN(64); EXCLUDE_FILE(*a.o) *(COMMON) } .bss : { *(COMMON) } ",
    ] {
        let script = format!("SECTIONS {{ . = 0x10000; .text : {{ *(.text) }} {script} }}");
        bench.scratch.write("script.ld", &script);
        let [theirs, ours] = BOTH.map(|linker| {
            let arguments = format!("-T script.ld a.o b.o c.o d.o -o out.{linker:?}");
            bench.ld(linker, &arguments).ok();
            picture(&bench.read(&format!("out.{linker:?}")))
        });
        assert_eq!(theirs.sections, ours.sections, "{script}");
        // GNU ld puts those of one file in the order of its hash table.
        let [theirs, ours] = [&theirs, &ours].map(|picture| {
            let home = |at: u64| {
                let mut all = picture.sections.iter();
                all.find(|(_, section)| section.2 <= at && at < section.2 + section.3)
            };
            let symbols = picture.symbols.iter();
            let homes = symbols.map(|(name, at)| (name, home(*at).map(|(section, _)| section)));
            homes.collect::<BTreeMap<_, _>>()
        });
        assert_eq!(theirs, ours, "{script}");
    }
    // Those of one file can be thrown away; who refers to them is told.
    bench.scratch.write(
        "script.ld",
        "SECTIONS { . = 0x10000; .text : { *(.text) } /DISCARD/ : { *b.o(COMMON) } .bss : { *(COMMON) } }",
    );
    for linker in BOTH {
        let run = bench
            .ld(linker, "-T script.ld a.o b.o c.o d.o -o out")
            .failed();
        let expected = "defined in discarded section `COMMON' of b.o";
        assert!(run.errors().contains(expected), "{}", run.report());
    }
}

/// Sections that no description takes run where the section before them runs; with an address of its own a section need
/// not be in a region; and different regions are different segments.
#[test]
fn regions_of_orphans_and_of_sections_with_addresses() {
    let Some(bench) = Bench::new() else { return };
    for (name, text) in [
        (
            "a",
            ".globl _start; _start: nop; .data; .quad 1; .section .data2,\"aw\"; .quad 2; .section .x,\"aw\"; .byte 3; .bss; .skip 8",
        ),
        (
            "b",
            ".section .init_array,\"aw\",@init_array; .zero 16; .section .nonalloc,\"\"; .zero 16",
        ),
    ] {
        bench
            .scratch
            .write(format!("{name}.s"), format!("{text}\n"));
        let arguments = format!("-c {name}.s -o {name}.o");
        bench.driver(Linker::Reference, "gcc", &arguments).ok();
    }
    for script in [
        // Full to the last byte.
        "MEMORY { text : ORIGIN = 0x8000, LENGTH = 1 data : ORIGIN = 0x9000, LENGTH = 0x30 }
         SECTIONS { .text : { *(.text) } > text .data : { *(.data) } > data .bss : { *(.bss) } > data }",
        // Attributes do not count for what follows a section.
        "MEMORY { text (!w) : ORIGIN = 0x8000, LENGTH = 4 data (!w) : ORIGIN = 0x9000, LENGTH = 0x30 }
         SECTIONS { .text : { *(.text) } > text .data : { *(.data) } > data .bss : { *(.bss) } > data }",
        // They do if that has no region either.
        "MEMORY { text (rx) : ORIGIN = 0x8000, LENGTH = 4 data (w!x) : ORIGIN = 0x9000, LENGTH = 0x30 }
         SECTIONS { .text : { *(.text) } .data : { *(.data) } .bss : { *(.bss) } }",
        // Load regions go on, too; one that is only loaded somewhere runs there.
        "MEMORY { rom : ORIGIN = 0x1000, LENGTH = 4K  ram : ORIGIN = 0x20000, LENGTH = 4K }
         SECTIONS { .text : { *(.text) } > rom .data : { *(.data) } > ram AT> rom .x : { *(.x) } AT> rom .bss : { *(.bss) } > ram }",
        "MEMORY { ram (wxa) : ORIGIN = 0x42000, LENGTH = 0x100000 }
         SECTIONS { .text : { *(.text*) } start = ALIGN(1024); .data start : { *(.data*) *(.init_array) *(.x) *(.bss) } }",
        // An input section without bytes is of a kind that has bytes: so its output section is loaded.
        "MEMORY { rom : ORIGIN = 0x8000000, LENGTH = 100K  ram : ORIGIN = 0x20000000, LENGTH = 100K }
         SECTIONS { .text : { *(.text) } > rom .more : ALIGN(8) { b.o(.data) . += 6; } > ram AT> rom .free : { . += 8; } > rom
         .free2 : { . += 8; } > rom .data : { *(.data .data2 .x .init_array .bss) } > ram }",
    ] {
        bench.scratch.write("script.ld", script);
        let [theirs, ours] = BOTH.map(|linker| {
            let arguments = format!("-T script.ld a.o b.o -o out.{linker:?}");
            bench.ld(linker, &arguments).ok();
            picture(&bench.read(&format!("out.{linker:?}")))
        });
        assert_eq!(theirs.sections, ours.sections, "{script}");
        assert_eq!(theirs.loads, ours.loads, "{script}");
    }
}

/// Code that is like nothing in the script comes first.
/// The next section may be loaded from where the load address of a `.bss` is.
#[test]
fn what_has_no_bytes_is_not_loaded_from_anywhere() {
    let Some(bench) = bench() else { return };
    same(
        &bench,
        "",
        "MEMORY { flash (rx) : ORIGIN = 0x8000000, LENGTH = 100K ram (rw) : ORIGIN = 0x20000000, LENGTH = 100K }\n\
         SECTIONS { .text : { *(.text) } > flash\n\
         .bss (NOLOAD) : { *(.bss) *(COMMON) } > ram AT> flash\n\
         .data : { *(.data) } > ram AT> flash\n\
         /DISCARD/ : { *(*) } }",
    );
}

/// Also where the linker's own code stands between.
#[test]
fn gaps_in_code_can_be_run_through() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.s",
        ".globl _start\n.text\n_start: call f@PLT\nret\n.section .text.z, \"ax\"\n.p2align 6\nret\n",
    );
    bench.scratch.write("b.s", ".globl f\nf: ret\n");
    for line in ["-c a.s -o a.o", "-shared -nostdlib b.s -o libb.so"] {
        bench.driver(Linker::Reference, "gcc", line).ok();
    }
    bench.scratch.write(
        "script.ld",
        "SECTIONS { . = 0x400000 + SIZEOF_HEADERS; .text : { *(.text) *(.plt) *(.text.z) } . = ALIGN(0x1000); }",
    );
    bench
        .ld(Linker::Ours, "-T script.ld a.o libb.so -o program")
        .ok();
    let image = bench.read("program");
    let elf = Elf::parse(&image).expect("an ELF file");
    let text = elf.section_headers.iter().find(|header| {
        let name = elf.shdr_strtab.get_at(header.sh_name);
        name == Some(".text")
    });
    let text = &image[text
        .and_then(|text| text.file_range())
        .expect("it is there")];
    // The stub ends with a jump backwards; behind it there is nothing until `.text.z`.
    let stub = text.windows(2).rposition(|bytes| bytes == [0xff, 0xff]);
    let gap = &text[stub.expect("it jumps") + 2..text.len() - 1];
    assert!(
        gap.len() > 8 && gap.iter().all(|byte| *byte == 0x90),
        "{gap:x?}"
    );
}

#[test]
fn addresses_less_aligned_than_what_is_there() {
    let Some(bench) = bench() else { return };
    for address in ["0x10001", "0x10004", "0x10040"] {
        same(
            &bench,
            "",
            &format!(
                "SECTIONS {{ .text {address} : {{ *(.text) }} .data : {{ *(.data) }} .bss : {{ *(.bss) *(COMMON) }} }}"
            ),
        );
    }
}

/// After an expression `/DISCARD/` is no division, and between regions there may be commas.
#[test]
fn what_follows_expressions() {
    let Some(bench) = bench() else { return };
    same(
        &bench,
        "",
        "MEMORY { a : ORIGIN = 0x400000, LENGTH = 1M, b : ORIGIN = 0x600000, LENGTH = 1M }\n\
         SECTIONS { .text : { *(.text*) } > a =0x90 .data : { *(.data*) } > b .bss : { *(.bss) } > b /DISCARD/ : { *(.comment) } }",
    );
}

#[test]
fn orphans_follow_what_is_like_them() {
    let Some(bench) = bench() else { return };
    same(
        &bench,
        "",
        "SECTIONS { . = 0x10000; .data : { *(.data) } .bss : { *(.bss) *(COMMON) } }",
    );
}

/// An output section counts for the program headers of those behind it, whether there is something in it or not; and a
/// segment may begin with the program headers alone.
#[test]
fn program_headers_of_empty_sections() {
    let Some(bench) = bench() else { return };
    for script in [
        "PHDRS { all PT_LOAD PHDRS; } SECTIONS { . = 0x2000 + SIZEOF_HEADERS; .none : { *(.none) } :all .text : { *(.text*) } .data : { *(.data) } .bss : { *(.bss) *(COMMON) } }",
        "PHDRS { all PT_LOAD FILEHDR; } SECTIONS { . = 0x2000 + SIZEOF_HEADERS; .text : { *(.text*) } .data : { *(.data) } .bss : { *(.bss) *(COMMON) } .none : { *(.none) } :all }",
    ] {
        let script = format!("{script} SECTIONS {{ /DISCARD/ : {{ *(.discard) }} }}");
        same(&bench, "", &script);
    }
    bench.scratch.write(
        "script.ld",
        "PHDRS { foo PT_DYNAMIC; } SECTIONS { /DISCARD/ : { *(*) } }",
    );
    for linker in BOTH {
        bench.ld(linker, "-T script.ld a.o b.o -e 0 -o out").ok();
    }
}

#[test]
fn exclusive_or() {
    let Some(bench) = bench() else { return };
    bench.scratch.write(
        "script.ld",
        "x = 6 ^ 3; y = 6; y ^= 3; y ^=8; SECTIONS { .text 0x10000 : { *(.text*) } }",
    );
    bench.ld(Linker::Ours, "-T script.ld a.o b.o -o out").ok();
    let symbols = picture(&bench.read("out")).symbols;
    assert_eq!((symbols["x"], symbols["y"]), (5, 13));
}

/// A table of program headers that is not loaded has no segment that says where it is.
#[test]
fn program_headers_that_are_not_loaded() {
    let Some(bench) = bench() else { return };
    bench.scratch.write(
        "script.ld",
        "SECTIONS { .text 0 : { *(.text* .rodata) } .data : { *(.data) } .bss : { *(.bss) *(COMMON) } }",
    );
    bench
        .ld(Linker::Ours, "-T script.ld -pie a.o b.o -o out")
        .ok();
    let image = bench.read("out");
    let elf = Elf::parse(&image).unwrap();
    let headers = elf.program_headers.iter();
    let kinds: Vec<u32> = headers.map(|header| header.p_type).collect();
    assert!(!kinds.contains(&program_header::PT_NULL), "{kinds:?}");
    assert!(!kinds.contains(&program_header::PT_PHDR), "{kinds:?}");
    assert!(kinds.contains(&program_header::PT_INTERP), "{kinds:?}");
}

/// The headers are loaded before code by a segment of their own, if there is room for them.
#[test]
fn headers_before_code() {
    let Some(bench) = bench() else { return };
    for (start, expected) in [
        ("0x10000 + SIZEOF_HEADERS", true),
        ("0x10800", true),
        ("0x10000", false),
        ("0x10040", false),
    ] {
        let script = format!(
            "SECTIONS {{ . = {start}; .text : {{ *(.text* orphan_x) }} .data : {{ *(.data) }} .bss : {{ *(.bss) *(COMMON) }} }}"
        );
        bench.scratch.write("script.ld", &script);
        for (linker, kind) in BOTH
            .into_iter()
            .flat_map(|linker| [(linker, ""), (linker, "-pie")])
        {
            // GNU ld says that it cannot, if there has to be a segment that says where the headers are.
            if linker == Linker::Reference && kind == "-pie" && !expected {
                continue;
            }
            bench
                .ld(linker, &format!("-T script.ld {kind} a.o b.o -o out"))
                .ok();
            let image = bench.read("out");
            let elf = Elf::parse(&image).unwrap();
            let loads: Vec<_> = elf
                .program_headers
                .iter()
                .filter(|header| header.p_type == program_header::PT_LOAD)
                .collect();
            let table = elf.header.e_phoff + 56 * u64::from(elf.header.e_phnum);
            let first = loads[0];
            let loaded = first.p_offset == 0 && first.p_filesz >= table;
            assert_eq!(loaded, expected, "{start} {kind} by {linker:?}");
            if loaded {
                assert_eq!(
                    (first.p_vaddr, first.p_flags),
                    (0x10000, program_header::PF_R)
                );
                assert_ne!(loads[1].p_flags & program_header::PF_X, 0);
            }
        }
    }
}
