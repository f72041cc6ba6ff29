//! The storage engine side by side with embedded databases, in one run.
//!
//! `--help` says what can be asked for. Each line is printed as soon as it is measured.
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
use clap::Parser;
use clap::builder::PossibleValuesParser;
use report::Report;
use std::path::PathBuf;
use workload::Workload;

const PARTS: [&str; 5] = ["floor", "bulk", "batches", "lazy", "contention"];

/// The storage engine side by side with embedded databases, in one run: what counts are the ratios.
#[derive(Parser)]
#[command(name = "bench-store", version)]
struct Arguments {
    /// How many records each store gets
    #[arg(long, default_value_t = 1_000_000)]
    records: usize,
    /// How often everything is measured: medians, spreads and ratios come last
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Where the files are made: on the disk that is to be measured [default: a temporary directory]
    #[arg(long = "dir", value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
    /// Instead, fill one store up to so many million records, and measure at each number how commits and lookups have changed
    ///
    /// 64 million need 8 GB of disk, and as much memory for lookups from the page cache.
    #[arg(long, value_name = "MILLIONS", value_delimiter = ',')]
    growth: Vec<u64>,
    /// Only these parts (floor, bulk, batches, lazy, contention) or stores (lmdb, redb, fjall, rocksdb, as far as they were built;
    /// ours always takes part), or both
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PossibleValuesParser::new(names()))]
    only: Vec<String>,
}

fn names() -> Vec<&'static str> {
    let kinds = Kind::all().into_iter().map(Kind::name);
    PARTS.into_iter().chain(kinds).collect()
}

impl Arguments {
    /// The parts that were named; if none was, all of them.
    fn parts(&self) -> Vec<&'static str> {
        let is_named = |part: &&str| self.only.iter().any(|name| name == part);
        let named: Vec<_> = PARTS.into_iter().filter(is_named).collect();
        match named.is_empty() {
            true => PARTS.to_vec(),
            false => named,
        }
    }

    /// Likewise the stores.
    fn kinds(&self) -> Vec<Kind> {
        let is_named = |kind: &Kind| self.only.iter().any(|name| name == kind.name());
        let mut named: Vec<_> = Kind::all().into_iter().filter(is_named).collect();
        if named.is_empty() {
            return Kind::all();
        }
        named.retain(|&kind| kind != Kind::Store);
        named.insert(0, Kind::Store);
        named
    }
}

fn main() {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some(parts::WRITER) {
        return parts::writer(words);
    }
    let arguments = Arguments::parse();
    let (parts, kinds) = (arguments.parts(), arguments.kinds());
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
        for &part in &parts {
            let path = directory.path();
            match part {
                "floor" => parts::floor(&mut report, path, &workload),
                "lazy" => parts::lazy(&mut report, path, &workload),
                "contention" => parts::contention(&mut report, path),
                _ => {
                    for &kind in &kinds {
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
