//! What is not well: full disks, broken disks, files that are not (or no
//! longer) repositories, and files made to deceive. Each has its clear error;
//! nothing panics, nothing is lost that was there.

mod common;

use common::{
    Expected, Fate, Op, PLAIN, REPLACED, Random, TestSystem, VECTOR, Words, effort, key, options,
    run_transaction,
};
use format_spec::file::{IndexSlot, VectorSlot};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use store::engine::{Durability, Error, OpenOptions, Reader, Store};

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

fn open(path: &Path) -> Result<Store, Error> {
    Store::open(path, &options(TestSystem::new(1)))
}

/// A small repository, and what each of its revisions holds.
fn sample(path: &Path) -> Vec<Expected> {
    let store = open(path).unwrap();
    let mut history = vec![Expected::default()];
    for number in 0..5 {
        let last = history.last().unwrap();
        history.push(run_transaction(&store, last, number, Durability::Lazy).unwrap());
    }
    store.verify().unwrap();
    history
}

/// Every write and every sync fails once, with nothing or half of it done.
#[test]
fn a_failed_write_is_an_error_and_loses_nothing() {
    let directory = scratch();
    let path = directory.path().join("full.repo");
    let (mut tried, mut committed) = (0, 0);
    let mut last_operations = 0;
    for attempt in 0.. {
        let durability = [Durability::Lazy, Durability::Durable][attempt % 2];
        let fail_at = attempt / 2;
        let _ = std::fs::remove_file(&path);
        let history = sample(&path);
        let last = history.last().unwrap();
        let counter = Arc::new(AtomicUsize::new(0));
        let failing = counter.clone();
        let system = TestSystem::with_hook(1, Words::Written, move |_, op| {
            if failing.fetch_add(1, Ordering::Relaxed) != fail_at {
                return Fate::Done;
            }
            match op {
                // State words are not written by halves.
                Op::Write { bytes, .. } if bytes.len() <= 24 => Fate::Failed(0, libc::ENOSPC),
                Op::Write { bytes, .. } => Fate::Failed(bytes.len() / 2, libc::ENOSPC),
                _ => Fate::Failed(0, libc::EIO),
            }
        });
        let store = Store::open(&path, &options(system)).unwrap();
        let result = run_transaction(&store, last, 6, durability);
        if counter.load(Ordering::Relaxed) <= fail_at {
            assert!(result.is_ok());
            if last_operations == attempt {
                break;
            }
            last_operations = attempt + 1;
            continue;
        }
        tried += 1;
        let error = result.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("full.repo: cannot "), "{text}");
        // As it was, for this store and for others, unless it says that it was committed.
        let is_committed = matches!(error, Error::NotDurable { revision, .. }
            if revision == history.len() as u64);
        committed += usize::from(is_committed);
        let revision = (history.len() - 1 + usize::from(is_committed)) as u64;
        for snapshot in [store.snapshot(), open(&path).unwrap().snapshot()] {
            let snapshot = snapshot.unwrap();
            assert_eq!(snapshot.revision(), revision, "{text}");
            if !is_committed {
                last.check(snapshot);
            }
        }
        // When there is room again, it works; the failed one may be there if it
        // failed after it was committed.
        let begun = store.begin(Durability::Lazy).unwrap();
        let revision = begun.base().revision() as usize;
        drop(begun);
        let base = if revision < history.len() {
            last.clone()
        } else {
            let other = directory.path().join("other.repo");
            let _ = std::fs::remove_file(&other);
            sample(&other);
            run_transaction(&open(&other).unwrap(), last, 6, Durability::Lazy).unwrap()
        };
        let next = run_transaction(&store, &base, 7, Durability::Durable).unwrap();
        next.check(store.snapshot().unwrap());
        store.verify().unwrap();
    }
    assert!(tried > 5 && committed > 0);
}

/// A file that really cannot grow: RLIMIT_FSIZE, in a process of its own.
#[test]
fn a_full_disk_is_an_error() {
    let directory = scratch();
    let path = directory.path().join("limit.repo");
    sample(&path);
    let environment = [("LIMITED_PATH", path.to_str().unwrap().to_owned())];
    let status = common::spawn("limited", &environment).wait().unwrap();
    assert!(status.success());
    let store = open(&path).unwrap();
    store.verify().unwrap();
    assert_eq!(store.snapshot().unwrap().count(IndexSlot::of::<7>()), 1);
}

/// Not a test of its own: the process of [`a_full_disk_is_an_error`].
#[test]
fn limited() {
    let Some(path) = std::env::var_os("LIMITED_PATH") else {
        return;
    };
    let store = open(Path::new(&path)).unwrap();
    let before = store.snapshot().unwrap().revision();
    let limit = libc::rlimit {
        rlim_cur: store.size().unwrap() + (1 << 20),
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: plain system calls; SIGXFSZ is ignored, so that writes fail with EFBIG.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
    let value = vec![0x5a; 100_000];
    let mut transaction = store.begin(Durability::Lazy).unwrap();
    let error = (0..1000)
        .find_map(|number| {
            transaction
                .insert(IndexSlot::of::<7>(), &key(number), &value)
                .err()
        })
        .unwrap_or_else(|| transaction.commit().unwrap_err());
    assert!(
        matches!(
            error,
            Error::Io {
                action: "write",
                ..
            }
        ),
        "{error}"
    );
    let mut transaction = store.begin(Durability::Lazy).unwrap();
    assert_eq!(transaction.base().revision(), before);
    transaction
        .insert(IndexSlot::of::<7>(), &key(1), b"small")
        .unwrap();
    transaction.commit().unwrap();
}

#[test]
fn read_only() {
    let directory = scratch();
    let path = directory.path().join("sample.repo");
    let history = sample(&path);
    let mut reader = options(TestSystem::new(1));
    reader.read_only = true;
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o400)).unwrap();
    let store = Store::open(&path, &reader).unwrap();
    history.last().unwrap().check(store.snapshot().unwrap());
    store.verify().unwrap();
    let error = store.begin(Durability::Lazy).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
}

#[test]
fn created_private_and_only_if_asked() {
    let directory = scratch();
    let path = directory.path().join("new.repo");
    let error = Store::open(&path, &OpenOptions::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("new.repo: cannot open: No such file"),
        "{error}"
    );
    open(&path).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let error = open(&directory.path().join("no/such/directory")).unwrap_err();
    assert!(
        error.to_string().contains("cannot create the repository"),
        "{error}"
    );
    let error = open(directory.path()).unwrap_err();
    assert!(
        matches!(error, Error::NotAFile { kind, .. } if kind == "directory"),
        "{error}"
    );
}

#[test]
fn files_that_are_not_repositories() {
    let directory = scratch();
    let path = directory.path().join("sample.repo");
    let write = |bytes: &[u8]| std::fs::write(&path, bytes).unwrap();
    sample(&path);
    let good = std::fs::read(&path).unwrap();

    for bad in [
        &[][..],
        b"\x7fELF",
        &[0; 100_000],
        &good[..5000.min(good.len()) - 1000],
    ] {
        write(bad);
        assert!(matches!(open(&path), Err(Error::NotARepository { .. })));
    }
    let mut bytes = good.clone();
    let known = format_spec::file::VERSION;
    bytes[8] = known as u8 + 1;
    write(&bytes);
    let refused = open(&path);
    assert!(
        matches!(refused, Err(Error::Version { found, known: k, .. }) if (found, k) == (known + 1, known))
    );
    let mut bytes = good.clone();
    bytes[12..16].reverse();
    bytes[8..12].reverse();
    write(&bytes);
    assert!(matches!(open(&path), Err(Error::ByteOrder { .. })));
    let mut bytes = good.clone();
    bytes[20] ^= 1;
    write(&bytes);
    assert!(matches!(open(&path), Err(Error::Damaged { offset: 0, .. })));

    // Every length: nothing that reaches beyond the end is read.
    for length in (4096 + 112..good.len()).step_by(401) {
        write(&good[..length]);
        let error = open(&path)
            .and_then(|store| store.snapshot().map(drop))
            .unwrap_err();
        assert!(
            matches!(error, Error::Truncated { .. }),
            "{length}: {error}"
        );
    }
}

#[test]
fn a_file_that_was_replaced_takes_no_more_transactions() {
    let directory = scratch();
    let path = directory.path().join("old.repo");
    let history = sample(&path);
    let store = open(&path).unwrap();
    let new = directory.path().join("new.repo");
    open(&new).unwrap();
    std::fs::rename(&new, &path).unwrap();
    history.last().unwrap().check(store.snapshot().unwrap());
    let error = store.begin(Durability::Lazy).unwrap_err();
    assert!(matches!(error, Error::Replaced { .. }), "{error}");
    assert_eq!(open(&path).unwrap().snapshot().unwrap().revision(), 0);
}

/// The same with a second name (a hard link), by which the old file lives on:
/// not how many names a file has counts, but where the path leads.
#[test]
fn a_file_with_two_names_that_was_replaced_takes_no_more_transactions() {
    let directory = scratch();
    let path = directory.path().join("old.repo");
    let second = directory.path().join("second.repo");
    let history = sample(&path);
    std::fs::hard_link(&path, &second).unwrap();
    let (store, by_second) = (open(&path).unwrap(), open(&second).unwrap());
    let new = directory.path().join("new.repo");
    open(&new).unwrap();
    std::fs::rename(&new, &path).unwrap();
    let last = history.last().unwrap();
    last.check(store.snapshot().unwrap());
    let error = store.begin(Durability::Lazy).unwrap_err();
    assert!(matches!(error, Error::Replaced { .. }), "{error}");
    let error = store.sync().unwrap_err();
    assert!(matches!(error, Error::Replaced { .. }), "{error}");
    // By its other name the old file is a repository as before.
    let next = run_transaction(&by_second, last, 7, Durability::Lazy).unwrap();
    next.check(open(&second).unwrap().snapshot().unwrap());
    // Also nothing in its place is a reason to stop.
    std::fs::remove_file(&second).unwrap();
    let error = by_second.begin(Durability::Lazy).unwrap_err();
    assert!(matches!(error, Error::Replaced { .. }), "{error}");
}

/// A relative path means what it meant when the file was opened.
#[test]
fn the_working_directory_may_change() {
    let directory = scratch();
    sample(&directory.path().join("here.repo"));
    let environment = [(
        "MOVING_DIRECTORY",
        directory.path().to_str().unwrap().to_owned(),
    )];
    let status = common::spawn("moving", &environment).wait().unwrap();
    assert!(status.success());
}

/// Not a test of its own: the process of [`the_working_directory_may_change`].
#[test]
fn moving() {
    let Some(directory) = std::env::var_os("MOVING_DIRECTORY") else {
        return;
    };
    std::env::set_current_dir(directory).unwrap();
    let store = open(Path::new("here.repo")).unwrap();
    std::env::set_current_dir("/").unwrap();
    drop(store.begin(Durability::Lazy).unwrap());
}

/// A copy is checked before it is believed: it may be of a file that was being
/// written to.
#[test]
fn copies_are_checked() {
    let directory = scratch();
    let path = directory.path().join("original.repo");
    let create = OpenOptions {
        create: true,
        ..OpenOptions::default()
    };
    let store = Store::open(&path, &create).unwrap();
    let first = run_transaction(&store, &Expected::default(), 1, Durability::Lazy).unwrap();
    run_transaction(&store, &first, 2, Durability::Lazy).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let copy = directory.path().join("copy.repo");
    std::fs::write(&copy, bytes).unwrap();
    let store = Store::open(&copy, &create).unwrap();
    first.check(store.snapshot().unwrap());
}

/// The process may not have a tebibyte of addresses: less is reserved.
#[test]
fn short_of_address_space() {
    let directory = scratch();
    let path = directory.path().join("short.repo");
    let history = sample(&path);
    assert!(open(&path).unwrap().reserve() >= 1 << 40);
    let environment = [("SHORT_PATH", path.to_str().unwrap().to_owned())];
    assert!(
        common::spawn("short", &environment)
            .wait()
            .unwrap()
            .success()
    );
    let snapshot = open(&path).unwrap();
    let next = run_transaction(&snapshot, &history[5], 8, Durability::Lazy);
    next.unwrap().check(snapshot.snapshot().unwrap());
}

/// Not a test of its own: the process of [`short_of_address_space`].
#[test]
fn short() {
    let Some(path) = std::env::var_os("SHORT_PATH") else {
        return;
    };
    let limit = libc::rlimit {
        rlim_cur: 4 << 30,
        rlim_max: 4 << 30,
    };
    // SAFETY: a plain system call.
    unsafe { assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &limit), 0) };
    let options = OpenOptions {
        create: true,
        ..OpenOptions::default()
    };
    let store = Store::open(Path::new(&path), &options).unwrap();
    assert!(
        (1 << 20..4 << 30).contains(&store.reserve()),
        "{}",
        store.reserve()
    );
    store.verify().unwrap();
    // Also for the writable mapping there may be no room.
    for number in 0..30 {
        let mut transaction = store.begin(Durability::Lazy).unwrap();
        transaction
            .insert(IndexSlot::of::<9>(), &key(number), b"value")
            .unwrap();
        transaction.commit().unwrap();
    }
    store.verify().unwrap();
}

/// A mebibyte of addresses.
fn small_reserve() -> OpenOptions {
    OpenOptions {
        reserve: 1 << 20,
        ..options(TestSystem::new(1))
    }
}

/// Address space is short: a smaller mapping does.
#[test]
fn a_small_reserve_is_enough_until_it_is_full() {
    let directory = scratch();
    let path = directory.path().join("small.repo");
    let store = Store::open(&path, &small_reserve()).unwrap();
    let mut transaction = store.begin(Durability::Lazy).unwrap();
    let error = transaction
        .insert(IndexSlot::of::<0>(), &key(1), &vec![1; 2 << 20])
        .unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    drop(transaction);
    let large = open(&path).unwrap();
    let mut transaction = large.begin(Durability::Lazy).unwrap();
    transaction
        .insert(IndexSlot::of::<0>(), &key(1), &vec![1; 2 << 20])
        .unwrap();
    transaction.commit().unwrap();
    // The first cannot see that far; a new one can, whatever it reserves.
    assert!(matches!(store.snapshot(), Err(Error::TooLarge { .. })));
    let store = Store::open(&path, &small_reserve()).unwrap();
    assert_eq!(store.snapshot().unwrap().count(IndexSlot::of::<0>()), 1);
}

/// A record that is to be packed is in no pack if there is no room for it, so that no pack has more records than the index has words.
#[test]
fn packed_records_for_which_there_is_no_room_are_not_there() {
    let index = IndexSlot::of::<0>();
    let value = |number: u64| -> Vec<u8> {
        let mut random = Random(number + 1);
        (0..1250)
            .flat_map(|_| random.next().to_le_bytes())
            .collect()
    };
    let directory = scratch();
    let path = directory.path().join("small.repo");
    let store = Store::open(&path, &small_reserve()).unwrap();
    let mut transaction = store.begin(Durability::Lazy).unwrap();
    transaction.pack();
    let mut added = 0;
    let error = loop {
        match transaction.insert(index, &key(added), &value(added)) {
            Ok(_) => added += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert!(added > 50, "{added}");
    assert!(transaction.get(index, &key(added)).unwrap().is_none());
    transaction.commit().unwrap();
    let check = |store: &Store, records: u64| {
        let snapshot = store.snapshot().unwrap();
        assert_eq!(snapshot.count(index), records);
        for number in 0..records {
            let found = snapshot.get(index, &key(number)).unwrap().unwrap();
            assert_eq!(found.value, value(number), "{number}");
        }
        store.verify().unwrap();
    };
    check(&store, added);
    let large = open(&path).unwrap();
    let mut transaction = large.begin(Durability::Lazy).unwrap();
    transaction.pack();
    transaction
        .insert(index, &key(added), &value(added))
        .unwrap();
    transaction.commit().unwrap();
    check(&large, added + 1);
}

/// The log alone is enough: neither the state nor any leaf is needed.
#[test]
fn everything_can_be_made_from_the_log() {
    let directory = scratch();
    let path = directory.path().join("log.repo");
    let history = sample(&path);
    let good = std::fs::read(&path).unwrap();
    let mut bytes = good.clone();
    bytes[512..576].fill(0x55);
    let store = open(&path).unwrap();
    for snapshot in store.snapshot().unwrap().revisions() {
        let snapshot = snapshot.unwrap();
        let indices = IndexSlot::all().map(|slot| snapshot.index_leaves(slot));
        let vectors = VectorSlot::all().map(|slot| snapshot.vector_leaves(slot));
        for leaf in indices.chain(vectors).flat_map(Result::unwrap) {
            bytes[leaf.start as usize..leaf.end as usize].fill(0x55);
        }
    }
    drop(store);
    std::fs::write(&path, &bytes).unwrap();
    let store = Store::open(&path, &options(TestSystem::new(2))).unwrap();
    store.verify().unwrap();
    for (revision, expected) in (0..).zip(&history) {
        expected.check(store.snapshot_at(revision).unwrap());
    }
    drop(store);
    let made_again = std::fs::read(&path).unwrap();
    assert_eq!(made_again[4096..], good[4096..], "the same bytes");
}

/// Everything that can be asked of a repository that may be damaged. True if
/// all answers were those of some revision in `history`.
fn all_answers_are_right(path: &Path, history: &[Expected]) -> bool {
    let Ok(store) = open(path) else { return true };
    let Ok(snapshot) = store.snapshot() else {
        return true;
    };
    let mut right = true;
    let expected = history.get(snapshot.revision() as usize);
    for (index, of) in [
        (PLAIN, expected.map(|e| &e.plain)),
        (REPLACED, expected.map(|e| &e.replaced)),
    ] {
        for number in 0..2000 {
            if let Ok(found) = snapshot.get(index, &key(number)) {
                let value = found.map(|record| record.value);
                right &= of.is_some_and(|of| of.get(&number).map(Vec::as_slice) == value);
            }
        }
        right &= snapshot.iter(index).filter(|record| record.is_ok()).count() <= 4000;
    }
    for element in 0..snapshot.vector_len(VECTOR).min(1000) as u32 {
        if let Ok(Some(address)) = snapshot.vector_get(VECTOR, element) {
            right &= expected.is_some_and(|e| e.vector.get(element as usize) == Some(&address));
            let _ = snapshot.record_at(address);
        }
    }
    right &= snapshot
        .revisions()
        .filter(|revision| revision.is_ok())
        .count()
        <= history.len();
    for revision in 0..=snapshot.revision().min(10) {
        let _ = store
            .snapshot_at(revision)
            .map(|snapshot| snapshot.iter(PLAIN).count());
    }
    right
}

fn caught<T>(what: impl FnOnce() -> T) -> std::thread::Result<T> {
    std::panic::catch_unwind(AssertUnwindSafe(what))
}

/// Each byte in turn: an error or right answers; and `verify` finds all that
/// makes an answer wrong. After a restart of the system, when recovery checks
/// everything, there are no wrong answers at all.
#[test]
fn every_byte_flipped() {
    let directory = scratch();
    let path = directory.path().join("flipped.repo");
    let history = sample(&path);
    let good = std::fs::read(&path).unwrap();
    let mut random = Random(effort("STORE_SEED", 1));
    let step = effort("STORE_FLIP_STEP", 7);
    let mut at = random.below(step) as usize;
    while at < good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << random.below(8);
        std::fs::write(&path, &bytes).unwrap();
        let right = caught(|| all_answers_are_right(&path, &history));
        let right = right.unwrap_or_else(|_| panic!("panic with byte {at:#x} flipped"));
        let verified = open(&path).and_then(|store| store.verify()).is_ok();
        assert!(
            right || !verified,
            "byte {at:#x} flipped, wrong answers, and verified"
        );
        // The header's session is allowed to differ: it is only believed less.
        let in_session = (512 + 32..512 + 64).contains(&at);
        assert!(!verified || in_session, "byte {at:#x} flipped and verified");

        // Checkpoint at the beginning, so recovery sees all of the log.
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(store) = Store::open(&path, &options(TestSystem::new(2))) {
            drop(store);
            let system = options(TestSystem::new(2));
            let store = Store::open(&path, &system).unwrap();
            let snapshot = store.snapshot().unwrap();
            history[snapshot.revision() as usize].check(snapshot);
        }
        at += 1 + random.below(2 * step - 1) as usize;
    }
}

/// Files in which much is wrong, with checksums made right where the engine
/// checks them first, so that what lies behind is reached.
#[test]
fn hostile_files() {
    let directory = scratch();
    let path = directory.path().join("hostile.repo");
    let history = sample(&path);
    let good = std::fs::read(&path).unwrap();
    let mut random = Random(effort("STORE_SEED", 2));
    for round in 0..effort("STORE_HOSTILE", 1500) {
        let mut bytes = good.clone();
        let trailer = u64::from_le_bytes(bytes[520..528].try_into().unwrap()) & ((1 << 48) - 1);
        let trailer = trailer as usize;
        let size = good.len() - trailer;
        for _ in 0..1 + random.below(4) {
            // A word somewhere, or in the newest trailer, or of a state word.
            let place = match random.below(4) {
                0 => trailer + random.below(size as u64 / 8) as usize * 8,
                1 => 512 + random.below(4) as usize * 8,
                _ => random.below(bytes.len() as u64 / 8) as usize * 8,
            };
            let other = random.below(bytes.len() as u64 / 8) as usize * 8;
            let value = match random.below(6) {
                0 => random.next(),
                1 => random.below(bytes.len() as u64) & !7,
                2 => 1 << random.below(64),
                3 => u64::MAX - random.below(100),
                4 => random.below(100),
                _ => u64::from_le_bytes(bytes[other..other + 8].try_into().unwrap()),
            };
            bytes[place..place + 8].copy_from_slice(&value.to_le_bytes());
        }
        // Make the newest trailer's checksum right again.
        let checksum = crc32(&bytes[trailer..trailer + size - 4]);
        bytes[trailer + size - 4..trailer + size].copy_from_slice(&checksum.to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        let result = caught(|| {
            all_answers_are_right(&path, &history);
            if let Ok(store) = open(&path) {
                let _ = store.verify();
                let _ = run_transaction(&store, &Expected::default(), round, Durability::Lazy);
            }
            std::fs::write(&path, &bytes).unwrap();
            if let Ok(store) = Store::open(&path, &options(TestSystem::new(2))) {
                let _ = run_transaction(&store, &Expected::default(), round, Durability::Lazy);
                let _ = store.verify();
            }
        });
        if result.is_err() {
            let kept = std::env::temp_dir().join("hostile.repo");
            std::fs::File::create(&kept)
                .unwrap()
                .write_all(&bytes)
                .unwrap();
            panic!("panic in round {round}; the file is {}", kept.display());
        }
    }
}

/// CRC-32 (IEEE), bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    !crc
}
