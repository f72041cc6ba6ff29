//! Why a repository that was found is not used.

use std::fmt;

/// Why a repository that was found is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distrust {
    /// It is the directory's fault, not the file's.
    pub(super) of_directory: bool,
    pub(super) flaw: Flaw,
}

/// What is wrong with a file or its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// It belongs to this user.
    Owner(u32),
    /// Others may write it; its permissions.
    Mode(u32),
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.of_directory {
            f.write_str("of its directory: ")?;
        }
        match self.flaw {
            Flaw::Owner(user) => write!(f, "it belongs to user {user}"),
            Flaw::Mode(mode) => write!(
                f,
                "others may write it (mode {mode:04o}), which chmod go-w ends"
            ),
        }
    }
}
