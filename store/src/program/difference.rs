//! Compilations that are recorded as differences.
//!
//! After an edit, a compilation's lists say nearly what they said before; only that what refers to elements by their indices is shifted
//! where something was added. So a writer that knows the predecessor (what the ticket named until now) records what of each list is
//! in the predecessor, and where (*runs*); what that makes, with all indices translated, differs from the value in few bytes, which follow
//! (*patches*). SPEC.md, section 19, "Differences". One function ([`Made::predict`]) makes the value for who writes and for who reads.

use super::cutter::Cutter;
use bytemuck::Zeroable;
use format_spec::ids::{Address, PieceId};
use format_spec::outline::{PlacedSection, ShapeRecord};
use format_spec::program::{
    CompilationHeader, DifferenceHeader, GroupRecord, MemberRecord, SymbolRecord,
};
use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

/// ELF's `STT_SECTION`.
const STT_SECTION: u8 = 3;

/// Bytes between two patches that are rather part of one.
const PATCH_GAP: usize = 3;

/// The head of a difference; `None` if the value is a whole compilation's.
pub(super) fn header(value: &[u8]) -> Option<DifferenceHeader> {
    let (marker, _) = value.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*marker) != DifferenceHeader::MARKER {
        return None;
    }
    // Too short a value has no base.
    let head = value.get(..size_of::<DifferenceHeader>());
    Some(head.map_or(
        DifferenceHeader::zeroed(),
        bytemuck::pod_read_unaligned::<DifferenceHeader>,
    ))
}

/// Whether a difference of `size` bytes is worth having in the place of a value of `whole` bytes: all later ones grow with
/// what is edited, until a value is recorded whole again.
fn is_worth_it(size: usize, whole: usize) -> bool {
    size <= whole / 8 || (size <= whole / 2 && size <= 1024)
}

/// The arrays of a value.
struct Arrays<'v> {
    header: CompilationHeader,
    members: &'v [MemberRecord],
    symbols: &'v [SymbolRecord],
    groups: &'v [GroupRecord],
    bindings: Vec<u32>,
    wide: &'v [u64],
    shapes: &'v [ShapeRecord],
    sections: &'v [PlacedSection],
    pieces: &'v [PieceId],
    uses: &'v [u8],
}

impl<'v> Arrays<'v> {
    fn cut(value: &'v [u8]) -> Option<Arrays<'v>> {
        let mut cutter = Cutter::new(value);
        let header: CompilationHeader = *cutter.one()?;
        Some(Arrays {
            header,
            members: cutter.slice(header.member_count as usize)?,
            symbols: cutter.slice(header.symbol_count as usize)?,
            groups: cutter.slice(header.group_count as usize)?,
            bindings: match header.has_short_bindings() {
                true => {
                    let short: &[u16] = cutter.slice(header.binding_count as usize)?;
                    short.iter().map(|symbol| u32::from(*symbol)).collect()
                }
                false => cutter.slice(header.binding_count as usize)?.to_vec(),
            },
            wide: cutter.slice(header.wide_count as usize)?,
            shapes: cutter.slice(header.shape_count as usize)?,
            sections: cutter.slice(header.section_count as usize)?,
            pieces: cutter.slice(header.piece_count as usize)?,
            uses: cutter.slice(header.binding_count as usize)?,
        })
    }

    /// A member's share of an array with `len` elements.
    fn share(&self, member: usize, len: usize, first: fn(&MemberRecord) -> u32) -> Range<usize> {
        let at = |member: usize| self.members.get(member).map_or(len, |m| first(m) as usize);
        let start = at(member).min(len);
        start..at(member + 1).clamp(start, len)
    }
}

/// The sizes of the arrays for which there are runs, in their order.
fn counts(header: &CompilationHeader) -> [u32; LISTS] {
    [
        header.member_count,
        header.symbol_count,
        header.group_count,
        header.binding_count,
        header.wide_count,
        header.shape_count,
        header.section_count,
        header.piece_count,
    ]
}

const LISTS: usize = 8;
const MEMBERS: usize = 0;
const SYMBOLS: usize = 1;
const GROUPS: usize = 2;
const BINDINGS: usize = 3;
const WIDE: usize = 4;
const SHAPES: usize = 5;
const SECTIONS: usize = 6;
const PIECES: usize = 7;

/// Bytes of the value that a header is of.
pub(super) fn value_size(header: &CompilationHeader) -> Option<usize> {
    let binding = if header.has_short_bindings() { 2 } else { 4 };
    let arrays = [
        (header.member_count, size_of::<MemberRecord>()),
        (header.symbol_count, size_of::<SymbolRecord>()),
        (header.group_count, size_of::<GroupRecord>()),
        (header.binding_count, binding),
        (header.wide_count, size_of::<u64>()),
        (header.shape_count, size_of::<ShapeRecord>()),
        (header.section_count, size_of::<PlacedSection>()),
        (header.piece_count, size_of::<PieceId>()),
        (header.binding_count, 1),
    ];
    arrays
        .iter()
        .try_fold(size_of::<CompilationHeader>(), |at, (count, size)| {
            at.checked_next_multiple_of(8)?
                .checked_add((*count as usize).checked_mul(*size)?)
        })
}

/// Which elements of the base the elements of a list are, and the other way round.
struct Correspondence {
    /// By the element: the base's, or `NONE`.
    source: Vec<u32>,
    /// By the base's element, and one more for their end: the element. One that is none follows the one before it.
    to: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Correspondence {
    fn new(source: Vec<u32>, base_count: u32) -> Correspondence {
        let mut to = vec![NONE; base_count as usize + 1];
        for (index, &of_base) in (0..).zip(&source) {
            if let Some(to) = to.get_mut(of_base as usize) {
                *to = index;
            }
        }
        to[base_count as usize] = source.len() as u32;
        let mut next = 0;
        for to in &mut to {
            if *to == NONE {
                *to = next;
            }
            next = to.saturating_add(1);
        }
        Correspondence { source, to }
    }

    /// The index of what the base has at `index`; what is none stays as it is.
    fn translate(&self, index: u32) -> u32 {
        self.to.get(index as usize).copied().unwrap_or(index)
    }

    /// The same of a number that is 1 + an index, or 0.
    fn translate_number(&self, number: u32) -> u32 {
        match number {
            0 => 0,
            number if number as usize >= self.to.len() => number,
            number => self.translate(number - 1).wrapping_add(1),
        }
    }
}

/// A value that is made of a base's.
struct Made {
    header: CompilationHeader,
    lists: [Correspondence; LISTS],
}

impl Made {
    /// The value but for what the patches say, as words, of which the last may have zeros behind it.
    fn predict(&self, base: &Arrays<'_>, size: usize) -> Vec<u64> {
        let mut words = vec![0u64; size.div_ceil(8)];
        let out: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        let head = size_of::<CompilationHeader>();
        out[..head].copy_from_slice(bytemuck::bytes_of(&self.header));
        let [
            members,
            symbols,
            groups,
            bindings,
            wide,
            shapes,
            sections,
            pieces,
        ] = &self.lists;
        let mut at = head;
        put(out, &mut at, members, base.members, |member| MemberRecord {
            first_section: sections.translate(member.first_section),
            first_binding: bindings.translate(member.first_binding),
            first_piece: pieces.translate(member.first_piece),
            group: groups.translate_number(member.group),
            ..member
        });
        put(out, &mut at, symbols, base.symbols, |symbol| SymbolRecord {
            section: match symbol.bits & SymbolRecord::PIECE {
                0 => sections.translate_number(symbol.section),
                _ => symbol.section,
            },
            ..symbol
        });
        put(out, &mut at, groups, base.groups, |group| group);
        let symbol_of = |symbol| symbols.translate(symbol);
        match self.header.has_short_bindings() {
            true => {
                let short = |symbol| symbol_of(symbol) as u16;
                put(out, &mut at, bindings, &base.bindings, short);
            }
            false => put(out, &mut at, bindings, &base.bindings, symbol_of),
        }
        put(out, &mut at, wide, base.wide, |word| word);
        put(out, &mut at, shapes, base.shapes, |shape| shape);
        put(out, &mut at, sections, base.sections, |section| {
            let cie = match section.bits() & PlacedSection::ONE_FDE {
                0 => section.cie,
                _ => sections.translate(section.cie),
            };
            PlacedSection {
                member: members.translate(section.member),
                cie,
                shape_and_bits: PlacedSection::word(
                    shapes.translate(section.shape()) % PlacedSection::MAX_SHAPES as u32,
                    section.align_log2(),
                    section.bits(),
                ),
                ..section
            }
        });
        put(out, &mut at, pieces, base.pieces, |piece| piece);
        put(out, &mut at, bindings, base.uses, |uses| uses);
        words
    }
}

/// Puts an array at the next multiple of 8 from `at` on; zeros for what is not of the base.
fn put<T: Copy, U: bytemuck::Pod>(
    out: &mut [u8],
    at: &mut usize,
    list: &Correspondence,
    base: &[T],
    translate: impl Fn(T) -> U,
) {
    let start = at.next_multiple_of(8);
    *at = start + list.source.len() * size_of::<U>();
    let places = out[start..*at].chunks_exact_mut(size_of::<U>());
    for (&source, place) in list.source.iter().zip(places) {
        if let Some(&element) = base.get(source as usize) {
            place.copy_from_slice(bytemuck::bytes_of(&translate(element)));
        }
    }
}

/// Makes the value that `difference` is of, from the value of its base: in words, of which the last may have zeros behind it, and its
/// size.
pub(super) fn apply(base: &[u8], difference: &[u8]) -> Option<(Vec<u64>, usize)> {
    let head = header(difference)?;
    let mut stream = difference.get(size_of::<DifferenceHeader>()..)?;
    let size = value_size(&head.compilation)?;
    if head.reserved != 0 || size > (base.len() + difference.len()).saturating_mul(2) {
        return None;
    }
    let base = Arrays::cut(base)?;
    let mut lists = Vec::with_capacity(LISTS);
    for (count, of_base) in counts(&head.compilation)
        .into_iter()
        .zip(counts(&base.header))
    {
        lists.push(Correspondence::new(
            take_runs(&mut stream, count, of_base)?,
            of_base,
        ));
    }
    let made = Made {
        header: head.compilation,
        lists: lists.try_into().ok()?,
    };
    let mut words = made.predict(&base, size);
    let value = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..size];
    let mut at = size_of::<CompilationHeader>();
    while !stream.is_empty() {
        let start = at.checked_add(take(&mut stream)? as usize)?;
        let count = take(&mut stream)? as usize;
        at = start.checked_add(count)?;
        let (bytes, rest) = stream.split_at_checked(count)?;
        value.get_mut(start..at)?.copy_from_slice(bytes);
        stream = rest;
    }
    (DifferenceHeader::check_of(value) == head.check).then_some((words, size))
}

fn take_runs(stream: &mut &[u8], count: u32, of_base: u32) -> Option<Vec<u32>> {
    let mut source = Vec::with_capacity(count as usize);
    while source.len() < count as usize {
        let start = take(stream)?;
        let length = take(stream)?;
        if length == 0 || length as usize > count as usize - source.len() {
            return None;
        }
        match start.checked_sub(1) {
            None => source.resize(source.len() + length as usize, NONE),
            Some(start) => {
                let end = start.checked_add(length)?;
                if end > of_base {
                    return None;
                }
                source.extend(start..end);
            }
        }
    }
    Some(source)
}

/// Takes a number from the front: seven bits a byte, the lowest first, the highest bit set in all bytes but the last.
fn take(stream: &mut &[u8]) -> Option<u32> {
    let mut number = 0u64;
    for shift in (0..35).step_by(7) {
        let (&byte, rest) = stream.split_first()?;
        *stream = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return u32::try_from(number).ok();
        }
    }
    None
}

fn append(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn append_runs(out: &mut Vec<u8>, source: &[u32]) {
    let follows = |a: &u32, b: &u32| match *a {
        NONE => *b == NONE,
        a => a + 1 == *b,
    };
    for run in source.chunk_by(follows) {
        append(out, run[0].wrapping_add(1) as usize);
        append(out, run.len());
    }
}

/// The difference of `value` to the whole compilation at `address`, whose value is `base`; `None` if it would not be worth it.
pub(super) fn difference(address: Address, base: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let base_size = base.len();
    let base = Arrays::cut(base)?;
    // Aligned as in the file.
    let mut copy = vec![0u64; value.len().div_ceil(8)];
    bytemuck::cast_slice_mut::<u64, u8>(&mut copy)[..value.len()].copy_from_slice(value);
    let arrays = Arrays::cut(&bytemuck::cast_slice::<u64, u8>(&copy)[..value.len()])?;
    let of_base = counts(&base.header);
    let mut lists = sources(&base, &arrays).into_iter().zip(of_base);
    let lists = [(); LISTS].map(|()| {
        let (source, count) = lists.next().unwrap_or_default();
        Correspondence::new(source, count)
    });
    let mut out = bytemuck::bytes_of(&DifferenceHeader {
        marker: DifferenceHeader::MARKER,
        reserved: 0,
        base: address,
        check: DifferenceHeader::check_of(value),
        compilation: arrays.header,
    })
    .to_vec();
    for list in &lists {
        append_runs(&mut out, &list.source);
    }
    let made = Made {
        header: arrays.header,
        lists,
    };
    let words = made.predict(&base, value.len());
    let predicted: &[u8] = bytemuck::cast_slice(&words);
    let mut at = size_of::<CompilationHeader>();
    let mut next = at;
    let differs = |at: &usize| predicted[*at] != value[*at];
    while let Some(start) = (next..value.len()).find(differs) {
        let mut end = start + 1;
        while let Some(more) = (end..value.len().min(end + PATCH_GAP)).find(differs) {
            end = more + 1;
        }
        append(&mut out, start - at);
        append(&mut out, end - start);
        out.extend_from_slice(&value[start..end]);
        (at, next) = (end, end);
        if !is_worth_it(out.len(), value.len()) {
            return None;
        }
    }
    let is_bounded = value.len() <= (base_size + out.len()).saturating_mul(2);
    (is_bounded && is_worth_it(out.len(), value.len())).then_some(out)
}

/// What the elements of each list are in the base. Whatever is found here, the patches make it right.
fn sources(base: &Arrays<'_>, new: &Arrays<'_>) -> [Vec<u32>; LISTS] {
    let mut members = alike(base.members, new.members, |_, member| member.fragment);
    // A fragment that took the place of another one stands where that stood.
    let mut used: Vec<bool> = vec![false; base.members.len()];
    for &source in members.iter().filter(|source| **source != NONE) {
        used[source as usize] = true;
    }
    for index in 0..members.len() {
        let before = index.checked_sub(1).map(|before| members[before]);
        let next = before.map_or(0, |before| before.wrapping_add(1));
        if members[index] == NONE && before != Some(NONE) && used.get(next as usize) == Some(&false)
        {
            members[index] = next;
            used[next as usize] = true;
        }
    }
    let of_members = |old: usize, count: usize, first: fn(&MemberRecord) -> u32| {
        let mut source = vec![NONE; count];
        for (member, &of_base) in members.iter().enumerate() {
            if of_base == NONE {
                continue;
            }
            let shares =
                new.share(member, count, first)
                    .zip(base.share(of_base as usize, old, first));
            for (index, of_base) in shares {
                source[index] = of_base as u32;
            }
        }
        source
    };
    let sections = of_members(base.sections.len(), new.sections.len(), |m| m.first_section);
    let bindings = of_members(base.uses.len(), new.uses.len(), |m| m.first_binding);
    let pieces = of_members(base.pieces.len(), new.pieces.len(), |m| m.first_piece);
    let symbols = alike(base.symbols, new.symbols, |is_new, symbol| {
        // Section symbols have no names.
        let section = match (symbol.info & 0xf, is_new) {
            (STT_SECTION, false) => symbol.section.wrapping_sub(1),
            (STT_SECTION, true) => {
                let number = symbol.section.wrapping_sub(1) as usize;
                sections.get(number).copied().unwrap_or(NONE)
            }
            _ => 0,
        };
        (symbol.name, symbol.info, section)
    });
    let groups = alike(base.groups, new.groups, |_, group| group.signature);
    let shapes = alike(base.shapes, new.shapes, |_, shape| {
        bytemuck::bytes_of(shape).to_vec()
    });
    let wide = (0..new.wide.len() as u32).map(|index| match (index as usize) < base.wide.len() {
        true => index,
        false => NONE,
    });
    let mut lists: [Vec<u32>; LISTS] = Default::default();
    lists[WIDE] = wide.collect();
    lists[MEMBERS] = members;
    lists[SYMBOLS] = symbols;
    lists[GROUPS] = groups;
    lists[BINDINGS] = bindings;
    lists[SHAPES] = shapes;
    lists[SECTIONS] = sections;
    lists[PIECES] = pieces;
    lists
}

/// For each new element the base's that has the same key; the first of several for the first.
fn alike<T, K: Hash + Eq>(base: &[T], new: &[T], key: impl Fn(bool, &T) -> K) -> Vec<u32> {
    let mut found: HashMap<K, u32> = HashMap::with_capacity(base.len());
    let mut next = vec![NONE; base.len()];
    for (index, element) in (0..base.len()).zip(base).rev() {
        if let Some(later) = found.insert(key(false, element), index as u32) {
            next[index] = later;
        }
    }
    let take = |element: &T| {
        let Some(first) = found.get_mut(&key(true, element)) else {
            return NONE;
        };
        match next.get(*first as usize) {
            Some(&later) => std::mem::replace(first, later),
            None => NONE,
        }
    };
    new.iter().map(take).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use format_spec::ids::NameId;

    /// A value with so many members of one section, symbol, binding and piece each; all but `first` have been somewhere before.
    fn value(fragments: impl Iterator<Item = u32> + Clone) -> Vec<u8> {
        let count = fragments.clone().count() as u32;
        let header = CompilationHeader {
            member_count: count,
            section_count: count,
            symbol_count: count + 1,
            first_global: 1,
            binding_count: count,
            shape_count: 1,
            piece_count: count,
            ..CompilationHeader::zeroed()
        };
        let mut value = bytemuck::bytes_of(&header).to_vec();
        let mut array = |bytes: &[u8]| {
            value.resize(value.len().next_multiple_of(8), 0);
            value.extend_from_slice(bytes);
        };
        let numbered = (0..).zip(fragments.clone());
        let members = numbered.clone().map(|(number, fragment)| MemberRecord {
            fragment: Address(u64::from(fragment) * 8),
            first_section: number,
            first_binding: number,
            first_piece: number,
            ..MemberRecord::zeroed()
        });
        array(bytemuck::cast_slice(&members.collect::<Vec<_>>()));
        let symbols = numbered.clone().map(|(number, fragment)| SymbolRecord {
            name: NameId(fragment),
            section: number + 1,
            ..SymbolRecord::zeroed()
        });
        let symbols = std::iter::once(SymbolRecord::zeroed()).chain(symbols);
        array(bytemuck::cast_slice(&symbols.collect::<Vec<_>>()));
        let bindings: Vec<u16> = (1..=count as u16).collect();
        array(bytemuck::cast_slice(&bindings));
        array(bytemuck::bytes_of(&ShapeRecord::zeroed()));
        let sections = numbered.map(|(member, _)| PlacedSection {
            member,
            ..PlacedSection::zeroed()
        });
        array(bytemuck::cast_slice(&sections.collect::<Vec<_>>()));
        let pieces: Vec<PieceId> = fragments.map(PieceId).collect();
        array(bytemuck::cast_slice(&pieces));
        array(&vec![1; count as usize]);
        value
    }

    /// In memory as in the file.
    fn apply_to(base: &[u8], difference: &[u8]) -> Option<Vec<u8>> {
        let mut words = vec![0u64; base.len().div_ceil(8)];
        bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..base.len()].copy_from_slice(base);
        let (made, size) = apply(
            &bytemuck::cast_slice::<u64, u8>(&words)[..base.len()],
            difference,
        )?;
        Some(bytemuck::cast_slice::<u64, u8>(&made)[..size].to_vec())
    }

    fn difference_of(base: &[u8], new: &[u8]) -> Option<Vec<u8>> {
        let mut words = vec![0u64; base.len().div_ceil(8)];
        bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..base.len()].copy_from_slice(base);
        difference(
            Address(8),
            &bytemuck::cast_slice::<u64, u8>(&words)[..base.len()],
            new,
        )
    }

    #[test]
    fn what_is_shifted_costs_nothing() {
        let base = value(1..400);
        for (new, limit) in [
            (value((1..200).chain([1000]).chain(201..400)), 150),
            (value((1..200).chain([1000]).chain(200..400)), 250),
            (value((1..200).chain(201..400)), 150),
            (value((200..400).chain(1..200)), 150),
        ] {
            let difference = difference_of(&base, &new).expect("worth it");
            assert!(difference.len() < limit, "{}", difference.len());
            let made = apply_to(&base, &difference).expect("fits");
            assert!(made.starts_with(&new) && made.len() < new.len() + 8);
        }
        assert!(difference_of(&base, &value(1000..1400)).is_none());
    }

    #[test]
    fn damaged_differences_and_wrong_bases_are_refused() {
        let base = value(1..400);
        let new = value((1..200).chain([1000]).chain(200..400));
        let difference = difference_of(&base, &new).expect("worth it");
        assert!(apply_to(&value(1..399), &difference).is_none());
        assert!(apply_to(&[], &difference).is_none());
        for at in 0..difference.len() {
            assert!(apply_to(&base, &difference[..at]).is_none(), "cut at {at}");
            for bit in 0..8 {
                let mut other = difference.clone();
                other[at] ^= 1 << bit;
                // Who has changed the base's address has changed nothing here.
                let made = apply_to(&base, &other);
                assert!((8..16).contains(&at) || made.is_none_or(|made| made.starts_with(&new)));
            }
        }
        // Sizes that nobody has.
        for field in 0..14 {
            let mut other = difference.clone();
            other[24 + 4 * field..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
            let _ = apply_to(&base, &other);
        }
    }
}
