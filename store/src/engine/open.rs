//! Opening a repository, and making one.

use super::create::{create, directory_of, write_empty};
use super::error::{Error, Result};
use super::file_system::check_directory;
use super::options::OpenOptions;
use super::store::Store;
use super::trust;
use std::fs::File;
use std::io;
use std::path::Path;

impl Store {
    /// Opens the repository at `path`.
    ///
    /// Costs a few system calls, whatever the size of the repository; but the
    /// first to open it for writing after a restart of the system checks all
    /// that was written since the last checkpoint, and rolls back to the newest
    /// transaction that reached the disk.
    ///
    /// # Errors
    /// If there is no such file (and [`OpenOptions::create`] is not set), if it
    /// is not a repository of this version, or if it is damaged.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Store> {
        let path = path.as_ref();
        let open = || trust::open(path, options.trust, options.read_only);
        let file = match open() {
            Err(Error::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound && options.create =>
            {
                // Nothing is left where it cannot be used. What else may be wrong with the
                // directory is found out by using it.
                let checked = check_directory(directory_of(path), &*options.system);
                if let Err(error @ Error::NotLocal { .. }) = checked {
                    return Err(error.about(path));
                }
                create(path, options.uuid, &*options.system).map_err(|source| Error::Io {
                    path: path.to_owned(),
                    action: "create the repository",
                    source,
                })?;
                open()
            }
            other => other,
        };
        Store::begin_session(Store::of_file(path, file?, false, options)?)
    }

    /// Makes a repository of `file`, an empty file that is open for reading and writing. It
    /// need have no name yet; `path` is the one that messages call it by. For who gives it
    /// its name later, when it is complete (a compactor).
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn make_in(file: File, path: &Path, options: &OpenOptions) -> Result<Store> {
        write_empty(&file, options.uuid, &*options.system).map_err(|source| Error::Io {
            path: path.to_owned(),
            action: "create the repository",
            source,
        })?;
        Store::begin_session(Store::of_file(path, file, true, options)?)
    }

    fn begin_session(mut store: Store) -> Result<Store> {
        store.enter_session()?;
        store.note_opened();
        Ok(store)
    }

    /// Makes sure that what the file says was written by a system that is
    /// still running, or else that it is good.
    fn enter_session(&self) -> Result<()> {
        if self.is_in_session()? {
            return Ok(());
        }
        let recover = || {
            let _lock = self.lock_file()?;
            match self.is_in_session()? {
                true => Ok(()),
                false => self.recover(),
            }
        };
        match self.is_read_only() {
            // Syncs nothing.
            true => recover(),
            false => self.in_sync_turn(|| self.is_in_session(), |_| recover()),
        }
    }
}
