//! What is on the disk: waiting for it, and the checkpoint, from which recovery starts.
//!
//! A durable commit is published as a lazy one is, gives up the right to write, and then
//! waits for the disk. Meanwhile others commit. Only one at a time syncs
//! (`System::try_begin_sync`), from where the last sync ended to the newest commit: so
//! when it is done, those who committed while the sync before it ran need no more than
//! a look at `durable` in the file's state. However many processes commit durably, the
//! disk is waited for about twice in the time that one of them waits.
//!
//! What is done for a sync that fails says [`doubt`](super::doubt).
//!
//! The words `durable` and `checkpoint` are lower bounds. Nothing but the work of the
//! next sync, or of recovery, depends on their being the greatest ones that are true.

use super::error::{Error, Result};
use super::lock::WriteLock;
use super::store::Store;
use super::sync;
use super::wait::Wait;
use format_spec::file::FileState;
use std::mem::offset_of;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long who waits for another one's sync sleeps before it looks whether that one is
/// still alive.
const LOOK_AT_SYNC: Duration = Duration::from_millis(1);

/// See [`Store::start_write_back`].
const WRITE_BACK_EVERY: u64 = 8 << 20;

/// As long as there is this, nobody is told that something is on the disk.
pub struct WithoutSyncs<'s>(&'s Store);

impl Drop for WithoutSyncs<'_> {
    fn drop(&mut self) {
        self.0.system().end_sync(self.0.file());
    }
}

impl Store {
    /// Returns when all that is committed is on the disk, and moves the
    /// checkpoint there, so that recovery would have nothing to do.
    pub fn sync(&self) -> Result<()> {
        let lock = self.lock()?;
        self.catch_up()?;
        drop(lock);
        self.move_checkpoint()?;
        self.check_in_place()
    }

    /// Returns when the transaction of the trailer at `offset`, which is committed, is on the disk.
    pub(super) fn wait_for_disk(&self, offset: u64) -> Result<()> {
        self.wake_next();
        let is_done = || Ok(self.durable_state()?.1 >= offset);
        let sync = || {
            let (_, durable) = self.durable_state()?;
            let head = self.state_offset(offset_of!(FileState, head))?;
            if durable < self.opened() && !self.is_log_whole(durable, self.opened().min(head))? {
                return Ok(false);
            }
            self.sync_range(self.trailer(durable)?.end()..self.trailer(head)?.end())?;
            self.write_state(offset_of!(FileState, durable), &[head])?;
            Ok(true)
        };
        self.in_sync_turn(is_done, |alone| self.sync_without_doubt(alone, sync))?;
        // That it is on the disk is of no use if another file has taken this one's place meanwhile: that has it, but perhaps
        // not on the disk.
        self.check_in_place()
    }

    /// Keeps all from telling their callers that something is on the disk, as long as the result lives; `None` if somebody is about to. For who has
    /// the right to write.
    pub fn without_syncs(&self) -> Option<WithoutSyncs<'_>> {
        match self.system().try_begin_sync(self.file()) {
            Ok(false) => None,
            // Where there is no such lock, who syncs has the right to write.
            _ => Some(WithoutSyncs(self)),
        }
    }

    /// What is done for the disk's sake after a transaction, from `start` to `end`, is published and the right
    /// to write is given up.
    pub(super) fn settle(&self, start: u64, end: u64) -> Result<()> {
        self.start_write_back(start, end);
        // The transaction is as good without. Who is stopped while it syncs is no reason
        // to say otherwise.
        match self.sweep(end) {
            Err(Error::Locked { .. }) => Ok(()),
            other => other,
        }
    }

    /// Has the kernel begin to write the log to the disk, as far as it is complete
    /// up to a multiple of [`WRITE_BACK_EVERY`] that lies between `start` and `end`:
    /// then there is less to wait for when it must be there.
    pub(super) fn start_write_back(&self, start: u64, end: u64) {
        let start = start / WRITE_BACK_EVERY * WRITE_BACK_EVERY;
        let end = end / WRITE_BACK_EVERY * WRITE_BACK_EVERY;
        if start < end {
            // It takes a while, in which the lock need not be idle.
            self.wake_next();
            self.system().start_write_back(self.file(), start..end);
        }
    }

    /// The trailers up to which log and tables, and the log alone, are known
    /// to be on the disk.
    pub(super) fn durable_state(&self) -> Result<(u64, u64)> {
        Ok((
            self.state_offset(offset_of!(FileState, checkpoint))?,
            self.state_offset(offset_of!(FileState, durable))?,
        ))
    }

    /// Whether something at or behind the offset `end` of the log is known to be on the disk, so that a commit may have been promised to
    /// survive a power cut. For who puts another file in this one's place, which must keep that promise.
    ///
    /// # Errors
    /// If the file's state is damaged.
    pub fn has_promised_from(&self, end: u64) -> Result<bool> {
        let (checkpoint, durable) = self.durable_state()?;
        Ok(checkpoint.max(durable) >= end)
    }

    /// Syncs the whole file and says so.
    pub(super) fn move_checkpoint(&self) -> Result<()> {
        // What is visible is in the tables, too.
        let visible = self.state_offset(offset_of!(FileState, visible))?;
        let is_done = || Ok(self.durable_state()?.0 >= visible);
        let sync = || {
            let visible = self.state_offset(offset_of!(FileState, visible))?;
            let (checkpoint, durable) = self.durable_state()?;
            let opened = self.opened().min(visible);
            if checkpoint < opened && !self.is_whole(checkpoint, opened)? {
                return Ok(false);
            }
            self.sync_file()?;
            let words = [checkpoint.max(visible), durable.max(visible)];
            self.write_state(offset_of!(FileState, checkpoint), &words)?;
            Ok(true)
        };
        self.in_sync_turn(is_done, |alone| self.sync_without_doubt(alone, sync))
    }

    /// Does `sync`, as the only one, unless `is_done` says that another one has done it meanwhile.
    /// Where the system has nothing that makes it the only one, it gets the right to write for
    /// that.
    pub(super) fn in_sync_turn(
        &self,
        is_done: impl Fn() -> Result<bool>,
        sync: impl FnOnce(Option<&WriteLock<'_>>) -> Result<()>,
    ) -> Result<()> {
        let system = self.system();
        let word = self.state_word(offset_of!(FileState, durable))?;
        let _thread = sync::lock(self.sync_turn());
        let mut wait = Wait::new(self, offset_of!(FileState, durable))?;
        loop {
            let before = word.load(Ordering::Relaxed);
            if is_done()? {
                return Ok(());
            }
            let begun = system.try_begin_sync(self.file());
            if matches!(begun, Ok(false)) {
                wait.goes_on()?;
                system.wait(word.low_half(), before as u32, LOOK_AT_SYNC);
                continue;
            }
            let synced = || {
                let alone = match begun {
                    Ok(_) => None,
                    Err(_) => Some(self.lock()?),
                };
                match is_done()? {
                    true => Ok(()),
                    false => sync(alone.as_ref()),
                }
            };
            let result = synced();
            if begun.is_ok() {
                system.end_sync(self.file());
            }
            system.wake(word.low_half(), u32::MAX >> 1);
            return result;
        }
    }
}
