//! The first step of an incremental link: the changed objects are opened, and their sections and names numbered as in any
//! link.

use super::again::Again;
use super::capture;
use super::names::is_ordered;
use super::reason::Reason;
use super::state::{FileRecord, GroupRecord, InputRecord, Table, file, key_of};
use super::world::World;
use crate::input::file::Files;
use crate::input::open::{self, InputArena, Known};
use crate::link::names::{self as link_names, Names};
use crate::resolve::input_sections::{SectionFacts, Sections, Unloaded};
use crate::resolve::output_sections::Outputs;
use crate::resolve::resolution::{self, LostGroups};
use crate::resolve::symbol_table::SymbolTable;
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::Path;

/// The objects that are linked again.
pub(super) struct Read<'a> {
    /// They, behind the linker itself.
    pub files: Files<'a>,
    /// Their symbols, with the definitions that are theirs.
    pub symbols: SymbolTable<'a>,
    /// Their sections.
    pub sections: Sections,
    /// What was seen when these were numbered.
    pub facts: SectionFacts,
    /// The output sections that they ask for, without addresses.
    pub outputs: Outputs<'a>,
    /// Groups that nobody had before, or a later file.
    pub new_groups: Vec<GroupRecord>,
    /// Later files that have groups which a file has now, and lose them therefore: they are to be linked again, too.
    pub losers: Vec<u32>,
}

/// Reads the objects of which `records` tell.
///
/// # Errors
/// If one is not of the kind that it was.
pub(super) fn read<'a>(
    again: Again,
    arena: &'a InputArena,
    records: &mut [FileRecord],
) -> Result<Read<'a>, Reason> {
    let (args, diag) = (again.link.args, again.diag);
    let mut files = open::open_alone(arena, args, &known(again, again.ids, records), diag);
    again.refuse()?;
    check_kinds(&files, records)?;
    let linked = vec![true; files.0.len()];
    let symbols = link_names::intern(args, &mut files, Names::All, diag)
        .map_err(|_| "a changed object is not like the others")?;
    if symbols.has_versions() {
        return Err("a changed object has versions of symbols".into());
    }
    let (lost, new_groups, losers) = lose_groups(again.world, &files, &symbols, again.ids)?;
    link_names::complete(&mut files, &linked, &lost, diag);
    let mut outputs = Outputs::default();
    if args.z.rodynamic {
        outputs.make_dynamic_read_only();
    }
    let unloaded = Unloaded::from_args(args);
    let (mut sections, facts) =
        Sections::build(&files, &linked, unloaded, None, &mut outputs, diag);
    if args.z.keep_text_section_prefix {
        sections.keep_text_prefixes(&files, &mut outputs);
    }
    again.refuse()?;
    check_facts(again, &files, &facts, records)?;
    resolution::discard_groups(&files, &lost, &sections, diag);
    resolution::define(&files, &symbols, &sections);
    Ok(Read {
        files,
        symbols,
        sections,
        facts,
        outputs,
        new_groups,
        losers,
    })
}

/// Where the objects of these numbers are, of which `records` tell.
pub(super) fn known(again: Again, ids: &[u32], records: &[FileRecord]) -> Vec<Known> {
    let state = again.state;
    let inputs: &[InputRecord] = state.table(Table::Inputs);
    let known = |(id, record): (&u32, &FileRecord)| {
        let input = inputs.get(record.input as usize);
        let path = match again.edited.new_path(state, *id) {
            Some(path) => Some(path),
            None => input.map(|input| again.command.path_of(state, input)),
        };
        Known {
            path: path.unwrap_or(Path::new("")).to_owned(),
            member: (record.member as usize).checked_sub(1),
            exclude: record.bits & file::EXCLUDED != 0,
            is_gone: again.edited.removed.contains(id),
        }
    };
    ids.iter().zip(records).map(known).collect()
}

/// Each must be an object, as it was.
fn check_kinds(files: &Files, records: &[FileRecord]) -> Result<(), Reason> {
    if files.0.len() != records.len() + 1 {
        return Err("a changed object is none any more".into());
    }
    for (_, file) in files.iter().skip(1) {
        match file.object() {
            Some(object) if object.intermediate_code().is_some() => {
                return Err(format!("{file} holds intermediate code").into());
            }
            Some(_) => {}
            None => return Err(format!("{file} is no object any more").into()),
        }
    }
    Ok(())
}

/// Of the groups of the files those lose that are linked of another file. One that nobody had, or that its file has not any more, or a later one
/// had, is the first file's. With them come those that are another's now, and the later files that are not among these.
fn lose_groups<'a>(
    world: &World,
    files: &Files<'a>,
    symbols: &SymbolTable<'a>,
    ids: &[u32],
) -> Result<(LostGroups, Vec<GroupRecord>, Vec<u32>), Reason> {
    let mut all: Vec<Vec<(&[u8], u32)>> = Vec::new();
    let mut there: FxHashSet<(&[u8], u32)> = FxHashSet::default();
    for (own, id) in files.ids().skip(1).zip(ids) {
        let groups = files.object(own).groups();
        let groups = groups.map_err(|why| Reason::from(why.to_string()))?;
        let mut of_file = Vec::new();
        for group in groups.into_iter().filter(|group| group.comdat) {
            let text = capture::signature(files, symbols, own, group.signature)
                .ok_or("a group has no signature")?;
            there.insert((text, *id));
            of_file.push((text, group.index));
        }
        all.push(of_file);
    }
    let mut lost = vec![Vec::new()];
    let mut new: FxHashMap<&[u8], u32> = FxHashMap::default();
    let mut losers: Vec<u32> = Vec::new();
    let records: &[FileRecord] = world.state.table(Table::Files);
    for (of_file, id) in all.iter().zip(ids) {
        let is_lost = |(text, index): &(&'a [u8], u32)| {
            let is_here = |owner: &u32| ids.binary_search(owner).is_ok();
            let known = world.owner(text);
            let known = known.filter(|owner| !is_here(owner) || there.contains(&(text, *owner)));
            let is_first = |owner: &u32| *id < *owner && is_ordered(records, &[*id, *owner]);
            let known = match known.filter(is_first) {
                Some(later) if is_here(&later) => None,
                Some(later) => {
                    losers.push(later);
                    known
                }
                None => known,
            };
            let owner = match new.get(text) {
                Some(owner) => *owner,
                None => known.unwrap_or_else(|| *new.entry(text).or_insert(*id)),
            };
            (owner != *id).then_some(*index)
        };
        lost.push(of_file.iter().filter_map(is_lost).collect());
    }
    let record = |(text, owner): (&[u8], u32)| GroupRecord {
        key: key_of(text),
        owner,
        padding: 0,
    };
    let new = new.into_iter().map(record).collect();
    losers.sort_unstable();
    losers.dedup();
    Ok((LostGroups::known(lost), new, losers))
}

/// What is said beside the sections must be as it was; of a new file, as of some other one. Notes what is said of new ones.
fn check_facts(
    again: Again,
    files: &Files,
    facts: &SectionFacts,
    records: &mut [FileRecord],
) -> Result<(), Reason> {
    if !facts.warnings.is_empty() || !facts.link_order.is_empty() || !facts.sframes.is_empty() {
        return Err("a changed object has sections that only a full link places".into());
    }
    let new = again.edited.new_files(again.state);
    for ((own, id), record) in files.ids().skip(1).zip(again.ids).zip(records) {
        let is_executable = facts.executable_stack.contains(&own);
        let notes = facts.properties.iter().find(|(id, _)| *id == own);
        let notes = notes.map_or([0; 2], |(_, notes)| {
            capture::notes_digest(Some(files.object(own)), notes)
        });
        let said = [
            (is_executable, file::EXECUTABLE_STACK),
            (files.object(own).is_ticket(), file::TICKET),
        ];
        let is_as_before = match new.contains(id) {
            // Others say what it said.
            _ if again.edited.removed.contains(id) => is_said(again, record),
            true if is_executable => {
                return Err("a new object asks for an executable stack".into());
            }
            true => {
                record.notes = notes;
                record.bits |= said
                    .iter()
                    .filter(|(is, _)| *is)
                    .map(|(_, bit)| bit)
                    .sum::<u32>();
                is_said(again, record)
            }
            false => {
                is_executable == (record.bits & file::EXECUTABLE_STACK != 0)
                    && notes == record.notes
            }
        };
        if !is_as_before {
            return Err(format!("{} has other properties", files.get(own)).into());
        }
    }
    Ok(())
}

/// Whether a file that stays says the same of itself, so that one more or less that does changes nothing.
fn is_said(again: Again, new: &FileRecord) -> bool {
    let said = file::LINKED | file::EXECUTABLE_STACK;
    let files: &[FileRecord] = again.state.table(Table::Files);
    let says = |(id, known): (u32, &FileRecord)| {
        known.bits & said == new.bits & said
            && known.notes == new.notes
            && !again.edited.removed.contains(&id)
    };
    (0..).zip(files).any(says)
}
