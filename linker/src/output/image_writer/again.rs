//! What incremental links need of the writer: to know where a file writes, and to write what one file does once more.

use super::{Job, Piece, Writer};
use crate::base::ids::{FileId, PartId};
use crate::elf::Rela;
use crate::elf::eh_frame::TableEntry;
use crate::graph::eh_frame_records::OutputCie;
use crate::layout::placement::Placement;
use crate::resolve::output_sections::{Outputs, Std};
use crate::resolve::room::{ABBREVIATIONS, Filler, Kind, Room};
use std::ops::Range;

/// Where what one file writes is in the output's file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Regions {
    /// Its frame descriptions: file offset and size.
    pub frames: (u64, u64),
    /// The first of its locals in `.symtab`, and their number.
    pub locals: (u64, u32),
    /// The same of its globals.
    pub globals: (u64, u32),
    /// Its names: file offset and size.
    pub names: (u64, u64),
    /// Its first `R_X86_64_RELATIVE`, and their number.
    pub relative: (u64, u32),
    /// How many of its relocations name symbols. They are sorted among all.
    pub symbolic: u32,
    /// Its first `R_X86_64_IRELATIVE`, and their number.
    pub irelative: (u64, u32),
}

impl Writer<'_, '_> {
    /// Where each file writes what is not in chunks.
    pub fn regions(&self) -> Vec<Regions> {
        let mut regions = vec![Regions::default(); self.places.files.0.len()];
        for (offset, size, piece) in self.pieces().in_file {
            let count = |record: u64| (offset, (size / record) as u32);
            match piece {
                Piece::Frames(file) => regions[file as usize].frames = (offset, size),
                Piece::Locals(file) => regions[file as usize].locals = count(24),
                Piece::Globals(file) => regions[file as usize].globals = count(24),
                Piece::Names(file) => regions[file as usize].names = (offset, size),
                Piece::Relative(file) => regions[file as usize].relative = count(24),
                Piece::Symbolic(file) => regions[file as usize].symbolic = count(24).1,
                Piece::Irelative(file) => regions[file as usize].irelative = count(24),
                _ => {}
            }
        }
        regions
    }

    /// Writes all that one file writes into an image that is complete otherwise. `chunks` are the numbers of its chunks, and
    /// `symbolic` takes its relocations that name symbols. Gives its rows of the table of frames; nothing if two of its
    /// regions overlap or are not in the image.
    pub fn write_again(
        &self,
        file: FileId,
        regions: &Regions,
        chunks: Range<u32>,
        symbolic: &mut [Rela],
        image: &mut [u8],
    ) -> Option<Vec<TableEntry>> {
        let number = file.0;
        let records =
            |(offset, count): (u64, u32), piece: Piece| (offset, 24 * u64::from(count), piece);
        let mut pieces = vec![
            (regions.frames.0, regions.frames.1, Piece::Frames(number)),
            records(regions.locals, Piece::Locals(number)),
            records(regions.globals, Piece::Globals(number)),
            (regions.names.0, regions.names.1, Piece::Names(number)),
            records(regions.relative, Piece::Relative(number)),
            records(regions.irelative, Piece::Irelative(number)),
        ];
        let outputs = self.places.outputs;
        for number in chunks {
            let chunk = &self.places.placement.chunks[number as usize];
            let section = &outputs.sections[outputs.parts[chunk.part.index()].output.index()];
            if !section.is_nobits() {
                let offset = section.offset + chunk.offset;
                pieces.push((offset, chunk.size, Piece::Chunk(number)));
            }
        }
        pieces.retain(|(_, size, _)| *size > 0);
        pieces.sort_unstable_by_key(|(offset, _, _)| *offset);
        let names = outputs.std(Std::Strtab).offset;
        let mut job = Job {
            file: number,
            names_offset: regions.names.0.wrapping_sub(names),
            ..Job::default()
        };
        job.dynamic.symbolic = symbolic;
        let (mut rest, mut at) = (image, 0u64);
        for (offset, size, piece) in pieces {
            let gap = usize::try_from(offset.checked_sub(at)?).ok()?;
            let (bytes, tail) = rest.get_mut(gap..)?.split_at_mut_checked(size as usize)?;
            (rest, at) = (tail, offset + size);
            match piece {
                Piece::Frames(_) => job.frames = bytes,
                Piece::Locals(_) => job.locals = bytemuck::try_cast_slice_mut(bytes).ok()?,
                Piece::Globals(_) => job.globals = bytemuck::try_cast_slice_mut(bytes).ok()?,
                Piece::Names(_) => job.names = bytes,
                Piece::Relative(_) => {
                    job.dynamic.relative = bytemuck::try_cast_slice_mut(bytes).ok()?;
                }
                Piece::Irelative(_) => {
                    job.dynamic.irelative = bytemuck::try_cast_slice_mut(bytes).ok()?;
                }
                Piece::Chunk(number) => job.chunks.push((number, bytes)),
                _ => {}
            }
        }
        let counts = &self.frame_layout.fde_counts;
        let count = counts[file.index() + 1] - counts[file.index()];
        let mut table = vec![TableEntry { pc: 0, fde: 0 }; count as usize];
        job.table = &mut table;
        self.write_file(job);
        Some(table)
    }

    /// A common information entry as it stands, or would stand, at an offset in `.eh_frame`.
    pub fn cie_bytes(&self, cie: &OutputCie, offset: u32) -> Vec<u8> {
        let input = &self.frames.of(cie.file).cies[cie.index as usize];
        let bytes = self
            .places
            .files
            .object(cie.file)
            .section_bytes(input.section);
        let bytes = bytes.get(input.offset as usize..(input.offset + input.size) as usize);
        let mut out = bytes.map_or_else(Vec::new, <[u8]>::to_vec);
        self.write_cie(cie, offset, &mut out);
        out
    }
}

/// By part: where the last file's chunk ends.
fn ends(outputs: &Outputs, placement: &Placement) -> Vec<u64> {
    let mut ends: Vec<u64> = vec![0; outputs.parts.len()];
    for chunk in &placement.chunks {
        let end = &mut ends[chunk.part.index()];
        *end = (*end).max(chunk.offset + chunk.size);
    }
    ends
}

/// Where in `.debug_abbrev` the [abbreviations](ABBREVIATIONS) of units that say nothing are: behind those of all files, if
/// there is room.
pub fn abbreviations(outputs: &Outputs, placement: &Placement, room: Room) -> Option<u32> {
    if room == Room::NONE {
        return None;
    }
    let ends = ends(outputs, placement);
    let is_it = |part: &PartId| room.kind(outputs, *part) == Kind::Filled(Filler::Abbreviations);
    let mut parts = (0..ends.len() as u32).map(PartId).filter(is_it);
    let only = parts.next().filter(|_| parts.next().is_none())?;
    match ends[only.index()] {
        0 => None,
        end => u32::try_from(end).ok(),
    }
}

/// Fills the room behind all files' debugging information in an image that is complete otherwise.
pub fn fill_parts(outputs: &Outputs, placement: &Placement, room: Room, image: &mut [u8]) {
    let abbreviations = abbreviations(outputs, placement, room);
    let ends = ends(outputs, placement);
    for (number, end) in (0..).zip(ends).filter(|(_, end)| *end > 0) {
        let part = PartId(number);
        if let Kind::Filled(filler) = room.kind(outputs, part) {
            let section = &outputs.sections[outputs.parts[part.index()].output.index()];
            let extent = &placement.parts[part.index()];
            let start = (section.offset + end) as usize;
            let stop = (section.offset + extent.offset + extent.size) as usize;
            filler.fill(&mut image[start..stop], abbreviations);
            if filler == Filler::Abbreviations && abbreviations.is_some() {
                image[start..start + ABBREVIATIONS.len()].copy_from_slice(&ABBREVIATIONS);
            }
        }
    }
}
