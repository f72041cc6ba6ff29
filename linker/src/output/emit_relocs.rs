//! `--emit-relocs`: the output keeps the relocations that were applied, for tools that
//! rewrite programs (the Linux kernel's own relocator, post-link optimisers).
//!
//! For each output section with relocations there is another one, `.rela` and its name,
//! which nothing loads. A relocation's place is an address (in debugging information, an
//! offset). It names the symbol that the input named, if that is in the symbol table;
//! else the symbol of the output section in which the target is, with an addend that leads
//! to the same byte. So output sections have symbols, too. Relocations to what is not in the
//! output have become `R_X86_64_NONE`.
//!
//! Instructions that were relaxed have the relocation that describes what stands there now
//! if there is one: a load from the GOT that became an address computation, say. Sequences
//! for thread-local storage keep theirs as a mark.
//!
//! The tables are planned when everything is placed, as their sizes count, and written when
//! everything else is.

use crate::args::Args;
use crate::base::ids::{FileId, OutputId, PartId, SectionId, SymbolId};
use crate::elf::x86_64::reloc;
use crate::elf::{Rela, Sym, c};
use crate::graph::eh_frame_records::{FrameLayout, Frames, cie_fixups, fde_fixups};
use crate::input::file::Files;
use crate::input::object::Fixups;
use crate::input::parts::{Fixup, Piece, Place, Symbol, Target};
use crate::layout::address_map::Places;
use crate::layout::placement::Placement;
use crate::layout::section_index::SectionIndex;
use crate::layout::symtab::{Chooser, SymtabLayout};
use crate::messages::diag::Diagnostics;
use crate::resolve::input_sections::{Sections, state};
use crate::resolve::output_sections::{OutputSection, Outputs, Std, runs_backwards};
use rayon::prelude::*;
use std::borrow::Cow;
use std::collections::HashMap;

/// What a run of relocations comes from.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// An input section.
    Section(SectionId),
    /// A CIE of the output's `.eh_frame`, by index.
    Cie(u32),
    /// The frame descriptions of a file.
    Frames(FileId),
}

/// Relocations that stand together, of one source.
#[derive(Clone, Copy, Debug)]
struct Run {
    source: Source,
    /// The section in which they are applied.
    output: OutputId,
    /// Where the source is in it.
    offset: u64,
    /// How many there are.
    count: usize,
}

/// The relocations that are kept.
pub struct Kept {
    /// By output section and offset.
    runs: Vec<Run>,
    /// Each output section with relocations, and the section with these.
    tables: Vec<(OutputId, OutputId)>,
    /// Output sections that have symbols, in the order of the symbol table.
    named: Vec<OutputId>,
}

/// What decides about where everything goes.
#[derive(Clone, Copy)]
pub struct Placed<'l, 'a> {
    /// The inputs.
    pub files: &'l Files<'a>,
    /// Their sections.
    pub sections: &'l Sections,
    /// Where they are.
    pub placement: &'l Placement,
    /// Frames of all files.
    pub frames: &'l Frames,
    /// Where they go.
    pub frame_layout: &'l FrameLayout,
}

impl Kept {
    /// Finds the relocations that are kept, and makes room for them and for the symbols that they need. `None` without
    /// `--emit-relocs`, or if there can be none. `standing` are the output sections that are in the output, in order.
    pub fn plan(
        args: &Args,
        placed: &Placed,
        standing: &[OutputId],
        outputs: &mut Outputs,
        symtab: Option<&mut SymtabLayout>,
        diag: &Diagnostics,
    ) -> Option<Kept> {
        if !args.emit_relocs {
            return None;
        }
        let Some(symtab) = symtab else {
            diag.error(
                "--emit-relocs and -s cannot be used together: relocations need the symbol table",
            );
            return None;
        };
        let mut runs = section_runs(placed, outputs);
        frame_runs(placed, outputs, &mut runs);
        runs.retain(|run| run.count > 0);
        let mut place = vec![usize::MAX; outputs.sections.len()];
        for (number, id) in standing.iter().enumerate() {
            place[id.index()] = number;
        }
        runs.sort_by_key(|run| (place[run.output.index()], run.output, run.offset));
        let mut tables: Vec<(OutputId, OutputId)> = Vec::new();
        for of_output in runs.chunk_by(|a, b| a.output == b.output) {
            let target = of_output[0].output;
            let count: usize = of_output.iter().map(|run| run.count).sum();
            let name = [b".rela", &*outputs.sections[target.index()].name].concat();
            let id = OutputId(outputs.sections.len() as u32);
            outputs.sections.push(OutputSection {
                name: Cow::Owned(name),
                sh_type: c::SHT_RELA,
                flags: 0,
                entsize: size_of::<Rela>() as u64,
                relro: false,
                rank: outputs.std(Std::Symtab).rank - 1,
                address: 0,
                load_offset: 0,
                offset: 0,
                size: (count * size_of::<Rela>()) as u64,
                room: 0,
                align: 8,
                header: 0,
                relocates: Some(target),
                linked: None,
                no_load: false,
            });
            tables.push((target, id));
        }
        let named: Vec<OutputId> = standing
            .iter()
            .copied()
            .filter(|id| {
                let section = &outputs.sections[id.index()];
                let table = [Std::Symtab, Std::Strtab, Std::ShStrtab].map(Std::id);
                section.size > 0 && section.relocates.is_none() && !table.contains(id)
            })
            .collect();
        symtab.add_section_symbols(named.len() as u32);
        outputs.std_mut(Std::Symtab).size += (named.len() * size_of::<Sym>()) as u64;
        Some(Kept {
            runs,
            tables,
            named,
        })
    }

    /// The sections that have symbols, in their order.
    pub fn named(&self) -> &[OutputId] {
        &self.named
    }

    /// Writes the tables and the sections' symbols into the image, in which everything else is written.
    pub fn write(
        &self,
        places: &Places,
        placed: &Placed,
        chooser: &Chooser,
        symtab: &SymtabLayout,
        image: &mut [u8],
    ) {
        let writer = Writer {
            places,
            placed,
            index: SymbolIndex::new(self, chooser, symtab, places.outputs),
        };
        let mut runs = &self.runs[..];
        for (target, table) in &self.tables {
            let end = runs.partition_point(|run| run.output <= *target);
            let (own, rest) = runs.split_at(end);
            runs = rest;
            let relas: Vec<Vec<Rela>> = own
                .par_iter()
                .map(|run| writer.relocations(run, image))
                .collect();
            let mut at = places.outputs.sections[table.index()].offset as usize;
            for relas in relas {
                let bytes: &[u8] = bytemuck::cast_slice(&relas);
                image[at..at + bytes.len()].copy_from_slice(bytes);
                at += bytes.len();
            }
        }
        let start = places.outputs.std(Std::Symtab).offset as usize + size_of::<Sym>();
        let size = self.named.len() * size_of::<Sym>();
        let symbols: &mut [Sym] = bytemuck::cast_slice_mut(&mut image[start..start + size]);
        for (sym, id) in symbols.iter_mut().zip(&self.named) {
            let section = &places.outputs.sections[id.index()];
            *sym = Sym {
                st_name: 0,
                st_info: c::STT_SECTION,
                st_other: 0,
                st_shndx: SectionIndex::of_header(section.header).st_shndx(),
                st_value: section.address,
                st_size: 0,
            };
        }
    }
}

/// The runs of input sections that are copied to the output.
fn section_runs(placed: &Placed, outputs: &Outputs) -> Vec<Run> {
    let sections = placed.sections;
    (0..sections.count() as u32)
        .into_par_iter()
        .map(SectionId)
        .filter_map(|id| {
            let part = sections.part[id.index()];
            let relocations = sections.relocations[id.index()];
            let bits = state::ALIVE | state::BITS;
            if part == PartId::NONE || relocations == 0 || sections.state(id) & bits != bits {
                return None;
            }
            let info = &outputs.parts[part.index()];
            if info.merge.is_some() {
                return None;
            }
            let (file, number) = sections.origin(id);
            Some(Run {
                source: Source::Section(id),
                output: info.output,
                offset: placed.placement.offset(id),
                count: placed.files.object(file).fixups(number, relocations).len(),
            })
        })
        .collect()
}

/// The runs of `.eh_frame`, which a linker script may have put into another section.
fn frame_runs(placed: &Placed, outputs: &Outputs, runs: &mut Vec<Run>) {
    let part = Std::EhFrame.part().index();
    let output = outputs.parts[part].output;
    let start = placed.placement.parts[part].offset;
    for (index, cie) in (0..).zip(&placed.frame_layout.cies) {
        let input = &placed.frames.of(cie.file).cies[cie.index as usize];
        runs.push(Run {
            source: Source::Cie(index),
            output,
            offset: start.wrapping_add(cie.offset.into()),
            count: (input.relocations.1 - input.relocations.0) as usize,
        });
    }
    for (file, _) in placed.files.iter() {
        let live = placed.frames.of(file).fdes.iter().filter(|fde| {
            let described = placed.sections.id(file, fde.describes);
            placed.sections.is_alive(described)
        });
        runs.push(Run {
            source: Source::Frames(file),
            output,
            offset: start.wrapping_add(placed.frame_layout.file_offsets[file.index()]),
            count: live
                .map(|fde| (fde.relocations.1 - fde.relocations.0) as usize)
                .sum(),
        });
    }
}

/// Indices in the output's symbol table.
struct SymbolIndex {
    /// By file and symbol; 0 for those that are not in the table.
    of_file: Vec<Vec<u32>>,
    /// Of symbols that no object defines.
    others: HashMap<SymbolId, u32>,
    /// By [`OutputId`]; 0 for none.
    of_section: Vec<u32>,
}

impl SymbolIndex {
    fn new(kept: &Kept, chooser: &Chooser, symtab: &SymtabLayout, outputs: &Outputs) -> Self {
        let mut of_section = vec![0; outputs.sections.len()];
        for (index, id) in (1..).zip(&kept.named) {
            of_section[id.index()] = index;
        }
        let (mut local, mut global) = (1 + kept.named.len() as u32, symtab.local_count);
        let starts: Vec<(u32, u32)> = symtab
            .shares
            .iter()
            .map(|share| {
                let start = (local, global);
                local += share.locals;
                global += share.globals;
                start
            })
            .collect();
        let of_file = starts
            .par_iter()
            .enumerate()
            .map(|(i, (local, global))| {
                let id = FileId(i as u32);
                let file = chooser.files.get(id);
                if !chooser.sections.is_linked(id) {
                    return Vec::new();
                }
                let mut map = vec![0; file.symbol_count() as usize];
                let (mut local, mut global) = (*local, *global);
                chooser.each(id, file, |index, _, _, is_global| {
                    let next = if is_global { &mut global } else { &mut local };
                    map[index as usize] = *next;
                    *next += 1;
                });
                map
            })
            .collect();
        // The linker's own are those of its file: the local ones first.
        let (locals, globals) = symtab.others.split_at(symtab.shares[0].locals as usize);
        let (local, global) = starts[0];
        let others = (locals.iter().zip(local..)).chain(globals.iter().zip(global..));
        SymbolIndex {
            of_file,
            others: others.map(|(id, index)| (*id, index)).collect(),
            of_section,
        }
    }

    fn of_symbol(&self, file: FileId, index: u32) -> u32 {
        let map = &self.of_file[file.index()];
        map.get(index as usize).copied().unwrap_or(0)
    }
}

struct Writer<'l, 'a> {
    places: &'l Places<'l, 'a>,
    placed: &'l Placed<'l, 'a>,
    index: SymbolIndex,
}

/// The site of one record or section: what is added to an offset in the input to have the place in the output.
struct Site {
    file: FileId,
    output: OutputId,
    /// Place of the input's offset 0, in the output section.
    start: u64,
    /// Size of the input section, if its words stand in reverse order.
    reversed: Option<u64>,
}

impl Writer<'_, '_> {
    fn relocations(&self, run: &Run, image: &[u8]) -> Vec<Rela> {
        let mut relas = Vec::with_capacity(run.count);
        let mut take = |site: &Site, fixups: Fixups| {
            fixups.for_each(|fixup| relas.push(self.relocation(site, &fixup, image)));
        };
        let Placed {
            files,
            sections,
            frames,
            frame_layout,
            ..
        } = *self.placed;
        let site = |file, start| Site {
            file,
            output: run.output,
            start,
            reversed: None,
        };
        match run.source {
            Source::Section(id) => {
                let input = sections.at(files, id);
                let lists = [Std::InitArray, Std::FiniArray].map(Std::id);
                let section = input.header().filter(|section| {
                    lists.contains(&run.output)
                        && section.size.is_multiple_of(8)
                        && runs_backwards(section.name)
                });
                let site = Site {
                    reversed: section.map(|section| section.size),
                    ..site(input.file, run.offset)
                };
                take(&site, input.fixups());
            }
            Source::Cie(index) => {
                let cie = &frame_layout.cies[index as usize];
                let input = &frames.of(cie.file).cies[cie.index as usize];
                let start = run.offset.wrapping_sub(input.offset.into());
                let fixups = cie_fixups(files.object(cie.file), cie.file, sections, input);
                take(&site(cie.file, start), fixups);
            }
            Source::Frames(file) => {
                let mut at = run.offset;
                for fde in &frames.of(file).fdes {
                    if !sections.is_alive(sections.id(file, fde.describes)) {
                        continue;
                    }
                    let start = at.wrapping_sub(fde.offset.into());
                    let fixups = fde_fixups(files.object(file), file, sections, fde);
                    take(&site(file, start), fixups);
                    at += u64::from(fde.size);
                }
            }
        }
        relas
    }

    fn relocation(&self, site: &Site, fixup: &Fixup, image: &[u8]) -> Rela {
        let output = &self.places.outputs.sections[site.output.index()];
        let offset = match site.reversed {
            None => fixup.offset,
            Some(size) => size.wrapping_sub(8).wrapping_sub(fixup.offset),
        };
        let offset = site.start.wrapping_add(offset);
        let place = output.address.wrapping_add(offset);
        let Some((symbol, addend)) = self.target(site.file, fixup) else {
            return Rela::new(place, reloc::R_X86_64_NONE, 0, 0);
        };
        let bytes = output
            .offset
            .checked_add(offset)
            .and_then(|at| image.get(usize::try_from(at.checked_sub(2)?).ok()?..))
            .unwrap_or(&[]);
        let (shift, r_type, change) = relaxed(fixup.r_type, bytes);
        Rela::new(
            place.wrapping_sub(shift),
            r_type,
            symbol,
            addend.wrapping_add(change),
        )
    }

    /// Symbol and addend; `None` if the target is not in the output.
    fn target(&self, file: FileId, fixup: &Fixup) -> Option<(u32, i64)> {
        let places = self.places;
        let input = places.files.get(file);
        let object = places.files.object(file);
        let index = match fixup.target {
            Target::Symbol(0) => return Some((0, fixup.addend)),
            Target::Symbol(index) => index,
            Target::Section(number) => {
                return self.section(places.sections.get(file, number)?, fixup.addend as u64);
            }
            Target::Piece(id) => {
                let piece = Piece {
                    repository: object.repository()?.id,
                    id,
                };
                let part = places.piece_part(piece)?;
                let address = places.piece(piece)?;
                return self.inside(
                    places.outputs.parts[part.index()].output,
                    address,
                    fixup.addend,
                );
            }
        };
        if index >= object.symbol_count() {
            return None;
        }
        if index >= object.first_global() {
            return self.global(places.symbols.of(input, index), fixup.addend);
        }
        let symbol = object.symbol(index)?;
        match (self.index.of_symbol(file, index), symbol.place) {
            (0, Place::Section(number)) => {
                let section = places.sections.get(file, number)?;
                if symbol.kind() == c::STT_SECTION {
                    let offset = symbol.value.wrapping_add(fixup.addend as u64);
                    return self.section(section, offset);
                }
                let address = places.in_section(section, symbol.value)?;
                self.inside(self.output_of(section)?, address, fixup.addend)
            }
            (0, Place::Absolute) => Some((0, fixup.addend.wrapping_add(symbol.value as i64))),
            (0, _) => None,
            (known, _) => Some((known, fixup.addend)),
        }
    }

    fn global(&self, id: SymbolId, addend: i64) -> Option<(u32, i64)> {
        let places = self.places;
        if id == SymbolId::NONE {
            // Some errors do not stop a link (`--noinhibit-exec`): a relocation can be left whose symbol nothing knows.
            return None;
        }
        let key = places.symbols.key(id);
        if !key.in_object() {
            return Some((*self.index.others.get(&id)?, addend));
        }
        let known = self.index.of_symbol(key.file(), key.index());
        if known != 0 {
            return Some((known, addend));
        }
        let symbol: Symbol = places.files.object(key.file()).symbol(key.index())?;
        if symbol.place == Place::Absolute {
            return Some((0, addend.wrapping_add(symbol.value as i64)));
        }
        let output = match places.definitions.section(id) {
            SectionId::NONE => places.output_of(id, key)?,
            section => self.output_of(section)?,
        };
        self.inside(output, places.definition(id), addend)
    }

    /// By the symbol of an output section, so many bytes behind an address.
    fn inside(&self, output: OutputId, address: u64, addend: i64) -> Option<(u32, i64)> {
        let outputs = &self.places.outputs.sections;
        let symbol = |id: usize| (self.index.of_section[id], outputs[id].address);
        let (symbol, start) = match symbol(output.index()) {
            // It is empty and so not in the output, but its start is a place that is.
            (0, _) => (0..outputs.len())
                .filter(|id| {
                    let section = &outputs[*id];
                    let end = section.address.wrapping_add(section.size);
                    section.is_alloc() && section.address <= address && address <= end
                })
                .map(symbol)
                .find(|(symbol, _)| *symbol != 0)?,
            found => found,
        };
        let offset = address.wrapping_sub(start) as i64;
        Some((symbol, offset.wrapping_add(addend)))
    }

    /// By the symbol of an output section, a byte of an input section; in a merged section, the addend chooses
    /// the piece.
    fn section(&self, id: SectionId, offset: u64) -> Option<(u32, i64)> {
        let output = self.output_of(id)?;
        if self.places.is_merged(id) {
            return self.inside(output, self.places.in_section(id, offset)?, 0);
        }
        self.inside(output, self.places.in_section(id, 0)?, offset as i64)
    }

    fn output_of(&self, id: SectionId) -> Option<OutputId> {
        if !self.places.sections.is_alive(id) {
            // Perhaps it is the same as another, which stands for it.
            return self.output_of(self.places.folds.of(id)?);
        }
        let part = match self.places.sections.part[id.index()] {
            PartId::NONE => Std::EhFrame.part(),
            part => part,
        };
        Some(self.places.outputs.parts[part.index()].output)
    }
}

/// What describes an instruction now: how many bytes earlier the field is, the relocation's type, and what is
/// added to its addend. `bytes` are the output's, from the opcode on (psABI, "Optimize GOTPCRELX Relocations").
fn relaxed(r_type: u32, bytes: &[u8]) -> (u64, u32, i64) {
    if !matches!(
        r_type,
        reloc::R_X86_64_GOTPCRELX | reloc::R_X86_64_REX_GOTPCRELX
    ) {
        return (0, r_type, 0);
    }
    match bytes {
        // `lea`; `addr32 call`.
        [0x8d, ..] | [0x67, 0xe8, ..] => (0, reloc::R_X86_64_PC32, 0),
        // `jmp` is one byte shorter, with a `nop` behind it.
        [0xe9, _, _, _, _, 0x90, ..] => (1, reloc::R_X86_64_PC32, 0),
        // Immediate operands are not relative to the end of the field.
        [0xc7 | 0xf7 | 0x81, ..] => (0, reloc::R_X86_64_32S, 4),
        _ => (0, r_type, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relaxed_instructions_have_other_relocations() {
        let x = reloc::R_X86_64_REX_GOTPCRELX;
        assert_eq!(relaxed(x, &[0x8b, 5]), (0, x, 0));
        assert_eq!(relaxed(x, &[0x8d, 5]), (0, reloc::R_X86_64_PC32, 0));
        assert_eq!(relaxed(x, &[0xc7, 0xc0]), (0, reloc::R_X86_64_32S, 4));
        let call = reloc::R_X86_64_GOTPCRELX;
        assert_eq!(relaxed(call, &[0xff, 0x15]), (0, call, 0));
        assert_eq!(relaxed(call, &[0x67, 0xe8]), (0, reloc::R_X86_64_PC32, 0));
        assert_eq!(
            relaxed(call, &[0xe9, 0, 0, 0, 0, 0x90]),
            (1, reloc::R_X86_64_PC32, 0)
        );
        assert_eq!(
            relaxed(reloc::R_X86_64_PC32, &[0x8d, 5]),
            (0, reloc::R_X86_64_PC32, 0)
        );
    }
}
