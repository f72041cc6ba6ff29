//! Which objects are others than they were, among the inputs whose time stamps are.
//!
//! Much is written again and is as it was: what a build system copies, and the other members of an archive. It is told by
//! its contents. An archive may have got new members, or lost some that were not linked, as long as nobody would be linked
//! that was not: of that its index tells.

use super::command::{self, Command};
use super::drawn::{Drawn, Found};
use super::held::Held;
use super::imports::Import;
use super::inputs::list_members;
use super::interface;
use super::look::map;
use super::manifest::Changed;
use super::needs::NewNeeds;
use super::reason::Reason;
use super::spare;
use super::state::{
    ArgumentRecord, DAMAGED, FileRecord, InputRecord, MemberRecord, NONE, State, SymbolRecord,
    Table, content_key, fact, file, input,
};
use super::world::World;
use crate::base::key::rank;
use crate::elf::c;
use crate::input::stamp::{Moment, Stamp};
use crate::resolve::symbol_facts::Referred;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tickets::archive::Archive;

/// What has changed.
#[derive(Default)]
pub(super) struct Edited {
    /// The objects that are others now, by their numbers in the state.
    pub files: Vec<u32>,
    /// Objects that were not linked before. Their numbers follow those that the state has.
    pub added: Vec<Added>,
    /// Names of shared objects that are needed now.
    pub imports: Vec<Import>,
    /// What these need of shared objects that nobody has needed.
    pub needs: NewNeeds,
    /// Those of `files` that are linked no more.
    pub removed: Vec<u32>,
    /// The inputs that are not as the state says.
    inputs: Vec<InputEdit>,
    /// What the state is to say of the arguments, if that is something else.
    arguments: Vec<ArgumentRecord>,
    /// Which arguments the inputs are named by now: input and argument.
    moved: Vec<(u32, u32)>,
}

/// An object that was not linked before. Those that arguments name come first.
pub(super) struct Added {
    /// The file that it is in.
    path: PathBuf,
    from: From,
}

/// Why it is linked now.
enum From {
    /// An argument names it.
    Argument {
        argument: u32,
        stamp: Stamp,
        content: [u64; 2],
    },
    /// It has what is needed now.
    Archive(Drawn),
}

/// What an input is like now.
struct InputEdit {
    input: u32,
    stamp: Stamp,
    content: [u64; 2],
    /// Of an archive.
    members: Vec<MemberRecord>,
    /// Of a shared object whose interface is another.
    symbols: Vec<SymbolRecord>,
}

/// Looks at the inputs that have changed; `changed` are their numbers.
///
/// # Errors
/// If more may have changed than objects.
pub(super) fn look(
    state: &State,
    changed: &Changed,
    held: &Held,
    since: Moment,
) -> Result<Edited, Reason> {
    let inputs: &[InputRecord] = state.table(Table::Inputs);
    let command = &changed.command;
    let mut edited = Edited::default();
    for number in &changed.inputs {
        let record = inputs.get(*number as usize).ok_or(DAMAGED)?;
        let path = command.path_of(state, record);
        // What it is like is asked before it is read: what is written meanwhile is found by the next link.
        let stamp = Stamp::at(path).ok_or_else(|| gone(path))?.settled(since);
        let mapped = map(path)?;
        let bytes: &[u8] = mapped.as_ref().map_or(&[], |bytes| bytes);
        let mut edit = InputEdit {
            input: *number,
            stamp,
            content: [0; 2],
            members: Vec::new(),
            symbols: Vec::new(),
        };
        match record.kind {
            input::OBJECT => {
                edit.content = content_key(bytes);
                if edit.content != record.content {
                    if !bytes.starts_with(&c::ELFMAG) {
                        return Err(format!("{} is no object any more", path.display()).into());
                    }
                    edited.files.push(record.file);
                }
            }
            input::ARCHIVE => {
                let archive = Library {
                    state,
                    path,
                    may_be_whole: command
                        .args
                        .inputs
                        .iter()
                        .any(|input| input.state.whole_archive),
                    old: state.records(record.members[0], record.members[1]),
                };
                (edit.content, edit.members) = archive.look(bytes, record, &mut edited.files)?;
            }
            _ => {
                edit.content = interface::key(bytes);
                if edit.content != record.content {
                    let [at, count] = record.members;
                    let old = state.records(at, count);
                    let output = spare::map_output(state, held, &command.args.output)?;
                    edit.symbols = interface::compare(state, command, path, bytes, (old, &output))?;
                }
            }
        }
        edited.inputs.push(edit);
    }
    if command.is_other {
        edited.add(state, command, since)?;
    }
    let files: &[FileRecord] = state.table(Table::Files);
    match edited.files.iter().find(|file| !is_alone(files, **file)) {
        None => Ok(edited),
        Some(file) => {
            let input = files.get(*file as usize);
            let input = input.and_then(|file| inputs.get(file.input as usize));
            let path = input.map_or(Path::new("an object"), |input| {
                command.path_of(state, input)
            });
            let path = path.display();
            Err(format!("{path} has changed, and is linked in a way of its own").into())
        }
    }
}

impl Edited {
    /// Notes what the command line says that it did not say before.
    fn add(&mut self, state: &State, command: &Command, since: Moment) -> Result<(), Reason> {
        let inputs: &[InputRecord] = state.table(Table::Inputs);
        let mut objects: FxHashMap<u32, u32> = FxHashMap::default();
        for (number, input) in (0..).zip(inputs) {
            if input.argument != NONE && !command.removed.contains(&number) {
                let place = command.place(input.argument);
                objects.insert(place, number);
                if place != input.argument {
                    self.moved.push((number, place));
                }
            }
        }
        for number in &command.removed {
            let input = inputs.get(*number as usize).ok_or(DAMAGED)?;
            self.files.push(input.file);
            self.removed.push(input.file);
        }
        for argument in &command.added {
            let path = command.added_path(*argument).ok_or(DAMAGED)?;
            let stamp = Stamp::at(path).ok_or_else(|| gone(path))?.settled(since);
            let mapped = map(path)?;
            let bytes: &[u8] = mapped.as_ref().map_or(&[], |bytes| bytes);
            if !bytes.starts_with(&c::ELFMAG) {
                return Err(format!("{} is new, and no object", path.display()).into());
            }
            objects.insert(*argument, (inputs.len() + self.added.len()) as u32);
            self.added.push(Added {
                path: path.to_owned(),
                from: From::Argument {
                    argument: *argument,
                    stamp,
                    content: content_key(bytes),
                },
            });
        }
        self.arguments = command::records(command.args, &objects);
        Ok(())
    }

    /// Members of archives are linked from now on, and names imported.
    pub fn draw(&mut self, state: &State, command: &Command, found: Found) -> Result<(), Reason> {
        self.imports.extend(found.imports);
        self.needs.extend(found.needs);
        let inputs: &[InputRecord] = state.table(Table::Inputs);
        for drawn in &found.members {
            let input = inputs.get(drawn.input as usize).ok_or(DAMAGED)?;
            self.added.push(Added {
                path: command.path_of(state, input).to_owned(),
                from: From::Archive(*drawn),
            });
        }
        Ok(())
    }

    /// Whether a member of an archive is linked from now on.
    pub fn has_drawn(&self, drawn: Drawn) -> bool {
        let is_it = |added: &Added| matches!(added.from, From::Archive(known) if known == drawn);
        self.added.iter().any(is_it)
    }

    /// Whether a name is imported from now on.
    pub fn has_import(&self, name: &[u8]) -> bool {
        self.imports.iter().any(|import| import.name == name)
    }

    /// The members of an archive that is another one now.
    pub fn members(&self, input: u32) -> Option<&[MemberRecord]> {
        let edit = self.inputs.iter().find(|edit| edit.input == input)?;
        Some(&edit.members)
    }

    /// The numbers of the objects that were not linked before.
    pub fn new_files(&self, state: &State) -> Range<u32> {
        let files: &[FileRecord] = state.table(Table::Files);
        files.len() as u32..(files.len() + self.added.len()) as u32
    }

    /// What there is to say of an object that was not linked before, until it is linked.
    pub fn new_record(&self, state: &State, file: u32) -> Option<FileRecord> {
        let index = file.checked_sub(self.new_files(state).start)?;
        let inputs: &[InputRecord] = state.table(Table::Inputs);
        let bits = file::LINKED | file::ALONE | file::ADDED;
        Some(match &self.added.get(index as usize)?.from {
            From::Argument { .. } => FileRecord {
                bits,
                input: inputs.len() as u32 + index,
                ..FileRecord::default()
            },
            From::Archive(drawn) => FileRecord {
                bits: bits | if drawn.exclude { file::EXCLUDED } else { 0 },
                input: drawn.input,
                member: drawn.member,
                ..FileRecord::default()
            },
        })
    }

    /// The paths of all inputs that there are now, for who wants to [write them down](crate::report::dependency_file).
    pub fn inputs_by_path(&self, state: &State, command: &Command) -> Vec<PathBuf> {
        if command.args.dependency_file.is_none() {
            return Vec::new();
        }
        let inputs: &[InputRecord] = state.table(Table::Inputs);
        let is_there = |(number, record): &(u32, &InputRecord)| {
            record.kind != input::GONE && !command.removed.contains(number)
        };
        let known = (0..).zip(inputs).filter(is_there);
        let known = known.map(|(_, record)| command.path_of(state, record).to_owned());
        let added = self.added.iter().map(|added| added.path.clone());
        known.chain(added).collect()
    }

    /// The place of the argument that names an object which was not linked before.
    pub fn argument(&self, state: &State, file: u32) -> Option<u32> {
        let index = file.checked_sub(self.new_files(state).start)?;
        match self.added.get(index as usize)?.from {
            From::Argument { argument, .. } => Some(argument),
            From::Archive(_) => None,
        }
    }

    /// The path of an object that was not linked before.
    pub fn new_path(&self, state: &State, file: u32) -> Option<&Path> {
        let index = file.checked_sub(self.new_files(state).start)?;
        Some(&self.added.get(index as usize)?.path)
    }

    /// Which member of an archive that has changed an object is now, counted from 1.
    pub fn member(&self, file: u32) -> Option<u32> {
        let archives = self.inputs.iter().map(|edit| &edit.members);
        let mut members = archives.flat_map(|members| members.iter().zip(1..));
        let found = members.find(|(member, _)| member.file == file);
        found.map(|(_, number)| number)
    }

    /// Tells the state.
    pub fn apply(&self, state: &mut State) -> Option<()> {
        for edit in &self.inputs {
            let members = match (edit.members.len(), edit.symbols.len()) {
                (0, 0) => None,
                (0, symbols) => Some([state.add(&edit.symbols)?, symbols as u64]),
                (members, _) => Some([state.add(&edit.members)?, members as u64]),
            };
            let record = state.record_mut::<InputRecord>(Table::Inputs, edit.input as usize)?;
            (record.stamp, record.content) = (edit.stamp, edit.content);
            record.members = members.unwrap_or(record.members);
            for (member, number) in edit.members.iter().zip(1..) {
                if member.file != NONE {
                    state
                        .record_mut::<FileRecord>(Table::Files, member.file as usize)?
                        .member = number;
                }
            }
        }
        for import in &self.imports {
            let inputs: &[InputRecord] = state.table(Table::Inputs);
            let [at, count] = inputs.get(import.input as usize)?.members;
            let mut symbols: Vec<SymbolRecord> = state.records(at, count).to_vec();
            let known = symbols.binary_search_by_key(&import.symbol.key, |symbol| symbol.key);
            match known {
                Ok(_) => {}
                Err(place) => symbols.insert(place, import.symbol),
            }
            let members = [state.add(&symbols)?, symbols.len() as u64];
            let record = state.record_mut::<InputRecord>(Table::Inputs, import.input as usize)?;
            record.members = members;
        }
        self.apply_arguments(state)
    }

    fn apply_arguments(&self, state: &mut State) -> Option<()> {
        for file in &self.removed {
            let files: &[FileRecord] = state.table(Table::Files);
            let input = files.get(*file as usize)?.input;
            let record = state.record_mut::<InputRecord>(Table::Inputs, input as usize)?;
            (record.kind, record.argument) = (input::GONE, NONE);
        }
        for (input, argument) in &self.moved {
            let record = state.record_mut::<InputRecord>(Table::Inputs, *input as usize)?;
            record.argument = *argument;
        }
        if !self.arguments.is_empty() {
            state.replace_table(Table::Arguments, &self.arguments)?;
        }
        let files = self.new_files(state);
        let records: Option<Vec<FileRecord>> = files
            .clone()
            .map(|file| self.new_record(state, file))
            .collect();
        for ((file, record), added) in files.zip(records?).zip(&self.added) {
            match &added.from {
                From::Argument {
                    argument,
                    stamp,
                    content,
                } => {
                    let path = added.path.as_os_str().as_bytes();
                    let input = InputRecord {
                        path: state.add_text(path)?,
                        path_len: u32::try_from(path.len()).ok()?,
                        file,
                        stamp: *stamp,
                        members: [0; 2],
                        content: *content,
                        argument: *argument,
                        kind: input::OBJECT,
                    };
                    state.extend(Table::Inputs, &[input])?;
                }
                From::Archive(drawn) => {
                    let inputs: &[InputRecord] = state.table(Table::Inputs);
                    let archive = inputs.get(drawn.input as usize)?;
                    if archive.kind == input::ARCHIVE {
                        let before = u64::from(drawn.member - 1);
                        let at = archive.members[0] + before * size_of::<MemberRecord>() as u64;
                        let member = state.record_at::<MemberRecord>(at)?;
                        (member.file, member.content) = (file, drawn.content);
                    }
                }
            }
            state.extend(Table::Files, &[record])?;
        }
        Some(())
    }
}

/// Whether a file of this number can be linked again by itself.
pub(super) fn is_alone(files: &[FileRecord], number: u32) -> bool {
    let file = files.get(number as usize);
    file.is_some_and(|file| file.bits & file::ALONE != 0)
}

fn gone(path: &Path) -> Reason {
    format!("{} is gone", path.display()).into()
}

/// An archive that was written again.
struct Library<'l> {
    state: &'l State,
    path: &'l Path,
    /// Some archive is under `--whole-archive`.
    may_be_whole: bool,
    /// Its members, as they were.
    old: &'l [MemberRecord],
}

impl Library<'_> {
    /// Its members as they are now, and the key of its index. `edited` gets those of the linked ones that are others.
    fn look(
        &self,
        bytes: &[u8],
        record: &InputRecord,
        edited: &mut Vec<u32>,
    ) -> Result<([u64; 2], Vec<MemberRecord>), Reason> {
        let path = self.path.display();
        let mut old: FxHashMap<(u64, u32), usize> = FxHashMap::default();
        let mut count: FxHashMap<u64, u32> = FxHashMap::default();
        let mut occurrence = |name: u64| {
            let count = count.entry(name).or_insert(0);
            *count += 1;
            (name, *count)
        };
        for (index, member) in self.old.iter().enumerate() {
            old.insert(occurrence(member.name), index);
        }
        let mut count: FxHashMap<u64, u32> = FxHashMap::default();
        let (mut has_come, mut in_order, mut next) = (false, true, 0);
        let renamed = self.renamed(bytes);
        let known = |name: u64, _: &[u8], number: u32| {
            let count = count.entry(name).or_insert(0);
            *count += 1;
            let known = old.get(&(name, *count)).or_else(|| renamed.get(&number));
            has_come |= known.is_none();
            let known = *known?;
            in_order &= known >= next;
            next = known + 1;
            let member = self.old.get(known)?;
            (member.file != NONE).then_some(member.file)
        };
        let (names, members) =
            list_members(bytes, known).ok_or_else(|| format!("{path} has no index any more"))?;
        let linked = |members: &[MemberRecord]| -> Vec<u32> {
            let files = members.iter().map(|member| member.file);
            files.filter(|file| *file != NONE).collect()
        };
        if linked(self.old) != linked(&members) {
            return Err(format!("{path} has lost a member, or has them in another order").into());
        }
        // One that is not linked may define now what was a common block, of which the index says nothing.
        let has_commons = self.state.header().facts.bits & fact::COMMONS != 0;
        if has_come || !in_order || has_commons || names != record.content {
            self.check_index(bytes, &members)?;
        }
        let contents: FxHashMap<u32, [u64; 2]> = self
            .old
            .iter()
            .map(|member| (member.file, member.content))
            .collect();
        for member in members.iter().filter(|member| member.file != NONE) {
            if contents.get(&member.file) != Some(&member.content) {
                edited.push(member.file);
            }
        }
        Ok((names, members))
    }

    /// Which old member, counted from 0, a member is that has another name now, by its place, counted from 1: rustc gives its objects new names each
    /// time. These are the edited ones; who has kept its name is who it was.
    fn renamed(&self, bytes: &[u8]) -> FxHashMap<u32, usize> {
        let mut names = Vec::new();
        let note = |name, _: &[u8], _| {
            names.push(name);
            None
        };
        if list_members(bytes, note).is_none() || names.len() != self.old.len() {
            return FxHashMap::default();
        }
        let before: FxHashSet<u64> = self.old.iter().map(|member| member.name).collect();
        let now: FxHashSet<u64> = names.iter().copied().collect();
        let pairs = (1..).zip(0..).zip(names.iter().zip(self.old));
        pairs
            .filter(|(_, (name, old))| !before.contains(name) && !now.contains(&old.name))
            .map(|(places, _)| places)
            .collect()
    }

    /// Refuses an archive of which other members may be linked now: one that was not linked defines what the program needs,
    /// and before whoever defines it.
    fn check_index(&self, bytes: &[u8], members: &[MemberRecord]) -> Result<(), Reason> {
        let path = self.path.display();
        let unreadable = || Reason::from(format!("{path} cannot be read"));
        if self.may_be_whole && self.old.iter().all(|member| member.file != NONE) {
            // All of it may be wanted.
            return match members.iter().all(|member| member.file != NONE) {
                true => Ok(()),
                false => Err(format!("{path} has a new member").into()),
            };
        }
        let archive = Archive::parse(bytes).map_err(|_| unreadable())?;
        let mut at: FxHashMap<u64, usize> = FxHashMap::default();
        let mut of_file: FxHashMap<u32, usize> = FxHashMap::default();
        for (index, member) in archive.members().enumerate() {
            at.insert(member.map_err(|_| unreadable())?.header_offset, index);
        }
        for (index, member) in members.iter().enumerate() {
            of_file.insert(member.file, index);
        }
        let first = members.iter().map(|member| member.file).min();
        let first = first.unwrap_or(NONE);
        let world = World::new(self.state, false);
        for symbol in archive.symbols().into_iter().flatten() {
            let (name, offset) = symbol.map_err(|_| unreadable())?;
            let index = *at.get(&offset).ok_or_else(unreadable)?;
            let is_linked = members.get(index).is_some_and(|member| member.file != NONE);
            let Some((_, record)) = world.name(name).filter(|_| !is_linked) else {
                continue;
            };
            let is_before = first != NONE && record.definer < first
                || of_file
                    .get(&record.definer)
                    .is_some_and(|definer| *definer < index);
            let is_harmless = match record.definer {
                _ if u64::from(record.rank) == rank::COMMON => false,
                NONE => {
                    u64::from(record.rank) == rank::NONE && !record.facts.has(Referred::STRONGLY)
                }
                _ => is_before,
            };
            if !is_harmless {
                let name = String::from_utf8_lossy(name);
                return Err(
                    format!("a member of {path} that is not linked defines {name} now").into(),
                );
            }
        }
        Ok(())
    }
}
