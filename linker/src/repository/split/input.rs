//! What belongs to each section of an object, gathered: decompressed bytes, sorted
//! relocations, group, and whether a symbol names it.

use super::elf::{Object, Section, Symbol};
use super::{SplitError, names, relocs};
use crate::elf::debug_compress::{Compressed, DecompressError};
use bumpalo::Bump;
use object::LittleEndian as LE;
use object::elf::{self, Rela64};
use object::pod;

/// A section group of the object.
pub struct InputGroup<'a> {
    /// The signature.
    pub signature: &'a [u8],
    /// `GRP_COMDAT` or 0.
    pub flags: u32,
}

/// What a relocation leads to, as far as dividing an object goes: the section in which its symbol is defined, and whether that is a section
/// symbol.
#[derive(Clone, Copy)]
struct SymbolTarget(u32);

impl SymbolTarget {
    const IS_SECTION: u32 = 1 << 31;
    const NO_SECTION: u32 = Self::IS_SECTION - 1;

    fn of(symbol: &Symbol<'_>) -> SymbolTarget {
        let is_section = match symbol.kind() {
            elf::STT_SECTION => Self::IS_SECTION,
            _ => 0,
        };
        SymbolTarget(symbol.section().unwrap_or(Self::NO_SECTION) | is_section)
    }
}

/// An object with all that is known of its sections.
pub struct Input<'a> {
    /// The tables.
    pub object: Object<'a>,
    /// Each section's bytes, decompressed.
    pub data: Vec<&'a [u8]>,
    /// Each section's size in memory.
    pub size: Vec<u64>,
    /// Each section's alignment as a power of two.
    pub align_log2: Vec<u8>,
    /// Each section's relocations, sorted by offset.
    pub relocations: Vec<&'a [Rela64<LE>]>,
    /// Whether a relocation refers to the section, of those that are taken, or to a symbol in it.
    pub is_referred_to: Vec<bool>,
    /// For each section 1 + index of its group, or 0.
    pub group: Vec<u32>,
    /// The groups.
    pub groups: Vec<InputGroup<'a>>,
    /// For each section the symbol that names it: the first one that is defined in it.
    pub first_symbol: Vec<Option<u32>>,
    /// Sections whose contents are for a program or a debugger, not for the
    /// object's own structure.
    pub is_content: Vec<bool>,
    /// For each symbol its [`SymbolTarget`]. Each relocation is looked at several times; with its symbol's entry, name and place that would
    /// be as many cache lines.
    targets: Vec<SymbolTarget>,
    /// For each symbol whether the object lists it as address-significant; empty
    /// if it has no such list.
    pub address_significant: Vec<bool>,
    /// Why the object must stay in one piece, if its sections already say so.
    pub keep_whole: Option<String>,
}

impl<'a> Input<'a> {
    /// Parses `bytes` and gathers.
    ///
    /// # Errors
    /// As for [`split`](super::split).
    pub fn load(bytes: &'a [u8], arena: &'a Bump) -> Result<Input<'a>, SplitError> {
        let object = Object::parse(bytes)?;
        let count = object.sections.len();
        if count >= SymbolTarget::NO_SECTION as usize {
            return Err(SplitError::not_splittable("it has too many sections"));
        }
        let mut input = Input {
            data: object.sections.iter().map(|section| section.data).collect(),
            size: object.sections.iter().map(Section::size).collect(),
            align_log2: vec![0; count],
            relocations: vec![&[]; count],
            is_referred_to: vec![false; count],
            group: vec![0; count],
            groups: Vec::new(),
            first_symbol: vec![None; count],
            is_content: vec![false; count],
            targets: object.symbols.iter().map(SymbolTarget::of).collect(),
            address_significant: Vec::new(),
            keep_whole: None,
            object,
        };
        for index in 0..count {
            input.take_section(index, arena)?;
        }
        for index in 0..count {
            if input.object.sections[index].sh_type() == elf::SHT_RELA {
                input.take_relocations(index, arena)?;
            }
        }
        input.name_sections();
        Ok(input)
    }

    /// A section by index.
    pub fn section(&self, index: u32) -> &Section<'a> {
        &self.object.sections[index as usize]
    }

    /// A symbol by index.
    pub fn symbol(&self, index: u32) -> &Symbol<'a> {
        &self.object.symbols[index as usize]
    }

    /// The section in which a symbol is defined, if it is in one.
    pub fn section_of(&self, symbol: u32) -> Option<u32> {
        let section = self.targets[symbol as usize].0 & !SymbolTarget::IS_SECTION;
        (section != SymbolTarget::NO_SECTION).then_some(section)
    }

    /// Whether a symbol is a section symbol.
    pub fn is_section_symbol(&self, symbol: u32) -> bool {
        self.targets[symbol as usize].0 & SymbolTarget::IS_SECTION != 0
    }

    /// Numbers of all sections.
    pub fn section_numbers(&self) -> std::ops::Range<u32> {
        0..self.object.sections.len() as u32
    }

    fn take_section(&mut self, index: usize, arena: &'a Bump) -> Result<(), SplitError> {
        let section = self.object.sections[index];
        if section.name.starts_with(b".gnu.lto_") || section.name == b".llvm.lto" {
            return Err(SplitError::not_splittable(format!(
                "it is an object for link-time optimisation (section {})",
                section.display_name()
            )));
        }
        if section.sh_type() == elf::SHT_NOTE && section.name == format_spec::ticket::NOTE_SECTION {
            return Err(SplitError::not_splittable(
                "it is a ticket, not an object of its own",
            ));
        }
        match section.sh_type() {
            elf::SHT_NULL
            | elf::SHT_SYMTAB
            | elf::SHT_STRTAB
            | elf::SHT_SYMTAB_SHNDX
            | elf::SHT_RELA => return Ok(()),
            elf::SHT_GROUP => return self.take_group(index, &section),
            SHT_LLVM_ADDRSIG => {
                self.take_addrsig(&section);
                return Ok(());
            }
            // Advice about the order of functions, which counts symbols and for which linkers have their own.
            SHT_LLVM_CALL_GRAPH_PROFILE => return Ok(()),
            elf::SHT_REL if self.is_call_graph_profile(section.info()) => return Ok(()),
            known if CONTENTS_OF_COMPILERS.contains(&known) => {}
            elf::SHT_PROGBITS
            | elf::SHT_NOBITS
            | elf::SHT_NOTE
            | elf::SHT_INIT_ARRAY
            | elf::SHT_FINI_ARRAY
            | elf::SHT_PREINIT_ARRAY
            | SHT_X86_64_UNWIND => {}
            elf::SHT_REL
            | SHT_RELR
            | SHT_CREL
            | elf::SHT_DYNAMIC
            | elf::SHT_HASH
            | elf::SHT_DYNSYM => {
                return Err(SplitError::not_splittable(format!(
                    "section {} has type {:#x}, which is not for relocatable x86-64 objects",
                    section.display_name(),
                    section.sh_type()
                )));
            }
            unknown => {
                self.keep_whole.get_or_insert(format!(
                    "section {} has type {unknown:#x}",
                    section.display_name()
                ));
            }
        }
        let flags = section.flags();
        if flags > u64::from(u32::MAX) || section.header.sh_entsize.get(LE) > u64::from(u32::MAX) {
            return Err(SplitError::not_splittable(format!(
                "section {} has flags or an entry size of more than 32 bits",
                section.display_name()
            )));
        }
        if section.info() != 0 && flags & u64::from(elf::SHF_INFO_LINK) == 0 {
            return Err(SplitError::not_splittable(format!(
                "section {} has an sh_info that is not understood",
                section.display_name()
            )));
        }
        let link = section.link();
        if link as usize >= self.object.sections.len() {
            return Err(SplitError::damaged(
                section.offset(),
                format!(
                    "{} is linked to a section that does not exist",
                    section.display_name()
                ),
            ));
        }
        if section.name.starts_with(b".zdebug_") {
            return Err(SplitError::not_splittable(format!(
                "section {} is compressed in the form that was in use before 2015",
                section.display_name()
            )));
        }
        let align = if flags & u64::from(elf::SHF_COMPRESSED) != 0 {
            let (align, data) = decompress(&section, arena)?;
            self.size[index] = data.len() as u64;
            self.data[index] = data;
            align
        } else {
            section.header.sh_addralign.get(LE)
        };
        if align > 1 && !align.is_power_of_two() {
            return Err(SplitError::damaged(
                section.offset(),
                format!(
                    "{}'s alignment is not a power of two",
                    section.display_name()
                ),
            ));
        }
        self.align_log2[index] = if align > 1 {
            align.trailing_zeros() as u8
        } else {
            0
        };
        if self.data[index].len() > MAX_SECTION {
            return Err(SplitError::not_splittable(format!(
                "section {} has more than {MAX_SECTION} bytes",
                section.display_name()
            )));
        }
        self.is_content[index] = true;
        Ok(())
    }

    /// Whether a section is LLVM's call graph profile, the only one on x86-64 that has relocations without addends.
    fn is_call_graph_profile(&self, number: u32) -> bool {
        let section = self.object.sections.get(number as usize);
        section.is_some_and(|section| section.sh_type() == SHT_LLVM_CALL_GRAPH_PROFILE)
    }

    fn take_group(&mut self, index: usize, section: &Section<'a>) -> Result<(), SplitError> {
        let damaged = |message: &str| {
            SplitError::damaged(
                section.offset(),
                format!("section group {index}: {message}"),
            )
        };
        let words: &[object::U32<LE>] = pod::slice_from_all_bytes(section.data)
            .map_err(|()| damaged("its size is not a multiple of 4"))?;
        let (flags, members) = words.split_first().ok_or_else(|| damaged("it is empty"))?;
        let flags = flags.get(LE);
        if flags & !elf::GRP_COMDAT != 0 {
            return Err(SplitError::not_splittable(format!(
                "section group {index} has flags that are not understood ({flags:#x})"
            )));
        }
        let symbol = self
            .object
            .symbols
            .get(section.info() as usize)
            .filter(|_| section.info() != 0)
            .ok_or_else(|| damaged("its signature symbol does not exist"))?;
        let signature = match (symbol.kind(), symbol.section()) {
            // GNU as names a group after its section if it has no other symbol.
            (elf::STT_SECTION, Some(named)) => self.section(named).name,
            _ => symbol.name,
        };
        self.groups.push(InputGroup { signature, flags });
        let number = self.groups.len() as u32;
        for member in members {
            match self.group.get_mut(member.get(LE) as usize) {
                Some(group) if *group == 0 => *group = number,
                Some(_) => return Err(damaged("a member is in two groups")),
                None => return Err(damaged("a member does not exist")),
            }
        }
        Ok(())
    }

    /// A list that is cut off or out of range is no list: then every address counts.
    fn take_addrsig(&mut self, section: &Section<'a>) {
        let mut significant = vec![false; self.object.symbols.len()];
        let mut rest = section.data;
        while !rest.is_empty() {
            let mut index = 0u64;
            let mut shift = 0;
            loop {
                let Some((&byte, tail)) = rest.split_first() else {
                    return;
                };
                rest = tail;
                if shift > 28 {
                    return;
                }
                index |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            match significant.get_mut(index as usize) {
                Some(symbol) => *symbol = true,
                None => return,
            }
        }
        if section.link() == self.object.symbol_table {
            self.address_significant = significant;
        }
    }

    fn take_relocations(&mut self, index: usize, arena: &'a Bump) -> Result<(), SplitError> {
        let table = self.object.sections[index];
        let relocations = self.object.relocations(index as u32)?;
        if relocations.is_empty() {
            return Ok(());
        }
        let target = table.info() as usize;
        let place = |number: usize| table.offset() + (number * size_of::<Rela64<LE>>()) as u64;
        if !self.is_content.get(target).is_some_and(|content| *content) {
            return Err(SplitError::damaged(
                table.offset(),
                format!(
                    "{} is for a section that has no contents",
                    table.display_name()
                ),
            ));
        }
        if !self.relocations[target].is_empty() {
            return Err(SplitError::not_splittable(format!(
                "section {} has two tables of relocations",
                self.object.sections[target].display_name()
            )));
        }
        let nobits = self.object.sections[target].sh_type() == elf::SHT_NOBITS;
        let size = self.size[target];
        let mut sorted = true;
        let mut last = 0;
        for (number, relocation) in relocations.iter().enumerate() {
            let r_type = relocation.r_type(LE, false);
            let offset = relocation.r_offset.get(LE);
            let bytes = relocs::width(r_type).unwrap_or_else(|| {
                self.keep_whole.get_or_insert(format!(
                    "{} has a relocation of unknown type {r_type}",
                    table.display_name()
                ));
                0
            });
            if r_type >= format_spec::fragment::FIXUP_CIE {
                return Err(SplitError::not_splittable(format!(
                    "{} has a relocation of unknown type {r_type}",
                    table.display_name()
                )));
            }
            if offset.checked_add(bytes).is_none_or(|end| end > size) || (nobits && bytes > 0) {
                return Err(SplitError::damaged(
                    place(number),
                    format!(
                        "relocation {number} of {} is at {offset:#x}, beyond the section's contents",
                        table.display_name()
                    ),
                ));
            }
            let symbol = relocation.r_sym(LE, false);
            if symbol as usize >= self.object.symbols.len() && symbol != 0 {
                return Err(SplitError::damaged(
                    place(number),
                    format!(
                        "relocation {number} of {} is to symbol {symbol}, which does not exist",
                        table.display_name()
                    ),
                ));
            }
            if symbol != 0
                && let Some(section) = self.section_of(symbol)
            {
                self.is_referred_to[section as usize] = true;
            }
            sorted &= offset >= last;
            last = offset;
        }
        self.relocations[target] = if sorted {
            relocations
        } else {
            let copy = arena.alloc_slice_copy(relocations);
            copy.sort_by_key(|relocation| relocation.r_offset.get(LE));
            copy
        };
        Ok(())
    }

    /// Finds for each section the symbol that names it: the lowest one; of several
    /// at one place a global one before a local one, then the one whose name sorts
    /// first, so that nothing depends on the symbol table's order. Labels of the
    /// assembler (`.L…`) and clang's numbering of exception tables name nothing.
    fn name_sections(&mut self) {
        for (index, symbol) in self.object.symbols.iter().enumerate().skip(1) {
            let Some(section) = symbol.section() else {
                continue;
            };
            if matches!(symbol.kind(), elf::STT_SECTION | elf::STT_FILE)
                || symbol.name.is_empty()
                || (symbol.is_local() && symbol.name.starts_with(b".L"))
                || self.is_label_only(symbol, section)
            {
                continue;
            }
            let rank = |index: u32| {
                let symbol = &self.object.symbols[index as usize];
                (symbol.value(), symbol.is_local(), symbol.name)
            };
            let first = &mut self.first_symbol[section as usize];
            if first.is_none_or(|first| rank(index as u32) < rank(first)) {
                *first = Some(index as u32);
            }
        }
    }

    /// Whether a symbol only marks a place for readers of disassembly, under a name
    /// that has a running number in it: `GCC_except_table7` as clang writes it.
    pub fn is_label_only(&self, symbol: &Symbol<'a>, section: u32) -> bool {
        symbol.is_local()
            && symbol.name.starts_with(b"GCC_except_table")
            && names::split_suffix(self.section(section).name).0 == b".gcc_except_table"
    }
}

/// The largest section that fits a fragment's 32-bit offsets, with room for
/// everything else that is in the fragment's value.
const MAX_SECTION: usize = 1 << 31;

const SHT_X86_64_UNWIND: u32 = 0x7000_0001;
/// LLVM's list of symbols whose address is significant.
pub const SHT_LLVM_ADDRSIG: u32 = 0x6fff_4c03;
/// LLVM's counts of which function called which (`.llvm.call-graph-profile`).
const SHT_LLVM_CALL_GRAPH_PROFILE: u32 = 0x6fff_4c09;
/// Types of sections that compilers and assemblers write beside those of the gABI, and whose contents say where they
/// belong by relocations and by `SHF_LINK_ORDER` only, so that they are split like any other contents. What counts
/// symbols or sections by their numbers must not be in this list.
const CONTENTS_OF_COMPILERS: [u32; 11] = [
    0x6fff_4c00, // SHT_LLVM_ODRTAB
    0x6fff_4c01, // SHT_LLVM_LINKER_OPTIONS: .linker-options
    0x6fff_4c04, // SHT_LLVM_DEPENDENT_LIBRARIES: .deplibs
    0x6fff_4c05, // SHT_LLVM_SYMPART: .llvm_sympart
    0x6fff_4c08, // SHT_LLVM_BB_ADDR_MAP_V0: .llvm_bb_addr_map of clang 12 to 14
    0x6fff_4c0a, // SHT_LLVM_BB_ADDR_MAP: .llvm_bb_addr_map
    0x6fff_4c0b, // SHT_LLVM_OFFLOADING: .llvm.offloading
    0x6fff_4c0d, // SHT_LLVM_JT_SIZES: .llvm_jump_table_sizes
    0x6fff_4c0e, // SHT_LLVM_CFI_JUMP_TABLE
    0x6fff_4c0f, // SHT_LLVM_CALL_GRAPH: .llvm.callgraph
    0x6fff_fff4, // SHT_GNU_SFRAME: .sframe since binutils 2.45
];
const SHT_RELR: u32 = 19;
const SHT_CREL: u32 = 0x4000_0014;

/// Decompresses an `SHF_COMPRESSED` section (gABI, "Section Compression");
/// gives its alignment and its bytes.
fn decompress<'a>(section: &Section<'a>, arena: &'a Bump) -> Result<(u64, &'a [u8]), SplitError> {
    let damaged = |message: String| {
        SplitError::damaged(
            section.offset(),
            format!("compressed section {}: {message}", section.display_name()),
        )
    };
    let compressed = match Compressed::parse(section.data) {
        Ok(compressed) => compressed,
        Err(DecompressError::UnknownFormat(unknown)) => {
            return Err(SplitError::not_splittable(format!(
                "section {} is compressed in a way that is not known ({unknown})",
                section.display_name()
            )));
        }
        Err(why) => return Err(damaged(why.to_string())),
    };
    if compressed.size > MAX_SECTION as u64 {
        return Err(SplitError::not_splittable(format!(
            "section {} has more than {MAX_SECTION} bytes",
            section.display_name()
        )));
    }
    let bytes = compressed
        .decompress()
        .map_err(|why| damaged(why.to_string()))?;
    Ok((compressed.alignment, arena.alloc_slice_copy(&bytes)))
}
