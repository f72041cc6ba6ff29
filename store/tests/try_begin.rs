//! Beginning to write without waiting: at once if nobody writes, and not at all if somebody does, in this process or in another.

mod common;

use common::{key, spawn};
use format_spec::file::IndexSlot;
use std::io::Read;
use std::path::Path;
use store::engine::{Durability, Error, OpenOptions, Store};

const INDEX: IndexSlot = IndexSlot::of::<3>();

/// Says to this test that it is the other process, and of which file.
const CHILD: &str = "STORE_TEST_CHILD";

fn open(path: &Path) -> Store {
    let options = OpenOptions {
        create: true,
        ..OpenOptions::default()
    };
    Store::open(path, &options).expect("opened")
}

/// Whether it begins, and what it adds is there then.
fn adds(store: &Store, number: u64) -> bool {
    let Some(mut transaction) = store.try_begin(Durability::Lazy).expect("asked") else {
        return false;
    };
    let value = number.to_le_bytes();
    transaction
        .insert(INDEX, &key(number), &value)
        .expect("added");
    transaction.commit().expect("committed");
    let snapshot = store.snapshot().expect("one");
    let found = snapshot.get(INDEX, &key(number)).expect("sound");
    found.is_some_and(|record| record.value == value)
}

#[test]
fn it_begins_where_nobody_else_writes() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("r");
    let (store, again) = (open(&path), open(&path));
    assert!(adds(&store, 0) && adds(&again, 1) && adds(&store, 2));
    for writer in [&store, &again] {
        let mut transaction = writer.begin(Durability::Lazy).expect("begun");
        // By the same handle, and by another one.
        assert!(!adds(&store, 3) && !adds(&again, 3));
        transaction
            .insert(INDEX, &key(4), b"")
            .expect("the writer is not disturbed");
        drop(transaction);
        assert!(adds(&again, 5) && adds(&store, 6));
    }
    // What others have committed is below what it adds.
    assert_eq!(store.snapshot().expect("one").count(INDEX), 5);
    store.verify().expect("sound");
}

#[test]
fn another_process_writes() {
    if let Ok(path) = std::env::var(CHILD) {
        let store = open(Path::new(&path));
        let transaction = store.begin(Durability::Lazy).expect("begun");
        std::fs::write(Path::new(&path).with_extension("begun"), "").expect("written");
        // Until it is killed.
        let _ = std::io::stdin().read(&mut [0]);
        loop {
            std::thread::park();
            assert_eq!(transaction.added(), 0);
        }
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("r");
    let store = open(&path);
    let environment = [(CHILD, path.display().to_string())];
    let mut child = spawn("another_process_writes", &environment);
    while !path.with_extension("begun").exists() {
        assert!(child.try_wait().expect("asked").is_none(), "it has ended");
        std::thread::yield_now();
    }
    assert!(!adds(&store, 0));
    child.kill().expect("killed");
    child.wait().expect("waited for");
    // The kernel has given the lock back.
    assert!(adds(&store, 0));
    store.verify().expect("sound");
}

#[test]
fn who_may_not_write_is_told_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("r");
    let store = open(&path);
    let options = OpenOptions {
        read_only: true,
        ..OpenOptions::default()
    };
    let reader = Store::open(&path, &options).expect("opened");
    assert!(matches!(
        reader.try_begin(Durability::Lazy),
        Err(Error::ReadOnly { .. })
    ));
    // Another file has its name now.
    let other = directory.path().join("other");
    drop(open(&other));
    std::fs::rename(&other, &path).expect("renamed");
    let replaced = store.try_begin(Durability::Lazy);
    assert!(matches!(replaced, Err(Error::Replaced { .. })));
    drop(replaced);
    // And it is not left locked.
    assert!(matches!(
        store.try_begin(Durability::Lazy),
        Err(Error::Replaced { .. })
    ));
    assert!(adds(&open(&path), 1));
}
