//! Dynamic relocations that name symbols: those of vtables, of the personalities of exceptions, of tables of functions that a
//! shared object may have replaced.
//!
//! A full link sorts them among all files, so that no file has a region of its own. Which ones are a file's is told by their
//! places: no two files have anything at one address. What is not wanted any more becomes an `R_X86_64_NONE`, which the
//! dynamic linker skips, and what is new takes the place of one; a full link leaves some.

use super::patch::Patch;
use super::reason::Reason;
use super::state::{ChunkRecord, DAMAGED, FileRecord, OutputRecord, PartRecord, State, Table};
use crate::elf::x86_64::reloc;
use crate::elf::{Rela, c, shf};
use crate::resolve::output_sections::{Outputs, Std};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// A relocation's fields.
type Fields = (u64, u64, i64);

fn fields(rela: &Rela) -> Fields {
    (rela.r_offset, rela.r_info, rela.r_addend)
}

/// What files had in the table before anything was changed.
#[derive(Default)]
pub(super) struct Had {
    /// Their relocations, by their numbers in the table.
    own: Vec<usize>,
    /// Places that nobody has.
    free: Vec<usize>,
}

impl Had {
    /// Finds what the files had of which `old` tells; `image` is the output as it was.
    ///
    /// # Errors
    /// If the state is damaged.
    pub fn find(
        image: &[u8],
        state: &State,
        outputs: &Outputs,
        old: &[FileRecord],
    ) -> Result<Had, Reason> {
        let places = places(state, old)?;
        let mut had = Had {
            own: Vec::new(),
            free: Vec::new(),
        };
        let first = first_other(image, outputs);
        for (index, rela) in table(image, outputs)?.iter().enumerate().skip(first) {
            match rela.r_type() {
                reloc::R_X86_64_NONE => had.free.push(index),
                reloc::R_X86_64_RELATIVE | reloc::R_X86_64_IRELATIVE => {}
                _ if is_in(&places, rela.r_offset) => had.own.push(index),
                _ => {}
            }
        }
        Ok(had)
    }

    /// Puts `wanted` in place of what the files had.
    ///
    /// # Errors
    /// If there is no room.
    pub fn replace(
        self,
        patch: &mut Patch,
        outputs: &Outputs,
        wanted: &[Rela],
    ) -> Result<(), Reason> {
        let mut missing: FxHashMap<Fields, u32> = FxHashMap::default();
        for rela in wanted {
            *missing.entry(fields(rela)).or_insert(0) += 1;
        }
        let known = table(patch.image, outputs)?;
        let mut gone = Vec::new();
        for index in self.own {
            let rela = known.get(index).ok_or(DAMAGED)?;
            match missing.get_mut(&fields(rela)) {
                Some(count) if *count > 0 => *count -= 1,
                _ => gone.push(index),
            }
        }
        let mut changes: Vec<(usize, Rela)> = Vec::new();
        let mut slots = gone.iter().copied().chain(self.free);
        for rela in wanted {
            let count = missing.get_mut(&fields(rela)).ok_or(DAMAGED)?;
            if *count > 0 {
                *count -= 1;
                let slot = slots.next();
                let slot = slot.ok_or("there is no room for more relocations of symbols")?;
                changes.push((slot, *rela));
            }
        }
        let used = changes.len().min(gone.len());
        let none = Rela::new(0, reloc::R_X86_64_NONE, 0, 0);
        changes.extend(gone[used..].iter().map(|slot| (*slot, none)));
        let start = outputs.std(Std::RelaDyn).offset;
        for (slot, rela) in changes {
            let place = patch.bytes(start + 24 * slot as u64, 24).ok_or(DAMAGED)?;
            place.copy_from_slice(bytemuck::bytes_of(&rela));
        }
        Ok(())
    }
}

/// Where in the table there may be others than those that add the image's own address, which in a large program are nearly all:
/// the dynamic linker is told how many come first.
fn first_other(image: &[u8], outputs: &Outputs) -> usize {
    let section = outputs.std(Std::Dynamic);
    let range = section.offset as usize..section.offset.saturating_add(section.size) as usize;
    let entries = image.get(range).unwrap_or_default().chunks_exact(16);
    let fields = |entry: &[u8]| {
        let field = |at: usize| {
            entry
                .get(at..)?
                .first_chunk()
                .copied()
                .map(u64::from_le_bytes)
        };
        Some((field(0)?, field(8)?))
    };
    let mut entries = entries.filter_map(fields);
    let found = entries.find(|(tag, _)| *tag == u64::from(c::DT_RELACOUNT));
    found.map_or(0, |(_, count)| usize::try_from(count).unwrap_or(0))
}

/// The relocations of an output.
fn table<'i>(image: &'i [u8], outputs: &Outputs) -> Result<&'i [Rela], Reason> {
    let table = outputs.std(Std::RelaDyn);
    let range = table.offset as usize..table.offset.saturating_add(table.size) as usize;
    let records = image.get(range);
    let records = records.and_then(|bytes| bytemuck::try_cast_slice(bytes).ok());
    records.ok_or_else(|| DAMAGED.into())
}

/// The addresses that files had, in order.
fn places(state: &State, old: &[FileRecord]) -> Result<Vec<Range<u64>>, Reason> {
    let parts: &[PartRecord] = state.table(Table::Parts);
    let sections: &[OutputRecord] = state.table(Table::Outputs);
    let mut places = Vec::new();
    for record in old {
        let chunks: &[ChunkRecord] = state.records(record.chunks[0], record.chunks[1]);
        for chunk in chunks {
            let part = parts.get(chunk.part as usize).ok_or(DAMAGED)?;
            let section = sections.get(part.output as usize).ok_or(DAMAGED)?;
            let start = section.address.wrapping_add(chunk.offset);
            // Thread-local storage without contents is nowhere: others are at its addresses.
            let is_tbss = section.flags & shf::TLS != 0 && section.sh_type == c::SHT_NOBITS;
            if section.address != 0 && chunk.capacity > 0 && !is_tbss {
                places.push(start..start.wrapping_add(chunk.capacity));
            }
        }
    }
    places.sort_unstable_by_key(|range| range.start);
    Ok(places)
}

fn is_in(places: &[Range<u64>], address: u64) -> bool {
    let behind = places.partition_point(|range| range.start <= address);
    behind
        .checked_sub(1)
        .is_some_and(|index| places[index].contains(&address))
}
