//! Binding: for each symbol, whether it is bound here, imported, exported, or undefined.
//!
//! It follows from the definition that won, the visibility (gABI, "Symbol
//! Visibility": the most constraining of all files counts), the kind of the output
//! and the options. From here on a symbol's [`SymbolFacts`] say all that relocations
//! depend on.

use crate::args::{Args, OutputKind, Symbolic, UnresolvedPolicy};
use crate::base::ids::SymbolId;
use crate::base::key::{Key, rank};
use crate::elf::c;
use crate::input::file::{File, Files};
use crate::resolve::symbol_facts::{Bound, Defined, Demand, Referred, SymbolFacts};
use crate::resolve::symbol_table::SymbolTable;
use crate::resolve::symbol_versions::{Versioning, is_wanted};
use rayon::prelude::*;

/// Sets [`Bound::IMPORTED`], [`Bound::EXPORTED`], [`Bound::UNDEFINED`] and [`Bound::UNDEFINED_WEAK`].
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
        let bits = symbols.facts(id);
        let key = symbols.key(id);
        let add = match key.rank() {
            rank::STRONG | rank::COMMON | rank::WEAK | rank::LINKER if !dynamic => {
                SymbolFacts::NONE
            }
            rank::STRONG | rank::COMMON | rank::WEAK | rank::LINKER => {
                exports(files, symbols, versioning, args, id)
            }
            // A reference that must not leave the output cannot be satisfied from outside.
            rank::SHARED if bits.has(Referred::NOT_EXPORTED) && bits.has(Referred::BY_OBJECT) => {
                symbols.set_key(id, Key::NONE);
                missing(id, bits).facts()
            }
            rank::SHARED => Bound::IMPORTED.facts(),
            _ if bits.has(Referred::STRONGLY) && has_version(id) => Bound::UNDEFINED.facts(),
            _ if bits.has(Referred::BY_OBJECT) => missing(id, bits).facts(),
            _ => SymbolFacts::NONE,
        };
        if !add.is_empty() {
            symbols.add_facts(id, add);
        }
    });
}

/// What [`bind`] finds out of a definition in a dynamic output, as [`Bound`], and as [`Demand`]: whether others see it, and whether they may put
/// theirs in its place; and the PLT entry that an IFUNC of a program needs if they see it.
pub fn exports(
    files: &Files,
    symbols: &SymbolTable,
    versioning: &Versioning,
    args: &Args,
    id: SymbolId,
) -> SymbolFacts {
    let (key, bits) = (symbols.key(id), symbols.facts(id));
    if bits.has(Referred::NOT_EXPORTED | Bound::FORCED_LOCAL) {
        return SymbolFacts::NONE;
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
        return Bound::FORCED_LOCAL.facts();
    }
    let listed =
        || versioning.is_listed(symbols.name(id)) || args.dynamic_list_data && is_data(files, key);
    if !is_wanted(symbols, versioning, args, id) && !listed() {
        return SymbolFacts::NONE;
    }
    let has_list = args.has_dynamic_list();
    let preemptible = args.kind == OutputKind::Shared
        && !bits.has(Referred::PROTECTED)
        && match args.symbolic {
            Symbolic::None if !has_list => true,
            // What a dynamic list names can be preempted, and nothing else.
            _ if listed() => true,
            _ if has_list => false,
            Symbolic::None => true,
            Symbolic::All => false,
            Symbolic::Functions => !bits.has(Defined::FUNCTION),
            Symbolic::NonWeak => key.rank() == rank::WEAK,
            Symbolic::NonWeakFunctions => !bits.has(Defined::FUNCTION) || key.rank() == rank::WEAK,
        };
    // The dynamic linker must not call a program's resolver for others before the program is relocated: they get the
    // address of the PLT entry.
    let canonical = match args.kind.is_executable() && bits.has(Defined::IFUNC) {
        true => Demand::PLT | Demand::CANONICAL_PLT,
        false => Demand::NONE,
    };
    canonical
        | match preemptible {
            true => Bound::EXPORTED | Bound::IMPORTED,
            false => Bound::EXPORTED,
        }
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
    bits: SymbolFacts,
    shared: bool,
    weak_to_dynamic_linker: bool,
) -> Bound {
    let visible = !bits.has(Referred::NOT_DEFAULT);
    if !bits.has(Referred::STRONGLY) {
        return match visible && weak_to_dynamic_linker {
            true => Bound::UNDEFINED_WEAK | Bound::IMPORTED,
            false => Bound::UNDEFINED_WEAK,
        };
    }
    // What must be defined here is missed whatever the options say.
    if !visible {
        return Bound::UNDEFINED;
    }
    // Left to the dynamic linker, or, by a program, to nobody.
    let left = match shared {
        true => Bound::IMPORTED,
        false => Bound::UNDEFINED_WEAK,
    };
    match args.unresolved {
        UnresolvedPolicy::Ignore => left,
        _ if is_ignored => left,
        UnresolvedPolicy::Warn => left | Bound::UNDEFINED,
        UnresolvedPolicy::Error => Bound::UNDEFINED,
    }
}
