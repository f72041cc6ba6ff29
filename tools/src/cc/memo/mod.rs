//! Compiles that need not be done again: what the same command made of the same inputs is in the repository.
//!
//! ```text
//! Memo::begin ─▶ Memo::hit ─┬────────────┬─▶ ticket, dependency file, diagnostics     the compiler is not run
//!   what is      manifest,  ├─▶ moved ───┘
//!   the key      conditions │    lines in debug information
//!                           └─▶ the compile ─▶ Memo::record
//!                                              inputs, conditions, manifest
//! ```
//!
//! The key is all that the command line says, word by word, what the compiler is, where it runs, and what of the environment it
//! heeds (SPEC.md, section 27). Whatever is not understood makes a compile an ordinary one: nothing is looked up, and
//! nothing recorded. A reason is counted for each, and is in the log.

pub mod any_text;
mod ask;
mod assembly;
mod base;
mod bodies;
pub mod bundle;
mod care;
pub mod checker;
mod comments;
pub mod conditions;
pub mod counts;
pub mod depfile;
mod driver;
mod effects;
pub mod emitted;
pub mod explain;
mod functions;
mod graph;
pub mod inputs;
pub mod key;
mod lines;
mod macros;
mod moved;
mod nameless;
pub mod observed;
mod parts;
mod pasting;
mod place;
mod places;
mod preprocessed;
mod questions;
mod reach;
mod rows;
mod scan;
pub mod shared;
mod standing;
mod statistics;
mod summaries;
mod text;
mod tokens;
mod twins;

use observed::Observed;
pub use statistics::{Wishes, statistics};

use super::classify::{Compile, Language, Word};
use super::compiler::Family;
use super::import::{Importer, Made};
use super::invocation::{Asked, Invocation};
use super::log::Log;
use super::options::Meaning;
use super::run::{self, Captured, HeldSignals};
use super::{publish, response};
use crate::cc::switches::is_read_only;
use ask::{Answer, Question};
use assembly::Assembly;
use base::Base;
use care::Care;
use checker::Checker;
use comments::Keeps;
use conditions::Listings;
use counts::Counts;
use emitted::Emitted;
use format_spec::digest::Digest;
use format_spec::kinds::{Condition, ManifestResult, TextKeeps};
use inputs::Inputs;
use moved::Moves;
use place::Place;
use std::cell::OnceCell;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use store::program::manifest::{ManifestView, record_result, record_use};
use store::program::{Programs, Repository};
use summaries::Summaries;
use tickets::make_fat;

/// Whether all that a compilation consists of is there, with the bytes that were written.
fn is_whole(programs: &Programs<'_>, compilation: &Digest) -> bool {
    let Ok(view) = programs.compilation(compilation) else {
        return false;
    };
    let fragment = |address| {
        let record = programs.snapshot().record_at(address);
        record.is_ok_and(|record| record.is_whole())
    };
    let members = view.members().iter().enumerate();
    members.into_iter().all(|(number, member)| {
        let mut pieces = view.pieces_of(number).iter();
        fragment(member.fragment) && pieces.all(|piece| programs.piece(*piece).is_ok())
    })
}

/// A compile of which it may be known what it makes.
pub struct Memo<'a> {
    invocation: &'a Invocation,
    compile: &'a Compile,
    log: &'a Log,
    is_fat: bool,
    /// All words of the command line: response files expanded, and paths below the base directory said anew.
    args: Vec<OsString>,
    base: Option<Base>,
    language: Language,
    environment: Vec<(&'static str, OsString)>,
    directory: PathBuf,
    /// Our own directory.
    own: PathBuf,
    inputs: Inputs,
    answer: Answer,
    parts: Vec<Vec<u8>>,
    key: Digest,
    is_pruned: bool,
    /// [`Memo::kind`], once somebody has asked.
    kind: OnceCell<Digest>,
    /// The dependency file that the build wants.
    dependency_file: Option<PathBuf>,
    /// The one that only we want.
    own_dependency_file: Option<PathBuf>,
    /// Where gcc's assembler says what it reads.
    assembled_file: Option<PathBuf>,
    /// Where clang draws what it reads, if the dependency file is without the system's headers.
    graph_file: Option<PathBuf>,
    /// When the compile began.
    start: u64,
    before: Listings,
    place: Option<Place>,
}

impl<'a> Memo<'a> {
    /// Looks what the key is. `is_pruned`: definitions that the repository has may be left out.
    ///
    /// # Errors
    /// In words, why this is an ordinary compile.
    pub fn begin(
        invocation: &'a Invocation,
        compile: &'a Compile,
        asked: &Asked<'a>,
        is_pruned: bool,
    ) -> Result<Memo<'a>, &'static str> {
        let start = inputs::now();
        let compiler = invocation.compiler.as_ref().ok_or("no compiler")?;
        if invocation.has_launcher() {
            return Err("a launcher stands before the compiler");
        }
        let [source] = compile.sources.as_slice() else {
            return Err("not one source");
        };
        if compile.outputs.len() != 1 {
            return Err("not one output");
        }
        if source.name == "-" {
            return Err("the source is standard input");
        }
        let language = match source.language {
            Language::C if invocation.is_driver_of_cxx() && !source.is_given => Language::Cxx,
            Language::Other => return Err("neither C, C++ nor assembly"),
            language => language,
        };
        if let Some(reason) = key::why_not(compile) {
            return Err(reason);
        }
        let own = shared::directory().map_err(|_| "no directory for what is known of inputs")?;
        if !shared::has_room(&own) {
            return Err("no room for what is known of inputs");
        }
        let directory = env::current_dir().map_err(|_| "no working directory")?;
        let base = Base::from_environment(&directory);
        let args = all_words(invocation, compile, base.as_ref())?;
        let environment = key::environment();
        let inputs = Inputs::open(Some(&own));
        let words = match &base {
            Some(_) => &reworded(compile, &args),
            None => &compile.words,
        };
        let question = Question {
            program: &invocation.program,
            compiler,
            language,
            words,
            environment: &environment,
            directory: &directory,
        };
        let answer = question.answer(Some(&own), &inputs)?;
        let is_preprocessed = language != Language::RawAssembly;
        let about_dependencies = |word: &Word| word.meaning == Meaning::Dependencies;
        let dependency_file = match compile.dependencies.wanted {
            true if !is_preprocessed => return Err("a dependency file of what includes nothing"),
            true => Some(dependency_file(compile).ok_or("a dependency file that is none")?),
            false if compile.words.iter().any(about_dependencies) => {
                return Err("options of a dependency file that is not asked for");
            }
            false => None,
        };
        let own_dependency_file = (dependency_file.is_none() && is_preprocessed)
            .then(|| own.join(format!("inputs-of-{}-{start}", std::process::id())));
        let assembled_file = (compiler.family == Family::Gcc)
            .then(|| own.join(format!("assembled-of-{}-{start}", std::process::id())));
        let names_root = |word: &Word| {
            let option = word.option.as_bytes();
            option.starts_with(b"--sysroot") || option.starts_with(b"-isysroot")
        };
        // What is included first without a directive is in no graph, unless it includes something itself.
        let includes_first = |word: &Word| word.meaning == Meaning::Header;
        let is_drawn = compile.dependencies.without_system
            && !compile.words.iter().any(includes_first)
            && !compile.words.iter().any(names_root)
            && compiler.family == Family::Clang
            && matches!(language, Language::C | Language::Cxx);
        let graph_file =
            is_drawn.then(|| own.join(format!("graph-of-{}-{start}", std::process::id())));
        let (key, parts) = key::make(&key::Question {
            invocation,
            compile,
            args: &args,
            answer: &answer,
            environment: &environment,
            directory: &directory,
            base: base.as_ref(),
            is_pruned,
        });
        Ok(Memo {
            invocation,
            compile,
            log: asked.log,
            is_fat: asked.fat,
            args,
            base,
            language,
            environment,
            directory,
            own,
            inputs,
            answer,
            parts,
            key,
            is_pruned,
            kind: OnceCell::new(),
            dependency_file,
            own_dependency_file,
            assembled_file,
            graph_file,
            start,
            before: Listings::new(),
            place: None,
        })
    }

    /// Whether it helps to know what code is made of, though nothing is left out: lines are moved in the debug information of what this makes. (Compilers of
    /// C++ describe a class whole, or only by name, by what is asked of it anywhere, also in bodies of which no code is made.)
    pub fn asks_names(&self) -> bool {
        if self.language != Language::C {
            return false;
        }
        let family = self.invocation.compiler.as_ref().map(|it| it.family);
        let words = reworded(self.compile, &self.args);
        family.is_some_and(|family| {
            matches!(
                care::care(&words, family, self.language),
                Care::Moved { .. }
            )
        })
    }

    /// The compiler's arguments, without ours.
    pub fn words(&self) -> &[OsString] {
        match self.base {
            Some(_) => &self.args,
            None => &self.invocation.args,
        }
    }

    /// The source, as the compiler is told.
    fn source(&self) -> &[u8] {
        let source = &self.compile.sources[0];
        let word = self.args.get(source.position).unwrap_or(&source.name);
        word.as_bytes()
    }

    /// Of which kind the compile is ([`key::kind`]). Most that are known are found without it.
    fn kind(&self) -> &Digest {
        self.kind.get_or_init(|| {
            let question = key::Question {
                invocation: self.invocation,
                compile: self.compile,
                args: &self.args,
                answer: &self.answer,
                environment: &self.environment,
                directory: &self.directory,
                base: self.base.as_ref(),
                is_pruned: self.is_pruned,
            };
            let mut more = inputs::own_program().unwrap_or_default().to_vec();
            more.push(self.language as u64);
            key::kind(&question, &more)
        })
    }

    /// What is said with `--explain`.
    fn say(&self, line: std::fmt::Arguments<'_>) {
        self.log.explain(format_args!(
            "{}: {line}",
            self.compile.outputs[0].display()
        ));
    }

    /// Writes what the compile would, if that is known. `Some`: it is done.
    pub fn hit(&self, importer: &mut Importer<'_>) -> Option<()> {
        let target = publish::place_for(&self.compile.outputs[0])?;
        let on_record = importer.on_record(&target);
        let Some(repository) = importer.existing(&target) else {
            self.say(format_args!("miss: there is no repository"));
            return None;
        };
        let counts = Counts::open(Some(&self.own), repository.uuid());
        let mut found = self.look_up(repository, &counts)?;
        if let Err(reason) = self.check_dependency_file() {
            self.say(format_args!("miss: {reason}"));
            return None;
        }
        if !found.moves.is_empty() {
            if let Err(reason) = self.move_lines(&mut found, importer, &target) {
                counts.add(counts::CHANGED, 1);
                self.say(format_args!("miss: lines are others, and {reason}"));
                return None;
            }
            counts.add(counts::MOVED, 1);
            let said = found.moves.said();
            self.say(format_args!(
                "lines are others, and were moved in the debug information: {said}"
            ));
        } else {
            let programs = importer.existing(&target)?.programs().ok()?;
            let manifest = programs.manifest(&self.key).ok()??;
            let ticket = on_record.map(|ticket| (ticket, &found.compilation));
            record_use(&programs, &manifest, ticket).ok()?;
        }
        let put = match found.object {
            Some(mut object) => {
                let repository = importer.existing(&target)?;
                make_fat(&mut object, repository, &found.compilation);
                object
            }
            None => importer.ticket(&found.compilation, &target).ok()?,
        };
        let _held = HeldSignals::ending();
        if let (Some(path), Some(bytes)) = (&self.dependency_file, &found.dependencies) {
            fs::write(path, bytes).ok()?;
        }
        publish::put(&target, &put).ok()?;
        let _ = io::stderr().write_all(&found.diagnostics);
        counts.add(counts::HITS, 1);
        let output = self.compile.outputs[0].display();
        (self.log).decide(format_args!("{output}: hit: the compiler is not run"));
        Some(())
    }

    fn look_up(&self, repository: &Repository, counts: &Counts) -> Option<Found> {
        let miss = |name: &str, line: std::fmt::Arguments<'_>| {
            counts.add(name, 1);
            self.say(format_args!("miss: {line}"));
        };
        let programs = repository.programs().ok()?;
        let manifest = match programs.manifest(&self.key) {
            Ok(Some(manifest)) => manifest,
            Ok(None) => {
                let nearest = match self.log.explain {
                    true => explain::nearest(&programs, &self.parts),
                    false => None,
                };
                let nearest = nearest.unwrap_or_default();
                let line = format_args!("this command was not run here before{nearest}");
                miss(counts::NEW, line);
                return None;
            }
            Err(error) => {
                miss(counts::NEW, format_args!("{error}"));
                return None;
            }
        };
        // (Digests do not collide; but the names are there to be asked.)
        let names = |ids: &[_]| -> Option<Vec<&[u8]>> {
            ids.iter().map(|id| programs.name(*id).ok()).collect()
        };
        if names(manifest.manifest().parts)? != self.parts {
            return None;
        }
        let texts = names(manifest.manifest().conditions)?;
        let conditions: Vec<Condition<'_>> = texts
            .iter()
            .map(|text| Condition::parse(text))
            .collect::<Option<_>>()?;
        let mut known: Vec<Option<bool>> = vec![None; conditions.len()];
        let mut first_reason = None;
        for (number, result) in manifest.manifest().results.iter().enumerate() {
            let of_it: Vec<usize> = manifest
                .manifest()
                .conditions_of(number)
                .map(|(at, _)| at)
                .collect();
            let search = of_it.iter().find_map(|at| match conditions[*at] {
                Condition::Search(search) => Some(search),
                _ => None,
            });
            let mut checker = Checker::new(&self.inputs, search.unwrap_or_default());
            let is_of_bodies = |it: &&Condition<'_>| matches!(it, Condition::Bodies { .. });
            let bodies = of_it.iter().map(|at| &conditions[*at]).find(is_of_bodies);
            let (mut others, mut moves) = (Vec::new(), Moves::default());
            let broken = of_it.iter().find(|at| {
                let condition = &conditions[**at];
                let holds = known[**at].unwrap_or_else(|| checker.holds(condition));
                known[**at] = Some(holds);
                !holds
                    && !self.is_unused(condition, bodies, &mut others)
                    && !self.is_moved((**at, condition), bodies, (&mut others, &mut moves))
            });
            match broken {
                Some(at) => {
                    first_reason.get_or_insert_with(|| explain::broken(&conditions[*at]));
                }
                None => match self.take(&programs, &manifest, result) {
                    Some(mut found) => {
                        found.conditions = moves.conditions(&texts, &of_it);
                        found.moves = moves;
                        if !others.is_empty() {
                            let others = others.join(", ");
                            self.say(format_args!("another one, but not used here: {others}"));
                            counts.add(counts::UNUSED, 1);
                        }
                        return Some(found);
                    }
                    None => {
                        let why = || "what was recorded lacks what is asked for now".to_owned();
                        first_reason.get_or_insert_with(why);
                    }
                },
            }
        }
        let reason = first_reason.unwrap_or_else(|| "nothing is recorded".to_owned());
        miss(counts::CHANGED, format_args!("{reason}"));
        None
    }

    /// Whether a text is another one only in the bodies of functions of which the compile has made no code. `others`: these are
    /// added.
    fn is_unused(
        &self,
        condition: &Condition<'_>,
        bodies: Option<&Condition<'_>>,
        others: &mut Vec<String>,
    ) -> bool {
        // (What counts as a body for another version is not known.)
        let (
            Condition::Text {
                rest,
                keeps: text_keeps @ (TextKeeps::Order | TextKeeps::Places),
                path,
            },
            Some(Condition::Bodies {
                version: bodies::VERSION,
                used,
                reaching,
            }),
        ) = (condition, bodies)
        else {
            return false;
        };
        let summaries = Summaries::open(Some(&self.own));
        let found = || {
            let keeps = Keeps::of(*text_keeps)?;
            let old = summaries.outline(rest, keeps, self.kind())?;
            let place = inputs::path(path);
            let metadata = fs::metadata(place).ok()?;
            let now = self.inputs.rest(place, &metadata, keeps)?;
            // Somebody else has compiled it, and nothing was said.
            let new = summaries.outline(&now, keeps, self.kind())?;
            let names = emitted::may_be(&old, &new, used, reaching)?;
            let path = String::from_utf8_lossy(path);
            Some(
                names
                    .into_iter()
                    .map(move |name| format!("{name} ({path})"))
                    .collect::<Vec<_>>(),
            )
        };
        match found() {
            Some(found) => {
                others.extend(found);
                true
            }
            None => false,
        }
    }

    fn take<'s>(
        &self,
        programs: &Programs<'s>,
        manifest: &ManifestView<'s>,
        result: &ManifestResult,
    ) -> Option<Found> {
        let dependencies = programs.captured(manifest, result.dependencies).ok()?;
        if self.dependency_file.is_some() && dependencies.is_none() {
            return None;
        }
        let compilation = programs.compilation_of(manifest, result).ok()??;
        // What is damaged is compiled again, and so made good; a link could only say that it is.
        if !is_whole(programs, &compilation) {
            return None;
        }
        let diagnostics = programs.captured(manifest, result.diagnostics).ok()?;
        let object = match self.is_fat {
            true => {
                let files = bundle::unpack(programs.captured(manifest, result.files).ok()??)?;
                let object = files.into_iter().find(|(name, _)| name == bundle::OBJECT);
                Some(object?.1)
            }
            false => None,
        };
        Some(Found {
            object,
            moves: Moves::default(),
            conditions: Vec::new(),
            compilation,
            diagnostics: diagnostics.unwrap_or_default().to_vec(),
            dependencies: dependencies.map(<[u8]>::to_vec),
        })
    }

    /// Whether the dependency file can be written as the compiler would.
    fn check_dependency_file(&self) -> Result<(), &'static str> {
        let Some(path) = &self.dependency_file else {
            return Ok(());
        };
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => Ok(()),
            Ok(_) => Err("the dependency file is not a file"),
            Err(_) => match fs::metadata(parent(path)) {
                Ok(metadata) if metadata.is_dir() => Ok(()),
                _ => Err("no directory for the dependency file"),
            },
        }
    }

    /// To be called right before the compiler is run: what it is asked for besides, before and after the build's own words.
    pub fn before_compile(&mut self) -> Vec<OsString> {
        self.place = Some(Place::watch(&self.directory));
        let source = inputs::path(self.source());
        let directories = (self.answer.search.iter())
            .map(|directory| inputs::path(directory).to_owned())
            .chain([PathBuf::from("."), parent(source).to_owned()]);
        for directory in directories {
            let listing = inputs::list(&directory).ok();
            self.before.insert(directory, listing);
        }
        let mut words: Vec<OsString> = Vec::new();
        if let Some(file) = &self.own_dependency_file {
            words.push("-MD".into());
            words.push("-MF".into());
            words.push(file.into());
        }
        if let Some(file) = &self.assembled_file {
            for word in [OsStr::new("--MD"), file.as_os_str()] {
                words.push("-Xassembler".into());
                words.push(word.into());
            }
        }
        if let Some(file) = &self.graph_file {
            for word in [OsStr::new("-dependency-dot"), file.as_os_str()] {
                words.push("-Xclang".into());
                words.push(word.into());
            }
        }
        words
    }

    /// Records what a successful compile has made, whose compilation is there already.
    pub fn record(
        &self,
        importer: &mut Importer<'_>,
        made: &Made,
        captured: Option<Captured>,
        emitted: Option<&Emitted>,
    ) {
        let outcome = match self.observe(captured, emitted) {
            None => return,
            Some(observed) => observed.and_then(|observed| {
                let files = observed.files(&made.object)?;
                let result = observed.result(Some(&made.compilation), files.as_deref());
                let target = publish::place_for(&self.compile.outputs[0]);
                let repository = target.and_then(|target| importer.existing(&target));
                let repository = repository.ok_or("the repository is gone")?;
                record_result(repository.store(), &result).map_err(|error| error.to_string())
            }),
        };
        self.tell(importer, outcome);
    }

    /// What is to be recorded of a successful compile, of which the object is where the compiler wrote it; `None` if nothing is to be, and
    /// an error, in words, if it cannot be. `emitted`: what it has made code of, where that is known.
    pub fn observe(
        &self,
        captured: Option<Captured>,
        emitted: Option<&Emitted>,
    ) -> Option<Result<Observed, String>> {
        if is_read_only() {
            return None;
        }
        let target = publish::place_for(&self.compile.outputs[0])?;
        Some(self.try_observe(&target, captured, emitted))
    }

    /// Counts and tells what came of recording.
    pub fn tell(&self, importer: &mut Importer<'_>, outcome: Result<(), String>) {
        let Some(target) = publish::place_for(&self.compile.outputs[0]) else {
            return;
        };
        let Some(repository) = importer.existing(&target) else {
            return;
        };
        let counts = Counts::open(Some(&self.own), repository.uuid());
        match outcome {
            Ok(()) => {
                counts.add(counts::RECORDED, 1);
                self.say(format_args!("recorded"));
            }
            Err(reason) => {
                counts.add(&format!("{}{reason}", counts::UNRECORDED), 1);
                self.say(format_args!("not recorded: {reason}"));
            }
        }
    }

    fn try_observe(
        &self,
        target: &Path,
        captured: Option<Captured>,
        emitted: Option<&Emitted>,
    ) -> Result<Observed, String> {
        let diagnostics = captured.and_then(Captured::into_bytes);
        let diagnostics = diagnostics.ok_or("what the compiler said is not known, or too much")?;
        let is_new = |path: &Path| {
            let found = fs::metadata(path);
            found.is_ok_and(|found| found.is_file() && inputs::changed(&found) >= self.start)
        };
        let path = (self.dependency_file.as_ref()).or(self.own_dependency_file.as_ref());
        let dependencies = match path {
            Some(path) if !is_new(path) => {
                return Err("the compiler wrote no dependency file".into());
            }
            Some(path) => Some(fs::read(path).map_err(|_| "the dependency file cannot be read")?),
            // Assembly that is not preprocessed.
            None => None,
        };
        if !is_new(target) {
            return Err("the file system has another clock".into());
        }
        let named = match &dependencies {
            Some(bytes) => depfile::prerequisites(bytes).ok_or("the dependency file is none")?,
            None => Vec::new(),
        };
        let words = reworded(self.compile, &self.args);
        let of = |meaning: Meaning, options: &[&str]| -> Vec<Vec<u8>> {
            let words = words.iter().filter(|word| word.meaning == meaning);
            let value = |word: &Word| match word.arguments.first() {
                Some(argument) => Some(argument.as_bytes().to_vec()),
                None => options.iter().find_map(|option| {
                    let rest = word.option.as_bytes().strip_prefix(option.as_bytes());
                    rest.map(<[u8]>::to_vec)
                }),
            };
            words.filter_map(value).collect()
        };
        let headers = of(Meaning::Header, &["-include", "-imacros"]);
        let macros = of(Meaning::Macro, &["-D", "-U", "-A"]);
        let compiler = self.invocation.compiler.as_ref().ok_or("no compiler")?;
        let assembled = match &self.assembled_file {
            Some(path) => {
                let list = fs::read(path).map_err(|_| "the assembler wrote no list")?;
                depfile::prerequisites(&list).ok_or("the assembler's list is none")?
            }
            None => Vec::new(),
        };
        let assembled: Vec<_> = assembled.into_iter().map(OsString::into_vec).collect();
        let graph = match &self.graph_file {
            Some(path) => {
                let graph = fs::read(path).map_err(|_| "the compiler wrote no graph")?;
                Some(graph::files(&graph).ok_or("the compiler's graph is none")?)
            }
            None => None,
        };
        // What is said has lines, too.
        let care = match diagnostics.is_empty() {
            true => care::care(&words, compiler.family, self.language),
            false => Care::Bytes,
        };
        let mut question = conditions::Question {
            takes_precompiled: compiler.family == Family::Gcc,
            first: conditions::First::Unknown,
            assembly: match self.language {
                _ if self.assembled_file.is_some() => Assembly::Listed,
                Language::Assembly | Language::RawAssembly => Assembly::Alone,
                _ if emitted.is_some_and(|it| !it.reads_files) => Assembly::Plain,
                _ => Assembly::Written,
            },
            assembled: &assembled,
            answer: &self.answer,
            inputs: &self.inputs,
            summaries: &Summaries::open(Some(&self.own)),
            start: self.start,
            before: &self.before,
            source: self.source(),
            headers: &headers,
            macros: &macros,
            closure: self.compile.dependencies.without_system && graph.is_none(),
            is_dateless: false,
            care: &care,
            heeds_indentation: care::heeds_indentation(&words, compiler.family),
            emitted,
            kind: self.kind(),
        };
        let named = named.into_iter().chain(graph.into_iter().flatten());
        let named: Vec<_> = named.map(OsString::into_vec).collect();
        let mut conditions = conditions::find(&question, named.clone());
        let reason = conditions.as_ref().err().copied();
        if let Some(reason) = reason.filter(|reason| preprocessed::may_help(reason)) {
            self.say(format_args!("the preprocessor is asked: {reason}"));
            let answer = preprocessed::ask(&preprocessed::Question {
                program: &self.invocation.program,
                family: compiler.family,
                args: &self.args,
                words: &words,
                assembly: question.assembly,
                unique: self.start,
            });
            if answer == preprocessed::Answer::default() {
                return Err(reason.into());
            }
            question.is_dateless = answer.is_dateless;
            question.first = answer.first;
            if answer.reads_nothing && question.assembly != Assembly::Listed {
                question.assembly = Assembly::Plain;
            }
            // The preprocessor has read what the compiler had, if that is so still.
            conditions = conditions::find(&question, named);
        }
        let conditions = conditions?;
        // What the key is of must still be so.
        let place = self.place.as_ref().ok_or("no working directory")?;
        place.check(self.start)?;
        let args = all_words(self.invocation, self.compile, self.base.as_ref())?;
        if args != self.args {
            return Err("a response file was changed just now".into());
        }
        let again = Question {
            program: &self.invocation.program,
            compiler,
            language: self.language,
            words: &words,
            environment: &self.environment,
            directory: &self.directory,
        };
        if again.answer(Some(&self.own), &self.inputs)? != self.answer {
            return Err("the compiler was changed just now".into());
        }
        let dependencies = dependencies.filter(|_| self.dependency_file.is_some());
        Ok(Observed {
            key: self.key,
            parts: self.parts.clone(),
            conditions,
            diagnostics,
            is_coloured: run::terminal().is_some(),
            dependencies,
            is_fat: self.is_fat,
            base: self.base.clone().filter(|_| self.is_shared()),
        })
    }

    /// Whether the key is that of other checkouts, too.
    fn is_shared(&self) -> bool {
        let directory = self.directory.as_os_str().as_bytes();
        self.base.is_some() && !self.parts.iter().any(|part| part == directory)
    }
}

/// The arguments, response files expanded and paths below the base directory said anew.
fn all_words(
    invocation: &Invocation,
    compile: &Compile,
    base: Option<&Base>,
) -> Result<Vec<OsString>, &'static str> {
    let mut args = response::expand(&invocation.args).map_err(|_| "a response file")?;
    if let Some(base) = base {
        base.reword(&mut args, compile);
    }
    Ok(args)
}

/// The options as they are in these arguments.
fn reworded(compile: &Compile, args: &[OsString]) -> Vec<Word> {
    let mut words = compile.words.clone();
    for word in &mut words {
        let mut now = args.iter().skip(word.position);
        let mut take = |word: &mut OsString| {
            if let Some(arg) = now.next() {
                word.clone_from(arg);
            }
        };
        take(&mut word.option);
        word.arguments.iter_mut().for_each(take);
    }
    words
}

impl Drop for Memo<'_> {
    fn drop(&mut self) {
        let files = [
            &self.own_dependency_file,
            &self.assembled_file,
            &self.graph_file,
        ];
        for file in files.into_iter().flatten() {
            let _ = fs::remove_file(file);
        }
    }
}

/// What is known of a compile.
struct Found {
    compilation: Digest,
    /// For a fat object.
    object: Option<Vec<u8>>,
    diagnostics: Vec<u8>,
    dependencies: Option<Vec<u8>>,
    /// What is to be changed in the object before it is what the compiler would make.
    moves: Moves,
    /// What must be so for that.
    conditions: Vec<Vec<u8>>,
}

/// Counts a compile for which nothing was looked up.
pub fn count_ordinary(importer: &mut Importer<'_>, output: &Path, reason: &str) {
    count(importer, output, &format!("{}{reason}", counts::ORDINARY));
}

/// Adds to a counter.
pub fn count(importer: &mut Importer<'_>, output: &Path, name: &str) {
    let (Some(target), Ok(own)) = (publish::place_for(output), shared::directory()) else {
        return;
    };
    if let Some(repository) = importer.existing(&target) {
        let counts = Counts::open(Some(&own), repository.uuid());
        counts.add(name, 1);
    }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Where the compiler writes the dependency file that is asked for; `None` where that is not a file.
fn dependency_file(compile: &Compile) -> Option<PathBuf> {
    let mut options = compile
        .words
        .iter()
        .filter(|word| word.meaning == Meaning::Dependencies);
    // Where there is one for the preprocessor, too, there may be two files.
    if options.clone().count() > 1
        && options.any(|word| word.option.as_bytes().starts_with(b"-Wp,"))
    {
        return None;
    }
    let path = match &compile.dependencies.file {
        Some(file) => PathBuf::from(file),
        // (Without -o, the output is in the working directory already.)
        None => compile.outputs[0].with_extension("d"),
    };
    let is_special =
        path.as_os_str().is_empty() || path == Path::new("-") || path.starts_with("/dev");
    (!is_special).then_some(path)
}
