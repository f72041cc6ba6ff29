//! The different pieces of a class whose hashes agree in some bits: one thread's at a time.

use super::{Cut, TooMany};
use crate::base::interner::{Distinct, Keyed};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The pieces of a shard, each once; known by their tokens.
pub(super) struct Shard<'a> {
    pieces: Distinct<'a>,
    /// By token, when it is known: the piece's chunk (in the upper half) and its offset among that chunk's pieces.
    homes: Vec<AtomicU64>,
    /// By token: the largest alignment with which the piece was seen. Empty unless some piece of the class is aligned.
    aligns: Vec<u8>,
    aligned: bool,
}

impl<'a> Keyed<'a> for Cut<'a> {
    #[inline]
    fn hash(&self) -> u32 {
        self.hash
    }

    #[inline]
    fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> Shard<'a> {
    /// A shard without pieces. `aligned`: some piece of the class is aligned to more than one byte.
    pub(super) fn new(aligned: bool) -> Self {
        Shard {
            pieces: Distinct::default(),
            homes: Vec::new(),
            aligns: Vec::new(),
            aligned,
        }
    }

    /// Adds the pieces for which there is no equal one. `done` is told each one's token, and whether it is new.
    #[inline]
    pub(super) fn add_all(
        &mut self,
        pieces: &[Cut<'a>],
        mut done: impl FnMut(&Cut<'a>, u32, bool),
    ) -> Result<(), TooMany> {
        let added = self.pieces.add_all(pieces, |piece, token, is_new| {
            if is_new {
                self.homes.push(AtomicU64::new(0));
            }
            match self.aligns.get_mut(token as usize) {
                Some(align) => *align = (*align).max(piece.align_log2),
                None if self.aligned => self.aligns.push(piece.align_log2),
                None => {}
            }
            done(piece, token, is_new);
        });
        added.map_err(|_| TooMany)
    }

    /// Length of a piece, in bytes.
    #[inline]
    pub(super) fn len(&self, token: u32) -> u64 {
        self.pieces.get(token).map_or(0, <[u8]>::len) as u64
    }

    /// Alignment of a piece, in bytes.
    #[inline]
    pub(super) fn align(&self, token: u32) -> u64 {
        1 << self.aligns.get(token as usize).copied().unwrap_or(0)
    }

    /// Says which chunk the piece belongs to, and at which offset among its pieces.
    #[inline]
    pub(super) fn set_home(&self, token: u32, chunk: u32, offset: u32) {
        let home = u64::from(chunk) << 32 | u64::from(offset);
        self.homes[token as usize].store(home, Relaxed);
    }

    /// What [`Shard::set_home`] said.
    #[inline]
    pub(super) fn home(&self, token: u32) -> (u32, u32) {
        let home = self.homes[token as usize].load(Relaxed);
        ((home >> 32) as u32, home as u32)
    }
}
