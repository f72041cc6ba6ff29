//! How long a writer waits for the right to write that another process has and makes no
//! use of: because it is stopped, or because its disk does not answer.
//!
//! What counts is the time in which nothing was committed. A queue that moves is no reason
//! to give up, however long it is.

use super::error::{Error, Result};
use super::store::Store;
use super::sync::Word;
use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
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
    /// When nothing was committed for so long, the wait ends with [`Error::Locked`].
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

/// The process that has a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its id.
    pub process: u32,
    /// The name of its program; empty if it is gone or hidden.
    pub name: String,
    /// Somebody has stopped it (`SIGSTOP`, or Ctrl-Z in a terminal).
    pub is_stopped: bool,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.process)?;
        match (self.name.as_str(), self.is_stopped) {
            ("", false) => Ok(()),
            ("", true) => f.write_str(" (stopped)"),
            (name, false) => write!(f, " ({name})"),
            (name, true) => write!(f, " ({name}, stopped)"),
        }
    }
}

/// Who has the lock of `file` (flock(2)): from `/proc/locks` (proc_locks(5)). Processes of
/// other containers are not to be seen there.
pub(super) fn holder(file: &File) -> Option<Holder> {
    let found = rustix::fs::fstat(file).ok()?;
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let process = holder_in(&locks, (found.st_dev, found.st_ino))?;
    // "PID (NAME) STATE …", where NAME may have parentheses itself.
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let (before, after) = status.rsplit_once(')').unwrap_or_default();
    let name = before.split_once('(').map_or("", |(_, name)| name);
    let name = name.chars().filter(|c| !c.is_control()).collect();
    Some(Holder {
        process,
        name,
        is_stopped: after.trim_start().starts_with(['T', 't']),
    })
}

/// The process that has the lock of an inode, in the text of `/proc/locks`:
/// `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`.
fn holder_in(locks: &str, (device, inode): (u64, u64)) -> Option<u32> {
    let mut of_inode = Vec::new();
    for line in locks.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[_, "FLOCK", _, _, process, place, ..] = &fields[..] else {
            continue;
        };
        let mut place = place.split(':');
        let mut number = |radix| u64::from_str_radix(place.next()?, radix).ok();
        let (Some(major), Some(minor), Some(number)) = (number(16), number(16), number(10)) else {
            continue;
        };
        let Ok(process) = process.parse() else {
            continue;
        };
        if number == inode {
            let (major, minor) = (major as u32, minor as u32);
            if rustix::fs::makedev(major, minor) == device {
                return Some(process);
            }
            of_inode.push(process);
        }
    }
    // Btrfs gives files other device numbers than the file system's. (Those who wait have
    // lines that begin otherwise.)
    match of_inode[..] {
        [process] => Some(process),
        _ => None,
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_the_lock() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 08:01:42 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 08:02:42 0 EOF\n\
                     3: OFDLCK ADVISORY  WRITE -1 08:01:42 9 9\n\
                     4: FLOCK  ADVISORY  WRITE 13 08:01:42 0 EOF\n\
                     4: -> FLOCK  ADVISORY  WRITE 14 08:01:42 0 EOF\n\
                     5: FLOCK  ADVISORY  WRITE 15 00:2b:77 0 EOF\n";
        let device = rustix::fs::makedev(8, 1);
        assert_eq!(holder_in(locks, (device, 42)), Some(13));
        // By the inode alone, if that is enough.
        assert_eq!(holder_in(locks, (device, 77)), Some(15));
        assert_eq!(holder_in(locks, (rustix::fs::makedev(9, 9), 42)), None);
        assert_eq!(holder_in(locks, (device, 43)), None);
        assert_eq!(holder_in("nonsense\n1: FLOCK\n", (device, 42)), None);
    }

    #[test]
    fn holders_are_shown() {
        let holder = |name: &str, is_stopped| Holder {
            process: 7,
            name: name.to_owned(),
            is_stopped,
        };
        assert_eq!(holder("", false).to_string(), "process 7");
        assert_eq!(holder("repo-cc", false).to_string(), "process 7 (repo-cc)");
        assert_eq!(
            holder("repo-cc", true).to_string(),
            "process 7 (repo-cc, stopped)"
        );
    }
}
