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
mod layout;
mod manifest;
mod names;
mod patch;
mod placing;
mod relink;
mod state;
mod world;

pub(crate) use capture::{Finished, capture};
pub(crate) use relink::{Outcome, relink, verify};

use std::borrow::Cow;

/// Why a link is not incremental.
pub(crate) type Reason = Cow<'static, str>;
