//! What can go wrong, each with the file and, where there is one, the offset.

use super::distrust::Distrust;
use super::holder::Holder;
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An error of the storage engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused something.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The repository.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A transaction is committed, but perhaps not on the disk, and perhaps never will be:
    /// waiting for it failed.
    #[error("{}: revision {revision} is committed, but a power cut may take it away: {source}", path.display())]
    NotDurable {
        /// The repository.
        path: PathBuf,
        /// What was committed.
        revision: u64,
        /// What went wrong.
        source: Box<Error>,
    },
    /// After a sync had failed, all that could be lost was written again and synced, but the disk
    /// does not have it.
    #[error("{}: what the disk has refused once (at offset {offset:#x}) it does not have after it was written again, either; repo-gc makes a new file", path.display())]
    NotOnDisk {
        /// The repository.
        path: PathBuf,
        /// Where the disk has something else.
        offset: u64,
    },
    /// The file system is one to which others than this machine may write.
    #[error("{}: its file system ({file_system}) is none for a repository: {why}; keep it on a local one, such as ext4, XFS, Btrfs or tmpfs, which --repo or $REPO_FILE can name", path.display())]
    NotLocal {
        /// The repository, or the directory for it.
        path: PathBuf,
        /// What the file system is called.
        file_system: String,
        /// What is the matter with it.
        why: &'static str,
    },
    /// The file system cannot do something that a repository needs.
    #[error("{}: its file system has no {what} ({source}); keep the repository on a local one, such as ext4, XFS, Btrfs or tmpfs", path.display())]
    FileSystem {
        /// The repository.
        path: PathBuf,
        /// What it lacks.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The file was found, not named by the user, and others could have made or changed it.
    #[error("{}: not used, because {why}: who can write a repository can put code into your programs; if you trust them, name it with --repo or $REPO_FILE", path.display())]
    NotTrusted {
        /// The file.
        path: PathBuf,
        /// Whose it is, or who may write it.
        why: Distrust,
    },
    /// It is no regular file.
    #[error("{}: not a repository, but a {kind}; name a regular file with --repo or $REPO_FILE, or one that is yet to be made", path.display())]
    NotAFile {
        /// What is there.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// A symbolic link leads nowhere.
    #[error("{}: is a symbolic link to {}, which does not exist; remove it, or name another file with --repo or $REPO_FILE", path.display(), target.display())]
    DanglingLink {
        /// The link.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// Another process has the right to write and makes no use of it (see
    /// [`Patience`](super::Patience)). Nothing was written.
    #[error("{}: {} has had it locked for {} s and written nothing; let that process go on, or end it", path.display(), holder.as_ref().map_or("another process".to_owned(), Holder::to_string), waited.as_secs_f64())]
    Locked {
        /// The repository.
        path: PathBuf,
        /// Who has the lock, if the system says so.
        holder: Option<Holder>,
        /// How long nothing was written.
        waited: Duration,
    },
    /// The file does not start as a repository does.
    #[error("{}: not a repository; if nothing needs the file, remove it, else name another one with --repo or $REPO_FILE", path.display())]
    NotARepository {
        /// The file.
        path: PathBuf,
    },
    /// The file is a repository of another version of the format.
    #[error("{}: repository format {found}, but this program knows only {known}; make a new repository", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The file's version.
        found: u32,
        /// The version that this program reads and writes.
        known: u32,
    },
    /// The file has features that this version does not know (SPEC.md, section 3).
    #[error("{}: cannot be {action} by this version of the program (unknown features {bits:#x}); use the newer one that wrote it, or make a new repository", path.display())]
    Features {
        /// The file.
        path: PathBuf,
        /// "read" or "written".
        action: &'static str,
        /// The bits that are not known.
        bits: u64,
    },
    /// The file was written on a machine of the other byte order.
    #[error("{}: repository of a machine with another byte order", path.display())]
    ByteOrder {
        /// The file.
        path: PathBuf,
    },
    /// The file ends before its newest transaction does.
    #[error("{}: truncated: {length} bytes, but transactions reach to {needed}", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Its length, bytes.
        length: u64,
        /// Where its newest transaction ends.
        needed: u64,
    },
    /// Something in the file is not as SPEC.md says it must be. A compile that the repository knows is not done, and so does not
    /// mend it.
    #[error("{}: damaged at offset {offset:#x}: {what}; repo-dump --verify --repair drops what needs it", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// A node or leaf of an index or a vector is not as SPEC.md says it must be. All that is in them
    /// can be made again from the log ([`Store::rewrite_leaves`](super::Store::rewrite_leaves)).
    #[error("{}: damaged at offset {offset:#x}: {what}; repo-dump --verify --repair makes the indices again", path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// A transaction was asked of a repository opened for reading only.
    #[error("{}: opened for reading only", path.display())]
    ReadOnly {
        /// The repository.
        path: PathBuf,
    },
    /// The file was opened for reading only, but needs a writer to recover it.
    #[error("{}: was not closed by this system's last boot and needs recovery at offset {offset:#x} ({what}); open it once for writing", path.display())]
    NeedsRecovery {
        /// The repository.
        path: PathBuf,
        /// Where it differs from what recovery would make.
        offset: u64,
        /// What differs.
        what: &'static str,
    },
    /// Another file has taken this one's place (a compaction); open it anew.
    #[error("{}: was replaced; open it again", path.display())]
    Replaced {
        /// The repository.
        path: PathBuf,
    },
    /// There is no such revision.
    #[error("{}: no revision {revision}", path.display())]
    NoSuchRevision {
        /// The repository.
        path: PathBuf,
        /// What was asked for.
        revision: u64,
    },
    /// The repository would become larger than the format or the mapping allows.
    #[error("{}: too large: {what}", path.display())]
    TooLarge {
        /// The repository.
        path: PathBuf,
        /// Which limit.
        what: &'static str,
    },
}

impl Error {
    /// The same of another file: of one that is to be in the directory that the error is about.
    pub(super) fn about(mut self, file: &Path) -> Error {
        if let Error::NotLocal { path, .. } = &mut self {
            *path = file.to_owned();
        }
        self
    }
}

/// What the functions of the engine return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Damage before it is known which file it is in: small, for the fast paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub offset: u64,
    pub what: &'static str,
    /// In a node or a leaf.
    of_index: bool,
}

impl Fault {
    pub fn new(offset: u64, what: &'static str) -> Fault {
        let of_index = false;
        Fault {
            offset,
            what,
            of_index,
        }
    }

    /// Damage of a node or a leaf.
    pub fn of_index(offset: u64, what: &'static str) -> Fault {
        let of_index = true;
        Fault {
            offset,
            what,
            of_index,
        }
    }

    #[cold]
    pub fn at(self, path: &Path) -> Error {
        let Fault { offset, what, .. } = self;
        let path = path.to_owned();
        match self.of_index {
            true => Error::Index { path, offset, what },
            false => Error::Damaged { path, offset, what },
        }
    }
}

/// The error of a lock or a mapping that could not be had: says so if it is the
/// file system that has none.
pub(super) fn cannot(path: &Path, action: &'static str, source: io::Error) -> Error {
    let path = path.to_owned();
    let lacks = matches!(
        source.raw_os_error().map(Errno::from_raw_os_error),
        Some(Errno::NODEV | Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL)
    );
    if lacks {
        let what = match action {
            "map" => "shared mappings",
            _ => "locks (flock)",
        };
        return Error::FileSystem { path, what, source };
    }
    Error::Io {
        path,
        action,
        source,
    }
}
