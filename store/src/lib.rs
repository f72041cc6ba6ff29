//! The program repository's storage.
//!
//! * [`engine`]: a transactional, content-addressed store in one file.

pub mod engine;

pub mod program;
