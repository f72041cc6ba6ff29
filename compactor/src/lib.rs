//! The `compactor` crate.
