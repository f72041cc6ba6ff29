//! The third step of an incremental link: where everything is, and who refers to what has moved.

use super::again::Again;
use super::chunks::{PlacedAgain, Placing};
use super::holes::{FRAMES, Holes};
use super::lists::ListChange;
use super::names::Names;
use super::parts::take_addresses;
use super::patch::Patch;
use super::read::Read;
use super::reason::Reason;
use super::state::{Facts, FileRecord, NONE, NameRecord, State, Table, fact};
use super::trace::{Settled, Traced};
use crate::args::Defsym;
use crate::base::ids::FileId;
use crate::elf::Rela;
use crate::elf::eh_frame::LEAST_FILL;
use crate::elf::x86_64::reloc;
use crate::graph::eh_frame_records::{FrameLayout, Frames};
use crate::graph::icf::Folds;
use crate::layout::address_map::{Places, Starts, SymbolValue};
use crate::layout::commons::Commons;
use crate::layout::got;
use crate::layout::got::Slots;
use crate::layout::program_headers::Segments;
use crate::layout::segment_table::TlsSegment;
use crate::resolve::linker_symbols::LinkerSymbols;
use crate::resolve::output_sections::Outputs;
use crate::resolve::output_sections::Std;
use crate::resolve::room::Room;
use crate::resolve::symbol_facts::{Bound, Defined, Demand};
use rustc_hash::FxHashMap;
use std::cell::Cell;

/// Where everything of the objects is.
pub(super) struct Placed<'r> {
    /// The output sections, as they are in the output.
    pub outputs: Outputs<'r>,
    /// The objects' sections.
    pub again: PlacedAgain,
    /// Their frame descriptions. The CIEs have places of their own still, as if there were no others.
    pub frame_layout: FrameLayout,
    /// Ranges of the output that are nobody's.
    pub holes: Cell<Holes>,
    /// Places of frame descriptions that files have left: offset in `.eh_frame`, and size.
    pub left_frames: Vec<[u64; 2]>,
    /// None: what has one is linked in full.
    commons: Commons,
    folds: Folds,
    starts: Starts,
    segments: Segments,
    linker_symbols: LinkerSymbols,
    ibt: bool,
    static_irelative: u64,
}

impl Placed<'_> {
    /// Addresses of everything.
    pub fn places<'p>(
        &'p self,
        read: &'p Read<'p>,
        settled: &'p Settled,
        traced: &'p Traced<'p>,
    ) -> Places<'p, 'p> {
        Places {
            files: &read.files,
            symbols: &read.symbols,
            definitions: &settled.definitions,
            sections: &read.sections,
            folds: &self.folds,
            placement: &self.again.placement,
            starts: &self.starts,
            outputs: &self.outputs,
            merged: &traced.merged,
            pieces: &traced.pieces,
            commons: &self.commons,
            got: &traced.got,
            linker_symbols: &self.linker_symbols,
            assigned: &[],
            segments: &self.segments,
            frame_offsets: &self.frame_layout.file_offsets,
            ibt: self.ibt,
            static_irelative: self.static_irelative,
        }
    }
}

/// Places the objects, of which `records` tell. `offsets` is what [`trace`](super::trace::trace) has prepared.
///
/// # Errors
/// If there is no room.
pub(super) fn place<'r>(
    again: Again,
    read: &'r Read<'r>,
    settled: &Settled,
    traced: &Traced<'r>,
    records: &mut [FileRecord],
    facts: &mut Facts,
    offsets: Vec<u64>,
) -> Result<Placed<'r>, Reason> {
    let Read {
        files,
        symbols,
        sections,
        ..
    } = read;
    let mut outputs = traced.outputs.clone();
    let part_of = take_addresses(again.state, &mut outputs)?;
    let placing = Placing {
        again,
        state: again.state,
        files,
        sections,
        outputs: &outputs,
        part_of: &part_of,
    };
    let mut placed = placing.run(records, offsets)?;
    let frames = &settled.frames;
    let mut frame_layout = frames.layout(files, symbols, sections, Room::NONE);
    let left_frames = settle_frames(frames, &frame_layout, records, facts, &mut placed.holes)?;
    for (offset, record) in frame_layout.file_offsets.iter_mut().skip(1).zip(records) {
        *offset = record.frames[0];
    }
    Ok(Placed {
        starts: Starts::new(sections, &placed.placement, &outputs),
        outputs,
        holes: Cell::new(std::mem::take(&mut placed.holes)),
        again: placed,
        frame_layout,
        left_frames,
        commons: Commons::default(),
        folds: Folds::new(sections.count()),
        segments: Segments {
            phdrs: Vec::new(),
            sections: Vec::new(),
            shoff: 0,
            file_size: 0,
            tls: Some(TlsSegment {
                start: facts.tls_start,
                thread_pointer: facts.thread_pointer,
            }),
            image_base: facts.image_base,
            wrapped: None,
        },
        linker_symbols: LinkerSymbols::new(),
        ibt: facts.bits & fact::IBT != 0,
        static_irelative: facts.static_irelative,
    })
}

/// Finds places for the frame descriptions: where the file's are, or in what is spare. Gives what files have left.
fn settle_frames(
    frames: &Frames,
    layout: &FrameLayout,
    records: &mut [FileRecord],
    facts: &mut Facts,
    holes: &mut Holes,
) -> Result<Vec<[u64; 2]>, Reason> {
    let offsets = &layout.file_offsets;
    let mut left = Vec::new();
    for (index, record) in records.iter_mut().enumerate() {
        let file = index + 1;
        if frames.of(FileId(file as u32)).terminator {
            return Err("a changed object ends all frame descriptions".into());
        }
        let end = offsets.get(file + 1).copied().unwrap_or(layout.end);
        let size = end.saturating_sub(offsets[file]);
        let [_, room] = record.frames;
        let fits = size > 0 && size <= room;
        if fits || size == 0 && room == 0 {
            continue;
        }
        if room > 0 {
            left.push(record.frames);
            holes.leave(FRAMES, record.frames[0], room);
        }
        record.frames = [0; 2];
        let fits = |rest: u64| rest == 0 || rest >= LEAST_FILL;
        let wanted = size + Room::ROOMY.of_frames(size);
        if size > 0
            && let Some((at, taken, rest)) = holes.take(FRAMES, wanted, 8, fits)
        {
            record.frames = [at, taken];
            if rest > 0 {
                left.push([at + taken, rest]);
            }
        } else if size > 0 {
            let [at, spare] = facts.spare_frames;
            // What is left of the spare ones must be filled.
            let taken = match spare >= wanted + LEAST_FILL {
                true => wanted,
                false => spare,
            };
            if taken < size {
                return Err("there is no room for more frame descriptions".into());
            }
            record.frames = [at, taken];
            facts.spare_frames = [at + taken, spare - taken];
        }
    }
    Ok(left)
}

/// All symbols as references see them.
pub(super) fn values(places: &Places, names: &Names, lists: &[ListChange]) -> Vec<SymbolValue> {
    let mut values = places.symbol_values();
    for known in &names.list {
        let value = &mut values[known.symbol.index()];
        match (known.own, known.record) {
            (None, Some(record)) => (value.address, value.facts) = (record.address, record.facts),
            (Some(_), Some(record)) if record.facts.has(Demand::CANONICAL_PLT) => {
                value.address = record.address;
            }
            _ => {}
        }
    }
    for (name, end) in lists.iter().filter_map(ListChange::end) {
        if let Some(id) = places.symbols.find(name)
            && names.of(id).is_some_and(|known| known.own.is_none())
        {
            values[id.index()].address = end;
        }
    }
    values
}

/// What follows from definitions that have moved.
#[derive(Default)]
pub(super) struct Moved<'n> {
    /// The other files that refer to them, and must be linked again.
    pub referrers: Vec<u32>,
    /// The other files that refer to some of [`Moved::plain`].
    pub readdressed: Vec<u32>,
    /// Definitions of which nothing but the address is another.
    pub plain: Vec<PlainMove<'n>>,
    /// Words of `.got` with their addresses, by their numbers.
    pub slots: Vec<(u32, u64)>,
}

/// A definition that has moved, and is what it was.
pub(super) struct PlainMove<'n> {
    /// Its name.
    pub name: &'n [u8],
    /// Its address before.
    pub old: u64,
    /// Its address now.
    pub new: u64,
    /// Its word of `.got`, by number, or [`got::NONE`].
    pub got: u32,
}

impl<'n> PlainMove<'n> {
    /// Whether references to a definition hold nothing but its address, before and now.
    fn new(
        state: &State,
        name: &'n [u8],
        record: &NameRecord,
        now: &SymbolValue,
    ) -> Option<PlainMove<'n>> {
        let special = Defined::TLS | Defined::IFUNC | Defined::ABSOLUTE | Bound::UNDEFINED_WEAK;
        let special = special | Demand::CANONICAL_PLT | Demand::COPY;
        let was_placed = record.is_placed == 1 && record.definer != NONE;
        if !was_placed || (record.facts | now.facts).has(special) {
            return None;
        }
        let slots: &[Slots] = state.table(Table::Slots);
        let got = match record.slots {
            got::NONE => got::NONE,
            slots_at => slots.get(slots_at as usize)?.got,
        };
        Some(PlainMove {
            name,
            old: record.address,
            new: now.address,
            got,
        })
    }
}

/// Finds out who refers to what has moved.
///
/// # Errors
/// If something does that cannot be changed.
pub(super) fn moved<'n>(
    again: Again,
    places: &Places<'_, 'n>,
    names: &Names,
    values: &[SymbolValue],
    placed: &PlacedAgain,
) -> Result<Moved<'n>, Reason> {
    let mut moved = Moved {
        referrers: placed.pinned.clone(),
        ..Moved::default()
    };
    for (name, _) in placed.lists.iter().filter_map(ListChange::end) {
        let Some((at, record)) = again.world.name(name) else {
            continue;
        };
        if record.definer != NONE {
            continue;
        }
        if record.slots != got::NONE || record.dynamic != 0 {
            let name = again.link.diag.show_name(name);
            return Err(format!("{name} has moved, and is in tables").into());
        }
        moved.referrers.extend(again.world.mentioning(at));
    }
    let args = again.link.args;
    let special = [args.entry_name(), &args.init[..], &args.fini[..]];
    let aliases = args.defsyms.iter().filter_map(Defsym::symbol);
    let special: Vec<&[u8]> = special.into_iter().chain(aliases).collect();
    for known in names.list.iter().filter(|known| known.own.is_some()) {
        let (Some(record), Some(at)) = (known.record, known.at) else {
            continue;
        };
        let now = &values[known.symbol.index()];
        let (had, has) = (record.facts, now.facts);
        let is_resolved_otherwise = had.has(Defined::IFUNC) != has.has(Defined::IFUNC)
            && record.definer != NONE
            || (had | has).has(Defined::IFUNC) && (had | has).has(Demand::CANONICAL_PLT);
        if is_resolved_otherwise && !again.world.is_as_before {
            // Its entry of the PLT, of which others have the address, jumps to what a resolver says, or would have to.
            let name = again.link.diag.show_name(places.symbols.name(known.symbol));
            return Err(format!("{name} is, or was, an indirect function").into());
        }
        let now = now.address;
        if now == record.address {
            continue;
        }
        let name = places.symbols.name(known.symbol);
        if special.contains(&name) || !moved.slot(again.state, &record, now) {
            let name = again.link.diag.show_name(name);
            return Err(format!("{name} has moved, and has slots or entries of tables").into());
        }
        let value = &values[known.symbol.index()];
        let files = again.world.mentioning(at);
        match PlainMove::new(again.state, name, &record, value) {
            Some(plain) if args.wrap.is_empty() => {
                moved.plain.push(plain);
                moved.readdressed.extend(files);
            }
            _ => moved.referrers.extend(files),
        }
    }
    let is_other = |file: &u32| again.ids.binary_search(file).is_err();
    moved.referrers.retain(is_other);
    moved.readdressed.retain(is_other);
    moved.readdressed.sort_unstable();
    moved.readdressed.dedup();
    Ok(moved)
}

impl Moved<'_> {
    /// Notes the slot of a definition that is at `now`. `false` if it has what cannot be changed.
    fn slot(&mut self, state: &State, record: &NameRecord, now: u64) -> bool {
        let special = Defined::IFUNC | Demand::CANONICAL_PLT | Demand::COPY;
        if record.slots == got::NONE {
            return !record.facts.has(Defined::IFUNC);
        }
        if record.facts.has(special) {
            return false;
        }
        // The dynamic linker looks up the address of what others may define, too.
        if record.facts.has(Bound::IMPORTED) {
            return true;
        }
        if record.facts.has(Defined::TLS) {
            return false;
        }
        let all: &[Slots] = state.table(Table::Slots);
        let Some(slots) = all.get(record.slots as usize) else {
            return false;
        };
        if slots.got != got::NONE {
            self.slots.push((slots.got, now));
        }
        let others = [
            slots.jump,
            slots.tpoff,
            slots.tls_pair,
            slots.descriptor,
            slots.lazy,
            slots.direct,
        ];
        others.iter().all(|slot| *slot == got::NONE)
    }
}

/// `--verify-incremental`: whether the words of `.got` hold the addresses of what the files define, and so do the relocations
/// that add the image's own to them.
///
/// # Errors
/// If one does not.
pub(super) fn check_slots(
    again: Again,
    outputs: &Outputs,
    names: &Names,
    values: &[SymbolValue],
    old: &[u8],
) -> Result<(), Reason> {
    let mut expected = Moved::default();
    for known in names.list.iter().filter(|known| known.own.is_some()) {
        let special = Defined::IFUNC | Defined::TLS | Demand::CANONICAL_PLT | Defined::ABSOLUTE;
        if let Some(record) = known.record
            && !record.facts.has(special)
        {
            expected.slot(again.state, &record, values[known.symbol.index()].address);
        }
    }
    let mut copy = old.to_vec();
    let written = write_slots(&mut Patch::new(&mut copy), outputs, &expected.slots);
    match written.is_some() && copy == old {
        true => Ok(()),
        false => Err("a slot of .got holds another address".into()),
    }
}

/// Writes words of `.got` with addresses that have moved, and the relocations that add the image's own to them.
pub(super) fn write_slots(
    patch: &mut Patch,
    outputs: &Outputs,
    slots: &[(u32, u64)],
) -> Option<()> {
    if slots.is_empty() {
        return Some(());
    }
    let section = outputs.std(Std::Got);
    let mut addresses: FxHashMap<u64, u64> = FxHashMap::default();
    for (slot, address) in slots {
        let at = 8 * u64::from(*slot);
        let word = patch.bytes(section.offset + at, 8)?;
        word.copy_from_slice(&address.to_le_bytes());
        addresses.insert(section.address + at, *address);
    }
    let table = outputs.std(Std::RelaDyn);
    let range = table.offset as usize..(table.offset + table.size) as usize;
    let records: &[Rela] = bytemuck::try_cast_slice(patch.image.get(range)?).ok()?;
    let moved = |(index, rela): (usize, &Rela)| {
        let is_relative = rela.r_type() == reloc::R_X86_64_RELATIVE;
        let now = addresses.get(&{ rela.r_offset }).filter(|_| is_relative);
        now.map(|now| (index, *now))
    };
    let all: Vec<(usize, u64)> = records.iter().enumerate().filter_map(moved).collect();
    for (index, now) in all {
        let addend = patch.bytes(table.offset + 24 * index as u64 + 16, 8)?;
        addend.copy_from_slice(&now.to_le_bytes());
    }
    Some(())
}
