//! The seam between the engine and the operating system.
//!
//! Everything that changes the file, and everything that is not a function of
//! the file and the caller's wishes (boot id, time, random numbers), goes
//! through [`System`], so that tests can record, fail and repeat it. Reading
//! does not: it goes through the mapping.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What the engine asks of the operating system.
pub trait System: Send + Sync {
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    /// Writes all of `bytes` at `offset` and returns when they, and what is
    /// needed to read them back (the file's length, its extents), are on the
    /// disk. Other writes need not be.
    fn write_at_durably(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        write_durably(file, bytes, offset)
    }

    /// Opens a new file without a name in `directory`, mode 0600.
    fn open_unnamed(&self, directory: &Path) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE;
        Ok(rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Whether single words of tables may be stored through a mapping rather
    /// than with [`System::write_at`], if the file system allows it.
    fn may_store_words(&self) -> bool {
        true
    }

    /// Returns when everything written before is on the disk.
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// An id that is another one after each start of the operating system;
    /// zeros if it cannot be had.
    fn boot_id(&self) -> [u8; 16] {
        boot_id().unwrap_or([0; 16])
    }

    /// The file's inode number.
    fn inode(&self, file: &File) -> io::Result<u64> {
        use std::os::unix::fs::MetadataExt;
        Ok(file.metadata()?.ino())
    }

    /// Nanoseconds since 1970.
    fn now(&self) -> u64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64)
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

/// `RWF_DSYNC` syncs the written range only: the tables' dirty pages, which
/// recovery can do without, are left to the kernel.
fn write_durably(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    use rustix::io::{Errno, ReadWriteFlags, pwritev2};
    while !bytes.is_empty() {
        match pwritev2(
            file,
            &[io::IoSlice::new(bytes)],
            offset,
            ReadWriteFlags::DSYNC,
        ) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = bytes.get(written..).unwrap_or_default();
                offset += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                file.write_all_at(bytes, offset)?;
                return file.sync_data();
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
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
