//! Whether what shared objects refer to will be found when the program is loaded.
//!
//! GNU ld's manual, "--allow-shlib-undefined": for an executable, a symbol that a shared object refers to and that
//! nothing defines is an error, because the dynamic linker would not start the program; when a shared object is made it is
//! not, because whoever loads it may bring the definition along. What the shared objects among the inputs define is
//! known. If something is missing beside, the objects that they need (`DT_NEEDED`, and what those need) are looked for as
//! the manual says of "-rpath-link", and only then; usually nothing is opened here.
//!
//! A symbol of an executable that is hidden, or that a version script made local, is not there for the dynamic linker.

use crate::args::environment::Environment;
use crate::args::{Args, UnresolvedPolicy};
use crate::base::ids::{FileId, SymbolId};
use crate::base::key::Key;
use crate::input::file::Files;
use crate::input::library_search::{Needing, Search};
use crate::input::shared_object::Shared;
use crate::layout::dynamic;
use crate::messages::diag::{Diagnostics, Place, Severity};
use crate::resolve::linker_symbols;
use crate::resolve::symbol_facts::{Bound, Defined, Referred};
use crate::resolve::symbol_table::SymbolTable;
use memmap2::Mmap;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use store::guard::Guarded;

/// A shared object's reference that nothing seems to satisfy.
struct Missing {
    /// Who refers to it.
    file: FileId,
    symbol: SymbolId,
    /// The object whose definition nobody outside can see.
    invisible: Option<FileId>,
}

/// Reports references of shared objects to what will not be there. To be called when symbols are bound.
pub fn report(args: &Args, files: &Files, symbols: &SymbolTable, diag: &Diagnostics) {
    if !args.kind.is_executable() && args.unresolved_in_shared == UnresolvedPolicy::Ignore {
        return;
    }
    let mut missing = find(args, files, symbols);
    if missing.is_empty() {
        return;
    }
    let not_found = satisfy_from_needed(args, files, &mut missing);
    if missing.is_empty() {
        return;
    }
    // Where nobody is to miss anything, libraries out of sight are none of our business.
    let told = args.unresolved_in_shared != UnresolvedPolicy::Ignore;
    for (soname, by) in not_found.into_iter().filter(|_| told) {
        diag.warn(format!(
            "{soname}, needed by {by}, not found (try using -rpath or -rpath-link)"
        ));
    }
    for (name, all) in missing {
        for missing in all {
            let severity = match (args.unresolved_in_shared, missing.invisible) {
                // GNU ld refuses this whatever the options say.
                (UnresolvedPolicy::Error, _) | (_, Some(_)) => Severity::Error,
                (UnresolvedPolicy::Warn, None) => Severity::Warning,
                (UnresolvedPolicy::Ignore, None) => continue,
            };
            let mut place = Place::file(files.get(missing.file).to_string());
            place.order.input = missing.file.0;
            diag.undefined(severity, name, place);
            let hint = match missing.invisible {
                Some(file) => {
                    let hidden = symbols.facts(missing.symbol).has(Referred::HIDDEN);
                    format!(
                        "{} symbol `{}' in {} is referenced by DSO {}",
                        if hidden { "hidden" } else { "local" },
                        diag.show_name(name),
                        files.get(file),
                        files.get(missing.file)
                    )
                }
                None => "a shared object needs it; --allow-shlib-undefined leaves it to the dynamic linker".into(),
            };
            diag.hint(name, hint);
        }
    }
}

/// References that nothing among the inputs satisfies, by name.
fn find<'a>(
    args: &Args,
    files: &Files<'a>,
    symbols: &SymbolTable<'a>,
) -> BTreeMap<&'a [u8], Vec<Missing>> {
    let mut missing: BTreeMap<&[u8], Vec<Missing>> = BTreeMap::new();
    for (id, file) in files.iter() {
        let Some(shared) = file.shared() else {
            continue;
        };
        for index in shared.strong_references() {
            let symbol = symbols.of(file, index);
            let key = symbols.key(symbol);
            let bits = symbols.facts(symbol);
            let invisible = match key {
                Key::NONE => None,
                key if key.in_object() && !bits.has(Bound::EXPORTED | Defined::BY_SHARED) => {
                    Some(key.file())
                }
                _ => continue,
            };
            let name = shared.name(index);
            if name.is_empty()
                || linker_symbols::is_provided(name)
                || args.ignore_unresolved.iter().any(|ignored| ignored == name)
            {
                continue;
            }
            missing.entry(name).or_default().push(Missing {
                file: id,
                symbol,
                invisible,
            });
        }
    }
    if !missing.is_empty() {
        // Objects under `--as-needed` that nobody uses are not part of the program.
        let used = dynamic::used(files, symbols, false);
        missing.retain(|_, all| {
            all.retain(|missing| used[missing.file.index()]);
            !all.is_empty()
        });
        // Versions that are not the default ones of their names have no place in the symbol table.
        for (_, file) in files.iter() {
            if let Some(shared) = file.shared() {
                remove_defined(shared, &mut missing);
            }
        }
    }
    missing
}

fn remove_defined(shared: &Shared, missing: &mut BTreeMap<&[u8], Vec<Missing>>) {
    for index in shared.first_global..shared.syms.len() as u32 {
        if shared.is_defined(index) {
            missing.remove(shared.name(index));
        }
    }
}

/// Removes what is defined by shared objects that those of the link need. Gives the names of those that are not found,
/// with who needs them.
fn satisfy_from_needed(
    args: &Args,
    files: &Files,
    missing: &mut BTreeMap<&[u8], Vec<Missing>>,
) -> Vec<(String, String)> {
    let search = Search::new(args, Environment::of_process());
    let mut not_found = Vec::new();
    let mut known: HashSet<Vec<u8>> = HashSet::new();
    let mut queue: VecDeque<(PathBuf, Wants)> = VecDeque::new();
    for (_, file) in files.iter() {
        if let Some(shared) = file.shared() {
            known.insert(shared.soname.to_vec());
            queue.push_back((file.path.to_path_buf(), Wants::of(shared)));
        }
    }
    while let Some((path, wants)) = queue.pop_front() {
        for soname in &wants.needed {
            if missing.is_empty() {
                return Vec::new();
            }
            if !known.insert(soname.clone()) {
                continue;
            }
            let by = Needing {
                path: &path,
                rpath: wants.rpath.as_deref(),
                runpath: wants.runpath.as_deref(),
            };
            let found = search
                .needed(OsStr::from_bytes(soname), by)
                .find_map(|candidate| Some((open(&candidate)?, candidate)));
            let Some((map, found)) = found else {
                not_found.push((
                    String::from_utf8_lossy(soname).into_owned(),
                    path.display().to_string(),
                ));
                continue;
            };
            if let Ok(shared) = Shared::parse(&map, soname) {
                remove_defined(&shared, missing);
                queue.push_back((found, Wants::of(&shared)));
            }
        }
    }
    not_found
}

/// What a shared object needs, and where it says that this is.
struct Wants {
    needed: Vec<Vec<u8>>,
    rpath: Option<Vec<u8>>,
    runpath: Option<Vec<u8>>,
}

impl Wants {
    fn of(shared: &Shared) -> Wants {
        Wants {
            needed: shared.needed.iter().map(|name| name.to_vec()).collect(),
            rpath: shared.rpath.map(<[u8]>::to_vec),
            runpath: shared.runpath.map(<[u8]>::to_vec),
        }
    }
}

/// Maps a file if it is a shared object for this machine.
fn open(path: &Path) -> Option<Guarded<Mmap>> {
    let file = std::fs::File::open(path).ok()?;
    // SAFETY: as with all inputs, nobody changes the file while it is linked against.
    let map = Guarded::new(unsafe { Mmap::map(&file) }.ok()?, path);
    Shared::parse(&map, b"").is_ok().then_some(map)
}
