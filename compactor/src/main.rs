//! `repo-gc`, the compactor.

fn main() {}
