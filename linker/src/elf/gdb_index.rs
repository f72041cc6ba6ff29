//! `.gdb_index`: a table of names and addresses with which gdb starts faster
//! (`--gdb-index`; "Index Section Format" in gdb's manual, version 7).
//!
//! The index is made from the finished debug sections of the output, with all
//! relocations applied, and before they are compressed: the addresses from the root
//! entries of the units in `.debug_info`, the names from the tables that compilers
//! write with `-ggnu-pubnames`. It is
//!
//! ```text
//! header │ compilation units │ type units │ address ranges │ hash table │ pool
//! ```
//!
//! The hash table's slots point into the pool, to a name and to the list of the units
//! that define it. Each element of such a list has the unit's number in the low 24
//! bits, and in the high 8 what kind of symbol it is.

use gimli::{
    AbbreviationsCacheStrategy, DebugTypesOffset, Dwarf, EndianSlice, LittleEndian, SectionId,
    UnitHeader, UnitType,
};
use rayon::prelude::*;
use rustc_hash::FxHashMap;

/// The debug sections of an output. Those that it does not have are empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct DebugSections<'a> {
    /// `.debug_info`
    pub info: &'a [u8],
    /// `.debug_types`
    pub types: &'a [u8],
    /// `.debug_abbrev`
    pub abbrev: &'a [u8],
    /// `.debug_addr`
    pub addr: &'a [u8],
    /// `.debug_ranges`
    pub ranges: &'a [u8],
    /// `.debug_rnglists`
    pub rnglists: &'a [u8],
    /// `.debug_str`
    pub str: &'a [u8],
    /// `.debug_str_offsets`
    pub str_offsets: &'a [u8],
    /// `.debug_line`: gimli reads the headers along with the units
    pub line: &'a [u8],
    /// `.debug_line_str`
    pub line_str: &'a [u8],
    /// `.debug_gnu_pubnames`
    pub gnu_pubnames: &'a [u8],
    /// `.debug_gnu_pubtypes`
    pub gnu_pubtypes: &'a [u8],
}

/// An index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GdbIndex {
    /// The section's bytes.
    pub bytes: Vec<u8>,
    /// Number of compilation units that have no table of names. gdb will not find
    /// their symbols by name: worth a warning that names `-ggnu-pubnames`.
    pub units_without_names: usize,
}

/// Why no index can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GdbIndexError {
    /// `.debug_info` or a section that it needs is damaged.
    #[error("{section} at offset {offset:#x}: {cause}")]
    Dwarf {
        /// Name of the section.
        section: &'static str,
        /// Offset of the unit.
        offset: u64,
        /// What gimli says.
        cause: gimli::Error,
    },
    /// A table of names is damaged.
    #[error("{section} at offset {offset:#x}: table of names extends past its end")]
    Names {
        /// Name of the section.
        section: &'static str,
        /// Where the table starts.
        offset: u64,
    },
    /// More than 2^24 units, or 4 GiB of index.
    #[error("debug information is too large for .gdb_index")]
    TooLarge,
}

type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// A compilation unit or a type unit.
struct Unit<'a> {
    header: UnitHeader<Reader<'a>>,
    section: &'static str,
    offset: u64,
    size: u64,
}

impl Unit<'_> {
    fn error(&self, cause: gimli::Error) -> GdbIndexError {
        GdbIndexError::Dwarf {
            section: self.section,
            offset: self.offset,
            cause,
        }
    }
}

/// One name of one unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Name<'a> {
    hash: u32,
    name: &'a [u8],
    /// Number of the unit, and kind of the symbol.
    unit: u32,
}

const VERSION: u32 = 7;
const HEADER_SIZE: usize = 24;
/// The unit's number in an element of a list of units.
const UNIT_MASK: u32 = 0x00ff_ffff;

/// Makes the index.
///
/// # Errors
/// If a section is damaged. The output is usable without the index.
pub fn build(sections: &DebugSections<'_>) -> Result<GdbIndex, GdbIndexError> {
    let mut dwarf = load(sections);
    let (units, types) = units(&dwarf)?;
    dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
    let ranges: Vec<_> = units
        .par_iter()
        .map(|unit| address_ranges(&dwarf, unit))
        .collect::<Result<_, _>>()?;

    // Names refer to units by offset. (Those of `.debug_types` have no names.)
    let mut numbers = FxHashMap::default();
    for (unit, number) in units.iter().chain(&types).zip(0u32..=UNIT_MASK) {
        if unit.section == ".debug_info" {
            numbers.insert(unit.offset, number);
        }
    }
    if units.len() + types.len() > UNIT_MASK as usize {
        return Err(GdbIndexError::TooLarge);
    }
    let mut is_named = vec![false; units.len() + types.len()];
    let mut names = vec![];
    for (section, bytes) in [
        (".debug_gnu_pubnames", sections.gnu_pubnames),
        (".debug_gnu_pubtypes", sections.gnu_pubtypes),
    ] {
        read_names(section, bytes, &numbers, &mut is_named, &mut names)?;
    }
    names.par_sort_unstable();
    names.dedup();

    let mut out = vec![0; HEADER_SIZE];
    let mut starts = [0; 5];
    starts[0] = out.len();
    for unit in &units {
        out.extend(unit.offset.to_le_bytes());
        out.extend(unit.size.to_le_bytes());
    }
    starts[1] = out.len();
    for unit in &types {
        out.extend(unit.offset.to_le_bytes());
        if let UnitType::Type {
            type_signature,
            type_offset,
        }
        | UnitType::SplitType {
            type_signature,
            type_offset,
        } = unit.header.type_()
        {
            out.extend((type_offset.0 as u64).to_le_bytes());
            out.extend(type_signature.0.to_le_bytes());
        }
    }
    starts[2] = out.len();
    for (ranges, unit) in ranges.iter().zip(0u32..) {
        for range in ranges {
            out.extend(range.begin.to_le_bytes());
            out.extend(range.end.to_le_bytes());
            out.extend(unit.to_le_bytes());
        }
    }
    starts[3] = out.len();
    let (slots, pool) = hash_table(&names)?;
    out.extend(
        slots
            .as_flattened()
            .iter()
            .flat_map(|word| word.to_le_bytes()),
    );
    starts[4] = out.len();
    out.extend(pool);

    let header = std::iter::once(Ok(VERSION)).chain(starts.map(u32::try_from));
    for (place, word) in out.chunks_exact_mut(4).zip(header) {
        let word = word.map_err(|_| GdbIndexError::TooLarge)?;
        place.copy_from_slice(&word.to_le_bytes());
    }
    let units_without_names = is_named[..units.len()]
        .iter()
        .filter(|named| !**named)
        .count();
    Ok(GdbIndex {
        bytes: out,
        units_without_names,
    })
}

fn load<'a>(sections: &DebugSections<'a>) -> Dwarf<Reader<'a>> {
    let bytes = |id: SectionId| match id {
        SectionId::DebugInfo => sections.info,
        SectionId::DebugTypes => sections.types,
        SectionId::DebugAbbrev => sections.abbrev,
        SectionId::DebugAddr => sections.addr,
        SectionId::DebugRanges => sections.ranges,
        SectionId::DebugRngLists => sections.rnglists,
        SectionId::DebugStr => sections.str,
        SectionId::DebugStrOffsets => sections.str_offsets,
        SectionId::DebugLine => sections.line,
        SectionId::DebugLineStr => sections.line_str,
        _ => &[],
    };
    let loaded = Dwarf::load(|id| {
        Ok::<_, std::convert::Infallible>(EndianSlice::new(bytes(id), LittleEndian))
    });
    match loaded {
        Ok(dwarf) => dwarf,
        Err(never) => match never {},
    }
}

/// Compilation units, and type units, in the order in which they are numbered.
fn units<'a>(dwarf: &Dwarf<Reader<'a>>) -> Result<(Vec<Unit<'a>>, Vec<Unit<'a>>), GdbIndexError> {
    let (mut units, mut types) = (vec![], vec![]);
    let mut end = 0;
    let section = ".debug_info";
    let mut headers = dwarf.units();
    let error = |section, offset, cause| GdbIndexError::Dwarf {
        section,
        offset,
        cause,
    };
    while let Some(header) = headers.next().map_err(|cause| error(section, end, cause))? {
        let size = header.length_including_self() as u64;
        let unit = Unit {
            header,
            section,
            offset: end,
            size,
        };
        end += size;
        match unit.header.type_() {
            UnitType::Type { .. } | UnitType::SplitType { .. } => types.push(unit),
            _ => units.push(unit),
        }
    }
    let section = ".debug_types";
    let mut end = 0;
    let mut headers = dwarf.type_units();
    while let Some(header) = headers.next().map_err(|cause| error(section, end, cause))? {
        let DebugTypesOffset(offset) = header
            .offset()
            .as_debug_types_offset()
            .unwrap_or(DebugTypesOffset(end as usize));
        let size = header.length_including_self() as u64;
        end = offset as u64 + size;
        types.push(Unit {
            header,
            section,
            offset: offset as u64,
            size,
        });
    }
    Ok((units, types))
}

/// The addresses that a unit's code has. Code that is not in the output has a
/// tombstone for an address: 0, 1, or the highest ones.
fn address_ranges(
    dwarf: &Dwarf<Reader<'_>>,
    unit: &Unit<'_>,
) -> Result<Vec<gimli::Range>, GdbIndexError> {
    let error = |cause| unit.error(cause);
    let parsed = dwarf.unit(unit.header).map_err(error)?;
    let mut found = dwarf.unit_ranges(&parsed).map_err(error)?;
    let mut ranges = vec![];
    while let Some(range) = found.next().map_err(error)? {
        if range.begin > 1 && range.begin < range.end {
            ranges.push(range);
        }
    }
    Ok(ranges)
}

/// Reads a sequence of tables of names. Each one belongs to a unit:
///
/// ```text
/// length │ u16 version = 2 │ offset of the unit │ length of the unit
/// (offset of the entry │ u8 kind │ name, zero-terminated)… │ offset 0
/// ```
///
/// Offsets are 4 bytes wide, or 8 if the length begins with 0xffff_ffff (DWARF 4,
/// section 7.4; the kind is GNU's addition).
fn read_names<'a>(
    section: &'static str,
    bytes: &'a [u8],
    numbers: &FxHashMap<u64, u32>,
    is_named: &mut [bool],
    names: &mut Vec<Name<'a>>,
) -> Result<(), GdbIndexError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let offset = (bytes.len() - rest.len()) as u64;
        let table = read_table(&mut rest, numbers);
        let (unit, entries) = table.ok_or(GdbIndexError::Names { section, offset })?;
        let Some(unit) = unit else { continue };
        if let Some(named) = is_named.get_mut(unit as usize) {
            *named = true;
        }
        for (kind, name) in entries {
            let unit = unit | u32::from(kind) << 24;
            names.push(Name {
                hash: hash(name),
                name,
                unit,
            });
        }
    }
    Ok(())
}

type Entries<'a> = Vec<(u8, &'a [u8])>;

/// Reads one table off the front of `rest`: number of its unit, and the names.
/// Tables of other versions, and of unknown units, have no number.
fn read_table<'a>(
    rest: &mut &'a [u8],
    numbers: &FxHashMap<u64, u32>,
) -> Option<(Option<u32>, Entries<'a>)> {
    let mut width = 4;
    let mut length = take_number(rest, 4)?;
    if length == u64::from(u32::MAX) {
        width = 8;
        length = take_number(rest, 8)?;
    }
    let (mut table, tail) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = tail;
    let version = take_number(&mut table, 2)?;
    let unit = take_number(&mut table, width)?;
    let _size = take_number(&mut table, width)?;
    let mut entries = vec![];
    if version != 2 {
        return Some((None, entries));
    }
    loop {
        // gcc gives 0 as the offset of types that have a unit of their own. So a zero is
        // the end only if no name follows.
        let entry = take_number(&mut table, width)?;
        if entry == 0 && table.iter().all(|byte| *byte == 0) {
            break;
        }
        let (kind, text) = table.split_first()?;
        let end = memchr::memchr(0, text)?;
        entries.push((*kind, &text[..end]));
        table = &text[end + 1..];
    }
    Some((numbers.get(&unit).copied(), entries))
}

/// Reads a little-endian number of `width` bytes, at most 8, off the front of `rest`.
fn take_number(rest: &mut &[u8], width: usize) -> Option<u64> {
    let (bytes, tail) = rest.split_at_checked(width)?;
    *rest = tail;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)),
    )
}

/// gdb's hash function; upper and lower case are the same to it.
fn hash(name: &[u8]) -> u32 {
    name.iter().fold(0u32, |hash, byte| {
        let byte = u32::from(byte.to_ascii_lowercase());
        hash.wrapping_mul(67).wrapping_add(byte).wrapping_sub(113)
    })
}

/// Makes the hash table, as pairs of offsets in the pool (of the name, and of the list
/// of units), and the pool. `names` are sorted.
fn hash_table(names: &[Name<'_>]) -> Result<(Vec<[u32; 2]>, Vec<u8>), GdbIndexError> {
    let groups: Vec<&[Name<'_>]> = names.chunk_by(|a, b| a.name == b.name).collect();
    let offset = |pool: &[u8]| u32::try_from(pool.len()).map_err(|_| GdbIndexError::TooLarge);

    // The lists come first, so that no name is at offset 0: a slot of zeros is empty.
    // Most names are defined in one unit, so lists are shared.
    let mut pool = vec![];
    let mut known: FxHashMap<Vec<u32>, u32> = FxHashMap::default();
    let mut lists = Vec::with_capacity(groups.len());
    for group in &groups {
        let list: Vec<u32> = group.iter().map(|name| name.unit).collect();
        let at = match known.get(&list) {
            Some(at) => *at,
            None => {
                let at = offset(&pool)?;
                pool.extend((list.len() as u32).to_le_bytes());
                pool.extend(list.iter().flat_map(|unit| unit.to_le_bytes()));
                known.insert(list, at);
                at
            }
        };
        lists.push(at);
    }

    // At most three quarters full.
    let slot_count = (groups.len() * 4 / 3 + 1).next_power_of_two().max(16);
    let mask = u32::try_from(slot_count - 1).map_err(|_| GdbIndexError::TooLarge)?;
    let mut slots = vec![[0; 2]; slot_count];
    for (group, list) in groups.iter().zip(lists) {
        let Name { hash, name, .. } = group[0];
        let step = (hash.wrapping_mul(17) & mask) | 1;
        let mut slot = hash & mask;
        while slots[slot as usize] != [0; 2] {
            slot = slot.wrapping_add(step) & mask;
        }
        slots[slot as usize] = [offset(&pool)?, list];
        pool.extend(name);
        pool.push(0);
    }
    offset(&pool)?;
    Ok((slots, pool))
}

#[cfg(test)]
#[path = "gdb_index_tests.rs"]
mod tests;
