//! What the end-to-end tests (`tests/*.rs` here), `cargo xtask` and the
//! benchmarks share: finding the tools of the machine and of this project,
//! running them, and building real programs with them.
//!
//! | module | subject |
//! |---|---|
//! | [`tools`] | compilers and binutils of the machine, and what to do without them |
//! | [`binaries`] | this project's own programs, built once |
//! | [`sources`] | other people's C and C++, from the registry |
//! | [`programs`] | the real programs that are built, as lists of sources |
//! | [`build`] | compiling and linking such a program, in parallel |
//! | [`process`] | running a program with a time limit, and saying what it said |
//! | [`compare`] | the same command with and without `repo-cc` |
//! | [`memo`] | compiles that `repo-cc` may know, compared with compiles |
//! | [`draw`] | numbers as good as random |
//! | [`mutations`] | random edits of other people's sources |
//! | [`random_cxx`] | random programs, edited part by part |
//! | [`relink`] | a directory in which programs are linked again and again |
//! | [`scratch`] | a directory with a repository of its own |
//!
//! Every test that builds something builds it twice: by the compiler as it is,
//! and through `repo-cc` and `repo-ld`. What both programs do must be equal, and
//! right.

pub mod binaries;
pub mod build;
pub mod compare;
pub mod draw;
pub mod edited_trees;
pub mod edits;
pub mod memo;
pub mod mutations;
pub mod process;
pub mod programs;
pub mod pruned;
pub mod random_cxx;
pub mod relink;
pub mod scratch;
pub mod sources;
pub mod tools;
