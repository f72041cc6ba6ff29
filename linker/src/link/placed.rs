//! The fourth stage: where everything is, and what every symbol's address is.

use super::resolved::Resolved;
use super::traced::Traced;
use super::{Failed, Link, check_inputs, too_large};
use crate::args::Args;
use crate::base::ids::PartId;
use crate::elf::build_id;
use crate::layout::address_map::Assigned;
use crate::layout::address_map::{Places, Starts, SymbolValue};
use crate::layout::dynamic::{Dynamic, DynamicFacts};
use crate::layout::notes::{build_id_style, interpreter, package_note, properties};
use crate::layout::placement;
use crate::layout::program_headers;
use crate::layout::relr;
use crate::layout::scripting::{self, LaidOut};
use crate::layout::symtab::{Chooser, SymtabLayout};
use crate::layout::synthetic_sizes::{
    self, Wanted, name_sections, relocation_counts, settle_links, settle_types,
};
use crate::messages::timing::Timing;
use crate::output::emit_relocs;
use crate::report::warnings;
use crate::resolve::output_sections::Part;
use crate::resolve::output_sections::{Outputs, Std};
use crate::resolve::retain_symbols_file::Retained;
use crate::resolve::room::Room;
use crate::resolve::symbol_table::SymbolTable;
use std::sync::atomic::Ordering::Relaxed;

/// Where everything is.
pub struct Placed<'r> {
    /// The output sections, with addresses and places in the file.
    pub outputs: Outputs<'r>,
    /// Size and alignment of what the linker makes, by part.
    pub sizes: Vec<(u64, u64)>,
    /// What the linker makes and what does not depend on addresses.
    pub notes: Notes,
    /// The names that stay in the symbol table, if the command line says so.
    pub retained: Option<Retained>,
    /// The symbol table, if it is not stripped.
    pub symtab: Option<SymtabLayout>,
    /// The relocations that are kept (`--emit-relocs`).
    pub kept: Option<emit_relocs::Kept>,
    /// Placement and segments.
    pub laid_out: LaidOut,
    /// What `.dynamic` says.
    pub dynamic_facts: DynamicFacts,
    /// The run path and its like, joined, each with its NUL: they come last in `.dynstr`.
    pub joined_strings: Vec<u8>,
    /// Addresses of the sections that are copied as they are.
    pub starts: Starts,
    /// What scripts assign to symbols.
    pub assigned: Vec<Assigned>,
    /// The value of each global symbol.
    pub values: Vec<SymbolValue>,
    /// See [`Places::static_irelative`].
    pub static_irelative: u64,
}

/// What the linker makes and what does not depend on addresses.
pub struct Notes {
    /// The run-time linker's path, NUL-terminated.
    pub interpreter: Vec<u8>,
    /// `.note.gnu.property`.
    pub properties: Vec<u8>,
    /// PLT entries begin with `endbr64`, as the properties promise.
    pub ibt: bool,
    /// `.note.package`.
    pub package: Vec<u8>,
    /// The kind of build id, if there is one.
    pub build_id: Option<build_id::Style>,
}

impl Placed<'_> {
    /// Addresses of everything.
    pub fn places<'p>(
        &'p self,
        resolved: &'p Resolved<'p, 'p>,
        traced: &'p Traced<'p>,
    ) -> Places<'p, 'p> {
        Places {
            files: &resolved.files,
            symbols: &resolved.symbols,
            definitions: &resolved.definitions,
            sections: &resolved.sections,
            folds: &traced.folds,
            placement: &self.laid_out.placement,
            starts: &self.starts,
            outputs: &self.outputs,
            merged: &traced.merged,
            pieces: &traced.pieces,
            commons: &traced.commons,
            got: &traced.got,
            linker_symbols: &resolved.linker_symbols,
            assigned: &self.assigned,
            segments: &self.laid_out.segments,
            frame_offsets: &traced.frame_layout.file_offsets,
            ibt: self.notes.ibt,
            static_irelative: self.static_irelative,
        }
    }

    /// Which symbols are in the symbol table.
    pub fn chooser<'p>(
        &'p self,
        args: &'p Args,
        resolved: &'p Resolved<'p, 'p>,
        traced: &'p Traced<'p>,
    ) -> Chooser<'p, 'p> {
        chooser(args, self.retained.as_ref(), resolved, traced)
    }
}

/// Places everything. `offsets` is what [`trace`](super::traced::trace) has prepared.
///
/// # Errors
/// If there was an error.
pub fn place<'r>(
    link: Link<'r>,
    resolved: &'r Resolved<'r, 'r>,
    traced: &'r Traced<'r>,
    offsets: Vec<u64>,
    timing: &mut Timing,
) -> Result<Placed<'r>, Failed> {
    let Link { args, diag, .. } = link;
    let Resolved { files, symbols, .. } = resolved;
    // How many symbols there are must be known before sizes are, and which are folded before that.
    let retained = Retained::read(args, diag);
    let symtab = chooser(args, retained.as_ref(), resolved, traced).layout(Room::of(args));
    if symtab
        .as_ref()
        .is_some_and(|symtab| symtab.names > u32::MAX.into())
    {
        return Err(too_large(diag, ".strtab"));
    }
    timing.phase("count symbols");

    // Sizes of what the linker makes, then the placement of everything, then addresses.
    let mut outputs: Outputs<'r> = traced.outputs.clone();
    let notes = notes(link, resolved);
    let mut sizes = reserve(args, resolved, traced, symtab.as_ref(), &notes);
    settle_links(&resolved.sections, &mut outputs, &resolved.facts.link_order);
    let mut layouting = Layouting {
        link,
        resolved,
        traced,
        symtab,
        kept: None,
        executable_stack: false,
    };
    let placing = layouting.fill(&mut outputs, &mut sizes, &notes, offsets)?;
    let (mut dynamic_facts, joined_strings) = size_dynamic(args, resolved, traced, &mut outputs);
    layouting.executable_stack =
        warnings::executable_stack(args, files, &resolved.facts.executable_stack, diag);
    let mut laid_out = layouting.assign(placing, &mut outputs)?;
    let Layouting { symtab, kept, .. } = layouting;
    let outputs = outputs;
    warnings::rwx_segments(args, &laid_out.segments.phdrs, diag);
    check_inputs(files, diag)?;
    timing.phase("lay out");

    // What became known with the addresses.
    for std in [Std::Dynamic, Std::ShStrtab, Std::RelrDyn] {
        sizes[std.part().index()].0 = outputs.std(std).size;
    }
    let counts = relocation_counts(&traced.got, &traced.needs);
    let assigned = laid_out.assigned.take();
    let mut placed = Placed {
        starts: Starts::new(&resolved.sections, &laid_out.placement, &outputs),
        outputs,
        sizes,
        notes,
        retained,
        symtab,
        kept,
        laid_out,
        dynamic_facts: DynamicFacts::default(),
        joined_strings,
        assigned: Vec::new(),
        values: Vec::new(),
        static_irelative: match resolved.dynamic_output {
            true => 0,
            false => counts[2].into(),
        },
    };
    // A script without a layout of its own computes with the addresses of this one.
    placed.assigned = assigned.unwrap_or_else(|| {
        let places = placed.places(resolved, traced);
        resolved.assignments.values(args, &places, diag)
    });
    check_inputs(files, diag)?;
    placed.values = placed.places(resolved, traced).symbol_values();
    for (name, value) in [
        (&args.init, &mut dynamic_facts.init),
        (&args.fini, &mut dynamic_facts.fini),
    ] {
        if let (Some(value), Some(id)) = (value, symbols.find(name)) {
            *value = placed.values[id.index()].address;
        }
    }
    placed.dynamic_facts = dynamic_facts;
    Ok(placed)
}

fn chooser<'p>(
    args: &'p Args,
    retained: Option<&'p Retained>,
    resolved: &'p Resolved<'p, 'p>,
    traced: &'p Traced<'p>,
) -> Chooser<'p, 'p> {
    Chooser {
        files: &resolved.files,
        symbols: &resolved.symbols,
        sections: &resolved.sections,
        folds: &traced.folds,
        args,
        retained,
    }
}

fn notes(link: Link, resolved: &Resolved) -> Notes {
    let args = link.args;
    let (properties, ibt) = properties(args, &resolved.files, &resolved.facts, link.diag);
    Notes {
        interpreter: interpreter(args, resolved.dynamic_output),
        properties,
        ibt,
        package: package_note(args),
        build_id: build_id_style(args),
    }
}

/// Sizes of what the linker makes, by part.
fn reserve(
    args: &Args,
    resolved: &Resolved,
    traced: &Traced,
    symtab: Option<&SymtabLayout>,
    notes: &Notes,
) -> Vec<(u64, u64)> {
    let parts = traced.outputs.parts.iter().enumerate();
    let is_first = |(number, part): &(usize, &Part)| {
        let class = traced.merge_classes.get(*number).copied().flatten();
        class.is_none() && part.merge.is_some() && part.output == Std::Rodata.id()
    };
    let room = Room::of(args).of_first_pieces();
    let first_pieces: Vec<_> = parts
        .filter(|part| room > 0 && is_first(part))
        .map(|(number, part)| {
            let align = part.merge.map_or(1, |kind| u64::from(kind.entsize));
            (PartId(number as u32), (room, align))
        })
        .collect();
    synthetic_sizes::reserve(
        &Wanted {
            args,
            symbols: &resolved.symbols,
            needs: &traced.needs,
            got: &traced.got,
            dynamic: traced.dynamic.as_ref(),
            symtab,
            frames: &traced.frame_layout,
            sframe: traced.sframe.as_ref(),
            merged: &traced.merged,
            merge_classes: &traced.merge_classes,
            first_pieces: &first_pieces,
            commons: &traced.commons,
            interpreter: notes.interpreter.len(),
            properties: notes.properties.len(),
            package: notes.package.len(),
            build_id: notes.build_id.as_ref().map(build_id::Style::len),
            ibt: notes.ibt,
        },
        traced.outputs.parts.len(),
    )
}

/// Finds out what `.dynamic` says, and so how large it is; and what comes last in `.dynstr`. Addresses are still missing.
fn size_dynamic(
    args: &Args,
    resolved: &Resolved,
    traced: &Traced,
    outputs: &mut Outputs,
) -> (DynamicFacts, Vec<u8>) {
    let needs = &traced.needs;
    let mut facts = DynamicFacts {
        relative_count: relocation_counts(&traced.got, needs)[0],
        text_relocations: needs.text_relocations.load(Relaxed),
        static_tls: needs.static_tls.load(Relaxed),
        ..DynamicFacts::default()
    };
    let Some(dynamic) = &traced.dynamic else {
        return (facts, Vec::new());
    };
    let lists = join_lists(args, dynamic, &mut facts);
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
            facts.sections.push(std);
        }
    }
    facts.init = in_object(&resolved.symbols, &args.init);
    facts.fini = in_object(&resolved.symbols, &args.fini);
    let count = dynamic.entries(&facts, args, outputs, &traced.got).len();
    outputs.std_mut(Std::Dynamic).size = 16 * count as u64;
    outputs.std_mut(Std::Dynamic).align = 8;
    (facts, lists)
}

/// The run path and its like, each joined into one string.
fn join_lists(args: &Args, dynamic: &Dynamic, facts: &mut DynamicFacts) -> Vec<u8> {
    let start = dynamic.strings.bytes().len();
    let mut lists = Vec::new();
    for (list, place) in [
        (args.recorded_rpath(), &mut facts.rpath),
        (&args.audit[..], &mut facts.audit),
        (&dynamic.depaudit[..], &mut facts.depaudit),
    ] {
        if !list.is_empty() {
            *place = Some((start + lists.len()) as u32);
            lists.extend(list.join(&b':'));
            lists.push(0);
        }
    }
    lists
}

/// An address that is not known yet, if an object defines the symbol.
fn in_object(symbols: &SymbolTable, name: &[u8]) -> Option<u64> {
    let id = symbols.find(name)?;
    symbols.key(id).in_object().then_some(0)
}

/// A placement that still lacks addresses.
enum Placing<'s> {
    /// By the default layout.
    Default(placement::Placement),
    /// By a script.
    Scripted(Box<scripting::Filled<'s>>),
}

/// What laying out needs to know, and what it corrects.
struct Layouting<'r> {
    link: Link<'r>,
    resolved: &'r Resolved<'r, 'r>,
    traced: &'r Traced<'r>,
    /// Symbols of output sections are added when relocations are kept.
    symtab: Option<SymtabLayout>,
    kept: Option<emit_relocs::Kept>,
    executable_stack: bool,
}

impl<'r> Layouting<'r> {
    /// Finds out what is in each output section, in which order.
    fn fill(
        &self,
        outputs: &mut Outputs<'r>,
        sizes: &mut Vec<(u64, u64)>,
        notes: &Notes,
        offsets: Vec<u64>,
    ) -> Result<Placing<'r>, Failed> {
        let Link { args, diag, .. } = self.link;
        let Resolved {
            files,
            sections,
            facts,
            ..
        } = self.resolved;
        let Some(plan) = &self.resolved.plan else {
            let folds = &self.traced.folds;
            let placement = placement::place(
                files,
                sections,
                folds,
                outputs,
                placement::Beside {
                    made: sizes,
                    room: Room::of(args),
                    link_order: &facts.link_order,
                },
                offsets,
            );
            settle_types(files, sections, outputs, &placement, args);
            placement::report_too_large(outputs, diag);
            check_inputs(files, diag)?;
            return Ok(Placing::Default(placement));
        };
        let subject = scripting::Subject {
            args,
            files,
            sections,
            dynamic: self.resolved.dynamic_output,
            link_order: &facts.link_order,
            diag,
        };
        let filled = plan.clone().fill(subject, outputs, sizes, offsets);
        if notes.build_id.is_some() && outputs.std(Std::NoteBuildId).size == 0 {
            // GNU ld's words.
            diag.warn(".note.gnu.build-id section discarded, --build-id ignored");
        }
        Ok(Placing::Scripted(Box::new(filled)))
    }

    /// Gives everything its address and its place in the file.
    fn assign(
        &mut self,
        placing: Placing<'r>,
        outputs: &mut Outputs<'r>,
    ) -> Result<LaidOut, Failed> {
        match placing {
            Placing::Default(placement) => self.assign_by_default(placement, outputs),
            Placing::Scripted(filled) => Ok(self.assign_by_script(*filled, outputs)),
        }
    }

    fn assign_by_default(
        &mut self,
        placement: placement::Placement,
        outputs: &mut Outputs<'r>,
    ) -> Result<LaidOut, Failed> {
        let Link { args, diag, .. } = self.link;
        let (resolved, traced) = (self.resolved, self.traced);
        // Tables of relocations are output sections, too: before these are named and have addresses.
        let standing = outputs.in_order();
        self.keep_relocations(&placement, &standing, outputs);
        scripting::print_no_memory_usage(args);
        let names = name_sections(outputs, args);
        let packed = relr::Sites::new(
            &traced.needs,
            &traced.got,
            traced.mode,
            &resolved.sections,
            &placement,
            outputs,
        );
        // How many words packed relocations take follows from addresses, which follow from how many words they take.
        let settled = packed.settle(outputs, |outputs| {
            program_headers::assign(
                outputs,
                args,
                resolved.dynamic_output,
                self.executable_stack,
            )
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
            program_headers::report_overlap(&segments.phdrs, diag);
            warnings::image_base(args, diag);
        }
        Ok(LaidOut {
            placement,
            segments,
            names,
            assigned: None,
            patches: Vec::new(),
            relr_table,
        })
    }

    fn assign_by_script(
        &mut self,
        filled: scripting::Filled<'r>,
        outputs: &mut Outputs<'r>,
    ) -> LaidOut {
        let (resolved, traced) = (self.resolved, self.traced);
        let facts = scripting::Facts {
            args: self.link.args,
            symbols: &resolved.symbols,
            definitions: &resolved.definitions,
            sections: &resolved.sections,
            merged: &traced.merged,
            frame_offsets: &traced.frame_layout.file_offsets,
            commons: &traced.commons,
            got: &traced.got,
            needs: &traced.needs,
            mode: traced.mode,
            linker_symbols: &resolved.linker_symbols,
            executable_stack: self.executable_stack,
            diag: self.link.diag,
        };
        filled.assign(
            &facts,
            &resolved.assignments,
            outputs,
            &mut |placement, standing, outputs| {
                self.keep_relocations(placement, standing, outputs);
            },
        )
    }

    /// `--emit-relocs`: makes room for tables.
    fn keep_relocations(
        &mut self,
        placement: &placement::Placement,
        standing: &[crate::base::ids::OutputId],
        outputs: &mut Outputs<'r>,
    ) {
        let Link { args, diag, .. } = self.link;
        let placed = emit_relocs::Placed {
            files: &self.resolved.files,
            sections: &self.resolved.sections,
            placement,
            frames: &self.resolved.frames,
            frame_layout: &self.traced.frame_layout,
        };
        let symtab = self.symtab.as_mut();
        self.kept = emit_relocs::Kept::plan(args, &placed, standing, outputs, symtab, diag);
    }
}
