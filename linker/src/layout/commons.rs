//! Common blocks: which of them are in the output, and where.
//!
//! A common block has no section. Those that are linked stand one behind the other in a part of `.bss` (or `.tbss`, or where a linker
//! script's rule wants them), in the order of their files, the large ones last.

use super::placement;
use crate::base::ids::{PartId, SymbolId};
use crate::resolve::resolution::{Common, Definitions};
use crate::resolve::symbol_table::SymbolTable;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Size in bytes of the largest data that compilers do not take for large (gcc's `-mlarge-data-threshold`).
const LARGE_DATA: u64 = 65536;

/// The common blocks in the output.
#[derive(Default)]
pub struct Commons {
    /// In the order of their files.
    pub linked: Vec<Common>,
    /// Size and alignment of each part that has some.
    pub extents: Vec<(PartId, (u64, u64))>,
    offsets: FxHashMap<SymbolId, u64>,
}

impl Commons {
    /// Lays out those that are linked, once it is known which are.
    pub fn place(definitions: &Definitions, symbols: &SymbolTable) -> Commons {
        let linked: Vec<Common> = definitions.commons_of(symbols).copied().collect();
        let mut extents: BTreeMap<PartId, (u64, u64)> = BTreeMap::new();
        let mut offsets = FxHashMap::default();
        // What code of the small model wants to reach is not put behind what that of the medium model calls large.
        let is_large = |common: &&Common| common.size > LARGE_DATA;
        let small = linked.iter().filter(|common| !is_large(common));
        for common in small.chain(linked.iter().filter(is_large)) {
            let part = definitions.common_part(common.symbol, common.tls);
            let (size, align) = extents.entry(part).or_insert((0, 1));
            let (at, end) = placement::append(*size, common.size, common.align);
            offsets.insert(common.symbol, at);
            *size = end;
            *align = (*align).max(common.align);
        }
        Commons {
            linked,
            extents: extents.into_iter().collect(),
            offsets,
        }
    }

    /// The offset of a symbol's block in its part; 0 if there is none.
    pub fn offset(&self, id: SymbolId) -> u64 {
        self.offsets.get(&id).copied().unwrap_or(0)
    }
}
