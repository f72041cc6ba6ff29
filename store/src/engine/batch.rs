//! Many look-ups at once.
//!
//! A look-up waits for memory twice: for the line of a leaf, and, if there is a word with its tag, for the record that this leads to. One
//! after the other, most of the time is that of waiting. Who has several keys at hand has the processor fetch for all of them first
//! what each will wait for, and then looks them up as ever: what was fetched is a hint, and no more.

use super::error::Result;
use super::leaf;
use super::record::Record;
use super::snapshot::Snapshot;
use super::trie;
use crate::prefetch::prefetch;
use format_spec::digest::Digest;
use format_spec::file::IndexSlot;

/// So many keys are fetched for at once: more than there can be reads under way in a processor core gain nothing, and what was fetched first
/// should still be in the nearest cache when it is used.
pub const GROUP: usize = 16;

impl<'s> Snapshot<'s> {
    /// Has the processor begin to fetch what looking these keys up in `index` will read, of the first [`GROUP`] of them.
    #[inline]
    pub fn prefetch_keys(&self, index: IndexSlot, keys: &[Digest]) {
        let view = self.view();
        let root = &self.index_root(index);
        let mut homes = [None; GROUP];
        for (home, key) in homes.iter_mut().zip(keys) {
            *home = match trie::leaf_of(view, root, key) {
                Ok(child) if !child.is_none() => leaf::home(view, child, key),
                _ => None,
            };
            if let Some((line, _)) = home {
                prefetch(line);
            }
        }
        for (line, tag) in homes.into_iter().flatten() {
            if let Some(address) = leaf::first_tagged(line, tag) {
                view.prefetch(address.0);
            }
        }
    }

    /// Looks up all `keys`, and calls `found` for each of them in their order. Several times as fast as [`get`](Self::get) of one
    /// after the other where what is looked up is not in a cache.
    ///
    /// # Errors
    /// If the file is damaged where one of them is looked up.
    #[inline]
    pub fn get_many(
        &self,
        index: IndexSlot,
        keys: &[Digest],
        mut found: impl FnMut(usize, Option<Record<'s>>),
    ) -> Result<()> {
        for (number, keys) in keys.chunks(GROUP).enumerate() {
            self.prefetch_keys(index, keys);
            for (place, key) in keys.iter().enumerate() {
                found(number * GROUP + place, self.get(index, key)?);
            }
        }
        Ok(())
    }
}
