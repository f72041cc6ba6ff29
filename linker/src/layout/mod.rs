//! Where everything goes: sizes of what the linker makes, sections in order, segments, addresses, by default or by a script.
//!
//! Owns places. Writes no bytes of the output.

pub(crate) mod address_map;
pub(crate) mod commons;
pub(crate) mod dynamic;
pub(crate) mod got;
pub(crate) mod notes;
pub(crate) mod placement;
pub(crate) mod program_headers;
pub(crate) mod relr;
pub(crate) mod scripting;
pub(crate) mod section_index;
pub(crate) mod segment_table;
pub(crate) mod symtab;
pub(crate) mod synthetic_sizes;
