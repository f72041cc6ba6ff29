//! The spare image: where an incremental link makes the changed output, so that the old one stands, whole, until the new one
//! takes its place.
//!
//! To copy a large output for each small change would cost more than the change. So there are two files: the output, and
//! beside the state the output before the last link. What that link has changed is known ([`Header::stale`](super::state::Header::stale));
//! it is copied from the output, then the spare is changed, and the two files change places (`RENAME_EXCHANGE`). A kill leaves
//! the old output or the new one, and who runs or has mapped the old one keeps it: a spare that anybody else has open, or
//! that has another name (cargo makes hard links), is let go, and a new copy is made.

use super::state::State;
use crate::output_file::{self, OutputFile};
use crate::stamp::Stamp;
use memmap2::MmapMut;
use rustix::fs::{CWD, RenameFlags, Timespec, Timestamps, UTIME_NOW, futimens, renameat_with};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use store::guard::{self, Guarded};

/// The changed output, which is made in one of these.
pub(super) enum Canvas {
    /// A file that changes places with the output.
    Spare(Spare),
    /// One of a temporary name beside the output: where the state is on another file system, or the old output cannot be kept.
    Copy(OutputFile),
}

/// A file that becomes the output.
pub(super) struct Spare {
    path: PathBuf,
    map: Guarded<MmapMut>,
    file: File,
}

/// A range of a file: offset and size.
pub(super) type Range = [u64; 2];

impl Canvas {
    /// Makes one that holds what the output does, `old`; `spare` is the path of the spare image.
    ///
    /// # Errors
    /// Of the file system, a full disk among them.
    pub fn new(state: &State, spare: &Path, output: &Path, old: &[u8]) -> io::Result<Canvas> {
        let is = fs::symlink_metadata(output)?;
        if !is.is_file() || is.len() != old.len() as u64 {
            return Err(io::Error::other("it is no file, or of another size"));
        }
        let known = state.header().spare;
        if let Some(file) = reuse(spare, &known, &is)? {
            let mut spare = Spare::new(spare, file)?;
            for [at, size] in state.stale() {
                let range = *at as usize..at.saturating_add(*size) as usize;
                let (Some(from), Some(to)) = (old.get(range.clone()), spare.map.get_mut(range))
                else {
                    return Err(io::Error::other("the state is damaged"));
                };
                to.copy_from_slice(from);
            }
            return Ok(Canvas::Spare(spare));
        }
        let _ = fs::remove_file(spare);
        let folder = spare.parent().and_then(|folder| fs::metadata(folder).ok());
        if folder.is_none_or(|folder| folder.dev() != is.dev()) || is.uid() != user() {
            return OutputFile::reopen(output, is.len()).map(Canvas::Copy);
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(spare)?;
        let copied = || -> io::Result<Spare> {
            io::copy(&mut File::open(output)?, &mut &file)?;
            let mode = rustix::fs::Mode::from_raw_mode(is.mode() & 0o777);
            rustix::fs::fchmod(&file, mode)?;
            if output_file::reserve(&file, old.len())? {
                return Spare::new(spare, file);
            }
            Err(io::Error::from(io::ErrorKind::Unsupported))
        };
        match copied() {
            Ok(spare) => Ok(Canvas::Spare(spare)),
            Err(_) => {
                let _ = fs::remove_file(spare);
                OutputFile::reopen(output, is.len()).map(Canvas::Copy)
            }
        }
    }

    /// The bytes, to be changed.
    pub fn bytes(&mut self) -> &mut [u8] {
        match self {
            Canvas::Spare(spare) => &mut spare.map,
            Canvas::Copy(output) => output.bytes(),
        }
    }

    /// Makes it the output. Gives what the file is like that was the output and is the spare now, if there is one.
    ///
    /// # Errors
    /// Of the file system; the old output is there then.
    pub fn publish(self, output: &Path) -> io::Result<Option<Stamp>> {
        let Spare { path, map, file } = match self {
            Canvas::Spare(spare) => spare,
            Canvas::Copy(output) => return output.commit().map(|()| None),
        };
        // What is mapped or open for writing cannot be run.
        drop(map);
        set_now(&file)?;
        drop(file);
        let is_swapped = renameat_with(CWD, &path, CWD, output, RenameFlags::EXCHANGE).is_ok();
        if !is_swapped {
            fs::rename(&path, output)?;
        }
        guard::output_is_complete();
        Ok(is_swapped.then(|| Stamp::at(&path)).flatten())
    }
}

impl Spare {
    fn new(path: &Path, file: File) -> io::Result<Spare> {
        // SAFETY: the file is the user's own, in a folder that nobody else may write to, and only who holds the output's lock
        // uses it.
        let map = unsafe { MmapMut::map_mut(&file)? };
        Ok(Spare {
            path: path.into(),
            map: Guarded::new(map, path),
            file,
        })
    }
}

/// Opens the spare if it is what the state says, as the output `is`, and nobody else's.
fn reuse(path: &Path, known: &Stamp, is: &fs::Metadata) -> io::Result<Option<File>> {
    if *known == Stamp::default() {
        return Ok(None);
    }
    let open = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    // Also where it runs.
    let Ok(file) = open else { return Ok(None) };
    let metadata = file.metadata()?;
    let about = |metadata: &fs::Metadata| (metadata.uid(), metadata.gid(), metadata.mode());
    let is_it = metadata.is_file()
        && known.is_content_of(&Stamp::of(&metadata))
        && metadata.nlink() == 1
        && metadata.len() == is.len()
        && metadata.dev() == is.dev()
        && metadata.uid() == user()
        && metadata.mode() & 0o6002 == 0
        && about(&metadata) == about(is)
        && output_file::has_no_attributes(&file)
        && output_file::lease(&file);
    Ok(is_it.then_some(file))
}

/// Makes a file one that was written now, whatever clock stores through mappings go by.
pub(super) fn set_now(file: &File) -> io::Result<()> {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    Ok(futimens(file, &times)?)
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// `--verify-incremental`: whether the spare image, with what the state says that it lacks, is as the output.
pub(super) fn is_as_output(state: &State, spare: &Path, output: &Path) -> bool {
    if state.header().spare == Stamp::default() {
        return true;
    }
    let (Ok(mut spare), Ok(output)) = (fs::read(spare), fs::read(output)) else {
        return false;
    };
    for [at, size] in state.stale() {
        let range = *at as usize..at.saturating_add(*size) as usize;
        let (Some(from), Some(to)) = (output.get(range.clone()), spare.get_mut(range)) else {
            return false;
        };
        to.copy_from_slice(from);
    }
    spare == output
}
