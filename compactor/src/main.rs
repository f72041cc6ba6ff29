//! `repo-gc`, the compactor.

use anyhow::{Context, Result, bail};
use clap::Parser;
use compactor::cli::Cli;
use compactor::compact::{compact, dry_run};
use compactor::explain::Explanation;
use compactor::idle::{self, Worker};
use compactor::listing::Listing;
use compactor::observer::Observer;
use compactor::priority::Rank;
use compactor::report::Report;
use compactor::roots::{HOLDS, PART, Wishes};
use compactor::timer;
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
    let done = match cli.idle && !cli.paced && !cli.install_timer {
        true => supervise(&cli),
        false => run(&cli),
    };
    match done {
        Ok(code) => code,
        Err(error) => failed(&error),
    }
}

/// Says what has gone wrong.
fn failed(error: &anyhow::Error) -> ExitCode {
    tell(format_args!(
        "repo-gc: error: {}",
        store::describe(error.as_ref())
    ));
    ExitCode::from(match error.chain().any(store::is_damage) {
        true => DAMAGED,
        false => FAILED,
    })
}

/// What there is to show.
#[derive(Serialize)]
#[serde(untagged)]
enum Done {
    Compacted(Report),
    Listed(Listing),
    Explained(Explanation),
}

/// `--idle`: the work is done by another process, which is stopped while there is other work.
fn supervise(cli: &Cli) -> Result<ExitCode> {
    let words = std::env::args_os().skip(1);
    let proc = cli.proc.as_deref().unwrap_or(Path::new("/proc"));
    let status = idle::supervise(words.chain(["--paced".into()]), proc)?;
    match status.code() {
        Some(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(FAILED))),
        None => bail!("the process that does the work was ended: {status}"),
    }
}

/// Does what the command line says, for each repository.
fn run(cli: &Cli) -> Result<ExitCode> {
    if cli.remove_timer {
        return shown(writeln!(std::io::stdout().lock(), "{}", timer::remove()?));
    }
    let worker = match cli.paced {
        true => Worker::paced()?,
        false => Worker::default(),
    };
    let repositories = match &cli.repo[..] {
        [] => vec![None],
        named => named.iter().map(|path| Some(&**path)).collect(),
    };
    let is_one = repositories.len() == 1;
    let (mut done, mut found, mut worst) = (Vec::new(), Vec::new(), ExitCode::SUCCESS);
    for named in repositories {
        match with_repository(cli, named, &worker, &mut found) {
            Ok(one) => done.extend(one),
            Err(error) if is_one => return Err(error),
            // The others can do without it.
            Err(error) => worst = failed(&error),
        }
    }
    if cli.install_timer {
        if found.is_empty() {
            bail!("there is no repository yet; --repo names one");
        }
        let program = std::env::current_exe().context("cannot find this program's file")?;
        let told = timer::install(&program, &cli.for_timer(&found)?)?;
        return shown(writeln!(std::io::stdout().lock(), "{told}"));
    }
    for one in &done {
        if let Done::Compacted(report) = one {
            for warning in &report.warnings {
                tell(format_args!("repo-gc: warning: {warning}"));
            }
        }
    }
    let printed = shown(print(&done, cli.json, is_one))?;
    Ok(match worst == ExitCode::SUCCESS {
        true => printed,
        false => worst,
    })
}

/// Opens a repository, and does there what the command line says. `None` if there is nothing to show; also if there is no
/// repository where one would be looked for: then there is nothing to throw away. The repository is added to those `found`.
fn with_repository(
    cli: &Cli,
    named: Option<&Path>,
    worker: &Worker,
    found: &mut Vec<PathBuf>,
) -> Result<Option<Done>> {
    let reads_only = cli.dry_run || cli.list_roots || cli.install_timer || cli.explain.is_some();
    let options = OpenOptions {
        read_only: reads_only,
        patience: Some(waiting::patience(|line| {
            tell(format_args!("repo-gc: {line}"))
        })),
        ..OpenOptions::default()
    };
    worker.exclusive();
    let opened = locate::open(
        named,
        None,
        &Environment::current(),
        &options,
        &mut |error| tell(format_args!("repo-gc: warning: {error}")),
    );
    let repository = match opened {
        Err(ProgramError::Engine(engine::Error::Io { path, source, .. }))
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            if named.is_some() {
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
    found.push(repository.path().to_owned());
    if cli.install_timer {
        return Ok(None);
    }
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
        max_size: cli.max_size,
        holds: HOLDS,
        part: PART,
        threads: threads(cli.paced),
        rank: match cli.idle {
            true => Rank::Last,
            false => Rank::Behind,
        },
        roots: cli.roots.clone(),
    };
    if let Some(digits) = &cli.explain {
        let explanation = Explanation::new(&repository.programs()?, digits, &wishes)?;
        return Ok(Some(Done::Explained(explanation)));
    }
    if cli.dry_run {
        return Ok(Some(Done::Compacted(dry_run(&repository, &wishes)?)));
    }
    if cli.idle {
        worker.released();
        let estimate = dry_run(&repository, &wishes)?;
        if !estimate.is_worth_while() {
            let path = repository.path().display();
            tell(format_args!(
                "repo-gc: {path}: too little would go; nothing was changed"
            ));
            return Ok(None);
        }
        worker.exclusive();
    }
    let bar = Bar::new(worker);
    Ok(Some(Done::Compacted(compact(&repository, &wishes, &bar)?)))
}

/// How many threads may work. One that is stopped while the machine has other work must not look like that.
fn threads(is_paced: bool) -> usize {
    match is_paced {
        true => 1,
        false => std::thread::available_parallelism().map_or(1, |count| count.get().min(16)),
    }
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

/// What to end with if this was the result of writing to standard output.
fn shown(written: std::io::Result<()>) -> Result<ExitCode> {
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            bail!("cannot write to standard output: {error}")
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Shows what was done; as JSON, what was done to several repositories is an array.
fn print(done: &[Done], json: bool, is_one: bool) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match done {
        [one] if json && is_one => serde_json::to_writer_pretty(&mut out, one)?,
        [] if is_one => return Ok(()),
        all if json => serde_json::to_writer_pretty(&mut out, all)?,
        all => {
            for one in all {
                match one {
                    Done::Compacted(report) => report.write(&mut out)?,
                    Done::Listed(listing) => listing.write(&mut out)?,
                    Done::Explained(explanation) => explanation.write(&mut out)?,
                }
            }
        }
    }
    if json {
        writeln!(out)?;
    }
    out.flush()
}

/// Writes a line to standard error, if that is possible. Who cannot be told cannot be told that either: no reason to panic.
fn tell(line: Arguments<'_>) {
    // At once, for lines of several processes in one log.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// A progress bar on standard error, if that is a terminal.
struct Bar<'w>(ProgressBar, &'w Worker);

impl Bar<'_> {
    fn new(worker: &Worker) -> Bar<'_> {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}") {
            bar.set_style(style);
        }
        Bar(bar, worker)
    }
}

impl Observer for Bar<'_> {
    fn begin(&self, what: &'static str, steps: u64) {
        self.0.set_message(what);
        self.0.set_length(steps);
        self.0.set_position(0);
    }

    fn step(&self) {
        self.0.inc(1);
    }

    fn exclusive(&self) {
        self.1.exclusive();
    }

    fn released(&self) {
        self.1.released();
    }
}

impl Drop for Bar<'_> {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
