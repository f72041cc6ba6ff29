//! What must be so for a compile to give the same again: found out after it, and looked up before the next.
//!
//! The inputs are those that the compiler's dependency file names. Where it leaves out the headers of the system (`-MMD`), whatever
//! may be included counts as an input. What was looked for and not found comes from the text of the inputs: for each
//! name, the places before the one where it was found. Nothing is recorded where an input was changed since the
//! compile began, or where the text asks for what cannot be followed.

use super::ask::Answer;
use super::assembly::Assembly;
use super::bodies::Outline;
use super::care::Care;
use super::checker::{PRECOMPILED, file_at, inside, is_nothing_at};
use super::comments::{self, Keeps};
use super::effects;
use super::emitted::{self, Emitted};
use super::inputs::{self, Inputs, Listing, State};
use super::lines::{Lines, OfNames, TextNumber};
use super::pasting::Pastes;
use super::questions;
use super::scan;
use super::standing::{self, Standing};
use super::summaries::{Context, Look, Summaries, Summary};
use super::text::{Form, Lookup, literal};
use super::tokens;
use super::twins::{self, Names, TWINS};
use format_spec::digest::Digest;
use format_spec::kinds::{Condition, TextKeeps};
use memchr::memmem;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The directories, with what was in them before the compile.
pub type Listings = BTreeMap<PathBuf, Option<Listing>>;

/// What the conditions are found out of.
pub struct Question<'a> {
    pub answer: &'a Answer,
    pub inputs: &'a Inputs,
    /// What texts say, as other compiles have found.
    pub summaries: &'a Summaries,
    /// When the compile began.
    pub start: u64,
    /// What was in the directories then.
    pub before: &'a Listings,
    /// The source, as it was given.
    pub source: &'a [u8],
    /// The arguments of `-include` and `-imacros`.
    pub headers: &'a [Vec<u8>],
    /// The arguments of `-D`.
    pub macros: &'a [Vec<u8>],
    /// Whether what may be included counts as an input, because the compiler did not say.
    pub closure: bool,
    /// Whether a precompiled header is taken where a source includes one.
    pub takes_precompiled: bool,
    /// What the source includes first, as the preprocessor has said.
    pub first: First,
    /// How it is known what assembly reads.
    pub assembly: Assembly,
    /// What the assembler has read, as far as it says so.
    pub assembled: &'a [Vec<u8>],
    /// Whether the preprocessor has said that no date is put together.
    pub is_dateless: bool,
    /// What of the sources may be another one.
    pub care: &'a Care,
    /// Whether comments that stand further left than the code behind them matter.
    pub heeds_indentation: bool,
    /// What code was made of, where that is known.
    pub emitted: Option<&'a Emitted>,
    /// [`super::key::kind`].
    pub kind: &'a Digest,
}

/// What was read, or remembered, of an input.
struct Read {
    digest: Digest,
    summary: Summary,
    /// [`Text::joined`], if it was read.
    joined: OnceCell<Vec<u8>>,
}

/// A source of which comments may be others.
struct Source {
    path: Vec<u8>,
    digest: Digest,
    metadata: Metadata,
    mentions_once: bool,
    /// Where who asks for lines matters.
    number: Option<TextNumber>,
}

/// An input's text, which is read when somebody asks for it: of most that is never.
struct Text {
    /// The directory that it is in, with the slash.
    directory: Vec<u8>,
    path: Vec<u8>,
    metadata: Metadata,
    digest: Digest,
    /// Without words that go on in the next line.
    joined: OnceCell<Vec<u8>>,
    /// It may say that it is to be read once.
    may_be_once: bool,
}

impl Text {
    fn get(&self, inputs: &Inputs) -> Result<&[u8], &'static str> {
        if let Some(known) = self.joined.get() {
            return Ok(known);
        }
        let (_, text) = inputs
            .read(inputs::path(&self.path), &self.metadata)
            .filter(|(digest, _)| *digest == self.digest)
            .ok_or(UNREADABLE)?;
        let joined = scan::joined(text)?;
        Ok(self.joined.get_or_init(|| joined))
    }
}

/// What a source includes first: in its place gcc takes a precompiled header, and does not say so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum First {
    /// Nobody has said it.
    #[default]
    Unknown,
    /// It includes nothing.
    Nothing,
    /// The file at this path.
    File(Vec<u8>),
}

/// More names than this are not looked at each time.
const MOST_CONDITIONS: usize = 50_000;

struct Finder<'q> {
    question: &'q Question<'q>,
    conditions: BTreeSet<Vec<u8>>,
    /// Inputs that are still to be read.
    todo: Vec<(Vec<u8>, Metadata)>,
    /// Device and inode of the inputs.
    known: FxHashSet<(u64, u64)>,
    /// Paths of the inputs.
    seen: FxHashSet<Vec<u8>>,
    done: FxHashSet<(Vec<u8>, Lookup)>,
    /// Device and inode of the file at each place that was looked at, if there is one.
    places: FxHashMap<Vec<u8>, Option<(u64, u64)>>,
    /// Files that may be included, and were not; and of those that were, other names by which they may be, with device and inode.
    unread: BTreeSet<Vec<u8>>,
    other_names: BTreeSet<(Vec<u8>, (u64, u64))>,
    /// Whether there is nothing at the path of a directory that something was looked for in.
    nothing: FxHashMap<Vec<u8>, bool>,
    /// Links and directories on the way to inputs that were found unchanged.
    ways: FxHashSet<PathBuf>,
    texts: Vec<Text>,
    /// A text could not be read where there was no way to say so.
    is_unreadable: Cell<bool>,
    /// In which summaries of texts are looked for.
    context: Option<Context>,
    /// Other names of `__has_include`.
    questions: BTreeSet<Vec<u8>>,
    /// Directory of the includer, and the macro that is to be the name.
    by_macro: Vec<(Vec<u8>, Vec<u8>)>,
    /// What macros may put together.
    pastes: Pastes,
    /// Who asks for lines, where that matters.
    lines: Option<Lines>,
    /// Sources that are read without their comments.
    sources: Vec<Source>,
    /// Device and inode of inputs that may say that they are to be read once, by what is in them but comments.
    once: FxHashMap<Digest, BTreeSet<(u64, u64)>>,
    /// Whether what the source includes first is named there.
    is_plain: bool,
}

const PRECOMPILED_USED: &str = "a precompiled header";
/// Why nothing is said where the name of what is included first is not known.
pub const PERHAPS_PRECOMPILED: &str = "perhaps a precompiled header";
const UNREADABLE: &str = "an input cannot be read";
const CHANGED: &str = "an input was changed just now";
const BY_MACRO: &str = "an #include of a macro that cannot be followed";

/// The conditions of a compile with these inputs.
///
/// # Errors
/// In words, why it cannot be said.
pub fn find(question: &Question<'_>, named: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, &'static str> {
    let mut finder = Finder {
        question,
        conditions: BTreeSet::new(),
        todo: Vec::new(),
        known: FxHashSet::default(),
        seen: FxHashSet::default(),
        done: FxHashSet::default(),
        places: FxHashMap::default(),
        unread: BTreeSet::new(),
        other_names: BTreeSet::new(),
        nothing: FxHashMap::default(),
        ways: FxHashSet::default(),
        texts: Vec::new(),
        is_unreadable: Cell::new(false),
        context: Context::new(question.assembly, question.care.lines()),
        questions: BTreeSet::new(),
        by_macro: Vec::new(),
        pastes: Pastes::default(),
        lines: question.care.lines().cloned(),
        sources: Vec::new(),
        once: FxHashMap::default(),
        is_plain: false,
    };
    for path in named.into_iter().chain([question.source.to_vec()]) {
        finder.input(path)?;
    }
    finder.no_precompiled(question.source)?;
    // gcc reads this one before all others, where it is there.
    let implicit = Lookup {
        form: Form::Angled,
        name: b"stdc-predef.h".to_vec(),
        only_asks: false,
    };
    finder.look_up(b"", &implicit, true)?;
    for name in question.headers {
        let lookup = Lookup {
            form: Form::Quoted,
            name: name.clone(),
            only_asks: false,
        };
        finder.look_up(b"", &lookup, true)?;
    }
    for text in question.macros {
        if text.windows(6).any(|part| part == b"__has_") {
            return Err("__has_include by another name in an option");
        }
        // Between the name and the value there is a `=`; a definition has a blank there.
        let text = [b"#define ", &text[..]].concat();
        let read = finder.look_through(Digest::of(&text), text, false)?;
        finder.take(b"", read.summary, false)?;
    }
    let mut at_macro = 0;
    let mut followed = FxHashSet::default();
    loop {
        while let Some((path, metadata)) = finder.todo.pop() {
            finder.read(&path, &metadata)?;
        }
        let Some((directory, name)) = finder.by_macro.get(at_macro).cloned() else {
            break;
        };
        at_macro += 1;
        if followed.insert((directory.clone(), name.clone())) {
            finder.follow(&directory, &name)?;
        }
    }
    finder.questions_by_other_names()?;
    finder.no_pastes()?;
    finder.opaque_names(&followed)?;
    finder.check_assembled()?;
    finder.no_twins()?;
    finder.texts_of_sources();
    finder.below_nothing();
    if finder.is_unreadable.get() {
        return Err(UNREADABLE);
    }
    if finder.conditions.len() > MOST_CONDITIONS {
        return Err("too many headers");
    }
    let mut search = Vec::new();
    for directory in &question.answer.search {
        search.extend_from_slice(directory);
        search.push(0);
    }
    finder
        .conditions
        .insert(Condition::Search(&search).encode());
    Ok(finder.conditions.into_iter().collect())
}

impl Finder<'_> {
    fn input(&mut self, path: Vec<u8>) -> Result<(), &'static str> {
        if self.seen.contains(&path) {
            return Ok(());
        }
        if PRECOMPILED.iter().any(|end| path.ends_with(end)) {
            return Err(PRECOMPILED_USED);
        }
        let metadata = fs::metadata(inputs::path(&path)).map_err(|_| UNREADABLE)?;
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

    fn read(&mut self, path: &[u8], metadata: &Metadata) -> Result<(), &'static str> {
        let place = inputs::path(path);
        if inputs::changed(metadata) >= self.question.start {
            return Err(CHANGED);
        }
        self.way_to(place, 0)?;
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
    fn recall(
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
    fn look_at(
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
    fn look_through(
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
    fn take(
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
    fn all_texts(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.texts.iter().map(|text| {
            text.get(self.question.inputs).unwrap_or_else(|_| {
                self.is_unreadable.set(true);
                b""
            })
        })
    }

    /// Whether something else than an assertion may ask for names of functions with all their types, and make a number of them.
    fn says_names(&self) -> bool {
        let Some(lines) = &self.lines else {
            return true;
        };
        match lines.of_names() {
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
                matches!(lines.of_names(), OfNames::Somebody)
            }
        }
    }

    /// The conditions of sources: that they are the same but for comments, or, where that cannot be said, the same.
    fn texts_of_sources(&mut self) {
        let emitted = self.question.emitted;
        let is_moved = matches!(self.question.care, Care::Moved { .. });
        // (Where lines are to be moved in an object, it is looked through for such names then.)
        let tells_places =
            self.says_names() || (!is_moved && emitted.is_none_or(|it| it.tells_places));
        let keep = self.lines.as_ref().map(|lines| lines.keep(tells_places));
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
        if let (Some(emitted), Some(lines), Some(outlines)) = (emitted, &self.lines, outlines)
            && outlines.iter().any(|text| !text.bodies.is_empty())
            && !effects::may_be(
                outlines.iter().map(|text| text.effects),
                self.question.macros,
            )
            && let Some(reaching) = lines.reaching()
        {
            let condition = emitted::condition(emitted, &outlines, &reaching);
            self.conditions.insert(condition);
        }
    }

    /// Whether a source may have this word.
    fn mentions(&self, source: &Source, word: &[u8]) -> bool {
        let place = inputs::path(&source.path);
        let read = self.question.inputs.read(place, &source.metadata);
        read.is_none_or(|(_, text)| memmem::find(&text, word).is_some())
    }

    /// The digest of a source's text without comments, if it has one.
    fn rest(&self, source: &Source, keeps: Keeps) -> Option<Digest> {
        let place = inputs::path(&source.path);
        self.question.inputs.rest(place, &source.metadata, keeps)
    }

    /// What of a source's text must be as it is, and the digest of that; `None`: its bytes. `keeps`: the same where nothing but code matters.
    /// `moved`: by what its lines are remembered, if they may be moved in debug information.
    fn of_text(
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
    fn unindents(&self, source: &Source) -> bool {
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
    fn digest_of_moved(&self, source: &Source, has_digests: bool) -> Option<Digest> {
        match has_digests {
            true => Some(source.digest),
            false => self.rest(source, Keeps::Places),
        }
    }

    /// The lines of a source, which from now on are remembered.
    fn standing(&self, source: &Source, digest: &Digest) -> Option<Standing> {
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
    fn moved(&self) -> Vec<Option<Digest>> {
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
    fn outline(&self, source: &Source, rest: &Digest, keeps: Keeps) -> Option<Outline> {
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

    /// Whether all that the assembler has read is known: the inputs, under their own names, and what the compiler has written for it.
    fn check_assembled(&self) -> Result<(), &'static str> {
        const OTHER: &str = "assembly reads another file";
        let source = inputs::path(self.question.source).file_name();
        for name in self.question.assembled {
            let path = inputs::path(name);
            let is_known = match fs::metadata(path) {
                Ok(found) => self.known.contains(&(found.dev(), found.ino())),
                Err(_) => {
                    let file = path.file_name().unwrap_or_default().as_bytes();
                    file.starts_with(b"cc") && file.ends_with(b".s")
                }
            };
            if !is_known && source != Some(path.as_os_str()) {
                return Err(OTHER);
            }
        }
        Ok(())
    }

    /// Nothing that is to be read once is there twice ([`twins`]).
    fn no_twins(&mut self) -> Result<(), &'static str> {
        let inputs = self.question.inputs;
        let may_import = self.texts.iter().filter(|text| text.may_be_once);
        let mut imports = false;
        for text in may_import {
            imports = imports || twins::imports(text.get(inputs)?);
        }
        let once = || self.texts.iter().filter(|text| imports || text.may_be_once);
        let mut by_digest: FxHashMap<Digest, &Text> = FxHashMap::default();
        let mut by_id: FxHashMap<(u64, u64), &Text> = FxHashMap::default();
        let here = std::env::current_dir().map_err(|_| UNREADABLE)?;
        let names = |text: &Text, path: &[u8]| {
            Names::of(inputs::path(&text.path), inputs::path(path), &here)
        };
        for text in once() {
            let id = (text.metadata.dev(), text.metadata.ino());
            if let Some(other) = by_id.get(&id)
                && names(other, &text.path) == Names::Other
            {
                return Err(TWINS);
            }
            by_id.insert(id, text);
            let other = by_digest.entry(text.digest).or_insert(text);
            if (other.metadata.dev(), other.metadata.ino()) != id {
                return Err(TWINS);
            }
        }
        for (path, id) in &self.other_names {
            let Some(text) = by_id.get(id) else { continue };
            match names(text, path) {
                Names::Same => {}
                Names::Directories => {
                    self.conditions
                        .insert(Condition::File(text.digest, path).encode());
                }
                Names::Other => return Err(TWINS),
            }
        }
        let sizes: FxHashSet<u64> = once().map(|text| text.metadata.len()).collect();
        for path in &self.unread {
            let place = inputs::path(path);
            let metadata = fs::metadata(place).map_err(|_| UNREADABLE)?;
            if metadata.is_file() && sizes.contains(&metadata.len()) {
                let (digest, _) = inputs.read(place, &metadata).ok_or(UNREADABLE)?;
                if by_digest.contains_key(&digest) {
                    return Err(TWINS);
                }
            }
        }
        Ok(())
    }

    /// What is asked by other names of `__has_include`.
    fn questions_by_other_names(&mut self) -> Result<(), &'static str> {
        let mut todo: Vec<Vec<u8>> = self.questions.iter().cloned().collect();
        let texts = std::mem::take(&mut self.texts);
        while let Some(name) = todo.pop() {
            let is_in_option = |text: &Vec<u8>| memmem::find(text, &name).is_some();
            if self.question.macros.iter().any(is_in_option) {
                return Err(questions::BY_ANOTHER_NAME);
            }
            for text in &texts {
                let found = questions::by_name(text.get(self.question.inputs)?, &name)?;
                for lookup in &found.lookups {
                    self.look_up(&text.directory, lookup, false)?;
                }
                let new = (found.names.into_iter()).filter(|it| self.questions.insert(it.clone()));
                todo.extend(new);
            }
        }
        self.texts = texts;
        Ok(())
    }

    /// Nothing is put together by `##` that would matter.
    fn no_pastes(&mut self) -> Result<(), &'static str> {
        // As definitions in a source.
        let macros: Vec<Vec<u8>> = (self.question.macros.iter())
            .map(|text| {
                let mut line = [b"#define ", &text[..]].concat();
                if let Some(at) = memchr::memchr(b'=', &line) {
                    line[at] = b' ';
                }
                line
            })
            .collect();
        if !self.questions.is_empty() {
            let mut pastes = Pastes::new(&self.questions);
            let texts = self.all_texts().chain(macros.iter().map(Vec::as_slice));
            texts.for_each(|text| pastes.read(text, |_| {}));
            self.pastes = pastes;
        }
        let texts = self.all_texts().chain(macros.iter().map(Vec::as_slice));
        let Question {
            assembly,
            is_dateless,
            ..
        } = *self.question;
        match self.pastes.reason(assembly, is_dateless, texts) {
            Some(reason) => Err(reason),
            None => Ok(()),
        }
    }

    /// All that a macro may be.
    fn definitions(&self, name: &[u8]) -> Vec<Option<Vec<u8>>> {
        let mut found: Vec<Option<Vec<u8>>> = (self.all_texts())
            .flat_map(|text| scan::definitions(text, name))
            .map(|text| text.map(<[u8]>::to_vec))
            .collect();
        for text in self.question.macros {
            let end = text
                .iter()
                .position(|byte| *byte == b'=')
                .unwrap_or(text.len());
            if text[..end] == *name {
                found.push(Some(text.get(end + 1..).unwrap_or_default().to_vec()));
            } else if text[..end]
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(b"("))
            {
                found.push(None);
            }
        }
        found
    }

    fn is_opaque(&self, name: &[u8]) -> bool {
        let found = self.definitions(name);
        // What the compiler itself defines.
        let is_own = found.is_empty() && name.starts_with(b"_");
        is_own
            || found
                .iter()
                .any(|text| !text.as_deref().is_some_and(is_name_or_word))
    }

    /// What is included by macros of which the text is not a name. What the compiler found of these is among the inputs, so under each
    /// name that may lead there from such a place it is looked for.
    fn opaque_names(
        &mut self,
        followed: &FxHashSet<(Vec<u8>, Vec<u8>)>,
    ) -> Result<(), &'static str> {
        let opaque = followed.iter().filter(|(_, name)| self.is_opaque(name));
        let places: BTreeSet<Vec<u8>> = opaque.map(|(directory, _)| directory.clone()).collect();
        if places.is_empty() {
            return Ok(());
        }
        // Nobody says what it was.
        if self.question.closure {
            return Err(BY_MACRO);
        }
        let first = match &self.question.first {
            _ if !self.question.takes_precompiled => None,
            _ if !self.question.headers.is_empty() || self.is_plain => None,
            First::Unknown => return Err(PERHAPS_PRECOMPILED),
            First::Nothing => None,
            First::File(path) => Some(as_in_dependency_files(path)),
        };
        let other = first.filter(|path| !self.seen.contains(*path));
        let mut inputs: Vec<Vec<u8>> = self.seen.iter().cloned().collect();
        inputs.extend(other.map(<[u8]>::to_vec));
        for path in &inputs {
            let is_first = Some(&path[..]) == first;
            let names = (self.question.answer.search.iter())
                .map(|directory| inside(directory, b""))
                .chain([Vec::new()])
                .filter_map(|start| path.strip_prefix(&start[..]).map(<[u8]>::to_vec))
                .collect::<BTreeSet<_>>();
            for (name, place) in names
                .iter()
                .flat_map(|name| places.iter().map(move |it| (name, it)))
            {
                let lookup = Lookup {
                    form: Form::Quoted,
                    name: name.clone(),
                    only_asks: false,
                };
                self.look_up(place, &lookup, is_first)?;
                let lookup = Lookup {
                    form: Form::Angled,
                    ..lookup
                };
                self.look_up(place, &lookup, is_first)?;
            }
            if self.conditions.len() > MOST_CONDITIONS {
                return Err("too many headers");
            }
        }
        // The preprocessor read another file than the compiler: not because of what is precompiled, which was looked for.
        match other {
            Some(_) => Err(PERHAPS_PRECOMPILED),
            None => Ok(()),
        }
    }

    fn follow(&mut self, directory: &[u8], name: &[u8]) -> Result<(), &'static str> {
        for text in self.definitions(name).into_iter().flatten() {
            match literal(&text) {
                Some((form, name)) => {
                    let lookup = Lookup {
                        form,
                        name: name.to_vec(),
                        only_asks: false,
                    };
                    self.look_up(directory, &lookup, true)?;
                }
                None if is_name_or_word(&text) && !text.is_empty() => {
                    self.by_macro.push((directory.to_vec(), text));
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Looks for a name as the compiler does. `is_first`: also for a precompiled header of this name.
    fn look_up(
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
    fn not_found(&mut self, from: usize, to: usize, name: &[u8]) {
        // (There are 250 at most.)
        if to > from {
            let (first, count) = (from as u8, (to - from) as u8);
            self.conditions
                .insert(Condition::NotFound { first, count, name }.encode());
        }
    }

    /// Says of what is not there for want of the directories above it only that these are not there. (A header that is included by a
    /// path is looked for beside each header that includes it: in all these places nothing is but the includer.)
    fn below_nothing(&mut self) {
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
    fn no_precompiled(&mut self, path: &[u8]) -> Result<(), &'static str> {
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
    fn file_at(&mut self, path: &[u8]) -> Result<Option<(u64, u64)>, &'static str> {
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
    fn is_nothing(&mut self, directory: &[u8]) -> bool {
        if let Some(known) = self.nothing.get(directory) {
            return *known;
        }
        let is_nothing = is_nothing_at(directory);
        self.nothing.insert(directory.to_vec(), is_nothing);
        is_nothing
    }

    /// Whether there is a file at a place where one is looked for.
    fn place(
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
    fn is_settled(&mut self, path: &[u8]) -> bool {
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

/// The name of a file without directories.
fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// Whether a path is below a directory of what is installed, whose files nobody edits.
fn is_of_system(path: &[u8]) -> bool {
    let installed: [&[u8]; 7] = [
        b"/usr/include/",
        b"/usr/lib",
        b"/usr/local/include/",
        b"/usr/local/lib",
        b"/usr/share/",
        b"/lib",
        b"/opt/",
    ];
    installed.iter().any(|start| path.starts_with(start))
}

/// Whether a header is one of those in which only assertions ask for the names of functions: of the C library, and of those of C++.
fn is_of_assertions(path: &[u8]) -> bool {
    let is_in = |what: &[u8]| memmem::find(path, what).is_some();
    is_of_system(path) && (path == b"/usr/include/assert.h" || is_in(b"/c++/"))
}

/// A path as gcc has it in dependency files: without `./` before it.
fn as_in_dependency_files(mut path: &[u8]) -> &[u8] {
    while let Some(rest) = path.strip_prefix(b"./") {
        let slashes = rest.iter().take_while(|byte| **byte == b'/').count();
        path = &rest[slashes..];
    }
    path
}

/// Whether a macro's text is a name of a header, or another macro.
fn is_name_or_word(text: &[u8]) -> bool {
    let rest = match literal(text) {
        Some((_, name)) => text[name.len() + 2..].trim_ascii(),
        None => {
            let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            return text.iter().all(is_part);
        }
    };
    rest.is_empty() || rest.starts_with(b"//") || (rest.starts_with(b"/*") && rest.ends_with(b"*/"))
}
