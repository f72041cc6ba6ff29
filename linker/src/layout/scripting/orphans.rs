//! Output sections that the script does not describe ("Orphan Sections" in GNU ld's manual).
//!
//! "The linker attempts to place orphan sections after the last section of the same attribute": code after code, loaded
//! data after loaded data. As with GNU ld, each kind has a section that it would rather follow, if the script has one
//! of that name; several orphans of one kind stand in the order in which they came. An orphan stands behind the
//! assignments to symbols that follow the section, but before one to the location counter.

use super::kinds::{Content, Kind};
use super::plan::{Item, Plan};
use crate::elf::c;
use crate::elf::shf;
use crate::input::standard_sections::Group;
use crate::resolve::output_sections::{Outputs, STANDARD_COUNT};
use crate::script::Target;
use std::ops::Range;

/// The group of a section that holds this.
fn group_of(kind: &Kind) -> Group {
    // What is empty goes where it went if it were not.
    let sh_type = match kind.present {
        true => kind.section_type(),
        false => c::SHT_PROGBITS,
    };
    Group::of(sh_type, kind.flags, kind.bits || kind.empty_bits)
}

/// Whether an orphan of a group may follow a section that holds `other`; first the narrow meaning of "the same
/// attribute", then wider ones.
fn follows(group: Group, own: &Kind, other: &Kind, width: u32, same_type: bool) -> bool {
    const MASK: u64 = shf::ALLOC | shf::WRITE | shf::EXEC | shf::TLS;
    if !other.present || other.flags & shf::ALLOC == 0 {
        return false;
    }
    if same_type && own.section_type() != other.section_type() {
        return false;
    }
    let differ = (own.flags ^ other.flags) & MASK;
    let same_bits = own.bits == other.bits;
    match (width, group) {
        (0, _) => differ == 0 && same_bits,
        (1, Group::Text) => differ & !shf::WRITE == 0 && other.bits,
        (1, Group::Rodata | Group::LargeRodata | Group::Note | Group::Relocations) => {
            differ & !shf::EXEC == 0 && other.bits
        }
        (1, Group::ThreadData) => other.flags & shf::TLS != 0 || other.bits,
        (1, Group::Data | Group::LargeData) => other.bits && other.flags & shf::TLS == 0,
        // Data without bytes may follow anything.
        _ => true,
    }
}

/// The orphans of a group that have their place.
struct Placed {
    group: Group,
    /// The last one that is in the list.
    last: usize,
    /// Those that come right behind it. They are put there together: there may be tens of thousands.
    waiting: Vec<usize>,
}

/// Puts the orphans of these numbers into the plan's list.
pub(super) fn place(plan: &mut Plan, outputs: &Outputs, content: &Content, orphans: Range<usize>) {
    let mut placed: Vec<Placed> = Vec::new();
    // What the linker makes belongs to the first file, for GNU ld.
    let is_made = |orphan: usize| {
        content.rest[orphan]
            .iter()
            .all(|part| part.0 < STANDARD_COUNT)
    };
    let (made, given): (Vec<usize>, Vec<usize>) = orphans.partition(|orphan| is_made(*orphan));
    for orphan in made.into_iter().chain(given) {
        let kind = content.kinds[orphan];
        let group = group_of(&kind);
        if let Some(known) = placed.iter_mut().find(|known| known.group == group) {
            known.waiting.push(orphan);
            continue;
        }
        insert_waiting(plan, &mut placed);
        let name =
            |number: usize| &*outputs.sections[plan.descriptions[number].output.index()].name;
        let sections = plan
            .items
            .iter()
            .enumerate()
            .filter_map(|(at, item)| match item {
                Item::Section(number) => Some((at, *number)),
                _ => None,
            });
        let named = group
            .leader()
            .map(|leader| leader.row().name.as_bytes())
            .and_then(|leader| sections.clone().find(|(_, number)| name(*number) == leader));
        let like = [true, false].into_iter().find_map(|same_type| {
            (0..2).find_map(|width| {
                sections.clone().rfind(|(_, number)| {
                    follows(group, &kind, &content.kinds[*number], width, same_type)
                })
            })
        });
        let at = match group {
            Group::NotLoaded => None,
            _ => named.or(like).map(|(at, _)| behind(plan, content, at)),
        };
        let at = at.unwrap_or(match group {
            Group::NotLoaded => plan.items.len(),
            // Nothing is like it: before all others, as the list of sections begins.
            _ => behind_first_assignments(plan),
        });
        plan.items.insert(at, Item::Section(orphan));
        placed.push(Placed {
            group,
            last: orphan,
            waiting: Vec::new(),
        });
    }
    insert_waiting(plan, &mut placed);
}

/// Puts the orphans that wait into the list, each right behind the one before.
fn insert_waiting(plan: &mut Plan, placed: &mut [Placed]) {
    if placed.iter().all(|group| group.waiting.is_empty()) {
        return;
    }
    for item in std::mem::take(&mut plan.items) {
        let group = match item {
            Item::Section(number) => placed.iter_mut().find(|group| group.last == number),
            _ => None,
        };
        plan.items.push(item);
        if let Some(group) = group {
            group.last = group.waiting.last().copied().unwrap_or(group.last);
            plan.items
                .extend(group.waiting.drain(..).map(Item::Section));
        }
    }
}

/// The place behind the section at `at`, and behind the assignments that belong to it.
fn behind(plan: &Plan, content: &Content, at: usize) -> usize {
    let mut moves_dot = None;
    for (i, item) in plan.items.iter().enumerate().skip(at + 1) {
        match item {
            Item::Assign(assignment) => {
                if assignment.target == Target::Dot && moves_dot.is_none() {
                    moves_dot = Some(i);
                }
            }
            Item::Section(number) => {
                let kind = &content.kinds[*number];
                let loaded = !kind.present || kind.flags & shf::ALLOC != 0;
                return match moves_dot {
                    Some(before) if loaded => before,
                    _ => i,
                };
            }
            Item::Assert(_) | Item::EndOfOverlay => {}
        }
    }
    plan.items.len()
}

/// The place of what nothing in the script is like: before the first section, behind what sets the location counter.
fn behind_first_assignments(plan: &Plan) -> usize {
    plan.items
        .iter()
        .position(|item| matches!(item, Item::Section(_)))
        .unwrap_or(plan.items.len())
}
