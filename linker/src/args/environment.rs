//! What the linker takes from its environment, beside the command line.

use std::ffi::OsString;

/// The environment variables that GNU ld looks at.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `LD_RUN_PATH`.
    pub run_path: Option<OsString>,
    /// `LD_LIBRARY_PATH`.
    pub library_path: Option<OsString>,
}

impl Environment {
    /// The process's.
    pub fn of_process() -> Environment {
        Environment {
            run_path: std::env::var_os("LD_RUN_PATH"),
            library_path: std::env::var_os("LD_LIBRARY_PATH"),
        }
    }
}
