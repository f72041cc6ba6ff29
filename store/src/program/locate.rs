//! Which repository: `--repo FILE`, else `$REPO_FILE`, else the nearest
//! `program.repo` in the output's directory or above that may be trusted, else one for
//! each user: in his home, or, if that is another machine's, on this machine all the same
//! ([`local_place`]).
//!
//! What the option or the variable names is used whoever owns it: to name it is to trust
//! all who can write it. So a team shares a repository on one machine. What is found
//! otherwise must be the user's own or root's ([`Trust::Found`]); if it is not, it is passed
//! over, and the user is told.

use super::local_place::{self, STATE_DIRECTORY};
use super::{ProgramError, Repository, Result};
use crate::engine::{self, OpenOptions, Store, Trust, check_place};
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The file name that is looked for in the directories above an output.
pub const FILE_NAME: &str = "program.repo";

/// What of the environment matters; apart, so that tests need not change it.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `$REPO_FILE`.
    pub repo_file: Option<OsString>,
    /// `$XDG_STATE_HOME`.
    pub xdg_state_home: Option<OsString>,
    /// `$HOME`.
    pub home: Option<OsString>,
    /// A directory of this machine in which everybody may make files, and which lasts:
    /// `/var/tmp`. None: there is none.
    pub shared: Option<PathBuf>,
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
            shared: Some("/var/tmp".into()),
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
    /// It is the user's own, too, where the other one would be on another machine.
    UsersHere,
}

/// Where a repository is, or can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its file: an absolute path.
    pub path: PathBuf,
    /// Why.
    pub reason: Reason,
}

impl Place {
    /// How far a repository there is trusted.
    pub fn trust(&self, environment: &Environment) -> Trust {
        match self.reason {
            Reason::Named => Trust::Named,
            Reason::Above | Reason::Users | Reason::UsersHere => environment.trust_in_found(),
        }
    }
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
        places.extend(environment.shared.iter().map(|shared| Place {
            path: local_place::directory(shared).join(FILE_NAME),
            reason: Reason::UsersHere,
        }));
    }
    match places.is_empty() {
        true => Err(ProgramError::Nowhere),
        false => Ok(places),
    }
}

/// Opens the repository: the first of the [`places`] where there is one that may be used.
/// With [`OpenOptions::create`], one is made where the option or the variable says, or as
/// the user's own. [`OpenOptions::trust`] is not looked at. `ignored` is told of those that
/// are passed over; of a home that is another machine's only when the other place is made.
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
    let places = places(option, output, environment)?;
    let has_other = (places.last()).is_some_and(|last| last.reason == Reason::UsersHere);
    for place in places {
        match open_at(&place, environment, options) {
            Err(error) if place.reason == Reason::Above && is_to_be_passed_over(&error) => {
                if !is_not_found(&error) {
                    ignored(&error);
                }
                last = error;
            }
            Err(error) if place.reason == Reason::Users && has_other && is_not_local(&error) => {
                last = error;
            }
            Ok((repository, true)) => {
                if let ProgramError::Engine(why) = last {
                    let why = Box::new(why);
                    let instead = place.path;
                    ignored(&ProgramError::Elsewhere { why, instead });
                }
                return Ok(repository);
            }
            other => return other.map(|(repository, _)| repository),
        }
    }
    Err(last)
}

/// Also returns whether a directory was made for the repository of a user whose home is elsewhere.
fn open_at(
    place: &Place,
    environment: &Environment,
    options: &OpenOptions,
) -> Result<(Repository, bool)> {
    let mut options = options.clone();
    options.trust = place.trust(environment);
    options.create &= place.reason != Reason::Above;
    let directory = place.path.parent().unwrap_or(Path::new("/"));
    let mut is_new = false;
    let is_there = place.path.exists();
    if place.reason == Reason::Users && !is_there {
        check_place(&place.path, &*options.system)?;
    }
    match place.reason {
        Reason::Users if options.create && !is_there => make_private(directory)?,
        Reason::UsersHere if options.create && !is_there => {
            check_place(&place.path, &*options.system)?;
            is_new = local_place::prepare(directory)?;
        }
        Reason::UsersHere if !is_missing(directory) => local_place::check(directory)?,
        // A mistyped path is no reason to make directories.
        Reason::Named if options.create && !is_there && is_missing(directory) => {
            return Err(ProgramError::NoDirectory {
                path: place.path.clone(),
                directory: directory.to_owned(),
            });
        }
        _ => {}
    }
    let store = Store::open(&place.path, &options)?;
    Ok((Repository::new(store), is_new))
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

fn is_not_local(error: &ProgramError) -> bool {
    matches!(error, ProgramError::Engine(engine::Error::NotLocal { .. }))
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
    use crate::engine::{Linux, System};
    use std::fs::{File, Permissions};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

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
            shared: None,
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
        environment.shared = Some("/var/tmp".into());
        let user = rustix::process::geteuid().as_raw();
        let here = format!("/var/tmp/program-repository-{user}/program.repo");
        assert_eq!(
            find(None, &elsewhere, &environment),
            [
                (PathBuf::from(home), Reason::Users),
                (PathBuf::from(here), Reason::UsersHere)
            ]
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
    /// Linux, with another machine's file system in a directory.
    struct Far(PathBuf);

    impl System for Far {
        fn file_system(&self, file: &File) -> io::Result<u64> {
            const NFS: u64 = 0x6969;
            let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
            match path.starts_with(&self.0) {
                true => Ok(NFS),
                false => Linux.file_system(file),
            }
        }
    }

    /// A user with such a home, and a directory in which all may make files.
    struct User {
        directory: tempfile::TempDir,
        environment: Environment,
        options: OpenOptions,
    }

    impl User {
        fn new() -> User {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().canonicalize().unwrap();
            let (home, shared) = (root.join("home"), root.join("shared"));
            std::fs::create_dir(&home).unwrap();
            std::fs::create_dir(&shared).unwrap();
            std::fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
            let system = Arc::new(Far(home.clone()));
            User {
                directory,
                environment: Environment {
                    home: Some(home.into()),
                    shared: Some(shared),
                    ..Environment::default()
                },
                options: OpenOptions {
                    create: true,
                    system,
                    ..OpenOptions::default()
                },
            }
        }

        fn shared(&self) -> &Path {
            self.environment.shared.as_deref().unwrap()
        }

        /// Opens it, and returns also what is said.
        fn open(&self) -> (Result<Repository>, Vec<String>) {
            let mut said = Vec::new();
            let output = self.directory.path().join("x.o");
            let ignored = &mut |error: &ProgramError| said.push(error.to_string());
            let opened = open(
                None,
                Some(&output),
                &self.environment,
                &self.options,
                ignored,
            );
            (opened, said)
        }
    }

    #[test]
    fn a_home_on_another_machine() {
        let user = User::new();
        let here = local_place::directory(user.shared());
        let (opened, said) = user.open();
        let path = here.join(FILE_NAME);
        assert_eq!(opened.unwrap().path(), path);
        let [said] = &said[..] else {
            panic!("{said:?}");
        };
        let home = user.directory.path().canonicalize().unwrap().join("home");
        assert!(said.starts_with(&*home.to_string_lossy()), "{said}");
        assert!(said.contains("(NFS)"), "{said}");
        assert!(said.contains(&*path.to_string_lossy()), "{said}");
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&here), mode(&path)), (0o700, 0o600));
        // Nothing is left in the home, and no more is said.
        assert_eq!(home.read_dir().unwrap().count(), 0);
        for create in [true, false] {
            let mut user = User {
                options: user.options.clone(),
                ..User::new()
            };
            user.environment.shared = Some(here.parent().unwrap().to_owned());
            user.environment.home = Some(home.clone().into());
            user.options.create = create;
            let (opened, said) = user.open();
            assert_eq!(opened.unwrap().path(), path);
            assert!(said.is_empty(), "{said:?}");
        }
        // One that is there, from another time, is as little used.
        let old = home.join(".local/state").join(STATE_DIRECTORY);
        std::fs::create_dir_all(&old).unwrap();
        std::fs::copy(&path, old.join(FILE_NAME)).unwrap();
        let (opened, said) = user.open();
        assert_eq!((opened.unwrap().path(), said.len()), (&*path, 0));
    }

    #[test]
    fn nothing_is_made_to_be_looked_at() {
        let mut user = User::new();
        user.options.create = false;
        let (opened, said) = user.open();
        assert!(is_not_found(&opened.err().unwrap()) && said.is_empty());
        assert_eq!(user.shared().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_home_of_this_machine_needs_no_other_place() {
        let mut user = User::new();
        user.options.system = Arc::new(Linux);
        let (opened, said) = user.open();
        let home = user.environment.home.clone().unwrap();
        assert!(opened.unwrap().path().starts_with(home) && said.is_empty());
        assert_eq!(user.shared().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn traps_beside_the_home() {
        let refused = |user: &User, why: &str| {
            for create in [true, false] {
                let mut options = user.options.clone();
                options.create = create;
                let output = user.directory.path().join("x.o");
                let opened = open(
                    None,
                    Some(&output),
                    &user.environment,
                    &options,
                    &mut |_| {},
                );
                match opened.err().unwrap() {
                    ProgramError::NotPrivate { why: said, .. } => assert_eq!(said, why),
                    error => panic!("{error}"),
                }
            }
        };
        // A link, also one to the user's own.
        let user = User::new();
        let here = local_place::directory(user.shared());
        let own = user.directory.path().join("own");
        std::fs::create_dir(&own).unwrap();
        std::os::unix::fs::symlink(&own, &here).unwrap();
        refused(&user, "it is no directory");
        assert_eq!(own.read_dir().unwrap().count(), 0);
        // A directory that others may write.
        std::fs::remove_file(&here).unwrap();
        std::fs::create_dir(&here).unwrap();
        std::fs::set_permissions(&here, Permissions::from_mode(0o770)).unwrap();
        refused(&user, "others may write it (mode 0770)");
        // One above in which others may put another in its place.
        std::fs::set_permissions(&here, Permissions::from_mode(0o700)).unwrap();
        std::fs::set_permissions(user.shared(), Permissions::from_mode(0o777)).unwrap();
        refused(&user, "others may write it, and it is not sticky");
        std::fs::set_permissions(user.shared(), Permissions::from_mode(0o1777)).unwrap();
        user.open().0.unwrap();
        // One that somebody else has made.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&here, Some(54_321), None).unwrap();
            refused(&user, "it belongs to user 54321");
        }
    }
}
