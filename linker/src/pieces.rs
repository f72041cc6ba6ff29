//! Mergeable pieces of the repository: which are used, and where they go.
//!
//! The fixups of fragments name pieces by dense id, so finding out which are used is
//! a mark in an array. The used ones then take part in merging beside the pieces of
//! ELF objects, as if each repository had one section of each kind.

use crate::elf::c;
use crate::file::Files;
use crate::ids::PartId;
use crate::merge::{Contents, MergeInput, Merged};
use crate::object::{Object, Section};
use crate::output::Outputs;
use crate::sections::merge_part;
use crate::ticket_object::RepositoryId;
use format_spec::ids::PieceId;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use store::program::{ProgramError, Programs};

/// Marks for the pieces of each repository.
#[derive(Default)]
pub struct UsedPieces<'a> {
    repositories: Vec<(Programs<'a>, Vec<AtomicBool>)>,
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
                let marks = (0..count).map(|_| AtomicBool::new(false)).collect();
                used.repositories.push((programs, marks));
            }
        }
        used
    }

    /// Whether the link reads no repository.
    pub fn is_empty(&self) -> bool {
        self.repositories.is_empty()
    }

    /// Marks a piece. `false` if there is none of that id.
    #[inline]
    pub fn mark(&self, repository: RepositoryId, id: u32) -> bool {
        let marks = self.repositories.get(repository.0 as usize);
        let Some(mark) = marks.and_then(|(_, marks)| marks.get(id as usize)) else {
            return false;
        };
        if !mark.load(Relaxed) {
            mark.store(true, Relaxed);
        }
        true
    }
}

/// Pieces on their way through merging.
#[derive(Default)]
pub struct PieceInputs {
    /// By repository and piece: part, index of the merge input, and offset in it.
    places: Vec<Vec<Option<(PartId, u32, u64)>>>,
}

impl PieceInputs {
    /// Appends the used pieces to the inputs of merging: one input for each repository and part.
    pub fn collect<'a>(
        used: &UsedPieces<'a>,
        outputs: &mut Outputs<'a>,
        class_of: &mut dyn FnMut(PartId, &Outputs) -> crate::merge::MergeClass,
        inputs: &mut Vec<MergeInput<'a>>,
    ) -> Result<PieceInputs, ProgramError> {
        let mut all = PieceInputs::default();
        for (programs, marks) in &used.repositories {
            let mut places = vec![None; marks.len()];
            // This repository's input for each part, with its size so far.
            let mut open: Vec<(PartId, usize, u64)> = Vec::new();
            for (id, place) in places.iter_mut().enumerate() {
                if !marks[id].load(Relaxed) {
                    continue;
                }
                let piece = programs.piece(PieceId(id as u32))?;
                let section = Section {
                    name: programs.name(piece.header.section_name)?,
                    sh_type: c::SHT_PROGBITS,
                    flags: piece.header.sh_flags.into(),
                    size: piece.bytes.len() as u64,
                    align: 1 << piece.header.align_log2,
                    entsize: piece.header.entsize.into(),
                    link: 0,
                };
                let Some((part, kind)) = merge_part(outputs, &section) else {
                    continue;
                };
                let position = open
                    .iter()
                    .position(|(known, _, _)| *known == part)
                    .unwrap_or_else(|| {
                        open.push((part, inputs.len(), 0));
                        inputs.push(MergeInput {
                            class: class_of(part, outputs),
                            contents: Contents::Pieces(Vec::new()),
                            strings: kind.strings,
                            entsize: kind.entsize,
                            align: 1,
                        });
                        open.len() - 1
                    });
                let (_, input, size) = &mut open[position];
                if let Contents::Pieces(pieces) = &mut inputs[*input].contents {
                    pieces.push((piece.bytes, section.align));
                }
                *place = Some((part, *input as u32, *size));
                *size += section.size;
            }
            all.places.push(places);
        }
        Ok(all)
    }

    /// Part of a piece, and its offset among the part's merged pieces.
    #[inline]
    pub fn place(
        &self,
        merged: &Merged,
        repository: RepositoryId,
        id: u32,
    ) -> Option<(PartId, u64)> {
        let (part, input, offset) = (*self.places.get(repository.0 as usize)?.get(id as usize)?)?;
        Some((part, merged.place(input as usize, offset)?))
    }
}
