//! What inputs borrow from: mappings, paths, and repositories; and what was opened and searched for.

use crate::input::mapped_bytes::MappedBytes;
use crate::input::stamp::Stamp;
use crate::input::unseekable;
use memmap2::{Mmap, MmapOptions};
use rayon::prelude::*;
use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use store::guard::Guarded;
use store::program::Repository;
use typed_arena::Arena;

/// Bytes of a file that is read in less time than it takes to map it, to wait for its pages, and to take all that apart.
const SMALL: usize = 64 << 10;

/// The bytes of a file that is one of many.
enum Loaded {
    Read(Vec<u8>),
    Mapped(Guarded<Mmap>),
}

/// What inputs borrow from: lives as long as the link.
#[derive(Default)]
pub struct InputArena {
    maps: Arena<Guarded<Mmap>>,
    pub(super) paths: Arena<PathBuf>,
    bytes: Arena<Vec<u8>>,
    opened: RefCell<Vec<OpenedFile>>,
    searched: RefCell<Vec<Searched>>,
    pub(super) repositories: Arena<Repository>,
}

/// A file that was opened.
#[derive(Clone, Debug)]
pub struct OpenedFile {
    /// Its path.
    pub path: PathBuf,
    /// What it was like; nothing if it is no file that can be looked at again.
    pub stamp: Option<Stamp>,
    /// Where its bytes begin, which are the arena's.
    start: usize,
}

impl OpenedFile {
    #[cfg(test)]
    pub(crate) fn at(path: &Path) -> OpenedFile {
        OpenedFile {
            path: path.to_owned(),
            stamp: Stamp::at(path),
            start: 0,
        }
    }

    /// Address of the file's first byte in memory.
    pub fn start(&self) -> usize {
        self.start
    }
}

/// A library that was searched for.
#[derive(Clone, Debug)]
pub struct Searched {
    /// What follows `-l` or `-l:`; or what a script names, a NUL, and the script's path.
    pub name: OsString,
    /// 1: only static libraries; 2: a file of this very name; 3: [by a script](Self::BY_SCRIPT); 0: any library.
    pub how: u32,
}

impl Searched {
    /// A script names it, other than by `-l`.
    pub const BY_SCRIPT: u32 = 3;
}

impl InputArena {
    /// Keeps bytes for as long as the inputs.
    pub fn bytes(&self, bytes: Vec<u8>) -> &[u8] {
        self.bytes.alloc(bytes)
    }

    pub(super) fn map(&self, path: &Path) -> std::io::Result<Content<'_>> {
        let in_memory = |bytes| Content {
            bytes: self.bytes(bytes),
            mapped: None,
        };
        let opened = |stamp, bytes: &[u8]| {
            self.opened.borrow_mut().push(OpenedFile {
                path: path.to_path_buf(),
                stamp,
                start: bytes.as_ptr() as usize,
            });
        };
        if let Some(bytes) = unseekable::said(path) {
            opened(None, b"");
            return Ok(in_memory(bytes));
        }
        let mut file = std::fs::File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            // A pipe or `/dev/null`; a directory says so itself.
            let bytes = unseekable::read_open(path, &mut file)?;
            opened(None, b"");
            return Ok(in_memory(bytes));
        }
        let len = usize::try_from(metadata.len()).map_err(std::io::Error::other)?;
        // SAFETY: a mapped file that another process changes while it is being linked is undefined behaviour, as it
        // is with every linker; inputs are complete when the linker is started.
        let map = unsafe { MmapOptions::new().len(len).map(&file)? };
        let bytes: &[u8] = self.maps.alloc(Guarded::new(map, path));
        opened(Some(Stamp::of(&metadata)), bytes);
        // SAFETY: the file is mapped for reading, and the arena keeps the mapping for as long as it lives itself.
        let mapped = Some(unsafe { MappedBytes::new(bytes) });
        Ok(Content { bytes, mapped })
    }

    /// Maps several files at once, where [`map`](Self::map) does it one by one, and reads those that are [small](SMALL). Gives
    /// nothing for what is no plain file, or cannot be read or mapped: `map` says why.
    pub(super) fn map_all(&self, paths: &[&Path]) -> Vec<Option<Content<'_>>> {
        let load = |path: &&Path| {
            if unseekable::said(path).is_some() {
                return None;
            }
            let mut file = std::fs::File::open(path).ok()?;
            let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
            let len = usize::try_from(metadata.len()).ok()?;
            let stamp = Stamp::of(&metadata);
            if len <= SMALL {
                let mut bytes = vec![0; len];
                file.read_exact(&mut bytes).ok()?;
                return Some((Loaded::Read(bytes), stamp));
            }
            // SAFETY: as in `map`.
            let map = unsafe { MmapOptions::new().len(len).map(&file) }.ok()?;
            // Whoever looks first waits for the page.
            std::hint::black_box(map.first().copied());
            Some((Loaded::Mapped(Guarded::new(map, path)), stamp))
        };
        let loaded: Vec<_> = paths.par_iter().map(load).collect();
        let keep = |(loaded, path): (Option<(Loaded, Stamp)>, &&Path)| {
            let (loaded, stamp) = loaded?;
            let (bytes, mapped): (&[u8], _) = match loaded {
                Loaded::Read(bytes) => (self.bytes(bytes), None),
                Loaded::Mapped(map) => {
                    let bytes: &[u8] = self.maps.alloc(map);
                    // SAFETY: as in `map`.
                    (bytes, Some(unsafe { MappedBytes::new(bytes) }))
                }
            };
            self.opened.borrow_mut().push(OpenedFile {
                path: path.to_path_buf(),
                stamp: Some(stamp),
                start: bytes.as_ptr() as usize,
            });
            Some(Content { bytes, mapped })
        };
        loaded.into_iter().zip(paths).map(keep).collect()
    }

    /// The files that were opened, in order.
    pub fn opened(&self) -> Vec<PathBuf> {
        let opened = self.opened.borrow();
        opened.iter().map(|file| file.path.clone()).collect()
    }

    /// An input that is the file at `output`, by whatever name: to write that would destroy it.
    pub fn overwritten_by(&self, output: &Path) -> Option<PathBuf> {
        let output = std::fs::metadata(output)
            .ok()
            .filter(|found| found.is_file())?;
        let output = Stamp::of(&output);
        let opened = self.opened.borrow();
        let is_it = |stamp: &Stamp| (stamp.dev, stamp.ino) == (output.dev, output.ino);
        let input = opened
            .iter()
            .find(|file| file.stamp.as_ref().is_some_and(is_it))?;
        Some(input.path.clone())
    }

    /// The libraries that were searched for, in order.
    pub fn searched(&self) -> Vec<Searched> {
        self.searched.borrow().clone()
    }

    pub(super) fn searches(&self, name: &OsStr, how: u32) {
        self.searched.borrow_mut().push(Searched {
            name: name.to_owned(),
            how,
        });
    }

    /// What a script names is searched for.
    pub(super) fn searches_for_script(&self, name: &[u8], script: &Path) {
        let both = [name, b"\0", script.as_os_str().as_bytes()].concat();
        self.searches(OsStr::from_bytes(&both), Searched::BY_SCRIPT);
    }

    /// The same, with what they were like.
    pub fn opened_files(&self) -> Vec<OpenedFile> {
        self.opened.borrow().clone()
    }
}

/// What is in a file.
#[derive(Clone, Copy)]
pub(super) struct Content<'a> {
    pub bytes: &'a [u8],
    /// All of the file, if it is mapped. What a pipe has said is in memory that nobody may give back.
    pub mapped: Option<MappedBytes<'a>>,
}
