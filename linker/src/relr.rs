//! Relative relocations in a compact form: `.relr.dyn` (gABI, "Relative
//! Relocation Table").
//!
//! The table is a sequence of 64-bit words. An even word is the address of a place
//! to relocate. An odd one is a bitmap: its bits 1 to 63 stand for the 63 words
//! that follow what the words before it have described. Pointers in a program stand
//! close together, so a place costs little more than a bit; as `Elf64_Rela` it
//! costs 24 bytes.

/// A word that may be added at the end of a table, and relocates nothing: an empty
/// bitmap. (A table's size must be known before the addresses are, and both depend
/// on each other; a table that has become shorter is filled up with these.)
pub const PADDING: u64 = 1;

/// Number of places that one bitmap stands for.
const BITMAP_PLACES: u64 = 63;

/// Whether a place can be in the table. (Others need `R_X86_64_RELATIVE`.)
pub const fn is_encodable(address: u64) -> bool {
    address.is_multiple_of(2)
}

/// Encodes the places to relocate, which must be in ascending order without
/// duplicates and [encodable](is_encodable).
///
/// # Panics
/// In debug builds, if they are not.
pub fn encode(addresses: &[u64]) -> Vec<u64> {
    debug_assert!(addresses.is_sorted_by(|a, b| a < b));
    debug_assert!(addresses.iter().all(|address| is_encodable(*address)));
    let mut table = vec![];
    let mut rest = addresses.iter().copied().peekable();
    while let Some(address) = rest.next() {
        table.push(address);
        let mut base = address.wrapping_add(8);
        loop {
            let mut bitmap = 0u64;
            while let Some(next) = rest.peek() {
                // Wraps below for places less than a word apart: out of range.
                let distance = next.wrapping_sub(base);
                if distance % 8 != 0 || distance / 8 >= BITMAP_PLACES {
                    break;
                }
                bitmap |= 2 << (distance / 8);
                rest.next();
            }
            if bitmap == 0 {
                break;
            }
            table.push(bitmap | 1);
            base = base.wrapping_add(8 * BITMAP_PLACES);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As the gABI says a table is to be read.
    fn decode(table: &[u64]) -> Vec<u64> {
        let (mut places, mut base) = (vec![], 0u64);
        for word in table {
            if word & 1 == 0 {
                places.push(*word);
                base = word.wrapping_add(8);
            } else {
                for bit in 1..64u64 {
                    if word >> bit & 1 == 1 {
                        places.push(base.wrapping_add(8 * (bit - 1)));
                    }
                }
                base = base.wrapping_add(8 * 63);
            }
        }
        places
    }

    #[test]
    fn by_hand() {
        assert_eq!(encode(&[]), [0u64; 0]);
        assert_eq!(encode(&[0x1000]), [0x1000]);
        assert_eq!(encode(&[0x1000, 0x1008, 0x1018]), [0x1000, 0b1011]);
        // The last place of the first bitmap, and the first of the second.
        assert_eq!(encode(&[0, 63 * 8, 64 * 8]), [0, 1 << 63 | 1, 0b11]);
        // An empty bitmap is never worth more than an address.
        assert_eq!(encode(&[0, 64 * 8]), [0, 64 * 8]);
        assert_eq!(encode(&[0, 4, 8]), [0, 4, 8]);
    }

    proptest! {
        #[test]
        fn round_trip(gaps in proptest::collection::vec(
            prop_oneof![8 => Just(8u64), 2 => Just(16u64), 1 => Just(4u64), 1 => Just(2), 1 => (0u64..2000).prop_map(|n| 2 * n + 2)],
            0..300,
        ), start in (0u64..1000).prop_map(|n| 2 * n), padding in 0usize..3) {
            let addresses: Vec<u64> = gaps.iter().scan(start, |at, gap| { *at += gap; Some(*at) }).collect();
            let mut table = encode(&addresses);
            prop_assert!(table.len() <= addresses.len());
            table.extend(std::iter::repeat_n(PADDING, padding));
            prop_assert_eq!(decode(&table), addresses);
        }
    }
}
