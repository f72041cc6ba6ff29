//! The `store` crate.
