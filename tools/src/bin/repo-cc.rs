//! `repo-cc`.

fn main() {}
