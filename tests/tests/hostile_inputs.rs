//! Inputs that nobody's compiler writes, and some that only few do: they link as they do with GNU ld, or are refused by
//! name, in time that grows as the input does. And a bounded run of the mutations that `tests/fuzz` runs for hours.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::{Elf, sym};
use linking::{Bench, Linker};
use repo_hostile::{Random, Target};
use repo_tests::binaries::Binaries;
use repo_tests::process::{Run, run};
use std::fmt::Write as _;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// `repo-ld` with these arguments, in the bench's directory.
fn link(bench: &Bench, arguments: &str) -> Run {
    let mut command = bench.scratch.command(Binaries::get().path("repo-ld"));
    run(command.args(arguments.split_whitespace()))
}

/// File offset, size, and number of a section by its name.
#[track_caller]
fn section(object: &[u8], name: &str) -> (usize, usize, usize) {
    let elf = Elf::parse(object).expect("a compiler wrote it");
    let mut sections = elf.section_headers.iter().enumerate();
    let found = sections.find(|(_, header)| elf.shdr_strtab.get_at(header.sh_name) == Some(name));
    let (number, header) = found.unwrap_or_else(|| panic!("no {name}"));
    (header.sh_offset as usize, header.sh_size as usize, number)
}

const THROWS: &str = "#include <cstdio>\n\
    struct Speaks { const char *what; ~Speaks() { std::puts(what); } };\n\
    __attribute__((noinline)) int half(int x) { Speaks s{\"left half\"}; if (x % 2) throw x; return x / 2; }\n\
    __attribute__((noinline)) int twice(int x) { Speaks s{\"left twice\"}; return half(x) + half(x); }\n\
    int main() { try { return twice(7); } catch (int x) { std::printf(\"caught %d\\n\", x); } return twice(4) - 4; }\n";

/// A compressed section that says that it expands to as much as a number can say.
#[test]
fn a_compressed_section_of_any_size() {
    let Some(bench) = Bench::new() else { return };
    let functions: String = (0..60)
        .map(|i| format!("int f{i}(int x) {{ return x; }}\n"))
        .collect();
    bench.scratch.write("a.c", functions);
    let compile = "-g -gz=zlib -c a.c -o a.o";
    bench.driver(Linker::Reference, "gcc", compile).ok();
    let mut object = bench.read("a.o");
    let (at, _, _) = section(&object, ".debug_info");
    assert_eq!(object[at], 1, "is not compressed with zlib");
    object[at + 8..at + 16].copy_from_slice(&u64::MAX.to_le_bytes());
    bench.scratch.write("a.o", &object);
    let failed = link(&bench, "a.o -o program").code(1);
    let said = failed.errors();
    assert!(said.contains("error: a.o"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

/// No specification says that relocations are in the order of their places.
#[test]
fn frames_whose_relocations_are_in_any_order() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("throws.cc", THROWS);
    for options in ["-O1 -fPIE", "-O1 -fPIE -ffunction-sections"] {
        let compile = format!("{options} -c throws.cc -o throws.o");
        bench.driver(Linker::Reference, "g++", &compile).ok();
        let mut object = bench.read("throws.o");
        let (at, size, _) = section(&object, ".rela.eh_frame");
        let reversed: Vec<u8> = object[at..at + size]
            .rchunks(24)
            .flatten()
            .copied()
            .collect();
        assert!(size > 3 * 24, "too few relocations to be out of order");
        object[at..at + size].copy_from_slice(&reversed);
        bench.scratch.write("throws.o", &object);
        for link in [
            "-pie",
            "-static",
            "-pie -Wl,--gc-sections,--icf=all",
            "-pie -Wl,--emit-relocs",
        ] {
            // GNU ld has no ICF.
            let plain = link.replace(",--icf=all", "");
            bench
                .driver(
                    Linker::Reference,
                    "g++",
                    &format!("{plain} throws.o -o reference"),
                )
                .ok();
            bench
                .driver(Linker::Ours, "g++", &format!("{link} throws.o -o program"))
                .ok();
            let (theirs, ours) = (bench.execute("reference"), bench.execute("program"));
            assert_eq!(ours.text(), theirs.text(), "{options} {link}");
            assert!(ours.text().contains("caught 7"), "{}", ours.report());
            assert_eq!(ours.status, theirs.status);
        }
        bench
            .driver(Linker::Ours, "g++", "-r -nostdlib throws.o -o again.o")
            .ok();
        bench
            .driver(Linker::Reference, "g++", "-pie again.o -o program")
            .ok();
        assert!(bench.execute("program").text().contains("caught 7"));
    }
}

/// What clang 19 writes with `-Wa,--crel` links to the same bytes as its ordinary relocations do.
#[test]
fn compact_relocations() {
    let [clang] = repo_tests::require!("clang++");
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("throws.cc", THROWS);
    let compile = |more: &[&str]| {
        let mut command = bench.scratch.command(&clang);
        command.args([
            "-O1",
            "-g",
            "-fPIE",
            "-ffunction-sections",
            "-c",
            "throws.cc",
            "-o",
            "throws.o",
        ]);
        run(command.args(more))
    };
    compile(&[]).ok();
    const LINKS: [&str; 4] = [
        "-pie",
        "-static -Wl,--gc-sections",
        "-pie -Wl,--emit-relocs",
        "-r -nostdlib",
    ];
    let linked = || {
        LINKS.map(|link| {
            let line = format!("{link} throws.o -o program");
            bench.driver(Linker::Ours, "g++", &line).ok();
            bench.read("program")
        })
    };
    let plain = linked();
    if !compile(&["-Wa,--crel,--allow-experimental-crel"])
        .status
        .success()
    {
        return; // An older clang.
    }
    let compact = bench.read("throws.o");
    let (at, size, _) = section(&compact, ".crel.eh_frame");
    for ((plain, compact), link) in plain.iter().zip(linked()).zip(LINKS) {
        assert!(
            *plain == compact,
            "{link}: another output than from ordinary relocations"
        );
    }
    bench
        .driver(Linker::Ours, "g++", "throws.o -o program")
        .ok();
    assert!(bench.execute("program").text().contains("caught 7"));

    // Cut off in a number.
    let mut damaged = compact.clone();
    damaged[at + size - 1] |= 0x80;
    bench.scratch.write("damaged.o", &damaged);
    let failed = link(&bench, "damaged.o -o bad").code(1);
    let words = "damaged.o: section ";
    assert!(
        failed.errors().contains(words) && failed.errors().contains("cut off"),
        "{}",
        failed.report()
    );
}

#[test]
fn reserved_section_indices_are_refused_by_name() {
    let Some(bench) = Bench::new() else { return };
    let source = ".globl _start, odd\n_start: mov local@GOTPCREL(%rip), %rax\n.data\n.quad odd\nodd: .quad 1\nlocal: .quad 2\n";
    bench.scratch.write("a.s", source);
    bench.driver(Linker::Reference, "gcc", "-c a.s -o a.o").ok();
    let good = bench.read("a.o");
    let elf = Elf::parse(&good).expect("an assembler wrote it");
    let (symbols, _, _) = section(&good, ".symtab");
    for (name, index) in [
        ("odd", 0xff00u16),
        ("odd", 0xff03),
        ("odd", 0xff3f),
        ("local", 0xfffe),
        ("odd", 0x77),
    ] {
        let number = elf
            .syms
            .iter()
            .position(|symbol| elf.strtab.get_at(symbol.st_name) == Some(name));
        let at = symbols + number.expect("it is there") * sym::sym64::SIZEOF_SYM + 6;
        let mut object = good.clone();
        object[at..at + 2].copy_from_slice(&index.to_le_bytes());
        bench.scratch.write("odd.o", &object);
        for options in ["", "-shared", "-r", "--noinhibit-exec", "--gc-sections"] {
            let failed = link(&bench, &format!("{options} odd.o -o program")).code(1);
            let said = failed.errors();
            let place = if index == 0x77 {
                "section 119".into()
            } else {
                format!("{index:#x}")
            };
            assert!(
                said.contains("odd.o") && said.contains(&place),
                "{options}: {said}"
            );
            assert!(!bench.path("program").exists());
        }
    }
}

/// What the gABI says how to read, and is written otherwise; and what nobody says how to read. GNU ld refuses it, too.
#[test]
fn what_is_not_understood_is_refused() {
    let Some(bench) = Bench::new() else { return };
    let assemble = |text: &str| {
        let text = format!(".globl _start\n_start: nop\n{text}\n");
        bench.scratch.write("a.s", text);
        bench.driver(Linker::Reference, "gcc", "-c a.s -o a.o").ok();
        bench.read("a.o")
    };
    let refused = |options: &str, words: &str| {
        bench
            .ld(Linker::Reference, &format!("{options} -o program"))
            .failed();
        let said = link(&bench, &format!("{options} -o program"))
            .code(1)
            .errors();
        assert!(
            said.contains(words) && !said.contains("panicked"),
            "{words}: {said}"
        );
    };
    for (text, words) in [
        (
            ".section odd,\"\",@0x15",
            "section 4 (odd) is of unknown type 0x15",
        ),
        (
            ".section odd,\"a\",@0x80000000",
            "section 4 (odd) is of unknown type 0x80000000",
        ),
        (
            ".section odd,\"0x100\",@0x60000000",
            "section 4 (odd) is of unknown type 0x60000000",
        ),
    ] {
        assemble(text);
        refused("a.o", words);
        refused("-r a.o", words);
    }
    // What nobody loads, or need not be known, is copied.
    assemble(".section odd,\"\",@0x80000000\n.byte 1\n.section even,\"a\",@0x60000000\n.byte 2");
    link(&bench, "a.o -o program").ok();

    let good = assemble(".section odd,\"axG\",@progbits,f,comdat\n.globl f\nf: nop");
    let (at, _, _) = section(&good, ".group");
    let mut object = good.clone();
    object[at] = 0xff;
    bench.scratch.write("a.o", &object);
    let said = link(&bench, "a.o -o program").code(1).errors();
    assert!(
        said.contains("flags of a section group: 0xff is not valid"),
        "{said}"
    );

    let elf = Elf::parse(&good).expect("an assembler wrote it");
    let (_, _, number) = section(&good, ".symtab");
    let at = elf.header.e_shoff as usize + 64 * number + 44;
    let mut object = good.clone();
    object[at..at + 4].fill(0);
    bench.scratch.write("a.o", &object);
    refused("a.o", "first global symbol: 0x0 is not valid");

    bench.scratch.write("text", "no object");
    run(bench.scratch.command("ar").args(["rc", "lib.a", "text"])).ok();
    refused(
        "--whole-archive lib.a",
        "lib.a(text): the member is not an object",
    );
    bench.scratch.write("a.o", &good);
    link(&bench, "a.o lib.a -o program").ok();
}

/// References to what is outside of a section whose pieces are merged choose no piece, and relocations outside of their own
/// section have no place.
#[test]
fn places_outside_of_sections_are_refused() {
    let Some(bench) = Bench::new() else { return };
    for (text, words) in [
        (
            ".quad .foo + 10",
            "(.data+0x0): R_X86_64_64: refers to what is outside of the mergeable section",
        ),
        (
            ".quad .foo - 1",
            "(.data+0x0): R_X86_64_64: refers to what is outside of the mergeable section",
        ),
        (
            ".section no,\"aw\"\n.reloc 0, R_X86_64_64, f",
            "(no+0x0): R_X86_64_64: the relocation is outside of its section",
        ),
    ] {
        let text = format!(".data\nf: {text}\n.section .foo,\"aM\",@progbits,4\n.quad 0\n");
        bench.scratch.write("a.s", text);
        bench.driver(Linker::Reference, "gcc", "-c a.s -o a.o").ok();
        for options in ["-shared", "-e 0"] {
            let said = link(&bench, &format!("{options} a.o -o program"))
                .code(1)
                .errors();
            assert!(said.contains(words), "{said}");
        }
    }
    // Its end is where it ends, and what refers to nothing in particular is a reference all the same.
    bench.scratch.write(
        "a.s",
        ".data\n.quad .foo + 8\n.section no,\"aw\"\n.reloc 0, R_X86_64_NONE, f\n\
         .section .foo,\"aM\",@progbits,4\n.quad 0\n.section kept,\"aw\"\nf: .quad 1\n",
    );
    bench.driver(Linker::Reference, "gcc", "-c a.s -o a.o").ok();
    link(&bench, "-e 0 a.o -o program").ok();
}

/// Frame descriptions of a kind that we do not know are told of, as GNU ld does, and linked.
#[test]
fn unknown_frames_are_told_of() {
    let Some(bench) = Bench::new() else { return };
    for (version, words) in [
        ("9", "unknown CIE version 9"),
        ("1, 'y', 0", "unknown CIE augmentation"),
    ] {
        let text = format!(
            ".globl _start\n_start: nop\n.section .eh_frame,\"a\",@progbits\n\
             .long 12, 0\n.byte {version}\n.balign 16\n"
        );
        bench.scratch.write("a.s", text);
        bench.driver(Linker::Reference, "gcc", "-c a.s -o a.o").ok();
        let theirs = bench
            .ld(Linker::Reference, "--eh-frame-hdr a.o -o program")
            .ok()
            .errors();
        assert!(theirs.contains("error in a.o(.eh_frame)"), "{theirs}");
        let said = link(&bench, "--eh-frame-hdr a.o -o program").ok().errors();
        let place = "warning: a.o: .eh_frame (section 4): offset 0x0: ";
        assert!(said.contains(place) && said.contains(words), "{said}");
    }
}

/// `--noinhibit-exec`: "Retain the executable output file whenever it is still usable."
#[test]
fn errors_that_noinhibit_exec_lets_through() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.s",
        ".globl _start\n_start: call missing\n mov $far, %eax\n",
    );
    bench.scratch.write(
        "b.s",
        ".globl _start, far\n_start: nop\nfar = 0x123456789a\n",
    );
    for name in ["a", "b"] {
        bench
            .driver(
                Linker::Reference,
                "gcc",
                &format!("-c {name}.s -o {name}.o"),
            )
            .ok();
    }
    let usable = link(&bench, "--noinhibit-exec a.o b.o -o program").ok();
    for words in [
        "warning: undefined symbol: missing",
        "warning: duplicate symbol: _start",
        "relocation truncated to fit: R_X86_64_32 against 'far'",
    ] {
        assert!(
            usable.errors().contains(words),
            "no {words} in\n{}",
            usable.report()
        );
    }
    Elf::parse(&bench.read("program")).expect("an output is a sound file");
    // Without these inputs or scripts, the output would not be what was asked for.
    bench.scratch.write("cut.o", &bench.read("a.o")[..100]);
    bench
        .scratch
        .write("bad.ld", "SECTIONS { .text : { *(.text) }");
    for arguments in [
        "a.o missing.o",
        "a.o cut.o",
        "a.o -lno_such_library",
        "a.o -T bad.ld",
        "a.o --version-script=bad.ld",
        "a.o --defsym=x=y",
    ] {
        fs::remove_file(bench.path("program")).ok();
        let failed = link(&bench, &format!("--noinhibit-exec {arguments} -o program")).code(1);
        assert!(
            failed.errors().contains("repo-ld: error: "),
            "{}",
            failed.report()
        );
        assert!(
            !bench.path("program").exists(),
            "{arguments}: an output was left behind"
        );
    }
}

/// Sections of one name of which only the second has bytes in its file.
#[test]
fn bytes_behind_what_has_none() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.s",
        ".globl _start\n_start: nop\n.section x,\"aw\",@nobits\n.zero 4\n",
    );
    bench.scratch.write(
        "b.s",
        ".section x,\"aw\",@progbits\n.long 0x12345678\n.bss\n.zero 8\n",
    );
    for name in ["a", "b"] {
        let compile = format!("-c {name}.s -o {name}.o");
        bench.driver(Linker::Reference, "gcc", &compile).ok();
    }
    for line in ["a.o b.o", "b.o a.o", "a.o b.o -T script.ld"] {
        bench.scratch.write(
            "script.ld",
            "SECTIONS { . = 0x10000; .text : { *(.text) } .bss : { *(.bss) } }",
        );
        link(&bench, &format!("{line} -o program")).ok();
        let image = bench.read("program");
        let (at, size, number) = section(&image, "x");
        let elf = Elf::parse(&image).expect("an output is a sound file");
        assert_eq!(
            (size, elf.section_headers[number].sh_type),
            (8, 1),
            "{line}"
        );
        let bytes = &image[at..at + 8];
        let word = 0x1234_5678u32.to_le_bytes();
        assert!(
            bytes.ends_with(&word) || bytes.starts_with(&word),
            "{line}: {bytes:x?}"
        );
    }
}

/// A name with a version beside the plain one, given twice.
#[test]
fn duplicates_of_names_with_versions() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.s",
        ".globl _start, f\n_start: nop\nf: nop\n.symver f, f@V1\n",
    );
    bench.driver(Linker::Reference, "gcc", "-c a.s -o a.o").ok();
    bench.driver(Linker::Reference, "gcc", "-c a.s -o b.o").ok();
    let failed = link(&bench, "a.o b.o -o program").code(1);
    for words in [
        "duplicate symbol: f@V1",
        "duplicate symbol: _start",
        "a.o",
        "b.o",
    ] {
        assert!(failed.errors().contains(words), "{}", failed.report());
    }
}

/// An assembler source of many sections with names of their own, each with a word.
fn many_sections(count: usize, name: impl Fn(usize) -> String) -> String {
    let mut source = String::from(".globl _start\n_start: nop\n");
    for number in 0..count {
        writeln!(source, ".section {},\"a\"\n.long {number}", name(number))
            .expect("memory takes it");
    }
    source
}

/// Time grows as the number of names, not as its square: what was quadratic took ten times the processor time that is
/// allowed here, and what is linear takes a tenth of it.
#[test]
fn thousands_of_output_sections() {
    let Some(bench) = Bench::new() else { return };
    let linker = Binaries::get().path("repo-ld");
    let link = |count: usize, options: &str| {
        let source = many_sections(count, |number| format!("name_{number}"));
        bench.scratch.write("many.s", source);
        bench
            .driver(Linker::Reference, "gcc", "-c many.s -o many.o")
            .ok();
        let line = format!(
            "ulimit -t 15; exec {} many.o {options} -o program",
            linker.display()
        );
        run(bench.scratch.command("sh").args(["-c", &line])).ok();
        bench.read("program")
    };
    bench
        .scratch
        .write("script", "SECTIONS { .text : { *(.text) } }");
    for (count, options) in [(30_000, ""), (60_000, "-Map=map"), (60_000, "-T script")] {
        let image = link(count, options);
        let elf = Elf::parse(&image).expect("an output is a sound file");
        assert!(elf.section_headers.len() > count);
        let (at, size, _) = section(&image, &format!("name_{}", count - 1));
        let word = (count as u32 - 1).to_le_bytes();
        assert_eq!((&image[at..at + 4], size), (&word[..], 4));
    }
}

/// Changes sound inputs a bounded number of times and runs the target on each. The numbers are the same every time, unless
/// `$HOSTILE_SEED` says otherwise; `$HOSTILE_ROUNDS` multiplies the rounds.
#[track_caller]
fn bounded(target: Target, rounds: usize) {
    let number = |name| {
        std::env::var(name)
            .ok()
            .and_then(|value| value.parse::<u64>().ok())
    };
    let rounds = rounds * number("HOSTILE_ROUNDS").unwrap_or(1) as usize;
    let seed = number("HOSTILE_SEED").unwrap_or(0);
    let seeds = target.seeds();
    assert!(!seeds.is_empty());
    for seed in &seeds {
        target.run(seed);
    }
    // Now and then a changed input takes the place of another, so that changes add up.
    let mut pool = seeds.clone();
    let mut random = Random::new(seed);
    for round in 0..rounds {
        let number = random.below(pool.len());
        let mut bytes = pool[number].clone();
        target.mutate(&mut bytes, &mut random, 32 << 10);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target.run(&bytes))) {
            let kept = std::env::temp_dir().join(format!("hostile-{}-{round}", target.name()));
            let _ = fs::write(&kept, &bytes);
            eprintln!(
                "{}: round {round}: the input is in {}",
                target.name(),
                kept.display()
            );
            std::panic::resume_unwind(panic);
        }
        if random.one_in(4) {
            pool[number] = match random.one_in(6) {
                true => seeds[number].clone(),
                false => bytes,
            };
        }
    }
}

#[test]
fn changed_archives() {
    bounded(Target::Archive, 20_000);
}

#[test]
fn changed_archives_that_are_written_anew() {
    bounded(Target::ArchiveWriter, 20_000);
}

#[test]
fn changed_recipes() {
    bounded(Target::Recipe, 2_000);
}

#[test]
fn changed_notes_of_tickets() {
    bounded(Target::TicketNote, 20_000);
}

#[test]
fn changed_command_lines() {
    bounded(Target::Args, 20_000);
}

#[test]
fn changed_links() {
    bounded(Target::Link, 4_000);
}

#[test]
fn changed_objects_whose_lines_have_moved() {
    bounded(Target::MovedLines, 6_000);
}

#[test]
fn changed_objects() {
    bounded(Target::Object, 8_000);
}

#[test]
fn changed_programs() {
    bounded(Target::Program, 3_000);
}

#[test]
fn changed_repositories() {
    bounded(Target::Repository, 300);
}

#[test]
fn changed_scripts() {
    bounded(Target::Script, 20_000);
}

#[test]
fn changed_shared_objects() {
    bounded(Target::Shared, 20_000);
}

#[test]
fn changed_sources() {
    bounded(Target::Source, 20_000);
}

#[test]
fn changed_version_scripts() {
    bounded(Target::VersionScript, 20_000);
}
