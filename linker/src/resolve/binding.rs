//! Binding: for each symbol, whether it is bound here, imported, exported, or undefined.
//!
//! It follows from the definition that won, the visibility (gABI, "Symbol
//! Visibility": the most constraining of all files counts), the kind of the output
//! and the options. From here on a symbol's [`flag`]s say all that relocations
//! depend on.

use crate::args::{Args, OutputKind, Symbolic, UnresolvedPolicy};
use crate::base::ids::SymbolId;
use crate::base::key::{Key, rank};
use crate::elf::c;
use crate::input::file::{File, Files};
use crate::resolve::symbol_table::{SymbolTable, flag};
use crate::resolve::symbol_versions::{Versioning, is_wanted};
use rayon::prelude::*;

/// Sets [`flag::IMPORTED`], [`flag::EXPORTED`], [`flag::UNDEFINED`] and [`flag::UNDEFINED_WEAK`].
pub fn bind(
    files: &Files,
    symbols: &SymbolTable,
    versioning: &Versioning,
    args: &Args,
    dynamic: bool,
) {
    let shared = args.kind == OutputKind::Shared;
    // Whoever loads a program that names no dynamic linker and needs shared objects is one.
    let has_dynamic_linker = !args.kind.is_static()
        && (!args.no_dynamic_linker || files.iter().any(|(_, file)| file.shared().is_some()));
    let is_ignored = |id| {
        let mut ignored = args.ignore_unresolved.iter();
        ignored.any(|name| name == symbols.name(id))
    };
    let weak_to_dynamic_linker =
        dynamic && has_dynamic_linker && args.z.dynamic_undefined_weak.unwrap_or(true);
    let missing = |id, bits| undefined(args, is_ignored(id), bits, shared, weak_to_dynamic_linker);
    // Who means a version must know whose it is.
    let has_version = |id| symbols.name(id).contains(&b'@');
    symbols.ids().for_each(|id| {
        let bits = symbols.flags(id);
        let key = symbols.key(id);
        let add = match key.rank() {
            rank::STRONG | rank::COMMON | rank::WEAK | rank::LINKER if !dynamic => 0,
            rank::STRONG | rank::COMMON | rank::WEAK | rank::LINKER => {
                exports(files, symbols, versioning, args, id)
            }
            // A reference that must not leave the output cannot be satisfied from outside.
            rank::SHARED
                if bits & (flag::HIDDEN | flag::INTERNAL) != 0 && bits & flag::REFERENCED != 0 =>
            {
                symbols.set_key(id, Key::NONE);
                missing(id, bits)
            }
            rank::SHARED => flag::IMPORTED,
            _ if bits & flag::REFERENCED_STRONGLY != 0 && has_version(id) => flag::UNDEFINED,
            _ if bits & flag::REFERENCED != 0 => missing(id, bits),
            _ => 0,
        };
        if add != 0 {
            symbols.add_flags(id, add);
        }
    });
}

/// What [`bind`] finds out of a definition in a dynamic output, as [`flag`]s: whether others see it, and whether they may put
/// theirs in its place.
pub fn exports(
    files: &Files,
    symbols: &SymbolTable,
    versioning: &Versioning,
    args: &Args,
    id: SymbolId,
) -> u32 {
    let (key, bits) = (symbols.key(id), symbols.flags(id));
    if bits & (flag::HIDDEN | flag::INTERNAL | flag::FORCED_LOCAL) != 0 {
        return 0;
    }
    // `f@@`, an explicit default version without a name, is an export that `--exclude-libs` does not take back.
    let is_explicit = || {
        key.in_object()
            && files
                .get(key.file())
                .symbol_name(key.index())
                .ends_with(b"@@")
    };
    if files.get(key.file()).exclude && !is_explicit() {
        return flag::FORCED_LOCAL;
    }
    let listed =
        || versioning.is_listed(symbols.name(id)) || args.dynamic_list_data && is_data(files, key);
    if !is_wanted(symbols, versioning, args, id) && !listed() {
        return 0;
    }
    let has_list = args.has_dynamic_list();
    let preemptible = args.kind == OutputKind::Shared
        && bits & flag::PROTECTED == 0
        && match args.symbolic {
            Symbolic::None if !has_list => true,
            // What a dynamic list names can be preempted, and nothing else.
            _ if listed() => true,
            _ if has_list => false,
            Symbolic::None => true,
            Symbolic::All => false,
            Symbolic::Functions => bits & flag::FUNCTION == 0,
            Symbolic::NonWeak => key.rank() == rank::WEAK,
            Symbolic::NonWeakFunctions => bits & flag::FUNCTION == 0 || key.rank() == rank::WEAK,
        };
    // The dynamic linker must not call a program's resolver for others before the program is relocated: they get the
    // address of the PLT entry.
    let canonical = match args.kind.is_executable() && bits & flag::IFUNC != 0 {
        true => flag::NEEDS_PLT | flag::CANONICAL_PLT,
        false => 0,
    };
    canonical | flag::EXPORTED | if preemptible { flag::IMPORTED } else { 0 }
}

/// A variable or a common block of an object.
fn is_data(files: &Files, key: Key) -> bool {
    let object = files.definer(key).and_then(File::object);
    let symbol = object.and_then(|object| object.symbol(key.index()));
    key.in_object()
        && symbol.is_some_and(|symbol| matches!(symbol.kind(), c::STT_OBJECT | c::STT_COMMON))
}

/// What becomes of a reference that nothing defines.
fn undefined(
    args: &Args,
    is_ignored: bool,
    bits: u32,
    shared: bool,
    weak_to_dynamic_linker: bool,
) -> u32 {
    let visible = bits & flag::NOT_DEFAULT == 0;
    if bits & flag::REFERENCED_STRONGLY == 0 {
        let imported = visible && weak_to_dynamic_linker;
        return flag::UNDEFINED_WEAK | if imported { flag::IMPORTED } else { 0 };
    }
    // What must be defined here is missed whatever the options say.
    if !visible {
        return flag::UNDEFINED;
    }
    // Left to the dynamic linker, or, by a program, to nobody.
    let left = match shared {
        true => flag::IMPORTED,
        false => flag::UNDEFINED_WEAK,
    };
    match args.unresolved {
        UnresolvedPolicy::Ignore => left,
        _ if is_ignored => left,
        UnresolvedPolicy::Warn => left | flag::UNDEFINED,
        UnresolvedPolicy::Error => flag::UNDEFINED,
    }
}
