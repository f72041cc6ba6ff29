//! `repo-dump`.

fn main() {}
