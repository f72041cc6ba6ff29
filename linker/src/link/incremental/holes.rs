//! What files have left of the output: used again before the room behind all files is.
//!
//! Who outgrows its place goes elsewhere, and what it leaves is nobody's. The state has a list of it, so that a program that is
//! edited all day does not run out of room. What is left by one link is used from the next one on: it is filled first.

use super::state::{FreeRecord, State, Table};

/// In [`FreeRecord::part`]: `.eh_frame`, whose records are in no part.
pub(super) const FRAMES: u32 = u32::MAX;

/// In the same place: relative relocations, by their offsets in the file.
pub(super) const RELOCATIONS: u32 = u32::MAX - 1;

/// Local and global symbols, by their offsets in the file, and their names, by those in `.strtab`.
pub(super) const LOCALS: u32 = u32::MAX - 2;
pub(super) const GLOBALS: u32 = u32::MAX - 3;
pub(super) const NAMES: u32 = u32::MAX - 4;

/// Ranges that are nobody's.
#[derive(Default)]
pub(super) struct Holes {
    ranges: Vec<FreeRecord>,
    /// What this link leaves.
    left: Vec<FreeRecord>,
    is_other: bool,
}

impl Holes {
    /// Those that the state knows.
    pub fn new(state: &State) -> Holes {
        Holes {
            ranges: state.table(Table::Free).to_vec(),
            left: Vec::new(),
            is_other: false,
        }
    }

    /// Somebody leaves a range.
    pub fn leave(&mut self, part: u32, offset: u64, size: u64) {
        if size > 0 {
            self.left.push(FreeRecord {
                part,
                padding: 0,
                offset,
                size,
            });
        }
    }

    /// Takes bytes, aligned, of the smallest range that has as many. What is left of that stays, if `fits` says that it can: else
    /// all of it is taken, and `None` given if that would be too much. Gives where it is, how much, and what is left behind it.
    pub fn take(
        &mut self,
        part: u32,
        size: u64,
        align: u64,
        fits: impl Fn(u64) -> bool,
    ) -> Option<(u64, u64, u64)> {
        let align = align.max(1);
        let has_place = |range: &FreeRecord| {
            let start = range.offset.checked_next_multiple_of(align)?;
            let before = start - range.offset;
            let rest = range.size.checked_sub(before.checked_add(size)?)?;
            // What is before would have to be filled anew as well.
            let is_good = before == 0 || part < NAMES && align > 1 && fits(1);
            let is_little = rest <= size;
            (is_good && (fits(rest) || is_little)).then_some((start, before, rest))
        };
        let ranges = self.ranges.iter().enumerate();
        let good = ranges.filter(|(_, range)| range.part == part);
        let good = good.filter_map(|(index, range)| Some((range.size, index, has_place(range)?)));
        let (_, index, (start, before, rest)) = good.min_by_key(|(size, ..)| *size)?;
        let taken = self.ranges.swap_remove(index);
        self.is_other = true;
        if before > 0 {
            self.ranges.push(FreeRecord {
                size: before,
                ..taken
            });
        }
        if !fits(rest) {
            return Some((start, size + rest, 0));
        }
        if rest > 0 {
            self.ranges.push(FreeRecord {
                offset: start + size,
                size: rest,
                ..taken
            });
        }
        Some((start, size, rest))
    }

    /// What the state is to say, if that is something else: neighbours are one.
    pub fn finish(self) -> Option<Vec<FreeRecord>> {
        if !self.is_other && self.left.is_empty() {
            return None;
        }
        let mut all = self.ranges;
        all.extend(self.left);
        all.sort_unstable_by_key(|range| (range.part, range.offset));
        let mut united: Vec<FreeRecord> = Vec::with_capacity(all.len());
        for range in all {
            match united.last_mut() {
                Some(last)
                    if last.part == range.part
                        && last.offset.checked_add(last.size) == Some(range.offset) =>
                {
                    last.size += range.size;
                }
                _ => united.push(range),
            }
        }
        Some(united)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(part: u32, offset: u64, size: u64) -> FreeRecord {
        FreeRecord {
            part,
            padding: 0,
            offset,
            size,
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_was_free_and_is_no_more(
            sizes in prop::collection::vec(1u64..200, 1..20),
            wanted in prop::collection::vec((1u64..150, 0u32..5, 0u64..40), 1..20),
        ) {
            let mut at = 0;
            let mut ranges = Vec::new();
            for size in sizes {
                ranges.push(range(3, at, size));
                at += size + 7;
            }
            let mut free: Vec<bool> = vec![false; at as usize];
            for range in &ranges {
                free[range.offset as usize..(range.offset + range.size) as usize].fill(true);
            }
            let mut holes = Holes { ranges, left: Vec::new(), is_other: false };
            prop_assert!(holes.take(4, 1, 1, |_| true).is_none());
            for (size, align, least) in wanted {
                let fits = |rest: u64| rest == 0 || rest >= least;
                if let Some((start, taken, _)) = holes.take(3, size, 1 << align, fits) {
                    prop_assert!(start.is_multiple_of(1 << align) && taken >= size);
                    let place = &mut free[start as usize..(start + taken) as usize];
                    prop_assert!(place.iter().all(|free| *free));
                    place.fill(false);
                }
            }
            let left: u64 = holes.ranges.iter().map(|range| range.size).sum();
            prop_assert_eq!(left, free.iter().filter(|free| **free).count() as u64);
        }
    }

    #[test]
    fn neighbours_are_one() {
        let mut holes = Holes {
            ranges: vec![range(1, 10, 5), range(2, 15, 5)],
            left: Vec::new(),
            is_other: false,
        };
        holes.leave(1, 15, 3);
        holes.leave(1, 0, 9);
        let united: Vec<_> = holes.finish().unwrap();
        let united: Vec<_> = united
            .iter()
            .map(|it| (it.part, it.offset, it.size))
            .collect();
        assert_eq!(united, [(1, 0, 9), (1, 10, 8), (2, 15, 5)]);
    }
}
