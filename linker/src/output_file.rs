//! The output file: made so that nobody ever sees, runs or maps a half-written
//! one, and so that a full disk is an error message.
//!
//! The image is written through a shared mapping into a file of another name in
//! the same directory, and renamed over the output when it is complete. Where it
//! is safe, that other file is the *old output itself*, taken away by rename:
//! its pages are in the page cache already, and overwriting them costs a third
//! less than allocating new ones. It is safe if the file is an executable (not
//! a shared object, which running processes may have mapped without any
//! protection), has no other hard link (cargo makes them), and nobody runs it
//! (the kernel then refuses to open it for writing with `ETXTBSY`). An old output
//! whose pages are *not* in the page cache is not worth having: what shall be written over
//! would first be read from the disk.
//!
//! A store into a mapped page for which there is no room on the disk is
//! `SIGBUS`; therefore the blocks are reserved with `fallocate` first, and where
//! the file system cannot do that, the image is built in memory and written
//! with `write`. So is an output that is not a regular file, such as
//! `/dev/null`: that is written to and never replaced.

use memmap2::{Advice, MmapMut};
use rayon::prelude::*;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What the output is used for; decides its mode and whether an old file may be
/// written over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// An executable: mode 0777 less the umask; the kernel protects it while it runs.
    Executable,
    /// A shared object: mode 0777 less the umask; may be mapped at any time.
    Shared,
    /// A relocatable object or other data: mode 0666 less the umask.
    Data,
}

/// An output file that is being written.
pub struct OutputFile {
    path: PathBuf,
    /// The file under its temporary name; `None` if there is nothing to rename or remove.
    temporary: Option<PathBuf>,
    file: File,
    image: Image,
    zeroed: bool,
}

enum Image {
    Mapped(MmapMut),
    Memory(Vec<u8>),
}

impl OutputFile {
    /// Prepares an output of `size` bytes for `path`. What stands at `path` may be gone from
    /// now on; the new file is there after [`OutputFile::commit`].
    ///
    /// # Errors
    /// Of the file system, a full disk among them.
    pub fn create(path: &Path, size: u64, used_as: Use) -> io::Result<OutputFile> {
        let len =
            usize::try_from(size).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        if path.as_os_str() == "-" {
            let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            return Ok(Self::stream(path, file, len));
        }
        let old = fs::symlink_metadata(path).ok();
        let through_link = fs::metadata(path).ok();
        if let Some(meta) = &through_link {
            let kind = meta.file_type();
            if kind.is_dir() {
                return Err(io::Error::from(io::ErrorKind::IsADirectory));
            }
            if kind.is_char_device() || kind.is_block_device() || kind.is_fifo() || kind.is_socket()
            {
                let file = OpenOptions::new().write(true).open(path)?;
                return Ok(Self::stream(path, file, len));
            }
        }
        let temporary = temporary_name(path);
        let reusable = used_as == Use::Executable
            && old.is_some_and(|m| {
                m.is_file() && m.nlink() == 1 && m.len() > 0 && m.mode() & 0o700 == 0o700
            });
        if reusable
            && let Some(file) = open_cached(path)
            && take_away(path, &temporary, &file)
        {
            return Self::prepare(path, temporary, file, len, false);
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(if used_as == Use::Data { 0o666 } else { 0o777 })
            .open(&temporary)?;
        Self::prepare(path, temporary, file, len, true)
    }

    /// An output that can only be written to from beginning to end, not mapped: its bytes are in memory until then.
    fn stream(path: &Path, file: File, len: usize) -> OutputFile {
        OutputFile {
            path: path.into(),
            temporary: None,
            file,
            image: Image::Memory(vec![0; len]),
            zeroed: true,
        }
    }

    fn prepare(
        path: &Path,
        temporary: PathBuf,
        file: File,
        len: usize,
        zeroed: bool,
    ) -> io::Result<OutputFile> {
        // From here on, dropping it removes the temporary file.
        let image = Image::Memory(Vec::new());
        let mut output = OutputFile {
            path: path.into(),
            temporary: Some(temporary),
            file,
            image,
            zeroed,
        };
        output.file.set_len(len as u64)?;
        output.image = if len > 0 && reserve(&output.file, len)? {
            let map = map(&output.file)?;
            populate(&map);
            Image::Mapped(map)
        } else {
            output.zeroed = true;
            Image::Memory(vec![0; len])
        };
        Ok(output)
    }

    /// The image, to be written.
    pub fn bytes(&mut self) -> &mut [u8] {
        match &mut self.image {
            Image::Mapped(map) => map,
            Image::Memory(bytes) => bytes,
        }
    }

    /// Whether [`bytes`](Self::bytes) begins as zeros. If not, it holds what the old
    /// output held, and every gap must be cleared.
    pub fn is_zeroed(&self) -> bool {
        self.zeroed
    }

    /// Makes the image longer, by bytes of zero, or shorter. The rest of it stays as it is.
    ///
    /// # Errors
    /// Of the file system, a full disk among them.
    pub fn resize(&mut self, size: u64) -> io::Result<()> {
        let len =
            usize::try_from(size).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        match &mut self.image {
            Image::Memory(bytes) => {
                bytes.resize(len, 0);
                if self.temporary.is_some() {
                    self.file.set_len(size)?;
                }
            }
            Image::Mapped(_) => {
                // The old mapping must be gone before the file may end within it.
                self.image = Image::Memory(Vec::new());
                self.file.set_len(size)?;
                self.image = if len > 0 && reserve(&self.file, len)? {
                    Image::Mapped(map(&self.file)?)
                } else {
                    let mut bytes = vec![0; len];
                    self.file.read_exact_at(&mut bytes, 0)?;
                    Image::Memory(bytes)
                };
            }
        }
        Ok(())
    }

    /// Puts the finished file in its place, atomically. It is neither open nor mapped any more when this returns: what
    /// somebody may still write to cannot be run (`ETXTBSY`).
    ///
    /// # Errors
    /// Of the file system; then there is no output.
    pub fn commit(mut self) -> io::Result<()> {
        if let Image::Memory(bytes) = &self.image {
            self.file.write_all(bytes)?;
        }
        // The mapping goes afterwards: what was stored through it is in the page cache already.
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.path)?;
            self.temporary = None;
        }
        Ok(())
    }
}

impl Drop for OutputFile {
    /// A link that failed leaves nothing behind that looks finished.
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}

/// A name in the same directory that belongs to this process.
fn temporary_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".repo-ld-{}", std::process::id()));
    path.with_file_name(name)
}

/// Opens the old output for writing; `None` if that cannot be done (somebody runs it), or if its pages are not in the page
/// cache.
fn open_cached(path: &Path) -> Option<File> {
    let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
    // SAFETY: not one byte of the mapping is looked at.
    let map = unsafe { MmapMut::map_mut(&file) }.ok()?;
    is_cached(&map).then_some(file)
}

/// Whether a mapped file's pages are in the page cache, by those of them that a sample is.
fn is_cached(map: &MmapMut) -> bool {
    let sample = (0..map.len()).step_by(CHUNK_BYTES).chain([map.len() - 1]);
    sample.into_iter().all(|offset| {
        let page = map[offset & !(PAGE - 1)..].as_ptr();
        let mut is_resident = 0u8;
        // SAFETY: the address is that of a page of the mapping, the one byte that is written is a variable's.
        let result = unsafe { libc::mincore(page.cast_mut().cast(), 1, &raw mut is_resident) };
        result == 0 && is_resident & 1 != 0
    })
}

/// Renames the old output, which is open, away; if anything is unusual, it stands where it stood.
fn take_away(path: &Path, temporary: &Path, file: &File) -> bool {
    // Opened before the rename, so that a running executable is not disturbed at all...
    if fs::rename(path, temporary).is_err() {
        return false;
    }
    // ...and compared after it: someone may have replaced the file in between.
    if let (Ok(opened), Ok(renamed)) = (file.metadata(), fs::symlink_metadata(temporary))
        && (opened.dev(), opened.ino()) == (renamed.dev(), renamed.ino())
        && opened.nlink() == 1
    {
        return true;
    }
    let _ = fs::rename(temporary, path);
    false
}

/// Reserves the blocks of a file. `false` if the file system cannot.
fn reserve(file: &File, len: usize) -> io::Result<bool> {
    let Ok(len) = libc::off_t::try_from(len) else {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    };
    loop {
        // SAFETY: a system call on an open descriptor, no memory involved.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL) => return Ok(false),
            _ => return Err(error),
        }
    }
}

/// Maps an output whose blocks are reserved.
fn map(file: &File) -> io::Result<MmapMut> {
    // SAFETY: the file is ours under a name that nobody else knows, and all its blocks are allocated.
    // Another process that finds and truncates it could make us die of SIGBUS, as with every linker
    // that maps its output.
    unsafe { MmapMut::map_mut(file) }
}

/// Bytes that are populated by one system call. As much at once as a page table's page maps: with
/// more, the kernel (6.18, ext4) took five times as long. So much is a huge page, too.
const CHUNK_BYTES: usize = 2 << 20;

const PAGE: usize = 4096;

/// Has the kernel map all pages for writing. Linkers write all over their output; a page fault for
/// each page, one after another, costs more than the copying, and the file gets
/// many small folios, which make the next link slow as well: where the file system can (ext4 since
/// Linux 6.16), the file is given huge ones, each of which is mapped at once, now and by the next link.
fn populate(map: &MmapMut) {
    // Advice: kernels before 5.14 do not know how to populate, and some have no huge pages.
    let _ = map.advise(Advice::HugePage);
    let chunks = map.len().div_ceil(CHUNK_BYTES);
    (0..chunks).into_par_iter().for_each(|chunk| {
        let start = chunk * CHUNK_BYTES;
        let length = CHUNK_BYTES.min(map.len() - start);
        let _ = map.advise_range(Advice::PopulateWrite, start, length);
    });
}

#[cfg(test)]
mod tests {
    use super::{Image, OutputFile, Use, open_cached};
    use std::fs;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::Path;

    fn write(path: &Path, byte: u8, len: u64, used_as: Use) {
        let mut output = OutputFile::create(path, len, used_as).unwrap();
        output.bytes().fill(byte);
        output.commit().unwrap();
        assert_eq!(fs::read(path).unwrap(), vec![byte; len as usize]);
    }

    #[test]
    fn an_executable_is_reused_a_shared_object_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        write(&path, 1, 10_000, Use::Executable);
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o700,
            0o700
        );
        let inode = fs::metadata(&path).unwrap().ino();
        write(&path, 2, 5_000, Use::Executable);
        assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
        write(&path, 3, 20_000, Use::Shared);
        assert_ne!(fs::metadata(&path).unwrap().ino(), inode);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_old_output_that_would_be_read_from_the_disk_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        write(&path, 1, 5_000_000, Use::Executable);
        let old = fs::metadata(&path).unwrap().ino();
        assert!(open_cached(&path).is_some());
        let file = fs::File::open(&path).unwrap();
        file.sync_all().unwrap();
        // SAFETY: a system call on an open descriptor, no memory involved.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 3_000_000, 0, libc::POSIX_FADV_DONTNEED) };
        // File systems in memory do not follow the advice.
        let is_cached = open_cached(&path).is_some();
        write(&path, 2, 5_000_000, Use::Executable);
        assert_eq!(fs::metadata(&path).unwrap().ino() == old, is_cached);
    }

    #[test]
    fn the_size_may_change_until_the_end() {
        let dir = tempfile::tempdir().unwrap();
        for (name, sizes, mapped) in [
            ("longer", [5000, 9000], true),
            ("shorter", [9000, 5000], true),
            ("longer, in memory", [5000, 9000], false),
            ("shorter, in memory", [9000, 5000], false),
        ] {
            let path = dir.path().join(name);
            let mut output = OutputFile::create(&path, sizes[0], Use::Executable).unwrap();
            if !mapped {
                // As on file systems that cannot reserve blocks.
                output.image = Image::Memory(vec![0; sizes[0] as usize]);
            }
            output.bytes().fill(7);
            output.resize(sizes[1]).unwrap();
            output.commit().unwrap();
            let mut expected = vec![7; sizes[0] as usize];
            expected.resize(sizes[1] as usize, 0);
            assert!(fs::read(&path).unwrap() == expected, "{name}");
        }
    }

    #[test]
    fn another_hard_link_keeps_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("out"), dir.path().join("other"));
        write(&path, 1, 100, Use::Executable);
        fs::hard_link(&path, &other).unwrap();
        write(&path, 2, 100, Use::Executable);
        assert_eq!(fs::read(&other).unwrap(), [1; 100]);
    }

    #[test]
    fn a_running_executable_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cat");
        fs::copy("/bin/cat", &path).unwrap();
        let mut child = std::process::Command::new(&path)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        write(&path, 7, 100, Use::Executable);
        use std::io::{Read, Write};
        child
            .stdin
            .take()
            .unwrap()
            .write_all(b"still here")
            .unwrap();
        let mut said = String::new();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(said, "still here");
    }

    #[test]
    fn a_link_that_is_given_up_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        write(&path, 1, 100, Use::Executable);
        drop(OutputFile::create(&path, 100, Use::Executable).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn symbolic_links_are_replaced_and_devices_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let (path, target) = (dir.path().join("link"), dir.path().join("target"));
        fs::write(&target, "target").unwrap();
        symlink(&target, &path).unwrap();
        write(&path, 1, 10, Use::Executable);
        assert!(!fs::symlink_metadata(&path).unwrap().is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"target");

        let mut null = OutputFile::create(Path::new("/dev/null"), 100, Use::Executable).unwrap();
        null.bytes().fill(1);
        null.commit().unwrap();
        assert!(fs::metadata("/dev/null").unwrap().len() == 0);
        assert!(OutputFile::create(dir.path(), 1, Use::Data).is_err());
    }

    #[test]
    fn an_empty_output_is_a_file() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("empty"), 0, 0, Use::Data);
    }
}
