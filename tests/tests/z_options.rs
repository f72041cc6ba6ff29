//! `-z` keywords: what each does to the image, read from its headers.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::{Elf, program_header};
use linking::{BOTH, Bench, Linker, check_image, tag};
use repo_tests::binaries::Binaries;
use repo_tests::process::{Run, run};

const DT_DEBUG: u64 = 21;
const DT_FLAGS_1: u64 = 0x6fff_fffb;

/// Links `a.c` with `options`.
fn link(bench: &Bench, linker: Linker, options: &str) -> Vec<u8> {
    bench
        .driver(linker, "gcc", &format!("a.c {options} -o program"))
        .ok();
    bench.read("program")
}

fn bench_with(source: &str) -> Option<Bench> {
    let bench = Bench::new()?;
    bench.scratch.write("a.c", source);
    Some(bench)
}

const HELLO: &str = r#"#include <stdio.h>
    int main(void) { return puts("hello") < 0; }"#;

#[test]
fn flags_of_the_dynamic_section() {
    let Some(bench) = bench_with("int f(void) { return 1; }") else {
        return;
    };
    for (keyword, flags_1, reference_knows) in [
        ("global", 0x2u64, true),
        ("initfirst", 0x20, true),
        ("interpose", 0x400, true),
        ("nodelete", 0x8, true),
        ("nodlopen", 0x40, true),
        ("nodump", 0x1000, true),
        ("nodefaultlib", 0x800, true),
        ("origin", 0x80, true),
        ("now", 0x1, true),
        ("loadfltr", 0x10, true),
        ("globalaudit", 0x0100_0000, true),
    ] {
        for linker in BOTH {
            if linker == Linker::Reference && !reference_knows {
                continue;
            }
            let image = link(&bench, linker, &format!("-shared -fPIC -Wl,-z,{keyword}"));
            let found = tag(&Elf::parse(&image).unwrap(), DT_FLAGS_1).unwrap_or(0);
            assert_eq!(found & flags_1, flags_1, "{keyword} by {linker:?}");
        }
        let image = link(&bench, Linker::Ours, "-shared -fPIC");
        let found = tag(&Elf::parse(&image).unwrap(), DT_FLAGS_1).unwrap_or(0);
        assert_eq!(found & flags_1, 0, "{keyword} is not the default");
    }
    let image = link(&bench, Linker::Ours, "-shared -fPIC -Wl,-z,unique");
    assert_eq!(tag(&Elf::parse(&image).unwrap(), 0x6fff_fdf4), Some(1));
}

#[test]
fn a_program_without_section_headers_runs() {
    let Some(bench) = bench_with(HELLO) else {
        return;
    };
    let script = |kind: &str| {
        let run = bench.driver(
            Linker::Ours,
            "gcc",
            &format!("{kind} -Wl,--verbose a.c -o none"),
        );
        let script = run
            .ok()
            .text()
            .split(&"=".repeat(50))
            .nth(1)
            .unwrap()
            .to_owned();
        bench.scratch.write("script.ld", &script);
        format!("{kind} -Wl,-T,script.ld")
    };
    let kinds = ["-pie", "-no-pie", "-static"];
    for kind in kinds
        .map(str::to_owned)
        .into_iter()
        .chain(kinds.map(script))
    {
        let image = link(
            &bench,
            Linker::Ours,
            &format!("-g {kind} -Wl,-z,nosectionheader"),
        );
        let elf = Elf::parse(&image).unwrap();
        assert_eq!(
            (
                elf.header.e_shoff,
                elf.header.e_shnum,
                elf.header.e_shstrndx,
                elf.header.e_shentsize
            ),
            (0, 0, 0, 0)
        );
        assert_eq!(bench.execute("program").ok().text(), "hello\n", "{kind}");
        // Nothing is left that nobody could find.
        let loads = elf
            .program_headers
            .iter()
            .filter(|p| p.p_type == program_header::PT_LOAD);
        let end = loads.map(|p| p.p_offset + p.p_filesz).max().unwrap();
        // But for padding: .bss begins where its alignment allows.
        assert!(image.len() as u64 <= end.next_multiple_of(64), "{kind}");
    }
}

#[test]
fn the_stack_segment() {
    let Some(bench) = bench_with(HELLO) else {
        return;
    };
    let stack = |image: &[u8]| {
        let elf = Elf::parse(image).unwrap();
        let found = elf
            .program_headers
            .iter()
            .find(|p| p.p_type == program_header::PT_GNU_STACK);
        found.map(|p| (p.p_flags, p.p_memsz))
    };
    for linker in BOTH {
        for (options, expected) in [
            ("", (6, 0)),
            ("-Wl,-z,execstack", (7, 0)),
            ("-Wl,-z,noexecstack", (6, 0)),
            ("-Wl,-z,stack-size=0x20000", (6, 0x20000)),
        ] {
            assert_eq!(
                stack(&link(&bench, linker, options)),
                Some(expected),
                "{options} by {linker:?}"
            );
        }
    }
    let image = link(&bench, Linker::Ours, "-Wl,-z,nognustack");
    check_image(&image);
    assert_eq!(stack(&image), None);
}

#[test]
fn code_and_data_share_pages_only_where_they_may() {
    let Some(bench) = bench_with(HELLO) else {
        return;
    };
    for (keyword, separate) in [
        ("separate-code", true),
        ("noseparate-code", false),
        ("separate-loadable-segments", true),
    ] {
        let image = link(&bench, Linker::Ours, &format!("-Wl,-z,{keyword}"));
        check_image(&image);
        assert_eq!(bench.execute("program").ok().text(), "hello\n");
        let elf = Elf::parse(&image).unwrap();
        let loads: Vec<_> = elf
            .program_headers
            .iter()
            .filter(|p| p.p_type == program_header::PT_LOAD)
            .collect();
        let page = |offset: u64| offset / 0x1000;
        for (i, code) in loads.iter().enumerate().filter(|(_, p)| p.p_flags & 1 != 0) {
            let before = loads
                .get(i.wrapping_sub(1))
                .is_none_or(|p| page(p.p_offset + p.p_filesz - 1) < page(code.p_offset));
            let after = loads
                .get(i + 1)
                .is_none_or(|p| page(code.p_offset + code.p_filesz - 1) < page(p.p_offset));
            assert_eq!(before && after, separate, "{keyword}");
        }
        if keyword == "separate-loadable-segments" {
            for pair in loads.windows(2) {
                assert!(
                    page(pair[0].p_offset + pair[0].p_filesz.max(1) - 1) < page(pair[1].p_offset)
                );
            }
        }
    }
}

#[test]
fn a_dynamic_section_that_is_not_written_to() {
    let Some(bench) = bench_with(HELLO) else {
        return;
    };
    for (options, flags, debug) in [("", 3, true), ("-Wl,-z,rodynamic", 2, false)] {
        let image = link(&bench, Linker::Ours, options);
        check_image(&image);
        let elf = Elf::parse(&image).unwrap();
        let section = elf
            .section_headers
            .iter()
            .find(|s| elf.shdr_strtab.get_at(s.sh_name) == Some(".dynamic"))
            .unwrap();
        assert_eq!(section.sh_flags, flags, "{options}");
        assert_eq!(tag(&elf, DT_DEBUG).is_some(), debug, "{options}");
    }
}

/// The value of a property of x86's, from the bytes of the section.
fn property(image: &[u8], wanted: u32) -> Option<u32> {
    let elf = Elf::parse(image).unwrap();
    let section = elf
        .section_headers
        .iter()
        .find(|s| elf.shdr_strtab.get_at(s.sh_name) == Some(".note.gnu.property"))?;
    let bytes = &image[section.sh_offset as usize..][..section.sh_size as usize];
    let words: Vec<u32> = bytes[16..]
        .chunks_exact(4)
        .map(|w| u32::from_le_bytes(w.try_into().unwrap()))
        .collect();
    words
        .chunks(4)
        .find(|property| property[0] == wanted)
        .map(|property| property[2])
}

#[test]
fn properties_of_the_processor() {
    let Some(bench) = bench_with(HELLO) else {
        return;
    };
    const FEATURE_1_AND: u32 = 0xc000_0002;
    const ISA_1_NEEDED: u32 = 0xc000_8002;
    for (keyword, number, bits) in [
        ("ibt", FEATURE_1_AND, 1),
        ("shstk", FEATURE_1_AND, 2),
        ("lam-u48", FEATURE_1_AND, 12),
        ("lam-u57", FEATURE_1_AND, 8),
        ("x86-64-v3", ISA_1_NEEDED, 4),
    ] {
        for linker in BOTH {
            let image = link(&bench, linker, &format!("-Wl,-z,{keyword}"));
            let value = property(&image, number).unwrap_or(0);
            assert_eq!(value & bits, bits, "{keyword} by {linker:?}");
        }
    }
    let image = link(&bench, Linker::Ours, "-Wl,-z,force-ibt");
    assert_eq!(property(&image, FEATURE_1_AND).unwrap_or(0) & 1, 1);
}

#[test]
fn what_lacks_a_property_is_named() {
    let Some(bench) = bench_with(HELLO) else {
        return;
    };
    bench
        .driver(
            Linker::Reference,
            "gcc",
            "-c a.c -o without.o -fcf-protection=none",
        )
        .ok();
    bench
        .driver(
            Linker::Reference,
            "gcc",
            "-c a.c -o with.o -fcf-protection=full",
        )
        .ok();
    let report = |input: &str, option: &str| -> Run {
        bench.driver(
            Linker::Ours,
            "gcc",
            &format!("{input} -nostdlib -shared -o x.so -Wl,-z,{option}"),
        )
    };
    let missing = "without.o: missing IBT and SHSTK properties";
    let run = report("without.o", "cet-report=warning").ok();
    assert!(
        run.errors().contains(&format!("warning: {missing}")),
        "{}",
        run.report()
    );
    let run = report("without.o", "cet-report=error").failed();
    assert!(
        run.errors().contains(&format!("error: {missing}")),
        "{}",
        run.report()
    );
    for quiet in ["cet-report=none", "ibt"] {
        assert_eq!(report("without.o", quiet).ok().errors(), "");
    }
    assert_eq!(report("with.o", "cet-report=error").ok().errors(), "");
    assert!(
        report("without.o", "force-ibt")
            .ok()
            .errors()
            .contains("-z force-ibt: file does not have")
    );
    assert!(
        report("with.o", "lam-report=warning")
            .ok()
            .errors()
            .contains("GNU_PROPERTY_X86_FEATURE_1_LAM_U57")
    );
    assert!(
        report("with.o", "cet-report=loud")
            .failed()
            .errors()
            .contains("none, warning or error")
    );
}

#[test]
fn relative_relocations_are_reported() {
    let Some(bench) = bench_with(
        "static int x; int y = 2; int *p = &x; __attribute__((visibility(\"hidden\"))) extern int y; int *q = &y;",
    ) else {
        return;
    };
    for more in ["", ",-z,pack-relative-relocs"] {
        let line = format!(
            "a.c -fPIC -fdata-sections -nostdlib -shared -o x.so -Wl,-z,report-relative-reloc{more}"
        );
        let said = bench.driver(Linker::Ours, "gcc", &line).ok().errors();
        assert_eq!(said.lines().count(), 2, "{said}");
        assert!(
            said.contains("R_X86_64_RELATIVE against 'y'")
                && said.contains("against a local symbol"),
            "{said}"
        );
        assert!(said.contains(".o:(.data.rel"), "{said}");
    }
}

#[test]
fn marked_code_keeps_its_sections() {
    let Some(bench) = bench_with(
        "__attribute__((hot)) int hot(void) { return 1; } __attribute__((cold)) int cold(void) { return 2; }
         __attribute__((constructor)) void start(void) {} int main(void) { return hot() + cold() - 3; }",
    ) else {
        return;
    };
    for (options, kept) in [
        ("", false),
        ("-Wl,-z,keep-text-section-prefix", true),
        ("-Wl,-z,nokeep-text-section-prefix", false),
    ] {
        let image = link(
            &bench,
            Linker::Ours,
            &format!("-O2 -fno-ipa-pure-const -fno-inline -ffunction-sections {options}"),
        );
        check_image(&image);
        bench.execute("program").code(0);
        let elf = Elf::parse(&image).unwrap();
        let has = |name: &str| {
            elf.section_headers
                .iter()
                .any(|s| elf.shdr_strtab.get_at(s.sh_name) == Some(name))
        };
        assert!(has(".text"));
        for name in [".text.unlikely", ".text.startup"] {
            assert_eq!(has(name), kept, "{name} with {options:?}");
        }
    }
}

#[test]
fn visibility_of_section_bounds() {
    let Some(bench) = bench_with(
        "__attribute__((section(\"list\"))) int item = 1; extern int __start_list[], __stop_list[];
         int *bounds[2] = { __start_list, __stop_list };",
    ) else {
        return;
    };
    for (value, visibility) in [
        ("default", Some(0)),
        ("protected", Some(3)),
        ("hidden", None),
        ("internal", None),
    ] {
        let image = link(
            &bench,
            Linker::Ours,
            &format!("-shared -fPIC -Wl,-z,start-stop-visibility={value}"),
        );
        let elf = Elf::parse(&image).unwrap();
        let symbol = elf
            .dynsyms
            .iter()
            .find(|s| elf.dynstrtab.get_at(s.st_name) == Some("__start_list"));
        assert_eq!(symbol.map(|s| s.st_other & 3), visibility, "{value}");
    }
}

/// What is between the bounds of a section may go with `--gc-sections` only, also from tickets, of which nothing is linked that nobody refers to.
#[test]
fn what_is_between_section_bounds_stays_without_garbage_collection() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "item.c",
        "__attribute__((section(\"list\"), used)) static int item = 8; int other(void) { return 1; }",
    );
    bench.scratch.write(
        "main.c",
        "int other(void); extern int __start_list[] __attribute__((weak)), __stop_list[] __attribute__((weak));
         int main(void) { return __stop_list - __start_list + other(); }",
    );
    let program = Binaries::get().path("repo-cc");
    for tickets in [false, true] {
        for name in ["item", "main"] {
            let mut compile = match tickets {
                true => bench.scratch.command(program),
                false => bench.scratch.command("gcc"),
            };
            compile.args(tickets.then_some("gcc"));
            let (source, object) = (format!("{name}.c"), format!("{name}.o"));
            run(compile.args(["-O2", "-c", &source, "-o", &object])).ok();
        }
        for option in ["", "-Wl,-z,start-stop-gc"] {
            let words = format!("main.o item.o {option} -o program");
            bench.driver(Linker::Ours, "gcc", &words).ok();
            bench.execute("program").code(2);
        }
    }
}

#[test]
fn addresses_of_code_that_is_not_there() {
    let Some(bench) = bench_with("int unused(void) { return 1; } int main(void) { return 0; }")
    else {
        return;
    };
    bench.scratch.write(
        "b.s",
        ".section .debug_mine,\"\",@progbits\n.quad gone\n.quad main\n\
         .section .text.gone,\"ax\",@progbits\ngone: nop\n.section .note.GNU-stack,\"\",@progbits\n",
    );
    for (option, expected) in [
        ("", 0u64),
        (
            "-Wl,-z,dead-reloc-in-nonalloc=.debug_*=0xfffffffffffffffe",
            u64::MAX - 1,
        ),
        ("-Wl,-z,dead-reloc-in-nonalloc=.other=5", 0),
    ] {
        let image = link(
            &bench,
            Linker::Ours,
            &format!("b.s -Wl,--gc-sections {option}"),
        );
        let elf = Elf::parse(&image).unwrap();
        let section = elf
            .section_headers
            .iter()
            .find(|s| elf.shdr_strtab.get_at(s.sh_name) == Some(".debug_mine"))
            .unwrap();
        let at = section.sh_offset as usize;
        let word = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
        assert_eq!(word(at), expected, "{option}");
        assert_ne!(word(at + 8), 0);
    }
}

#[test]
fn without_the_newer_tags_an_older_one_says_that_binding_is_not_lazy() {
    let Some(bench) =
        bench_with("extern int puts(const char *); int f(void) { return puts(\"\"); }")
    else {
        return;
    };
    const DT_BIND_NOW: u64 = 24;
    const DT_FLAGS: u64 = 30;
    for linker in BOTH {
        for (options, older, newer) in [
            ("-Wl,--disable-new-dtags,-z,now", true, false),
            ("-Wl,--enable-new-dtags,-z,now", false, true),
            ("-Wl,--disable-new-dtags,-z,lazy", false, false),
        ] {
            let image = link(&bench, linker, &format!("-shared -fPIC {options}"));
            let elf = Elf::parse(&image).unwrap();
            assert_eq!(
                tag(&elf, DT_BIND_NOW).is_some(),
                older,
                "{options} by {linker:?}"
            );
            assert_eq!(
                tag(&elf, DT_FLAGS).is_some(),
                newer,
                "{options} by {linker:?}"
            );
        }
    }
}

/// Without copies, a word of read-only data that is the address of something in a shared object can only be filled in by
/// the dynamic linker.
#[test]
fn without_copies_read_only_words_become_text_relocations() {
    const PROGRAM: &str = r#"
        __asm__(".section .rodata\n.balign 8\n.globl where\nwhere: .quad shared_data\n.text");
        extern int *const where;
        int main(void) { return *where != 42; }"#;
    let Some(bench) = bench_with(PROGRAM) else {
        return;
    };
    bench.scratch.write("lib.c", "int shared_data = 42;");
    bench
        .driver(
            Linker::Reference,
            "gcc",
            "-shared -fPIC lib.c -o libdata.so",
        )
        .ok();
    for linker in BOTH {
        let linked = bench
            .driver(
                linker,
                "gcc",
                "-no-pie -fno-pie a.c -Wl,-z,nocopyreloc -Wl,--warn-textrel -L. -ldata -o program",
            )
            .ok();
        assert!(
            linked.errors().contains("in read-only section `.rodata'"),
            "{}",
            linked.report()
        );
        assert!(
            tag(&Elf::parse(&bench.read("program")).unwrap(), 22).is_some(),
            "DT_TEXTREL"
        );
        bench.execute("program").ok();
    }
    let arguments = "-no-pie -fno-pie a.c -Wl,-z,nocopyreloc -Wl,-z,text -L. -ldata -o program";
    let refused = bench.driver(Linker::Ours, "gcc", arguments).failed();
    assert!(
        refused.errors().contains("would need a copy relocation"),
        "{}",
        refused.report()
    );
}

/// The headers make room for what an option puts at the usual beginning of the image.
#[test]
fn text_at_the_usual_beginning() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "start.c",
        "static int value = 7; void f(void) { } void _start(void) {
             __asm__ volatile(\"syscall\" : : \"a\"(60), \"D\"(value)); }",
    );
    let compiled = "-O1 -fno-pic -c start.c";
    bench.driver(Linker::Reference, "gcc", compiled).ok();
    for address in [
        "0x400000", "0x400078", "0x400120", "0x400800", "0x3ff800", "0x401000", "0x500000",
    ] {
        for linker in BOTH {
            let arguments = format!("-Ttext={address} start.o -o output");
            bench.ld(linker, &arguments).ok();
            let run = bench.execute("output");
            assert_eq!(run.status.code(), Some(7), "{linker:?}: {address}");
        }
        check_image(&bench.read("output"));
    }
}
