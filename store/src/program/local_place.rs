//! The repository of a user whose home is another machine's (NFS): on this machine, in a directory of
//! his own in one where everybody may make files, and which a restart does not empty (`/var/tmp`; FHS 3.0,
//! section 5.15).
//!
//! Others can make such a directory before him. So it must be a directory, and not a link to one, belong
//! to him and be nobody else's to write; and in the one above nobody else may be able to put another in its place, which
//! the sticky bit sees to. (What is asked of the repository itself: [`Trust`](crate::engine::Trust).)

use super::{ProgramError, Result};
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What a user's own directory below `$XDG_STATE_HOME` is called; and how the name of one elsewhere begins.
pub(super) const STATE_DIRECTORY: &str = "program-repository";

/// The directory of this process's user in `parent`.
pub(super) fn directory(parent: &Path) -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    parent.join(format!("{STATE_DIRECTORY}-{user}"))
}

/// Makes the directory if it is not there, and checks it. Whether it is new.
///
/// # Errors
/// [`ProgramError::NotPrivate`] if somebody else could read or change what will be in it, or has made it;
/// [`ProgramError::Io`] if it can neither be found nor made.
pub(super) fn prepare(directory: &Path) -> Result<bool> {
    check_above(directory)?;
    let made = DirBuilder::new().mode(0o700).create(directory);
    let is_new = match made {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(cannot(directory, error)),
    };
    check(directory)?;
    Ok(is_new)
}

fn check_above(directory: &Path) -> Result<()> {
    let parent = directory.parent().unwrap_or(Path::new("/"));
    let above = parent.metadata().map_err(|error| cannot(parent, error))?;
    let is_open = above.mode() & 0o022 != 0;
    if is_of_others(&above) {
        return Err(not_private(
            parent,
            format!("it belongs to user {}", above.uid()),
        ));
    }
    if is_open && above.mode() & 0o1000 == 0 {
        return Err(not_private(
            parent,
            "others may write it, and it is not sticky".to_owned(),
        ));
    }
    Ok(())
}

/// Checks a directory that is there.
pub(super) fn check(directory: &Path) -> Result<()> {
    check_above(directory)?;
    let found = directory.symlink_metadata();
    let found = found.map_err(|error| cannot(directory, error))?;
    let why = match found.mode() & 0o777 {
        _ if !found.is_dir() => "it is no directory".to_owned(),
        _ if is_of_others(&found) => format!("it belongs to user {}", found.uid()),
        mode if mode & 0o022 != 0 => format!("others may write it (mode {mode:04o})"),
        _ => return Ok(()),
    };
    Err(not_private(directory, why))
}

/// Neither this user's nor root's.
fn is_of_others(found: &Metadata) -> bool {
    found.uid() != 0 && found.uid() != rustix::process::geteuid().as_raw()
}

fn not_private(path: &Path, why: String) -> ProgramError {
    ProgramError::NotPrivate {
        path: path.to_owned(),
        why,
    }
}

fn cannot(path: &Path, source: io::Error) -> ProgramError {
    ProgramError::Io {
        path: path.to_owned(),
        action: "make the repository's directory",
        source,
    }
}
