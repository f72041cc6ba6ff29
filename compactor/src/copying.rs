//! Copying names and compilations into a new file, whose digests several threads compute meanwhile.
//!
//! A transaction remembers of each record where it has put it until it is committed. So what is copied goes into several, each as large as takes
//! little memory ([`Parts`]). Nobody but these threads has the new file before it takes the old one's place, so nobody sees one without
//! the next. How many records there will be in all is known, or guessed, before the first is committed, so that the leaves of the
//! indices are made for them at once.

use crate::damage::{self, Damaged};
use crate::in_order::{batches, fold};
use crate::observer::Observer;
use anyhow::Result;
use format_spec::file::IndexSlot;
use format_spec::ids::{Address, NameId};
use format_spec::program::Index;
use std::ops::Range;
use std::sync::mpsc::SyncSender;
use store::addresses::AddressSet;
use store::program::{Checked, Checker, Copier, ProgramError, Programs};

/// So few compilations are not worth threads.
const FEW: usize = 16;

/// No record takes fewer bytes of a file: whatever a damaged one says, it has not more than this tells.
const LEAST_RECORD: u64 = 24;

/// The transactions in which something is copied.
pub(crate) struct Parts {
    /// Each has about so many records.
    records: usize,
    /// How many records there will be in some indices.
    expected: Vec<(IndexSlot, u64)>,
    /// Who wants to know when one is committed.
    listener: Option<SyncSender<()>>,
}

impl Parts {
    /// Those of about so many records.
    pub fn of(records: usize) -> Parts {
        Parts {
            records,
            expected: Vec::new(),
            listener: None,
        }
    }

    /// The same, and who is told of each that is committed.
    pub fn telling(self, listener: Option<SyncSender<()>>) -> Parts {
        Parts { listener, ..self }
    }

    /// Says that there will be about so many records in an index; no more than there can be in `programs`.
    pub fn expect(&mut self, programs: &Programs<'_>, index: IndexSlot, records: u64) {
        let most = programs.snapshot().size() / LEAST_RECORD;
        self.expected.push((index, records.min(most)));
    }

    /// Goes on in the next transaction, if this one has become large.
    ///
    /// # Errors
    /// If the new file cannot be written.
    pub fn next<'d>(&self, mut copier: Copier<'d>) -> Result<Copier<'d>> {
        if copier.added() < self.records {
            return Ok(copier);
        }
        for &(index, records) in &self.expected {
            copier.expect(index, records);
        }
        let copier = copier.commit_and_go_on()?;
        if let Some(listener) = &self.listener {
            // If it has not heard of the last one yet, it will find both; if it is gone, it has found an error, which it tells.
            let _ = listener.try_send(());
        }
        Ok(copier)
    }
}

/// What compilations mention.
struct Mentioned {
    /// Names, each once, in the order in which they are mentioned first.
    names: Vec<NameId>,
    /// How many fragments there are.
    fragments: u64,
}

/// Finds out what is mentioned by the symbols and members of compilations. What is damaged mentions nothing: it is found again when it is to be copied.
fn mentioned(programs: &Programs<'_>, order: &[Address], threads: usize) -> Result<Mentioned> {
    type Found = Result<(Vec<NameId>, Vec<Address>), ProgramError>;
    let worker = || {
        |batch: Range<usize>| -> Found {
            let (mut names, mut fragments) = (Vec::new(), Vec::new());
            for &address in &order[batch] {
                let looked = programs.with_compilation(address, |view| {
                    names.extend(view.symbols().iter().map(|symbol| symbol.name));
                    fragments.extend(view.members().iter().map(|member| member.fragment));
                });
                damage::unless_damaged(looked)?;
            }
            Ok((names, fragments))
        }
    };
    let seen = vec![false; programs.name_count() as usize];
    let state = (Vec::new(), seen, AddressSet::default());
    let take = |(mut names, mut seen, mut fragments): (Vec<_>, Vec<_>, AddressSet),
                found: Found| {
        let (mentioned, members) = found?;
        for name in mentioned {
            let is_new = seen.get_mut(name.0 as usize);
            if is_new.is_some_and(|seen| !std::mem::replace(seen, true)) {
                names.push(name);
            }
        }
        fragments.extend(members);
        Ok((names, seen, fragments))
    };
    let (names, _, fragments) = fold(&batches(programs, order), threads, worker, state, take)?;
    Ok(Mentioned {
        names,
        fragments: fragments.len() as u64,
    })
}

/// Copies the names of compilations, in their order: links read all of them, and little of what would stand between. Says how much else there will be.
pub(crate) fn copy_names<'d>(
    programs: &Programs<'_>,
    order: &[Address],
    threads: usize,
    mut copier: Copier<'d>,
    parts: &mut Parts,
) -> Result<Copier<'d>> {
    let Mentioned { names, fragments } = mentioned(programs, order, threads)?;
    // There are some more, those of sections and paths, and what is in envelopes.
    let names_in_all = names.len() as u64 + names.len() as u64 / 64;
    parts.expect(programs, Index::Names.slot(), names_in_all);
    parts.expect(programs, Index::Fragments.slot(), fragments);
    parts.expect(programs, Index::Compilations.slot(), order.len() as u64);
    // As many of the pieces as of the fragments: to know it, one would have to read them all.
    let before = programs.snapshot().count(Index::Fragments.slot()).max(1);
    let pieces = u128::from(programs.piece_count()) * u128::from(fragments) / u128::from(before);
    parts.expect(programs, Index::Pieces.slot(), pieces as u64);
    for name in names {
        damage::unless_damaged(copier.name(programs, name))?;
        copier = parts.next(copier)?;
    }
    Ok(copier)
}

/// Copies compilations in this order. What is most of the work, to read them and to check their digests, is done by several
/// threads, of which each takes its share in turn.
pub(crate) fn copy_compilations<'d>(
    programs: &Programs<'_>,
    order: &[Address],
    mut copier: Copier<'d>,
    parts: &Parts,
    damaged: &mut Damaged,
    (observer, threads): (&dyn Observer, usize),
) -> Result<Copier<'d>> {
    if threads <= 1 || order.len() < FEW {
        for &address in order {
            damaged.copy(&mut copier, programs, address)?;
            copier = parts.next(copier)?;
            observer.step();
        }
        return Ok(copier);
    }
    let verified = &*copier.verified(programs);
    type Results<'s> = Vec<(Address, Result<Checked<'s>, ProgramError>)>;
    let worker = || {
        let mut checker = Checker::new(programs, verified);
        move |batch: Range<usize>| -> Results<'_> {
            let addresses = order[batch].iter();
            addresses
                .map(|&address| (address, checker.compilation(address)))
                .collect()
        }
    };
    let batches = batches(programs, order);
    fold(&batches, threads, worker, copier, |mut copier, results| {
        for (address, checked) in results {
            if let Some(checked) = damaged.unless_damaged(address, checked)?
                && copier
                    .find(Index::Compilations.slot(), &checked.record().key())?
                    .is_none()
            {
                copier.checked(programs, &checked)?;
            }
            copier = parts.next(copier)?;
            observer.step();
        }
        Ok(copier)
    })
}
