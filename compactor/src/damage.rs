//! What the disk has damaged. It is not copied, and neither is what is made of it: the user is told
//! which tickets must be built again. Damage of an index is another matter: there is no telling
//! what it hides, so that is an error.

use format_spec::ids::Address;
use std::collections::HashMap;
use store::engine;
use store::program::{Copier, ProgramError, Programs};

/// Whether this is damage of a record.
pub fn is_of_record(error: &ProgramError) -> bool {
    matches!(
        error,
        ProgramError::Damaged { .. } | ProgramError::Engine(engine::Error::Damaged { .. })
    )
}

/// The result, or `None` if a record is damaged.
///
/// # Errors
/// All others.
pub fn unless_damaged<T>(result: Result<T, ProgramError>) -> Result<Option<T>, ProgramError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_of_record(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The compilations that were found to be damaged, and how.
#[derive(Debug, Default)]
pub struct Damaged {
    compilations: HashMap<Address, ProgramError>,
}

impl Damaged {
    /// Copies a compilation; `None` if it is damaged.
    ///
    /// # Errors
    /// All others.
    pub fn copy(
        &mut self,
        copier: &mut Copier<'_>,
        programs: &Programs<'_>,
        compilation: Address,
    ) -> Result<Option<Address>, ProgramError> {
        if self.compilations.contains_key(&compilation) {
            return Ok(None);
        }
        let copied = copier.compilation(programs, compilation);
        self.unless_damaged(compilation, copied)
    }

    /// What came of a compilation; `None` if it is damaged, which is remembered.
    ///
    /// # Errors
    /// All others.
    pub fn unless_damaged<T>(
        &mut self,
        compilation: Address,
        result: Result<T, ProgramError>,
    ) -> Result<Option<T>, ProgramError> {
        match result {
            Err(error) if is_of_record(&error) => {
                self.compilations.insert(compilation, error);
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// The error of one of them.
    pub fn into_first(self) -> Option<ProgramError> {
        self.compilations.into_values().next()
    }

    /// How a compilation is damaged, if it was found to be.
    pub fn why(&self, compilation: Address) -> Option<&ProgramError> {
        self.compilations.get(&compilation)
    }
}
