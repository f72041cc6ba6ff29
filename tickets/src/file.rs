//! What is at the path of a ticket: the question that `repo-gc` and `repo-dump` ask
//! of every ticket that a repository has on record.

use crate::archive::{Archive, Member, MemberBody};
use crate::ticket::{Ticket, TicketError};
use std::io;
use std::path::Path;

/// What is at a path.
#[derive(Debug)]
pub enum TicketFile {
    /// Nothing.
    Gone,
    /// A ticket.
    Ticket(Ticket),
    /// An archive.
    Archive {
        /// The tickets in it; perhaps none.
        tickets: Vec<Ticket>,
        /// What of it could not be read.
        problem: Option<String>,
    },
    /// Some other file.
    Other,
    /// It has the marks of a ticket, or of an archive, but cannot be read as one.
    Damaged(String),
    /// The system does not let us look. There may be a ticket.
    Unreadable(io::Error),
}

/// Looks at `path`.
pub fn look_at(path: &Path) -> TicketFile {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return TicketFile::Other,
        Err(error) => return refused(error),
    }
    match std::fs::read(path) {
        Ok(bytes) => look_into(path, &bytes),
        Err(error) => refused(error),
    }
}

fn refused(error: io::Error) -> TicketFile {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => TicketFile::Gone,
        _ => TicketFile::Unreadable(error),
    }
}

/// What a file with these bytes is. `path` is that of the file: members of thin
/// archives are files beside it.
pub fn look_into(path: &Path, bytes: &[u8]) -> TicketFile {
    if Archive::is_archive(bytes) {
        return look_into_archive(path, bytes);
    }
    match Ticket::parse(bytes) {
        Ok(Some(ticket)) => TicketFile::Ticket(ticket),
        Ok(None) => TicketFile::Other,
        Err(error) => TicketFile::Damaged(error.to_string()),
    }
}

fn look_into_archive(path: &Path, bytes: &[u8]) -> TicketFile {
    let archive = match Archive::parse(bytes) {
        Ok(archive) => archive,
        Err(error) => return TicketFile::Damaged(error.to_string()),
    };
    let mut tickets = Vec::new();
    let mut problem = None;
    for member in archive.members() {
        let ticket = match &member {
            Ok(member) => member_ticket(path, &archive, member)
                .map_err(|error| format!("{}: {error}", member.display_name())),
            Err(error) => Err(error.to_string()),
        };
        match ticket {
            Ok(ticket) => tickets.extend(ticket),
            // The other members' tickets are tickets nevertheless.
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    TicketFile::Archive { tickets, problem }
}

fn member_ticket(
    path: &Path,
    archive: &Archive<'_>,
    member: &Member<'_>,
) -> Result<Option<Ticket>, TicketError> {
    if let Some(bytes) = archive.inline_data(member) {
        return Ticket::parse(bytes);
    }
    // A thin archive. Where the file is gone, there is no ticket either.
    let Ok(bytes) = std::fs::read(member.thin_path(path)) else {
        return Ok(None);
    };
    let MemberBody::Nested { header_offset } = member.body else {
        return Ticket::parse(&bytes);
    };
    let Ok(nested) = Archive::parse(&bytes) else {
        return Ok(None);
    };
    match nested.member_at(header_offset) {
        Ok(member) => nested.inline_data(&member).map_or(Ok(None), Ticket::parse),
        Err(_) => Ok(None),
    }
}
