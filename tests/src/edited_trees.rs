//! Edits of real sources at random: the copy that is edited, and what came of them.

use std::fs;
use std::io;
use std::path::Path;

/// Copies a directory with all that is below it. The copies can be written to, whatever the originals' permissions are.
///
/// # Errors
/// If something cannot be read or written.
pub fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match path.is_dir() {
            true => copy_tree(&path, &to)?,
            false => fs::write(to, fs::read(&path)?)?,
        }
    }
    Ok(())
}

/// What came of the edits.
#[derive(Debug, Default)]
pub struct Counts {
    /// The compiler was not run.
    pub hits: usize,
    /// It was.
    pub compiled: usize,
    /// It was, and the object is as it was.
    pub in_vain: usize,
    /// It does not accept the source.
    pub refused: usize,
}

impl Counts {
    /// Counts an edit that is accepted.
    pub fn add(&mut self, is_hit: bool, is_same: bool) {
        match is_hit {
            true => self.hits += 1,
            false => self.compiled += 1,
        }
        self.in_vain += usize::from(is_same && !is_hit);
    }
}
