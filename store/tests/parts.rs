//! Transactions of a writer who goes on without giving up the right to write, and leaves that are made for what is expected.

mod common;

use common::{Expected, PLAIN, REPLACED, Random, VECTOR, key};
use format_spec::file::{IndexSlot, LOG_OFFSET};
use std::os::unix::fs::FileExt;
use std::path::Path;
use store::engine::{Durability, OpenOptions, Reader, Store};

fn make(path: &Path) -> Store {
    let options = OpenOptions {
        create: true,
        ..OpenOptions::default()
    };
    Store::open(path, &options).expect("made")
}

/// Adds in parts, with so many records expected; looks at all revisions, at what recovery makes of a copy, and at the file itself.
fn parts(seed: u64, expected_records: [u64; 2]) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("parts.repo");
    let store = make(&path);
    let mut random = Random(seed);
    let mut expected = Expected::default();
    let mut history = vec![expected.clone()];
    let mut verification = store.verification().expect("begun");
    let mut transaction = store.begin(Durability::Lazy).expect("begun");
    transaction.expect(PLAIN, expected_records[0]);
    transaction.expect(REPLACED, expected_records[1]);
    for number in 0..40 {
        let added = expected.add(&mut transaction, seed.wrapping_mul(1000) + number);
        added.expect("added");
        // What the transaction has added itself is found, and so is what those before have.
        for number in 0..3 {
            let found = transaction.get(PLAIN, &key(number)).expect("sound");
            let found = found.map(|record| record.value.to_vec());
            assert_eq!(found.as_ref(), expected.plain.get(&number));
        }
        if random.below(3) > 0 {
            transaction = transaction.commit_and_go_on().expect("committed");
            assert_eq!(transaction.added(), 0);
            history.push(expected.clone());
            // Of nothing there is no revision.
            transaction = transaction.commit_and_go_on().expect("committed");
            assert!(store.try_begin(Durability::Lazy).expect("asked").is_none());
        }
        if random.below(3) == 0 {
            verification.go_on().expect("sound");
        }
    }
    if transaction.added() > 0 {
        history.push(expected);
    }
    transaction.commit().expect("committed");
    verification.finish().expect("sound");
    store.verify().expect("sound");
    let newest = store.snapshot().expect("one").revision();
    assert_eq!(newest, history.len() as u64 - 1);
    for (revision, expected) in history.iter().enumerate() {
        expected.check(store.snapshot_at(revision as u64).expect("it is there"));
    }
    // Of a copy nothing is known to be on the disk, so its leaves are made from the log: as they are here.
    let copy = directory.path().join("copy.repo");
    std::fs::copy(&path, &copy).expect("copied");
    let recovered = make(&copy);
    recovered.verify().expect("sound");
    let last = history.last().expect("one");
    last.check(recovered.snapshot().expect("one"));
    assert_eq!(recovered.rewrite_leaves().expect("looked at"), 0);
}

#[test]
fn each_part_is_a_revision() {
    for seed in 0..6 {
        // As many as there are, none, fewer, more, and many more.
        for expected in [[900, 4], [0, 0], [100, 1], [3000, 100], [200_000, 20_000]] {
            parts(seed, expected);
        }
    }
}

const INDEX: IndexSlot = IndexSlot::of::<3>();

/// Adds so many records in parts of so many.
fn add(store: &Store, records: u64, part: u64, expected: Option<u64>) {
    let mut transaction = store.begin(Durability::Lazy).expect("begun");
    if let Some(expected) = expected {
        transaction.expect(INDEX, expected);
    }
    for number in 0..records {
        let address = transaction.insert(INDEX, &key(number), &number.to_le_bytes());
        if number % 2 == 0 {
            let address = address.expect("added");
            transaction.push(VECTOR, address).expect("pushed");
        }
        if number % part == part - 1 {
            transaction = transaction.commit_and_go_on().expect("committed");
        }
    }
    transaction.commit().expect("committed");
}

#[test]
fn leaves_are_made_once_for_what_is_expected() {
    let directory = tempfile::tempdir().expect("a directory");
    let records = 40_000;
    let size = |name: &str, part, expected| {
        let store = make(&directory.path().join(name));
        add(&store, records, part, expected);
        store.verify().expect("sound");
        let snapshot = store.snapshot().expect("one");
        let index = snapshot.index_size(INDEX).expect("sound");
        assert_eq!(snapshot.count(INDEX), records);
        (store.size().expect("known"), index)
    };
    let (at_once, _) = size("at once", records, None);
    let (grown, _) = size("grown", 1000, None);
    let (expected, index) = size("expected", 1000, Some(records));
    // 40,000 words in 64 leaves of 1024, of which some may have become too small.
    assert!((64..80).contains(&index.leaves), "{index:?}");
    let trailers = 40 * 512;
    assert!(
        expected < at_once + at_once / 20 + trailers,
        "{expected} and {at_once}"
    );
    assert!(grown > expected + 300_000, "{grown} and {expected}");
}

#[test]
fn each_damaged_word_of_a_leaf_is_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("damaged.repo");
    let store = make(&path);
    let records = 3000;
    add(&store, records, 500, Some(records));
    store.verify().expect("sound");
    let bytes = std::fs::read(&path).expect("read");
    let (file, mut random, mut found) = (store.file(), Random(7), 0);
    let log = LOG_OFFSET as usize;
    for place in (log..bytes.len() - 8)
        .step_by(8)
        .filter(|place| place % 40 == 0)
    {
        let word = u64::from_le_bytes(bytes[place..place + 8].try_into().expect("eight"));
        let other = match random.below(4) {
            0 => 0,
            // Another record's, which is sound, but does not belong here.
            1 => {
                let place = log + random.below((bytes.len() - log) as u64 / 8 - 1) as usize * 8;
                u64::from_le_bytes(bytes[place..place + 8].try_into().expect("eight"))
            }
            2 => word ^ 1 << random.below(64),
            _ => random.next(),
        };
        if other == word {
            continue;
        }
        file.write_all_at(&other.to_le_bytes(), place as u64)
            .expect("written");
        assert!(
            store.verify().is_err(),
            "at {place:#x}: {other:#x} for {word:#x}"
        );
        file.write_all_at(&word.to_le_bytes(), place as u64)
            .expect("written");
        found += 1;
    }
    assert!(found > 500, "{found}");
    store.verify().expect("sound again");
}
