//! The folder beside a repository in which `repo-ld` keeps what it knows of outputs: their states, and other names of them.
//!
//! Of each output there are files of one name and different endings, and a symbolic link to the output that says whose they
//! are. Only `repo-ld` knows what is in them; all may be removed at any time, and are when the output is gone: by `repo-gc`,
//! and a few with each full link, so that builds that make many outputs and remove them (CMake's probes) leave nothing.
//!
//! One file of the folder is locked, by a byte for each output, so that no lock is ever removed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What the folder is called: the repository's name and this.
const FOLDER: &str = ".links";

/// Ending of the symbolic links to outputs.
const OUTPUT: &str = "output";

/// Name of the file that is locked.
const LOCK: &str = "lock";

/// The folder of a repository, which need not be there.
pub fn folder_of(repository: &Path) -> PathBuf {
    let mut folder = repository.as_os_str().to_owned();
    folder.push(FOLDER);
    folder.into()
}

/// Makes the folder of a repository, for nobody but the user.
///
/// # Errors
/// Of the file system.
pub fn make_folder(repository: &Path) -> io::Result<PathBuf> {
    let folder = folder_of(repository);
    if !folder.is_dir() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
    }
    Ok(folder)
}

/// The exclusive right to an output's files, as long as it is open in any process.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Takes it; `None` if another process has it. `state` is a file of the output's in the folder, without an ending.
    ///
    /// # Errors
    /// Of the file system.
    pub fn take(state: &Path) -> io::Result<Option<Lock>> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(state.with_file_name(LOCK))?;
        // SAFETY: all zeros are a value of this plain structure.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::F_WRLCK as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        lock.l_start = byte_of(state);
        lock.l_len = 1;
        // SAFETY: a system call that reads `lock`, which lives longer.
        match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
            0 => Ok(Some(Lock(file))),
            _ => match io::Error::last_os_error() {
                why if matches!(why.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(None),
                why => Err(why),
            },
        }
    }

    /// The file that is open.
    pub fn file(&self) -> &File {
        &self.0
    }
}

/// The byte that stands for an output. Two may have the same: they wait for each other.
fn byte_of(state: &Path) -> i64 {
    let name = state.file_name().unwrap_or_default().as_encoded_bytes();
    let digest = *blake3::hash(name).as_bytes();
    let [a, b, c, d, e, f, g, ..] = digest;
    i64::from_le_bytes([a, b, c, d, e, f, g, 0])
}

/// Says of which output a state is, which is locked.
pub fn sign(state: &Path, output: &Path) {
    let link = state.with_extension(OUTPUT);
    if fs::read_link(&link).is_ok_and(|there| there == output) {
        return;
    }
    let _ = fs::remove_file(&link);
    // Without it the files stay until the folder is removed.
    let _ = std::os::unix::fs::symlink(output, &link);
}

/// Removes the files of outputs that are gone and have not been linked for `grace`; at most so many outputs are `looked` at,
/// beginning anywhere. Gives how many outputs' files are gone, and how many bytes they had.
///
/// # Errors
/// Of the file system, but that there is no folder.
pub fn clean(folder: &Path, grace: Duration, looks: usize) -> io::Result<(u64, u64)> {
    let entries = match folder.read_dir() {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok((0, 0)),
        entries => entries?,
    };
    let mut signs = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == OUTPUT) {
            signs.push(path);
        }
    }
    let now = SystemTime::now();
    let nanoseconds = now.duration_since(SystemTime::UNIX_EPOCH);
    let first = nanoseconds.map_or(0, |since| since.subsec_micros() as usize);
    let (mut outputs, mut bytes) = (0, 0);
    let count = signs.len();
    for at in 0..count.min(looks) {
        let sign = &signs[(first + at) % count];
        if fs::metadata(sign).is_ok() {
            continue;
        }
        let state = sign.with_extension("");
        let Some(_lock) = Lock::take(&state)? else {
            continue;
        };
        // Looked at again, as it is locked only now.
        let is_gone = fs::metadata(sign).is_err() && is_older(&state, now, grace);
        if is_gone {
            outputs += 1;
            bytes += remove(&state);
        }
    }
    Ok((outputs, bytes))
}

/// Whether a state has not been changed for so long, or is not there at all.
fn is_older(state: &Path, now: SystemTime, grace: Duration) -> bool {
    let modified = fs::symlink_metadata(state).and_then(|metadata| metadata.modified());
    modified.map_or(true, |modified| {
        now.duration_since(modified).is_ok_and(|age| age >= grace)
    })
}

/// Removes the files of an output, and gives their bytes.
fn remove(state: &Path) -> u64 {
    let mut bytes = 0;
    for ending in ["", "image", "spare", "unfinished", OUTPUT] {
        let path = state.with_extension(ending);
        if let Ok(metadata) = fs::symlink_metadata(&path)
            && fs::remove_file(&path).is_ok()
        {
            bytes += metadata.len();
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::{Lock, clean, make_folder, sign};
    use std::fs;
    use std::time::Duration;

    #[test]
    fn what_is_of_outputs_that_are_gone_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let folder = make_folder(&directory.path().join("program.repo")).unwrap();
        let mut states = Vec::new();
        for name in ["a", "b", "c"] {
            let output = directory.path().join(name);
            fs::write(&output, name).unwrap();
            let state = folder.join(name.repeat(8));
            fs::write(&state, "state").unwrap();
            fs::hard_link(&output, state.with_extension("image")).unwrap();
            sign(&state, &output);
            sign(&state, &output);
            states.push(state);
        }
        let count = || folder.read_dir().unwrap().count();
        assert_eq!(clean(&folder, Duration::ZERO, 10).unwrap(), (0, 0));
        assert_eq!(count(), 9);
        for name in ["a", "b"] {
            fs::remove_file(directory.path().join(name)).unwrap();
        }
        // One is linked just now, and both have been lately.
        let hour = Duration::from_secs(3600);
        assert_eq!(clean(&folder, hour, 10).unwrap(), (0, 0));
        let lock = Lock::take(&states[1]).unwrap().unwrap();
        let (outputs, bytes) = clean(&folder, Duration::ZERO, 10).unwrap();
        assert!(outputs == 1 && bytes > 5, "{outputs} {bytes}");
        assert!(!states[0].exists() && states[1].exists());
        drop(lock);
        assert_eq!(clean(&folder, Duration::ZERO, 10).unwrap().0, 1);
        // The lock, and the files of the third.
        assert_eq!(count(), 4);
        assert!(states[2].exists());
    }

    #[test]
    fn locks_are_of_one_output_each() {
        let directory = tempfile::tempdir().unwrap();
        let folder = make_folder(&directory.path().join("program.repo")).unwrap();
        let [a, b] = ["a", "b"].map(|name| folder.join(name));
        let lock = Lock::take(&a).unwrap();
        assert!(lock.is_some());
        assert!(Lock::take(&a).unwrap().is_none());
        assert!(Lock::take(&b).unwrap().is_some());
        drop(lock);
        assert!(Lock::take(&a).unwrap().is_some());
    }
}
