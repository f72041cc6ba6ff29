//! Numbers of lines as entries say them.

use super::Reason;
use std::ops::Range;

/// Why entries are left alone that nobody here understands.
pub(super) const UNKNOWN: Reason = "debugging information entries that cannot be read";
/// Why those are of which a number would be said otherwise.
pub(super) const OTHER_FORM: Reason = "a line that is said in another form now";

/// A number that an attribute says, and where.
#[derive(Clone, Debug)]
pub(super) struct Said {
    /// The number.
    pub number: u64,
    /// In which form.
    pub form: gimli::DwForm,
    /// Its bytes in `.debug_info`.
    pub at: Range<usize>,
    /// By which abbreviation, and which of its attributes.
    pub by: (u64, usize),
}

/// The bytes that a compiler takes for a number.
pub(super) fn width(number: u64) -> usize {
    match number {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}
