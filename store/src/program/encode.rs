//! The bytes of fragments and compilations, made before the write lock is taken.
//!
//! What a value refers to by id or address is known only under the lock. So it is made with the numbers that its compilation
//! gives to names, pieces and fragments, each in the place of the id or address that it stands for; under the lock they are
//! translated, which is one pass over the head of the value.
//!
//! A fragment's *body*, its fixups and bytes, has no ids: it is a part of what is digested as it is in the value. Whether fixups
//! are packed, and which sections have extensions, follows from the fragment alone, so that equal fragments are equal values.

use super::ProgramError;
use super::build::{Compilation, Fixups, Place, Section, Symbol, Target};
use super::columns::{compress, put_planes};
use super::compilation_view::{CompilationView, outline_crc};
use super::difference;
use super::outline::outline;
use crate::engine::{LARGEST_PACKED, Snapshot};
use format_spec::file::Features;
use format_spec::fragment::{
    BodyCheck, CHECKED_FROM, COMPRESSED_FROM, CompressedHeader, FIXUP_DIFFERENCES, FIXUP_WORDS,
    FixupRecord, FragmentHeader, HeadParts, PackedFixupRecord, Packing, SectionExtension,
    SectionKind, SectionRecord, TargetKind, TargetRecord, head_check,
};
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::outline::{PlacedSection, ShapeRecord};
use format_spec::program::{CompilationHeader, GroupRecord, MemberRecord, SymbolRecord};
use std::borrow::Cow;
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

/// How a fragment's value is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As it is read, and as its body is digested.
    Plain,
    /// With debug sections compressed, if that makes them smaller.
    Debug,
    /// With sections compressed, if that makes them smaller.
    Compressed,
    /// In packs: what is small enough for them as [`Form::Debug`], all else as [`Form::Compressed`], and the compilation, if it is that large, as
    /// well.
    Packed,
}

impl Form {
    /// Those of a fragment by itself.
    pub(super) const OF_FRAGMENTS: [Form; 3] = [Form::Plain, Form::Debug, Form::Compressed];

    /// In which form is recorded what is to be compressed, in a repository of this size. A small one is made as small as can be: its
    /// links take milliseconds in any case. In a large one what each full link reads is as it is read: of clang's, an eighth.
    pub(super) fn in_repository(size: u64) -> Form {
        match is_small(size) {
            true => Form::Packed,
            false => Form::Debug,
        }
    }

    /// In which form that is of a value that has so many bytes if it is not compressed.
    pub(super) fn of_value(self, size: usize) -> Form {
        match self {
            Form::Packed if size <= LARGEST_PACKED => Form::Debug,
            Form::Packed => Form::Compressed,
            form => form,
        }
    }
}

/// Whether a repository of so many bytes is small ([`Form::in_repository`]): what links decompress of it takes them some milliseconds.
pub(super) fn is_small(size: u64) -> bool {
    size < 32 << 20
}

/// Whether what is added to a repository is packed, whoever adds it: it is small, and what was compiled into it has been packed.
pub(super) fn packs(snapshot: &Snapshot<'_>) -> bool {
    let has_packs = snapshot.features().incompatible & Features::PACKS != 0;
    has_packs && is_small(snapshot.size())
}

/// Whether this form of a fragment can be another than the plain one.
pub(super) fn is_compressible(compilation: &Compilation<'_>, index: usize, form: Form) -> bool {
    let sections = &compilation.sections[as_usize(&compilation.fragments[index].sections)];
    let mut sections = sections.iter();
    sections.any(|section| section_is_compressible(section, form))
}

fn section_is_compressible(section: &Section<'_>, form: Form) -> bool {
    let from = match section.kind {
        SectionKind::Text => 2 * COMPRESSED_FROM,
        _ => COMPRESSED_FROM,
    };
    let is_of_form = match form {
        Form::Plain => false,
        Form::Debug => section.kind == SectionKind::Debug,
        Form::Compressed | Form::Packed => true,
    };
    is_of_form
        && SectionKind::may_be_compressed(section.kind as u8)
        && matches!(section.fixups, Fixups::Narrow(_))
        && section.bytes.len() >= from
}

/// Appends a fragment's value in the plain form to `out`, which must have a multiple of 8 bytes: the head, then the body, that is
/// the sections' bodies. Returns where the body begins in `out`.
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
    // As many bytes as its fixups and contents have in the form that needs most.
    let content = |section: &Section<'_>| {
        (compilation.fixup_bytes(section).len() + section.bytes.len()) as u64
    };
    let contents: u64 = sections.iter().map(content).sum();
    let most = contents
        + (size_of::<FragmentHeader>() + 16) as u64
        + (sections.len() * (size_of::<SectionRecord>() + size_of::<SectionExtension>() + 16))
            as u64
        + (targets.len() * (size_of::<TargetRecord>() + size_of::<Address>())) as u64;
    if most > u64::from(u32::MAX) || sections.len() > FragmentHeader::MAX_SECTIONS as usize {
        return Err(ProgramError::TooLarge(most));
    }
    let is_anonymous = |target: &&Target| matches!(target, Target::OwnAnonymous(_));
    let is_checked = contents >= CHECKED_FROM;
    let header = FragmentHeader {
        sections_and_bits: sections.len() as u32
            | if is_checked {
                FragmentHeader::CHECKED
            } else {
                0
            },
        anonymous_count: targets.iter().filter(is_anonymous).count() as u32,
        target_count: targets.len() as u32,
        bindable_count: fragment.bindings.len() as u32,
    };
    let parts = header.parts().ok_or(ProgramError::TooLarge(most))?;
    let start = out.len();
    out.reserve(most as usize);
    out.resize(start + parts.bodies, 0);
    let value = &mut out[start..];
    value[..size_of::<FragmentHeader>()].copy_from_slice(bytemuck::bytes_of(&header));
    put_targets(targets, &parts, value)?;
    let mut record_at = start + parts.sections.start;
    for section in sections {
        let record = put_section(compilation, section, &header, start, out);
        let place = &mut out[record_at..record_at + size_of::<SectionRecord>()];
        place.copy_from_slice(bytemuck::bytes_of(&record));
        record_at += size_of::<SectionRecord>();
    }
    debug_assert!((out.len() - start) as u64 <= most);
    Ok(start + parts.bodies)
}

/// Appends a fragment's value in a form to `out`, which must have a multiple of 8 bytes: made of its value in the plain form.
///
/// # Errors
/// [`ProgramError::Malformed`] if `plain` is not what [`fragment`] made of it.
pub(super) fn compressed_fragment(
    compilation: &Compilation<'_>,
    index: usize,
    (plain, form): (&[u8], Form),
    out: &mut Vec<u8>,
) -> Result<(), ProgramError> {
    let malformed = || ProgramError::malformed("a fragment's value is not that of the fragment");
    let header = plain.get(..size_of::<FragmentHeader>());
    let header: FragmentHeader = bytemuck::pod_read_unaligned(header.ok_or_else(malformed)?);
    let parts = header.parts().ok_or_else(malformed)?;
    let start = out.len();
    out.extend_from_slice(plain.get(..parts.bodies).ok_or_else(malformed)?);
    let sections = &compilation.sections[as_usize(&compilation.fragments[index].sections)];
    let mut record_at = parts.sections.start;
    for section in sections {
        let place = record_at..record_at + size_of::<SectionRecord>();
        record_at = place.end;
        let record = plain.get(place.clone()).ok_or_else(malformed)?;
        let mut record: SectionRecord = bytemuck::pod_read_unaligned(record);
        let fixups = match record.bits & SectionRecord::PACKED_FIXUPS {
            0 => compilation.fixup_bytes(section).len(),
            _ => record.fixup_count as usize * size_of::<PackedFixupRecord>(),
        };
        let (extension, align) = extension_and_align(record.bits);
        let size = extension + fixups + section.bytes.len();
        let body = plain.get(record.body as usize..).unwrap_or_default();
        let (extension, contents) = body.get(..size).ok_or_else(malformed)?.split_at(extension);
        out.resize(start + (out.len() - start).next_multiple_of(align), 0);
        let body = out.len();
        out.extend_from_slice(extension);
        match put_compressed(compilation, section, (contents.len(), form), out) {
            Some(bytes) => {
                record.bits |= SectionRecord::COMPRESSED;
                if !extension.is_empty() {
                    put_check(body, bytes, out);
                }
            }
            None => out.extend_from_slice(contents),
        }
        record.body = (body - start) as u32;
        let place = start + place.start..start + place.end;
        out[place].copy_from_slice(bytemuck::bytes_of(&record));
    }
    Ok(())
}

/// Bytes of the extension of a section whose record has these bits, and what its body's offset is a multiple of.
fn extension_and_align(bits: u8) -> (usize, usize) {
    match (
        bits & SectionRecord::EXTENDED,
        bits & SectionRecord::WIDE_FIXUPS,
    ) {
        (0, 0) => (0, 4),
        (0, _) => (0, 8),
        _ => (size_of::<SectionExtension>(), 8),
    }
}

/// Writes the targets and the addresses of anonymous fragments.
fn put_targets(
    targets: &[Target],
    parts: &HeadParts,
    value: &mut [u8],
) -> Result<(), ProgramError> {
    let (head, addresses) = value.split_at_mut(parts.anonymous.start);
    let mut addresses = addresses.chunks_exact_mut(size_of::<Address>());
    let mut next_anonymous = 0;
    let places = head[parts.targets.clone()].chunks_exact_mut(size_of::<TargetRecord>());
    for (target, place) in targets.iter().zip(places) {
        let number = match *target {
            Target::Global(name) | Target::Local(name) | Target::OwnNamed(name) => name.0,
            Target::OwnAnonymous(other) => {
                let address = Address(u64::from(other));
                if let Some(place) = addresses.next() {
                    place.copy_from_slice(bytemuck::bytes_of(&address));
                }
                next_anonymous += 1;
                next_anonymous - 1
            }
            Target::Section(number) | Target::Piece(number) => number,
        };
        place.copy_from_slice(bytemuck::bytes_of(&target_record(target.kind(), number)?));
    }
    Ok(())
}

fn target_record(kind: TargetKind, value: u32) -> Result<TargetRecord, ProgramError> {
    TargetRecord::new(kind, value).ok_or(ProgramError::TooManyIds)
}

/// Appends a section's body and returns its record.
fn put_section(
    compilation: &Compilation<'_>,
    section: &Section<'_>,
    header: &FragmentHeader,
    start: usize,
    out: &mut Vec<u8>,
) -> SectionRecord {
    let size = u32::try_from(section.size).ok();
    let is_extended =
        header.is_checked() || section.link != 0 || section.entsize != 0 || size.is_none();
    let is_wide = matches!(section.fixups, Fixups::Wide(_));
    let mut bits = section.bits;
    for (bit, is_set) in [
        (SectionRecord::WIDE_FIXUPS, is_wide),
        (SectionRecord::EXTENDED, is_extended),
    ] {
        bits |= if is_set { bit } else { 0 };
    }
    let (_, align) = extension_and_align(bits);
    let body = start + (out.len() - start).next_multiple_of(align);
    out.resize(body, 0);
    if is_extended {
        out.extend_from_slice(bytemuck::bytes_of(&SectionExtension {
            check: 0,
            link: section.link,
            size: section.size,
            entsize: section.entsize,
            reserved: 0,
        }));
    }
    let (fixup_count, packing) = match &section.fixups {
        Fixups::Narrow(range) => {
            let fixups = &compilation.fixups[as_usize(range)];
            let packing = put_narrow(fixups, &section.bytes, header.bindable_count, out);
            (fixups.len(), packing)
        }
        Fixups::Wide(range) => {
            out.extend_from_slice(compilation.fixup_bytes(section));
            out.extend_from_slice(&section.bytes);
            (range.len(), None)
        }
    };
    if is_extended {
        put_check(body, out.len() - section.bytes.len(), out);
    }
    if packing.is_some() {
        bits |= SectionRecord::PACKED_FIXUPS;
    }
    SectionRecord {
        size: if is_extended { 0 } else { size.unwrap_or(0) },
        name: NameId(section.name.0),
        sh_type: section.sh_type,
        sh_flags: section.sh_flags,
        fixup_count: fixup_count as u32,
        body: (body - start) as u32,
        kind: section.kind as u8,
        align_log2: section.align_log2,
        bits,
        target_bits: packing.map_or(0, |packing| packing.target_bits as u8),
    }
}

/// Writes the check of a section's body, which is the last that `out` has, from `body` on, with its bytes from `bytes` on.
fn put_check(body: usize, bytes: usize, out: &mut [u8]) {
    let check = BodyCheck::default()
        .part(&out[body + SectionExtension::UNCHECKED..bytes])
        .part(&out[bytes..])
        .value();
    out[body..body + SectionExtension::UNCHECKED].copy_from_slice(&check.to_le_bytes());
}

/// Appends a section's fixups and bytes compressed. Returns where the block of the bytes begins; `None`, and `out` is as it was, if that
/// would not save an eighth of the `plain` bytes that they have otherwise, or is not to be tried.
fn put_compressed(
    compilation: &Compilation<'_>,
    section: &Section<'_>,
    (plain, form): (usize, Form),
    out: &mut Vec<u8>,
) -> Option<usize> {
    let Fixups::Narrow(range) = &section.fixups else {
        return None;
    };
    if !section_is_compressible(section, form) {
        return None;
    }
    let start = out.len();
    let header_end = start + size_of::<CompressedHeader>();
    out.resize(header_end, 0);
    let of_fixups = match &compilation.fixups[as_usize(range)] {
        [] => 0,
        fixups => {
            let mut planes = Vec::with_capacity(size_of_val(fixups));
            let words = bytemuck::cast_slice(fixups);
            put_planes(words, FIXUP_WORDS, FIXUP_DIFFERENCES, &mut planes);
            compress(&planes, out)
        }
    };
    let of_bytes = compress(&section.bytes, out);
    let header = CompressedHeader {
        fixups: of_fixups as u32,
        bytes: of_bytes as u32,
    };
    out[start..header_end].copy_from_slice(bytemuck::bytes_of(&header));
    if out.len() - start > plain - plain / 8 {
        out.truncate(start);
        return None;
    }
    Some(out.len() - of_bytes)
}

/// Appends narrow fixups and the bytes they are about: packed, if there are some and they can be.
fn put_narrow(
    fixups: &[FixupRecord],
    bytes: &[u8],
    bindable_count: u32,
    out: &mut Vec<u8>,
) -> Option<Packing> {
    let packing = match fixups {
        [] => None,
        _ => Packing::of(fixups, bindable_count),
    };
    let at = out.len();
    if let Some(packing) = packing {
        let records = fixups.len() * size_of::<PackedFixupRecord>();
        out.resize(at + records, 0);
        out.extend_from_slice(bytes);
        let (records, words) = out[at..].split_at_mut(records);
        if packing.pack(fixups, records, words) {
            return Some(packing);
        }
        out.truncate(at);
    }
    out.extend_from_slice(bytemuck::cast_slice(fixups));
    out.extend_from_slice(bytes);
    None
}

/// Puts ids and addresses into a fragment's value that [`fragment`] made, and its head's check.
///
/// # Errors
/// [`ProgramError::Malformed`] if it is none; [`ProgramError::TooManyIds`].
pub(super) fn translate_fragment(
    value: &mut [u8],
    translation: Translation<'_>,
) -> Result<(), ProgramError> {
    let malformed = || ProgramError::malformed("a fragment's value is cut off");
    let head = value
        .get(..size_of::<FragmentHeader>())
        .ok_or_else(malformed)?;
    let header: FragmentHeader = bytemuck::pod_read_unaligned(head);
    let head = header.parts().ok_or_else(malformed)?;
    if value.len() < head.bodies {
        return Err(malformed());
    }
    for section in value[head.sections].chunks_exact_mut(size_of::<SectionRecord>()) {
        let name = offset_of!(SectionRecord, name);
        let place = &mut section[name..name + size_of::<NameId>()];
        let id: NameId = bytemuck::pod_read_unaligned(place);
        place.copy_from_slice(bytemuck::bytes_of(&translation.name(id)));
    }
    for place in value[head.targets].chunks_exact_mut(size_of::<TargetRecord>()) {
        let target: TargetRecord = bytemuck::pod_read_unaligned(place);
        let kind = target.kind().ok_or_else(malformed)?;
        let id = match kind {
            TargetKind::Global | TargetKind::Local | TargetKind::OwnNamed => {
                translation.name(NameId(target.value())).0
            }
            TargetKind::Piece => translation.piece(PieceId(target.value())).0,
            TargetKind::OwnAnonymous | TargetKind::Section => continue,
        };
        place.copy_from_slice(bytemuck::bytes_of(&target_record(kind, id)?));
    }
    for place in value[head.anonymous].chunks_exact_mut(size_of::<Address>()) {
        let number: Address = bytemuck::pod_read_unaligned(place);
        place.copy_from_slice(bytemuck::bytes_of(&translation.fragment(number)));
    }
    if let Some(at) = head.check {
        let check = head_check(&value[..at]);
        value[at..at + size_of::<u32>()].copy_from_slice(&check.to_le_bytes());
    }
    Ok(())
}

/// A compilation's header as it is recorded, without the numbers that depend on how it is recorded.
pub(super) fn compilation_header(compilation: &Compilation<'_>) -> CompilationHeader {
    CompilationHeader {
        member_count: compilation.fragments.len() as u32,
        section_count: compilation.sections.len() as u32,
        symbol_count: compilation.symbols.len() as u32,
        first_global: compilation.first_global,
        group_count: compilation.groups.len() as u32,
        binding_count: compilation.bindings.len() as u32,
        wide_count: 0,
        shape_count: 0,
        piece_count: 0,
        outline_crc: 0,
        reserved: 0,
        e_flags: compilation.e_flags,
        machine: compilation.machine,
        os_abi: compilation.os_abi,
        abi_version: compilation.abi_version,
        bits: compilation.bits,
    }
}

/// The arrays of a compilation's value, with the compilation's own numbers for ids and addresses.
pub(super) struct CompilationValue<'c> {
    header: CompilationHeader,
    members: Vec<MemberRecord>,
    symbols: Vec<SymbolRecord>,
    groups: Vec<GroupRecord>,
    bindings: Cow<'c, [u32]>,
    wide: Vec<u64>,
    shapes: Vec<ShapeRecord>,
    sections: Vec<PlacedSection>,
    pieces: Vec<PieceId>,
    uses: &'c [u8],
}

impl<'c> CompilationValue<'c> {
    /// Bytes of the value.
    pub(super) fn size(&self) -> usize {
        difference::value_size(&self.header).unwrap_or(usize::MAX)
    }

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
                ..compilation_header(compilation)
            },
            members: members.collect(),
            symbols,
            groups: groups.collect(),
            bindings: Cow::Borrowed(&compilation.bindings),
            wide,
            shapes: outline.shapes,
            sections: outline.sections,
            pieces: outline.pieces,
            uses: &compilation.uses,
        }
    }

    /// Those of a compilation in a repository, with that one's ids, but with the members' numbers for the addresses of fragments.
    pub(super) fn of_view(view: &CompilationView<'c>) -> CompilationValue<'c> {
        let members = (0..)
            .zip(view.members())
            .map(|(number, member)| MemberRecord {
                fragment: Address(number),
                ..*member
            });
        CompilationValue {
            header: *view.header(),
            members: members.collect(),
            symbols: view.symbols().to_vec(),
            groups: view.groups().to_vec(),
            bindings: view.bindings().iter().collect(),
            wide: view.wide().to_vec(),
            shapes: view.shapes().to_vec(),
            sections: view.sections().to_vec(),
            pieces: view.pieces().to_vec(),
            uses: view.uses(),
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
        let short: Vec<u16>;
        let bindings: &[u8] = match self.header.has_short_bindings() {
            true => {
                // Symbols have numbers below 2^16.
                short = self.bindings.iter().map(|symbol| *symbol as u16).collect();
                bytemuck::cast_slice(&short)
            }
            false => bytemuck::cast_slice(&self.bindings),
        };
        let arrays: [&[u8]; 9] = [
            bytemuck::cast_slice(&self.members),
            bytemuck::cast_slice(&self.symbols),
            bytemuck::cast_slice(&self.groups),
            bindings,
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
