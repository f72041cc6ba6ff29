//! The storage engine side by side with embedded databases, in one run.
//!
//! ```text
//! bench-store [--records N] [--rounds N] [--dir DIRECTORY] [--only NAME,…]
//! bench-store --growth 1,4,16,64 [--dir DIRECTORY]
//! ```
//!
//! `--only` names parts (floor, bulk, batches, lazy, contention) or stores (lmdb,
//! redb, fjall, rocksdb; ours always takes part), or both. Each line is printed as
//! soon as it is measured; medians, spreads and ratios come last.
//!
//! `--growth` fills one store up to so many million records, and measures how commits and lookups
//! change. 64 million need 8 GB of disk, and as much memory for lookups from the page cache.
//!
//! Keys are 32-byte digests, values log-normal around a median of 300 bytes and
//! a mean of 800, as fragments of programs are. What counts are the ratios: all
//! stores take turns in each round.

mod candidates;
mod growth;
mod parts;
mod report;
mod workload;

use candidates::Kind;
use report::Report;
use std::path::PathBuf;
use workload::Workload;

const PARTS: [&str; 5] = ["floor", "bulk", "batches", "lazy", "contention"];

struct Arguments {
    records: usize,
    rounds: usize,
    directory: Option<PathBuf>,
    /// Millions of records.
    growth: Vec<u64>,
    parts: Vec<&'static str>,
    kinds: Vec<Kind>,
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments {
        records: 1_000_000,
        rounds: 3,
        directory: None,
        growth: Vec::new(),
        parts: PARTS.to_vec(),
        kinds: Kind::all(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--records" => arguments.records = value()?.parse().map_err(|_| "bad number")?,
            "--rounds" => arguments.rounds = value()?.parse().map_err(|_| "bad number")?,
            "--dir" => arguments.directory = Some(value()?.into()),
            "--growth" => {
                let millions = value()?
                    .split(',')
                    .map(str::parse)
                    .collect::<Result<_, _>>();
                arguments.growth = millions.map_err(|_| "bad number")?;
            }
            "--only" => only(&mut arguments, &value()?)?,
            _ => return Err(format!("unknown argument {word}")),
        }
    }
    Ok(arguments)
}

/// Leaves only what is named: if no part is, all of them, and likewise the stores.
fn only(arguments: &mut Arguments, names: &str) -> Result<(), String> {
    let (mut parts, mut kinds) = (Vec::new(), Vec::new());
    for name in names.split(',') {
        let part = PARTS.into_iter().find(|&part| part == name);
        let kind = Kind::all().into_iter().find(|kind| kind.name() == name);
        match (part, kind) {
            (Some(part), _) => parts.push(part),
            (None, Some(kind)) => kinds.push(kind),
            (None, None) => return Err(format!("--only: no part or store {name}")),
        }
    }
    if !parts.is_empty() {
        arguments.parts = parts;
    }
    if !kinds.is_empty() {
        kinds.retain(|&kind| kind != Kind::Store);
        kinds.insert(0, Kind::Store);
        arguments.kinds = kinds;
    }
    Ok(())
}

fn main() {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some(parts::WRITER) {
        return parts::writer(words);
    }
    let arguments = arguments().unwrap_or_else(|error| {
        eprintln!("bench-store: error: {error}");
        std::process::exit(2);
    });
    let directory = match &arguments.directory {
        Some(directory) => tempfile::tempdir_in(directory),
        None => tempfile::tempdir(),
    }
    .expect("a directory to work in");
    if !arguments.growth.is_empty() {
        return growth::growth(directory.path(), &arguments.growth);
    }
    let workload = Workload::new(arguments.records);
    println!(
        "{} records, {:.1} MB of values, mean {:.0} bytes",
        workload.len(),
        workload.payload() as f64 / 1e6,
        workload.payload() as f64 / workload.len() as f64
    );
    let mut report = Report::default();
    for round in 1..=arguments.rounds {
        println!("\nround {round} of {}", arguments.rounds);
        for &part in &arguments.parts {
            let path = directory.path();
            match part {
                "floor" => parts::floor(&mut report, path, &workload),
                "lazy" => parts::lazy(&mut report, path, &workload),
                "contention" => parts::contention(&mut report, path),
                _ => {
                    for &kind in &arguments.kinds {
                        match part {
                            "bulk" => parts::bulk(&mut report, path, kind, &workload),
                            _ => parts::batches(&mut report, path, kind, &workload),
                        }
                    }
                }
            }
        }
    }
    report.print();
}
