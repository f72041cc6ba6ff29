//! What snapshots and transactions both read: a snapshot what is committed, a transaction also what it has added itself.

use super::error::Result;
use super::record::Record;
use super::snapshot::Snapshot;
use format_spec::digest::Digest;
use format_spec::file::{IndexSlot, VectorSlot};
use format_spec::ids::Address;

/// Whatever records and vectors can be read from. (A [`Snapshot`] has functions of the same names, whose records live as long as
/// the snapshot's store.)
pub trait Reader {
    /// The record of `key` in `index`.
    ///
    /// # Errors
    /// If the file is damaged there.
    fn get(&self, index: IndexSlot, key: &Digest) -> Result<Option<Record<'_>>> {
        self.find(index, key, |_| true)
    }

    /// The record of `key` in `index` that `is_it`: for numbered records, of which several may have one key.
    ///
    /// # Errors
    /// If the file is damaged there.
    fn find(
        &self,
        index: IndexSlot,
        key: &Digest,
        is_it: impl Fn(&Record<'_>) -> bool,
    ) -> Result<Option<Record<'_>>>;

    /// The record at `address`, which came from [`Record::address`] or a vector.
    ///
    /// # Errors
    /// If the file is damaged there, or has no such record.
    fn record_at(&self, address: Address) -> Result<Record<'_>>;

    /// Number of elements of `vector`.
    fn vector_len(&self, vector: VectorSlot) -> u64;

    /// An element of `vector`; `None` beyond its end.
    ///
    /// # Errors
    /// If the file is damaged there.
    fn vector_get(&self, vector: VectorSlot, element: u32) -> Result<Option<Address>>;
}

impl Reader for Snapshot<'_> {
    #[inline]
    fn find(
        &self,
        index: IndexSlot,
        key: &Digest,
        is_it: impl Fn(&Record<'_>) -> bool,
    ) -> Result<Option<Record<'_>>> {
        Snapshot::find(self, index, key, is_it)
    }

    #[inline]
    fn record_at(&self, address: Address) -> Result<Record<'_>> {
        Snapshot::record_at(self, address)
    }

    #[inline]
    fn vector_len(&self, vector: VectorSlot) -> u64 {
        Snapshot::vector_len(self, vector)
    }

    #[inline]
    fn vector_get(&self, vector: VectorSlot, element: u32) -> Result<Option<Address>> {
        Snapshot::vector_get(self, vector, element)
    }
}
