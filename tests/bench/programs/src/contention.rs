//! How long writers wait for each other: sixteen processes import real objects into one repository at once, as `make -j16`
//! does with `repo-cc`, and each notes how long it had the write lock.
//!
//! Beside the wall time stands the processor time of the thread that had the lock: where there are fewer processors than
//! writers, a writer is now and then suspended while it has it, and the difference is that.

use anyhow::{Context as _, Result, ensure};
use linker::repository::import::import_object;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use store::engine::{Linux, OpenOptions, Store, System};
use store::program::Repository;

const WRITERS: usize = 16;

/// What was measured. All times in nanoseconds, in ascending order, one for each time that the lock was held.
pub struct Contention {
    objects: usize,
    bytes: u64,
    wall: Vec<u64>,
    processor: Vec<u64>,
}

/// The system, with a watch at the write lock.
#[derive(Default)]
struct Watch {
    /// When the lock was got, if it is held: wall time, and processor time of the thread.
    since: Mutex<Option<(Instant, u64)>>,
    /// How long it was held each time.
    held: Mutex<Vec<(u64, u64)>>,
}

impl Watch {
    fn begin(&self) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        *since = Some((Instant::now(), thread_time()));
    }
}

impl System for Watch {
    fn lock(&self, file: &File) -> io::Result<()> {
        Linux.lock(file)?;
        self.begin();
        Ok(())
    }

    fn try_lock(&self, file: &File) -> io::Result<bool> {
        let got = Linux.try_lock(file)?;
        if got {
            self.begin();
        }
        Ok(got)
    }

    fn unlock(&self, file: &File) {
        let since = self
            .since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some((wall, processor)) = since {
            let times = (wall.elapsed().as_nanos() as u64, thread_time() - processor);
            self.held
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(times);
        }
        Linux.unlock(file);
    }
}

/// Processor time of this thread, nanoseconds.
pub fn thread_time() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a place for what the call writes.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// One of the writers: imports `objects` into the repository, one transaction or more each, and prints how long it had the lock.
///
/// # Errors
/// If an object cannot be imported.
pub fn write(repository: &Path, objects: &[String]) -> Result<()> {
    let watch = Arc::new(Watch::default());
    let options = OpenOptions {
        create: true,
        system: watch.clone(),
        ..OpenOptions::default()
    };
    let repository = Repository::new(Store::open(repository, &options)?);
    for path in objects {
        let bytes = std::fs::read(path).with_context(|| path.clone())?;
        import_object(&repository, Path::new(path), &bytes, None)?;
    }
    let mut out = io::stdout().lock();
    for (wall, processor) in &*watch.held.lock().unwrap_or_else(PoisonError::into_inner) {
        writeln!(out, "{wall} {processor}")?;
    }
    Ok(())
}

/// Has sixteen processes of `program` (called with `--writer REPOSITORY` and objects) import the objects below `directory`.
///
/// # Errors
/// If there are no objects, or one of the processes fails.
pub fn measure(program: &Path, directory: &Path) -> Result<Contention> {
    let mut objects: Vec<PathBuf> = Vec::new();
    for subject in std::fs::read_dir(directory)? {
        let below = subject?.path().join("objects");
        if below.is_dir() {
            objects.extend(repo_tests::sources::files(&below, ".o")?);
        }
    }
    ensure!(!objects.is_empty(), "no objects");
    let mut bytes = 0;
    for object in &objects {
        bytes += std::fs::metadata(object)?.len();
    }
    let repository = directory.join("contention.repo");
    let mut writers = Vec::new();
    for number in 0..WRITERS {
        let share = objects.iter().skip(number).step_by(WRITERS);
        let mut command = Command::new(program);
        command.arg("--writer").arg(&repository).args(share);
        writers.push(command.stdout(Stdio::piped()).spawn()?);
    }
    let (mut wall, mut processor) = (Vec::new(), Vec::new());
    for writer in writers {
        let done = writer.wait_with_output()?;
        ensure!(done.status.success(), "a writer failed");
        for line in String::from_utf8(done.stdout)?.lines() {
            let (first, second) = line.split_once(' ').context("a writer said nonsense")?;
            wall.push(first.parse()?);
            processor.push(second.parse()?);
        }
    }
    std::fs::remove_file(&repository)?;
    ensure!(!wall.is_empty(), "no writer took the lock");
    wall.sort_unstable();
    processor.sort_unstable();
    Ok(Contention {
        objects: objects.len(),
        bytes,
        wall,
        processor,
    })
}

/// The value that a share of all are not above, in milliseconds.
fn quantile(times: &[u64], share: f64) -> f64 {
    let place = (times.len() as f64 * share) as usize;
    times[place.min(times.len() - 1)] as f64 / 1e6
}

impl Contention {
    /// Prints the table.
    pub fn print(&self) {
        println!(
            "\nThe write lock, {WRITERS} processes that import {} objects ({:.1} MB) at once: held {} times, milliseconds.\n",
            self.objects,
            self.bytes as f64 / 1e6,
            self.wall.len(),
        );
        println!("{:<18} {:>8} {:>8} {:>8}", "", "median", "99%", "longest");
        for (name, times) in [("wall", &self.wall), ("processor", &self.processor)] {
            println!(
                "{name:<18} {:>8.3} {:>8.3} {:>8.3}",
                quantile(times, 0.5),
                quantile(times, 0.99),
                quantile(times, 1.0)
            );
        }
    }

    /// The same for a program.
    pub fn to_json(&self) -> Value {
        let times = |times: &[u64]| {
            json!({
                "median_ms": quantile(times, 0.5),
                "p99_ms": quantile(times, 0.99),
                "longest_ms": quantile(times, 1.0),
            })
        };
        json!({
            "writers": WRITERS,
            "objects": self.objects,
            "object_bytes": self.bytes,
            "held": self.wall.len(),
            "wall": times(&self.wall),
            "processor": times(&self.processor),
        })
    }
}
