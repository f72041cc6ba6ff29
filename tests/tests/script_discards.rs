//! What a linker script leaves out of the output (`/DISCARD/`) or out of the file (`NOLOAD`), of what the linker makes too.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::{Elf, program_header};
use linking::{BOTH, Bench, Linker};

/// As the kernel's decompressor: a PIE that places itself, and has no use for what a dynamic linker reads.
#[test]
fn a_script_may_discard_the_dynamic_section() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.s",
        ".globl _start, exported\n.text\n_start: lea value(%rip), %rax\nmov (%rax), %edi\nmov $60, %eax\nsyscall\n\
         .hidden value\n.data\n.globl value\nvalue: .long 42\nexported: .long 1\n",
    );
    bench.driver(Linker::Reference, "gcc", "-c a.s -o a.o").ok();
    bench.scratch.write(
        "script.ld",
        "SECTIONS { . = 0x1000; .text : { *(.text) } . = ALIGN(0x1000); .data : { *(.data) }\n\
         /DISCARD/ : { *(.dynamic) *(.dynsym) *(.dynstr) *(.hash) *(.gnu.hash) *(.note.*) }\n\
         .got.plt : { *(.got.plt) } .rela.dyn : { *(.rela.*) }\n\
         ASSERT(SIZEOF(.rela.dyn) == 0, \"there are relocations\") }",
    );
    for options in [
        "-pie --no-dynamic-linker",
        "-pie --no-dynamic-linker --no-eh-frame-hdr -O2",
        "-static",
    ] {
        let [theirs, ours] = BOTH.map(|linker| {
            let line = format!("{options} -T script.ld a.o -o program");
            bench.ld(linker, &line).ok();
            bench.execute("program").code(42);
            let image = bench.read("program");
            let elf = Elf::parse(&image).expect("an ELF file");
            let loaded = elf.section_headers.iter().filter(|s| s.sh_flags & 2 != 0);
            let names = loaded.map(|s| elf.shdr_strtab.get_at(s.sh_name).unwrap_or("").to_owned());
            let kinds = elf.program_headers.iter().map(|p| p.p_type);
            let kinds = kinds.filter(|kind| *kind != program_header::PT_GNU_STACK);
            (names.collect::<Vec<_>>(), kinds.collect::<Vec<_>>())
        });
        assert_eq!(theirs, ours, "{options}");
    }
    // What needs shared objects needs the tables that name them.
    bench.scratch.write("b.s", ".globl f\nf: ret\n");
    bench
        .driver(Linker::Ours, "gcc", "-shared b.s -nostdlib -o libb.so")
        .ok();
    let done = bench
        .ld(Linker::Ours, "-pie -T script.ld a.o libb.so -o program")
        .failed();
    assert!(
        done.errors()
            .contains("the linker script discards .dynamic, which this link needs"),
        "{}",
        done.errors()
    );
}

/// The digest that is put in last must not go over something else.
#[test]
fn a_script_may_discard_the_build_id() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.s",
        ".globl _start\n_start: mov $42, %edi\nmov $60, %eax\nsyscall\n",
    );
    bench.driver(Linker::Reference, "gcc", "-c a.s -o a.o").ok();
    let notes = [
        ("/DISCARD/ : { *(.note.gnu.build-id) }", true),
        (".note (NOLOAD) : { *(.note.gnu.build-id) }", false),
    ];
    for (note, discards) in notes {
        let script = format!(
            "SECTIONS {{ . = 0x400000 + SIZEOF_HEADERS; {note} . = ALIGN(0x1000); .text : {{ *(.text) }} }}"
        );
        bench.scratch.write("script.ld", &script);
        for linker in BOTH {
            let said = bench
                .ld(linker, "--build-id -T script.ld a.o -o program")
                .ok();
            let warning = ".note.gnu.build-id section discarded, --build-id ignored";
            assert_eq!(
                said.errors().contains(warning),
                discards,
                "{}",
                said.report()
            );
            Elf::parse(&bench.read("program")).expect("an ELF file");
            bench.execute("program").code(42);
        }
    }
    let line = "--build-id --orphan-handling=discard -T script.ld a.o -o program";
    bench.scratch.write(
        "script.ld",
        "SECTIONS { . = 0x400000 + SIZEOF_HEADERS; .text : { *(.text) } }",
    );
    let said = bench.ld(Linker::Ours, line).ok();
    assert!(
        said.errors().contains("--build-id ignored"),
        "{}",
        said.report()
    );
    bench.execute("program").code(42);
}

/// `NOLOAD` of what the linker makes, and of what has relocations: the bytes are not in the file, the rest is as ever.
#[test]
fn a_script_may_keep_bytes_out_of_the_file() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.c",
        "const char *const names[] = { \"one\", \"two\" }; int x, *p = &x; \
         int f(int (*g)(void)) { return g() + *names[1]; } int main(void) { return *p; }",
    );
    let without = |name: &str, kind: &str| {
        let script = format!(
            "SECTIONS {{ . = SIZEOF_HEADERS; {name} (NOLOAD) : {{ *({name} {name}.*) }} . = ALIGN(0x1000); \
             .text : {{ *(.text) }} .last : {{ *(.comment) }} }}"
        );
        bench.scratch.write("script.ld", &script);
        let line = format!("{kind} -g a.c -Wl,-T,script.ld,--build-id,--eh-frame-hdr -o program");
        bench.driver(Linker::Ours, "gcc", &line)
    };
    for kind in ["-pie -fPIE", "-no-pie -fno-pie", "-shared -fPIC"] {
        let names = [
            ".eh_frame",
            ".eh_frame_hdr",
            ".data",
            ".rodata",
            ".got",
            ".plt",
            ".note.gnu.build-id",
        ];
        for name in names {
            without(name, kind).ok();
            let image = bench.read("program");
            let elf = Elf::parse_header(&image).expect("an ELF file");
            assert_eq!(elf.e_machine, 62);
            let headers = goblin::elf::SectionHeader::parse(
                &image,
                elf.e_shoff as usize,
                elf.e_shnum.into(),
                goblin::container::Ctx::default(),
            );
            let headers = headers.expect("section headers");
            let strings = &headers[usize::from(elf.e_shstrndx)];
            let named = |header: &&goblin::elf::SectionHeader| {
                let at = strings.sh_offset as usize + header.sh_name;
                image[at..].starts_with(name.as_bytes()) && image[at + name.len()] == 0
            };
            if let Some(header) = headers.iter().find(named) {
                assert_eq!(
                    header.sh_type,
                    goblin::elf::section_header::SHT_NOBITS,
                    "{name} {kind}"
                );
            }
            let debug = headers.iter().any(|header| {
                let at = strings.sh_offset as usize + header.sh_name;
                image[at..].starts_with(b".debug_info\0")
            });
            assert!(debug, "{name} {kind}");
        }
        for name in [".rela.dyn", ".dynsym", ".dynstr", ".dynamic", ".gnu.hash"] {
            let refused = without(name, kind).failed();
            let complaint = format!(
                "keeps {name}, which the program needs at its start, out of the file (NOLOAD)"
            );
            assert!(
                refused.errors().contains(&complaint),
                "{kind}: {}",
                refused.report()
            );
        }
    }
}

/// Memory that is not in the file may be larger than the machine's.
#[test]
fn what_is_kept_out_of_the_file_may_be_huge() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.s",
        ".globl _start\n_start: ret\n.data\n.quad huge\n.bss\nhuge: .skip 0x400000000000\n.comm common, 0x1000000000\n",
    );
    bench.scratch.write(
        "script.ld",
        "SECTIONS { .text : { *(.text) } .memory (NOLOAD) : { *(.data) *(.bss COMMON) } end = .; }",
    );
    bench.driver(Linker::Ours, "gcc", "-c a.s").ok();
    bench.ld(Linker::Ours, "-T script.ld a.o -o program").ok();
    let image = bench.read("program");
    assert!(image.len() < 100_000);
    let elf = Elf::parse(&image).expect("an ELF file");
    let end = elf
        .syms
        .iter()
        .find(|symbol| elf.strtab.get_at(symbol.st_name) == Some("end"));
    assert!(end.expect("end").st_value > 0x4010_0000_0000);
}
