//! What a compaction costs, and whom it keeps waiting.
//!
//! `bench-compactor --help` says how to call it.
//!
//! A repository is filled with so many megabytes, of which half is live, as the input of an image whose output is there. It is
//! compacted twice, each time by a process of its own: alone, and while so many processes write and one reads. Measured are the
//! speed beside that of copying a file of the size of the new one to the same disk (`fsync` at the end), the memory that is no
//! file's, the size beside what the records take, and the longest times in which a writer's `add` and a reader's look did
//! not return (each pauses so long after it, as a compiler would; without a pause, they write more than can be copied); these also without a compaction, as other processes of the machine hold them up as well.

mod commands;
mod units;

use anyhow::{Context, Result, bail, ensure};
use commands::Measured;
use compactor::compact::compact;
use compactor::observer::Silent;
use compactor::roots::{HOLDS, Wishes};
use format_spec::digest::Digest;
use format_spec::file::IndexSlot;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use store::engine;
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
        "alone: {} in {:.2} s, {}/s; the disk copies {}/s: ratio {:.2}",
        in_megabytes(after),
        took.as_secs_f64(),
        in_megabytes(speed as u64),
        in_megabytes(copied as u64),
        speed / copied
    );
    let (records, fragments) = live_bytes(&repository)?;
    println!(
        "size: {after} bytes, of which records {records}: {:.3} times",
        after as f64 / records as f64
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
        let mut others = Vec::new();
        for number in 0..writers {
            others.push(ourselves(&["write", &shown, &number.to_string(), &pause])?);
        }
        others.push(ourselves(&["read", &shown])?);
        let begun = Instant::now();
        let mut held = Duration::ZERO;
        match compacts {
            true => {
                let done = ourselves(&["compact", &shown])?.wait_with_output()?;
                ensure!(done.status.success(), "the compaction failed");
                held = Duration::from_micros(String::from_utf8(done.stdout)?.trim().parse()?);
            }
            false => std::thread::sleep(Duration::from_secs(10)),
        }
        let took = begun.elapsed().as_secs_f64();
        let mut longest = [Duration::ZERO; 2];
        let mut count = 0_u64;
        for (place, mut other) in others.into_iter().enumerate() {
            // It ends with its standard input.
            drop(other.stdin.take());
            let mut line = String::new();
            let out = other.stdout.take().context("it has an output")?;
            BufReader::new(out).read_line(&mut line)?;
            ensure!(other.wait()?.success(), "a writer or reader failed");
            let (waited, times) = line.trim().split_once(' ').context("two numbers")?;
            let slot = usize::from(place >= writers as usize);
            longest[slot] = longest[slot].max(Duration::from_micros(waited.parse()?));
            count += if slot == 0 { times.parse::<u64>()? } else { 0 };
        }
        if compacts {
            println!(
                "the compaction held the lock for {:.1} ms at once, at most",
                held.as_secs_f64() * 1e3
            );
        }
        println!(
            "{writers} writers {}: longest add {:.1} ms, longest look {:.1} ms; {count} additions in {took:.1} s",
            if compacts {
                "and a compaction"
            } else {
                "alone"
            },
            longest[0].as_secs_f64() * 1e3,
            longest[1].as_secs_f64() * 1e3,
        );
    }
    Ok(())
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
        threads: std::thread::available_parallelism()?.get(),
        roots: Vec::new(),
    };
    let report = compact(&Repository::open(path)?, &wishes, &Silent)?;
    println!("{}", report.longest_hold.as_micros());
    Ok(())
}

/// Until standard input ends, calls `work`, and then writes how many microseconds the longest call took, and how many there were.
fn until_told(pause: Duration, mut work: impl FnMut() -> Result<()>) -> Result<()> {
    let ended = std::thread::spawn(|| std::io::stdin().read_line(&mut String::new()).is_ok());
    let (mut longest, mut count) = (Duration::ZERO, 0_u64);
    while !ended.is_finished() {
        let begun = Instant::now();
        work()?;
        longest = longest.max(begun.elapsed());
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        count += 1;
    }
    println!("{} {count}", longest.as_micros());
    Ok(())
}

fn write(path: &Path, number: u64, pause: Duration) -> Result<()> {
    let mut repository = Repository::open(path)?;
    let begun = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
    let mut next = begun.wrapping_mul(1000).wrapping_add(number << 48);
    until_told(pause, || {
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
                    repository = Repository::open(path)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    })
}

fn read(path: &Path) -> Result<()> {
    let repository = Repository::open(path)?;
    let mut next = 0_u64;
    until_told(Duration::ZERO, || {
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

/// Bytes of all records, and how many fragments there are.
fn live_bytes(repository: &Repository) -> Result<(u64, u64)> {
    let programs = repository.programs()?;
    let snapshot = programs.snapshot();
    let mut bytes = 0;
    for index in IndexSlot::all() {
        for record in snapshot.iter(index) {
            bytes += record?.size().next_multiple_of(8);
        }
    }
    let fragments = snapshot.count(format_spec::program::Index::Fragments.slot());
    Ok((bytes, fragments))
}

fn in_megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
