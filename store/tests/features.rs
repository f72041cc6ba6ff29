//! Files of a newer version of the format, which this one must read as far as that is sound, and
//! refuse clearly where it is not (SPEC.md, section 3): made by hand out of files of this version.

mod common;

use common::{TestSystem, key, options};
use format_spec::file::IndexSlot;
use format_spec::file::{Features, ItemHead};
use std::path::Path;
use store::engine::{Appended, Durability, Error, Store};

/// Places of fields, from SPEC.md.
const HEADER_FEATURES: usize = 40;
const HEADER_CHECKSUM: usize = 68;
const TRAILER_FEATURES: usize = 72;
/// Of a trailer of one trie.
const TRAILER_SIZE: usize = 128;
const PAYLOAD_CRC: usize = TRAILER_SIZE - 8;
const TRAILER_CHECKSUM: usize = TRAILER_SIZE - 4;

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Three revisions of one record each.
fn sample(path: &Path) -> Vec<u8> {
    let store = Store::open(path, &options(TestSystem::new(1))).unwrap();
    for number in 1..=3 {
        let mut transaction = store.begin(Durability::Lazy).unwrap();
        transaction
            .insert(IndexSlot::of::<0>(), &key(number), &number.to_le_bytes())
            .unwrap();
        transaction.commit().unwrap();
    }
    drop(store);
    std::fs::read(path).unwrap()
}

fn newest_trailer(bytes: &[u8]) -> usize {
    word(bytes, 512) as usize & 0xffff_ffff_ffff
}

fn seal_trailer(bytes: &mut [u8], trailer: usize) {
    let checksum = crc32fast::hash(&bytes[trailer..trailer + TRAILER_CHECKSUM]);
    bytes[trailer + TRAILER_CHECKSUM..][..4].copy_from_slice(&checksum.to_le_bytes());
}

fn open(path: &Path, boot: u8) -> Result<Store, Error> {
    Store::open(path, &options(TestSystem::new(boot)))
}

#[test]
fn of_the_header() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("later.repo");
    let good = sample(&path);
    for (number, boot) in (0..3).flat_map(|number| [(number, 1), (number, 2)]) {
        let mut bytes = good.clone();
        put(&mut bytes, HEADER_FEATURES + 8 * number, 1 << 63);
        let checksum = crc32fast::hash(&bytes[..HEADER_CHECKSUM]);
        bytes[HEADER_CHECKSUM..][..4].copy_from_slice(&checksum.to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        check(&path, number, boot);
        if number > 0 {
            let left = std::fs::read(&path).unwrap();
            assert!(left == bytes, "what is not understood is left alone");
        }
    }
}

#[test]
fn of_the_newest_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("later.repo");
    let good = sample(&path);
    for (number, boot) in (0..3).flat_map(|number| [(number, 1), (number, 2)]) {
        let mut bytes = good.clone();
        let trailer = newest_trailer(&bytes);
        put(&mut bytes, trailer + TRAILER_FEATURES + 8 * number, 1 << 5);
        seal_trailer(&mut bytes, trailer);
        std::fs::write(&path, &bytes).unwrap();
        check(&path, number, boot);
        if number == 2 && boot == 1 {
            // What was before can be read.
            let store = open(&path, boot).unwrap();
            assert_eq!(store.snapshot_at(2).unwrap().count(IndexSlot::of::<0>()), 2);
            assert!(matches!(store.snapshot_at(3), Err(Error::Features { .. })));
        }
    }
}

/// `number`: 0 for a compatible feature, 1 for a read-compatible, 2 for an incompatible one.
fn check(path: &Path, number: usize, boot: u8) {
    let refused = |action: &str, error: Error| match error {
        Error::Features { action: found, .. } => assert_eq!(found, action),
        other => panic!("{other}"),
    };
    let store = match (number, boot, open(path, boot)) {
        // Only a writer could recover it.
        (1, 2, Err(error)) => return refused("written", error),
        (2, _, Err(error)) => return refused("read", error),
        (_, _, store) => store.unwrap(),
    };
    if number == 2 {
        return refused("read", store.snapshot().unwrap_err());
    }
    let found = store
        .snapshot()
        .unwrap()
        .get(IndexSlot::of::<0>(), &key(3))
        .unwrap()
        .unwrap();
    assert_eq!(found.value, 3u64.to_le_bytes());
    match (number, store.begin(Durability::Lazy)) {
        (1, Err(error)) => {
            assert!(error.to_string().contains("newer one"), "{error}");
            refused("written", error);
        }
        (_, transaction) => {
            let mut transaction = transaction.unwrap();
            transaction
                .insert(IndexSlot::of::<0>(), &key(9), b"more")
                .unwrap();
            transaction.commit().unwrap();
            // A feature once there stays.
            let newest = store.snapshot().unwrap();
            let before = store.snapshot_at(3).unwrap();
            assert_eq!(newest.trailer().features, before.trailer().features);
            store.verify().unwrap();
        }
    }
}

/// A transaction with items of kinds that are not known, in place of the last of the sample.
#[test]
fn items_of_unknown_kinds_are_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("later.repo");
    let good = sample(&path);
    let last = newest_trailer(&good);
    let start = word(&good, last + 32) as usize;
    let mut bytes = good[..last].to_vec();
    let head = |kind: u64, length: u64| length | 3 << 40 | kind << 48 | 0xc5 << 56;
    bytes.extend_from_slice(&head(0x7e, 20).to_le_bytes());
    bytes.extend_from_slice(&[1; 20]);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.extend_from_slice(&head(0xfe, 64).to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(64), 0);
    let (in_place, trailer) = (bytes.len(), bytes.len() + 64);
    bytes.resize(trailer, 7);
    bytes.extend_from_slice(&good[last..last + TRAILER_SIZE]);
    assert!(ItemHead(word(&bytes, last)).kind().is_none());
    put(&mut bytes, trailer + 8, trailer as u64);
    // Of the leaf that is made in the sample's last transaction, if any, nothing is hashed either.
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes[start..in_place]);
    bytes[trailer + PAYLOAD_CRC..][..4].copy_from_slice(&crc.finalize().to_le_bytes());
    seal_trailer(&mut bytes, trailer);
    for at in [512, 520] {
        put(
            &mut bytes,
            at,
            format_spec::file::StateWord::new(trailer as u64).0,
        );
    }
    for boot in [1, 2] {
        std::fs::write(&path, &bytes).unwrap();
        let store = open(&path, boot).unwrap();
        store.verify().unwrap();
        let snapshot = store.snapshot().unwrap();
        assert_eq!(
            (snapshot.revision(), snapshot.count(IndexSlot::of::<0>())),
            (3, 3)
        );
        let first = store.snapshot_at(2).unwrap();
        let added: Vec<_> = snapshot
            .additions_since(&first)
            .map(Result::unwrap)
            .collect();
        assert!(matches!(added[..], [Appended::Record { index, .. }] if index.number() == 0));
        let mut transaction = store.begin(Durability::Durable).unwrap();
        transaction
            .insert(IndexSlot::of::<0>(), &key(4), b"more")
            .unwrap();
        transaction.commit().unwrap();
        store.verify().unwrap();
        drop(store);
        // It still stands there.
        assert_eq!(std::fs::read(&path).unwrap()[in_place..trailer], [7; 64]);
    }
}

/// What a writer sets is in the snapshot that its commit makes and in all later ones, and not in those before.
#[test]
fn that_a_writer_sets_stay() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("later.repo");
    sample(&path);
    let store = open(&path, 1).unwrap();
    let with = |compatible| Features {
        compatible,
        ..Features::default()
    };
    // With nothing added, nothing is said.
    let mut transaction = store.begin(Durability::Lazy).unwrap();
    transaction.require(with(1 << 40));
    assert_eq!(transaction.commit().unwrap(), 3);
    for (number, bit) in [(4, 1), (5, 1 << 7)] {
        let mut transaction = store.begin(Durability::Lazy).unwrap();
        transaction.require(with(bit));
        transaction
            .insert(IndexSlot::of::<0>(), &key(number), b"more")
            .unwrap();
        transaction.commit().unwrap();
    }
    let expected = [0, 0, 0, 0, 1, 1 | 1 << 7];
    for (revision, bits) in (0..).zip(expected) {
        let snapshot = store.snapshot_at(revision).unwrap();
        assert_eq!(snapshot.features(), with(bits), "{revision}");
    }
    store.verify().unwrap();
    drop(store);
    // After a restart as well.
    let store = open(&path, 2).unwrap();
    assert_eq!(store.snapshot().unwrap().features(), with(1 | 1 << 7));
}
