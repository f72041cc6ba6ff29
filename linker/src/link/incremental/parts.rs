//! The output's sections and their parts, in a link of a few files and in the state.

use super::capture;
use super::reason::Reason;
use super::state::{DAMAGED, NONE, OutputRecord, PartRecord, State, Table};
use crate::base::ids::PartId;
use crate::elf::{c, shf};
use crate::resolve::output_sections::{Outputs, STANDARD_COUNT};

/// The number that a part of this link has in the state.
pub(super) fn find_part(state: &State, outputs: &Outputs, part: PartId) -> Result<u32, Reason> {
    let parts: &[PartRecord] = state.table(Table::Parts);
    let sections: &[OutputRecord] = state.table(Table::Outputs);
    let own = &outputs.parts[part.index()];
    let output = &outputs.sections[own.output.index()];
    let wanted = capture::describe_part(own);
    let is_it = |record: &PartRecord| {
        let section = sections.get(record.output as usize);
        let is_standard = own.output.0 < STANDARD_COUNT;
        let same_output = section.is_some_and(|section| match is_standard {
            true => section.id == own.output.0,
            false => state.text(section.name, section.name_len) == &*output.name,
        });
        same_output
            && (record.order, record.merge, record.entsize, record.sort)
                == (wanted.order, wanted.merge, wanted.entsize, wanted.sort)
    };
    let mut found = (0..).zip(parts).filter(|(_, record)| is_it(record));
    match (found.next(), found.next()) {
        (Some((number, _)), None) => Ok(number),
        (Some((number, _)), Some(_)) if number == part.0 && number < STANDARD_COUNT => Ok(number),
        _ => {
            let name = String::from_utf8_lossy(&output.name);
            Err(format!("the output has no one section {name} of this kind").into())
        }
    }
}

/// Gives the output sections the addresses that they have. Gives, by part, its number in the state.
pub(super) fn take_addresses(state: &State, outputs: &mut Outputs) -> Result<Vec<u32>, Reason> {
    let sections: &[OutputRecord] = state.table(Table::Outputs);
    let parts: &[PartRecord] = state.table(Table::Parts);
    let mut numbers = vec![NONE; outputs.parts.len()];
    for (index, number) in numbers.iter_mut().enumerate() {
        let part = PartId(index as u32);
        // Parts that nothing of the files is in need not be there.
        let Ok(found) = find_part(state, outputs, part) else {
            continue;
        };
        *number = found;
        let record = parts
            .get(found as usize)
            .and_then(|part| sections.get(part.output as usize))
            .ok_or(DAMAGED)?;
        let output = outputs.parts[index].output;
        let section = &mut outputs.sections[output.index()];
        (section.sh_type, section.flags) = (record.sh_type, record.flags);
        (section.address, section.offset) = (record.address, record.offset);
        (section.size, section.header) = (record.size, record.header);
    }
    // Symbols of sections that are not there are in the section before, be it one that the files have nothing in.
    let stands = |section: &&OutputRecord| {
        let is_tbss = section.sh_type == c::SHT_NOBITS && section.flags & shf::TLS != 0;
        section.header != 0 && section.flags & shf::ALLOC != 0 && !is_tbss
    };
    let standing = sections.iter().filter(stands);
    let standing = standing.map(|section| (section.address, section.header));
    outputs.set_by_address(standing.collect());
    Ok(numbers)
}
