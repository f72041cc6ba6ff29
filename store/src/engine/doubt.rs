//! Syncs that fail.
//!
//! When Linux cannot write a page to the disk, it says so once to each open file description
//! whose owner asks (fsync(2), msync(2)), and from then on takes the page for written. The next sync
//! succeeds, although the page is not on the disk; when memory is short, the page may even be thrown
//! away and read again as it was before. So to sync again is no remedy. What is:
//!
//! * The word `doubt` of the file's state is set before each sync, and cleared only when that has
//!   succeeded. So whoever syncs next sees that one has failed, also if the process that was told of it was
//!   killed before it could tell anybody.
//! * Where there is doubt, a sync alone marks nothing as being on the disk. First the log since the last
//!   checkpoint is *written again*, as it is, so that the kernel has it to write once more; then its
//!   checksums are compared, because parts of it may have been thrown away; and the leaves that have
//!   changed since are made from it, as recovery does, and written.
//! * After a sync of that, it is read from the disk, past the kernel's memory (`O_DIRECT`), and compared. For also what
//!   is written again, and synced without an error, need not be there: ext4 (to Linux 6.18 at least) does not notice that
//!   the blocks of a page, when it could not write it first, are still marked as never written, and whoever reads
//!   them later gets zeros. Only if all is there, it is marked, and the doubt ends. If not, it stays; then a new file will do
//!   (a compaction, a copy).
//! * If the checksums are wrong, the data is lost: to mark it is refused for ever, with the error of the damage. Nothing
//!   is rolled back, because other processes may be reading what would be overwritten. A new
//!   session, or a copy of the file, begins at the last checkpoint, with the newest transaction that is whole.
//!
//! A write of the kernel's own may have failed as well, long after the process that had
//! written it ended, with nobody there to be told. It is the next one to open the file who is,
//! when he syncs: as long as the kernel remembers the file. If not, it has thrown the file's pages away too, and
//! what is read was read from the disk. So who marks what had been written before he opened the file compares its
//! checksums, and for a checkpoint the leaves, before he believes a sync.
//!
//! One thing cannot be known: that another program has synced the file (`sync FILE`), and was told
//! in our place.

use super::error::{Error, Fault, Result};
use super::lock::WriteLock;
use super::log::{self, next_transaction};
use super::map::View;
use super::replay::{Leaves, MadeLeaf};
use super::store::Store;
use format_spec::file::{FileState, LOG_OFFSET, STATE_OFFSET, doubt_of};
use format_spec::trailer::Trailer;
use std::mem::offset_of;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// How much is written again at a time.
const CHUNK: u64 = 1 << 20;

impl Store {
    /// Does `sync`, which waits for the disk and then marks what is there, unless there is
    /// doubt: then all is written again, synced and marked. Likewise if `sync` does not, but says
    /// that something is not as it must be (`false`). Only one may do this at a time; `alone` if nobody
    /// else can write meanwhile either.
    pub(super) fn sync_without_doubt(
        &self,
        alone: Option<&WriteLock<'_>>,
        sync: impl FnOnce() -> Result<bool>,
    ) -> Result<()> {
        let was_in_doubt = self.doubt()? != 0;
        self.within_doubt(|| {
            if was_in_doubt || !sync()? {
                self.write_again(alone)?;
            }
            Ok(())
        })
    }

    /// Does something that syncs; there is doubt until it has succeeded.
    pub(super) fn within_doubt(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        self.write_doubt(doubt_of(self.session()))?;
        let result = sync();
        match &result {
            Ok(()) => self.write_doubt(0)?,
            // Again: its own page may be one that was not written.
            Err(_) => self.write_doubt(doubt_of(self.session()))?,
        }
        result
    }

    /// Whether a sync of this session has failed, though the file's state may be one of another.
    pub(super) fn is_own_doubt(&self) -> Result<bool> {
        Ok(self.doubt()? == doubt_of(self.session()))
    }

    /// The word, checked for what it can be.
    pub(super) fn check_doubt(&self) -> Result<()> {
        let mut session = [0; 4];
        for (word, known) in session.iter_mut().zip(self.session_words()?) {
            *word = known.load(Ordering::Relaxed);
        }
        let doubt = self.doubt()?;
        if doubt != 0 && doubt != doubt_of(session) {
            let what = "state's doubt is of another session";
            return Err(self.error(Fault::new(doubt_offset(), what)));
        }
        Ok(())
    }

    fn doubt(&self) -> Result<u64> {
        let word = self.state_word(offset_of!(FileState, doubt))?;
        Ok(word.load(Ordering::Acquire))
    }

    fn write_doubt(&self, doubt: u64) -> Result<()> {
        self.write_words(&[(doubt_offset(), doubt)], LOG_OFFSET)
    }

    /// Whether the transactions after that of the trailer at `from`, up to the one at `to`, are whole.
    pub(super) fn is_log_whole(&self, from: u64, to: u64) -> Result<bool> {
        let mut last = self.trailer(from)?;
        let view = self.view(self.trailer(to)?.end())?;
        while last.offset < to {
            match next_transaction(view, &last) {
                Ok(next) => last = next,
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The same, and whether the leaves are as they must be; these may have more already.
    pub(super) fn is_whole(&self, from: u64, to: u64) -> Result<bool> {
        let (from, to) = (self.trailer(from)?, self.trailer(to)?);
        let view = self.view(to.end())?;
        let compare = || -> Result<(), Fault> {
            let finished = |leaf: MadeLeaf| leaf.compare(view, None);
            let leaves = leaves_up_to(view, &from, &to, finished)?;
            (leaves.made()).try_for_each(|leaf| leaf.compare(view, Some(view.end())))
        };
        Ok(compare().is_ok())
    }

    /// Writes all since the checkpoint again, syncs it, sees to it that it is there, and
    /// moves the checkpoint.
    fn write_again(&self, alone: Option<&WriteLock<'_>>) -> Result<()> {
        let lock = match alone {
            Some(_) => None,
            None => Some(self.lock()?),
        };
        let newest = self.catch_up()?;
        let (view, head) = (newest.view(), newest.trailer());
        let checkpoint = self.trailer(self.durable_state()?.0)?;
        let start = checkpoint.end();
        // First this, and then the checksums: what is not on the disk can no longer be thrown
        // away without our being told.
        self.write_log_again(start..view.end())?;
        let mut finished = Vec::new();
        let leaves = leaves_up_to(view, &checkpoint, head, |leaf| {
            finished.push(leaf);
            Ok(())
        });
        let leaves = leaves.map_err(|fault| self.error(fault))?;
        for leaf in finished.iter().chain(leaves.made()) {
            self.write_at(bytemuck::cast_slice(&leaf.words), leaf.child.address())?;
        }
        drop(lock);
        self.sync_file()?;
        let parts = log::fixed_parts(view, start, view.end());
        for part in parts.map_err(|fault| self.error(fault))? {
            self.compare_with_disk(view, part)?;
        }
        for leaf in finished.iter().chain(leaves.made()) {
            let bytes = self.read_from_disk(leaf.range())?;
            let words = bytes.chunks_exact(8).map(bytemuck::pod_read_unaligned);
            let compared = leaf.compare_with(words, Some(view.end()));
            compared.map_err(|fault| self.is_not_on_disk(fault.offset))?;
        }
        self.write_state(offset_of!(FileState, checkpoint), &[head.offset; 2])
    }

    /// Writes a part of the log again, as it is. Nobody else may be writing.
    pub(super) fn write_log_again(&self, range: Range<u64>) -> Result<()> {
        let view = self.view(range.end)?;
        for chunk in chunks(range) {
            // A copy: the kernel should not have to read a page while it writes to it.
            let bytes = view.bytes(chunk.start, chunk.end - chunk.start);
            let bytes = bytes.map_err(|fault| self.error(fault))?.to_vec();
            self.write_at(&bytes, chunk.start)?;
        }
        Ok(())
    }

    /// Checks that the disk has a part of the file that nobody changes.
    pub(super) fn compare_with_disk(&self, view: View<'_>, range: Range<u64>) -> Result<()> {
        for chunk in chunks(range) {
            let bytes = view.bytes(chunk.start, chunk.end - chunk.start);
            let bytes = bytes.map_err(|fault| self.error(fault))?;
            if self.read_from_disk(chunk.clone())? != bytes {
                return Err(self.is_not_on_disk(chunk.start));
            }
        }
        Ok(())
    }

    fn read_from_disk(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let read = self.system().read_from_disk(self.file(), range);
        read.map_err(|source| self.io_error("see whether the disk has what was written to", source))
    }

    fn is_not_on_disk(&self, offset: u64) -> Error {
        Error::NotOnDisk {
            path: self.path().to_owned(),
            offset,
        }
    }
}

/// A range by parts that are not too large.
fn chunks(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    range
        .step_by(CHUNK as usize)
        .map(move |start| start..end.min(start + CHUNK))
}

fn doubt_offset() -> u64 {
    STATE_OFFSET + offset_of!(FileState, doubt) as u64
}

/// The leaves as of `to`, from those of `from`, which are good in the file, and the log between them.
/// `finished` is given those whose place others have taken.
fn leaves_up_to<'s>(
    view: View<'s>,
    from: &Trailer<'s>,
    to: &Trailer<'_>,
    mut finished: impl FnMut(MadeLeaf) -> Result<(), Fault>,
) -> Result<Leaves<'s>, Fault> {
    let mut leaves = Leaves::since(*from);
    while leaves.trailer().offset < to.offset {
        let next = next_transaction(view, leaves.trailer())?;
        leaves.apply(view, &next)?;
        leaves.finished.drain(..).try_for_each(&mut finished)?;
    }
    Ok(leaves)
}
