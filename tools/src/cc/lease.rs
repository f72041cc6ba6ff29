//! Reading a file that nobody is writing meanwhile.
//!
//! Two processes may compile into one object: GNU as then writes into the file that the other one has just made, and what is read before
//! both are done may have holes. Times of files do not tell that, as what happens within some milliseconds has one time. The kernel knows
//! who has a file open for writing: it gives a read lease (fcntl(2), "Leases") of a file that nobody has, and keeps whoever comes waiting
//! until the lease ends.

use std::fs::File;
use std::os::fd::AsRawFd;

/// `F_SETSIG` of Linux (fcntl(2)), which the libc crate does not have for this target.
const F_SETSIG: libc::c_int = 10;

/// Somebody has the file open for writing.
#[derive(Debug, PartialEq, Eq)]
pub struct IsWritten;

/// Does something while nobody has the file, which is open for reading only, open for writing. Where the file system cannot say that, or the file is
/// another user's, it is done all the same.
///
/// # Errors
/// If somebody has it open so. Then nothing is done.
pub fn while_nobody_writes<T>(file: &File, what: impl FnOnce() -> T) -> Result<T, IsWritten> {
    // Of who comes to write the kernel tells by a signal; this one does nothing unless somebody waits for it.
    // SAFETY: a system call without pointers, about a descriptor that is open.
    unsafe { libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) };
    // SAFETY: likewise.
    let lease = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) };
    if lease != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN) {
        return Err(IsWritten);
    }
    let result = what();
    if lease == 0 {
        // SAFETY: likewise.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions};

    #[test]
    fn who_has_it_open_for_writing_is_seen() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.o");
        fs::write(&path, "object").expect("written");
        let file = File::open(&path).expect("there");
        let read = || while_nobody_writes(&file, || 7);
        assert_eq!(read(), Ok(7));
        let reader = File::open(&path).expect("there");
        assert_eq!(read(), Ok(7));
        let writer = OpenOptions::new().write(true).open(&path).expect("there");
        // (Where there are no leases, nothing is seen.)
        let has_leases = {
            // SAFETY: a system call without pointers.
            let lease = unsafe { libc::fcntl(reader.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
            lease == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)
        };
        if has_leases {
            assert_eq!(read(), Err(IsWritten));
        }
        drop(writer);
        assert_eq!(read(), Ok(7));
        // Nobody has to wait for what has ended.
        drop(OpenOptions::new().write(true).open(&path).expect("there"));
    }
}
