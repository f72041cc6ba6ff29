//! What a script with `SECTIONS` says of a relocatable output (`-r -T module.lds`, as the Linux kernel links its modules).
//!
//! Such an output has no addresses. What is left of a layout is which input sections go together under which name, in
//! which order, with which data and symbols between them, what is discarded, and how output sections are aligned. Everything
//! else that a description can say (places in memory) is refused by name.
//!
//! As with GNU ld, members of section groups stay sections of their own, whatever patterns say, as long as the groups are
//! not dissolved (`--force-group-allocation`); they can be discarded.

use super::assignments;
use super::classify::is_plain_number;
use super::plan::{Item, Plan, Statement, begins_with_data};
use crate::args::Args;
use crate::input::file::{File, Files};
use crate::input::scripts::{Scripts, assigned_expr};
use crate::messages::diag::Diagnostics;
use crate::resolve::output_sections::STANDARD_COUNT;
use crate::resolve::section_rules::{FileNames, Route, Rule, Rules};
use crate::script::{
    Assertion, AssignOp, Command, Constraint, Environment, Expr, OutputSection, Pos,
    SectionCommand, SectionType, SectionsCommand, Target,
};

/// Which sections a relocatable output has.
pub struct Arrangement<'s> {
    scripts: &'s Scripts,
    rules: Rules,
    /// Its output sections, in the script's order.
    pub described: Vec<Described<'s>>,
}

/// An output section of the script.
pub struct Described<'s> {
    /// Its name.
    pub name: Vec<u8>,
    /// The alignment that it has at least.
    pub align: u64,
    /// `sh_addr`: what a script says is passed on, though it means nothing in such a file.
    pub address: u64,
    /// What is in it, in order.
    pub steps: Vec<Step<'s>>,
    /// Data comes before symbols: without input sections that makes it read-only, as with GNU ld.
    pub begins_with_data: bool,
}

/// A part of an output section's description. `plain`: the expression is but a number, which is an offset in the section.
#[derive(Debug)]
pub enum Step<'s> {
    /// The sections of a rule.
    Rule(u32),
    /// The location counter is moved.
    Move {
        /// Where to.
        expr: Expr,
        /// A number.
        plain: bool,
        /// `. = .`: there shall be a section, empty or not.
        keeps: bool,
        /// Where in the script.
        pos: Pos,
    },
    /// A symbol is defined.
    Define {
        /// Its name.
        name: &'s [u8],
        /// What it stands for.
        expr: Expr,
        /// A number.
        plain: bool,
        /// Where in the script.
        pos: Pos,
    },
    /// `BYTE(…)` and its like.
    Data {
        /// How many bytes.
        size: u8,
        /// Their value.
        expr: &'s Expr,
        /// Where in the script.
        pos: Pos,
    },
    /// `ASCIZ "…"`.
    Text(&'s [u8]),
}

impl Step<'_> {
    /// It asks for a section, empty or not.
    pub fn keeps(&self) -> bool {
        matches!(self, Step::Move { keeps: true, .. })
    }

    /// Where in the script.
    pub fn pos(&self) -> Pos {
        match self {
            Step::Rule(_) | Step::Text(_) => Pos::default(),
            Step::Move { pos, .. } | Step::Define { pos, .. } | Step::Data { pos, .. } => *pos,
        }
    }
}

impl<'s> Arrangement<'s> {
    /// What the scripts say; `None` if they leave the usual order.
    pub fn new(
        scripts: &'s Scripts,
        args: &Args,
        files: &Files,
        linked: &[bool],
        diag: &Diagnostics,
    ) -> Option<Arrangement<'s>> {
        // What stands outside of SECTIONS is the caller's to look at.
        let refuse = |pos: Pos, what: &str| {
            diag.error(format!(
                "{}: {what} is not supported with -r",
                scripts.script.place(pos)
            ))
        };
        let mut plan = Plan::new(scripts, args, diag)?;
        for item in &plan.items {
            match item {
                Item::Assign(assignment) if assignment.target == Target::Dot => {
                    refuse(assignment.pos, "an address in SECTIONS");
                }
                Item::Assign(assignment) if scripts.is_in_sections(assignment) => {
                    refuse(assignment.pos, "a symbol in SECTIONS");
                }
                Item::Assign(_) | Item::Section(_) | Item::Assert(_) => {}
                Item::EndOfOverlay => diag.error("OVERLAY is not supported with -r"),
            }
        }
        let mut described = Vec::with_capacity(plan.descriptions.len());
        for description in &plan.descriptions {
            let Some(script) = description.script else {
                continue;
            };
            let mut steps = Vec::with_capacity(description.statements.len());
            for statement in &description.statements {
                steps.push(match statement {
                    Statement::Rule(rule) => Step::Rule(*rule as u32),
                    Statement::Assign(assignment) => {
                        let expr = assigned_expr(assignment);
                        let plain =
                            is_plain_number(&assignment.expr) && assignment.op == AssignOp::Set;
                        let pos = assignment.pos;
                        match &assignment.target {
                            Target::Dot => Step::Move {
                                keeps: expr == Expr::Dot,
                                expr,
                                plain,
                                pos,
                            },
                            Target::Symbol(name) => Step::Define {
                                name,
                                expr,
                                plain,
                                pos,
                            },
                        }
                    }
                    Statement::Assert(_) => continue,
                    Statement::Data { size, expr, pos } => Step::Data {
                        size: *size,
                        expr,
                        pos: *pos,
                    },
                    Statement::Text(text) => Step::Text(text),
                    Statement::Fill(_) => {
                        refuse(script.pos, "FILL");
                        continue;
                    }
                });
            }
            if script.constraint != Constraint::None
                && steps.iter().any(|step| !matches!(step, Step::Rule(_)))
            {
                refuse(
                    script.pos,
                    "data or a symbol under ONLY_IF_RO or ONLY_IF_RW",
                );
            }
            described.push(Described {
                name: script.name.clone(),
                align: alignment(script, &refuse),
                address: script
                    .address
                    .as_ref()
                    .and_then(Expr::as_number)
                    .unwrap_or(0),
                steps,
                begins_with_data: begins_with_data(description),
            });
        }
        let mut rules = std::mem::take(&mut plan.rules);
        rules.settle_constraints(files, linked);
        Some(Arrangement {
            scripts,
            rules,
            described,
        })
    }

    /// Where a step stands in the script.
    pub fn place(&self, pos: Pos) -> String {
        self.scripts.script.place(pos)
    }

    /// Evaluates the assertions. `environment` is that of the output section of this name, or of none.
    pub fn check<E: Environment>(
        &self,
        environment: impl Fn(Option<&[u8]>) -> E,
        diag: &Diagnostics,
    ) {
        let check = |assertion: &Assertion, section: Option<&[u8]>| {
            assignments::check(self.scripts, assertion, &environment(section), diag);
        };
        for command in &self.scripts.script.commands {
            match command {
                Command::Assert(assertion) => check(assertion, None),
                Command::Sections(list) => {
                    for command in list {
                        match command {
                            SectionsCommand::Assert(assertion) => check(assertion, None),
                            SectionsCommand::Section(section) => {
                                for command in &section.commands {
                                    if let SectionCommand::Assert(assertion) = command {
                                        check(assertion, Some(&section.name));
                                    }
                                }
                            }
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Where a section goes.
    pub fn route(&self, file: &File, name: &[u8], flags: u64, in_group: bool) -> Route {
        let route = self.rules.route(FileNames::of(file), name, flags);
        match route {
            Route::Rule { .. } if in_group => Route::Orphan,
            route => route,
        }
    }

    /// A rule.
    pub fn rule(&self, number: u32) -> &Rule {
        &self.rules.rules[number as usize]
    }

    /// Number of the output section of a rule, in the script's order.
    pub fn section_of(&self, rule: u32) -> usize {
        self.rule(rule).output.index() - STANDARD_COUNT as usize
    }
}

/// The alignment that a description asks for. What else it says of places in memory is refused.
fn alignment(script: &OutputSection, refuse: &dyn Fn(Pos, &str)) -> u64 {
    let says = [
        (
            script
                .address
                .as_ref()
                .is_some_and(|address| address.as_number().is_none()),
            "an address of an output section that is not a number",
        ),
        (script.at.is_some(), "AT"),
        (script.subalign.is_some(), "SUBALIGN"),
        (
            script.region.is_some() || script.lma_region.is_some(),
            "a memory region",
        ),
        (!script.phdrs.is_empty(), "a program header"),
        (script.fill.is_some(), "a fill pattern"),
        (
            script.kind != SectionType::Normal || script.elf_type.is_some(),
            "a type of an output section",
        ),
    ];
    for (said, what) in says {
        if said {
            refuse(script.pos, what);
        }
    }
    match script.align.as_ref().map(Expr::as_number) {
        None => 1,
        Some(Some(align)) if align.is_power_of_two() && align <= 1 << 30 => align,
        Some(_) => {
            refuse(
                script.pos,
                "an alignment that is not a power of two as a number",
            );
            1
        }
    }
}
