//! Leaving out what the repository has: compiling only those definitions of a translation unit that are new.
//!
//! ```text
//! eligible ─▶ clang with the plugin ─▶ an object of what is new, and a report
//!                                        │
//!             whole compilation ◀─ graft ◀┘◀─ what the repository has
//!                    │
//!                    └─▶ bundles: what is kept of what was new
//! ```
//!
//! On unless `REPO_CC_PRUNE` says otherwise (`0`; `explain` says as well what became of each definition, as `--explain` does), or
//! what is known is not to be used (`REPO_CC_DISABLE`, which `--verify` overrules). Where anything does not fit, the compiler runs again
//! without the plugin, and nobody is worse off than without us. Until a ticket stands in its place, an object that is not whole has an
//! undefined symbol that says so.

mod bundles;
pub mod eligible;
pub mod explain;
mod graft;
mod order;
mod verify;

use super::log::Log;
use super::memo::emitted::Emitted;
use super::switches::{is_on, is_read_only};
use bumpalo::Bump;
use format_spec::digest::Digest;
use format_spec::program::PROMOTED;
use graft::{Graft, GraftError};
use linker::repository::import::{ImportError, Imported, prepare};
use object::read::ReadCache;
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSymbol as _};
use pruning::REQUEST_VARIABLE;
use pruning::graph::Flags;
use pruning::kept::{Graph, Kept};
use pruning::memo;
use pruning::protocol::{Report, Request, State};
use rustc_hash::FxHashSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use store::program::build::Compilation;
use store::program::{Addition, Prepared, ProgramError, Repository};
use tempfile::TempDir;

/// `0`, `1`, `explain`, or nothing, which is `1` where what is known is used at all.
const SWITCH: &str = "REPO_CC_PRUNE";
/// Set: each pruned compilation is compared with one that is not.
const VERIFY: &str = "REPO_CC_VERIFY";
/// The word behind the names of what is promoted: the same for all translation units, so that what is internal to several, as static
/// functions of headers are, is known to all of them. Outside of a compile there are no such names.
const UNIT: &str = "internal";
/// The plugin's file.
const PLUGIN: &str = "librepo_plugin.so";

/// What is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wish {
    /// Definitions may be left out.
    pub is_on: bool,
    /// Each compile is compared with others that are whole.
    pub verify: bool,
    /// A difference is an error.
    pub fails: bool,
    /// It is said what becomes of each definition, if there is a compile.
    pub explain: bool,
    /// There is to be a compile, even if it is known what it would make.
    pub is_watched: bool,
}

impl Wish {
    /// What the options `--verify` and `--explain`, and the environment, ask for.
    pub fn read(verify: bool, explain: bool) -> Wish {
        let switch = env::var_os(SWITCH);
        let switch = switch.as_ref().map(|value| value.as_bytes());
        let verifies = verify || env::var_os(VERIFY).is_some();
        let is_explained = switch == Some(b"explain");
        let is_on = match switch {
            None | Some(b"") => is_on(),
            Some(switch) => switch != b"0",
        };
        Wish {
            is_on: verify || is_on,
            verify: verifies,
            fails: verify,
            explain: explain || is_explained,
            is_watched: verifies || is_explained,
        }
    }
}

/// How the plugin of a compiler is asked, and where it answers.
#[derive(Debug)]
pub struct Asking {
    directory: TempDir,
    compiler: PathBuf,
    library: PathBuf,
    plugin: PathBuf,
}

impl Asking {
    /// By the compiler `program`; or why not.
    pub fn new(program: &Path) -> Result<Asking, String> {
        let compiler = fs::canonicalize(program).map_err(|error| error.to_string())?;
        let library = llvm_19(&compiler).ok_or("not clang 19")?;
        let plugin =
            plugin().ok_or("the plugin is not there, or was built without LLVM's headers")?;
        let directory = tempfile::Builder::new().prefix("repo-cc-").tempdir();
        Ok(Asking {
            directory: directory.map_err(|error| error.to_string())?,
            compiler,
            library,
            plugin,
        })
    }

    /// Has only the names of the definitions told. What the compiler gets besides, as of [`Pruning::begin`].
    ///
    /// # Errors
    /// If the request cannot be written.
    pub fn begin_names(&self) -> io::Result<OsString> {
        self.begin(Request {
            only_names: true,
            ..Request::default()
        })
    }

    fn begin(&self, request: Request) -> io::Result<OsString> {
        let _ = fs::remove_file(self.report_path());
        let request = Request {
            report: self.report_path(),
            ..request
        };
        let path = self.directory.path().join("request");
        fs::write(&path, serde_json::to_vec(&request)?)?;
        // SAFETY: this process has one thread; nobody reads the environment meanwhile.
        unsafe { env::set_var(REQUEST_VARIABLE, &path) };
        let mut option = OsString::from("-fpass-plugin=");
        option.push(&self.plugin);
        Ok(option)
    }

    /// The compiler runs without us again.
    pub fn end(&self) {
        // SAFETY: as in `begin`.
        unsafe { env::remove_var(REQUEST_VARIABLE) };
    }

    /// Whether the plugin has come to work.
    pub fn has_report(&self) -> bool {
        self.report_path().exists()
    }

    /// What code was made of, if only that was asked.
    pub fn names(&self) -> Option<Emitted> {
        emitted(&self.report().ok()?)
    }

    fn report_path(&self) -> PathBuf {
        self.directory.path().join("report")
    }

    fn report(&self) -> Result<Report, Failed> {
        let bytes = fs::read(self.report_path())
            .map_err(|error| Failed::Misfit(format!("the plugin has made no report: {error}")))?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Failed::Misfit(format!("the plugin's report cannot be read: {error}")))
    }
}

/// A compile in which definitions may be left out.
#[derive(Debug)]
pub struct Pruning {
    asking: Asking,
    environment: String,
    /// Of the command, its directory and its output.
    unit: String,
    wish: Wish,
    /// What was found, for `verify`.
    made: Mutex<Made>,
    /// What code was made of.
    emitted: Mutex<Option<Emitted>>,
}

/// What a compile in parts has made.
#[derive(Debug, Default)]
struct Made {
    definitions: verify::Definitions,
    surface: verify::Definitions,
    /// Names of what might as well not be there.
    unreached: FxHashSet<Vec<u8>>,
    /// How many definitions came from the repository.
    grafted: u32,
}

/// Why an object could not be made whole.
#[derive(Debug)]
pub enum Failed {
    /// What is new and what is known do not fit together, or there is no report.
    Misfit(String),
    /// As an ordinary import fails.
    Import(ImportError),
}

impl From<ImportError> for Failed {
    fn from(error: ImportError) -> Failed {
        Failed::Import(error)
    }
}

impl From<ProgramError> for Failed {
    fn from(error: ProgramError) -> Failed {
        Failed::Import(ImportError::Repository(error))
    }
}

impl From<GraftError> for Failed {
    fn from(error: GraftError) -> Failed {
        match error {
            GraftError::Misfit(what) => Failed::Misfit(what),
            GraftError::Repository(error) => error.into(),
        }
    }
}

/// Does something with standard error closed to the compiler: what it says there it has said before.
pub fn without_errors<T>(what: impl FnOnce() -> T) -> T {
    // SAFETY: only descriptors of this process, which has one thread, are changed, and put back.
    unsafe {
        let kept = libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, 3);
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        libc::dup2(nothing, libc::STDERR_FILENO);
        let result = what();
        libc::dup2(kept, libc::STDERR_FILENO);
        libc::close(kept);
        libc::close(nothing);
        result
    }
}

impl Pruning {
    /// Prepares a compile by the compiler `program`, whose (expanded) arguments these are, to `output`; or says why nothing is pruned.
    pub fn new(
        program: &Path,
        args: &[OsString],
        output: &Path,
        wish: Wish,
    ) -> Result<Pruning, String> {
        let relevant = eligible::relevant(args)?;
        let asking = Asking::new(program)?;
        let mut environment = String::new();
        for file in [&asking.compiler, &asking.library, &asking.plugin] {
            environment += &identity(file).map_err(|error| error.to_string())?;
        }
        for option in &relevant.options {
            environment += option;
            environment.push('\n');
        }
        let mut unit = blake3::Hasher::new();
        let here = env::current_dir().map_err(|error| error.to_string())?;
        let words = args.iter().map(|arg| arg.as_os_str());
        for word in words.chain([here.as_os_str(), output.as_os_str()]) {
            unit.update(&(word.len() as u64).to_le_bytes());
            unit.update(word.as_bytes());
        }
        Ok(Pruning {
            asking,
            environment,
            unit: unit.finalize().to_hex()[..16].to_owned(),
            wish,
            made: Mutex::default(),
            emitted: Mutex::default(),
        })
    }

    /// What the compiler gets besides: options, and (set here) a variable. `repository` is where to look.
    ///
    /// # Errors
    /// If the request cannot be written.
    pub fn begin(&self, repository: &Path, prune: bool) -> io::Result<OsString> {
        self.asking.begin(Request {
            environment: self.environment.clone(),
            repository: Some(repository.to_owned()),
            prune,
            promote: true,
            unit: UNIT.to_owned(),
            ..Request::default()
        })
    }

    /// How the plugin is asked.
    pub fn asking(&self) -> &Asking {
        &self.asking
    }

    fn report(&self) -> Result<Report, Failed> {
        self.asking.report()
    }

    /// Imports an object, with what the repository has of it, and keeps what was new.
    ///
    /// # Errors
    /// See [`Failed`]: then the object must be compiled again.
    pub fn import(
        &self,
        repository: &Repository,
        path: &Path,
        bytes: &[u8],
        ticket: Option<&Path>,
        log: &Log,
    ) -> Result<Imported, Failed> {
        let report = self.report()?;
        let arena = Bump::new();
        let (prepared, whole) = prepare(path, bytes, &arena)?;
        if let (true, Some(why)) = (report.pruned, &whole) {
            return Err(Failed::Misfit(format!(
                "the object cannot be taken apart: {why}"
            )));
        }
        let programs = repository.programs()?;
        let (compilation, grafted) = match report.pruned {
            true => (self.graft(&prepared, &programs, &report)).inspect_err(|_| {
                if self.wish.explain {
                    explain::say(&report, &[], &self.unit, log.verbose);
                }
            })?,
            false => (prepared.compilation, 0),
        };
        let compilation = match &whole {
            None => order::in_order(compilation, &report.positions()),
            Some(_) => compilation,
        };
        // What was promoted has its name outside of this for the last time.
        let (mut compilation, promoted) =
            match order::with_local_internals(&compilation, &promoted_suffix()) {
                Some(local) => (local, Some(compilation)),
                None => (compilation, None),
            };
        linker::repository::split::outline(&mut compilation);
        let mut prepared = Prepared::new(compilation)?;
        prepared.compress();
        let named = promoted.as_ref().unwrap_or(&prepared.compilation);
        let added = repository.add(&[Addition {
            prepared: &prepared,
            ticket,
        }])?;
        let bundles::Bundles { kept, refused } = match (&whole, &report.whole) {
            (None, None) => bundles::bundles(named, &prepared.fragments, &report),
            _ => bundles::Bundles::default(),
        };
        // The compilation stands without them.
        let graph = match self.wish.explain {
            true => graph_of(&report, &kept, &Kept::read(&programs)?),
            false => Graph::default(),
        };
        let fragments = &prepared.fragments;
        let stored = match is_read_only() {
            true => memo::Stored::default(),
            false => memo::store(repository.store(), &kept, &graph, fragments).unwrap_or_default(),
        };
        let count =
            |state: fn(State) -> bool| report.definitions.iter().filter(|d| state(d.state)).count();
        log.note(format_args!(
            "{}: {} definitions new, {} known ({grafted} of them used), {} kept for inlining; {} recorded; {:.1} ms for digests",
            path.display(),
            count(|state| state == State::New),
            count(State::is_known),
            count(|state| state == State::KnownKept),
            stored.written,
            report.seconds * 1e3,
        ));
        *self.emitted.lock().unwrap_or_else(|e| e.into_inner()) = emitted(&report);
        if self.wish.explain {
            explain::say(&report, &refused, &self.unit, log.verbose);
        }
        if self.wish.verify {
            *self.made.lock().unwrap_or_else(|e| e.into_inner()) = Made {
                definitions: verify::definitions(named),
                surface: verify::surface(&prepared.compilation),
                unreached: verify::unreached(named, is_discardable(&report)),
                grafted,
            };
        }
        Ok(Imported {
            digest: prepared.digest,
            added: added.first().copied().unwrap_or_default(),
            whole,
        })
    }

    /// The whole compilation.
    fn graft<'a>(
        &self,
        partial: &Prepared<'a>,
        programs: &store::program::Programs<'a>,
        report: &Report,
    ) -> Result<(Compilation<'a>, u32), Failed> {
        let by_name = report.positions();
        let mut graft = Graft::new(&partial.compilation, &partial.fragments, programs)?;
        let mut added = FxHashSet::default();
        let mut next: Vec<usize> = (report.definitions.iter().enumerate())
            .filter(|(_, defined)| {
                defined.state.is_known()
                    && !Flags(defined.flags).has(Flags::DISCARDABLE)
                    && defined.alias_of.is_none()
            })
            .map(|(at, _)| at)
            .collect();
        loop {
            for at in next.drain(..) {
                if !added.insert(at) {
                    continue;
                }
                let defined = &report.definitions[at];
                let memo = Digest::from_hex(&defined.digest)
                    .map(|digest| memo::find(programs, &digest.0))
                    .transpose()?
                    .flatten();
                let memo = memo.ok_or_else(|| {
                    Failed::Misfit(format!("{} is not there any more", defined.name))
                })?;
                graft.add(programs, &memo)?;
            }
            next.extend(graft.undefined().filter_map(|name| {
                let at = *by_name.get(name)?;
                let at = report.definitions[at].alias_of.map_or(at, |of| of as usize);
                (report.definitions[at].state.is_known() && !added.contains(&at)).then_some(at)
            }));
            if next.is_empty() {
                break;
            }
        }
        for name in graft.undefined() {
            let Some(at) = by_name.get(name) else {
                continue;
            };
            if !Flags(report.definitions[*at].flags).has(Flags::AVAILABLE_EXTERNALLY) {
                let name = String::from_utf8_lossy(name);
                return Err(Failed::Misfit(format!(
                    "{name} is needed, and was not compiled"
                )));
            }
        }
        let grafted = graft.grafted;
        Ok((graft.finish()?, grafted))
    }

    /// What code was made of in the last compile, where that tells which bodies of functions mattered.
    pub fn emitted(&self) -> Option<Emitted> {
        self.emitted
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .take()
    }

    /// Compares what was made with two other objects of the same: `whole`, for which the plugin has left out nothing, and `plain`, for
    /// which there was no plugin. What there is to be said, and whether anything differs.
    pub fn compare(&self, path: &Path, whole: &[u8], plain: &[u8]) -> (bool, String) {
        let made = self.made.lock().unwrap_or_else(|e| e.into_inner());
        // By now that of the whole one.
        let report = self.report().unwrap_or_default();
        let is_discardable = is_discardable(&report);
        let made_unreached = &made.unreached;
        let compared = |object: &[u8], made, of: fn(&Compilation<'_>) -> verify::Definitions| {
            let arena = Bump::new();
            let (prepared, _) = prepare(path, object, &arena).map_err(|e| e.to_string())?;
            let compilation = &prepared.compilation;
            let mut unreached = verify::unreached(compilation, &is_discardable);
            unreached.extend(made_unreached.iter().cloned());
            let of_it = of(compilation);
            Ok::<_, String>(verify::Comparison::new(&of_it, made, &unreached))
        };
        let both = compared(whole, &made.definitions, verify::definitions)
            .and_then(|whole| Ok((whole, compared(plain, &made.surface, verify::surface)?)));
        match both {
            Ok((whole, _)) if !whole.is_equal() => (false, whole.to_string()),
            Ok((_, plain)) if !plain.is_equal() => (
                false,
                format!("{plain} (from what is compiled without the plugin)"),
            ),
            Ok((whole, _)) => (
                true,
                format!("verified: {whole}, {} of them known", made.grafted),
            ),
            Err(why) => (false, format!("cannot be verified: {why}")),
        }
    }
}

/// What code was made of, where the plugin can tell.
fn emitted(report: &Report) -> Option<Emitted> {
    let names = report
        .definitions
        .iter()
        .map(|defined| defined.shown().to_owned());
    report.whole.is_none().then(|| Emitted {
        names: names.collect(),
        has_unasked: report.has_unasked,
        tells_places: report.tells_places,
        reads_files: report.reads_files,
    })
}

/// What is to be kept of the graph, of which the repository has some: behind what is stored now, and what was.
fn graph_of(report: &Report, stored: &[([u8; 32], memo::New)], known: &Kept) -> Graph {
    let stored: FxHashSet<Digest> = stored.iter().map(|(digest, _)| Digest(*digest)).collect();
    let all = report.definitions.iter().enumerate();
    let starts = all.filter(|(_, defined)| {
        let digest = Digest::from_hex(&defined.digest);
        defined.state.is_known() || digest.is_some_and(|digest| stored.contains(&digest))
    });
    let starts: Vec<u32> = starts.map(|(at, _)| at as u32).collect();
    Graph::new(report, &starts, |digest, name| known.has(digest, name))
}

/// Whether what has this name goes if nobody uses it.
fn is_discardable(report: &Report) -> impl Fn(&[u8]) -> bool + use<'_> {
    let names: FxHashSet<&[u8]> = (report.definitions.iter())
        .filter(|defined| Flags(defined.flags).has(Flags::DISCARDABLE))
        .map(|defined| defined.name.as_bytes())
        .collect();
    move |name| names.contains(name)
}

/// What stands behind the names of what is promoted.
fn promoted_suffix() -> Vec<u8> {
    [PROMOTED, UNIT.as_bytes()].concat()
}

/// What tells a program or library from another state of it.
fn identity(file: &Path) -> io::Result<String> {
    let data = fs::metadata(file)?;
    Ok(format!(
        "{} {} {} {}\n",
        file.display(),
        data.len(),
        data.mtime(),
        data.mtime_nsec()
    ))
}

/// The library with the code generator, if this is a clang of LLVM 19 as distributions have it.
fn llvm_19(compiler: &Path) -> Option<PathBuf> {
    let root = compiler.parent()?.parent()?;
    let is_19 = root.file_name() == Some(OsStr::new("llvm-19"));
    let library = fs::canonicalize(root.join("lib/libLLVM.so.19.1")).ok()?;
    is_19.then_some(library)
}

/// The plugin beside this program, or where it is installed, if it is not empty.
fn plugin() -> Option<PathBuf> {
    let own = fs::canonicalize("/proc/self/exe").ok()?;
    let directory = own.parent()?;
    let places = [
        directory.join(PLUGIN),
        directory.join("../lib/program-repository").join(PLUGIN),
    ];
    let found = places.into_iter().find(|place| place.is_file())?;
    has_entry_point(&found).then_some(found)
}

/// Whether a plugin can be loaded: the empty one, of who had no headers of LLVM, cannot. (Of the file only names are read, as that is asked for each compile.)
fn has_entry_point(plugin: &Path) -> bool {
    let Ok(file) = fs::File::open(plugin) else {
        return false;
    };
    let cache = ReadCache::new(file);
    let Ok(library) = ElfFile64::<Endianness, _>::parse(&cache) else {
        return false;
    };
    let mut symbols = library.dynamic_symbols();
    symbols.any(|it| it.is_definition() && it.name_bytes() == Ok(b"llvmGetPassPluginInfo"))
}

#[cfg(test)]
mod tests {
    use super::has_entry_point;
    use std::fs;
    use std::path::Path;

    #[test]
    fn what_is_no_plugin_has_no_entry_point() {
        let dir = tempfile::tempdir().expect("a directory");
        let text = dir.path().join("plugin.so");
        fs::write(&text, "llvmGetPassPluginInfo").expect("written");
        assert!(!has_entry_point(&text));
        assert!(!has_entry_point(&dir.path().join("none")));
        // A program in which the name is, but not as that of a definition.
        assert!(!has_entry_point(Path::new("/proc/self/exe")));
    }
}
