//! Does a store become slower, or stall, as it grows? One store is filled up to each number of
//! records in turn; there, small commits, durable ones and lookups are measured, the longest of each as well.
//!
//! What a commit spends "in the lock" is seen from the operating system's side: from the moment
//! that it has the file's lock until it gives it back. Values are of 24 bytes: so it is the index that is measured.

use crate::parts::{remove, settle};
use crate::workload::Random;
use format_spec::digest::Digest;
use format_spec::file::IndexSlot;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use store::engine::{Durability, Linux, OpenOptions, Store, System};

const INDEX: IndexSlot = IndexSlot::of::<0>();
const VALUE: [u8; 24] = [7; 24];
/// Small commits at each number of records, and durable ones.
const SMALL_COMMITS: u64 = 4000;
const DURABLE_COMMITS: u64 = 200;
const LOOKUPS: u64 = 1_000_000;

/// Linux, and how long the file's lock was held.
struct Timed {
    start: Instant,
    locked: AtomicU64,
    longest: AtomicU64,
}

impl Timed {
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// The longest time since the last call, in milliseconds.
    fn take_longest(&self) -> f64 {
        self.longest.swap(0, Ordering::Relaxed) as f64 / 1e6
    }
}

impl System for Timed {
    fn lock(&self, file: &File) -> io::Result<()> {
        Linux.lock(file)?;
        self.locked.store(self.now(), Ordering::Relaxed);
        Ok(())
    }

    fn try_lock(&self, file: &File) -> io::Result<bool> {
        let locked = Linux.try_lock(file)?;
        if locked {
            self.locked.store(self.now(), Ordering::Relaxed);
        }
        Ok(locked)
    }

    fn unlock(&self, file: &File) {
        let held = self.now() - self.locked.load(Ordering::Relaxed);
        self.longest.fetch_max(held, Ordering::Relaxed);
        Linux.unlock(file);
    }
}

fn key(number: u64) -> Digest {
    Digest::of(&number.to_le_bytes())
}

fn commit(store: &Store, numbers: std::ops::Range<u64>, durability: Durability) {
    let keys: Vec<Digest> = numbers.map(key).collect();
    let mut transaction = store.begin(durability).expect("begun");
    for key in &keys {
        transaction.insert(INDEX, key, &VALUE).expect("inserted");
    }
    transaction.commit().expect("committed");
}

/// Bytes that this process has had written to disks (those of the kernel's threads for it, too).
fn written() -> Option<u64> {
    let io = std::fs::read_to_string("/proc/self/io").ok()?;
    let line = io
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "))?;
    line.parse().ok()
}

/// Million lookups a second, of processor time, the best of four.
fn lookups(store: &Store, keys: &[Digest], found: bool) -> f64 {
    let snapshot = store.snapshot().expect("a snapshot");
    let mut best = 0f64;
    for _ in 0..4 {
        let start = crate::parts::thread_seconds();
        let count = keys
            .iter()
            .filter(|key| snapshot.get(INDEX, key).expect("sound").is_some());
        assert_eq!(count.count(), if found { keys.len() } else { 0 });
        best = best.max(keys.len() as f64 / (crate::parts::thread_seconds() - start) / 1e6);
    }
    best
}

/// The longest of as many appends and fdatasyncs of as many bytes as the durable commits have, in milliseconds.
fn floor(directory: &Path) -> f64 {
    let path = directory.join("floor");
    let mut file = File::create(&path).expect("file");
    let bytes = vec![7; 1000 * (32 + VALUE.len())];
    let mut longest = 0f64;
    for _ in 0..DURABLE_COMMITS {
        let start = Instant::now();
        file.write_all(&bytes).expect("room");
        file.sync_data().expect("sync");
        longest = longest.max(start.elapsed().as_secs_f64() * 1e3);
    }
    remove(&path);
    longest
}

/// Fills a store up to each of these numbers of records, and prints a line for each.
pub fn growth(directory: &Path, millions: &[u64]) {
    let path = directory.join("growth");
    let system = Arc::new(Timed {
        start: Instant::now(),
        locked: AtomicU64::new(0),
        longest: AtomicU64::new(0),
    });
    let options = OpenOptions {
        create: true,
        system: system.clone(),
        ..OpenOptions::default()
    };
    let store = Store::open(&path, &options).expect("opened");
    println!(
        "\nrecords  20 a commit:           longest in  bytes to the disk    1000 a durable commit:  floor's   hit   miss\n\
         (M)      median us  index bytes  lock, ms    for each of the log  longest, ms           longest   M/s   M/s"
    );
    let mut next = 0u64;
    for &million in millions {
        while next < million * 1_000_000 {
            let end = (next + 100_000).min(million * 1_000_000);
            commit(&store, next..end, Durability::Lazy);
            next = end;
        }
        store.sync().expect("synced");
        settle();
        system.take_longest();
        let (size, disk) = (store.size().expect("size"), written());
        let mut times = Vec::new();
        for _ in 0..SMALL_COMMITS {
            let start = Instant::now();
            commit(&store, next..next + 20, Durability::Lazy);
            times.push(start.elapsed().as_secs_f64() * 1e6);
            next += 20;
        }
        let longest = system.take_longest();
        store.sync().expect("synced");
        let grown = store.size().expect("size") - size;
        let amplification = match (written(), disk) {
            (Some(after), Some(before)) => (after - before) as f64 / grown as f64,
            _ => f64::NAN,
        };
        times.sort_by(f64::total_cmp);
        // Head, key, value and check of a record, at a multiple of 8.
        let record = (8 + 32 + VALUE.len() as u64 + 4).next_multiple_of(8);
        let index = (grown / SMALL_COMMITS).saturating_sub(20 * record);

        let floor = floor(directory);
        let mut longest_durable = 0f64;
        for _ in 0..DURABLE_COMMITS {
            let start = Instant::now();
            commit(&store, next..next + 1000, Durability::Durable);
            longest_durable = longest_durable.max(start.elapsed().as_secs_f64() * 1e3);
            next += 1000;
        }
        let mut random = Random(million);
        let hits: Vec<Digest> = (0..LOOKUPS).map(|_| key(random.below(next))).collect();
        let misses: Vec<Digest> = (0..LOOKUPS)
            .map(|_| key(1 << 60 | random.next() >> 8))
            .collect();
        let (hit, miss) = (
            lookups(&store, &hits, true),
            lookups(&store, &misses, false),
        );
        println!(
            "{million:>7}  {:>9.1}  {index:>11}  {longest:>8.2}    {amplification:>19.1}  {longest_durable:>11.1}           {floor:>7.1}  {hit:>5.2}  {miss:>5.1}",
            times[times.len() / 2],
        );
        next = next.max(million * 1_000_000);
    }
    let total = store.size().expect("size");
    println!(
        "{next} records: {:.1} bytes of the file each, of which 72 are the record",
        total as f64 / next as f64
    );
    drop(store);
    remove(&path);
}
