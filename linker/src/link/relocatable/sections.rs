//! Sections of a relocatable output, and what is numbered with them.

use crate::base::ids::{FileId, SectionId};
use crate::elf::c;

/// Number of an output section in the [`Plan`](super::plan::Plan); its section header's index is known later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutId(pub u32);

impl OutId {
    /// For indexing.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// An output section.
#[derive(Clone, Debug)]
pub struct OutSection<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// `SHT_*`.
    pub sh_type: u32,
    /// `SHF_*`, without those that say something of the file's form.
    pub flags: u64,
    /// Size in bytes.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u64,
    /// Size of an element, or 0.
    pub entsize: u64,
    /// The section that `sh_link` shall point to.
    pub link: Option<OutId>,
    /// The group that it belongs to, by index.
    pub group: Option<u32>,
    /// What it is put together from, in order.
    pub inputs: Vec<SectionId>,
    /// What the linker puts behind the inputs.
    pub made: Vec<u8>,
    /// What a script puts between them: offset, bytes.
    pub data: Vec<(u64, Vec<u8>)>,
    /// `sh_addr`.
    pub address: u64,
}

impl OutSection<'_> {
    /// It has no bytes in the file.
    pub fn is_nobits(&self) -> bool {
        self.sh_type == c::SHT_NOBITS
    }
}

/// A section group of the output.
#[derive(Clone, Copy, Debug)]
pub struct OutGroup {
    /// The file that it comes from.
    pub file: FileId,
    /// The signature's symbol in the file.
    pub signature: u32,
    /// `GRP_*`.
    pub flags: u32,
}

/// A common block that gets a place (`-d`).
#[derive(Clone, Copy, Debug)]
pub struct PlacedCommon {
    /// Its section.
    pub section: OutId,
    /// Offset there.
    pub offset: u64,
}
