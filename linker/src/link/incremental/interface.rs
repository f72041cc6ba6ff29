//! What a link takes from a shared object.
//!
//! A library is built again whenever somebody works on it, and the programs that use it are linked again for that, though
//! nothing of the library's code is in them. What a link does take is its name, what it needs, which symbols of which
//! versions it has or refers to, and of variables, which a program may have to copy, also their size, their alignment, who
//! else stands at the same address, and whether they can be written to. As long as these are what they were
//! the library counts as the same, wherever in it everything stands by now.
//!
//! If they are not, those count that the program has a name for: the state has what each was like. What is new beside them,
//! or gone, is nothing to the program; but what the library needs by now must be there.

use super::command::Command;
use super::look::{is_shared, map};
use super::needs::{Needed, NewNeeds};
use super::reason::Reason;
use super::state::{
    InputRecord, NONE, NameKey, State, SymbolRecord, Table, content_key, input, key_of,
};
use super::world::World;
use crate::base::key::rank;
use crate::elf::c;
use crate::input::shared_object::Shared;
use crate::resolve::symbol_facts::Referred;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::path::Path;
use tickets::archive::Archive;

/// What tells inputs apart that are no objects and no archives of objects: of a shared object its interface, of anything else
/// (scripts, above all) all of its bytes.
pub(super) fn key(bytes: &[u8]) -> [u64; 2] {
    let interface = match is_shared(bytes) {
        true => Shared::parse(bytes, b"").ok(),
        false => None,
    };
    let Some(shared) = interface else {
        return content_key(bytes);
    };
    let mut text = Description(head(&shared));
    text.number(shared.needed.len() as u64);
    for name in &shared.needed {
        text.string(name);
    }
    for (name, symbol) in symbols(&shared) {
        text.string(name);
        text.string(&symbol);
    }
    content_key(&text.0)
}

/// What a shared object says of itself as a whole.
fn head(shared: &Shared) -> Vec<u8> {
    let mut text = Description(Vec::new());
    // A shared object without a name has that of its path, which the state knows.
    text.flag(shared.has_soname);
    text.string(shared.soname);
    for path in [shared.rpath, shared.runpath, shared.audit] {
        text.flag(path.is_some());
        text.string(path.unwrap_or_default());
    }
    let is_warning = |(name, _): &(&[u8], &[u8])| name.starts_with(b".gnu.warning");
    for (name, warning) in shared.sections().filter(is_warning) {
        text.string(name);
        text.string(warning);
    }
    // Which of its sections have bounds that programs ask for.
    let bounds = [&b"__start_"[..], b"__stop_"];
    for bound in bounds {
        text.flag(memchr::memmem::find(shared.strtab, bound).is_some());
    }
    text.0
}

/// All that a link takes of each name, in the order in which the symbols of that name stand.
fn symbols<'a>(shared: &Shared<'a>) -> BTreeMap<&'a [u8], Vec<u8>> {
    let is_function = |kind: u8| matches!(kind, c::STT_FUNC | c::STT_GNU_IFUNC);
    // By place: the names of the variables that stand there, in no order.
    let mut there: FxHashMap<(u16, u64), u64> = FxHashMap::default();
    for index in shared.globals() {
        if let Some(symbol) = shared.syms.get(index as usize)
            && !is_function(symbol.kind())
            && shared.is_defined(index)
            && shared.is_default(index)
        {
            let name = key_of(shared.name(index))[0];
            let names = there.entry((symbol.st_shndx, symbol.st_value));
            let names = names.or_insert(0);
            *names = names.wrapping_add(name);
        }
    }
    let mut all: BTreeMap<&[u8], Vec<u8>> = BTreeMap::new();
    for index in shared.globals() {
        let Some(symbol) = shared.syms.get(index as usize) else {
            continue;
        };
        let known = all.entry(shared.name(index)).or_default();
        let mut text = Description(std::mem::take(known));
        text.number(u64::from(symbol.st_info) << 8 | u64::from(symbol.st_other));
        text.string(shared.version(index).unwrap_or_default());
        text.flag(shared.is_default(index));
        text.flag(shared.is_defined(index));
        let section = symbol.st_shndx;
        text.number(match section {
            c::SHN_UNDEF | c::SHN_ABS | c::SHN_COMMON => section.into(),
            _ => u64::MAX,
        });
        text.flag(shared.is_in_data(index));
        if !is_function(symbol.kind()) && section != c::SHN_UNDEF {
            let names = there.get(&(section, symbol.st_value)).copied();
            text.number(names.unwrap_or_default());
            text.number(symbol.st_size);
            text.number(shared.alignment(index));
            text.flag(shared.has_value(index));
            text.flag(shared.is_read_only(index));
            // An absolute symbol's value is what it is.
            text.number(match section {
                c::SHN_ABS => symbol.st_value,
                _ => 0,
            });
        }
        *known = text.0;
    }
    all
}

/// In the place of a name's key: what the library says of itself, and which names it refers to.
const HEAD: NameKey = [0, 0];
const REFERENCES: NameKey = [0, 1];

/// The key of a library's name, which is no symbol's.
fn key_of_library(name: &[u8]) -> NameKey {
    key_of(&[b"\0", name].concat())
}

/// What the state is to know of a shared object's symbols: those that `is_known` says the program has a name for, in order.
/// Nothing of anything else.
pub(super) fn records(bytes: &[u8], is_known: impl Fn(&NameKey) -> bool) -> Vec<SymbolRecord> {
    if !is_shared(bytes) {
        return Vec::new();
    }
    let Ok(shared) = Shared::parse(bytes, b"") else {
        return Vec::new();
    };
    let mut references = Description(Vec::new());
    for name in undefined(&shared) {
        references.string(name);
    }
    let record = |key: NameKey, text: &[u8]| SymbolRecord {
        key,
        content: content_key(text),
    };
    let names: FxHashSet<&[u8]> = defined(&shared);
    let mut records = vec![
        record(HEAD, &head(&shared)),
        record(REFERENCES, &references.0),
    ];
    for name in &shared.needed {
        records.push(record(key_of_library(name), b"needed"));
    }
    for (name, symbol) in symbols(&shared) {
        let key = key_of(name);
        if is_known(&key) {
            records.push(match names.contains(name) {
                true => record(key, &symbol),
                false => SymbolRecord {
                    key,
                    content: REFERENCE,
                },
            });
        }
    }
    records.sort_unstable_by_key(|record| record.key);
    records
}

/// What the state knows of a name that a library only refers to.
const REFERENCE: [u64; 2] = [0, 0];

/// The names that a library has definitions of.
fn defined<'a>(shared: &Shared<'a>) -> FxHashSet<&'a [u8]> {
    let all = shared.globals().filter(|index| {
        let symbol = shared.syms.get(*index as usize);
        symbol.is_some_and(|symbol| symbol.st_shndx != c::SHN_UNDEF)
    });
    all.map(|index| shared.name(index)).collect()
}

/// What the state is to know of one name of a shared object.
pub(super) fn record(shared: &Shared, name: &[u8]) -> SymbolRecord {
    SymbolRecord {
        key: key_of(name),
        content: content_key(symbols(shared).get(name).map_or(&[], Vec::as_slice)),
    }
}

/// The names that a shared object refers to, in order.
fn undefined<'a>(shared: &Shared<'a>) -> Vec<&'a [u8]> {
    let all = shared.globals().filter(|index| {
        let symbol = shared.syms.get(*index as usize);
        symbol.is_some_and(|symbol| symbol.st_shndx == c::SHN_UNDEF)
    });
    let mut names: Vec<&[u8]> = all.map(|index| shared.name(index)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Finds out whether a shared object that was built again, and has another interface, is the same to the program: `old` is
/// what the state knows of it. `output` is the program as it is. Gives what the state is to know.
///
/// # Errors
/// If it is not, or that cannot be told.
pub(super) fn compare(
    state: &State,
    command: &Command,
    path: &Path,
    bytes: &[u8],
    (old, output): (&[SymbolRecord], &[u8]),
) -> Result<Vec<SymbolRecord>, Reason> {
    let changed = || Reason::from(format!("{} has changed", path.display()));
    let world = World::new(state, false);
    let find = |records: &[SymbolRecord], key: &NameKey| {
        let found = records.binary_search_by_key(key, |record| record.key).ok();
        found.map(|found| records[found].content)
    };
    let new = records(bytes, |_| true);
    if old.is_empty() || new.is_empty() || find(old, &HEAD) != find(&new, &HEAD) {
        return Err(changed());
    }
    let shared = Shared::parse(bytes, b"").map_err(|_| changed())?;
    let mut kept: FxHashSet<NameKey> = FxHashSet::from_iter([HEAD, REFERENCES]);
    // It had no definition of it before.
    let is_gone_or_same = |key: &NameKey| find(old, key).is_none_or(|it| it == REFERENCE);
    // What else it needs the program may need anyway.
    let needed = Needed::of(output, &NewNeeds::default()).unwrap_or_default();
    let of_program: FxHashSet<NameKey> = needed.libraries().map(key_of_library).collect();
    for name in &shared.needed {
        let key = key_of_library(name);
        if find(old, &key).is_none() && !of_program.contains(&key) {
            let name = String::from_utf8_lossy(name);
            return Err(format!("{} comes to need {name}", path.display()).into());
        }
        kept.insert(key);
    }
    for (name, _) in symbols(&shared) {
        let Some((_, record)) = world.name(name) else {
            continue;
        };
        let key = key_of(name);
        if record.definer == NONE && find(&new, &key) == Some(REFERENCE) && is_gone_or_same(&key) {
            // Somebody else's, also for the program.
            kept.insert(key);
            continue;
        }
        if find(old, &key).is_none() || find(old, &key) != find(&new, &key) {
            let name = String::from_utf8_lossy(name);
            return Err(format!("{name} of {} has changed", path.display()).into());
        }
        kept.insert(key);
    }
    let is_kept = |record: &SymbolRecord| {
        kept.contains(&record.key)
            || of_program.contains(&record.key)
            || record.content == REFERENCE
    };
    if !old.iter().all(is_kept) {
        return Err(format!("{} has lost what the program uses", path.display()).into());
    }
    let refers_to_others = find(old, &REFERENCES) != find(&new, &REFERENCES);
    check_references(state, command, &world, refers_to_others.then_some(&shared))?;
    let new = new.into_iter().filter(|record| kept.contains(&record.key));
    Ok(new.collect())
}

/// What the shared objects need must be had of each other, or of the program; and what one of them, which refers to other names
/// by now, needs must not be had of archives.
fn check_references(
    state: &State,
    command: &Command,
    world: &World,
    other: Option<&Shared>,
) -> Result<(), Reason> {
    let inputs: &[InputRecord] = state.table(Table::Inputs);
    let (mut defined, mut wanted): (FxHashSet<NameKey>, Vec<(NameKey, Vec<u8>)>) =
        Default::default();
    let names: FxHashSet<&[u8]> = other.map(undefined).into_iter().flatten().collect();
    for record in inputs {
        if !matches!(record.kind, input::OTHER | input::ARCHIVE) {
            continue;
        }
        let path = command.path_of(state, record);
        let unreadable = || Reason::from(format!("{} cannot be read", path.display()));
        let Some(bytes) = map(path)? else { continue };
        if Archive::is_archive(&bytes) && !names.is_empty() {
            let archive = Archive::parse(&bytes).map_err(|_| unreadable())?;
            for symbol in archive.symbols().into_iter().flatten() {
                let (name, _) = symbol.map_err(|_| unreadable())?;
                if names.contains(name) && world.name(name).is_none() {
                    let name = String::from_utf8_lossy(name);
                    return Err(format!("a library needs {name}, which an archive has").into());
                }
            }
        }
        if !is_shared(&bytes) {
            continue;
        }
        let shared = Shared::parse(&bytes, b"").map_err(|_| unreadable())?;
        let all = shared.globals().filter(|index| shared.is_defined(*index));
        defined.extend(all.map(|index| key_of(shared.name(index))));
        let needed = shared.strong_references().map(|index| shared.name(index));
        wanted.extend(needed.map(|name| (key_of(name), name.to_vec())));
    }
    let is_defined = |name: &[u8]| {
        let known = world.name(name);
        known.is_some_and(|(_, record)| u64::from(record.rank) != rank::NONE)
    };
    let missing = wanted
        .iter()
        .find(|(key, name)| !defined.contains(key) && !is_defined(name));
    if let Some((_, name)) = missing {
        let name = String::from_utf8_lossy(name);
        return Err(format!("{name} is needed by a library, and nobody has it").into());
    }
    // Who defines what libraries speak of lets others see it.
    let is_unseen = |name: &&&[u8]| {
        let known = world.name(name);
        known.is_some_and(|(_, record)| !record.facts.has(Referred::BY_SHARED))
    };
    match names.iter().find(is_unseen) {
        Some(name) if is_defined(name) => {
            let name = String::from_utf8_lossy(name);
            Err(format!("a library comes to refer to {name}").into())
        }
        _ => Ok(()),
    }
}

/// Numbers and strings in a row, each with its length.
struct Description(Vec<u8>);

impl Description {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn flag(&mut self, flag: bool) {
        self.0.push(flag.into());
    }

    fn string(&mut self, string: &[u8]) {
        self.number(string.len() as u64);
        self.0.extend_from_slice(string);
    }
}
