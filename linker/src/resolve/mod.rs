//! Names and sections: which definition each name means, which output section each input section goes to, what is exported and under which version.
//!
//! Owns the symbol table, the sections and the output sections. Knows no addresses.

pub mod binding;
pub mod input_sections;
pub mod lazy_shared_names;
pub mod linker_symbols;
pub mod local_suffixes;
pub mod output_sections;
pub mod resolution;
pub mod retain_symbols_file;
pub mod room;
pub mod roots;
pub mod section_rules;
pub mod symbol_table;
pub mod symbol_versions;
pub mod unique_sections;
