//! `.sframe`: stack traces without DWARF ("The SFrame format", versions 2 and 3).
//!
//! A section is a header, an index with one entry (FDE) for each function, and rows (FREs) that tell where the caller's
//! frame and the return address are from which instruction on. An output has one of them, so those of the inputs are taken
//! apart: entries of functions that are in the output are kept, each with its rows, which are copied as they are, and the
//! index is sorted by address, for readers search it. What is left out depends on the code that is linked; so the size is
//! known before anything has an address ([`Sframe::collect`]), and the contents afterwards ([`Sframe::write`]).
//!
//! | | entry of version 2 | entry of version 3 |
//! |---|---|---|
//! | distance to the function | 4 bytes | 8 bytes |
//! | size of the function, offset of its rows | 4 + 4 bytes | 4 + 4 bytes |
//! | number of rows, kind, size of a repeated block | 4 + 1 + 1 + 2 bytes | before the rows: 2 + 2 + 1 bytes |
//!
//! The distance is from the entry itself, or (only in version 2) from the section's start. It is what relocations are for.
//!
//! An output is of the newest version that an input has. Inputs of another version, of another machine or damaged ones are
//! left out with a warning: what is lost are traces through their functions.

use crate::base::ids::{FileId, SectionId};
use crate::elf;
use crate::elf::x86_64::reloc::{R_X86_64_NONE, R_X86_64_PC32, R_X86_64_PC64};
use crate::graph::icf::Folds;
use crate::input::file::Files;
use crate::input::object::{Fixups, Object};
use crate::messages::diag::Diagnostics;
use crate::resolve::input_sections::Sections;
use bytemuck::{Pod, Zeroable};
use rayon::prelude::*;

const MAGIC: u16 = 0xdee2;
/// Little-endian x86-64.
const ABI_AMD64: u8 = 3;

/// The index is sorted.
const SORTED: u8 = 1;
/// Functions keep the frame pointer (version 2).
const FRAME_POINTER: u8 = 2;
/// Distances are from the entry.
const FROM_ENTRY: u8 = 4;

/// What a section begins with.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, packed)]
struct Header {
    /// [`MAGIC`].
    magic: u16,
    version: u8,
    /// [`SORTED`] and its like.
    flags: u8,
    /// [`ABI_AMD64`].
    abi: u8,
    /// Where the frame pointer and the return address always are, from the frame's start; 0 if that differs.
    fixed: [u8; 2],
    /// Bytes between the header and what follows.
    extra: u8,
    /// Number of functions, and of rows.
    functions: u32,
    rows: u32,
    /// Bytes of the rows.
    rows_size: u32,
    /// Where the index and the rows are, from the end of the header on.
    index_offset: u32,
    rows_offset: u32,
}

const HEADER_SIZE: usize = size_of::<Header>();

/// Sizes of entries, and of what stands before the rows, in bytes.
const fn sizes_of(version: u8) -> (usize, usize) {
    match version {
        3 => (16, 5),
        _ => (20, 0),
    }
}

/// What all inputs of an output have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Format {
    version: u8,
    /// As in the header.
    fixed: [u8; 2],
}

/// One function.
#[derive(Clone, Copy, Debug)]
struct Function {
    /// Where its code is.
    code: (SectionId, u64),
    /// Whose description this is.
    file: FileId,
    section: u32,
    /// Offset of its entry.
    entry: u32,
    /// Offset of its rows, with what stands before them, and their bytes.
    rows: (u32, u32),
    /// Number of rows.
    count: u32,
}

/// The section of one input.
#[derive(Debug)]
struct Parsed {
    format: Format,
    flags: u8,
    functions: Vec<Function>,
}

/// The output's `.sframe`.
#[derive(Debug)]
pub struct Sframe {
    format: Format,
    flags: u8,
    functions: Vec<Function>,
    /// Offset of each function's rows among all of them.
    row_offsets: Vec<u32>,
    /// Number of rows, and their bytes.
    rows: (u32, u32),
}

/// Why a section is left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum SframeError {
    #[error("it ends too early")]
    Truncated,
    #[error("it has more than 4 GiB")]
    TooLarge,
    #[error("it does not begin with its magic number")]
    Magic,
    #[error("version {0} of the format is not known")]
    Version(u8),
    #[error("it is of version {0}, others of version {1}")]
    Mixed(u8, u8),
    #[error("it is for another machine")]
    Machine,
    #[error("its frames are laid out in another way than those of others")]
    Fixed,
    #[error("entry {0} has bad rows")]
    Rows(u32),
    #[error("entry {0} has a bad relocation")]
    Relocation(u32),
}

impl Sframe {
    /// Takes the inputs' sections apart, when it is known which code is in the output. `None` if nothing is left.
    pub fn collect(
        files: &Files,
        sections: &Sections,
        folds: &Folds,
        inputs: &[SectionId],
        diag: &Diagnostics,
    ) -> Option<Sframe> {
        let parsed: Vec<_> = inputs
            .par_iter()
            .map(|id| (*id, parse(files, sections, *id)))
            .collect();
        let known = parsed.iter().filter_map(|(_, parsed)| parsed.as_ref().ok());
        // Of those of the newest version the first.
        let format = known
            .map(|parsed| parsed.format)
            .rev()
            .max_by_key(|format| format.version);
        let mut left_out: Vec<(SectionId, SframeError)> = Vec::new();
        let mut flags = FROM_ENTRY | FRAME_POINTER;
        let mut functions = Vec::new();
        for (id, parsed) in parsed {
            let why = match (parsed, format) {
                (Err(why), _) => why,
                (Ok(parsed), Some(format)) if parsed.format != format => {
                    match parsed.format.version == format.version {
                        true => SframeError::Fixed,
                        false => SframeError::Mixed(parsed.format.version, format.version),
                    }
                }
                (Ok(parsed), _) => {
                    flags &= parsed.flags | FROM_ENTRY;
                    functions.extend(parsed.functions.into_iter().filter(|function| {
                        sections.is_alive(function.code.0) && folds.jump(function.code.0).is_none()
                    }));
                    continue;
                }
            };
            left_out.push((id, why));
        }
        if let [(first, why), others @ ..] = &left_out[..] {
            let others = match others.len() {
                0 => String::new(),
                1 => " (and so is another one)".into(),
                n => format!(" (and so are {n} others)"),
            };
            let input = files.get(sections.origin(*first).0);
            diag.warn(format!(
                "{input}: .sframe is left out{others}: {why}; stack traces by SFrame will miss its functions"
            ));
        }
        let format = format.filter(|_| !functions.is_empty())?;
        let mut row_offsets = Vec::with_capacity(functions.len());
        let mut rows = (0u32, 0u32);
        for function in &functions {
            row_offsets.push(rows.1);
            let sums = rows
                .0
                .checked_add(function.count)
                .zip(rows.1.checked_add(function.rows.1));
            let Some(sums) = sums else {
                diag.error(
                    ".sframe: 4 GiB of rows, which the format cannot have; use --discard-sframe",
                );
                return None;
            };
            rows = sums;
        }
        Some(Sframe {
            format,
            flags: flags | SORTED,
            functions,
            row_offsets,
            rows,
        })
    }

    /// Size of the output's section in bytes.
    pub fn size(&self) -> u64 {
        let (entry, _) = sizes_of(self.format.version);
        (HEADER_SIZE + self.functions.len() * entry) as u64 + u64::from(self.rows.1)
    }

    /// Writes the section, which is at `address`; `address_of` tells where a place in an input section has come to stand.
    pub fn write(
        &self,
        files: &Files,
        address_of: impl Fn(SectionId, u64) -> Option<u64> + Sync,
        address: u64,
        out: &mut [u8],
        diag: &Diagnostics,
    ) {
        let (entry_size, _) = sizes_of(self.format.version);
        let mut sorted: Vec<(u64, u32)> = (0..self.functions.len() as u32)
            .into_par_iter()
            .map(|index| {
                let (section, offset) = self.functions[index as usize].code;
                (address_of(section, offset).unwrap_or(0), index)
            })
            .collect();
        sorted.par_sort_unstable();
        let (header, rest) = out.split_at_mut(HEADER_SIZE);
        let (entries, rows) = rest.split_at_mut(self.functions.len() * entry_size);
        header.copy_from_slice(bytemuck::bytes_of(&Header {
            magic: MAGIC,
            version: self.format.version,
            flags: self.flags,
            abi: ABI_AMD64,
            fixed: self.format.fixed,
            extra: 0,
            functions: self.functions.len() as u32,
            rows: self.rows.0,
            rows_size: self.rows.1,
            index_offset: 0,
            rows_offset: entries.len() as u32,
        }));
        for (function, at) in self.functions.iter().zip(&self.row_offsets) {
            let bytes = files.object(function.file).section_bytes(function.section);
            let (start, size) = (function.rows.0 as usize, function.rows.1 as usize);
            rows[*at as usize..][..size].copy_from_slice(&bytes[start..start + size]);
        }
        let start = address + HEADER_SIZE as u64;
        for (n, (entry, (code, index))) in
            entries.chunks_exact_mut(entry_size).zip(sorted).enumerate()
        {
            let function = &self.functions[index as usize];
            let bytes = files.object(function.file).section_bytes(function.section);
            entry.copy_from_slice(&bytes[function.entry as usize..][..entry_size]);
            let distance = code.wrapping_sub(start + (n * entry_size) as u64) as i64;
            let rows = self.row_offsets[index as usize].to_le_bytes();
            if self.format.version == 3 {
                entry[..8].copy_from_slice(&distance.to_le_bytes());
                entry[12..16].copy_from_slice(&rows);
            } else {
                let Ok(distance) = i32::try_from(distance) else {
                    diag.error(format!(
                        "{}: .sframe: the code at {code:#x} is out of reach; use --discard-sframe",
                        files.get(function.file)
                    ));
                    return;
                };
                entry[..4].copy_from_slice(&distance.to_le_bytes());
                entry[8..12].copy_from_slice(&rows);
            }
        }
    }
}

fn parse(files: &Files, sections: &Sections, id: SectionId) -> Result<Parsed, SframeError> {
    let section = sections.at(files, id);
    let (file, number, object) = (section.file, section.number, section.object);
    let (bytes, fixups) = object.contents(number, section.relocations);
    let header = header(bytes)?;
    let mut parsed = Parsed {
        format: Format {
            version: header.version,
            fixed: header.fixed,
        },
        flags: header.flags,
        functions: Vec::new(),
    };
    let (entry_size, before_rows) = sizes_of(header.version);
    let (count, rows_size) = (header.functions, header.rows_size as usize);
    let start = HEADER_SIZE + usize::from(header.extra);
    let index = start + header.index_offset as usize;
    let rows = start + header.rows_offset as usize;
    let index_end = index + count as usize * entry_size;
    if index_end > bytes.len() || rows + rows_size > bytes.len() {
        return Err(SframeError::Truncated);
    }
    let mut taken = 0;
    let all_rows = &bytes[rows..rows + rows_size];
    let mut places: Vec<(u64, usize)> = (0..fixups.len())
        .filter_map(|i| Some((fixups.get(i)?, i)))
        .filter(|(fixup, _)| fixup.r_type != R_X86_64_NONE)
        .map(|(fixup, i)| (fixup.offset, i))
        .collect();
    places.sort_unstable();
    for n in 0..count {
        let at = index + n as usize * entry_size;
        // What ld -r has seen to be discarded has none any more.
        let Some(code) = code_of(object, fixups, &places, at as u64, &parsed, n)? else {
            continue;
        };
        let Some(code_id) = sections.get(file, code.0) else {
            return Err(SframeError::Relocation(n));
        };
        let word = |offset: usize| {
            let field = bytes[at + offset..].first_chunk();
            field.map_or(0, |field| u32::from_le_bytes(*field))
        };
        let (offset, row_count, kind) = match header.version {
            3 => {
                let offset = word(12) as usize;
                let info = all_rows
                    .get(offset..)
                    .and_then(|rows| rows.first_chunk::<5>());
                let info = info.ok_or(SframeError::Rows(n))?;
                (
                    offset,
                    u32::from(u16::from_le_bytes([info[0], info[1]])),
                    info[2],
                )
            }
            _ => (word(8) as usize, word(12), bytes[at + 16]),
        };
        let size = all_rows
            .get(offset + before_rows..)
            .and_then(|rows| rows_size_of(rows, row_count, kind))
            // No two functions share rows: what is written is no more than what was read.
            .filter(|size| {
                taken += before_rows + size;
                taken <= rows_size
            })
            .ok_or(SframeError::Rows(n))?;
        parsed.functions.push(Function {
            code: (code_id, code.1),
            file,
            section: number,
            entry: at as u32,
            rows: ((rows + offset) as u32, (before_rows + size) as u32),
            count: row_count,
        });
    }
    Ok(parsed)
}

/// Checks and reads the header.
fn header(bytes: &[u8]) -> Result<&Header, SframeError> {
    let header: &Header = elf::record(bytes, 0).ok_or(SframeError::Truncated)?;
    if { header.magic } != MAGIC {
        return Err(SframeError::Magic);
    }
    if !matches!(header.version, 2 | 3) {
        return Err(SframeError::Version(header.version));
    }
    if header.abi != ABI_AMD64 {
        return Err(SframeError::Machine);
    }
    // Offsets have 32 bits.
    match u32::try_from(bytes.len()) {
        Ok(_) => Ok(header),
        Err(_) => Err(SframeError::TooLarge),
    }
}

/// The section and offset of the code that the entry at `at` describes; `None` if it is nowhere in this file. `places`:
/// offsets of the fixups, sorted, each with its index.
fn code_of(
    object: &Object,
    fixups: Fixups,
    places: &[(u64, usize)],
    at: u64,
    parsed: &Parsed,
    n: u32,
) -> Result<Option<(u32, u64)>, SframeError> {
    let found = places.binary_search_by_key(&at, |(offset, _)| *offset);
    let Some(fixup) = found.ok().and_then(|found| fixups.get(places[found].1)) else {
        return Ok(None);
    };
    let wanted = match parsed.format.version {
        3 => R_X86_64_PC64,
        _ => R_X86_64_PC32,
    };
    if fixup.r_type != wanted {
        return Err(SframeError::Relocation(n));
    }
    let Some((section, value)) = object.place_of(fixup.target) else {
        return Ok(None);
    };
    let mut offset = value.wrapping_add_signed(fixup.addend);
    if parsed.format.version == 2 && parsed.flags & FROM_ENTRY == 0 {
        // The addend is for the distance from the section's start.
        offset = offset.wrapping_sub(at);
    }
    Ok(Some((section, offset)))
}

/// Bytes of `count` rows: each an offset in the function, of 1, 2 or 4 bytes as `kind` says, a byte of information, and so
/// many words of so many bytes as that says.
fn rows_size_of(rows: &[u8], count: u32, kind: u8) -> Option<usize> {
    let offset_size = match kind & 15 {
        0 => 1,
        1 => 2,
        2 => 4,
        _ => return None,
    };
    let mut at = 0;
    for _ in 0..count {
        let info = rows.get(at + offset_size)?;
        let word = match info >> 5 & 3 {
            0 => 1,
            1 => 2,
            2 => 4,
            _ => return None,
        };
        at += offset_size + 1 + usize::from(info >> 1 & 15) * word;
    }
    (at <= rows.len()).then_some(at)
}
