//! The new file, until it takes the old one's place.
//!
//! Root may compact the repository of a user, who can do with the directory what he likes
//! meanwhile: rename, replace, put links where files were. So nothing is done to the new file
//! by its name. It has none where the file system can do that (`O_TMPFILE`), else a random one
//! that nobody had before (`O_EXCL`); owner and permissions are set through its descriptor, and
//! taken from the descriptor of the old one. Names are looked up in the directory that was
//! opened and locked. Only the renaming itself goes by name: before it, both names are seen to
//! lead to these two files, and what can happen after that look is that the user's own
//! directory gets another one of the user's own files under that name.
//!
//! A compactor that is killed may leave its file behind under the random name. The next one,
//! which has the directory's lock, takes it away.

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use store::engine::{OpenOptions, Store};
use store::guard;

/// The repository's directory. Two compactors in one would be in each other's way, so it is
/// locked (flock(2), which the kernel undoes however the process ends).
pub struct Directory {
    file: File,
    path: PathBuf,
    /// The repository's name in it.
    name: OsString,
}

impl Directory {
    /// Opens and locks the directory of the repository at `path`, which is absolute and without
    /// symbolic links.
    ///
    /// # Errors
    /// If it cannot be opened, or another compactor has locked it.
    pub fn lock(path: &Path) -> Result<Directory> {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            bail!("{}: is no file", path.display());
        };
        let shown = directory.display();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(directory, flags, Mode::empty())
            .with_context(|| format!("{shown}: cannot open"))?;
        let file = File::from(file);
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => bail!("{shown}: another repo-gc is at work here"),
            Err(error) => return Err(error).with_context(|| format!("{shown}: cannot lock")),
        }
        Ok(Directory {
            file,
            path: directory.to_owned(),
            name: name.to_owned(),
        })
    }

    /// Whether a name in it leads to the file of this device and inode number.
    fn leads_to(&self, name: &OsStr, (device, inode): (u64, u64)) -> bool {
        let found = rustix::fs::statat(&self.file, name, AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|found| (found.st_dev, found.st_ino) == (device, inode))
    }

    /// Checks that the repository is still the file that is open.
    ///
    /// # Errors
    /// If it is not.
    pub fn check(&self, old: &Store) -> Result<()> {
        if self.leads_to(&self.name, old.identity()) {
            return Ok(());
        }
        bail!(
            "{}: another file has taken its place meanwhile; nothing was changed",
            old.path().display()
        )
    }

    /// Random names begin and end so.
    fn is_temporary(&self, name: &[u8]) -> bool {
        let rest = name
            .strip_prefix(self.name.as_bytes())
            .and_then(|rest| rest.strip_prefix(b".gc-"))
            .and_then(|rest| rest.strip_suffix(b".tmp"));
        rest.is_some_and(|random| random.len() == 16 && random.iter().all(u8::is_ascii_hexdigit))
    }

    fn random_name(&self) -> Result<OsString> {
        let mut bits = [0; 8];
        rustix::rand::getrandom(&mut bits, rustix::rand::GetRandomFlags::empty())?;
        let mut name = self.name.clone();
        name.push(format!(".gc-{:016x}.tmp", u64::from_le_bytes(bits)));
        Ok(name)
    }

    /// Takes away what killed compactors have left.
    fn sweep(&self) {
        let Ok(entries) = Dir::read_from(&self.file) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if entry.file_type() != FileType::Directory && self.is_temporary(name.to_bytes()) {
                // Best effort: it is in nobody's way.
                let _ = rustix::fs::unlinkat(&self.file, name, AtFlags::empty());
            }
        }
    }
}

/// The new file; it goes with the last descriptor, or is removed, if it is not to be.
pub struct NewFile<'d> {
    directory: &'d Directory,
    file: File,
    /// Its name, if it has one.
    name: Option<OsString>,
}

impl<'d> NewFile<'d> {
    /// Makes it, empty and for this user alone.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(directory: &'d Directory) -> Result<NewFile<'d>> {
        directory.sweep();
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        // Given its name through /proc: where that is missing, it could not have one.
        if Path::new("/proc/self/fd").exists()
            && let Ok(file) =
                rustix::fs::openat(&directory.file, ".", flags | OFlags::TMPFILE, mode)
        {
            return Ok(NewFile {
                directory,
                file: file.into(),
                name: None,
            });
        }
        let name = directory.random_name()?;
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(&directory.file, &name, flags, mode).with_context(|| {
            let path = directory.path.join(&name);
            format!("{}: cannot create", path.display())
        })?;
        Ok(NewFile {
            directory,
            file: file.into(),
            name: Some(name),
        })
    }

    /// Makes a repository of it, as which it is then to be filled.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn repository(&self, options: &OpenOptions) -> Result<Store> {
        let path = self.directory.path.join(&self.directory.name);
        let file = self.file.try_clone()?;
        Ok(Store::make_in(file, &path, options)?)
    }

    /// Gives it the owner and the permissions of the old file, and a name of its own: all that can be done before writers
    /// have to wait.
    ///
    /// # Errors
    /// If that is not possible.
    pub fn prepare(&mut self, old: &Store) -> Result<()> {
        self.prepared(old).map(|_| ())
    }

    fn prepared(&mut self, old: &Store) -> Result<OsString> {
        let cannot = |what: &'static str| format!("{}: cannot {what}", old.path().display());
        let before = old.file().metadata()?;
        let now = self.file.metadata()?;
        if (now.uid(), now.gid()) != (before.uid(), before.gid()) {
            std::os::unix::fs::fchown(&self.file, Some(before.uid()), Some(before.gid()))
                .with_context(|| {
                    let owner = before.uid();
                    cannot("give the new file the owner of the old one")
                        + &format!("; let user {owner} or root run repo-gc")
                })?;
        }
        // Nothing but reading and writing: no program has any business with the other bits.
        let mode = before.mode() & 0o666;
        if self.file.metadata()?.mode() & 0o7777 != mode {
            rustix::fs::fchmod(&self.file, Mode::from_raw_mode(mode))
                .with_context(|| cannot("set the permissions of the new file"))?;
        }
        self.named().with_context(|| cannot("name the new file"))
    }

    /// [Prepares](Self::prepare) it, as far as that is not done or the old file has changed since, and gives it the old one's name.
    ///
    /// # Errors
    /// If that is not possible. Then the old one is where it was.
    pub fn take_place(mut self, old: &Store) -> Result<Swapped<'d>> {
        let directory = self.directory;
        let name = self.prepared(old)?;
        directory.check(old)?;
        let file = self.file.metadata()?;
        if !directory.leads_to(&name, (file.dev(), file.ino())) {
            bail!(
                "{}: another file has taken its place meanwhile; nothing was changed",
                directory.path.join(&name).display()
            );
        }
        rustix::fs::renameat(&directory.file, &name, &directory.file, &directory.name)
            .with_context(|| format!("{}: cannot rename the new file", old.path().display()))?;
        self.name = None;
        guard::output_is_complete();
        Ok(Swapped { directory })
    }

    /// Its name, which it gets if it has none.
    fn named(&mut self) -> Result<OsString> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let name = self.directory.random_name()?;
        let open = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::linkat(
            rustix::fs::CWD,
            &open,
            &self.directory.file,
            &name,
            AtFlags::SYMLINK_FOLLOW,
        )?;
        self.name = Some(name.clone());
        Ok(name)
    }
}

/// The new file has the old one's name; whether that is so on the disk is another question.
#[must_use]
pub struct Swapped<'d> {
    directory: &'d Directory,
}

impl Swapped<'_> {
    /// Waits until the disk has the new name, if it can.
    pub fn sync(&self) {
        // Without it a power cut leaves the old file or the new one: both are good.
        let _ = self.directory.file.sync_all();
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = rustix::fs::unlinkat(&self.directory.file, name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn make(path: &Path) -> Store {
        let options = OpenOptions {
            create: true,
            ..OpenOptions::default()
        };
        Store::open(path, &options).expect("made")
    }

    #[test]
    fn owner_and_permissions_are_the_old_files_and_no_special_bits() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().canonicalize().expect("it is there").join("r");
        let old = make(&path);
        let mode = std::fs::Permissions::from_mode(0o6664);
        std::fs::set_permissions(&path, mode).expect("set");
        let directory = Directory::lock(&path).expect("locked");
        let new = NewFile::new(&directory).expect("made");
        let store = new.repository(&OpenOptions::default()).expect("made");
        new.take_place(&old).expect("renamed").sync();
        let found = std::fs::metadata(&path).expect("there");
        assert_eq!((found.dev(), found.ino()), store.identity());
        assert_eq!(found.mode() & 0o7777, 0o664);
        assert_eq!(std::fs::read_dir(place.path()).expect("read").count(), 1);
    }

    #[test]
    fn what_was_put_in_the_old_files_place_stays() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().canonicalize().expect("it is there").join("r");
        let old = make(&path);
        let directory = Directory::lock(&path).expect("locked");
        let new = NewFile::new(&directory).expect("made");
        let _store = new.repository(&OpenOptions::default()).expect("made");
        let victim = place.path().join("victim");
        std::fs::write(&victim, "victim").expect("written");
        std::fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink(&victim, &path).expect("linked");
        let error = new.take_place(&old).err().expect("it is another file");
        assert!(error.to_string().contains("taken its place"), "{error}");
        assert!(path.is_symlink());
        // Neither has the new file left anything.
        assert_eq!(std::fs::read_dir(place.path()).expect("read").count(), 2);
    }

    #[test]
    fn only_ones_own_leftovers_are_swept() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().canonicalize().expect("it is there").join("r");
        make(&path);
        let kept = [
            "r.gc-x.tmp",
            "r.gc-0123456789abcdeg.tmp",
            "s.gc-0123456789abcdef.tmp",
        ];
        for name in kept.iter().chain(&["r.gc-0123456789abcdef.tmp"]) {
            std::fs::write(place.path().join(name), "").expect("written");
        }
        let directory = Directory::lock(&path).expect("locked");
        drop(NewFile::new(&directory).expect("made"));
        for name in kept {
            assert!(place.path().join(name).exists(), "{name}");
        }
        assert!(!place.path().join("r.gc-0123456789abcdef.tmp").exists());
    }
}
