//! The ticket files on record, and a ticket file itself.

use super::model::Model;
use super::output::{Text, View, printable, time};
use ::tickets::file::{self, Contents, TicketFile};
use ::tickets::is_fat;
use ::tickets::ticket::{Ticket, format_uuid};
use anyhow::{Context, Result};
use format_spec::program::Index;
use serde::Serialize;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A ticket on record.
#[derive(Serialize)]
pub struct Row {
    path: String,
    compilation: String,
    written: String,
    /// What is at the path now.
    state: State,
}

/// What is at the path of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The ticket.
    Live,
    /// An archive with tickets of this repository.
    Archive,
    /// Nothing.
    Gone,
    /// A ticket that names another compilation, or another repository's.
    OtherTicket,
    /// Another file.
    OtherFile,
    /// Something that could not be read.
    Unreadable,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Live => "live",
            State::Archive => "archive",
            State::Gone => "gone",
            State::OtherTicket => "other ticket",
            State::OtherFile => "other file",
            State::Unreadable => "unreadable",
        }
    }
}

/// Heading for [`Row`]s.
pub const HEADING: &str = "state         compilation   written               path";

/// The tickets on record whose path contains `pattern`, by path.
pub fn list(model: &Model<'_>, pattern: Option<&str>) -> Result<Vec<Row>> {
    let uuid = model.programs.snapshot().store().uuid();
    let mut rows = Vec::new();
    for record in model.programs.records(Index::Tickets) {
        let view = model.programs.ticket(&record?)?;
        let path = printable(view.path).into_owned();
        if pattern.is_some_and(|pattern| !path.contains(pattern)) {
            continue;
        }
        let compilation = model.programs.compilation_at(view.header.compilation)?;
        let digest = compilation.record().key();
        let state = match file::look_at(Path::new(OsStr::from_bytes(view.path))) {
            TicketFile::Ticket(ticket) if ticket.uuid == uuid && ticket.compilation == digest => {
                State::Live
            }
            TicketFile::Ticket(_) => State::OtherTicket,
            // The compactor puts archives on record in which it found tickets.
            TicketFile::Archive { tickets, .. }
                if tickets.iter().any(|ticket| ticket.uuid == uuid) =>
            {
                State::Archive
            }
            TicketFile::Gone => State::Gone,
            TicketFile::Archive { .. } | TicketFile::Other => State::OtherFile,
            TicketFile::Damaged(_) | TicketFile::Unreadable(_) => State::Unreadable,
        };
        rows.push(Row {
            path,
            compilation: digest.to_string(),
            written: time(view.header.written),
            state,
        });
    }
    rows.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(rows)
}

impl View for Row {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        let style = out.style;
        let name = self.state.name();
        let state = match self.state {
            State::Live | State::Archive => style.name(name),
            _ => style.bad(name),
        };
        writeln!(
            out,
            "{state:<12}  {}  {}  {}",
            style.digest(&self.compilation[..12]),
            self.written,
            self.path
        )
    }
}

/// What a ticket file says.
#[derive(Serialize)]
pub struct Note {
    ticket: String,
    /// Whether the file is the object, too.
    fat: bool,
    uuid: String,
    repository: String,
    compilation: String,
}

impl Note {
    /// Of the ticket at `path`.
    pub fn new(path: &Path, ticket: &Ticket) -> Note {
        Note {
            ticket: printable(path.as_os_str().as_bytes()).into_owned(),
            fat: ticket.is_fat,
            uuid: format_uuid(&ticket.uuid),
            repository: printable(ticket.repository.as_os_str().as_bytes()).into_owned(),
            compilation: ticket.compilation.to_string(),
        }
    }
}

impl View for Note {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        match self.fat {
            false => out.field("ticket", &self.ticket)?,
            true => out.field("fat object", &self.ticket)?,
        }
        out.field("repository", &self.repository)?;
        out.field("uuid", &self.uuid)
    }
}

/// Reads a ticket file.
pub fn read(path: &Path) -> Result<Ticket> {
    let bytes = Contents::of_file(path)
        .with_context(|| format!("{}: cannot read", path.display()))?
        .with_context(|| format!("{}: not a ticket, but no regular file", path.display()))?;
    match Ticket::parse(&bytes) {
        Ok(Some(ticket)) => Ok(ticket),
        Ok(None) if is_fat(&bytes) => anyhow::bail!(
            "{}: not a ticket any more: it was a fat object, and has been changed since, so links take it as an ordinary object",
            path.display()
        ),
        Ok(None) => anyhow::bail!("{}: not a ticket", path.display()),
        Err(error) => anyhow::bail!("{}: {error}", path.display()),
    }
}
