//! Files that have another name until they are complete.
//!
//! A temporary file stands in the directory of its target, so that it can be renamed over it. Its name is
//! `PREFIX` and 16 hexadecimal digits of the target's name's digest, a full stop and a number: whatever the target is called
//! it is short enough for every file system, and the next process that makes the same target finds what a killed one left
//! without reading the directory. Names are no secret; files are created with `O_EXCL`, so what somebody has put there is
//! neither written to nor followed. Numbers above [`NUMBERS`] are random: for when all others are taken, by as many
//! processes that make the same target at once, or by somebody who means harm. (Files of these names that a killed process
//! leaves are found by nobody.)
//!
//! Whose process lives is told by a lock: who makes such a file locks it (`flock`), and the kernel unlocks it however
//! the process ends. A file of ours that is not locked is stale, and removed. Between creating and locking, a file looks
//! stale; so whoever locked one makes sure that its name still is its own, and else begins again. Whoever removes one holds
//! its lock meanwhile, and only who holds the lock of a file renames or removes it: so it is the file that it was found to
//! be. On file systems without such locks nothing is ever removed.

use super::registry::{Registration, Registry};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// So many bytes a prefix may have.
pub const PREFIX_LENGTH: usize = 16;

/// Numbers that are tried in order.
const NUMBERS: u64 = 4;

/// Random numbers that are tried.
const TRIES: usize = 100;

/// A file that is to be removed when the process is ended.
struct Removal {
    path: CString,
    device: u64,
    inode: u64,
}

static FILES: Registry<Removal> = Registry::new();

/// Removes all temporary files. For signal handlers.
pub(super) fn remove_all() {
    FILES.visit(|file| {
        // SAFETY: all bits zero are a value of the structure; the path is a C string; both calls are in signal-safety(7).
        unsafe {
            let mut status: libc::stat = std::mem::zeroed();
            // It may have its place already, and its name be another process's.
            if libc::lstat(file.path.as_ptr(), &raw mut status) == 0
                && (status.st_dev, status.st_ino) == (file.device, file.inode)
            {
                libc::unlink(file.path.as_ptr());
            }
        }
    });
}

/// A file's temporary name. Dropped, it removes the file, unless that has its place.
#[derive(Debug)]
pub struct Temporary {
    path: PathBuf,
    /// `None` once there is nothing to remove.
    registration: Option<Registration<Removal>>,
}

impl Temporary {
    /// Makes a new file, open for reading and writing, beside `target`. `prefix` says whose it is (`.repo-ld-`), `mode` is
    /// as for open(2). What processes that were killed left is removed.
    ///
    /// The file is locked through the descriptor that is returned: it must be open until the file has its place.
    ///
    /// # Errors
    /// Of the file system.
    pub fn create(prefix: &str, target: &Path, mode: u32) -> io::Result<(Temporary, File)> {
        debug_assert!(prefix.len() <= PREFIX_LENGTH);
        let name = target.file_name().unwrap_or_default();
        let digest = blake3::hash(name.as_bytes()).to_hex();
        let named = |number: u64| {
            let number = match number {
                ..NUMBERS => format!("{number}"),
                _ => format!("{number:016x}"),
            };
            target.with_file_name(format!("{prefix}{}.{number}", &digest[..16]))
        };
        let mut made = None;
        for number in 0..NUMBERS {
            let path = named(number);
            // Far more often than not there is no such file.
            if fs::symlink_metadata(&path).is_ok() && !remove_stale(&path) {
                continue;
            }
            if made.is_none() {
                made = create_locked(&path, mode)?;
            }
        }
        for _ in 0..TRIES {
            if made.is_some() {
                break;
            }
            made = create_locked(&named(random()? | NUMBERS), mode)?;
        }
        made.ok_or_else(|| io::ErrorKind::AlreadyExists.into())
    }

    /// Takes over a file that was made otherwise, under a name that nobody else uses.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn of_file(path: &Path) -> io::Result<Temporary> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(Temporary {
            path: path.to_owned(),
            registration: Some(register(path, &metadata)?),
        })
    }

    /// The temporary name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames another file to the temporary name. What had it is gone, and its lock with it: `file`, which must be the
    /// one at `from`, is locked first.
    ///
    /// # Errors
    /// Of the file system; then both files are where they were.
    pub fn take(&mut self, from: &Path, file: &File) -> io::Result<()> {
        rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)?;
        let registration = register(&self.path, &file.metadata()?)?;
        fs::rename(from, &self.path)?;
        self.registration = Some(registration);
        Ok(())
    }

    /// Renames the file to `target`, in the same directory, whatever is there. The file may be closed afterwards.
    ///
    /// # Errors
    /// Of the file system; then there is no temporary file any more.
    pub fn rename(mut self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.registration = None;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.registration.is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Puts a file with these bytes into the place of `target`: whole, or not at all. Its mode is `mode` less the umask, and
/// not that of what was there; a symbolic link is replaced.
///
/// # Errors
/// Of the file system; then what was there still is.
pub fn replace(prefix: &str, target: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let (temporary, mut file) = Temporary::create(prefix, target, mode)?;
    file.write_all(bytes)?;
    temporary.rename(target)
}

/// Makes and locks a file; `None` if there is one of this name.
fn create_locked(path: &Path, mode: u32) -> io::Result<Option<(Temporary, File)>> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file: File = match rustix::fs::open(path, flags, Mode::from_raw_mode(mode)) {
        Err(Errno::EXIST) => return Ok(None),
        other => other?.into(),
    };
    let temporary = Temporary {
        path: path.to_owned(),
        registration: Some(register(path, &file.metadata()?)?),
    };
    let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
    // Somebody has it locked, or removed it: because it looked stale for a moment.
    if locked == Err(Errno::WOULDBLOCK) || !is_at(&file, path) {
        let mut temporary = temporary;
        temporary.registration = None;
        return Ok(None);
    }
    Ok(Some((temporary, file)))
}

fn register(path: &Path, metadata: &fs::Metadata) -> io::Result<Registration<Removal>> {
    Ok(FILES.add(Removal {
        path: CString::new(path.as_os_str().as_bytes())?,
        device: metadata.dev(),
        inode: metadata.ino(),
    }))
}

/// Whether an open file is the one of this name.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(file), Ok(named)) => (file.dev(), file.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// Removes a file if it is ours, and nobody's who lives. Whether its name is free.
fn remove_stale(path: &Path) -> bool {
    // Neither a link nor a pipe nor a lease may keep us.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file: File = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::NOENT) => return true,
        // Without read permission for the user, as a linker's output may be under a strange umask.
        Err(_) => return false,
        Ok(file) => file.into(),
    };
    let is_our_own = file.metadata().is_ok_and(|metadata| {
        metadata.is_file() && metadata.uid() == rustix::process::geteuid().as_raw()
    });
    is_our_own
        && rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        && is_at(&file, path)
        && rustix::fs::unlinkat(CWD, path, AtFlags::empty()).is_ok()
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    let flags = rustix::rand::GetRandomFlags::empty();
    match rustix::rand::getrandom(&mut bytes[..], flags)? {
        8 => Ok(u64::from_le_bytes(bytes)),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{NUMBERS, Temporary, replace};
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// As a killed process does: the file stays, its lock goes.
    fn kill(temporary: Temporary, file: fs::File) {
        drop(file);
        let mut temporary = temporary;
        temporary.registration = None;
    }

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        replace(".test-", &target, 0o640, b"first").unwrap();
        replace(".test-", &target, 0o600, b"second").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"second");
        assert_eq!(
            fs::metadata(&target).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let (temporary, _file) = Temporary::create(".test-", &target, 0o600).unwrap();
        assert_eq!(names(dir.path()).len(), 2);
        drop(temporary);
        assert_eq!(names(dir.path()), ["target"]);
        assert!(replace(".test-", &dir.path().join("no/such"), 0o600, b"").is_err());
    }

    #[test]
    fn what_the_living_make_stays_and_what_the_dead_left_goes() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        let create = || Temporary::create(".test-", &target, 0o700).unwrap();
        let (first, second, third) = (create(), create(), create());
        assert_eq!(names(dir.path()).len(), 3);
        let living = first.0.path().to_owned();
        kill(second.0, second.1);
        kill(third.0, third.1);
        let next = create();
        // Its own, and the first.
        assert_eq!(names(dir.path()).len(), 2);
        assert!(living.exists());
        // More than there are numbers.
        let many: Vec<_> = (0..2 * NUMBERS).map(|_| create()).collect();
        assert_eq!(names(dir.path()).len(), many.len() + 2);
        drop((first, next, many));
        assert_eq!(names(dir.path()).len(), 0);
    }

    #[test]
    fn what_is_not_ours_to_remove_is_neither_removed_nor_followed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        let (temporary, file) = Temporary::create(".test-", &target, 0o600).unwrap();
        let name = temporary.path().to_owned();
        drop((temporary, file));
        let precious = dir.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, &name).unwrap();
        replace(".test-", &target, 0o600, b"bytes").unwrap();
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert!(fs::symlink_metadata(&name).unwrap().is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"bytes");
    }

    #[test]
    fn the_longest_name_can_be_made() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x".repeat(255));
        replace(".repo-dump-", &target, 0o600, b"bytes").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"bytes");
    }

    #[test]
    fn another_file_takes_the_name() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        fs::write(&target, "old").unwrap();
        let file = fs::File::open(&target).unwrap();
        let (mut temporary, new) = Temporary::create(".test-", &target, 0o600).unwrap();
        temporary.take(&target, &file).unwrap();
        drop(new);
        assert!(!target.exists());
        // It is locked: somebody else who makes the same does not take it for stale.
        let (other, _) = Temporary::create(".test-", &target, 0o600).unwrap();
        assert_ne!(other.path(), temporary.path());
        temporary.rename(&target).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"old");
    }
}
