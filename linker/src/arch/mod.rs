//! What depends on the instruction set.

pub mod x86_64;
