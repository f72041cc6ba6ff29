//! Simulated power cuts.
//!
//! Every write and sync of a run is recorded. A power cut leaves on the disk,
//! for each 512-byte sector by itself, what the sector was at some moment
//! between the last sync that covered it and the cut: so unsynced writes are
//! dropped, torn and reordered in every combination. What is left is opened
//! under another boot id. It must be some revision not older than the last
//! durable commit that had returned, whole, and fit to be written to.
//!
//! `STORE_POWER_CUTS=100000` makes it so many states; the default keeps CI short.

mod common;

use common::{Expected, Op, Random, TestSystem, effort, options, run_transaction};
use format_spec::file::IndexSlot;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use store::engine::{Durability, Store};

const SECTOR: u64 = 512;

/// How what was not synced fares.
#[derive(Clone, Copy)]
enum Weather {
    AllLost,
    AllKept,
    /// Each sector at any of its moments.
    Random,
    /// One in so many sectors at a random moment, the others at the last.
    MostlyKept(u64),
    /// One in so many sectors at a random moment, the others at the first.
    MostlyLost(u64),
}

/// The disk while it is being written to: what is certainly there, and what
/// the sectors written since may be.
struct Disk {
    safe: Vec<u8>,
    /// By sector: its contents after each write that was not synced.
    unsafe_sectors: BTreeMap<u64, Vec<Vec<u8>>>,
    /// Length of the file as seen by the running system.
    length: u64,
}

impl Disk {
    fn new(image: Vec<u8>) -> Disk {
        Disk {
            length: image.len() as u64,
            safe: image,
            unsafe_sectors: BTreeMap::new(),
        }
    }

    fn safe_sector(&self, sector: u64) -> Vec<u8> {
        let start = (sector * SECTOR) as usize;
        let end = (start + SECTOR as usize).min(self.safe.len());
        let mut bytes = self.safe.get(start..end).unwrap_or_default().to_vec();
        bytes.resize(SECTOR as usize, 0);
        bytes
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        self.length = self.length.max(end);
        for sector in offset / SECTOR..end.div_ceil(SECTOR) {
            let mut contents = match self.unsafe_sectors.get(&sector).and_then(|v| v.last()) {
                Some(last) => last.clone(),
                None => self.safe_sector(sector),
            };
            let start = sector * SECTOR;
            let (from, to) = (offset.max(start), end.min(start + SECTOR));
            contents[(from - start) as usize..(to - start) as usize]
                .copy_from_slice(&bytes[(from - offset) as usize..(to - offset) as usize]);
            self.unsafe_sectors
                .entry(sector)
                .or_default()
                .push(contents);
        }
    }

    fn make_safe(&mut self, sector: u64, contents: &[u8]) {
        let start = (sector * SECTOR) as usize;
        let end = (start + SECTOR as usize).min(self.length as usize);
        if self.safe.len() < end {
            self.safe.resize(end, 0);
        }
        self.safe[start..end].copy_from_slice(&contents[..end - start]);
    }

    fn sync(&mut self, sectors: std::ops::Range<u64>) {
        let chosen: Vec<u64> = self
            .unsafe_sectors
            .range(sectors)
            .map(|(&s, _)| s)
            .collect();
        for sector in chosen {
            let versions = self.unsafe_sectors.remove(&sector).unwrap();
            self.make_safe(sector, versions.last().unwrap());
        }
    }

    fn perform(&mut self, op: &Op) {
        match op {
            Op::Write { offset, bytes } => self.write(*offset, bytes),
            Op::SyncRange(range) => self.sync(range.start / SECTOR..range.end.div_ceil(SECTOR)),
            Op::Sync => self.sync(0..u64::MAX),
        }
    }

    fn cut(&self, weather: Weather, random: &mut Random) -> Vec<u8> {
        let mut after = Disk::new(self.safe.clone());
        after.length = self.length;
        for (&sector, versions) in &self.unsafe_sectors {
            let any = random.below(versions.len() as u64 + 1);
            let all = versions.len() as u64;
            let moment = match weather {
                Weather::AllLost => 0,
                Weather::AllKept => all,
                Weather::Random => any,
                Weather::MostlyKept(few) => {
                    if random.below(few) == 0 {
                        any
                    } else {
                        all
                    }
                }
                Weather::MostlyLost(few) => {
                    if random.below(few) == 0 {
                        any
                    } else {
                        0
                    }
                }
            };
            if let Some(version) = moment.checked_sub(1) {
                after.make_safe(sector, &versions[version as usize]);
            }
        }
        after.safe
    }
}

/// A run of transactions: what was done to the file, and what was promised.
struct Run {
    ops: Vec<Op>,
    image: Vec<u8>,
    /// After how many operations which revision was committed, and whether durably.
    commits: Vec<(usize, u64, bool)>,
    /// What each revision holds.
    history: Vec<Expected>,
    /// The revision that was there at the beginning.
    first: u64,
}

impl Run {
    /// Runs some transactions on a repository that is `image` and holds `history`.
    fn new(path: &Path, image: Vec<u8>, mut history: Vec<Expected>, boot: u8, seed: u64) -> Run {
        std::fs::write(path, &image).unwrap();
        let system = TestSystem::new(boot);
        let mut random = Random(seed);
        let mut options = options(system.clone());
        // So that it happens here too, now and then.
        options.checkpoint_every = [6000, 30_000, u64::MAX][random.below(3) as usize];
        let store = Store::open(path, &options).unwrap();
        let first = store.snapshot().unwrap().revision();
        history.truncate(first as usize + 1);
        history[first as usize].check(store.snapshot().unwrap());
        // Opening under a new boot id made what was found durable.
        let mut commits = vec![(system.ops(), first, true)];
        for _ in 0..2 + random.below(14) {
            let durable = random.below(4) == 0;
            let durability = if durable {
                Durability::Durable
            } else {
                Durability::Lazy
            };
            let last = history.last().unwrap();
            history.push(run_transaction(&store, last, random.next(), durability).unwrap());
            let revision = store.snapshot().unwrap().revision();
            assert_eq!(revision as usize, history.len() - 1);
            commits.push((system.ops(), revision, durable));
            if random.below(10) == 0 {
                store.sync().unwrap();
                commits.push((system.ops(), revision, true));
            }
        }
        let ops = std::mem::take(&mut *system.recorded.lock().unwrap());
        Run {
            ops,
            image,
            commits,
            history,
            first,
        }
    }

    /// What the disk may hold if the power goes after `ops` operations, and the
    /// revisions that it may then be.
    fn cut(
        &self,
        ops: usize,
        weather: Weather,
        random: &mut Random,
    ) -> (Vec<u8>, std::ops::RangeInclusive<u64>) {
        let mut disk = Disk::new(self.image.clone());
        for op in &self.ops[..ops] {
            disk.perform(op);
        }
        let promised = (self.commits.iter())
            .filter(|commit| commit.2 && commit.0 <= ops)
            .map(|commit| commit.1)
            .max();
        // The next one may have been on its way.
        let newest = (self.commits.iter())
            .find(|commit| commit.0 >= ops)
            .map_or(self.history.len() as u64 - 1, |commit| commit.1);
        (
            disk.cut(weather, random),
            promised.unwrap_or(self.first)..=newest,
        )
    }
}

fn check(
    path: &Path,
    image: &[u8],
    allowed: std::ops::RangeInclusive<u64>,
    history: &[Expected],
    what: &str,
) {
    std::fs::write(path, image).unwrap();
    let store = Store::open(path, &options(TestSystem::new(200))).unwrap();
    let snapshot = store.snapshot().unwrap();
    let revision = snapshot.revision();
    assert!(
        allowed.contains(&revision),
        "{what}: revision {revision}, promised {allowed:?}"
    );
    let expected = &history[revision as usize];
    expected.check(snapshot);
    store.verify().unwrap();
    // An earlier revision, and one more.
    let earlier = revision / 2;
    history[earlier as usize].check(store.snapshot_at(earlier).unwrap());
    let next = run_transaction(&store, expected, revision + 77, Durability::Lazy).unwrap();
    next.check(store.snapshot().unwrap());
    store.verify().unwrap();
}

fn scratch() -> (tempfile::TempDir, PathBuf) {
    // In memory if possible: what the disk does is simulated.
    let directory = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let path = directory.path().join("cut.repo");
    (directory, path)
}

#[test]
fn any_power_cut_leaves_a_whole_revision() {
    let states = effort("STORE_POWER_CUTS", 3000);
    let (_directory, path) = scratch();
    let empty = {
        let path = path.with_extension("empty");
        Store::open(&path, &options(TestSystem::new(1))).unwrap();
        std::fs::read(path).unwrap()
    };
    let mut random = Random(effort("STORE_POWER_SEED", 1));
    let mut made = 0;
    while made < states {
        let seed = random.next();
        let mut run = Run::new(&path, empty.clone(), vec![Expected::default()], 1, seed);
        // A first cut, a recovery and more transactions, which the second cut
        // may hit as well.
        for boot in 2..5 {
            for _ in 0..12 {
                let ops = random.below(run.ops.len() as u64 + 1) as usize;
                let weather = weather(&mut random);
                let (image, allowed) = run.cut(ops, weather, &mut random);
                let what = format!("seed {seed}, boot {boot}, {ops} operations");
                check(&path, &image, allowed, &run.history, &what);
                made += 1;
            }
            let ops = random.below(run.ops.len() as u64 + 1) as usize;
            let weather = weather(&mut random);
            let (image, _) = run.cut(ops, weather, &mut random);
            run = Run::new(&path, image, run.history, boot, random.next());
        }
    }
}

fn weather(random: &mut Random) -> Weather {
    match random.below(8) {
        0 => Weather::AllLost,
        1 => Weather::AllKept,
        2 | 3 => Weather::Random,
        4 | 5 => Weather::MostlyKept(1 + random.below(20)),
        _ => Weather::MostlyLost(1 + random.below(20)),
    }
}

/// However many lazy commits there were: what recovery has to read, and what a
/// power cut may take away, is bounded.
#[test]
fn lazy_commits_move_the_checkpoint() {
    const EVERY: u64 = 24 << 10;
    let (_directory, path) = scratch();
    let system = TestSystem::new(1);
    let mut options = options(system.clone());
    options.checkpoint_every = EVERY;
    let store = Store::open(&path, &options).unwrap();
    let first = std::fs::read(&path).unwrap();
    let mut expected = Expected::default();
    let mut history = vec![expected.clone()];
    let mut largest = 0;
    for number in 0..150 {
        let before = store.size().unwrap();
        expected = run_transaction(&store, &expected, number, Durability::Lazy).unwrap();
        history.push(expected.clone());
        largest = largest.max(store.size().unwrap() - before);
    }
    let end = store.size().unwrap();
    assert!(end > 6 * EVERY, "too little to see anything: {end}");
    drop(store);
    // The power goes, and nothing that was not waited for is on the disk.
    let mut disk = Disk::new(first);
    for op in system.recorded.lock().unwrap().iter() {
        disk.perform(op);
    }
    let image = disk.cut(Weather::AllLost, &mut Random(1));
    // How far back recovery starts: the word is on the disk with the next sync.
    let checkpoint = u64::from_le_bytes(image[528..536].try_into().unwrap()) & ((1 << 48) - 1);
    let distance = end - checkpoint;
    assert!(
        distance > 0 && distance < 2 * EVERY + 3 * largest,
        "{distance}"
    );
    std::fs::write(&path, &image).unwrap();
    let store = Store::open(&path, &common::options(TestSystem::new(2))).unwrap();
    let snapshot = store.snapshot().unwrap();
    history[snapshot.revision() as usize].check(snapshot);
    assert!(snapshot.size() + EVERY + largest > end);
    store.verify().unwrap();
}

/// A repository that a dead system left, for someone who may only read it.
#[test]
fn a_reader_refuses_what_needs_recovery() {
    let (_directory, path) = scratch();
    let system = TestSystem::new(1);
    let store = Store::open(&path, &options(system.clone())).unwrap();
    let first = run_transaction(&store, &Expected::default(), 1, Durability::Lazy).unwrap();
    let second = run_transaction(&store, &first, 2, Durability::Lazy).unwrap();
    drop(store);
    let mut reader = options(TestSystem::new(2));
    reader.read_only = true;

    // Whole: can be read as it is.
    let store = Store::open(&path, &reader).unwrap();
    second.check(store.snapshot().unwrap());
    drop(store);

    // The last byte of the newest transaction is lost.
    let mut image = std::fs::read(&path).unwrap();
    *image.last_mut().unwrap() ^= 1;
    std::fs::write(&path, &image).unwrap();
    let error = Store::open(&path, &reader).unwrap_err().to_string();
    assert!(error.contains("open it once for writing"), "{error}");
    let writer = Store::open(&path, &options(TestSystem::new(2))).unwrap();
    first.check(writer.snapshot().unwrap());
    first.check(Store::open(&path, &reader).unwrap().snapshot().unwrap());
}

/// After a rollback, a transaction of the same length may be written before
/// the remains of a later one: those must not come back to life.
#[test]
fn what_was_rolled_back_stays_so() {
    let (_directory, path) = scratch();
    let commit = |store: &Store, value: &[u8; 8]| {
        let mut transaction = store.begin(Durability::Lazy).unwrap();
        let digest = common::key(u64::from(value[0]));
        transaction
            .insert(IndexSlot::of::<0>(), &digest, value)
            .unwrap();
        transaction.commit().unwrap();
    };
    let store = Store::open(&path, &options(TestSystem::new(1))).unwrap();
    commit(&store, b"11111111");
    let damaged_at = store.size().unwrap();
    commit(&store, b"22222222");
    commit(&store, b"33333333");
    let end = store.size().unwrap();
    drop(store);

    let mut image = std::fs::read(&path).unwrap();
    image[damaged_at as usize] ^= 0xff;
    std::fs::write(&path, &image).unwrap();
    let store = Store::open(&path, &options(TestSystem::new(2))).unwrap();
    assert_eq!(store.snapshot().unwrap().revision(), 1);
    commit(&store, b"44444444");
    drop(store);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), end);

    let store = Store::open(&path, &options(TestSystem::new(3))).unwrap();
    assert_eq!(store.snapshot().unwrap().revision(), 2);
    let found = store
        .snapshot()
        .unwrap()
        .get(IndexSlot::of::<0>(), &common::key(u64::from(b'4')))
        .unwrap();
    assert_eq!(found.unwrap().value, b"44444444");
    store.verify().unwrap();
}
