//! The different pieces of a class whose hashes agree in some bits: one thread's at a time.

use super::{Cut, TooMany};

/// The pieces of a shard, each once.
///
/// Their bytes stand one after another in the order in which they came, and a table finds them: open
/// addressing, one word for each, whose upper half are 32 bits of the hash and whose lower half, less
/// one, is the piece's *token*. Where all pieces are aligned to one byte only, that is the order of the output too, and
/// the token is the offset. Otherwise it is the number of the piece, until [`Shard::place`] tells the offsets.
pub(super) struct Shard {
    table: Vec<u64>,
    count: usize,
    bytes: Vec<u8>,
    aligned: bool,
    uniques: Vec<Unique>,
    size: u64,
    align: u64,
}

/// A piece of a class with alignments.
struct Unique {
    /// Where it is in `bytes`.
    start: u32,
    len: u32,
    /// Where it is in the output.
    offset: u32,
    align_log2: u8,
}

/// A table begins with this many words.
const FIRST_TABLE: usize = 64;

impl Shard {
    /// A shard without pieces. `aligned`: some piece of the class is aligned to more than one byte.
    pub(super) fn new(aligned: bool) -> Shard {
        Shard {
            table: Vec::new(),
            count: 0,
            bytes: Vec::new(),
            aligned,
            uniques: Vec::new(),
            size: 0,
            align: 1,
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

    /// Adds a piece, unless there is an equal one. Returns its token.
    #[inline]
    pub(super) fn add(&mut self, piece: &Cut) -> Result<u32, TooMany> {
        // At most two thirds are in use, so that every search ends.
        if 3 * self.count >= 2 * self.table.len() {
            self.grow();
        }
        let mask = self.table.len() - 1;
        let mut at = piece.hash as usize & mask;
        loop {
            let word = self.table[at];
            if word == 0 {
                let token = self.append(piece)?;
                self.table[at] = u64::from(piece.hash) << 32 | (u64::from(token) + 1);
                self.count += 1;
                return Ok(token);
            }
            if (word >> 32) as u32 == piece.hash {
                let token = (word as u32) - 1;
                // A piece ends where its bytes say, or is as long as all others of its class. So what begins with
                // a piece's bytes, where a piece begins, is equal to it.
                let start = match self.uniques.get(token as usize) {
                    Some(unique) if self.aligned => unique.start,
                    _ => token,
                };
                if self.bytes[start as usize..].starts_with(piece.bytes) {
                    if let Some(unique) = self.uniques.get_mut(token as usize) {
                        unique.align_log2 = unique.align_log2.max(piece.align_log2);
                    }
                    return Ok(token);
                }
            }
            at = (at + 1) & mask;
        }
    }

    fn append(&mut self, piece: &Cut) -> Result<u32, TooMany> {
        // Tokens, and one more than they are, must fit into 32 bits; so must offsets with what alignment adds.
        const MOST: usize = u32::MAX as usize / 2;
        let start = self.bytes.len();
        if start.saturating_add(piece.bytes.len()) > MOST {
            return Err(TooMany);
        }
        self.bytes.extend_from_slice(piece.bytes);
        if !self.aligned {
            return Ok(start as u32);
        }
        self.uniques.push(Unique {
            start: start as u32,
            len: piece.bytes.len() as u32,
            offset: 0,
            align_log2: piece.align_log2,
        });
        Ok(self.uniques.len() as u32 - 1)
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

    /// All pieces are there: gives them their places.
    pub(super) fn place(&mut self) -> Result<(), TooMany> {
        self.table = Vec::new();
        if !self.aligned {
            self.size = self.bytes.len() as u64;
            return Ok(());
        }
        let mut end = 0u64;
        for number in self.order() {
            let unique = &mut self.uniques[number];
            let align = 1u64 << unique.align_log2;
            let offset = end.next_multiple_of(align);
            unique.offset = u32::try_from(offset).map_err(|_| TooMany)?;
            end = offset + u64::from(unique.len);
            self.align = self.align.max(align);
        }
        self.size = end;
        Ok(())
    }

    /// Numbers of the aligned pieces in the order of the output: the largest alignment first, and then as they came.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.uniques.len()).collect();
        order.sort_by_key(|number| std::cmp::Reverse(self.uniques[*number].align_log2));
        order
    }

    /// Bytes in the output, once the pieces have their places.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The largest alignment of a piece, in bytes.
    pub(super) fn align(&self) -> u64 {
        self.align
    }

    /// The offset in the shard of the piece with this token.
    pub(super) fn offset(&self, token: u32) -> u32 {
        match self.uniques.get(token as usize) {
            Some(unique) if self.aligned => unique.offset,
            _ => token,
        }
    }

    /// Writes the shard; all of `out` is written.
    pub(super) fn write(&self, out: &mut [u8]) {
        if !self.aligned {
            out.copy_from_slice(&self.bytes);
            return;
        }
        let mut end = 0;
        for number in self.order() {
            let unique = &self.uniques[number];
            let (start, offset, len) = (
                unique.start as usize,
                unique.offset as usize,
                unique.len as usize,
            );
            out[end..offset].fill(0);
            end = offset + len;
            out[offset..end].copy_from_slice(&self.bytes[start..start + len]);
        }
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
