//! Inputs: from words of the command line and of scripts to parsed files.
//!
//! Owns what files are and what stands in them. Knows nothing of which definition is taken, and of outputs nothing but where they are.

pub mod default_script;
pub mod elf_object;
pub mod file;
pub mod host;
pub mod library_search;
pub mod made_objects;
pub mod mapped_bytes;
pub mod object;
pub mod open;
pub mod record_image;
pub mod remap;
pub mod scripts;
pub mod shared_object;
pub mod stamp;
pub mod temporary_name;
pub mod ticket_object;
pub mod unseekable;
