//! Waiting for a writer that makes no use of its right: told of, and not for ever.

mod common;

use common::{key, spawn};
use format_spec::file::IndexSlot;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::engine::{Durability, Error, Linux, OpenOptions, Patience, Store, System};

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
        transaction
            .insert(IndexSlot::of::<0>(), &key(number), b"value")
            .unwrap();
        transaction.commit().unwrap();
    }
    assert_eq!(told.try_iter().count(), 0);
    assert_eq!(store.snapshot().unwrap().count(IndexSlot::of::<0>()), 10);
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
                        transaction
                            .insert(IndexSlot::of::<0>(), &key(number), b"value")
                            .unwrap();
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
    assert_eq!(store.snapshot().unwrap().count(IndexSlot::of::<0>()), 4);
}

#[test]
fn a_stopped_process_at_the_head_of_the_queue_is_passed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r.repo");
    let store = create(&path);
    // As if of one that was stopped after it entered.
    let other = std::fs::File::options().write(true).open(&path).unwrap();
    Linux.enter_queue(&other).unwrap();
    let options = OpenOptions {
        patience: Some(Patience {
            tell_after: FOR_EVER,
            give_up_after: FOR_EVER,
            tell: Arc::new(|_, _| unreachable!("for ever")),
        }),
        ..OpenOptions::default()
    };
    let waiting = Store::open(&path, &options).unwrap();
    let mut transaction = waiting.begin(Durability::Lazy).unwrap();
    transaction
        .insert(IndexSlot::of::<0>(), &key(1), b"value")
        .unwrap();
    transaction.commit().unwrap();
    assert_eq!(store.snapshot().unwrap().count(IndexSlot::of::<0>()), 1);
}

/// Not a test of its own: what the process that the next one starts does.
#[test]
fn worker() {
    let Some(path) = std::env::var_os("WORKER_PATH") else {
        return;
    };
    let store = Store::open(path, &OpenOptions::default()).unwrap();
    let _lock = store.begin(Durability::Lazy).unwrap();
    // SAFETY: stops this process.
    unsafe { libc::raise(libc::SIGSTOP) };
}

#[test]
fn a_stopped_process_is_named_as_such() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r.repo");
    let store = create(&path);
    let environment = [("WORKER_PATH", path.to_string_lossy().into_owned())];
    let mut child = spawn("worker", &environment);
    let id = child.id();
    // SAFETY: asks for the state of a child; null is no place for it.
    let stopped = unsafe { libc::waitpid(id as i32, std::ptr::null_mut(), libc::WUNTRACED) };
    let options = OpenOptions {
        patience: Some(Patience {
            tell_after: FOR_EVER,
            give_up_after: Duration::from_millis(10),
            tell: Arc::new(|_, _| unreachable!("for ever")),
        }),
        ..OpenOptions::default()
    };
    let waiting = Store::open(&path, &options).unwrap();
    let locked = waiting.begin(Durability::Lazy).map(|_| ());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(stopped, id as i32);
    let Err(Error::Locked {
        holder: Some(holder),
        ..
    }) = locked
    else {
        panic!("it had the lock: {locked:?}");
    };
    assert_eq!((holder.process, holder.is_stopped), (id, true));
    assert!(holder.name.starts_with("patience"), "{holder}");
    // With its death the lock is free.
    store.begin(Durability::Lazy).unwrap();
}
