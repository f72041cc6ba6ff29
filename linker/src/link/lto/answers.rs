//! What the plugin is told of each symbol of the files that it took ("Link Time Optimization",
//! the plugin interface's `ld_plugin_symbol_resolution`).
//!
//! The compiler may do as it likes with a definition that only intermediate code refers to:
//! change its parameters, inline it everywhere and drop it. So the question is what else can
//! refer to one: objects of machine code, the command line and linker scripts, and at run time
//! other modules. And one thing more: the code that the compiler makes may call functions that
//! its source does not name (`__divti3`, `memcpy` for an assignment, `puts` for a `printf`).
//! These may bring in members of archives that are not linked yet, and what such members refer
//! to must be there when they come.

use super::plugin::{LtoSymbol, Resolution, SymbolKind};
use crate::args::{Args, OutputKind};
use crate::base::ids::{FileId, SymbolId};
use crate::base::key::{Key, rank};
use crate::input::file::{Body, Files};
use crate::input::parts::Place;
use crate::input::scripts::Scripts;
use crate::resolve::roots::required;
use crate::resolve::symbol_facts::Bound;
use crate::resolve::symbol_table::SymbolTable;
use rayon::prelude::*;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Who refers to what, once symbols are resolved and bound.
pub struct Answers<'l, 'a> {
    files: &'l Files<'a>,
    symbols: &'l SymbolTable<'a>,
    /// Intermediate code, by file.
    taken: Vec<bool>,
    /// Something that is linked and is not intermediate code mentions it, by symbol.
    mentioned: Vec<AtomicBool>,
    /// The output will be linked again.
    relocatable: bool,
}

impl<'l, 'a> Answers<'l, 'a> {
    /// Finds what machine code and the command line mention. `taken` are the stand-ins for intermediate code.
    pub fn new(
        files: &'l Files<'a>,
        symbols: &'l SymbolTable<'a>,
        linked: &[bool],
        taken: impl Iterator<Item = FileId>,
        scripts: &Scripts,
        args: &Args,
    ) -> Self {
        let mut is_taken = vec![false; files.0.len()];
        taken.for_each(|file| is_taken[file.index()] = true);
        let mentioned: Vec<AtomicBool> = (0..symbols.id_limit())
            .map(|_| AtomicBool::new(false))
            .collect();
        let mention = |id: SymbolId| {
            if let Some(slot) = mentioned.get(id.index()) {
                slot.store(true, Relaxed);
            }
        };
        files.0.par_iter().enumerate().for_each(|(index, file)| {
            let counts = match &file.body {
                Body::Linker(_) => true,
                Body::Object(_) => linked[index] && !is_taken[index],
                // What those refer to is exported.
                Body::Shared(_) => false,
            };
            if counts {
                (file.first_global()..file.symbol_count())
                    .for_each(|index| mention(symbols.of(file, index)));
            }
        });
        required(args, scripts, symbols)
            .into_iter()
            .for_each(mention);
        [&args.init[..], &args.fini[..]]
            .into_iter()
            .filter_map(|name| symbols.find(name))
            .for_each(mention);
        late_members(files, symbols, linked, &is_taken, mention);
        Answers {
            files,
            symbols,
            taken: is_taken,
            mentioned,
            relocatable: args.kind == OutputKind::Relocatable,
        }
    }

    /// The resolutions of a linked stand-in's symbols, in the plugin's order.
    pub fn of(&self, file: FileId, claimed: &[LtoSymbol]) -> Vec<Resolution> {
        let input = self.files.get(file);
        (input.first_global()..input.symbol_count())
            .zip(claimed)
            .map(|(index, symbol)| {
                let id = self.symbols.of(input, index);
                let key = self.symbols.key(id);
                let is_definition = !matches!(
                    symbol.kind,
                    SymbolKind::Undefined | SymbolKind::WeakUndefined
                );
                let is_winner = key.in_object() && (key.file(), key.index()) == (file, index);
                match is_definition {
                    true if is_winner => self.winner(id),
                    true if self.is_intermediate(key) => Resolution::PreemptedByIr,
                    true => Resolution::PreemptedByObject,
                    false => self.reference(key),
                }
            })
            .collect()
    }

    fn is_intermediate(&self, key: Key) -> bool {
        key.in_object() && self.taken[key.file().index()]
    }

    fn winner(&self, id: SymbolId) -> Resolution {
        if self.relocatable || self.mentioned[id.index()].load(Relaxed) {
            Resolution::Prevailing
        } else if self.symbols.facts(id).has(Bound::EXPORTED) {
            Resolution::PrevailingIrOnlyExported
        } else {
            Resolution::PrevailingIrOnly
        }
    }

    fn reference(&self, key: Key) -> Resolution {
        match key.rank() {
            _ if self.is_intermediate(key) => Resolution::ResolvedInIr,
            rank::STRONG | rank::COMMON | rank::WEAK | rank::LINKER => Resolution::ResolvedInObject,
            rank::SHARED => Resolution::ResolvedInShared,
            _ => Resolution::Undefined,
        }
    }
}

/// Calls `mention` with what those members of archives mention that are not linked yet, and that calls which compilers
/// add may bring in, directly or through others.
fn late_members(
    files: &Files,
    symbols: &SymbolTable,
    linked: &[bool],
    taken: &[bool],
    mention: impl Fn(SymbolId),
) {
    let may_come = |(id, _): &(FileId, _)| !linked[id.index()] && !taken[id.index()];
    let mut definitions: HashMap<SymbolId, FileId> = HashMap::new();
    let mut queue = Vec::new();
    for (id, file) in files.iter().filter(may_come) {
        let Some(object) = file.object() else {
            continue;
        };
        for index in file.first_global()..file.symbol_count() {
            let symbol = symbols.of(file, index);
            let is_defined = object
                .symbol(index)
                .is_some_and(|symbol| symbol.place != Place::Undefined);
            // For a name that is asked for, members and shared objects count in the order of the command line.
            let key = symbols.key(symbol);
            let is_free = key == Key::NONE || key.rank() == rank::SHARED && key.file() > id;
            if is_defined && is_free {
                definitions.entry(symbol).or_insert(id);
                if may_be_added(symbols.name(symbol)) {
                    queue.push(symbol);
                }
            }
        }
    }
    let mut seen: HashSet<FileId> = HashSet::new();
    while let Some(symbol) = queue.pop() {
        let Some(id) = definitions.get(&symbol).filter(|id| seen.insert(**id)) else {
            continue;
        };
        let file = files.get(*id);
        for index in file.first_global()..file.symbol_count() {
            let symbol = symbols.of(file, index);
            mention(symbol);
            queue.push(symbol);
        }
    }
}

/// Whether compilers add calls of a function that the source does not name. Their own libraries' functions begin with
/// two underscores. It does no harm to take too many for such.
fn may_be_added(name: &[u8]) -> bool {
    const PREFIXES: &[&[u8]] = &[
        b"__",
        b"_Unwind_",
        b"mem",
        b"str",
        b"stp",
        b"put",
        b"fput",
        b"fwrite",
    ];
    const NAMES: &[&[u8]] = &[
        b"abort", b"bcmp", b"bzero", b"calloc", b"cabs", b"free", b"ldexp", b"malloc", b"printf",
        b"sprintf", b"fprintf",
    ];
    const MATHEMATICS: &[&[u8]] = &[
        b"cbrt",
        b"ceil",
        b"copysign",
        b"cos",
        b"exp",
        b"exp10",
        b"exp2",
        b"fabs",
        b"floor",
        b"fma",
        b"fmax",
        b"fmin",
        b"fmod",
        b"log",
        b"log10",
        b"log2",
        b"lrint",
        b"lround",
        b"llrint",
        b"llround",
        b"nearbyint",
        b"pow",
        b"rint",
        b"round",
        b"roundeven",
        b"sin",
        b"sincos",
        b"sqrt",
        b"tan",
        b"trunc",
    ];
    let stem = match name {
        // `float` and `long double`.
        [stem @ .., b'f' | b'l'] => stem,
        _ => name,
    };
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || NAMES.contains(&name)
        || MATHEMATICS
            .iter()
            .any(|function| *function == name || *function == stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_compilers_call() {
        for name in [
            "__divti3",
            "memcpy",
            "puts",
            "sqrtf",
            "ceil",
            "_Unwind_Resume",
        ] {
            assert!(may_be_added(name.as_bytes()), "{name}");
        }
        for name in ["_ZN3foo3barEv", "main", "read_file", "costs"] {
            assert!(!may_be_added(name.as_bytes()), "{name}");
        }
    }
}
