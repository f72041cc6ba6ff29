//! Power cuts around the moment at which the new file takes the old one's place.
//!
//! The disk is that of the store's tests (`store/tests/common/disk.rs`), for the new file; the renaming may be on the real one at any time after it
//! was done. Whatever of the new file is on the disk then, it is a good repository, with all that was on the disk in the old
//! file when its name went to the new one. Only what was added in the last moments before, which nobody had promised to keep, may be missing.
//!
//! `COMPACTOR_POWER_CUTS=100000` makes it so many states; the default keeps CI short.

mod common;
#[path = "../../store/tests/common/mod.rs"]
mod simulated;

use common::{Directory, FOREVER, add, has, unit, wishes};
use compactor::compact::compact_on;
use compactor::observer::Observer;
use simulated::disk::{Disk, Weather};
use simulated::{Random, TestSystem, Words, effort, options};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use store::engine::{Durability, Store};
use store::program::Repository;

/// A name for each unit that is added meanwhile.
type Names = Vec<String>;

/// Adds units while the compactor is at work, and sees when the file is renamed.
struct Meanwhile<'a> {
    path: &'a Path,
    system: Arc<TestSystem>,
    random: Mutex<Random>,
    /// What was added, and what of that must survive a power cut.
    added: Mutex<(Names, Names)>,
    /// How many operations there were right before the renaming.
    renamed: AtomicUsize,
}

impl Meanwhile<'_> {
    fn add(&self) {
        let (chance, number) = {
            let mut random = self.random.lock().expect("no panic");
            (random.below(4), random.next())
        };
        if chance == 0 {
            return;
        }
        let name = format!("w{number:016x}");
        let code = vec![0x90; (number % 3000) as usize];
        let repository = Repository::open(self.path).expect("good");
        add(&repository, &unit(name.as_bytes(), &code), None);
        let mut added = self.added.lock().expect("no panic");
        added.0.push(name);
        if chance == 1 {
            // Now they are promised.
            repository.store().sync().expect("synced");
            added.1 = added.0.clone();
        }
    }
}

// It adds when the thread calls that compacts: never while the file is renamed.
impl Observer for Meanwhile<'_> {
    fn begin(&self, what: &'static str, _: u64) {
        match what {
            "renaming" => self.renamed.store(self.system.ops(), Ordering::Relaxed),
            _ => self.add(),
        }
    }

    fn step(&self) {
        if self.renamed.load(Ordering::Relaxed) == 0 {
            self.add();
        }
    }
}

fn power_cuts(words: Words) {
    let states = effort("COMPACTOR_POWER_CUTS", 400);
    let mut random = Random(effort("COMPACTOR_POWER_SEED", 1));
    let mut made = 0;
    while made < states {
        let seed = random.next();
        let place = Directory::new();
        let path = place.path("program.repo");
        let names: Names = (0..20).map(|number| format!("f{number}")).collect();
        {
            let repository = place.repository();
            for name in &names {
                let ticket = place.path(&format!("{name}.o"));
                add(&repository, &unit(name.as_bytes(), b"\xc3"), Some(&ticket));
            }
            repository.store().sync().expect("synced");
        }
        let system = TestSystem::with_hook(1, words, |_, _| simulated::Fate::Done);
        system.begin_with(Disk::new(Vec::new(), false));
        let meanwhile = Meanwhile {
            path: &path,
            system: system.clone(),
            random: Mutex::new(Random(seed)),
            added: Mutex::default(),
            renamed: AtomicUsize::new(0),
        };
        let old = Repository::open(&path).expect("good");
        compact_on(&old, &wishes(FOREVER), &meanwhile, system.clone()).expect("compacted");
        let (_, promised) = meanwhile.added.into_inner().expect("no panic");
        let ops = std::mem::take(&mut *system.recorded.lock().expect("no panic"));
        let renamed = meanwhile.renamed.load(Ordering::Relaxed);
        assert!(0 < renamed && renamed <= ops.len());
        for _ in 0..20 {
            let cut = renamed + random.below((ops.len() - renamed) as u64 + 1) as usize;
            let weather = Weather::any(&mut random);
            let disk = Disk::new(Vec::new(), false).after(&ops[..cut]);
            std::fs::write(&path, disk.cut(weather, &mut random)).expect("written");
            let what = format!(
                "seed {seed}, {cut} of {} operations, {weather:?}",
                ops.len()
            );
            let options = options(TestSystem::with_hook(2, words, |_, _| {
                simulated::Fate::Done
            }));
            let repository = Repository::open_with(&path, &options).expect(&what);
            repository.store().verify().expect(&what);
            for name in names.iter() {
                assert!(
                    has(&repository, &unit(name.as_bytes(), b"\xc3")),
                    "{what}: {name}"
                );
            }
            for name in &promised {
                let number = u64::from_str_radix(&name[1..], 16).expect("a number");
                let code = vec![0x90; (number % 3000) as usize];
                assert!(
                    has(&repository, &unit(name.as_bytes(), &code)),
                    "{what}: {name}"
                );
            }
            made += 1;
        }
    }
}

#[test]
fn of_words_that_are_written() {
    power_cuts(Words::Written);
}

#[test]
fn of_words_that_are_stored() {
    power_cuts(Words::Stored);
}

/// A commit that waits for the disk while another file takes its file's place says that it may be lost.
#[test]
fn a_durable_commit_that_is_overtaken_says_so() {
    let place = Directory::new();
    let path = place.path("program.repo");
    drop(place.repository());
    let (from, to) = (path.clone(), place.path("other"));
    let is_armed = Arc::new(AtomicUsize::new(0));
    let armed = is_armed.clone();
    let system = TestSystem::with_hook(1, Words::Written, move |_, op| {
        if op.is_sync() && armed.swap(0, Ordering::Relaxed) == 1 {
            std::fs::rename(&from, &to).expect("renamed");
        }
        simulated::Fate::Done
    });
    let store = Store::open(&path, &options(system)).expect("good");
    let mut transaction = store.begin(Durability::Durable).expect("begun");
    let index = format_spec::program::Index::Compilations.slot();
    let key = format_spec::digest::Digest::of(b"key");
    transaction.insert(index, &key, b"value").expect("inserted");
    is_armed.store(1, Ordering::Relaxed);
    let error = transaction.commit().expect_err("it may be lost");
    assert!(
        matches!(&error, store::engine::Error::NotDurable { source, .. }
            if matches!(**source, store::engine::Error::Replaced { .. })),
        "{error}"
    );
}
