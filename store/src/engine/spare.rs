//! Memory that one transaction leaves to the next.

use super::own::OwnRecords;
use super::pack::Packing;
use format_spec::file::INDEX_SLOTS;

/// The memory of a transaction, which the next one of the same store gets: where one follows another, its growth, and the page
/// faults of what the allocator has given back meanwhile, cost as much as what is written there.
#[derive(Default)]
pub(super) struct Spare {
    pub(super) buffer: Vec<u8>,
    pub(super) own: [OwnRecords; INDEX_SLOTS],
    pub(super) packing: Packing,
}

impl Spare {
    /// Empties it, and gives back what a large transaction needed: of the buffer all but `kept` bytes.
    pub(super) fn clear(&mut self, kept: usize) {
        self.buffer.clear();
        self.buffer.shrink_to(kept);
        for own in &mut self.own {
            own.clear();
        }
        self.packing.clear();
    }
}
