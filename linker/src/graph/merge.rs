//! Merging of `SHF_MERGE` sections (gABI, "Section Attribute Flags"): equal
//! strings and constants of all inputs get one place in the output.
//!
//! The sections of a class (one output section, element size and kind) are cut
//! into pieces, the pieces are hashed, and equal ones are found with hash
//! tables. Consecutive inputs form *chunks* of about equal size, and a class has a number of
//! *shards*, each of which knows the pieces with certain bits of their hash. What costs time
//! are bytes that are not in the processor's caches, so this is done in *waves* of a few chunks, and in a wave twice
//! in parallel:
//!
//! 1. *Cut.* Each chunk is cut and hashed by one thread, which also sorts its pieces by shard.
//! 2. *Unite.* Each shard is one thread's: it walks the wave's chunks in the order of the inputs and finds the
//!    first of equal pieces. No bytes are copied; they stay where they were mapped.
//!
//! Then the pieces get their places: those of a chunk that are the first of their kind stand together, in their order,
//! and the chunks follow one another. So what is near in an input stays near in the output, nothing depends on the
//! number of threads, of waves or of shards, and writing is copying long runs of each input.
//! Where all pieces of a class come from one repository, which has each of them once, they only get their places. (Those
//! of equal bytes that it has in sections of several names, or with several alignments, are several pieces, as
//! they would be if they were in several sections of objects for GNU ld and lld, which compare sections of one alignment only.)
//! Of each piece there remain twelve bytes: where it began in its input, and its place.
//!
//! A piece is aligned as it was in its section: to the smaller of the
//! section's alignment and that of its offset. So a string that the compiler
//! aligned to eight bytes stays aligned, and one that followed it in the same
//! section does not waste seven. In a class that has alignments, the pieces of a chunk
//! stand in the order of their alignment (largest first) and then of their first appearance.

mod shard;
#[cfg(test)]
mod tests;

use rayon::prelude::*;
use rustc_hash::FxHasher;
use shard::Shard;
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
    /// Where the pieces come from. Those of one source are not compared with each other: they are all different, or in
    /// something besides their bytes at least.
    pub source: Option<Source>,
}

/// A number by which the caller tells sources apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source(pub u32);

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

/// A shard or a chunk is full.
struct TooMany;

/// The result: where each piece of each input went, and the contents of each class.
pub struct Merged<'a> {
    inputs: Vec<MergeInput<'a>>,
    chunks: Vec<Chunk>,
    /// By input: the chunk, and which of the chunk's inputs it is.
    homes: Vec<(u32, u32)>,
    /// By class.
    extents: Vec<Extent>,
}

/// What a class, or the pieces of a chunk that are the first of their kind, take.
#[derive(Clone, Copy)]
struct Extent {
    /// Bytes.
    size: u64,
    /// Alignment, in bytes.
    align: u64,
}

/// The pieces of consecutive inputs of one class.
struct Chunk {
    class: MergeClass,
    /// The inputs' indices.
    inputs: Box<[u32]>,
    /// Offset in its input, by piece; ascending within an input.
    starts: Box<[u32]>,
    /// By input of the chunk: number of its first piece; one more at the end.
    firsts: Box<[u32]>,
    /// For every [`BLOCK`] bytes of each input: the piece that holds the first of them, counted from the input's first.
    blocks: Box<[u32]>,
    /// By input of the chunk: the first of its blocks; one more at the end.
    first_blocks: Box<[u32]>,
    /// By piece: its offset in the class, with [`FIRST`]. Before that is known: its shard (in the upper half) and
    /// its token there.
    places: Box<[AtomicU64]>,
    /// Where the chunk's pieces begin in the class.
    base: u64,
}

/// Of equal pieces this is the first, and the one whose bytes are written.
const FIRST: u64 = 1 << 63;

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
    /// By shard: the pieces that belong to it.
    buckets: Vec<Vec<Cut<'a>>>,
}

/// Bytes of input that make a chunk worth a task of its own.
const CHUNK_BYTES: usize = 256 << 10;

/// Chunks of a wave for each thread: enough that none waits long for another, and not more than its cache has room for.
const WAVE: usize = 8;

/// Shards of a large class for each thread.
const SHARDS: usize = 4;

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
pub fn merge(inputs: Vec<MergeInput<'_>>) -> Result<Merged<'_>, (usize, MergeError)> {
    let checked = inputs.par_iter().enumerate();
    if let Some(refused) =
        checked.find_map_first(|(index, input)| Some((index, check(input).err()?)))
    {
        return Err(refused);
    }
    let sizes: Vec<(usize, bool)> = inputs
        .par_iter()
        .map(|input| (input.size(), input.is_aligned()))
        .collect();
    let mut classes = classes(&inputs, &sizes);
    let (plans, homes) = plan_chunks(&inputs, &sizes);
    let too_many = |chunk: usize| (plans[chunk][0] as usize, MergeError::TooMany);

    let wave = WAVE * rayon::current_num_threads();
    let mut benches: Vec<Workbench> = Vec::new();
    benches.resize_with(wave.min(plans.len()), Workbench::default);
    let mut chunks: Vec<Chunk> = Vec::with_capacity(plans.len());
    for plans in plans.chunks(wave) {
        let first = chunks.len();
        let new = plans.par_iter().zip(&mut benches).with_max_len(1);
        let new: Vec<Chunk> = new
            .map(|(plan, bench)| {
                let class = inputs[plan[0] as usize].class;
                bench.cut(&inputs, plan, classes[class.0 as usize].shards.len())
            })
            .collect();
        chunks.extend(new);
        unite(&mut classes, &chunks[first..], &benches).map_err(|chunk| too_many(first + chunk))?;
    }
    drop(benches);

    let extents: Vec<Result<Extent, TooMany>> = chunks
        .par_iter()
        .enumerate()
        .map(|(number, chunk)| {
            chunk.arrange(number as u32, &classes[chunk.class.0 as usize], &inputs)
        })
        .collect();
    let mut ends = vec![Extent { size: 0, align: 1 }; classes.len()];
    for (number, (chunk, extent)) in chunks.iter_mut().zip(extents).enumerate() {
        let extent = extent.map_err(|TooMany| too_many(number))?;
        let end = &mut ends[chunk.class.0 as usize];
        chunk.base = end.size.next_multiple_of(extent.align);
        end.size = chunk.base + extent.size;
        end.align = end.align.max(extent.align);
    }
    let bases: Vec<u64> = chunks.iter().map(|chunk| chunk.base).collect();
    chunks
        .par_iter()
        .for_each(|chunk| chunk.settle(&bases, &classes[chunk.class.0 as usize]));
    Ok(Merged {
        inputs,
        chunks,
        homes,
        extents: ends,
    })
}

/// The pieces of a class while equal ones are being found.
struct Class<'a> {
    /// None if all of its pieces come from one source.
    shards: Vec<Shard<'a>>,
    /// Some piece is aligned to more than one byte.
    aligned: bool,
}

/// The classes, still empty. `sizes` are the inputs' sizes, and whether they have aligned pieces.
fn classes<'a>(inputs: &[MergeInput], sizes: &[(usize, bool)]) -> Vec<Class<'a>> {
    let count = inputs.iter().map(|input| input.class.0 + 1).max();
    /// What is known of a class before its pieces are.
    #[derive(Clone, Default)]
    struct Sum {
        size: usize,
        aligned: bool,
        /// The sources of its inputs, if these are the same.
        source: Option<Option<Source>>,
    }
    let mut sums = vec![Sum::default(); count.unwrap_or(0) as usize];
    for (input, (input_size, is_aligned)) in inputs.iter().zip(sizes) {
        let Sum {
            size,
            aligned,
            source,
        } = &mut sums[input.class.0 as usize];
        *size += input_size;
        *source = match source {
            Some(known) if *known != input.source => Some(None),
            _ => Some(input.source),
        };
        *aligned |= is_aligned;
    }
    let most = (SHARDS * rayon::current_num_threads()).next_power_of_two();
    let class = |sum: Sum| {
        let shards = match sum.source {
            Some(Some(_)) => 0,
            // One shard for every 64 KiB.
            _ => (sum.size >> 16).next_power_of_two().clamp(1, most),
        };
        Class {
            shards: (0..shards).map(|_| Shard::new(sum.aligned)).collect(),
            aligned: sum.aligned,
        }
    };
    sums.into_iter().map(class).collect()
}

/// Step 2 for a wave: the pieces of its `chunks`, which are on the `benches`, become the shards'. An error is the
/// index of a chunk.
fn unite<'a>(
    classes: &mut [Class<'a>],
    chunks: &[Chunk],
    benches: &[Workbench<'a>],
) -> Result<(), usize> {
    // Chunks of one class follow one another, or nearly so.
    let mut tasks: Vec<(usize, usize, &mut Shard<'a>)> = Vec::new();
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
                let added = shard.add_all(pieces, |piece, token, is_first| {
                    let first = if is_first { FIRST } else { 0 };
                    let place = first | (number as u64) << 32 | u64::from(token);
                    chunk.places[piece.number as usize].store(place, Relaxed);
                });
                added.map_err(|TooMany| index)?;
            }
            Ok(())
        })
}

/// The shard and the token that stand for a place before it is known.
fn shard_and_token(place: u64) -> (usize, u32) {
    ((place & !FIRST) as usize >> 32, place as u32)
}

impl Chunk {
    /// All pieces are united: gives those that are the first of their kind their offsets among those of this chunk,
    /// which is the one of this number.
    fn arrange(
        &self,
        number: u32,
        class: &Class<'_>,
        inputs: &[MergeInput<'_>],
    ) -> Result<Extent, TooMany> {
        let mut extent = Extent { size: 0, align: 1 };
        if class.shards.is_empty() {
            return Ok(match class.aligned {
                false => self.arrange_all(inputs),
                true => self.arrange_all_aligned(inputs),
            });
        }
        let mut put = |shard: usize, token: u32, len: u64, align: u64| {
            let offset = extent.size.next_multiple_of(align);
            class.shards[shard].set_home(
                token,
                number,
                u32::try_from(offset).map_err(|_| TooMany)?,
            );
            extent.size = offset + len;
            extent.align = extent.align.max(align);
            Ok(())
        };
        let mut aligned = Vec::new();
        for place in &self.places {
            let place = place.load(Relaxed);
            if place & FIRST == 0 {
                continue;
            }
            let (shard, token) = shard_and_token(place);
            match class.aligned {
                false => put(shard, token, class.shards[shard].len(token), 1)?,
                true => aligned.push((shard, token)),
            }
        }
        aligned.sort_by_key(|(shard, token)| std::cmp::Reverse(class.shards[*shard].align(*token)));
        for (shard, token) in aligned {
            let it = &class.shards[shard];
            put(shard, token, it.len(token), it.align(token))?;
        }
        Ok(extent)
    }

    /// The same where all pieces are different: all of them, as they come.
    fn arrange_all(&self, inputs: &[MergeInput<'_>]) -> Extent {
        let mut size = 0;
        for (input, ends) in self.inputs.iter().zip(self.firsts.windows(2)) {
            for piece in ends[0] as usize..ends[1] as usize {
                let place = size + u64::from(self.starts[piece]);
                self.places[piece].store(FIRST | place, Relaxed);
            }
            size += inputs[*input as usize].size() as u64;
        }
        Extent { size, align: 1 }
    }

    /// The same with alignments.
    fn arrange_all_aligned(&self, inputs: &[MergeInput<'_>]) -> Extent {
        let pieces = |input: &u32| match &inputs[*input as usize].contents {
            Contents::Pieces(pieces) => pieces.as_slice(),
            // Sections are of no source.
            Contents::Section(_) => &[],
        };
        let sizes = self.inputs.iter().flat_map(pieces);
        let sizes = sizes.map(|(bytes, align)| ((*align).max(1), bytes.len() as u64));
        let mut order: Vec<_> = sizes.zip(&self.places).collect();
        order.sort_by_key(|((align, _), _)| std::cmp::Reverse(*align));
        let mut extent = Extent { size: 0, align: 1 };
        for ((align, len), place) in order {
            let offset = extent.size.next_multiple_of(align);
            place.store(FIRST | offset, Relaxed);
            extent.size = offset + len;
            extent.align = extent.align.max(align);
        }
        extent
    }

    /// All chunks have their `bases`: tells every piece its place.
    fn settle(&self, bases: &[u64], class: &Class<'_>) {
        for place in &self.places {
            let old = place.load(Relaxed);
            if class.shards.is_empty() {
                place.store(old + self.base, Relaxed);
                continue;
            }
            let (shard, token) = shard_and_token(old);
            let (home, offset) = class.shards[shard].home(token);
            let new = bases[home as usize] + u64::from(offset);
            place.store(old & FIRST | new, Relaxed);
        }
    }

    /// Calls `f` with the place, the bytes and the alignment of each piece that is the first of its kind.
    fn for_each_first(&self, inputs: &[MergeInput<'_>], f: &mut dyn FnMut(u64, &[u8], u64)) {
        for (input, ends) in self.inputs.iter().zip(self.firsts.windows(2)) {
            let pieces = ends[0] as usize..ends[1] as usize;
            let input = &inputs[*input as usize];
            for (number, piece) in pieces.clone().enumerate() {
                let place = self.places[piece].load(Relaxed);
                if place & FIRST == 0 {
                    continue;
                }
                let (bytes, align) = match &input.contents {
                    Contents::Section(bytes) => {
                        let start = self.starts[piece] as usize;
                        let end = match piece + 1 < pieces.end {
                            true => self.starts[piece + 1] as usize,
                            false => bytes.len(),
                        };
                        let own = 1u64.checked_shl(start.trailing_zeros()).unwrap_or(u64::MAX);
                        (&bytes[start..end], own.min(input.align.max(1)))
                    }
                    Contents::Pieces(list) => (list[number].0, list[number].1.max(1)),
                };
                f(place & !FIRST, bytes, align);
            }
        }
    }

    /// Writes the pieces that are the first of their kind; all of `out` is written. `aligned`: some piece of the class is
    /// aligned, so they may stand in another order and have gaps between them.
    fn write(&self, inputs: &[MergeInput<'_>], aligned: bool, out: &mut [u8]) {
        if aligned {
            out.fill(0);
        }
        let place = |piece: usize| self.places[piece].load(Relaxed);
        let is_first = |piece: usize| place(piece) & FIRST != 0;
        let mut put = |piece: usize, bytes: &[u8]| {
            let offset = ((place(piece) & !FIRST) - self.base) as usize;
            out[offset..offset + bytes.len()].copy_from_slice(bytes);
        };
        for (input, ends) in self.inputs.iter().zip(self.firsts.windows(2)) {
            let mut pieces = ends[0] as usize..ends[1] as usize;
            match &inputs[*input as usize].contents {
                Contents::Section(bytes) => {
                    while let Some(piece) = pieces.find(|piece| is_first(*piece)) {
                        // What stands together here stands together there.
                        let run = pieces
                            .clone()
                            .take_while(|next| !aligned && is_first(*next));
                        let next = piece + 1 + run.count();
                        pieces.start = next;
                        let end = match next < pieces.end {
                            true => self.starts[next] as usize,
                            false => bytes.len(),
                        };
                        put(piece, &bytes[self.starts[piece] as usize..end]);
                    }
                }
                Contents::Pieces(list) => {
                    for (piece, (bytes, _)) in pieces.zip(list) {
                        if is_first(piece) {
                            put(piece, bytes);
                        }
                    }
                }
            }
        }
    }
}

/// The pieces of one input, with their places.
#[derive(Clone, Copy)]
pub struct PlacedPieces<'m> {
    starts: &'m [u32],
    blocks: &'m [u32],
    places: &'m [AtomicU64],
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
        Some(self.places.get(piece)?.load(Relaxed) & !FIRST)
    }
}

impl Merged<'_> {
    /// Size of a class in bytes.
    pub fn size(&self, class: MergeClass) -> u64 {
        let extent = self.extents.get(class.0 as usize);
        extent.map_or(0, |extent| extent.size)
    }

    /// Alignment of a class in bytes.
    pub fn align(&self, class: MergeClass) -> u64 {
        let extent = self.extents.get(class.0 as usize);
        extent.map_or(1, |extent| extent.align)
    }

    /// The pieces of an input.
    #[inline]
    pub fn pieces(&self, input: usize) -> Option<PlacedPieces<'_>> {
        let &(chunk, local) = self.homes.get(input)?;
        let chunk = self.chunks.get(chunk as usize)?;
        let local = local as usize;
        let pieces = chunk.firsts[local] as usize..chunk.firsts[local + 1] as usize;
        let blocks = chunk.first_blocks[local] as usize..chunk.first_blocks[local + 1] as usize;
        Some(PlacedPieces {
            starts: &chunk.starts[pieces.clone()],
            blocks: &chunk.blocks[blocks],
            places: &chunk.places[pieces],
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

    /// Calls `f` with each distinct piece of a class: its offset there, its bytes, and the alignment of the first of its
    /// kind.
    pub fn for_each_piece(&self, class: MergeClass, f: &mut dyn FnMut(u64, &[u8], u64)) {
        for chunk in self.chunks.iter().filter(|chunk| chunk.class == class) {
            chunk.for_each_first(&self.inputs, f);
        }
    }

    /// Gives all pieces of a class other places: `to` says where what began at an offset begins now.
    pub fn move_pieces(&self, class: MergeClass, to: &dyn Fn(u64) -> u64) {
        let chunks = self.chunks.iter().filter(|chunk| chunk.class == class);
        for place in chunks.flat_map(|chunk| &chunk.places) {
            let old = place.load(Relaxed);
            place.store(old & FIRST | to(old & !FIRST), Relaxed);
        }
    }

    /// Writes the contents of a class; `out` has its size, and all of it is written.
    pub fn write(&self, class: MergeClass, out: &mut [u8]) {
        let aligned = self.align(class) > 1;
        let mut rest = out;
        let mut end = 0;
        let mut parts = Vec::new();
        let mut chunks = self
            .chunks
            .iter()
            .filter(|chunk| chunk.class == class)
            .peekable();
        while let Some(chunk) = chunks.next() {
            let next = chunks.peek().map_or(self.size(class), |next| next.base);
            let (part, tail) = rest.split_at_mut((next - end) as usize);
            parts.push((chunk, part));
            (rest, end) = (tail, next);
        }
        let parts = parts.into_par_iter().with_max_len(4);
        parts.for_each(|(chunk, part)| chunk.write(&self.inputs, aligned, part));
    }
}

impl MergeInput<'_> {
    fn size(&self) -> usize {
        match &self.contents {
            Contents::Section(bytes) => bytes.len(),
            Contents::Pieces(pieces) => pieces.iter().map(|(bytes, _)| bytes.len()).sum(),
        }
    }

    /// Whether some piece is aligned to more than one byte.
    fn is_aligned(&self) -> bool {
        match &self.contents {
            Contents::Section(_) => self.align > 1,
            Contents::Pieces(pieces) => pieces.iter().any(|(_, align)| *align > 1),
        }
    }
}

/// Groups the inputs of each class, in order, into chunks; also tells for each input which
/// chunk it is in and as which of the chunk's inputs.
fn plan_chunks(
    inputs: &[MergeInput<'_>],
    sizes: &[(usize, bool)],
) -> (Vec<Vec<u32>>, Vec<(u32, u32)>) {
    let mut plans: Vec<Vec<u32>> = Vec::new();
    let mut places = Vec::with_capacity(inputs.len());
    // By class: the chunk that is being filled, and its bytes so far.
    let mut open: Vec<(usize, usize)> = Vec::new();
    for (index, (input, (size, _))) in inputs.iter().zip(sizes).enumerate() {
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
        *bytes += size;
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
        self.buckets.iter_mut().for_each(Vec::clear);
        if self.buckets.len() < shards {
            self.buckets.resize_with(shards, Vec::new);
        }
        for &index in plan {
            self.cut_input(&inputs[index as usize], shards);
        }
        let mut places = Vec::with_capacity(self.starts.len());
        places.resize_with(self.starts.len(), AtomicU64::default);
        Chunk {
            class: inputs[plan[0] as usize].class,
            inputs: plan.into(),
            starts: self.starts.as_slice().into(),
            firsts: self.firsts.as_slice().into(),
            blocks: self.blocks.as_slice().into(),
            first_blocks: self.first_blocks.as_slice().into(),
            places: places.into(),
            base: 0,
        }
    }

    fn cut_input(&mut self, input: &MergeInput<'a>, shards: usize) {
        let first = self.starts.len() as u32;
        let mut next_block = 0;
        let mut push = |bytes: &'a [u8], start: usize, align_log2: u8| {
            let number = self.starts.len() as u32;
            if shards > 0 {
                let mut hasher = FxHasher::default();
                hasher.write(bytes);
                let hash = hasher.finish();
                let shard = (hash >> 40) as usize & (shards - 1);
                self.buckets[shard].push(Cut {
                    bytes,
                    // The tables use other bits.
                    hash: hash as u32,
                    number,
                    align_log2,
                });
            }
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
