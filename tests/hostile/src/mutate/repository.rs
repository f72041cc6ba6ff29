//! Changes to repositories. They are mostly followed by making checksums right again: else nearly all of them would end
//! there, and what lies behind would not be reached.

use crate::Random;
use format_spec::file::{
    FileHeader, ITEM_ALIGN, ItemHead, LEAF_ALIGN, LOG_OFFSET, RECORD_CHECK, STATE_OFFSET,
    StateWord, record_check,
};
use format_spec::trailer::trailer_size;
use std::mem::offset_of;
use std::ops::Range;

/// Changes something in a repository.
pub fn mutate(data: &mut Vec<u8>, random: &mut Random, limit: usize) {
    if data.len() < 16 || random.one_in(4) {
        super::blindly(data, random);
        data.truncate(limit);
    } else {
        // One word becomes another one of the file, or a number that may be too large or small.
        let place = random.below(data.len() / 8) * 8;
        let other = random.below(data.len() / 8) * 8;
        let word: [u8; 8] = data[other..other + 8].try_into().expect("8 bytes");
        let value = match random.below(4) {
            0 => u64::from_le_bytes(word),
            1 => 1 << random.below(64),
            2 => random.value(u64::from_le_bytes(word)),
            _ => (other + random.below(4) * 4) as u64,
        };
        data[place..place + 8].copy_from_slice(&value.to_le_bytes());
    }
    if !random.one_in(8) {
        make_right(data);
    }
}

/// An item of the log.
pub struct Item {
    /// Where its head is.
    pub start: usize,
    /// The head.
    pub head: ItemHead,
    /// Its body.
    pub body: Range<usize>,
    /// Where the next one starts.
    pub end: usize,
}

impl Item {
    /// The value of a record, between its key and its check; `None` if it is another item.
    pub fn value(&self) -> Option<Range<usize>> {
        let start = self.body.start + self.head.kind()?.key_length()?;
        let end = self.body.end.checked_sub(RECORD_CHECK as usize)?;
        (start <= end).then_some(start..end)
    }
}

/// The items of a file's log, as far as they lie in it.
pub fn items(data: &[u8]) -> impl Iterator<Item = Item> {
    let mut at = LOG_OFFSET as usize;
    std::iter::from_fn(move || {
        let head = data.get(at..at.checked_add(8)?)?;
        let head = ItemHead(u64::from_le_bytes(head.try_into().expect("8 bytes")));
        if !head.is_marked() {
            return None;
        }
        let align = if head.is_in_place() {
            LEAF_ALIGN
        } else {
            ITEM_ALIGN
        };
        let body = (at as u64 + 8).next_multiple_of(align);
        let body = body as usize..(body + head.length()) as usize;
        let end = body.end.next_multiple_of(ITEM_ALIGN as usize);
        let start = std::mem::replace(&mut at, end);
        (end <= data.len()).then_some(Item {
            start,
            head,
            body,
            end,
        })
    })
}

/// Makes all checksums of the file right.
pub fn make_right(data: &mut [u8]) {
    const HEADER: usize = offset_of!(FileHeader, checksum);
    if data.len() < LOG_OFFSET as usize {
        return;
    }
    let checksum = crc32fast::hash(&data[..HEADER]);
    data[HEADER..HEADER + 4].copy_from_slice(&checksum.to_le_bytes());
    for word in data[STATE_OFFSET as usize..].chunks_exact_mut(8).take(4) {
        let value = u64::from_le_bytes((&*word).try_into().expect("8 bytes"));
        word.copy_from_slice(&StateWord::new(value).0.to_le_bytes());
    }
    let mut payload = crc32fast::Hasher::new();
    for item in items(data).collect::<Vec<_>>() {
        if let Some(value) = item.value() {
            let right = record_check(&data[item.start..value.end]);
            data[value.end..item.body.end].copy_from_slice(&right.to_le_bytes());
        }
        if trailer_size(item.head).is_some() {
            let trailer = &mut data[item.start..item.end];
            let crc = std::mem::replace(&mut payload, crc32fast::Hasher::new()).finalize();
            // The last of it.
            let (payload_at, checksum_at) = (trailer.len() - 8, trailer.len() - 4);
            trailer[payload_at..checksum_at].copy_from_slice(&crc.to_le_bytes());
            let checksum = crc32fast::hash(&trailer[..checksum_at]);
            trailer[checksum_at..].copy_from_slice(&checksum.to_le_bytes());
        } else {
            let hashed = match item.head.is_in_place() {
                true => item.body.start,
                false => item.end,
            };
            payload.update(&data[item.start..hashed]);
        }
    }
}
