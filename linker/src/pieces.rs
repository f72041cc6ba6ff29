//! Mergeable pieces of the repository: which are used, and where they go.
//!
//! The fixups of fragments name pieces by dense id, so finding out which are used is
//! a mark in an array: the first file that uses it. The used ones then take part in merging
//! beside the pieces of ELF objects, in the order of those files and then of their digests.
//! So the output does not depend on the ids, that is, on what else the repository has seen.

use crate::elf::c;
use crate::file::Files;
use crate::ids::{FileId, PartId};
use crate::merge::{Contents, MergeInput, Merged};
use crate::object::{Object, Section};
use crate::output::{MergeKind, Outputs};
use crate::sections::merge_part;
use crate::ticket_object::RepositoryId;
use format_spec::ids::{NameId, PieceId};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use store::program::{PieceView, ProgramError, Programs};

/// The mark of a piece that no file uses.
const UNUSED: u32 = u32::MAX;

/// Marks for the pieces of each repository.
#[derive(Default)]
pub struct UsedPieces<'a> {
    repositories: Vec<(Programs<'a>, Vec<AtomicU32>)>,
}

impl<'a> UsedPieces<'a> {
    /// No piece is used yet.
    pub fn new(files: &Files<'a>) -> UsedPieces<'a> {
        let mut used = UsedPieces::default();
        for (_, file) in files.iter() {
            // Repositories are numbered in the order of the files that name them first.
            if let Some(Object::Ticket(ticket)) = file.object()
                && ticket.repository.0 as usize == used.repositories.len()
            {
                let programs = ticket.programs();
                let count = usize::try_from(programs.piece_count()).unwrap_or(usize::MAX);
                let marks = (0..count).map(|_| AtomicU32::new(UNUSED)).collect();
                used.repositories.push((programs, marks));
            }
        }
        used
    }

    /// Whether the link reads no repository.
    pub fn is_empty(&self) -> bool {
        self.repositories.is_empty()
    }

    /// Marks a piece as used by a file. `false` if there is none of that id.
    #[inline]
    pub fn mark(&self, repository: RepositoryId, id: u32, file: FileId) -> bool {
        let marks = self.repositories.get(repository.0 as usize);
        let Some(mark) = marks.and_then(|(_, marks)| marks.get(id as usize)) else {
            return false;
        };
        if mark.load(Relaxed) > file.0 {
            mark.fetch_min(file.0, Relaxed);
        }
        true
    }
}

/// The used pieces of the repositories on their way through merging.
#[derive(Default)]
pub struct PieceInputs {
    repositories: Vec<Vec<Taken>>,
}

/// Pieces that were given to merging as one input.
struct Taken {
    part: PartId,
    /// Index of the input.
    input: usize,
    /// Their ids.
    pieces: Vec<u32>,
}

/// Bytes of pieces that make an input. Merging cuts and hashes inputs in parallel.
const INPUT_BYTES: u64 = 256 << 10;

/// Ids that are looked at by one task.
const IDS: usize = 4096;

/// What decides in which part of the output a piece goes.
type Kind = (NameId, u32, u32);

impl PieceInputs {
    /// Appends the used pieces to the inputs of merging.
    pub fn collect<'a>(
        used: &UsedPieces<'a>,
        outputs: &mut Outputs<'a>,
        class_of: &mut dyn FnMut(PartId, &Outputs) -> crate::merge::MergeClass,
        inputs: &mut Vec<MergeInput<'a>>,
    ) -> Result<PieceInputs, ProgramError> {
        let mut all = PieceInputs::default();
        for (programs, marks) in &used.repositories {
            let mut taken: Vec<Taken> = Vec::new();
            let mut parts: Vec<(Kind, Option<(PartId, MergeKind)>)> = Vec::new();
            // The input of each part that takes more, and its size so far.
            let mut open: Vec<(PartId, usize, u64)> = Vec::new();
            for (id, piece) in used_pieces(programs, marks)? {
                let kind = (
                    piece.header.section_name,
                    piece.header.sh_flags,
                    piece.header.entsize,
                );
                let part = match parts.iter().find(|(known, _)| *known == kind) {
                    Some((_, part)) => *part,
                    None => {
                        let section = Section {
                            name: programs.name(kind.0)?,
                            sh_type: c::SHT_PROGBITS,
                            flags: kind.1.into(),
                            size: piece.bytes.len() as u64,
                            align: 1,
                            entsize: kind.2.into(),
                            link: 0,
                        };
                        let part = merge_part(outputs, &section);
                        parts.push((kind, part));
                        part
                    }
                };
                let Some((part, kind)) = part else {
                    return Err(ProgramError::Damaged {
                        path: programs.snapshot().store().path().to_owned(),
                        address: piece.record.address,
                        what: "a piece is not of a mergeable section",
                    });
                };
                let position = match open.iter().position(|(known, _, _)| *known == part) {
                    Some(position) => position,
                    None => {
                        open.push((part, usize::MAX, INPUT_BYTES));
                        open.len() - 1
                    }
                };
                let (_, place, size) = &mut open[position];
                if *size >= INPUT_BYTES {
                    (*place, *size) = (taken.len(), 0);
                    taken.push(Taken {
                        part,
                        input: inputs.len(),
                        pieces: Vec::new(),
                    });
                    inputs.push(MergeInput {
                        class: class_of(part, outputs),
                        contents: Contents::Pieces(Vec::new()),
                        strings: kind.strings,
                        entsize: kind.entsize,
                        align: 1,
                    });
                }
                let taken = &mut taken[*place];
                if let Contents::Pieces(pieces) = &mut inputs[taken.input].contents {
                    let align = 1u64.checked_shl(piece.header.align_log2.into());
                    pieces.push((piece.bytes, align.unwrap_or(1)));
                }
                taken.pieces.push(id);
                *size += u64::from(piece.header.size);
            }
            all.repositories.push(taken);
        }
        Ok(all)
    }

    /// Where the pieces went.
    pub fn places(&self, used: &UsedPieces, merged: &Merged) -> PiecePlaces {
        let places = |(taken, (_, marks)): (&Vec<Taken>, &(Programs, Vec<AtomicU32>))| {
            let mut places = vec![(PartId::NONE, 0); marks.len()];
            for taken in taken {
                for (id, place) in taken.pieces.iter().zip(merged.places(taken.input)) {
                    places[*id as usize] = (taken.part, place);
                }
            }
            places
        };
        PiecePlaces(
            self.repositories
                .iter()
                .zip(&used.repositories)
                .map(places)
                .collect(),
        )
    }
}

/// Ids and records of the pieces that are marked, in the order of the first files that use
/// them and then of their digests.
fn used_pieces<'a>(
    programs: &Programs<'a>,
    marks: &[AtomicU32],
) -> Result<Vec<(u32, PieceView<'a>)>, ProgramError> {
    struct Used<'a> {
        file: u32,
        /// The first bytes of the digest, which nearly always decide.
        digest: u64,
        id: u32,
        piece: PieceView<'a>,
    }
    let parts: Result<Vec<Vec<Used>>, ProgramError> = marks
        .par_chunks(IDS)
        .enumerate()
        .map(|(chunk, marks)| {
            let mut used = Vec::new();
            for (id, mark) in (chunk * IDS..).zip(marks) {
                let file = mark.load(Relaxed);
                if file != UNUSED {
                    let id = id as u32;
                    let piece = programs.piece(PieceId(id))?;
                    let digest = piece.record.key.0.first_chunk();
                    used.push(Used {
                        file,
                        digest: digest.map_or(0, |bytes| u64::from_be_bytes(*bytes)),
                        id,
                        piece,
                    });
                }
            }
            Ok(used)
        })
        .collect();
    let mut used: Vec<Used> = parts?.into_iter().flatten().collect();
    used.par_sort_unstable_by(|a, b| {
        (a.file, a.digest)
            .cmp(&(b.file, b.digest))
            .then_with(|| a.piece.record.key.0.cmp(&b.piece.record.key.0))
    });
    Ok(used.into_iter().map(|used| (used.id, used.piece)).collect())
}

/// Where the pieces of the repositories are in the output.
pub struct PiecePlaces(Vec<Vec<(PartId, u64)>>);

impl PiecePlaces {
    /// Part of a piece, and its offset among the part's merged pieces.
    #[inline]
    pub fn of(&self, repository: RepositoryId, id: u32) -> Option<(PartId, u64)> {
        let place = *self.0.get(repository.0 as usize)?.get(id as usize)?;
        (place.0 != PartId::NONE).then_some(place)
    }
}
