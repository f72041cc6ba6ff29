//! Whether conditions hold: looked up before a compile that is known.
//!
//! Files are not read where their state is remembered ([`Inputs`]), and of places where nothing may be not each is asked for
//! ([`Places`]).

use super::comments::Keeps;
use super::inputs::{self, Inputs};
use super::places::{Places, is_absence};
use format_spec::kinds::Condition;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;

/// Ends of the names of precompiled headers, which compilers take in place of the header.
pub const PRECOMPILED: [&[u8]; 2] = [b".gch", b".pch"];

/// The path of a name in a directory.
pub fn inside(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = match directory.last() {
        None | Some(b'/') => b"",
        Some(_) => b"/",
    };
    [directory, slash, name].concat()
}

/// The file at a path; `None` if there is none that can be included: a directory is none.
pub fn file_at(path: &[u8]) -> Result<Option<Metadata>, &'static str> {
    match fs::metadata(inputs::path(path)) {
        Ok(metadata) if metadata.is_dir() => Ok(None),
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if is_absence(&error) => Ok(None),
        Err(_) => Err("a place for headers cannot be looked at"),
    }
}

/// Whether there is nothing at a path, not even a link that leads nowhere.
pub fn is_nothing_at(path: &[u8]) -> bool {
    let found = fs::symlink_metadata(inputs::path(path));
    found.is_err_and(|error| is_absence(&error))
}

/// Looks conditions up.
pub struct Checker<'a> {
    inputs: &'a Inputs,
    search: Vec<&'a [u8]>,
    places: Places,
}

impl<'a> Checker<'a> {
    /// A checker of conditions among which is `search`.
    pub fn new(inputs: &'a Inputs, search: &'a [u8]) -> Checker<'a> {
        let search = search.strip_suffix(&[0]).unwrap_or(search);
        Checker {
            inputs,
            search: match search.is_empty() {
                true => Vec::new(),
                false => search.split(|byte| *byte == 0).collect(),
            },
            places: Places::default(),
        }
    }

    /// Whether a condition holds.
    pub fn holds(&mut self, condition: &Condition<'_>) -> bool {
        match condition {
            Condition::File(digest, path) => {
                let place = inputs::path(path);
                let Ok(metadata) = fs::metadata(place) else {
                    return false;
                };
                metadata.is_file() && self.inputs.file(place, &metadata) == Some(*digest)
            }
            Condition::Text { rest, keeps, path } => {
                let place = inputs::path(path);
                let Ok(metadata) = fs::metadata(place) else {
                    return false;
                };
                let now = match Keeps::of(*keeps) {
                    Some(keeps) => self.inputs.rest(place, &metadata, keeps),
                    None => self.inputs.file(place, &metadata),
                };
                metadata.is_file() && now == Some(*rest)
            }
            Condition::Listing(digest, path) => {
                let place = inputs::path(path);
                let Ok(metadata) = fs::metadata(place) else {
                    return false;
                };
                self.inputs.listing(place, &metadata) == Some(*digest)
            }
            Condition::Absent(path) | Condition::NotListed(path) => self.is_absent(path),
            Condition::Nothing(path) => self.places.is_empty(path) || is_nothing_at(path),
            Condition::NotPrecompiled(path) => {
                self.places.is_empty(path)
                    || PRECOMPILED.iter().all(|end| {
                        let precompiled = [*path, end].concat();
                        is_nothing_at(&precompiled)
                    })
            }
            Condition::Present(path) => matches!(file_at(path), Ok(Some(_))),
            Condition::Search(_) | Condition::Bodies { .. } => true,
            Condition::Variable(text) => {
                let end = memchr::memchr(b'=', text);
                let name = &text[..end.unwrap_or(text.len())];
                let value = end.map(|end| OsStr::from_bytes(&text[end + 1..]));
                std::env::var_os(OsStr::from_bytes(name)).as_deref() == value
            }
            Condition::NotFound { first, count, name } => {
                let (first, count) = (usize::from(*first), usize::from(*count));
                first + count <= self.search.len()
                    && (first..first + count)
                        .all(|number| self.is_absent(&inside(self.search[number], name)))
            }
        }
    }

    fn is_absent(&mut self, path: &[u8]) -> bool {
        self.places.is_empty(path) || matches!(file_at(path), Ok(None))
    }
}
