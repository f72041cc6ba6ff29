//! What is said of a link as a whole: undefined symbols, warnings, maps and cross references, dependency files.
//!
//! Reads what all phases have found out; nothing depends on it but the recipes.

pub mod cross_reference;
pub mod dependency_file;
pub mod gnu_warning;
pub mod map;
pub mod shlib_undefined;
pub mod source_lines;
pub mod undefined_hints;
pub mod unresolved;
pub mod warnings;
