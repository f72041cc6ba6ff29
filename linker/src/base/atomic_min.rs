//! The least number that any thread has said of each thing, for things that have dense ids in a repository.
//!
//! A repository knows the names and pieces of all programs that went into it, and a link asks for few of them. So the array
//! begins as memory that the system gives as zeros, of which only the pages that are touched cost anything: numbers are stored
//! as their complements, and "none", the largest number, as 0.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

macro_rules! least {
    ($name:ident, $atomic:ident, $number:ident) => {
        /// The least numbers, by id; see the [module](self).
        pub struct $name(Box<[$atomic]>);

        #[allow(dead_code, reason = "each of them is used for something else")]
        impl $name {
            /// What was said of nothing.
            pub const NONE: $number = $number::MAX;

            /// For so many ids.
            pub fn new(count: usize) -> Self {
                $name(bytemuck::zeroed_slice_box(count))
            }

            /// How many ids there are.
            pub fn len(&self) -> usize {
                self.0.len()
            }

            /// The number of an id: [`Self::NONE`] if none was said, or if there is no such id.
            #[inline(always)]
            pub fn get(&self, id: u32) -> $number {
                self.0
                    .get(id as usize)
                    .map_or(Self::NONE, |word| !word.load(Relaxed))
            }

            /// Says a number of an id; `false` if there is no such id.
            #[inline]
            pub fn lower(&self, id: u32, number: $number) -> bool {
                let Some(word) = self.0.get(id as usize) else {
                    return false;
                };
                // Most of what is said is no news: do not write then.
                if word.load(Relaxed) < !number {
                    word.fetch_max(!number, Relaxed);
                }
                true
            }

            /// Replaces the number of an id.
            pub fn set(&self, id: u32, number: $number) {
                if let Some(word) = self.0.get(id as usize) {
                    word.store(!number, Relaxed);
                }
            }

            /// Where the number of an id is in memory, to fetch it early.
            #[inline(always)]
            pub fn place(&self, id: u32) -> Option<&$atomic> {
                self.0.get(id as usize)
            }
        }
    };
}

least!(Least32, AtomicU32, u32);
least!(Least64, AtomicU64, u64);

#[cfg(test)]
mod tests {
    use super::{Least32, Least64};

    #[test]
    fn the_least_counts() {
        let least = Least32::new(3);
        assert_eq!(least.len(), 3);
        assert_eq!(least.get(1), Least32::NONE);
        assert!(least.lower(1, 7) && least.lower(1, 9) && least.lower(2, 0));
        assert_eq!(
            [0, 1, 2, 3].map(|id| least.get(id)),
            [Least32::NONE, 7, 0, Least32::NONE]
        );
        assert!(!least.lower(3, 1));
        least.set(1, 8);
        assert_eq!(least.get(1), 8);
        let least = Least64::new(1);
        assert!(least.lower(0, Least64::NONE) && least.get(0) == Least64::NONE);
        assert!(least.lower(0, 1 << 40) && least.get(0) == 1 << 40);
    }
}
