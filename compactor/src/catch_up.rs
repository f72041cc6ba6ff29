//! Copying what writers have added while the rest was copied, and the swap.
//!
//! First in rounds, of which each copies what was added during the one before: while they become smaller. What is left then is
//! copied part by part, with the [brake](crate::brake) on, until the rest fits into the hold that has just begun; after that, in the same
//! hold, the new file takes the old one's place. So no writer waits longer than a hold, however many there are and
//! however much they write.
//!
//! All but what was copied last is on the disk before. What the old file has promised to survive a power cut
//! ([`Durability::Durable`]) is so in any case.

use crate::brake::{Brake, Hold};
use crate::copying::{Parts, copy_compilations};
use crate::damage::Damaged;
use crate::new_file::{NewFile, Swapped};
use crate::observer::{Observer, Silent};
use crate::priority::{Rank, lowered_if};
use crate::roots::Wishes;
use crate::trace::Trace;
use anyhow::Result;
use format_spec::ids::Address;
use format_spec::program::{Index, has_envelopes};
use std::time::{Duration, Instant};
use store::engine::{Appended, Durability, Snapshot};
use store::program::{Programs, Repository};

/// Rounds of catching up before the brake is put on all the same.
const ROUNDS: usize = 32;

/// After so many of them, each must be much smaller than those before.
const FAIR_ROUNDS: usize = 2;

/// So many bytes of the log are too few for another round, and what is copied at once with the brake on: a few milliseconds.
const PART: u64 = 128 << 10;

/// What giving the new file its name takes.
const RENAMING: Duration = Duration::from_millis(1);

/// So often what was promised is synced without a hold, before it is with one.
const SYNCS: u32 = 16;

/// How far it is with catching up.
pub(crate) struct CatchUp<'a, 's> {
    old: &'s Repository,
    new: &'a Repository,
    /// What is copied.
    seen: Snapshot<'s>,
    /// Up to where the old file's log is copied and on the disk.
    synced: u64,
    threads: usize,
    part: usize,
    rank: Rank,
    observer: &'a dyn Observer,
    pub(crate) trace: &'a mut Trace,
    speed: Speed,
}

/// How fast parts are copied.
struct Speed {
    nanoseconds_a_byte: f64,
}

impl Speed {
    /// What was measured counts as much as all before.
    fn measured(&mut self, bytes: u64, took: Duration) {
        // A small one says more about what it costs to commit.
        if bytes >= PART / 8 {
            let now = took.as_nanos() as f64 / bytes as f64;
            self.nanoseconds_a_byte = (self.nanoseconds_a_byte + now) / 2.0;
        }
    }

    fn time_for(&self, bytes: u64) -> Duration {
        Duration::from_nanos((bytes as f64 * self.nanoseconds_a_byte) as u64)
    }
}

impl<'a, 's> CatchUp<'a, 's> {
    /// Goes on from `seen`, all of which is copied that is to be.
    pub fn new(
        (old, new): (&'s Repository, &'a Repository),
        seen: Snapshot<'s>,
        wishes: &Wishes,
        observer: &'a dyn Observer,
        trace: &'a mut Trace,
    ) -> CatchUp<'a, 's> {
        CatchUp {
            old,
            new,
            seen,
            synced: 0,
            threads: wishes.threads,
            part: wishes.part,
            rank: wishes.rank,
            observer,
            trace,
            // Slower than any machine, so that the first holds are not kept for too much.
            speed: Speed {
                nanoseconds_a_byte: 60.0,
            },
        }
    }

    /// Rounds without the brake, while that helps.
    ///
    /// # Errors
    /// If something cannot be read or written.
    pub fn rounds(&mut self) -> Result<()> {
        let mut least = u64::MAX;
        for round in 0..ROUNDS {
            let now = self.old.programs()?;
            let added = self.added(&now);
            // Who writes faster than this copies is not caught up with, however long it takes: all the more has to be copied last.
            if added <= PART || (round > FAIR_ROUNDS && added > least / 4 * 3) {
                break;
            }
            least = least.min(added);
            self.copy_up_to(&now)?;
            self.observer.step();
        }
        Ok(())
    }

    /// Copies all that there is now, and returns that.
    ///
    /// # Errors
    /// If something cannot be read or written.
    pub fn reach_newest(&mut self) -> Result<Programs<'s>> {
        let now = self.old.programs()?;
        self.copy_up_to(&now)?;
        Ok(now)
    }

    /// Bytes of the log that are not copied.
    fn added(&self, now: &Programs<'s>) -> u64 {
        now.snapshot().size() - self.seen.size()
    }

    fn copy_up_to(&mut self, now: &Programs<'s>) -> Result<()> {
        if now.snapshot().revision() != self.seen.revision() {
            let work = (self.threads, self.part);
            copy_added(now, &self.seen, self.new, work, self.trace)?;
            self.seen = now.snapshot();
        }
        Ok(())
    }

    /// Copies the rest, and has the new file take the old one's place. Also says how long writers had to wait for that at once.
    ///
    /// # Errors
    /// If something cannot be read or written, or the old file has been replaced. Then it is where it was.
    pub fn swap<'d>(mut self, mut new_file: NewFile<'d>) -> Result<(Swapped<'d>, Duration)> {
        // What waits for the disk does so before the first hold.
        self.sync()?;
        new_file.prepare(self.old.store())?;
        let brake = Brake::default();
        let (old, observer) = (self.old.store(), self.observer);
        let again = self.opened_again();
        let swapped = std::thread::scope(|scope| {
            // When this is dropped, the last hold ends.
            let _end = brake.end_with();
            for store in [Some(old), again.as_ref().map(Repository::store)]
                .into_iter()
                .flatten()
            {
                let (brake, rank) = (&brake, self.rank);
                scope.spawn(move || brake.run(store, observer, rank));
            }
            let mut syncs = 0;
            let _quiet = loop {
                let hold = brake.present()?;
                let now = self.old.programs()?;
                let fits =
                    |hold: &Hold| self.speed.time_for(self.added(&now)) + RENAMING <= hold.left();
                if let Some(hold) = hold.filter(fits)
                    && brake.keep(hold)
                {
                    // Nothing was added since the hold began, so this is all.
                    self.copy_up_to(&now)?;
                    // Nobody is promised anything any more, until the new file has its name.
                    let quiet = old.without_syncs();
                    if quiet.is_some() && !old.has_promised_from(self.synced)? {
                        break quiet;
                    }
                    drop(quiet);
                    syncs += 1;
                    if syncs <= SYNCS {
                        brake.release();
                    }
                    self.sync()?;
                    if syncs > SYNCS {
                        break old.without_syncs();
                    }
                } else if self.added(&now) == 0 {
                    brake.wait()?;
                } else {
                    match hold {
                        // Writers wait for it.
                        Some(_) => self.copy_part(&now)?,
                        None => lowered_if(self.rank == Rank::Last, || self.copy_part(&now))?,
                    }
                    observer.step();
                }
            };
            observer.begin("renaming", 0);
            new_file.take_place(old)
        });
        Ok((swapped?, brake.longest()))
    }

    /// The old file for the second thread of the brake. One that may be stopped has one thread only.
    fn opened_again(&self) -> Option<Repository> {
        let old = self.old;
        let again = (self.threads > 1).then(|| Repository::open(old.path()).ok())?;
        again.filter(|again| again.store().identity() == old.store().identity())
    }

    /// Waits until all that is copied is on the disk.
    fn sync(&mut self) -> Result<()> {
        self.new.store().sync()?;
        self.synced = self.seen.size();
        Ok(())
    }

    /// Copies about as much as [`PART`] of what was added up to `now`.
    fn copy_part(&mut self, now: &Programs<'s>) -> Result<()> {
        let (first, last) = (self.seen.revision(), now.snapshot().revision());
        let share =
            u128::from(last - first) * u128::from(PART) / u128::from(self.added(now).max(1));
        let end = first + u64::try_from(share)?.clamp(1, last - first);
        let part = Programs::new(self.old.store().snapshot_at(end)?);
        let (bytes, begun) = (self.added(&part), Instant::now());
        self.copy_up_to(&part)?;
        self.speed.measured(bytes, begun.elapsed());
        Ok(())
    }
}

/// Copies everything that was added after `seen`: it is all new, so it is live. What is attached to it becomes so.
fn copy_added<'s>(
    programs: &Programs<'s>,
    seen: &Snapshot<'s>,
    new: &Repository,
    (threads, part): (usize, usize),
    trace: &mut Trace,
) -> Result<()> {
    let snapshot = programs.snapshot();
    let copier = trace.copier(programs, new, Durability::Lazy)?;
    let parts = Parts::of(part);
    let (mut compilations, mut files) = (Vec::new(), Vec::new());
    for addition in snapshot.additions_since(seen) {
        let Appended::Record { index, record } = addition? else {
            continue;
        };
        let is_newest = || -> Result<bool> {
            let newest = snapshot.get(index, &record.key())?;
            Ok(newest.is_some_and(|newest| newest.address == record.address))
        };
        match Index::at(index) {
            Some(Index::Compilations) => {
                compilations.push(record.address);
                trace.mark(record.address);
            }
            Some(Index::Tickets | Index::Images) if is_newest()? => files.push((index, record)),
            _ if has_envelopes(index) && is_newest()? => trace.need(record.address),
            // What compilations are made of, and what was replaced since.
            _ => {}
        }
    }
    let mut damaged = Damaged::default();
    let work = (&Silent as &dyn Observer, threads);
    let mut copier =
        copy_compilations(programs, &compilations, copier, &parts, &mut damaged, work)?;
    if let Some(error) = damaged.into_first() {
        return Err(error.into());
    }
    for (index, record) in files {
        let address = if index == Index::Tickets.slot() {
            // It may name a compilation that was dead until then.
            let view = programs.ticket(&record)?;
            trace.mark(view.header.compilation);
            let address = copier.compilation(programs, view.header.compilation)?;
            copier.ticket(&view, address)?
        } else {
            let view = programs.image(&record)?;
            let inputs = view.inputs.iter().map(|input| input.compilation);
            for compilation in inputs.filter(|compilation| *compilation != Address(0)) {
                trace.mark(compilation);
            }
            copier.image(programs, &view)?
        };
        trace.carried(record.address, address);
    }
    trace.follow(programs)?;
    let copier = trace.copy(programs, copier, &parts)?;
    trace.committed(copier)
}
