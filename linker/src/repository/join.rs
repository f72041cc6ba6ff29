//! Joining: a compilation becomes an ELF relocatable object again, for
//! linkers and tools that know no tickets.
//!
//! The inverse of [`split`](crate::repository::split), up to what nobody can see: the order of FDEs, the
//! packing of mergeable sections, and labels. Splitting the result gives the same
//! compilation with the same digest, which is how the tests hold the two to each other.
//!
//! Sections are laid out as GNU as does: groups first (gABI: a group's header
//! precedes its members'), then the members' sections in order, pieces gathered into a
//! section for each class, relocations, symbols, strings. All FDEs and CIEs go into
//! one `.eh_frame`, where the first CIE was, CIEs first.

use crate::repository::split::piece_section_name;
use format_spec::fragment::{FIXUP_CIE, SectionKind, SectionRecord, WideFixupRecord};
use format_spec::program::{CompilationHeader, SymbolRecord};
use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, Rela64, SectionHeader64, Sym64};
use object::pod;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use store::program::build::{Compilation, Fixups, Fragment, Name, Place, Section, Target};
use tickets::write::null_section_header;

/// Why a compilation cannot be written as an object. Only a damaged compilation
/// cannot: one that a splitter made always can.
#[derive(Debug, thiserror::Error)]
#[error("the compilation contradicts itself: {0}")]
pub struct JoinError(String);

fn contradiction(what: impl Into<String>) -> JoinError {
    JoinError(what.into())
}

/// Writes a compilation as an ELF relocatable object.
///
/// # Errors
/// If an index in the compilation points nowhere.
pub fn join(compilation: &Compilation<'_>) -> Result<Vec<u8>, JoinError> {
    let mut joiner = Joiner::new(compilation);
    joiner.place_groups();
    joiner.place_members()?;
    joiner.place_pieces()?;
    joiner.name_symbols()?;
    joiner.relocate()?;
    joiner.fill_groups()?;
    joiner.finish()
}

/// A section of the object to be.
struct OutSection<'a> {
    name: Cow<'a, [u8]>,
    sh_type: u32,
    flags: u64,
    size: u64,
    align: u64,
    entsize: u64,
    link: u32,
    info: u32,
    bytes: Cow<'a, [u8]>,
    relocations: Vec<Rela64<LE>>,
    /// 1 + group, or 0.
    group: u32,
}

/// A symbol of the object to be.
#[derive(Clone, Copy)]
struct OutSymbol {
    name: u32,
    info: u8,
    other: u8,
    /// Section index, or one of the reserved ones with `reserved` set.
    section: u32,
    reserved: bool,
    value: u64,
    size: u64,
    significant: bool,
}

/// Where a section of the compilation went: section index and offset there.
#[derive(Clone, Copy)]
struct Spot {
    section: u32,
    offset: u64,
}

const NOWHERE: Spot = Spot {
    section: 0,
    offset: 0,
};

/// Names in a string table, each once.
struct Strings<'a> {
    bytes: Vec<u8>,
    known: FxHashMap<Cow<'a, [u8]>, u32>,
}

impl<'a> Strings<'a> {
    fn new() -> Self {
        Strings {
            bytes: vec![0],
            known: FxHashMap::from_iter([(Cow::Borrowed(&[][..]), 0)]),
        }
    }

    fn add(&mut self, string: Cow<'a, [u8]>) -> u32 {
        let bytes = &mut self.bytes;
        *self.known.entry(string).or_insert_with_key(|string| {
            let at = bytes.len() as u32;
            bytes.extend_from_slice(string);
            bytes.push(0);
            at
        })
    }
}

struct Joiner<'c, 'a> {
    from: &'c Compilation<'a>,
    sections: Vec<OutSection<'a>>,
    /// For each section of the compilation.
    spots: Vec<Spot>,
    /// For each piece.
    piece_spots: Vec<Spot>,
    /// The `.eh_frame` of all CIEs and FDEs, or 0.
    frames: u32,
    symbols: Vec<OutSymbol>,
    strings: Strings<'a>,
    /// For each symbol of the compilation, its index in the object.
    symbol_index: Vec<u32>,
    /// For each section of the object the index of its section symbol, or 0.
    section_symbol: Vec<u32>,
    /// For each piece the index of its label, or 0.
    label: Vec<u32>,
    first_global: u32,
}

/// How a fixup is written: symbol index and addend.
type Reference = (u32, i64);

impl<'c, 'a> Joiner<'c, 'a> {
    fn new(from: &'c Compilation<'a>) -> Self {
        Joiner {
            from,
            sections: vec![OutSection {
                name: Cow::Borrowed(&[]),
                sh_type: elf::SHT_NULL,
                flags: 0,
                size: 0,
                align: 0,
                entsize: 0,
                link: 0,
                info: 0,
                bytes: Cow::Borrowed(&[]),
                relocations: Vec::new(),
                group: 0,
            }],
            spots: vec![NOWHERE; from.sections.len()],
            piece_spots: vec![NOWHERE; from.pieces.len()],
            frames: 0,
            symbols: Vec::new(),
            strings: Strings::new(),
            symbol_index: vec![0; from.symbols.len()],
            section_symbol: Vec::new(),
            label: vec![0; from.pieces.len()],
            first_global: 0,
        }
    }

    fn push(&mut self, section: OutSection<'a>) -> u32 {
        self.sections.push(section);
        self.sections.len() as u32 - 1
    }

    fn place_groups(&mut self) {
        for group in &self.from.groups {
            self.push(OutSection {
                name: Cow::Borrowed(b".group"),
                sh_type: elf::SHT_GROUP,
                flags: 0,
                size: 0,
                align: 4,
                entsize: 4,
                link: 0,
                info: 0,
                bytes: Cow::Owned(group.flags.to_le_bytes().to_vec()),
                relocations: Vec::new(),
                group: 0,
            });
        }
    }

    fn full_name(&self, fragment: &Fragment, section: &Section<'a>) -> Cow<'a, [u8]> {
        let base = self.from.name(section.name);
        if section.bits & SectionRecord::SUFFIXED == 0 {
            return Cow::Borrowed(base);
        }
        let mut name = base.to_vec();
        name.push(b'.');
        name.extend_from_slice(self.from.name(fragment.suffix));
        Cow::Owned(name)
    }

    fn place_members(&mut self) -> Result<(), JoinError> {
        let from = self.from;
        let mut fdes = Vec::new();
        for fragment in &from.fragments {
            if fragment.group as usize > from.groups.len() {
                return Err(contradiction("a member is in a group that does not exist"));
            }
            for number in fragment.sections.clone() {
                let section = &from.sections[number as usize];
                let whole = section.bits & SectionRecord::WHOLE_UNWIND != 0;
                if section.kind == SectionKind::Unwind && !whole {
                    if section.bits & SectionRecord::CIE == 0 {
                        fdes.push(number);
                    } else {
                        self.append_frames(section, number);
                    }
                    continue;
                }
                let name = self.full_name(fragment, section);
                let mut flags = u64::from(section.sh_flags);
                if fragment.group != 0 {
                    flags |= u64::from(elf::SHF_GROUP);
                }
                let index = self.push(OutSection {
                    name,
                    sh_type: section.sh_type,
                    flags,
                    size: section.size,
                    align: 1u64 << section.align_log2.min(63),
                    entsize: u64::from(section.entsize),
                    link: 0,
                    info: 0,
                    bytes: section.bytes.clone(),
                    relocations: Vec::new(),
                    group: fragment.group,
                });
                self.spots[number as usize] = Spot {
                    section: index,
                    offset: 0,
                };
            }
        }
        for number in fdes {
            self.append_frames(&from.sections[number as usize], number);
        }
        self.fill_frames();
        Ok(())
    }

    /// Fills the common `.eh_frame` up to its alignment as assemblers do, in its last record: zeros behind it would end the list.
    fn fill_frames(&mut self) {
        let frames = &mut self.sections[self.frames as usize];
        let size = frames.bytes.len();
        let filling =
            size.next_multiple_of(usize::try_from(frames.align).unwrap_or(1).clamp(1, 8)) - size;
        if self.frames == 0 || filling == 0 || !filling.is_multiple_of(4) {
            return;
        }
        let word = |bytes: &[u8], at: usize| -> Option<usize> {
            let word = bytes.get(at..)?.first_chunk::<4>()?;
            Some(u32::from_le_bytes(*word) as usize)
        };
        let bytes = frames.bytes.to_mut();
        // Where the last record is; it is not the list's end.
        let mut last = 0;
        loop {
            let Some(length) = word(bytes, last).filter(|length| *length > 0) else {
                return;
            };
            match last + 4 + length {
                next if next < size => last = next,
                next if next == size => break,
                _ => return,
            }
        }
        let length = word(bytes, last).unwrap_or_default() + filling;
        bytes[last..last + 4].copy_from_slice(&(length as u32).to_le_bytes());
        bytes.resize(size + filling, 0);
        frames.size = bytes.len() as u64;
    }

    /// Appends CIEs or FDEs to the common `.eh_frame`.
    fn append_frames(&mut self, section: &Section<'a>, number: u32) {
        if self.frames == 0 {
            let name = Cow::Borrowed(self.from.name(section.name));
            self.frames = self.push(OutSection {
                name,
                sh_type: section.sh_type,
                flags: u64::from(section.sh_flags),
                size: 0,
                align: 1,
                entsize: 0,
                link: 0,
                info: 0,
                bytes: Cow::Owned(Vec::new()),
                relocations: Vec::new(),
                group: 0,
            });
        }
        let frames = &mut self.sections[self.frames as usize];
        self.spots[number as usize] = Spot {
            section: self.frames,
            offset: frames.size,
        };
        frames.bytes.to_mut().extend_from_slice(&section.bytes);
        frames.size = frames.bytes.len() as u64;
        frames.align = frames.align.max(1u64 << section.align_log2.min(63));
    }

    fn place_pieces(&mut self) -> Result<(), JoinError> {
        let mut classes: FxHashMap<(Name, u32, u32, u8), u32> = FxHashMap::default();
        for (index, piece) in self.from.pieces.iter().enumerate() {
            let class = (
                piece.section_name,
                piece.sh_flags,
                piece.entsize,
                piece.align_log2,
            );
            let section = match classes.get(&class) {
                Some(section) => *section,
                None => {
                    let name = piece_section_name(
                        self.from.name(piece.section_name),
                        piece.sh_flags & elf::SHF_STRINGS != 0,
                        piece.entsize.into(),
                        1 << piece.align_log2.min(63),
                    );
                    let section = self.push(OutSection {
                        name,
                        sh_type: elf::SHT_PROGBITS,
                        flags: u64::from(piece.sh_flags),
                        size: 0,
                        align: 1u64 << piece.align_log2.min(63),
                        entsize: u64::from(piece.entsize),
                        link: 0,
                        info: 0,
                        bytes: Cow::Owned(Vec::new()),
                        relocations: Vec::new(),
                        group: 0,
                    });
                    classes.insert(class, section);
                    section
                }
            };
            let out = &mut self.sections[section as usize];
            let bytes = out.bytes.to_mut();
            // Fill up to the alignment with whole elements (empty strings, zero constants).
            let align = usize::try_from(out.align).unwrap_or(usize::MAX);
            let entsize = (piece.entsize as usize).max(1);
            if align > entsize && align % entsize == 0 && align <= 1 << 16 {
                bytes.resize(bytes.len().next_multiple_of(align), 0);
            }
            self.piece_spots[index] = Spot {
                section,
                offset: bytes.len() as u64,
            };
            bytes.extend_from_slice(piece.bytes);
            out.size = bytes.len() as u64;
        }
        Ok(())
    }

    /// Numbers the symbols: locals, labels of pieces, section symbols, signatures of groups that
    /// nothing else names, globals.
    fn name_symbols(&mut self) -> Result<(), JoinError> {
        let from = self.from;
        let null = OutSymbol {
            name: 0,
            info: 0,
            other: 0,
            section: 0,
            reserved: true,
            value: 0,
            size: 0,
            significant: false,
        };
        self.symbols.push(null);
        let first_global = from.first_global as usize;
        if from.symbols.len() < first_global.max(1) {
            return Err(contradiction("the first global symbol does not exist"));
        }
        for index in 1..first_global {
            if from.symbols[index].info & 0xf != elf::STT_SECTION {
                self.copy_symbol(index)?;
            }
        }
        self.section_symbol = vec![0; self.sections.len()];
        self.find_labels_and_section_symbols()?;
        for index in 0..self.label.len() {
            if self.label[index] != 0 {
                self.label[index] = self.symbols.len() as u32;
                let spot = self.piece_spots[index];
                let name = self
                    .strings
                    .add(Cow::Owned(format!(".Lpiece{index}").into_bytes()));
                self.symbols.push(OutSymbol {
                    name,
                    section: spot.section,
                    reserved: false,
                    value: spot.offset,
                    ..null
                });
            }
        }
        for section in 0..self.section_symbol.len() {
            if self.section_symbol[section] != 0 {
                self.section_symbol[section] = self.symbols.len() as u32;
                self.symbols.push(OutSymbol {
                    info: elf::STT_SECTION,
                    section: section as u32,
                    reserved: false,
                    ..null
                });
            }
        }
        for (index, symbol) in from.symbols.iter().enumerate().take(first_global) {
            if symbol.info & 0xf == elf::STT_SECTION
                && let Place::Section(section) = symbol.place
            {
                let spot = self.spot(section)?;
                let own = self.section_symbol[spot.section as usize];
                self.symbol_index[index] = own;
                if own != 0 && symbol.bits & SymbolRecord::ADDRESS_SIGNIFICANT != 0 {
                    self.symbols[own as usize].significant = true;
                }
            }
        }
        let named: FxHashMap<Name, usize> = from
            .symbols
            .iter()
            .enumerate()
            .skip(1)
            .filter(|(_, symbol)| !matches!(symbol.info & 0xf, elf::STT_SECTION | elf::STT_FILE))
            .map(|(index, symbol)| (symbol.name, index))
            .collect();
        for (group, record) in from.groups.iter().enumerate() {
            if named.contains_key(&record.signature) {
                continue;
            }
            // As GNU as does: a local symbol in the group's own section.
            let section = group as u32 + 1;
            self.sections[section as usize].info = self.symbols.len() as u32;
            let name = self.strings.add(Cow::Borrowed(from.name(record.signature)));
            self.symbols.push(OutSymbol {
                name,
                section,
                reserved: false,
                ..null
            });
        }
        self.first_global = self.symbols.len() as u32;
        for index in first_global.max(1)..from.symbols.len() {
            self.copy_symbol(index)?;
        }
        for (group, record) in from.groups.iter().enumerate() {
            if let Some(&symbol) = named.get(&record.signature) {
                self.sections[group + 1].info = self.symbol_index[symbol];
            }
        }
        Ok(())
    }

    fn spot(&self, section: u32) -> Result<Spot, JoinError> {
        self.spots
            .get(section as usize)
            .copied()
            .ok_or_else(|| contradiction("a symbol is in a section that does not exist"))
    }

    fn copy_symbol(&mut self, index: usize) -> Result<(), JoinError> {
        let symbol = &self.from.symbols[index];
        let mut value = symbol.value;
        let (section, reserved) = match symbol.place {
            Place::Undefined => (u32::from(elf::SHN_UNDEF), true),
            Place::Absolute => (u32::from(elf::SHN_ABS), true),
            Place::Common => (u32::from(elf::SHN_COMMON), true),
            Place::Section(section) => {
                let spot = self.spot(section)?;
                value = value.wrapping_add(spot.offset);
                (spot.section, false)
            }
            Place::Piece(piece) => {
                let spot = self
                    .piece_spots
                    .get(piece as usize)
                    .ok_or_else(|| contradiction("a symbol is in a piece that does not exist"))?;
                value = value.wrapping_add(spot.offset);
                (spot.section, false)
            }
        };
        self.symbol_index[index] = self.symbols.len() as u32;
        let name = self.strings.add(Cow::Borrowed(self.from.name(symbol.name)));
        self.symbols.push(OutSymbol {
            name,
            info: symbol.info,
            other: symbol.other,
            section,
            reserved,
            value,
            size: symbol.size,
            significant: symbol.bits & SymbolRecord::ADDRESS_SIGNIFICANT != 0,
        });
        Ok(())
    }

    /// Calls `visit` for every fixup with its fragment and section.
    fn for_each_fixup(
        &self,
        mut visit: impl FnMut(&Self, &Fragment, u32, WideFixupRecord) -> Result<(), JoinError>,
    ) -> Result<(), JoinError> {
        for fragment in &self.from.fragments {
            for number in fragment.sections.clone() {
                match &self.from.sections[number as usize].fixups {
                    Fixups::Narrow(range) => {
                        for fixup in &self.from.fixups[range.start as usize..range.end as usize] {
                            let wide = WideFixupRecord {
                                offset: u64::from(fixup.offset),
                                addend: i64::from(fixup.addend),
                                target: fixup.target().unwrap_or(WideFixupRecord::NO_TARGET),
                                fixup_type: fixup.fixup_type(),
                            };
                            visit(self, fragment, number, wide)?;
                        }
                    }
                    Fixups::Wide(range) => {
                        let fixups =
                            &self.from.wide_fixups[range.start as usize..range.end as usize];
                        for fixup in fixups {
                            visit(self, fragment, number, *fixup)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn target(&self, fragment: &Fragment, index: u32) -> Result<Target, JoinError> {
        self.from.targets[fragment.targets.start as usize..fragment.targets.end as usize]
            .get(index as usize)
            .copied()
            .ok_or_else(|| contradiction("a fixup's target does not exist"))
    }

    /// The compilation's symbol to which a bindable target is bound.
    fn bound(&self, fragment: &Fragment, index: u32) -> Result<usize, JoinError> {
        self.from.bindings[fragment.bindings.start as usize..fragment.bindings.end as usize]
            .get(index as usize)
            .map(|symbol| *symbol as usize)
            .filter(|symbol| *symbol < self.from.symbols.len())
            .ok_or_else(|| contradiction("a target is not bound"))
    }

    /// A reference into a piece is written with the section symbol if the addend
    /// then selects the right piece, else with a label (gABI leaves it open; this is what
    /// assemblers do and linkers expect).
    fn needs_label(&self, piece: u32, addend: i64) -> Result<bool, JoinError> {
        let piece = self
            .from
            .pieces
            .get(piece as usize)
            .ok_or_else(|| contradiction("a target is a piece that does not exist"))?;
        Ok(u64::try_from(addend).map_or(true, |addend| addend >= piece.bytes.len() as u64))
    }

    fn find_labels_and_section_symbols(&mut self) -> Result<(), JoinError> {
        let mut label = std::mem::take(&mut self.label);
        let mut section_symbol = std::mem::take(&mut self.section_symbol);
        self.for_each_fixup(|this, fragment, _, fixup| {
            if fixup.target == WideFixupRecord::NO_TARGET || fixup.fixup_type == FIXUP_CIE {
                return Ok(());
            }
            match this.target(fragment, fixup.target)? {
                Target::Piece(piece) => {
                    if this.needs_label(piece, fixup.addend)? {
                        label[piece as usize] = 1;
                    } else {
                        let spot = this.piece_spots[piece as usize];
                        section_symbol[spot.section as usize] = 1;
                    }
                }
                Target::Section(local) => {
                    let spot = this.spot(fragment.sections.start.saturating_add(local))?;
                    section_symbol[spot.section as usize] = 1;
                }
                _ => {
                    let symbol = &this.from.symbols[this.bound(fragment, fixup.target)?];
                    if symbol.info & 0xf == elf::STT_SECTION
                        && let Place::Section(section) = symbol.place
                    {
                        section_symbol[this.spot(section)?.section as usize] = 1;
                    }
                }
            }
            Ok(())
        })?;
        self.label = label;
        self.section_symbol = section_symbol;
        Ok(())
    }

    fn reference(
        &self,
        fragment: &Fragment,
        fixup: &WideFixupRecord,
    ) -> Result<Reference, JoinError> {
        if fixup.target == WideFixupRecord::NO_TARGET {
            return Ok((0, fixup.addend));
        }
        let in_section = |spot: Spot| {
            let addend = fixup.addend.wrapping_add(spot.offset as i64);
            (self.section_symbol[spot.section as usize], addend)
        };
        match self.target(fragment, fixup.target)? {
            Target::Piece(piece) => {
                if self.needs_label(piece, fixup.addend)? {
                    Ok((self.label[piece as usize], fixup.addend))
                } else {
                    Ok(in_section(self.piece_spots[piece as usize]))
                }
            }
            Target::Section(local) => Ok(in_section(
                self.spot(fragment.sections.start.saturating_add(local))?,
            )),
            _ => {
                let index = self.bound(fragment, fixup.target)?;
                let symbol = &self.from.symbols[index];
                match symbol.place {
                    Place::Section(section) if symbol.info & 0xf == elf::STT_SECTION => {
                        Ok(in_section(self.spot(section)?))
                    }
                    _ => Ok((self.symbol_index[index], fixup.addend)),
                }
            }
        }
    }

    fn relocate(&mut self) -> Result<(), JoinError> {
        let mut relocations: Vec<(u32, Rela64<LE>)> = Vec::with_capacity(self.from.fixups.len());
        let mut pointers: Vec<(u64, u32)> = Vec::new();
        self.for_each_fixup(|this, fragment, number, fixup| {
            let spot = this.spots[number as usize];
            let place = spot.offset.wrapping_add(fixup.offset);
            if fixup.fixup_type == FIXUP_CIE {
                let symbol = &this.from.symbols[this.bound(fragment, fixup.target)?];
                let Place::Section(cie) = symbol.place else {
                    return Err(contradiction("an FDE's CIE is not a section"));
                };
                let distance = place.checked_sub(this.spot(cie)?.offset);
                let distance = distance
                    .and_then(|distance| u32::try_from(distance).ok())
                    .ok_or_else(|| contradiction("an FDE stands before its CIE"))?;
                pointers.push((place, distance));
                return Ok(());
            }
            let (symbol, addend) = this.reference(fragment, &fixup)?;
            relocations.push((
                spot.section,
                Rela64 {
                    r_offset: object::U64::new(LE, place),
                    r_info: Rela64::r_info(LE, false, symbol, fixup.fixup_type),
                    r_addend: object::I64::new(LE, addend),
                },
            ));
            Ok(())
        })?;
        for (section, relocation) in relocations {
            self.sections[section as usize].relocations.push(relocation);
        }
        // Linkers go through `.eh_frame` and its relocations side by side.
        self.sections[self.frames as usize]
            .relocations
            .sort_by_key(|relocation| relocation.r_offset.get(LE));
        for (place, distance) in pointers {
            let at = place as usize;
            self.sections[self.frames as usize]
                .bytes
                .to_mut()
                .get_mut(at..at + 4)
                .ok_or_else(|| contradiction("a CIE pointer is beyond its section"))?
                .copy_from_slice(&distance.to_le_bytes());
        }
        self.link_sections()
    }

    fn link_sections(&mut self) -> Result<(), JoinError> {
        for fragment in &self.from.fragments {
            for number in fragment.sections.clone() {
                let section = &self.from.sections[number as usize];
                if section.link == 0 {
                    continue;
                }
                let linked = match self.target(fragment, section.link - 1)? {
                    Target::Section(local) => fragment.sections.start.saturating_add(local),
                    Target::Piece(_) => {
                        return Err(contradiction("a section is linked to a piece"));
                    }
                    _ => match self.from.symbols[self.bound(fragment, section.link - 1)?].place {
                        Place::Section(section) => section,
                        _ => return Err(contradiction("a section is linked to no section")),
                    },
                };
                let to = self.spot(linked)?.section;
                let at = self.spots[number as usize].section;
                self.sections[at as usize].link = to;
            }
        }
        Ok(())
    }

    /// Appends the tables of relocations, then writes each group's members.
    fn fill_groups(&mut self) -> Result<(), JoinError> {
        let symbol_table = self.symbol_table_index();
        for index in 0..self.sections.len() {
            let section = &mut self.sections[index];
            let relocations = std::mem::take(&mut section.relocations);
            if relocations.is_empty() {
                continue;
            }
            let mut name = b".rela".to_vec();
            name.extend_from_slice(&section.name);
            let group = section.group;
            let group_flag = if group != 0 { elf::SHF_GROUP } else { 0 };
            let bytes = pod::bytes_of_slice(&relocations).to_vec();
            self.push(OutSection {
                name: Cow::Owned(name),
                sh_type: elf::SHT_RELA,
                flags: u64::from(elf::SHF_INFO_LINK | group_flag),
                size: bytes.len() as u64,
                align: 8,
                entsize: size_of::<Rela64<LE>>() as u64,
                link: symbol_table,
                info: index as u32,
                bytes: Cow::Owned(bytes),
                relocations: Vec::new(),
                group,
            });
        }
        for index in 1..self.sections.len() {
            let group = self.sections[index].group as usize;
            if group != 0 {
                self.sections[group]
                    .bytes
                    .to_mut()
                    .extend_from_slice(&(index as u32).to_le_bytes());
            }
        }
        for group in &mut self.sections[1..=self.from.groups.len()] {
            group.size = group.bytes.len() as u64;
            group.link = symbol_table;
        }
        Ok(())
    }

    /// The symbol table comes after everything that has contents.
    fn symbol_table_index(&self) -> u32 {
        let tables = self
            .sections
            .iter()
            .filter(|section| !section.relocations.is_empty())
            .count();
        (self.sections.len() + tables) as u32
    }

    fn finish(mut self) -> Result<Vec<u8>, JoinError> {
        let symbol_table = self.sections.len() as u32;
        let (entries, extended) = self.symbol_entries();
        let has_addrsig = self.from.bits & CompilationHeader::ADDRSIG != 0;
        let strings = std::mem::take(&mut self.strings.bytes);
        let plain = |name: &'static [u8], sh_type, bytes: Vec<u8>, align| OutSection {
            name: Cow::Borrowed(name),
            sh_type,
            flags: 0,
            size: bytes.len() as u64,
            align,
            entsize: 0,
            link: 0,
            info: 0,
            bytes: Cow::Owned(bytes),
            relocations: Vec::new(),
            group: 0,
        };
        let mut table = plain(b".symtab", elf::SHT_SYMTAB, entries, 8);
        table.entsize = size_of::<Sym64<LE>>() as u64;
        table.link = symbol_table + 1;
        table.info = self.first_global;
        self.push(table);
        self.push(plain(b".strtab", elf::SHT_STRTAB, strings, 1));
        if let Some(extended) = extended {
            let mut section = plain(b".symtab_shndx", elf::SHT_SYMTAB_SHNDX, extended, 4);
            section.entsize = 4;
            section.link = symbol_table;
            self.push(section);
        }
        if has_addrsig {
            let mut list = Vec::new();
            for (index, symbol) in self.symbols.iter().enumerate() {
                if symbol.significant {
                    push_uleb128(&mut list, index as u64);
                }
            }
            let mut section = plain(
                b".llvm_addrsig",
                crate::repository::split::SHT_LLVM_ADDRSIG,
                list,
                1,
            );
            section.flags = u64::from(elf::SHF_EXCLUDE);
            section.link = symbol_table;
            self.push(section);
        }
        Ok(self.write())
    }

    /// The symbol table and, if a section index does not fit there, the table of
    /// whole indices (gABI, `SHT_SYMTAB_SHNDX`).
    fn symbol_entries(&self) -> (Vec<u8>, Option<Vec<u8>>) {
        let mut entries = Vec::with_capacity(self.symbols.len() * size_of::<Sym64<LE>>());
        let mut extended = Vec::new();
        let mut needed = false;
        for symbol in &self.symbols {
            let large = !symbol.reserved && symbol.section >= u32::from(elf::SHN_LORESERVE);
            needed |= large;
            let index = if large {
                elf::SHN_XINDEX
            } else {
                symbol.section as u16
            };
            extended.extend_from_slice(&if large { symbol.section } else { 0 }.to_le_bytes());
            let entry = Sym64::<LE> {
                st_name: object::U32::new(LE, symbol.name),
                st_info: symbol.info,
                st_other: symbol.other,
                st_shndx: object::U16::new(LE, index),
                st_value: object::U64::new(LE, symbol.value),
                st_size: object::U64::new(LE, symbol.size),
            };
            entries.extend_from_slice(pod::bytes_of(&entry));
        }
        (entries, needed.then_some(extended))
    }

    fn write(mut self) -> Vec<u8> {
        let mut names = Strings::new();
        let mut name_of: Vec<u32> = self
            .sections
            .iter()
            .map(|section| names.add(section.name.clone()))
            .collect();
        name_of.push(names.add(Cow::Borrowed(b".shstrtab")));
        let names_index = self.push(OutSection {
            name: Cow::Borrowed(b".shstrtab"),
            sh_type: elf::SHT_STRTAB,
            flags: 0,
            size: names.bytes.len() as u64,
            align: 1,
            entsize: 0,
            link: 0,
            info: 0,
            bytes: Cow::Owned(names.bytes),
            relocations: Vec::new(),
            group: 0,
        });
        let mut file = vec![0u8; size_of::<FileHeader64<LE>>()];
        let mut headers: Vec<u8> = Vec::new();
        for (section, name) in self.sections.iter().zip(&name_of) {
            // A file offset need only be aligned for who maps or reads in place.
            let align = section.align.clamp(1, 64) as usize;
            if section.sh_type != elf::SHT_NULL {
                file.resize(file.len().next_multiple_of(align), 0);
            }
            let header = SectionHeader64::<LE> {
                sh_name: object::U32::new(LE, *name),
                sh_type: object::U32::new(LE, section.sh_type),
                sh_flags: object::U64::new(LE, section.flags),
                sh_addr: object::U64::new(LE, 0),
                sh_offset: object::U64::new(
                    LE,
                    if section.sh_type == elf::SHT_NULL {
                        0
                    } else {
                        file.len() as u64
                    },
                ),
                sh_size: object::U64::new(LE, section.size),
                sh_link: object::U32::new(LE, section.link),
                sh_info: object::U32::new(LE, section.info),
                sh_addralign: object::U64::new(LE, section.align),
                sh_entsize: object::U64::new(LE, section.entsize),
            };
            headers.extend_from_slice(pod::bytes_of(&header));
            file.extend_from_slice(&section.bytes);
        }
        file.resize(file.len().next_multiple_of(8), 0);
        let table = file.len() as u64;
        // gABI: numbers that do not fit the ELF header go into the null section's.
        let count = self.sections.len();
        let mut null = null_section_header();
        let small = |number: usize| {
            u16::try_from(number)
                .ok()
                .filter(|number| *number < elf::SHN_LORESERVE)
        };
        if small(count).is_none() {
            null.sh_size = object::U64::new(LE, count as u64);
        }
        if small(names_index as usize).is_none() {
            null.sh_link = object::U32::new(LE, names_index);
        }
        headers[..size_of::<SectionHeader64<LE>>()].copy_from_slice(pod::bytes_of(&null));
        file.extend_from_slice(&headers);
        let header = FileHeader64::<LE> {
            e_ident: elf::Ident {
                magic: elf::ELFMAG,
                class: elf::ELFCLASS64,
                data: elf::ELFDATA2LSB,
                version: elf::EV_CURRENT,
                os_abi: self.from.os_abi,
                abi_version: self.from.abi_version,
                padding: [0; 7],
            },
            e_type: object::U16::new(LE, elf::ET_REL),
            e_machine: object::U16::new(LE, self.from.machine),
            e_version: object::U32::new(LE, u32::from(elf::EV_CURRENT)),
            e_entry: object::U64::new(LE, 0),
            e_phoff: object::U64::new(LE, 0),
            e_shoff: object::U64::new(LE, table),
            e_flags: object::U32::new(LE, self.from.e_flags),
            e_ehsize: object::U16::new(LE, size_of::<FileHeader64<LE>>() as u16),
            e_phentsize: object::U16::new(LE, 0),
            e_phnum: object::U16::new(LE, 0),
            e_shentsize: object::U16::new(LE, size_of::<SectionHeader64<LE>>() as u16),
            e_shnum: object::U16::new(LE, small(count).unwrap_or(0)),
            e_shstrndx: object::U16::new(
                LE,
                small(names_index as usize).unwrap_or(elf::SHN_XINDEX),
            ),
        };
        file[..size_of::<FileHeader64<LE>>()].copy_from_slice(pod::bytes_of(&header));
        file
    }
}

fn push_uleb128(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}
