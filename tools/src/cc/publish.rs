//! Putting a ticket where the compiler has written an object.
//!
//! The compiler writes its object itself, under the name that the build asked
//! for. Only afterwards is it looked at: if it is a new, regular ELF relocatable
//! object, it is imported into the repository, and a file with the ticket is
//! renamed over it. Whoever looks, sees the object or the ticket, whole. (With
//! `--fat`, what is renamed over it is the object with the ticket's note.) If
//! anything is in the way the object stays, which every linker accepts.

use super::import::{self, Made, Ordinary, Summary};
use super::lease::{self, IsWritten};
use super::run::HeldSignals;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use store::guard::Temporary;
use tickets::Ticket;

/// What tells two states of a file apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// An output that the compiler is about to write.
#[derive(Debug)]
pub struct Expected {
    path: PathBuf,
    before: Option<Stamp>,
}

impl Expected {
    /// Notes what is there before the compiler runs. `None` if the output can
    /// never become a ticket, because the name is that of a device, a pipe or
    /// a directory.
    pub fn new(path: PathBuf) -> Option<Expected> {
        let before = match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => Some(stamp(&metadata)),
            Ok(_) => return None,
            Err(_) => None,
        };
        Some(Expected { path, before })
    }

    /// The name, as the build gave it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where it will be, without symbolic links in the directory's path.
    pub fn absolute(&self) -> Option<PathBuf> {
        if let Ok(path) = fs::canonicalize(&self.path) {
            return Some(path);
        }
        let directory = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        Some(
            fs::canonicalize(directory)
                .ok()?
                .join(self.path.file_name()?),
        )
    }

    /// Replaces the object that the compiler has written by a ticket. Gives what is to be said of it, too.
    pub fn publish(
        &self,
        importer: &mut import::Importer<'_>,
    ) -> Result<(Made, Summary), Ordinary> {
        let quiet = |reason: &str| Ordinary::Quiet(reason.to_owned());
        let unreadable = |error: io::Error| Ordinary::Quiet(format!("cannot be read: {error}"));
        // Through symbolic links to the file itself: the links stay.
        let target = fs::canonicalize(&self.path).map_err(unreadable)?;
        let file = open_regular(&target).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(quiet("not a regular file"));
        }
        if Some(stamp(&metadata)) == self.before {
            return Err(quiet("the compiler did not write it"));
        }
        if metadata.nlink() > 1 {
            // Renaming would take it away from its other names.
            return Err(quiet("the file has other names (hard links)"));
        }
        let mut object = Vec::with_capacity(usize::try_from(metadata.size()).unwrap_or(0));
        lease::while_nobody_writes(&file, || (&file).read_to_end(&mut object))
            .map_err(|IsWritten| quiet("another process writes it"))?
            .map_err(unreadable)?;
        if !is_elf_object(&object) {
            return Err(quiet("not an x86-64 ELF object"));
        }
        // Another process that compiles into the same name may have been faster.
        if !matches!(Ticket::parse(&object), Ok(None)) {
            return Err(quiet("a ticket already"));
        }
        let is_still = || {
            let now = fs::symlink_metadata(&target);
            now.is_ok_and(|now| stamp(&now) == stamp(&metadata))
        };
        let imported = importer.import(&object, &target, &is_still)?;
        if !is_still() {
            return Err(quiet("another process writes it"));
        }
        replace(&target, &imported.ticket, &metadata).map_err(|error| {
            Ordinary::Told(format!(
                "{}: cannot write the ticket: {error}",
                target.display()
            ))
        })?;
        let made = Made {
            compilation: imported.digest(),
            object,
        };
        Ok((made, imported.summary))
    }
}

/// The absolute path, without symbolic links, at which an output is or will be; `None` where a ticket cannot simply be put there: what
/// is there is no file, has other names or must not be written, or there is no directory for it.
pub fn place_for(output: &Path) -> Option<PathBuf> {
    if let Ok(target) = fs::canonicalize(output) {
        let metadata = fs::metadata(&target).ok()?;
        let is_plain = metadata.is_file() && metadata.nlink() == 1;
        let is_ours = || OpenOptions::new().write(true).open(&target).is_ok();
        return (is_plain && is_ours()).then_some(target);
    }
    // A link that leads nowhere.
    if fs::symlink_metadata(output).is_ok() {
        return None;
    }
    let directory = match output.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Some(fs::canonicalize(directory).ok()?.join(output.file_name()?))
}

/// Puts a ticket where no compiler has written an object.
///
/// # Errors
/// Of the file system.
pub fn put(target: &Path, ticket: &[u8]) -> io::Result<()> {
    let mode = match fs::metadata(target) {
        Ok(metadata) => metadata.mode() & 0o7777,
        Err(_) => {
            // SAFETY: no memory is concerned; this process has one thread.
            let mask = unsafe {
                let mask = libc::umask(0o077);
                libc::umask(mask);
                mask
            };
            0o666 & !mask
        }
    };
    put_with_mode(target, ticket, mode)
}

/// The stamp of a file.
fn stamp(metadata: &fs::Metadata) -> Stamp {
    Stamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.size(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    }
}

/// Opens a file for reading without waiting, should it be a pipe by now.
fn open_regular(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
        .open(path)
}

/// Whether these are the bytes of a relocatable object for x86-64 (gABI, "ELF
/// Header": class, byte order, type and machine). What is wrong with it
/// otherwise, the import finds.
fn is_elf_object(bytes: &[u8]) -> bool {
    const ET_REL: u8 = 1;
    const EM_X86_64: u8 = 62;
    bytes.starts_with(b"\x7fELF\x02\x01\x01")
        && bytes.get(16..20) == Some(&[ET_REL, 0, EM_X86_64, 0])
}

/// Puts a file with these bytes in the place of `target`, with its mode.
fn replace(target: &Path, bytes: &[u8], metadata: &fs::Metadata) -> io::Result<()> {
    // What was compiled is worth more than the time until it has its place.
    let _held = HeldSignals::ending();
    put_with_mode(target, bytes, metadata.mode() & 0o7777)
}

fn put_with_mode(target: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let (temporary, mut file) = Temporary::create(".repo-cc-", target, 0o600)?;
    file.write_all(bytes)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    temporary.rename(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_directories_never_become_tickets() {
        assert!(Expected::new("/dev/null".into()).is_none());
        assert!(Expected::new("/tmp".into()).is_none());
        assert!(Expected::new("/tmp/no/such/file.o".into()).is_some());
    }

    #[test]
    fn objects_are_told_by_their_header() {
        let mut header = b"\x7fELF\x02\x01\x01".to_vec();
        header.resize(64, 0);
        header[16] = 1;
        header[18] = 62;
        assert!(is_elf_object(&header));
        assert!(!is_elf_object(&header[..19]));
        assert!(!is_elf_object(b""));
        assert!(!is_elf_object(b"BC\xc0\xde"));
        header[18] = 183;
        assert!(!is_elf_object(&header), "another machine");
        header[18] = 62;
        header[16] = 2;
        assert!(!is_elf_object(&header), "an executable");
    }

    #[test]
    fn the_replacement_keeps_the_mode_and_leaves_nothing_else() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let target = dir.path().join("a.o");
        fs::write(&target, "object").expect("object");
        fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).expect("mode");
        let metadata = fs::metadata(&target).expect("metadata");
        replace(&target, b"ticket", &metadata).expect("replaced");
        assert_eq!(fs::read(&target).expect("ticket"), b"ticket");
        assert_eq!(
            fs::metadata(&target).expect("metadata").mode() & 0o7777,
            0o640
        );
        assert_eq!(fs::read_dir(dir.path()).expect("directory").count(), 1);
    }
}
