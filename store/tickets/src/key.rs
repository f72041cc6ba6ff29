//! The key with which a user's `repo-cc` signs how tickets were made: 32 random bytes in a file of the user's own, apart
//! from repositories, which others may write.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use store::guard::Temporary;

/// The directory below `$XDG_CONFIG_HOME`.
const DIRECTORY: &str = "program-repository";
/// The file in it.
const FILE_NAME: &str = "key";

/// A key.
#[derive(Clone)]
pub struct Key(pub(crate) [u8; 32]);

/// Where the user's key is: below `$XDG_CONFIG_HOME`, else below `~/.config`. `None`: there is no such place.
pub fn place() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let config = set("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| set("HOME").map(|home| Path::new(&home).join(".config")))?;
    Some(config.join(DIRECTORY).join(FILE_NAME))
}

impl Key {
    /// Reads the key at `path`. `None` if there is none.
    ///
    /// # Errors
    /// Those of reading; and if the file is not the user's alone.
    pub fn read(path: &Path) -> io::Result<Option<Key>> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let mut file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        check(&file)?;
        let mut key = [0; 32];
        file.read_exact(&mut key)?;
        Ok(Some(Key(key)))
    }

    /// Reads the key at `path`, or makes one there.
    ///
    /// # Errors
    /// As [`read`](Self::read), and those of writing; and if the directories above belong to another user, as they do when
    /// `sudo` leaves `$HOME` as it was: he could not read it afterwards.
    pub fn read_or_make(path: &Path) -> io::Result<Key> {
        if let Some(key) = Key::read(path)? {
            return Ok(key);
        }
        let directory = path.parent().unwrap_or(Path::new("/"));
        let existing = directory
            .ancestors()
            .find_map(|above| above.metadata().ok());
        if existing.is_some_and(|above| above.uid() != user()) {
            return Err(io::Error::other("its directory belongs to another user"));
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
        let mut key = [0; 32];
        rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
        let (temporary, mut file) = Temporary::create(".repo-cc-", path, 0o600)?;
        file.write_all(&key)?;
        // Many compilers start at once: the first one's is everybody's.
        match std::fs::hard_link(temporary.path(), path) {
            Ok(()) => Ok(Key(key)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Key::read(path)?.ok_or(error)
            }
            Err(error) => Err(error),
        }
    }
}

/// That nobody else can read or change it.
fn check(file: &File) -> io::Result<()> {
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.uid() != user() || metadata.mode() & 0o077 != 0 {
        return Err(io::Error::other(
            "it must be a file of the user's own, with mode 0600",
        ));
    }
    Ok(())
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn all_who_start_at_once_have_the_same() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("config/program-repository/key");
        assert!(Key::read(&path).expect("nothing there").is_none());
        let make = || Key::read_or_make(&path).expect("a key").0;
        let keys: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("a key"))
                .collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0] && *key != [0; 32]));
        assert_eq!(path.metadata().expect("there").mode() & 0o777, 0o600);
        let in_it = path.parent().expect("above").read_dir().expect("readable");
        assert_eq!(in_it.count(), 1);
    }

    #[test]
    fn what_others_can_read_is_no_key() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("key");
        Key::read_or_make(&path).expect("a key");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("a mode");
        assert!(Key::read(&path).is_err() && Key::read_or_make(&path).is_err());
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        assert!(Key::read(&link).is_err());
    }
}
