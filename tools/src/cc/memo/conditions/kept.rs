//! What of a source must be kept for the same object: its bytes, or its text without comments, with places or without, or with lines that may move.
//!
//! Which of these it is depends on who asks for lines ([`lines`](crate::cc::memo::lines)), on what code was made of its bodies, and on what may be
//! moved in debug information. It is decided when all inputs are read.

use super::{Finder, Question, Source, is_of_assertions};
use crate::cc::memo::bodies::Outline;
use crate::cc::memo::care::Care;
use crate::cc::memo::comments::{self, Keeps};
use crate::cc::memo::effects;
use crate::cc::memo::emitted;
use crate::cc::memo::inputs;
use crate::cc::memo::lines::{Followed, Lines, OfNames};
use crate::cc::memo::standing::{self, Standing};
use format_spec::digest::Digest;
use format_spec::kinds::{Condition, TextKeeps};
use memchr::memmem;
use rustc_hash::FxHashSet;

impl Finder<'_> {
    /// Whether something else than an assertion may ask for names of functions with all their types, and make a number of them.
    pub(super) fn says_names(&self, followed: Option<&Followed<'_>>) -> bool {
        let (Some(lines), Some(followed)) = (&self.lines, followed) else {
            return true;
        };
        match followed.of_names() {
            OfNames::Somebody => true,
            OfNames::Users(names) if names.is_empty() => false,
            // Of texts that do not count only the macros are known. Those that have such a name in them are read as if they did.
            OfNames::Users(names) => {
                let sources: FxHashSet<&[u8]> =
                    self.sources.iter().map(|source| &source.path[..]).collect();
                let names: Vec<_> = names.into_iter().map(memmem::Finder::new).collect();
                let mut lines = lines.clone();
                for text in &self.texts {
                    if sources.contains(&text.path[..]) {
                        continue;
                    }
                    let Ok(joined) = text.get(self.question.inputs) else {
                        return true;
                    };
                    if names.iter().any(|name| name.find(joined).is_some()) {
                        let mut found = lines.read(joined, true);
                        if is_of_assertions(&text.path) {
                            found.asserts_by_names();
                        }
                        lines.add(found);
                    }
                }
                matches!(lines.follow().of_names(), OfNames::Somebody)
            }
        }
    }

    /// The conditions of sources: that they are the same but for comments, or, where that cannot be said, the same.
    pub(super) fn texts_of_sources(&mut self) {
        let emitted = self.question.emitted;
        let is_moved = matches!(self.question.care, Care::Moved { .. });
        // (Where lines are to be moved in an object, it is looked through for such names then.)
        let followed = self.lines.as_ref().map(Lines::follow);
        let tells_places = self.says_names(followed.as_ref())
            || (!is_moved && emitted.is_none_or(|it| it.tells_places));
        let keep = followed.as_ref().map(|it| it.keep(tells_places));
        let keep = keep.unwrap_or_default();
        let mut moved = self.moved().into_iter();
        // Of all texts, or none: it is said of all what is used, where that is known.
        let mut outlines = emitted.is_some().then(Vec::new);
        for source in &self.sources {
            let keeps = source
                .number
                .map_or(Keeps::Places, |number| keep[number.index()]);
            // With other comments it could become equal to one that says the same.
            let may_become_another = source.mentions_once
                && self
                    .rest(source, Keeps::Order)
                    .and_then(|rest| self.once.get(&rest))
                    .is_none_or(|ids| ids.len() > 1);
            let moved = moved.next().flatten();
            // (Nothing was said of the code. Without such comments something may be, and others cannot change that.)
            let may_be_said = self.question.heeds_indentation && self.unindents(source);
            let of_text = match may_become_another || may_be_said {
                true => None,
                false => self.of_text(source, keeps, moved),
            };
            let condition = match of_text {
                Some((text_keeps, rest)) => {
                    outlines = outlines.and_then(|mut all: Vec<Outline>| {
                        // Of those that may be moved only the order counts.
                        let rest = match text_keeps {
                            TextKeeps::PlacesOrMoved | TextKeeps::BytesOrMoved => {
                                self.rest(source, Keeps::Order)?
                            }
                            TextKeeps::Order | TextKeeps::Places => rest,
                        };
                        all.push(self.outline(source, &rest, keeps)?);
                        Some(all)
                    });
                    Condition::Text {
                        rest,
                        keeps: text_keeps,
                        path: &source.path,
                    }
                }
                None => {
                    // Nobody has looked whether it has templates that do something.
                    outlines = outlines.filter(|_| !self.mentions(source, b"template"));
                    Condition::File(source.digest, &source.path)
                }
            };
            self.conditions.insert(condition.encode());
        }
        if let (Some(emitted), Some(followed), Some(outlines)) = (emitted, &followed, outlines)
            && outlines.iter().any(|text| !text.bodies.is_empty())
            && !effects::may_be(
                outlines.iter().map(|text| text.effects),
                self.question.macros,
            )
            && let Some(reaching) = followed.reaching()
        {
            let condition = emitted::condition(emitted, &outlines, &reaching);
            self.conditions.insert(condition);
        }
    }

    /// Whether a source may have this word.
    pub(super) fn mentions(&self, source: &Source, word: &[u8]) -> bool {
        let place = inputs::path(&source.path);
        let read = self.question.inputs.read(place, &source.metadata);
        read.is_none_or(|(_, text)| memmem::find(&text, word).is_some())
    }

    /// The digest of a source's text without comments, if it has one.
    pub(super) fn rest(&self, source: &Source, keeps: Keeps) -> Option<Digest> {
        let place = inputs::path(&source.path);
        self.question.inputs.rest(place, &source.metadata, keeps)
    }

    /// What of a source's text must be as it is, and the digest of that; `None`: its bytes. `keeps`: the same where nothing but code matters.
    /// `moved`: by what its lines are remembered, if they may be moved in debug information.
    pub(super) fn of_text(
        &self,
        source: &Source,
        keeps: Keeps,
        moved: Option<Digest>,
    ) -> Option<(TextKeeps, Digest)> {
        let placed = || Some((TextKeeps::Places, self.rest(source, Keeps::Places)?));
        match (self.question.care, keeps, moved) {
            (Care::Bytes, ..) => None,
            (Care::Order(_), Keeps::Order, _) => {
                Some((TextKeeps::Order, self.rest(source, Keeps::Order)?))
            }
            (Care::Moved { has_digests, .. }, Keeps::Order, Some(digest)) => {
                let keeps = match has_digests {
                    true => TextKeeps::BytesOrMoved,
                    false => TextKeeps::PlacesOrMoved,
                };
                Some((keeps, digest))
            }
            // Other comments are other bytes, too.
            (Care::Moved { has_digests, .. }, ..) if *has_digests => None,
            _ => placed(),
        }
    }

    /// Whether a comment of a source stands further left than the code behind it.
    pub(super) fn unindents(&self, source: &Source) -> bool {
        let Question {
            inputs, summaries, ..
        } = *self.question;
        if let Some(known) = summaries.unindents(&source.digest) {
            return known;
        }
        let read = inputs.read(inputs::path(&source.path), &source.metadata);
        let Some((_, text)) = read.filter(|(digest, _)| *digest == source.digest) else {
            return true;
        };
        let found = comments::unindents(&text);
        summaries.remember_unindents(&source.digest, found);
        found
    }

    /// By what the lines of a source are remembered.
    pub(super) fn digest_of_moved(&self, source: &Source, has_digests: bool) -> Option<Digest> {
        match has_digests {
            true => Some(source.digest),
            false => self.rest(source, Keeps::Places),
        }
    }

    /// The lines of a source, which from now on are remembered.
    pub(super) fn standing(&self, source: &Source, digest: &Digest) -> Option<Standing> {
        let Question {
            inputs, summaries, ..
        } = *self.question;
        if let Some(known) = summaries.standing(digest) {
            return Some(known);
        }
        let (read, text) = inputs.read(inputs::path(&source.path), &source.metadata)?;
        let standing = Standing::of(&text).filter(|_| read == source.digest)?;
        summaries.remember_standing(digest, &standing);
        Some(standing)
    }

    /// Of each source, by what its lines are remembered, if they may be moved: none is where one says itself which lines it has, and not those that
    /// functions include, or that include others in functions.
    pub(super) fn moved(&self) -> Vec<Option<Digest>> {
        let Care::Moved { has_digests, .. } = self.question.care else {
            return Vec::new();
        };
        let mut unmoved = FxHashSet::default();
        let mut found = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            let digest = self.digest_of_moved(source, *has_digests);
            let standing = digest.and_then(|digest| self.standing(source, &digest));
            match &standing {
                Some(standing) => {
                    let names = standing.inner_includes();
                    unmoved.extend(names.iter().cloned());
                    if !names.is_empty() {
                        unmoved.insert(file_name(&source.path).to_vec());
                    }
                }
                None => {
                    let place = inputs::path(&source.path);
                    let read = self.question.inputs.read(place, &source.metadata);
                    match read {
                        Some((_, text)) if !standing::says_lines(&text) => {
                            unmoved.extend(standing::all_includes(&text));
                        }
                        _ => return Vec::new(),
                    }
                }
            }
            found.push(digest.filter(|_| standing.is_some()));
        }
        if unmoved.contains(&b""[..]) {
            return Vec::new();
        }
        for (digest, source) in found.iter_mut().zip(&self.sources) {
            *digest = digest.filter(|_| !unmoved.contains(file_name(&source.path)));
        }
        found
    }

    /// The bodies in a source, if it is known what became of them. From now on it is known that it is compiled without complaint.
    pub(super) fn outline(&self, source: &Source, rest: &Digest, keeps: Keeps) -> Option<Outline> {
        let Question {
            inputs,
            summaries,
            kind,
            ..
        } = *self.question;
        if self.question.emitted.is_none_or(|it| it.has_unasked) {
            return None;
        }
        if let Some(known) = summaries.outline(rest, keeps, kind) {
            return Some(known);
        }
        let (digest, text) = inputs.read(inputs::path(&source.path), &source.metadata)?;
        let text = comments::without(&text, keeps)?;
        if digest != source.digest || Digest::of(&text) != *rest {
            return None;
        }
        let outline = Outline::of(&text, keeps)?;
        summaries.remember_outline(rest, keeps, kind, &outline);
        Some(outline)
    }
}

/// The name of a file without directories.
fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}
