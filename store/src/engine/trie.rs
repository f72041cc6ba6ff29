//! Tries: the way from a root to the leaf of a key or of an element, and all leaves.
//! `format_spec::trie` says what nodes are.
//!
//! Nodes are items of the log: once committed they never change. A child's address is
//! below its node's, so that there are no circles; that, and the check in each reference,
//! is all that a lookup looks at. [`leaves`] checks the rest.

use super::error::Fault;
use super::leaf::{self, Entry, Keys};
use super::map::View;
use format_spec::digest::Digest;
use format_spec::file::{ITEM_ALIGN, ItemHead, ItemKind};
use format_spec::ids::Address;
use format_spec::leaf::KEY_BITS;
use format_spec::trailer::{IndexRoot, VectorRoot};
use format_spec::trie::{
    self, Child, ChildWord, MAX_CHILDREN, MAX_NODE_WORDS, NODE_BITS, Run, VECTOR_LEAF_BITS,
};
use std::collections::HashSet;
use std::sync::atomic::Ordering;

/// A node in the file.
#[derive(Clone, Copy)]
pub(super) struct Node<'s> {
    bitmap: u64,
    /// The node from its head on, and what stands behind it.
    words: &'s [u64],
    child: Child,
}

impl<'s> Node<'s> {
    /// The node that `child` refers to.
    #[inline]
    pub fn at(view: View<'s>, child: Child) -> Result<Node<'s>, Fault> {
        // As much as the largest node has, if so much is there: so the bitmap need not be waited for.
        let room = view.end().saturating_sub(child.address()) / 8 * 8;
        let most = size_of::<[u64; MAX_NODE_WORDS]>() as u64;
        let bytes = view.bytes(child.address(), room.min(most))?;
        match bytemuck::try_cast_slice(bytes) {
            Ok(words @ &[_, bitmap, ..]) => Ok(Node {
                bitmap,
                words,
                child,
            }),
            _ => Err(Fault::of_index(
                child.address(),
                "is not the address of a node",
            )),
        }
    }

    #[inline]
    pub fn bitmap(self) -> u64 {
        self.bitmap
    }

    /// The child of that number.
    #[inline]
    pub fn child(self, rank: usize) -> Result<Child, Fault> {
        let word = self.words.get(2 + rank);
        let child = word.and_then(|&word| ChildWord(word).in_node(self.bitmap(), rank));
        match child {
            Some(child) if child.address() < self.child.address() => Ok(child),
            _ => Err(Fault::of_index(self.child.address(), "node is damaged")),
        }
    }

    /// The child that has this value of the node's bits.
    #[inline]
    pub fn child_of(self, value: u32) -> Result<Child, Fault> {
        match trie::rank(self.bitmap(), value) {
            Some(rank) => self.child(rank),
            None => Err(Fault::of_index(self.child.address(), "node is damaged")),
        }
    }

    /// The children of an index's node, and the values that each has.
    pub fn children(self) -> Result<Vec<(Run, Child)>, Fault> {
        let fault = || Fault::of_index(self.child.address(), "node's bitmap is wrong");
        let runs = trie::runs(self.bitmap()).ok_or_else(fault)?;
        (runs.into_iter().enumerate())
            .map(|(rank, run)| Ok((run, self.child(rank)?)))
            .collect()
    }

    /// Whether the item's head is that of a node of this kind with these children.
    fn has_head(self, kind: ItemKind, slot: u8) -> bool {
        let length = 8 + 8 * u64::from(self.bitmap().count_ones());
        ItemHead::new(kind, slot, length) == Some(ItemHead(self.words[0]))
    }
}

#[inline]
fn root(word: ChildWord, view: View<'_>) -> Result<Child, Fault> {
    (word.as_root()).ok_or(Fault::of_index(view.end(), "trailer's roots are wrong"))
}

/// The leaf for `key`; [`Child::NONE`] if there is none.
#[inline]
pub(super) fn leaf_of(view: View<'_>, index: &IndexRoot, key: &Digest) -> Result<Child, Fault> {
    let mut child = root(index.root, view)?;
    let mut bit = 0;
    let first = key.window(0);
    while child.is_node() {
        // Nodes so high that the first bits do not suffice are of keys much alike.
        let window = match bit <= 64 - NODE_BITS {
            true => first << bit,
            false => key.window(bit),
        };
        let value = window >> (64 - NODE_BITS);
        child = Node::at(view, child)?.child_of(value as u32)?;
        bit += NODE_BITS;
    }
    Ok(child)
}

/// The leaf for an entry, of whose key the record is read only if too little is known.
pub(super) fn leaf_of_entry<K: Keys>(
    view: View<'_>,
    index: &IndexRoot,
    keys: &K,
    entry: &mut Entry,
) -> Result<Child, K::Error> {
    let error = |fault| keys.error(fault);
    let mut child = root(index.root, view).map_err(error)?;
    let mut bit = 0;
    while child.is_node() {
        let value = entry.bits(keys, bit, NODE_BITS)?;
        let node = Node::at(view, child).map_err(error)?;
        child = node.child_of(value as u32).map_err(error)?;
        bit += NODE_BITS;
    }
    Ok(child)
}

/// The leaf for an element, which must be below the vector's length.
#[inline]
pub(super) fn leaf_of_element(
    view: View<'_>,
    vector: &VectorRoot,
    element: u64,
) -> Result<Child, Fault> {
    let mut child = root(vector.root, view)?;
    while child.is_node() {
        let value = element >> shift_of(child)? & (MAX_CHILDREN as u64 - 1);
        child = Node::at(view, child)?.child_of(value as u32)?;
    }
    Ok(child)
}

/// The address that is an element, which must be below the vector's length.
#[inline]
pub(super) fn element_address(
    view: View<'_>,
    vector: &VectorRoot,
    element: u64,
) -> Result<Address, Fault> {
    let leaf = leaf_of_element(view, vector, element)?;
    let words = leaf::words(view, leaf)?;
    let place = element & ((1 << VECTOR_LEAF_BITS) - 1);
    let word = words
        .get(place as usize)
        .map(|word| word.load(Ordering::Relaxed));
    word.and_then(|word| trie::element_address(word, element))
        .ok_or(Fault::of_index(
            leaf.address() + place * 8,
            "element of a vector is damaged",
        ))
}

/// The elements' bits that a node of a vector takes begin behind so many.
#[inline]
pub(super) fn shift_of(node: Child) -> Result<u32, Fault> {
    // More than two nodes above each other have more elements than there are numbers.
    match node.prefix() {
        height @ 1..=4 => Ok(VECTOR_LEAF_BITS + NODE_BITS * (height - 1)),
        _ => Err(Fault::of_index(node.address(), "node's height is wrong")),
    }
}

/// All nodes and leaves of an index or a vector, children before their node, and leaves in the order
/// of keys or elements. Everything that can be said of a node without reading leaves is checked.
pub(super) struct Walk<'s> {
    view: View<'s>,
    slot: u8,
    kind: ItemKind,
    /// Those below are not entered: nodes and leaves at an address lower than this.
    floor: u64,
    /// Nothing is there twice.
    seen: HashSet<u64>,
    pub nodes: Vec<Child>,
    pub node_bytes: u64,
    /// And the first 64 bits of all keys of each, as far as its prefix goes.
    pub leaves: Vec<(Child, u64)>,
    /// Those that were not entered.
    pub below: Vec<Child>,
}

impl<'s> Walk<'s> {
    /// Walks an index's trie, but not what is below `floor`.
    pub fn index(
        view: View<'s>,
        slot: u8,
        index: &IndexRoot,
        floor: u64,
    ) -> Result<Walk<'s>, Fault> {
        let mut walk = Walk::new(view, slot, ItemKind::IndexNode, floor);
        walk.visit(root(index.root, view)?, 0, 0, &mut |_| false)?;
        Ok(walk)
    }

    /// Walks what of an index's trie is not in `kept`.
    pub fn index_without(
        view: View<'s>,
        slot: u8,
        index: &IndexRoot,
        kept: &HashSet<u64>,
    ) -> Result<Walk<'s>, Fault> {
        let mut walk = Walk::new(view, slot, ItemKind::IndexNode, 0);
        let mut is_kept = |child: Child| kept.contains(&child.address());
        walk.visit(root(index.root, view)?, 0, 0, &mut is_kept)?;
        Ok(walk)
    }

    /// Walks a vector's trie, but not what is below `floor`.
    pub fn vector(
        view: View<'s>,
        slot: u8,
        vector: &VectorRoot,
        floor: u64,
    ) -> Result<Walk<'s>, Fault> {
        let mut walk = Walk::new(view, slot, ItemKind::VectorNode, floor);
        let root = root(vector.root, view)?;
        walk.visit(root, root.prefix(), 0, &mut |_| false)?;
        Ok(walk)
    }

    fn new(view: View<'s>, slot: u8, kind: ItemKind, floor: u64) -> Walk<'s> {
        Walk {
            view,
            slot,
            kind,
            floor,
            seen: HashSet::new(),
            nodes: Vec::new(),
            node_bytes: 0,
            leaves: Vec::new(),
            below: Vec::new(),
        }
    }

    /// `prefix`: what the child's must be; `path`: its bits.
    fn visit(
        &mut self,
        child: Child,
        prefix: u32,
        path: u64,
        is_kept: &mut dyn FnMut(Child) -> bool,
    ) -> Result<(), Fault> {
        if child.is_none() || is_kept(child) {
            return Ok(());
        }
        let fault = |what| Fault::of_index(child.address(), what);
        if child.prefix() != prefix {
            return Err(fault("node or leaf is not where it belongs in its trie"));
        }
        if !child.address().is_multiple_of(ITEM_ALIGN) || !self.seen.insert(child.address()) {
            return Err(fault("node or leaf is in a trie twice"));
        }
        if child.address() < self.floor {
            self.below.push(child);
            return Ok(());
        }
        if !child.is_node() {
            leaf::words(self.view, child)?;
            self.leaves.push((child, path));
            return Ok(());
        }
        let node = Node::at(self.view, child)?;
        if !node.has_head(self.kind, self.slot) {
            return Err(fault("node's head is wrong"));
        }
        match self.kind {
            ItemKind::IndexNode => {
                if prefix + NODE_BITS > KEY_BITS + NODE_BITS {
                    return Err(fault("trie is too high"));
                }
                for (run, below) in node.children()? {
                    if below.is_node() && run.log2 > 0 {
                        return Err(fault("node has more than one value"));
                    }
                    let end = prefix + NODE_BITS;
                    let value = u64::from(run.start).checked_shl(64u32.wrapping_sub(end));
                    let path = path | value.unwrap_or(0);
                    self.visit(below, end - run.log2, path, is_kept)?;
                }
            }
            _ => {
                shift_of(child)?;
                let count = node.bitmap().count_ones();
                if count == 0 || node.bitmap() != u64::MAX >> (64 - count) {
                    return Err(fault("node's bitmap is wrong"));
                }
                for rank in 0..count as usize {
                    self.visit(node.child(rank)?, prefix - 1, 0, is_kept)?;
                }
            }
        }
        self.nodes.push(child);
        self.node_bytes += 8 * (2 + u64::from(node.bitmap().count_ones()));
        Ok(())
    }
}
