//! Waiting for what another process has, as long as the user's [patience](super::patience) lasts.

use super::error::{Error, Result};
use super::store::Store;
use super::sync::Word;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A wait.
pub(super) struct Wait<'s> {
    store: &'s Store,
    /// The word of the file's state that changes when others go on.
    word: &'s Word,
    /// What was seen there.
    value: u64,
    /// When it was looked (`System::uptime`).
    looked: u64,
    /// Nanoseconds in which it did not change.
    idle: u64,
    has_told: bool,
}

/// More time than this between two looks was no waiting: this process itself was stopped.
const LONGEST_LOOK: u64 = 500_000_000;

impl<'s> Wait<'s> {
    /// A wait that begins. `field` is the offset in [`FileState`](format_spec::file::FileState)
    /// of the word that changes when others go on.
    pub fn new(store: &'s Store, field: usize) -> Result<Wait<'s>> {
        let word = store.state_word(field)?;
        Ok(Wait {
            store,
            word,
            value: word.load(Ordering::Relaxed),
            looked: store.system().uptime(),
            idle: 0,
            has_told: false,
        })
    }

    /// How long nothing was committed, as far as it was looked.
    pub fn idle(&self) -> Duration {
        Duration::from_nanos(self.idle)
    }

    /// Called again and again during the wait: tells, and ends it with an error when it is
    /// time.
    pub fn goes_on(&mut self) -> Result<()> {
        let Some(patience) = self.store.patience() else {
            return Ok(());
        };
        let now = self.store.system().uptime();
        let value = self.word.load(Ordering::Relaxed);
        if value == self.value {
            self.idle += now.saturating_sub(self.looked).min(LONGEST_LOOK);
        } else {
            self.idle = 0;
        }
        (self.value, self.looked) = (value, now);
        let idle = self.idle();
        let path = self.store.path();
        if idle >= patience.give_up_after {
            return Err(Error::Locked {
                path: path.to_owned(),
                holder: self.store.system().holder(self.store.file()),
                waited: patience.give_up_after,
            });
        }
        if idle >= patience.tell_after && !self.has_told {
            self.has_told = true;
            (patience.tell)(path, self.store.system().holder(self.store.file()));
        }
        Ok(())
    }
}
