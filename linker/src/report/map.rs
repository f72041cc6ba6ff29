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
//!
//! Here is what all outputs have in common: [`Inputs`]. What is where is told by [`image`], and for `-r` by [its own](crate::link::relocatable).

pub mod image;

use crate::args::Args;
use crate::base::ids::{FileId, SectionId, SymbolId};
use crate::base::key::rank;
use crate::elf::c;
use crate::input::file::Files;
use crate::messages::diag::Diagnostics;
use crate::report::columns::pad;
use crate::report::cross_reference::{self, Reasons};
use crate::resolve::input_sections::{Sections, state};
use crate::resolve::resolution::{Common, Definitions};
use crate::resolve::symbol_table::SymbolTable;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// What was linked.
pub struct Inputs<'l, 'a> {
    /// Options.
    pub args: &'l Args,
    /// All files.
    pub files: &'l Files<'a>,
    /// Their symbols.
    pub symbols: &'l SymbolTable<'a>,
    /// Where these are defined.
    pub definitions: &'l Definitions,
    /// The input sections.
    pub sections: &'l Sections,
    /// The paths of the objects, archives and shared objects of the command line and of scripts, in order.
    pub paths: &'l [&'a Path],
    /// Which files are linked.
    pub linked: &'l [bool],
    /// Symbols that options need, whoever refers to them.
    pub required: &'l [SymbolId],
    /// The common blocks that have places: in a relocatable output they may stay what they are.
    pub commons: &'l [Common],
    /// For the names of symbols.
    pub diag: &'l Diagnostics,
}

/// Whose bytes are not of any input.
pub(crate) const INTERNAL: &str = "<internal>";
/// Names of sections that are longer than this have a line of their own.
const NAME_WIDTH: usize = 15;

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

impl Inputs<'_, '_> {
    /// Writes the map and the cross reference table, as far as they are wanted; `layout` writes what is where. If they cannot
    /// be written the link fails.
    pub fn report(&self, layout: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        let Some(destination) = destination(self.args) else {
            return;
        };
        let (result, name) = match &destination {
            Destination::Output => (
                self.write(io::stdout().lock(), layout),
                "standard output".to_owned(),
            ),
            Destination::File(path) => (
                File::create(path).and_then(|file| self.write(file, layout)),
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

    fn write(
        &self,
        out: impl Write,
        layout: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
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
            layout(&mut out)?;
            writeln!(out, "OUTPUT({} elf64-x86-64)", self.args.output.display())?;
        }
        if self.args.cref {
            let table = cross_reference::table(self.files, self.symbols, self.linked);
            cross_reference::write(&mut out, &table, self.files, self.symbols, self.diag)?;
        }
        out.flush()
    }

    fn archive_members(&self, out: &mut dyn Write) -> io::Result<()> {
        let reasons = Reasons::new(self.required, self.files, self.symbols, self.linked);
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
            for (id, file) in self.files.iter() {
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
                    write!(out, "{} ", self.files.get(by))?;
                }
                writeln!(out, "({})", self.diag.show_name(self.symbols.name(symbol)))?;
            }
            if !is_first {
                writeln!(out)?;
            }
        }
        Ok(())
    }

    fn common_symbols(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.commons.is_empty() {
            return Ok(());
        }
        writeln!(out, "Allocating common symbols")?;
        writeln!(out, "{:<20}{:<18}file\n", "Common symbol", "size")?;
        for common in self.commons {
            let name = self.diag.show_name(self.symbols.name(common.symbol));
            write!(out, "{name}")?;
            pad(out, name.len(), 20)?;
            let file = self.files.get(common.file);
            writeln!(out, "{:<18}{file}", format!("{:#x}", common.size))?;
        }
        writeln!(out)
    }

    fn discarded(&self, out: &mut dyn Write) -> io::Result<()> {
        let sections = self.sections;
        writeln!(out, "Discarded input sections\n")?;
        for (id, file) in self.files.iter().filter(|(id, _)| sections.is_linked(*id)) {
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

    fn inputs(&self, out: &mut dyn Write) -> io::Result<()> {
        for path in self.paths {
            writeln!(out, "LOAD {}", path.display())?;
        }
        // What a plugin has made.
        let given: HashSet<&Path> = self.paths.iter().copied().collect();
        let files = self.files.iter().filter(|(id, _)| *id != FileId::LINKER);
        let mut made: Vec<&Path> = files.map(|(_, file)| file.path).collect();
        made.dedup();
        for path in made.iter().filter(|path| !given.contains(*path)) {
            writeln!(out, "LOAD {}", path.display())?;
        }
        writeln!(out)
    }

    /// Symbols that sections of objects define: section, offset, symbol; in order.
    pub(crate) fn defined_symbols(&self) -> Vec<(SectionId, u64, SymbolId)> {
        use rayon::prelude::*;
        let mut found: Vec<(SectionId, u64, SymbolId)> = self
            .symbols
            .ids()
            .filter(|id| matches!(self.symbols.key(*id).rank(), rank::STRONG | rank::WEAK))
            .map(|id| (self.definitions.section(id), self.definitions.value(id), id))
            .filter(|(section, _, _)| *section != SectionId::NONE)
            .collect();
        found.par_sort_unstable_by_key(|(section, offset, id)| {
            (*section, *offset, self.symbols.name(*id))
        });
        found
    }
}

/// Name, address and size, in columns.
pub(crate) fn line(
    out: &mut (impl Write + ?Sized),
    name: &str,
    address: u64,
    size: u64,
) -> io::Result<()> {
    write!(out, "{name}")?;
    if name.len() > NAME_WIDTH {
        write!(out, "\n{:16}", "")?;
    } else {
        pad(out, name.len(), NAME_WIDTH + 1)?;
    }
    write!(out, "{address:#018x} {size:>#10x}")
}
