//! Compiles that need not be done again: what the same command made of the same inputs is in the repository.
//!
//! ```text
//! Memo::begin ─▶ Memo::hit ─┬─▶ ticket, dependency file, diagnostics     the compiler is not run
//!   what is      manifest,  └─▶ the compile ─▶ Memo::record
//!   the key      conditions                    inputs, conditions, manifest
//! ```
//!
//! The key is all that the command line says, word by word, what the compiler is, where it runs, and what of the environment it
//! heeds (SPEC.md, section 27). Whatever is not understood makes a compile an ordinary one: nothing is looked up, and
//! nothing recorded. A reason is counted for each, and is in the log.

pub mod ask;
mod conditions;
pub mod counts;
mod depfile;
pub mod inputs;
mod scan;
pub mod shared;

use super::classify::{Compile, Language};
use super::compiler::Compiler;
use super::compiler::Family;
use super::import::Importer;
use super::log::Log;
use super::options::Meaning;
use super::publish;
use super::run::{Captured, HeldSignals};
use super::{Asked, Invocation, response};
use ask::{Answer, Question};
use conditions::{Checker, Listings};
use counts::Counts;
use format_spec::digest::Digest;
use format_spec::kinds::{Condition, ManifestResult};
use inputs::Inputs;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use store::program::Repository;
use store::program::manifest::{ManifestView, NewResult, record_result, record_use};

/// Switches it on.
pub const ON_VARIABLE: &str = "REPO_CC_MEMO";
/// Switches it off, whatever else is said.
pub const OFF_VARIABLE: &str = "REPO_CC_DISABLE";
/// What is there is used, and nothing new recorded.
pub const READ_ONLY_VARIABLE: &str = "REPO_CC_READONLY";

const VERSION: &[u8] = b"repo-cc 1";

/// What of the environment may change what a compiler makes or says.
const HEEDED: &[&str] = &[
    "CLANG_NO_DEFAULT_CONFIG",
    "CLICOLOR_FORCE",
    "COMPILER_PATH",
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "C_INCLUDE_PATH",
    "GCC_COLORS",
    "GCC_EXEC_PREFIX",
    "GCC_EXTRA_DIAGNOSTIC_OUTPUT",
    "GCC_ROOT",
    "GCC_URLS",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LIBRARY_PATH",
    "NO_COLOR",
    "OBJC_INCLUDE_PATH",
    "POSIXLY_CORRECT",
    "SDKROOT",
    "SOURCE_DATE_EPOCH",
    "TERM_URLS",
];

/// What makes a compiler write more files, or run otherwise.
const DISTURBING: &[&str] = &[
    "CCC_ADD_ARGS",
    "CCC_OVERRIDE_OPTIONS",
    "CC_LOG_DIAGNOSTICS",
    "CC_PRINT_HEADERS",
    "CC_PRINT_INTERNAL_STAT",
    "CC_PRINT_OPTIONS",
    "CC_PRINT_PROC_STAT",
    "DEPENDENCIES_OUTPUT",
    "GCC_COMPARE_DEBUG",
    "LD_AUDIT",
    "SUNPRO_DEPENDENCIES",
];

/// Options that put the command line into the object.
const TELLING: &[&str] = &[
    "-frecord-command-line",
    "-frecord-gcc-switches",
    "-grecord-command-line",
];

/// Whether a variable is set, and not to 0.
pub fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Whether compiles may be skipped.
pub fn is_on() -> bool {
    is_set(ON_VARIABLE) && !is_set(OFF_VARIABLE)
}

/// A compile of which it may be known what it makes.
pub struct Memo<'a> {
    invocation: &'a Invocation,
    compile: &'a Compile,
    log: &'a Log,
    /// All words of the command line, response files expanded.
    args: Vec<OsString>,
    language: Language,
    environment: Vec<(&'static str, OsString)>,
    directory: PathBuf,
    /// Our own directory.
    own: PathBuf,
    inputs: Inputs,
    answer: Answer,
    parts: Vec<Vec<u8>>,
    key: Digest,
    /// Whether the diagnostics are for a terminal.
    is_coloured: bool,
    /// The dependency file that the build wants.
    dependency_file: Option<PathBuf>,
    /// The one that only we want.
    own_dependency_file: Option<PathBuf>,
    /// When the compile began.
    start: u64,
    before: Listings,
}

impl<'a> Memo<'a> {
    /// Looks what the key is.
    ///
    /// # Errors
    /// In words, why this is an ordinary compile.
    pub fn begin(
        invocation: &'a Invocation,
        compile: &'a Compile,
        asked: &Asked<'a>,
    ) -> Result<Memo<'a>, &'static str> {
        let start = inputs::now();
        let compiler = invocation.compiler.as_ref().ok_or("no compiler")?;
        if asked.fat {
            return Err("fat objects");
        }
        if !invocation.lead.is_empty() {
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
        let is_driver_of_cxx = invocation.program.argv0.as_bytes().ends_with(b"++")
            || Path::new(&invocation.program.argv0)
                .file_name()
                .is_some_and(|name| name.as_bytes().windows(2).any(|two| two == b"++"));
        let language = match source.language {
            Language::C if is_driver_of_cxx && !source.is_given => Language::Cxx,
            language @ (Language::C | Language::Cxx) => language,
            _ => return Err("neither C nor C++"),
        };
        for word in &compile.words {
            if let Meaning::Beyond(reason) = word.meaning {
                return Err(reason);
            }
            if TELLING.iter().any(|option| word.option == *option) {
                return Err("an option that puts the command line into the object");
            }
            if word.option.as_bytes().starts_with(b"-finput-charset") {
                return Err("an option that says how sources are written");
            }
        }
        if DISTURBING.iter().any(|name| env::var_os(name).is_some()) {
            return Err("a variable that makes compilers write more");
        }
        let own = shared::directory().map_err(|_| "no directory for what is known of inputs")?;
        let directory = env::current_dir().map_err(|_| "no working directory")?;
        let args = response::expand(&invocation.args).map_err(|_| "a response file")?;
        let environment: Vec<_> = (HEEDED.iter())
            .filter_map(|name| Some((*name, env::var_os(name)?)))
            .collect();
        let inputs = Inputs::open(Some(&own));
        let question = Question {
            program: &invocation.program,
            compiler,
            language,
            words: &compile.words,
            environment: &environment,
            directory: &directory,
        };
        let answer = question.answer(Some(&own), &inputs)?;
        let dependency_file = match compile.dependencies.wanted {
            true => Some(dependency_file(compile).ok_or("a dependency file that is none")?),
            false
                if compile
                    .words
                    .iter()
                    .any(|word| word.meaning == Meaning::Dependencies) =>
            {
                return Err("options of a dependency file that is not asked for");
            }
            false => None,
        };
        let own_dependency_file = (dependency_file.is_none())
            .then(|| own.join(format!("inputs-of-{}-{start}", std::process::id())));
        let is_coloured = is_for_terminal(compile, compiler);
        let mut memo = Memo {
            invocation,
            compile,
            log: asked.log,
            args,
            language,
            environment,
            directory,
            own,
            inputs,
            answer,
            parts: Vec::new(),
            key: Digest([0; 32]),
            is_coloured,
            dependency_file,
            own_dependency_file,
            start,
            before: Listings::new(),
        };
        memo.make_key();
        Ok(memo)
    }

    /// The parts, and their digest.
    fn make_key(&mut self) {
        let is_native = |word: &OsString| word.as_bytes().ends_with(b"=native");
        let mut parts: Vec<Vec<u8>> = vec![
            VERSION.to_vec(),
            self.answer.identity.0.to_vec(),
            self.invocation.program.path.as_os_str().as_bytes().to_vec(),
            self.invocation.program.argv0.as_bytes().to_vec(),
            self.directory.as_os_str().as_bytes().to_vec(),
            self.logical_directory(),
            self.answer.search.join(&0),
            vec![
                u8::from(self.is_coloured),
                u8::from(self.compile.split_sections),
                self.answer.quoted as u8,
            ],
            match self.args.iter().any(is_native) {
                true => processor(),
                false => Vec::new(),
            },
        ];
        for (name, value) in &self.environment {
            parts.push([name.as_bytes(), b"=", value.as_bytes()].concat());
        }
        parts.push(b"--".to_vec());
        parts.extend(self.args.iter().map(|word| word.as_bytes().to_vec()));
        let mut hasher = blake3::Hasher::new();
        for part in &parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        self.key = Digest(*hasher.finalize().as_bytes());
        self.parts = parts;
    }

    /// The name of the working directory that compilers take from the environment, if it is one.
    fn logical_directory(&self) -> Vec<u8> {
        let id = |path: &Path| {
            fs::metadata(path)
                .ok()
                .map(|found| (found.dev(), found.ino()))
        };
        match env::var_os("PWD") {
            Some(name)
                if name.as_bytes().starts_with(b"/")
                    && id(Path::new(&name)) == id(Path::new(".")) =>
            {
                name.into_vec()
            }
            _ => Vec::new(),
        }
    }

    /// What is said with `--explain`, and in the log.
    fn say(&self, line: std::fmt::Arguments<'_>) {
        self.log.explain(format_args!(
            "{}: {line}",
            self.compile.outputs[0].display()
        ));
    }

    /// Writes what the compile would, if that is known. `Some`: it is done.
    pub fn hit(&self, importer: &mut Importer<'_>) -> Option<()> {
        let target = publish::place_for(&self.compile.outputs[0])?;
        let Some(repository) = importer.existing(&target) else {
            self.say(format_args!("miss: there is no repository"));
            return None;
        };
        let counts = Counts::open(Some(&self.own), repository.uuid());
        let found = self.look_up(repository, &counts)?;
        if let Err(reason) = self.check_dependency_file() {
            self.say(format_args!("miss: {reason}"));
            return None;
        }
        {
            let programs = repository.programs().ok()?;
            let manifest = programs.manifest(&self.key).ok()??;
            record_use(&programs, &manifest, &found.compilation, &target).ok()?;
        }
        let ticket = importer.ticket(&found.compilation, &target).ok()?;
        let _held = HeldSignals::ending();
        if let (Some(path), Some(bytes)) = (&self.dependency_file, &found.dependencies) {
            fs::write(path, bytes).ok()?;
        }
        publish::put(&target, &ticket).ok()?;
        let _ = io::stderr().write_all(&found.diagnostics);
        counts.add(counts::HITS, 1);
        self.say(format_args!("hit: the compiler is not run"));
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
                miss(
                    counts::NEW,
                    format_args!("this command was not run here before"),
                );
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
            let broken = of_it.iter().find(|at| {
                let holds = known[**at].unwrap_or_else(|| checker.holds(&conditions[**at]));
                known[**at] = Some(holds);
                !holds
            });
            match broken {
                Some(at) => {
                    first_reason.get_or_insert_with(|| shown(&conditions[*at], search));
                }
                None => return self.take(&programs, &manifest, result),
            }
        }
        let reason = first_reason.unwrap_or_else(|| "nothing is recorded".to_owned());
        miss(counts::CHANGED, format_args!("{reason}"));
        None
    }

    fn take<'s>(
        &self,
        programs: &store::program::Programs<'s>,
        manifest: &ManifestView<'s>,
        result: &ManifestResult,
    ) -> Option<Found> {
        let dependencies = programs.captured(manifest, result.dependencies).ok()?;
        if self.dependency_file.is_some() && dependencies.is_none() {
            return None;
        }
        let compilation = programs.compilation_of(manifest, result).ok()??;
        // It is read whole only when it is linked; here it is enough that it can be.
        programs.compilation(&compilation).ok()?;
        let diagnostics = programs.captured(manifest, result.diagnostics).ok()?;
        Some(Found {
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
        let source = inputs::path(self.compile.sources[0].name.as_bytes());
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
        if self.is_coloured {
            words.push("-fdiagnostics-color=always".into());
        }
        words
    }

    /// Records what a successful compile has made.
    pub fn record(
        &self,
        importer: &mut Importer<'_>,
        compilation: &Digest,
        captured: Option<Captured>,
    ) {
        let Some(target) = publish::place_for(&self.compile.outputs[0]) else {
            return;
        };
        let Ok(repository) = importer.repository(&target) else {
            return;
        };
        let counts = Counts::open(Some(&self.own), repository.uuid());
        if is_set(READ_ONLY_VARIABLE) {
            return;
        }
        match self.try_record(repository, &target, compilation, captured) {
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

    fn try_record(
        &self,
        repository: &Repository,
        target: &Path,
        compilation: &Digest,
        captured: Option<Captured>,
    ) -> Result<(), String> {
        let diagnostics = captured.and_then(Captured::into_bytes);
        let diagnostics = diagnostics.ok_or("too many diagnostics")?;
        let path = (self.dependency_file.as_ref())
            .or(self.own_dependency_file.as_ref())
            .ok_or("no dependency file")?;
        let is_new = |path: &Path| {
            let found = fs::metadata(path);
            found.is_ok_and(|found| found.is_file() && inputs::changed(&found) >= self.start)
        };
        if !is_new(path) {
            return Err("the compiler wrote no dependency file".into());
        }
        if !is_new(target) {
            return Err("the file system has another clock".into());
        }
        let dependencies = fs::read(path).map_err(|_| "the dependency file cannot be read")?;
        let named = depfile::prerequisites(&dependencies).ok_or("the dependency file is none")?;
        let of = |meaning: Meaning, options: &[&str]| -> Vec<Vec<u8>> {
            let words = self
                .compile
                .words
                .iter()
                .filter(|word| word.meaning == meaning);
            let value = |word: &super::classify::Word| match word.arguments.first() {
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
        let question = conditions::Question {
            answer: &self.answer,
            inputs: &self.inputs,
            start: self.start,
            before: &self.before,
            source: self.compile.sources[0].name.as_bytes(),
            headers: &headers,
            macros: &macros,
            closure: self.compile.dependencies.without_system,
        };
        let named = named.into_iter().map(OsString::into_vec).collect();
        let conditions = conditions::find(&question, named)?;
        // What the key is of must still be so.
        let args = response::expand(&self.invocation.args).map_err(|_| "a response file")?;
        if args != self.args {
            return Err("a response file was changed just now".into());
        }
        let compiler = self.invocation.compiler.as_ref().ok_or("no compiler")?;
        let again = Question {
            program: &self.invocation.program,
            compiler,
            language: self.language,
            words: &self.compile.words,
            environment: &self.environment,
            directory: &self.directory,
        };
        if again.answer(Some(&self.own), &self.inputs)? != self.answer {
            return Err("the compiler was changed just now".into());
        }
        let new = NewResult {
            key: &self.key,
            parts: &self.parts,
            conditions: &conditions,
            compilation,
            diagnostics: &diagnostics,
            is_coloured: self.is_coloured,
            dependencies: self.dependency_file.is_some().then_some(&dependencies),
        };
        record_result(repository.store(), &new).map_err(|error| error.to_string())
    }
}

impl Drop for Memo<'_> {
    fn drop(&mut self) {
        if let Some(file) = &self.own_dependency_file {
            let _ = fs::remove_file(file);
        }
    }
}

/// What is known of a compile.
struct Found {
    compilation: Digest,
    diagnostics: Vec<u8>,
    dependencies: Option<Vec<u8>>,
}

/// Counts a compile for which nothing was looked up.
pub fn count_ordinary(importer: &mut Importer<'_>, output: &Path, reason: &str) {
    let (Some(target), Ok(own)) = (publish::place_for(output), shared::directory()) else {
        return;
    };
    if let Some(repository) = importer.existing(&target) {
        let counts = Counts::open(Some(&own), repository.uuid());
        counts.add(&format!("{}{reason}", counts::ORDINARY), 1);
    }
}

/// Shows the counters of a repository, and sets them to zero, as asked.
///
/// # Errors
/// In words.
pub fn statistics(asked: &Asked<'_>, show: bool, zero: bool) -> Result<(), String> {
    let directory = env::current_dir().map_err(|error| error.to_string())?;
    let mut importer = Importer::new(asked);
    let Some(repository) = importer.existing(&directory.join("x")) else {
        return Err("there is no repository here".into());
    };
    let own = shared::directory().map_err(|error| error.to_string())?;
    let counts = Counts::open(Some(&own), repository.uuid());
    if show {
        let mut out = io::stdout().lock();
        let mut line = |line: String| writeln!(out, "{line}").map_err(|error| error.to_string());
        line(format!("repository: {}", repository.path().display()))?;
        let all = counts.all();
        let width = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        if all.is_empty() {
            line("nothing counted".into())?;
        }
        for (name, count) in all {
            line(format!("{name:width$}  {count}"))?;
        }
    }
    if zero {
        counts.zero();
    }
    Ok(())
}

/// A condition that does not hold, for the user.
fn shown(condition: &Condition<'_>, search: Option<&[u8]>) -> String {
    let text = |bytes: &[u8]| OsStr::from_bytes(bytes).display().to_string();
    match condition {
        Condition::File(_, path) => format!("{}: is another one, or gone", text(path)),
        Condition::Listing(_, path) => format!("{}: has other entries", text(path)),
        Condition::Absent(path) | Condition::NotListed(path) => {
            format!("{}: was not there before", text(path))
        }
        Condition::Present(path) => format!("{}: is not there any more", text(path)),
        Condition::NotFound { name, .. } => {
            format!(
                "{}: may be found in another directory than before",
                text(name)
            )
        }
        Condition::Search(_) => format!("directories: {}", text(search.unwrap_or_default())),
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

/// Whether the compiler would colour what it says, because it writes to a terminal. (What goes through our pipe does not.)
fn is_for_terminal(compile: &Compile, compiler: &Compiler) -> bool {
    let names_colours = |word: &super::classify::Word| {
        let text = word.option.as_bytes();
        [
            &b"-fdiagnostics-color"[..],
            b"-fno-diagnostics-color",
            b"-fcolor-diagnostics",
            b"-fno-color-diagnostics",
        ]
        .iter()
        .any(|beginning| text.starts_with(beginning))
    };
    let is_new_enough = match compiler.family {
        Family::Gcc => compiler.version.is_none_or(|version| version >= 5),
        Family::Clang => true,
    };
    io::stderr().is_terminal()
        && is_new_enough
        && env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
        && env::var_os("NO_COLOR").is_none()
        && env::var_os("GCC_COLORS").is_none_or(|colours| !colours.is_empty())
        && !compile.words.iter().any(names_colours)
}

/// What `=native` depends on.
fn processor() -> Vec<u8> {
    const NAMES: [&[u8]; 6] = [
        b"vendor_id",
        b"cpu family",
        b"model",
        b"stepping",
        b"cache size",
        b"flags",
    ];
    let text = fs::read("/proc/cpuinfo").unwrap_or_default();
    let first = text
        .split(|byte| *byte == b'\n')
        .take_while(|line| !line.is_empty());
    let lines = first.filter(|line| NAMES.iter().any(|name| line.starts_with(name)));
    lines.collect::<Vec<_>>().join(&b'\n')
}
