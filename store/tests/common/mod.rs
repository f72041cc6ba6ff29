//! What the engine's tests share: an operating system that can be told what to
//! do, and a small deterministic workload.

#![allow(dead_code, reason = "each test binary uses a part of this")]

use disk::Disk;
use format_spec::digest::Digest;
use format_spec::file::{IndexSlot, VectorSlot};
use format_spec::ids::Address;
use memmap2::MmapRaw;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use store::engine::{Durability, Linux, OpenOptions, Snapshot, Store, System, Transaction};

pub mod disk;

/// Something that the engine did to the file, or the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Written, or stored through a mapping.
    Write {
        offset: u64,
        bytes: Vec<u8>,
    },
    /// A sync of these bytes and no others.
    SyncRange(Range<u64>),
    Sync,
    /// A sync of these bytes while the disk refused some of them. The kernel takes what it
    /// has tried to write for written, whatever has become of it; the seed says what has.
    FailedSync {
        range: Range<u64>,
        seed: u64,
    },
    /// The kernel wrote something of its own accord.
    WriteBack {
        fails: bool,
        seed: u64,
    },
}

impl Op {
    /// The bytes that it writes, and where they belong.
    pub fn written(&self) -> (u64, &[u8]) {
        match self {
            Op::Write { offset, bytes } => (*offset, bytes),
            _ => (0, &[]),
        }
    }

    pub fn is_sync(&self) -> bool {
        matches!(self, Op::SyncRange(_) | Op::Sync | Op::FailedSync { .. })
    }
}

/// What is to become of an operation.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    Done,
    /// Only so many bytes are written, and then there is this error (errno).
    Failed(usize, i32),
    /// Only so many bytes are written, and then the process is killed.
    Killed(usize),
    /// A sync fails, and before the process can learn of it, it is killed. (It is this process that
    /// plays its part: so it is a panic.)
    FailedAndKilled,
}

/// How words come into the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// By system calls.
    Written,
    /// By stores through a mapping.
    Stored,
}

/// A file system where words are written, and one where they are stored.
pub const XFS: u64 = 0x5846_5342;
pub const EXT4: u64 = 0xef53;

/// What Linux keeps of the writes that have failed (`errseq_t`): each open file description is told once of
/// those since it was opened; one that is opened later, only if nobody was.
#[derive(Default)]
struct FailedWrites {
    newest: u64,
    was_told: bool,
    /// The newest one that each has been told of, by descriptor.
    told: HashMap<RawFd, u64>,
}

impl FailedWrites {
    fn opened(&mut self, file: &File) {
        let known = if self.was_told { self.newest } else { 0 };
        self.told.insert(file.as_raw_fd(), known);
    }

    fn add(&mut self) {
        self.newest += 1;
        self.was_told = false;
    }

    /// Whether this one must be told now.
    fn tell(&mut self, file: &File) -> bool {
        let newest = self.newest;
        let told = self.told.entry(file.as_raw_fd()).or_insert(newest);
        let is_new = *told != newest;
        if is_new {
            *told = newest;
            self.was_told = true;
        }
        is_new
    }
}

/// A system with a given boot id, time and random numbers, which records what
/// is done and asks a hook what to make of it.
pub struct TestSystem {
    pub boot: u8,
    pub words: Words,
    identity: (u64, u64),
    pub recorded: Mutex<Vec<Op>>,
    /// The disk after so many operations; see [`TestSystem::disk`].
    disk: Mutex<(usize, Disk)>,
    failed_writes: Mutex<FailedWrites>,
    counter: AtomicU64,
    hook: Box<Hook>,
}

type Hook = dyn Fn(usize, &Op) -> Fate + Send + Sync;

impl TestSystem {
    pub fn new(boot: u8) -> Arc<TestSystem> {
        TestSystem::with_hook(boot, Words::Written, |_, _| Fate::Done)
    }

    /// One in which words are stored through a mapping.
    pub fn storing(boot: u8) -> Arc<TestSystem> {
        TestSystem::with_hook(boot, Words::Stored, |_, _| Fate::Done)
    }

    /// The hook is given the number of the operation (from 0) and the operation.
    pub fn with_hook(
        boot: u8,
        words: Words,
        hook: impl Fn(usize, &Op) -> Fate + Send + Sync + 'static,
    ) -> Arc<TestSystem> {
        Arc::new(TestSystem::of(boot, words, (2, 1), Box::new(hook)))
    }

    /// One in which the file is another one than in the others: a copy.
    pub fn with_identity(boot: u8, words: Words, identity: (u64, u64)) -> Arc<TestSystem> {
        let hook = Box::new(|_: usize, _: &Op| Fate::Done);
        Arc::new(TestSystem::of(boot, words, identity, hook))
    }

    fn of(boot: u8, words: Words, identity: (u64, u64), hook: Box<Hook>) -> TestSystem {
        TestSystem {
            boot,
            words,
            identity,
            recorded: Mutex::default(),
            disk: Mutex::default(),
            failed_writes: Mutex::default(),
            counter: AtomicU64::new(u64::from(boot) << 32),
            hook,
        }
    }

    pub fn ops(&self) -> usize {
        self.recorded.lock().unwrap().len()
    }

    /// Says what is on the disk at the beginning: before the first operation.
    pub fn begin_with(&self, disk: Disk) {
        *self.disk.lock().unwrap() = (0, disk);
    }

    /// What is on the disk, and what may be.
    pub fn disk(&self) -> Disk {
        self.with_disk(Disk::clone)
    }

    fn with_disk<T>(&self, look: impl FnOnce(&Disk) -> T) -> T {
        let mut disk = self.disk.lock().unwrap();
        let (done, disk) = &mut *disk;
        let recorded = self.recorded.lock().unwrap();
        recorded[*done..].iter().for_each(|op| disk.perform(op));
        *done = recorded.len();
        look(disk)
    }

    /// The kernel writes some of what is to be written, or fails to.
    pub fn write_back(&self, fails: bool) {
        let mut recorded = self.recorded.lock().unwrap();
        let seed = recorded.len() as u64;
        recorded.push(Op::WriteBack { fails, seed });
        if fails {
            self.failed_writes.lock().unwrap().add();
        }
    }

    /// The kernel has thrown the file out of memory: nobody knows of failed writes any more.
    pub fn forget_failed_writes(&self) {
        *self.failed_writes.lock().unwrap() = FailedWrites::default();
    }

    fn record(&self, op: &Op) -> Fate {
        let number = {
            let mut recorded = self.recorded.lock().unwrap();
            recorded.push(op.clone());
            recorded.len() - 1
        };
        (self.hook)(number, op)
    }

    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let op = Op::Write {
            offset,
            bytes: bytes.to_vec(),
        };
        let fate = self.record(&op);
        let part = |written: usize| file.write_all_at(&bytes[..written.min(bytes.len())], offset);
        match fate {
            Fate::Done => part(bytes.len()),
            Fate::Failed(written, error) => {
                part(written)?;
                Err(io::Error::from_raw_os_error(error))
            }
            Fate::Killed(written) => {
                part(written)?;
                kill_self();
            }
            Fate::FailedAndKilled => panic!("is no sync"),
        }
    }

    fn perform_sync(&self, file: &File, op: Op) -> io::Result<()> {
        let fate = self.record(&op);
        if let Fate::Killed(_) = fate {
            kill_self();
        }
        if matches!(fate, Fate::Failed(..) | Fate::FailedAndKilled) {
            let mut recorded = self.recorded.lock().unwrap();
            let seed = recorded.len() as u64;
            let range = match op {
                Op::SyncRange(range) => range,
                _ => 0..u64::MAX,
            };
            *recorded.last_mut().unwrap() = Op::FailedSync { range, seed };
            self.failed_writes.lock().unwrap().add();
        }
        let is_told = self.failed_writes.lock().unwrap().tell(file);
        match fate {
            Fate::FailedAndKilled => std::panic::resume_unwind(Box::new("killed")),
            Fate::Failed(_, error) => Err(io::Error::from_raw_os_error(error)),
            _ if is_told => Err(io::Error::from_raw_os_error(libc::EIO)),
            _ => Ok(()),
        }
    }
}

/// As if somebody had sent SIGKILL.
pub fn kill_self() -> ! {
    // SAFETY: sends a signal to this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    unreachable!("survived SIGKILL")
}

impl System for TestSystem {
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write(file, bytes, offset)
    }

    fn store(&self, place: &AtomicU64, word: u64, offset: u64) {
        let bytes = word.to_le_bytes().to_vec();
        match self.record(&Op::Write { offset, bytes }) {
            Fate::Done => place.store(word, Ordering::Release),
            // A word is stored in one piece.
            Fate::Killed(written) => {
                if written >= 8 {
                    place.store(word, Ordering::Release);
                }
                kill_self();
            }
            other => panic!("a store cannot end so: {other:?}"),
        }
    }

    fn map(&self, file: &File, length: usize) -> io::Result<MmapRaw> {
        // The first that a store does with what it has opened.
        self.failed_writes.lock().unwrap().opened(file);
        Linux.map(file, length)
    }

    fn sync_range(&self, file: &File, _: &MmapRaw, range: Range<u64>) -> io::Result<()> {
        self.perform_sync(file, Op::SyncRange(range))
    }

    fn file_system(&self, _: &File) -> io::Result<u64> {
        Ok(match self.words {
            Words::Written => XFS,
            Words::Stored => EXT4,
        })
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.perform_sync(file, Op::Sync)
    }

    fn read_from_disk(&self, _: &File, range: Range<u64>) -> io::Result<Vec<u8>> {
        Ok(self.with_disk(|disk| disk.read(range)))
    }

    fn boot_id(&self) -> [u8; 16] {
        [self.boot; 16]
    }

    fn identity(&self, _: &File) -> io::Result<(u64, u64)> {
        Ok(self.identity)
    }

    fn now(&self) -> u64 {
        1_000_000_000 + self.counter.fetch_add(1, Ordering::Relaxed)
    }

    fn random(&self) -> io::Result<u64> {
        Ok(mix(self.counter.fetch_add(1, Ordering::Relaxed)))
    }
}

pub fn options(system: Arc<TestSystem>) -> OpenOptions {
    OpenOptions {
        create: true,
        system,
        ..OpenOptions::default()
    }
}

/// A small generator of pseudo-random numbers (splitmix64).
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

pub fn key(number: u64) -> Digest {
    Digest::of(&number.to_le_bytes())
}

/// Index whose records are inserted, and that whose records are replaced.
pub const PLAIN: IndexSlot = IndexSlot::of::<2>();
pub const REPLACED: IndexSlot = IndexSlot::of::<5>();
pub const VECTOR: VectorSlot = VectorSlot::of::<1>();

/// What the repository should hold after each revision of [`workload`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    pub plain: HashMap<u64, Vec<u8>>,
    pub replaced: HashMap<u64, Vec<u8>>,
    pub vector: Vec<Address>,
}

impl Expected {
    /// Adds what transaction number `number` of the workload adds.
    pub fn add(
        &mut self,
        transaction: &mut Transaction<'_>,
        number: u64,
    ) -> store::engine::Result<()> {
        let mut random = Random(number);
        // Mostly few records; now and then enough to make tables grow.
        let records = match random.below(8) {
            0 => 1,
            7 => 60,
            other => other * 3,
        };
        for _ in 0..records {
            let length = random.below(70) as usize;
            let value = random.next().to_le_bytes().repeat(9)[..length].to_vec();
            let number = random.below(2000);
            let address = transaction.insert(PLAIN, &key(number), &value)?;
            self.plain.entry(number).or_insert(value);
            if random.below(3) == 0 {
                transaction.push(VECTOR, address)?;
                self.vector.push(address);
            }
        }
        let value = number.to_le_bytes().to_vec();
        let number = random.below(4);
        transaction.replace(REPLACED, &key(number), &value)?;
        self.replaced.insert(number, value);
        Ok(())
    }

    /// Panics unless the snapshot holds just this.
    pub fn check(&self, snapshot: Snapshot<'_>) {
        for (index, expected) in [(PLAIN, &self.plain), (REPLACED, &self.replaced)] {
            assert_eq!(snapshot.count(index), expected.len() as u64);
            assert_eq!(snapshot.iter(index).count(), expected.len());
            for (&number, value) in expected {
                let found = snapshot.get(index, &key(number)).unwrap();
                let found = found.unwrap_or_else(|| panic!("record {number} is lost"));
                assert_eq!(found.value, value);
            }
        }
        assert_eq!(snapshot.vector_len(VECTOR), self.vector.len() as u64);
        for (element, &expected) in (0..).zip(&self.vector) {
            let found = snapshot.vector_get(VECTOR, element).unwrap();
            assert_eq!(found, Some(expected));
        }
    }
}

/// Runs transaction number `number` on `store`, on top of `expected`, which is
/// what it holds.
pub fn run_transaction(
    store: &Store,
    expected: &Expected,
    number: u64,
    durability: Durability,
) -> store::engine::Result<Expected> {
    let mut expected = expected.clone();
    let mut transaction = store.begin(durability)?;
    expected.add(&mut transaction, number)?;
    transaction.commit()?;
    Ok(expected)
}

/// Runs the calling test binary's test `name` in a process of its own.
pub fn spawn(name: &str, environment: &[(&str, String)]) -> std::process::Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::inherit())
        .spawn()
        .unwrap()
}

/// The number in an environment variable, for running a test at length by hand.
pub fn effort(variable: &str, default: u64) -> u64 {
    std::env::var(variable)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}
