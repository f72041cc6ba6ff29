//! The turn of a process that writes; see [`lock`](super::lock).

/// The turn of the threads that share a store.
#[derive(Default)]
pub(super) struct Turn {
    /// When it began (`System::uptime`).
    pub(super) began: u64,
    /// How old it was when its writer looked last whether turns are to be short.
    pub(super) looked: u64,
    /// Transactions that are left of it.
    pub(super) left: u32,
    /// Who is next was woken already.
    pub(super) has_woken: bool,
}
