//! Reading: views of records, borrowed from a snapshot's mapping.
//!
//! Making a view checks the record once: counts against the value's length, and
//! every range and index that its accessors use. After that, accessors cannot fail
//! and nothing is allocated or copied. What a view refers to by address or dense
//! id is another record, checked when that is opened.

use super::{ProgramError, Result, difference};
use crate::engine::{Error, Record, Snapshot};
use crate::prefetch::prefetch_all;
use bytemuck::{Pod, Zeroable};
use format_spec::digest::Digest;
use format_spec::fragment::{
    BodyCheck, FixupRecord, FragmentHeader, PackedFixupRecord, Packing, SectionExtension,
    SectionKind, SectionRecord, TargetKind, TargetRecord, WideFixupRecord, clear_places,
    head_check,
};
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::outline::{PlacedSection, ShapeRecord};
use format_spec::program::{
    CompilationHeader, GroupRecord, Index, MemberRecord, NameHeader, PieceHeader, SymbolRecord,
    TicketHeader, Vector, name_key,
};
use std::borrow::Cow;
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
        match self.name_record(name)? {
            None => Ok(None),
            Some(record) => {
                let (header, _) = self.parse(&record, name_parts(&record), "not a name")?;
                Ok(Some(header.id))
            }
        }
    }

    fn name_record(&self, name: &[u8]) -> crate::engine::Result<Option<Record<'s>>> {
        let key = name_key(&self.snapshot.store().uuid(), name);
        let is_it = |record: &Record<'_>| is_name(record, name);
        self.snapshot.find(Index::Names.slot(), &key, is_it)
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

    /// Checks that a fragment's bytes are those that were written: for who opens only its
    /// sections ([`Programs::fragment_section`]), which do not. If its sections have [checks](SectionView::check) of their own,
    /// that is left to who copies them, and only the head is compared.
    ///
    /// # Errors
    /// If they are not, or there is none.
    #[inline]
    pub fn check_fragment(&self, address: Address) -> Result<()> {
        let record = self.snapshot.record_at(address)?;
        let checked = FragmentView::cut(record).and_then(|view| view.check);
        let is_right = match checked {
            None => record.is_whole(),
            Some(at) => {
                let (head, rest) = record.value.split_at_checked(at).unwrap_or_default();
                rest.starts_with(&head_check(head).to_le_bytes())
            }
        };
        match is_right {
            true => Ok(()),
            false => Err(self.damaged(record.address, FRAGMENT)),
        }
    }

    /// That a fragment's section does not have its check.
    pub fn damaged_section(&self, address: Address) -> ProgramError {
        self.damaged(address, FRAGMENT)
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
                let view = self.cut_compilation(record)?;
                self.parse(&record, view.checked(), "not a compilation")
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
            Some(record) => self.cut_compilation(record),
            None => self.compilation(digest),
        }
    }

    /// A compilation by the address of its record.
    ///
    /// # Errors
    /// If there is none, or the repository is damaged.
    pub fn compilation_at(&self, address: Address) -> Result<CompilationView<'s>> {
        let record = self.snapshot.record_at(address)?;
        let view = self.cut_compilation(record)?;
        self.parse(&record, view.checked(), "not a compilation")
    }

    /// A compilation whose arrays' elements are not looked at.
    #[inline]
    fn cut_compilation(&self, record: Record<'s>) -> Result<CompilationView<'s>> {
        let record = self.whole(record, COMPILATION)?;
        let value = match difference::header(record.value) {
            None => record.value,
            Some(header) => self.made_of_difference(&record, header.base)?,
        };
        self.parse(
            &record,
            CompilationView::cut(record, value),
            "not a compilation",
        )
    }

    /// The value of a compilation that is recorded as a difference to `base`. It is made once, and kept with the store.
    fn made_of_difference(&self, record: &Record<'s>, base: Address) -> Result<&'s [u8]> {
        let store = self.snapshot.store();
        let bytes = |made: &'s [u64]| bytemuck::cast_slice(made);
        if let Some(made) = store.kept(record.address) {
            return Ok(bytes(made));
        }
        let base = self.base(record, base)?;
        let made = difference::apply(base.value, record.value);
        let what = "a compilation is recorded as a difference that does not fit its base";
        let made = self.parse(record, made, what)?;
        Ok(bytes(store.keep(record.address, made)))
    }

    /// The base of the difference that `record` is.
    fn base(&self, record: &Record<'s>, base: Address) -> Result<Record<'s>> {
        if base >= record.address {
            let what = "a compilation is recorded as a difference to what is not before it";
            return Err(self.damaged(record.address, what));
        }
        self.whole_compilation(base).map_err(|why| match why {
            ProgramError::Damaged { .. } | ProgramError::Engine(Error::Damaged { .. }) => {
                let what = "a compilation is recorded as a difference to one that is damaged: build it again, or let \
                            repo-dump --verify --repair drop it";
                self.damaged(record.address, what)
            }
            other => other,
        })
    }

    /// The record of a compilation that is recorded whole.
    fn whole_compilation(&self, address: Address) -> Result<Record<'s>> {
        let record = self.whole(self.snapshot.record_at(address)?, COMPILATION)?;
        let is_one = record.index() == Some(Index::Compilations.slot())
            && difference::header(record.value).is_none();
        match is_one {
            true => Ok(record),
            false => Err(self.damaged(address, "not a compilation that is recorded whole")),
        }
    }

    /// To what a writer may record a compilation as a difference, if its predecessor is at `address`: that one, or its base. `None`
    /// if there is nothing that can be relied on.
    pub(super) fn base_for_successor(&self, address: Address) -> Option<Record<'s>> {
        let record = self.snapshot.record_at(address).ok()?;
        let base = difference::header(record.value).map_or(address, |header| header.base);
        self.whole_compilation(base).ok()
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

/// What was found if it is whole. With the lock, what is not is mended, or it is said.
pub(super) fn whole_or_none<'s>(
    found: crate::engine::Result<Option<Record<'s>>>,
) -> Result<Option<Record<'s>>> {
    match found {
        Ok(found) => Ok(found.filter(Record::is_whole)),
        Err(Error::Damaged { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether something could be opened: not if what it is made of is damaged.
pub(super) fn is_there<T>(opened: Result<T>) -> Result<bool> {
    match opened {
        Ok(_) => Ok(true),
        Err(ProgramError::Damaged { .. } | ProgramError::Engine(Error::Damaged { .. })) => {
            Ok(false)
        }
        Err(error) => Err(error),
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

/// Whether a record is that of the name `bytes`.
#[inline]
pub(super) fn is_name(record: &Record<'_>, bytes: &[u8]) -> bool {
    record.value.get(size_of::<NameHeader>()..) == Some(bytes)
}

pub(super) fn piece_id(record: &Record<'_>) -> Option<PieceId> {
    PieceView::new(*record).map(|view| view.header.id)
}

/// Whether a record is that of the piece of this header, but for the id in it, with these bytes.
#[inline]
pub(super) fn is_piece(record: &Record<'_>, header: &PieceHeader, bytes: &[u8]) -> bool {
    PieceView::new(*record).is_some_and(|view| {
        let same = PieceHeader {
            id: view.header.id,
            ..*header
        };
        bytemuck::bytes_of(&same) == bytemuck::bytes_of(view.header) && view.bytes == bytes
    })
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
        let good = header.align_log2 < 64 && header.reserved == 0;
        good.then_some(PieceView {
            record,
            header,
            bytes,
        })
    }
}

/// The fixups of a section whose places hold their words.
#[derive(Clone, Copy, Debug)]
pub struct PackedFixups<'s> {
    /// Their places and types.
    pub records: &'s [PackedFixupRecord],
    /// The section's bytes, with the words.
    bytes: &'s [u8],
    packing: Packing,
}

impl PackedFixups<'_> {
    /// The fixup of a record. One whose place is not in the section has no target, and no target has its place.
    #[inline(always)]
    pub fn unpack(&self, record: PackedFixupRecord) -> FixupRecord {
        let at = record.offset() as usize;
        let word = self.bytes.get(at..at + size_of::<u32>());
        let word = word.map_or(u32::MAX >> 1, |word| {
            u32::from_le_bytes([word[0], word[1], word[2], word[3]])
        });
        self.packing.unpack(record, word)
    }

    /// Puts the fixups of `records` whose places are in `bytes`, which is the beginning of a copy of the section's, up to the first
    /// that is not, into `unpacked`, which must have room for all, and zeros into their places. Returns how many they are.
    #[inline]
    fn take(
        &self,
        records: &[PackedFixupRecord],
        bytes: &mut [u8],
        unpacked: &mut [FixupRecord],
    ) -> usize {
        let packing = self.packing;
        for (index, (record, to)) in records.iter().zip(unpacked).enumerate() {
            let at = record.offset() as usize;
            let place = bytes.get_mut(at..at + size_of::<u32>());
            let Some(place) = place.and_then(|place| place.first_chunk_mut()) else {
                return index;
            };
            *to = packing.unpack(*record, u32::from_le_bytes(std::mem::take(place)));
        }
        records.len()
    }

    /// None.
    const NONE: PackedFixups<'static> = PackedFixups {
        records: &[],
        bytes: &[],
        packing: Packing {
            target_bits: 1,
            bindable_count: 0,
        },
    };
}

/// The fixups of a section, in one of the three forms.
#[derive(Clone, Copy, Debug)]
pub enum FixupsView<'s> {
    /// The usual one.
    Packed(PackedFixups<'s>),
    /// For what cannot be packed.
    Narrow(&'s [FixupRecord]),
    /// For what does not fit.
    Wide(&'s [WideFixupRecord]),
}

impl<'s> FixupsView<'s> {
    /// Number of fixups.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            FixupsView::Packed(fixups) => fixups.records.len(),
            FixupsView::Narrow(fixups) => fixups.len(),
            FixupsView::Wide(fixups) => fixups.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those from `start` up to `end`, as far as there are so many.
    pub fn slice(&self, start: usize, end: usize) -> FixupsView<'s> {
        let end = end.min(self.len());
        let range = start.min(end)..end;
        match self {
            FixupsView::Packed(fixups) => FixupsView::Packed(PackedFixups {
                records: &fixups.records[range],
                ..*fixups
            }),
            FixupsView::Narrow(fixups) => FixupsView::Narrow(&fixups[range]),
            FixupsView::Wide(fixups) => FixupsView::Wide(&fixups[range]),
        }
    }

    /// A fixup in the wide form.
    #[inline]
    pub fn get(&self, index: usize) -> Option<WideFixupRecord> {
        match self {
            FixupsView::Packed(fixups) => {
                let record = fixups.records.get(index)?;
                Some(fixups.unpack(*record).into())
            }
            FixupsView::Narrow(fixups) => fixups.get(index).map(|fixup| (*fixup).into()),
            FixupsView::Wide(fixups) => fixups.get(index).copied(),
        }
    }

    /// The fixups in the wide form, one by one.
    pub fn iter(self) -> impl Iterator<Item = WideFixupRecord> + use<'s> {
        (0..self.len()).filter_map(move |index| self.get(index))
    }
}

/// A section of a fragment, opened.
#[derive(Clone, Copy, Debug)]
pub struct SectionView<'s> {
    /// What is said of it in the fragment's head.
    pub record: &'s SectionRecord,
    /// Size in memory, bytes.
    pub size: u64,
    /// As [`SectionExtension::entsize`].
    pub entsize: u32,
    /// As [`SectionExtension::link`].
    pub link: u32,
    /// Its fixups. Their targets are not checked: look them up with [`FragmentView::targets`]`.get(…)`.
    pub fixups: FixupsView<'s>,
    /// The bytes as they are stored; none for `SHT_NOBITS`. With packed fixups they are not the section's:
    /// see [`SectionView::bytes`].
    pub stored: &'s [u8],
    /// If it has a check of its own: that.
    pub check: Option<SectionCheck<'s>>,
}

/// A section's check, and what it is about.
#[derive(Clone, Copy, Debug)]
pub struct SectionCheck<'s> {
    /// [`BodyCheck`] of what follows.
    pub check: u32,
    /// What stands before the stored bytes.
    pub before: &'s [u8],
    /// The stored bytes.
    pub stored: &'s [u8],
}

impl SectionCheck<'_> {
    /// Whether the bytes are those that were written.
    pub fn is_right(&self) -> bool {
        let check = BodyCheck::default().part(self.before).part(self.stored);
        self.check == check.value()
    }
}

impl<'s> SectionView<'s> {
    /// Opens what `record` says of a fragment's value.
    #[inline]
    fn new(value: &'s [u8], record: &'s SectionRecord, bindable_count: u32) -> Option<Self> {
        let body = value.get(record.body as usize..)?;
        let (extension, content) = match record.bits & SectionRecord::EXTENDED {
            0 => (None, body),
            _ => {
                let (extension, content) = body.split_at_checked(size_of::<SectionExtension>())?;
                let extension: &SectionExtension = bytemuck::try_from_bytes(extension).ok()?;
                (Some(extension), content)
            }
        };
        let size = extension.map_or(u64::from(record.size), |extension| extension.size);
        let count = record.fixup_count as usize;
        let forms = SectionRecord::PACKED_FIXUPS | SectionRecord::WIDE_FIXUPS;
        let fixup_size = match record.bits & forms {
            SectionRecord::PACKED_FIXUPS => size_of::<PackedFixupRecord>(),
            SectionRecord::WIDE_FIXUPS => size_of::<WideFixupRecord>(),
            _ => size_of::<FixupRecord>(),
        };
        let (fixups, rest) = content.split_at_checked(count.checked_mul(fixup_size)?)?;
        let stored = match record.sh_type {
            SHT_NOBITS => &[],
            _ => rest.get(..usize::try_from(size).ok()?)?,
        };
        let fixups = match record.bits & forms {
            SectionRecord::PACKED_FIXUPS => FixupsView::Packed(PackedFixups {
                records: bytemuck::try_cast_slice(fixups).ok()?,
                bytes: stored,
                packing: Packing {
                    target_bits: u32::from(record.target_bits).clamp(1, 24),
                    bindable_count,
                },
            }),
            SectionRecord::WIDE_FIXUPS => FixupsView::Wide(bytemuck::try_cast_slice(fixups).ok()?),
            _ => FixupsView::Narrow(bytemuck::try_cast_slice(fixups).ok()?),
        };
        let checked = |extension: &SectionExtension| SectionCheck {
            check: extension.check,
            before: &body[SectionExtension::UNCHECKED..body.len() - rest.len()],
            stored,
        };
        Some(SectionView {
            record,
            size,
            entsize: extension.map_or(0, |extension| extension.entsize),
            link: extension.map_or(0, |extension| extension.link),
            fixups,
            stored,
            check: extension.map(checked),
        })
    }

    /// Whether its record is one that a writer makes. The targets of its fixups are not looked at.
    fn is_good(&self, targets: usize) -> bool {
        let SectionRecord {
            bits, target_bits, ..
        } = *self.record;
        let forms = SectionRecord::PACKED_FIXUPS | SectionRecord::WIDE_FIXUPS;
        let is_packed = bits & SectionRecord::PACKED_FIXUPS != 0;
        section_kind(self.record).is_some()
            && self.record.align_log2 < 64
            && self.link as usize <= targets
            && bits & forms != forms
            && is_packed == (1..=24).contains(&target_bits)
            && (is_packed || target_bits == 0)
    }

    /// Its bytes; none for `SHT_NOBITS`.
    pub fn bytes(&self) -> Cow<'s, [u8]> {
        match self.fixups {
            FixupsView::Packed(fixups) if !fixups.records.is_empty() => {
                let mut bytes = self.stored.to_vec();
                clear_places(fixups.records, &mut bytes);
                Cow::Owned(bytes)
            }
            _ => Cow::Borrowed(self.stored),
        }
    }

    /// Copies its bytes to `out`, which must have as many, and returns its fixups: packed ones from `room`, where they are put;
    /// what it had before is of no matter. With `compares`, compares the bytes with the section's check, if it has
    /// one; the second result is whether it is right. All is done in one go over the bytes, so that the memory is waited for
    /// once.
    ///
    /// # Panics
    /// If `out` has not as many bytes as are stored.
    pub fn copy<'u>(
        &self,
        out: &mut [u8],
        room: &'u mut Vec<FixupRecord>,
        compares: bool,
    ) -> (FixupsView<'u>, bool)
    where
        's: 'u,
    {
        assert_eq!(out.len(), self.stored.len());
        let check = self.check.filter(|_| compares);
        let mut made = BodyCheck::default();
        if let Some(check) = check {
            made = made.part(check.before);
        }
        let packed = match self.fixups {
            FixupsView::Packed(fixups) => fixups,
            _ => PackedFixups::NONE,
        };
        let count = packed.records.len();
        if room.len() < count {
            room.resize(count, FixupRecord::zeroed());
        }
        let mut unpacked = 0;
        let mut end = 0;
        let mut blocks = self.stored.chunks(BodyCheck::BLOCK).peekable();
        while let Some(from) = blocks.next() {
            if let Some(next) = blocks.peek() {
                prefetch_all(next);
            }
            let start = end;
            end += from.len();
            out[start..end].copy_from_slice(from);
            if check.is_some() {
                // The copy, which is in the processor's first cache: it waited for memory on both sides at once.
                made.block(&out[start..end]);
            }
            unpacked += packed.take(
                &packed.records[unpacked..],
                &mut out[..end],
                &mut room[unpacked..count],
            );
        }
        for (record, place) in packed.records.iter().zip(&mut room[..count]).skip(unpacked) {
            // Its place is not in the section.
            *place = packed.unpack(*record);
        }
        let fixups = match self.fixups {
            FixupsView::Packed(_) => FixupsView::Narrow(&room[..count]),
            fixups => fixups,
        };
        let is_right = check.is_none_or(|check| check.check == made.value());
        (fixups, is_right)
    }

    /// Bytes of its extension and of its fixups.
    pub fn fixup_bytes(&self) -> usize {
        let extension = match self.record.bits & SectionRecord::EXTENDED {
            0 => 0,
            _ => size_of::<SectionExtension>(),
        };
        extension
            + match self.fixups {
                FixupsView::Packed(fixups) => size_of_val(fixups.records),
                FixupsView::Narrow(fixups) => size_of_val(fixups),
                FixupsView::Wide(fixups) => size_of_val(fixups),
            }
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
    /// If the head has a check of its own: where.
    check: Option<usize>,
    /// Where the bodies begin.
    bodies: usize,
}

impl<'s> FragmentView<'s> {
    /// Cuts the head of the value into its arrays.
    #[inline]
    fn cut(record: Record<'s>) -> Option<Self> {
        let value = record.value;
        let header = value.get(..size_of::<FragmentHeader>())?;
        let header: &FragmentHeader = bytemuck::try_from_bytes(header).ok()?;
        let parts = header.parts()?;
        if value.len() < parts.bodies {
            return None;
        }
        Some(FragmentView {
            record,
            header,
            sections: bytemuck::try_cast_slice(value.get(parts.sections)?).ok()?,
            anonymous: match header.anonymous_count {
                // Where nothing is, nothing is aligned.
                0 => &[],
                _ => bytemuck::try_cast_slice(value.get(parts.anonymous)?).ok()?,
            },
            targets: bytemuck::try_cast_slice(value.get(parts.targets)?).ok()?,
            check: parts.check,
            bodies: parts.bodies,
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
        let bindable_is_good = |target: &TargetRecord| match target.kind() {
            Some(TargetKind::OwnAnonymous) => (target.value() as usize) < anonymous.len(),
            Some(kind) => !matches!(kind, TargetKind::Section | TargetKind::Piece),
            None => false,
        };
        let rest_is_good = |target: &TargetRecord| match target.kind() {
            Some(TargetKind::Section) => (target.value() as usize) < sections.len(),
            Some(kind) => kind == TargetKind::Piece,
            None => false,
        };
        let section_is_good = |record: &SectionRecord| {
            view.open(record)
                .is_some_and(|section| section.is_good(targets.len()))
        };
        (bindable.iter().all(bindable_is_good)
            && rest.iter().all(rest_is_good)
            && sections.iter().all(section_is_good))
        .then_some(view)
    }

    #[inline]
    fn open(&self, record: &'s SectionRecord) -> Option<SectionView<'s>> {
        SectionView::new(self.record.value, record, self.header.bindable_count)
    }

    /// Its body: all behind the head. `None` if sections are not where SPEC.md, section 18, has them, or if they or the head
    /// do not have their checks.
    pub fn body(&self) -> Option<&'s [u8]> {
        let value = self.record.value;
        if let Some(at) = self.check {
            let check = value.get(at..self.bodies)?;
            if check != head_check(&value[..at]).to_le_bytes() {
                return None;
            }
        }
        let mut end = self.bodies;
        for section in self.sections() {
            let aligned = SectionRecord::EXTENDED | SectionRecord::WIDE_FIXUPS;
            let align = match section.record.bits & aligned {
                0 => 4,
                _ => 8,
            };
            end = end.checked_next_multiple_of(align)?;
            let is_right = section.check.is_none_or(|check| check.is_right());
            if section.record.body as usize != end || !is_right {
                return None;
            }
            end = end.checked_add(section.fixup_bytes() + section.stored.len())?;
        }
        (end == value.len())
            .then(|| value.get(self.bodies..))
            .flatten()
    }

    /// Its record; the key is its digest.
    pub fn record(&self) -> Record<'s> {
        self.record
    }

    /// One of its sections.
    pub fn section(&self, index: u32) -> Option<SectionView<'s>> {
        self.sections
            .get(index as usize)
            .and_then(|record| self.open(record))
    }

    /// Number of its sections.
    pub fn section_count(&self) -> usize {
        self.sections.len()
    }

    /// Its sections.
    pub fn sections(&self) -> impl Iterator<Item = SectionView<'s>> + use<'s> {
        let view = *self;
        // All could be opened when the view was made.
        view.sections
            .iter()
            .filter_map(move |record| view.open(record))
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
}

/// One section of a fragment, and what its fixups refer to.
#[derive(Clone, Copy, Debug)]
pub struct FragmentSection<'s> {
    /// The section.
    pub section: SectionView<'s>,
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
            section: view.open(section)?,
            targets: view.targets,
            bindable_count: header.bindable_count,
            section_count: header.section_count(),
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
    fn checked(self) -> Option<Self> {
        Some(self).filter(CompilationView::is_good)
    }

    /// Cuts the value into its arrays: the record's, or what that is a difference of.
    fn cut(record: Record<'s>, value: &'s [u8]) -> Option<Self> {
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
                    (member, last, room) = (index, share.end, end.0 - record.fragment.0);
                }
                let Some(shape) = self.shapes.get(section.shape() as usize) else {
                    return false;
                };
                // What has no bytes takes no room, and the size that does not fit is the fragment's.
                let is_stored = shape.sh_type != SHT_NOBITS;
                let size = u64::from(section.size) * u64::from(is_stored);
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
