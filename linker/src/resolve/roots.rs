//! Symbols that the command line names: those that must have a number, those that are
//! looked for, those that keep what they are in, and `--wrap`.

use crate::args::{Args, Entry};
use crate::base::glob::Glob;
use crate::base::ids::SymbolId;
use crate::base::key::rank;
use crate::input::file::{Body, Files};
use crate::input::open::InputArena;
use crate::input::parts::Place;
use crate::input::scripts::Scripts;
use crate::resolve::linker_symbols::{self, LinkerSymbols, Meaning};
use crate::resolve::output_sections::Outputs;
use crate::resolve::symbol_facts::{Bound, Referred};
use crate::resolve::symbol_table::SymbolTable;
use rayon::prelude::*;

/// Names that the linker itself mentions, so that they have numbers.
pub fn mentioned<'a>(args: &Args, arena: &'a InputArena) -> Vec<&'a [u8]> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    names.extend(args.undefined.iter().chain(&args.require_defined).cloned());
    names.extend(args.entry.iter().map(|entry| entry.symbol().to_vec()));
    for name in &args.wrap {
        names.push(name.clone());
        names.push([b"__wrap_", &name[..]].concat());
        names.push([b"__real_", &name[..]].concat());
    }
    names.extend(
        linker_symbols::exported(args)
            .iter()
            .map(|name| name.to_vec()),
    );
    names.extend(linker_symbols::always_named(args).map(<[u8]>::to_vec));
    names.into_iter().map(|name| arena.bytes(name)).collect()
}

/// `--wrap=f`: undefined references to `f` mean `__wrap_f`, those to `__real_f` mean `f`.
pub fn wrap(args: &Args, files: &Files, symbols: &SymbolTable) {
    for name in &args.wrap {
        let wrapped = symbols.find(name);
        let wrapper = symbols.find(&[b"__wrap_", &name[..]].concat());
        let real = symbols.find(&[b"__real_", &name[..]].concat());
        let (Some(wrapped), Some(wrapper), Some(real)) = (wrapped, wrapper, real) else {
            continue;
        };
        for (_, file) in files.iter() {
            let Body::Object(object) = &file.body else {
                continue;
            };
            for index in file.first_global()..file.symbol_count() {
                if object
                    .symbol(index)
                    .is_some_and(|symbol| symbol.place == Place::Undefined)
                {
                    let id = symbols.of(file, index);
                    if id == wrapped {
                        symbols.rebind(file, index, wrapper);
                    } else if id == real {
                        symbols.rebind(file, index, wrapped);
                    }
                }
            }
        }
    }
}

/// Symbols that are looked for as if an object referred to them.
pub fn required(args: &Args, scripts: &Scripts, symbols: &SymbolTable) -> Vec<SymbolId> {
    let mut ids = named(args, symbols);
    scripts.for_assignments(&mut |assignment, _| {
        if !assignment.provide {
            let mut add = |name: &Vec<u8>| ids.extend(symbols.find(name));
            assignment.expr.for_symbols(&mut add);
        }
    });
    ids
}

/// Symbols that the command line names.
fn named(args: &Args, symbols: &SymbolTable) -> Vec<SymbolId> {
    let entry = args.entry_name();
    let names = args
        .undefined
        .iter()
        .chain(&args.require_defined)
        .map(|name| &name[..]);
    let mut required: Vec<SymbolId> = names
        .chain((args.kind.is_executable() || args.entry.is_some()).then_some(entry))
        .filter_map(|name| symbols.find(name))
        .collect();
    if !args.undefined_glob.is_empty() {
        let globs: Vec<Glob> = args
            .undefined_glob
            .iter()
            .map(|glob| Glob::new(glob))
            .collect();
        let matching = symbols.ids().filter(|id| {
            let name = symbols.name(*id);
            !name.is_empty() && globs.iter().any(|glob| glob.matches(name))
        });
        required.extend(matching.collect::<Vec<SymbolId>>());
    }
    required
}

/// Symbols that the command line, or a script, asks for by name: a `PROVIDE` of one is wanted.
pub fn looked_for(args: &Args, symbols: &SymbolTable) -> Vec<SymbolId> {
    let names = args.undefined.iter().chain(&args.require_defined);
    let entry = args.entry.as_ref().map(Entry::symbol);
    names
        .map(|name| &name[..])
        .chain(entry)
        .filter_map(|name| symbols.find(name))
        .collect()
}

/// Whether it is known where an executable starts. Without an entry symbol it starts with its first code, whatever that
/// is; then nobody can tell what is reached.
pub fn has_start(args: &Args, symbols: &SymbolTable) -> bool {
    let is_defined = |id: SymbolId| {
        let key = symbols.key(id);
        key.in_object() || key.rank() == rank::LINKER
    };
    !args.kind.is_executable() || symbols.find(args.entry_name()).is_some_and(is_defined)
}

/// What is kept whoever refers to it: by name, and all that others can find at run time. `assigned` are the symbols that
/// assignments of scripts refer to.
pub fn roots(args: &Args, assigned: Vec<SymbolId>, symbols: &SymbolTable) -> Vec<SymbolId> {
    let mut roots = named(args, symbols);
    // A shared object may have a start as well.
    roots.extend(symbols.find(args.entry_name()));
    roots.extend(assigned);
    roots.extend(
        [&args.init, &args.fini]
            .into_iter()
            .filter_map(|name| symbols.find(name)),
    );
    // What `--gc-keep-exported` keeps could be exported, though it is not.
    let invisible = Referred::NOT_EXPORTED | Bound::FORCED_LOCAL;
    let exported: Vec<SymbolId> = symbols
        .ids()
        .filter(|id| {
            let bits = symbols.facts(*id);
            bits.has(Bound::EXPORTED)
                || args.gc_keep_exported && !bits.has(invisible) && symbols.key(*id).in_object()
        })
        .collect();
    roots.extend(exported);
    roots
}

/// Parts of the sections whose `__start_` or `__stop_` symbols are in use: nothing in them is collected.
pub fn bounded_parts(args: &Args, outputs: &Outputs, linker_symbols: &LinkerSymbols) -> Vec<bool> {
    let bounds = |output| {
        linker_symbols.iter().any(|(_, meaning)| matches!(meaning, Meaning::Start(id) | Meaning::Stop(id) if *id == output))
    };
    outputs
        .parts
        .iter()
        .map(|part| !(args.gc_sections && args.z.start_stop_gc) && bounds(part.output))
        .collect()
}
