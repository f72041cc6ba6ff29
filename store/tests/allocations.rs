//! What readers do allocates nothing and waits for nobody. A test binary of its
//! own, because it counts all allocations of its process.

use format_spec::digest::Digest;
use format_spec::file::{IndexSlot, VectorSlot};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use store::engine::{Durability, OpenOptions, Store};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: does what the system's allocator does, and counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn lookups_allocate_nothing_and_take_no_lock() {
    let directory = tempfile::tempdir().unwrap();
    let options = OpenOptions {
        create: true,
        ..OpenOptions::default()
    };
    let store = Store::open(directory.path().join("a.repo"), &options).unwrap();
    let keys: Vec<_> = (0..2000u32).map(|i| Digest::of(&i.to_le_bytes())).collect();
    let mut transaction = store.begin(Durability::Lazy).unwrap();
    for key in &keys[..1000] {
        let address = transaction
            .insert(IndexSlot::of::<0>(), key, &key.0)
            .unwrap();
        transaction.push(VectorSlot::of::<0>(), address).unwrap();
    }
    transaction.commit().unwrap();

    // Whoever waited for the store's lock or the file's would wait for ever.
    let held = store.begin(Durability::Lazy).unwrap();
    let before = ALLOCATIONS.get();
    assert!(before > 0);
    for _ in 0..3 {
        let snapshot = store.snapshot().unwrap();
        let found = keys
            .iter()
            .filter(|key| snapshot.get(IndexSlot::of::<0>(), key).unwrap().is_some());
        assert_eq!(found.count(), 1000);
        let address = snapshot
            .vector_get(VectorSlot::of::<0>(), 999)
            .unwrap()
            .unwrap();
        assert_eq!(snapshot.record_at(address).unwrap().key(), keys[999]);
        assert_eq!(store.snapshot_at(0).unwrap().count(IndexSlot::of::<0>()), 0);
    }
    assert_eq!(ALLOCATIONS.get(), before);
    // Walking over all of an index does, but neither does that take a lock.
    assert_eq!(
        store.snapshot().unwrap().iter(IndexSlot::of::<0>()).count(),
        1000
    );
    drop(held);
}
