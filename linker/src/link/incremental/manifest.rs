//! What a link was made of, and what of that has changed.
//!
//! The cost of looking is one `stat` an input, and the only one that grows with the program when nothing has changed.

use super::state::{InputRecord, NONE, SearchRecord, State, Table};
use super::{Held, Reason, spare};
use crate::args::{Args, Incremental, InputKind};
use crate::search::{Environment, Search};
use crate::stamp::Stamp;
use format_spec::digest::Digest;
use rustc_hash::FxHashMap;
use std::ffi::OsStr;
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use store::program::locate;
use store::states;

/// The state file of an output: beside the repository that the options, the environment or the output's place name. Its
/// folder is made.
///
/// # Errors
/// If there is no such place, or it is not the user's own.
pub(super) fn state_path(args: &Args) -> Result<PathBuf, Reason> {
    let environment = locate::Environment::current();
    let places = locate::places(args.repo.as_deref(), Some(&args.output), &environment)
        .map_err(|why| Reason::from(store::describe(&why)))?;
    let place = places
        .into_iter()
        .next()
        .ok_or("there is no place for a repository")?;
    let folder = states::make_folder(&place.path);
    let failed = |why| Reason::from(format!("no state beside {}: {why}", place.path.display()));
    let folder = folder.map_err(failed)?;
    let output = std::path::absolute(&args.output).map_err(failed)?;
    let name = Digest::of(output.as_os_str().as_bytes());
    Ok(folder.join(format!("{name:.32}")))
}

/// The places on the command line that may name another file next time: what is in it counts.
pub(super) fn free_arguments(inputs: &[InputRecord]) -> Vec<u32> {
    let arguments = inputs.iter().map(|input| input.argument);
    arguments.filter(|argument| *argument != NONE).collect()
}

/// Digest of all that decides about a link beside its inputs' contents. `free` are the inputs of the command line whose paths do
/// not count.
pub(super) fn options_digest(args: &Args, free: &[u32]) -> [u8; 32] {
    // That a file is named twice counts.
    let mut first: FxHashMap<&Path, usize> = FxHashMap::default();
    for (index, input) in args.inputs.iter().enumerate() {
        if let InputKind::File(path) = &input.kind {
            first.entry(path).or_insert(index);
        }
    }
    let mut is_free = vec![false; args.inputs.len()];
    for index in free {
        if let Some(is_free) = is_free.get_mut(*index as usize) {
            *is_free = true;
        }
    }
    let mut bytes = Written(Vec::with_capacity(64 * args.inputs.len()));
    for (input, is_free) in args.inputs.iter().zip(is_free) {
        let kind = match &input.kind {
            InputKind::File(_) => 0,
            InputKind::Library(_) => 1,
            InputKind::LibraryFile(_) => 2,
            InputKind::JustSymbols(_) => 3,
        };
        bytes.write_u8(kind);
        match &input.kind {
            InputKind::File(path) if is_free => bytes.write_usize(first[&**path]),
            InputKind::File(name) | InputKind::JustSymbols(name) => bytes.name(name.as_os_str()),
            InputKind::Library(name) | InputKind::LibraryFile(name) => bytes.name(name),
        }
        input.state.hash(&mut bytes);
    }
    // What says only how the link is done, or what it says meanwhile, and what is another in each run.
    let args = Args {
        incremental: Incremental::Off,
        verify_incremental: false,
        log: None,
        print_timing: None,
        progress: crate::args::ProgressMode::Auto,
        threads: None,
        fork: true,
        words: Vec::new(),
        inputs: Vec::new(),
        // Compilers make directories for the link alone, and find nothing to put into them.
        library_paths: args
            .library_paths
            .iter()
            .filter(|path| !holds_nothing(path))
            .cloned()
            .collect(),
        // Links with intermediate code keep no state.
        plugins: Vec::new(),
        plugin_options: Vec::new(),
        ..args.clone()
    };
    let directory = std::env::current_dir();
    let text = format!("{args:?}{:?}{directory:?}", Environment::of_process());
    bytes.write(text.as_bytes());
    Digest::of(&bytes.0).0
}

/// What is hashed, as it is.
struct Written(Vec<u8>);

impl Hasher for Written {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

impl Written {
    fn name(&mut self, name: &OsStr) {
        self.write_usize(name.len());
        self.write(name.as_bytes());
    }
}

/// Whether there is no file in a directory, or no directory.
fn holds_nothing(path: &Path) -> bool {
    // It may stand for another (`=` means the root of the system for which is linked).
    let is_plain = path.is_absolute();
    is_plain
        && match path.read_dir() {
            Ok(mut entries) => entries.next().is_none(),
            Err(why) => why.kind() == std::io::ErrorKind::NotFound,
        }
}

/// The program that links.
pub(super) fn own_stamp() -> Option<Stamp> {
    Stamp::at(Path::new("/proc/self/exe"))
}

/// The inputs that are not as they were, by number.
///
/// # Errors
/// If it is another link altogether: other options, another linker, an output that somebody else has changed.
pub(super) fn changed(state: &State, held: &Held, args: &Args) -> Result<Vec<u32>, Reason> {
    let header = state.header();
    let inputs: &[InputRecord] = state.table(Table::Inputs);
    if header.options != options_digest(args, &free_arguments(inputs)) {
        return Err("the options, the environment or the directory are others".into());
    }
    if own_stamp() != Some(header.linker) {
        return Err("the linker is another".into());
    }
    spare::check_output(state, held, &args.output)?;
    let mut changed = Vec::new();
    for (number, input) in (0..).zip(inputs) {
        let path = path_of(state, args, input);
        match Stamp::at(path) {
            None => return Err(format!("{} is gone", path.display()).into()),
            Some(now) if now == input.stamp => {}
            Some(_) => changed.push(number),
        }
    }
    check_searches(state, args)?;
    Ok(changed)
}

/// The path of an input.
pub(super) fn path_of<'s>(state: &'s State, args: &'s Args, input: &InputRecord) -> &'s Path {
    let argument = args.inputs.get(input.argument as usize);
    if let Some(InputKind::File(path)) = argument.map(|argument| &argument.kind) {
        return path;
    }
    Path::new(OsStr::from_bytes(state.text(input.path, input.path_len)))
}

/// Finds out whether libraries are still found where they were.
fn check_searches(state: &State, args: &Args) -> Result<(), Reason> {
    let searches: &[SearchRecord] = state.table(Table::Searches);
    if searches.is_empty() {
        return Ok(());
    }
    let inputs: &[InputRecord] = state.table(Table::Inputs);
    let search = Search::new(args, Environment::of_process());
    let mut seen: Vec<(&[u8], u32)> = Vec::new();
    for record in searches {
        let name = state.text(record.name, record.name_len);
        if seen.contains(&(name, record.how)) {
            continue;
        }
        seen.push((name, record.how));
        let name = OsStr::from_bytes(name);
        let found = match record.how {
            2 => search.library_file(name).next(),
            how => search.library(name, how == 1).next(),
        };
        let is_known = |found: &Path| {
            let mut paths = inputs.iter().map(|input| path_of(state, args, input));
            paths.any(|path| path == found)
        };
        if !found.is_some_and(|found| is_known(&found)) {
            return Err(format!("-l{} is found elsewhere", name.to_string_lossy()).into());
        }
    }
    Ok(())
}
