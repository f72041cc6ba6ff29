//! The directory through which compiler drivers find `repo-ld`.
//!
//! gcc looks for its linker by name in the directory given with `-B`: `ld`, or
//! `ld.gold` and so on with `-fuse-ld=`. So there is a directory per installed
//! `repo-ld`, in the user's cache, with symbolic links of all those names. Its
//! name is made from the path of that `repo-ld`, so a link in it never has to
//! point anywhere else later, and builds that run at once cannot disagree.

use super::own_dir::{bases, private};
use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// The names that a driver may ask for. (`real-ld` is the first that gcc's
/// collect2 looks for, before a `collect-ld` of gcc's own directory.)
const NAMES: [&str; 6] = ["ld", "ld.bfd", "ld.gold", "ld.lld", "ld.mold", "real-ld"];

/// The `repo-ld` to link with: the one beside this program, else the first on
/// `PATH`.
pub fn find_repo_ld() -> Option<PathBuf> {
    let is_program = |path: &Path| {
        fs::metadata(path)
            .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    let beside = env::current_exe()
        .ok()
        .map(|own| own.with_file_name("repo-ld"))
        .filter(|path| is_program(path));
    beside.or_else(|| {
        env::split_paths(&env::var_os("PATH")?)
            .filter(|dir| dir.is_absolute())
            .map(|dir| dir.join("repo-ld"))
            .find(|path| is_program(path))
    })
}

/// The directory to give to `-B`, made if it is not there.
pub fn directory(repo_ld: &Path) -> io::Result<PathBuf> {
    let name = format!("bin-{}", short_hash(repo_ld.as_os_str()));
    let mut last_error = io::Error::other("neither XDG_CACHE_HOME nor HOME is set");
    for base in bases() {
        match prepare(&base, &name, repo_ld) {
            Ok(dir) => return Ok(dir),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

/// Makes the directory and its links, as far as they are missing. It must be this user's
/// alone: whoever can put a link there says what the next build runs. (With sudo, the home
/// directory may be that of a user whom root need not trust so far.)
fn prepare(base: &Path, name: &str, repo_ld: &Path) -> io::Result<PathBuf> {
    let dir = base.join(name);
    let trusted = || private(base) && private(&dir);
    let right = |name: &str| fs::read_link(dir.join(name)).is_ok_and(|to| to == repo_ld);
    if trusted() && NAMES.iter().all(|name| right(name)) {
        return Ok(dir);
    }
    DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
    // Where others can make directories, somebody may have been first.
    if !trusted() {
        return Err(io::Error::other(format!(
            "{}: not a directory of this user alone",
            base.display()
        )));
    }
    for name in NAMES {
        if !right(name) {
            // Made under a name of our own and renamed: nobody ever sees it missing.
            let temporary = dir.join(format!(".{name}.{}", std::process::id()));
            let _ = fs::remove_file(&temporary);
            symlink(repo_ld, &temporary)?;
            fs::rename(&temporary, dir.join(name))?;
        }
    }
    remove_dangling(base);
    Ok(dir)
}

/// Removes the directories of programs that are gone.
fn remove_dangling(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else {
        return;
    };
    for entry in entries.flatten() {
        let dir = entry.path();
        let link = dir.join("ld");
        if entry.file_name().as_bytes().starts_with(b"bin-")
            && fs::symlink_metadata(&link).is_ok_and(|metadata| metadata.is_symlink())
            && fs::metadata(&link).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        {
            for name in NAMES {
                let _ = fs::remove_file(dir.join(name));
            }
            let _ = fs::remove_dir(&dir);
        }
    }
}

/// A short name for a path: 16 hexadecimal digits of its BLAKE3 digest.
fn short_hash(path: &OsStr) -> String {
    let digest = blake3::hash(path.as_bytes());
    digest.to_hex().as_str().chars().take(16).collect()
}

/// Whether an option of a compiler asks it for `repo-ld`: by its name, or by a directory whose `ld` leads there.
pub fn is_asked_for(option: &[u8]) -> bool {
    let names: [&[u8]; 3] = [b"-fuse-ld=repo", b"repo-ld", b"program-repository"];
    let is_named = |name: &[u8]| memchr::memmem::find(option, name).is_some();
    let leads_there = |directory: &[u8]| {
        let linker = Path::new(OsStr::from_bytes(directory)).join("ld");
        fs::canonicalize(linker).is_ok_and(|file| file.ends_with("repo-ld"))
    };
    names.into_iter().any(is_named) || option.strip_prefix(b"-B").is_some_and(leads_there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_made_kept_and_repaired() {
        let base = tempfile::tempdir().expect("temporary directory");
        let base = base.path().join("cache");
        let repo_ld = base.with_file_name("repo-ld");
        fs::write(&repo_ld, "").expect("program");
        let dir = prepare(&base, "bin-1", &repo_ld).expect("directory");
        for name in NAMES {
            assert_eq!(fs::read_link(dir.join(name)).expect("link"), repo_ld);
        }
        // A link that points elsewhere, and one that is missing.
        fs::remove_file(dir.join("ld")).expect("link");
        symlink("/elsewhere", dir.join("ld")).expect("link");
        fs::remove_file(dir.join("ld.lld")).expect("link");
        assert_eq!(prepare(&base, "bin-1", &repo_ld).expect("again"), dir);
        for name in NAMES {
            assert_eq!(fs::read_link(dir.join(name)).expect("link"), repo_ld);
        }
    }

    #[test]
    fn directories_of_removed_programs_go() {
        let base = tempfile::tempdir().expect("temporary directory");
        let base = base.path().join("cache");
        let (old, new) = (base.with_file_name("old"), base.with_file_name("new"));
        fs::write(&old, "").expect("program");
        fs::write(&new, "").expect("program");
        let old_dir = prepare(&base, "bin-old", &old).expect("directory");
        fs::remove_file(&old).expect("removed");
        let new_dir = prepare(&base, "bin-new", &new).expect("directory");
        assert!(!old_dir.exists());
        assert!(new_dir.join("ld").exists());
    }

    #[test]
    fn a_directory_that_others_can_write_is_refused() {
        let base = tempfile::tempdir().expect("temporary directory");
        let base = base.path().join("open");
        fs::create_dir(&base).expect("directory");
        fs::set_permissions(&base, fs::Permissions::from_mode(0o777)).expect("mode");
        assert!(prepare(&base, "bin-1", Path::new("/x/repo-ld")).is_err());
    }
}
