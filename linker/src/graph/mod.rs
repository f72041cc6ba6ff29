//! The program graph: what is reached from the entry points, what is equal and therefore merged or folded, and what each fixup asks for.
//!
//! Owns marks and needs. Knows no addresses, and of the output only which tables it needs.

pub mod eh_frame_records;
pub mod icf;
pub mod merge;
pub mod relocation_action;
pub mod repository_pieces;
pub mod sframe;
pub mod trace;
