//! What the names mean that the files mention which are linked again: what they define themselves, and what the rest of the
//! program does.

use super::again::Again;
use super::copies;
use super::draw;
use super::export::{Export, Exported};
use super::exports::{Exports, Found};
use super::holds;
use super::imports::{Grant, Import};
use super::needs::{Needed, NewNeeds};
use super::reason::Reason;
use super::state::{
    DAMAGED, Facts, FileRecord, MANY, NONE, NameKey, NameRecord, State, Table, fact, file, key_of,
};
use super::world::{NameAt, World};
use crate::args::Defsym;
use crate::base::ids::{FileId, SymbolId};
use crate::base::key::{Key, rank};
use crate::elf::hash_tables::gnu_hash;
use crate::input::file::Files;
use crate::layout::got::{self, Entry, Got, Owner, Slots};
use crate::messages::diag::Diagnostics;
use crate::resolve::binding;
use crate::resolve::symbol_facts::{Bound, Defined, Demand, Referred, SymbolFacts};
use crate::resolve::symbol_table::SymbolTable;
use crate::resolve::symbol_versions;
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

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
    /// What it meant before; of one that is new, nothing, unless it is imported.
    pub record: Option<NameRecord>,
    /// Which of the names it is that are imported from now on.
    pub import: Option<usize>,
    /// The file here that defines it.
    pub own: Option<FileId>,
    /// One of the files says that it is not everybody's.
    pub is_hidden: bool,
}

/// All names of the files that are linked again.
pub(super) struct Names {
    pub list: Vec<Known>,
    /// Index in the list, by symbol.
    by_symbol: FxHashMap<SymbolId, u32>,
    /// Names that one of the files defined, and now nobody does.
    pub gone: Vec<NameAt>,
    /// Slots and entries that names have come to have: the index in the list.
    pub grants: Vec<(usize, Grant)>,
    /// Names that others come to find, or do not any more.
    pub exports: Exports,
    /// What is needed of shared objects that nobody has needed, beside what [`Edited`](super::edited::Edited) knows.
    pub needs: NewNeeds,
}

/// What names mean, or who must be asked as well.
pub(super) enum Settled {
    /// This is what they mean.
    Names(Box<Names>),
    /// These other files may define a name now, or do not any more.
    More(Vec<u32>),
    /// Nobody has these, and they are needed.
    Missing(Vec<Vec<u8>>),
}

/// What became of a name.
enum Meaning {
    /// It is what the file here defines.
    Own,
    /// Somebody else's, as before.
    Elsewhere,
    /// That depends on what other files have of it.
    Ask(Vec<u32>),
    /// Nobody has it who is linked.
    Missing,
}

impl Names {
    /// What is known of a symbol.
    pub fn of(&self, symbol: SymbolId) -> Option<&Known> {
        self.list.get(*self.by_symbol.get(&symbol)? as usize)
    }

    /// Settles who defines each name: `symbols` has the definitions of the files, and gets those elsewhere.
    ///
    /// # Errors
    /// If a definition has come or is gone, so that it is another program for files that cannot be asked.
    pub fn settle(again: Again, files: &Files, symbols: &SymbolTable) -> Result<Settled, Reason> {
        let Again {
            world, ids, diag, ..
        } = again;
        let imports = &again.edited.imports;
        let may_be_several = again.link.args.allow_multiple_definition;
        let show = |name: &[u8]| diag.show_name(name);
        let mut names = Names {
            list: Vec::new(),
            by_symbol: FxHashMap::default(),
            gone: Vec::new(),
            grants: Vec::new(),
            exports: Exports::default(),
            needs: NewNeeds::default(),
        };
        let mut more: Vec<u32> = Vec::new();
        let mut missing: Vec<Vec<u8>> = Vec::new();
        // What more files may cure.
        let mut failed: Option<Reason> = None;
        let warned: &[NameKey] = world.state.table(Table::Warned);
        let all: Vec<SymbolId> = (0..symbols.id_limit() as u32).map(SymbolId).collect();
        // Most of the time goes here where many files are linked again.
        let look_up = |id: &SymbolId| {
            let name = symbols.name(*id);
            let is_warned = !warned.is_empty() && warned.binary_search(&key_of(name)).is_ok();
            (world.name(name), is_warned)
        };
        let looked_up: Vec<_> = all.par_iter().map(look_up).collect();
        for (id, (known, is_warned)) in all.into_iter().zip(looked_up) {
            let name = symbols.name(id);
            if name.is_empty() {
                continue;
            }
            if !world.is_as_before && is_warned {
                return Err(format!("{} is warned of", show(name)).into());
            }
            let key = symbols.key(id);
            if key.rank() == rank::COMMON {
                return Err(format!("{} is a common block", show(name)).into());
            }
            let facts = symbols.facts(id);
            let import = match known.is_none() && !key.in_object() {
                true => imports.iter().position(|import| import.name == name),
                false => None,
            };
            if let Some(number) = import {
                symbols.set_key(id, SHARED);
                names.by_symbol.insert(id, names.list.len() as u32);
                names.list.push(Known {
                    symbol: id,
                    at: None,
                    record: Some(imported(key_of(name), &imports[number])),
                    import,
                    own: None,
                    is_hidden: facts.has(Referred::NOT_DEFAULT),
                });
                continue;
            }
            let own = match meaning(world, known, key, ids, may_be_several) {
                Ok(Meaning::Own) => key.in_object().then(|| key.file()),
                Ok(Meaning::Elsewhere) => None,
                Ok(Meaning::Ask(files)) => {
                    more.extend(files);
                    continue;
                }
                Ok(Meaning::Missing) if facts.has(Referred::STRONGLY) => {
                    missing.push(name.to_vec());
                    continue;
                }
                Ok(Meaning::Missing) => {
                    failed.get_or_insert_with(|| format!("{} is not known", show(name)).into());
                    continue;
                }
                Err(what) => {
                    failed.get_or_insert_with(|| format!("{} {what}", show(name)).into());
                    continue;
                }
            };
            if let (None, Some((_, record))) = (own, known) {
                let elsewhere = match u64::from(record.rank) {
                    rank::NONE => Key::NONE,
                    rank::SHARED => SHARED,
                    rank::LINKER => Key::MADE_BEFORE,
                    _ => ELSEWHERE,
                };
                symbols.set_key(id, elsewhere);
            }
            names.by_symbol.insert(id, names.list.len() as u32);
            names.list.push(Known {
                symbol: id,
                at: known.map(|(at, _)| at),
                record: known.map(|(_, record)| record),
                import: None,
                own,
                is_hidden: facts.has(Referred::NOT_DEFAULT),
            });
        }
        if more.is_empty() && failed.is_none() && missing.is_empty() {
            names.check_first(again, symbols)?;
            names.find_gone(again, files, &mut more)?;
        }
        match (more.is_empty(), failed) {
            (false, _) => Ok(Settled::More(more)),
            (true, Some(failed)) => Err(failed),
            (true, None) if !missing.is_empty() => Ok(Settled::Missing(missing)),
            (true, None) => {
                let all = files.ids().skip(1).map(|id| files.get(id));
                let more = holds::check(
                    again,
                    all,
                    symbols,
                    (&names.lost_by(world, ids), &names.of_libraries(symbols)),
                )?;
                match more.is_empty() {
                    true => Ok(Settled::Names(Box::new(names))),
                    false => Ok(Settled::More(more)),
                }
            }
        }
    }

    /// Of names that nobody wanted before, and that members of archives define which are linked for other names: these must be the first that do.
    fn check_first(&self, again: Again, symbols: &SymbolTable) -> Result<(), Reason> {
        let files: &[FileRecord] = again.world.state.table(Table::Files);
        let is_new = |known: &&Known| {
            known.own.is_none()
                && symbols.facts(known.symbol).has(Referred::STRONGLY)
                && known.record.is_some_and(|record| {
                    is_drawn(files, record.definer) && !record.facts.has(Referred::STRONGLY)
                })
        };
        let new = self.list.iter().filter(is_new);
        let new: Vec<&[u8]> = new.map(|known| symbols.name(known.symbol)).collect();
        match again.world.is_as_before {
            true => Ok(()),
            false => draw::check_first(again.state, again.command, again.edited, new),
        }
    }

    /// The names that files of the numbers `ids` defined, and are another's now, or nobody's.
    fn lost_by(&self, world: &World, ids: &[u32]) -> FxHashSet<NameKey> {
        let was_here = |record: &NameRecord| {
            record.definer != NONE && ids.binary_search(&record.definer).is_ok()
        };
        let moved = self.list.iter().filter_map(|known| {
            let now = known.own.map(|own| ids[own.index() - 1]);
            let record = known.record.filter(was_here)?;
            (now != Some(record.definer)).then_some(record.key)
        });
        let gone = self.gone.iter();
        let gone = gone.filter_map(|at| Some(world.record(*at)?.key));
        moved.chain(gone).collect()
    }

    /// The names of shared objects that the files want.
    fn of_libraries(&self, symbols: &SymbolTable) -> FxHashSet<NameKey> {
        let wanted = self.list.iter().filter_map(|known| {
            let record = known.record?;
            let is_wanted = symbols.facts(known.symbol).has(Referred::STRONGLY);
            (is_wanted && u64::from(record.rank) == rank::SHARED).then_some(record.key)
        });
        wanted.collect()
    }

    /// Finds the names that the files defined and do not any more. Whoever mentions them may define them, too, and has lost so
    /// far: `more` gets these files.
    fn find_gone(
        &mut self,
        again: Again,
        files: &Files,
        more: &mut Vec<u32>,
    ) -> Result<(), Reason> {
        let Again { world, ids, .. } = again;
        let still: FxHashSet<NameAt> = {
            let own = self.list.iter().filter(|known| known.own.is_some());
            own.filter_map(|known| known.at).collect()
        };
        let records: &[FileRecord] = world.state.table(Table::Files);
        let aliases = again.link.args.defsyms.iter().filter_map(Defsym::symbol);
        let aliases: Vec<NameKey> = aliases.map(key_of).collect();
        let defined: &[u32] = world.state.table(Table::Defined);
        for (own, id) in files.ids().skip(1).zip(ids) {
            // One that is new has defined nothing.
            let Some(record) = records.get(*id as usize) else {
                continue;
            };
            let [first, count] = record.defined.map(|n| n as usize);
            let in_table = defined
                .get(first..first.saturating_add(count))
                .unwrap_or(&[]);
            let in_table = in_table.iter().map(|name| NameAt::Table(*name));
            let since = world.defined_since(*id).iter().copied();
            let all: Vec<NameAt> = in_table.chain(since).collect();
            for at in all.into_iter().filter(|at| !still.contains(at)) {
                let record = world.record(at).ok_or(DAMAGED)?;
                // An incremental link may have taken it away, or it is another file's by now.
                if record.definer != *id || self.gone.contains(&at) {
                    continue;
                }
                let others = outside(world, at, ids);
                if !others.is_empty() {
                    more.extend(others);
                    continue;
                }
                if !may_go(world, &record) || aliases.contains(&record.key) {
                    let file = files.get(own);
                    return Err(format!("{file} has lost a definition that others may need").into());
                }
                self.gone.push(at);
            }
        }
        Ok(())
    }

    /// Says of the symbols what is known of them in the whole program, but for what they need, which tracing will say.
    ///
    /// # Errors
    /// If the files say something of a symbol that nobody has said before, or do not any more.
    pub fn add_facts(
        &self,
        world: &World,
        symbols: &SymbolTable,
        ids: &[u32],
        diag: &Diagnostics,
    ) -> Result<(), Reason> {
        let exports = world.state.header().facts.bits & fact::EXPORTS != 0;
        let hidden = world.hidden_by(ids, exports);
        if !hidden.is_empty() {
            let spoken_of = self.list.iter().filter_map(|known| known.at);
            let spoken_of: FxHashSet<NameAt> = spoken_of.chain(self.gone.iter().copied()).collect();
            if hidden.iter().any(|at| !spoken_of.contains(at)) {
                return Err("a file does not speak of a name any more that it kept hidden".into());
            }
        }
        for known in &self.list {
            let Some(record) = known.record else { continue };
            let counts = exports || record.facts.has(SymbolFacts::BY_SHARED);
            let said_it = record.hidden_by == MANY || ids.binary_search(&record.hidden_by).is_ok();
            if counts && said_it && !known.is_hidden {
                let name = diag.show_name(symbols.name(known.symbol));
                return Err(format!("{name} has another visibility").into());
            }
            // That somebody refers to what an object here defines changes nothing.
            let is_harmless = match u64::from(record.rank) {
                ..=rank::WEAK => (Referred::BY_OBJECT | Referred::STRONGLY).facts(),
                // Nobody else has said anything of it.
                rank::NONE if known.own.is_some() => symbols.facts(known.symbol),
                _ => SymbolFacts::NONE,
            };
            let new = symbols
                .facts(known.symbol)
                .without(record.facts | is_harmless);
            if !new.is_empty() {
                let name = diag.show_name(symbols.name(known.symbol));
                return Err(format!("{name} is spoken of in another way ({new})").into());
            }
            symbols.add_facts(known.symbol, record.facts.without(Demand::ENTRY));
        }
        Ok(())
    }

    /// Finds out which of the files' definitions others find that did not, and makes places for them; `old` is the output.
    ///
    /// # Errors
    /// If that cannot be told, or there is no room.
    pub fn export(
        &mut self,
        again: Again,
        files: &Files,
        symbols: &SymbolTable,
        facts: &mut Facts,
        old: &[u8],
    ) -> Result<(), Reason> {
        let exports = facts.bits & fact::EXPORTS != 0;
        let is_new = |known: &&Known| {
            let was = known.record.map_or(rank::NONE, |record| record.rank.into());
            let is_spoken_of = symbols.facts(known.symbol).has(SymbolFacts::BY_SHARED);
            (exports || is_spoken_of) && known.own.is_some() && was == rank::NONE
        };
        let new: Vec<SymbolId> = (self.list.iter().filter(is_new))
            .map(|known| known.symbol)
            .collect();
        let mut added = Vec::new();
        if !new.is_empty() {
            let args = again.link.args;
            let versioning = symbol_versions::read(args, Vec::new(), again.diag);
            again.refuse()?;
            for symbol in new {
                let version = versioning.of_definition(files, symbols, args, symbol);
                let bits = binding::exports(files, symbols, &versioning, args, symbol);
                symbols.add_facts(symbol, bits);
                if bits.has(Bound::EXPORTED) {
                    let full = symbols.name(symbol);
                    let name = full.split(|byte| *byte == b'@').next().unwrap_or(full);
                    let export = Export {
                        what: Exported::Symbol(symbol),
                        version,
                        index: 0,
                    };
                    added.push((export, gnu_hash(name)));
                }
            }
        }
        let gone = self.gone.iter().filter_map(|at| {
            let record = again.world.record(*at)?;
            (record.dynamic != 0).then_some(record.dynamic)
        });
        self.exports = Exports::without(gone.collect());
        self.exports.add(again, old, facts, added)?;
        for export in &self.exports.added {
            let Some(symbol) = export.symbol() else {
                continue;
            };
            let index = self.by_symbol.get(&symbol).ok_or(DAMAGED)?;
            let known = &mut self.list[*index as usize];
            let key = key_of(symbols.name(symbol));
            let before = known.record.unwrap_or_else(|| nothing(key));
            known.record = Some(NameRecord {
                facts: before.facts | symbols.facts(symbol),
                // Who may find it needs it.
                is_placed: 1,
                ..before
            });
        }
        self.number(again.world)
    }

    /// Says which numbers the names have in `.dynsym`, when it is known what comes to be there.
    fn number(&mut self, world: &World) -> Result<(), Reason> {
        if self.exports.is_nothing() {
            return Ok(());
        }
        let exports = &mut self.exports;
        for known in &mut self.list {
            let before = known.at.and_then(|at| world.record(at));
            if let (Some(record), Some(before)) = (known.record.as_mut(), before) {
                // What is imported from now on is not among those that move.
                if before.dynamic != 0 {
                    record.dynamic = exports.now(before.dynamic);
                }
            }
        }
        for export in &exports.added {
            let Some(symbol) = export.symbol() else {
                continue;
            };
            let index = self.by_symbol.get(&symbol).ok_or(DAMAGED)?;
            let known = &mut self.list[*index as usize];
            known.record.as_mut().ok_or(DAMAGED)?.dynamic = export.index;
        }
        let spoken_of: FxHashSet<NameAt> = self.list.iter().filter_map(|known| known.at).collect();
        exports.names.retain(|(at, _)| !spoken_of.contains(at));
        Ok(())
    }

    /// Tracing has said what symbols need: those that are imported get slots, entries and copies that they have not; `old` is
    /// the output.
    ///
    /// # Errors
    /// If one needs what it cannot get.
    pub fn grant(
        &mut self,
        again: Again,
        symbols: &SymbolTable,
        facts: &mut Facts,
        old: &[u8],
    ) -> Result<(), Reason> {
        let (state, diag) = (again.state, again.diag);
        let all: &[Slots] = state.table(Table::Slots);
        let mut copies = Vec::new();
        for (index, known) in self.list.iter_mut().enumerate() {
            let now = symbols.facts(known.symbol);
            let harmless = Referred::BY_OBJECT | Referred::STRONGLY | Demand::REACHED;
            let had = known
                .record
                .map_or(SymbolFacts::NONE, |record| record.facts);
            // What nobody defined before has no facts that would tell what it needs.
            let was_there = known
                .record
                .filter(|record| known.own.is_none() || u64::from(record.rank) != rank::NONE);
            let new = match was_there {
                Some(_) => now.without(had | harmless),
                None => now.among(Demand::OF_DYNAMIC_LINKER),
            };
            symbols.add_facts(known.symbol, had);
            if new.is_empty() {
                continue;
            }
            if new == Demand::DYNSYM.facts()
                && let Some(record) = known.record.as_mut()
                && record.dynamic != 0
            {
                // It is there already, whoever defines it.
                record.facts |= new;
                continue;
            }
            let slots = Demand::GOT | Demand::PLT | Demand::DYNSYM;
            let thread_local = Demand::TPOFF | Demand::TLSGD | Demand::TLSDESC;
            let granted = match (had.has(Defined::TLS), known.import) {
                (false, None) => slots,
                (false, Some(_)) => slots | Demand::COPY,
                _ => slots | thread_local,
            };
            let record = known.record.as_mut().filter(|record| {
                record.facts.has(Bound::IMPORTED)
                    && !record.facts.has(Demand::CANONICAL_PLT)
                    && (known.own.is_none() || record.facts.has(Bound::EXPORTED))
                    && (record.dynamic != 0 || known.import.is_some())
                    && new.without(granted).is_empty()
            });
            let Some(record) = record else {
                let name = diag.show_name(symbols.name(known.symbol));
                return Err(format!("{name} needs a slot or an entry of a table ({new})").into());
            };
            if new.has(Demand::TLSDESC) && all.iter().all(|it| it.descriptor == got::NONE) {
                draw::check_descriptors(again)?;
            }
            record.facts |= new;
            let had = all.get(record.slots as usize);
            let mut grant = Grant::new(had, record.dynamic, record.facts);
            grant.take_slots(facts)?;
            match new.has(Demand::COPY) {
                false if record.dynamic == 0 => grant.take_symbol(facts)?,
                false => {}
                true => copies.push((index, self.grants.len())),
            }
            record.dynamic = grant.dynamic;
            record.slots = (all.len() + self.grants.len()) as u32;
            self.grants.push((index, grant));
        }
        self.copy(again, facts, old, &copies)
    }

    /// Finds places for variables that the program copies, each given by its place in the list and by that of its grant.
    fn copy(
        &mut self,
        again: Again,
        facts: &mut Facts,
        old: &[u8],
        copies: &[(usize, usize)],
    ) -> Result<(), Reason> {
        if copies.is_empty() {
            return Ok(());
        }
        let mut needed = Needed::of(old, &again.edited.needs).ok_or(DAMAGED)?;
        let mut there: Vec<(usize, u32)> = Vec::new();
        for (index, grant) in copies {
            let known = &mut self.list[*index];
            let import = known.import.and_then(|it| again.edited.imports.get(it));
            let import = import.ok_or(DAMAGED)?;
            let show = || again.diag.show_name(&import.name);
            let variable = import.variable.as_ref();
            let variable = variable
                .ok_or_else(|| format!("{} would be copied, and is no variable", show()))?;
            let names = &self.exports.added;
            let is_same = |export: &Export| variable.is_called(export.name());
            if names.iter().any(is_same) {
                return Err(format!("{} would be copied by two names", show()).into());
            }
            let needs = &mut self.needs;
            let (place, exports) =
                variable.copy(again.world, facts, known.symbol, &mut needed, needs)?;
            let record = known.record.as_mut().ok_or(DAMAGED)?;
            record.address = place.address;
            match place.is_new {
                true => self.grants[*grant].1.take_copy(facts, place.address)?,
                false => {
                    let found = Found::new(again.state, old).ok_or(DAMAGED)?;
                    let number = copies::number_of(found.symbols, found.strings, &import.name)?;
                    there.push((*index, number));
                }
            }
            self.exports.add(again, old, facts, exports)?;
        }
        self.number(again.world)?;
        for (index, number) in there {
            let record = self.list[index].record.as_mut().ok_or(DAMAGED)?;
            record.dynamic = self.exports.now(number);
        }
        Ok(())
    }

    /// The slots of the symbols.
    pub fn got(&self, state: &State, symbols: &SymbolTable) -> Got {
        let records: &[Slots] = state.table(Table::Slots);
        let granted = |number: u32| {
            let index = (number as usize).checked_sub(records.len())?;
            self.grants.get(index).map(|(_, grant)| &grant.slots)
        };
        let slots = |known: &Known| {
            let number = known.record?.slots;
            let slots = records.get(number as usize).or_else(|| granted(number))?;
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

/// Whether a definition may go that nobody mentions any more: nobody may find it but by its name, and no slot may be filled in
/// by calling it.
fn may_go(world: &World, record: &NameRecord) -> bool {
    let facts = &world.state.header().facts;
    let special = Defined::TLS | Defined::IFUNC | Demand::CANONICAL_PLT | Demand::COPY;
    let is_plain = !record.facts.has(special | SymbolFacts::BY_SHARED);
    // A library that has it as well has its own then.
    let is_theirs =
        record.facts.among(special | SymbolFacts::BY_SHARED) == Defined::BY_SHARED.facts();
    match (record.dynamic != 0, record.slots != got::NONE) {
        (false, false) => true,
        (false, true) => is_plain,
        (true, _) => {
            (is_plain && facts.bits & fact::EXPORTS != 0 || is_theirs)
                && record.facts.has(Bound::EXPORTED)
        }
    }
}

/// What there is to say of a name that is new.
fn nothing(key: NameKey) -> NameRecord {
    NameRecord {
        key,
        address: 0,
        facts: SymbolFacts::NONE,
        slots: got::NONE,
        definer: NONE,
        dynamic: 0,
        rank: rank::NONE as u16,
        is_placed: 0,
        hidden_by: NONE,
    }
}

/// What there is to say of a name that is imported from now on.
fn imported(key: NameKey, import: &Import) -> NameRecord {
    NameRecord {
        facts: import.facts,
        rank: rank::SHARED as u16,
        is_placed: 1,
        ..nothing(key)
    }
}

/// The files that mention a name beside those of the numbers `ids`.
fn outside(world: &World, at: NameAt, ids: &[u32]) -> Vec<u32> {
    let mut files = world.mentioning(at);
    files.retain(|file| ids.binary_search(file).is_err());
    files
}

/// Whether the numbers of files say which comes first.
pub(super) fn is_ordered(files: &[FileRecord], ids: &[u32]) -> bool {
    let is_of_full_link = |id: &u32| {
        let file = files.get(*id as usize);
        file.is_some_and(|file| file.bits & file::ADDED == 0)
    };
    ids.iter().all(is_of_full_link)
}

/// Whether a file is a member of an archive. It may be linked only because nobody else has defined a name so far.
fn is_drawn(files: &[FileRecord], id: u32) -> bool {
    let file = files.get(id as usize);
    file.is_some_and(|file| file.member != 0)
}

/// What a name means of which the files define what `key` says; `known` is what it meant so far. `ids` are
/// the files' numbers in the state. `may_be_several`: of several definitions that are not weak the first wins.
fn meaning(
    world: &World,
    known: Option<(NameAt, NameRecord)>,
    key: Key,
    ids: &[u32],
    may_be_several: bool,
) -> Result<Meaning, &'static str> {
    let Some((at, record)) = known else {
        return match key.in_object() {
            true => Ok(Meaning::Own),
            false => Ok(Meaning::Missing),
        };
    };
    let was_here = record.definer != NONE && ids.binary_search(&record.definer).is_ok();
    let ask = |otherwise| match outside(world, at, ids) {
        files if files.is_empty() => otherwise,
        files => Ok(Meaning::Ask(files)),
    };
    if !key.in_object() {
        // Another file may have a definition that had lost so far.
        return match was_here {
            true => ask(Ok(Meaning::Missing)),
            false => Ok(Meaning::Elsewhere),
        };
    }
    let (rank, file) = (u64::from(record.rank), ids[key.file().index() - 1]);
    if was_here {
        // A weaker one may lose against those that have lost so far.
        return match key.rank() > rank {
            true => ask(Ok(Meaning::Own)),
            false => Ok(Meaning::Own),
        };
    }
    if record.definer == NONE || rank > rank::WEAK {
        // Nobody defined it, and nobody reaches it by way of tables: whoever mentions it is told.
        let is_free = rank == rank::NONE
            && record.dynamic == 0
            && record.slots == got::NONE
            && !record.facts.has(Bound::UNDEFINED_WEAK);
        return match is_free {
            true => ask(Ok(Meaning::Own)),
            false => Err("is defined now"),
        };
    }
    // There is one in a file that is as it was.
    let files: &[FileRecord] = world.state.table(Table::Files);
    let is_first = rank == rank::WEAK || rank == rank::STRONG && may_be_several;
    if key.rank() == rank && is_first && !is_ordered(files, &[record.definer, file]) {
        return Err("is defined in two files, one of which is new");
    }
    if is_drawn(files, record.definer) && !world.is_as_before {
        return Err("is defined now, and so in a member of an archive");
    }
    // It wins if it is stronger, or comes first.
    match ((rank, record.definer) < (key.rank(), file), key.rank()) {
        (true, rank::WEAK) => Ok(Meaning::Elsewhere),
        (true, rank::STRONG) if may_be_several => Ok(Meaning::Elsewhere),
        (_, rank::STRONG) if rank == rank::STRONG && !may_be_several => Err("is defined twice"),
        _ => Ok(Meaning::Ask(vec![record.definer])),
    }
}
