//! `.eh_frame` taken apart: one record for each CIE and FDE (LSB, "Exception
//! Frames"; DWARF 5, section 6.4.1).
//!
//! Only what splitting needs is looked at: lengths, the CIE pointer, and the
//! relocation at `pc_begin`, which says to which section an FDE belongs. The
//! instructions are bytes that the linker carries along.
//!
//! But for those at the end: assemblers fill FDEs up with `DW_CFA_nop` to a multiple of 4 bytes, and the last one of a section to one of 8. So the same function
//! would have another description where it is the last one of its unit. What is more than a multiple of 4 needs is left out.

use gimli::{BaseAddresses, CallFrameInstruction, EhFrame, LittleEndian, UnwindSection as _};
use object::LittleEndian as LE;
use object::elf::Rela64;
use std::ops::Range;

/// An entry of `.eh_frame`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its bytes, length field included.
    pub bytes: Range<usize>,
    /// How many bytes behind these its length field counts as well: they fill the section up.
    pub filling: usize,
    /// Its relocations, by index.
    pub relocations: Range<usize>,
    /// What it is.
    pub kind: EntryKind,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A common information entry.
    Cie,
    /// A frame description entry and the index of its CIE among the entries.
    Fde {
        /// Index of the CIE.
        cie: usize,
    },
    /// The zero length that ends the section.
    Terminator,
}

/// Offset of the CIE pointer in an FDE.
pub const CIE_POINTER: usize = 4;
/// Offset of `pc_begin` in an FDE.
pub const PC_BEGIN: usize = 8;

/// Takes a section apart. `relocations` are sorted by offset. The error says why
/// this is not a section whose entries can be moved.
pub fn parse(data: &[u8], relocations: &[Rela64<LE>]) -> Result<Vec<Entry>, &'static str> {
    let word = |at: usize| -> Option<u32> {
        let bytes = data.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let mut entries: Vec<Entry> = Vec::new();
    // Offsets of CIEs with their entry index, ascending.
    let mut cies: Vec<(usize, usize)> = Vec::new();
    let mut at = 0;
    let mut relocation = 0;
    while at < data.len() {
        let length = word(at).ok_or("an entry is cut off")? as usize;
        if length == 0 {
            if at + 4 != data.len() {
                return Err("there are bytes after the terminator");
            }
            entries.push(Entry {
                bytes: at..at + 4,
                filling: 0,
                relocations: relocation..relocation,
                kind: EntryKind::Terminator,
            });
            break;
        }
        if length == 0xffff_ffff {
            return Err("it has 64-bit entries");
        }
        let end = at
            .checked_add(4 + length)
            .filter(|end| *end <= data.len() && length >= 4)
            .ok_or("an entry is longer than the section")?;
        let first = relocation;
        while relocations
            .get(relocation)
            .is_some_and(|entry| entry.r_offset.get(LE) < end as u64)
        {
            relocation += 1;
        }
        let relocated = first..relocation;
        let pointer = word(at + CIE_POINTER).ok_or("an entry is cut off")? as usize;
        // Neither the length nor the CIE pointer may be relocated.
        if relocations[relocated.clone()]
            .iter()
            .any(|entry| entry.r_offset.get(LE) < (at + PC_BEGIN) as u64)
        {
            return Err("the head of an entry is relocated");
        }
        let kind = if pointer == 0 {
            cies.push((at, entries.len()));
            EntryKind::Cie
        } else {
            let cie = (at + CIE_POINTER)
                .checked_sub(pointer)
                .and_then(|cie| cies.binary_search_by_key(&cie, |&(offset, _)| offset).ok())
                .ok_or("an FDE's CIE pointer points at no CIE before it")?;
            let begins = relocations[relocated.clone()].first();
            if begins.is_none_or(|entry| entry.r_offset.get(LE) != (at + PC_BEGIN) as u64) {
                return Err("an FDE's beginning is not relocated");
            }
            EntryKind::Fde { cie: cies[cie].1 }
        };
        entries.push(Entry {
            bytes: at..end,
            filling: 0,
            relocations: relocated,
            kind,
        });
        at = end;
    }
    if relocation != relocations.len() {
        return Err("a relocation is beyond the last entry");
    }
    for entry in &mut entries {
        entry.filling = filling(data, entry, relocations);
        entry.bytes.end -= entry.filling;
    }
    Ok(entries)
}

/// What records are filled up to a multiple of.
const UNIT: usize = 4;

/// How many bytes at the end of an FDE are instructions that do nothing and fill up more than a multiple of [`UNIT`].
fn filling(data: &[u8], entry: &Entry, relocations: &[Rela64<LE>]) -> usize {
    let Range { start, end } = entry.bytes;
    let is_fde = matches!(entry.kind, EntryKind::Fde { .. });
    // A first look, which is enough for nearly all.
    if !is_fde || !(end - start).is_multiple_of(UNIT) || !data[start..end].ends_with(&[0; UNIT]) {
        return 0;
    }
    // Zeros may be operands as well.
    let nops_at_end = || -> gimli::Result<usize> {
        let mut frames = EhFrame::new(data, LittleEndian);
        frames.set_address_size(8);
        let bases = BaseAddresses::default().set_eh_frame(0);
        let fde = frames.fde_from_offset(&bases, start.into(), EhFrame::cie_from_offset)?;
        let mut instructions = fde.instructions(&frames, &bases);
        let mut nops = 0;
        while let Some(instruction) = instructions.next()? {
            nops = match instruction {
                CallFrameInstruction::Nop => nops + 1,
                _ => 0,
            };
        }
        Ok(nops)
    };
    let filling = nops_at_end().unwrap_or(0) / UNIT * UNIT;
    let is_relocated = |entry: &Rela64<LE>| entry.r_offset.get(LE) + 8 > (end - filling) as u64;
    match relocations[entry.relocations.clone()]
        .iter()
        .any(is_relocated)
    {
        true => 0,
        false => filling,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relocation(offset: u64) -> Rela64<LE> {
        Rela64 {
            r_offset: object::U64::new(LE, offset),
            r_info: object::U64::new(LE, 2),
            r_addend: object::I64::new(LE, 0),
        }
    }

    fn section() -> Vec<u8> {
        let mut data = Vec::new();
        data.extend_from_slice(&12u32.to_le_bytes());
        data.extend_from_slice(&0u32.to_le_bytes());
        data.extend_from_slice(&[1; 8]);
        data.extend_from_slice(&12u32.to_le_bytes());
        data.extend_from_slice(&20u32.to_le_bytes());
        data.extend_from_slice(&[0; 8]);
        data
    }

    #[test]
    fn a_cie_and_its_fde() {
        let entries = parse(&section(), &[relocation(24)]).unwrap();
        assert_eq!(entries[0].kind, EntryKind::Cie);
        assert_eq!(entries[1].kind, EntryKind::Fde { cie: 0 });
        assert_eq!(entries[1].bytes, 16..32);
        assert_eq!(entries[1].relocations, 0..1);
    }

    /// A CIE as compilers write it, and FDEs with these instructions, filled up to these sizes.
    fn frames(fdes: &[(&[u8], usize)]) -> (Vec<u8>, Vec<Rela64<LE>>) {
        let cie = [
            0x14, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 12, 7, 8, 0x90, 1,
            0, 0,
        ];
        let (mut data, mut relocations) = (cie.to_vec(), Vec::new());
        for (instructions, size) in fdes {
            let start = data.len();
            data.extend_from_slice(&(*size as u32 - 4).to_le_bytes());
            data.extend_from_slice(&(start as u32 + 4).to_le_bytes());
            relocations.push(relocation(start as u64 + 8));
            // (Address, length, and no augmentation.)
            data.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0, 0]);
            data.extend_from_slice(instructions);
            data.resize(start + size, 0);
        }
        (data, relocations)
    }

    #[test]
    fn what_fills_up_is_no_part_of_a_record() {
        let filled = |fdes: &[(&[u8], usize)]| -> Vec<(usize, usize)> {
            let (data, relocations) = frames(fdes);
            let entries = parse(&data, &relocations).unwrap();
            let fdes = entries.iter().skip(1);
            fdes.map(|entry| (entry.bytes.len(), entry.filling))
                .collect()
        };
        // DW_CFA_advance_loc 1, DW_CFA_def_cfa_offset 16: 20 bytes.
        let push: &[u8] = &[0x41, 0x0e, 0x10];
        assert_eq!(filled(&[(push, 20), (push, 20)]), [(20, 0), (20, 0)]);
        assert_eq!(filled(&[(push, 20), (push, 24)]), [(20, 0), (20, 4)]);
        assert_eq!(filled(&[(push, 28), (push, 20)]), [(20, 8), (20, 0)]);
        // Nothing else, and seven of them.
        assert_eq!(filled(&[(&[], 24)]), [(20, 4)]);
        // DW_CFA_advance_loc4, whose operand is all of the zeros.
        let advance: &[u8] = &[0x41, 0x0e, 0x10, 0x04, 0, 0, 0, 0];
        assert_eq!(filled(&[(&advance[..7], 24)]), [(24, 0)]);
        assert_eq!(filled(&[(advance, 32)]), [(28, 4)]);
    }

    #[test]
    fn what_cannot_be_moved_is_refused() {
        assert!(parse(&section(), &[]).is_err());
        assert!(parse(&section(), &[relocation(20)]).is_err());
        assert!(parse(&section()[..30], &[relocation(24)]).is_err());
        assert!(parse(&section(), &[relocation(24), relocation(99)]).is_err());
        let mut wrong = section();
        wrong[20] = 19;
        assert!(parse(&wrong, &[relocation(24)]).is_err());
        let mut after = section();
        after.extend_from_slice(&[0; 8]);
        assert!(parse(&after, &[relocation(24)]).is_err());
    }
}
