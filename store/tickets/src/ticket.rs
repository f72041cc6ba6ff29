//! Reading tickets: the note in an ELF object, and the repository that it names.
//!
//! The note is found by the section headers alone, so that to ask of an object whether it is a ticket costs little; and by
//! the section's name, so that it is found also after other tools (`strip`, `objcopy`) have rewritten the file. What is in
//! it, [`format_spec::ticket`] says. That of a *fat object*, which is a ticket and the object itself, is at the file's end.

use format_spec::digest::Digest;
use format_spec::ticket::{FatObject, NOTE_SECTION, NoteError, TicketNote, VERSION, seal};
use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, SectionHeader64};
use object::pod;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use store::program::ProgramError;

/// Why a ticket could not be read or used.
#[derive(Debug, thiserror::Error)]
pub enum TicketError {
    /// It has the marks of a ticket, but not its form.
    #[error("damaged ticket, at offset {offset:#x}: {what}")]
    Damaged {
        /// Offset in the file.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// It was made by another version of this program.
    #[error(
        "ticket of version {found}, but this program knows only version {VERSION}; build it again"
    )]
    Version {
        /// Its version.
        found: u32,
    },
    /// Its repository is gone.
    #[error(
        "its repository {} does not exist; build it again, or give the repository with --repo",
        path.display()
    )]
    NoRepository {
        /// The repository that it names.
        path: PathBuf,
    },
    /// Another repository than it names.
    #[error(
        "it belongs to repository {wanted}, but {} is repository {found}; build it again, or give the right repository with --repo",
        path.display()
    )]
    OtherRepository {
        /// The repository that is there.
        path: PathBuf,
        /// The UUID that the ticket names.
        wanted: String,
        /// The UUID of the repository.
        found: String,
    },
    /// Another tool has changed it.
    #[error(
        "another tool (objcopy, strip, ld -r) has changed this ticket, and a link would not heed it: {what}; \
         apply such tools to the object itself: repo-dump --materialize makes one of a ticket"
    )]
    Edited {
        /// What is not as it was made.
        what: String,
    },
    /// The repository.
    #[error(transparent)]
    Repository(#[from] ProgramError),
}

/// What a ticket says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The repository's UUID.
    pub uuid: [u8; 16],
    /// The compilation.
    pub compilation: Digest,
    /// The repository's absolute path, as it was when the ticket was written.
    pub repository: PathBuf,
    /// How it was made ([`TicketNote::made`]).
    pub made: Vec<u8>,
    /// Whether the file is as it was written. If it is not, [`edits::check`](crate::edits::check) says whether the ticket
    /// may be used.
    pub is_sealed: bool,
    /// Whether the file is the object itself, too: then nothing is lost if the ticket cannot be used.
    pub is_fat: bool,
}

/// A UUID as it is usually written.
pub fn format_uuid(uuid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

impl Ticket {
    /// Reads a ticket; `None` if the file is none.
    ///
    /// Looks only at section headers and the note, so it is quick on objects that
    /// are no tickets; of one that is, all bytes are read for its seal. It finds the
    /// note also when tools have rewritten the file (`strip`, `objcopy`).
    ///
    /// A fat object that anybody has changed is no ticket.
    ///
    /// # Errors
    /// If the note is there, but damaged or of another version.
    pub fn parse(bytes: &[u8]) -> Result<Option<Ticket>, TicketError> {
        if let Some(fat) = fat_object(bytes) {
            let is_sealed = seal(bytes, fat.start) == Some(fat.note.seal);
            return Ok(is_sealed.then(|| Ticket::of_note(&fat.note, true, true)));
        }
        Ticket::parse_thin(bytes)
    }

    /// As [`parse`](Self::parse), but of fat objects the seal is not looked at, which costs what their size costs: for who
    /// asks what a file may need.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn claimed(bytes: &[u8]) -> Result<Option<Ticket>, TicketError> {
        match fat_object(bytes) {
            Some(fat) => Ok(Some(Ticket::of_note(&fat.note, false, true))),
            None => Ticket::parse_thin(bytes),
        }
    }

    fn parse_thin(bytes: &[u8]) -> Result<Option<Ticket>, TicketError> {
        let Some((offset, note)) = find_note(bytes) else {
            return Ok(None);
        };
        match TicketNote::parse(note) {
            Ok(note) => {
                let is_sealed = seal(bytes, offset as usize) == Some(note.seal);
                Ok(Some(Ticket::of_note(&note, is_sealed, false)))
            }
            Err(NoteError::Damaged(what)) => Err(TicketError::Damaged { offset, what }),
            Err(NoteError::Version(found)) => Err(TicketError::Version { found }),
        }
    }

    fn of_note(note: &TicketNote<'_>, is_sealed: bool, is_fat: bool) -> Ticket {
        Ticket {
            uuid: note.uuid,
            compilation: note.compilation,
            repository: PathBuf::from(OsStr::from_bytes(note.repository)),
            made: note.made.to_vec(),
            is_sealed,
            is_fat,
        }
    }
}

/// Whether a file has a ticket's note, damaged or not.
pub fn is_ticket(bytes: &[u8]) -> bool {
    find_note(bytes).is_some()
}

/// Whether a file ends as a fat object does, changed or not.
pub fn is_fat(bytes: &[u8]) -> bool {
    fat_object(bytes).is_some()
}

/// The object that a fat object is, changed or not, without the note.
pub fn within_fat(bytes: &[u8]) -> Option<&[u8]> {
    fat_object(bytes).map(|fat| fat.object)
}

fn fat_object(bytes: &[u8]) -> Option<FatObject<'_>> {
    object_header(bytes)?;
    TicketNote::of_fat(bytes)
}

/// The header of a relocatable object for 64 bits.
fn object_header(bytes: &[u8]) -> Option<&FileHeader64<LE>> {
    let (header, _) = pod::from_bytes::<FileHeader64<LE>>(bytes).ok()?;
    let is_object = header.e_ident.magic == elf::ELFMAG
        && header.e_ident.class == elf::ELFCLASS64
        && header.e_ident.data == elf::ELFDATA2LSB
        && header.e_type.get(LE) == elf::ET_REL;
    is_object.then_some(header)
}

/// The note section of a ticket, and its offset in the file.
fn find_note(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let header = object_header(bytes)?;
    let table = bytes.get(usize::try_from(header.e_shoff.get(LE)).ok()?..)?;
    // A ticket has few sections, so the extended numbering does not occur.
    let count = usize::from(header.e_shnum.get(LE));
    let (sections, _) = pod::slice_from_bytes::<SectionHeader64<LE>>(table, count).ok()?;
    let contents = |section: &SectionHeader64<LE>| {
        let start = usize::try_from(section.sh_offset.get(LE)).ok()?;
        let size = usize::try_from(section.sh_size.get(LE)).ok()?;
        bytes.get(start..start.checked_add(size)?)
    };
    let names = contents(sections.get(usize::from(header.e_shstrndx.get(LE)))?)?;
    sections
        .iter()
        .filter(|section| section.sh_type.get(LE) == elf::SHT_NOTE)
        .find(|section| {
            names
                .get(section.sh_name.get(LE) as usize..)
                .and_then(|rest| rest.strip_prefix(NOTE_SECTION))
                .is_some_and(|rest| rest.first() == Some(&0))
        })
        .and_then(|section| Some((section.sh_offset.get(LE), contents(section)?)))
}
