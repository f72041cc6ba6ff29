//! From an object's bytes to a ticket's, or a fat object's: into which repository, and what the
//! user must know if that fails.

use super::invocation::Asked;
use super::log::Log;
use super::memo::observed::Observed;
use super::outgrown;
use super::pruning::{Failed, Pruning};
use format_spec::digest::Digest;
use linker::repository::import::{ImportError, Imported as Added, import_object, import_result};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use store::engine::{self, OpenOptions};
use store::program::locate::{self, Environment};
use store::program::{ProgramError, Repository, waiting};
use tickets::key::{self, Key};
use tickets::recipe::Recipe;
use tickets::{make_fat, named_path, ticket_bytes};

/// Why an object stays an object.
#[derive(Debug)]
pub enum Ordinary {
    /// Nothing is wrong: this is no output that a ticket can stand for.
    Quiet(String),
    /// The user should know: with the repository, something does not work.
    Told(String),
}

/// What an import gave.
#[derive(Debug)]
pub struct Imported {
    /// The bytes of the ticket, or the fat object.
    pub ticket: Vec<u8>,
    /// What was stored.
    pub summary: Summary,
}

impl Imported {
    /// The digest of the compilation.
    pub fn digest(&self) -> Digest {
        self.summary.added.digest
    }
}

/// What is known of a compilation that was stored just now.
#[derive(Debug)]
pub struct Made {
    /// Its digest.
    pub compilation: Digest,
    /// The bytes of the object, as the compiler wrote them.
    pub object: Vec<u8>,
}

/// What was stored, for the log.
#[derive(Debug)]
pub struct Summary {
    added: Added,
    object_bytes: usize,
    repository: PathBuf,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let added = &self.added.added;
        write!(
            f,
            "{} new and {} shared fragments, {} new and {} shared pieces, {} bytes for {} of object, in {}",
            added.new_fragments,
            added.shared_fragments,
            added.new_pieces,
            added.shared_pieces,
            added.new_bytes,
            self.object_bytes,
            self.repository.display(),
        )?;
        match &self.added.whole {
            Some(reason) => write!(f, "; as one fragment: {reason}"),
            None => Ok(()),
        }
    }
}

/// Imports the objects of one command into the repositories that belong to
/// their places: mostly one, which stays open.
pub struct Importer<'a> {
    option: Option<&'a Path>,
    /// The words after `repo-cc`, for the tickets to say.
    command: &'a [OsString],
    /// Whether the objects are to stay, with a note.
    fat: bool,
    /// Its tickets are for one link only.
    is_temporary: bool,
    environment: Environment,
    log: &'a Log,
    /// The one for the outputs in this directory.
    open: Option<(PathBuf, Repository)>,
    /// What the user was told of repositories that are not used.
    ignored: Vec<String>,
    /// If definitions may have been left out.
    pub pruning: Option<&'a Pruning>,
    /// What is known of the compile whose only object is imported next: that is recorded in the same transaction.
    pub observed: Option<Observed>,
    /// Whether it was, or in words why not.
    pub recorded: Option<Result<(), String>>,
}

impl<'a> Importer<'a> {
    /// An importer for what the user has asked.
    pub fn new(asked: &Asked<'a>) -> Importer<'a> {
        Importer {
            option: asked.repo,
            command: asked.command,
            fat: asked.fat,
            is_temporary: asked.is_temporary,
            log: asked.log,
            environment: Environment::current(),
            open: None,
            ignored: Vec::new(),
            pruning: None,
            observed: None,
            recorded: None,
        }
    }

    /// The file of the repository for an output, absolute.
    pub fn repository_path(&mut self, target: &Path) -> Result<PathBuf, Ordinary> {
        Ok(self.repository(target)?.path().to_owned())
    }

    /// Whether the user was told of repositories that are not used.
    pub fn has_told(&self) -> bool {
        !self.ignored.is_empty()
    }

    /// The path of a ticket, if it is to be on record: that of a temporary file is another each time, and soon of nothing.
    pub fn on_record<'t>(&self, target: &'t Path) -> Option<&'t Path> {
        (!self.is_temporary).then_some(target)
    }

    /// Adds an object to the repository of its place.
    fn add(
        &mut self,
        object: &[u8],
        target: &Path,
        is_still: &dyn Fn() -> bool,
    ) -> Result<Result<Added, Failed>, Ordinary> {
        if let Some(observed) = self.observed.take() {
            let added = self.add_observed(&observed, object, target, is_still);
            self.observed = Some(observed);
            if let Some(added) = added? {
                return Ok(added);
            }
        }
        let (pruning, log) = (self.pruning, self.log);
        let ticket = self.on_record(target);
        let repository = self.repository(target)?;
        Ok(match pruning {
            None => import_object(repository, target, object, ticket).map_err(Failed::Import),
            Some(pruning) => pruning.import(repository, target, object, ticket, log),
        })
    }

    /// Adds an object, and with it what is known of the compile. `None` if that cannot be, but the object alone may.
    fn add_observed(
        &mut self,
        observed: &Observed,
        object: &[u8],
        target: &Path,
        is_still: &dyn Fn() -> bool,
    ) -> Result<Option<Result<Added, Failed>>, Ordinary> {
        let added = match observed.files(object) {
            Ok(files) => {
                let result = observed.result(None, files.as_deref());
                let ticket = self.on_record(target);
                let repository = self.repository(target)?;
                import_result(repository, target, object, ticket, &result, is_still)
            }
            Err(reason) => {
                self.recorded = Some(Err(reason));
                return Ok(None);
            }
        };
        match added {
            Ok((added, is_recorded)) => {
                self.recorded = Some(match is_recorded {
                    true => Ok(()),
                    false => Err("another process writes the object".into()),
                });
                Ok(Some(Ok(added)))
            }
            Err(ImportError::Repository(error))
                if !matches!(error, ProgramError::Engine(engine::Error::Replaced { .. })) =>
            {
                self.recorded = Some(Err(error.to_string()));
                Ok(None)
            }
            Err(error) => Ok(Some(Err(Failed::Import(error)))),
        }
    }

    /// Imports the bytes of an object, in whose place, `target` (an absolute
    /// path), its ticket will be. `is_still`: whether it is still the one that was read.
    pub fn import(
        &mut self,
        object: &[u8],
        target: &Path,
        is_still: &dyn Fn() -> bool,
    ) -> Result<Imported, Ordinary> {
        let told = |error: &dyn fmt::Display| Ordinary::Told(error.to_string());
        let added = loop {
            match self.add(object, target, is_still)? {
                // A compactor was faster: what we have open is not the repository any more.
                Err(Failed::Import(ImportError::Repository(ProgramError::Engine(
                    engine::Error::Replaced { .. },
                )))) => self.open = None,
                Err(Failed::Misfit(what)) => return Err(Ordinary::Quiet(what)),
                Err(Failed::Import(error)) => break Err(error),
                Ok(added) => break Ok(added),
            }
        };
        let added = added.map_err(|error| {
            match error {
                ImportError::Repository(error) => told(&error),
                // Of no concern to the user: the object is as good as before.
                ImportError::Damaged { source, .. } | ImportError::NotSplittable { source, .. } => {
                    Ordinary::Quiet(source.to_string())
                }
            }
        })?;
        let ticket = match self.fat {
            true => {
                let mut fat = object.to_vec();
                make_fat(&mut fat, self.repository(target)?, &added.digest);
                fat
            }
            false => self.ticket(&added.digest, target)?,
        };
        let log = self.log;
        let repository = self.repository(target)?;
        outgrown::look_at(repository.path(), log);
        Ok(Imported {
            ticket,
            summary: Summary {
                added,
                object_bytes: object.len(),
                repository: repository.path().to_owned(),
            },
        })
    }

    /// The ticket `target` of a compilation that the repository has.
    pub fn ticket(&mut self, compilation: &Digest, target: &Path) -> Result<Vec<u8>, Ordinary> {
        let path = named_path(self.repository(target)?);
        let made = self.recipe(target, &path);
        let ticket = ticket_bytes(self.repository(target)?, compilation, &made);
        ticket.map_err(|error| Ordinary::Told(error.to_string()))
    }

    /// The repository for an output, if there is one already that can be used.
    pub fn existing(&mut self, target: &Path) -> Option<&Repository> {
        self.open(target, false).ok()
    }

    /// How the ticket `target` is made, for it to say; empty if it could not be made so again.
    fn recipe(&self, target: &Path, repository: &Path) -> Vec<u8> {
        let directory = std::env::current_dir().ok();
        let may_come_again = !self.is_temporary && Recipe::is_repeatable(self.command);
        let Some(directory) = directory.filter(|_| may_come_again) else {
            return Vec::new();
        };
        let Some(key) = key::place().map(|place| Key::read_or_make(&place)) else {
            return Vec::new();
        };
        let recipe = Recipe {
            ticket: target.to_owned(),
            directory,
            command: self.command.to_vec(),
        };
        match key {
            Ok(key) => recipe.encode(repository, &key),
            Err(error) => {
                self.log.note(format_args!(
                    "{}: the ticket does not say how it was made: no key: {error}",
                    target.display()
                ));
                Vec::new()
            }
        }
    }

    /// The repository for an output, open, and made if there is none.
    pub fn repository(&mut self, target: &Path) -> Result<&Repository, Ordinary> {
        self.open(target, true)
    }

    fn open(&mut self, target: &Path, create: bool) -> Result<&Repository, Ordinary> {
        let directory = target.parent().unwrap_or(Path::new("/"));
        let open = match self.open.take() {
            Some((of, repository)) if of == directory => (of, repository),
            _ => (directory.to_owned(), self.find(target, create)?),
        };
        Ok(&self.open.insert(open).1)
    }

    /// Opens the repository for an output, or makes it.
    fn find(&mut self, target: &Path, create: bool) -> Result<Repository, Ordinary> {
        let options = OpenOptions {
            create,
            // Whoever waits for another process says so, and not for ever.
            patience: Some(waiting::patience(|line| {
                linker::tell!("repo-cc: {line}");
            })),
            ..OpenOptions::default()
        };
        let (log, told) = (self.log, &mut self.ignored);
        let mut ignored = |error: &ProgramError| {
            let line = error.to_string();
            if !told.contains(&line) {
                log.warn(&line);
                told.push(line);
            }
        };
        locate::open(
            self.option,
            Some(target),
            &self.environment,
            &options,
            &mut ignored,
        )
        .map_err(|error| Ordinary::Told(error.to_string()))
    }
}
