//! The program graph: what is reached from the entry points, what is equal and therefore merged or folded, and what each fixup asks for.
//!
//! Owns marks and needs. Knows no addresses, and of the output only which tables it needs.

pub(crate) mod eh_frame_records;
pub(crate) mod icf;
pub(crate) mod merge;
pub(crate) mod relocation_action;
pub(crate) mod repository_pieces;
pub(crate) mod sframe;
pub(crate) mod trace;
