//! What a script with `SECTIONS` says of a relocatable output (`-r -T module.lds`, as the Linux kernel links its modules).
//!
//! Such an output has no addresses. What is left of a layout is which input sections go together under which name, in
//! which order, what is discarded, and how output sections are aligned. Everything else that a description can say (symbols,
//! data, places in memory) is refused by name.
//!
//! As with GNU ld, members of section groups stay sections of their own, whatever patterns say, as long as the groups are
//! not dissolved (`--force-group-allocation`); they can be discarded.

use super::load::Scripts;
use super::plan::{Item, Plan, Statement};
use super::rules::{FileNames, Route, Rule, Rules};
use crate::args::Args;
use crate::diag::Diagnostics;
use crate::file::{File, Files};
use crate::output::STANDARD_COUNT;
use crate::script::{Expr, OutputSection, Pos, SectionType, Target};

/// Which sections a relocatable output has.
pub struct Arrangement {
    rules: Rules,
    /// Its output sections, in the script's order.
    pub described: Vec<Described>,
}

/// An output section of the script.
pub struct Described {
    /// Its name.
    pub name: Vec<u8>,
    /// The alignment that it has at least.
    pub align: u64,
}

impl Arrangement {
    /// What the scripts say; `None` if they leave the usual order.
    pub fn new(
        scripts: &Scripts,
        args: &Args,
        files: &Files,
        linked: &[bool],
        diag: &Diagnostics,
    ) -> Option<Arrangement> {
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
                Item::Assign(_) | Item::Section(_) => {}
                Item::Assert(assertion) => refuse(assertion.pos, "ASSERT"),
                Item::EndOfOverlay => diag.error("OVERLAY is not supported with -r"),
            }
        }
        let mut described = Vec::with_capacity(plan.descriptions.len());
        for description in &plan.descriptions {
            let Some(script) = description.script else {
                continue;
            };
            for statement in &description.statements {
                match statement {
                    Statement::Rule(_) => {}
                    Statement::Assign(assignment) => {
                        refuse(assignment.pos, "an assignment in an output section");
                    }
                    Statement::Assert(assertion) => refuse(assertion.pos, "ASSERT"),
                    Statement::Data { pos, .. } => refuse(*pos, "data in an output section"),
                    Statement::Text(_) | Statement::Fill(_) => {
                        refuse(script.pos, "data in an output section");
                    }
                }
            }
            described.push(Described {
                name: script.name.clone(),
                align: alignment(script, &refuse),
            });
        }
        let mut rules = std::mem::take(&mut plan.rules);
        rules.settle_constraints(files, linked);
        Some(Arrangement { rules, described })
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

/// The alignment that a description asks for. What else it says of addresses is refused, but for an address of zero, which
/// sections of relocatable objects have.
fn alignment(script: &OutputSection, refuse: &dyn Fn(Pos, &str)) -> u64 {
    let says = [
        (
            script
                .address
                .as_ref()
                .is_some_and(|address| address.as_number() != Some(0)),
            "an address of an output section",
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
