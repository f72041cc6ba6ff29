//! The right to write: at most one writer in all processes at a time, and each in
//! its turn.
//!
//! The right is the file's lock (flock(2)), which the kernel takes back from
//! whoever dies. To hand it on from one process to the next costs more than a small
//! commit does: one has to go to sleep, another to be woken. So a process that has
//! got the lock may come back for it as long as its *turn* lasts, so many times and
//! so long at most. Whoever's turn is over, or who finds the lock taken, queues.
//!
//! The queue is another lock of the same file ([`System::enter_queue`](super::System::enter_queue)), which the
//! kernel gives to those who wait for it one after the other. Who has that one is
//! next, and alone in looking again and again, with short pauses, whether the file's
//! lock is free; in the kernel's own queue for that, it would be woken up after each
//! of the transactions of somebody else's turn, in vain.
//!
//! So nobody starves: while one is in the queue, every other process can come before
//! it for what is left of its turn, and, if it was in the queue earlier, for one more.

use super::error::{Error, Result};
use super::store::{Store, cannot};
use super::sync::{self, MutexGuard};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// A turn lasts for so many transactions…
const TURN_TRANSACTIONS: u32 = 256;
/// … and until so many nanoseconds after its beginning.
const TURN_NANOSECONDS: u64 = 2_000_000;
/// How often one looks for the lock that another one may be about to release:
/// for about the time that a small commit takes.
const LOOKS: u32 = 8;
/// The pause in the looking.
const PAUSE: Duration = Duration::from_micros(50);

/// The turn of the threads that share a store.
#[derive(Default)]
pub(super) struct Turn {
    /// When it began ([`System::uptime`](super::System::uptime)).
    began: u64,
    /// Transactions that are left of it.
    left: u32,
}

/// The right to write.
pub(super) struct WriteLock<'s> {
    // Released in this order.
    _file: FileLock<'s>,
    _thread: MutexGuard<'s, Turn>,
}

pub(super) struct FileLock<'s>(&'s Store);

impl Drop for FileLock<'_> {
    fn drop(&mut self) {
        self.0.system().unlock(self.0.file());
    }
}

impl Store {
    /// Waits for the right to write.
    pub(super) fn lock(&self) -> Result<WriteLock<'_>> {
        if self.is_read_only() {
            return Err(Error::ReadOnly {
                path: self.path().to_owned(),
            });
        }
        let mut thread = sync::lock(self.turn());
        let file = self.lock_in_turn(&mut thread)?;
        if !self.is_in_place()? {
            return Err(Error::Replaced {
                path: self.path().to_owned(),
            });
        }
        Ok(WriteLock {
            _file: file,
            _thread: thread,
        })
    }

    /// The right to write, unless somebody else has it.
    pub(super) fn try_lock(&self) -> Result<Option<WriteLock<'_>>> {
        let Some(thread) = sync::try_lock(self.turn()) else {
            return Ok(None);
        };
        Ok(self.try_lock_file()?.map(|file| WriteLock {
            _file: file,
            _thread: thread,
        }))
    }

    /// Waits for the file's lock, whoever is in the queue.
    pub(super) fn lock_file(&self) -> Result<FileLock<'_>> {
        match self.system().lock(self.file()) {
            Ok(()) => Ok(FileLock(self)),
            Err(source) => Err(cannot(self.path(), "lock", source)),
        }
    }

    fn try_lock_file(&self) -> Result<Option<FileLock<'_>>> {
        match self.system().try_lock(self.file()) {
            Ok(is_ours) => Ok(is_ours.then_some(FileLock(self))),
            Err(source) => Err(cannot(self.path(), "lock", source)),
        }
    }

    fn lock_in_turn(&self, turn: &mut Turn) -> Result<FileLock<'_>> {
        let lasts = self.system().uptime().wrapping_sub(turn.began) < TURN_NANOSECONDS;
        if lasts && turn.left > 0 {
            turn.left -= 1;
            if let Some(lock) = self.look_for_lock()? {
                return Ok(lock);
            }
        }
        // Without a queue one is as good a writer, but a less patient one.
        let queues = self.system().enter_queue(self.file()).is_ok();
        let lock = loop {
            match self.look_for_lock() {
                Ok(None) => self.system().pause(PAUSE),
                Ok(Some(lock)) => break Ok(lock),
                Err(error) => break Err(error),
            }
        };
        if queues {
            self.system().leave_queue(self.file());
        }
        *turn = Turn {
            began: self.system().uptime(),
            left: TURN_TRANSACTIONS,
        };
        lock
    }

    /// The file's lock, if it is free or will soon be.
    fn look_for_lock(&self) -> Result<Option<FileLock<'_>>> {
        for look in 0..LOOKS {
            if let Some(lock) = self.try_lock_file()? {
                return Ok(Some(lock));
            }
            for _ in 0..look * 4 {
                std::hint::spin_loop();
            }
        }
        Ok(None)
    }

    /// Whether the path still leads to the open file.
    fn is_in_place(&self) -> Result<bool> {
        match std::fs::metadata(self.absolute_path()) {
            Ok(found) => Ok((found.dev(), found.ino()) == self.identity()),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(false),
                _ => Err(self.io_error("examine", error)),
            },
        }
    }
}
