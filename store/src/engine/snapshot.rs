//! Reading: a view of the repository as of one transaction.

use super::Store;
use super::error::{Error, Fault, Result};
use super::log::{self, Record};
use super::map::View;
use super::table;
use format_spec::digest::Digest;
use format_spec::file::{IndexRoot, Trailer, VectorRoot};
use format_spec::ids::Address;
use std::sync::atomic::Ordering;

/// The repository as of one transaction. It never changes, costs nothing to
/// copy, allocates nothing, and neither waits for writers nor holds them up.
///
/// All that it returns is borrowed from the file's mapping.
#[derive(Clone, Copy)]
pub struct Snapshot<'s> {
    store: &'s Store,
    trailer: &'s Trailer,
    view: View<'s>,
}

/// Something that a transaction added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addition<'s> {
    /// A record, which may have taken the place of an older one of its key.
    Record {
        /// The index it is in.
        index: u8,
        /// The record.
        record: Record<'s>,
    },
    /// An element at the end of a vector.
    Push {
        /// The vector.
        vector: u8,
        /// The element.
        element: Address,
    },
}

impl<'s> Snapshot<'s> {
    pub(super) fn new(store: &'s Store, trailer: &'s Trailer, view: View<'s>) -> Snapshot<'s> {
        Snapshot {
            store,
            trailer,
            view: view.up_to(log::end_of(trailer)),
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
    pub fn trailer(&self) -> &'s Trailer {
        self.trailer
    }

    /// The store that this is a snapshot of.
    pub fn store(&self) -> &'s Store {
        self.store
    }

    /// The record of `key` in `index`.
    #[inline]
    pub fn get(&self, index: u8, key: &Digest) -> Result<Option<Record<'s>>> {
        let Some(root) = self.trailer.indices.get(usize::from(index)) else {
            return Ok(None);
        };
        table::find(self.view, index, root, key).map_err(|fault| self.error(fault))
    }

    /// The record at `address`, which came from [`Record::address`] or a vector.
    #[inline]
    pub fn record_at(&self, address: Address) -> Result<Record<'s>> {
        match log::record_at(self.view, address) {
            Ok((_, record)) => Ok(record),
            Err(fault) => Err(self.error(fault)),
        }
    }

    /// Has the processor begin to fetch the start of the record at `address`. It is no error if there is none.
    #[inline]
    pub fn prefetch(&self, address: Address) {
        self.view.prefetch(address.0);
    }

    /// Number of elements of `vector`.
    pub fn vector_len(&self, vector: u8) -> u64 {
        self.vector_root(vector).length
    }

    /// An element of `vector`; `None` beyond its end.
    #[inline]
    pub fn vector_get(&self, vector: u8, element: u32) -> Result<Option<Address>> {
        let root = self.vector_root(vector);
        let element = u64::from(element);
        if element >= root.length {
            return Ok(None);
        }
        let words = table::words(self.view, root.table).map_err(|fault| self.error(fault))?;
        match words.get(element as usize) {
            Some(word) => Ok(Some(Address(word.load(Ordering::Relaxed)))),
            None => Err(self.error(Fault::new(root.table.address(), "vector is too short"))),
        }
    }

    /// Number of keys in `index`.
    pub fn count(&self, index: u8) -> u64 {
        self.index_root(index).count
    }

    /// The records of `index`, in the order of the first bits of their keys.
    pub fn iter(&self, index: u8) -> impl Iterator<Item = Result<Record<'s>>> + use<'s> {
        let snapshot = *self;
        let root = self.index_root(index);
        let (words, fault) = if root.table.is_none() {
            (&[][..], None)
        } else {
            match table::words(self.view, root.table) {
                Ok(words) => (words, None),
                Err(fault) => (&[][..], Some(Err(self.error(fault)))),
            }
        };
        let records = words.iter().filter_map(move |word| {
            let address = format_spec::table::address(word.load(Ordering::Relaxed));
            if address.0 == 0 || address.0 >= snapshot.view.end() {
                return None;
            }
            let record = match snapshot.record_at(address) {
                Ok(record) => record,
                Err(error) => return Some(Err(error)),
            };
            if root.used == root.count {
                return Some(Ok(record));
            }
            // Leave out what was replaced.
            match snapshot.get(index, record.key) {
                Ok(Some(newest)) => (newest.address == address).then_some(Ok(record)),
                Ok(None) => None,
                Err(error) => Some(Err(error)),
            }
        });
        fault.into_iter().chain(records)
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
    ) -> impl Iterator<Item = Result<Addition<'s>>> + use<'s> {
        let snapshot = *self;
        log::items(self.view, earlier.size(), self.size()).flat_map(move |item| {
            let parsed = item.and_then(|item| {
                let record = item.record()?.map(|record| Addition::Record {
                    index: item.slot,
                    record,
                });
                let pushed = item.pushed()?.iter().map(move |&element| Addition::Push {
                    vector: item.slot,
                    element,
                });
                Ok(record.into_iter().chain(pushed))
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

    fn index_root(&self, index: u8) -> IndexRoot {
        let root = self.trailer.indices.get(usize::from(index));
        root.copied().unwrap_or_default()
    }

    fn vector_root(&self, vector: u8) -> VectorRoot {
        let root = self.trailer.vectors.get(usize::from(vector));
        root.copied().unwrap_or_default()
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
