//! Which files of a build were linked, and whether repo-ld linked them.
//!
//! The witness is repo-ld's log: a line names an output as the command line did, and its size. A file is repo-ld's if
//! its path ends in such a name and it has that size; or if it is a copy of such a file, byte for byte; or if such a file
//! is gone and was called as this one with a suffix, because a build moved it (`ld.so.new`, then `ld.so`).

use anyhow::{Context as _, Result};
use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

/// The ELF executables and shared objects that a build made.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// Number of files that the log explains.
    pub linked: usize,
    /// Files, below the build's directory, that it does not.
    pub unexplained: Vec<String>,
}

/// Looks for executables and shared objects in `tree` that are newer than `begin`, and for each in the `log`. Without a
/// log, which is the system's ld, all are unexplained.
///
/// # Errors
/// If a file or directory cannot be read.
pub fn find(tree: &Path, begin: SystemTime, log: &Path) -> Result<Outputs> {
    let mut files = Vec::new();
    walk(tree, begin, &mut files)?;
    files.sort();
    let log = fs::read_to_string(log).unwrap_or_default();
    let links: Vec<(PathBuf, u64)> = log.lines().filter_map(link_of).collect();
    let mut outputs = Outputs::default();
    let mut by_size: HashMap<u64, Vec<&Path>> = HashMap::new();
    let mut rest = Vec::new();
    for (path, size) in &files {
        let explains = |(name, of): &(PathBuf, u64)| {
            let was_moved = |name: &PathBuf| {
                path.ends_with(name.with_extension(""))
                    && !files.iter().any(|(path, _)| path.ends_with(name))
            };
            of == size && (path.ends_with(name) || was_moved(name))
        };
        if links.iter().any(explains) {
            outputs.linked += 1;
            by_size.entry(*size).or_default().push(path);
        } else {
            rest.push((path, size));
        }
    }
    for (path, size) in rest {
        let candidates = by_size.get(size).map_or(&[][..], Vec::as_slice);
        let bytes = fs::read(path)?;
        let is_copy_of = |other: &&Path| fs::read(other).is_ok_and(|other| other == bytes);
        if candidates.iter().any(is_copy_of) {
            outputs.linked += 1;
        } else {
            let name = path.strip_prefix(tree).unwrap_or(path);
            outputs.unexplained.push(name.display().to_string());
        }
    }
    Ok(outputs)
}

/// The output and its size of a line `repo-ld: PATH: …, SIZE bytes, …`.
fn link_of(line: &str) -> Option<(PathBuf, u64)> {
    let (name, rest) = line.strip_prefix("repo-ld: ")?.split_once(": ")?;
    let words = rest.split(", ");
    let size = words
        .filter_map(|words| words.strip_suffix(" bytes"))
        .find_map(|size| size.parse().ok())?;
    let steps = Path::new(name).components();
    let is_name = |step: &Component<'_>| matches!(step, Component::Normal(_));
    // An absolute path is compared as one.
    let path: PathBuf = if Path::new(name).is_absolute() {
        steps.collect()
    } else {
        steps.filter(is_name).collect()
    };
    Some((path, size))
}

fn walk(directory: &Path, begin: SystemTime, files: &mut Vec<(PathBuf, u64)>) -> Result<()> {
    let entries = directory
        .read_dir()
        .with_context(|| format!("cannot read {}", directory.display()))?;
    for entry in entries {
        let entry = entry?;
        // Test suites may take away their files while we look.
        let Ok(data) = entry.metadata() else { continue };
        if data.is_dir() {
            walk(&entry.path(), begin, files)?;
        } else if data.is_file() && data.modified()? >= begin && is_linked(&entry.path()) {
            files.push((entry.path(), data.len()));
        }
    }
    Ok(())
}

/// Whether the file is an ELF executable or shared object for x86-64: that is what links make here. (gABI, chapter 4)
fn is_linked(path: &Path) -> bool {
    const ET_EXEC: u8 = 2;
    const ET_DYN: u8 = 3;
    const EM_X86_64: u8 = 62;
    let mut header = [0; 20];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut header));
    read.is_ok()
        && header.starts_with(b"\x7fELF\x02\x01")
        && [ET_EXEC, ET_DYN].contains(&header[16])
        && header[18] == EM_X86_64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_gives_path_and_size() {
        let line = "repo-ld: ../bin/./lua: full link (no placement to keep): 33 tickets, 5 objects, 285880 bytes, 17.2 ms";
        assert_eq!(link_of(line), Some((PathBuf::from("bin/lua"), 285880)));
        let line = "repo-ld: /tmp/a.out: full link: 0 tickets, 5 objects, 8 bytes, 1.0 ms; remark";
        assert_eq!(link_of(line), Some((PathBuf::from("/tmp/a.out"), 8)));
        assert_eq!(link_of("repo-ld: conftest: failed"), None);
        assert_eq!(link_of("repo-cc: a.o: ticket: 1 new, 8 bytes, in x"), None);
    }

    #[test]
    fn what_repo_ld_did_not_link_is_found_and_its_copies_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join("build");
        fs::create_dir(&tree).unwrap();
        let elf = |kind: u8, rest: &str| {
            let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
            bytes.resize(16, 0);
            bytes.extend([kind, 0, 62, 0]);
            bytes.extend(rest.as_bytes());
            bytes
        };
        fs::write(tree.join("ours"), elf(3, "one")).unwrap();
        fs::write(tree.join("copy"), elf(3, "one")).unwrap();
        fs::write(tree.join("theirs"), elf(2, "two")).unwrap();
        fs::write(tree.join("object.o"), elf(1, "obj")).unwrap();
        fs::write(tree.join("moved.so"), elf(3, "moved")).unwrap();
        fs::write(tree.join("other.so"), elf(3, "other")).unwrap();
        fs::write(tree.join("other.so.1"), elf(3, "long one")).unwrap();
        let log = directory.path().join("log");
        fs::write(
            &log,
            "repo-ld: ours: full link: 1 objects, 23 bytes, 1 ms\n\
             repo-ld: moved.so.new: full link: 1 objects, 25 bytes, 1 ms\n\
             repo-ld: other.so.1: full link: 1 objects, 25 bytes, 1 ms\n",
        )
        .unwrap();
        let outputs = find(&tree, SystemTime::UNIX_EPOCH, &log).unwrap();
        assert_eq!(outputs.linked, 3);
        assert_eq!(outputs.unexplained, ["other.so", "other.so.1", "theirs"]);
    }
}
