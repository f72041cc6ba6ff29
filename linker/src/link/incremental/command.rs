//! Which inputs the command line names, against those that it named in the link before.
//!
//! Of each argument that names an input the state has a key of what it says. When all are as they were, in number and order,
//! that is all. Else the two lists are held against each other: what both have must stand in the same order; in the gaps
//! between, an argument that stands for another one is an object under another name (what compilers make for the link alone
//! is called otherwise each time), and what is left over was added or taken away. Only objects may come and go so.

use super::reason::Reason;
use super::state::{ArgumentRecord, InputRecord, NONE, NameKey, State, Table, key_of};
use crate::args::{Args, InputArg, InputKind};
use rustc_hash::FxHashMap;
use std::ffi::OsStr;
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The command line's inputs.
pub(super) struct Command<'a> {
    pub args: &'a Args,
    /// By argument of the link before: its place now, or [`NONE`] if it is gone. Empty if all are where they were.
    now: Vec<u32>,
    /// Places of arguments that are new.
    pub added: Vec<u32>,
    /// Objects that are not named any more, by their numbers among the inputs.
    pub removed: Vec<u32>,
    /// It says something else than in the link before.
    pub is_other: bool,
}

impl<'a> Command<'a> {
    /// Compares with the link before.
    ///
    /// # Errors
    /// If more is different than objects that have come or are gone.
    pub fn new(state: &State, args: &'a Args) -> Result<Command<'a>, Reason> {
        let old: &[ArgumentRecord] = state.table(Table::Arguments);
        let new = keys(args);
        let same = |(old, new): (&ArgumentRecord, &Argument)| {
            old.key == new.key || old.object != NONE && old.how == new.how
        };
        let mut command = Command {
            args,
            now: Vec::new(),
            added: Vec::new(),
            removed: Vec::new(),
            is_other: false,
        };
        let same_keys = |(old, new): (&ArgumentRecord, &Argument)| old.key == new.key;
        if old.len() == new.len() && old.iter().zip(&new).all(same_keys) {
            return Ok(command);
        }
        let counts = count(&new);
        command.is_other = true;
        let Err(why) = command.compare(old, &new, &counts) else {
            return Ok(command);
        };
        // Each may stand for the one that was in its place.
        let renamed = old.iter().zip(&new).filter(|pair| !same_keys(*pair));
        let mut renamed = renamed.map(|(_, new)| new.key);
        if old.len() != new.len() || !old.iter().zip(&new).all(same) {
            return Err(why);
        }
        match renamed.all(|key| counts.get(&key) == Some(&1)) {
            true => {
                (command.now, command.added, command.removed) = Default::default();
                Ok(command)
            }
            false => Err(TWICE.into()),
        }
    }

    fn compare(
        &mut self,
        old: &[ArgumentRecord],
        new: &[Argument],
        counts: &FxHashMap<NameKey, u32>,
    ) -> Result<(), Reason> {
        let is_once = |argument: &Argument| counts.get(&argument.key) == Some(&1);
        let mut at: FxHashMap<NameKey, Vec<u32>> = FxHashMap::default();
        for (index, record) in old.iter().enumerate().rev() {
            at.entry(record.key).or_default().push(index as u32);
        }
        self.now = vec![NONE; old.len()];
        // Those that both have.
        let mut pairs: Vec<(usize, usize)> = Vec::with_capacity(new.len());
        for (index, argument) in new.iter().enumerate() {
            let Some(found) = at.get_mut(&argument.key).and_then(Vec::pop) else {
                continue;
            };
            let found = found as usize;
            if pairs.last().is_some_and(|(before, _)| *before > found) {
                return Err("inputs are in another order".into());
            }
            pairs.push((found, index));
        }
        pairs.push((old.len(), new.len()));
        let (mut from, mut to) = (0, 0);
        for (found, index) in pairs {
            let gone = old[from..found].iter().zip(from..);
            let mut come = new[to..index].iter().zip(to..).peekable();
            for (record, number) in gone {
                let stands_for = |(argument, _): &(&Argument, usize)| {
                    record.object != NONE && record.how == argument.how
                };
                let Some((argument, place)) = come.next_if(stands_for) else {
                    if record.object == NONE {
                        return Err("a library is not named any more".into());
                    }
                    self.removed.push(record.object);
                    continue;
                };
                if !is_once(argument) {
                    return Err(TWICE.into());
                }
                self.now[number] = place as u32;
            }
            for (argument, place) in come {
                if !is_once(argument) {
                    return Err(TWICE.into());
                }
                self.added.push(self.check_added(place)?);
            }
            if let Some(now) = self.now.get_mut(found) {
                *now = index as u32;
            }
            (from, to) = (found + 1, index + 1);
        }
        Ok(())
    }

    /// What comes must be an object that is linked in any case.
    fn check_added(&self, place: usize) -> Result<u32, Reason> {
        let input = &self.args.inputs[place];
        match &input.kind {
            InputKind::File(_) if input.state.lib.is_none() => Ok(place as u32),
            _ => Err("other libraries are named".into()),
        }
    }

    /// The path of an argument that is an object.
    pub fn added_path(&self, place: u32) -> Option<&'a Path> {
        match &self.args.inputs.get(place as usize)?.kind {
            InputKind::File(path) => Some(path),
            _ => None,
        }
    }

    /// Where an argument of the link before is now.
    pub fn place(&self, argument: u32) -> u32 {
        match self.now.is_empty() {
            true => argument,
            false => self.now.get(argument as usize).copied().unwrap_or(NONE),
        }
    }

    /// The path of an input.
    pub fn path_of<'p>(&'p self, state: &'p State, input: &InputRecord) -> &'p Path {
        let argument = self.args.inputs.get(self.place(input.argument) as usize);
        if let Some(InputKind::File(path)) = argument.map(|argument| &argument.kind) {
            return path;
        }
        Path::new(OsStr::from_bytes(state.text(input.path, input.path_len)))
    }
}

const TWICE: &str = "an input is named twice";

/// What an argument says.
struct Argument {
    /// All of it.
    key: NameKey,
    /// All but the name.
    how: u64,
}

/// How many arguments have a key.
fn count(arguments: &[Argument]) -> FxHashMap<NameKey, u32> {
    let mut counts = FxHashMap::default();
    for argument in arguments {
        *counts.entry(argument.key).or_insert(0) += 1;
    }
    counts
}

fn keys(args: &Args) -> Vec<Argument> {
    let mut bytes = Written(Vec::with_capacity(256));
    let arguments = args.inputs.iter().map(|input| key(input, &mut bytes));
    arguments.collect()
}

fn key(input: &InputArg, bytes: &mut Written) -> Argument {
    bytes.0.clear();
    let (kind, name) = match &input.kind {
        InputKind::File(path) => (0, path.as_os_str()),
        InputKind::Library(name) => (1, &**name),
        InputKind::LibraryFile(name) => (2, &**name),
        InputKind::JustSymbols(path) => (3, path.as_os_str()),
    };
    bytes.write_u8(kind);
    input.state.hash(bytes);
    let how = xxhash_rust::xxh3::xxh3_64(&bytes.0);
    bytes.write(name.as_bytes());
    Argument {
        key: key_of(&bytes.0),
        how,
    }
}

/// What the state says of the arguments. `objects` has, by argument, the input that is a linked object which only this argument
/// names.
pub(super) fn records(args: &Args, objects: &FxHashMap<u32, u32>) -> Vec<ArgumentRecord> {
    let record = |(place, argument): (u32, Argument)| ArgumentRecord {
        key: argument.key,
        how: argument.how,
        object: objects.get(&place).copied().unwrap_or(NONE),
        padding: 0,
    };
    (0..).zip(keys(args)).map(record).collect()
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
