//! `repo-cc` and `repo-dump`, and what the other tools share.

pub mod cc;
pub mod dump;
