//! The variables that switch off what `repo-cc` does, or part of it: they stand below all that asks for them.

use std::env;

/// Compiles are done, whole, and nothing is recorded of them.
const OFF: &str = "REPO_CC_DISABLE";
/// What is there is used, and nothing new recorded.
const READ_ONLY: &str = "REPO_CC_READONLY";

/// Whether a variable is set, and neither empty nor 0.
pub fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Whether compiles may be skipped, or parts of them.
pub fn is_on() -> bool {
    !is_set(OFF)
}

/// Whether nothing new is to be recorded of compiles.
pub fn is_read_only() -> bool {
    is_set(READ_ONLY)
}
