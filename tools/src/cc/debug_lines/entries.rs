//! Lines in debugging information entries: of declarations and calls.
//!
//! An entry that repeats another (a definition of what was declared before) says file and line only where they differ from the other's. That they differ, or are
//! one, must be so after the moves, too. A number that needs more or fewer bytes now makes other entries of clang's ([`unit_writer`](super::unit_writer)); gcc's
//! must stay in the form that they have, also in the abbreviation if it would put them there (`is_implicit`).

use super::files::Files;
use super::object_file::DebugSections;
use super::producer::Producer;
use super::said::{OTHER_FORM, Said, UNKNOWN, width};
use super::unit_writer::{self, Written};
use super::{Change, Reason};
use gimli::{
    AttributeValue, DebugAbbrev, DebugInfo, EndianSlice, LittleEndian, Reader as _, UnitOffset,
    UnitType, constants as dw,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// The entries after the moves.
#[derive(Debug)]
pub(super) enum Moved {
    /// They stand where they did.
    InPlace {
        /// What is to be written over others in `.debug_info`.
        info: Vec<Change>,
        /// The same in `.debug_abbrev`.
        abbreviations: Vec<Change>,
    },
    /// They have other places.
    Anew(Written),
}

/// Where something was declared.
#[derive(Clone, Debug, Default)]
struct Declared {
    file: Option<u64>,
    line: Option<Said>,
    /// The entry that this one repeats.
    of: Option<UnitOffset>,
}

/// The lines that the entries of one abbreviation have, before and now.
#[derive(Debug, Default)]
struct OfAbbreviation {
    before: Vec<u64>,
    now: Vec<u64>,
}

/// The entries after the moves.
pub(super) fn moved(
    sections: &DebugSections,
    files: &Files<'_>,
    producer: Producer,
) -> Result<Moved, Reason> {
    let info = &sections.info.bytes;
    let abbreviations = &sections.abbreviations.bytes;
    let unknown = |_| UNKNOWN;
    let mut units = DebugInfo::new(info, LittleEndian).units();
    let unit = units.next().map_err(unknown)?.ok_or(UNKNOWN)?;
    let is_only_one = units.next().map_err(unknown)?.is_none();
    if !is_only_one || unit.type_() != UnitType::Compilation || unit.debug_abbrev_offset().0 != 0 {
        return Err("debug information of a kind in which lines are not moved");
    }
    let table = unit
        .abbreviations(&DebugAbbrev::new(abbreviations, LittleEndian))
        .map_err(unknown)?;
    let mut entries = unit.entries_raw(&table, None).map_err(unknown)?;
    let mut declared: FxHashMap<UnitOffset, Declared> = FxHashMap::default();
    let mut lines: Vec<(Said, u64)> = Vec::new();
    while !entries.is_empty() {
        let offset = entries.next_offset();
        let Some(abbreviation) = entries.read_abbreviation().map_err(unknown)? else {
            continue;
        };
        let mut here = Declared::default();
        let (mut call_file, mut call_line) = (None, None);
        for (number, attribute) in abbreviation.attributes().iter().enumerate() {
            let start = entries.next_offset().0;
            let value = entries.read_attribute(*attribute).map_err(unknown)?.value();
            let said = |value: &AttributeValue<EndianSlice<'_, LittleEndian>>| {
                Ok::<_, Reason>(Said {
                    number: value.udata_value().ok_or(UNKNOWN)?,
                    form: attribute.form(),
                    at: start..entries.next_offset().0,
                    by: (abbreviation.code(), number),
                })
            };
            let of_file = || match value {
                AttributeValue::FileIndex(file) => Ok(Some(file)),
                _ => Err(UNKNOWN),
            };
            match attribute.name() {
                dw::DW_AT_decl_file => here.file = of_file()?,
                dw::DW_AT_call_file => call_file = of_file()?,
                dw::DW_AT_decl_line => here.line = Some(said(&value)?),
                dw::DW_AT_call_line => call_line = Some(said(&value)?),
                dw::DW_AT_specification | dw::DW_AT_abstract_origin => match value {
                    AttributeValue::UnitRef(of) => here.of = Some(of),
                    _ => return Err(UNKNOWN),
                },
                _ => {}
            }
        }
        if let Some(said) = call_line {
            let now = files.line(call_file.ok_or(UNKNOWN)?, said.number)?;
            lines.push((said, now));
        }
        if here.file.is_some() || here.line.is_some() || here.of.is_some() {
            declared.insert(offset, here);
        }
    }
    for here in declared.values() {
        let before = place(here, &declared)?;
        if let Some(said) = &here.line {
            let (file, line) = before.ok_or(UNKNOWN)?;
            lines.push((said.clone(), files.line(file, line)?));
        }
        if here.file.is_some() || here.line.is_some() {
            still_differs(here, &declared, files)?;
        }
    }
    let has_other_widths = (lines.iter()).any(|(said, now)| width(said.number) != width(*now));
    if producer == Producer::Clang && has_other_widths {
        let written = unit_writer::write_anew(sections, &unit, &table, &lines)?;
        return Ok(Moved::Anew(written));
    }
    let mut writer = Writer::default();
    for (said, now) in &lines {
        writer.write(said, *now)?;
    }
    // Earlier versions have no such form.
    let has_implicit = producer == Producer::Gcc && unit.version() >= 5;
    writer.finish(abbreviations, has_implicit)
}

/// Most entries between one and the one that says its file or line.
const FARTHEST: usize = 8;

/// File and line of an entry, by itself or by what it repeats.
fn place(
    here: &Declared,
    declared: &FxHashMap<UnitOffset, Declared>,
) -> Result<Option<(u64, u64)>, Reason> {
    let (mut file, mut line) = (None, None);
    let mut it = Some(here);
    for _ in 0..FARTHEST {
        let Some(entry) = it else {
            return Ok(file.zip(line));
        };
        file = file.or(entry.file);
        line = line.or(entry.line.as_ref().map(|said| said.number));
        if file.is_some() && line.is_some() {
            return Ok(file.zip(line));
        }
        it = entry.of.and_then(|of| declared.get(&of));
    }
    Err(UNKNOWN)
}

/// An entry says its line if the one that it repeats has another one. That must be so after the moves if it was before.
fn still_differs(
    here: &Declared,
    declared: &FxHashMap<UnitOffset, Declared>,
    files: &Files<'_>,
) -> Result<(), Reason> {
    let other = here.of.and_then(|of| declared.get(&of));
    let Some(other) = other else {
        return Ok(());
    };
    let (Some(one), Some(other)) = (place(here, declared)?, place(other, declared)?) else {
        return Ok(());
    };
    let now = |(file, line)| files.line(file, line);
    let differed = one.1 != other.1;
    match (now(one)? != now(other)?) == differed {
        true => Ok(()),
        false => Err(OTHER_FORM),
    }
}

#[derive(Default)]
struct Writer {
    info: Vec<Change>,
    /// By code and number of the attribute.
    of_abbreviations: FxHashMap<(u64, usize), OfAbbreviation>,
    /// Those of which the abbreviation has the number.
    implicit: FxHashSet<(u64, usize)>,
}

/// Whether gcc puts a number into the abbreviation (`DW_FORM_implicit_const`), of which the entries have these numbers: if they are
/// one, and that takes fewer bytes there than in all of the entries.
fn is_implicit(numbers: &[u64]) -> bool {
    let first = numbers[0];
    let mut signed = Vec::new();
    let once = i64::try_from(first).ok();
    let once = once.and_then(|first| gimli::leb128::write::signed(&mut signed, first).ok());
    numbers.len() > 1
        && numbers.iter().all(|number| *number == first)
        && once.is_some_and(|once| width(first) * numbers.len() > once)
}

impl Writer {
    fn write(&mut self, said: &Said, now: u64) -> Result<(), Reason> {
        let all = self.of_abbreviations.entry(said.by).or_default();
        all.before.push(said.number);
        all.now.push(now);
        // Entries of other widths have other abbreviations.
        if width(now) != width(said.number) {
            return Err(OTHER_FORM);
        }
        if said.form == dw::DW_FORM_implicit_const {
            self.implicit.insert(said.by);
            return Ok(());
        }
        if now == said.number {
            return Ok(());
        }
        let bytes = match said.form {
            dw::DW_FORM_data1 | dw::DW_FORM_data2 | dw::DW_FORM_data4 | dw::DW_FORM_data8 => {
                now.to_le_bytes()[..said.at.len()].to_vec()
            }
            dw::DW_FORM_udata => {
                let mut bytes = Vec::new();
                gimli::leb128::write::unsigned(&mut bytes, now).map_err(|_| UNKNOWN)?;
                bytes
            }
            _ => return Err(UNKNOWN),
        };
        if bytes.len() != said.at.len() {
            return Err(OTHER_FORM);
        }
        self.info.push(Change {
            at: said.at.start,
            bytes,
        });
        Ok(())
    }

    fn finish(self, abbreviations: &[u8], has_implicit: bool) -> Result<Moved, Reason> {
        let mut in_abbreviations: FxHashMap<(u64, usize), u64> = FxHashMap::default();
        for (by, lines) in &self.of_abbreviations {
            let is = self.implicit.contains(by);
            let rule = |lines: &[u64]| has_implicit && is_implicit(lines);
            if rule(&lines.before) != is || rule(&lines.now) != is {
                return Err(OTHER_FORM);
            }
            if is && lines.now[0] != lines.before[0] {
                in_abbreviations.insert(*by, lines.now[0]);
            }
        }
        let abbreviations = match in_abbreviations.is_empty() {
            true => Vec::new(),
            false => implicit_numbers(abbreviations, &in_abbreviations)?,
        };
        Ok(Moved::InPlace {
            info: self.info,
            abbreviations,
        })
    }
}

/// The changes that give attributes, by the abbreviation's code and their number in it, other numbers in the table of abbreviations.
fn implicit_numbers(
    table: &[u8],
    numbers: &FxHashMap<(u64, usize), u64>,
) -> Result<Vec<Change>, Reason> {
    let mut rest = EndianSlice::new(table, LittleEndian);
    let mut changes = Vec::new();
    let unsigned = |rest: &mut EndianSlice<'_, LittleEndian>| {
        gimli::leb128::read::unsigned(rest).map_err(|_| UNKNOWN)
    };
    loop {
        let code = unsigned(&mut rest)?;
        if code == 0 {
            break;
        }
        unsigned(&mut rest)?;
        rest.skip(1).map_err(|_| UNKNOWN)?;
        for number in 0.. {
            let (name, form) = (unsigned(&mut rest)?, unsigned(&mut rest)?);
            if (name, form) == (0, 0) {
                break;
            }
            if form != u64::from(dw::DW_FORM_implicit_const.0) {
                continue;
            }
            let at = table.len() - rest.len();
            gimli::leb128::read::signed(&mut rest).map_err(|_| UNKNOWN)?;
            let Some(now) = numbers.get(&(code, number)) else {
                continue;
            };
            let mut bytes = Vec::new();
            let now = i64::try_from(*now).map_err(|_| UNKNOWN)?;
            gimli::leb128::write::signed(&mut bytes, now).map_err(|_| UNKNOWN)?;
            if at + bytes.len() != table.len() - rest.len() {
                return Err(OTHER_FORM);
            }
            changes.push(Change { at, bytes });
        }
    }
    match changes.len() == numbers.len() {
        true => Ok(changes),
        false => Err(UNKNOWN),
    }
}
