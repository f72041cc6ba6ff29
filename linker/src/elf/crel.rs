//! Compact relocations (`SHT_CREL`): decoded to relocations with addends.
//!
//! The form is the one that LLVM writes (`-Wa,--crel`; MaskRay, "A compact relocation format for ELF", and the gABI's
//! discussion of `SHT_CREL`). A section is a header, ULEB128: the count times 8, plus 4 if there are addends, plus how far
//! offsets are shifted. Then each relocation tells how it differs from the one before it: a byte whose low bits (3 with
//! addends, else 2) say which of symbol, type and addend are other ones, and whose remaining bits, continued as
//! ULEB128 if the highest is set, are the distance of the offsets; then these differences as SLEB128.

use crate::elf::Rela;

/// Bit of the header: there are addends.
const HAS_ADDENDS: u64 = 4;

/// Why a section cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CrelError {
    /// It ends too early.
    #[error("compact relocations are cut off at offset {0:#x}")]
    Truncated(usize),
    /// A number of more than 64 bits.
    #[error("compact relocations: the number at offset {0:#x} has more than 64 bits")]
    Number(usize),
    /// Addends would stand at the places, which x86-64 does not use.
    #[error("compact relocations without addends, which x86-64 does not use")]
    NoAddends,
}

/// The relocations in the bytes of a section.
///
/// # Errors
/// If they are damaged.
pub fn decode(section: &[u8]) -> Result<Vec<Rela>, CrelError> {
    let mut bytes = Bytes { section, at: 0 };
    let header = bytes.uleb()?;
    let (count, shift) = (header / 8, header % 4);
    if header & HAS_ADDENDS == 0 && count != 0 {
        return Err(CrelError::NoAddends);
    }
    // Each has a byte at least: a count that is too large must not reserve memory.
    let mut relocations = Vec::with_capacity(count.min(section.len() as u64) as usize);
    let (mut offset, mut symbol, mut r_type, mut addend) = (0u64, 0u32, 0u32, 0i64);
    for _ in 0..count {
        let head = bytes.byte()?;
        offset = offset.wrapping_add(u64::from(head >> 3));
        if head & 0x80 != 0 {
            // What follows stands above the four bits that are in the head; its own highest bit there counted too much.
            let rest = bytes.uleb()?;
            offset = offset.wrapping_add((rest << 4).wrapping_sub(0x80 >> 3));
        }
        if head & 1 != 0 {
            symbol = symbol.wrapping_add(bytes.sleb()? as u32);
        }
        if head & 2 != 0 {
            r_type = r_type.wrapping_add(bytes.sleb()? as u32);
        }
        if head & 4 != 0 {
            addend = addend.wrapping_add(bytes.sleb()?);
        }
        relocations.push(Rela::new(offset << shift, r_type, symbol, addend));
    }
    Ok(relocations)
}

struct Bytes<'a> {
    section: &'a [u8],
    at: usize,
}

impl Bytes<'_> {
    fn byte(&mut self) -> Result<u8, CrelError> {
        let byte = self
            .section
            .get(self.at)
            .ok_or(CrelError::Truncated(self.at))?;
        self.at += 1;
        Ok(*byte)
    }

    fn uleb(&mut self) -> Result<u64, CrelError> {
        let start = self.at;
        let mut value = 0u64;
        for shift in (0..).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift >= 64 && bits != 0 || shift == 63 && bits > 1 {
                return Err(CrelError::Number(start));
            }
            value |= bits.checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok(value)
    }

    fn sleb(&mut self) -> Result<i64, CrelError> {
        let start = self.at;
        let mut value = 0i64;
        for shift in (0..).step_by(7) {
            let byte = self.byte()?;
            if shift > 63 {
                return Err(CrelError::Number(start));
            }
            value |= i64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                if byte & 0x40 != 0 && shift + 7 < 64 {
                    value |= -1 << (shift + 7);
                }
                break;
            }
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::{CrelError, decode};

    fn decoded(section: &[u8]) -> Vec<(u64, u32, u32, i64)> {
        let relocations = decode(section).unwrap();
        let fields =
            |rela: &crate::elf::Rela| (rela.r_offset, rela.r_type(), rela.symbol(), rela.r_addend);
        relocations.iter().map(fields).collect()
    }

    #[test]
    fn differences_add_up() {
        let section = [
            4 * 8 + 4, // four, with addends, offsets as they are
            1 << 3 | 7,
            3,
            2,
            0x7c, // at 1: symbol 3, type 2, addend -4
            0x80 | 2 << 3 | 1,
            5,
            0x7f, // 5 << 4 | 2 farther: symbol 2
            4 << 3 | 2,
            2, // type 4
            0, // all the same at the same place
        ];
        assert_eq!(
            decoded(&section),
            [
                (1, 2, 3, -4),
                (0x53, 2, 2, -4),
                (0x57, 4, 2, -4),
                (0x57, 4, 2, -4)
            ]
        );
        // Offsets in units of 8.
        assert_eq!(decoded(&[8 + 4 + 3, 2 << 3]), [(16, 0, 0, 0)]);
        assert_eq!(decoded(&[0]), []);
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        assert_eq!(decode(&[]).unwrap_err(), CrelError::Truncated(0));
        assert_eq!(
            decode(&[8 + 4, 1, 0x80]).unwrap_err(),
            CrelError::Truncated(3)
        );
        assert_eq!(decode(&[8, 0]).unwrap_err(), CrelError::NoAddends);
        let mut endless = vec![0xff; 9];
        endless.push(0x7f);
        assert_eq!(decode(&endless).unwrap_err(), CrelError::Number(0));
        // As many as there could ever be, in nine bytes.
        assert_eq!(
            decode(&[0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0]).unwrap_err(),
            CrelError::Truncated(9)
        );
    }
}
