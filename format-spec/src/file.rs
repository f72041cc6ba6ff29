//! Records of the file itself: header, log items, trailers (SPEC.md, part 1).
//!
//! ```text
//! 0      FileHeader (first sector, never rewritten)
//! 512    FileState  (second sector, rewritten in place)
//! 4096   the log: item item item … trailer │ item … trailer │ …
//! ```
//!
//! The log is the truth and is only ever appended to. Between two trailers
//! stand the items of one transaction: records, pushes onto vectors, and room
//! for tables. Tables (hash tables of the indices, arrays of the vectors) are
//! filled in place as transactions commit; their bytes are a pure function of
//! the log, so they can always be checked against it or made again from it.

use crate::ids::Address;
use bytemuck::{Pod, Zeroable};

/// First 8 bytes of every repository.
pub const MAGIC: [u8; 8] = *b"ProgRepo";
/// Version of the format that this crate describes.
pub const VERSION: u32 = 3;
/// Written in the writer's byte order; a reader of another order sees other bytes.
pub const BYTE_ORDER: u32 = 0x0102_0304;
/// Offset of the [`FileState`].
pub const STATE_OFFSET: u64 = 512;
/// Offset of the first item of the log.
pub const LOG_OFFSET: u64 = 4096;
/// Items start at multiples of this.
pub const ITEM_ALIGN: u64 = 8;
/// Contents of tables start at multiples of this: a cache line.
pub const TABLE_ALIGN: u64 = 64;
/// Addresses stay below this (40 bits, in units of [`ITEM_ALIGN`]).
pub const MAX_ADDRESS: u64 = 1 << 43;
/// Number of index slots in a trailer.
pub const INDEX_SLOTS: usize = 16;
/// Number of vector slots in a trailer.
pub const VECTOR_SLOTS: usize = 8;

/// The first sector of the file: written once, when the repository is created.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct FileHeader {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// [`BYTE_ORDER`].
    pub byte_order: u32,
    /// Random (version 4) UUID of this repository.
    pub uuid: [u8; 16],
    /// When it was created, in nanoseconds since 1970.
    pub created: u64,
    /// Zero.
    pub reserved: u32,
    /// CRC-32 (IEEE) of the bytes before this field.
    pub checksum: u32,
}

/// The second sector: what changes in place. Each word is a [`StateWord`].
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct FileState {
    /// Trailer of the newest transaction that is wholly in the log.
    pub head: StateWord,
    /// Trailer of the newest transaction that is also in the tables: what
    /// readers see. Equal to `head` except while a writer is between the two.
    pub visible: StateWord,
    /// A trailer that was on the disk, with the tables of its time, when this
    /// word was written: where recovery starts.
    pub checkpoint: StateWord,
    /// A trailer that was on the disk, with the log before it, when this word
    /// was written.
    pub durable: StateWord,
    /// The kernel's boot id at the time of the last recovery. Under another
    /// one, nothing after `checkpoint` is believed before it is checked.
    pub boot_id: [u8; 16],
    /// The file's inode number at that time; another one means a copy.
    pub inode: u64,
}

/// Offset of a trailer (low 48 bits) with a check of it (high 16 bits), so
/// that a word read in the middle of its writing is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct StateWord(pub u64);

impl StateWord {
    const OFFSET_BITS: u32 = 48;

    /// The word for the trailer at `offset`.
    pub fn new(offset: u64) -> StateWord {
        let offset = offset & ((1 << Self::OFFSET_BITS) - 1);
        let check = offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> Self::OFFSET_BITS;
        StateWord(offset | check << Self::OFFSET_BITS)
    }

    /// The offset, if the check holds.
    pub fn offset(self) -> Option<u64> {
        let offset = self.0 & ((1 << Self::OFFSET_BITS) - 1);
        (StateWord::new(offset) == self).then_some(offset)
    }
}

/// What an item of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ItemKind {
    /// Key (32 bytes), value, zeros to a multiple of 8. Slot: its index.
    Record = 1,
    /// As [`ItemKind::Record`]; takes the place of an older record of its key.
    Replacement = 2,
    /// Addresses pushed onto a vector. Slot: the vector.
    Push = 3,
    /// Zeros to a multiple of 64, then a hash table. Slot: the index.
    IndexTable = 4,
    /// Zeros to a multiple of 64, then an array. Slot: the vector.
    VectorTable = 5,
    /// A [`Trailer`]. Slot: 0.
    Trailer = 6,
}

/// First 8 bytes of every item: bits 0–39 length of what follows it without
/// padding, in bytes; 40–47 slot; 48–55 kind; 56–63 [`ItemHead::MARK`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct ItemHead(pub u64);

impl ItemHead {
    /// High byte of every head, so that a wild address is soon noticed.
    pub const MARK: u8 = 0xc5;
    /// Lengths are below this.
    pub const MAX_LENGTH: u64 = 1 << 40;

    /// The head of an item; `None` if `length` is too large.
    pub fn new(kind: ItemKind, slot: u8, length: u64) -> Option<ItemHead> {
        (length < Self::MAX_LENGTH).then_some(ItemHead(
            length | u64::from(slot) << 40 | (kind as u64) << 48 | u64::from(Self::MARK) << 56,
        ))
    }

    /// Length of what follows the head, without padding, in bytes.
    #[inline]
    pub fn length(self) -> u64 {
        self.0 & (Self::MAX_LENGTH - 1)
    }

    /// The index or vector that the item belongs to.
    #[inline]
    pub fn slot(self) -> u8 {
        (self.0 >> 40) as u8
    }

    /// What the item is; `None` if the mark or the kind is wrong.
    #[inline]
    pub fn kind(self) -> Option<ItemKind> {
        Some(match (self.0 >> 48) as u16 {
            0xc501 => ItemKind::Record,
            0xc502 => ItemKind::Replacement,
            0xc503 => ItemKind::Push,
            0xc504 => ItemKind::IndexTable,
            0xc505 => ItemKind::VectorTable,
            0xc506 => ItemKind::Trailer,
            _ => return None,
        })
    }
}

/// Address (a multiple of [`TABLE_ALIGN`]) of a table's contents, with the
/// binary logarithm of its number of 8-byte words in the low 6 bits. Zero: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct TableRef(pub u64);

impl TableRef {
    /// No table yet.
    pub const NONE: TableRef = TableRef(0);

    /// A table of `1 << log2` words whose contents are at `address`.
    pub fn new(address: Address, log2: u32) -> TableRef {
        debug_assert!(address.0.is_multiple_of(TABLE_ALIGN) && log2 < 64);
        TableRef(address.0 | u64::from(log2))
    }

    /// Where the contents are.
    #[inline]
    pub fn address(self) -> u64 {
        self.0 & !(TABLE_ALIGN - 1)
    }

    /// Binary logarithm of the number of words.
    #[inline]
    pub fn log2(self) -> u32 {
        (self.0 & (TABLE_ALIGN - 1)) as u32
    }

    /// Whether there is no table.
    #[inline]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// An index as of one transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct IndexRoot {
    /// Its hash table ([`crate::table`]).
    pub table: TableRef,
    /// Number of keys.
    pub count: u64,
    /// Number of words of the table in use: `count` and what was replaced
    /// since the table was made.
    pub used: u64,
}

/// A vector as of one transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct VectorRoot {
    /// Its array of [`Address`]es.
    pub table: TableRef,
    /// Number of elements.
    pub length: u64,
}

/// Last item of a transaction, and the root of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Trailer {
    /// Kind [`ItemKind::Trailer`], slot 0, length `size_of::<Trailer>() - 8`.
    pub head: ItemHead,
    /// Offset of this trailer.
    pub offset: u64,
    /// Number of the transaction. The first trailer of a file has 0, and each
    /// the successor of the one before.
    pub revision: u64,
    /// When it was committed, in nanoseconds since 1970.
    pub time: u64,
    /// Offset of the transaction's first item: the end of the previous trailer.
    pub start: u64,
    /// Offset of the previous transaction's trailer; 0 in the first.
    pub previous: u64,
    /// Offset of an earlier trailer, for finding a revision in logarithmic
    /// time (a skew-binary jump pointer); 0 in the first.
    pub jump: u64,
    /// The previous trailer's `nonce`; 0 in the first.
    pub previous_nonce: u64,
    /// Random: tells this transaction from any other ever written here.
    pub nonce: u64,
    /// The indices.
    pub indices: [IndexRoot; INDEX_SLOTS],
    /// The vectors.
    pub vectors: [VectorRoot; VECTOR_SLOTS],
    /// CRC-32 of the transaction's items before this, without the contents of tables.
    pub payload_crc: u32,
    /// CRC-32 of this trailer before this field.
    pub checksum: u32,
}

/// Size of a [`Trailer`] in bytes.
pub const TRAILER_SIZE: u64 = size_of::<Trailer>() as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_specification() {
        assert_eq!(size_of::<FileHeader>(), 48);
        assert_eq!(size_of::<FileState>(), 56);
        assert_eq!(size_of::<IndexRoot>(), 24);
        assert_eq!(size_of::<VectorRoot>(), 16);
        assert_eq!(TRAILER_SIZE, 592);
        assert_eq!(TRAILER_SIZE % ITEM_ALIGN, 0);
    }

    #[test]
    fn state_words_know_their_offset() {
        let word = StateWord::new(0x1234_5678);
        assert_eq!(word.offset(), Some(0x1234_5678));
        for bit in 0..64 {
            assert_eq!(StateWord(word.0 ^ 1 << bit).offset(), None, "bit {bit}");
        }
    }

    #[test]
    fn item_heads_round_trip() {
        let head = ItemHead::new(ItemKind::Push, 7, 0xff_0000_0001).unwrap();
        assert_eq!(head.kind(), Some(ItemKind::Push));
        assert_eq!((head.slot(), head.length()), (7, 0xff_0000_0001));
        assert_eq!(ItemHead::new(ItemKind::Push, 7, 1 << 40), None);
        assert_eq!(ItemHead(0).kind(), None);
    }
}
