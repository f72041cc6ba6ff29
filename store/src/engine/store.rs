//! The handle of an open repository file: its mapping, the words of its state, and how both are written. What is
//! done with it (opening, locking, reading, writing, recovery) stands in files above this one, as more functions of [`Store`].

use super::create::header_checksum;
use super::error::{Error, Fault, Result, cannot};
use super::file_system::{self, Use};
use super::log::{self, trailer_at};
use super::map::{Mapping, View, WordWriter};
use super::options::OpenOptions;
use super::patience::Patience;
use super::spare::Spare;
use super::sync::{AtomicU64, Mutex, Word};
use super::system::System;
use super::turn::Turn;
use bytemuck::Zeroable;
use format_spec::file::{
    BYTE_ORDER, Features, FileHeader, FileState, LOG_OFFSET, MAGIC, MAX_ADDRESS, STATE_OFFSET,
    StateWord, VERSION,
};
use format_spec::ids::Address;
use format_spec::trailer::{MIN_TRAILER_SIZE, Trailer};
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

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
    /// A handle of `file`, whose header is right; nothing is known of its session yet.
    pub(super) fn of_file(
        path: &Path,
        file: File,
        is_nameless: bool,
        options: &OpenOptions,
    ) -> Result<Store> {
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
        Ok(store)
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

    /// Refuses to write onto a transaction with features that this program does not know.
    pub(super) fn check_writable(&self, newest: &Trailer<'_>) -> Result<()> {
        let features = self.header.features.union(newest.features);
        self.check_features("read", features.bar_reading(Features::KNOWN))?;
        self.check_features("written", features.bar_writing(Features::KNOWN))
    }

    pub(super) fn check_features(&self, action: &'static str, bits: u64) -> Result<()> {
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

    /// Whether the file is as this session's processes left it.
    pub(super) fn is_in_session(&self) -> Result<bool> {
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

    /// Takes note of what is visible now, as the file is opened.
    pub(super) fn note_opened(&mut self) {
        if let Ok(visible) = self.state_offset(offset_of!(FileState, visible)) {
            self.opened = visible;
        }
    }

    /// The trailer of the newest transaction that was visible when the file was opened.
    pub(super) fn opened(&self) -> u64 {
        self.opened
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

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
