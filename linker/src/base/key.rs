//! Which definition a name has, as one word: the stronger one is the smaller, so that the least of all offers is taken.

use super::ids::FileId;

/// Kind of a definition, in the high bits of its key. Smaller is stronger.
pub mod rank {
    /// Defined in a linked object.
    pub const STRONG: u64 = 0;
    /// A common block in a linked object.
    pub const COMMON: u64 = 1;
    /// Weakly defined in a linked object.
    pub const WEAK: u64 = 2;
    /// Defined in a shared object.
    pub const SHARED: u64 = 3;
    /// Defined by the linker: `_end`, `--defsym`, ….
    pub const LINKER: u64 = 4;
    /// Not defined.
    pub const NONE: u64 = 15;
}

/// Which definition a symbol has: rank, file and index in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub u64);

impl Key {
    /// Not defined.
    pub const NONE: Key = Key(u64::MAX);

    /// In an incremental link, of what the linker has defined before: it is not among what it defines now.
    pub const MADE_BEFORE: Key = Key(rank::STRONG << 60 | 1);

    /// Makes a key.
    #[inline]
    pub fn new(rank: u64, file: FileId, index: u32) -> Key {
        Key((rank << 60) | (u64::from(file.0) << 32) | u64::from(index))
    }
    /// One of [`rank`].
    #[inline]
    pub fn rank(self) -> u64 {
        self.0 >> 60
    }
    /// The defining file.
    #[inline]
    pub fn file(self) -> FileId {
        FileId((self.0 >> 32) as u32 & 0x0fff_ffff)
    }
    /// The symbol's index in the defining file.
    #[inline]
    pub fn index(self) -> u32 {
        self.0 as u32
    }
    /// Defined in an object that is linked.
    #[inline]
    pub fn in_object(self) -> bool {
        self.rank() <= rank::WEAK
    }
}
