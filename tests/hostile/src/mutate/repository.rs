//! Changes to repositories. They are mostly followed by making checksums right again: else nearly all of them would end
//! there, and what lies behind would not be reached.

use crate::Random;
use format_spec::file::{
    FileHeader, ITEM_ALIGN, ItemHead, ItemKind, LEAF_ALIGN, LOG_OFFSET, RECORD_CHECK, STATE_OFFSET,
    StateWord, TRAILER_SIZE, Trailer, record_check,
};
use std::mem::offset_of;

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

/// Makes all checksums right.
fn make_right(data: &mut [u8]) {
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
    let mut at = LOG_OFFSET as usize;
    let mut payload = crc32fast::Hasher::new();
    while let Some(head) = data.get(at..at + 8) {
        let head = ItemHead(u64::from_le_bytes(head.try_into().expect("8 bytes")));
        let (true, length) = (head.is_marked(), head.length()) else {
            break;
        };
        let is_leaf = head.is_in_place();
        let align = if is_leaf { LEAF_ALIGN } else { ITEM_ALIGN };
        let body = (at as u64 + 8).next_multiple_of(align);
        let end = (body + length).next_multiple_of(ITEM_ALIGN) as usize;
        let hashed = if is_leaf { body as usize } else { end };
        if end > data.len() {
            break;
        }
        let is_record = matches!(head.kind(), Some(ItemKind::Record | ItemKind::Replacement));
        if is_record && length >= RECORD_CHECK {
            let check = (body + length - RECORD_CHECK) as usize;
            let right = record_check(&data[at..check]);
            data[check..check + RECORD_CHECK as usize].copy_from_slice(&right.to_le_bytes());
        }
        if head.kind() == Some(ItemKind::Trailer) && length == TRAILER_SIZE - 8 {
            let trailer = &mut data[at..at + TRAILER_SIZE as usize];
            let crc = std::mem::replace(&mut payload, crc32fast::Hasher::new()).finalize();
            const PAYLOAD: usize = offset_of!(Trailer, payload_crc);
            const CHECKSUM: usize = offset_of!(Trailer, checksum);
            trailer[PAYLOAD..PAYLOAD + 4].copy_from_slice(&crc.to_le_bytes());
            let checksum = crc32fast::hash(&trailer[..CHECKSUM]);
            trailer[CHECKSUM..CHECKSUM + 4].copy_from_slice(&checksum.to_le_bytes());
        } else {
            payload.update(&data[at..hashed]);
        }
        at = end;
    }
}
