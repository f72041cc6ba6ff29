//! What the expressions of a script stand for while it runs: symbols, sections, regions and the location counter, as the pass at hand has them.
//!
//! A symbol is what the script has assigned to it last, or what the inputs say. Of what has no address yet an expression says so, and the
//! next pass knows more.

use super::assignments::{Named, page_size, segment_start, undefined};
use super::evaluate::{DataSegment, Machine, align_up};
use crate::base::ids::{OutputId, PartId, SymbolId};
use crate::base::key::{Key, rank};
use crate::layout::address_map::section_offset;
use crate::resolve::linker_symbols::Meaning;
use crate::resolve::output_sections::{STANDARD_COUNT, Std};
use crate::resolve::symbol_facts::Bound;
use crate::script::expr::{Constant, SectionQuery};
use crate::script::{Environment, EvalError, Value};

impl Machine<'_, '_, '_, '_> {
    fn original(&self, id: SymbolId, key: Key) -> Result<Value, EvalError> {
        let located = &self.located;
        if key.rank() == rank::LINKER {
            return self.linker_symbol(id, key);
        }
        let value = located.definitions.value(id);
        match key.rank() {
            rank::STRONG | rank::WEAK | rank::COMMON => {
                match section_offset(located, &self.offset, &self.extents, id, key) {
                    Some((output, offset)) if output.0 >= STANDARD_COUNT => Ok(Value::Relative {
                        section: output.0,
                        offset,
                    }),
                    Some(_) => Err(EvalError::NotYet(
                        "a symbol of a section that has no address",
                    )),
                    None => Ok(Value::Absolute(value)),
                }
            }
            rank::SHARED => {
                // A variable of a shared object that lives here.
                let copy = located.got.copy_of(id);
                let (part, offset) = copy.ok_or_else(|| undefined(located.symbols.name(id)))?;
                Ok(self.in_part(part, offset))
            }
            _ => Err(undefined(located.symbols.name(id))),
        }
    }

    /// A place in a part.
    fn in_part(&self, part: PartId, offset: u64) -> Value {
        let output = self.located.outputs.parts[part.index()].output;
        Value::Relative {
            section: output.0,
            offset: self.extents[part.index()].offset.wrapping_add(offset),
        }
    }

    /// Whether the linker makes something in this part, and the script has a place for it.
    fn is_made(&self, part: PartId) -> bool {
        let output = self.located.outputs.parts[part.index()].output;
        output.0 >= STANDARD_COUNT && self.made.get(part.index()).is_some_and(|made| made.0 > 0)
    }

    /// A symbol of the linker's own.
    fn linker_symbol(&self, id: SymbolId, key: Key) -> Result<Value, EvalError> {
        let start = |output: OutputId| Value::Relative {
            section: output.0,
            offset: 0,
        };
        match self.linker_symbols.get(key.index() as usize) {
            // What the linker makes: where the script puts it.
            Some((_, Meaning::Start(output)))
                if output.0 < STANDARD_COUNT && self.is_made(PartId(output.0)) =>
            {
                Ok(self.in_part(PartId(output.0), 0))
            }
            Some((_, Meaning::GotBase)) => {
                let table = [Std::GotPlt, Std::Got].map(Std::part);
                match table.into_iter().find(|part| self.is_made(*part)) {
                    Some(part) => Ok(self.in_part(part, 0)),
                    None => Err(undefined(self.located.symbols.name(id))),
                }
            }
            Some((_, Meaning::Start(output))) if output.0 >= STANDARD_COUNT => Ok(start(*output)),
            Some((_, Meaning::Stop(output))) if output.0 >= STANDARD_COUNT => {
                let size = self.placed[(output.0 - STANDARD_COUNT) as usize].size;
                Ok(Value::Relative {
                    section: output.0,
                    offset: size,
                })
            }
            _ => Err(undefined(self.located.symbols.name(id))),
        }
    }

    /// The description of a name: the first that has something in it, else the first.
    fn find(&self, name: &[u8]) -> Option<usize> {
        let outputs = self.located.outputs;
        let named = |number: &usize| {
            *outputs.sections[self.plan.descriptions[*number].output.index()].name == *name
        };
        let mut all = (0..self.plan.descriptions.len()).filter(named);
        let first = all.next()?;
        if self.placed[first].size > 0 {
            return Some(first);
        }
        Some(
            all.find(|number| self.placed[*number].size > 0)
                .unwrap_or(first),
        )
    }
}

impl Environment for Machine<'_, '_, '_, '_> {
    fn dot(&self) -> Option<Value> {
        Some(match self.inside {
            None => Value::Absolute(self.dot),
            Some(inside) => Value::Relative {
                section: self.output_number(inside),
                offset: self.dot.wrapping_sub(self.placed[inside].address),
            },
        })
    }

    fn symbol(&self, name: &[u8]) -> Result<Value, EvalError> {
        match self.running.named(name) {
            Named::Value(value) => Ok(value),
            Named::Original(id, key) => self.original(id, key),
            Named::Unknown => Err(undefined(name)),
            Named::Other => {
                let symbols = self.located.symbols;
                let id = symbols.find(name).ok_or_else(|| undefined(name))?;
                self.original(id, symbols.key(id))
            }
        }
    }

    fn is_defined(&self, name: &[u8]) -> bool {
        self.running.is_assigned(name).unwrap_or_else(|| {
            let symbols = self.located.symbols;
            symbols.find(name).is_some_and(|id| {
                symbols.key(id).rank() <= rank::LINKER && !symbols.facts(id).has(Bound::UNDEFINED)
            })
        })
    }

    fn section(&self, query: SectionQuery, name: &[u8]) -> Result<Value, EvalError> {
        let Some(number) = self.find(name) else {
            return match query {
                SectionQuery::Size => Ok(Value::Absolute(0)),
                _ => Err(EvalError::UndefinedSection(
                    String::from_utf8_lossy(name).into_owned(),
                )),
            };
        };
        let placed = &self.placed[number];
        Ok(match query {
            SectionQuery::Address => Value::Relative {
                section: self.output_number(number),
                offset: 0,
            },
            SectionQuery::LoadAddress => Value::Absolute(placed.load_address),
            SectionQuery::Size => Value::Absolute(placed.size),
            SectionQuery::Alignment => Value::Absolute(placed.align),
        })
    }

    fn section_address(&self, section: u32) -> Result<u64, EvalError> {
        let number = (section as usize).checked_sub(STANDARD_COUNT as usize);
        let placed = number.and_then(|number| self.placed.get(number));
        placed
            .map(|placed| placed.address)
            .ok_or(EvalError::NotYet("the address of a section"))
    }

    fn region(&self, name: &[u8]) -> Option<(u64, u64)> {
        let region = self.regions.get(self.region_named(name)?);
        Some((region.origin, region.length))
    }

    fn numbers_are_addresses(&self) -> bool {
        self.inside.is_none() && !self.plan.sane
    }

    fn constant(&self, constant: Constant) -> u64 {
        page_size(self.args, constant)
    }

    fn segment_start(&self, segment: &[u8]) -> Option<u64> {
        segment_start(self.args, segment)
    }

    fn sizeof_headers(&self) -> Result<u64, EvalError> {
        self.counts_headers.set(true);
        Ok(self.headers)
    }

    fn data_segment_align(&self, dot: u64, max: u64, common: u64) -> u64 {
        let mut segment = self.data_segment.get();
        let aligned = align_up(dot, max);
        let mask = max.wrapping_sub(1);
        let value = match segment.forced {
            Some(forced) => forced,
            None if segment.compact && common < max => aligned
                .wrapping_add(dot.wrapping_add(common.wrapping_sub(1)) & max.wrapping_sub(common)),
            None => aligned.wrapping_add(dot & mask),
        };
        segment.base = Some(value);
        segment.common_page = common;
        self.data_segment.set(segment);
        value
    }

    fn data_segment_relro_end(&self, offset: u64, value: u64) -> u64 {
        let mut segment = self.data_segment.get();
        let page = segment.common_page.max(1);
        let mut end = value.wrapping_add(offset);
        let mut result = value;
        if segment.forced.is_some() && !end.is_multiple_of(page) {
            end = align_up(end, page);
            result = end.wrapping_sub(offset);
        }
        segment.relro_end = Some(end);
        segment.relro_offset = offset;
        self.data_segment.set(segment);
        result
    }

    fn data_segment_end(&self, value: u64) {
        let segment = self.data_segment.get();
        self.data_segment.set(DataSegment {
            end: Some(value),
            ..segment
        });
    }
}
