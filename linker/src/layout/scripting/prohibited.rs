//! `NOCROSSREFS`: output sections that must not refer to each other, because they are never in memory together
//! ("Miscellaneous Commands" and "Overlay Description" in GNU ld's manual).

use crate::base::ids::{FileId, OutputId, PartId, SectionId};
use crate::input::object::{Object, Referent};
use crate::input::parts::{Fixup, Target};
use crate::input::scripts::Scripts;
use crate::layout::address_map::Places;
use crate::messages::diag::Diagnostics;
use crate::resolve::input_sections::state;
use crate::resolve::output_sections::STANDARD_COUNT;
use crate::script::{Command, SectionsCommand};
use rayon::prelude::*;

/// Output sections between which there shall be no references.
struct Prohibition {
    /// By [`OutputId`]: it is one of them.
    members: Vec<bool>,
    /// `NOCROSSREFS_TO`: only references to this one count.
    to: Option<OutputId>,
}

impl Prohibition {
    fn new(places: &Places, names: &[&[u8]], only_to_first: bool) -> Prohibition {
        let sections = &places.outputs.sections;
        // In a layout by a script, the standard sections are not those that it names.
        let first = match places.outputs.rules {
            Some(_) => STANDARD_COUNT as usize,
            None => 0,
        };
        let of_name = |name: &[u8]| {
            let found = sections[first..]
                .iter()
                .position(|section| *section.name == *name)?;
            Some(OutputId((first + found) as u32))
        };
        let mut members = vec![false; sections.len()];
        for id in names.iter().filter_map(|name| of_name(name)) {
            members[id.index()] = true;
        }
        Prohibition {
            members,
            // A first section that does not exist is referred to by nobody.
            to: only_to_first.then(|| {
                let first = names.first().and_then(|name| of_name(name));
                first.unwrap_or(OutputId(u32::MAX))
            }),
        }
    }

    fn concerns(&self, from: OutputId, to: OutputId) -> bool {
        let is_member = |id: OutputId| self.members.get(id.index()).copied().unwrap_or(false);
        from != to && is_member(from) && is_member(to) && self.to.is_none_or(|only| only == to)
    }
}

/// Reports references that the scripts prohibit.
pub fn report(scripts: &Scripts, places: &Places, diag: &Diagnostics) {
    let prohibitions = prohibitions(scripts, places);
    if prohibitions.is_empty() {
        return;
    }
    (0..places.sections.count() as u32)
        .into_par_iter()
        .map(SectionId)
        .for_each(|id| report_section(&prohibitions, places, id, diag));
}

fn prohibitions(scripts: &Scripts, places: &Places) -> Vec<Prohibition> {
    fn slices(names: &[Vec<u8>]) -> Vec<&[u8]> {
        names.iter().map(Vec::as_slice).collect()
    }
    let mut found = Vec::new();
    for command in &scripts.script.commands {
        match command {
            Command::NoCrossRefs(names, _) => {
                found.push(Prohibition::new(places, &slices(names), false));
            }
            Command::NoCrossRefsTo(names, _) => {
                found.push(Prohibition::new(places, &slices(names), true));
            }
            Command::Sections(commands) => {
                for command in commands {
                    if let SectionsCommand::Overlay(overlay) = command
                        && overlay.no_cross_refs
                    {
                        let names: Vec<&[u8]> = overlay
                            .sections
                            .iter()
                            .map(|section| &section.name[..])
                            .collect();
                        found.push(Prohibition::new(places, &names, false));
                    }
                }
            }
            _ => {}
        }
    }
    found
}

fn report_section(
    prohibitions: &[Prohibition],
    places: &Places,
    id: SectionId,
    diag: &Diagnostics,
) {
    let sections = places.sections;
    let relocations = sections.relocations[id.index()];
    if relocations == 0 || sections.state(id) & state::ALIVE == 0 {
        return;
    }
    let Some(from) = output_of_section(places, id) else {
        return;
    };
    if !prohibitions.iter().any(|one| one.members[from.index()]) {
        return;
    }
    let input = sections.at(places.files, id);
    let (file, object) = (input.file, input.object);
    input.fixups().for_each(|fixup| {
        let Some(to) = output_of_target(places, file, object, &fixup) else {
            return;
        };
        if prohibitions.iter().any(|one| one.concerns(from, to)) {
            let show = |id: OutputId| {
                String::from_utf8_lossy(&places.outputs.sections[id.index()].name).into_owned()
            };
            let section = input.header().map_or(&b""[..], |section| section.name);
            let target = match fixup.target {
                Target::Symbol(index) => object.symbol_name(index),
                Target::Section(_) | Target::Piece(_) => b"",
            };
            let target = match target {
                b"" => "a local symbol".to_owned(),
                name => format!("`{}'", diag.show_name(name)),
            };
            diag.error(format!(
                "{}:({}+{:#x}): prohibited cross reference from {} to {target} in {}",
                places.files.get(file),
                String::from_utf8_lossy(section),
                fixup.offset,
                show(from),
                show(to)
            ));
        }
    });
}

fn output_of_section(places: &Places, id: SectionId) -> Option<OutputId> {
    let part = places.sections.part[id.index()];
    (part != PartId::NONE).then(|| places.outputs.parts[part.index()].output)
}

/// The output section that a fixup's target is in.
fn output_of_target(
    places: &Places,
    file: FileId,
    object: &Object,
    fixup: &Fixup,
) -> Option<OutputId> {
    match object.referent(fixup.target) {
        Referent::Place { section, .. } => {
            output_of_section(places, places.sections.get(file, section)?)
        }
        Referent::Piece(piece) => {
            let part = places.piece_part(piece)?;
            Some(places.outputs.parts[part.index()].output)
        }
        Referent::Global(index) => {
            let symbol = places.symbols.of(places.files.get(file), index);
            let key = places.symbols.key(symbol);
            places
                .output_of(symbol, key)
                .or_else(|| places.assigned_output(key))
        }
        Referent::Absolute { .. } | Referent::Null | Referent::Missing(_) => None,
    }
}
