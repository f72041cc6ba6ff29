//! Parsing what was found: ELF files, bitcode, shared objects, and tickets, which are exchanged for the compilations that they
//! name.

use super::arena::{Content, InputArena};
use super::found::{Found, describe};
use super::lost::{self, Lost};
use crate::args::{Args, OutputKind};
use crate::elf::{self, Ehdr, c};
use crate::input::elf_object::{ElfObject, Malformed, is_bitcode};
use crate::input::file::{Body, File};
use crate::input::parts::RepositoryId;
use crate::input::shared_object::Shared;
use crate::input::ticket_object::TicketObject;
use crate::messages::diag::Diagnostics;
use rayon::prelude::*;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use store::engine::OpenOptions;
use store::program::{ProgramError, Programs, Repository, locate, waiting};
use tickets::{Ticket, TicketError, edits, is_fat};

/// A file after parsing.
#[allow(clippy::large_enum_variant)] // one a file, and soon taken apart
pub(super) enum Parsed<'a> {
    File(File<'a>),
    /// A ticket, which has yet to be exchanged for the compilation that it names.
    Ticket(Found<'a>, Ticket),
}

impl<'a> Parsed<'a> {
    /// The file; a ticket that is still one could not be opened.
    pub(super) fn into_file(parsed: Option<Self>) -> Option<File<'a>> {
        match parsed? {
            Parsed::File(file) => Some(file),
            Parsed::Ticket(..) => None,
        }
    }

    pub(super) fn file(&self) -> Option<&File<'a>> {
        match self {
            Parsed::File(file) => Some(file),
            Parsed::Ticket(..) => None,
        }
    }
}

/// A repository that a ticket has named.
struct KnownRepository<'a> {
    path: PathBuf,
    uuid: [u8; 16],
    id: RepositoryId,
    repository: &'a Repository,
    programs: Programs<'a>,
}

impl<'a> KnownRepository<'a> {
    /// The compilation that the ticket in `file` names, if the file is still as it was written or might as well be.
    fn object(&self, file: &[u8], ticket: &Ticket) -> Result<TicketObject<'a>, Malformed> {
        if !ticket.is_sealed {
            edits::check(file, ticket, self.repository)?;
        }
        Ok(TicketObject::open(
            self.id,
            self.programs,
            &ticket.compilation,
        )?)
    }

    /// Whether it is `ticket`'s. A path on the command line counts for all tickets.
    fn is_of(&self, ticket: &Ticket, args: &Args) -> bool {
        self.uuid == ticket.uuid
            && (args.repo.is_some() || self.path.as_os_str() == ticket.repository.as_os_str())
    }
}

/// Parses inputs.
pub(super) struct Opening<'a, 'l> {
    pub(super) arena: &'a InputArena,
    pub(super) args: &'l Args,
    pub(super) diag: &'l Diagnostics,
    /// Those of the tickets so far. There is hardly ever more than one, and there are as many tickets as objects.
    repositories: Vec<KnownRepository<'a>>,
    /// Tickets that are lost for good.
    pub(super) lost: Vec<Lost<'a>>,
}

impl<'a, 'l> Opening<'a, 'l> {
    pub(super) fn new(arena: &'a InputArena, args: &'l Args, diag: &'l Diagnostics) -> Self {
        Opening {
            arena,
            args,
            diag,
            repositories: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// Parses `found`. What is not for this link is left out. Files are large: they stay where they are made, after `first`.
    pub(super) fn parse_all(
        &mut self,
        first: Option<File<'a>>,
        found: Vec<Found<'a>>,
    ) -> Vec<File<'a>> {
        let mut parsed = Vec::with_capacity(found.len() + 1);
        parsed.extend(first.map(|file| Some(Parsed::File(file))));
        self.parse_onto(&mut parsed, found);
        parsed.into_iter().filter_map(Parsed::into_file).collect()
    }

    /// Parses `found` onto the end of `parsed`, each file or nothing for what is not for this link.
    pub(super) fn parse_onto(
        &mut self,
        parsed: &mut Vec<Option<Parsed<'a>>>,
        found: Vec<Found<'a>>,
    ) {
        let before = parsed.len();
        let (args, diag) = (self.args, self.diag);
        parsed.par_extend(found.into_par_iter().map(|found| parse(found, args, diag)));
        self.open_tickets(&mut parsed[before..]);
    }

    /// Puts in each ticket's place its compilation. Lost tickets are made again if that may be, and what they are then is
    /// opened in their place.
    pub(super) fn open_tickets(&mut self, parsed: &mut [Option<Parsed<'a>>]) {
        let (args, diag) = (self.args, self.diag);
        let lost = self.open_present(parsed);
        if lost.is_empty() {
            return;
        }
        let mut lost = take_lost(lost, parsed);
        let again = match args.remake {
            true => lost::make_again(&mut lost, args.repo.as_deref()),
            false => lost::Again::default(),
        };
        let mut not_again = HashMap::new();
        for lost in lost {
            let Lost {
                index,
                found,
                ticket,
                ..
            } = lost;
            let Some(file) = again.files.get(&index) else {
                not_again.extend(lost.not_again.map(|why| (index, why)));
                parsed[index] = Some(Parsed::Ticket(found, ticket));
                continue;
            };
            parsed[index] = match self.arena.map(file) {
                Ok(Content { bytes, mapped }) => {
                    let data = bytes;
                    let found = Found {
                        data,
                        mapped,
                        ..found
                    };
                    parse(found, args, diag)
                }
                Err(error) => {
                    diag.error(format!("{}: {error}", describe(&found)));
                    None
                }
            };
        }
        // What is new in a repository, the snapshot does not show of which objects have been made: others are made of a new one,
        // as if it were another repository.
        self.repositories.clear();
        let lost = self.open_present(parsed);
        let mut lost = take_lost(lost, parsed);
        for lost in &mut lost {
            lost.not_again = not_again.remove(&lost.index);
        }
        self.lost.extend(lost);
    }

    /// Puts in each ticket's place its compilation: opens each repository once, then all compilations in parallel. Returns
    /// which tickets are lost, and why; what is wrong otherwise is reported.
    fn open_present(&mut self, parsed: &mut [Option<Parsed<'a>>]) -> Vec<(usize, String)> {
        let (args, diag) = (self.args, self.diag);
        let mut without: Vec<Without> = Vec::new();
        let mut any = false;
        // Fat objects last: what is wrong with their repositories is of no importance, unless tickets are concerned.
        let tickets = |is_fat| {
            parsed.iter().filter_map(move |parsed| match parsed {
                Some(Parsed::Ticket(found, ticket)) => {
                    (ticket.is_fat == is_fat).then_some((found, ticket))
                }
                _ => None,
            })
        };
        for (found, ticket) in tickets(false).chain(tickets(true)) {
            any = true;
            if self
                .repositories
                .iter()
                .any(|known| known.is_of(ticket, args))
                || without.iter().any(|without| without.is_of(ticket))
            {
                continue;
            }
            match self.open_repository(found, ticket) {
                Ok(known) => self.repositories.push(known),
                Err(why) => {
                    let lost = is_lost(&why).then(|| why.to_string());
                    if lost.is_none() && !ticket.is_fat {
                        diag.error(format!("{}: {why}", describe(found)));
                    }
                    without.push(Without {
                        path: ticket.repository.clone(),
                        uuid: ticket.uuid,
                        lost,
                    });
                }
            }
        }
        if !any {
            return Vec::new();
        }
        let repositories = &self.repositories;
        let open = |(index, parsed): (usize, &mut Option<Parsed<'a>>)| {
            let is_ticket = matches!(parsed, Some(Parsed::Ticket(..)));
            let Some(Parsed::Ticket(found, ticket)) = parsed.take_if(|_| is_ticket) else {
                return None;
            };
            let known = repositories.iter().find(|known| known.is_of(&ticket, args));
            let why = match known.map(|known| known.object(found.data, &ticket)) {
                Some(Ok(object)) => {
                    let file = found.file(Body::Object(object.into()));
                    *parsed = Some(Parsed::File(file));
                    return None;
                }
                _ if ticket.is_fat => {
                    // It is the object itself.
                    *parsed = parse_file(found, args, diag);
                    return None;
                }
                Some(Err(why)) if is_lost(&why) => why.to_string(),
                Some(Err(why)) => {
                    diag.error(format!("{}: {why}", describe(&found)));
                    return None;
                }
                None => {
                    let without = without.iter().find(|without| without.is_of(&ticket))?;
                    without.lost.clone()?
                }
            };
            *parsed = Some(Parsed::Ticket(found, ticket));
            Some((index, why))
        };
        parsed.par_iter_mut().enumerate().filter_map(open).collect()
    }

    fn open_repository(
        &self,
        found: &Found<'a>,
        ticket: &Ticket,
    ) -> Result<KnownRepository<'a>, Malformed> {
        let environment = locate::Environment::current();
        let options = OpenOptions {
            patience: Some(waiting::patience(|line| crate::tell!("repo-ld: {line}"))),
            ..OpenOptions::default()
        };
        let option = self.args.repo.as_deref();
        let repository = ticket.open_repository(option, found.path, &environment, &options)?;
        let repository: &'a Repository = self.arena.repositories.alloc(repository);
        Ok(KnownRepository {
            path: ticket.repository.clone(),
            uuid: ticket.uuid,
            id: RepositoryId(self.arena.repositories.len() as u32 - 1),
            repository,
            programs: repository.programs()?,
        })
    }
}

/// A repository that tickets name and that cannot be used.
struct Without {
    path: PathBuf,
    uuid: [u8; 16],
    /// Why its tickets are lost; `None` if something else is wrong with it, which is reported.
    lost: Option<String>,
}

impl Without {
    fn is_of(&self, ticket: &Ticket) -> bool {
        self.uuid == ticket.uuid && self.path.as_os_str() == ticket.repository.as_os_str()
    }
}

/// Whether what a ticket names is not there, so that the ticket is as good as none.
fn is_lost(why: &Malformed) -> bool {
    matches!(
        why,
        Malformed::Ticket(
            TicketError::NoRepository { .. }
                | TicketError::OtherRepository { .. }
                | TicketError::Repository(ProgramError::NoCompilation { .. })
        ) | Malformed::Repository(ProgramError::NoCompilation { .. })
    )
}

/// Takes the lost tickets out of `parsed`.
fn take_lost<'a>(lost: Vec<(usize, String)>, parsed: &mut [Option<Parsed<'a>>]) -> Vec<Lost<'a>> {
    let of = |(index, why): (usize, String)| match parsed[index].take() {
        Some(Parsed::Ticket(found, ticket)) => Some(Lost {
            index,
            found,
            ticket,
            why,
            not_again: None,
        }),
        _ => None,
    };
    lost.into_iter().filter_map(of).collect()
}

/// A ticket has few sections; an object that has more is none, and need not be searched for the note.
pub(super) fn may_be_ticket(header: &Ehdr) -> bool {
    const MOST_SECTIONS: u16 = 256;
    header.e_shnum <= MOST_SECTIONS
}

fn parse<'a>(found: Found<'a>, args: &Args, diag: &Diagnostics) -> Option<Parsed<'a>> {
    let header = elf::record::<Ehdr>(found.data, 0);
    // What else is in a ticket than its note is for other tools, and is not looked at.
    if header.is_some_and(may_be_ticket) || is_fat(found.data) {
        match Ticket::parse(found.data) {
            // To make an object of a compilation that is there as an object would be a detour.
            Ok(Some(ticket)) if ticket.is_fat && args.kind == OutputKind::Relocatable => {}
            Ok(Some(ticket)) => return Some(Parsed::Ticket(found, ticket)),
            Ok(None) => {}
            Err(why) => {
                diag.error(format!("{}: {why}", describe(&found)));
                return None;
            }
        }
    }
    parse_file(found, args, diag)
}

/// Parses what is no ticket, or a fat object whose ticket is of no use.
fn parse_file<'a>(found: Found<'a>, args: &Args, diag: &Diagnostics) -> Option<Parsed<'a>> {
    let header = elf::record::<Ehdr>(found.data, 0);
    let body = match header.map(|header| header.e_type) {
        _ if is_bitcode(found.data) => {
            let object = ElfObject::of_bitcode(found.data);
            Ok(Body::Object(object.into()))
        }
        Some(c::ET_DYN) => {
            let name = found.path.file_name().filter(|_| !found.by_path);
            let given = name.unwrap_or(found.path.as_os_str()).as_bytes();
            Shared::parse(found.data, given).map(Body::Shared)
        }
        _ => ElfObject::parse(found.data).map(|elf| Body::Object(elf.into())),
    };
    match body {
        Ok(Body::Shared(_)) if args.kind.is_static() || args.kind == OutputKind::Relocatable => {
            diag.error(format!(
                "{}: attempted static link of dynamic object",
                found.path.display()
            ));
            None
        }
        Ok(body) => Some(Parsed::File(found.file(body))),
        // An archive may hold what was never meant for this link.
        Err(Malformed::Incompatible(_)) if found.lazy => None,
        Err(why) => {
            diag.error(format!("{}: {why}", describe(&found)));
            None
        }
    }
}
