//! Whether there is nothing at many paths: most of them are in few directories, which are read once instead of being asked for each name.

use super::inputs;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;

/// So many questions about a directory are asked one by one.
const FEW: u32 = 3;

#[derive(Debug)]
enum Directory {
    /// There is none.
    Absent,
    /// So many questions were asked.
    Asked(u32),
    /// The names in it, in small letters: there are file systems to which all letters are the same.
    Read(HashSet<Vec<u8>>),
    /// It cannot be read.
    Closed,
}

/// What is known of directories.
#[derive(Debug, Default)]
pub struct Places {
    directories: HashMap<Vec<u8>, Directory>,
}

/// Whether an error says that there is nothing.
pub fn is_absence(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) => (b"/", &path[1..]),
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b".", path),
    }
}

impl Places {
    /// Whether it is known, without asking for the path itself, that there is nothing of this name.
    pub fn is_empty(&mut self, path: &[u8]) -> bool {
        let (directory, name) = split(path);
        // These are in every directory, and in no list.
        if matches!(name, b"" | b"." | b"..") || path.ends_with(b"/..") {
            return false;
        }
        if !self.directories.contains_key(directory) {
            let is_absent = !matches!(directory, b"." | b"/") && self.is_empty(directory);
            let new = match is_absent {
                true => Directory::Absent,
                false => Directory::Asked(0),
            };
            self.directories.insert(directory.to_vec(), new);
        }
        let Some(known) = self.directories.get_mut(directory) else {
            return false;
        };
        if let Directory::Asked(count) = known {
            *count += 1;
            if *count <= FEW {
                return false;
            }
            *known = read(directory);
        }
        match known {
            Directory::Absent => true,
            Directory::Read(names) => !names.contains(&name.to_ascii_lowercase()),
            Directory::Asked(_) | Directory::Closed => false,
        }
    }
}

fn read(directory: &[u8]) -> Directory {
    let list = || -> std::io::Result<HashSet<Vec<u8>>> {
        let entries = fs::read_dir(inputs::path(directory))?;
        let names = entries.map(|entry| Ok(entry?.file_name().as_bytes().to_ascii_lowercase()));
        names.collect()
    };
    match list() {
        Ok(names) => Directory::Read(names),
        Err(error) if is_absence(&error) => Directory::Absent,
        Err(_) => Directory::Closed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_never_said_to_be_absent() {
        let top = tempfile::tempdir().expect("a directory");
        for name in ["a.h", "Sub/B.h", "sub2/deep/c.h"] {
            let path = top.path().join(name);
            fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            fs::write(path, "").expect("written");
        }
        std::os::unix::fs::symlink("Sub", top.path().join("link")).expect("linked");
        let top = top.path().as_os_str().as_bytes();
        let mut places = Places::default();
        let names = [
            "a.h",
            "x.h",
            "Sub/B.h",
            "Sub/x.h",
            "sub2/deep/c.h",
            "sub2/deep/x.h",
            "none/x.h",
            "link/B.h",
            "link/x.h",
            "sub2/../a.h",
            "a.h/x.h",
            "none/more/x.h",
        ];
        let mut known = 0;
        for _ in 0..5 {
            for name in names {
                let path = [top, b"/", name.as_bytes()].concat();
                let is_there = fs::symlink_metadata(inputs::path(&path)).is_ok();
                let is_empty = places.is_empty(&path);
                assert!(!(is_there && is_empty), "{name}");
                known += usize::from(is_empty);
            }
        }
        assert!(known >= 20, "{known}");
        assert!(!places.is_empty(b"."));
        assert!(!places.is_empty(b"/"));
    }
}
