//! `.eh_frame` in a relocatable output: the sections of all inputs one after
//! another, less the records of code that is left out.
//!
//! A frame description whose code lost against an equal COMDAT group must go: what
//! would be left of it describes address zero. When records go, those behind them
//! move up, and so do relocations, and symbols within the section; CIE pointers
//! are distances and are computed anew. A terminator ends the unwinder's walk, so
//! it may only stand behind everything.

use crate::base::ids::SectionId;
use crate::elf::eh_frame::{self, RecordKind};
use crate::input::file::Files;
use crate::input::object::Fixups;
use crate::input::parts::Target;
use crate::messages::diag::Diagnostics;
use crate::resolve::input_sections::Sections;
use std::collections::HashMap;
use std::ops::Range;

/// What a record is, in terms of what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Cie,
    /// With the index of its CIE among the section's records, and the section of the code.
    Fde {
        cie: usize,
        describes: Option<SectionId>,
    },
    Terminator,
}

/// One record.
#[derive(Clone, Debug)]
pub struct Record {
    kind: Kind,
    /// Offset in the input section.
    pub offset: u64,
    /// Size with the length field.
    pub size: u64,
    /// Its relocations, by index.
    pub relocations: Range<usize>,
    /// Offset among what is kept of the section; `None` if it is left out.
    pub kept_at: Option<u64>,
    /// Offset of the CIE pointer in the record.
    id_offset: u64,
}

/// The records of one input section.
#[derive(Clone, Debug, Default)]
pub struct FrameSection {
    /// In the order of the section.
    pub records: Vec<Record>,
    /// Size of what is kept.
    pub size: u64,
}

impl FrameSection {
    /// Where a byte of the input section is in what is kept; for one that is not kept, where
    /// the next one is.
    pub fn kept_offset(&self, offset: u64) -> u64 {
        let index = self
            .records
            .partition_point(|r| r.offset + r.size <= offset);
        for (i, record) in self.records.iter().enumerate().skip(index) {
            if let Some(at) = record.kept_at {
                let into = if i == index {
                    offset - record.offset
                } else {
                    0
                };
                return at + into;
            }
        }
        self.size
    }

    /// Records that are kept.
    pub fn kept(&self) -> impl Iterator<Item = (&Record, u64)> {
        self.records
            .iter()
            .filter_map(|record| Some((record, record.kept_at?)))
    }

    fn settle(&mut self, is_alive: impl Fn(SectionId) -> bool) {
        let mut kept = vec![false; self.records.len()];
        for (i, record) in self.records.iter().enumerate() {
            if let Kind::Fde { cie, describes } = record.kind
                && describes.is_none_or(&is_alive)
            {
                kept[i] = true;
                kept[cie] = true;
            }
        }
        self.size = 0;
        for (record, kept) in self.records.iter_mut().zip(kept) {
            record.kept_at = kept.then_some(self.size);
            self.size += if kept { record.size } else { 0 };
        }
    }

    /// Copies what is kept, and lets the CIE pointers point to where the CIEs are now.
    pub fn copy(&self, input: &[u8], out: &mut [u8]) {
        for (record, at) in self.kept() {
            let (from, at, size) = (record.offset as usize, at as usize, record.size as usize);
            let (Some(bytes), Some(out)) =
                (input.get(from..from + size), out.get_mut(at..at + size))
            else {
                continue;
            };
            out.copy_from_slice(bytes);
            if let Kind::Fde { cie, .. } = record.kind
                && let Some(cie) = self.records[cie].kept_at
                && let Some(field) = out
                    .get_mut(record.id_offset as usize..)
                    .and_then(|rest| rest.first_chunk_mut())
            {
                *field = ((at as u64 + record.id_offset).wrapping_sub(cie) as u32).to_le_bytes();
            }
        }
    }
}

/// What describes a piece of code.
pub struct Description {
    /// The section of the code.
    pub code: SectionId,
    /// The section of the description.
    pub frames: SectionId,
    /// Relocations of the description and of its CIE, by index.
    pub relocations: [Range<usize>; 2],
}

/// The records of all `.eh_frame` sections.
#[derive(Default)]
pub struct Frames {
    sections: HashMap<SectionId, FrameSection>,
    /// Some input section has a terminator.
    pub terminator: bool,
}

impl Frames {
    /// Takes the sections apart. What cannot be taken apart is an error.
    pub fn parse(
        files: &Files,
        sections: &Sections,
        list: &[SectionId],
        diag: &Diagnostics,
    ) -> Frames {
        let mut frames = Frames::default();
        for id in list.iter().filter(|id| sections.is_alive(**id)) {
            let input = sections.at(files, *id);
            match parse(input.bytes(), input.fixups(), |symbol| {
                let (number, _) = input.object.place_of(symbol)?;
                sections.get(input.file, number)
            }) {
                Ok(section) => {
                    frames.terminator |= section
                        .records
                        .iter()
                        .any(|record| record.kind == Kind::Terminator);
                    frames.sections.insert(*id, section);
                }
                Err(why) => diag.error(format!(
                    "{}: .eh_frame (section {}): {why}",
                    files.get(input.file),
                    input.number
                )),
            }
        }
        frames
    }

    /// The records of a section, if it is one of frames.
    pub fn of(&self, id: SectionId) -> Option<&FrameSection> {
        self.sections.get(&id)
    }

    /// All descriptions of code that is in a section of an input.
    pub fn descriptions(&self) -> impl Iterator<Item = Description> {
        self.sections.iter().flat_map(|(id, section)| {
            section
                .records
                .iter()
                .filter_map(|record| match record.kind {
                    Kind::Fde {
                        cie,
                        describes: Some(code),
                    } => Some(Description {
                        code,
                        frames: *id,
                        relocations: [
                            record.relocations.clone(),
                            section.records[cie].relocations.clone(),
                        ],
                    }),
                    _ => None,
                })
        })
    }

    /// Decides which records stay: those of code that is alive, and the CIEs that they use.
    pub fn settle(&mut self, sections: &Sections) {
        for section in self.sections.values_mut() {
            section.settle(|code| sections.is_alive(code));
        }
    }
}

fn parse(
    bytes: &[u8],
    fixups: Fixups,
    section_of: impl Fn(Target) -> Option<SectionId>,
) -> Result<FrameSection, String> {
    if u32::try_from(bytes.len()).is_err() {
        return Err("larger than 4 GiB".into());
    }
    let mut section = FrameSection::default();
    let mut cies: Vec<(u64, usize)> = Vec::new();
    let offset = |i: usize| fixups.get(i).map_or(u64::MAX, |fixup| fixup.offset);
    for record in eh_frame::records(bytes, fixups.len(), offset) {
        let record = record.map_err(|why| why.to_string())?;
        let kind = match record.kind {
            RecordKind::Cie => {
                cies.push((record.offset, section.records.len()));
                Kind::Cie
            }
            RecordKind::Fde { cie } => {
                let cie = cies
                    .binary_search_by_key(&cie, |(at, _)| *at)
                    .map(|found| cies[found].1)
                    .map_err(|_| {
                        format!(
                            "offset {:#x}: the frame description's CIE is not a CIE before it",
                            record.offset
                        )
                    })?;
                // The first relocation is that of the code's address.
                let code = fixups.get(record.relocs.start).filter(|fixup| {
                    !record.relocs.is_empty() && fixup.offset == record.id_offset + 4
                });
                Kind::Fde {
                    cie,
                    describes: code.and_then(|fixup| section_of(fixup.target)),
                }
            }
            RecordKind::Terminator => Kind::Terminator,
        };
        section.records.push(Record {
            kind,
            offset: record.offset,
            size: record.size,
            relocations: record.relocs,
            kept_at: None,
            id_offset: record.id_offset - record.offset,
        });
    }
    Ok(section)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::SectionId;
    use crate::elf::Rela;

    /// A CIE of 16 bytes, and descriptions of 24 bytes each, whose code is in sections 1, 2, ….
    fn section(descriptions: u32) -> (Vec<u8>, Vec<Rela>) {
        let mut bytes = vec![12, 0, 0, 0];
        bytes.resize(16, 0);
        let mut relas = Vec::new();
        for n in 1..=descriptions {
            let at = bytes.len();
            bytes.extend(20u32.to_le_bytes());
            bytes.extend((at as u32 + 4).to_le_bytes());
            bytes.resize(at + 24, n as u8);
            relas.push(Rela::new(at as u64 + 8, 2, n, 0));
        }
        (bytes, relas)
    }

    fn parsed(bytes: &[u8], relas: &[Rela]) -> Result<FrameSection, String> {
        parse(bytes, Fixups::of_elf(relas), |target| match target {
            Target::Symbol(index) => Some(SectionId(index)),
            _ => None,
        })
    }

    #[test]
    fn what_follows_a_lost_description_moves_up() {
        let (mut bytes, relas) = section(3);
        bytes.extend([0; 4]);
        let mut section = parsed(&bytes, &relas).unwrap();
        section.settle(|code| code != SectionId(2));
        assert_eq!(section.size, 16 + 2 * 24);
        assert_eq!(section.kept_offset(0), 0);
        assert_eq!(section.kept_offset(16 + 10), 16 + 10);
        // In the lost one: where the next one begins. In that one: so far behind.
        assert_eq!(section.kept_offset(40 + 5), 40);
        assert_eq!(section.kept_offset(64 + 5), 40 + 5);
        assert_eq!(section.kept_offset(88), section.size);
        let mut out = vec![0; section.size as usize];
        section.copy(&bytes, &mut out);
        assert_eq!(out[..40], bytes[..40]);
        assert_eq!(out[44..48], 44u32.to_le_bytes());
        assert_eq!(out[48..], bytes[72..88]);
    }

    #[test]
    fn a_cie_goes_with_the_last_that_needs_it() {
        let (bytes, relas) = section(2);
        let mut section = parsed(&bytes, &relas).unwrap();
        section.settle(|_| false);
        assert_eq!((section.size, section.kept_offset(20)), (0, 0));
    }

    #[test]
    fn what_is_damaged_is_an_error() {
        let (mut bytes, relas) = section(1);
        assert!(parsed(&bytes[..30], &relas).is_err());
        bytes[20] = 8;
        let why = parsed(&bytes, &relas).unwrap_err();
        assert!(why.contains("0x10") && why.contains("not a CIE"), "{why}");
    }
}
