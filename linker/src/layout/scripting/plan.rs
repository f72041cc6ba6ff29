//! The layout that scripts describe: their `SECTIONS` as one list, in which each output section is one item.
//!
//! Descriptions of one name are one output section, as with GNU ld. `INSERT` moves what stands before it to another
//! place of the list. Sections that no pattern takes ("orphans") are added by [`super::orphans`].

use crate::args::{Args, OrphanHandling, SortSection};
use crate::base::ids::OutputId;
use crate::input::scripts::Scripts;
use crate::messages::diag::Diagnostics;
use crate::resolve::output_sections::{Outputs, STANDARD_COUNT};
use crate::resolve::section_rules::Rules;
use crate::script::{
    Assertion, Assignment, Command, Constraint, Expr, Fill, MemoryRegion, OutputSection, Overlay,
    Pos, ProgramHeader, SectionCommand, SectionsCommand,
};
use std::collections::HashSet;

/// A layout that is not the default one.
#[derive(Clone)]
pub struct Plan<'s> {
    /// Where it is from.
    pub(super) scripts: &'s Scripts,
    /// What is done, in order.
    pub(super) items: Vec<Item<'s>>,
    /// The output sections that are described; orphans are added.
    pub(super) descriptions: Vec<Description<'s>>,
    /// `MEMORY`.
    pub(super) memory: Vec<&'s MemoryRegion>,
    /// `REGION_ALIAS`: new name, name in `MEMORY`.
    pub(super) aliases: Vec<(&'s [u8], &'s [u8])>,
    /// `PHDRS`.
    pub(super) phdrs: Option<&'s [ProgramHeader]>,
    /// `LD_FEATURE("SANE_EXPR")`.
    pub(super) sane: bool,
    /// The patterns; taken by [`Plan::outputs`].
    pub(super) rules: Rules,
    /// Addresses of the assignments in descriptions whose constraints are not met. Known after [`Plan::outputs`].
    left_out: HashSet<usize>,
}

/// A statement of `SECTIONS`.
#[derive(Clone, Copy)]
pub(super) enum Item<'s> {
    Assign(&'s Assignment),
    Assert(&'s Assertion),
    /// The description of this number.
    Section(usize),
    /// After the sections of an overlay: the location counter goes behind the largest.
    EndOfOverlay,
}

/// An output section's description.
#[derive(Clone)]
pub(super) struct Description<'s> {
    /// The output section.
    pub output: OutputId,
    /// What the script says before and behind the braces; `None` for orphans.
    pub script: Option<&'s OutputSection>,
    /// What is in it.
    pub statements: Vec<Statement<'s>>,
    /// The overlay that it belongs to, by number.
    pub overlay: Option<usize>,
    /// The overlay itself, for its first section.
    pub overlay_script: Option<&'s Overlay>,
}

/// A statement in an output section's description.
#[derive(Clone, Copy)]
pub(super) enum Statement<'s> {
    /// The sections of a rule.
    Rule(usize),
    Assign(&'s Assignment),
    Assert(&'s Assertion),
    /// `BYTE(…)` and its like.
    Data {
        size: u8,
        expr: &'s Expr,
        pos: Pos,
    },
    /// `ASCIZ "…"`.
    Text(&'s [u8]),
    Fill(&'s Fill),
}

impl<'s> Plan<'s> {
    /// The layout of the scripts; `None` if they leave the default one.
    pub fn new(scripts: &'s Scripts, args: &Args, diag: &Diagnostics) -> Option<Plan<'s>> {
        let commands = &scripts.script.commands;
        let mut plan = Plan {
            scripts,
            items: Vec::new(),
            descriptions: Vec::new(),
            memory: Vec::new(),
            aliases: Vec::new(),
            phdrs: None,
            sane: false,
            rules: Rules::new(args.orphan_handling == OrphanHandling::Discard),
            left_out: HashSet::new(),
        };
        let mut moved: Vec<(Vec<Item<'s>>, bool, &'s [u8], Pos)> = Vec::new();
        let mut augmenting: Vec<&[SectionsCommand]> = Vec::new();
        let mut seen = false;
        for (number, command) in commands.iter().enumerate() {
            match command {
                Command::Sections(list) if scripts.augments(number) => augmenting.push(list),
                Command::Sections(list) => {
                    let from = plan.items.len();
                    plan.add_sections(list, args.sort_section, diag);
                    match scripts.insert_of(number) {
                        Some((after, section, pos)) => {
                            let items = plan.items.split_off(from);
                            moved.push((items, after, section, pos));
                        }
                        None => seen = true,
                    }
                }
                Command::Memory(regions) => plan.memory.extend(regions),
                Command::RegionAlias { alias, region, pos } => {
                    plan.name_region(alias, region, *pos, diag);
                }
                Command::Phdrs(headers) => plan.phdrs = Some(headers),
                Command::SaneExpr => plan.sane = true,
                Command::Assign(assignment) => plan.items.push(Item::Assign(assignment)),
                Command::Assert(assertion) => plan.items.push(Item::Assert(assertion)),
                _ => {}
            }
        }
        if !seen {
            // There is no default layout of relocatable objects to add to.
            if augmenting.iter().any(|list| !list.is_empty()) {
                diag.error(
                    "SECTIONS in a linker script that is an input is not supported with -r; use -T for a layout",
                );
            }
            return None;
        }
        for list in augmenting {
            let first = list.iter().find_map(|command| match command {
                SectionsCommand::Section(section) => Some(section.pos),
                SectionsCommand::Overlay(overlay) => Some(overlay.pos),
                _ => None,
            });
            if let Some(pos) = first {
                diag.warn(format!(
                    "{}: output sections in a script that is an input go behind those of the layout, and take \
                     what it leaves; use -T for a layout of its own",
                    scripts.script.place(pos)
                ));
            }
            plan.add_sections(list, args.sort_section, diag);
        }
        for (items, after, section, pos) in moved {
            plan.insert(items, after, section, pos, diag);
        }
        Some(plan)
    }

    /// `REGION_ALIAS`: of a region that there is already, under a name that is new.
    fn name_region(&mut self, alias: &'s [u8], region: &'s [u8], pos: Pos, diag: &Diagnostics) {
        let find = |name: &[u8]| {
            let named = self.aliases.iter().find(|(alias, _)| *alias == name);
            let declared = || self.memory.iter().find(|region| region.name == name);
            named
                .map(|(_, region)| *region)
                .or_else(|| declared().map(|region| &region.name[..]))
        };
        let shown = String::from_utf8_lossy;
        let why = match find(region) {
            _ if region == b"*default*" => "alias for the default memory region".to_owned(),
            _ if find(alias).is_some() => {
                format!("redefinition of memory region `{}'", shown(alias))
            }
            Some(region) => return self.aliases.push((alias, region)),
            None => format!(
                "memory region `{}' for alias `{}' does not exist",
                shown(region),
                shown(alias)
            ),
        };
        diag.error(format!("{}: {why}", self.scripts.script.place(pos)));
    }

    /// Numbers and patterns for the link. The plan's descriptions and the outputs' sections have the same order.
    pub fn outputs<'a>(
        &mut self,
        files: &crate::input::file::Files,
        linked: &[bool],
    ) -> Outputs<'a> {
        let mut rules = std::mem::take(&mut self.rules);
        rules.settle_constraints(files, linked);
        for number in &rules.left_out {
            let statements = std::mem::take(&mut self.descriptions[*number].statements);
            let assignments = statements
                .into_iter()
                .filter_map(|statement| match statement {
                    Statement::Assign(assignment) => Some(std::ptr::from_ref(assignment) as usize),
                    _ => None,
                });
            self.left_out.extend(assignments);
        }
        let name = |description: &Description| {
            description
                .script
                .map_or_else(Vec::new, |script| script.name.clone())
        };
        Outputs::scripted(self.descriptions.iter().map(name), rules)
    }

    /// Whether an assignment stands in a description whose constraint is not met.
    pub fn leaves_out(&self, assignment: &Assignment) -> bool {
        self.left_out
            .contains(&(std::ptr::from_ref(assignment) as usize))
    }

    fn add_sections(&mut self, list: &'s [SectionsCommand], sort: SortSection, diag: &Diagnostics) {
        for command in list {
            match command {
                SectionsCommand::Assign(assignment) => self.items.push(Item::Assign(assignment)),
                SectionsCommand::Assert(assertion) => self.items.push(Item::Assert(assertion)),
                SectionsCommand::Entry(_) => {}
                SectionsCommand::Section(section) => {
                    self.add_section(section, None, sort, diag);
                }
                SectionsCommand::Overlay(overlay) => {
                    let number = self.descriptions.len();
                    for (i, section) in overlay.sections.iter().enumerate() {
                        let made = self.add_section(section, Some(number), sort, diag);
                        if let (Some(made), 0) = (made, i) {
                            self.descriptions[made].overlay_script = Some(overlay);
                        }
                    }
                    self.items.push(Item::EndOfOverlay);
                }
            }
        }
    }

    /// Adds an output section, or adds to it. Gives its number unless it is `/DISCARD/`.
    fn add_section(
        &mut self,
        section: &'s OutputSection,
        overlay: Option<usize>,
        sort: SortSection,
        diag: &Diagnostics,
    ) -> Option<usize> {
        if section.is_discard() {
            for command in &section.commands {
                match command {
                    SectionCommand::Input(spec) => {
                        self.rules.add(spec, None, OutputId(0), sort);
                    }
                    SectionCommand::Assert(_) | SectionCommand::Constructors => {}
                    _ => diag.error(format!(
                        "{}: /DISCARD/ can hold input sections only",
                        self.scripts.script.place(section.pos)
                    )),
                }
            }
            return None;
        }
        let same = |known: &Description| {
            known.script.is_some_and(|script| {
                script.name == section.name && script.constraint == section.constraint
            })
        };
        let number = match self.descriptions.iter().position(same) {
            Some(known) => known,
            None => {
                self.descriptions.push(Description {
                    output: OutputId(STANDARD_COUNT + self.descriptions.len() as u32),
                    script: Some(section),
                    statements: Vec::new(),
                    overlay,
                    overlay_script: None,
                });
                let number = self.descriptions.len() - 1;
                self.items.push(Item::Section(number));
                if section.constraint != Constraint::None {
                    self.rules.constrain(number, section.constraint);
                }
                number
            }
        };
        let output = self.descriptions[number].output;
        for command in &section.commands {
            let statement = match command {
                SectionCommand::Input(spec) => {
                    for rule in self.rules.add(spec, Some(number), output, sort) {
                        self.descriptions[number]
                            .statements
                            .push(Statement::Rule(rule));
                    }
                    continue;
                }
                SectionCommand::Assign(assignment) => Statement::Assign(assignment),
                SectionCommand::Assert(assertion) => Statement::Assert(assertion),
                SectionCommand::Data { size, expr, pos } => Statement::Data {
                    size: *size,
                    expr,
                    pos: *pos,
                },
                SectionCommand::Text(text) => Statement::Text(text),
                SectionCommand::Fill(fill) => Statement::Fill(fill),
                // For formats other than ELF.
                SectionCommand::Constructors => continue,
                SectionCommand::CreateObjectSymbols(pos) => {
                    diag.error(format!(
                        "{}: CREATE_OBJECT_SYMBOLS is not supported",
                        self.scripts.script.place(*pos)
                    ));
                    continue;
                }
            };
            self.descriptions[number].statements.push(statement);
        }
        Some(number)
    }

    fn insert(
        &mut self,
        items: Vec<Item<'s>>,
        after: bool,
        section: &[u8],
        pos: Pos,
        diag: &Diagnostics,
    ) {
        let is_it = |item: &Item| match item {
            Item::Section(number) => self.descriptions[*number]
                .script
                .is_some_and(|script| script.name == section),
            _ => false,
        };
        let Some(at) = self.items.iter().position(is_it) else {
            diag.error(format!(
                "{}: {} not found for insert",
                self.scripts.script.place(pos),
                String::from_utf8_lossy(section)
            ));
            return;
        };
        let at = at + usize::from(after);
        self.items.splice(at..at, items);
    }
}

/// Whether data of the script's own comes before assignments: without inputs, that makes the section read-only for GNU
/// ld.
pub(super) fn begins_with_data(description: &Description) -> bool {
    let makes_section = |statement: &&Statement| {
        matches!(
            statement,
            Statement::Assign(_) | Statement::Data { .. } | Statement::Text(_)
        )
    };
    let first = description.statements.iter().find(makes_section);
    first.is_some_and(|first| !matches!(first, Statement::Assign(_)))
}
