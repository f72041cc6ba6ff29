//! What the relocations of the inputs refer to, in terms of the output.
//!
//! A reference to a section symbol goes to the symbol of the output section, with
//! the input section's offset added to the addend. One to a local symbol stays one,
//! even if the symbol would otherwise be left out. One to a global symbol goes to the
//! definition that won. And one to what is not in the output, the other copy of an
//! inline function say, is left out itself; that is an error unless the referrer
//! only describes the program.

use super::plan::Plan;
use super::sections::OutId;
use crate::base::ids::{FileId, SectionId, SymbolId};
use crate::elf::c;
use crate::elf::shf;
use crate::input::file::Files;
use crate::input::object::{Fixups, Object};
use crate::input::parts::{Fixup, Place, Target, describe_missing};
use crate::link::relocatable::frames::Frames;
use crate::messages::diag::Diagnostics;
use crate::resolve::input_sections::{Sections, is_sframe, state};
use crate::resolve::resolution::Definitions;
use crate::resolve::symbol_table::SymbolTable;
use rayon::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What a relocation refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The null symbol: only the addend counts.
    Nothing,
    /// An output section, by the symbol of its own; with the new addend.
    Section(OutId, i64),
    /// A local symbol of the same file.
    Local(u32),
    /// A global symbol.
    Global(SymbolId),
    /// Something that is not in the output: the relocation is left out.
    Gone,
}

/// What decides about references.
#[derive(Clone, Copy)]
pub struct Referrer<'l, 'a> {
    /// The inputs.
    pub files: &'l Files<'a>,
    /// Their symbols.
    pub symbols: &'l SymbolTable<'a>,
    /// Where these are defined.
    pub definitions: &'l Definitions,
    /// Their sections.
    pub sections: &'l Sections,
    /// The `.eh_frame` sections, settled.
    pub frames: &'l Frames,
    /// The output's sections.
    pub plan: &'l Plan<'a>,
}

impl Referrer<'_, '_> {
    /// Where a place in an input section is in its output section.
    pub fn place(&self, id: SectionId, offset: u64) -> u64 {
        let inside = match self.frames.of(id) {
            Some(frames) => frames.kept_offset(offset),
            None => offset,
        };
        self.plan.offset(id).wrapping_add(inside)
    }

    /// The relocations of an input section that are to be kept, with the place of each in the output section,
    /// in order.
    pub fn for_each(&self, id: SectionId, mut f: impl FnMut(Fixup, u64)) {
        let (file, number) = self.sections.origin(id);
        let fixups: Fixups = self
            .files
            .object(file)
            .fixups(number, self.sections.relocations[id.index()]);
        let base = self.plan.offset(id);
        match self.frames.of(id) {
            None => fixups.for_each(|fixup| f(fixup, base.wrapping_add(fixup.offset))),
            Some(frames) => {
                for (record, at) in frames.kept() {
                    for index in record.relocations.clone() {
                        if let Some(fixup) = fixups.get(index) {
                            f(fixup, base + at + (fixup.offset - record.offset));
                        }
                    }
                }
            }
        }
    }

    /// What a relocation refers to.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn reference(&self, file: FileId, fixup: &Fixup) -> Result<Reference, String> {
        let input = self.files.get(file);
        let object = self.files.object(file);
        let index = match fixup.target {
            Target::Symbol(index) => index,
            // Tickets have become ELF objects.
            Target::Section(_) | Target::Piece(_) => return Ok(Reference::Gone),
        };
        if index == 0 {
            return Ok(Reference::Nothing);
        }
        let Some(symbol) = object.symbol(index) else {
            return Err(format!("symbol {index} does not exist"));
        };
        if index >= object.first_global() {
            let id = self.symbols.of(input, index);
            let section = self.definitions.section(id);
            let gone = self.symbols.key(id).in_object()
                && section != SectionId::NONE
                && self.plan.out(section).is_none();
            return Ok(if gone {
                Reference::Gone
            } else {
                Reference::Global(id)
            });
        }
        let number = match symbol.place {
            Place::Section(number) => number,
            Place::Absolute => return Ok(Reference::Local(index)),
            Place::Undefined | Place::Common => {
                return Err(format!("local symbol {index} is not defined"));
            }
        };
        let Some(section) = self.sections.get(file, number) else {
            return Err(format!("the symbol is in {}", describe_missing(number)));
        };
        let Some(out) = self.plan.out(section) else {
            return Ok(Reference::Gone);
        };
        if symbol.kind() != c::STT_SECTION {
            return Ok(Reference::Local(index));
        }
        let inside = symbol.value.wrapping_add(fixup.addend as u64);
        let addend = self.place(section, inside) as i64;
        Ok(Reference::Section(out, addend))
    }

    /// What a relocation of section `id` refers to in the output. Readers of `.sframe` expect one for each entry: that of
    /// a function that is gone has no symbol.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn reference_of(&self, id: SectionId, fixup: &Fixup) -> Result<Reference, String> {
        let (file, number) = self.sections.origin(id);
        let reference = self.reference(file, fixup)?;
        let object = self.files.object(file);
        let of_sframe = || object.section(number).as_ref().is_some_and(is_sframe);
        Ok(match reference {
            Reference::Gone if of_sframe() => Reference::Nothing,
            reference => reference,
        })
    }

    /// Whether a section may refer to what is gone: what only describes the program, and the tables of
    /// functions that are gone.
    fn may_refer_to_gone(&self, id: SectionId) -> bool {
        let (file, number) = self.sections.origin(id);
        let section = self.files.object(file).section(number);
        section.is_some_and(|section| {
            section.flags & shf::ALLOC == 0
                || section.name.starts_with(b".gcc_except_table")
                || self.sections.state(id) & state::EH_FRAME != 0
        })
    }

    /// What is said of a reference to what is gone.
    fn gone(&self, object: &Object, file: FileId, fixup: &Fixup) -> String {
        let Target::Symbol(index) = fixup.target else {
            return String::new();
        };
        let Some(Place::Section(number)) = object.symbol(index).map(|symbol| symbol.place) else {
            return String::new();
        };
        let name = object.section(number).map_or(&b""[..], |s| s.name);
        let discarded = self
            .sections
            .get(file, number)
            .is_some_and(|id| self.sections.state(id) & state::DISCARDED != 0);
        let why = if discarded {
            "which was discarded with its COMDAT group"
        } else {
            "which is not in the output"
        };
        format!(
            "relocation refers to section {}, {why}",
            String::from_utf8_lossy(name)
        )
    }
}

/// What the output needs because relocations refer to it.
pub struct Needed {
    /// By input section: number of relocations that are kept.
    pub counts: Vec<u32>,
    /// By [`OutId`]: the section needs a symbol.
    pub section_symbols: Vec<bool>,
    /// By file: the local symbols that are referred to.
    pub locals: Vec<Vec<bool>>,
    /// By [`SymbolId`]: the symbol is referred to.
    pub globals: Vec<bool>,
}

/// Looks at all relocations that will be kept.
pub fn scan(referrer: &Referrer, diag: &Diagnostics) -> Needed {
    let &Referrer {
        files,
        sections,
        plan,
        ..
    } = referrer;
    let marks = |count| -> Vec<AtomicBool> { (0..count).map(|_| AtomicBool::new(false)).collect() };
    let section_symbols = marks(plan.sections.len());
    let globals = marks(referrer.symbols.id_limit());
    let mut counts = vec![0u32; sections.count()];
    let locals = sections
        .split(&mut counts)
        .into_par_iter()
        .enumerate()
        .map(|(i, counts)| {
            let file = FileId(i as u32);
            let Some(object) = files.get(file).object().filter(|_| !counts.is_empty()) else {
                return Vec::new();
            };
            let mut locals = vec![false; object.first_global() as usize];
            for (number, count) in (0..).zip(counts) {
                let id = sections.id(file, number);
                if plan.out(id).is_none() || sections.relocations[id.index()] == 0 {
                    continue;
                }
                referrer.for_each(id, |fixup, _| {
                    let complain = |what: &str| {
                        let place = files.get(file).at_fixup(number, &fixup);
                        diag.error(format!("{place}: {what}"));
                    };
                    match referrer.reference_of(id, &fixup) {
                        Ok(Reference::Gone) => {
                            if !referrer.may_refer_to_gone(id) {
                                complain(&referrer.gone(object, file, &fixup));
                            }
                            return;
                        }
                        Ok(Reference::Section(out, _)) => {
                            section_symbols[out.index()].store(true, Relaxed);
                        }
                        Ok(Reference::Local(index)) => locals[index as usize] = true,
                        Ok(Reference::Global(id)) => globals[id.index()].store(true, Relaxed),
                        Ok(Reference::Nothing) => {}
                        Err(why) => complain(&why),
                    }
                    *count += 1;
                });
            }
            locals
        })
        .collect();
    let unmark = |marks: Vec<AtomicBool>| {
        marks
            .into_iter()
            .map(AtomicBool::into_inner)
            .collect::<Vec<_>>()
    };
    Needed {
        counts,
        section_symbols: unmark(section_symbols),
        locals,
        globals: unmark(globals),
    }
}
