//! Symbol resolution: which files are linked, and which definition each name has.
//!
//! 1. *Extraction.* Every file offers its definitions, those of archive members
//!    and shared objects too, each with a rank; the smallest wins. Starting from
//!    the files that are linked in any case, undefined references pull in the
//!    member that won the name, until nothing new comes. Which member that is
//!    depends on the order of the command line, but not on who asked first: the
//!    set is the same however the work is divided.
//! 2. *COMDAT.* Of the groups with one signature the one in the first file stays.
//! 3. *Definitions.* All is forgotten and offered again by the linked files
//!    only, without what lies in discarded sections.
//!
//! Precedence: a definition in an object, then a common block (the gABI lets it
//! win over weak ones), then a weak definition, then a shared object's. But a
//! common block is the least of definitions: where a shared object has a variable
//! with a value, that is what the program means (as with GNU ld). For
//! extraction, an archive member counts as much as a shared object, and both
//! more than a common block, which a real definition in an archive replaces
//! (as with GNU ld).

use crate::base::ids::{FileId, PartId, SectionId, SymbolId};
use crate::base::key::{Key, rank};
use crate::elf::c;
use crate::elf::shf;
use crate::input::file::{Body, File, Files};
use crate::input::object::Object;
use crate::input::parts::{Place, Signature, Symbol, describe_missing};
use crate::messages::diag::Diagnostics;
use crate::resolve::input_sections::{Sections, state};
use crate::resolve::output_sections::{Outputs, subpart};
use crate::resolve::section_rules::{FileNames, Route};
use crate::resolve::symbol_facts::{Defined, Referred};
use crate::resolve::symbol_table::SymbolTable;
use parking_lot::Mutex;
use rayon::prelude::*;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Ranks during extraction.
mod offer {
    pub const STRONG: u64 = 0;
    pub const WEAK: u64 = 1;
    pub const ON_DEMAND: u64 = 2;
    pub const COMMON: u64 = 3;
    pub const COMMON_ON_DEMAND: u64 = 4;
}

/// Finds the files that are linked, by number of file. `required` are symbols
/// that must be defined as if something referred to them (`-u`, `-e`).
pub fn extract(files: &Files, symbols: &SymbolTable, required: &[SymbolId]) -> Vec<bool> {
    // Names of common blocks, for which no member is linked that has a weak definition.
    let commons: Mutex<HashSet<SymbolId>> = Mutex::default();
    files.0.par_iter().enumerate().for_each(|(i, file)| {
        let id = FileId(i as u32);
        match &file.body {
            Body::Linker(_) => {}
            Body::Shared(shared) => {
                for index in shared.globals() {
                    if shared.is_defined(index) && shared.is_default(index) {
                        symbols.offer(
                            symbols.of(file, index),
                            Key::new(offer::ON_DEMAND, id, index),
                        );
                    }
                }
            }
            Body::Object(object) => for_globals(file, object, |index, symbol| {
                let rank = match (symbol.place, file.lazy) {
                    (Place::Undefined, _) => return,
                    (Place::Common, false) => offer::COMMON,
                    (Place::Common, true) => offer::COMMON_ON_DEMAND,
                    (_, true) => offer::ON_DEMAND,
                    (_, false) if symbol.is_weak() => offer::WEAK,
                    (_, false) => offer::STRONG,
                };
                if rank == offer::COMMON {
                    commons.lock().insert(symbols.of(file, index));
                }
                symbols.offer(symbols.of(file, index), Key::new(rank, id, index));
            }),
        }
    });

    let linked: Vec<AtomicBool> = files
        .0
        .iter()
        .map(|file| AtomicBool::new(!file.lazy))
        .collect();
    let commons = commons.into_inner();
    let is_weak = |key: Key| {
        let object = files.get(key.file()).object();
        let symbol = object.and_then(|object| object.symbol(key.index()));
        symbol.is_some_and(|symbol| symbol.is_weak())
    };
    // Links the member that defines a symbol, if it is not linked yet.
    let pull = |id: SymbolId, found: &mut Vec<FileId>| {
        let key = symbols.key(id);
        if key == Key::NONE {
            return;
        }
        let file = key.file();
        if !commons.is_empty() && commons.contains(&id) && is_weak(key) {
            return;
        }
        if files.get(file).lazy
            && !linked[file.index()].load(Relaxed)
            && !linked[file.index()].swap(true, Relaxed)
        {
            found.push(file);
        }
    };
    let mut frontier: Vec<FileId> = files
        .iter()
        .filter(|(_, file)| !file.lazy)
        .map(|(id, _)| id)
        .collect();
    required.iter().for_each(|id| pull(*id, &mut frontier));
    // Names that must be found in objects, though shared objects may define them.
    let hidden: Mutex<Vec<SymbolId>> = Mutex::default();
    let is_shared = |id: SymbolId| {
        let key = symbols.key(id);
        key != Key::NONE && files.get(key.file()).shared().is_some()
    };
    loop {
        if frontier.is_empty() {
            frontier = pull_hidden(files, symbols, &linked, std::mem::take(&mut hidden.lock()));
            if frontier.is_empty() {
                break;
            }
        }
        frontier = frontier
            .par_iter()
            .fold(Vec::new, |mut found, id| {
                let file = files.get(*id);
                file.for_wanted(|index, in_object| {
                    let name = symbols.of(file, index);
                    pull(name, &mut found);
                    if in_object && is_shared(name) {
                        hidden.lock().push(name);
                    }
                });
                found
            })
            .reduce(Vec::new, |mut all, mut some| {
                all.append(&mut some);
                all
            });
    }
    linked.into_iter().map(AtomicBool::into_inner).collect()
}

/// Links the members that define what is referred to as hidden, where a shared object that stands before them has won
/// the name: it cannot satisfy such a reference. Gives what is linked now in addition.
fn pull_hidden(
    files: &Files,
    symbols: &SymbolTable,
    linked: &[AtomicBool],
    names: Vec<SymbolId>,
) -> Vec<FileId> {
    let mut wanted: HashSet<SymbolId> = names.into_iter().collect();
    let mut found = Vec::new();
    if wanted.is_empty() {
        return found;
    }
    for (id, file) in files.iter() {
        let Some(object) = file.object() else {
            continue;
        };
        let mut defines = false;
        for_globals(file, object, |index, symbol| {
            if symbol.place != Place::Undefined && wanted.remove(&symbols.of(file, index)) {
                defines = true;
            }
        });
        if defines && !linked[id.index()].swap(true, Relaxed) {
            found.push(id);
        }
    }
    found
}

/// Calls `f` with each global symbol of an object.
#[inline]
fn for_globals(file: &File, object: &Object, mut f: impl FnMut(u32, crate::input::parts::Symbol)) {
    for index in file.first_global()..file.symbol_count() {
        if let Some(symbol) = object.symbol(index) {
            f(index, symbol);
        }
    }
}

/// The COMDAT groups that lost against the same group in an earlier file, by file: their
/// indices, in ascending order.
pub struct LostGroups(Vec<Vec<u32>>);

impl LostGroups {
    /// Of groups that are known to have lost: for each file their indices, in ascending order.
    pub(crate) fn known(lost: Vec<Vec<u32>>) -> LostGroups {
        LostGroups(lost)
    }

    /// Those of a file.
    pub fn of(&self, file: FileId) -> &[u32] {
        &self.0[file.index()]
    }
}

/// Who a group's copies are told by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GroupKey<'a> {
    Symbol(SymbolId),
    /// A signature that is no global symbol anywhere.
    Local(&'a [u8]),
}

/// Finds all but the first of the COMDAT groups of each signature in the files that are
/// linked; those of the signatures `owned` belong to the given files, even if these have no such
/// group. Nothing of the fragments of a ticket need be known for that, and what loses is never
/// looked at.
pub fn lose_groups<'a>(
    files: &Files<'a>,
    symbols: &SymbolTable<'a>,
    linked: &[bool],
    owned: &[(&'a [u8], FileId)],
    diag: &Diagnostics,
) -> LostGroups {
    let owner: Vec<AtomicU32> = (0..symbols.id_limit())
        .into_par_iter()
        .with_min_len(1 << 16)
        .map(|_| AtomicU32::new(u32::MAX))
        .collect();
    let groups: Vec<Vec<(GroupKey<'a>, u32)>> = files
        .0
        .par_iter()
        .zip(linked)
        .enumerate()
        .map(|(i, (file, linked))| {
            let Some(object) = file.object().filter(|_| *linked) else {
                return Vec::new();
            };
            let groups = object.groups().unwrap_or_else(|why| {
                diag.error(format!("{file}: {why}"));
                Vec::new()
            });
            let mut found = Vec::with_capacity(groups.len());
            for group in groups.into_iter().filter(|group| group.comdat) {
                let Some(key) = group_key(file, symbols, group.signature, diag) else {
                    continue;
                };
                if let GroupKey::Symbol(symbol) = key {
                    let slot = &owner[symbol.index()];
                    if slot.load(Relaxed) > i as u32 {
                        slot.fetch_min(i as u32, Relaxed);
                    }
                }
                found.push((key, group.index));
            }
            found
        })
        .collect();
    let mut local: HashMap<&[u8], u32> = HashMap::new();
    for (file, groups) in groups.iter().enumerate() {
        for (key, _) in groups {
            if let GroupKey::Local(signature) = key {
                local.entry(signature).or_insert(file as u32);
            }
        }
    }
    for (signature, file) in owned {
        match symbols.find(signature) {
            Some(symbol) => owner[symbol.index()].store(file.0, Relaxed),
            None => _ = local.insert(signature, file.0),
        }
    }
    let lost = groups.par_iter().enumerate().map(|(file, groups)| {
        let file = file as u32;
        let mut lost = Vec::new();
        let mut seen: Vec<GroupKey> = Vec::new();
        for (key, index) in groups {
            let winner = match key {
                GroupKey::Symbol(symbol) => owner[symbol.index()].load(Relaxed),
                GroupKey::Local(signature) => local[signature],
            };
            // Few files have a group twice; those that have many groups are made by compilers.
            let twice = groups.len() < 64 && seen.contains(key);
            if winner != file || twice {
                lost.push(*index);
            } else if groups.len() < 64 {
                seen.push(*key);
            }
        }
        lost
    });
    LostGroups(lost.collect())
}

fn group_key<'a>(
    file: &File<'a>,
    symbols: &SymbolTable<'a>,
    signature: Signature<'a>,
    diag: &Diagnostics,
) -> Option<GroupKey<'a>> {
    let by_text = |text| {
        symbols
            .find(text)
            .map_or(GroupKey::Local(text), GroupKey::Symbol)
    };
    Some(match (signature, file.object()) {
        // The symbol's slot saves the search by name.
        (Signature::Symbol(index), _) => GroupKey::Symbol(symbols.of(file, index)),
        (Signature::Text(text), _) => by_text(text),
        (Signature::Name(name), Some(object)) => {
            let repository = object.repository()?;
            match symbols.of_name(repository.id, name) {
                Some(symbol) => GroupKey::Symbol(symbol),
                None => match repository.programs.name(name) {
                    Ok(text) => by_text(text),
                    Err(why) => {
                        diag.error(format!("{file}: {why}"));
                        return None;
                    }
                },
            }
        }
        (Signature::Name(_), _) => return None,
    })
}

/// Marks the sections of the groups that lost.
pub fn discard_groups(files: &Files, lost: &LostGroups, sections: &Sections, diag: &Diagnostics) {
    files
        .0
        .par_iter()
        .zip(&lost.0)
        .enumerate()
        .for_each(|(i, (file, lost))| {
            let id = FileId(i as u32);
            let Some(object) = file.object().filter(|_| !lost.is_empty()) else {
                return;
            };
            for member in object.sections_of_groups(lost) {
                match sections.get(id, member) {
                    Some(section) => {
                        sections.remove_state(section, state::ALIVE);
                        sections.add_state(section, state::DISCARDED);
                    }
                    None => diag.error(format!("{file}: group member {member} is not a section")),
                }
            }
        });
}

/// Where the winning definition of each symbol lies.
pub struct Definitions {
    section: Vec<AtomicU32>,
    value: Vec<AtomicU64>,
    /// Common blocks, in the order of their files.
    pub commons: Vec<Common>,
    /// The sizes of those that another file wants larger than the one that defines them.
    enlarged: HashMap<SymbolId, u64>,
    /// The parts of those that a linker script's rule takes.
    ruled: HashMap<SymbolId, PartId>,
}

/// A common block.
#[derive(Clone, Copy, Debug)]
pub struct Common {
    /// Its symbol.
    pub symbol: SymbolId,
    /// The first object that gives the largest size: for a linker script, the block is from there.
    pub file: FileId,
    /// The largest size that a file gives.
    pub size: u64,
    /// The largest alignment that a file gives.
    pub align: u64,
    /// Thread-local.
    pub tls: bool,
}

impl Definitions {
    /// The section in which a symbol is defined, or [`SectionId::NONE`].
    #[inline]
    pub fn section(&self, id: SymbolId) -> SectionId {
        SectionId(self.section[id.index()].load(Relaxed))
    }

    /// The size of a symbol whose own file says `own`: a common block is as large as the largest that a file gives.
    #[inline]
    pub fn size(&self, id: SymbolId, own: u64) -> u64 {
        match self.enlarged.is_empty() {
            true => own,
            false => self.enlarged.get(&id).copied().unwrap_or(own),
        }
    }

    /// Sends common blocks where a linker script wants those of their files. What it sends to `/DISCARD/` is taken away;
    /// who refers to that is told.
    pub fn route_commons(
        &mut self,
        files: &Files,
        symbols: &SymbolTable,
        outputs: &mut Outputs,
        diag: &Diagnostics,
    ) {
        let Some(rules) = outputs.rules.clone() else {
            return;
        };
        let ruled = &mut self.ruled;
        let mut parts: HashMap<(u32, bool), Option<PartId>> = HashMap::new();
        self.commons.retain(|common| {
            let (name, flags) = match common.tls {
                false => (&b"COMMON"[..], shf::ALLOC | shf::WRITE),
                true => (&b".tcommon"[..], shf::ALLOC | shf::WRITE | shf::TLS),
            };
            let file = FileNames::of(files.get(common.file));
            match rules.route(file, name, flags) {
                Route::Rule { rule, .. } => {
                    let part = parts.entry((rule, common.tls)).or_insert_with(|| {
                        let output = rules.rules[rule as usize].output;
                        outputs.add_commons(output, rule, common.tls)
                    });
                    match part {
                        Some(part) => _ = ruled.insert(common.symbol, *part),
                        None => diag.error("the linker script has too many patterns"),
                    }
                    true
                }
                Route::Discard if !rules.discard_orphans || rules.discards(file, name, flags) => {
                    symbols.set_key(common.symbol, Key::NONE);
                    let wanted = Referred::BY_OBJECT | Referred::STRONGLY;
                    symbols.add(common.symbol, wanted);
                    false
                }
                Route::Discard | Route::Orphan => true,
            }
        });
    }

    /// The part that the common block of a symbol is in.
    #[inline]
    pub fn common_part(&self, id: SymbolId, tls: bool) -> PartId {
        let ruled = match self.ruled.is_empty() {
            true => None,
            false => self.ruled.get(&id),
        };
        match ruled {
            Some(part) => *part,
            None if tls => subpart::COMMON_TLS,
            None => subpart::COMMON,
        }
    }

    /// The common blocks that are linked: nothing else has come to define them, and not all references to them are gone.
    pub fn commons_of(&self, symbols: &SymbolTable) -> impl Iterator<Item = &Common> {
        let commons = self.commons.iter();
        commons.filter(|common| symbols.key(common.symbol).rank() == rank::COMMON)
    }

    /// Offset in the section, or absolute value.
    #[inline]
    pub fn value(&self, id: SymbolId) -> u64 {
        self.value[id.index()].load(Relaxed)
    }
}

/// A common block in whose place a shared object's variable is used, which is smaller.
pub struct Shrunk {
    /// Its symbol.
    pub symbol: SymbolId,
    /// The common block.
    pub common: Key,
    /// The variable.
    pub variable: Key,
}

/// Offers the definitions of the linked files, and adds up what their references say.
pub fn define(files: &Files, symbols: &SymbolTable, sections: &Sections) -> Vec<Shrunk> {
    symbols.clear_keys();
    let has_commons = AtomicBool::new(false);
    files.0.par_iter().enumerate().for_each(|(i, file)| {
        let id = FileId(i as u32);
        match &file.body {
            Body::Linker(_) => {}
            Body::Shared(shared) => {
                for index in shared.globals() {
                    if !shared.is_defined(index) {
                        let plainly = match shared.version(index) {
                            None => Referred::PLAINLY_BY_SHARED,
                            Some(_) => Referred::NONE,
                        };
                        let symbol = symbols.of(file, index);
                        symbols.add(symbol, Referred::BY_SHARED | plainly);
                    } else if shared.is_default(index) {
                        let symbol = symbols.of(file, index);
                        symbols.offer(symbol, Key::new(rank::SHARED, id, index));
                    }
                }
            }
            Body::Object(object) if sections.is_linked(id) => {
                for_globals(file, object, |index, symbol| {
                    let name = symbols.of(file, index);
                    let visibility = match symbol.other & 3 {
                        c::STV_HIDDEN => Referred::HIDDEN,
                        c::STV_INTERNAL => Referred::INTERNAL,
                        c::STV_PROTECTED => Referred::PROTECTED,
                        _ => Referred::NONE,
                    };
                    let rank = match symbol.place {
                        Place::Undefined => None,
                        Place::Common => Some(rank::COMMON),
                        // A definition in a discarded group means the one that was kept.
                        Place::Section(n) if is_discarded(sections, id, n) => None,
                        _ if symbol.is_weak() => Some(rank::WEAK),
                        _ => Some(rank::STRONG),
                    };
                    match rank {
                        Some(rank) => {
                            if rank == rank::COMMON {
                                has_commons.store(true, Relaxed);
                            }
                            symbols.offer(name, Key::new(rank, id, index));
                            if !visibility.is_empty() {
                                symbols.add(name, visibility);
                            }
                        }
                        // What was discarded was to be there, weak or not.
                        None if symbol.is_weak() && symbol.place == Place::Undefined => {
                            symbols.add(name, Referred::BY_OBJECT | visibility)
                        }
                        None => {
                            symbols.add(name, Referred::BY_OBJECT | Referred::STRONGLY | visibility)
                        }
                    }
                })
            }
            Body::Object(_) => {}
        }
    });
    match has_commons.into_inner() {
        true => prefer_shared_values(files, symbols),
        false => Vec::new(),
    }
}

/// Lets variables that have a value in a shared object win over common blocks.
fn prefer_shared_values(files: &Files, symbols: &SymbolTable) -> Vec<Shrunk> {
    let mut shrunk = Vec::new();
    for (id, file) in files.iter() {
        let Some(shared) = file.shared() else {
            continue;
        };
        for index in shared.globals() {
            let sym = &shared.syms[index as usize];
            if !shared.has_value(index) || !shared.is_defined(index) || !shared.is_default(index) {
                continue;
            }
            let name = symbols.of(file, index);
            let key = symbols.key(name);
            if key.rank() != rank::COMMON || symbols.facts(name).has(Referred::NOT_DEFAULT) {
                continue;
            }
            let Some(common) = files
                .get(key.file())
                .object()
                .and_then(|object| object.symbol(key.index()))
            else {
                continue;
            };
            if (common.kind() == c::STT_TLS) != (sym.kind() == c::STT_TLS) {
                continue;
            }
            let variable = Key::new(rank::SHARED, id, index);
            if common.size > sym.st_size {
                shrunk.push(Shrunk {
                    symbol: name,
                    common: key,
                    variable,
                });
            }
            symbols.set_key(name, variable);
            symbols.add(name, Referred::BY_OBJECT | Referred::STRONGLY);
        }
    }
    shrunk
}

/// Whether of two definitions one is a function and the other a variable, or thread-local.
pub fn is_unlike(one: u8, other: u8) -> bool {
    let sort = |kind| match kind {
        c::STT_FUNC | c::STT_GNU_IFUNC => c::STT_FUNC,
        c::STT_COMMON => c::STT_OBJECT,
        kind => kind,
    };
    one != c::STT_NOTYPE && other != c::STT_NOTYPE && sort(one) != sort(other)
}

#[inline]
fn is_discarded(sections: &Sections, file: FileId, number: u32) -> bool {
    sections
        .get(file, number)
        .is_some_and(|section| sections.state(section) & state::DISCARDED != 0)
}

/// Whether the winner of a name and another definition of it are both absolute and say the same, so that nobody can tell
/// which of them was taken.
fn is_same_number(files: &Files, winner: Key, other: Symbol) -> bool {
    let winner = files
        .get(winner.file())
        .object()
        .and_then(|object| object.symbol(winner.index()));
    other.place == Place::Absolute
        && winner
            .is_some_and(|winner| winner.place == Place::Absolute && winner.value == other.value)
}

/// A name that two files define.
pub struct Duplicate {
    /// The name.
    pub symbol: SymbolId,
    /// The file whose definition lost.
    pub file: FileId,
    /// Its symbol there.
    pub index: u32,
}

/// Writes down where the winning definitions lie, and finds names that are
/// defined twice.
pub fn publish(
    files: &Files,
    symbols: &SymbolTable,
    sections: &Sections,
    diag: &Diagnostics,
) -> (Definitions, Vec<Duplicate>) {
    let ids = symbols.id_limit();
    let section: Vec<AtomicU32> = (0..ids)
        .into_par_iter()
        .with_min_len(1 << 16)
        .map(|_| AtomicU32::new(u32::MAX))
        .collect();
    let value: Vec<AtomicU64> = (0..ids)
        .into_par_iter()
        .with_min_len(1 << 16)
        .map(|_| AtomicU64::new(0))
        .collect();
    let (commons, mut duplicates) = files
        .0
        .par_iter()
        .enumerate()
        .map(|(i, file)| {
            let id = FileId(i as u32);
            let (mut commons, mut duplicates) = (Vec::new(), Vec::new());
            match &file.body {
                Body::Linker(_) => {}
                Body::Shared(shared) => {
                    for index in shared.globals() {
                        let sym = &shared.syms[index as usize];
                        if !shared.is_defined(index) || !shared.is_default(index) {
                            continue;
                        }
                        let name = symbols.of(file, index);
                        let key = symbols.key(name);
                        let winner = match key.in_object() {
                            true => files.get(key.file()).object().and_then(|o| o.symbol(key.index())),
                            false => None,
                        };
                        let unlike = shared.version(index).is_some()
                            && winner.is_some_and(|winner| is_unlike(winner.kind(), sym.kind()));
                        symbols.add(
                            name,
                            if unlike { Defined::UNLIKE_SHARED } else { Defined::BY_SHARED },
                        );
                        let is_data = matches!(sym.kind(), c::STT_OBJECT | c::STT_COMMON | c::STT_TLS);
                        if key.rank() == rank::COMMON && is_data {
                            // The shared object's own code uses the block in place of its variable, and may rely on how
                            // that is aligned.
                            let tls = sym.kind() == c::STT_TLS;
                            commons.push((key, Common { symbol: name, file: key.file(), size: sym.st_size, align: shared.alignment(index), tls }));
                        }
                        if key != Key::new(rank::SHARED, id, index) {
                            continue;
                        }
                        value[name.index()].store(sym.st_value, Relaxed);
                        symbols.add(
                            name,
                            match sym.kind() {
                                c::STT_TLS => Defined::TLS,
                                c::STT_FUNC | c::STT_GNU_IFUNC => Defined::FUNCTION,
                                _ => Defined::NONE,
                            },
                        );
                    }
                }
                Body::Object(object) if sections.is_linked(id) => for_globals(file, object, |index, symbol| {
                    if symbol.place == Place::Undefined {
                        return;
                    }
                    let name = symbols.of(file, index);
                    let key = symbols.key(name);
                    if symbol.place == Place::Common {
                        if key.rank() == rank::COMMON {
                            let tls = symbol.kind() == c::STT_TLS;
                            let align = symbol.value.max(1);
                            if !align.is_power_of_two() || align > 1 << 30 {
                                diag.error(format!(
                                    "{file}: common symbol {}: alignment {align:#x} is not a power of two up to 1 GiB",
                                    String::from_utf8_lossy(symbols.name(name))
                                ));
                                return;
                            }
                            commons.push((key, Common { symbol: name, file: id, size: symbol.size, align, tls }));
                            if tls {
                                symbols.add(name, Defined::TLS);
                            }
                        }
                        return;
                    }
                    if (key.file(), key.index()) != (id, index) {
                        let strong = !symbol.is_weak() && key.rank() == rank::STRONG;
                        if strong
                            && !matches!(symbol.place, Place::Section(n) if is_discarded(sections, id, n))
                            && !is_same_number(files, key, symbol)
                        {
                            duplicates.push(Duplicate { symbol: name, file: id, index });
                        }
                        return;
                    }
                    let mut bits = match symbol.kind() {
                        c::STT_TLS => Defined::TLS,
                        c::STT_GNU_IFUNC => Defined::IFUNC | Defined::FUNCTION,
                        c::STT_FUNC => Defined::FUNCTION,
                        _ => Defined::NONE,
                    };
                    match symbol.place {
                        Place::Section(number) => match sections.get(id, number) {
                            Some(at) => section[name.index()].store(at.0, Relaxed),
                            None => diag.error(format!(
                                "{file}: symbol {} is in {}",
                                String::from_utf8_lossy(symbols.name(name)),
                                describe_missing(number)
                            )),
                        },
                        _ => bits |= Defined::ABSOLUTE,
                    }
                    value[name.index()].store(symbol.value, Relaxed);
                    symbols.add(name, bits);
                }),
                Body::Object(_) => {}
            }
            (commons, duplicates)
        })
        .reduce(
            || (Vec::new(), Vec::new()),
            |mut all, mut some| {
                all.0.append(&mut some.0);
                all.1.append(&mut some.1);
                all
            },
        );
    duplicates.sort_by_key(|duplicate| {
        (
            symbols.key(duplicate.symbol),
            duplicate.file,
            duplicate.index,
        )
    });
    let (commons, enlarged) = unite_commons(commons);
    (
        Definitions {
            section,
            value,
            commons,
            enlarged,
            ruled: HashMap::new(),
        },
        duplicates,
    )
}

/// One block for each name, and the sizes of those of which files give several sizes.
fn unite_commons(mut all: Vec<(Key, Common)>) -> (Vec<Common>, HashMap<SymbolId, u64>) {
    all.sort_by_key(|(key, _)| *key);
    let mut united: Vec<Common> = Vec::new();
    let mut enlarged = HashMap::new();
    for (_, common) in all {
        match united.last_mut() {
            Some(last) if last.symbol == common.symbol => {
                if common.size > last.size {
                    last.file = common.file;
                }
                if last.size != common.size {
                    last.size = last.size.max(common.size);
                    enlarged.insert(common.symbol, last.size);
                }
                last.align = last.align.max(common.align);
            }
            _ => united.push(common),
        }
    }
    (united, enlarged)
}
