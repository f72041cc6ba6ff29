//! What must happen when a program is interrupted: nothing half-written stays, and the user is told in words.
//!
//! Three things end a program without asking it: a signal that somebody sends (`SIGINT`, `SIGTERM`, …), a file that is cut
//! short while it is mapped (`SIGBUS` at the next access to a page that is gone), and a limit on the size of files
//! (`SIGXFSZ`). Here is what they have in common:
//!
//! * [`Temporary`]: a file that is made beside its final name, and renamed when it is complete. Those that exist are
//!   listed, so that the handlers can remove them, and locked, so that another process can tell those that a killed one
//!   left.
//! * [`Mapped`] and [`Guarded`]: memory that is a file's, with its name.
//! * [`install`]: the signal handlers, which each program's `main` installs. Without them nothing of this changes how
//!   a process ends; a library does not decide that.
//!
//! It is in this crate because all programs map repositories, and because what it lists is listed once a process: of the
//! layers `tools, compactor, linker -> store -> format-spec` this is the lowest that deals with the operating system.
//! Nothing else in the crate's interface depends on it.
//!
//! Handlers run between any two instructions. They use what signal-safety(7) allows and nothing else: system calls,
//! atomics, and the lists of `registry`, which they read without a lock.

mod registry;
mod signals;
mod temporary;

pub use signals::{install, output_is_complete};
pub use temporary::{PREFIX_LENGTH, Temporary, replace};

use registry::{Registration, Registry};
use std::ops::{Deref, DerefMut, Range};
use std::os::fd::AsRawFd;
use std::path::Path;

/// A range of memory that is a file's, and the file's name. While it lives, an access to a page of the range that the
/// file does not have (any more) is an error message, if the program has called [`install`]. It must go before the
/// mapping does: a field that stands before it, or in a [`Guarded`].
#[derive(Debug)]
pub struct Mapped {
    _registration: Registration<Mapping>,
}

/// What the handler knows of a mapping.
#[derive(Debug)]
struct Mapping {
    range: Range<usize>,
    name: Box<[u8]>,
}

static MAPPINGS: Registry<Mapping> = Registry::new();

impl Mapped {
    /// Names the file that is mapped at `start`, `length` bytes of address space.
    pub fn new(start: *const u8, length: usize, path: &Path) -> Mapped {
        let start = start as usize;
        Mapped {
            _registration: MAPPINGS.add(Mapping {
                range: start..start.saturating_add(length),
                name: path.as_os_str().as_encoded_bytes().into(),
            }),
        }
    }

    /// The same for a file of which only the descriptor is known: its name is what the kernel says (proc(5), `fd`).
    pub fn of_descriptor(start: *const u8, length: usize, file: &impl AsRawFd) -> Mapped {
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        let path = std::fs::read_link(link).unwrap_or_else(|_| "a file without a name".into());
        Mapped::new(start, length, &path)
    }
}

/// A mapping of a file, with its name: see [`Mapped`].
#[derive(Debug)]
pub struct Guarded<M> {
    // Before the mapping, so that it goes first.
    _mapped: Mapped,
    map: M,
}

impl<M: Deref<Target = [u8]>> Guarded<M> {
    /// Names the file that is mapped.
    pub fn new(map: M, path: &Path) -> Guarded<M> {
        Guarded {
            _mapped: Mapped::new(map.as_ptr(), map.len(), path),
            map,
        }
    }
}

impl<M: Deref<Target = [u8]>> Deref for Guarded<M> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

impl<M: DerefMut<Target = [u8]>> DerefMut for Guarded<M> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }
}

#[cfg(test)]
mod tests {
    use super::{MAPPINGS, Mapped};
    use std::path::Path;

    #[test]
    fn a_mapping_is_found_by_any_of_its_addresses_while_it_lives() {
        let find = |address: usize| {
            let mut found = None;
            MAPPINGS.visit(|mapping| {
                if mapping.range.contains(&address) {
                    found = Some(mapping.name.to_vec());
                }
            });
            found
        };
        // Addresses that no process has.
        let start = 1_usize << 60;
        let mapped = Mapped::new(start as *const u8, 100, Path::new("dir/file"));
        assert_eq!(find(start), Some(b"dir/file".to_vec()));
        assert_eq!(find(start + 99), Some(b"dir/file".to_vec()));
        assert_eq!(find(start + 100), None);
        assert_eq!(find(start - 1), None);
        drop(mapped);
        assert_eq!(find(start), None);
    }
}
