//! Files that can be read only once, such as pipes: a link that is done again needs what they have said.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// What was read so far, by path.
static READ: Mutex<BTreeMap<PathBuf, Vec<u8>>> = Mutex::new(BTreeMap::new());

/// What such a file has said, if it was read before: to open it again could wait forever.
pub fn said(path: &Path) -> Option<Vec<u8>> {
    READ.lock().get(path).cloned()
}

/// Reads a file that is open; one that is no regular file is remembered.
///
/// # Errors
/// Those of reading.
pub fn read_open(path: &Path, file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    if !file.metadata()?.is_file() {
        READ.lock().insert(path.to_path_buf(), bytes.clone());
    }
    Ok(bytes)
}

/// As [`std::fs::read`].
///
/// # Errors
/// Those of opening and reading.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    match said(path) {
        Some(bytes) => Ok(bytes),
        None => read_open(path, &mut File::open(path)?),
    }
}
