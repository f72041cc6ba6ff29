//! What must be so for a compile to give the same again: found out after it, and looked up before the next.
//!
//! The inputs are those that the compiler's dependency file names. Where it leaves out the headers of the system (`-MMD`), whatever
//! may be included counts as an input. What was looked for and not found comes from the text of the inputs: for each
//! name, the places before the one where it was found. Nothing is recorded where an input was changed since the
//! compile began, or where the text asks for what cannot be followed.

mod by_macros;
mod kept;
mod lookups;
mod reading;

use super::ask::Answer;
use super::assembly::Assembly;
use super::care::Care;
use super::emitted::Emitted;
use super::inputs::{self, Inputs, Listing};
use super::lines::{Lines, TextNumber};
use super::pasting::Pastes;
use super::scan;
use super::summaries::{Context, Summaries};
use super::text::{Form, Lookup};
use super::twins::{self, Names, TWINS};
use format_spec::digest::Digest;
use format_spec::kinds::Condition;
use memchr::memmem;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

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
