//! The different pieces of a class whose hashes agree in some bits: one thread's at a time.

use super::{Cut, TooMany};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The pieces of a shard, each once.
///
/// A table finds them: open addressing, one word for each, whose upper half are 32 bits of the hash and whose lower half,
/// less one, is the piece's *token*, which counts the pieces in the order in which they came.
pub(super) struct Shard<'a> {
    table: Vec<u64>,
    /// By token.
    pieces: Vec<Unique<'a>>,
    /// By token: the largest alignment with which the piece was seen. Empty unless some piece of the class is aligned.
    aligns: Vec<u8>,
    aligned: bool,
}

/// A piece that is equal to none before it.
struct Unique<'a> {
    bytes: &'a [u8],
    /// When it is known: its chunk (in the upper half) and its offset among that chunk's pieces.
    home: AtomicU64,
}

/// Of so many bytes of a piece it is worth while to fetch them early; behind them the processor sees what is wanted.
const FETCHED: usize = 256;

/// Bytes that are fetched at once.
const LINE: usize = 64;

/// A table begins with this many words.
const FIRST_TABLE: usize = 64;

impl<'a> Shard<'a> {
    /// A shard without pieces. `aligned`: some piece of the class is aligned to more than one byte.
    pub(super) fn new(aligned: bool) -> Self {
        Shard {
            table: Vec::new(),
            pieces: Vec::new(),
            aligns: Vec::new(),
            aligned,
        }
    }

    /// Has the processor fetch the word where the search for a piece begins.
    #[inline]
    pub(super) fn prefetch(&self, hash: u32) {
        let mask = self.table.len().wrapping_sub(1);
        if let Some(word) = self.table.get(hash as usize & mask) {
            prefetch(word);
        }
    }

    /// Has the processor fetch what says where the bytes are with which a piece will probably be compared. The word where
    /// the search begins had better be there.
    #[inline]
    pub(super) fn prefetch_first(&self, hash: u32) {
        if let Some(likely) = self.likely(hash) {
            prefetch(likely);
        }
    }

    /// Has the processor fetch the bytes of a piece, and those with which it will probably be compared.
    #[inline]
    pub(super) fn prefetch_bytes(&self, piece: &Cut<'a>) {
        let Some(likely) = self.likely(piece.hash) else {
            return;
        };
        if likely.bytes.len() == piece.bytes.len() {
            for bytes in [piece.bytes, likely.bytes] {
                bytes.iter().take(FETCHED).step_by(LINE).for_each(prefetch);
            }
        }
    }

    /// What a piece is probably equal to.
    #[inline]
    fn likely(&self, hash: u32) -> Option<&Unique<'a>> {
        let mask = self.table.len().wrapping_sub(1);
        let word = self.table.get(hash as usize & mask)?;
        let token = (*word as u32).wrapping_sub(1);
        self.pieces
            .get(token as usize)
            .filter(|_| (word >> 32) as u32 == hash)
    }

    /// Adds a piece, unless there is an equal one. Returns its token, and whether it was added.
    #[inline]
    pub(super) fn add(&mut self, piece: &Cut<'a>) -> Result<(u32, bool), TooMany> {
        // At most two thirds are in use, so that every search ends.
        if 3 * self.pieces.len() >= 2 * self.table.len() {
            self.grow();
        }
        let mask = self.table.len() - 1;
        let mut at = piece.hash as usize & mask;
        loop {
            let word = self.table[at];
            if word == 0 {
                let token = self.append(piece)?;
                self.table[at] = u64::from(piece.hash) << 32 | (u64::from(token) + 1);
                return Ok((token, true));
            }
            if (word >> 32) as u32 == piece.hash {
                let token = (word as u32) - 1;
                if self.pieces[token as usize].bytes == piece.bytes {
                    if let Some(align) = self.aligns.get_mut(token as usize) {
                        *align = (*align).max(piece.align_log2);
                    }
                    return Ok((token, false));
                }
            }
            at = (at + 1) & mask;
        }
    }

    fn append(&mut self, piece: &Cut<'a>) -> Result<u32, TooMany> {
        // One more than a token must fit into half a word.
        let token = u32::try_from(self.pieces.len())
            .ok()
            .filter(|token| *token < u32::MAX)
            .ok_or(TooMany)?;
        self.pieces.push(Unique {
            bytes: piece.bytes,
            home: AtomicU64::new(0),
        });
        if self.aligned {
            self.aligns.push(piece.align_log2);
        }
        Ok(token)
    }

    #[cold]
    fn grow(&mut self) {
        let size = (2 * self.table.len()).max(FIRST_TABLE);
        let old = std::mem::replace(&mut self.table, vec![0; size]);
        for word in old.into_iter().filter(|word| *word != 0) {
            let mut at = (word >> 32) as usize & (size - 1);
            while self.table[at] != 0 {
                at = (at + 1) & (size - 1);
            }
            self.table[at] = word;
        }
    }

    /// Length of a piece, in bytes.
    #[inline]
    pub(super) fn len(&self, token: u32) -> u64 {
        self.pieces[token as usize].bytes.len() as u64
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
        self.pieces[token as usize].home.store(home, Relaxed);
    }

    /// What [`Shard::set_home`] said.
    #[inline]
    pub(super) fn home(&self, token: u32) -> (u32, u32) {
        let home = self.pieces[token as usize].home.load(Relaxed);
        ((home >> 32) as u32, home as u32)
    }
}

/// Has the processor fetch what is at a place.
#[inline]
fn prefetch<T>(place: &T) {
    // SAFETY: a hint, which reads nothing as far as the program can tell; and the place is valid.
    #[allow(unused_unsafe)]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
    }
}
