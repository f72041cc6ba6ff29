//! Benchmarks on real programs.
//!
//! ```text
//! cargo run --release --manifest-path tests/bench/programs/Cargo.toml -- [--json] [--runs N] [NAME…]
//! ```
//!
//! 1. *Links:* each program is linked from the same objects by every linker of
//!    the machine and by `repo-ld`, once more by `repo-ld` from tickets: of every
//!    object and of every member of every archive, the system's too. The
//!    runs are interleaved, so that a slow minute of the machine hits all; what
//!    counts are the ratios. Two threads for everyone, over an existing output,
//!    with the arguments that gcc or rustc gives. Each in one process, and once more as it
//!    is called by default, where some return before their memory is taken apart.
//!    Processor time and peak memory beside the wall time.
//! 2. *Imports:* the same objects into an empty repository, one transaction
//!    each, as `repo-cc` does, in one thread, against BLAKE3 of the same bytes.
//! 3. *The write lock:* how long it is held while sixteen processes import all these objects at once.
//! 4. *Sizes:* of the repository, against the sum of the objects.
//!
//! With `--compiles` instead: compiles that `repo-cc` and ccache know; with `--definitions` (of `lua`, of `sqlite`), such of which most
//! definitions are known;
//! with `--builds` (of `cadical`, of `rocksdb`), builds and rebuilds of whole programs by `make`, beside ccache;
//! with `--relinks`, links of programs of which little was edited.

mod builds;
mod clang;
mod compiles;
mod contention;
mod crates;
mod definitions;
mod imports;
mod large;
mod links;
mod measure;
mod relinks;
mod subjects;
mod tickets;

use anyhow::Result;
use clap::Parser;
use repo_tests::binaries::Binaries;
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Parser)]
#[command(about = "Benchmarks of the program repository on real programs")]
struct Arguments {
    /// How often each link is run
    #[arg(long, default_value_t = 21)]
    runs: usize,
    /// Also link clang, statically (190 MB), from libclang-19-dev, llvm-19-dev and what these need (libz3-dev,
    /// libzstd-dev, libxml2-dev), and ripgrep and jj with debugging
    /// information (50 and 450 MB), which cargo builds first
    #[arg(long)]
    big: bool,
    /// Leave the inputs, outputs and arguments (`link-N.rsp`) where they are, to look at one link more closely
    #[arg(long)]
    keep: bool,
    /// One JSON value instead of tables
    #[arg(long)]
    json: bool,
    /// Be one of the processes that import at once: the names are objects
    #[arg(long, hide = true, value_name = "REPOSITORY")]
    writer: Option<PathBuf>,
    /// Instead of programs, import these objects, archives, and what of either is below these directories
    #[arg(long, num_args = 1.., value_name = "PATH")]
    import: Vec<PathBuf>,
    /// Instead of programs, look up compiles that need not be done, beside ccache
    #[arg(long)]
    compiles: bool,
    /// Instead of programs, edit one function at a time, and have clang 19 compile what is new: of `lua` (seconds) and `sqlite` (minutes)
    #[arg(long)]
    definitions: bool,
    /// Instead of programs, build `cadical` and `rocksdb` by make and clang 19, edit a line at a time, and build again, beside ccache
    #[arg(long)]
    builds: bool,
    /// With --builds: only so many sources of `rocksdb`, spread over all of them (all is half an hour and more for each edit; less than all is not linked)
    #[arg(long, value_name = "N")]
    files: Option<usize>,
    /// With --builds: only the first build, and edits whose descriptions contain one of these; clang alone is left out of the edits
    #[arg(long, value_name = "TEXT")]
    edit: Vec<String>,
    /// With --builds: one more option that all is compiled with, such as -g
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    with: Vec<String>,
    /// Instead of full links, edit one thing at a time, and link incrementally (with --big, also all of clang's and LLVM's libraries, 240 MB)
    #[arg(long)]
    relinks: bool,
    /// Only subjects whose names contain one of these
    names: Vec<String>,
}

/// Prints what was found: one JSON value under this name, or a table.
fn say<T>(is_json: bool, name: &str, found: &[T], row: fn(&T) -> Value, table: fn(&[T])) {
    if is_json {
        let rows: Vec<Value> = found.iter().map(row).collect();
        println!("{:#}", json!({ name: rows, "machine": machine() }));
    } else {
        table(found);
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(repository) = &arguments.writer {
        return contention::write(repository, &arguments.names);
    }
    // As the programs do.
    store::heap::keep();
    if !arguments.import.is_empty() {
        let directory = tempfile::Builder::new()
            .prefix("program-bench-")
            .tempdir()?;
        let runs = arguments.runs.min(7);
        let result = imports::measure_paths(&arguments.import, directory.path(), runs)?;
        imports::print(&[result]);
        contention::measure(&std::env::current_exe()?, directory.path())?.print();
        return Ok(());
    }
    measure::adopt_orphans()?;
    eprintln!("building repo-cc, repo-ld, repo-dump, optimised …");
    let binaries = Binaries::release(&[])?;
    let mut directory = tempfile::Builder::new()
        .prefix("program-bench-")
        .tempdir()?;
    if arguments.keep {
        directory.disable_cleanup(true);
        eprintln!("keeping {}", directory.path().display());
    }
    if arguments.compiles {
        let found = compiles::measure(&binaries, directory.path(), arguments.runs)?;
        say(
            arguments.json,
            "compiles",
            &found,
            compiles::Compiles::to_json,
            compiles::print,
        );
        return Ok(());
    }
    if arguments.definitions {
        let found = definitions::measure(&binaries, directory.path(), |name| {
            let names = &arguments.names;
            names.is_empty() || names.iter().any(|part| name.contains(part.as_str()))
        })?;
        say(
            arguments.json,
            "definitions",
            &found,
            definitions::Edit::to_json,
            definitions::print,
        );
        return Ok(());
    }
    if arguments.builds {
        let wish = builds::Wish {
            files: arguments.files,
            edits: &arguments.edit,
            options: &arguments.with,
        };
        let found = builds::measure(&binaries, directory.path(), &wish, |name| {
            let names = &arguments.names;
            names.is_empty() || names.iter().any(|part| name.contains(part.as_str()))
        })?;
        say(
            arguments.json,
            "builds",
            &found,
            builds::Step::to_json,
            builds::print,
        );
        return Ok(());
    }
    if arguments.relinks {
        let found = relinks::measure(&binaries, directory.path(), arguments.runs, arguments.big)?;
        say(
            arguments.json,
            "relinks",
            &found,
            relinks::Relink::to_json,
            relinks::print,
        );
        return Ok(());
    }
    let chosen = |name: &str| {
        arguments.names.is_empty() || arguments.names.iter().any(|part| name.contains(part))
    };
    let (mut links, mut imports) = (Vec::new(), Vec::new());
    if !arguments.json {
        links::print_head();
    }
    for subject in subjects::all(arguments.big) {
        if !chosen(&subject.name) {
            continue;
        }
        // A peer's or our failure on one program must not hide the rest.
        match links::measure(&subject, &binaries, directory.path(), arguments.runs) {
            Ok(result) => {
                if !arguments.json {
                    result.print();
                }
                links.push(result.to_json());
            }
            Err(error) => eprintln!("{}: links: {error:#}", subject.name),
        }
        match imports::measure(&subject, directory.path(), arguments.runs.min(7)) {
            Ok(result) => imports.push(result),
            Err(error) => eprintln!("{}: imports: {error:#}", subject.name),
        }
    }
    let contention = contention::measure(&std::env::current_exe()?, directory.path());
    if let Err(error) = &contention {
        eprintln!("the write lock: {error:#}");
    }
    if arguments.json {
        let contention = contention.ok().map(|contention| contention.to_json());
        let imports: Vec<_> = imports.iter().map(imports::Imports::to_json).collect();
        println!(
            "{:#}",
            json!({ "links": links, "imports": imports, "write_lock": contention, "machine": machine() })
        );
    } else {
        imports::print(&imports);
        if let Ok(contention) = contention {
            contention.print();
        }
    }
    Ok(())
}

/// What the figures were measured on.
fn machine() -> Value {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("");
    json!({
        "cpu": cpu.trim_start_matches([' ', '\t', ':']),
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
    })
}
