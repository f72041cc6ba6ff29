//! Incremental links: what a link leaves for the next one of the same output, and the link that changes only what was edited.
//!
//! A full link with `--incremental` leaves [`Room`](crate::room::Room) in the output and a [state file](state) beside the repository: which
//! inputs there were, where everything stands, what every name means, who mentions it. The next link compares the inputs'
//! time stamps with it. If nothing has changed, there is nothing to do. If some objects have, these alone are read again
//! ([`relink`]): the same functions that resolve, trace, and write all files run over these few, in a world whose
//! other symbols are what the state says ([`world`]), and their part of the output is written again in its place. Objects that
//! the command line names newly, or no more ([`command`]), are as edited ones that had, or have, nothing; so are members of
//! archives that are needed now ([`draw`]). What is needed first of shared objects is taken from what is spare ([`imports`]).
//!
//! The rule is that of the whole linker: never wrong. Whatever is not known to be harmless (an order that cannot be told, a
//! definition that others may see, a slot that is missing, no room left) makes a full link of it, and the log says why.

mod capture;
mod changes;
mod choice;
mod chunks;
mod command;
mod draw;
mod edited;
mod gaps;
mod held;
mod imports;
mod inputs;
mod interface;
mod look;
mod manifest;
mod names;
mod parts;
mod patch;
mod pieces;
mod place;
mod read;
mod records;
mod relink;
mod said;
mod shared;
mod spare;
mod state;
mod symbols;
mod trace;
mod world;
mod write;

pub(crate) use capture::Finished;
pub use choice::choose;
pub(crate) use held::Held;
pub(crate) use relink::{Full, Outcome, relink, verify};

use super::Link;
use crate::diag::Diagnostics;
use command::Command;
use edited::Edited;
use state::State;
use std::borrow::Cow;
use world::World;

/// Why a link is not incremental.
pub(crate) type Reason = Cow<'static, str>;

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

/// What every step of an incremental link is told.
#[derive(Clone, Copy)]
struct Again<'g> {
    link: Link<'g>,
    /// What the link before has left.
    state: &'g State,
    /// The program around, as that says.
    world: &'g World<'g>,
    /// The command line.
    command: &'g Command<'g>,
    /// What has changed.
    edited: &'g Edited,
    /// The objects that are linked again, by their numbers there, in order.
    ids: &'g [u32],
    /// What is said of them.
    diag: &'g Diagnostics,
}

impl Again<'_> {
    /// Gives up if anything was said: a full link says it.
    fn refuse(&self) -> Result<(), Reason> {
        if !self.diag.has_errors() && self.diag.warning_count() == 0 {
            return Ok(());
        }
        let mut text = Vec::new();
        // Memory takes all that is written.
        let _ = self.diag.flush(&mut text);
        let text = String::from_utf8_lossy(&text);
        let first = text.lines().next().unwrap_or("an error");
        Err(format!("a changed object has {first}").into())
    }
}

/// What is done with what the objects are now.
#[derive(Clone, Copy)]
enum How<'h> {
    /// The output is changed.
    Change(&'h Held),
    /// The output must be so already.
    Compare,
}
