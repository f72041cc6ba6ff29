//! The seam between the engine and the operating system.
//!
//! Everything that changes the file, everything that not every file system
//! has (locks, mappings, files without names), and everything that is not a
//! function of the file and the caller's wishes (boot id, time, random numbers),
//! goes through [`System`], so that tests can record, fail and repeat it. Reading
//! does not: it goes through the mapping.

use super::byte_locks::{self, Byte};
use super::holder::{self, Holder};
use super::mounts;
use super::queue;
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::thread::futex;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// What the engine asks of the operating system.
pub trait System: Send + Sync {
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    /// Stores a word of the file through a mapping from [`System::map_writable`]: all of
    /// it at once, and not before what this thread has stored or written earlier. `offset`
    /// says where in the file `place` is.
    fn store(&self, place: &AtomicU64, word: u64, offset: u64) {
        let _ = offset;
        place.store(word, Ordering::Release);
    }

    /// Opens a new file without a name in `directory`, mode 0600.
    fn open_unnamed(&self, directory: &Path) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE;
        Ok(rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Gives a file from [`System::open_unnamed`] a name, unless that exists.
    fn link_unnamed(&self, file: &File, path: &Path) -> io::Result<()> {
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        let linked = rustix::fs::linkat(CWD, &name, CWD, path, AtFlags::SYMLINK_FOLLOW);
        Ok(linked?)
    }

    /// Renames a file, unless the new name exists.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let renamed = rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE);
        Ok(renamed?)
    }

    /// Gives a file one more name, unless that exists.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
    }

    /// Locks the file against all who opened it by themselves; until
    /// [`System::unlock`], or until all duplicates of `file` are closed, be it by
    /// the death of the process. Waits until nobody else has it.
    fn lock(&self, file: &File) -> io::Result<()> {
        loop {
            match rustix::fs::flock(file, FlockOperation::LockExclusive) {
                Err(Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    /// The same without waiting; `false` if somebody else has it.
    fn try_lock(&self, file: &File) -> io::Result<bool> {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
            other => Ok(other.map(|()| true)?),
        }
    }

    /// Releases what [`System::lock`] got.
    fn unlock(&self, file: &File) {
        // If this fails, closing the file releases the lock.
        let _ = rustix::fs::flock(file, FlockOperation::Unlock);
    }

    /// Waits until all who called this before have left the queue of those who
    /// want [`System::lock`], in that order. Lasts until
    /// [`System::leave_queue`], or as a lock does.
    fn enter_queue(&self, file: &File) -> io::Result<()> {
        queue::enter(file)
    }

    /// The same without waiting; `false` if others are in the queue.
    fn try_enter_queue(&self, file: &File) -> io::Result<bool> {
        queue::try_enter(file)
    }

    /// The process that has [`System::lock`], if that can be found out: for messages.
    fn holder(&self, file: &File) -> Option<Holder> {
        holder::holder(file)
    }

    /// Lets the next one go ahead.
    fn leave_queue(&self, file: &File) {
        queue::leave(file);
    }

    /// Asks all who write to the file not to come back for the lock before others who wait for it. Lasts until
    /// [`System::end_short_turns`], or as a lock does.
    fn ask_for_short_turns(&self, file: &File) -> io::Result<()> {
        byte_locks::try_lock(file, SHORT_TURNS..=SHORT_TURNS).map(drop)
    }

    /// Asks for it no longer.
    fn end_short_turns(&self, file: &File) {
        byte_locks::unlock(file, SHORT_TURNS..=SHORT_TURNS);
    }

    /// Whether somebody else asks for that.
    fn are_turns_short(&self, file: &File) -> bool {
        let found = byte_locks::locked_by_others(file, SHORT_TURNS..=SHORT_TURNS);
        matches!(found, Ok(Some(_)))
    }

    /// Becomes the one who syncs for all; `false` if another one is. Lasts until
    /// [`System::end_sync`], or as a lock does.
    fn try_begin_sync(&self, file: &File) -> io::Result<bool> {
        byte_locks::try_lock(file, SYNC..=SYNC)
    }

    /// Lets another one sync.
    fn end_sync(&self, file: &File) {
        byte_locks::unlock(file, SYNC..=SYNC);
    }

    /// Waits until [`System::wake`] for the same word of the file, in whatever
    /// process, or for `most`; not at all if the word does not have this value.
    /// Whether it was woken.
    fn wait(&self, word: &AtomicU32, value: u32, most: Duration) -> bool {
        let most = rustix::time::Timespec {
            tv_sec: most.as_secs() as i64,
            tv_nsec: most.subsec_nanos().into(),
        };
        match futex::wait(word, futex::Flags::empty(), value, Some(&most)) {
            Ok(()) => true,
            Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => false,
            Err(_) => {
                std::thread::yield_now();
                false
            }
        }
    }

    /// Wakes so many at most of those who wait for the word.
    fn wake(&self, word: &AtomicU32, most: u32) {
        let _ = futex::wake(word, futex::Flags::empty(), most);
    }

    /// Maps `length` bytes of address space from the file's start, for reading:
    /// what is written to the file is to be seen in the mapping at once.
    fn map(&self, file: &File, length: usize) -> io::Result<MmapRaw> {
        MmapOptions::new().len(length).map_raw_read_only(file)
    }

    /// The same for storing words too.
    fn map_writable(&self, file: &File, length: usize) -> io::Result<MmapRaw> {
        MmapOptions::new().len(length).map_raw(file)
    }

    /// Has the kernel begin to write a range of the file to the disk. Nothing
    /// depends on it.
    fn start_write_back(&self, file: &File, range: Range<u64>) {
        let (start, length) = (range.start as i64, (range.end - range.start) as i64);
        // SAFETY: a system call that touches no memory of ours.
        unsafe {
            libc::sync_file_range(file.as_raw_fd(), start, length, libc::SYNC_FILE_RANGE_WRITE);
        }
    }

    /// The type of the file's file system: `f_type` of statfs(2).
    fn file_system(&self, file: &File) -> io::Result<u64> {
        Ok(rustix::fs::fstatfs(file)?.f_type as u64)
    }

    /// The name of the type of the file system with this device (`st_dev`) in the table of mounts, if
    /// it is there.
    fn mount_type(&self, device: u64) -> Option<String> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        mounts::mount_type(&mounts, device)
    }

    /// Returns when all that was written to this range before, and what is needed to
    /// read it back (the file's length, its extents), is on the disk. `mapping` is one
    /// of the whole file, from [`System::map`].
    fn sync_range(&self, _file: &File, mapping: &MmapRaw, range: Range<u64>) -> io::Result<()> {
        // msync(2) is fdatasync(2) for a part of a file.
        mapping.flush_range(range.start as usize, (range.end - range.start) as usize)
    }

    /// Returns when everything written before is on the disk.
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// What of this range of the file the disk has, whatever the kernel remembers of it.
    fn read_from_disk(&self, file: &File, range: Range<u64>) -> io::Result<Vec<u8>> {
        read_directly(file, range)
    }

    /// An id that is another one after each start of the operating system;
    /// zeros if it cannot be had.
    fn boot_id(&self) -> [u8; 16] {
        boot_id().unwrap_or([0; 16])
    }

    /// The numbers of the file's device and of its inode.
    fn identity(&self, file: &File) -> io::Result<(u64, u64)> {
        use std::os::unix::fs::MetadataExt;
        let metadata = file.metadata()?;
        Ok((metadata.dev(), metadata.ino()))
    }

    /// Nanoseconds since 1970.
    fn now(&self) -> u64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64)
    }

    /// Nanoseconds since some moment: a clock that nobody sets.
    fn uptime(&self) -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    /// Random bits.
    fn random(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        let filled =
            rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
        if filled < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(u64::from_le_bytes(bytes))
    }
}

/// Linux.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;

impl System for Linux {}

/// Bytes that stand for who syncs, and for who asks for short turns: where no file ends. (Others stand for the [queue].)
const SYNC: Byte = Byte::MAX - 2;
const SHORT_TURNS: Byte = Byte::MAX - 3;

/// Reads with `O_DIRECT` (open(2)).
fn read_directly(file: &File, range: Range<u64>) -> io::Result<Vec<u8>> {
    // What offsets, lengths and addresses must be a multiple of: of this, whatever the disk.
    const ALIGN: usize = 4096;
    // A description of its own, because the flag is one of descriptions.
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECT;
    let direct = File::from(rustix::fs::open(name, flags, Mode::empty())?);
    let start = range.start / ALIGN as u64 * ALIGN as u64;
    let length = (range.end.next_multiple_of(ALIGN as u64) - start) as usize;
    let mut room = vec![0; length + ALIGN];
    let first = room.as_ptr().align_offset(ALIGN);
    let buffer = &mut room[first..first + length];
    let mut filled = 0;
    while filled < length {
        match direct.read_at(&mut buffer[filled..], start + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        // Only at the end of the file is it less than was asked for.
        if !filled.is_multiple_of(ALIGN) {
            break;
        }
    }
    let (from, to) = (range.start - start, range.end - start);
    let read = buffer[..filled].get(from as usize..to as usize);
    read.map(<[u8]>::to_vec)
        .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn boot_id() -> Option<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let mut id = [0; 16];
    let mut digits = text.trim().chars().filter(|&c| c != '-');
    for byte in &mut id {
        let high = digits.next()?.to_digit(16)?;
        let low = digits.next()?.to_digit(16)?;
        *byte = (high * 16 + low) as u8;
    }
    digits.next().is_none().then_some(id)
}
