//! Leaves that split: cut short at each word, seen by readers of older revisions, torn by power
//! cuts, and of keys that make it hard.
//!
//! `STORE_KILL_STRIDE=1` cuts a split of the largest leaf short at each word of it, too, and
//! `STORE_POWER_CUTS=100000` makes it a twentieth so many power cuts of each sort.

mod common;

use common::disk::{Disk, Weather};
use common::{Op, Random, TestSystem, Words, effort, key, options};
use format_spec::digest::Digest;
use format_spec::file::{IndexSlot, VectorSlot};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use store::engine::{Durability, OpenOptions, Snapshot, Store};

const INDEX: IndexSlot = IndexSlot::of::<3>();
const VECTOR: VectorSlot = VectorSlot::of::<2>();

/// Key number `number` of those that have their first `bits` bits in common.
fn alike(number: u64, bits: u32) -> Digest {
    let (mut key, common) = (key(number), key(u64::MAX));
    let whole = bits as usize / 8;
    key.0[..whole].copy_from_slice(&common.0[..whole]);
    let mask = 0xff_u8.checked_shl(8 - bits % 8).unwrap_or(0);
    key.0[whole] = common.0[whole] & mask | key.0[whole] & !mask;
    key
}

/// What is split.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A leaf of the largest size that is full, and a vector's.
    Largest,
    /// A small one, because its keys have too many bits in common.
    Alike,
}

impl Kind {
    fn key(self, number: u64) -> Digest {
        match self {
            Kind::Largest => key(number),
            Kind::Alike => alike(number, 13),
        }
    }

    /// So many keys do not split it yet.
    fn few(self) -> u64 {
        match self {
            Kind::Largest => 5000,
            Kind::Alike => 20,
        }
    }

    /// How many elements the vector has before: of the largest one, so that it gets a second leaf with the
    /// same transaction.
    fn elements(self) -> u64 {
        match self {
            Kind::Largest => (1 << 13) - 2,
            Kind::Alike => 30,
        }
    }
}

/// Adds the keys with these numbers, and elements, in one transaction.
fn add(store: &Store, kind: Kind, numbers: Range<u64>, pushed: u64) {
    let mut transaction = store.begin(Durability::Lazy).unwrap();
    let mut last = None;
    for number in numbers {
        let value = number.to_le_bytes();
        let address = transaction.insert(INDEX, &kind.key(number), &value);
        last = Some(address.unwrap());
    }
    for _ in 0..pushed {
        transaction.push(VECTOR, last.unwrap()).unwrap();
    }
    transaction.commit().unwrap();
}

/// The snapshot has the first so many keys and elements, and no other.
fn check(snapshot: Snapshot<'_>, kind: Kind, keys: u64, elements: u64) {
    assert_eq!(snapshot.count(INDEX), keys);
    // Of many, some; `verify` sees to the others.
    let step = keys as usize / 200 + 1;
    for number in (0..keys).step_by(step).chain(keys - 5..keys) {
        let found = snapshot.get(INDEX, &kind.key(number)).unwrap();
        assert_eq!(found.expect("is there").value, number.to_le_bytes());
    }
    for number in keys..keys + 3 {
        assert_eq!(snapshot.get(INDEX, &kind.key(number)).unwrap(), None);
    }
    assert_eq!(snapshot.vector_len(VECTOR), elements);
    for element in (0..elements).rev().take(20).chain(0..elements.min(3)) {
        let address = snapshot.vector_get(VECTOR, element as u32).unwrap();
        snapshot.record_at(address.unwrap()).unwrap();
    }
    assert_eq!(snapshot.vector_get(VECTOR, elements as u32).unwrap(), None);
}

/// A repository before a split, and three transactions of one key each: one that fills the leaf,
/// one that splits it, and one after.
struct Split {
    kind: Kind,
    words: Words,
    _directory: tempfile::TempDir,
    path: PathBuf,
    before: Vec<u8>,
    /// How many keys there are then.
    keys: u64,
    ops: Vec<Op>,
    /// After how many of them each is done.
    done: [usize; 3],
}

impl Split {
    /// How many elements each of them pushes.
    const PUSHED: [u64; 3] = [1, 5, 2];

    fn new(kind: Kind, words: Words) -> Split {
        let directory = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let path = directory.path().join("split.repo");
        let is_split = |store: &Store| {
            let snapshot = store.snapshot().unwrap();
            snapshot.index_size(INDEX).unwrap().nodes > 0
        };
        // Which key it is.
        let store = Store::open(&path, &options(TestSystem::storing(1))).unwrap();
        add(&store, kind, 0..kind.few(), 0);
        let mut keys = kind.few();
        while !is_split(&store) {
            add(&store, kind, keys..keys + 1, 0);
            keys += 1;
        }
        keys -= 2;
        drop(store);
        std::fs::remove_file(&path).unwrap();
        let store = Store::open(&path, &options(TestSystem::storing(1))).unwrap();
        let few = kind.few();
        add(&store, kind, 0..few, kind.elements());
        (few..keys).for_each(|number| add(&store, kind, number..number + 1, 0));
        store.sync().unwrap();
        drop(store);
        let before = std::fs::read(&path).unwrap();
        let mut split = Split {
            kind,
            words,
            _directory: directory,
            path,
            before,
            keys,
            ops: Vec::new(),
            done: [0; 3],
        };
        let system = TestSystem::with_hook(1, words, |_, _| common::Fate::Done);
        let store = Store::open(&split.path, &options(system.clone())).unwrap();
        for transaction in 0..3 {
            assert_eq!(is_split(&store), transaction == 2);
            split.go_on(&store, transaction);
            split.done[transaction as usize] = system.ops();
        }
        split.ops.clone_from(&system.recorded.lock().unwrap());
        split
    }

    /// Does what is left after so many of the three.
    fn go_on(&self, store: &Store, transaction: u64) {
        let number = self.keys + transaction;
        let pushed = Split::PUSHED[transaction as usize];
        add(store, self.kind, number..number + 1, pushed);
    }

    /// How many of the three it has.
    fn transactions(&self, snapshot: Snapshot<'_>) -> u64 {
        snapshot.count(INDEX) - self.keys
    }

    /// It holds what it must, with so many of the three.
    fn check(&self, snapshot: Snapshot<'_>, transactions: u64) {
        let pushed: u64 = Split::PUSHED[..transactions as usize].iter().sum();
        let elements = self.kind.elements() + pushed;
        check(snapshot, self.kind, self.keys + transactions, elements);
    }

    /// Opens what is left, which has from `least` to `most` of the three, and does the others.
    fn check_what_is_left(&self, image: &[u8], boot: u8, least: u64, most: u64) -> u64 {
        std::fs::write(&self.path, image).unwrap();
        let system = TestSystem::with_hook(boot, self.words, |_, _| common::Fate::Done);
        let store = Store::open(&self.path, &options(system)).unwrap();
        let before = store.snapshot().unwrap();
        let left = self.transactions(before);
        assert!(
            (least..=most).contains(&left),
            "{left}, not {least} to {most}"
        );
        self.check(before, left);
        store.verify().unwrap();
        // Who writes next does what was left undone, and a reader sees what he saw.
        let begun = store.begin(Durability::Lazy).unwrap();
        let caught_up = self.transactions(begun.base());
        drop(begun);
        assert!((left..=most).contains(&caught_up));
        self.check(before, left);
        self.check(store.snapshot().unwrap(), caught_up);
        for transaction in caught_up..3 {
            self.go_on(&store, transaction);
        }
        self.check(before, left);
        self.check(store.snapshot().unwrap(), 3);
        store.verify().unwrap();
        left
    }
}

const ALL: [(Kind, Words); 4] = [
    (Kind::Alike, Words::Written),
    (Kind::Alike, Words::Stored),
    (Kind::Largest, Words::Written),
    (Kind::Largest, Words::Stored),
];

/// What a process that is killed has done, the others see: so the file is made as it is then, and opened
/// in the same session. (`processes` kills real ones.)
#[test]
fn killed_at_each_word() {
    for (kind, words) in ALL {
        let split = Split::new(kind, words);
        let mut image = split.before.clone();
        let stride = match kind {
            Kind::Largest => effort("STORE_KILL_STRIDE", 251),
            Kind::Alike => 1,
        };
        let mut tried = 0;
        for (number, op) in split.ops.iter().enumerate() {
            let (offset, bytes) = op.written();
            assert!(!op.is_sync() && bytes.len() % 8 == 0);
            let returned = split.done.iter().filter(|&&done| done <= number).count() as u64;
            for word in 0..bytes.len() / 8 {
                // The first and last of each are always among them.
                let is_inner = word > 1 && word + 1 < bytes.len() / 8;
                let end = offset as usize + word * 8;
                if !is_inner || (word as u64).is_multiple_of(stride) {
                    let mut killed = image.clone();
                    killed.resize(killed.len().max(end), 0);
                    killed[offset as usize..end].copy_from_slice(&bytes[..word * 8]);
                    split.check_what_is_left(&killed, 1, returned, returned + 1);
                    tried += 1;
                }
            }
            let end = offset as usize + bytes.len();
            image.resize(image.len().max(end), 0);
            image[offset as usize..end].copy_from_slice(bytes);
        }
        split.check_what_is_left(&image, 1, 3, 3);
        assert!(tried > 70, "{kind:?}: {tried}");
    }
}

/// Between any two writes of a split, and within them.
#[test]
fn power_cuts() {
    for (kind, words) in ALL {
        let split = Split::new(kind, words);
        let states = effort("STORE_POWER_CUTS", 5000) / 20;
        let mut random = Random(effort("STORE_POWER_SEED", 3));
        let mut seen = [0; 4];
        for state in 0..states {
            // Each of the points in turn.
            let ops = state as usize % (split.ops.len() + 1);
            let disk = Disk::new(split.before.clone(), false).after(&split.ops[..ops]);
            let image = disk.cut(Weather::any(&mut random), &mut random);
            let begun = split.done.iter().filter(|&&done| done < ops).count() as u64 + 1;
            let left = split.check_what_is_left(&image, 200, 0, begun.min(3));
            seen[left as usize] += 1;
        }
        assert!(seen.iter().all(|&times| times > states / 50), "{seen:?}");
    }
}

/// Readers who stay with the revision that they began with, and others who look at those that come,
/// while leaves split beneath them. No reader waits, and none sees anything else.
#[test]
fn readers_of_old_revisions() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("read.repo");
    let options = OpenOptions {
        create: true,
        ..OpenOptions::default()
    };
    let stores = [(); 2].map(|()| Store::open(&path, &options).unwrap());
    const STEP: u64 = 50;
    let steps = effort("STORE_STEPS", 1000);
    // So that a few leaves split again and again.
    let key = |number: u64| match number % 3 {
        0 => alike(number, 40),
        _ => key(number),
    };
    let (looks, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    let look = |snapshot: &Snapshot<'_>, random: &mut Random| {
        let count = snapshot.count(INDEX);
        assert_eq!(count, snapshot.revision() * STEP);
        for _ in 0..20 {
            let number = random.below(count + count / 4 + 1);
            let found = snapshot.get(INDEX, &key(number)).unwrap();
            let value = found.map(|record| record.value.to_vec());
            let expected = (number < count).then(|| number.to_le_bytes().to_vec());
            assert_eq!(value, expected, "{number} of {count}");
        }
        looks.fetch_add(1, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for step in 0..steps {
                let mut transaction = stores[0].begin(Durability::Lazy).unwrap();
                for number in step * STEP..(step + 1) * STEP {
                    let value = number.to_le_bytes();
                    transaction.insert(INDEX, &key(number), &value).unwrap();
                }
                transaction.commit().unwrap();
            }
            is_done.store(true, Ordering::Relaxed);
        });
        for (reader, store) in (0..).zip(&stores) {
            let (is_done, look) = (&is_done, &look);
            scope.spawn(move || {
                let mut random = Random(reader);
                let mut kept: Vec<Snapshot<'_>> = Vec::new();
                while !is_done.load(Ordering::Relaxed) {
                    let newest = store.snapshot().unwrap();
                    look(&newest, &mut random);
                    if kept
                        .last()
                        .is_none_or(|last| last.revision() + 37 < newest.revision())
                    {
                        kept.push(newest);
                    }
                    for _ in 0..4 {
                        look(&kept[random.below(kept.len() as u64) as usize], &mut random);
                    }
                    let any = random.below(newest.revision() + 1);
                    look(&store.snapshot_at(any).unwrap(), &mut random);
                }
                for snapshot in &kept {
                    assert_eq!(snapshot.iter(INDEX).count() as u64, snapshot.count(INDEX));
                }
            });
        }
    });
    assert!(looks.into_inner() > 10);
    stores[0].verify().unwrap();
    let size = stores[0].snapshot().unwrap().index_size(INDEX).unwrap();
    assert!(size.leaves > 8, "{size:?}");
}

/// The way to them is long, no more: neither lookups nor splits are at a loss.
#[test]
fn a_million_keys_with_equal_leading_bits() {
    const KEYS: u64 = 1_000_000;
    const BITS: u32 = 100;
    let directory = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let path = directory.path().join("alike.repo");
    let store = Store::open(&path, &options(TestSystem::storing(1))).unwrap();
    let t0 = std::time::Instant::now();

    let mut random = Random(1);
    let mut number = 0;
    while number < KEYS {
        let step = 1 << random.below(15);
        let mut transaction = store.begin(Durability::Lazy).unwrap();
        for number in number..KEYS.min(number + step) {
            let value = number.to_le_bytes();
            transaction
                .insert(INDEX, &alike(number, BITS), &value)
                .unwrap();
        }
        transaction.commit().unwrap();
        number = KEYS.min(number + step);
    }
    eprintln!("many {:?}", t0.elapsed());
    // with so many bits in common that only some 2^24 different ones are left.
    const OTHER: IndexSlot = IndexSlot::of::<4>();
    const FEW_BITS: u32 = 232;
    let mut transaction = store.begin(Durability::Lazy).unwrap();
    for number in 0..KEYS / 10 {
        transaction
            .insert(OTHER, &alike(number, FEW_BITS), &[])
            .unwrap();
    }
    transaction.commit().unwrap();
    eprintln!("once {:?}", t0.elapsed());
    let others = (0..KEYS / 10).map(|number| alike(number, FEW_BITS));
    let others = others.collect::<std::collections::HashSet<_>>().len() as u64;

    let check = |store: &Store| {
        let snapshot = store.snapshot().unwrap();
        assert_eq!(snapshot.count(INDEX), KEYS);
        assert_eq!(snapshot.count(OTHER), others);
        for number in 0..KEYS {
            let found = snapshot.get(INDEX, &alike(number, BITS)).unwrap();
            assert_eq!(found.expect("is there").value, number.to_le_bytes());
        }
        for number in KEYS..KEYS + KEYS / 10 {
            assert!(snapshot.get(INDEX, &alike(number, BITS)).unwrap().is_none());
        }
        assert_eq!(snapshot.iter(INDEX).count() as u64, KEYS);
        assert_eq!(snapshot.iter(OTHER).count() as u64, others);
        // As with keys that have nothing in common, but for the way there: a node for six bits.
        eprintln!("looked {:?}", t0.elapsed());
        let size = snapshot.index_size(INDEX).unwrap();
        assert!(size.words < 4 * KEYS, "{size:?}");
        assert!(size.nodes < u64::from(BITS / 6) + 100, "{size:?}");
        let middle = store.snapshot_at(snapshot.revision() / 2).unwrap();
        let count = middle.count(INDEX);
        for number in (0..count).step_by(101) {
            assert!(middle.get(INDEX, &alike(number, BITS)).unwrap().is_some());
        }
        assert!(middle.get(INDEX, &alike(count, BITS)).unwrap().is_none());
        eprintln!("before verify {:?}", t0.elapsed());
        store.verify().unwrap();
        eprintln!("verified {:?}", t0.elapsed());
    };
    check(&store);
    drop(store);
    // All of it made again, after a power cut.
    check(&Store::open(&path, &options(TestSystem::storing(2))).unwrap());
}
