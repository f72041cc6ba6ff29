//! Recovery after the death of the operating system, and verification: both
//! compute from the log what the leaves must be, and then write or compare.

use super::create::first_trailer;
use super::error::{Error, Fault, Result};
use super::log::{self, next_transaction, trailer_at};
use super::map::View;
use super::replay::{Leaves, MadeLeaf};
use super::snapshot::Snapshot;
use super::store::Store;
use format_spec::file::{FileHeader, FileState, LOG_OFFSET, STATE_OFFSET};
use std::mem::offset_of;

impl Store {
    /// Checks everything up to the newest transaction: every transaction's
    /// checksum, the chain, and every word of every leaf against the log.
    /// Writers can go on meanwhile.
    pub fn verify(&self) -> Result<()> {
        self.verification()?.finish()
    }

    /// Begins to [verify](Self::verify), for who does so while transactions are added.
    ///
    /// # Errors
    /// If the file's beginning is damaged.
    pub fn verification(&self) -> Result<Verification<'_>> {
        let newest = self.snapshot()?;
        let view = newest.view();
        let begin = || {
            self.check_reserved(view)?;
            Ok(self.replay_all(view)?.following())
        };
        let leaves = begin().map_err(|fault| self.error(fault))?;
        Ok(Verification {
            store: self,
            leaves,
        })
    }

    fn replay_all<'s>(&self, view: View<'s>) -> Result<Leaves<'s>, Fault> {
        let first = trailer_at(view, LOG_OFFSET)?;
        if !first.is(&first_trailer(first.time, first.nonce)) {
            return Err(Fault::new(LOG_OFFSET, "first trailer is wrong"));
        }
        Ok(Leaves::since(first))
    }

    fn check_reserved(&self, view: View<'_>) -> Result<(), Fault> {
        let state_end = STATE_OFFSET + size_of::<FileState>() as u64;
        for (start, end) in [
            (size_of::<FileHeader>() as u64, STATE_OFFSET),
            (state_end, LOG_OFFSET),
        ] {
            if view
                .bytes(start, end - start)?
                .iter()
                .any(|&byte| byte != 0)
            {
                return Err(Fault::new(start, "reserved bytes are not zero"));
            }
        }
        Ok(())
    }

    /// Finds the newest transaction that is whole, makes the leaves agree with
    /// it, and publishes it. SPEC.md, "Recovery".
    pub(super) fn recover(&self) -> Result<()> {
        let length = self.refresh_length()?;
        let view = self.view(length.min(self.reserve()))?;
        // Somebody has tried, and the sync has failed. The file may be a copy of which nothing
        // is on the disk, whatever its state says.
        let was_in_doubt = !self.is_read_only() && self.is_own_doubt()?;
        if was_in_doubt {
            self.write_log_again(0..STATE_OFFSET)?;
            self.write_log_again(LOG_OFFSET..view.end())?;
        }
        let checkpoint = self.state_offset(offset_of!(FileState, checkpoint));
        let visible = self.state_offset(offset_of!(FileState, visible));
        let replay = || -> Result<Leaves<'_>, Error> {
            let start =
                (checkpoint.ok().filter(|_| !was_in_doubt)).map(|offset| trailer_at(view, offset));
            let mut leaves = match start {
                Some(Ok(start)) => {
                    self.check_writable(&start)?;
                    Leaves::since(start)
                }
                // The state itself is damaged: everything is in the log.
                _ => self.replay_all(view).map_err(|fault| self.error(fault))?,
            };
            while let Ok(next) = next_transaction(view, leaves.trailer()) {
                if self.is_read_only() && visible.as_ref().is_ok_and(|&last| next.offset > last) {
                    break;
                }
                leaves
                    .apply(view, &next)
                    .map_err(|fault| self.error(fault))?;
                for finished in std::mem::take(&mut leaves.finished) {
                    self.settle_leaf(view, &finished, next.end())?;
                }
            }
            Ok(leaves)
        };
        let leaves = replay()?;
        let newest = leaves.trailer().offset;
        if self.is_read_only() && visible? != newest {
            return Err(self.needs_recovery(Fault::new(newest, "what follows is not whole")));
        }
        let end = leaves.trailer().end();
        let cleaned = leaves
            .cleaned(view.up_to(end))
            .map_err(|fault| self.error(fault))?;
        for leaf in leaves.made().chain(&cleaned) {
            self.settle_leaf(view, leaf, end)?;
        }
        if self.is_read_only() {
            return Ok(());
        }
        self.wipe(view, end)?;
        self.within_doubt(|| {
            self.sync_file()?;
            if was_in_doubt {
                self.compare_with_disk(view, 0..STATE_OFFSET)?;
                self.compare_with_disk(view, LOG_OFFSET..view.end())?;
            }
            // In this order: who finds the session right looks no further.
            self.write_state(offset_of!(FileState, head), &[newest; 4])?;
            self.write_state(offset_of!(FileState, swept), &[0; 2])?;
            self.write_session()?;
            self.sync_file()
        })
    }

    /// Writes zeros over all from `start` to the view's end, which was rolled back or never
    /// committed. What a transaction lacks there could come to be written as a part of the next one, and of that
    /// nothing else reach the disk: then the old one would be whole.
    fn wipe(&self, view: View<'_>, start: u64) -> Result<()> {
        const CHUNK: u64 = 64 << 10;
        static ZEROS: [u8; CHUNK as usize] = [0; CHUNK as usize];
        let mut offset = start;
        while offset < view.end() {
            let length = CHUNK.min(view.end() - offset);
            let zeros = &ZEROS[..length as usize];
            let there = view.bytes(offset, length);
            if there.map_err(|fault| self.error(fault))? != zeros {
                self.write_at(zeros, offset)?;
            }
            offset += length;
        }
        Ok(())
    }

    /// Writes a leaf as it must be; who may only read compares, but for what transactions
    /// that end after `end` have added.
    fn settle_leaf(&self, view: View<'_>, leaf: &MadeLeaf, end: u64) -> Result<()> {
        if self.is_read_only() {
            let compared = leaf.compare(view, Some(end));
            return compared.map_err(|fault| self.needs_recovery(fault));
        }
        self.write_at(bytemuck::cast_slice(&leaf.words), leaf.child.address())
    }

    /// Makes all leaves again from the log, as far as they are not what they must be, and returns
    /// how many were not. Waits for other writers, readers go on; then for the disk, if there were any.
    ///
    /// What transactions say is believed, also where their checksums are wrong: a record that is
    /// damaged is found by its own check.
    ///
    /// # Errors
    /// If the log itself cannot be followed: a trailer, a node or the head of an item is damaged.
    /// If the disk does not take them; made again they are all the same.
    pub fn rewrite_leaves(&self) -> Result<u64> {
        let lock = self.lock()?;
        let head = self.state_offset(offset_of!(FileState, head))?;
        let newest = self.trailer(head)?;
        self.check_writable(&newest)?;
        let view = self.view(newest.end())?;
        let mut trailers = vec![newest];
        while let Some(last) = trailers.last()
            && last.revision > 0
        {
            trailers.push(self.trailer(last.previous)?);
        }
        let mut written = 0;
        let mut write = |leaf: &MadeLeaf| {
            if leaf.compare(view, None).is_ok() {
                return Ok(());
            }
            if written == 0 {
                // None was good for those, nor will be one whose leaves were synced before.
                self.write_state(offset_of!(FileState, swept), &[0; 2])?;
                self.write_state(offset_of!(FileState, checkpoint), &[LOG_OFFSET])?;
            }
            written += 1;
            self.write_at(bytemuck::cast_slice(&leaf.words), leaf.child.address())
        };
        let mut leaves = self.replay_all(view).map_err(|fault| self.error(fault))?;
        for next in trailers.into_iter().rev().skip(1) {
            leaves
                .apply(view, &next)
                .map_err(|fault| self.error(fault))?;
            leaves
                .finished
                .drain(..)
                .try_for_each(|leaf| write(&leaf))?;
        }
        leaves.made().try_for_each(&mut write)?;
        self.write_state(offset_of!(FileState, visible), &[head])?;
        drop(lock);
        if written > 0 {
            self.move_checkpoint()?;
        }
        Ok(written)
    }

    fn needs_recovery(&self, fault: Fault) -> Error {
        Error::NeedsRecovery {
            path: self.path().to_owned(),
            offset: fault.offset,
            what: fault.what,
        }
    }
}

/// How far a file is verified.
pub struct Verification<'s> {
    store: &'s Store,
    /// What the leaves must be.
    leaves: Leaves<'s>,
}

impl<'s> Verification<'s> {
    /// Verifies the transactions that were added since, each by itself: leaves are compared at the [end](Self::finish), but for those
    /// that are done with.
    ///
    /// # Errors
    /// If one is damaged.
    pub fn go_on(&mut self) -> Result<()> {
        let newest = self.store.snapshot()?;
        let replayed = self.replay(newest);
        replayed.map_err(|fault| self.store.error(fault))
    }

    fn replay(&mut self, newest: Snapshot<'s>) -> Result<(), Fault> {
        let (view, leaves) = (newest.view(), &mut self.leaves);
        while leaves.trailer().offset < newest.trailer().offset {
            let next = next_transaction(view, leaves.trailer())?;
            let jump = log::jump_after(view, leaves.trailer())?;
            if next.jump != jump {
                return Err(Fault::new(next.offset, "trailer's links are wrong"));
            }
            leaves.apply(view, &next)?;
            for finished in leaves.finished.drain(..) {
                finished.compare(view, None)?;
            }
        }
        Ok(())
    }

    /// Verifies all that there is now.
    ///
    /// # Errors
    /// If something is damaged.
    pub fn finish(mut self) -> Result<()> {
        let store = self.store;
        if let Some(_lock) = store.try_lock()?
            && !store.is_read_only()
        {
            store.catch_up()?;
        }
        let newest = store.snapshot()?;
        let view = newest.view();
        let replayed = self.replay(newest);
        let compared = replayed.and_then(|()| self.leaves.compare(view, Some(newest.size())));
        compared.map_err(|fault| store.error(fault))?;

        // If nobody has written meanwhile, nor was killed while writing, there
        // must be no word that is not accounted for.
        let Some(_lock) = store.try_lock()? else {
            return Ok(());
        };
        let head = store.state_offset(offset_of!(FileState, head))?;
        if head == newest.trailer().offset {
            let compared = self.leaves.compare(view, None);
            compared.map_err(|fault| store.error(fault))?;
        }
        let (checkpoint, durable) = store.durable_state()?;
        for offset in [head, checkpoint, durable] {
            store.trailer(offset)?;
        }
        store.check_sweep(checkpoint)?;
        store.check_doubt()
    }
}
