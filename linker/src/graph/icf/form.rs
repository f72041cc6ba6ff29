//! The canonical form of a section: equal forms, with equal sections in the places of their
//! references, mean that one section can stand for the other.

use super::significance::is_transfer;
use super::{Folder, NONE};
use crate::base::ids::{FileId, SectionId, SymbolId};
use crate::base::key::rank;
use crate::elf::c;
use crate::elf::shf;
use crate::elf::x86_64::reloc::{R_X86_64_SIZE32, R_X86_64_SIZE64};
use crate::graph::eh_frame_records::{cie_fixups, fde_fixups};
use crate::input::object::{Fixups, Object, Referent};
use crate::input::parts::{Fixup, Target};
use crate::resolve::input_sections::state;
use crate::resolve::symbol_facts::{Bound, Defined};
use rustc_hash::FxHasher;
use std::hash::Hasher;

/// What is certain of a section without its fixups, and what they are, written down. The section's own bytes are beside
/// it ([`Former::bytes`]).
#[derive(Default)]
pub struct Form {
    /// All that is certain.
    words: Vec<u64>,
    /// Candidates that it refers to, in order.
    pub references: Vec<u32>,
}

impl Form {
    /// Whether two forms are the same, given the classes of candidates.
    pub fn is_same(&self, other: &Form, classes: &[u64]) -> bool {
        let class = |number: &u32| classes[*number as usize];
        self.words == other.words
            && self.references.len() == other.references.len()
            && self
                .references
                .iter()
                .zip(&other.references)
                .all(|(one, other)| class(one) == class(other))
    }

    /// A digest of what is certain.
    pub fn digest(&self, seed: u64) -> u64 {
        digest(seed, bytemuck::cast_slice(&self.words))
    }

    fn word(&mut self, word: u64) {
        self.words.push(word);
    }

    fn slice(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        self.words.extend(bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        }));
    }
}

/// A digest that is fast and not safe against malice: what has the same one must be compared.
pub fn digest(seed: u64, bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_u64(seed);
    hasher.write(bytes);
    hasher.finish()
}

/// What a reference is to, in the first word after its addend.
mod kind {
    pub const SYMBOL: u64 = 1;
    pub const SECTION: u64 = 2;
    pub const MERGED: u64 = 3;
    pub const CANDIDATE: u64 = 4;
    pub const LOCAL: u64 = 5;
    pub const NUMBER: u64 = 6;
}

/// Writes sections down.
pub struct Former<'f, 'l, 'a> {
    pub link: &'f Folder<'l, 'a>,
    /// Number of each candidate, by section.
    pub numbers: &'f [u32],
    /// By number: the candidate keeps an address of its own, so that only calls of it may become calls of another.
    pub addressed: &'f [bool],
}

impl<'l> Former<'_, 'l, '_> {
    /// The bytes of a candidate.
    pub fn bytes(&self, id: SectionId) -> &'l [u8] {
        let (file, number) = self.link.sections.origin(id);
        self.link.files.object(file).section_bytes(number)
    }

    /// Writes a candidate's form into `form`.
    pub fn write(&self, id: SectionId, form: &mut Form) {
        form.words.clear();
        form.references.clear();
        let sections = self.link.sections;
        let input = sections.at(self.link.files, id);
        let Some(section) = input.header() else {
            return;
        };
        form.word(u64::from(sections.part[id.index()].0));
        form.word(section.flags & !u64::from(c::SHF_GROUP));
        let code = (section.flags & shf::EXEC != 0).then(|| input.bytes());
        self.fixups(form, input.file, input.object, input.fixups(), 0, code);
        if sections.state(id) & state::HAS_FDE != 0 {
            self.frames(form, input.file, input.object, input.number);
        }
    }

    /// The frame descriptions of code: what they say of it, not where they stand.
    fn frames(&self, form: &mut Form, file: FileId, object: &Object, number: u32) {
        let frames = self.link.frames.of(file);
        for fde in frames.of_section(number) {
            let cie = &frames.cies[fde.cie as usize];
            let record = |section: u32, offset: u32, size: u32, skip: usize| {
                let bytes = object.section_bytes(section);
                bytes
                    .get(offset as usize..(offset + size) as usize)
                    .and_then(|bytes| bytes.get(skip..))
                    .unwrap_or(&[])
            };
            form.slice(record(cie.section, cie.offset, cie.size, 0));
            let fixups = cie_fixups(object, file, self.link.sections, cie);
            self.fixups(form, file, object, fixups, u64::from(cie.offset), None);
            // Length, distance to the CIE, and the code's address.
            let head = 8 + usize::from(cie.pointer_size);
            form.slice(record(fde.section, fde.offset, fde.size, head));
            let fixups = fde_fixups(object, file, self.link.sections, fde);
            // The code's address, in the code.
            let start = fixups.get(0).map(|fixup| self.start(object, &fixup));
            form.word(start.unwrap_or(0));
            let rest = fixups.slice(1, fixups.len());
            self.fixups(form, file, object, rest, u64::from(fde.offset), None);
        }
    }

    /// The offset in its section of what an FDE describes.
    fn start(&self, object: &Object, fixup: &Fixup) -> u64 {
        let value = object.place_of(fixup.target).map_or(0, |(_, value)| value);
        value.wrapping_add(fixup.addend as u64)
    }

    /// `code` are the bytes around the fixups, if they are in code.
    fn fixups(
        &self,
        form: &mut Form,
        file: FileId,
        object: &Object,
        fixups: Fixups,
        base: u64,
        code: Option<&[u8]>,
    ) {
        form.word(fixups.len() as u64);
        fixups.for_each(|fixup| {
            form.word(fixup.offset.wrapping_sub(base));
            form.word(u64::from(fixup.r_type));
            self.target(form, file, object, &fixup, is_transfer(code, &fixup));
        });
    }

    /// `called`: the fixup is that of a call or jump, for which the target's address means nothing.
    fn target(&self, form: &mut Form, file: FileId, object: &Object, fixup: &Fixup, called: bool) {
        let addend = fixup.addend as u64;
        let first_global = object.first_global();
        // What there is not is told by its number.
        let (Target::Symbol(index) | Target::Section(index) | Target::Piece(index)) = fixup.target;
        match object.referent(fixup.target) {
            Referent::Global(index) => {
                let base = self.link.files.get(file).slot_base;
                let symbol = self.link.symbols.at(base, first_global, index);
                form.word(addend);
                self.global(form, symbol, fixup.r_type, called);
            }
            Referent::Null => {
                form.word(addend);
                form.word(kind::NUMBER);
            }
            Referent::Absolute { .. } | Referent::Missing(_) => {
                self.local(form, file, index, addend);
            }
            Referent::Place {
                section,
                offset,
                kind,
            } => {
                let by_symbol = matches!(fixup.target, Target::Symbol(_));
                let sizes = [R_X86_64_SIZE32, R_X86_64_SIZE64];
                if kind == c::STT_GNU_IFUNC || by_symbol && sizes.contains(&fixup.r_type) {
                    return self.local(form, file, index, addend);
                }
                let is_section = kind == c::STT_SECTION;
                match self.link.sections.get(file, section) {
                    Some(id) => self.place(form, id, offset, addend, is_section, called),
                    None => self.local(form, file, index, addend),
                }
            }
            Referent::Piece(piece) => match self.link.pieces.of(piece) {
                Some((part, offset)) => {
                    form.word(addend);
                    form.word(kind::MERGED);
                    form.word(u64::from(part.0));
                    form.word(offset);
                }
                None => self.local(form, file, piece.id, addend),
            },
        }
    }

    /// What only its own file can mean.
    fn local(&self, form: &mut Form, file: FileId, index: u32, addend: u64) {
        form.word(addend);
        form.word(kind::LOCAL);
        form.word(u64::from(file.0));
        form.word(u64::from(index));
    }

    fn global(&self, form: &mut Form, symbol: SymbolId, r_type: u32, called: bool) {
        let bits = self.link.symbols.facts(symbol);
        let is_own = matches!(
            self.link.symbols.key(symbol).rank(),
            rank::STRONG | rank::WEAK
        );
        let by_name = Bound::IMPORTED
            | Bound::UNDEFINED_WEAK
            | Bound::UNDEFINED
            | (Defined::IFUNC | Defined::ABSOLUTE);
        let section = self.link.definitions.section(symbol);
        let sizes = [R_X86_64_SIZE32, R_X86_64_SIZE64];
        if !is_own || bits.has(by_name) || section == SectionId::NONE || sizes.contains(&r_type) {
            form.word(kind::SYMBOL);
            form.word(u64::from(symbol.0));
            return;
        }
        self.at(form, section, self.link.definitions.value(symbol), called);
    }

    fn place(
        &self,
        form: &mut Form,
        id: SectionId,
        value: u64,
        addend: u64,
        is_section: bool,
        called: bool,
    ) {
        let part = self.link.sections.part[id.index()];
        let is_merged = self
            .link
            .outputs
            .parts
            .get(part.index())
            .is_some_and(|part| part.merge.is_some());
        if is_section && is_merged {
            // The addend chooses the piece.
            form.word(0);
            self.at(form, id, value.wrapping_add(addend), called);
        } else {
            form.word(addend);
            self.at(form, id, value, called);
        }
    }

    /// A place in a section.
    fn at(&self, form: &mut Form, id: SectionId, value: u64, called: bool) {
        let part = self.link.sections.part[id.index()];
        let merge = self
            .link
            .outputs
            .parts
            .get(part.index())
            .and_then(|part| part.merge);
        let merged = merge
            .filter(|_| self.link.sections.is_alive(id))
            .and_then(|_| {
                let input = *self.link.merge_inputs.get(id.index())?;
                self.link.merged.place(input as usize, value)
            });
        if let Some(place) = merged {
            form.word(kind::MERGED);
            form.word(u64::from(part.0));
            form.word(place);
            return;
        }
        match self.numbers[id.index()] {
            number if number != NONE && (called || !self.addressed[number as usize]) => {
                form.word(kind::CANDIDATE);
                form.references.push(number);
            }
            _ => {
                form.word(kind::SECTION);
                form.word(u64::from(id.0));
            }
        }
        form.word(value);
    }
}
