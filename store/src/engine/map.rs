//! The mapping of the file, and most of the engine's `unsafe` code (the rest is in
//! `system` and `sync`).
//!
//! The file is mapped once, read-only, far beyond its end, so that it can grow
//! without any reader noticing. Touching a page beyond the end of the file
//! would be fatal (`SIGBUS`), so all access goes through a [`View`], which ends
//! where the file certainly has bytes.
//!
//! The bytes below a view's end are of two sorts. Items of the log never
//! change once they are committed and are borrowed as `&[u8]`. Words of leaves
//! and of the file's state change in place and are read atomically, one by
//! one. Who truncates or overwrites the file from outside breaks every mapping
//! of it; no user of `mmap` can defend against that, but the user is told which
//! file it was ([`Mapped`]).
//!
//! A writer adds words to leaves one by one, all over them. Where the file
//! system can be trusted to have the blocks ([`file_system`](super::file_system)), it stores them
//! through a second, writable mapping ([`WordWriter`]): a system call for each
//! would cost as much as all the rest of a commit.

use super::error::Fault;
use super::pack::Packs;
use super::sync::Word;
use super::system::System;
use crate::guard::Mapped;
use crate::prefetch::{CACHE_LINE, prefetch_all};
use format_spec::leaf::LINE_WORDS;
use memmap2::MmapRaw;
use std::fs::File;
use std::io;
use std::ops::Range;

/// The whole file and room for it to grow.
pub(super) struct Mapping {
    _guard: Mapped,
    raw: MmapRaw,
    packs: Packs,
}

impl Mapping {
    /// Maps `file`, if possible `wanted` bytes of address space; less, but at
    /// least `least`, where the process may not have so much.
    pub fn new(system: &dyn System, file: &File, wanted: u64, least: u64) -> io::Result<Mapping> {
        let mut length = wanted.max(least);
        loop {
            let attempt = usize::try_from(length)
                .map_err(|_| io::ErrorKind::OutOfMemory.into())
                .and_then(|length| system.map(file, length));
            match attempt {
                Ok(raw) => {
                    let _guard = Mapped::of_descriptor(raw.as_ptr(), raw.len(), file);
                    return Ok(Mapping {
                        _guard,
                        raw,
                        packs: Packs::default(),
                    });
                }
                Err(error) if length / 2 < least || length < 1 << 20 => return Err(error),
                // Whatever the error: valgrind, for one, calls it EINVAL.
                Err(_) => length /= 2,
            }
        }
    }

    /// Number of bytes of address space.
    pub fn length(&self) -> u64 {
        self.raw.len() as u64
    }

    /// Returns when this range of the file is on the disk.
    pub fn sync(&self, system: &dyn System, file: &File, range: Range<u64>) -> io::Result<()> {
        system.sync_range(file, &self.raw, range)
    }

    /// A view of the first `end` bytes.
    ///
    /// # Safety
    /// The file must be at least `end` bytes long, and no one may shorten it.
    pub unsafe fn view(&self, end: u64) -> View<'_> {
        View {
            mapping: self,
            end: end.min(self.length()),
        }
    }
}

/// The file's first bytes.
#[derive(Clone, Copy)]
pub(super) struct View<'s> {
    mapping: &'s Mapping,
    end: u64,
}

impl<'s> View<'s> {
    /// Where the view ends.
    #[inline]
    pub fn end(self) -> u64 {
        self.end
    }

    /// The same view, ending at `end` if that is earlier.
    pub fn up_to(self, end: u64) -> View<'s> {
        View {
            end: end.min(self.end),
            ..self
        }
    }

    /// What was read of the file's packs.
    pub fn packs(self) -> &'s Packs {
        &self.mapping.packs
    }

    /// Bytes of the log.
    #[inline]
    pub fn bytes(self, offset: u64, length: u64) -> Result<&'s [u8], Fault> {
        if offset.checked_add(length).is_none_or(|end| end > self.end) {
            return Err(Fault::new(offset, "reaches beyond the end"));
        }
        // SAFETY: in bounds of the view, hence of the mapping and the file
        // (`Mapping::view`); committed items do not change.
        Ok(unsafe {
            let start = self.mapping.raw.as_ptr().add(offset as usize);
            std::slice::from_raw_parts(start, length as usize)
        })
    }

    /// Has the processor begin to fetch the bytes at `offset`, a few cache lines of them.
    #[inline]
    pub fn prefetch(self, offset: u64) {
        const LINES: usize = 4;
        if let Ok(bytes) = self.bytes(offset, (LINES * CACHE_LINE) as u64) {
            prefetch_all(bytes);
        }
    }

    /// Words that change in place. `offset` must be a multiple of 8.
    #[inline]
    pub fn words(self, offset: u64, count: u64) -> Result<&'s [Word], Fault> {
        let length = count.saturating_mul(8);
        if offset.checked_add(length).is_none_or(|end| end > self.end) {
            return Err(Fault::new(offset, "reaches beyond the end"));
        }
        if !offset.is_multiple_of(8) {
            return Err(Fault::new(offset, "is not aligned"));
        }
        // SAFETY: in bounds as above; aligned, because mappings start at pages;
        // `Word` is atomic, which allows for others writing the memory meanwhile.
        Ok(unsafe {
            let start = self.mapping.raw.as_ptr().add(offset as usize);
            std::slice::from_raw_parts(start.cast::<Word>(), count as usize)
        })
    }
}

/// A line of an index's leaf.
pub(super) type Line = [Word; LINE_WORDS as usize];

/// The words of a line, for which of them a tag was asked.
pub(super) struct Tagged {
    /// A bit for each word with the tag, the first word's lowest.
    pub matches: u32,
    /// Whether the last word is not free, so that words whose home this is may
    /// be in the next line.
    pub is_full: bool,
}

/// Looks for `tag` in all words of `line` at once.
///
/// Without a branch for each word: where in its line a word is cannot be
/// predicted, and a wrong guess is noticed only when the line has come from
/// memory; until then the processor has run ahead into the wrong lookup, instead
/// of having the next ones under way.
#[cfg(all(target_arch = "x86_64", not(shuttle)))]
#[inline]
pub(super) fn look_for(tag: u64, line: &Line) -> Tagged {
    use std::arch::x86_64::{
        __m128i, _mm_castps_si128, _mm_castsi128_ps, _mm_cmpeq_epi32, _mm_cvtsi128_si64,
        _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi32, _mm_shuffle_ps,
        _mm_srli_epi32, _mm_unpackhi_epi64,
    };
    const _: () = assert!(LINE_WORDS == 8);
    let (a, b, c, d): (__m128i, __m128i, __m128i, __m128i);
    // SAFETY: reads the 64 bytes of the line. Others may store to its words
    // meanwhile: in assembly that is no data race, and the processor reads each
    // aligned word in one piece.
    unsafe {
        std::arch::asm!(
            "movdqu {a}, [{line}]",
            "movdqu {b}, [{line} + 16]",
            "movdqu {c}, [{line} + 32]",
            "movdqu {d}, [{line} + 48]",
            line = in(reg) line,
            a = out(xmm_reg) a,
            b = out(xmm_reg) b,
            c = out(xmm_reg) c,
            d = out(xmm_reg) d,
            options(nostack, preserves_flags, readonly),
        );
    }
    // SAFETY: every x86-64 processor has SSE2.
    unsafe {
        // The high halves of four words; the tag is their upper three bytes.
        let tags = |low, high| {
            let halves =
                _mm_shuffle_ps::<0b11_01_11_01>(_mm_castsi128_ps(low), _mm_castsi128_ps(high));
            _mm_srli_epi32::<8>(_mm_castps_si128(halves))
        };
        let wanted = _mm_set1_epi32(tag as i32);
        let first = _mm_cmpeq_epi32(tags(a, b), wanted);
        let second = _mm_cmpeq_epi32(tags(c, d), wanted);
        let bytes = _mm_packs_epi16(
            _mm_packs_epi32(first, second),
            _mm_packs_epi32(first, second),
        );
        Tagged {
            matches: _mm_movemask_epi8(bytes) as u32 & 0xff,
            is_full: _mm_cvtsi128_si64(_mm_unpackhi_epi64(d, d)) != 0,
        }
    }
}

/// The same word by word, for other processors and for tests that want to come
/// between any two of them.
#[cfg(not(all(target_arch = "x86_64", not(shuttle))))]
#[inline]
pub(super) fn look_for(tag: u64, line: &Line) -> Tagged {
    let mut tagged = Tagged {
        matches: 0,
        is_full: false,
    };
    for (place, word) in line.iter().enumerate() {
        let word = word.load(std::sync::atomic::Ordering::Relaxed);
        tagged.matches |= u32::from(format_spec::leaf::tag(word) == tag) << place;
        tagged.is_full = word != 0;
    }
    tagged
}

/// The file, mapped for storing single words.
pub(super) struct WordWriter {
    _guard: Mapped,
    raw: MmapRaw,
}

impl WordWriter {
    /// Maps the first `length` bytes of address space from the file's start.
    pub fn new(system: &dyn System, file: &File, length: u64) -> io::Result<WordWriter> {
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let raw = system.map_writable(file, length)?;
        let _guard = Mapped::of_descriptor(raw.as_ptr(), raw.len(), file);
        Ok(WordWriter { _guard, raw })
    }

    /// Stores `word` in one piece at `offset`, a multiple of 8, in a leaf that
    /// is wholly below the end of `view`.
    pub fn store(
        &self,
        system: &dyn System,
        view: View<'_>,
        offset: u64,
        word: u64,
    ) -> Result<(), Fault> {
        let end = view.end().min(self.raw.len() as u64);
        if !offset.is_multiple_of(8) || offset.checked_add(8).is_none_or(|after| after > end) {
            return Err(Fault::new(offset, "is not a word of a leaf"));
        }
        // SAFETY: in bounds of this mapping, and of the file (`Mapping::view`);
        // aligned; leaves are only ever accessed atomically.
        let place = unsafe { &*self.raw.as_mut_ptr().add(offset as usize).cast::<Word>() };
        system.store(place.place(), word, offset);
        Ok(())
    }
}
