//! Inputs: from words of the command line and of scripts to parsed files.
//!
//! Owns what files are and what stands in them. Knows nothing of which definition is taken, and of outputs nothing but where they are.

pub(crate) mod default_script;
pub mod elf_object;
pub(crate) mod file;
pub mod host;
pub mod library_search;
pub(crate) mod made_objects;
pub(crate) mod mapped_bytes;
pub(crate) mod object;
pub(crate) mod open;
pub(crate) mod parts;
pub(crate) mod record_image;
pub(crate) mod remap;
pub mod scripts;
pub mod shared_object;
pub(crate) mod stamp;
pub(crate) mod standard_sections;
pub(crate) mod temporary_name;
mod ticket_object;
pub(crate) mod unseekable;
