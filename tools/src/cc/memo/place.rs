//! Where a compile runs: whether its directory has kept its name meanwhile. Compilers write the name into debug information, each when
//! it starts; of a name that was another one in between no path tells afterwards.
//!
//! Who renames a directory changes the one above it. Where those above have old times, it kept its name. Of directories below one in
//! which files come and go the kernel must be asked to tell. That is right everywhere, but the kernel makes whoever has asked wait
//! for some milliseconds at the end; so it is only done below directories that were changed shortly before, and below that for temporary files,
//! where compilers have some of their own.

use super::{inputs, key};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use std::env;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A directory that is watched while a compile runs.
#[derive(Debug)]
pub struct Place {
    directory: PathBuf,
    logical: Vec<u8>,
    watched: Watched,
}

/// How it is known whether directories are renamed.
#[derive(Debug)]
enum Watched {
    /// By the times of those above: device and inode of the directory and of these.
    Times(Vec<(u64, u64)>),
    /// The kernel tells.
    Kernel(OwnedFd),
    /// Not at all.
    No,
}

const RENAMED: &str = "the working directory was renamed just now";
/// Whoever did that may have renamed it.
const PERHAPS_RENAMED: &str = "a directory above the working directory was changed just now";

/// A directory that was changed less than this before, in nanoseconds, may be changed again at any time.
const QUIET: u64 = 10_000_000_000;

/// The directories above one.
fn above(directory: &Path) -> impl Iterator<Item = &Path> {
    directory.ancestors().skip(1)
}

/// Whether a directory was changed the last time before `time`.
fn is_older(directory: &Path, time: u64) -> bool {
    fs::metadata(directory).is_ok_and(|found| inputs::changed(&found) < time)
}

/// Whether, as it seems at the time `now`, nobody will change the directories above one soon.
fn is_quiet_above(directory: &Path, now: u64) -> bool {
    let temporary = env::temp_dir();
    above(directory).all(|it| it != temporary && is_older(it, now.saturating_sub(QUIET)))
}

/// Device and inode of a directory and of those above.
fn identities(directory: &Path) -> Option<Vec<(u64, u64)>> {
    let identity = |place: &Path| {
        let found = fs::metadata(place).ok()?;
        Some((found.dev(), found.ino()))
    };
    directory.ancestors().map(identity).collect()
}

/// Asks the kernel to tell when the working directory, or one above it, is renamed.
fn ask_kernel(directory: &Path) -> Result<OwnedFd, Errno> {
    let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let events = WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
    inotify::add_watch(&watch, ".", events)?;
    for above in directory.ancestors() {
        inotify::add_watch(&watch, above, events)?;
    }
    Ok(watch)
}

impl Place {
    /// The working directory, of which the name is taken to be `directory`.
    pub fn watch(directory: &Path) -> Place {
        let watched = match is_quiet_above(directory, inputs::now()) {
            true => identities(directory).map(Watched::Times),
            false => ask_kernel(directory).ok().map(Watched::Kernel),
        };
        Place {
            directory: directory.to_owned(),
            logical: key::logical_directory(),
            watched: watched.unwrap_or(Watched::No),
        }
    }

    /// Whether it had this name all the time since `start`.
    ///
    /// # Errors
    /// In words, why that is not so, or not known.
    pub fn check(&self, start: u64) -> Result<(), &'static str> {
        self.check_renames(start)?;
        let is_same = env::current_dir().is_ok_and(|now| now == self.directory)
            && key::logical_directory() == self.logical;
        if !is_same {
            return Err(RENAMED);
        }
        // A link on the way to it, as the environment names it, is new when it is switched.
        let is_new_link = |place: &Path| {
            let found = fs::symlink_metadata(place);
            !found.is_ok_and(|found| !found.is_symlink() || inputs::changed(&found) < start)
        };
        let logical = inputs::path(&self.logical);
        let mut places = logical.ancestors().filter(|it| *it != Path::new(""));
        match places.any(is_new_link) {
            true => Err(RENAMED),
            false => Ok(()),
        }
    }

    /// The same without what its name is now.
    fn check_renames(&self, start: u64) -> Result<(), &'static str> {
        match &self.watched {
            Watched::Times(before) if identities(&self.directory).as_ref() != Some(before) => {
                Err(RENAMED)
            }
            Watched::Times(_) => match above(&self.directory).all(|it| is_older(it, start)) {
                true => Ok(()),
                false => Err(PERHAPS_RENAMED),
            },
            Watched::Kernel(watch) => {
                let mut buffer = [MaybeUninit::uninit(); 1024];
                let mut events = inotify::Reader::new(watch, &mut buffer);
                // Each event is one of those that were asked for, or says that there were too many.
                match events.next() {
                    Err(Errno::AGAIN) => Ok(()),
                    _ => Err(RENAMED),
                }
            }
            Watched::No => Err("the working directory cannot be watched"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_times(directory: &Path) -> Place {
        Place {
            directory: directory.to_owned(),
            logical: Vec::new(),
            watched: identities(directory).map_or(Watched::No, Watched::Times),
        }
    }

    /// A time that all changes of now on have passed.
    fn passed() -> u64 {
        let start = inputs::now();
        while inputs::now() == start {
            std::thread::yield_now();
        }
        inputs::now()
    }

    #[test]
    fn renamed_directories_are_seen_by_their_times() {
        let dir = tempfile::tempdir().expect("a directory");
        let (inner, outer) = (dir.path().join("a/b"), dir.path().join("a"));
        let other = dir.path().join("c");
        fs::create_dir_all(&inner).expect("made");
        let start = passed();
        let place = by_times(&inner);
        // What is built changes the directory, not the one above. (Further up others change what they like.)
        fs::write(inner.join("x.o"), "").expect("written");
        assert!(is_older(&outer, start) && !is_older(&inner, start));
        fs::rename(&inner, &other).expect("renamed");
        assert_eq!(place.check_renames(start), Err(RENAMED));
        fs::rename(&other, &inner).expect("renamed");
        assert!(!is_older(&outer, start));
        assert_eq!(place.check_renames(start), Err(PERHAPS_RENAMED));
        assert!(is_older(&outer, passed()));
        // Another one in its place.
        fs::rename(&inner, &other).expect("renamed");
        fs::create_dir(&inner).expect("made");
        assert_eq!(place.check_renames(passed()), Err(RENAMED));
    }

    #[test]
    fn times_are_trusted_where_it_is_quiet() {
        let far = u64::MAX / 2;
        let (library, temporary) = (Path::new("/usr/lib"), env::temp_dir().join("x"));
        assert!(is_quiet_above(library, far));
        assert!(!is_quiet_above(library, 0));
        // There compilers make files of their own, and remove them.
        assert!(!is_quiet_above(&temporary, far));
        assert!(!is_quiet_above(&temporary.join("y"), far));
        assert!(!is_quiet_above(Path::new("/not/there"), far));
    }

    #[test]
    fn the_kernel_tells_of_the_working_directory() {
        let directory = env::current_dir().expect("there");
        let place = Place {
            directory: directory.clone(),
            logical: key::logical_directory(),
            watched: ask_kernel(&directory).map_or(Watched::No, Watched::Kernel),
        };
        assert_eq!(place.check(u64::MAX), Ok(()));
        // By times: what has changed since long ago may have been renamed.
        let place = Place {
            watched: identities(&directory).map_or(Watched::No, Watched::Times),
            ..place
        };
        assert_eq!(place.check(0), Err(PERHAPS_RENAMED));
        assert_eq!(place.check(u64::MAX), Ok(()));
    }
}
