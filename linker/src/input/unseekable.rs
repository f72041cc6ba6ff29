//! Files that can be read only once, such as pipes: a link that is done again needs what they have said.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// A device can go on for ever, as `/dev/zero` does. What is typed into a terminal is shorter than this, bytes.
const MOST_OF_A_DEVICE: u64 = 1 << 20;

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
    let kind = file.metadata()?.file_type();
    if kind.is_char_device() || kind.is_block_device() {
        let most = MOST_OF_A_DEVICE;
        if file.take(most + 1).read_to_end(&mut bytes)? as u64 > most {
            let why = format!("it is a device, of which no more than {most} bytes are read");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
    } else {
        file.read_to_end(&mut bytes)?;
    }
    if !kind.is_file() {
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
