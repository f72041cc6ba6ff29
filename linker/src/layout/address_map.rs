//! Addresses, once everything has its place: of sections, pieces, symbols, slots and
//! PLT entries. All later steps only read them.

use crate::base::ids::{FileId, OutputId, PartId, SectionId, SymbolId};
use crate::base::key::{Key, rank};
use crate::elf::shf;
use crate::elf::x86_64::plt;
use crate::graph::icf::Folds;
use crate::graph::merge::Merged;
use crate::graph::repository_pieces::PiecePlaces;
use crate::input::file::Files;
use crate::input::object::Object;
use crate::input::parts::{Piece, Place};
use crate::layout::commons::Commons;
use crate::layout::got::{Got, NONE, Owner, Slots};
use crate::layout::placement::{PartExtent, Placement};
use crate::layout::program_headers::Segments;
use crate::resolve::input_sections::{Sections, state};
use crate::resolve::linker_symbols::{LinkerSymbols, Meaning};
use crate::resolve::output_sections::{OutputSection, Outputs, Std};
use crate::resolve::resolution::Definitions;
use crate::resolve::symbol_facts::{Defined, Demand, SymbolFacts};
use crate::resolve::symbol_table::SymbolTable;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use store::prefetch::prefetch;

/// What a script's symbol turned out to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assigned {
    /// Its value, an address or a number.
    pub value: u64,
    /// The output section that it is in, if it is known to be in one.
    pub output: Option<OutputId>,
    /// The symbol of an object whose other name it is (`alias = symbol;`): its type is that symbol's.
    pub alias: Option<SymbolId>,
}

/// Everything that addresses are computed from.
#[derive(Clone, Copy)]
pub struct Places<'l, 'a> {
    /// The inputs.
    pub files: &'l Files<'a>,
    /// Their symbols.
    pub symbols: &'l SymbolTable<'a>,
    /// Where these are defined.
    pub definitions: &'l Definitions,
    /// The input sections.
    pub sections: &'l Sections,
    /// Which of them stand for others.
    pub folds: &'l Folds,
    /// Where they are.
    pub placement: &'l Placement,
    /// Addresses of most of them.
    pub starts: &'l Starts,
    /// The output sections.
    pub outputs: &'l Outputs<'a>,
    /// The merged pieces.
    pub merged: &'l Merged<'l>,
    /// Where the repositories' pieces are among them.
    pub pieces: &'l PiecePlaces,
    /// The common blocks.
    pub commons: &'l Commons,
    /// Slots and PLT entries.
    pub got: &'l Got,
    /// What linker-defined symbols mean.
    pub linker_symbols: &'l LinkerSymbols,
    /// What scripts assign to symbols.
    pub assigned: &'l [Assigned],
    /// The file's shape.
    pub segments: &'l Segments,
    /// Offset of each file's frames in `.eh_frame`.
    pub frame_offsets: &'l [u64],
    /// PLT entries begin with `endbr64`.
    pub ibt: bool,
    /// Number of `R_X86_64_IRELATIVE` relocations at the end of `.rela.dyn`; only in static programs, else 0.
    pub static_irelative: u64,
}

/// Where the input sections that are copied as they are begin: what most relocations against sections need, in one place,
/// because for most references that place is a cache miss.
pub struct Starts(Vec<u64>);

impl Starts {
    /// Stands for sections that are not in the output, or not in one piece.
    const NONE: u64 = u64::MAX;

    /// Looks at all sections; the output sections have their addresses.
    pub fn new(sections: &Sections, placement: &Placement, outputs: &Outputs) -> Starts {
        let bases = outputs.parts.iter().map(|part| {
            let address = outputs.sections[part.output.index()].address;
            part.merge.is_none().then_some(address)
        });
        let bases: Vec<_> = bases.collect();
        let start = |(index, part): (usize, &PartId)| {
            let id = SectionId(index as u32);
            let base = bases.get(part.index()).copied().flatten();
            match base {
                Some(base) if sections.is_alive(id) => base.wrapping_add(placement.offset(id)),
                _ => Starts::NONE,
            }
        };
        let parts = sections.part.par_iter().enumerate();
        Starts(parts.with_min_len(1 << 14).map(start).collect())
    }

    #[inline]
    fn get(&self, id: SectionId) -> Option<u64> {
        let start = *self.0.get(id.index())?;
        (start != Starts::NONE).then_some(start)
    }
}

/// A global symbol as references see it: what most relocations need, in one place, because for most references
/// that place is a cache miss.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct SymbolValue {
    /// Its address.
    pub address: u64,
    /// What is known of it.
    pub facts: SymbolFacts,
    /// The slot with its address, in words from the start of `.got`, or [`NONE`].
    pub got: u32,
}

/// What is known of definitions while a linker script's addresses are being computed.
#[derive(Clone, Copy)]
pub struct Located<'l, 'a> {
    /// The inputs' symbols.
    pub symbols: &'l SymbolTable<'a>,
    /// Where these are defined.
    pub definitions: &'l Definitions,
    /// The input sections.
    pub sections: &'l Sections,
    /// The output sections, still without addresses.
    pub outputs: &'l Outputs<'a>,
    /// The merged pieces.
    pub merged: &'l Merged<'l>,
    /// Offset of each file's frames in `.eh_frame`.
    pub frame_offsets: &'l [u64],
    /// The common blocks.
    pub commons: &'l Commons,
    /// Slots, and copies of shared objects' variables.
    pub got: &'l Got,
}

/// Output section of a definition in an object, and offset in it. `None` if it is in none, or not in the output.
/// `offset` and `extents` are as those of [`Placement`].
pub fn section_offset(
    located: &Located,
    offset: &[u64],
    extents: &[PartExtent],
    id: SymbolId,
    key: Key,
) -> Option<(OutputId, u64)> {
    let value = located.definitions.value(id);
    let of_part = |part: PartId, offset: u64| {
        let start = extents.get(part.index())?.offset;
        Some((
            located.outputs.parts[part.index()].output,
            start.wrapping_add(offset),
        ))
    };
    if key.rank() == rank::COMMON {
        let tls = located.symbols.facts(id).has(Defined::TLS);
        let part = located.definitions.common_part(id, tls);
        return of_part(part, located.commons.offset(id));
    }
    let section = located.definitions.section(id);
    if section == SectionId::NONE || !located.sections.is_alive(section) {
        return None;
    }
    let part = located.sections.part[section.index()];
    if part == PartId::NONE {
        let is_frames = located.sections.state(section) & state::EH_FRAME != 0;
        let (file, _) = located.sections.origin(section);
        return match is_frames {
            true => of_part(
                Std::EhFrame.part(),
                place_in_frames(located.frame_offsets, file, value)?,
            ),
            false => None,
        };
    }
    if located.outputs.parts[part.index()].merge.is_some() {
        let input = *offset.get(section.index())? as usize;
        return of_part(part, located.merged.place(input, value)?);
    }
    let start = *offset.get(section.index())?;
    Some((
        located.outputs.parts[part.index()].output,
        start.wrapping_add(value),
    ))
}

/// The place in the output's `.eh_frame` of what a file marks in its own: behind the frames of the files before it. A mark
/// before all frames is before the CIEs too, which all stand at the start, so that who walks from there sees everything.
fn place_in_frames(frame_offsets: &[u64], file: FileId, value: u64) -> Option<u64> {
    let start = *frame_offsets.get(file.index())?;
    if value == 0 && Some(&start) == frame_offsets.first() {
        return Some(0);
    }
    Some(start.wrapping_add(value))
}

impl Places<'_, '_> {
    /// The part with the common block of a symbol.
    pub fn common_part(&self, id: SymbolId) -> PartId {
        let tls = self.symbols.facts(id).has(Defined::TLS);
        self.definitions.common_part(id, tls)
    }

    /// Address of a byte of an input section that is copied as it is; `None` if it is another one.
    #[inline]
    pub fn in_copied(&self, id: SectionId, offset: u64) -> Option<u64> {
        Some(self.starts.get(id)?.wrapping_add(offset))
    }

    /// Address of a byte of an input section; `None` if the section is not in the output.
    #[inline]
    pub fn in_section(&self, id: SectionId, offset: u64) -> Option<u64> {
        self.in_copied(id, offset)
            .or_else(|| self.in_other(id, offset))
    }

    /// The same for a section that is not copied as it is.
    fn in_other(&self, id: SectionId, offset: u64) -> Option<u64> {
        let part = self.sections.part[id.index()];
        let bits = self.sections.state(id);
        if bits & state::ALIVE == 0 {
            return self.in_section(self.folds.of(id)?, offset);
        }
        if part == PartId::NONE {
            if bits & state::EH_FRAME == 0 {
                return None;
            }
            let (file, _) = self.sections.origin(id);
            let place = place_in_frames(self.frame_offsets, file, offset)?;
            return Some(self.outputs.std(Std::EhFrame).address.wrapping_add(place));
        }
        let piece = self
            .merged
            .place(self.placement.offset(id) as usize, offset)?;
        // A symbol may say that it is anywhere.
        Some(self.part(part).wrapping_add(piece))
    }

    /// Address of a mergeable piece of a repository.
    #[inline]
    pub fn piece(&self, piece: Piece) -> Option<u64> {
        let (part, offset) = self.pieces.of(piece)?;
        Some(self.part(part) + offset)
    }

    /// The part that a mergeable piece of a repository is in.
    pub fn piece_part(&self, piece: Piece) -> Option<PartId> {
        Some(self.pieces.of(piece)?.0)
    }

    /// Address of the first byte of a part.
    pub fn part(&self, part: PartId) -> u64 {
        let output = self.outputs.parts[part.index()].output;
        self.outputs.sections[output.index()].address + self.placement.parts[part.index()].offset
    }

    /// Says that a section's address will be needed soon.
    #[inline]
    pub fn fetch(&self, id: SectionId) {
        if let Some(start) = self.starts.0.get(id.index()) {
            prefetch(start);
        }
    }

    /// Whether relocations against a section must look at single pieces of it.
    #[inline]
    pub fn is_merged(&self, id: SectionId) -> bool {
        let part = self.sections.part[id.index()];
        part != PartId::NONE && self.outputs.parts[part.index()].merge.is_some()
    }

    /// Address of a slot of `.got`.
    #[inline]
    pub fn slot(&self, number: u32) -> u64 {
        self.outputs.std(Std::Got).address + 8 * u64::from(number)
    }

    /// Address of a symbol's PLT entry.
    pub fn plt_entry(&self, slots: &Slots) -> Option<u64> {
        if slots.lazy != NONE {
            let n = u64::from(slots.lazy);
            return Some(match self.ibt {
                true => self.outputs.std(Std::PltSec).address + n * plt::SECOND_SIZE as u64,
                false => {
                    self.outputs.std(Std::Plt).address
                        + plt::HEADER_SIZE as u64
                        + n * plt::LAZY_SIZE as u64
                }
            });
        }
        let n = u64::from(slots.direct);
        (slots.direct != NONE)
            .then(|| self.outputs.std(Std::PltGot).address + n * Got::direct_size(self.ibt))
    }

    /// Base of the global offset table: what `_GLOBAL_OFFSET_TABLE_` means.
    pub fn got_base(&self) -> u64 {
        let got_plt = self.outputs.std(Std::GotPlt);
        if got_plt.size > 0 {
            got_plt.address
        } else {
            self.outputs.std(Std::Got).address
        }
    }

    fn end_of(&self, keep: impl Fn(&OutputSection) -> bool) -> u64 {
        let ends = self
            .outputs
            .sections
            .iter()
            .filter(|s| s.is_alloc() && s.size > 0 && !s.is_tbss() && keep(s));
        ends.map(|s| s.address + s.size)
            .max()
            .unwrap_or(self.segments.image_base)
    }

    fn meaning(&self, meaning: &Meaning) -> u64 {
        // What may be far away stands behind all the rest.
        let is_near_data =
            |section: &OutputSection| !section.is_nobits() && section.flags & shf::LARGE == 0;
        let rela_dyn = self.outputs.std(Std::RelaDyn);
        match meaning {
            Meaning::ImageStart => self.segments.image_base,
            Meaning::EndOfText => self.end_of(|s| s.flags & shf::EXEC != 0),
            Meaning::EndOfData => self.end_of(is_near_data),
            Meaning::StartOfBss => {
                let bss = self.outputs.std(Std::Bss);
                if bss.size > 0 {
                    bss.address
                } else {
                    self.end_of(is_near_data)
                }
            }
            Meaning::End => self.end_of(|_| true),
            Meaning::Start(id) => self.outputs.sections[id.index()].address,
            Meaning::Stop(id) => {
                self.outputs.sections[id.index()].address + self.outputs.sections[id.index()].size
            }
            Meaning::GotBase => self.got_base(),
            Meaning::TlsBase { executable: true } => {
                self.segments.tls.map_or(0, |tls| tls.thread_pointer)
            }
            Meaning::TlsBase { executable: false } => self.segments.tls.map_or(0, |tls| tls.start),
            Meaning::IrelativeStart => {
                rela_dyn.address + rela_dyn.size - 24 * self.static_irelative
            }
            Meaning::IrelativeEnd => rela_dyn.address + rela_dyn.size,
            Meaning::Assigned(slot) => self
                .assigned
                .get(*slot as usize)
                .map_or(0, |assigned| assigned.value),
        }
    }

    /// The end of what is loaded.
    pub fn end(&self) -> u64 {
        self.end_of(|_| true)
    }

    /// The output section that a global symbol's definition of this key is in.
    pub fn output_of(&self, id: SymbolId, key: Key) -> Option<OutputId> {
        let part = match key.rank() {
            rank::STRONG | rank::WEAK => {
                let section = self.definitions.section(id);
                (section != SectionId::NONE).then(|| self.sections.part[section.index()])?
            }
            rank::COMMON => self.common_part(id),
            _ => return None,
        };
        (part != PartId::NONE).then(|| self.outputs.parts[part.index()].output)
    }

    /// What a script assigns to the symbol of this key, if one does.
    pub fn assigned(&self, key: Key) -> Option<&Assigned> {
        let (_, meaning) = self.linker_symbols.get(key.index() as usize)?;
        match meaning {
            Meaning::Assigned(slot) => self.assigned.get(*slot as usize),
            _ => None,
        }
    }

    /// The output section in which a script puts the symbol of this key, if one does.
    pub fn assigned_output(&self, key: Key) -> Option<OutputId> {
        self.assigned(key)?.output
    }

    /// Address of a global symbol's definition: for an IFUNC, of its resolver.
    pub fn definition(&self, id: SymbolId) -> u64 {
        self.definition_of(id, self.symbols.key(id))
    }

    /// As [`Places::definition`], for the definition of this key.
    pub fn definition_of(&self, id: SymbolId, key: Key) -> u64 {
        match key.rank() {
            rank::COMMON => self
                .part(self.common_part(id))
                .wrapping_add(self.commons.offset(id)),
            rank::STRONG | rank::WEAK => match self.definitions.section(id) {
                SectionId::NONE => self.definitions.value(id),
                section => self
                    .in_section(section, self.definitions.value(id))
                    .unwrap_or(0),
            },
            rank::LINKER => {
                let (_, meaning) = &self.linker_symbols[key.index() as usize];
                self.meaning(meaning)
            }
            _ => 0,
        }
    }

    /// Address of a local symbol; `None` if its section is not in the output.
    pub fn local(&self, file: FileId, object: &Object, index: u32) -> Option<u64> {
        let symbol = object.symbol(index)?;
        match symbol.place {
            Place::Section(number) => {
                self.in_section(self.sections.get(file, number)?, symbol.value)
            }
            Place::Absolute => Some(symbol.value),
            _ => None,
        }
    }

    /// Address of the owner of slots: for an IFUNC, of its resolver.
    pub fn owner(&self, owner: Owner) -> u64 {
        match owner {
            Owner::Global(id) => self.definition(id),
            Owner::Local(file, index) => self
                .local(file, self.files.object(file), index)
                .unwrap_or(0),
        }
    }

    /// Every global symbol as references see it, by id.
    pub fn symbol_values(&self) -> Vec<SymbolValue> {
        let copies: FxHashMap<SymbolId, u64> = self
            .got
            .copies
            .iter()
            .map(|copied| {
                let address = self.part(copied.part()) + copied.offset;
                (copied.symbol, address)
            })
            .collect();
        let value = |id| {
            let facts = self.symbols.facts(id);
            let slots = self.got.of_global(id);
            let address = if facts.has(Demand::COPY) {
                copies.get(&id).copied().unwrap_or(0)
            } else if facts.has(Demand::CANONICAL_PLT) {
                let entry = slots.and_then(|slots| self.plt_entry(slots));
                entry.unwrap_or(0)
            } else {
                self.definition(id)
            };
            SymbolValue {
                address,
                facts,
                got: slots.map_or(NONE, |slots| slots.got),
            }
        };
        self.symbols.ids().map(value).collect()
    }
}
