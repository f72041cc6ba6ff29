//! The file of a relocatable output: ELF header, sections, each one's relocations
//! behind it, symbols, names, and the section header table at the end.
//!
//! All sizes are known beforehand, so the file is cut into pieces, one for each input
//! section's contents and one for its relocations, which are filled in parallel.

use super::plan::Plan;
use super::sections::OutId;
use crate::base::ids::SectionId;
use crate::elf::build_id::NOTE_HEADER_SIZE;
use crate::elf::is_debug;
use crate::elf::shf;
use crate::elf::string_table::StringTable;
use crate::elf::x86_64::reloc;
use crate::elf::{Ehdr, Rela, Shdr, Sym, c};
use crate::input::file::Files;
use crate::input::parts::Fixup;
use crate::layout::section_index::{SectionIndex, TableFields};
use crate::link::relocatable::references::{Needed, Reference, Referrer};
use crate::link::relocatable::symtab::Symtab;
use crate::output::image_writer::tombstone;
use crate::resolve::input_sections::SectionRef;
use crate::resolve::room::NOP;
use rayon::prelude::*;

/// Where a section header's contents are.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    offset: u64,
    size: u64,
}

/// The tables that follow the sections.
#[derive(Clone, Copy, Debug, Default)]
struct Tables {
    symtab: u32,
    /// 0 if all section indices fit into `st_shndx`.
    xindex: u32,
    strtab: u32,
    shstrtab: u32,
}

/// The output, laid out.
pub struct Layout<'a> {
    /// The section headers.
    shdrs: Vec<Shdr>,
    /// By [`OutId`]: the section's header.
    header: Vec<u32>,
    /// By [`OutId`]: the header of its relocations, or 0.
    relocations: Vec<u32>,
    /// By [`OutId`].
    contents: Vec<Span>,
    tables: Tables,
    /// The words of each group: its flags and its members' headers.
    groups: Vec<Vec<u32>>,
    names: StringTable<'a>,
    shoff: u64,
    /// Size of the file.
    pub size: u64,
    entry: u64,
    os_abi: u8,
}

/// Some table would be too large for its 32-bit indices or offsets.
pub struct TooLarge(pub &'static str);

/// Names of the relocation sections; they must outlive the layout.
pub struct RelocationNames(Vec<Vec<u8>>);

impl RelocationNames {
    /// Makes them.
    pub fn new(plan: &Plan) -> RelocationNames {
        let names = plan.sections.iter().map(|s| [b".rela", s.name].concat());
        RelocationNames(names.collect())
    }
}

/// Offsets in the file need no more alignment than this, whatever the section's own.
const MOST_FILE_ALIGNMENT: u64 = 4096;

impl<'a> Layout<'a> {
    /// Numbers the section headers and places everything.
    ///
    /// # Errors
    /// If there is too much of something.
    pub fn new(
        plan: &Plan<'a>,
        needed: &Needed,
        symtab: &Symtab,
        names: &'a RelocationNames,
        entry: u64,
        os_abi: u8,
    ) -> Result<Layout<'a>, TooLarge> {
        let count = plan.sections.len();
        let mut relocation_counts = vec![0u64; count];
        for (total, section) in relocation_counts.iter_mut().zip(&plan.sections) {
            let counts = section.inputs.iter().map(|id| needed.counts[id.index()]);
            *total = counts.map(u64::from).sum();
        }
        // Numbers first: groups hold those of relocation sections.
        let (mut header, mut relocations) = (vec![0u32; count], vec![0u32; count]);
        let mut next = 1u32;
        for (i, counted) in relocation_counts.iter().enumerate() {
            header[i] = next;
            next += 1;
            if *counted > 0 {
                relocations[i] = next;
                next += 1;
            }
        }
        let tables = Tables {
            symtab: next,
            xindex: if next >= c::SHN_LORESERVE.into() {
                next + 1
            } else {
                0
            },
            strtab: next + 1 + u32::from(next >= c::SHN_LORESERVE.into()),
            shstrtab: next + 2 + u32::from(next >= c::SHN_LORESERVE.into()),
        };
        let mut layout = Layout {
            shdrs: vec![bytemuck::Zeroable::zeroed()],
            header,
            relocations,
            contents: vec![Span::default(); count],
            tables,
            groups: Vec::new(),
            names: StringTable::new(),
            shoff: 0,
            size: size_of::<Ehdr>() as u64,
            entry,
            os_abi,
        };
        layout.place_sections(plan, symtab, &relocation_counts, names)?;
        layout.place_tables(symtab)?;
        Ok(layout)
    }

    fn place_sections(
        &mut self,
        plan: &Plan<'a>,
        symtab: &Symtab,
        relocation_counts: &[u64],
        names: &'a RelocationNames,
    ) -> Result<(), TooLarge> {
        self.groups = plan.groups.iter().map(|group| vec![group.flags]).collect();
        for (i, section) in plan.sections.iter().enumerate() {
            if let Some(group) = section.group {
                let words = &mut self.groups[group as usize];
                words.push(self.header[i]);
                words.extend((self.relocations[i] != 0).then_some(self.relocations[i]));
            }
        }
        let mut group = 0;
        for (i, section) in plan.sections.iter().enumerate() {
            let in_group = if section.group.is_some() {
                shf::GROUP
            } else {
                0
            };
            let mut shdr = Shdr {
                sh_name: self.name(section.name)?,
                sh_type: section.sh_type,
                sh_flags: section.flags | in_group,
                sh_addr: section.address,
                sh_offset: 0,
                sh_size: section.size,
                sh_link: section.link.map_or(0, |link| self.header[link.index()]),
                sh_info: 0,
                sh_addralign: section.align,
                sh_entsize: section.entsize,
            };
            if section.sh_type == c::SHT_GROUP {
                shdr.sh_size = 4 * self.groups[group].len() as u64;
                shdr.sh_link = self.tables.symtab;
                shdr.sh_info = symtab.signatures[group];
                group += 1;
            }
            self.contents[i] = self.add(shdr)?;
            if relocation_counts[i] > 0 {
                let shdr = Shdr {
                    sh_name: self.name(&names.0[i])?,
                    sh_type: c::SHT_RELA,
                    sh_flags: shf::INFO_LINK | in_group,
                    sh_size: relocation_counts[i] * size_of::<Rela>() as u64,
                    sh_link: self.tables.symtab,
                    sh_info: self.header[i],
                    sh_addralign: 8,
                    sh_entsize: size_of::<Rela>() as u64,
                    ..bytemuck::Zeroable::zeroed()
                };
                self.add(shdr)?;
            }
        }
        Ok(())
    }

    fn place_tables(&mut self, symtab: &Symtab) -> Result<(), TooLarge> {
        let table = |sh_name, sh_type, sh_size, sh_link, sh_info, entsize: u64| Shdr {
            sh_name,
            sh_type,
            sh_size,
            sh_link,
            sh_info,
            sh_addralign: if entsize == 0 { 1 } else { entsize.min(8) },
            sh_entsize: entsize,
            ..bytemuck::Zeroable::zeroed()
        };
        let tables = self.tables;
        let count = symtab.symbols.len() as u64;
        let name = self.name(b".symtab")?;
        let size = count * size_of::<Sym>() as u64;
        let first = symtab.first_global;
        self.add(table(name, c::SHT_SYMTAB, size, tables.strtab, first, 24))?;
        if tables.xindex != 0 {
            let name = self.name(b".symtab_shndx")?;
            let link = tables.symtab;
            self.add(table(name, c::SHT_SYMTAB_SHNDX, 4 * count, link, 0, 4))?;
        }
        let name = self.name(b".strtab")?;
        let size = symtab.strings.bytes().len() as u64;
        self.add(table(name, c::SHT_STRTAB, size, 0, 0, 0))?;
        let name = self.name(b".shstrtab")?;
        let size = self.names.bytes().len() as u64;
        self.add(table(name, c::SHT_STRTAB, size, 0, 0, 0))?;
        self.shoff = self.size.next_multiple_of(8);
        self.size = self.shoff + (self.shdrs.len() * size_of::<Shdr>()) as u64;
        let fields = self.table_fields();
        (self.shdrs[0].sh_size, self.shdrs[0].sh_link) = (fields.sh_size, fields.sh_link);
        Ok(())
    }

    fn name(&mut self, name: &'a [u8]) -> Result<u32, TooLarge> {
        self.names.add(name).ok_or(TooLarge(".shstrtab"))
    }

    /// Adds a header and places its contents.
    fn add(&mut self, mut shdr: Shdr) -> Result<Span, TooLarge> {
        let align = { shdr.sh_addralign }.clamp(1, MOST_FILE_ALIGNMENT);
        let offset = self.size.next_multiple_of(align);
        let size = if { shdr.sh_type } == c::SHT_NOBITS {
            0
        } else {
            shdr.sh_size
        };
        shdr.sh_offset = offset;
        self.size = offset
            .checked_add(size)
            .filter(|end| *end < i64::MAX as u64 / 2)
            .ok_or(TooLarge("the output"))?;
        self.shdrs.push(shdr);
        Ok(Span { offset, size })
    }

    fn header_of(&self, out: OutId) -> u32 {
        self.header[out.index()]
    }

    fn table_fields(&self) -> TableFields {
        TableFields::new(self.shdrs.len(), self.tables.shstrtab)
    }

    /// The ELF header.
    fn ehdr(&self) -> Ehdr {
        let mut ident = [0; 16];
        ident[..4].copy_from_slice(&c::ELFMAG);
        ident[4..8].copy_from_slice(&[c::ELFCLASS64, c::ELFDATA2LSB, c::EV_CURRENT, self.os_abi]);
        let fields = self.table_fields();
        Ehdr {
            e_ident: ident,
            e_type: c::ET_REL,
            e_machine: c::EM_X86_64,
            e_version: c::EV_CURRENT.into(),
            e_entry: self.entry,
            e_phoff: 0,
            e_shoff: self.shoff,
            e_flags: 0,
            e_ehsize: size_of::<Ehdr>() as u16,
            e_phentsize: 0,
            e_phnum: 0,
            e_shentsize: size_of::<Shdr>() as u16,
            e_shnum: fields.e_shnum,
            e_shstrndx: fields.e_shstrndx,
        }
    }
}

/// A piece of the file.
enum Piece {
    /// Contents of an input section.
    Contents(SectionId),
    /// Its relocations.
    Relocations(SectionId),
    /// What the linker puts behind the inputs of a section.
    Made(OutId),
    /// What a script puts into a section, by number.
    Data(OutId, u32),
    /// The words of a group, by index.
    Group(usize),
    Header,
    Symbols,
    SymbolSections,
    SymbolNames,
    SectionNames,
    SectionHeaders,
}

/// Writes the file.
pub struct Writer<'l, 'a> {
    /// Where everything goes.
    pub layout: &'l Layout<'a>,
    /// What relocations refer to.
    pub referrer: Referrer<'l, 'a>,
    /// How many relocations each section keeps.
    pub needed: &'l Needed,
    /// The symbols.
    pub symtab: &'l Symtab<'a>,
}

impl Writer<'_, '_> {
    /// Fills the image, which must be zeroed.
    pub fn write(&self, image: &mut [u8]) {
        let mut rest = image;
        let mut at = 0u64;
        let mut pieces = Vec::new();
        for (offset, size, piece) in self.pieces() {
            let (_, tail) = rest.split_at_mut((offset - at) as usize);
            let (bytes, tail) = tail.split_at_mut(size as usize);
            pieces.push((piece, bytes));
            (rest, at) = (tail, offset + size);
        }
        pieces
            .into_par_iter()
            .for_each(|(piece, bytes)| self.fill(piece, bytes));
    }

    /// All pieces, in the order of the file.
    fn pieces(&self) -> Vec<(u64, u64, Piece)> {
        let layout = self.layout;
        let plan = self.referrer.plan;
        let span = |header: u32| {
            let shdr = layout.shdrs[header as usize];
            (shdr.sh_offset, shdr.sh_size)
        };
        let mut pieces = vec![(0, size_of::<Ehdr>() as u64, Piece::Header)];
        let mut group = 0;
        for (i, section) in plan.sections.iter().enumerate() {
            let contents = layout.contents[i];
            if section.sh_type == c::SHT_GROUP {
                pieces.push((contents.offset, contents.size, Piece::Group(group)));
                group += 1;
            }
            if !section.is_nobits() {
                let mut starts: Vec<(u64, Piece)> = section
                    .inputs
                    .iter()
                    .map(|id| (plan.offset(*id), Piece::Contents(*id)))
                    .collect();
                if !section.data.is_empty() {
                    let data = section.data.iter().zip(0u32..);
                    let out = OutId(i as u32);
                    starts.extend(
                        data.map(|((offset, _), number)| (*offset, Piece::Data(out, number))),
                    );
                    starts.sort_by_key(|(offset, _)| *offset);
                }
                // Each with the padding behind it.
                let last = section.size - section.made.len() as u64;
                let ends = starts.iter().skip(1).map(|(offset, _)| *offset);
                let ends: Vec<u64> = ends.chain([last]).collect();
                for ((start, piece), end) in starts.into_iter().zip(ends) {
                    pieces.push((contents.offset + start, end - start, piece));
                }
                let made = section.made.len() as u64;
                let piece = Piece::Made(OutId(i as u32));
                pieces.push((
                    contents.offset + section.size.saturating_sub(made),
                    made,
                    piece,
                ));
            }
            if layout.relocations[i] != 0 {
                let (mut at, _) = span(layout.relocations[i]);
                for id in &section.inputs {
                    let count = self.needed.counts[id.index()];
                    let size = u64::from(count) * size_of::<Rela>() as u64;
                    pieces.push((at, size, Piece::Relocations(*id)));
                    at += size;
                }
            }
        }
        let tables = layout.tables;
        for (header, piece) in [
            (tables.symtab, Piece::Symbols),
            (tables.xindex, Piece::SymbolSections),
            (tables.strtab, Piece::SymbolNames),
            (tables.shstrtab, Piece::SectionNames),
        ] {
            if header != 0 {
                let (offset, size) = span(header);
                pieces.push((offset, size, piece));
            }
        }
        let size = layout.size - layout.shoff;
        pieces.push((layout.shoff, size, Piece::SectionHeaders));
        pieces.retain(|(_, size, _)| *size > 0);
        pieces
    }

    fn fill(&self, piece: Piece, out: &mut [u8]) {
        let layout = self.layout;
        match piece {
            Piece::Contents(id) => self.contents(id, out),
            Piece::Relocations(id) => self.relocations(id, bytemuck::cast_slice_mut(out)),
            Piece::Made(out_id) => {
                out.copy_from_slice(&self.referrer.plan.sections[out_id.index()].made)
            }
            Piece::Data(out_id, number) => {
                let section = &self.referrer.plan.sections[out_id.index()];
                let (_, bytes) = &section.data[number as usize];
                out[..bytes.len()].copy_from_slice(bytes);
            }
            Piece::Group(index) => {
                for (slot, word) in out.chunks_exact_mut(4).zip(&layout.groups[index]) {
                    slot.copy_from_slice(&word.to_le_bytes());
                }
            }
            Piece::Header => out.copy_from_slice(bytemuck::bytes_of(&layout.ehdr())),
            Piece::Symbols => {
                let symbols: &mut [Sym] = bytemuck::cast_slice_mut(out);
                symbols.copy_from_slice(&self.symtab.symbols);
                for (sym, section) in symbols.iter_mut().zip(&self.symtab.sections) {
                    if let Some(section) = section {
                        let header = layout.header_of(*section);
                        sym.st_shndx = SectionIndex::of_header(header).st_shndx();
                    }
                }
            }
            Piece::SymbolSections => {
                for (word, section) in out.chunks_exact_mut(4).zip(&self.symtab.sections) {
                    let header = section.map_or(0, |section| layout.header_of(section));
                    let extended = SectionIndex::of_header(header).extended();
                    word.copy_from_slice(&extended.to_le_bytes());
                }
            }
            Piece::SymbolNames => out.copy_from_slice(self.symtab.strings.bytes()),
            Piece::SectionNames => out.copy_from_slice(layout.names.bytes()),
            Piece::SectionHeaders => out.copy_from_slice(bytemuck::cast_slice(&layout.shdrs)),
        }
    }

    fn contents(&self, id: SectionId, out: &mut [u8]) {
        let input = self.referrer.sections.at(self.referrer.files, id);
        let bytes = input.bytes();
        let Some(section) = input.header() else {
            return;
        };
        if let Some(frames) = self.referrer.frames.of(id) {
            frames.copy(bytes, out);
            return;
        }
        let (contents, padding) = out.split_at_mut(bytes.len().min(out.len()));
        contents.copy_from_slice(&bytes[..contents.len()]);
        if section.flags & shf::EXEC != 0 {
            // It can be run through: `.init` is put together so.
            padding.fill(NOP);
        }
        if section.flags & shf::ALLOC == 0 && is_debug(section.name) {
            self.bury(input, section.name, contents);
        }
    }

    /// Where a relocation of debugging information is left out, its place says that what it meant is gone.
    fn bury(&self, section: SectionRef, name: &[u8], contents: &mut [u8]) {
        section.fixups().for_each(|fixup| {
            if self.referrer.reference(section.file, &fixup) == Ok(Reference::Gone) {
                let size = reloc::howto(fixup.r_type).field.size();
                let place = usize::try_from(fixup.offset)
                    .ok()
                    .and_then(|at| contents.get_mut(at..at.checked_add(size)?));
                if let Some(place) = place {
                    place.copy_from_slice(&tombstone(name).to_le_bytes()[..size]);
                }
            }
        });
    }

    fn relocations(&self, id: SectionId, out: &mut [Rela]) {
        let (file, _) = self.referrer.sections.origin(id);
        let mut slots = out.iter_mut();
        self.referrer.for_each(id, |fixup, place| {
            let symbol = match self.referrer.reference_of(id, &fixup) {
                Ok(Reference::Nothing) => 0,
                Ok(Reference::Section(section, addend)) => {
                    let fixup = Fixup { addend, ..fixup };
                    let symbol = self.symtab.of_section[section.index()];
                    return put(slots.next(), &fixup, place, symbol);
                }
                Ok(Reference::Local(index)) => self.symtab.of_local[file.index()][index as usize],
                Ok(Reference::Global(id)) => self.symtab.of_global[id.index()],
                // Those that are wrong were reported; there is no output.
                Ok(Reference::Gone) | Err(_) => return,
            };
            put(slots.next(), &fixup, place, symbol);
        });
    }
}

fn put(slot: Option<&mut Rela>, fixup: &Fixup, place: u64, symbol: u32) {
    if let Some(slot) = slot {
        *slot = Rela::new(place, fixup.r_type, symbol, fixup.addend);
    }
}

/// Where the build id goes in the file, if it has one.
pub fn build_id_offset(layout: &Layout, plan: &Plan) -> Option<u64> {
    let index = plan
        .sections
        .iter()
        .position(|section| section.name == b".note.gnu.build-id" && !section.made.is_empty())?;
    Some(layout.contents[index].offset + NOTE_HEADER_SIZE as u64)
}

/// The output's `EI_OSABI`: that of GNU systems if some input says so, as what it has only they know.
pub fn os_abi(files: &Files, linked: &[bool]) -> u8 {
    let gnu = files.iter().zip(linked).any(|((_, file), linked)| {
        let object = file.object().filter(|_| *linked);
        object.is_some_and(|object| object.os_abi() == c::ELFOSABI_GNU)
    });
    if gnu { c::ELFOSABI_GNU } else { 0 }
}
