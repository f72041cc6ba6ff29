//! The tries of indices and vectors: references to nodes and leaves, and the
//! nodes (SPEC.md, section 7).
//!
//! A node takes six bits of the key. Of the 64 values that these can have, a
//! child has a run: 1, 2, 4, … or 64 of them, beginning at a multiple of that. A bit
//! of the node's bitmap is set where a run begins, so the child of a value is the
//! one whose number is the count of set bits up to the value's own:
//!
//! ```text
//! head      IndexNode or VectorNode
//! bitmap    64 bits
//! children  8 bytes each, as many as the bitmap has set bits
//!
//!                 ▼ value 21
//! bitmap  1000000010000000 1000 1000 …     (bit 0 on the left)
//!         │       │        │    └ child 3: values 20 to 23 …  <─ this one
//!         │       │        └ child 2: values 16 to 19
//!         │       └ child 1: values 8 to 15
//!         └ child 0: values 0 to 7
//! ```
//!
//! So a leaf that is full splits in two halves of its run, and only when its run is
//! a single value does a node of the next six bits take its place.

use crate::file::{ITEM_ALIGN, MAX_ADDRESS};
use crate::ids::Address;
use bytemuck::{Pod, Zeroable};

/// Bits of a key that a node takes.
pub const NODE_BITS: u32 = 6;
/// Children of a node, at most.
pub const MAX_CHILDREN: usize = 1 << NODE_BITS;
/// Binary logarithm of the number of elements in a full leaf of a vector.
///
/// Small: the last leaf is half empty on average, and the first one is made anew each time its size
/// doubles; the nodes above are few and in cache.
pub const VECTOR_LEAF_BITS: u32 = 8;
/// Words of the largest node: head, bitmap, children.
pub const MAX_NODE_WORDS: usize = 2 + MAX_CHILDREN;

const ADDRESS_BITS: u32 = 37;
const LOG2_BITS: u32 = 5;
const PREFIX_BITS: u32 = 9;
const CHECK_BITS: u32 = 13;
const PREFIX_AT: u32 = ADDRESS_BITS + LOG2_BITS;
const CHECK_AT: u32 = PREFIX_AT + PREFIX_BITS;
const _: () = assert!(CHECK_AT + CHECK_BITS == 64);
const _: () = assert!(MAX_ADDRESS == ITEM_ALIGN << ADDRESS_BITS);
/// Stands where a leaf's size would, for a node.
const NODE: u64 = (1 << LOG2_BITS) - 1;

/// A reference to a node or a leaf, or to nothing.
///
/// For indices, `prefix` is the number of bits that all keys below have in common at
/// least: for a node, those that the nodes above it take. For vectors, it is the height:
/// 0 for a leaf, one more than its children's for a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Child(u64);

impl Child {
    /// Nothing: no keys.
    pub const NONE: Child = Child(0);

    /// A leaf of `1 << log2` words, which begin at `address`.
    pub fn leaf(address: Address, log2: u32, prefix: u32) -> Child {
        debug_assert!(u64::from(log2) < NODE);
        Child::new(address, log2.into(), prefix)
    }

    /// The node whose head is at `address`.
    pub fn node(address: Address, prefix: u32) -> Child {
        Child::new(address, NODE, prefix)
    }

    fn new(address: Address, log2: u64, prefix: u32) -> Child {
        debug_assert!(address.0.is_multiple_of(ITEM_ALIGN) && address.0 < MAX_ADDRESS);
        debug_assert!(prefix < 1 << PREFIX_BITS);
        let (log2, prefix) = (log2 << ADDRESS_BITS, u64::from(prefix) << PREFIX_AT);
        let address = address.0 / ITEM_ALIGN;
        Child(address | log2 | prefix)
    }

    /// Whether this refers to nothing.
    #[inline]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether this refers to a node.
    #[inline]
    pub fn is_node(self) -> bool {
        self.0 >> ADDRESS_BITS & NODE == NODE
    }

    /// Where the node or the leaf's first word is.
    #[inline]
    pub fn address(self) -> u64 {
        (self.0 & ((1 << ADDRESS_BITS) - 1)) * ITEM_ALIGN
    }

    /// Binary logarithm of a leaf's number of words.
    #[inline]
    pub fn log2(self) -> u32 {
        (self.0 >> ADDRESS_BITS & NODE) as u32
    }

    /// See [`Child`].
    #[inline]
    pub fn prefix(self) -> u32 {
        (self.0 >> PREFIX_AT) as u32
    }

    /// As it stands in a node with this bitmap, as its child number `rank`.
    pub fn in_node(self, bitmap: u64, rank: usize) -> ChildWord {
        ChildWord(self.0 | check(self.0, bitmap, rank) << CHECK_AT)
    }

    /// As it stands in a trailer.
    pub fn as_root(self) -> ChildWord {
        self.in_node(0, 0)
    }
}

/// A [`Child`] with a check of it, of its place and of the bitmap of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct ChildWord(pub u64);

impl ChildWord {
    /// The reference, if the check holds.
    #[inline]
    pub fn in_node(self, bitmap: u64, rank: usize) -> Option<Child> {
        let child = self.0 & ((1 << CHECK_AT) - 1);
        (check(child, bitmap, rank) == self.0 >> CHECK_AT).then_some(Child(child))
    }

    /// The reference, if it stands in a trailer and the check holds.
    #[inline]
    pub fn as_root(self) -> Option<Child> {
        self.in_node(0, 0)
    }
}

#[inline]
fn check(child: u64, bitmap: u64, rank: usize) -> u64 {
    let place = bitmap.rotate_left(29) ^ (rank as u64) << CHECK_AT;
    (child ^ place).wrapping_mul(crate::GOLDEN) >> CHECK_AT
}

/// Which values of a node's six bits a child has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first value.
    pub start: u32,
    /// Binary logarithm of how many there are.
    pub log2: u32,
}

impl Run {
    /// All values.
    pub const ALL: Run = Run {
        start: 0,
        log2: NODE_BITS,
    };

    /// The lower and the upper half; `None` if this is a single value.
    pub fn halves(self) -> Option<[Run; 2]> {
        let log2 = self.log2.checked_sub(1)?;
        let Run { start, .. } = self;
        Some([start, start + (1 << log2)].map(|start| Run { start, log2 }))
    }
}

/// The number of the child that has `value`: of the set bits up to it, the last. `None` if the
/// bitmap's bit 0 is not set, as it must be.
#[inline]
pub fn rank(bitmap: u64, value: u32) -> Option<usize> {
    let up_to = bitmap & u64::MAX >> (63 - (value & 63));
    (up_to.count_ones() as usize).checked_sub(1)
}

/// The runs of a bitmap, in order; `None` if it is none of a node: bit 0 not set, or a run
/// that is not a power of two at a multiple of it.
pub fn runs(bitmap: u64) -> Option<Vec<Run>> {
    let mut runs = Vec::with_capacity(bitmap.count_ones() as usize);
    let mut start = 0;
    if bitmap & 1 == 0 {
        return None;
    }
    while start < 64 {
        let above = bitmap.checked_shr(start + 1).unwrap_or(0);
        let length = if above == 0 {
            64 - start
        } else {
            above.trailing_zeros() + 1
        };
        if !length.is_power_of_two() || !start.is_multiple_of(length) {
            return None;
        }
        let log2 = length.trailing_zeros();
        runs.push(Run { start, log2 });
        start += length;
    }
    Some(runs)
}

/// The bitmap in which these runs begin.
pub fn bitmap(runs: impl IntoIterator<Item = Run>) -> u64 {
    runs.into_iter()
        .fold(0, |bitmap, run| bitmap | 1 << run.start)
}

/// An element of a vector, at this place in it, as it stands in a leaf: the address in
/// units of 8 bytes in bits 0 to 36, and a check of it and of the place in the others.
#[inline]
pub fn element_word(address: Address, element: u64) -> u64 {
    debug_assert!(address.0.is_multiple_of(ITEM_ALIGN) && address.0 < MAX_ADDRESS);
    let address = address.0 / ITEM_ALIGN;
    address | element_check(address, element) << ADDRESS_BITS
}

/// The address in a word of a vector's leaf; `None` if its check is wrong.
#[inline]
pub fn element_address(word: u64, element: u64) -> Option<Address> {
    let address = word & ((1 << ADDRESS_BITS) - 1);
    (element_check(address, element) == word >> ADDRESS_BITS)
        .then_some(Address(address * ITEM_ALIGN))
}

#[inline]
fn element_check(address: u64, element: u64) -> u64 {
    // Not zero for the first element at address 0: zeros are no element.
    (address ^ !element.rotate_left(ADDRESS_BITS)).wrapping_mul(crate::GOLDEN) >> ADDRESS_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_keep_what_they_are_made_of() {
        let leaf = Child::leaf(Address(0xff_ffff_ffc0), 13, 256);
        assert_eq!(
            (leaf.address(), leaf.log2(), leaf.prefix()),
            (0xff_ffff_ffc0, 13, 256)
        );
        assert!(!leaf.is_node() && !leaf.is_none());
        let node = Child::node(Address(4104), 12);
        assert_eq!((node.address(), node.prefix()), (4104, 12));
        assert!(node.is_node());
        assert_eq!(Child::NONE.as_root(), ChildWord::zeroed());
    }

    #[test]
    fn every_change_of_a_bit_is_noticed() {
        let bitmap = 0x8000_0000_0001_0101;
        for child in [
            Child::NONE,
            Child::node(Address(4096), 6),
            Child::leaf(Address(1 << 39), 6, 7),
        ] {
            let word = child.in_node(bitmap, 3);
            assert_eq!(word.in_node(bitmap, 3), Some(child));
            for bit in 0..64 {
                assert_eq!(
                    ChildWord(word.0 ^ 1 << bit).in_node(bitmap, 3),
                    None,
                    "bit {bit}"
                );
                assert_eq!(
                    word.in_node(bitmap ^ 1 << bit, 3),
                    None,
                    "bit {bit} of the bitmap"
                );
            }
            assert!((0..64).all(|rank| rank == 3 || word.in_node(bitmap, rank).is_none()));
            let word = element_word(Address(child.address()), 77);
            assert_eq!(element_address(word, 77), Some(Address(child.address())));
            for bit in 0..64 {
                assert_eq!(element_address(word ^ 1 << bit, 77), None, "bit {bit}");
                assert_eq!(
                    element_address(word, 77 ^ 1 << bit),
                    None,
                    "bit {bit} of the place"
                );
            }
        }
        assert_eq!(element_address(0, 0), None);
    }

    #[test]
    fn runs_and_bitmaps_are_each_others() {
        assert_eq!(runs(1), Some(vec![Run::ALL]));
        let halves = Run::ALL.halves().unwrap();
        assert_eq!(runs(bitmap(halves)), Some(halves.to_vec()));
        assert_eq!(runs(u64::MAX).unwrap().len(), 64);
        assert_eq!(runs(0), None);
        assert_eq!(runs(2), None);
        // Three values from 0 on.
        assert_eq!(runs(0b1001), None);
        // Two from 1 on.
        assert_eq!(runs(0b1011), None);
        assert_eq!(runs(u64::MAX).unwrap()[63].halves(), None);
    }

    #[test]
    fn ranks_are_those_of_the_runs() {
        let bitmap = 1 | 1 << 8 | 1 << 16 | 1 << 20 | 1 << 32;
        let expected = |value| match value {
            0..8 => 0,
            8..16 => 1,
            16..20 => 2,
            20..32 => 3,
            _ => 4,
        };
        for value in 0..64 {
            assert_eq!(rank(bitmap, value), Some(expected(value)), "{value}");
        }
        assert_eq!(rank(2, 0), None);
    }
}
