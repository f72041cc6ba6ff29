//! Where the sections of the files go that are linked again, part by part of the output.

use super::again::Again;
use super::capture::SectionKeys;
use super::gaps::{self, Wanted};
use super::holes::Holes;
use super::lists::{self, ListChange, Listed, Own};
use super::reason::Reason;
use super::state::part_room;
use super::state::{ChunkRecord, DAMAGED, FileRecord, PartRecord, PlaceRecord, State, Table};
use crate::base::ids::{FileId, PartId, SectionId};
use crate::elf::shf;
use crate::input::file::Files;
use crate::layout::placement::{Chunk, PartExtent, Placement};
use crate::resolve::input_sections::Sections;
use crate::resolve::output_sections::{Outputs, Std};
use crate::resolve::room::{Filler, LISTS};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Where the files' sections go.
pub(super) struct PlacedAgain {
    pub placement: Placement,
    /// By file.
    pub files: Vec<FilePlaces>,
    /// By part that has new chunks: where the next one would go.
    pub next: FxHashMap<u32, u64>,
    /// What is left of the room of parts with debugging information that have new chunks, by the part's number in the state:
    /// offset in the output section, and size.
    pub rests: FxHashMap<u32, (u64, u64)>,
    /// Chunks with debugging information that files have left, by the part's number in the state: offset in the output section,
    /// and size.
    pub left: Vec<(u32, u64, u64)>,
    /// Ranges that are nobody's.
    pub holes: Holes,
    /// Lists of functions that are others now.
    pub lists: Vec<ListChange>,
    /// Other files that must be linked again, as what they have in lists would move.
    pub pinned: Vec<u32>,
}

/// Where one file's sections go.
pub(super) struct FilePlaces {
    /// Its chunks in the placement.
    pub range: Range<u32>,
    /// What the state is to say.
    pub chunks: Vec<ChunkRecord>,
    pub places: Vec<PlaceRecord>,
}

/// What placing needs to know.
pub(super) struct Placing<'p, 'a> {
    pub again: Again<'p>,
    pub state: &'p State,
    pub files: &'p Files<'a>,
    pub sections: &'p Sections,
    pub outputs: &'p Outputs<'a>,
    /// By part, its number in the state.
    pub part_of: &'p [u32],
}

/// A chunk of a file, and what wants to be in it.
struct InChunk {
    record: ChunkRecord,
    part: PartId,
    wanted: Vec<(SectionId, Wanted)>,
}

/// Images are loaded at multiples of this, and of nothing larger if nothing asked for it.
const PAGE: u64 = 4096;

impl Placing<'_, '_> {
    /// Places the sections of the files, of which `records` tell; `offset` is what merging has prepared.
    ///
    /// # Errors
    /// If one has no place.
    pub fn run(&self, records: &[FileRecord], mut offset: Vec<u64>) -> Result<PlacedAgain, Reason> {
        let parts: &[PartRecord] = self.state.table(Table::Parts);
        let mut placed = PlacedAgain {
            placement: Placement {
                offset: Vec::new(),
                chunks: Vec::new(),
                parts: vec![PartExtent::default(); self.outputs.parts.len()],
            },
            files: Vec::new(),
            next: FxHashMap::default(),
            rests: FxHashMap::default(),
            left: Vec::new(),
            holes: Holes::new(self.state),
            lists: Vec::new(),
            pinned: Vec::new(),
        };
        for (extent, number) in placed.placement.parts.iter_mut().zip(self.part_of) {
            if let Some(record) = parts.get(*number as usize) {
                (extent.offset, extent.size) = (record.offset, record.size);
            }
        }
        let owns = || self.files.ids().skip(1).zip(records);
        let sort = |(own, record): (FileId, &FileRecord)| {
            let old: &[PlaceRecord] = self.state.records(record.places[0], record.places[1]);
            self.sort_sections(own, record, old)
        };
        let sorted = owns().collect::<Vec<_>>().into_par_iter().map(sort);
        let mut sorted: Vec<Vec<InChunk>> = sorted.collect::<Result<_, Reason>>()?;
        for (_, std) in LISTS {
            self.place_list(std, &mut sorted, &mut placed)?;
        }
        for ((own, record), chunks) in owns().zip(sorted) {
            let of_file = self.place_file(own, record, chunks, &mut offset, &mut placed)?;
            placed.files.push(of_file);
        }
        placed.placement.offset = offset;
        Ok(placed)
    }

    /// Finds places for what the files have in a list of functions, if that is another one than it was.
    fn place_list(
        &self,
        std: Std,
        sorted: &mut [Vec<InChunk>],
        placed: &mut PlacedAgain,
    ) -> Result<(), Reason> {
        let parts = lists::parts_of(std);
        let (mut all, mut is_other) = (Vec::new(), false);
        for (file, (own, chunks)) in self.files.ids().skip(1).zip(&mut *sorted).enumerate() {
            for (index, chunk) in chunks.iter_mut().enumerate() {
                let record = &mut chunk.record;
                if !parts.contains(&record.part) {
                    continue;
                }
                let size = chunk.wanted.iter().map(|(_, wanted)| wanted.size).sum();
                let is_sorted = record.part == parts[0] && size > 0;
                if is_sorted {
                    record.only = self.number_of(own, chunk.wanted.first());
                }
                let priority = match is_sorted {
                    true => lists::priority(Some(self.files.object(own)), record.only),
                    false => record.priority,
                };
                is_other |= size != record.capacity || priority != record.priority;
                record.priority = priority;
                all.push(Own {
                    file,
                    chunk: index,
                    size,
                    sorted: is_sorted.then_some((priority, record.only)),
                });
            }
        }
        if !is_other {
            return Ok(());
        }
        for (own, chunks) in self.files.ids().skip(1).zip(&*sorted) {
            let mut chunks = chunks.iter();
            let fits = |chunk: &InChunk| {
                let mut wanted = chunk.wanted.iter();
                !parts.contains(&chunk.record.part)
                    || wanted.all(|(_, wanted)| lists::fits(wanted.size, wanted.align))
            };
            if !chunks.all(fits) {
                let file = self.files.get(own);
                return Err(format!("{file} has no words in a list of functions").into());
            }
        }
        let (change, offsets) = match lists::settle(self.again, std, &all)? {
            Listed::Placed(change, offsets) => (change, offsets),
            Listed::Pinned(files) => {
                // All is done once more with these.
                placed.pinned.extend(files);
                for own in &all {
                    sorted[own.file][own.chunk].record.capacity = own.size;
                }
                return Ok(());
            }
        };
        placed.lists.push(change);
        for (own, offset) in all.iter().zip(offsets) {
            let record = &mut sorted[own.file][own.chunk].record;
            (record.offset, record.capacity) = (offset, own.size);
        }
        Ok(())
    }

    fn place_file(
        &self,
        own: FileId,
        record: &FileRecord,
        chunks: Vec<InChunk>,
        offset: &mut [u64],
        placed: &mut PlacedAgain,
    ) -> Result<FilePlaces, Reason> {
        let old: &[PlaceRecord] = self.state.records(record.places[0], record.places[1]);
        let first = placed.placement.chunks.len() as u32;
        let id = self.again.ids.get(own.index() - 1).copied();
        let is_gone = id.is_some_and(|id| self.again.edited.removed.contains(&id));
        let (mut places, mut records) = (Vec::new(), Vec::new());
        for (index, mut chunk) in (0u32..).zip(chunks) {
            let old_here: Vec<PlaceRecord> = old
                .iter()
                .filter(|place| place.chunk == index)
                .copied()
                .collect();
            let list: Vec<Wanted> = chunk.wanted.iter().map(|(_, wanted)| *wanted).collect();
            let offsets = self.place_chunk(own, &mut chunk, &list, &old_here, placed)?;
            if is_gone {
                self.leave(&mut chunk, placed)?;
            }
            for ((id, wanted), place) in chunk.wanted.iter().zip(offsets) {
                offset[id.index()] = place;
                places.push(PlaceRecord::new(wanted.section, index, place, wanted.size));
            }
            records.push(chunk.record);
            if chunk.part == PartId::NONE {
                // Nothing is left of it. Who walks over debugging information must not see what was there; of all else the bytes
                // stay, and nobody refers to them.
                let parts: &[PartRecord] = self.state.table(Table::Parts);
                let part = parts.get(chunk.record.part as usize).ok_or(DAMAGED)?;
                let ChunkRecord {
                    part: number,
                    offset,
                    capacity,
                    ..
                } = chunk.record;
                if part.room == part_room::FILLED && capacity > 0 {
                    placed.left.push((number, offset, capacity));
                }
                continue;
            }
            placed.placement.chunks.push(Chunk {
                file: own,
                part: chunk.part,
                // Each section finds its chunk by the part, or by this.
                only: match chunk.record.only {
                    0 => 0,
                    _ => self.number_of(own, chunk.wanted.first()),
                },
                offset: chunk.record.offset,
                size: chunk.record.capacity,
                align: 1,
                first_align: 1,
            });
        }
        Ok(FilePlaces {
            range: first..placed.placement.chunks.len() as u32,
            chunks: records,
            places,
        })
    }

    fn number_of(&self, own: FileId, wanted: Option<&(SectionId, Wanted)>) -> u32 {
        wanted.map_or(0, |(id, _)| id.0 - self.sections.of_file(own).start)
    }

    /// The chunks of a file, the old ones first and in order, each with the sections that want to be in it.
    fn sort_sections(
        &self,
        own: FileId,
        record: &FileRecord,
        old: &[PlaceRecord],
    ) -> Result<Vec<InChunk>, Reason> {
        let parts: &[PartRecord] = self.state.table(Table::Parts);
        let object = self.files.object(own);
        let known: &[ChunkRecord] = self.state.records(record.chunks[0], record.chunks[1]);
        let mut chunks: Vec<InChunk> = known
            .iter()
            .map(|record| InChunk {
                record: *record,
                part: PartId::NONE,
                wanted: Vec::new(),
            })
            .collect();
        let mut keys = SectionKeys::new();
        for (number, section) in (0..).zip(self.sections.of_file(own)) {
            let id = SectionId(section);
            let part = self.sections.part[id.index()];
            if part == PartId::NONE
                || !self.sections.is_alive(id)
                || self.outputs.parts[part.index()].merge.is_some()
            {
                continue;
            }
            let key = keys.next(object, number);
            let there = self.part_of[part.index()];
            let found = chunks.iter().enumerate().position(|(index, chunk)| {
                let is_alone = chunk.record.only != 0 || lists::is_sorted(part);
                let is_its =
                    |place: &PlaceRecord| place.chunk as usize == index && place.section == key;
                chunk.record.part == there && (!is_alone || old.iter().any(is_its))
            });
            let index = match (found, parts.get(there as usize)) {
                (Some(found), _) => found,
                (None, Some(part)) if part.room != part_room::NONE => {
                    chunks.push(InChunk {
                        record: ChunkRecord {
                            part: there,
                            only: 0,
                            offset: 0,
                            capacity: 0,
                            priority: 0,
                        },
                        part: PartId::NONE,
                        wanted: Vec::new(),
                    });
                    chunks.len() - 1
                }
                _ => {
                    let name = object
                        .section(number)
                        .map_or(&b""[..], |section| section.name);
                    let name = String::from_utf8_lossy(name);
                    let file = self.files.get(own);
                    return Err(format!("{file} had no section {name}").into());
                }
            };
            let (size, align) = object.extent(number).unwrap_or_default();
            chunks[index].part = part;
            let wanted = Wanted {
                section: key,
                size,
                align,
            };
            chunks[index].wanted.push((id, wanted));
        }
        Ok(chunks)
    }

    /// Places the sections of a chunk. One that they have outgrown moves to the room at the end of its part.
    fn place_chunk(
        &self,
        own: FileId,
        chunk: &mut InChunk,
        wanted: &[Wanted],
        old: &[PlaceRecord],
        placed: &mut PlacedAgain,
    ) -> Result<Vec<u64>, Reason> {
        let parts: &[PartRecord] = self.state.table(Table::Parts);
        let record = chunk.record;
        let part = parts.get(record.part as usize).ok_or(DAMAGED)?;
        if wanted.is_empty() && (part.room != part_room::NONE || old.is_empty()) {
            // Nobody refers to what stood there.
            return Ok(Vec::new());
        }
        self.check_alignment(chunk.part, wanted)?;
        let end = record.offset.saturating_add(record.capacity);
        let file = self.files.get(own);
        let filler = self.filler(chunk.part);
        let place = |old: &[PlaceRecord], start: u64, end: u64| match part.room {
            part_room::GAPS => gaps::place(wanted, old, start, end),
            part_room::FILLED => one_behind_the_other(wanted, start, end, filler),
            part_room::LIST => one_behind_the_other(wanted, start, end, Filler::Zeros),
            _ => same_places(wanted, old),
        };
        let is_empty = wanted.iter().all(|wanted| wanted.size == 0);
        // Lists have places already, and sections without room those that they had.
        let is_fixed = matches!(part.room, part_room::NONE | part_room::LIST);
        let is_new = record.capacity == 0 && old.is_empty() && !is_fixed;
        if (record.capacity > 0 || is_fixed || is_empty && !is_new)
            && let Some(offsets) = place(old, record.offset, end)
        {
            return Ok(offsets);
        }
        let of_part = chunk.part;
        let outgrown = || {
            let name = self.name_of(of_part);
            Reason::from(format!("{file} has outgrown the room in {name}"))
        };
        if is_fixed || wanted.is_empty() {
            return Err(outgrown());
        }
        // A new chunk, with room as a new one has. What is behind it must be filled again.
        let align = wanted.iter().map(|wanted| wanted.align).max().unwrap_or(1);
        let align = align.max(if part.room == part_room::FILLED {
            16
        } else {
            1
        });
        let sizes = wanted
            .iter()
            .map(|wanted| wanted.size.next_multiple_of(align));
        let size = sizes.sum::<u64>();
        let capacity = (size + size / 4 + 64).next_multiple_of(16);
        let fits = |rest: u64| part.room != part_room::FILLED || filler.fits(rest);
        // What has no gaps begins where the hole does, as it would anywhere.
        let wanted_align = match part.room {
            part_room::FILLED => 1,
            _ => align,
        };
        let hole = placed.holes.take(record.part, capacity, wanted_align, fits);
        if let Some((start, capacity, rest)) = hole {
            self.leave(chunk, placed)?;
            (chunk.record.offset, chunk.record.capacity) = (start, capacity);
            if part.room == part_room::FILLED && rest > 0 {
                placed.left.push((record.part, start + capacity, rest));
            }
            return place(&[], start, start + capacity).ok_or_else(outgrown);
        }
        let next = placed.next.get(&record.part).copied().unwrap_or(part.next);
        let limit = part.offset.saturating_add(part.size);
        let start = match part.room {
            // Nothing may be between units.
            part_room::FILLED => Some(next),
            _ => next.checked_next_multiple_of(align),
        };
        let start = start.filter(|start| start.saturating_add(capacity) <= limit);
        let start = start.ok_or_else(outgrown)?;
        if part.room == part_room::FILLED {
            let rest = limit - start - capacity;
            if !filler.fits(rest) {
                return Err(outgrown());
            }
            placed.rests.insert(record.part, (start + capacity, rest));
        }
        placed.next.insert(record.part, start + capacity);
        self.leave(chunk, placed)?;
        (chunk.record.offset, chunk.record.capacity) = (start, capacity);
        place(&[], start, start + capacity).ok_or_else(outgrown)
    }

    /// A file has a chunk no more: it is filled, where that must be, and others may have it later.
    fn leave(&self, chunk: &mut InChunk, placed: &mut PlacedAgain) -> Result<(), Reason> {
        let parts: &[PartRecord] = self.state.table(Table::Parts);
        let ChunkRecord {
            part,
            offset,
            capacity,
            ..
        } = chunk.record;
        let room = parts.get(part as usize).ok_or(DAMAGED)?.room;
        if !matches!(room, part_room::GAPS | part_room::FILLED) || capacity == 0 {
            return Ok(());
        }
        if room == part_room::FILLED {
            placed.left.push((part, offset, capacity));
        }
        placed.holes.leave(part, offset, capacity);
        chunk.record.capacity = 0;
        Ok(())
    }

    /// Refuses sections that want to be aligned to more than the output section is: in it, offsets alone count.
    fn check_alignment(&self, part: PartId, wanted: &[Wanted]) -> Result<(), Reason> {
        let output = self.outputs.parts.get(part.index()).map(|part| part.output);
        let section = output.map(|output| &self.outputs.sections[output.index()]);
        let Some(section) = section.filter(|section| section.is_alloc()) else {
            return Ok(());
        };
        let most = match section.flags & shf::TLS {
            0 => PAGE,
            _ => self.state.header().facts.tls_align,
        };
        let is_aligned = |wanted: &Wanted| {
            let align = wanted.align.max(1);
            align <= most && section.address.is_multiple_of(align)
        };
        match self.again.world.is_as_before || wanted.iter().all(is_aligned) {
            true => Ok(()),
            false => {
                let name = self.name_of(part);
                Err(format!("{name} is not aligned to so much").into())
            }
        }
    }

    fn filler(&self, part: PartId) -> Filler {
        let output = self.outputs.parts.get(part.index()).map(|part| part.output);
        let name = output.map(|output| &self.outputs.sections[output.index()].name);
        name.and_then(|name| Filler::of(name))
            .unwrap_or(Filler::Zeros)
    }

    fn name_of(&self, part: PartId) -> String {
        let output = self.outputs.parts.get(part.index()).map(|part| part.output);
        output.map_or_else(
            || "a section".to_owned(),
            |output| {
                String::from_utf8_lossy(&self.outputs.sections[output.index()].name).into_owned()
            },
        )
    }
}

/// Where there is no room, sections must be what they were.
fn same_places(wanted: &[Wanted], old: &[PlaceRecord]) -> Option<Vec<u64>> {
    if wanted.len() != old.len() {
        return None;
    }
    let place = |(wanted, old): (&Wanted, &PlaceRecord)| {
        let same = wanted.section == old.section && wanted.size == old.size;
        same.then_some(old.offset)
    };
    wanted.iter().zip(old).map(place).collect()
}

/// Debugging information stands without gaps, and what is behind it can be filled.
fn one_behind_the_other(
    wanted: &[Wanted],
    start: u64,
    end: u64,
    filler: Filler,
) -> Option<Vec<u64>> {
    let mut at = start;
    let mut offsets = Vec::with_capacity(wanted.len());
    for wanted in wanted {
        at = at.checked_next_multiple_of(wanted.align.max(1))?;
        offsets.push(at);
        at = at.checked_add(wanted.size)?;
    }
    let room = end.checked_sub(at)?;
    filler.fits(room).then_some(offsets)
}
