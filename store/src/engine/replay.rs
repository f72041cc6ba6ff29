//! Making leaves from the log: what recovery and verification are built on.
//!
//! The bytes of every leaf are a function of the log (SPEC.md, section 9). [`Leaves`] computes
//! that function in memory, from a trailer whose leaves are known to be good
//! (a checkpoint, or revision 0, which has none), one transaction after the
//! other. Recovery writes the result over the leaves in the file; verification
//! compares it with them.
//!
//! Who only compares need not make those that began empty ([`follow`](super::follow)).
//!
//! Only leaves that a replayed transaction changes are in memory. One whose place others
//! have taken is handed out at once: it never changes again.

use super::batch::GROUP;
use super::error::Fault;
use super::follow::{self, FollowedLeaves};
use super::leaf::{self, Entry};
use super::log::items;
use super::map::View;
use super::record::Record;
use super::trie::{self, Walk};
use format_spec::file::{INDEX_SLOTS, VECTOR_SLOTS};
use format_spec::ids::Address;
use format_spec::leaf::KeyBits;
use format_spec::trailer::{Trailer, Tries};
use format_spec::trie::{Child, VECTOR_LEAF_BITS, element_word};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// What one transaction added, in the order of the log.
#[derive(Default)]
pub(super) struct Additions {
    /// For each index: the records.
    pub indices: [Vec<Entry>; INDEX_SLOTS],
    /// How many of them were new keys.
    pub new_keys: [u64; INDEX_SLOTS],
    /// For each vector: the elements.
    pub vectors: [Vec<Address>; VECTOR_SLOTS],
}

impl Additions {
    /// Reads them from the transaction of `trailer`.
    pub fn read(view: View<'_>, trailer: &Trailer<'_>) -> Result<Additions, Fault> {
        Additions::read_each(view, trailer, |_| Ok(()))
    }

    /// Likewise, and compares the records with their checks.
    fn read_checked(view: View<'_>, trailer: &Trailer<'_>) -> Result<Additions, Fault> {
        Additions::read_each(view, trailer, |record| match record.is_whole() {
            true => Ok(()),
            false => Err(Fault::new(record.address.0, "record's check is wrong")),
        })
    }

    fn read_each(
        view: View<'_>,
        trailer: &Trailer<'_>,
        check: impl Fn(&Record<'_>) -> Result<(), Fault>,
    ) -> Result<Additions, Fault> {
        let mut additions = Additions::default();
        for item in items(view, trailer.start, trailer.offset) {
            let item = item?;
            let no_slot = Fault::new(item.offset, "item's slot is out of range");
            for record in item.records() {
                let record = record?;
                check(&record)?;
                let slot = usize::from(record.index().ok_or(no_slot)?.number());
                additions.indices[slot].push(Entry {
                    address: record.address,
                    bits: KeyBits::of(&record.key(), 0),
                });
                if !record.is_replacement() {
                    additions.new_keys[slot] += 1;
                }
                if let Some(vector) = record.vector() {
                    additions.vectors[usize::from(vector.number())].push(record.address);
                }
            }
            let pushed = item.pushed()?;
            if !pushed.is_empty() {
                let slot = usize::from(item.head.slot());
                let elements = additions.vectors.get_mut(slot).ok_or(no_slot)?;
                elements.extend_from_slice(pushed);
            }
        }
        Ok(additions)
    }

    /// Whether an index has a replacement among them.
    pub fn has_replacement(&self, slot: usize) -> bool {
        self.new_keys[slot] < self.indices[slot].len() as u64
    }
}

/// What a leaf must hold.
pub(super) struct MadeLeaf {
    pub child: Child,
    pub words: Vec<u64>,
    is_of_vector: bool,
}

impl MadeLeaf {
    /// Checks that the leaf in the file has exactly these words; words of transactions that
    /// end after `end` are passed over where there is one.
    pub fn compare(&self, view: View<'_>, end: Option<u64>) -> Result<(), Fault> {
        let in_file = leaf::words(view, self.child)?;
        self.compare_with(in_file.iter().map(|word| word.load(Ordering::Relaxed)), end)
    }

    /// The same of words that were read otherwise.
    pub fn compare_with(
        &self,
        found: impl Iterator<Item = u64>,
        end: Option<u64>,
    ) -> Result<(), Fault> {
        for (place, (word, &expected)) in found.zip(&self.words).enumerate() {
            let may_be_later = expected == 0
                && end.is_some_and(|end| {
                    self.is_of_vector || format_spec::leaf::address(word).0 >= end
                });
            if word != expected && !may_be_later {
                let offset = self.child.address() + place as u64 * 8;
                return Err(Fault::new(offset, "leaf does not agree with the log"));
            }
        }
        Ok(())
    }

    /// Where its words are in the file.
    pub fn range(&self) -> Range<u64> {
        self.child.address()..self.child.address() + self.words.len() as u64 * 8
    }
}

/// The leaves as of one trailer, as far as they are not as at the beginning.
pub(super) struct Leaves<'s> {
    trailer: Trailer<'s>,
    /// Those of the trailer.
    tries: Tries,
    /// Where the log ended at the beginning.
    base_end: u64,
    base_lengths: [u64; VECTOR_SLOTS],
    /// By address.
    made: BTreeMap<u64, MadeLeaf>,
    /// Those that are not made, but compared with the log as it goes; `None` if all are made.
    followed: Option<FollowedLeaves>,
    /// Those whose place others have taken.
    pub finished: Vec<MadeLeaf>,
}

impl<'s> Leaves<'s> {
    /// Begins with those of `trailer`, which are good in the file but for words that were
    /// added later.
    pub fn since(trailer: Trailer<'s>) -> Leaves<'s> {
        let tries = trailer.tries();
        Leaves {
            trailer,
            tries,
            base_end: trailer.end(),
            base_lengths: tries.vectors.map(|root| root.length),
            made: BTreeMap::new(),
            followed: None,
            finished: Vec::new(),
        }
    }

    /// The same for who verifies: records are compared with their checks. The leaves that begin empty, and those of vectors, are compared with the log as it goes, and not made: who writes
    /// leaves needs them, who verifies them has [`compare`](Leaves::compare).
    #[must_use]
    pub fn following(self) -> Leaves<'s> {
        Leaves {
            followed: Some(FollowedLeaves::default()),
            ..self
        }
    }

    /// Compares all leaves with the file; words of transactions that end after `end` are passed over if there is one.
    pub fn compare(&self, view: View<'_>, end: Option<u64>) -> Result<(), Fault> {
        self.made().try_for_each(|leaf| leaf.compare(view, end))?;
        let Some(followed) = &self.followed else {
            return Ok(());
        };
        followed
            .iter()
            .try_for_each(|leaf| leaf.compare(view, end))?;
        match end {
            Some(_) => Ok(()),
            None => (self.tries.vectors.iter()).try_for_each(|root| follow::check_end(view, root)),
        }
    }

    /// The trailer that the leaves are of.
    pub fn trailer(&self) -> &Trailer<'s> {
        &self.trailer
    }

    /// Those that are not as at the beginning.
    pub fn made(&self) -> impl Iterator<Item = &MadeLeaf> {
        self.made.values()
    }

    /// Does what the transaction of `trailer`, the next one, did.
    pub fn apply(&mut self, view: View<'_>, trailer: &Trailer<'s>) -> Result<(), Fault> {
        let view = view.up_to(trailer.end());
        let tries = trailer.tries();
        let mut additions = match self.followed {
            Some(_) => Additions::read_checked(view, trailer)?,
            None => Additions::read(view, trailer)?,
        };
        let wrong = |what| Fault::new(trailer.offset, what);
        let mut replaced = self.trailer.replaced;
        for slot in 0..INDEX_SLOTS {
            let (old, new) = (self.tries.indices[slot], tries.indices[slot]);
            if old.root != new.root {
                self.regrow_index(view, trailer, &tries, slot)?;
            }
            for entries in additions.indices[slot].chunks_mut(GROUP) {
                self.apply_to_index(view, &tries, slot, entries)?;
            }
            if new.count != old.count + additions.new_keys[slot] {
                return Err(wrong("index's count does not agree with the log"));
            }
            replaced |= u32::from(additions.has_replacement(slot)) << slot;
        }
        for slot in 0..VECTOR_SLOTS {
            let (old, new) = (self.tries.vectors[slot], tries.vectors[slot]);
            let elements = &additions.vectors[slot];
            if new.length != old.length + elements.len() as u64 {
                return Err(wrong("vector's length does not agree with the log"));
            }
            if self.followed.is_some() {
                // For what it says of the nodes.
                Walk::vector(view, slot as u8, &new, trailer.start)?;
                follow::check_vector(view, (&old, &new), elements)?;
                continue;
            }
            if old.root != new.root {
                self.regrow_vector(view, trailer, &tries, slot)?;
            }
            for (number, &element) in (old.length..).zip(elements) {
                let child = trie::leaf_of_element(view, &new, number)?;
                let leaf = self.vector_leaf(view, child, slot, number)?;
                let place = (number & ((1 << VECTOR_LEAF_BITS) - 1)) as usize;
                let word = leaf.words.get_mut(place);
                *word.ok_or(wrong("vector is too short"))? = element_word(element, number);
            }
        }
        if trailer.replaced != replaced {
            return Err(wrong("trailer does not say what was replaced"));
        }
        (self.trailer, self.tries) = (*trailer, tries);
        Ok(())
    }

    /// Adds records to the leaves of an index, or compares these with them. They are few enough that all that is read for that is fetched at once.
    fn apply_to_index(
        &mut self,
        view: View<'_>,
        tries: &Tries,
        slot: usize,
        entries: &mut [Entry],
    ) -> Result<(), Fault> {
        let mut children = [Child::NONE; GROUP];
        for (child, entry) in children.iter_mut().zip(entries.iter_mut()) {
            *child = leaf_of(view, tries, slot, entry)?;
            let followed = self.followed.as_mut();
            if let Some(leaf) = followed.and_then(|all| all.get_mut(child.address())) {
                leaf.prefetch(view, entry);
            }
        }
        for (child, entry) in children.into_iter().zip(entries) {
            let followed = self.followed.as_mut();
            match followed.and_then(|all| all.get_mut(child.address())) {
                Some(leaf) => leaf.check(view, *entry)?,
                None => add(view, self.made_leaf(view, child)?, *entry)?,
            }
        }
        Ok(())
    }

    /// Makes the index's leaves that are new in `trailer` out of those whose place they take.
    fn regrow_index(
        &mut self,
        view: View<'_>,
        trailer: &Trailer<'_>,
        tries: &Tries,
        slot: usize,
    ) -> Result<(), Fault> {
        let number = slot as u8;
        let new = &tries.indices[slot];
        let walk = Walk::index(view, number, new, trailer.start)?;
        for (child, _) in walk.leaves {
            match &mut self.followed {
                Some(followed) => followed.insert(child),
                None => self.add_leaf(child, false),
            }
        }
        let kept: HashSet<u64> = walk.below.iter().map(|child| child.address()).collect();
        let old = self.tries.indices[slot];
        let gone = Walk::index_without(view, number, &old, &kept)?;
        let has_replaced = self.trailer.has_replaced(number);
        for (child, path) in gone.leaves {
            let finished = self.take_leaf(view, child)?;
            let end = self.trailer.end();
            for mut entry in leaf::entries(&view, child, &finished.words, end, has_replaced)? {
                entry.bits = entry.bits.with_prefix(path, child.prefix());
                let child = leaf_of(view, tries, slot, &mut entry)?;
                add(view, self.made_leaf(view, child)?, entry)?;
            }
            self.finished.push(finished);
        }
        Ok(())
    }

    /// Likewise of a vector.
    fn regrow_vector(
        &mut self,
        view: View<'_>,
        trailer: &Trailer<'_>,
        tries: &Tries,
        slot: usize,
    ) -> Result<(), Fault> {
        let (old, new) = (self.tries.vectors[slot], tries.vectors[slot]);
        let walk = Walk::vector(view, slot as u8, &new, trailer.start)?;
        for (child, _) in walk.leaves {
            self.add_leaf(child, true);
        }
        // Only the last leaf can have been made anew.
        if old.length == 0 {
            return Ok(());
        }
        let number = old.length - 1;
        let was = trie::leaf_of_element(view, &old, number)?;
        let is = trie::leaf_of_element(view, &new, number)?;
        if was != is {
            let finished = self.take_vector_leaf(view, was, slot)?;
            let leaf = self.vector_leaf(view, is, slot, number)?;
            let count = (number & ((1 << VECTOR_LEAF_BITS) - 1)) as usize + 1;
            let words = leaf.words.get_mut(..count).zip(finished.words.get(..count));
            let (to, from) = words.ok_or(Fault::new(is.address(), "vector is too short"))?;
            to.copy_from_slice(from);
            self.finished.push(finished);
        }
        Ok(())
    }

    fn add_leaf(&mut self, child: Child, is_of_vector: bool) {
        let words = vec![0; 1 << child.log2()];
        let leaf = MadeLeaf {
            child,
            words,
            is_of_vector,
        };
        self.made.insert(child.address(), leaf);
    }

    /// The leaf at its place, which is made from here on if it was followed.
    fn made_leaf(&mut self, view: View<'_>, child: Child) -> Result<&mut MadeLeaf, Fault> {
        if !self.made.contains_key(&child.address()) {
            let made = match self.take_followed(view, child)? {
                Some(made) => made,
                None => self.load(view, child)?,
            };
            self.made.insert(child.address(), made);
        }
        let missing = Fault::new(child.address(), "is not a leaf");
        self.made.get_mut(&child.address()).ok_or(missing)
    }

    /// A leaf that was followed up to here, with its words.
    fn take_followed(&mut self, view: View<'_>, child: Child) -> Result<Option<MadeLeaf>, Fault> {
        let followed = self.followed.as_mut();
        let Some(leaf) = followed.and_then(|followed| followed.remove(child.address())) else {
            return Ok(None);
        };
        let words = match leaf.count {
            // What is in the file is those of the transaction that made it, and of later ones.
            0 => vec![0; 1 << child.log2()],
            _ => leaf.words(view, self.trailer.end())?,
        };
        Ok(Some(MadeLeaf {
            child,
            words,
            is_of_vector: false,
        }))
    }

    fn vector_leaf(
        &mut self,
        view: View<'_>,
        child: Child,
        slot: usize,
        number: u64,
    ) -> Result<&mut MadeLeaf, Fault> {
        if !self.made.contains_key(&child.address()) {
            let first = number >> VECTOR_LEAF_BITS << VECTOR_LEAF_BITS;
            let loaded = self.load_vector(view, child, slot, first)?;
            self.made.insert(child.address(), loaded);
        }
        let missing = Fault::new(child.address(), "is not a leaf");
        self.made.get_mut(&child.address()).ok_or(missing)
    }

    fn take_leaf(&mut self, view: View<'_>, child: Child) -> Result<MadeLeaf, Fault> {
        if let Some(followed) = self.take_followed(view, child)? {
            return Ok(followed);
        }
        match self.made.remove(&child.address()) {
            Some(made) => Ok(made),
            None => self.load(view, child),
        }
    }

    /// Takes the last leaf of a vector.
    fn take_vector_leaf(
        &mut self,
        view: View<'_>,
        child: Child,
        slot: usize,
    ) -> Result<MadeLeaf, Fault> {
        let last = self.tries.vectors[slot].length.saturating_sub(1);
        match self.made.remove(&child.address()) {
            Some(made) => Ok(made),
            None => self.load_vector(
                view,
                child,
                slot,
                last >> VECTOR_LEAF_BITS << VECTOR_LEAF_BITS,
            ),
        }
    }

    /// A leaf that no replayed transaction has changed yet: as it is in the file, less what
    /// was added after the beginning.
    fn load(&self, view: View<'_>, child: Child) -> Result<MadeLeaf, Fault> {
        self.check_is_old(child)?;
        let mut words = leaf::copy_of(leaf::words(view, child)?);
        for word in &mut words {
            if format_spec::leaf::address(*word).0 >= self.base_end {
                *word = 0;
            }
        }
        Ok(MadeLeaf {
            child,
            words,
            is_of_vector: false,
        })
    }

    fn load_vector(
        &self,
        view: View<'_>,
        child: Child,
        slot: usize,
        first: u64,
    ) -> Result<MadeLeaf, Fault> {
        self.check_is_old(child)?;
        let mut words = leaf::copy_of(leaf::words(view, child)?);
        let length = self.base_lengths[slot].saturating_sub(first);
        for word in words.iter_mut().skip(length as usize) {
            *word = 0;
        }
        Ok(MadeLeaf {
            child,
            words,
            is_of_vector: true,
        })
    }

    fn check_is_old(&self, child: Child) -> Result<(), Fault> {
        if child.address() >= self.base_end {
            return Err(Fault::new(
                child.address(),
                "leaf is in no transaction's trie",
            ));
        }
        Ok(())
    }

    /// The leaves that no replayed transaction has changed, without what was added to them
    /// since the beginning: those of them that have something of that.
    pub fn cleaned(&self, view: View<'_>) -> Result<Vec<MadeLeaf>, Fault> {
        let mut cleaned = Vec::new();
        let mut keep_if_changed = |made: MadeLeaf| -> Result<(), Fault> {
            let in_file = leaf::words(view, made.child)?;
            let is_same = (in_file.iter().zip(&made.words))
                .all(|(word, expected)| word.load(Ordering::Relaxed) == *expected);
            if !is_same {
                cleaned.push(made);
            }
            Ok(())
        };
        for (slot, root) in self.tries.indices.iter().enumerate() {
            for (child, _) in Walk::index(view, slot as u8, root, 0)?.leaves {
                if !self.made.contains_key(&child.address()) {
                    keep_if_changed(self.load(view, child)?)?;
                }
            }
        }
        for (slot, root) in self.tries.vectors.iter().enumerate() {
            let Some(last) = root.length.checked_sub(1) else {
                continue;
            };
            let child = trie::leaf_of_element(view, root, last)?;
            if !self.made.contains_key(&child.address()) {
                let first = last >> VECTOR_LEAF_BITS << VECTOR_LEAF_BITS;
                keep_if_changed(self.load_vector(view, child, slot, first)?)?;
            }
        }
        Ok(cleaned)
    }
}

/// The leaf for an entry, as these tries have it.
fn leaf_of(view: View<'_>, tries: &Tries, slot: usize, entry: &mut Entry) -> Result<Child, Fault> {
    let child = trie::leaf_of_entry(view, &tries.indices[slot], &view, entry)?;
    match child.is_none() {
        true => Err(Fault::new(
            entry.address.0,
            "index has no leaf for a record",
        )),
        false => Ok(child),
    }
}

fn add(view: View<'_>, leaf: &mut MadeLeaf, mut entry: Entry) -> Result<(), Fault> {
    let shape = leaf::shape(leaf.child)?;
    let entry = std::slice::from_mut(&mut entry);
    if leaf::add_all(&view, &mut leaf.words, shape, entry)? {
        return Ok(());
    }
    let what = "leaf is too small for its words";
    Err(Fault::new(leaf.child.address(), what))
}
