//! Copying what is live into a new file, and putting that into the old one's place.
//!
//! The only moment that decides is the renaming. Before it, the old file is whole and
//! in use; after it, the new one, which was verified and is on the disk.

use crate::damage::{self, Damaged};
use crate::measure::bytes_after;
use crate::new_file::{Directory, NewFile};
use crate::report::{Report, StatesGone};
use crate::roots::{Kept, Survey, Wishes, survey};
use crate::trace::Trace;
use anyhow::{Context, Result, bail};
use format_spec::ids::Address;
use format_spec::program::{Index, TicketHeader, has_envelopes};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;
use store::engine::{Appended, Durability, OpenOptions, Snapshot};
use store::program::{Copier, Programs, Repository, TicketView, remember_prefix};
use store::states;

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
    let mut survey = survey(&programs, wishes)?;
    let mut trace = trace(&programs, &mut survey)?;
    let mut report = Report::new(&programs, &survey, &trace, true)?;
    report.bytes_after = bytes_after(&programs, &survey, &trace)?;
    report.warnings.append(&mut trace.warnings);
    Ok(report)
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
    // A file that this program may not write is refused now, not when the lock is needed.
    drop(old.store().begin(Durability::Lazy)?);
    for root in &wishes.roots {
        let root =
            std::fs::canonicalize(root).with_context(|| format!("--root {}", root.display()))?;
        if root.is_dir() {
            remember_prefix(old.store(), &root)?;
        }
    }
    let programs = old.programs()?;
    observer.begin("looking for tickets", 0);
    let mut survey = survey(&programs, wishes)?;
    let mut trace = trace(&programs, &mut survey)?;
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
        &mut trace,
        observer,
        wishes.now,
    )?;
    damaged.tell(&mut survey);
    trace.copy(&programs, &mut copier)?;
    let mut report = Report::new(&programs, &survey, &trace, false)?;
    copier.commit()?;
    observer.begin("verifying", 0);
    new.store().verify()?;

    let mut seen = programs.snapshot();
    for _ in 0..ROUNDS {
        let now = old.programs()?;
        if now.snapshot().revision() == seen.revision() {
            break;
        }
        copy_added(&now, &seen, &new, &mut trace)?;
        seen = now.snapshot();
    }
    swap(old, &new, seen, new_file, &mut trace)?;
    report.warnings.append(&mut trace.warnings);
    report.bytes_after = new.store().file().metadata()?.len();
    // What links keep beside the repository is of no use without the output.
    let grace = Duration::from_nanos(wishes.grace);
    match states::clean(&states::folder_of(&path), grace, usize::MAX) {
        Ok((outputs, bytes)) => report.states_gone = StatesGone { outputs, bytes },
        Err(why) => {
            let folder = states::folder_of(&path);
            report.warnings.push(format!("{}: {why}", folder.display()));
        }
    }
    Ok(report)
}

/// The last of what writers added, and the renaming, while they wait.
fn swap(
    old: &Repository,
    new: &Repository,
    seen: Snapshot<'_>,
    new_file: NewFile<'_>,
    trace: &mut Trace,
) -> Result<()> {
    // Never committed: it is the old file's write lock that matters.
    let lock = old.store().begin(Durability::Lazy)?;
    let last = lock.base();
    if last.revision() != seen.revision() {
        copy_added(&Programs::new(last), &seen, new, trace)?;
    }
    new.store().sync()?;
    new_file.take_place(old.store())?;
    drop(lock);
    Ok(())
}

/// What is live of the records in envelopes. A compilation that one of them needs is live with it.
fn trace(programs: &Programs<'_>, survey: &mut Survey) -> Result<Trace> {
    let snapshot = programs.snapshot();
    let mut trace = Trace::default();
    for compilation in survey.live.keys() {
        trace.mark(*compilation);
    }
    let tickets = survey.tickets.iter().filter(|ticket| ticket.gone.is_none());
    let tickets = tickets.map(|ticket| (Index::Tickets, &ticket.key));
    let images = survey.images.iter().filter(|(_, _, gone)| gone.is_none());
    let images = images.map(|(key, _, _)| (Index::Images, key));
    for (index, key) in tickets.chain(images) {
        if let Some(record) = snapshot.get(index.slot(), key)? {
            trace.mark(record.address);
        }
    }
    trace.unused(survey.unused.iter().copied());
    trace.look_at_all(programs, survey.young)?;
    let live = &mut survey.live;
    survey.dead.retain(|(address, _)| {
        let is_needed = trace.is_live(*address);
        if is_needed {
            live.insert(*address, Kept::Needed);
        }
        !is_needed
    });
    Ok(trace)
}

fn copy_live(
    programs: &Programs<'_>,
    survey: &Survey,
    copier: &mut Copier<'_>,
    damaged: &mut Damaged,
    trace: &mut Trace,
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
    for ticket in survey.tickets.iter().filter(|ticket| ticket.gone.is_none()) {
        let record = programs
            .snapshot()
            .get(Index::Tickets.slot(), &ticket.key)?;
        let record = record.context("a ticket's record disappeared")?;
        let Some(address) = damaged.copy(copier, programs, ticket.compilation)? else {
            continue;
        };
        let new = copier.ticket(&programs.ticket(&record)?, address)?;
        trace.carried(record.address, new);
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
        let copied = copier.image(programs, &programs.image(&record)?);
        if let Some(new) = damage::unless_damaged(copied)? {
            trace.carried(record.address, new);
        }
    }
    Ok(())
}

/// Copies everything that was added after `seen`: it is all new, so it is live. What is attached to it becomes so.
fn copy_added<'s>(
    programs: &Programs<'s>,
    seen: &Snapshot<'s>,
    new: &Repository,
    trace: &mut Trace,
) -> Result<()> {
    let snapshot = programs.snapshot();
    let mut copier = Copier::new(new)?;
    let mut files = Vec::new();
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
                copier.compilation(programs, &programs.compilation_at(record.address)?)?;
                trace.mark(record.address);
            }
            Some(Index::Tickets | Index::Images) if is_newest()? => files.push((index, record)),
            _ if has_envelopes(index) && is_newest()? => trace.need(record.address),
            // What compilations are made of, and what was replaced since.
            _ => {}
        }
    }
    for (index, record) in files {
        let address = if index == Index::Tickets.slot() {
            // It may name a compilation that was dead until then.
            let view = programs.ticket(&record)?;
            let compilation = programs.compilation_at(view.header.compilation)?;
            trace.mark(view.header.compilation);
            let address = copier.compilation(programs, &compilation)?;
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
    trace.copy(programs, &mut copier)?;
    Ok(copier.commit()?)
}
