//! Waiting for a writer that makes no use of its right: told of, and not for ever.

mod common;

use common::key;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::engine::{Durability, Error, OpenOptions, Patience, Store};

fn create(path: &Path) -> Store {
    let options = OpenOptions {
        create: true,
        ..OpenOptions::default()
    };
    Store::open(path, &options).unwrap()
}

/// With a patience that tells through the channel.
fn patient(path: &Path, give_up_after: Duration) -> (Store, mpsc::Receiver<PathBuf>) {
    let (send, receive) = mpsc::channel();
    let send = Mutex::new(send);
    let options = OpenOptions {
        patience: Some(Patience {
            tell_after: Duration::from_millis(1),
            give_up_after,
            tell: Arc::new(move |path, holder| {
                assert_eq!(holder.unwrap().process, std::process::id());
                send.lock().unwrap().send(path.to_owned()).unwrap();
            }),
        }),
        ..OpenOptions::default()
    };
    (Store::open(path, &options).unwrap(), receive)
}

const FOR_EVER: Duration = Duration::from_secs(1 << 30);

#[test]
fn a_wait_ends_with_the_holders_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r.repo");
    let store = create(&path);
    let lock = store.begin(Durability::Lazy).unwrap();
    // The first of them is next, the others are in the queue.
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let (waiting, told) = patient(&path, Duration::from_millis(30));
                match waiting.begin(Durability::Lazy).map(|_| ()) {
                    Err(Error::Locked {
                        holder: Some(holder),
                        ..
                    }) => assert_eq!(holder.process, std::process::id()),
                    other => panic!("{other:?}"),
                }
                assert!(told.try_iter().count() <= 1);
            });
        }
    });
    drop(lock);
    // Whoever gave up is in nobody's way.
    let (waiting, told) = patient(&path, FOR_EVER);
    for number in 0..10 {
        let mut transaction = waiting.begin(Durability::Lazy).unwrap();
        transaction.insert(0, &key(number), b"value").unwrap();
        transaction.commit().unwrap();
    }
    assert_eq!(told.try_iter().count(), 0);
    assert_eq!(store.snapshot().unwrap().count(0), 10);
}

#[test]
fn a_wait_goes_on_when_the_lock_is_free() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r.repo");
    let store = create(&path);
    let lock = store.begin(Durability::Lazy).unwrap();
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for number in 0..4 {
            let send = send.clone();
            let path = &path;
            scope.spawn(move || {
                let (waiting, told) = patient(path, FOR_EVER);
                std::thread::scope(|inner| {
                    inner.spawn(|| {
                        let mut transaction = waiting.begin(Durability::Lazy).unwrap();
                        transaction.insert(0, &key(number), b"value").unwrap();
                        transaction.commit().unwrap();
                    });
                    assert_eq!(told.recv().unwrap(), *path);
                    send.send(()).unwrap();
                });
                assert_eq!(told.try_iter().count(), 0, "told twice");
            });
        }
        // All of them wait.
        for _ in 0..4 {
            receive.recv().unwrap();
        }
        drop(lock);
    });
    assert_eq!(store.snapshot().unwrap().count(0), 4);
}
