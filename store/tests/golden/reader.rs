//! A reader of repository files that was written from part 1 of SPEC.md. It uses nothing of this project.

#![allow(dead_code, reason = "each test uses a part of this")]

/// The reader of SPEC.md.
pub struct Reader(pub Vec<u8>);

/// A reference, section 7.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reference {
    pub address: u64,
    pub log2: u32,
    pub prefix: u32,
}

impl Reader {
    pub fn u32(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.0[at as usize..][..4].try_into().unwrap())
    }

    pub fn u64(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.0[at as usize..][..8].try_into().unwrap())
    }

    pub fn bytes(&self, at: u64, length: u64) -> &[u8] {
        &self.0[at as usize..][..length as usize]
    }

    /// Section 4.
    pub fn state_word(&self, at: u64) -> u64 {
        let word = self.u64(at);
        let offset = word & 0xffff_ffff_ffff;
        assert_eq!(word >> 48, offset.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48);
        offset
    }

    /// Section 5: (kind, slot, address of the body, its length, the next item).
    pub fn item(&self, at: u64) -> (u8, u8, u64, u64, u64) {
        let head = self.bytes(at, 8);
        assert_eq!(head[7], 0xc5);
        let length = self.u64(at) % (1 << 40);
        let align = if head[6] & 0x80 != 0 { 64 } else { 8 };
        let body = (at + 8).next_multiple_of(align);
        (
            head[6],
            head[5],
            body,
            length,
            (body + length).next_multiple_of(8),
        )
    }

    /// Section 5: addresses of the records of the pack at `at`; none if the item is another.
    pub fn packed(&self, at: u64) -> Vec<u64> {
        match self.item(at) {
            (8, count, ..) => (1..=u64::from(count)).map(|word| at + 8 * word).collect(),
            _ => Vec::new(),
        }
    }

    /// Section 5, "Packs": what the pack holds that has a record's word at `at`, and where the record begins in it.
    fn unpacked(&self, at: u64) -> (Reader, u64) {
        let word = self.u64(at);
        let number = word >> 48 & 0xff;
        assert_eq!((word >> 56, word >> 32 & 0xffff), (0xc6, 0));
        let pack = at - 8 - 8 * number;
        let (kind, count, body, length, _) = self.item(pack);
        assert!(kind == 8 && number < u64::from(count));
        let check = xxhash_rust::xxh3::xxh3_64(self.bytes(pack, 8 + length - 4)) as u32;
        assert_eq!(self.u32(body + length - 4), check);
        let words = 8 * u64::from(count);
        let frame = self.bytes(body + words, length - words - 4);
        let held = zstd::stream::decode_all(frame).unwrap();
        assert!(held.len() <= 1 << 20);
        let held = Reader(held);
        let mut start = 0;
        for place in 0..u64::from(count) {
            let word = self.u64(body + 8 * place);
            assert_eq!(word, start | place << 48 | 0xc6 << 56);
            let (_, _, body, length, next) = held.item(start);
            assert_eq!(held.u32(body + length - 4), 0);
            start = next;
        }
        assert_eq!(start, held.0.len() as u64);
        (held, word & 0xffff_ffff)
    }

    /// Section 5: (index, key with zeros behind a short one, value) of the record at `at`; `None` if the item is none.
    pub fn record(&self, at: u64) -> Option<(u8, [u8; 32], &[u8])> {
        if self.0[at as usize + 7] == 0xc6 {
            let (held, start) = self.unpacked(at);
            // Its value is borrowed as those of others are.
            return Box::leak(Box::new(held)).record_in(start, false);
        }
        self.record_in(at, true)
    }

    /// Section 5: the vector of which the record at `at` is an element, if it is numbered.
    pub fn numbered_by(&self, at: u64) -> Option<u8> {
        let (kind, slot) = match self.0[at as usize + 7] {
            0xc6 => {
                let (held, start) = self.unpacked(at);
                (held.item(start).0, held.item(start).1)
            }
            _ => (self.item(at).0, self.item(at).1),
        };
        (kind == 7).then_some(slot >> 5)
    }

    fn record_in(&self, at: u64, is_checked: bool) -> Option<(u8, [u8; 32], &[u8])> {
        let (kind, slot, body, length, _) = self.item(at);
        let (index, size) = match kind {
            1 | 2 => (slot, 32),
            7 => (slot & 31, 8),
            _ => return None,
        };
        let mut key = [0; 32];
        key[..size as usize].copy_from_slice(self.bytes(body, size));
        let check = xxhash_rust::xxh3::xxh3_64(self.bytes(at, 8 + length - 4)) as u32;
        assert!(!is_checked || self.u32(body + length - 4) == check);
        Some((index, key, self.bytes(body + size, length - size - 4)))
    }

    /// Section 7: of a word that is child number `rank` of a node with this bitmap.
    pub fn reference(&self, word: u64, bitmap: u64, rank: u64) -> Option<Reference> {
        let low = word & ((1 << 51) - 1);
        let mixed = (low ^ bitmap.rotate_left(29) ^ rank << 51).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        assert_eq!(word >> 51, mixed >> 51);
        (low != 0).then_some(Reference {
            address: (low & ((1 << 37) - 1)) * 8,
            log2: (low >> 37 & 31) as u32,
            prefix: (low >> 42) as u32,
        })
    }

    /// Section 6: (root, count) of the trie with this bit.
    fn trie(&self, trailer: u64, bit: u64) -> (Option<Reference>, u64) {
        let tries = self.u32(trailer + 100);
        if tries >> bit & 1 == 0 {
            return (None, 0);
        }
        let number = u64::from((tries % (1 << bit)).count_ones());
        let counts = trailer + 104 + 8 * u64::from(tries.count_ones());
        let root = self.reference(self.u64(trailer + 104 + 8 * number), 0, 0);
        let count = self.u32(counts + 4 * number);
        assert!(root.is_some() && count > 0);
        (root, count.into())
    }

    /// (root, number of keys).
    pub fn index(&self, trailer: u64, slot: u64) -> (Option<Reference>, u64) {
        self.trie(trailer, slot)
    }

    /// The leaf that the way to a key or element ends at; `value` gives the six bits
    /// that a node of this prefix or height takes.
    pub fn leaf(
        &self,
        kind: u8,
        root: Option<Reference>,
        value: impl Fn(u32) -> u64,
    ) -> Option<Reference> {
        let mut reference = root?;
        while reference.log2 == 31 {
            let (found, _, body, length, _) = self.item(reference.address);
            assert_eq!(found, kind);
            let bitmap = self.u64(body);
            assert_eq!(length, 8 + 8 * u64::from(bitmap.count_ones()));
            let up_to = bitmap << (63 - value(reference.prefix));
            let rank = u64::from(up_to.count_ones()) - 1;
            let below = self.reference(self.u64(body + 8 + 8 * rank), bitmap, rank)?;
            assert!(below.address < reference.address);
            reference = below;
        }
        Some(reference)
    }

    pub fn vector(&self, trailer: u64, slot: u64) -> Vec<u64> {
        let (root, length) = self.trie(trailer, 24 + slot);
        (0..length)
            .map(|element| {
                let value = |height: u32| element >> (8 + 6 * (height - 1)) & 63;
                let leaf = self.leaf(5, root, value).unwrap();
                let word = self.u64(leaf.address + element % 256 * 8);
                let address = word % (1 << 37);
                let mixed =
                    (address ^ !element.rotate_left(37)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                assert_eq!(word >> 37, mixed >> 37);
                address * 8
            })
            .collect()
    }

    /// Section 8.
    pub fn look_up(&self, trailer: u64, slot: u64, key: &[u8; 32]) -> Option<&[u8]> {
        let bits = |from: u32, count: u32| {
            (from..from + count).fold(0, |bits, at| {
                let byte = key.get(at as usize / 8).copied().unwrap_or(0);
                bits << 1 | u64::from(byte >> (7 - at % 8) & 1)
            })
        };
        let leaf = self.leaf(4, self.index(trailer, slot).0, |prefix| bits(prefix, 6))?;
        let lines = 1 << (leaf.log2 - 3);
        let p = leaf.prefix;
        let w = if p == 0 { 0 } else { 7 + (p - 1) / 16 * 16 };
        let tag = bits(w, 24);
        let mut place = bits(p, leaf.log2 - 3) * 8;
        let end = self.item(trailer).4;
        let mut best = 0;
        for _ in 0..8.min(lines / 2) * 8 {
            let word = self.u64(leaf.address + place * 8);
            if word == 0 {
                break;
            }
            let mut check = 0;
            for shift in (0..61).step_by(3) {
                let (tag, address) = (word >> 40 << 37, word % (1 << 37));
                check ^= ((tag | address) >> shift) & 7;
            }
            assert_eq!(word >> 37 & 7, check);
            let address = word % (1 << 37) * 8;
            if word >> 40 == tag && address < end {
                let (index, found, _) = self.record(address).expect("a record");
                assert_eq!(u64::from(index), slot);
                best = if found == *key {
                    best.max(address)
                } else {
                    best
                };
            }
            place = (place + 1) % (lines * 8);
        }
        let (_, _, value) = (best != 0).then(|| self.record(best))??;
        Some(value)
    }

    pub fn crc(&self, ranges: &[(u64, u64)]) -> u32 {
        let mut crc = u32::MAX;
        for &(start, end) in ranges {
            for &byte in self.bytes(start, end - start) {
                crc ^= u32::from(byte);
                for _ in 0..8 {
                    crc = if crc & 1 == 1 {
                        crc >> 1 ^ 0xEDB8_8320
                    } else {
                        crc >> 1
                    };
                }
            }
        }
        !crc
    }
}
