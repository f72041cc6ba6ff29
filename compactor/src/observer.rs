//! Who wants to know how far a compaction is.

/// Who wants to know how far it is. Not all calls come from the thread that compacts.
pub trait Observer: Sync {
    /// Something of so many steps begins.
    fn begin(&self, what: &'static str, steps: u64);
    /// A step of it is done.
    fn step(&self);
    /// From now on until [`released`](Self::released) writers are waiting: nobody should stop this process.
    fn exclusive(&self) {}
    /// Writers go on.
    fn released(&self) {}
}

/// An observer that does not care.
pub struct Silent;

impl Observer for Silent {
    fn begin(&self, _: &'static str, _: u64) {}
    fn step(&self) {}
}
