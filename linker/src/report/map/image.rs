//! What is where in an image: output sections with their addresses, what of each input is in them, and the symbols.

use super::{INTERNAL, Inputs, line};
use crate::base::ids::{OutputId, PartId, SectionId, SymbolId};
use crate::base::key::rank;
use crate::graph::eh_frame_records::FrameLayout;
use crate::layout::address_map::Places;
use crate::resolve::output_sections::{Std, subpart};
use std::io::{self, Write};

/// What the map shows.
pub struct Map<'l, 'a> {
    /// What was linked.
    pub inputs: Inputs<'l, 'a>,
    /// Where everything is.
    pub places: &'l Places<'l, 'a>,
    /// Where the frames of each file are.
    pub frames: &'l FrameLayout,
    /// Size and alignment of what the linker makes, by part.
    pub made: &'l [(u64, u64)],
}

/// A line of the map: a piece of an output section.
struct Entry {
    offset: u64,
    size: u64,
    name: String,
    file: String,
    /// Its size before equal pieces were united, if that is another.
    before: Option<u64>,
    symbols: Vec<(u64, SymbolId)>,
}

impl Map<'_, '_> {
    /// Writes the map, if one is wanted.
    pub fn report(&self) {
        self.inputs.report(|out| {
            self.sections(out)?;
            self.linker_symbols(out)
        });
    }

    fn sections(&self, out: &mut dyn Write) -> io::Result<()> {
        let outputs = self.places.outputs;
        let symbols = self.inputs.defined_symbols();
        let inputs = self.input_sections();
        let mut parts_of: Vec<Vec<usize>> = vec![Vec::new(); outputs.sections.len()];
        for (number, part) in outputs.parts.iter().enumerate() {
            parts_of[part.output.index()].push(number);
        }
        for id in &self.places.segments.sections {
            let section = &outputs.sections[id.index()];
            let name = String::from_utf8_lossy(&section.name);
            line(out, &name, section.address, section.size)?;
            writeln!(out)?;
            let parts = std::mem::take(&mut parts_of[id.index()]);
            let mut entries = self.entries(parts, &symbols, &inputs);
            if entries.is_empty() {
                // Its size became known late: it is wholly the linker's.
                entries.push(self.internal(*id, 0, section.size));
            }
            let mut at = 0;
            for entry in entries {
                if entry.offset > at {
                    line(out, " *fill*", section.address + at, entry.offset - at)?;
                    writeln!(out)?;
                }
                let start = section.address.wrapping_add(entry.offset);
                line(out, &format!(" {}", entry.name), start, entry.size)?;
                writeln!(out, " {}", entry.file)?;
                if let Some(before) = entry.before {
                    writeln!(out, "{:34} {before:>#10x} (size before relaxing)", "")?;
                }
                for (offset, symbol) in entry.symbols {
                    let name = self.inputs.diag.show_name(self.places.symbols.name(symbol));
                    writeln!(
                        out,
                        "{:16}{:#018x}{:16}{name}",
                        "",
                        start.wrapping_add(offset),
                        ""
                    )?;
                }
                at = entry.offset + entry.size;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    /// The input sections that are in the output, or of which pieces are, by part.
    fn input_sections(&self) -> Vec<(PartId, SectionId)> {
        use rayon::prelude::*;
        let sections = self.places.sections;
        let ids = (0u32..).map(SectionId).zip(&sections.part);
        let mut inputs: Vec<(PartId, SectionId)> = ids
            .filter(|(id, part)| **part != PartId::NONE && sections.is_alive(*id))
            .map(|(id, part)| (*part, id))
            .collect();
        inputs.par_sort_unstable();
        inputs
    }

    fn entries(
        &self,
        mut parts: Vec<usize>,
        symbols: &[(SectionId, u64, SymbolId)],
        inputs: &[(PartId, SectionId)],
    ) -> Vec<Entry> {
        let (outputs, placement) = (self.places.outputs, self.places.placement);
        let sections = self.places.sections;
        parts.retain(|part| placement.parts[*part].size > 0);
        parts.sort_by_key(|part| placement.parts[*part].offset);
        let mut entries = Vec::new();
        for part in parts {
            let id = PartId(part as u32);
            let (made, _) = self.made.get(part).copied().unwrap_or((0, 1));
            let own = inputs.partition_point(|(other, _)| *other < id)
                ..inputs.partition_point(|(other, _)| *other <= id);
            let own = &inputs[own];
            if outputs.parts[part].merge.is_some() {
                self.merged_entries(id, own, symbols, &mut entries);
            } else if made > 0 {
                self.made_entries(id, made, &mut entries);
            }
            let start = placement.chunks.partition_point(|chunk| chunk.part < id);
            for chunk in placement.chunks[start..]
                .iter()
                .take_while(|chunk| chunk.part == id)
            {
                let range = match chunk.only {
                    0 => sections.of_file(chunk.file),
                    only => {
                        let section = sections.id(chunk.file, only).0;
                        section..section + 1
                    }
                };
                let first = own.partition_point(|(_, section)| section.0 < range.start);
                let here = own[first..]
                    .iter()
                    .take_while(|(_, section)| section.0 < range.end);
                entries.extend(here.map(|(_, section)| {
                    self.section_entry(*section, placement.offset(*section), symbols)
                }));
            }
        }
        entries
    }

    fn section_entry(
        &self,
        id: SectionId,
        offset: u64,
        symbols: &[(SectionId, u64, SymbolId)],
    ) -> Entry {
        let input = self.places.sections.at(self.places.files, id);
        let jump = (self.places.folds).jump_size(id, input.object, input.number);
        let start = symbols.partition_point(|(section, _, _)| *section < id);
        let own = symbols[start..]
            .iter()
            .take_while(|(section, _, _)| *section == id);
        Entry {
            offset,
            size: jump.unwrap_or(input.header().map_or(0, |section| section.size)),
            name: String::from_utf8_lossy(&input.full_name()).into_owned(),
            file: self.places.files.get(input.file).to_string(),
            before: None,
            symbols: own.map(|(_, offset, symbol)| (*offset, *symbol)).collect(),
        }
    }

    /// The first section of those whose pieces were united stands for all bytes, the others for none, as in GNU ld's maps.
    fn merged_entries(
        &self,
        part: PartId,
        own: &[(PartId, SectionId)],
        symbols: &[(SectionId, u64, SymbolId)],
        entries: &mut Vec<Entry>,
    ) {
        let extent = self.places.placement.parts[part.index()];
        let mut rest = extent.size;
        for (_, id) in own {
            let mut entry = self.section_entry(*id, extent.offset, &[]);
            let size = std::mem::take(&mut rest);
            if entry.size != size {
                entry.before = Some(entry.size);
            }
            entry.size = size;
            // Where a piece went is known to `in_section` alone.
            let base = self.places.part(part);
            let first = symbols.partition_point(|(section, _, _)| section < id);
            for (_, value, symbol) in symbols[first..]
                .iter()
                .take_while(|(section, _, _)| section == id)
            {
                if let Some(address) = self.places.in_section(*id, *value) {
                    entry.symbols.push((address.wrapping_sub(base), *symbol));
                }
            }
            if size == 0 {
                entry.offset = extent.offset + extent.size;
                for (offset, _) in &mut entry.symbols {
                    *offset = offset.wrapping_sub(extent.size);
                }
            }
            entries.push(entry);
        }
        if rest > 0 {
            let output = self.places.outputs.parts[part.index()].output;
            entries.push(self.internal(output, extent.offset, rest));
        }
    }

    fn internal(&self, output: OutputId, offset: u64, size: u64) -> Entry {
        Entry {
            offset,
            size,
            name: String::from_utf8_lossy(&self.places.outputs.sections[output.index()].name)
                .into_owned(),
            file: INTERNAL.to_owned(),
            before: None,
            symbols: Vec::new(),
        }
    }

    /// What the linker puts at the start of a part.
    fn made_entries(&self, part: PartId, size: u64, entries: &mut Vec<Entry>) {
        let places = self.places;
        let offset = places.placement.parts[part.index()].offset;
        let output = places.outputs.parts[part.index()].output;
        let holds_commons = part == subpart::COMMON
            || part == subpart::COMMON_TLS
            || places.outputs.parts[part.index()].commons.is_some();
        if holds_commons {
            let definitions = places.definitions;
            let mut own: Vec<Entry> = (places.commons.linked.iter())
                .filter(|common| definitions.common_part(common.symbol, common.tls) == part)
                .map(|common| Entry {
                    offset: offset + places.commons.offset(common.symbol),
                    size: common.size,
                    name: "COMMON".to_owned(),
                    file: places.files.get(common.file).to_string(),
                    before: None,
                    symbols: vec![(0, common.symbol)],
                })
                .collect();
            own.sort_by_key(|entry| entry.offset);
            entries.extend(own);
        } else if part == Std::EhFrame.part() {
            // The CIEs of all files come first, then each file's FDEs.
            let offsets = &self.frames.file_offsets;
            let first = offsets.first().copied().unwrap_or(size);
            if first > 0 {
                entries.push(self.internal(output, offset, first));
            }
            for (index, start) in offsets.iter().enumerate() {
                let end = offsets.get(index + 1).copied().unwrap_or(size);
                if end > *start {
                    let mut entry = self.internal(output, offset + start, end - start);
                    entry.file = places.files.0[index].to_string();
                    entries.push(entry);
                }
            }
        } else {
            let mut entry = self.internal(output, offset, size);
            let copies = match part {
                subpart::COPIES => Some(false),
                subpart::RELRO_COPIES => Some(true),
                _ => None,
            };
            if let Some(read_only) = copies {
                entry.name = ".dynbss".to_owned();
                let own = places
                    .got
                    .copies
                    .iter()
                    .filter(|copied| copied.read_only == read_only);
                entry.symbols = own.map(|copied| (copied.offset, copied.symbol)).collect();
            }
            entries.push(entry);
        }
    }

    /// `_end` and its like, as the assignments of a script.
    fn linker_symbols(&self, out: &mut dyn Write) -> io::Result<()> {
        use rayon::prelude::*;
        let places = self.places;
        let mut own: Vec<(u64, &[u8])> = places
            .symbols
            .ids()
            .filter(|id| places.symbols.key(*id).rank() == rank::LINKER)
            .map(|id| (places.definition(id), places.symbols.name(id)))
            .collect();
        own.sort_unstable();
        for (address, name) in own {
            let name = self.inputs.diag.show_name(name);
            writeln!(out, "{:16}{address:#018x}{:16}{name} = .", "", "")?;
        }
        Ok(())
    }
}
