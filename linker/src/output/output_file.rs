//! The output file: made so that nobody ever sees, runs or maps a half-written
//! one, and so that a full disk is an error message.
//!
//! The image is written through a shared mapping into a file of another name in
//! the same directory ([`Temporary`]), and renamed over the output when it is complete. Where it
//! is safe, that other file is the *old output itself*, taken away by rename:
//! its pages are in the page cache already, and overwriting them costs a third
//! less than allocating new ones. It is safe if the old output
//!
//! * is an executable, not a shared object;
//! * is as a new file is: a new one is made in any case, and compared. Owner (the user), group, mode and extended
//!   attributes are equal, so that there are no set-user-id bits, capabilities or access control lists either. Nor may
//!   everybody write to it, which a careless umask would permit;
//! * has no other name (cargo makes hard links);
//! * is open nowhere else: neither by a process that runs it, nor by `cp`, `tar`, a debugger or an emulator that reads it,
//!   nor by `ld.so`, which maps it without the protection that running programs have. The kernel tells: who asks for a
//!   write lease (fcntl(2), `F_SETLEASE`) gets it only if nobody else has the file open, and a mapping counts as long as
//!   it lasts. The lease is kept until the output is complete, so whoever found the old name before it was taken away, and
//!   opens it only now, waits. (For 45 seconds, `/proc/sys/fs/lease-break-time`; then the kernel lets him in.)
//!
//! What cannot be seen: processes of other machines that have the file open over a network (file systems that cannot
//! tell give no leases, and then there is a new file), and those that hold it as a place only (`O_PATH`) and open it when
//! the lease is gone; they see the new program, whole. An old output
//! whose pages are *not* in the page cache is not worth having: what shall be written over
//! would first be read from the disk.
//!
//! A store into a mapped page for which there is no room on the disk is
//! `SIGBUS`; therefore the blocks are reserved with `fallocate` first, and where
//! the file system cannot do that, the image is built in memory and written
//! with `write`. So is an output that is not a regular file, such as
//! `/dev/null`, or that stands for an open descriptor (`/dev/stdout`, `/dev/fd/3`, or a link to one), whatever that is: that
//! is written to and never replaced.

use memmap2::{Advice, MmapMut};
use rayon::prelude::*;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use store::guard::{self, Guarded, Temporary};

/// What the names of outputs begin with that are not complete.
const PREFIX: &str = ".repo-ld-";

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
    image: Image,
    /// The file's temporary name; `None` if there is nothing to rename or remove. It goes before the file is closed.
    temporary: Option<Temporary>,
    file: File,
    zeroed: bool,
}

enum Image {
    Mapped(Guarded<MmapMut>),
    Memory(Vec<u8>),
}

impl OutputFile {
    /// Prepares an output of `size` bytes for `path`. What stands at `path` may be gone from
    /// now on; the new file is there after [`OutputFile::commit`].
    ///
    /// # Errors
    /// Of the file system, a full disk among them.
    pub fn create(path: &Path, size: u64, used_as: Use) -> io::Result<OutputFile> {
        Self::create_in(path, size, used_as, path)
    }

    /// As [`OutputFile::create`], but what stands at `path` is there until the new one is; another file `old`, if there is one,
    /// may be gone, and is written over.
    ///
    /// # Errors
    /// Of the file system, a full disk among them.
    pub fn create_in(path: &Path, size: u64, used_as: Use, old: &Path) -> io::Result<OutputFile> {
        let len =
            usize::try_from(size).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        if path.as_os_str() == "-" {
            let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            return Ok(Self::stream(path, file, len));
        }
        let is = fs::symlink_metadata(path).ok();
        if is.as_ref().is_some_and(fs::Metadata::is_symlink)
            && let Some(file) = descriptor(path)?
        {
            return Ok(Self::stream(path, file, len));
        }
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
        let mode = if used_as == Use::Data { 0o666 } else { 0o777 };
        let (temporary, file) = Temporary::create(PREFIX, path, mode)?;
        let may_be_mapped = used_as != Use::Executable && old == path;
        let is_file = || fs::symlink_metadata(old).is_ok_and(|old| old.is_file());
        if may_be_mapped || !is_file() {
            return Self::prepare(path, temporary, file, len, true);
        }
        match take_old(old, temporary, &file)? {
            Taken::Old(temporary, old) => Self::prepare(path, temporary, old, len, false),
            Taken::Nothing(temporary) => Self::prepare(path, temporary, file, len, true),
            Taken::Lost => {
                let (temporary, file) = Temporary::create(PREFIX, path, mode)?;
                Self::prepare(path, temporary, file, len, true)
            }
        }
    }

    /// Prepares to change an output that is there and has `size` bytes: what [`OutputFile::bytes`] gives is a copy of it.
    ///
    /// # Errors
    /// Of the file system.
    pub fn reopen(path: &Path, size: u64) -> io::Result<OutputFile> {
        let len =
            usize::try_from(size).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let old = fs::symlink_metadata(path)?;
        if !old.is_file() || old.len() != size {
            return Err(io::Error::other("it is no file, or of another size"));
        }
        let mode = old.mode() & 0o777;
        let (temporary, file) = Temporary::create(PREFIX, path, mode)?;
        io::copy(&mut File::open(path)?, &mut &file)?;
        let mut output = OutputFile {
            path: path.into(),
            temporary: Some(temporary),
            file,
            image: Image::Memory(Vec::new()),
            zeroed: false,
        };
        if output.file.metadata()?.len() != size {
            return Err(io::Error::other("it has changed meanwhile"));
        }
        output.image = if len > 0 && reserve(&output.file, len)? {
            Image::Mapped(Guarded::new(map(&output.file)?, path))
        } else {
            let mut bytes = vec![0; len];
            output.file.read_exact_at(&mut bytes, 0)?;
            Image::Memory(bytes)
        };
        Ok(output)
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
        temporary: Temporary,
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
            Image::Mapped(Guarded::new(map, path))
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
                    Image::Mapped(Guarded::new(map(&self.file)?, &self.path))
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
        if let Some(temporary) = self.temporary.take() {
            temporary.rename(&self.path)?;
        }
        guard::output_is_complete();
        Ok(())
    }
}

/// The descriptor that a symbolic link leads to, open for writing; `None` if it leads to something else. As with GNU ld what
/// is there is written over from its beginning, if it can be; a socket, which has no name that could be opened, is written to.
fn descriptor(path: &Path) -> io::Result<Option<File>> {
    // As many links as the kernel follows.
    const MOST_LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        if !fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_symlink()) {
            return Ok(None);
        }
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let Ok(directory) = fs::canonicalize(directory) else {
            return Ok(None);
        };
        if directory.starts_with("/proc") && directory.ends_with("fd") {
            let opened = OpenOptions::new().write(true).truncate(true).open(&path);
            let number = path
                .file_name()
                .and_then(|name| name.to_str()?.parse().ok());
            return match (opened, number) {
                (Err(why), Some(number)) if why.raw_os_error() == Some(libc::ENXIO) => {
                    duplicate(number).map(Some)
                }
                (opened, _) => opened.map(Some),
            };
        }
        path = directory.join(fs::read_link(&path)?);
    }
    Ok(None)
}

/// Another descriptor for what the descriptor of this number is open for.
fn duplicate(number: RawFd) -> io::Result<File> {
    // SAFETY: a system call that takes a number; what it returns is checked.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and it was before this process began to do anything else: nobody closes it meanwhile.
    let open = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(File::from(open.try_clone_to_owned()?))
}

/// What became of the old output.
enum Taken {
    /// It is the temporary file now.
    Old(Temporary, File),
    /// It is where it was.
    Nothing(Temporary),
    /// It is where it was, and there is no temporary file any more.
    Lost,
}

/// Takes the old output away under the temporary name, if it may be written over; `new` is what it shall be like.
///
/// # Errors
/// Of the file system.
fn take_old(path: &Path, mut temporary: Temporary, new: &File) -> io::Result<Taken> {
    let open = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    // Nobody may write to a program that runs.
    let Ok(old) = open else {
        return Ok(Taken::Nothing(temporary));
    };
    if !is_like(&old, new)? || !lease(&old) || !is_cached(&old) {
        return Ok(Taken::Nothing(temporary));
    }
    // Opened before the rename, so that a running executable is not disturbed at all...
    if temporary.take(path, &old).is_err() {
        return Ok(Taken::Nothing(temporary));
    }
    // ...and compared after it: someone may have replaced the file in between, or be waiting to read it.
    let renamed = fs::symlink_metadata(temporary.path());
    if let (Ok(opened), Ok(renamed)) = (old.metadata(), renamed)
        && (opened.dev(), opened.ino()) == (renamed.dev(), renamed.ino())
        && opened.nlink() == 1
        && is_leased(&old)
    {
        return Ok(Taken::Old(temporary, old));
    }
    temporary.rename(path)?;
    Ok(Taken::Lost)
}

/// Whether a file has no extended attributes: capabilities and access control lists are such.
pub(crate) fn has_no_attributes(file: &File) -> bool {
    // SAFETY: a system call that is given no place to write to, and only counts.
    unsafe { libc::flistxattr(file.as_raw_fd(), std::ptr::null_mut(), 0) <= 0 }
}

/// Whether a file has the owner, group, mode and attributes of a new one, and none of what is never written over.
fn is_like(old: &File, new: &File) -> io::Result<bool> {
    let attributes = |file: &File| {
        // SAFETY: a system call that is given no place to write to, and only counts.
        unsafe { libc::flistxattr(file.as_raw_fd(), std::ptr::null_mut(), 0) }
    };
    let about = |file: &File| {
        let metadata = file.metadata()?;
        io::Result::Ok((metadata.uid(), metadata.gid(), metadata.mode()))
    };
    let (old_is, new_is) = (about(old)?, about(new)?);
    let meta = old.metadata()?;
    // That the new one's owner is the user is so but on file systems that have their own idea of owners.
    // SAFETY: a system call without arguments.
    let user = unsafe { libc::geteuid() };
    Ok(old_is == new_is
        && meta.is_file()
        && meta.len() > 0
        && meta.uid() == user
        && meta.nlink() == 1
        && meta.mode() & 0o6002 == 0
        && attributes(old) == attributes(new))
}

/// Asks for the only right to have a file open; until it is closed.
pub(crate) fn lease(file: &File) -> bool {
    let fd = file.as_raw_fd();
    // The signal that tells of somebody who waits would end the process; SIGURG is ignored unless asked for.
    // SAFETY: system calls on an open descriptor, no memory involved.
    unsafe {
        libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK) == 0
            && libc::fcntl(fd, F_SETSIG, libc::SIGURG) == 0
    }
}

/// Whether the lease still holds: nobody has come since who wants to open the file.
fn is_leased(file: &File) -> bool {
    // SAFETY: as above.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) == libc::F_WRLCK }
}

/// fcntl(2): which signal tells of a lease that is broken. Not among libc's constants.
const F_SETSIG: libc::c_int = 10;

/// Whether a file's pages are in the page cache, by those of them that a sample is.
fn is_cached(file: &File) -> bool {
    // SAFETY: not one byte of the mapping is looked at.
    let Ok(map) = (unsafe { MmapMut::map_mut(file) }) else {
        return false;
    };
    let sample = (0..map.len()).step_by(CHUNK_BYTES).chain([map.len() - 1]);
    sample.into_iter().all(|offset| {
        let page = map[offset & !(PAGE - 1)..].as_ptr();
        let mut is_resident = 0u8;
        // SAFETY: the address is that of a page of the mapping, the one byte that is written is a variable's.
        let result = unsafe { libc::mincore(page.cast_mut().cast(), 1, &raw mut is_resident) };
        result == 0 && is_resident & 1 != 0
    })
}

/// Reserves the blocks of a file. `false` if the file system cannot.
pub(crate) fn reserve(file: &File, len: usize) -> io::Result<bool> {
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
    // SAFETY: the file is ours under a name that nobody else uses, and all its blocks are allocated.
    // Another process that finds and truncates it ends the link with a message, see `store::guard`.
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
    use super::{Image, OutputFile, Use, is_cached};
    use crate::base::children;
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
        let _alone = children::none();
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
        let _alone = children::none();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        write(&path, 1, 5_000_000, Use::Executable);
        let old = fs::metadata(&path).unwrap().ino();
        let open = || fs::File::options().read(true).write(true).open(&path);
        let file = open().unwrap();
        assert!(is_cached(&file));
        file.sync_all().unwrap();
        // SAFETY: a system call on an open descriptor, no memory involved.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 3_000_000, 0, libc::POSIX_FADV_DONTNEED) };
        // File systems in memory do not follow the advice.
        let is_cached = is_cached(&file);
        drop(file);
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
    fn only_a_file_like_a_new_one_is_written_over() {
        let _alone = children::none();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let inode = || fs::metadata(&path).unwrap().ino();
        write(&path, 1, 10_000, Use::Executable);
        let mode = fs::metadata(&path).unwrap().mode() & 0o7777;
        for strange in [mode ^ 0o022, mode | 0o4000, mode | 0o2000, mode & 0o700] {
            if strange == mode {
                continue;
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(strange)).unwrap();
            let old = inode();
            // Held open, it keeps its number from the next file.
            let _held = fs::File::open(&path).unwrap();
            write(&path, 2, 10_000, Use::Executable);
            assert_ne!(inode(), old, "{strange:o}");
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode);
        }
        let old = inode();
        write(&path, 3, 10_000, Use::Executable);
        assert_eq!(inode(), old);
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: both names are C strings, and the value is as long as is said.
        let marked = unsafe {
            libc::setxattr(
                name.as_ptr(),
                c"user.mark".as_ptr(),
                b"mark".as_ptr().cast(),
                4,
                0,
            )
        };
        // Not every file system has attributes.
        if marked == 0 {
            write(&path, 4, 10_000, Use::Executable);
            assert_ne!(inode(), old);
        }
        // What another user owns: only root can give a file away.
        if std::os::unix::fs::chown(&path, Some(1), None).is_ok() {
            let old = inode();
            write(&path, 5, 10_000, Use::Executable);
            assert_ne!(inode(), old);
            assert_ne!(fs::metadata(&path).unwrap().uid(), 1);
        }
    }

    #[test]
    fn who_reads_the_old_output_sees_no_mixture() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        write(&path, 1, 10_000, Use::Executable);

        let mut reader = fs::File::open(&path).unwrap();
        write(&path, 2, 10_000, Use::Executable);
        let mut seen = Vec::new();
        std::io::Read::read_to_end(&mut reader, &mut seen).unwrap();
        assert!(seen == [1; 10_000]);

        // As the dynamic linker does, which closes what it has mapped.
        let file = fs::File::open(&path).unwrap();
        // SAFETY: nobody changes the file, which is what is shown here.
        let mapped = unsafe { memmap2::Mmap::map(&file).unwrap() };
        drop(file);
        write(&path, 3, 10_000, Use::Executable);
        assert!(mapped[..] == [2; 10_000]);

        // Who has it open for writing is left alone as well.
        let writer = fs::File::options().write(true).open(&path).unwrap();
        let old = writer.metadata().unwrap().ino();
        write(&path, 4, 10_000, Use::Executable);
        assert_ne!(fs::metadata(&path).unwrap().ino(), old);
    }

    #[test]
    fn who_opens_the_old_output_while_it_is_written_over_sees_it_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (path, kept) = (dir.path().join("out"), dir.path().join("kept"));
        write(&path, 1, 10_000, Use::Executable);
        let mut output = OutputFile::create(&path, 10_000, Use::Executable).unwrap();
        let is_old = !output.is_zeroed();
        output.bytes()[..5000].fill(2);
        // By a name that it has meanwhile; in truth it is who has found the old name and is about to open it.
        if let Some(temporary) = &output.temporary {
            symlink(temporary.path(), &kept).unwrap();
        }
        let opens = {
            let kept = kept.clone();
            std::thread::spawn(move || fs::read(kept).unwrap())
        };
        if is_old {
            // The lease is broken once somebody waits.
            while super::is_leased(&output.file) {
                std::thread::yield_now();
            }
            output.bytes()[5000..].fill(2);
            output.commit().unwrap();
            assert!(opens.join().unwrap() == [2; 10_000]);
        }
    }

    #[test]
    fn names_may_be_as_long_as_the_file_system_has_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n".repeat(255));
        write(&path, 1, 10, Use::Executable);
        write(&path, 2, 10, Use::Executable);
        write(&path, 3, 10, Use::Data);
    }

    #[test]
    fn what_a_killed_link_left_is_in_nobodys_way() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        for used_as in [Use::Executable, Use::Shared] {
            for _ in 0..3 {
                let mut output = OutputFile::create(&path, 100, used_as).unwrap();
                output.bytes().fill(9);
                // As if the process were gone: the descriptor is closed, and the file stays.
                let left = output.temporary.as_ref().unwrap().path().to_owned();
                let content = fs::read(&left).unwrap_or_default();
                drop(output);
                fs::write(&left, content).unwrap();
            }
            write(&path, 1, 100, used_as);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn an_open_descriptor_is_written_to_and_its_name_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "what was here before, and is longer").unwrap();
        let open = fs::File::options().write(true).open(&file).unwrap();
        let inode = open.metadata().unwrap().ino();
        let name = format!("/dev/fd/{}", open.as_raw_fd());
        let mut output = OutputFile::create(Path::new(&name), 10, Use::Executable).unwrap();
        output.bytes().fill(1);
        output.commit().unwrap();
        assert_eq!(fs::read(&file).unwrap(), [1; 10]);
        assert_eq!(fs::metadata(&file).unwrap().ino(), inode);
        // By way of links.
        symlink(&name, &link).unwrap();
        symlink("link", dir.path().join("other")).unwrap();
        let mut output =
            OutputFile::create(&dir.path().join("other"), 20, Use::Executable).unwrap();
        output.bytes().fill(2);
        output.commit().unwrap();
        assert_eq!(fs::read(&file).unwrap(), [2; 20]);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        // What has no name to be opened by.
        let (one, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
        let name = format!("/proc/self/fd/{}", one.as_raw_fd());
        let mut output = OutputFile::create(Path::new(&name), 10, Use::Executable).unwrap();
        output.bytes().fill(3);
        output.commit().unwrap();
        drop(one);
        let mut seen = Vec::new();
        std::io::Read::read_to_end(&mut other, &mut seen).unwrap();
        assert_eq!(seen, [3; 10]);
        let closed = Path::new("/dev/fd/987654");
        assert!(OutputFile::create(closed, 10, Use::Executable).is_err());
    }

    #[test]
    fn a_running_executable_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cat");
        // Copied by another process: of a file that this one has open for writing a child may have a copy of the descriptor, and what
        // is open for writing cannot be run.
        let start = children::start();
        let copied = std::process::Command::new("cp")
            .args([Path::new("/bin/cat"), &path])
            .status();
        assert!(copied.unwrap().success());
        let mut child = std::process::Command::new(&path)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop(start);
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
        let _alone = children::none();
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
