//! The places of an output's state, and the lock on them: of two links of one output that run at once, the second waits until
//! the first has finished, also what nobody waits for any more.

use super::reason::Reason;
use super::symbol_lists;
use crate::args::Args;
use format_spec::digest::Digest;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use store::program::locate;
use store::states::{self, Lock};

/// How long a link waits for another one of the same output. One that was stopped shall not stop all others.
const PATIENCE: Duration = Duration::from_secs(20);

/// The states of outputs that are gone stay for so long: they may be linked again.
const GRACE: Duration = Duration::from_secs(3600);

/// So many states are looked at by each full link.
const LOOKS: usize = 4;

/// The right to read and write an output's state.
pub(crate) struct Held {
    state: PathBuf,
    lock: Lock,
    /// What [`symbol_lists::digest`] said when the link began.
    lists: Digest,
    /// Of this process: outputs get other rights by another one.
    umask: Option<u32>,
}

impl Held {
    /// Waits for it.
    ///
    /// # Errors
    /// If there is no place for a state, or another link does not come to its end.
    pub(super) fn take(args: &Args) -> Result<Held, Reason> {
        let state = state_path(args)?;
        let failed = |why| Reason::from(format!("cannot lock {}: {why}", state.display()));
        let since = Instant::now();
        let mut pause = Duration::from_millis(1);
        let lock = loop {
            if let Some(lock) = Lock::take(&state).map_err(failed)? {
                break lock;
            }
            if since.elapsed() > PATIENCE {
                return Err("another link of this output is at work".into());
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        };
        // Whoever cleans up learns of which output the state is.
        if let Ok(output) = std::path::absolute(&args.output) {
            states::sign(&state, &output);
        }
        let lists = symbol_lists::digest(args);
        let umask = umask();
        Ok(Held {
            state,
            lock,
            lists,
            umask,
        })
    }

    /// Removes what is left of outputs that are gone, or a few of them: so much with each full link.
    pub(super) fn clean(&self) {
        let folder = self.state.parent();
        // What cannot be removed is in nobody's way.
        let _ = folder.map(|folder| states::clean(folder, GRACE, LOOKS));
    }

    /// The [digest](symbol_lists::digest) of lists and version scripts before any was read: one that is written meanwhile is another one for the next link.
    pub(super) fn lists(&self) -> &Digest {
        &self.lists
    }

    /// The file mode creation mask, where the kernel tells.
    pub(super) fn umask(&self) -> Option<u32> {
        self.umask
    }

    /// The state file.
    pub(super) fn state(&self) -> &Path {
        &self.state
    }

    /// Another name of the output.
    pub(super) fn image(&self) -> PathBuf {
        self.state.with_extension("image")
    }

    /// The file in which the output is made that the next incremental link publishes.
    pub(crate) fn spare(&self) -> PathBuf {
        self.state.with_extension("spare")
    }

    /// Its name while it is written to: what a killed link leaves is of no use.
    pub(super) fn unfinished(&self) -> PathBuf {
        self.state.with_extension("unfinished")
    }

    /// The lock, which ends when nobody has it open.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.lock.file().as_raw_fd()
    }
}

/// The file mode creation mask: umask(2) tells it only to who sets another one, for all threads.
fn umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(line.trim(), 8).ok()
}

/// The state file of an output: beside the repository that the options, the environment or the output's place name. Its
/// folder is made.
///
/// # Errors
/// If there is no such place, or it is not the user's own.
fn state_path(args: &Args) -> Result<PathBuf, Reason> {
    let environment = locate::Environment::current();
    let places = locate::places(args.repo.as_deref(), Some(&args.output), &environment)
        .map_err(|why| Reason::from(store::describe(&why)))?;
    let place = places
        .into_iter()
        .next()
        .ok_or("there is no place for a repository")?;
    let folder = states::make_folder(&place.path);
    let failed = |why| Reason::from(format!("no state beside {}: {why}", place.path.display()));
    let folder = folder.map_err(failed)?;
    let output = std::path::absolute(&args.output).map_err(failed)?;
    let name = Digest::of(output.as_os_str().as_bytes());
    Ok(folder.join(format!("{name:.32}")))
}
