//! `repo-dump`.

pub mod cli;
pub mod disasm;
pub mod frames;
pub mod output;
