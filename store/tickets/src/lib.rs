//! Ticket files, which build systems see in place of object files (SPEC.md, section 20).
//!
//! Who has to do with tickets need not be a linker: the compactor asks which of them are still there. So what is common to
//! both stands here, between the store and them:
//!
//! * [`ticket`]: reading the note that makes an ELF object a ticket.
//! * [`recipe`]: how a ticket was made, signed with the user's [`key`].
//! * [`repository`]: finding the repository that a ticket names.
//! * [`write`](mod@write): making a whole ticket, which other tools (`nm`, `ar`, `strip`) take for an ordinary object.
//! * [`edits`]: tickets that other tools have changed since.
//! * [`archive`]: `ar` archives, in which tickets travel; [`archive_writer`]: archives in which objects take their places.
//! * [`file`](mod@file): what is at a path: a ticket, an archive with tickets, or something else.

pub mod archive;
pub mod archive_writer;
pub mod edits;
pub mod file;
pub mod key;
pub mod recipe;
pub mod repository;
pub mod ticket;
pub mod write;

pub use ticket::{Ticket, TicketError, is_fat, is_ticket, within_fat};
pub use write::{
    DOTTED_EXPLANATION, EXPLANATION, make_fat, named_path, ticket_bytes, write_ticket,
};
