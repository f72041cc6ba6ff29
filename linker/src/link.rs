//! The link, from beginning to end.
//!
//! [`link`] is a list of phases. Each takes what the earlier ones have made, by
//! shared reference, and makes something new; inside, most of them are parallel
//! loops. Nothing that a phase has finished is changed afterwards, but for two
//! kinds of marks that phases add up with atomics: the symbols' flags and the
//! sections' states.

use crate::addresses::Places;
use crate::args::{Args, BuildId, OutputKind, StripMode, TextRel};
use crate::build_id;
use crate::diag::{Diagnostics, Place as MessagePlace, Severity};
use crate::dynamic::{Dynamic, DynamicFacts};
use crate::elf::{Rela, c};
use crate::elf_object::Malformed;
use crate::export;
use crate::file::{Body, Files};
use crate::frames::Frames;
use crate::got::Got;
use crate::hash_tables;
use crate::ids::{FileId, PartId, SymbolId};
use crate::image;
use crate::inputs::{self, InputArena};
use crate::layout::{self, PieceError};
use crate::linker_symbols::{self, LinkerSymbols, Meaning};
use crate::log;
use crate::made::{self, Made};
use crate::note_property::{Forced, Merger, Properties};
use crate::object::{Object, Place};
use crate::output::{Outputs, Std, subpart};
use crate::output_file::{OutputFile, Use};
use crate::pieces::UsedPieces;
use crate::plan::Mode;
use crate::relocate::Relocator;
use crate::resolve::{self, Definitions, Duplicate};
use crate::sections::{SectionFacts, Sections, state};
use crate::segments;
use crate::strtab::StringTable;
use crate::symbols::{SymbolTable, flag};
use crate::symtab::Chooser;
use crate::timing::Timing;
use crate::trace::{Needs, Tracer};
use crate::versioning;
use crate::versions;
use crate::write::{self, Writer};
use std::sync::atomic::Ordering::Relaxed;

/// Why there is no output; the reasons are in the [`Diagnostics`].
#[derive(Debug)]
pub struct Failed;

/// Links. Messages go to `diag`; if any of them is an error there is no output.
pub fn link(args: &Args, diag: &Diagnostics) -> Result<(), Failed> {
    let mut timing = Timing::new(args.print_timing);
    crate::unsupported::report(args, diag);
    check(diag)?;

    // Map all files, list archive members, and find the tables of each object.
    let arena = InputArena::default();
    let (mut files, version_scripts) = inputs::open(&arena, args, mentioned(args, &arena), diag);
    let mut versioning = versioning::read(args, version_scripts, diag);
    check(diag)?;
    timing.phase("open inputs");

    // Give every distinct name a number. No names come after this.
    let symbols = SymbolTable::intern(&mut files);
    wrap(args, &files, &symbols);
    timing.phase("intern names");

    // Find out which archive members are needed. Definitions that this finds are preliminary:
    // groups are not resolved yet.
    let linked = resolve::extract(&files, &symbols, &required(args, &symbols));
    timing.phase("extract members");

    // Now that it is known which objects count, number their sections and send each to its part of the output.
    complete(&mut files, &linked, diag);
    let files = files;
    let mut outputs = Outputs::default();
    let (sections, facts) = Sections::build(
        &files,
        &linked,
        args.strip != StripMode::None,
        &mut outputs,
        diag,
    );
    timing.phase("number sections");

    // Choose among equal groups before definitions, because a discarded group defines nothing.
    resolve::discard_duplicate_groups(&files, &symbols, &sections, diag);
    resolve::define(&files, &symbols, &sections);
    let (definitions, duplicates) = resolve::publish(&files, &symbols, &sections, diag);
    report_duplicates(args, &files, &symbols, &duplicates, diag);
    refuse_intermediate_code(&files, &symbols, diag);
    check(diag)?;
    timing.phase("resolve symbols");

    // What objects do not define the linker may; then every symbol's binding is known.
    let dynamic_output = is_dynamic(args, &files);
    let linker_symbols = linker_symbols::define(&symbols, &outputs, args, dynamic_output, diag);
    versioning.assign(&files, &symbols, args, diag);
    export::bind(&files, &symbols, &versioning, args, dynamic_output);
    check(diag)?;
    timing.phase("bind symbols");

    // Frames belong to code, so they must be known before code is traced.
    let frames = Frames::parse(&files, &sections, &facts.frames, diag);
    timing.phase("read frames");

    // Follow and scan all fixups. After this it is known what is linked, and what it needs.
    let mode = Mode {
        pic: args.kind.is_pic(),
        shared: args.kind == OutputKind::Shared,
        relax: args.relax,
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
        link_order: &facts.link_order,
        bounded: bounded_parts(args, &outputs, &linker_symbols),
        allow_text_relocations: args.z.text != TextRel::Error,
        allow_copies: args.z.copyreloc,
        diag,
    };
    let needs = tracer.run(&roots(args, &symbols));
    report_undefined(args, &files, &symbols, &sections, &needs, diag);
    check(diag)?;
    if args.print_gc_sections {
        print_unused(&files, &sections);
    }
    timing.phase("trace and scan");

    // Make what was asked for: slots, PLT entries, copies, dynamic symbols, commons.
    let got = Got::allocate(&files, &symbols, &needs, mode);
    let dynamic = match dynamic_output {
        true => Some(
            Dynamic::new(&files, &symbols, &versioning, args)
                .ok_or_else(|| too_large(diag, ".dynstr"))?,
        ),
        false => None,
    };
    let commons = place_commons(&definitions);
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
    let frame_layout = frames.layout(&files, &symbols, &sections);
    timing.phase("merge pieces");

    let chooser = Chooser {
        files: &files,
        symbols: &symbols,
        definitions: &definitions,
        sections: &sections,
        args,
    };
    let symtab = chooser.layout();
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
    let mut sizes = vec![(0u64, 1u64); outputs.parts.len()];
    {
        let mut set = |part: PartId, size: u64, align: u64| sizes[part.index()] = (size, align);
        let mut std = |std: Std, size: u64, align: u64| set(std.part(), size, align);
        std(Std::Interp, interpreter.len() as u64, 1);
        std(Std::NoteProperty, properties.len() as u64, 8);
        std(Std::NotePackage, package.len() as u64, 4);
        if let Some(style) = &build_id_style {
            std(
                Std::NoteBuildId,
                (build_id::NOTE_HEADER_SIZE + style.len().next_multiple_of(4)) as u64,
                4,
            );
        }
        let frames_present = frame_layout.size > 0;
        std(Std::EhFrame, frame_layout.size, 8);
        if args.eh_frame_hdr && frames_present {
            let fdes = frame_layout
                .fde_counts
                .last()
                .map_or(0, |count| *count as usize);
            std(Std::EhFrameHdr, crate::eh_frame::hdr_size(fdes) as u64, 4);
        }
        let lazy = got.lazy.len() as u64;
        std(Std::Got, 8 * u64::from(got.words), 8);
        if lazy > 0 {
            std(Std::Plt, 16 * (lazy + 1), 16);
            std(Std::RelaPlt, 24 * lazy, 8);
            if ibt {
                std(Std::PltSec, 16 * lazy, 16);
            }
        }
        if lazy > 0 || needs.got_base.load(Relaxed) || got_is_mentioned(&symbols) {
            std(Std::GotPlt, 8 * (3 + lazy), 8);
        }
        std(
            Std::PltGot,
            Got::direct_size(ibt) * got.direct.len() as u64,
            16,
        );
        std(
            Std::RelaDyn,
            24 * u64::from(relocation_counts(&got, &needs).iter().sum::<u32>()),
            8,
        );
        if let Some(dynamic) = &dynamic {
            let count = dynamic.symbols.len();
            std(Std::DynSym, 24 * (count as u64 + 1), 8);
            std(Std::DynStr, dynamic_strings_size(dynamic, args), 1);
            if let (true, Some(shape)) = (args.hash_style.gnu, &dynamic.gnu_hash) {
                std(Std::GnuHash, shape.size() as u64, 8);
            }
            if args.hash_style.sysv {
                std(Std::Hash, hash_tables::sysv_size(count + 1) as u64, 8);
            }
            if dynamic.versioned {
                std(Std::VerSym, 2 * (count as u64 + 1), 2);
                std(
                    Std::VerDef,
                    versions::definitions_size(&dynamic.definitions),
                    8,
                );
                std(Std::VerNeed, versions::needs_size(&dynamic.needs), 8);
            }
        }
        if let Some(symtab) = &symtab {
            std(Std::Symtab, 24 * u64::from(symtab.count), 8);
            std(Std::Strtab, symtab.names, 1);
        }
        for (part, (size, align)) in [subpart::COPIES, subpart::RELRO_COPIES]
            .into_iter()
            .zip(got.copy_sizes)
        {
            sizes[part.index()] = (size, align);
        }
        for (part, (size, align)) in [subpart::COMMON, subpart::COMMON_TLS]
            .into_iter()
            .zip(commons)
        {
            sizes[part.index()] = (size, align);
        }
        for (i, class) in merge_classes.iter().enumerate() {
            if let Some(class) = class {
                sizes[i] = (merged.size(*class), merged.align(*class));
            }
        }
    }
    let placement = layout::place(&files, &sections, &mut outputs, &sizes, pieces.input_of);
    settle_types(&files, &sections, &mut outputs, &placement, args);
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
            (&args.rpath, &mut facts_of_dynamic.rpath),
            (&args.audit, &mut facts_of_dynamic.audit),
            (&args.depaudit, &mut facts_of_dynamic.depaudit),
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
    let outputs = name_sections(outputs);
    let (mut outputs, section_names) = outputs;
    if args.z.execstack.is_none() {
        for file in &facts.executable_stack {
            diag.warn(format!(
                "{}: requires executable stack (because its .note.GNU-stack section is executable)",
                files.get(*file)
            ));
        }
    }
    let executable_stack = args
        .z
        .execstack
        .unwrap_or(!facts.executable_stack.is_empty());
    let segments = segments::assign(&mut outputs, args, dynamic_output, executable_stack);
    let outputs = outputs;
    if let Some((first, second)) = segments::overlap(&segments.phdrs) {
        diag.error(format!(
            "segments overlap: {:#x}, {:#x} bytes, and {:#x}, {:#x} bytes",
            { first.p_vaddr },
            { first.p_memsz },
            { second.p_vaddr },
            { second.p_memsz }
        ));
    }
    check(diag)?;
    timing.phase("lay out");

    let static_irelative = if dynamic_output {
        0
    } else {
        u64::from(relocation_counts(&got, &needs)[2])
    };
    let places = Places {
        files: &files,
        symbols: &symbols,
        definitions: &definitions,
        sections: &sections,
        placement: &placement,
        outputs: &outputs,
        merged: &merged,
        pieces: &pieces.repository,
        got: &got,
        linker_symbols: &linker_symbols,
        segments: &segments,
        frame_offsets: &frame_layout.file_offsets,
        ibt,
        static_irelative,
    };
    let values = places.symbol_values();
    for (name, value) in [
        (&args.init, &mut facts_of_dynamic.init),
        (&args.fini, &mut facts_of_dynamic.fini),
    ] {
        if let (Some(value), Some(id)) = (value, symbols.find(name)) {
            *value = values[id.index()];
        }
    }
    timing.phase("compute addresses");

    // Everything has its place: write.
    let names: StringTable =
        section_names_table(&section_names).ok_or_else(|| too_large(diag, ".shstrtab"))?;
    let mut made_sizes: Vec<u64> = (0..outputs.sections.len())
        .map(|i| sizes.get(i).map_or(0, |(size, _)| *size))
        .collect();
    for std in [Std::Dynamic, Std::ShStrtab] {
        made_sizes[std.id().index()] = outputs.std(std).size;
    }
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
        symtab: symtab.as_ref(),
        entry: made::entry_address(args, &places, &values, diag),
        sizes: made_sizes,
        joined_strings: lists,
        diag,
    };
    let dynamic_index = |id: SymbolId| dynamic.as_ref().map_or(0, |dynamic| dynamic.index(id));
    let use_of_output = match args.kind {
        OutputKind::Shared => Use::Shared,
        OutputKind::Relocatable => Use::Data,
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
    };
    writer.write(output.bytes());
    check(diag)?;
    finish_relocations(&outputs, &got, &needs, output.bytes());
    timing.phase("write");

    // The build id digests everything else.
    if let Some(style) = &build_id_style {
        let id = style.compute(output.bytes()).map_err(|why| {
            diag.error(why);
            Failed
        })?;
        let at = outputs.std(Std::NoteBuildId).offset as usize + build_id::NOTE_HEADER_SIZE;
        output.bytes()[at..at + id.len()].copy_from_slice(&id);
        timing.phase("build id");
    }
    output.commit().map_err(cannot_write)?;
    timing.phase("commit output");

    // The output is there; what is left is for the compactor and for whoever wants to know.
    let unrecorded = image::record(args, &files, &linked, segments.file_size).err();
    timing.phase("record image");
    let (tickets, objects) = count_objects(&files, &linked);
    log::linked(
        args,
        &log::Line {
            tickets,
            objects,
            output_size: segments.file_size,
            time: timing.total(),
            remark: unrecorded.as_ref().map(|why| why as &dyn std::fmt::Display),
        },
    );
    timing.print();
    // The process is about to end, and so need not return memory piece by piece.
    std::mem::forget((
        files,
        symbols,
        sections,
        definitions,
        frames,
        placement,
        values,
        got,
        needs,
        dynamic,
        symtab,
    ));
    std::mem::forget(arena);
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

fn check(diag: &Diagnostics) -> Result<(), Failed> {
    if diag.has_errors() {
        Err(Failed)
    } else {
        Ok(())
    }
}

fn too_large(diag: &Diagnostics, what: &str) -> Failed {
    diag.error(format!("{what} would be larger than 4 GiB"));
    Failed
}

/// Names that the linker itself mentions, so that they have numbers.
fn mentioned<'a>(args: &Args, arena: &'a InputArena) -> Vec<&'a [u8]> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    names.extend(args.undefined.iter().chain(&args.require_defined).cloned());
    names.extend(args.defsyms.iter().map(|defsym| defsym.name.clone()));
    for name in &args.wrap {
        names.push(name.clone());
        names.push([b"__wrap_", &name[..]].concat());
        names.push([b"__real_", &name[..]].concat());
    }
    names.into_iter().map(|name| arena.bytes(name)).collect()
}

/// `--wrap=f`: undefined references to `f` mean `__wrap_f`, those to `__real_f` mean `f`.
fn wrap(args: &Args, files: &Files, symbols: &SymbolTable) {
    for name in &args.wrap {
        let wrapped = symbols.find(name);
        let wrapper = symbols.find(&[b"__wrap_", &name[..]].concat());
        let real = symbols.find(&[b"__real_", &name[..]].concat());
        let (Some(wrapped), Some(wrapper), Some(real)) = (wrapped, wrapper, real) else {
            continue;
        };
        for (_, file) in files.iter() {
            let Body::Object(object) = &file.body else {
                continue;
            };
            for index in file.first_global()..file.symbol_count() {
                if object
                    .symbol(index)
                    .is_some_and(|symbol| symbol.place == Place::Undefined)
                {
                    let id = symbols.of(file, index);
                    if id == wrapped {
                        symbols.rebind(file, index, wrapper);
                    } else if id == real {
                        symbols.rebind(file, index, wrapped);
                    }
                }
            }
        }
    }
}

/// Symbols that are looked for as if an object referred to them.
fn required(args: &Args, symbols: &SymbolTable) -> Vec<SymbolId> {
    let entry = args
        .entry
        .as_ref()
        .map_or(&b"_start"[..], |entry| entry.symbol());
    let names = args
        .undefined
        .iter()
        .chain(&args.require_defined)
        .map(|name| &name[..]);
    names
        .chain((args.kind != OutputKind::Shared || args.entry.is_some()).then_some(entry))
        .filter_map(|name| symbols.find(name))
        .collect()
}

/// What is kept whoever refers to it: by name, and all that others can find at run time.
fn roots(args: &Args, symbols: &SymbolTable) -> Vec<SymbolId> {
    use rayon::prelude::*;
    let mut roots = required(args, symbols);
    roots.extend(
        [&args.init, &args.fini]
            .into_iter()
            .filter_map(|name| symbols.find(name)),
    );
    let exported: Vec<SymbolId> = symbols
        .ids()
        .filter(|id| symbols.flags(*id) & flag::EXPORTED != 0)
        .collect();
    roots.extend(exported);
    roots
}

/// Reads what only files that are linked need: expands compressed sections, opens fragments.
fn complete(files: &mut Files, linked: &[bool], diag: &Diagnostics) {
    use rayon::prelude::*;
    files
        .0
        .par_iter_mut()
        .zip(linked)
        .filter(|(_, linked)| **linked)
        .for_each(|(file, _)| {
            let result = match &mut file.body {
                Body::Object(Object::Elf(elf)) => elf.expand(),
                Body::Object(Object::Ticket(ticket)) => ticket.load().map_err(Malformed::from),
                _ => Ok(()),
            };
            if let Err(why) = result {
                diag.error(format!("{file}: {why}"));
            }
        });
}

/// Parts of the sections whose `__start_` or `__stop_` symbols are in use: nothing in them is collected.
fn bounded_parts(args: &Args, outputs: &Outputs, linker_symbols: &LinkerSymbols) -> Vec<bool> {
    let bounds = |output| {
        linker_symbols.iter().any(|(_, meaning)| matches!(meaning, Meaning::Start(id) | Meaning::Stop(id) if *id == output))
    };
    outputs
        .parts
        .iter()
        .map(|part| !args.z.start_stop_gc && bounds(part.output))
        .collect()
}

/// `--print-gc-sections`, in GNU ld's words.
fn print_unused(files: &Files, sections: &Sections) {
    for (id, file) in files.iter().filter(|(id, _)| sections.is_linked(*id)) {
        let Some(object) = file.object() else {
            continue;
        };
        for number in 1..object.section_count() {
            let bits = sections.state(sections.id(id, number));
            let unused = bits & (state::ALIVE | state::ALLOC | state::DISCARDED) == state::ALLOC;
            if let (true, Some(section)) = (unused, object.section(number)) {
                eprintln!(
                    "repo-ld: removing unused section '{}' in file '{file}'",
                    String::from_utf8_lossy(section.name)
                );
            }
        }
    }
}

/// Whether the output has a dynamic section.
fn is_dynamic(args: &Args, files: &Files) -> bool {
    match args.kind {
        OutputKind::Pie | OutputKind::StaticPie | OutputKind::Shared => true,
        OutputKind::StaticExec | OutputKind::Relocatable => false,
        OutputKind::DynamicExec => {
            args.export_dynamic || files.iter().any(|(_, file)| file.shared().is_some())
        }
    }
}

fn report_duplicates(
    args: &Args,
    files: &Files,
    symbols: &SymbolTable,
    duplicates: &[Duplicate],
    diag: &Diagnostics,
) {
    if args.allow_multiple_definition {
        return;
    }
    for duplicate in duplicates {
        let key = symbols.key(duplicate.symbol);
        let at = |file: FileId, index: u32| {
            let input = files.get(file);
            let mut place = MessagePlace::file(input.to_string());
            if let Some(object) = input.object()
                && let Some(symbol) = object.symbol(index)
                && let Place::Section(number) = symbol.place
                && let Some(section) = object.section(number)
            {
                place.section = Some((
                    String::from_utf8_lossy(section.name).into_owned(),
                    symbol.value,
                ));
            }
            place.order.input = file.0;
            place
        };
        diag.duplicate(
            symbols.name(duplicate.symbol),
            &at(key.file(), key.index()),
            &at(duplicate.file, duplicate.index),
        );
    }
}

/// An object that holds nothing but gcc's intermediate code says so with a symbol. Without its plugin there would be
/// nothing of it in the output.
fn refuse_intermediate_code(files: &Files, symbols: &SymbolTable, diag: &Diagnostics) {
    let Some(id) = symbols.find(b"__gnu_lto_slim") else {
        return;
    };
    let key = symbols.key(id);
    if key.in_object() {
        diag.error(format!(
            "{}: holds only gcc's intermediate code, and link-time optimisation is not supported yet; compile with \
             -fno-lto or -ffat-lto-objects",
            files.get(key.file())
        ));
    }
}

fn report_undefined(
    args: &Args,
    files: &Files,
    symbols: &SymbolTable,
    sections: &Sections,
    needs: &Needs,
    diag: &Diagnostics,
) {
    let severity = match args.unresolved {
        crate::args::UnresolvedPolicy::Error => Severity::Error,
        crate::args::UnresolvedPolicy::Warn => Severity::Warning,
        crate::args::UnresolvedPolicy::Ignore => return,
    };
    for reference in &needs.undefined {
        let name = symbols.name(reference.symbol);
        if args.ignore_unresolved.iter().any(|ignored| ignored == name) {
            continue;
        }
        let (file, number) = sections.origin(reference.section);
        let section = files
            .object(file)
            .section(number)
            .map_or(&b""[..], |section| section.name);
        let mut place = MessagePlace::file(files.get(file).to_string());
        place.section = Some((
            String::from_utf8_lossy(section).into_owned(),
            reference.offset,
        ));
        place.order.input = file.0;
        place.order.offset = reference.offset;
        diag.undefined(severity, name, place);
    }
}

/// Lays out common blocks, largest alignment first. Gives size and alignment of plain and of thread-local ones.
fn place_commons(definitions: &Definitions) -> [(u64, u64); 2] {
    let mut extents = [(0u64, 1u64); 2];
    for common in &definitions.commons {
        let (size, align) = &mut extents[usize::from(common.tls)];
        let at = size.next_multiple_of(common.align);
        definitions.set_value(common.symbol, at);
        *size = at + common.size;
        *align = (*align).max(common.align);
    }
    extents
}

/// The merged `.note.gnu.property`, and whether PLT entries must begin with `endbr64`.
fn properties(
    args: &Args,
    files: &Files,
    facts: &SectionFacts,
    diag: &Diagnostics,
) -> (Vec<u8>, bool) {
    const IBT: u32 = 1;
    const SHSTK: u32 = 2;
    let mut merger = Merger::default();
    for (file, sections) in &facts.properties {
        let object = files.object(*file);
        let mut own = Properties::default();
        for number in sections {
            match Properties::parse(object.section_bytes(*number)) {
                Ok(parsed) => own = parsed,
                Err(why) => diag.error(format!("{}: .note.gnu.property: {why}", files.get(*file))),
            }
        }
        merger.add(&own);
    }
    let forced = Forced {
        feature_1: if args.z.ibt { IBT } else { 0 } | if args.z.shstk { SHSTK } else { 0 },
        isa_1_needed: args.z.isa_needed,
    };
    let merged = merger.finish(forced);
    let ibt = args.z.ibtplt || merged.has_feature_1(IBT);
    (merged.to_section(), ibt)
}

fn interpreter(args: &Args, dynamic: bool) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    let wanted = dynamic && matches!(args.kind, OutputKind::DynamicExec | OutputKind::Pie);
    if args.no_dynamic_linker
        || (!wanted && args.dynamic_linker.is_none())
        || args.kind.is_static()
        || !dynamic
    {
        return Vec::new();
    }
    if args.kind == OutputKind::Shared {
        return Vec::new();
    }
    let path = args
        .dynamic_linker
        .as_ref()
        .map_or(&b"/lib64/ld-linux-x86-64.so.2"[..], |path| {
            path.as_os_str().as_bytes()
        });
    [path, b"\0"].concat()
}

/// `.note.package` (systemd's "Package Metadata for Executable Files").
fn package_note(args: &Args) -> Vec<u8> {
    let Some(json) = &args.package_metadata else {
        return Vec::new();
    };
    let mut note = Vec::new();
    note.extend(4u32.to_le_bytes());
    note.extend((json.len() as u32 + 1).to_le_bytes());
    note.extend(0xcafe_1a7eu32.to_le_bytes());
    note.extend(b"FDO\0");
    note.extend(json);
    note.push(0);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}

fn build_id_style(args: &Args) -> Option<build_id::Style> {
    use build_id::{DigestLength, Style};
    match &args.build_id {
        BuildId::None => None,
        BuildId::Fast | BuildId::Sha1 => Some(Style::Digest(DigestLength::Bytes20)),
        BuildId::Md5 => Some(Style::Digest(DigestLength::Bytes16)),
        BuildId::Sha256 => Some(Style::Digest(DigestLength::Bytes32)),
        BuildId::Uuid => Some(Style::Uuid),
        BuildId::Hex(bytes) => Some(Style::Given(bytes.clone())),
    }
}

fn got_is_mentioned(symbols: &SymbolTable) -> bool {
    symbols
        .find(b"_GLOBAL_OFFSET_TABLE_")
        .is_some_and(|id| symbols.flags(id) & flag::REFERENCED != 0)
}

/// Numbers of relative, symbolic and irelative relocations in `.rela.dyn`.
fn relocation_counts(got: &Got, needs: &Needs) -> [u32; 3] {
    let mut counts = [
        got.counts.relative,
        got.counts.symbolic,
        got.counts.irelative,
    ];
    for file in &needs.dynamic {
        counts[0] += file.relative.load(Relaxed);
        counts[1] += file.symbolic.load(Relaxed);
        counts[2] += file.irelative.load(Relaxed);
    }
    counts
}

fn dynamic_strings_size(dynamic: &Dynamic, args: &Args) -> u64 {
    let lists = args.rpath.iter().chain(&args.audit).chain(&args.depaudit);
    let joined: usize = lists.map(|path| path.len() + 1).sum();
    (dynamic.strings.bytes().len() + joined) as u64
}

/// Types of sections follow from what came to be in them.
fn settle_types(
    files: &Files,
    sections: &Sections,
    outputs: &mut Outputs,
    placement: &layout::Placement,
    args: &Args,
) {
    for std in [Std::Bss, Std::Tbss, Std::Lbss] {
        if outputs.std(std).size > 0
            && layout::has_bits(files, sections, outputs, placement, std.id())
        {
            outputs.std_mut(std).sh_type = c::SHT_PROGBITS;
        }
    }
    if args.z.now {
        // Nothing is bound lazily: the whole table is read-only after relocation.
        outputs.std_mut(Std::GotPlt).relro = true;
    }
}

/// Decides which sections are in the output and sizes `.shstrtab`.
fn name_sections<'a>(mut outputs: Outputs<'a>) -> (Outputs<'a>, Vec<Vec<u8>>) {
    outputs.std_mut(Std::ShStrtab).size = 1;
    let mut names: Vec<Vec<u8>> = outputs
        .sections
        .iter()
        .filter(|section| section.size > 0)
        .map(|section| section.name.to_vec())
        .collect();
    names.sort();
    names.dedup();
    outputs.std_mut(Std::ShStrtab).size =
        1 + names.iter().map(|name| name.len() as u64 + 1).sum::<u64>();
    (outputs, names)
}

fn section_names_table(names: &[Vec<u8>]) -> Option<StringTable<'_>> {
    let mut table = StringTable::new();
    for name in names {
        table.add(name)?;
    }
    Some(table)
}

/// Brings the relocations that name symbols into the dynamic linker's favourite order.
fn finish_relocations(outputs: &Outputs, got: &Got, needs: &Needs, image: &mut [u8]) {
    let [relative, symbolic, _] = relocation_counts(got, needs);
    if symbolic == 0 {
        return;
    }
    let start = outputs.std(Std::RelaDyn).offset as usize + 24 * relative as usize;
    let relas: &mut [Rela] =
        bytemuck::cast_slice_mut(&mut image[start..start + 24 * symbolic as usize]);
    write::sort_symbolic(relas);
}
