//! The images of an output: where an incremental link makes the changed one, so that the old one stands, whole, until the new
//! one takes its place.
//!
//! To copy a large output for each small change would cost more than the change. So there are two files beside the state:
//! the *image*, which is another name of the output, and the *spare*, which was the output before the last link. What that
//! link has changed is known ([`Header::stale`](super::state::Header::stale)); it is copied from the image, then the spare is
//! changed, and gets the output's name as well. A kill leaves the old output or the new one, and who runs or has mapped the
//! old one keeps it: a spare that anybody else has open, or that has another name (cargo makes hard links), is let go, and a
//! new copy is made. As the image has a name of its own, the output may be gone when it is linked again, which cargo sees to.

use super::held::Held;
use super::reason::Reason;
use super::records::{Images, Range};
use super::state::State;
use crate::input::stamp::{Left, Stamp};
use crate::output::output_file::{self, OutputFile};
use memmap2::{Mmap, MmapMut};
use rustix::fs::{CWD, RenameFlags, Timespec, Timestamps, UTIME_NOW, futimens, renameat_with};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use store::guard::{self, Guarded, Temporary};

/// Finds out whether the output is as it was left, or gone from its place and kept as an image.
///
/// # Errors
/// If not.
pub(super) fn check_output(state: &State, held: &Held, output: &Path) -> Result<(), Reason> {
    let header = state.header();
    let there = fs::symlink_metadata(output);
    let is_gone = there.is_err();
    let image = match header.has_image {
        0 => there.ok(),
        _ => fs::symlink_metadata(held.image()).ok().filter(|image| {
            // Another program may have been put there.
            let is_it = |there: Metadata| (there.dev(), there.ino()) == (image.dev(), image.ino());
            there.map_or(true, is_it)
        }),
    };
    match image {
        None if is_gone => Err("the output is gone".into()),
        Some(image)
            if image.is_file()
                && header.output.is_still(&image, is_gone)
                && (header.output.is_untouched(&image)
                    || !gives_rights(&path_of(state, held, output))) =>
        {
            Ok(())
        }
        _ => Err("the output was changed".into()),
    }
}

/// Whether a file has attributes that give its user rights, or others.
fn gives_rights(path: &Path) -> bool {
    let has = |name: &str| rustix::fs::lgetxattr(path, name, &mut [0_u8; 0]).is_ok();
    has("security.capability") || has("system.posix_acl_access")
}

/// The output as it was left.
///
/// # Errors
/// If it cannot be read.
pub(super) fn map_output(state: &State, held: &Held, output: &Path) -> Result<Mmap, Reason> {
    let path = path_of(state, held, output);
    let map = || {
        let file = File::open(&path)?;
        // SAFETY: it is looked at before it is changed, and who changes it meanwhile has another name for it.
        unsafe { Mmap::map(&file) }
    };
    map().map_err(|why| Reason::from(format!("cannot read {}: {why}", path.display())))
}

/// A name of the output as it was left.
fn path_of(state: &State, held: &Held, output: &Path) -> PathBuf {
    match state.header().has_image {
        0 => output.to_owned(),
        _ => held.image(),
    }
}

/// Makes an output that is as it must be newer than its inputs, for build systems that go by that. One that somebody has given another name is his,
/// and the output becomes another file.
///
/// # Errors
/// If that cannot be done.
pub(super) fn renew(held: &Held, output: &Path, state: &mut State) -> Result<(), Reason> {
    let failed = |why| Reason::from(format!("cannot touch {}: {why}", output.display()));
    let path = path_of(state, held, output);
    let is_gone = fs::symlink_metadata(output).is_err();
    let is = fs::symlink_metadata(&path).map_err(failed)?;
    let own_names = u64::from(!is_gone) + state.header().has_image;
    if is.nlink() > own_names {
        if state.header().has_image == 0 {
            return Err("the output has another name".into());
        }
        let unfinished = held.unfinished();
        copy(&path, &unfinished, &is).map_err(failed)?;
        put(&unfinished, output).map_err(failed)?;
        fs::rename(&unfinished, &path).map_err(failed)?;
    } else if is_gone {
        put(&path, output).map_err(failed)?;
    }
    let file = File::open(&path).map_err(failed)?;
    set_now(&file).map_err(failed)?;
    state.header_mut().output = file.metadata().map_err(failed)?.into();
    Ok(())
}

/// After a full link: the images of an output that was `left` so. `None` if it is another one by now.
pub(super) fn of_full_link(held: &Held, output: &Path, left: Option<&Left>) -> Option<Images> {
    let (image, spare) = (held.image(), held.spare());
    for left in [&spare, &image, &temporary_name(output)] {
        let _ = fs::remove_file(left);
    }
    let has_image = fs::hard_link(output, &image).is_ok();
    let metadata = match has_image {
        true => fs::symlink_metadata(&image).ok()?,
        false => fs::symlink_metadata(output).ok()?,
    };
    left?.is_still(&metadata, has_image).then(|| Images {
        output: metadata.into(),
        has_image,
        ..Images::default()
    })
}

/// The name, beside the output, of a file that will be the output. Only who has the output's lock uses it, so what a kill has left there is removed by the
/// next one.
fn temporary_name(output: &Path) -> PathBuf {
    let name = output.file_name().unwrap_or_default();
    let digest = blake3::hash(name.as_encoded_bytes()).to_hex();
    output.with_file_name(format!(".repo-ld-{}.again", &digest[..16]))
}

/// Gives a file the name of the output.
fn put(file: &Path, output: &Path) -> io::Result<()> {
    let temporary = temporary_name(output);
    let _ = fs::remove_file(&temporary);
    fs::hard_link(file, &temporary)?;
    Temporary::of_file(&temporary)?.rename(output)
}

/// The changed output, which is made in one of these.
pub(super) enum Canvas {
    /// The spare.
    Spare(Spare),
    /// A file of a temporary name beside the output, where the state is on another file system.
    Copy(OutputFile, PathBuf),
}

/// A file that becomes the output.
pub(super) struct Spare {
    output: PathBuf,
    unfinished: PathBuf,
    spare: PathBuf,
    image: PathBuf,
    map: Guarded<MmapMut>,
    file: File,
}

impl Canvas {
    /// Makes one that holds what the output does, `old`.
    ///
    /// # Errors
    /// Of the file system, a full disk among them.
    pub fn new(state: &State, held: &Held, output: &Path, old: &[u8]) -> io::Result<Canvas> {
        if state.header().has_image == 0 {
            let copy = OutputFile::reopen(output, old.len() as u64)?;
            return Ok(Canvas::Copy(copy, output.to_owned()));
        }
        let (image, path) = (held.image(), held.unfinished());
        let is = fs::symlink_metadata(&image)?;
        if !is.is_file() || is.len() != old.len() as u64 {
            return Err(io::Error::other("it is no file, or of another size"));
        }
        let (file, stale) = match reuse(&held.spare(), &state.header().spare, &is)? {
            Some(file) => {
                fs::rename(held.spare(), &path)?;
                (file, state.stale())
            }
            None => {
                let _ = fs::remove_file(held.spare());
                (copy(&image, &path, &is)?, &[][..])
            }
        };
        // SAFETY: the file is the user's own, in a folder that nobody else may write to, and only who holds the output's lock
        // uses it.
        let mut map = unsafe { MmapMut::map_mut(&file)? };
        bring_up_to_date(&mut map, old, stale)?;
        Ok(Canvas::Spare(Spare {
            output: output.to_owned(),
            map: Guarded::new(map, &path),
            unfinished: path,
            spare: held.spare(),
            image,
            file,
        }))
    }

    /// The bytes, to be changed.
    pub fn bytes(&mut self) -> &mut [u8] {
        match self {
            Canvas::Spare(spare) => &mut spare.map,
            Canvas::Copy(output, _) => output.bytes(),
        }
    }

    /// Makes it the output.
    ///
    /// # Errors
    /// Of the file system.
    pub fn publish(self) -> io::Result<Images> {
        let spare = match self {
            Canvas::Spare(spare) => spare,
            Canvas::Copy(file, output) => {
                file.commit()?;
                return Ok(Images {
                    output: fs::symlink_metadata(&output)?.into(),
                    ..Images::default()
                });
            }
        };
        // What is mapped or open for writing cannot be run.
        drop(spare.map);
        set_now(&spare.file)?;
        drop(spare.file);
        put(&spare.unfinished, &spare.output)?;
        guard::output_is_complete();
        // What was the output is the spare from now on.
        let (path, image) = (&spare.unfinished, &spare.image);
        let is_kept = renameat_with(CWD, path, CWD, image, RenameFlags::EXCHANGE).is_ok();
        match is_kept {
            true => fs::rename(path, &spare.spare)?,
            false => fs::rename(path, image)?,
        }
        Ok(Images {
            output: fs::symlink_metadata(image)?.into(),
            has_image: true,
            spare: match is_kept {
                true => Stamp::of(&fs::symlink_metadata(&spare.spare)?),
                false => Stamp::default(),
            },
        })
    }
}

/// Copies ranges of the output `old`.
fn bring_up_to_date(spare: &mut [u8], old: &[u8], stale: &[Range]) -> io::Result<()> {
    for [at, size] in stale {
        let range = *at as usize..at.saturating_add(*size) as usize;
        let (Some(from), Some(to)) = (old.get(range.clone()), spare.get_mut(range)) else {
            return Err(io::Error::other("the state is damaged"));
        };
        to.copy_from_slice(from);
    }
    Ok(())
}

/// Makes a new spare, a copy of the `image`, which `is` so.
fn copy(image: &Path, spare: &Path, is: &Metadata) -> io::Result<File> {
    let _ = fs::remove_file(spare);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(spare)?;
    io::copy(&mut File::open(image)?, &mut &file)?;
    let mode = rustix::fs::Mode::from_raw_mode(is.mode() & 0o777);
    rustix::fs::fchmod(&file, mode)?;
    // Where blocks cannot be reserved, a full disk is noticed when they are stored to.
    output_file::reserve(&file, usize::try_from(is.len()).unwrap_or(usize::MAX))?;
    Ok(file)
}

/// Opens the spare if it is what the state says, as the output `is`, and nobody else's.
fn reuse(path: &Path, known: &Stamp, is: &Metadata) -> io::Result<Option<File>> {
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
    let about = |metadata: &Metadata| (metadata.uid(), metadata.gid(), metadata.mode());
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
fn set_now(file: &File) -> io::Result<()> {
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

/// `--verify-incremental`: whether the spare, with what the state says that it lacks, is as the output.
pub(super) fn is_as_output(state: &State, held: &Held, output: &Path) -> bool {
    if state.header().spare == Stamp::default() {
        return true;
    }
    let (Ok(mut spare), Ok(output)) = (fs::read(held.spare()), fs::read(output)) else {
        return false;
    };
    bring_up_to_date(&mut spare, &output, state.stale()).is_ok() && spare == output
}
