//! Mergeable sections cut into pieces (gABI, `SHF_MERGE` and `SHF_STRINGS`).
//!
//! Which sections are cut is decided by looking at the section, at the
//! symbols in it, and at every reference to it: one that names no place inside a
//! piece, or that wants more than an address (a GOT entry), keeps its section
//! whole. Sections without references (`.comment`) stay whole too.

use super::input::Input;
use super::names;
use super::relocs;
use object::LittleEndian as LE;
use object::elf::{self, Rela64};
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher as _;

/// A section that is cut.
pub struct MergeSection {
    /// Where each piece begins; for constants (no `SHF_STRINGS`) empty: they are
    /// at the multiples of the element size.
    starts: Vec<u32>,
    /// The hash of each string.
    hashes: Vec<u64>,
    /// For each stretch of 1 << [`STRETCH`] bytes the string that its first byte is in.
    strings: Vec<u32>,
    entsize: u32,
    size: u32,
}

/// See [`MergeSection::strings`]: each reference to a string of debug information looks for it.
const STRETCH: u32 = 5;

impl MergeSection {
    /// Index and bounds of the piece that contains `offset`.
    pub fn piece_at(&self, offset: u64) -> Option<(u32, std::ops::Range<u32>)> {
        let offset = u32::try_from(offset).ok().filter(|at| *at < self.size)?;
        if self.starts.is_empty() {
            let index = offset / self.entsize;
            let start = index * self.entsize;
            return Some((index, start..start + self.entsize));
        }
        let mut index = self.strings[(offset >> STRETCH) as usize] as usize;
        loop {
            let end = self.starts.get(index + 1).copied().unwrap_or(self.size);
            if offset < end {
                return Some((index as u32, self.starts[index]..end));
            }
            index += 1;
        }
    }

    /// The hash of the bytes of piece `index`, which are `bytes`.
    pub fn hash_of(&self, index: u32, bytes: &[u8]) -> u64 {
        match self.hashes.get(index as usize) {
            Some(hash) => *hash,
            None => FxBuildHasher.hash_one(bytes),
        }
    }

    /// How many pieces there are.
    pub fn piece_count(&self) -> usize {
        if self.starts.is_empty() {
            (self.size / self.entsize) as usize
        } else {
            self.starts.len()
        }
    }
}

/// The offset within a mergeable section that a relocation selects, and the
/// addend that remains: with a section symbol the addend selects, with any
/// other symbol its value does.
pub fn selected(input: &Input<'_>, relocation: &Rela64<LE>) -> (Option<u64>, i64) {
    let symbol = input.symbol(relocation.r_sym(LE, false));
    let addend = relocation.r_addend.get(LE);
    if symbol.kind() == elf::STT_SECTION {
        (symbol.value().checked_add_signed(addend), 0)
    } else {
        (Some(symbol.value()), addend)
    }
}

/// Decides for every section whether it is cut.
pub fn cut(input: &Input<'_>) -> Vec<Option<MergeSection>> {
    let mut cut: Vec<Option<MergeSection>> = input
        .section_numbers()
        .map(|section| candidate(input, section))
        .collect();
    if cut.iter().all(Option::is_none) {
        return cut;
    }
    for symbol in input.object.symbols.iter().skip(1) {
        if let Some(section) = symbol.section() {
            let slot = &mut cut[section as usize];
            let beyond = |section: &MergeSection| symbol.value() > u64::from(section.size);
            if !symbol.is_local() || slot.as_ref().is_some_and(beyond) {
                *slot = None;
            }
        }
    }
    let mut referenced = vec![false; cut.len()];
    let places = input.section_numbers().flat_map(|from| {
        let table = input.relocations[from as usize];
        table.iter().map(move |relocation| (from, relocation))
    });
    for (from, relocation) in places {
        let symbol = relocation.r_sym(LE, false);
        if symbol == 0 {
            continue;
        }
        let Some(section) = input.section_of(symbol) else {
            continue;
        };
        let slot = &mut cut[section as usize];
        let Some(merge) = slot else { continue };
        let (offset, _) = selected(input, relocation);
        let inside = offset.is_some_and(|offset| offset < u64::from(merge.size));
        if inside && relocs::is_linear(relocation.r_type(LE, false)) {
            // That debug information mentions a constant must not change what the
            // program's own sections become.
            referenced[section as usize] |= is_alloc(input, from) || !is_alloc(input, section);
        } else {
            *slot = None;
        }
    }
    for (slot, referenced) in cut.iter_mut().zip(referenced) {
        if !referenced {
            *slot = None;
        }
    }
    cut
}

fn is_alloc(input: &Input<'_>, section: u32) -> bool {
    input.section(section).flags() & u64::from(elf::SHF_ALLOC) != 0
}

fn candidate(input: &Input<'_>, number: u32) -> Option<MergeSection> {
    const WANTED: u64 = elf::SHF_MERGE as u64;
    const ALLOWED: u64 = WANTED
        | (elf::SHF_STRINGS | elf::SHF_ALLOC | elf::SHF_GROUP | elf::SHF_COMPRESSED) as u64
        | SHF_X86_64_LARGE;
    let section = input.section(number);
    let flags = section.flags();
    let index = number as usize;
    if flags & WANTED == 0
        || flags & !ALLOWED != 0
        || section.sh_type() != elf::SHT_PROGBITS
        || section.link() != 0
        || !input.relocations[index].is_empty()
        || names::is_c_identifier(section.name)
    {
        return None;
    }
    let data = input.data[index];
    // What a piece's record has room for.
    let entsize = u32::from(u16::try_from(section.header.sh_entsize.get(LE)).ok()?);
    let size = u32::try_from(data.len()).ok()?;
    if entsize == 0 || size == 0 || size % entsize != 0 {
        return None;
    }
    let (mut starts, mut hashes, mut strings) = (Vec::new(), Vec::new(), Vec::new());
    if flags & u64::from(elf::SHF_STRINGS) != 0 {
        let unit = entsize as usize;
        strings.reserve(data.len() >> STRETCH);
        let mut start = 0;
        while start < data.len() {
            let end = if unit == 1 {
                start + memchr::memchr(0, &data[start..])? + 1
            } else {
                let elements = data[start..].chunks_exact(unit);
                let zero = elements
                    .into_iter()
                    .position(|element| element.iter().all(|byte| *byte == 0))?;
                start + (zero + 1) * unit
            };
            while strings.len() << STRETCH < end {
                strings.push(starts.len() as u32);
            }
            starts.push(start as u32);
            // Now that the bytes are at hand. They are referred to in another order.
            hashes.push(FxBuildHasher.hash_one(&data[start..end]));
            start = end;
        }
    }
    Some(MergeSection {
        starts,
        hashes,
        strings,
        entsize,
        size,
    })
}

const SHF_X86_64_LARGE: u64 = 0x1000_0000;
