//! What is known of a compile that has just been done, but for its object: so that this and what the object becomes are recorded in one
//! transaction. One for each costs a fifth of the repository of a package of small sources.

use super::base::Base;
use super::bundle;
use format_spec::digest::Digest;
use store::program::manifest::NewResult;

/// A compile that was observed.
pub struct Observed {
    pub(super) key: Digest,
    pub(super) parts: Vec<Vec<u8>>,
    pub(super) conditions: Vec<Vec<u8>>,
    pub(super) diagnostics: Vec<u8>,
    pub(super) is_coloured: bool,
    pub(super) dependencies: Option<Vec<u8>>,
    /// Whether the object is kept whole.
    pub(super) is_fat: bool,
    /// Where the key is that of other checkouts, too: what must not be in the object.
    pub(super) base: Option<Base>,
}

impl Observed {
    /// The files that are kept whole of what was made.
    ///
    /// # Errors
    /// In words, if what was made cannot be recorded.
    pub fn files(&self, object: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let written = [object, &self.diagnostics];
        let mut written = written.into_iter().chain(self.dependencies.as_deref());
        if let Some(base) = &self.base
            && written.any(|bytes| base.is_in(bytes))
        {
            return Err("the base directory's path is in what was made".into());
        }
        if !self.is_fat {
            return Ok(None);
        }
        let object = std::iter::once((bundle::OBJECT, object));
        let packed = bundle::pack(object).map_err(|error| error.to_string())?;
        Ok(Some(packed))
    }

    /// What is to be recorded.
    pub fn result<'a>(
        &'a self,
        compilation: Option<&'a Digest>,
        files: Option<&'a [u8]>,
    ) -> NewResult<'a> {
        NewResult {
            key: &self.key,
            parts: &self.parts,
            conditions: &self.conditions,
            compilation,
            diagnostics: &self.diagnostics,
            is_coloured: self.is_coloured,
            dependencies: self.dependencies.as_deref(),
            files,
        }
    }
}
