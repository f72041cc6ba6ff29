//! The bytes of the output: input sections copied and relocated, the linker's own tables, and the file that they go to.
//!
//! Changes nothing that an earlier phase has found out.

pub mod debug_sections;
pub mod emit_relocs;
pub mod flat_binary;
pub mod image_writer;
pub mod output_file;
pub mod relocate;
pub mod synthetic_sections;
