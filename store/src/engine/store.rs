//! Opening, creating and recovering a repository file; locks and publication.

use super::error::{Error, Fault, Result};
use super::log::{self, end_of, next_transaction, trailer_at};
use super::map::{self, Mapping, View, WordWriter};
use super::replay::{Additions, Tables};
use super::snapshot::Snapshot;
use super::system::{Linux, System};
use super::table::Placed;
use super::transaction::{Durability, Transaction};
use super::update;
use bytemuck::Zeroable;
use format_spec::file::{
    BYTE_ORDER, FileHeader, FileState, LOG_OFFSET, MAGIC, MAX_ADDRESS, STATE_OFFSET, StateWord,
    TRAILER_SIZE, Trailer, VERSION,
};
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// So many words of a table are stored through a mapping; fewer are written.
const STORE_FROM: usize = 128;

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
    /// A durable commit moves the checkpoint when it is further behind than so
    /// many bytes. This bounds what recovery after a power cut has to read; it
    /// costs a sync of the whole file rather than of what was added.
    pub checkpoint_every: u64,
    /// The UUID that the repository gets if it is made; a random one without. For
    /// a file that is to take the place of another one (a compaction).
    pub uuid: Option<[u8; 16]>,
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
    file: File,
    mapping: Mapping,
    header: FileHeader,
    system: Arc<dyn System>,
    read_only: bool,
    checkpoint_every: u64,
    /// Made by the first large commit; `None` where words must be written.
    word_writer: OnceLock<Option<WordWriter>>,
    /// Threads of this process that share the store wait here: to the kernel
    /// they are one owner of the file's lock.
    writer: Mutex<()>,
    /// The file is at least this long: it never shrinks.
    known_length: AtomicU64,
    /// Offset of a trailer whose checksum was found right.
    checked_trailer: AtomicU64,
}

/// The right to write: at most one in all processes at a time.
pub(super) struct WriteLock<'s> {
    // Released in this order.
    _file: FileLock<'s>,
    _thread: MutexGuard<'s, ()>,
}

struct FileLock<'s>(&'s File);

impl Drop for FileLock<'_> {
    fn drop(&mut self) {
        // If this fails, closing the file releases the lock.
        let _ = rustix::fs::flock(self.0, FlockOperation::Unlock);
    }
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
        let io_error = |action, source| Error::Io {
            path: path.to_owned(),
            action,
            source,
        };
        let open = || {
            std::fs::OpenOptions::new()
                .read(true)
                .write(!options.read_only)
                .open(path)
        };
        let file = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound && options.create => {
                create(path, options.uuid, &*options.system)
                    .map_err(|source| io_error("create the repository", source))?;
                open()
            }
            other => other,
        };
        let file = file.map_err(|source| io_error("open", source))?;
        let length = file
            .metadata()
            .map_err(|source| io_error("examine", source))?
            .len();
        if length < LOG_OFFSET + TRAILER_SIZE {
            return Err(Error::NotARepository {
                path: path.to_owned(),
            });
        }
        let mapping = Mapping::new(&file, options.reserve.min(MAX_ADDRESS), length)
            .map_err(|source| io_error("map", source))?;
        let mut store = Store {
            path: path.to_owned(),
            file,
            mapping,
            header: FileHeader::zeroed(),
            system: options.system.clone(),
            read_only: options.read_only,
            checkpoint_every: options.checkpoint_every,
            word_writer: OnceLock::new(),
            writer: Mutex::new(()),
            known_length: AtomicU64::new(length),
            checked_trailer: AtomicU64::new(0),
        };
        store.header = store.checked_header()?;
        store.enter_session()?;
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
        let newest = self.snapshot()?;
        let found = log::find_revision(newest.view(), newest.trailer(), revision)
            .map_err(|fault| self.error(fault))?;
        match found {
            Some(trailer) => Ok(Snapshot::new(self, trailer, newest.view())),
            None => Err(Error::NoSuchRevision {
                path: self.path.clone(),
                revision,
            }),
        }
    }

    /// Starts a transaction on top of the newest one. Waits for other writers.
    pub fn begin(&self, durability: Durability) -> Result<Transaction<'_>> {
        let lock = self.lock()?;
        let base = self.catch_up()?;
        Transaction::new(self, lock, base, durability)
    }

    /// Returns when all that is committed is on the disk, and moves the
    /// checkpoint there, so that recovery would have nothing to do.
    pub fn sync(&self) -> Result<()> {
        let _lock = self.lock()?;
        let head = self.catch_up()?.trailer().offset;
        self.sync_file()?;
        self.write_state(offset_of!(FileState, checkpoint), &[head, head])
    }

    /// The repository's UUID.
    pub fn uuid(&self) -> [u8; 16] {
        self.header.uuid
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

    /// Checks everything up to the newest transaction: every transaction's
    /// checksum, the chain, and every word of every table against the log.
    /// Writers can go on meanwhile.
    pub fn verify(&self) -> Result<()> {
        if let Some(_lock) = self.try_lock()?
            && !self.read_only
        {
            self.catch_up()?;
        }
        let newest = self.snapshot()?;
        let view = newest.view();
        let replay = || -> Result<Tables, Fault> {
            self.check_reserved(view)?;
            let mut tables = self.replay_all(view)?;
            while tables.trailer().offset < newest.trailer().offset {
                let next = next_transaction(view, tables.trailer())?;
                let jump = log::jump_after(view, tables.trailer())?;
                if next.jump != jump {
                    return Err(Fault::new(next.offset, "trailer's links are wrong"));
                }
                tables.apply(view, next)?;
            }
            tables.compare(view, false)?;
            Ok(tables)
        };
        let tables = replay().map_err(|fault| self.error(fault))?;

        // If nobody has written meanwhile, nor was killed while writing, there
        // must be no word that is not accounted for.
        let Some(_lock) = self.try_lock()? else {
            return Ok(());
        };
        let head = self.state_offset(offset_of!(FileState, head))?;
        if head == newest.trailer().offset {
            let compared = tables.compare(view, true);
            compared.map_err(|fault| self.error(fault))?;
        }
        let (checkpoint, durable) = self.durable_state()?;
        for offset in [head, checkpoint, durable] {
            self.trailer(offset)?;
        }
        Ok(())
    }

    fn replay_all(&self, view: View<'_>) -> Result<Tables, Fault> {
        let first = trailer_at(view, LOG_OFFSET)?;
        if *first != first_trailer(first.time, first.nonce) {
            return Err(Fault::new(LOG_OFFSET, "first trailer is wrong"));
        }
        Ok(Tables::empty(first))
    }

    fn check_reserved(&self, view: View<'_>) -> Result<(), Fault> {
        let state_end = STATE_OFFSET + size_of::<FileState>() as u64;
        for (start, end) in [
            (size_of::<FileHeader>() as u64, STATE_OFFSET),
            (state_end, LOG_OFFSET),
        ] {
            if view
                .bytes(start, end - start)?
                .iter()
                .any(|&byte| byte != 0)
            {
                return Err(Fault::new(start, "reserved bytes are not zero"));
            }
        }
        Ok(())
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
        let lock = self.lock_file()?;
        if self.is_in_session()? {
            return Ok(());
        }
        let result = self.recover();
        drop(lock);
        result
    }

    fn is_in_session(&self) -> Result<bool> {
        let state = self.state()?;
        Ok(state.boot_id != [0; 16]
            && state.boot_id == self.system.boot_id()
            && state.inode == self.inode()?)
    }

    fn inode(&self) -> Result<u64> {
        let inode = self.system.inode(&self.file);
        inode.map_err(|source| self.io_error("examine", source))
    }

    /// Finds the newest transaction that is whole, makes the tables agree with
    /// it, and publishes it. SPEC.md, "Recovery".
    fn recover(&self) -> Result<()> {
        let length = self.refresh_length()?;
        let view = self.view(length.min(self.mapping.length()))?;
        let checkpoint = self.state_offset(offset_of!(FileState, checkpoint));
        let visible = self.state_offset(offset_of!(FileState, visible));
        let replay = || -> Result<Tables, Fault> {
            let start = checkpoint.ok().map(|offset| trailer_at(view, offset));
            let mut tables = match start {
                Some(Ok(start)) => Tables::load(view, start)?,
                // The state itself is damaged: everything is in the log.
                _ => self.replay_all(view)?,
            };
            while let Ok(next) = next_transaction(view, tables.trailer()) {
                if self.read_only && visible.as_ref().is_ok_and(|&last| next.offset > last) {
                    break;
                }
                tables.apply(view, next)?;
            }
            Ok(tables)
        };
        let tables = replay().map_err(|fault| self.error(fault))?;
        let newest = tables.trailer().offset;
        if self.read_only {
            let lost = Fault::new(newest, "what follows is not whole");
            let same = (visible? == newest).then_some(()).ok_or(lost);
            return same
                .and_then(|()| tables.compare(view, false))
                .map_err(|fault| Error::NeedsRecovery {
                    path: self.path.clone(),
                    offset: fault.offset,
                    what: fault.what,
                });
        }
        for (table, words) in tables.all() {
            self.write_at(bytemuck::cast_slice(words), table.address())?;
        }
        self.sync_file()?;
        let word = StateWord::new(newest);
        let state = FileState {
            head: word,
            visible: word,
            checkpoint: word,
            durable: word,
            boot_id: self.system.boot_id(),
            inode: self.inode()?,
        };
        self.write_at(bytemuck::bytes_of(&state), STATE_OFFSET)?;
        self.sync_file()
    }

    /// The newest transaction, after doing what a writer that was killed
    /// between its commit and its last word left undone.
    fn catch_up(&self) -> Result<Snapshot<'_>> {
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
            update::finish(self, &before, base.trailer(), &additions)?;
            self.write_state(offset_of!(FileState, visible), &[head])?;
        }
        Ok(base)
    }

    fn snapshot_of(&self, offset: u64) -> Result<Snapshot<'_>> {
        let trailer = self.trailer(offset)?;
        let view = self.view(end_of(trailer))?;
        Ok(Snapshot::new(self, trailer, view))
    }

    fn trailer(&self, offset: u64) -> Result<&Trailer> {
        let view = self.view(offset.saturating_add(TRAILER_SIZE))?;
        if self.checked_trailer.load(Ordering::Relaxed) == offset {
            let bytes = view.bytes(offset, TRAILER_SIZE);
            let trailer = bytes.map(|bytes| bytemuck::try_from_bytes(bytes));
            if let Ok(Ok(trailer)) = trailer {
                return Ok(trailer);
            }
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

    fn refresh_length(&self) -> Result<u64> {
        let metadata = self.file.metadata();
        let length = metadata
            .map_err(|source| self.io_error("examine", source))?
            .len();
        self.known_length.fetch_max(length, Ordering::Relaxed);
        Ok(length)
    }

    /// One of the four words of the file's state.
    fn state_offset(&self, field: usize) -> Result<u64> {
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

    fn state(&self) -> Result<FileState> {
        let bytes = self
            .view(LOG_OFFSET)?
            .bytes(STATE_OFFSET, size_of::<FileState>() as u64);
        Ok(bytemuck::pod_read_unaligned(
            bytes.map_err(|fault| self.error(fault))?,
        ))
    }

    /// Publishes trailers' offsets in consecutive words of the file's state.
    pub(super) fn write_state(&self, field: usize, offsets: &[u64]) -> Result<()> {
        let words: Vec<u64> = (offsets.iter())
            .map(|&offset| StateWord::new(offset).0)
            .collect();
        self.write_at(bytemuck::cast_slice(&words), STATE_OFFSET + field as u64)
    }

    /// The trailers up to which log and tables, and the log alone, are known
    /// to be on the disk.
    pub(super) fn durable_state(&self) -> Result<(u64, u64)> {
        Ok((
            self.state_offset(offset_of!(FileState, checkpoint))?,
            self.state_offset(offset_of!(FileState, durable))?,
        ))
    }

    pub(super) fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let written = self.system.write_at(&self.file, bytes, offset);
        written.map_err(|source| self.io_error("write", source))
    }

    /// Writes single words at these places of a table that lies below `end`.
    pub(super) fn write_words(&self, table: u64, placed: &[Placed], end: u64) -> Result<()> {
        // A store dirties as much as the kernel has as one page, perhaps two
        // megabytes; a write, the block. Few are better written.
        let writer = (placed.len() >= STORE_FROM).then(|| {
            self.word_writer.get_or_init(|| {
                (self.system.may_store_words() && map::may_store(&self.file))
                    .then(|| WordWriter::new(&self.file, self.mapping.length()).ok())
                    .flatten()
            })
        });
        let view = self.view(end)?;
        for &(place, word) in placed {
            let offset = table + place * 8;
            match writer {
                Some(Some(writer)) => writer
                    .store(view, offset, word)
                    .map_err(|fault| self.error(fault))?,
                _ => self.write_at(&word.to_le_bytes(), offset)?,
            }
        }
        Ok(())
    }

    pub(super) fn write_at_durably(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let written = self.system.write_at_durably(&self.file, bytes, offset);
        written.map_err(|source| self.io_error("write", source))
    }

    pub(super) fn sync_file(&self) -> Result<()> {
        let synced = self.system.sync(&self.file);
        synced.map_err(|source| self.io_error("sync", source))
    }

    pub(super) fn checkpoint_every(&self) -> u64 {
        self.checkpoint_every
    }

    pub(super) fn system(&self) -> &dyn System {
        &*self.system
    }

    fn lock(&self) -> Result<WriteLock<'_>> {
        if self.read_only {
            return Err(Error::ReadOnly {
                path: self.path.clone(),
            });
        }
        let thread = self.writer.lock();
        let file = self.lock_file()?;
        let links = rustix::fs::fstat(&self.file)
            .map_err(|source| self.io_error("examine", source.into()))?
            .st_nlink;
        if links == 0 {
            return Err(Error::Replaced {
                path: self.path.clone(),
            });
        }
        Ok(WriteLock {
            _file: file,
            _thread: thread,
        })
    }

    fn lock_file(&self) -> Result<FileLock<'_>> {
        loop {
            match rustix::fs::flock(&self.file, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(FileLock(&self.file)),
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.io_error("lock", error.into())),
            }
        }
    }

    fn try_lock(&self) -> Result<Option<WriteLock<'_>>> {
        let Some(thread) = self.writer.try_lock() else {
            return Ok(None);
        };
        let operation = FlockOperation::NonBlockingLockExclusive;
        match rustix::fs::flock(&self.file, operation) {
            Ok(()) => Ok(Some(WriteLock {
                _file: FileLock(&self.file),
                _thread: thread,
            })),
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
            Err(error) => Err(self.io_error("lock", error.into())),
        }
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

fn header_checksum(header: &FileHeader) -> u32 {
    crc32fast::hash(&bytemuck::bytes_of(header)[..offset_of!(FileHeader, checksum)])
}

/// The trailer of revision 0.
fn first_trailer(time: u64, nonce: u64) -> Trailer {
    let mut trailer = Trailer {
        head: log::trailer_head(),
        offset: LOG_OFFSET,
        time,
        start: LOG_OFFSET,
        nonce,
        payload_crc: crc32fast::hash(&[]),
        ..Trailer::zeroed()
    };
    trailer.checksum = log::trailer_checksum(&trailer);
    trailer
}

/// Makes a repository at `path`, whole or not at all. If somebody else makes
/// it at the same time, theirs stays.
fn create(path: &Path, uuid: Option<[u8; 16]>, system: &dyn System) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if let Ok(file) = system.open_unnamed(directory) {
        write_empty(&file, uuid, system)?;
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        match rustix::fs::linkat(CWD, &name, CWD, path, AtFlags::SYMLINK_FOLLOW) {
            Ok(()) | Err(Errno::EXIST) => return Ok(()),
            // Perhaps there is no /proc.
            Err(_) => {}
        }
    }
    // The file system has no files without names: one with a name that nobody
    // else uses.
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{:016x}.tmp", system.random()?));
    let temporary = directory.join(name);
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL;
    let file = rustix::fs::open(&temporary, flags, Mode::RUSR | Mode::WUSR)?.into();
    let made = write_empty(&file, uuid, system).and_then(|()| {
        match rustix::fs::renameat_with(CWD, &temporary, CWD, path, RenameFlags::NOREPLACE) {
            // Not known to this file system; but then links may be.
            Err(Errno::INVAL) => std::fs::hard_link(&temporary, path),
            other => other.map_err(io::Error::from),
        }
    });
    // Gone already if it was renamed.
    let _ = std::fs::remove_file(&temporary);
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Writes an empty repository into a new file, and waits until it is on the disk.
fn write_empty(file: &File, uuid: Option<[u8; 16]>, system: &dyn System) -> io::Result<()> {
    let uuid = match uuid {
        Some(uuid) => uuid,
        None => {
            let [high, low] = [system.random()?, system.random()?];
            // RFC 9562: version 4, variant 10.
            let uuid = u128::from(high) << 64 | u128::from(low);
            (uuid & !(0xf << 76 | 0b11 << 62) | 4 << 76 | 0b10 << 62).to_be_bytes()
        }
    };
    let now = system.now();
    let mut header = FileHeader {
        magic: MAGIC,
        version: VERSION,
        byte_order: BYTE_ORDER,
        uuid,
        created: now,
        reserved: 0,
        checksum: 0,
    };
    header.checksum = header_checksum(&header);
    let first = StateWord::new(LOG_OFFSET);
    let state = FileState {
        head: first,
        visible: first,
        checkpoint: first,
        durable: first,
        boot_id: system.boot_id(),
        inode: system.inode(file)?,
    };
    let mut bytes = vec![0; LOG_OFFSET as usize];
    let (header_room, rest) = bytes.split_at_mut(STATE_OFFSET as usize);
    header_room[..size_of::<FileHeader>()].copy_from_slice(bytemuck::bytes_of(&header));
    rest[..size_of::<FileState>()].copy_from_slice(bytemuck::bytes_of(&state));
    bytes.extend_from_slice(bytemuck::bytes_of(&first_trailer(now, system.random()?)));
    system.write_at(file, &bytes, 0)?;
    system.sync(file)
}
