//! Opening a repository's file, and judging whose it is.
//!
//! Code comes out of a repository into programs. Whoever can write the file can put code
//! into the programs of all who use it. So one that was merely found (above an output, or
//! named by a ticket) is used only if it belongs to the user or to root, nobody else may
//! write it, and nobody else can put another one in its place: its directory must belong to
//! them too, and be writable by nobody else or be *sticky* (as `/tmp` is: there others can
//! put files, but not take away what is not theirs). One that the user has named needs only
//! be a regular file.
//!
//! What is judged is what was opened, by its descriptor. It is looked at before, too: so
//! that a FIFO or a device is not even opened, and that the owner of a file is known that
//! may not be read. `O_NONBLOCK` and `O_NOFOLLOW` see to what changes in between.

use super::distrust::{Distrust, Flaw};
use super::error::{Error, Result};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// How a repository's path became known, and so what is asked of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The user has named it: a regular file.
    Named,
    /// It was found: a file of the user's or root's, and nobody else's to write or replace.
    Found {
        /// Another user whose files count as one's own: for root, who has called sudo.
        as_well: Option<u32>,
    },
}

/// Opens the file at `path` for reading, or for writing as well.
pub(super) fn open(path: &Path, trust: Trust, read_only: bool) -> Result<File> {
    match trust {
        Trust::Named => open_in(path, CWD.as_fd(), path.as_os_str(), None, read_only),
        Trust::Found { as_well } => open_found(path, as_well, read_only),
    }
}

fn open_found(path: &Path, as_well: Option<u32>, read_only: bool) -> Result<File> {
    let io_error = |source| open_error(path, source);
    // Through symbolic links to where the file is: it is that directory which matters. What
    // is changed on the way afterwards leads to another directory and file, which are judged.
    let real = std::fs::canonicalize(path).map_err(io_error)?;
    let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
        return Err(not_a_file(path, "directory"));
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory: OwnedFd =
        rustix::fs::open(parent, flags, Mode::empty()).map_err(|errno| io_error(errno.into()))?;
    let found = rustix::fs::fstat(&directory).map_err(|errno| io_error(errno.into()))?;
    let judge = Judge { as_well };
    // Whoever may write a sticky directory may not replace what is not theirs.
    let is_sticky = found.st_mode & 0o1000 != 0;
    let private = || has_private_group(&found, &directory);
    if let Err(flaw) = judge.owner(&found).and_then(|()| match is_sticky {
        true => Ok(()),
        false => judge.mode(&found, private),
    }) {
        return Err(Error::NotTrusted {
            path: path.to_owned(),
            why: Distrust {
                of_directory: true,
                flaw,
            },
        });
    }
    open_in(path, directory.as_fd(), name, Some(judge), read_only)
}

/// Where somebody else than the user and root could put something into a directory, or another one in its place: it, or the
/// first of those above it, and why. Above it a sticky directory such as `/tmp` will do: what is not theirs others cannot take
/// away there. `path` is absolute and without symbolic links.
///
/// # Errors
/// If one of them cannot be looked at.
pub fn open_to_others(path: &Path) -> std::io::Result<Option<(PathBuf, Distrust)>> {
    let judge = Judge { as_well: None };
    for directory in path.ancestors() {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened: OwnedFd = rustix::fs::open(directory, flags, Mode::empty())?;
        let found = rustix::fs::fstat(&opened)?;
        let is_sticky = found.st_mode & 0o1000 != 0 && directory != path;
        let private = || has_private_group(&found, &opened);
        let judged = judge.owner(&found).and_then(|()| match is_sticky {
            true => Ok(()),
            false => judge.mode(&found, private),
        });
        if let Err(flaw) = judged {
            let why = Distrust {
                of_directory: false,
                flaw,
            };
            return Ok(Some((directory.to_owned(), why)));
        }
    }
    Ok(None)
}

/// Opens `name` in `directory`; without a judge, any regular file will do.
fn open_in(
    path: &Path,
    directory: rustix::fd::BorrowedFd<'_>,
    name: &OsStr,
    judge: Option<Judge>,
    read_only: bool,
) -> Result<File> {
    let io_error = |errno: Errno| open_error(path, errno.into());
    let (at, follow) = match judge {
        Some(_) => (AtFlags::SYMLINK_NOFOLLOW, OFlags::NOFOLLOW),
        None => (AtFlags::empty(), OFlags::empty()),
    };
    let check = |found: &Stat, file: Option<&File>| {
        let kind = FileType::from_raw_mode(found.st_mode);
        if kind != FileType::RegularFile {
            return Err(not_a_file(path, kind_name(kind)));
        }
        let Some(judge) = &judge else { return Ok(()) };
        let private = || file.is_none_or(|file| has_private_group(found, file));
        let judged = judge.owner(found).and_then(|()| judge.mode(found, private));
        judged.map_err(|flaw| Error::NotTrusted {
            path: path.to_owned(),
            why: Distrust {
                of_directory: false,
                flaw,
            },
        })
    };
    let found = rustix::fs::statat(directory, name, at).map_err(io_error)?;
    check(&found, None)?;
    let access = match read_only {
        true => OFlags::RDONLY,
        false => OFlags::RDWR,
    };
    let flags = access | follow | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(directory, name, flags, Mode::empty()).map_err(io_error)?;
    let file = File::from(opened);
    let found = rustix::fs::fstat(&file).map_err(io_error)?;
    check(&found, Some(&file))?;
    Ok(file)
}

/// Who asks.
struct Judge {
    as_well: Option<u32>,
}

impl Judge {
    fn owner(&self, found: &Stat) -> Result<(), Flaw> {
        let owner = found.st_uid;
        let user = rustix::process::geteuid().as_raw();
        match owner == 0 || owner == user || Some(owner) == self.as_well {
            true => Ok(()),
            false => Err(Flaw::Owner(owner)),
        }
    }

    /// `is_private`: whether its group is its owner alone.
    fn mode(&self, found: &Stat, is_private: impl FnOnce() -> bool) -> Result<(), Flaw> {
        let mode = found.st_mode & 0o7777;
        match mode & 0o022 {
            0 => Ok(()),
            0o020 if is_private() => Ok(()),
            _ => Err(Flaw::Mode(mode)),
        }
    }
}

/// Whether what a file's or directory's group may do, its owner alone may: where each user
/// has a group of the same name (Debian, Fedora), everything is made writable by it.
fn has_private_group(found: &Stat, file: &impl AsRawFd) -> bool {
    let Some(user) = uzers::get_user_by_uid(found.st_uid) else {
        return false;
    };
    let Some(group) = uzers::get_group_by_gid(found.st_gid) else {
        return false;
    };
    use uzers::os::unix::GroupExt;
    let is_own = user.primary_group_id() == group.gid()
        && user.name() == group.name()
        && group.members().iter().all(|member| member == user.name());
    // With an access control list the group's bits are those of all whom it names.
    is_own && {
        let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
        let list = rustix::fs::getxattr(descriptor, "system.posix_acl_access", &mut [0_u8; 0][..]);
        matches!(list, Err(Errno::NODATA | Errno::OPNOTSUPP))
    }
}

/// What of a FIFO, a device and so on there is no repository in.
fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "directory",
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        FileType::CharacterDevice => "character device",
        FileType::BlockDevice => "block device",
        FileType::Symlink => "symbolic link",
        _ => "special file",
    }
}

fn not_a_file(path: &Path, kind: &'static str) -> Error {
    Error::NotAFile {
        path: path.to_owned(),
        kind,
    }
}

fn open_error(path: &Path, source: std::io::Error) -> Error {
    // To the kernel nothing is there; who looks sees a file.
    let is_link = |path: &Path| {
        path.symlink_metadata()
            .is_ok_and(|found| found.is_symlink())
    };
    if source.kind() == std::io::ErrorKind::NotFound && is_link(path) {
        let target = std::fs::read_link(path).unwrap_or_default();
        let parent = path.parent().map(PathBuf::from).unwrap_or_default();
        return Error::DanglingLink {
            path: path.to_owned(),
            target: parent.join(target),
        };
    }
    Error::Io {
        path: path.to_owned(),
        action: "open",
        source,
    }
}
