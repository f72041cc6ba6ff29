//! Copying names and compilations into a new file, whose digests several threads compute meanwhile.

use crate::damage::{self, Damaged};
use crate::observer::Observer;
use anyhow::{Context, Result};
use format_spec::ids::Address;
use format_spec::program::Index;
use std::sync::mpsc::sync_channel;
use store::program::{Checker, Copier, ProgramError, Programs};

/// So few compilations are not worth threads.
const FEW: usize = 16;

/// So many compilations may be ready that are not copied yet, by thread.
const AHEAD: usize = 4;

/// Copies the names of compilations, in their order: links read all of them, and little of what would stand between.
pub(crate) fn copy_names(
    programs: &Programs<'_>,
    order: &[Address],
    copier: &mut Copier<'_>,
) -> Result<()> {
    let mut seen = vec![false; programs.name_count() as usize];
    for &address in order {
        // What is damaged is found again when the compilation is to be copied.
        let named = programs.with_compilation(address, |view| {
            for symbol in view.symbols() {
                let is_new = seen.get_mut(symbol.name.0 as usize);
                if is_new.is_some_and(|seen| !std::mem::replace(seen, true)) {
                    damage::unless_damaged(copier.name(programs, symbol.name))?;
                }
            }
            Ok::<(), ProgramError>(())
        });
        damage::unless_damaged(named)?.transpose()?;
    }
    Ok(())
}

/// Copies compilations in this order. What is most of the work, to read them and to check their digests, is done by several
/// threads, of which each takes its share in turn.
pub(crate) fn copy_compilations(
    programs: &Programs<'_>,
    order: &[Address],
    copier: &mut Copier<'_>,
    damaged: &mut Damaged,
    observer: &dyn Observer,
    threads: usize,
) -> Result<()> {
    if threads <= 1 || order.len() < FEW {
        for &address in order {
            damaged.copy(copier, programs, address)?;
            observer.step();
        }
        return Ok(());
    }
    let verified = &*copier.verified(programs);
    std::thread::scope(|scope| {
        let receivers: Vec<_> = (0..threads)
            .map(|thread| {
                let (sender, receiver) = sync_channel(AHEAD);
                scope.spawn(move || {
                    let mut checker = Checker::new(programs, verified);
                    for &address in order.iter().skip(thread).step_by(threads) {
                        if sender.send(checker.compilation(address)).is_err() {
                            // Nobody wants more: there was an error.
                            break;
                        }
                    }
                });
                receiver
            })
            .collect();
        for (&address, receiver) in order.iter().zip(receivers.iter().cycle()) {
            let checked = receiver.recv().context("a thread has ended early")?;
            if let Some(checked) = damaged.unless_damaged(address, checked)?
                && copier
                    .find(Index::Compilations.slot(), &checked.record().key())?
                    .is_none()
            {
                copier.checked(programs, &checked)?;
            }
            observer.step();
        }
        Ok(())
    })
}
