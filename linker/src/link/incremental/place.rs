//! The third step of an incremental link: where everything is, and who refers to what has moved.

use super::again::Again;
use super::chunks::{PlacedAgain, Placing};
use super::names::Names;
use super::parts::take_addresses;
use super::read::Read;
use super::reason::Reason;
use super::state::{Facts, FileRecord, fact};
use super::trace::{Settled, Traced};
use crate::base::ids::FileId;
use crate::elf::eh_frame::LEAST_FILL;
use crate::graph::eh_frame_records::{FrameLayout, Frames};
use crate::graph::icf::Folds;
use crate::layout::address_map::{Places, Starts, SymbolValue};
use crate::layout::got;
use crate::layout::program_headers::Segments;
use crate::layout::segment_table::TlsSegment;
use crate::resolve::linker_symbols::LinkerSymbols;
use crate::resolve::output_sections::Outputs;
use crate::resolve::room::Room;
use crate::resolve::symbol_table::flag;

/// Where everything of the objects is.
pub(super) struct Placed<'r> {
    /// The output sections, as they are in the output.
    pub outputs: Outputs<'r>,
    /// The objects' sections.
    pub again: PlacedAgain,
    /// Their frame descriptions. The CIEs have places of their own still, as if there were no others.
    pub frame_layout: FrameLayout,
    /// Places of frame descriptions that files have left: offset in `.eh_frame`, and size.
    pub left_frames: Vec<[u64; 2]>,
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
        state: again.state,
        files,
        sections,
        outputs: &outputs,
        part_of: &part_of,
    };
    let placed = placing.run(records, offsets)?;
    let frames = &settled.frames;
    let mut frame_layout = frames.layout(files, symbols, sections, Room::NONE);
    let left_frames = settle_frames(frames, &frame_layout, records, facts)?;
    for (offset, record) in frame_layout.file_offsets.iter_mut().skip(1).zip(records) {
        *offset = record.frames[0];
    }
    Ok(Placed {
        starts: Starts::new(sections, &placed.placement, &outputs),
        outputs,
        again: placed,
        frame_layout,
        left_frames,
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
        }
        record.frames = [0; 2];
        if size > 0 {
            let [at, spare] = facts.spare_frames;
            // What is left of the spare ones must be filled.
            let wanted = size + Room::ROOMY.of_frames(size);
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
pub(super) fn values(places: &Places, names: &Names) -> Vec<SymbolValue> {
    let mut values = places.symbol_values();
    for known in &names.list {
        let value = &mut values[known.symbol.index()];
        match (known.own, known.record) {
            (None, Some(record)) => (value.address, value.flags) = (record.address, record.flags),
            (Some(_), Some(record)) if record.flags & flag::CANONICAL_PLT != 0 => {
                value.address = record.address;
            }
            _ => {}
        }
    }
    values
}

/// The other files that must be linked again because what they refer to has moved.
pub(super) fn referrers(
    again: Again,
    places: &Places,
    names: &Names,
    values: &[SymbolValue],
) -> Result<Vec<u32>, Reason> {
    let mut more: Vec<u32> = Vec::new();
    let args = again.link.args;
    let special = [args.entry_name(), &args.init[..], &args.fini[..]];
    for known in names.list.iter().filter(|known| known.own.is_some()) {
        let (Some(record), Some(at)) = (known.record, known.at) else {
            continue;
        };
        let now = values[known.symbol.index()].address;
        if now == record.address {
            continue;
        }
        let name = places.symbols.name(known.symbol);
        if record.slots != got::NONE || special.contains(&name) || record.flags & flag::IFUNC != 0 {
            let name = again.link.diag.show_name(name);
            return Err(format!("{name} has moved, and has slots or entries of tables").into());
        }
        more.extend(again.world.mentioning(at));
    }
    more.retain(|file| again.ids.binary_search(file).is_err());
    Ok(more)
}
