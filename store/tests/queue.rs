//! The queue of writers is in order: who leaves it and comes back stands behind all who are in it, also before the next one has
//! noticed that it is its turn; and who dies in it is out of it, wherever it stood.

mod common;

use common::spawn;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use store::engine::{Linux, System};

fn open(path: &Path) -> File {
    let mut options = File::options();
    let file = options.read(true).write(true).create(true).open(path);
    file.expect("opened")
}

/// Waits until a thread of this process, or another process, waits for something.
fn wait_for_sleep(task: &str) {
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{task}/stat")).expect("it is there");
        let (_, fields) = stat.rsplit_once(") ").expect("fields");
        if fields.starts_with('S') {
            return;
        }
        std::thread::yield_now();
    }
}

/// The same of the thread of this process that says its id there.
fn wait_for_sleep_of(thread: &AtomicU32) {
    while thread.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    wait_for_sleep(&format!("self/task/{}", thread.load(Ordering::Acquire)));
}

fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

#[test]
fn nobody_overtakes() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("f");
    let first = open(&path);
    for _ in 0..200 {
        Linux.enter_queue(&first).expect("in");
        let (waiting, tried) = (AtomicU32::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let file = open(&path);
                waiting.store(thread_id(), Ordering::Release);
                Linux.enter_queue(&file).expect("in");
                while !tried.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                Linux.leave_queue(&file);
            });
            wait_for_sleep_of(&waiting);
            Linux.leave_queue(&first);
            // The other one may not have noticed yet that it is next.
            let has_overtaken = Linux.try_enter_queue(&first);
            tried.store(true, Ordering::Release);
            if let Ok(true) = has_overtaken {
                Linux.leave_queue(&first);
            }
            assert!(!has_overtaken.expect("asked"));
        });
    }
}

#[test]
fn all_come_in_the_order_in_which_they_came() {
    const COUNT: usize = 6;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("f");
    let first = open(&path);
    Linux.enter_queue(&first).expect("in");
    let order = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for number in 0..COUNT {
            let waiting = Arc::new(AtomicU32::new(0));
            let (order, path, told) = (&order, &path, waiting.clone());
            scope.spawn(move || {
                let file = open(path);
                told.store(thread_id(), Ordering::Release);
                Linux.enter_queue(&file).expect("in");
                order.lock().expect("no panic").push(number);
                Linux.leave_queue(&file);
            });
            wait_for_sleep_of(&waiting);
        }
        Linux.leave_queue(&first);
        // Comes back at once, and so is the last one.
        Linux.enter_queue(&first).expect("in");
        order.lock().expect("no panic").push(COUNT);
        Linux.leave_queue(&first);
    });
    let order = order.into_inner().expect("no panic");
    assert_eq!(order, (0..=COUNT).collect::<Vec<_>>());
}

#[test]
fn who_dies_in_the_queue_is_out_of_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("f");
    let first = open(&path);
    Linux.enter_queue(&first).expect("in");
    let start = || {
        let shown = path.display().to_string();
        let mut child = spawn("in_queue", &[("STORE_QUEUE", shown)]);
        let mark = path.with_extension(child.id().to_string());
        while !mark.exists() {
            assert!(child.try_wait().expect("asked").is_none());
        }
        // The main thread waits for the one that waits in the queue.
        let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).expect("there");
        for task in tasks.flatten() {
            let task = task.file_name().into_string().expect("a number");
            wait_for_sleep(&format!("{}/task/{task}", child.id()));
        }
        child
    };
    let mut children = [start(), start(), start()];
    for dead in [1, 0] {
        children[dead].kill().expect("killed");
        children[dead].wait().expect("dead");
        // It was not this one's turn.
        assert!(!Linux.try_enter_queue(&open(&path)).expect("asked"));
        assert!(children[2].try_wait().expect("asked").is_none());
    }
    Linux.leave_queue(&first);
    assert!(children[2].wait().expect("it ends").success());
    Linux.enter_queue(&first).expect("nobody is left in it");
}

/// The process that waits.
#[test]
fn in_queue() {
    let Some(path) = std::env::var_os("STORE_QUEUE") else {
        return;
    };
    let path = Path::new(&path);
    let file = open(path);
    let mark = path.with_extension(std::process::id().to_string());
    std::fs::write(mark, "").expect("written");
    Linux.enter_queue(&file).expect("in");
    Linux.leave_queue(&file);
}
