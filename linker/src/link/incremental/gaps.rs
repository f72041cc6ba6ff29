//! Where the sections of a file go that is linked again: where they were, if they fit.
//!
//! The sections of a file in a part of the output have a piece of it, the chunk, with some room. A section that was there
//! and still fits in before the next one keeps its place, so that nobody who refers to it need be touched. What is new, or
//! has outgrown its place, takes the first gap that is large enough; behind the last section there is one nearly always.

use super::state::PlaceRecord;
use rustc_hash::FxHashMap;

/// A section that needs a place in a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// What tells it from the file's others.
    pub section: u64,
    /// Bytes.
    pub size: u64,
    /// Alignment.
    pub align: u64,
}

/// Places the sections of a chunk, which takes the bytes `start..end` of its output section, at which stood what `old` says.
/// `None` if one of them has no place.
pub(super) fn place(
    wanted: &[Wanted],
    old: &[PlaceRecord],
    start: u64,
    end: u64,
) -> Option<Vec<u64>> {
    let mut stood: Vec<&PlaceRecord> = old.iter().collect();
    stood.sort_by_key(|place| place.offset);
    let mut at: FxHashMap<u64, usize> = FxHashMap::default();
    for (index, place) in stood.iter().enumerate() {
        at.insert(place.section, index);
    }
    let mut is_wanted = vec![false; stood.len()];
    for section in wanted {
        if let Some(index) = at.get(&section.section) {
            is_wanted[*index] = true;
        }
    }
    // How far each could grow: up to the next one that is still wanted.
    let mut limits = vec![end; stood.len()];
    for index in (1..stood.len()).rev() {
        let is_next = is_wanted[index] && stood[index].size > 0;
        limits[index - 1] = if is_next {
            stood[index].offset
        } else {
            limits[index]
        };
    }
    let mut offsets: Vec<Option<u64>> = vec![None; wanted.len()];
    // What is taken, in order.
    let mut taken: Vec<(u64, u64)> = Vec::with_capacity(wanted.len());
    for (slot, section) in offsets.iter_mut().zip(wanted) {
        // Only the first of a name that is there twice.
        let Some(index) = at.remove(&section.section) else {
            continue;
        };
        let offset = stood[index].offset;
        let is_free = offset >= start && offset.checked_add(section.size)? <= limits[index];
        if is_free && offset.is_multiple_of(section.align.max(1)) {
            *slot = Some(offset);
            if section.size > 0 {
                taken.push((offset, offset + section.size));
            }
        }
    }
    taken.sort_unstable();
    for (slot, section) in offsets.iter_mut().zip(wanted) {
        if slot.is_some() {
            continue;
        }
        let mut at = start.next_multiple_of(section.align.max(1));
        let mut index = 0;
        while let Some((from, to)) = taken.get(index)
            && at.checked_add(section.size)? > *from
        {
            at = at.max(*to).next_multiple_of(section.align.max(1));
            index += 1;
        }
        let stop = at.checked_add(section.size)?;
        if stop > end {
            return None;
        }
        if section.size > 0 {
            let index = taken.partition_point(|(from, _)| *from < at);
            taken.insert(index, (at, stop));
        }
        *slot = Some(at);
    }
    offsets.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::super::state::PlaceRecord;
    use super::{Wanted, place};
    use proptest::prelude::*;

    fn wanted(section: u64, size: u64) -> Wanted {
        Wanted {
            section,
            size,
            align: 16,
        }
    }

    #[test]
    fn what_fits_stays_and_what_has_grown_moves_behind_the_others() {
        let old = [
            PlaceRecord::new(1, 0, 0, 20),
            PlaceRecord::new(2, 0, 48, 16),
            PlaceRecord::new(3, 0, 80, 16),
        ];
        let place = |wanted: &[Wanted]| place(wanted, &old, 0, 160);
        assert_eq!(
            place(&[wanted(1, 48), wanted(2, 16), wanted(3, 10)]),
            Some(vec![0, 48, 80])
        );
        assert_eq!(
            place(&[wanted(1, 49), wanted(2, 16), wanted(3, 10)]),
            Some(vec![96, 48, 80])
        );
        // One that is gone makes room.
        assert_eq!(place(&[wanted(1, 49), wanted(3, 10)]), Some(vec![0, 80]));
        assert_eq!(place(&[wanted(1, 81), wanted(2, 16), wanted(3, 10)]), None);
    }

    proptest! {
        #[test]
        fn sections_are_in_the_chunk_and_apart(
            old in prop::collection::vec((0u64..20, 1u64..60), 0..12),
            new in prop::collection::vec((0u64..20, 0u64..90, 0u32..6), 0..12),
            room in 0u64..300,
        ) {
            let mut at = 64;
            let mut stood = Vec::new();
            for (section, size) in old {
                stood.push(PlaceRecord::new(section, 0, at, size));
                at = (at + size).next_multiple_of(16);
            }
            let end = at + room;
            let new: Vec<Wanted> = new
                .into_iter()
                .map(|(section, size, align)| Wanted { section, size, align: 1 << align })
                .collect();
            if let Some(places) = place(&new, &stood, 64, end) {
                let mut ranges: Vec<(u64, u64)> = Vec::new();
                for (section, offset) in new.iter().zip(places) {
                    prop_assert!(offset.is_multiple_of(section.align));
                    prop_assert!(offset >= 64 && offset + section.size <= end);
                    if section.size > 0 {
                        ranges.push((offset, offset + section.size));
                    }
                }
                ranges.sort_unstable();
                prop_assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            }
        }
    }
}
