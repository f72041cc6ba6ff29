//! Addresses by a script: its statements are gone through as a program, with the location counter as its state.
//!
//! One pass gives every section an address, and every symbol a value. A statement may use what is known only further on
//! (`SIZEOF(.bss)`, a symbol of a later section), so passes are repeated until nothing changes. Then two things may have
//! to be adjusted and tried again: `DATA_SEGMENT_ALIGN`, so that what is read-only after relocation ends with a page,
//! and the size of the headers.

use super::assignments::{Assignments, MOST_PASSES, Running, check};
use super::classify::is_plain_number;
use super::kinds::{Content, Input};
use super::plan::{Item, Plan, Statement};
use super::regions::Regions;
use super::segments::Protected;
use crate::args::Args;
use crate::base::ids::PartId;
use crate::elf::shf;
use crate::input::scripts::assigned_expr;
use crate::layout::address_map::{Assigned, Located};
use crate::layout::placement::PartExtent;
use crate::messages::diag::Diagnostics;
use crate::resolve::linker_symbols::LinkerSymbols;
use crate::script::{
    AssignOp, Assignment, EvalError, Expr, Fill, OutputSection, Pos, SectionType, Target, Value,
    eval,
};
use std::cell::Cell;

/// Where a description's section is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Placed {
    pub address: u64,
    pub load_address: u64,
    pub size: u64,
    /// What its address is a multiple of.
    pub align: u64,
    /// What it needs by itself.
    pub own_align: u64,
    /// Loaded at run time.
    pub alloc: bool,
    /// It has bytes in the file.
    pub bits: bool,
    /// The script asks for it though it is empty, or gives symbols in it.
    pub kept: bool,
}

/// Bytes that the script itself puts into a section.
pub(super) struct Bytes {
    /// The description.
    pub description: usize,
    /// Offset in the section.
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// A gap that is filled with a pattern.
pub(super) struct Gap {
    pub description: usize,
    pub offset: u64,
    pub size: u64,
    pub pattern: Vec<u8>,
}

/// Where read-only-after-relocation data begins and ends, by `DATA_SEGMENT_ALIGN` and its like.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DataSegment {
    /// The value of `DATA_SEGMENT_ALIGN`.
    pub base: Option<u64>,
    /// The value that it shall have, so that the end is at a page.
    pub forced: Option<u64>,
    pub common_page: u64,
    /// The end of what becomes read-only.
    pub relro_end: Option<u64>,
    pub relro_offset: u64,
    /// The value of `DATA_SEGMENT_END`.
    pub end: Option<u64>,
    /// The second form of `DATA_SEGMENT_ALIGN` is used.
    pub compact: bool,
}

/// What a [`Machine`] lays out.
pub(super) struct Subject<'m, 's> {
    pub plan: &'m Plan<'s>,
    pub content: &'m Content,
    /// Sizes and alignments of what the linker makes, by part.
    pub made: &'m [(u64, u64)],
}

/// The machine that runs the script.
pub(super) struct Machine<'m, 'l, 'a, 's> {
    pub plan: &'m Plan<'s>,
    pub args: &'m Args,
    pub content: &'m Content,
    /// Inputs, and where they are by now.
    pub located: Located<'l, 'a>,
    pub linker_symbols: &'m LinkerSymbols,
    /// Sizes and alignments of what the linker makes, by part.
    pub made: &'m [(u64, u64)],
    pub running: Running<'m, 's>,
    /// Offset in the output section, by input section; for mergeable ones, index of the merge input.
    pub offset: Vec<u64>,
    /// By part.
    pub extents: Vec<PartExtent>,
    /// By description.
    pub placed: Vec<Placed>,
    pub regions: Regions,
    pub data_segment: Cell<DataSegment>,
    /// The region that each description runs in, if it names one.
    named_regions: Vec<Option<&'s [u8]>>,
    /// `AT>region` by description: its own, or that of the section before it in the same region.
    load_regions: Vec<Option<&'s [u8]>>,
    /// Bytes of the ELF header and the program headers.
    pub headers: u64,
    /// The script asks how many.
    pub counts_headers: Cell<bool>,
    pub dot: u64,
    pub inside: Option<usize>,
    overlay: Option<OverlayState>,
    pub bytes: Vec<Bytes>,
    pub gaps: Vec<Gap>,
    fill: Option<Vec<u8>>,
    /// Beside what [`Running`] has: problems that are no expression's.
    complaints: Vec<String>,
}

#[derive(Clone, Copy)]
struct OverlayState {
    number: usize,
    start: u64,
    end: u64,
    next_load: u64,
}

/// The region that each description names to run in. One that names only where it is loaded runs there, too; an orphan is
/// in the region of the section that it stands behind.
fn named_regions<'s>(plan: &Plan<'s>) -> Vec<Option<&'s [u8]>> {
    let mut regions = vec![None; plan.descriptions.len()];
    let mut before = None;
    for item in &plan.items {
        let Item::Section(number) = item else {
            continue;
        };
        let region = match plan.descriptions[*number].script {
            None => before,
            Some(script) => match (&script.region, &script.lma_region) {
                (Some(region), _) => Some(&region[..]),
                (None, Some(load)) if script.address.is_none() => Some(&load[..]),
                (None, _) => None,
            },
        };
        regions[*number] = region;
        before = region;
    }
    regions
}

/// "If neither AT nor AT> is specified", the load region of the section before goes on, as long as both run in the same
/// region, of these.
fn load_regions<'s>(plan: &Plan<'s>, regions: &[Option<&'s [u8]>]) -> Vec<Option<&'s [u8]>> {
    let mut loads = vec![None; plan.descriptions.len()];
    let mut before: Option<usize> = None;
    for item in &plan.items {
        let Item::Section(number) = item else {
            continue;
        };
        let script = plan.descriptions[*number].script;
        let own = script.and_then(|script| script.lma_region.as_deref());
        let elsewhere =
            script.is_some_and(|script| script.at.is_some() || script.address.is_some());
        let previous = before.filter(|before| !elsewhere && regions[*before] == regions[*number]);
        loads[*number] = own.or_else(|| previous.and_then(|before| loads[before]));
        before = Some(*number);
    }
    loads
}

/// Rounds up; alignments of sections are powers of two, those of scripts may be anything.
pub(super) fn align_up(value: u64, align: u64) -> u64 {
    eval::align(value, align)
}

impl<'m, 'l, 'a, 's> Machine<'m, 'l, 'a, 's> {
    /// One that has not run yet. `offset` are the offsets of merge inputs.
    pub fn new(
        subject: Subject<'m, 's>,
        args: &'m Args,
        located: Located<'l, 'a>,
        linker_symbols: &'m LinkerSymbols,
        assignments: &'m Assignments<'s>,
        offset: Vec<u64>,
    ) -> Self {
        let Subject {
            plan,
            content,
            made,
        } = subject;
        let named_regions = named_regions(plan);
        Machine {
            plan,
            args,
            content,
            located,
            linker_symbols,
            made,
            running: Running::new(assignments),
            offset,
            extents: vec![PartExtent::default(); located.outputs.parts.len()],
            placed: vec![Placed::default(); plan.descriptions.len()],
            regions: Regions::new(),
            data_segment: Cell::default(),
            load_regions: load_regions(plan, &named_regions),
            named_regions,
            headers: 64 + 56,
            counts_headers: Cell::default(),
            dot: 0,
            inside: None,
            overlay: None,
            bytes: Vec::new(),
            gaps: Vec::new(),
            fill: None,
            complaints: Vec::new(),
        }
    }

    /// Runs until all addresses are settled. `headers` counts the bytes that the headers will have, given the sections.
    pub fn run(&mut self, headers: &dyn Fn(&Self) -> u64) {
        self.settle(headers);
        if self.adjust_data_segment() {
            let before = self.data_segment.get();
            self.settle(headers);
            // Padding for its own sake: not if it makes the padded part larger than what it was to be padded to.
            let after = self.data_segment.get();
            if after.relro_end
                > before
                    .relro_end
                    .map(|end| end.next_multiple_of(before.common_page.max(1)))
            {
                self.data_segment.set(DataSegment {
                    forced: None,
                    ..after
                });
                self.settle(headers);
            }
        }
    }

    fn settle(&mut self, headers: &dyn Fn(&Self) -> u64) {
        let mut last: Option<(Vec<Placed>, Vec<Option<Assigned>>, u64)> = None;
        for _ in 0..MOST_PASSES {
            self.pass();
            let needed = headers(self);
            // The headers may shrink and grow with each other's help; they only grow here, so this ends.
            self.headers = self.headers.max(needed);
            let now = (self.placed.clone(), self.values(), self.headers);
            if last.as_ref() == Some(&now) {
                return;
            }
            last = Some(now);
        }
        self.complaints
            .push("the linker script's addresses do not settle: each depends on the other".into());
    }

    /// The values of the script's symbols, by slot.
    pub fn values(&self) -> Vec<Option<Assigned>> {
        (0..self.running.count())
            .map(|slot| self.running.settled(slot, self))
            .collect()
    }

    /// Reports what went wrong in the last pass, and assertions that do not hold.
    pub fn report(&mut self, output: &str, diag: &Diagnostics) {
        let scripts = self.plan.scripts;
        for (pos, why) in &self.running.problems {
            diag.error(format!("{}: {why}", scripts.script.place(*pos)));
        }
        for complaint in &self.complaints {
            diag.error(complaint);
        }
        self.check_regions(output, diag);
        for item in &self.plan.items {
            match item {
                Item::Assert(assertion) => check(scripts, assertion, self, diag),
                Item::Section(number) => {
                    for statement in &self.plan.descriptions[*number].statements {
                        if let Statement::Assert(assertion) = statement {
                            self.inside = Some(*number);
                            let placed = self.placed[*number];
                            self.dot = placed.address.wrapping_add(placed.size);
                            check(scripts, assertion, self, diag);
                            self.inside = None;
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Fills the regions once more, this time with messages.
    fn check_regions(&mut self, output: &str, diag: &Diagnostics) {
        if !self.regions.is_used() {
            return;
        }
        let mut regions = self.regions.clone();
        for number in 1..regions.len() {
            regions.get_mut(number).current = regions.get(number).origin;
        }
        for item in &self.plan.items {
            let Item::Section(number) = item else {
                continue;
            };
            let placed = self.placed[*number];
            if !placed.alloc || placed.size == 0 {
                continue;
            }
            let section =
                &self.located.outputs.sections[self.plan.descriptions[*number].output.index()];
            let name = String::from_utf8_lossy(&section.name);
            let script = self.plan.descriptions[*number].script;
            let region = self.region_of(*number);
            let explicit = script.and_then(|script| script.address.as_ref());
            if region == 0 {
                // What has an address need not be in a region.
                let complaint =
                    || format!("no memory region specified for loadable section `{name}'");
                match explicit {
                    Some(_) => {}
                    None if self.args.check_sections => diag.error(complaint()),
                    None => diag.warn(complaint()),
                }
                continue;
            }
            let tbss = !placed.bits && self.content.kinds[*number].flags & shf::TLS != 0;
            let size = if tbss { 0 } else { placed.size };
            regions.get_mut(region).current = placed.address.wrapping_add(size);
            regions.check(
                region,
                explicit.map(|_| placed.address),
                output,
                &name,
                diag,
            );
            if let Some(load) = self.load_region_of(*number)
                && load != region
                && placed.bits
            {
                regions.get_mut(load).current = placed.load_address.wrapping_add(placed.size);
                regions.check(load, None, output, &name, diag);
            }
        }
        regions.report_overflow(diag);
    }

    // -- one pass

    fn pass(&mut self) {
        self.running.start_pass();
        self.complaints.clear();
        self.bytes.clear();
        self.gaps.clear();
        (self.dot, self.inside, self.overlay) = (0, None, None);
        let segment = self.data_segment.get();
        self.data_segment.set(DataSegment {
            base: None,
            relro_end: None,
            end: None,
            ..segment
        });
        self.define_regions();
        self.check_region_names();
        let plan = self.plan;
        for item in &plan.items {
            match item {
                Item::Assign(assignment) => self.assign(assignment),
                Item::Assert(_) => {}
                Item::Section(number) => self.section(*number),
                Item::EndOfOverlay => {
                    if let Some(overlay) = self.overlay.take() {
                        self.dot = overlay.end;
                        self.regions.get_mut(0).current = overlay.end;
                    }
                }
            }
        }
    }

    fn define_regions(&mut self) {
        let mut regions = Regions::new();
        // Later regions may be told by earlier ones.
        self.regions = regions.clone();
        for region in &self.plan.memory {
            let origin = region.origin.resolve(self);
            let length = region.length.resolve(self);
            let mut value = |result: Result<u64, EvalError>| {
                result.unwrap_or_else(|why| {
                    self.running.problems.push((region.pos, why));
                    0
                })
            };
            let (origin, length) = (value(origin), value(length));
            regions.add(&region.name, region.attributes, origin, length);
            self.regions = regions.clone();
        }
    }

    /// A section cannot be put into a region that does not exist.
    fn check_region_names(&mut self) {
        for description in &self.plan.descriptions {
            let Some(script) = description.script else {
                continue;
            };
            let overlay = description.overlay_script;
            let names = [
                script.region.as_ref(),
                script.lma_region.as_ref(),
                overlay.and_then(|overlay| overlay.region.as_ref()),
                overlay.and_then(|overlay| overlay.lma_region.as_ref()),
            ];
            for name in names.into_iter().flatten() {
                if self.region_named(name).is_none() {
                    let place = self.plan.scripts.script.place(script.pos);
                    self.complaints.push(format!(
                        "{place}: memory region `{}' is not declared",
                        String::from_utf8_lossy(name)
                    ));
                }
            }
        }
    }

    pub(super) fn region_named(&self, name: &[u8]) -> Option<usize> {
        let name = self
            .plan
            .aliases
            .iter()
            .find(|(alias, _)| *alias == name)
            .map_or(name, |(_, region)| region);
        self.regions.find(name)
    }

    /// The region that a section runs in; 0 for none.
    pub(super) fn region_of(&self, number: usize) -> usize {
        let script = self.plan.descriptions[number].script;
        match self.named_regions[number] {
            Some(name) => self.region_named(name).unwrap_or(0),
            None => {
                let kind = &self.content.kinds[number];
                let explicit = script.is_some_and(|script| script.address.is_some());
                match explicit {
                    true => 0,
                    false => self.regions.for_flags(kind.flags, kind.bits),
                }
            }
        }
    }

    fn load_region_of(&self, number: usize) -> Option<usize> {
        self.region_named(self.load_regions[number]?)
    }

    fn problem(&mut self, pos: Pos, why: EvalError) {
        self.running.problems.push((pos, why));
    }

    fn number(&mut self, expr: &Expr, pos: Pos) -> Option<u64> {
        match expr.resolve(self) {
            Ok(value) => Some(value),
            Err(why) => {
                self.problem(pos, why);
                None
            }
        }
    }

    /// An alignment of a script: a power of two.
    fn alignment(&mut self, expr: Option<&Expr>, pos: Pos) -> Option<u64> {
        let value = self.number(expr?, pos)?.max(1);
        if !value.is_power_of_two() || value > 1 << 40 {
            let place = self.plan.scripts.script.place(pos);
            self.complaints.push(format!(
                "{place}: alignment {value:#x} is not a power of two"
            ));
            return None;
        }
        Some(value)
    }

    fn assign(&mut self, assignment: &Assignment) {
        if !self.running.is_active(assignment) {
            return;
        }
        let expr = assigned_expr(assignment);
        match &assignment.target {
            Target::Symbol(name) => {
                let Some(slot) = self.running.begin(name) else {
                    return;
                };
                let mut value = expr.eval(self);
                // In a section's description a number is an offset in it.
                if let (Ok(Value::Absolute(number)), Some(inside), true) =
                    (&value, self.inside, is_plain_number(&assignment.expr))
                    && assignment.op == AssignOp::Set
                {
                    value = Ok(Value::Relative {
                        section: self.output_number(inside),
                        offset: *number,
                    });
                }
                self.running.finish(slot, value, assignment.pos);
            }
            Target::Dot => {
                let value = expr.eval(self);
                let moved = value.and_then(|value| match (value, self.inside) {
                    (Value::Absolute(number), Some(inside))
                        if is_plain_number(&assignment.expr) =>
                    {
                        Ok(self.placed[inside].address.wrapping_add(number))
                    }
                    (value, _) => value.resolve(self),
                });
                match moved {
                    Ok(dot) => self.move_dot(dot, assignment.pos),
                    Err(why) => self.problem(assignment.pos, why),
                }
            }
        }
    }

    fn move_dot(&mut self, dot: u64, pos: Pos) {
        if let Some(inside) = self.inside {
            if dot < self.dot {
                let place = self.plan.scripts.script.place(pos);
                self.complaints.push(format!(
                    "{place}: cannot move location counter backwards (from {:#018x} to {dot:#018x})",
                    self.dot
                ));
                return;
            }
            if dot - self.dot > 1 << 46 {
                let place = self.plan.scripts.script.place(pos);
                self.complaints
                    .push(format!("{place}: section would become larger than 64 TiB"));
                return;
            }
            self.note_gap(inside, dot);
        } else {
            self.regions.get_mut(0).current = dot;
        }
        self.dot = dot;
    }

    /// Notes the gap from the location counter up to `end`, if gaps are filled.
    fn note_gap(&mut self, inside: usize, end: u64) {
        if let (Some(pattern), true) = (&self.fill, end > self.dot) {
            self.gaps.push(Gap {
                description: inside,
                offset: self.dot.wrapping_sub(self.placed[inside].address),
                size: end - self.dot,
                pattern: pattern.clone(),
            });
        }
    }

    pub(super) fn output_number(&self, description: usize) -> u32 {
        self.plan.descriptions[description].output.0
    }

    fn section(&mut self, number: usize) {
        let plan = self.plan;
        let description = &plan.descriptions[number];
        let kind = self.content.kinds[number];
        let script = description.script;
        let pos = script.map_or(Pos::default(), |script| script.pos);
        let noload = script.is_some_and(|script| script.kind == SectionType::NoLoad);
        let unallocated = script.is_some_and(|script| script.kind == SectionType::NotAllocated);
        let data = description
            .statements
            .iter()
            .any(|statement| matches!(statement, Statement::Data { .. } | Statement::Text(_)));
        // What has no input is loaded if the script puts something there.
        let alloc = !unallocated && (kind.flags & shf::ALLOC != 0 || !kind.present);
        let bits = (kind.bits || kind.empty_bits || data) && !noload;
        let tbss = !bits && kind.flags & shf::TLS != 0;
        let entry_dot = self.dot;
        let region = self.region_of(number);

        // Its address.
        let name = &*self.located.outputs.sections[description.output.index()].name;
        let explicit = match (
            self.start_option(name),
            script.and_then(|script| script.address.as_ref()),
        ) {
            (Some(address), _) => Some(address),
            (None, Some(expr)) => self.number(expr, pos),
            (None, None) => None,
        };
        let align_option = self.alignment(script.and_then(|script| script.align.as_ref()), pos);
        let subalign = self.alignment(script.and_then(|script| script.subalign.as_ref()), pos);
        let natural = self.natural_alignment(number, subalign);
        let own_align = natural.max(align_option.unwrap_or(1));
        let align = match self.content.thread_storage {
            Some((first, largest)) if first == number && subalign.is_none() => {
                own_align.max(largest)
            }
            _ => own_align,
        };
        let overlay = self.enter_overlay(number, align);
        let unaligned = match (overlay, explicit) {
            (Some(overlay), _) => overlay.start,
            (None, Some(address)) => address,
            (None, None) if script.is_none() && !alloc => 0,
            (None, None) => self.regions.get(region).current,
        };
        let address = align_up(
            unaligned,
            if explicit.is_some() {
                align_option.unwrap_or(1)
            } else {
                align
            },
        );

        // What is in it.
        (self.dot, self.inside) = (address, Some(number));
        self.placed[number].address = address;
        self.fill = script.and_then(|script| self.pattern(script.fill.as_ref(), script));
        let marks = (self.bytes.len(), self.gaps.len());
        let mut has_symbols = false;
        let mut kept = false;
        for statement in &description.statements {
            match statement {
                Statement::Rule(rule) => {
                    for part in &self.content.of_rule[*rule] {
                        self.put(*part, number, subalign);
                    }
                }
                Statement::Assign(assignment) => {
                    if assignment.target == Target::Dot {
                        // `. = .;` asks for the section, empty or not.
                        kept |= assignment.op == AssignOp::Set && assignment.expr == Expr::Dot;
                    } else {
                        has_symbols |= self.running.is_active(assignment);
                    }
                    self.assign(assignment);
                }
                Statement::Assert(_) => {}
                Statement::Data { size, expr, pos } => {
                    let value = self.number(expr, *pos).unwrap_or(0);
                    let bytes = value.to_le_bytes()[..usize::from(*size)].to_vec();
                    self.write(number, bytes);
                }
                Statement::Text(text) => self.write(number, text.to_vec()),
                Statement::Fill(fill) => {
                    if let Some(script) = script {
                        self.fill = self.pattern(Some(fill), script);
                    }
                }
            }
        }
        for part in &self.content.rest[number] {
            self.put(*part, number, subalign);
        }
        self.inside = None;
        let size = self.dot.wrapping_sub(address);
        let ignored = size == 0 && !has_symbols && !kept;

        // Where it is loaded from.
        // What has an address is not aligned for its own sake, here as there.
        let load_align = match explicit {
            Some(_) => align_option.unwrap_or(1),
            None => align,
        };
        let load_address = self.load_address(
            number,
            address,
            address.wrapping_sub(unaligned),
            align_option,
            load_align,
        );
        self.placed[number] = Placed {
            address,
            load_address,
            size,
            align,
            own_align,
            alloc,
            bits,
            kept: kept && size == 0,
        };
        if ignored {
            self.dot = entry_dot;
            self.bytes.truncate(marks.0);
            self.gaps.truncate(marks.1);
            return;
        }
        if !alloc {
            self.dot = entry_dot;
            return;
        }
        let after = if tbss { address } else { self.dot };
        if let Some(state) = &mut self.overlay {
            state.end = state.end.max(after);
            state.next_load = load_address.wrapping_add(size);
            self.dot = after;
            self.regions.get_mut(0).last = Some(number);
            return;
        }
        self.dot = after;
        let load_region = self.load_region_of(number);
        if load_region.is_none() && (size > 0 || load_address != address) {
            self.regions.get_mut(region).last = Some(number);
        }
        if size == 0 {
            return;
        }
        self.regions.get_mut(region).current = after;
        let fills_load_region = bits || script.is_some_and(|script| script.align_with_input);
        if let Some(load) = load_region
            && load != region
            && fills_load_region
        {
            self.regions.get_mut(load).current = load_address.wrapping_add(size);
        }
    }

    /// `-Ttext`, `--section-start` and their like: they count more than the address that the script gives.
    fn start_option(&self, name: &[u8]) -> Option<u64> {
        let starts = self.args.section_starts.iter().rev();
        starts
            .clone()
            .find(|(section, _)| section == name)
            .map(|(_, address)| *address)
    }

    /// The largest alignment of what is in a section.
    fn natural_alignment(&self, number: usize, subalign: Option<u64>) -> u64 {
        match subalign {
            None => self.content.kinds[number].align.max(1),
            Some(align) => align,
        }
    }

    fn load_address(
        &mut self,
        number: usize,
        address: u64,
        step: u64,
        align_option: Option<u64>,
        align: u64,
    ) -> u64 {
        let description = &self.plan.descriptions[number];
        if let Some(overlay) = self.overlay {
            return overlay.next_load;
        }
        let region = self.region_of(number);
        let script = description.script;
        if let Some((script, at)) = script.and_then(|script| Some((script, script.at.as_ref()?))) {
            self.inside = Some(number);
            let value = self.number(at, script.pos).unwrap_or(address);
            self.inside = None;
            return value;
        }
        if let Some(load) = self.load_region_of(number) {
            let current = self.regions.get(load).current;
            return if script.is_some_and(|script| script.align_with_input) {
                current.wrapping_add(step)
            } else if load == region {
                align_up(
                    current,
                    self.content.kinds[number]
                        .align
                        .max(align_option.unwrap_or(1)),
                )
            } else {
                align_up(current, align_option.unwrap_or(1))
            };
        }
        // What has no input is loaded if the script puts something there.
        let kind = &self.content.kinds[number];
        if script.is_some() && kind.present && kind.flags & shf::ALLOC == 0 {
            return address;
        }
        self.same_distance(region, address, align)
    }

    /// "The difference between VMA and LMA is the same as that of the last section in the region." GNU ld and lld mean
    /// that for sections with an address of their own as well, whatever the manual says of them.
    fn same_distance(&self, region: usize, address: u64, align: u64) -> u64 {
        match self.regions.get(region).last {
            Some(last) if self.placed[last].address <= address => {
                let last = self.placed[last];
                let distance = last.load_address.wrapping_sub(last.address);
                if distance == 0 {
                    return address;
                }
                align_up(address.wrapping_add(distance), align)
            }
            _ => address,
        }
    }

    fn enter_overlay(&mut self, number: usize, align: u64) -> Option<OverlayState> {
        let description = &self.plan.descriptions[number];
        let overlay = description.overlay?;
        if let Some(script) = description.overlay_script {
            let region = script
                .region
                .as_ref()
                .and_then(|name| self.region_named(name))
                .unwrap_or(0);
            let start = match &script.start {
                Some(expr) => self.number(expr, script.pos).unwrap_or(0),
                None => align_up(self.regions.get(region).current, align),
            };
            let next_load = match &script.at {
                Some(expr) => self.number(expr, script.pos).unwrap_or(start),
                None => match script
                    .lma_region
                    .as_ref()
                    .and_then(|name| self.region_named(name))
                {
                    Some(load) => self.regions.get(load).current,
                    None => start,
                },
            };
            self.overlay = Some(OverlayState {
                number: overlay,
                start,
                end: start,
                next_load,
            });
        }
        self.overlay.filter(|state| state.number == overlay)
    }

    /// What gaps are filled with: nothing special, or these bytes, repeated.
    fn pattern(&mut self, fill: Option<&Fill>, script: &OutputSection) -> Option<Vec<u8>> {
        match fill? {
            Fill::Pattern(bytes) => Some(bytes.clone()),
            Fill::Expr(expr) => {
                let value = self.number(expr, script.pos)?;
                Some((value as u32).to_be_bytes().to_vec())
            }
        }
    }

    /// Puts a part where the location counter is.
    fn put(&mut self, part: PartId, number: usize, subalign: Option<u64>) {
        let base = self.placed[number].address;
        let (made, made_align) = self.made.get(part.index()).copied().unwrap_or((0, 1));
        let mut align = 1;
        let start = if made > 0 {
            align = subalign.unwrap_or(made_align.max(1));
            let start = align_up(self.dot, align);
            self.note_gap(number, start);
            self.dot = start.wrapping_add(made);
            start
        } else {
            self.dot
        };
        let inputs: &[Input] = &self.content.inputs[part.index()];
        for input in inputs {
            let needed = subalign.unwrap_or(input.align);
            align = align.max(needed);
            let at = align_up(self.dot, needed);
            if at != self.dot {
                self.note_gap(number, at);
            }
            self.offset[input.id.index()] = at.wrapping_sub(base);
            self.dot = at.wrapping_add(input.size);
        }
        self.extents[part.index()] = PartExtent {
            offset: start.wrapping_sub(base),
            size: self.dot.wrapping_sub(start),
        };
    }

    /// Writes bytes where the location counter is.
    fn write(&mut self, number: usize, bytes: Vec<u8>) {
        let offset = self.dot.wrapping_sub(self.placed[number].address);
        self.dot = self.dot.wrapping_add(bytes.len() as u64);
        self.bytes.push(Bytes {
            description: number,
            offset,
            bytes,
        });
    }

    // -- the data segment

    /// After a first layout: moves the start of the data segment so that what is read-only after relocation ends with a
    /// page, or so that the segment takes a page less. Says whether there is something to do.
    fn adjust_data_segment(&mut self) -> bool {
        let mut segment = self.data_segment.get();
        let Some(base) = segment.base else {
            return false;
        };
        let page = segment.common_page.max(1);
        match segment.relro_end {
            // It need not be moved if nobody else is on its last page, or if there is nothing in it.
            Some(relro_end)
                if self.args.z.relro
                    && (self.is_alone(relro_end, page) || !self.is_used(base, relro_end)) =>
            {
                return false;
            }
            Some(relro_end) if self.args.z.relro => {
                let end = relro_end.next_multiple_of(page);
                let mut wanted = end.wrapping_sub(segment.relro_offset);
                let inner_end = relro_end.wrapping_sub(segment.relro_offset);
                // From the last section to the first: each as far up as its alignment lets it.
                let mut sections: Vec<(usize, Placed)> = self
                    .placed
                    .iter()
                    .copied()
                    .enumerate()
                    .filter(|(_, placed)| {
                        placed.alloc
                            && (placed.size > 0)
                            && placed.address >= base
                            && placed.address < inner_end
                    })
                    .collect();
                sections.sort_by_key(|(number, placed)| (placed.address, *number));
                for (number, placed) in sections.into_iter().rev() {
                    let tbss = !placed.bits && self.content.kinds[number].flags & shf::TLS != 0;
                    let size = if tbss { 0 } else { placed.size };
                    let start = wanted.wrapping_sub(size);
                    wanted = start - start % placed.align.max(1);
                }
                if wanted < base {
                    return false;
                }
                segment.forced = Some(wanted);
            }
            _ => {
                let Some(end) = segment.end else { return false };
                let first = base.wrapping_neg() & (page - 1);
                let last = end & (page - 1);
                let worth = first > 0
                    && last > 0
                    && base & !(page - 1) != end & !(page - 1)
                    && first + last <= page;
                if !worth || segment.compact {
                    return false;
                }
                segment.compact = true;
            }
        }
        self.data_segment.set(segment);
        true
    }

    /// Whether something takes space from one address to another, as the variables of threads that are zero at first do not.
    fn is_used(&self, start: u64, end: u64) -> bool {
        let mut placed = self.placed.iter().zip(&self.content.kinds);
        placed.any(|(placed, kind)| {
            let takes_space = placed.bits || kind.flags & shf::TLS == 0;
            placed.alloc
                && placed.size > 0
                && takes_space
                && placed.address < end
                && placed.address.saturating_add(placed.size) > start
        })
    }

    /// Whether what ends here has the rest of its last page for itself.
    fn is_alone(&self, end: u64, page: u64) -> bool {
        !self.is_used(end, end.checked_next_multiple_of(page).unwrap_or(end))
    }

    /// What becomes read-only after relocation.
    pub(super) fn protected(&self) -> Option<Protected> {
        let segment = self.data_segment.get();
        let (start, end) = segment.base.zip(segment.relro_end)?;
        let page = segment.common_page.max(1);
        let alone = self.is_alone(end, page);
        let protected_end = match alone {
            true => end.checked_next_multiple_of(page).unwrap_or(end),
            false => end,
        };
        (start < end && self.is_used(start, end)).then_some(Protected {
            start,
            end,
            protected_end,
            apart: alone && segment.forced.is_none(),
        })
    }
}
