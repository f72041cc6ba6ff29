//! Details of outputs and of messages in which GNU ld and lld agree, or in which one of them does what a program may rely on:
//! each is a difference that was found by comparing the three, and is held here from then on.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::{Elf, program_header, sym};
use linking::{BOTH, Bench, Linker, tag};
use repo_tests::process::{Run, run};
use repo_tests::require;
use repo_tests::tools;

const STACK: &str = ".section .note.GNU-stack,\"\",@progbits\n";

/// A bench with assembled sources, whose stacks are not executable.
fn bench(sources: &[(&str, &str)]) -> Option<Bench> {
    let bench = Bench::new()?;
    for (name, text) in sources {
        bench.assemble(name, format!("{text}\n{STACK}"));
    }
    Some(bench)
}

const START: &str = ".globl _start\n.text\n_start: ret\n";
const FUNCTION: &str = ".globl f\n.type f,@function\nf: ret\n";
const DATA: &str = ".globl y\n.data\ny: .quad 3\n";

/// Links with `repo-ld` to `made`, and reads it.
fn ours(bench: &Bench, line: &str) -> Vec<u8> {
    bench.ld(Linker::Ours, &format!("{line} -o made")).ok();
    bench.read("made")
}

/// The error messages of a link that must fail, with all of these in them.
#[track_caller]
fn refused(bench: &Bench, line: &str, said: &[&str]) {
    let run: Run = bench.ld(Linker::Ours, &format!("{line} -o refused"));
    assert!(!run.status.success(), "{line}: {}", run.report());
    let errors = run.errors();
    for text in said {
        assert!(errors.contains(text), "{line}: no {text:?} in\n{errors}");
    }
    assert!(!bench.path("refused").exists(), "{line}");
}

/// Names of sections.
fn sections(image: &[u8]) -> Vec<String> {
    let elf = Elf::parse(image).unwrap();
    let headers = elf.section_headers.iter();
    headers
        .map(|header| elf.shdr_strtab.get_at(header.sh_name).unwrap().to_owned())
        .collect()
}

/// Address and bytes of a section.
fn section(image: &[u8], name: &str) -> Option<(u64, Vec<u8>)> {
    let elf = Elf::parse(image).unwrap();
    let mut headers = elf.section_headers.iter();
    let header = headers.find(|header| elf.shdr_strtab.get_at(header.sh_name) == Some(name))?;
    let bytes = header.file_range().map(|range| image[range].to_vec());
    Some((header.sh_addr, bytes.unwrap_or_default()))
}

/// A symbol of `.symtab`.
fn symbol(image: &[u8], name: &str) -> Option<sym::Sym> {
    let elf = Elf::parse(image).unwrap();
    elf.syms
        .iter()
        .find(|symbol| elf.strtab.get_at(symbol.st_name) == Some(name))
}

#[test]
fn the_symbol_table_names_the_dynamic_section() {
    let Some(bench) = bench(&[("a", START), ("f", FUNCTION)]) else {
        return;
    };
    bench.ld(Linker::Ours, "-shared f.o -o libf.so").ok();
    for line in [
        "-shared f.o",
        "-pie a.o",
        "a.o libf.so",
        "-static -pie --no-dynamic-linker a.o",
    ] {
        for linker in BOTH {
            bench.ld(linker, &format!("{line} -o made")).ok();
            let image = bench.read("made");
            let elf = Elf::parse(&image).unwrap();
            let segment = elf.program_headers.iter();
            let segment = segment
                .clone()
                .find(|p| p.p_type == program_header::PT_DYNAMIC);
            let symbol = symbol(&image, "_DYNAMIC").expect(line);
            assert_eq!(
                symbol.st_value,
                segment.unwrap().p_vaddr,
                "{line} {linker:?}"
            );
            assert_eq!(symbol.st_bind(), sym::STB_LOCAL, "{line} {linker:?}");
        }
        let exported = Elf::parse(&ours(&bench, line))
            .unwrap()
            .dynsyms
            .iter()
            .count();
        let without = ours(&bench, &format!("{line} -s"));
        assert_eq!(
            Elf::parse(&without).unwrap().dynsyms.iter().count(),
            exported,
            "{line}"
        );
    }
    // What has no dynamic section has no such symbol.
    for line in ["a.o", "-static a.o", "-r a.o"] {
        assert!(symbol(&ours(&bench, line), "_DYNAMIC").is_none(), "{line}");
    }
}

#[test]
fn without_code_there_is_no_start() {
    let Some(bench) = bench(&[("d", DATA), ("f", FUNCTION)]) else {
        return;
    };
    bench
        .scratch
        .write("data.ld", "SECTIONS { .data : { *(.data) } }");
    for line in [
        "d.o",
        "-pie d.o",
        "-T data.ld d.o",
        "--gc-sections -u y d.o",
    ] {
        let run = bench.ld(Linker::Ours, &format!("{line} -o made")).ok();
        assert_eq!(Elf::parse(&bench.read("made")).unwrap().entry, 0, "{line}");
        let said = "cannot find entry symbol _start; not setting start address";
        assert!(run.errors().contains(said), "{line}: {}", run.errors());
    }
    let run = bench.ld(Linker::Ours, "-e nothing f.o -o made").ok();
    assert!(
        run.errors()
            .contains("cannot find entry symbol nothing; defaulting to 0x")
    );
    let image = bench.read("made");
    assert_eq!(
        Elf::parse(&image).unwrap().entry,
        section(&image, ".text").unwrap().0
    );
    // A shared object has one only if it is asked for.
    for linker in BOTH {
        let silent = bench.ld(linker, "-shared f.o -o made").ok();
        assert_eq!(silent.errors(), "");
        let asked = bench.ld(linker, "-shared -e nothing f.o -o made").ok();
        let said = "cannot find entry symbol nothing; not setting start address";
        assert!(asked.errors().contains(said), "{}", asked.errors());
    }
}

#[test]
fn the_build_id_of_an_input_is_not_the_outputs() {
    let note = format!(
        "{START}.section .note.gnu.build-id,\"a\",@note\n.long 4, 4, 3\n.asciz \"GNU\"\n.long 0x01020304\n"
    );
    let Some(bench) = bench(&[("a", &note)]) else {
        return;
    };
    for (name, text) in [
        (
            "own",
            ".text : { *(.text) } .note.gnu.build-id : { *(.note.gnu.build-id) }",
        ),
        ("orphan", ".text : { *(.text) }"),
        ("notes", ".text : { *(.text) } .notes : { *(.note*) }"),
    ] {
        bench
            .scratch
            .write(format!("{name}.ld"), format!("SECTIONS {{ {text} }}"));
    }
    for script in ["", "-T own.ld", "-T orphan.ld", "-T notes.ld"] {
        for (option, wanted) in [("", 0), ("--build-id", 36)] {
            let found = BOTH.map(|linker| {
                bench
                    .ld(linker, &format!("{option} {script} a.o -o made"))
                    .ok();
                let image = bench.read("made");
                let bytes = [".note.gnu.build-id", ".notes"].map(|name| section(&image, name));
                bytes
                    .into_iter()
                    .flatten()
                    .map(|(_, bytes)| bytes.len())
                    .sum::<usize>()
            });
            assert_eq!(found, [wanted; 2], "{option} {script}");
        }
    }
    // With `-r` it is not decided yet which file it will be.
    assert!(section(&ours(&bench, "-r a.o"), ".note.gnu.build-id").is_some());
}

#[test]
fn byte_order_options_choose_among_a_scripts_formats() {
    let Some(bench) = bench(&[("a", START)]) else {
        return;
    };
    let script = |formats: &str| {
        let text = format!("OUTPUT_FORMAT({formats}) SECTIONS {{ .text : {{ *(.text) }} }}");
        bench.scratch.write("s.ld", text);
    };
    let known = r#""elf64-x86-64", "elf64-x86-64", "elf64-x86-64""#;
    script(known);
    for option in ["", "-EL", "-EB"] {
        ours(&bench, &format!("{option} -T s.ld a.o"));
    }
    // Only the one that is chosen counts.
    for (formats, option, unknown) in [
        (
            r#""nothing", "elf64-x86-64", "elf64-x86-64""#,
            "",
            "nothing",
        ),
        (
            r#""elf64-x86-64", "elf64-big", "elf64-x86-64""#,
            "-EB",
            "elf64-big",
        ),
        (
            r#""elf64-x86-64", "elf64-x86-64", "elf32-x86-64""#,
            "-EL",
            "elf32-x86-64",
        ),
    ] {
        script(formats);
        for other in ["", "-EL", "-EB"] {
            let line = format!("{other} -T s.ld a.o");
            if other == option {
                let said = format!("OUTPUT_FORMAT({unknown}) is not supported");
                refused(&bench, &line, &[&said]);
            } else {
                ours(&bench, &line);
            }
        }
    }
    for line in ["-EB a.o", "-EB -r a.o"] {
        refused(&bench, line, &["option -EB is not supported"]);
    }
    ours(&bench, "-EL a.o");
    for text in [
        "OUTPUT_FORMAT(nothing)",
        "TARGET(nothing)",
        "OUTPUT_ARCH(nothing)",
    ] {
        bench.scratch.write("s.ld", text);
        refused(
            &bench,
            "-T s.ld a.o",
            &[&format!("{text} is not supported")],
        );
    }
}

#[test]
fn a_script_assigns_only_versions_that_there_are() {
    let Some(bench) = bench(&[("a", START), ("f", FUNCTION)]) else {
        return;
    };
    bench.scratch.write("v.map", "V1 { global: f; };");
    for (name, text) in [
        ("known", "\"g@V1\" = f;"),
        ("unknown", "\"g@V2\" = f;"),
        ("default", "\"g@@V1\" = f;"),
    ] {
        bench.scratch.write(format!("{name}.ld"), text);
    }
    let image = ours(&bench, "-shared f.o known.ld --version-script v.map");
    let exports = linking::versioned_exports(&image);
    assert!(
        exports.contains("g@V1") && exports.contains("f@@V1"),
        "{exports:?}"
    );
    let said = "version node not found for symbol g@V2";
    refused(
        &bench,
        "-shared f.o unknown.ld --version-script v.map",
        &["unknown.ld:1", said],
    );
    refused(&bench, "-shared f.o unknown.ld", &[said]);
    refused(&bench, "-shared f.o --defsym g@V2=f", &[said]);
    // It would have to be two names: rather none than one of them.
    let said = "cannot define the default version of a symbol";
    refused(
        &bench,
        "-shared f.o default.ld --version-script v.map",
        &[said],
    );
    // An executable needs no script for a version.
    let image = ours(&bench, "-pie -E a.o f.o unknown.ld");
    let exports = linking::versioned_exports(&image);
    assert!(exports.contains("g@V2"), "{exports:?}");
}

#[test]
fn script_symbols_depend_on_each_other_through_the_location_counter() {
    let Some(bench) = bench(&[("d", DATA), ("f", FUNCTION)]) else {
        return;
    };
    for (number, text) in [
        ". = 0x1000; .text : { *(.text) } p = q + 1; q = . + 0x10; . = q; r = p; .data : { *(.data) }",
        ". = s; .text : { *(.text) } e = .; s = 0x4000; .data : { *(.data) }",
        ". = 0x5000; .text : { *(.text) } a = b + 1; . = a + 0x100; b = 0x6000; .data : { *(.data) } b = b + 0x10;",
        ". = 0x5000; .text : { *(.text) } . = n + 0x200; .data : { *(.data) } m = ADDR(.text) + SIZEOF(.text); n = m - 0x100;",
    ]
    .into_iter()
    .enumerate()
    {
        bench.scratch.write("s.ld", format!("SECTIONS {{ {text} }}"));
        let [theirs, own] = BOTH.map(|linker| {
            bench.ld(linker, "-T s.ld -e f d.o f.o -o made").ok();
            let image = bench.read("made");
            let elf = Elf::parse(&image).unwrap();
            let mut found: Vec<(String, u64)> = elf
                .syms
                .iter()
                .map(|symbol| (elf.strtab.get_at(symbol.st_name).unwrap_or("").to_owned(), symbol.st_value))
                .filter(|(name, _)| name.len() == 1)
                .collect();
            found.sort();
            found
        });
        assert_eq!(theirs, own, "{number}: {text}");
        assert!(own.len() >= 4, "{own:?}");
    }
    // And what depends on itself has no value.
    let text = ". = 0x5000; .text : { *(.text) } . = v; u = .; v = u + 0x10; .data : { *(.data) }";
    bench
        .scratch
        .write("s.ld", format!("SECTIONS {{ {text} }}"));
    refused(&bench, "-T s.ld -e f d.o f.o", &["do not settle"]);
}

#[test]
fn fills_of_any_size() {
    let parts = format!(
        "{START}.section .a,\"a\"\n.byte 1\n.section .b,\"a\"\n.byte 2\n.section .c,\"a\"\n.byte 3\n"
    );
    let Some(bench) = bench(&[("a", &parts)]) else {
        return;
    };
    let fills = [
        "0x1234567890",
        "0x123456789abcdef0",
        "-1",
        "~0",
        "(1+1)",
        "0x90",
        "0x0090",
        "0x1122+0",
        "0x12345",
        "(0x1234567890)",
        "((0x90))",
        "(0x90)+1",
        "-0x1234567890",
        "0x1ffffffff + 0",
        "256",
        "5000000000",
        "0",
        "0x00",
    ];
    let own = fills.iter().map(|fill| (format!("={fill}"), String::new()));
    let inside = ["0x1234567890", "-1", "0x90", "0x12345", "1+1", "(0x1234)"];
    let inside = inside.map(|fill| ("=0xee".to_owned(), format!("FILL({fill});")));
    let between = (
        "=0xee".to_owned(),
        "FILL(0x112233); *(.b) . += 8; FILL(-1); . += 6; FILL(0x44);".to_owned(),
    );
    for (whole, inner) in own.chain(inside).chain([between]) {
        let text = format!(
            "SECTIONS {{ . = 0x1000; .text : {{ *(.text) }} \
             .data : {{ *(.a) {inner} . = ALIGN(16); *(.b) . += 8; *(.c) . += 3; }} {whole} }}"
        );
        bench.scratch.write("s.ld", text);
        let [theirs, own] = BOTH.map(|linker| {
            bench.ld(linker, "-T s.ld a.o -o made").ok();
            section(&bench.read("made"), ".data").unwrap()
        });
        assert_eq!(theirs, own, "{whole} {inner}");
    }
}

/// Type, offset, address, sizes and flags of each program header.
type Headers = Vec<(u32, u64, u64, u64, u64, u32)>;

fn headers(image: &[u8]) -> Headers {
    let elf = Elf::parse(image).unwrap();
    let headers = elf.program_headers.iter();
    headers
        .map(|p| {
            (
                p.p_type, p.p_offset, p.p_vaddr, p.p_filesz, p.p_memsz, p.p_flags,
            )
        })
        .collect()
}

#[test]
fn headers_in_segments_of_a_script() {
    let Some(bench) = bench(&[("a", START), ("d", DATA)]) else {
        return;
    };
    let script = |phdrs: &str, sections: &str| {
        let text = format!("PHDRS {{ {phdrs} }} SECTIONS {{ {sections} }}");
        bench.scratch.write("s.ld", text);
    };
    let all = ". = 0x10000; .text : { *(.text) } :t .data : { *(.data) }";
    for (phdrs, sections) in [
        // In a segment that is not loaded, before and after those that are.
        ("h PT_NOTE FILEHDR PHDRS; t PT_LOAD;", all),
        ("h PT_NOTE FILEHDR PHDRS; t PT_LOAD FILEHDR PHDRS;", all),
        ("h PT_PHDR PHDRS; t PT_LOAD FILEHDR PHDRS;", all),
        // After a hole, and alone.
        ("t PT_LOAD FILEHDR PHDRS;", all),
        ("t PT_LOAD PHDRS;", all),
        ("h PT_LOAD FILEHDR PHDRS; t PT_LOAD;", all),
        ("e PT_NULL; t PT_LOAD;", all),
        (
            "t PT_LOAD FILEHDR PHDRS;",
            ". = 0x10000 + SIZEOF_HEADERS; .text : { *(.text) } :t .data : { *(.data) }",
        ),
    ] {
        script(phdrs, sections);
        let [theirs, own] = BOTH.map(|linker| {
            bench.ld(linker, "-T s.ld a.o d.o -o made").ok();
            headers(&bench.read("made"))
        });
        assert_eq!(theirs, own, "{phdrs}");
    }
    // Nothing is loaded: that is what the script says.
    script(
        "t PT_NOTE;",
        ". = 0x1000; .text : { *(.text) } :t .data : { *(.data) }",
    );
    let found = headers(&ours(&bench, "-T s.ld a.o d.o"));
    assert_eq!(
        found.iter().map(|header| header.0).collect::<Vec<_>>(),
        [program_header::PT_NOTE]
    );
    for (phdrs, sections, said) in [
        (
            "h PT_PHDR PHDRS; t PT_LOAD;",
            all,
            "PHDR segment not covered by LOAD segment",
        ),
        (
            "t PT_LOAD; d PT_LOAD FILEHDR PHDRS;",
            ". = 0x10000; .text : { *(.text) } :t .data : { *(.data) } :d",
            "PHDRS and FILEHDR are not supported when prior PT_LOAD headers lack them",
        ),
        (
            "t PT_INTERP FILEHDR PHDRS;",
            all,
            "non-load segment `t' includes file header and/or program header",
        ),
    ] {
        script(phdrs, sections);
        refused(&bench, "-T s.ld a.o d.o", &["s.ld:1", said]);
        assert!(
            !bench
                .ld(Linker::Reference, "-T s.ld a.o d.o -o made")
                .status
                .success(),
            "{phdrs}"
        );
    }
}

#[test]
fn the_last_of_two_regions_of_one_name() {
    let Some(bench) = bench(&[("a", START), ("d", DATA)]) else {
        return;
    };
    let region = |origin: &str, length: &str| format!("r : ORIGIN = {origin}, LENGTH = {length}");
    let (one, other) = (region("0x1000", "2"), region("0x2000", "0x100"));
    let sections = "SECTIONS { .text : { *(.text) } >r .data : { *(.data) } >r }";
    bench
        .scratch
        .write("one.ld", format!("MEMORY {{ {one} }} {sections}"));
    bench
        .scratch
        .write("other.ld", format!("MEMORY {{ {other} }}"));
    bench
        .scratch
        .write("same.ld", format!("MEMORY {{ {one} {other} }} {sections}"));
    bench.scratch.write(
        "both.ld",
        format!("MEMORY {{ {one} }} MEMORY {{ {other} }} {sections}"),
    );
    for line in [
        "-T same.ld",
        "-T both.ld",
        "-T one.ld -T other.ld",
        "-T one.ld other.ld",
    ] {
        let [theirs, own] = BOTH.map(|linker| {
            let run = bench.ld(linker, &format!("{line} a.o d.o -o made")).ok();
            let errors = run.errors();
            assert!(
                errors.contains("redeclaration of memory region `r'"),
                "{line}: {errors}"
            );
            let image = bench.read("made");
            [".text", ".data"].map(|name| section(&image, name).unwrap().0)
        });
        assert_eq!(theirs, own, "{line}");
        assert_eq!(own[0], 0x2000, "{line}");
    }
}

const MANY: &str = r#"
.globl _start
.text
_start: ret
.section custom,"aw"
.quad 1
.section other,"a"
.quad 2
.section notalloc,""
.quad 3
.section .data.z,"aw"
.byte 1
.section .data.b,"aw"
.p2align 4
.byte 2
.section .data.a,"aw"
.p2align 3
.byte 3
.section .rodata.z,"a"
.byte 4
.section .rodata.a,"a"
.p2align 3
.byte 5
.section .text.z,"ax"
.byte 0x90
.section .text.a,"ax"
.p2align 3
.byte 0x91
.section .bss.b,"aw",@nobits
.skip 1
"#;

#[test]
fn orphans_of_the_default_layout() {
    let Some(bench) = bench(&[("a", MANY)]) else {
        return;
    };
    let orphans = ["custom", "notalloc", "other"];
    for linker in BOTH {
        let run = bench.ld(linker, "--orphan-handling=warn a.o -o made").ok();
        for name in orphans {
            let said =
                format!("orphan section `{name}' from `a.o' being placed in section `{name}'");
            assert!(run.errors().contains(&said), "{linker:?}: {}", run.errors());
        }
        assert_eq!(
            run.errors().matches("orphan").count(),
            3,
            "{}",
            run.errors()
        );
        let discarded = bench
            .ld(linker, "--orphan-handling=discard a.o -o made")
            .ok();
        assert_eq!(discarded.errors(), "");
        let left = sections(&bench.read("made"));
        assert!(
            orphans
                .iter()
                .all(|name| !left.iter().any(|left| left == name)),
            "{left:?}"
        );
    }
    let said = orphans.map(|name| format!("unplaced orphan section `{name}' from `a.o'"));
    refused(
        &bench,
        "--orphan-handling=error a.o",
        &said.each_ref().map(String::as_str),
    );
    // What there is in any program is no orphan.
    bench.scratch.write(
        "m.c",
        "#include <stdio.h>\n__thread int t; int main(void) { return puts(\"ran\") + t < 0; }",
    );
    for kind in ["-pie", "-no-pie"] {
        let line = format!("{kind} -g -O1 m.c -Wl,--orphan-handling=error -o program");
        bench.driver(Linker::Ours, "gcc", &line).ok();
        assert_eq!(bench.execute("program").ok().text(), "ran\n");
    }
}

#[test]
fn sorted_sections_of_the_default_layout() {
    let Some(bench) = bench(&[("a", MANY)]) else {
        return;
    };
    for how in ["name", "alignment"] {
        let [theirs, own] = BOTH.map(|linker| {
            bench
                .ld(linker, &format!("--sort-section={how} a.o -o made"))
                .ok();
            let image = bench.read("made");
            [".data", ".rodata"].map(|name| section(&image, name).unwrap().1)
        });
        assert_eq!(theirs, own, "{how}");
    }
}

#[test]
fn pages_do_not_matter_with_n() {
    let Some(bench) = bench(&[("a", MANY)]) else {
        return;
    };
    for (option, most) in [("-n", 16), ("-N", 16)] {
        let image = ours(&bench, &format!("{option} a.o"));
        let elf = Elf::parse(&image).unwrap();
        let loads = elf.program_headers.iter();
        for load in loads.filter(|p| p.p_type == program_header::PT_LOAD) {
            assert!(load.p_align <= most, "{option}: {load:?}");
            // The kernel maps pages all the same.
            assert_eq!(load.p_vaddr % 0x1000, load.p_offset % 0x1000, "{option}");
        }
        assert!(image.len() < 0x1000, "{option}: {}", image.len());
    }
    bench.scratch.write(
        "m.c",
        "#include <stdio.h>\nint main(void) { return puts(\"ran\") < 0; }",
    );
    for option in ["-n", "-N"] {
        let line = format!("-static m.c -Wl,{option} -Wl,-w -o program");
        bench.driver(Linker::Ours, "gcc", &line).ok();
        assert_eq!(bench.execute("program").ok().text(), "ran\n");
    }
}

#[test]
fn addresses_that_options_give_to_later_sections() {
    let Some(bench) = bench(&[
        ("a", &format!("{START}.section .rodata,\"a\"\n.quad 1\n")),
        ("d", DATA),
    ]) else {
        return;
    };
    for (option, name, address) in [
        ("-Tdata=0x300000", ".data", 0x30_0000),
        ("-Tdata=0x400500", ".data", 0x40_0500),
        ("-Ttext=0x300000", ".text", 0x30_0000),
        ("-Ttext=0x600000 -Tdata=0x300000", ".data", 0x30_0000),
        ("--section-start=.rodata=0x200000", ".rodata", 0x20_0000),
    ] {
        let image = ours(&bench, &format!("{option} a.o d.o"));
        assert_eq!(section(&image, name).unwrap().0, address, "{option}");
        linking::check_image(&image);
    }
}

#[test]
fn the_image_starts_at_its_base() {
    let Some(bench) = bench(&[(
        "a",
        &format!("{START}.data\n.quad __executable_start, __ehdr_start\n"),
    )]) else {
        return;
    };
    let starts = |image: &[u8]| {
        ["__executable_start", "__ehdr_start"].map(|name| symbol(image, name).unwrap().st_value)
    };
    let lld = tools::find("ld.lld");
    for (option, base) in [
        ("--image-base=0x800000", 0x80_0000),
        ("--image-base=0x800000 -Ttext=0x900000", 0x80_0000),
        ("--image-base=0x800000 -Ttext=0x700000", 0x80_0000),
        ("-pie --image-base=0x1000000", 0x100_0000),
        ("-shared --image-base=0x1000000", 0x100_0000),
        ("-Ttext-segment=0x600000", 0x60_0000),
    ] {
        assert_eq!(
            starts(&ours(&bench, &format!("{option} a.o"))),
            [base; 2],
            "{option}"
        );
        let Some(lld) = lld.as_ref().filter(|_| option.contains("image-base")) else {
            continue;
        };
        let mut command = bench.scratch.command(lld);
        run(command
            .args(option.split_whitespace())
            .args(["a.o", "-o", "theirs"]))
        .ok();
        assert_eq!(starts(&bench.read("theirs")), [base; 2], "{option}");
    }
}

#[test]
fn missing_protection_is_told_once() {
    let Some(bench) = bench(&[("a", START)]) else {
        return;
    };
    bench.scratch.write("q.c", "int q(void) { return 1; }");
    bench.scratch.write("p.c", "int p(void) { return 1; }");
    for (name, how) in [("q", "full"), ("p", "branch")] {
        let line = format!("-fcf-protection={how} -c {name}.c -o {name}.o");
        bench.driver(Linker::Reference, "gcc", &line).ok();
    }
    let missing = |errors: &str| {
        let lines = errors.lines().filter(|line| line.contains("missing"));
        let words = lines.map(|line| {
            let (file, what) = line.split_once("missing").unwrap();
            let file = ["a.o", "p.o", "q.o"]
                .into_iter()
                .find(|name| file.contains(name));
            format!("{file:?} {what}")
        });
        words.collect::<Vec<_>>()
    };
    for options in ["", "-z ibt", "-z shstk", "-z ibt -z shstk"] {
        let line = format!("a.o q.o p.o {options} -z cet-report=warning -o made");
        let [theirs, own] = BOTH.map(|linker| missing(&bench.ld(linker, &line).ok().errors()));
        assert_eq!(theirs, own, "{options}");
    }
    refused(
        &bench,
        "a.o q.o p.o -z cet-report=error",
        &["error: a.o: missing IBT and SHSTK"],
    );
}

#[test]
fn executable_stacks_are_told_of() {
    let executable = ".globl e\ne: ret\n.section .note.GNU-stack,\"x\",@progbits\n";
    let Some(bench) = bench(&[("a", START)]) else {
        return;
    };
    bench.assemble("e", executable);
    for line in [
        "a.o",
        "a.o e.o",
        "a.o -z execstack",
        "a.o -z execstack --warn-execstack",
        "a.o e.o -z noexecstack",
        "a.o e.o --no-warn-execstack",
        "a.o -z execstack --no-warn-execstack",
        "-shared e.o",
    ] {
        let [theirs, own] = BOTH.map(|linker| {
            let run = bench.ld(linker, &format!("{line} -o made")).ok();
            let text = run.errors();
            let warnings: Vec<_> = text
                .lines()
                .filter_map(|line| {
                    line.split_once("warning: ")
                        .map(|(_, said)| said.to_owned())
                })
                .collect();
            let image = bench.read("made");
            let elf = Elf::parse(&image).unwrap();
            let stack = elf.program_headers.iter();
            let stack = stack
                .clone()
                .find(|p| p.p_type == program_header::PT_GNU_STACK);
            (warnings, stack.unwrap().p_flags)
        });
        assert_eq!(theirs, own, "{line}");
    }
    refused(
        &bench,
        "a.o e.o --error-execstack",
        &["error: e.o: requires executable stack"],
    );
}

#[test]
fn a_static_pie_that_is_not_to_be_relaxed_starts() {
    let Some(bench) = Bench::new() else { return };
    let text = "#include <stdio.h>\nstatic int x; int *p = &x; __thread int t = 4;
        int main(void) { printf(\"%d %d\\n\", *p, t); return 0; }";
    bench.scratch.write("m.c", text);
    for options in ["-fPIE", "-fPIE -fno-plt", "-fPIC -O0"] {
        let line = format!("{options} -static-pie m.c -Wl,--no-relax -o program");
        bench.driver(Linker::Ours, "gcc", &line).ok();
        assert_eq!(bench.execute("program").ok().text(), "0 4\n", "{options}");
    }
}

#[test]
fn nothing_to_pack_is_no_table() {
    let Some(bench) = bench(&[("a", START), ("f", FUNCTION)]) else {
        return;
    };
    let [lld] = require!("ld.lld");
    const DT_RELR: u64 = 36;
    for line in ["-shared f.o", "-pie a.o", "a.o"] {
        let line = format!("{line} -z pack-relative-relocs -o made");
        let mut command = bench.scratch.command(&lld);
        run(command.args(line.split_whitespace())).ok();
        let theirs = bench.read("made");
        bench.ld(Linker::Ours, &line).ok();
        let own = bench.read("made");
        for image in [theirs, own] {
            let elf = Elf::parse(&image).unwrap();
            assert_eq!(tag(&elf, DT_RELR), None, "{line}");
            assert!(
                !sections(&image).contains(&".relr.dyn".to_owned()),
                "{line}"
            );
        }
    }
}

#[test]
fn sizes_and_addresses_in_memory_that_is_read_only() {
    let read_only = |word: &str| format!("{START}.section .rodata,\"a\"\n{word}\n");
    let Some(bench) = bench(&[
        ("size", &read_only(".quad x@SIZE")),
        ("address", &read_only(".quad x")),
        (
            "x",
            ".globl x\n.data\n.type x,@object\n.size x,8\nx: .quad 1\n",
        ),
    ]) else {
        return;
    };
    for name in ["size", "address"] {
        for rest in ["-shared", "-shared x.o"] {
            let line = format!("{name}.o {rest}");
            let run = bench.ld(Linker::Ours, &format!("{line} -o made")).ok();
            let said = "relocation against symbol 'x' in read-only section `.rodata'";
            assert!(run.errors().contains(said), "{line}: {}", run.errors());
            assert!(run.errors().contains("creating DT_TEXTREL"), "{line}");
            assert!(
                tag(&Elf::parse(&bench.read("made")).unwrap(), 22).is_some(),
                "{line}"
            );
            let said = "relocation against symbol 'x' in a read-only section";
            refused(&bench, &format!("{line} -z text"), &[said]);
            let run = bench
                .ld(Linker::Ours, &format!("{line} -z notext -o made"))
                .ok();
            assert_eq!(run.errors(), "", "{line}");
        }
    }
    // The size of what is here is known, and no relocation at all.
    let image = ours(&bench, "-pie size.o x.o -z text");
    assert_eq!(section(&image, ".rodata").unwrap().1, 8u64.to_le_bytes());
}

#[test]
fn what_a_shared_object_lacks_whose_libraries_are_out_of_sight() {
    let Some(bench) = bench(&[
        ("deep", ".globl deep\ndeep: ret\n"),
        ("mid", ".globl mid\nmid: call deep@plt\ncall nowhere@plt\n"),
        ("top", ".globl _start\n_start: call mid@plt\n"),
    ]) else {
        return;
    };
    std::fs::create_dir(bench.path("sub")).unwrap();
    bench
        .ld(
            Linker::Reference,
            "-shared deep.o -soname libdeep.so -o sub/libdeep.so",
        )
        .ok();
    let line = "-shared mid.o -soname libmid.so sub/libdeep.so -o libmid.so";
    bench.ld(Linker::Reference, line).ok();
    let lacks = "undefined reference to `deep'";
    let nowhere = "undefined reference to `nowhere'";
    let not_found = "libdeep.so, needed by libmid.so, not found";
    for (line, wanted) in [
        ("top.o libmid.so", [true, true, true]),
        (
            "top.o libmid.so --no-allow-shlib-undefined",
            [true, true, true],
        ),
        (
            "top.o libmid.so -shared --no-allow-shlib-undefined",
            [true, true, true],
        ),
        ("top.o libmid.so -rpath-link sub", [false, true, false]),
        (
            "top.o libmid.so --no-allow-shlib-undefined sub/libdeep.so",
            [false, true, false],
        ),
        (
            "top.o libmid.so --allow-shlib-undefined",
            [false, false, false],
        ),
    ] {
        for linker in BOTH {
            let run = bench.ld(linker, &format!("{line} -o made"));
            let errors = run.errors();
            let found = [lacks, nowhere, not_found].map(|text| errors.contains(text));
            assert_eq!(found, wanted, "{line} {linker:?}: {errors}");
            assert_eq!(run.status.success(), !wanted[1], "{line} {linker:?}");
        }
    }
}
