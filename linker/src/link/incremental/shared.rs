//! New names, and the shared objects of the link: what one of them defines or refers to is not the program's own affair.
//!
//! A full link takes of the names of shared objects only those that objects mention, so the state does not know the others. They are
//! looked up here, where a name is new.

use super::command::Command;
use super::look::{is_shared, map};
use super::reason::Reason;
use super::state::{InputRecord, State, Table, input};
use crate::input::shared_object::Shared;
use rustc_hash::FxHashSet;

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
        let Some(bytes) = map(path)? else { continue };
        // Else it is a script, or an object or archive of which nothing is linked.
        if !is_shared(&bytes) {
            continue;
        }
        let failed = |why| Reason::from(format!("cannot read {}: {why}", path.display()));
        let shared = Shared::parse(&bytes, b"").map_err(failed)?;
        let mut globals = shared.globals().map(|index| shared.name(index));
        if let Some(name) = globals.find(|name| names.contains(name)) {
            let name = String::from_utf8_lossy(name);
            let path = path.display();
            return Err(format!("{name} is new, and {path} has it, too").into());
        }
    }
    Ok(())
}
