//! `repo-ld`, in place of `ld`.

fn main() {}
