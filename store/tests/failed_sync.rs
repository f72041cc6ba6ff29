//! Syncs that fail: what was not on the disk is never taken for being there, neither by the process
//! that was told of the failure, nor by any other, nor when nobody was told.
//!
//! What the kernel does is modelled: what it has tried to write it takes for written, and it tells each
//! who has the file open of that once (`common::TestSystem`, `common::disk`). `power_cut` has the same at random.

mod common;

use common::disk::{Disk, Weather};
use common::{Expected, Fate, Random, TestSystem, Words, options, run_transaction};
use format_spec::file::IndexSlot;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use store::engine::{Durability, Error, OpenOptions, Store};

const BOTH: [Words; 2] = [Words::Written, Words::Stored];
/// Offsets of the file's state (SPEC.md, section 4).
const CHECKPOINT: u64 = 528;
const DURABLE: u64 = 536;
const DOUBT: u64 = 576;

/// What becomes of syncs.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Syncs {
    Work,
    Fail,
    FailAndKill,
}

/// A machine with one repository, of which nothing or all is on the disk at the beginning.
struct Machine {
    _directory: tempfile::TempDir,
    path: PathBuf,
    system: Arc<TestSystem>,
    syncs: Arc<AtomicU8>,
    history: Vec<Expected>,
}

impl Machine {
    /// With a few transactions that are all on the disk.
    fn new(words: Words) -> Machine {
        let directory = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let path = directory.path().join("failed.repo");
        let mut history = vec![Expected::default()];
        let store = Store::open(&path, &options(TestSystem::new(1))).unwrap();
        for number in 0..4 {
            let last = history.last().unwrap();
            history.push(run_transaction(&store, last, number, Durability::Lazy).unwrap());
        }
        store.sync().unwrap();
        let (system, syncs) = flaky(1, words);
        let image = std::fs::read(&path).unwrap();
        system.begin_with(Disk::new(image, false));
        Machine {
            _directory: directory,
            path,
            system,
            syncs,
            history,
        }
    }

    fn syncs(&self, syncs: Syncs) {
        self.syncs.store(syncs as u8, Ordering::Relaxed);
    }

    fn options(&self) -> OpenOptions {
        options(self.system.clone())
    }

    /// One more process.
    fn open(&self) -> Store {
        Store::open(&self.path, &self.options()).unwrap()
    }

    /// One more transaction; whether it is on the disk.
    fn commit(&mut self, store: &Store, durability: Durability) -> Result<(), Error> {
        let mut next = self.history.last().unwrap().clone();
        let mut transaction = store.begin(durability).unwrap();
        if self.history.len().is_multiple_of(2) {
            transaction.pack();
        }
        next.add(&mut transaction, 100 + self.history.len() as u64)
            .unwrap();
        self.history.push(next);
        let result = catch_unwind(AssertUnwindSafe(|| transaction.commit()));
        match result.unwrap_or(Ok(self.newest())) {
            Ok(revision) => assert_eq!(revision, self.newest()),
            Err(Error::NotDurable {
                revision, source, ..
            }) => {
                assert_eq!(revision, self.newest());
                return Err(*source);
            }
            Err(error) => panic!("{error}"),
        }
        Ok(())
    }

    fn newest(&self) -> u64 {
        self.history.len() as u64 - 1
    }

    fn state(&self, offset: u64) -> u64 {
        let bytes = std::fs::read(&self.path).unwrap();
        u64::from_le_bytes(bytes[offset as usize..][..8].try_into().unwrap())
    }

    /// Whatever a power cut leaves, it is a revision from `promised` on, whole.
    #[track_caller]
    fn check(&self, promised: u64) {
        let disk = self.system.disk();
        let path = self.path.with_extension("cut");
        let mut random = Random(7);
        for round in 0..30 {
            let weather = match round {
                0 => Weather::AllLost,
                1 => Weather::AllKept,
                _ => Weather::any(&mut random),
            };
            std::fs::write(&path, disk.cut(weather, &mut random)).unwrap();
            let store = Store::open(&path, &options(TestSystem::new(200))).unwrap();
            let snapshot = store.snapshot().unwrap();
            let revision = snapshot.revision();
            assert!(
                (promised..=self.newest()).contains(&revision),
                "{weather:?}: {revision} is left, promised were {promised}"
            );
            self.history[revision as usize].check(snapshot);
            store.verify().unwrap();
        }
    }
}

/// A system whose syncs do as they are told.
fn flaky(boot: u8, words: Words) -> (Arc<TestSystem>, Arc<AtomicU8>) {
    let syncs = Arc::new(AtomicU8::new(Syncs::Work as u8));
    let now = syncs.clone();
    let system = TestSystem::with_hook(boot, words, move |_, op| {
        let now = now.load(Ordering::Relaxed);
        match op.is_sync() {
            true if now == Syncs::Fail as u8 => Fate::Failed(0, libc::EIO),
            true if now == Syncs::FailAndKill as u8 => Fate::FailedAndKilled,
            _ => Fate::Done,
        }
    });
    (system, syncs)
}

fn is_sync_error(error: &Error) -> bool {
    matches!(error, Error::Io { action: "sync", source, .. } if source.raw_os_error() == Some(libc::EIO))
}

/// Who syncs after the one whose sync has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Same,
    OpenedBefore,
    OpenedAfter,
}

const ALL_NEXT: [Next; 3] = [Next::Same, Next::OpenedBefore, Next::OpenedAfter];

#[test]
fn what_a_failed_sync_left_out_is_written_again() {
    for (words, next) in BOTH
        .iter()
        .flat_map(|words| ALL_NEXT.map(|next| (*words, next)))
    {
        let mut machine = Machine::new(words);
        let (first, other) = (machine.open(), machine.open());
        machine.commit(&first, Durability::Durable).unwrap();
        let promised = machine.newest();
        for _ in 0..3 {
            machine.commit(&first, Durability::Lazy).unwrap();
        }
        let (checkpoint, durable) = (machine.state(CHECKPOINT), machine.state(DURABLE));
        machine.syncs(Syncs::Fail);
        let error = machine.commit(&first, Durability::Durable).unwrap_err();
        assert!(is_sync_error(&error), "{error}");
        assert_eq!(machine.state(DURABLE), durable);
        machine.check(promised);

        machine.syncs(Syncs::Work);
        let after = machine.open();
        let store = match next {
            Next::Same => first,
            Next::OpenedBefore => other,
            Next::OpenedAfter => after,
        };
        // One who had it open is told of the old failure first.
        if let Err(error) = machine.commit(&store, Durability::Durable) {
            assert!(
                next == Next::OpenedBefore && is_sync_error(&error),
                "{next:?}: {error}"
            );
            machine.check(promised);
            machine.commit(&store, Durability::Durable).unwrap();
        }
        let promised = machine.newest();
        machine.check(promised);
        assert_ne!(machine.state(CHECKPOINT), checkpoint);
        assert_eq!(machine.state(DOUBT), 0);
        // And from now on all is as ever.
        let ops = machine.system.ops();
        machine.commit(&store, Durability::Durable).unwrap();
        assert!(machine.system.ops() < ops + 20, "it was written again");
        machine.check(promised + 1);
    }
}

/// Nobody but the dead knew of it.
#[test]
fn killed_before_it_could_tell() {
    for (words, next) in BOTH
        .iter()
        .flat_map(|words| ALL_NEXT.map(|next| (*words, next)))
    {
        let mut machine = Machine::new(words);
        let (first, other) = (machine.open(), machine.open());
        machine.commit(&first, Durability::Lazy).unwrap();
        let promised = 4;
        machine.syncs(Syncs::FailAndKill);
        machine.commit(&first, Durability::Durable).unwrap();
        drop(first);
        assert_ne!(machine.state(DOUBT), 0);
        machine.check(promised);
        machine.syncs(Syncs::Work);
        let after = machine.open();
        let store = match next {
            Next::OpenedBefore => other,
            _ => after,
        };
        while let Err(error) = machine.commit(&store, Durability::Durable) {
            assert!(
                next == Next::OpenedBefore && is_sync_error(&error),
                "{next:?}: {error}"
            );
            machine.check(promised);
        }
        machine.check(machine.newest());
    }
}

/// The same of a checkpoint, for which leaves must be on the disk, too.
#[test]
fn checkpoints_that_fail() {
    for (words, syncs) in [
        (Words::Written, Syncs::Fail),
        (Words::Stored, Syncs::Fail),
        (Words::Stored, Syncs::FailAndKill),
    ] {
        let mut machine = Machine::new(words);
        let first = machine.open();
        for _ in 0..3 {
            machine.commit(&first, Durability::Lazy).unwrap();
            let checkpoint = machine.state(CHECKPOINT);
            machine.syncs(syncs);
            let synced = catch_unwind(AssertUnwindSafe(|| first.sync()));
            assert!(!matches!(synced, Ok(Ok(()))));
            assert_eq!(machine.state(CHECKPOINT), checkpoint);
            machine.check(4);
        }
        // Of another process, which has it open no longer than it was all lost.
        drop(first);
        machine.syncs(Syncs::Work);
        machine.open().sync().unwrap();
        machine.check(machine.newest());
        assert_eq!(machine.state(DOUBT), 0);
    }
}

/// What is written again does not get to the disk either, and nobody is told: so it is looked. A
/// new file will do.
#[test]
fn what_sticks_is_never_marked() {
    for words in BOTH {
        for lazies in 1..6 {
            let mut machine = Machine::new(words);
            let image = std::fs::read(&machine.path).unwrap();
            machine.system.begin_with(Disk::new(image, true));
            let store = machine.open();
            for _ in 0..lazies {
                machine.commit(&store, Durability::Lazy).unwrap();
            }
            machine.syncs(Syncs::Fail);
            machine.commit(&store, Durability::Durable).unwrap_err();
            machine.syncs(Syncs::Work);
            let marks = [machine.state(CHECKPOINT), machine.state(DURABLE)];
            for _ in 0..3 {
                let error = machine.commit(&store, Durability::Durable).unwrap_err();
                assert!(matches!(error, Error::NotOnDisk { .. }), "{error}");
                let error = machine.open().sync().unwrap_err();
                assert!(matches!(error, Error::NotOnDisk { .. }), "{error}");
                assert_eq!([machine.state(CHECKPOINT), machine.state(DURABLE)], marks);
            }
            machine.check(4);
            let copy = machine.path.with_extension("copy");
            std::fs::copy(&machine.path, &copy).unwrap();
            let system = TestSystem::with_identity(1, words, (2, 99));
            system.recorded.lock().unwrap().push(common::Op::Write {
                offset: 0,
                bytes: std::fs::read(&copy).unwrap(),
            });
            machine.system = system;
            machine.path = copy;
            machine.open();
            machine.check(machine.newest());
        }
    }
}

/// The kernel could not write what a process had left that is gone, and nobody asked.
#[test]
fn writes_that_failed_on_their_own() {
    for words in BOTH {
        for round in 0..8 {
            let mut machine = Machine::new(words);
            let other = (round % 2 == 0).then(|| machine.open());
            for _ in 0..=round {
                let gone = machine.open();
                machine.commit(&gone, Durability::Lazy).unwrap();
            }
            machine.system.write_back(true);
            machine.check(4);
            // Opened before or after: it is told.
            let store = other.unwrap_or_else(|| machine.open());
            let error = machine.commit(&store, Durability::Durable).unwrap_err();
            assert!(is_sync_error(&error), "{error}");
            machine.check(4);
            machine.commit(&store, Durability::Durable).unwrap();
            machine.check(machine.newest());
        }
    }
}

/// A disk that takes nothing any more: commits that need not be on it go on.
#[test]
fn a_disk_that_never_works_again() {
    for words in BOTH {
        let mut machine = Machine::new(words);
        machine.syncs(Syncs::Fail);
        for _ in 0..3 {
            let store = machine.open();
            machine.commit(&store, Durability::Lazy).unwrap();
            for _ in 0..2 {
                let error = machine.commit(&store, Durability::Durable).unwrap_err();
                assert!(is_sync_error(&error), "{error}");
            }
            assert!(is_sync_error(&store.sync().unwrap_err()));
            machine
                .history
                .last()
                .unwrap()
                .check(store.snapshot().unwrap());
            store.verify().unwrap();
            machine.check(4);
        }
    }
}

/// The kernel has forgotten the file, and so the failure: then it has read the file anew, and what was not written
/// is missed. Whichever sector that is.
#[test]
fn what_was_lost_unnoticed_is_not_marked() {
    for words in BOTH {
        let mut machine = Machine::new(words);
        let image = std::fs::read(&machine.path).unwrap();
        for _ in 0..3 {
            let gone = machine.open();
            machine.commit(&gone, Durability::Lazy).unwrap();
        }
        let good = std::fs::read(&machine.path).unwrap();
        let (mut healed, mut refused) = (0, 0);
        let marks = [machine.state(CHECKPOINT), machine.state(DURABLE)];
        for start in (4096..good.len()).step_by(512) {
            // As it was before these three.
            let end = (start + 512).min(good.len());
            let old = image.get(start..end.min(image.len())).unwrap_or_default();
            let old = [old, &[0; 512]].concat()[..end - start].to_vec();
            if old == good[start..end] {
                continue;
            }
            let reread = || {
                std::fs::write(&machine.path, &good).unwrap();
                let file = std::fs::File::options().write(true).open(&machine.path);
                file.unwrap().write_all_at(&old, start as u64).unwrap();
            };
            reread();
            let synced =
                Store::open(&machine.path, &machine.options()).and_then(|store| store.sync());
            match synced {
                Ok(()) => {
                    healed += 1;
                    let store = machine.open();
                    machine
                        .history
                        .last()
                        .unwrap()
                        .check(store.snapshot().unwrap());
                    store.verify().unwrap();
                }
                Err(error) => {
                    refused += 1;
                    assert!(matches!(error, Error::Damaged { .. }), "{error}");
                    assert_eq!([machine.state(CHECKPOINT), machine.state(DURABLE)], marks);
                    // Neither does a durable commit mark it.
                    reread();
                    commit_durably(&machine).unwrap_err();
                    assert_eq!([machine.state(CHECKPOINT), machine.state(DURABLE)], marks);
                }
            }
        }
        assert!(healed > 5 && refused > 5, "{healed}, {refused}");
    }
}

fn commit_durably(machine: &Machine) -> Result<u64, Error> {
    let store = Store::open(&machine.path, &machine.options())?;
    let mut transaction = store.begin(Durability::Durable)?;
    transaction.insert(IndexSlot::of::<9>(), &common::key(1), b"value")?;
    transaction.commit()
}

/// A copy, of which nothing is on the disk yet, though its state says so of the original. Its first
/// opening does not bring it there.
#[test]
fn a_copy_that_does_not_get_to_the_disk() {
    for (words, syncs) in [
        (Words::Written, Syncs::Fail),
        (Words::Stored, Syncs::Fail),
        (Words::Stored, Syncs::FailAndKill),
    ] {
        for failures in 1..10 {
            let mut machine = Machine::new(words);
            let copied = std::fs::read(&machine.path).unwrap();
            let (system, now) = flaky(2, words);
            (machine.system, machine.syncs) = (system, now);
            // In so many pieces: so what fails is not always the same.
            let size = copied.len().div_ceil(failures).next_multiple_of(8);
            for (offset, piece) in (0..).step_by(size).zip(copied.chunks(size)) {
                let bytes = piece.to_vec();
                let mut recorded = machine.system.recorded.lock().unwrap();
                recorded.push(common::Op::Write { offset, bytes });
            }
            machine.syncs(syncs);
            for _ in 0..failures {
                let opened = catch_unwind(AssertUnwindSafe(|| {
                    Store::open(&machine.path, &machine.options())
                }));
                assert!(!matches!(opened, Ok(Ok(_))));
            }
            machine.syncs(Syncs::Work);
            let store = machine.open();
            machine.history[4].check(store.snapshot().unwrap());
            machine.check(4);
            machine.commit(&store, Durability::Durable).unwrap();
            machine.check(5);
        }
    }
}

/// And then a part of it is thrown out of memory, that the original's checkpoint vouches for.
#[test]
fn a_copy_of_which_a_part_is_lost() {
    for words in BOTH {
        let mut machine = Machine::new(words);
        let good = std::fs::read(&machine.path).unwrap();
        let (system, syncs) = flaky(2, words);
        (machine.system, machine.syncs) = (system, syncs);
        let mut left = Vec::new();
        for start in (4096..good.len() - 512).step_by(512) {
            std::fs::write(&machine.path, &good).unwrap();
            machine.syncs(Syncs::Fail);
            let error = Store::open(&machine.path, &machine.options()).unwrap_err();
            assert!(is_sync_error(&error), "{error}");
            let file = std::fs::File::options().write(true).open(&machine.path);
            file.unwrap().write_all_at(&[0; 512], start as u64).unwrap();
            machine.syncs(Syncs::Work);
            // Where even the first trailer is lost, nothing is left to begin with.
            let store = match Store::open(&machine.path, &machine.options()) {
                Err(Error::Damaged { .. }) if start < 4096 + 112 => continue,
                other => other.unwrap(),
            };
            let snapshot = store.snapshot().unwrap();
            machine.history[snapshot.revision() as usize].check(snapshot);
            store.verify().unwrap();
            left.push(snapshot.revision());
        }
        assert!((0..=4).all(|revision| left.contains(&revision)), "{left:?}");
    }
}

/// Leaves that were damaged, also on the disk, and made again, which does not get there: the
/// checkpoint did not vouch for them.
#[test]
fn repaired_leaves_that_do_not_get_to_the_disk() {
    for words in BOTH {
        let machine = Machine::new(words);
        let store = machine.open();
        let leaf = store
            .snapshot()
            .unwrap()
            .index_leaves(common::PLAIN)
            .unwrap()[0]
            .clone();
        let mut image = std::fs::read(&machine.path).unwrap();
        image[leaf.start as usize..leaf.end as usize].fill(0x55);
        std::fs::write(&machine.path, &image).unwrap();
        machine.system.begin_with(Disk::new(image, false));
        store.verify().unwrap_err();
        machine.syncs(Syncs::Fail);
        assert!(is_sync_error(&store.rewrite_leaves().unwrap_err()));
        store.verify().unwrap();
        machine.syncs(Syncs::Work);
        machine.open().sync().unwrap();
        machine.check(4);
        assert_eq!(machine.state(DOUBT), 0);
    }
}

/// While there is doubt, all but the disk is well.
#[test]
fn doubt_is_no_damage() {
    let mut machine = Machine::new(Words::Stored);
    let store = machine.open();
    machine.syncs(Syncs::Fail);
    machine.commit(&store, Durability::Durable).unwrap_err();
    assert_ne!(machine.state(DOUBT), 0);
    store.verify().unwrap();
    drop(store);
    let mut reading = machine.options();
    reading.read_only = true;
    // Also of a session that is over.
    for system in [machine.system.clone(), TestSystem::new(9)] {
        reading.system = system;
        let store = Store::open(&machine.path, &reading).unwrap();
        machine
            .history
            .last()
            .unwrap()
            .check(store.snapshot().unwrap());
        store.verify().unwrap();
    }
    let store = Store::open(&machine.path, &options(TestSystem::new(9))).unwrap();
    assert_eq!(machine.state(DOUBT), 0);
    store.verify().unwrap();
}
