//! `repo-gc`, the compactor.

use anyhow::{Result, bail};
use clap::Parser;
use compactor::cli::Cli;
use compactor::compact::{Observer, compact, dry_run};
use compactor::report::Report;
use compactor::roots::Wishes;
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Arguments;
use std::io::Write;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};
use store::engine::{self, OpenOptions};
use store::program::locate::{self, Environment};
use store::program::{ProgramError, waiting};

const DAMAGED: u8 = 1;
const FAILED: u8 = 2;

fn main() -> ExitCode {
    store::heap::keep();
    store::guard::install("repo-gc", "nothing was compacted");
    let cli = Cli::parse();
    let report = match run(&cli) {
        Ok(Some(report)) => report,
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
    for warning in &report.warnings {
        tell(format_args!("repo-gc: warning: {warning}"));
    }
    match print(&report, cli.json) {
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

/// `None` if there is no repository where one would be looked for: then there is nothing to throw away.
fn run(cli: &Cli) -> Result<Option<Report>> {
    if cli.idle || cli.install_timer {
        bail!(
            "--idle and --install-timer are not available yet; \
             run repo-gc from a timer of your own, with nice and ionice"
        );
    }
    let options = OpenOptions {
        read_only: cli.dry_run,
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
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let wishes = Wishes {
        now: u64::try_from(now.as_nanos())?,
        grace: u64::try_from(cli.grace.as_nanos()).unwrap_or(u64::MAX),
        roots: cli.roots.clone(),
    };
    if cli.dry_run {
        dry_run(&repository, &wishes).map(Some)
    } else {
        compact(&repository, &wishes, &Bar::new()).map(Some)
    }
}

fn print(report: &Report, json: bool) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, report)?;
        writeln!(out)?;
    } else {
        report.write(&mut out)?;
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
