//! Reading a file that nobody is writing meanwhile.
//!
//! Two processes may compile into one object: GNU as then writes into the file that the other one has just made, and what is read before
//! both are done may have holes. Times of files do not tell that, as what happens within some milliseconds has one time. The kernel knows
//! who has a file open for writing: it gives a read lease (fcntl(2), "Leases") of a file that nobody has, and keeps whoever comes waiting
//! until the lease ends.

use std::fs::File;
use std::io;
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
    let _ = control(file, F_SETSIG, libc::SIGURG);
    let lease = control(file, libc::F_SETLEASE, libc::F_RDLCK);
    if lease.as_ref().is_err_and(is_refused) {
        return Err(IsWritten);
    }
    let result = what();
    if lease.is_ok() {
        let _ = control(file, libc::F_SETLEASE, libc::F_UNLCK);
    }
    Ok(result)
}

/// Whether the answer to a request for a lease is that somebody has the file open otherwise.
fn is_refused(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EAGAIN)
}

fn control(file: &File, command: libc::c_int, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: a system call without pointers, about a descriptor that is open.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
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
        let writer = OpenOptions::new().write(true).open(&path).expect("there");
        // (Where there are no leases, none can be given back, and nothing is seen.)
        let given_back = control(&file, libc::F_SETLEASE, libc::F_UNLCK);
        if given_back.as_ref().err().is_none_or(is_refused) {
            assert_eq!(read(), Err(IsWritten));
        }
        drop(writer);
        assert_eq!(read(), Ok(7));
        // Nobody has to wait for what has ended.
        drop(OpenOptions::new().write(true).open(&path).expect("there"));
    }
}
