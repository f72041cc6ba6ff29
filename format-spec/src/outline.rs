//! The outline: what a linker wants to know of a compilation's fragments before it copies them.
//!
//! To choose what is linked, and to give it a place, a linker needs little of each definition: what kind of
//! section it is and how large, which frame description is about it, and which other definitions and pieces
//! its fixups reach. If it had to open every fragment for that, each would be a cache miss, and most of them are
//! not even linked. So the compilation repeats it, in arrays that are read from front to back. All of it
//! follows from the fragments; it is no part of any digest, and who verifies a repository computes it again. What takes
//! knowledge of instructions and of frame descriptions is found out by whoever split the object; the store, which has
//! none, keeps it.
//!
//! *Shapes.* What many sections have in common is written once.
//!
//! *Plain members.* A member is plain if its first section is a definition, if what else it has is the definition's own (frame
//! descriptions, exception tables, and what the definition refers to), and if every fixup of all of them is of a sort for which
//! [`usage`] has a word. Of such a member the linker need only know, for each binding, how it is used: in the ordinary case a
//! fixup asks for nothing but that what it refers to is linked, too.

use crate::fragment::SectionRecord;
use crate::ids::NameId;
use bytemuck::{Pod, Zeroable};

/// What sections of a compilation have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(C)]
pub struct ShapeRecord {
    /// As [`SectionRecord::name`].
    pub name: NameId,
    /// As [`SectionRecord::sh_type`].
    pub sh_type: u32,
    /// As [`SectionRecord::sh_flags`].
    pub sh_flags: u32,
    /// As [`SectionExtension::entsize`](crate::fragment::SectionExtension::entsize).
    pub entsize: u32,
    /// As [`SectionRecord::kind`].
    pub kind: u8,
    /// [`SectionRecord::SUFFIXED`], `CIE` and `WHOLE_UNWIND` as there; [`ShapeRecord::GROUPED`].
    pub bits: u8,
    /// Zero.
    pub reserved: u16,
}

impl ShapeRecord {
    /// The section is in a section group.
    pub const GROUPED: u8 = 0x80;

    /// The bits of a [`SectionRecord`] that a shape repeats.
    pub const REPEATED: u8 =
        SectionRecord::SUFFIXED | SectionRecord::CIE | SectionRecord::WHOLE_UNWIND;
}

/// A section of a member of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct PlacedSection {
    /// Size in memory, bytes; with [`PlacedSection::LARGE`], nothing.
    pub size: u32,
    /// Index of the member that it belongs to.
    pub member: u32,
    /// With [`PlacedSection::ONE_FDE`]: number, within the compilation, of the section with the CIE; else 0.
    pub cie: u32,
    /// Low 4 bits: [`PlacedSection::HAS_FIXUPS`] and its like; the next 6: as [`SectionRecord::align_log2`]; high 22: index of
    /// its shape.
    pub shape_and_bits: u32,
}

impl PlacedSection {
    /// The greatest number of shapes of a compilation.
    pub const MAX_SHAPES: usize = 1 << 22;
    /// What the shape's index is multiplied with.
    const SHAPE: u32 = 1 << 10;
    const ALIGN: u32 = 1 << 4;

    /// Index of its shape.
    #[inline]
    pub fn shape(&self) -> u32 {
        self.shape_and_bits / Self::SHAPE
    }

    /// As [`SectionRecord::align_log2`].
    #[inline]
    pub fn align_log2(&self) -> u8 {
        (self.shape_and_bits % Self::SHAPE / Self::ALIGN) as u8
    }

    /// [`PlacedSection::HAS_FIXUPS`] and its like.
    #[inline]
    pub fn bits(&self) -> u32 {
        self.shape_and_bits % Self::ALIGN
    }

    /// Shape, alignment and bits as one word. `shape` must be below [`PlacedSection::MAX_SHAPES`], `align_log2` below 64.
    #[inline]
    pub fn word(shape: u32, align_log2: u8, bits: u32) -> u32 {
        shape * Self::SHAPE + u32::from(align_log2) * Self::ALIGN + bits
    }

    /// It has fixups.
    pub const HAS_FIXUPS: u32 = 1;
    /// The size does not fit: see the fragment.
    pub const LARGE: u32 = 2;
    /// It is one FDE, about the first section of the member, and not about nothing: its first fixup is
    /// the CIE pointer, its second the 32-bit distance to the code.
    pub const ONE_FDE: u32 = 4;
    /// With `ONE_FDE`: there is a third fixup, and no more, the pointer to an exception table of the member.
    pub const HAS_LSDA: u32 = 8;
}

/// How the fixups of a plain member use what one binding stands for: bits. Which types of relocations are which, a table
/// of section 19 of SPEC.md says.
pub mod usage {
    /// Their distance from it, or nothing.
    pub const DISTANCE: u8 = 1;
    /// As a function that is called.
    pub const CALL: u8 = 2;
    /// Its address from a slot of the global offset table, by an instruction that could as well compute it.
    pub const ADDRESS_FROM_SLOT: u8 = 4;
    /// Its address.
    pub const ABSOLUTE: u8 = 8;
    /// Its slot of the global offset table, whatever the instruction does with it.
    pub const SLOT: u8 = 16;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn records_have_the_sizes_and_offsets_of_the_specification() {
        assert_eq!(size_of::<ShapeRecord>(), 20);
        assert_eq!(offset_of!(ShapeRecord, kind), 16);
        assert_eq!(size_of::<PlacedSection>(), 16);
        assert_eq!(offset_of!(PlacedSection, cie), 8);
        assert_eq!(offset_of!(PlacedSection, shape_and_bits), 12);
    }

    #[test]
    fn shape_alignment_and_bits_are_parts_of_a_word() {
        let placed = PlacedSection {
            shape_and_bits: PlacedSection::word(PlacedSection::MAX_SHAPES as u32 - 1, 63, 9),
            ..PlacedSection::zeroed()
        };
        assert_eq!(
            (placed.shape(), placed.align_log2(), placed.bits()),
            ((1 << 22) - 1, 63, 9)
        );
    }
}
