//! The source line of a place in an object, for messages: read from the object's own debugging information (DWARF 5,
//! section 6.2, "Line Number Information").
//!
//! In a relocatable object addresses are not known yet. So each section gets an address of its own that is far from all
//! others, the object's relocations are applied to copies of its debug sections with these addresses, and the line tables
//! are searched for the place. This is slow, and only done for what is reported. What cannot be read gives no line.

use crate::base::ids::FileId;
use crate::elf::x86_64::reloc::{R_X86_64_32, R_X86_64_32S, R_X86_64_64};
use crate::input::object::Object;
use crate::input::parts::Place;
use crate::resolve::input_sections::Sections;
use gimli::{EndianSlice, LittleEndian};
use object::read::elf::{ElfFile64, ElfSection64};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use std::borrow::Cow;

/// Distance of the addresses that sections get.
const APART: u64 = 1 << 40;
/// Larger debug sections are not read for the sake of a message.
const LARGEST: usize = 64 << 20;

type Reader<'r> = EndianSlice<'r, LittleEndian>;

/// Where in the source the instruction at an offset in a section comes from: `dir/main.c:12`.
pub fn find(
    object: &Object,
    sections: &Sections,
    file: FileId,
    number: u32,
    offset: u64,
) -> Option<String> {
    if let Some(joined) = object.materialize() {
        return find_in_joined(object, &joined.ok()?, number, offset);
    }
    let contents = |id: gimli::SectionId| -> Result<Cow<[u8]>, gimli::Error> {
        let found = (1..object.section_count()).find(|number| {
            let section = object.section(*number);
            section.is_some_and(|section| section.name == id.name().as_bytes())
        });
        Ok(found.map_or(Cow::Borrowed(&[]), |number| {
            relocated(object, sections, file, number)
        }))
    };
    find_line(gimli::DwarfSections::load(contents).ok()?, number, offset)
}

/// The line of a place by debug sections in which section `number` is at `number` times [`APART`].
fn find_line(
    loaded: gimli::DwarfSections<Cow<'_, [u8]>>,
    number: u32,
    offset: u64,
) -> Option<String> {
    let dwarf = loaded.borrow(|bytes| Reader::new(bytes, LittleEndian));
    // A symbol may say that it is anywhere, also in what would be the next section, or in one of a number that no section has.
    let inside = Some(offset).filter(|offset| *offset < APART)?;
    let address = u64::from(number).checked_mul(APART)?.checked_add(inside)?;
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let Ok(unit) = dwarf.unit(header) else {
            continue;
        };
        if let Some(line) = line_in(&dwarf, &unit, address) {
            return Some(line);
        }
    }
    None
}

/// The same for a place in a compilation. Its debug information is only whole in the object that it is joined to, in which
/// the place is as far behind the symbol before it as here.
fn find_in_joined(object: &Object, joined: &[u8], number: u32, offset: u64) -> Option<String> {
    let before = |index: &u32| {
        let symbol = object.symbol(*index);
        let is_before = symbol
            .is_some_and(|symbol| symbol.place == Place::Section(number) && symbol.value <= offset);
        is_before && !object.symbol_name(*index).is_empty()
    };
    let anchor = (1..object.symbol_count())
        .filter(before)
        .max_by_key(|index| object.symbol(*index).map(|symbol| symbol.value))?;
    let behind = offset - object.symbol(anchor)?.value;
    let file = ElfFile64::<object::Endianness>::parse(joined).ok()?;
    let mut named = file.symbols().filter(|symbol| {
        symbol.is_definition() && symbol.name_bytes() == Ok(object.symbol_name(anchor))
    });
    let symbol = named.next()?;
    // Of several local ones of this name nobody knows which.
    if named.next().is_some() {
        return None;
    }
    let number = u32::try_from(symbol.section_index()?.0).ok()?;
    let contents = |id: gimli::SectionId| -> Result<Cow<[u8]>, gimli::Error> {
        let section = file.section_by_name(id.name());
        let small = section.filter(|section| section.size() <= LARGEST as u64);
        Ok(small.map_or(Cow::Borrowed(&[]), |section| {
            relocated_joined(&file, &section)
        }))
    };
    let loaded = gimli::DwarfSections::load(contents).ok()?;
    find_line(loaded, number, symbol.address().checked_add(behind)?)
}

/// As [`relocated`], of a joined object.
fn relocated_joined<'f>(file: &ElfFile64<'f>, section: &ElfSection64<'f, '_>) -> Cow<'f, [u8]> {
    let mut bytes = section.uncompressed_data().unwrap_or_default();
    for (at, relocation) in section.relocations() {
        let object::RelocationTarget::Symbol(index) = relocation.target() else {
            continue;
        };
        let Ok(symbol) = file.symbol_by_index(index) else {
            continue;
        };
        let Some(target) = symbol.section_index() else {
            continue;
        };
        let is_loaded = file.section_by_index(target).is_ok_and(|section| {
            matches!(section.flags(), object::SectionFlags::Elf { sh_flags }
                if sh_flags & crate::elf::shf::ALLOC != 0)
        });
        let base = if is_loaded {
            target.0 as u64 * APART
        } else {
            0
        };
        let value = base
            .wrapping_add(symbol.address())
            .wrapping_add(relocation.addend() as u64);
        let object::RelocationFlags::Elf { r_type } = relocation.flags() else {
            continue;
        };
        let width = match r_type {
            R_X86_64_64 => 8,
            R_X86_64_32 | R_X86_64_32S => 4,
            _ => continue,
        };
        let field = usize::try_from(at)
            .ok()
            .and_then(|at| bytes.to_mut().get_mut(at..at.checked_add(width)?));
        if let Some(field) = field {
            field.copy_from_slice(&value.to_le_bytes()[..width]);
        }
    }
    bytes
}

/// The line of an address by one unit's table.
fn line_in(
    dwarf: &gimli::Dwarf<Reader>,
    unit: &gimli::Unit<Reader>,
    address: u64,
) -> Option<String> {
    let mut rows = unit.line_program.clone()?.rows();
    // The last row at or before the address, if the sequence goes on behind it.
    let mut best: Option<(u64, u64, u64)> = None;
    while let Ok(Some((_, row))) = rows.next_row() {
        if row.address() > address {
            if let Some((_, file, line)) = best {
                return name_of(dwarf, unit, file, line);
            }
        } else if row.end_sequence() {
            best = None;
        } else if address - row.address() < APART / 2 {
            let line = row.line().map_or(0, |line| line.get());
            best = Some((row.address(), row.file_index(), line));
        }
        if row.end_sequence() {
            best = None;
        }
    }
    None
}

/// `directory/file:line`, as the compiler was given it.
fn name_of(
    dwarf: &gimli::Dwarf<Reader>,
    unit: &gimli::Unit<Reader>,
    file: u64,
    line: u64,
) -> Option<String> {
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(file)?;
    let text = |value| {
        Some(
            dwarf
                .attr_string(unit, value)
                .ok()?
                .to_string_lossy()
                .into_owned(),
        )
    };
    let name = text(file.path_name())?;
    // The compilation directory says nothing to whoever called the compiler there.
    let directory = (file.directory_index() != 0)
        .then(|| file.directory(header).and_then(text))
        .flatten();
    let path = match directory {
        Some(directory) if !name.starts_with('/') => format!("{directory}/{name}"),
        _ => name,
    };
    (line != 0).then(|| format!("{path}:{line}"))
}

/// The bytes of a debug section, with relocations applied where that is simple.
fn relocated<'o>(
    object: &'o Object,
    sections: &Sections,
    file: FileId,
    number: u32,
) -> Cow<'o, [u8]> {
    let bytes = object.section_bytes(number);
    if bytes.len() > LARGEST {
        return Cow::Borrowed(&[]);
    }
    let relocations = sections
        .get(file, number)
        .map_or(0, |id| sections.relocations[id.index()]);
    if relocations == 0 {
        return Cow::Borrowed(bytes);
    }
    let mut bytes = bytes.to_vec();
    object.fixups(number, relocations).for_each(|fixup| {
        let Some((number, value)) = object.place_of(fixup.target) else {
            return;
        };
        // Offsets in debug sections are what they are.
        let base = match object.section(number) {
            Some(section) if section.flags & crate::elf::shf::ALLOC != 0 => {
                u64::from(number) * APART
            }
            _ => 0,
        };
        let value = base.wrapping_add(value).wrapping_add(fixup.addend as u64);
        let width = match fixup.r_type {
            R_X86_64_64 => 8,
            R_X86_64_32 | R_X86_64_32S => 4,
            _ => return,
        };
        let field = usize::try_from(fixup.offset)
            .ok()
            .and_then(|at| bytes.get_mut(at..at.checked_add(width)?));
        if let Some(field) = field {
            field.copy_from_slice(&value.to_le_bytes()[..width]);
        }
    });
    Cow::Owned(bytes)
}
