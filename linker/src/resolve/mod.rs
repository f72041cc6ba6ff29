//! Names and sections: which definition each name means, which output section each input section goes to, what is exported and under which version.
//!
//! Owns the symbol table, the sections and the output sections. Knows no addresses.

pub(crate) mod binding;
pub(crate) mod input_sections;
pub(crate) mod lazy_shared_names;
pub(crate) mod linker_symbols;
pub(crate) mod local_suffixes;
mod name_buckets;
pub(crate) mod output_sections;
pub(crate) mod resolution;
pub(crate) mod retain_symbols_file;
pub(crate) mod room;
pub(crate) mod roots;
pub(crate) mod section_rules;
pub(crate) mod symbol_facts;
pub(crate) mod symbol_table;
pub(crate) mod symbol_versions;
pub(crate) mod unique_sections;
