//! Copying what is live into a new file, and putting that into the old one's place.
//!
//! The only moment that decides is the renaming. Before it, the old file is whole and
//! in use; after it, the new one, which was verified and is on the disk.

use crate::damage::{self, Damaged};
use crate::new_file::{Directory, NewFile};
use crate::report::Report;
use crate::roots::{Survey, Wishes, survey};
use anyhow::{Context, Result, bail};
use format_spec::file::{IndexSlot, VectorSlot};
use format_spec::ids::Address;
use format_spec::program::{Index, TicketHeader, Vector};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use store::engine::{Durability, OpenOptions, Snapshot};
use store::program::{Copier, Programs, Repository, TicketView};

/// Rounds of catching up with writers before the lock is taken all the same.
const ROUNDS: usize = 8;

/// Who wants to know how far it is.
pub trait Observer {
    /// Something of so many steps begins.
    fn begin(&self, what: &'static str, steps: u64);
    /// A step of it is done.
    fn step(&self);
}

/// An observer that does not care.
pub struct Silent;

impl Observer for Silent {
    fn begin(&self, _: &'static str, _: u64) {}
    fn step(&self) {}
}

/// What a compaction of `repository` would throw away.
///
/// # Errors
/// If it is damaged.
pub fn dry_run(repository: &Repository, wishes: &Wishes) -> Result<Report> {
    let programs = repository.programs()?;
    let survey = survey(&programs, wishes)?;
    Report::new(&programs, &survey, true)
}

/// Compacts the repository `old`, which is open for writing.
///
/// # Errors
/// If it is damaged, or something cannot be written. Then it is as it was before.
pub fn compact(old: &Repository, wishes: &Wishes, observer: &dyn Observer) -> Result<Report> {
    // Renaming onto a symbolic link would replace the link.
    let path = std::fs::canonicalize(old.path())
        .with_context(|| format!("{}: cannot open", old.path().display()))?;
    let directory = Directory::lock(&path)?;
    directory.check(old.store())?;
    let names = old.store().file().metadata()?.nlink();
    if names > 1 {
        bail!(
            "{}: has {names} names (hard links); compacting would separate them",
            path.display(),
        );
    }
    let programs = old.programs()?;
    refuse_unknown(&programs)?;
    observer.begin("looking for tickets", 0);
    let mut survey = survey(&programs, wishes)?;
    let new_file = NewFile::new(&directory)?;
    let options = OpenOptions {
        uuid: Some(old.uuid()),
        ..OpenOptions::default()
    };
    let new = Repository::new(new_file.repository(&options)?);
    let mut copier = Copier::new(&new)?;
    let mut damaged = Damaged::default();
    copy_live(
        &programs,
        &survey,
        &mut copier,
        &mut damaged,
        observer,
        wishes.now,
    )?;
    damaged.tell(&mut survey);
    let mut report = Report::new(&programs, &survey, false)?;
    copier.commit()?;
    observer.begin("verifying", 0);
    new.store().verify()?;

    let mut seen = programs.snapshot();
    for _ in 0..ROUNDS {
        let now = old.programs()?;
        if now.snapshot().revision() == seen.revision() {
            break;
        }
        copy_added(&now, seen.size(), &new)?;
        seen = now.snapshot();
    }
    swap(old, &new, seen, new_file)?;
    report.bytes_after = Some(new.store().file().metadata()?.len());
    Ok(report)
}

/// The last of what writers added, and the renaming, while they wait.
fn swap(
    old: &Repository,
    new: &Repository,
    seen: Snapshot<'_>,
    new_file: NewFile<'_>,
) -> Result<()> {
    // Never committed: it is the old file's write lock that matters.
    let lock = old.store().begin(Durability::Lazy)?;
    let last = lock.base();
    if last.revision() != seen.revision() {
        copy_added(&Programs::new(last), seen.size(), new)?;
    }
    new.store().sync()?;
    new_file.take_place(old.store())?;
    drop(lock);
    Ok(())
}

/// Refuses what this program does not know how to copy, rather than lose it.
fn refuse_unknown(programs: &Programs<'_>) -> Result<()> {
    let snapshot = programs.snapshot();
    for slot in IndexSlot::all() {
        if slot > Index::Images.slot() && snapshot.count(slot) > 0 {
            bail!(
                "{}: has records in index {slot}, which this version of repo-gc does not know",
                snapshot.store().path().display()
            );
        }
    }
    for slot in VectorSlot::all() {
        if slot > Vector::Pieces.slot() && snapshot.vector_len(slot) > 0 {
            bail!(
                "{}: has elements in vector {slot}, which this version of repo-gc does not know",
                snapshot.store().path().display()
            );
        }
    }
    Ok(())
}

fn copy_live(
    programs: &Programs<'_>,
    survey: &Survey,
    copier: &mut Copier<'_>,
    damaged: &mut Damaged,
    observer: &dyn Observer,
    now: u64,
) -> Result<()> {
    // In the order of paths: what was built together is linked together.
    let mut order: Vec<_> = survey.live.iter().collect();
    order.sort_unstable_by(|a, b| (a.1, a.0).cmp(&(b.1, b.0)));
    observer.begin("copying", order.len() as u64);
    for (&address, _) in order {
        damaged.copy(copier, programs, address)?;
        observer.step();
    }
    copy_types(programs, 0, copier)?;
    for ticket in survey.tickets.iter().filter(|ticket| ticket.gone.is_none()) {
        let record = programs
            .snapshot()
            .get(Index::Tickets.slot(), &ticket.key)?;
        let record = record.context("a ticket's record disappeared")?;
        let Some(address) = damaged.copy(copier, programs, ticket.compilation)? else {
            continue;
        };
        copier.ticket(&programs.ticket(&record)?, address)?;
    }
    for (path, compilation) in &survey.found {
        let Some(address) = damaged.copy(copier, programs, *compilation)? else {
            continue;
        };
        let header = TicketHeader {
            compilation: address,
            written: now,
        };
        let path = path.as_os_str().as_bytes();
        copier.ticket(
            &TicketView {
                header: &header,
                path,
            },
            address,
        )?;
    }
    for (key, _, _) in survey.images.iter().filter(|(_, _, gone)| gone.is_none()) {
        let record = programs.snapshot().get(Index::Images.slot(), key)?;
        let record = record.context("an image's record disappeared")?;
        // Of one with damaged inputs there is nothing to keep: it is linked again with them.
        damage::unless_damaged(copier.image(programs, &programs.image(&record)?))?;
    }
    Ok(())
}

/// Copies everything that was added at `since` or after: it is all new, so it is live.
fn copy_added(programs: &Programs<'_>, since: u64, new: &Repository) -> Result<()> {
    refuse_unknown(programs)?;
    let is_new = |address: Address| address.0 >= since;
    let mut copier = Copier::new(new)?;
    for record in programs.records(Index::Compilations) {
        let record = record?;
        if is_new(record.address) {
            copier.compilation(programs, &programs.compilation_at(record.address)?)?;
        }
    }
    copy_types(programs, since, &mut copier)?;
    for record in programs.records(Index::Tickets) {
        let record = record?;
        if is_new(record.address) {
            // It may name a compilation that was dead until then.
            let view = programs.ticket(&record)?;
            let compilation = programs.compilation_at(view.header.compilation)?;
            let address = copier.compilation(programs, &compilation)?;
            copier.ticket(&view, address)?;
        }
    }
    for record in programs.records(Index::Images) {
        let record = record?;
        if is_new(record.address) {
            copier.image(programs, &programs.image(&record)?)?;
        }
    }
    Ok(copier.commit()?)
}

/// Types have no roots yet (nothing refers to them but other types), so all are kept.
fn copy_types(programs: &Programs<'_>, since: u64, copier: &mut Copier<'_>) -> Result<()> {
    let mut addresses = Vec::new();
    for record in programs.records(Index::Types) {
        let record = record?;
        if record.address.0 >= since {
            addresses.push(record.address);
        }
    }
    addresses.sort_unstable();
    for address in addresses {
        let record = programs.snapshot().record_at(address)?;
        copier.type_entry(programs, &programs.type_entry(&record)?)?;
    }
    Ok(())
}
