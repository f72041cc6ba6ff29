//! The outline: what a linker wants to know of a compilation's fragments before it copies them.
//!
//! To choose what is linked, and to give it a place, a linker needs little of each definition: what kind of
//! section it is and how large, which frame description is about it, and which other definitions and pieces
//! its fixups reach. If it had to open every fragment for that, each would be a cache miss, and most of them are
//! not even linked. So the compilation repeats it, in arrays that are read from front to back. All of it
//! follows from the fragments; it is no part of any digest, and who verifies a repository computes it again.
//!
//! *Shapes.* What many sections have in common is written once.
//!
//! *Plain members.* A member is plain if its first section is a definition, if what else it has is the definition's own (frame
//! descriptions, exception tables, and what the definition refers to), and if every fixup of all of them is of a sort for which
//! [`fixup_use`] has a word. Of such a member the linker need only know, for each binding, how it is used: in the ordinary case a
//! fixup asks for nothing but that what it refers to is linked, too.

use crate::ids::NameId;
use crate::program::{FIXUP_CIE, SectionRecord};
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
    /// As [`SectionRecord::entsize`].
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
    /// Index of its shape.
    pub shape: u32,
    /// With [`PlacedSection::ONE_FDE`]: number, within the compilation, of the section with the CIE; else 0.
    pub cie: u32,
    /// As [`SectionRecord::align_log2`].
    pub align_log2: u8,
    /// [`PlacedSection::HAS_FIXUPS`] and its like.
    pub bits: u8,
    /// Zero.
    pub reserved: u16,
}

impl PlacedSection {
    /// It has fixups.
    pub const HAS_FIXUPS: u8 = 1;
    /// The size does not fit: see the fragment.
    pub const LARGE: u8 = 2;
    /// It is one FDE, about the first section of the member, and not about nothing: its first fixup is
    /// the CIE pointer, its second the 32-bit distance to the code.
    pub const ONE_FDE: u8 = 4;
    /// With `ONE_FDE`: there is a third fixup, and no more, the pointer to an exception table of the member.
    pub const HAS_LSDA: u8 = 8;
}

/// How the fixups of a plain member use what one binding stands for: bits.
pub mod usage {
    /// Their distance from it (psABI: `R_X86_64_PC32`, `R_X86_64_PC64`), or nothing (`R_X86_64_NONE`).
    pub const DISTANCE: u8 = 1;
    /// As a function that is called (`R_X86_64_PLT32`).
    pub const CALL: u8 = 2;
    /// Its address from a slot of the global offset table, by an instruction that could as well compute it.
    pub const ADDRESS_FROM_SLOT: u8 = 4;
    /// Its address (`R_X86_64_64`, `R_X86_64_32`, `R_X86_64_32S`).
    pub const ABSOLUTE: u8 = 8;
    /// Its slot of the global offset table, whatever the instruction does with it (`R_X86_64_GOTPCREL`).
    pub const SLOT: u8 = 16;
}

/// ELF's `EM_X86_64`: the machine whose relocations [`fixup_use`] knows.
pub const MACHINE: u16 = 62;

const R_X86_64_NONE: u32 = 0;
/// An address in a word of 64 bits.
pub const R_X86_64_64: u32 = 1;
/// The distance that a frame description has to its code and to its exception table.
pub const R_X86_64_PC32: u32 = 2;
const R_X86_64_PLT32: u32 = 4;
const R_X86_64_GOTPCREL: u32 = 9;
const R_X86_64_32: u32 = 10;
const R_X86_64_32S: u32 = 11;
const R_X86_64_PC64: u32 = 24;
const R_X86_64_GOTPCRELX: u32 = 41;
const R_X86_64_REX_GOTPCRELX: u32 = 42;

/// The [`usage`] of a fixup, if it has one; 0 for the CIE pointer of a frame description. `bytes` are those of the section.
pub fn fixup_use(bytes: &[u8], offset: u64, fixup_type: u32, addend: i64) -> Option<u8> {
    match fixup_type {
        R_X86_64_NONE | R_X86_64_PC32 | R_X86_64_PC64 => Some(usage::DISTANCE),
        R_X86_64_PLT32 => Some(usage::CALL),
        R_X86_64_64 | R_X86_64_32 | R_X86_64_32S => Some(usage::ABSOLUTE),
        R_X86_64_GOTPCREL => Some(usage::SLOT),
        R_X86_64_GOTPCRELX | R_X86_64_REX_GOTPCRELX if addend == -4 => {
            let at = usize::try_from(offset).ok()?;
            bytes.get(at..at.checked_add(4)?)?;
            let before = |distance: usize| bytes.get(at.checked_sub(distance)?).copied();
            let is_computable = match (fixup_type, before(2)?, before(1)?) {
                // call and jmp through the slot
                (R_X86_64_GOTPCRELX, 0xff, 0x15 | 0x25) => true,
                // mov of the slot's word into a register
                (R_X86_64_GOTPCRELX, 0x8b, modrm) => modrm & 0xc7 == 5,
                (R_X86_64_REX_GOTPCRELX, 0x8b, modrm) => {
                    modrm & 0xc7 == 5 && before(3)? & 0xf0 == 0x40
                }
                _ => false,
            };
            is_computable.then_some(usage::ADDRESS_FROM_SLOT)
        }
        FIXUP_CIE => Some(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn records_have_the_sizes_and_offsets_of_the_specification() {
        assert_eq!(size_of::<ShapeRecord>(), 20);
        assert_eq!(offset_of!(ShapeRecord, kind), 16);
        assert_eq!(size_of::<PlacedSection>(), 20);
        assert_eq!(offset_of!(PlacedSection, cie), 12);
        assert_eq!(offset_of!(PlacedSection, bits), 17);
    }

    #[test]
    fn only_a_load_or_call_that_needs_no_slot_counts_as_one() {
        let of =
            |bytes: &[u8], fixup_type| fixup_use(bytes, bytes.len() as u64 - 4, fixup_type, -4);
        let from_slot = Some(usage::ADDRESS_FROM_SLOT);
        assert_eq!(of(&[0x48, 0x8b, 0x05, 0, 0, 0, 0], 42), from_slot);
        assert_eq!(of(&[0xff, 0x15, 0, 0, 0, 0], 41), from_slot);
        assert_eq!(of(&[0x8b, 0x0d, 0, 0, 0, 0], 41), from_slot);
        // cmp with memory; a mov that does not address by rip; no REX prefix; cut off
        assert_eq!(of(&[0x48, 0x3b, 0x05, 0, 0, 0, 0], 42), None);
        assert_eq!(of(&[0x48, 0x8b, 0x04, 0, 0, 0, 0], 42), None);
        assert_eq!(of(&[0x90, 0x8b, 0x05, 0, 0, 0, 0], 42), None);
        assert_eq!(fixup_use(&[0x48, 0x8b, 0x05, 0], 3, 42, -4), None);
        assert_eq!(fixup_use(&[], u64::MAX, 42, -4), None);
        // The old form does not say where the instruction begins.
        assert_eq!(of(&[0x48, 0x8b, 0x05, 0, 0, 0, 0], 9), Some(usage::SLOT));
    }
}
