//! The program model on the engine: names, pieces, fragments, compilations, tickets.
//!
//! Knows no object file format: constants of ELF appear only as numbers that are kept.

pub mod build;
mod error;
mod prepare;

pub use error::ProgramError;
pub use prepare::Prepared;
