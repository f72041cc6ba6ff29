//! Trailers: what ends a transaction, and is the root of a snapshot (SPEC.md, section 6).
//!
//! A trailer says of each trie that has something in it where it is: most repositories have a third of the
//! tries that there can be, and small transactions are many.

use crate::file::{Features, INDEX_SLOTS, IndexSlot, ItemHead, ItemKind, VECTOR_SLOTS, VectorSlot};
use crate::trie::ChildWord;
use bytemuck::{Pod, Zeroable};
use std::ops::Deref;

/// An index as of one transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexRoot {
    /// The root of its trie ([`crate::trie`]).
    pub root: ChildWord,
    /// Number of keys.
    pub count: u64,
}

/// A vector as of one transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VectorRoot {
    /// The root of its trie ([`crate::trie`]).
    pub root: ChildWord,
    /// Number of elements.
    pub length: u64,
}

/// What stands at the start of each trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct TrailerStart {
    /// Kind [`ItemKind::Trailer`], slot 0.
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
    /// Those that this snapshot has beside the header's; never fewer than the
    /// previous one.
    pub features: Features,
    /// A bit for each index that has ever had a replacement: there the newest
    /// of several words of one key counts.
    pub replaced: u32,
    /// A bit for each trie that has something in it: bits 0 to 23 of indices, 24 to 31 of vectors.
    pub tries: u32,
}

impl TrailerStart {
    /// Whether an index has ever had a replacement.
    #[inline]
    pub fn has_replaced(&self, slot: u8) -> bool {
        self.replaced.checked_shr(slot.into()).unwrap_or(0) & 1 != 0
    }
}

/// Bytes behind the tries: the CRC of the transaction's items, without bodies that change in place, and that of
/// the trailer up to there.
const SUMS: usize = 8;
const TRIES: usize = INDEX_SLOTS + VECTOR_SLOTS;
const _: () = assert!(TRIES == u32::BITS as usize);

/// Size in bytes of a trailer of so many tries.
const fn size_of_trailer(tries: usize) -> usize {
    size_of::<TrailerStart>() + (tries * (size_of::<ChildWord>() + 4)).next_multiple_of(8) + SUMS
}

/// Size of the smallest trailer in bytes.
pub const MIN_TRAILER_SIZE: u64 = size_of_trailer(0) as u64;
/// Size of the largest trailer in bytes.
pub const MAX_TRAILER_SIZE: u64 = size_of_trailer(TRIES) as u64;

/// Size of the trailer with this head, in bytes, if there can be one.
pub fn trailer_size(head: ItemHead) -> Option<u64> {
    let size = head.length() + size_of::<ItemHead>() as u64;
    let is_one = head.kind() == Some(ItemKind::Trailer)
        && head.slot() == 0
        && size.is_multiple_of(8)
        && (MIN_TRAILER_SIZE..=MAX_TRAILER_SIZE).contains(&size);
    is_one.then_some(size)
}

/// All tries as of one transaction, also those that have nothing in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tries {
    /// The indices.
    pub indices: [IndexRoot; INDEX_SLOTS],
    /// The vectors.
    pub vectors: [VectorRoot; VECTOR_SLOTS],
}

impl Tries {
    fn all(&self) -> impl Iterator<Item = (ChildWord, u64)> {
        let indices = self.indices.iter().map(|index| (index.root, index.count));
        let vectors = (self.vectors.iter()).map(|vector| (vector.root, vector.length));
        indices.chain(vectors)
    }
}

/// Last item of a transaction, and the root of a snapshot, in the bytes of the file.
#[derive(Clone, Copy, Debug)]
pub struct Trailer<'b> {
    start: &'b TrailerStart,
    /// Roots (two words each) and counts of the tries that there are; padding, and the sums.
    rest: &'b [u32],
}

/// Words of 4 bytes that a root has.
const ROOT_WORDS: usize = size_of::<ChildWord>() / 4;

impl<'b> Trailer<'b> {
    /// The trailer that all of `bytes`, at a multiple of 8, is; `None` if it is none. What it says is not looked at, but for its form.
    pub fn of(bytes: &'b [u8]) -> Option<Trailer<'b>> {
        let (start, rest) = bytes.split_at_checked(size_of::<TrailerStart>())?;
        let start: &TrailerStart = bytemuck::try_from_bytes(start).ok()?;
        let rest: &[u32] = bytemuck::try_cast_slice(rest).ok()?;
        let count = start.tries.count_ones() as usize;
        if trailer_size(start.head) != Some(bytes.len() as u64)
            || bytes.len() != size_of_trailer(count)
        {
            return None;
        }
        let counts = rest.get(count * ROOT_WORDS..)?;
        let (counts, padding) = counts.split_at_checked(count)?;
        let padding = padding.get(..padding.len().checked_sub(SUMS / 4)?)?;
        let is_sound = counts.iter().all(|&of| of > 0) && padding.iter().all(|&word| word == 0);
        is_sound.then_some(Trailer { start, rest })
    }

    /// The bytes of a trailer: `head` and `tries` of `start` are set here. `None` if a trie has more in it than there can be.
    pub fn make(start: &TrailerStart, tries: &Tries, payload_crc: u32) -> Option<Vec<u8>> {
        let mut start = *start;
        let mut roots = Vec::with_capacity(TRIES);
        let mut counts: Vec<u32> = Vec::with_capacity(TRIES);
        start.tries = 0;
        for (place, (root, count)) in tries.all().enumerate() {
            if count > 0 {
                start.tries |= 1 << place;
                roots.push(root);
                counts.push(count.try_into().ok()?);
            }
        }
        let size = size_of_trailer(roots.len());
        let length = (size - size_of::<ItemHead>()) as u64;
        start.head = ItemHead::new(ItemKind::Trailer, 0, length)?;
        let mut bytes = Vec::with_capacity(size);
        bytes.extend_from_slice(bytemuck::bytes_of(&start));
        bytes.extend_from_slice(bytemuck::cast_slice(&roots));
        bytes.extend_from_slice(bytemuck::cast_slice(&counts));
        bytes.resize(size - SUMS, 0);
        bytes.extend_from_slice(&payload_crc.to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        Some(bytes)
    }

    /// Whether it is as it was written: compares its checksum.
    pub fn is_whole(&self) -> bool {
        let Some((checksum, rest)) = self.rest.split_last() else {
            return false;
        };
        let mut crc = crc32fast::Hasher::new();
        crc.update(bytemuck::bytes_of(self.start));
        crc.update(bytemuck::cast_slice(rest));
        crc.finalize() == *checksum
    }

    /// Whether it has these bytes.
    pub fn is(&self, bytes: &[u8]) -> bool {
        let (start, rest) = bytes.split_at(bytes.len().min(size_of::<TrailerStart>()));
        bytemuck::bytes_of(self.start) == start
            && bytemuck::cast_slice::<u32, u8>(self.rest) == rest
    }

    /// CRC-32 of the transaction's items before this, without bodies that change in place.
    pub fn payload_crc(&self) -> u32 {
        let place = self.rest.len().checked_sub(SUMS / 4);
        place
            .and_then(|place| self.rest.get(place))
            .copied()
            .unwrap_or(0)
    }

    /// Bytes that it takes.
    #[inline]
    pub fn size(&self) -> u64 {
        (size_of::<TrailerStart>() + size_of_val(self.rest)) as u64
    }

    /// Where the transaction ends and the next begins.
    #[inline]
    pub fn end(&self) -> u64 {
        self.start.offset + self.size()
    }

    /// The root and the count of the trie with this bit; nothing, and 0, if there is none.
    #[inline]
    fn trie(&self, bit: u8) -> (ChildWord, u64) {
        let (tries, bit) = (self.start.tries, 1_u32 << bit);
        if tries & bit != 0 {
            let place = (tries & (bit - 1)).count_ones() as usize;
            let count = ROOT_WORDS * tries.count_ones() as usize + place;
            let root = self.rest.get(place * ROOT_WORDS..(place + 1) * ROOT_WORDS);
            if let (Some(&[low, high]), Some(&count)) = (root, self.rest.get(count)) {
                let root = ChildWord(u64::from(low) | u64::from(high) << 32);
                return (root, count.into());
            }
        }
        Default::default()
    }

    /// An index.
    #[inline]
    pub fn index(&self, index: IndexSlot) -> IndexRoot {
        let (root, count) = self.trie(index.number());
        IndexRoot { root, count }
    }

    /// A vector.
    #[inline]
    pub fn vector(&self, vector: VectorSlot) -> VectorRoot {
        let (root, length) = self.trie(INDEX_SLOTS as u8 + vector.number());
        VectorRoot { root, length }
    }

    /// All of them.
    pub fn tries(&self) -> Tries {
        let mut tries = Tries::default();
        for (index, root) in IndexSlot::all().zip(&mut tries.indices) {
            *root = self.index(index);
        }
        for (vector, root) in VectorSlot::all().zip(&mut tries.vectors) {
            *root = self.vector(vector);
        }
        tries
    }

    /// The roots of those that have something in them.
    pub fn roots(&self) -> impl Iterator<Item = ChildWord> {
        let bits = (0..TRIES as u8).filter(|bit| self.start.tries >> bit & 1 != 0);
        bits.map(|bit| self.trie(bit).0)
    }
}

impl Deref for Trailer<'_> {
    type Target = TrailerStart;

    #[inline]
    fn deref(&self) -> &TrailerStart {
        self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trie::Child;

    /// Aligned as in a file.
    fn aligned(bytes: &[u8]) -> Vec<u64> {
        let word = |word: &[u8]| u64::from_le_bytes(word.try_into().unwrap());
        bytes.chunks_exact(8).map(word).collect()
    }

    fn sample() -> (TrailerStart, Tries) {
        let mut tries = Tries::default();
        for (slot, count) in [(0, 7), (3, u64::from(u32::MAX)), (23, 1)] {
            tries.indices[slot] = IndexRoot {
                root: Child::leaf(crate::ids::Address(4096 + slot as u64 * 64), 6, 0).as_root(),
                count,
            };
        }
        for (slot, length) in [(0, 5), (7, 9)] {
            tries.vectors[slot] = VectorRoot {
                root: Child::leaf(crate::ids::Address(8192 + slot as u64 * 64), 8, 0).as_root(),
                length,
            };
        }
        let start = TrailerStart {
            offset: 4096,
            revision: 3,
            ..TrailerStart::zeroed()
        };
        (start, tries)
    }

    #[test]
    fn sizes_are_those_of_the_specification() {
        assert_eq!(size_of::<TrailerStart>(), 104);
        assert_eq!((MIN_TRAILER_SIZE, MAX_TRAILER_SIZE), (112, 496));
    }

    #[test]
    fn what_is_made_is_read() {
        let (start, tries) = sample();
        for tries in [tries, Tries::default()] {
            let bytes = aligned(&Trailer::make(&start, &tries, 77).unwrap());
            let bytes: &[u8] = bytemuck::cast_slice(&bytes);
            let trailer = Trailer::of(bytes).unwrap();
            assert!(trailer.is_whole());
            assert_eq!(trailer.tries(), tries);
            assert_eq!((trailer.payload_crc(), trailer.revision), (77, 3));
            assert_eq!(trailer.end(), 4096 + bytes.len() as u64);
            assert_eq!(trailer_size(trailer.head), Some(bytes.len() as u64));
        }
    }

    #[test]
    fn what_is_changed_is_not() {
        let (start, tries) = sample();
        let good = Trailer::make(&start, &tries, 77).unwrap();
        assert_eq!(good.len(), 104 + 5 * 12 + 4 + 8);
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let bytes = aligned(&bytes);
            let trailer = Trailer::of(bytemuck::cast_slice(&bytes));
            assert!(!trailer.is_some_and(|trailer| trailer.is_whole()), "{bit}");
        }
    }

    #[test]
    fn a_trie_has_a_limit() {
        let (start, mut tries) = sample();
        tries.indices[5].count = 1 << 32;
        assert_eq!(Trailer::make(&start, &tries, 0), None);
    }
}
