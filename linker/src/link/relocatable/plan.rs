//! Which sections a relocatable output has, and where each input section lies in them.
//!
//! Input sections that have the same name, type and flags are united, as GNU ld
//! does; ELF allows several sections of one name, and so what differs in more than
//! the name stays apart. Never united are members of section groups, since a group
//! must be droppable as a whole; what `--unique` names; and what begins with a header
//! for the whole of it (`.sframe`). Sections with `SHF_LINK_ORDER` are united if what
//! they are about is.
//!
//! A linker script with `SECTIONS` names sections that go together whatever their types and flags, and says in which order
//! they come, with data and symbols between them ([`Arrangement`], [`statements`](crate::link::relocatable::statements)). What it does not name is united as without it.
//!
//! Mergeable sections are put one after the other, not merged: whoever links the
//! output merges. They stay mergeable if all of them have elements of one size, if
//! no padding between them cuts an element in two, and if no string runs on into the
//! next section.

use super::sections::{OutGroup, OutId, OutSection, PlacedCommon};
use crate::args::Args;
use crate::base::ids::{FileId, SectionId};
use crate::elf::c;
use crate::elf::shf;
use crate::input::file::Files;
use crate::input::object::Object;
use crate::input::open::InputArena;
use crate::input::parts::Section;
use crate::layout::scripting::{Arrangement, Described, Step};
use crate::link::lto::Compiled;
use crate::link::relocatable::assign::Inside;
use crate::link::relocatable::frames::Frames;
use crate::link::relocatable::statements::{Effect, Marked, Statements};
use crate::messages::diag::Diagnostics;
use crate::resolve::input_sections::{Sections, is_sframe, state};
use crate::resolve::resolution::{Common, Definitions};
use crate::resolve::section_rules::Route;
use crate::resolve::symbol_table::SymbolTable;
use crate::resolve::unique_sections::Unique;
use std::collections::HashMap;

/// Not in the output.
const NOWHERE: u32 = u32::MAX;

/// The output's sections. Groups come first, as the gABI demands.
pub struct Plan<'a> {
    /// By [`OutId`].
    pub sections: Vec<OutSection<'a>>,
    /// The groups.
    pub groups: Vec<OutGroup>,
    /// By index in [`Definitions::commons`]; empty if they stay common blocks.
    pub commons: Vec<PlacedCommon>,
    /// The symbols that a script defines in its output sections.
    pub marked: Vec<Marked>,
    out: Vec<u32>,
    offset: Vec<u64>,
}

impl Plan<'_> {
    /// The common blocks that have places: all that are left, or none.
    pub fn placed_commons(&self, definitions: &Definitions, symbols: &SymbolTable) -> Vec<Common> {
        let left = definitions.commons_of(symbols);
        left.take(self.commons.len()).copied().collect()
    }
}

impl Plan<'_> {
    /// The output section that an input section is in.
    #[inline]
    pub fn out(&self, id: SectionId) -> Option<OutId> {
        let out = self.out[id.index()];
        (out != NOWHERE).then_some(OutId(out))
    }

    /// Where an input section begins in its output section.
    #[inline]
    pub fn offset(&self, id: SectionId) -> u64 {
        self.offset[id.index()]
    }
}

/// What must be equal for sections to be united.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key<'a> {
    name: &'a [u8],
    sh_type: u32,
    flags: u64,
    link: Option<OutId>,
}

impl Key<'_> {
    /// That of a section of the script: it takes what the script sends there.
    fn named(name: &[u8], link: Option<OutId>) -> Key<'_> {
        Key {
            name,
            sh_type: c::SHT_NULL,
            flags: 0,
            link,
        }
    }
}

/// An input section that a script sends somewhere.
#[derive(Clone, Copy)]
struct Sent<'a> {
    /// Number of the output section in the script.
    described: usize,
    rule: u32,
    id: SectionId,
    section: Section<'a>,
    group: u32,
}

/// What the linker makes of the inputs' notes.
pub struct Notes {
    /// The united `.note.gnu.property`.
    pub properties: Vec<u8>,
    /// The build id's note with room for the id.
    pub build_id: Vec<u8>,
}

/// Flags that decide whether sections are united.
const KEY_FLAGS: u64 = !(shf::MERGE | shf::STRINGS | shf::GROUP | shf::INFO_LINK);

struct Planner<'l, 'a> {
    plan: Plan<'a>,
    files: &'l Files<'a>,
    compiled: Option<&'l Compiled>,
    sections: &'l Sections,
    frames: &'l Frames,
    diag: &'l Diagnostics,
    known: HashMap<Key<'a>, OutId>,
    unique: Option<Unique>,
    arrangement: Option<&'l Arrangement<'l>>,
    statements: Statements<'l>,
    /// The names of the arrangement's sections.
    names: Vec<&'a [u8]>,
}

/// Takes away what the script discards.
pub fn discard(arrangement: &Arrangement, files: &Files, sections: &Sections) {
    for (file, input) in files.iter() {
        for id in sections.of_file(file).map(SectionId) {
            let number = sections.origin(id).1;
            let Some(section) = input.object().and_then(|object| object.section(number)) else {
                continue;
            };
            let in_group = section.flags & shf::GROUP != 0;
            let route = arrangement.route(input, section.name, section.flags, in_group);
            if sections.is_alive(id) && route == Route::Discard {
                sections.remove_state(id, state::ALIVE);
            }
        }
    }
}

/// What is planned: the inputs, and what earlier steps found.
pub struct Subject<'l, 'a> {
    pub args: &'l Args,
    pub arena: &'a InputArena,
    /// What a script says.
    pub arrangement: Option<&'l Arrangement<'l>>,
    pub files: &'l Files<'a>,
    /// What was made of intermediate code.
    pub compiled: Option<&'l Compiled>,
    pub sections: &'l Sections,
    /// The lists of frames, which must be settled.
    pub frames: &'l Frames,
    pub definitions: &'l Definitions,
    /// Symbols that a script defines in output sections.
    pub inside: &'l Inside,
    pub diag: &'l Diagnostics,
}

/// Sends each section that is alive to the output, and `notes` that the linker makes.
pub fn plan<'a>(subject: Subject<'_, 'a>, notes: Notes) -> Plan<'a> {
    let Subject {
        args,
        arena,
        arrangement,
        files,
        compiled,
        sections,
        frames,
        definitions,
        inside,
        diag,
    } = subject;
    let mut planner = Planner {
        plan: Plan {
            sections: Vec::new(),
            groups: Vec::new(),
            commons: Vec::new(),
            marked: Vec::new(),
            out: vec![NOWHERE; sections.count()],
            offset: vec![0; sections.count()],
        },
        files,
        compiled,
        sections,
        frames,
        diag,
        known: HashMap::new(),
        unique: Unique::new(args),
        arrangement,
        statements: Statements::new(args, inside),
        names: arrangement.map_or_else(Vec::new, |arrangement| {
            let described = arrangement.described.iter();
            described
                .map(|described| arena.bytes(described.name.clone()))
                .collect()
        }),
    };
    let mut group_of = vec![0u32; sections.count()];
    if !args.force_group_allocation {
        planner.groups(&mut group_of);
    }
    planner.place_all(&group_of, !notes.build_id.is_empty());
    planner.settle_described();
    if args.define_common {
        planner.commons(definitions);
    }
    if frames.terminator {
        planner.end_frames();
    }
    for (name, align, made) in [
        (&b".note.gnu.property"[..], 8, notes.properties),
        (b".note.gnu.build-id", 4, notes.build_id),
    ] {
        if !made.is_empty() {
            planner.plan.sections.push(OutSection {
                sh_type: c::SHT_NOTE,
                flags: shf::ALLOC,
                size: made.len() as u64,
                align,
                made,
                ..empty(name)
            });
        }
    }
    if let Some(arrangement) = planner.arrangement {
        let sections = &planner.plan.sections;
        planner.statements.check(arrangement, sections, diag);
    }
    planner.plan
}

fn empty(name: &[u8]) -> OutSection<'_> {
    OutSection {
        name,
        sh_type: c::SHT_PROGBITS,
        flags: 0,
        size: 0,
        align: 1,
        entsize: 0,
        link: None,
        group: None,
        inputs: Vec::new(),
        made: Vec::new(),
        data: Vec::new(),
        address: 0,
    }
}

impl<'a> Planner<'_, 'a> {
    fn push(&mut self, section: OutSection<'a>) -> OutId {
        self.plan.sections.push(section);
        OutId(self.plan.sections.len() as u32 - 1)
    }

    /// Makes a group of each that has a member left; says to which each section belongs, counted from 1.
    fn groups(&mut self, group_of: &mut [u32]) {
        for (file, input) in self.files.iter() {
            let (Some(object), true) = (input.object(), self.sections.is_linked(file)) else {
                continue;
            };
            // What is wrong with a group was said when duplicates were looked for.
            let groups = object.groups().unwrap_or_default();
            for group in groups {
                let members: Vec<SectionId> = object
                    .sections_of_groups(&[group.index])
                    .iter()
                    .filter_map(|member| self.sections.get(file, *member))
                    .filter(|id| self.sections.is_alive(*id))
                    .collect();
                if members.is_empty() {
                    continue;
                }
                let section = self.push(OutSection {
                    sh_type: c::SHT_GROUP,
                    align: 4,
                    entsize: 4,
                    ..empty(b".group")
                });
                self.plan.out[self.sections.id(file, group.index).index()] = section.0;
                self.plan.groups.push(OutGroup {
                    file,
                    signature: object.group_symbol(group.index),
                    flags: if group.comdat { c::GRP_COMDAT } else { 0 },
                });
                for member in members {
                    let slot = &mut group_of[member.index()];
                    if *slot != 0 {
                        self.diag.error(format!(
                            "{input}: section {} is in two groups",
                            self.sections.origin(member).1
                        ));
                    }
                    *slot = self.plan.groups.len() as u32;
                }
            }
        }
    }

    fn place_all(&mut self, group_of: &[u32], own_build_id: bool) {
        let mut ordered: Vec<(SectionId, SectionId)> = Vec::new();
        let mut orphans = Vec::new();
        let mut sent: Vec<Sent<'a>> = Vec::new();
        for (file, input) in self.files.iter() {
            for id in self.sections.of_file(file).map(SectionId) {
                let number = self.sections.origin(id).1;
                if !self.sections.is_alive(id) {
                    continue;
                }
                let Some(section) = input.object().and_then(|object| object.section(number)) else {
                    continue;
                };
                let is_made = self
                    .compiled
                    .is_some_and(|compiled| compiled.has_made(file));
                if is_left_out(&section, is_made)
                    || (own_build_id && section.name == b".note.gnu.build-id")
                {
                    self.sections.remove_state(id, state::ALIVE);
                    continue;
                }
                if section.flags & shf::LINK_ORDER != 0 && section.link != 0 {
                    match self.sections.get(file, section.link) {
                        Some(about) => ordered.push((id, about)),
                        None => self.diag.error(format!(
                            "{input}: section {number}: sh_link {} is not a section",
                            section.link
                        )),
                    }
                    continue;
                }
                let group = group_of[id.index()];
                match self.rule_of(file, &section, group) {
                    Some((described, rule)) => sent.push(Sent {
                        described,
                        rule,
                        id,
                        section,
                        group,
                    }),
                    None => orphans.push((id, section, group)),
                }
            }
        }
        self.arrange(&mut sent);
        if let Some(arrangement) = self.arrangement {
            let mut rest = &sent[..];
            for (number, described) in arrangement.described.iter().enumerate() {
                let own = rest.partition_point(|sent| sent.described <= number);
                let (own, others) = rest.split_at(own);
                self.describe(arrangement, described, self.names[number], own);
                rest = others;
            }
        }
        for (id, section, group) in &orphans {
            self.place(*id, section, None, *group);
        }
        // What is ordered by another section needs that one's place first; there may be chains.
        while !ordered.is_empty() {
            let before = ordered.len();
            let mut rest = Vec::new();
            for (id, about) in std::mem::take(&mut ordered) {
                let (file, number) = self.sections.origin(id);
                if !self.sections.is_alive(about) {
                    // About code that is not there.
                    self.sections.remove_state(id, state::ALIVE);
                } else if let Some(out) = self.plan.out(about) {
                    if let Some(section) = self.files.object(file).section(number) {
                        self.place(id, &section, Some(out), group_of[id.index()]);
                    }
                } else {
                    rest.push((id, about));
                }
            }
            if rest.len() == before {
                let (file, number) = self.sections.origin(rest[0].0);
                self.diag.error(format!(
                    "{}: section {number}: its order depends on itself",
                    self.files.get(file)
                ));
                return;
            }
            ordered = rest;
        }
    }

    /// Does what a script says of an output section, given the input sections that its rules take.
    fn describe(
        &mut self,
        arrangement: &Arrangement,
        described: &Described,
        name: &'a [u8],
        sent: &[Sent<'a>],
    ) {
        for step in &described.steps {
            if let Step::Rule(rule) = step {
                for sent in sent.iter().filter(|sent| sent.rule == *rule) {
                    self.place(sent.id, &sent.section, None, sent.group);
                }
                continue;
            }
            let (out, dot) = match self.known.get(&Key::named(name, None)) {
                Some(out) => (*out, self.plan.sections[out.index()].size),
                None => (OutId(self.plan.sections.len() as u32), 0),
            };
            let complain = |why: &dyn std::fmt::Display| {
                let place = arrangement.place(step.pos());
                self.diag.error(format!("{place}: {why}"));
            };
            let sections = &self.plan.sections;
            let effect = self
                .statements
                .effect(step, sections, (out, described.address), dot);
            let effect = match effect {
                Ok(effect) => effect,
                Err(why) => {
                    complain(&why);
                    return;
                }
            };
            match effect {
                Effect::None => {}
                Effect::Move(to) if to == dot && !step.keeps() => {}
                Effect::Move(to) if to < dot => {
                    complain(&format_args!(
                        "cannot move location counter backwards (from {dot:#018x} to {to:#018x})"
                    ));
                    return;
                }
                Effect::Move(to) if to > MOST_BYTES => {
                    complain(&format_args!(
                        "the output's section would be larger than {MOST_BYTES} bytes"
                    ));
                    return;
                }
                Effect::Move(to) => self.described(described, name).size = to,
                Effect::Define(symbol, value) => {
                    self.described(described, name);
                    self.plan
                        .marked
                        .retain(|marked| marked.symbol.id != symbol.id);
                    self.plan.marked.push(Marked { symbol, value });
                }
                Effect::Put(bytes) => {
                    let place = self.described(described, name);
                    if place.is_nobits() {
                        place.sh_type = c::SHT_PROGBITS;
                    }
                    (place.flags, place.entsize) = (place.flags & !(shf::MERGE | shf::STRINGS), 0);
                    place.size += bytes.len() as u64;
                    place.data.push((dot, bytes));
                }
            }
        }
    }

    /// The output section that a script describes. If nothing is in it yet it becomes what its first input section is.
    fn described(&mut self, described: &Described, name: &'a [u8]) -> &mut OutSection<'a> {
        let key = Key::named(name, None);
        let out = match self.known.get(&key) {
            Some(out) => *out,
            None => {
                let out = self.push(OutSection {
                    sh_type: c::SHT_NOBITS,
                    align: described.align,
                    address: described.address,
                    ..empty(name)
                });
                self.known.insert(key, out);
                out
            }
        };
        &mut self.plan.sections[out.index()]
    }

    /// Sections that only a script's own data and symbols are in get flags; and addresses that a script gave fit alignments
    /// (gABI, "Sections").
    fn settle_described(&mut self) {
        for section in &mut self.plan.sections {
            let align = section.align.max(1);
            section.address = section.address.checked_next_multiple_of(align).unwrap_or(0);
        }
        let Some(arrangement) = self.arrangement else {
            return;
        };
        for (described, name) in arrangement.described.iter().zip(&self.names) {
            let Some(out) = self.known.get(&Key::named(name, None)) else {
                continue;
            };
            let section = &mut self.plan.sections[out.index()];
            if section.inputs.is_empty() {
                section.flags = match described.begins_with_data {
                    true => shf::ALLOC,
                    false => shf::ALLOC | shf::WRITE,
                };
                if section.size == 0 {
                    section.sh_type = c::SHT_PROGBITS;
                }
            }
        }
    }

    /// The output section of the script and the rule that take a section, if there are such.
    fn rule_of(&self, file: FileId, section: &Section, group: u32) -> Option<(usize, u32)> {
        let arrangement = self.arrangement?;
        let file = self.files.get(file);
        match arrangement.route(file, section.name, section.flags, group != 0) {
            Route::Rule { rule, .. } => Some((arrangement.section_of(rule), rule)),
            Route::Discard | Route::Orphan => None,
        }
    }

    /// Brings sections into the script's order.
    fn arrange(&self, sent: &mut [Sent]) {
        let Some(arrangement) = self.arrangement else {
            return;
        };
        sent.sort_by_key(|sent| (sent.described, sent.rule));
        for alike in sent.chunk_by_mut(|a, b| a.rule == b.rule) {
            arrangement.rule(alike[0].rule).arrange(
                alike,
                |sent| sent.section.name,
                |sent| sent.section.align,
                |sent| {
                    let file = self.files.get(self.sections.origin(sent.id).0);
                    (file.path, file.member)
                },
            );
        }
    }

    /// What a section is united by, and the name, the least alignment and the address of its output section.
    fn key(
        &self,
        id: SectionId,
        section: &Section<'a>,
        link: Option<OutId>,
        group: u32,
    ) -> (Key<'a>, &'a [u8], [u64; 2]) {
        let (file, _) = self.sections.origin(id);
        let found = self.rule_of(file, section, group).zip(self.arrangement);
        if let Some(((number, _), arrangement)) = found {
            let name = self.names[number];
            let described = &arrangement.described[number];
            return (
                Key::named(name, link),
                name,
                [described.align, described.address],
            );
        }
        // What has the name of one of the script's sections goes there too.
        let named = Key::named(section.name, link);
        let key = match self.known.contains_key(&named) {
            true => named,
            false => key_of(section, link),
        };
        (key, section.name, [1, 0])
    }

    fn place(&mut self, id: SectionId, section: &Section<'a>, link: Option<OutId>, group: u32) {
        let (key, name, [align, address]) = self.key(id, section, link, group);
        let unique = self.unique.as_ref();
        let alone = group != 0
            || is_sframe(section)
            || unique.is_some_and(|unique| unique.covers(section.name));
        let known = if alone { None } else { self.known.get(&key) };
        let out = match known {
            Some(out) => *out,
            None => {
                let out = self.push(OutSection {
                    sh_type: section.sh_type,
                    flags: section.flags & !(shf::GROUP | shf::INFO_LINK),
                    entsize: section.entsize,
                    align,
                    address,
                    link,
                    group: group.checked_sub(1),
                    ..empty(name)
                });
                if !alone {
                    self.known.insert(key, out);
                }
                out
            }
        };
        let (file, number) = self.sections.origin(id);
        let frames = self.frames.of(id);
        let size = frames.map_or(section.size, |frames| frames.size);
        // Padding between frames would be a terminator. Their records need no more than their own alignment.
        let align = if frames.is_some() { 1 } else { section.align };
        let place = &mut self.plan.sections[out.index()];
        let end = place.size;
        let fitting = end
            .checked_next_multiple_of(align)
            .and_then(|at| Some((at, at.checked_add(size).filter(|end| *end <= MOST_BYTES)?)));
        let Some((at, new_end)) = fitting else {
            self.diag.error(format!(
                "{}: section {number} ({}): the output's section would be larger than {MOST_BYTES} bytes",
                self.files.get(file),
                String::from_utf8_lossy(section.name)
            ));
            return;
        };
        if place.inputs.is_empty() && place.size == 0 {
            // The script may have named it before: for a symbol at its start.
            place.sh_type = section.sh_type;
            place.flags = section.flags & !(shf::GROUP | shf::INFO_LINK);
            place.entsize = section.entsize;
        }
        place.size = new_end;
        place.align = place.align.max(section.align);
        if section.name == b".note.GNU-stack" {
            place.flags |= section.flags & shf::EXEC;
        }
        // Sections of a script may hold what is not alike.
        place.flags |= section.flags & (shf::ALLOC | shf::WRITE | shf::EXEC | shf::TLS);
        let sh_type = section.sh_type;
        if place.sh_type != sh_type && sh_type != c::SHT_NOBITS {
            place.sh_type = match place.sh_type {
                c::SHT_NOBITS => sh_type,
                _ => c::SHT_PROGBITS,
            };
        }
        let mergeable = shf::MERGE | shf::STRINGS;
        if place.entsize != section.entsize || (place.flags ^ section.flags) & mergeable != 0 {
            place.entsize = 0;
        }
        let whole = |bytes: u64| place.entsize != 0 && bytes.is_multiple_of(place.entsize);
        let object = self.files.object(file);
        if !whole(at - end) || !whole(size) || !ends_whole(object, number, section) {
            place.flags &= !mergeable;
        }
        place.inputs.push(id);
        self.plan.out[id.index()] = out.0;
        self.plan.offset[id.index()] = at;
    }

    /// The end of the last list of frames is the end of all of them.
    fn end_frames(&mut self) {
        let is_frames = |section: &&mut OutSection| section.name == b".eh_frame";
        if let Some(section) = self.plan.sections.iter_mut().rev().find(is_frames) {
            section.made = vec![0; 4];
            section.size += 4;
        }
    }

    /// Gives common blocks a place behind `.bss` and `.tbss`.
    fn commons(&mut self, definitions: &Definitions) {
        for common in &definitions.commons {
            let (name, flags) = if common.tls {
                (&b".tbss"[..], shf::ALLOC | shf::WRITE | shf::TLS)
            } else {
                (&b".bss"[..], shf::ALLOC | shf::WRITE)
            };
            let key = Key {
                name,
                sh_type: c::SHT_NOBITS,
                flags,
                link: None,
            };
            let section = match self.known.get(&key) {
                Some(out) => *out,
                None => {
                    let out = self.push(OutSection {
                        sh_type: c::SHT_NOBITS,
                        flags,
                        ..empty(name)
                    });
                    self.known.insert(key, out);
                    out
                }
            };
            let place = &mut self.plan.sections[section.index()];
            let fitting = place
                .size
                .checked_next_multiple_of(common.align)
                .and_then(|at| Some((at, at.checked_add(common.size)?)));
            let Some((offset, end)) = fitting.filter(|(_, end)| *end <= MOST_BYTES) else {
                self.diag.error("the common symbols are too large together");
                return;
            };
            place.size = end;
            place.align = place.align.max(common.align);
            self.plan.commons.push(PlacedCommon { section, offset });
        }
    }
}

/// No section of an x86-64 program is larger; with this, sums of a few sizes do not overflow.
const MOST_BYTES: u64 = 1 << 47;

fn key_of<'a>(section: &Section<'a>, link: Option<OutId>) -> Key<'a> {
    let mut key = Key {
        name: section.name,
        sh_type: section.sh_type,
        flags: section.flags & KEY_FLAGS,
        link,
    };
    match section.name {
        // Both types are in use, also in one program: clang's assembler writes the psABI's, GNU's does not.
        b".eh_frame" if key.sh_type == c::SHT_X86_64_UNWIND => key.sh_type = c::SHT_PROGBITS,
        // That one of them asks for an executable stack is no reason to lose it among the others.
        b".note.GNU-stack" => key.flags &= !shf::EXEC,
        _ => {}
    }
    key
}

/// What means nothing in the output: intermediate code of one file, which the united machine code makes stale. That of a
/// file that a plugin `is_made` is of all.
fn is_left_out(section: &Section, is_made: bool) -> bool {
    section.flags & shf::ALLOC == 0
        && !is_made
        && (section.name.starts_with(b".gnu.lto_")
            || section.name.starts_with(b".gnu.debuglto_")
            || section.name.starts_with(b".llvm.lto"))
}

/// Whether a section of strings ends with the end of a string.
fn ends_whole(object: &Object, number: u32, section: &Section) -> bool {
    if section.flags & shf::STRINGS == 0 || section.size == 0 {
        return true;
    }
    let last = usize::try_from(section.entsize).unwrap_or(usize::MAX);
    let bytes = object.section_bytes(number);
    bytes
        .len()
        .checked_sub(last)
        .is_some_and(|start| bytes[start..].iter().all(|byte| *byte == 0))
}
