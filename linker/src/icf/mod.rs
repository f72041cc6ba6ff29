//! Identical code folding (`--icf`): of sections that are the same but for their names, one is
//! in the output, and the names of all have its address.
//!
//! Two sections are the same if their bytes are, and their fixups, and what these refer to:
//! the same symbol, or the same place in the same section, or the same merged piece, or the
//! same place in two sections that are the same in turn. The frame descriptions of code count
//! as part of it. That is a question with circles (functions that call each other), and its
//! answer is the coarsest partition that is stable:
//!
//! 1. [`candidates`] are what may be folded: loaded, read-only, and nobody's business by its
//!    address ([`significance`]).
//! 2. Each is written down in a canonical form ([`form`]): what is certain as bytes, and
//!    references to other candidates as a list. All forms with the same digest begin as one class.
//! 3. Again and again, a candidate's class becomes the digest of its class and of the classes it
//!    refers to, until the number of classes stops growing. All steps are parallel loops.
//! 4. Digests have 128 bits; still, the members of each class are compared in full, and if any
//!    two differ nothing at all is folded.
//!
//! It happens when it is known what is alive and where merged pieces lie, and before anything
//! is placed. A folded section is no longer alive; [`Folds`] knows which one stands for it.

mod form;
mod significance;

use crate::args::{Args, IcfMode};
use crate::diag::Diagnostics;
use crate::elf::c;
use crate::file::Files;
use crate::frames::Frames;
use crate::ids::{FileId, PartId, SectionId};
use crate::linker_symbols::is_c_identifier;
use crate::merge::Merged;
use crate::object::Section;
use crate::output::{Order, Outputs, shf};
use crate::pieces::PiecePlaces;
use crate::resolve::Definitions;
use crate::sections::{Sections, state};
use crate::symbols::SymbolTable;
use crate::trace::Needs;
use form::{Form, Former};
use rayon::prelude::*;
use significance::Significance;
use std::sync::atomic::Ordering::Relaxed;

/// What folding needs to know of the link.
pub struct Folder<'l, 'a> {
    /// The command line.
    pub args: &'l Args,
    /// The inputs.
    pub files: &'l Files<'a>,
    /// Their symbols.
    pub symbols: &'l SymbolTable<'a>,
    /// Where these are defined.
    pub definitions: &'l Definitions,
    /// Their sections.
    pub sections: &'l Sections,
    /// Their frame descriptions.
    pub frames: &'l Frames,
    /// The output's parts.
    pub outputs: &'l Outputs<'a>,
    /// Merged pieces.
    pub merged: &'l Merged<'l>,
    /// Where the repositories' pieces are among them.
    pub pieces: &'l PiecePlaces,
    /// Index of the merge input, by input section.
    pub merge_inputs: &'l [u64],
    /// By part: somebody walks over all sections in it.
    pub bounded: &'l [bool],
    /// A linker script places the sections.
    pub scripted: bool,
    /// Sections that are about another one.
    pub link_order: &'l [(SectionId, SectionId)],
    /// For messages.
    pub diag: &'l Diagnostics,
}

/// Which section stands for each folded one.
#[derive(Default)]
pub struct Folds {
    /// By section; empty if nothing was folded.
    into: Vec<SectionId>,
}

impl Folds {
    /// Whether nothing was folded.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.into.is_empty()
    }

    /// The section that stands for a section that was folded.
    #[inline]
    pub fn of(&self, id: SectionId) -> Option<SectionId> {
        self.into
            .get(id.index())
            .copied()
            .filter(|into| *into != SectionId::NONE)
    }
}

/// Numbers of candidates, by section.
const NONE: u32 = u32::MAX;

impl Folder<'_, '_> {
    /// Folds, if the command line asks for it.
    pub fn fold(&self, needs: &Needs) -> Folds {
        if self.args.icf == IcfMode::None {
            return Folds::default();
        }
        if self.args.emit_relocs || self.scripted {
            let option = match self.args.emit_relocs {
                true => "--emit-relocs",
                false => "a linker script with SECTIONS",
            };
            self.diag.warn(format!("--icf has no effect with {option}"));
            return Folds::default();
        }
        // Dynamic relocations are counted, and those of read-only sections would be too many then.
        if needs.text_relocations.load(Relaxed) {
            self.diag
                .warn("--icf has no effect, as read-only sections have dynamic relocations");
            return Folds::default();
        }
        let candidates = self.candidates();
        let mut numbers = vec![NONE; self.sections.count()];
        for (number, id) in (0..).zip(&candidates) {
            numbers[id.index()] = number;
        }
        let former = Former {
            link: self,
            numbers: &numbers,
        };
        let classes = refine(&former, &candidates);
        self.unite(&former, &candidates, &classes)
    }

    /// What may be folded, in the order of the inputs.
    fn candidates(&self) -> Vec<SectionId> {
        let significance = Significance::find(self);
        // What is about code and would be lost with it, but for exception tables, which are folded themselves.
        let mut kept = vec![false; self.sections.count()];
        for (section, about) in self.link_order {
            if !self.section(*section).is_some_and(is_exception_table) {
                kept[about.index()] = true;
            }
        }
        (0..self.files.0.len() as u32)
            .into_par_iter()
            .flat_map_iter(|file| self.sections.of_file(FileId(file)).map(SectionId))
            .filter(|id| !kept[id.index()] && self.is_candidate(*id, &significance))
            .collect()
    }

    fn is_candidate(&self, id: SectionId, significance: &Significance) -> bool {
        use state::{ALIVE, ALLOC, BITS, DISCARDED, EH_FRAME, ROOT, WRITE};
        let bits = self.sections.state(id);
        if bits & (ALIVE | ALLOC | BITS | DISCARDED | EH_FRAME | ROOT | WRITE)
            != ALIVE | ALLOC | BITS
        {
            return false;
        }
        let part = self.sections.part[id.index()];
        if part == PartId::NONE || self.bounded[part.index()] {
            return false;
        }
        let info = &self.outputs.parts[part.index()];
        if info.merge.is_some() || info.sort != Order::Input {
            return false;
        }
        let Some(section) = self.section(id) else {
            return false;
        };
        // What is put together to one function, or found by the bounds of its output section.
        let has_neighbours =
            matches!(section.name, b".init" | b".fini") || is_c_identifier(section.name);
        if section.sh_type != c::SHT_PROGBITS || section.size == 0 || has_neighbours {
            return false;
        }
        let is_code = section.flags & shf::EXEC != 0;
        if !is_code && is_exception_table(section) {
            return true;
        }
        let counts = match (self.args.icf, is_code) {
            (IcfMode::All, true) => false,
            (IcfMode::All, false) if self.args.ignore_data_address_equality => false,
            _ => true,
        };
        !counts || !significance.is_significant(id)
    }

    fn section(&self, id: SectionId) -> Option<Section<'_>> {
        let (file, number) = self.sections.origin(id);
        self.files.object(file).section(number)
    }

    /// Makes one of each class stand for all.
    fn unite(&self, former: &Former, candidates: &[SectionId], classes: &[u128]) -> Folds {
        let mut members: Vec<(u128, SectionId)> = classes
            .iter()
            .copied()
            .zip(candidates.iter().copied())
            .collect();
        members.par_sort_unstable();
        let groups: Vec<&[(u128, SectionId)]> = members
            .chunk_by(|(one, _), (other, _)| one == other)
            .filter(|group| group.len() > 1)
            .collect();
        let equal = groups.par_iter().all(|group| {
            let first = former.form(group[0].1);
            group[1..]
                .iter()
                .all(|(_, id)| first.is_same(&former.form(*id), classes))
        });
        if !equal {
            self.diag
                .warn("--icf: two different sections have one digest; nothing is folded");
            return Folds::default();
        }
        let mut into = vec![SectionId::NONE; self.sections.count()];
        for group in groups {
            // The one that stands for all must be aligned as all of them want it.
            let align = |id: SectionId| self.section(id).map_or(0, |section| section.align);
            let Some((_, first)) = group
                .iter()
                .max_by_key(|(_, id)| (align(*id), std::cmp::Reverse(*id)))
            else {
                continue;
            };
            for (_, id) in group.iter().filter(|(_, id)| id != first) {
                into[id.index()] = *first;
                self.sections.remove_state(*id, state::ALIVE);
            }
            if self.args.print_icf_sections {
                self.print(*first, group);
            }
        }
        // What is about folded code is gone, but for what was folded itself.
        for (section, about) in self.link_order {
            if into[about.index()] != SectionId::NONE && into[section.index()] == SectionId::NONE {
                self.sections.remove_state(*section, state::ALIVE);
            }
        }
        Folds { into }
    }

    /// `--print-icf-sections`, in lld's words.
    fn print(&self, first: SectionId, group: &[(u128, SectionId)]) {
        let name = |id: SectionId| {
            let (file, _) = self.sections.origin(id);
            let name = self.section(id).map_or(&b""[..], |section| section.name);
            format!(
                "{}:({})",
                self.files.get(file),
                String::from_utf8_lossy(name)
            )
        };
        println!("selected section {}", name(first));
        for (_, id) in group.iter().filter(|(_, id)| *id != first) {
            println!("  removing identical section {}", name(*id));
        }
    }
}

fn is_exception_table(section: Section) -> bool {
    section.name.starts_with(b".gcc_except_table")
}

/// Finds the class of each candidate.
fn refine(former: &Former, candidates: &[SectionId]) -> Vec<u128> {
    let (mut classes, references): (Vec<u128>, Vec<Vec<u32>>) = candidates
        .par_iter()
        .map(|id| {
            let Form { bytes, references } = former.form(*id);
            (digest(&[&bytes]), references)
        })
        .unzip();
    let mut count = distinct(&classes);
    loop {
        let next: Vec<u128> = classes
            .par_iter()
            .zip(&references)
            .map(|(class, references)| {
                if references.is_empty() {
                    return *class;
                }
                let mut words = Vec::with_capacity(references.len() + 1);
                words.push(*class);
                words.extend(references.iter().map(|number| classes[*number as usize]));
                digest(&[bytemuck::cast_slice(&words)])
            })
            .collect();
        let more = distinct(&next);
        if more == count {
            return classes;
        }
        (classes, count) = (next, more);
    }
}

fn distinct(classes: &[u128]) -> usize {
    let mut sorted = classes.to_vec();
    sorted.par_sort_unstable();
    sorted.dedup();
    sorted.len()
}

fn digest(parts: &[&[u8]]) -> u128 {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    let mut half = [0; 16];
    half.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    u128::from_le_bytes(half)
}
