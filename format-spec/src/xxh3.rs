//! XXH3, 64 bits: without a seed the checks of records and of large sections, with one the keys of names and pieces.
//!
//! Two crates compute it, each where it is the faster one, which was measured on links: one looks what vectors the
//! processor has, which pays for long inputs; the other is made of straight code for the short ones, which most records are.

/// From so many bytes on an input is long.
const LONG: usize = 1 << 10;

/// XXH3 of `bytes`.
#[inline]
pub(crate) fn xxh3(bytes: &[u8]) -> u64 {
    match bytes.len() {
        ..LONG => xxhash_rust::xxh3::xxh3_64(bytes),
        _ => twox_hash::XxHash3_64::oneshot(bytes),
    }
}

/// XXH3 of `bytes` with a seed, for those that are mostly short.
#[inline]
pub(crate) fn seeded_xxh3(bytes: &[u8], seed: u64) -> u64 {
    match bytes.len() {
        ..LONG => xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed),
        _ => twox_hash::XxHash3_64::oneshot_with_seed(seed, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_compute_the_same() {
        let bytes: Vec<u8> = (0..5000u32).map(|at| ((at * at) >> 3) as u8).collect();
        for length in [
            0,
            1,
            16,
            128,
            240,
            241,
            LONG - 1,
            LONG,
            LONG + 1,
            4096,
            5000,
        ] {
            let bytes = &bytes[..length];
            let expected = xxhash_rust::xxh3::xxh3_64(bytes);
            assert_eq!(xxh3(bytes), expected);
            assert_eq!(twox_hash::XxHash3_64::oneshot(bytes), expected, "{length}");
            let seeded = xxhash_rust::xxh3::xxh3_64_with_seed(bytes, 42);
            assert_eq!(seeded_xxh3(bytes, 42), seeded);
            let other = twox_hash::XxHash3_64::oneshot_with_seed(42, bytes);
            assert_eq!(other, seeded, "{length}");
        }
    }
}
