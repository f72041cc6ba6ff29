//! Which repository: `--repo FILE`, else `$REPO_FILE`, else the nearest
//! `program.repo` in the output's directory or above that may be trusted, else one for
//! each user.
//!
//! What the option or the variable names is used whoever owns it: to name it is to trust
//! all who can write it. So a team shares a repository on one machine. What is found
//! otherwise must be the user's own or root's ([`Trust::Found`]); if it is not, it is passed
//! over, and the user is told.

use super::{ProgramError, Repository, Result};
use crate::engine::{self, OpenOptions, Store, Trust};
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The file name that is looked for in the directories above an output.
pub const FILE_NAME: &str = "program.repo";
/// The per-user directory below `$XDG_STATE_HOME`.
pub const STATE_DIRECTORY: &str = "program-repository";

/// What of the environment matters; apart, so that tests need not change it.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `$REPO_FILE`.
    pub repo_file: Option<OsString>,
    /// `$XDG_STATE_HOME`.
    pub xdg_state_home: Option<OsString>,
    /// `$HOME`.
    pub home: Option<OsString>,
    /// For root: `$SUDO_UID`, the user who called sudo. As git does, root then takes what is
    /// that user's for his own: `sudo make install` finds what `make` has made.
    pub sudo_uid: Option<u32>,
}

impl Environment {
    /// This process's.
    pub fn current() -> Environment {
        let sudo = || std::env::var("SUDO_UID").ok()?.parse().ok();
        let is_root = rustix::process::geteuid().is_root();
        Environment {
            repo_file: std::env::var_os("REPO_FILE"),
            xdg_state_home: std::env::var_os("XDG_STATE_HOME"),
            home: std::env::var_os("HOME"),
            sudo_uid: is_root.then(sudo).flatten(),
        }
    }

    /// How far a repository is trusted whose path is read from somewhere, as from a ticket:
    /// all the way only if it is the one that `$REPO_FILE` names.
    pub fn trust_in(&self, path: &Path) -> Trust {
        let by_hand = set(&self.repo_file).map(|named| std::path::absolute(Path::new(&named)));
        match (by_hand, std::path::absolute(path)) {
            (Some(Ok(named)), Ok(path)) if named == path => Trust::Named,
            _ => self.trust_in_found(),
        }
    }

    fn trust_in_found(&self) -> Trust {
        Trust::Found {
            as_well: self.sudo_uid,
        }
    }
}

/// A variable that is empty is none.
fn set(value: &Option<OsString>) -> Option<OsString> {
    value.clone().filter(|value| !value.is_empty())
}

/// Why a place is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The option or the variable names it.
    Named,
    /// A file of this name is above the output.
    Above,
    /// It is the user's own.
    Users,
}

/// Where a repository is, or can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its file: an absolute path.
    pub path: PathBuf,
    /// Why.
    pub reason: Reason,
}

/// The places where the repository can be, the first one first; at least one. `option` is
/// the argument of `--repo`; `output` is the file that is being made (without one, the
/// working directory counts).
///
/// # Errors
/// [`ProgramError::Nowhere`] if nothing says where; [`ProgramError::Io`] if there is no
/// working directory.
pub fn places(
    option: Option<&Path>,
    output: Option<&Path>,
    environment: &Environment,
) -> Result<Vec<Place>> {
    let absolute = |path: &Path| {
        std::path::absolute(path).map_err(|source| ProgramError::Io {
            path: path.to_owned(),
            action: "make an absolute path of",
            source,
        })
    };
    let by_variable = set(&environment.repo_file).map(PathBuf::from);
    if let Some(path) = option.or(by_variable.as_deref()) {
        return Ok(vec![Place {
            path: absolute(path)?,
            reason: Reason::Named,
        }]);
    }
    let start = match output {
        Some(output) => absolute(output)?.parent().map(Path::to_owned),
        None => Some(absolute(Path::new("."))?),
    };
    let above = start.iter().flat_map(|start| start.ancestors());
    let mut places: Vec<Place> = above
        .map(|directory| directory.join(FILE_NAME))
        .filter(|candidate| candidate.symlink_metadata().is_ok())
        .map(|path| Place {
            path,
            reason: Reason::Above,
        })
        .collect();
    // The XDG specification: a relative path is invalid and to be ignored.
    let state = set(&environment.xdg_state_home)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| set(&environment.home).map(|home| Path::new(&home).join(".local/state")));
    if let Some(state) = state {
        places.push(Place {
            path: absolute(&state.join(STATE_DIRECTORY).join(FILE_NAME))?,
            reason: Reason::Users,
        });
    }
    match places.is_empty() {
        true => Err(ProgramError::Nowhere),
        false => Ok(places),
    }
}

/// Opens the repository: the first of the [`places`] where there is one that may be used.
/// With [`OpenOptions::create`], one is made where the option or the variable says, or as
/// the user's own. [`OpenOptions::trust`] is not looked at. `ignored` is told of those that
/// are passed over.
///
/// # Errors
/// If there is none, or the first that may be used cannot be opened, or is damaged.
pub fn open(
    option: Option<&Path>,
    output: Option<&Path>,
    environment: &Environment,
    options: &OpenOptions,
    ignored: &mut dyn FnMut(&ProgramError),
) -> Result<Repository> {
    let mut last = ProgramError::Nowhere;
    for place in places(option, output, environment)? {
        match open_at(&place, environment, options) {
            Err(error) if place.reason == Reason::Above && is_to_be_passed_over(&error) => {
                if !is_not_found(&error) {
                    ignored(&error);
                }
                last = error;
            }
            other => return other,
        }
    }
    Err(last)
}

fn open_at(place: &Place, environment: &Environment, options: &OpenOptions) -> Result<Repository> {
    let mut options = options.clone();
    options.trust = match place.reason {
        Reason::Named => Trust::Named,
        Reason::Above | Reason::Users => environment.trust_in_found(),
    };
    options.create &= place.reason != Reason::Above;
    let directory = place.path.parent().unwrap_or(Path::new("/"));
    if options.create && !place.path.exists() {
        match place.reason {
            Reason::Users => make_private(directory)?,
            // A mistyped path is no reason to make directories.
            _ if is_missing(directory) => {
                return Err(ProgramError::NoDirectory {
                    path: place.path.clone(),
                    directory: directory.to_owned(),
                });
            }
            _ => {}
        }
    }
    Ok(Repository::new(Store::open(&place.path, &options)?))
}

/// Makes a directory for this user alone, and those above it.
fn make_private(directory: &Path) -> Result<()> {
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory);
    made.map_err(|source| ProgramError::Io {
        path: directory.to_owned(),
        action: "make the repository's directory",
        source,
    })
}

fn is_missing(directory: &Path) -> bool {
    let looked = directory.metadata();
    looked.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Whether what was found by its name is none that this user would have made.
fn is_to_be_passed_over(error: &ProgramError) -> bool {
    matches!(
        error,
        ProgramError::Engine(
            engine::Error::NotTrusted { .. }
                | engine::Error::NotAFile { .. }
                | engine::Error::DanglingLink { .. }
        )
    ) || is_not_found(error)
}

fn is_not_found(error: &ProgramError) -> bool {
    matches!(
        error,
        ProgramError::Engine(engine::Error::Io { source, .. })
            if source.kind() == io::ErrorKind::NotFound
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_order_of_the_design() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let deep = root.join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(root.join("a").join(FILE_NAME), b"").unwrap();
        let output = deep.join("x.o");
        let mut environment = Environment {
            repo_file: Some("/r/file.repo".into()),
            xdg_state_home: Some(root.into()),
            home: Some("/home/u".into()),
            sudo_uid: None,
        };
        let find = |option, output, environment: &Environment| -> Vec<(PathBuf, Reason)> {
            let places = places(option, Some(output), environment).unwrap();
            let places = places.into_iter();
            places.map(|place| (place.path, place.reason)).collect()
        };
        let named = |path: &str| vec![(PathBuf::from(path), Reason::Named)];
        let given = Path::new("/given");
        assert_eq!(find(Some(given), &output, &environment), named("/given"));
        assert_eq!(find(None, &output, &environment), named("/r/file.repo"));
        environment.repo_file = Some("".into());
        let users = (root.join(STATE_DIRECTORY).join(FILE_NAME), Reason::Users);
        assert_eq!(
            find(None, &output, &environment),
            [
                (root.join("a").join(FILE_NAME), Reason::Above),
                users.clone()
            ]
        );
        let elsewhere = root.join("x.o");
        assert_eq!(find(None, &elsewhere, &environment), [users]);
        environment.xdg_state_home = Some("relative".into());
        let home = "/home/u/.local/state/program-repository/program.repo";
        assert_eq!(
            find(None, &elsewhere, &environment),
            [(PathBuf::from(home), Reason::Users)]
        );
        environment.home = None;
        assert!(matches!(
            places(None, Some(&elsewhere), &environment),
            Err(ProgramError::Nowhere)
        ));
    }

    #[test]
    fn what_is_named_by_hand_is_trusted_wherever_else_it_is_read() {
        let environment = Environment {
            repo_file: Some("/srv/team.repo".into()),
            ..Environment::default()
        };
        let found = Trust::Found { as_well: None };
        assert_eq!(
            environment.trust_in(Path::new("/srv/team.repo")),
            Trust::Named
        );
        assert_eq!(environment.trust_in(Path::new("/srv/other.repo")), found);
        let without = Environment::default();
        assert_eq!(without.trust_in(Path::new("/srv/team.repo")), found);
    }
}
