//! A process that works on one thing and ends keeps the memory that it once had.
//!
//! glibc's `malloc` gives memory back to the system as soon as it can, and has each large block mapped anew, which the kernel
//! fills with zeros page by page. An import or a link frees what one step made and allocates as much for the next: a third of
//! an import of a large object was spent on that, and a twentieth of a link.

/// Has `malloc` keep freed memory for what is allocated next, in all of this process. For programs, at their start; a
/// library leaves it to whoever uses it. Does nothing with other C libraries than glibc.
pub fn keep() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// The largest threshold that glibc takes on 64-bit systems, bytes. What is larger is mapped.
        const MAPPED: libc::c_int = 32 << 20;
        // SAFETY: it changes numbers of the allocator, under its own lock; any value is sound, those it does not like are
        // ignored.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED);
            libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
        }
    }
}
