//! Writing: one transaction at a time, appended to the log and published whole.
//!
//! A commit does, in this order:
//!
//! 1. writes the rest of the log's items, new leaves and nodes, and the trailer;
//! 2. publishes the trailer as `head`: the transaction is committed;
//! 3. adds words to the leaves that were there before;
//! 4. publishes the trailer as `visible`: readers see it;
//! 5. no longer as the only writer, waits until it is on the disk, if durable, and
//!    sees to it that it gets there some time, if it is this transaction's turn
//!    ([`durable`](super::durable)).
//!
//! Who adds more than is to be remembered until one commit goes on in the next transaction without giving up the right to write
//! ([`Transaction::commit_and_go_on`]).
//!
//! Killed before 2, a writer leaves bytes beyond the head that the next one
//! overwrites. Killed between 2 and 4, it leaves it to the next one to repeat
//! 3, which is the same however much of it was done. So no leaf ever has a
//! word for a record that is not committed.

use super::error::{Error, Fault, Result};
use super::leaf::{Entry, Fill, Keys};
use super::lock::WriteLock;
use super::log::{self, record_at};
use super::own::{Earlier, OwnRecords};
use super::pack::{Packed, Packing};
use super::reader::Reader;
use super::record::{Record, parse_record};
use super::replay::Additions;
use super::snapshot::Snapshot;
use super::spare::Spare;
use super::store::Store;
use super::sync;
use super::update::{self, InPlace, Writer};
use bytemuck::Zeroable;
use format_spec::digest::Digest;
use format_spec::file::{
    Features, FileState, INDEX_SLOTS, ITEM_ALIGN, IndexSlot, ItemHead, ItemKind, LEAF_ALIGN,
    MAX_ADDRESS, NumberedSlot, RECORD_CHECK, SHORT_KEY, VECTOR_SLOTS, VectorSlot, record_check,
};
use format_spec::ids::Address;
use format_spec::leaf::KeyBits;
use format_spec::pack;
use format_spec::trailer::{MAX_TRAILER_SIZE, Trailer, TrailerStart, Tries};
use std::mem::offset_of;

/// What a commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing, but once in a while for a part of a checkpoint, when other writers go on already
    /// ([`OpenOptions::checkpoint_every`](super::OpenOptions)). Survives the death of
    /// any process; a power cut may take the newest transactions away, whole, newest
    /// first.
    Lazy,
    /// The disk. Once the commit has returned, a power cut cannot take it away. (Others
    /// see it a little earlier; whoever commits durably on top of it waits for it too.)
    Durable,
}

/// What is known of a key before its record is inserted, so that it need not be looked up (again), with the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing: it is looked up.
    Nothing,
    /// That there is no such record in the transaction's base, or in that of the first of those that it [follows](Transaction::follow):
    /// [`Snapshot::find_or_check`] has said so of that revision. Only what the transactions have added themselves is looked through.
    NotInBase,
    /// That there is no such record, neither in the base nor among what the transactions have added: for who fills an empty file from another one, of
    /// which it remembers what it has copied. It is not looked up at all.
    Nowhere,
}

/// Items are written when so many bytes of them have gathered: up to a multiple of [`HUGE_PAGE`]. What is written
/// whole, in one call, comes to lie in huge pages of the page cache where the file system has them (ext4 since Linux 6.16), and
/// to map it, a reader needs one page fault and one entry of the translation cache instead of hundreds: links from tickets took
/// a fourteenth less.
const FLUSH_AT: usize = 4 << 20;

/// A huge page of x86-64, in bytes.
const HUGE_PAGE: u64 = 2 << 20;

/// A transaction: what it adds is seen by nobody else before it is committed.
/// Dropped without a commit, it leaves nothing behind.
///
/// Holds the file's write lock, so prepare everything before.
pub struct Transaction<'s> {
    store: &'s Store,
    base: Snapshot<'s>,
    durability: Durability,
    /// The newest items, and the offset where they belong.
    buffer: Vec<u8>,
    buffer_offset: u64,
    /// The offset up to which the items are written: where the buffer begins, or within its first item.
    written: u64,
    /// CRC of the items up to the offset `summed`, without the bodies of leaves.
    crc: crc32fast::Hasher,
    summed: u64,
    additions: Additions,
    /// How many of each vector's additions the log has already.
    logged: [usize; VECTOR_SLOTS],
    /// Those that the snapshot will have beside the base's.
    features: Features,
    fill: Fill,
    /// How many records each index is to have soon, if it has none yet.
    expected: [u64; INDEX_SLOTS],
    own: [OwnRecords; INDEX_SLOTS],
    packing: Packing,
    lock: WriteLock<'s>,
}

/// What a transaction is in the log, now that it is committed.
struct Committed {
    revision: u64,
    /// Where its trailer is.
    head: u64,
    start: u64,
    end: u64,
}

/// As of this transaction: with what it has added.
impl Reader for Transaction<'_> {
    fn find(
        &self,
        index: IndexSlot,
        key: &Digest,
        is_it: impl Fn(&Record<'_>) -> bool,
    ) -> Result<Option<Record<'_>>> {
        if let Some(record) = self.find_own(index, key, &is_it)? {
            return Ok(Some(record));
        }
        let found = self.base.find(index, key, is_it)?;
        if found.is_none() {
            self.base.check_absence(index, key)?;
        }
        Ok(found)
    }

    fn record_at(&self, address: Address) -> Result<Record<'_>> {
        if address.0 < self.base.size() {
            return self.base.record_at(address);
        }
        let record = self.own_record(address);
        record.map_err(|fault| self.store.error(fault))
    }

    fn vector_len(&self, vector: VectorSlot) -> u64 {
        let pushed = &self.additions.vectors[usize::from(vector.number())];
        self.base.vector_len(vector) + pushed.len() as u64
    }

    fn vector_get(&self, vector: VectorSlot, element: u32) -> Result<Option<Address>> {
        let old = self.base.vector_len(vector);
        match u64::from(element).checked_sub(old) {
            None => self.base.vector_get(vector, element),
            Some(own) => {
                let pushed = &self.additions.vectors[usize::from(vector.number())];
                Ok(pushed.get(own as usize).copied())
            }
        }
    }
}

impl Store {
    /// Starts a transaction on top of the newest one. Waits for other writers.
    pub fn begin(&self, durability: Durability) -> Result<Transaction<'_>> {
        let lock = self.lock()?;
        let base = self.catch_up()?;
        self.check_writable(base.trailer())?;
        Transaction::new(self, lock, base, durability)
    }

    /// The same without waiting; `None` if there is another writer.
    pub fn try_begin(&self, durability: Durability) -> Result<Option<Transaction<'_>>> {
        self.check_not_read_only()?;
        let Some(lock) = self.try_lock()? else {
            return Ok(None);
        };
        self.check_in_place()?;
        let base = self.catch_up()?;
        self.check_writable(base.trailer())?;
        Transaction::new(self, lock, base, durability).map(Some)
    }
}

impl<'s> Transaction<'s> {
    pub(super) fn new(
        store: &'s Store,
        lock: WriteLock<'s>,
        base: Snapshot<'s>,
        durability: Durability,
    ) -> Result<Transaction<'s>> {
        let spare = sync::try_lock(store.spare()).and_then(|mut spare| spare.take());
        let Spare {
            buffer,
            own,
            packing,
        } = spare.unwrap_or_default();
        Ok(Transaction {
            store,
            base,
            durability,
            buffer,
            buffer_offset: base.size(),
            written: base.size(),
            crc: crc32fast::Hasher::new(),
            summed: base.size(),
            additions: Additions::default(),
            logged: [0; VECTOR_SLOTS],
            features: Features::default(),
            fill: Fill::default(),
            expected: [0; INDEX_SLOTS],
            own,
            packing,
            lock,
        })
    }

    /// The newest committed transaction, on which this one builds.
    pub fn base(&self) -> Snapshot<'s> {
        self.base
    }

    /// Ends this store's turn with this transaction: whoever waits to write comes before its next one.
    pub fn end_turn(&mut self) {
        self.lock.end_turn();
    }

    /// Adds a record to `index`, unless there is one of this key already.
    /// Returns the address of the one that is there then.
    pub fn insert(&mut self, index: IndexSlot, key: &Digest, value: &[u8]) -> Result<Address> {
        let value = |out: &mut Vec<u8>| -> Result<()> {
            out.extend_from_slice(value);
            Ok(())
        };
        Ok(self.insert_made(index, key, Known::Nothing, value)?.0)
    }

    /// Like [`insert`](Self::insert) of the value that `make` appends to the bytes it is given: where they will be written from, at a
    /// multiple of 8. It is called only if there is no record of this key. Also returns whether the record is new.
    ///
    /// # Errors
    /// `make`'s; then nothing is added.
    pub fn insert_made<E: From<Error>>(
        &mut self,
        index: IndexSlot,
        key: &Digest,
        known: Known,
        make: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(Address, bool), E> {
        if let Some(record) = self.find_unless(known, index, key, |_| true)? {
            return Ok((record.address, false));
        }
        let address = self.append_made(ItemKind::Record, index.number(), &key.0, make)?;
        self.enter(index, ItemKind::Record, key, address)?;
        Ok((address, true))
    }

    /// Adds a numbered record, of the first bytes of `key` and `value`, unless there is one of this key that `is_it`.
    /// It is the next element of the vector. Returns the address of the one that is there then, and whether it is new.
    pub fn insert_numbered(
        &mut self,
        slots: NumberedSlot,
        key: &Digest,
        value: &[u8],
        is_it: impl Fn(&Record<'_>) -> bool,
    ) -> Result<(Address, bool)> {
        let value = |out: &mut Vec<u8>| -> Result<()> {
            out.extend_from_slice(value);
            Ok(())
        };
        self.insert_numbered_made(slots, key, Known::Nothing, value, is_it)
    }

    /// Like [`insert_numbered`](Self::insert_numbered) of the value that `make` appends, as for [`insert_made`](Self::insert_made).
    ///
    /// # Errors
    /// `make`'s; then nothing is added.
    pub fn insert_numbered_made<E: From<Error>>(
        &mut self,
        slots: NumberedSlot,
        key: &Digest,
        known: Known,
        make: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
        is_it: impl Fn(&Record<'_>) -> bool,
    ) -> Result<(Address, bool), E> {
        let key = key.shortened();
        if let Some(record) = self.find_unless(known, slots.index, &key, is_it)? {
            return Ok((record.address, false));
        }
        let vector = usize::from(slots.vector.number());
        self.append_pushes_of(vector)?;
        let number = self.vector_len(slots.vector);
        u32::try_from(number).map_err(|_| self.too_large("vector is full"))?;
        let short = &key.0[..SHORT_KEY];
        let address = self.append_made(ItemKind::Numbered, slots.number(), short, make)?;
        self.additions.vectors[vector].push(address);
        self.logged[vector] += 1;
        self.enter(slots.index, ItemKind::Numbered, &key, address)?;
        Ok((address, true))
    }

    /// The record of `key` that `is_it`, looked for where it is not known to be absent.
    fn find_unless(
        &self,
        known: Known,
        index: IndexSlot,
        key: &Digest,
        is_it: impl Fn(&Record<'_>) -> bool,
    ) -> Result<Option<Record<'_>>> {
        match known {
            Known::Nothing => self.find(index, key, is_it),
            Known::NotInBase => self.find_own(index, key, &is_it),
            Known::Nowhere => Ok(None),
        }
    }

    /// Adds a record to `index` that takes the place of any older one of this
    /// key. Snapshots of earlier revisions still have that.
    pub fn replace(&mut self, index: IndexSlot, key: &Digest, value: &[u8]) -> Result<Address> {
        let kind = match self.get(index, key)? {
            Some(record) if record.value == value => return Ok(record.address),
            Some(_) => ItemKind::Replacement,
            None => ItemKind::Record,
        };
        self.append(kind, index, key, value)
    }

    /// Adds a record to `index` that takes the place of a damaged one of this key, without
    /// a look at that.
    pub fn supersede(&mut self, index: IndexSlot, key: &Digest, value: &[u8]) -> Result<Address> {
        self.append(ItemKind::Replacement, index, key, value)
    }

    /// Writes the bytes of a damaged record again, where it stands, if there is one that can only
    /// have been this: its check is that of the right bytes, or all but its check is right.
    /// Returns its address then. This is done at once, whether the transaction is committed or not:
    /// afterwards the log is again what it was.
    pub fn mend(
        &mut self,
        index: IndexSlot,
        key: &Digest,
        value: &[u8],
    ) -> Result<Option<Address>> {
        for address in self.base.candidates(index, key)? {
            for kind in [ItemKind::Record, ItemKind::Replacement] {
                let right = self.record_bytes(kind, index.number(), &key.0, value)?;
                if self.mend_at(address, &right)? {
                    return Ok(Some(address));
                }
            }
        }
        Ok(None)
    }

    /// Like [`mend`](Self::mend), of the numbered record that is the element `number` of its vector.
    pub fn mend_numbered(
        &mut self,
        slots: NumberedSlot,
        key: &Digest,
        value: &[u8],
        number: u32,
    ) -> Result<Option<Address>> {
        let Some(address) = self.base.vector_get(slots.vector, number)? else {
            return Ok(None);
        };
        let key = &key.0[..SHORT_KEY];
        let right = self.record_bytes(ItemKind::Numbered, slots.number(), key, value)?;
        Ok(self.mend_at(address, &right)?.then_some(address))
    }

    /// Writes the bytes of a record again, if what is there can only have been it.
    fn mend_at(&mut self, address: Address, right: &[u8]) -> Result<bool> {
        let view = self.base.view();
        // What reaches beyond the end was none of this length.
        let Ok(there) = view.bytes(address.0, right.len() as u64) else {
            return Ok(false);
        };
        let checked = right.len() - RECORD_CHECK as usize;
        let was_it = there[checked..] == right[checked..] || there[..checked] == right[..checked];
        if was_it && there != right {
            self.store.write_at(right, address.0)?;
        }
        Ok(was_it)
    }

    /// A record as it stands in the log, without padding.
    fn record_bytes(&self, kind: ItemKind, slot: u8, key: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        let length = key.len() as u64 + value.len() as u64 + RECORD_CHECK;
        let head = ItemHead::new(kind, slot, length);
        let head = head.ok_or_else(|| self.too_large("value"))?;
        let mut bytes = Vec::with_capacity(8 + length as usize);
        bytes.extend_from_slice(&head.0.to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(&record_check(&bytes).to_le_bytes());
        Ok(bytes)
    }

    /// Adds an element to the end of `vector` and returns its number.
    pub fn push(&mut self, vector: VectorSlot, element: Address) -> Result<u32> {
        let number = self.vector_len(vector);
        let number = u32::try_from(number).map_err(|_| self.too_large("vector is full"))?;
        self.additions.vectors[usize::from(vector.number())].push(element);
        Ok(number)
    }

    /// Sets features of the snapshot that the commit makes, which all later ones then have as well. For who adds what needs them
    /// (SPEC.md, section 3); if nothing is added, nothing is set.
    pub fn require(&mut self, features: Features) {
        self.features = self.features.union(features);
    }

    /// Has records of small values packed from here on, which makes them smaller and reading them slower (SPEC.md, section 5): for who fills a
    /// repository of which the size counts more.
    pub fn pack(&mut self) {
        self.packing.begin();
    }

    /// Whether records are packed.
    pub fn is_packing(&self) -> bool {
        self.packing.is_on()
    }

    /// Makes new leaves of indices nearly full: for who adds nearly all that there will be (a compaction). Later transactions add to them as long as
    /// there is room, and split them as ever.
    pub fn fill_leaves(&mut self) {
        self.fill = Fill::Dense;
    }

    /// Says that an index that has no records yet will have about so many, when this transaction is committed and others that come soon: its leaves
    /// are made for them at once. Else each would outgrow its leaves several times, and those that are outgrown stay in the log.
    pub fn expect(&mut self, index: IndexSlot, records: u64) {
        self.expected[usize::from(index.number())] = records;
    }

    /// How many records and elements of vectors it has added.
    pub fn added(&self) -> usize {
        let records: usize = self.additions.indices.iter().map(Vec::len).sum();
        let elements: usize = self.additions.vectors.iter().map(Vec::len).sum();
        records + elements
    }

    /// Commits what was added, waiting for nothing, and goes on as the next transaction, with all that [`fill_leaves`](Self::fill_leaves),
    /// [`expect`](Self::expect) and [`require`](Self::require) have said. For who adds more than should be remembered until one commit: other writers are kept waiting all the
    /// while, and no checkpoint is moved.
    ///
    /// # Errors
    /// As of [`commit`](Self::commit).
    pub fn commit_and_go_on(mut self) -> Result<Transaction<'s>> {
        let Some(committed) = self.publish()? else {
            return Ok(self);
        };
        self.store.start_write_back(committed.start, committed.end);
        let base = self.store.catch_up()?;
        self.base = base;
        self.buffer.clear();
        self.buffer_offset = base.size();
        self.written = base.size();
        self.summed = base.size();
        self.additions = Additions::default();
        self.logged = [0; VECTOR_SLOTS];
        self.own = Default::default();
        self.packing.forget();
        Ok(self)
    }

    /// Makes what was added the newest revision, and returns its number. A
    /// transaction that added nothing makes none.
    ///
    /// # Errors
    /// If the file cannot be written, above all because the disk is full: the
    /// repository is then as before the transaction. Only if the error comes
    /// from writing into pages that the file already has (a broken disk) may
    /// the transaction have been committed nevertheless; the next writer sees.
    /// [`Error::NotDurable`] says that it has been committed.
    pub fn commit(self) -> Result<u64> {
        self.commit_then(|_| ())
    }

    /// Like [`commit`](Self::commit), for who goes on in another transaction, which [follows](Self::follow) this one.
    ///
    /// # Errors
    /// Likewise.
    pub fn commit_part(self, earlier: &mut Earlier) -> Result<u64> {
        let mut own = Default::default();
        let revision =
            self.commit_then(|transaction| own = std::mem::take(&mut transaction.own))?;
        *earlier = Earlier { revision, own };
        Ok(revision)
    }

    /// Goes on from `earlier` transactions of the same writer, if nobody has committed anything since: what is
    /// [not in the base](Known::NotInBase) of this one may be said of the first one's base then.
    pub fn follow(&mut self, earlier: &mut Earlier) {
        let Earlier { revision, own } = std::mem::take(earlier);
        if revision == self.base.revision() {
            self.own = own;
        }
    }

    /// Commits; once it is sure to, `then` sees what was added.
    fn commit_then(mut self, then: impl FnOnce(&mut Self)) -> Result<u64> {
        let Some(committed) = self.publish()? else {
            then(&mut self);
            return Ok(self.base.revision());
        };
        let (store, durability) = (self.store, self.durability);
        if durability == Durability::Durable {
            self.lock.end_turn();
        }
        then(&mut self);
        drop(self);

        let Committed {
            revision,
            head,
            start,
            end,
        } = committed;
        let settled = match durability {
            Durability::Lazy => store.settle(start, end),
            Durability::Durable => {
                (store.wait_for_disk(head)).and_then(|()| store.settle(start, end))
            }
        };
        settled.map_err(|source| Error::NotDurable {
            path: store.path().to_owned(),
            revision,
            source: Box::new(source),
        })?;
        Ok(revision)
    }

    /// Writes and publishes what was added, if anything was.
    fn publish(&mut self) -> Result<Option<Committed>> {
        if self.added() == 0 {
            return Ok(None);
        }
        self.append_pushes()?;
        self.close_pack()?;
        let mut tries = self.base.trailer().tries();
        let (in_place, replaced) = self.grow_tries(&mut tries)?;
        let trailer = self.append_trailer(&tries, replaced)?;

        let store = self.store;
        store.write_at(self.unwritten(), self.written)?;
        let head = trailer.offset;
        store.write_state(offset_of!(FileState, head), &[head])?;
        in_place.write(store, head)?;
        store.write_state(offset_of!(FileState, visible), &[head])?;
        Ok(Some(Committed {
            revision: trailer.revision,
            head,
            start: trailer.start,
            end: self.buffer_offset + self.buffer.len() as u64,
        }))
    }

    fn find_own(
        &self,
        index: IndexSlot,
        key: &Digest,
        is_it: impl Fn(&Record<'_>) -> bool,
    ) -> Result<Option<Record<'_>>> {
        let own = &self.own[usize::from(index.number())];
        let found = own.find(key, |address| self.own_record(address), is_it);
        found.map_err(|fault| self.store.error(fault))
    }

    fn own_record(&self, address: Address) -> Result<Record<'_>, Fault> {
        if let Some(bytes) = self.packing.find(address.0) {
            return Ok(parse_record(bytes, address)?.1);
        }
        match address.0.checked_sub(self.buffer_offset) {
            Some(start) => {
                let bytes = self.buffer.get(start as usize..).unwrap_or_default();
                Ok(parse_record(bytes, address)?.1)
            }
            // Written already, so the file has it.
            None => {
                let view = self.store.view(self.buffer_offset);
                let view = view.map_err(|_| Fault::new(address.0, "is beyond the file"))?;
                Ok(record_at(view, address)?.1)
            }
        }
    }

    fn append(
        &mut self,
        kind: ItemKind,
        index: IndexSlot,
        key: &Digest,
        value: &[u8],
    ) -> Result<Address> {
        let address = self.append_made(kind, index.number(), &key.0, |out| -> Result<()> {
            out.extend_from_slice(value);
            Ok(())
        })?;
        self.enter(index, kind, key, address)?;
        Ok(address)
    }

    /// Notes a record that has been appended.
    fn enter(
        &mut self,
        index: IndexSlot,
        kind: ItemKind,
        key: &Digest,
        address: Address,
    ) -> Result<()> {
        let slot = usize::from(index.number());
        let bits = KeyBits::of(key, 0);
        self.additions.indices[slot].push(Entry { address, bits });
        if kind != ItemKind::Replacement {
            self.additions.new_keys[slot] += 1;
        }
        let mut own = std::mem::take(&mut self.own[slot]);
        let added = match kind {
            ItemKind::Replacement => own.replace(key, address, |address| self.own_record(address)),
            _ => {
                own.add(key, address);
                Ok(())
            }
        };
        self.own[slot] = own;
        added.map_err(|fault| self.store.error(fault))
    }

    /// Appends an item without a key, and returns where it is.
    fn append_item(&mut self, kind: ItemKind, slot: u8, body: &[u8]) -> Result<Address> {
        self.append_made(kind, slot, &[], |out| {
            out.extend_from_slice(body);
            Ok(())
        })
    }

    /// Appends an item, or adds a record to the open pack, and returns where it is: its key, and what `make` appends. A record gets its check.
    fn append_made<E: From<Error>>(
        &mut self,
        kind: ItemKind,
        slot: u8,
        key: &[u8],
        make: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Address, E> {
        if self.packing.is_on() && kind.key_length().is_some() {
            if self.packing.must_close_for(kind) {
                self.close_pack()?;
            }
            let pack = self.buffer_offset + self.buffer.len() as u64;
            // Before it is added: what is in the pack must be in the index as well.
            self.check_room(pack, self.packing.size_with_another() as u64)?;
            let record = match self.packing.add((kind, slot, key), pack, make)? {
                Packed::In(number) => return Ok(Address(pack::address_in(pack, number))),
                Packed::TooLarge(record) => record,
            };
            let start = self.begin_item()?;
            self.buffer.extend_from_slice(&record);
            return Ok(self.end_item(kind, slot, start)?);
        }
        let start = self.begin_item()?;
        self.buffer.extend_from_slice(key);
        if let Err(error) = make(&mut self.buffer) {
            self.buffer.truncate(start);
            return Err(error);
        }
        Ok(self.end_item(kind, slot, start)?)
    }

    /// Makes room for an item's head, and returns where in the buffer it begins.
    fn begin_item(&mut self) -> Result<usize> {
        // The open pack is the last thing in the log as long as it is open.
        self.close_pack()?;
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; size_of::<ItemHead>()]);
        Ok(start)
    }

    /// Ends the item that begins at `start` in the buffer, and returns its address. If that fails, it is not there.
    fn end_item(&mut self, kind: ItemKind, slot: u8, start: usize) -> Result<Address> {
        let address = self.buffer_offset + start as u64;
        if let Err(error) = self.complete(kind, slot, start) {
            self.buffer.truncate(start);
            return Err(error);
        }
        self.pad(ITEM_ALIGN);
        self.make_room(address)?;
        Ok(Address(address))
    }

    /// Brings the open pack into the log, if there is one.
    fn close_pack(&mut self) -> Result<()> {
        let closed = self.packing.close(&mut self.buffer);
        let closed = closed.map_err(|source| Error::Io {
            path: self.store.path().to_owned(),
            action: "compress records for",
            source,
        })?;
        if let Some(address) = closed {
            self.pad(ITEM_ALIGN);
            self.require(Features {
                incompatible: Features::PACKS,
                ..Features::default()
            });
            self.make_room(address)?;
        }
        Ok(())
    }

    /// Writes the full pages of the buffer, if much has gathered there. What is at `last` stays.
    fn make_room(&mut self, last: u64) -> Result<()> {
        if self.buffer.len() < FLUSH_AT {
            return Ok(());
        }
        let end = (self.buffer_offset + self.buffer.len() as u64) / HUGE_PAGE * HUGE_PAGE;
        // Items before this one can be read from the file, then.
        if end > last {
            self.sum_up_to(end);
            let start = self.written;
            let bytes = &self.unwritten()[..(end - start) as usize];
            self.store.write_at(bytes, start)?;
            self.written = end;
            self.store.start_write_back(start, end);
            self.buffer.drain(..(last - self.buffer_offset) as usize);
            self.buffer_offset = last;
        }
        Ok(())
    }

    /// Takes the items up to the offset `end` into the CRC, unless they are.
    fn sum_up_to(&mut self, end: u64) {
        if self.summed < end {
            let place = |offset: u64| (offset - self.buffer_offset) as usize;
            let bytes = &self.buffer[place(self.summed)..place(end)];
            self.crc.update(bytes);
            self.summed = end;
        }
    }

    /// Writes the head of the item that the buffer has from `start` on, and a record's check.
    fn complete(&mut self, kind: ItemKind, slot: u8, start: usize) -> Result<()> {
        let is_record = kind.key_length().is_some();
        let check_length = if is_record { RECORD_CHECK } else { 0 };
        let (head, body) = self.buffer[start..].split_at_mut(size_of::<ItemHead>());
        let length = body.len() as u64 + check_length;
        let item = ItemHead::new(kind, slot, length);
        head.copy_from_slice(&item.map_or(0, |item| item.0).to_le_bytes());
        item.ok_or_else(|| self.too_large("value"))?;
        self.check_room(self.buffer_offset + start as u64, 8 + length)?;
        if is_record {
            let check = record_check(&self.buffer[start..]);
            self.buffer.extend_from_slice(&check.to_le_bytes());
        }
        Ok(())
    }

    fn check_room(&self, address: u64, length: u64) -> Result<()> {
        // Some more for what ends the transaction.
        let end = address + length + 2 * MAX_TRAILER_SIZE;
        if end > MAX_ADDRESS {
            return Err(self.too_large("file"));
        }
        if end > self.store.reserve() {
            return Err(self.too_large("beyond the reserved address space; open it again"));
        }
        Ok(())
    }

    fn pad(&mut self, align: u64) {
        let end = self.buffer_offset + self.buffer.len() as u64;
        let padding = end.next_multiple_of(align) - end;
        self.buffer.resize(self.buffer.len() + padding as usize, 0);
    }

    /// What is in the buffer only.
    fn unwritten(&self) -> &[u8] {
        &self.buffer[(self.written - self.buffer_offset) as usize..]
    }

    fn append_pushes(&mut self) -> Result<()> {
        (0..VECTOR_SLOTS).try_for_each(|slot| self.append_pushes_of(slot))
    }

    /// Brings the elements of a vector into the log that are not there yet.
    fn append_pushes_of(&mut self, slot: usize) -> Result<()> {
        let elements = std::mem::take(&mut self.additions.vectors[slot]);
        let left = &elements[self.logged[slot]..];
        self.logged[slot] = elements.len();
        let appended = match left {
            [] => Ok(()),
            _ => {
                let bytes = bytemuck::cast_slice(left);
                self.append_item(ItemKind::Push, slot as u8, bytes)
                    .map(|_| ())
            }
        };
        self.additions.vectors[slot] = elements;
        appended
    }

    /// Enters all additions into the tries: writes new leaves and nodes. Returns what is to be done to the old
    /// leaves, and the indices that have had a replacement, a bit each.
    fn grow_tries(&mut self, tries: &mut Tries) -> Result<(InPlace, u32)> {
        let base = self.base;
        let mut replaced = base.trailer().replaced;
        let mut in_place = InPlace::default();
        let mut additions = std::mem::take(&mut self.additions);
        for index in IndexSlot::all() {
            let slot = usize::from(index.number());
            let has_replacement = additions.has_replacement(slot);
            let entries = &mut additions.indices[slot];
            if entries.is_empty() {
                continue;
            }
            let root = &mut tries.indices[slot];
            let expected = self.expected[slot];
            root.root = update::index(self, &base, (index, expected), entries, &mut in_place)?;
            root.count += additions.new_keys[slot];
            replaced |= u32::from(has_replacement) << slot;
        }
        for vector in VectorSlot::all() {
            let slot = usize::from(vector.number());
            let elements = &additions.vectors[slot];
            if elements.is_empty() {
                continue;
            }
            let root = &mut tries.vectors[slot];
            root.root = update::vector(self, &base, vector, elements, &mut in_place)?;
            root.length += elements.len() as u64;
        }
        Ok((in_place, replaced))
    }

    fn append_trailer(&mut self, tries: &Tries, replaced: u32) -> Result<TrailerStart> {
        let offset = self.buffer_offset + self.buffer.len() as u64;
        self.sum_up_to(offset);
        let payload_crc = std::mem::take(&mut self.crc).finalize();
        let base = self.base.trailer();
        let jump =
            log::jump_after(self.base.view(), base).map_err(|fault| self.store.error(fault))?;
        let start = TrailerStart {
            offset,
            revision: (base.revision)
                .checked_add(1)
                .ok_or_else(|| self.too_large("no more revisions"))?,
            // Time does not go backwards, whatever the clock does.
            time: self.store.system().now().max(base.time),
            start: base.end(),
            previous: base.offset,
            jump,
            previous_nonce: base.nonce,
            nonce: self.store.nonce(),
            features: base.features.union(self.features),
            replaced,
            ..TrailerStart::zeroed()
        };
        let bytes = Trailer::make(&start, tries, payload_crc);
        let bytes = bytes.ok_or_else(|| self.too_large("index is full"))?;
        self.buffer.extend_from_slice(&bytes);
        Ok(start)
    }

    fn too_large(&self, what: &'static str) -> Error {
        Error::TooLarge {
            path: self.store.path().to_owned(),
            what,
        }
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        let mut spare = Spare {
            buffer: std::mem::take(&mut self.buffer),
            own: std::mem::take(&mut self.own),
            packing: std::mem::take(&mut self.packing),
        };
        spare.clear(FLUSH_AT);
        if let Some(mut place) = sync::try_lock(self.store.spare()) {
            *place = Some(spare);
        }
    }
}

impl std::fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("base", &self.base)
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

impl Keys for Transaction<'_> {
    type Error = Error;
    fn key(&self, address: Address) -> Result<Digest> {
        Ok(self.record_at(address)?.key())
    }
    fn error(&self, fault: Fault) -> Error {
        self.store.error(fault)
    }
}

impl Writer for Transaction<'_> {
    fn append_leaf(&mut self, kind: ItemKind, slot: u8, words: &[u64]) -> Result<Address> {
        let bytes: &[u8] = bytemuck::cast_slice(words);
        let head = ItemHead::new(kind, slot, bytes.len() as u64);
        let head = head.ok_or_else(|| self.too_large("leaf"))?;
        let end = self.buffer_offset + self.buffer.len() as u64;
        self.check_room(end, 8 + LEAF_ALIGN + bytes.len() as u64)?;
        self.buffer.extend_from_slice(&head.0.to_le_bytes());
        self.pad(LEAF_ALIGN);
        let address = self.buffer_offset + self.buffer.len() as u64;
        // The head belongs to what the CRC is of, the contents do not.
        self.sum_up_to(address);
        self.buffer.extend_from_slice(bytes);
        self.summed += bytes.len() as u64;
        self.make_room(address)?;
        Ok(Address(address))
    }

    fn fill(&self) -> Fill {
        self.fill
    }

    fn append_node(&mut self, kind: ItemKind, slot: u8, words: &[u64]) -> Result<Address> {
        self.append_item(kind, slot, bytemuck::cast_slice(words))
    }

    fn too_large(&self, what: &'static str) -> Error {
        Transaction::too_large(self, what)
    }
}
