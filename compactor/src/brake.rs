//! Keeping writers from adding more than is copied meanwhile, without keeping any of them waiting for long.
//!
//! Who writes as fast as it can writes faster than it is copied: a compaction would never have caught up with it. So a thread takes
//! the old file's write lock, again and again, each time for a few milliseconds and in its turn, while the compactor goes on copying. What
//! is added between two of these *holds* is what the writers add that wait then, each in its own turn, which it is [asked](Store::short_turns)
//! to keep short; during a hold nothing is.
//! Two threads take turns at that: while one holds the lock, the other is in the queue already. (One that is to be in nobody's way has one
//! thread, which does not queue.)
//! When what is left is so little that it fits into the hold that has just begun, that one is kept until the new file has taken the
//! old one's place.
//!
//! If writers are faster even so, holds become longer, slowly: it does end.

use crate::observer::Observer;
use crate::priority::Rank;
use anyhow::{Result, bail};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use store::engine::{self, Durability, Store};

/// A hold ends after this time, unless it is kept: of what a writer may be made to wait, the rest is for threads that get a processor late.
const HOLD: Duration = Duration::from_millis(7);

/// One that is kept is to end after this time.
const LAST_HOLD: Duration = Duration::from_millis(10);

/// After so many holds they become longer by a quarter, and so on.
const PATIENCE: u32 = 100;

/// Who comes last does not wait in the queue, where it could not be stopped, but looks for the lock again and again; so often, if others have
/// it each time. Then it is as all others.
const REFUSALS: u32 = 1000;

/// The thread that takes the lock, and what others know of it.
#[derive(Default)]
pub(crate) struct Brake {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// When the present hold began.
    since: Option<Instant>,
    /// How many holds there were.
    holds: u32,
    is_kept: bool,
    /// There are no more holds.
    is_over: bool,
    /// Why, if that was not asked for.
    failed: Option<engine::Error>,
    longest: Duration,
}

/// A hold that may still last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    number: u32,
    since: Instant,
}

impl Hold {
    /// How much longer it may last if it is kept.
    pub fn left(&self) -> Duration {
        longer(LAST_HOLD, self.number).saturating_sub(self.since.elapsed())
    }
}

/// The time that a hold lasts after so many others.
fn longer(time: Duration, holds: u32) -> Duration {
    // No more than is needed for anything to fit.
    let steps = (holds / PATIENCE).min(60) as i32;
    time.mul_f64(1.25_f64.powi(steps))
}

/// No holds begin any more when this is dropped, and the present one ends.
pub(crate) struct End<'b>(&'b Brake);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.0.changed.notify_all();
    }
}

impl Brake {
    /// Ends it when the result is dropped.
    pub fn end_with(&self) -> End<'_> {
        End(self)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What a thread leaves that panics is as good: each change is one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread does until it is over; each has opened the file by itself. It has the priority of who writes.
    pub fn run(&self, old: &Store, observer: &dyn Observer, rank: Rank) {
        // Also if this thread panics: nobody waits for a hold that never comes.
        let _end = self.end_with();
        let mut refused = 0;
        while !self.state().is_over {
            let queues = rank != Rank::Last || refused >= REFUSALS;
            observer.exclusive();
            let held = self.hold(old, queues);
            observer.released();
            match held {
                Ok(true) => refused = 0,
                Ok(false) => refused += 1,
                Err(error) => {
                    // When it is over, the file has been replaced, perhaps.
                    let mut state = self.state();
                    if !state.is_over {
                        state.failed = Some(error);
                    }
                    return;
                }
            }
            if rank == Rank::Last {
                self.pause();
            }
        }
    }

    /// Lets others write who want to.
    fn pause(&self) {
        let begun = Instant::now();
        let mut state = self.state();
        while !state.is_over && begun.elapsed() < HOLD {
            let left = HOLD.saturating_sub(begun.elapsed());
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// False if somebody else has the lock, and it is not to be waited for.
    fn hold(&self, old: &Store, queues: bool) -> engine::Result<bool> {
        // Never committed: it is the lock that matters.
        let lock = match queues {
            true => Some(old.begin(Durability::Lazy)?),
            false => old.try_begin(Durability::Lazy)?,
        };
        let Some(mut lock) = lock else {
            return Ok(false);
        };
        // Those who wait for it come first when it is given up.
        lock.end_turn();
        let mut state = self.state();
        let since = Instant::now();
        let end = longer(HOLD, state.holds);
        state.since = Some(since);
        state.holds += 1;
        self.changed.notify_all();
        while !state.is_over && (state.is_kept || since.elapsed() < end) {
            // One that is kept ends when it is over.
            let left = match state.is_kept {
                true => HOLD,
                false => end.saturating_sub(since.elapsed()),
            };
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.since = None;
        drop(state);
        drop(lock);
        let mut state = self.state();
        state.longest = state.longest.max(since.elapsed());
        Ok(true)
    }

    /// The present hold.
    ///
    /// # Errors
    /// If the lock cannot be had.
    pub fn present(&self) -> Result<Option<Hold>> {
        present(&mut self.state())
    }

    /// Waits for a hold.
    ///
    /// # Errors
    /// If the lock cannot be had.
    pub fn wait(&self) -> Result<()> {
        let mut state = self.state();
        while present(&mut state)?.is_none() {
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Has this hold last until it is [over](Brake::end_with), or [released](Brake::release). False if it has ended already.
    pub fn keep(&self, hold: Hold) -> bool {
        let mut state = self.state();
        let lasts = state.since == Some(hold.since) && !state.is_over;
        state.is_kept |= lasts;
        lasts
    }

    /// Writers may go on for now: what was to be done in the hold that is kept needs more time.
    pub fn release(&self) {
        self.state().is_kept = false;
        self.changed.notify_all();
    }

    /// How long writers were kept from writing at once.
    pub fn longest(&self) -> Duration {
        self.state().longest
    }
}

fn present(state: &mut State) -> Result<Option<Hold>> {
    if let Some(error) = state.failed.take() {
        return Err(error.into());
    }
    if state.is_over {
        bail!("the thread that takes the lock has ended early");
    }
    Ok(state.since.map(|since| Hold {
        number: state.holds,
        since,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;
    use store::engine::OpenOptions;

    fn store(directory: &std::path::Path) -> Store {
        let options = OpenOptions {
            create: true,
            ..OpenOptions::default()
        };
        Store::open(directory.join("r"), &options).expect("made")
    }

    #[test]
    fn a_hold_that_is_kept_lasts_and_others_end_by_themselves() {
        let place = tempfile::tempdir().expect("a directory");
        let (held, other) = (store(place.path()), store(place.path()));
        let brake = Brake::default();
        std::thread::scope(|scope| {
            let end = brake.end_with();
            scope.spawn(|| brake.run(&held, &Silent, Rank::Behind));
            brake.wait().expect("held");
            let first = brake.present().expect("well");
            // A writer gets in between two of them.
            drop(other.begin(Durability::Lazy).expect("begun"));
            assert!(first.is_none_or(|first| !brake.keep(first)));
            let kept = loop {
                brake.wait().expect("held");
                match brake.present().expect("well") {
                    Some(hold) if brake.keep(hold) => break hold,
                    _ => {}
                }
            };
            let writer = scope.spawn(|| {
                drop(other.begin(Durability::Lazy).expect("begun"));
                brake.state().is_over
            });
            while kept.left() > Duration::ZERO {
                std::thread::yield_now();
            }
            assert!(brake.keep(kept) && !writer.is_finished());
            drop(end);
            assert!(writer.join().expect("no panic"));
        });
        assert!(brake.longest() >= LAST_HOLD);
    }

    #[test]
    fn a_lock_that_cannot_be_had_is_an_error() {
        let place = tempfile::tempdir().expect("a directory");
        let held = store(place.path());
        std::fs::remove_file(place.path().join("r")).expect("removed");
        let brake = Brake::default();
        std::thread::scope(|scope| {
            let _end = brake.end_with();
            scope.spawn(|| brake.run(&held, &Silent, Rank::Behind));
            let error = brake.wait().expect_err("it is another file's");
            assert!(error.is::<engine::Error>(), "{error}");
        });
    }

    #[test]
    fn holds_become_longer_only_slowly_but_without_end() {
        assert_eq!(longer(HOLD, PATIENCE - 1), HOLD);
        assert!(longer(LAST_HOLD, 2 * PATIENCE) < Duration::from_millis(25));
        assert!(longer(LAST_HOLD, 60 * PATIENCE) > Duration::from_secs(600));
        assert!(longer(LAST_HOLD, u32::MAX) < Duration::from_secs(1 << 20));
    }
}
