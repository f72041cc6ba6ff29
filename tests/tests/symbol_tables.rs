//! What symbol tables say: sizes of common blocks, numbers that two files define, places in sections that
//! are empty, and marks in `.eh_frame`.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::sym::{STB_LOCAL, STV_PROTECTED};
use goblin::elf::{Elf, Sym};
use linking::{BOTH, Bench, Linker};
use repo_tests::tools;

/// Assembles and links `sources` with `options` to `program`, without the C library.
fn link(bench: &Bench, linker: Linker, sources: &str, options: &str) -> Vec<u8> {
    bench
        .driver(
            linker,
            "gcc",
            &format!("-nostdlib -nostartfiles {sources} {options} -o program"),
        )
        .ok();
    bench.read("program")
}

/// The symbol of a name in `.symtab`.
fn symbol(image: &[u8], name: &str) -> Option<Sym> {
    let elf = Elf::parse(image).expect("an independent reader understands it");
    elf.syms
        .iter()
        .find(|symbol| elf.strtab.get_at(symbol.st_name) == Some(name))
}

/// The name of the section that a symbol is in.
fn section_of(image: &[u8], symbol: &Sym) -> String {
    let elf = Elf::parse(image).expect("an independent reader understands it");
    let section = elf.section_headers.get(symbol.st_shndx);
    section
        .and_then(|section| elf.shdr_strtab.get_at(section.sh_name))
        .unwrap_or("")
        .to_owned()
}

#[test]
fn a_common_block_is_as_large_as_the_largest_that_a_file_wants() {
    let Some(bench) = Bench::new() else { return };
    let (scratch, start) = (&bench.scratch, "_start: ret");
    scratch.write(
        "small.s",
        format!(".globl _start\n{start}\n.comm block, 40, 8\n.comm same, 8, 8"),
    );
    scratch.write("large.s", ".comm block, 400, 32\n.comm same, 8, 8");
    for linker in BOTH {
        for options in ["-static -no-pie", "-shared"] {
            for sources in ["small.s large.s", "large.s small.s"] {
                let image = link(&bench, linker, sources, options);
                let block = symbol(&image, "block").expect("it is there");
                assert_eq!(block.st_size, 400, "{sources} {options} by {linker:?}");
                assert_eq!(block.st_value % 32, 0, "{sources} {options} by {linker:?}");
                assert_eq!(section_of(&image, &block), ".bss");
                assert_eq!(symbol(&image, "same").map(|same| same.st_size), Some(8));
            }
        }
        let image = link(&bench, linker, "small.s large.s", "-shared");
        let elf = Elf::parse(&image).unwrap();
        let dynamic = elf
            .dynsyms
            .iter()
            .find(|symbol| elf.dynstrtab.get_at(symbol.st_name) == Some("block"));
        assert_eq!(
            dynamic.map(|symbol| symbol.st_size),
            Some(400),
            "{linker:?}"
        );
    }
}

#[test]
fn two_files_may_define_the_same_number() {
    let Some(bench) = Bench::new() else { return };
    bench
        .scratch
        .write("a.s", ".globl _start, n\nn = 5\n_start: ret");
    bench.scratch.write("same.s", ".globl n\nn = 5");
    bench.scratch.write("other.s", ".globl n\nn = 6");
    for linker in BOTH {
        let image = link(&bench, linker, "a.s same.s", "-static -no-pie");
        assert_eq!(
            symbol(&image, "n").map(|n| n.st_value),
            Some(5),
            "{linker:?}"
        );
        let arguments = "-nostdlib a.s other.s -static -no-pie -o program";
        let refused = bench.driver(linker, "gcc", arguments).failed();
        assert!(
            refused.errors().contains("multiple definition of `n'"),
            "{}",
            refused.report()
        );
    }
}

#[test]
fn a_place_in_an_empty_section_is_no_plain_number() {
    let Some(bench) = Bench::new() else { return };
    bench
        .scratch
        .write("a.s", ".globl _start, d\n_start:\n.data\nd: .quad 1");
    for linker in BOTH {
        for options in ["-static -no-pie", "-shared"] {
            let image = link(&bench, linker, "a.s", options);
            let start = symbol(&image, "_start").expect("it is there");
            assert_ne!(start.st_shndx, 0xfff1, "{options} by {linker:?}");
            assert_ne!(start.st_shndx, 0, "{options} by {linker:?}");
        }
    }
}

#[test]
fn who_walks_the_frames_from_a_mark_before_them_all_sees_the_cie_first() {
    let Some(bench) = Bench::new() else { return };
    // The empty piece of .eh_frame before everything, as crtbegin's.
    bench.scratch.write(
        "mark.s",
        ".globl begin\n.section .eh_frame,\"a\",@progbits\n.balign 8\nbegin:",
    );
    bench.scratch.write(
        "code.s",
        ".globl _start\n_start: .cfi_startproc\nret\n.cfi_endproc\n\
         .globl other\nother: .cfi_startproc\nnop\nret\n.cfi_endproc",
    );
    for linker in BOTH {
        let image = link(&bench, linker, "mark.s code.s", "-static -no-pie");
        let begin = symbol(&image, "begin").expect("it is there");
        let elf = Elf::parse(&image).unwrap();
        let frames = elf
            .section_headers
            .iter()
            .find(|section| elf.shdr_strtab.get_at(section.sh_name) == Some(".eh_frame"))
            .expect("there are frames");
        assert_eq!(begin.st_value, frames.sh_addr, "{linker:?}");
        let word = |at: u64| {
            let at = at as usize;
            u32::from_le_bytes(image[at..at + 4].try_into().unwrap())
        };
        let at = frames.sh_offset + (begin.st_value - frames.sh_addr);
        assert_eq!(word(at + 4), 0, "a CIE by {linker:?}");
        let next = at + 4 + u64::from(word(at));
        assert_eq!(
            u64::from(word(next + 4)),
            next + 4 - at,
            "its FDE by {linker:?}"
        );
    }
}

/// clang says in a section of its own, with relocations as no other section for x86-64 has them (without addends), how often
/// functions were seen to call each other.
#[test]
fn counts_of_calls_are_no_obstacle() {
    let (Some(bench), Some([clang])) = (Bench::new(), tools::require(["clang"])) else {
        return;
    };
    let clang = clang.to_str().expect("a path of a tool is text");
    bench.scratch.write(
        "a.s",
        ".globl main, f\n.text\nmain: call f\nxor %eax, %eax\nret\nf: ret\n.cg_profile main, f, 32\n\
         .section .note.GNU-stack,\"\",@progbits",
    );
    bench.driver(Linker::Reference, clang, "-c a.s -o a.o").ok();
    let object = bench.read("a.o");
    let elf = Elf::parse(&object).unwrap();
    assert!(
        elf.section_headers
            .iter()
            .any(|section| section.sh_type == 9),
        "the assembler does so"
    );
    let arguments = "-no-pie a.o -o program";
    bench.driver(Linker::Ours, "gcc", arguments).ok();
    bench.execute("program").ok();
    // Indices of symbols are others in a relocatable output, where the counts mean nothing any more.
    bench
        .driver(Linker::Ours, "gcc", "-r -nostdlib a.o -o united.o")
        .ok();
    bench
        .driver(Linker::Reference, "gcc", "-no-pie united.o -o program")
        .ok();
    bench.execute("program").ok();
}

/// `-z unique-symbol`: local symbols of one name can be told apart, in programs and in relocatable outputs.
#[test]
fn local_symbols_are_numbered() {
    let Some(bench) = Bench::new() else { return };
    for (name, global) in [("a", "main"), ("b", "other")] {
        bench.scratch.write(
            format!("{name}.s"),
            format!(
                ".file \"same.c\"\n.globl {global}\n.text\n{global}: call f\nret\nf: xor %eax, %eax\nret\n.data\nv: .quad f\n\
                 .section .note.GNU-stack,\"\",@progbits"
            ),
        );
        bench
            .driver(
                Linker::Reference,
                "gcc",
                &format!("-c {name}.s -o {name}.o"),
            )
            .ok();
    }
    for (options, expected) in [
        (
            "-no-pie",
            ["f.0", "f.1", "main", "other", "same.c", "v.0", "v.1"],
        ),
        (
            "-r -nostdlib",
            ["f.0", "f.1", "main", "other", "same.c", "v.0", "v.1"],
        ),
    ] {
        for linker in BOTH {
            let arguments = format!("{options} a.o b.o -Wl,-z,unique-symbol -o output");
            bench.driver(linker, "gcc", &arguments).ok();
            let image = bench.read("output");
            let elf = Elf::parse(&image).unwrap();
            let mut names: Vec<&str> = elf
                .syms
                .iter()
                .filter_map(|symbol| elf.strtab.get_at(symbol.st_name))
                .filter(|name| {
                    ["f", "v", "same", "main", "other"].contains(&name.split('.').next().unwrap())
                })
                .collect();
            names.sort();
            names.dedup();
            assert_eq!(names, expected, "{options} by {linker:?}");
            let value = |name| symbol(&image, name).map(|symbol| symbol.st_value);
            assert_ne!(value("f.0"), value("f.1"), "{options} by {linker:?}");
        }
    }
    bench
        .driver(
            Linker::Ours,
            "gcc",
            "-no-pie a.o b.o -Wl,-z,unique-symbol -o output",
        )
        .ok();
    bench.execute("output").ok();
}

/// The most constraining visibility of all files counts (gABI, "Symbol Visibility").
#[test]
fn one_file_s_visibility_is_everybody_s() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "define.s",
        ".globl foo, bar\n.data\nfoo: .quad 1\nbar: .quad 2\n",
    );
    bench.scratch.write(
        "refer.s",
        ".protected foo\n.hidden bar\n.data\n.quad foo, bar\n",
    );
    for linker in BOTH {
        let image = link(&bench, linker, "define.s refer.s", "-shared");
        let foo = symbol(&image, "foo").expect("it is there");
        assert_eq!(foo.st_visibility(), STV_PROTECTED, "{linker:?}");
        let bar = symbol(&image, "bar").expect("it is there");
        assert_eq!(bar.st_bind(), STB_LOCAL, "{linker:?}");
    }
}
