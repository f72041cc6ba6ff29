//! What is in the output sections that a script describes, before they have addresses.
//!
//! Each rule has a part for its plain sections, in the rule's order, one for each kind of mergeable pieces, and those
//! parts that the linker makes and that have the name of an input section (`.got`, `.dynsym`, `COMMON`). What no rule
//! takes goes to the output section of its name, which may be an orphan.

use super::kinds::{Content, Input, Kind};
use super::orphans;
use super::plan::{Description, Item, Plan, Statement};
use crate::args::{Args, OrphanHandling};
use crate::base::ids::{OutputId, PartId, SectionId};
use crate::elf::c;
use crate::elf::shf;
use crate::input::file::Files;
use crate::input::standard_sections::{BESIDE, std_of};
use crate::messages::diag::Diagnostics;
use crate::resolve::input_sections::{SectionRef, Sections, state};
use crate::resolve::output_sections::{Outputs, STANDARD_COUNT, Std};
use crate::resolve::section_rules::{FileNames, Route, Rules};
use rustc_hash::FxHashMap;

/// What the linker makes: the part, the names that rules know it by, and the section that it is in if no rule takes it.
struct MadePart {
    part: PartId,
    std: Std,
    names: &'static [&'static str],
    /// The size of an entry.
    entsize: u64,
    /// May be left out: nothing but the program's own wish is at stake.
    optional: bool,
}

/// All that the linker may make. Common blocks are those that no rule takes.
fn made_parts(dynamic: bool) -> impl Iterator<Item = MadePart> {
    let sections = Std::ALL.iter().filter_map(move |std| {
        std.row().made.map(|made| MadePart {
            part: std.part(),
            std: *std,
            names: std.made_names(dynamic),
            entsize: made.entsize,
            optional: made.optional,
        })
    });
    let beside = BESIDE.iter().filter_map(|(part, names)| {
        Some(MadePart {
            part: *part,
            std: std_of(*part)?,
            names,
            entsize: 0,
            optional: false,
        })
    });
    sections.chain(beside)
}

/// What is laid out.
#[derive(Clone, Copy)]
pub struct Subject<'l, 'a> {
    /// The options.
    pub args: &'l Args,
    /// The inputs.
    pub files: &'l Files<'a>,
    /// Their sections.
    pub sections: &'l Sections,
    /// Whether the output has a dynamic section.
    pub dynamic: bool,
    /// Sections with `SHF_LINK_ORDER`, each with the one that it is about.
    pub link_order: &'l [(SectionId, SectionId)],
    /// For messages.
    pub diag: &'l Diagnostics,
}

/// Finds out what is in each description, and adds orphans to the plan. `made` are sizes and alignments of what the
/// linker makes, by part.
pub(super) fn gather<'a>(
    plan: &mut Plan,
    subject: Subject<'_, 'a>,
    outputs: &mut Outputs<'a>,
    made: &mut Vec<(u64, u64)>,
) -> Content {
    let Subject { dynamic, diag, .. } = subject;
    let rules = outputs.rules.clone().unwrap_or_default();
    made.resize(outputs.parts.len(), (0, 1));
    let mut facts: Vec<Option<(u32, u64, u64)>> = vec![None; outputs.parts.len()];
    let mut rule_of_made: Vec<Option<u32>> = vec![None; outputs.parts.len()];
    for part in made_parts(dynamic) {
        // The size of `.dynamic` comes later.
        if part.part == Std::Dynamic.part() && dynamic {
            made[part.part.index()] = (16, 8);
        }
        if made[part.part.index()].0 == 0 {
            continue;
        }
        let row = part.std.row();
        let route = part
            .names
            .iter()
            .map(|name| rules.route(FileNames::NONE, name.as_bytes(), row.flags))
            .find(|route| *route != Route::Orphan)
            .unwrap_or(Route::Orphan);
        let output = match route {
            Route::Rule { rule, .. } => {
                rule_of_made[part.part.index()] = Some(rule);
                rules.rules[rule as usize].output
            }
            Route::Discard if part.optional => {
                made[part.part.index()].0 = 0;
                continue;
            }
            Route::Discard if !rules.discard_orphans => {
                diag.error(format!(
                    "the linker script discards {}, which this link needs",
                    part.names.first().unwrap_or(&row.name)
                ));
                continue;
            }
            Route::Discard | Route::Orphan => named_output(outputs, row.name.as_bytes()),
        };
        outputs.parts[part.part.index()].output = output;
        facts[part.part.index()] = Some((row.sh_type, outputs.std(part.std).flags, part.entsize));
    }

    // Orphans are described by their names only.
    let described = plan.descriptions.len();
    for number in described..outputs.sections.len() - STANDARD_COUNT as usize {
        plan.descriptions.push(Description {
            output: OutputId(STANDARD_COUNT + number as u32),
            script: None,
            statements: Vec::new(),
            overlay: None,
            overlay_script: None,
        });
    }
    let mut content = Content {
        of_rule: vec![Vec::new(); rules.rules.len()],
        rest: vec![Vec::new(); plan.descriptions.len()],
        inputs: (0..outputs.parts.len()).map(|_| Vec::new()).collect(),
        kinds: vec![Kind::default(); plan.descriptions.len()],
        thread_storage: None,
    };
    for i in 0..outputs.parts.len() {
        let part = &outputs.parts[i];
        let Some(description) = part.output.index().checked_sub(STANDARD_COUNT as usize) else {
            continue;
        };
        let id = PartId(i as u32);
        match part.rule.or(rule_of_made[i]) {
            Some(rule) => content.of_rule[rule as usize].push(id),
            None => content.rest[description].push(id),
        }
        let kind = &mut content.kinds[description];
        if let Some(tls) = part.commons {
            let flags = shf::ALLOC | shf::WRITE | if tls { shf::TLS } else { 0 };
            kind.entsize = 0;
            kind.add(c::SHT_NOBITS, flags, made[i].1);
        } else if let Some((sh_type, flags, entsize)) = facts[i] {
            kind.entsize = if kind.present { 0 } else { entsize };
            kind.add(sh_type, flags, made[i].1);
        } else if part.merge.is_some() && made[i].0 > 0 {
            kind.entsize = 0;
            kind.pieces = part.merge.map(|merge| (merge, made[i].0));
            let flags = outputs.sections[part.output.index()].flags;
            kind.add(c::SHT_PROGBITS, flags, made[i].1);
        }
    }
    // As in sections of the default layout: copies come first, merged pieces behind what is in one piece, and common blocks
    // behind what has a section.
    for parts in content.of_rule.iter_mut().chain(&mut content.rest) {
        parts.sort_by_key(|part| outputs.parts[part.index()].order);
    }
    collect_inputs(subject, outputs, &rules, &mut content);
    let orphans = described..plan.descriptions.len();
    orphans::place(plan, outputs, &content, orphans);
    align_thread_storage(plan, &mut content);
    order_linked(plan, subject.link_order, &mut content);
    content
}

/// Brings what is about other sections (`SHF_LINK_ORDER`) into their order, behind what is not: within what one rule takes,
/// as with GNU ld.
fn order_linked(plan: &Plan, link_order: &[(SectionId, SectionId)], content: &mut Content) {
    let about = |id: SectionId| {
        let found = link_order.binary_search_by_key(&id, |(section, _)| *section);
        found.ok().map(|found| link_order[found].1)
    };
    if link_order.is_empty() {
        return;
    }
    let mut place: FxHashMap<SectionId, usize> = FxHashMap::default();
    for item in &plan.items {
        let Item::Section(number) = item else {
            continue;
        };
        let rules = plan.descriptions[*number].statements.iter();
        let of_rules = rules.filter_map(|statement| match statement {
            Statement::Rule(rule) => content.of_rule.get(*rule),
            _ => None,
        });
        let parts = of_rules.chain([&content.rest[*number]]).flatten();
        for input in parts.flat_map(|part| &content.inputs[part.index()]) {
            place.insert(input.id, place.len());
        }
    }
    for inputs in &mut content.inputs {
        if inputs.iter().any(|input| about(input.id).is_some()) {
            // What is not in the output by itself comes first, as what is about nothing does.
            inputs.sort_by_key(|input| about(input.id).and_then(|about| place.get(&about)));
        }
    }
}

/// The image of thread-local storage begins at its largest alignment: finds out which section that is about.
fn align_thread_storage(plan: &Plan, content: &mut Content) {
    let is_thread_local = |kind: &Kind| kind.present && kind.flags & shf::TLS != 0;
    let mut kinds = content.kinds.iter().filter(|kind| is_thread_local(kind));
    let Some(largest) = kinds
        .next()
        .map(|first| kinds.fold(first.align, |largest, kind| largest.max(kind.align)))
    else {
        return;
    };
    let first = plan.items.iter().find_map(|item| match item {
        Item::Section(number) if is_thread_local(&content.kinds[*number]) => Some(*number),
        _ => None,
    });
    content.thread_storage = first.map(|first| (first, largest));
}

/// The output section of a name, made if there is none.
fn named_output(outputs: &mut Outputs, name: &'static [u8]) -> OutputId {
    let found = outputs
        .sections
        .iter()
        .skip(STANDARD_COUNT as usize)
        .position(|section| *section.name == *name);
    match found {
        Some(i) => OutputId(STANDARD_COUNT + i as u32),
        None => outputs.add(name.into()),
    }
}

/// Enters each live input section where it goes.
fn collect_inputs(subject: Subject, outputs: &Outputs, rules: &Rules, content: &mut Content) {
    let Subject {
        files, sections, ..
    } = subject;
    for (i, part) in sections.part.iter().enumerate() {
        let id = SectionId(i as u32);
        if *part == PartId::NONE || sections.state(id) & state::ALIVE == 0 {
            continue;
        }
        let info = &outputs.parts[part.index()];
        let input = sections.at(files, id);
        let Some(section) = input.header() else {
            continue;
        };
        let Some(description) = info.output.index().checked_sub(STANDARD_COUNT as usize) else {
            continue;
        };
        if info.rule.is_none() && section.size > 0 {
            let output = &outputs.sections[info.output.index()];
            complain_of_orphan(subject, input, &output.name);
        }
        if info.merge.is_some() {
            continue;
        }
        let keep = shf::LOADING | shf::REMARKS;
        let sh_type = match section.sh_type {
            c::SHT_NOTE
            | c::SHT_NOBITS
            | c::SHT_INIT_ARRAY
            | c::SHT_FINI_ARRAY
            | c::SHT_PREINIT_ARRAY => section.sh_type,
            _ => c::SHT_PROGBITS,
        };
        let kind = &mut content.kinds[description];
        kind.entsize = 0;
        if section.size > 0 {
            kind.add(sh_type, section.flags & keep, section.align);
        } else {
            kind.flags |= section.flags & keep;
            kind.empty_bits |= sh_type != c::SHT_NOBITS;
            kind.align = kind.align.max(section.align);
        }
        content.inputs[part.index()].push(Input {
            id,
            size: section.size.min(1 << 46),
            align: section.align,
        });
    }
    for (inputs, part) in content.inputs.iter_mut().zip(&outputs.parts) {
        let Some(rule) = part.rule.map(|rule| &rules.rules[rule as usize]) else {
            continue;
        };
        let name = |input: &Input| sections.at(files, input.id).full_name();
        rule.arrange(
            inputs,
            name,
            |input| input.align,
            |input| {
                let file = files.get(sections.origin(input.id).0);
                (file.path, file.member)
            },
        );
    }
}

/// `--orphan-handling`, in GNU ld's words.
fn complain_of_orphan(subject: Subject, input: SectionRef, output: &[u8]) {
    let Subject { args, diag, .. } = subject;
    let show = |name| String::from_utf8_lossy(name).into_owned();
    let (file, name) = (subject.files.get(input.file), input.full_name());
    match args.orphan_handling {
        OrphanHandling::Place | OrphanHandling::Discard => {}
        OrphanHandling::Warn => diag.warn(format!(
            "orphan section `{}' from `{file}' being placed in section `{}'",
            show(&name),
            show(output)
        )),
        OrphanHandling::Error => diag.pardonable(format!(
            "unplaced orphan section `{}' from `{file}'",
            show(&name)
        )),
    }
}
