//! What knows nothing of linking: ids, tables of names, patterns.
//!
//! Owns no state of a link and knows no format.

pub mod atomic_min;
pub mod glob;
pub mod ids;
pub mod interner;
