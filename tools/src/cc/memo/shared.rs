//! A file of words that all processes of this user change at once: mapped, without a lock.

use crate::cc::own_dir::{bases, private, user};
use memmap2::{MmapOptions, MmapRaw};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

/// The directory for such files, made if it is not there.
///
/// # Errors
/// If there can be none that is this user's alone.
pub fn directory() -> io::Result<PathBuf> {
    let mut last = io::Error::other("neither a cache nor a directory for temporary files");
    for base in bases() {
        if private(&base) {
            return Ok(base);
        }
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&base);
        match made {
            Ok(()) if private(&base) => return Ok(base),
            Ok(()) => last = io::Error::other("not a directory of this user alone"),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Whether compilers can write lists of their inputs into a directory: they complain if they cannot.
pub fn has_room(directory: &Path) -> bool {
    const LISTS: u64 = 1 << 20;
    // (Of some file systems, such as btrfs, it is not known how many files there can be.)
    rustix::fs::statvfs(directory).is_ok_and(|found| {
        let has_files = found.f_files == 0 || found.f_favail >= 8;
        found.f_bavail * found.f_frsize >= LISTS && has_files
    })
}

/// A hash for tables.
pub fn hash(bytes: &[u8]) -> u64 {
    let digest = blake3::hash(bytes);
    digest
        .as_bytes()
        .iter()
        .take(8)
        .fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Gives a file this size, with room on the disk.
fn allocate(file: &File, size: u64) -> io::Result<()> {
    // SAFETY: no memory is concerned.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, size as libc::off_t) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Words in a mapped file.
pub struct Words {
    map: MmapRaw,
}

impl Words {
    /// Those of the file `name` in `directory`: `count` words, zeros at first.
    ///
    /// # Errors
    /// If it cannot be opened or made, or is not this user's.
    pub fn open(directory: &Path, name: &str, count: usize) -> io::Result<Words> {
        let path = directory.join(name);
        let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let open = |create: bool| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(create)
                .mode(0o600)
                .custom_flags(flags)
                .open(&path)
        };
        let file = match open(false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => open(true)?,
            other => other?,
        };
        let size = count as u64 * 8;
        check(&file, size)?;
        let map = MmapOptions::new().len(count * 8).map_raw(&file)?;
        Ok(Words { map })
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        let count = self.map.len() / 8;
        // SAFETY: the mapping begins at a page, lives as long as `self`, and is as long as the file, which nobody makes
        // shorter. Other processes change it; all of these, as this one, take its words for atomic ones.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast::<AtomicU64>(), count) }
    }
}

/// Whether the file is one of ours; a new one is given its size, and room on the disk for all of it: a store to a mapped page
/// for which there is none would end the process.
fn check(file: &File, size: u64) -> io::Result<()> {
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.uid() != user() || metadata.mode() & 0o022 != 0 {
        return Err(io::Error::other("not a file of this user alone"));
    }
    match metadata.size() {
        // Who made it did not come to the end.
        less if less < size => allocate(file, size),
        same if same == size && metadata.blocks() * 512 >= size => Ok(()),
        same if same == size => allocate(file, size),
        _ => Err(io::Error::other("of another size")),
    }
}
