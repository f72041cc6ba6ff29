//! The bytes of a program repository.
//!
//! This crate owns the on-disk record types, the digests and their canonical
//! encodings, and `SPEC.md`, the normative description of the file. It does no
//! I/O and knows no policy: the `store` crate reads and writes these records.
//!
//! * [`canonical`]: what is digested, byte by byte.
//! * [`digest`]: [`Digest`](digest::Digest), the 32-byte BLAKE3 name of everything.
//! * [`mod@file`]: the file's header and log items; [`pack`]: several records in one; [`trailer`]: what ends a transaction.
//! * [`trie`]: the nodes of an index's or a vector's trie; [`leaf`]: the leaf of an index's.
//! * [`ids`]: file addresses and the dense ids of names and pieces.
//! * [`program`]: the records of the program model (fragments, compilations, …).
//! * [`envelope`]: what one can know of a record of a kind that one does not know; [`kinds`]: what
//!   is in those of which that is settled.
//! * [`outline`]: what a compilation repeats of its fragments for a linker.
//! * [`ticket`]: the note that makes a file a ticket.
//!
//! Every multi-byte integer is little-endian; every record starts at an address
//! that is a multiple of 8.

pub mod canonical;
pub mod digest;
pub mod envelope;
pub mod file;
pub mod fragment;
pub mod ids;
pub mod kinds;
pub mod leaf;
pub mod outline;
pub mod pack;
pub mod program;
pub mod ticket;
pub mod trailer;
pub mod trie;
mod xxh3;

/// An odd number near 2^64 divided by the golden ratio: by multiplying with it, checks are made
/// of words of the file.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
