//! Prefixes: directories below which the user has said that tickets are, such as those that programs and libraries are
//! installed into (SPEC.md, section 34). A compactor looks there each time.
//!
//! What is forgotten is not removed, as nothing is: a record of a class that nothing keeps takes its place, and is gone with
//! the next compaction.

use super::adder::Adder;
use super::view::Programs;
use super::{ProgramError, Result, replace_enveloped};
use crate::engine::{Durability, Error, Store};
use format_spec::digest::Digest;
use format_spec::envelope::{Class, Envelope};
use format_spec::kinds::{BODY_VERSION, PrefixBody};
use format_spec::program::Index;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A directory below which a compactor looks for tickets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    /// The directory, absolute.
    pub path: PathBuf,
    /// When the user named it, in nanoseconds since 1970.
    pub named: u64,
}

impl Programs<'_> {
    /// The prefixes that are remembered, by path. What is damaged, or of another version, is passed over.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn prefixes(&self) -> Result<Vec<Prefix>> {
        let mut prefixes = Vec::new();
        for record in self.records(Index::Prefixes) {
            let record = match record {
                Ok(record) => record,
                Err(ProgramError::Damaged { .. } | ProgramError::Engine(Error::Damaged { .. })) => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            let Ok(envelope) = self.envelope(&record) else {
                continue;
            };
            let body = PrefixBody::parse(&envelope);
            if let (Some(Class::Root), Some(body), [path]) =
                (envelope.class(), body, envelope.names)
            {
                prefixes.push(Prefix {
                    path: PathBuf::from(OsStr::from_bytes(self.name(*path)?)),
                    named: body.named,
                });
            }
        }
        prefixes.sort();
        Ok(prefixes)
    }
}

/// Remembers the directory at the absolute path `path`; returns whether it was not before.
///
/// # Errors
/// If the repository is damaged, or cannot be written.
pub fn remember_prefix(store: &Store, path: &Path) -> Result<bool> {
    if is_remembered(store, path)? {
        return Ok(false);
    }
    put(store, path, Class::Root)?;
    Ok(true)
}

/// Forgets it; returns whether it was remembered.
///
/// # Errors
/// As [`remember_prefix`].
pub fn forget_prefix(store: &Store, path: &Path) -> Result<bool> {
    if !is_remembered(store, path)? {
        return Ok(false);
    }
    put(store, path, Class::Needed)?;
    Ok(true)
}

fn is_remembered(store: &Store, path: &Path) -> Result<bool> {
    let prefixes = Programs::new(store.snapshot()?).prefixes()?;
    Ok(prefixes.iter().any(|known| known.path == path))
}

fn put(store: &Store, path: &Path, class: Class) -> Result<()> {
    let mut adder = Adder::new(store.begin(Durability::Lazy)?)?;
    let path = path.as_os_str().as_bytes();
    let name = adder.name(path)?;
    let body = PrefixBody { named: store.now() };
    let envelope = Envelope {
        class: class as u8,
        body_version: BODY_VERSION,
        references: &[],
        names: &[name],
        pieces: &[],
        body: bytemuck::bytes_of(&body),
    };
    let key = Digest::of(path);
    replace_enveloped(
        &mut adder.transaction,
        Index::Prefixes.slot(),
        &key,
        &envelope,
    )?;
    adder.transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Repository;

    #[test]
    fn they_are_remembered_once_and_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let repository = Repository::open_or_create(&directory.path().join("r.repo")).unwrap();
        let store = repository.store();
        let known = || -> Vec<PathBuf> {
            let prefixes = repository.programs().unwrap().prefixes().unwrap();
            prefixes.into_iter().map(|prefix| prefix.path).collect()
        };
        let (usr, opt) = (Path::new("/usr/local"), Path::new("/opt"));
        assert!(known().is_empty());
        assert!(!forget_prefix(store, usr).unwrap());
        assert!(remember_prefix(store, usr).unwrap());
        let revision = || repository.programs().unwrap().snapshot().revision();
        let before = revision();
        assert!(!remember_prefix(store, usr).unwrap());
        assert_eq!(revision(), before);
        assert!(remember_prefix(store, opt).unwrap());
        assert_eq!(known(), [opt, usr]);
        assert!(forget_prefix(store, opt).unwrap());
        assert_eq!(known(), [usr]);
        assert!(remember_prefix(store, opt).unwrap());
        assert_eq!(known(), [opt, usr]);
        repository.store().verify().unwrap();
    }
}
