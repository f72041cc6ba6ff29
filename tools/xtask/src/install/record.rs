//! The record of an installation: what is there, so that it can be removed again.
//!
//! A text file, one path below the prefix a line, sorted; a directory that the installation made ends with `/`.

use anyhow::{Context as _, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Where it is, below the prefix.
pub const PLACE: &str = "share/program-repository/installed";

/// Paths below a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    files: BTreeSet<PathBuf>,
    directories: BTreeSet<PathBuf>,
}

impl Record {
    /// That of the installation below `prefix`, if there is one.
    ///
    /// # Errors
    /// If it cannot be read, or names what is not below the prefix.
    pub fn read(prefix: &Path) -> Result<Option<Record>> {
        let path = prefix.join(PLACE);
        match fs::read_to_string(&path) {
            Ok(text) => Record::parse(&text)
                .with_context(|| path.display().to_string())
                .map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    fn parse(text: &str) -> Result<Record> {
        let mut record = Record::default();
        for line in text.lines() {
            let path = Path::new(line);
            let below = |part| matches!(part, Component::Normal(_));
            if line.is_empty() || !path.components().all(below) {
                bail!("not a path below the prefix: {line:?}");
            }
            match line.ends_with('/') {
                true => record.note_directory(path),
                false => record.note(path),
            }
        }
        Ok(record)
    }

    /// The record as it is written.
    pub fn text(&self) -> String {
        let directories = self
            .directories
            .iter()
            .map(|path| format!("{}/", path.display()));
        let files = self.files.iter().map(|path| path.display().to_string());
        let mut lines: Vec<String> = directories.chain(files).collect();
        lines.sort();
        lines.join("\n") + "\n"
    }

    /// A file or a link is there.
    pub fn note(&mut self, path: &Path) {
        self.files.insert(path.components().collect());
    }

    /// A directory was made.
    pub fn note_directory(&mut self, path: &Path) {
        self.directories.insert(path.components().collect());
    }

    /// The files and links.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }

    /// Whether a file or link is in it.
    pub fn has(&self, path: &Path) -> bool {
        self.files.contains(path)
    }

    /// The directories, inner ones first.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.directories.iter().rev().map(PathBuf::as_path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut record = Record::default();
        record.note(Path::new("bin/repo-ld"));
        record.note_directory(Path::new("share"));
        record.note_directory(Path::new("share/man"));
        assert_eq!(record.text(), "bin/repo-ld\nshare/\nshare/man/\n");
        assert_eq!(Record::parse(&record.text()).unwrap(), record);
        let inner_first: Vec<_> = record.directories().collect();
        assert_eq!(inner_first, [Path::new("share/man"), Path::new("share")]);
    }

    #[test]
    fn nothing_outside_the_prefix_is_taken_for_installed() {
        for bad in ["/etc/passwd", "../x", "bin/../../x", "", "/"] {
            assert!(
                Record::parse(&format!("bin/x\n{bad}\n")).is_err(),
                "{bad:?}"
            );
        }
    }
}
