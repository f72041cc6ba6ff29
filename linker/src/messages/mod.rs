//! What the linker says: diagnostics in an order that does not depend on threads, progress, times, the log of why a link was full.
//!
//! Knows the command line and ids of things; never what a phase has found out.

pub mod diag;
pub mod link_log;
pub mod process_exit;
pub(crate) mod progress;
pub mod stdio;
pub(crate) mod timing;
pub mod unsupported;
