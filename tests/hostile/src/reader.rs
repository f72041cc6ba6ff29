//! Another reader of what the linker writes (the `object` crate, and what the gABI says of tables): whatever the inputs
//! were, an output that is there must be a sound ELF file.

use linker::args::{Args, OutputKind};
use linker::elf::c;
use object::elf::{FileHeader64, ProgramHeader64, SectionHeader64};
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader, Rela, SectionHeader, Sym};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol};
use std::fmt::Display;

const LE: LittleEndian = LittleEndian;

/// Reads all of an output.
///
/// # Errors
/// What is wrong with it.
pub fn read(bytes: &[u8], args: &Args) -> Result<(), String> {
    let header = FileHeader64::<LittleEndian>::parse(bytes).map_err(in_("file header"))?;
    let sections = header
        .section_headers(LE, bytes)
        .map_err(in_("section headers"))?;
    for (number, section) in sections.iter().enumerate() {
        check_section(bytes, sections, section).map_err(in_(&format!("section {number}")))?;
    }
    let segments = header
        .program_headers(LE, bytes)
        .map_err(in_("program headers"))?;
    check_segments(bytes, segments, args)?;
    // A linker script may have put the strings together with something else, and this reader wants them in a section of
    // their own type.
    let strings = sections.iter().filter(|section| {
        let with_strings = [c::SHT_DYNSYM, c::SHT_DYNAMIC];
        with_strings.contains(&section.sh_type(LE))
    });
    let mut strings = strings.map(|section| &sections[section.sh_link(LE) as usize]);
    if strings.any(|section| section.sh_type(LE) == c::SHT_PROGBITS) {
        return Ok(());
    }
    check_symbols(bytes)?;
    if args.kind != OutputKind::Relocatable {
        check_dynamic(bytes, segments)?;
    }
    Ok(())
}

fn in_<E: Display>(what: &str) -> impl Fn(E) -> String {
    move |why| format!("{what}: {why}")
}

fn check_section(
    bytes: &[u8],
    sections: &[SectionHeader64<LittleEndian>],
    section: &SectionHeader64<LittleEndian>,
) -> Result<(), String> {
    section.data(LE, bytes).map_err(in_("data"))?;
    if section.sh_link(LE) as usize >= sections.len() {
        return Err(format!("sh_link {} is no section", section.sh_link(LE)));
    }
    let align = section.sh_addralign(LE);
    if align != 0 && (!align.is_power_of_two() || !section.sh_addr(LE).is_multiple_of(align)) {
        return Err(format!(
            "address {:#x} is not aligned to {align:#x}",
            section.sh_addr(LE)
        ));
    }
    if let Some((relocations, link)) = section.rela(LE, bytes).map_err(in_("relocations"))? {
        let symbols = match link.0 {
            0 => 1,
            link => sections[link].sh_size(LE) / 24,
        };
        for rela in relocations {
            if u64::from(rela.r_sym(LE, false)) >= symbols {
                return Err(format!(
                    "relocation with symbol {} of {symbols}",
                    rela.r_sym(LE, false)
                ));
            }
        }
    }
    if let Some(group) = section.group(LE, bytes).map_err(in_("group"))? {
        for member in group.1 {
            if member.get(LE) as usize >= sections.len() || member.get(LE) == 0 {
                return Err(format!("a group with section {}", member.get(LE)));
            }
        }
    }
    Ok(())
}

fn check_segments(
    bytes: &[u8],
    segments: &[ProgramHeader64<LittleEndian>],
    args: &Args,
) -> Result<(), String> {
    let mut end = 0;
    for segment in segments {
        let describe = |why: &str| {
            let (start, size) = (segment.p_vaddr(LE), segment.p_memsz(LE));
            Err(format!(
                "segment of type {:#x} at {start:#x}, {size:#x} bytes: {why}",
                segment.p_type(LE)
            ))
        };
        if segment.data(LE, bytes).is_err() {
            return describe("outside of the file");
        }
        if segment
            .p_vaddr(LE)
            .checked_add(segment.p_memsz(LE))
            .is_none()
        {
            return describe("wraps around");
        }
        if segment.p_type(LE) != c::PT_LOAD {
            continue;
        }
        if segment.p_filesz(LE) > segment.p_memsz(LE) {
            return describe("more bytes in the file than in memory");
        }
        // Scripts with PHDRS say themselves in which order, and options may have sections that lie over each other kept.
        let in_order = args.scripts.is_empty() && args.check_sections && !args.noinhibit_exec;
        if in_order && segment.p_vaddr(LE) < end {
            return describe("before the end of the one before it");
        }
        end = segment.p_vaddr(LE) + segment.p_memsz(LE);
        let align = segment.p_align(LE);
        if align > 1
            && segment.p_filesz(LE) != 0
            && segment.p_vaddr(LE) % align != segment.p_offset(LE) % align
        {
            return describe("its address and its offset are not congruent");
        }
    }
    Ok(())
}

fn check_symbols(bytes: &[u8]) -> Result<(), String> {
    let file = ElfFile64::<LittleEndian>::parse(bytes).map_err(in_("file"))?;
    for section in file.sections() {
        section.name_bytes().map_err(in_("name of a section"))?;
    }
    let sections = file.elf_section_table().len();
    for (table, symbols) in [
        (".symtab", file.elf_symbol_table()),
        (".dynsym", file.elf_dynamic_symbol_table()),
    ] {
        let strings = symbols.strings();
        for (index, symbol) in symbols.enumerate() {
            let place = format!("{table}: symbol {}", index.0);
            symbol.name(LE, strings).map_err(in_(&place))?;
            let section = symbols
                .symbol_section(LE, symbol, index)
                .map_err(in_(&place))?;
            if section.is_some_and(|section| section.0 >= sections) {
                return Err(format!("{place} is in a section that does not exist"));
            }
        }
    }
    let _ = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .count();
    Ok(())
}

/// Symbols have versions that exist, dynamic relocations lie in what is loaded, and the strings of `.dynamic` are strings.
fn check_dynamic(bytes: &[u8], segments: &[ProgramHeader64<LittleEndian>]) -> Result<(), String> {
    let file = ElfFile64::<LittleEndian>::parse(bytes).map_err(in_("file"))?;
    if let Some(versions) = file
        .elf_section_table()
        .versions(LE, bytes)
        .map_err(in_("versions"))?
    {
        for (index, _) in file.elf_dynamic_symbol_table().enumerate() {
            let version = versions.version_index(LE, index);
            versions
                .version(version)
                .map_err(in_(&format!(".dynsym: version of symbol {}", index.0)))?;
        }
    }
    let loaded = |at: u64, size: u64| {
        segments.iter().any(|segment| {
            let start = segment.p_vaddr(LE);
            segment.p_type(LE) == c::PT_LOAD
                && at >= start
                && at - start <= segment.p_memsz(LE).saturating_sub(size)
        })
    };
    for section in file.sections() {
        let header = section.elf_section_header();
        let is_dynamic = header.sh_flags(LE) & u64::from(c::SHF_ALLOC) != 0;
        if !is_dynamic || !matches!(section.name_bytes(), Ok(b".rela.dyn" | b".rela.plt")) {
            continue;
        }
        let Some((relocations, _)) = header.rela(LE, bytes).map_err(in_("relocations"))? else {
            continue;
        };
        for rela in relocations {
            let kind = rela.r_type(LE, false);
            if kind != c::R_X86_64_NONE && !loaded(rela.r_offset(LE), 4) {
                return Err(format!(
                    "dynamic relocation of type {kind} at {:#x}, where nothing is",
                    rela.r_offset(LE)
                ));
            }
        }
    }
    // A script may put an input's section behind the linker's; this reader would take it all.
    let is_united = |section: &SectionHeader64<LittleEndian>| {
        section.sh_type(LE) == c::SHT_DYNAMIC && !section.sh_size(LE).is_multiple_of(16)
    };
    if file.elf_section_table().iter().any(is_united) {
        return Ok(());
    }
    let Some((entries, link)) = file
        .elf_section_table()
        .dynamic(LE, bytes)
        .map_err(in_("dynamic section"))?
    else {
        return Ok(());
    };
    let strings = file
        .elf_section_table()
        .strings(LE, bytes, link)
        .map_err(in_("strings of the dynamic section"))?;
    for entry in entries {
        if entry.is_string(LE) {
            entry
                .string(LE, strings)
                .map_err(in_("string of a dynamic entry"))?;
        }
    }
    Ok(())
}
