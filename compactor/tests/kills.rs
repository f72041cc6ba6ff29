//! Killed at every step, with a writer at work, a compaction leaves one good repository, in which nothing is missing.

mod common;

use common::{Directory, FOREVER, add, has, unit, wishes};
use compactor::observer::Observer;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use store::engine;
use store::program::{Addition, ProgramError, Repository};

/// Says to this test that it is the process to be killed, and where and when: `STEP DIRECTORY`.
const CHILD: &str = "COMPACTOR_TEST_CHILD";

/// What the writer has been promised, one name a line.
const PROMISED: &str = "promised";

/// Writes at each step, and ends the process at one of them.
struct Killed {
    directory: PathBuf,
    left: AtomicU32,
    writer: Mutex<Option<Repository>>,
    written: AtomicU32,
}

impl Killed {
    fn step(&self, may_write: bool) {
        if may_write {
            self.write();
        }
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::KILL).expect("killed");
        }
    }

    fn write(&self) {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let name = format!("w{}_{number}", std::process::id());
        let prepared = unit(name.as_bytes(), b"\x90\xc3");
        let additions = [Addition {
            prepared: &prepared,
            ticket: None,
        }];
        let mut writer = self.writer.lock().expect("no panic");
        loop {
            let open = || Repository::open(&self.directory.join("program.repo")).expect("good");
            match writer.get_or_insert_with(open).add(&additions) {
                Ok(_) => break,
                Err(ProgramError::Engine(engine::Error::Replaced { .. })) => *writer = None,
                Err(error) => panic!("{error}"),
            }
        }
        let mut promised = OpenOptions::new();
        let promised = promised.append(true).create(true);
        let mut promised = promised
            .open(self.directory.join(PROMISED))
            .expect("opened");
        promised
            .write_all(format!("{name}\n").as_bytes())
            .expect("written");
    }
}

impl Observer for Killed {
    fn begin(&self, what: &'static str, _: u64) {
        // Then this process has the lock itself.
        self.step(what != "renaming");
    }

    fn step(&self) {
        self.step(true);
    }

    fn exclusive(&self) {
        self.step(true);
    }

    fn released(&self) {
        self.step(true);
    }
}

/// The process that is killed.
fn child(directory: &Path, step: u32) {
    let killed = Killed {
        directory: directory.to_owned(),
        left: AtomicU32::new(step),
        writer: Mutex::new(None),
        written: AtomicU32::new(0),
    };
    let path = directory.join("program.repo");
    common::compact(&path, &wishes(FOREVER), &killed).expect("compacted");
}

#[test]
fn at_every_step_one_good_repository_is_left() {
    if let Ok(told) = std::env::var(CHILD) {
        let (step, directory) = told.split_once(' ').expect("two words");
        return child(Path::new(directory), step.parse().expect("a number"));
    }
    let place = Directory::new();
    let first = [b"a", b"b", b"c"].map(|name| unit(name, b"\xc3"));
    for (number, unit) in first.iter().enumerate() {
        let ticket = place.path(&format!("{number}.o"));
        add(&place.repository(), unit, Some(&ticket));
    }
    // What the writer adds makes more steps: each process begins with the same file.
    let pristine = std::fs::read(place.path("program.repo")).expect("read");
    let mut killed = 0;
    loop {
        std::fs::write(place.path("program.repo"), &pristine).expect("written");
        let _ = std::fs::remove_file(place.path(PROMISED));
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", "at_every_step_one_good_repository_is_left"]);
        let directory = place.path("");
        command.env(CHILD, format!("{killed} {}", directory.display()));
        let done = command.output().expect("started");
        let repository = place.repository();
        repository.store().verify().expect("the repository is good");
        for unit in &first {
            assert!(has(&repository, unit), "step {killed}");
        }
        let promised = std::fs::read_to_string(place.path(PROMISED)).unwrap_or_default();
        for name in promised.lines() {
            assert!(
                has(&repository, &unit(name.as_bytes(), b"\x90\xc3")),
                "step {killed}: {name}"
            );
        }
        match done.status.signal() {
            Some(_) => killed += 1,
            None => {
                assert!(
                    done.status.success(),
                    "{}",
                    String::from_utf8_lossy(&done.stdout)
                );
                break;
            }
        }
    }
    // Beginnings, ends, and compilations.
    assert!(killed > 10, "{killed}");
}
