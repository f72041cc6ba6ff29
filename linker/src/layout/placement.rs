//! Placement: where each input section goes, and how large the output sections become.
//!
//! The result is a table, separate from everything else: the writer copies what
//! the table says to where it says, and an incremental link will begin with the
//! table of the link before.
//!
//! The sections that one file has in one part stand together, as a *chunk*. Within
//! a chunk offsets can be computed without knowing of other files, so this is
//! parallel; putting the chunks one after another is a short serial loop. A chunk is
//! also what the writer borrows from the output at once. A chunk is aligned to the
//! largest alignment in it, which is what the first section has nearly always.
//!
//! Parts that are sorted (`.init_array.N`) have chunks of one section each.

use crate::base::ids::{FileId, OutputId, PartId, SectionId};
use crate::graph::icf::Folds;
use crate::graph::merge::{Contents, MergeClass, MergeError, MergeInput, Merged};
use crate::graph::repository_pieces::{PieceInputs, PiecePlaces, UsedPieces};
use crate::input::file::Files;
use crate::messages::diag::Diagnostics;
use crate::resolve::input_sections::{Sections, state};
use crate::resolve::output_sections::{Order, Outputs};
use crate::resolve::room::{Kind, Room};
use crate::resolve::section_rules::priority_of;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use store::program::ProgramError;

/// Sections whose names end without a number come after those of all numbers, which have 16 bits.
const UNNUMBERED: u64 = 65536;

/// The priority of a section in a part that is sorted by priorities.
pub fn priority(name: &[u8]) -> u64 {
    priority_of(name).unwrap_or(UNNUMBERED)
}

/// The sections of one file in one part.
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    /// Whose sections they are.
    pub file: FileId,
    /// The part.
    pub part: PartId,
    /// If the chunk is a single section of a sorted part: its number in the file; else 0.
    pub only: u32,
    /// Offset in the output section.
    pub offset: u64,
    /// Size with the gaps between the sections.
    pub size: u64,
    /// Alignment of the first byte.
    pub align: u64,
    /// Alignment of the first section.
    pub first_align: u64,
}

/// Where everything goes.
pub struct Placement {
    /// Offset in the output section, by input section. For mergeable sections: index of the merge input.
    pub offset: Vec<u64>,
    /// Chunks, those of one part together and in order.
    pub chunks: Vec<Chunk>,
    /// Offset of each part in its output section, size, and alignment.
    pub parts: Vec<PartExtent>,
}

/// Extent of a part in its output section.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartExtent {
    /// Offset of the first byte.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

impl Placement {
    /// Offset of an input section in its output section; for mergeable sections, index of the merge input.
    #[inline]
    pub fn offset(&self, id: SectionId) -> u64 {
        self.offset[id.index()]
    }
}

/// The class of merged pieces that a part holds, by part.
pub type MergeClasses = Vec<Option<MergeClass>>;

/// What [`merge_pieces`] makes.
pub struct MergedPieces<'f> {
    /// The pieces.
    pub merged: Merged<'f>,
    /// Which parts hold pieces.
    pub classes: MergeClasses,
    /// Where the repositories' pieces went.
    pub repository: PiecePlaces,
    /// Index of the merge input, by input section.
    pub input_of: Vec<u64>,
}

/// Why pieces could not be merged.
pub enum PieceError {
    /// An input section.
    Section(SectionId, MergeError),
    /// A repository.
    Repository(ProgramError),
}

/// Collects the mergeable sections that are alive and the repositories' pieces that are used, and merges them. `settle` may
/// give the merged pieces other places.
pub fn merge_pieces<'f>(
    files: &'f Files<'f>,
    sections: &Sections,
    outputs: &mut Outputs<'f>,
    used: &UsedPieces<'f>,
    settle: &mut dyn FnMut(&Merged<'f>, &MergeClasses, &Outputs<'f>),
) -> Result<MergedPieces<'f>, PieceError> {
    let mut count = 0;
    let mut new_class = |classes: &mut MergeClasses, part: PartId| {
        if classes.len() <= part.index() {
            classes.resize(part.index() + 1, None);
        }
        *classes[part.index()].get_or_insert_with(|| {
            count += 1;
            MergeClass(count - 1)
        })
    };
    let mut classes: MergeClasses = vec![None; outputs.parts.len()];
    let mergeable: Vec<bool> = outputs
        .parts
        .iter()
        .map(|part| part.merge.is_some())
        .collect();
    let mut inputs = Vec::new();
    let mut ids = Vec::new();
    let mut input_of = vec![0; sections.count()];
    if mergeable.contains(&true) {
        for (i, part) in sections.part.iter().enumerate() {
            if *part == PartId::NONE || !mergeable[part.index()] {
                continue;
            }
            let id = SectionId(i as u32);
            let (Some(kind), true) = (outputs.parts[part.index()].merge, sections.is_alive(id))
            else {
                continue;
            };
            let section = sections.at(files, id);
            input_of[i] = inputs.len() as u64;
            ids.push(id);
            inputs.push(MergeInput {
                class: new_class(&mut classes, *part),
                contents: Contents::Section(section.bytes()),
                strings: kind.strings,
                entsize: kind.entsize,
                align: section.header().map_or(1, |header| header.align),
                source: None,
            });
        }
    }
    let repository = PieceInputs::collect(
        files,
        used,
        outputs,
        &mut |part, _| new_class(&mut classes, part),
        &mut inputs,
    )
    .map_err(PieceError::Repository)?;
    classes.resize(outputs.parts.len(), None);
    let merged = crate::graph::merge::merge(inputs).map_err(|(index, why)| {
        PieceError::Section(ids.get(index).copied().unwrap_or(SectionId::NONE), why)
    })?;
    settle(&merged, &classes, outputs);
    Ok(MergedPieces {
        classes,
        repository: repository.places(used, &merged),
        merged,
        input_of,
    })
}

/// No output section may become as large: sizes are added up to this and no farther, and whatever reaches it is refused
/// ([`report_too_large`]), so that no sum wraps around.
const TOO_LARGE: u64 = 1 << 46;

/// What comes behind `at`, aligned; and where that ends.
pub fn append(at: u64, size: u64, align: u64) -> (u64, u64) {
    let start = at.next_multiple_of(align.max(1));
    (start, start.saturating_add(size).min(TOO_LARGE))
}

/// Reports output sections that are larger than any address space.
pub fn report_too_large(outputs: &Outputs, diag: &Diagnostics) {
    let all = outputs.sections.iter();
    for section in all.filter(|section| section.size >= TOO_LARGE) {
        diag.error(format!(
            "section {} would become larger than 64 TiB",
            String::from_utf8_lossy(&section.name)
        ));
    }
}

/// What stands beside input sections.
#[derive(Clone, Copy)]
pub struct Beside<'b> {
    /// By part, size and alignment of what the linker itself puts at its start.
    pub made: &'b [(u64, u64)],
    /// Room for edits.
    pub room: Room,
    /// Sections with `SHF_LINK_ORDER`, each with the one that it is about.
    pub link_order: &'b [(SectionId, SectionId)],
}

/// Places all live input sections; `offset` is what [`merge_pieces`] has prepared.
pub fn place(
    files: &Files,
    sections: &Sections,
    folds: &Folds,
    outputs: &mut Outputs,
    Beside {
        made,
        room,
        link_order,
    }: Beside,
    mut offset: Vec<u64>,
) -> Placement {
    let per_file: Vec<Vec<Chunk>> = sections
        .split(&mut offset)
        .into_par_iter()
        .enumerate()
        .map(|(i, offsets)| {
            let file = FileId(i as u32);
            place_file(file, files, sections, folds, outputs, offsets, room)
        })
        .collect();

    // Bring the chunks of each part together, files in order.
    let mut counts = vec![0usize; outputs.parts.len() + 1];
    for chunk in per_file.iter().flatten() {
        counts[chunk.part.index() + 1] += 1;
    }
    for i in 1..counts.len() {
        counts[i] += counts[i - 1];
    }
    let starts = counts.clone();
    let empty = Chunk {
        file: FileId(0),
        part: PartId::NONE,
        only: 0,
        offset: 0,
        size: 0,
        align: 1,
        first_align: 1,
    };
    let mut chunks = vec![empty; per_file.iter().map(Vec::len).sum()];
    for chunk in per_file.into_iter().flatten() {
        let next = &mut counts[chunk.part.index()];
        chunks[*next] = chunk;
        *next += 1;
    }
    for (i, part) in outputs.parts.iter().enumerate() {
        let range = &mut chunks[starts[i]..starts[i + 1]];
        let name = |chunk: &Chunk| {
            files
                .object(chunk.file)
                .section(chunk.only)
                .map_or(&b""[..], |section| section.name)
        };
        match part.sort {
            Order::Input => {}
            Order::Name => range.sort_by(|a, b| name(a).cmp(name(b))),
            Order::Priority => range.sort_by_key(|chunk| priority(name(chunk))),
            Order::Linked => {}
        }
    }
    order_linked(sections, outputs, link_order, &starts, &mut chunks);

    // Lay the parts of each output section one after another.
    let mut extents = vec![PartExtent::default(); outputs.parts.len()];
    let mut by_output: Vec<Vec<usize>> = vec![Vec::new(); outputs.sections.len()];
    for (i, part) in outputs.parts.iter().enumerate() {
        by_output[part.output.index()].push(i);
    }
    for (output, mut parts) in by_output.into_iter().enumerate() {
        parts.sort_by_key(|part| outputs.parts[*part].order);
        let mut at = 0u64;
        let mut align = 1;
        for part in parts {
            let (made_size, made_align) = made[part];
            let range = &mut chunks[starts[part]..starts[part + 1]];
            let id = PartId(part as u32);
            let (kind, first) = match range.is_empty() {
                true => (Kind::None, room.of_first(id)),
                false => (room.kind(outputs, id), 0),
            };
            let part_align = range
                .iter()
                .map(|chunk| chunk.align)
                .max()
                .unwrap_or(1)
                .max(made_align)
                .max(room.align(id));
            if first > 0 {
                at = at.next_multiple_of(part_align);
            }
            if made_size > 0 {
                at = at.next_multiple_of(made_align.max(1));
            }
            let start = at;
            (_, at) = append(at, made_size, 1);
            for chunk in range {
                if chunk.first_align < chunk.align && room == Room::NONE {
                    close_up(chunk, at, files, sections, folds, &mut offset);
                }
                (chunk.offset, at) = append(at, chunk.size, chunk.align);
                if kind == Kind::Gaps {
                    at = at.saturating_add(room.of_chunk(kind, chunk.size));
                }
            }
            at = at.saturating_add(room.of_part(kind, at.saturating_sub(start)));
            at = at.saturating_add(first);
            extents[part] = PartExtent {
                offset: start,
                size: at.saturating_sub(start),
            };
            align = align.max(part_align);
        }
        let is_list = (output as u32) < crate::resolve::output_sections::STANDARD_COUNT
            && room.kind(outputs, PartId(output as u32)) == Kind::List;
        let section = &mut outputs.sections[output];
        section.size = at;
        section.align = align;
        if is_list {
            section.room = room.of_list(at);
        }
    }

    // Now that the chunks have their places, so have the sections.
    let mut by_file: Vec<Vec<(PartId, u32, u64)>> = vec![Vec::new(); files.0.len()];
    for chunk in &chunks {
        by_file[chunk.file.index()].push((chunk.part, chunk.only, chunk.offset));
    }
    for chunks in &mut by_file {
        chunks.sort_unstable();
    }
    sections
        .split(&mut offset)
        .into_par_iter()
        .zip(by_file)
        .enumerate()
        .for_each(|(i, (offsets, chunks))| {
            let base = sections.of_file(FileId(i as u32)).start;
            for (number, offset) in offsets.iter_mut().enumerate() {
                let id = SectionId(base + number as u32);
                let part = sections.part[id.index()];
                if part == PartId::NONE
                    || outputs.parts[part.index()].merge.is_some()
                    || !sections.is_alive(id)
                {
                    continue;
                }
                let of = |only: u32| {
                    let found =
                        chunks.binary_search_by_key(&(part, only), |chunk| (chunk.0, chunk.1));
                    found.ok().map(|found| chunks[found].2)
                };
                if let Some(start) = of(0).or_else(|| of(number as u32)) {
                    *offset += start;
                }
            }
        });
    Placement {
        offset,
        chunks,
        parts: extents,
    }
}

/// Places the sections of a chunk one behind the other from `at` on, as if they were the only ones: a chunk whose first
/// section is less aligned than others would else be preceded by a gap. (Where there is room for edits, that is what the
/// chunk's own place is told by, and it stays.)
fn close_up(
    chunk: &mut Chunk,
    at: u64,
    files: &Files,
    sections: &Sections,
    folds: &Folds,
    offset: &mut [u64],
) {
    let start = at.next_multiple_of(chunk.first_align.max(1));
    if !start.is_multiple_of(chunk.align) {
        let object = files.object(chunk.file);
        let mut end = start;
        for (number, id) in (0u32..).zip(sections.of_file(chunk.file)) {
            let id = SectionId(id);
            if sections.part[id.index()] != chunk.part || !sections.is_alive(id) {
                continue;
            }
            if let Some((size, align)) = folds.extent(id, object, number) {
                let begin;
                (begin, end) = append(end, size, align);
                offset[id.index()] = begin - start;
            }
        }
        chunk.size = end - start;
    }
    chunk.align = chunk.first_align;
}

/// Brings the sections of those parts that are ordered so into the order of the sections that they are about. `starts` is
/// where each part's chunks begin; all other parts are in order already.
fn order_linked(
    sections: &Sections,
    outputs: &Outputs,
    link_order: &[(SectionId, SectionId)],
    starts: &[usize],
    chunks: &mut [Chunk],
) {
    let of_sort = |wanted: fn(Order) -> bool| {
        let parts = outputs.parts.iter().enumerate();
        parts
            .filter(move |(_, part)| wanted(part.sort))
            .map(|(i, _)| starts[i]..starts[i + 1])
    };
    let linked = of_sort(|sort| sort == Order::Linked);
    let linked: Vec<_> = linked.filter(|range| range.len() > 1).collect();
    if linked.is_empty() {
        return;
    }
    // Sections of sorted parts stand as their chunks do, all others as the inputs.
    let mut sorted: FxHashMap<SectionId, usize> = FxHashMap::default();
    for range in of_sort(|sort| matches!(sort, Order::Name | Order::Priority)) {
        for i in range {
            sorted.insert(sections.id(chunks[i].file, chunks[i].only), i);
        }
    }
    let place = |chunk: &Chunk| {
        let own = sections.id(chunk.file, chunk.only);
        let found = link_order.binary_search_by_key(&own, |(section, _)| *section);
        let about = found.map_or(own, |found| link_order[found].1);
        let number = sections.part[about.index()];
        let part = outputs.parts.get(number.index())?;
        let output = (outputs.sections[part.output.index()].rank, part.output);
        Some((output, part.order, number, sorted.get(&about), about))
    };
    for range in linked {
        chunks[range].sort_by_cached_key(place);
    }
}

/// Offsets within chunks for one file.
fn place_file(
    file: FileId,
    files: &Files,
    sections: &Sections,
    folds: &Folds,
    outputs: &Outputs,
    offsets: &mut [u64],
    room: Room,
) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::new();
    if offsets.is_empty() {
        return chunks;
    }
    let object = files.object(file);
    let base = sections.of_file(file).start;
    // Consecutive sections mostly go to the same few parts: remember where each part's chunk is.
    let mut last = usize::MAX;
    let mut known: FxHashMap<PartId, usize> = FxHashMap::default();
    for (number, offset) in offsets.iter_mut().enumerate() {
        let id = SectionId(base + number as u32);
        let part = sections.part[id.index()];
        if part == PartId::NONE || sections.state(id) & state::ALIVE == 0 {
            continue;
        }
        let info = &outputs.parts[part.index()];
        if info.merge.is_some() {
            continue;
        }
        let Some((size, align)) = folds.extent(id, object, number as u32) else {
            continue;
        };
        let single = info.sort != Order::Input;
        let found = match chunks.get(last) {
            Some(chunk) if chunk.part == part && !single => Some(last),
            _ if single => None,
            _ => known.get(&part).copied(),
        };
        last = found.unwrap_or_else(|| {
            let only = if single { number as u32 } else { 0 };
            known.insert(part, chunks.len());
            chunks.push(Chunk {
                file,
                part,
                only,
                offset: 0,
                size: 0,
                align: 1,
                first_align: align,
            });
            chunks.len() - 1
        });
        let chunk = &mut chunks[last];
        chunk.align = chunk.align.max(align);
        let room = match room.kind(outputs, part) {
            Kind::Gaps => room.of_section(size),
            _ => 0,
        };
        (*offset, chunk.size) = append(chunk.size, size.saturating_add(room), align);
    }
    // What fills the room of debugging information is written with it.
    for chunk in &mut chunks {
        if let kind @ Kind::Filled(_) = room.kind(outputs, chunk.part) {
            chunk.size = chunk.size.saturating_add(room.of_chunk(kind, chunk.size));
        }
    }
    chunks
}

/// Whether any live input gives the output section bytes in the file.
pub fn has_bits(
    files: &Files,
    sections: &Sections,
    outputs: &Outputs,
    placement: &Placement,
    output: OutputId,
) -> bool {
    // Of pieces the bytes are always written.
    let mut parts = outputs.parts.iter().filter(|part| part.output == output);
    if parts.any(|part| part.merge.is_some()) {
        return true;
    }
    placement
        .chunks
        .iter()
        .filter(|chunk| outputs.parts[chunk.part.index()].output == output)
        .any(|chunk| {
            let object = files.object(chunk.file);
            (0..object.section_count()).any(|number| {
                let id = sections.id(chunk.file, number);
                sections.part[id.index()] == chunk.part
                    && sections.state(id) & (state::ALIVE | state::BITS)
                        == state::ALIVE | state::BITS
            })
        })
}
