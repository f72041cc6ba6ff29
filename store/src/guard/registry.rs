//! A list that a signal handler can read at any moment.
//!
//! Entries are immutable boxes; a slot holds a pointer to one, or null. Slots are in blocks that are never freed, and the
//! blocks are a linked list that only grows, so that a reader needs no lock. Whoever adds or takes away uses one, for the
//! list of slots that are free.
//!
//! An entry that is taken away while a handler reads must not be freed. So the handler first says that it reads, and then
//! loads pointers; the other side first clears the pointer, and then looks whether anybody reads. Both are sequentially
//! consistent: if the second sees no reader, the reader sees the null. Handlers that read end the process, so what is not
//! freed because of one is lost to nobody.

use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::SeqCst};

/// Slots that are made at once.
const BLOCK: usize = 256;

/// Whether a handler has begun to read some registry of the process.
static IS_READ: AtomicBool = AtomicBool::new(false);

struct Block<T: 'static> {
    slots: [AtomicPtr<T>; BLOCK],
    next: *const Block<T>,
}

/// The list.
pub(super) struct Registry<T: 'static> {
    newest: AtomicPtr<Block<T>>,
    free: Mutex<Vec<&'static AtomicPtr<T>>>,
}

/// An entry's stay in the list: until it is dropped.
pub(super) struct Registration<T: 'static> {
    slot: &'static AtomicPtr<T>,
    registry: &'static Registry<T>,
    owns: PhantomData<T>,
}

impl<T> fmt::Debug for Registration<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Registration")
    }
}

impl<T: Send + Sync> Registry<T> {
    /// An empty list.
    pub const fn new() -> Self {
        Registry {
            newest: AtomicPtr::new(ptr::null_mut()),
            free: Mutex::new(Vec::new()),
        }
    }

    /// Adds an entry.
    pub fn add(&'static self, entry: T) -> Registration<T> {
        let entry = Box::into_raw(Box::new(entry));
        let slot = self.free_slot();
        slot.store(entry, SeqCst);
        Registration {
            slot,
            registry: self,
            owns: PhantomData,
        }
    }

    fn free_slot(&'static self) -> &'static AtomicPtr<T> {
        // Nothing that is done with the lock held can panic halfway.
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = free.pop() {
            return slot;
        }
        let block: &'static Block<T> = Box::leak(Box::new(Block {
            slots: [const { AtomicPtr::new(ptr::null_mut()) }; BLOCK],
            next: self.newest.load(SeqCst),
        }));
        self.newest.store(ptr::from_ref(block).cast_mut(), SeqCst);
        let (first, others) = block.slots.split_at(1);
        free.extend(others);
        &first[0]
    }

    /// Calls `visit` for each entry. For signal handlers, and for tests: from the first call on, nothing that is taken
    /// away is freed.
    pub fn visit(&self, mut visit: impl FnMut(&T)) {
        IS_READ.store(true, SeqCst);
        let mut block = self.newest.load(SeqCst).cast_const();
        // SAFETY: blocks are never freed, and a block is whole before the pointer to it is stored.
        while let Some(here) = unsafe { block.as_ref() } {
            for slot in &here.slots {
                // SAFETY: whoever takes the entry away clears the slot first, and then finds `IS_READ` set and does not
                // free it; see above.
                if let Some(entry) = unsafe { slot.load(SeqCst).as_ref() } {
                    visit(entry);
                }
            }
            block = here.next;
        }
    }
}

impl<T> Drop for Registration<T> {
    fn drop(&mut self) {
        let entry = self.slot.swap(ptr::null_mut(), SeqCst);
        if !IS_READ.load(SeqCst) {
            // SAFETY: `Registry::add` made it by `Box::into_raw`, only this registration takes it away, and nobody reads.
            drop(unsafe { Box::from_raw(entry) });
        }
        let mut free = self
            .registry
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        free.push(self.slot);
    }
}

// SAFETY: a registry gives out shared references to its entries, and drops them on whatever thread.
unsafe impl<T: Send + Sync> Sync for Registry<T> {}
// SAFETY: as above; a registration owns its entry.
unsafe impl<T: Send + Sync> Send for Registration<T> {}
// SAFETY: a shared registration gives out nothing.
unsafe impl<T: Send + Sync> Sync for Registration<T> {}

#[cfg(test)]
mod tests {
    use super::Registry;

    #[test]
    fn entries_are_seen_until_they_are_dropped_and_their_slots_serve_again() {
        static REGISTRY: Registry<usize> = Registry::new();
        let seen = || {
            let mut seen = Vec::new();
            REGISTRY.visit(|entry| seen.push(*entry));
            seen.sort_unstable();
            seen
        };
        // More than a block has.
        let mut kept: Vec<_> = (0..1000).map(|n| (n, REGISTRY.add(n))).collect();
        assert_eq!(seen(), (0..1000).collect::<Vec<_>>());
        kept.retain(|(n, _)| n % 2 == 0);
        assert_eq!(seen(), (0..1000).step_by(2).collect::<Vec<_>>());
        let blocks = || {
            let free = REGISTRY.free.lock().unwrap().len();
            free + seen().len()
        };
        let before = blocks();
        let _again: Vec<_> = (0..500).map(|n| REGISTRY.add(n)).collect();
        assert_eq!(seen().len(), 1000);
        assert_eq!(blocks(), before);
    }

    #[test]
    fn threads_add_and_take_away_at_once() {
        static REGISTRY: Registry<[usize; 4]> = Registry::new();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for n in 0..2000 {
                        let entry = REGISTRY.add([thread * n; 4]);
                        if n % 100 == 0 {
                            REGISTRY.visit(|[a, b, c, d]| assert!(a == b && b == c && c == d));
                        }
                        drop(entry);
                    }
                });
            }
        });
        REGISTRY.visit(|_| panic!("all are gone"));
    }
}
