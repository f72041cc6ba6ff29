//! Threads of low priority do the work, and never take the repository's lock: writers would wait for them.

mod common;

use common::{Directory, add, unit, wishes};
use compactor::compact::compact;
use compactor::observer::Observer;
use compactor::priority::Rank;
use compactor::roots::Wishes;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use store::engine::{Linux, OpenOptions, Store, System};
use store::program::Repository;

/// The policy of this thread's scheduling, and how nice it is (proc(5)).
fn manner() -> (u32, i32) {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("there");
    let (_, fields) = stat.rsplit_once(") ").expect("fields");
    let fields: Vec<&str> = fields.split(' ').collect();
    let policy = fields[38].parse().expect("a number");
    (policy, fields[16].parse().expect("a number"))
}

/// Linux, and how the threads are that take the lock or the right to sync.
#[derive(Default)]
struct Watching {
    found: Mutex<Vec<(u32, i32)>>,
}

impl Watching {
    fn look(&self) {
        self.found.lock().expect("no panic").push(manner());
    }
}

impl System for Watching {
    fn lock(&self, file: &File) -> io::Result<()> {
        self.look();
        Linux.lock(file)
    }

    fn try_lock(&self, file: &File) -> io::Result<bool> {
        self.look();
        Linux.try_lock(file)
    }

    fn enter_queue(&self, file: &File) -> io::Result<()> {
        self.look();
        Linux.enter_queue(file)
    }

    fn try_begin_sync(&self, file: &File) -> io::Result<bool> {
        self.look();
        Linux.try_begin_sync(file)
    }
}

/// Adds a unit in the middle of the work, so that there is something to catch up with.
struct Writer<'p> {
    place: &'p Directory,
    worked: Mutex<Vec<(u32, i32)>>,
    added: AtomicU32,
}

impl Observer for Writer<'_> {
    fn begin(&self, what: &'static str, _: u64) {
        if what == "verifying" && self.added.fetch_add(1, Ordering::Relaxed) == 0 {
            let late = unit(b"late", b"\x90\x90\xc3");
            add(&self.place.repository(), &late, None);
        }
    }

    fn step(&self) {
        self.worked.lock().expect("no panic").push(manner());
    }
}

#[test]
fn who_takes_the_lock_has_the_priority_of_who_writes() {
    const IDLE: u32 = 5;
    for rank in [Rank::Behind, Rank::Last] {
        let place = Directory::new();
        let repository = place.repository();
        add(
            &repository,
            &unit(b"kept", b"\xc3"),
            Some(&place.path("kept.o")),
        );
        drop(repository);
        let ordinary = manner();
        let system = Arc::new(Watching::default());
        let options = OpenOptions {
            system: system.clone(),
            ..OpenOptions::default()
        };
        let store = Store::open(place.path("program.repo"), &options).expect("opened");
        let writer = Writer {
            place: &place,
            worked: Mutex::default(),
            added: AtomicU32::new(0),
        };
        let wishes = Wishes {
            rank,
            threads: 1,
            ..wishes(0)
        };
        compact(&Repository::new(store), &wishes, &writer).expect("compacted");
        let found = system.found.lock().expect("no panic");
        assert!(
            !found.is_empty() && found.iter().all(|found| *found == ordinary),
            "{found:?}"
        );
        let worked = writer.worked.lock().expect("no panic");
        let is_low = |&(policy, nice): &(u32, i32)| match rank {
            Rank::Behind => nice == (ordinary.1 + 10).min(19),
            Rank::Last => policy == IDLE,
        };
        assert!(worked.iter().any(is_low), "{worked:?}");
        assert_eq!(manner(), ordinary);
    }
}
