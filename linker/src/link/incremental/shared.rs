//! New names, and the shared objects of the link: what one of them defines or refers to is not the program's own affair.
//!
//! A full link takes of the names of shared objects only those that objects mention, so the state does not know the others. They are
//! looked up here, where a name is new. What a shared object speaks of others must find in the program
//! ([`exports`](super::exports)).

use super::command::Command;
use super::look::{is_shared, map};
use super::reason::Reason;
use super::state::{InputRecord, State, Table, input};
use crate::input::shared_object::Shared;
use crate::resolve::resolution::is_unlike;
use crate::resolve::symbol_facts::{Defined, Referred, SymbolFacts};
use rustc_hash::FxHashMap;

/// A name that an object defines, and nobody knew.
pub(super) struct New {
    /// `STT_*`.
    pub kind: u8,
    /// What shared objects say of it.
    pub said: SymbolFacts,
}

/// Finds out what the shared objects among the inputs say of new names.
///
/// # Errors
/// If one means something of another kind, or cannot be read.
pub(super) fn speak_of(
    state: &State,
    command: &Command,
    names: &mut FxHashMap<&[u8], New>,
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
        for index in shared.globals() {
            let Some(new) = names.get_mut(shared.name(index)) else {
                continue;
            };
            let kind = shared.syms.get(index as usize).map_or(0, |it| it.kind());
            let is_defined = shared.is_defined(index);
            if is_defined && is_unlike(new.kind, kind) {
                let name = String::from_utf8_lossy(shared.name(index));
                let path = path.display();
                return Err(format!("{name} is new, and {path} has it, too").into());
            }
            new.said |= match (is_defined, shared.is_default(index), shared.version(index)) {
                (true, true, _) => Defined::BY_SHARED.facts(),
                (true, false, _) => SymbolFacts::NONE,
                (false, _, None) => (Referred::BY_SHARED | Referred::PLAINLY_BY_SHARED).facts(),
                (false, _, Some(_)) => Referred::BY_SHARED.facts(),
            };
        }
    }
    Ok(())
}
