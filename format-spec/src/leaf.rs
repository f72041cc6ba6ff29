//! The leaf of an index's trie: where a key's word goes and what is in it
//! (SPEC.md, section 8).
//!
//! A leaf is an array of 8-byte words, 8 to a line (a cache line). All keys of a
//! leaf have their first bits in common, as many as its *prefix* is long. A key's
//! *home* line is the bits behind the prefix; its word stands in the first free
//! place from the start of that line on, at most [`MAX_LINES`] lines away (and from
//! the last line on to the first). A word holds 24 bits of the key (its *tag*), a
//! check of its other bits, and the record's address:
//!
//! ```text
//! 63          40 39 37 36                       0
//! [     tag     ][check][      address / 8      ]      0: free
//! ```
//!
//! Words are only ever added. A reader of revision r takes no notice of words
//! whose address is not below the end of r, so that one leaf serves every
//! snapshot since it was made.
//!
//! The tag's bits overlap those of the home line for two reasons: from a word and
//! the line it stands in, its home follows; and a leaf can be doubled or split
//! without looking at a single record, because the next bits of the key are the
//! next bits of the tag. Where the tag begins ([`Shape::tag_start`]) changes after
//! every 16 bits of prefix only: then, records are read.

use crate::digest::Digest;
use crate::file::{ITEM_ALIGN, MAX_ADDRESS};
use crate::ids::Address;

/// Words in a line.
pub const LINE_WORDS: u64 = 8;
/// A word is in its home line or in one of the next `MAX_LINES - 1`.
pub const MAX_LINES: u64 = 8;
/// Binary logarithm of the number of words of the smallest leaf.
pub const MIN_LOG2: u32 = 6;
/// Binary logarithm of the number of words of the largest leaf: 64 KiB.
pub const MAX_LOG2: u32 = 13;
/// Bits of a key.
pub const KEY_BITS: u32 = 256;

/// Bits of a word's tag.
pub const TAG_BITS: u32 = 24;
const CHECK_BITS: u32 = 3;
const ADDRESS_BITS: u32 = 37;
const _: () = assert!(TAG_BITS + CHECK_BITS + ADDRESS_BITS == 64);
const _: () = assert!(MAX_ADDRESS == ITEM_ALIGN << ADDRESS_BITS);

/// The word with this tag for a record at `address`.
#[inline]
pub fn word(tag: u64, address: Address) -> u64 {
    debug_assert!(address.0.is_multiple_of(ITEM_ALIGN) && address.0 < MAX_ADDRESS);
    let address = address.0 / ITEM_ALIGN;
    tag << (CHECK_BITS + ADDRESS_BITS) | check_of(tag, address) << ADDRESS_BITS | address
}

/// The address in a word.
#[inline]
pub fn address(word: u64) -> Address {
    Address((word & ((1 << ADDRESS_BITS) - 1)) * ITEM_ALIGN)
}

/// The tag in a word.
#[inline]
pub fn tag(word: u64) -> u64 {
    word >> (CHECK_BITS + ADDRESS_BITS)
}

/// Whether a word is free or its check is right. Every change of one bit, and of
/// up to three neighbouring ones, makes it wrong.
pub fn is_sound(word: u64) -> bool {
    let check = word >> ADDRESS_BITS & ((1 << CHECK_BITS) - 1);
    check == check_of(tag(word), word & ((1 << ADDRESS_BITS) - 1))
}

/// The exclusive or of all groups of three bits.
fn check_of(tag: u64, address: u64) -> u64 {
    let mut bits = tag << ADDRESS_BITS | address;
    for groups in [16, 8, 4, 2, 1] {
        bits ^= bits >> (groups * CHECK_BITS);
    }
    bits & ((1 << CHECK_BITS) - 1)
}

/// Some bits of a key: those that are known without reading its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBits {
    /// The first of them, counted from the key's most significant bit.
    from: u32,
    /// How many, at most 64.
    count: u32,
    /// They, the first most significant; other bits zero.
    bits: u64,
}

impl KeyBits {
    /// None at all.
    pub const NONE: KeyBits = KeyBits {
        from: 0,
        count: 0,
        bits: 0,
    };

    /// 64 bits of a key, from bit `from` on.
    #[inline]
    pub fn of(key: &Digest, from: u32) -> KeyBits {
        KeyBits {
            from,
            count: 64,
            bits: key.window(from),
        }
    }

    /// The first 64 bits of a key.
    #[inline]
    pub fn first(bits: u64) -> KeyBits {
        KeyBits {
            from: 0,
            count: 64,
            bits,
        }
    }

    /// The same, and the first `prefix` bits of the key, which are those of `path`, where
    /// both fit into 64 bits and nothing between them is missing.
    #[must_use]
    pub fn with_prefix(self, path: u64, prefix: u32) -> KeyBits {
        if self.from > prefix || self.from == 0 || self.from + self.count > 64 {
            return self;
        }
        let kept = path >> (64 - self.from) << (64 - self.from);
        KeyBits {
            from: 0,
            count: self.from + self.count,
            bits: kept | self.bits >> self.from,
        }
    }

    /// Bits `from` to `from + count - 1` of the key, as a number; `None` if they are not
    /// all among these. `count` is at most 63.
    #[inline]
    pub fn get(&self, from: u32, count: u32) -> Option<u64> {
        let skipped = from.checked_sub(self.from)?;
        if skipped + count > self.count {
            return None;
        }
        if count == 0 {
            return Some(0);
        }
        Some(self.bits << skipped >> (64 - count))
    }
}

/// How many lines a leaf has and which bits of a key its homes and tags are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    prefix: u32,
    line_bits: u32,
}

impl Shape {
    /// The shape of a leaf of `1 << log2` words for keys with `prefix` bits in
    /// common; `None` if there is none such.
    #[inline]
    pub fn new(prefix: u32, log2: u32) -> Option<Shape> {
        if !(MIN_LOG2..=MAX_LOG2).contains(&log2) || prefix > KEY_BITS {
            return None;
        }
        Some(Shape {
            prefix,
            line_bits: log2 - LINE_WORDS.trailing_zeros(),
        })
    }

    /// How many first bits all keys have in common.
    #[inline]
    pub fn prefix(self) -> u32 {
        self.prefix
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
        // Half of the lines of the smallest leaf: in a full one, a miss would read it all.
        (self.lines() / 2).min(MAX_LINES)
    }

    /// The bit of the key that is the tag's first.
    #[inline]
    pub fn tag_start(self) -> u32 {
        match self.prefix {
            0 => 0,
            prefix => 7 + (prefix - 1) / 16 * 16,
        }
    }

    /// The first bit of the key that home and tag need; they need fewer than 64 from it on.
    #[inline]
    pub fn first_bit(self) -> u32 {
        self.prefix.min(self.tag_start())
    }

    /// The home line of `key`.
    #[inline]
    pub fn home(self, key: &Digest) -> u64 {
        key.window(self.prefix) >> (64 - self.line_bits)
    }

    /// The tag of `key`.
    #[inline]
    pub fn tag(self, key: &Digest) -> u64 {
        key.window(self.tag_start()) >> (64 - TAG_BITS)
    }

    /// The home line and the tag of a key, if these bits of it suffice.
    #[inline]
    pub fn home_and_tag(self, bits: &KeyBits) -> Option<(u64, u64)> {
        let home = bits.get(self.prefix, self.line_bits)?;
        Some((home, bits.get(self.tag_start(), TAG_BITS)?))
    }

    /// What is known of the key of a word with this tag that stands in `line`: its home's
    /// bits and its tag's. `None` if the home does not follow, as in a small leaf with a
    /// long prefix. An error if no such word can stand there.
    pub fn known_bits(self, tag: u64, line: u64) -> Result<Option<KeyBits>, OutOfPlace> {
        // So many bits of prefix and home are in the tag as well.
        let Some(overlap) = (self.prefix + self.line_bits).checked_sub(self.tag_start()) else {
            return Ok(None);
        };
        let overlap = overlap.min(TAG_BITS);
        // So many low bits of the home follow from the tag.
        let low_bits = overlap.min(self.line_bits);
        if 1 << low_bits < self.reach()
            || self.tag_start() + TAG_BITS < self.prefix + self.line_bits
        {
            return Ok(None);
        }
        let low = tag >> (TAG_BITS - overlap) & ((1 << low_bits) - 1);
        let distance = line.wrapping_sub(low) & ((1 << low_bits) - 1);
        if distance >= self.reach() {
            return Err(OutOfPlace);
        }
        let home = line.wrapping_sub(distance) & (self.lines() - 1);
        // Home and tag put together, from the earlier one's first bit on.
        let from = self.first_bit();
        let end = self.tag_start() + TAG_BITS;
        let count = end - from;
        let at = |first: u32, bits: u32, value: u64| value << (64 - (first - from) - bits);
        let bits = at(self.prefix, self.line_bits, home) | at(self.tag_start(), TAG_BITS, tag);
        Ok(Some(KeyBits { from, count, bits }))
    }
}

/// A word stands where its tag says that it cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfPlace;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_the_key_follow_from_word_and_line() {
        let mut unknown = 0;
        for prefix in (0..40).chain([100, 200, 246]) {
            for log2 in MIN_LOG2..=MAX_LOG2 {
                let shape = Shape::new(prefix, log2).unwrap();
                for i in 0..100u64 {
                    let key = Digest::of(&i.to_le_bytes());
                    let tag = shape.tag(&key);
                    assert_eq!(
                        shape.home_and_tag(&KeyBits::of(&key, shape.first_bit())),
                        Some((shape.home(&key), tag))
                    );
                    for distance in 0..shape.reach() {
                        let line = (shape.home(&key) + distance) & (shape.lines() - 1);
                        let Some(known) = shape.known_bits(tag, line).unwrap() else {
                            unknown += 1;
                            continue;
                        };
                        assert_eq!(
                            known.bits,
                            key.window(known.from) >> (64 - known.count) << (64 - known.count)
                        );
                        assert_eq!(shape.home_and_tag(&known), Some((shape.home(&key), tag)));
                        assert_eq!(known.get(prefix, 1), Some(key.window(prefix) >> 63));
                        let whole = known.with_prefix(key.window(0), prefix);
                        let count = prefix.clamp(1, 30);
                        let first = whole.get(0, count);
                        assert!(first.is_some() || prefix > 24);
                        assert!(first.is_none_or(|bits| bits == key.window(0) >> (64 - count)));
                    }
                }
            }
        }
        assert!(unknown > 0);
        // Of large leaves they are known for every prefix.
        for prefix in 0..=240 {
            let shape = Shape::new(prefix, MAX_LOG2).unwrap();
            let key = Digest::of(b"key");
            assert!(
                shape
                    .known_bits(shape.tag(&key), shape.home(&key))
                    .unwrap()
                    .is_some()
            );
        }
    }

    #[test]
    fn splitting_needs_no_record_for_sixteen_bits_of_prefix() {
        let key = Digest::of(b"key");
        for prefix in 1..240 {
            let shape = Shape::new(prefix, MAX_LOG2).unwrap();
            let half = Shape::new(prefix + 1, MAX_LOG2).unwrap();
            let known = shape
                .known_bits(shape.tag(&key), shape.home(&key))
                .unwrap()
                .unwrap();
            let suffices = half.home_and_tag(&known).is_some();
            assert_eq!(suffices, !prefix.is_multiple_of(16), "{prefix}");
        }
    }

    #[test]
    fn words_that_cannot_stand_there_are_noticed() {
        let shape = Shape::new(0, MAX_LOG2).unwrap();
        assert!(shape.known_bits(0, 7).unwrap().is_some());
        assert_eq!(shape.known_bits(0, 8), Err(OutOfPlace));
    }

    #[test]
    fn every_change_of_a_bit_is_noticed() {
        let good = word(0xabcdef, Address(0x12_3456_7890));
        assert_eq!(
            (tag(good), address(good)),
            (0xabcdef, Address(0x12_3456_7890))
        );
        assert!(is_sound(good) && is_sound(0));
        for bit in 0..64 {
            assert!(!is_sound(good ^ 1 << bit), "bit {bit}");
            assert!(!is_sound(1 << bit), "bit {bit} of a free word");
        }
    }

    #[test]
    fn only_sane_sizes() {
        assert_eq!(Shape::new(0, 5), None);
        assert_eq!(Shape::new(0, 14), None);
        assert_eq!(Shape::new(257, 6), None);
        assert_eq!(Shape::new(0, 6).unwrap().words(), 64);
    }
}
