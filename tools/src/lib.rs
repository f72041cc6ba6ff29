//! `repo-cc` and what the other tools share.

pub mod cc;
