//! Which of the names that shared objects define take part in a link.
//!
//! The C library defines three thousand names, of which a small program mentions thirty. To intern all of them is most of what
//! there is to do for such a link. But a shared object has a table in which the dynamic linker finds a name in a few steps,
//! `.gnu.hash`; so the names that are mentioned elsewhere are looked for in there, where they are fewer. Nothing else of what a
//! shared object defines can play a part, but for one thing: if a variable is copied into the program, all of its names must
//! be those of the copy. So a variable's other names are interned with it.
//!
//! A table that does not have what the symbol table has is the dynamic linker's misfortune as well. Still a link that fails
//! is done again with all names ([`link`](crate::link::link)), which also helps to find what an undefined name was meant to be.

use crate::args::Args;
use crate::base::ids::SymbolId;
use crate::elf::c;
use crate::elf::hash_tables::gnu_hash;
use crate::input::file::{Body, File, Files};
use crate::input::scripts::Scripts;
use crate::input::shared_object::Shared;
use crate::resolve::name_buckets::Names;
use crate::script::Command;
use memchr::memmem;
use rayon::prelude::*;
use rustc_hash::FxHashSet;

/// Whether nothing but the files' mentions can ask for names.
pub fn may_be_left_out(args: &Args, scripts: &Scripts) -> bool {
    // Scripts can ask whether a name is defined anywhere.
    let mut asks = scripts.script.commands.iter().any(|command| {
        matches!(
            command,
            Command::Assert(_) | Command::Sections(_) | Command::Memory(_)
        )
    });
    scripts.for_assignments(&mut |_, _| asks = true);
    args.may_trust_tables() && !asks
}

/// Whether some are.
pub fn are_left_out(files: &Files) -> bool {
    let mut shared = files.0.iter().filter_map(File::shared);
    shared.any(|shared| shared.mentioned.is_some())
}

/// Leaves out the definitions of shared objects that have a hash table, if they are more than all other mentions of names,
/// which [`find`] then has to look for in each of them.
pub fn hide(files: &mut Files) {
    let (mut mentions, mut hidden) = (0, 0);
    for file in &files.0 {
        let globals = (file.symbol_count() - file.first_global()) as usize;
        match file.shared().filter(|shared| can_be_hidden(shared)) {
            Some(_) => hidden += globals,
            None => mentions += globals,
        }
    }
    if mentions > hidden {
        return;
    }
    for file in &mut files.0 {
        if let Body::Shared(shared) = &mut file.body
            && can_be_hidden(shared)
        {
            let undefined = shared.globals().filter(|index| !shared.is_defined(*index));
            shared.mentioned = Some(undefined.collect());
        }
    }
}

/// Whether all that can be wanted of a shared object's definitions is in its hash table. Of sections' bounds those that it knows
/// are the program's own, though nothing there mentions them (`__start_` and the name of a section).
fn can_be_hidden(shared: &Shared) -> bool {
    let mentions = |text: &[u8]| memmem::find(shared.strtab, text).is_some();
    shared.hash_table().is_some() && !mentions(b"__start_") && !mentions(b"__stop_")
}

/// Finds the names that are there in the shared objects whose definitions are left out, or leaves nothing out if objects say
/// `versions` of names, of which the tables know nothing. `found` is told the slot and the symbol of each.
pub fn find<'a>(
    files: &mut Files<'a>,
    names: &mut Names<'_, 'a>,
    versions: bool,
    mut found: impl FnMut(u32, SymbolId),
) {
    if !are_left_out(files) {
        return;
    }
    if versions {
        return find_all(files, names, found);
    }
    let mut seen = Vec::new();
    loop {
        let new = names.since(&mut seen);
        if new.is_empty() {
            break;
        }
        let hashes: Vec<u32> = new.par_iter().map(|(_, name)| gnu_hash(name)).collect();
        let matches: Vec<Vec<(u32, SymbolId)>> = files
            .0
            .par_iter()
            .map(|file| match file.shared() {
                Some(shared) if shared.mentioned.is_some() => look_up(shared, &new, &hashes),
                _ => Vec::new(),
            })
            .collect();
        for (file, mut matches) in files.0.iter_mut().zip(matches) {
            let (slot_base, first_global) = (file.slot_base, file.first_global());
            let Body::Shared(shared) = &mut file.body else {
                continue;
            };
            let aliases = aliases(shared, &matches);
            matches.extend(
                aliases
                    .into_iter()
                    .map(|index| (index, names.add(shared.name(index)))),
            );
            if let Some(mentioned) = &mut shared.mentioned {
                for (index, symbol) in matches {
                    mentioned.push(index);
                    found(slot_base + (index - first_global), symbol);
                }
            }
        }
    }
    for file in &mut files.0 {
        if let Body::Shared(shared) = &mut file.body
            && let Some(mentioned) = &mut shared.mentioned
        {
            // An alias has been found once by its address, and again by its name.
            mentioned.sort_unstable();
            mentioned.dedup();
        }
    }
}

fn find_all<'a>(
    files: &mut Files<'a>,
    names: &mut Names<'_, 'a>,
    mut found: impl FnMut(u32, SymbolId),
) {
    for file in &mut files.0 {
        let slot_base = file.slot_base;
        let Body::Shared(shared) = &mut file.body else {
            continue;
        };
        if shared.mentioned.take().is_some() {
            for index in shared.globals() {
                if shared.is_defined(index) && shared.is_default(index) {
                    let symbol = names.add(shared.name(index));
                    found(slot_base + (index - shared.first_global), symbol);
                }
            }
        }
    }
}

/// The definitions of these names.
fn look_up(shared: &Shared, names: &[(SymbolId, &[u8])], hashes: &[u32]) -> Vec<(u32, SymbolId)> {
    let Some(table) = shared.hash_table() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for ((id, name), hash) in names.iter().zip(hashes) {
        let matching = table.find(*hash).filter(|index| {
            *index >= shared.first_global
                && shared.is_defined(*index)
                && shared.is_default(*index)
                && shared.name(*index) == *name
        });
        found.extend(matching.map(|index| (index, *id)));
    }
    found
}

/// Other names of the variables among some definitions.
fn aliases(shared: &Shared, found: &[(u32, SymbolId)]) -> Vec<u32> {
    let place = |index: u32| {
        let sym = &shared.syms[index as usize];
        ({ sym.st_shndx }, { sym.st_value })
    };
    let is_function = |index: u32| {
        let kind = shared.syms[index as usize].kind();
        matches!(kind, c::STT_FUNC | c::STT_GNU_IFUNC)
    };
    let variables = found.iter().filter(|(index, _)| !is_function(*index));
    let places: FxHashSet<_> = variables.map(|(index, _)| place(*index)).collect();
    let all = match places.is_empty() {
        true => 0..0,
        false => shared.first_global..shared.syms.len() as u32,
    };
    let known: FxHashSet<u32> = found.iter().map(|(index, _)| *index).collect();
    let aliases = all.filter(|index| {
        places.contains(&place(*index))
            && shared.is_defined(*index)
            && shared.is_default(*index)
            && !known.contains(index)
    });
    aliases.collect()
}
