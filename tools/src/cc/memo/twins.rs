//! Files that compilers take for one, if they are to be read once: gcc those of equal size, time and bytes, clang those of one inode. They do
//! not read the second one, and need not say that it is there. Who writes to it later has two files.
//!
//! So nothing is recorded where there are two such files among those that may be included, or two names of one, which may become two. That
//! directories are links is no other name; what is in a file that is found by way of these must stay so.

use super::tokens::{Lexer, Token};
use std::path::{Component, Path, PathBuf};

/// Why nothing is recorded.
pub const TWINS: &str = "two equal inputs that are to be read once";

/// How two names of one file differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Only in how the way there is written.
    Same,
    /// By links that directories are.
    Directories,
    /// The file has two names, or one of them is a link.
    Other,
}

impl Names {
    /// Compares names of one file; `here` is the working directory.
    pub fn of(one: &Path, other: &Path, here: &Path) -> Names {
        if plain(one, here) == plain(other, here) {
            return Names::Same;
        }
        let entry = |path: &Path| -> Option<PathBuf> {
            let path = here.join(path);
            let directory = std::fs::canonicalize(path.parent()?).ok()?;
            Some(directory.join(path.file_name()?))
        };
        match (entry(one), entry(other)) {
            (Some(one), Some(other)) if one == other => Names::Directories,
            _ => Names::Other,
        }
    }
}

/// A path without `.` and `..`.
fn plain(path: &Path, here: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in here.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => _ = plain.pop(),
            _ => plain.push(part),
        }
    }
    plain
}

/// Whether a text has `#import`: what it includes so is to be read once, whatever is in it.
pub fn imports(text: &[u8]) -> bool {
    if memchr::memmem::find(text, b"import").is_none() {
        return false;
    }
    let mut lexer = Lexer::new(text);
    let mut line = Vec::new();
    while lexer.line(&mut line) {
        // (A directive may stand behind what is read as another token.)
        let is_directive = line.contains(&Token::Other(b'#'));
        if is_directive && line.contains(&Token::Word(b"import")) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn names_of_a_file() {
        let scratch = tempfile::tempdir().unwrap();
        let here = scratch.path();
        fs::create_dir_all(here.join("a/b")).unwrap();
        fs::write(here.join("a/x.h"), "").unwrap();
        symlink("a", here.join("link")).unwrap();
        symlink("x.h", here.join("a/y.h")).unwrap();
        fs::hard_link(here.join("a/x.h"), here.join("a/z.h")).unwrap();
        let absolute = here.join("a/x.h");
        for (name, expected) in [
            ("a/x.h", Names::Same),
            ("./a//b/../x.h", Names::Same),
            (absolute.to_str().unwrap(), Names::Same),
            ("link/x.h", Names::Directories),
            ("a/y.h", Names::Other),
            ("link/y.h", Names::Other),
            ("a/z.h", Names::Other),
        ] {
            let found = Names::of(Path::new("a/x.h"), Path::new(name), here);
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn what_imports() {
        assert!(imports(b"#import \"a.h\"\n"));
        assert!(imports(b"/* x */ # /* y */ import <a.h>\n"));
        assert!(!imports(b"import a;\n#include \"import.h\"\n// #import\n"));
    }
}
