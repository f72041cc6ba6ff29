//! What the steps of an incremental link have in common.

use super::command::Command;
use super::edited::Edited;
use super::held::Held;
use super::reason::Reason;
use super::state::State;
use super::world::World;
use crate::link::Link;
use crate::messages::diag::Diagnostics;

/// What every step of an incremental link is told.
#[derive(Clone, Copy)]
pub(super) struct Again<'g> {
    pub link: Link<'g>,
    /// What the link before has left.
    pub state: &'g State,
    /// The program around, as that says.
    pub world: &'g World<'g>,
    /// The command line.
    pub command: &'g Command<'g>,
    /// What has changed.
    pub edited: &'g Edited,
    /// The objects that are linked again, by their numbers there, in order.
    pub ids: &'g [u32],
    /// What is said of them.
    pub diag: &'g Diagnostics,
}

impl Again<'_> {
    /// Gives up if anything was said: a full link says it.
    pub fn refuse(&self) -> Result<(), Reason> {
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
pub(super) enum How<'h> {
    /// The output is changed.
    Change(&'h Held),
    /// The output must be so already.
    Compare,
}
