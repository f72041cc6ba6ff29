//! What was found of names that nobody has needed before.

use super::imports::Import;
use super::needs::NewNeeds;

/// A member of an archive that is to be linked from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Drawn {
    /// The archive, by its number among the inputs.
    pub input: u32,
    /// Which member it is, counted from 1.
    pub member: u32,
    /// `--exclude-libs` covers it.
    pub exclude: bool,
    /// Key of its contents.
    pub content: [u64; 2],
}

/// Who has names that are needed now.
#[derive(Default)]
pub(super) struct Found {
    /// Members of archives that are not linked yet.
    pub members: Vec<Drawn>,
    /// Names of shared objects.
    pub imports: Vec<Import>,
    /// What these need of shared objects that nobody has needed.
    pub needs: NewNeeds,
}
