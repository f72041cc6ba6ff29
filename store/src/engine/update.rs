//! Bringing a transaction's additions into the tries.
//!
//! For each index, the new records go the way of their keys down to their leaves. A leaf that
//! has room for all of its new words gets them in place, after the commit ([`InPlace`]). One that has not
//! is made anew, with the transaction: with twice the words, or, when it has its largest size, as two
//! leaves of half of the keys each. Then the node above it is made anew as well, and so on up to the root. Old nodes and
//! leaves stay as they are, for snapshots of older revisions. So a commit writes at most the leaves that it
//! fills and the path above them, however large the index is:
//!
//! ```text
//!          new root          root
//!          ╱   │   ╲        ╱  │
//!         ╱    └───┼───────│───┤
//!        ▼         ▼       ▼   ▼
//!   left half  right half  a   b       a was full; b is shared
//! ```
//!
//! Who knows how many records an index will have has its first leaves made for all of them.
//!
//! Vectors are tries over the number of an element, whose leaves are filled from the first to the last.
//! The last one is made anew with twice the words until it has its largest size; then a new one begins.

use super::error::{Error, Fault, Result};
use super::leaf::{self, Entry, Fill, Keys};
use super::map::View;
use super::replay::Additions;
use super::snapshot::Snapshot;
use super::store::Store;
use super::trie::{self, Node};
use format_spec::file::{IndexSlot, ItemKind, VectorSlot};
use format_spec::ids::Address;
use format_spec::leaf::{KEY_BITS, LINE_WORDS, MAX_LINES, MAX_LOG2, MIN_LOG2, Shape};
use format_spec::trailer::{IndexRoot, VectorRoot};
use format_spec::trie::{
    Child, ChildWord, MAX_CHILDREN, NODE_BITS, Run, VECTOR_LEAF_BITS, bitmap, element_word,
};
use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::sync::atomic::Ordering;

/// Whoever appends new leaves and nodes to the log.
pub(super) trait Writer: Keys<Error = Error> {
    /// Writes a leaf, and returns where its words begin.
    fn append_leaf(&mut self, kind: ItemKind, slot: u8, words: &[u64]) -> Result<Address>;
    /// Writes a node: its bitmap and its children.
    fn append_node(&mut self, kind: ItemKind, slot: u8, words: &[u64]) -> Result<Address>;
    /// How full new leaves may be.
    fn fill(&self) -> Fill;
    /// The error of a key that no trie is high enough for.
    fn too_large(&self, what: &'static str) -> Error;
}

/// What is to be written in place into leaves that are there, once the transaction is committed.
#[derive(Default)]
pub(super) struct InPlace {
    /// Offsets and words.
    words: Vec<(u64, u64)>,
    /// Offsets and consecutive words.
    runs: Vec<(u64, Vec<u64>)>,
}

impl InPlace {
    /// Writes them, below `end`.
    pub fn write(&self, store: &Store, end: u64) -> Result<()> {
        store.write_words(&self.words, end)?;
        for (offset, words) in &self.runs {
            store.write_at(bytemuck::cast_slice(words), *offset)?;
        }
        Ok(())
    }
}

/// Above one addition to so many words of a leaf, the whole leaf is written at once rather than each word: where words
/// are stored through a mapping, and where each takes a system call.
const WORDS_PER_STORED_WORD: u64 = 16;
const WORDS_PER_WRITTEN_WORD: u64 = 128;
/// A leaf that is emptier than this, of so many words, need not become larger when a
/// word finds no place in it, once it is rid of what was replaced.
const SPARSE: usize = 4;
/// Binary logarithm of the number of words of the largest leaves that are made for what is expected, and how full they will be at most.
const LAID_OUT_LOG2: u32 = 10;
const LAID_OUT_FILL: (u64, u64) = (11, 16);

/// Enters `entries`, in the order of the log, into an index, of which so many are expected in all, and returns its new root.
pub(super) fn index<W: Writer>(
    writer: &mut W,
    base: &Snapshot<'_>,
    (slot, expected): (IndexSlot, u64),
    entries: &mut [Entry],
    in_place: &mut InPlace,
) -> Result<ChildWord> {
    let old = base.index_root(slot);
    let slot = slot.number();
    let mut update = IndexUpdate {
        writer,
        view: base.view(),
        slot,
        has_replaced: base.trailer().has_replaced(slot),
        in_place,
        at: base,
    };
    let root = trie_root(base, old.root)?;
    let tree = match root.is_none() && expected > entries.len() as u64 {
        true => update.lay_out(entries, 0, expected)?,
        false => update.enter(root, 0, entries)?,
    };
    Ok(update.node_or_child(tree, 0)?.as_root())
}

fn trie_root(base: &Snapshot<'_>, root: ChildWord) -> Result<Child> {
    let child = root.as_root();
    child.ok_or_else(|| {
        base.error(Fault::new(
            base.trailer().offset,
            "trailer's roots are wrong",
        ))
    })
}

/// What takes the place of a child.
enum Tree {
    /// A leaf, a node, or nothing.
    Child(Child),
    /// The lower and the upper half of its keys.
    Halves(Box<[Tree; 2]>),
}

struct IndexUpdate<'u, 's, W> {
    writer: &'u mut W,
    view: View<'s>,
    slot: u8,
    has_replaced: bool,
    in_place: &'u mut InPlace,
    at: &'u Snapshot<'s>,
}

impl<W: Writer> IndexUpdate<'_, '_, W> {
    /// Enters them below `child`, of whose keys the first `prefix` bits are the same.
    fn enter(&mut self, child: Child, prefix: u32, entries: &mut [Entry]) -> Result<Tree> {
        if child.is_none() {
            return self.build(entries, prefix, MIN_LOG2);
        }
        if !child.is_node() {
            return self.enter_into_leaf(child, prefix, entries);
        }
        let node = Node::at(self.view, child).map_err(|fault| self.at.error(fault))?;
        let children = node.children().map_err(|fault| self.at.error(fault))?;
        // Sorted by the value of the node's bits; those of one value stay in the order of the log.
        let mut failed = None;
        for entry in entries.iter_mut() {
            if let Err(error) = entry.bits(&*self.writer, prefix, NODE_BITS) {
                failed = Some(error);
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let value = |entry: &Entry| entry.bits.get(prefix, NODE_BITS).unwrap_or(0) as u32;
        entries.sort_by_key(value);
        let mut rest = entries;
        let mut is_new = false;
        let mut trees = Vec::with_capacity(children.len());
        for (run, below) in children {
            let end = run.start + (1 << run.log2);
            let count = rest.partition_point(|entry| value(entry) < end);
            let (own, others) = std::mem::take(&mut rest).split_at_mut(count);
            rest = others;
            let mut tree = Tree::Child(below);
            if !own.is_empty() {
                // Again in the order of the log: a leaf may be that of several values.
                own.sort_by_key(|entry| entry.address);
                tree = self.enter(below, prefix + NODE_BITS - run.log2, own)?;
            }
            is_new |= !matches!(tree, Tree::Child(child) if child == below);
            trees.push((run, tree));
        }
        if !is_new {
            return Ok(Tree::Child(child));
        }
        Ok(Tree::Child(self.append_node(trees, prefix)?))
    }

    fn enter_into_leaf(
        &mut self,
        child: Child,
        prefix: u32,
        entries: &mut [Entry],
    ) -> Result<Tree> {
        if place(&*self.writer, self.at, child, entries, self.in_place)? {
            return Ok(Tree::Child(child));
        }
        let words = leaf::words(self.view, child).map_err(|fault| self.at.error(fault))?;
        let words = leaf::copy_of(words);
        let end = self.view.end();
        let mut all = leaf::entries(&*self.writer, child, &words, end, self.has_replaced)?;
        let least = if all.len() * SPARSE > words.len() {
            child.log2() + 1
        } else {
            MIN_LOG2
        };
        all.extend_from_slice(entries);
        self.build(&mut all, prefix, least)
    }

    /// New leaves for these, and for as many more as are expected.
    ///
    /// Leaves of moderate size, moderately full: as keys are spread evenly, all have about as many words, and next to none is outgrown on the way. As words stand in the
    /// order of the log, of eight lines from its home on a word finds none free in a few of a hundred leaves of this size that are so full, but in
    /// most of those that are seven eighths full; the larger a leaf is, the sooner.
    fn lay_out(&mut self, entries: &mut [Entry], prefix: u32, expected: u64) -> Result<Tree> {
        let log2 = (MIN_LOG2..=LAID_OUT_LOG2)
            .find(|&log2| expected <= (1 << log2) / LAID_OUT_FILL.1 * LAID_OUT_FILL.0);
        if let Some(log2) = log2
            && let Some(shape) = Shape::new(prefix, log2)
        {
            let mut words = vec![0; shape.words() as usize];
            if leaf::add_all(&*self.writer, &mut words, shape, entries)? {
                let address = (self.writer).append_leaf(ItemKind::IndexLeaf, self.slot, &words)?;
                return Ok(Tree::Child(Child::leaf(address, log2, prefix)));
            }
        }
        if log2.is_some() || prefix >= KEY_BITS {
            return self.build(entries, prefix, MIN_LOG2);
        }
        let (lower, upper) = self.halves(entries, prefix)?;
        let half = expected.div_ceil(2);
        let lower = self.lay_out(lower, prefix + 1, half)?;
        let upper = self.lay_out(upper, prefix + 1, half)?;
        Ok(Tree::Halves(Box::new([lower, upper])))
    }

    /// Those of either value of the bit behind the prefix, in their order.
    fn halves<'e>(
        &self,
        entries: &'e mut [Entry],
        prefix: u32,
    ) -> Result<(&'e mut [Entry], &'e mut [Entry])> {
        // In place: there may be as many steps as a key has bits.
        for entry in entries.iter_mut() {
            entry.bits(&*self.writer, prefix, 1)?;
        }
        let bit = |entry: &Entry| entry.bits.get(prefix, 1).unwrap_or(0);
        entries.sort_by_key(bit);
        let count = entries.partition_point(|entry| bit(entry) == 0);
        Ok(entries.split_at_mut(count))
    }

    /// New leaves for these, of at least `1 << least` words.
    fn build(&mut self, entries: &mut [Entry], prefix: u32, least: u32) -> Result<Tree> {
        if entries.is_empty() {
            return Ok(Tree::Child(Child::NONE));
        }
        if let Some(fitting) = leaf::log2_for(entries.len(), self.writer.fill())
            && !self.are_much_alike(entries, prefix)?
        {
            for log2 in fitting.max(least)..=MAX_LOG2 {
                let Some(shape) = Shape::new(prefix, log2) else {
                    break;
                };
                let mut words = vec![0; shape.words() as usize];
                if leaf::add_all(&*self.writer, &mut words, shape, entries)? {
                    let address =
                        self.writer
                            .append_leaf(ItemKind::IndexLeaf, self.slot, &words)?;
                    return Ok(Tree::Child(Child::leaf(address, log2, prefix)));
                }
            }
        }
        if prefix >= KEY_BITS {
            return Err(self
                .writer
                .too_large("more records of equal keys than a leaf can hold"));
        }
        let (lower, upper) = self.halves(entries, prefix)?;
        let lower = self.build(lower, prefix + 1, MIN_LOG2)?;
        let upper = self.build(upper, prefix + 1, MIN_LOG2)?;
        Ok(Tree::Halves(Box::new([lower, upper])))
    }

    /// Whether they have so many bits behind the prefix in common that no leaf can hold
    /// them: they would all have the same home.
    fn are_much_alike(&self, entries: &mut [Entry], prefix: u32) -> Result<bool> {
        if entries.len() as u64 <= MAX_LINES * LINE_WORDS {
            return Ok(false);
        }
        let mut first = None;
        for entry in entries {
            let home = entry.bits(&*self.writer, prefix, MAX_LOG2 - LINE_WORDS.ilog2())?;
            if *first.get_or_insert(home) != home {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A single reference to all of a tree whose keys have `prefix` bits in common.
    fn node_or_child(&mut self, tree: Tree, prefix: u32) -> Result<Child> {
        match tree {
            Tree::Child(child) => Ok(child),
            Tree::Halves(_) => self.append_node(vec![(Run::ALL, tree)], prefix),
        }
    }

    /// Writes the node of these runs, or of their halves.
    fn append_node(&mut self, trees: Vec<(Run, Tree)>, prefix: u32) -> Result<Child> {
        let mut children = Vec::with_capacity(MAX_CHILDREN);
        for (run, tree) in trees {
            self.append_runs(&mut children, run, tree, prefix)?;
        }
        let bitmap = bitmap(children.iter().map(|(run, _)| *run));
        let mut words = vec![bitmap];
        let sealed =
            (children.iter().enumerate()).map(|(rank, (_, child))| child.in_node(bitmap, rank).0);
        words.extend(sealed);
        let address = self
            .writer
            .append_node(ItemKind::IndexNode, self.slot, &words)?;
        Ok(Child::node(address, prefix))
    }

    fn append_runs(
        &mut self,
        children: &mut Vec<(Run, Child)>,
        run: Run,
        tree: Tree,
        prefix: u32,
    ) -> Result<()> {
        match (tree, run.halves()) {
            (Tree::Halves(halves), Some(runs)) => {
                for (tree, run) in halves.into_iter().zip(runs) {
                    self.append_runs(children, run, tree, prefix)?;
                }
            }
            (tree, _) => {
                let child = self.node_or_child(tree, prefix + NODE_BITS)?;
                children.push((run, child));
            }
        }
        Ok(())
    }
}

/// Finds places for all entries in the leaf that is there; `false`, and nothing, if one does
/// not fit. Places that already hold the very word count as free: they are what a killed
/// writer had already done.
fn place<K: Keys<Error = Error>>(
    keys: &K,
    base: &Snapshot<'_>,
    child: Child,
    entries: &mut [Entry],
    in_place: &mut InPlace,
) -> Result<bool> {
    let fault = |fault| base.error(fault);
    let words = leaf::words(base.view(), child).map_err(fault)?;
    let shape = leaf::shape(child).map_err(fault)?;
    let words_per_addition = match base.store().stores_words() {
        true => WORDS_PER_STORED_WORD,
        false => WORDS_PER_WRITTEN_WORD,
    };
    if entries.len() as u64 * words_per_addition >= shape.words() {
        let mut copy = leaf::copy_of(words);
        let end = base.view().end();
        for word in &mut copy {
            // Likewise: what a killed writer had already added.
            if format_spec::leaf::address(*word).0 >= end {
                *word = 0;
            }
        }
        let fits = leaf::add_all(keys, &mut copy, shape, entries)?;
        if fits {
            in_place.runs.push((child.address(), copy));
        }
        return Ok(fits);
    }
    let first = in_place.words.len();
    // A bit for each word of the largest leaf.
    let mut taken = [0u64; 1 << (MAX_LOG2 - 6)];
    for entry in entries {
        let (home, tag) = entry.home_and_tag(keys, shape)?;
        let word = format_spec::leaf::word(tag, entry.address);
        let found = leaf::free_place(shape, home, |place| {
            let there = words[place as usize].load(Ordering::Relaxed);
            let is_taken = taken[place as usize / 64] >> (place % 64) & 1 != 0;
            (there == 0 || there == word) && !is_taken
        });
        let Some(found) = found else {
            in_place.words.truncate(first);
            return Ok(false);
        };
        taken[found as usize / 64] |= 1 << (found % 64);
        in_place.words.push((child.address() + found * 8, word));
    }
    Ok(true)
}

/// Pushes `elements` onto a vector, and returns its new root.
pub(super) fn vector<W: Writer>(
    writer: &mut W,
    base: &Snapshot<'_>,
    slot: VectorSlot,
    elements: &[Address],
    in_place: &mut InPlace,
) -> Result<ChildWord> {
    let old = base.vector_root(slot);
    let slot = slot.number();
    let length = old.length + elements.len() as u64;
    let mut height = 0;
    while length > 1 << (VECTOR_LEAF_BITS + NODE_BITS * height) {
        height += 1;
    }
    let mut update = VectorUpdate {
        writer,
        base,
        slot,
        old,
        elements,
        in_place,
    };
    let root = trie_root(base, old.root)?;
    Ok(update.grow(root, height, 0)?.as_root())
}

struct VectorUpdate<'u, 's, W> {
    writer: &'u mut W,
    base: &'u Snapshot<'s>,
    slot: u8,
    old: VectorRoot,
    elements: &'u [Address],
    in_place: &'u mut InPlace,
}

impl<W: Writer> VectorUpdate<'_, '_, W> {
    /// What takes the place of `child`, the elements from `first` on, with a height of
    /// `height`, and perhaps not yet so high.
    fn grow(&mut self, child: Child, height: u32, first: u64) -> Result<Child> {
        if height == 0 {
            return self.grow_leaf(child, first);
        }
        let shift = VECTOR_LEAF_BITS + NODE_BITS * (height - 1);
        let length = self.old.length + self.elements.len() as u64;
        let count = ((length - first).div_ceil(1 << shift)).min(MAX_CHILDREN as u64);
        let mut children = Vec::with_capacity(count as usize);
        let mut is_new = child.is_none() || child.prefix() != height;
        for value in 0..count {
            let start = first + (value << shift);
            let below = if start >= self.old.length {
                Child::NONE
            } else if child.prefix() == height {
                let node = Node::at(self.base.view(), child);
                let below = node.and_then(|node| node.child_of(value as u32));
                below.map_err(|fault| self.base.error(fault))?
            } else {
                child
            };
            // Full already, and as high as it should be.
            let is_done = start + (1 << shift) <= self.old.length && below.prefix() == height - 1;
            let grown = match is_done {
                true => below,
                false => self.grow(below, height - 1, start)?,
            };
            is_new |= grown != below;
            children.push(grown);
        }
        if !is_new {
            return Ok(child);
        }
        let bitmap = u64::MAX >> (64 - children.len());
        let mut words = vec![bitmap];
        let sealed =
            (children.iter().enumerate()).map(|(rank, child)| child.in_node(bitmap, rank).0);
        words.extend(sealed);
        let address = self
            .writer
            .append_node(ItemKind::VectorNode, self.slot, &words)?;
        Ok(Child::node(address, height))
    }

    fn grow_leaf(&mut self, child: Child, first: u64) -> Result<Child> {
        let length = self.old.length + self.elements.len() as u64;
        let end = length.min(first + (1 << VECTOR_LEAF_BITS));
        let added: Vec<u64> = (self.old.length.max(first)..end)
            .map(|number| element_word(self.elements[(number - self.old.length) as usize], number))
            .collect();
        let there = self.old.length.saturating_sub(first);
        if !child.is_none() && end - first <= 1 << child.log2() {
            if !added.is_empty() {
                self.in_place
                    .runs
                    .push((child.address() + there * 8, added));
            }
            return Ok(child);
        }
        let mut words = Vec::new();
        if !child.is_none() {
            let old = leaf::words(self.base.view(), child);
            words = leaf::copy_of(old.map_err(|fault| self.base.error(fault))?);
        }
        words.truncate(there as usize);
        words.extend(added);
        // All but the first leaf have the largest size at once.
        let log2 = match length > 1 << VECTOR_LEAF_BITS {
            true => VECTOR_LEAF_BITS,
            false => length.next_power_of_two().trailing_zeros().max(MIN_LOG2),
        };
        words.resize(1 << log2, 0);
        let address = self
            .writer
            .append_leaf(ItemKind::VectorLeaf, self.slot, &words)?;
        Ok(Child::leaf(address, log2, 0))
    }
}

/// Does what is to be done in place for `trailer`'s transaction, which is committed, on top
/// of `base` again, whether it was done, in part or not at all.
pub(super) fn finish(
    store: &Store,
    base: &Snapshot<'_>,
    committed: &Snapshot<'_>,
    additions: &Additions,
) -> Result<()> {
    let trailer = committed.trailer();
    let mut in_place = InPlace::default();
    let keys = CommittedKeys(committed);
    for (index, entries) in IndexSlot::all().zip(&additions.indices) {
        let root = trailer.index(index);
        // By leaf, each in the order of the log.
        let mut groups: Vec<(Child, Vec<Entry>)> = Vec::new();
        let mut group_of: HashMap<u64, usize> = HashMap::new();
        for entry in entries {
            let leaf = leaf_of(committed, &root, entry.address)?;
            if leaf.address() >= trailer.start {
                continue;
            }
            let group = match group_of.entry(leaf.address()) {
                MapEntry::Occupied(group) => *group.get(),
                MapEntry::Vacant(free) => {
                    groups.push((leaf, Vec::new()));
                    *free.insert(groups.len() - 1)
                }
            };
            groups[group].1.push(*entry);
        }
        for (leaf, mut entries) in groups {
            if !place(&keys, base, leaf, &mut entries, &mut in_place)? {
                let what = "leaf is too small for its words";
                return Err(store.error(Fault::new(leaf.address(), what)));
            }
        }
    }
    for (vector, elements) in VectorSlot::all().zip(&additions.vectors) {
        finish_vector(base, committed, vector, elements, &mut in_place)?;
    }
    in_place.write(store, base.view().end())
}

/// The elements that come into a leaf that was there, if any do: it is the last one.
fn finish_vector(
    base: &Snapshot<'_>,
    committed: &Snapshot<'_>,
    vector: VectorSlot,
    elements: &[Address],
    in_place: &mut InPlace,
) -> Result<()> {
    let old = base.vector_root(vector);
    let trailer = committed.trailer();
    let new = &committed.vector_root(vector);
    if elements.is_empty() || old.length == 0 {
        return Ok(());
    }
    let last = trie::leaf_of_element(committed.view(), new, old.length - 1)
        .map_err(|fault| base.error(fault))?;
    if last.address() >= trailer.start {
        return Ok(());
    }
    let first = (old.length - 1) >> VECTOR_LEAF_BITS << VECTOR_LEAF_BITS;
    let end = (first + (1 << last.log2())).min(new.length);
    let added: Vec<u64> = (old.length..end)
        .filter_map(|number| {
            let element = elements.get((number - old.length) as usize)?;
            Some(element_word(*element, number))
        })
        .collect();
    if !added.is_empty() {
        in_place
            .runs
            .push((last.address() + (old.length - first) * 8, added));
    }
    Ok(())
}

fn leaf_of(snapshot: &Snapshot<'_>, root: &IndexRoot, address: Address) -> Result<Child> {
    let key = snapshot.record_at(address)?.key();
    trie::leaf_of(snapshot.view(), root, &key).map_err(|fault| snapshot.error(fault))
}

/// Reads keys of records that are committed.
struct CommittedKeys<'a, 's>(&'a Snapshot<'s>);

impl Keys for CommittedKeys<'_, '_> {
    type Error = Error;
    fn key(&self, address: Address) -> Result<format_spec::digest::Digest> {
        Ok(self.0.record_at(address)?.key())
    }
    fn error(&self, fault: Fault) -> Error {
        self.0.error(fault)
    }
}
