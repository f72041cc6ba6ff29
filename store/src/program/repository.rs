//! A repository, open.

use super::Result;
use super::add;
use super::addition::{Added, Addition};
use super::build::Compilation;
use super::compilation_view::CompilationView;
use super::load;
use super::manifest::NewResult;
use super::view::Programs;
use crate::engine::{OpenOptions, Store};
use format_spec::digest::Digest;
use format_spec::ids::Address;
use std::path::Path;

/// A repository of programs, open for reading or writing. Can be shared between threads;
/// any number of processes can have one open at the same time.
#[derive(Debug)]
pub struct Repository {
    store: Store,
}

impl Repository {
    /// The repository of programs that `store` is.
    pub fn new(store: Store) -> Repository {
        Repository { store }
    }

    /// Opens the repository at `path`, and makes it if there is none. Programs use
    /// [`locate::open`](super::locate::open), which knows whom to trust.
    ///
    /// # Errors
    /// If it cannot be made or opened, is no repository, or is damaged.
    pub fn open_or_create(path: &Path) -> Result<Repository> {
        let options = OpenOptions {
            create: true,
            ..OpenOptions::default()
        };
        Ok(Repository {
            store: Store::open(path, &options)?,
        })
    }

    /// Opens the repository at `path`, which must be there.
    ///
    /// # Errors
    /// If it cannot be opened, is no repository, or is damaged.
    pub fn open(path: &Path) -> Result<Repository> {
        Ok(Repository {
            store: Store::open(path, &OpenOptions::default())?,
        })
    }

    /// Opens the repository at `path` for reading only.
    ///
    /// # Errors
    /// If it cannot be opened, is no repository, or is damaged.
    pub fn open_read_only(path: &Path) -> Result<Repository> {
        let options = OpenOptions {
            read_only: true,
            ..OpenOptions::default()
        };
        Ok(Repository {
            store: Store::open(path, &options)?,
        })
    }

    /// Opens the repository at `path` as `options` say.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub fn open_with(path: &Path, options: &OpenOptions) -> Result<Repository> {
        Ok(Repository {
            store: Store::open(path, options)?,
        })
    }

    /// The engine below.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        self.store.path()
    }

    /// What tells it from every other repository.
    pub fn uuid(&self) -> [u8; 16] {
        self.store.uuid()
    }

    /// The programs of the newest revision.
    ///
    /// # Errors
    /// If the repository is damaged.
    pub fn programs(&self) -> Result<Programs<'_>> {
        Ok(Programs::new(self.store.snapshot()?))
    }

    /// Adds compilations, and the records of the tickets that will name them. The results are in the same order. What is there
    /// already is not written again; if everything is, the write lock is not even taken. What is much is added in several
    /// transactions, so that other writers need not wait; each compilation is there whole, or not at all.
    ///
    /// Look at what was added through a snapshot taken afterwards
    /// ([`Repository::programs`]).
    ///
    /// # Errors
    /// If the repository is damaged, read-only, replaced by another file, or the disk
    /// is full. Then those compilations were added of which the transactions were committed before, and nothing is lost but room.
    pub fn add(&self, additions: &[Addition<'_, '_>]) -> Result<Vec<Added>> {
        Ok(add::add(&self.store, additions, None)?.0)
    }

    /// Adds a compilation as [`add`](Self::add) does, and in the same transaction what a compiler has made, of which the compilation is a
    /// part: a transaction of its own would cost more room than that takes. The latter only if `is_still` says so right before the
    /// commit, with the lock held; the second result is whether it did.
    ///
    /// # Errors
    /// As [`add`](Self::add), and as [`record_result`](super::manifest::record_result).
    pub fn add_result(
        &self,
        addition: &Addition<'_, '_>,
        result: &NewResult<'_>,
        is_still: &dyn Fn() -> bool,
    ) -> Result<(Added, bool)> {
        let additions = std::slice::from_ref(addition);
        let (added, is_recorded) = add::add(&self.store, additions, Some((result, is_still)))?;
        Ok((added.first().copied().unwrap_or_default(), is_recorded))
    }

    /// Puts a file on record that holds tickets, as archives do: so it is a root for the compactor. `path` is absolute;
    /// `digest` is a compilation that one of the tickets names. Says whether the path was not on record before.
    ///
    /// # Errors
    /// If there is no such compilation; else as [`add`](Self::add).
    pub fn record_file(&self, path: &Path, digest: &Digest) -> Result<bool> {
        add::record_file(&self.store, path, digest)
    }
}

impl<'s> Programs<'s> {
    /// Reads fragments back that are of no compilation in particular, as one without symbols and bindings, with those that they refer to by
    /// content. Beside it, the addresses of its fragments, in their order, which is ascending.
    ///
    /// # Errors
    /// If the repository is damaged.
    pub fn load_fragments(&self, fragments: &[Address]) -> Result<(Compilation<'s>, Vec<Address>)> {
        let parts = load::load_parts(self, fragments)?;
        Ok((parts.compilation, parts.fragments))
    }

    /// Reads a whole compilation back into memory.
    ///
    /// # Errors
    /// If the repository is damaged.
    pub fn load(&self, compilation: &CompilationView<'s>) -> Result<Compilation<'s>> {
        load::load(self, compilation)
    }

    /// Reads a whole compilation back, and checks that its outline has its checksum, and that what of it needs no knowledge of instructions and of
    /// frame descriptions follows from its members. The rest ([`Section::frame`](super::build::Section::frame),
    /// [`Fragment::plain`](super::build::Fragment::plain), [`Compilation::uses`]) is for whoever splits objects to check.
    ///
    /// # Errors
    /// If it is not, or the repository is damaged otherwise.
    pub fn load_checked(&self, compilation: &CompilationView<'s>) -> Result<Compilation<'s>> {
        load::load_checked(self, compilation)
    }
}
