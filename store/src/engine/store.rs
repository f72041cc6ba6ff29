//! An open repository file: its state, its locks, and publication.

use super::create::{create, directory_of, header_checksum, write_empty};
use super::error::{Error, Fault, Result};
use super::file_system::{self, Use, check_directory};
use super::lock::Turn;
use super::log::{self, trailer_at};
use super::map::{Mapping, View, WordWriter};
use super::patience::Patience;
use super::replay::Additions;
use super::snapshot::Snapshot;
use super::sync::{AtomicU64, Mutex, Word};
use super::system::{Linux, System};
use super::transaction::{Durability, Spare, Transaction};
use super::trust::{self, Trust};
use super::update;
use bytemuck::Zeroable;
use format_spec::file::{
    BYTE_ORDER, Features, FileHeader, FileState, LOG_OFFSET, MAGIC, MAX_ADDRESS, STATE_OFFSET,
    StateWord, VERSION,
};
use format_spec::ids::Address;
use format_spec::trailer::{MIN_TRAILER_SIZE, Trailer};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// A huge page of x86-64, in bytes; see [`FLUSH_AT`](super::transaction).
pub(super) const HUGE_PAGE: u64 = 2 << 20;

/// How to open a repository.
#[derive(Clone)]
pub struct OpenOptions {
    /// Make the repository if there is none.
    pub create: bool,
    /// Open for reading only: [`Store::begin`] will fail.
    pub read_only: bool,
    /// Address space to reserve, in bytes: how far the file can grow before it
    /// must be opened anew.
    pub reserve: u64,
    /// Whenever the file has grown by so many bytes, the commit that brought it there
    /// waits for the disk, when others may write again, and moves the checkpoint.
    /// Recovery after a power cut reads about twice as much at most, and the tables.
    /// It costs a sync of the whole file: a durable commit else syncs only what was
    /// added, a lazy one nothing.
    pub checkpoint_every: u64,
    /// The UUID that the repository gets if it is made; a random one without. For
    /// a file that is to take the place of another one (a compaction).
    pub uuid: Option<[u8; 16]>,
    /// How the path became known, and so whose the file must be.
    pub trust: Trust,
    /// When a wait for another writer is told of, and when it ends; without one it lasts
    /// as long as the other one has the lock.
    pub patience: Option<Patience>,
    /// The operating system.
    pub system: Arc<dyn System>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            create: false,
            read_only: false,
            reserve: 1 << 40,
            checkpoint_every: 64 << 20,
            uuid: None,
            trust: Trust::Named,
            patience: None,
            system: Arc::new(Linux),
        }
    }
}

/// A repository file, open.
///
/// Any number of stores, in any number of processes, can have the same file
/// open. A store can be shared between threads.
pub struct Store {
    path: PathBuf,
    /// The same, whatever the working directory.
    absolute_path: PathBuf,
    file: File,
    /// The file has no name, or not the one that it will have: it cannot be replaced.
    is_nameless: bool,
    /// Device and inode number.
    identity: (u64, u64),
    mapping: Mapping,
    header: FileHeader,
    /// What the file's state says of the present session: boot id, device and inode.
    session: [u64; 4],
    /// What was visible when the file was opened; see [`doubt`](super::doubt).
    opened: u64,
    system: Arc<dyn System>,
    patience: Option<Patience>,
    read_only: bool,
    checkpoint_every: u64,
    words: Use,
    /// Made by the first commit; `None` where words must be written.
    word_writer: OnceLock<Option<WordWriter>>,
    /// Threads of this process that share the store wait here: to the kernel
    /// they are one owner of the file's lock.
    turn: Mutex<Turn>,
    /// And here for the disk.
    sync_turn: Mutex<()>,
    /// The memory of the last transaction.
    spare: Mutex<Option<Spare>>,
    /// The file is at least this long: it never shrinks.
    known_length: AtomicU64,
    /// Offset of a trailer whose checksum was found right.
    checked_trailer: AtomicU64,
    /// Where the generator of nonces is: a system call for each would cost as
    /// much as the lock.
    nonces: AtomicU64,
    /// What readers have made of records whose values are not as they are used, by the records' addresses: it is borrowed as
    /// what is in the file is.
    made: elsa::sync::FrozenMap<Address, Box<[u64]>>,
}

impl Store {
    /// Opens the repository at `path`.
    ///
    /// Costs a few system calls, whatever the size of the repository; but the
    /// first to open it for writing after a restart of the system checks all
    /// that was written since the last checkpoint, and rolls back to the newest
    /// transaction that reached the disk.
    ///
    /// # Errors
    /// If there is no such file (and [`OpenOptions::create`] is not set), if it
    /// is not a repository of this version, or if it is damaged.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Store> {
        let path = path.as_ref();
        let open = || trust::open(path, options.trust, options.read_only);
        let file = match open() {
            Err(Error::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound && options.create =>
            {
                // Nothing is left where it cannot be used. What else may be wrong with the
                // directory is found out by using it.
                let checked = check_directory(directory_of(path), &*options.system);
                if let Err(error @ Error::NotLocal { .. }) = checked {
                    return Err(error.about(path));
                }
                create(path, options.uuid, &*options.system).map_err(|source| Error::Io {
                    path: path.to_owned(),
                    action: "create the repository",
                    source,
                })?;
                open()
            }
            other => other,
        };
        Store::of_file(path, file?, false, options)
    }

    /// Makes a repository of `file`, an empty file that is open for reading and writing. It
    /// need have no name yet; `path` is the one that messages call it by. For who gives it
    /// its name later, when it is complete (a compactor).
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn make_in(file: File, path: &Path, options: &OpenOptions) -> Result<Store> {
        write_empty(&file, options.uuid, &*options.system).map_err(|source| Error::Io {
            path: path.to_owned(),
            action: "create the repository",
            source,
        })?;
        Store::of_file(path, file, true, options)
    }

    fn of_file(path: &Path, file: File, is_nameless: bool, options: &OpenOptions) -> Result<Store> {
        let io_error = |action, source| Error::Io {
            path: path.to_owned(),
            action,
            source,
        };
        let metadata = file
            .metadata()
            .map_err(|source| io_error("examine", source))?;
        let length = metadata.len();
        if length < LOG_OFFSET + MIN_TRAILER_SIZE {
            return Err(Error::NotARepository {
                path: path.to_owned(),
            });
        }
        let system = &*options.system;
        let words = file_system::use_of(path, &file, system)?;
        let mapping = Mapping::new(system, &file, options.reserve.min(MAX_ADDRESS), length)
            .map_err(|source| cannot(path, "map", source))?;
        let nonces = (system.random()).map_err(|source| io_error("get random bits for", source))?;
        let [low, high] = bytemuck::cast(system.boot_id());
        let (device, inode) =
            (system.identity(&file)).map_err(|source| io_error("examine", source))?;
        let mut store = Store {
            path: path.to_owned(),
            absolute_path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            identity: (metadata.dev(), metadata.ino()),
            file,
            is_nameless,
            mapping,
            header: FileHeader::zeroed(),
            session: [low, high, device, inode],
            opened: u64::MAX,
            system: options.system.clone(),
            patience: options.patience.clone(),
            read_only: options.read_only,
            checkpoint_every: options.checkpoint_every,
            words,
            word_writer: OnceLock::new(),
            turn: Mutex::default(),
            sync_turn: Mutex::default(),
            spare: Mutex::default(),
            known_length: AtomicU64::new(length),
            checked_trailer: AtomicU64::new(0),
            nonces: AtomicU64::new(nonces),
            made: elsa::sync::FrozenMap::new(),
        };
        store.header = store.checked_header()?;
        store.enter_session()?;
        if let Ok(visible) = store.state_offset(offset_of!(FileState, visible)) {
            store.opened = visible;
        }
        Ok(store)
    }

    /// The newest committed transaction that readers can see.
    ///
    /// Takes no lock and allocates nothing.
    pub fn snapshot(&self) -> Result<Snapshot<'_>> {
        let offset = self.state_offset(offset_of!(FileState, visible))?;
        self.snapshot_of(offset)
    }

    /// The repository as it was at `revision`.
    pub fn snapshot_at(&self, revision: u64) -> Result<Snapshot<'_>> {
        let newest = self.any_snapshot_of(self.state_offset(offset_of!(FileState, visible))?)?;
        let found = log::find_revision(newest.view(), newest.trailer(), revision)
            .map_err(|fault| self.error(fault))?;
        match found {
            Some(trailer) => self.readable(Snapshot::new(self, trailer, newest.view())),
            None => Err(Error::NoSuchRevision {
                path: self.path.clone(),
                revision,
            }),
        }
    }

    /// What was [kept](Store::keep) of the record at `address`.
    pub fn kept(&self, address: Address) -> Option<&[u64]> {
        self.made.get(&address)
    }

    /// Keeps what a reader has made of the record at `address`, until the store is closed. If there is something already, that is
    /// returned: records do not change.
    pub fn keep(&self, address: Address, made: Vec<u64>) -> &[u64] {
        self.made.insert(address, made.into_boxed_slice())
    }

    /// Starts a transaction on top of the newest one. Waits for other writers.
    pub fn begin(&self, durability: Durability) -> Result<Transaction<'_>> {
        let lock = self.lock()?;
        let base = self.catch_up()?;
        self.check_writable(base.trailer())?;
        Transaction::new(self, lock, base, durability)
    }

    /// Refuses to write onto a transaction with features that this program does not know.
    pub(super) fn check_writable(&self, newest: &Trailer<'_>) -> Result<()> {
        let features = self.header.features.union(newest.features);
        self.check_features("read", features.bar_reading(Features::KNOWN))?;
        self.check_features("written", features.bar_writing(Features::KNOWN))
    }

    /// Refuses a snapshot with features that this program must know to read it.
    fn readable<'s>(&self, snapshot: Snapshot<'s>) -> Result<Snapshot<'s>> {
        let features = self.header.features.union(snapshot.trailer().features);
        self.check_features("read", features.bar_reading(Features::KNOWN))?;
        Ok(snapshot)
    }

    fn check_features(&self, action: &'static str, bits: u64) -> Result<()> {
        match bits {
            0 => Ok(()),
            bits => Err(Error::Features {
                path: self.path.clone(),
                action,
                bits,
            }),
        }
    }

    /// The repository's UUID.
    pub fn uuid(&self) -> [u8; 16] {
        self.header.uuid
    }

    /// The present time, as commits have it: nanoseconds since 1970.
    pub fn now(&self) -> u64 {
        self.system.now()
    }

    /// Those that the file has had from its beginning.
    pub(super) fn features(&self) -> Features {
        self.header.features
    }

    /// When the repository was created, in nanoseconds since 1970.
    pub fn created(&self) -> u64 {
        self.header.created
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size of the newest snapshot, in bytes. The file may be longer, by what
    /// an unfinished transaction left.
    pub fn size(&self) -> Result<u64> {
        Ok(self.snapshot()?.size())
    }

    /// How far the file can grow before it must be opened anew, in bytes.
    pub fn reserve(&self) -> u64 {
        self.mapping.length()
    }

    fn checked_header(&self) -> Result<FileHeader> {
        let bytes = self
            .view(LOG_OFFSET)?
            .bytes(0, size_of::<FileHeader>() as u64)
            .map_err(|fault| self.error(fault))?;
        let header: FileHeader = bytemuck::pod_read_unaligned(bytes);
        let path = || self.path.clone();
        if header.magic != MAGIC {
            return Err(Error::NotARepository { path: path() });
        }
        if header.byte_order == BYTE_ORDER.swap_bytes() {
            return Err(Error::ByteOrder { path: path() });
        }
        // Before the checksum: another version may compute it otherwise.
        if header.version != VERSION {
            return Err(Error::Version {
                path: path(),
                found: header.version,
                known: VERSION,
            });
        }
        if header.byte_order != BYTE_ORDER || header.checksum != header_checksum(&header) {
            return Err(self.error(Fault::new(0, "header's checksum is wrong")));
        }
        Ok(header)
    }

    /// Makes sure that what the file says was written by a system that is
    /// still running, or else that it is good.
    fn enter_session(&self) -> Result<()> {
        if self.is_in_session()? {
            return Ok(());
        }
        let recover = || {
            let _lock = self.lock_file()?;
            match self.is_in_session()? {
                true => Ok(()),
                false => self.recover(),
            }
        };
        match self.read_only {
            // Syncs nothing.
            true => recover(),
            false => self.in_sync_turn(|| self.is_in_session(), |_| recover()),
        }
    }

    fn is_in_session(&self) -> Result<bool> {
        let words = self.session_words()?;
        // The inode number first: it is written last.
        let same = |(word, wanted): (&Word, &u64)| word.load(Ordering::Acquire) == *wanted;
        Ok(self.session[..2] != [0; 2] && words.iter().zip(&self.session).rev().all(same))
    }

    /// What the file's state says of its session: boot id, device and inode.
    pub(super) fn session_words(&self) -> Result<&[Word]> {
        let place = STATE_OFFSET + offset_of!(FileState, boot_id) as u64;
        let words = self
            .view(LOG_OFFSET)?
            .words(place, self.session.len() as u64);
        words.map_err(|fault| self.error(fault))
    }

    /// What it should say.
    pub(super) fn session(&self) -> [u64; 4] {
        self.session
    }

    /// Says that the file is as this session's processes left it.
    pub(super) fn write_session(&self) -> Result<()> {
        let place = STATE_OFFSET + offset_of!(FileState, boot_id) as u64;
        self.write_at(bytemuck::cast_slice(&self.session), place)
    }

    /// The trailer of the newest transaction that was visible when the file was opened.
    pub(super) fn opened(&self) -> u64 {
        self.opened
    }

    /// The newest transaction, after doing what a writer that was killed
    /// between its commit and its last word left undone.
    pub(super) fn catch_up(&self) -> Result<Snapshot<'_>> {
        let head = self.state_offset(offset_of!(FileState, head))?;
        let visible = self.state_offset(offset_of!(FileState, visible))?;
        let base = self.snapshot_of(head)?;
        if head != visible {
            let before = self.snapshot_of(visible)?;
            if base.trailer().previous != visible {
                return Err(self.error(Fault::new(head, "head does not follow what is visible")));
            }
            let additions =
                Additions::read(base.view(), base.trailer()).map_err(|fault| self.error(fault))?;
            update::finish(self, &before, &base, &additions)?;
            self.write_state(offset_of!(FileState, visible), &[head])?;
        }
        Ok(base)
    }

    fn snapshot_of(&self, offset: u64) -> Result<Snapshot<'_>> {
        self.readable(self.any_snapshot_of(offset)?)
    }

    /// Whatever features it has.
    fn any_snapshot_of(&self, offset: u64) -> Result<Snapshot<'_>> {
        let trailer = self.trailer(offset)?;
        let view = self.view(trailer.end())?;
        Ok(Snapshot::new(self, trailer, view))
    }

    pub(super) fn trailer(&self, offset: u64) -> Result<Trailer<'_>> {
        let least = self.view(offset.saturating_add(MIN_TRAILER_SIZE))?;
        let size = log::trailer_size_at(least, offset).map_err(|fault| self.error(fault))?;
        let view = self.view(offset + size)?;
        if self.checked_trailer.load(Ordering::Relaxed) == offset
            && let Ok(trailer) = log::unchecked_trailer(view, offset)
        {
            return Ok(trailer);
        }
        let trailer = trailer_at(view, offset).map_err(|fault| self.error(fault))?;
        self.checked_trailer.store(offset, Ordering::Relaxed);
        Ok(trailer)
    }

    /// A view of the first `end` bytes, which the file must have.
    pub(super) fn view(&self, end: u64) -> Result<View<'_>> {
        if end > self.known_length.load(Ordering::Relaxed) {
            let length = self.refresh_length()?;
            if end > length {
                return Err(Error::Truncated {
                    path: self.path.clone(),
                    length,
                    needed: end,
                });
            }
        }
        if end > self.mapping.length() {
            return Err(Error::TooLarge {
                path: self.path.clone(),
                what: "beyond the reserved address space; open it again",
            });
        }
        // SAFETY: the file was seen to be so long, and this engine never
        // shortens a file.
        Ok(unsafe { self.mapping.view(end) })
    }

    pub(super) fn refresh_length(&self) -> Result<u64> {
        let metadata = self.file.metadata();
        let length = metadata
            .map_err(|source| self.io_error("examine", source))?
            .len();
        self.known_length.fetch_max(length, Ordering::Relaxed);
        Ok(length)
    }

    /// One of the four words of the file's state.
    pub(super) fn state_offset(&self, field: usize) -> Result<u64> {
        let place = STATE_OFFSET + field as u64;
        let words = self
            .view(LOG_OFFSET)?
            .words(place, 1)
            .map_err(|fault| self.error(fault))?;
        for _ in 0..1000 {
            // A writer may be in the middle of it: then its check fails.
            let word = words.first().map(|word| word.load(Ordering::Acquire));
            if let Some(offset) = word.and_then(|word| StateWord(word).offset()) {
                return Ok(offset);
            }
            std::hint::spin_loop();
        }
        Err(self.error(Fault::new(place, "state word's check is wrong")))
    }

    /// A word of the file's state, to wait for its change.
    pub(super) fn state_word(&self, field: usize) -> Result<&Word> {
        let place = STATE_OFFSET + field as u64;
        let words = self.view(LOG_OFFSET)?.words(place, 1);
        let word = words.map(|words| &words[0]);
        word.map_err(|fault| self.error(fault))
    }

    /// Publishes trailers' offsets in consecutive words of the file's state.
    pub(super) fn write_state(&self, field: usize, offsets: &[u64]) -> Result<()> {
        let place = STATE_OFFSET + field as u64;
        let words = (offsets.iter()).map(|&offset| StateWord::new(offset).0);
        if let Some(writer) = self.word_writer() {
            let view = self.view(LOG_OFFSET)?;
            return (place..)
                .step_by(8)
                .zip(words)
                .try_for_each(|(place, word)| writer.store(&*self.system, view, place, word))
                .map_err(|fault| self.error(fault));
        }
        let words: Vec<u64> = words.collect();
        self.write_at(bytemuck::cast_slice(&words), place)
    }

    pub(super) fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let written = self.system.write_at(&self.file, bytes, offset);
        written.map_err(|source| self.io_error("write", source))
    }

    /// Writes single words of leaves, which lie below `end`, at these offsets.
    pub(super) fn write_words(&self, words: &[(u64, u64)], end: u64) -> Result<()> {
        let view = self.view(end)?;
        for &(offset, word) in words {
            match self.word_writer() {
                Some(writer) => writer
                    .store(&*self.system, view, offset, word)
                    .map_err(|fault| self.error(fault))?,
                None => self.write_at(&word.to_le_bytes(), offset)?,
            }
        }
        Ok(())
    }

    /// Whether single words are stored through a mapping: without a system call for each.
    pub(super) fn stores_words(&self) -> bool {
        self.word_writer().is_some()
    }

    /// What stores words through a mapping, where that may be done.
    fn word_writer(&self) -> Option<&WordWriter> {
        let writer = self.word_writer.get_or_init(|| {
            (self.words == Use::Stored)
                .then(|| WordWriter::new(&*self.system, &self.file, self.mapping.length()).ok())
                .flatten()
        });
        writer.as_ref()
    }

    pub(super) fn sync_file(&self) -> Result<()> {
        let synced = self.system.sync(&self.file);
        synced.map_err(|source| self.io_error("sync", source))
    }

    pub(super) fn sync_range(&self, range: Range<u64>) -> Result<()> {
        let synced = self.mapping.sync(&*self.system, &self.file, range);
        synced.map_err(|source| self.io_error("sync", source))
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// A nonce that no other transaction has.
    pub(super) fn nonce(&self) -> u64 {
        // splitmix64: a permutation of a counter that begins somewhere.
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.nonces.fetch_add(STEP, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn system(&self) -> &dyn System {
        &*self.system
    }

    /// The same for a thread that may outlive the store.
    pub(super) fn shared_system(&self) -> Arc<dyn System> {
        self.system.clone()
    }

    /// What is open, for who wants to know whose it is or to change that. To write to it
    /// damages the repository.
    pub fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn is_nameless(&self) -> bool {
        self.is_nameless
    }

    pub(super) fn patience(&self) -> Option<&Patience> {
        self.patience.as_ref()
    }

    /// The path by which it was opened, whatever the working directory.
    pub(super) fn absolute_path(&self) -> &Path {
        &self.absolute_path
    }

    /// Device and inode number of the open file.
    pub fn identity(&self) -> (u64, u64) {
        self.identity
    }

    pub(super) fn turn(&self) -> &Mutex<Turn> {
        &self.turn
    }

    pub(super) fn spare(&self) -> &Mutex<Option<Spare>> {
        &self.spare
    }

    pub(super) fn sync_turn(&self) -> &Mutex<()> {
        &self.sync_turn
    }

    pub(super) fn checkpoint_every(&self) -> u64 {
        self.checkpoint_every
    }

    pub(super) fn io_error(&self, action: &'static str, source: io::Error) -> Error {
        Error::Io {
            path: self.path.clone(),
            action,
            source,
        }
    }

    #[cold]
    pub(super) fn error(&self, fault: Fault) -> Error {
        fault.at(&self.path)
    }
}

/// The error of a lock or a mapping that could not be had: says so if it is the
/// file system that has none.
pub(super) fn cannot(path: &Path, action: &'static str, source: io::Error) -> Error {
    let path = path.to_owned();
    let lacks = matches!(
        source.raw_os_error().map(Errno::from_raw_os_error),
        Some(Errno::NODEV | Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL)
    );
    if lacks {
        let what = match action {
            "map" => "shared mappings",
            _ => "locks (flock)",
        };
        return Error::FileSystem { path, what, source };
    }
    Error::Io {
        path,
        action,
        source,
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
