//! The map of the output: `-Map`, `-M`.
//!
//! It is written as GNU ld writes it, because that is what scripts read: what was
//! taken from archives and why, common blocks, sections that were left out, and then,
//! output section by output section, each input section with its address, size and
//! file, and the symbols in it. What the linker itself made is said to come from the
//! file `<internal>`. A ticket stands under its own name, with the names of the
//! sections of its fragments.
//!
//! ```text
//! .text           0x0000000000001050      0x136
//!  .text.main     0x0000000000001139       0x37 a.o
//!                 0x0000000000001139                main
//! ```

use crate::addresses::Places;
use crate::args::Args;
use crate::cross_reference::{self, Reasons};
use crate::diag::Diagnostics;
use crate::elf::c;
use crate::frames::FrameLayout;
use crate::ids::{FileId, OutputId, PartId, SectionId, SymbolId};
use crate::output::{Std, subpart};
use crate::sections::state;
use crate::symbols::rank;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// What the map shows.
pub struct Map<'l, 'a> {
    /// Options.
    pub args: &'l Args,
    /// Where everything is.
    pub places: &'l Places<'l, 'a>,
    /// The paths of the objects, archives and shared objects of the command line and of scripts, in order.
    pub inputs: &'l [&'a Path],
    /// Which files are linked.
    pub linked: &'l [bool],
    /// Symbols that options need, whoever refers to them.
    pub required: &'l [SymbolId],
    /// Where the frames of each file are.
    pub frames: &'l FrameLayout,
    /// Size and alignment of what the linker makes, by part.
    pub made: &'l [(u64, u64)],
    /// For the names of symbols.
    pub diag: &'l Diagnostics,
}

/// Whose bytes are not of any input.
const INTERNAL: &str = "<internal>";
/// Names of sections that are longer than this have a line of their own.
const NAME_WIDTH: usize = 15;

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

/// Where the map goes; `None` if none is wanted. `-Map` names a file, or a directory in which it has the output's name and
/// `.map`; a `%` in it stands for the output.
pub fn destination(args: &Args) -> Option<Destination> {
    let Some(path) = &args.map_file else {
        return (args.print_map || args.cref).then_some(Destination::Output);
    };
    if path.as_os_str() == "-" {
        return Some(Destination::Output);
    }
    let text = path.to_string_lossy();
    if let Some((before, after)) = text.split_once('%') {
        let after = if after.is_empty() { ".map" } else { after };
        let name = format!("{before}{}{after}", args.output.display());
        return Some(Destination::File(name.into()));
    }
    if path.is_dir() {
        let mut name = args.output.file_name().unwrap_or_default().to_owned();
        name.push(".map");
        return Some(Destination::File(path.join(name)));
    }
    Some(Destination::File(path.clone()))
}

/// Where the map goes.
#[derive(Debug, PartialEq, Eq)]
pub enum Destination {
    /// To standard output.
    Output,
    /// To this file.
    File(PathBuf),
}

impl Map<'_, '_> {
    /// Writes the map and the cross reference table, as far as they are wanted. If they cannot be written the link fails.
    pub fn report(&self) {
        let Some(destination) = destination(self.args) else {
            return;
        };
        let (result, name) = match &destination {
            Destination::Output => (
                self.write(io::stdout().lock()),
                "standard output".to_owned(),
            ),
            Destination::File(path) => (
                File::create(path).and_then(|file| self.write(file)),
                path.display().to_string(),
            ),
        };
        match result {
            // Whoever reads a part of the map only, as `head` does, has what he wants.
            Err(why) if why.kind() == io::ErrorKind::BrokenPipe => {}
            Err(why) => self
                .diag
                .error(format!("cannot write the map to {name}: {why}")),
            Ok(()) => {}
        }
    }

    fn write(&self, out: impl Write) -> io::Result<()> {
        let mut out = BufWriter::new(out);
        // `--cref` alone is a table without a map.
        if self.args.print_map || self.args.map_file.is_some() {
            self.archive_members(&mut out)?;
            self.common_symbols(&mut out)?;
            self.discarded(&mut out)?;
            writeln!(out, "\nMemory Configuration\n")?;
            writeln!(
                out,
                "{:<16} {:<18} {:<18} Attributes",
                "Name", "Origin", "Length"
            )?;
            writeln!(out, "{:<16} {:#018x} {:#018x}", "*default*", 0, u64::MAX)?;
            writeln!(out, "\nLinker script and memory map\n")?;
            self.inputs(&mut out)?;
            self.sections(&mut out)?;
            self.linker_symbols(&mut out)?;
            writeln!(out, "OUTPUT({} elf64-x86-64)", self.args.output.display())?;
        }
        if self.args.cref {
            let table = cross_reference::table(self.places.files, self.places.symbols, self.linked);
            cross_reference::write(
                &mut out,
                &table,
                self.places.files,
                self.places.symbols,
                self.diag,
            )?;
        }
        out.flush()
    }

    fn archive_members(&self, out: &mut impl Write) -> io::Result<()> {
        let places = self.places;
        let reasons = Reasons::new(self.required, places.files, places.symbols, self.linked);
        for (title, wanted) in [
            (
                "Archive member included to satisfy reference by file (symbol)",
                true,
            ),
            (
                "As-needed library included to satisfy reference by file (symbol)",
                false,
            ),
        ] {
            let mut is_first = true;
            for (id, file) in places.files.iter() {
                let kind = match wanted {
                    true => file.lazy && file.object().is_some(),
                    false => file.as_needed && file.shared().is_some(),
                };
                let (true, Some((by, symbol))) = (kind, reasons.of(id)) else {
                    continue;
                };
                if std::mem::take(&mut is_first) {
                    writeln!(out, "{title}\n")?;
                }
                let name = file.to_string();
                write!(out, "{name}")?;
                pad(out, name.len(), 30)?;
                if by != FileId::LINKER {
                    write!(out, "{} ", places.files.get(by))?;
                }
                writeln!(
                    out,
                    "({})",
                    self.diag.show_name(places.symbols.name(symbol))
                )?;
            }
            if !is_first {
                writeln!(out)?;
            }
        }
        Ok(())
    }

    fn common_symbols(&self, out: &mut impl Write) -> io::Result<()> {
        let places = self.places;
        let mut commons = places.definitions.commons_of(places.symbols).peekable();
        if commons.peek().is_none() {
            return Ok(());
        }
        writeln!(out, "Allocating common symbols")?;
        writeln!(out, "{:<20}{:<18}file\n", "Common symbol", "size")?;
        for common in commons {
            let name = self.diag.show_name(places.symbols.name(common.symbol));
            write!(out, "{name}")?;
            pad(out, name.len(), 20)?;
            let file = places.files.get(common.file);
            writeln!(out, "{:<18}{file}", format!("{:#x}", common.size))?;
        }
        writeln!(out)
    }

    fn discarded(&self, out: &mut impl Write) -> io::Result<()> {
        let (files, sections) = (self.places.files, self.places.sections);
        writeln!(out, "Discarded input sections\n")?;
        for (id, file) in files.iter().filter(|(id, _)| sections.is_linked(*id)) {
            let Some(object) = file.object() else {
                continue;
            };
            for number in 1..object.section_count() {
                let Some(section) = object.section(number) else {
                    continue;
                };
                let is_table = matches!(
                    section.sh_type,
                    c::SHT_NULL
                        | c::SHT_SYMTAB
                        | c::SHT_STRTAB
                        | c::SHT_RELA
                        | c::SHT_GROUP
                        | c::SHT_SYMTAB_SHNDX
                );
                if is_table || sections.state(sections.id(id, number)) & state::ALIVE != 0 {
                    continue;
                }
                let name = object.full_name(number, &section);
                let name = String::from_utf8_lossy(&name);
                line(out, &format!(" {name}"), 0, section.size)?;
                writeln!(out, " {file}")?;
            }
        }
        Ok(())
    }

    fn inputs(&self, out: &mut impl Write) -> io::Result<()> {
        for path in self.inputs {
            writeln!(out, "LOAD {}", path.display())?;
        }
        // What a plugin has made.
        let given: HashSet<&Path> = self.inputs.iter().copied().collect();
        let files = self
            .places
            .files
            .iter()
            .filter(|(id, _)| *id != FileId::LINKER);
        let mut made: Vec<&Path> = files.map(|(_, file)| file.path).collect();
        made.dedup();
        for path in made.iter().filter(|path| !given.contains(*path)) {
            writeln!(out, "LOAD {}", path.display())?;
        }
        writeln!(out)
    }

    fn sections(&self, out: &mut impl Write) -> io::Result<()> {
        let outputs = self.places.outputs;
        let symbols = self.defined_symbols();
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
                    let name = self.diag.show_name(self.places.symbols.name(symbol));
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

    /// Symbols that sections of objects define: section, offset, symbol; in order.
    fn defined_symbols(&self) -> Vec<(SectionId, u64, SymbolId)> {
        use rayon::prelude::*;
        let places = self.places;
        let mut found: Vec<(SectionId, u64, SymbolId)> = places
            .symbols
            .ids()
            .filter(|id| matches!(places.symbols.key(*id).rank(), rank::STRONG | rank::WEAK))
            .map(|id| {
                (
                    places.definitions.section(id),
                    places.definitions.value(id),
                    id,
                )
            })
            .filter(|(section, _, _)| *section != SectionId::NONE)
            .collect();
        found.par_sort_unstable_by_key(|(section, offset, id)| {
            (*section, *offset, places.symbols.name(*id))
        });
        found
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
        let (file, number) = self.places.sections.origin(id);
        let object = self.places.files.object(file);
        let section = object.section(number);
        let jump = self.places.folds.jump_size(id, object, number);
        let start = symbols.partition_point(|(section, _, _)| *section < id);
        let own = symbols[start..]
            .iter()
            .take_while(|(section, _, _)| *section == id);
        Entry {
            offset,
            size: jump.unwrap_or(section.map_or(0, |section| section.size)),
            name: section.map_or_else(String::new, |section| {
                String::from_utf8_lossy(&object.full_name(number, &section)).into_owned()
            }),
            file: self.places.files.get(file).to_string(),
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
            let commons = definitions.commons_of(places.symbols);
            let mut own: Vec<Entry> = commons
                .filter(|common| definitions.common_part(common.symbol, common.tls) == part)
                .map(|common| Entry {
                    offset: offset + places.definitions.value(common.symbol),
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
    fn linker_symbols(&self, out: &mut impl Write) -> io::Result<()> {
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
            let name = self.diag.show_name(name);
            writeln!(out, "{:16}{address:#018x}{:16}{name} = .", "", "")?;
        }
        Ok(())
    }
}

/// Name, address and size, in columns.
fn line(out: &mut impl Write, name: &str, address: u64, size: u64) -> io::Result<()> {
    write!(out, "{name}")?;
    if name.len() > NAME_WIDTH {
        write!(out, "\n{:16}", "")?;
    } else {
        pad(out, name.len(), NAME_WIDTH + 1)?;
    }
    write!(out, "{address:#018x} {size:>#10x}")
}

/// Goes to a column; on a new line, if the text before it is too long.
pub(crate) fn pad(out: &mut impl Write, written: usize, column: usize) -> io::Result<()> {
    if written < column {
        write!(out, "{:1$}", "", column - written)
    } else {
        write!(out, "\n{:column$}", "")
    }
}
