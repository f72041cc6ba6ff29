//! Why members of archives are linked: because a file wants a name of theirs. If it does so no more, a full link may leave them out. As long as they do
//! nothing by themselves that is only a matter of room, and they stay; where one does, the link is a full one.
//!
//! What a member does by itself: it has functions that are called at start or at the end, or sections that somebody may go through, or
//! it defines what others find without wanting it: by a weak reference, at run time, or in the place of a library's.
//!
//! Of each such member, and of those by way of which it is linked, one file and one name are noted that it wants: its *hold*. The holds are found from
//! the files that are linked in any case, and then from the members that these hold, so that no members hold each other alone. As
//! long as each hold is as it was, all these are linked in a full link, too. What nobody is found to hold (`-u`) is taken for one that stays. (So do
//! libraries under `--as-needed`.)

use super::reason::Reason;
use super::state::{List, NameKey, State, Table, key_of};
use crate::base::ids::{FileId, SymbolId};
use crate::elf::{c, shf};
use crate::input::file::File;
use crate::input::parts::Place;
use crate::link::resolved::Resolved;
use crate::resolve::linker_symbols::is_c_identifier;
use crate::resolve::symbol_facts::{Bound, Defined};
use crate::resolve::symbol_table::SymbolTable;
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

/// A file, by its number in the state, and a name that it must want.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct HoldRecord {
    /// The name.
    pub name: NameKey,
    /// The file.
    pub file: u32,
    /// Unused.
    pub padding: u32,
}

impl HoldRecord {
    fn new(file: u32, name: &[u8]) -> HoldRecord {
        HoldRecord {
            name: key_of(name),
            file,
            padding: 0,
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

/// Those of a full link, in order.
pub(super) fn of_full_link(resolved: &Resolved) -> Vec<HoldRecord> {
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
    // Others find something of these if it is there.
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
                let is_feeble = symbol.place == Place::Undefined && symbol.is_weak();
                is_feeble.then(|| member(symbols.of(file, index)))?
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
    let mut records: Vec<HoldRecord> = by_objects
        .map(|hold| HoldRecord::new(hold.by.0, symbols.name(hold.name)))
        .collect();
    records.sort_unstable_by_key(|hold| (hold.file, hold.name));
    records
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

/// Checks that `files`, of these numbers in the state, want what they did for which others are linked.
///
/// # Errors
/// If one does not.
pub(super) fn check<'a: 'f, 'f>(
    state: &State,
    files: impl Iterator<Item = &'f File<'a>>,
    ids: &[u32],
    symbols: &SymbolTable<'a>,
) -> Result<(), Reason> {
    let of_full_link: &[HoldRecord] = state.table(Table::Holds);
    let since: Vec<HoldRecord> = (state.list(List::Holds).into_iter())
        .map(|(_, record)| record)
        .collect();
    for (file, id) in files.zip(ids) {
        let first = of_full_link.partition_point(|hold| hold.file < *id);
        let own = of_full_link[first..].iter();
        let own = own.take_while(|hold| hold.file == *id);
        let mut held: FxHashSet<NameKey> = own
            .chain(since.iter().filter(|hold| hold.file == *id))
            .map(|hold| hold.name)
            .collect();
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
    Ok(())
}
