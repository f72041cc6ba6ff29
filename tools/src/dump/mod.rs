//! `repo-dump`: shows what a repository holds.
//!
//! | module | subject |
//! |---|---|
//! | [`cli`] | the command line |
//! | [`output`] | text or JSON, colours, pipes |
//! | [`model`] | names, definitions and digests by prefix, for all views |
//! | [`mod@file`], [`lists`], [`fragments`], [`compilations`], [`tickets`], [`images`] | one view each |
//! | [`manifests`] | what is known of compiles |
//! | [`graph`] | what definitions depend on |
//! | [`envelopes`] | records of kinds that need not be known |
//! | [`materialize`] | objects in place of tickets |
//! | [`disasm`], [`frames`] | code and call frame information as text |
//! | [`stats`], [`verify`], [`repair`], [`diff`] | what looks at everything |
//! | [`progress`] | a bar for what lasts |

pub mod cli;
pub mod compilations;
pub mod diff;
pub mod disasm;
pub mod envelopes;
pub mod file;
pub mod fragments;
pub mod frames;
pub mod graph;
pub mod images;
pub mod lists;
pub mod manifests;
pub mod materialize;
pub mod model;
pub mod output;
pub mod progress;
pub mod repair;
pub mod stats;
pub mod tickets;
pub mod verify;

use ::tickets::{Ticket, TicketError};
use anyhow::{Context, Result, anyhow};
use cli::{Cli, Command};
use format_spec::file::MAGIC;
use model::Model;
use output::{Output, Text, View};
use serde::Serialize;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::ExitCode;
use store::engine::{self, OpenOptions};
use store::guard;
use store::program::locate::{self, Environment};
use store::program::waiting;
use store::program::{ProgramError, Programs, Repository};

const DAMAGED: u8 = 1;
const FAILED: u8 = 2;

/// Runs `repo-dump` and says how it ended; see `repo-dump --help`.
pub fn main(cli: &Cli) -> ExitCode {
    match run(&with_repository(cli)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DAMAGED),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            linker::tell!("repo-dump: error: {}", store::describe(error.as_ref()));
            ExitCode::from(if error.chain().any(store::is_damage) {
                DAMAGED
            } else {
                FAILED
            })
        }
    }
}

/// Whoever read our output has seen enough. (Nothing else here writes to pipes.)
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The command line with a repository that stands where a ticket may stand as `--repo` has it.
fn with_repository(cli: &Cli) -> Cow<'_, Cli> {
    // What is no regular file may have no end, or no beginning either.
    let named = cli.ticket.as_deref().filter(|path| path.is_file());
    let mut first = [0; MAGIC.len()];
    let read = named.map(|path| File::open(path)?.read_exact(&mut first));
    if !matches!(read, Some(Ok(()))) || first != MAGIC || cli.common.repo.is_some() {
        return Cow::Borrowed(cli);
    }
    let mut cli = cli.clone();
    cli.common.repo = cli.ticket.take();
    Cow::Owned(cli)
}

/// `false` if `--verify` found damage, or `--repair` left some.
fn run(cli: &Cli) -> Result<bool> {
    if let Some(path) = cli.action.materialize.as_deref().map(Path::new)
        && path.exists()
    {
        return materialize_file(cli, path);
    }
    let ticket = match cli.ticket.as_deref() {
        Some(path) => Some((path, read_ticket(path)?)),
        None => None,
    };
    let repository = open(cli, ticket.as_ref())?;
    let store = repository.store();
    let snapshot = match cli.common.revision {
        Some(revision) => store.snapshot_at(revision)?,
        None => store.snapshot()?,
    };
    let model = Model {
        programs: Programs::new(snapshot),
        demangle: cli.common.demangle,
    };
    let mut out = Output::new(cli.common.json, cli.common.color);
    let mut good = true;
    if cli.action.stats {
        out.show(&stats::collect(&model)?)?;
    } else if cli.action.repair {
        let report = repair::repair(&repository)?;
        good = report.is_good();
        out.show(&report)?;
    } else if cli.action.verify {
        let report = verify::verify(&model)?;
        good = report.is_good();
        out.show(&report)?;
    } else if let Some([a, b]) = cli.action.diff.as_deref() {
        out.show(&diff::diff(&model, a, b)?)?;
    } else if let (Some(which), Some(output)) = (&cli.action.materialize, &cli.output) {
        materialize_compilation(&model, which, output)?;
    } else if let Some(which) = &cli.action.materialize {
        anyhow::bail!("{which}: there is no such file to be changed in place");
    } else if let Some((path, ticket)) = &ticket {
        let detail = compilations::detail(&model, &ticket.compilation)?;
        out.show(&ShownTicket {
            ticket: tickets::Note::new(path, ticket),
            compilation: detail,
        })?;
    } else {
        show(&model, cli.command.as_ref(), &mut out)?;
    }
    out.finish()?;
    Ok(good)
}

/// Reads the ticket that is to be shown. Its name may be meant for a command's.
fn read_ticket(path: &Path) -> Result<Ticket> {
    let is_word = path.components().count() == 1 && path.extension().is_none();
    if is_word && !path.exists() {
        return Err(anyhow!(
            "{}: there is no such command and no such file (--help lists the commands)",
            path.display()
        ));
    }
    tickets::read(path)
}

fn show(model: &Model<'_>, command: Option<&Command>, out: &mut Output<'_>) -> Result<()> {
    let snapshot = model.programs.snapshot();
    match command {
        None => out.show(&Overview {
            header: file::Header::new(&snapshot)?,
            tables: file::tables(&snapshot)?,
        }),
        Some(Command::Header) => out.show(&file::Header::new(&snapshot)?),
        Some(Command::Revisions { limit }) => {
            let limit = limit.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
            out.list(
                file::REVISION_HEADING,
                file::revisions(snapshot).take(limit),
            )
        }
        Some(Command::Indices) => out.list(
            file::TABLE_HEADING,
            file::tables(&snapshot)?.into_iter().map(Ok),
        ),
        Some(Command::Names { pattern }) => out.list("", lists::names(*model, pattern.as_deref())),
        Some(Command::Pieces { pattern }) => out.list(
            lists::PIECE_HEADING,
            lists::pieces(*model, pattern.as_deref()),
        ),
        Some(Command::Fragments { which }) if which.is_empty() => {
            out.list(fragments::HEADING, fragments::list(*model, model.usage()?))
        }
        Some(Command::Fragments { which }) => {
            let (mut found, mut like) = (Vec::new(), Vec::new());
            for which in which {
                match fragments::find(model, which)? {
                    fragments::Found::Exactly(digests) => found.extend(digests),
                    fragments::Found::Like(addresses) => like.extend(addresses),
                }
            }
            if !like.is_empty() {
                let rows = fragments::list_of(*model, model.usage()?, like);
                out.list(fragments::HEADING, rows)?;
                if found.is_empty() {
                    return Ok(());
                }
            }
            let details = found.iter().map(|digest| fragments::detail(model, digest));
            out.list("", details)
        }
        Some(Command::Compilations { which }) if which.is_empty() => {
            out.list(compilations::HEADING, compilations::list(*model)?)
        }
        Some(Command::Compilations { which }) => {
            let details = which.iter().map(|which| {
                let digest = compilations::find(model, which)?;
                compilations::detail(model, &digest)
            });
            out.list("", details)
        }
        Some(Command::Tickets { pattern }) => {
            let rows = tickets::list(model, pattern.as_deref())?;
            out.list(tickets::HEADING, rows.into_iter().map(Ok))
        }
        Some(Command::Types { pattern }) => out.list(
            lists::TYPE_HEADING,
            lists::types(*model, pattern.as_deref()),
        ),
        Some(Command::Manifests { pattern, key: None }) => out.list(
            manifests::HEADING,
            manifests::list(*model, pattern.as_deref()),
        ),
        Some(Command::Manifests { key: Some(key), .. }) => {
            out.show(&manifests::detail(model, key)?)
        }
        Some(Command::Graph { which }) => {
            let shown = which.iter().map(|which| graph::show(model, which));
            out.list("", shown)
        }
        Some(Command::Why { from, to }) => out.show(&graph::why(model, from, to)?),
        Some(Command::Records { index }) => {
            let index = envelopes::index(index)?;
            out.list(envelopes::HEADING, envelopes::list(*model, index))
        }
        Some(Command::Images { which }) if which.is_empty() => {
            out.list(images::HEADING, images::list(*model))
        }
        Some(Command::Images { which }) => {
            let details = which.iter().map(|path| images::detail(model, path));
            out.list("", details)
        }
    }
}

/// Makes objects of the tickets in a file, or below a directory.
fn materialize_file(cli: &Cli, path: &Path) -> Result<bool> {
    let place = match &cli.output {
        Some(output) => materialize::Place::At(output),
        None => materialize::Place::InPlace,
    };
    let maker = materialize::Maker::new("repo-dump", cli.common.repo.as_deref());
    let report = maker.make(path, place)?;
    let is_good = report.is_good();
    if path.is_dir() {
        let mut out = Output::new(cli.common.json, cli.common.color);
        out.show(&report)?;
        out.finish()?;
    }
    match is_good {
        true => Ok(true),
        false => Err(anyhow!(
            "{}: not all of it was made objects",
            path.display()
        )),
    }
}

/// Writes a compilation as an ELF object: beside the file, then by renaming.
fn materialize_compilation(model: &Model<'_>, which: &str, output: &Path) -> Result<()> {
    let digest = compilations::find(model, which)?;
    let compilation = model.programs.compilation(&digest)?;
    let object = linker::repository::join::join(&model.programs.load(&compilation)?)
        .with_context(|| format!("compilation {digest:.12}"))?;
    let cannot = || format!("{}: cannot write", output.display());
    let is_special = std::fs::metadata(output).is_ok_and(|metadata| !metadata.is_file());
    if is_special {
        return std::fs::write(output, object).with_context(cannot);
    }
    guard::replace(".repo-dump-", output, 0o666, &object).with_context(cannot)
}

/// Opens the repository that the command line means: `--repo`, else that of the ticket
/// which it names, else the one that [`locate`] finds.
fn open(cli: &Cli, ticket: Option<&(&Path, Ticket)>) -> Result<Repository> {
    let option = cli.common.repo.as_deref();
    let named: Vec<&str> = match (&cli.action, &cli.command) {
        (action, _) if action.diff.is_some() => {
            action.diff.iter().flatten().map(String::as_str).collect()
        }
        (_, Some(Command::Compilations { which } | Command::Graph { which })) => {
            which.iter().map(String::as_str).collect()
        }
        _ => Vec::new(),
    };
    let mut ticket = ticket.cloned();
    for name in named {
        let path = Path::new(name);
        if ticket.is_none() && path.is_file() {
            ticket = Some((path, tickets::read(path)?));
        }
    }
    let environment = Environment::current();
    let options = OpenOptions {
        read_only: !cli.action.repair,
        patience: Some(waiting::patience(|line| linker::tell!("repo-dump: {line}"))),
        ..OpenOptions::default()
    };
    if let Some((name, ticket)) = &ticket {
        let opened = ticket.open_repository(option, name, &environment, &options);
        return opened.map_err(|error| match error {
            TicketError::Repository(error) => advised(error),
            other => anyhow::Error::new(other).context(name.display().to_string()),
        });
    }
    let opened = locate::open(option, None, &environment, &options, &mut |error| {
        linker::tell!("repo-dump: warning: {error}");
    });
    opened.map_err(|error| match error {
        ProgramError::Engine(engine::Error::Io { path, source, .. })
            if source.kind() == io::ErrorKind::NotFound =>
        {
            let advice = match option {
                Some(_) => "",
                None => "; give one with --repo",
            };
            anyhow!("{}: there is no repository{advice}", path.display())
        }
        other => advised(other),
    })
}

/// Why a repository cannot be opened to be looked at, and what to do.
fn advised(error: ProgramError) -> anyhow::Error {
    match error {
        // Looking must not change the file: rolling back may take transactions away.
        ProgramError::Engine(engine::Error::NeedsRecovery { .. }) => anyhow::Error::new(error)
            .context("the next build that uses the repository will recover it"),
        other => other.into(),
    }
}

/// What is shown without a command.
#[derive(Serialize)]
struct Overview {
    header: file::Header,
    tables: Vec<file::Table>,
}

impl View for Overview {
    fn text(&self, out: &mut Text<'_>) -> io::Result<()> {
        self.header.text(out)?;
        let heading = out.style.heading(file::TABLE_HEADING);
        writeln!(out, "\n{heading}")?;
        for table in &self.tables {
            table.text(out)?;
        }
        Ok(())
    }
}

/// What is shown of a ticket file.
#[derive(Serialize)]
struct ShownTicket {
    ticket: tickets::Note,
    compilation: compilations::Detail,
}

impl View for ShownTicket {
    fn text(&self, out: &mut Text<'_>) -> io::Result<()> {
        self.ticket.text(out)?;
        self.compilation.text(out)
    }
}
