//! Writing: the output as a function of the inputs and the placement.
//!
//! The image is cut, once and in order, into pieces that different tasks may
//! write: chunks of input sections, each file's frames, relocations and symbols, and
//! what the linker makes. Then each file copies its sections to their places and
//! applies their fixups while the bytes are in the cache. What is large and not loaded, a file's `.debug_info` for
//! instance, is a task of its own. The largest tasks come first, so that no thread is left with one when
//! the others have nothing to do any more. No two tasks have the
//! same bytes, and the compiler knows it.

mod again;

pub use again::{Regions, ToWrite, abbreviations, fill_parts};

use crate::base::glob::Glob;
use crate::base::ids::{FileId, OutputId, PartId, SectionId};
use crate::elf::eh_frame::{self, TableEntry};
use crate::elf::shf;
use crate::elf::{Rela, Sym};
use crate::graph::eh_frame_records::{FrameLayout, Frames, cie_fixups, fde_fields};
use crate::graph::icf::thunks;
use crate::graph::relocation_action;
use crate::graph::trace::{DynamicCounts, Needs};
use crate::input::object::{Object, Soon, Stored};
use crate::input::parts::Target;
use crate::layout::address_map::Places;
use crate::layout::placement::MergeClasses;
use crate::layout::symtab::{self, Chooser, SymbolSlots, SymtabLayout};
use crate::messages::progress::Position;
use crate::output::relocate::{self, DynamicSlots, Relocator, Site};
use crate::output::synthetic_sections::Made;
use crate::resolve::input_sections::state;
use crate::resolve::output_sections::{Std, runs_backwards};
use crate::resolve::room::{Filler, NOP, Room, padding};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::atomic::Ordering::Relaxed;

/// What a piece of the image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Chunk(u32),
    Frames(u32),
    Cies,
    FramesEnd,
    Merged(PartId),
    Made(OutputId),
    Headers,
    SectionHeaders,
    Relative(u32),
    Symbolic(u32),
    Irelative(u32),
    Locals(u32),
    Globals(u32),
    Names(u32),
    FirstSymbol,
    SpareLocals,
    FirstName,
}

/// The most small files that one task writes without asking whether another thread has nothing to do.
const FILES: usize = 4;

/// Bytes of a file, or of its chunk of sections that are not loaded, for which it is a task of its own.
const LARGE: usize = 256 << 10;

/// A chunk, by its number in the placement, and its bytes.
type ChunkBytes<'o> = (u32, &'o mut [u8]);

/// What one file writes.
#[derive(Default)]
struct Job<'o> {
    file: u32,
    chunks: Vec<ChunkBytes<'o>>,
    frames: &'o mut [u8],
    table: &'o mut [TableEntry],
    dynamic: DynamicSlots<'o>,
    locals: &'o mut [Sym],
    globals: &'o mut [Sym],
    names: &'o mut [u8],
    names_offset: u64,
}

/// Jobs by file, of those for which there is something to write.
struct Jobs<'o> {
    /// By file.
    numbers: Vec<Option<NonZeroU32>>,
    /// What is counted from 1.
    list: Vec<Job<'o>>,
}

impl<'o> Jobs<'o> {
    fn new(files: usize) -> Self {
        Jobs {
            numbers: vec![None; files],
            list: Vec::new(),
        }
    }

    /// The job of a file.
    fn of(&mut self, file: u32) -> &mut Job<'o> {
        let number = &mut self.numbers[file as usize];
        let at = match number {
            Some(number) => number.get() as usize - 1,
            None => {
                self.list.push(Job {
                    file,
                    ..Job::default()
                });
                *number = NonZeroU32::new(self.list.len() as u32);
                self.list.len() - 1
            }
        };
        &mut self.list[at]
    }

    /// All of them in the order of the files.
    fn in_order(mut self) -> Vec<Job<'o>> {
        self.list.sort_unstable_by_key(|job| job.file);
        self.list
    }
}

/// Which chunk of a file a section is in.
struct ChunkOf {
    /// By part, and the number of the only section or 0.
    known: FxHashMap<(PartId, u32), usize>,
    /// The same in order, if there are so few that to look at each is faster.
    few: Vec<(PartId, u32)>,
}

impl ChunkOf {
    /// The most chunks that are looked at in order.
    const FEW: usize = 32;

    fn new(places: &Places, chunks: &[ChunkBytes]) -> ChunkOf {
        let keys = chunks.iter().map(|(n, _)| {
            let chunk = &places.placement.chunks[*n as usize];
            (chunk.part, chunk.only)
        });
        match chunks.len() <= Self::FEW {
            true => ChunkOf {
                known: FxHashMap::default(),
                few: keys.collect(),
            },
            false => ChunkOf {
                known: keys.zip(0..).collect(),
                few: Vec::new(),
            },
        }
    }

    #[inline]
    fn find(&self, part: PartId, number: u32) -> Option<usize> {
        if self.known.is_empty() {
            let is_it = |key: &(PartId, u32)| key.0 == part && (key.1 == 0 || key.1 == number);
            return self.few.iter().position(is_it);
        }
        let alone = || self.known.get(&(part, number));
        self.known.get(&(part, 0)).or_else(alone).copied()
    }
}

/// Something large that one thread writes at once.
enum Task<'o> {
    /// A chunk that is not loaded.
    Chunk(ChunkBytes<'o>),
    /// Everything else of a file.
    File(Job<'o>),
}

impl Task<'_> {
    /// Bytes of the output.
    fn size(&self) -> usize {
        match self {
            Task::Chunk((_, bytes)) => bytes.len(),
            Task::File(job) => job.size(),
        }
    }
}

impl Job<'_> {
    /// Bytes of the output.
    fn size(&self) -> usize {
        let chunks = self.chunks.iter().map(|(_, bytes)| bytes.len());
        chunks.sum::<usize>()
            + self.frames.len()
            + size_of_val(self.locals)
            + size_of_val(self.globals)
            + self.names.len()
    }
}

/// What the image is put together from.
struct Pieces {
    /// Offset in the file, size, what.
    in_file: Vec<(u64, u64, Piece)>,
    /// What a script keeps out of the file: size, what. Chunks have no size here: only sections with relocations need
    /// their bytes, each for as long as it is at work.
    lost: Vec<(u64, Piece)>,
}

/// Everything that the writer needs.
pub struct Writer<'l, 'a> {
    /// Addresses.
    pub places: &'l Places<'l, 'a>,
    /// Relocations.
    pub relocator: Relocator<'l, 'a>,
    /// Frames of all files.
    pub frames: &'l Frames,
    /// Where they go.
    pub frame_layout: &'l FrameLayout,
    /// Which parts are merged pieces.
    pub merge_classes: &'l MergeClasses,
    /// Numbers of dynamic relocations.
    pub needs: &'l Needs,
    /// What the linker makes.
    pub made: &'l Made<'l, 'a>,
    /// The symbol table, if there is one.
    pub symtab: Option<&'l SymtabLayout>,
    /// What goes into it.
    pub chooser: Chooser<'l, 'a>,
    /// Where the [abbreviations](crate::resolve::room::ABBREVIATIONS) of units that say nothing are.
    pub abbreviations: Option<u32>,
    /// The image begins as zeros.
    pub zeroed: bool,
    /// To be told how much is written.
    pub position: &'l Position,
}

impl Writer<'_, '_> {
    /// Writes the whole image. What the linker makes from other parts of the image (the build id) comes afterwards.
    pub fn write(&self, image: &mut [u8]) {
        self.position.set_total(image.len() as u64);
        let mut entries = vec![TableEntry { pc: 0, fde: 0 }; self.fde_count()];
        let Pieces { in_file, lost } = self.pieces();
        let mut scratch = vec![0u64; lost.iter().map(|(size, _)| words(*size)).sum()];
        let mut header_table: &mut [u8] = &mut [];
        let mut jobs = Jobs::new(self.places.files.0.len());
        let mut made: Vec<(Piece, &mut [u8])> = Vec::new();
        let mut large: Vec<ChunkBytes> = Vec::new();
        let mut got_dynamic = DynamicSlots::default();
        let carved = self.carve(image, in_file);
        for (piece, bytes) in carved.into_iter().chain(carve_scratch(&mut scratch, lost)) {
            match piece {
                Piece::Chunk(n) if bytes.len() >= LARGE && !self.is_loaded(n) => {
                    large.push((n, bytes));
                }
                Piece::Chunk(n) => jobs
                    .of(self.places.placement.chunks[n as usize].file.0)
                    .chunks
                    .push((n, bytes)),
                Piece::Frames(file) => jobs.of(file).frames = bytes,
                Piece::Relative(0) => got_dynamic.relative = bytemuck::cast_slice_mut(bytes),
                Piece::Symbolic(0) => got_dynamic.symbolic = bytemuck::cast_slice_mut(bytes),
                Piece::Irelative(0) => got_dynamic.irelative = bytemuck::cast_slice_mut(bytes),
                Piece::Relative(file) => {
                    jobs.of(file).dynamic.relative = bytemuck::cast_slice_mut(bytes)
                }
                Piece::Symbolic(file) => {
                    jobs.of(file).dynamic.symbolic = bytemuck::cast_slice_mut(bytes)
                }
                Piece::Irelative(file) => {
                    jobs.of(file).dynamic.irelative = bytemuck::cast_slice_mut(bytes)
                }
                Piece::Locals(file) => jobs.of(file).locals = bytemuck::cast_slice_mut(bytes),
                Piece::Globals(file) => jobs.of(file).globals = bytemuck::cast_slice_mut(bytes),
                Piece::Names(file) => jobs.of(file).names = bytes,
                Piece::Made(id) if id == Std::EhFrameHdr.id() => header_table = bytes,
                _ => made.push((piece, bytes)),
            }
        }
        let mut jobs = jobs.in_order();
        self.divide(&mut jobs, &mut entries);
        let mut large: Vec<Task> = large.into_iter().map(Task::Chunk).collect();
        large.extend(
            jobs.extract_if(.., |job| job.size() >= LARGE)
                .map(Task::File),
        );
        large.sort_by_cached_key(|task| std::cmp::Reverse(task.size()));
        rayon::join(
            || {
                // Each thread takes the next one when it is done with the last.
                large.into_iter().par_bridge().for_each(|task| match task {
                    Task::Chunk(chunk) => self.write_large(chunk),
                    Task::File(job) => self.write_file(job),
                });
                jobs.into_par_iter()
                    .with_max_len(FILES)
                    .for_each(|job| self.write_file(job));
            },
            || {
                self.made.write_got(got_dynamic);
                made.into_par_iter()
                    .with_max_len(1)
                    .for_each(|(piece, bytes)| self.write_made(piece, bytes));
            },
        );
        if !header_table.is_empty() {
            let places = self.places;
            let (hdr, frames) = (
                places.outputs.std(Std::EhFrameHdr).address,
                places.outputs.std(Std::EhFrame).address,
            );
            crate::elf::eh_frame::write_hdr(header_table, hdr, frames, &mut entries);
        }
    }

    /// Gives each job its part of the table of frames, and the offset of its names.
    fn divide<'o>(&self, jobs: &mut [Job<'o>], mut entries: &'o mut [TableEntry]) {
        let shares = self.symtab.map_or(&[][..], |symtab| &symtab.shares);
        let counts = &self.frame_layout.fde_counts;
        let (mut names_offset, mut before) = (1, 0);
        for job in jobs {
            let file = job.file as usize;
            // All files between have neither names nor frames: they would have a job.
            job.names_offset = names_offset;
            names_offset += shares.get(file).map_or(0, |share| share.names);
            let count = (counts[file + 1] - counts[file]) as usize;
            (job.table, entries) = entries.split_at_mut(count);
            debug_assert_eq!(counts[file], before);
            before = counts[file + 1];
        }
    }

    /// Whether a chunk is loaded at run time.
    fn is_loaded(&self, chunk: u32) -> bool {
        let outputs = self.places.outputs;
        let part = self.places.placement.chunks[chunk as usize].part;
        outputs.sections[outputs.parts[part.index()].output.index()].flags & shf::ALLOC != 0
    }

    /// Writes a chunk that is not loaded.
    fn write_large(&self, chunk: ChunkBytes) {
        let file = self.places.placement.chunks[chunk.0 as usize].file;
        self.position.add_written(chunk.1.len() as u64);
        self.write_sections(file, vec![chunk], &mut DynamicSlots::default());
    }

    fn fde_count(&self) -> usize {
        self.frame_layout
            .fde_counts
            .last()
            .map_or(0, |count| *count as usize)
    }

    /// All pieces.
    fn pieces(&self) -> Pieces {
        let places = self.places;
        let outputs = places.outputs;
        let mut pieces =
            Vec::with_capacity(places.placement.chunks.len() + 8 * places.files.0.len());
        let mut lost = Vec::new();
        // Of most files of a library nothing is linked.
        let mut add = |holder: Option<PartId>, offset: u64, size: u64, piece: Piece| {
            let holder =
                holder.map(|part| &outputs.sections[outputs.parts[part.index()].output.index()]);
            match holder.is_some_and(|holder| holder.no_load) {
                _ if size == 0 => {}
                true if matches!(piece, Piece::Chunk(_)) => lost.push((0, piece)),
                true => lost.push((size, piece)),
                false => pieces.push((offset, size, piece)),
            }
        };
        for (i, chunk) in places.placement.chunks.iter().enumerate() {
            let section = &outputs.sections[outputs.parts[chunk.part.index()].output.index()];
            if !section.is_nobits() || section.no_load {
                add(
                    Some(chunk.part),
                    section.offset + chunk.offset,
                    chunk.size,
                    Piece::Chunk(i as u32),
                );
            }
        }
        for (i, class) in self.merge_classes.iter().enumerate() {
            if let Some(class) = class {
                let section = &outputs.sections[outputs.parts[i].output.index()];
                let start = section.offset + places.placement.parts[i].offset;
                add(
                    Some(PartId(i as u32)),
                    start,
                    places.merged.size(*class),
                    Piece::Merged(PartId(i as u32)),
                );
            }
        }
        let frames = outputs.std(Std::EhFrame);
        let layout = self.frame_layout;
        let cies = layout
            .cies
            .iter()
            .map(|cie| u64::from(cie.offset) + self.cie_size(cie))
            .max()
            .unwrap_or(0);
        let frames_part = Some(Std::EhFrame.part());
        add(frames_part, frames.offset, cies, Piece::Cies);
        for i in 0..layout.file_offsets.len() {
            let next = layout.file_offsets.get(i + 1);
            let size = next.copied().unwrap_or(layout.end) - layout.file_offsets[i];
            add(
                frames_part,
                frames.offset + layout.file_offsets[i],
                size,
                Piece::Frames(i as u32),
            );
            if i + 1 == layout.file_offsets.len() {
                let at = layout.file_offsets[i] + size;
                add(
                    frames_part,
                    frames.offset + at,
                    layout.size - at,
                    Piece::FramesEnd,
                );
            }
        }
        self.add_dynamic_relocations(&mut add);
        self.add_symbols(&mut add);
        for id in self.made.sections() {
            let section = &outputs.sections[id.index()];
            let part = Some(PartId(id.0));
            let size = match id == Std::RelaPlt.id() {
                true => self.lazy_size(),
                false => self.made.size(id),
            };
            add(part, section.offset, size, Piece::Made(id));
        }
        let segments = places.segments;
        let headers = 64 + 56 * segments.phdrs.len() as u64;
        add(None, 0, headers, Piece::Headers);
        add(
            None,
            segments.shoff,
            segments.file_size - segments.shoff,
            Piece::SectionHeaders,
        );
        pieces.sort_unstable_by_key(|(offset, _, _)| *offset);
        Pieces {
            in_file: pieces,
            lost,
        }
    }

    /// The bytes of the relocations of lazy PLT entries, with which `.rela.plt` begins.
    fn lazy_size(&self) -> u64 {
        24 * self.places.got.lazy.len() as u64
    }

    /// Adds the dynamic relocations of each file, kind by kind.
    fn add_dynamic_relocations(&self, add: &mut impl FnMut(Option<PartId>, u64, u64, Piece)) {
        let outputs = self.places.outputs;
        let rela = outputs.std(Std::RelaDyn);
        let mut at = rela.offset;
        let got = self.places.got.counts;
        // The piece of a file, the number for the GOT, the number for a file, and whether they stand behind those of lazy PLT entries.
        type Kind = (fn(u32) -> Piece, u32, fn(&DynamicCounts) -> u32, bool);
        let kinds: [Kind; 3] = [
            (
                Piece::Relative,
                got.relative,
                |counts| counts.relative.load(Relaxed),
                false,
            ),
            (
                Piece::Symbolic,
                got.symbolic,
                |counts| counts.symbolic.load(Relaxed),
                false,
            ),
            (
                Piece::Irelative,
                got.irelative,
                |counts| counts.irelative.load(Relaxed),
                self.places.got.resolves_behind_lazy(),
            ),
        ];
        let mut table = Std::RelaDyn;
        for (kind, own, count, is_behind_lazy) in kinds {
            if is_behind_lazy {
                table = Std::RelaPlt;
                at = outputs.std(table).offset + self.lazy_size();
            }
            for (i, counts) in self.needs.dynamic.iter().enumerate() {
                let count = if i == 0 { own } else { count(counts) };
                let size = 24 * u64::from(count);
                add(Some(table.part()), at, size, kind(i as u32));
                at += size;
            }
        }
    }

    /// Adds the symbols and their names, file by file.
    fn add_symbols(&self, add: &mut impl FnMut(Option<PartId>, u64, u64, Piece)) {
        let outputs = self.places.outputs;
        if let Some(symtab) = self.symtab {
            let section = outputs.std(Std::Symtab);
            let first = 24 * (1 + u64::from(symtab.section_symbols));
            add(None, section.offset, first, Piece::FirstSymbol);
            let spare = 24 * u64::from(symtab.spare_locals);
            let globals = section.offset + 24 * u64::from(symtab.local_count);
            add(None, globals - spare, spare, Piece::SpareLocals);
            let (mut local, mut global) = (
                section.offset + first,
                section.offset + 24 * u64::from(symtab.local_count),
            );
            let mut name = outputs.std(Std::Strtab).offset;
            add(None, name, 1, Piece::FirstName);
            name += 1;
            for (i, share) in symtab.shares.iter().enumerate() {
                let (locals, globals) =
                    (24 * u64::from(share.locals), 24 * u64::from(share.globals));
                add(None, local, locals, Piece::Locals(i as u32));
                add(None, global, globals, Piece::Globals(i as u32));
                add(None, name, share.names, Piece::Names(i as u32));
                local += locals;
                global += globals;
                name += share.names;
            }
        }
    }

    fn cie_size(&self, cie: &crate::graph::eh_frame_records::OutputCie) -> u64 {
        self.frames.of(cie.file).cies[cie.index as usize]
            .size
            .into()
    }

    /// Cuts the image into the pieces, and clears what is between them.
    fn carve<'o>(
        &self,
        image: &'o mut [u8],
        pieces: Vec<(u64, u64, Piece)>,
    ) -> Vec<(Piece, &'o mut [u8])> {
        let mut cut = Vec::with_capacity(pieces.len());
        // Code has padding that can be run through.
        let code: Vec<(u64, u64)> = {
            let outputs = &self.places.outputs.sections;
            let mut ranges: Vec<(u64, u64)> = outputs
                .iter()
                .filter(|section| {
                    section.flags & shf::EXEC != 0 && section.header != 0 && !section.is_nobits()
                })
                .map(|section| (section.offset, section.offset + section.size))
                .collect();
            ranges.sort_unstable();
            // With a linker script there are views of parts of others.
            ranges.dedup_by(|next, last| {
                let is_inside = next.0 < last.1;
                if is_inside {
                    last.1 = last.1.max(next.1);
                }
                is_inside
            });
            ranges
        };
        let has_room = Room::of(self.made.args) != Room::NONE;
        let mut rest = image;
        let mut at = 0;
        for (offset, size, piece) in pieces {
            debug_assert!(
                offset >= at,
                "{piece:?} at {offset:#x} overlaps what ends at {at:#x}"
            );
            let (gap, tail) = rest.split_at_mut((offset - at) as usize);
            if !gap.is_empty() {
                // They do not overlap: the last that begins here or before.
                let before = code.partition_point(|(start, _)| *start <= at);
                let in_code = before
                    .checked_sub(1)
                    .is_some_and(|last| offset <= code[last].1);
                // The room at the end of code is as that within.
                let end = match before.checked_sub(1) {
                    Some(last) if has_room => code[last].1.clamp(at, offset),
                    _ => at,
                };
                let (room, rest) = gap.split_at_mut((end - at) as usize);
                room.fill(NOP);
                if in_code {
                    rest.fill(NOP);
                } else if !self.zeroed {
                    rest.fill(0);
                }
            }
            let (bytes, tail) = tail.split_at_mut(size as usize);
            cut.push((piece, bytes));
            rest = tail;
            at = offset + size;
        }
        if !self.zeroed {
            rest.fill(0);
        }
        cut
    }

    fn write_made(&self, piece: Piece, bytes: &mut [u8]) {
        match piece {
            Piece::Merged(part) => {
                if let Some(class) = self.merge_classes[part.index()] {
                    self.places.merged.write(class, bytes);
                }
            }
            Piece::Cies => self.write_cies(bytes),
            Piece::FirstSymbol | Piece::FirstName => bytes.fill(0),
            Piece::FramesEnd => {
                bytes.fill(0);
                eh_frame::fill(&mut bytes[..self.frame_layout.spare as usize]);
            }
            Piece::SpareLocals => {
                let symbols: &mut [Sym] = bytemuck::cast_slice_mut(bytes);
                symbols.fill(symtab::spare_local(self.places.outputs));
            }
            Piece::Made(id) => self.made.write(id, bytes),
            Piece::Headers => self.made.write_headers(bytes),
            Piece::SectionHeaders => self.made.write_section_headers(bytes),
            _ => unreachable!("{piece:?} belongs to a file"),
        }
    }

    fn site(&self, file: FileId, number: u32, address: u64, skipped: u64) -> Site<'_, '_> {
        let input = self.places.files.get(file);
        Site {
            file_id: file,
            file: input,
            object: self.places.files.object(file),
            section: self.places.sections.id(file, number),
            number,
            address,
            skipped,
            packs: false,
            reversed: None,
        }
    }

    /// Writes a common information entry that stands at an offset in `.eh_frame`.
    fn write_cie(
        &self,
        cie: &crate::graph::eh_frame_records::OutputCie,
        offset: u32,
        out: &mut [u8],
    ) {
        let base = self.places.outputs.std(Std::EhFrame).address;
        let object = self.places.files.object(cie.file);
        let input = &self.frames.of(cie.file).cies[cie.index as usize];
        let bytes = &object.section_bytes(input.section)
            [input.offset as usize..(input.offset + input.size) as usize];
        out.copy_from_slice(bytes);
        let site = self.site(
            cie.file,
            input.section,
            base + u64::from(offset),
            input.offset.into(),
        );
        let fixups = cie_fixups(object, cie.file, self.places.sections, input);
        self.relocator
            .loaded(&site, out, fixups, &mut DynamicSlots::default());
    }

    fn write_cies(&self, out: &mut [u8]) {
        for cie in &self.frame_layout.cies {
            let start = cie.offset as usize;
            let size = self.cie_size(cie) as usize;
            self.write_cie(cie, cie.offset, &mut out[start..start + size]);
        }
    }

    fn write_file(&self, job: Job) {
        let Job {
            file,
            chunks,
            frames,
            table,
            mut dynamic,
            locals,
            globals,
            names,
            names_offset,
        } = job;
        let slots = SymbolSlots {
            locals,
            globals,
            names,
            names_offset,
        };
        let file = FileId(file);
        if let Some(symtab) = self.symtab {
            if file == FileId::LINKER {
                symtab::write_others(
                    symtab,
                    &self.chooser,
                    self.places,
                    self.relocator.values,
                    slots,
                );
            } else {
                symtab::write_file(
                    symtab,
                    &self.chooser,
                    self.places,
                    self.relocator.values,
                    file,
                    slots,
                );
            }
        }
        if !self.places.sections.is_linked(file) {
            return;
        }
        self.position
            .add_written(chunks.iter().map(|(_, bytes)| bytes.len() as u64).sum());
        self.write_sections(file, chunks, &mut dynamic);
        if !dynamic.is_full() {
            let input = self.places.files.get(file);
            self.made.diag.error(format!(
                "{input}: its dynamic relocations are not those that were counted; if it is a ticket, check the repository with repo-dump --verify"
            ));
        }
        self.write_frames(file, frames, table);
    }

    fn write_sections(
        &self,
        file: FileId,
        mut chunks: Vec<ChunkBytes>,
        dynamic: &mut DynamicSlots,
    ) {
        let places = self.places;
        let object = places.files.object(file);
        let chunk_of = ChunkOf::new(places, &chunks);
        // How far each chunk is written, to clear the gaps.
        let mut ends = vec![0usize; chunks.len()];
        let mut coming = places.sections.of_file(file).map(SectionId);
        let mut opened = VecDeque::with_capacity(OPENED + 1);
        let mut written = None;
        let mut unpacked = Vec::new();
        loop {
            // Only now: its bytes are in the cache.
            if let Some(number) = written.take() {
                object.check(number);
            }
            while opened.len() <= OPENED
                && let Some(id) = coming.next()
            {
                opened.extend(self.open(file, object, id));
            }
            let Some(section) = opened.pop_front() else {
                break;
            };
            let Opened {
                id,
                number,
                stored,
                relocations,
            } = section;
            let mut fixups = stored.fixups;
            written = Some(number);
            let part = places.sections.part[id.index()];
            let bits = places.sections.state(id);
            let found = chunk_of.find(part, number);
            // Without one, the output section has no bytes in the file.
            let Some(found) = found else { continue };
            let (n, out) = &mut chunks[found];
            let chunk = &places.placement.chunks[*n as usize];
            let section =
                &places.outputs.sections[places.outputs.parts[part.index()].output.index()];
            let offset = places.placement.offset(id);
            let start = (offset - chunk.offset) as usize;
            let size = places
                .folds
                .extent(id, object, number)
                .map_or(0, |(size, _)| size) as usize;
            let mut unwritten = Vec::new();
            let out = if section.no_load {
                if relocations == 0 || bits & state::BITS == 0 {
                    continue;
                }
                unwritten.resize(size, 0);
                &mut unwritten[..]
            } else {
                // What has outgrown its place in an earlier link stands behind what comes after it in the file.
                let (before, out) = out.split_at_mut(start);
                if let Some(gap) = before.get_mut(ends[found]..) {
                    gap.fill(padding(section.flags & shf::EXEC != 0));
                }
                ends[found] = ends[found].max(start + size);
                &mut out[..size]
            };
            if let Some(leader) = places.folds.jump(id) {
                self.write_jump(out, file, section.address + offset, leader);
                continue;
            }
            let output = places.outputs.parts[part.index()].output;
            // A list of functions that runs from its end, among lists that run from their start.
            let backwards = places.outputs.is_function_list(output)
                && size.is_multiple_of(8)
                && object
                    .section(number)
                    .is_some_and(|section| runs_backwards(section.name));
            if stored.size == size && backwards {
                let bytes = object.section_bytes(number);
                for (to, from) in out.chunks_exact_mut(8).zip(bytes.rchunks_exact(8)) {
                    to.copy_from_slice(from);
                }
            } else if stored.size == size {
                fixups = object.copy(number, &stored, out, &mut unpacked);
            } else {
                // `SHT_NOBITS` among sections with bytes.
                out.fill(0);
            }
            if relocations == 0 || bits & state::BITS == 0 {
                continue;
            }
            if bits & state::ALLOC != 0 {
                let mut site = self.site(file, number, section.address + offset, 0);
                site.packs =
                    self.relocator.mode.pack && relocation_action::packs(object, number, bits);
                site.reversed = backwards.then(|| (size as u64).saturating_sub(8));
                self.relocator.loaded(&site, out, fixups, dynamic);
            } else {
                let site = self.site(file, number, 0, 0);
                self.relocator
                    .unloaded(&site, out, fixups, self.tombstone(&section.name));
                // That was all that is to be read of them.
                places.files.get(file).release_section(number, relocations);
            }
        }
        for ((n, out), end) in chunks.iter_mut().zip(ends) {
            let part = places.placement.chunks[*n as usize].part;
            let output = places.outputs.parts[part.index()].output;
            let section = &places.outputs.sections[output.index()];
            let Some(room) = out.get_mut(end..).filter(|room| !room.is_empty()) else {
                continue;
            };
            match Filler::of(&section.name) {
                Some(filler) if !section.is_alloc() => filler.fill(room, self.abbreviations),
                _ => room.fill(padding(section.flags & shf::EXEC != 0)),
            }
        }
    }

    /// Opens a section, if it is to be copied, and has what its first fixups need fetched.
    #[inline]
    fn open<'f>(&self, file: FileId, object: &'f Object, id: SectionId) -> Option<Opened<'f>> {
        let places = self.places;
        let range = places.sections.of_file(file);
        if object.is_scattered() {
            let ahead = SectionId((id.0 + PREFETCHED).min(range.end - 1));
            if places.sections.is_alive(ahead) {
                object.fetch(ahead.0 - range.start, Soon::Contents);
            }
        }
        let part = places.sections.part[id.index()];
        let is_copied = part != PartId::NONE
            && places.sections.is_alive(id)
            && places.outputs.parts[part.index()].merge.is_none();
        if !is_copied {
            return None;
        }
        let number = id.0 - range.start;
        let relocations = places.sections.relocations[id.index()];
        let stored = object.stored(number, relocations);
        let (input, first_global) = (places.files.get(file), object.first_global());
        stored.fixups.first_targets(relocate::FETCHED, |target| {
            self.relocator
                .fetch(file, input, object, first_global, target);
        });
        Some(Opened {
            id,
            number,
            stored,
            relocations,
        })
    }

    /// What is left of a function that is the same as another.
    fn write_jump(&self, out: &mut [u8], file: FileId, address: u64, leader: SectionId) {
        let target = self.places.in_section(leader, 0);
        let written = target.and_then(|target| thunks::write(out, address, target));
        if written.is_none() {
            let input = self.places.files.get(file);
            self.made.diag.error(format!(
                "{input}: the jump at {address:#x} does not reach the identical function; link without --icf-thunks"
            ));
        }
    }

    /// What stands for the address of code that is not in the output.
    fn tombstone(&self, section: &[u8]) -> u64 {
        let options = &self.made.args.z.dead_relocs;
        let asked = options
            .iter()
            .rev()
            .find(|(pattern, _)| Glob::new(pattern).matches(section));
        asked.map_or_else(|| tombstone(section), |(_, value)| *value)
    }

    fn write_frames(&self, file: FileId, out: &mut [u8], table: &mut [TableEntry]) {
        let places = self.places;
        let object = places.files.object(file);
        let frames = places.files.0.len();
        debug_assert!(file.index() < frames);
        let base = places.outputs.std(Std::EhFrame).address;
        let file_offset = self.frame_layout.file_offsets[file.index()];
        let (mut at, mut last) = (0usize, 0usize);
        let mut row = 0;
        let fdes = &self.frames.of(file).fdes;
        for (index, fde) in fdes.iter().enumerate() {
            if object.is_scattered()
                && let Some(later) = fdes.get(index + PREFETCHED as usize)
                && places
                    .sections
                    .is_alive(places.sections.id(file, later.describes))
            {
                object.fetch(later.section, Soon::Contents);
            }
            let described = places.sections.id(file, fde.describes);
            if !places.sections.is_alive(described) {
                continue;
            }
            let size = fde.size as usize;
            let id = places.sections.id(file, fde.section);
            object.check(fde.section);
            let stored = object.stored(fde.section, places.sections.relocations[id.index()]);
            let (bytes, fixups) = (stored.bytes, stored.fixups);
            // A damaged repository may have less than its outline says; that is reported at the end.
            let range = fde.offset as usize..fde.offset as usize + size;
            let Some(bytes) = bytes.get(range) else {
                continue;
            };
            let out = &mut out[at..at + size];
            out.copy_from_slice(bytes);
            fixups.clear_places(fde.offset.into(), out);
            let address = base + file_offset + at as u64;
            let mut fixups = fixups.slice(fde.relocations.0 as usize, fde.relocations.1 as usize);
            let jump = places.folds.jump_size(described, object, fde.describes);
            if let Some(jump) = jump
                && let Some((_, fields)) = fde_fields(object, self.frames.of(file), fde)
            {
                thunks::restrict_frame(out, &fields, fde.offset.into(), jump);
                fixups = fixups.slice(0, 1);
            }
            let site = self.site(file, fde.section, address, fde.offset.into());
            self.relocator
                .loaded(&site, out, fixups, &mut DynamicSlots::default());
            // The distance back to the CIE.
            let pointer = if bytes.starts_with(&[0xff; 4]) { 12 } else { 4 };
            let cie = self.frame_layout.cie_offsets[file.index()][fde.cie as usize];
            let distance = (file_offset + (at + pointer) as u64).wrapping_sub(cie.into()) as u32;
            if let Some(field) = out.get_mut(pointer..pointer + 4) {
                field.copy_from_slice(&distance.to_le_bytes());
            }
            if let Some(fixup) = fixups.get(0) {
                let start = match fixup.target {
                    Target::Piece(_) => None,
                    Target::Section(number) => {
                        let section = places.sections.get(file, number);
                        section.and_then(|section| places.in_section(section, 0))
                    }
                    Target::Symbol(index) if index < object.first_global() => {
                        places.local(file, object, index)
                    }
                    // Not the symbol's winning definition: the code that stands here.
                    Target::Symbol(index) => object.symbol(index).map(|symbol| {
                        let here = places.in_section(described, symbol.value);
                        here.unwrap_or_else(|| {
                            let file = places.files.get(file);
                            places.definition(places.symbols.of(file, index))
                        })
                    }),
                };
                let pc = start.unwrap_or(0).wrapping_add(fixup.addend as u64);
                table[row] = TableEntry { pc, fde: address };
            }
            row += 1;
            last = at;
            at += size;
        }
        if at > last && at < out.len() {
            extend_record(out, last, at);
        }
    }
}

/// Makes the last record of `frames`, which begins at `start` and ends at `end`, fill all of them: what is behind its
/// instructions are zeros, which is `DW_CFA_nop`.
fn extend_record(frames: &mut [u8], start: usize, end: usize) {
    let room = frames.len() - end;
    frames[end..].fill(0);
    let (length, rest) = frames[start..].split_at_mut(4);
    if *length == [0xff; 4] {
        if let Some(long) = rest.first_chunk_mut::<8>() {
            *long = (u64::from_le_bytes(*long) + room as u64).to_le_bytes();
        }
    } else if let Some(short) = length.first_chunk_mut::<4>() {
        *short = (u32::from_le_bytes(*short) + room as u32).to_le_bytes();
    }
}

/// A section that is about to be copied.
struct Opened<'f> {
    id: SectionId,
    number: u32,
    stored: Stored<'f>,
    relocations: u32,
}

/// Words of memory for so many bytes.
fn words(size: u64) -> usize {
    size.div_ceil(8) as usize
}

/// Places that are not in the file for what a script keeps out of it: it is made as everything else, since relocations
/// that it has are none the less.
fn carve_scratch(scratch: &mut [u64], lost: Vec<(u64, Piece)>) -> Vec<(Piece, &mut [u8])> {
    let mut rest = scratch;
    let mut cut = Vec::with_capacity(lost.len());
    for (size, piece) in lost {
        let (own, tail) = rest.split_at_mut(words(size));
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(own);
        cut.push((piece, &mut bytes[..size as usize]));
        rest = tail;
    }
    cut
}

/// How many sections ahead of the one that is written are opened.
const OPENED: usize = 2;

/// How many sections ahead of those the fragments are fetched.
const PREFETCHED: u32 = 6;

/// What stands for the address of code that is not in the output (DWARF 5, section 2.17.3, and what debuggers
/// understand of older versions: a pair of zeros would end a list, a pair of ones is an empty range).
pub fn tombstone(section: &[u8]) -> u64 {
    match section {
        b".debug_loc" | b".debug_ranges" => 1,
        _ => 0,
    }
}

/// Sorts the relocations that name symbols by symbol, so that the dynamic linker looks each up once (`-z combreloc`).
pub fn sort_symbolic(relas: &mut [Rela]) {
    relas
        .par_sort_unstable_by_key(|rela| ({ rela.r_info } >> 32, { rela.r_offset }, rela.r_type()));
}
