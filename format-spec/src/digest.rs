//! The digest that names content: BLAKE3, 256 bits.

use crate::file::SHORT_KEY;
use bytemuck::{Pod, Zeroable};
use std::fmt;

/// A BLAKE3-256 digest: the name of a fragment, compilation, piece or string.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(*blake3::hash(bytes).as_bytes())
    }

    /// The digest of `bytes` under a key, which says what they are.
    pub fn keyed(key: &[u8; 32], bytes: &[u8]) -> Digest {
        Digest(*blake3::keyed_hash(key, bytes).as_bytes())
    }

    /// Reads 64 hexadecimal digits; `None` for anything else.
    pub fn from_hex(text: &str) -> Option<Digest> {
        blake3::Hash::from_hex(text)
            .ok()
            .map(|hash| Digest(*hash.as_bytes()))
    }

    /// The digest's first bytes only, zeros behind: what a numbered record is found by
    /// ([`ItemKind::Numbered`](crate::file::ItemKind::Numbered)).
    #[must_use]
    pub fn shortened(&self) -> Digest {
        let mut short = Digest([0; 32]);
        short.0[..SHORT_KEY].copy_from_slice(&self.0[..SHORT_KEY]);
        short
    }

    /// 64 bits of the digest, from bit `from` on (bit 0 is the most significant one of the
    /// first byte), the first of them most significant; zeros beyond the last. Tries and
    /// their leaves take keys apart by such windows (SPEC.md, sections 7 and 8).
    #[inline]
    pub fn window(&self, from: u32) -> u64 {
        let word = |number: u32| {
            let bytes = self.0.as_chunks::<8>().0.get(number as usize);
            bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes))
        };
        let (number, shift) = (from / 64, from % 64);
        word(number) << shift | word(number + 1) >> 1 >> (63 - shift)
    }
}

impl fmt::Display for Digest {
    /// The 64 hexadecimal digits; `{:.N}` prints the first N of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:.16}…")
    }
}

#[cfg(test)]
mod tests {
    use super::Digest;

    #[test]
    fn hex_round_trip() {
        let digest = Digest::of(b"abc");
        assert_eq!(Digest::from_hex(&digest.to_string()), Some(digest));
        assert_eq!(format!("{digest:.8}"), "6437b3ac");
        assert_eq!(Digest::from_hex("6437"), None);
    }

    #[test]
    fn windows_are_the_bits_in_their_order() {
        let digest = Digest::of(b"abc");
        let bit = |at: u32| {
            digest
                .0
                .get(at as usize / 8)
                .map_or(0, |byte| byte >> (7 - at % 8) & 1)
        };
        for from in 0..300 {
            let expected = (from..from + 64).fold(0, |bits, at| bits << 1 | u64::from(bit(at)));
            assert_eq!(digest.window(from), expected, "{from}");
        }
    }
}
