//! What threads share, behind one name, so that tests can run the engine itself
//! under a scheduler of their own: with `--cfg shuttle` these are the types of
//! the `shuttle` crate, which runs all threads on one and decides at each
//! operation which goes on (`tests/interleavings.rs`). Locks of files go
//! through [`System`](super::System).

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(shuttle)]
pub(super) use shuttle::sync::{Mutex, MutexGuard, TryLockError, atomic::AtomicU64};
#[cfg(not(shuttle))]
pub(super) use std::sync::{Mutex, MutexGuard, TryLockError, atomic::AtomicU64};

/// Locks a mutex whose data a panic elsewhere does not spoil.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Likewise; `None` if another thread has it.
pub(super) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A word of the mapped file that changes in place, also through other
/// processes: of a table or of the file's state.
#[repr(transparent)]
pub(super) struct Word(std::sync::atomic::AtomicU64);

impl Word {
    #[inline]
    pub fn load(&self, ordering: Ordering) -> u64 {
        switch();
        self.0.load(ordering)
    }

    /// Its low half, for waiting until it changes (futex(2)).
    pub fn low_half(&self) -> &AtomicU32 {
        // SAFETY: the first half of the word, as the machine is little-endian; only
        // the kernel looks at it.
        unsafe { AtomicU32::from_ptr(self.0.as_ptr().cast()) }
    }

    /// What [`System::store`](super::System::store) stores to.
    #[inline]
    pub fn place(&self) -> &std::sync::atomic::AtomicU64 {
        switch();
        &self.0
    }
}

/// Another thread may go on here.
#[inline]
fn switch() {
    #[cfg(shuttle)]
    AtomicU64::new(0).load(Ordering::SeqCst);
}
