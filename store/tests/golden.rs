//! A repository that is the same bytes every time, read by a reader that was
//! written from SPEC.md and shares no code with the engine.
//!
//! If the format changes, VERSION changes, and the new file is written with
//! `STORE_WRITE_GOLDEN=1 cargo test -p store --test golden`.

mod common;

use common::{TestSystem, key, options};
use format_spec::ids::Address;
use std::path::Path;
use store::engine::{Durability, Store};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/engine-v1.bin");

/// A fixed sequence: four transactions, of which the third makes tables grow.
fn write(path: &Path) {
    let store = Store::open(path, &options(TestSystem::new(1))).unwrap();
    let mut transaction = store.begin(Durability::Lazy).unwrap();
    let address = transaction.insert(3, &key(0), b"first").unwrap();
    assert_eq!(transaction.push(1, address).unwrap(), 0);
    transaction.replace(15, &key(1), b"old").unwrap();
    transaction.commit().unwrap();

    let mut transaction = store.begin(Durability::Durable).unwrap();
    transaction.replace(15, &key(1), b"new value").unwrap();
    transaction.insert(3, &key(2), b"").unwrap();
    transaction.push(7, Address(4096)).unwrap();
    transaction.commit().unwrap();

    let mut transaction = store.begin(Durability::Lazy).unwrap();
    for number in 10..70u8 {
        let value = vec![number; usize::from(number % 9)];
        let address = transaction.insert(3, &key(number.into()), &value).unwrap();
        transaction.push(1, address).unwrap();
        transaction.push(1, address).unwrap();
    }
    transaction.commit().unwrap();

    let mut transaction = store.begin(Durability::Lazy).unwrap();
    transaction.insert(3, &key(100), b"last").unwrap();
    transaction.commit().unwrap();
}

#[test]
fn the_same_bytes_every_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("golden.repo");
    write(&path);
    if std::env::var_os("STORE_WRITE_GOLDEN").is_some() {
        std::fs::copy(&path, GOLDEN).unwrap();
    }
    let (made, golden) = (
        std::fs::read(&path).unwrap(),
        std::fs::read(GOLDEN).unwrap(),
    );
    let difference = made
        .iter()
        .zip(&golden)
        .position(|(made, golden)| made != golden);
    assert_eq!(difference, None, "first different byte");
    assert_eq!(made.len(), golden.len());
}

/// The reader of SPEC.md.
struct Reader(Vec<u8>);

struct Root {
    table: u64,
    words: u64,
    count: u64,
    used: u64,
}

impl Reader {
    fn u32(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.0[at as usize..][..4].try_into().unwrap())
    }

    fn u64(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.0[at as usize..][..8].try_into().unwrap())
    }

    fn bytes(&self, at: u64, length: u64) -> &[u8] {
        &self.0[at as usize..][..length as usize]
    }

    /// Section 4.
    fn state_word(&self, at: u64) -> u64 {
        let word = self.u64(at);
        let offset = word & 0xffff_ffff_ffff;
        assert_eq!(word >> 48, offset.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48);
        offset
    }

    /// Section 5: (kind, slot, address of the body, its length, the next item).
    fn item(&self, at: u64) -> (u8, u8, u64, u64, u64) {
        let head = self.bytes(at, 8);
        assert_eq!(head[7], 0xc5);
        let length = self.u64(at) % (1 << 40);
        let align = if matches!(head[6], 4 | 5) { 64 } else { 8 };
        let body = (at + 8).next_multiple_of(align);
        (
            head[6],
            head[5],
            body,
            length,
            (body + length).next_multiple_of(8),
        )
    }

    fn table(&self, at: u64) -> (u64, u64) {
        let reference = self.u64(at);
        if reference == 0 {
            (0, 0)
        } else {
            (reference / 64 * 64, 1 << (reference % 64))
        }
    }

    fn index(&self, trailer: u64, slot: u64) -> Root {
        let at = trailer + 72 + 24 * slot;
        let (table, words) = self.table(at);
        Root {
            table,
            words,
            count: self.u64(at + 8),
            used: self.u64(at + 16),
        }
    }

    fn vector(&self, trailer: u64, slot: u64) -> Vec<u64> {
        let at = trailer + 456 + 16 * slot;
        let (table, words) = self.table(at);
        let length = self.u64(at + 8);
        assert!(length <= words);
        (0..length)
            .map(|element| self.u64(table + 8 * element))
            .collect()
    }

    /// Section 7.
    fn look_up(&self, trailer: u64, slot: u64, key: &[u8; 32]) -> Option<&[u8]> {
        let root = self.index(trailer, slot);
        if root.table == 0 {
            return None;
        }
        let hash = u64::from_be_bytes(key[..8].try_into().unwrap());
        let lines = root.words / 8;
        let b = lines.ilog2();
        let w = if b <= 12 { 0 } else { 9 };
        let tag = hash << w >> 40;
        let mut place = (hash >> (64 - b)) * 8;
        let mut best = 0;
        for _ in 0..lines.min(16) * 8 {
            let word = self.u64(root.table + place * 8);
            if word == 0 {
                break;
            }
            let address = word % (1 << 40) * 8;
            if word >> 40 == tag && address < trailer + 592 && self.bytes(address + 8, 32) == key {
                best = best.max(address);
            }
            place = (place + 1) % root.words;
        }
        let (kind, of, body, length, _) = (best != 0).then(|| self.item(best))?;
        assert!(matches!(kind, 1 | 2));
        assert_eq!(u64::from(of), slot);
        Some(self.bytes(body + 32, length - 32))
    }

    fn crc(&self, ranges: &[(u64, u64)]) -> u32 {
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

#[test]
fn a_reader_made_from_the_specification_reads_it() {
    let file = Reader(std::fs::read(GOLDEN).unwrap());
    // Section 3.
    assert_eq!(file.bytes(0, 8), b"ProgRepo");
    assert_eq!((file.u32(8), file.u32(12)), (3, 0x0102_0304));
    assert_eq!((file.0[22] >> 4, file.0[24] >> 6), (4, 0b10));
    assert_eq!(file.u64(32) / 1_000_000_000, 5);
    assert_eq!(file.u32(40), 0);
    assert_eq!(file.u32(44), file.crc(&[(0, 44)]));
    assert!(file.bytes(48, 512 - 48).iter().all(|&byte| byte == 0));
    // Section 4.
    let [head, visible, checkpoint, durable] = [512, 520, 528, 536].map(|at| file.state_word(at));
    assert_eq!(head, visible);
    assert_eq!(file.bytes(544, 16), [1; 16]);
    assert_eq!(file.u64(560), 1);
    assert!(file.bytes(568, 4096 - 568).iter().all(|&byte| byte == 0));
    assert_eq!(head + 592, file.0.len() as u64);

    // Section 6, forwards over the items.
    let mut at = 4096;
    let mut trailers: Vec<u64> = Vec::new();
    let mut kinds = Vec::new();
    let mut start = at;
    let mut hashed = vec![];
    let mut from = at;
    while at < file.0.len() as u64 {
        let (kind, slot, body, length, next) = file.item(at);
        if kind != 6 {
            kinds.push((trailers.len(), kind, slot));
            if matches!(kind, 4 | 5) {
                hashed.push((from, body));
                from = next;
            }
            assert!(
                file.bytes(body + length, next - body - length)
                    .iter()
                    .all(|&byte| byte == 0)
            );
            at = next;
            continue;
        }
        hashed.push((from, at));
        assert_eq!(file.u64(at), 584 | 6 << 48 | 0xc5 << 56);
        assert_eq!(file.u64(at + 8), at);
        assert_eq!(file.u64(at + 16), trailers.len() as u64);
        assert_eq!(file.u64(at + 32), start);
        let previous = trailers.last().copied().unwrap_or(0);
        assert_eq!(file.u64(at + 40), previous);
        assert_eq!(
            file.u64(at + 56),
            if previous == 0 {
                0
            } else {
                file.u64(previous + 64)
            }
        );
        assert_eq!(file.u32(at + 584), file.crc(&hashed));
        assert_eq!(file.u32(at + 588), file.crc(&[(at, at + 588)]));
        trailers.push(at);
        (start, from, at) = (next, next, next);
        hashed.clear();
    }
    assert_eq!(trailers.len(), 5);
    assert_eq!(trailers[4], head);
    // The durable commit waited for its part of the log, and nobody for the tables.
    assert_eq!((trailers[0], trailers[2]), (checkpoint, durable));
    let jumps: Vec<u64> = trailers
        .iter()
        .map(|trailer| file.u64(trailer + 48))
        .collect();
    let [t0, t1, _, t3, _] = trailers[..] else {
        unreachable!()
    };
    assert_eq!(jumps, [0, t0, t1, t0, t3]);
    // What each transaction consists of: (transaction, kind, slot).
    let expected = [
        (1, 1, 3),
        (1, 1, 15),
        (1, 3, 1),
        (1, 4, 3),
        (1, 4, 15),
        (1, 5, 1),
    ];
    assert_eq!(kinds[..6], expected);
    assert_eq!(kinds[6..10], [(2, 2, 15), (2, 1, 3), (2, 3, 7), (2, 5, 7)]);
    assert_eq!(kinds[10..70], [(3, 1, 3); 60]);
    assert_eq!(kinds[70..], [(3, 3, 1), (3, 4, 3), (3, 5, 1), (4, 1, 3)]);

    // Section 7, in every revision.
    let value = |trailer, slot, number| file.look_up(trailer, slot, &key(number).0);
    for (revision, &trailer) in trailers.iter().enumerate() {
        assert_eq!(
            value(trailer, 3, 0),
            (revision >= 1).then_some(&b"first"[..])
        );
        assert_eq!(value(trailer, 3, 2), (revision >= 2).then_some(&b""[..]));
        assert_eq!(
            value(trailer, 3, 100),
            (revision >= 4).then_some(&b"last"[..])
        );
        let replaced = [
            None,
            Some(&b"old"[..]),
            Some(b"new value"),
            Some(b"new value"),
            Some(b"new value"),
        ];
        assert_eq!(value(trailer, 15, 1), replaced[revision]);
        for number in 10..70u8 {
            let bytes = vec![number; usize::from(number % 9)];
            assert_eq!(
                value(trailer, 3, number.into()),
                (revision >= 3).then_some(&bytes[..])
            );
        }
        let root = file.index(trailer, 3);
        assert_eq!(root.count, [0, 1, 2, 62, 63][revision]);
        assert_eq!(root.words, [0, 64, 64, 128, 128][revision]);
        let root = file.index(trailer, 15);
        assert_eq!(
            (root.count, root.used),
            [(0, 0), (1, 1), (1, 2), (1, 2), (1, 2)][revision]
        );
        let elements = file.vector(trailer, 1);
        assert_eq!(elements.len(), [0, 1, 1, 121, 121][revision]);
        for pair in elements.get(1..).unwrap_or_default().chunks(2) {
            assert_eq!(pair[0], pair[1]);
            assert_eq!(file.item(pair[0]).0, 1);
        }
        assert_eq!(
            file.vector(trailer, 7),
            [vec![], vec![], vec![4096]][revision.min(2)]
        );
    }
}
