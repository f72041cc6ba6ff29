//! The table by which unwinders find frame descriptions.

use super::{Output, demand};
use crate::elf::eh_frame::{Cie, Fde, RecordKind, records};
use crate::link::incremental::reason::Reason;
use crate::resolve::output_sections::Std;
use rustc_hash::FxHashMap;

/// How the linker itself has written the table: distances of four bytes, from there and from the table.
const FORM: [u8; 4] = [1, 0x1b, 0x03, 0x3b];

pub(super) fn check(output: &Output) -> Result<(), Reason> {
    let table = output.contents(Std::EhFrameHdr)?;
    let frames = output.contents(Std::EhFrame)?;
    if table.is_empty() || !output.args.eh_frame_hdr {
        return Ok(());
    }
    demand(table.starts_with(&FORM), || {
        ".eh_frame_hdr is of another form".into()
    })?;
    let start = output.extent(Std::EhFrameHdr).0;
    let base = output.extent(Std::EhFrame).0;
    let short = || Reason::from(".eh_frame_hdr is too short");
    let word = |at: usize| {
        let bytes = table.get(at..).and_then(|rest| rest.first_chunk());
        bytes
            .map(|bytes| i32::from_le_bytes(*bytes))
            .ok_or_else(short)
    };
    let address = |from: u64, at: usize| -> Result<u64, Reason> {
        Ok(from.wrapping_add(i64::from(word(at)?) as u64))
    };
    demand(address(start + 4, 4)? == base, || {
        ".eh_frame_hdr leads to another .eh_frame".into()
    })?;
    let count = word(8)? as u32 as usize;
    let mut rows: FxHashMap<u64, u64> = FxHashMap::default();
    let mut last = None;
    for row in 0..count {
        let pc = address(start, 12 + 8 * row)?;
        let fde = address(start, 16 + 8 * row)?;
        demand(last.is_none_or(|last| last < pc), || {
            format!("the table of frames is not in order at {pc:#x}")
        })?;
        last = Some(pc);
        rows.insert(fde, pc);
    }
    let mut cies: FxHashMap<u64, Cie> = FxHashMap::default();
    let bad = |why: &dyn std::fmt::Display| Reason::from(format!(".eh_frame: {why}"));
    let mut found = 0;
    for record in records(frames, 0, |_| 0) {
        let record = record.map_err(|why| bad(&why))?;
        match record.kind {
            RecordKind::Cie => {
                let cie = Cie::parse(frames, &record).map_err(|why| bad(&why))?;
                cies.insert(record.offset, cie);
            }
            RecordKind::Fde { cie } => {
                let cie = cies.get(&cie).ok_or("a frame has no CIE")?;
                let fde = Fde::parse(frames, &record, cie).map_err(|why| bad(&why))?;
                let place = base + record.offset;
                let encoding = cie.fde_encoding;
                let at = fde.pc_begin as usize;
                let value = frames.get(at..).and_then(|bytes| encoding.read(bytes));
                let value = value.ok_or("a frame is too short")?;
                // Of several that are about one address, one is in the table.
                let is_relative = encoding.0 & 0x70 == 0x10;
                let is_of = value.wrapping_add(base + at as u64);
                let is_it = match rows.get(&place) {
                    Some(pc) => {
                        found += 1;
                        !is_relative || is_of == *pc
                    }
                    None => is_relative && rows.values().any(|pc| is_of == *pc),
                };
                demand(is_it, || {
                    format!("the frame at {place:#x} is not in the table")
                })?;
            }
            RecordKind::Terminator => break,
        }
    }
    demand(found == rows.len(), || {
        "the table of frames has rows without a frame".into()
    })
}
