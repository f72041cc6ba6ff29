//! Identical code folding (`--icf`): of sections that are the same but for their names, one is
//! in the output, and the names of all have its address.
//!
//! Two sections are the same if their bytes are, and their fixups, and what these refer to:
//! the same symbol, or the same place in the same section, or the same merged piece, or the
//! same place in two sections that are the same in turn. The frame descriptions of code count
//! as part of it. That is a question with circles (functions that call each other), and its
//! answer is the coarsest partition that is stable:
//!
//! 1. Candidates are what may be folded: loaded, read-only, and nobody's business by its
//!    address ([`significance`]). Where a jump may be left in their place, also functions whose
//!    address matters ([`thunks`]).
//! 2. Those whose bytes nobody else has go away: that is most of them.
//! 3. Each of the others is written down in a canonical form ([`form`]): what is certain as words,
//!    and references to other candidates as a list. All forms with the same digest begin as one class.
//! 4. Again and again, a candidate's class becomes the digest of its class and of the classes it
//!    refers to, until the number of classes stops growing ([`refine`]).
//! 5. The members of each class are compared in full. If any two differ nothing at all is folded.
//!
//! It happens when it is known what is alive and where merged pieces lie, and before anything
//! is placed. A folded section is no longer alive; [`Folds`] knows which one stands for it.

mod folds;
mod form;
mod refine;
mod significance;
pub mod thunks;

use crate::args::{Args, IcfMode};
use crate::base::ids::{FileId, PartId, SectionId};
use crate::elf::c;
use crate::elf::shf;
use crate::graph::eh_frame_records::Frames;
use crate::graph::merge::Merged;
use crate::graph::repository_pieces::PiecePlaces;
use crate::graph::trace::Needs;
use crate::input::file::Files;
use crate::input::parts::Section;
use crate::messages::diag::Diagnostics;
use crate::resolve::input_sections::{Sections, state};
use crate::resolve::linker_symbols::is_c_identifier;
use crate::resolve::output_sections::{Order, Outputs};
use crate::resolve::resolution::Definitions;
use crate::resolve::symbol_table::SymbolTable;
use crate::say;
pub use folds::Folds;
use form::{Form, Former, digest};
use rayon::prelude::*;
use significance::Significance;
use std::sync::atomic::Ordering::Relaxed;
use thunks::Interiors;

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
        let significance = Significance::find(self);
        let interiors = self.args.icf_thunks.then(|| Interiors::find(self));
        let candidates = refine::shared(self.candidates(&significance, interiors.as_ref()));
        let mut numbers = vec![NONE; self.sections.count()];
        for (number, candidate) in (0..).zip(&candidates) {
            numbers[candidate.id.index()] = number;
        }
        let addressed: Vec<bool> = candidates
            .iter()
            .map(|candidate| candidate.stays != Stays::Nothing)
            .collect();
        let former = Former {
            link: self,
            numbers: &numbers,
            addressed: &addressed,
        };
        let classes = refine::classes(&former, &candidates);
        self.unite(&former, &candidates, &classes)
    }

    /// What may be folded, in the order of the inputs. `interiors` if jumps may be left.
    fn candidates(
        &self,
        significance: &Significance,
        interiors: Option<&Interiors>,
    ) -> Vec<Candidate> {
        // What is about code and would be lost with it, but for exception tables, which are folded themselves.
        let mut kept = vec![false; self.sections.count()];
        let is_loaded = |id: SectionId| self.sections.state(id) & state::ALLOC != 0;
        for (section, about) in self.link_order {
            if is_loaded(*section) && !self.section(*section).is_some_and(is_exception_table) {
                kept[about.index()] = true;
            }
        }
        (0..self.files.0.len() as u32)
            .into_par_iter()
            .flat_map_iter(|file| self.sections.of_file(FileId(file)).map(SectionId))
            .filter(|id| !kept[id.index()])
            .filter_map(|id| self.candidate(id, significance, interiors))
            .collect()
    }

    fn candidate(
        &self,
        id: SectionId,
        significance: &Significance,
        interiors: Option<&Interiors>,
    ) -> Option<Candidate> {
        use state::{ALIVE, ALLOC, BITS, DISCARDED, EH_FRAME, HAS_FDE, ROOT, WRITE};
        let bits = self.sections.state(id);
        if bits & (ALIVE | ALLOC | BITS | DISCARDED | EH_FRAME | ROOT | WRITE)
            != ALIVE | ALLOC | BITS
        {
            return None;
        }
        let part = self.sections.part[id.index()];
        if part == PartId::NONE || self.bounded[part.index()] {
            return None;
        }
        let info = &self.outputs.parts[part.index()];
        if info.merge.is_some() || info.sort != Order::Input {
            return None;
        }
        let input = self.sections.at(self.files, id);
        let section = input.header()?;
        // What is put together to one function, or found by the bounds of its output section.
        let has_neighbours =
            matches!(section.name, b".init" | b".fini") || is_c_identifier(section.name);
        if section.sh_type != c::SHT_PROGBITS || section.size == 0 || has_neighbours {
            return None;
        }
        let stays = self.stays(id, section, significance, interiors)?;
        let fixups = input.fixups().len();
        let seed = (fixups as u64) << 32 | u64::from(part.0) << 1 | u64::from(bits & HAS_FDE != 0);
        Some(Candidate {
            id,
            stays,
            digest: digest(seed, input.bytes()),
        })
    }

    /// What must stay of a section if it is folded; `None` if it cannot be.
    fn stays(
        &self,
        id: SectionId,
        section: Section,
        significance: &Significance,
        interiors: Option<&Interiors>,
    ) -> Option<Stays> {
        let is_code = section.flags & shf::EXEC != 0;
        if !is_code && is_exception_table(section) {
            return Some(Stays::Nothing);
        }
        let counts = match (self.args.icf, is_code) {
            (IcfMode::All, true) => interiors.is_some(),
            (IcfMode::All, false) => !self.args.ignore_data_address_equality,
            _ => true,
        };
        if !counts || !significance.is_significant(id) {
            return Some(Stays::Nothing);
        }
        let interiors = interiors.filter(|_| is_code)?;
        Some(match interiors.allow_jump(self, id) {
            true => Stays::Jump,
            false => Stays::Everything,
        })
    }

    fn section(&self, id: SectionId) -> Option<Section<'_>> {
        let (file, number) = self.sections.origin(id);
        self.files.object(file).section(number)
    }

    /// Makes one of each class stand for all.
    fn unite(&self, former: &Former, candidates: &[Candidate], classes: &[u64]) -> Folds {
        let groups = refine::groups((0..candidates.len() as u32).collect(), classes);
        let groups: Vec<&[u32]> = groups.each().collect();
        let id_of = |number: u32| candidates[number as usize].id;
        let equal = groups.par_iter().all(|group| {
            let (mut first, mut form) = (Form::default(), Form::default());
            let bytes = former.bytes(id_of(group[0]));
            former.write(id_of(group[0]), &mut first);
            group[1..].iter().all(|number| {
                former.write(id_of(*number), &mut form);
                bytes == former.bytes(id_of(*number)) && first.is_same(&form, classes)
            })
        });
        if !equal {
            self.diag
                .warn("--icf: two different sections have one digest; nothing is folded");
            return Folds::default();
        }
        let mut folds = Folds::new(self.sections.count());
        for group in groups {
            let group = group.iter().map(|number| candidates[*number as usize]);
            // The one that stands for all must be aligned as all of them want it. It may as well be one
            // of which something had to stay.
            let align = |id: SectionId| self.section(id).map_or(0, |section| section.align);
            let Some(first) = group.clone().max_by_key(|candidate| {
                let id = candidate.id;
                (align(id), candidate.stays, std::cmp::Reverse(id))
            }) else {
                continue;
            };
            let others = group.filter(|other| other.id != first.id);
            let others = others.filter(|other| other.stays != Stays::Everything);
            for other in others.clone() {
                if other.stays == Stays::Jump {
                    folds.leave_jump(other.id, first.id);
                } else {
                    folds.fold(other.id, first.id);
                    self.sections.remove_state(other.id, state::ALIVE);
                }
            }
            if self.args.print_icf_sections {
                self.print(first, others);
            }
        }
        // What is about folded code is gone, but for what was folded itself.
        for (section, about) in self.link_order {
            let is_folded = folds.of(*about).or(folds.jump(*about)).is_some();
            if is_folded && folds.of(*section).is_none() {
                self.sections.remove_state(*section, state::ALIVE);
            }
        }
        folds
    }

    /// `--print-icf-sections`, in lld's words.
    fn print(&self, first: Candidate, others: impl Iterator<Item = Candidate>) {
        let mut others = others.peekable();
        if others.peek().is_none() {
            return;
        }
        let name = |id: SectionId| {
            let (file, _) = self.sections.origin(id);
            let name = self.section(id).map_or(&b""[..], |section| section.name);
            format!(
                "{}:({})",
                self.files.get(file),
                String::from_utf8_lossy(name)
            )
        };
        say!("selected section {}", name(first.id));
        for other in others {
            match other.stays {
                Stays::Jump => {
                    say!("  leaving a jump of identical section {}", name(other.id));
                }
                _ => say!("  removing identical section {}", name(other.id)),
            }
        }
    }
}

/// What may be folded.
#[derive(Clone, Copy)]
struct Candidate {
    id: SectionId,
    stays: Stays,
    /// Of its bytes, and of how many fixups it has.
    digest: u64,
}

/// What must stay of a section if another stands for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stays {
    Nothing,
    /// A jump, as its address matters.
    Jump,
    /// All of it: then it can only stand for others.
    Everything,
}

fn is_exception_table(section: Section) -> bool {
    section.name.starts_with(b".gcc_except_table")
}
