//! Section groups during garbage collection: they "must be included or omitted from the linked object as a unit" (gABI,
//! "Section Groups"). Members refer to each other in ways that no relocation tells of.

use crate::base::ids::{FileId, SectionId};
use crate::input::file::Files;
use crate::resolve::input_sections::{Sections, state};
use rayon::prelude::*;

/// The groups of the ELF objects. (Those of tickets are there to be linked once; what is in them is a definition of its
/// own.)
#[derive(Default)]
pub struct Groups {
    /// By file: the next member of the same group, by section; 0 for sections that are in none. Empty for files without
    /// groups. Members that are loaded form a ring.
    next: Vec<Vec<u32>>,
    /// Members that are not loaded, each with one that is.
    unloaded: Vec<(SectionId, SectionId)>,
}

impl Groups {
    /// Reads the groups of all files that are linked.
    pub fn find(files: &Files, sections: &Sections) -> Groups {
        let found: Vec<_> = (0..files.0.len() as u32)
            .into_par_iter()
            .map(|file| of_file(FileId(file), files, sections))
            .collect();
        let mut groups = Groups::default();
        for (next, mut unloaded) in found {
            groups.next.push(next);
            groups.unloaded.append(&mut unloaded);
        }
        groups
    }

    /// The next loaded member of a section's group.
    #[inline]
    pub(super) fn next(&self, file: FileId, number: u32) -> Option<u32> {
        let next = *self.next.get(file.index())?.get(number as usize)?;
        (next != 0).then_some(next)
    }

    /// Takes out what is not loaded of groups that are not linked.
    pub(super) fn settle(&self, sections: &Sections) {
        for (member, loaded) in &self.unloaded {
            if !sections.is_alive(*loaded) && sections.state(*member) & state::ROOT == 0 {
                sections.remove_state(*member, state::ALIVE);
            }
        }
    }
}

fn of_file(
    file: FileId,
    files: &Files,
    sections: &Sections,
) -> (Vec<u32>, Vec<(SectionId, SectionId)>) {
    let (mut next, mut unloaded) = (Vec::new(), Vec::new());
    let object = match files.get(file).object() {
        Some(object) if sections.is_linked(file) => object,
        _ => return (next, unloaded),
    };
    let bits = state::ALIVE | state::ALLOC | state::DISCARDED | state::EH_FRAME;
    let mut members = Vec::new();
    for group in object.whole_groups() {
        members.clear();
        // What is wrong with them was said when they were looked at for the first time.
        for number in object.sections_of_groups(&[*group]) {
            let id = sections.get(file, number);
            members.extend(id.map(|id| (number, id, sections.state(id) & bits)));
        }
        let is_loaded = |bits: u8| bits == state::ALIVE | state::ALLOC;
        let mut loaded = members.iter().filter(|(_, _, bits)| is_loaded(*bits));
        let Some((first, keeper, _)) = loaded.next() else {
            continue;
        };
        // Most have one function and nothing else.
        let mut last = *first;
        for (number, _, _) in loaded {
            next.resize(object.section_count() as usize, 0);
            next[last as usize] = *number;
            last = *number;
        }
        if last != *first {
            next[last as usize] = *first;
        }
        let others = members.iter().filter(|(_, _, bits)| *bits == state::ALIVE);
        unloaded.extend(others.map(|(_, id, _)| (*id, *keeper)));
    }
    (next, unloaded)
}
