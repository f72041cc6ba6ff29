//! `repo-gc`, the compactor.

use anyhow::{Result, bail};
use clap::Parser;
use compactor::cli::Cli;
use compactor::compact::{Observer, compact, dry_run};
use compactor::listing::Listing;
use compactor::report::Report;
use compactor::roots::Wishes;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::fmt::Arguments;
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};
use store::engine::{self, OpenOptions};
use store::program::locate::{self, Environment};
use store::program::{ProgramError, Repository, forget_prefix, waiting};

const DAMAGED: u8 = 1;
const FAILED: u8 = 2;

fn main() -> ExitCode {
    store::heap::keep();
    store::guard::install("repo-gc", "nothing was compacted");
    let cli = Cli::parse();
    let done = match run(&cli) {
        Ok(Some(done)) => done,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            tell(format_args!(
                "repo-gc: error: {}",
                store::describe(error.as_ref())
            ));
            return ExitCode::from(if error.chain().any(store::is_damage) {
                DAMAGED
            } else {
                FAILED
            });
        }
    };
    if let Done::Compacted(report) = &done {
        for warning in &report.warnings {
            tell(format_args!("repo-gc: warning: {warning}"));
        }
    }
    match print(&done, cli.json) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            tell(format_args!(
                "repo-gc: error: cannot write to standard output: {error}"
            ));
            ExitCode::from(FAILED)
        }
    }
}

/// What there is to show.
#[derive(Serialize)]
#[serde(untagged)]
enum Done {
    Compacted(Report),
    Listed(Listing),
}

/// `None` if there is nothing to show; also if there is no repository where one would be looked for: then there is nothing to throw away.
fn run(cli: &Cli) -> Result<Option<Done>> {
    if cli.idle || cli.install_timer {
        bail!(
            "--idle and --install-timer are not available yet; \
             run repo-gc from a timer of your own, with nice and ionice"
        );
    }
    let options = OpenOptions {
        read_only: cli.dry_run || cli.list_roots,
        patience: Some(waiting::patience(|line| {
            tell(format_args!("repo-gc: {line}"))
        })),
        ..OpenOptions::default()
    };
    let opened = locate::open(
        cli.repo.as_deref(),
        None,
        &Environment::current(),
        &options,
        &mut |error| tell(format_args!("repo-gc: warning: {error}")),
    );
    let repository = match opened {
        Err(ProgramError::Engine(engine::Error::Io { path, source, .. }))
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            if cli.repo.is_some() {
                bail!("{}: there is no repository", path.display());
            }
            tell(format_args!(
                "repo-gc: {}: there is no repository, and nothing to do; --repo or $REPO_FILE names another",
                path.display()
            ));
            return Ok(None);
        }
        other => other?,
    };
    if cli.list_roots {
        let listing = Listing::new(&repository.programs()?)?;
        return Ok(Some(Done::Listed(listing)));
    }
    if !cli.forget.is_empty() {
        forget(&repository, &cli.forget)?;
        return Ok(None);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let wishes = Wishes {
        now: u64::try_from(now.as_nanos())?,
        grace: u64::try_from(cli.grace.as_nanos()).unwrap_or(u64::MAX),
        unused: u64::try_from(cli.unused.as_nanos()).unwrap_or(u64::MAX),
        roots: cli.roots.clone(),
    };
    let report = match cli.dry_run {
        true => dry_run(&repository, &wishes),
        false => compact(&repository, &wishes, &Bar::new()),
    };
    Ok(Some(Done::Compacted(report?)))
}

/// Forgets prefixes, which need not be there any more.
fn forget(repository: &Repository, paths: &[PathBuf]) -> Result<()> {
    for path in paths {
        if !forget_prefix(repository.store(), &resolved(path)?)? {
            bail!(
                "{}: is no directory that {} remembers; --roots shows those",
                path.display(),
                repository.path().display()
            );
        }
    }
    Ok(())
}

/// The absolute path without symbolic links and `..`, of which the end need not be there.
fn resolved(path: &Path) -> Result<PathBuf> {
    let whole = std::path::absolute(path)?;
    let mut resolved = PathBuf::new();
    for component in whole.components() {
        match component {
            Component::ParentDir => drop(resolved.pop()),
            component => resolved.push(component),
        }
        resolved = resolved.canonicalize().unwrap_or(resolved);
    }
    Ok(resolved)
}

fn print(done: &Done, json: bool) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, done)?;
        writeln!(out)?;
    } else {
        match done {
            Done::Compacted(report) => report.write(&mut out)?,
            Done::Listed(listing) => listing.write(&mut out)?,
        }
    }
    out.flush()
}

/// Writes a line to standard error, if that is possible. Who cannot be told cannot be told that either: no reason to panic.
fn tell(line: Arguments<'_>) {
    // At once, for lines of several processes in one log.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// A progress bar on standard error, if that is a terminal.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Bar {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}") {
            bar.set_style(style);
        }
        Bar(bar)
    }
}

impl Observer for Bar {
    fn begin(&self, what: &'static str, steps: u64) {
        self.0.set_message(what);
        self.0.set_length(steps);
        self.0.set_position(0);
    }

    fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
