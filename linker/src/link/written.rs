//! The fifth stage: the file.

use super::incremental::held::Held;
use super::placed::Placed;
use super::resolved::Resolved;
use super::traced::Traced;
use super::{Failed, Link, check, report_damage, too_large};
use crate::args::{OutputFormat, OutputKind};
use crate::base::ids::SymbolId;
use crate::elf::Rela;
use crate::elf::build_id;
use crate::graph::trace::Needs;
use crate::layout::address_map::Places;
use crate::layout::got::Got;
use crate::layout::scripting;
use crate::layout::synthetic_sizes::{relocation_counts, section_names_table};
use crate::messages::timing::Timing;
use crate::output::debug_sections;
use crate::output::emit_relocs;
use crate::output::flat_binary;
use crate::output::image_writer::{self, Writer};
use crate::output::output_file::{OutputFile, Use};
use crate::output::relocate::Relocator;
use crate::output::symtab_shndx;
use crate::output::synthetic_sections::{self, Made};
use crate::resolve::output_sections::{Outputs, Std};
use crate::resolve::room::{self, Room};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Writes the output, which stands under its name only when it is committed. With `held`, what is there now stays until then.
///
/// # Errors
/// If there was an error.
pub fn write<'r>(
    link: Link<'r>,
    resolved: &'r Resolved<'r, 'r>,
    traced: &'r Traced<'r>,
    placed: &'r Placed<'r>,
    held: Option<&Held>,
    timing: &mut Timing,
) -> Result<(OutputFile, Kept), Failed> {
    let Link { args, diag, .. } = link;
    let outputs = &placed.outputs;
    let places = placed.places(resolved, traced);
    let made = made(link, traced, placed, &places)?;
    let used_as = match args.kind {
        OutputKind::Shared => Use::Shared,
        _ => Use::Executable,
    };
    let old = held.map_or_else(|| args.output.clone(), Held::spare);
    let size = placed.laid_out.segments.file_size;
    let mut output = OutputFile::create_in(&args.output, size, used_as, &old)
        .map_err(|why| cannot_write(link, why))?;
    timing.phase("create output");
    let dynamic = traced.dynamic.as_ref();
    let chooser = placed.chooser(args, resolved, traced);
    let writer = Writer {
        places: &places,
        relocator: Relocator {
            places: &places,
            values: &placed.values,
            mode: traced.mode,
            dynamic_index: &|id: SymbolId| dynamic.map_or(0, |dynamic| dynamic.index(id)),
            check_overflow: args.z.reloc_overflow_check,
            too_far: &link.doubts.too_far,
            diag,
        },
        frames: &resolved.frames,
        frame_layout: &traced.frame_layout,
        merge_classes: &traced.merge_classes,
        needs: &traced.needs,
        made: &made,
        symtab: placed.symtab.as_ref(),
        chooser,
        abbreviations: image_writer::abbreviations(
            outputs,
            &placed.laid_out.placement,
            Room::of(args),
        ),
        zeroed: output.is_zeroed(),
        position: timing.position(),
    };
    writer.write(output.bytes());
    let mut kept = Kept::default();
    if room::wanted(args).is_ok() {
        kept.regions = writer.regions();
        let placement = &placed.laid_out.placement;
        image_writer::fill_parts(outputs, placement, Room::of(args), output.bytes());
    }
    scripting::write_patches(&placed.laid_out.patches, output.bytes());
    // Repositories are read without errors being asked for one by one.
    report_damage(&resolved.files, diag);
    check(diag)?;
    // What follows rewrites or completes tables, and needs all else in its place.
    if args.z.combreloc {
        sort_relocations(outputs, &traced.got, &traced.needs, output.bytes());
    }
    if let Some(symtab) = &placed.symtab {
        let mut named = &[][..];
        if let Some(kept) = &placed.kept {
            let all = emit_relocs::Placed {
                files: &resolved.files,
                sections: &resolved.sections,
                placement: &placed.laid_out.placement,
                frames: &resolved.frames,
                frame_layout: &traced.frame_layout,
            };
            kept.write(&places, &all, &chooser, symtab, output.bytes());
            named = kept.named();
        }
        let values = &placed.values;
        symtab_shndx::write(symtab, &chooser, &places, values, named, output.bytes());
    }
    timing.phase("write");
    // Moves what is not loaded, which is all behind the build id: that keeps its place.
    if let Some(wanted) = debug_sections::Wanted::from_args(args) {
        debug_sections::finish(&mut output, wanted, diag).map_err(|why| cannot_write(link, why))?;
        timing.phase("index and compress debug sections");
    }
    // The build id digests everything else.
    if write_build_id(link, placed, output.bytes(), &mut kept)? {
        timing.phase("build id");
    }
    let output = match args.output_format {
        OutputFormat::Binary => flatten(link, placed, output)?,
        _ => output,
    };
    Ok((output, kept))
}

/// What the writer knew, and an incremental link needs to know.
#[derive(Default)]
pub(crate) struct Kept {
    /// Where each file has written; empty if no incremental link is to come.
    pub(crate) regions: Vec<image_writer::Regions>,
    /// Digests of the output's chunks, if its build id is made of them.
    pub(crate) digests: Vec<build_id::ChunkDigest>,
    /// Where the build id's bytes are in the file, and how many.
    pub(crate) build_id: [u64; 2],
}

/// Says why there is no output.
pub(super) fn cannot_write(link: Link, why: io::Error) -> Failed {
    let is_too_large = matches!(
        why.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    );
    if is_too_large && room::wanted(link.args).is_ok() {
        link.doubts.no_room.store(true, Relaxed);
    }
    let name = link.args.output.display();
    link.diag.error(format!("cannot write {name}: {why}"));
    Failed
}

/// What the linker makes itself.
fn made<'p>(
    link: Link<'p>,
    traced: &'p Traced<'p>,
    placed: &'p Placed<'p>,
    places: &'p Places<'p, 'p>,
) -> Result<Made<'p, 'p>, Failed> {
    let Link { args, diag, .. } = link;
    let (outputs, notes) = (&placed.outputs, &placed.notes);
    let section_names =
        section_names_table(&placed.laid_out.names).ok_or_else(|| too_large(diag, ".shstrtab"))?;
    let dynamic = traced.dynamic.as_ref();
    let entries = |dynamic: &crate::layout::dynamic::Dynamic| {
        dynamic.entries(&placed.dynamic_facts, args, outputs, &traced.got)
    };
    Ok(Made {
        places,
        values: &placed.values,
        mode: traced.mode,
        args,
        dynamic,
        dynamic_entries: dynamic.map_or_else(Vec::new, entries),
        interpreter: &notes.interpreter,
        properties: &notes.properties,
        package: &notes.package,
        build_id_len: notes.build_id.as_ref().map(build_id::Style::len),
        section_names,
        sframe: traced.sframe.as_ref(),
        relr_table: &placed.laid_out.relr_table,
        symtab: placed.symtab.as_ref(),
        entry: synthetic_sections::entry_address(args, places, &placed.values, diag),
        sizes: (0..outputs.sections.len())
            .map(|i| placed.sizes.get(i).map_or(0, |(size, _)| *size))
            .collect(),
        joined_strings: &placed.joined_strings,
        diag,
    })
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
fn sort_relocations(outputs: &Outputs, got: &Got, needs: &Needs, image: &mut [u8]) {
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
    image_writer::sort_symbolic(relas);
}

/// Computes the build id and puts it in its note; whether there is one.
fn write_build_id(
    link: Link,
    placed: &Placed,
    image: &mut [u8],
    kept: &mut Kept,
) -> Result<bool, Failed> {
    let note = bytes_of(&placed.outputs, Std::NoteBuildId);
    let (Some(style), Some(note)) = (&placed.notes.build_id, note) else {
        return Ok(false);
    };
    let at = note.start + build_id::NOTE_HEADER_SIZE;
    let id = match style {
        build_id::Style::Digest(_) => {
            kept.digests = build_id::chunk_digests(image);
            kept.build_id = [at as u64, style.len() as u64];
            style.of_chunks(&kept.digests, image.len() as u64)
        }
        _ => style.compute(image),
    };
    let id = id.map_err(|why| {
        link.diag.error(why);
        Failed
    })?;
    image[at..at + id.len()].copy_from_slice(&id);
    Ok(true)
}

/// `--oformat=binary`: what would be loaded, and nothing else.
fn flatten(link: Link, placed: &Placed, mut output: OutputFile) -> Result<OutputFile, Failed> {
    let segments = &placed.laid_out.segments;
    let flat = flat_binary::of_image(&placed.outputs, segments, output.bytes());
    let flat = flat.map_err(|why| {
        link.diag.error(why);
        Failed
    })?;
    // The one is gone before the other is made.
    drop(output);
    let mut output = OutputFile::create(&link.args.output, flat.len() as u64, Use::Data)
        .map_err(|why| cannot_write(link, why))?;
    output.bytes().copy_from_slice(&flat);
    Ok(output)
}
