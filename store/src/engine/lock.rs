//! The right to write: at most one writer in all processes at a time, and each in
//! its turn.
//!
//! The right is the file's lock (flock(2)), which the kernel takes back from
//! whoever dies. To hand it on from one process to the next costs more than a small
//! commit does: one has to go to sleep, another to be woken. So a process that has
//! got the lock may come back for it as long as its *turn* lasts, so many times and
//! so long at most. Whoever's turn is over, or who finds the lock taken, queues.
//!
//! The queue is made of more locks of the same file ([`queue`](super::queue)), and who waits in it is let in
//! in the order of coming. Who is at its head is *next*. In the kernel's own queue for the file's lock it would be woken after
//! each transaction of somebody else's turn, in vain. So it sleeps, until who has
//! almost finished its turn wakes it (`System::wake`), and then looks for the lock
//! again and again. Nobody may ever wake it, because the other one has died or has
//! nothing more to write: so it sleeps for short times only, and looks as well if
//! nothing was committed meanwhile, or after the time of a whole turn.
//!
//! While somebody [asks for short turns](super::short_turns), a turn is no longer than a few transactions.
//!
//! A process that is stopped keeps the lock. Who has [`Patience`](super::Patience) tells its
//! user of that, and gives up some time later ([`Wait`]). The queue knows no such
//! time: there a thread waits in its place.
//!
//! So nobody starves: while one is in the queue, every other process can come before
//! it for what is left of its turn, and, if it was in the queue earlier, for one more.

use super::error::{Error, Result, cannot};
use super::store::Store;
use super::sync::{self, MutexGuard};
use super::turn::Turn;
use super::wait::Wait;
use format_spec::file::FileState;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// A turn lasts for so many transactions…
const TURN_TRANSACTIONS: u32 = 2048;
/// … and until so many nanoseconds after its beginning.
const TURN_NANOSECONDS: u64 = 20_000_000;
/// So many transactions before its end, or nanoseconds, the next one is woken: about the
/// time that this takes.
const WAKE_BEFORE: u32 = 6;
const WAKE_BEFORE_NANOSECONDS: u64 = 80_000;
/// So often in a turn, in nanoseconds, its writer looks whether somebody asks for [short ones](super::short_turns).
const LOOK_FOR_HASTE: u64 = 400_000;
/// How often one looks for a lock that somebody else has, who may be about to
/// release it.
const LOOKS: u32 = 8;
/// How often who is next looks before it sleeps (again): until who has woken it
/// has finished.
const LOOKS_OF_NEXT: u32 = 60;
/// How long it sleeps at a time.
const SLEEP: Duration = Duration::from_micros(200);
/// How often who is in the queue looks whether its patience is at an end.
const LOOK_AT_QUEUE: Duration = Duration::from_millis(50);
/// When nothing was committed for so long, the queue is no order to keep to.
const STALLED: Duration = Duration::from_millis(500);

/// The right to write.
pub(super) struct WriteLock<'s> {
    // Released in this order.
    _file: FileLock<'s>,
    thread: MutexGuard<'s, Turn>,
}

impl WriteLock<'_> {
    /// Ends the turn with this transaction: it is going to wait for something else.
    pub(super) fn end_turn(&mut self) {
        self.thread.left = 0;
    }
}

pub(super) struct FileLock<'s>(&'s Store);

/// How it went with the queue.
enum Entered<'s> {
    /// In it, and next.
    Queue,
    /// The system has none. Without it one is as good a writer, but a less patient one.
    Without,
    /// It does not move, but the lock was free.
    Passed(FileLock<'s>),
}

impl Entered<'_> {
    fn new(is_in: bool) -> Self {
        match is_in {
            true => Entered::Queue,
            false => Entered::Without,
        }
    }
}

impl Drop for FileLock<'_> {
    fn drop(&mut self) {
        self.0.system().unlock(self.0.file());
    }
}

impl Store {
    /// Waits for the right to write.
    pub(super) fn lock(&self) -> Result<WriteLock<'_>> {
        self.check_not_read_only()?;
        let mut thread = sync::lock(self.turn());
        let file = self.lock_in_turn(&mut thread)?;
        self.check_in_place()?;
        Ok(WriteLock {
            _file: file,
            thread,
        })
    }

    /// Whether the file is to be written to: not if another one has taken its place.
    pub(super) fn check_in_place(&self) -> Result<()> {
        match self.is_nameless() || self.is_in_place()? {
            true => Ok(()),
            false => Err(Error::Replaced {
                path: self.path().to_owned(),
            }),
        }
    }

    pub(super) fn check_not_read_only(&self) -> Result<()> {
        match self.is_read_only() {
            false => Ok(()),
            true => Err(Error::ReadOnly {
                path: self.path().to_owned(),
            }),
        }
    }

    /// The right to write, unless somebody else has it.
    pub(super) fn try_lock(&self) -> Result<Option<WriteLock<'_>>> {
        let Some(thread) = sync::try_lock(self.turn()) else {
            return Ok(None);
        };
        Ok(self.try_lock_file()?.map(|file| WriteLock {
            _file: file,
            thread,
        }))
    }

    /// Waits for the file's lock, whoever is in the queue.
    pub(super) fn lock_file(&self) -> Result<FileLock<'_>> {
        if self.patience().is_some() {
            return self.wait_as_next(&mut Wait::new(self, offset_of!(FileState, head))?);
        }
        match self.system().lock(self.file()) {
            Ok(()) => Ok(FileLock(self)),
            Err(source) => Err(cannot(self.path(), "lock", source)),
        }
    }

    fn try_lock_file(&self) -> Result<Option<FileLock<'_>>> {
        match self.system().try_lock(self.file()) {
            Ok(is_ours) => Ok(is_ours.then(|| FileLock(self))),
            Err(source) => Err(cannot(self.path(), "lock", source)),
        }
    }

    fn lock_in_turn(&self, turn: &mut Turn) -> Result<FileLock<'_>> {
        let system = self.system();
        let age = system.uptime().wrapping_sub(turn.began);
        let mut lasts = age < TURN_NANOSECONDS && turn.left > 0;
        if lasts && age - turn.looked.min(age) >= LOOK_FOR_HASTE {
            turn.looked = age;
            if system.are_turns_short(self.file()) {
                lasts = false;
                self.wake_next();
            }
        }
        let is_ending =
            age >= TURN_NANOSECONDS - WAKE_BEFORE_NANOSECONDS || turn.left <= WAKE_BEFORE;
        if is_ending && !turn.has_woken {
            turn.has_woken = true;
            self.wake_next();
        }
        if lasts {
            turn.left -= 1;
            if let Some(lock) = self.look_for_lock(LOOKS)? {
                return Ok(lock);
            }
        }
        let mut wait = Wait::new(self, offset_of!(FileState, head))?;
        let lock = match self.enter_queue(&mut wait)? {
            Entered::Passed(lock) => Ok(lock),
            Entered::Without => self.wait_as_next(&mut wait),
            Entered::Queue => {
                let lock = self.wait_as_next(&mut wait);
                system.leave_queue(self.file());
                lock
            }
        };
        *turn = Turn {
            began: system.uptime(),
            looked: 0,
            left: TURN_TRANSACTIONS,
            has_woken: false,
        };
        lock
    }

    /// Waits until this one is next.
    fn enter_queue(&self, wait: &mut Wait<'_>) -> Result<Entered<'_>> {
        let system = self.system();
        if self.patience().is_none() {
            return Ok(Entered::new(system.enter_queue(self.file()).is_ok()));
        }
        match system.try_enter_queue(self.file()) {
            Ok(false) => {}
            other => return Ok(Entered::new(other.is_ok())),
        }
        // To the kernel a duplicate is the same owner.
        let duplicate = self.file().try_clone();
        let file = duplicate.map_err(|source| self.io_error("lock", source))?;
        let system = self.shared_system();
        // A channel without room: what is sent was received, or else comes back.
        let (send, receive) = mpsc::sync_channel(0);
        let waiter = std::thread::Builder::new().spawn(move || {
            let is_in = system.enter_queue(&file).is_ok();
            if send.send(is_in).is_err() && is_in {
                // Nobody waits for it any more.
                system.leave_queue(&file);
            }
        });
        if waiter.is_err() {
            return Ok(Entered::Without);
        }
        loop {
            match receive.recv_timeout(LOOK_AT_QUEUE) {
                Ok(is_in) => return Ok(Entered::new(is_in)),
                Err(RecvTimeoutError::Timeout) => {
                    wait.goes_on()?;
                    // Who is next may be stopped, too, and the lock free.
                    if wait.idle() >= STALLED
                        && let Some(lock) = self.try_lock_file()?
                    {
                        return Ok(Entered::Passed(lock));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(Entered::Without),
            }
        }
    }

    /// Waits for the file's lock, at the head of the queue.
    fn wait_as_next(&self, wait: &mut Wait<'_>) -> Result<FileLock<'_>> {
        if let Some(lock) = self.try_lock_file()? {
            return Ok(lock);
        }
        let system = self.system();
        let word = self.state_word(offset_of!(FileState, head))?;
        let began = system.uptime();
        loop {
            wait.goes_on()?;
            let before = word.load(Ordering::Relaxed);
            let is_woken = system.wait(word.low_half(), before as u32, SLEEP);
            let is_busy = word.load(Ordering::Relaxed) != before;
            let is_late = system.uptime().wrapping_sub(began) > TURN_NANOSECONDS;
            let looks = if is_woken || is_late {
                LOOKS_OF_NEXT
            } else {
                1
            };
            if (is_woken || is_late || !is_busy)
                && let Some(lock) = self.look_for_lock(looks)?
            {
                return Ok(lock);
            }
        }
    }

    /// Wakes who is next. (The word that it waits for could be any of the file.)
    pub(super) fn wake_next(&self) {
        if let Ok(head) = self.state_word(offset_of!(FileState, head)) {
            self.system().wake(head.low_half(), 1);
        }
    }

    /// The file's lock, if it is free or is soon.
    fn look_for_lock(&self, looks: u32) -> Result<Option<FileLock<'_>>> {
        for look in 0..looks {
            if let Some(lock) = self.try_lock_file()? {
                return Ok(Some(lock));
            }
            for _ in 0..look.min(LOOKS) * 4 {
                std::hint::spin_loop();
            }
        }
        Ok(None)
    }

    /// Whether the path still leads to the open file.
    pub(super) fn is_in_place(&self) -> Result<bool> {
        match std::fs::metadata(self.absolute_path()) {
            Ok(found) => Ok((found.dev(), found.ino()) == self.identity()),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(false),
                _ => Err(self.io_error("examine", error)),
            },
        }
    }
}
