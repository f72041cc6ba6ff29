//! Inputs that are opened only to be looked at, not to be linked.

use super::reason::Reason;
use crate::elf::c;
use memmap2::Mmap;
use std::fs::File;
use std::path::Path;
use store::guard::Guarded;

/// The bytes of an input; nothing if it is empty.
///
/// # Errors
/// If it cannot be read.
pub(super) fn map(path: &Path) -> Result<Option<Guarded<Mmap>>, Reason> {
    let failed =
        |why: std::io::Error| Reason::from(format!("cannot read {}: {why}", path.display()));
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() == 0 {
        return Ok(None);
    }
    // SAFETY: as with all inputs: who writes to them while they are linked gets what he deserves.
    let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
    Ok(Some(Guarded::new(map, path)))
}

/// Whether these are the bytes of a shared object.
pub(super) fn is_shared(bytes: &[u8]) -> bool {
    bytes.starts_with(&c::ELFMAG) && bytes.get(16..18) == Some(&c::ET_DYN.to_le_bytes()[..])
}
