//! Between objects and the store: splitting an object into fragments, importing it, and joining a compilation back into an object.
//!
//! Knows the formats of objects and records; nothing of a link.

pub mod import;
pub mod join;
pub mod split;
