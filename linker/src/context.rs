//! The tables that nearly every step reads, in one value that is handed on by copying.

use crate::diag::Diagnostics;
use crate::file::Files;
use crate::resolve::Definitions;
use crate::sections::Sections;
use crate::symbols::SymbolTable;

/// The inputs of a link, once every name is resolved.
#[derive(Clone, Copy)]
pub struct Context<'l, 'a> {
    /// The inputs.
    pub files: &'l Files<'a>,
    /// Their symbols.
    pub symbols: &'l SymbolTable<'a>,
    /// Where these are defined.
    pub definitions: &'l Definitions,
    /// Their sections.
    pub sections: &'l Sections,
    /// For messages.
    pub diag: &'l Diagnostics,
}
