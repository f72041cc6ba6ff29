//! Merging of `SHF_MERGE` sections (gABI, "Section Attribute Flags"): equal
//! strings and constants of all inputs get one place in the output.
//!
//! The sections of a class (one output section, element size and kind) are cut
//! into pieces, the pieces are hashed, and equal ones are found with hash
//! tables. Three steps, each parallel inside:
//!
//! 1. *Cut.* Consecutive inputs form chunks of about equal size. Each chunk is
//!    cut and hashed by one thread, which also sorts its pieces into shards by
//!    their hash.
//! 2. *Unite.* Each shard is one thread's: it walks the chunks in input order
//!    and keeps the first of equal pieces. So the result depends on the order
//!    of the inputs and on the number of shards, which depends on the inputs'
//!    size, but never on the number of threads.
//! 3. *Place.* Within a shard, pieces stand in the order of their alignment
//!    (largest first) and then of their first appearance; the shards follow one
//!    another.
//!
//! A piece is aligned as it was in its section: to the smaller of the
//! section's alignment and that of its offset. So a string that the compiler
//! aligned to eight bytes stays aligned, and one that followed it in the same
//! section does not waste seven.

use hashbrown::HashTable;
use rayon::prelude::*;
use rustc_hash::FxHasher;
use std::hash::Hasher;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number by which the caller tells classes apart, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MergeClass(pub u32);

/// One mergeable input section.
#[derive(Clone, Debug)]
pub struct MergeInput<'a> {
    /// What it is merged with. All inputs of a class have the same `entsize` and `strings`.
    pub class: MergeClass,
    /// Its contents.
    pub contents: Contents<'a>,
    /// `SHF_STRINGS`: the pieces are strings, each ended by an element of zeros.
    pub strings: bool,
    /// Size of a constant, or of a character, in bytes.
    pub entsize: u32,
    /// Alignment of the section, in bytes.
    pub align: u64,
}

/// The contents of a mergeable section.
#[derive(Clone, Debug)]
pub enum Contents<'a> {
    /// As an object has them: one after another.
    Section(&'a [u8]),
    /// As the repository has them: cut already, each with its alignment in bytes. Offsets count
    /// as if they stood one after another without gaps.
    Pieces(Vec<(&'a [u8], u64)>),
}

/// Why a section cannot be merged. It can still be linked as an ordinary one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// The last string has no end.
    #[error("string at offset {0:#x} is not terminated")]
    Unterminated(u64),
    /// The size is not a multiple of the element size, or that is 0.
    #[error("size {size:#x} is not a multiple of the element size {entsize}")]
    Size {
        /// Size of the section, bytes.
        size: u64,
        /// `sh_entsize`.
        entsize: u32,
    },
    /// 4 GiB or more.
    #[error("section of {0:#x} bytes is too large to be merged")]
    TooLarge(u64),
}

/// The result: where each piece of each input went, and the contents of each class.
pub struct Merged<'a> {
    chunks: Vec<Chunk<'a>>,
    /// By input: the chunk, and the number of its first piece there.
    inputs: Vec<(u32, u32)>,
    classes: Vec<Class<'a>>,
}

#[derive(Default)]
struct Class<'a> {
    shards: Vec<Shard<'a>>,
    size: u64,
    align: u64,
}

#[derive(Default)]
struct Shard<'a> {
    /// Offset of the shard in its class.
    base: u64,
    size: u64,
    /// In order of their places.
    pieces: Vec<(u64, &'a [u8])>,
    align: u64,
}

/// The pieces of consecutive inputs of one class.
struct Chunk<'a> {
    class: MergeClass,
    /// Offset in its input, by piece; ascending within an input.
    starts: Vec<u32>,
    /// By input of the chunk: number of its first piece; one more at the end.
    firsts: Vec<u32>,
    /// Where each piece went: shard in the high 16 bits, offset in the shard in the low 48.
    places: Vec<AtomicU64>,
    /// By shard: the pieces that belong to it. Emptied once they are placed.
    buckets: Vec<Vec<Cut<'a>>>,
}

/// A piece between cutting and placing.
struct Cut<'a> {
    hash: u64,
    bytes: &'a [u8],
    number: u32,
    align_log2: u8,
}

/// Bytes of input that make a chunk worth a task of its own.
const CHUNK_BYTES: usize = 256 << 10;
const OFFSET_BITS: u32 = 48;

/// Checks that [`merge`] can cut a section: that its size is sound and its last string ended.
///
/// # Errors
/// Why it cannot.
pub fn check(input: &MergeInput<'_>) -> Result<(), MergeError> {
    let Contents::Section(bytes) = input.contents else {
        return Ok(());
    };
    let (size, entsize) = (bytes.len() as u64, input.entsize);
    if size > u64::from(u32::MAX) {
        return Err(MergeError::TooLarge(size));
    }
    if entsize == 0 || size % u64::from(entsize) != 0 {
        return Err(MergeError::Size { size, entsize });
    }
    let end = bytes.len().saturating_sub(entsize as usize);
    if input.strings && bytes[end..].iter().any(|&b| b != 0) {
        return Err(MergeError::Unterminated(end as u64));
    }
    Ok(())
}

/// Merges the inputs of all classes.
///
/// # Errors
/// The index of an input that [`check`] refuses, and why.
pub fn merge<'a>(inputs: &[MergeInput<'a>]) -> Result<Merged<'a>, (usize, MergeError)> {
    for (index, input) in inputs.iter().enumerate() {
        check(input).map_err(|error| (index, error))?;
    }
    let class_count = inputs
        .iter()
        .map(|input| input.class.0 + 1)
        .max()
        .unwrap_or(0) as usize;
    let mut bytes_of_class = vec![0usize; class_count];
    for input in inputs {
        bytes_of_class[input.class.0 as usize] += input.size();
    }
    // One shard for every 64 KiB, up to what keeps two hundred threads busy.
    let shards_of_class: Vec<usize> = bytes_of_class
        .iter()
        .map(|bytes| (bytes >> 16).next_power_of_two().clamp(1, 256))
        .collect();

    let (plans, places) = plan_chunks(inputs);
    let chunks: Vec<Chunk<'a>> = plans
        .into_par_iter()
        .map(|plan| {
            cut(
                inputs,
                &plan,
                shards_of_class[inputs[plan[0] as usize].class.0 as usize],
            )
        })
        .collect();

    let classes = (0..class_count)
        .map(|class| {
            let chunks: Vec<&Chunk<'a>> = chunks
                .iter()
                .filter(|chunk| chunk.class.0 as usize == class)
                .collect();
            let mut shards: Vec<Shard<'a>> = (0..shards_of_class[class])
                .into_par_iter()
                .map(|shard| unite(&chunks, shard))
                .collect();
            let mut end = 0u64;
            let mut align = 1;
            for shard in &mut shards {
                shard.base = end.next_multiple_of(shard.align.max(1));
                end = shard.base + shard.size;
                align = align.max(shard.align);
            }
            Class {
                shards,
                size: end,
                align,
            }
        })
        .collect();
    let mut chunks = chunks;
    chunks
        .par_iter_mut()
        .for_each(|chunk| chunk.buckets = Vec::new());
    Ok(Merged {
        chunks,
        inputs: places,
        classes,
    })
}

impl Merged<'_> {
    /// Size of a class in bytes.
    pub fn size(&self, class: MergeClass) -> u64 {
        self.classes
            .get(class.0 as usize)
            .map_or(0, |class| class.size)
    }

    /// Alignment of a class in bytes.
    pub fn align(&self, class: MergeClass) -> u64 {
        self.classes
            .get(class.0 as usize)
            .map_or(1, |class| class.align)
    }

    /// Where the byte at `offset` of input `input` is in its class. An offset at or beyond
    /// the input's end counts from its last piece, as linkers have always had it.
    /// `None` if the input has no pieces.
    pub fn place(&self, input: usize, offset: u64) -> Option<u64> {
        let &(chunk, local) = self.inputs.get(input)?;
        let chunk = self.chunks.get(chunk as usize)?;
        let (first, last) = (
            chunk.firsts[local as usize] as usize,
            chunk.firsts[local as usize + 1] as usize,
        );
        let starts = &chunk.starts[first..last];
        let piece = starts
            .partition_point(|&start| u64::from(start) <= offset)
            .checked_sub(1)?;
        let start = self.start(chunk, first + piece)?;
        Some(start.wrapping_add(offset - u64::from(starts[piece])))
    }

    /// Where each piece of an input is in its class, in order.
    pub fn places(&self, input: usize) -> impl Iterator<Item = u64> {
        let (chunk, local) = self.inputs[input];
        let chunk = &self.chunks[chunk as usize];
        let pieces = chunk.firsts[local as usize]..chunk.firsts[local as usize + 1];
        pieces.map_while(|piece| self.start(chunk, piece as usize))
    }

    fn start(&self, chunk: &Chunk, piece: usize) -> Option<u64> {
        let place = chunk.places[piece].load(Relaxed);
        let shard = self.classes[chunk.class.0 as usize]
            .shards
            .get((place >> OFFSET_BITS) as usize)?;
        Some(shard.base + (place & ((1 << OFFSET_BITS) - 1)))
    }

    /// Writes the contents of a class; `out` has its size, and all of it is written.
    pub fn write(&self, class: MergeClass, out: &mut [u8]) {
        let Some(class) = self.classes.get(class.0 as usize) else {
            return;
        };
        let mut rest = out;
        let mut end = 0;
        let mut parts = Vec::new();
        for shard in &class.shards {
            let (gap, tail) = rest.split_at_mut((shard.base - end) as usize);
            gap.fill(0);
            let (part, tail) = tail.split_at_mut(shard.size as usize);
            parts.push((shard, part));
            end = shard.base + shard.size;
            rest = tail;
        }
        parts.into_par_iter().for_each(|(shard, part)| {
            let mut end = 0;
            for &(offset, bytes) in &shard.pieces {
                let offset = offset as usize;
                part[end..offset].fill(0);
                end = offset + bytes.len();
                part[offset..end].copy_from_slice(bytes);
            }
        });
    }
}

impl MergeInput<'_> {
    fn size(&self) -> usize {
        match &self.contents {
            Contents::Section(bytes) => bytes.len(),
            Contents::Pieces(pieces) => pieces.iter().map(|(bytes, _)| bytes.len()).sum(),
        }
    }
}

/// Groups the inputs of each class, in order, into chunks; also tells for each input which
/// chunk it is in and as which of the chunk's inputs.
fn plan_chunks(inputs: &[MergeInput<'_>]) -> (Vec<Vec<u32>>, Vec<(u32, u32)>) {
    let mut plans: Vec<Vec<u32>> = Vec::new();
    let mut places = Vec::with_capacity(inputs.len());
    // By class: the chunk that is being filled, and its bytes so far.
    let mut open: Vec<(usize, usize)> = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        let class = input.class.0 as usize;
        if open.len() <= class {
            open.resize(class + 1, (usize::MAX, 0));
        }
        if open[class].0 == usize::MAX || open[class].1 >= CHUNK_BYTES {
            open[class] = (plans.len(), 0);
            plans.push(Vec::new());
        }
        let (chunk, bytes) = &mut open[class];
        places.push((*chunk as u32, plans[*chunk].len() as u32));
        plans[*chunk].push(index as u32);
        *bytes += input.size();
    }
    (plans, places)
}

/// Step 1 for one chunk.
fn cut<'a>(inputs: &[MergeInput<'a>], plan: &[u32], shards: usize) -> Chunk<'a> {
    let mut chunk = Chunk {
        class: inputs[plan[0] as usize].class,
        starts: Vec::new(),
        firsts: vec![0],
        places: Vec::new(),
        buckets: Vec::new(),
    };
    chunk.buckets.resize_with(shards, Vec::new);
    let Chunk {
        starts,
        firsts,
        buckets,
        ..
    } = &mut chunk;
    for &index in plan {
        let input = &inputs[index as usize];
        let mut push = |bytes: &'a [u8], start: usize, align_log2: u8| {
            let mut hasher = FxHasher::default();
            hasher.write(bytes);
            let hash = hasher.finish();
            // The table below uses the other bits.
            let shard = (hash >> 40) as usize & (shards - 1);
            buckets[shard].push(Cut {
                hash,
                bytes,
                number: starts.len() as u32,
                align_log2,
            });
            starts.push(start as u32);
        };
        let section_align = input.align.max(1).trailing_zeros();
        match &input.contents {
            Contents::Section(bytes) => {
                let mut start = 0;
                while start < bytes.len() {
                    let len = piece_length(&bytes[start..], input.strings, input.entsize as usize);
                    let align = section_align.min(start.trailing_zeros());
                    push(&bytes[start..start + len], start, align as u8);
                    start += len;
                }
            }
            Contents::Pieces(pieces) => {
                let mut start = 0;
                for &(bytes, align) in pieces {
                    push(bytes, start, align.max(1).trailing_zeros() as u8);
                    start += bytes.len();
                }
            }
        }
        firsts.push(starts.len() as u32);
    }
    chunk
        .places
        .resize_with(chunk.starts.len(), AtomicU64::default);
    chunk
}

/// Length of the piece at the start of `bytes`, which is not empty and which [`check`] accepted.
fn piece_length(bytes: &[u8], strings: bool, entsize: usize) -> usize {
    let len = match (strings, entsize) {
        (false, _) => entsize,
        (true, 1) => memchr::memchr(0, bytes).map_or(bytes.len(), |end| end + 1),
        (true, _) => bytes
            .chunks(entsize)
            .position(|c| c.iter().all(|&b| b == 0))
            .map_or(bytes.len(), |n| (n + 1) * entsize),
    };
    len.min(bytes.len())
}

/// Steps 2 and 3 for one shard of a class.
fn unite<'a>(chunks: &[&Chunk<'a>], shard: usize) -> Shard<'a> {
    struct Unique<'a> {
        hash: u64,
        bytes: &'a [u8],
        align_log2: u8,
        offset: u64,
    }
    let count: usize = chunks.iter().map(|chunk| chunk.buckets[shard].len()).sum();
    let mut uniques: Vec<Unique<'a>> = Vec::new();
    let mut table: HashTable<u32> = HashTable::with_capacity(count / 4);
    let mut unique_of: Vec<u32> = Vec::with_capacity(count);
    for piece in chunks.iter().flat_map(|chunk| &chunk.buckets[shard]) {
        let unique = *table
            .entry(
                piece.hash,
                |&u| {
                    uniques[u as usize].hash == piece.hash
                        && uniques[u as usize].bytes == piece.bytes
                },
                |&u| uniques[u as usize].hash,
            )
            .or_insert(uniques.len() as u32)
            .get();
        if unique as usize == uniques.len() {
            let (hash, bytes, align_log2) = (piece.hash, piece.bytes, piece.align_log2);
            uniques.push(Unique {
                hash,
                bytes,
                align_log2,
                offset: 0,
            });
        }
        let known = &mut uniques[unique as usize];
        known.align_log2 = known.align_log2.max(piece.align_log2);
        unique_of.push(unique);
    }

    let mut order: Vec<u32> = (0..uniques.len() as u32).collect();
    order.sort_by_key(|&u| std::cmp::Reverse(uniques[u as usize].align_log2));
    let mut end = 0u64;
    let mut align = 1;
    let mut pieces = Vec::with_capacity(order.len());
    for u in order {
        let unique = &mut uniques[u as usize];
        let piece_align = 1u64 << unique.align_log2;
        unique.offset = end.next_multiple_of(piece_align);
        end = unique.offset + unique.bytes.len() as u64;
        align = align.max(piece_align);
        pieces.push((unique.offset, unique.bytes));
    }

    let mut unique_of = unique_of.into_iter();
    for chunk in chunks {
        for (piece, unique) in chunk.buckets[shard].iter().zip(&mut unique_of) {
            let place = (shard as u64) << OFFSET_BITS | uniques[unique as usize].offset;
            chunk.places[piece.number as usize].store(place, Relaxed);
        }
    }
    Shard {
        base: 0,
        size: end,
        pieces,
        align,
    }
}

#[cfg(test)]
mod tests {
    use super::{Contents, MergeClass, MergeError, MergeInput, Merged, merge};
    use proptest::prelude::*;

    fn strings(bytes: &[u8], align: u64) -> MergeInput<'_> {
        let contents = Contents::Section(bytes);
        MergeInput {
            class: MergeClass(0),
            contents,
            strings: true,
            entsize: 1,
            align,
        }
    }

    fn written(merged: &Merged<'_>, class: u32) -> Vec<u8> {
        let mut out = vec![0xcc; merged.size(MergeClass(class)) as usize];
        merged.write(MergeClass(class), &mut out);
        out
    }

    #[test]
    fn equal_strings_have_one_place() {
        let merged = merge(&[strings(b"one\0two\0", 1), strings(b"two\0three\0", 1)]).unwrap();
        assert_eq!(written(&merged, 0), b"one\0two\0three\0");
        assert_eq!(merged.place(0, 4), Some(4));
        assert_eq!(merged.place(1, 0), Some(4));
        assert_eq!(merged.place(1, 6), Some(10));
        assert_eq!(merged.place(2, 0), None);
    }

    #[test]
    fn aligned_strings_stay_aligned() {
        let merged = merge(&[
            strings(b"a\0", 1),
            strings(b"b\0", 1),
            strings(b"b\0\0\0c\0", 4),
        ])
        .unwrap();
        for (input, offset) in [(2, 0), (2, 4)] {
            assert_eq!(merged.place(input, offset).unwrap() % 4, 0);
        }
        assert_eq!(merged.place(1, 0), merged.place(2, 0));
        assert_eq!(merged.align(MergeClass(0)), 4);
    }

    #[test]
    fn constants_and_wide_strings() {
        let words = Contents::Section(&[1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0]);
        let wide = Contents::Section(b"a\0b\0\0\0a\0b\0\0\0");
        let inputs = [
            MergeInput {
                class: MergeClass(0),
                contents: words,
                strings: false,
                entsize: 4,
                align: 4,
            },
            MergeInput {
                class: MergeClass(1),
                contents: wide,
                strings: true,
                entsize: 2,
                align: 2,
            },
        ];
        let merged = merge(&inputs).unwrap();
        assert_eq!(written(&merged, 0), [1, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(merged.place(0, 8), Some(0));
        assert_eq!(written(&merged, 1), b"a\0b\0\0\0");
    }

    #[test]
    fn pieces_of_the_repository_merge_with_sections() {
        let contents = Contents::Pieces(vec![(b"two\0", 1), (b"one\0", 8)]);
        let cut = MergeInput {
            class: MergeClass(0),
            contents,
            strings: true,
            entsize: 1,
            align: 1,
        };
        let merged = merge(&[strings(b"one\0", 1), cut]).unwrap();
        assert_eq!(merged.place(1, 4), merged.place(0, 0));
        assert_eq!(merged.place(0, 0).unwrap() % 8, 0);
        assert_eq!(merged.size(MergeClass(0)), 8);
    }

    #[test]
    fn unsound_sections_are_refused() {
        let refused = |input: MergeInput<'_>| merge(&[strings(b"\0", 1), input]).err().unwrap();
        assert_eq!(
            refused(strings(b"ab\0cd", 1)),
            (1, MergeError::Unterminated(4))
        );
        let odd = MergeInput {
            entsize: 2,
            ..strings(b"a\0\0", 1)
        };
        assert_eq!(
            refused(odd),
            (
                1,
                MergeError::Size {
                    size: 3,
                    entsize: 2
                }
            )
        );
        let none = MergeInput {
            entsize: 0,
            ..strings(b"", 1)
        };
        assert_eq!(
            refused(none),
            (
                1,
                MergeError::Size {
                    size: 0,
                    entsize: 0
                }
            )
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// Every byte is found again, at its alignment, and nothing is there twice.
        #[test]
        fn every_string_is_found(
            sections in prop::collection::vec((prop::collection::vec("[a-c]{0,3}", 0..40), 0u32..4), 0..20),
            repeat in 1usize..40,
        ) {
            let sections: Vec<(Vec<u8>, u64)> = sections
                .into_iter()
                .map(|(words, align)| {
                    let bytes = words.iter().flat_map(|w| [w.as_bytes(), b"\0"].concat()).collect::<Vec<u8>>();
                    // Repeated, so that there is more than one chunk and shard at times.
                    (bytes.repeat(repeat * repeat), 1 << align)
                })
                .collect();
            let inputs: Vec<_> = sections.iter().map(|(bytes, align)| strings(bytes, *align)).collect();
            let merged = merge(&inputs).unwrap();
            let out = written(&merged, 0);
            for (input, (bytes, align)) in sections.iter().enumerate() {
                for (offset, byte) in bytes.iter().enumerate() {
                    let place = merged.place(input, offset as u64).unwrap();
                    prop_assert_eq!(out[place as usize], *byte);
                    if offset == 0 || bytes[offset - 1] == 0 {
                        let wanted = (*align).min(1 << offset.trailing_zeros().min(60));
                        prop_assert_eq!(place % wanted, 0);
                    }
                }
            }
            let again = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(|| {
                written(&merge(&inputs).unwrap(), 0)
            });
            prop_assert!(out == again);
        }
    }
}
