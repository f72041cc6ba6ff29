//! The last step of an incremental link: the objects' parts of the output are written, as a full link writes them.

use super::again::{Again, How};
use super::exports;
use super::holes::{Holes, RELOCATIONS};
use super::imports;
use super::names::Known;
use super::needs;
use super::patch::{self, Patch};
use super::place::{Moved, Placed, check_slots, write_slots};
use super::read::Read;
use super::readdress::Readdressed;
use super::reason::Reason;
use super::records::Range;
use super::spare::Canvas;
use super::state::{
    CieRecord, DAMAGED, Facts, FileRecord, FreeRecord, OutputRecord, PartRecord, State, Table, fact,
};
use super::symbolic::Had;
use super::symbols::{Left, finish_symbols, settle_symbols, update_dynamic};
use super::trace::{Settled, Traced};
use crate::base::ids::{FileId, SymbolId};
use crate::elf::build_id::ChunkDigest;
use crate::elf::eh_frame;
use crate::elf::string_table::StringTable;
use crate::elf::{EI_OSABI, Rela, c};
use crate::graph::eh_frame_records::FrameLayout;
use crate::layout::address_map::SymbolValue;
use crate::layout::symtab::{Chooser, SymtabLayout};
use crate::messages::progress::Position;
use crate::messages::timing::Timing;
use crate::output::image_writer::{Regions, ToWrite, Writer};
use crate::output::relocate::Relocator;
use crate::output::synthetic_sections::{Made, spare_relocation};
use crate::resolve::output_sections::{Outputs, Std};
use crate::resolve::retain_symbols_file::Retained;
use crate::resolve::room::{Filler, Room};
use crate::resolve::symbol_facts::Demand;
use memmap2::Mmap;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The objects, as the steps before have made them.
#[derive(Clone, Copy)]
pub(super) struct Linked<'l> {
    pub read: &'l Read<'l>,
    pub settled: &'l Settled,
    pub traced: &'l Traced<'l>,
    pub placed: &'l Placed<'l>,
    /// All symbols as references see them.
    pub values: &'l [SymbolValue],
    /// What has moved.
    pub moved: &'l Moved<'l>,
    /// What that changes in files that are as they were.
    pub readdressed: &'l Readdressed,
}

/// What an output is after it was changed.
pub(super) struct Written {
    /// Ranges that are nobody's, if these are others now.
    pub free: Option<Vec<FreeRecord>>,
    pub facts: Facts,
    pub digests: Vec<ChunkDigest>,
    /// Where it has changed.
    pub stale: Vec<Range>,
    /// It, to be published; nothing if it was compared.
    pub canvas: Option<Canvas>,
}

/// Makes the changed output, or compares with it; `old` are its bytes. `records` get the places that files have in tables.
///
/// # Errors
/// If it cannot be done, or the comparison fails.
pub(super) fn write(
    again: Again,
    linked: Linked,
    records: &mut [FileRecord],
    mut facts: Facts,
    old: Mmap,
    how: How<'_>,
    timing: &mut Timing,
) -> Result<Written, Reason> {
    let Linked {
        read,
        settled,
        traced,
        placed,
        values,
        moved,
        readdressed,
    } = linked;
    let (args, diag) = (again.link.args, again.diag);
    let places = placed.places(read, settled, traced);
    let retained = Retained::read(args, diag);
    let chooser = Chooser {
        files: &read.files,
        symbols: &read.symbols,
        sections: &read.sections,
        folds: places.folds,
        args,
        retained: retained.as_ref(),
    };
    let has_symbols = facts.bits & fact::SYMTAB != 0;
    let symtab = has_symbols.then(|| chooser.layout(Room::NONE)).flatten();
    let mut holes = placed.holes.take();
    let left = match &symtab {
        Some(symtab) => settle_symbols(again.state, symtab, records, &mut facts, &mut holes)?,
        None => Left::default(),
    };
    let left_relocations = settle_relocations(traced, records, &mut facts, &mut holes)?;
    let dynamic: FxHashMap<SymbolId, u32> = {
        let index = |known: &Known| Some((known.symbol, known.record?.dynamic));
        settled.names.list.iter().filter_map(index).collect()
    };
    let too_far = AtomicBool::new(false);
    // Only what it is told of messages and options is asked for: what the linker makes itself stays.
    let made = Made {
        places: &places,
        values,
        mode: traced.mode,
        args,
        dynamic: None,
        dynamic_entries: Vec::new(),
        interpreter: b"",
        properties: b"",
        package: b"",
        build_id_len: None,
        section_names: StringTable::new(),
        sframe: None,
        relr_table: &[],
        symtab: symtab.as_ref(),
        entry: 0,
        sizes: Vec::new(),
        joined_strings: b"",
        diag,
    };
    let position = Position::default();
    let mut writer = Writer {
        places: &places,
        relocator: Relocator {
            places: &places,
            values,
            mode: traced.mode,
            dynamic_index: &|id: SymbolId| dynamic.get(&id).copied().unwrap_or(0),
            check_overflow: args.z.reloc_overflow_check,
            too_far: &too_far,
            diag,
        },
        frames: &settled.frames,
        frame_layout: &placed.frame_layout,
        merge_classes: &traced.classes,
        needs: &traced.needs,
        made: &made,
        symtab: symtab.as_ref(),
        chooser,
        abbreviations: u32::try_from(facts.abbreviations).ok(),
        zeroed: false,
        position: &position,
    };
    let frame_layout = find_cies(again.state, &old, &placed.outputs, &writer)?;
    writer.frame_layout = &frame_layout;
    timing.phase("prepare to write");

    if matches!(how, How::Compare) {
        let defined = settled.names.list.iter().filter_map(|known| {
            let record = known.record.filter(|record| record.dynamic != 0)?;
            known.own.map(|_| record.dynamic)
        });
        exports::check(again.state, &old, defined)?;
        check_slots(again, &placed.outputs, &settled.names, values, &old)?;
    }
    let mut image = Image::open(again, old, how)?;
    timing.phase("open output");
    let mut patch = Patch::new(image.bytes());
    let spare = spare_relocation(facts.spare_place);
    for region in left_relocations {
        fill_relocations(&mut patch, region, spare).ok_or(DAMAGED)?;
    }
    fill_frames(&mut patch, again.state, placed, &facts).ok_or(DAMAGED)?;
    let exports = &settled.names.exports;
    exports.write_moved(&mut patch, &placed.outputs)?;
    let had = find_symbolic(&patch, again.state, traced, placed, records)?;
    for list in &placed.again.lists {
        list.write(&mut patch, again.state, &placed.outputs, &facts)?;
    }
    // What is filled may be taken by files that are linked now.
    fill(&mut patch, again.state, traced, placed, &facts).ok_or(DAMAGED)?;
    write_slots(&mut patch, &placed.outputs, &moved.slots).ok_or(DAMAGED)?;
    write_files(&writer, &mut patch, placed, records, had, spare)?;
    readdressed.write(&mut patch).ok_or(DAMAGED)?;
    let grants = settled.names.grants.iter().map(|(index, grant)| {
        let known = &settled.names.list[*index];
        let record = known.record.unwrap_or_else(bytemuck::Zeroable::zeroed);
        // What is copied is a definition.
        let is_copied = record.facts.has(Demand::COPY);
        let import = known.import.filter(|_| !is_copied);
        let import = import.map(|import| &again.edited.imports[import]);
        (grant, record.dynamic, import)
    });
    let grants: Vec<_> = grants.collect();
    let ibt = facts.bits & fact::IBT != 0;
    imports::write(&mut patch, &placed.outputs, ibt, &mut facts, &grants)?;
    let mut new = again.edited.needs.clone();
    new.extend(settled.names.needs.clone());
    needs::write(&mut patch, &placed.outputs, &mut facts, &new)?;
    if has_symbols {
        finish_symbols(&mut patch, &placed.outputs, &facts, &left).ok_or(DAMAGED)?;
        if symtab.as_ref().is_some_and(SymtabLayout::has_gnu) {
            patch.bytes(EI_OSABI, 1).ok_or(DAMAGED)?[0] = c::ELFOSABI_GNU;
        }
    }
    exports.write_added(&mut patch, &places, values, &mut facts)?;
    update_dynamic(&mut patch, &places, values, &settled.names)?;
    exports::write_sysv(&mut patch, &placed.outputs).ok_or(DAMAGED)?;
    again.refuse()?;
    if too_far.load(Relaxed) {
        return Err("a section is too far away".into());
    }
    let mut digests: Vec<ChunkDigest> = again.state.table(Table::Digests).to_vec();
    // The id of a comparison would only say that something is not the same.
    if matches!(how, How::Change(_)) {
        patch
            .write_build_id(&mut digests, facts.build_id)
            .ok_or(DAMAGED)?;
    }
    let stale = patch.changed();
    timing.phase("write");
    Ok(Written {
        free: holes.finish(),
        facts,
        digests,
        stale,
        canvas: image.finish()?,
    })
}

/// What is written to.
enum Image {
    /// The output to be.
    Output(Canvas),
    /// A copy, and what it must be equal to.
    Copy(Vec<u8>, Mmap),
}

impl Image {
    /// Opens it; `old` are the output's bytes.
    fn open(again: Again, old: Mmap, how: How) -> Result<Image, Reason> {
        let How::Change(held) = how else {
            return Ok(Image::Copy(old.to_vec(), old));
        };
        let output = &again.link.args.output;
        let opened = Canvas::new(again.state, held, output, &old);
        let failed = |why| Reason::from(format!("cannot change {}: {why}", output.display()));
        opened.map(Image::Output).map_err(failed)
    }

    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Image::Output(output) => output.bytes(),
            Image::Copy(copy, _) => copy,
        }
    }

    /// The changed output, or nothing if it is compared.
    fn finish(self) -> Result<Option<Canvas>, Reason> {
        match self {
            Image::Output(canvas) => Ok(Some(canvas)),
            Image::Copy(copy, old) => {
                match copy.iter().zip(&old[..]).position(|(now, was)| now != was) {
                    None => Ok(None),
                    Some(at) => Err(format!("the output is another at {at:#x}").into()),
                }
            }
        }
    }
}

/// Makes room for the relative relocations that files have now. Gives the regions that files have left, each as file offset and number.
fn settle_relocations(
    traced: &Traced,
    records: &mut [FileRecord],
    facts: &mut Facts,
    holes: &mut Holes,
) -> Result<Vec<(u64, u32)>, Reason> {
    let mut left = Vec::new();
    for (counts, record) in traced.needs.dynamic.iter().skip(1).zip(records) {
        let now = counts.relative.load(Relaxed);
        if now <= record.relative {
            continue;
        }
        left.push((record.relative_at, record.relative));
        holes.leave(
            RELOCATIONS,
            record.relative_at,
            24 * u64::from(record.relative),
        );
        let wanted = u64::from(now + now / 4 + 4);
        if let Some((at, size, _)) = holes.take(RELOCATIONS, 24 * wanted, 1, |_| true) {
            (record.relative_at, record.relative) = (at, (size / 24) as u32);
            continue;
        }
        let [at, rest] = facts.spare_relocations;
        let count = wanted.min(rest);
        if count < u64::from(now) {
            return Err("there is no room for more dynamic relocations".into());
        }
        (record.relative_at, record.relative) = (at, count as u32);
        facts.spare_relocations = [at + 24 * count, rest - count];
    }
    Ok(left)
}

/// Fills what files have left of the frame descriptions, and says how much is spare of those that nobody has had.
fn fill_frames(patch: &mut Patch, state: &State, placed: &Placed, facts: &Facts) -> Option<()> {
    let section = placed.outputs.std(Std::EhFrame);
    for [at, size] in &placed.left_frames {
        let room = patch.bytes(section.offset.checked_add(*at)?, *size)?;
        eh_frame::fill(room);
    }
    let [at, size] = facts.spare_frames;
    if size > 0 && facts.spare_frames != state.header().facts.spare_frames {
        let head = eh_frame::fill_head(size);
        let start = section.offset.checked_add(at)?;
        patch
            .bytes(start, head.len() as u64)?
            .copy_from_slice(&head);
    }
    Some(())
}

/// Fills a region of relative relocations with one that nobody needs.
fn fill_relocations(patch: &mut Patch, (at, count): (u64, u32), spare: Rela) -> Option<()> {
    if count > 0 {
        let bytes = patch.bytes(at, 24 * u64::from(count))?;
        let slots: &mut [Rela] = bytemuck::try_cast_slice_mut(bytes).ok()?;
        slots.fill(spare);
    }
    Some(())
}

/// Writes new pieces, and fills room that chunks with debugging information have taken or left.
fn fill(
    patch: &mut Patch,
    state: &State,
    traced: &Traced,
    placed: &Placed,
    facts: &Facts,
) -> Option<()> {
    let parts: &[PartRecord] = state.table(Table::Parts);
    let sections: &[OutputRecord] = state.table(Table::Outputs);
    let rests = placed.again.rests.iter();
    let rests = rests.map(|(part, (offset, size))| (*part, *offset, *size));
    for (part, offset, size) in rests.chain(placed.again.left.iter().copied()) {
        let part = parts.get(part as usize)?;
        let output = sections.get(part.output as usize)?;
        let room = patch.bytes(output.offset.checked_add(offset)?, size)?;
        let name = state.text(output.name, output.name_len);
        let filler = Filler::of(name).unwrap_or(Filler::Zeros);
        filler.fill(room, u32::try_from(facts.abbreviations).ok());
    }
    for piece in &traced.added {
        let part = parts.get(piece.part as usize)?;
        let section = sections.get(part.output as usize)?;
        let at = section.offset + part.offset + piece.offset;
        let bytes = patch.bytes(at, piece.bytes.len() as u64)?;
        bytes.copy_from_slice(&piece.bytes);
    }
    Some(())
}

/// The layout of the frames with the common information entries where they are in the output.
fn find_cies(
    state: &State,
    old: &[u8],
    outputs: &Outputs,
    writer: &Writer,
) -> Result<FrameLayout, Reason> {
    let known: &[CieRecord] = state.table(Table::Cies);
    let section = outputs.std(Std::EhFrame);
    let mut found: FxHashMap<u32, u32> = FxHashMap::default();
    for cie in &writer.frame_layout.cies {
        let is_it = |record: &&CieRecord| {
            let start = (section.offset + u64::from(record.offset)) as usize;
            let there = old.get(start..start.saturating_add(record.size as usize));
            there.is_some_and(|there| there == writer.cie_bytes(cie, record.offset))
        };
        let there = known.iter().find(is_it);
        let there = there.ok_or("a changed object has frame descriptions of a new kind")?;
        found.insert(cie.offset, there.offset);
    }
    let mut layout = FrameLayout {
        cies: Vec::new(),
        ..writer.frame_layout.clone()
    };
    // Those that nobody uses have no place.
    let offsets = layout.cie_offsets.iter_mut().flatten();
    for offset in offsets.filter(|offset| **offset != u32::MAX) {
        *offset = *found.get(offset).ok_or(DAMAGED)?;
    }
    Ok(layout)
}

/// What the files had of relocations that name symbols, which most have not; `records` tell of the files as they were.
fn find_symbolic(
    patch: &Patch,
    state: &State,
    traced: &Traced,
    placed: &Placed,
    records: &[FileRecord],
) -> Result<Had, Reason> {
    let mut files = traced.needs.dynamic.iter().skip(1).zip(records);
    match files.any(|(now, was)| now.symbolic.load(Relaxed) > 0 || was.symbolic > 0) {
        true => Had::find(patch.image, state, &placed.outputs, records),
        false => Ok(Had::default()),
    }
}

/// Writes the files' parts of the output, and their rows of the table of frames.
fn write_files(
    writer: &Writer,
    patch: &mut Patch,
    placed: &Placed,
    records: &mut [FileRecord],
    had: Had,
    spare: Rela,
) -> Result<(), Reason> {
    let outputs = writer.places.outputs;
    let damaged = || Reason::from(DAMAGED);
    let frames = outputs.std(Std::EhFrame);
    let strings = outputs.std(Std::Strtab);
    let (mut to_write, mut ranges) = (Vec::with_capacity(records.len()), Vec::new());
    for (index, record) in records.iter_mut().enumerate() {
        let counts = &writer.needs.dynamic[index + 1];
        let relative = counts.relative.load(Relaxed);
        record.symbolic = counts.symbolic.load(Relaxed);
        let regions = Regions {
            frames: (
                frames.offset.wrapping_add(record.frames[0]),
                record.frames[1],
            ),
            locals: (record.locals_at, record.locals),
            globals: (record.globals_at, record.globals),
            names: (
                strings.offset.wrapping_add(record.names[0]),
                record.names[1],
            ),
            relative: (record.relative_at, relative),
            symbolic: record.symbolic,
            irelative: (record.irelative_at, record.irelative),
        };
        let region = (record.relative_at, record.relative);
        fill_relocations(patch, region, spare).ok_or_else(damaged)?;
        let chunks = placed.again.files[index].range.clone();
        patch.touch(regions.frames.0, regions.frames.1);
        patch.touch(regions.locals.0, 24 * u64::from(regions.locals.1));
        patch.touch(regions.globals.0, 24 * u64::from(regions.globals.1));
        patch.touch(regions.names.0, regions.names.1);
        patch.touch(regions.irelative.0, 24 * u64::from(regions.irelative.1));
        for number in chunks.clone() {
            let chunk = &placed.again.placement.chunks[number as usize];
            let section = &outputs.sections[outputs.parts[chunk.part.index()].output.index()];
            if !section.is_nobits() {
                patch.touch(section.offset + chunk.offset, chunk.size);
            }
        }
        to_write.push(ToWrite {
            file: FileId(index as u32 + 1),
            regions,
            chunks,
        });
        let start = frames.address.wrapping_add(record.frames[0]);
        ranges.push(start..start.wrapping_add(record.frames[1]));
    }
    let written = writer.write_again(&to_write, patch.image);
    let (mut rows, mut all_symbolic) = (Vec::new(), Vec::new());
    for of_file in written.ok_or_else(damaged)? {
        rows.extend(of_file.table);
        all_symbolic.extend(of_file.symbolic);
    }
    had.replace(patch, outputs, &all_symbolic)?;
    for [at, size] in &placed.left_frames {
        let start = frames.address.wrapping_add(*at);
        ranges.push(start..start.wrapping_add(*size));
    }
    let header = outputs.std(Std::EhFrameHdr);
    if header.size > 0 && writer.made.args.eh_frame_hdr {
        let at = usize::try_from(header.offset).map_err(|_| damaged())?;
        let end = at.checked_add(usize::try_from(header.size).map_err(|_| damaged())?);
        let table = end.and_then(|end| patch.image.get_mut(at..end));
        let table = table.ok_or_else(damaged)?;
        for (at, size) in patch::replace_rows(table, header.address, &ranges, rows)? {
            patch.touch(header.offset + at as u64, size as u64);
        }
    }
    Ok(())
}
