//! The first step of an incremental link: the changed objects are opened, and their sections and names numbered as in any
//! link.

use super::state::{FileRecord, GroupRecord, InputRecord, Table, file, key_of};
use super::world::World;
use super::{Again, Reason, capture, manifest};
use crate::file::Files;
use crate::inputs::{self, InputArena, Known};
use crate::link::names::{self as link_names, Names};
use crate::object::Object;
use crate::output::Outputs;
use crate::resolve::{self, LostGroups};
use crate::sections::{SectionFacts, Sections, Unloaded};
use crate::symbols::SymbolTable;
use rustc_hash::{FxHashMap, FxHashSet};

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
    /// Groups that nobody had before.
    pub new_groups: Vec<GroupRecord>,
}

/// Reads the objects of which `records` tell.
///
/// # Errors
/// If one is not of the kind that it was.
pub(super) fn read<'a>(
    again: Again,
    arena: &'a InputArena,
    records: &[FileRecord],
) -> Result<Read<'a>, Reason> {
    let (args, diag) = (again.link.args, again.diag);
    let mut files = inputs::open_alone(arena, args, &known(again, records), diag);
    again.refuse()?;
    check_kinds(&files, records)?;
    let linked = vec![true; files.0.len()];
    let symbols = link_names::intern(args, &mut files, Names::All, diag)
        .map_err(|_| "a changed object is not like the others")?;
    if symbols.has_versions() {
        return Err("a changed object has versions of symbols".into());
    }
    let (lost, new_groups) = lose_groups(again.world, &files, &symbols, again.ids)?;
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
    check_facts(&files, &facts, records)?;
    resolve::discard_groups(&files, &lost, &sections, diag);
    resolve::define(&files, &symbols, &sections);
    Ok(Read {
        files,
        symbols,
        sections,
        facts,
        outputs,
        new_groups,
    })
}

/// Where the objects are.
fn known(again: Again, records: &[FileRecord]) -> Vec<Known> {
    let (state, args) = (again.state, again.link.args);
    let inputs: &[InputRecord] = state.table(Table::Inputs);
    let known = |record: &FileRecord| {
        let input = inputs.get(record.input as usize);
        let path = input.map(|input| manifest::path_of(state, args, input).to_owned());
        Known {
            path: path.unwrap_or_default(),
            member: (record.member as usize).checked_sub(1),
            exclude: record.bits & file::EXCLUDED != 0,
        }
    };
    records.iter().map(known).collect()
}

/// Each must be an object, as it was.
fn check_kinds(files: &Files, records: &[FileRecord]) -> Result<(), Reason> {
    if files.0.len() != records.len() + 1 {
        return Err("a changed object is none any more".into());
    }
    for (_, file) in files.iter().skip(1) {
        match file.object() {
            Some(Object::Elf(elf)) if elf.intermediate => {
                return Err(format!("{file} holds intermediate code").into());
            }
            Some(_) => {}
            None => return Err(format!("{file} is no object any more").into()),
        }
    }
    Ok(())
}

/// Of the groups of the files those lose that are linked of another file. One that nobody had, or that its file has not any more,
/// is the first file's. With them come those that are another's now.
fn lose_groups<'a>(
    world: &World,
    files: &Files<'a>,
    symbols: &SymbolTable<'a>,
    ids: &[u32],
) -> Result<(LostGroups, Vec<GroupRecord>), Reason> {
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
    for (of_file, id) in all.iter().zip(ids) {
        let is_lost = |(text, index): &(&'a [u8], u32)| {
            let known = world.owner(text);
            let known =
                known.filter(|owner| !ids.contains(owner) || there.contains(&(text, *owner)));
            let owner = known.unwrap_or_else(|| *new.entry(text).or_insert(*id));
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
    Ok((LostGroups::known(lost), new))
}

/// What is said beside the sections must be as it was.
fn check_facts(files: &Files, facts: &SectionFacts, records: &[FileRecord]) -> Result<(), Reason> {
    if !facts.warnings.is_empty() || !facts.link_order.is_empty() || !facts.sframes.is_empty() {
        return Err("a changed object has sections that only a full link places".into());
    }
    for (own, record) in files.ids().skip(1).zip(records) {
        let executable = facts.executable_stack.contains(&own);
        let notes = facts.properties.iter().find(|(id, _)| *id == own);
        let notes = notes.map_or([0; 2], |(_, notes)| {
            capture::notes_digest(Some(files.object(own)), notes)
        });
        if executable != (record.bits & file::EXECUTABLE_STACK != 0) || notes != record.notes {
            return Err(format!("{} has other properties", files.get(own)).into());
        }
    }
    Ok(())
}
