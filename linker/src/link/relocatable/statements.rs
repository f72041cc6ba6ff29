//! What a linker script does inside the output sections of a relocatable output, beside collecting input sections: it
//! moves the location counter, defines symbols and puts in data, as the Linux kernel's `module.lds` does to mark where
//! its tables begin and end.
//!
//! An output section has no address yet, but offsets in it are final: whoever links the output moves it as a whole. So an
//! expression may be a number or an offset in the section that it stands in or that an earlier symbol is in. As with GNU
//! ld a section that was given no address counts as one that begins at 0 where a number is asked for (`ALIGN`, `&`).

use super::assign::{Inside, InsideSymbol};
use super::sections::{OutId, OutSection};
use crate::args::Args;
use crate::layout::scripting::{Step, page_size};
use crate::messages::diag::Diagnostics;
use crate::script::expr::{Constant, SectionQuery};
use crate::script::{Environment, EvalError, Value};
use std::collections::HashMap;

/// A symbol that a script defined in an output section.
#[derive(Clone, Copy, Debug)]
pub struct Marked {
    /// The symbol.
    pub symbol: InsideSymbol,
    /// Its section, or a number.
    pub value: Value,
}

/// What a step asks for.
#[derive(Debug)]
pub enum Effect {
    /// The location counter goes there.
    Move(u64),
    /// A symbol stands for this.
    Define(InsideSymbol, Value),
    /// Bytes.
    Put(Vec<u8>),
    /// Nothing.
    None,
}

/// The symbols that scripts define in output sections, and which of them were reached.
pub struct Statements<'l> {
    args: &'l Args,
    /// Those that count, by name: `PROVIDE` may have nothing to do.
    wanted: &'l Inside,
    values: HashMap<Vec<u8>, Value>,
}

impl<'l> Statements<'l> {
    /// Before the first.
    pub fn new(args: &'l Args, wanted: &'l Inside) -> Statements<'l> {
        Statements {
            args,
            wanted,
            values: HashMap::new(),
        }
    }

    /// What to do for a step at the end (`dot`) of a section, which has this number and address, of these sections; it may
    /// be the next that there will be.
    ///
    /// # Errors
    /// Why an expression has no value.
    pub fn effect(
        &mut self,
        step: &Step,
        sections: &[OutSection],
        (out, address): (OutId, u64),
        dot: u64,
    ) -> Result<Effect, EvalError> {
        let here = |offset| Value::Relative {
            section: out.0,
            offset,
        };
        let world = World {
            args: self.args,
            sections,
            values: &self.values,
            dot: Some(here(dot)),
            address,
            complete: false,
        };
        Ok(match step {
            Step::Rule(_) => Effect::None,
            Step::Move { expr, plain, .. } => match expr.eval(&world)? {
                Value::Absolute(number) if *plain => Effect::Move(number),
                Value::Relative { section, offset } if section == out.0 => Effect::Move(offset),
                other => Effect::Move(other.resolve(&world)?.wrapping_sub(address)),
            },
            Step::Define {
                name, expr, plain, ..
            } => {
                let Some(symbol) = self.wanted.get(*name) else {
                    return Ok(Effect::None);
                };
                let value = match expr.eval(&world)? {
                    // In a section's description a number is an offset in it.
                    Value::Absolute(number) if *plain => here(number),
                    value => value,
                };
                self.values.insert(name.to_vec(), value);
                Effect::Define(*symbol, value)
            }
            Step::Data { size, expr, .. } => match expr.eval(&world)? {
                Value::Absolute(number) => {
                    Effect::Put(number.to_le_bytes()[..usize::from(*size)].to_vec())
                }
                Value::Relative { .. } => {
                    return Err(EvalError::NotYet("an address, with -r,"));
                }
            },
            Step::Text(text) => Effect::Put(text.to_vec()),
        })
    }

    /// Evaluates the assertions, now that everything is there.
    pub fn check(
        &self,
        arrangement: &crate::layout::scripting::Arrangement,
        sections: &[OutSection],
        diag: &Diagnostics,
    ) {
        arrangement.check(
            |name| {
                let number = sections
                    .iter()
                    .position(|section| Some(section.name) == name);
                World {
                    args: self.args,
                    sections,
                    values: &self.values,
                    dot: number.map(|number| Value::Relative {
                        section: number as u32,
                        offset: sections[number].size,
                    }),
                    address: 0,
                    complete: true,
                }
            },
            diag,
        );
    }
}

/// What expressions can refer to.
struct World<'w, 'a> {
    args: &'w Args,
    sections: &'w [OutSection<'a>],
    values: &'w HashMap<Vec<u8>, Value>,
    dot: Option<Value>,
    /// Of a section that there is not yet.
    address: u64,
    /// The sections have their sizes.
    complete: bool,
}

impl Environment for World<'_, '_> {
    fn dot(&self) -> Option<Value> {
        self.dot
    }

    fn symbol(&self, name: &[u8]) -> Result<Value, EvalError> {
        let value = self.values.get(name).copied();
        value.ok_or(EvalError::NotYet(
            "a symbol that the script has not defined in an output section, with -r,",
        ))
    }

    fn is_defined(&self, name: &[u8]) -> bool {
        self.values.contains_key(name)
    }

    fn section(&self, query: SectionQuery, name: &[u8]) -> Result<Value, EvalError> {
        if !self.complete {
            return Err(EvalError::NotYet("what becomes of a section"));
        }
        let found = self
            .sections
            .iter()
            .position(|section| section.name == name);
        let Some(number) = found else {
            return match query {
                SectionQuery::Size => Ok(Value::Absolute(0)),
                _ => Err(EvalError::UndefinedSection(
                    String::from_utf8_lossy(name).into_owned(),
                )),
            };
        };
        let section = &self.sections[number];
        Ok(match query {
            SectionQuery::Address | SectionQuery::LoadAddress => Value::Relative {
                section: number as u32,
                offset: 0,
            },
            SectionQuery::Size => Value::Absolute(section.size),
            SectionQuery::Alignment => Value::Absolute(section.align),
        })
    }

    fn section_address(&self, section: u32) -> Result<u64, EvalError> {
        match self.dot {
            Some(Value::Relative { section: here, .. }) if here == section => {
                let known = self.sections.get(section as usize);
                Ok(known.map_or(self.address, |section| section.address))
            }
            // How far they are from each other nobody knows.
            _ => Err(EvalError::NotYet(
                "the address of another section, with -r,",
            )),
        }
    }

    fn region(&self, _name: &[u8]) -> Option<(u64, u64)> {
        None
    }

    fn numbers_are_addresses(&self) -> bool {
        false
    }

    fn constant(&self, constant: Constant) -> u64 {
        page_size(self.args, constant)
    }
}
