//! A repository that is the same bytes every time, read by a reader that was
//! written from SPEC.md and shares no code with the engine.
//!
//! If the format changes, VERSION changes, and the new file is written with
//! `STORE_WRITE_GOLDEN=1 cargo test -p store --test golden the_same_bytes`.

mod common;
#[path = "golden/reader.rs"]
mod reader;

use common::{TestSystem, key, options};
use format_spec::digest::Digest;
use format_spec::file::{IndexSlot, VectorSlot};
use format_spec::ids::Address;
use reader::Reader;
use std::path::Path;
use store::engine::{Durability, Store};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/engine-v5.bin");

/// A fixed sequence: five transactions, of which the third makes leaves grow, and the last
/// makes a trie of an index and of a vector.
fn write(path: &Path) {
    let store = Store::open(path, &options(TestSystem::new(1))).unwrap();
    let mut transaction = store.begin(Durability::Lazy).unwrap();
    let address = transaction
        .insert(IndexSlot::of::<3>(), &key(0), b"first")
        .unwrap();
    assert_eq!(transaction.push(VectorSlot::of::<1>(), address).unwrap(), 0);
    transaction
        .replace(IndexSlot::of::<15>(), &key(1), b"old")
        .unwrap();
    transaction.commit().unwrap();

    let mut transaction = store.begin(Durability::Durable).unwrap();
    transaction
        .replace(IndexSlot::of::<15>(), &key(1), b"new value")
        .unwrap();
    transaction
        .insert(IndexSlot::of::<3>(), &key(2), b"")
        .unwrap();
    transaction
        .push(VectorSlot::of::<7>(), Address(4096))
        .unwrap();
    transaction.commit().unwrap();

    let mut transaction = store.begin(Durability::Lazy).unwrap();
    for number in 10..70u8 {
        let value = vec![number; usize::from(number % 9)];
        let address = transaction
            .insert(IndexSlot::of::<3>(), &key(number.into()), &value)
            .unwrap();
        transaction.push(VectorSlot::of::<1>(), address).unwrap();
        transaction.push(VectorSlot::of::<1>(), address).unwrap();
    }
    transaction.commit().unwrap();

    let mut transaction = store.begin(Durability::Lazy).unwrap();
    transaction
        .insert(IndexSlot::of::<3>(), &key(100), b"last")
        .unwrap();
    transaction.commit().unwrap();

    // Keys with 13 equal bits: two nodes above each other.
    let mut transaction = store.begin(Durability::Lazy).unwrap();
    for number in 0..70 {
        let address = transaction
            .insert(IndexSlot::of::<4>(), &alike(number), &number.to_le_bytes())
            .unwrap();
        transaction.push(VectorSlot::of::<2>(), address).unwrap();
    }
    for _ in 70..300 {
        transaction
            .push(VectorSlot::of::<2>(), Address(4096))
            .unwrap();
    }
    transaction.commit().unwrap();
}

/// Keys of which the first 13 bits are the same, and the next 13 all but two values.
fn alike(number: u64) -> Digest {
    let mut key = key(number);
    key.0[..4].copy_from_slice(&(0xabc8_0000 | (number as u32 % 2) << 18 | 0x15).to_be_bytes());
    key
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

#[test]
#[allow(clippy::too_many_lines)] // one section of the specification after the other
fn a_reader_made_from_the_specification_reads_it() {
    let file = Reader(std::fs::read(GOLDEN).unwrap());
    // Section 3.
    assert_eq!(file.bytes(0, 8), b"ProgRepo");
    assert_eq!((file.u32(8), file.u32(12)), (5, 0x0102_0304));
    assert_eq!((file.0[22] >> 4, file.0[24] >> 6), (4, 0b10));
    assert_eq!(file.u64(32) / 1_000_000_000, 5);
    assert_eq!([40, 48, 56].map(|at| file.u64(at)), [0; 3]);
    assert_eq!(file.u32(64), 0);
    assert_eq!(file.u32(68), file.crc(&[(0, 68)]));
    assert!(file.bytes(72, 512 - 72).iter().all(|&byte| byte == 0));
    // Section 4.
    let [head, visible, checkpoint, durable] = [512, 520, 528, 536].map(|at| file.state_word(at));
    assert_eq!(head, visible);
    assert_eq!(file.bytes(544, 16), [1; 16]);
    assert_eq!((file.u64(560), file.u64(568)), (2, 1));
    assert!(file.bytes(576, 4096 - 576).iter().all(|&byte| byte == 0));
    assert_eq!(file.item(head).4, file.0.len() as u64);

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
            if kind & 0x80 != 0 {
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
        let tries = file.u32(at + 100).count_ones();
        let size = u64::from(104 + (12 * tries).next_multiple_of(8) + 8);
        assert_eq!(file.u64(at), (size - 8) | 6 << 48 | 0xc5 << 56);
        assert_eq!(next, at + size);
        let padding = u64::from(12 * tries % 8);
        assert!(
            file.bytes(next - 8 - padding, padding)
                .iter()
                .all(|&byte| byte == 0)
        );
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
        assert_eq!(file.u32(next - 8), file.crc(&hashed));
        assert_eq!(file.u32(next - 4), file.crc(&[(at, next - 4)]));
        trailers.push(at);
        (start, from, at) = (next, next, next);
        hashed.clear();
    }
    assert_eq!(trailers.len(), 6);
    assert_eq!(trailers[5], head);
    // The durable commit waited for its part of the log, and nobody for the tables.
    assert_eq!((trailers[0], trailers[2]), (checkpoint, durable));
    let jumps: Vec<u64> = trailers
        .iter()
        .map(|trailer| file.u64(trailer + 48))
        .collect();
    let [t0, t1, _, t3, t4, _] = trailers[..] else {
        unreachable!()
    };
    assert_eq!(jumps, [0, t0, t1, t0, t3, t4]);
    // Features, what was replaced, and which tries there are.
    for (revision, trailer) in trailers.iter().enumerate() {
        assert_eq!([72, 80, 88].map(|at| file.u64(trailer + at)), [0; 3]);
        assert_eq!(
            file.u32(trailer + 96),
            if revision >= 2 { 1 << 15 } else { 0 }
        );
        let first = 1 << 3 | 1 << 15 | 1 << (24 + 1);
        let tries = [0, first, first | 1 << (24 + 7)];
        let last = tries[2] | 1 << 4 | 1 << (24 + 2);
        let expected = tries.get(revision).copied().unwrap_or(tries[2]);
        assert_eq!(
            file.u32(trailer + 100),
            if revision == 5 { last } else { expected }
        );
    }
    // What each transaction consists of: (transaction, kind, slot).
    let expected = [
        (1, 1, 3),
        (1, 1, 15),
        (1, 3, 1),
        (1, 0x84, 3),
        (1, 0x84, 15),
        (1, 0x85, 1),
    ];
    assert_eq!(kinds[..6], expected);
    assert_eq!(
        kinds[6..10],
        [(2, 2, 15), (2, 1, 3), (2, 3, 7), (2, 0x85, 7)]
    );
    assert_eq!(kinds[10..70], [(3, 1, 3); 60]);
    assert_eq!(
        kinds[70..74],
        [(3, 3, 1), (3, 0x84, 3), (3, 0x85, 1), (4, 1, 3)]
    );
    assert_eq!(kinds[74..144], [(5, 1, 4); 70]);
    // A leaf behind seven equal bits, in the second of two nodes; two leaves and a node.
    assert_eq!(
        kinds[144..148],
        [(5, 3, 2), (5, 0x84, 4), (5, 4, 4), (5, 4, 4)]
    );
    assert_eq!(kinds[148..], [(5, 0x85, 2), (5, 0x85, 2), (5, 5, 2)]);

    // Sections 7 and 8, in every revision.
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
        let replaced = [None, Some(&b"old"[..]), Some(b"new value")];
        assert_eq!(value(trailer, 15, 1), replaced[revision.min(2)]);
        for number in 10..70u8 {
            let bytes = vec![number; usize::from(number % 9)];
            assert_eq!(
                value(trailer, 3, number.into()),
                (revision >= 3).then_some(&bytes[..])
            );
        }
        let (root, count) = file.index(trailer, 3);
        assert_eq!(count, [0, 1, 2, 62, 63, 63][revision]);
        let log2 = root.map_or(0, |root| root.log2);
        assert_eq!(log2, [0, 6, 6, 7, 7, 7][revision]);
        assert_eq!(file.index(trailer, 15).1, u64::from(revision >= 1));
        for number in 0..70 {
            let found = file.look_up(trailer, 4, &alike(number).0);
            assert_eq!(found, (revision >= 5).then_some(&number.to_le_bytes()[..]));
        }
        let elements = file.vector(trailer, 2);
        assert_eq!(elements.len(), if revision >= 5 { 300 } else { 0 });
        assert!(elements.iter().skip(70).all(|&element| element == 4096));
        assert!(
            elements
                .iter()
                .take(70)
                .all(|&element| file.item(element).0 == 1)
        );
        let elements = file.vector(trailer, 1);
        assert_eq!(elements.len(), [0, 1, 1, 121, 121, 121][revision]);
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
