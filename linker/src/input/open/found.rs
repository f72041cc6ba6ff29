//! What there is to parse: files, and members of archives.

use crate::input::file::{Body, File};
use crate::input::mapped_bytes::MappedBytes;
use std::path::Path;

/// A file or member that is to be parsed.
pub(super) struct Found<'a> {
    pub(super) path: &'a Path,
    pub(super) member: Option<&'a [u8]>,
    pub(super) data: &'a [u8],
    pub(super) lazy: bool,
    pub(super) as_needed: bool,
    pub(super) exclude: bool,
    /// Named by its path, not found as a library: the path then stands for a missing `DT_SONAME`.
    pub(super) by_path: bool,
    /// The file that `data` is in, if it is mapped.
    pub(super) mapped: Option<MappedBytes<'a>>,
}

impl<'a> Found<'a> {
    pub(super) fn file(&self, body: Body<'a>) -> File<'a> {
        File {
            path: self.path,
            member: self.member,
            body,
            lazy: self.lazy,
            as_needed: self.as_needed,
            exclude: self.exclude,
            slot_base: 0,
            data: self.data,
            mapped: self.mapped,
        }
    }
}

/// The name of a file or member, for messages.
pub(super) fn describe(found: &Found) -> String {
    match found.member {
        Some(member) => format!(
            "{}({})",
            found.path.display(),
            String::from_utf8_lossy(member)
        ),
        None => found.path.display().to_string(),
    }
}
