//! Writing the compilation: sections, targets, fixups, bindings, symbols.
//!
//! For each fragment the fixups are gathered first, with targets numbered as
//! they occur; then the targets are put in their final order (bindable ones
//! first, otherwise by first use) and the fixups written in the narrow form where
//! it holds them. What a target has been numbered is kept in arrays indexed by symbol,
//! section and piece with the fragment's number beside it, so that nothing is
//! cleared or hashed between fragments.

use super::SplitError;
use super::frames::{CIE_POINTER, Entry};
use super::input::Input;
use super::kind::kind;
use super::merge;
use super::names;
use super::plan::{Content, EntryRef, NONE, Plan};
use bumpalo::Bump;
use format_spec::fragment::{
    FIXUP_CIE, FixupRecord, SectionKind, SectionRecord, WideFixupRecord, local_name,
};
use format_spec::program::{CompilationHeader, SymbolRecord};
use hashbrown::HashTable;
use object::LittleEndian as LE;
use object::elf::{self, Rela64};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::borrow::Cow;
use std::hash::BuildHasher as _;
use std::ops::Range;
use store::program::build::{
    Compilation, Fixups, Fragment, Group, Name, Piece, Place, Section, Symbol, Target,
};

/// What a fixup refers to, in terms of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    /// A symbol that is not a section symbol.
    Symbol(u32),
    /// A section.
    Section(u32),
    /// A CIE, by its index among the plan's.
    Cie(u32),
    /// A piece of the compilation.
    Piece(u32),
}

/// What a bindable target is bound to.
#[derive(Clone, Copy)]
enum Bound {
    /// A symbol of the object.
    Symbol(u32),
    /// The section symbol of a section of the compilation.
    Section(u32),
}

/// For each thing the fragment that used it last, and its number there.
type Slots = Vec<(u32, u32)>;

struct Emitter<'i, 'a> {
    input: &'i Input<'a>,
    plan: &'i Plan,
    arena: &'a Bump,
    out: Compilation<'a>,
    names: FxHashMap<&'a [u8], Name>,
    /// The numbers of the pieces that there are, with the hashes of their contents. There is room for all, so that it never grows.
    pieces: HashTable<(u64, u32)>,
    /// For each section that is cut, what its pieces have in common, once that is known.
    piece_classes: Vec<Option<(Piece<'a>, u64)>>,
    /// For each symbol the number of its name, once that is known.
    symbol_names: Vec<Option<Name>>,
    /// For each section that is cut, its pieces' numbers.
    piece_numbers: Vec<Vec<u32>>,
    /// For each section its number in the compilation.
    number_of: Vec<u32>,
    /// For each CIE its section's number in the compilation.
    cie_number: Vec<u32>,
    /// For each fragment the number of its first section.
    first_section: Vec<u32>,
    bound: Vec<Bound>,
    used_symbol: Vec<bool>,
    // Of the fragment at hand:
    keys: Vec<Key>,
    symbol_slots: Slots,
    section_slots: Slots,
    cie_slots: Slots,
    piece_slots: Slots,
    /// For each of `keys` its place among the fragment's targets.
    place_of: Vec<u32>,
    pending: Vec<WideFixupRecord>,
    pending_of_section: Vec<Range<usize>>,
}

/// Writes the compilation that `plan` describes.
///
/// # Errors
/// [`SplitError::NotSplittable`] if a relocation or a global symbol refers to a part of the
/// object that is no program.
pub fn emit<'a>(
    input: &Input<'a>,
    plan: Plan,
    arena: &'a Bump,
) -> Result<Compilation<'a>, SplitError> {
    let mut emitter = Emitter::new(input, &plan, arena);
    for fragment in 0..plan.fragments.len() {
        emitter.fragment(fragment as u32)?;
    }
    emitter.symbols()?;
    emitter.out.digest_order = plan.digest_order.clone();
    Ok(emitter.out)
}

impl<'i, 'a> Emitter<'i, 'a> {
    fn new(input: &'i Input<'a>, plan: &'i Plan, arena: &'a Bump) -> Self {
        let header = input.object.header;
        let sections = input.data.len();
        let mut number_of = vec![NONE; sections];
        let mut cie_number = vec![NONE; plan.cies.len()];
        let mut first_section = Vec::with_capacity(plan.fragments.len());
        let mut next = 0;
        for fragment in &plan.fragments {
            first_section.push(next);
            match &fragment.content {
                Content::Sections { sections, fdes } => {
                    for &section in &plan.section_list[sections.clone()] {
                        number_of[section as usize] = next;
                        next += 1;
                    }
                    next += u32::from(!fdes.is_empty());
                }
                Content::Cie(cie) => {
                    cie_number[*cie as usize] = next;
                    next += 1;
                }
                Content::Terminator(_) => next += 1,
            }
        }
        let mut names = FxHashMap::with_capacity_and_hasher(
            input.object.symbols.len() + 16,
            Default::default(),
        );
        names.insert(&[][..], Name(0));
        let mut names_in_order = Vec::with_capacity(input.object.symbols.len() + 16);
        names_in_order.push(&[][..]);
        let relocations = input.relocations.iter().map(|table| table.len()).sum();
        Emitter {
            input,
            plan,
            arena,
            out: Compilation {
                machine: header.e_machine.get(LE),
                os_abi: header.e_ident.os_abi,
                abi_version: header.e_ident.abi_version,
                e_flags: header.e_flags.get(LE),
                bits: if input.address_significant.is_empty() {
                    0
                } else {
                    CompilationHeader::ADDRSIG
                },
                names: names_in_order,
                sections: Vec::with_capacity(next as usize),
                fragments: Vec::with_capacity(plan.fragments.len()),
                symbols: Vec::with_capacity(input.object.symbols.len() + 1),
                targets: Vec::with_capacity(relocations),
                fixups: Vec::with_capacity(relocations + plan.fdes.len()),
                ..Compilation::default()
            },
            names,
            pieces: HashTable::with_capacity(
                (plan.merge.iter().flatten())
                    .map(|merge| merge.piece_count())
                    .sum(),
            ),
            piece_classes: vec![None; sections],
            symbol_names: vec![None; input.object.symbols.len()],
            piece_numbers: plan
                .merge
                .iter()
                .map(|merge| match merge {
                    Some(merge) => vec![NONE; merge.piece_count()],
                    None => Vec::new(),
                })
                .collect(),
            number_of,
            cie_number,
            first_section,
            bound: Vec::with_capacity(relocations),
            used_symbol: vec![false; input.object.symbols.len()],
            keys: Vec::new(),
            place_of: Vec::new(),
            symbol_slots: vec![(NONE, 0); input.object.symbols.len()],
            section_slots: vec![(NONE, 0); sections],
            cie_slots: vec![(NONE, 0); plan.cies.len()],
            piece_slots: Vec::new(),
            pending: Vec::new(),
            pending_of_section: Vec::new(),
        }
    }

    fn name(&mut self, bytes: &'a [u8]) -> Name {
        let names = &mut self.out.names;
        *self.names.entry(bytes).or_insert_with(|| {
            names.push(bytes);
            Name(names.len() as u32 - 1)
        })
    }

    /// The name of what the sections' names end in: mostly that of a symbol, which is wanted as well.
    fn suffix_name(&mut self, sections: &[u32], ending: &'a [u8]) -> Name {
        let input = self.input;
        let first = sections
            .first()
            .and_then(|section| input.first_symbol[*section as usize]);
        match first {
            Some(symbol) if input.symbol(symbol).name == ending => self.symbol_name(symbol),
            _ => self.name(ending),
        }
    }

    /// The name of a symbol. Many targets are one symbol, and names of C++ are long.
    fn symbol_name(&mut self, symbol: u32) -> Name {
        if let Some(name) = self.symbol_names[symbol as usize] {
            return name;
        }
        let name = self.name(self.input.symbol(symbol).name);
        self.symbol_names[symbol as usize] = Some(name);
        name
    }

    /// The name by which a fragment knows a symbol that is local, or the first of a section.
    fn local_name(&mut self, symbol: u32) -> Name {
        let name = self.input.symbol(symbol).name;
        match local_name(name) {
            short if short.len() < name.len() => self.name(short),
            _ => self.symbol_name(symbol),
        }
    }

    fn fragment(&mut self, number: u32) -> Result<(), SplitError> {
        let plan = self.plan;
        let planned = &plan.fragments[number as usize];
        self.keys.clear();
        self.pending.clear();
        self.pending_of_section.clear();
        let first_section = self.out.sections.len();
        let mut suffix = Name(0);
        match &planned.content {
            Content::Sections { sections, fdes } => {
                let sections = &plan.section_list[sections.clone()];
                let ending = sections
                    .iter()
                    .find_map(|&section| names::split_suffix(self.input.section(section).name).1);
                if let Some(ending) = ending {
                    suffix = self.suffix_name(sections, ending);
                }
                for &section in sections {
                    self.section(number, section, ending)?;
                }
                if !fdes.is_empty() {
                    self.unwind(number, &plan.fdes[fdes.clone()], 0)?;
                }
            }
            Content::Cie(cie) => {
                self.unwind(number, &[plan.cies[*cie as usize]], SectionRecord::CIE)?;
            }
            Content::Terminator(entry) => {
                self.unwind(number, &[*entry], SectionRecord::WHOLE_UNWIND)?;
            }
        }
        let (targets, bindings) = self.targets(number);
        self.fixups(first_section);
        self.out.fragments.push(Fragment {
            sections: first_section as u32..self.out.sections.len() as u32,
            targets,
            bindings,
            suffix,
            group: planned.group,
            plain: None,
        });
        Ok(())
    }

    /// A section as it is in the object.
    fn section(
        &mut self,
        fragment: u32,
        number: u32,
        ending: Option<&[u8]>,
    ) -> Result<(), SplitError> {
        let input = self.input;
        let section = input.section(number);
        let index = number as usize;
        let (base, suffix) = names::split_suffix(section.name);
        let suffixed = suffix.is_some() && suffix == ending;
        let name = self.name(if suffixed { base } else { section.name });
        let kind = kind(section, base);
        let link = match section.link() {
            0 => 0,
            link if self.plan.fragment_of[link as usize] == NONE => {
                return Err(SplitError::not_splittable(format!(
                    "section {} is linked to section {}, which is no part of a program",
                    section.display_name(),
                    input.section(link).display_name(),
                )));
            }
            link => 1 + self.slot(fragment, Key::Section(link)),
        };
        let begin = self.pending.len();
        self.relocations(fragment, input.relocations[index], 0, 0)?;
        self.pending_of_section.push(begin..self.pending.len());
        let dropped = elf::SHF_GROUP | elf::SHF_INFO_LINK | elf::SHF_COMPRESSED;
        let mut bits = 0;
        if suffixed {
            bits |= SectionRecord::SUFFIXED;
        }
        if kind == SectionKind::Unwind {
            bits |= SectionRecord::WHOLE_UNWIND;
        }
        self.out.sections.push(Section {
            name,
            kind,
            sh_type: section.sh_type(),
            sh_flags: section.flags() as u32 & !dropped,
            entsize: section.header.sh_entsize.get(LE) as u32,
            align_log2: input.align_log2[index],
            bits,
            link,
            size: input.size[index],
            bytes: Cow::Borrowed(input.data[index]),
            fixups: Fixups::Narrow(0..0),
            frame: None,
        });
        Ok(())
    }

    /// A section made of entries of `.eh_frame`, in the order given.
    fn unwind(&mut self, fragment: u32, entries: &[EntryRef], bits: u8) -> Result<(), SplitError> {
        let plan = self.plan;
        let input = self.input;
        let entry_of = |entry: &EntryRef| -> (&'i Entry, usize) {
            let frame = &plan.frames[entry.frame as usize];
            (&frame.entries[entry.entry as usize], frame.section as usize)
        };
        let size = entries
            .iter()
            .map(|entry| entry_of(entry).0.bytes.len())
            .sum();
        let bytes = self.arena.alloc_slice_fill_copy(size, 0u8);
        let begin = self.pending.len();
        let mut at = 0;
        for entry in entries {
            let (parts, section) = entry_of(entry);
            let length = parts.bytes.len();
            let to = &mut bytes[at..at + length];
            to.copy_from_slice(&input.data[section][parts.bytes.clone()]);
            if parts.filling > 0 {
                to[..4].copy_from_slice(&(length as u32 - 4).to_le_bytes());
            }
            if bits == 0 {
                to[CIE_POINTER..CIE_POINTER + 4].fill(0);
                let cie = plan.cie_of[entry.frame as usize][entry.entry as usize];
                let target = self.slot(fragment, Key::Cie(cie));
                self.pending.push(WideFixupRecord {
                    offset: (at + CIE_POINTER) as u64,
                    addend: 0,
                    target,
                    fixup_type: FIXUP_CIE,
                });
            }
            let relocations = &input.relocations[section][parts.relocations.clone()];
            self.relocations(fragment, relocations, parts.bytes.start as u64, at as u64)?;
            at += length;
        }
        self.pending_of_section.push(begin..self.pending.len());
        let source = entry_of(&entries[0]).1;
        let header = input.section(source as u32);
        let name = self.name(header.name);
        self.out.sections.push(Section {
            name,
            kind: SectionKind::Unwind,
            sh_type: header.sh_type(),
            sh_flags: header.flags() as u32,
            entsize: 0,
            align_log2: input.align_log2[source],
            bits,
            link: 0,
            size: size as u64,
            bytes: Cow::Borrowed(bytes),
            fixups: Fixups::Narrow(0..0),
            frame: None,
        });
        Ok(())
    }

    /// Gathers relocations of a stretch that began at `from` in its section and is
    /// at `to` now.
    fn relocations(
        &mut self,
        fragment: u32,
        relocations: &[Rela64<LE>],
        from: u64,
        to: u64,
    ) -> Result<(), SplitError> {
        self.pending.reserve(relocations.len());
        for relocation in relocations {
            let (key, addend) = self.key(relocation)?;
            let target = match key {
                Some(key) => self.slot(fragment, key),
                None => WideFixupRecord::NO_TARGET,
            };
            self.pending.push(WideFixupRecord {
                offset: relocation.r_offset.get(LE) - from + to,
                addend,
                target,
                fixup_type: relocation.r_type(LE, false),
            });
        }
        Ok(())
    }

    /// What a relocation refers to, and its addend relative to that.
    fn key(&mut self, relocation: &Rela64<LE>) -> Result<(Option<Key>, i64), SplitError> {
        let addend = relocation.r_addend.get(LE);
        let number = relocation.r_sym(LE, false);
        if number == 0 {
            return Ok((None, addend));
        }
        let is_section = self.input.is_section_symbol(number);
        let Some(section) = self.input.section_of(number) else {
            if is_section {
                return Err(SplitError::not_splittable(format!(
                    "section symbol {number} is of no section"
                )));
            }
            return Ok((Some(Key::Symbol(number)), addend));
        };
        if self.plan.merge[section as usize].is_some() {
            let (offset, rest) = merge::selected(self.input, relocation);
            let piece = offset.and_then(|offset| self.piece_at(section, offset));
            // `merge::cut` has looked at every reference.
            let (piece, within) = piece.ok_or_else(|| {
                SplitError::not_splittable(format!(
                    "a reference to section {} is outside it",
                    self.input.section(section).display_name()
                ))
            })?;
            return Ok((Some(Key::Piece(piece)), rest.wrapping_add(within as i64)));
        }
        if self.plan.fragment_of[section as usize] == NONE {
            return Err(SplitError::not_splittable(format!(
                "a relocation refers to section {}, which is no part of a program",
                self.input.section(section).display_name()
            )));
        }
        if is_section {
            let addend = addend.wrapping_add(self.input.symbol(number).value() as i64);
            return Ok((Some(Key::Section(section)), addend));
        }
        Ok((Some(Key::Symbol(number)), addend))
    }

    /// The piece that contains an offset of a section that is cut, and the offset
    /// within the piece.
    fn piece_at(&mut self, section: u32, offset: u64) -> Option<(u32, u64)> {
        let cut = self.plan.merge[section as usize].as_ref()?;
        let (index, bounds) = cut.piece_at(offset)?;
        let within = offset - u64::from(bounds.start);
        let known = self.piece_numbers[section as usize][index as usize];
        if known != NONE {
            return Some((known, within));
        }
        let bytes = &self.input.data[section as usize][bounds.start as usize..bounds.end as usize];
        let (class, of_class) = self.piece_class(section);
        let piece = Piece { bytes, ..class };
        let hash = cut.hash_of(index, bytes) ^ of_class;
        let pieces = &mut self.out.pieces;
        let is_it = |&(other, known): &(u64, u32)| other == hash && pieces[known as usize] == piece;
        let number = match self.pieces.find(hash, is_it) {
            Some((_, known)) => *known,
            None => {
                pieces.push(piece);
                let number = pieces.len() as u32 - 1;
                (self.pieces).insert_unique(hash, (hash, number), |(hash, _)| *hash);
                number
            }
        };
        self.piece_slots.resize(pieces.len(), (NONE, 0));
        self.piece_numbers[section as usize][index as usize] = number;
        Some((number, within))
    }

    /// What all pieces of a section have in common, without bytes, and its hash.
    fn piece_class(&mut self, section: u32) -> (Piece<'a>, u64) {
        if let Some(class) = self.piece_classes[section as usize] {
            return class;
        }
        let header = self.input.section(section);
        let dropped = elf::SHF_GROUP | elf::SHF_COMPRESSED;
        let class = Piece {
            section_name: self.name(names::piece_class(header.name)),
            sh_flags: header.flags() as u32 & !dropped,
            entsize: header.header.sh_entsize.get(LE) as u32,
            align_log2: self.input.align_log2[section as usize],
            bytes: &[],
        };
        let class = (class, FxBuildHasher.hash_one(class));
        self.piece_classes[section as usize] = Some(class);
        class
    }

    /// The number of a target among those of the fragment at hand.
    fn slot(&mut self, fragment: u32, key: Key) -> u32 {
        let slot = match key {
            Key::Symbol(symbol) => {
                self.used_symbol[symbol as usize] = true;
                &mut self.symbol_slots[symbol as usize]
            }
            Key::Section(section) => &mut self.section_slots[section as usize],
            Key::Cie(cie) => &mut self.cie_slots[cie as usize],
            Key::Piece(piece) => &mut self.piece_slots[piece as usize],
        };
        if slot.0 != fragment {
            *slot = (fragment, self.keys.len() as u32);
            self.keys.push(key);
        }
        slot.1
    }

    /// Writes the targets of the fragment at hand, and puts into `place_of` each one's place in the order in which they are
    /// written.
    fn targets(&mut self, fragment: u32) -> (Range<u32>, Range<u32>) {
        let keys = std::mem::take(&mut self.keys);
        let mut place_of = std::mem::take(&mut self.place_of);
        let first_target = self.out.targets.len() as u32;
        let first_binding = self.bound.len() as u32;
        place_of.clear();
        place_of.resize(keys.len(), NONE);
        for (index, key) in keys.iter().enumerate() {
            if let Some((target, bound)) = self.bindable(fragment, *key) {
                place_of[index] = self.out.targets.len() as u32 - first_target;
                self.out.targets.push(target);
                self.bound.push(bound);
            }
        }
        // Sections before pieces: the places of packed fixups have room for large addends to the first that follow.
        for (index, key) in keys.iter().enumerate() {
            if let Key::Section(section) = *key
                && place_of[index] == NONE
            {
                let number =
                    self.number_of[section as usize] - self.first_section[fragment as usize];
                place_of[index] = self.out.targets.len() as u32 - first_target;
                self.out.targets.push(Target::Section(number));
            }
        }
        for (index, key) in keys.iter().enumerate() {
            if let Key::Piece(piece) = *key {
                place_of[index] = self.out.targets.len() as u32 - first_target;
                self.out.targets.push(Target::Piece(piece));
            }
        }
        self.keys = keys;
        self.place_of = place_of;
        (
            first_target..self.out.targets.len() as u32,
            first_binding..self.bound.len() as u32,
        )
    }

    fn bindable(&mut self, fragment: u32, key: Key) -> Option<(Target, Bound)> {
        match key {
            Key::Symbol(number) => {
                let symbol = self.input.symbol(number);
                let target = if symbol.is_local() {
                    Target::Local(self.local_name(number))
                } else {
                    Target::Global(self.symbol_name(number))
                };
                Some((target, Bound::Symbol(number)))
            }
            Key::Section(section) => {
                let index = section as usize;
                let other = self.plan.fragment_of[index];
                if other == fragment {
                    return None;
                }
                let target = if self.plan.fragments[other as usize].anonymous {
                    Target::OwnAnonymous(other)
                } else {
                    Target::OwnNamed(match self.input.first_symbol[index] {
                        Some(symbol) => self.local_name(symbol),
                        None => self.name(self.input.section(section).name),
                    })
                };
                Some((target, Bound::Section(self.number_of[index])))
            }
            Key::Cie(cie) => Some((
                Target::OwnAnonymous(self.plan.cie_fragment[cie as usize]),
                Bound::Section(self.cie_number[cie as usize]),
            )),
            Key::Piece(_) => None,
        }
    }

    /// Writes the fixups of the fragment at hand, whose sections begin with `first`.
    fn fixups(&mut self, first: usize) {
        let place_of = &self.place_of;
        let narrow_targets = place_of.len() < FixupRecord::NO_TARGET as usize;
        for (section, range) in self.out.sections[first..]
            .iter_mut()
            .zip(self.pending_of_section.drain(..))
        {
            if section.link != 0 {
                section.link = 1 + place_of[section.link as usize - 1];
            }
            let pending = &mut self.pending[range];
            for fixup in pending.iter_mut() {
                if fixup.target != WideFixupRecord::NO_TARGET {
                    fixup.target = place_of[fixup.target as usize];
                }
            }
            let narrow = narrow_targets
                && pending.iter().all(|fixup| {
                    u32::try_from(fixup.offset).is_ok() && i32::try_from(fixup.addend).is_ok()
                });
            section.fixups = if narrow {
                let start = self.out.fixups.len() as u32;
                self.out
                    .fixups
                    .extend(pending.iter().map(|fixup| FixupRecord {
                        offset: fixup.offset as u32,
                        addend: fixup.addend as i32,
                        target_and_type: (fixup.target.min(FixupRecord::NO_TARGET) << 8)
                            | fixup.fixup_type,
                    }));
                Fixups::Narrow(start..self.out.fixups.len() as u32)
            } else {
                let start = self.out.wide_fixups.len() as u32;
                self.out.wide_fixups.extend_from_slice(pending);
                Fixups::Wide(start..self.out.wide_fixups.len() as u32)
            };
        }
    }

    /// Writes the symbol table (null, locals, section symbols, globals), the groups, and
    /// the bindings, which refer to it.
    fn symbols(&mut self) -> Result<(), SplitError> {
        let input = self.input;
        let count = input.object.symbols.len();
        let mut new_index = vec![NONE; count];
        let null = Symbol {
            name: Name(0),
            place: Place::Undefined,
            value: 0,
            size: 0,
            info: 0,
            other: 0,
            bits: 0,
        };
        self.out.symbols.push(null);
        let first_global = input.object.first_global.max(1);
        let (locals, globals) = new_index.split_at_mut(first_global.min(count));
        for (index, new) in locals.iter_mut().enumerate().skip(1) {
            if let Some(symbol) = self.local_symbol(index as u32)? {
                *new = self.out.symbols.len() as u32;
                self.out.symbols.push(symbol);
            }
        }
        let mut section_symbol = vec![NONE; self.out.sections.len()];
        for bound in &self.bound {
            if let Bound::Section(section) = bound {
                section_symbol[*section as usize] = 0;
            }
        }
        for (section, symbol) in section_symbol.iter_mut().enumerate() {
            if *symbol != NONE {
                *symbol = self.out.symbols.len() as u32;
                self.out.symbols.push(Symbol {
                    place: Place::Section(section as u32),
                    info: elf::STT_SECTION,
                    ..null
                });
            }
        }
        self.significant_section_symbols(&section_symbol);
        self.out.first_global = self.out.symbols.len() as u32;
        for (index, new) in (first_global..).zip(globals) {
            let symbol = self.symbol(index as u32)?.ok_or_else(|| {
                SplitError::not_splittable(format!(
                    "global symbol {} is defined in what is no part of a program",
                    String::from_utf8_lossy(input.object.symbols[index].name)
                ))
            })?;
            *new = self.out.symbols.len() as u32;
            self.out.symbols.push(symbol);
        }
        self.out.bindings = self
            .bound
            .iter()
            .map(|bound| match bound {
                Bound::Symbol(symbol) => new_index[*symbol as usize],
                Bound::Section(section) => section_symbol[*section as usize],
            })
            .collect();
        debug_assert!(!self.out.bindings.contains(&NONE));
        for group in &input.groups {
            let signature = self.name(group.signature);
            self.out.groups.push(Group {
                signature,
                flags: group.flags,
            });
        }
        Ok(())
    }

    /// A local symbol that is worth keeping.
    fn local_symbol(&mut self, index: u32) -> Result<Option<Symbol>, SplitError> {
        let input = self.input;
        let symbol = input.symbol(index);
        if symbol.kind() == elf::STT_SECTION {
            return Ok(None);
        }
        if let Some(section) = symbol.section() {
            let is_cut = self.plan.merge[section as usize].is_some();
            // What is in a piece is referred to by content; the assembler's labels
            // there would only be clutter.
            if is_cut && (symbol.name.is_empty() || symbol.name.starts_with(b".L")) {
                return Ok(None);
            }
            if !self.used_symbol[index as usize] && input.is_label_only(symbol, section) {
                return Ok(None);
            }
        }
        self.symbol(index)
    }

    fn symbol(&mut self, index: u32) -> Result<Option<Symbol>, SplitError> {
        let input = self.input;
        let symbol = input.symbol(index);
        let mut value = symbol.value();
        let place = match symbol.place {
            super::elf::SymbolPlace::Undefined => Place::Undefined,
            super::elf::SymbolPlace::Absolute => Place::Absolute,
            super::elf::SymbolPlace::Common => Place::Common,
            super::elf::SymbolPlace::Section(section) => {
                if self.plan.merge[section as usize].is_some() {
                    match self.piece_at(section, value) {
                        Some((piece, within)) => {
                            value = within;
                            Place::Piece(piece)
                        }
                        None => return Ok(None),
                    }
                } else {
                    match self.number_of[section as usize] {
                        NONE => return Ok(None),
                        number => Place::Section(number),
                    }
                }
            }
        };
        let significant = input
            .address_significant
            .get(index as usize)
            .is_some_and(|significant| *significant);
        Ok(Some(Symbol {
            name: self.symbol_name(index),
            place,
            value,
            size: symbol.entry.st_size.get(LE),
            info: symbol.entry.st_info,
            other: symbol.entry.st_other,
            bits: if significant {
                SymbolRecord::ADDRESS_SIGNIFICANT
            } else {
                0
            },
        }))
    }

    /// The list of significant addresses may name a section's symbol.
    fn significant_section_symbols(&mut self, section_symbol: &[u32]) {
        for (index, significant) in self.input.address_significant.iter().enumerate() {
            let symbol = self.input.symbol(index as u32);
            if *significant
                && symbol.kind() == elf::STT_SECTION
                && let Some(section) = symbol.section()
                && let Some(kept) = section_symbol.get(self.number_of[section as usize] as usize)
                && *kept != NONE
            {
                self.out.symbols[*kept as usize].bits |= SymbolRecord::ADDRESS_SIGNIFICANT;
            }
        }
    }
}
