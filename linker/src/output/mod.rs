//! The bytes of the output: input sections copied and relocated, the linker's own tables, and the file that they go to.
//!
//! Changes nothing that an earlier phase has found out.

pub(crate) mod debug_sections;
pub(crate) mod emit_relocs;
pub(crate) mod flat_binary;
pub(crate) mod image_writer;
pub(crate) mod output_file;
pub(crate) mod relocate;
pub(crate) mod symtab_shndx;
pub(crate) mod synthetic_sections;
