//! The digest that names content: BLAKE3, 256 bits.

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

    /// Reads 64 hexadecimal digits; `None` for anything else.
    pub fn from_hex(text: &str) -> Option<Digest> {
        blake3::Hash::from_hex(text)
            .ok()
            .map(|hash| Digest(*hash.as_bytes()))
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
}
