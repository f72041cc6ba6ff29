//! A record: a key and its value, as they stand in the log, or in what a pack holds.

use super::error::Fault;
use format_spec::digest::Digest;
use format_spec::file::{
    ITEM_ALIGN, IndexSlot, ItemHead, ItemKind, NumberedSlot, RECORD_CHECK, SHORT_KEY, VectorSlot,
    record_check,
};
use format_spec::ids::Address;

/// A key and its value, borrowed from the file, or from what a pack of it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'s> {
    /// Where the record is: what other records and vectors refer to it by.
    pub address: Address,
    /// Its key: a digest, or the first [`SHORT_KEY`](format_spec::file::SHORT_KEY) bytes of one.
    pub(super) key: &'s [u8],
    /// Its value. Starts at a multiple of 8 in the file and in memory.
    pub value: &'s [u8],
    /// All of it, from the head to the check.
    pub(super) item: &'s [u8],
}

impl Record<'_> {
    /// Its head; `None` of a record that was not [parsed](parse_record).
    #[inline]
    fn head(&self) -> Option<ItemHead> {
        let (head, _) = self.item.split_first_chunk::<8>()?;
        Some(ItemHead(u64::from_le_bytes(*head)))
    }

    /// The index that it is in; `None` if it says that it is in none that there can be.
    #[inline]
    pub fn index(&self) -> Option<IndexSlot> {
        self.head()?.index()
    }

    /// Its key; of a numbered record, [shortened](Digest::shortened).
    #[inline]
    pub fn key(&self) -> Digest {
        let mut key = Digest([0; 32]);
        key.0[..self.key.len()].copy_from_slice(self.key);
        key
    }

    /// Whether its key is this one.
    #[inline]
    pub fn has_key(&self, key: &Digest) -> bool {
        let (first, rest) = key.0.split_at(self.key.len());
        self.key == first && rest.iter().all(|&byte| byte == 0)
    }

    /// Bytes that it takes in the log, with what keeps the next item aligned.
    #[inline]
    pub fn size(&self) -> u64 {
        (self.item.len() as u64).next_multiple_of(ITEM_ALIGN)
    }

    /// Bytes from its head to its check.
    #[inline]
    pub(super) fn length(&self) -> usize {
        self.item.len()
    }

    /// The vector of which it is the next element; `None` if it is not numbered.
    pub(super) fn vector(&self) -> Option<VectorSlot> {
        let head = self.head().filter(|_| self.is_numbered())?;
        NumberedSlot::new(head.slot()).map(|both| both.vector)
    }

    /// Whether it takes the place of an older one.
    pub(super) fn is_replacement(&self) -> bool {
        self.head().and_then(ItemHead::kind) == Some(ItemKind::Replacement)
    }

    /// Whether it is numbered: has a short key, and is an element of a vector.
    #[inline]
    pub fn is_numbered(&self) -> bool {
        self.key.len() == SHORT_KEY
    }

    /// Whether the record's bytes are those that were written: compares its check
    /// (SPEC.md, section 5), which reads all of it, at several bytes a processor cycle.
    ///
    /// Nothing else in the engine does, but for verification: whoever relies on a value
    /// asks when it reads the whole of it anyway.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.item
            .split_last_chunk::<{ RECORD_CHECK as usize }>()
            .is_some_and(|(bytes, check)| u32::from_le_bytes(*check) == record_check(bytes))
    }
}

/// Parses the record at the start of `bytes`, which is at `address`, and
/// returns it with the index that it belongs to.
#[inline]
pub(super) fn parse_record(
    bytes: &[u8],
    address: Address,
) -> Result<(IndexSlot, Record<'_>), Fault> {
    let fault = |what| Fault::new(address.0, what);
    let Some((head, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(fault("record reaches beyond the end"));
    };
    let head = ItemHead(u64::from_le_bytes(*head));
    let Some(key_length) = head.kind().and_then(ItemKind::key_length) else {
        return Err(fault("is not a record"));
    };
    let Some(index) = head.index() else {
        return Err(fault("item's slot is out of range"));
    };
    let length = head.length() as usize;
    let Some((key, value)) = rest
        .get(..length)
        .and_then(|body| body.split_last_chunk::<{ RECORD_CHECK as usize }>())
        .and_then(|(body, _)| body.split_at_checked(key_length))
    else {
        return Err(fault("record reaches beyond the end"));
    };
    let record = Record {
        address,
        key,
        value,
        item: &bytes[..8 + length],
    };
    Ok((index, record))
}
