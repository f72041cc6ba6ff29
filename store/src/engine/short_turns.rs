//! Asking all writers for short turns.
//!
//! A process that may write comes back for the lock as long as its turn lasts ([`lock`](super::lock)): that is cheap, and nobody
//! minds waiting for it. A compactor does, which must get the lock again and again to be done at all. It locks one more byte of the
//! file, where none is; writers look whether somebody has it, once in a while.

use super::store::Store;

/// As long as there is this, turns of this file's writers are short.
pub struct ShortTurns<'s>(&'s Store);

impl Store {
    /// Asks for short turns, in all processes. If somebody else does so already, or the system cannot do it, turns are as they are.
    pub fn short_turns(&self) -> ShortTurns<'_> {
        // It is a courtesy: whoever does not get it has to wait longer.
        let _ = self.system().ask_for_short_turns(self.file());
        ShortTurns(self)
    }
}

impl Drop for ShortTurns<'_> {
    fn drop(&mut self) {
        self.0.system().end_short_turns(self.0.file());
    }
}
