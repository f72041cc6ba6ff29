//! What of a full link the state takes note of: which files, and which names.

use super::state::{NameKey, key_of};
use crate::base::ids::{FileId, SymbolId};
use crate::base::key::rank;
use crate::input::file::File;
use crate::link::resolved::Resolved;
use crate::resolve::symbol_facts::Referred;
use rayon::prelude::*;

/// The files that are linked.
pub(super) fn linked<'f, 'a>(
    resolved: &'f Resolved<'_, 'a>,
) -> impl Iterator<Item = ((FileId, &'f File<'a>), &'f bool)> {
    let files = resolved.files.iter().zip(&resolved.linked);
    files.filter(|(_, linked)| **linked)
}

/// The symbols that the program has names for.
pub(super) fn known<'r>(resolved: &'r Resolved) -> impl ParallelIterator<Item = SymbolId> + 'r {
    let symbols = &resolved.symbols;
    symbols.ids().filter(|id| {
        let key = symbols.key(*id);
        let is_used = symbols.facts(*id).has(Referred::BY_OBJECT);
        !symbols.name(*id).is_empty() && (is_used || key.in_object() || key.rank() == rank::LINKER)
    })
}

/// Their names.
pub(super) fn known_names<'r>(
    resolved: &'r Resolved,
) -> impl ParallelIterator<Item = NameKey> + 'r {
    let symbols = &resolved.symbols;
    known(resolved).map(|id| key_of(symbols.name(id)))
}
