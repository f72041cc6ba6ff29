//! The storage engine side by side with embedded databases, in one run.
//!
//! ```text
//! bench-store [--records N] [--peers a,b] [--dir DIRECTORY] [--only WORD]
//! ```
//!
//! `--peers` of lmdb, redb, fjall, rocksdb; `none` for none. `--only` a part:
//! floor, bulk, lookup, size, small, batches, lazy, mixed, contention. Each line is
//! printed as soon as it is measured.
//!
//! Keys are 32-byte digests, values log-normal around a median of 300 bytes and
//! a mean of 800, as fragments of programs are. What counts are the ratios.

mod candidates;
mod workload;

use candidates::{Candidate, Kind};
use std::path::{Path, PathBuf};
use std::time::Instant;
use workload::Workload;

struct Arguments {
    records: usize,
    peers: Option<Vec<String>>,
    directory: Option<PathBuf>,
    only: Option<String>,
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments {
        records: 1_000_000,
        peers: None,
        directory: None,
        only: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--records" => arguments.records = value()?.parse().map_err(|_| "bad number")?,
            "--peers" => arguments.peers = Some(value()?.split(',').map(str::to_owned).collect()),
            "--dir" => arguments.directory = Some(value()?.into()),
            "--only" => arguments.only = Some(value()?),
            _ => return Err(format!("unknown argument {word}")),
        }
    }
    Ok(arguments)
}

fn main() {
    let arguments = arguments().unwrap_or_else(|error| {
        eprintln!("bench-store: error: {error}");
        std::process::exit(2);
    });
    let directory = match &arguments.directory {
        Some(directory) => tempfile::tempdir_in(directory),
        None => tempfile::tempdir(),
    }
    .expect("a directory to work in");
    let workload = Workload::new(arguments.records);
    println!(
        "{} records, {:.1} MB of values, mean {:.0} bytes",
        workload.len(),
        workload.payload() as f64 / 1e6,
        workload.payload() as f64 / workload.len() as f64
    );
    let wanted = |name: &str| {
        arguments
            .only
            .as_deref()
            .is_none_or(|only| name.contains(only))
    };
    let kinds: Vec<Kind> = Kind::all()
        .into_iter()
        .filter(|kind| match &arguments.peers {
            Some(peers) => kind.name() == "store" || peers.iter().any(|peer| peer == kind.name()),
            None => true,
        })
        .collect();
    if wanted("floor") {
        let seconds = floor(&directory.path().join("floor"), &workload);
        report(
            "floor: append + fdatasync",
            "append",
            workload.len() as f64 / seconds / 1e3,
            "k/s",
        );
    }
    for kind in kinds {
        let path = |name: &str| directory.path().join(format!("{}-{name}", kind.name()));
        if wanted("bulk") || wanted("lookup") || wanted("size") || wanted("small") {
            let path = path("bulk");
            let candidate = kind.open(&path);
            let start = Instant::now();
            kind.insert_bulk(&*candidate, &workload);
            let rate = workload.len() as f64 / start.elapsed().as_secs_f64() / 1e3;
            report(
                "insert: all in one durable commit",
                kind.name(),
                rate,
                "k/s",
            );
            report(
                "size / payload, one commit",
                kind.name(),
                size(&path) as f64 / workload.payload() as f64,
                "",
            );
            lookups(kind.name(), &*candidate, &workload);
            drop(candidate);
            open_and_get(kind, &path, &workload);
            if wanted("small") {
                small_commits(kind, &path);
            }
            remove(&path);
        }
        if wanted("batches") {
            let path = path("batches");
            let candidate = kind.open(&path);
            let start = Instant::now();
            for batch in workload.batches(1000) {
                candidate.insert(&workload, batch, true);
            }
            let rate = workload.len() as f64 / start.elapsed().as_secs_f64() / 1e3;
            report("insert: 1000 a durable commit", kind.name(), rate, "k/s");
            report(
                "size / payload, 1000 a commit",
                kind.name(),
                size(&path) as f64 / workload.payload() as f64,
                "",
            );
            if kind.name() == "store" {
                let beyond = size(&path) as f64 - 1.08 * workload.payload() as f64;
                report(
                    "bytes a record beyond 1.08 x payload",
                    "store",
                    beyond / workload.len() as f64,
                    "B",
                );
                lookups("store, after 1000 a commit", &*candidate, &workload);
            }
            drop(candidate);
            if kind.name() == "store" {
                for (what, seconds) in candidates::recover_and_verify(&path) {
                    report(what, "store", seconds, "s");
                }
            }
            remove(&path);
        }
        if wanted("lazy") && kind == Kind::Store {
            let path = path("lazy");
            lazy_commits("store", kind.open(&path), &path, &workload);
            let candidate = candidates::open_without_checkpoints(&path);
            lazy_commits("store, no checkpoints", candidate, &path, &workload);
        }
        if wanted("mixed") {
            mixed(kind, &path("mixed"), &workload);
            remove(&path("mixed"));
        }
    }
    if wanted("contention") {
        contention(directory.path());
    }
}

fn report(what: &str, who: &str, value: f64, unit: &str) {
    println!("{what:40} {who:28} {value:12.3} {unit}");
}

fn remove(path: &Path) {
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
fn thread_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills in `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// The same bytes appended to a file, with fdatasync after each 1000 records.
fn floor(path: &Path, workload: &Workload) -> f64 {
    use std::io::Write;
    let mut file = std::fs::File::create(path).expect("file");
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
    let seconds = start.elapsed().as_secs_f64();
    std::fs::remove_file(path).expect("own file");
    seconds
}

const LOOKUPS: usize = 1_000_000;

fn lookups(who: &str, candidate: &dyn Candidate, workload: &Workload) {
    let hits = workload.some_keys(LOOKUPS);
    let misses = workload.absent_keys(LOOKUPS);
    // Of several rounds the best, by this thread's CPU time: what lookups cost
    // where nothing else runs. The first warms up.
    let (mut best_hit, mut best_miss) = (0.0f64, 0.0f64);
    for _ in 0..5 {
        let start = thread_seconds();
        let found = candidate.count_found(&hits);
        assert_eq!(found, hits.len());
        best_hit = best_hit.max(hits.len() as f64 / (thread_seconds() - start) / 1e6);
        let start = thread_seconds();
        assert_eq!(candidate.count_found(&misses), 0);
        best_miss = best_miss.max(misses.len() as f64 / (thread_seconds() - start) / 1e6);
    }
    report("lookup: hit", who, best_hit, "M/s");
    report("lookup: miss", who, best_miss, "M/s");
    let start = Instant::now();
    std::thread::scope(|scope| {
        for half in hits.chunks(hits.len() / 2) {
            scope.spawn(move || assert_eq!(candidate.count_found(half), half.len()));
        }
    });
    report(
        "lookup: hit, two threads",
        who,
        hits.len() as f64 / start.elapsed().as_secs_f64() / 1e6,
        "M/s",
    );
}

fn open_and_get(kind: Kind, path: &Path, workload: &Workload) {
    let key = [workload.key(workload.len() / 2)];
    let mut best = f64::MAX;
    for _ in 0..9 {
        let start = Instant::now();
        let candidate = kind.open(path);
        assert_eq!(candidate.count_found(&key), 1);
        best = best.min(start.elapsed().as_secs_f64() * 1e6);
    }
    report("open and one lookup (best of 9)", kind.name(), best, "us");
}

/// Commits of 20 small records into the full store: what the file grows by,
/// beside the payload.
fn small_commits(kind: Kind, path: &Path) {
    let small = Workload::small(20 * 100);
    let candidate = kind.open(path);
    let before = (size(path), candidate.bytes_used());
    let start = Instant::now();
    for batch in small.batches(20) {
        candidate.insert(&small, batch, false);
    }
    let seconds = start.elapsed().as_secs_f64();
    let payload = small.payload() + 32 * small.len();
    report(
        "20 records a lazy commit",
        kind.name(),
        100.0 / seconds,
        "commits/s",
    );
    if let (Some(before), Some(after)) = (before.1, candidate.bytes_used()) {
        let beside = (after - before) as f64 - payload as f64;
        report(
            "20-record commit, log beside payload",
            kind.name(),
            beside / 100.0,
            "B",
        );
    }
}

/// What it costs that lazy commits, too, move the checkpoint, and what that is for.
fn lazy_commits(who: &str, candidate: Box<dyn Candidate>, path: &Path, workload: &Workload) {
    let start = Instant::now();
    let mut longest = 0.0f64;
    for batch in workload.batches(1000) {
        let start = Instant::now();
        candidate.insert(workload, batch, false);
        longest = longest.max(start.elapsed().as_secs_f64());
    }
    let rate = workload.len() as f64 / start.elapsed().as_secs_f64() / 1e3;
    report("insert: 1000 a lazy commit", who, rate, "k/s");
    report("longest lazy commit of 1000", who, longest * 1e3, "ms");
    drop(candidate);
    let [(what, seconds), _] = candidates::recover_and_verify(path);
    report(&format!("{what}, lazy commits only"), who, seconds, "s");
    remove(path);
}

/// Lookups while another process commits durably.
fn mixed(kind: Kind, path: &Path, workload: &Workload) {
    let candidate = kind.open(path);
    kind.insert_bulk(&*candidate, workload);
    let hits = workload.some_keys(LOOKUPS);
    candidate.count_found(&hits);
    let start = Instant::now();
    candidate.count_found(&hits);
    let alone = hits.len() as f64 / start.elapsed().as_secs_f64() / 1e6;
    let more = Workload::seeded(workload.len() / 4, 77);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let (rate, written) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            // A handle of its own where the database allows it, as another process has.
            let other = kind.open_again(path);
            let candidate = other.as_deref().unwrap_or(&*candidate);
            let start = Instant::now();
            let mut written = 0;
            for batch in more.batches(1000) {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
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
            if start.elapsed().as_secs() >= 5 {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let rate = looked_up as f64 / start.elapsed().as_secs_f64() / 1e6;
        (rate, writer.join().expect("writer"))
    });
    report("lookup: hit, alone", kind.name(), alone, "M/s");
    report(
        "lookup: hit, with a durable writer",
        kind.name(),
        rate,
        "M/s",
    );
    report(
        "insert: 1000 a durable commit, read from",
        kind.name(),
        written,
        "k/s",
    );
}

/// One process alone, then 16 at once, each committing small transactions.
fn contention(directory: &Path) {
    const STEPS: usize = 1000;
    let run = |writers: usize| {
        let path = directory.join(format!("contention-{writers}"));
        drop(Kind::Store.open(&path));
        let start = Instant::now();
        let children: Vec<_> = (0..writers)
            .map(|writer| {
                // SAFETY: the child only uses memory of its own and leaves by _exit.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    let store = Kind::Store.open(&path);
                    let own = Workload::seeded(STEPS * 3, 1000 + writer as u64);
                    let mut longest = 0.0f64;
                    for batch in own.batches(3) {
                        let start = Instant::now();
                        store.insert(&own, batch, false);
                        longest = longest.max(start.elapsed().as_secs_f64());
                    }
                    let end = start.elapsed().as_secs_f64();
                    let report = directory.join(format!("report-{writers}-{writer}"));
                    std::fs::write(report, format!("{longest} {end}")).expect("report");
                    // SAFETY: leaves without running anything of the parent's.
                    unsafe { libc::_exit(0) };
                }
                child
            })
            .collect();
        for child in children {
            let mut status = 0;
            // SAFETY: waits for an own child.
            unsafe { libc::waitpid(child, &mut status, 0) };
            assert_eq!(status, 0, "a writer failed");
        }
        let seconds = start.elapsed().as_secs_f64();
        let reports: Vec<(f64, f64)> = (0..writers)
            .map(|writer| {
                let text =
                    std::fs::read_to_string(directory.join(format!("report-{writers}-{writer}")));
                let text = text.expect("report");
                let mut numbers = text.split(' ').map(|n| n.parse().expect("number"));
                (
                    numbers.next().expect("longest"),
                    numbers.next().expect("end"),
                )
            })
            .collect();
        let who = format!("store, {writers} processes");
        report(
            "small lazy commits",
            &who,
            (writers * STEPS) as f64 / seconds,
            "commits/s",
        );
        let longest = reports.iter().map(|report| report.0).fold(0.0, f64::max);
        report("longest wait for one commit", &who, longest * 1e3, "ms");
        let first = reports
            .iter()
            .map(|report| report.1)
            .fold(f64::MAX, f64::min);
        report("first done / last done", &who, first / seconds, "");
        candidates::check_store(&path, writers * STEPS * 3);
    };
    run(1);
    run(16);
}
