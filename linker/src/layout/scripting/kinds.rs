//! What there is in the output sections that a script describes: which sections, and of which kind they are together.

use crate::base::ids::{PartId, SectionId};
use crate::elf::c;
use crate::resolve::output_sections::MergeKind;

/// An input section on its way to its place.
#[derive(Clone, Copy)]
pub(super) struct Input {
    pub id: SectionId,
    pub size: u64,
    pub align: u64,
}

/// What a description holds, taken together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kind {
    /// `SHF_*` of what is in it.
    pub flags: u64,
    /// Something is in it that has bytes.
    pub bits: bool,
    /// Something is in it, be it without bytes.
    pub present: bool,
    /// The type that all of it has; 0 if none or mixed.
    pub sh_type: u32,
    mixed: bool,
    /// An input section without any bytes, but of a type that has some, is in it: then so has what the script adds.
    pub empty_bits: bool,
    /// The largest alignment.
    pub align: u64,
    /// Size of an entry, if all of it is one table.
    pub entsize: u64,
    /// Mergeable pieces, and how many bytes they take, the last kind of them if there are more.
    pub pieces: Option<(MergeKind, u64)>,
}

impl Kind {
    /// Adds something of a type, with flags and an alignment.
    pub fn add(&mut self, sh_type: u32, flags: u64, align: u64) {
        self.present = true;
        self.flags |= flags;
        self.align = self.align.max(align);
        if sh_type != c::SHT_NOBITS {
            self.bits = true;
            self.mixed |= self.sh_type != 0 && self.sh_type != sh_type;
            self.sh_type = sh_type;
        }
    }

    /// The kind of its pieces, if a section of this size holds nothing but these.
    pub fn only_pieces(&self, size: u64) -> Option<MergeKind> {
        let (kind, bytes) = self.pieces?;
        (bytes == size).then_some(kind)
    }

    /// `sh_type` of the output section.
    pub fn section_type(&self) -> u32 {
        match (self.bits, self.mixed) {
            (false, _) => c::SHT_NOBITS,
            (true, true) => c::SHT_PROGBITS,
            (true, false) => self.sh_type,
        }
    }
}

/// What is in the descriptions.
pub(super) struct Content {
    /// Parts of each rule.
    pub of_rule: Vec<Vec<PartId>>,
    /// Parts that come last in a description: what is of its name and no rule takes.
    pub rest: Vec<Vec<PartId>>,
    /// Input sections of each part, in order.
    pub inputs: Vec<Vec<Input>>,
    /// By description.
    pub kinds: Vec<Kind>,
    /// The first description with thread-local storage, and the alignment of all of that.
    pub thread_storage: Option<(usize, u64)>,
}
