//! Looking for a name as the compiler does: through the places before the one where it is found, where nothing may come to be.
//!
//! Each place is asked about once, and what is there, or is not, must have been so when the compile began.

use super::{Finder, PRECOMPILED_USED, UNREADABLE};
use crate::cc::memo::checker::{PRECOMPILED, file_at, inside, is_nothing_at};
use crate::cc::memo::inputs;
use crate::cc::memo::text::{Form, Lookup};
use format_spec::kinds::Condition;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

impl Finder<'_> {
    /// Looks for a name as the compiler does. `is_first`: also for a precompiled header of this name.
    pub(super) fn look_up(
        &mut self,
        includer: &[u8],
        lookup: &Lookup,
        is_first: bool,
    ) -> Result<(), &'static str> {
        // In angle brackets a name means the same everywhere.
        let beside = match lookup.form {
            Form::Angled => &[][..],
            Form::Quoted | Form::Next => includer,
        };
        let key = (beside.to_vec(), lookup.clone());
        // What a source asks for may be asked for by a header beside it, too.
        if self.done.contains(&key) && !is_first {
            return Ok(());
        }
        self.done.insert(key);
        if lookup.name.contains(&0) {
            return Err(UNREADABLE);
        }
        if lookup.name.first() == Some(&b'/') {
            if !self.place(&lookup.name.clone(), lookup, is_first)? {
                self.conditions
                    .insert(Condition::Absent(&lookup.name).encode());
            }
            return Ok(());
        }
        if lookup.form != Form::Angled {
            let path = [includer, &lookup.name].concat();
            if !self.place(&path, lookup, is_first)? {
                self.conditions.insert(Condition::Absent(&path).encode());
            } else if lookup.form != Form::Next {
                return Ok(());
            }
        }
        let answer = self.question.answer;
        let first = match lookup.form {
            Form::Angled => answer.quoted,
            Form::Quoted | Form::Next => 0,
        };
        let mut from = first;
        let mut number = first;
        while number < answer.search.len() {
            let path = inside(&answer.search[number], &lookup.name);
            if self.place(&path, lookup, is_first)? {
                self.not_found(from, number, &lookup.name);
                if lookup.form != Form::Next {
                    return Ok(());
                }
                from = number + 1;
            }
            number += 1;
        }
        self.not_found(from, number, &lookup.name);
        Ok(())
    }

    /// In the directories from `from` to before `to` there is nothing of this name.
    pub(super) fn not_found(&mut self, from: usize, to: usize, name: &[u8]) {
        // (There are 250 at most.)
        if to > from {
            let (first, count) = (from as u8, (to - from) as u8);
            self.conditions
                .insert(Condition::NotFound { first, count, name }.encode());
        }
    }

    /// Says of what is not there for want of the directories above it only that these are not there. (A header that is included by a
    /// path is looked for beside each header that includes it: in all these places nothing is but the includer.)
    pub(super) fn below_nothing(&mut self) {
        let conditions = std::mem::take(&mut self.conditions).into_iter();
        let mut first_missing = |path: &[u8]| {
            let mut directories = memchr::memchr_iter(b'/', path)
                .map(|end| &path[..end])
                .filter(|directory| !directory.is_empty());
            let missing = directories.find(|directory| self.is_nothing(directory));
            missing.map(<[u8]>::to_vec)
        };
        self.conditions = conditions
            .map(|condition| {
                let missing = match Condition::parse(&condition) {
                    Some(Condition::Absent(path) | Condition::NotPrecompiled(path)) => {
                        first_missing(path)
                    }
                    _ => None,
                };
                match missing {
                    Some(directory) => Condition::Nothing(&directory).encode(),
                    None => condition,
                }
            })
            .collect();
    }

    /// Nothing is there that compilers take in place of what is at this path.
    pub(super) fn no_precompiled(&mut self, path: &[u8]) -> Result<(), &'static str> {
        for end in PRECOMPILED {
            let precompiled = [path, end].concat();
            if fs::symlink_metadata(inputs::path(&precompiled)).is_ok() {
                return Err(PRECOMPILED_USED);
            }
        }
        self.conditions
            .insert(Condition::NotPrecompiled(path).encode());
        Ok(())
    }

    /// Device and inode of the file at a path; `None` if there is none. Each place is looked at once, and of most names below a
    /// directory (`bits/types.h`) it is enough to know that it is not there.
    pub(super) fn file_at(&mut self, path: &[u8]) -> Result<Option<(u64, u64)>, &'static str> {
        if let Some(known) = self.places.get(path) {
            return Ok(*known);
        }
        let directory = memchr::memrchr(b'/', path).map_or(&[][..], |end| &path[..end]);
        let is_there = directory.is_empty() || !self.is_nothing(directory);
        let found = match is_there {
            true => file_at(path)?.map(|metadata| (metadata.dev(), metadata.ino())),
            false => None,
        };
        self.places.insert(path.to_vec(), found);
        Ok(found)
    }

    /// Whether there is nothing at the path of a directory: found out once for each.
    pub(super) fn is_nothing(&mut self, directory: &[u8]) -> bool {
        if let Some(known) = self.nothing.get(directory) {
            return *known;
        }
        let is_nothing = is_nothing_at(directory);
        self.nothing.insert(directory.to_vec(), is_nothing);
        is_nothing
    }

    /// Whether there is a file at a place where one is looked for.
    pub(super) fn place(
        &mut self,
        path: &[u8],
        lookup: &Lookup,
        is_first: bool,
    ) -> Result<bool, &'static str> {
        if is_first {
            self.no_precompiled(path)?;
        }
        let Some(id) = self.file_at(path)? else {
            if lookup.only_asks && !self.is_settled(path) {
                return Err("a directory was changed just now");
            }
            return Ok(false);
        };
        if self.known.contains(&id) {
            if !lookup.only_asks && !self.seen.contains(path) {
                self.other_names.insert((path.to_vec(), id));
            }
            return Ok(true);
        }
        if lookup.only_asks {
            self.conditions.insert(Condition::Present(path).encode());
        } else if self.question.closure {
            self.input(path.to_vec())?;
            return Ok(true);
        } else {
            self.unread.insert(path.to_vec());
        }
        // It may have come after the compiler looked for it.
        if !self.is_settled(path) {
            return Err("a directory was changed just now");
        }
        Ok(true)
    }

    /// Whether what is there of this path, or is not, was so when the compile began.
    pub(super) fn is_settled(&mut self, path: &[u8]) -> bool {
        let mut inner = inputs::path(path);
        loop {
            let place = match inner.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => inputs::path(b"."),
            };
            let Ok(metadata) = fs::metadata(place) else {
                if place == inputs::path(b".") || place == inputs::path(b"/") {
                    return false;
                }
                inner = place;
                continue;
            };
            if inputs::changed(&metadata) < self.question.start {
                return true;
            }
            let Some(name) = inner.file_name().map(OsStr::as_bytes) else {
                return false;
            };
            let was_there = match self.question.before.get(place) {
                Some(Some(before)) => before.get(name).is_some(),
                _ => return false,
            };
            return was_there == fs::symlink_metadata(inner).is_ok();
        }
    }
}
