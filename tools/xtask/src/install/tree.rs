//! Putting files and links below a prefix, and taking them away.

use super::record::{self, Record};
use anyhow::{Context as _, Result};
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// A prefix, and what is installed below it.
pub struct Tree {
    prefix: PathBuf,
    record: Record,
}

impl Tree {
    /// Of what was installed below `prefix` before, only the directories count: they stay this project's to remove.
    pub fn new(prefix: &Path, before: &Record) -> Tree {
        let mut record = Record::default();
        for directory in before.directories() {
            record.note_directory(directory);
        }
        Tree {
            prefix: prefix.to_owned(),
            record,
        }
    }

    /// Where `below` is.
    pub fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        self.prefix.join(below)
    }

    /// Copies `from`, with this mode.
    pub fn file(&mut self, from: &Path, to: impl AsRef<Path>, mode: u32) -> Result<()> {
        let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        self.bytes(&bytes, to.as_ref(), mode)
    }

    fn bytes(&mut self, bytes: &[u8], to: &Path, mode: u32) -> Result<()> {
        self.place(to, |temporary| {
            fs::write(temporary, bytes)?;
            fs::set_permissions(temporary, Permissions::from_mode(mode))
        })
    }

    /// Makes a symbolic link that says `target`.
    pub fn link(&mut self, at: impl AsRef<Path>, target: &str) -> Result<()> {
        self.place(at.as_ref(), |temporary| symlink(target, temporary))
    }

    /// What `make` makes is renamed to its place.
    fn place(&mut self, to: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> Result<()> {
        self.directory(to.parent().unwrap_or(Path::new("")))?;
        let place = self.path(to);
        let mut name = OsString::from(".new-");
        name.push(place.file_name().unwrap_or_default());
        let temporary = place.with_file_name(name);
        let made = remove(&temporary)
            .and_then(|()| make(&temporary))
            .and_then(|()| fs::rename(&temporary, &place));
        if made.is_err() {
            let _ = remove(&temporary);
        }
        made.with_context(|| format!("cannot write {}", place.display()))?;
        self.record.note(to);
        Ok(())
    }

    /// Makes a directory and those above it, for everybody to read, whatever the mask of this process.
    pub fn directory(&mut self, below: &Path) -> Result<()> {
        fs::create_dir_all(&self.prefix)
            .with_context(|| format!("cannot make {}", self.prefix.display()))?;
        let mut above: Vec<&Path> = below
            .ancestors()
            .filter(|path| *path != Path::new(""))
            .collect();
        above.reverse();
        for directory in above {
            let path = self.path(directory);
            match fs::create_dir(&path) {
                Ok(()) => {
                    fs::set_permissions(&path, Permissions::from_mode(0o755))
                        .with_context(|| format!("cannot open {} to all", path.display()))?;
                    self.record.note_directory(directory);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot make {}", path.display()));
                }
            }
        }
        Ok(())
    }

    /// Takes for installed what was installed before, too.
    pub fn keep(&mut self, before: &Record) {
        for file in before.files() {
            self.record.note(file);
        }
    }

    /// Writes the record of what is installed now.
    pub fn write_record(&mut self) -> Result<()> {
        let place = Path::new(record::PLACE);
        self.directory(place.parent().unwrap_or(Path::new("")))?;
        self.record.note(place);
        let text = self.record.text();
        self.bytes(text.as_bytes(), place, 0o644)
    }

    /// Removes what of `before` is not installed now.
    pub fn remove_others(&self, before: &Record) -> Result<()> {
        let others = before.files().filter(|file| !self.record.has(file));
        remove_files(&self.prefix, others)
    }
}

/// Removes an installation: its files, and the directories that it made and that are empty then.
///
/// # Errors
/// If a file cannot be removed; the record is the last of them, so it can be tried again.
pub fn uninstall(prefix: &Path, installed: &Record) -> Result<()> {
    let is_record = |file: &&Path| *file == Path::new(record::PLACE);
    remove_files(prefix, installed.files().filter(|file| !is_record(file)))?;
    remove_files(prefix, installed.files().filter(is_record))?;
    for directory in installed.directories() {
        // What somebody else put there is his.
        let _ = fs::remove_dir(prefix.join(directory));
    }
    Ok(())
}

fn remove_files<'f>(prefix: &Path, files: impl Iterator<Item = &'f Path>) -> Result<()> {
    for file in files {
        let path = prefix.join(file);
        remove(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

/// The names of the links in a directory that lead to `program`; none if there is no such directory.
pub fn links_to(program: &Path, directory: &Path) -> Result<Vec<OsString>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", directory.display()));
        }
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        let target = fs::read_link(entry.path()).map(|target| directory.join(target));
        let leads = target.is_ok_and(|target| {
            let ends = [fs::canonicalize(target), fs::canonicalize(program)];
            matches!(ends, [Ok(one), Ok(other)] if one == other)
        });
        if leads {
            names.push(entry.file_name());
        }
    }
    names.sort();
    Ok(names)
}

/// Removes a file or a link, if it is there.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
