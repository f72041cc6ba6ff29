//! Making the outline of a compilation ([`format_spec::outline`]).
//!
//! What a splitter found out (frame descriptions, plain members, uses of bindings) is taken from it, after a look at whether it can
//! be so; the rest (shapes, sections, pieces) follows from the sections and targets. A section's shape is found by hash.

use super::ProgramError;
use super::build::{Compilation, Fixups, Fragment, Section, Target};
use format_spec::fragment::SectionKind;
use format_spec::ids::{NameId, PieceId};
use format_spec::outline::{PlacedSection, ShapeRecord};
use format_spec::program::MemberRecord;
use hashbrown::HashTable;
use std::ops::Range;

/// The outline of a compilation. Ids are the compilation's own numbers of names and pieces, until they are translated.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outline {
    /// What sections have in common.
    pub(super) shapes: Vec<ShapeRecord>,
    /// By section of the compilation.
    pub(super) sections: Vec<PlacedSection>,
    /// By member: its first piece, and [`MemberRecord::PLAIN`] and its like.
    pub(super) members: Vec<(u32, u32)>,
    /// The pieces that members refer to, in the order of members and their targets.
    pub(super) pieces: Vec<PieceId>,
    /// By binding: [`usage`](format_spec::outline::usage).
    pub(super) uses: Vec<u8>,
}

/// Checks that what the splitter says of members, sections and bindings can be recorded.
///
/// # Errors
/// [`ProgramError::Malformed`].
pub(super) fn check(compilation: &Compilation<'_>) -> Result<(), ProgramError> {
    if compilation.uses.len() != compilation.bindings.len() {
        return Err(ProgramError::malformed(
            "there are not as many uses as bindings",
        ));
    }
    for fragment in &compilation.fragments {
        let uses = compilation.uses.get(as_usize(&fragment.bindings));
        let is_good = match (fragment.plain, uses) {
            (Some(plain), Some(_)) => plain.words < 1 << (u32::BITS - MemberRecord::WORDS_SHIFT),
            (None, Some(uses)) => uses.iter().all(|bits| *bits == 0),
            (_, None) => false,
        };
        if !is_good {
            return Err(ProgramError::malformed(
                "a member's uses do not fit what is said of it",
            ));
        }
    }
    let frame_is_good = |section: &Section<'_>| match section.frame {
        Some(frame) => {
            section.kind == SectionKind::Unwind && (frame.cie as usize) < compilation.sections.len()
        }
        None => true,
    };
    if compilation.sections.len() > PlacedSection::MAX_SHAPES {
        return Err(ProgramError::TooManySections(compilation.sections.len()));
    }
    let has_alignment = |section: &Section<'_>| section.align_log2 < 64;
    if !compilation.sections.iter().all(has_alignment) {
        return Err(ProgramError::malformed("an alignment is too large"));
    }
    if !compilation.sections.iter().all(frame_is_good) {
        return Err(ProgramError::malformed(
            "a frame description has no CIE, or is in a section of another kind",
        ));
    }
    Ok(())
}

/// Makes the outline.
pub(super) fn outline(compilation: &Compilation<'_>) -> Outline {
    let mut outline = Outline {
        uses: compilation.uses.clone(),
        sections: Vec::with_capacity(compilation.sections.len()),
        members: Vec::with_capacity(compilation.fragments.len()),
        ..Outline::default()
    };
    let mut shapes: HashTable<u32> = HashTable::new();
    for (index, fragment) in (0..).zip(&compilation.fragments) {
        outline.members.push((
            outline.pieces.len() as u32,
            fragment.plain.map_or(0, |plain| {
                let absolute = if plain.is_absolute {
                    MemberRecord::ABSOLUTE
                } else {
                    0
                };
                MemberRecord::PLAIN | absolute | plain.words << MemberRecord::WORDS_SHIFT
            }),
        ));
        for target in &compilation.targets[as_usize(&fragment.targets)] {
            if let Target::Piece(piece) = target {
                outline.pieces.push(PieceId(*piece));
            }
        }
        for section in &compilation.sections[as_usize(&fragment.sections)] {
            let shape = shape(section, fragment);
            let own_hash = hash_of(&shape);
            let known = &mut outline.shapes;
            let number = match shapes.find(own_hash, |number| known[*number as usize] == shape) {
                Some(number) => *number,
                None => {
                    let number = known.len() as u32;
                    known.push(shape);
                    let hash = |number: &u32| hash_of(&known[*number as usize]);
                    *shapes.insert_unique(own_hash, number, hash).get()
                }
            };
            outline.sections.push(placed(section, index, number));
        }
    }
    outline
}

/// There is one for each section: what is cheap is good enough, as most of them are of a few shapes.
fn hash_of(shape: &ShapeRecord) -> u64 {
    let words: &[u32] = bytemuck::cast_slice(bytemuck::bytes_of(shape));
    words.iter().fold(0, |hash: u64, &word| {
        (hash.rotate_left(5) ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

fn shape(section: &Section<'_>, fragment: &Fragment) -> ShapeRecord {
    let grouped = match fragment.group {
        0 => 0,
        _ => ShapeRecord::GROUPED,
    };
    ShapeRecord {
        name: NameId(section.name.0),
        sh_type: section.sh_type,
        sh_flags: section.sh_flags,
        entsize: section.entsize,
        kind: section.kind as u8,
        bits: section.bits & ShapeRecord::REPEATED | grouped,
        reserved: 0,
    }
}

fn placed(section: &Section<'_>, member: u32, shape: u32) -> PlacedSection {
    let (size, mut bits) = match u32::try_from(section.size) {
        Ok(size) => (size, 0),
        Err(_) => (0, PlacedSection::LARGE),
    };
    let (Fixups::Narrow(fixups) | Fixups::Wide(fixups)) = &section.fixups;
    if !fixups.is_empty() {
        bits |= PlacedSection::HAS_FIXUPS;
    }
    let mut cie = 0;
    if let Some(frame) = section.frame {
        cie = frame.cie;
        bits |= PlacedSection::ONE_FDE;
        if frame.has_exception_table {
            bits |= PlacedSection::HAS_LSDA;
        }
    }
    PlacedSection {
        size,
        member,
        cie,
        shape_and_bits: PlacedSection::word(shape, section.align_log2, bits),
    }
}

fn as_usize(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}
