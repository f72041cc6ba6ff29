//! Changes to the records of a program repository (SPEC.md, part 2): one field says something else, and the rest, with all
//! checksums, is in order. So what is reached is what reads the field, not what finds that a checksum is wrong.

use super::repository::{items, make_right};
use crate::Random;
use format_spec::ids::PieceId;
use format_spec::outline::{PlacedSection, ShapeRecord};
use format_spec::program::{CompilationHeader, GroupRecord, Index, MemberRecord, SymbolRecord};
use std::mem::offset_of;
use std::ops::Range;

/// The values of all records of an index.
pub fn records(data: &[u8], index: Index) -> Vec<Range<usize>> {
    items(data)
        .filter(|item| item.head.index() == Some(index.slot()))
        .filter_map(|item| item.value())
        .collect()
}

/// Changes one to three fields of records.
pub fn mutate(data: &mut [u8], random: &mut Random) {
    for _ in 0..1 + random.below(3) {
        const WEIGHTED: [Index; 14] = [
            Index::Compilations,
            Index::Compilations,
            Index::Compilations,
            Index::Compilations,
            Index::Compilations,
            Index::Compilations,
            Index::Fragments,
            Index::Fragments,
            Index::Fragments,
            Index::Pieces,
            Index::Names,
            Index::Images,
            Index::Types,
            Index::Manifests,
        ];
        let values = records(data, random.pick(&WEIGHTED));
        if let Some(value) = (!values.is_empty()).then(|| random.pick(&values)) {
            field(&mut data[value], random);
        }
    }
    make_all_right(data);
}

/// Makes a field of a value something else: mostly a word, and mostly a number that may be an index or a size.
fn field(value: &mut [u8], random: &mut Random) {
    if value.len() < 8 {
        if let Some(byte) = value.first_mut() {
            *byte ^= 1 << random.below(8);
        }
        return;
    }
    // Heads are few bytes and say much.
    let words = match random.one_in(4) {
        true => (value.len() / 4).min(16),
        false => value.len() / 4,
    };
    let at = 4 * random.below(words);
    let other = 4 * random.below(value.len() / 4);
    let word = |at: usize| u32::from_le_bytes(value[at..at + 4].try_into().expect("4 bytes"));
    let new = match random.below(6) {
        0 => word(other),
        1 => word(at) ^ (1 << random.below(32)),
        2 => word(at).rotate_left(8 * random.below(4) as u32),
        _ => random.value(word(at).into()) as u32,
    };
    value[at..at + 4].copy_from_slice(&new.to_le_bytes());
}

/// Makes the checksums of outlines right, and then those of the file.
pub fn make_all_right(data: &mut [u8]) {
    for value in records(data, Index::Compilations) {
        let value = &mut data[value];
        if let Some(crc) = outline_crc(value) {
            const CRC: usize = offset_of!(CompilationHeader, outline_crc);
            value[CRC..CRC + 4].copy_from_slice(&crc.to_le_bytes());
        }
    }
    make_right(data);
}

/// The checksum that a compilation's outline should have; `None` if the value does not hold what its head says.
fn outline_crc(value: &[u8]) -> Option<u32> {
    let header: CompilationHeader =
        bytemuck::pod_read_unaligned(value.get(..size_of::<CompilationHeader>())?);
    let mut at = size_of::<CompilationHeader>();
    let mut cut = |count: u32, size: usize| {
        let start = at.checked_next_multiple_of(8)?;
        let end = start.checked_add((count as usize).checked_mul(size)?)?;
        at = end;
        value.get(start..end)
    };
    let members = cut(header.member_count, size_of::<MemberRecord>())?;
    cut(header.symbol_count, size_of::<SymbolRecord>())?;
    cut(header.group_count, size_of::<GroupRecord>())?;
    cut(header.binding_count, 4)?;
    cut(header.wide_count, 8)?;
    let mut crc = crc32fast::Hasher::new();
    crc.update(members);
    crc.update(cut(header.shape_count, size_of::<ShapeRecord>())?);
    crc.update(cut(header.section_count, size_of::<PlacedSection>())?);
    crc.update(cut(header.piece_count, size_of::<PieceId>())?);
    crc.update(cut(header.binding_count, 1)?);
    Some(crc.finalize())
}
