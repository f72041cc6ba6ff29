//! Why members of archives are linked: because a file wants a name of theirs. If it does so no more, a full link may leave them out. As long as they do
//! nothing by themselves that is only a matter of room, and they stay; where one does, the link is a full one.
//!
//! What a member does by itself: it has functions that are called at start or at the end, or sections that somebody may go through, or
//! it defines what others find without wanting it: by a weak reference, at run time, or in the place of a library's, or of a weak definition.
//!
//! Of each such member, and of those by way of which it is linked, one file and one name are noted that it wants: its *hold*. The holds are found from
//! the files that are linked in any case, and then from the members that these hold, so that no members hold each other alone. As
//! long as each hold is as it was, all these are linked in a full link, too. What nobody is found to hold (`-u`) is taken for one that stays.
//!
//! Libraries under `--as-needed` are needed because an object wants a name of theirs: one of those that are noted, whoever it is. If none of the files
//! that are linked again does, which have mentioned such names, another one that has is linked again as well, to be asked.

use super::again::Again;
use super::edited::Edited;
use super::imports::Import;
use super::reason::Reason;
use super::records::library_number;
use super::state::{List, NONE, NameKey, State, Table, key_of};
use super::world::{NameAt, World};
use crate::base::ids::{FileId, SymbolId};
use crate::base::key::rank;
use crate::elf::{c, shf};
use crate::input::file::File;
use crate::input::parts::Place;
use crate::layout::dynamic;
use crate::link::resolved::Resolved;
use crate::resolve::input_sections::state as section_state;
use crate::resolve::linker_symbols::is_c_identifier;
use crate::resolve::symbol_facts::{Bound, Defined, Referred};
use crate::resolve::symbol_table::SymbolTable;
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

/// A file, by its number in the state, and a name that it must want; or a library, and a name of which some file must want one.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct HoldRecord {
    /// The name.
    pub name: NameKey,
    /// The file; [`NONE`] if it is about a library.
    pub file: u32,
    /// The [number](super::records::library_number) of the library, else 0.
    pub library: u32,
}

impl HoldRecord {
    fn new(file: u32, name: &[u8]) -> HoldRecord {
        HoldRecord {
            name: key_of(name),
            file,
            library: 0,
        }
    }
}

/// A file that wants a name, and the member that is linked for it.
struct Hold {
    by: FileId,
    name: SymbolId,
    member: FileId,
}

/// Looks from `first` at what each file wants: `member` says of a name which member defines it. Gives the holds of those that do something
/// by themselves, and of those by way of which these are linked.
fn holds<'a: 'f, 'f>(
    first: Vec<FileId>,
    file: impl Fn(FileId) -> &'f File<'a>,
    symbols: &SymbolTable<'a>,
    member: impl Fn(SymbolId) -> Option<FileId>,
    acts: impl Fn(FileId) -> bool,
) -> Vec<Hold> {
    // What the first file wants, with all that this wants, is held by that: the file with the program's start, which nobody edits.
    let mut next = first;
    next.reverse();
    let mut seen: FxHashSet<FileId> = FxHashSet::default();
    let mut all = Vec::new();
    while let Some(by) = next.pop() {
        let from = file(by);
        from.for_wanted(|index, _| {
            let name = symbols.of(from, index);
            if let Some(member) = member(name).filter(|member| seen.insert(*member)) {
                all.push(Hold { by, name, member });
                next.push(member);
            }
        });
    }
    // Who holds one comes before it.
    let mut matters: FxHashSet<FileId> = FxHashSet::default();
    let mut kept = Vec::new();
    for hold in all.into_iter().rev() {
        if matters.contains(&hold.member) || acts(hold.member) {
            matters.insert(hold.by);
            kept.push(hold);
        }
    }
    kept
}

/// Whether a member does something by itself, as far as that can be seen of it.
fn acts_by_itself<'a>(file: &File<'a>, symbols: &SymbolTable<'a>) -> bool {
    let Some(object) = file.object() else {
        return true;
    };
    let others = Bound::EXPORTED | Defined::BY_SHARED;
    let mut globals = file.first_global()..file.symbol_count();
    let lists = [c::SHT_INIT_ARRAY, c::SHT_FINI_ARRAY, c::SHT_PREINIT_ARRAY];
    let named = [&b".ctors"[..], b".dtors", b".init", b".fini"];
    globals.any(|index| {
        let symbol = object.symbol(index);
        symbol.is_some_and(|symbol| symbol.place != Place::Undefined)
            && symbols.facts(symbols.of(file, index)).has(others)
    }) || (1..object.section_count()).any(|number| {
        object.section(number).is_some_and(|section| {
            let is_named = |name: &[u8]| {
                let rest = section.name.strip_prefix(name);
                rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'.')
            };
            let is_loaded = section.flags & shf::ALLOC != 0 && section.size > 0;
            let is_list =
                lists.contains(&section.sh_type) || named.iter().any(|name| is_named(name));
            is_loaded && (is_list || is_c_identifier(section.name))
        })
    })
}

/// Those of a full link, in order: `names` are those of the program.
pub(super) fn of_full_link(
    resolved: &Resolved,
    gc_sections: bool,
    names: &[(NameKey, SymbolId)],
) -> Vec<HoldRecord> {
    let mut records = of_members(resolved);
    records.extend(of_libraries(resolved, gc_sections, names));
    records.sort_unstable_by_key(|hold| (hold.file, hold.library, hold.name));
    records
}

/// Those of libraries under `--as-needed` which the output needs.
fn of_libraries(
    resolved: &Resolved,
    gc_sections: bool,
    names: &[(NameKey, SymbolId)],
) -> Vec<HoldRecord> {
    let (files, symbols) = (&resolved.files, &resolved.symbols);
    if !resolved.dynamic_output {
        return Vec::new();
    }
    let used = dynamic::used(files, symbols, gc_sections);
    let hold = |(name, id): &(NameKey, SymbolId)| {
        let key = symbols.key(*id);
        let facts = symbols.facts(*id);
        let is_wanted = facts.has(Referred::BY_OBJECT) && facts.has(Referred::STRONGLY);
        if key.rank() != rank::SHARED || !is_wanted || !used[key.file().index()] {
            return None;
        }
        let file = files.get(key.file());
        let soname = file.shared()?.soname;
        file.as_needed.then(|| HoldRecord {
            name: *name,
            file: NONE,
            library: library_number(soname),
        })
    };
    names.iter().filter_map(hold).collect()
}

/// Those of members that do something by themselves, and of those by way of which they are linked.
fn of_members(resolved: &Resolved) -> Vec<HoldRecord> {
    let (files, symbols) = (&resolved.files, &resolved.symbols);
    let is_linked = |id: FileId| {
        resolved
            .linked
            .get(id.index())
            .is_some_and(|linked| *linked)
    };
    let linked: Vec<FileId> = files
        .iter()
        .map(|(id, _)| id)
        .filter(|id| is_linked(*id))
        .collect();
    if !linked.iter().any(|id| files.get(*id).lazy) {
        return Vec::new();
    }
    let member = |name: SymbolId| {
        let key = symbols.key(name);
        let file = key.in_object().then(|| key.file())?;
        (is_linked(file) && files.get(file).lazy).then_some(file)
    };
    // Others find something of these if it is there, or it takes the place of theirs.
    let found: FxHashSet<FileId> = linked
        .par_iter()
        .flat_map_iter(|id| {
            let file = files.get(*id);
            let globals = match file.object() {
                Some(_) => file.first_global()..file.symbol_count(),
                None => 0..0,
            };
            globals.filter_map(move |index| {
                let symbol = file.object()?.symbol(index)?;
                let counts = match symbol.place {
                    Place::Undefined => symbol.is_weak(),
                    // (Of equal groups any will do.)
                    Place::Section(number) => {
                        let section = resolved.sections.get(*id, number);
                        section.is_some_and(|section| {
                            resolved.sections.state(section) & section_state::DISCARDED == 0
                        })
                    }
                    _ => true,
                };
                let found = counts.then(|| member(symbols.of(file, index)))??;
                (found != *id).then_some(found)
            })
        })
        .collect();
    let stay = linked.iter().copied().filter(|id| !files.get(*id).lazy);
    let kept = holds(
        stay.collect(),
        |id| files.get(id),
        symbols,
        member,
        |id| found.contains(&id) || acts_by_itself(files.get(id), symbols),
    );
    // What a shared object wants is no other before it is.
    let by_objects = kept
        .iter()
        .filter(|hold| files.get(hold.by).object().is_some());
    by_objects
        .map(|hold| HoldRecord::new(hold.by.0, symbols.name(hold.name)))
        .collect()
}

/// Those of the members that a link has newly drawn for `files`, of these numbers in the state.
pub(super) fn of_drawn<'a: 'f, 'f>(
    files: &[(FileId, &'f File<'a>)],
    ids: &[u32],
    symbols: &SymbolTable<'a>,
    is_new: impl Fn(u32) -> bool,
) -> Vec<HoldRecord> {
    let number: FxHashMap<FileId, usize> = (files.iter().zip(0..))
        .map(|((id, _), number)| (*id, number))
        .collect();
    let is_drawn = |number: usize| files[number].1.member.is_some() && is_new(ids[number]);
    let stay = (0..files.len()).filter(|number| !is_drawn(*number));
    let kept = holds(
        stay.map(|number| files[number].0).collect(),
        |id| files[number[&id]].1,
        symbols,
        |name| {
            let key = symbols.key(name);
            let file = key.in_object().then(|| key.file())?;
            number
                .get(&file)
                .is_some_and(|number| is_drawn(*number))
                .then_some(file)
        },
        |id| acts_by_itself(files[number[&id]].1, symbols),
    );
    let record = |hold: &Hold| HoldRecord::new(ids[number[&hold.by]], symbols.name(hold.name));
    kept.iter().map(record).collect()
}

/// Those of the names of libraries that a link comes to need.
pub(super) fn of_imports(state: &State, edited: &Edited) -> Vec<HoldRecord> {
    let known = AllHolds::of(state);
    let first = edited.needs.libraries.iter();
    let first: FxHashSet<u32> = first.map(|library| library_number(&library.name)).collect();
    let is_held =
        |import: &&Import| first.contains(&import.library) || known.has_library(import.library);
    let hold = |import: &Import| HoldRecord {
        name: key_of(&import.name),
        file: NONE,
        library: import.library,
    };
    edited.imports.iter().filter(is_held).map(hold).collect()
}

/// All that are known.
struct AllHolds<'s> {
    of_full_link: &'s [HoldRecord],
    since: Vec<HoldRecord>,
}

impl AllHolds<'_> {
    fn of(state: &State) -> AllHolds<'_> {
        AllHolds {
            of_full_link: state.table(Table::Holds),
            since: (state.list(List::Holds).into_iter())
                .map(|(_, record)| record)
                .collect(),
        }
    }

    /// Those of a file.
    fn of_file(&self, file: u32) -> impl Iterator<Item = &HoldRecord> {
        let first = (self.of_full_link).partition_point(|hold| hold.file < file);
        let own = self.of_full_link[first..].iter();
        own.take_while(move |hold| hold.file == file)
            .chain(self.since.iter().filter(move |hold| hold.file == file))
    }

    /// Those of all files.
    fn of_files(&self) -> impl Iterator<Item = &HoldRecord> {
        let all = self.of_full_link.iter().chain(&self.since);
        all.filter(|hold| hold.file != NONE)
    }

    /// Those of libraries, by library.
    fn of_libraries(&self) -> FxHashMap<u32, Vec<NameKey>> {
        let mut libraries: FxHashMap<u32, Vec<NameKey>> = FxHashMap::default();
        for hold in self.of_file(NONE) {
            libraries.entry(hold.library).or_default().push(hold.name);
        }
        libraries
    }

    fn has_library(&self, library: u32) -> bool {
        self.of_file(NONE).any(|hold| hold.library == library)
    }
}

/// Checks that `files`, which are linked again, want what they did for which others are linked, and define what they are linked for. Gives other files that
/// are to be asked whether they do. `lost` are names that these files defined, and `wanted` those of shared objects that they want.
///
/// # Errors
/// If nobody does.
pub(super) fn check<'a: 'f, 'f>(
    again: Again,
    files: impl Iterator<Item = &'f File<'a>>,
    symbols: &SymbolTable<'a>,
    (lost, wanted): (&FxHashSet<NameKey>, &FxHashSet<NameKey>),
) -> Result<Vec<u32>, Reason> {
    let Again { world, ids, .. } = again;
    let imports = &again.edited.imports;
    let holds = AllHolds::of(world.state);
    for (file, id) in files.zip(ids) {
        let mut held: FxHashSet<NameKey> = holds.of_file(*id).map(|hold| hold.name).collect();
        if held.is_empty() {
            continue;
        }
        file.for_wanted(|index, _| {
            held.remove(&key_of(symbols.name(symbols.of(file, index))));
        });
        if !held.is_empty() {
            return Err(format!("{file} refers no more to what another file is linked for").into());
        }
    }
    if !lost.is_empty() && holds.of_files().any(|hold| lost.contains(&hold.name)) {
        return Err("a file does not define any more what it is linked for".into());
    }
    if world.is_as_before {
        return Ok(Vec::new());
    }
    let mut more = Vec::new();
    for (library, keys) in holds.of_libraries() {
        let is_imported = imports.iter().any(|import| import.library == library);
        if !is_imported && !keys.iter().any(|key| wanted.contains(key)) {
            more.extend(ask(world, &keys, ids)?);
        }
    }
    Ok(more)
}

/// Whom to ask whether a library is needed of which the files of the numbers `ids` want nothing: `keys` are the names for which
/// it was. Nobody, if these never did.
///
/// # Errors
/// If it is not needed.
fn ask(world: &World, keys: &[NameKey], ids: &[u32]) -> Result<Option<u32>, Reason> {
    let places = keys.iter().filter_map(|key| world.by_key(key));
    let places: Vec<NameAt> = places.map(|(at, _)| at).collect();
    let is_mentioned = |at: &NameAt| ids.iter().any(|id| world.is_mentioned(*at, *id));
    if !places.iter().any(is_mentioned) {
        return Ok(None);
    }
    let others = places.iter().flat_map(|at| world.mentioning(*at));
    let other = others.filter(|file| ids.binary_search(file).is_err()).min();
    match other {
        Some(other) => Ok(Some(other)),
        None => Err("a library is not needed any more".into()),
    }
}
