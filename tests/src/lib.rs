//! The `tests` crate.
