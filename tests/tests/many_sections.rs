//! Outputs with more sections than 16 bits can count (gABI, "ELF Header": `e_shnum`, "Symbol Table": `SHN_XINDEX`). They
//! are read by a library that follows the null section header and `.symtab_shndx`; reference is GNU ld.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::Elf;
use linking::{Bench, Linker};
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _};
use std::collections::{BTreeMap, BTreeSet};

/// More than `SHN_LORESERVE`, and than 16 bits.
const COUNT: u32 = 66_000;

/// An object with that many sections, of which the orphan rules and scripts make output sections of their own.
fn assemble(bench: &Bench) {
    let mut text = String::from(
        ".globl _start\n.text\n_start: call last\nmov $60, %eax\nsyscall\n.comm block, 8, 8\n\
         .section .tdata, \"awT\"\n.globl own\nown: .quad 1\n\
         .section .debug_str, \"\", %progbits\n",
    );
    text += &".asciz \"something that compresses well\"\n".repeat(100);
    for i in 0..COUNT {
        text += &format!(
            ".section s{i}, \"ax\", %progbits\n.globl f{i}\nf{i}: mov ${i}, %edi\nhere{i}: ret\n"
        );
    }
    text += ".section slast, \"ax\", %progbits\n.globl last\nlast: mov $42, %edi\nret\n\
             .data\n.globl pointers\npointers: .quad f464, f65999, block\n";
    bench.scratch.write("many.s", text);
    bench
        .driver(Linker::Reference, "gcc", "-c many.s -o many.o")
        .ok();
}

/// Symbols with the names of their sections, those of the objects only; sections too have symbols with `--emit-relocs`.
fn symbols(image: &[u8]) -> BTreeMap<String, String> {
    let file = ElfFile64::<Endianness>::parse(image).expect("an ELF file");
    let section_of = |symbol: &object::read::elf::ElfSymbol64<'_, '_, Endianness>| {
        let index = symbol.section_index()?;
        let section = file.section_by_index(index).expect("the section exists");
        Some(section.name().expect("it has a name").to_owned())
    };
    file.symbols()
        .filter_map(|symbol| {
            let section = section_of(&symbol)?;
            let name = symbol.name().expect("it has a name");
            let of_section = symbol.kind() == object::SymbolKind::Section;
            let name = if of_section { &section } else { name };
            let ours = name.starts_with('f')
                || name.starts_with("here")
                || ["last", "pointers", "block", "own", "_start"].contains(&name)
                || of_section && name.starts_with('s');
            ours.then(|| (name.to_owned(), section.clone()))
        })
        .collect()
}

/// The names of the sections.
fn sections(image: &[u8]) -> BTreeSet<String> {
    let file = ElfFile64::<Endianness>::parse(image).expect("an ELF file");
    let names = file.sections().map(|section| {
        let name = section.name().expect("it has a name");
        name.to_owned()
    });
    names.collect()
}

#[test]
fn each_symbol_is_in_its_section() {
    let Some(bench) = Bench::new() else { return };
    assemble(&bench);
    bench.scratch.write(
        "script",
        "SECTIONS { . = 0x400000 + SIZEOF_HEADERS; .text : { *(.text) } . = ALIGN(0x1000); .data : { *(.data) } }",
    );
    for options in ["", "--emit-relocs", "-T script"] {
        let [theirs, ours] = [Linker::Reference, Linker::Ours].map(|linker| {
            let line = format!("many.o {options} -o program");
            bench.ld(linker, &line).ok();
            bench.execute("program").code(42);
            bench.read("program")
        });
        assert!(sections(&ours).len() > COUNT as usize, "{options}");
        assert!(sections(&ours).contains(".symtab_shndx"), "{options}");
        let (theirs, ours) = (symbols(&theirs), symbols(&ours));
        assert!(ours.len() >= 2 * COUNT as usize, "{options}");
        let different: Vec<_> = theirs
            .iter()
            .filter(|(name, section)| ours.get(*name) != Some(*section))
            .take(10)
            .collect();
        assert!(
            different.is_empty() && theirs.len() == ours.len(),
            "{options}: theirs {different:?}, of {} and {}",
            theirs.len(),
            ours.len()
        );
    }
}

/// GNU ld neither makes nor takes it, lld does: what loads a shared object has no need of the numbers.
#[test]
fn a_shared_object_can_be_used() {
    let Some(bench) = Bench::new() else { return };
    assemble(&bench);
    bench
        .ld(
            Linker::Ours,
            "many.o -shared -z notext -o libmany.so --defsym=more=f65999+1",
        )
        .ok();
    let image = bench.read("libmany.so");
    let elf = Elf::parse(&image).expect("an independent reader understands it");
    let section_of = |name: &str| {
        let mut symbols = elf.dynsyms.iter();
        let symbol = symbols.find(|symbol| elf.dynstrtab.get_at(symbol.st_name) == Some(name));
        symbol.expect("it is there").st_shndx
    };
    assert_eq!(section_of("f65999"), 0xffff);
    assert_eq!(section_of("more"), 0xffff);
    assert!((1..0xff00).contains(&section_of("f464")));
    bench.scratch.write(
        "main.s",
        ".globl main\nmain: push %rax\ncall f65999@PLT\nxor $65999, %edi\nmov f464@GOTPCREL(%rip), %rax\n\
         add 1(%rax), %edi\nmov %edi, %eax\nsub $464 - 42, %eax\npop %rdx\nret\n.section .note.GNU-stack, \"\"\n",
    );
    let line = "main.s libmany.so -Wl,-rpath,$ORIGIN -o program";
    bench.driver(Linker::Ours, "gcc", line).ok();
    bench.execute("program").code(42);
}

#[test]
fn debug_sections_are_compressed_behind_them() {
    let Some(bench) = Bench::new() else { return };
    assemble(&bench);
    let images = ["", "--compress-debug-sections=zlib"].map(|options| {
        let line = format!("many.o {options} -o program");
        bench.ld(Linker::Ours, &line).ok();
        bench.execute("program").code(42);
        bench.read("program")
    });
    let [plain, compressed] = &images;
    assert!(compressed.len() < plain.len());
    assert_eq!(symbols(plain), symbols(compressed));
    let [plain, compressed] = [plain, compressed].map(|image| {
        let file = ElfFile64::<Endianness>::parse(&**image).expect("an ELF file");
        let section = file.section_by_name(".debug_str").expect("it is there");
        let data = section.uncompressed_data().expect("it can be read");
        (
            section.compressed_file_range().expect("readable"),
            data.into_owned(),
        )
    });
    assert_ne!(plain.0.format, compressed.0.format);
    assert_eq!(plain.1, compressed.1);
}

#[test]
fn without_symbols_there_is_no_table_of_their_sections() {
    let Some(bench) = Bench::new() else { return };
    assemble(&bench);
    bench.ld(Linker::Ours, "many.o -s -o program").ok();
    bench.execute("program").code(42);
    let sections = sections(&bench.read("program"));
    assert!(sections.len() > COUNT as usize);
    assert!(!sections.contains(".symtab_shndx") && sections.contains("s65999"));
}
