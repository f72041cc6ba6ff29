//! The hash table of an index: where a key's word goes and what is in it.
//!
//! A table is an array of 8-byte words, 8 to a line (a cache line). A key's
//! *home* line is the top bits of its digest; its word stands in the first
//! free place from the start of that line on, at most [`MAX_LINES`] lines away
//! (and from the last line on to the first). A word holds 24 more bits of the
//! digest (its *tag*) and the record's address:
//!
//! ```text
//! 63          40 39                       0
//! [     tag     ][      address / 8       ]      0: free
//! ```
//!
//! Words are only ever added. A reader of revision r takes no notice of words
//! whose address is not below the end of r, so that one table serves every
//! snapshot since it was made.
//!
//! The tag's bits overlap those of the home line ([`Shape::WINDOW`]) for two
//! reasons: from a word and the line it stands in, its home follows; and the
//! table can be doubled without looking at a single record, because the next
//! bit of the home is the next bit of the tag.

use crate::digest::Digest;
use crate::file::ITEM_ALIGN;
use crate::ids::Address;

/// Words in a line.
pub const LINE_WORDS: u64 = 8;
/// A word is in its home line or in one of the next `MAX_LINES - 1`.
pub const MAX_LINES: u64 = 16;
/// Binary logarithm of the number of words of the smallest table.
pub const MIN_LOG2: u32 = 6;
/// Binary logarithm of the number of words of the largest table.
pub const MAX_LOG2: u32 = 34;

const TAG_BITS: u32 = 24;
const ADDRESS_BITS: u32 = 40;

/// The first 64 bits of a digest, most significant first.
#[inline]
pub fn hash(key: &Digest) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = key.0;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// The address in a word.
#[inline]
pub fn address(word: u64) -> Address {
    Address((word & ((1 << ADDRESS_BITS) - 1)) * ITEM_ALIGN)
}

/// The tag in a word.
#[inline]
pub fn tag(word: u64) -> u64 {
    word >> ADDRESS_BITS
}

/// How many lines a table has and which bits of a hash its tags are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    line_bits: u32,
    window: u32,
}

impl Shape {
    /// In tables of more than 2^[`Shape::SMALL_LINE_BITS`] lines, tags start
    /// at this bit of the hash (counted from the most significant); in others
    /// at bit 0.
    pub const WINDOW: u32 = 9;
    /// See [`Shape::WINDOW`].
    pub const SMALL_LINE_BITS: u32 = 12;

    /// The shape of a table of `1 << log2` words; `None` if there is none such.
    #[inline]
    pub fn new(log2: u32) -> Option<Shape> {
        if !(MIN_LOG2..=MAX_LOG2).contains(&log2) {
            return None;
        }
        let line_bits = log2 - LINE_WORDS.trailing_zeros();
        let small = line_bits <= Self::SMALL_LINE_BITS;
        Some(Shape {
            line_bits,
            window: if small { 0 } else { Self::WINDOW },
        })
    }

    /// Number of lines.
    #[inline]
    pub fn lines(self) -> u64 {
        1 << self.line_bits
    }

    /// Number of words.
    #[inline]
    pub fn words(self) -> u64 {
        self.lines() * LINE_WORDS
    }

    /// How many lines from its home a word may be in, home included.
    #[inline]
    pub fn reach(self) -> u64 {
        self.lines().min(MAX_LINES)
    }

    /// The home line of `hash`.
    #[inline]
    pub fn home(self, hash: u64) -> u64 {
        hash >> (64 - self.line_bits)
    }

    /// The tag of `hash`.
    #[inline]
    pub fn tag(self, hash: u64) -> u64 {
        hash << self.window >> (64 - TAG_BITS)
    }

    /// The word for a record at `address` whose key has `hash`.
    #[inline]
    pub fn word(self, hash: u64, address: Address) -> u64 {
        debug_assert!(address.0.is_multiple_of(ITEM_ALIGN) && address.0 < crate::file::MAX_ADDRESS);
        (self.tag(hash) << ADDRESS_BITS) | (address.0 / ITEM_ALIGN)
    }

    /// Whether the words of a table of this shape tell all that one of shape
    /// `other` needs ([`Shape::known_hash`]).
    pub fn suffices_for(self, other: Shape) -> bool {
        self.window == other.window
    }

    /// The first 24 or 33 bits of the hash of `word`, which stands in `line`,
    /// other bits zero; `None` if the word cannot stand there.
    pub fn known_hash(self, word: u64, line: u64) -> Option<u64> {
        // The low `overlap` bits of the home are the high bits of the tag.
        let overlap = self.line_bits - self.window;
        let rest_bits = TAG_BITS.checked_sub(overlap)?;
        let low = tag(word) >> rest_bits;
        let distance = line.wrapping_sub(low) & ((1 << overlap) - 1);
        if distance >= self.reach() {
            return None;
        }
        let home = line.wrapping_sub(distance) & (self.lines() - 1);
        let rest = tag(word) & ((1 << rest_bits) - 1);
        Some(home << (64 - self.line_bits) | rest << (64 - self.line_bits - rest_bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_follows_from_word_and_line() {
        for log2 in MIN_LOG2..=MAX_LOG2 {
            let shape = Shape::new(log2).unwrap();
            let known_bits = shape.window + TAG_BITS;
            for i in 0..100u64 {
                let hash = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let word = shape.word(hash, Address(4096));
                for distance in 0..shape.reach() {
                    let line = (shape.home(hash) + distance) & (shape.lines() - 1);
                    let known = shape.known_hash(word, line).unwrap();
                    assert_eq!(known, hash >> (64 - known_bits) << (64 - known_bits));
                }
            }
        }
    }

    #[test]
    fn words_that_cannot_stand_there_are_noticed() {
        let shape = Shape::new(20).unwrap();
        let word = shape.word(0, Address(4096));
        assert!(shape.known_hash(word, 15).is_some());
        assert!(shape.known_hash(word, 16).is_none());
    }

    #[test]
    fn only_sane_sizes() {
        assert_eq!(Shape::new(5), None);
        assert_eq!(Shape::new(35), None);
        assert_eq!(Shape::new(6).unwrap().words(), 64);
    }
}
