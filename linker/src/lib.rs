//! The linker: tickets, ELF objects, archives and shared objects in, ELF executables and shared objects out.

pub mod arch;
pub mod archive;
pub mod args;
pub mod build_id;
pub mod debug_compress;
pub mod diag;
pub mod eh_frame;
pub mod gdb_index;
pub mod glob;
pub mod hash_tables;
pub mod import;
pub mod join;
pub mod lto;
pub mod merge;
pub mod note_property;
pub mod output_file;
pub mod relr;
pub mod search;
pub mod split;
pub mod strtab;
pub mod ticket;
pub mod versions;
