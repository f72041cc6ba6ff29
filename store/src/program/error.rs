//! What can go wrong with a repository's programs.

/// An error of the program model.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// A compilation to be added contradicts itself. A splitter's mistake, not a user's.
    #[error("malformed compilation: {0}")]
    Malformed(String),
}

impl ProgramError {
    pub(super) fn malformed(what: impl Into<String>) -> ProgramError {
        ProgramError::Malformed(what.into())
    }
}
