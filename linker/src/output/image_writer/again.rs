//! What incremental links need of the writer: to know where a file writes, and to write what one file does once more.

use super::{FILES, Job, Piece, Writer};
use crate::base::ids::{FileId, PartId};
use crate::elf::Rela;
use crate::elf::eh_frame::TableEntry;
use crate::graph::eh_frame_records::OutputCie;
use crate::layout::placement::Placement;
use crate::resolve::output_sections::{Outputs, Std};
use crate::resolve::room::{ABBREVIATIONS, Filler, Kind, Room};
use rayon::prelude::*;
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

/// A file that is written again.
pub struct ToWrite {
    /// It.
    pub file: FileId,
    /// Where it writes what is not in chunks.
    pub regions: Regions,
    /// The numbers of its chunks.
    pub chunks: Range<u32>,
}

/// What a file has beside what it writes into the image.
pub struct WrittenAgain {
    /// Its relocations that name symbols.
    pub symbolic: Vec<Rela>,
    /// Its rows of the table of frames.
    pub table: Vec<TableEntry>,
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

    /// Writes all that some files write into an image that is complete otherwise; nothing if two of their regions overlap or are
    /// not in the image.
    pub fn write_again(&self, files: &[ToWrite], image: &mut [u8]) -> Option<Vec<WrittenAgain>> {
        let outputs = self.places.outputs;
        // Where, how much, whose and what.
        let mut pieces: Vec<(u64, u64, u32, Piece)> = Vec::new();
        for (index, to_write) in (0u32..).zip(files) {
            let (number, regions) = (to_write.file.0, &to_write.regions);
            let bytes = |(offset, size): (u64, u64), piece| (offset, size, index, piece);
            let records =
                |(offset, count): (u64, u32), piece| bytes((offset, 24 * u64::from(count)), piece);
            pieces.extend([
                bytes(regions.frames, Piece::Frames(number)),
                records(regions.locals, Piece::Locals(number)),
                records(regions.globals, Piece::Globals(number)),
                bytes(regions.names, Piece::Names(number)),
                records(regions.relative, Piece::Relative(number)),
                records(regions.irelative, Piece::Irelative(number)),
            ]);
            for number in to_write.chunks.clone() {
                let chunk = &self.places.placement.chunks[number as usize];
                let section = &outputs.sections[outputs.parts[chunk.part.index()].output.index()];
                if !section.is_nobits() {
                    let offset = section.offset + chunk.offset;
                    pieces.push((offset, chunk.size, index, Piece::Chunk(number)));
                }
            }
        }
        pieces.retain(|(_, size, ..)| *size > 0);
        pieces.sort_unstable_by_key(|(offset, ..)| *offset);

        let names = outputs.std(Std::Strtab).offset;
        let counts = &self.frame_layout.fde_counts;
        let written = |to_write: &ToWrite| WrittenAgain {
            symbolic: vec![Rela::new(0, 0, 0, 0); to_write.regions.symbolic as usize],
            table: {
                let index = to_write.file.index();
                let count = counts[index + 1] - counts[index];
                vec![TableEntry { pc: 0, fde: 0 }; count as usize]
            },
        };
        let mut all: Vec<WrittenAgain> = files.iter().map(written).collect();
        let mut jobs: Vec<Job> = Vec::with_capacity(files.len());
        for (written, to_write) in all.iter_mut().zip(files) {
            let mut job = Job {
                file: to_write.file.0,
                names_offset: to_write.regions.names.0.wrapping_sub(names),
                table: &mut written.table,
                ..Job::default()
            };
            job.dynamic.symbolic = &mut written.symbolic;
            jobs.push(job);
        }
        let (mut rest, mut at) = (image, 0u64);
        for (offset, size, index, piece) in pieces {
            let gap = usize::try_from(offset.checked_sub(at)?).ok()?;
            let (bytes, tail) = rest.get_mut(gap..)?.split_at_mut_checked(size as usize)?;
            (rest, at) = (tail, offset + size);
            let job = &mut jobs[index as usize];
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
        jobs.into_par_iter()
            .with_min_len(FILES)
            .for_each(|job| self.write_file(job));
        Some(all)
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
