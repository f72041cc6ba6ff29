//! What is in files and directories, and how not to read them again.
//!
//! The digest of a file is remembered under its device, inode, size and both of its times; so is that of a directory's entries. The time of
//! change cannot be set, so what has the same times has the same bytes, unless it was changed again within the clock's
//! step: so nothing is remembered of what was changed in the last two seconds.
//!
//! The memory is a table that is mapped by all processes at once, without a lock: an entry has a check, and one that two processes
//! write at once is none.

use super::comments::{self, Keeps};
use super::shared::{Words, hash};
use format_spec::digest::Digest;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

const FILE_NAME: &str = "inputs-1";
/// Entries of one bucket.
const WAYS: usize = 4;
const BUCKETS: usize = 1 << 14;
/// Words of an entry: what it is of (5), digest (4), check.
const ENTRY: usize = 10;
/// What was changed so shortly before cannot be told from what is changed now.
const SETTLED: u64 = 2_000_000_000;

/// What tells two states of a file or directory apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State([u64; 5]);

/// Which state of this program runs: another one may find something else.
pub fn own_program() -> Option<[u64; 5]> {
    let program = fs::metadata("/proc/self/exe").ok()?;
    Some(State::of(&program).words())
}

impl State {
    /// Its words: device, inode, size, time of modification, time of change.
    pub fn words(&self) -> [u64; 5] {
        self.0
    }

    /// What stands for this state where it is about the text without comments. (No device has such a number.)
    fn without_comments(self, keeps: Keeps) -> State {
        let State(mut words) = self;
        words[0] |= match keeps {
            Keeps::Order => 1 << 62,
            Keeps::Places => 1 << 63,
        };
        State(words)
    }

    /// The state that `metadata` is of.
    pub fn of(metadata: &Metadata) -> State {
        State([
            metadata.dev(),
            metadata.ino(),
            metadata.size(),
            nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed(metadata),
        ])
    }
}

fn nanoseconds(seconds: i64, rest: i64) -> u64 {
    (seconds as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(rest as u64)
}

/// When the file was changed last, in nanoseconds since 1970.
pub fn changed(metadata: &Metadata) -> u64 {
    nanoseconds(metadata.ctime(), metadata.ctime_nsec())
}

/// When the file was written last, or what is in the directory was, in nanoseconds since 1970.
pub fn written(metadata: &Metadata) -> u64 {
    nanoseconds(metadata.mtime(), metadata.mtime_nsec())
}

/// The time as file systems take it for their files: what is changed from now on has this time or a later one.
pub fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a value that is filled in.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &mut time) };
    nanoseconds(time.tv_sec, time.tv_nsec)
}

/// The memory, and the time from which on changes are too new.
pub struct Inputs {
    words: Option<Words>,
}

impl Inputs {
    /// Opens the memory in `directory`. Where there can be none, everything is read.
    pub fn open(directory: Option<&Path>) -> Inputs {
        let count = WAYS * BUCKETS * ENTRY;
        Inputs {
            words: directory.and_then(|directory| Words::open(directory, FILE_NAME, count).ok()),
        }
    }

    fn bucket(&self, state: &State) -> Option<&[std::sync::atomic::AtomicU64]> {
        let hash = super::shared::hash(bytemuck::bytes_of(&[state.0[0], state.0[1]]));
        let at = hash as usize % BUCKETS * WAYS * ENTRY;
        self.words.as_ref()?.words().get(at..at + WAYS * ENTRY)
    }

    /// What is remembered of a state.
    fn known(&self, state: &State) -> Option<Digest> {
        self.bucket(state)?.chunks_exact(ENTRY).find_map(|entry| {
            if entry[1].load(Relaxed) != state.0[1] || entry[4].load(Relaxed) != state.0[4] {
                return None;
            }
            let words: [u64; ENTRY] = std::array::from_fn(|at| entry[at].load(Relaxed));
            let is_whole = words[..5] == state.0 && check(&words) == words[ENTRY - 1];
            is_whole.then(|| Digest(bytemuck::cast([words[5], words[6], words[7], words[8]])))
        })
    }

    fn remember(&self, state: &State, digest: &Digest) {
        let Some(bucket) = self.bucket(state) else {
            return;
        };
        let entries = || bucket.chunks_exact(ENTRY);
        let is_same = |entry: &&[std::sync::atomic::AtomicU64]| {
            entry[0].load(Relaxed) == state.0[0] && entry[1].load(Relaxed) == state.0[1]
        };
        let place = entries()
            .find(is_same)
            .or_else(|| entries().find(|entry| entry[ENTRY - 1].load(Relaxed) == 0))
            .or_else(|| entries().nth(state.0[4] as usize / 1000 % WAYS));
        let Some(place) = place else {
            return;
        };
        let mut words = [0; ENTRY];
        words[..5].copy_from_slice(&state.0);
        words[5..9].copy_from_slice(&bytemuck::cast::<_, [u64; 4]>(digest.0));
        words[ENTRY - 1] = check(&words);
        for (to, word) in place.iter().zip(words) {
            to.store(word, Relaxed);
        }
    }

    /// The digest of a file's bytes, if it is remembered. `metadata` is the file's.
    pub fn remembered(&self, metadata: &Metadata) -> Option<Digest> {
        self.known(&State::of(metadata))
    }

    /// The digest of a file's bytes; `None` if it cannot be read. `metadata` is the file's.
    pub fn file(&self, path: &Path, metadata: &Metadata) -> Option<Digest> {
        let state = State::of(metadata);
        if let Some(known) = self.known(&state) {
            return Some(known);
        }
        let (digest, _) = self.read(path, metadata)?;
        Some(digest)
    }

    /// The digest of a file's bytes, and these bytes; `None` if it is not a regular file, or is another one by now.
    pub fn read(&self, path: &Path, metadata: &Metadata) -> Option<(Digest, Vec<u8>)> {
        if !metadata.is_file() {
            return None;
        }
        let before = now();
        let state = State::of(metadata);
        let mut file = File::open(path).ok()?;
        let mut bytes = vec![0; usize::try_from(metadata.size()).ok()?];
        file.read_exact(&mut bytes).ok()?;
        // Files that the kernel makes up have more bytes than they say.
        let is_all = file.read(&mut [0]).is_ok_and(|more| more == 0);
        if !is_all || State::of(&file.metadata().ok()?) != state {
            return None;
        }
        if let Some(known) = self.known(&state) {
            return Some((known, bytes));
        }
        let digest = Digest::of(&bytes);
        if state.0[4].saturating_add(SETTLED) < before {
            self.remember(&state, &digest);
        }
        Some((digest, bytes))
    }

    /// The digest of a source's text without comments; `None` if it cannot be read, or has none. `metadata` is the file's.
    pub fn rest(&self, path: &Path, metadata: &Metadata, keeps: Keeps) -> Option<Digest> {
        if let Some(known) = self.known(&State::of(metadata).without_comments(keeps)) {
            return Some(known);
        }
        let before = now();
        let (_, text) = self.read(path, metadata)?;
        self.rest_of(metadata, &text, keeps, before)
    }

    /// The same for a file in the state that `metadata` is of, whose bytes are `text`; they were read after `before`.
    pub fn rest_of(
        &self,
        metadata: &Metadata,
        text: &[u8],
        keeps: Keeps,
        before: u64,
    ) -> Option<Digest> {
        let state = State::of(metadata).without_comments(keeps);
        if let Some(known) = self.known(&state) {
            return Some(known);
        }
        let digest = comments::digest(text, keeps)?;
        if state.0[4].saturating_add(SETTLED) < before {
            self.remember(&state, &digest);
        }
        Some(digest)
    }

    /// The digest of a directory's entries; `None` if it cannot be read.
    pub fn listing(&self, path: &Path, metadata: &Metadata) -> Option<Digest> {
        let before = now();
        let state = State::of(metadata);
        if let Some(known) = self.known(&state) {
            return Some(known);
        }
        let digest = list(path).ok()?.digest();
        let settled = state.0[4].saturating_add(SETTLED) < before;
        if settled && fs::metadata(path).is_ok_and(|after| State::of(&after) == state) {
            self.remember(&state, &digest);
        }
        Some(digest)
    }
}

fn check(words: &[u64; ENTRY]) -> u64 {
    // Zero is an entry that was never written.
    hash(bytemuck::bytes_of(
        <&[u64; 9]>::try_from(&words[..9]).expect("nine of ten"),
    )) | 1
}

/// What an entry of a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A directory.
    Directory,
    /// A symbolic link, wherever it leads.
    Link,
    /// Anything else.
    File,
}

/// The entries of a directory.
#[derive(Debug, Default)]
pub struct Listing {
    /// Sorted by name.
    entries: Vec<(Vec<u8>, Entry)>,
}

/// Ends of names that come and go while a build runs. (SPEC.md, section 27, lists them.)
const PASSING: [&[u8]; 7] = [b".o", b".d", b".a", b".lo", b".la", b".so", b".gch"];

/// Whether the digest of a listing says nothing of this name.
pub fn is_passing(name: &[u8]) -> bool {
    PASSING.iter().any(|end| name.ends_with(end)) || name.starts_with(b".repo-")
}

/// Reads a directory.
///
/// # Errors
/// If that cannot be.
pub fn list(path: &Path) -> io::Result<Listing> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let kind = match () {
            () if kind.is_dir() => Entry::Directory,
            () if kind.is_symlink() => Entry::Link,
            () => Entry::File,
        };
        entries.push((entry.file_name().into_vec(), kind));
    }
    entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(Listing { entries })
}

impl Listing {
    /// The entry of this name.
    pub fn get(&self, name: &[u8]) -> Option<Entry> {
        let at = self
            .entries
            .binary_search_by(|(known, _)| known.as_slice().cmp(name));
        at.ok().map(|at| self.entries[at].1)
    }

    /// The digest of all entries but those that come and go.
    pub fn digest(&self) -> Digest {
        let mut hasher = blake3::Hasher::new();
        for (name, kind) in &self.entries {
            if !is_passing(name) {
                hasher.update(name);
                hasher.update(match kind {
                    Entry::Directory => b"\0d",
                    Entry::Link => b"\0l",
                    Entry::File => b"\0f",
                });
            }
        }
        Digest(*hasher.finalize().as_bytes())
    }
}

/// Bytes as a path.
pub fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    fn older(path: &Path) -> Metadata {
        // Only the time of modification can be set; the table is asked to believe the other one.
        let time = SystemTime::now() - Duration::from_secs(100);
        File::open(path)
            .expect("there")
            .set_modified(time)
            .expect("set");
        fs::metadata(path).expect("there")
    }

    #[test]
    fn digests_are_remembered_by_state() {
        let dir = tempfile::tempdir().expect("a directory");
        let inputs = Inputs::open(Some(dir.path()));
        let file = dir.path().join("a.h");
        fs::write(&file, "one").expect("written");
        let metadata = older(&file);
        // What was changed just now is read each time.
        assert_eq!(inputs.file(&file, &metadata), Some(Digest::of(b"one")));
        assert_eq!(inputs.known(&State::of(&metadata)), None);
        let state = State::of(&metadata);
        inputs.remember(&state, &Digest::of(b"two"));
        assert_eq!(inputs.file(&file, &metadata), Some(Digest::of(b"two")));
        // So does another process.
        let other = Inputs::open(Some(dir.path()));
        assert_eq!(other.known(&state), Some(Digest::of(b"two")));
        for at in 0..5 {
            let mut changed = state;
            changed.0[at] ^= 1;
            assert_eq!(other.known(&changed), None, "{at}");
        }
        // Half written: none.
        let bucket = inputs.bucket(&state).expect("mapped");
        let entry = bucket
            .chunks_exact(ENTRY)
            .find(|entry| entry[1].load(Relaxed) == state.0[1]);
        entry.expect("there")[6].store(7, Relaxed);
        assert_eq!(other.known(&state), None);
        let nowhere = Inputs::open(None);
        assert_eq!(nowhere.file(&file, &metadata), Some(Digest::of(b"one")));
        // A file that has more bytes than its size says.
        let (made_up, size) = (Path::new("/proc/version"), |it: &Metadata| it.size());
        let metadata = fs::metadata(made_up).expect("there");
        assert_eq!(
            (size(&metadata), nowhere.file(made_up, &metadata)),
            (0, None)
        );
        // A file that is another one by now.
        fs::write(&file, "longer").expect("written");
        assert_eq!(nowhere.file(&file, &metadata), None);
    }

    #[test]
    fn texts_without_comments_are_remembered_apart() {
        let dir = tempfile::tempdir().expect("a directory");
        let inputs = Inputs::open(Some(dir.path()));
        let file = dir.path().join("a.h");
        fs::write(&file, "int a; // x\n\nint b;\n").expect("written");
        let metadata = fs::metadata(&file).expect("there");
        let of = |keeps| inputs.rest(&file, &metadata, keeps);
        let (order, places) = (of(Keeps::Order), of(Keeps::Places));
        assert_eq!(order, Some(Digest::of(b"int a;\nint b;\n")));
        assert_eq!(places, Some(Digest::of(b"int a;\n\nint b;\n")));
        // (Just written: nothing is remembered.)
        let state = State::of(&metadata);
        for (keeps, text) in [(Keeps::Order, "order"), (Keeps::Places, "places")] {
            let digest = Digest::of(text.as_bytes());
            inputs.remember(&state.without_comments(keeps), &digest);
            assert_eq!(of(keeps), Some(digest));
        }
        assert_eq!(inputs.known(&state), None);
    }

    #[test]
    fn full_buckets_forget() {
        let dir = tempfile::tempdir().expect("a directory");
        let inputs = Inputs::open(Some(dir.path()));
        let digest = Digest::of(b"");
        for inode in 0..200_000 {
            inputs.remember(&State([1, inode, 2, 3, inode * 5000]), &digest);
        }
        let known = (0..200_000)
            .filter(|inode| inputs.known(&State([1, *inode, 2, 3, inode * 5000])) == Some(digest));
        let known = known.count();
        assert!((50_000..=WAYS * BUCKETS).contains(&known), "{known}");
    }

    #[test]
    fn listings_see_what_comes_and_of_what_kind_it_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        let digest = || list(dir.path()).expect("readable").digest();
        fs::write(at("a.h"), "").expect("written");
        let first = digest();
        fs::write(at("a.o"), "").expect("written");
        fs::write(at(".repo-cc-x"), "").expect("written");
        assert_eq!(digest(), first);
        fs::write(at("b"), "").expect("written");
        let second = digest();
        assert_ne!(second, first);
        fs::remove_file(at("b")).expect("removed");
        assert_eq!(digest(), first);
        fs::create_dir(at("b")).expect("made");
        assert!(digest() != second && digest() != first);
        let listing = list(dir.path()).expect("readable");
        assert_eq!(listing.get(b"b"), Some(Entry::Directory));
        assert_eq!(listing.get(b"a.h"), Some(Entry::File));
        assert_eq!(listing.get(b"c"), None);
    }
}
