//! Where a compiler's driver looks for what it runs and reads of its own: the places before the one where it finds it, at
//! which something may come to be.

use super::inputs;
use super::parts::Parts;
use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const STRANGE: &str = "the compiler does not say where it looks for its own programs";

/// The directories that a driver of gcc searches, as `-print-search-dirs` names them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Searched {
    /// For programs, in order.
    programs: Vec<PathBuf>,
    /// For `specs`, too.
    libraries: Vec<PathBuf>,
}

impl Searched {
    /// Reads what was printed.
    pub fn read(text: &[u8]) -> Result<Searched, &'static str> {
        let list = |name: &str| -> Option<Vec<PathBuf>> {
            let mut lines = text.split(|byte| *byte == b'\n');
            let line = lines.find_map(|line| line.strip_prefix(name.as_bytes()))?;
            let mut found = Vec::new();
            for directory in line.split(|byte| *byte == b':') {
                let directory = inputs::path(directory).to_owned();
                if !found.contains(&directory) {
                    found.push(directory);
                }
            }
            Some(found)
        };
        Ok(Searched {
            programs: list("programs: =").ok_or(STRANGE)?,
            libraries: list("libraries: =").ok_or(STRANGE)?,
        })
    }

    /// The places of a program that this driver has found, before the place where it did.
    fn before(&self, program: &Path) -> Result<Vec<PathBuf>, &'static str> {
        let name = program.file_name().ok_or(STRANGE)?;
        let places = self.programs.iter().map(|directory| directory.join(name));
        let before: Vec<PathBuf> = places.clone().take_while(|it| it != program).collect();
        match before.len() < self.programs.len() {
            true => Ok(before),
            // It was found otherwise.
            false => Err(STRANGE),
        }
    }

    /// Adds the places to the parts of a compiler: those of the programs that were found here, and of `specs`.
    pub fn add(&self, programs: &[PathBuf], parts: &mut Parts<'_>) -> Result<(), &'static str> {
        let mut places: BTreeSet<PathBuf> = BTreeSet::new();
        for program in programs {
            places.extend(self.before(program)?);
        }
        let both = || self.programs.iter().chain(&self.libraries);
        places.extend(both().map(|directory| directory.join("specs")));
        // The directories for programs that the environment names have headers, too.
        let is_named = |name: &&str| env::var_os(name).is_some_and(|value| !value.is_empty());
        if ["COMPILER_PATH", "GCC_EXEC_PREFIX"].iter().any(is_named) {
            let directories = self.programs.iter();
            places
                .extend(directories.flat_map(|it| [it.join("include"), it.join("include-fixed")]));
        }
        places.iter().try_for_each(|place| parts.perhaps(place))
    }

    /// The assembler of this name: in a directory for programs, or else on `PATH`. With the places before it.
    pub fn assembler(&self, said: &OsStr, parts: &mut Parts<'_>) -> Result<PathBuf, &'static str> {
        const NONE: &str = "the compiler does not say what its assembler is";
        if said.as_bytes().contains(&b'/') {
            let program = PathBuf::from(said);
            self.add(std::slice::from_ref(&program), parts)?;
            return Ok(program);
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let on_path = env::split_paths(&path).map(|directory| match directory.as_os_str() {
            empty if empty.is_empty() => PathBuf::from("./").join(said),
            _ => directory.join(said),
        });
        for place in self.programs.iter().map(|it| it.join(said)) {
            parts.perhaps(&place)?;
        }
        for place in on_path {
            if is_runnable(&place) {
                return Ok(place);
            }
            parts.perhaps(&place)?;
        }
        Err(NONE)
    }
}

/// Whether a file can be run, as drivers see it.
fn is_runnable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file())
        && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Adds where clang looks for installations of gcc, of which it takes the newest, and for files with options.
pub fn add_of_clang(
    program: &Path,
    words: &[&OsStr],
    parts: &mut Parts<'_>,
) -> Result<(), &'static str> {
    let mut prefixes: Vec<PathBuf> = vec!["/usr".into()];
    let program = fs::canonicalize(program).map_err(|_| STRANGE)?;
    let above = program.parent().and_then(Path::parent);
    prefixes.extend(above.map(Path::to_owned));
    for (at, word) in words.iter().enumerate() {
        let value = match word.as_bytes() {
            b"--sysroot" | b"-isysroot" => words.get(at + 1).map(|next| next.as_bytes()),
            joined => [&b"--sysroot="[..], b"-isysroot", b"--gcc-toolchain="]
                .iter()
                .find_map(|option| joined.strip_prefix(*option)),
        };
        if let Some(value) = value {
            prefixes.push(inputs::path(value).to_owned());
            prefixes.push(inputs::path(value).join("usr"));
        }
    }
    for prefix in prefixes {
        for directory in ["lib", "lib64", "lib32", "libx32"] {
            for kind in ["gcc", "gcc-cross"] {
                below(&prefix.join(directory).join(kind), 2, parts)?;
            }
        }
    }
    parts.perhaps(Path::new("/opt/rh"))?;
    parts.perhaps(Path::new("/etc/env.d/gcc"))?;
    // Where the directories for files with options usually are, if there are others than the program's own.
    parts.perhaps(Path::new("/etc/clang"))?;
    if let Some(home) = env::var_os("HOME").filter(|home| home.as_bytes().starts_with(b"/")) {
        parts.perhaps(&Path::new(&home).join(".config/clang"))?;
    }
    Ok(())
}

/// A directory, and those in it, so many levels deep.
fn below(directory: &Path, depth: u32, parts: &mut Parts<'_>) -> Result<(), &'static str> {
    parts.perhaps(directory)?;
    if depth > 0
        && let Ok(entries) = fs::read_dir(directory)
    {
        let mut inner: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        inner.retain(|path| path.is_dir());
        inner.sort();
        for inner in inner {
            below(&inner, depth - 1, parts)?;
        }
    }
    Ok(())
}

/// What a command has printed, as a name.
pub fn printed(output: &[u8]) -> Option<OsString> {
    let name = output.trim_ascii();
    (!name.is_empty()).then(|| OsStr::from_bytes(name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let text = b"install: /l/12/\nprograms: =/l/12/:/l/12/:/l/:/t/bin/\nlibraries: =/l/12/:/x/../lib/\n";
        let searched = Searched::read(text).expect("lists");
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(searched.programs, paths(&["/l/12/", "/l/", "/t/bin/"]));
        assert_eq!(searched.libraries, paths(&["/l/12/", "/x/../lib/"]));
        let before = |program: &str| searched.before(Path::new(program));
        assert_eq!(before("/l/12/cc1"), Ok(Vec::new()));
        assert_eq!(before("/t/bin/as"), Ok(paths(&["/l/12/as", "/l/as"])));
        assert!(before("/elsewhere/as").is_err());
        assert!(Searched::read(b"no lists").is_err());
    }
}
