//! Packs: items of the log that hold several records, compressed together (SPEC.md, section 5).
//!
//! A record costs 12 bytes and more beside its key and value, and most of what small records say, others say as well. So where bytes count more
//! than the time of unpacking them, records stand in the log like this:
//!
//! ```text
//! head │ word  word  word … │ a Zstandard frame │ check
//!          │     │
//!          │     └── the second record's address is that of its word
//!          └── mark, number, and where the record begins in what the frame holds
//! ```
//!
//! What the frame holds are the records as they would stand in the log, but for their checks, which are zero: the pack has one of its own. A record's
//! address is that of its word, so that indices, vectors and other records refer to it as to any other.

use crate::file::ITEM_ALIGN;

/// The records of a pack are at most so many: their number is the slot of the item's head.
pub const MAX_RECORDS: usize = 255;
/// What a pack's frame holds has at most so many bytes.
pub const MAX_UNPACKED: u64 = 1 << 20;
/// High byte of every word, so that none is taken for the head of an item.
pub const MARK: u8 = 0xc6;

/// The word of the record `number` of a pack, which begins at `offset` in what the frame holds.
#[inline]
pub fn word(number: u8, offset: u32) -> u64 {
    u64::from(offset) | u64::from(number) << 48 | u64::from(MARK) << 56
}

/// The number and the offset in a word; `None` if it is none.
#[inline]
pub fn parse_word(word: u64) -> Option<(u8, u32)> {
    let (number, offset) = ((word >> 48) as u8, word as u32);
    (self::word(number, offset) == word).then_some((number, offset))
}

/// Where the pack is of which the word of the record `number` is at `address`.
#[inline]
pub fn pack_of(address: u64, number: u8) -> Option<u64> {
    address.checked_sub(ITEM_ALIGN * (1 + u64::from(number)))
}

/// The address of the record `number` of the pack at `pack`.
#[inline]
pub fn address_in(pack: u64, number: u8) -> u64 {
    pack + ITEM_ALIGN * (1 + u64::from(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{ItemHead, ItemKind};

    #[test]
    fn words_say_where_and_which() {
        for (number, offset) in [(0, 0), (254, 8), (7, u32::MAX)] {
            let word = word(number, offset);
            assert_eq!(parse_word(word), Some((number, offset)));
            assert!(!ItemHead(word).is_marked());
            for bit in 32..48 {
                assert_eq!(parse_word(word ^ 1 << bit), None);
            }
            assert_eq!(parse_word(word ^ 1 << 56), None);
            assert_eq!(pack_of(address_in(4096, number), number), Some(4096));
        }
        let head = ItemHead::new(ItemKind::Pack, 3, 80).unwrap();
        assert_eq!(parse_word(head.0), None);
        assert_eq!(pack_of(8, 1), None);
    }
}
