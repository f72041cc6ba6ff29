//! Compressed lists: what is in a list, column by column, so that what it has of zeros is together.
//!
//! Records of one kind stand beside each other in a repository, and of most of their fields the high bytes are zeros, or the same, or one more
//! than in the record before. A compressor that looks for repeated strings of bytes sees little of this. So a list is written as its
//! *planes*: all lowest bytes of the first word of each element, then all second bytes, and so on; of words that mostly grow, the
//! differences to the element before. What comes of it is one LZ4 block: the fastest to read of what is common, as links read it each
//! time, of small repositories, and of large ones what is about debug information. SPEC.md, section 18, "Planes".

use lz4_flex::block::{self, CompressTable};
use std::cell::RefCell;

/// Of a list's words, which are written as differences: bit *i* for word *i*.
pub(super) const ALL_DIFFERENCES: u32 = u32::MAX;

/// LZ4 makes at most so many bytes of one.
pub(super) const MOST_OF_A_BYTE: usize = 255;

/// Whether an LZ4 block of `compressed` bytes can be of `size` bytes: what is believed before room is made for them.
pub(super) fn is_possible(compressed: usize, size: usize) -> bool {
    size <= compressed.saturating_mul(MOST_OF_A_BYTE).saturating_add(64)
}

/// Appends the planes of a list whose elements have `width` words each.
pub(super) fn put_planes(words: &[u32], width: usize, differences: u32, out: &mut Vec<u8>) {
    let count = words.len() / width;
    for column in 0..width {
        let is_difference = differences >> column & 1 != 0;
        let start = out.len();
        out.resize(start + count * 4, 0);
        let (first, rest) = out[start..].split_at_mut(count);
        let (second, rest) = rest.split_at_mut(count);
        let (third, fourth) = rest.split_at_mut(count);
        let mut before = 0u32;
        let values = words.iter().skip(column).step_by(width);
        let places = first.iter_mut().zip(second).zip(third).zip(fourth);
        for (&value, (((first, second), third), fourth)) in values.zip(places) {
            let written = match is_difference {
                true => value.wrapping_sub(before),
                false => value,
            };
            before = value;
            [*first, *second, *third, *fourth] = written.to_le_bytes();
        }
    }
}

/// Takes the planes of a list from the front of `planes`, and puts the list into `words`. `None` if they are cut off.
pub(super) fn take_planes(
    planes: &mut &[u8],
    width: usize,
    differences: u32,
    words: &mut [u32],
) -> Option<()> {
    let count = words.len() / width;
    for column in 0..width {
        let mut next = || {
            let (plane, rest) = planes.split_at_checked(count)?;
            *planes = rest;
            Some(plane)
        };
        let column_planes = [next()?, next()?, next()?, next()?];
        put_column(column_planes, width, column, differences, words);
    }
    Some(())
}

/// Puts one word of each element of a list: of these planes.
fn put_column(
    planes: [&[u8]; 4],
    width: usize,
    column: usize,
    differences: u32,
    words: &mut [u32],
) {
    let is_difference = differences >> column & 1 != 0;
    let mut before = 0u32;
    // Planes are joined to words, many at once, before these are added up and put where they belong, one after the other.
    for (number, part) in words.chunks_mut(JOINED * width).enumerate() {
        let count = part.len() / width;
        let start = number * JOINED;
        let mut joined = [0u32; JOINED];
        for (plane, shift) in planes.iter().zip([0, 8, 16, 24]) {
            let bytes = plane.get(start..start + count).unwrap_or_default();
            for (word, byte) in joined.iter_mut().zip(bytes) {
                *word |= u32::from(*byte) << shift;
            }
        }
        let places = part.iter_mut().skip(column).step_by(width);
        if is_difference {
            for (place, word) in places.zip(joined) {
                before = before.wrapping_add(word);
                *place = before;
            }
        } else {
            for (place, word) in places.zip(joined) {
                *place = word;
            }
        }
    }
}

/// So many words are joined at once.
const JOINED: usize = 64;

/// Inputs shorter than this are compressed in what a thread keeps for it: those whose places fit into the small table.
const SHORT: usize = u16::MAX as usize;

/// What a thread keeps for compressing: most sections are so short that to make it anew each time, filled with zeros, would take
/// about as long as they do.
struct Scratch {
    table: CompressTable,
    block: Box<[u8]>,
}

impl Scratch {
    fn new() -> Scratch {
        Scratch {
            table: CompressTable::small(),
            block: vec![0; block::get_maximum_output_size(SHORT)].into_boxed_slice(),
        }
    }
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
}

/// Appends the LZ4 block of `bytes`, and returns its size.
pub(super) fn compress(bytes: &[u8], out: &mut Vec<u8>) -> usize {
    let start = out.len();
    if bytes.len() < SHORT {
        SCRATCH.with_borrow_mut(|Scratch { table, block }| {
            // It fails only if there is less room than for this.
            let size = block::compress_into_with_table(bytes, block, table).unwrap_or(0);
            out.extend_from_slice(&block[..size]);
        });
    } else {
        out.resize(start + block::get_maximum_output_size(bytes.len()), 0);
        // Likewise.
        let size = block::compress_into(bytes, &mut out[start..]).unwrap_or(0);
        out.truncate(start + size);
    }
    out.len() - start
}

/// Makes of an LZ4 block the bytes that it is of. `None` if it is damaged, or of more or fewer than `out` has.
pub(super) fn decompress(block: &[u8], out: &mut [u8]) -> Option<()> {
    match block::decompress_into(block, out) {
        Ok(size) if size == out.len() => Some(()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn planes_are_as_specified() {
        let mut planes = Vec::new();
        put_planes(&[0x0403_0201, 7, 0x0403_0203, 9], 2, 0b01, &mut planes);
        let expected = [1, 2, 2, 0, 3, 0, 4, 0, 7, 9, 0, 0, 0, 0, 0, 0];
        assert_eq!(planes, expected);
    }

    proptest! {
        #[test]
        fn lists_come_back(elements in proptest::collection::vec(any::<[u32; 3]>(), 0..50), differences: u32) {
            let words: Vec<u32> = elements.concat();
            let (mut planes, mut compressed) = (Vec::new(), Vec::new());
            put_planes(&words, 3, differences, &mut planes);
            let size = compress(&planes, &mut compressed);
            // What the thread keeps says nothing of what it compressed before.
            let mut anew = vec![0; block::get_maximum_output_size(planes.len())];
            let expected = block::compress_into(&planes, &mut anew);
            prop_assert_eq!(expected.ok(), Some(size));
            prop_assert_eq!(&compressed, &anew[..size]);
            prop_assert!(size == compressed.len() && is_possible(size, planes.len()));
            let mut again = vec![1; planes.len()];
            prop_assert_eq!(decompress(&compressed, &mut again), Some(()));
            let mut read = vec![1; words.len()];
            let mut rest = &again[..];
            prop_assert_eq!(take_planes(&mut rest, 3, differences, &mut read), Some(()));
            prop_assert!(rest.is_empty() && read == words);
        }

        #[test]
        fn any_bytes_are_no_panic(block: Vec<u8>, size in 0usize..1000) {
            let mut out = vec![0; size];
            let _ = decompress(&block, &mut out);
            let _ = take_planes(&mut &block[..], 3, 1, &mut vec![0; size]);
        }
    }
}
