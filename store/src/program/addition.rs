//! What is added to a repository, and what that did.

use super::prepare::Prepared;
use format_spec::digest::Digest;
use format_spec::ids::Address;
use std::path::Path;

/// A compilation to be added.
#[derive(Clone, Copy)]
pub struct Addition<'p, 'a> {
    /// The compilation.
    pub prepared: &'p Prepared<'a>,
    /// The absolute path of the ticket file that will name it, if there is to be one.
    pub ticket: Option<&'p Path>,
}

/// What adding a compilation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// The compilation's digest.
    pub digest: Option<Digest>,
    /// Where it is.
    pub address: Address,
    /// Whether it was not there before.
    pub is_new: bool,
    /// Fragments that were not there before.
    pub new_fragments: u32,
    /// Fragments that were.
    pub shared_fragments: u32,
    /// Pieces that were not there before.
    pub new_pieces: u32,
    /// Pieces that were.
    pub shared_pieces: u32,
    /// Names that were not there before.
    pub new_names: u32,
    /// Bytes of all values that were added.
    pub new_bytes: u64,
}
