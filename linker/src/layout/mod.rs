//! Where everything goes: sizes of what the linker makes, sections in order, segments, addresses, by default or by a script.
//!
//! Owns places. Writes no bytes of the output.

pub mod address_map;
pub mod dynamic;
pub mod got;
pub mod notes;
pub mod placement;
pub mod program_headers;
pub mod relr;
pub mod scripting;
pub mod section_index;
pub mod symtab;
pub mod synthetic_sizes;
