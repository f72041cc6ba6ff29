//! Importing: an object file's bytes become a compilation in a repository.

use crate::repository::split::{self, SplitError};
use bumpalo::Bump;
use format_spec::digest::Digest;
use std::path::{Path, PathBuf};
use store::program::manifest::NewResult;
use store::program::{Added, Addition, Prepared, ProgramError, Repository};

/// Why an object was not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The object file contradicts itself.
    #[error("{}: {source}", path.display())]
    Damaged {
        /// The object.
        path: PathBuf,
        /// Where and what.
        source: SplitError,
    },
    /// The file is none that can be split (not an x86-64 relocatable object, or made
    /// for link-time optimisation): keep it as it is.
    #[error("{}: {source}", path.display())]
    NotSplittable {
        /// The object.
        path: PathBuf,
        /// Why.
        source: SplitError,
    },
    /// The repository.
    #[error(transparent)]
    Repository(#[from] ProgramError),
}

impl ImportError {
    fn new(path: &Path, source: SplitError) -> ImportError {
        let path = path.to_owned();
        match source {
            SplitError::Damaged { .. } => ImportError::Damaged { path, source },
            SplitError::NotSplittable { .. } => ImportError::NotSplittable { path, source },
        }
    }

    /// Whether the file may be used as it is, on the ordinary road.
    pub fn is_not_splittable(&self) -> bool {
        matches!(self, ImportError::NotSplittable { .. })
    }
}

/// An imported object.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The compilation's digest, which a ticket names.
    pub digest: Digest,
    /// What was new and what was there already.
    pub added: Added,
    /// If the object became one large fragment: why.
    pub whole: Option<String>,
}

/// Splits an object file and computes the digests of its parts, without a
/// repository; borrowed from `bytes` and `arena`. `path` is for messages. The second
/// result says why the object became one large fragment, if it did.
///
/// # Errors
/// [`ImportError::Damaged`] and [`ImportError::NotSplittable`].
pub fn prepare<'a>(
    path: &Path,
    bytes: &'a [u8],
    arena: &'a Bump,
) -> Result<(Prepared<'a>, Option<String>), ImportError> {
    let split = split::split(bytes, arena).map_err(|source| ImportError::new(path, source))?;
    Ok((Prepared::new(split.compilation)?, split.whole))
}

/// Imports an object file into `repository`. `path` is for messages; `ticket` is the
/// absolute path of the ticket file that will name the compilation, if there is to be
/// one: the repository then remembers it, as a root for its compactor.
///
/// What becomes smaller by that is recorded compressed.
///
/// To import many objects in one transaction, use [`prepare`] on each (in parallel, if
/// that helps) and [`Repository::add`] on all.
///
/// # Errors
/// See [`ImportError`]. Nothing is added then.
pub fn import_object(
    repository: &Repository,
    path: &Path,
    bytes: &[u8],
    ticket: Option<&Path>,
) -> Result<Imported, ImportError> {
    import_with(path, bytes, |prepared| {
        let added = repository.add(&[Addition { prepared, ticket }])?;
        Ok(added.first().copied().unwrap_or_default())
    })
}

/// As [`import_object`], but in the same transaction what a compiler has made is recorded, of which the object is a part: `result`, whose
/// compilation is filled in here. But for that the object must still be what was compiled, as `is_still` says right before the commit;
/// the second result is whether it was.
///
/// # Errors
/// See [`ImportError`]. Nothing is added then.
pub fn import_result(
    repository: &Repository,
    path: &Path,
    bytes: &[u8],
    ticket: Option<&Path>,
    result: &NewResult<'_>,
    is_still: &dyn Fn() -> bool,
) -> Result<(Imported, bool), ImportError> {
    let mut is_recorded = false;
    let imported = import_with(path, bytes, |prepared| {
        let result = NewResult {
            compilation: Some(&prepared.digest),
            ..*result
        };
        let addition = Addition { prepared, ticket };
        let added = repository.add_result(&addition, &result, is_still)?;
        is_recorded = added.1;
        Ok(added.0)
    })?;
    Ok((imported, is_recorded))
}

fn import_with(
    path: &Path,
    bytes: &[u8],
    add: impl FnOnce(&Prepared<'_>) -> Result<Added, ProgramError>,
) -> Result<Imported, ImportError> {
    let arena = Bump::new();
    let (mut prepared, whole) = prepare(path, bytes, &arena)?;
    prepared.compress();
    Ok(Imported {
        digest: prepared.digest,
        added: add(&prepared)?,
        whole,
    })
}
