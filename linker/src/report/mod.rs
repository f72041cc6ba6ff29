//! What is said of a link as a whole: undefined symbols, warnings, maps and cross references, dependency files.
//!
//! Reads what all phases have found out; nothing depends on it but the recipes.

mod columns;
pub(crate) mod cross_reference;
pub(crate) mod dependency_file;
pub(crate) mod gnu_warning;
pub(crate) mod map;
pub(crate) mod shlib_undefined;
pub(crate) mod source_lines;
pub(crate) mod undefined_hints;
pub(crate) mod unresolved;
pub(crate) mod warnings;
