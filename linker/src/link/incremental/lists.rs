//! Lists of functions, `.init_array` and `.fini_array`: entries that come and go.
//!
//! The functions run in the order of their priorities, those that have none last, and else of the files, so that what comes goes to its place among the others, and those behind it
//! move. Who has them is not linked again: an entry is a few words and their relocations, which are as good elsewhere, as long
//! as nobody refers to the entry itself but by a local name, which moves with it. (If somebody does, the file is [pinned](file::PINNED), and is linked again with its
//! entry.) The section grows into the room behind it, and whoever mentions its end is linked again.

use super::again::Again;
use super::reason::Reason;
use super::state::{
    ChunkRecord, DAMAGED, FileRecord, InputRecord, NONE, OutputRecord, PartRecord, PlaceRecord,
    State, Table, file, input,
};
use super::{patch::Patch, state::Facts};
use crate::base::ids::{FileId, PartId, SectionId};
use crate::elf::{Rela, Sym, c};
use crate::input::file::Files;
use crate::input::object::Object;
use crate::input::parts::Place;
use crate::layout::placement;
use crate::resolve::input_sections::Sections;
use crate::resolve::linker_symbols;
use crate::resolve::output_sections::{Outputs, Std};
use crate::resolve::room::LISTS;
use std::collections::BTreeMap;

/// A list that is another one now.
#[derive(Clone, Debug)]
pub(super) struct ListChange {
    /// Its section.
    pub std: Std,
    /// The numbers in the state of its parts: what is sorted by priority, and the others.
    parts: [u32; 2],
    /// Where the others begin.
    middle: u64,
    /// Address of the section.
    address: u64,
    /// Size of the section, as it was and as it is.
    sizes: [u64; 2],
    /// Entries of files that are as they were.
    moves: Vec<Moved>,
}

/// What a file has in a list and is somewhere else now. Offsets are those in the output section.
#[derive(Clone, Debug)]
struct Moved {
    file: u32,
    /// Number among its chunks.
    chunk: u32,
    from: u64,
    to: u64,
    size: u64,
}

/// What was found of a list.
pub(super) enum Listed {
    /// It has this order; where the own entries are, in the order in which they were asked for.
    Placed(ListChange, Vec<u64>),
    /// Entries of these files move that do not move for others.
    Pinned(Vec<u32>),
}

/// What a list has of one file, one behind the other.
struct Entries {
    /// Priority, the file's place among all, and section.
    order: (u64, (u32, u32), u32),
    from: Moved,
    /// Which of those that are linked again it is.
    own: Option<usize>,
}

/// What a file that is linked again has in a list.
pub(super) struct Own {
    /// Which of the files it is.
    pub file: usize,
    /// The chunk, among the file's.
    pub chunk: usize,
    pub size: u64,
    /// Priority, and section; without one, nothing.
    pub sorted: Option<(u64, u32)>,
}

/// What has no priority comes last.
const LAST: u64 = u64::MAX;

/// Whether a part holds what is sorted by priority in a list.
pub(super) fn is_sorted(part: PartId) -> bool {
    LISTS.iter().any(|(sorted, _)| *sorted == part)
}

/// The parts of a list, by their numbers in the state: what is sorted, and the others.
pub(super) fn parts_of(std: Std) -> [u32; 2] {
    let sorted = LISTS.iter().find(|(_, list)| *list == std);
    [
        sorted.map_or(PartId::NONE.0, |(part, _)| part.0),
        std.part().0,
    ]
}

/// The priority of a section in a list.
pub(super) fn priority(object: Option<&Object>, number: u32) -> u64 {
    let section = object.and_then(|object| object.section(number));
    let name = section.map_or(&b""[..], |section| section.name);
    placement::priority(name)
}

/// Whether something in a file refers to entries that it has in lists.
pub(super) fn is_pinned(files: &Files, sections: &Sections, outputs: &Outputs, id: FileId) -> bool {
    let object = files.object(id);
    let lists = LISTS.iter().flat_map(|(sorted, std)| [*sorted, std.part()]);
    let lists: Vec<PartId> = lists.collect();
    let first = sections.of_file(id).start;
    let part_of = |number: u32| {
        let part = sections.part.get((first + number) as usize);
        part.copied().unwrap_or(PartId::NONE)
    };
    let count = sections.of_file(id).len() as u32;
    let in_list: Vec<bool> = (0..count)
        .map(|number| lists.contains(&part_of(number)))
        .collect();
    if outputs.rules.is_some() || !in_list.contains(&true) {
        return false;
    }
    let is_in_list = |number: u32| in_list.get(number as usize) == Some(&true);
    // A local name moves with the entry that it is in (gcc's `crtbegin.o` has one); what is behind the entry is nobody's.
    let moves_with_it = |index: u32, number: u32, value: u64| {
        let size = object.extent(number).map_or(0, |(size, _)| size);
        index < object.first_global() && value < size
    };
    let is_named = (1..object.symbol_count()).any(|index| {
        let symbol = object.symbol(index);
        symbol.is_some_and(|symbol| match symbol.place {
            Place::Section(number) if is_in_list(number) => {
                symbol.kind() != c::STT_SECTION && !moves_with_it(index, number, symbol.value)
            }
            _ => false,
        })
    });
    let refers = |number: u32| {
        let relocations = sections.relocations[SectionId(first + number).index()];
        let mut found = false;
        object.fixups(number, relocations).for_each(|fixup| {
            let place = object.place_of(fixup.target);
            found |= place.is_some_and(|(number, _)| is_in_list(number));
        });
        found
    };
    is_named || (0..count).any(refers)
}

/// Finds places for entries of a list: `all` says what the files have that are linked again.
///
/// # Errors
/// If there is no room, or it cannot be told what comes first.
pub(super) fn settle(again: Again, std: Std, all: &[Own]) -> Result<Listed, Reason> {
    let parts: &[PartRecord] = again.state.table(Table::Parts);
    let outputs: &[OutputRecord] = again.state.table(Table::Outputs);
    let numbers = parts_of(std);
    let [sorted, plain] = numbers.map(|part| parts.get(part as usize));
    let (sorted, plain) = (sorted.ok_or(DAMAGED)?, plain.ok_or(DAMAGED)?);
    let output = outputs.get(plain.output as usize).ok_or(DAMAGED)?;
    let start = match sorted.size {
        0 => plain.offset,
        _ => sorted.offset,
    };
    let mut entries = of_others(again, numbers)?;
    let order = Orders::new(again);
    for (index, own) in all.iter().enumerate() {
        if own.size > 0 {
            let id = *again.ids.get(own.file).ok_or(DAMAGED)?;
            let (priority, section) = own.sorted.unwrap_or((LAST, 0));
            entries.push(Entries {
                order: (priority, order.of(id, &entries)?, section),
                from: Moved {
                    file: id,
                    chunk: 0,
                    from: 0,
                    to: 0,
                    size: own.size,
                },
                own: Some(index),
            });
        }
    }
    entries.sort_by_key(|entries| entries.order);
    let files: &[FileRecord] = again.state.table(Table::Files);
    let (mut at, mut places) = (start, vec![start; all.len()]);
    let mut middle = None;
    let (mut moves, mut pinned) = (Vec::new(), Vec::new());
    for Entries { order, from, own } in entries {
        if order.0 == LAST {
            middle.get_or_insert(at);
        }
        let size = from.size;
        match own {
            Some(own) => places[own] = at,
            None if from.from == at => {}
            None => {
                let bits = files.get(from.file as usize).map_or(0, |file| file.bits);
                if bits & file::PINNED != 0 {
                    pinned.push(from.file);
                }
                moves.push(Moved { to: at, ..from });
            }
        }
        at = at.saturating_add(size);
    }
    if !pinned.is_empty() {
        return Ok(Listed::Pinned(pinned));
    }
    if at > plain.next {
        let name = String::from_utf8_lossy(again.state.text(output.name, output.name_len));
        return Err(format!("there is no room for more functions in {name}").into());
    }
    let change = ListChange {
        std,
        parts: numbers,
        middle: middle.unwrap_or(at),
        address: output.address,
        sizes: [output.size, at],
        moves,
    };
    Ok(Listed::Placed(change, places))
}

/// What the other files have in a list.
fn of_others(again: Again, parts: [u32; 2]) -> Result<Vec<Entries>, Reason> {
    let state = again.state;
    let files: &[FileRecord] = state.table(Table::Files);
    let order = Orders::new(again);
    let mut found = Vec::new();
    for (number, record) in (0u32..).zip(files) {
        if record.bits & file::LINKED == 0 || again.ids.binary_search(&number).is_ok() {
            continue;
        }
        let chunks: &[ChunkRecord] = state.records(record.chunks[0], record.chunks[1]);
        for (index, chunk) in (0u32..).zip(chunks) {
            if parts.contains(&chunk.part) && chunk.capacity > 0 {
                found.push((number, index, *chunk));
            }
        }
    }
    let mut entries: Vec<Entries> = Vec::with_capacity(found.len());
    for (number, index, chunk) in found {
        let (priority, section) = match chunk.part == parts[0] {
            true => (chunk.priority, chunk.only),
            false => (LAST, 0),
        };
        entries.push(Entries {
            order: (priority, order.of(number, &entries)?, section),
            from: Moved {
                file: number,
                chunk: index,
                from: chunk.offset,
                to: chunk.offset,
                size: chunk.capacity,
            },
            own: None,
        });
    }
    Ok(entries)
}

/// The order of the files, of which numbers tell if no incremental link has added one.
struct Orders<'o> {
    again: Again<'o>,
    files: &'o [FileRecord],
    /// The objects that arguments name: by the argument's place, the file, or nothing if its number does not tell.
    by_argument: std::cell::OnceCell<BTreeMap<u32, Option<u32>>>,
}

impl<'o> Orders<'o> {
    fn new(again: Again<'o>) -> Orders<'o> {
        Orders {
            again,
            files: again.state.table(Table::Files),
            by_argument: std::cell::OnceCell::new(),
        }
    }

    /// A file's place among all. `others` have places already.
    fn of(&self, id: u32, others: &[Entries]) -> Result<(u32, u32), Reason> {
        let known = self.files.get(id as usize);
        if known.is_some_and(|file| file.bits & file::ADDED == 0) {
            return Ok((2 * id, 0));
        }
        let unknown = || Reason::from("it cannot be told which functions run first");
        let place = self.argument(id).ok_or_else(unknown)?;
        let all = self.by_argument.get_or_init(|| self.arguments());
        // The next objects before and behind it whose numbers tell.
        let tells = |(place, file): (&u32, &Option<u32>)| Some((*place, (*file)?));
        let before = all.range(..place).rev().find_map(tells);
        let behind = all.range(place + 1..).find_map(tells);
        let is_next_to = |from: u32, to: u32| (from..to).all(|place| all.contains_key(&place));
        let is_between = |file: u32| {
            before.is_none_or(|(_, first)| file > first)
                && behind.is_none_or(|(_, last)| file < last)
        };
        let numbered = |entries: &&Entries| entries.order.1.0.is_multiple_of(2);
        let mut numbers = others
            .iter()
            .filter(numbered)
            .map(|entries| entries.order.1.0 / 2);
        match (before, behind) {
            (Some((at, file)), _) if is_next_to(at + 1, place) => Ok((2 * file + 1, place)),
            (_, Some((at, file))) if is_next_to(place + 1, at) => {
                Ok(((2 * file).saturating_sub(1), place))
            }
            // Members of libraries stand there, which have nothing in the list.
            (Some((_, file)), _) if !numbers.any(is_between) => Ok((2 * file + 1, place)),
            _ => Err(unknown()),
        }
    }

    /// The place of the argument that names a file.
    fn argument(&self, id: u32) -> Option<u32> {
        let Again { edited, state, .. } = self.again;
        if edited.new_files(state).contains(&id) {
            return edited.argument(state, id);
        }
        let inputs: &[InputRecord] = state.table(Table::Inputs);
        let input = inputs.get(self.files.get(id as usize)?.input as usize)?;
        let is_named = input.kind == input::OBJECT && input.argument != NONE;
        is_named.then(|| self.again.command.place(input.argument))
    }

    fn arguments(&self) -> BTreeMap<u32, Option<u32>> {
        let Again { edited, state, .. } = self.again;
        let inputs: &[InputRecord] = state.table(Table::Inputs);
        let mut all = BTreeMap::new();
        for input in inputs {
            if input.kind != input::OBJECT || input.argument == NONE {
                continue;
            }
            let place = self.again.command.place(input.argument);
            let is_added = |file: &FileRecord| file.bits & file::ADDED != 0;
            if place != NONE {
                let tells = self
                    .files
                    .get(input.file as usize)
                    .is_some_and(|file| !is_added(file));
                all.insert(place, tells.then_some(input.file));
            }
        }
        for id in edited.new_files(state) {
            if let Some(place) = edited.argument(state, id) {
                all.insert(place, None);
            }
        }
        all
    }
}

impl ListChange {
    /// The name of the section's end, and where that is now; nothing if it is where it was.
    pub fn end(&self) -> Option<(&'static [u8], u64)> {
        let name = linker_symbols::end_of(self.std)?;
        let [before, now] = self.sizes;
        (before != now).then(|| (name, self.address.wrapping_add(now)))
    }

    /// Moves entries in the output, and says how many there are.
    ///
    /// # Errors
    /// If the output is not what the state says.
    pub fn write(
        &self,
        patch: &mut Patch,
        state: &State,
        outputs: &Outputs,
        facts: &Facts,
    ) -> Result<(), Reason> {
        self.move_words(patch, outputs).ok_or(DAMAGED)?;
        self.move_relocations(patch, outputs).ok_or(DAMAGED)?;
        self.move_symbols(patch, state, outputs).ok_or(DAMAGED)?;
        let [before, now] = self.sizes;
        if before == now {
            return Ok(());
        }
        self.move_end(patch, state, outputs).ok_or(DAMAGED)?;
        let header = u64::from(outputs.std(self.std).header);
        if header != 0 {
            let at = facts.section_headers + 64 * header + 32;
            let size = patch.bytes(at, 8).ok_or(DAMAGED)?;
            size.copy_from_slice(&now.to_le_bytes());
        }
        let tag = match self.std {
            Std::FiniArray => c::DT_FINI_ARRAYSZ,
            _ => c::DT_INIT_ARRAYSZ,
        };
        let dynamic = outputs.std(Std::Dynamic);
        for at in (dynamic.offset..dynamic.offset + dynamic.size).step_by(16) {
            let entry: [u8; 8] = *patch.at(at).ok_or(DAMAGED)?;
            if u64::from_le_bytes(entry) == u64::from(tag) {
                let size = patch.bytes(at + 8, 8).ok_or(DAMAGED)?;
                size.copy_from_slice(&now.to_le_bytes());
            }
        }
        Ok(())
    }

    fn move_words(&self, patch: &mut Patch, outputs: &Outputs) -> Option<()> {
        let section = outputs.std(self.std);
        let mut words = Vec::with_capacity(self.moves.len());
        for moved in &self.moves {
            let start = usize::try_from(section.offset + moved.from).ok()?;
            let end = start.checked_add(usize::try_from(moved.size).ok()?)?;
            words.push(patch.image.get(start..end)?.to_vec());
        }
        for (moved, words) in self.moves.iter().zip(words) {
            let place = patch.bytes(section.offset + moved.to, moved.size)?;
            place.copy_from_slice(&words);
        }
        let [before, now] = self.sizes;
        if now < before {
            patch.bytes(section.offset + now, before - now)?.fill(0);
        }
        Some(())
    }

    fn move_relocations(&self, patch: &mut Patch, outputs: &Outputs) -> Option<()> {
        let table = outputs.std(Std::RelaDyn);
        if self.moves.is_empty() || table.size == 0 {
            return Some(());
        }
        let range = table.offset as usize..(table.offset + table.size) as usize;
        let records: &[Rela] = bytemuck::try_cast_slice(patch.image.get(range)?).ok()?;
        let list = self.address..self.address + self.sizes[0];
        let moved = |(index, rela): (usize, &Rela)| {
            let offset = { rela.r_offset };
            if !list.contains(&offset) {
                return None;
            }
            let at = offset - self.address;
            let is_of = |moved: &&Moved| (moved.from..moved.from + moved.size).contains(&at);
            let moved = self.moves.iter().find(is_of)?;
            Some((index, offset - moved.from + moved.to))
        };
        let all: Vec<(usize, u64)> = records.iter().enumerate().filter_map(moved).collect();
        for (index, offset) in all {
            let place = patch.bytes(table.offset + 24 * index as u64, 8)?;
            place.copy_from_slice(&offset.to_le_bytes());
        }
        Some(())
    }

    /// Local symbols in entries that move are moved with them.
    fn move_symbols(&self, patch: &mut Patch, state: &State, outputs: &Outputs) -> Option<()> {
        let header = outputs.std(self.std).header;
        let files: &[FileRecord] = state.table(Table::Files);
        let mut numbers: Vec<u32> = self.moves.iter().map(|moved| moved.file).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            let record = files.get(number as usize)?;
            let own = self.moves.iter().filter(|moved| moved.file == number);
            let own: Vec<&Moved> = own.collect();
            for index in 0..u64::from(record.locals) {
                let at = record.locals_at + 24 * index;
                let symbol: Sym = *bytemuck::try_from_bytes(patch.at::<24>(at)?).ok()?;
                let place = { symbol.st_value }.wrapping_sub(self.address);
                let is_in =
                    |moved: &&&Moved| (moved.from..moved.from + moved.size).contains(&place);
                let moved = own.iter().find(is_in);
                if u32::from(symbol.st_shndx) == header
                    && let Some(moved) = moved
                {
                    let now = { symbol.st_value } - moved.from + moved.to;
                    patch.bytes(at + 8, 8)?.copy_from_slice(&now.to_le_bytes());
                }
            }
        }
        Some(())
    }

    /// The symbol at the section's end is the linker's own.
    fn move_end(&self, patch: &mut Patch, state: &State, outputs: &Outputs) -> Option<()> {
        let Some((name, now)) = self.end() else {
            return Some(());
        };
        let before = self.address.wrapping_add(self.sizes[0]);
        let strings = outputs.std(Std::Strtab);
        let files: &[FileRecord] = state.table(Table::Files);
        let Some(linker) = files.first() else {
            return Some(());
        };
        let regions = [
            (linker.locals_at, linker.locals),
            (linker.globals_at, linker.globals),
        ];
        for (at, count) in regions {
            for index in 0..u64::from(count) {
                let at = at + 24 * index;
                let start = usize::try_from(at).ok()?;
                let symbol: Sym =
                    *bytemuck::try_from_bytes(patch.image.get(start..start + 24)?).ok()?;
                let text = strings.offset + u64::from(symbol.st_name);
                let text = patch.image.get(usize::try_from(text).ok()?..)?;
                let is_it = { symbol.st_value } == before
                    && text
                        .strip_prefix(name)
                        .is_some_and(|rest| rest.starts_with(&[0]));
                if is_it {
                    patch.bytes(at + 8, 8)?.copy_from_slice(&now.to_le_bytes());
                }
            }
        }
        Some(())
    }

    /// Tells the state.
    pub fn apply(&self, state: &mut State) -> Option<()> {
        for moved in &self.moves {
            let files: &[FileRecord] = state.table(Table::Files);
            let record = *files.get(moved.file as usize)?;
            let at = record.chunks[0] + u64::from(moved.chunk) * size_of::<ChunkRecord>() as u64;
            state.record_at::<ChunkRecord>(at)?.offset = moved.to;
            for index in 0..record.places[1] {
                let at = record.places[0] + index * size_of::<PlaceRecord>() as u64;
                let place = state.record_at::<PlaceRecord>(at)?;
                if place.chunk == moved.chunk {
                    place.offset = place.offset.wrapping_sub(moved.from).wrapping_add(moved.to);
                }
            }
        }
        let [sorted, plain] = self.parts.map(|part| part as usize);
        let part = state.record_mut::<PartRecord>(Table::Parts, plain)?;
        let start = part.offset;
        part.offset = self.middle;
        part.size = self.sizes[1].checked_sub(self.middle)?;
        let output = part.output as usize;
        let part = state.record_mut::<PartRecord>(Table::Parts, sorted)?;
        if part.size == 0 {
            part.offset = start;
        }
        part.size = self.middle.checked_sub(part.offset)?;
        state
            .record_mut::<OutputRecord>(Table::Outputs, output)?
            .size = self.sizes[1];
        Some(())
    }
}

/// Whether a section can stand in a list that is put together anew.
pub(super) fn fits(size: u64, align: u64) -> bool {
    size.is_multiple_of(8) && align <= 8
}
