//! Many handles, threads and processes on one repository, and what becomes of
//! it when they are killed.
//!
//! `STORE_KILLS=1000` kills so many writers at random times; the default keeps
//! CI short. The processes are this test binary itself, running [`worker`].

mod common;

use common::{
    Expected, Fate, Random, TestSystem, Words, effort, key, kill_self, options, run_transaction,
    spawn,
};
use format_spec::file::IndexSlot;
use format_spec::file::VectorSlot;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use store::engine::{Durability, OpenOptions, Reader, Store};

const INDEX: IndexSlot = IndexSlot::of::<0>();
const COUNTERS: IndexSlot = IndexSlot::of::<1>();

fn create() -> OpenOptions {
    OpenOptions {
        create: true,
        ..OpenOptions::default()
    }
}

/// Adds one to a counter that is kept in a replaceable record, inserts a record
/// of its own and one that every writer inserts, all in one transaction.
fn one_step(store: &Store, writer: u64, step: u64, durability: Durability) {
    let mut transaction = store.begin(durability).unwrap();
    if (writer ^ step).is_multiple_of(2) {
        transaction.pack();
    }
    let counter = key(u64::MAX);
    let old = transaction.get(COUNTERS, &counter).unwrap();
    let count = old.map_or(0, |record| {
        u64::from_le_bytes(record.value.try_into().unwrap())
    });
    let new = (count + 1).to_le_bytes();
    transaction.replace(COUNTERS, &counter, &new).unwrap();
    let own = transaction.insert(INDEX, &key(writer << 32 | step), &writer.to_le_bytes());
    transaction.insert(INDEX, &key(step), b"shared").unwrap();
    let number = transaction
        .push(VectorSlot::of::<0>(), own.unwrap())
        .unwrap();
    assert_eq!(u64::from(number), count);
    transaction.commit().unwrap();
}

/// What must hold if each writer made so many steps.
fn check_steps(store: &Store, steps_of: &[(u64, u64)]) {
    store.verify().unwrap();
    let snapshot = store.snapshot().unwrap();
    let total: u64 = steps_of.iter().map(|of| of.1).sum();
    let counter = snapshot.get(COUNTERS, &key(u64::MAX)).unwrap();
    let count = counter.map_or(0, |record| {
        u64::from_le_bytes(record.value.try_into().unwrap())
    });
    assert_eq!(count, total);
    assert_eq!(snapshot.vector_len(VectorSlot::of::<0>()), total);
    let shared = steps_of.iter().map(|of| of.1).max().unwrap_or(0);
    assert_eq!(snapshot.count(INDEX), total + shared);
    for &(writer, steps) in steps_of {
        for step in 0..steps {
            let own = snapshot.get(INDEX, &key(writer << 32 | step)).unwrap();
            assert_eq!(own.unwrap().value, writer.to_le_bytes());
            let shared = snapshot.get(INDEX, &key(step)).unwrap();
            assert_eq!(shared.unwrap().value, b"shared");
        }
    }
    for element in 0..total as u32 {
        let address = snapshot
            .vector_get(VectorSlot::of::<0>(), element)
            .unwrap()
            .unwrap();
        assert_eq!(snapshot.record_at(address).unwrap().value.len(), 8);
    }
}

#[test]
fn threads_share_a_store_and_handles_share_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shared.repo");
    let stores = [(); 2].map(|()| Store::open(&path, &create()).unwrap());
    let (writers, steps) = (6, 60);
    let barrier = Barrier::new(writers as usize + 1);
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for writer in 1..=writers {
            let (stores, barrier) = (&stores, &barrier);
            threads.push(scope.spawn(move || {
                barrier.wait();
                for step in 0..steps {
                    one_step(&stores[writer as usize % 2], writer, step, Durability::Lazy);
                }
            }));
        }
        barrier.wait();
        // A reader meanwhile: no snapshot is ever half of a transaction.
        let mut last = 0;
        while threads.iter().any(|thread| !thread.is_finished()) {
            let snapshot = stores[0].snapshot().unwrap();
            assert!(snapshot.revision() >= last);
            last = snapshot.revision();
            assert_eq!(snapshot.vector_len(VectorSlot::of::<0>()), last);
            if let Some(newest) = (last as u32).checked_sub(1) {
                let address = snapshot
                    .vector_get(VectorSlot::of::<0>(), newest)
                    .unwrap()
                    .unwrap();
                let record = snapshot.record_at(address).unwrap();
                assert_eq!(snapshot.get(INDEX, &record.key()).unwrap(), Some(record));
                let counter = snapshot.get(COUNTERS, &key(u64::MAX)).unwrap().unwrap();
                assert_eq!(counter.value, last.to_le_bytes());
            }
        }
    });
    let steps_of: Vec<_> = (1..=writers).map(|writer| (writer, steps)).collect();
    check_steps(&stores[1], &steps_of);
}

/// Not a test of its own: what the processes that the others start do.
#[test]
fn worker() {
    let variable = |name: &str| std::env::var(name).ok();
    let Some(path) = variable("WORKER_PATH").map(PathBuf::from) else {
        return;
    };
    let number = |name: &str| variable(name).and_then(|text| text.parse::<u64>().ok());
    let writer = number("WORKER_NUMBER").unwrap();
    if let Some(op) = number("WORKER_KILL_AT") {
        let words = match variable("WORKER_WORDS").as_deref() {
            Some("stored") => Words::Stored,
            _ => Words::Written,
        };
        let after = number("WORKER_KILL_AFTER").unwrap() as usize;
        return killed_at(&path, words, op as usize, after);
    }
    let store = Store::open(path, &create()).unwrap();
    for step in 0..number("WORKER_STEPS").unwrap() {
        let durable = step % 64 == 5;
        one_step(
            &store,
            writer,
            step,
            if durable {
                Durability::Durable
            } else {
                Durability::Lazy
            },
        );
    }
}

fn start_worker(path: &Path, writer: u64, more: &[(&str, String)]) -> std::process::Child {
    let mut environment = vec![
        ("WORKER_PATH", path.to_str().unwrap().to_owned()),
        ("WORKER_NUMBER", writer.to_string()),
    ];
    environment.extend_from_slice(more);
    spawn("worker", &environment)
}

/// Writers that go on until they are killed: at the latest when this is dropped, so also when a test fails.
struct Endless(Vec<std::process::Child>);

impl Drop for Endless {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

#[test]
fn many_processes_create_and_fill_one_repository() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("many.repo");
    let (writers, steps) = (16, effort("STORE_STEPS", 1000));
    // They also create it at once.
    let mut children: Vec<_> = (1..=writers)
        .map(|writer| start_worker(&path, writer, &[("WORKER_STEPS", steps.to_string())]))
        .collect();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    let steps_of: Vec<_> = (1..=writers).map(|writer| (writer, steps)).collect();
    check_steps(&Store::open(&path, &create()).unwrap(), &steps_of);
    let files = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(files, 1, "something was left beside the repository");
}

/// How many transactions of others may come between two of one writer of
/// sixteen: each of the others can finish a turn of 512 transactions, queue before
/// him, and have another turn. That is if the scheduler lets him queue at once; so
/// much more is allowed that he may be kept from it for about a second.
const MOST_BETWEEN: u64 = 8 * (15 * 2 * 513);

/// Fifteen writers never pause; a sixteenth that comes later gets its turns all
/// the same, and each of them does. (Should one starve, this does not end.)
#[test]
fn nobody_starves() {
    const LATE_STEPS: u64 = 2000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("busy.repo");
    let store = Store::open(&path, &create()).unwrap();
    let forever = [("WORKER_STEPS", u64::MAX.to_string())];
    let mut others = Endless(
        (1..16)
            .map(|writer| start_worker(&path, writer, &forever))
            .collect(),
    );
    let has = |writer: u64, step: u64| {
        let snapshot = store.snapshot().unwrap();
        let own = snapshot.get(INDEX, &key(writer << 32 | step)).unwrap();
        own.is_some()
    };
    // Who has not had his turn after so many transactions of the others starves.
    const PATIENCE: u64 = 1_000_000;
    let wait_for_all = |children: &mut [std::process::Child], step| {
        let start = store.snapshot().unwrap().revision();
        while !(1..16).all(|writer| has(writer, step)) {
            assert!(store.snapshot().unwrap().revision() < start + PATIENCE);
            for child in &mut *children {
                assert!(
                    child.try_wait().unwrap().is_none(),
                    "writers go on for ever"
                );
            }
            std::thread::yield_now();
        }
    };
    wait_for_all(&mut others.0, 0);
    let late = [("WORKER_STEPS", LATE_STEPS.to_string())];
    let status = start_worker(&path, 16, &late).wait().unwrap();
    assert!(status.success());
    assert!(has(16, LATE_STEPS - 1));
    wait_for_all(&mut others.0, 50);
    drop(others);
    store.begin(Durability::Lazy).unwrap();
    store.verify().unwrap();

    // Each transaction has pushed a record that tells whose it is.
    let snapshot = store.snapshot().unwrap();
    let mut last_of = std::collections::HashMap::new();
    for element in 0..snapshot.vector_len(VectorSlot::of::<0>()) {
        let address = snapshot
            .vector_get(VectorSlot::of::<0>(), element as u32)
            .unwrap()
            .unwrap();
        let writer = snapshot.record_at(address).unwrap().value;
        if let Some(last) = last_of.insert(writer, element) {
            let between = element - last - 1;
            assert!(between <= MOST_BETWEEN, "{between} before {writer:?}");
        }
    }
    assert_eq!(last_of.len(), 16);
}

/// Real kills at random times, of writers that go on and on.
#[test]
fn writers_may_be_killed_at_any_time() {
    let kills = effort("STORE_KILLS", 100);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("killed.repo");
    let store = Store::open(&path, &create()).unwrap();
    let mut random = Random(kills);
    let mut writer = 0;
    while writer < kills {
        let forever = [("WORKER_STEPS", u64::MAX.to_string())];
        let children = Endless(
            (0..2)
                .map(|_| {
                    writer += 1;
                    start_worker(&path, writer, &forever)
                })
                .collect(),
        );
        // Let them make some progress, measured in transactions; then for a
        // moment of random length none of which is waited for on purpose.
        let start = store.snapshot().unwrap().revision();
        while store.snapshot().unwrap().revision() < start + 3 + random.below(10) {
            std::thread::yield_now();
        }
        for _ in 0..random.below(20_000) {
            std::hint::spin_loop();
        }
        drop(children);
        // Opens and is good, without anybody having written since.
        Store::open(&path, &create()).unwrap().verify().unwrap();
    }
    let mut transaction = store.begin(Durability::Lazy).unwrap();
    transaction
        .insert(IndexSlot::of::<7>(), &key(0), b"still writable")
        .unwrap();
    transaction.commit().unwrap();
    store.verify().unwrap();

    // Every step of every writer is there whole: count them.
    let snapshot = store.snapshot().unwrap();
    let steps_of: Vec<_> = (1..=writer)
        .map(|writer| {
            let has = |step| {
                snapshot
                    .get(INDEX, &key(writer << 32 | step))
                    .unwrap()
                    .is_some()
            };
            (writer, (0..).take_while(|&step| has(step)).count() as u64)
        })
        .collect();
    check_steps(&store, &steps_of);
}

/// Runs a few transactions in a system that kills this process in the middle
/// of its operation number `op`, after so many bytes of it.
fn killed_at(path: &Path, words: Words, op: usize, after: usize) {
    let system = TestSystem::with_hook(1, words, move |number, what| {
        let (offset, bytes) = what.written();
        let length = bytes.len() as u64;
        // Linux looks for signals between pages, not within one.
        let half = (offset + length / 2) / PAGE * PAGE;
        let written = match after {
            0 => 0,
            1 => half.saturating_sub(offset),
            _ => length,
        };
        if number == op {
            Fate::Killed(written as usize)
        } else {
            Fate::Done
        }
    });
    let store = Store::open(path, &options(system)).unwrap();
    let mut expected = Expected::default();
    for number in 0..KILLED_TRANSACTIONS {
        let durability = if number == 3 {
            Durability::Durable
        } else {
            Durability::Lazy
        };
        expected = run_transaction(&store, &expected, number, durability).unwrap();
    }
    kill_self();
}

const PAGE: u64 = 4096;
const KILLED_TRANSACTIONS: u64 = 8;

/// kill -9 at, before and in the middle of every write of some transactions.
#[test]
fn writers_may_be_killed_in_every_system_call() {
    killed_in_every_operation(Words::Written);
}

/// The same where they store words through a mapping: at, before and after every store.
#[test]
fn writers_may_be_killed_at_every_store() {
    killed_in_every_operation(Words::Stored);
}

fn killed_in_every_operation(words: Words) {
    let directory = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    // What it is without kills, and how many operations that takes.
    let path = directory.path().join("whole.repo");
    let system = TestSystem::with_hook(1, words, |_, _| Fate::Done);
    let store = Store::open(&path, &options(system.clone())).unwrap();
    let mut history = vec![Expected::default()];
    let mut commits = vec![system.ops()];
    for number in 0..KILLED_TRANSACTIONS {
        let last = &history[number as usize];
        history.push(run_transaction(&store, last, number, Durability::Lazy).unwrap());
        commits.push(system.ops());
    }
    let ops = system.ops();
    // All of them by hand; by default a sample that changes with the code.
    let stride = effort("STORE_KILL_STRIDE", 1 + ops as u64 / 60) as usize;
    for op in (0..ops).step_by(stride) {
        for after in 0..3 {
            let path = directory.path().join(format!("{op}.{after}.repo"));
            let more = [
                ("WORKER_KILL_AT", op.to_string()),
                ("WORKER_KILL_AFTER", after.to_string()),
                ("WORKER_WORDS", format!("{words:?}").to_lowercase()),
            ];
            let status = start_worker(&path, 0, &more).wait().unwrap();
            assert!(!status.success());
            let store = Store::open(&path, &options(TestSystem::new(1))).unwrap();
            store.verify().unwrap();
            let revision = store.snapshot().unwrap().revision();
            // Committed are those whose commit had returned, perhaps one more.
            let returned = commits.iter().filter(|&&commit| commit <= op).count() as u64;
            let returned = returned.saturating_sub(1);
            assert!(
                (returned..=returned + 1).contains(&revision),
                "{op}: {revision}, not {returned}"
            );
            history[revision as usize].check(store.snapshot().unwrap());
            let again = store.begin(Durability::Lazy).unwrap();
            let caught_up = again.base().revision();
            drop(again);
            assert!((revision..=returned + 1).contains(&caught_up));
            let expected = &history[caught_up as usize];
            expected.check(store.snapshot().unwrap());
            let next = run_transaction(&store, expected, 99, Durability::Lazy).unwrap();
            next.check(store.snapshot().unwrap());
            store.verify().unwrap();
            std::fs::remove_file(path).unwrap();
        }
    }
}
