//! The source line of a place in an object, for messages: read from the object's own debugging information (DWARF 5,
//! section 6.2, "Line Number Information").
//!
//! In a relocatable object addresses are not known yet. So each section gets an address of its own that is far from all
//! others, the object's relocations are applied to copies of its debug sections with these addresses, and the line tables
//! are searched for the place. This is slow, and only done for what is reported. What cannot be read gives no line.

use crate::arch::x86_64::reloc::{R_X86_64_32, R_X86_64_32S, R_X86_64_64};
use crate::ids::FileId;
use crate::object::{Object, Place, Target};
use crate::sections::Sections;
use gimli::{EndianSlice, LittleEndian};
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
    let Object::Elf(_) = object else {
        return None;
    };
    let contents = |id: gimli::SectionId| -> Result<Cow<[u8]>, gimli::Error> {
        let found = (1..object.section_count()).find(|number| {
            let section = object.section(*number);
            section.is_some_and(|section| section.name == id.name().as_bytes())
        });
        Ok(found.map_or(Cow::Borrowed(&[]), |number| {
            relocated(object, sections, file, number)
        }))
    };
    let loaded = gimli::DwarfSections::load(contents).ok()?;
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
        let (place, value) = match fixup.target {
            Target::Section(number) => (Place::Section(number), 0),
            Target::Symbol(index) => match object.symbol(index) {
                Some(symbol) => (symbol.place, symbol.value),
                None => return,
            },
            Target::Piece(_) => return,
        };
        let base = match place {
            // Offsets in debug sections are what they are.
            Place::Section(number) => match object.section(number) {
                Some(section) if section.flags & crate::output::shf::ALLOC != 0 => {
                    u64::from(number) * APART
                }
                _ => 0,
            },
            _ => return,
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
