//! Attacks on `repo-cc`, `repo-ld`, `repo-gc`, `repo-dump` and their repositories, as a table: each row is a function that
//! makes one try and judges what it sees.
//!
//! A try begins from the same small program, compiled into a repository of its own ([`Field`]). It then kills, damages,
//! starves or misleads, as its random numbers say, and asks the oracle ([`oracle`]): every program ends by itself with
//! exit code 0 or 1 and without a panic, nothing half-written is left, and afterwards the program can be linked and runs
//! right, or (where bytes were changed) there is a clear error.
//!
//! [`run()`] makes tries until a number or a time is reached, keeps the directory of each that failed, and gives the table.
//! The numbers depend on the seed only; where processes run beside each other, the moments at which they meet do not.

pub mod attacks;
pub mod field;
pub mod oracle;
pub mod run;

pub use attacks::{ATTACKS, Attack};
pub use field::Field;
pub use run::{Extent, Row, run};

/// What a try found: nothing, that it cannot be made here, or a failure.
pub type Verdict = Result<(), Failure>;

/// Why a try does not count as withstood.
#[derive(Debug)]
pub enum Failure {
    /// This machine lacks what the attack needs.
    Impossible(String),
    /// A program did what it must not do.
    Broken(String),
}

impl Failure {
    /// A program did what it must not.
    pub fn broken(why: impl Into<String>) -> Failure {
        Failure::Broken(why.into())
    }
}
