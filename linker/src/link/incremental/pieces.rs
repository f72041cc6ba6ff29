//! Mergeable pieces of the files that are linked again: most have their like in the output.

use super::parts::find_part;
use super::reason::Reason;
use super::state::{DAMAGED, OutputRecord, PartRecord, Table};
use super::world::World;
use crate::base::ids::PartId;
use crate::graph::merge::Merged;
use crate::layout::placement::MergeClasses;
use crate::resolve::output_sections::Outputs;
use rustc_hash::FxHashMap;

/// A piece that this link adds to the output.
pub(super) struct AddedPiece {
    /// Its part's number in the state.
    pub part: u32,
    /// Offset in the part.
    pub offset: u64,
    /// What it is.
    pub bytes: Vec<u8>,
}

/// Gives merged pieces the places that equal pieces have, or new ones behind all others of their part. `old` is the output.
///
/// # Errors
/// If there is no room for more.
pub(super) fn settle_pieces(
    world: &World,
    old: &[u8],
    merged: &Merged,
    classes: &MergeClasses,
    outputs: &Outputs,
) -> Result<Vec<AddedPiece>, Reason> {
    let parts: &[PartRecord] = world.state.table(Table::Parts);
    let sections: &[OutputRecord] = world.state.table(Table::Outputs);
    let mut added = Vec::new();
    for (number, class) in classes.iter().enumerate() {
        let Some(class) = class else { continue };
        let part = find_part(world.state, outputs, PartId(number as u32))?;
        let record = parts.get(part as usize).ok_or(DAMAGED)?;
        let section = sections.get(record.output as usize).ok_or(DAMAGED)?;
        let start = section.offset.checked_add(record.offset).ok_or(DAMAGED)?;
        // The part itself is aligned only to what was in it at first.
        let base = section.address.wrapping_add(record.offset);
        let there = usize::try_from(start)
            .ok()
            .and_then(|start| old.get(start..));
        let there = there.ok_or(DAMAGED)?;
        let mut moved: FxHashMap<u64, u64> = FxHashMap::default();
        let (mut next, mut is_full) = (record.next, false);
        merged.for_each_piece(*class, &mut |offset, bytes, align| {
            let place = world
                .piece(part, (there, base), bytes, align)
                .unwrap_or_else(|| {
                    let past = base.wrapping_add(next) % align.max(1);
                    let place = match past {
                        0 => next,
                        _ => next + (align - past),
                    };
                    next = place + bytes.len() as u64;
                    is_full |= next > record.size || u32::try_from(place).is_err();
                    added.push(AddedPiece {
                        part,
                        offset: place,
                        bytes: bytes.to_vec(),
                    });
                    place
                });
            moved.insert(offset, place);
        });
        if is_full {
            return Err("there is no room for more strings or constants".into());
        }
        merged.move_pieces(*class, &|offset| {
            moved.get(&offset).copied().unwrap_or(offset)
        });
    }
    Ok(added)
}
