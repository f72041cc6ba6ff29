//! Repositories: opened, everything in them looked up, verified, recovered, and written to. What is wrong may be an
//! error, never a panic, a wild read or a hang.

use format_spec::digest::Digest;
use format_spec::file::{IndexSlot, VectorSlot};
use std::fs::File;
use std::hint::black_box;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use store::engine::{Appended, Durability, OpenOptions, Record, Snapshot, Store, System};

/// An operating system that was started so many times, and on which syncing costs nothing.
struct Boot(u8);

impl System for Boot {
    fn boot_id(&self) -> [u8; 16] {
        [self.0; 16]
    }
    fn identity(&self, _: &File) -> io::Result<(u64, u64)> {
        Ok((2, 1))
    }
    fn sync(&self, _: &File) -> io::Result<()> {
        Ok(())
    }
}

thread_local! {
    /// One file a thread, in memory where there is such a place.
    static PLACE: (tempfile::TempDir, PathBuf) = {
        let directory = super::link::directory();
        let path = directory.path().join("fuzzed.repo");
        (directory, path)
    };
}

pub fn run(data: &[u8]) {
    PLACE.with(|(_, path)| {
        // As this boot's processes left it, and as another one did.
        for (boot, read_only) in [(1, false), (2, true), (2, false)] {
            std::fs::write(path, data).expect("room in memory");
            let options = OpenOptions {
                read_only,
                system: Arc::new(Boot(boot)),
                ..OpenOptions::default()
            };
            let Ok(store) = Store::open(path, &options) else {
                continue;
            };
            if let Ok(snapshot) = store.snapshot() {
                look_at(&snapshot);
            }
            let _ = store.verify();
            if write_to(&store).is_ok() {
                let _ = store.verify();
            }
        }
    });
}

/// Reads every byte.
fn touch(record: &Record<'_>) {
    let sum: u64 = record.value.iter().map(|&byte| u64::from(byte)).sum();
    black_box((sum, record.key()));
}

fn look_at(snapshot: &Snapshot<'_>) {
    for index in IndexSlot::all() {
        for record in snapshot.iter(index).flatten() {
            touch(&record);
            if let Ok(Some(found)) = snapshot.get(index, &record.key()) {
                assert_eq!(found.key(), record.key());
            }
        }
        let _ = black_box(snapshot.get(index, &Digest::of(b"absent")));
    }
    for vector in VectorSlot::all() {
        let length = snapshot.vector_len(vector).min(10_000) as u32;
        for element in 0..=length {
            if let Ok(Some(address)) = snapshot.vector_get(vector, element) {
                let _ = snapshot.record_at(address).map(|record| touch(&record));
            }
        }
    }
    let revisions: Vec<_> = snapshot.revisions().flatten().collect();
    for earlier in &revisions {
        assert!(earlier.revision() <= snapshot.revision());
        let again = snapshot.store().snapshot_at(earlier.revision());
        let _ = again.map(|again| assert_eq!(again.revision(), earlier.revision()));
    }
    if let Some(first) = revisions.last() {
        for addition in snapshot.additions_since(first).flatten() {
            if let Appended::Record { record, .. } = addition {
                touch(&record);
            }
        }
    }
}

fn write_to(store: &Store) -> store::engine::Result<()> {
    let mut transaction = store.begin(Durability::Lazy)?;
    for number in 0..60u64 {
        let key = Digest::of(&number.to_le_bytes());
        let address = transaction.insert(IndexSlot::of::<3>(), &key, b"inserted")?;
        transaction.replace(IndexSlot::of::<15>(), &key, &number.to_le_bytes())?;
        transaction.push(VectorSlot::of::<1>(), address)?;
    }
    transaction.commit()?;
    look_at(&store.snapshot()?);
    Ok(())
}
