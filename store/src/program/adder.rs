//! What one transaction adds: names, pieces, fragments, compilations and tickets, each unless it is there.
//!
//! Nobody waits long for the lock, so a transaction has a [`Budget`]; who adds more goes on in the next one
//! ([`add`](super::add)). What is there is only believed to be there if its bytes are those that were written. A record that the disk
//! has damaged is mended ([`Adder::mend`]): whoever adds it has the right bytes at hand.

use super::addition::{Added, Addition};
use super::build::Piece;
use super::encode;
use super::encode::Form;
use super::missing::{Made, Missing, State, difference_to, piece_header};
use super::ticket_record::{OnRecord, Ticket};
use super::view::{self, Programs};
use super::{ProgramError, Result, recorded};
use crate::engine::{Error, Known, Reader, Record, Transaction};
use format_spec::digest::Digest;
use format_spec::file::NumberedSlot;
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::program::{
    Index, NameHeader, PieceHeader, TicketHeader, Vector, name_key, piece_key,
};
use std::cell::Cell;
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;

/// How much one transaction adds before it makes room for other writers.
struct Budget {
    records: usize,
    bytes: usize,
}

impl Budget {
    /// What takes a third of a millisecond or so; less of it, if it is packed.
    fn new(is_packed: bool) -> Budget {
        Budget {
            records: 250,
            bytes: if is_packed { 40 << 10 } else { 128 << 10 },
        }
    }

    /// Whether there is something left after a record of `size` bytes.
    fn spend(&mut self, size: usize) -> bool {
        self.records = self.records.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size);
        self.records > 0 && self.bytes > 0
    }
}

/// A compilation whose value is larger than this is made, and compressed, without the lock.
const MADE_WITHOUT_LOCK: usize = 8 << 10;

/// Adds to what one transaction will commit.
pub(super) struct Adder<'s> {
    pub(super) transaction: Transaction<'s>,
    /// The value at hand; keeps its memory.
    value: Vec<u8>,
    budget: Budget,
}

impl<'s> Adder<'s> {
    /// Adds to what `transaction` will commit. What is added to a small repository that has packs is packed, too.
    pub(super) fn new(mut transaction: Transaction<'s>) -> Result<Adder<'s>> {
        if encode::packs(&transaction.base()) {
            transaction.pack();
        }
        let budget = Budget::new(transaction.is_packing());
        let mut adder = Adder {
            transaction,
            value: Vec::new(),
            budget,
        };
        // Id 0 is the empty name in every repository.
        if adder.transaction.vector_len(Vector::Names.slot()) == 0 {
            adder.name(&[])?;
        }
        Ok(adder)
    }

    /// Adds what is missing, until all is there (true) or the budget is spent (false).
    pub(super) fn advance(
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
                } else if let Some(added) = self.compilation(missing)? {
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
    pub(super) fn insert(
        &mut self,
        index: Index,
        digest: &Digest,
        known: Known,
        make: impl Fn(&mut Vec<u8>) -> Result<()>,
    ) -> Result<(Address, bool)> {
        let slot = index.slot();
        let inserted = (self.transaction).insert_made(slot, digest, known, &make);
        if let Some(inserted) = self.unless_damaged(inserted)? {
            return Ok(inserted);
        }
        self.value.clear();
        make(&mut self.value)?;
        Ok((self.mend(index, digest)?, false))
    }

    /// Inserts the fragment that is to be added next, if there is none of this digest. The second result is whether it was inserted, the
    /// third how large it is as it is recorded.
    fn insert_fragment(
        &mut self,
        missing: &Missing<'_>,
        number: usize,
        known: Known,
    ) -> Result<(Address, bool, usize)> {
        let prepared = missing.prepared;
        let digest = &prepared.fragments[number];
        let size = Cell::new(0);
        let inserted = self.insert(Index::Fragments, digest, known, |out| {
            let start = out.len();
            missing.append_fragment(number, out)?;
            size.set(out.len() - start);
            Ok(())
        });
        if let Err(ProgramError::Damaged { .. }) = inserted
            && encode::is_compressible(&prepared.compilation, number, Form::Compressed)
        {
            // It may have been recorded in another form.
            for form in Form::OF_FRAGMENTS {
                self.value.clear();
                prepared.encode(number, form, &mut self.value)?;
                encode::translate_fragment(&mut self.value, missing.translation())?;
                let slot = Index::Fragments.slot();
                if let Some(address) = self.transaction.mend(slot, digest, &self.value)? {
                    return Ok((address, false, 0));
                }
            }
        }
        let (address, is_new) = inserted?;
        Ok((address, is_new, size.get()))
    }

    /// Inserts a compilation whose value is made, if there is none of this digest. The second result is whether it was inserted.
    fn insert_compilation(
        &mut self,
        missing: &Missing<'_>,
        made: &Made,
        known: Known,
    ) -> Result<(Address, bool)> {
        let index = Index::Compilations.slot();
        let digest = &missing.prepared.digest;
        let there = match self.transaction.get(index, digest) {
            Ok(None) => {
                return self.insert(Index::Compilations, digest, known, |out| {
                    out.extend_from_slice(made.recorded());
                    Ok(())
                });
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
        bases.extend(missing.base);
        let differences = bases.into_iter();
        let differences = differences.map(|base| difference_to(&programs, base, &made.plain));
        let mut forms: Vec<_> = differences.flatten().collect();
        forms.extend(recorded::compressed(&made.plain));
        for form in forms.iter().chain([&made.plain]) {
            if let Some(address) = self.transaction.mend(index, digest, form)? {
                return Ok((address, false));
            }
        }
        Err(self.beyond_mending(Index::Compilations, digest)?)
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
        let inserted = (self.transaction).insert_numbered_made(slots, key, known, make, is_it);
        if let Some(inserted) = self.unless_damaged(inserted)? {
            return Ok(inserted);
        }
        self.value.clear();
        make(&mut self.value)?;
        Ok((self.mend_numbered(slots, key, id_at)?, false))
    }

    /// What came of inserting a record; `None` if there is one of its key, and it is damaged.
    fn unless_damaged(&self, inserted: Result<(Address, bool)>) -> Result<Option<(Address, bool)>> {
        match inserted {
            Ok((address, true)) => Ok(Some((address, true))),
            Ok((address, false)) => {
                let is_whole = self.transaction.record_at(address)?.is_whole();
                Ok(is_whole.then_some((address, false)))
            }
            Err(ProgramError::Engine(Error::Damaged { .. })) => Ok(None),
            Err(error) => Err(error),
        }
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
            "the record is damaged beyond mending",
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
        self.name_if(bytes, Known::Nothing)
    }

    /// The same, of which this is known.
    pub(super) fn name_if(&mut self, bytes: &[u8], known: Known) -> Result<NameId> {
        let key = name_key(&self.uuid(), bytes);
        Ok(self.intern(bytes, &key, known)?.0)
    }

    /// Goes on adding a compilation; `None` if the budget is spent before all of it is there, or its value must be made first.
    fn compilation(&mut self, missing: &mut Missing<'_>) -> Result<Option<Added>> {
        if !self.parts(missing)? {
            return Ok(None);
        }
        if missing.made.is_none() {
            if missing.size() > MADE_WITHOUT_LOCK {
                return Ok(None);
            }
            missing.make(&Programs::new(self.transaction.base()));
        }
        let Some(made) = missing.made.take() else {
            return Ok(None);
        };
        let known = self.known(missing);
        let (address, is_new) = self.insert_compilation(missing, &made, known)?;
        self.spend(is_new, made.recorded().len(), &mut missing.added);
        missing.added.address = address;
        missing.added.is_new = is_new;
        Ok(Some(missing.added))
    }

    /// Goes on adding what a compilation is made of; false if the budget is spent before all of it is there.
    fn parts(&mut self, missing: &mut Missing<'_>) -> Result<bool> {
        let compilation = &missing.prepared.compilation;
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
            let (address, is_new, size) = self.insert_fragment(missing, number, known)?;
            missing.fragments.of[number] = address;
            missing.fragments.done += 1;
            missing.added.new_fragments += u32::from(is_new);
            missing.added.shared_fragments += u32::from(!is_new);
            if !self.spend(is_new, size, &mut missing.added) {
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

    /// The id of a piece, which is added if it is not there, and whether it was added. `names` has its section's name.
    pub(super) fn piece(
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
        let on_record = ticket.on_record(&self.transaction, store, compilation)?;
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
