//! The bytes of fragments and compilations, made before the write lock is taken.
//!
//! What a value refers to by id or address is known only under the lock. So it is made with the numbers that its compilation
//! gives to names, pieces and fragments, each in the place of the id or address that it stands for; under the lock they are
//! translated, which is one pass over the head of the value.
//!
//! A fragment's *body*, its fixups and bytes, has no ids: it is a part of what is digested as it is in the value.

use super::ProgramError;
use super::build::{Compilation, Fixups, Place, Section, Symbol, Target};
use super::outline::outline;
use super::prepare;
use super::view::outline_crc;
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::outline::{PlacedSection, ShapeRecord};
use format_spec::program::{
    CompilationHeader, FragmentHeader, GroupRecord, MemberRecord, SectionRecord, SymbolRecord,
    TargetKind, TargetRecord,
};
use std::mem::offset_of;
use std::ops::Range;

/// What the numbers of one compilation's names, pieces and fragments are in a repository.
#[derive(Clone, Copy)]
pub(super) struct Translation<'t> {
    /// Ids of names.
    pub(super) names: &'t [NameId],
    /// Ids of pieces.
    pub(super) pieces: &'t [PieceId],
    /// Addresses of fragments; zero for those that are not there yet.
    pub(super) fragments: &'t [Address],
}

impl Translation<'_> {
    fn name(&self, name: NameId) -> NameId {
        self.names[name.0 as usize]
    }

    fn piece(&self, piece: PieceId) -> PieceId {
        self.pieces[piece.0 as usize]
    }

    fn fragment(&self, fragment: Address) -> Address {
        self.fragments[fragment.0 as usize]
    }
}

/// Appends a fragment's value to `out`, which must have a multiple of 8 bytes: head, sections, anonymous addresses, targets,
/// then the body: the fixups of all sections, then their bytes. Returns where the body begins in `out`.
///
/// # Errors
/// [`ProgramError::TooLarge`].
pub(super) fn fragment(
    compilation: &Compilation<'_>,
    index: usize,
    out: &mut Vec<u8>,
) -> Result<usize, ProgramError> {
    let fragment = &compilation.fragments[index];
    let sections = &compilation.sections[as_usize(&fragment.sections)];
    let targets = &compilation.targets[as_usize(&fragment.targets)];
    let is_anonymous = |target: &&Target| matches!(target, Target::OwnAnonymous(_));
    let anonymous = targets.iter().filter(is_anonymous).count();
    let head = size_of::<FragmentHeader>()
        + sections.len() * size_of::<SectionRecord>()
        + anonymous * size_of::<Address>()
        + targets.len() * size_of::<TargetRecord>();
    let mut data_at = sections.iter().fold(head as u64, |at, section| {
        fixups_place(section, at) + compilation.fixup_bytes(section).len() as u64
    });
    let data_size = |section: &Section<'_>| section.bytes.len() as u64;
    let total = data_at + sections.iter().map(data_size).sum::<u64>();
    if total > u64::from(u32::MAX) {
        return Err(ProgramError::TooLarge(total));
    }
    let start = out.len();
    out.reserve(total as usize);
    out.extend_from_slice(bytemuck::bytes_of(&FragmentHeader {
        section_count: sections.len() as u32,
        anonymous_count: anonymous as u32,
        target_count: targets.len() as u32,
        bindable_count: fragment.bindings.len() as u32,
    }));
    let mut fixups_at = head as u64;
    for section in sections {
        fixups_at = fixups_place(section, fixups_at);
        let (Fixups::Narrow(fixups) | Fixups::Wide(fixups)) = &section.fixups;
        out.extend_from_slice(bytemuck::bytes_of(&SectionRecord {
            size: section.size,
            name: NameId(section.name.0),
            sh_type: section.sh_type,
            sh_flags: section.sh_flags,
            entsize: section.entsize,
            kind: section.kind as u8,
            align_log2: section.align_log2,
            bits: Compilation::section_bits(section),
            reserved: 0,
            link: section.link,
            fixups: fixups_at as u32,
            fixup_count: fixups.len() as u32,
            data: data_at as u32,
            reserved2: 0,
        }));
        fixups_at += compilation.fixup_bytes(section).len() as u64;
        data_at += section.bytes.len() as u64;
    }
    for target in targets {
        if let Target::OwnAnonymous(other) = target {
            out.extend_from_slice(bytemuck::bytes_of(&Address(u64::from(*other))));
        }
    }
    let mut next_anonymous = 0;
    for target in targets {
        let value = match *target {
            Target::Global(name) | Target::Local(name) | Target::OwnNamed(name) => name.0,
            Target::OwnAnonymous(_) => {
                next_anonymous += 1;
                next_anonymous - 1
            }
            Target::Section(number) | Target::Piece(number) => number,
        };
        out.extend_from_slice(bytemuck::bytes_of(&TargetRecord {
            kind: target.kind() as u32,
            value,
        }));
    }
    let body = out.len();
    for section in sections {
        let place = fixups_place(section, (out.len() - start) as u64);
        out.resize(start + place as usize, 0);
        out.extend_from_slice(compilation.fixup_bytes(section));
    }
    for section in sections {
        out.extend_from_slice(section.bytes);
    }
    debug_assert_eq!((out.len() - start) as u64, total);
    Ok(body)
}

/// Where a section's fixups are if those before it end at `at`.
fn fixups_place(section: &Section<'_>, at: u64) -> u64 {
    match section.fixups {
        Fixups::Narrow(_) => at,
        Fixups::Wide(_) => at.next_multiple_of(8),
    }
}

/// Puts ids and addresses into a fragment's value that [`fragment`] made.
///
/// # Errors
/// [`ProgramError::Malformed`] if it is none.
pub(super) fn translate_fragment(
    value: &mut [u8],
    translation: Translation<'_>,
) -> Result<(), ProgramError> {
    let malformed = || ProgramError::malformed("a fragment's value is cut off");
    let (head, rest) = value
        .split_at_mut_checked(size_of::<FragmentHeader>())
        .ok_or_else(malformed)?;
    let header: FragmentHeader = bytemuck::pod_read_unaligned(head);
    let sections = header.section_count as usize * size_of::<SectionRecord>();
    let (sections, rest) = rest.split_at_mut_checked(sections).ok_or_else(malformed)?;
    for section in sections.chunks_exact_mut(size_of::<SectionRecord>()) {
        let name = offset_of!(SectionRecord, name);
        let place = &mut section[name..name + size_of::<NameId>()];
        let id: NameId = bytemuck::pod_read_unaligned(place);
        place.copy_from_slice(bytemuck::bytes_of(&translation.name(id)));
    }
    let anonymous = header.anonymous_count as usize * size_of::<Address>();
    let (anonymous, rest) = rest.split_at_mut_checked(anonymous).ok_or_else(malformed)?;
    for place in anonymous.chunks_exact_mut(size_of::<Address>()) {
        let number: Address = bytemuck::pod_read_unaligned(place);
        place.copy_from_slice(bytemuck::bytes_of(&translation.fragment(number)));
    }
    let targets = header.target_count as usize * size_of::<TargetRecord>();
    let targets = rest.get_mut(..targets).ok_or_else(malformed)?;
    const GLOBAL: u32 = TargetKind::Global as u32;
    const LOCAL: u32 = TargetKind::Local as u32;
    const OWN_NAMED: u32 = TargetKind::OwnNamed as u32;
    const PIECE: u32 = TargetKind::Piece as u32;
    for place in targets.chunks_exact_mut(size_of::<TargetRecord>()) {
        let mut target: TargetRecord = bytemuck::pod_read_unaligned(place);
        target.value = match target.kind {
            GLOBAL | LOCAL | OWN_NAMED => translation.name(NameId(target.value)).0,
            PIECE => translation.piece(PieceId(target.value)).0,
            _ => continue,
        };
        place.copy_from_slice(bytemuck::bytes_of(&target));
    }
    Ok(())
}

/// The arrays of a compilation's value, with the compilation's own numbers for ids and addresses.
pub(super) struct CompilationValue<'c> {
    header: CompilationHeader,
    members: Vec<MemberRecord>,
    symbols: Vec<SymbolRecord>,
    groups: Vec<GroupRecord>,
    bindings: &'c [u32],
    wide: Vec<u64>,
    shapes: Vec<ShapeRecord>,
    sections: Vec<PlacedSection>,
    pieces: Vec<PieceId>,
    uses: &'c [u8],
}

impl<'c> CompilationValue<'c> {
    /// Makes the arrays.
    pub(super) fn new(compilation: &'c Compilation<'_>) -> CompilationValue<'c> {
        let mut wide: Vec<u64> = Vec::new();
        let symbols = compilation.symbols.iter();
        let symbols: Vec<_> = symbols.map(|symbol| record(symbol, &mut wide)).collect();
        let outline = outline(compilation);
        let members = (0..).zip(&compilation.fragments).zip(&outline.members);
        let members = members.map(|((number, fragment), (first_piece, bits))| MemberRecord {
            fragment: Address(number),
            first_section: fragment.sections.start,
            first_binding: fragment.bindings.start,
            suffix: NameId(fragment.suffix.0),
            group: fragment.group,
            first_piece: *first_piece,
            bits: *bits,
        });
        let groups = compilation.groups.iter().map(|group| GroupRecord {
            signature: NameId(group.signature.0),
            flags: group.flags,
        });
        CompilationValue {
            header: CompilationHeader {
                wide_count: wide.len() as u32,
                shape_count: outline.shapes.len() as u32,
                piece_count: outline.pieces.len() as u32,
                ..prepare::header(compilation)
            },
            members: members.collect(),
            symbols,
            groups: groups.collect(),
            bindings: &compilation.bindings,
            wide,
            shapes: outline.shapes,
            sections: outline.sections,
            pieces: outline.pieces,
            uses: &compilation.uses,
        }
    }

    /// The value as it is recorded, with ids and addresses, in place of what is in `out`.
    pub(super) fn translate(&mut self, translation: Translation<'_>, out: &mut Vec<u8>) {
        for member in &mut self.members {
            member.fragment = translation.fragment(member.fragment);
            member.suffix = translation.name(member.suffix);
        }
        for symbol in &mut self.symbols {
            symbol.name = translation.name(symbol.name);
            if symbol.bits & SymbolRecord::PIECE != 0 {
                symbol.section = translation.piece(PieceId(symbol.section)).0;
            }
        }
        for group in &mut self.groups {
            group.signature = translation.name(group.signature);
        }
        for shape in &mut self.shapes {
            shape.name = translation.name(shape.name);
        }
        for piece in &mut self.pieces {
            *piece = translation.piece(*piece);
        }
        self.header.outline_crc = outline_crc([
            bytemuck::cast_slice(&self.members),
            bytemuck::cast_slice(&self.shapes),
            bytemuck::cast_slice(&self.sections),
            bytemuck::cast_slice(&self.pieces),
            self.uses,
        ]);
        out.clear();
        out.extend_from_slice(bytemuck::bytes_of(&self.header));
        let arrays: [&[u8]; 9] = [
            bytemuck::cast_slice(&self.members),
            bytemuck::cast_slice(&self.symbols),
            bytemuck::cast_slice(&self.groups),
            bytemuck::cast_slice(self.bindings),
            bytemuck::cast_slice(&self.wide),
            bytemuck::cast_slice(&self.shapes),
            bytemuck::cast_slice(&self.sections),
            bytemuck::cast_slice(&self.pieces),
            self.uses,
        ];
        for array in arrays {
            out.resize(out.len().next_multiple_of(8), 0);
            out.extend_from_slice(array);
        }
    }
}

fn record(symbol: &Symbol, wide: &mut Vec<u64>) -> SymbolRecord {
    let mut bits = symbol.bits;
    let section = match symbol.place {
        Place::Piece(piece) => {
            bits |= SymbolRecord::PIECE;
            piece
        }
        _ => symbol.section_field(),
    };
    let (value, size) = match (u32::try_from(symbol.value), u32::try_from(symbol.size)) {
        (Ok(value), Ok(size)) => (value, size),
        _ => {
            bits |= SymbolRecord::WIDE;
            wide.extend([symbol.value, symbol.size]);
            (wide.len() as u32 - 2, 0)
        }
    };
    SymbolRecord {
        name: NameId(symbol.name.0),
        section,
        value,
        size,
        info: symbol.info,
        other: symbol.other,
        bits,
    }
}

fn as_usize(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}
