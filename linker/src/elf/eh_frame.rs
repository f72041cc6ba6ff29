//! Exception frames: reading `.eh_frame`, and making `.eh_frame_hdr` (LSB core
//! specification, section 10.6; DWARF 4, section 6.4).
//!
//! `.eh_frame` is a sequence of length-prefixed records. A *common information
//! entry* (CIE) holds what many functions share; a *frame description entry*
//! (FDE) covers one range of code and points back to its CIE. A linker must take
//! the section apart: FDEs of functions that are not in the output go away, equal
//! CIEs are kept once, and a table sorted by address is made for the unwinder.
//!
//! [`records`] walks over a section and gives each record together with the range
//! of its relocations. [`Cie::parse`] and [`Fde::parse`] look inside. They read
//! only the parts that decide layout: the pointer encodings, and the places of the
//! pointers. Instructions are never looked at.

use std::ops::Range;

/// Why a section cannot be taken apart. All offsets are from the section's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EhFrameError {
    /// A record is longer than what is left of the section.
    #[error("offset {offset:#x}: record extends past the end of the section")]
    Truncated {
        /// Where the record starts.
        offset: u64,
    },
    /// A record is too short for its own header, or a field does not lie within it.
    #[error("offset {offset:#x}: field extends past the end of its record")]
    FieldOutsideRecord {
        /// Where the field starts.
        offset: u64,
    },
    /// The CIE pointer of an FDE points before the section.
    #[error("offset {offset:#x}: CIE pointer is outside of the section")]
    BadCiePointer {
        /// Where the FDE starts.
        offset: u64,
    },
    /// A version that is not 1, 3 or 4.
    #[error("offset {offset:#x}: unknown CIE version {version}")]
    UnknownVersion {
        /// Where the CIE starts.
        offset: u64,
        /// Its version.
        version: u8,
    },
    /// An augmentation string that does not say where things are.
    #[error("offset {offset:#x}: unknown CIE augmentation")]
    UnknownAugmentation {
        /// Where the CIE starts.
        offset: u64,
    },
    /// An encoding that pointers of this kind cannot have.
    #[error("offset {offset:#x}: unsupported pointer encoding {encoding:#04x}")]
    BadEncoding {
        /// Where the CIE starts.
        offset: u64,
        /// The encoding.
        encoding: u8,
    },
    /// Relocations that are not sorted by offset, or not within any record.
    #[error("offset {offset:#x}: relocation is out of order or outside of all records")]
    StrayReloc {
        /// The relocation's offset.
        offset: u64,
    },
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// A common information entry.
    Cie,
    /// A frame description entry.
    Fde {
        /// Where its CIE starts.
        cie: u64,
    },
    /// A length of zero. The unwinder stops here, if it walks without a table.
    Terminator,
}

/// One record of an `.eh_frame` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it starts (at its length field).
    pub offset: u64,
    /// Its size with the length field, in bytes.
    pub size: u64,
    /// Where the CIE id or CIE pointer is: 4 after the start, or 12 if the length
    /// is given in 64 bits. It is 4 bytes wide in both cases.
    pub id_offset: u64,
    /// What it is.
    pub kind: RecordKind,
    /// Indices of its relocations.
    pub relocs: Range<usize>,
}

/// Iterates over the records of `section`. There are `reloc_count` relocations,
/// sorted by offset; `reloc_offset` gives the offset of the n-th.
///
/// After an error the iteration ends. Bytes after a terminator are records again:
/// sections that are already the output of `ld -r` have terminators in the middle.
pub fn records<F: Fn(usize) -> u64>(
    section: &[u8],
    reloc_count: usize,
    reloc_offset: F,
) -> Records<'_, F> {
    Records {
        section,
        offset: 0,
        next_reloc: 0,
        reloc_count,
        reloc_offset,
    }
}

/// The iterator that [`records`] returns.
pub struct Records<'a, F> {
    section: &'a [u8],
    offset: usize,
    next_reloc: usize,
    reloc_count: usize,
    reloc_offset: F,
}

impl<F: Fn(usize) -> u64> Records<'_, F> {
    fn read(&mut self) -> Result<Record, EhFrameError> {
        let offset = self.offset;
        let truncated = EhFrameError::Truncated {
            offset: offset as u64,
        };
        let rest = &self.section[offset..];
        let length = u32::from_le_bytes(*rest.first_chunk().ok_or(truncated)?);
        let (header, length) = match length {
            u32::MAX => {
                let wide = rest
                    .get(4..)
                    .and_then(|rest| rest.first_chunk())
                    .ok_or(truncated)?;
                (12, u64::from_le_bytes(*wide))
            }
            length => (4, u64::from(length)),
        };
        let size = usize::try_from(length)
            .ok()
            .and_then(|length| length.checked_add(header))
            .filter(|size| *size <= rest.len())
            .ok_or(truncated)?;
        let relocs = self.take_relocs(offset as u64, (offset + size) as u64)?;
        let id_offset = (offset + header) as u64;
        let kind = if length == 0 {
            RecordKind::Terminator
        } else {
            let id = rest[..size]
                .get(header..)
                .and_then(|body| body.first_chunk())
                .ok_or(EhFrameError::FieldOutsideRecord { offset: id_offset })?;
            match u32::from_le_bytes(*id) {
                0 => RecordKind::Cie,
                // The distance back from the pointer itself.
                distance => RecordKind::Fde {
                    cie: id_offset.checked_sub(u64::from(distance)).ok_or(
                        EhFrameError::BadCiePointer {
                            offset: offset as u64,
                        },
                    )?,
                },
            }
        };
        self.offset += size;
        Ok(Record {
            offset: offset as u64,
            size: size as u64,
            id_offset,
            kind,
            relocs,
        })
    }

    /// The relocations in `start..end`, which must be the next ones.
    fn take_relocs(&mut self, start: u64, end: u64) -> Result<Range<usize>, EhFrameError> {
        let first = self.next_reloc;
        let mut low = start;
        while self.next_reloc < self.reloc_count {
            let at = (self.reloc_offset)(self.next_reloc);
            if at >= end {
                break;
            }
            if at < low {
                return Err(EhFrameError::StrayReloc { offset: at });
            }
            low = at;
            self.next_reloc += 1;
        }
        Ok(first..self.next_reloc)
    }
}

impl<F: Fn(usize) -> u64> Iterator for Records<'_, F> {
    type Item = Result<Record, EhFrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset == self.section.len() {
            if self.next_reloc == self.reloc_count {
                return None;
            }
            let offset = (self.reloc_offset)(self.next_reloc);
            self.next_reloc = self.reloc_count;
            return Some(Err(EhFrameError::StrayReloc { offset }));
        }
        let record = self.read();
        if record.is_err() {
            self.offset = self.section.len();
            self.next_reloc = self.reloc_count;
        }
        Some(record)
    }
}

/// How a pointer is written (`DW_EH_PE_*`, LSB core specification, section 10.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Encoding(pub u8);

impl Encoding {
    /// An absolute address, 8 bytes.
    pub const ABSPTR: Encoding = Encoding(0x00);
    /// No pointer at all.
    pub const OMIT: Encoding = Encoding(0xff);
    /// Relative to the place, 4 bytes signed.
    pub const PCREL_SDATA4: Encoding = Encoding(0x1b);
    /// Relative to the place, 8 bytes signed.
    pub const PCREL_SDATA8: Encoding = Encoding(0x1c);
    /// Relative to the start of `.eh_frame_hdr`, 4 bytes signed.
    pub const DATAREL_SDATA4: Encoding = Encoding(0x3b);
    /// A number, 4 bytes unsigned.
    pub const UDATA4: Encoding = Encoding(0x03);

    /// Width in bytes, or `None` for the LEB128 formats and unknown ones.
    pub fn size(self) -> Option<usize> {
        match self.0 & 0x0f {
            0x00 | 0x04 | 0x08 | 0x0c => Some(8),
            0x02 | 0x0a => Some(2),
            0x03 | 0x0b => Some(4),
            _ => None,
        }
    }

    /// Whether the format sign-extends.
    fn is_signed(self) -> bool {
        self.0 & 0x08 != 0
    }

    /// What the number is relative to.
    pub fn base(self) -> Base {
        match self.0 & 0x70 {
            0x00 => Base::Absolute,
            0x10 => Base::Place,
            0x20 => Base::Text,
            0x30 => Base::Data,
            0x40 => Base::Function,
            0x50 => Base::Aligned,
            _ => Base::Unknown,
        }
    }

    /// Reads the number at the start of `bytes`, extended to 64 bits. `None` if
    /// the bytes are too few or the format has no fixed width.
    pub fn read(self, bytes: &[u8]) -> Option<u64> {
        let size = self.size()?;
        let mut value = [0; 8];
        value[..size].copy_from_slice(bytes.get(..size)?);
        let value = u64::from_le_bytes(value);
        let shift = 64 - 8 * size as u32;
        Some(match self.is_signed() {
            true => (((value << shift) as i64) >> shift) as u64,
            false => value,
        })
    }
}

/// What an encoded pointer is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// Nothing.
    Absolute,
    /// The address of the pointer.
    Place,
    /// The text segment.
    Text,
    /// The start of `.eh_frame_hdr` (in it), else of the GOT.
    Data,
    /// The function.
    Function,
    /// Nothing; and the pointer is aligned to its size.
    Aligned,
    /// Not a defined base.
    Unknown,
}

/// Reads fields of one record in order.
struct Cursor<'a> {
    section: &'a [u8],
    offset: usize,
    end: usize,
}

impl<'a> Cursor<'a> {
    /// Starts after the CIE id or pointer of `record`, which must be of `section`.
    fn new(section: &'a [u8], record: &Record) -> Result<Self, EhFrameError> {
        let outside = EhFrameError::FieldOutsideRecord {
            offset: record.offset,
        };
        let end = record
            .offset
            .checked_add(record.size)
            .and_then(|end| usize::try_from(end).ok());
        let end = end.filter(|end| *end <= section.len()).ok_or(outside)?;
        let offset = record
            .id_offset
            .checked_add(4)
            .and_then(|offset| usize::try_from(offset).ok());
        let offset = offset.filter(|offset| *offset <= end).ok_or(outside)?;
        Ok(Cursor {
            section,
            offset,
            end,
        })
    }

    fn rest(&self) -> &'a [u8] {
        &self.section[self.offset..self.end]
    }

    fn outside(&self) -> EhFrameError {
        EhFrameError::FieldOutsideRecord {
            offset: self.offset as u64,
        }
    }

    fn skip(&mut self, count: usize) -> Result<&'a [u8], EhFrameError> {
        let bytes = self.rest().get(..count).ok_or(self.outside())?;
        self.offset += count;
        Ok(bytes)
    }

    fn byte(&mut self) -> Result<u8, EhFrameError> {
        Ok(self.skip(1)?[0])
    }

    /// An unsigned LEB128 number that must fit 64 bits.
    fn uleb(&mut self) -> Result<u64, EhFrameError> {
        let start = self.outside();
        let mut value = 0u64;
        for shift in (0..).step_by(7) {
            let byte = self.byte().map_err(|_| start)?;
            let bits = u64::from(byte & 0x7f);
            if shift >= 64 || (bits << shift) >> shift != bits {
                return Err(start);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok(value)
    }

    /// The size of a block, which ends what is read from here on.
    fn enter_block(&mut self) -> Result<u64, EhFrameError> {
        let length = self.uleb()?;
        let end = usize::try_from(length)
            .ok()
            .and_then(|n| self.offset.checked_add(n));
        self.end = end.filter(|end| *end <= self.end).ok_or(self.outside())?;
        Ok(length)
    }

    /// A LEB128 number that is not needed.
    fn skip_leb(&mut self) -> Result<(), EhFrameError> {
        while self.byte()? & 0x80 != 0 {}
        Ok(())
    }
}

/// What a CIE says about the FDEs that point to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cie {
    /// How the FDEs give the start of their code.
    pub fde_encoding: Encoding,
    /// How the FDEs point to their language-specific data (LSDA), if they do.
    pub lsda_encoding: Option<Encoding>,
    /// The personality routine.
    pub personality: Option<Personality>,
    /// FDEs have augmentation data, with its length before it.
    pub has_augmentation_data: bool,
    /// The frame is a signal handler's trampoline.
    pub is_signal_frame: bool,
}

/// Where a CIE points to its personality routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Personality {
    /// How.
    pub encoding: Encoding,
    /// Offset of the pointer in the section.
    pub offset: u64,
}

impl Cie {
    /// Parses a record of `section` that is a [`RecordKind::Cie`].
    ///
    /// # Errors
    /// If it is damaged, or if its augmentation does not let FDEs be parsed. The
    /// section then has to be kept as it is.
    pub fn parse(section: &[u8], record: &Record) -> Result<Cie, EhFrameError> {
        let mut cursor = Cursor::new(section, record)?;
        let version = cursor.byte()?;
        if !matches!(version, 1 | 3 | 4) {
            return Err(EhFrameError::UnknownVersion {
                offset: record.offset,
                version,
            });
        }
        let length = memchr::memchr(0, cursor.rest()).ok_or(cursor.outside())?;
        let augmentation = cursor.skip(length)?;
        cursor.byte()?;
        if version == 4 {
            // address_size and segment_selector_size
            if cursor.skip(2)? != [8, 0] {
                return Err(EhFrameError::UnknownVersion {
                    offset: record.offset,
                    version,
                });
            }
        }
        cursor.skip_leb()?; // code alignment factor
        cursor.skip_leb()?; // data alignment factor
        match version {
            1 => _ = cursor.byte()?, // return address register
            _ => cursor.skip_leb()?,
        }
        let mut cie = Cie {
            fde_encoding: Encoding::ABSPTR,
            lsda_encoding: None,
            personality: None,
            has_augmentation_data: false,
            is_signal_frame: false,
        };
        let letters = match augmentation {
            [] => return Ok(cie),
            [b'z', letters @ ..] => letters,
            _ => {
                return Err(EhFrameError::UnknownAugmentation {
                    offset: record.offset,
                });
            }
        };
        cie.has_augmentation_data = true;
        cursor.enter_block()?;
        for letter in letters {
            match letter {
                b'R' => cie.fde_encoding = Encoding(cursor.byte()?),
                b'L' => {
                    let encoding = Encoding(cursor.byte()?);
                    cie.lsda_encoding = (encoding != Encoding::OMIT).then_some(encoding);
                }
                b'P' => cie.personality = personality(&mut cursor, record)?,
                b'S' => cie.is_signal_frame = true,
                // Return addresses are signed with key B (AArch64): no data.
                b'B' => {}
                _ => {
                    return Err(EhFrameError::UnknownAugmentation {
                        offset: record.offset,
                    });
                }
            }
        }
        fixed_width(cie.fde_encoding, record)?;
        if let Some(encoding) = cie.lsda_encoding {
            fixed_width(encoding, record)?;
        }
        Ok(cie)
    }
}

/// The width of pointers in `encoding`, which must not depend on their value or
/// place.
fn fixed_width(encoding: Encoding, record: &Record) -> Result<usize, EhFrameError> {
    encoding
        .size()
        .filter(|_| !matches!(encoding.base(), Base::Aligned | Base::Unknown))
        .ok_or(EhFrameError::BadEncoding {
            offset: record.offset,
            encoding: encoding.0,
        })
}

/// Reads the encoding of a personality routine's address, and skips the address.
fn personality(
    cursor: &mut Cursor<'_>,
    record: &Record,
) -> Result<Option<Personality>, EhFrameError> {
    let encoding = Encoding(cursor.byte()?);
    if encoding == Encoding::OMIT {
        return Ok(None);
    }
    let size = fixed_width(encoding, record)?;
    let offset = cursor.offset as u64;
    cursor.skip(size)?;
    Ok(Some(Personality { encoding, offset }))
}

/// The places of an FDE's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fde {
    /// Offset in the section of the pointer to the code's start.
    pub pc_begin: u64,
    /// Width of the pointer and of the range, in bytes.
    pub pointer_size: u8,
    /// Size of the code in bytes, as the section's bytes say.
    pub pc_range: u64,
    /// Offset in the section of the pointer to the LSDA, if there is one.
    pub lsda: Option<u64>,
    /// Offset in the section of the instructions, which go on to the end of the record.
    pub instructions: u64,
}

impl Fde {
    /// Parses a record of `section` that is a [`RecordKind::Fde`] and belongs to `cie`.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn parse(section: &[u8], record: &Record, cie: &Cie) -> Result<Fde, EhFrameError> {
        let mut cursor = Cursor::new(section, record)?;
        let encoding = cie.fde_encoding;
        let size = fixed_width(encoding, record)?;
        let pc_begin = cursor.offset as u64;
        cursor.skip(size)?;
        // The range has the format only, and is never negative.
        let range = Encoding(encoding.0 & 0x07);
        let outside = cursor.outside();
        let pc_range = range.read(cursor.skip(size)?).ok_or(outside)?;
        let mut lsda = None;
        let mut instructions = cursor.offset as u64;
        if cie.has_augmentation_data {
            let length = cursor.enter_block()?;
            instructions = cursor.end as u64;
            if let Some(encoding) = cie.lsda_encoding.filter(|_| length != 0) {
                lsda = Some(cursor.offset as u64);
                cursor.skip(fixed_width(encoding, record)?)?;
            }
        }
        Ok(Fde {
            pc_begin,
            pointer_size: size as u8,
            pc_range,
            lsda,
            instructions,
        })
    }
}

/// A row of `.eh_frame_hdr`'s table: one FDE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableEntry {
    /// Address of the code's start.
    pub pc: u64,
    /// Address of the FDE.
    pub fde: u64,
}

/// The least bytes that [`fill`] fills.
pub const LEAST_FILL: u64 = 16;

/// Fills a range between records, of [`LEAST_FILL`] bytes or more, with a common information entry that nobody uses: whoever
/// walks from record to record would take zeros for the end.
pub fn fill(room: &mut [u8]) {
    room.fill(0);
    let head = fill_head(room.len() as u64);
    if let Some(start) = room.get_mut(..head.len()) {
        start.copy_from_slice(&head);
    }
}

/// What [`fill`] begins so many bytes with, which are zeros otherwise.
pub fn fill_head(size: u64) -> [u8; 13] {
    // Version 1, no augmentation, factors 1 and -8, and the return address is in register 16.
    let mut head = [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0x78, 16];
    let length = u32::try_from(size.saturating_sub(4)).unwrap_or(0);
    head[..4].copy_from_slice(&length.to_le_bytes());
    head
}

/// Size of an `.eh_frame_hdr` for `fde_count` FDEs, in bytes.
pub const fn hdr_size(fde_count: usize) -> usize {
    12 + 8 * fde_count
}

/// What [`write_hdr`] could do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HdrTable {
    /// The table is there, with this many entries.
    Written(usize),
    /// An address is more than 2 GiB away, so the header says that there is no
    /// table. Unwinders then walk `.eh_frame` from its start.
    Omitted,
}

/// Writes `.eh_frame_hdr` (LSB core specification, section 10.6.2) into `out`, which
/// has room for all `entries` ([`hdr_size`]). What is not needed becomes zero.
///
/// `entries` may be in any order and is sorted here. Of several FDEs for one address
/// the first in `.eh_frame` counts (functions that identical code folding merged
/// have FDEs that say the same).
///
/// # Panics
/// If `out` is smaller than `hdr_size(entries.len())`.
pub fn write_hdr(
    out: &mut [u8],
    hdr_address: u64,
    eh_frame_address: u64,
    entries: &mut Vec<TableEntry>,
) -> HdrTable {
    assert!(out.len() >= hdr_size(entries.len()));
    sort(entries);
    entries.dedup_by_key(|entry| entry.pc);
    out.fill(0);

    const VERSION: u8 = 1;
    let no_table = [Encoding::OMIT.0, Encoding::OMIT.0];
    let to_eh_frame = eh_frame_address.wrapping_sub(hdr_address.wrapping_add(4)) as i64;
    let Ok(to_eh_frame) = i32::try_from(to_eh_frame) else {
        let encodings = [VERSION, Encoding::PCREL_SDATA8.0, no_table[0], no_table[1]];
        out[..4].copy_from_slice(&encodings);
        out[4..12].copy_from_slice(&to_eh_frame.to_le_bytes());
        return HdrTable::Omitted;
    };
    out[4..8].copy_from_slice(&to_eh_frame.to_le_bytes());

    let relative = |address: u64| i32::try_from(address.wrapping_sub(hdr_address) as i64).ok();
    let table = entries
        .iter()
        .map(|entry| Some((relative(entry.pc)?, relative(entry.fde)?)));
    let (count, fits) = (
        u32::try_from(entries.len()),
        table.clone().all(|row| row.is_some()),
    );
    let (Ok(count), true) = (count, fits) else {
        let encodings = [VERSION, Encoding::PCREL_SDATA4.0, no_table[0], no_table[1]];
        out[..4].copy_from_slice(&encodings);
        return HdrTable::Omitted;
    };
    out[..4].copy_from_slice(&[
        VERSION,
        Encoding::PCREL_SDATA4.0,
        Encoding::UDATA4.0,
        Encoding::DATAREL_SDATA4.0,
    ]);
    out[8..12].copy_from_slice(&count.to_le_bytes());
    for (place, (pc, fde)) in out[12..].chunks_exact_mut(8).zip(table.flatten()) {
        place[..4].copy_from_slice(&pc.to_le_bytes());
        place[4..].copy_from_slice(&fde.to_le_bytes());
    }
    HdrTable::Written(count as usize)
}

/// Sorts by code address, then by FDE address: the result does not depend on the
/// number of threads.
fn sort(entries: &mut [TableEntry]) {
    use rayon::slice::ParallelSliceMut;
    // Often they come sorted already, from one pass over the output.
    if entries.is_sorted() {
        return;
    }
    const WORTH_THREADS: usize = 4096;
    if entries.len() < WORTH_THREADS {
        entries.sort_unstable();
    } else {
        entries.par_sort_unstable();
    }
}

#[cfg(test)]
#[path = "eh_frame_tests.rs"]
mod tests;
