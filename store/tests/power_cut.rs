//! Simulated power cuts.
//!
//! Every write, every store through a mapping and every sync of a run is recorded. What a power
//! cut may leave of it says `common::disk`. It is opened under another boot id, and must be some
//! revision not older than the last durable commit that had returned, whole, and fit to be
//! written to. Some runs are on a disk on which writes fail now and then: a commit that said
//! so is not counted on, all others are.
//!
//! `STORE_POWER_CUTS=100000` makes it so many states of each sort; the default keeps CI short.

mod common;

use common::disk::{Disk, Weather};
use common::{Expected, Fate, Op, Random, TestSystem, Words, effort, options, run_transaction};
use format_spec::file::IndexSlot;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use store::engine::{Durability, Error, OpenOptions, Store};

/// A run of transactions: what was done to the file, and what was promised.
struct Run {
    ops: Vec<Op>,
    disk: Disk,
    /// After how many operations which revision was committed, and whether durably.
    commits: Vec<(usize, u64, bool)>,
    /// What each revision holds.
    history: Vec<Expected>,
    /// The revision that was there at the beginning.
    first: u64,
}

/// Of what sort a run is.
#[derive(Clone, Copy)]
struct Sort {
    words: Words,
    boot: u8,
    /// Writes to the disk fail now and then.
    fails: bool,
}

impl Run {
    /// Runs some transactions on a repository that is `image` and holds `history`.
    fn new(path: &Path, image: Vec<u8>, history: Vec<Expected>, sort: Sort, seed: u64) -> Run {
        std::fs::write(path, &image).unwrap();
        let mut random = Random(seed);
        let chances = Mutex::new(Random(random.next()));
        let system = TestSystem::with_hook(sort.boot, sort.words, move |_, op| {
            let chance = chances.lock().unwrap().below(6);
            match chance {
                0 | 1 if sort.fails && op.is_sync() => Fate::Failed(0, libc::EIO),
                2 if sort.fails && op.is_sync() => Fate::FailedAndKilled,
                _ => Fate::Done,
            }
        });
        let disk = Disk::new(image, random.below(3) == 0);
        system.begin_with(disk.clone());
        let mut options = options(system.clone());
        // So that it happens here too, now and then.
        options.checkpoint_every = [6000, 30_000, u64::MAX][random.below(3) as usize];
        // Two processes.
        let mut stores = [(); 2].map(|()| opened(path, &options));
        let first = stores[0].snapshot().unwrap().revision();
        let mut run = Run {
            ops: Vec::new(),
            disk,
            // Opening under a new boot id made what was found durable.
            commits: vec![(system.ops(), first, true)],
            history,
            first,
        };
        run.history.truncate(first as usize + 1);
        run.history[first as usize].check(stores[0].snapshot().unwrap());
        for _ in 0..2 + random.below(14) {
            let number = random.below(2) as usize;
            if sort.fails && random.below(3) == 0 {
                system.write_back(random.below(3) == 0);
            }
            if random.below(8) == 0 {
                stores[number] = opened(path, &options);
            }
            let durability = match random.below(if sort.fails { 2 } else { 4 }) {
                0 => Durability::Durable,
                _ => Durability::Lazy,
            };
            let went = run.commit(&system, &stores[number], random.next(), durability);
            if went == Went::Killed {
                stores[number] = opened(path, &options);
            }
            if random.below(10) == 0 {
                let revision = run.history.len() as u64 - 1;
                match surviving(|| stores[number].sync()) {
                    Some(Ok(())) => run.commits.push((system.ops(), revision, true)),
                    Some(Err(error)) => assert!(sort.fails, "{error}"),
                    None => stores[number] = opened(path, &options),
                }
            }
        }
        drop(stores);
        run.ops = std::mem::take(&mut *system.recorded.lock().unwrap());
        run
    }

    /// One more transaction.
    fn commit(
        &mut self,
        system: &Arc<TestSystem>,
        store: &Store,
        number: u64,
        durability: Durability,
    ) -> Went {
        let mut next = self.history.last().unwrap().clone();
        let result = surviving(|| {
            let mut transaction = store.begin(durability)?;
            if number.is_multiple_of(2) {
                transaction.pack();
            }
            next.add(&mut transaction, number)?;
            transaction.commit()
        });
        self.history.push(next);
        let revision = self.history.len() as u64 - 1;
        // Killed or not, it is there.
        assert_eq!(store.snapshot().unwrap().revision(), revision);
        let (went, durable) = match result {
            Some(Ok(_)) => (Went::Well, durability == Durability::Durable),
            Some(Err(Error::NotDurable { revision: of, .. })) => {
                assert_eq!(of, revision);
                (Went::NotDurable, false)
            }
            Some(Err(error)) => panic!("{error}"),
            None => (Went::Killed, false),
        };
        self.commits.push((system.ops(), revision, durable));
        went
    }

    /// What the disk may hold if the power goes after `ops` operations, and the
    /// revisions that it may then be.
    fn cut(
        &self,
        ops: usize,
        weather: Weather,
        random: &mut Random,
    ) -> (Vec<u8>, std::ops::RangeInclusive<u64>) {
        let disk = self.disk.clone().after(&self.ops[..ops]);
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

/// How a commit went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Went {
    Well,
    NotDurable,
    Killed,
}

/// What `process` returns, unless it is killed.
fn surviving<T>(process: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(process))
        .map_err(|killed| {
            if !killed.is::<&str>() || killed.downcast_ref() != Some(&"killed") {
                std::panic::resume_unwind(killed);
            }
        })
        .ok()
}

/// Opens it, sooner or later: if there is something to be made good, the disk has to
/// do its part.
fn opened(path: &Path, options: &OpenOptions) -> Store {
    loop {
        match surviving(|| Store::open(path, options)) {
            Some(Ok(store)) => return store,
            Some(Err(Error::Io { action: "sync", .. })) | None => {}
            Some(Err(error)) => panic!("{error}"),
        }
    }
}

fn check(
    path: &Path,
    image: &[u8],
    allowed: std::ops::RangeInclusive<u64>,
    history: &[Expected],
    words: Words,
    what: &str,
) {
    std::fs::write(path, image).unwrap();
    let system = TestSystem::with_hook(200, words, |_, _| Fate::Done);
    let store = Store::open(path, &options(system)).unwrap();
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

fn any_power_cut_leaves_a_whole_revision(words: Words, fails: bool) {
    let states = effort("STORE_POWER_CUTS", 5000);
    let (_directory, path) = scratch();
    let empty = {
        let path = path.with_extension("empty");
        Store::open(&path, &options(TestSystem::new(1))).unwrap();
        std::fs::read(path).unwrap()
    };
    let mut random = Random(effort("STORE_POWER_SEED", 1));
    let (mut made, mut promised, mut stores) = (0, 0, 0);
    while made < states {
        let seed = random.next();
        let sort = |boot| Sort { words, boot, fails };
        let mut run = Run::new(
            &path,
            empty.clone(),
            vec![Expected::default()],
            sort(1),
            seed,
        );
        // A first cut, a recovery and more transactions, which the second cut
        // may hit as well.
        for boot in 2..5 {
            for _ in 0..12 {
                let ops = random.below(run.ops.len() as u64 + 1) as usize;
                let weather = Weather::any(&mut random);
                let (image, allowed) = run.cut(ops, weather, &mut random);
                promised += u64::from(*allowed.start() > run.first);
                let what = format!("seed {seed}, boot {boot}, {ops} operations, {weather:?}");
                check(&path, &image, allowed, &run.history, words, &what);
                made += 1;
            }
            stores += (run.ops.iter())
                .filter(|op| op.written().1.len() == 8)
                .count();
            let ops = random.below(run.ops.len() as u64 + 1) as usize;
            let (image, _) = run.cut(ops, Weather::any(&mut random), &mut random);
            run = Run::new(&path, image, run.history, sort(boot), random.next());
        }
    }
    // Enough of what this is about.
    assert!(promised > made / 8, "promises: {promised} of {made}");
    assert!(stores as u64 > made / 4, "words: {stores} in {made}");
}

#[test]
fn of_words_that_were_written() {
    any_power_cut_leaves_a_whole_revision(Words::Written, false);
}

#[test]
fn of_words_that_were_stored() {
    any_power_cut_leaves_a_whole_revision(Words::Stored, false);
}

#[test]
fn of_words_that_were_written_while_the_disk_failed() {
    any_power_cut_leaves_a_whole_revision(Words::Written, true);
}

#[test]
fn of_words_that_were_stored_while_the_disk_failed() {
    any_power_cut_leaves_a_whole_revision(Words::Stored, true);
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
    let opened = system.recorded.lock().unwrap().len();
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
    let disk = Disk::new(first, false).after(&system.recorded.lock().unwrap());
    let image = disk.cut(Weather::AllLost, &mut Random(1));
    // How far back recovery starts: the word is on the disk with the next sync.
    let checkpoint = u64::from_le_bytes(image[528..536].try_into().unwrap()) & ((1 << 48) - 1);
    let distance = end - checkpoint;
    assert!(
        distance > 0 && distance < 2 * EVERY + EVERY / 2 + 4 * largest,
        "{distance}"
    );
    // In parts: no commit waits for all that there is.
    let recorded = system.recorded.lock().unwrap();
    let whole = recorded[opened..]
        .iter()
        .filter(|op| matches!(op, Op::Sync));
    assert_eq!(whole.count(), 0, "a commit has synced the whole file");
    drop(recorded);
    std::fs::write(&path, &image).unwrap();
    let store = Store::open(&path, &common::options(TestSystem::new(2))).unwrap();
    let snapshot = store.snapshot().unwrap();
    history[snapshot.revision() as usize].check(snapshot);
    assert!(snapshot.size() + 2 * EVERY + 4 * largest > end);
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

/// Nor does it come back when what it lacked is written anew, as part of another
/// transaction that a second power cut tears.
#[test]
fn what_was_rolled_back_is_not_made_whole() {
    const INDEX: IndexSlot = IndexSlot::of::<0>();
    let (_directory, path) = scratch();
    let commit = |store: &Store, second: u8| {
        let mut transaction = store.begin(Durability::Lazy).unwrap();
        transaction
            .insert(INDEX, &common::key(1), &[7; 900])
            .unwrap();
        let value = [second; 2000];
        transaction.insert(INDEX, &common::key(2), &value).unwrap();
        transaction.commit().unwrap();
    };
    let store = Store::open(&path, &options(TestSystem::new(1))).unwrap();
    let start = store.size().unwrap() as usize;
    commit(&store, b'a');
    drop(store);
    // The middle of the first record is not on the disk when the power goes.
    let lost = start + 100..start + 600;
    let mut image = std::fs::read(&path).unwrap();
    image[lost.clone()].fill(0);
    std::fs::write(&path, &image).unwrap();
    let store = Store::open(&path, &options(TestSystem::new(2))).unwrap();
    assert_eq!(store.snapshot().unwrap().revision(), 0);
    let mut image = std::fs::read(&path).unwrap();
    commit(&store, b'b');
    drop(store);
    // And of this transaction nothing else is.
    let written = std::fs::read(&path).unwrap();
    image[lost.clone()].copy_from_slice(&written[lost]);
    std::fs::write(&path, &image).unwrap();
    let store = Store::open(&path, &options(TestSystem::new(3))).unwrap();
    assert_eq!(store.snapshot().unwrap().revision(), 0);
    commit(&store, b'c');
    store.verify().unwrap();
}
