//! Reading the inputs: what each says, as another compile has found if it can be, or as its text says.
//!
//! The dependency file names inputs; each must be as it was when the compile began, under the name that it had then. What it includes is looked up
//! ([`lookups`](super::lookups)), what it says of macros and lines is gathered until all are read.

use super::{
    CHANGED, Finder, PRECOMPILED_USED, Question, Source, Text, UNREADABLE, is_of_assertions,
    is_of_system,
};
use crate::cc::memo::care::Care;
use crate::cc::memo::checker::PRECOMPILED;
use crate::cc::memo::comments::Keeps;
use crate::cc::memo::inputs::{self, State};
use crate::cc::memo::lines::TextNumber;
use crate::cc::memo::summaries::{Look, Summary};
use crate::cc::memo::{scan, tokens};
use format_spec::digest::Digest;
use format_spec::kinds::Condition;
use std::cell::OnceCell;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What was read, or remembered, of an input.
pub(super) struct Read {
    digest: Digest,
    pub(super) summary: Summary,
    /// [`Text::joined`], if it was read.
    joined: OnceCell<Vec<u8>>,
}

impl Finder<'_> {
    pub(super) fn input(&mut self, path: Vec<u8>) -> Result<(), &'static str> {
        if self.seen.contains(&path) {
            return Ok(());
        }
        if PRECOMPILED.iter().any(|end| path.ends_with(end)) {
            return Err(PRECOMPILED_USED);
        }
        let place = inputs::path(&path);
        // Of most inputs this says all: what is no link has nothing more on the way to it than its directories.
        let mut metadata = fs::symlink_metadata(place).map_err(|_| UNREADABLE)?;
        if metadata.is_symlink() {
            self.way_to(place, 0)?;
            metadata = fs::metadata(place).map_err(|_| UNREADABLE)?;
        } else if let Some(directory) = place.parent() {
            self.way_to(directory, 0)?;
        }
        if !metadata.is_file() || path.first() == Some(&1) {
            return Err(UNREADABLE);
        }
        let id = (metadata.dev(), metadata.ino());
        self.known.insert(id);
        self.places.insert(path.clone(), Some(id));
        self.seen.insert(path.clone());
        self.todo.push((path, metadata));
        Ok(())
    }

    /// Sees to it that the file had this name when the compiler was started: a link that is switched, or a directory that is
    /// renamed, leaves the file's own times as they were. (What is written into a directory changes both of its times.)
    fn way_to(&mut self, path: &Path, depth: u32) -> Result<(), &'static str> {
        const MOST_LINKS: u32 = 40;
        let start = self.question.start;
        for place in path.ancestors().filter(|place| *place != Path::new("")) {
            if !self.ways.insert(place.to_owned()) {
                return Ok(());
            }
            let found = fs::symlink_metadata(place).map_err(|_| UNREADABLE)?;
            let is_new = inputs::changed(&found) >= start;
            if found.is_symlink() {
                if is_new || depth >= MOST_LINKS {
                    return Err("a link to an input was changed just now");
                }
                let target = fs::read_link(place).map_err(|_| UNREADABLE)?;
                let before = place.parent().unwrap_or(Path::new(""));
                self.way_to(&before.join(target), depth + 1)?;
            } else if found.is_dir() && is_new && inputs::written(&found) < start {
                return Err("a directory of inputs was renamed just now");
            }
        }
        Ok(())
    }

    pub(super) fn read(&mut self, path: &[u8], metadata: &Metadata) -> Result<(), &'static str> {
        let place = inputs::path(path);
        if inputs::changed(metadata) >= self.question.start {
            return Err(CHANGED);
        }
        let id = (metadata.dev(), metadata.ino());
        let may_differ = !matches!(self.question.care, Care::Bytes);
        let is_source_text = may_differ && !is_of_system(path);
        let is_source = path == self.question.source;
        let Read {
            digest,
            mut summary,
            joined,
        } = match is_source {
            // Others do not include it.
            true => self.look_at(place, metadata, is_source_text)?,
            false => self.recall(place, metadata, is_source_text)?,
        };
        if may_differ && summary.mentions_once {
            let rest = self.question.inputs.rest(place, metadata, Keeps::Order);
            // It has none, and is not merely another file by now.
            let is_same = || {
                let now = fs::metadata(place);
                now.is_ok_and(|now| State::of(&now) == State::of(metadata))
            };
            if rest.is_none() && !is_same() {
                return Err(CHANGED);
            }
            self.once
                .entry(rest.unwrap_or(digest))
                .or_default()
                .insert(id);
        }
        let directory = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => path[..=slash].to_vec(),
            None => Vec::new(),
        };
        if is_source && let Some(text) = joined.get() {
            self.is_plain |= tokens::includes_plainly(text);
        }
        let (mentions_once, may_be_once) = (summary.mentions_once, summary.may_be_once);
        if is_of_assertions(path)
            && let Some(lines) = &mut summary.lines
        {
            lines.asserts_by_names();
        }
        let number = self.take(&directory, summary, is_source)?;
        match is_source_text {
            true => self.sources.push(Source {
                path: path.to_vec(),
                digest,
                metadata: metadata.clone(),
                mentions_once,
                number,
            }),
            false => {
                self.conditions
                    .insert(Condition::File(digest, path).encode());
            }
        }
        self.texts.push(Text {
            directory,
            path: path.to_vec(),
            metadata: metadata.clone(),
            digest,
            joined,
            may_be_once,
        });
        Ok(())
    }

    /// What an input says, as another compile has found if it can be.
    pub(super) fn recall(
        &mut self,
        place: &Path,
        metadata: &Metadata,
        counts: bool,
    ) -> Result<Read, &'static str> {
        let Question {
            inputs, summaries, ..
        } = *self.question;
        let (digest, text) = match inputs.remembered(metadata) {
            Some(digest) => (digest, None),
            None => {
                let (digest, text) = inputs.read(place, metadata).ok_or(UNREADABLE)?;
                (digest, Some(text))
            }
        };
        let context = self.context.clone();
        let known = (context.as_ref()).and_then(|context| summaries.get(&digest, context, counts));
        if let Some(summary) = known {
            // (Who has replaced the file since is seen elsewhere.)
            #[cfg(debug_assertions)]
            if let Ok(read) = self.look_at(place, metadata, counts) {
                assert_eq!(read.summary, summary);
            }
            return Ok(Read {
                digest,
                summary,
                joined: OnceCell::new(),
            });
        }
        let text = match text {
            Some(text) => text,
            None => inputs.read(place, metadata).ok_or(UNREADABLE)?.1,
        };
        // What is remembered of a file's state may be wrong, if somebody writes to it by a mapping. Others have other files of this digest.
        let is_right = Digest::of(&text) == digest;
        let read = self.look_through(digest, text, counts)?;
        if let Some(context) = context.filter(|_| is_right) {
            summaries.remember(&digest, &context, counts, &read.summary);
        }
        Ok(read)
    }

    /// Reads an input, and looks through it.
    pub(super) fn look_at(
        &mut self,
        place: &Path,
        metadata: &Metadata,
        counts: bool,
    ) -> Result<Read, &'static str> {
        let (digest, text) = (self.question.inputs)
            .read(place, metadata)
            .ok_or(UNREADABLE)?;
        self.look_through(digest, text, counts)
    }

    /// Looks through a text.
    pub(super) fn look_through(
        &mut self,
        digest: Digest,
        text: Vec<u8>,
        counts: bool,
    ) -> Result<Read, &'static str> {
        let look = Look {
            assembly: self.question.assembly,
            counts,
        };
        let (lines, pastes) = (self.lines.as_ref(), &mut self.pastes);
        let (summary, joined) = match scan::is_joined(&text)? {
            true => (Summary::of(&text, &text, look, lines, pastes)?, text),
            false => {
                let joined = scan::joined(text.clone())?;
                (Summary::of(&text, &joined, look, lines, pastes)?, joined)
            }
        };
        Ok(Read {
            digest,
            summary,
            joined: OnceCell::from(joined),
        })
    }

    /// Takes up what a text in this directory says.
    pub(super) fn take(
        &mut self,
        directory: &[u8],
        summary: Summary,
        is_source: bool,
    ) -> Result<Option<TextNumber>, &'static str> {
        for lookup in &summary.lookups {
            self.look_up(directory, lookup, is_source)?;
        }
        self.questions.extend(summary.questions);
        self.pastes.add(summary.parts);
        let names = summary.by_macro.into_iter();
        self.by_macro
            .extend(names.map(|name| (directory.to_vec(), name)));
        let lines = self.lines.as_mut().zip(summary.lines);
        Ok(lines.map(|(lines, found)| lines.add(found)))
    }

    /// The texts of the inputs.
    pub(super) fn all_texts(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.texts.iter().map(|text| {
            text.get(self.question.inputs).unwrap_or_else(|_| {
                self.is_unreadable.set(true);
                b""
            })
        })
    }
}
