//! Moving the checkpoint in steps.
//!
//! A checkpoint is a transaction that is on the disk with the leaves of its time. Leaves are all over the file, and what is
//! committed changes a word here and a word there: to sync them all at once takes as long as the index is large, and whoever
//! commits just then would wait for it. So the file is *swept*: the transaction that is visible when the sweep begins is to be the
//! next checkpoint. Then, as the log grows, one commit after the other syncs the next part of what lies before that transaction's
//! end, in proportion to the growth. When all of it was synced, the checkpoint moves there, and the next sweep begins.
//!
//! ```text
//! ┌────────┬──────────────────┬───────────────┬──────────────┐
//! │ header │ synced since the │ still to be   │ what came    │
//! │        │ sweep began      │ synced        │ since        │
//! └────────┴──────────────────┴───────────────┴──────────────┘
//!                          swept           rising           head
//! ```
//!
//! What is synced early in a sweep changes again before its end, but only by words of transactions after `rising`, of which
//! recovery takes no notice. That a sweep is under way is in the file's state: whichever process commits next goes on with it.
//! Only one at a time takes a step, as for each sync ([`durable`](super::durable)), and a step that fails leaves
//! [`doubt`](super::doubt), which ends the sweep.

use super::error::{Fault, Result};
use super::store::Store;
use format_spec::file::{FileState, STATE_OFFSET};
use format_spec::ids::Address;
use std::mem::offset_of;
use std::ops::Range;

/// A part is so much of [`OpenOptions::checkpoint_every`](super::OpenOptions), or what there is.
const PARTS: u64 = 4;
/// The log grows by one so-manieth of the file between two checkpoints, if that is more than
/// [`OpenOptions::checkpoint_every`](super::OpenOptions): so the leaves of a large index are not written for a
/// few records each.
const SHARE: u64 = 32;

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    /// A sweep begins.
    Beginning,
    /// A part of the file is synced. The last one ends at the trailer that is to be the checkpoint, which it is to have, too.
    Part(Range<u64>),
}

/// How far a sweep is. Trailers are meant by their offsets: to know where they end one would have to read and check them, which is
/// too much for each commit.
#[derive(Clone, Copy, Debug)]
struct Sweep {
    /// The file's last checkpoint.
    checkpoint: u64,
    /// The one that is to come, if a sweep is under way.
    rising: Option<Address>,
    /// What lies before was synced since the sweep began.
    swept: u64,
}

impl Sweep {
    /// What is due when the log ends at `end`.
    fn due(self, end: u64, checkpoint_every: u64) -> Option<Due> {
        let cycle = checkpoint_every.max(end / SHARE).max(1);
        let Some(Address(rising)) = self.rising else {
            return (end.saturating_sub(self.checkpoint) >= cycle).then_some(Due::Beginning);
        };
        let grown = end.saturating_sub(rising).min(cycle);
        let wanted = u128::from(rising) * u128::from(grown) / u128::from(cycle);
        // At most `rising`, which is a number of 64 bits.
        let wanted = wanted as u64;
        let part = (checkpoint_every / PARTS).max(1);
        let next = self.swept.saturating_add(part).min(rising);
        (wanted >= next).then(|| Due::Part(self.swept.min(rising)..wanted.max(next)))
    }
}

impl Store {
    /// Does what has become due, if anything has, as the log has grown to `end`. Waits for the disk, for a part of what was written.
    pub(super) fn sweep(&self, end: u64) -> Result<()> {
        let due = || Ok(self.sweep_state()?.due(end, self.checkpoint_every()));
        let is_done = || Ok(due()?.is_none());
        if is_done()? {
            return Ok(());
        }
        self.in_sync_turn(is_done, |alone| match due()? {
            None => Ok(()),
            Some(Due::Beginning) => self.begin_sweep(),
            Some(Due::Part(part)) => self.sync_without_doubt(alone, || self.sweep_part(part)),
        })
    }

    fn sweep_state(&self) -> Result<Sweep> {
        let checkpoint = self.durable_state()?.0;
        // Damaged words, or those of a sweep that a sync of the whole file has overtaken, are no sweep.
        let rising = self.state_offset(offset_of!(FileState, rising)).ok();
        let rising = rising.filter(|&rising| rising > checkpoint);
        let swept = self.state_offset(offset_of!(FileState, swept)).unwrap_or(0);
        Ok(Sweep {
            checkpoint,
            rising: rising.map(Address),
            swept,
        })
    }

    /// Checks the words that say how far a sweep is: who writes goes on without them where they are damaged.
    pub(super) fn check_sweep(&self, checkpoint: u64) -> Result<()> {
        let swept = self.state_offset(offset_of!(FileState, swept))?;
        let rising = self.state_offset(offset_of!(FileState, rising))?;
        if rising > checkpoint && swept > self.trailer(rising)?.offset {
            let place = STATE_OFFSET + offset_of!(FileState, swept) as u64;
            return Err(self.error(Fault::new(place, "more was swept than there is")));
        }
        Ok(())
    }

    fn begin_sweep(&self) -> Result<()> {
        let visible = self.state_offset(offset_of!(FileState, visible))?;
        // In this order: nothing was swept for the new one.
        self.write_state(offset_of!(FileState, swept), &[0, visible])
    }

    /// Syncs a part, and moves the checkpoint if it is the last one. `false` if what was written before this process opened the file is
    /// not as it must be.
    fn sweep_part(&self, part: Range<u64>) -> Result<bool> {
        let rising = self.state_offset(offset_of!(FileState, rising))?;
        if part.end < rising {
            let end = part.end;
            self.sync_range(part)?;
            self.write_state(offset_of!(FileState, swept), &[end])?;
            return Ok(true);
        }
        let (checkpoint, durable) = self.durable_state()?;
        self.sync_range(part.start..self.trailer(rising)?.end())?;
        let opened = self.opened().min(rising);
        if checkpoint < opened && !self.is_whole(checkpoint, opened)? {
            return Ok(false);
        }
        let words = [rising, durable.max(rising)];
        self.write_state(offset_of!(FileState, checkpoint), &words)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: u64 = 1 << 20;

    /// How often something is due while a file grows from `start` by `step` up to `end`, the longest part, and the farthest that the
    /// log gets away from the checkpoint.
    fn grow(start: u64, step: u64, end: u64) -> (u64, u64, u64) {
        let mut sweep = Sweep {
            checkpoint: start,
            rising: None,
            swept: 0,
        };
        let (mut parts, mut longest, mut farthest) = (0, 0, 0);
        let mut log = start;
        while log < end {
            log += step;
            match sweep.due(log, EVERY) {
                None => {}
                Some(Due::Beginning) => {
                    sweep.rising = Some(Address(log));
                    sweep.swept = 0;
                }
                Some(Due::Part(part)) => {
                    assert_eq!(part.start, sweep.swept);
                    parts += 1;
                    longest = longest.max(part.end - part.start);
                    sweep.swept = part.end;
                    if sweep.rising == Some(Address(part.end)) {
                        sweep.checkpoint = part.end;
                        sweep.rising = None;
                    }
                }
            }
            farthest = farthest.max(log - sweep.checkpoint);
        }
        (parts, longest, farthest)
    }

    #[test]
    fn parts_are_small_and_the_checkpoint_follows() {
        for (start, step) in [
            (1 << 12, 1000),
            (1 << 20, 5000),
            (1 << 24, 777),
            (1 << 27, 900),
        ] {
            let end = start + 20 * EVERY.max(start / SHARE);
            let (parts, longest, farthest) = grow(start, step, end);
            assert!(parts > 9, "{start}: {parts}");
            assert!(
                longest <= EVERY / PARTS + 2 * SHARE * step,
                "{start}: {longest}"
            );
            let cycle = EVERY.max(end / SHARE);
            assert!(farthest <= 2 * cycle + 4 * step, "{start}: {farthest}");
        }
    }

    #[test]
    fn large_steps_do_all_that_is_due() {
        let (_, _, farthest) = grow(1 << 12, 10 * EVERY, 300 * EVERY);
        assert!(farthest <= 2 * 10 * EVERY + 2 * 10 * EVERY, "{farthest}");
    }

    #[test]
    fn nothing_is_due_where_nobody_wants_checkpoints() {
        let sweep = Sweep {
            checkpoint: 4096,
            rising: None,
            swept: 0,
        };
        assert_eq!(sweep.due(1 << 40, u64::MAX), None);
        let rising = Some(Address(1 << 30));
        assert_eq!(Sweep { rising, ..sweep }.due(1 << 40, u64::MAX), None);
    }

    #[test]
    fn words_that_lead_astray_are_no_panic() {
        let sweep = Sweep {
            checkpoint: u64::MAX,
            rising: Some(Address(100)),
            swept: u64::MAX,
        };
        assert_eq!(sweep.due(1 << 40, 10), Some(Due::Part(100..100)));
        assert_eq!(sweep.due(50, 1000), None);
    }
}
