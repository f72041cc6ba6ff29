//! Adding compilations.
//!
//! Without the lock: digests and values ([`Prepared`]), and a first look-up, of the compilation, and if it is not there, of its
//! names, pieces and fragments. With the lock: what was missing is inserted, unless another process has been faster (what was absent for
//! certain in the very revision that the transaction builds on is not looked up again); where it
//! refers to others by ids and addresses, these are put into the prepared value first. Names come first, then pieces, then
//! fragments in the order in which they depend on each other, then the compilation. A compilation that is there already
//! takes no lock.
//!
//! Nobody waits long for the lock: what is much is added in several transactions ([`Budget`]). What an earlier one of these added
//! refers to nothing later, and nobody refers to it yet, so that to be killed between them costs room and no more.
//!
//! What is there is only believed to be there if its bytes are those that were written. A record that the disk has damaged
//! is mended ([`Adder::mend`]): whoever adds it has the right bytes at hand.

use super::build::Piece;
use super::encode::Form;
use super::encode::{self, CompilationValue, Translation};
use super::look::{Look, Numbers, look};
use super::prepare::Prepared;
use super::view::{self, Programs};
use super::{ProgramError, Result, difference, recorded};
use crate::engine::{Durability, Error, Known, Reader, Record, Snapshot, Store, Transaction};
use format_spec::digest::Digest;
use format_spec::file::NumberedSlot;
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::program::{
    Index, NameHeader, PieceHeader, TicketHeader, Vector, name_key, piece_key,
};
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A compilation to be added.
pub struct Addition<'p, 'a> {
    /// The compilation.
    pub prepared: &'p Prepared<'a>,
    /// The absolute path of the ticket file that will name it, if there is to be one.
    pub ticket: Option<&'p Path>,
}

/// What adding a compilation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// The compilation's digest.
    pub digest: Option<Digest>,
    /// Where it is.
    pub address: Address,
    /// Whether it was not there before.
    pub is_new: bool,
    /// Fragments that were not there before.
    pub new_fragments: u32,
    /// Fragments that were.
    pub shared_fragments: u32,
    /// Pieces that were not there before.
    pub new_pieces: u32,
    /// Pieces that were.
    pub shared_pieces: u32,
    /// Names that were not there before.
    pub new_names: u32,
    /// Bytes of all values that were added.
    pub new_bytes: u64,
}

/// How much one transaction adds before it makes room for other writers.
struct Budget {
    records: usize,
    bytes: usize,
}

impl Budget {
    /// What takes about half a millisecond.
    fn new() -> Budget {
        Budget {
            records: 500,
            bytes: 1 << 18,
        }
    }

    /// Whether there is something left after a record of `size` bytes.
    fn spend(&mut self, size: usize) -> bool {
        self.records = self.records.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size);
        self.records > 0 && self.bytes > 0
    }
}

/// What is known of a compilation that is being added.
enum State<'p> {
    /// It is there.
    There(Address),
    /// It was not when it was looked up.
    Missing(Box<Missing<'p>>),
}

/// A compilation that is being added, and how far that has come.
struct Missing<'p> {
    /// It is there, but not all that it is made of is as it was written.
    is_damaged: bool,
    /// The revision in which all that is missing was certainly absent, if it was.
    absent_in: Option<u64>,
    names: Numbers<NameId>,
    pieces: Numbers<PieceId>,
    fragments: Numbers<Address>,
    value: CompilationValue<'p>,
    /// What it may be recorded as a difference to.
    base: Option<Address>,
    added: Added,
}

impl<'p> Missing<'p> {
    /// None of the parts is known; `uuid` is the repository's.
    fn new(prepared: &'p Prepared<'_>, uuid: &[u8; 16]) -> Missing<'p> {
        let compilation = &prepared.compilation;
        let all = |count: usize| 0..count as u32;
        let names = compilation.names.iter().map(|name| name_key(uuid, name));
        let names: Vec<Digest> = names.collect();
        let pieces = compilation.pieces.len();
        let order = compilation.digest_order.iter().copied();
        Missing {
            is_damaged: false,
            absent_in: None,
            names: Numbers::unknown(all(names.len()), names),
            pieces: Numbers::unknown(all(pieces), vec![Digest([0; 32]); pieces]),
            fragments: Numbers::unknown(order, prepared.fragments.clone()),
            value: CompilationValue::new(compilation),
            base: None,
            added: Added {
                digest: Some(prepared.digest),
                is_new: true,
                ..Added::default()
            },
        }
    }

    /// Looks for the parts. Whether all that are missing then are absent for certain.
    fn look(&mut self, snapshot: &Snapshot<'_>, prepared: &Prepared<'_>) -> Result<bool> {
        let compilation = &prepared.compilation;
        let uuid = snapshot.store().uuid();
        let index = Index::Names.slot();
        self.names.look_for(snapshot, index, |number, key| {
            let name = compilation.names[number];
            let found = look(snapshot, index, key, |record| view::is_name(record, name))?;
            Ok(found.and_then(|record| view::name_id(&record)))
        })?;
        let is_known = self.names.known();
        let mut headers = Vec::with_capacity(compilation.pieces.len());
        for (piece, key) in compilation.pieces.iter().zip(&mut self.pieces.keys) {
            let name = piece.section_name.0 as usize;
            // There is no piece with a name that is not there.
            let header = match is_known[name] {
                true => Some(piece_header(piece, self.names.of[name], PieceId(0))?),
                false => None,
            };
            if let Some(header) = &header {
                *key = piece_key(&uuid, header, piece.bytes);
            }
            headers.push(header);
        }
        let index = Index::Pieces.slot();
        self.pieces.look_for(snapshot, index, |number, key| {
            let (Some(header), piece) = (&headers[number], &compilation.pieces[number]) else {
                return Ok(Look::Absent);
            };
            let is_it = |record: &Record<'_>| view::is_piece(record, header, piece.bytes);
            let found = look(snapshot, index, key, is_it)?;
            Ok(found.and_then(|record| view::piece_id(&record)))
        })?;
        let index = Index::Fragments.slot();
        self.fragments.look_for(snapshot, index, |_, key| {
            let found = look(snapshot, index, key, |_| true)?;
            Ok(found.and_then(|record| Some(record.address)))
        })?;
        self.added.shared_pieces = (self.pieces.of.len() - self.pieces.missing.len()) as u32;
        self.added.shared_fragments =
            (self.fragments.of.len() - self.fragments.missing.len()) as u32;
        Ok(self.names.is_certain && self.pieces.is_certain && self.fragments.is_certain)
    }
}

/// The whole record of `key`, if there is one.
fn whole<'s>(snapshot: &Snapshot<'s>, index: Index, key: &Digest) -> Result<Option<Record<'s>>> {
    view::whole_or_none(snapshot.get(index.slot(), key))
}

/// The head of a piece's value.
fn piece_header(piece: &Piece<'_>, section_name: NameId, id: PieceId) -> Result<PieceHeader> {
    let entsize = u16::try_from(piece.entsize);
    Ok(PieceHeader {
        section_name,
        sh_flags: piece.sh_flags,
        id,
        entsize: entsize
            .map_err(|_| ProgramError::malformed("a piece's elements are too large"))?,
        align_log2: piece.align_log2,
        reserved: 0,
    })
}

/// Adds compilations, and the records of their tickets.
pub(super) fn add(store: &Store, additions: &[Addition<'_, '_>]) -> Result<Vec<Added>> {
    let programs = Programs::new(store.snapshot()?);
    let tickets = additions
        .iter()
        .map(|addition| addition.ticket.map(Ticket::new));
    let mut tickets: Vec<_> = tickets.collect();
    let mut states = Vec::with_capacity(additions.len());
    let mut nothing_to_do = true;
    for (addition, ticket) in additions.iter().zip(&tickets) {
        let mut state = state(&programs, addition.prepared)?;
        if let (State::Missing(missing), Some(ticket)) = (&mut state, ticket) {
            missing.base = base(&programs, ticket);
        }
        nothing_to_do &= match (&state, ticket) {
            (State::There(_), None) => true,
            (State::There(compilation), Some(ticket)) => {
                matches!(
                    ticket_on_record(&programs.snapshot(), store, &ticket.key, *compilation)?,
                    OnRecord::Right
                )
            }
            (State::Missing(_), _) => false,
        };
        states.push(state);
    }
    let mut results: Vec<Option<Added>> = vec![None; additions.len()];
    let mut done = nothing_to_do;
    while !done {
        let mut adder = Adder::new(store.begin(Durability::Lazy)?)?;
        done = adder.advance(additions, &mut states, &mut tickets, &mut results)?;
        adder.transaction.commit()?;
    }
    let known = |(state, addition): (&State<'_>, &Addition<'_, '_>)| match state {
        State::There(address) => known(addition.prepared, *address),
        State::Missing(missing) => missing.added,
    };
    let states = states.iter().zip(additions).map(known);
    let results = results.into_iter().zip(states);
    Ok(results
        .map(|(added, known)| added.unwrap_or(known))
        .collect())
}

/// Puts the file at `path` on record, which holds tickets, as one for the compilation `digest`. Whether no file was on record
/// at this path.
pub(super) fn record_file(store: &Store, path: &Path, digest: &Digest) -> Result<bool> {
    let snapshot = store.snapshot()?;
    let ticket = Ticket::new(path);
    let compilation = whole(&snapshot, Index::Compilations, digest)?;
    let compilation = compilation.ok_or_else(|| ProgramError::NoCompilation {
        path: store.path().to_owned(),
        digest: *digest,
    })?;
    let is_new = matches!(snapshot.get(Index::Tickets.slot(), &ticket.key), Ok(None));
    let on_record = ticket_on_record(&snapshot, store, &ticket.key, compilation.address)?;
    if !matches!(on_record, OnRecord::Right) {
        let mut adder = Adder::new(store.begin(Durability::Lazy)?)?;
        adder.ticket(&ticket, compilation.address)?;
        adder.transaction.commit()?;
    }
    Ok(is_new)
}

fn known(prepared: &Prepared<'_>, address: Address) -> Added {
    Added {
        digest: Some(prepared.digest),
        address,
        shared_fragments: prepared.fragments.len() as u32,
        shared_pieces: prepared.compilation.pieces.len() as u32,
        ..Added::default()
    }
}

fn state<'p>(programs: &Programs<'_>, prepared: &'p Prepared<'_>) -> Result<State<'p>> {
    let snapshot = programs.snapshot();
    let mut missing = Missing::new(prepared, &snapshot.store().uuid());
    let are_certain = missing.look(&snapshot, prepared)?;
    let all_there = missing.names.missing.is_empty()
        && missing.pieces.missing.is_empty()
        && missing.fragments.missing.is_empty();
    let index = Index::Compilations.slot();
    let known = look(&snapshot, index, &prepared.digest, |_| true)?;
    // What is recorded as a difference is there if its base is.
    let opens = |known: &Record<'_>| match recorded::is_made(known.value) {
        false => Ok(true),
        true => view::is_there(programs.compilation_at(known.address)),
    };
    match known {
        Look::There(known) if all_there && opens(&known)? => {
            return Ok(State::There(known.address));
        }
        Look::There(_) => missing.is_damaged = true,
        Look::Absent if are_certain => missing.absent_in = Some(snapshot.revision()),
        Look::Absent | Look::Unsure => {}
    }
    Ok(State::Missing(Box::new(missing)))
}

/// What a new compilation may be recorded as a difference to: what the ticket has named until now, or its base.
fn base(programs: &Programs<'_>, ticket: &Ticket<'_>) -> Option<Address> {
    // Whatever is wrong with that: it is no matter for who does without.
    let found = whole(&programs.snapshot(), Index::Tickets, &ticket.key).ok()??;
    let predecessor = programs.ticket(&found).ok()?.header.compilation;
    let (base, _) = programs.base_for_successor(predecessor)?;
    Some(base)
}

/// A ticket whose record is to be made.
pub(super) struct Ticket<'t> {
    path: &'t Path,
    key: Digest,
}

impl<'t> Ticket<'t> {
    pub(super) fn new(path: &'t Path) -> Ticket<'t> {
        Ticket {
            path,
            key: ticket_key(path),
        }
    }

    /// Whether its record is there, fresh, and names this compilation.
    pub(super) fn is_on_record(
        &self,
        programs: &Programs<'_>,
        store: &Store,
        compilation: Address,
    ) -> Result<bool> {
        let found = ticket_on_record(&programs.snapshot(), store, &self.key, compilation)?;
        Ok(matches!(found, OnRecord::Right))
    }
}

fn ticket_key(path: &Path) -> Digest {
    Digest::of(path.as_os_str().as_bytes())
}

/// A record of a ticket that is older than this is written again when the ticket is,
/// even if it says the same: so a compactor that sees no ticket file and an old record
/// knows that nobody is about to write the file. Its grace period must be longer.
pub const TICKET_REFRESH_NANOSECONDS: u64 = 600_000_000_000;

fn is_fresh(header: TicketHeader, compilation: Address, now: u64) -> bool {
    header.compilation == compilation
        && header.written.saturating_add(TICKET_REFRESH_NANOSECONDS) > now
}

/// What is on record of a ticket.
enum OnRecord {
    /// Nothing, or something else, or it is so old that it is to be made again.
    Otherwise,
    /// What it should be.
    Right,
    /// The disk has damaged it.
    Damaged,
}

fn ticket_on_record(
    reader: &impl Reader,
    store: &Store,
    key: &Digest,
    compilation: Address,
) -> Result<OnRecord> {
    let record = match reader.get(Index::Tickets.slot(), key) {
        Ok(None) => return Ok(OnRecord::Otherwise),
        Ok(Some(record)) if record.is_whole() => record,
        Ok(Some(_)) | Err(Error::Damaged { .. }) => return Ok(OnRecord::Damaged),
        Err(error) => return Err(error.into()),
    };
    let Some(header) = record.value.get(..size_of::<TicketHeader>()) else {
        return Err(ProgramError::Damaged {
            path: store.path().to_owned(),
            address: record.address,
            what: "not a ticket's record",
        });
    };
    Ok(
        match is_fresh(
            bytemuck::pod_read_unaligned(header),
            compilation,
            store.now(),
        ) {
            true => OnRecord::Right,
            false => OnRecord::Otherwise,
        },
    )
}

/// Adds to what one transaction will commit.
pub(super) struct Adder<'s> {
    pub(super) transaction: Transaction<'s>,
    /// The value at hand; keeps its memory.
    value: Vec<u8>,
    budget: Budget,
}

impl<'s> Adder<'s> {
    /// Adds to what `transaction` will commit.
    pub(super) fn new(transaction: Transaction<'s>) -> Result<Adder<'s>> {
        let mut adder = Adder {
            transaction,
            value: Vec::new(),
            budget: Budget::new(),
        };
        // Id 0 is the empty name in every repository.
        if adder.transaction.vector_len(Vector::Names.slot()) == 0 {
            adder.name(&[])?;
        }
        Ok(adder)
    }

    /// Adds what is missing, until all is there (true) or the budget is spent (false).
    fn advance(
        &mut self,
        additions: &[Addition<'_, '_>],
        states: &mut [State<'_>],
        tickets: &mut [Option<Ticket<'_>>],
        results: &mut [Option<Added>],
    ) -> Result<bool> {
        let parts = additions.iter().zip(states).zip(tickets).zip(results);
        for (((addition, state), ticket), result) in parts {
            if let State::Missing(missing) = state {
                // Another process may have added it since it was looked up.
                let known = match missing.is_damaged || self.known(missing) == Known::NotInBase {
                    true => None,
                    false => self.look(Index::Compilations, &addition.prepared.digest)?,
                };
                if let Some(record) = known {
                    *state = State::There(record.address);
                } else if let Some(added) = self.compilation(addition.prepared, missing)? {
                    *state = State::There(added.address);
                    *result = Some(added);
                } else {
                    return Ok(false);
                }
            }
            if let (State::There(compilation), Some(wanted)) = (&*state, &*ticket) {
                self.ticket(wanted, *compilation)?;
                *ticket = None;
            }
        }
        Ok(true)
    }

    /// Adds a compilation of which nothing has been looked up, whatever it takes.
    pub(super) fn add_unseen(&mut self, prepared: &Prepared<'_>) -> Result<Added> {
        let mut missing = Missing::new(prepared, &self.uuid());
        loop {
            if let Some(added) = self.compilation(prepared, &mut missing)? {
                return Ok(added);
            }
            self.budget = Budget::new();
        }
    }

    /// Adds what a compilation is made of, but not the compilation. Returns where its fragments are, and the ids of its pieces.
    pub(super) fn add_parts(
        &mut self,
        prepared: &Prepared<'_>,
    ) -> Result<(Vec<Address>, Vec<PieceId>)> {
        let mut missing = Missing::new(prepared, &self.uuid());
        while !self.parts(prepared, &mut missing)? {
            self.budget = Budget::new();
        }
        Ok((missing.fragments.of, missing.pieces.of))
    }

    fn damaged(&self, address: Address, what: &'static str) -> ProgramError {
        ProgramError::Damaged {
            path: self.transaction.base().store().path().to_owned(),
            address,
            what,
        }
    }

    fn uuid(&self) -> [u8; 16] {
        self.transaction.base().store().uuid()
    }

    fn next_id(&self, vector: Vector, what: &'static str) -> Result<u32> {
        u32::try_from(self.transaction.vector_len(vector.slot()))
            .map_err(|_| self.damaged(Address(0), what))
    }

    /// The record of this digest, if it is there and as it was written.
    fn look(&self, index: Index, digest: &Digest) -> Result<Option<Record<'_>>> {
        match self.transaction.get(index.slot(), digest) {
            Ok(found) => Ok(found.filter(Record::is_whole)),
            Err(Error::Damaged { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What is known of what is missing, as long as nobody has added anything since it was looked up.
    fn known(&self, missing: &Missing<'_>) -> Known {
        match missing.absent_in {
            Some(revision) if revision == self.transaction.base().revision() => Known::NotInBase,
            _ => Known::Nothing,
        }
    }

    /// Inserts the value that `make` appends, if there is no record of this digest. The second result is whether it was inserted.
    fn insert(
        &mut self,
        index: Index,
        digest: &Digest,
        known: Known,
        make: impl Fn(&mut Vec<u8>) -> Result<()>,
    ) -> Result<(Address, bool)> {
        let slot = index.slot();
        match (self.transaction).insert_made(slot, digest, known, &make) {
            Ok((address, true)) => return Ok((address, true)),
            Ok((address, false)) if self.transaction.record_at(address)?.is_whole() => {
                return Ok((address, false));
            }
            Ok(_) | Err(ProgramError::Engine(Error::Damaged { .. })) => {}
            Err(error) => return Err(error),
        }
        self.value.clear();
        make(&mut self.value)?;
        Ok((self.mend(index, digest)?, false))
    }

    /// Inserts a fragment, if there is none of this digest. The second result is whether it was inserted.
    fn insert_fragment(
        &mut self,
        prepared: &Prepared<'_>,
        number: usize,
        known: Known,
        translation: Translation<'_>,
    ) -> Result<(Address, bool)> {
        let digest = &prepared.fragments[number];
        let value = prepared.value(number);
        let inserted = self.insert(Index::Fragments, digest, known, |out| {
            let start = out.len();
            out.extend_from_slice(value);
            encode::translate_fragment(&mut out[start..], translation)
        });
        if let Err(ProgramError::Damaged { .. }) = inserted {
            // It may have been recorded in the other form.
            let other = match prepared.is_compressed() {
                true => Form::Plain,
                false => Form::Compressed,
            };
            if let Some(value) = prepared.other_form(number, other)? {
                self.value = value;
                encode::translate_fragment(&mut self.value, translation)?;
                return Ok((self.mend(Index::Fragments, digest)?, false));
            }
        }
        inserted
    }

    /// Inserts the compilation whose value is `self.value`, if there is none of this digest: as a difference to that at `base`, if that is
    /// worth it, or whole, or compressed. The second result is whether it was inserted.
    fn insert_compilation(
        &mut self,
        digest: &Digest,
        base: Option<Address>,
        (known, compresses): (Known, bool),
    ) -> Result<(Address, bool)> {
        let index = Index::Compilations.slot();
        let there = match self.transaction.get(index, digest) {
            Ok(None) => {
                if let Some(difference) = base.and_then(|base| self.difference(base)) {
                    self.value = difference;
                } else if compresses && let Some(compressed) = recorded::compressed(&self.value) {
                    self.value = compressed;
                }
                let value = std::mem::take(&mut self.value);
                let inserted = self.insert(Index::Compilations, digest, known, |out| {
                    out.extend_from_slice(&value);
                    Ok(())
                });
                self.value = value;
                return inserted;
            }
            Ok(Some(record)) if record.is_whole() => Some(record.address),
            Ok(Some(_)) | Err(Error::Damaged { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let programs = Programs::new(self.transaction.base());
        if let Some(address) = there {
            // What this transaction, or another writer, has added just now is as it was written.
            let is_old = address.0 < self.transaction.base().size();
            if is_old && !view::is_there(programs.compilation_at(address))? {
                return Err(self.beyond_mending(Index::Compilations, digest)?);
            }
            return Ok((address, false));
        }
        // It was recorded whole, or compressed, or as a difference to what the damaged record still names, or the ticket named.
        let mut bases = Vec::new();
        for candidate in self.transaction.base().candidates(index, digest)? {
            let named = programs.base_for_successor(candidate);
            bases.extend(named.map(|(base, _)| base));
        }
        bases.extend(base);
        let differences = bases.into_iter().map(|base| self.difference(base));
        let mut forms: Vec<_> = differences.flatten().collect();
        forms.extend(recorded::compressed(&self.value));
        forms.push(std::mem::take(&mut self.value));
        for form in forms {
            self.value = form;
            if let Some(address) = self.transaction.mend(index, digest, &self.value)? {
                return Ok((address, false));
            }
        }
        Err(self.beyond_mending(Index::Compilations, digest)?)
    }

    /// The compilation whose value is `self.value` as a difference to that at `base`, if that is worth it.
    fn difference(&self, base: Address) -> Option<Vec<u8>> {
        let programs = Programs::new(self.transaction.base());
        let (base, value) = programs.base_for_successor(base)?;
        difference::difference(base, value, &self.value)
    }

    /// Inserts the value of these parts as a numbered record, if there is none of this key that `is_it`. The second result is whether it
    /// was inserted.
    fn insert_numbered(
        &mut self,
        (index, vector): (Index, Vector),
        key: &Digest,
        known: Known,
        (header, id_at, bytes): (&[u8], usize, &[u8]),
        is_it: impl Fn(&Record<'_>) -> bool,
    ) -> Result<(Address, bool)> {
        let slots = NumberedSlot {
            index: index.slot(),
            vector: vector.slot(),
        };
        let make = |out: &mut Vec<u8>| -> Result<()> {
            out.extend_from_slice(header);
            out.extend_from_slice(bytes);
            Ok(())
        };
        match (self.transaction).insert_numbered_made(slots, key, known, make, is_it) {
            Ok((address, true)) => return Ok((address, true)),
            Ok((address, false)) if self.transaction.record_at(address)?.is_whole() => {
                return Ok((address, false));
            }
            Ok(_) | Err(ProgramError::Engine(Error::Damaged { .. })) => {}
            Err(error) => return Err(error),
        }
        self.value.clear();
        make(&mut self.value)?;
        Ok((self.mend_numbered(slots, key, id_at)?, false))
    }

    /// Makes a damaged record what it was, of which `self.value` is the value.
    fn mend(&mut self, index: Index, digest: &Digest) -> Result<Address> {
        let mended = self.transaction.mend(index.slot(), digest, &self.value)?;
        match mended {
            Some(address) => Ok(address),
            None => Err(self.beyond_mending(index, digest)?),
        }
    }

    /// Makes a damaged numbered record what it was, of which `self.value` is the value but for the
    /// id: that is the record's place in its vector.
    fn mend_numbered(
        &mut self,
        slots: NumberedSlot,
        key: &Digest,
        id_at: usize,
    ) -> Result<Address> {
        let base = self.transaction.base();
        for candidate in base.candidates(slots.index, &key.shortened())? {
            let mut ids = 0..base.vector_len(slots.vector) as u32;
            let is_its =
                |id: &u32| base.vector_get(slots.vector, *id).ok().flatten() == Some(candidate);
            let Some(id) = ids.find(is_its) else {
                continue;
            };
            self.value[id_at..id_at + 4].copy_from_slice(&id.to_le_bytes());
            let mended = (self.transaction).mend_numbered(slots, key, &self.value, id)?;
            if let Some(address) = mended {
                return Ok(address);
            }
        }
        let index = Index::at(slots.index).unwrap_or(Index::Names);
        Err(self.beyond_mending(index, &key.shortened())?)
    }

    fn beyond_mending(&self, index: Index, key: &Digest) -> Result<ProgramError> {
        let candidates = self.transaction.base().candidates(index.slot(), key)?;
        Ok(self.damaged(
            candidates.first().copied().unwrap_or_default(),
            "the record is damaged beyond mending; repo-dump --verify --repair drops it",
        ))
    }

    /// What is read of the record that somebody else has added.
    fn of_another<T>(
        &self,
        address: Address,
        read: impl Fn(&Record<'_>) -> Option<T>,
        what: &'static str,
    ) -> Result<T> {
        let record = self.transaction.record_at(address)?;
        read(&record).ok_or_else(|| self.damaged(address, what))
    }

    /// The id of a name, which is added if it is not there, and whether it was added.
    fn intern(&mut self, bytes: &[u8], key: &Digest, known: Known) -> Result<(NameId, bool)> {
        let id = NameId(self.next_id(Vector::Names, "there are too many names")?);
        let header = NameHeader { id };
        let (address, is_new) = self.insert_numbered(
            (Index::Names, Vector::Names),
            key,
            known,
            (
                bytemuck::bytes_of(&header),
                offset_of!(NameHeader, id),
                bytes,
            ),
            |record| view::is_name(record, bytes),
        )?;
        if !is_new {
            let id = self.of_another(address, view::name_id, "not a name")?;
            return Ok((id, false));
        }
        Ok((id, true))
    }

    /// The id of a name, which is added if it is not there.
    pub(super) fn name(&mut self, bytes: &[u8]) -> Result<NameId> {
        let key = name_key(&self.uuid(), bytes);
        Ok(self.intern(bytes, &key, Known::Nothing)?.0)
    }

    /// Goes on adding a compilation; `None` if the budget is spent before all of it is there.
    fn compilation(
        &mut self,
        prepared: &Prepared<'_>,
        missing: &mut Missing<'_>,
    ) -> Result<Option<Added>> {
        if !self.parts(prepared, missing)? {
            return Ok(None);
        }
        let translation = Translation {
            names: &missing.names.of,
            pieces: &missing.pieces.of,
            fragments: &missing.fragments.of,
        };
        missing.value.translate(translation, &mut self.value);
        let known = self.known(missing);
        let how = (known, prepared.is_compressed());
        let (address, is_new) = self.insert_compilation(&prepared.digest, missing.base, how)?;
        self.spend(is_new, self.value.len(), &mut missing.added);
        missing.added.address = address;
        missing.added.is_new = is_new;
        Ok(Some(missing.added))
    }

    /// Goes on adding what a compilation is made of; false if the budget is spent before all of it is there.
    fn parts(&mut self, prepared: &Prepared<'_>, missing: &mut Missing<'_>) -> Result<bool> {
        let compilation = &prepared.compilation;
        let known = self.known(missing);
        while let Some(number) = missing.names.next() {
            let name = compilation.names[number];
            let (id, is_new) = self.intern(name, &missing.names.keys[number], known)?;
            missing.names.of[number] = id;
            missing.names.done += 1;
            missing.added.new_names += u32::from(is_new);
            let size = size_of::<NameHeader>() + name.len();
            if !self.spend(is_new, size, &mut missing.added) {
                return Ok(false);
            }
        }
        while let Some(number) = missing.pieces.next() {
            let piece = &compilation.pieces[number];
            let (id, is_new) = self.piece(piece, &missing.names.of, known)?;
            missing.pieces.of[number] = id;
            missing.pieces.done += 1;
            missing.added.new_pieces += u32::from(is_new);
            missing.added.shared_pieces += u32::from(!is_new);
            let size = size_of::<PieceHeader>() + piece.bytes.len();
            if !self.spend(is_new, size, &mut missing.added) {
                return Ok(false);
            }
        }
        while let Some(number) = missing.fragments.next() {
            let value = prepared.value(number);
            let translation = missing.translation();
            let (address, is_new) = self.insert_fragment(prepared, number, known, translation)?;
            missing.fragments.of[number] = address;
            missing.fragments.done += 1;
            missing.added.new_fragments += u32::from(is_new);
            missing.added.shared_fragments += u32::from(!is_new);
            if !self.spend(is_new, value.len(), &mut missing.added) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Counts a value of `size` bytes, if it was inserted. Returns whether there is more to spend.
    fn spend(&mut self, is_new: bool, size: usize, added: &mut Added) -> bool {
        if !is_new {
            return true;
        }
        added.new_bytes += size as u64;
        self.budget.spend(size)
    }

    fn piece(
        &mut self,
        piece: &Piece<'_>,
        names: &[NameId],
        known: Known,
    ) -> Result<(PieceId, bool)> {
        let id = PieceId(self.next_id(Vector::Pieces, "there are too many pieces")?);
        let header = piece_header(piece, names[piece.section_name.0 as usize], id)?;
        let key = piece_key(&self.uuid(), &header, piece.bytes);
        let (address, is_new) = self.insert_numbered(
            (Index::Pieces, Vector::Pieces),
            &key,
            known,
            (
                bytemuck::bytes_of(&header),
                offset_of!(PieceHeader, id),
                piece.bytes,
            ),
            |record| view::is_piece(record, &header, piece.bytes),
        )?;
        if !is_new {
            let id = self.of_another(address, view::piece_id, "not a piece")?;
            return Ok((id, false));
        }
        Ok((id, true))
    }

    pub(super) fn ticket(&mut self, ticket: &Ticket<'_>, compilation: Address) -> Result<()> {
        let store = self.transaction.base().store();
        let on_record = ticket_on_record(&self.transaction, store, &ticket.key, compilation)?;
        if matches!(on_record, OnRecord::Right) {
            return Ok(());
        }
        self.value.clear();
        self.value
            .extend_from_slice(bytemuck::bytes_of(&TicketHeader {
                compilation,
                written: store.now(),
            }));
        self.value
            .extend_from_slice(ticket.path.as_os_str().as_bytes());
        let (index, key) = (Index::Tickets.slot(), &ticket.key);
        match on_record {
            OnRecord::Damaged => self.transaction.supersede(index, key, &self.value)?,
            _ => self.transaction.replace(index, key, &self.value)?,
        };
        Ok(())
    }
}

impl Missing<'_> {
    /// The ids and addresses that are known by now.
    fn translation(&self) -> Translation<'_> {
        Translation {
            names: &self.names.of,
            pieces: &self.pieces.of,
            fragments: &self.fragments.of,
        }
    }
}
