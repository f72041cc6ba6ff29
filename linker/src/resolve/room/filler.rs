//! What stands in the room of debugging information: units that say nothing, for readers walk from one unit to the next.
//!
//! DWARF 5, sections 7.5.1 (units), 6.2.4 (line tables), 6.1.2 (address ranges), 7.27 and 7.28 (lists). Tables of
//! abbreviations, and the lists of DWARF 4, may be followed by zeros, which end an empty table.
//!
//! Units of zeros would do for most readers, but binutils' read nothing behind one. So they have an entry, a partial unit that
//! nobody imports, with one attribute, a string of blanks in which all the room is. (Of `DW_FORM_block4` dwz reads more than there is.) Its
//! [abbreviation](ABBREVIATIONS) is behind those of all files.

/// `nop`: between functions, and between the pieces of `.init`, which are run through.
pub const NOP: u8 = 0x90;

/// The table of abbreviations of the units that say nothing: number 1 is a `DW_TAG_partial_unit` without children, with an attribute
/// of a number that is the user's to give (`DW_AT_lo_user`), a `DW_FORM_string`.
pub const ABBREVIATIONS: [u8; 16] = [1, 0x3c, 0, 0x80, 0x40, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A kind of section with debugging information that may have room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filler {
    /// `.debug_info`.
    Units,
    /// `.debug_line`.
    Lines,
    /// `.debug_aranges`.
    Ranges,
    /// `.debug_rnglists`, `.debug_loclists`.
    Lists,
    /// `.debug_addr`.
    Addresses,
    /// `.debug_str_offsets`.
    Offsets,
    /// `.debug_abbrev`.
    Abbreviations,
    /// Zeros are as good as nothing.
    Zeros,
}

impl Filler {
    /// That of the output section of a name.
    pub fn of(name: &[u8]) -> Option<Filler> {
        Some(match name {
            b".debug_info" => Filler::Units,
            b".debug_line" => Filler::Lines,
            b".debug_aranges" => Filler::Ranges,
            b".debug_rnglists" | b".debug_loclists" => Filler::Lists,
            b".debug_addr" => Filler::Addresses,
            b".debug_str_offsets" => Filler::Offsets,
            b".debug_abbrev" => Filler::Abbreviations,
            b".debug_ranges" | b".debug_loc" => Filler::Zeros,
            _ => return None,
        })
    }

    /// Whether so many bytes can be filled.
    pub fn fits(self, size: u64) -> bool {
        let least = match self {
            Filler::Units => 16,
            Filler::Lines => 26,
            Filler::Ranges => 32,
            Filler::Lists => 12,
            Filler::Addresses => return size.is_multiple_of(8),
            Filler::Offsets => return size.is_multiple_of(4) && size != 4,
            Filler::Abbreviations | Filler::Zeros => 0,
        };
        size == 0 || (size >= least && size < 0xffff_fff0)
    }

    /// Fills bytes that it [`fits`](Self::fits) in. `abbreviations` is where [`ABBREVIATIONS`] are in `.debug_abbrev`.
    pub fn fill(self, room: &mut [u8], abbreviations: Option<u32>) {
        room.fill(0);
        let length = (room.len().saturating_sub(4) as u32).to_le_bytes();
        let mut put = |fields: &[&[u8]]| {
            let bytes = [&[&length[..]], fields].concat().concat();
            if let Some(start) = room.get_mut(..bytes.len()) {
                start.copy_from_slice(&bytes);
            }
        };
        match self {
            // Version 4, addresses of 8 bytes.
            Filler::Units => match abbreviations {
                Some(at) => {
                    put(&[&[4, 0], &at.to_le_bytes(), &[8], &[1]]);
                    if let Some((_, [blanks @ .., _])) = room.split_at_mut_checked(12) {
                        blanks.fill(b' ');
                    }
                }
                None => put(&[&[4, 0], &[0; 4], &[8]]),
            },
            // Version 3; instructions of one byte, opcodes from 10 on are special, the numbers of the others' operands; no
            // directories and no files. The program says again and again that a basic block begins, which makes no row.
            Filler::Lines => {
                let operands = [0, 1, 1, 1, 1, 0, 0, 0, 1];
                put(&[
                    &[3, 0],
                    &16u32.to_le_bytes(),
                    &[1, 1, 0, 1, 10],
                    &operands,
                    &[0; 2],
                ]);
                if let Some(program) = room.get_mut(26..) {
                    program.fill(7);
                }
            }
            // Version 2, of the unit at 0, which has no ranges here.
            Filler::Ranges => put(&[&[2, 0], &[0; 4], &[8, 0]]),
            Filler::Lists => put(&[&[5, 0], &[8, 0], &[0; 4]]),
            Filler::Addresses => put(&[&[5, 0], &[8, 0]]),
            Filler::Offsets => put(&[&[5, 0], &[0; 2]]),
            Filler::Abbreviations | Filler::Zeros => {}
        }
    }
}

/// What is between sections that are loaded.
pub fn padding(is_code: bool) -> u8 {
    match is_code {
        true => NOP,
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{ABBREVIATIONS, Filler};
    use gimli::{EndianSlice, LittleEndian};

    fn filled(filler: Filler, size: usize) -> Vec<u8> {
        assert!(filler.fits(size as u64));
        let mut bytes = vec![0xff; size];
        filler.fill(&mut bytes, Some(3));
        bytes
    }

    #[test]
    fn a_unit_that_says_nothing_takes_all_of_the_room() {
        let abbreviations = [&[1, 2, 0][..], &ABBREVIATIONS].concat();
        let abbreviations = gimli::DebugAbbrev::new(&abbreviations, LittleEndian);
        for size in [16, 17, 100] {
            let bytes = [filled(Filler::Units, size), filled(Filler::Units, 20)].concat();
            let info = gimli::DebugInfo::new(&bytes, LittleEndian);
            let mut units = info.units();
            let first = units.next().unwrap().unwrap();
            assert_eq!(first.length_including_self(), size);
            let table = first.abbreviations(&abbreviations).unwrap();
            let mut entries = first.entries(&table);
            let entry = entries.next_dfs().unwrap().unwrap();
            assert_eq!(entry.1.tag(), gimli::DW_TAG_partial_unit);
            let rest = entry.1.attr_value(gimli::DW_AT_lo_user).unwrap();
            let rest =
                rest.and_then(|it| it.string_value(&gimli::DebugStr::new(&[], LittleEndian)));
            assert_eq!(rest.map(|it| it.len()), Some(size - 13));
            assert!(entries.next_dfs().unwrap().is_none());
            assert!(units.next().unwrap().is_some());
            assert!(units.next().unwrap().is_none());
        }
    }

    #[test]
    fn a_line_table_that_says_nothing_has_no_rows() {
        for size in [26, 27, 64, 300] {
            let bytes = filled(Filler::Lines, size);
            let lines = gimli::DebugLine::new(&bytes, LittleEndian);
            let program = lines
                .program(gimli::DebugLineOffset(0), 8, None, None)
                .unwrap();
            assert_eq!(program.header().unit_length(), size - 4);
            assert!(program.rows().next_row().unwrap().is_none());
        }
    }

    #[test]
    fn a_set_of_ranges_that_says_nothing_has_none() {
        for size in [32, 33, 64, 81] {
            let bytes = filled(Filler::Ranges, size);
            let ranges = gimli::DebugAranges::new(&bytes, LittleEndian);
            let mut headers = ranges.headers();
            let header = headers.next().unwrap().unwrap();
            assert!(header.entries().next().unwrap().is_none());
            assert!(headers.next().unwrap().is_none());
        }
    }

    #[test]
    fn lists_and_addresses_are_headers_with_nothing_behind() {
        let bytes = filled(Filler::Lists, 40);
        assert_eq!(bytes[..12], [36, 0, 0, 0, 5, 0, 8, 0, 0, 0, 0, 0]);
        let bytes = filled(Filler::Addresses, 24);
        assert_eq!(bytes[..8], [20, 0, 0, 0, 5, 0, 8, 0]);
        let bytes = filled(Filler::Offsets, 12);
        assert_eq!(bytes[..8], [8, 0, 0, 0, 5, 0, 0, 0]);
        assert!(!Filler::Units.fits(5) && !Filler::Addresses.fits(12));
        let _: EndianSlice<LittleEndian> = EndianSlice::new(&bytes, LittleEndian);
    }
}
