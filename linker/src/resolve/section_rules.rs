//! Which input section goes where, by the patterns of `SECTIONS` ("Input Section" in GNU ld's manual).
//!
//! A *rule* is an input section description, or the part of one whose patterns are sorted alike: its sections stand
//! together. The first rule that matches takes a section.

use crate::args::SortSection;
use crate::base::ids::OutputId;
use crate::elf::shf;
use crate::input::file::{File, Files};
use crate::input::object::Object;
use crate::input::parts::Section;
use crate::script::{Constraint, InputSpec, SectionPattern, Sort};
use rayon::prelude::*;
use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Names of a file as patterns see them.
#[derive(Clone, Copy)]
pub struct FileNames<'f> {
    /// Its path, or the name of the member of an archive.
    file: &'f [u8],
    /// The archive's path.
    archive: Option<&'f [u8]>,
}

impl<'f> FileNames<'f> {
    /// The names of an input.
    pub fn of(file: &File<'f>) -> FileNames<'f> {
        let path = file.path.as_os_str().as_encoded_bytes();
        match file.member {
            Some(member) => FileNames {
                file: member,
                archive: Some(path),
            },
            None => FileNames {
                file: path,
                archive: None,
            },
        }
    }

    /// What the linker makes, or what many files share, has no name of its own: only patterns for all files match.
    pub const NONE: FileNames<'static> = FileNames {
        file: b"",
        archive: None,
    };
}

/// The sections that stand together.
#[derive(Clone, Debug)]
pub struct Rule {
    spec: InputSpec,
    /// Patterns with the same order; `None`: all sections of the file.
    patterns: Option<Vec<SectionPattern>>,
    /// Their order.
    pub sort: Sort,
    /// Number of the output section description that it is in; `None`: `/DISCARD/`.
    pub description: Option<usize>,
    /// The output section.
    pub output: OutputId,
    /// Matches anything at all: not if the description's constraint is not met.
    enabled: bool,
    all_files: bool,
}

/// Where the rules send a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the rule of this number; kept if it says `KEEP`.
    Rule {
        /// The rule.
        rule: u32,
        /// `KEEP`.
        keep: bool,
    },
    /// Nowhere.
    Discard,
    /// No rule matches.
    Orphan,
}

impl Rule {
    fn matches(&self, file: FileNames, name: &[u8], flags: u64) -> bool {
        let spec = &self.spec;
        if flags & spec.flags.with != spec.flags.with || flags & spec.flags.without != 0 {
            return false;
        }
        let named = |pattern: &SectionPattern| {
            pattern.pattern.matches(name)
                && !pattern
                    .exclude
                    .iter()
                    .any(|pattern| pattern.excludes(file.file, file.archive))
        };
        if let Some(patterns) = &self.patterns
            && !patterns.iter().any(named)
        {
            return false;
        }
        self.all_files
            || spec.file.matches(file.file, file.archive)
                && !spec
                    .exclude
                    .iter()
                    .any(|pattern| pattern.excludes(file.file, file.archive))
    }

    /// Brings the rule's sections, which are in the order of the inputs, into its own order. The functions give a section's
    /// name and alignment, and what files are sorted by.
    pub fn arrange<T: Copy, N: Ord + AsRef<[u8]>, F: Ord>(
        &self,
        inputs: &mut [T],
        name: impl Fn(&T) -> N,
        align: impl Fn(&T) -> u64,
        file: impl Fn(&T) -> F,
    ) {
        match self.sort {
            Sort::Default | Sort::None => {}
            Sort::Name => inputs.sort_by_cached_key(|input| name(input)),
            Sort::Alignment => inputs.sort_by_key(|input| Reverse(align(input))),
            Sort::NameAlignment => {
                inputs.sort_by_cached_key(|input| (name(input), Reverse(align(input))));
            }
            Sort::AlignmentName => {
                inputs.sort_by_cached_key(|input| (Reverse(align(input)), name(input)));
            }
            Sort::NameReversed => inputs.sort_by_cached_key(|input| Reverse(name(input))),
            Sort::InitPriority | Sort::InitPriorityReversed => {
                let names: Vec<N> = inputs.iter().map(name).collect();
                let old = inputs.to_vec();
                let order = by_priority(&names, self.sort == Sort::InitPriorityReversed);
                for (input, from) in inputs.iter_mut().zip(order) {
                    *input = old[from];
                }
            }
        }
        match self.spec.file_sort {
            Sort::Name => inputs.sort_by_key(|input| file(input)),
            Sort::NameReversed => inputs.sort_by_key(|input| Reverse(file(input))),
            _ => {}
        }
    }
}

/// The order of names by the numbers that they end in. As with GNU ld those of the same number, and any that has none
/// compared with any other, are in the order of the names.
fn by_priority<N: AsRef<[u8]>>(names: &[N], reversed: bool) -> Vec<usize> {
    let directed = |order: Ordering| match reversed {
        true => order.reverse(),
        false => order,
    };
    let by_name = |a: usize, b: usize| directed(names[a].as_ref().cmp(names[b].as_ref()));
    let numbers: Vec<Option<u64>> = names
        .iter()
        .map(|name| priority_of(name.as_ref()))
        .collect();
    let (mut with, mut without): (Vec<usize>, Vec<usize>) =
        (0..names.len()).partition(|i| numbers[*i].is_some());
    with.sort_by(|a, b| directed(numbers[*a].cmp(&numbers[*b])).then_with(|| by_name(*a, *b)));
    without.sort_by(|a, b| by_name(*a, *b));
    // Each of those without a number goes before the first of the others whose name comes later.
    let mut order = Vec::with_capacity(names.len());
    let mut rest = without.into_iter().peekable();
    for one in with {
        while let Some(other) = rest.next_if(|other| by_name(*other, one).is_lt()) {
            order.push(other);
        }
        order.push(one);
    }
    order.extend(rest);
    order
}

/// All rules, in order.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The rules.
    pub rules: Vec<Rule>,
    /// Constraints of the descriptions, by number.
    constraints: Vec<Constraint>,
    /// The descriptions whose constraints are not met, once that is settled: as if they were not there.
    pub left_out: Vec<usize>,
    /// Sections that no rule matches are left out (`--orphan-handling=discard`).
    pub discard_orphans: bool,
}

impl Rules {
    /// No rules yet.
    pub fn new(discard_orphans: bool) -> Rules {
        Rules {
            discard_orphans,
            ..Rules::default()
        }
    }

    /// Adds the rules of an input section description. Gives the numbers of them.
    pub fn add(
        &mut self,
        spec: &InputSpec,
        description: Option<usize>,
        output: OutputId,
        default: SortSection,
    ) -> std::ops::Range<usize> {
        let first = self.rules.len();
        let sort_of = |sort: Sort| match (sort, default) {
            (Sort::Default, SortSection::Name) => Sort::Name,
            (Sort::Default, SortSection::Alignment) => Sort::Alignment,
            (Sort::Default | Sort::None, _) => Sort::None,
            // A further level where it adds something.
            (Sort::Name, SortSection::Alignment) => Sort::NameAlignment,
            (Sort::Alignment, SortSection::Name) => Sort::AlignmentName,
            (sort, _) => sort,
        };
        let all_files = spec.file.is_all() && spec.exclude.is_empty();
        let mut push = |sort, patterns| {
            self.rules.push(Rule {
                spec: InputSpec {
                    sections: None,
                    ..spec.clone()
                },
                patterns,
                sort,
                description,
                output,
                enabled: true,
                all_files,
            })
        };
        match &spec.sections {
            None => push(sort_of(Sort::Default), None),
            Some(patterns) => {
                for run in patterns.chunk_by(|a, b| sort_of(a.sort) == sort_of(b.sort)) {
                    push(sort_of(run[0].sort), Some(run.to_vec()));
                }
            }
        }
        first..self.rules.len()
    }

    /// Notes the constraint of a description.
    pub fn constrain(&mut self, description: usize, constraint: Constraint) {
        if self.constraints.len() <= description {
            self.constraints.resize(description + 1, Constraint::None);
        }
        self.constraints[description] = constraint;
    }

    /// Where a section goes.
    pub fn route(&self, file: FileNames, name: &[u8], flags: u64) -> Route {
        self.route_by_names(file, &[name], flags)
    }

    /// Where a section goes that has several names: the first that a rule matches counts.
    pub fn route_by_names(&self, file: FileNames, names: &[&[u8]], flags: u64) -> Route {
        match names.iter().find_map(|name| self.find(file, name, flags)) {
            Some((_, rule)) if rule.description.is_none() => Route::Discard,
            Some((number, rule)) => Route::Rule {
                rule: number,
                keep: rule.spec.keep,
            },
            None if self.discard_orphans => Route::Discard,
            None => Route::Orphan,
        }
    }

    /// Whether a rule for `/DISCARD/` takes a section.
    pub fn discards(&self, file: FileNames, name: &[u8], flags: u64) -> bool {
        let found = self.find(file, name, flags);
        found.is_some_and(|(_, rule)| rule.description.is_none())
    }

    /// Where a section of an input goes.
    ///
    /// What a ticket stands for was compiled with `-ffunction-sections -fdata-sections`, whether the build asks for them
    /// or not. So a definition is matched as what these make of it, `.text.f`, and, if no rule knows that, as what would be
    /// there without them, `.text`.
    pub fn route_section(
        &self,
        file: &File,
        object: &Object,
        number: u32,
        section: &Section,
    ) -> Route {
        let names = FileNames::of(file);
        match object.full_name(number, section) {
            Cow::Borrowed(name) => self.route(names, name, section.flags),
            Cow::Owned(full) => self.route_by_names(names, &[&full, section.name], section.flags),
        }
    }

    fn find(&self, file: FileNames, name: &[u8], flags: u64) -> Option<(u32, &Rule)> {
        (0u32..)
            .zip(&self.rules)
            .find(|(_, rule)| rule.enabled && rule.matches(file, name, flags))
    }

    /// Finds out which descriptions with `ONLY_IF_RO` and `ONLY_IF_RW` count. One after the other, as what the first
    /// does not take is there for the next.
    pub fn settle_constraints(&mut self, files: &Files, linked: &[bool]) {
        for description in 0..self.constraints.len() {
            let constraint = self.constraints[description];
            if constraint == Constraint::None {
                continue;
            }
            let any_writable = AtomicBool::new(false);
            files
                .0
                .par_iter()
                .zip(linked)
                .filter(|(_, linked)| **linked)
                .for_each(|(file, _)| {
                    let Some(object) = file.object() else { return };
                    for number in 1..object.section_count() {
                        let Some(section) = object.section(number) else {
                            continue;
                        };
                        if section.flags & shf::WRITE == 0
                            || any_writable.load(Relaxed)
                            || !self.may_take(description, object, number, &section)
                        {
                            continue;
                        }
                        if let Route::Rule { rule, .. } =
                            self.route_section(file, object, number, &section)
                            && self.rules[rule as usize].description == Some(description)
                        {
                            any_writable.store(true, Relaxed);
                        }
                    }
                });
            if any_writable.into_inner() != (constraint == Constraint::OnlyIfRw) {
                self.left_out.push(description);
                for rule in &mut self.rules {
                    rule.enabled &= rule.description != Some(description);
                }
            }
        }
    }

    /// Whether some rule of a description matches the section's name: asked first, because it is cheap.
    fn may_take(
        &self,
        description: usize,
        object: &Object,
        number: u32,
        section: &Section,
    ) -> bool {
        let full = object.full_name(number, section);
        let own = |rule: &&Rule| rule.description == Some(description);
        self.rules.iter().filter(own).any(|rule| {
            rule.patterns.as_ref().is_none_or(|patterns| {
                patterns.iter().any(|pattern| {
                    pattern.pattern.matches(section.name) || pattern.pattern.matches(&full)
                })
            })
        })
    }
}

/// The number at the end of a name such as `.init_array.101`, if there is one; `.ctors.N` counts downwards.
pub fn priority_of(name: &[u8]) -> Option<u64> {
    let dot = name.iter().rposition(|b| *b == b'.').map_or(0, |i| i + 1);
    let number = std::str::from_utf8(&name[dot..])
        .ok()
        .and_then(|digits| digits.parse::<u64>().ok());
    let counts_down = name.starts_with(b".ctors") || name.starts_with(b".dtors");
    match counts_down {
        true => number.map(|n| 65535u64.saturating_sub(n)),
        false => number,
    }
}
