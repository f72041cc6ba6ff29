//! From a script's plan to the placement and the segments that the rest of the link works with.

use super::assignments::Assignments;
use super::content::{Subject, gather};
use super::evaluate::{self, Bytes, Gap, Machine, Placed};
use super::kinds::Content;
use super::plan::{Item, Plan, begins_with_data};
use super::regions::Regions;
use super::segments::{self, Range, Section, Shape, Special};
use crate::args::Args;
use crate::base::ids::{OutputId, PartId, SectionId};
use crate::elf::shf;
use crate::elf::{Shdr, c};
use crate::graph::merge::Merged;
use crate::graph::relocation_action::Mode;
use crate::graph::trace::Needs;
use crate::layout::address_map::{Assigned, Located};
use crate::layout::commons::Commons;
use crate::layout::got::Got;
use crate::layout::placement::{Chunk, PartExtent, Placement};
use crate::layout::program_headers::Segments;
use crate::layout::relr;
use crate::layout::section_index;
use crate::layout::synthetic_sizes::section_names;
use crate::messages::diag::Diagnostics;
use crate::messages::stdio;
use crate::resolve::input_sections::Sections;
use crate::resolve::linker_symbols::LinkerSymbols;
use crate::resolve::output_sections::{OutputSection, Outputs, STANDARD_COUNT, Std};
use crate::resolve::resolution::Definitions;
use crate::resolve::symbol_table::SymbolTable;
use crate::script::Sort;
use std::collections::HashSet;

/// A plan whose contents are known.
pub struct Filled<'s> {
    plan: Plan<'s>,
    content: Content,
    made: Vec<(u64, u64)>,
    offset: Vec<u64>,
}

/// Bytes that the script itself puts into the image.
pub struct Patch {
    /// Offset in the file.
    offset: u64,
    /// How many bytes.
    size: u64,
    /// These bytes, repeated.
    pattern: Vec<u8>,
}

/// Where everything is.
pub struct LaidOut {
    /// Where the input sections are.
    pub placement: Placement,
    /// The file's shape.
    pub segments: Segments,
    /// Names for `.shstrtab`.
    pub names: Vec<Vec<u8>>,
    /// The values of the script's symbols, if they are known already.
    pub assigned: Option<Vec<Assigned>>,
    /// What is written over the image.
    pub patches: Vec<Patch>,
    /// The words of `.relr.dyn`.
    pub relr_table: Vec<u64>,
}

/// Writes what the script itself puts into the image: data, and fills of gaps.
pub fn write_patches(patches: &[Patch], image: &mut [u8]) {
    for patch in patches {
        let range = patch.offset as usize..(patch.offset + patch.size) as usize;
        if let (Some(out), false) = (image.get_mut(range), patch.pattern.is_empty()) {
            for (to, from) in out.iter_mut().zip(patch.pattern.iter().cycle()) {
                *to = *from;
            }
        }
    }
}

/// `--print-memory-usage` without a script that has `MEMORY`: nothing but the table's head.
pub fn print_no_memory_usage(args: &Args) {
    if args.print_memory_usage {
        stdio::print(format_args!("{}", Regions::new().usage()));
    }
}

/// Standard sections that are views of a script's section of the same name: those whose bounds others ask for.
fn by_name() -> impl Iterator<Item = Std> {
    Std::ALL.iter().copied().filter(|std| std.row().by_name)
}

impl<'s> Plan<'s> {
    /// Finds out what is in each section. `made` are the sizes of what the linker makes, by part: what the script
    /// discards of it is taken out. `offset` is from [`merge_pieces`](crate::layout::placement::merge_pieces). The sizes of the
    /// standard sections are then those of their contents so far, to tell which there are.
    pub fn fill<'a>(
        mut self,
        subject: Subject<'_, 'a>,
        outputs: &mut Outputs<'a>,
        made: &mut Vec<(u64, u64)>,
        offset: Vec<u64>,
    ) -> Filled<'s> {
        let content = gather(&mut self, subject, outputs, made);
        for std in Std::ALL {
            let (size, align) = made[std.part().index()];
            let output = outputs.std_mut(*std);
            (output.size, output.align) = (size, align);
        }
        for std in by_name() {
            let name = outputs.std(std).name.clone();
            let named = |output: &OutputSection| output.name == name;
            let found = outputs.sections[STANDARD_COUNT as usize..]
                .iter()
                .position(named);
            if let Some(number) = found {
                outputs.std_mut(std).size = u64::from(content.kinds[number].present);
            }
        }
        Filled {
            plan: self,
            content,
            made: made.clone(),
            offset,
        }
    }
}

/// What addresses depend on, beside the plan.
pub struct Facts<'f, 'a> {
    /// Options.
    pub args: &'f Args,
    /// The inputs' symbols.
    pub symbols: &'f SymbolTable<'a>,
    /// Where these are defined.
    pub definitions: &'f Definitions,
    /// The input sections.
    pub sections: &'f Sections,
    /// The merged pieces.
    pub merged: &'f Merged<'f>,
    /// Offset of each file's frames in `.eh_frame`.
    pub frame_offsets: &'f [u64],
    /// Slots, and copies of shared objects' variables.
    pub got: &'f Got,
    /// The common blocks.
    pub commons: &'f Commons,
    /// What the output must have, among it what `.relr.dyn` is about.
    pub needs: &'f Needs,
    /// What kind of output it is.
    pub mode: Mode,
    /// What linker-defined symbols mean.
    pub linker_symbols: &'f LinkerSymbols,
    /// An input asks for an executable stack.
    pub executable_stack: bool,
    /// For messages.
    pub diag: &'f Diagnostics,
}

/// What is left of a [`Machine`] that has run.
struct Settled<'s> {
    list: Vec<Section<'s>>,
    shape: Shape,
    assigned: Vec<Assigned>,
    offset: Vec<u64>,
    extents: Vec<PartExtent>,
    placed: Vec<Placed>,
    bytes: Vec<Bytes>,
    gaps: Vec<Gap>,
    relr_table: Vec<u64>,
}

impl<'s> Filled<'s> {
    /// Gives everything its address and its place in the file. When addresses are known `add` may add output sections
    /// that are about others (`--emit-relocs`): it is told where everything is, and which output sections there are.
    pub fn assign<'a>(
        mut self,
        facts: &Facts<'_, 'a>,
        assignments: &Assignments<'s>,
        outputs: &mut Outputs<'a>,
        add: &mut dyn FnMut(&Placement, &[OutputId], &mut Outputs<'a>),
    ) -> LaidOut {
        self.made[Std::Dynamic.part().index()].0 = outputs.std(Std::Dynamic).size;
        let mut offset = std::mem::take(&mut self.offset);
        let mut made = std::mem::take(&mut self.made);
        let settled = loop {
            let offset = match facts.mode.pack {
                true => offset.clone(),
                false => std::mem::take(&mut offset),
            };
            match self.settle(facts, assignments, outputs, offset, &made) {
                Ok(settled) => break settled,
                Err(relr_size) => made[Std::RelrDyn.part().index()].0 = relr_size,
            }
        };
        self.made = made;
        let placement = Placement {
            chunks: self.chunks(facts.sections, outputs, &settled),
            offset: settled.offset.clone(),
            parts: settled.extents.clone(),
        };
        let (segments, names) =
            self.write_down(facts.args, outputs, &settled, &mut |standing, outputs| {
                add(&placement, standing, outputs);
            });
        let read_at_start = |std: &&Std| std.row().made.is_some_and(|made| made.read_at_start);
        for std in Std::ALL.iter().filter(read_at_start) {
            let holder = &outputs.sections[outputs.parts[std.part().index()].output.index()];
            if holder.no_load && self.made[std.part().index()].0 > 0 {
                facts.diag.error(format!(
                    "the linker script keeps {}, which the program needs at its start, out of the file (NOLOAD)",
                    String::from_utf8_lossy(&outputs.std(*std).name)
                ));
            }
        }
        if segments.file_size > MOST_BYTES {
            facts.diag.error(format!(
                "the output would have {} bytes: does the linker script leave a gap in a segment?",
                segments.file_size
            ));
        }
        let patches = self.patches(outputs, &settled);
        LaidOut {
            placement,
            segments,
            names,
            assigned: Some(settled.assigned),
            patches,
            relr_table: settled.relr_table,
        }
    }

    /// Settles all addresses.
    ///
    /// # Errors
    /// The size that `.relr.dyn` must have, if that is more than `made` says: then everything moves.
    fn settle<'a>(
        &self,
        facts: &Facts<'_, 'a>,
        assignments: &Assignments<'s>,
        outputs: &Outputs<'a>,
        offset: Vec<u64>,
        made: &[(u64, u64)],
    ) -> Result<Settled<'s>, u64> {
        let args = facts.args;
        let plan = &self.plan;
        let located = Located {
            symbols: facts.symbols,
            definitions: facts.definitions,
            sections: facts.sections,
            outputs,
            merged: facts.merged,
            frame_offsets: facts.frame_offsets,
            commons: facts.commons,
            got: facts.got,
        };
        let laid_out = evaluate::Subject {
            plan,
            content: &self.content,
            made,
        };
        let mut machine = Machine::new(
            laid_out,
            args,
            located,
            facts.linker_symbols,
            assignments,
            offset,
        );
        machine.run(&|machine| {
            let list = list(plan, machine, outputs);
            segments::headers_size(args, &list, &special(plan, facts, machine), plan.phdrs)
        });
        let relr_table = relr_table(facts, &machine)?;
        machine.report(&args.output.display().to_string(), facts.diag);
        let mut list = list(plan, &machine, outputs);
        check_overlaps(plan, args, &list, facts.diag);
        let shape = segments::assign(
            args,
            &mut list,
            &special(plan, facts, &machine),
            plan.phdrs.map(|headers| (headers, &plan.scripts.script)),
            &|expr| expr.resolve(&machine),
            facts.diag,
        );
        if args.print_memory_usage && !facts.diag.has_errors() {
            stdio::print(format_args!("{}", machine.regions.usage()));
        }
        let values = machine.values();
        Ok(Settled {
            list,
            shape,
            assigned: values.into_iter().map(Option::unwrap_or_default).collect(),
            offset: machine.offset,
            extents: machine.extents,
            placed: machine.placed,
            bytes: machine.bytes,
            gaps: machine.gaps,
            relr_table,
        })
    }

    /// What the writer copies at once: the sections that a file has in a part, or single ones where parts are sorted.
    fn chunks(&self, sections: &Sections, outputs: &Outputs, settled: &Settled) -> Vec<Chunk> {
        let rules = outputs.rules.as_deref();
        let mut chunks: Vec<Chunk> = Vec::new();
        for (i, inputs) in self.content.inputs.iter().enumerate() {
            let part = PartId(i as u32);
            let rule = outputs.parts[i]
                .rule
                .and_then(|rule| rules?.rules.get(rule as usize));
            let single = rule.is_some_and(|rule| rule.sort != Sort::None)
                || !inputs.is_sorted_by_key(|input| input.id);
            let first = chunks.len();
            for input in inputs {
                let (file, number) = sections.origin(input.id);
                let offset = settled.offset[input.id.index()];
                match chunks[first..].last_mut() {
                    Some(chunk) if chunk.file == file && !single => {
                        chunk.size = offset + input.size - chunk.offset;
                        chunk.align = chunk.align.max(input.align);
                    }
                    _ => chunks.push(Chunk {
                        file,
                        part,
                        only: if single { number } else { 0 },
                        offset,
                        size: input.size,
                        align: input.align,
                        first_align: input.align,
                    }),
                }
            }
        }
        chunks
    }

    /// Writes addresses into the output sections, and lays out what is not loaded.
    fn write_down<'a>(
        &self,
        args: &Args,
        outputs: &mut Outputs<'a>,
        settled: &Settled,
        add: &mut dyn FnMut(&[OutputId], &mut Outputs<'a>),
    ) -> (Segments, Vec<Vec<u8>>) {
        for (description, placed) in self.plan.descriptions.iter().zip(&settled.placed) {
            let output = &mut outputs.sections[description.output.index()];
            (output.address, output.size, output.header) = (placed.address, 0, 0);
            output.load_offset = placed.load_address.wrapping_sub(placed.address);
        }
        // What a script asks for may be larger than anything. That is reported when all is known.
        let aligned = |offset: u64, align: u64| {
            offset
                .checked_next_multiple_of(align.max(1))
                .unwrap_or(u64::MAX)
        };
        let mut end = settled.shape.end;
        let mut in_file: Vec<OutputId> = Vec::new();
        let with_headers =
            |section: &&Section| args.z.section_header || section.flags & shf::ALLOC != 0;
        for section in settled.list.iter().filter(with_headers) {
            let output = &mut outputs.sections[section.output.index()];
            output.sh_type = section.sh_type;
            output.no_load = section.no_load;
            output.flags = section.flags;
            output.size = section.size;
            output.align = section.align;
            output.offset = section.offset;
            output.entsize = section.entsize;
            if section.flags & shf::ALLOC == 0 {
                end = aligned(end, section.align);
                output.offset = end;
                end = end.saturating_add(output.file_size());
            }
            in_file.push(section.output);
        }
        if !args.z.section_header {
            let end = aligned(end, 8);
            let segments = Self::segments(settled, end, end, in_file);
            for (header, id) in (1u32..).zip(&segments.sections) {
                outputs.sections[id.index()].header = header;
            }
            self.set_views(outputs, settled);
            return (segments, Vec::new());
        }
        let own = outputs.sections.len();
        add(&in_file, outputs);
        for (number, output) in outputs.sections.iter_mut().enumerate().skip(own) {
            end = aligned(end, output.align);
            output.offset = end;
            end = end.saturating_add(output.file_size());
            in_file.push(OutputId(number as u32));
        }
        section_index::reserve(outputs, in_file.len() + 1);
        let last = [Std::Symtab, Std::SymtabShndx, Std::Strtab, Std::ShStrtab];
        outputs.std_mut(Std::ShStrtab).size = 1;
        in_file.extend(
            last.into_iter()
                .filter(|std| outputs.std(*std).size > 0)
                .map(Std::id),
        );
        let names = section_names(in_file.iter().map(|id| &outputs.sections[id.index()]));
        outputs.std_mut(Std::ShStrtab).size =
            1 + names.iter().map(|name| name.len() as u64 + 1).sum::<u64>();
        for (header, id) in (1u32..).zip(&in_file) {
            let output = &mut outputs.sections[id.index()];
            output.header = header;
            if id.0 < STANDARD_COUNT {
                end = aligned(end, output.align);
                output.offset = end;
                end = end.saturating_add(output.size);
            }
        }
        self.set_views(outputs, settled);
        let shoff = aligned(end, 8);
        let headers = (in_file.len() as u64 + 1) * size_of::<Shdr>() as u64;
        let file_size = shoff.saturating_add(headers);
        (Self::segments(settled, shoff, file_size, in_file), names)
    }

    /// The file's shape. `shoff`: where section headers are, if there are any.
    fn segments(
        settled: &Settled,
        shoff: u64,
        file_size: u64,
        sections: Vec<OutputId>,
    ) -> Segments {
        Segments {
            phdrs: settled.shape.phdrs.clone(),
            shoff,
            file_size,
            sections,
            tls: settled.shape.tls,
            image_base: settled.shape.image_base,
            // What wraps around was refused before.
            wrapped: None,
        }
    }

    /// Standard sections are views of where their contents came to be.
    fn set_views(&self, outputs: &mut Outputs, settled: &Settled) {
        for std in Std::ALL {
            let part = std.part();
            let output = outputs.parts[part.index()].output;
            if output.0 < STANDARD_COUNT {
                continue;
            }
            let within = settled.extents[part.index()].offset;
            let holder = &outputs.sections[output.index()];
            let (address, offset, header) = (holder.address, holder.offset, holder.header);
            let (size, align) = self.made[part.index()];
            let view = outputs.std_mut(*std);
            view.address = address.wrapping_add(within);
            view.offset = offset.wrapping_add(within);
            (view.size, view.align, view.header) = (size, align, header);
        }
        for std in by_name() {
            let name = outputs.std(std).name.clone();
            let found = outputs.sections[STANDARD_COUNT as usize..]
                .iter()
                .filter(|output| output.name == name)
                .max_by_key(|output| output.header);
            let Some(named) = found else { continue };
            let copy = (
                named.address,
                named.offset,
                named.size,
                named.align,
                named.header,
            );
            let view = outputs.std_mut(std);
            (
                view.address,
                view.offset,
                view.size,
                view.align,
                view.header,
            ) = copy;
        }
    }

    fn patches(&self, outputs: &Outputs, settled: &Settled) -> Vec<Patch> {
        let at = |description: usize, offset: u64| {
            let id = self.plan.descriptions[description].output;
            let output = &outputs.sections[id.index()];
            (output.header != 0 && !output.is_nobits()).then(|| output.offset + offset)
        };
        let gaps = settled.gaps.iter().filter_map(|gap| {
            Some(Patch {
                offset: at(gap.description, gap.offset)?,
                size: gap.size,
                pattern: gap.pattern.clone(),
            })
        });
        let bytes = settled.bytes.iter().filter_map(|bytes| {
            Some(Patch {
                offset: at(bytes.description, bytes.offset)?,
                size: bytes.bytes.len() as u64,
                pattern: bytes.bytes.clone(),
            })
        });
        gaps.chain(bytes).collect()
    }
}

/// More than any real output has: what is larger comes from a mistake in a script.
const MOST_BYTES: u64 = 1 << 40;

/// The sections that are in the output, in the plan's order.
fn list<'s>(plan: &Plan<'s>, machine: &Machine, outputs: &Outputs) -> Vec<Section<'s>> {
    let mut list = Vec::new();
    let program_headers = program_headers(plan);
    for item in &plan.items {
        let Item::Section(number) = item else {
            continue;
        };
        let placed = machine.placed[*number];
        if placed.size == 0 && !placed.kept {
            continue;
        }
        let description = &plan.descriptions[*number];
        let kind = machine.content.kinds[*number];
        let script = description.script;
        let mut flags = kind.flags & (shf::LOADING | shf::REMARKS);
        if outputs.sections[description.output.index()]
            .linked
            .is_none()
        {
            flags &= !shf::LINK_ORDER;
        }
        let mut entsize = kind.entsize;
        if let Some(pieces) = kind.only_pieces(placed.size) {
            flags |= pieces.flags();
            entsize = pieces.entsize.into();
        }
        if !kind.present && placed.alloc {
            flags |= shf::ALLOC;
            if !begins_with_data(description) {
                flags |= shf::WRITE;
            }
        }
        if !placed.alloc {
            flags &= !shf::ALLOC;
        }
        if script.is_some_and(|script| script.readonly) {
            flags &= !shf::WRITE;
        }
        let sh_type = section_type(plan, machine, *number);
        list.push(Section {
            output: description.output,
            name: outputs.sections[description.output.index()].name.to_vec(),
            sh_type,
            flags,
            address: placed.address,
            load_address: placed.load_address,
            size: placed.size,
            align: fitting(placed.own_align, placed.address),
            entsize,
            bits: sh_type != c::SHT_NOBITS,
            no_load: is_not_loaded(plan, machine, *number),
            region: machine.region_of(*number),
            phdrs: program_headers[*number],
            offset: 0,
        });
    }
    list
}

/// The alignment of a section that was given this address: as with GNU ld no more than the address has (gABI, "Sections").
fn fitting(align: u64, address: u64) -> u64 {
    match address.is_multiple_of(align.max(1)) {
        true => align,
        false => 1 << address.trailing_zeros(),
    }
}

/// The type of a description's output section.
fn section_type(plan: &Plan, machine: &Machine, number: usize) -> u32 {
    let (placed, kind) = (machine.placed[number], machine.content.kinds[number]);
    let script = plan.descriptions[number].script;
    let given_type = script.and_then(|script| script.elf_type.as_ref());
    let given_type = given_type.and_then(|expr| expr.resolve(machine).ok());
    match (given_type, placed.bits, kind.section_type()) {
        (Some(given), _, _) => given as u32,
        (None, false, _) => c::SHT_NOBITS,
        // Bytes that the script itself puts there.
        (None, true, c::SHT_NOBITS) => c::SHT_PROGBITS,
        (None, true, sh_type) => sh_type,
    }
}

/// Whether a description's output section has no bytes in the file although what is in it has.
fn is_not_loaded(plan: &Plan, machine: &Machine, number: usize) -> bool {
    machine.content.kinds[number].bits && section_type(plan, machine, number) == c::SHT_NOBITS
}

/// The program headers of each description: those that it names, else those of the description before it, whether
/// anything is in that or not; before the first that names some, as that one.
fn program_headers<'s>(plan: &Plan<'s>) -> Vec<&'s [Vec<u8>]> {
    let descriptions = plan.items.iter().filter_map(|item| match item {
        Item::Section(number) => Some(*number),
        _ => None,
    });
    let named = |number: usize| {
        let script = plan.descriptions[number].script;
        script
            .map(|script| &script.phdrs[..])
            .filter(|phdrs| !phdrs.is_empty())
    };
    let mut headers: Vec<&[Vec<u8>]> = vec![&[]; plan.descriptions.len()];
    let mut current = descriptions.clone().find_map(named).unwrap_or_default();
    for number in descriptions {
        current = named(number).unwrap_or(current);
        headers[number] = current;
    }
    headers
}

/// The words of `.relr.dyn`.
///
/// # Errors
/// The size that it must have, if it has less.
fn relr_table(facts: &Facts, machine: &Machine) -> Result<Vec<u64>, u64> {
    if !facts.mode.pack {
        return Ok(Vec::new());
    }
    let output = |part: PartId| {
        let parts = &machine.located.outputs.parts;
        let number = parts
            .get(part.index())?
            .output
            .index()
            .checked_sub(STANDARD_COUNT as usize)?;
        Some(machine.placed[number].address)
    };
    let section = |id: SectionId| {
        let start = output(facts.sections.part[id.index()])?;
        Some(start.wrapping_add(machine.offset[id.index()]))
    };
    let got = Std::Got.part();
    let got_start = output(got)
        .unwrap_or_default()
        .wrapping_add(machine.extents[got.index()].offset);
    let addresses = relr::scripted(facts.needs, facts.got, facts.mode, section, got_start);
    let mut size = machine.made[Std::RelrDyn.part().index()].0;
    match relr::fit(addresses, &mut size) {
        Ok(Some(table)) => Ok(table),
        Ok(None) => Err(size),
        Err(odd) => {
            facts.diag.error(relr::odd(odd));
            Ok(Vec::new())
        }
    }
}

/// What has segments of its own.
fn special(plan: &Plan, facts: &Facts, machine: &Machine) -> Special {
    let outputs = machine.located.outputs;
    let range = |std: Std| {
        let part = std.part();
        let (size, align) = machine.made[part.index()];
        let description = outputs.parts[part.index()]
            .output
            .index()
            .checked_sub(STANDARD_COUNT as usize)?;
        let is_there = size > 0 && !is_not_loaded(plan, machine, description);
        is_there.then(|| Range {
            address: machine.placed[description]
                .address
                .wrapping_add(machine.extents[part.index()].offset),
            size,
            align,
            flags: outputs.std(std).flags,
        })
    };
    Special {
        interpreter: range(Std::Interp),
        dynamic: range(Std::Dynamic),
        property: range(Std::NoteProperty),
        frames: range(Std::EhFrameHdr),
        sframe: range(Std::Sframe),
        relro: machine.protected().filter(|_| facts.args.z.relro),
        executable_stack: facts.executable_stack,
        headers_loaded: machine.counts_headers.get(),
    }
}

/// Says, in GNU ld's words, which sections are at the same addresses.
fn check_overlaps(plan: &Plan, args: &Args, list: &[Section], diag: &Diagnostics) {
    let takes_space = |section: &&Section| {
        section.flags & shf::ALLOC != 0
            && section.size > 0
            && (section.bits || section.flags & shf::TLS == 0)
    };
    for section in list.iter().filter(takes_space) {
        let ends = section.address.checked_add(section.size);
        if ends.is_none() || section.load_address.checked_add(section.size).is_none() {
            diag.error(format!(
                "section {} wraps around the address space: {:#x} bytes at {:#x}",
                String::from_utf8_lossy(&section.name),
                section.size,
                section.address
            ));
            return;
        }
    }
    if !args.check_sections {
        return;
    }
    let overlaid = plan.descriptions.iter().filter(|d| d.overlay.is_some());
    let overlaid: HashSet<OutputId> = overlaid.map(|d| d.output).collect();
    let check = |what: &str, of: &dyn Fn(&Section) -> u64, loaded: bool| {
        let mut sections: Vec<&Section> = list
            .iter()
            .filter(takes_space)
            .filter(|section| match loaded {
                // What has no bytes is not loaded from anywhere.
                true => section.bits,
                false => !overlaid.contains(&section.output),
            })
            .collect();
        sections.sort_by_key(|section| of(section));
        for pair in sections.windows(2) {
            let (first, second) = (pair[0], pair[1]);
            let end = |section: &Section| of(section) + (section.size - 1);
            if end(first) >= of(second) {
                diag.pardonable(format!(
                    "section {} {what} [{:016x},{:016x}] overlaps section {} {what} [{:016x},{:016x}]",
                    String::from_utf8_lossy(&second.name),
                    of(second),
                    end(second),
                    String::from_utf8_lossy(&first.name),
                    of(first),
                    end(first),
                ));
            }
        }
        diag.has_errors()
    };
    let lma = |section: &Section| section.load_address;
    if !check("LMA", &lma, true) {
        check("VMA", &|section: &Section| section.address, false);
    }
}
