//! Files that are kept whole (SPEC.md, section 27), in one piece of bytes.

use std::io::{self, Write};

/// The object's own name among the files.
pub const OBJECT: &[u8] = b"";

/// More than this is not unpacked.
const MOST_BYTES: u64 = 1 << 30;

/// Packs files.
///
/// # Errors
/// Of the compressor.
pub fn pack<'f>(files: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> io::Result<Vec<u8>> {
    let mut to = zstd::stream::Encoder::new(Vec::new(), 1)?;
    for (name, bytes) in files {
        to.write_all(&(name.len() as u64).to_le_bytes())?;
        to.write_all(&(bytes.len() as u64).to_le_bytes())?;
        to.write_all(name)?;
        to.write_all(bytes)?;
    }
    to.finish()
}

/// The files with their names; `None` if these are no such bytes.
pub fn unpack(packed: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut unpacked = Vec::new();
    let mut from = zstd::stream::Decoder::with_buffer(packed).ok()?;
    io::copy(&mut io::Read::take(&mut from, MOST_BYTES), &mut unpacked).ok()?;
    let mut rest = &unpacked[..];
    let mut files = Vec::new();
    while !rest.is_empty() {
        let (name, behind) = rest.split_first_chunk::<8>()?;
        let (size, behind) = behind.split_first_chunk::<8>()?;
        let length = |bytes: &[u8; 8]| usize::try_from(u64::from_le_bytes(*bytes)).ok();
        let (name, behind) = behind.split_at_checked(length(name)?)?;
        let (bytes, behind) = behind.split_at_checked(length(size)?)?;
        files.push((name.to_vec(), bytes.to_vec()));
        rest = behind;
    }
    Some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_back() {
        let files = [
            (&b"a.d"[..], &b"x: y\n"[..]),
            (OBJECT, &[7; 100_000]),
            (b"empty", b""),
        ];
        let packed = pack(files.into_iter()).expect("packed");
        assert!(packed.len() < 1000);
        let unpacked = unpack(&packed).expect("unpacked");
        let again: Vec<_> = unpacked
            .iter()
            .map(|(name, bytes)| (&name[..], &bytes[..]))
            .collect();
        assert_eq!(again, files);
        assert_eq!(unpack(&packed[..packed.len() / 2]), None);
        assert_eq!(unpack(b"no frame"), None);
        let cut = zstd::bulk::compress(&[9; 20], 1).expect("compressed");
        assert_eq!(unpack(&cut), None);
    }
}
