//! `.eh_frame` of all files, taken apart into records.
//!
//! A frame description (FDE) lives and dies with the code that it describes; a
//! common information entry (CIE) is kept once for all files that have the same.
//! The records are found once, in parallel, and then only their numbers are used.

use crate::base::ids::{FileId, SectionId, SymbolId};
use crate::elf;
use crate::elf::eh_frame::{self, EhFrameError, Record, RecordKind};
use crate::input::file::Files;
use crate::input::object::{Fixups, Object};
use crate::input::parts::{Target, Unwind, is_cie_pointer};
use crate::messages::diag::Diagnostics;
use crate::resolve::input_sections::{SectionRef, Sections, state};
use crate::resolve::room::Room;
use crate::resolve::symbol_table::SymbolTable;
use rayon::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use store::prefetch::prefetch;

/// A CIE of an input.
#[derive(Debug)]
pub struct Cie {
    /// Number of the `.eh_frame` section in its file.
    pub section: u32,
    /// Offset in the section.
    pub offset: u32,
    /// Size with the length field.
    pub size: u32,
    /// First and one past the last of its relocations.
    pub relocations: (u32, u32),
    /// Size of the pointers to code in its FDEs; 0 if it is not understood.
    pub pointer_size: u8,
    /// Some live FDE uses it.
    pub used: AtomicBool,
}

/// An FDE of an input.
#[derive(Clone, Copy, Debug)]
pub struct Fde {
    /// Number of the section with the code that it describes.
    pub describes: u32,
    /// Number of the `.eh_frame` section in its file.
    pub section: u32,
    /// Offset in the section.
    pub offset: u32,
    /// Size with the length field.
    pub size: u32,
    /// Index of its CIE in the file.
    pub cie: u32,
    /// First and one past the last of its relocations; the first is that of the code's address.
    pub relocations: (u32, u32),
}

/// The frames of one file.
#[derive(Default)]
pub struct FileFrames {
    /// CIEs in the order of the sections.
    pub cies: Vec<Cie>,
    /// FDEs, those of one code section together.
    pub fdes: Vec<Fde>,
    /// A section of the file ends in a terminator.
    pub terminator: bool,
    /// By section of the file, up to the last that has one: its first FDE, and those of the next begin where its own end.
    firsts: Vec<u32>,
}

impl FileFrames {
    /// The FDEs of a section.
    #[inline]
    pub fn of_section(&self, number: u32) -> &[Fde] {
        match self.firsts.get(number as usize..) {
            Some([first, end, ..]) => &self.fdes[*first as usize..*end as usize],
            _ => &[],
        }
    }

    /// Says that the FDEs of a section will be needed soon.
    #[inline]
    pub fn fetch(&self, number: u32) {
        if let Some(first) = self.firsts.get(number as usize) {
            prefetch(first);
        }
    }

    /// All FDEs are there: brings those of each section together.
    fn arrange(&mut self) {
        self.fdes.sort_by_key(|fde| fde.describes);
        let sections = self.fdes.last().map_or(0, |fde| fde.describes as usize + 1);
        self.firsts = vec![0; sections + 1];
        for fde in &self.fdes {
            self.firsts[fde.describes as usize + 1] += 1;
        }
        for section in 0..sections {
            self.firsts[section + 1] += self.firsts[section];
        }
    }
}

/// The frames of all files, by [`FileId`].
pub struct Frames(pub Vec<FileFrames>);

impl Frames {
    /// Finds all records. `sections` are the `.eh_frame` sections of the linked files.
    pub fn parse(
        files: &Files,
        sections: &Sections,
        frames: &[SectionId],
        diag: &Diagnostics,
    ) -> Frames {
        let mut by_file: Vec<FileFrames> = Vec::new();
        by_file.resize_with(files.0.len(), FileFrames::default);
        let file_of = |id: &SectionId| sections.origin(*id).0;
        let parsed: Vec<(FileId, FileFrames)> = frames
            .par_chunk_by(|id, next| file_of(id) == file_of(next))
            .map(|of_file| {
                let mut frames = FileFrames {
                    fdes: Vec::with_capacity(of_file.len()),
                    ..FileFrames::default()
                };
                let file = file_of(&of_file[0]);
                let object = files.object(file);
                let inputs = (of_file.iter())
                    .filter(|id| sections.state(**id) & state::DISCARDED == 0)
                    .map(|id| sections.at(files, *id));
                // An FDE may come before its CIE where each is a section of its own.
                let is_cie = |input: &SectionRef| object.unwind(input.number) == Unwind::Cie;
                let first = inputs.clone().filter(is_cie);
                let second = inputs.filter(|input| !is_cie(input));
                for input in first.chain(second) {
                    let number = input.number;
                    if push_known_fde(object, number, &mut frames) {
                        continue;
                    }
                    let place = format_args!("{}: .eh_frame (section {number})", files.get(file));
                    let warn = |why: &EhFrameError| {
                        diag.warn(format!("{place}: {why}; it is linked as it is"));
                    };
                    let parsed = parse_section(input, sections, &mut frames, &warn);
                    if let Err(why) = parsed {
                        diag.error(format!("{place}: {why}"));
                    }
                }
                frames.arrange();
                for fde in &frames.fdes {
                    sections.add_state(sections.id(file, fde.describes), state::HAS_FDE);
                }
                (file, frames)
            })
            .collect();
        for (file, frames) in parsed {
            by_file[file.index()] = frames;
        }
        Frames(by_file)
    }

    /// The frames of a file.
    #[inline]
    pub fn of(&self, file: FileId) -> &FileFrames {
        &self.0[file.index()]
    }
}

/// Adds a section that is known to be one FDE, without opening it.
fn push_known_fde(object: &Object, number: u32, frames: &mut FileFrames) -> bool {
    let Some(fde) = object.one_fde(number) else {
        return false;
    };
    let cie = frames.cies.iter().position(|cie| cie.section == fde.cie);
    let Some(cie) = cie else { return false };
    frames.fdes.push(Fde {
        describes: fde.describes,
        section: number,
        offset: 0,
        size: fde.size,
        cie: cie as u32,
        // The first is the CIE pointer.
        relocations: (1, fde.fixups),
    });
    true
}

fn parse_section(
    input: SectionRef,
    sections: &Sections,
    frames: &mut FileFrames,
    warn: &dyn Fn(&EhFrameError),
) -> Result<(), String> {
    let (number, object) = (input.number, input.object);
    let (bytes, fixups) = (input.bytes(), input.fixups());
    if u32::try_from(bytes.len()).is_err() {
        return Err("larger than 4 GiB".into());
    }
    let offset = |i: usize| fixups.get(i).map_or(u64::MAX, |fixup| fixup.offset);
    let first_cie = frames.cies.len();
    let fdes_only = object.unwind(number) == Unwind::Fdes;
    for record in eh_frame::records(bytes, fixups.len(), offset) {
        let record = record.map_err(|why| why.to_string())?;
        let relocations = (record.relocs.start as u32, record.relocs.end as u32);
        let (cie, relocations) = match record.kind {
            // The CIE pointers of a fragment's FDEs are zero and have fixups.
            RecordKind::Cie if fdes_only => {
                let pointer = fixups
                    .get(record.relocs.start)
                    .filter(|fixup| is_cie_pointer(fixup) && fixup.offset == record.id_offset);
                let section = pointer.and_then(|fixup| object.place_of(fixup.target));
                let section = section.map(|(number, _)| number);
                let cie = frames
                    .cies
                    .iter()
                    .position(|cie| Some(cie.section) == section);
                let Some(cie) = cie else {
                    return Err(no_cie(record.offset));
                };
                (cie, (relocations.0 + 1, relocations.1))
            }
            RecordKind::Cie => {
                let cie = eh_frame::Cie::parse(bytes, &record).inspect_err(|why| warn(why));
                let pointer_size = cie.ok().and_then(|cie| cie.fde_encoding.size());
                frames.cies.push(Cie {
                    section: number,
                    offset: record.offset as u32,
                    size: record.size as u32,
                    relocations,
                    pointer_size: pointer_size.map_or(0, |size| size as u8),
                    used: AtomicBool::new(false),
                });
                continue;
            }
            RecordKind::Fde { cie } => {
                let found = frames.cies[first_cie..]
                    .binary_search_by_key(&cie, |known| known.offset.into());
                let Ok(found) = found else {
                    return Err(no_cie(record.offset));
                };
                (first_cie + found, relocations)
            }
            RecordKind::Terminator => {
                frames.terminator = true;
                continue;
            }
        };
        push_fde(input, sections, &record, cie, relocations, frames)?;
    }
    Ok(())
}

fn no_cie(offset: u64) -> String {
    format!("offset {offset:#x}: the frame description's CIE is not a CIE")
}

/// Enters an FDE of `input`, a section of frame descriptions, unless it describes nothing. `relocations` are its own.
fn push_fde(
    input: SectionRef,
    sections: &Sections,
    record: &Record,
    cie: usize,
    relocations: (u32, u32),
    frames: &mut FileFrames,
) -> Result<(), String> {
    // The first relocation is that of the code's address. Without one, the code is not in this file.
    if relocations.0 == relocations.1 {
        return Ok(());
    }
    let Some(fixup) = input.fixups().get(relocations.0 as usize) else {
        return Ok(());
    };
    if fixup.offset != record.id_offset + 4 {
        return Err(format!(
            "offset {:#x}: the code's address has no relocation",
            record.offset
        ));
    }
    // One that covers nothing would hide the one that follows at the same address.
    let pointer_size = u64::from(frames.cies[cie].pointer_size);
    let range = elf::bytes(input.bytes(), fixup.offset + pointer_size, pointer_size);
    if pointer_size != 0 && range.is_some_and(|range| range.iter().all(|byte| *byte == 0)) {
        return Ok(());
    }
    let Some((describes, _)) = input.object.place_of(fixup.target) else {
        return Ok(());
    };
    if sections.get(input.file, describes).is_none() {
        return Err(format!(
            "offset {:#x}: describes section {describes}, which does not exist",
            record.offset
        ));
    }
    frames.fdes.push(Fde {
        describes,
        section: input.number,
        offset: record.offset as u32,
        size: record.size as u32,
        cie: cie as u32,
        relocations,
    });
    Ok(())
}

/// A CIE as it will stand in the output.
#[derive(Clone, Copy, Debug)]
pub struct OutputCie {
    /// The file that it is copied from.
    pub file: FileId,
    /// Its index there.
    pub index: u32,
    /// Offset in the output's `.eh_frame`.
    pub offset: u32,
}

/// Where everything goes in the output's `.eh_frame`.
#[derive(Clone)]
pub struct FrameLayout {
    /// The distinct CIEs.
    pub cies: Vec<OutputCie>,
    /// Offset of the CIE for each of a file's CIEs.
    pub cie_offsets: Vec<Vec<u32>>,
    /// Offset of each file's FDEs.
    pub file_offsets: Vec<u64>,
    /// Number of FDEs before each file's, and their total at the end.
    pub fde_counts: Vec<u32>,
    /// Where the last file's FDEs, and what room they have, end.
    pub end: u64,
    /// Bytes behind that for more.
    pub spare: u64,
    /// Size of everything.
    pub size: u64,
}

/// What decides whether two CIEs are the same.
#[derive(PartialEq, Eq, Hash)]
struct CieIdentity<'a> {
    bytes: &'a [u8],
    relocations: Vec<(u64, u32, i64, CieTarget)>,
}

#[derive(PartialEq, Eq, Hash)]
enum CieTarget {
    Global(SymbolId),
    Local(FileId, Target32),
}

#[derive(PartialEq, Eq, Hash)]
enum Target32 {
    Symbol(u32),
    Section(u32),
    Piece(u32),
}

impl Frames {
    /// Lays out the frames of live code: distinct CIEs first, then the FDEs, file after file.
    pub fn layout(
        &self,
        files: &Files,
        symbols: &SymbolTable,
        sections: &Sections,
        room: Room,
    ) -> FrameLayout {
        let mut cies: Vec<OutputCie> = Vec::new();
        let mut cie_offsets: Vec<Vec<u32>> = Vec::with_capacity(self.0.len());
        let mut known: HashMap<CieIdentity, u32> = HashMap::new();
        let mut size = 0u32;
        for (i, frames) in self.0.iter().enumerate() {
            let file = FileId(i as u32);
            let mut offsets = Vec::with_capacity(frames.cies.len());
            for (index, cie) in frames.cies.iter().enumerate() {
                if !cie.used.load(Relaxed) {
                    offsets.push(u32::MAX);
                    continue;
                }
                let identity = identity(file, files, symbols, sections, cie);
                let offset = *known.entry(identity).or_insert_with(|| {
                    let offset = size;
                    cies.push(OutputCie {
                        file,
                        index: index as u32,
                        offset,
                    });
                    size += cie.size;
                    offset
                });
                offsets.push(offset);
            }
            cie_offsets.push(offsets);
        }
        let sizes: Vec<(u64, u32)> = self
            .0
            .par_iter()
            .enumerate()
            .map(|(i, frames)| {
                let live =
                    |fde: &&Fde| sections.is_alive(sections.id(FileId(i as u32), fde.describes));
                frames
                    .fdes
                    .iter()
                    .filter(live)
                    .fold((0, 0), |(size, count), fde| {
                        (size + u64::from(fde.size), count + 1)
                    })
            })
            .collect();
        let mut at = u64::from(size);
        let mut count = 0;
        let (mut file_offsets, mut fde_counts) = (
            Vec::with_capacity(sizes.len()),
            Vec::with_capacity(sizes.len() + 1),
        );
        for (size, fdes) in sizes {
            file_offsets.push(at);
            fde_counts.push(count);
            at += size + room.of_frames(size);
            count += fdes;
        }
        fde_counts.push(count);
        // Whoever walks without a table needs to see the end.
        let terminator = self.0.iter().any(|frames| frames.terminator);
        let spare = room.of_all_frames(at - u64::from(size));
        FrameLayout {
            cies,
            cie_offsets,
            file_offsets,
            fde_counts,
            end: at,
            spare,
            size: at + spare + if terminator { 4 } else { 0 },
        }
    }
}

fn identity<'f>(
    file: FileId,
    files: &'f Files,
    symbols: &SymbolTable,
    sections: &Sections,
    cie: &Cie,
) -> CieIdentity<'f> {
    let object = files.object(file);
    let bytes = object.section_bytes(cie.section);
    let bytes = &bytes[cie.offset as usize..(cie.offset + cie.size) as usize];
    let mut relocations = Vec::new();
    cie_fixups(object, file, sections, cie).for_each(|fixup| {
        let target = match fixup.target {
            Target::Symbol(index) if index >= object.first_global() => {
                CieTarget::Global(symbols.of(files.get(file), index))
            }
            Target::Symbol(index) => CieTarget::Local(file, Target32::Symbol(index)),
            Target::Section(number) => CieTarget::Local(file, Target32::Section(number)),
            Target::Piece(id) => CieTarget::Local(file, Target32::Piece(id)),
        };
        relocations.push((
            fixup.offset - u64::from(cie.offset),
            fixup.r_type,
            fixup.addend,
            target,
        ));
    });
    CieIdentity { bytes, relocations }
}

/// The fixups of a CIE.
pub fn cie_fixups<'a>(
    object: &'a Object,
    file: FileId,
    sections: &Sections,
    cie: &Cie,
) -> Fixups<'a> {
    record_fixups(object, file, sections, cie.section, cie.relocations)
}

/// The fixups of an FDE.
pub fn fde_fixups<'a>(
    object: &'a Object,
    file: FileId,
    sections: &Sections,
    fde: &Fde,
) -> Fixups<'a> {
    record_fixups(object, file, sections, fde.section, fde.relocations)
}

/// What a CIE says and where the fields of its FDE are. `None` if they are not understood.
pub fn fde_fields(
    object: &Object,
    frames: &FileFrames,
    fde: &Fde,
) -> Option<(eh_frame::Cie, eh_frame::Fde)> {
    let fields_of = |section: u32, offset: u32, size: u32, kind: RecordKind| {
        let bytes = object.section_bytes(section);
        let is_long = bytes.get(offset as usize..)?.starts_with(&[0xff; 4]);
        let record = Record {
            offset: offset.into(),
            size: size.into(),
            id_offset: u64::from(offset) + if is_long { 12 } else { 4 },
            kind,
            relocs: 0..0,
        };
        Some((bytes, record))
    };
    let cie = frames.cies.get(fde.cie as usize)?;
    let (bytes, record) = fields_of(cie.section, cie.offset, cie.size, RecordKind::Cie)?;
    let parsed = eh_frame::Cie::parse(bytes, &record).ok()?;
    let kind = RecordKind::Fde {
        cie: cie.offset.into(),
    };
    let (bytes, record) = fields_of(fde.section, fde.offset, fde.size, kind)?;
    let fields = eh_frame::Fde::parse(bytes, &record, &parsed).ok()?;
    Some((parsed, fields))
}

fn record_fixups<'a>(
    object: &'a Object,
    file: FileId,
    sections: &Sections,
    section: u32,
    range: (u32, u32),
) -> Fixups<'a> {
    let relocations = sections.relocations[sections.id(file, section).index()];
    object
        .fixups(section, relocations)
        .slice(range.0 as usize, range.1 as usize)
}
