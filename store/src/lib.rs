//! The program repository's storage.
//!
//! * [`engine`]: a transactional, content-addressed store in one file.
//! * [`program`]: names, fragments, compilations and tickets, built on it.
//! * [`addresses`]: sets and maps of addresses, for who goes through all of a repository.
//! * [`states`]: the folder in which links keep what they know of their outputs.
//! * [`guard`]: what happens when a program is interrupted, or a file that it has mapped is cut short.

pub mod addresses;
mod damage;
mod describe;
pub mod engine;
pub mod guard;
pub mod heap;
pub mod prefetch;
pub mod program;
pub mod states;

pub use damage::is_damage;
pub use describe::describe;
