//! Where a compile runs: whether its directory has kept its name meanwhile. Compilers write the name into debug information, each when
//! it starts; of a name that was another one in between nothing tells afterwards.

use super::{inputs, key};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use std::env;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A directory that is watched while a compile runs.
#[derive(Debug)]
pub struct Place {
    directory: PathBuf,
    logical: Vec<u8>,
    watch: Option<OwnedFd>,
}

impl Place {
    /// The working directory, of which the name is taken to be `directory`.
    pub fn watch(directory: &Path) -> Place {
        let watch = || -> Result<OwnedFd, Errno> {
            let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            let events = WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
            inotify::add_watch(&watch, ".", events)?;
            for above in directory.ancestors() {
                inotify::add_watch(&watch, above, events)?;
            }
            Ok(watch)
        };
        Place {
            directory: directory.to_owned(),
            logical: key::logical_directory(),
            watch: watch().ok(),
        }
    }

    /// Whether it had this name all the time since `start`.
    ///
    /// # Errors
    /// In words, why that is not so, or not known.
    pub fn check(&self, start: u64) -> Result<(), &'static str> {
        const RENAMED: &str = "the working directory was renamed just now";
        let watch = self.watch.as_ref();
        let watch = watch.ok_or("the working directory cannot be watched")?;
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut events = inotify::Reader::new(watch, &mut buffer);
        // Each event is one of those that were asked for, or says that there were too many.
        match events.next() {
            Err(Errno::AGAIN) => {}
            _ => return Err(RENAMED),
        }
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
}
