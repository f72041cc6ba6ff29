//! How a relocation uses what it refers to, as far as the outline of a compilation has a word for it
//! ([`format_spec::outline::usage`], SPEC.md, section 19).

use format_spec::fragment::FIXUP_CIE;
use format_spec::outline::usage;
use object::elf::{
    R_X86_64_32, R_X86_64_32S, R_X86_64_64, R_X86_64_GOTPCREL, R_X86_64_GOTPCRELX, R_X86_64_NONE,
    R_X86_64_PC32, R_X86_64_PC64, R_X86_64_PLT32, R_X86_64_REX_GOTPCRELX,
};

/// The [`usage`] of a fixup, if it has one; 0 for the CIE pointer of a frame description. `bytes` are those of the section.
#[inline]
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
