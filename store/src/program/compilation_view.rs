//! Views of compilations.

use super::columns::MOST_OF_A_BYTE;
use super::cutter::Cutter;
use super::difference;
use super::fragment_view::SHT_NOBITS;
use crate::engine::Record;
use format_spec::fragment::SectionKind;
use format_spec::ids::{Address, PieceId};
use format_spec::outline::{PlacedSection, ShapeRecord};
use format_spec::pack::MAX_UNPACKED;
use format_spec::program::{CompilationHeader, GroupRecord, MemberRecord, SymbolRecord};
use std::ops::Range;

/// The checksum of an outline's arrays: members, shapes, sections, pieces and uses.
pub(super) fn outline_crc(arrays: [&[u8]; 5]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    for array in arrays {
        crc.update(array);
    }
    crc.finalize()
}

fn as_usize(range: Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

/// Indices of the symbols to which targets are bound.
#[derive(Clone, Copy, Debug)]
pub enum Bindings<'s> {
    /// Of a compilation with at most 2^16 symbols.
    Short(&'s [u16]),
    /// Of any other.
    Long(&'s [u32]),
}

impl<'s> Bindings<'s> {
    /// There are none.
    pub const NONE: Bindings<'static> = Bindings::Short(&[]);

    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        match self {
            Bindings::Short(symbols) => symbols.len(),
            Bindings::Long(symbols) => symbols.len(),
        }
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The symbol of a target.
    #[inline(always)]
    pub fn get(&self, target: usize) -> Option<u32> {
        match self {
            Bindings::Short(symbols) => symbols.get(target).map(|symbol| u32::from(*symbol)),
            Bindings::Long(symbols) => symbols.get(target).copied(),
        }
    }

    /// All of them, in order.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = u32> + use<'s> {
        (0..self.len()).filter_map(move |target| self.get(target))
    }

    /// Some of them; none if there are not so many.
    fn slice(&self, range: Range<usize>) -> Bindings<'s> {
        match self {
            Bindings::Short(symbols) => Bindings::Short(symbols.get(range).unwrap_or_default()),
            Bindings::Long(symbols) => Bindings::Long(symbols.get(range).unwrap_or_default()),
        }
    }
}

/// A compilation.
#[derive(Clone, Copy, Debug)]
pub struct CompilationView<'s> {
    record: Record<'s>,
    /// Bytes of its value as it is used.
    size: usize,
    header: &'s CompilationHeader,
    members: &'s [MemberRecord],
    symbols: &'s [SymbolRecord],
    groups: &'s [GroupRecord],
    bindings: Bindings<'s>,
    wide: &'s [u64],
    shapes: &'s [ShapeRecord],
    sections: &'s [PlacedSection],
    pieces: &'s [PieceId],
    uses: &'s [u8],
}

impl<'s> CompilationView<'s> {
    /// The view, if what is in the arrays is what it may be.
    pub(super) fn checked(self) -> Option<Self> {
        Some(self).filter(CompilationView::is_good)
    }

    /// Cuts the value into its arrays: the record's, or what that is a difference of.
    pub(super) fn cut(record: Record<'s>, value: &'s [u8]) -> Option<Self> {
        let mut cutter = Cutter::new(value);
        let header: &CompilationHeader = cutter.one()?;
        Some(CompilationView {
            record,
            size: value.len(),
            header,
            members: cutter.slice(header.member_count as usize)?,
            symbols: cutter.slice(header.symbol_count as usize)?,
            groups: cutter.slice(header.group_count as usize)?,
            bindings: match header.has_short_bindings() {
                true => Bindings::Short(cutter.slice(header.binding_count as usize)?),
                false => Bindings::Long(cutter.slice(header.binding_count as usize)?),
            },
            wide: cutter.slice(header.wide_count as usize)?,
            shapes: cutter.slice(header.shape_count as usize)?,
            sections: cutter.slice(header.section_count as usize)?,
            pieces: cutter.slice(header.piece_count as usize)?,
            uses: cutter.slice(header.binding_count as usize)?,
        })
        .filter(|_| (1..=header.symbol_count).contains(&header.first_global))
    }

    /// Whether the outline is as it was written. It is not looked at otherwise before it is used.
    pub fn outline_is_whole(&self) -> bool {
        let arrays = [
            bytemuck::cast_slice(self.members),
            bytemuck::cast_slice(self.shapes),
            bytemuck::cast_slice(self.sections),
            bytemuck::cast_slice(self.pieces),
            self.uses,
        ];
        outline_crc(arrays) == self.header.outline_crc && self.header.reserved == 0
    }

    /// Whether the elements of the arrays are what they may be, and the outline is as it was written: then every
    /// index in them is one of an element that exists.
    pub fn is_sound(&self) -> bool {
        self.is_good() && self.outline_is_whole()
    }

    /// Whether the sections are those of their members, in order, and no larger than what the members' fragments can
    /// hold: these are records that are in the file before this one.
    fn sections_are_good(&self) -> bool {
        let header = self.header;
        let end = self.record.address;
        // Of the member of the section before: its index, where its sections end, and bytes that may be left of it.
        let (mut member, mut last, mut room) = (usize::MAX, 0, 0u64);
        (0..header.section_count)
            .zip(self.sections)
            .all(|(number, section)| {
                let index = section.member as usize;
                if index != member {
                    let Some(record) = self.members.get(index) else {
                        return false;
                    };
                    let share = self.sections_of(index);
                    if share.start != number || record.fragment >= end {
                        return false;
                    }
                    // A packed one may have more bytes than there are between the two.
                    let distance = end.0 - record.fragment.0;
                    (member, last, room) = (index, share.end, distance.max(MAX_UNPACKED));
                }
                let Some(shape) = self.shapes.get(section.shape() as usize) else {
                    return false;
                };
                // What has no bytes takes no room, and the size that does not fit is the fragment's.
                let is_stored = shape.sh_type != SHT_NOBITS;
                let size = u64::from(section.size) * u64::from(is_stored);
                let size = match SectionKind::may_be_compressed(shape.kind) {
                    // It may be compressed.
                    true => size / MOST_OF_A_BYTE as u64,
                    false => size,
                };
                let fits = size <= room;
                room = room.saturating_sub(size);
                fits && number < last && section.cie < header.section_count
            })
    }

    /// Whether the elements of the arrays are what they may be.
    fn is_good(&self) -> bool {
        let header = self.header;
        let (mut first_section, mut first_binding, mut first_piece) = (0, 0, 0);
        let members_are_good = self.members.iter().all(|member| {
            let ascending = member.first_section >= first_section
                && member.first_section <= header.section_count
                && member.first_binding >= first_binding
                && member.first_binding <= header.binding_count
                && member.first_piece >= first_piece
                && member.first_piece <= header.piece_count;
            first_section = member.first_section;
            first_binding = member.first_binding;
            first_piece = member.first_piece;
            ascending && member.group <= header.group_count
        });
        let symbol_is_good = |symbol: &SymbolRecord| {
            let wide_is_good = symbol.bits & SymbolRecord::WIDE == 0
                || (symbol.size == 0
                    && (symbol.value as usize)
                        .checked_add(2)
                        .is_some_and(|end| end <= self.wide.len()));
            let bits_are_known = symbol.bits
                & !(SymbolRecord::WIDE | SymbolRecord::PIECE | SymbolRecord::ADDRESS_SIGNIFICANT)
                == 0;
            let place_is_good = symbol.bits & SymbolRecord::PIECE != 0
                || symbol.section <= header.section_count
                || symbol.section == SymbolRecord::SECTION_ABSOLUTE
                || symbol.section == SymbolRecord::SECTION_COMMON;
            wide_is_good && bits_are_known && place_is_good
        };
        // What comes before the first member belongs to nobody.
        let starts_at_zero = match self.members.first() {
            Some(first) => {
                first.first_section == 0 && first.first_binding == 0 && first.first_piece == 0
            }
            None => {
                header.section_count == 0 && header.binding_count == 0 && header.piece_count == 0
            }
        };
        members_are_good
            && starts_at_zero
            && self.symbols.iter().all(symbol_is_good)
            && self.sections_are_good()
            && self
                .bindings
                .iter()
                .all(|symbol| symbol < header.symbol_count)
    }

    /// Its record; the key is its digest. If it is recorded as a difference, the record's value is that.
    pub fn record(&self) -> Record<'s> {
        self.record
    }

    /// Bytes of its value; those of a difference's record are fewer.
    pub fn size(&self) -> usize {
        self.size
    }

    /// If it is recorded as a difference: the address of the compilation to which it is one.
    pub fn base(&self) -> Option<Address> {
        difference::header(self.record.value).map(|header| header.base)
    }

    /// The head of its value.
    pub fn header(&self) -> &'s CompilationHeader {
        self.header
    }

    /// Its members.
    pub fn members(&self) -> &'s [MemberRecord] {
        self.members
    }

    /// Its symbols, beginning with the null symbol, locals first.
    pub fn symbols(&self) -> &'s [SymbolRecord] {
        self.symbols
    }

    /// Its section groups.
    pub fn groups(&self) -> &'s [GroupRecord] {
        self.groups
    }

    /// The shapes of its sections.
    pub fn shapes(&self) -> &'s [ShapeRecord] {
        self.shapes
    }

    /// Its sections, those of all members. Their shapes and members exist.
    pub fn sections(&self) -> &'s [PlacedSection] {
        self.sections
    }

    /// The numbers of a member's sections within the compilation.
    pub fn sections_of(&self, member: usize) -> Range<u32> {
        let end = self.header.section_count;
        self.share(member, end, |member| member.first_section)
    }

    /// The symbol indices to which a member's bindable targets are bound.
    #[inline]
    pub fn bindings_of(&self, member: usize) -> Bindings<'s> {
        let share = self.share(member, self.bindings.len() as u32, |m| m.first_binding);
        self.bindings.slice(as_usize(share))
    }

    /// How the fixups of a plain member use what its bindings stand for:
    /// [`usage`](format_spec::outline::usage), by binding.
    #[inline]
    pub fn uses_of(&self, member: usize) -> &'s [u8] {
        let share = self.share(member, self.uses.len() as u32, |m| m.first_binding);
        self.uses.get(as_usize(share)).unwrap_or_default()
    }

    /// The pieces that a member refers to.
    #[inline]
    pub fn pieces_of(&self, member: usize) -> &'s [PieceId] {
        let share = self.share(member, self.pieces.len() as u32, |m| m.first_piece);
        self.pieces.get(as_usize(share)).unwrap_or_default()
    }

    /// A member's share of an array that has `len` elements: up to where the next member's begins.
    #[inline]
    fn share(&self, member: usize, len: u32, first: fn(&MemberRecord) -> u32) -> Range<u32> {
        let end = self.members.get(member + 1).map_or(len, first);
        self.members.get(member).map_or(end, first)..end
    }

    /// The symbol indices to which the bindable targets of all members are bound, in their order.
    pub(super) fn bindings(&self) -> Bindings<'s> {
        self.bindings
    }

    /// Words of values and sizes that do not fit elsewhere.
    pub(super) fn wide(&self) -> &'s [u64] {
        self.wide
    }

    /// How all bindings are used.
    pub(super) fn uses(&self) -> &'s [u8] {
        self.uses
    }

    /// The pieces that the members refer to, in order.
    pub(super) fn pieces(&self) -> &'s [PieceId] {
        self.pieces
    }

    /// Value and size of a symbol.
    pub fn value_and_size(&self, symbol: &SymbolRecord) -> (u64, u64) {
        if symbol.bits & SymbolRecord::WIDE == 0 {
            return (u64::from(symbol.value), u64::from(symbol.size));
        }
        match self.wide.get(symbol.value as usize..) {
            Some([value, size, ..]) => (*value, *size),
            _ => (0, 0),
        }
    }
}
