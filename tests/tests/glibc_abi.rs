//! What programs ask of the C library and of the kernel by versions, tags and notes: `-z mark-plt`,
//! `--gnu2-tls-tag`, `-z memory-seal`, `-z isa-level-report` (GNU ld 2.41 to 2.47).

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::Elf;
use linking::{BOTH, Bench, Linker, check_image, tag};
use repo_tests::process::run;
use repo_tests::require;

const DT_X86_64_PLT: u64 = 0x7000_0000;
const DT_X86_64_PLTSZ: u64 = 0x7000_0001;
const DT_X86_64_PLTENT: u64 = 0x7000_0003;

/// The versions that an image needs of `file`.
fn needed_versions(image: &[u8], file: &str) -> Vec<String> {
    let elf = Elf::parse(image).expect("an ELF file");
    let name = |offset| elf.dynstrtab.get_at(offset).expect("a name").to_owned();
    let needs = elf.verneed.iter().flatten();
    let needs = needs.filter(|need| name(need.vn_file) == file);
    let mut versions: Vec<String> = needs
        .flat_map(|need| {
            need.iter()
                .map(|aux| name(aux.vna_name))
                .collect::<Vec<_>>()
        })
        .collect();
    versions.sort();
    versions
}

/// A library that stands for glibc, of a version that has `marks`.
fn write_libc(bench: &Bench, marks: &str) {
    bench
        .scratch
        .write("libc.c", "int puts(const char *s) { return *s; }");
    bench.scratch.write(
        "libc.map",
        format!("GLIBC_2.2.5 {{ global: puts; local: *; }}; GLIBC_2.36 {{ }}; {marks}"),
    );
    let options = "-shared -fPIC -nostdlib libc.c -Wl,-soname,libc.so.6,--version-script,libc.map";
    bench
        .driver(
            Linker::Reference,
            "gcc",
            &format!("{options} -o libfake.so"),
        )
        .ok();
}

#[test]
fn the_dynamic_linker_is_told_where_the_plt_is() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.c",
        "#include <stdio.h>\n#include <string.h>\nint main(int c, char **v) { puts(\"x\"); return strlen(v[0]) == 0; }",
    );
    for (more, direct) in [("", 0), (" -Wl,-z,ibtplt", 4), (" -Wl,-z,now", 0)] {
        let options = format!("-O2 -fno-builtin a.c -pie -fPIE -Wl,-z,mark-plt{more}");
        bench
            .driver(Linker::Ours, "gcc", &format!("{options} -o program"))
            .ok();
        let image = bench.read("program");
        check_image(&image);
        let elf = Elf::parse(&image).expect("an ELF file");
        let [plt, size, entry] = [DT_X86_64_PLT, DT_X86_64_PLTSZ, DT_X86_64_PLTENT]
            .map(|number| tag(&elf, number).expect("a tag"));
        assert_eq!(entry, 16, "{more}");
        let slots: Vec<_> = elf.pltrelocs.iter().collect();
        assert!(slots.len() >= 2, "{more}");
        for slot in slots {
            let jump = slot.r_addend.expect("an addend") as u64;
            assert!((plt..plt + size).contains(&jump), "{more}");
            assert_eq!((jump - plt) % entry, direct, "{more}");
            // A jump through the slot, by its distance from the end of the instruction.
            let code = elf
                .section_headers
                .iter()
                .find(|header| (header.sh_addr..header.sh_addr + header.sh_size).contains(&jump));
            let code = code.expect("the PLT");
            let at = (code.sh_offset + jump - code.sh_addr) as usize;
            assert_eq!(image[at..at + 2], [0xff, 0x25], "{more}");
            let distance =
                i32::from_le_bytes(image[at + 2..at + 6].try_into().expect("four bytes"));
            assert_eq!(jump + 6 + distance as u64, slot.r_offset, "{more}");
        }
        // The C library here ignores the addends, or the program would not be allowed to start.
        if needed_versions(&bench.read("program"), "libc.so.6").contains(&"GLIBC_2.36".into()) {
            bench.execute("program").ok();
        }
    }
    bench
        .driver(
            Linker::Ours,
            "gcc",
            "a.c -o program -Wl,-z,mark-plt,-z,nomark-plt",
        )
        .ok();
    let image = bench.read("program");
    let elf = Elf::parse(&image).expect("an ELF file");
    assert_eq!(tag(&elf, DT_X86_64_PLT), None);
    assert!(elf.pltrelocs.iter().all(|slot| slot.r_addend == Some(0)));
}

#[test]
fn versions_stand_for_what_an_older_c_library_cannot_do() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.c",
        "int puts(const char *); extern __thread int t; int f(void) { return puts(\"x\") + t; }",
    );
    let versions = |options: &str| {
        let line =
            format!("-shared -fPIC -mtls-dialect=gnu2 -nostdlib a.c libfake.so {options} -o a.so");
        bench.driver(Linker::Ours, "gcc", &line).ok();
        let all = needed_versions(&bench.read("a.so"), "libc.so.6");
        all.into_iter()
            .filter(|name| name != "GLIBC_2.2.5")
            .collect::<Vec<_>>()
    };
    write_libc(&bench, "");
    assert!(versions("").is_empty());
    assert_eq!(versions("-Wl,--gnu2-tls-tag"), ["GLIBC_ABI_GNU2_TLS"]);
    assert_eq!(versions("-Wl,-z,mark-plt"), ["GLIBC_2.36"]);
    write_libc(
        &bench,
        "GLIBC_ABI_GNU2_TLS { }; GLIBC_ABI_DT_X86_64_PLT { };",
    );
    assert_eq!(versions(""), ["GLIBC_ABI_GNU2_TLS"]);
    assert!(versions("-Wl,--no-gnu2-tls-tag").is_empty());
    assert!(versions("-Wl,--gnu2-tls-tag -mtls-dialect=gnu").is_empty());
    assert_eq!(
        versions("-Wl,-z,mark-plt"),
        ["GLIBC_ABI_DT_X86_64_PLT", "GLIBC_ABI_GNU2_TLS"]
    );
}

#[test]
fn a_program_may_ask_to_be_sealed() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("a.c", "int main(void) { return 0; }");
    let properties = |options: &str| {
        bench
            .driver(Linker::Ours, "gcc", &format!("a.c {options} -o program"))
            .ok();
        bench.execute("program").ok();
        let image = bench.read("program");
        let elf = Elf::parse(&image).expect("an ELF file");
        let notes = elf.iter_note_sections(&image, Some(".note.gnu.property"));
        notes.into_iter().flatten().any(|note| {
            let note = note.expect("a note");
            let mut rest = note.desc;
            let mut sealed = false;
            while rest.len() >= 8 {
                let word =
                    |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("a word"));
                let (number, size) = (word(0), word(4) as usize);
                assert!(number != 3 || size == 0);
                sealed |= number == 3;
                rest = &rest[8 + size.next_multiple_of(8)..];
            }
            sealed
        })
    };
    assert!(properties("-Wl,-z,memory-seal"));
    assert!(!properties("-Wl,-z,memory-seal,-z,nomemory-seal"));
    // An object's wish is not the program's.
    bench.scratch.write(
        "wish.s",
        ".section .note.gnu.property, \"a\"\n.p2align 3\n.long 4, 8, 5\n.asciz \"GNU\"\n.long 3, 0\n",
    );
    assert!(!properties("wish.s"));
}

#[test]
fn instruction_sets_of_inputs() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.s",
        ".globl _start\n_start: ret\n.section .note.gnu.property, \"a\"\n.p2align 3\n.long 4, 32, 5\n.asciz \"GNU\"\n\
         .long 0xc0008002, 4, 3, 0\n.long 0xc0010002, 4, 0x25, 0\n",
    );
    bench.driver(Linker::Ours, "gcc", "-c a.s").ok();
    let report = |kind: &str| {
        bench
            .ld(
                Linker::Ours,
                &format!("a.o -z isa-level-report={kind} -o a"),
            )
            .ok()
            .errors()
    };
    let needed = "a.o: x86 ISA needed: x86-64-baseline, x86-64-v2\n";
    let used = "a.o: x86 ISA used: x86-64-baseline, x86-64-v3, <unknown: 0x20>\n";
    assert_eq!(report("none"), "");
    assert_eq!(report("needed"), format!("repo-ld: {needed}"));
    assert_eq!(report("used"), format!("repo-ld: {used}"));
    assert_eq!(report("all"), format!("repo-ld: {needed}repo-ld: {used}"));
    bench
        .ld(Linker::Ours, "a.o -z isa-level-report=some -o a")
        .failed();
}

#[test]
fn the_stack_that_is_asked_for_is_a_property() {
    let Some(bench) = Bench::new() else { return };
    let [readelf] = require!("readelf");
    let note = |size: &str| {
        format!(
            ".section .note.gnu.property, \"a\"\n.p2align 3\n.long 4, 16, 5\n.asciz \"GNU\"\n.long 1, 8\n.quad {size}\n"
        )
    };
    let start = ".globl _start\n_start: ret\n.section .note.GNU-stack, \"\", @progbits\n";
    for property in [String::new(), note("0x1000"), note("0x900000")] {
        bench.scratch.write("a.s", format!("{start}{property}"));
        bench
            .driver(Linker::Reference, "gcc", "-c -Wa,-mx86-used-note=no a.s")
            .ok();
        for options in ["", "-z stack-size=0x2000", "-z stack-size=0x2000 -z ibt"] {
            let [theirs, ours] = BOTH.map(|linker| {
                bench.ld(linker, &format!("a.o {options} -o a")).ok();
                let notes = run(bench.scratch.command(&readelf).args(["-nW", "a"])).ok();
                notes.text().replace(' ', "")
            });
            assert_eq!(ours, theirs, "{property} {options}");
        }
    }
}
