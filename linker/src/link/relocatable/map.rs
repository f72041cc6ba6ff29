//! What is where in a relocatable output: its sections, which have no addresses, what of each input is in them, and the symbols.

use super::frames::Frames;
use super::plan::Plan;
use super::sections::{OutId, PlacedCommon};
use crate::base::ids::{SectionId, SymbolId};
use crate::report::map::{INTERNAL, Inputs, line};
use crate::resolve::resolution::Common;
use std::io::{self, Write};

/// What the map shows.
pub struct Map<'l, 'a> {
    /// What was linked.
    pub inputs: Inputs<'l, 'a>,
    /// Where everything is.
    pub plan: &'l Plan<'a>,
    /// The lists of frames, of which some are gone.
    pub frames: &'l Frames,
}

impl Map<'_, '_> {
    /// Writes the map, if one is wanted.
    pub fn report(&self) {
        self.inputs.report(|out| self.sections(out));
    }

    fn sections(&self, out: &mut dyn Write) -> io::Result<()> {
        let symbols = self.inputs.defined_symbols();
        for (section, number) in self.plan.sections.iter().zip(0..) {
            let name = String::from_utf8_lossy(section.name);
            line(out, &name, 0, section.size)?;
            writeln!(out)?;
            let mut at = 0;
            for id in &section.inputs {
                let offset = self.plan.offset(*id);
                fill(out, at, offset)?;
                at = offset + self.input(out, *id, offset)?;
                let first = symbols.partition_point(|(other, _, _)| other < id);
                let own = symbols[first..].iter();
                for (_, value, symbol) in own.take_while(|(other, _, _)| other == id) {
                    self.symbol(out, offset.wrapping_add(*value), *symbol)?;
                }
            }
            let here = self
                .commons()
                .filter(|(_, placed)| placed.section == OutId(number));
            let mut here: Vec<_> = here.collect();
            here.sort_by_key(|(_, placed)| placed.offset);
            for (common, placed) in here {
                fill(out, at, placed.offset)?;
                at = placed.offset + common.size;
                line(out, " COMMON", placed.offset, common.size)?;
                writeln!(out, " {}", self.inputs.files.get(common.file))?;
                self.symbol(out, placed.offset, common.symbol)?;
            }
            let made = section.made.len() as u64;
            if made > 0 {
                fill(out, at, section.size.saturating_sub(made))?;
                line(out, &format!(" {name}"), section.size - made, made)?;
                writeln!(out, " {INTERNAL}")?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    /// The common blocks that have places.
    fn commons(&self) -> impl Iterator<Item = (&Common, &PlacedCommon)> {
        self.inputs
            .definitions
            .commons
            .iter()
            .zip(&self.plan.commons)
    }

    fn symbol(&self, out: &mut dyn Write, place: u64, symbol: SymbolId) -> io::Result<()> {
        let name = self.inputs.symbols.name(symbol);
        let name = self.inputs.diag.show_name(name);
        writeln!(out, "{:16}{place:#018x}{:16}{name}", "", "")
    }

    /// A section of a file; returns its size in the output.
    fn input(&self, out: &mut dyn Write, id: SectionId, offset: u64) -> io::Result<u64> {
        let input = self.inputs.sections.at(self.inputs.files, id);
        let Some(section) = input.header() else {
            return Ok(0);
        };
        let frames = self.frames.of(id);
        let size = frames.map_or(section.size, |frames| frames.size);
        let name = input.full_name();
        let name = String::from_utf8_lossy(&name);
        line(out, &format!(" {name}"), offset, size)?;
        writeln!(out, " {}", self.inputs.files.get(input.file))?;
        if size != section.size {
            writeln!(
                out,
                "{:34} {:>#10x} (size before relaxing)",
                "", section.size
            )?;
        }
        Ok(size)
    }
}

/// What lies between inputs.
fn fill(out: &mut dyn Write, from: u64, to: u64) -> io::Result<()> {
    if to > from {
        line(out, " *fill*", from, to - from)?;
        writeln!(out)?;
    }
    Ok(())
}
