//! What can go wrong with a repository's programs.

use crate::engine;
use format_spec::digest::Digest;
use format_spec::ids::Address;
use std::path::PathBuf;

/// An error of the program model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The engine's.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// A record is not what SPEC.md, part 2, says.
    #[error("{}: damaged at offset {:#x}: {what}; repo-dump --verify --repair drops what needs it", path.display(), address.0)]
    Damaged {
        /// The repository.
        path: PathBuf,
        /// The record.
        address: Address,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A record is in an envelope of another version.
    #[error("{}: the record at offset {:#x} is in an envelope of version {version}, which this program does not know; use a newer one", path.display(), address.0)]
    NewerRecord {
        /// The repository.
        path: PathBuf,
        /// The record.
        address: Address,
        /// The version.
        version: u8,
    },
    /// There is no such compilation.
    #[error("{}: has no compilation {digest:.16}; build again what needs it", path.display())]
    NoCompilation {
        /// The repository.
        path: PathBuf,
        /// Its digest.
        digest: Digest,
    },
    /// What is to be added contradicts itself. The mistake of a program, not of its user.
    #[error("malformed: {0}")]
    Malformed(String),
    /// A fragment does not fit its 32-bit offsets.
    #[error(
        "a fragment of {0} bytes is too large for a repository (its value must be less than 4 GiB)"
    )]
    TooLarge(u64),
    /// A compilation has more sections than its outline can tell apart.
    #[error("a compilation of {0} sections is too large for a repository (there may be 2^22)")]
    TooManySections(usize),
    /// A fragment would refer to a name or piece whose number does not fit a target (SPEC.md, section 18).
    #[error(
        "the repository has 2^29 names or pieces, and no place for more; delete what is not needed any more and run repo-gc"
    )]
    TooManyIds,
    /// No place for a repository could be found.
    #[error(
        "no repository: neither --repo, $REPO_FILE, $XDG_STATE_HOME nor $HOME says where one could be"
    )]
    Nowhere,
    /// The directory in which the user wants the repository is not there.
    #[error(
        "{}: its directory {} does not exist; make it (mkdir -p {}), or name another file with --repo or $REPO_FILE",
        path.display(),
        directory.display(),
        directory.display()
    )]
    NoDirectory {
        /// The repository that is to be made.
        path: PathBuf,
        /// Its directory.
        directory: PathBuf,
    },
    /// The user's own repository cannot be where it is by default, and is elsewhere: for
    /// the user to know, once.
    #[error("{why}; without it, it is {} (this is said once)", instead.display())]
    Elsewhere {
        /// What is the matter with the default.
        why: Box<engine::Error>,
        /// Where it is instead.
        instead: PathBuf,
    },
    /// A directory for this user's repository could be somebody else's trap.
    #[error("{}: not used for a repository, because {why}; name another place with --repo or $REPO_FILE", path.display())]
    NotPrivate {
        /// The directory.
        path: PathBuf,
        /// Whose it is, or who may write it.
        why: String,
    },
    /// A directory or file name could not be used.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl ProgramError {
    /// Whether the repository's file was replaced by another one (a compactor's) since
    /// it was opened: open it again and repeat what failed.
    pub fn is_replaced(&self) -> bool {
        matches!(self, ProgramError::Engine(engine::Error::Replaced { .. }))
    }

    pub(super) fn malformed(what: impl Into<String>) -> ProgramError {
        ProgramError::Malformed(what.into())
    }
}

/// What the functions of the program model return.
pub type Result<T, E = ProgramError> = std::result::Result<T, E>;
