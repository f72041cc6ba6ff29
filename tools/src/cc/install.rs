//! `--install-links`: links with compilers' names, to be put in front of `PATH`; and with the names of what compilers are
//! used with, so that who looks for these beside the compiler (CMake, for one) finds them.

use super::compiler::{Name, ONE_WORD_NAMES, behind_one_word};
use super::linker_dir;
use super::tool::Tool;
use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The name by which compilers and build systems call the linker. It leads to `repo-ld`.
const LINKER: &str = "ld";

/// Makes a link in `dir` for each of the compilers and archivers called `names`, or for every one on `PATH` if there are no
/// names. Prints what it made.
///
/// # Errors
/// If a name is no compiler's, or a link cannot be made; in words, with the path.
pub fn install_links(dir: &Path, names: &[OsString]) -> Result<(), String> {
    let at = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    let own = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let repo_ld = linker_dir::find_repo_ld();
    if let Some(name) = names
        .iter()
        .find(|name| !is_compiler(name) && *name != LINKER)
    {
        return Err(format!(
            "{}: not the name of a compiler that repo-cc knows",
            name.to_string_lossy()
        ));
    }
    fs::create_dir_all(dir).map_err(|error| at(dir, error))?;
    let dir = fs::canonicalize(dir).map_err(|error| at(dir, error))?;
    let names = match names {
        [] => {
            let mut found = compilers_on_path(&dir);
            if !found.iter().any(|name| Name::parse(name).is_some()) {
                return Err("no compiler on PATH to make a link for".into());
            }
            found.extend(repo_ld.is_some().then(|| LINKER.into()));
            with_one_word_names(found)
        }
        names => names.iter().cloned().collect(),
    };
    let mut made = Vec::new();
    for name in &names {
        let link = dir.join(name);
        match fs::symlink_metadata(&link) {
            Ok(metadata) if metadata.is_symlink() => {
                fs::remove_file(&link).map_err(|error| at(&link, error))?;
            }
            Ok(_) => {
                return Err(format!(
                    "{}: is there already and is not a link; choose another directory",
                    link.display()
                ));
            }
            Err(_) => {}
        }
        let program = match (name == LINKER, &repo_ld) {
            (false, _) => &own,
            (true, Some(repo_ld)) => repo_ld,
            (true, None) => {
                return Err("ld: there is no repo-ld beside this program or on PATH".into());
            }
        };
        symlink(target(program, &own, &dir), &link).map_err(|error| at(&link, error))?;
        made.push(name.to_string_lossy());
    }
    println!("links to {} in {}:", own.display(), dir.display());
    println!("  {}", made.join(" "));
    println!("to use them: PATH={}:\"$PATH\"", dir.display());
    Ok(())
}

/// A compiler's or archiver's name without a directory, or a one-word name of ours.
fn is_compiler(name: &OsStr) -> bool {
    Path::new(name).file_name() == Some(name)
        && (is_on_path(name) || behind_one_word(name).is_some())
}

/// A name of those that are looked for on `PATH`.
fn is_on_path(name: &OsStr) -> bool {
    Name::parse(name).is_some() || Tool::parse(name).is_some()
}

/// These names of compilers, and the one-word names of those of them that have one.
fn with_one_word_names(mut names: BTreeSet<OsString>) -> BTreeSet<OsString> {
    let is_there = |name: &&&str| {
        behind_one_word(OsStr::new(name)).is_some_and(|name| names.contains(OsStr::new(name)))
    };
    let ours: Vec<_> = ONE_WORD_NAMES.iter().filter(is_there).collect();
    names.extend(ours.into_iter().map(OsString::from));
    names
}

/// What links in `dir` to `program` say. Below the prefix in which the programs are installed (`own` is `PREFIX/bin/repo-cc`)
/// they are relative: so an installation can be made in one place and moved to another, as packages are.
fn target(program: &Path, own: &Path, dir: &Path) -> PathBuf {
    let prefix = own.parent().and_then(Path::parent);
    let (Some(below), Some(inside)) = (
        prefix.and_then(|prefix| dir.strip_prefix(prefix).ok()),
        prefix.and_then(|prefix| program.strip_prefix(prefix).ok()),
    ) else {
        return program.to_owned();
    };
    let up = below.components().map(|_| Path::new(".."));
    up.chain([inside]).collect()
}

/// The names of the compilers on `PATH`, without those in `dir` itself.
fn compilers_on_path(dir: &Path) -> BTreeSet<OsString> {
    env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .filter(|other| fs::canonicalize(other).is_ok_and(|other| other != dir))
        .filter_map(|other| fs::read_dir(other).ok())
        .flat_map(|entries| entries.flatten())
        .map(|entry| entry.file_name())
        .filter(|name| is_on_path(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_an_installation_are_relative() {
        let target = |own: &str, dir: &str| target(Path::new(own), Path::new(own), Path::new(dir));
        let installed = target("/p/bin/repo-cc", "/p/libexec/program-repository/compilers");
        assert_eq!(installed, Path::new("../../../bin/repo-cc"));
        let elsewhere = target("/p/bin/repo-cc", "/home/u/links");
        assert_eq!(elsewhere, Path::new("/p/bin/repo-cc"));
        assert_eq!(target("/repo-cc", "/links"), Path::new("/repo-cc"));
    }

    #[test]
    fn names_of_compilers_and_nothing_else() {
        assert!(is_compiler(OsStr::new("gcc-ar")) && is_compiler(OsStr::new("ranlib")));
        assert!(is_compiler(OsStr::new("objcopy")) && is_compiler(OsStr::new("strip")));
        assert!(is_compiler(OsStr::new("clang++-19")) && is_compiler(OsStr::new("repo-gcc")));
        let names = with_one_word_names(["cc".into(), "gcc".into(), "gcc-12".into()].into());
        let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
        assert_eq!(names, ["cc", "gcc", "gcc-12", "repo-gcc"]);
        for name in ["make", "bin/gcc", "../gcc", "repo-cc", ""] {
            assert!(!is_compiler(OsStr::new(name)), "{name}");
        }
    }
}
