//! What a writer looks up before it takes the lock: which records are there and whole, and which are certainly not.
//!
//! A compilation has hundreds of names, pieces and fragments. They are looked up in groups, for which the processor fetches ahead
//! ([`Snapshot::prefetch_keys`]). What is absent for certain need not be looked up again with the lock, unless another writer has been
//! there meanwhile.

use super::{ProgramError, Result};
use crate::engine::{Error, GROUP, Record, Snapshot};
use format_spec::digest::Digest;
use format_spec::file::IndexSlot;

/// What a look-up has told.
pub(super) enum Look<T> {
    /// It is there, and whole.
    There(T),
    /// It is not there, and what says so is sound.
    Absent,
    /// It is damaged, or what leads to it is. With the lock it is mended, or it is said.
    Unsure,
}

impl<T> Look<T> {
    /// What `read` makes of what is there; nothing is as unsure as damage.
    pub(super) fn and_then<U>(self, read: impl FnOnce(T) -> Option<U>) -> Look<U> {
        match self {
            Look::There(found) => read(found).map_or(Look::Unsure, Look::There),
            Look::Absent => Look::Absent,
            Look::Unsure => Look::Unsure,
        }
    }
}

/// Looks for the record of `key` that `is_it`.
pub(super) fn look<'s>(
    snapshot: &Snapshot<'s>,
    index: IndexSlot,
    key: &Digest,
    is_it: impl Fn(&Record<'s>) -> bool,
) -> Result<Look<Record<'s>>> {
    match snapshot.find_or_check(index, key, is_it) {
        Ok(Some(record)) if record.is_whole() => Ok(Look::There(record)),
        Ok(None) => Ok(Look::Absent),
        Ok(Some(_)) | Err(Error::Damaged { .. }) => Ok(Look::Unsure),
        Err(error) => Err(ProgramError::from(error)),
    }
}

/// The ids or addresses of one kind of thing in a compilation.
pub(super) struct Numbers<T> {
    /// By the compilation's number.
    pub(super) of: Vec<T>,
    /// The keys, likewise; a default where there is none yet.
    pub(super) keys: Vec<Digest>,
    /// The compilation's numbers of those that are not there yet, in the order in which they are to be added.
    pub(super) missing: Vec<u32>,
    /// How many of `missing` have been added.
    pub(super) done: usize,
    /// Whether all of `missing` are absent for certain.
    pub(super) is_certain: bool,
}

impl<T: Default> Numbers<T> {
    /// Those numbered in `order`, of these keys, none of which is known.
    pub(super) fn unknown(
        order: impl ExactSizeIterator<Item = u32>,
        keys: Vec<Digest>,
    ) -> Numbers<T> {
        let mut of = Vec::new();
        of.resize_with(order.len(), T::default);
        Numbers {
            of,
            keys,
            missing: order.collect(),
            done: 0,
            is_certain: false,
        }
    }

    /// Looks for all that are missing, with `find`, which gives those that are known.
    pub(super) fn look_for(
        &mut self,
        snapshot: &Snapshot<'_>,
        index: IndexSlot,
        mut find: impl FnMut(usize, &Digest) -> Result<Look<T>>,
    ) -> Result<()> {
        self.is_certain = true;
        let order = std::mem::take(&mut self.missing);
        let mut group = [Digest([0; 32]); GROUP];
        for numbers in order.chunks(GROUP) {
            for (key, &number) in group.iter_mut().zip(numbers) {
                *key = self.keys[number as usize];
            }
            snapshot.prefetch_keys(index, &group[..numbers.len()]);
            for (key, &number) in group.iter().zip(numbers) {
                match find(number as usize, key)? {
                    Look::There(known) => {
                        self.of[number as usize] = known;
                        continue;
                    }
                    Look::Absent => {}
                    Look::Unsure => self.is_certain = false,
                }
                self.missing.push(number);
            }
        }
        Ok(())
    }

    /// Of each, whether it was found.
    pub(super) fn known(&self) -> Vec<bool> {
        let mut known = vec![true; self.of.len()];
        for &number in &self.missing {
            known[number as usize] = false;
        }
        known
    }

    /// The next one that is missing.
    pub(super) fn next(&self) -> Option<usize> {
        self.missing.get(self.done).map(|number| *number as usize)
    }
}
