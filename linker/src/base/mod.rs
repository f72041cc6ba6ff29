//! What knows nothing of linking: ids, tables of names, patterns.
//!
//! Owns no state of a link and knows no format.

pub(crate) mod atomic_min;
#[cfg(test)]
pub(crate) mod children;
pub(crate) mod edit_distance;
pub(crate) mod glob;
pub(crate) mod ids;
pub(crate) mod interner;
pub(crate) mod key;
