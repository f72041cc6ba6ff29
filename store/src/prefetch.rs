//! Telling the processor what will be read soon.
//!
//! Records, symbols, sections and pieces are referred to in an order that no cache foresees. Where the next few references are
//! known, fetching what they need while the present one is dealt with is worth more than any cleverness about the table. And
//! a run of bytes is fetched ahead across the borders of pages, where the processor's own foresight ends.

/// Bytes that a processor fetches at once.
pub const CACHE_LINE: usize = 64;

/// Has the processor fetch what is at a place. Does nothing on processors other than x86-64.
#[inline]
pub fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        #[allow(unused_unsafe)] // newer compilers call it safe
        // SAFETY: a hint, which reads nothing as far as the program can tell; and the place is valid.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Has the processor fetch all of a few thousand bytes.
#[inline]
pub fn prefetch_all(bytes: &[u8]) {
    bytes.iter().step_by(CACHE_LINE).for_each(prefetch);
}
