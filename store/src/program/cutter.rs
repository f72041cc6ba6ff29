//! Cutting a record's value into its arrays.

use bytemuck::Pod;

/// Cuts records off the front of a value.
pub(super) struct Cutter<'s> {
    value: &'s [u8],
    at: usize,
}

impl<'s> Cutter<'s> {
    pub(super) fn new(value: &'s [u8]) -> Self {
        Cutter { value, at: 0 }
    }

    /// `count` records, beginning at the next multiple of 8.
    pub(super) fn slice<T: Pod>(&mut self, count: usize) -> Option<&'s [T]> {
        let start = self.at.checked_next_multiple_of(8)?;
        let end = start.checked_add(count.checked_mul(size_of::<T>())?)?;
        let slice = bytemuck::try_cast_slice(self.value.get(start..end)?).ok()?;
        self.at = end;
        Some(slice)
    }

    pub(super) fn one<T: Pod>(&mut self) -> Option<&'s T> {
        self.slice(1)?.first()
    }

    pub(super) fn rest(&self) -> &'s [u8] {
        &self.value[self.at..]
    }
}
