//! The places of an output's state, and the lock on them: of two links of one output that run at once, the second waits until
//! the first has finished, also what nobody waits for any more.

use super::{Reason, manifest};
use crate::args::Args;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a link waits for another one of the same output. One that was stopped shall not stop all others.
const PATIENCE: Duration = Duration::from_secs(20);

/// The right to read and write an output's state.
pub(crate) struct Held {
    state: PathBuf,
    lock: File,
}

impl Held {
    /// Waits for it.
    ///
    /// # Errors
    /// If there is no place for a state, or another link does not come to its end.
    pub(super) fn take(args: &Args) -> Result<Held, Reason> {
        let state = manifest::state_path(args)?;
        let path = with_ending(&state, ".lock");
        let failed = |why| Reason::from(format!("cannot lock {}: {why}", path.display()));
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .map_err(failed)?;
        let since = Instant::now();
        let mut pause = Duration::from_millis(1);
        while flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            if since.elapsed() > PATIENCE {
                return Err("another link of this output is at work".into());
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        Ok(Held { state, lock })
    }

    /// The state file.
    pub(super) fn state(&self) -> &Path {
        &self.state
    }

    /// Another name of the output.
    pub(super) fn image(&self) -> PathBuf {
        with_ending(&self.state, ".image")
    }

    /// The file in which the output is made that the next incremental link publishes.
    pub(crate) fn spare(&self) -> PathBuf {
        with_ending(&self.state, ".spare")
    }

    /// Its name while it is written to: what a killed link leaves is of no use.
    pub(super) fn unfinished(&self) -> PathBuf {
        with_ending(&self.state, ".unfinished")
    }

    /// The lock, which ends when nobody has it open.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.lock.as_raw_fd()
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ending);
    path.into()
}
