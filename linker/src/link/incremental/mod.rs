//! Incremental links: what a link leaves for the next one of the same output, and the link that changes only what was edited.
//!
//! A full link with `--incremental` leaves [`Room`](crate::resolve::room::Room) in the output and a [state file](state) beside the repository: which
//! inputs there were, where everything stands, what every name means, who mentions it. The next link compares the inputs'
//! time stamps with it. If nothing has changed, there is nothing to do. If some objects have, these alone are read again
//! ([`relink`]): the same functions that resolve, trace, and write all files run over these few, in a world whose
//! other symbols are what the state says ([`world`]), and their part of the output is written again in its place. Objects that
//! the command line names newly, or no more ([`command`]), are as edited ones that had, or have, nothing; so are members of
//! archives that are needed now ([`draw`]). What is needed first of shared objects is taken from what is spare ([`imports`], [`needs`],
//! [`copies`]), as are places for what others find in the output ([`exports`]) and for functions that run before and after all others
//! ([`lists`]). Who refers to a definition that has moved gets its new address, and is not linked again for that ([`readdress`]). What files
//! leave is used again ([`holes`]).
//!
//! *Identities.* The numbers of files, symbols and sections by which phases refer to things ([`ids`](crate::base::ids)) are places in
//! the lists of one link, and are no longer lived than that. What one link tells the next by is what lasts: a file is its place in the
//! state's table of files, which no other file gets, be it gone ([`records`]); a section is its file and its number there; a name is its
//! key ([`state::NameKey`]). Of each name the state has not only who defines it but all files that speak of it ([`speakers`]), those
//! too whose definition has lost: where a definition goes or comes, they are the candidates, and are asked ([`names`]).
//!
//! The rule is that of the whole linker: never wrong. Whatever is not known to be harmless (an order that cannot be told, a
//! definition that others may see, a slot that is missing, no room left) makes a full link of it, and the log says why.

mod again;
mod capture;
mod changes;
mod check;
mod choice;
mod chunks;
mod command;
mod copies;
mod draw;
mod drawn;
mod edited;
mod export;
mod exports;
mod gaps;
pub(super) mod held;
mod holds;
mod holes;
mod imports;
mod inputs;
mod interface;
mod known;
mod lists;
mod look;
mod manifest;
mod names;
mod needs;
mod parts;
mod patch;
mod pieces;
mod place;
mod read;
mod readdress;
mod reason;
mod records;
mod relink;
mod said;
mod shared;
mod spare;
mod speakers;
mod state;
mod strings;
mod symbol_lists;
mod symbolic;
mod symbols;
mod trace;
mod world;
mod write;

pub(crate) use capture::Finished;
pub use choice::choose;
pub(crate) use relink::{Full, Outcome, relink, verify};

use super::Link;
use held::Held;
use reason::Reason;

/// After a full link that is to leave a state: why it leaves none, if that is known already.
pub(crate) fn refuses(link: Link, finished: &Finished) -> Option<Reason> {
    // A link that has something to say of its inputs says it each time.
    match link.diag.has_errors()
        || link.diag.warning_count() > finished.said + finished.lasting.len()
    {
        true => Some("there are warnings".into()),
        false => capture::check(finished).err(),
    }
}

/// After a full link: keeps what the next one needs.
///
/// # Errors
/// Why it is not kept.
pub(crate) fn keep(held: &Held, finished: Finished) -> Result<(), Reason> {
    held.clean();
    capture::capture(finished, held)
}
