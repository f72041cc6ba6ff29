//! The storage engine: one mapped, append-only file with transactions,
//! content-addressed indices, dense vectors, and snapshots. It knows nothing of
//! programs.
//!
//! ```
//! use format_spec::digest::Digest;
//! use format_spec::file::IndexSlot;
//! use store::engine::{Durability, OpenOptions, Store};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("colours.repo");
//! let options = OpenOptions { create: true, ..OpenOptions::default() };
//! let store = Store::open(&path, &options)?;
//!
//! const COLOURS: IndexSlot = IndexSlot::of::<0>();
//! let red = Digest::of(b"red");
//! let mut transaction = store.begin(Durability::Lazy)?;
//! transaction.insert(COLOURS, &red, b"#ff0000")?;
//! transaction.commit()?;
//!
//! let snapshot = store.snapshot()?;
//! assert_eq!(snapshot.get(COLOURS, &red)?.unwrap().value, b"#ff0000");
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! `SPEC.md` of the `format-spec` crate describes the file. In short: the *log*
//! is append-only and is the truth. Each transaction appends its records and a
//! trailer with a CRC of them (small records in *packs*, compressed together, if it is told to), then publishes the trailer's offset in the
//! file's state. Each index is a *trie* over the bits of the keys, and each vector
//! one over the numbers of the elements. Nodes are small items of the log. *Leaves* are room
//! reserved in the log, 64 KiB at most, that is filled in place, one aligned
//! 8-byte word for a record, when a transaction is committed. A word holds the
//! record's address, so a snapshot simply takes no notice of words that lead
//! beyond its own end: one leaf serves many snapshots, and readers need
//! neither locks nor copies. A leaf that is full splits, and only then is the path above it
//! copied: no commit writes more than the leaves that it fills. What is in a leaf follows from the log; after a
//! power cut, which may leave any mixture of a leaf's pages, it is made again
//! from the log since the last checkpoint.
//!
//! # The parts, from the bottom
//!
//! * `system`: the seam to the operating system; `holder`, `mounts`: what its tables say; `byte_locks`, `queue`: its locks, and a queue made of
//!   them; `file_system`: which will do;
//!   `map`: the mapping; `sync`: what threads share.
//! * `record`: records; `pack`: several of them, compressed. `log`: items, trailers. `leaf`: finding and adding words. `trie`: the way to a leaf.
//! * `replay`: what the leaves must be, computed from the log; `follow`: comparing them without that.
//! * `trust`: opening a file, and whose it is (`distrust`: why not). `create`: making one. `options`, `patience`: what users
//!   wish of that.
//! * `store`: the handle: the mapping and the words of the file's state, with what its threads share (`turn`, `spare`). All
//!   that follows stands on it.
//! * `wait`, `lock`: who may write, and how long one waits for that; `short_turns`: asking for that more often.
//! * `snapshot`: what readers see; `batch`: many look-ups at once; `reader`: what transactions can read, too.
//! * `update`: a commit's changes to the tries; `catch_up`: those that a killed writer left undone.
//! * `doubt`: syncs that fail. `durable`: what is on the disk; `sweep`: what lies before the
//!   next checkpoint, part by part. `recovery`: making a file good again, verifying it.
//! * `transaction`: writing. `open`: opening.

mod batch;
mod byte_locks;
mod catch_up;
mod create;
mod distrust;
mod doubt;
mod durable;
mod error;
mod file_system;
mod follow;
mod holder;
mod leaf;
mod lock;
mod log;
mod map;
mod mounts;
mod open;
mod options;
mod own;
mod pack;
mod patience;
mod queue;
mod reader;
mod record;
mod recovery;
mod replay;
mod short_turns;
mod snapshot;
mod spare;
mod store;
mod sweep;
mod sync;
mod system;
mod transaction;
mod trie;
mod trust;
mod turn;
mod update;
mod wait;

#[cfg(not(all(target_endian = "little", target_pointer_width = "64")))]
compile_error!("repositories are mapped, so this needs a little-endian 64-bit machine");

pub use batch::GROUP;
pub use distrust::Distrust;
pub use durable::WithoutSyncs;
pub use error::{Error, Result};
pub use file_system::check_place;
pub use holder::Holder;
pub use log::PackSize;
pub use options::OpenOptions;
pub use own::Earlier;
pub use pack::LARGEST_PACKED;
pub use patience::Patience;
pub use reader::Reader;
pub use record::Record;
pub use recovery::Verification;
pub use short_turns::ShortTurns;
pub use snapshot::{Appended, Snapshot, TrieSize};
pub use store::Store;
pub use system::{Linux, System};
pub use transaction::{Durability, Known, Transaction};
pub use trust::{Trust, open_to_others};
