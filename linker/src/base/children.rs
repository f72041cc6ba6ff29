//! Children of unit tests, and tests that these would disturb.
//!
//! Unit tests are threads of one process. A child has copies of all of its descriptors until it runs its program, so what
//! another test has just closed may be open for a moment still. Who starts a child says so, and who must be the only one to
//! have a file open sees to it that nobody does meanwhile.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static STARTED: RwLock<()> = RwLock::new(());

/// To be held while a child is started, until it runs its program.
pub(crate) fn start() -> RwLockReadGuard<'static, ()> {
    STARTED.read().unwrap_or_else(PoisonError::into_inner)
}

/// While this is held no child is started.
pub(crate) fn none() -> RwLockWriteGuard<'static, ()> {
    STARTED.write().unwrap_or_else(PoisonError::into_inner)
}
