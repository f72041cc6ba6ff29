//! Locks of single bytes of a file (fcntl(2), open file description locks), which stand for something else than the bytes: they are beyond
//! the end of any file. The kernel takes them back from whoever dies.

use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::AsRawFd;

/// A byte of a file.
pub(super) type Byte = libc::off_t;

/// A lock of these bytes.
fn lock_of(bytes: &RangeInclusive<Byte>, kind: libc::c_int) -> libc::flock {
    // SAFETY: all zeros are a value of this plain structure.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = *bytes.start();
    lock.l_len = bytes.end() - bytes.start() + 1;
    lock
}

/// Waits until nobody else has locked the byte, and locks it.
pub(super) fn lock(file: &File, byte: Byte) -> io::Result<()> {
    set(file, &(byte..=byte), libc::F_OFD_SETLKW, libc::F_WRLCK)
}

/// Locks all of these bytes, unless somebody else has locked one of them; `false` then.
pub(super) fn try_lock(file: &File, bytes: RangeInclusive<Byte>) -> io::Result<bool> {
    match set(file, &bytes, libc::F_OFD_SETLK, libc::F_WRLCK) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        other => other.map(|()| true),
    }
}

/// Unlocks what of these bytes is locked.
pub(super) fn unlock(file: &File, bytes: RangeInclusive<Byte>) {
    // If this fails, closing the file releases them.
    let _ = set(file, &bytes, libc::F_OFD_SETLK, libc::F_UNLCK);
}

/// One of these bytes that somebody else has locked, whichever the kernel finds first.
pub(super) fn locked_by_others(
    file: &File,
    bytes: RangeInclusive<Byte>,
) -> io::Result<Option<Byte>> {
    let mut lock = lock_of(&bytes, libc::F_WRLCK);
    // SAFETY: a system call that reads and writes `lock`, which lives longer.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let is_locked = lock.l_type != libc::F_UNLCK as libc::c_short;
    // It may begin before them.
    Ok(is_locked.then_some(lock.l_start.max(*bytes.start())))
}

fn set(
    file: &File,
    bytes: &RangeInclusive<Byte>,
    command: libc::c_int,
    kind: libc::c_int,
) -> io::Result<()> {
    let lock = lock_of(bytes, kind);
    loop {
        // SAFETY: a system call that reads `lock`, which lives longer.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, &lock) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
