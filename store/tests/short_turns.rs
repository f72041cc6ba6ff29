//! Whoever asks for short turns comes to write before a writer's turn is over: the writer goes to the back of the queue.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::engine::{Durability, Linux, OpenOptions, Store, System};

/// Linux, with a clock that goes on by half a millisecond whenever it is looked at, and how often somebody went into the queue.
#[derive(Default)]
struct Machine {
    time: AtomicU64,
    queued: AtomicU64,
}

impl System for Machine {
    fn uptime(&self) -> u64 {
        self.time.fetch_add(500_000, Ordering::Relaxed)
    }

    fn enter_queue(&self, file: &File) -> io::Result<()> {
        self.queued.fetch_add(1, Ordering::Relaxed);
        Linux.enter_queue(file)
    }
}

#[test]
fn a_turn_ends_where_somebody_asks_for_that() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("r");
    let machine = Arc::new(Machine::default());
    let options = OpenOptions {
        create: true,
        system: machine.clone(),
        ..OpenOptions::default()
    };
    let writer = Store::open(&path, &options).expect("made");
    let other = Store::open(&path, &OpenOptions::default()).expect("opened");
    let write = |times: u64| {
        let before = machine.queued.load(Ordering::Relaxed);
        for _ in 0..times {
            drop(writer.begin(Durability::Lazy).expect("begun"));
        }
        machine.queued.load(Ordering::Relaxed) - before
    };
    assert_eq!(write(4), 1, "a turn lasts for several transactions");
    let asked = other.short_turns();
    // The writer looks once in 0.4 ms: each time here, but when its turn has just begun.
    assert!(write(6) >= 3);
    drop(asked);
    assert!(write(6) <= 1);
}
