//! What a compaction costs, and whom it keeps waiting.
//!
//! `bench-compactor --help` says how to call it.
//!
//! A repository is filled with so many megabytes, of which half is live, as the input of an image whose output is there. It is
//! compacted twice, each time by a process of its own: alone, and while so many processes write and one reads. Measured are the
//! speed beside that of copying a file to the same disk (the old one before, the new one after; `fsync` at the end), the memory that is no
//! file's, the size beside what the records take, and the longest times in which a writer's `add` and a reader's look did
//! not return (each pauses so long after it, as a compiler would; without a pause, they write more than can be copied); these also without a compaction, as other processes of the machine hold them up as well.

mod commands;
mod units;

use anyhow::{Context, Result, bail, ensure};
use commands::Measured;
use compactor::compact::compact;
use compactor::observer::Observer;
use compactor::priority::Rank;
use compactor::roots::{HOLDS, PART, Wishes};
use format_spec::digest::Digest;
use format_spec::file::{IndexSlot, VectorSlot};
use memmap2::MmapRaw;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use store::engine::{self, Linux, OpenOptions, Store, System};
use store::program::{Addition, NewImage, NewImageInput, ProgramError, Repository, record_image};
use units::Text;

const HELP: &str = "\
What a compaction costs, and whom it keeps waiting.

usage: bench-compactor [--megabytes N] [--writers N] [--pause MILLISECONDS] [--only alone|beside] [--dir DIRECTORY]
           Fills a repository with N megabytes (400), of which half is live, and compacts it: alone, and while so
           many processes write (8), each pausing so long after an addition (20), and one reads.
       bench-compactor --links COMMAND --repo FILE [--gc PROGRAM] [--times N]
           Runs a shell command, a full link of tickets, before and after a compaction of the repository, each time
           with nothing of it in memory and again with all of it. Copy the repository first if you need it.
       bench-compactor --beside COMMAND --repo FILE [--gc PROGRAM] [--times N]
           Runs a shell command, a build, alone and beside repo-gc --idle, in turns, on a machine with nothing else
           to do. Each time before, give the compaction something to do.
       bench-compactor --stops --repo FILE [--gc PROGRAM] [--times N]
           Starts repo-gc --idle, has it see other work after a while, and says how long it goes on. The repository must
           have something to throw away, and stays as it is.

--gc is repo-gc of the search path if it is not given, --times 9.
";

/// Units are added so many at once.
const BATCH: u64 = 64;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["compact", path] => return compact_once(Path::new(path)),
        ["fill", path, megabytes] => return fill(Path::new(path), megabytes.parse::<u64>()? << 20),
        ["write", path, number, pause] => {
            let pause = Duration::from_millis(pause.parse()?);
            return write(Path::new(path), number.parse()?, pause);
        }
        ["read", path] => return read(Path::new(path)),
        _ => {}
    }
    if matches!(words[..], ["--help" | "-h"]) {
        print!("{HELP}");
        return Ok(());
    }
    let (mut megabytes, mut writers, mut pause, mut directory) = (400, 8, 20, std::env::temp_dir());
    let (mut links, mut builds, mut only) = (None, None, None);
    let stops = words.first() == Some(&"--stops");
    let words = &words[usize::from(stops)..];
    let (mut repository, mut gc, mut times) = (None, PathBuf::from("repo-gc"), 9);
    for pair in words.chunks(2) {
        match pair {
            ["--megabytes", value] => megabytes = value.parse()?,
            ["--writers", value] => writers = value.parse()?,
            ["--pause", value] => pause = value.parse()?,
            ["--dir", value] => directory = PathBuf::from(value),
            ["--only", value @ ("alone" | "beside")] => only = Some(*value),
            ["--links", value] => links = Some((*value).to_owned()),
            ["--beside", value] => builds = Some((*value).to_owned()),
            ["--repo", value] => repository = Some(PathBuf::from(value)),
            ["--gc", value] => gc = PathBuf::from(value),
            ["--times", value] => times = value.parse()?,
            _ => bail!("{HELP}"),
        }
    }
    let measured = |command: String| -> Result<Measured> {
        Ok(Measured {
            command,
            repository: repository.clone().context("--repo FILE is missing")?,
            gc: gc.clone(),
            times,
        })
    };
    if stops {
        return measured(String::new())?.stops();
    }
    match (links, builds) {
        (Some(command), _) => return measured(command)?.links(),
        (None, Some(command)) => return measured(command)?.beside(),
        (None, None) => {}
    }
    let place = tempfile::tempdir_in(directory)?;
    let path = place.path().join("program.repo");
    fill(&path, megabytes << 20)?;
    if only != Some("beside") {
        alone(&path)?;
        if only == Some("alone") {
            return Ok(());
        }
        // What the first compaction has thrown away is there again.
        fill(&path, megabytes << 20)?;
    }
    beside(&path, writers, pause)
}

/// Fills a repository up to a size. Every second unit is an input of an image.
fn fill(path: &Path, bytes: u64) -> Result<()> {
    let repository = Repository::open_or_create(path)?;
    let begun = Instant::now();
    let mut inputs = Vec::new();
    let mut number = 0;
    while repository.store().size()? < bytes {
        let texts: Vec<Text> = (number..number + BATCH).map(Text::new).collect();
        let mut units = texts
            .iter()
            .map(Text::unit)
            .collect::<Result<Vec<_>, _>>()?;
        units.iter_mut().for_each(|unit| unit.compress());
        let additions = units.iter().map(|prepared| Addition {
            prepared,
            ticket: None,
        });
        repository.add(&additions.collect::<Vec<_>>())?;
        let live = units.iter().step_by(2).map(|unit| NewImageInput {
            compilation: Some(unit.digest),
            path: format!("unit{number}.o").into_bytes(),
        });
        inputs.extend(live);
        number += BATCH;
    }
    let output = path.with_file_name("program");
    std::fs::write(&output, "")?;
    let image = NewImage {
        path: &output,
        options: Digest::of(b"none"),
        output_size: 0,
        inputs: &inputs,
        archives: &[],
    };
    record_image(repository.store(), &image)?;
    repository.store().sync()?;
    println!(
        "filled: {number} units, {} in {:.1} s",
        in_megabytes(repository.store().size()?),
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

fn alone(path: &Path) -> Result<()> {
    // Where a virtual machine has to get the memory for the kernel's pages from its host, who comes first pays for both.
    let copied_before = copy_speed(path)?;
    let mut child = ourselves(&["compact", &path.display().to_string()])?;
    let begun = Instant::now();
    let mut anonymous = 0;
    while child.try_wait()?.is_none() {
        anonymous = anonymous.max(anonymous_memory(child.id()));
        std::thread::sleep(Duration::from_millis(5));
    }
    ensure!(child.wait()?.success(), "the compaction failed");
    let took = begun.elapsed();
    let repository = Repository::open(path)?;
    let after = repository.store().size()?;
    let copied = copy_speed(path)?;
    let speed = after as f64 / took.as_secs_f64();
    println!(
        "alone: {} in {:.2} s, {}/s; the disk copies {}/s before and {}/s after: ratios {:.2} and {:.2}",
        in_megabytes(after),
        took.as_secs_f64(),
        in_megabytes(speed as u64),
        in_megabytes(copied_before as u64),
        in_megabytes(copied as u64),
        speed / copied_before,
        speed / copied
    );
    let LiveBytes {
        records,
        words,
        fragments,
    } = live_bytes(&repository)?;
    println!(
        "size: {after} bytes, of which records {records}: {:.3} times; with a word for each in indices and vectors {}: {:.3} times",
        after as f64 / records as f64,
        records + words,
        after as f64 / (records + words) as f64
    );
    println!(
        "memory: {} that are no file's, for {fragments} fragments: 100 MB and {:.0} bytes each",
        in_megabytes(anonymous),
        anonymous.saturating_sub(100_000_000) as f64 / fragments as f64
    );
    Ok(())
}

fn beside(path: &Path, writers: u32, pause: u32) -> Result<()> {
    let pause = pause.to_string();
    let shown = path.display().to_string();
    for compacts in [false, true] {
        // Else the first of them to move the checkpoint reads what is not known to be on the disk, and the others wait for that.
        Repository::open(path)?.store().sync()?;
        let mut others = Vec::new();
        for number in 0..writers {
            others.push(ourselves(&["write", &shown, &number.to_string(), &pause])?);
        }
        others.push(ourselves(&["read", &shown])?);
        let begun = Instant::now();
        let mut said = String::new();
        match compacts {
            true => {
                let done = ourselves(&["compact", &shown])?.wait_with_output()?;
                ensure!(done.status.success(), "the compaction failed");
                said = String::from_utf8(done.stdout)?;
            }
            false => std::thread::sleep(Duration::from_secs(10)),
        }
        let took = begun.elapsed().as_secs_f64();
        let ended = now_in_micros()?;
        let phases = Phase::all(&said)?;
        let (mut adds, mut looks, mut count) = (Vec::new(), Vec::new(), 0_u64);
        for (place, mut other) in others.into_iter().enumerate() {
            // It ends with its standard input.
            drop(other.stdin.take());
            let done = other.wait_with_output()?;
            ensure!(done.status.success(), "a writer or reader failed");
            let said = String::from_utf8(done.stdout)?;
            let (times, waits) = said.split_once('\n').context("lines")?;
            let waits = waits.lines().map(Wait::read);
            if place < writers as usize {
                count += times.parse::<u64>()?;
                adds.extend(waits.collect::<Result<Vec<_>>>()?);
            } else {
                looks.extend(waits.collect::<Result<Vec<_>>>()?);
            }
        }
        println!(
            "{writers} writers {}: longest add {}, longest look {}; {count} additions in {took:.1} s",
            if compacts {
                "and a compaction"
            } else {
                "alone"
            },
            Wait::longest(&adds, 0..u64::MAX),
            Wait::longest(&looks, 0..u64::MAX),
        );
        for (phase, next) in phases
            .iter()
            .zip(phases.iter().skip(1).chain([&Phase::NEVER]))
        {
            let times = phase.since..next.since;
            println!(
                "  {}, {:.1} s: longest add {}, longest look {}",
                phase.what,
                (next.since.min(ended) - phase.since.min(ended)) as f64 / 1e6,
                Wait::longest(&adds, times.clone()),
                Wait::longest(&looks, times),
            );
        }
        if let Some(end) = phases.last() {
            println!(
                "  the lock was held for {:.1} ms at once, at most",
                end.held as f64 / 1e3
            );
        }
    }
    Ok(())
}

/// How long somebody waited, and when that began, in microseconds.
#[derive(Clone, Copy, Default)]
struct Wait {
    waited: u64,
    since: u64,
    /// How long of that for the disk.
    of_disk: u64,
}

impl Wait {
    fn read(line: &str) -> Result<Wait> {
        let mut numbers = line.split(' ').map(str::parse);
        let mut next = || Ok::<u64, anyhow::Error>(numbers.next().context("three numbers")??);
        Ok(Wait {
            waited: next()?,
            since: next()?,
            of_disk: next()?,
        })
    }

    /// The longest that began in a time.
    fn longest(all: &[Wait], time: Range<u64>) -> String {
        let of = all.iter().filter(|wait| time.contains(&wait.since));
        let longest = of
            .max_by_key(|wait| wait.waited)
            .copied()
            .unwrap_or_default();
        let disk = match longest.of_disk {
            0 => String::new(),
            disk => format!(" ({:.1} of the disk)", disk as f64 / 1e3),
        };
        format!("{:.1} ms{disk}", longest.waited as f64 / 1e3)
    }
}

/// What a compaction did from some moment on.
struct Phase<'t> {
    since: u64,
    /// How long it held the lock at once; of the end.
    held: u64,
    what: &'t str,
}

impl<'t> Phase<'t> {
    const NEVER: Phase<'static> = Phase {
        since: u64::MAX,
        held: 0,
        what: "",
    };

    /// All of what a compaction has [said](Phases).
    fn all(said: &'t str) -> Result<Vec<Phase<'t>>> {
        let phase = |line: &'t str| -> Result<Phase<'t>> {
            let mut words = line.splitn(3, ' ');
            let mut next = || words.next().context("three words");
            Ok(Phase {
                since: next()?.parse()?,
                held: next()?.parse()?,
                what: next()?,
            })
        };
        said.lines().map(phase).collect()
    }
}

fn ourselves(words: &[&str]) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    Ok(command.spawn()?)
}

fn compact_once(path: &Path) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let wishes = Wishes {
        now: u64::try_from(now.as_nanos())?,
        grace: 0,
        unused: 0,
        max_size: None,
        holds: HOLDS,
        part: PART,
        threads: std::thread::available_parallelism()?.get(),
        rank: Rank::Behind,
        roots: Vec::new(),
    };
    let report = compact(&Repository::open(path)?, &wishes, &Phases)?;
    println!(
        "{} {} end",
        now_in_micros()?,
        report.longest_hold.as_micros()
    );
    Ok(())
}

/// Writes when each phase of a compaction begins.
struct Phases;

impl Observer for Phases {
    fn begin(&self, what: &'static str, _: u64) {
        if let Ok(now) = now_in_micros() {
            println!("{now} 0 {what}");
        }
    }

    fn step(&self) {}
}

fn now_in_micros() -> Result<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(u64::try_from(now.as_micros())?)
}

/// Until standard input ends, calls `work`, and then writes how many calls there were, and, of each that took a while and of the longest, how
/// many microseconds it took and when it began.
fn until_told(
    pause: Duration,
    disk: &AtomicU64,
    mut work: impl FnMut() -> Result<()>,
) -> Result<()> {
    const WHILE: u64 = 5000;
    let ended = std::thread::spawn(|| std::io::stdin().read_line(&mut String::new()).is_ok());
    let (mut waits, mut count) = (vec![Wait::default()], 0_u64);
    while !ended.is_finished() {
        let begun = Instant::now();
        disk.store(0, Ordering::Relaxed);
        work()?;
        let of_disk = disk.load(Ordering::Relaxed);
        let waited = u64::try_from(begun.elapsed().as_micros())?;
        let since = || Ok::<_, anyhow::Error>(now_in_micros()?.saturating_sub(waited));
        if waited >= WHILE {
            waits.push(Wait {
                waited,
                since: since()?,
                of_disk,
            });
        } else if waited > waits[0].waited {
            waits[0] = Wait {
                waited,
                since: since()?,
                of_disk,
            };
        }
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        count += 1;
    }
    println!("{count}");
    for Wait {
        waited,
        since,
        of_disk,
    } in waits
    {
        println!("{waited} {since} {of_disk}");
    }
    Ok(())
}

/// Linux, and how many microseconds it has waited for the disk.
#[derive(Default)]
struct Timed(AtomicU64);

impl Timed {
    fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = work();
        self.0
            .fetch_add(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
        done
    }
}

impl System for Timed {
    fn sync(&self, file: &File) -> std::io::Result<()> {
        self.time(|| Linux.sync(file))
    }

    fn sync_range(&self, file: &File, mapping: &MmapRaw, range: Range<u64>) -> std::io::Result<()> {
        self.time(|| Linux.sync_range(file, mapping, range))
    }

    fn start_write_back(&self, file: &File, range: Range<u64>) {
        self.time(|| Linux.start_write_back(file, range));
    }

    fn wait(&self, word: &AtomicU32, value: u32, most: Duration) -> bool {
        let wait = || Linux.wait(word, value, most);
        // Those who wait for somebody else's sync wait for so long; those for the lock, for less.
        match most >= Duration::from_millis(1) {
            true => self.time(wait),
            false => wait(),
        }
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        self.time(|| Linux.write_at(file, bytes, offset))
    }
}

fn write(path: &Path, number: u64, pause: Duration) -> Result<()> {
    let system = Arc::new(Timed::default());
    let options = OpenOptions {
        system: system.clone(),
        ..OpenOptions::default()
    };
    let open = || Ok::<_, anyhow::Error>(Repository::new(Store::open(path, &options)?));
    let mut repository = open()?;
    // Closed when the process ends: to have touched all of a file, as this does and no compiler, costs something then.
    let mut replaced = Vec::new();
    let begun = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
    let mut next = begun.wrapping_mul(1000).wrapping_add(number << 48);
    until_told(pause, &system.0, || {
        next = next.wrapping_add(51);
        let text = Text::new(next);
        let prepared = text.unit()?;
        loop {
            let additions = [Addition {
                prepared: &prepared,
                ticket: None,
            }];
            match repository.add(&additions) {
                Ok(_) => return Ok(()),
                Err(ProgramError::Engine(engine::Error::Replaced { .. })) => {
                    replaced.push(std::mem::replace(&mut repository, open()?));
                }
                Err(error) => return Err(error.into()),
            }
        }
    })
}

fn read(path: &Path) -> Result<()> {
    let repository = Repository::open(path)?;
    let mut next = 0_u64;
    until_told(Duration::ZERO, &AtomicU64::new(0), || {
        next += 1;
        let programs = repository.programs()?;
        let key = Digest::of(&next.to_le_bytes());
        ensure!(
            programs.compilation(&key).is_err(),
            "there is none of this digest"
        );
        Ok(())
    })
}

/// Memory of a process that is no file's.
fn anonymous_memory(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let number = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    number.unwrap_or_default() << 10
}

/// Bytes a second at which a file is copied to the same disk, and is there.
fn copy_speed(path: &Path) -> Result<f64> {
    let copy = path.with_extension("copy");
    let begun = Instant::now();
    let (mut from, mut to) = (File::open(path)?, File::create(&copy)?);
    let mut block = vec![0; 4 << 20];
    let mut size = 0;
    loop {
        let read = std::io::Read::read(&mut from, &mut block)?;
        if read == 0 {
            break;
        }
        to.write_all(&block[..read])?;
        size += read;
    }
    to.sync_all()?;
    let took = begun.elapsed();
    std::fs::remove_file(copy)?;
    Ok(size as f64 / took.as_secs_f64())
}

/// What a repository cannot be without.
struct LiveBytes {
    /// Those of records.
    records: u64,
    /// Those of a word for each record and each element.
    words: u64,
    fragments: u64,
}

fn live_bytes(repository: &Repository) -> Result<LiveBytes> {
    let programs = repository.programs()?;
    let snapshot = programs.snapshot();
    let (mut records, mut words) = (0, 0);
    for index in IndexSlot::all() {
        words += 8 * snapshot.count(index);
        for record in snapshot.iter(index) {
            records += record?.size();
        }
    }
    for vector in VectorSlot::all() {
        words += 8 * snapshot.vector_len(vector);
    }
    Ok(LiveBytes {
        records,
        words,
        fragments: snapshot.count(format_spec::program::Index::Fragments.slot()),
    })
}

fn in_megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
