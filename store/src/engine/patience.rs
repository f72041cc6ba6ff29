//! How long a writer waits for the right to write that another process has and makes no
//! use of: because it is stopped, or because its disk does not answer.
//!
//! What counts is the time in which nothing was committed. A queue that moves is no reason
//! to give up, however long it is.

use super::holder::Holder;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Whoever is told that a wait is long: of the repository, and of the process that has the
/// lock, as far as the system says which.
pub type Tell = dyn Fn(&Path, Option<Holder>) + Send + Sync;

/// When to tell the user of a wait, and when to give up. Without one (see
/// [`OpenOptions::patience`](super::OpenOptions)) a writer waits for ever, without a word.
#[derive(Clone)]
pub struct Patience {
    /// The user is told, once a wait, when nothing was committed for so long.
    pub tell_after: Duration,
    /// When nothing was committed for so long, the wait ends with [`Error::Locked`](super::Error::Locked).
    pub give_up_after: Duration,
    /// Tells.
    pub tell: Arc<Tell>,
}

impl fmt::Debug for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience")
            .field("tell_after", &self.tell_after)
            .field("give_up_after", &self.give_up_after)
            .finish_non_exhaustive()
    }
}
