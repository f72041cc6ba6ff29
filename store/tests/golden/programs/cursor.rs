//! Values are taken apart from their front, and what is hashed is put together.

use super::*;

/// Takes a value apart from its front.
pub(super) struct Cursor<'f> {
    pub(super) bytes: &'f [u8],
    pub(super) at: usize,
}

impl<'f> Cursor<'f> {
    pub(super) fn new(bytes: &'f [u8]) -> Cursor<'f> {
        Cursor { bytes, at: 0 }
    }

    pub(super) fn bytes(&mut self, count: usize) -> &'f [u8] {
        self.at += count;
        &self.bytes[self.at - count..self.at]
    }

    pub(super) fn u8(&mut self) -> u8 {
        self.bytes(1)[0]
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes(2).try_into().unwrap())
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes(4).try_into().unwrap())
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes(8).try_into().unwrap())
    }

    /// Seven bits a byte.
    pub(super) fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.u8();
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return number;
            }
        }
    }

    /// Section 24, "Runs".
    pub(super) fn runs(&mut self, count: u64) -> Vec<u32> {
        let mut ids = Vec::new();
        while (ids.len() as u64) < count {
            let end = ids.last().map_or(0, |last| i64::from(*last) + 1);
            let number = self.number();
            let first = match number % 2 {
                0 => end + (number / 2) as i64,
                _ => end - (number / 2) as i64 - 1,
            };
            let length = self.number();
            assert!(length > 0);
            ids.extend((0..length).map(|place| first as u32 + place as u32));
        }
        assert_eq!(ids.len() as u64, count);
        ids
    }

    pub(super) fn key(&mut self) -> Key {
        self.bytes(32).try_into().unwrap()
    }

    /// Goes on at a multiple of `align`, after zeros.
    pub(super) fn align(&mut self, align: usize) {
        let padding = self.at.next_multiple_of(align) - self.at;
        self.zeros(padding);
    }

    pub(super) fn zeros(&mut self, count: usize) {
        assert!(self.bytes(count).iter().all(|&byte| byte == 0), "not zero");
    }

    pub(super) fn rest(&mut self) -> &'f [u8] {
        self.bytes(self.bytes.len() - self.at)
    }

    pub(super) fn end(&self) {
        assert_eq!(self.at, self.bytes.len(), "something is left over");
    }
}

/// What is digested, section 23.
#[derive(Default)]
pub(super) struct Digested(pub(super) Vec<u8>);

impl Digested {
    pub(super) fn numbers(&mut self, numbers: &[u32]) {
        for number in numbers {
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    pub(super) fn long(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn string(&mut self, bytes: &[u8]) {
        self.numbers(&[bytes.len() as u32]);
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn piece(&mut self, piece: &Piece<'_>) {
        self.string(piece.section_name);
        self.numbers(&[piece.flags, piece.entsize]);
        self.0.push(piece.alignment);
        self.string(piece.bytes);
    }

    pub(super) fn digest(&self, name: &str) -> Key {
        let mut key = [0; 32];
        key[..name.len()].copy_from_slice(name.as_bytes());
        *blake3::keyed_hash(&key, &self.0).as_bytes()
    }
}

pub(super) fn blake3_of(bytes: &[u8]) -> Key {
    *blake3::hash(bytes).as_bytes()
}

/// Sections 16 and 17.
pub(super) fn short_key(bytes: &[u8], seed: u64) -> Key {
    let mut key = [0; 32];
    let number = xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed);
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

pub(super) fn check_of(bytes: &[u8]) -> u32 {
    xxhash_rust::xxh3::xxh3_64(bytes) as u32
}
