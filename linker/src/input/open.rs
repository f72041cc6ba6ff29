//! Opening inputs: from the command line's words to parsed files.
//!
//! Files are mapped, never read. The walk over the command line is serial, as what
//! a linker script names depends on what came before; it finds out what each file
//! is. Listing archive members and parsing what was found ([`parse`]) is parallel. Of the members of small links' archives only those are
//! parsed that the archives' symbol indexes say can be needed ([`candidates`]).

use crate::args::environment::Environment;
use crate::args::{Args, InputArg, InputFormat, InputKind, InputState, OutputKind};
use crate::base::ids::FileId;
use crate::elf::{self, Ehdr, c};
use crate::input::elf_object::{Malformed, check_ident, is_bitcode, machine_name};
use crate::input::file::{Body, File, Files};
use crate::input::host::Host;
use crate::input::library_search::Search;
use crate::input::made_objects;
use crate::input::mapped_bytes::MappedBytes;
use crate::input::remap::Remaps;
use crate::input::scripts;
use crate::input::scripts::{Includes, Scripts};
use crate::messages::diag::{Diagnostic, Diagnostics};
use crate::script::version_script::VersionScript;
use crate::script::{self, Command, FileRef};
use rayon::prelude::*;
use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tickets::archive::{Archive, ArchiveError, MemberBody};
use tickets::is_ticket;

mod alone;
mod arena;
mod candidates;
mod found;
mod lost;
mod parse;

pub use alone::{Known, open_alone};
use arena::Content;
pub use arena::{InputArena, OpenedFile, Searched};
use found::Found;
use parse::{Opening, may_be_ticket};

/// An input in its place among the others.
enum Input<'a> {
    Found(Found<'a>),
    /// An archive that holds its members, which are yet to be listed.
    Archive(Library<'a>),
}

/// An archive.
struct Library<'a> {
    path: &'a Path,
    data: &'a [u8],
    /// The file, if it is mapped.
    mapped: Option<MappedBytes<'a>>,
    state: InputState,
    exclude: bool,
}

/// Linker scripts as inputs name each other at most this deep.
const SCRIPT_DEPTH: usize = 16;

/// A link has at most so many linker scripts as inputs.
const MOST_SCRIPTS: usize = 1 << 13;

struct Opener<'a, 'l> {
    arena: &'a InputArena,
    args: &'l Args,
    diag: &'l Diagnostics,
    search: Search,
    remaps: Remaps,
    found: Vec<Input<'a>>,
    opened: HashMap<PathBuf, Content<'a>>,
    /// Where the linker scripts begin that are being obeyed, each named by the one before.
    reading: Vec<*const u8>,
    /// How many linker scripts were inputs so far.
    read: usize,
    /// Where the archives begin that were taken apart.
    archives: HashSet<*const u8>,
    scripts: Scripts,
    version_scripts: Vec<VersionScript>,
}

/// What the command line's inputs are.
pub struct Opened<'a> {
    /// All files, the linker itself first.
    pub files: Files<'a>,
    /// The scripts of the command line and of the inputs.
    pub scripts: Scripts,
    /// The version scripts in them.
    pub version_scripts: Vec<VersionScript>,
    /// Files that hold a compiler's intermediate code, in order.
    pub intermediate: Vec<Intermediate<'a>>,
    /// The paths of the objects, archives and shared objects, in order.
    pub paths: Vec<&'a Path>,
    /// Members of archives were left out, because the archives' indexes say that nothing can need them.
    pub by_index: bool,
}

/// Where a file that holds intermediate code lies.
#[derive(Clone, Copy)]
pub struct Intermediate<'a> {
    /// The file or archive member.
    pub file: FileId,
    /// The file in the file system: for a member of an archive that is not thin, the archive.
    pub path: &'a Path,
    /// Offset in it, bytes.
    pub offset: u64,
    /// The file's or member's bytes.
    pub data: &'a [u8],
}

/// Opens and parses all inputs. `names` are what the linker itself mentions; `host` is told of their size.
pub fn open<'a>(
    arena: &'a InputArena,
    args: &Args,
    mut names: Vec<&'a [u8]>,
    host: &dyn Host,
    diag: &Diagnostics,
) -> Opened<'a> {
    let search = Search::new(args, Environment::of_process());
    let scripts = Scripts::load(args, &search, diag);
    let mut opener = Opener::new(arena, args, search, scripts, diag);
    opener.commands(0, InputState::default());
    for input in &*args.inputs {
        opener.input(input);
    }
    let Opener {
        found,
        scripts,
        version_scripts,
        opened,
        ..
    } = opener;
    let mut paths: Vec<&'a Path> = found.iter().map(Input::path).collect();
    // Those of a thin archive's members are the archive's.
    paths.dedup();
    // Before anything that is parallel.
    let work = found.iter().map(Input::work).sum();
    host.opened(work);
    names.extend(scripts.names().into_iter().map(|name| arena.bytes(name)));
    let mut wanted = names.clone();
    wanted.push(args.entry_name());
    let linker = File {
        path: Path::new(""),
        member: None,
        body: Body::Linker(names),
        lazy: false,
        as_needed: false,
        exclude: false,
        slot_base: 0,
        data: b"",
        mapped: None,
    };
    let mut opening = Opening::new(arena, args, diag);
    let indexed = candidates::indexed_names(&found, work, args);
    let (mut files, by_index) = match indexed {
        Some(indexed) => candidates::parse(found, indexed, linker, &wanted, &mut opening),
        None => {
            let found = list_archives(found, diag);
            (opening.parse_all(Some(linker), found), false)
        }
    };
    lost::report(&opening.lost, diag);
    unite_shared(&mut files);
    let intermediate = files
        .iter()
        .enumerate()
        .filter_map(|(n, file)| Some((FileId(n as u32), file.object()?.intermediate_code()?)));
    let intermediate = locate(arena, &opened, intermediate.collect());
    Opened {
        files: Files(files),
        scripts,
        version_scripts,
        intermediate,
        paths,
        // Lost tickets are where they were no more: to look at all members would not help.
        by_index: by_index && opening.lost.is_empty(),
    }
}

/// What a plugin for link-time optimisation made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Produced {
    /// Object files, to be linked.
    pub files: Vec<PathBuf>,
    /// Libraries, as for `-l`.
    pub libraries: Vec<Vec<u8>>,
    /// Directories, as for `-L`.
    pub search_directories: Vec<PathBuf>,
}

/// Opens what a plugin has made: objects, and the libraries that they need.
///
/// Libraries that are open already are not opened again: wherever they stand, all that needs them finds them.
pub fn open_produced<'a>(
    arena: &'a InputArena,
    args: &Args,
    produced: &Produced,
    files: &Files<'a>,
    diag: &Diagnostics,
) -> (Vec<File<'a>>, Vec<File<'a>>) {
    let search = Search::new(args, Environment::of_process());
    let mut opener = Opener::new(arena, args, search, Scripts::default(), diag);
    for directory in &produced.search_directories {
        opener
            .search
            .add_directory(directory.as_os_str().as_bytes());
    }
    for path in &produced.files {
        opener.file(path.clone(), InputState::default());
    }
    let mut opening = Opening::new(arena, args, diag);
    let objects = list_archives(std::mem::take(&mut opener.found), diag);
    let state = InputState {
        static_only: args.inputs.last().is_some_and(|i| i.state.static_only),
        ..InputState::default()
    };
    // With `-r` what new code needs stays undefined, and the final link has these libraries.
    let is_image = args.kind != OutputKind::Relocatable;
    for name in produced.libraries.iter().filter(|_| is_image) {
        opener.input(&InputArg {
            kind: InputKind::Library(std::ffi::OsStr::from_bytes(name).into()),
            state,
        });
    }
    let open: HashSet<&Path> = files.iter().map(|(_, file)| file.path).collect();
    let mut libraries = list_archives(opener.found, diag);
    libraries.retain(|found| !open.contains(found.path));
    let sonames: HashSet<&[u8]> = files
        .iter()
        .filter_map(|(_, file)| file.shared().map(|shared| shared.soname))
        .collect();
    let mut libraries = opening.parse_all(None, libraries);
    libraries.retain(|file| {
        file.shared()
            .is_none_or(|shared| !sonames.contains(shared.soname))
    });
    let objects = opening.parse_all(None, objects);
    lost::report(&opening.lost, diag);
    (objects, libraries)
}

/// Finds out where in which file the bytes of inputs lie.
fn locate<'a>(
    arena: &'a InputArena,
    opened: &HashMap<PathBuf, Content<'a>>,
    inputs: Vec<(FileId, &'a [u8])>,
) -> Vec<Intermediate<'a>> {
    if inputs.is_empty() {
        return Vec::new();
    }
    let mut maps: Vec<(usize, &PathBuf)> = opened
        .iter()
        .map(|(path, content)| (content.bytes.as_ptr() as usize, path))
        .collect();
    maps.sort_unstable();
    inputs
        .into_iter()
        .filter_map(|(file, data)| {
            let start = data.as_ptr() as usize;
            let (base, path) = maps[..maps.partition_point(|(base, _)| *base <= start)].last()?;
            Some(Intermediate {
                file,
                path: arena.paths.alloc((*path).clone()),
                offset: (start - base) as u64,
                data,
            })
        })
        .collect()
}

/// A shared object that is given twice counts once.
fn unite_shared(files: &mut Vec<File>) {
    let mut as_needed: HashMap<&[u8], bool> = HashMap::new();
    for file in files.iter() {
        if let Some(shared) = file.shared() {
            *as_needed.entry(shared.soname).or_insert(true) &= file.as_needed;
        }
    }
    files.retain_mut(|file| {
        let Some(shared) = file.shared() else {
            return true;
        };
        let first = as_needed.remove(shared.soname);
        file.as_needed = first.unwrap_or(file.as_needed);
        first.is_some()
    });
}

impl<'a, 'l> Opener<'a, 'l> {
    fn new(
        arena: &'a InputArena,
        args: &'l Args,
        search: Search,
        scripts: Scripts,
        diag: &'l Diagnostics,
    ) -> Self {
        Opener {
            arena,
            args,
            diag,
            search,
            remaps: Remaps::new(args, diag),
            found: Vec::new(),
            opened: HashMap::new(),
            reading: Vec::new(),
            read: 0,
            archives: HashSet::new(),
            scripts,
            version_scripts: Vec::new(),
        }
    }

    fn input(&mut self, input: &InputArg) {
        match &input.kind {
            InputKind::File(path) => {
                let Some(path) = self.remaps.apply(path.clone()) else {
                    return;
                };
                let first = self.found.len();
                self.open(path.clone(), input.state);
                if let Some(Input::Found(found)) = self.found.get_mut(first)
                    && found.path == path.as_path()
                {
                    found.by_path = true;
                }
            }
            InputKind::Library(name) => match self.find_library(name, input.state.static_only) {
                Some(path) => self.file(path, input.state),
                None => self.diag.error(format!(
                    "cannot find -l{}: No such file or directory",
                    name.to_string_lossy()
                )),
            },
            InputKind::LibraryFile(name) => match self.find_library_file(name) {
                Some(path) => self.file(path, input.state),
                None => self.diag.error(format!(
                    "cannot find -l:{}: No such file or directory",
                    name.to_string_lossy()
                )),
            },
            InputKind::JustSymbols(path) => {
                let Some(path) = self.remaps.apply(path.clone()) else {
                    return;
                };
                let Some(content) = self.map(&path) else {
                    return;
                };
                match made_objects::of_symbols(content.bytes) {
                    Ok(object) => self.made_object(path, object, input.state),
                    Err(why) => self.diag.error(format!("{}: {why}", path.display())),
                }
            }
        }
    }

    /// The file that `-lNAME` means.
    fn find_library(&mut self, name: &std::ffi::OsStr, static_only: bool) -> Option<PathBuf> {
        self.arena.searches(name, static_only.into());
        self.first_compatible(name, |search, passed| {
            search.library(name, static_only).nth(passed)
        })
    }

    /// The file that `-l:NAME` means.
    fn find_library_file(&mut self, name: &std::ffi::OsStr) -> Option<PathBuf> {
        self.arena.searches(name, 2);
        self.first_compatible(name, |search, passed| search.library_file(name).nth(passed))
    }

    /// The first of the files that a library can be that is not for another machine; says what is passed over. Nearly
    /// always that is the very first, and directories beyond it are not looked into: `candidate` finds the one
    /// after so many others.
    fn first_compatible(
        &mut self,
        name: &std::ffi::OsStr,
        candidate: impl Fn(&Search, usize) -> Option<PathBuf>,
    ) -> Option<PathBuf> {
        for passed in 0.. {
            let candidate = candidate(&self.search, passed)?;
            let content = self.map(&candidate);
            let Some(other) = content.and_then(|content| incompatible(content.bytes)) else {
                return Some(candidate);
            };
            if self.args.warn_search_mismatch {
                // As with GNU ld this is no warning: `--fatal-warnings` does not concern it.
                crate::tell!(
                    "repo-ld: skipping incompatible {} when searching for -l{}: it is for {other}",
                    candidate.display(),
                    name.to_string_lossy()
                );
            }
        }
        None
    }

    fn map(&mut self, path: &Path) -> Option<Content<'a>> {
        if let Some(content) = self.opened.get(path) {
            return Some(*content);
        }
        match self.arena.map(path) {
            Ok(content) => {
                self.opened.insert(path.to_path_buf(), content);
                Some(content)
            }
            Err(why) => {
                self.diag
                    .error(format!("cannot open {}: {why}", path.display()));
                None
            }
        }
    }

    fn file(&mut self, path: PathBuf, state: InputState) {
        if let Some(path) = self.remaps.apply(path) {
            self.open(path, state);
        }
    }

    fn open(&mut self, path: PathBuf, state: InputState) {
        let Some(content) = self.map(&path) else {
            return;
        };
        let mut content = content;
        let looks_unfinished =
            |content: Content| !content.bytes.iter().take(4).any(|byte| *byte != 0);
        if looks_unfinished(content) && path.is_file() && lost::was_being_made(&path) {
            // An object that a compiler was writing, for another link.
            self.opened.remove(&path);
            match self.map(&path) {
                Some(now) => content = now,
                None => return,
            }
        }
        let data = content.bytes;
        if state.format == InputFormat::Binary {
            let object = made_objects::of_bytes(path.as_os_str().as_bytes(), data);
            return self.made_object(path, object, state);
        }
        let kept: &'a Path = self.arena.paths.alloc(path);
        if self.args.trace > 0 {
            crate::say!("{}", kept.display());
        }
        if Archive::is_archive(data) {
            self.archive(kept, content, state);
        } else if data.starts_with(&c::ELFMAG) || is_bitcode(data) {
            self.found.push(Input::Found(Found {
                path: kept,
                member: None,
                data,
                lazy: state.lib.is_some(),
                as_needed: state.as_needed,
                exclude: false,
                by_path: false,
                mapped: content.mapped,
            }));
        } else if data.iter().take(512).any(|b| *b == 0) {
            self.diag.error(format!(
                "{}: file is neither ELF, archive nor linker script",
                kept.display()
            ));
        } else {
            self.script(kept, data, state);
        }
    }

    /// An object that was made from a file which is none.
    fn made_object(&mut self, path: PathBuf, object: Vec<u8>, state: InputState) {
        self.found.push(Input::Found(Found {
            path: self.arena.paths.alloc(path),
            member: None,
            data: self.arena.bytes(object),
            lazy: false,
            as_needed: state.as_needed,
            exclude: false,
            by_path: false,
            mapped: None,
        }));
    }

    fn archive(&mut self, path: &'a Path, content: Content<'a>, state: InputState) {
        let data = content.bytes;
        // Members are extracted for whoever needs them, before or after; so the same archive once more, which compilers
        // like to give (gcc names its own four times), has nothing that the first did not have.
        if !self.archives.insert(data.as_ptr()) && !state.whole_archive {
            return;
        }
        let failed = |why| self.diag.error(format!("{}: {why}", path.display()));
        let archive = match Archive::parse(data) {
            Ok(archive) => archive,
            Err(why) => return failed(why),
        };
        let file_name = path.file_name().map_or(&b""[..], |name| name.as_bytes());
        let exclude = self
            .args
            .exclude_libs
            .iter()
            .any(|name| name == b"ALL" || name == file_name);
        let library = Library {
            path,
            data,
            mapped: content.mapped,
            state,
            exclude,
        };
        // Its members would be passed over without a word, and what they define be missing.
        if let Some(other) = incompatible(data) {
            self.diag.warn(format!(
                "{}: file in wrong format: its first object is for {other}; such members are left out",
                path.display()
            ));
        }
        // Those of a thin archive are files to be opened; to list others is to look at all of their headers, which is
        // better done by all threads.
        if !archive.is_thin() {
            self.found.push(Input::Archive(library));
            return;
        }
        let members: Result<Vec<_>, _> = archive.members().collect();
        let members = match members {
            Ok(members) => members,
            Err(why) => return failed(why),
        };
        for member in members {
            let body = match member.body {
                MemberBody::Inline(_) => archive
                    .inline_data(&member)
                    .map(|bytes| Content { bytes, ..content }),
                MemberBody::External { .. } => self.map(&member.thin_path(path)),
                MemberBody::Nested { header_offset } => {
                    let outer = member.thin_path(path);
                    let Some(content) = self.map(&outer) else {
                        continue;
                    };
                    let nested = Archive::parse(content.bytes);
                    let body = nested.and_then(|nested| {
                        Ok(nested.inline_data(&nested.member_at(header_offset)?))
                    });
                    match body {
                        Ok(body) => body.map(|bytes| Content { bytes, ..content }),
                        Err(why) => {
                            self.diag.error(format!("{}: {why}", outer.display()));
                            continue;
                        }
                    }
                }
            };
            if let Some(found) = body.and_then(|content| library.member(member.name, content)) {
                self.found.push(Input::Found(found));
            }
        }
    }

    fn script(&mut self, path: &'a Path, data: &'a [u8], state: InputState) {
        self.read += 1;
        let why = if self.reading.contains(&data.as_ptr()) {
            "the linker script names itself as an input"
        } else if self.reading.len() == SCRIPT_DEPTH {
            "linker scripts are nested too deeply"
        } else if self.read == MOST_SCRIPTS {
            "there are too many linker scripts"
        } else {
            ""
        };
        if !why.is_empty() {
            self.diag.error(format!("{}: {why}", path.display()));
        }
        if !why.is_empty() || self.read > MOST_SCRIPTS {
            return;
        }
        self.reading.push(data.as_ptr());
        self.read_script(path, data, state);
        self.reading.pop();
    }

    fn read_script(&mut self, path: &'a Path, data: &'a [u8], state: InputState) {
        let name = path.display().to_string();
        let first = self.scripts.script.commands.len();
        let mut includes = Includes(&self.search);
        match script::parse_onto(&mut self.scripts.script, data, &name, &mut includes) {
            Ok(()) => self.commands(first, state),
            // Whatever is none of the other kinds of files is read as a script; this is none, from its first command on.
            Err(why)
                if self.scripts.script.commands.len() == first
                    && why.problem.contains(script::NO_COMMAND) =>
            {
                let message = format!("{name}: a text file that is no linker script");
                let diagnostic = Diagnostic::error(message).note(why);
                self.diag.report(diagnostic.note(
                    "inputs are objects, archives, shared objects and linker scripts; sources must be compiled first",
                ));
            }
            Err(why) => self.diag.error(why),
        }
    }

    /// Obeys what the commands from `first` on say about inputs.
    fn commands(&mut self, first: usize, mut state: InputState) {
        let new = self.scripts.script.commands.split_off(first);
        let startup = new.iter().filter_map(|command| match command {
            Command::Startup(file) => Some(file),
            _ => None,
        });
        for file in startup {
            self.script_file(file, state);
        }
        for command in &new {
            match command {
                Command::Input(files) | Command::Group(files) => {
                    for file in files {
                        self.script_file(file, state);
                    }
                }
                // As between `--start-lib` and `--end-lib`.
                Command::Lib(files) => {
                    let state = InputState {
                        // Which range it is does not matter here.
                        lib: state.lib.or(Some(0)),
                        ..state
                    };
                    for file in files {
                        self.script_file(file, state);
                    }
                }
                // As `-b`, for the files that the script names from here on.
                Command::Target(name, _) => {
                    state.format = match scripts::names_binary(name) {
                        true => InputFormat::Binary,
                        false => InputFormat::Detect,
                    };
                }
                Command::SearchDir(directory) if !self.args.nostdlib => {
                    self.search.add_directory(directory)
                }
                Command::Version(version) => self.version_scripts.push(version.clone()),
                _ => {}
            }
        }
        self.scripts.script.commands.extend(new);
    }

    /// A file that a script names.
    fn script_file(&mut self, file: &FileRef, state: InputState) {
        let script = &self.scripts.script;
        let place = script.place(file.pos);
        let script = script.files.get(file.pos.file as usize);
        let script = PathBuf::from(script.cloned().unwrap_or_default());
        let state = InputState {
            as_needed: state.as_needed || file.as_needed,
            ..state
        };
        let name = std::ffi::OsStr::from_bytes(&file.name);
        let found = match (file.is_library, file.name.strip_prefix(b":")) {
            (true, Some(exact)) => self.find_library_file(std::ffi::OsStr::from_bytes(exact)),
            (true, None) => self.find_library(name, state.static_only),
            (false, _) => {
                self.arena.searches_for_script(&file.name, &script);
                self.search.script_input(&file.name, &script)
            }
        };
        match found {
            Some(found) => self.file(found, state),
            None => self.diag.error(format!(
                "{place}: cannot find {}{}",
                if file.is_library { "-l" } else { "" },
                name.to_string_lossy()
            )),
        }
    }
}

impl<'a> Input<'a> {
    fn path(&self) -> &'a Path {
        match self {
            Input::Found(found) => found.path,
            Input::Archive(library) => library.path,
        }
    }

    /// Bytes that the link will have to do with, about: of libraries most are not needed.
    fn work(&self) -> u64 {
        // Of an archive the symbols' names are looked at, and some members; of a shared object only its table of symbols.
        const ARCHIVE: u64 = 16;
        const SHARED: u64 = 16;
        // A ticket stands for more than is in it.
        const TICKET: u64 = 4;
        let (data, lazy, first) = match self {
            Input::Found(found) => (found.data, found.lazy, Some(found.data)),
            Input::Archive(library) => (
                library.data,
                !library.state.whole_archive,
                Archive::parse(library.data)
                    .ok()
                    .and_then(|archive| first_object(&archive)),
            ),
        };
        let bytes = data.len() as u64;
        let ehdr = first.and_then(|data| elf::record::<Ehdr>(data, 0));
        if ehdr.is_some_and(|ehdr| ehdr.e_type == c::ET_DYN) {
            return bytes / SHARED;
        }
        let bytes = match first.zip(ehdr) {
            Some((first, ehdr)) if may_be_ticket(ehdr) && is_ticket(first) => bytes * TICKET,
            _ => bytes,
        };
        match lazy {
            true => bytes / ARCHIVE,
            false => bytes,
        }
    }
}

impl<'a> Library<'a> {
    /// The members of an archive that holds them.
    fn members(&self, diag: &Diagnostics) -> Vec<Found<'a>> {
        // Few members are smaller; memory that is only reserved costs nothing.
        const MEMBER: usize = 1024;
        let mut found = Vec::with_capacity(self.data.len() / MEMBER);
        if let Err(why) = self.list(&mut found, diag) {
            diag.error(format!("{}: {why}", self.path.display()));
            found.clear();
        }
        found
    }

    fn list(&self, found: &mut Vec<Found<'a>>, diag: &Diagnostics) -> Result<(), ArchiveError> {
        let archive = Archive::parse(self.data)?;
        for member in archive.members() {
            let member = member?;
            let Some(data) = archive.inline_data(&member) else {
                continue;
            };
            match self.listed(member.name, data) {
                Some(member) => found.push(member),
                // Whoever asks for all of an archive means what is in it.
                None if self.state.whole_archive => diag.error(format!(
                    "{}({}): the member is not an object, and --whole-archive has it linked",
                    self.path.display(),
                    String::from_utf8_lossy(member.name)
                )),
                None => {}
            }
        }
        Ok(())
    }

    /// A member that is in the archive itself, if it is one for linkers.
    fn listed(&self, name: &'a [u8], bytes: &'a [u8]) -> Option<Found<'a>> {
        let mapped = self.mapped;
        self.member(name, Content { bytes, mapped })
    }

    /// A member, if it is one for linkers.
    fn member(&self, name: &'a [u8], content: Content<'a>) -> Option<Found<'a>> {
        let data = content.bytes;
        let is_object = data.starts_with(&c::ELFMAG) || is_bitcode(data);
        is_object.then_some(Found {
            path: self.path,
            member: Some(name),
            data,
            lazy: !self.state.whole_archive,
            as_needed: self.state.as_needed,
            exclude: self.exclude,
            by_path: false,
            mapped: content.mapped,
        })
    }
}

/// What a library is for that cannot be for this machine: it can be if it is an ELF file that is, an archive whose first object
/// is, or a linker script that names no other format. What is none of these is a matter of its own.
fn incompatible(data: &[u8]) -> Option<String> {
    let other = |data: &[u8]| {
        let ehdr = elf::record::<Ehdr>(data, 0)?;
        let is_other = matches!(check_ident(ehdr), Err(Malformed::Incompatible(_)));
        is_other.then(|| machine_name(ehdr))
    };
    if data.starts_with(&c::ELFMAG) {
        return other(data);
    }
    if Archive::is_archive(data) {
        let archive = Archive::parse(data).ok()?;
        return first_object(&archive).and_then(other);
    }
    // The formats that follow the first are for big- and little-endian output.
    let at = memchr::memmem::find(data, b"OUTPUT_FORMAT")?;
    let rest = data[at + b"OUTPUT_FORMAT".len()..].trim_ascii_start();
    let rest = rest.strip_prefix(b"(")?;
    let rest = rest.trim_ascii_start();
    let rest = rest.strip_prefix(b"\"").unwrap_or(rest);
    let end = rest
        .iter()
        .position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'-' && *byte != b'_');
    let format = &rest[..end.unwrap_or(rest.len())];
    let is_ours = matches!(format, b"elf64-x86-64" | b"default" | b"");
    (!is_ours).then(|| String::from_utf8_lossy(format).into_owned())
}

/// Puts in each archive's place its members.
fn list_archives<'a>(inputs: Vec<Input<'a>>, diag: &Diagnostics) -> Vec<Found<'a>> {
    let listed: Vec<_> = inputs
        .into_par_iter()
        .map(|input| match input {
            Input::Found(found) => vec![found],
            Input::Archive(library) => library.members(diag),
        })
        .collect();
    let mut found = Vec::with_capacity(listed.iter().map(Vec::len).sum());
    found.extend(listed.into_iter().flatten());
    found
}

/// The first member that is an ELF file.
fn first_object<'a>(archive: &Archive<'a>) -> Option<&'a [u8]> {
    let mut members = archive.members().map_while(Result::ok);
    members.find_map(|member| {
        let data = archive.inline_data(&member)?;
        data.starts_with(&c::ELFMAG).then_some(data)
    })
}
