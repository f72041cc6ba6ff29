//! The engine against a model: any sequence of operations must give what a
//! hash map and a vector give, in the newest snapshot and in all earlier ones,
//! before and after opening the file again.

use format_spec::digest::Digest;
use format_spec::file::{IndexSlot, NumberedSlot, VectorSlot};
use format_spec::ids::Address;
use proptest::prelude::*;
use std::collections::HashMap;
use store::engine::{
    Appended, Durability, Earlier, Known, OpenOptions, Reader, Record, Snapshot, Store,
};

const INDICES: u8 = 3;
/// The index of numbered records.
const NUMBERED: IndexSlot = IndexSlot::of::<INDICES>();

/// One step of a transaction.
#[derive(Clone, Debug)]
enum Step {
    Insert {
        index: IndexSlot,
        key: u16,
        value: u16,
    },
    Replace {
        index: IndexSlot,
        key: u16,
        value: u16,
    },
    Push {
        vector: VectorSlot,
        key: u16,
    },
    Number {
        vector: VectorSlot,
        key: u16,
        value: u16,
    },
}

#[derive(Clone, Debug)]
enum Operation {
    Transaction {
        steps: Vec<Step>,
        durable: bool,
        commit: bool,
        pack: bool,
    },
    Reopen,
    Sync,
}

fn index() -> impl Strategy<Value = IndexSlot> {
    (0..INDICES).prop_map(|number| IndexSlot::new(number).unwrap())
}

fn vector() -> impl Strategy<Value = VectorSlot> {
    (0..2u8).prop_map(|number| VectorSlot::new(number).unwrap())
}

fn step() -> impl Strategy<Value = Step> {
    // Few keys, so that they come again; sometimes many.
    let key = prop_oneof![0..8u16, 0..200u16, any::<u16>()];
    // Few that are too large for a pack.
    let value = prop_oneof![9 => 0..600u16, 1 => 16_000..17_000u16];
    prop_oneof![
        6 => (index(), key.clone(), value.clone())
            .prop_map(|(index, key, value)| Step::Insert { index, key, value }),
        3 => (index(), key.clone(), value)
            .prop_map(|(index, key, value)| Step::Replace { index, key, value }),
        2 => (vector(), key.clone()).prop_map(|(vector, key)| Step::Push { vector, key }),
        // Few values: many keys are alike.
        3 => (vector(), key, 0..6u16)
            .prop_map(|(vector, key, value)| Step::Number { vector, key, value }),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let steps = prop_oneof![
        prop::collection::vec(step(), 0..12),
        prop::collection::vec(step(), 0..300),
    ];
    prop_oneof![
        8 => (steps, prop::bool::weighted(0.1), prop::bool::weighted(0.9), any::<bool>()).prop_map(
            |(steps, durable, commit, pack)| Operation::Transaction { steps, durable, commit, pack }
        ),
        1 => Just(Operation::Reopen),
        1 => Just(Operation::Sync),
    ]
}

/// Some keys share their first bytes, so that tags collide.
fn digest(key: u16) -> Digest {
    let mut digest = Digest::of(&key.to_le_bytes());
    if key.is_multiple_of(5) {
        digest.0[..8].copy_from_slice(&Digest::of(b"same").0[..8]);
    }
    digest
}

fn bytes(value: u16) -> Vec<u8> {
    (0..value).map(|i| (i ^ value) as u8).collect()
}

#[derive(Clone, Default)]
struct Model {
    indices: [HashMap<Digest, Vec<u8>>; INDICES as usize],
    vectors: [Vec<Address>; 2],
    /// In the order in which they came.
    numbered: Vec<(Digest, Vec<u8>)>,
}

impl Model {
    fn check(&self, snapshot: Snapshot<'_>, keys: &[u16]) {
        for (index, expected) in IndexSlot::all().zip(&self.indices) {
            assert_eq!(snapshot.count(index), expected.len() as u64);
            for &key in keys {
                let found = snapshot.get(index, &digest(key)).unwrap();
                assert_eq!(
                    found.map(|record| record.value),
                    expected.get(&digest(key)).map(Vec::as_slice)
                );
                if let Some(record) = found {
                    assert_eq!(snapshot.record_at(record.address).unwrap(), record);
                }
            }
            let all: HashMap<_, _> = snapshot
                .iter(index)
                .map(|record| record.map(|record| (record.key(), record.value.to_vec())))
                .collect::<Result<_, _>>()
                .unwrap();
            assert_eq!(&all, expected);
        }
        assert_eq!(snapshot.count(NUMBERED), self.numbered.len() as u64);
        for (key, value) in &self.numbered {
            let is_it = |record: &Record<'_>| record.value == value;
            let found = snapshot.find(NUMBERED, key, is_it).unwrap().unwrap();
            assert!(found.is_numbered() && found.key() == *key);
            let is_other = |record: &Record<'_>| record.value == b"no such value";
            assert_eq!(snapshot.find(NUMBERED, key, is_other).unwrap(), None);
        }
        for (vector, expected) in VectorSlot::all().zip(&self.vectors) {
            let length = snapshot.vector_len(vector) as u32;
            let all: Vec<_> = (0..length)
                .map(|element| snapshot.vector_get(vector, element).unwrap().unwrap())
                .collect();
            assert_eq!(&all, expected);
            assert_eq!(snapshot.vector_get(vector, length).unwrap(), None);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_the_model(operations in prop::collection::vec(operation(), 1..24)) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model.repo");
        let options = OpenOptions { create: true, ..OpenOptions::default() };
        let mut store = Store::open(&path, &options).unwrap();
        let mut history = vec![Model::default()];
        let mut keys = Vec::new();
        for operation in operations {
            match operation {
                Operation::Reopen => {
                    drop(store);
                    store = Store::open(&path, &options).unwrap();
                }
                Operation::Sync => store.sync().unwrap(),
                Operation::Transaction { steps, durable, commit, pack } => {
                    let durability = if durable { Durability::Durable } else { Durability::Lazy };
                    let mut model = history.last().unwrap().clone();
                    let mut changed = false;
                    let mut transaction = store.begin(durability).unwrap();
                    if pack {
                        transaction.pack();
                    }
                    for step in steps {
                        match step {
                            Step::Insert { index, key, value } => {
                                keys.push(key);
                                let address = transaction.insert(index, &digest(key), &bytes(value)).unwrap();
                                let entry = model.indices[usize::from(index.number())].entry(digest(key));
                                let expected = entry.or_insert_with(|| { changed = true; bytes(value) });
                                prop_assert_eq!(transaction.record_at(address).unwrap().value, &expected[..]);
                            }
                            Step::Replace { index, key, value } => {
                                keys.push(key);
                                transaction.replace(index, &digest(key), &bytes(value)).unwrap();
                                let old = model.indices[usize::from(index.number())].insert(digest(key), bytes(value));
                                changed |= old != Some(bytes(value));
                                let found = transaction.get(index, &digest(key)).unwrap().unwrap();
                                prop_assert_eq!(found.value, &bytes(value)[..]);
                            }
                            Step::Number { vector, key, value } => {
                                let (key, value) = (digest(key), bytes(value));
                                let slots = NumberedSlot { index: NUMBERED, vector };
                                let (address, is_new) = transaction
                                    .insert_numbered(slots, &key, &value, |record| record.value == value).unwrap();
                                let there = (key.shortened(), value);
                                prop_assert_eq!(is_new, !model.numbered.contains(&there));
                                prop_assert_eq!(transaction.record_at(address).unwrap().value, &there.1[..]);
                                if is_new {
                                    let elements = &mut model.vectors[usize::from(vector.number())];
                                    let number = elements.len() as u32;
                                    prop_assert_eq!(transaction.vector_get(vector, number).unwrap(), Some(address));
                                    elements.push(address);
                                    model.numbered.push(there);
                                    changed = true;
                                }
                            }
                            Step::Push { vector, key } => {
                                let address = Address(u64::from(key) * 8);
                                let elements = &mut model.vectors[usize::from(vector.number())];
                                let number = transaction.push(vector, address).unwrap();
                                prop_assert_eq!(number as usize, elements.len());
                                prop_assert_eq!(transaction.vector_get(vector, number).unwrap(), Some(address));
                                elements.push(address);
                                changed = true;
                            }
                        }
                    }
                    if commit {
                        let revision = transaction.commit().unwrap();
                        if changed {
                            history.push(model);
                        }
                        prop_assert_eq!(revision as usize, history.len() - 1);
                    }
                }
            }
            let newest = store.snapshot().unwrap();
            history.last().unwrap().check(newest, &keys[keys.len().saturating_sub(50)..]);
        }
        store.verify().unwrap();
        for (revision, model) in history.iter().enumerate() {
            model.check(store.snapshot_at(revision as u64).unwrap(), &keys);
        }
        // The additions since some revision make the newest one of it.
        let middle = history.len() / 2;
        let mut model = history[middle].clone();
        let earlier = store.snapshot_at(middle as u64).unwrap();
        for addition in store.snapshot().unwrap().additions_since(&earlier) {
            match addition.unwrap() {
                Appended::Record { index: NUMBERED, record } => {
                    model.numbered.push((record.key(), record.value.to_vec()));
                }
                Appended::Record { index, record } => {
                    model.indices[usize::from(index.number())].insert(record.key(), record.value.to_vec());
                }
                Appended::Push { vector, element } => {
                    model.vectors[usize::from(vector.number())].push(element);
                }
            }
        }
        model.check(store.snapshot().unwrap(), &keys);
        let revisions: Vec<_> = store.snapshot().unwrap().revisions()
            .map(|snapshot| snapshot.unwrap().revision()).collect();
        prop_assert!(revisions.into_iter().rev().eq(0..history.len() as u64));
    }
}

/// What was absent before the first of several transactions is not looked up again in the later ones, which know what the earlier ones have
/// added, unless somebody else has committed between them.
#[test]
fn transactions_that_follow_each_other_know_what_they_added() {
    let directory = tempfile::tempdir().unwrap();
    let options = OpenOptions {
        create: true,
        ..OpenOptions::default()
    };
    let store = Store::open(directory.path().join("model.repo"), &options).unwrap();
    let index = IndexSlot::of::<0>();
    let add = |transaction: &mut store::engine::Transaction<'_>, key, known| {
        let value = |out: &mut Vec<u8>| -> store::engine::Result<()> {
            out.extend_from_slice(&bytes(key));
            Ok(())
        };
        let (_, is_new) = (transaction.insert_made(index, &digest(key), known, value)).unwrap();
        is_new
    };
    let mut earlier = Earlier::default();
    for (step, key) in [1, 2, 1, 3, 2].into_iter().enumerate() {
        let mut transaction = store.begin(Durability::Lazy).unwrap();
        transaction.follow(&mut earlier);
        assert_eq!(
            add(&mut transaction, key, Known::NotInBase),
            step != 2 && step != 4
        );
        transaction.commit_part(&mut earlier).unwrap();
    }
    let mut other = store.begin(Durability::Lazy).unwrap();
    assert!(add(&mut other, 4, Known::Nothing));
    other.commit().unwrap();
    let mut transaction = store.begin(Durability::Lazy).unwrap();
    transaction.follow(&mut earlier);
    for key in [1, 2, 3, 4] {
        assert!(!add(&mut transaction, key, Known::Nothing));
    }
    transaction.commit_part(&mut earlier).unwrap();
    let count = store.snapshot().unwrap().count(index);
    assert_eq!(count, 4);
    store.verify().unwrap();
}

/// A transaction larger than what is gathered before it is written, whose own
/// records are found all the while.
#[test]
fn one_large_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.repo");
    let options = OpenOptions {
        create: true,
        ..OpenOptions::default()
    };
    let store = Store::open(&path, &options).unwrap();
    let digest = |number: u32| Digest::of(&number.to_le_bytes());
    let value = |number: u32| number.to_le_bytes().repeat(number as usize % 300);
    let mut transaction = store.begin(Durability::Durable).unwrap();
    let mut addresses = Vec::new();
    for number in 0..40_000 {
        addresses.push(
            transaction
                .insert(IndexSlot::of::<0>(), &digest(number), &value(number))
                .unwrap(),
        );
        let earlier = number / 3;
        for known in [number, earlier] {
            let found = transaction
                .get(IndexSlot::of::<0>(), &digest(known))
                .unwrap()
                .unwrap();
            assert_eq!(found.value, value(known));
            assert_eq!(found.address, addresses[known as usize]);
        }
        let again = transaction
            .insert(IndexSlot::of::<0>(), &digest(earlier), b"other")
            .unwrap();
        assert_eq!(again, addresses[earlier as usize]);
        assert!(
            transaction
                .get(IndexSlot::of::<0>(), &digest(number + 1))
                .unwrap()
                .is_none()
        );
    }
    assert_eq!(store.snapshot().unwrap().count(IndexSlot::of::<0>()), 0);
    transaction.commit().unwrap();
    store.verify().unwrap();
    let snapshot = store.snapshot().unwrap();
    assert!(snapshot.size() > 20 << 20);
    for number in 0..40_000 {
        let found = snapshot
            .get(IndexSlot::of::<0>(), &digest(number))
            .unwrap()
            .unwrap();
        assert_eq!(found.value, value(number));
        assert_eq!(found.value.as_ptr() as usize % 8, 0);
    }

    // Enough more that their words are stored through a mapping.
    let mut transaction = store.begin(Durability::Durable).unwrap();
    for number in 50_000..50_300 {
        transaction
            .insert(IndexSlot::of::<0>(), &digest(number), &value(number))
            .unwrap();
    }
    transaction.commit().unwrap();
    store.verify().unwrap();
    let root = |snapshot: Snapshot<'_>| snapshot.trailer().index(IndexSlot::of::<0>()).root;
    assert_eq!(root(snapshot), root(store.snapshot().unwrap()));
    assert_eq!(
        store.snapshot().unwrap().count(IndexSlot::of::<0>()),
        40_300
    );
}
