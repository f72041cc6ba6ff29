//! Reading: views of records, borrowed from a snapshot's mapping.
//!
//! Making a view checks the record once: counts against the value's length, and
//! every range and index that its accessors use. After that, accessors cannot fail
//! and nothing is allocated or copied. What a view refers to by address or dense
//! id is another record, checked when that is opened.

use super::compilation_view::CompilationView;
use super::cutter::Cutter;
use super::fragment_view::{self, FragmentSection, FragmentView};
use super::{ProgramError, Result};
use crate::engine::{Error, Record, Snapshot};
use format_spec::digest::Digest;
use format_spec::fragment::TargetRecord;
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::program::{Index, NameHeader, PieceHeader, TicketHeader, Vector, name_key};

pub(super) const FRAGMENT: &str = "a fragment's bytes are not those that were written";
pub(super) const COMPILATION: &str = "a compilation's bytes are not those that were written";

/// The programs of a snapshot.
///
/// Names, pieces, fragments and compilations are compared with their records' checks when
/// they are opened, unless it says otherwise: damage of the disk is an error and never
/// somebody's program.
#[derive(Clone, Copy, Debug)]
pub struct Programs<'s> {
    snapshot: Snapshot<'s>,
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

    pub(super) fn damaged(&self, address: Address, what: &'static str) -> ProgramError {
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
    pub(super) fn whole(&self, record: Record<'s>, what: &'static str) -> Result<Record<'s>> {
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
        let value = match fragment_view::is_compressed(record.value) {
            false => record.value,
            true => self.plain_fragment(&record)?,
        };
        self.parse(&record, FragmentView::new(record, value), "not a fragment")
    }

    /// The targets of a fragment that are bound through the compilation: its first ones. Of its sections, compressed or not, only the
    /// bytes are looked at.
    ///
    /// # Errors
    /// If there is none, or the repository is damaged.
    pub fn bindable_targets(&self, address: Address) -> Result<&'s [TargetRecord]> {
        let record = self.whole(self.snapshot.record_at(address)?, FRAGMENT)?;
        let is_one = record.index() == Some(Index::Fragments.slot());
        let targets = fragment_view::bindable_targets(record.value).filter(|_| is_one);
        self.parse(&record, targets, "not a fragment")
    }

    /// The value that a fragment would have if none of its sections were recorded compressed. It is made once, and kept with the store.
    fn plain_fragment(&self, record: &Record<'s>) -> Result<&'s [u8]> {
        self.made(record, |programs| {
            programs.whole(*record, FRAGMENT)?;
            Ok(fragment_view::plain(record.value))
        })
    }

    /// Checks that a fragment's bytes are those that were written: for who opens only its
    /// sections ([`Programs::fragment_section`]), which do not. If its sections have [checks](super::SectionView::check) of their own,
    /// that is left to who copies them, and only the head is compared.
    ///
    /// # Errors
    /// If they are not, or there is none.
    #[inline]
    pub fn check_fragment(&self, address: Address) -> Result<()> {
        let record = self.snapshot.record_at(address)?;
        let has_checks = fragment_view::head_is_right(record.value);
        match has_checks.unwrap_or_else(|| record.is_whole()) {
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
        let section = self.fragment_section_as_stored(address, index)?;
        if section.section.compressed.is_none() {
            return Ok(section);
        }
        let record = self.snapshot.record_at(address)?;
        let plain = self.plain_fragment(&record)?;
        self.parse(
            &record,
            FragmentSection::new(plain, index),
            "not a fragment",
        )
    }

    /// The same for who only [copies](super::SectionView::copy) the section: if it is recorded compressed, it has neither bytes nor fixups before.
    ///
    /// # Errors
    /// As above.
    #[inline]
    pub fn fragment_section_as_stored(
        &self,
        address: Address,
        index: u32,
    ) -> Result<FragmentSection<'s>> {
        let record = self.snapshot.record_at(address)?;
        self.parse(
            &record,
            FragmentSection::new(record.value, index),
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
        let value = self.compilation_value(&record)?;
        self.parse(
            &record,
            CompilationView::cut(record, value),
            "not a compilation",
        )
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
