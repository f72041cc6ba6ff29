//! Finding a ticket's repository.
//!
//! A ticket names its repository by path and by UUID. Trees are moved, copied into containers and restored by CI; then
//! the path says nothing, and the repository is looked for where one would be made today: what `$REPO_FILE` names, the
//! nearest one above the ticket, the user's own. The UUID says whether what is found is the right one.

use crate::ticket::{Ticket, TicketError, format_uuid};
use std::io;
use std::path::{Path, PathBuf};
use store::engine::{self, OpenOptions, Trust};
use store::program::locate::{self, Environment};
use store::program::{ProgramError, Repository};

impl Ticket {
    /// Opens the repository of the ticket in the file `near`: the first with its UUID of `option` (the argument of
    /// `--repo`), the one that it names, and those where one would be made for `near` by `environment`. What is not named by
    /// hand must be trusted: a ticket is no word of the user's ([`Environment::trust_in`]). `options` says the rest.
    ///
    /// # Errors
    /// If there is none: what is wrong with `option` if that is given, else with what the ticket names.
    pub fn open_repository(
        &self,
        option: Option<&Path>,
        near: &Path,
        environment: &Environment,
        options: &OpenOptions,
    ) -> Result<Repository, TicketError> {
        let trust = environment.trust_in(&self.repository);
        let named = option.map(|path| self.open_at(path, Trust::Named, options));
        if let Some(Ok(repository)) = named {
            return Ok(repository);
        }
        let own = self.open_at(&self.repository, trust, options);
        let why = match (named, own) {
            (_, Ok(repository)) => return Ok(repository),
            (Some(Err(why)), _) | (_, Err(why)) => why,
        };
        if !why.is_about_the_place() {
            return Err(why);
        }
        let candidates = elsewhere(near, environment);
        let found = candidates.into_iter().find_map(|(path, trust)| {
            // Looking for it must not make waiting necessary that has nothing to do with it, nor change anything.
            let options = OpenOptions {
                read_only: true,
                ..options.clone()
            };
            self.open_at(&path, trust, &options).ok()?;
            Some((path, trust))
        });
        match found {
            Some((path, trust)) => self.open_at(&path, trust, options),
            None => Err(why),
        }
    }

    fn open_at(
        &self,
        path: &Path,
        trust: Trust,
        options: &OpenOptions,
    ) -> Result<Repository, TicketError> {
        let mut options = OpenOptions {
            trust,
            create: false,
            ..options.clone()
        };
        let mut opened = Repository::open_with(path, &options);
        // One that may only be read is good enough for a link.
        if let Err(ProgramError::Engine(engine::Error::Io { source, .. })) = &opened
            && matches!(
                source.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            )
        {
            options.read_only = true;
            opened = Repository::open_with(path, &options);
        }
        match opened {
            Ok(repository) if repository.uuid() == self.uuid => Ok(repository),
            Ok(repository) => Err(TicketError::OtherRepository {
                path: path.to_owned(),
                wanted: format_uuid(&self.uuid),
                found: format_uuid(&repository.uuid()),
            }),
            Err(ProgramError::Engine(engine::Error::Io { source, .. }))
                if matches!(
                    source.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Err(TicketError::NoRepository {
                    path: path.to_owned(),
                })
            }
            Err(other) => Err(other.into()),
        }
    }
}

impl TicketError {
    /// Whether there is no repository where one was looked for, or another one: then it may be elsewhere.
    fn is_about_the_place(&self) -> bool {
        matches!(
            self,
            TicketError::NoRepository { .. } | TicketError::OtherRepository { .. }
        )
    }
}

/// Where the repository for a file would be made, and how far one there is trusted.
fn elsewhere(near: &Path, environment: &Environment) -> Vec<(PathBuf, Trust)> {
    let found = Environment {
        repo_file: None,
        ..environment.clone()
    };
    [environment, &found]
        .into_iter()
        .filter_map(|environment| locate::places(None, Some(near), environment).ok())
        .flatten()
        .map(|place| {
            let trust = place.trust(environment);
            (place.path, trust)
        })
        .collect()
}
