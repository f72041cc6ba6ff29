//! The engine itself under a scheduler that decides, at each operation on what
//! threads share, which of them goes on: thousands of interleavings that real
//! threads would hardly ever meet, each of which can be repeated.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p store --test interleavings --target-dir target/shuttle
//! ```
//!
//! `cargo xtask test` does this. `STORE_INTERLEAVINGS=100000` makes it so many of
//! each sort. Threads switch at mutexes and atomics of a [`Store`], at every word
//! of the mapped file that is read or stored, before and in the middle of each
//! write, and at the file's lock, which is modelled: a lock belongs to the file as
//! one store opened it, as with flock(2). So two stores on one file are as two
//! processes to each other. What is not explored is the memory model: all
//! operations are seen in one order (on x86-64 the mapped words are, but for loads
//! that overtake stores).
#![cfg(shuttle)]

mod common;

use common::{effort, key};
use format_spec::file::{IndexSlot, VectorSlot};
use memmap2::MmapRaw;
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use store::engine::{Durability, OpenOptions, Reader, Store, System};

const INDEX: IndexSlot = IndexSlot::of::<0>();
const COUNTERS: IndexSlot = IndexSlot::of::<1>();
const VECTOR: VectorSlot = VectorSlot::of::<0>();
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// An operating system whose every operation may be interrupted.
struct Interrupted {
    /// The descriptor by which the repository is locked, and that of who is next.
    owner: Mutex<Option<i32>>,
    next: Mutex<Option<i32>>,
    /// And that of who syncs.
    syncing: Mutex<Option<i32>>,
    /// Up to where the log is on the disk, once it was synced.
    synced: AtomicU64,
    released: Condvar,
    advanced: Condvar,
    boot: u8,
    counter: AtomicU64,
}

impl Interrupted {
    fn new(boot: u8) -> Arc<Interrupted> {
        Arc::new(Interrupted {
            owner: Mutex::new(None),
            next: Mutex::new(None),
            syncing: Mutex::new(None),
            synced: AtomicU64::new(0),
            released: Condvar::new(),
            advanced: Condvar::new(),
            boot,
            counter: AtomicU64::new(1),
        })
    }
}

impl System for Interrupted {
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        // Words are written in one piece, all else by halves.
        let half = bytes.len() / 16 * 8;
        for (part, start) in [(&bytes[..half], 0), (&bytes[half..], half)] {
            switch();
            file.write_all_at(part, offset + start as u64)?;
        }
        Ok(())
    }

    fn sync_range(&self, file: &File, _: &MmapRaw, range: Range<u64>) -> io::Result<()> {
        assert!(range.end <= file.metadata()?.len(), "not yet written");
        switch();
        let synced = self.synced.load(Ordering::SeqCst);
        assert!(synced == 0 || range.start <= synced, "leaves a hole");
        self.synced.fetch_max(range.end, Ordering::SeqCst);
        Ok(())
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        let length = file.metadata()?.len();
        switch();
        self.synced.fetch_max(length, Ordering::SeqCst);
        Ok(())
    }

    fn lock(&self, file: &File) -> io::Result<()> {
        let mut owner = self.owner.lock().unwrap();
        // To its owner a lock is granted again, as flock(2) does.
        while owner.is_some_and(|owner| owner != file.as_raw_fd()) {
            owner = self.released.wait(owner).unwrap();
        }
        *owner = Some(file.as_raw_fd());
        Ok(())
    }

    fn try_lock(&self, file: &File) -> io::Result<bool> {
        let mut owner = self.owner.lock().unwrap();
        let free = owner.is_none_or(|owner| owner == file.as_raw_fd());
        if free {
            *owner = Some(file.as_raw_fd());
        }
        Ok(free)
    }

    fn unlock(&self, file: &File) {
        let released = self.owner.lock().unwrap().take();
        assert_eq!(released, Some(file.as_raw_fd()), "had no lock");
        self.released.notify_all();
    }

    fn enter_queue(&self, file: &File) -> io::Result<()> {
        let mut next = self.next.lock().unwrap();
        while next.is_some() {
            next = self.advanced.wait(next).unwrap();
        }
        *next = Some(file.as_raw_fd());
        Ok(())
    }

    fn leave_queue(&self, file: &File) {
        let left = self.next.lock().unwrap().take();
        assert_eq!(left, Some(file.as_raw_fd()), "was not at its head");
        self.advanced.notify_one();
    }

    fn wait(&self, _: &AtomicU32, _: u32, _: Duration) -> bool {
        // There is nothing to do but to let others go on.
        thread::yield_now();
        false
    }

    fn try_begin_sync(&self, file: &File) -> io::Result<bool> {
        let mut syncing = self.syncing.lock().unwrap();
        let free = syncing.is_none();
        if free {
            *syncing = Some(file.as_raw_fd());
        }
        Ok(free)
    }

    fn end_sync(&self, file: &File) {
        let ended = self.syncing.lock().unwrap().take();
        assert_eq!(ended, Some(file.as_raw_fd()), "did not sync");
    }

    fn wake(&self, _: &AtomicU32, _: u32) {
        switch();
    }

    fn file_system(&self, _: &File) -> io::Result<u64> {
        // Where many words are stored through a mapping.
        Ok(TMPFS_MAGIC)
    }

    fn boot_id(&self) -> [u8; 16] {
        [self.boot; 16]
    }

    fn now(&self) -> u64 {
        self.random().unwrap_or(0)
    }

    fn uptime(&self) -> u64 {
        // Turns last for two or three transactions.
        self.now() * 700_000
    }

    fn random(&self) -> io::Result<u64> {
        Ok(self.counter.fetch_add(1, Ordering::Relaxed))
    }
}

/// Another thread may go on here. (`yield_now` would say that this one has
/// nothing to do, and make it the last to be chosen.)
fn switch() {
    shuttle::sync::atomic::AtomicBool::new(false).load(Ordering::SeqCst);
}

fn open(path: &Path, system: &Arc<Interrupted>) -> Arc<Store> {
    let options = OpenOptions {
        create: true,
        system: system.clone(),
        reserve: 1 << 24,
        ..OpenOptions::default()
    };
    Arc::new(Store::open(path, &options).unwrap())
}

/// One transaction: a counter goes up, and so many records are inserted and
/// pushed onto a vector.
fn step(system: &Interrupted, store: &Store, writer: u64, step: u64, records: u64) {
    let durability = match step % 2 {
        0 => Durability::Lazy,
        _ => Durability::Durable,
    };
    let mut transaction = store.begin(durability).unwrap();
    if writer.is_multiple_of(2) {
        transaction.pack();
    }
    let old = transaction.get(COUNTERS, &key(0)).unwrap();
    let count = old.map_or(0, |record| {
        u64::from_le_bytes(record.value.try_into().unwrap())
    });
    assert_eq!(count, transaction.base().revision(), "lost an update");
    let new = (count + 1).to_le_bytes();
    transaction.replace(COUNTERS, &key(0), &new).unwrap();
    for record in 0..records {
        let number = writer << 32 | step << 16 | record;
        let address = transaction.insert(INDEX, &key(number), &new).unwrap();
        transaction.push(VECTOR, address).unwrap();
    }
    let revision = transaction.commit().unwrap();
    assert_eq!(revision, count + 1);
    if durability == Durability::Durable {
        let end = store.snapshot_at(revision).unwrap().size();
        let synced = system.synced.load(Ordering::SeqCst);
        assert!(
            end <= synced,
            "{revision} reaches to {end}, synced to {synced}"
        );
    }
}

/// That what a snapshot shows is one revision, whole; the number of it.
fn look(store: &Store, records: u64) -> u64 {
    let snapshot = store.snapshot().unwrap();
    let revision = snapshot.revision();
    assert_eq!(snapshot.count(INDEX), revision * records);
    assert_eq!(snapshot.vector_len(VECTOR), revision * records);
    let counter = snapshot.get(COUNTERS, &key(0)).unwrap();
    let count = counter.map_or(0, |record| {
        u64::from_le_bytes(record.value.try_into().unwrap())
    });
    assert_eq!(count, revision);
    for element in (0..revision * records).rev().take(records.min(2) as usize) {
        let address = snapshot
            .vector_get(VECTOR, element as u32)
            .unwrap()
            .unwrap();
        let record = snapshot.record_at(address).unwrap();
        assert_eq!(record.value, revision.to_le_bytes());
        assert_eq!(snapshot.get(INDEX, &record.key()).unwrap(), Some(record));
    }
    assert_eq!(snapshot.get(INDEX, &key(u64::MAX)).unwrap(), None);
    revision
}

/// Writers and readers, some on a store that they share, some on one of their own.
fn everybody(path: &Path, records: u64) {
    const LAST: u64 = 6;
    let _ = std::fs::remove_file(path);
    let system = Interrupted::new(1);
    let shared = open(path, &system);
    let other = open(path, &system);
    let writers = [shared.clone(), shared.clone(), other.clone()];
    let mut threads = Vec::new();
    for (store, writer) in writers.into_iter().zip(1..) {
        let system = system.clone();
        threads.push(thread::spawn(move || {
            (0..2).for_each(|number| step(&system, &store, writer, number, records));
        }));
    }
    for store in [shared.clone(), other] {
        threads.push(thread::spawn(move || {
            let mut last = 0;
            while last < LAST {
                let revision = look(&store, records);
                assert!(revision >= last, "went back");
                last = revision;
                thread::yield_now();
            }
        }));
    }
    // While they write.
    shared.verify().unwrap();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(look(&shared, records), LAST);
    shared.verify().unwrap();
}

/// Two who open a repository that another session left, and write.
fn after_a_restart(path: &Path, good: &[u8]) {
    std::fs::write(path, good).unwrap();
    let system = Interrupted::new(2);
    let threads = [1, 2].map(|writer| {
        let (path, system) = (path.to_owned(), system.clone());
        thread::spawn(move || {
            let store = open(&path, &system);
            assert!(look(&store, 1) >= 2);
            step(&system, &store, writer, 7, 1);
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
    let store = open(path, &system);
    assert_eq!(look(&store, 1), 4);
    store.verify().unwrap();
}

fn scratch() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let path = directory.path().join("interleaved.repo");
    (directory, path)
}

fn effort_of_each() -> usize {
    effort("STORE_INTERLEAVINGS", 1000) as usize
}

/// Few records: words of tables are written with system calls.
#[test]
fn writers_and_readers() {
    let (_directory, path) = scratch();
    let at = path.clone();
    shuttle::check_random(move || everybody(&at, 2), effort_of_each());
    shuttle::check_pct(move || everybody(&path, 2), effort_of_each(), 3);
}

/// Many: tables grow, and words are stored through a mapping.
#[test]
fn writers_of_many_records_and_readers() {
    let (_directory, path) = scratch();
    let at = path.clone();
    shuttle::check_random(move || everybody(&at, 150), effort_of_each() / 10);
    shuttle::check_pct(move || everybody(&path, 150), effort_of_each() / 10, 3);
}

#[test]
fn recovery_happens_once() {
    let (_directory, path) = scratch();
    let (source, sink) = std::sync::mpsc::channel();
    let at = path.clone();
    let make = move || {
        let system = Interrupted::new(1);
        let store = open(&at, &system);
        (0..2).for_each(|number| step(&system, &store, 9, number, 1));
        source.send(std::fs::read(&at).unwrap()).unwrap();
    };
    shuttle::check_random(make, 1);
    let good = sink.recv().unwrap();
    let (at, image) = (path.clone(), good.clone());
    shuttle::check_random(move || after_a_restart(&at, &image), effort_of_each());
    shuttle::check_pct(move || after_a_restart(&path, &good), effort_of_each(), 3);
}
