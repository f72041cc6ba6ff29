//! Blocks of LZ4, and the columns that are compressed as such.

use super::*;

/// The bytes that an LZ4 block is of (lz4_Block_format.md).
pub(super) fn lz4(block: &[u8], size: usize) -> Vec<u8> {
    let mut cursor = Cursor::new(block);
    let mut out = Vec::new();
    let length = |cursor: &mut Cursor<'_>, nibble: u8| {
        let mut length = usize::from(nibble);
        let mut more = if nibble == 15 { 255 } else { 0 };
        while more == 255 {
            more = cursor.u8();
            length += usize::from(more);
        }
        length
    };
    loop {
        let token = cursor.u8();
        let literals = length(&mut cursor, token >> 4);
        out.extend_from_slice(cursor.bytes(literals));
        if cursor.at == block.len() {
            assert_eq!(out.len(), size);
            return out;
        }
        let distance = usize::from(cursor.u16());
        assert!((1..=out.len()).contains(&distance));
        for _ in 0..length(&mut cursor, token & 15) + 4 {
            out.push(out[out.len() - distance]);
        }
    }
}

/// Section 18, "Planes": the words of a list.
pub(super) fn take_planes(
    planes: &mut Cursor<'_>,
    count: usize,
    width: usize,
    differences: u32,
) -> Vec<u32> {
    let mut words = vec![0u32; count * width];
    for column in 0..width {
        let bytes = planes.bytes(4 * count);
        let mut before = 0u32;
        for element in 0..count {
            let word = [0, 1, 2, 3].map(|plane| bytes[plane * count + element]);
            let mut word = u32::from_le_bytes(word);
            if differences >> column & 1 == 1 {
                word = word.wrapping_add(before);
            }
            before = word;
            words[element * width + column] = word;
        }
    }
    words
}
