//! Reading: views of records, borrowed from a snapshot's mapping.
//!
//! Making a view checks the record once: counts against the value's length, and
//! every range and index that its accessors use. After that, accessors cannot fail
//! and nothing is allocated or copied. What a view refers to by address or dense
//! id is another record, checked when that is opened.

use super::{ProgramError, Result};
use crate::engine::{Record, Snapshot};
use bytemuck::Pod;
use format_spec::digest::Digest;
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::outline::{PlacedSection, ShapeRecord};
use format_spec::program::{
    CompilationHeader, FixupRecord, FragmentHeader, GroupRecord, Index, MemberRecord, NameHeader,
    PieceHeader, SectionKind, SectionRecord, SymbolRecord, TargetKind, TargetRecord, TicketHeader,
    Vector, WideFixupRecord,
};
use std::ops::Range;

/// ELF's `SHT_NOBITS`: a section without bytes.
const SHT_NOBITS: u32 = 8;

const FRAGMENT: &str = "a fragment's bytes are not those that were written";
const COMPILATION: &str = "a compilation's bytes are not those that were written";

/// The programs of a snapshot.
///
/// Names, pieces, fragments and compilations are compared with their records' checks when
/// they are opened, unless it says otherwise: damage of the disk is an error and never
/// somebody's program.
#[derive(Clone, Copy, Debug)]
pub struct Programs<'s> {
    snapshot: Snapshot<'s>,
}

/// Cuts records off the front of a value.
pub(super) struct Cutter<'s> {
    value: &'s [u8],
    at: usize,
}

impl<'s> Cutter<'s> {
    pub(super) fn new(value: &'s [u8]) -> Self {
        Cutter { value, at: 0 }
    }

    /// `count` records, beginning at the next multiple of 8.
    pub(super) fn slice<T: Pod>(&mut self, count: usize) -> Option<&'s [T]> {
        let start = self.at.checked_next_multiple_of(8)?;
        let end = start.checked_add(count.checked_mul(size_of::<T>())?)?;
        let slice = bytemuck::try_cast_slice(self.value.get(start..end)?).ok()?;
        self.at = end;
        Some(slice)
    }

    pub(super) fn one<T: Pod>(&mut self) -> Option<&'s T> {
        self.slice(1)?.first()
    }

    pub(super) fn rest(&self) -> &'s [u8] {
        &self.value[self.at..]
    }
}

impl<'s> Programs<'s> {
    /// The programs of `snapshot`.
    pub fn new(snapshot: Snapshot<'s>) -> Programs<'s> {
        Programs { snapshot }
    }

    /// The snapshot.
    pub fn snapshot(&self) -> Snapshot<'s> {
        self.snapshot
    }

    fn damaged(&self, address: Address, what: &'static str) -> ProgramError {
        ProgramError::Damaged {
            path: self.snapshot.store().path().to_owned(),
            address,
            what,
        }
    }

    fn parse<T>(&self, record: &Record<'s>, view: Option<T>, what: &'static str) -> Result<T> {
        view.ok_or_else(|| self.damaged(record.address, what))
    }

    /// The record, if its bytes are those that were written.
    #[inline]
    fn whole(&self, record: Record<'s>, what: &'static str) -> Result<Record<'s>> {
        match record.is_whole() {
            true => Ok(record),
            false => Err(self.damaged(record.address, what)),
        }
    }

    /// Number of interned names; ids are below it.
    pub fn name_count(&self) -> u64 {
        self.snapshot.vector_len(Vector::Names.slot())
    }

    /// Number of pieces; ids are below it.
    pub fn piece_count(&self) -> u64 {
        self.snapshot.vector_len(Vector::Pieces.slot())
    }

    /// The bytes of an interned name.
    ///
    /// # Errors
    /// If there is no such name, or the repository is damaged.
    pub fn name(&self, id: NameId) -> Result<&'s [u8]> {
        let record = self.element(Vector::Names, id.0, "there is no name of this id")?;
        let record = self.whole(record, "a name's bytes are not those that were written")?;
        let (header, bytes) = self.parse(&record, name_parts(&record), "not a name")?;
        if header.id != id {
            return Err(self.damaged(record.address, "a name's id is not its place"));
        }
        Ok(bytes)
    }

    /// The id of a name, if it is interned.
    ///
    /// # Errors
    /// If the repository is damaged.
    pub fn find_name(&self, name: &[u8]) -> Result<Option<NameId>> {
        match self.snapshot.get(Index::Names.slot(), &Digest::of(name))? {
            None => Ok(None),
            Some(record) => {
                let (header, _) = self.parse(&record, name_parts(&record), "not a name")?;
                Ok(Some(header.id))
            }
        }
    }

    fn element(&self, vector: Vector, id: u32, what: &'static str) -> Result<Record<'s>> {
        match self.snapshot.vector_get(vector.slot(), id)? {
            Some(address) => Ok(self.snapshot.record_at(address)?),
            None => Err(self.damaged(Address(0), what)),
        }
    }

    /// A mergeable piece by its dense id.
    ///
    /// # Errors
    /// If there is no such piece, or the repository is damaged.
    pub fn piece(&self, id: PieceId) -> Result<PieceView<'s>> {
        let record = self.element(Vector::Pieces, id.0, "there is no piece of this id")?;
        let record = self.whole(record, "a piece's bytes are not those that were written")?;
        let view = self.parse(&record, PieceView::new(record), "not a piece")?;
        if view.header.id != id {
            return Err(self.damaged(record.address, "a piece's id is not its place"));
        }
        Ok(view)
    }

    /// A fragment by the address of its record.
    ///
    /// # Errors
    /// If there is none, or the repository is damaged.
    pub fn fragment(&self, address: Address) -> Result<FragmentView<'s>> {
        let record = self.whole(self.snapshot.record_at(address)?, FRAGMENT)?;
        self.parse(&record, FragmentView::new(record), "not a fragment")
    }

    /// Checks that a fragment's bytes are those that were written: for who opens only
    /// its sections ([`Programs::fragment_section`]), which do not.
    ///
    /// # Errors
    /// If they are not, or there is none.
    #[inline]
    pub fn check_fragment(&self, address: Address) -> Result<()> {
        self.whole(self.snapshot.record_at(address)?, FRAGMENT)?;
        Ok(())
    }

    /// Has the processor begin to fetch the record at `address`, which will be needed soon.
    #[inline]
    pub fn prefetch(&self, address: Address) {
        self.snapshot.prefetch(address);
    }

    /// A section of a fragment, opened without a look at the fragment's other parts, and without
    /// [checking its bytes](Programs::check_fragment).
    ///
    /// # Errors
    /// If there is none, or the repository is damaged.
    #[inline]
    pub fn fragment_section(&self, address: Address, index: u32) -> Result<FragmentSection<'s>> {
        let record = self.snapshot.record_at(address)?;
        self.parse(
            &record,
            FragmentSection::new(record, index),
            "not a fragment",
        )
    }

    /// A compilation by its digest.
    ///
    /// # Errors
    /// [`ProgramError::NoCompilation`] if there is none; or the repository is damaged.
    pub fn compilation(&self, digest: &Digest) -> Result<CompilationView<'s>> {
        match self.snapshot.get(Index::Compilations.slot(), digest)? {
            Some(record) => {
                let record = self.whole(record, COMPILATION)?;
                self.parse(&record, CompilationView::new(record), "not a compilation")
            }
            None => Err(ProgramError::NoCompilation {
                path: self.snapshot.store().path().to_owned(),
                digest: *digest,
            }),
        }
    }

    /// A compilation by its digest, of whose members, symbols and the rest only the bytes are checked: what they say of other
    /// elements may be wrong, if somebody made it so. For who looks at few of them, and checks what it uses; before it looks
    /// at all of them, [`CompilationView::is_sound`] says whether it may.
    ///
    /// # Errors
    /// As [`Programs::compilation`].
    pub fn compilation_unchecked(&self, digest: &Digest) -> Result<CompilationView<'s>> {
        match self.snapshot.get(Index::Compilations.slot(), digest)? {
            Some(record) => {
                let record = self.whole(record, COMPILATION)?;
                self.parse(&record, CompilationView::cut(record), "not a compilation")
            }
            None => self.compilation(digest),
        }
    }

    /// A compilation by the address of its record.
    ///
    /// # Errors
    /// If there is none, or the repository is damaged.
    pub fn compilation_at(&self, address: Address) -> Result<CompilationView<'s>> {
        let record = self.whole(self.snapshot.record_at(address)?, COMPILATION)?;
        self.parse(&record, CompilationView::new(record), "not a compilation")
    }

    /// The records of an index, in no particular order.
    pub fn records(&self, index: Index) -> impl Iterator<Item = Result<Record<'s>>> + use<'s> {
        self.snapshot
            .iter(index.slot())
            .map(|record| record.map_err(ProgramError::from))
    }

    /// A ticket's record taken apart.
    ///
    /// # Errors
    /// If it is none.
    pub fn ticket(&self, record: &Record<'s>) -> Result<TicketView<'s>> {
        let mut cutter = Cutter::new(record.value);
        let header = cutter.one::<TicketHeader>();
        self.parse(record, header, "not a ticket's record")
            .map(|header| TicketView {
                header,
                path: cutter.rest(),
            })
    }
}

fn name_parts<'s>(record: &Record<'s>) -> Option<(&'s NameHeader, &'s [u8])> {
    let mut cutter = Cutter::new(record.value);
    let header = cutter.one()?;
    Some((header, cutter.rest()))
}

pub(super) fn name_id(record: &Record<'_>) -> Option<NameId> {
    name_parts(record).map(|(header, _)| header.id)
}

pub(super) fn piece_id(record: &Record<'_>) -> Option<PieceId> {
    PieceView::new(*record).map(|view| view.header.id)
}

/// What the repository knows of a ticket file.
#[derive(Clone, Copy, Debug)]
pub struct TicketView<'s> {
    /// The record.
    pub header: &'s TicketHeader,
    /// The file's absolute path.
    pub path: &'s [u8],
}

/// A mergeable piece.
#[derive(Clone, Copy, Debug)]
pub struct PieceView<'s> {
    /// Its record.
    pub record: Record<'s>,
    /// The head of its value.
    pub header: &'s PieceHeader,
    /// Its bytes, with a string's terminator.
    pub bytes: &'s [u8],
}

impl<'s> PieceView<'s> {
    fn new(record: Record<'s>) -> Option<Self> {
        let mut cutter = Cutter::new(record.value);
        let header: &PieceHeader = cutter.one()?;
        let bytes = cutter.rest();
        let good = bytes.len() == header.size as usize
            && header.align_log2 < 64
            && header.reserved == [0; 3];
        good.then_some(PieceView {
            record,
            header,
            bytes,
        })
    }
}

/// The fixups of a section, in one of the two forms.
#[derive(Clone, Copy, Debug)]
pub enum FixupsView<'s> {
    /// The usual one.
    Narrow(&'s [FixupRecord]),
    /// For what does not fit.
    Wide(&'s [WideFixupRecord]),
}

impl<'s> FixupsView<'s> {
    /// Number of fixups.
    pub fn len(&self) -> usize {
        match self {
            FixupsView::Narrow(fixups) => fixups.len(),
            FixupsView::Wide(fixups) => fixups.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The fixups in the wide form, one by one.
    pub fn iter(self) -> impl Iterator<Item = WideFixupRecord> + use<'s> {
        let (narrow, wide) = match self {
            FixupsView::Narrow(fixups) => (fixups, &[][..]),
            FixupsView::Wide(fixups) => (&[][..], fixups),
        };
        narrow
            .iter()
            .map(|fixup| WideFixupRecord::from(*fixup))
            .chain(wide.iter().copied())
    }
}

/// A fragment.
#[derive(Clone, Copy, Debug)]
pub struct FragmentView<'s> {
    record: Record<'s>,
    header: &'s FragmentHeader,
    sections: &'s [SectionRecord],
    anonymous: &'s [Address],
    targets: &'s [TargetRecord],
}

impl<'s> FragmentView<'s> {
    /// Cuts the head of the value into its arrays.
    #[inline]
    fn cut(record: Record<'s>) -> Option<Self> {
        let mut cutter = Cutter::new(record.value);
        let header: &FragmentHeader = cutter.one()?;
        Some(FragmentView {
            record,
            header,
            sections: cutter.slice(header.section_count as usize)?,
            anonymous: cutter.slice(header.anonymous_count as usize)?,
            targets: cutter.slice(header.target_count as usize)?,
        })
    }

    /// The same, and checks what is in them.
    fn new(record: Record<'s>) -> Option<Self> {
        let view = FragmentView::cut(record)?;
        let FragmentView {
            header,
            sections,
            anonymous,
            targets,
            ..
        } = view;
        let (bindable, rest) = targets.split_at_checked(header.bindable_count as usize)?;
        let bindable_is_good = |target: &TargetRecord| match target_kind(target) {
            Some(TargetKind::OwnAnonymous) => (target.value as usize) < anonymous.len(),
            Some(kind) => !matches!(kind, TargetKind::Section | TargetKind::Piece),
            None => false,
        };
        let rest_is_good = |target: &TargetRecord| match target_kind(target) {
            Some(TargetKind::Section) => (target.value as usize) < sections.len(),
            Some(kind) => kind == TargetKind::Piece,
            None => false,
        };
        let section_is_good = |section: &SectionRecord| {
            section_kind(section).is_some()
                && section.align_log2 < 64
                && section.reserved == 0
                && section.reserved2 == 0
                && section.link as usize <= targets.len()
                && view.fixups_of(section).is_some()
                && view.bytes_of(section).is_some()
        };
        (bindable.iter().all(bindable_is_good)
            && rest.iter().all(rest_is_good)
            && sections.iter().all(section_is_good))
        .then_some(view)
    }

    fn bytes_of(&self, section: &SectionRecord) -> Option<&'s [u8]> {
        if section.sh_type == SHT_NOBITS {
            return Some(&[]);
        }
        let start = section.data as usize;
        let end = start.checked_add(usize::try_from(section.size).ok()?)?;
        self.record.value.get(start..end)
    }

    fn fixups_of(&self, section: &SectionRecord) -> Option<FixupsView<'s>> {
        fn slice<'v, T: Pod>(value: &'v [u8], section: &SectionRecord) -> Option<&'v [T]> {
            let start = section.fixups as usize;
            let size = (section.fixup_count as usize).checked_mul(size_of::<T>())?;
            bytemuck::try_cast_slice(value.get(start..start.checked_add(size)?)?).ok()
        }
        if section.bits & SectionRecord::WIDE_FIXUPS != 0 {
            slice(self.record.value, section).map(FixupsView::Wide)
        } else {
            slice(self.record.value, section).map(FixupsView::Narrow)
        }
    }

    /// Its body: the fixups of all sections, then the bytes of all sections. `None` if they are not where SPEC.md, section 18,
    /// has them.
    pub fn body(&self) -> Option<&'s [u8]> {
        let value = self.record.value;
        let head = size_of::<FragmentHeader>()
            + size_of_val(self.sections)
            + size_of_val(self.anonymous)
            + size_of_val(self.targets);
        let mut end = head;
        for section in self.sections {
            let fixup_size = match section.bits & SectionRecord::WIDE_FIXUPS {
                0 => size_of::<FixupRecord>(),
                _ => {
                    end = end.checked_next_multiple_of(8)?;
                    size_of::<WideFixupRecord>()
                }
            };
            if section.fixups as usize != end {
                return None;
            }
            end = end.checked_add((section.fixup_count as usize).checked_mul(fixup_size)?)?;
        }
        for section in self.sections {
            if section.data as usize != end {
                return None;
            }
            end = end.checked_add(self.bytes_of(section)?.len())?;
        }
        (end == value.len()).then(|| value.get(head..)).flatten()
    }

    /// Its record; the key is its digest.
    pub fn record(&self) -> Record<'s> {
        self.record
    }

    /// Its sections.
    pub fn sections(&self) -> &'s [SectionRecord] {
        self.sections
    }

    /// Its targets, the bindable ones first.
    pub fn targets(&self) -> &'s [TargetRecord] {
        self.targets
    }

    /// How many of the targets are bound through the compilation.
    pub fn bindable_count(&self) -> u32 {
        self.header.bindable_count
    }

    /// The addresses of the anonymous fragments that it refers to.
    pub fn anonymous(&self) -> &'s [Address] {
        self.anonymous
    }

    /// The bytes of one of its sections; none for `SHT_NOBITS`.
    pub fn bytes(&self, section: &SectionRecord) -> &'s [u8] {
        self.bytes_of(section).unwrap_or_default()
    }

    /// The fixups of one of its sections. Their targets are not checked: look
    /// them up with [`FragmentView::targets`]`.get(…)`.
    pub fn fixups(&self, section: &SectionRecord) -> FixupsView<'s> {
        self.fixups_of(section).unwrap_or(FixupsView::Narrow(&[]))
    }
}

/// One section of a fragment, and what its fixups refer to.
#[derive(Clone, Copy, Debug)]
pub struct FragmentSection<'s> {
    /// The section.
    pub record: &'s SectionRecord,
    /// Its bytes; none for `SHT_NOBITS`.
    pub bytes: &'s [u8],
    /// Its fixups. Their targets are not checked.
    pub fixups: FixupsView<'s>,
    /// The fragment's targets, the bindable ones first. Their kinds are not checked.
    pub targets: &'s [TargetRecord],
    /// How many of the targets are bound through the compilation.
    pub bindable_count: u32,
    /// How many sections the fragment has.
    pub section_count: u32,
}

impl<'s> FragmentSection<'s> {
    #[inline]
    fn new(record: Record<'s>, index: u32) -> Option<Self> {
        let view = FragmentView::cut(record)?;
        let header = view.header;
        let section = view.sections.get(index as usize)?;
        let is_good = header.bindable_count <= header.target_count && section.align_log2 < 64;
        is_good.then_some(FragmentSection {
            record: section,
            bytes: view.bytes_of(section)?,
            fixups: view.fixups_of(section)?,
            targets: view.targets,
            bindable_count: header.bindable_count,
            section_count: header.section_count,
        })
    }
}

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

/// The kind of a target, if it is one that is known.
pub fn target_kind(target: &TargetRecord) -> Option<TargetKind> {
    use TargetKind::*;
    [Global, Local, OwnNamed, OwnAnonymous, Section, Piece]
        .get(target.kind as usize)
        .copied()
}

/// The kind of a section, if it is one that is known.
pub fn section_kind(section: &SectionRecord) -> Option<SectionKind> {
    use SectionKind::*;
    [
        Text,
        Data,
        Bss,
        ReadOnly,
        ThreadData,
        ThreadBss,
        Unwind,
        ExceptionTable,
        Debug,
        InitArray,
        Other,
    ]
    .get(section.kind as usize)
    .copied()
}

/// A compilation.
#[derive(Clone, Copy, Debug)]
pub struct CompilationView<'s> {
    record: Record<'s>,
    header: &'s CompilationHeader,
    members: &'s [MemberRecord],
    symbols: &'s [SymbolRecord],
    groups: &'s [GroupRecord],
    bindings: &'s [u32],
    wide: &'s [u64],
    shapes: &'s [ShapeRecord],
    sections: &'s [PlacedSection],
    pieces: &'s [PieceId],
    uses: &'s [u8],
}

impl<'s> CompilationView<'s> {
    /// Cuts the value into its arrays, and checks what is in them.
    fn new(record: Record<'s>) -> Option<Self> {
        CompilationView::cut(record).filter(CompilationView::is_good)
    }

    /// Cuts the value into its arrays.
    fn cut(record: Record<'s>) -> Option<Self> {
        let mut cutter = Cutter::new(record.value);
        let header: &CompilationHeader = cutter.one()?;
        Some(CompilationView {
            record,
            header,
            members: cutter.slice(header.member_count as usize)?,
            symbols: cutter.slice(header.symbol_count as usize)?,
            groups: cutter.slice(header.group_count as usize)?,
            bindings: cutter.slice(header.binding_count as usize)?,
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
                    (member, last, room) = (index, share.end, end.0 - record.fragment.0);
                }
                let Some(shape) = self.shapes.get(section.shape as usize) else {
                    return false;
                };
                // What has no bytes takes no room, and the size that does not fit is the fragment's.
                let is_stored = shape.sh_type != SHT_NOBITS;
                let size = u64::from(section.size) * u64::from(is_stored);
                let fits = size <= room;
                room = room.saturating_sub(size);
                fits && number < last
                    && section.cie < header.section_count
                    && section.align_log2 < 64
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
                .all(|symbol| *symbol < header.symbol_count)
    }

    /// Its record; the key is its digest.
    pub fn record(&self) -> Record<'s> {
        self.record
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
    pub fn bindings_of(&self, member: usize) -> &'s [u32] {
        let share = self.share(member, self.bindings.len() as u32, |m| m.first_binding);
        self.bindings.get(as_usize(share)).unwrap_or_default()
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
