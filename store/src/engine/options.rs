//! How to open a repository.

use super::patience::Patience;
use super::system::{Linux, System};
use super::trust::Trust;
use std::sync::Arc;

/// How to open a repository.
#[derive(Clone)]
pub struct OpenOptions {
    /// Make the repository if there is none.
    pub create: bool,
    /// Open for reading only: [`Store::begin`](super::Store::begin) will fail.
    pub read_only: bool,
    /// Address space to reserve, in bytes: how far the file can grow before it
    /// must be opened anew.
    pub reserve: u64,
    /// When the file has grown by so many bytes since the last checkpoint, or by one 32nd of itself if that is
    /// more, the next one is begun, and is there when it has grown by as much again: meanwhile
    /// some of the commits wait for a part of the file, of a quarter of this, to be on the disk, when
    /// others may write again. Recovery after a power cut reads about twice as much at most, and the leaves.
    /// A durable commit else waits only for what was added, a lazy one for nothing.
    pub checkpoint_every: u64,
    /// The UUID that the repository gets if it is made; a random one without. For
    /// a file that is to take the place of another one (a compaction).
    pub uuid: Option<[u8; 16]>,
    /// How the path became known, and so whose the file must be.
    pub trust: Trust,
    /// When a wait for another writer is told of, and when it ends; without one it lasts
    /// as long as the other one has the lock.
    pub patience: Option<Patience>,
    /// The operating system.
    pub system: Arc<dyn System>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            create: false,
            read_only: false,
            reserve: 1 << 40,
            checkpoint_every: 64 << 20,
            uuid: None,
            trust: Trust::Named,
            patience: None,
            system: Arc::new(Linux),
        }
    }
}
