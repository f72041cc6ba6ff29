//! A queue of processes in the order in which they came, of locks of a file's bytes.
//!
//! The kernel's own queue for a lock is in no order that helps: who is the first to wait for it is woken when it is released, but whoever
//! asks for it before that one runs gets it. With few processors that is, as a rule, the one that has just released it.
//!
//! So each who comes locks a *place* of its own, the one behind the last that is locked, and waits for that of who stands before it. Nobody else
//! waits for that one. Who leaves unlocks its place; who dies has its place unlocked by the kernel, wherever it stood:
//! so who is woken looks whether there is another one before it. Places begin anew when nobody is in the queue, and there are more of
//! them than anybody will use until then.
//!
//! To look which is the last place and to lock the next one takes several system calls. They are made with one more byte locked, the *door*.
//! Where nobody is in the queue and nobody at the door, all is done at once, by a lock of everything.

use super::byte_locks::{self, Byte};
use std::fs::File;
use std::io;
use std::ops::RangeInclusive;

/// The places, and the door, which is the byte behind them: where no file is so long.
const FIRST: Byte = 1 << 61;
const LAST: Byte = (1 << 62) - 2;
const DOOR: Byte = LAST + 1;

/// Goes in, and waits until it is next.
pub(super) fn enter(file: &File) -> io::Result<()> {
    if enter_empty(file)? {
        return Ok(());
    }
    byte_locks::lock(file, DOOR)?;
    let entered = take_place(file);
    byte_locks::unlock(file, DOOR..=DOOR);
    let mut before = entered?;
    while let Some(place) = before {
        let next = byte_locks::lock(file, place).and_then(|()| {
            byte_locks::unlock(file, place..=place);
            // It may have been killed, while others stood before it.
            last_place(file, FIRST..=place)
        });
        before = next.inspect_err(|_| leave(file))?;
    }
    Ok(())
}

/// Goes in if it is next then; `false` if it would have to wait.
pub(super) fn try_enter(file: &File) -> io::Result<bool> {
    enter_empty(file)
}

/// Leaves it.
pub(super) fn leave(file: &File) {
    byte_locks::unlock(file, FIRST..=LAST);
}

/// Goes in if nobody else is.
fn enter_empty(file: &File) -> io::Result<bool> {
    if !byte_locks::try_lock(file, FIRST..=DOOR)? {
        return Ok(false);
    }
    byte_locks::unlock(file, FIRST + 1..=DOOR);
    Ok(true)
}

/// Locks the place behind the last one. Returns that, if somebody has one.
fn take_place(file: &File) -> io::Result<Option<Byte>> {
    let before = last_place(file, FIRST..=LAST)?;
    let place = before.map_or(FIRST, |before| before + 1);
    // Nobody else takes one now.
    if place > LAST || !byte_locks::try_lock(file, place..=place)? {
        return Err(io::ErrorKind::StorageFull.into());
    }
    Ok(before)
}

/// The last of these places that somebody else has.
fn last_place(file: &File, places: RangeInclusive<Byte>) -> io::Result<Option<Byte>> {
    let (mut from, last) = places.into_inner();
    let mut found = None;
    while from <= last {
        match byte_locks::locked_by_others(file, from..=last)? {
            None => break,
            Some(place) => {
                found = Some(place);
                from = place + 1;
            }
        }
    }
    Ok(found)
}
