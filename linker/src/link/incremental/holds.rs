//! Why members of archives and libraries under `--as-needed` are linked: because a file wants a name of theirs. If it does so no more, a full
//! link may leave them out, with what they do at start; then the link is a full one.
//!
//! Of each such member and library one file with one name is noted that it wants: its *hold*. The holds are found from the files that are
//! linked in any case, and then from the members that these hold, so that no members hold each other alone. As long as each hold is as it was,
//! all that was linked is linked in a full link, too. What nobody is found to hold (`-u`) is taken for one that stays.

use super::reason::Reason;
use super::state::{List, NameKey, State, Table, key_of};
use crate::base::ids::{FileId, SymbolId};
use crate::base::key::rank;
use crate::input::file::File;
use crate::link::resolved::Resolved;
use crate::resolve::symbol_table::SymbolTable;
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

/// Looks from `first` at what each file wants: `held` says of a name which file is linked for it, if that is one of those that are linked
/// only then. Calls `found` with each hold.
fn follow<'a: 'f, 'f>(
    first: Vec<FileId>,
    file: impl Fn(FileId) -> &'f File<'a>,
    symbols: &SymbolTable<'a>,
    held: impl Fn(SymbolId) -> Option<FileId>,
    mut found: impl FnMut(FileId, SymbolId),
) {
    let mut next = first;
    let mut seen: FxHashSet<FileId> = FxHashSet::default();
    while let Some(id) = next.pop() {
        let from = file(id);
        from.for_wanted(|index, _| {
            let name = symbols.of(from, index);
            if let Some(held) = held(name).filter(|held| seen.insert(*held)) {
                found(id, name);
                next.push(held);
            }
        });
    }
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
    let is_held = |file: &File| file.lazy || file.shared().is_some() && file.as_needed;
    if !files
        .iter()
        .any(|(id, file)| is_linked(id) && is_held(file))
    {
        return Vec::new();
    }
    let stay = files
        .iter()
        .filter(|(id, file)| is_linked(*id) && !is_held(file));
    let mut holds = Vec::new();
    follow(
        stay.map(|(id, _)| id).collect(),
        |id| files.get(id),
        symbols,
        |name| {
            let key = symbols.key(name);
            let is_of_file = key.in_object() || key.rank() == rank::SHARED;
            let file = is_of_file.then(|| key.file())?;
            (is_linked(file) && is_held(files.get(file))).then_some(file)
        },
        |by, name| {
            // What a shared object wants is no other before it is.
            if files.get(by).object().is_some() {
                holds.push(HoldRecord::new(by.0, symbols.name(name)));
            }
        },
    );
    holds.sort_unstable_by_key(|hold| (hold.file, hold.name));
    holds
}

/// Those of the members that a link has newly drawn for `files`, of these numbers in the state; and, if it has come to need libraries, of all
/// `imports`.
pub(super) fn of_drawn<'a: 'f, 'f>(
    files: &[(FileId, &'f File<'a>)],
    ids: &[u32],
    symbols: &SymbolTable<'a>,
    is_new: impl Fn(u32) -> bool,
    imports: &FxHashSet<SymbolId>,
) -> Vec<HoldRecord> {
    let number: FxHashMap<FileId, usize> = (files.iter().zip(0..))
        .map(|((id, _), number)| (*id, number))
        .collect();
    let is_held = |number: usize| files[number].1.member.is_some() && is_new(ids[number]);
    let stay = (0..files.len()).filter(|number| !is_held(*number));
    let mut holds = Vec::new();
    follow(
        stay.map(|number| files[number].0).collect(),
        |id| files[number[&id]].1,
        symbols,
        |name| {
            let key = symbols.key(name);
            let file = key.in_object().then(|| key.file())?;
            number
                .get(&file)
                .is_some_and(|number| is_held(*number))
                .then_some(file)
        },
        |by, name| holds.push(HoldRecord::new(ids[number[&by]], symbols.name(name))),
    );
    if !imports.is_empty() {
        for ((_, file), id) in files.iter().zip(ids) {
            file.for_wanted(|index, _| {
                let name = symbols.of(file, index);
                if imports.contains(&name) {
                    holds.push(HoldRecord::new(*id, symbols.name(name)));
                }
            });
        }
    }
    holds
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
