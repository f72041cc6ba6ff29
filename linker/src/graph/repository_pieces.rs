//! Mergeable pieces of the repository: which are used, and where they go.
//!
//! The fixups of fragments name pieces by dense id, so finding out which are used is
//! a mark in an array: the first member, counted through all files, that uses it. The used ones then take part in
//! merging beside the pieces of ELF objects, in the order of those members, and within one as the member lists
//! them: walking through these lists finds each where its mark says. So nothing need be sorted, and
//! the output does not depend on the ids, that is, on what else the repository has seen.

use crate::base::atomic_min::{Least32, Least64};
use crate::base::ids::{FileId, PartId};
use crate::elf::c;
use crate::graph::merge::{Contents, MergeInput, Merged, Source};
use crate::input::file::{File, Files};
use crate::input::object::Repository;
use crate::input::parts::{Piece, RepositoryId, Section};
use crate::resolve::input_sections::merge_part;
use crate::resolve::output_sections::{MergeKind, Outputs};
use format_spec::ids::{Address, NameId, PieceId};
use rayon::prelude::*;
use store::prefetch::prefetch;
use store::program::{ProgramError, Programs};

/// Marks for the pieces of each repository.
#[derive(Default)]
pub struct UsedPieces<'a> {
    /// By piece the first member that uses it.
    repositories: Vec<(Programs<'a>, Least32)>,
    /// By file: how many members the tickets before it have.
    first_member: Vec<u32>,
}

impl<'a> UsedPieces<'a> {
    /// No piece is used yet.
    pub fn new(files: &Files<'a>) -> UsedPieces<'a> {
        let mut used = UsedPieces::default();
        let mut members = 0u32;
        for (_, file) in files.iter() {
            used.first_member.push(members);
            let Some(object) = file.object() else {
                continue;
            };
            members = members.saturating_add(object.member_count());
            // Repositories are numbered in the order of the files that name them first.
            if let Some(Repository { id, programs }) = object.repository()
                && id.0 as usize == used.repositories.len()
            {
                let count = usize::try_from(programs.piece_count()).unwrap_or(usize::MAX);
                used.repositories.push((programs, Least32::new(count)));
            }
        }
        used
    }

    /// Whether the link reads no repository.
    pub fn is_empty(&self) -> bool {
        self.repositories.is_empty()
    }

    /// Marks a piece as used by a member of a file. `false` if there is none of that id.
    #[inline]
    pub fn mark(&self, piece: Piece, file: FileId, member: u32) -> bool {
        let marks = self.repositories.get(piece.repository.0 as usize);
        let member = self.first_member[file.index()].saturating_add(member);
        marks.is_some_and(|(_, marks)| marks.lower(piece.id, member))
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

/// What decides in which part of the output a piece goes.
type Kind = (NameId, u32, u32);

/// Where pieces of a kind of a repository go, if they may be merged at all. It has none of them twice.
type KnownKind = (RepositoryId, Kind, Option<(PartId, MergeKind)>);

/// Pieces that a file may be the first to use.
struct Share<'a> {
    file: FileId,
    repository: Repository<'a>,
    /// What each member of a row of them uses, or a part of it.
    uses: Vec<(u32, &'a [PieceId])>,
}

/// Pieces in a share: what one thread looks at at once.
const SHARE: usize = 16 << 10;

/// The pieces of one kind that one file is the first to use.
struct Group<'a> {
    kind: Kind,
    /// One of their records, for messages.
    address: Address,
    pieces: Vec<u32>,
    /// Bytes and alignment of each.
    contents: Vec<(&'a [u8], u64)>,
}

impl PieceInputs {
    /// Appends the used pieces to the inputs of merging.
    pub fn collect<'a>(
        files: &Files<'a>,
        used: &UsedPieces<'a>,
        outputs: &mut Outputs<'a>,
        class_of: &mut dyn FnMut(PartId, &Outputs) -> crate::graph::merge::MergeClass,
        inputs: &mut Vec<MergeInput<'a>>,
    ) -> Result<PieceInputs, ProgramError> {
        let shares = shares(files);
        let groups: Vec<Vec<Group<'a>>> = shares
            .par_iter()
            .with_max_len(1)
            .map(|share| first_uses(used, share))
            .collect::<Result<_, _>>()?;
        let mut all = PieceInputs::default();
        all.repositories
            .resize_with(used.repositories.len(), Vec::new);
        let mut parts: Vec<KnownKind> = Vec::new();
        for (share, groups) in shares.iter().zip(groups) {
            let Repository {
                id: repository,
                programs,
            } = share.repository;
            for group in groups {
                let known = parts
                    .iter()
                    .position(|(r, kind, _)| (*r, *kind) == (repository, group.kind));
                let part = match known {
                    Some(known) => parts[known].2,
                    None => {
                        let section = Section {
                            name: programs.name(group.kind.0)?,
                            sh_type: c::SHT_PROGBITS,
                            flags: group.kind.1.into(),
                            size: group.contents.first().map_or(0, |(b, _)| b.len()) as u64,
                            align: 1,
                            entsize: group.kind.2.into(),
                            link: 0,
                        };
                        let part = merge_part(outputs, &section);
                        parts.push((repository, group.kind, part));
                        part
                    }
                };
                let Some((part, kind)) = part else {
                    return Err(ProgramError::Damaged {
                        path: programs.snapshot().store().path().to_owned(),
                        address: group.address,
                        what: "a piece is not of a mergeable section",
                    });
                };
                all.repositories[repository.0 as usize].push(Taken {
                    part,
                    input: inputs.len(),
                    pieces: group.pieces,
                });
                inputs.push(MergeInput {
                    class: class_of(part, outputs),
                    contents: Contents::Pieces(group.contents),
                    strings: kind.strings,
                    entsize: kind.entsize,
                    align: 1,
                    source: Some(Source(repository.0)),
                });
            }
        }
        Ok(all)
    }

    /// Where the pieces went.
    pub fn places(&self, used: &UsedPieces, merged: &Merged) -> PiecePlaces {
        let places = |(taken, (_, marks)): (&Vec<Taken>, &(Programs, Least32))| {
            let places = Least64::new(marks.len());
            taken.par_iter().for_each(|taken| {
                let part = u64::from(taken.part.0) << OFFSET_BITS;
                for (id, offset) in taken.pieces.iter().zip(merged.places(taken.input)) {
                    // If a member lists a piece twice, it may be there twice; everybody means the first.
                    places.lower(*id, part | offset);
                }
            });
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

/// What the tickets' members use, in shares of about the same size.
fn shares<'a>(files: &Files<'a>) -> Vec<Share<'a>> {
    let of_file = |(number, input): (usize, &File<'a>)| {
        let mut shares = Vec::new();
        let Some(object) = input.object() else {
            return shares;
        };
        let Some(repository) = object.repository() else {
            return shares;
        };
        let file = FileId(number as u32);
        let mut room = 0;
        for member in 0..object.member_count() {
            for uses in object.pieces_of(member).chunks(SHARE) {
                if uses.len() > room {
                    let uses = Vec::new();
                    shares.push(Share {
                        file,
                        repository,
                        uses,
                    });
                    room = SHARE;
                }
                room -= uses.len();
                if let Some(share) = shares.last_mut() {
                    share.uses.push((member, uses));
                }
            }
        }
        shares
    };
    let files = files.0.par_iter().enumerate();
    let shares: Vec<_> = files.map(of_file).collect();
    shares.into_iter().flatten().collect()
}

/// Those pieces of a share that no earlier member uses, in the order of the members.
fn first_uses<'a>(
    used: &UsedPieces<'a>,
    share: &Share<'a>,
) -> Result<Vec<Group<'a>>, ProgramError> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let programs = share.repository.programs;
    let Some((_, marks)) = used.repositories.get(share.repository.id.0 as usize) else {
        return Ok(groups);
    };
    let first_member = used.first_member[share.file.index()];
    for (member, uses) in &share.uses {
        let number = first_member.saturating_add(*member);
        for id in *uses {
            if marks.get(id.0) != number || number == Least32::NONE {
                continue;
            }
            let piece = programs.piece(*id)?;
            let header = piece.header;
            let kind = (
                header.section_name,
                header.sh_flags,
                u32::from(header.entsize),
            );
            let position = groups.iter().position(|group| group.kind == kind);
            let position = position.unwrap_or_else(|| {
                groups.push(Group {
                    kind,
                    address: piece.record.address,
                    pieces: Vec::new(),
                    contents: Vec::new(),
                });
                groups.len() - 1
            });
            let align = 1u64.checked_shl(header.align_log2.into()).unwrap_or(1);
            groups[position].pieces.push(id.0);
            groups[position].contents.push((piece.bytes, align));
        }
    }
    Ok(groups)
}

/// Where the pieces of the repositories are in the output: part in the high 24 bits, offset among the part's merged
/// pieces in the others.
pub struct PiecePlaces(Vec<Least64>);

const OFFSET_BITS: u32 = 40;

impl PiecePlaces {
    /// Those of one repository.
    #[inline]
    pub fn of_repository(&self, repository: RepositoryId) -> RepositoryPlaces<'_> {
        RepositoryPlaces(self.0.get(repository.0 as usize))
    }

    /// Part of a piece, and its offset among the part's merged pieces.
    #[inline]
    pub fn of(&self, piece: Piece) -> Option<(PartId, u64)> {
        self.of_repository(piece.repository).of(piece.id)
    }
}

/// Where the pieces of one repository are in the output.
#[derive(Clone, Copy)]
pub struct RepositoryPlaces<'p>(Option<&'p Least64>);

impl RepositoryPlaces<'_> {
    /// Says that the place of a piece will be needed soon.
    #[inline(always)]
    pub fn fetch(self, id: u32) {
        if let Some(place) = self.0.and_then(|places| places.place(id)) {
            prefetch(place);
        }
    }

    /// Part of a piece, and its offset among the part's merged pieces.
    #[inline(always)]
    pub fn of(self, id: u32) -> Option<(PartId, u64)> {
        let place = self.0?.get(id);
        let part = PartId((place >> OFFSET_BITS) as u32);
        (place != Least64::NONE).then_some((part, place & ((1 << OFFSET_BITS) - 1)))
    }
}
