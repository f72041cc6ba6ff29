//! Which process has a file's lock: for messages.

use std::fmt;
use std::fs::File;

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
