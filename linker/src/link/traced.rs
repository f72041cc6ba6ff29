//! The third stage: what of the inputs is in the output, and what they need from the linker.

use super::resolved::Resolved;
use super::{Failed, Link, check_inputs, too_large};
use crate::args::{OutputKind, PackDynRelocs};
use crate::elf::shf;
use crate::graph::eh_frame_records::FrameLayout;
use crate::graph::icf::{Folder, Folds};
use crate::graph::merge::Merged;
use crate::graph::relocation_action::{self, Mode};
use crate::graph::repository_pieces::{PiecePlaces, UsedPieces};
use crate::graph::sframe::Sframe;
use crate::graph::trace::groups::Groups;
use crate::graph::trace::{Needs, Tracer};
use crate::input::file::File;
use crate::layout::commons::Commons;
use crate::layout::dynamic::{self, Dynamic, GlibcAbi};
use crate::layout::got::{Entry, Got};
use crate::layout::placement::{self, MergeClasses, MergedPieces, PieceError};
use crate::layout::synthetic_sizes::relocation_counts;
use crate::messages::timing::Timing;
use crate::report::gnu_warning;
use crate::report::unresolved::{print_relative, print_unused, report_undefined};
use crate::report::warnings;
use crate::resolve::input_sections::Sections;
use crate::resolve::output_sections::Outputs;
use crate::resolve::room::Room;
use crate::resolve::roots::{bounded_parts, has_start, roots};
use crate::resolve::section_rules::FileNames;
use crate::resolve::symbol_facts::Bound;
use std::sync::atomic::Ordering::Relaxed;

/// What is linked, and what that needs. Nothing has a place yet.
///
/// Beside it, tracing leaves marks: which sections are alive (in the table of sections), which symbols need slots (in
/// their flags), and which CIEs are used.
pub struct Traced<'r> {
    /// How the output is linked.
    pub mode: Mode,
    /// What sections need from the linker.
    pub needs: Needs,
    /// Slots and PLT entries.
    pub got: Got,
    /// The dynamic symbols, if the output has any.
    pub dynamic: Option<Dynamic<'r>>,
    /// The common blocks that are linked.
    pub commons: Commons,
    /// The output sections, now also those of the repositories' pieces.
    pub outputs: Outputs<'r>,
    /// The merged pieces.
    pub merged: Merged<'r>,
    /// Which parts hold them.
    pub merge_classes: MergeClasses,
    /// Where the repositories' pieces are among them.
    pub pieces: PiecePlaces,
    /// Which sections stand for others.
    pub folds: Folds,
    /// Where each file's frames go in `.eh_frame`.
    pub frame_layout: FrameLayout,
    /// The output's `.sframe`, if it has one.
    pub sframe: Option<Sframe>,
}

/// Traces what is linked. With it goes, by input section, the index of the merge input: the next stage makes the offsets of
/// all other sections of it, in the same place, as there are many.
///
/// # Errors
/// If there was an error.
pub fn trace<'r>(
    link: Link<'r>,
    resolved: &'r Resolved<'r, 'r>,
    timing: &mut Timing,
) -> Result<(Traced<'r>, Vec<u64>), Failed> {
    let Link { args, diag, .. } = link;
    let Resolved {
        files,
        symbols,
        definitions,
        sections,
        facts,
        frames,
        ..
    } = resolved;
    // Follow and scan all fixups. After this it is known what is linked, and what it needs.
    let mode = mode(link, resolved);
    let used_pieces = UsedPieces::new(files);
    let bounded = bounded_parts(args, &resolved.outputs, &resolved.linker_symbols);
    let needs = follow(link, resolved, mode, &used_pieces, &bounded)?;
    timing.phase("trace and scan");

    // Make what was asked for: slots, PLT entries, copies, dynamic symbols, commons.
    let mut got = Got::allocate(files, symbols, &needs, mode);
    if mode.pic && !mode.pack {
        let [relative, ..] = relocation_counts(&got, &needs);
        got.make_room(Room::of(args).of_relocations(relative));
    }
    if resolved.dynamic_output {
        let is_imported = |entry: &&Entry| entry.facts.has(Bound::IMPORTED);
        let imported = got.entries.iter().filter(is_imported).count();
        got.make_import_room(Room::of(args).of_imports(imported as u32));
        if Room::of(args) != Room::NONE && mode.shared {
            got.make_module_room(mode);
        }
        let [_, symbolic, _] = relocation_counts(&got, &needs);
        got.make_symbolic_room(Room::of(args).of_symbolic(symbolic));
    }
    let got = got;
    let dynamic = make_dynamic(link, resolved, &needs, &got)?;
    let commons = Commons::place(definitions, symbols);
    timing.phase("allocate slots");

    // Unite equal pieces and equal CIEs. Only what is alive counts.
    let mut outputs: Outputs<'r> = resolved.outputs.clone();
    let MergedPieces {
        merged,
        classes: merge_classes,
        repository: pieces,
        input_of,
    } = placement::merge_pieces(
        files,
        sections,
        &mut outputs,
        &used_pieces,
        &mut |_, _, _| {},
    )
    .map_err(|why| not_merged(link, resolved, why))?;
    timing.phase("merge pieces");

    // Leave out what is the same as something else: behind merging, as two sections are the same only if the pieces they
    // refer to are. From here on it is known what will be in the output.
    let folder = Folder {
        args,
        files,
        symbols,
        definitions,
        sections,
        frames,
        outputs: &outputs,
        merged: &merged,
        pieces: &pieces,
        merge_inputs: &input_of,
        bounded: &bounded,
        scripted: resolved.plan.is_some(),
        link_order: &facts.link_order,
        diag,
    };
    let folds = folder.fold(&needs);
    timing.phase("fold identical code");

    // What was folded has no frames.
    let frame_layout = frames.layout(files, symbols, sections, Room::of(args));
    let sframe = match args.discard_sframe {
        true => None,
        false => Sframe::collect(files, sections, &folds, &facts.sframes, diag),
    };
    timing.phase("lay out frames");
    let traced = Traced {
        mode,
        needs,
        got,
        dynamic,
        commons,
        outputs,
        merged,
        merge_classes,
        pieces,
        folds,
        frame_layout,
        sframe,
    };
    Ok((traced, input_of))
}

/// What kind of output it is, as far as it matters to relocations.
fn mode(link: Link, resolved: &Resolved) -> Mode {
    let args = link.args;
    let rules = resolved.outputs.rules.as_deref();
    let discarded =
        || rules.is_some_and(|rules| rules.discards(FileNames::NONE, b".relr.dyn", shf::ALLOC));
    Mode {
        pic: args.kind.is_pic(),
        shared: args.kind == OutputKind::Shared,
        // A slot can be farther away than what an instruction reaches: loads of such symbols stay loads.
        relax: args.relax && resolved.facts.loaded_size < relocation_action::NEAR,
        pack: args.kind.is_pic() && args.pack_dyn_relocs == PackDynRelocs::Relr && !discarded(),
    }
}

/// Follows and scans all fixups, and reports what is missing.
fn follow<'r>(
    link: Link<'r>,
    resolved: &'r Resolved<'r, 'r>,
    mode: Mode,
    pieces: &UsedPieces<'r>,
    bounded: &[bool],
) -> Result<Needs, Failed> {
    let Link { args, diag, .. } = link;
    let Resolved {
        files,
        symbols,
        sections,
        facts,
        ..
    } = resolved;
    // Only code that is linked to its place takes the address of a library's name for its own.
    let may_lack = |file: &File| file.shared().is_some() && file.as_needed;
    let unneeded = match !mode.pic && files.0.iter().any(may_lack) {
        true => {
            let used = dynamic::used(files, symbols, false);
            let files = files.0.iter().zip(used);
            files.map(|(file, used)| may_lack(file) && !used).collect()
        }
        false => Vec::new(),
    };
    let tracer = Tracer {
        unneeded: &unneeded,
        pieces,
        files,
        symbols,
        definitions: &resolved.definitions,
        sections,
        frames: &resolved.frames,
        mode,
        gc: args.gc_sections,
        groups: match args.gc_sections {
            true => Groups::find(files, sections),
            false => Groups::default(),
        },
        prune: resolved.outputs.rules.is_none() && has_start(args, symbols),
        link_order: &facts.link_order,
        bounded,
        text: args.z.text,
        allow_copies: args.z.copyreloc,
        allow_protected_copies: args.z.extern_protected_data,
        report_relative: args.z.report_relative_reloc,
        diag,
    };
    let needs = tracer.run(&roots(args, resolved.assignments.roots(symbols), symbols));
    report_undefined(args, files, symbols, sections, &needs, diag);
    gnu_warning::report(files, symbols, sections, &facts.warnings, diag);
    warnings::text_relocations(args, needs.text_relocations.load(Relaxed), diag);
    check_inputs(files, diag)?;
    // Nothing was missing. What fails from here on would fail again.
    link.doubts.unseen.store(false, Relaxed);
    print_relative(files, symbols, sections, &needs, diag);
    if args.print_gc_sections {
        print_unused(files, sections);
    }
    Ok(needs)
}

/// The dynamic symbols, if the output has any.
fn make_dynamic<'r>(
    link: Link<'r>,
    resolved: &'r Resolved<'r, 'r>,
    needs: &Needs,
    got: &Got,
) -> Result<Option<Dynamic<'r>>, Failed> {
    let args = link.args;
    if !resolved.dynamic_output {
        return Ok(None);
    }
    let abi = GlibcAbi {
        packed: got.counts.packed > 0 || !needs.packed.is_empty(),
        descriptors: got.has_descriptors(),
        tag_descriptors: args.gnu2_tls_tag,
        marked_plt: args.z.mark_plt,
    };
    let Resolved {
        files,
        symbols,
        versioning,
        ..
    } = resolved;
    let dynamic = Dynamic::new(
        files,
        symbols,
        versioning,
        args,
        abi,
        Room::of(args),
        got.spare.imports,
    );
    dynamic
        .map(Some)
        .ok_or_else(|| too_large(link.diag, ".dynstr"))
}

fn not_merged(link: Link, resolved: &Resolved, why: PieceError) -> Failed {
    match why {
        PieceError::Section(section, why) => {
            let (file, number) = Sections::origin(&resolved.sections, section);
            let file = resolved.files.get(file);
            link.diag.error(format!("{file}: section {number}: {why}"));
        }
        PieceError::Repository(why) => link.diag.error(why),
    }
    Failed
}
