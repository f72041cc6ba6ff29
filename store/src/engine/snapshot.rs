//! Reading: a view of the repository as of one transaction.

use super::error::{Error, Fault, Result};
use super::leaf;
use super::log::{self, PackSize};
use super::map::View;
use super::record::Record;
use super::store::Store;
use super::trie::{self, Walk};
use format_spec::digest::Digest;
use format_spec::file::{Features, FileState, IndexSlot, LEAF_ALIGN, VectorSlot};
use format_spec::ids::Address;
use format_spec::trailer::{IndexRoot, Trailer, VectorRoot};
use format_spec::trie::Child;
use std::mem::offset_of;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// The repository as of one transaction. It never changes, costs nothing to
/// copy, allocates nothing, and neither waits for writers nor holds them up.
///
/// All that it returns is borrowed from the file's mapping.
#[derive(Clone, Copy)]
pub struct Snapshot<'s> {
    store: &'s Store,
    trailer: Trailer<'s>,
    view: View<'s>,
}

/// Something that a transaction added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended<'s> {
    /// A record, which may have taken the place of an older one of its key.
    Record {
        /// The index it is in.
        index: IndexSlot,
        /// The record.
        record: Record<'s>,
    },
    /// An element at the end of a vector; that of a numbered record comes right after it.
    Push {
        /// The vector.
        vector: VectorSlot,
        /// The element.
        element: Address,
    },
}

/// How large the trie of an index or a vector is, in one snapshot. (Its older nodes and leaves
/// are in the log, too.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrieSize {
    /// Number of nodes.
    pub nodes: u64,
    /// Number of leaves.
    pub leaves: u64,
    /// Number of words that the leaves have room for.
    pub words: u64,
    /// Bytes of both in the log.
    pub bytes: u64,
}

impl TrieSize {
    fn of(walk: &Walk<'_>) -> TrieSize {
        let leaves = walk.leaves.len() as u64;
        let words: u64 = walk.leaves.iter().map(|(leaf, _)| 1 << leaf.log2()).sum();
        TrieSize {
            nodes: walk.nodes.len() as u64,
            leaves,
            words,
            // A leaf's head stands in the line before its words.
            bytes: words * 8 + leaves * LEAF_ALIGN + walk.node_bytes,
        }
    }
}

fn ranges(walk: &Walk<'_>) -> Vec<Range<u64>> {
    let range = |leaf: Child| leaf.address()..leaf.address() + (8 << leaf.log2());
    walk.leaves.iter().map(|(leaf, _)| range(*leaf)).collect()
}

impl Store {
    /// The newest committed transaction that readers can see.
    ///
    /// Takes no lock and allocates nothing.
    pub fn snapshot(&self) -> Result<Snapshot<'_>> {
        let offset = self.state_offset(offset_of!(FileState, visible))?;
        self.snapshot_of(offset)
    }

    /// The repository as it was at `revision`.
    pub fn snapshot_at(&self, revision: u64) -> Result<Snapshot<'_>> {
        let newest = self.any_snapshot_of(self.state_offset(offset_of!(FileState, visible))?)?;
        let found = log::find_revision(newest.view(), newest.trailer(), revision)
            .map_err(|fault| self.error(fault))?;
        match found {
            Some(trailer) => self.readable(Snapshot::new(self, trailer, newest.view())),
            None => Err(Error::NoSuchRevision {
                path: self.path().to_owned(),
                revision,
            }),
        }
    }

    /// Size of the newest snapshot, in bytes. The file may be longer, by what
    /// an unfinished transaction left.
    pub fn size(&self) -> Result<u64> {
        Ok(self.snapshot()?.size())
    }

    pub(super) fn snapshot_of(&self, offset: u64) -> Result<Snapshot<'_>> {
        self.readable(self.any_snapshot_of(offset)?)
    }

    /// Whatever features it has.
    fn any_snapshot_of(&self, offset: u64) -> Result<Snapshot<'_>> {
        let trailer = self.trailer(offset)?;
        let view = self.view(trailer.end())?;
        Ok(Snapshot::new(self, trailer, view))
    }

    /// Refuses a snapshot with features that this program must know to read it.
    fn readable<'s>(&self, snapshot: Snapshot<'s>) -> Result<Snapshot<'s>> {
        let features = self.features().union(snapshot.trailer().features);
        self.check_features("read", features.bar_reading(Features::KNOWN))?;
        Ok(snapshot)
    }
}

impl<'s> Snapshot<'s> {
    pub(super) fn new(store: &'s Store, trailer: Trailer<'s>, view: View<'s>) -> Snapshot<'s> {
        Snapshot {
            store,
            trailer,
            view: view.up_to(trailer.end()),
        }
    }

    /// Number of the transaction; 0 is the empty repository.
    pub fn revision(&self) -> u64 {
        self.trailer.revision
    }

    /// When it was committed, in nanoseconds since 1970.
    pub fn time(&self) -> u64 {
        self.trailer.time
    }

    /// Where its log ends: the size of the repository, in bytes.
    pub fn size(&self) -> u64 {
        self.view.end()
    }

    /// The transaction's trailer.
    pub fn trailer(&self) -> &Trailer<'s> {
        &self.trailer
    }

    /// The features of the file and of the transaction.
    pub fn features(&self) -> Features {
        self.store.features().union(self.trailer.features)
    }

    /// The store that this is a snapshot of.
    pub fn store(&self) -> &'s Store {
        self.store
    }

    /// The record of `key` in `index`.
    #[inline]
    pub fn get(&self, index: IndexSlot, key: &Digest) -> Result<Option<Record<'s>>> {
        self.find(index, key, |_| true)
    }

    /// The record of `key` in `index` that `is_it`: for numbered records, of which several may have one key.
    #[inline]
    pub fn find(
        &self,
        index: IndexSlot,
        key: &Digest,
        is_it: impl Fn(&Record<'s>) -> bool,
    ) -> Result<Option<Record<'s>>> {
        let number = index.number();
        let root = self.trailer.index(index);
        let found = trie::leaf_of(self.view, &root, key).and_then(|leaf| {
            if leaf.is_none() {
                return Ok(None);
            }
            let kind = (index, self.trailer.has_replaced(number));
            leaf::find(self.view, kind, leaf, key, is_it)
        });
        match found {
            Ok(found) => Ok(found),
            Err(fault) => Err(self.error(fault)),
        }
    }

    /// Like [`find`](Self::find); but where there is nothing, what says so is checked, for who is going to add it
    /// ([`Known`](super::Known)).
    pub fn find_or_check(
        &self,
        index: IndexSlot,
        key: &Digest,
        is_it: impl Fn(&Record<'s>) -> bool,
    ) -> Result<Option<Record<'s>>> {
        let found = self.find(index, key, is_it)?;
        if found.is_none() {
            self.check_absence(index, key)?;
        }
        Ok(found)
    }

    /// Checks what says that `index` has no record of `key`: for a writer, who would
    /// else add a second one.
    pub(super) fn check_absence(&self, index: IndexSlot, key: &Digest) -> Result<()> {
        let root = self.index_root(index);
        trie::leaf_of(self.view, &root, key)
            .and_then(|leaf| match leaf.is_none() {
                true => Ok(()),
                false => leaf::check_absence(self.view, leaf, key),
            })
            .map_err(|fault| self.error(fault))
    }

    /// Where records of `index` are that could be `key`'s: usually that one, if there is one.
    /// Found without a look at the records, so also where they are damaged.
    pub fn candidates(&self, index: IndexSlot, key: &Digest) -> Result<Vec<Address>> {
        let root = self.index_root(index);
        trie::leaf_of(self.view, &root, key)
            .and_then(|leaf| match leaf.is_none() {
                true => Ok(Vec::new()),
                false => leaf::candidates(self.view, leaf, key),
            })
            .map_err(|fault| self.error(fault))
    }

    /// The record at `address`, which came from [`Record::address`] or a vector.
    #[inline]
    pub fn record_at(&self, address: Address) -> Result<Record<'s>> {
        match log::record_at(self.view, address) {
            Ok((_, record)) => Ok(record),
            Err(fault) => Err(self.error(fault)),
        }
    }

    /// The pack that holds the record at `address`; `None` if that stands by itself.
    pub fn pack_of(&self, address: Address) -> Result<Option<PackSize>> {
        log::pack_with(self.view, address).map_err(|fault| self.error(fault))
    }

    /// Has the processor begin to fetch the start of the record at `address`. It is no error if there is none.
    #[inline]
    pub fn prefetch(&self, address: Address) {
        self.view.prefetch(address.0);
    }

    /// Number of elements of `vector`.
    pub fn vector_len(&self, vector: VectorSlot) -> u64 {
        self.vector_root(vector).length
    }

    /// An element of `vector`; `None` beyond its end.
    #[inline]
    pub fn vector_get(&self, vector: VectorSlot, element: u32) -> Result<Option<Address>> {
        let root = self.vector_root(vector);
        let element = u64::from(element);
        if element >= root.length {
            return Ok(None);
        }
        match trie::element_address(self.view, &root, element) {
            Ok(address) => Ok(Some(address)),
            Err(fault) => Err(self.error(fault)),
        }
    }

    /// Whether a record of an index has ever taken the place of another one. If not, there is one of each key.
    pub fn has_replaced(&self, index: IndexSlot) -> bool {
        self.trailer.has_replaced(index.number())
    }

    /// Number of keys in `index`.
    pub fn count(&self, index: IndexSlot) -> u64 {
        self.index_root(index).count
    }

    /// The records of `index`, in the order of the first bits of their keys.
    pub fn iter(&self, index: IndexSlot) -> impl Iterator<Item = Result<Record<'s>>> + use<'s> {
        let snapshot = *self;
        let walk = Walk::index(self.view, index.number(), &self.index_root(index), 0);
        let (leaves, fault) = match walk {
            Ok(walk) => (walk.leaves, None),
            Err(fault) => (Vec::new(), Some(Err(self.error(fault)))),
        };
        let records = leaves.into_iter().flat_map(move |(leaf, _)| {
            // The walk has seen that the words are there.
            let words = leaf::words(snapshot.view, leaf).unwrap_or_default();
            words.iter().filter_map(move |word| {
                let word = word.load(Ordering::Relaxed);
                let address = format_spec::leaf::address(word);
                if address.0 == 0 || address.0 >= snapshot.view.end() {
                    return None;
                }
                let record = match leaf::led_to(snapshot.view, index, word) {
                    Ok(record) => record,
                    Err(fault) => return Some(Err(snapshot.error(fault))),
                };
                if !snapshot.trailer.has_replaced(index.number()) {
                    return Some(Ok(record));
                }
                // Leave out what was replaced.
                match snapshot.get(index, &record.key()) {
                    Ok(Some(newest)) => (newest.address == address).then_some(Ok(record)),
                    Ok(None) => None,
                    Err(error) => Some(Err(error)),
                }
            })
        });
        fault.into_iter().chain(records)
    }

    /// Where the words of the leaves of `index` are, in the order of the keys.
    pub fn index_leaves(&self, index: IndexSlot) -> Result<Vec<Range<u64>>> {
        let walk = Walk::index(self.view, index.number(), &self.index_root(index), 0);
        walk.map(|walk| ranges(&walk))
            .map_err(|fault| self.error(fault))
    }

    /// Where the words of the leaves of `vector` are, in the order of the elements.
    pub fn vector_leaves(&self, vector: VectorSlot) -> Result<Vec<Range<u64>>> {
        let walk = Walk::vector(self.view, vector.number(), &self.vector_root(vector), 0);
        walk.map(|walk| ranges(&walk))
            .map_err(|fault| self.error(fault))
    }

    /// How large the trie of `index` is.
    pub fn index_size(&self, index: IndexSlot) -> Result<TrieSize> {
        let walk = Walk::index(self.view, index.number(), &self.index_root(index), 0);
        walk.map(|walk| TrieSize::of(&walk))
            .map_err(|fault| self.error(fault))
    }

    /// How large the trie of `vector` is.
    pub fn vector_size(&self, vector: VectorSlot) -> Result<TrieSize> {
        let walk = Walk::vector(self.view, vector.number(), &self.vector_root(vector), 0);
        walk.map(|walk| TrieSize::of(&walk))
            .map_err(|fault| self.error(fault))
    }

    /// This transaction and those before it, newest first. Ends after an error.
    pub fn revisions(&self) -> impl Iterator<Item = Result<Snapshot<'s>>> + use<'s> {
        let snapshot = *self;
        let mut next = Some(Ok(snapshot));
        std::iter::from_fn(move || {
            let current = next.take()?;
            if let Ok(current) = &current
                && current.revision() > 0
            {
                let previous =
                    log::trailer_at(snapshot.view, current.trailer.previous).and_then(|previous| {
                        let ordered = previous.revision == current.revision() - 1;
                        let fault = Fault::new(previous.offset, "trailer's links are wrong");
                        ordered.then_some(previous).ok_or(fault)
                    });
                next = Some(match previous {
                    Ok(trailer) => Ok(Snapshot::new(snapshot.store, trailer, snapshot.view)),
                    Err(fault) => Err(snapshot.error(fault)),
                });
            }
            Some(current)
        })
    }

    /// What was added after `earlier`, an older snapshot of the same store, up
    /// to this one, in the order of the log. Ends after an error.
    pub fn additions_since(
        &self,
        earlier: &Snapshot<'s>,
    ) -> impl Iterator<Item = Result<Appended<'s>>> + use<'s> {
        let snapshot = *self;
        log::items(self.view, earlier.size(), self.size()).flat_map(move |item| {
            let parsed = item.and_then(|item| {
                let no_slot = || Fault::new(item.offset, "item's slot is out of range");
                let mut added = Vec::new();
                for record in item.records() {
                    let record = record?;
                    let index = record.index().ok_or_else(no_slot)?;
                    added.push(Appended::Record { index, record });
                    let element = record.address;
                    let vector = record.vector();
                    added.extend(vector.map(|vector| Appended::Push { vector, element }));
                }
                let elements = item.pushed()?;
                let vector = match elements {
                    [] => None,
                    _ => Some(VectorSlot::new(item.head.slot()).ok_or_else(no_slot)?),
                };
                let pushed = vector.into_iter().flat_map(move |vector| {
                    let push = move |&element| Appended::Push { vector, element };
                    elements.iter().map(push)
                });
                Ok(added.into_iter().chain(pushed))
            });
            let (additions, fault) = match parsed {
                Ok(additions) => (Some(additions), None),
                Err(fault) => (None, Some(Err(snapshot.error(fault)))),
            };
            additions.into_iter().flatten().map(Ok).chain(fault)
        })
    }

    pub(super) fn view(&self) -> View<'s> {
        self.view
    }

    pub(super) fn index_root(&self, index: IndexSlot) -> IndexRoot {
        self.trailer.index(index)
    }

    pub(super) fn vector_root(&self, vector: VectorSlot) -> VectorRoot {
        self.trailer.vector(vector)
    }

    #[cold]
    pub(super) fn error(&self, fault: Fault) -> Error {
        fault.at(self.store.path())
    }
}

impl std::fmt::Debug for Snapshot<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("revision", &self.revision())
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}
