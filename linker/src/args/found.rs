//! A word of the command line as an option, when it has been found in the tables and nothing has been done yet.

use super::options::{Id, Takes};
use std::ffi::OsString;

/// What a name on the command line leads to.
#[derive(Clone, Copy)]
pub(super) enum Action {
    Obey(Id),
    Ignore,
    /// Nothing, with a warning that says so.
    Warn(&'static str),
    Refuse(&'static str),
}

#[derive(Clone, Copy)]
pub(super) struct Known {
    pub(super) action: Action,
    pub(super) takes: Takes,
}

/// An option as found: what to do, how it was spelled (for messages), and its joined value.
pub(super) struct Found {
    pub(super) entry: Known,
    pub(super) spelled: String,
    pub(super) joined: Option<OsString>,
}
