//! Copying what is live into a new file, and putting that into the old one's place.
//!
//! The only moment that decides is the renaming. Before it, the old file is whole and
//! in use; after it, the new one, which was verified and is on the disk.

use crate::budget;
use crate::catch_up::CatchUp;
use crate::copying::{Parts, copy_compilations, copy_names};
use crate::damage::{self, Damaged};
use crate::measure::bytes_after;
use crate::new_file::{Directory, NewFile};
use crate::observer::{Observer, Silent};
use crate::priority::{Rank, lowered, lowered_if};
use crate::report::{Report, StatesGone};
use crate::roots::{Kept, Survey, Wishes, survey};
use crate::trace::{Trace, mark_roots};
use anyhow::{Context, Result, bail};
use format_spec::file::IndexSlot;
use format_spec::ids::Address;
use format_spec::program::{Index, TicketHeader, has_envelopes};
use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};
use store::engine::{Durability, Linux, OpenOptions, Store, System};
use store::program::{Copier, Programs, Repository, TicketView, remember_prefix};
use store::states;

/// What a compaction of `repository` would throw away.
///
/// # Errors
/// If it is damaged.
pub fn dry_run(repository: &Repository, wishes: &Wishes) -> Result<Report> {
    lowered(wishes.rank, || estimate(repository, wishes))
}

fn estimate(repository: &Repository, wishes: &Wishes) -> Result<Report> {
    let programs = repository.programs()?;
    let mut survey = survey_for(&programs, wishes)?;
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
    compact_on(old, wishes, observer, Arc::new(Linux))
}

/// Likewise, with another operating system for the new file: tests have one.
///
/// # Errors
/// As above.
pub fn compact_on(
    old: &Repository,
    wishes: &Wishes,
    observer: &dyn Observer,
    system: Arc<dyn System>,
) -> Result<Report> {
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
    observer.released();
    // One that may be stopped for hours asks nobody for anything.
    let _turns = (wishes.rank != Rank::Last).then(|| old.store().short_turns());
    let begun = Instant::now();
    let programs = old.programs()?;
    let new_file = NewFile::new(&directory)?;
    let options = OpenOptions {
        uuid: Some(old.uuid()),
        system,
        ..OpenOptions::default()
    };
    let new = Repository::new(new_file.repository(&options)?);
    let (mut trace, mut report) =
        lowered(wishes.rank, || copy_into(&new, &programs, wishes, observer))?;

    observer.begin("catching up", 0);
    let files = (old, &new);
    let seen = programs.snapshot();
    let mut catch_up = CatchUp::new(files, seen, wishes, observer, &mut trace);
    lowered_if(wishes.rank == Rank::Last, || {
        catch_up.rounds()?;
        if begun.elapsed() >= wishes.holds {
            observer.begin("looking for tickets again", 0);
            let now = catch_up.reach_newest()?;
            copy_found(&now, wishes, &new, catch_up.trace)?;
        }
        anyhow::Ok(())
    })?;
    let (swapped, longest_hold) = catch_up.swap(new_file)?;
    observer.step();
    // From here on the new file is the repository, whatever happens: a directory that cannot be synced
    // leaves one or the other, and both are good.
    swapped.sync();
    new.store().sync()?;
    report.longest_hold = longest_hold;
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

/// Copies what is live now into the new file. Returns what that was, and what has become of the rest.
fn copy_into(
    new: &Repository,
    programs: &Programs<'_>,
    wishes: &Wishes,
    observer: &dyn Observer,
) -> Result<(Trace, Report)> {
    observer.begin("looking for tickets", 0);
    let mut survey = survey_for(programs, wishes)?;
    let mut trace = trace(programs, &mut survey)?;
    let report = std::thread::scope(|scope| {
        // A second thread verifies one transaction while the next one is copied.
        let (listener, verifier) = match wishes.threads > 1 {
            true => {
                let (listener, commits) = sync_channel(1);
                let verify = move || verify_as_it_grows(new.store(), &commits);
                (Some(listener), Some(scope.spawn(verify)))
            }
            false => (None, None),
        };
        let mut parts = Parts::of(wishes.part).telling(listener);
        let copier = trace.copier(programs, new, Durability::Durable)?;
        let (copier, damaged) = copy_live(
            programs,
            &survey,
            (copier, &mut parts),
            &mut trace,
            observer,
            wishes,
        )?;
        survey.lose(&damaged);
        let copier = trace.copy(programs, copier, &parts)?;
        let report = Report::new(programs, &survey, &trace, false)?;
        trace.committed(copier)?;
        observer.begin("verifying", 0);
        // Without anybody to tell it of more, it comes to an end.
        drop(parts);
        match verifier.map(ScopedJoinHandle::join) {
            Some(Ok(verified)) => verified?,
            Some(Err(_)) => bail!("a thread has ended early"),
            None => new.store().verify()?,
        }
        anyhow::Ok(report)
    })?;
    Ok((trace, report))
}

/// Verifies a file to which transactions are added, until nobody is left to tell of more: then all that it has.
fn verify_as_it_grows(store: &Store, commits: &Receiver<()>) -> store::engine::Result<()> {
    let mut verification = store.verification()?;
    while commits.recv().is_ok() {
        verification.go_on()?;
    }
    verification.finish()
}

/// What is live, and what of it goes for `--max-size`.
fn survey_for(programs: &Programs<'_>, wishes: &Wishes) -> Result<Survey> {
    let mut survey = survey(programs, wishes)?;
    if let Some(max_size) = wishes.max_size {
        budget::restrict(programs, &mut survey, max_size)?;
    }
    Ok(survey)
}

/// Copies what files name that were not there when they were looked at. (What was live then stays, whatever has become of it.)
fn copy_found(
    programs: &Programs<'_>,
    wishes: &Wishes,
    new: &Repository,
    trace: &mut Trace,
) -> Result<()> {
    let survey = survey_for(programs, wishes)?;
    mark_roots(programs, &survey, &survey.unused, trace)?;
    let copier = trace.copier(programs, new, Durability::Lazy)?;
    let mut parts = Parts::of(wishes.part);
    // Most of it is there already, and is found by its digest: by one thread, which looks before it reads.
    let wishes = Wishes {
        threads: 1,
        ..wishes.clone()
    };
    let parts_of = (copier, &mut parts);
    let (copier, _) = copy_live(programs, &survey, parts_of, trace, &Silent, &wishes)?;
    let copier = trace.copy(programs, copier, &parts)?;
    trace.committed(copier)
}

/// What is live of the records in envelopes. A compilation that one of them needs is live with it.
fn trace(programs: &Programs<'_>, survey: &mut Survey) -> Result<Trace> {
    let mut trace = Trace::default();
    mark_roots(programs, survey, &survey.unused, &mut trace)?;
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

/// The live compilations in the order in which links read them: those of each image in the order of its inputs, the
/// images with the most inputs first; then the others, in the order of paths, as what was built together is linked together.
fn in_order(programs: &Programs<'_>, survey: &Survey) -> Result<Vec<Address>> {
    let mut images = Vec::new();
    for (key, _, _) in survey.images.iter().filter(|(_, _, gone)| gone.is_none()) {
        let record = programs.snapshot().get(Index::Images.slot(), key)?;
        if let Some(record) = record
            && let Some(image) = damage::unless_damaged(programs.image(&record))?
        {
            images.push(image);
        }
    }
    // Stable: images of as many inputs stay in the order of their paths.
    images.sort_by_key(|image| std::cmp::Reverse(image.inputs.len()));
    let inputs = images.iter().flat_map(|image| image.inputs);
    let mut others: Vec<_> = survey.live.iter().collect();
    others.sort_unstable_by(|a, b| (a.1, a.0).cmp(&(b.1, b.0)));
    let others = others.into_iter().map(|(address, _)| *address);
    let mut seen = HashSet::with_capacity(survey.live.len());
    let all = inputs.map(|input| input.compilation).chain(others);
    let live = all.filter(|address| survey.live.contains_key(address));
    Ok(live.filter(|address| seen.insert(*address)).collect())
}

fn copy_live<'d>(
    programs: &Programs<'_>,
    survey: &Survey,
    (copier, parts): (Copier<'d>, &mut Parts),
    trace: &mut Trace,
    observer: &dyn Observer,
    wishes: &Wishes,
) -> Result<(Copier<'d>, Damaged)> {
    let mut damaged = Damaged::default();
    let order = in_order(programs, survey)?;
    for index in IndexSlot::all().filter(|index| has_envelopes(*index)) {
        parts.expect(programs, index, trace.count(index));
    }
    let kept = survey.tickets.iter().filter(|ticket| ticket.gone.is_none());
    let tickets = kept.count() + survey.found.len();
    parts.expect(programs, Index::Tickets.slot(), tickets as u64);
    let copier = copy_names(programs, &order, wishes.threads, copier, parts)?;
    observer.begin("copying", order.len() as u64);
    let work = (observer, wishes.threads);
    let mut copier = copy_compilations(programs, &order, copier, parts, &mut damaged, work)?;
    for ticket in survey.tickets.iter().filter(|ticket| ticket.gone.is_none()) {
        let record = programs
            .snapshot()
            .get(Index::Tickets.slot(), &ticket.key)?;
        let record = record.context("a ticket's record disappeared")?;
        let Some(address) = damaged.copy(&mut copier, programs, ticket.compilation)? else {
            continue;
        };
        let new = copier.ticket(&programs.ticket(&record)?, address)?;
        trace.carried(record.address, new);
        copier = parts.next(copier)?;
    }
    for (path, compilation) in &survey.found {
        let Some(address) = damaged.copy(&mut copier, programs, *compilation)? else {
            continue;
        };
        let header = TicketHeader {
            compilation: address,
            written: wishes.now,
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
    Ok((copier, damaged))
}
