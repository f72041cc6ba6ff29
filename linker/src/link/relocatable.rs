//! `-r`: several objects become one, which can be linked as they could.
//!
//! Nothing is resolved for good here. Sections are united by name, relocations go along
//! with new offsets, symbols keep their names and bindings; what is undefined stays so.
//! What is decided is what would not change later: which archive members are needed,
//! which of equal COMDAT groups stays, and which definition a name has.
//!
//! The first phases are those of every link. After them this has a recipe of its own:
//!
//! 1. [`frames`]: `.eh_frame` is taken apart, as descriptions of discarded code go.
//! 2. [`collect`]: with `--gc-sections`, what nothing reaches goes.
//! 3. [`plan`]: each input section gets its output section and its place there; [`statements`] are what a script puts
//!    between them.
//! 4. [`references`]: what relocations refer to; how many are kept.
//! 5. [`symtab`]: the symbols.
//! 6. [`mod@write`]: the file.
//!
//! Tickets are made into ELF objects at the beginning ([`join`](crate::repository::join)): the output
//! is one file that holds everything, and does not need the repository.

pub mod assign;
pub mod collect;
pub mod frames;
mod map;
pub mod plan;
pub mod references;
pub mod sections;
pub mod statements;
pub mod symtab;
pub mod write;

use crate::args::Args;
use crate::base::ids::FileId;
use crate::elf::build_id;
use crate::input::elf_object::{ElfObject, Malformed};
use crate::input::file::{Body, Files};
use crate::input::open::InputArena;
use crate::layout::notes::{build_id_style, properties};
use crate::layout::scripting::Arrangement;
use crate::link::names::{self, Extracted, Names, complete};
use crate::link::opened::{Opened, open};
use crate::link::resolved::lose_groups;
use crate::link::{Failed, Link, check};
use crate::messages::diag::Diagnostics;
use crate::messages::link_log;
use crate::messages::timing::Timing;
use crate::output::debug_sections;
use crate::output::output_file::{OutputFile, Use};
use crate::report::cross_reference;
use crate::report::dependency_file;
use crate::report::map::Inputs;
use crate::report::unresolved::{refuse_intermediate_code, report_duplicates};
use crate::resolve::input_sections::Sections;
use crate::resolve::resolution;
use crate::resolve::retain_symbols_file::Retained;
use crate::resolve::symbol_table::SymbolTable;
use rayon::prelude::*;

/// Links into a relocatable object. Messages go to `diag`; if any of them is an error there is no output.
pub(crate) fn link(link: Link, timing: &mut Timing) -> Result<(), Failed> {
    let arena = InputArena::default();
    let (opened, mut files) = open(link, &arena, timing)?;
    let link = Link {
        args: &opened.args,
        ..link
    };
    let Link { args, diag, .. } = link;
    let Opened { scripts, .. } = &opened;
    let tickets = materialize(&arena, &mut files, diag);
    check(diag)?;
    timing.phase("join tickets");

    let symbols = names::intern(args, &mut files, Names::Written, diag)?;
    let Extracted { required, linked } = names::extract(args, &files, &symbols, scripts);
    let lost_groups = lose_groups(link, &opened, &files, &symbols, &linked);
    complete(&mut files, &linked, &lost_groups, diag);
    let files = files;
    let arrangement = Arrangement::new(scripts, args, &files, &linked, diag);
    check(diag)?;
    let (sections, facts) = Sections::number(&files, &linked, args, diag);
    timing.phase("number sections");

    resolution::discard_groups(&files, &lost_groups, &sections, diag);
    resolution::define(&files, &symbols, &sections);
    let (definitions, duplicates) = resolution::publish(&files, &symbols, &sections, diag);
    report_duplicates(args, &files, &symbols, &sections, &duplicates, diag);
    let compiled = opened.compiled.as_ref();
    let has_made = |file| compiled.is_some_and(|compiled| compiled.has_made(file));
    refuse_intermediate_code(&files, &symbols, has_made, diag);
    cross_reference::trace(args, &files, &symbols, &linked, diag);
    let inside = assign::define_inside(scripts, &symbols);
    let assigned = assign::define(scripts, arrangement.is_some(), &symbols, diag);
    let retained = Retained::read(args, diag);
    check(diag)?;
    // Definitions that are thrown away are still those that are meant.
    if let Some(arrangement) = &arrangement {
        plan::discard(arrangement, &files, &sections);
    }
    timing.phase("resolve symbols");

    let mut frames = frames::Frames::parse(&files, &sections, &facts.frames, diag);
    check(diag)?;
    if args.gc_sections {
        let inputs = collect::Inputs {
            files: &files,
            symbols: &symbols,
            definitions: &definitions,
            sections: &sections,
        };
        collect::collect(args, inputs, &frames, &required, diag);
    }
    frames.settle(&sections);
    let build_id_style = build_id_style(args);
    let notes = plan::Notes {
        properties: properties(args, &files, &facts, diag).0,
        build_id: build_id_style.as_ref().map_or_else(Vec::new, |style| {
            let mut note = build_id::note_header(style.len()).to_vec();
            note.resize(note.len() + style.len(), 0);
            note
        }),
    };
    let subject = plan::Subject {
        args,
        arena: &arena,
        arrangement: arrangement.as_ref(),
        files: &files,
        compiled,
        sections: &sections,
        frames: &frames,
        definitions: &definitions,
        inside: &inside,
        diag,
    };
    let plan = plan::plan(subject, notes);
    check(diag)?;
    map::Map {
        inputs: Inputs {
            args,
            files: &files,
            symbols: &symbols,
            definitions: &definitions,
            sections: &sections,
            paths: &opened.paths,
            linked: &linked,
            required: &required,
            commons: &plan.placed_commons(&definitions, &symbols),
            diag,
        },
        plan: &plan,
        frames: &frames,
    }
    .report();
    timing.phase("place sections");

    let referrer = references::Referrer {
        files: &files,
        symbols: &symbols,
        definitions: &definitions,
        sections: &sections,
        frames: &frames,
        plan: &plan,
    };
    let needed = references::scan(&referrer, diag);
    check(diag)?;
    timing.phase("scan relocations");

    let builder = symtab::Builder {
        args,
        referrer,
        needed: &needed,
        assigned: &assigned,
        retained: retained.as_ref(),
        diag,
    };
    let symtab = builder
        .build()
        .map_err(|symtab::TooLong| too_large(diag, ".strtab"))?;
    check(diag)?;
    timing.phase("choose symbols");

    let writing = Writing {
        referrer,
        needed: &needed,
        symtab: &symtab,
        os_abi: write::os_abi(&files, &linked),
        build_id: build_id_style.as_ref(),
    };
    let mut output = writing.write(args, diag)?;
    let output_size = output.bytes().len() as u64;
    // Where this fails there is no output either.
    dependency_file::write(args, &arena, scripts).map_err(|why| {
        diag.error(why);
        Failed
    })?;
    output.commit().map_err(|why| {
        dependency_file::remove(args);
        cannot_write(args, diag)(why)
    })?;
    timing.phase("write");

    let joined = tickets.iter().filter(|id| linked[id.index()]).count();
    let objects = files.iter().zip(&linked);
    let objects = objects.filter(|((_, file), linked)| **linked && file.object().is_some());
    link_log::linked(
        args,
        &link_log::Line {
            tickets: joined,
            objects: objects.count() - joined,
            output_size,
            time: timing.total(),
            full: None,
            remark: None,
        },
    );
    timing.finish();
    drop(opened.compiled);
    link.host.finished();
    Ok(())
}

fn too_large(diag: &Diagnostics, what: &str) -> Failed {
    diag.error(format!("{what} would be too large"));
    Failed
}

/// Puts an ELF object in the place of each ticket; says which files these are.
fn materialize<'a>(
    arena: &'a InputArena,
    files: &mut Files<'a>,
    diag: &Diagnostics,
) -> Vec<FileId> {
    let joined: Vec<(FileId, Result<Vec<u8>, Malformed>)> = files
        .0
        .par_iter()
        .enumerate()
        .filter_map(|(i, file)| Some((FileId(i as u32), file.object()?.materialize()?)))
        .collect();
    let mut tickets = Vec::with_capacity(joined.len());
    for (id, joined) in joined {
        let file = &mut files.0[id.index()];
        let parsed = joined.and_then(|bytes| ElfObject::parse(arena.bytes(bytes)));
        match parsed {
            Ok(elf) => file.body = Body::Object(elf.into()),
            Err(why) => diag.error(format!("{file}: {why}")),
        }
        tickets.push(id);
    }
    tickets
}

/// What an output is written from.
struct Writing<'w, 'a> {
    referrer: references::Referrer<'w, 'a>,
    needed: &'w references::Needed,
    symtab: &'w symtab::Symtab<'a>,
    /// `EI_OSABI`.
    os_abi: u8,
    build_id: Option<&'w build_id::Style>,
}

impl Writing<'_, '_> {
    /// Writes the output, which is not in its place yet.
    fn write(&self, args: &Args, diag: &Diagnostics) -> Result<OutputFile, Failed> {
        let plan = self.referrer.plan;
        let names = write::RelocationNames::new(plan);
        let entry = entry_value(args, self.referrer.symbols, self.symtab);
        let layout = write::Layout::new(plan, self.needed, self.symtab, &names, entry, self.os_abi)
            .map_err(|write::TooLarge(what)| too_large(diag, what))?;
        let cannot_write = cannot_write(args, diag);
        let mut output =
            OutputFile::create(&args.output, layout.size, Use::Data).map_err(&cannot_write)?;
        let writer = write::Writer {
            layout: &layout,
            referrer: self.referrer,
            needed: self.needed,
            symtab: self.symtab,
        };
        writer.write(output.bytes());
        if let (Some(style), Some(at)) = (self.build_id, write::build_id_offset(&layout, plan)) {
            let id = style.compute(output.bytes()).map_err(|why| {
                diag.error(why);
                Failed
            })?;
            let at = at as usize;
            output.bytes()[at..at + id.len()].copy_from_slice(&id);
        }
        // The build id keeps its place only if it is in it before sections are moved.
        if let Some(wanted) = debug_sections::Wanted::from_args(args) {
            debug_sections::finish(&mut output, wanted, diag).map_err(&cannot_write)?;
        }
        // Also a warning of the last steps can be an error (`--fatal-warnings`).
        check(diag)?;
        Ok(output)
    }
}

/// Reports that the output cannot be written, and why.
fn cannot_write(args: &Args, diag: &Diagnostics) -> impl Fn(std::io::Error) -> Failed {
    move |why| {
        diag.error(format!("cannot write {}: {why}", args.output.display()));
        Failed
    }
}

/// `-e`: the symbol's offset in its section, as GNU ld has it; else 0.
fn entry_value(args: &Args, symbols: &SymbolTable, symtab: &symtab::Symtab) -> u64 {
    let entry = args.entry.as_ref();
    entry
        .and_then(|entry| symbols.find(entry.symbol()))
        .map_or(0, |id| {
            symtab.symbols[symtab.of_global[id.index()] as usize].st_value
        })
}
