//! Comparing leaves with the log record by record, without making them: what takes verification little memory.
//!
//! A word stands in the first place that was free when it was added, and words are added in the order of the log, which is that of their
//! addresses. So of a leaf that began empty, it can be seen of each record by itself whether its word is where it must be: the places before it on its way must have words of
//! lower addresses, and then comes its own. If besides there are as many words as records, the leaf is what it must be. It may have words
//! of later transactions by then. Leaves that began with the words of others, in whose place they came, are [made](super::replay).

use super::error::Fault;
use super::leaf::{self, Entry};
use super::map::View;
use super::trie;
use crate::prefetch::prefetch;
use format_spec::file::LEAF_ALIGN;
use format_spec::ids::Address;
use format_spec::leaf::{LINE_WORDS, address, word};
use format_spec::trailer::VectorRoot;
use format_spec::trie::{Child, VECTOR_LEAF_BITS, element_word};
use hashbrown::HashTable;
use std::sync::atomic::Ordering;

const DISAGREES: &str = "leaf does not agree with the log";

/// A leaf of an index that began empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Followed {
    child: Child,
    /// How many words have been compared.
    pub count: u64,
}

/// Leaves that are followed, by their addresses.
#[derive(Default)]
pub(super) struct FollowedLeaves(HashTable<Followed>);

/// Leaves lie at multiples of so many bytes.
fn hash(address: u64) -> u64 {
    (address / LEAF_ALIGN).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl FollowedLeaves {
    /// Begins to follow a leaf that is empty.
    pub fn insert(&mut self, child: Child) {
        let rehash = |leaf: &Followed| hash(leaf.child.address());
        let new = Followed { child, count: 0 };
        (self.0).insert_unique(hash(child.address()), new, rehash);
    }

    /// The one at an address.
    pub fn get_mut(&mut self, address: u64) -> Option<&mut Followed> {
        let is_it = |leaf: &Followed| leaf.child.address() == address;
        self.0.find_mut(hash(address), is_it)
    }

    /// The one at an address, which is followed no longer.
    pub fn remove(&mut self, address: u64) -> Option<Followed> {
        let is_it = |leaf: &Followed| leaf.child.address() == address;
        let entry = self.0.find_entry(hash(address), is_it).ok()?;
        Some(entry.remove().0)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Followed> {
        self.0.iter()
    }
}

impl Followed {
    /// Has the processor fetch what checking the entry will read.
    pub fn prefetch(&self, view: View<'_>, entry: &Entry) {
        let found = leaf::shape(self.child).ok();
        let home = found.and_then(|shape| shape.home_and_tag(&entry.bits));
        if let Some((home, _)) = home
            && let Ok(words) = leaf::words(view, self.child)
            && let Some(first) = words.get((home * LINE_WORDS) as usize)
        {
            prefetch(first);
        }
    }

    /// Checks that the word of the next record is where it must be.
    pub fn check(&mut self, view: View<'_>, mut entry: Entry) -> Result<(), Fault> {
        let words = leaf::words(view, self.child)?;
        let shape = leaf::shape(self.child)?;
        let (home, tag) = entry.home_and_tag(&view, shape)?;
        let at = |place: u64| words[place as usize].load(Ordering::Relaxed);
        let was_free = |place| at(place) == 0 || address(at(place)) >= entry.address;
        match leaf::free_place(shape, home, was_free) {
            Some(place) if at(place) == word(tag, entry.address) => {
                self.count += 1;
                Ok(())
            }
            Some(place) => Err(Fault::new(self.child.address() + place * 8, DISAGREES)),
            None => Err(Fault::new(
                self.child.address(),
                "leaf is too small for its words",
            )),
        }
    }

    /// Checks that there are no words but those that were compared; those of records at `end` or later are passed over, if one is given.
    pub fn compare(&self, view: View<'_>, end: Option<u64>) -> Result<(), Fault> {
        let words = leaf::words(view, self.child)?.iter();
        let words = words.map(|word| word.load(Ordering::Relaxed));
        let is_counted = |word: &u64| *word != 0 && end.is_none_or(|end| address(*word).0 < end);
        match words.filter(is_counted).count() as u64 == self.count {
            true => Ok(()),
            false => Err(Fault::new(self.child.address(), DISAGREES)),
        }
    }

    /// Its words, of which those of records at `end` or later are not.
    pub fn words(&self, view: View<'_>, end: u64) -> Result<Vec<u64>, Fault> {
        self.compare(view, Some(end))?;
        let mut words = leaf::copy_of(leaf::words(view, self.child)?);
        for word in &mut words {
            if address(*word).0 >= end {
                *word = 0;
            }
        }
        Ok(words)
    }
}

/// Checks the elements of a vector from the old length on, and, if its last leaf has been made anew, that it is what it was.
pub(super) fn check_vector(
    view: View<'_>,
    (old, new): (&VectorRoot, &VectorRoot),
    elements: &[Address],
) -> Result<(), Fault> {
    if old.root != new.root && old.length > 0 {
        let last = old.length - 1;
        let was = trie::leaf_of_element(view, old, last)?;
        let is = trie::leaf_of_element(view, new, last)?;
        if was != is {
            check_empty_from(view, was, old.length)?;
            let count = place_of(last) + 1;
            let of = |child: Child| Ok::<_, Fault>(leaf::copy_of(leaf::words(view, child)?));
            if of(was)?.get(..count) != of(is)?.get(..count) {
                return Err(Fault::new(is.address(), DISAGREES));
            }
        }
    }
    for (number, &element) in (old.length..).zip(elements) {
        let child = trie::leaf_of_element(view, new, number)?;
        let words = leaf::words(view, child)?;
        let there = words.get(place_of(number));
        let there = there.ok_or(Fault::new(child.address(), "vector is too short"))?;
        if there.load(Ordering::Relaxed) != element_word(element, number) {
            let offset = child.address() + place_of(number) as u64 * 8;
            return Err(Fault::new(offset, DISAGREES));
        }
    }
    Ok(())
}

/// Checks that a vector's last leaf has no words beyond its length.
pub(super) fn check_end(view: View<'_>, vector: &VectorRoot) -> Result<(), Fault> {
    match vector.length.checked_sub(1) {
        Some(last) => {
            let child = trie::leaf_of_element(view, vector, last)?;
            check_empty_from(view, child, vector.length)
        }
        None => Ok(()),
    }
}

/// Checks that the leaf with the last of so many elements has no words behind it.
fn check_empty_from(view: View<'_>, leaf: Child, length: u64) -> Result<(), Fault> {
    let first = place_of(length - 1) + 1;
    let words = leaf::words(view, leaf)?.iter().enumerate().skip(first);
    for (place, word) in words {
        if word.load(Ordering::Relaxed) != 0 {
            let offset = leaf.address() + place as u64 * 8;
            return Err(Fault::new(offset, DISAGREES));
        }
    }
    Ok(())
}

fn place_of(element: u64) -> usize {
    (element & ((1 << VECTOR_LEAF_BITS) - 1)) as usize
}
