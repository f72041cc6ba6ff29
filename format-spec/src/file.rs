//! Records of the file itself: header and log items (SPEC.md, part 1).
//!
//! ```text
//! 0      FileHeader (first sector, never rewritten)
//! 512    FileState  (second sector, rewritten in place)
//! 4096   the log: item item item … trailer │ item … trailer │ …
//! ```
//!
//! The log is the truth and is only ever appended to. Between two trailers
//! stand the items of one transaction: records, pushes onto vectors, nodes of
//! tries, and room for leaves. Leaves (tables of words) are filled in place as
//! transactions commit; their bytes are a pure function of the log, so they can
//! always be checked against it or made again from it.

use bytemuck::{Pod, Zeroable};

/// First 8 bytes of every repository.
pub const MAGIC: [u8; 8] = *b"ProgRepo";
/// Version of the format that this crate describes. What comes to the format is told by
/// [`Features`]; another version is another file altogether.
pub const VERSION: u32 = 5;
/// Written in the writer's byte order; a reader of another order sees other bytes.
pub const BYTE_ORDER: u32 = 0x0102_0304;
/// Offset of the [`FileState`].
pub const STATE_OFFSET: u64 = 512;
/// Offset of the first item of the log.
pub const LOG_OFFSET: u64 = 4096;
/// Items start at multiples of this.
pub const ITEM_ALIGN: u64 = 8;
/// Leaves start at multiples of this: a cache line.
pub const LEAF_ALIGN: u64 = 64;
/// Addresses stay below this (37 bits, in units of [`ITEM_ALIGN`]).
pub const MAX_ADDRESS: u64 = 1 << 40;
/// Number of index slots in a trailer.
pub const INDEX_SLOTS: usize = 24;
/// Number of vector slots in a trailer.
pub const VECTOR_SLOTS: usize = 8;

/// The slot of an index: a number below [`INDEX_SLOTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexSlot(pub(crate) u8);

impl IndexSlot {
    /// The slot of this number, if there is one.
    pub const fn new(number: u8) -> Option<IndexSlot> {
        if (number as usize) < INDEX_SLOTS {
            Some(IndexSlot(number))
        } else {
            None
        }
    }

    /// The slot of a number that is known to the compiler, which refuses one that is no slot's.
    pub const fn of<const NUMBER: u8>() -> IndexSlot {
        const { assert!((NUMBER as usize) < INDEX_SLOTS) };
        IndexSlot(NUMBER)
    }

    /// All of them, in order.
    pub fn all() -> impl Iterator<Item = IndexSlot> {
        (0..INDEX_SLOTS as u8).map(IndexSlot)
    }

    /// Its number, as items and trailers have it.
    #[inline]
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// The slot of a vector: a number below [`VECTOR_SLOTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VectorSlot(pub(crate) u8);

impl VectorSlot {
    /// The slot of this number, if there is one.
    pub const fn new(number: u8) -> Option<VectorSlot> {
        if (number as usize) < VECTOR_SLOTS {
            Some(VectorSlot(number))
        } else {
            None
        }
    }

    /// The slot of a number that is known to the compiler, which refuses one that is no slot's.
    pub const fn of<const NUMBER: u8>() -> VectorSlot {
        const { assert!((NUMBER as usize) < VECTOR_SLOTS) };
        VectorSlot(NUMBER)
    }

    /// All of them, in order.
    pub fn all() -> impl Iterator<Item = VectorSlot> {
        (0..VECTOR_SLOTS as u8).map(VectorSlot)
    }

    /// Its number, as items and trailers have it.
    #[inline]
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl std::fmt::Display for IndexSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::fmt::Display for VectorSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What a file or a snapshot has that not every program of this version knows, a bit each
/// (SPEC.md, section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Features {
    /// May be ignored by whoever does not know it.
    pub compatible: u64,
    /// Who does not know it may read, but not write.
    pub read_compatible: u64,
    /// Who does not know it must not touch the file.
    pub incompatible: u64,
}

impl Features {
    /// Compatible: there are records in envelopes ([`crate::envelope`]).
    pub const ENVELOPES: u64 = 1;
    /// Incompatible: there are packs ([`crate::pack`]).
    pub const PACKS: u64 = 1;

    /// Those that this crate describes.
    pub const KNOWN: Features = Features {
        compatible: Features::ENVELOPES,
        read_compatible: 0,
        incompatible: Features::PACKS,
    };

    /// Both sets together.
    #[must_use]
    pub fn union(self, other: Features) -> Features {
        Features {
            compatible: self.compatible | other.compatible,
            read_compatible: self.read_compatible | other.read_compatible,
            incompatible: self.incompatible | other.incompatible,
        }
    }

    /// What keeps a program that knows `known` from reading.
    pub fn bar_reading(self, known: Features) -> u64 {
        self.incompatible & !known.incompatible
    }

    /// What keeps a program that knows `known` from writing, though it may read.
    pub fn bar_writing(self, known: Features) -> u64 {
        self.read_compatible & !known.read_compatible
    }
}

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
    /// Those that the file has had from its beginning.
    pub features: Features,
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
    /// Trailer of the newest transaction that is also in the leaves: what
    /// readers see. Equal to `head` except while a writer is between the two.
    pub visible: StateWord,
    /// A trailer that was on the disk, with the leaves of its time, when this
    /// word was written: where recovery starts.
    pub checkpoint: StateWord,
    /// A trailer that was on the disk, with the log before it, when this word
    /// was written.
    pub durable: StateWord,
    /// The kernel's boot id at the time of the last recovery. Under another
    /// one, nothing after `checkpoint` is believed before it is checked.
    pub boot_id: [u8; 16],
    /// The number of the file's device at that time; another one means a copy.
    pub device: u64,
    /// The file's inode number at that time; likewise.
    pub inode: u64,
    /// 0; or, from before a sync until it has succeeded, the [`doubt_of`] these four words. So
    /// after one that failed, and after one whose process was killed meanwhile, it stays.
    pub doubt: u64,
    /// How far the file was synced, from its start, for `rising`: an offset like those of trailers.
    pub swept: StateWord,
    /// The trailer that `checkpoint` is to lead to when all before its end was synced. No such thing is under way where it is not
    /// above `checkpoint`.
    pub rising: StateWord,
}

/// What stands in [`FileState::doubt`] for a session: boot id (two words), device, inode.
pub fn doubt_of(session: [u64; 4]) -> u64 {
    1 << 32 | u64::from(record_check(bytemuck::cast_slice(&session)))
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
        let check = offset.wrapping_mul(crate::GOLDEN) >> Self::OFFSET_BITS;
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
    /// Key (32 bytes), value, check (4 bytes, [`record_check`]). Slot: its index.
    Record = 0x01,
    /// As [`ItemKind::Record`]; takes the place of an older record of its key.
    Replacement = 0x02,
    /// Addresses pushed onto a vector. Slot: the vector.
    Push = 0x03,
    /// A node of an index's trie ([`crate::trie`]). Slot: the index.
    IndexNode = 0x04,
    /// A node of a vector's trie. Slot: the vector.
    VectorNode = 0x05,
    /// A [`Trailer`](crate::trailer::Trailer). Slot: 0.
    Trailer = 0x06,
    /// As [`ItemKind::Record`], but with the first [`SHORT_KEY`] bytes of the key only, and the record is
    /// the next element of a vector. Several may have one key: their values tell them apart.
    /// Slot: of both ([`NumberedSlot`]).
    Numbered = 0x07,
    /// Records, compressed together ([`crate::pack`]). Slot: how many.
    Pack = 0x08,
    /// Words of a leaf of an index's trie ([`crate::leaf`]). Slot: the index.
    IndexLeaf = 0x84,
    /// Words of a leaf of a vector's trie. Slot: the vector.
    VectorLeaf = 0x85,
}

/// First 8 bytes of every item: bits 0–39 length of the body in bytes; 40–47
/// slot; 48–55 kind; 56–63 [`ItemHead::MARK`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct ItemHead(pub u64);

impl ItemHead {
    /// High byte of every head, so that a wild address is soon noticed.
    pub const MARK: u8 = 0xc5;
    /// Lengths are below this.
    pub const MAX_LENGTH: u64 = 1 << 40;
    /// Set in the kinds whose body starts at a multiple of [`LEAF_ALIGN`], changes in
    /// place, and is no part of the transaction's CRC: also in kinds to come.
    pub const IN_PLACE: u8 = 0x80;

    /// The head of an item; `None` if `length` is too large.
    pub fn new(kind: ItemKind, slot: u8, length: u64) -> Option<ItemHead> {
        (length < Self::MAX_LENGTH).then_some(ItemHead(
            length | u64::from(slot) << 40 | (kind as u64) << 48 | u64::from(Self::MARK) << 56,
        ))
    }

    /// Length of the body, without padding, in bytes.
    #[inline]
    pub fn length(self) -> u64 {
        self.0 & (Self::MAX_LENGTH - 1)
    }

    /// The index or vector that the item belongs to, or both ([`NumberedSlot`]).
    #[inline]
    pub fn slot(self) -> u8 {
        (self.0 >> 40) as u8
    }

    /// The index that a record belongs to; `None` if the item is none, or there is no such index.
    #[inline]
    pub fn index(self) -> Option<IndexSlot> {
        match self.kind()? {
            ItemKind::Record | ItemKind::Replacement => IndexSlot::new(self.slot()),
            ItemKind::Numbered => NumberedSlot::new(self.slot()).map(|both| both.index),
            _ => None,
        }
    }

    /// Whether the item is a record or a replacement of `index`.
    #[inline]
    pub fn has_whole_key_of(self, index: IndexSlot) -> bool {
        const _: () = assert!(ItemKind::Record as u64 == 1 && ItemKind::Replacement as u64 == 2);
        let first = u64::from(Self::MARK) << 16 | (ItemKind::Record as u64) << 8;
        // The two kinds are one apart: what is left is 0 or 1 of them.
        let beyond = (self.0 >> 40).wrapping_sub(first | u64::from(index.number()));
        beyond & !(1 << 8) == 0
    }

    /// Whether this can be an item at all, of a known kind or not.
    pub fn is_marked(self) -> bool {
        (self.0 >> 56) as u8 == Self::MARK && (self.0 >> 48) as u8 != 0
    }

    /// Whether the body changes in place ([`ItemHead::IN_PLACE`]).
    pub fn is_in_place(self) -> bool {
        (self.0 >> 48) as u8 & Self::IN_PLACE != 0
    }

    /// What the item is; `None` if the mark is wrong or the kind unknown.
    #[inline]
    pub fn kind(self) -> Option<ItemKind> {
        Some(match (self.0 >> 48) as u16 {
            0xc501 => ItemKind::Record,
            0xc502 => ItemKind::Replacement,
            0xc503 => ItemKind::Push,
            0xc504 => ItemKind::IndexNode,
            0xc505 => ItemKind::VectorNode,
            0xc506 => ItemKind::Trailer,
            0xc507 => ItemKind::Numbered,
            0xc508 => ItemKind::Pack,
            0xc584 => ItemKind::IndexLeaf,
            0xc585 => ItemKind::VectorLeaf,
            _ => return None,
        })
    }
}

impl ItemKind {
    /// Bytes of the key in a record of this kind; `None` if it is none.
    #[inline]
    pub const fn key_length(self) -> Option<usize> {
        match self {
            ItemKind::Record | ItemKind::Replacement => Some(32),
            ItemKind::Numbered => Some(SHORT_KEY),
            _ => None,
        }
    }
}

/// The slot of an [`ItemKind::Numbered`]: of its index in the low five bits, of its vector in the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberedSlot {
    /// The index.
    pub index: IndexSlot,
    /// The vector.
    pub vector: VectorSlot,
}

impl NumberedSlot {
    const INDEX_BITS: u32 = 5;

    /// Both slots, as the item has them.
    #[inline]
    pub const fn number(self) -> u8 {
        self.index.0 | self.vector.0 << Self::INDEX_BITS
    }

    /// What a number stands for, if there is such an index.
    #[inline]
    pub const fn new(number: u8) -> Option<NumberedSlot> {
        let index = IndexSlot::new(number & ((1 << Self::INDEX_BITS) - 1));
        let vector = VectorSlot::new(number >> Self::INDEX_BITS);
        match (index, vector) {
            (Some(index), Some(vector)) => Some(NumberedSlot { index, vector }),
            _ => None,
        }
    }
}

const _: () = assert!(INDEX_SLOTS <= 1 << NumberedSlot::INDEX_BITS);
const _: () = assert!(VECTOR_SLOTS <= 1 << (8 - NumberedSlot::INDEX_BITS));

/// Bytes of the key that an [`ItemKind::Numbered`] has.
pub const SHORT_KEY: usize = 8;
/// Bytes of an ordinary record's body beside its value: the key and the check.
pub const RECORD_OVERHEAD: u64 = 32 + RECORD_CHECK;
/// Bytes of a record's check.
pub const RECORD_CHECK: u64 = 4;

/// The check at the end of a record: the low 32 bits of XXH3 (64 bits, no seed) of its
/// bytes before: head, key and value.
#[inline]
pub fn record_check(bytes: &[u8]) -> u32 {
    crate::xxh3::xxh3(bytes) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_records_with_whole_keys() {
        for kind in 0..=255u64 {
            for slot in 0..=255 {
                let head = ItemHead(77 | slot << 40 | kind << 48 | u64::from(ItemHead::MARK) << 56);
                let is_one = [ItemKind::Record, ItemKind::Replacement]
                    .iter()
                    .any(|known| head.kind() == Some(*known));
                let other = ItemHead(head.0 ^ 1 << 63);
                for index in IndexSlot::all() {
                    let expected = is_one && head.index() == Some(index);
                    assert_eq!(head.has_whole_key_of(index), expected);
                    assert!(!other.has_whole_key_of(index));
                }
            }
        }
    }

    #[test]
    fn sizes_are_those_of_the_specification() {
        assert_eq!(size_of::<FileHeader>(), 72);
        assert_eq!(size_of::<FileState>(), 88);
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
        assert!(head.is_marked() && !head.is_in_place());
        assert!(
            ItemHead::new(ItemKind::VectorLeaf, 7, 1)
                .unwrap()
                .is_in_place()
        );
        assert_eq!(ItemHead::new(ItemKind::Push, 7, 1 << 40), None);
        assert_eq!(ItemHead(0).kind(), None);
        assert!(!ItemHead(0).is_marked());
        let of_a_later_version = ItemHead(0xc57f_0000_0000_0010);
        assert!(of_a_later_version.kind().is_none() && of_a_later_version.is_marked());
    }

    #[test]
    fn a_numbered_record_has_two_slots() {
        for (index, vector) in IndexSlot::all().flat_map(|i| VectorSlot::all().map(move |v| (i, v)))
        {
            let both = NumberedSlot { index, vector };
            assert_eq!(NumberedSlot::new(both.number()), Some(both));
            let head = ItemHead::new(ItemKind::Numbered, both.number(), 20).unwrap();
            assert_eq!(head.index(), Some(index));
        }
        assert_eq!(NumberedSlot::new(31), None);
        let head = ItemHead::new(ItemKind::Push, 1, 8).unwrap();
        assert_eq!((head.index(), ItemKind::Push.key_length()), (None, None));
    }

    #[test]
    fn features_bar_those_who_do_not_know_them() {
        let known = Features {
            compatible: 1,
            read_compatible: 2,
            incompatible: 4,
        };
        assert_eq!(known.bar_reading(known) | known.bar_writing(known), 0);
        let later = known.union(Features {
            compatible: 8,
            read_compatible: 16,
            incompatible: 32,
        });
        assert_eq!(
            (later.bar_reading(known), later.bar_writing(known)),
            (32, 16)
        );
    }
}
