//! File systems that lack something: another road where there is one, else an
//! error that says what is missing, with nothing left behind. Most of them are
//! simulated; those that the machine lets us mount are real.

mod common;

use common::{Expected, TestSystem, key, options, run_transaction};
use format_spec::file::IndexSlot;
use memmap2::MmapRaw;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use store::engine::{Durability, Error, Linux, OpenOptions, Store, System};
use store::program::locate::{self, Environment};

/// Linux with a file system on which some system calls fail with these errors.
#[derive(Default)]
struct Lacking {
    open_unnamed: Option<i32>,
    link_unnamed: Option<i32>,
    rename_new: Option<i32>,
    link: Option<i32>,
    lock: Option<i32>,
    /// Locks of single bytes: the queue, and who syncs.
    lock_byte: Option<i32>,
    map: Option<i32>,
    /// More than this cannot be mapped: EINVAL, as valgrind says.
    map_at_most: Option<usize>,
    map_writable: Option<i32>,
    file_system: Option<u64>,
    device: Option<u64>,
    mount_type: Option<&'static str>,
}

fn failing(error: Option<i32>) -> io::Result<()> {
    error.map_or(Ok(()), |error| Err(io::Error::from_raw_os_error(error)))
}

impl System for Lacking {
    fn open_unnamed(&self, directory: &Path) -> io::Result<File> {
        failing(self.open_unnamed)?;
        Linux.open_unnamed(directory)
    }
    fn link_unnamed(&self, file: &File, path: &Path) -> io::Result<()> {
        failing(self.link_unnamed)?;
        Linux.link_unnamed(file, path)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        failing(self.rename_new)?;
        Linux.rename_new(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        failing(self.link)?;
        Linux.link(from, to)
    }
    fn lock(&self, file: &File) -> io::Result<()> {
        failing(self.lock)?;
        Linux.lock(file)
    }
    fn try_lock(&self, file: &File) -> io::Result<bool> {
        failing(self.lock)?;
        Linux.try_lock(file)
    }
    fn enter_queue(&self, file: &File) -> io::Result<()> {
        failing(self.lock_byte)?;
        Linux.enter_queue(file)
    }
    fn try_enter_queue(&self, file: &File) -> io::Result<bool> {
        failing(self.lock_byte)?;
        Linux.try_enter_queue(file)
    }
    fn try_begin_sync(&self, file: &File) -> io::Result<bool> {
        failing(self.lock_byte)?;
        Linux.try_begin_sync(file)
    }
    fn map(&self, file: &File, length: usize) -> io::Result<MmapRaw> {
        failing(self.map)?;
        let too_much = self.map_at_most.is_some_and(|most| length > most);
        failing(too_much.then_some(libc::EINVAL))?;
        Linux.map(file, length)
    }
    fn map_writable(&self, file: &File, length: usize) -> io::Result<MmapRaw> {
        failing(self.map_writable)?;
        Linux.map_writable(file, length)
    }
    fn file_system(&self, file: &File) -> io::Result<u64> {
        self.file_system.map_or(Linux.file_system(file), Ok)
    }
    fn identity(&self, file: &File) -> io::Result<(u64, u64)> {
        let (device, inode) = Linux.identity(file)?;
        Ok((self.device.unwrap_or(device), inode))
    }
    fn mount_type(&self, device: u64) -> Option<String> {
        match self.device {
            Some(_) => self.mount_type.map(str::to_owned),
            None => Linux.mount_type(device),
        }
    }
}

fn on(system: Lacking) -> OpenOptions {
    OpenOptions {
        create: true,
        system: Arc::new(system),
        ..OpenOptions::default()
    }
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Some transactions, small and large ones; the store must do everything right.
fn use_it(path: &Path, options: &OpenOptions) {
    let store = Store::open(path, options).unwrap();
    let mut expected = Expected::default();
    for number in 0..12 {
        let durability = [Durability::Lazy, Durability::Durable][number as usize % 2];
        expected = run_transaction(&store, &expected, number, durability).unwrap();
    }
    let mut transaction = store.begin(Durability::Lazy).unwrap();
    for number in 0..20_000 {
        transaction
            .insert(IndexSlot::of::<9>(), &key(number), &[7; 8])
            .unwrap();
    }
    transaction.commit().unwrap();
    let mut transaction = store.begin(Durability::Lazy).unwrap();
    for number in 20_000..20_200 {
        transaction
            .insert(IndexSlot::of::<9>(), &key(number), &[7; 8])
            .unwrap();
    }
    transaction.commit().unwrap();
    store.verify().unwrap();
    assert_eq!(
        store.snapshot().unwrap().count(IndexSlot::of::<9>()),
        20_200
    );
}

/// Made by many at once, on each of the roads by which it can be made.
#[test]
fn created_without_unnamed_files_links_or_renaming() {
    let no = Some(libc::EOPNOTSUPP);
    for system in [
        Lacking::default(),
        Lacking {
            open_unnamed: no,
            ..Lacking::default()
        },
        Lacking {
            link_unnamed: Some(libc::ENOENT),
            ..Lacking::default()
        },
        Lacking {
            open_unnamed: no,
            rename_new: Some(libc::EINVAL),
            ..Lacking::default()
        },
        Lacking {
            link_unnamed: Some(libc::EPERM),
            rename_new: Some(libc::ENOSYS),
            ..Lacking::default()
        },
        Lacking {
            open_unnamed: no,
            link: Some(libc::EPERM),
            ..Lacking::default()
        },
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("made.repo");
        let options = on(system);
        let stores: Vec<_> = std::thread::scope(|scope| {
            let threads = [(); 8].map(|()| scope.spawn(|| Store::open(&path, &options).unwrap()));
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert!(stores.iter().all(|store| store.uuid() == stores[0].uuid()));
        assert_eq!(names_in(directory.path()), ["made.repo"]);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        use_it(&path, &options);
    }
}

#[test]
fn where_nothing_can_be_created_safely_nothing_is() {
    let directory = tempfile::tempdir().unwrap();
    let options = on(Lacking {
        open_unnamed: Some(libc::EOPNOTSUPP),
        rename_new: Some(libc::EINVAL),
        link: Some(libc::EPERM),
        ..Lacking::default()
    });
    let error = Store::open(directory.path().join("none.repo"), &options).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("none.repo: cannot create the repository: its file system can neither link"),
        "{error}"
    );
    assert!(names_in(directory.path()).is_empty());
}

#[test]
fn without_locks_one_can_read_and_not_write() {
    for number in [libc::ENOLCK, libc::EOPNOTSUPP, libc::ENOSYS] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("unlocked.repo");
        use_it(&path, &on(Lacking::default()));
        let options = on(Lacking {
            lock: Some(number),
            ..Lacking::default()
        });
        let store = Store::open(&path, &options).unwrap();
        assert_eq!(
            store.snapshot().unwrap().count(IndexSlot::of::<9>()),
            20_200
        );
        for error in [
            store.begin(Durability::Lazy).map(drop).unwrap_err(),
            store.sync().unwrap_err(),
            store.verify().unwrap_err(),
        ] {
            assert!(matches!(error, Error::FileSystem { .. }), "{error}");
            let error = error.to_string();
            assert!(
                error.contains("unlocked.repo: its file system has no locks (flock)"),
                "{error}"
            );
        }
        // What a lock is needed for to make it good again cannot be opened.
        let copy = directory.path().join("copy.repo");
        std::fs::copy(&path, &copy).unwrap();
        let error = Store::open(&copy, &options).unwrap_err();
        assert!(matches!(error, Error::FileSystem { .. }), "{error}");
    }
}

/// Who syncs then has the right to write for as long: one at a time all the same.
#[test]
fn without_locks_of_bytes_the_one_of_the_file_does() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bytes.repo");
    let options = on(Lacking {
        lock_byte: Some(libc::ENOLCK),
        ..Lacking::default()
    });
    use_it(&path, &options);
    let stores = [(); 2].map(|()| Store::open(&path, &options).unwrap());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &stores[thread % 2];
            scope.spawn(move || {
                for number in 0..20 {
                    let mut transaction = store.begin(Durability::Durable).unwrap();
                    let key = key((thread as u64 + 7) << 32 | number);
                    transaction
                        .insert(IndexSlot::of::<1>(), &key, &[3; 8])
                        .unwrap();
                    transaction.commit().unwrap();
                }
            });
        }
    });
    assert_eq!(
        stores[0].snapshot().unwrap().count(IndexSlot::of::<1>()),
        80
    );
    stores[0].sync().unwrap();
    stores[1].verify().unwrap();
}

#[test]
fn without_shared_mappings_there_is_no_repository() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("unmapped.repo");
    let options = on(Lacking {
        map: Some(libc::ENODEV),
        ..Lacking::default()
    });
    let error = Store::open(&path, &options).unwrap_err();
    assert!(matches!(error, Error::FileSystem { .. }), "{error}");
    let error = error.to_string();
    assert!(
        error.contains("unmapped.repo: its file system has no shared mappings"),
        "{error}"
    );
    // A lack of memory is not the file system's.
    let options = on(Lacking {
        map: Some(libc::ENOMEM),
        ..Lacking::default()
    });
    let error = Store::open(&path, &options).unwrap_err();
    assert!(matches!(error, Error::Io { action: "map", .. }), "{error}");
}

#[test]
fn where_little_can_be_mapped_little_is_reserved() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("little.repo");
    let options = on(Lacking {
        map_at_most: Some(1 << 30),
        ..Lacking::default()
    });
    use_it(&path, &options);
    assert_eq!(Store::open(&path, &options).unwrap().reserve(), 1 << 30);
}

#[test]
fn without_writable_mappings_words_are_written() {
    const EXT4: u64 = 0xef53;
    let directory = tempfile::tempdir().unwrap();
    let options = on(Lacking {
        map_writable: Some(libc::ENODEV),
        file_system: Some(EXT4),
        ..Lacking::default()
    });
    use_it(&directory.path().join("written.repo"), &options);
}

/// Another machine's writes need not be seen in a mapping: nothing is risked, and nothing left.
#[test]
fn file_systems_of_other_machines_are_refused() {
    for (file_system, name) in [
        (0x6969, "NFS"),
        (0xfe53_4d42, "SMB"),
        (0xff53_4d42, "CIFS"),
        (0x00c3_6400, "Ceph"),
        (0x0102_1997, "9p"),
        (0x0bd0_0bd0, "Lustre"),
        (0x4750_4653, "GPFS"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("far.repo");
        let options = on(Lacking {
            file_system: Some(file_system),
            ..Lacking::default()
        });
        for is_there in [false, true] {
            if is_there {
                Store::open(&path, &on(Lacking::default())).unwrap();
            }
            let error = Store::open(&path, &options).unwrap_err();
            assert!(matches!(error, Error::NotLocal { .. }), "{error}");
            let text = error.to_string();
            let start = format!("{}: its file system ({name}) is none", path.display());
            assert!(text.starts_with(&start), "{text}");
            assert!(text.contains("keep it on a local one"), "{text}");
            assert_eq!(names_in(directory.path()).len(), usize::from(is_there));
        }
    }
}

/// FUSE by what the mount table calls it, and what nobody knows by its device.
#[test]
fn file_systems_that_may_be_anything() {
    const FUSE: u64 = 0x6573_5546;
    let of = |file_system, device: (u32, u32), mount: Option<&'static str>| {
        let directory = tempfile::tempdir().unwrap();
        let options = on(Lacking {
            file_system: Some(file_system),
            device: Some(rustix::fs::makedev(device.0, device.1)),
            mount_type: mount,
            ..Lacking::default()
        });
        let path = directory.path().join("any.repo");
        let opened = Store::open(&path, &options).map(drop);
        if opened.is_ok() {
            use_it(&path, &options);
        }
        opened
    };
    of(FUSE, (8, 1), Some("fuseblk")).unwrap();
    of(FUSE, (0, 51), Some("fuse.fuse-overlayfs")).unwrap();
    // vfat.
    of(0x4d44, (8, 1), None).unwrap();
    for (error, name) in [
        (of(FUSE, (0, 51), Some("fuse.sshfs")), "fuse.sshfs"),
        (of(FUSE, (0, 51), None), "fuse"),
        (of(0x777, (0, 51), None), "number 0x777"),
        (of(0x777, (0, 51), Some("newfs")), "newfs"),
    ] {
        let error = error.unwrap_err().to_string();
        assert!(error.contains(&format!("({name})")), "{error}");
        assert!(error.contains("nothing is known"), "{error}");
    }
}

/// How a process ends that may not mount what it should.
const NOT_ALLOWED: i32 = 77;

fn not_allowed(error: &io::Error) -> ! {
    let _ = writeln!(io::stderr(), "{error}");
    std::process::exit(NOT_ALLOWED);
}

/// Runs [`mounted`] with a part of this file's tests where `mount` (a shell
/// script; `$PLACE` is an empty directory) has mounted something, which nobody
/// else sees. Where that is not allowed it says so.
fn in_mounts(name: &str, mount: &str) {
    let place = tempfile::tempdir().unwrap();
    // SAFETY: a plain system call.
    let root = unsafe { libc::geteuid() } == 0;
    let script = format!(
        "{{ {mount} }} >&2 || exit {NOT_ALLOWED}; exec \"$TEST\" --exact mounted --nocapture --test-threads=1"
    );
    let output = Command::new("unshare")
        .args(if root {
            &["--mount"][..]
        } else {
            &["--mount", "--map-root-user"]
        })
        .args(["sh", "-c", &script])
        .env("TEST", std::env::current_exe().unwrap())
        .env("PLACE", place.path())
        .env("MOUNTED", name)
        .output();
    let (status, text) = match &output {
        Ok(output) => (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr),
        ),
        Err(error) => (None, error.to_string().into()),
    };
    // 1 is unshare's own; a test that fails exits with 101.
    if output.is_err() || matches!(status, Some(1 | NOT_ALLOWED)) {
        let line = format!(
            "{name}: cannot mount: {}\n",
            text.trim().replace('\n', "; ")
        );
        let _ = write!(io::stderr(), "skipped {line}");
        if let Some(list) = std::env::var_os("REPO_TESTS_SKIPPED") {
            let list = std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(list);
            let _ = list.and_then(|mut list| list.write_all(line.as_bytes()));
        }
        return;
    }
    assert_eq!(status, Some(0), "{name}: {text}");
}

#[test]
fn on_a_small_tmpfs() {
    in_mounts("full", "mount -t tmpfs -o size=4m none \"$PLACE\";");
}

#[test]
fn on_a_small_ext4() {
    let mount = "mount -t tmpfs none \"$PLACE\" && cd \"$PLACE\" && truncate -s 16m image && mkdir in \
        && mkfs.ext4 -q image && mount -o loop image in && export PLACE=\"$PLACE/in\";";
    in_mounts("full", mount);
}

/// A file system on a disk that takes no more, though to the file system there is room (thin
/// provisioning): so real syncs fail.
fn on_a_thin_disk(make: &str, option: &str) {
    let mount = "mount -t tmpfs -o size=160m none \"$PLACE\" && cd \"$PLACE\" && truncate -s 400m image && mkdir in \
        && MAKE image && mount -o loop,OPTION image in && export PLACE=\"$PLACE/in\";";
    let mount = mount.replace("MAKE", make).replace("OPTION", option);
    in_mounts("thin", &mount);
}

const MAKE_EXT4: &str = "mkfs.ext4 -q -O ^has_journal -E lazy_itable_init=0,nodiscard";

/// What is written again gets to the disk.
#[test]
fn on_a_thin_ext4_that_writes_again() {
    on_a_thin_disk(MAKE_EXT4, "dioread_lock");
}

/// It does not (with Linux 6.18), and nobody is told.
#[test]
fn on_a_thin_ext4_that_does_not() {
    on_a_thin_disk(MAKE_EXT4, "dioread_nolock");
}

#[test]
fn on_a_thin_xfs() {
    on_a_thin_disk("mkfs.xfs -q -K", "rw");
}

/// Where words are written, not stored.
#[test]
fn on_a_small_xfs_and_btrfs() {
    for (make, size) in [("mkfs.xfs -q -K", "300m"), ("mkfs.btrfs -q -K", "120m")] {
        let mount = "mount -t tmpfs none \"$PLACE\" && cd \"$PLACE\" && truncate -s SIZE image && mkdir in \
            && MAKE image && mount -o loop image in && export PLACE=\"$PLACE/in\";";
        in_mounts("plain", &mount.replace("SIZE", size).replace("MAKE", make));
    }
}

#[test]
fn on_a_ramfs() {
    in_mounts("plain", "mount -t ramfs none \"$PLACE\";");
}

/// A file system of which nobody knows what is behind it, as a user's home.
#[test]
fn on_a_fuse() {
    in_mounts("fuse", "test -c /dev/fuse;");
}

#[test]
fn on_an_overlay() {
    let mount = "mount -t tmpfs none \"$PLACE\" && cd \"$PLACE\" && mkdir lower upper work both \
        && cp \"$GOLDEN\" lower/below.repo \
        && mount -t overlay none -o lowerdir=lower,upperdir=upper,workdir=work both && export PLACE=\"$PLACE/both\";";
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/engine-v5.bin");
    in_mounts("overlay", &mount.replace("$GOLDEN", golden));
}

#[test]
fn on_what_is_mounted_for_reading_only() {
    let mount = "mount -t tmpfs none \"$PLACE\" && cp \"$GOLDEN\" \"$PLACE/below.repo\" \
        && mount -o remount,ro \"$PLACE\";";
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/engine-v5.bin");
    in_mounts("read-only", &mount.replace("$GOLDEN", golden));
}

/// Not a test of its own: what runs in the mounts of the others.
#[test]
fn mounted() {
    let (Some(place), Ok(name)) = (std::env::var_os("PLACE"), std::env::var("MOUNTED")) else {
        return;
    };
    let place = PathBuf::from(place);
    if name == "fuse" {
        fuse::serve(&place);
    }
    let outside = place.parent().unwrap().metadata().unwrap().dev();
    assert_ne!(
        place.metadata().unwrap().dev(),
        outside,
        "nothing is mounted"
    );
    let below = place.join("below.repo");
    let session = |boot| options(TestSystem::new(boot));
    match name.as_str() {
        "fuse" => a_home_that_is_not_local(&place),
        "plain" => use_it(&place.join("plain.repo"), &on(Lacking::default())),
        "full" => until_it_is_full(&place.join("full.repo")),
        "thin" => what_failed_is_written_again(&place),
        "overlay" => {
            use_it(&place.join("above.repo"), &on(Lacking::default()));
            // A reader of the file below, which a writer then has copied up.
            let mut reading = session(1);
            reading.read_only = true;
            let reader = Store::open(&below, &reading).unwrap();
            let before = reader.snapshot().unwrap().revision();
            let store = Store::open(&below, &session(1)).unwrap();
            let mut transaction = store.begin(Durability::Durable).unwrap();
            transaction
                .insert(IndexSlot::of::<9>(), &key(1), b"above")
                .unwrap();
            let revision = transaction.commit().unwrap();
            // The reader may go on seeing what was below, and it is whole.
            let seen = reader.snapshot().unwrap();
            assert!([before, revision].contains(&seen.revision()));
            assert_eq!(
                seen.get(IndexSlot::of::<3>(), &key(0))
                    .unwrap()
                    .unwrap()
                    .value,
                b"first"
            );
            let again = Store::open(&below, &reading).unwrap();
            assert_eq!(again.snapshot().unwrap().revision(), revision);
            again.verify().unwrap();
        }
        "read-only" => {
            let error = Store::open(&below, &session(1)).unwrap_err();
            assert!(matches!(error, Error::Io { action: "open", .. }), "{error}");
            let error = Store::open(place.join("new.repo"), &session(1)).unwrap_err();
            assert!(
                error.to_string().contains("cannot create the repository"),
                "{error}"
            );
            // Also after a restart, as nothing was lost.
            for boot in [1, 2] {
                let mut reading = session(boot);
                reading.read_only = true;
                let store = Store::open(&below, &reading).unwrap();
                let snapshot = store.snapshot().unwrap();
                assert_eq!(
                    snapshot
                        .get(IndexSlot::of::<3>(), &key(0))
                        .unwrap()
                        .unwrap()
                        .value,
                    b"first"
                );
                store.verify().unwrap();
            }
        }
        other => panic!("no such part: {other}"),
    }
}

/// A disk that is really full: an error, and what was there stays.
fn until_it_is_full(path: &Path) {
    let store = Store::open(path, &on(Lacking::default())).unwrap();
    let fill = |store: &Store, round: u64| -> Result<u64, Error> {
        let durability = [Durability::Lazy, Durability::Durable][round as usize % 2];
        let mut transaction = store.begin(durability)?;
        for record in 0..300 {
            transaction.insert(
                IndexSlot::of::<0>(),
                &key(round << 16 | record),
                &[round as u8; 200],
            )?;
        }
        transaction.commit()
    };
    let mut done = 0;
    let error = loop {
        match fill(&store, done) {
            Ok(_) => done += 1,
            Err(error) => break error,
        }
        assert!(done < 1000, "it is not small");
    };
    assert!(done > 10, "only {done} rounds fit");
    let Error::Io { source, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(source.raw_os_error(), Some(libc::ENOSPC), "{error}");
    // Again and again; nothing of it is seen, by nobody.
    for _ in 0..3 {
        fill(&store, done).unwrap_err();
    }
    for store in [&store, &Store::open(path, &on(Lacking::default())).unwrap()] {
        let snapshot = store.snapshot().unwrap();
        assert_eq!(snapshot.count(IndexSlot::of::<0>()), done * 300);
        for round in 0..done {
            let record = snapshot
                .get(IndexSlot::of::<0>(), &key(round << 16 | 299))
                .unwrap()
                .unwrap();
            assert_eq!(record.value, [round as u8; 200]);
        }
        store.verify().unwrap();
    }
    let error = Store::open(path.with_extension("other"), &on(Lacking::default()));
    if let Err(error) = error {
        assert!(
            error.to_string().contains("cannot create the repository"),
            "{error}"
        );
    }
}

/// Real syncs that fail, on an ext4 at `place` whose disk is a file in the directory above.
fn what_failed_is_written_again(place: &Path) {
    let path = place.join("thin.repo");
    let store = Store::open(&path, &on(Lacking::default())).unwrap();
    let mut expected = Expected::default();
    for number in 0..5 {
        expected = run_transaction(&store, &expected, number, Durability::Durable).unwrap();
    }
    let commit = |store: &Store, number: u64, durability| {
        let mut transaction = store.begin(durability).unwrap();
        for record in 0..100 {
            let key = key(number << 16 | record);
            transaction.insert(IndexSlot::of::<0>(), &key, &[number as u8; 3000])?;
        }
        transaction.commit()
    };
    // Nothing more comes onto the disk.
    let filler = place.parent().unwrap().join("filler");
    let mut file = File::create(&filler).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    // What it has room for it still takes.
    let mut numbers = 0..;
    let mut error = loop {
        let number = numbers.next().unwrap();
        assert!(number < 1000, "it is not full");
        if let Err(error) = commit(&store, number, Durability::Durable) {
            break error;
        }
    };
    for _ in 0..2 {
        let Error::NotDurable { source, .. } = &error else {
            panic!("{error}");
        };
        assert!(
            matches!(&**source, Error::Io { action: "sync", .. }),
            "{error}"
        );
        commit(&store, numbers.next().unwrap(), Durability::Lazy).unwrap();
        let next = commit(&store, numbers.next().unwrap(), Durability::Durable);
        error = next.unwrap_err();
    }
    // Now it does again: for this process, and for one that comes later. Only what was
    // written again must also get there.
    drop(file);
    std::fs::remove_file(&filler).unwrap();
    drop(store);
    let store = Store::open(&path, &on(Lacking::default())).unwrap();
    let mut path = path;
    let last = numbers.next().unwrap();
    let revision = match commit(&store, last, Durability::Durable) {
        Ok(revision) => revision,
        Err(Error::NotDurable {
            revision, source, ..
        }) => {
            assert!(matches!(*source, Error::NotOnDisk { .. }), "{source}");
            let error = store.sync().unwrap_err();
            assert!(matches!(error, Error::NotOnDisk { .. }), "{error}");
            let copy = path.with_extension("copy");
            std::fs::copy(&path, &copy).unwrap();
            path = copy;
            revision
        }
        Err(error) => panic!("{error}"),
    };
    drop(store);
    Store::open(&path, &on(Lacking::default()))
        .unwrap()
        .sync()
        .unwrap();
    // Out of the kernel's memory, and read from the disk.
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        let status = command.args(arguments).current_dir("/").status();
        assert!(status.unwrap().success(), "{program}");
    };
    let image = place.parent().unwrap().join("image");
    run("umount", &[place.to_str().unwrap()]);
    let (image, place) = (image.to_str().unwrap(), place.to_str().unwrap());
    run("mount", &["-o", "loop", image, place]);
    // As it is, and as after a power cut.
    for system in [Arc::new(Linux) as Arc<dyn System>, TestSystem::new(77)] {
        let options = OpenOptions {
            system,
            ..OpenOptions::default()
        };
        let store = Store::open(&path, &options).unwrap();
        let snapshot = store.snapshot().unwrap();
        assert_eq!(snapshot.revision(), revision);
        store.verify().unwrap();
        expected.check(snapshot);
        for number in 0..=last {
            for record in 0..100 {
                let key = key(number << 16 | record);
                let found = snapshot.get(IndexSlot::of::<0>(), &key).unwrap();
                assert_eq!(found.unwrap().value, [number as u8; 3000]);
            }
        }
    }
}

/// Nothing is made there, and the user's own repository is elsewhere.
fn a_home_that_is_not_local(home: &Path) {
    let error = Store::open(home.join("new.repo"), &on(Lacking::default())).unwrap_err();
    assert!(matches!(error, Error::NotLocal { .. }), "{error}");
    assert!(error.to_string().contains("(fuse)"), "{error}");
    let other = tempfile::tempdir().unwrap();
    std::fs::set_permissions(other.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    let environment = Environment {
        home: Some(home.into()),
        shared: Some(other.path().to_owned()),
        ..Environment::default()
    };
    for times in [1, 0] {
        let mut said = 0;
        let opened = locate::open(
            None,
            Some(&other.path().join("x.o")),
            &environment,
            &on(Lacking::default()),
            &mut |_| said += 1,
        );
        assert!(opened.unwrap().path().starts_with(other.path()));
        assert_eq!(said, times);
    }
}

/// A file system in user space: an empty directory (linux/fuse.h).
mod fuse {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    /// Mounts it, and answers for as long as this process lives. Where that is not allowed,
    /// the process ends as a mount that is not allowed does.
    pub fn serve(place: &Path) {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let device = device.unwrap_or_else(|error| super::not_allowed(&error));
        let options = format!(
            "fd={},rootmode=40755,user_id={},group_id={}\0",
            device.as_raw_fd(),
            rustix::process::getuid().as_raw(),
            rustix::process::getgid().as_raw(),
        );
        let target = [place.as_os_str().as_bytes(), b"\0"].concat();
        // SAFETY: a system call that reads these strings, which end with zeros.
        let mounted = unsafe {
            libc::mount(
                c"none".as_ptr(),
                target.as_ptr().cast(),
                c"fuse".as_ptr(),
                libc::MS_NOSUID | libc::MS_NODEV,
                options.as_ptr().cast(),
            )
        };
        if mounted != 0 {
            super::not_allowed(&std::io::Error::last_os_error());
        }
        std::thread::spawn(move || answer(device));
    }

    fn answer(mut device: File) {
        const INIT: u32 = 26;
        const GETATTR: u32 = 3;
        const STATFS: u32 = 17;
        const NOTHING_TO_ANSWER: [u32; 2] = [2, 42];
        let mut request = vec![0; 64 << 10];
        while let Ok(length) = device.read(&mut request) {
            let request = &request[..length];
            let word = |at: usize| u32::from_le_bytes(request[at..at + 4].try_into().unwrap());
            let operation = word(4);
            if NOTHING_TO_ANSWER.contains(&operation) {
                continue;
            }
            let body = match operation {
                // Version 7.31.
                INIT => Ok(words(&[(0, 7), (1, 31), (5, 4096)], 64)),
                // Inode 1, a directory of root's, with two links.
                GETATTR => Ok(words(&[(4, 1), (19, 0o40755), (20, 2)], 104)),
                STATFS => Ok(words(&[(10, 4096), (11, 255), (12, 4096)], 80)),
                // LOOKUP
                1 => Err(-libc::ENOENT),
                _ => Err(-libc::ENOSYS),
            };
            let (error, body) = match body {
                Ok(body) => (0, body),
                Err(error) => (error, Vec::new()),
            };
            let length = 16 + body.len() as u32;
            let mut answer = [length.to_le_bytes(), error.to_le_bytes()].concat();
            answer.extend_from_slice(&request[8..16]);
            answer.extend(body);
            // Who was interrupted does not wait for it.
            let _ = device.write(&answer);
        }
    }

    /// So many bytes, with these words of 4.
    fn words(known: &[(usize, u32)], length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        for (place, word) in known {
            bytes[place * 4..place * 4 + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}
