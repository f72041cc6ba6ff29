//! Names that `.dynstr` comes to have, in the room behind the others.

use super::patch::Patch;
use super::reason::Reason;
use super::state::{DAMAGED, Facts};
use crate::resolve::output_sections::{Outputs, Std};

/// Adds a string to `.dynstr`; gives where it is.
///
/// # Errors
/// If there is no room.
pub(super) fn add_string(
    patch: &mut Patch,
    outputs: &Outputs,
    facts: &mut Facts,
    name: &[u8],
) -> Result<u32, Reason> {
    let [at, left] = &mut facts.spare_strings;
    let size = name.len() as u64 + 1;
    if size > *left {
        return Err("there is no room for more names of dynamic symbols".into());
    }
    let strings = outputs.std(Std::DynStr);
    let bytes = patch.bytes(strings.offset + *at, size).ok_or(DAMAGED)?;
    bytes[..name.len()].copy_from_slice(name);
    let start = u32::try_from(*at).map_err(|_| DAMAGED)?;
    (*at, *left) = (*at + size, *left - size);
    Ok(start)
}
