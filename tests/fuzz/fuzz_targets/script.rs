//! Linker scripts: parsed, and every assignment's expression evaluated.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linker::script::expr::{Constant, SectionQuery};
use linker::script::{self, Command, Environment, EvalError, Loader, SectionsCommand, Value};

/// Includes nothing but the script itself, which must end.
struct Itself<'a>(&'a [u8]);

impl Loader for Itself<'_> {
    fn load(&mut self, name: &[u8]) -> Result<(String, Vec<u8>), String> {
        if name == b"self" {
            Ok(("self".into(), self.0.to_vec()))
        } else {
            Err("no such file".into())
        }
    }
}

struct World;

impl Environment for World {
    fn dot(&self) -> Option<Value> {
        Some(Value::Relative {
            section: 0,
            offset: 0x123,
        })
    }
    fn symbol(&self, name: &[u8]) -> Result<Value, EvalError> {
        match name.first() {
            Some(b'u') => Err(EvalError::UndefinedSymbol("u".into())),
            Some(b'r') => Ok(Value::Relative {
                section: 1,
                offset: 1 << 40,
            }),
            _ => Ok(Value::Absolute(name.len() as u64)),
        }
    }
    fn is_defined(&self, name: &[u8]) -> bool {
        name.first() != Some(&b'u')
    }
    fn section(&self, _: SectionQuery, _: &[u8]) -> Result<Value, EvalError> {
        Ok(Value::Relative {
            section: 1,
            offset: 0,
        })
    }
    fn section_address(&self, section: u32) -> Result<u64, EvalError> {
        Ok(u64::from(section) << 62)
    }
    fn region(&self, _: &[u8]) -> Option<(u64, u64)> {
        Some((u64::MAX, u64::MAX))
    }
    fn numbers_are_addresses(&self) -> bool {
        true
    }
    fn constant(&self, _: Constant) -> u64 {
        4096
    }
}

fuzz_target!(|data: &[u8]| {
    let Ok(script) = script::parse(data, "fuzz.ld", &mut Itself(data)) else {
        return;
    };
    for command in &script.commands {
        match command {
            Command::Assign(assignment) => drop(assignment.expr.resolve(&World)),
            Command::Assert(assertion) => drop(assertion.expr.resolve(&World)),
            Command::Sections(commands) => {
                for command in commands {
                    match command {
                        SectionsCommand::Assign(assignment) => {
                            drop(assignment.expr.resolve(&World))
                        }
                        SectionsCommand::Section(section) => {
                            for expr in [&section.address, &section.at, &section.align]
                                .into_iter()
                                .flatten()
                            {
                                let _ = expr.resolve(&World);
                            }
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
});
