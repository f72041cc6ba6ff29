//! Merging of `SHF_MERGE` sections (gABI, "Section Attribute Flags"): equal
//! strings and constants of all inputs get one place in the output.
//!
//! The sections of a class (one output section, element size and kind) are cut
//! into pieces, the pieces are hashed, and equal ones are found with hash
//! tables. Consecutive inputs form *chunks* of about equal size, and a class has a number of
//! *shards*, each of which keeps the pieces with certain bits of their hash. What costs time
//! are bytes that are not in the processor's caches, so this is done in *waves* of a few chunks, and in a wave twice
//! in parallel:
//!
//! 1. *Cut.* Each chunk is cut and hashed by one thread, which also sorts its pieces by shard.
//! 2. *Unite.* Each shard is one thread's: it walks the wave's chunks in the order of the inputs and keeps the
//!    first of equal pieces, copying its bytes, which are still in a cache.
//!
//! So what a shard holds depends on the order of the inputs and on the number of shards, which depends on the
//! inputs' size, but never on the number of threads. In the end the shards follow one another, and
//! writing them is copying large blocks. Of each piece there remain nine bytes: where it began in its
//! input, its shard, and its offset there.
//!
//! A piece is aligned as it was in its section: to the smaller of the
//! section's alignment and that of its offset. So a string that the compiler
//! aligned to eight bytes stays aligned, and one that followed it in the same
//! section does not waste seven. In a class that has alignments, the pieces of a shard
//! stand in the order of their alignment (largest first) and then of their first appearance.

mod shard;
#[cfg(test)]
mod tests;

use rayon::prelude::*;
use rustc_hash::FxHasher;
use shard::Shard;
use std::hash::Hasher;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

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
    /// The output would have too many pieces.
    #[error("more than 2 GiB of different strings or constants are to be merged in one place")]
    TooMany,
}

/// A shard is full.
struct TooMany;

/// The result: where each piece of each input went, and the contents of each class.
pub struct Merged {
    chunks: Vec<Chunk>,
    /// By input: the chunk, and which of the chunk's inputs it is.
    inputs: Vec<(u32, u32)>,
    classes: Vec<Class>,
}

struct Class {
    shards: Vec<Shard>,
    /// Offset of each shard in the class.
    bases: Vec<u64>,
    size: u64,
    align: u64,
    aligned: bool,
}

/// The pieces of consecutive inputs of one class.
struct Chunk {
    class: MergeClass,
    /// Offset in its input, by piece; ascending within an input.
    starts: Box<[u32]>,
    /// By input of the chunk: number of its first piece; one more at the end.
    firsts: Box<[u32]>,
    /// For every [`BLOCK`] bytes of each input: the piece that holds the first of them, counted from the input's first.
    blocks: Box<[u32]>,
    /// By input of the chunk: the first of its blocks; one more at the end.
    first_blocks: Box<[u32]>,
    /// Shard, by piece.
    shards: Box<[u8]>,
    /// Offset in the shard, by piece; while shards are made, the piece's token.
    offsets: Box<[AtomicU32]>,
}

/// A piece between cutting and uniting.
struct Cut<'a> {
    bytes: &'a [u8],
    hash: u32,
    number: u32,
    align_log2: u8,
}

/// What a chunk is made with. Only the memory is kept from one to the next.
#[derive(Default)]
struct Workbench<'a> {
    starts: Vec<u32>,
    firsts: Vec<u32>,
    blocks: Vec<u32>,
    first_blocks: Vec<u32>,
    shards: Vec<u8>,
    /// By shard: the pieces that belong to it.
    buckets: Vec<Vec<Cut<'a>>>,
}

/// Bytes of input that make a chunk worth a task of its own.
const CHUNK_BYTES: usize = 256 << 10;

/// Chunks of a wave: what a processor's cache has room for.
const WAVE: usize = 16;

/// The most shards of a class: what keeps two hundred threads busy, and fits into a byte.
const MOST_SHARDS: usize = 256;

/// How many pieces ahead the tables are fetched.
const AHEAD: usize = 6;

/// Bytes of an input for which it is known, without a search, which piece they begin in.
const BLOCK: usize = 256;

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
/// The index of an input that [`check`] refuses or with which there are too many pieces, and why.
pub fn merge(inputs: &[MergeInput<'_>]) -> Result<Merged, (usize, MergeError)> {
    for (index, input) in inputs.iter().enumerate() {
        check(input).map_err(|error| (index, error))?;
    }
    let mut classes = classes(inputs);
    let (plans, places) = plan_chunks(inputs);
    let mut benches: Vec<Workbench> = Vec::new();
    benches.resize_with(WAVE.min(plans.len()), Workbench::default);
    let mut chunks: Vec<Chunk> = Vec::with_capacity(plans.len());
    for wave in plans.chunks(WAVE) {
        let new: Vec<Chunk> = wave
            .par_iter()
            .zip(&mut benches)
            .map(|(plan, bench)| {
                let class = inputs[plan[0] as usize].class;
                bench.cut(inputs, plan, classes[class.0 as usize].shards.len())
            })
            .collect();
        unite(&mut classes, &new, &benches)
            .map_err(|chunk| (wave[chunk][0] as usize, MergeError::TooMany))?;
        chunks.extend(new);
    }
    drop(benches);
    for (number, class) in classes.iter_mut().enumerate() {
        let first = || inputs.iter().position(|i| i.class.0 as usize == number);
        class
            .place()
            .map_err(|TooMany| (first().unwrap_or(0), MergeError::TooMany))?;
    }
    chunks.par_iter().for_each(|chunk| {
        let class = &classes[chunk.class.0 as usize];
        if class.aligned {
            for (offset, shard) in chunk.offsets.iter().zip(&chunk.shards) {
                let token = offset.load(Relaxed);
                offset.store(class.shards[usize::from(*shard)].offset(token), Relaxed);
            }
        }
    });
    Ok(Merged {
        chunks,
        inputs: places,
        classes,
    })
}

/// The classes, still empty.
fn classes(inputs: &[MergeInput]) -> Vec<Class> {
    let count = inputs.iter().map(|input| input.class.0 + 1).max();
    let mut sizes = vec![(0usize, false); count.unwrap_or(0) as usize];
    for input in inputs {
        let (size, aligned) = &mut sizes[input.class.0 as usize];
        *size += input.size();
        *aligned |= match &input.contents {
            Contents::Section(_) => input.align > 1,
            Contents::Pieces(pieces) => pieces.iter().any(|(_, align)| *align > 1),
        };
    }
    let class = |(size, aligned): (usize, bool)| {
        // One shard for every 64 KiB.
        let shards = (size >> 16).next_power_of_two().clamp(1, MOST_SHARDS);
        Class {
            shards: (0..shards).map(|_| Shard::new(aligned)).collect(),
            bases: Vec::new(),
            size: 0,
            align: 1,
            aligned,
        }
    };
    sizes.into_iter().map(class).collect()
}

/// Step 2 for a wave: the pieces of its `chunks`, which are on the `benches`, become the shards'. An error is the
/// index of a chunk.
fn unite(classes: &mut [Class], chunks: &[Chunk], benches: &[Workbench]) -> Result<(), usize> {
    // Chunks of one class follow one another, or nearly so.
    let mut tasks: Vec<(usize, usize, &mut Shard)> = Vec::new();
    for (number, class) in classes.iter_mut().enumerate() {
        if chunks.iter().any(|chunk| chunk.class.0 as usize == number) {
            let shards = class.shards.iter_mut().enumerate();
            tasks.extend(shards.map(|(shard, it)| (number, shard, it)));
        }
    }
    tasks
        .into_par_iter()
        .try_for_each(|(class, number, shard)| {
            for (index, (chunk, bench)) in chunks.iter().zip(benches).enumerate() {
                if chunk.class.0 as usize != class {
                    continue;
                }
                let pieces = &bench.buckets[number];
                for (i, piece) in pieces.iter().enumerate() {
                    if let Some(later) = pieces.get(i + AHEAD) {
                        shard.prefetch(later.hash);
                    }
                    let token = shard.add(piece).map_err(|TooMany| index)?;
                    chunk.offsets[piece.number as usize].store(token, Relaxed);
                }
            }
            Ok(())
        })
}

impl Class {
    /// All pieces are there: gives them their places.
    fn place(&mut self) -> Result<(), TooMany> {
        self.shards.par_iter_mut().try_for_each(Shard::place)?;
        let mut end = 0u64;
        for shard in &self.shards {
            let base = end.next_multiple_of(shard.align());
            self.bases.push(base);
            end = base + shard.size();
            self.align = self.align.max(shard.align());
        }
        self.size = end;
        Ok(())
    }
}

/// The pieces of one input, with their places.
#[derive(Clone, Copy)]
pub struct PlacedPieces<'m> {
    starts: &'m [u32],
    blocks: &'m [u32],
    shards: &'m [u8],
    offsets: &'m [AtomicU32],
    bases: &'m [u64],
}

impl PlacedPieces<'_> {
    /// Where the byte at `offset` of the input is in its class. An offset at or beyond
    /// the input's end counts from its last piece, as linkers have always had it.
    /// `None` if the input has no pieces.
    #[inline]
    pub fn place(&self, offset: u64) -> Option<u64> {
        let block = usize::try_from(offset / BLOCK as u64).unwrap_or(usize::MAX);
        // The block's first piece is at or before the offset, the next block's at or after it.
        let (low, high) = match self.blocks.get(block..) {
            Some([low, high, ..]) => (*low as usize, *high as usize + 1),
            Some([low]) => (*low as usize, self.starts.len()),
            _ => (
                self.blocks.last().map_or(0, |low| *low as usize),
                self.starts.len(),
            ),
        };
        let candidates = self.starts.get(low..high)?;
        let after = candidates.partition_point(|&start| u64::from(start) <= offset);
        let piece = low + after.checked_sub(1)?;
        let start = u64::from(self.starts[piece]);
        Some(self.start(piece)?.wrapping_add(offset - start))
    }

    #[inline]
    fn start(&self, piece: usize) -> Option<u64> {
        let base = self.bases.get(usize::from(*self.shards.get(piece)?))?;
        Some(base + u64::from(self.offsets.get(piece)?.load(Relaxed)))
    }
}

impl Merged {
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

    /// The pieces of an input.
    #[inline]
    pub fn pieces(&self, input: usize) -> Option<PlacedPieces<'_>> {
        let &(chunk, local) = self.inputs.get(input)?;
        let chunk = self.chunks.get(chunk as usize)?;
        let local = local as usize;
        let pieces = chunk.firsts[local] as usize..chunk.firsts[local + 1] as usize;
        let blocks = chunk.first_blocks[local] as usize..chunk.first_blocks[local + 1] as usize;
        Some(PlacedPieces {
            starts: &chunk.starts[pieces.clone()],
            blocks: &chunk.blocks[blocks],
            shards: &chunk.shards[pieces.clone()],
            offsets: &chunk.offsets[pieces],
            bases: &self.classes[chunk.class.0 as usize].bases,
        })
    }

    /// Where the byte at `offset` of input `input` is in its class; see [`PlacedPieces::place`].
    #[inline]
    pub fn place(&self, input: usize, offset: u64) -> Option<u64> {
        self.pieces(input)?.place(offset)
    }

    /// Where each piece of an input is in its class, in order.
    pub fn places(&self, input: usize) -> impl Iterator<Item = u64> {
        let pieces = self.pieces(input);
        pieces
            .into_iter()
            .flat_map(|pieces| (0..pieces.starts.len()).map_while(move |piece| pieces.start(piece)))
    }

    /// Writes the contents of a class; `out` has its size, and all of it is written.
    pub fn write(&self, class: MergeClass, out: &mut [u8]) {
        let Some(class) = self.classes.get(class.0 as usize) else {
            return;
        };
        let mut rest = out;
        let mut end = 0;
        let mut parts = Vec::new();
        for (shard, base) in class.shards.iter().zip(&class.bases) {
            let (gap, tail) = rest.split_at_mut((base - end) as usize);
            gap.fill(0);
            let (part, tail) = tail.split_at_mut(shard.size() as usize);
            parts.push((shard, part));
            end = base + shard.size();
            rest = tail;
        }
        parts
            .into_par_iter()
            .for_each(|(shard, part)| shard.write(part));
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

impl<'a> Workbench<'a> {
    /// Step 1 for one chunk.
    fn cut(&mut self, inputs: &[MergeInput<'a>], plan: &[u32], shards: usize) -> Chunk {
        for list in [&mut self.starts, &mut self.blocks] {
            list.clear();
        }
        for list in [&mut self.firsts, &mut self.first_blocks] {
            list.clear();
            list.push(0);
        }
        self.shards.clear();
        self.buckets.iter_mut().for_each(Vec::clear);
        if self.buckets.len() < shards {
            self.buckets.resize_with(shards, Vec::new);
        }
        for &index in plan {
            self.cut_input(&inputs[index as usize], shards);
        }
        let mut offsets = Vec::with_capacity(self.starts.len());
        offsets.resize_with(self.starts.len(), AtomicU32::default);
        Chunk {
            class: inputs[plan[0] as usize].class,
            starts: self.starts.as_slice().into(),
            firsts: self.firsts.as_slice().into(),
            blocks: self.blocks.as_slice().into(),
            first_blocks: self.first_blocks.as_slice().into(),
            shards: self.shards.as_slice().into(),
            offsets: offsets.into(),
        }
    }

    fn cut_input(&mut self, input: &MergeInput<'a>, shards: usize) {
        let first = self.starts.len() as u32;
        let mut next_block = 0;
        let mut push = |bytes: &'a [u8], start: usize, align_log2: u8| {
            let mut hasher = FxHasher::default();
            hasher.write(bytes);
            let hash = hasher.finish();
            let shard = (hash >> 40) as usize & (shards - 1);
            let number = self.starts.len() as u32;
            self.buckets[shard].push(Cut {
                bytes,
                // The tables use other bits.
                hash: hash as u32,
                number,
                align_log2,
            });
            self.shards.push(shard as u8);
            self.starts.push(start as u32);
            while next_block < start + bytes.len() {
                self.blocks.push(number - first);
                next_block += BLOCK;
            }
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
        self.firsts.push(self.starts.len() as u32);
        self.first_blocks.push(self.blocks.len() as u32);
    }
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
