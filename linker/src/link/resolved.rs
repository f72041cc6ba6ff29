//! The second stage: which files are linked, what their sections are, and what every name means.

use super::dynamic_output::{gives_dynamic_up, is_dynamic};
use super::names::{self, Extracted, Names};
use super::opened::Opened;
use super::{Failed, Link, check, check_inputs};
use crate::args::OutputKind;
use crate::base::ids::SymbolId;
use crate::base::key::Key;
use crate::graph::eh_frame_records::Frames;
use crate::input::file::Files;
use crate::layout::scripting::{self, Assignments};
use crate::messages::timing::Timing;
use crate::report::cross_reference;
use crate::report::shlib_undefined;
use crate::report::unresolved::{
    refuse_intermediate_code, refuse_other_tables, report_duplicates, trace_members,
};
use crate::report::warnings;
use crate::resolve::binding;
use crate::resolve::input_sections::{SectionFacts, Sections, Unloaded};
use crate::resolve::lazy_shared_names;
use crate::resolve::linker_symbols::{self, LinkerSymbols};
use crate::resolve::output_sections::Outputs;
use crate::resolve::resolution::{self, Definitions, LostGroups};
use crate::resolve::room::Room;
use crate::resolve::roots::looked_for;
use crate::resolve::symbol_table::SymbolTable;
use crate::resolve::symbol_versions::{self, Versioning};
use crate::resolve::unique_sections::Unique;
use std::sync::atomic::Ordering::Relaxed;

/// What is linked, and what its names mean.
pub struct Resolved<'l, 'a> {
    /// The inputs.
    pub files: Files<'a>,
    /// Their symbols, with the definition of each.
    pub symbols: SymbolTable<'a>,
    /// Where these are defined.
    pub definitions: Definitions,
    /// The sections of the files that are linked.
    pub sections: Sections,
    /// What was seen when they were numbered.
    pub facts: SectionFacts,
    /// The frame descriptions in them.
    pub frames: Frames,
    /// Which files are linked.
    pub linked: Vec<bool>,
    /// The groups of these that another one has, too, and that are linked of that.
    pub lost_groups: LostGroups,
    /// Symbols that options need, whoever refers to them.
    pub required: Vec<SymbolId>,
    /// The layout of scripts, if there is one.
    pub plan: Option<scripting::Plan<'l>>,
    /// The output sections that inputs, options and scripts ask for.
    pub outputs: Outputs<'a>,
    /// Whether the output has a dynamic section.
    pub dynamic_output: bool,
    /// What scripts assign to symbols.
    pub assignments: Assignments<'l>,
    /// The symbols that the linker defines.
    pub linker_symbols: LinkerSymbols,
    /// Which version each symbol has.
    pub versioning: Versioning,
}

/// Resolves all symbols.
///
/// # Errors
/// If there was an error.
pub fn resolve<'l, 'a>(
    link: Link<'l>,
    opened: &'l Opened<'_, 'a>,
    mut files: Files<'a>,
    timing: &mut Timing,
) -> Result<Resolved<'l, 'a>, Failed> {
    let Link { args, diag, .. } = link;
    let symbols = name(link, opened, &mut files)?;
    timing.phase("intern names");

    let Extracted { required, linked } = extract(link, opened, &files, &symbols)?;
    timing.phase("extract members");

    // Now that it is known which objects count, number their sections and send each to its part of the output.
    // Of equal groups only one is, and nobody need look at the others.
    let lost_groups = lose_groups(link, opened, &files, &symbols, &linked);
    names::complete(&mut files, &linked, &lost_groups, diag);
    let files = files;
    let mut plan = scripting::Plan::new(&opened.scripts, args, diag);
    check(diag)?;
    let mut outputs = plan
        .as_mut()
        .map_or_else(Outputs::default, |plan| plan.outputs(&files, &linked));
    let (sections, facts) = number(link, &files, &linked, &mut outputs);
    timing.phase("number sections");

    // A discarded group defines nothing: before the definitions that count are chosen.
    resolution::discard_groups(&files, &lost_groups, &sections, diag);
    let definitions = define(link, &files, &symbols, &sections, &mut outputs);
    refuse_intermediate_code(&files, &symbols, |_| false, diag);
    refuse_other_tables(&files, &symbols, diag);
    cross_reference::trace(args, &files, &symbols, &linked, diag);
    check(diag)?;
    timing.phase("resolve symbols");

    // What objects do not define the linker may; then every symbol's binding is known.
    let dynamic_output = is_dynamic(args, &files) && !gives_dynamic_up(args, &files, &outputs);
    let mut linker_symbols = LinkerSymbols::new();
    let leaves_out = |assignment: &_| {
        let plan = plan.as_ref();
        plan.is_some_and(|plan| plan.leaves_out(assignment))
    };
    // What modules may ask for at run time is as good as referred to.
    let mut looked_for = looked_for(args, &symbols);
    if dynamic_output {
        let names = linker_symbols::exported(args).iter();
        looked_for.extend(names.filter_map(|name| symbols.find(name)));
    }
    let assignments = Assignments::define(
        &opened.scripts,
        &symbols,
        &looked_for,
        &leaves_out,
        &mut linker_symbols,
    );
    let linker_symbols =
        linker_symbols::define(&symbols, &outputs, args, dynamic_output, linker_symbols);
    let mut versioning = opened.versioning.clone();
    versioning.check_assigned(&opened.scripts.versioned(), &symbols, args, diag);
    versioning.assign(&files, &symbols, args, diag);
    binding::bind(&files, &symbols, &versioning, args, dynamic_output);
    shlib_undefined::report(args, &files, &symbols, diag);
    warnings::required_symbols(args, &files, &symbols, diag);
    check_inputs(&files, diag)?;
    timing.phase("bind symbols");

    // Frames belong to code, so they must be known before code is traced.
    let frames = Frames::parse(&files, &sections, &facts.frames, diag);
    timing.phase("read frames");
    Ok(Resolved {
        files,
        symbols,
        definitions,
        sections,
        facts,
        frames,
        linked,
        lost_groups,
        required,
        plan,
        outputs,
        dynamic_output,
        assignments,
        linker_symbols,
        versioning,
    })
}

/// Gives every distinct name a number.
fn name<'a>(link: Link, opened: &Opened, files: &mut Files<'a>) -> Result<SymbolTable<'a>, Failed> {
    let may_be_left_out =
        opened.compiled.is_none() && lazy_shared_names::may_be_left_out(link.args, &opened.scripts);
    let names = match may_be_left_out {
        true => Names::Mentioned,
        false => Names::All,
    };
    let symbols = names::intern(link.args, files, names, link.diag);
    if lazy_shared_names::are_left_out(files) {
        link.doubts.unseen.store(true, Relaxed);
    }
    symbols
}

/// Finds out which archive members are needed.
fn extract(
    link: Link,
    opened: &Opened,
    files: &Files,
    symbols: &SymbolTable,
) -> Result<Extracted, Failed> {
    let args = link.args;
    let extracted = names::extract(args, files, symbols, &opened.scripts);
    let is_missing = |id: &SymbolId| symbols.key(*id) == Key::NONE;
    if args.trust_tables && opened.by_index && extracted.required.iter().any(is_missing) {
        // An archive may have it, and its index be wrong: nobody would complain.
        return Err(Failed);
    }
    trace_members(args, files, &extracted.linked);
    Ok(extracted)
}

/// Finds out which of equal COMDAT groups is linked.
pub(crate) fn lose_groups(
    link: Link,
    opened: &Opened,
    files: &Files,
    symbols: &SymbolTable,
    linked: &[bool],
) -> LostGroups {
    let compiled = opened.compiled.as_ref();
    let owned = compiled.map_or_else(Vec::new, |compiled| compiled.owned_groups(symbols));
    resolution::lose_groups(files, symbols, linked, &owned, link.diag)
}

/// Numbers the sections, and sends each to its part of the output.
fn number<'a>(
    link: Link,
    files: &Files<'a>,
    linked: &[bool],
    outputs: &mut Outputs<'a>,
) -> (Sections, SectionFacts) {
    let args = link.args;
    if args.z.rodynamic {
        outputs.make_dynamic_read_only();
    }
    let (mut sections, facts) = Sections::build(
        files,
        linked,
        Unloaded::from_args(args),
        Unique::new(args).as_ref(),
        outputs,
        link.diag,
    );
    if args.z.keep_text_section_prefix {
        sections.keep_text_prefixes(files, outputs);
    }
    Room::of(args).add_kinds(outputs);
    if args.kind != OutputKind::Shared {
        // Whoever links the output refers to none of its symbols.
        sections.discard(&facts.warnings);
    }
    (sections, facts)
}

/// Chooses the definition of each name among those that are linked, and says what is wrong with the others.
fn define<'a>(
    link: Link,
    files: &Files<'a>,
    symbols: &SymbolTable<'a>,
    sections: &Sections,
    outputs: &mut Outputs<'a>,
) -> Definitions {
    let Link { args, diag, .. } = link;
    let shrunk = resolution::define(files, symbols, sections);
    let (mut definitions, mut duplicates) = resolution::publish(files, symbols, sections, diag);
    // A script's rules may put common blocks where they like, which adds parts to the output.
    definitions.route_commons(files, symbols, outputs, diag);
    // Names that are two spellings of one definition are no duplicates of each other.
    symbol_versions::settle_aliases(files, symbols, &mut duplicates);
    report_duplicates(args, files, symbols, sections, &duplicates, diag);
    warnings::commons(args, files, symbols, sections, diag);
    warnings::shrunk_commons(files, symbols, &shrunk, diag);
    definitions
}
