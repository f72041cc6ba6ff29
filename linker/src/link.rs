//! The link, from beginning to end.
//!
//! [`link`] is a list of phases. Each takes what the earlier ones have made, by
//! shared reference, and makes something new; inside, most of them are parallel
//! loops. Nothing that a phase has finished is changed afterwards, but for two
//! kinds of marks that phases add up with atomics: the symbols' flags and the
//! sections' states.

use crate::addresses::{Places, Starts};
use crate::args::{Args, OutputFormat, OutputKind, PackDynRelocs};
use crate::build_id;
use crate::cross_reference;
use crate::debug_sections;
use crate::dependency_file;
use crate::diag::Diagnostics;
use crate::dynamic::{Dynamic, DynamicFacts, GlibcAbi};
use crate::elf::Rela;
use crate::elf_object::Malformed;
use crate::emit_relocs;
use crate::export;
use crate::file::{Body, Files};
use crate::flat_binary;
use crate::frames::Frames;
use crate::got::Got;
use crate::host::Host;
use crate::icf::Folder;
use crate::ids::{FileId, SymbolId};
use crate::image;
use crate::inputs::{self, InputArena};
use crate::layout::{self, PieceError};
use crate::linker_symbols::{self, LinkerSymbols};
use crate::log;
use crate::lto;
use crate::made::{self, Made};
use crate::map;
use crate::mentions::{bounded_parts, has_start, looked_for, mentioned, required, roots, wrap};
use crate::notes::{build_id_style, interpreter, package_note, properties};
use crate::object::Object;
use crate::output::{Outputs, Std, shf};
use crate::output_file::{OutputFile, Use};
use crate::pieces::UsedPieces;
use crate::plan::{self, Mode};
use crate::relocatable;
use crate::relocate::Relocator;
use crate::relr;
use crate::report::{
    print_relative, print_unused, refuse_intermediate_code, refuse_other_tables, report_duplicates,
    report_undefined, trace_members,
};
use crate::resolve::{self, LostGroups};
use crate::retain::Retained;
use crate::scripting::{self, Assignments, FileNames, LaidOut, Placing};
use crate::section_index;
use crate::sections::{Sections, Unloaded};
use crate::segments;
use crate::sframe::Sframe;
use crate::shared_checks;
use crate::shared_names;
use crate::sizes::{
    self, Wanted, name_sections, place_commons, relocation_counts, section_names_table,
    settle_links, settle_types,
};
use crate::strtab::StringTable;
use crate::symbol_warnings;
use crate::symbols::{Key, SymbolTable};
use crate::symtab::Chooser;
use crate::timing::Timing;
use crate::trace::groups::Groups;
use crate::trace::{Needs, Tracer};
use crate::unique::Unique;
use crate::unsupported;
use crate::versioning;
use crate::warnings;
use crate::write::{self, Writer};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Why there is no output; the reasons are in the [`Diagnostics`].
#[derive(Debug)]
pub struct Failed;

/// What is believed at first, and whether it may be wrong.
#[derive(Default)]
struct Doubts {
    /// Whether a load from a slot can be made an address is decided before anything has its place; a script or an option
    /// has put sections too far from each other for that.
    too_far: AtomicBool,
    /// Members of archives and symbols of shared objects were not looked at, as tables of these say that nothing needs them.
    unseen: AtomicBool,
}

/// Links. Messages go to `diag`; if any of them is an error there is no output. Where what is believed at first proves wrong,
/// or a link fails that may be because of it, everything is done again without.
pub fn link(args: &Args, diag: &Diagnostics, host: &dyn Host) -> Result<(), Failed> {
    let doubts = Doubts::default();
    let mut args = Cow::Borrowed(args);
    loop {
        let result = attempt(&args, diag, host, &doubts);
        let too_far = args.relax && doubts.too_far.load(Relaxed);
        let unseen = args.trust_tables && result.is_err() && doubts.unseen.load(Relaxed);
        if !too_far && !unseen {
            return result;
        }
        diag.forget();
        let again = args.to_mut();
        again.relax &= !too_far;
        again.trust_tables &= !unseen;
        // The names of the inputs are shown already, and what was passed over.
        again.trace = 0;
        again.warn_search_mismatch = false;
    }
}

fn attempt(
    args: &Args,
    diag: &Diagnostics,
    host: &dyn Host,
    doubts: &Doubts,
) -> Result<(), Failed> {
    for warning in &args.warnings {
        diag.warn(warning);
    }
    let mut timing = Timing::new(args);
    unsupported::report(args, diag);
    check(diag)?;
    if args.kind == OutputKind::Relocatable {
        return relocatable::link(args, diag, host);
    }

    // Map all files, list archive members, and find the tables of each object.
    let arena = InputArena::default();
    let inputs = inputs::open(&arena, args, mentioned(args, &arena), host, diag);
    doubts.unseen.store(inputs.by_index, Relaxed);
    let (mut files, mut scripts) = (inputs.files, inputs.scripts);
    scripts.check(diag);
    scripts.complete(args, diag);
    scripts.order(args, diag);
    let amended = scripts.amend(args);
    let args = amended.as_ref().unwrap_or(args);
    let mut versioning = versioning::read(args, inputs.version_scripts, diag);
    check(diag)?;
    timing.phase("open inputs");

    // Let the compiler's plugin make machine code of intermediate code. It takes away its files when it goes.
    let compiled = lto::compile(
        &arena,
        &mut files,
        inputs.intermediate,
        &scripts,
        &versioning,
        args,
        diag,
    )?;
    timing.phase("optimise");

    // Give every distinct name a number. No names come after this.
    let symbols = match compiled.is_none() && shared_names::may_be_left_out(args, &scripts) {
        true => SymbolTable::intern_mentioned(&mut files, diag),
        false => SymbolTable::intern(&mut files, diag),
    };
    if shared_names::are_left_out(&files) {
        doubts.unseen.store(true, Relaxed);
    }
    check(diag)?;
    wrap(args, &files, &symbols);
    versioning::unite_default_versions(&files, &symbols);
    timing.phase("intern names");

    // Find out which archive members are needed. Definitions that this finds are preliminary:
    // groups are not resolved yet.
    scripting::define_assigned(&scripts, &symbols);
    let required = required(args, &scripts, &symbols);
    let linked = resolve::extract(&files, &symbols, &required);
    if args.trust_tables
        && inputs.by_index
        && required.iter().any(|id| symbols.key(*id) == Key::NONE)
    {
        // An archive may have it, and its index be wrong: nobody would complain.
        return Err(Failed);
    }
    trace_members(args, &files, &linked);
    timing.phase("extract members");

    // Now that it is known which objects count, number their sections and send each to its part of the output.
    // Of equal groups only one is, and nobody need look at the others.
    let owned = compiled
        .as_ref()
        .map(|compiled| compiled.owned_groups(&symbols));
    let owned = owned.unwrap_or_default();
    let lost_groups = resolve::lose_groups(&files, &symbols, &linked, &owned, diag);
    complete(&mut files, &linked, &lost_groups, diag);
    let files = files;
    let mut plan = scripting::Plan::new(&scripts, args, diag);
    check(diag)?;
    let mut outputs = match &mut plan {
        None => Outputs::default(),
        Some(plan) => plan.outputs(&files, &linked),
    };
    if args.z.rodynamic {
        outputs.make_dynamic_read_only();
    }
    let (mut sections, facts) = Sections::build(
        &files,
        &linked,
        Unloaded::from_args(args),
        Unique::new(args).as_ref(),
        &mut outputs,
        diag,
    );
    if args.z.keep_text_section_prefix {
        sections.keep_text_prefixes(&files, &mut outputs);
    }
    if args.kind != OutputKind::Shared {
        // Whoever links the output refers to none of its symbols.
        sections.discard(&facts.warnings);
    }
    let sections = sections;
    timing.phase("number sections");

    // A discarded group defines nothing.
    resolve::discard_groups(&files, &lost_groups, &sections, diag);
    let shrunk = resolve::define(&files, &symbols, &sections);
    let (mut definitions, mut duplicates) = resolve::publish(&files, &symbols, &sections, diag);
    definitions.route_commons(&files, &symbols, &mut outputs, diag);
    let definitions = definitions;
    versioning::settle_aliases(&files, &symbols, &mut duplicates);
    report_duplicates(args, &files, &symbols, &sections, &duplicates, diag);
    warnings::commons(args, &files, &symbols, &sections, diag);
    warnings::shrunk_commons(&files, &symbols, &shrunk, diag);
    refuse_intermediate_code(&files, &symbols, diag);
    refuse_other_tables(&files, &symbols, diag);
    cross_reference::trace(args, &files, &symbols, &linked, diag);
    check(diag)?;
    timing.phase("resolve symbols");

    // What objects do not define the linker may; then every symbol's binding is known.
    let dynamic_output = is_dynamic(args, &files) && !gives_dynamic_up(args, &files, &outputs);
    let mut linker_symbols = LinkerSymbols::new();
    let assignments = Assignments::define(
        &scripts,
        &symbols,
        &looked_for(args, &symbols),
        &|assignment| {
            plan.as_ref()
                .is_some_and(|plan| plan.leaves_out(assignment))
        },
        &mut linker_symbols,
    );
    let linker_symbols =
        linker_symbols::define(&symbols, &outputs, args, dynamic_output, linker_symbols);
    versioning.assign(&files, &symbols, args, diag);
    export::bind(&files, &symbols, &versioning, args, dynamic_output);
    shared_checks::report(args, &files, &symbols, diag);
    warnings::required_symbols(args, &files, &symbols, diag);
    check_inputs(&files, diag)?;
    timing.phase("bind symbols");

    // Frames belong to code, so they must be known before code is traced.
    let frames = Frames::parse(&files, &sections, &facts.frames, diag);
    timing.phase("read frames");

    // Follow and scan all fixups. After this it is known what is linked, and what it needs.
    let mode = Mode {
        pic: args.kind.is_pic(),
        shared: args.kind == OutputKind::Shared,
        // A slot can be farther away than what an instruction reaches: loads of such symbols stay loads.
        relax: args.relax && facts.loaded_size < plan::NEAR,
        pack: args.kind.is_pic()
            && args.pack_dyn_relocs == PackDynRelocs::Relr
            && !outputs
                .rules
                .as_deref()
                .is_some_and(|rules| rules.discards(FileNames::NONE, b".relr.dyn", shf::ALLOC)),
    };
    let used_pieces = UsedPieces::new(&files);
    let tracer = Tracer {
        pieces: &used_pieces,
        files: &files,
        symbols: &symbols,
        definitions: &definitions,
        sections: &sections,
        frames: &frames,
        mode,
        gc: args.gc_sections,
        groups: match args.gc_sections {
            true => Groups::find(&files, &sections),
            false => Groups::default(),
        },
        prune: outputs.rules.is_none() && has_start(args, &symbols),
        link_order: &facts.link_order,
        bounded: bounded_parts(args, &outputs, &linker_symbols),
        text: args.z.text,
        allow_copies: args.z.copyreloc,
        allow_protected_copies: args.z.extern_protected_data,
        report_relative: args.z.report_relative_reloc,
        diag,
    };
    let needs = tracer.run(&roots(args, &assignments, &symbols));
    report_undefined(args, &files, &symbols, &sections, &needs, diag);
    symbol_warnings::report(&files, &symbols, &sections, &facts.warnings, diag);
    warnings::text_relocations(args, needs.text_relocations.load(Relaxed), diag);
    check_inputs(&files, diag)?;
    // Nothing was missing. What fails from here on would fail again.
    doubts.unseen.store(false, Relaxed);
    print_relative(&files, &symbols, &sections, &needs, diag);
    if args.print_gc_sections {
        print_unused(&files, &sections);
    }
    timing.phase("trace and scan");

    // Make what was asked for: slots, PLT entries, copies, dynamic symbols, commons.
    let got = Got::allocate(&files, &symbols, &needs, mode);
    let dynamic = match dynamic_output {
        true => Some(
            Dynamic::new(
                &files,
                &symbols,
                &versioning,
                args,
                GlibcAbi {
                    packed: got.counts.packed > 0 || !needs.packed.is_empty(),
                    descriptors: got.has_descriptors(),
                    tag_descriptors: args.gnu2_tls_tag,
                    marked_plt: args.z.mark_plt,
                },
            )
            .ok_or_else(|| too_large(diag, ".dynstr"))?,
        ),
        false => None,
    };
    let commons = place_commons(&definitions, &symbols);
    timing.phase("allocate slots");

    // Unite equal pieces and equal CIEs. Only what is alive counts.
    let pieces =
        layout::merge_pieces(&files, &sections, &mut outputs, &used_pieces).map_err(|why| {
            match why {
                PieceError::Section(section, why) => {
                    let (file, number) = sections.origin(section);
                    diag.error(format!("{}: section {number}: {why}", files.get(file)));
                }
                PieceError::Repository(why) => diag.error(why),
            }
            Failed
        })?;
    let (merged, merge_classes) = (pieces.merged, pieces.classes);
    timing.phase("merge pieces");

    // Leave out what is the same as something else. From here on it is known what will be in the output.
    let folder = Folder {
        args,
        files: &files,
        symbols: &symbols,
        definitions: &definitions,
        sections: &sections,
        frames: &frames,
        outputs: &outputs,
        merged: &merged,
        pieces: &pieces.repository,
        merge_inputs: &pieces.input_of,
        bounded: &tracer.bounded,
        scripted: plan.is_some(),
        link_order: &facts.link_order,
        diag,
    };
    let folds = folder.fold(&needs);
    timing.phase("fold identical code");

    let frame_layout = frames.layout(&files, &symbols, &sections);
    let sframe = match args.discard_sframe {
        true => None,
        false => Sframe::collect(&files, &sections, &folds, &facts.sframes, diag),
    };
    timing.phase("lay out frames");

    let retained = Retained::read(args, diag);
    let chooser = Chooser {
        files: &files,
        symbols: &symbols,
        definitions: &definitions,
        sections: &sections,
        folds: &folds,
        args,
        retained: retained.as_ref(),
    };
    let mut symtab = chooser.layout();
    if symtab
        .as_ref()
        .is_some_and(|symtab| symtab.names > u32::MAX.into())
    {
        return Err(too_large(diag, ".strtab"));
    }
    timing.phase("count symbols");

    // Sizes of what the linker makes, then the placement of everything, then addresses.
    let (properties, ibt) = properties(args, &files, &facts, diag);
    let interpreter = interpreter(args, dynamic_output);
    let package = package_note(args);
    let build_id_style = build_id_style(args);
    let mut sizes = sizes::reserve(
        &Wanted {
            args,
            symbols: &symbols,
            needs: &needs,
            got: &got,
            dynamic: dynamic.as_ref(),
            symtab: symtab.as_ref(),
            frames: &frame_layout,
            sframe: sframe.as_ref(),
            merged: &merged,
            merge_classes: &merge_classes,
            commons,
            interpreter: interpreter.len(),
            properties: properties.len(),
            package: package.len(),
            build_id: build_id_style.as_ref().map(build_id::Style::len),
            ibt,
        },
        outputs.parts.len(),
    );
    settle_links(&sections, &mut outputs, &facts.link_order);
    let placing = match plan {
        None => {
            let input_of = pieces.input_of;
            let placement = layout::place(
                &files,
                &sections,
                &folds,
                &mut outputs,
                &sizes,
                &facts.link_order,
                input_of,
            );
            settle_types(&files, &sections, &mut outputs, &placement, args);
            layout::report_too_large(&outputs, diag);
            check_inputs(&files, diag)?;
            Placing::Default(placement)
        }
        Some(plan) => {
            let filled = plan.fill(
                args,
                &files,
                &sections,
                &mut outputs,
                &mut sizes,
                pieces.input_of,
                dynamic_output,
                &facts.link_order,
                diag,
            );
            if build_id_style.is_some() && outputs.std(Std::NoteBuildId).size == 0 {
                // GNU ld's words.
                diag.warn(".note.gnu.build-id section discarded, --build-id ignored");
            }
            Placing::Scripted(Box::new(filled))
        }
    };
    let mut facts_of_dynamic = DynamicFacts {
        relative_count: relocation_counts(&got, &needs)[0],
        text_relocations: needs.text_relocations.load(Relaxed),
        static_tls: needs.static_tls.load(Relaxed),
        ..DynamicFacts::default()
    };
    // Joined lists come last in `.dynstr`.
    let mut lists = Vec::new();
    if let Some(dynamic) = &dynamic {
        let start = dynamic.strings.bytes().len();
        for (list, place) in [
            (args.recorded_rpath(), &mut facts_of_dynamic.rpath),
            (&args.audit[..], &mut facts_of_dynamic.audit),
            (&dynamic.depaudit[..], &mut facts_of_dynamic.depaudit),
        ] {
            if !list.is_empty() {
                *place = Some((start + lists.len()) as u32);
                lists.extend(list.join(&b':'));
                lists.push(0);
            }
        }
        for std in [
            Std::PreinitArray,
            Std::InitArray,
            Std::FiniArray,
            Std::Hash,
            Std::GnuHash,
            Std::RelaDyn,
            Std::RelrDyn,
        ] {
            if outputs.std(std).size > 0 {
                facts_of_dynamic.sections.push(std);
            }
        }
        for (name, value) in [
            (&args.init, &mut facts_of_dynamic.init),
            (&args.fini, &mut facts_of_dynamic.fini),
        ] {
            *value = symbols
                .find(name)
                .filter(|id| symbols.key(*id).in_object())
                .map(|_| 0);
        }
        let count = dynamic
            .entries(&facts_of_dynamic, args, &outputs, &got)
            .len();
        outputs.std_mut(Std::Dynamic).size = 16 * count as u64;
        outputs.std_mut(Std::Dynamic).align = 8;
    }
    let executable_stack = warnings::executable_stack(args, &files, &facts.executable_stack, diag);
    let mut kept = None;
    let laid_out = match placing {
        Placing::Default(placement) => {
            let placed = emit_relocs::Placed {
                files: &files,
                sections: &sections,
                placement: &placement,
                frames: &frames,
                frame_layout: &frame_layout,
            };
            let standing = outputs.in_order();
            let symtab = symtab.as_mut();
            kept = emit_relocs::Kept::plan(args, &placed, &standing, &mut outputs, symtab, diag);
            scripting::print_no_memory_usage(args);
            let names = name_sections(&mut outputs, args);
            let packed = relr::Sites::new(&needs, &got, mode, &sections, &placement, &outputs);
            let settled = packed.settle(&mut outputs, |outputs| {
                segments::assign(outputs, args, dynamic_output, executable_stack)
            });
            let (segments, relr_table) = settled.map_err(|address| {
                diag.error(relr::odd(address));
                Failed
            })?;
            if let Some(id) = segments.wrapped {
                let section = &outputs.sections[id.index()];
                diag.error(format!(
                    "section {} wraps around the address space: {:#x} bytes at {:#x}",
                    String::from_utf8_lossy(&section.name),
                    section.size,
                    section.address
                ));
                return Err(Failed);
            }
            if args.check_sections {
                segments::report_overlap(&segments.phdrs, diag);
                warnings::image_base(args, diag);
            }
            LaidOut {
                placement,
                segments,
                names,
                assigned: None,
                patches: Vec::new(),
                relr_table,
            }
        }
        Placing::Scripted(filled) => filled.assign(
            &scripting::Facts {
                args,
                symbols: &symbols,
                definitions: &definitions,
                sections: &sections,
                merged: &merged,
                frame_offsets: &frame_layout.file_offsets,
                got: &got,
                needs: &needs,
                mode,
                linker_symbols: &linker_symbols,
                executable_stack,
                diag,
            },
            &assignments,
            &mut outputs,
            &mut |placement, standing, outputs| {
                let placed = emit_relocs::Placed {
                    files: &files,
                    sections: &sections,
                    placement,
                    frames: &frames,
                    frame_layout: &frame_layout,
                };
                let symtab = symtab.as_mut();
                kept = emit_relocs::Kept::plan(args, &placed, standing, outputs, symtab, diag);
            },
        ),
    };
    let outputs = outputs;
    let LaidOut {
        placement,
        segments,
        names: section_names,
        assigned,
        patches,
        relr_table,
    } = laid_out;
    warnings::rwx_segments(args, &segments.phdrs, diag);
    check_inputs(&files, diag)?;
    timing.phase("lay out");

    let static_irelative = if dynamic_output {
        0
    } else {
        u64::from(relocation_counts(&got, &needs)[2])
    };
    let starts = Starts::new(&sections, &placement, &outputs);
    let places = Places {
        files: &files,
        symbols: &symbols,
        definitions: &definitions,
        sections: &sections,
        folds: &folds,
        placement: &placement,
        starts: &starts,
        outputs: &outputs,
        merged: &merged,
        pieces: &pieces.repository,
        got: &got,
        linker_symbols: &linker_symbols,
        assigned: &[],
        segments: &segments,
        frame_offsets: &frame_layout.file_offsets,
        ibt,
        static_irelative,
    };
    let assigned = assigned.unwrap_or_else(|| assignments.values(args, &places, diag));
    let places = Places {
        assigned: &assigned,
        ..places
    };
    check_inputs(&files, diag)?;
    scripting::report_prohibited(&scripts, &places, diag);
    check_inputs(&files, diag)?;
    let values = places.symbol_values();
    for (name, value) in [
        (&args.init, &mut facts_of_dynamic.init),
        (&args.fini, &mut facts_of_dynamic.fini),
    ] {
        if let (Some(value), Some(id)) = (value, symbols.find(name)) {
            *value = values[id.index()].address;
        }
    }
    timing.phase("compute addresses");

    for std in [Std::Dynamic, Std::ShStrtab, Std::RelrDyn] {
        sizes[std.part().index()].0 = outputs.std(std).size;
    }
    map::image::Map {
        inputs: map::Inputs {
            args,
            files: &files,
            symbols: &symbols,
            definitions: &definitions,
            sections: &sections,
            paths: &inputs.paths,
            linked: &linked,
            required: &required,
            places_commons: true,
            diag,
        },
        places: &places,
        frames: &frame_layout,
        made: &sizes,
    }
    .report();

    // Everything has its place: write.
    let names: StringTable =
        section_names_table(&section_names).ok_or_else(|| too_large(diag, ".shstrtab"))?;
    let made_sizes: Vec<u64> = (0..outputs.sections.len())
        .map(|i| sizes.get(i).map_or(0, |(size, _)| *size))
        .collect();
    let made = Made {
        places: &places,
        values: &values,
        mode,
        args,
        dynamic: dynamic.as_ref(),
        dynamic_entries: dynamic.as_ref().map_or_else(Vec::new, |d| {
            d.entries(&facts_of_dynamic, args, &outputs, &got)
        }),
        interpreter,
        properties,
        package,
        build_id_len: build_id_style.as_ref().map(build_id::Style::len),
        section_names: names,
        sframe: sframe.as_ref(),
        relr_table,
        symtab: symtab.as_ref(),
        entry: made::entry_address(args, &places, &values, diag),
        sizes: made_sizes,
        joined_strings: lists,
        diag,
    };
    let dynamic_index = |id: SymbolId| dynamic.as_ref().map_or(0, |dynamic| dynamic.index(id));
    let use_of_output = match args.kind {
        OutputKind::Shared => Use::Shared,
        _ => Use::Executable,
    };
    let cannot_write = |why: std::io::Error| {
        diag.error(format!("cannot write {}: {why}", args.output.display()));
        Failed
    };
    let mut output = OutputFile::create(&args.output, segments.file_size, use_of_output)
        .map_err(cannot_write)?;
    timing.phase("create output");
    let writer = Writer {
        places: &places,
        relocator: Relocator {
            places: &places,
            values: &values,
            mode,
            dynamic_index: &dynamic_index,
            check_overflow: args.z.reloc_overflow_check,
            too_far: &doubts.too_far,
            diag,
        },
        frames: &frames,
        frame_layout: &frame_layout,
        merge_classes: &merge_classes,
        needs: &needs,
        made: &made,
        symtab: symtab.as_ref(),
        chooser,
        zeroed: output.is_zeroed(),
        position: timing.position(),
    };
    writer.write(output.bytes());
    scripting::write_patches(&patches, output.bytes());
    report_damage(&files, diag);
    check(diag)?;
    if args.z.combreloc {
        finish_relocations(&outputs, &got, &needs, output.bytes());
    }
    if let (Some(kept), Some(symtab)) = (&kept, &symtab) {
        let placed = emit_relocs::Placed {
            files: &files,
            sections: &sections,
            placement: &placement,
            frames: &frames,
            frame_layout: &frame_layout,
        };
        kept.write(&places, &placed, &chooser, symtab, output.bytes());
    }
    if let Some(symtab) = &symtab {
        let named = kept.as_ref().map_or(&[][..], |kept| kept.named());
        section_index::write(symtab, &chooser, &places, &values, named, output.bytes());
    }
    timing.phase("write");
    if let Some(wanted) = debug_sections::Wanted::from_args(args) {
        debug_sections::finish(&mut output, wanted, diag).map_err(cannot_write)?;
        timing.phase("index and compress debug sections");
    }

    // The build id digests everything else.
    let note = bytes_of(&outputs, Std::NoteBuildId);
    if let (Some(style), Some(note)) = (&build_id_style, note) {
        let id = style.compute(output.bytes()).map_err(|why| {
            diag.error(why);
            Failed
        })?;
        let at = note.start + build_id::NOTE_HEADER_SIZE;
        output.bytes()[at..at + id.len()].copy_from_slice(&id);
        timing.phase("build id");
    }
    if args.output_format == OutputFormat::Binary {
        let flat = flat_binary::of_image(&outputs, &segments, output.bytes());
        let flat = flat.map_err(|why| {
            diag.error(why);
            Failed
        })?;
        // The one is gone before the other is made.
        drop(output);
        output =
            OutputFile::create(&args.output, flat.len() as u64, Use::Data).map_err(cannot_write)?;
        output.bytes().copy_from_slice(&flat);
    }
    // Also a warning of the last steps can be an error (`--fatal-warnings`).
    check(diag)?;
    let output_size = output.bytes().len() as u64;
    // Where this fails there is no output either.
    dependency_file::write(args, &arena, &scripts).map_err(|why| {
        diag.error(why);
        Failed
    })?;
    let (committed, images) = rayon::join(
        || output.commit(),
        || image::Images::collect(&files, &linked),
    );
    committed.map_err(|why| {
        dependency_file::remove(args);
        cannot_write(why)
    })?;
    timing.phase("commit output");

    // The output is there; what is left is for the compactor and for whoever wants to know. From here on nothing fails.
    let unrecorded = images.record(args, output_size).err();
    if let Some(why) = &unrecorded {
        image::tell_unrecorded(args, why);
    }
    timing.phase("record image");
    let (tickets, objects) = count_objects(&files, &linked);
    log::linked(
        args,
        &log::Line {
            tickets,
            objects,
            output_size,
            time: timing.total(),
            remark: unrecorded.as_ref().map(|why| why as &dyn std::fmt::Display),
        },
    );
    timing.finish();
    if let Some(file) = &args.stats {
        let written = timing.write_stats(file.as_deref(), files.0.len() - 1, output_size);
        if let (Err(why), Some(file)) = (written, file) {
            // Not among the warnings that `--fatal-warnings` makes errors: the output is there.
            crate::tell!(
                "repo-ld: warning: --stats: cannot write {}: {why}",
                file.display()
            );
        }
    }
    // The plugin takes away its files.
    drop(compiled);
    host.finished();
    Ok(())
}

/// Numbers of tickets and of ELF objects that are linked.
fn count_objects(files: &Files, linked: &[bool]) -> (usize, usize) {
    let linked = files.iter().zip(linked).filter(|(_, linked)| **linked);
    linked.fold((0, 0), |(tickets, objects), ((_, file), _)| {
        match file.object() {
            Some(Object::Ticket(_)) => (tickets + 1, objects),
            Some(Object::Elf(_)) => (tickets, objects + 1),
            None => (tickets, objects),
        }
    })
}

/// Fails if there was an error.
pub fn check(diag: &Diagnostics) -> Result<(), Failed> {
    if diag.has_errors() {
        Err(Failed)
    } else {
        Ok(())
    }
}

/// Fails if there was an error, which may have come from a damaged repository: then says that, too.
fn check_inputs(files: &Files, diag: &Diagnostics) -> Result<(), Failed> {
    if diag.has_errors() {
        report_damage(files, diag);
    }
    check(diag)
}

fn too_large(diag: &Diagnostics, what: &str) -> Failed {
    diag.error(format!("{what} would be larger than 4 GiB"));
    Failed
}

/// Reads what only files that are linked need: expands compressed sections, opens fragments.
pub fn complete(files: &mut Files, linked: &[bool], lost: &LostGroups, diag: &Diagnostics) {
    use rayon::prelude::*;
    files
        .0
        .par_iter_mut()
        .zip(linked)
        .enumerate()
        .filter(|(_, (_, linked))| **linked)
        .for_each(|(i, (file, _))| {
            let result = match &mut file.body {
                Body::Object(Object::Elf(elf)) => elf.expand(),
                Body::Object(Object::Ticket(ticket)) => ticket
                    .load(lost.of(FileId(i as u32)))
                    .map_err(Malformed::from),
                _ => Ok(()),
            };
            if let Err(why) = result {
                diag.error(format!("{file}: {why}"));
            }
        });
}

/// Reports what was found, by accessors that cannot, to be wrong with repositories.
fn report_damage(files: &Files, diag: &Diagnostics) {
    for (_, file) in files.iter() {
        if let Some(Object::Ticket(ticket)) = file.object()
            && let Some(why) = ticket.damage()
        {
            diag.error(format!("{file}: {why}"));
        }
    }
}

/// Whether the output has a dynamic section.
pub(crate) fn is_dynamic(args: &Args, files: &Files) -> bool {
    match args.kind {
        OutputKind::Pie | OutputKind::StaticPie | OutputKind::Shared => true,
        OutputKind::StaticExec | OutputKind::Relocatable => false,
        OutputKind::DynamicExec => files.iter().any(|(_, file)| file.shared().is_some()),
    }
}

/// Whether a script discards `.dynamic` of an executable that needs no shared objects, as that of the kernel's decompressor
/// does: it places itself, and there is nothing that would read the other tables.
fn gives_dynamic_up(args: &Args, files: &Files, outputs: &Outputs) -> bool {
    let rules = outputs.rules.as_deref();
    let flags = shf::ALLOC | shf::WRITE;
    args.kind != OutputKind::Shared
        && files.iter().all(|(_, file)| file.shared().is_none())
        && rules.is_some_and(|rules| rules.discards(FileNames::NONE, b".dynamic", flags))
}

/// Where a section is in the file. A script may have discarded it, or said that it has no bytes there.
fn bytes_of(outputs: &Outputs, std: Std) -> Option<Range<usize>> {
    let section = outputs.std(std);
    let holder = outputs.parts[std.part().index()].output;
    let has_bytes = section.size > 0 && !outputs.sections[holder.index()].is_nobits();
    let start = section.offset as usize;
    has_bytes.then(|| start..start + section.size as usize)
}

/// Brings the relocations that name symbols into the dynamic linker's favourite order.
fn finish_relocations(outputs: &Outputs, got: &Got, needs: &Needs, image: &mut [u8]) {
    let [relative, symbolic, _] = relocation_counts(got, needs);
    if symbolic == 0 {
        return;
    }
    let Some(table) = bytes_of(outputs, Std::RelaDyn) else {
        return;
    };
    let start = table.start + 24 * relative as usize;
    let relas: &mut [Rela] =
        bytemuck::cast_slice_mut(&mut image[start..start + 24 * symbolic as usize]);
    write::sort_symbolic(relas);
}
