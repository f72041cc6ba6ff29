//! Which objects are others than they were, among the inputs whose time stamps are.
//!
//! Much is written again and is as it was: what a build system copies, and the other members of an archive. It is told by
//! its contents. An archive may have got new members, or lost some that were not linked, as long as nobody would be linked
//! that was not: of that its index tells.

use super::inputs::list_members;
use super::state::{
    DAMAGED, FileRecord, InputRecord, MemberRecord, NONE, State, Table, content_key, file, input,
};
use super::world::World;
use super::{Reason, manifest};
use crate::args::Args;
use crate::elf::c;
use crate::stamp::{Moment, Stamp};
use crate::symbols::{flag, rank};
use memmap2::Mmap;
use rustc_hash::FxHashMap;
use std::path::Path;
use store::guard::Guarded;
use tickets::archive::Archive;

/// What has changed.
#[derive(Default)]
pub(super) struct Edited {
    /// The objects that are others now, by their numbers in the state.
    pub files: Vec<u32>,
    /// The inputs that are not as the state says.
    inputs: Vec<InputEdit>,
}

/// What an input is like now.
struct InputEdit {
    input: u32,
    stamp: Stamp,
    content: [u64; 2],
    /// Of an archive.
    members: Vec<MemberRecord>,
}

/// Looks at the inputs that have changed; `changed` are their numbers.
///
/// # Errors
/// If more may have changed than objects.
pub(super) fn look(
    state: &State,
    args: &Args,
    changed: &[u32],
    since: Moment,
) -> Result<Edited, Reason> {
    let inputs: &[InputRecord] = state.table(Table::Inputs);
    let mut edited = Edited {
        files: Vec::new(),
        inputs: Vec::new(),
    };
    for number in changed {
        let record = inputs.get(*number as usize).ok_or(DAMAGED)?;
        let path = manifest::path_of(state, args, record);
        // What it is like is asked before it is read: what is written meanwhile is found by the next link.
        let stamp = Stamp::at(path).ok_or_else(|| gone(path))?.settled(since);
        let bytes = map(path)?;
        let mut edit = InputEdit {
            input: *number,
            stamp,
            content: [0; 2],
            members: Vec::new(),
        };
        match record.kind {
            input::OBJECT => {
                edit.content = content_key(&bytes);
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
                    may_be_whole: args.inputs.iter().any(|input| input.state.whole_archive),
                    old: state.records(record.members[0], record.members[1]),
                };
                (edit.content, edit.members) = archive.look(&bytes, record, &mut edited.files)?;
            }
            _ => {
                edit.content = content_key(&bytes);
                if edit.content != record.content {
                    return Err(format!("{} has changed", path.display()).into());
                }
            }
        }
        edited.inputs.push(edit);
    }
    let files: &[FileRecord] = state.table(Table::Files);
    match edited.files.iter().find(|file| !is_alone(files, **file)) {
        None => Ok(edited),
        Some(file) => {
            let input = files.get(*file as usize);
            let input = input.and_then(|file| inputs.get(file.input as usize));
            let path = input.map_or(Path::new("an object"), |input| {
                manifest::path_of(state, args, input)
            });
            let path = path.display();
            Err(format!("{path} has changed, and is linked in a way of its own").into())
        }
    }
}

impl Edited {
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
            let members = match edit.members.is_empty() {
                true => None,
                false => Some([state.add(&edit.members)?, edit.members.len() as u64]),
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

fn map(path: &Path) -> Result<Guarded<Mmap>, Reason> {
    let file = std::fs::File::open(path).map_err(|_| gone(path))?;
    // SAFETY: as with all inputs: who writes to them while they are linked gets what he deserves.
    let map = unsafe { Mmap::map(&file) };
    let map = map.map_err(|why| Reason::from(format!("cannot read {}: {why}", path.display())))?;
    Ok(Guarded::new(map, path))
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
        let mut old: FxHashMap<(u64, u32), &MemberRecord> = FxHashMap::default();
        let mut count: FxHashMap<u64, u32> = FxHashMap::default();
        let mut occurrence = |name: u64| {
            let count = count.entry(name).or_insert(0);
            *count += 1;
            (name, *count)
        };
        for member in self.old {
            old.insert(occurrence(member.name), member);
        }
        let mut count: FxHashMap<u64, u32> = FxHashMap::default();
        let mut has_come = false;
        let known = |name: u64, _: &[u8], _: u32| {
            let count = count.entry(name).or_insert(0);
            *count += 1;
            let known = old.get(&(name, *count));
            has_come |= known.is_none();
            known.map(|known| known.file).filter(|file| *file != NONE)
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
        if has_come || names != record.content {
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
        let world = World::new(self.state);
        for symbol in archive.symbols().into_iter().flatten() {
            let (name, offset) = symbol.map_err(|_| unreadable())?;
            let index = *at.get(&offset).ok_or_else(unreadable)?;
            let is_linked = members.get(index).is_some_and(|member| member.file != NONE);
            let Some((_, record)) = world.name(name).filter(|_| !is_linked) else {
                continue;
            };
            let is_before = record.definer < first
                || of_file
                    .get(&record.definer)
                    .is_some_and(|definer| *definer < index);
            let is_harmless = match record.definer {
                NONE => {
                    u64::from(record.rank) == rank::NONE
                        && record.flags & flag::REFERENCED_STRONGLY == 0
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
