//! The build id: a note that names the contents of an output file
//! (`--build-id`, `.note.gnu.build-id`).
//!
//! Nobody can check a build id by computing it again (it is part of what it is
//! computed from), so what counts is that equal outputs have equal ids, that
//! different ones have different ids, and that it costs little. So `sha1` and `md5`
//! choose the *length* only, as in other fast linkers; the digest is always
//! a tree of two levels: XXH3 (128 bits) of the output's chunks, and BLAKE3 of the list of these.
//! Nobody gains by making two programs of one id, so a hash that is as fast as memory is good enough for the
//! chunks. They are digested in parallel, and a relink only digests those
//! that changed ([`chunk_digest`], [`Style::of_chunks`]).
//!
//! The output is digested with the id's own bytes set to zero.

use rayon::prelude::*;

/// Which id to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Style {
    /// A digest of the contents, this many bytes long.
    Digest(DigestLength),
    /// Random, 16 bytes (RFC 9562, version 4).
    Uuid,
    /// These bytes.
    Given(Vec<u8>),
}

/// Length of an id that is a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum DigestLength {
    /// `md5`.
    Bytes16 = 16,
    /// `sha1`, `tree`, and when no style is named.
    Bytes20 = 20,
    /// `sha256`.
    Bytes32 = 32,
}

/// The operating system has no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a random build id: {0}")]
pub struct NoRandomness(std::io::Error);

/// Size of the chunks that are digested on their own, in bytes.
pub const CHUNK_SIZE: usize = 256 << 10;

/// Digest of one chunk.
pub type ChunkDigest = [u8; 16];

/// Digests one chunk of the output: [`CHUNK_SIZE`] bytes, or fewer at the end.
pub fn chunk_digest(chunk: &[u8]) -> ChunkDigest {
    twox_hash::XxHash3_128::oneshot(chunk).to_le_bytes()
}

/// Digests all chunks, in parallel.
pub fn chunk_digests(output: &[u8]) -> Vec<ChunkDigest> {
    output.par_chunks(CHUNK_SIZE).map(chunk_digest).collect()
}

impl Style {
    /// Length of the id in bytes.
    pub fn len(&self) -> usize {
        match self {
            Style::Digest(length) => *length as usize,
            Style::Uuid => 16,
            Style::Given(bytes) => bytes.len(),
        }
    }

    /// Makes the id of `output`, in which the id's own bytes are zero.
    ///
    /// # Errors
    /// Only [`Style::Uuid`] can fail.
    pub fn compute(&self, output: &[u8]) -> Result<Vec<u8>, NoRandomness> {
        match self {
            Style::Digest(_) => self.of_chunks(&chunk_digests(output), output.len() as u64),
            Style::Uuid | Style::Given(_) => self.of_chunks(&[], 0),
        }
    }

    /// As [`Style::compute`], where the digests of all chunks are known. `size` is
    /// the output's, in bytes.
    ///
    /// # Errors
    /// Only [`Style::Uuid`] can fail.
    pub fn of_chunks(&self, chunks: &[ChunkDigest], size: u64) -> Result<Vec<u8>, NoRandomness> {
        match self {
            Style::Given(bytes) => Ok(bytes.clone()),
            Style::Uuid => random_uuid(),
            Style::Digest(length) => {
                let mut hasher = blake3::Hasher::new();
                hasher.update(&size.to_le_bytes());
                hasher.update(chunks.as_flattened());
                let mut id = vec![0; *length as usize];
                hasher.finalize_xof().fill(&mut id);
                Ok(id)
            }
        }
    }
}

fn random_uuid() -> Result<Vec<u8>, NoRandomness> {
    use std::io::Read;
    let mut id = vec![0; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut id))
        .map_err(NoRandomness)?;
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    Ok(id)
}

/// Size of the note's header with the owner's name; the id follows.
pub const NOTE_HEADER_SIZE: usize = 16;
const NT_GNU_BUILD_ID: u32 = 3;

/// The note's header (gABI, "Note Section") for an id of `len` bytes. The section's
/// size is that of the header and of the id, rounded up to a multiple of 4.
pub fn note_header(len: usize) -> [u8; NOTE_HEADER_SIZE] {
    let mut header = [0; NOTE_HEADER_SIZE];
    header[..4].copy_from_slice(&4u32.to_le_bytes());
    header[4..8].copy_from_slice(&(len as u32).to_le_bytes());
    header[8..12].copy_from_slice(&NT_GNU_BUILD_ID.to_le_bytes());
    header[12..].copy_from_slice(b"GNU\0");
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: Style = Style::Digest(DigestLength::Bytes20);

    #[test]
    fn digests_depend_on_every_byte_and_on_nothing_else() {
        let mut output = vec![7u8; 2 * CHUNK_SIZE + 5];
        let id = DEFAULT.compute(&output).unwrap();
        assert_eq!(id.len(), 20);
        assert_eq!(DEFAULT.compute(&output).unwrap(), id);
        for at in [0, CHUNK_SIZE, output.len() - 1] {
            output[at] ^= 1;
            assert_ne!(DEFAULT.compute(&output).unwrap(), id);
            output[at] ^= 1;
        }
        assert_ne!(DEFAULT.compute(&output[1..]).unwrap(), id);
        // One chunk anew, the others from before.
        let mut chunks = chunk_digests(&output);
        output[CHUNK_SIZE + 3] = 0;
        chunks[1] = chunk_digest(&output[CHUNK_SIZE..2 * CHUNK_SIZE]);
        assert_eq!(
            DEFAULT.of_chunks(&chunks, output.len() as u64).unwrap(),
            DEFAULT.compute(&output).unwrap()
        );
    }

    #[test]
    fn other_ids() {
        let uuid = Style::Uuid.compute(&[]).unwrap();
        assert_eq!((uuid.len(), uuid[6] >> 4, uuid[8] >> 6), (16, 4, 2));
        assert_ne!(uuid, Style::Uuid.compute(&[]).unwrap());
        assert_eq!(Style::Given(vec![1, 2]).compute(&[3]).unwrap(), [1, 2]);
    }

    #[test]
    fn note() {
        assert_eq!(
            note_header(20),
            [4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0]
        );
    }
}
