//! What a link was made of, and what of that has changed.
//!
//! The cost of looking is one `stat` an input, and the only one that grows with the program when nothing has changed.

use super::command::Command;
use super::held::Held;
use super::reason::Reason;
use super::spare;
use super::state::{DAMAGED, InputRecord, SearchRecord, State, Table, input};
use crate::args::environment::Environment;
use crate::args::{Args, Incremental};
use crate::input::library_search::Search;
use crate::input::open::Searched;
use crate::input::stamp::Stamp;
use format_spec::digest::Digest;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Digest of all that decides about a link beside its inputs.
pub(super) fn options_digest(args: &Args, held: &Held) -> [u8; 32] {
    // What says only how the link is done, or what it says meanwhile, and what is another in each run.
    let args = Args {
        incremental: Incremental::Off,
        verify_incremental: false,
        log: None,
        print_timing: None,
        progress: crate::args::ProgressMode::Auto,
        threads: None,
        fork: true,
        inputs: Arc::default(),
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
    let environment = Environment::of_process();
    let (lists, umask) = (held.lists(), held.umask());
    let text = format!("{args:?}{environment:?}{directory:?}{lists}{umask:?}");
    Digest::of(text.as_bytes()).0
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

/// What is not as it was.
pub(super) struct Changed<'a> {
    /// The inputs that are others, by number.
    pub inputs: Vec<u32>,
    /// The command line.
    pub command: Command<'a>,
}

impl Changed<'_> {
    /// Whether there is nothing to do.
    pub fn is_nothing(&self) -> bool {
        self.inputs.is_empty() && !self.command.is_other
    }
}

/// Finds what has changed.
///
/// # Errors
/// If it is another link altogether: other options, another linker, an output that somebody else has changed.
pub(super) fn changed<'a>(
    state: &State,
    held: &Held,
    args: &'a Args,
) -> Result<Changed<'a>, Reason> {
    let header = state.header();
    let inputs: &[InputRecord] = state.table(Table::Inputs);
    if header.options != options_digest(args, held) {
        return Err("the options, the environment, the directory or the umask are others".into());
    }
    if own_stamp() != Some(header.linker) {
        return Err("the linker is another".into());
    }
    let command = Command::new(state, args)?;
    spare::check_output(state, held, &args.output)?;
    let inputs = look_at_all(state, &command, inputs)?;
    check_searches(state, &command)?;
    Ok(Changed { inputs, command })
}

/// So many inputs are looked at in less time than it takes to begin a thread.
const FEW: usize = 512;

/// The numbers of the inputs whose stamps are others than the state says. Most of the time of a link that has nothing to do goes
/// here, in the kernel, so that several threads ask it.
fn look_at_all(
    state: &State,
    command: &Command,
    inputs: &[InputRecord],
) -> Result<Vec<u32>, Reason> {
    let most = inputs.len() / FEW;
    let threads = match most {
        0 | 1 => 1,
        _ => {
            let processors = || std::thread::available_parallelism().map_or(1, usize::from);
            most.min(command.args.threads.unwrap_or_else(processors))
        }
    };
    let share = inputs.len().div_ceil(threads.max(1)).max(1);
    let look = |(first, inputs)| look_at(state, command, first, inputs);
    let mut shares = (0..).step_by(share).zip(inputs.chunks(share));
    let own = shares.next();
    std::thread::scope(|scope| {
        let others: Vec<_> = shares
            .map(|share| scope.spawn(move || look(share)))
            .collect();
        let mut changed = own.map_or(Ok(Vec::new()), look)?;
        for other in others {
            let found = other.join().unwrap_or_else(|_| Err(DAMAGED.into()));
            changed.extend(found?);
        }
        Ok(changed)
    })
}

/// The same for some inputs, the first of which has the number `first`.
fn look_at(
    state: &State,
    command: &Command,
    first: u32,
    inputs: &[InputRecord],
) -> Result<Vec<u32>, Reason> {
    let mut changed = Vec::new();
    for (number, input) in (first..).zip(inputs) {
        if input.kind == input::GONE || command.removed.contains(&number) {
            continue;
        }
        let path = command.path_of(state, input);
        match Stamp::at(path) {
            None => return Err(format!("{} is gone", path.display()).into()),
            Some(now) if now == input.stamp => {}
            Some(_) => changed.push(number),
        }
    }
    Ok(changed)
}

/// Finds out whether libraries are still found where they were.
fn check_searches(state: &State, command: &Command) -> Result<(), Reason> {
    let searches: &[SearchRecord] = state.table(Table::Searches);
    if searches.is_empty() {
        return Ok(());
    }
    let inputs: &[InputRecord] = state.table(Table::Inputs);
    let search = Search::new(command.args, Environment::of_process());
    let mut seen: Vec<(&[u8], u32)> = Vec::new();
    for record in searches {
        let name = state.text(record.name, record.name_len);
        if seen.contains(&(name, record.how)) {
            continue;
        }
        seen.push((name, record.how));
        let script = match record.how {
            Searched::BY_SCRIPT => {
                let end = memchr::memchr(0, name).ok_or(DAMAGED)?;
                Some((&name[..end], Path::new(OsStr::from_bytes(&name[end + 1..]))))
            }
            _ => None,
        };
        let name = script.map_or(name, |(name, _)| name);
        let name = OsStr::from_bytes(name);
        let found = match record.how {
            Searched::BY_SCRIPT => {
                script.and_then(|(name, script)| search.script_input(name, script))
            }
            2 => search.library_file(name).next(),
            how => search.library(name, how == 1).next(),
        };
        // A search gives the same bytes for the same file; to compare components takes much longer.
        let is_known = |found: &Path| {
            let mut paths = inputs.iter().map(|input| command.path_of(state, input));
            paths.any(|path| path.as_os_str() == found.as_os_str())
        };
        if !found.is_some_and(|found| is_known(&found)) {
            let option = if script.is_some() { "" } else { "-l" };
            return Err(format!("{option}{} is found elsewhere", name.to_string_lossy()).into());
        }
    }
    Ok(())
}
