//! What is at the path of a ticket: the question that `repo-gc` and `repo-dump` ask
//! of every ticket that a repository has on record.
//!
//! Anything can be there by now, or in a thin archive's list of members: a FIFO, a device, a
//! file of the kernel's that never ends, an archive larger than memory. So a file is opened
//! without waiting, judged by what was opened, and no more is read than its size says; a large
//! one is mapped, and only what is looked at is read. So the seals of fat objects are not
//! compared: one that somebody has changed since counts as what it was.

use crate::archive::{Archive, Member, MemberBody};
use crate::ticket::{Ticket, TicketError};
use memmap2::Mmap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::{Deref, Range};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Larger files are mapped: tickets are not so large, but archives can be.
const MOST_READ: u64 = 4 << 20;

/// The bytes of a regular file.
pub enum Contents {
    /// They were read.
    Read(Vec<u8>),
    /// They are read when they are looked at.
    Mapped(Mmap),
}

impl Contents {
    /// Those of the file at `path`; `None` if that is no regular file.
    ///
    /// # Errors
    /// Those of opening, reading and mapping.
    pub fn of_file(path: &Path) -> io::Result<Option<Contents>> {
        // Devices are not even opened: that may have effects. The flags see to what takes the
        // file's place meanwhile.
        if !std::fs::metadata(path)?.is_file() {
            return Ok(None);
        }
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(None);
        }
        if metadata.len() > MOST_READ {
            // SAFETY: a mapped file that another process changes meanwhile is undefined
            // behaviour; of tickets and archives, whoever replaces one writes a new file.
            return Ok(Some(Contents::Mapped(unsafe { Mmap::map(&file)? })));
        }
        // The kernel's own files say that they are empty.
        let mut bytes = Vec::with_capacity(metadata.len() as usize);
        file.take(metadata.len()).read_to_end(&mut bytes)?;
        Ok(Some(Contents::Read(bytes)))
    }
}

impl Deref for Contents {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Contents::Read(bytes) => bytes,
            Contents::Mapped(map) => map,
        }
    }
}

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
    match Contents::of_file(path) {
        Ok(Some(bytes)) => look_into(path, &bytes),
        Ok(None) => TicketFile::Other,
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
    match Ticket::claimed(bytes) {
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
        return Ticket::claimed(bytes);
    }
    // A thin archive. Where the file is gone, there is no ticket either.
    match member_bytes(path, member) {
        Ok(bytes) => Ticket::claimed(&bytes),
        Err(_) => Ok(None),
    }
}

/// The bytes of a thin archive's member, which are in another file.
pub struct MemberBytes {
    contents: Contents,
    range: Range<usize>,
}

/// Bytes that are in no file yet.
impl From<Vec<u8>> for MemberBytes {
    fn from(bytes: Vec<u8>) -> MemberBytes {
        MemberBytes {
            range: 0..bytes.len(),
            contents: Contents::Read(bytes),
        }
    }
}

impl Deref for MemberBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.contents[self.range.clone()]
    }
}

/// Why a thin archive's member cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// The file system says so.
    #[error("{}: cannot read", .0.display())]
    Io(PathBuf, #[source] io::Error),
    /// It is in none.
    #[error("{}: no regular file", .0.display())]
    NoFile(PathBuf),
    /// The archive that it is in has no member there.
    #[error("{}: no archive with a member at {at:#x}; make the thin archive again (ar)", path.display())]
    NoMember {
        /// That archive.
        path: PathBuf,
        /// Where the member's header should be.
        at: u64,
    },
}

/// Reads a member of the thin archive at `path`.
///
/// # Errors
/// If its file is not there, cannot be read, or has it not.
pub fn member_bytes(path: &Path, member: &Member<'_>) -> Result<MemberBytes, MemberError> {
    let place = match member.body {
        MemberBody::Nested { header_offset } => Some(header_offset),
        _ => None,
    };
    bytes_at(&member.thin_path(path), place)
}

/// Reads the file at `path`; or, of an archive, the member whose header is at `place`.
///
/// # Errors
/// As [`member_bytes`].
pub fn bytes_at(path: &Path, place: Option<u64>) -> Result<MemberBytes, MemberError> {
    let contents = Contents::of_file(path)
        .map_err(|error| MemberError::Io(path.to_owned(), error))?
        .ok_or_else(|| MemberError::NoFile(path.to_owned()))?;
    let range = match place {
        None => 0..contents.len(),
        Some(at) => {
            let range = Archive::parse(&contents).and_then(|nested| {
                // An offset into the middle of some member may look like a header, too.
                let is_it = |member: &Result<Member<'_>, _>| match member {
                    Ok(member) => member.header_offset == at,
                    Err(_) => true,
                };
                nested.members().find(is_it).transpose()
            });
            match range.map(|found| found.map(|member| member.body)) {
                Ok(Some(MemberBody::Inline(range))) => range,
                _ => {
                    let path = path.to_owned();
                    return Err(MemberError::NoMember { path, at });
                }
            }
        }
    };
    Ok(MemberBytes { contents, range })
}
