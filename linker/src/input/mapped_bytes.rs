//! Pages of input files that are not needed any more.
//!
//! Inputs with debugging information are several times as large as the output. All of them are mapped, and each page that is
//! read counts as memory of the process from then on. What has been copied to its place, or united with its equals, is
//! read once; so its pages are given back while the link goes on, which the kernel would do anyway, at the end.

/// Bytes for which it is worth asking the kernel.
const WORTH_WHILE: usize = 64 << 10;

const PAGE: usize = 4096;

/// Bytes that belong to a mapping of a file, which is not written to.
#[derive(Clone, Copy)]
pub struct MappedBytes<'a>(&'a [u8]);

impl<'a> MappedBytes<'a> {
    /// # Safety
    /// The bytes are in a mapping of a file that is only read, and that lasts for `'a`.
    pub unsafe fn new(bytes: &'a [u8]) -> Self {
        MappedBytes(bytes)
    }

    /// All of them.
    pub fn whole(self) -> &'a [u8] {
        self.0
    }

    /// Gives the memory of a part of these bytes back. They can still be read: the kernel then looks for their pages again.
    /// What is no part of them is left alone.
    pub fn release(self, part: &[u8]) {
        let (whole, range) = (self.0.as_ptr_range(), part.as_ptr_range());
        if part.len() < WORTH_WHILE || range.start < whole.start || range.end > whole.end {
            return;
        }
        // Pages at the ends hold something else as well.
        let start = (range.start as usize).next_multiple_of(PAGE);
        let end = range.end as usize / PAGE * PAGE;
        let from = self.0[start - whole.start as usize..].as_ptr();
        // SAFETY: the pages are of a mapping of a file, which nobody writes to: what is read from them later is what was
        // read before.
        unsafe {
            libc::madvise(
                from.cast_mut().cast(),
                end.saturating_sub(start),
                libc::MADV_DONTNEED,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MappedBytes, PAGE, WORTH_WHILE};
    use std::io::Write as _;

    /// Number of a mapping's pages that are resident in this process.
    fn resident(bytes: &[u8]) -> usize {
        let pagemap = std::fs::File::open("/proc/self/pagemap").unwrap();
        let pages = bytes.len().div_ceil(PAGE);
        let mut entries = vec![0; 8 * pages];
        let at = bytes.as_ptr() as usize / PAGE * 8;
        std::os::unix::fs::FileExt::read_exact_at(&pagemap, &mut entries, at as u64).unwrap();
        // The highest bit of an entry: present.
        entries
            .chunks(8)
            .filter(|entry| entry[7] & 0x80 != 0)
            .count()
    }

    #[test]
    fn released_bytes_take_no_memory_and_can_be_read_again() {
        let content: Vec<u8> = (0..16 * WORTH_WHILE).map(|i| (i % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&content).unwrap();
        // SAFETY: nobody else knows the file.
        let map = unsafe { memmap2::Mmap::map(&file).unwrap() };
        // SAFETY: this is such a mapping.
        let mapped = unsafe { MappedBytes::new(&map) };
        assert!(map[..] == content[..]);
        assert_eq!(resident(&map), content.len() / PAGE);

        // A part that ends within pages: those at its ends stay.
        mapped.release(&map[100..content.len() - 100]);
        assert!(resident(&map) < content.len() / PAGE);
        assert!(map[..] == content[..]);
    }

    #[test]
    fn other_bytes_are_left_alone() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(PAGE as u64).unwrap();
        // SAFETY: nobody else knows the file.
        let map = unsafe { memmap2::Mmap::map(&file).unwrap() };
        let heap = vec![7u8; 16 * WORTH_WHILE];
        // SAFETY: this is such a mapping.
        unsafe { MappedBytes::new(&map) }.release(&heap);
        assert!(heap.iter().all(|byte| *byte == 7));
    }
}
