//! The `linker` crate.
