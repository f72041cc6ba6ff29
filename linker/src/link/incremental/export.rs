//! A name that others find.

use crate::base::ids::SymbolId;
use crate::elf::Sym;
use crate::resolve::output_sections::Std;

/// A name that others find from now on.
#[derive(Clone, Debug)]
pub(super) struct Export {
    pub what: Exported,
    /// Its entry in `.gnu.version`.
    pub version: u16,
    /// Its number in `.dynsym`.
    pub index: u32,
}

/// What others find by a name.
#[derive(Clone, Debug)]
pub(super) enum Exported {
    /// What an object defines.
    Symbol(SymbolId),
    /// The copy of a variable of a shared object.
    Copy {
        /// The symbol, if objects call it so.
        symbol: Option<SymbolId>,
        name: Vec<u8>,
        /// What is known but for name and section.
        sym: Sym,
        /// Where it is.
        std: Std,
    },
}

impl Export {
    /// The name, if it is one of a copied variable.
    pub fn name(&self) -> &[u8] {
        match &self.what {
            Exported::Symbol(_) => b"",
            Exported::Copy { name, .. } => name,
        }
    }

    /// The symbol that is called so, if it is one of the objects' names.
    pub fn symbol(&self) -> Option<SymbolId> {
        match &self.what {
            Exported::Symbol(symbol) => Some(*symbol),
            Exported::Copy { symbol, .. } => *symbol,
        }
    }
}
