//! New names, and the shared objects of the link: what one of them defines or refers to is not the program's own affair.
//!
//! A full link takes of the names of shared objects only those that objects mention, so the state does not know the others. They are
//! looked up here, where a name is new.

use super::Reason;
use super::command::Command;
use super::state::{InputRecord, State, Table, input};
use crate::elf::c;
use crate::shared::Shared;
use memmap2::Mmap;
use rustc_hash::FxHashSet;
use std::fs::File;

/// Refuses names that a shared object among the inputs has.
///
/// # Errors
/// If one has one of them, or cannot be read.
pub(super) fn refuse_known(
    state: &State,
    command: &Command,
    names: &FxHashSet<&[u8]>,
) -> Result<(), Reason> {
    if names.is_empty() {
        return Ok(());
    }
    let inputs: &[InputRecord] = state.table(Table::Inputs);
    for record in inputs.iter().filter(|record| record.kind == input::OTHER) {
        let path = command.path_of(state, record);
        let failed = |why: &dyn std::fmt::Display| {
            Reason::from(format!("cannot read {}: {why}", path.display()))
        };
        let file = File::open(path).map_err(|why| failed(&why))?;
        if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
            continue;
        }
        // SAFETY: as with all inputs: who writes to them while they are linked gets what he deserves.
        let bytes = unsafe { Mmap::map(&file) }.map_err(|why| failed(&why))?;
        // A script, or an object or archive of which nothing is linked.
        let is_shared = bytes.starts_with(&c::ELFMAG)
            && bytes.get(16..18) == Some(&c::ET_DYN.to_le_bytes()[..]);
        if !is_shared {
            continue;
        }
        let shared = Shared::parse(&bytes, b"").map_err(|why| failed(&why))?;
        let mut globals = shared.globals().map(|index| shared.name(index));
        if let Some(name) = globals.find(|name| names.contains(name)) {
            let name = String::from_utf8_lossy(name);
            let path = path.display();
            return Err(format!("{name} is new, and {path} has it, too").into());
        }
    }
    Ok(())
}
