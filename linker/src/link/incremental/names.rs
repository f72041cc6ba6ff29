//! What the names mean that the files mention which are linked again: what they define themselves, and what the rest of the
//! program does.

use super::Reason;
use super::state::{DAMAGED, FileRecord, NONE, NameKey, NameRecord, State, Table, fact, key_of};
use super::world::{NameAt, World};
use crate::diag::Diagnostics;
use crate::file::Files;
use crate::got::{self, Entry, Got, Owner, Slots};
use crate::ids::{FileId, SymbolId};
use crate::symbols::{Key, SymbolTable, flag, rank};
use rustc_hash::FxHashMap;

/// The definitions elsewhere have this key: of the linker itself, which has no sections.
const ELSEWHERE: Key = Key(rank::STRONG << 60);

/// Those in shared objects have this one.
const SHARED: Key = Key(rank::SHARED << 60);

/// One of the names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub symbol: SymbolId,
    /// Where its record is; `None` if it is new.
    pub at: Option<NameAt>,
    /// What it meant before; of one that is new, nothing.
    pub record: Option<NameRecord>,
    /// The file here that defines it.
    pub own: Option<FileId>,
}

/// All names of the files that are linked again.
pub(super) struct Names {
    pub list: Vec<Known>,
    /// Index in the list, by symbol.
    by_symbol: FxHashMap<SymbolId, u32>,
    /// Names that one of the files defined, and now nobody does.
    pub gone: Vec<NameAt>,
}

impl Names {
    /// What is known of a symbol.
    pub fn of(&self, symbol: SymbolId) -> Option<&Known> {
        self.list.get(*self.by_symbol.get(&symbol)? as usize)
    }

    /// Settles who defines each name: `symbols` has the definitions of the files, and gets those elsewhere. `ids` are the
    /// files' numbers in the state, in order.
    ///
    /// # Errors
    /// If a definition has come, is gone, or has moved, so that another file than these must be looked at.
    pub fn settle(
        world: &World,
        files: &Files,
        symbols: &SymbolTable,
        ids: &[u32],
        diag: &Diagnostics,
    ) -> Result<Names, Reason> {
        let show = |name: &[u8]| diag.show_name(name);
        let mut names = Names {
            list: Vec::new(),
            by_symbol: FxHashMap::default(),
            gone: Vec::new(),
        };
        let warned: &[NameKey] = world.state.table(Table::Warned);
        let exports = world.state.header().facts.bits & fact::EXPORTS != 0;
        for id in (0..symbols.id_limit() as u32).map(SymbolId) {
            let name = symbols.name(id);
            if name.is_empty() {
                continue;
            }
            if warned.binary_search(&key_of(name)).is_ok() {
                return Err(format!("{} is warned of", show(name)).into());
            }
            let key = symbols.key(id);
            let own = key.in_object().then(|| key.file());
            if key.rank() == rank::COMMON {
                return Err(format!("{} is a common block", show(name)).into());
            }
            let known = world.name(name);
            let own = match (own, known) {
                (Some(own), Some((_, record))) => {
                    defined_again(&record, key, ids[own.index() - 1], ids)
                        .map_err(|what| format!("{} {what}", show(name)))?
                        .then_some(own)
                }
                (Some(_), None) if exports => {
                    return Err(format!("{} is new, and may be exported", show(name)).into());
                }
                (Some(own), None) => Some(own),
                (None, Some((_, record))) => {
                    if ids.contains(&record.definer) && record.definer != NONE {
                        return Err(format!("{} is not defined any more", show(name)).into());
                    }
                    None
                }
                (None, None) => return Err(format!("{} is not known", show(name)).into()),
            };
            if let (None, Some((_, record))) = (own, known) {
                let elsewhere = match u64::from(record.rank) {
                    rank::NONE => Key::NONE,
                    rank::SHARED => SHARED,
                    _ => ELSEWHERE,
                };
                symbols.set_key(id, elsewhere);
            }
            names.by_symbol.insert(id, names.list.len() as u32);
            names.list.push(Known {
                symbol: id,
                at: known.map(|(at, _)| at),
                record: known.map(|(_, record)| record),
                own,
            });
        }
        names.find_gone(world, files, ids)?;
        Ok(names)
    }

    /// Finds the names that the files defined and do not any more; nobody else may mention them.
    fn find_gone(&mut self, world: &World, files: &Files, ids: &[u32]) -> Result<(), Reason> {
        let still: Vec<NameAt> = {
            let own = self.list.iter().filter(|known| known.own.is_some());
            own.filter_map(|known| known.at).collect()
        };
        let still: rustc_hash::FxHashSet<NameAt> = still.into_iter().collect();
        let records: &[FileRecord] = world.state.table(Table::Files);
        let defined: &[u32] = world.state.table(Table::Defined);
        for (own, id) in files.ids().skip(1).zip(ids) {
            let record = records.get(*id as usize).ok_or(DAMAGED)?;
            let [first, count] = record.defined.map(|n| n as usize);
            let in_table = defined
                .get(first..first.saturating_add(count))
                .unwrap_or(&[]);
            let in_table = in_table.iter().map(|name| NameAt::Table(*name));
            let added = world.added().filter(|(_, record)| record.definer == *id);
            let all: Vec<NameAt> = in_table.chain(added.map(|(at, _)| at)).collect();
            for at in all.into_iter().filter(|at| !still.contains(at)) {
                let record = match at {
                    NameAt::Table(index) => world.name_at(index).copied(),
                    NameAt::Added(_) => None,
                };
                // An incremental link may have taken it away, or it was of another file then.
                if record.is_some_and(|record| record.definer != *id) {
                    continue;
                }
                let mut others = world.mentioning(at).into_iter();
                let is_needed = others.any(|file| !ids.contains(&file))
                    || record
                        .is_some_and(|record| record.dynamic != 0 || record.slots != got::NONE);
                if is_needed || matches!(at, NameAt::Added(_)) {
                    let file = files.get(own);
                    return Err(format!("{file} has lost a definition that others may need").into());
                }
                self.gone.push(at);
            }
        }
        Ok(())
    }

    /// Gives the symbols the flags that they have in the whole program, but for what they need, which tracing will say.
    ///
    /// # Errors
    /// If the files say something of a symbol that nobody has said before.
    pub fn add_flags(&self, symbols: &SymbolTable, diag: &Diagnostics) -> Result<(), Reason> {
        for known in &self.list {
            let Some(record) = known.record else { continue };
            // That somebody refers to what an object here defines changes nothing.
            let is_harmless = match record.rank as u64 <= rank::WEAK {
                true => flag::REFERENCED | flag::REFERENCED_STRONGLY,
                false => 0,
            };
            let new = symbols.flags(known.symbol) & !record.flags & !is_harmless;
            if new != 0 {
                let name = diag.show_name(symbols.name(known.symbol));
                return Err(format!("{name} is spoken of in another way ({new:#x})").into());
            }
            symbols.add_flags(known.symbol, record.flags & !flag::NEEDS);
        }
        Ok(())
    }

    /// Tracing has said what symbols need: checks that they have it.
    ///
    /// # Errors
    /// If one needs what it has not.
    pub fn check_needs(&self, symbols: &SymbolTable, diag: &Diagnostics) -> Result<(), Reason> {
        for known in &self.list {
            let flags = symbols.flags(known.symbol);
            let harmless = flag::REFERENCED | flag::REFERENCED_STRONGLY | flag::REACHED;
            let had = known.record.map_or(0, |record| record.flags);
            let new = match known.record {
                Some(_) => flags & !had & !harmless,
                None => flags & flag::NEEDS,
            };
            if new != 0 {
                let name = diag.show_name(symbols.name(known.symbol));
                return Err(
                    format!("{name} needs a slot or an entry of a table ({new:#x})").into(),
                );
            }
            symbols.add_flags(known.symbol, had);
        }
        Ok(())
    }

    /// The slots of the symbols.
    pub fn got(&self, state: &State, symbols: &SymbolTable) -> Got {
        let records: &[Slots] = state.table(Table::Slots);
        let slots = |known: &Known| {
            let slots = records.get(known.record?.slots as usize)?;
            Some(Entry {
                owner: Owner::Global(known.symbol),
                slots: *slots,
            })
        };
        let entries = self.list.iter().filter_map(slots).collect();
        let facts = &state.header().facts;
        Got::known(
            entries,
            symbols.id_limit(),
            facts.got_words,
            facts.got_module,
        )
    }
}

/// Whether what one of the files defines, as `key` says, is what the name means, as it was; not if it was and is a definition
/// in an other file. `file` is the file's number in the state.
fn defined_again(
    record: &NameRecord,
    key: Key,
    file: u32,
    files: &[u32],
) -> Result<bool, &'static str> {
    let rank = u64::from(record.rank);
    if record.definer == file {
        return match rank == key.rank() {
            true => Ok(true),
            false => Err("is defined more or less strongly"),
        };
    }
    if record.definer == NONE || rank > rank::WEAK {
        return Err("is defined now");
    }
    if files.contains(&record.definer) {
        return Err("has moved to another file");
    }
    // The other one is in a file that is as it was. It wins if it is stronger, or comes first.
    let wins = (rank, record.definer) < (key.rank(), file);
    match (wins, key.rank()) {
        (true, rank::WEAK) => Ok(false),
        _ => Err("is defined twice"),
    }
}
