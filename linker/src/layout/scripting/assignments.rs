//! Symbols that scripts and `--defsym` define.
//!
//! A *slot* is a symbol that some assignment defines. Which there are is decided before layout: a plain assignment takes
//! the symbol over, even from an object; `PROVIDE` defines it only if it is referred to and no object defines it. Values
//! come after layout, by going through all assignments in order. As an expression may use what is assigned only later,
//! this is repeated until no value changes.

use super::classify::{is_address, is_plain_number};
use crate::args::Args;
use crate::base::ids::{FileId, OutputId, SymbolId};
use crate::base::key::{Key, rank};
use crate::input::scripts::{Scripts, assigned_expr};
use crate::layout::address_map::{Assigned, Places};
use crate::messages::diag::Diagnostics;
use crate::resolve::linker_symbols::{LinkerSymbols, Meaning};
use crate::resolve::symbol_facts::{Defined, Referred};
use crate::resolve::symbol_table::SymbolTable;
use crate::script::expr::{Constant, SectionQuery};
use crate::script::{
    Assertion, AssignOp, Assignment, Command, Environment, EvalError, Expr, Pos, Target, Value,
};
use std::collections::{HashMap, HashSet};

/// A symbol that an assignment defines.
struct Slot {
    id: SymbolId,
    /// The `PROVIDE` that defines it; `None` for plain assignments.
    provider: Option<Pos>,
    /// What defined it otherwise.
    original: Key,
    /// The symbol that it is another name of: its type is that symbol's.
    alias: Option<SymbolId>,
}

/// The symbols that scripts define.
pub struct Assignments<'s> {
    scripts: &'s Scripts,
    slots: Vec<Slot>,
    by_name: HashMap<&'s [u8], usize>,
}

/// Before archives are searched: what a script assigns need not be looked for.
pub fn define_assigned(scripts: &Scripts, symbols: &SymbolTable) {
    scripts.for_assignments(&mut |assignment, _| {
        if let (Target::Symbol(name), false) = (&assignment.target, assignment.provide)
            && let Some(id) = symbols.find(name)
        {
            symbols.set_key(id, Key::new(0, FileId::LINKER, 0));
        }
    });
}

impl<'s> Assignments<'s> {
    /// Defines the symbols. Their meanings are added to `defined`. `looked_for` are symbols that the command line names:
    /// as good as references, for `PROVIDE`. `left_out` tells of assignments that do not count.
    pub fn define(
        scripts: &'s Scripts,
        symbols: &SymbolTable,
        looked_for: &[SymbolId],
        left_out: &dyn Fn(&Assignment) -> bool,
        defined: &mut LinkerSymbols,
    ) -> Assignments<'s> {
        let mut assignments = Assignments {
            scripts,
            slots: Vec::new(),
            by_name: HashMap::new(),
        };
        let mut all: Vec<(&'s Assignment, bool)> = Vec::new();
        scripts.for_assignments(&mut |assignment, inside| {
            if !left_out(assignment) {
                all.push((assignment, inside));
            }
        });
        // Plain ones first: they count as definitions for `PROVIDE`.
        for (assignment, _) in &all {
            if let (Target::Symbol(name), false) = (&assignment.target, assignment.provide)
                && let Some(id) = symbols.find(name)
            {
                assignments.add(name, id, None, symbols, defined);
                symbols.add(id, Referred::BY_OBJECT);
                if assignment.hidden {
                    symbols.add(id, Referred::HIDDEN);
                }
                refer_to_mentioned(assignment, symbols);
            }
        }
        scripts.for_mentions(&mut |name| {
            if let Some(id) = symbols.find(name) {
                symbols.add(id, Referred::BY_OBJECT);
            }
        });
        // What is provided may be referred to by what else is provided.
        let mut mentioned = HashSet::new();
        for (assignment, _) in &all {
            if assignments.is_active(assignment) {
                mention(assignment, &mut mentioned);
            }
        }
        loop {
            let before = assignments.slots.len();
            for (assignment, _) in all.iter().filter(|(assignment, _)| assignment.provide) {
                let Target::Symbol(name) = &assignment.target else {
                    continue;
                };
                let Some(id) = symbols.find(name) else {
                    continue;
                };
                let key = symbols.key(id);
                // A shared object that refers to the symbol will find it here; and one that defines it is overruled by
                // what the script says, as for `PROVIDE(etext = .)`.
                let referred = Referred::BY_OBJECT | Referred::BY_SHARED;
                let wanted = symbols.facts(id).has(referred)
                    || key.rank() == rank::SHARED
                    || looked_for.contains(&id)
                    || mentioned.contains(&name[..]);
                if !wanted || key.in_object() || key.rank() == rank::LINKER {
                    continue;
                }
                assignments.add(name, id, Some(assignment.pos), symbols, defined);
                mention(assignment, &mut mentioned);
                symbols.add(id, Referred::BY_OBJECT);
                if assignment.hidden {
                    symbols.add(id, Referred::HIDDEN);
                }
                refer_to_mentioned(assignment, symbols);
            }
            if assignments.slots.len() == before {
                break;
            }
        }
        assignments.settle_flags(&all, symbols);
        assignments
    }

    fn add(
        &mut self,
        name: &'s [u8],
        id: SymbolId,
        provider: Option<Pos>,
        symbols: &SymbolTable,
        defined: &mut LinkerSymbols,
    ) {
        if self.by_name.contains_key(name) {
            return;
        }
        let original = symbols.key(id);
        symbols.set_key(
            id,
            Key::new(rank::LINKER, FileId::LINKER, defined.len() as u32),
        );
        defined.push((id, Meaning::Assigned(self.slots.len() as u32)));
        self.by_name.insert(name, self.slots.len());
        self.slots.push(Slot {
            id,
            provider,
            original,
            alias: None,
        });
    }

    /// Whether the assignment defines something, as opposed to a `PROVIDE` of what is defined.
    pub(super) fn is_active(&self, assignment: &Assignment) -> bool {
        let Target::Symbol(name) = &assignment.target else {
            return true;
        };
        match self.slot(name) {
            Some(slot) if assignment.provide => self.slots[slot].provider == Some(assignment.pos),
            Some(_) => true,
            None => false,
        }
    }

    fn slot(&self, name: &[u8]) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Finds out which of the symbols are numbers, and which are other names of symbols in objects.
    fn settle_flags(&mut self, all: &[(&'s Assignment, bool)], symbols: &SymbolTable) {
        let mut last: Vec<Option<(&'s Assignment, bool)>> = vec![None; self.slots.len()];
        for (assignment, inside) in all {
            if let Target::Symbol(name) = &assignment.target
                && self.is_active(assignment)
                && let Some(slot) = self.slot(name)
            {
                last[slot] = Some((assignment, *inside));
            }
        }
        let addresses = self.addresses(&last, symbols);
        let aliases = follow(self.slots.len(), |slot| self.alias_of(slot, &last, symbols));
        for (number, alias) in aliases.into_iter().enumerate() {
            if last[number].is_none() {
                continue;
            }
            let slot = &mut self.slots[number];
            slot.alias = alias;
            symbols.take_back(slot.id, Defined::TLS | Defined::FUNCTION | Defined::IFUNC);
            if addresses[number] {
                symbols.take_back(slot.id, Defined::ABSOLUTE);
            } else {
                symbols.add(slot.id, Defined::ABSOLUTE);
            }
            // `alias = function;`: the type goes with the value.
            if let Some(id) = alias {
                let kinds = Defined::TLS | Defined::FUNCTION | Defined::IFUNC;
                symbols.add(slot.id, Defined::from(symbols.facts(id).among(kinds)));
            }
        }
    }

    /// What a slot is another name of.
    fn alias_of(
        &self,
        number: usize,
        last: &[Option<(&'s Assignment, bool)>],
        symbols: &SymbolTable,
    ) -> Alias<SymbolId> {
        let is_defined = |name: &[u8]| {
            let key = symbols.find(name).map(|id| symbols.key(id));
            key.is_some_and(|key| key.rank() <= rank::LINKER)
        };
        let name = last[number]
            .filter(|(assignment, _)| assignment.op == AssignOp::Set)
            .and_then(|(assignment, _)| same_symbol(&assignment.expr, &is_defined));
        let Some(name) = name else {
            return Alias::None;
        };
        match self.slot(name) {
            Some(slot) if slot != number => Alias::Slot(slot),
            // What an object defines is taken over: its symbol is no more.
            Some(_) => Alias::None,
            None => symbols.find(name).map_or(Alias::None, Alias::Of),
        }
    }

    /// Which slots hold addresses, given the assignment that each has its value from.
    ///
    /// As with the values themselves, an assignment may use what is assigned only later, so this is repeated until
    /// nothing changes. Symbols that are defined by each other have no value, which is reported when values are
    /// computed; here they only must not keep us for ever.
    fn addresses(
        &self,
        last: &[Option<(&'s Assignment, bool)>],
        symbols: &SymbolTable,
    ) -> Vec<bool> {
        let is_number = |id| symbols.facts(id).has(Defined::ABSOLUTE);
        let original: Vec<bool> = self.slots.iter().map(|slot| !is_number(slot.id)).collect();
        let mut addresses = original.clone();
        for _ in 0..MOST_PASSES {
            let mut changed = false;
            for (number, last) in last.iter().enumerate() {
                let Some((assignment, inside)) = *last else {
                    continue;
                };
                let mut of_symbol = |name: &[u8]| match self.slot(name) {
                    // In its own assignment a name means what it meant before.
                    Some(slot) if slot == number => original[slot],
                    Some(slot) => addresses[slot],
                    None => symbols.find(name).is_some_and(|id| !is_number(id)),
                };
                let found = is_address(&assignment.expr, &mut of_symbol)
                    || inside && is_plain_number(&assignment.expr);
                changed |= addresses[number] != found;
                addresses[number] = found;
            }
            if !changed {
                break;
            }
        }
        addresses
    }

    /// Symbols of objects that assignments use: they are linked, whoever else refers to them.
    pub fn roots(&self, symbols: &SymbolTable) -> Vec<SymbolId> {
        let mut roots = Vec::new();
        self.scripts.for_assignments(&mut |assignment, _| {
            if self.is_active(assignment) {
                assignment
                    .expr
                    .for_symbols(&mut |name| roots.extend(symbols.find(name)));
            }
        });
        roots
    }

    /// The values of all slots once the default layout is known. Reports what has none, and assertions that fail.
    pub fn values(&self, args: &Args, places: &Places, diag: &Diagnostics) -> Vec<Assigned> {
        if self.scripts.is_empty() {
            return Vec::new();
        }
        let mut world = AfterLayout {
            args,
            places,
            running: Running::new(self),
        };
        let mut last = Vec::new();
        for _ in 0..MOST_PASSES {
            world.running.start_pass();
            for command in &self.scripts.script.commands {
                if let Command::Assign(assignment) = command
                    && self.is_active(assignment)
                {
                    world.assign(assignment);
                }
            }
            let values: Vec<Option<Assigned>> = (0..self.slots.len())
                .map(|slot| world.running.settled(slot, &world))
                .collect();
            let settled = values == last;
            last = values;
            if settled {
                break;
            }
        }
        for command in &self.scripts.script.commands {
            if let Command::Assert(assertion) = command {
                check(self.scripts, assertion, &world, diag);
            }
        }
        for (pos, why) in &world.running.problems {
            diag.error(format!("{}: {why}", self.scripts.script.place(*pos)));
        }
        last.into_iter().map(Option::unwrap_or_default).collect()
    }
}

/// Adds the symbols that an assignment uses.
fn mention<'s>(assignment: &'s Assignment, mentioned: &mut HashSet<&'s [u8]>) {
    assignment.expr.for_symbols(&mut |name| {
        mentioned.insert(name);
    });
}

/// What a slot is another name of.
#[derive(Clone, Copy)]
enum Alias<T> {
    /// Nothing.
    None,
    /// What another slot is.
    Slot(usize),
    /// A symbol of an object.
    Of(T),
}

/// What each slot is another name of in the end, maybe by way of others; `None` for nothing, and for those that go round in
/// a circle. `next` is asked once for each: chains may be as long as there are slots.
fn follow<T: Copy>(count: usize, mut next: impl FnMut(usize) -> Alias<T>) -> Vec<Option<T>> {
    // Those on the way count as found already: who meets one goes round in a circle.
    let mut found: Vec<Option<Option<T>>> = vec![None; count];
    let mut way = Vec::new();
    for first in 0..count {
        let mut slot = first;
        let end = loop {
            if let Some(end) = found[slot] {
                break end;
            }
            found[slot] = Some(None);
            way.push(slot);
            match next(slot) {
                Alias::None => break None,
                Alias::Of(symbol) => break Some(symbol),
                Alias::Slot(other) => slot = other,
            }
        };
        for slot in way.drain(..) {
            found[slot] = Some(end);
        }
    }
    found.into_iter().map(Option::flatten).collect()
}

/// What an assignment mentions is referred to: what the linker itself defines is there only for who asks
/// (`--defsym limit=_end`).
fn refer_to_mentioned(assignment: &Assignment, symbols: &SymbolTable) {
    assignment.expr.for_symbols(&mut |name| {
        if let Some(id) = symbols.find(name) {
            symbols.add(id, Referred::BY_OBJECT);
        }
    });
}

/// The symbol whose very value an expression has, if it is one's. Of a conditional expression, what is chosen counts, if
/// that can be told already.
fn same_symbol<'e>(expr: &'e Expr, is_defined: &dyn Fn(&[u8]) -> bool) -> Option<&'e [u8]> {
    match expr {
        Expr::Symbol(name) => Some(name),
        Expr::Conditional(condition, then, otherwise) => {
            let condition = match &**condition {
                Expr::Defined(name) => is_defined(name),
                condition => condition.as_number()? != 0,
            };
            same_symbol(if condition { then } else { otherwise }, is_defined)
        }
        _ => None,
    }
}

/// Reports an assertion that does not hold, in GNU ld's manner: the script's own words.
pub(super) fn check(
    scripts: &Scripts,
    assertion: &Assertion,
    world: &dyn Environment,
    diag: &Diagnostics,
) {
    let place = scripts.script.place(assertion.pos);
    match assertion.expr.resolve(world) {
        Ok(0) => diag.pardonable(format!("{place}: assertion failed: {}", assertion.message)),
        Ok(_) => {}
        Err(why) => diag.error(format!("{place}: {why}")),
    }
}

/// After so many passes over the assignments a value that still changes will do so for ever.
pub(super) const MOST_PASSES: usize = 64;

/// The slots' values while assignments are being evaluated.
pub(super) struct Running<'r, 's> {
    assignments: &'r Assignments<'s>,
    values: Vec<Option<Value>>,
    /// Assigned in this pass.
    fresh: Vec<bool>,
    /// What is being assigned: until it is, its name means what it meant before.
    current: Option<usize>,
    /// What went wrong in this pass.
    pub problems: Vec<(Pos, EvalError)>,
}

/// What a name means at some point of a pass.
pub(super) enum Named {
    /// A script's symbol.
    Value(Value),
    /// What an object, or the linker, defines.
    Original(SymbolId, Key),
    /// Nothing so far.
    Unknown,
    /// No script's symbol.
    Other,
}

impl<'r, 's> Running<'r, 's> {
    pub fn new(assignments: &'r Assignments<'s>) -> Self {
        Running {
            assignments,
            values: vec![None; assignments.slots.len()],
            fresh: vec![false; assignments.slots.len()],
            current: None,
            problems: Vec::new(),
        }
    }

    /// Number of slots.
    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// See [`Assignments::is_active`].
    pub fn is_active(&self, assignment: &Assignment) -> bool {
        self.assignments.is_active(assignment)
    }

    pub fn start_pass(&mut self) {
        self.fresh.fill(false);
        self.problems.clear();
    }

    pub fn begin(&mut self, name: &[u8]) -> Option<usize> {
        self.current = self.assignments.slot(name);
        self.current
    }

    pub fn finish(&mut self, slot: usize, value: Result<Value, EvalError>, pos: Pos) {
        self.current = None;
        match value {
            Ok(value) => {
                self.values[slot] = Some(value);
                self.fresh[slot] = true;
            }
            Err(why) => self.problems.push((pos, why)),
        }
    }

    /// What a name means now.
    pub fn named(&self, name: &[u8]) -> Named {
        let Some(slot) = self.assignments.slot(name) else {
            return Named::Other;
        };
        let info = &self.assignments.slots[slot];
        match self.values[slot] {
            Some(value) if self.fresh[slot] => Named::Value(value),
            _ if info.original.in_object() => Named::Original(info.id, info.original),
            _ if self.current == Some(slot) => Named::Unknown,
            Some(value) => Named::Value(value),
            None => Named::Unknown,
        }
    }

    /// Whether a script has assigned the name in this pass.
    pub fn is_assigned(&self, name: &[u8]) -> Option<bool> {
        let slot = self.assignments.slot(name)?;
        Some(self.fresh[slot] || self.assignments.slots[slot].original.in_object())
    }

    /// The value of a slot at the end of a pass.
    pub fn settled(&self, slot: usize, world: &dyn Environment) -> Option<Assigned> {
        let value = self.values[slot]?;
        let output = match value {
            Value::Absolute(_) => None,
            Value::Relative { section, .. } => Some(OutputId(section)),
        };
        Some(Assigned {
            value: value.resolve(world).ok()?,
            output,
            alias: self.assignments.slots[slot].alias,
        })
    }
}

/// The error for a name that means nothing.
pub(super) fn undefined(name: &[u8]) -> EvalError {
    EvalError::UndefinedSymbol(String::from_utf8_lossy(name).into_owned())
}

/// What expressions see when the default layout has been made.
struct AfterLayout<'w, 'r, 's, 'l, 'a> {
    args: &'w Args,
    places: &'w Places<'l, 'a>,
    running: Running<'r, 's>,
}

impl AfterLayout<'_, '_, '_, '_, '_> {
    fn assign(&mut self, assignment: &Assignment) {
        let Target::Symbol(name) = &assignment.target else {
            // The default layout has no location counter that one could move.
            self.running
                .problems
                .push((assignment.pos, EvalError::NoDot));
            return;
        };
        if let Some(slot) = self.running.begin(name) {
            let value = assigned_expr(assignment).eval(self);
            self.running.finish(slot, value, assignment.pos);
        }
    }

    /// A variable of a shared object that lives here.
    fn copied(&self, id: SymbolId) -> Option<Value> {
        let (part, offset) = self.places.got.copy_of(id)?;
        let output = self.places.outputs.parts[part.index()].output;
        let within = self.places.placement.parts[part.index()].offset;
        Some(Value::Relative {
            section: output.0,
            offset: within.wrapping_add(offset),
        })
    }

    fn original(&self, id: SymbolId, key: Key) -> Value {
        let places = self.places;
        let address = places.definition_of(id, key);
        match places.output_of(id, key) {
            Some(output) => {
                let start = places.outputs.sections[output.index()].address;
                Value::Relative {
                    section: output.0,
                    offset: address.wrapping_sub(start),
                }
            }
            None => Value::Absolute(address),
        }
    }
}

impl Environment for AfterLayout<'_, '_, '_, '_, '_> {
    fn dot(&self) -> Option<Value> {
        // After the default layout: where it ends.
        Some(Value::Absolute(self.places.end()))
    }

    fn symbol(&self, name: &[u8]) -> Result<Value, EvalError> {
        match self.running.named(name) {
            Named::Value(value) => Ok(value),
            Named::Original(id, key) => Ok(self.original(id, key)),
            Named::Unknown => Err(undefined(name)),
            Named::Other => {
                let symbols = self.places.symbols;
                let id = symbols.find(name).ok_or_else(|| undefined(name))?;
                let key = symbols.key(id);
                if key.rank() == rank::SHARED {
                    return self.copied(id).ok_or_else(|| undefined(name));
                }
                if key.rank() > rank::LINKER {
                    return Err(undefined(name));
                }
                Ok(self.original(id, key))
            }
        }
    }

    fn is_defined(&self, name: &[u8]) -> bool {
        self.running.is_assigned(name).unwrap_or_else(|| {
            let symbols = self.places.symbols;
            symbols
                .find(name)
                .is_some_and(|id| symbols.key(id).rank() <= rank::LINKER)
        })
    }

    fn section(&self, query: SectionQuery, name: &[u8]) -> Result<Value, EvalError> {
        let outputs = self.places.outputs;
        let id = outputs
            .find(name)
            .filter(|id| outputs.sections[id.index()].header != 0);
        let Some(id) = id else {
            // "SIZEOF of a section that does not exist is zero."
            return match query {
                SectionQuery::Size => Ok(Value::Absolute(0)),
                _ => Err(EvalError::UndefinedSection(
                    String::from_utf8_lossy(name).into_owned(),
                )),
            };
        };
        let section = &outputs.sections[id.index()];
        Ok(match query {
            SectionQuery::Address => Value::Relative {
                section: id.0,
                offset: 0,
            },
            SectionQuery::LoadAddress => Value::Absolute(section.address),
            SectionQuery::Size => Value::Absolute(section.size),
            SectionQuery::Alignment => Value::Absolute(section.align),
        })
    }

    fn section_address(&self, section: u32) -> Result<u64, EvalError> {
        Ok(self.places.outputs.sections[section as usize].address)
    }

    fn region(&self, _name: &[u8]) -> Option<(u64, u64)> {
        None
    }

    fn numbers_are_addresses(&self) -> bool {
        true
    }

    fn constant(&self, constant: Constant) -> u64 {
        page_size(self.args, constant)
    }

    fn segment_start(&self, segment: &[u8]) -> Option<u64> {
        segment_start(self.args, segment)
    }

    fn sizeof_headers(&self) -> Result<u64, EvalError> {
        Ok(64 + 56 * self.places.segments.phdrs.len() as u64)
    }
}

/// `CONSTANT(…)`.
pub fn page_size(args: &Args, constant: Constant) -> u64 {
    match constant {
        Constant::MaxPageSize => args.z.max_page_size.unwrap_or(0x1000),
        // Pages of which several make one that the machine may have.
        Constant::CommonPageSize => {
            let size = args.z.common_page_size.unwrap_or(0x1000);
            size.min(page_size(args, Constant::MaxPageSize))
        }
    }
}

/// The address that `-Ttext-segment` and its like, or `-Ttext`, gave what `SEGMENT_START` names.
pub(super) fn segment_start(args: &Args, segment: &[u8]) -> Option<u64> {
    let section = |name: &[u8]| {
        let starts = args.section_starts.iter().rev();
        starts
            .clone()
            .find(|(section, _)| section == name)
            .map(|(_, address)| *address)
    };
    match segment {
        b"text-segment" => args.text_segment.or(args.image_base),
        b"rodata-segment" => args.rodata_segment,
        b"text" | b".text" => section(b".text"),
        b"data" | b".data" => section(b".data"),
        b"bss" | b".bss" => section(b".bss"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Alias, follow};

    #[test]
    fn long_chains_of_names_are_followed_once() {
        const COUNT: usize = 50_000;
        // In either direction, and all going round in one circle.
        for (direction, end) in [(1, Some('x')), (COUNT - 1, Some('x')), (1, None)] {
            let mut asked = 0;
            let last = if direction == 1 { COUNT - 1 } else { 0 };
            let found = follow(COUNT, |slot| {
                asked += 1;
                match end {
                    Some(end) if slot == last => Alias::Of(end),
                    _ => Alias::Slot((slot + direction) % COUNT),
                }
            });
            assert_eq!(found, vec![end; COUNT]);
            assert_eq!(asked, COUNT);
        }
    }

    #[test]
    fn a_slot_that_leads_into_a_circle_has_no_end() {
        let next = [
            Alias::Slot(1),
            Alias::Slot(2),
            Alias::Slot(1),
            Alias::Of('a'),
            Alias::Slot(3),
            Alias::None,
            Alias::Slot(5),
        ];
        let found = follow(next.len(), |slot| next[slot]);
        assert_eq!(found, [None, None, None, Some('a'), Some('a'), None, None]);
    }
}
