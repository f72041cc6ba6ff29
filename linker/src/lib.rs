//! The `linker` crate.

pub mod arch;
