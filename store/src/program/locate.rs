//! Which repository: `--repo FILE`, else `$REPO_FILE`, else the nearest
//! `program.repo` in the output's directory or above, else one for each user.

use super::{ProgramError, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The file name that is looked for in the directories above an output.
pub const FILE_NAME: &str = "program.repo";
/// The per-user directory below `$XDG_CACHE_HOME`.
pub const CACHE_DIRECTORY: &str = "program-repository";

/// What of the environment matters; apart, so that tests need not change it.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `$REPO_FILE`.
    pub repo_file: Option<OsString>,
    /// `$XDG_CACHE_HOME`.
    pub xdg_cache_home: Option<OsString>,
    /// `$HOME`.
    pub home: Option<OsString>,
}

impl Environment {
    /// This process's.
    pub fn current() -> Environment {
        Environment {
            repo_file: std::env::var_os("REPO_FILE"),
            xdg_cache_home: std::env::var_os("XDG_CACHE_HOME"),
            home: std::env::var_os("HOME"),
        }
    }
}

/// Finds the path of the repository, which need not exist yet. `option` is the
/// argument of `--repo`; `output` is the file that is being made (without one,
/// the working directory counts). The result is absolute.
///
/// # Errors
/// [`ProgramError::Nowhere`] if nothing says where; [`ProgramError::Io`] if there is no
/// working directory.
pub fn locate(
    option: Option<&Path>,
    output: Option<&Path>,
    environment: &Environment,
) -> Result<PathBuf> {
    let absolute = |path: &Path| {
        std::path::absolute(path).map_err(|source| ProgramError::Io {
            path: path.to_owned(),
            action: "make an absolute path of",
            source,
        })
    };
    if let Some(path) = option {
        return absolute(path);
    }
    let set = |value: &Option<OsString>| value.clone().filter(|value| !value.is_empty());
    if let Some(path) = set(&environment.repo_file) {
        return absolute(Path::new(&path));
    }
    let start = match output {
        Some(output) => absolute(output)?.parent().map(Path::to_owned),
        None => Some(absolute(Path::new("."))?),
    };
    for directory in start.iter().flat_map(|start| start.ancestors()) {
        let candidate = directory.join(FILE_NAME);
        if candidate.is_file() {
            return Ok(candidate);
        }
    }
    // The XDG specification: a relative path is invalid and to be ignored.
    let cache = set(&environment.xdg_cache_home)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| set(&environment.home).map(|home| Path::new(&home).join(".cache")))
        .ok_or(ProgramError::Nowhere)?;
    absolute(&cache.join(CACHE_DIRECTORY).join(FILE_NAME))
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
            xdg_cache_home: Some(root.into()),
            home: Some("/home/u".into()),
        };
        let find = |option, output, environment: &Environment| {
            locate(option, Some(output), environment).unwrap()
        };
        assert_eq!(
            find(Some(Path::new("/given")), &output, &environment),
            Path::new("/given")
        );
        assert_eq!(find(None, &output, &environment), Path::new("/r/file.repo"));
        environment.repo_file = Some("".into());
        assert_eq!(
            find(None, &output, &environment),
            root.join("a").join(FILE_NAME)
        );
        let elsewhere = root.join("x.o");
        assert_eq!(
            find(None, &elsewhere, &environment),
            root.join(CACHE_DIRECTORY).join(FILE_NAME)
        );
        environment.xdg_cache_home = Some("relative".into());
        assert_eq!(
            find(None, &elsewhere, &environment),
            Path::new("/home/u/.cache/program-repository/program.repo")
        );
        environment.home = None;
        assert!(matches!(
            locate(None, Some(&elsewhere), &environment),
            Err(ProgramError::Nowhere)
        ));
    }
}
