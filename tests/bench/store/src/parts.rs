//! What is measured, part by part.

use crate::candidates::{self, Candidate, Kind};
use crate::report::Report;
use crate::workload::Workload;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const LOOKUPS: usize = 500_000;
/// So many records at most are inserted into those that are slow at it: with more
/// they would only be slower.
const SLOW_INSERTS: usize = 250_000;

pub fn remove(path: &Path) {
    let removed = if path.is_dir() {
        std::fs::remove_dir_all(path)
    } else {
        std::fs::remove_file(path)
    };
    removed.expect("own files can be removed");
}

fn size(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).expect("is there");
    if !metadata.is_dir() {
        return metadata.blocks() * 512;
    }
    let entries = std::fs::read_dir(path).expect("can be read");
    entries
        .map(|entry| size(&entry.expect("entry").path()))
        .sum()
}

/// CPU time of this thread.
pub fn thread_seconds() -> f64 {
    seconds_of(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn seconds_of(clock: libc::clockid_t) -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills in `time`.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// What is under way to the disk is not to hold up who comes next.
pub fn settle() {
    // SAFETY: a system call without arguments.
    unsafe { libc::sync() };
}

/// The same bytes appended to a file, with fdatasync after each 1000 records.
pub fn floor(report: &mut Report, directory: &Path, workload: &Workload) {
    use std::io::Write;
    settle();
    let path = directory.join("floor");
    let mut file = std::fs::File::create(&path).expect("file");
    let start = Instant::now();
    let mut buffer = Vec::new();
    for batch in workload.batches(1000) {
        buffer.clear();
        for i in batch {
            buffer.extend_from_slice(&workload.key(i).0);
            buffer.extend_from_slice(workload.value(i));
        }
        file.write_all(&buffer).expect("room");
        file.sync_data().expect("sync");
    }
    let rate = workload.len() as f64 / start.elapsed().as_secs_f64() / 1e3;
    remove(&path);
    report.add("append and fdatasync", "floor", rate, "k/s");
}

/// Everything in one durable commit, and what can then be done with it.
pub fn bulk(report: &mut Report, directory: &Path, kind: Kind, workload: &Workload) {
    settle();
    let who = kind.name();
    let path = directory.join(who);
    let candidate = kind.open(&path);
    let start = Instant::now();
    kind.insert_bulk(&*candidate, workload);
    let rate = workload.len() as f64 / start.elapsed().as_secs_f64() / 1e3;
    report.add("insert: all in one commit", who, rate, "k/s");
    let relative = size(&path) as f64 / workload.payload() as f64;
    report.add("size / payload, one commit", who, relative, "");
    lookups(report, who, &*candidate, workload);
    drop(candidate);
    open_and_get(report, kind, &path, workload);
    beside_a_writer(report, kind, &path, workload);
    small_commits(report, kind, &path);
    remove(&path);
}

fn lookups(report: &mut Report, who: &'static str, candidate: &dyn Candidate, workload: &Workload) {
    let hits = workload.some_keys(LOOKUPS);
    let misses = workload.absent_keys(LOOKUPS);
    // Of several times the best, by this thread's CPU time: what lookups cost
    // where nothing else runs. The first warms up.
    let (mut best_hit, mut best_miss) = (0.0f64, 0.0f64);
    for _ in 0..4 {
        let start = thread_seconds();
        let found = candidate.count_found(&hits);
        assert_eq!(found, hits.len());
        best_hit = best_hit.max(hits.len() as f64 / (thread_seconds() - start) / 1e6);
        let start = thread_seconds();
        assert_eq!(candidate.count_found(&misses), 0);
        best_miss = best_miss.max(misses.len() as f64 / (thread_seconds() - start) / 1e6);
    }
    report.add("lookup: hit", who, best_hit, "M/s");
    report.add("lookup: miss", who, best_miss, "M/s");
    for (what, keys, count) in [
        ("lookup: hit, many with one call", &hits, hits.len()),
        ("lookup: miss, many with one call", &misses, 0),
    ] {
        let mut best = 0.0f64;
        for _ in 0..4 {
            let start = thread_seconds();
            if let Some(found) = candidate.count_found_at_once(keys) {
                assert_eq!(found, count);
                best = best.max(keys.len() as f64 / (thread_seconds() - start) / 1e6);
            }
        }
        if best > 0.0 {
            report.add(what, who, best, "M/s");
        }
    }
    let mut best = 0.0f64;
    for _ in 0..3 {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for half in hits.chunks(hits.len() / 2) {
                scope.spawn(move || assert_eq!(candidate.count_found(half), half.len()));
            }
        });
        best = best.max(hits.len() as f64 / start.elapsed().as_secs_f64() / 1e6);
    }
    report.add("lookup: hit, two threads", who, best, "M/s");
}

fn open_and_get(report: &mut Report, kind: Kind, path: &Path, workload: &Workload) {
    let key = [workload.key(workload.len() / 2)];
    let mut best = f64::MAX;
    for _ in 0..9 {
        let start = Instant::now();
        let candidate = kind.open(path);
        assert_eq!(candidate.count_found(&key), 1);
        best = best.min(start.elapsed().as_secs_f64() * 1e6);
    }
    report.add("open and one lookup (best of 9)", kind.name(), best, "us");
}

/// Lookups while another process commits durably.
fn beside_a_writer(report: &mut Report, kind: Kind, path: &Path, workload: &Workload) {
    let candidate = kind.open(path);
    let hits = workload.some_keys(LOOKUPS);
    candidate.count_found(&hits);
    let start = Instant::now();
    candidate.count_found(&hits);
    let alone = hits.len() as f64 / start.elapsed().as_secs_f64() / 1e6;
    let more = Workload::seeded(workload.len() / 4, 77);
    let stop = AtomicBool::new(false);
    let (rate, written) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            // A handle of its own where the database allows it, as another process has.
            let other = kind.open_again(path);
            let candidate = other.as_deref().unwrap_or(&*candidate);
            let start = Instant::now();
            let mut written = 0;
            for batch in more.batches(1000) {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                written += batch.len();
                candidate.insert(&more, batch, true);
            }
            written as f64 / start.elapsed().as_secs_f64() / 1e3
        });
        let start = Instant::now();
        let mut looked_up = 0;
        while !writer.is_finished() {
            let from = looked_up % (hits.len() - 1000);
            looked_up += candidate.count_found(&hits[from..from + 1000]);
            if start.elapsed().as_secs() >= 3 {
                stop.store(true, Ordering::Relaxed);
            }
        }
        let rate = looked_up as f64 / start.elapsed().as_secs_f64() / 1e6;
        (rate, writer.join().expect("writer"))
    });
    let who = kind.name();
    report.add("lookup: hit, alone", who, alone, "M/s");
    report.add("lookup: hit, beside a durable writer", who, rate, "M/s");
    report.add(
        "insert: 1000 a durable commit, read from",
        who,
        written,
        "k/s",
    );
}

/// Commits of 20 small records into the full store: how many, and what the file
/// grows by, beside the payload.
fn small_commits(report: &mut Report, kind: Kind, path: &Path) {
    const COMMITS: usize = 500;
    let small = Workload::small(20 * COMMITS);
    let candidate = kind.open(path);
    let before = candidate.bytes_used();
    let start = Instant::now();
    for batch in small.batches(20) {
        candidate.insert(&small, batch, false);
    }
    let rate = COMMITS as f64 / start.elapsed().as_secs_f64() / 1e3;
    let payload = small.payload() + 32 * small.len();
    report.add("20 records a lazy commit", kind.name(), rate, "k/s");
    if let (Some(before), Some(after)) = (before, candidate.bytes_used()) {
        let beside = ((after - before) as f64 - payload as f64) / COMMITS as f64;
        report.add(
            "20-record commit, log beside payload",
            kind.name(),
            beside,
            "B",
        );
    }
}

/// 1000 records a durable commit.
pub fn batches(report: &mut Report, directory: &Path, kind: Kind, workload: &Workload) {
    settle();
    let who = kind.name();
    let path = directory.join(who);
    let candidate = kind.open(&path);
    let start = Instant::now();
    let mut inserted = 0;
    for batch in workload.batches(1000) {
        if kind.is_slow_at_commits() && inserted >= SLOW_INSERTS {
            break;
        }
        inserted += batch.len();
        candidate.insert(workload, batch, true);
    }
    let rate = inserted as f64 / start.elapsed().as_secs_f64() / 1e3;
    report.add("insert: 1000 a durable commit", who, rate, "k/s");
    drop(candidate);
    if kind == Kind::Store {
        let beyond = size(&path) as f64 - 1.08 * workload.payload() as f64;
        let beyond = beyond / workload.len() as f64;
        report.add("bytes a record beyond 1.08 x payload", who, beyond, "B");
        for (what, seconds) in candidates::recover_and_verify(&path) {
            report.add(what, who, seconds, "s");
        }
    }
    remove(&path);
}

/// What it costs that lazy commits, too, move the checkpoint, and what that is for.
pub fn lazy(report: &mut Report, directory: &Path, workload: &Workload) {
    let path = directory.join("lazy");
    for who in ["store", "store, no checkpoints"] {
        settle();
        let candidate = match who {
            "store" => Kind::Store.open(&path),
            _ => candidates::open_without_checkpoints(&path),
        };
        let start = Instant::now();
        let mut longest = 0.0f64;
        for batch in workload.batches(1000) {
            let start = Instant::now();
            candidate.insert(workload, batch, false);
            longest = longest.max(start.elapsed().as_secs_f64());
        }
        let rate = workload.len() as f64 / start.elapsed().as_secs_f64() / 1e3;
        report.add("insert: 1000 a lazy commit", who, rate, "k/s");
        report.add("longest lazy commit of 1000", who, longest * 1e3, "ms");
        drop(candidate);
        let [(_, seconds), _] = candidates::recover_and_verify(&path);
        report.add("open after a power cut, lazy commits", who, seconds, "s");
        remove(&path);
    }
}

/// So many small transactions, by one process or shared among many.
const SMALL_LAZY: usize = 16_000;
/// Likewise, where each waits for the disk.
const SMALL_DURABLE: usize = 1_600;
const WRITERS: usize = 16;

/// Small transactions of one process alone, then of 16 at once: as many in all.
pub fn contention(report: &mut Report, directory: &Path) {
    for (durable, steps) in [(false, SMALL_LAZY), (true, SMALL_DURABLE)] {
        let (what, wait) = if durable {
            ("small durable commits", "longest wait for a durable one")
        } else {
            ("small lazy commits", "longest wait for a lazy one")
        };
        // Short as they are, of each the median of some, one after the other.
        let mut runs = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..5 {
            runs[0].push(together(directory, 1, steps, durable));
            runs[1].push(together(directory, 1, steps / WRITERS, durable));
            runs[2].push(together(directory, WRITERS, steps / WRITERS, durable));
        }
        let who = ["1 process", "1 process, its share", "16 processes"];
        for (who, mut runs) in who.into_iter().zip(runs) {
            runs.sort_by(|a, b| a.rate.total_cmp(&b.rate));
            let median = &runs[runs.len() / 2];
            report.add(what, who, median.rate, "k/s");
            report.add(wait, who, median.longest * 1e3, "ms");
        }
    }
}

struct Writers {
    /// Thousands of commits a second, of all together.
    rate: f64,
    /// The longest that one of them took, in seconds.
    longest: f64,
}

/// So many processes, each committing so many transactions of three records. Timed from
/// the moment at which all of them are there, and may open the store, to the last commit.
fn together(directory: &Path, writers: usize, steps: usize, durable: bool) -> Writers {
    let path = directory.join("contention");
    drop(Kind::Store.open(&path));
    let program = std::env::current_exe().expect("own path");
    let mut children: Vec<_> = (0..writers)
        .map(|writer| {
            let mut command = Command::new(&program);
            command.arg(WRITER).arg(&path);
            command.args([writer, steps, usize::from(durable)].map(|number| number.to_string()));
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            command.spawn().expect("a writer starts")
        })
        .collect();
    let mut replies: Vec<_> = (children.iter_mut())
        .map(|child| BufReader::new(child.stdout.take().expect("a pipe")).lines())
        .collect();
    let mut next = || -> Vec<String> {
        let lines = replies.iter_mut().map(|lines| lines.next());
        lines
            .map(|line| line.expect("a line").expect("text"))
            .collect()
    };
    next();
    let start = uptime();
    for child in &mut children {
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(b"\n").expect("it listens");
    }
    let (mut end, mut longest) = (start, 0.0f64);
    for line in next() {
        let (ended, waited) = line.split_once(' ').expect("two numbers");
        end = end.max(ended.parse().expect("a number"));
        longest = longest.max(waited.parse().expect("a number"));
    }
    for mut child in children {
        assert!(
            child.wait().expect("own child").success(),
            "a writer failed"
        );
    }
    let rate = (writers * steps) as f64 / (end - start) / 1e3;
    candidates::check_store(&path, writers * steps * 3);
    remove(&path);
    Writers { rate, longest }
}

/// The first argument of a process that is one of [`together`]'s writers.
pub const WRITER: &str = "--writer";

/// What such a process does: path, number, transactions, whether they are durable.
pub fn writer(mut arguments: impl Iterator<Item = String>) {
    let path = arguments.next().expect("a path");
    let numbers: Vec<usize> = (arguments)
        .map(|number| number.parse().expect("a number"))
        .collect();
    let &[writer, steps, durable] = numbers.as_slice() else {
        panic!("three numbers");
    };
    let own = Workload::seeded(steps * 3, 1000 + writer as u64);
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).expect("go");
    let store = Kind::Store.open(path.as_ref());
    let mut longest = 0.0f64;
    for batch in own.batches(3) {
        let start = Instant::now();
        store.insert(&own, batch, durable != 0);
        longest = longest.max(start.elapsed().as_secs_f64());
    }
    println!("{} {longest}", uptime());
}

/// Seconds since some moment, the same for all processes.
fn uptime() -> f64 {
    seconds_of(libc::CLOCK_MONOTONIC)
}
