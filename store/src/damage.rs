//! Telling damage from everything else that can go wrong: programs have an exit
//! code of its own for it.

use crate::engine;
use crate::program::ProgramError;
use std::error::Error;

/// Whether an error, by itself and not through its causes, says that a repository is
/// damaged (or is none, or was not recovered after a crash).
pub fn is_damage(error: &(dyn Error + 'static)) -> bool {
    let engine = |error: &engine::Error| {
        matches!(
            error,
            engine::Error::Damaged { .. }
                | engine::Error::Truncated { .. }
                | engine::Error::NotARepository { .. }
                | engine::Error::NeedsRecovery { .. }
        )
    };
    error.downcast_ref::<engine::Error>().is_some_and(engine)
        || match error.downcast_ref::<ProgramError>() {
            Some(ProgramError::Damaged { .. }) => true,
            Some(ProgramError::Engine(error)) => engine(error),
            _ => false,
        }
}
