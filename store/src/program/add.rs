//! Adding compilations.
//!
//! Without the lock: digests and values ([`Prepared`]), and a first look-up, of the compilation, and if it is not there, of its
//! names, pieces and fragments; what is missing then, and is not packed, is compressed ([`missing`](super::missing)). With the lock: it is inserted, unless
//! another process has been faster (what was absent for certain in the very revision that the transaction builds on, or in that on which
//! the first one of this writer was built, and nobody else has written since, is not looked up again); where it
//! refers to others by ids and addresses, these are put into the prepared value first. Names come first, then pieces, then
//! fragments in the order in which they depend on each other, then the compilation. What is packed has its ids and addresses in it, so packs are compressed
//! with the lock, too; an [`Adder`]'s budget is smaller then. A compilation that is there already
//! takes no lock.
//!
//! Nobody waits long for the lock: what is much is added in several transactions, each as much as an [`Adder`] has a budget for. What an earlier
//! one of these added
//! refers to nothing later, and nobody refers to it yet, so that to be killed between them costs room and no more. A large compilation
//! is made between two of them, when it is known where its fragments are.

use super::adder::Adder;
use super::addition::{Added, Addition};
use super::encode::Form;
use super::manifest::{NewResult, Recording};
use super::missing::State;
use super::prepare::Prepared;
use super::ticket_record::{OnRecord, Ticket, whole};
use super::view::Programs;
use super::{ProgramError, Result};
use crate::engine::{Durability, Earlier, Store};
use format_spec::digest::Digest;
use format_spec::ids::Address;
use format_spec::program::Index;
use std::path::Path;

/// What a compiler made, and whether that is still so when everything is about to be committed.
pub(super) type Observed<'o> = (&'o NewResult<'o>, &'o dyn Fn() -> bool);

/// Adds compilations, and the records of their tickets; and with the last of them what a compiler made, if that is given. The second result
/// is whether it was.
pub(super) fn add(
    store: &Store,
    additions: &[Addition<'_, '_>],
    observed: Option<Observed<'_>>,
) -> Result<(Vec<Added>, bool)> {
    let programs = Programs::new(store.snapshot()?);
    let recording = match observed {
        Some((result, is_still)) => Some((Recording::new(&programs, result)?, is_still)),
        None => None,
    };
    let mut is_recorded = false;
    let tickets = additions
        .iter()
        .map(|addition| addition.ticket.map(Ticket::new));
    let mut tickets: Vec<_> = tickets.collect();
    let mut states = Vec::with_capacity(additions.len());
    let mut nothing_to_do = recording.is_none();
    for (addition, ticket) in additions.iter().zip(&tickets) {
        let mut state = State::of(&programs, addition.prepared)?;
        if let (State::Missing(missing), Some(ticket)) = (&mut state, ticket) {
            missing.base = ticket.base(&programs);
        }
        nothing_to_do &= match (&state, ticket) {
            (State::There(_), None) => true,
            (State::There(compilation), Some(ticket)) => {
                ticket.is_on_record(&programs, store, *compilation)?
            }
            (State::Missing(_), _) => false,
        };
        states.push(state);
    }
    let mut results: Vec<Option<Added>> = vec![None; additions.len()];
    let mut done = nothing_to_do;
    let mut earlier = Earlier::default();
    while !done {
        make_next(store, &mut states)?;
        let mut transaction = store.begin(Durability::Lazy)?;
        transaction.follow(&mut earlier);
        let base = transaction.base().revision();
        let size = transaction.base().size();
        let is_packed = |addition: &Addition<'_, '_>| addition.prepared.form(size) == Form::Packed;
        if additions.iter().any(is_packed) {
            transaction.pack();
        }
        let mut adder = Adder::new(transaction)?;
        done = adder.advance(additions, &mut states, &mut tickets, &mut results)?;
        if done {
            if let Some((recording, is_still)) = &recording
                && is_still()
            {
                recording.add(&mut adder)?;
                is_recorded = true;
            }
            adder.transaction.commit()?;
        } else {
            let revision = adder.transaction.commit_part(&mut earlier)?;
            for state in &mut states {
                if let State::Missing(missing) = state
                    && missing.absent_in == Some(base)
                {
                    missing.absent_in = Some(revision);
                }
            }
        }
    }
    let known = |(state, addition): (&State<'_>, &Addition<'_, '_>)| match state {
        State::There(address) => known(addition.prepared, *address),
        State::Missing(missing) => missing.added,
    };
    let states = states.iter().zip(additions).map(known);
    let results = results.into_iter().zip(states);
    let results = results.map(|(added, known)| added.unwrap_or(known));
    Ok((results.collect(), is_recorded))
}

/// Makes the value of the compilation that is to be added next, if all that it is made of is there.
fn make_next(store: &Store, states: &mut [State<'_>]) -> Result<()> {
    let next = states.iter_mut().find_map(|state| match state {
        State::Missing(missing) => Some(missing),
        State::There(_) => None,
    });
    if let Some(missing) = next {
        missing.make(&Programs::new(store.snapshot()?));
    }
    Ok(())
}

/// Puts the file at `path` on record, which holds tickets, as one for the compilation `digest`. Whether no file was on record
/// at this path.
pub(super) fn record_file(store: &Store, path: &Path, digest: &Digest) -> Result<bool> {
    let snapshot = store.snapshot()?;
    let ticket = Ticket::new(path);
    let compilation = whole(&snapshot, Index::Compilations, digest)?;
    let compilation = compilation.ok_or_else(|| ProgramError::NoCompilation {
        path: store.path().to_owned(),
        digest: *digest,
    })?;
    let is_new = matches!(snapshot.get(Index::Tickets.slot(), &ticket.key), Ok(None));
    let on_record = ticket.on_record(&snapshot, store, compilation.address)?;
    if !matches!(on_record, OnRecord::Right) {
        let mut adder = Adder::new(store.begin(Durability::Lazy)?)?;
        adder.ticket(&ticket, compilation.address)?;
        adder.transaction.commit()?;
    }
    Ok(is_new)
}

fn known(prepared: &Prepared<'_>, address: Address) -> Added {
    Added {
        digest: Some(prepared.digest),
        address,
        shared_fragments: prepared.fragments.len() as u32,
        shared_pieces: prepared.compilation.pieces.len() as u32,
        ..Added::default()
    }
}
