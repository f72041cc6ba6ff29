//! The storage engine: one mapped, append-only file with transactions,
//! content-addressed indices, dense vectors, and snapshots. It knows nothing of
//! programs.
//!
//! ```
//! use format_spec::digest::Digest;
//! use store::engine::{Durability, OpenOptions, Store};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("colours.repo");
//! let options = OpenOptions { create: true, ..OpenOptions::default() };
//! let store = Store::open(&path, &options)?;
//!
//! let red = Digest::of(b"red");
//! let mut transaction = store.begin(Durability::Lazy)?;
//! transaction.insert(0, &red, b"#ff0000")?;
//! transaction.commit()?;
//!
//! let snapshot = store.snapshot()?;
//! assert_eq!(snapshot.get(0, &red)?.unwrap().value, b"#ff0000");
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! `SPEC.md` of the `format-spec` crate describes the file. In short: the *log*
//! is append-only and is the truth. Each transaction appends its records and a
//! trailer with a CRC of them, then publishes the trailer's offset in the
//! file's state. *Tables* (a hash table for each index, an array for each
//! vector) are room reserved in the log that is filled in place, one aligned
//! 8-byte word for a record, when a transaction is committed. A word holds the
//! record's address, so a snapshot simply takes no notice of words that lead
//! beyond its own end: one table serves all snapshots, and readers need
//! neither locks nor copies. What is in a table follows from the log; after a
//! power cut, which may leave any mixture of a table's pages, it is made again
//! from the log since the last checkpoint.
//!
//! # The parts, from the bottom
//!
//! * `system`: the seam to the operating system; `map`: the mapping; `sync`:
//!   what threads share.
//! * `log`: items, records, trailers. `table`: finding, adding, growing.
//! * `replay`: what the tables must be, computed from the log.
//! * `update`: a commit's changes to the tables.
//! * `create`, `recovery`: making a file, making it good again, verifying it.
//! * `lock`: who may write. `durable`: what is on the disk.
//! * `snapshot`, `transaction`, `store`: what users see.

mod create;
mod durable;
mod error;
mod lock;
mod log;
mod map;
mod recovery;
mod replay;
mod snapshot;
mod store;
mod sync;
mod system;
mod table;
mod transaction;
mod update;

#[cfg(not(all(target_endian = "little", target_pointer_width = "64")))]
compile_error!("repositories are mapped, so this needs a little-endian 64-bit machine");

pub use error::{Error, Result};
pub use log::Record;
pub use snapshot::{Addition, Snapshot};
pub use store::{OpenOptions, Store};
pub use system::{Linux, System};
pub use transaction::{Durability, Transaction};
