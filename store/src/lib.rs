//! The program repository's storage.
//!
//! * [`engine`]: a transactional, content-addressed store in one file.
//! * [`program`]: names, fragments, compilations and tickets, built on it.

mod damage;
mod describe;
pub mod engine;

pub mod program;

pub use damage::is_damage;
pub use describe::describe;
