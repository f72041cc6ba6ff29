//! What folding has decided: which section stands for which.
//!
//! Afterwards everybody asks here. A section that was folded in full is no longer alive, and its
//! names have the address of the one that stands for it. One that became a jump is alive and has
//! its own place, only that nothing but the jump is there ([`thunks`](super::thunks)).

use super::thunks;
use crate::base::ids::SectionId;
use crate::input::object::Object;

/// Which section stands for each folded one.
#[derive(Default)]
pub struct Folds {
    /// By section; empty if nothing was folded.
    into: Vec<SectionId>,
    /// Where the jump that is left of a section goes, by section; empty if there is none.
    jumps: Vec<SectionId>,
}

impl Folds {
    /// Nothing is folded yet, of `count` sections.
    pub fn new(count: usize) -> Folds {
        Folds {
            into: vec![SectionId::NONE; count],
            jumps: Vec::new(),
        }
    }

    /// Makes `leader` stand for `id`.
    pub fn fold(&mut self, id: SectionId, leader: SectionId) {
        self.into[id.index()] = leader;
    }

    /// Leaves of `id` only a jump to `leader`.
    pub fn leave_jump(&mut self, id: SectionId, leader: SectionId) {
        if self.jumps.is_empty() {
            self.jumps = vec![SectionId::NONE; self.into.len()];
        }
        self.jumps[id.index()] = leader;
    }

    /// Whether nothing was folded.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.into.is_empty()
    }

    /// The section that stands for a section that was folded in full.
    #[inline]
    pub fn of(&self, id: SectionId) -> Option<SectionId> {
        get(&self.into, id)
    }

    /// Where the jump goes that is left of a section.
    #[inline]
    pub fn jump(&self, id: SectionId) -> Option<SectionId> {
        get(&self.jumps, id)
    }

    /// Size in bytes of the jump that is left of a section, which has this number in its object.
    #[inline]
    pub fn jump_size(&self, id: SectionId, object: &Object, number: u32) -> Option<u64> {
        self.jump(id)?;
        Some(thunks::size(object.section_bytes(number)))
    }

    /// Size of a section in the output, and its alignment, in bytes: [`Object::extent`], but for jumps.
    #[inline]
    pub fn extent(&self, id: SectionId, object: &Object, number: u32) -> Option<(u64, u64)> {
        let (size, align) = object.extent(number)?;
        Some((self.jump_size(id, object, number).unwrap_or(size), align))
    }
}

#[inline]
fn get(sections: &[SectionId], id: SectionId) -> Option<SectionId> {
    sections
        .get(id.index())
        .copied()
        .filter(|section| *section != SectionId::NONE)
}
