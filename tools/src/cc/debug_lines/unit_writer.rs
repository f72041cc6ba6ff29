//! Writing a unit's entries and abbreviations anew, where a line takes another number of bytes than before.
//!
//! A form says how many bytes a number has, and the forms are the abbreviation's: so the entry gets another abbreviation, all that are first used
//! behind it other codes, and what stands behind it other places. This follows LLVM: abbreviations are numbered in the order in which entries first use them; a number takes as
//! few of one, two, four or eight bytes as it needs; and an entry refers to another by its offset in the unit, in four bytes. Whether that is how the
//! object was made is seen by writing it with its own lines first: the bytes must be the same ones.
//!
//! Nothing else refers into entries but expressions, to base types; those stand right behind the unit's own entry, where nothing moves. Other tables
//! of names and places would have to be written as well; where there are any, that is an error.

use super::object_file::DebugSections;
use super::said::{OTHER_FORM, Said, UNKNOWN, width};
use super::{Kept, Reason};
use gimli::{
    Abbreviations, AttributeValue, EndianSlice, Format, LittleEndian, UnitHeader, UnitOffset,
    constants as dw,
};
use rustc_hash::FxHashMap;

type Unit<'s> = UnitHeader<EndianSlice<'s, LittleEndian>>;

const OTHER_REFERENCES: Reason = "debugging information entries that are referred to otherwise";

/// The sections, written anew.
#[derive(Debug)]
pub(super) struct Written {
    pub info: Vec<u8>,
    pub abbreviations: Vec<u8>,
    /// Where what is as it was has its place now in the first.
    pub kept: Vec<Kept>,
}

/// The entries with these numbers in place of others: what an attribute has said, and now says.
pub(super) fn write_anew(
    sections: &DebugSections,
    unit: &Unit<'_>,
    table: &Abbreviations,
    lines: &[(Said, u64)],
) -> Result<Written, Reason> {
    if sections.has_index_of_entries || unit.format() != Format::Dwarf32 {
        return Err(OTHER_REFERENCES);
    }
    let numbers = |now: bool| -> FxHashMap<usize, u64> {
        let number = |(said, other): &(Said, u64)| match now {
            true => (said.at.start, *other),
            false => (said.at.start, said.number),
        };
        lines.iter().map(number).collect()
    };
    let same = write(sections, unit, table, &numbers(false))?;
    let is_ours =
        same.info == sections.info.plain && same.abbreviations == sections.abbreviations.plain;
    match is_ours {
        true => write(sections, unit, table, &numbers(true)),
        false => Err(OTHER_FORM),
    }
}

/// An abbreviation: tag, whether there are children, and attributes with forms.
type Abbreviation = (u16, bool, Vec<(u16, u16, Option<i64>)>);

#[derive(Default)]
struct Writer {
    info: Vec<u8>,
    abbreviations: Vec<u8>,
    codes: FxHashMap<Abbreviation, u64>,
    kept: Vec<Kept>,
    /// Where entries are now.
    places: FxHashMap<UnitOffset, usize>,
    /// Where what refers to an entry stands, and which that is.
    references: Vec<(usize, UnitOffset)>,
}

/// Writes the unit; `lines`: by their places before, numbers of lines.
fn write(
    sections: &DebugSections,
    unit: &Unit<'_>,
    table: &Abbreviations,
    lines: &FxHashMap<usize, u64>,
) -> Result<Written, Reason> {
    // As it is in the file: what relocations make of it, they make of what is kept.
    let before = &sections.info.plain;
    let unknown = |_| UNKNOWN;
    let mut entries = unit.entries_raw(table, None).map_err(unknown)?;
    let mut writer = Writer::default();
    writer.keep(before, 0, entries.next_offset().0)?;
    // Base types stand first.
    let mut is_in_front = true;
    while !entries.is_empty() {
        let offset = entries.next_offset();
        let Some(abbreviation) = entries.read_abbreviation().map_err(unknown)? else {
            writer.info.push(0);
            continue;
        };
        let place = writer.info.len();
        writer.places.insert(offset, place);
        let tag = abbreviation.tag();
        is_in_front &= tag == dw::DW_TAG_compile_unit || tag == dw::DW_TAG_base_type;
        if is_in_front && place != offset.0 {
            return Err(OTHER_REFERENCES);
        }
        let mut forms = Vec::with_capacity(abbreviation.attributes().len());
        let mut values = Vec::with_capacity(forms.capacity());
        for attribute in abbreviation.attributes() {
            let start = entries.next_offset().0;
            let value = entries.read_attribute(*attribute).map_err(unknown)?;
            let end = entries.next_offset().0;
            let line = lines.get(&start).copied().filter(|_| end > start);
            let form = match line {
                Some(line) => form_of(line),
                None => attribute.form(),
            };
            forms.push((attribute.name().0, form.0, attribute.implicit_const_value()));
            values.push((start..end, line, form, value.raw_value()));
        }
        let code = writer.code((tag.0, abbreviation.has_children(), forms))?;
        gimli::leb128::write::unsigned(&mut writer.info, code).map_err(|_| UNKNOWN)?;
        for (range, line, form, value) in values {
            match (line, form, value) {
                (Some(line), ..) => {
                    let bytes = &line.to_le_bytes()[..width(line)];
                    writer.info.extend_from_slice(bytes);
                }
                (None, dw::DW_FORM_ref4, AttributeValue::UnitRef(to)) => {
                    writer.references.push((writer.info.len(), to));
                    writer.info.extend_from_slice(&[0; 4]);
                }
                (None, form, _) if is_reference(form) => return Err(OTHER_REFERENCES),
                _ => writer.keep(before, range.start, range.end)?,
            }
        }
    }
    writer.finish()
}

/// The form in which LLVM says a number.
fn form_of(number: u64) -> gimli::DwForm {
    match width(number) {
        1 => dw::DW_FORM_data1,
        2 => dw::DW_FORM_data2,
        4 => dw::DW_FORM_data4,
        _ => dw::DW_FORM_data8,
    }
}

/// Whether a form says where an entry is, in some other way than in four bytes.
fn is_reference(form: gimli::DwForm) -> bool {
    [
        dw::DW_FORM_ref1,
        dw::DW_FORM_ref2,
        dw::DW_FORM_ref4,
        dw::DW_FORM_ref8,
        dw::DW_FORM_ref_udata,
        dw::DW_FORM_ref_addr,
        dw::DW_FORM_indirect,
    ]
    .contains(&form)
}

impl Writer {
    /// Takes bytes as they were.
    fn keep(&mut self, before: &[u8], start: usize, end: usize) -> Result<(), Reason> {
        let bytes = before.get(start..end).ok_or(UNKNOWN)?;
        let now = self.info.len();
        self.info.extend_from_slice(bytes);
        match self.kept.last_mut() {
            Some(last) if last.before + last.size == start && last.now + last.size == now => {
                last.size += bytes.len();
            }
            _ if bytes.is_empty() => {}
            _ => self.kept.push(Kept {
                before: start,
                now,
                size: bytes.len(),
            }),
        }
        Ok(())
    }

    /// The code of an abbreviation, which is new in the table if nobody has used it before.
    fn code(&mut self, abbreviation: Abbreviation) -> Result<u64, Reason> {
        if let Some(code) = self.codes.get(&abbreviation) {
            return Ok(*code);
        }
        let code = self.codes.len() as u64 + 1;
        let (tag, has_children, attributes) = &abbreviation;
        let mut unsigned = |number: u64| {
            gimli::leb128::write::unsigned(&mut self.abbreviations, number).map_err(|_| UNKNOWN)
        };
        unsigned(code)?;
        unsigned(u64::from(*tag))?;
        // (A byte, as it is below 128.)
        unsigned(u64::from(*has_children))?;
        for (name, form, implicit) in attributes {
            for number in [*name, *form] {
                gimli::leb128::write::unsigned(&mut self.abbreviations, u64::from(number))
                    .map_err(|_| UNKNOWN)?;
            }
            if let Some(number) = implicit {
                gimli::leb128::write::signed(&mut self.abbreviations, *number)
                    .map_err(|_| UNKNOWN)?;
            }
        }
        self.abbreviations.extend_from_slice(&[0, 0]);
        self.codes.insert(abbreviation, code);
        Ok(code)
    }

    fn finish(mut self) -> Result<Written, Reason> {
        self.abbreviations.push(0);
        for (at, to) in &self.references {
            let place = self.places.get(to).ok_or(OTHER_REFERENCES)?;
            let place = u32::try_from(*place).map_err(|_| UNKNOWN)?;
            self.info[*at..*at + 4].copy_from_slice(&place.to_le_bytes());
        }
        let size = u32::try_from(self.info.len().saturating_sub(4)).map_err(|_| UNKNOWN)?;
        let place = self.info.get_mut(..4).ok_or(UNKNOWN)?;
        place.copy_from_slice(&size.to_le_bytes());
        Ok(Written {
            info: self.info,
            abbreviations: self.abbreviations,
            kept: self.kept,
        })
    }
}
