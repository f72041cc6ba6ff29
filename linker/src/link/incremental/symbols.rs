//! The output's symbol tables, in which the files that are linked again have places.

use super::holes::{GLOBALS, Holes, LOCALS, NAMES};
use super::names::Names;
use super::patch::{self, Patch};
use super::reason::Reason;
use super::state::{DAMAGED, Facts, FileRecord, OutputRecord, State, Table};
use crate::elf::Sym;
use crate::layout::address_map::{Places, SymbolValue};
use crate::layout::symtab::{self, SymtabLayout};
use crate::resolve::output_sections::{Outputs, Std};
use crate::resolve::room::Room;

/// Makes room in the symbol table for what the files have in it now. Gives the places that files have left.
pub(super) fn settle_symbols(
    state: &State,
    symtab: &SymtabLayout,
    records: &mut [FileRecord],
    facts: &mut Facts,
    holes: &mut Holes,
) -> Result<Left, Reason> {
    let outputs: &[OutputRecord] = state.table(Table::Outputs);
    let find = |std: Std| {
        let found = outputs.iter().find(|output| output.id == std.id().0);
        found.ok_or_else(|| Reason::from(DAMAGED))
    };
    let (table, strings) = (find(Std::Symtab)?, find(Std::Strtab)?);
    // A symbol of the linker's own, or of a shared object, is where it is, and there once more in the place of one that is gone.
    let files: &[FileRecord] = state.table(Table::Files);
    let linker = files.first().filter(|linker| linker.globals > 0);
    let like = linker.map(|linker| linker.globals_at);
    let (mut left, mut left_locals) = (Vec::new(), Vec::new());
    for (share, record) in symtab.shares.iter().skip(1).zip(records) {
        if share.locals > record.locals {
            // The old places are filled, and the new ones have room as the old ones had.
            left_locals.push((record.locals_at, record.locals));
            holes.leave(LOCALS, record.locals_at, 24 * u64::from(record.locals));
            let wanted = u64::from(share.locals + Room::ROOMY.of_locals(share.locals));
            if let Some((at, size, _)) = holes.take(LOCALS, 24 * wanted, 1, |_| true) {
                (record.locals_at, record.locals) = (at, (size / 24) as u32);
            } else {
                let [at, spare] = facts.spare_locals;
                let taken = wanted.min(spare);
                if taken < u64::from(share.locals) {
                    return Err("there is no room for more local symbols".into());
                }
                (record.locals_at, record.locals) = (at, taken as u32);
                facts.spare_locals = [at + 24 * taken, spare - taken];
            }
        }
        if share.globals > record.globals || share.globals == 0 {
            if record.globals > 0 {
                left.push(LeftSymbols {
                    at: record.globals_at,
                    count: record.globals,
                    like: like.ok_or("nothing can stand for symbols that are gone")?,
                });
            }
            holes.leave(GLOBALS, record.globals_at, 24 * u64::from(record.globals));
            let size = 24 * u64::from(share.globals);
            let hole = match size {
                0 => None,
                _ => holes.take(GLOBALS, size, 1, |_| true),
            };
            let now = table.offset + 24 * facts.symbols;
            record.globals = share.globals;
            record.globals_at = hole.map_or(now, |(at, ..)| at);
            if hole.is_none() {
                facts.symbols += u64::from(share.globals);
            }
        }
        if share.names > record.names[1] {
            holes.leave(NAMES, record.names[0], record.names[1]);
            if let Some((at, size, _)) = holes.take(NAMES, share.names, 1, |_| true) {
                record.names = [at, size];
            } else {
                record.names = [facts.strings, share.names];
                facts.strings += share.names;
            }
        }
    }
    match 24 * facts.symbols > table.size || facts.strings > strings.size {
        true => Err("there is no room for more symbols".into()),
        false => Ok(Left {
            globals: left,
            locals: left_locals,
        }),
    }
}

/// What files have left in the symbol table for other places.
#[derive(Default)]
pub(super) struct Left {
    globals: Vec<LeftSymbols>,
    /// File offset and number.
    locals: Vec<(u64, u32)>,
}

/// Places of global symbols that a file has left for others.
struct LeftSymbols {
    /// File offset.
    at: u64,
    count: u32,
    /// Where a symbol is that may stand there instead.
    like: u64,
}

/// Brings the sizes of the symbol table up to date, and fills what files have left in it.
pub(super) fn finish_symbols(
    patch: &mut Patch,
    outputs: &Outputs,
    facts: &Facts,
    left: &Left,
) -> Option<()> {
    for (at, count) in &left.locals {
        let bytes = patch.bytes(*at, 24 * u64::from(*count))?;
        let symbols: &mut [Sym] = bytemuck::try_cast_slice_mut(bytes).ok()?;
        symbols.fill(symtab::spare_local(outputs));
    }
    for LeftSymbols { at, count, like } in &left.globals {
        let start = usize::try_from(*like).ok()?;
        let symbol: [u8; 24] = patch
            .image
            .get(start..start.checked_add(24)?)?
            .try_into()
            .ok()?;
        for slot in patch
            .bytes(*at, 24 * u64::from(*count))?
            .chunks_exact_mut(24)
        {
            slot.copy_from_slice(&symbol);
        }
    }
    let sizes = [
        (Std::Symtab, 24 * facts.symbols),
        (Std::Strtab, facts.strings),
    ];
    for (std, size) in sizes {
        let header = u64::from(outputs.std(std).header);
        if header != 0 {
            let at = facts.section_headers + 64 * header + 32;
            patch.bytes(at, 8)?.copy_from_slice(&size.to_le_bytes());
        }
    }
    Some(())
}

/// Brings the dynamic symbols up to date that the files define.
pub(super) fn update_dynamic(
    patch: &mut Patch,
    places: &Places,
    values: &[SymbolValue],
    names: &Names,
) -> Result<(), Reason> {
    let table = places.outputs.std(Std::DynSym);
    for known in names.list.iter().filter(|known| known.own.is_some()) {
        let Some(index) = known
            .record
            .map(|record| record.dynamic)
            .filter(|index| *index != 0)
        else {
            continue;
        };
        let now = symtab::defined_symbol(places, values, known.symbol);
        let entry = patch.bytes(table.offset + 24 * u64::from(index), 24);
        let entry: Option<&mut Sym> =
            entry.and_then(|entry| bytemuck::try_from_bytes_mut(entry).ok());
        let (Some(now), Some(entry)) = (now, entry) else {
            return Err(DAMAGED.into());
        };
        if !patch::update_dynamic_symbol(entry, &now) {
            return Err("a dynamic symbol is of another kind".into());
        }
    }
    Ok(())
}
