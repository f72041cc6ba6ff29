//! Repositories: opened, everything in them looked up, verified, recovered, and
//! written to. What is wrong may be an error, never a panic, a wild read or a hang.
//!
//! Mutations are mostly followed by making checksums right again: else nearly
//! all of them would end there, and what lies behind would not be reached.
#![no_main]

use format_spec::digest::Digest;
use format_spec::file::{
    FileHeader, INDEX_SLOTS, ITEM_ALIGN, ItemHead, ItemKind, LOG_OFFSET, STATE_OFFSET, StateWord,
    TABLE_ALIGN, TRAILER_SIZE, Trailer, VECTOR_SLOTS,
};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use std::fs::File;
use std::hint::black_box;
use std::io;
use std::mem::offset_of;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use store::engine::{Addition, Durability, OpenOptions, Record, Snapshot, Store, System};

/// An operating system that was started so many times, and on which syncing costs nothing.
struct Boot(u8);

impl System for Boot {
    fn boot_id(&self) -> [u8; 16] {
        [self.0; 16]
    }
    fn inode(&self, _: &File) -> io::Result<u64> {
        Ok(1)
    }
    fn sync(&self, _: &File) -> io::Result<()> {
        Ok(())
    }
}

static PATH: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let directory = if memory.is_dir() { memory } else { std::env::temp_dir() };
    directory.join(format!("fuzzed-{}.repo", std::process::id()))
});

fuzz_target!(|data: &[u8]| {
    // As this boot's processes left it, and as another one did.
    for (boot, read_only) in [(1, false), (2, true), (2, false)] {
        std::fs::write(&*PATH, data).expect("room in memory");
        let options = OpenOptions {
            read_only,
            system: Arc::new(Boot(boot)),
            ..OpenOptions::default()
        };
        let Ok(store) = Store::open(&*PATH, &options) else {
            continue;
        };
        if let Ok(snapshot) = store.snapshot() {
            look_at(&snapshot);
        }
        let _ = store.verify();
        if write_to(&store).is_ok() {
            let _ = store.verify();
        }
    }
});

/// Reads every byte.
fn touch(record: &Record<'_>) {
    let sum: u64 = record.value.iter().map(|&byte| u64::from(byte)).sum();
    black_box((sum, record.key));
}

fn look_at(snapshot: &Snapshot<'_>) {
    for index in 0..INDEX_SLOTS as u8 {
        for record in snapshot.iter(index).flatten() {
            touch(&record);
            if let Ok(Some(found)) = snapshot.get(index, record.key) {
                assert_eq!(found.key, record.key);
            }
        }
        let _ = black_box(snapshot.get(index, &Digest::of(b"absent")));
    }
    for vector in 0..VECTOR_SLOTS as u8 {
        let length = snapshot.vector_len(vector).min(10_000) as u32;
        for element in 0..=length {
            if let Ok(Some(address)) = snapshot.vector_get(vector, element) {
                let _ = snapshot.record_at(address).map(|record| touch(&record));
            }
        }
    }
    let revisions: Vec<_> = snapshot.revisions().flatten().collect();
    for earlier in &revisions {
        assert!(earlier.revision() <= snapshot.revision());
        let again = snapshot.store().snapshot_at(earlier.revision());
        let _ = again.map(|again| assert_eq!(again.revision(), earlier.revision()));
    }
    if let Some(first) = revisions.last() {
        for addition in snapshot.additions_since(first).flatten() {
            if let Addition::Record { record, .. } = addition {
                touch(&record);
            }
        }
    }
}

fn write_to(store: &Store) -> store::engine::Result<()> {
    let mut transaction = store.begin(Durability::Lazy)?;
    for number in 0..60u64 {
        let key = Digest::of(&number.to_le_bytes());
        let address = transaction.insert(3, &key, b"inserted")?;
        transaction.replace(15, &key, &number.to_le_bytes())?;
        transaction.push(1, address)?;
    }
    transaction.commit()?;
    look_at(&store.snapshot()?);
    Ok(())
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let choice = seed as usize;
    let size = match choice % 4 {
        0 => fuzzer_mutate(data, size, max_size),
        _ if size < 16 => fuzzer_mutate(data, size, max_size),
        // One word becomes another one of the file, or a number that may be too large or small.
        sort => {
            let place = choice / 16 % (size / 8) * 8;
            let other = choice / 7919 % (size / 8) * 8;
            let value = match (sort, choice / 4 % 4) {
                (1, _) => u64::from_le_bytes(data[other..other + 8].try_into().expect("8 bytes")),
                (2, shift) => 1 << (choice / 64 % 16 * 4 + shift),
                (_, near) => (other + near * 4) as u64,
            };
            data[place..place + 8].copy_from_slice(&value.to_le_bytes());
            size
        }
    };
    if choice / 1024 % 8 != 0 {
        make_right(&mut data[..size]);
    }
    size
});

/// Makes all checksums right.
fn make_right(data: &mut [u8]) {
    const HEADER: usize = offset_of!(FileHeader, checksum);
    if data.len() < LOG_OFFSET as usize {
        return;
    }
    let checksum = crc32fast::hash(&data[..HEADER]);
    data[HEADER..HEADER + 4].copy_from_slice(&checksum.to_le_bytes());
    for word in data[STATE_OFFSET as usize..].chunks_exact_mut(8).take(4) {
        let value = u64::from_le_bytes((&*word).try_into().expect("8 bytes"));
        word.copy_from_slice(&StateWord::new(value).0.to_le_bytes());
    }
    let mut at = LOG_OFFSET as usize;
    let mut payload = crc32fast::Hasher::new();
    while let Some(head) = data.get(at..at + 8) {
        let head = ItemHead(u64::from_le_bytes(head.try_into().expect("8 bytes")));
        let (Some(kind), length) = (head.kind(), head.length()) else {
            break;
        };
        let is_table = matches!(kind, ItemKind::IndexTable | ItemKind::VectorTable);
        let align = if is_table { TABLE_ALIGN } else { ITEM_ALIGN };
        let body = (at as u64 + 8).next_multiple_of(align);
        let end = (body + length).next_multiple_of(ITEM_ALIGN) as usize;
        let hashed = if is_table { body as usize } else { end };
        if end > data.len() {
            break;
        }
        if kind == ItemKind::Trailer && length == TRAILER_SIZE - 8 {
            let trailer = &mut data[at..at + TRAILER_SIZE as usize];
            let crc = std::mem::replace(&mut payload, crc32fast::Hasher::new()).finalize();
            const PAYLOAD: usize = offset_of!(Trailer, payload_crc);
            const CHECKSUM: usize = offset_of!(Trailer, checksum);
            trailer[PAYLOAD..PAYLOAD + 4].copy_from_slice(&crc.to_le_bytes());
            let checksum = crc32fast::hash(&trailer[..CHECKSUM]);
            trailer[CHECKSUM..CHECKSUM + 4].copy_from_slice(&checksum.to_le_bytes());
        } else {
            payload.update(&data[at..hashed]);
        }
        at = end;
    }
}
