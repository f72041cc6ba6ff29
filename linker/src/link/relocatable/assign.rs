//! `--defsym` and assignments of scripts in a relocatable output.
//!
//! Nothing has an address yet, so what can be said is a number, or a place relative to a
//! symbol that stays where it is in its section.

use crate::base::ids::{FileId, SymbolId};
use crate::base::key::{Key, rank};
use crate::input::scripts::Scripts;
use crate::messages::diag::Diagnostics;
use crate::resolve::symbol_facts::Referred;
use crate::resolve::symbol_table::SymbolTable;
use crate::script::expr::BinaryOp;
use crate::script::{AssignOp, Command, Expr, Target};
use std::collections::HashMap;

/// What an assigned symbol stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assigned {
    /// A number.
    Number(u64),
    /// So many bytes behind a symbol.
    Symbol(SymbolId, u64),
}

/// The symbols that scripts define in output sections, by name.
pub type Inside = HashMap<Vec<u8>, InsideSymbol>;

/// A symbol that a script defines in an output section.
#[derive(Clone, Copy, Debug)]
pub struct InsideSymbol {
    /// The symbol.
    pub id: SymbolId,
    /// `HIDDEN`: it is local to the output, as with GNU ld.
    pub hidden: bool,
}

/// Defines the symbols that scripts define in output sections, whose values come with the layout: those that count, by
/// name. A `PROVIDE` does not if nothing refers to the symbol, or if an input defines it.
pub fn define_inside(scripts: &Scripts, symbols: &SymbolTable) -> Inside {
    let mut inside = Inside::new();
    scripts.for_assignments(&mut |assignment, is_inside| {
        let Target::Symbol(name) = &assignment.target else {
            return;
        };
        let Some(id) = symbols.find(name).filter(|_| is_inside) else {
            return;
        };
        let key = symbols.key(id);
        let referred = symbols.facts(id).has(Referred::BY_OBJECT);
        if assignment.provide && (!referred || key.in_object()) {
            return;
        }
        symbols.set_key(id, Key::new(rank::LINKER, FileId::LINKER, 0));
        let hidden = assignment.hidden;
        inside.insert(name.to_vec(), InsideSymbol { id, hidden });
    });
    inside
}

/// Defines the symbols that scripts assign outside of output sections, in order. What needs addresses is an error.
pub fn define(
    scripts: &Scripts,
    has_layout: bool,
    symbols: &SymbolTable,
    diag: &Diagnostics,
) -> Vec<(SymbolId, Assigned)> {
    let mut defined: Vec<(SymbolId, Assigned)> = Vec::new();
    for command in &scripts.script.commands {
        match command {
            Command::Assign(assignment) => {
                let place = scripts.script.place(assignment.pos);
                let name = match &assignment.target {
                    Target::Symbol(name) => name,
                    Target::Dot => continue,
                };
                let value = (assignment.op == AssignOp::Set && !assignment.provide)
                    .then(|| evaluate(symbols, &assignment.expr))
                    .flatten();
                let (Some(id), Some(value)) = (symbols.find(name), value) else {
                    diag.error(format!(
                        "{place}: {} cannot be assigned with -r: only a number, or a symbol plus or minus a number, is \
                         known before addresses are",
                        String::from_utf8_lossy(name)
                    ));
                    continue;
                };
                let key = Key::new(rank::LINKER, FileId::LINKER, defined.len() as u32);
                symbols.set_key(id, key);
                // The last assignment counts.
                defined.retain(|(known, _)| *known != id);
                defined.push((id, value));
            }
            // Without a layout there is nothing that it could be about.
            Command::Assert(_) if !has_layout => refuse("ASSERT without SECTIONS", diag),
            Command::Insert { .. } => refuse("INSERT", diag),
            Command::Memory(_) => refuse("MEMORY", diag),
            Command::Phdrs(_) => refuse("PHDRS", diag),
            _ => {}
        }
    }
    defined
}

fn refuse(command: &str, diag: &Diagnostics) {
    diag.error(format!(
        "{command} in a linker script is not supported with -r yet"
    ));
}

fn evaluate(symbols: &SymbolTable, expr: &Expr) -> Option<Assigned> {
    match expr {
        Expr::Number(number) => Some(Assigned::Number(*number)),
        Expr::Symbol(name) => Some(Assigned::Symbol(symbols.find(name)?, 0)),
        Expr::Binary(BinaryOp::Add, left, right) => {
            match (evaluate(symbols, left)?, evaluate(symbols, right)?) {
                (Assigned::Number(a), Assigned::Number(b)) => {
                    Some(Assigned::Number(a.wrapping_add(b)))
                }
                (Assigned::Symbol(id, a), Assigned::Number(b))
                | (Assigned::Number(b), Assigned::Symbol(id, a)) => {
                    Some(Assigned::Symbol(id, a.wrapping_add(b)))
                }
                (Assigned::Symbol(..), Assigned::Symbol(..)) => None,
            }
        }
        Expr::Binary(BinaryOp::Sub, left, right) => {
            match (evaluate(symbols, left)?, evaluate(symbols, right)?) {
                (Assigned::Number(a), Assigned::Number(b)) => {
                    Some(Assigned::Number(a.wrapping_sub(b)))
                }
                (Assigned::Symbol(id, a), Assigned::Number(b)) => {
                    Some(Assigned::Symbol(id, a.wrapping_sub(b)))
                }
                (_, Assigned::Symbol(..)) => None,
            }
        }
        _ => None,
    }
}
