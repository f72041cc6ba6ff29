//! Compressed debug sections (gABI, "Section Compression"): reading them, and
//! `--compress-debug-sections`.
//!
//! A section with `SHF_COMPRESSED` starts with a header that gives the format, the
//! size and the alignment of what it holds. Before the gABI had that, GNU tools
//! named the section `.zdebug_*` and began it with `ZLIB` and the size.
//!
//! Output is compressed in shards of a megabyte, in parallel. For zlib each shard is
//! a run of deflate blocks that ends at a byte boundary and refers to nothing before
//! it, so that shards can be put one after the other in one stream; for Zstandard
//! each is a frame.

use flate2::{Compress, Compression, FlushCompress, Status};
use rayon::prelude::*;
use std::cmp::Ordering;
use std::io::Read as _;

/// Compression format of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `ELFCOMPRESS_ZLIB`: RFC 1950.
    Zlib,
    /// `ELFCOMPRESS_ZSTD`: RFC 8878.
    Zstd,
}

const ELFCOMPRESS_ZLIB: u32 = 1;
const ELFCOMPRESS_ZSTD: u32 = 2;
/// Size of `Elf64_Chdr`.
const CHDR_SIZE: usize = 24;
/// Size of the `.zdebug` header.
const ZDEBUG_SIZE: usize = 12;

/// Size of the shards that are compressed on their own, in bytes.
const SHARD_SIZE: usize = 1 << 20;

/// Why a section cannot be decompressed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecompressError {
    /// The section is shorter than its header.
    #[error("compressed section is too short for its header")]
    Truncated,
    /// Neither zlib nor Zstandard.
    #[error("unknown compression format {0}")]
    UnknownFormat(u32),
    /// Not a power of two.
    #[error("compressed section has invalid alignment {0}")]
    BadAlignment(u64),
    /// The stream is damaged, or holds another number of bytes than the header says.
    #[error("compressed section is damaged: {0}")]
    Damaged(&'static str),
}

/// A compressed section, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compressed<'a> {
    /// Format of the stream.
    pub format: Format,
    /// Size of what it holds, in bytes, as its header says.
    pub size: u64,
    /// Alignment of what it holds, in bytes: at least 1.
    pub alignment: u64,
    stream: &'a [u8],
}

impl<'a> Compressed<'a> {
    /// Takes apart a section with `SHF_COMPRESSED`.
    ///
    /// # Errors
    /// If its header is damaged.
    pub fn parse(section: &'a [u8]) -> Result<Self, DecompressError> {
        let (header, stream) = section
            .split_first_chunk::<CHDR_SIZE>()
            .ok_or(DecompressError::Truncated)?;
        let word = |at: usize| {
            let bytes = header[at..].first_chunk::<8>();
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let format = match word(0) as u32 {
            ELFCOMPRESS_ZLIB => Format::Zlib,
            ELFCOMPRESS_ZSTD => Format::Zstd,
            other => return Err(DecompressError::UnknownFormat(other)),
        };
        let alignment = word(16).max(1);
        if !alignment.is_power_of_two() {
            return Err(DecompressError::BadAlignment(alignment));
        }
        Ok(Compressed {
            format,
            size: word(8),
            alignment,
            stream,
        })
    }

    /// Takes apart a section whose name begins with `.zdebug`. Its alignment is that
    /// of the section itself.
    ///
    /// # Errors
    /// If its header is damaged.
    pub fn parse_zdebug(section: &'a [u8], alignment: u64) -> Result<Self, DecompressError> {
        let (header, stream) = section
            .split_first_chunk::<ZDEBUG_SIZE>()
            .ok_or(DecompressError::Truncated)?;
        let [b'Z', b'L', b'I', b'B', size @ ..] = *header else {
            return Err(DecompressError::Damaged("no ZLIB header"));
        };
        Ok(Compressed {
            format: Format::Zlib,
            size: u64::from_be_bytes(size),
            alignment: alignment.max(1),
            stream,
        })
    }

    /// Decompresses it.
    ///
    /// # Errors
    /// If the stream is damaged, or does not hold exactly [`Compressed::size`] bytes.
    pub fn decompress(&self) -> Result<Vec<u8>, DecompressError> {
        // One byte more than promised, to see whether there is more. The buffer grows as bytes come, so that a false size
        // costs nothing.
        let limit = self.size.saturating_add(1);
        let mut bytes = Vec::new();
        let (read, what) = match self.format {
            Format::Zlib => (
                flate2::read::ZlibDecoder::new(self.stream)
                    .take(limit)
                    .read_to_end(&mut bytes),
                "not a zlib stream",
            ),
            Format::Zstd => (
                zstd::Decoder::new(self.stream)
                    .and_then(|decoder| decoder.take(limit).read_to_end(&mut bytes)),
                "not a Zstandard frame",
            ),
        };
        read.map_err(|_| DecompressError::Damaged(what))?;
        match (bytes.len() as u64).cmp(&self.size) {
            Ordering::Equal => Ok(bytes),
            Ordering::Less => Err(DecompressError::Damaged(
                "it holds fewer bytes than it should",
            )),
            Ordering::Greater => Err(DecompressError::Damaged(
                "it holds more bytes than it should",
            )),
        }
    }
}

/// What a `.zdebug_*` section is called when it is decompressed, of the names of DWARF 5 (sections 7.3 and F.1), older
/// versions and GNU.
pub fn plain_name(name: &[u8]) -> Option<&'static [u8]> {
    const NAMES: [&[u8]; 28] = [
        b".debug_abbrev",
        b".debug_addr",
        b".debug_aranges",
        b".debug_cu_index",
        b".debug_frame",
        b".debug_funcnames",
        b".debug_gdb_scripts",
        b".debug_gnu_pubnames",
        b".debug_gnu_pubtypes",
        b".debug_info",
        b".debug_line",
        b".debug_line_str",
        b".debug_loc",
        b".debug_loclists",
        b".debug_macinfo",
        b".debug_macro",
        b".debug_names",
        b".debug_pubnames",
        b".debug_pubtypes",
        b".debug_ranges",
        b".debug_rnglists",
        b".debug_str",
        b".debug_str_offsets",
        b".debug_sup",
        b".debug_tu_index",
        b".debug_types",
        b".debug_varnames",
        b".debug_weaknames",
    ];
    let rest = name.strip_prefix(b".zdebug_")?;
    NAMES
        .into_iter()
        .find(|name| name.strip_prefix(b".debug_") == Some(rest))
}

/// Compresses a section, with its header. `level` is the format's own (1 to 9 for
/// zlib, 1 to 22 for Zstandard). The same input gives the same bytes, with any number
/// of threads. `None` if it would not become smaller.
pub fn compress(section: &[u8], format: Format, level: u32, alignment: u64) -> Option<Vec<u8>> {
    let shard_count = section.len().div_ceil(SHARD_SIZE).max(1);
    let shard = |i: usize| {
        let start = i * SHARD_SIZE;
        &section[start..section.len().min(start + SHARD_SIZE)]
    };
    let shards: Option<Vec<Vec<u8>>> = (0..shard_count)
        .into_par_iter()
        .map(|i| match format {
            Format::Zlib => deflate(shard(i), level, i + 1 == shard_count),
            Format::Zstd => zstd::bulk::compress(shard(i), level.min(22) as i32).ok(),
        })
        .collect();
    let mut out = vec![0; CHDR_SIZE];
    let number = match format {
        Format::Zlib => ELFCOMPRESS_ZLIB,
        Format::Zstd => ELFCOMPRESS_ZSTD,
    };
    out[..4].copy_from_slice(&number.to_le_bytes());
    out[8..16].copy_from_slice(&(section.len() as u64).to_le_bytes());
    out[16..24].copy_from_slice(&alignment.to_le_bytes());
    if format == Format::Zlib {
        out.extend(ZLIB_HEADER);
    }
    out.extend(shards?.into_iter().flatten());
    if format == Format::Zlib {
        let sums: Vec<_> = section
            .par_chunks(SHARD_SIZE)
            .map(|shard| (adler2::adler32_slice(shard), shard.len()))
            .collect();
        let sum = sums
            .into_iter()
            .fold(1, |sum, (next, len)| join_adler32(sum, next, len));
        out.extend(sum.to_be_bytes());
    }
    (out.len() < section.len()).then_some(out)
}

/// Makes of a section that [`compress`] has compressed with zlib the older form, which is known by its name
/// (`.zdebug_*`): the stream behind `ZLIB` and the size. `None` if it is not such a section.
pub fn to_zdebug(section: Vec<u8>) -> Option<Vec<u8>> {
    let parsed = Compressed::parse(&section).ok()?;
    if parsed.format != Format::Zlib {
        return None;
    }
    let mut out = b"ZLIB".to_vec();
    out.extend(parsed.size.to_be_bytes());
    out.extend(parsed.stream);
    Some(out)
}

/// RFC 1950: deflate, window of 32 KiB, no dictionary.
const ZLIB_HEADER: [u8; 2] = [0x78, 0x01];

/// Makes deflate blocks of a shard. All but the last one end with an empty stored
/// block, which aligns what follows to a byte.
fn deflate(shard: &[u8], level: u32, is_last: bool) -> Option<Vec<u8>> {
    let mut state = Compress::new(Compression::new(level.min(9)), false);
    let mut out = Vec::with_capacity(shard.len() / 2 + 64);
    let flush = if is_last {
        FlushCompress::Finish
    } else {
        FlushCompress::Sync
    };
    loop {
        let rest = &shard[state.total_in() as usize..];
        let status = state.compress_vec(rest, &mut out, flush).ok()?;
        let is_done = match is_last {
            true => status == Status::StreamEnd,
            // A flush is complete when it leaves room in the output.
            false => state.total_in() == shard.len() as u64 && out.len() < out.capacity(),
        };
        if is_done {
            return Some(out);
        }
        out.reserve(out.capacity().max(64));
    }
}

/// Adler-32 (RFC 1950) of two strings after each other, from that of each, and the
/// second one's length.
fn join_adler32(first: u32, second: u32, second_len: usize) -> u32 {
    const MODULUS: u64 = 65521;
    let halves = |sum: u32| (u64::from(sum & 0xffff), u64::from(sum >> 16));
    let ((a1, b1), (a2, b2)) = (halves(first), halves(second));
    // a is 1 + the sum of the bytes; b is the sum of a after each byte. Starting the
    // second string with a1 in place of 1 adds a1 - 1 to each of its values.
    let excess = a1 + MODULUS - 1;
    let a = (excess + a2) % MODULUS;
    let b = (b1 + b2 + second_len as u64 % MODULUS * (excess % MODULUS)) % MODULUS;
    (b as u32) << 16 | a as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes that compress, but not to nothing; a little over two shards.
    fn sample() -> Vec<u8> {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            (state >> 24) as u8 & 0x1f
        };
        (0..2 * SHARD_SIZE + 1000).map(|_| next()).collect()
    }

    #[test]
    fn round_trips() {
        let sample = sample();
        for (format, level) in [(Format::Zlib, 1), (Format::Zlib, 6), (Format::Zstd, 3)] {
            for len in [sample.len(), SHARD_SIZE, SHARD_SIZE + 1, 200] {
                let section = compress(&sample[..len], format, level, 8).unwrap();
                let parsed = Compressed::parse(&section).unwrap();
                assert_eq!(
                    (parsed.format, parsed.size, parsed.alignment),
                    (format, len as u64, 8)
                );
                assert!(
                    parsed.decompress().unwrap() == sample[..len],
                    "{format:?} {len}"
                );
            }
        }
    }

    /// The stream has a right checksum: another reader takes it to its end.
    #[test]
    fn zlib_stream_is_whole() {
        let sample = sample();
        let section = compress(&sample, Format::Zlib, 1, 1).unwrap();
        let mut reader = flate2::bufread::ZlibDecoder::new(&section[CHDR_SIZE..]);
        let mut out = vec![];
        reader.read_to_end(&mut out).unwrap();
        assert!(out == sample);
        assert!(reader.into_inner().is_empty());
    }

    /// Zstandard makes thousands of bytes one where they are all the same.
    #[test]
    fn bytes_that_are_all_the_same() {
        let zeros = vec![0; SHARD_SIZE];
        for format in [Format::Zlib, Format::Zstd] {
            let section = compress(&zeros, format, 3, 1).unwrap();
            assert!(section.len() < 2000, "{format:?}");
            let parsed = Compressed::parse(&section).unwrap();
            assert!(parsed.decompress().unwrap() == zeros, "{format:?}");
        }
    }

    #[test]
    fn incompressible_sections_stay() {
        assert_eq!(compress(&[], Format::Zlib, 6, 1), None);
        assert_eq!(compress(&[1, 2, 3], Format::Zstd, 3, 1), None);
    }

    #[test]
    fn zdebug() {
        let data = [5u8; 1000];
        let compressed = compress(&data, Format::Zlib, 6, 1).unwrap();
        let section = [
            b"ZLIB",
            &1000u64.to_be_bytes()[..],
            &compressed[CHDR_SIZE..],
        ]
        .concat();
        assert_eq!(to_zdebug(compressed), Some(section.clone()));
        assert_eq!(
            to_zdebug(compress(&data, Format::Zstd, 1, 1).unwrap()),
            None
        );
        let parsed = Compressed::parse_zdebug(&section, 4).unwrap();
        assert_eq!((parsed.size, parsed.alignment), (1000, 4));
        assert_eq!(parsed.decompress().unwrap(), data);
        assert_eq!(
            Compressed::parse_zdebug(&section[..11], 1),
            Err(DecompressError::Truncated)
        );
        let error = Compressed::parse_zdebug(&section[1..], 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "compressed section is damaged: no ZLIB header"
        );
    }

    #[test]
    fn damaged_sections() {
        use DecompressError::*;
        for format in [Format::Zlib, Format::Zstd] {
            let good = compress(&[5u8; 1000], format, 1, 4).unwrap();
            let with = |at: usize, byte: u8| {
                let mut bad = good.clone();
                bad[at] = byte;
                Compressed::parse(&bad).and_then(|section| section.decompress())
            };
            assert!(with(4, 1).is_ok());
            assert_eq!(with(0, 3), Err(UnknownFormat(3)));
            assert_eq!(with(16, 3), Err(BadAlignment(3)));
            // A size that no memory holds.
            assert!(matches!(with(14, 1), Err(Damaged(_))));
            // One byte too few, one too many.
            assert!(matches!(
                with(8, (1000u32 & 0xff) as u8 - 1),
                Err(Damaged(_))
            ));
            assert!(matches!(
                with(8, (1000u32 & 0xff) as u8 + 1),
                Err(Damaged(_))
            ));
            assert!(matches!(with(CHDR_SIZE, 0xee), Err(Damaged(_))));
            let cut = Compressed::parse(&good[..good.len() - 5]).unwrap();
            assert!(matches!(cut.decompress(), Err(Damaged(_))));
            assert_eq!(Compressed::parse(&good[..23]), Err(Truncated));
        }
    }

    proptest! {
        #[test]
        fn joined_checksums(first in proptest::collection::vec(any::<u8>(), 0..300), second in proptest::collection::vec(any::<u8>(), 0..300)) {
            let whole = adler2::adler32_slice(&[&first[..], &second[..]].concat());
            let joined = join_adler32(adler2::adler32_slice(&first), adler2::adler32_slice(&second), second.len());
            prop_assert_eq!(joined, whole);
        }

        #[test]
        fn arbitrary_bytes(format in 1u8..3, size in 0u16..2000, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut section = vec![format, 0, 0, 0, 0, 0, 0, 0];
            section.extend(u64::from(size).to_le_bytes());
            section.extend(1u64.to_le_bytes());
            section.extend(&bytes);
            if let Ok(parsed) = Compressed::parse(&section) {
                let _ = parsed.decompress();
            }
            let _ = Compressed::parse(&bytes);
            let _ = Compressed::parse_zdebug(&bytes, 1);
        }

        #[test]
        fn small_round_trips(bytes in proptest::collection::vec(0u8..3, 0..2000), level in 1u32..9) {
            for format in [Format::Zlib, Format::Zstd] {
                if let Some(section) = compress(&bytes, format, level, 1) {
                    prop_assert_eq!(&Compressed::parse(&section).unwrap().decompress().unwrap(), &bytes);
                }
            }
        }
    }
}
