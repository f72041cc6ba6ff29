//! Incremental links: what a link leaves for the next one of the same output, and the link that changes only what was edited.
//!
//! A full link with `--incremental` leaves [`Room`](crate::room::Room) in the output and a [state file](state) beside the repository: which
//! inputs there were, where everything stands, what every name means, who mentions it. The next link compares the inputs'
//! time stamps with it. If nothing has changed, there is nothing to do. If some objects have, these alone are read again
//! ([`relink`]): the same functions that resolve, trace, and write all files run over these few, in a world whose
//! other symbols are what the state says ([`world`]), and their part of the output is written again in its place.
//!
//! The rule is that of the whole linker: never wrong. Whatever is not known to be harmless (a name that was not there, a
//! definition that is gone, a slot that is missing, no room left) makes a full link of it, and the log says why.

mod capture;
mod changes;
mod chunks;
mod edited;
mod gaps;
mod inputs;
mod manifest;
mod names;
mod parts;
mod patch;
mod pieces;
mod place;
mod read;
mod relink;
mod state;
mod symbols;
mod trace;
mod world;
mod write;

pub(crate) use capture::Finished;
pub(crate) use relink::{Outcome, relink};

use super::Link;
use crate::diag::Diagnostics;
use crate::inputs::InputArena;
use crate::room::wanted;
use crate::timing::Timing;
use state::State;
use std::borrow::Cow;
use world::World;

/// Why a link is not incremental.
pub(crate) type Reason = Cow<'static, str>;

/// After a full link, and if the options ask for it: keeps what the next one needs. `full` is why this one was, and what is
/// returned says also why the next one will be, if so.
pub(crate) fn keep(
    link: Link,
    finished: Finished,
    arena: &InputArena,
    full: Option<Reason>,
    timing: &mut Timing,
) -> Option<Reason> {
    if wanted(link.args).is_err() {
        return full;
    }
    // A link that has something to say says it each time.
    let has_spoken = link.diag.has_errors() || link.diag.warning_count() > 0;
    let kept = match has_spoken {
        false => capture::capture(finished, arena),
        true => Err("there are warnings".into()),
    };
    timing.phase("keep state");
    match kept {
        Ok(()) if link.args.verify_incremental => relink::verify(link, timing),
        Ok(()) => {}
        Err(why) => {
            let full = full.unwrap_or_default();
            return Some(format!("{full}; the next one will be full, too: {why}").into());
        }
    }
    full
}

/// What every step of an incremental link is told.
#[derive(Clone, Copy)]
struct Again<'g> {
    link: Link<'g>,
    /// What the link before has left.
    state: &'g State,
    /// The program around, as that says.
    world: &'g World<'g>,
    /// The objects that are linked again, by their numbers there.
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
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// The output is changed.
    Change,
    /// The output must be so already.
    Compare,
}
