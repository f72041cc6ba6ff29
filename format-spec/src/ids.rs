//! Newtypes for the numbers by which records refer to each other.
//!
//! They are valid inside one repository file only; nothing that is digested
//! ever contains one.

use bytemuck::{Pod, Zeroable};

/// Offset of a record from the start of the repository file, in bytes. Zero is
/// the file header, so a zero address means "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct Address(pub u64);

/// Dense id of an interned name. Id 0 is the empty name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct NameId(pub u32);

/// Dense id of a mergeable piece (a string literal or constant of an
/// `SHF_MERGE` section, gABI chapter 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct PieceId(pub u32);
