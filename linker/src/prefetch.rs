//! Telling the processor what will be read soon.
//!
//! Symbols, sections and pieces are referred to in an order that no cache foresees. Where the next few references are
//! known, fetching what they need while the present one is dealt with is worth more than any cleverness about the table.

/// Has the processor fetch what is at a place.
#[inline]
pub fn prefetch<T>(place: &T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    #[allow(unused_unsafe)] // newer compilers call it safe
    // SAFETY: a hint, which reads nothing as far as the program can tell; and the place is valid.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
    }
}
