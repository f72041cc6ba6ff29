//! Room for edits: how much larger things are made than they are, in an output that will be linked incrementally.
//!
//! What grows within its room keeps its place, and nobody that refers to it need be touched. There is room behind each
//! section of code and data, behind all that a file has in a part of the output, behind its frame descriptions, and behind
//! merged pieces and the table of frames; and, though they are not part of them until they are used, behind lists of functions.
//! There is none where whoever walks over a section must find one thing behind the other: in notes, and sections whose bounds
//! have names. Parts of which most programs come to have something have room before they do.

mod filler;

pub use filler::{ABBREVIATIONS, Filler, NOP, padding};

use crate::args::{
    Args, CompressDebug, Defsym, IcfMode, Incremental, OutputFormat, OutputKind, PackDynRelocs,
};
use crate::base::ids::PartId;
use crate::elf::{c, shf};
use crate::resolve::output_sections::{Custom, MergeKind, subpart};
use crate::resolve::output_sections::{Order, Outputs, Part, Std};

/// Whether, and so how much, room is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room(bool);

impl Room {
    /// No room: the output is as small as can be.
    pub const NONE: Room = Room(false);

    /// Room, as in an output that will be linked incrementally.
    pub const ROOMY: Room = Room(true);

    /// As the options say.
    pub fn of(args: &Args) -> Room {
        Room(wanted(args).is_ok())
    }

    /// The room that files may have in a part.
    pub fn kind(self, outputs: &Outputs, part: PartId) -> Kind {
        match self.0 {
            true => kind(outputs, &outputs.parts[part.index()]),
            false => Kind::None,
        }
    }

    /// Bytes behind a section.
    pub fn of_section(self, size: u64) -> u64 {
        match self.0 && size > 0 {
            true => size / 8 + 8,
            false => 0,
        }
    }

    /// Bytes behind all that a file has in a part of a kind.
    pub fn of_chunk(self, kind: Kind, size: u64) -> u64 {
        match kind {
            Kind::Gaps if size > 0 => size / 16 + 64,
            Kind::Filled(_) if size > 0 => (size / 8 + 96).next_multiple_of(16),
            _ => 0,
        }
    }

    /// Bytes behind all files' chunks in a part, for new ones.
    pub fn of_part(self, kind: Kind, size: u64) -> u64 {
        match kind {
            Kind::Gaps | Kind::Filled(_) if size > 0 => {
                (size / 32).clamp(16 << 10, 4 << 20).next_multiple_of(16)
            }
            _ => 0,
        }
    }

    /// Bytes of a part in which no file has anything, for the first that does. Of thread-local storage it is less: each thread
    /// of each program has it.
    pub fn of_first(self, part: PartId) -> u64 {
        match self.0 {
            true if FIRST.contains(&part) => 4 << 10,
            true if FIRST_OF_THREADS.contains(&part) => 256,
            _ => 0,
        }
    }

    /// What parts to which sections may come are aligned to: as much as is asked for now and then.
    pub fn align(self, part: PartId) -> u64 {
        match self.0 && (FIRST.contains(&part) || FIRST_OF_THREADS.contains(&part)) {
            true => 64,
            false => 1,
        }
    }

    /// Bytes for the first merged pieces of a kind.
    pub fn of_first_pieces(self) -> u64 {
        match self.0 {
            true => 1024,
            false => 0,
        }
    }

    /// Makes the parts for pieces of the usual kinds, whether or not there are some.
    pub fn add_kinds(self, outputs: &mut Outputs) {
        if !self.0 || outputs.rules.is_some() {
            return;
        }
        for (strings, entsize) in PIECES {
            let kind = MergeKind { strings, entsize };
            // Fewer parts than there can be are there always.
            let _ = outputs.custom(&Custom {
                name: b".rodata",
                sh_type: c::SHT_PROGBITS,
                flags: shf::ALLOC | kind.flags(),
                merge: Some(kind),
                sort: Order::Input,
                alone: None,
                rule: None,
            });
        }
    }

    /// Local symbols that a file may come to have.
    pub fn of_locals(self, count: u32) -> u32 {
        match self.0 {
            true => count / 8 + 4,
            false => 0,
        }
    }

    /// Local symbols behind those of all files that are not used yet.
    pub fn of_all_locals(self, count: u32) -> u32 {
        match self.0 && count > 0 {
            true => count / 16 + 128,
            false => 0,
        }
    }

    /// Records at the end of the symbol table that are not used yet.
    pub fn of_symbols(self, count: u32) -> u64 {
        match self.0 {
            true => u64::from(count) / 16 + 256,
            false => 0,
        }
    }

    /// Bytes at the end of the symbols' names that are not used yet.
    pub fn of_names(self, size: u64) -> u64 {
        match self.0 {
            true => size / 16 + (8 << 10),
            false => 0,
        }
    }

    /// Bytes behind a file's frame descriptions: a multiple of what they are aligned to.
    pub fn of_frames(self, size: u64) -> u64 {
        match self.0 && size > 0 {
            true => (size / 8 + 96).next_multiple_of(8),
            false => 0,
        }
    }

    /// Bytes behind the frame descriptions of all files, for new files and for those that outgrow their room: nothing, or enough
    /// for a [record that says nothing](crate::elf::eh_frame::fill).
    pub fn of_all_frames(self, size: u64) -> u64 {
        match self.0 && size > 0 {
            true => (size / 32).clamp(4 << 10, 1 << 20).next_multiple_of(8),
            false => 0,
        }
    }

    /// Rows of the table of frames that are not used yet.
    pub fn of_rows(self, rows: usize) -> usize {
        match self.0 {
            true => rows / 16 + 64,
            false => 0,
        }
    }

    /// Relative relocations that are not used yet.
    pub fn of_relocations(self, count: u32) -> u32 {
        match self.0 && count > 0 {
            true => count / 16 + 256,
            false => 0,
        }
    }

    /// Relocations that name symbols and are not used yet, beside so many.
    pub fn of_symbolic(self, count: u32) -> u32 {
        match self.0 {
            true => count / 8 + 64,
            false => 0,
        }
    }

    /// Imported symbols that may come beside so many: each has a slot, a direct PLT entry, a relocation, and a dynamic symbol.
    pub fn of_imports(self, count: u32) -> u32 {
        match self.0 && count > 0 {
            true => count / 8 + 32,
            false => 0,
        }
    }

    /// Symbols that others may come to find, beside so many.
    pub fn of_exports(self, count: u32) -> u32 {
        match self.0 {
            true => count / 8 + 32,
            false => 0,
        }
    }

    /// Libraries that an output may come to need: so many entries of `.dynamic`.
    pub fn of_libraries(self) -> u32 {
        match self.0 {
            true => 8,
            false => 0,
        }
    }

    /// Bytes behind the versions that are needed, for more of them: a multiple of a record's size.
    pub fn of_versions(self) -> u64 {
        match self.0 {
            true => 32 * 16,
            false => 0,
        }
    }

    /// Bytes behind variables of shared objects that are copied into a program, and what they are aligned to.
    pub fn of_copies(self, read_only: bool) -> (u64, u64) {
        match (self.0, read_only) {
            (true, false) => (4 << 10, 64),
            (true, true) => (1 << 10, 64),
            (false, _) => (0, 1),
        }
    }

    /// Bytes of the names of so many dynamic symbols that may come.
    pub fn of_import_names(self, symbols: u32) -> u64 {
        match self.0 {
            true => 32 * u64::from(symbols),
            false => 0,
        }
    }

    /// Bytes behind a list of functions of a size, which are not part of it until there are more functions.
    pub fn of_list(self, size: u64) -> u64 {
        match self.0 && size > 0 {
            true => (size / 8 + 128).next_multiple_of(8),
            false => 0,
        }
    }

    /// Bytes behind the merged pieces of a part.
    pub fn of_pieces(self, size: u64) -> u64 {
        match self.0 && size > 0 {
            true => (size / 16).clamp(8 << 10, 4 << 20),
            false => 0,
        }
    }
}

/// Parts of which most programs come to have something.
const FIRST: [PartId; 10] = [
    Std::Text.part(),
    subpart::TEXT_UNLIKELY,
    subpart::TEXT_EXIT,
    subpart::TEXT_STARTUP,
    subpart::TEXT_HOT,
    Std::Rodata.part(),
    Std::ExceptTable.part(),
    Std::DataRelRo.part(),
    Std::Data.part(),
    Std::Bss.part(),
];

/// The same of thread-local storage.
const FIRST_OF_THREADS: [PartId; 2] = [Std::Tdata.part(), Std::Tbss.part()];

/// Kinds of merged pieces, strings or not, of elements of so many bytes, of which most programs come to have some.
const PIECES: [(bool, u32); 6] = [
    (true, 1),
    (true, 4),
    (false, 4),
    (false, 8),
    (false, 16),
    (false, 32),
];

/// The lists of functions that may come to have more: the part of what is sorted by priority, and the section.
pub const LISTS: [(PartId, Std); 2] = [
    (subpart::INIT_ARRAY_SORTED, Std::InitArray),
    (subpart::FINI_ARRAY_SORTED, Std::FiniArray),
];

/// What room there may be in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// None.
    None,
    /// Sections may have gaps between them.
    Gaps,
    /// A file's sections stand one behind the other, and what is behind them is filled.
    Filled(Filler),
    /// A list of functions: one stands behind the other, and all room is [behind them](Room::of_list).
    List,
}

fn kind(outputs: &Outputs, part: &Part) -> Kind {
    const WITH_GAPS: [Std; 8] = [
        Std::Text,
        Std::Rodata,
        Std::ExceptTable,
        Std::DataRelRo,
        Std::Data,
        Std::Bss,
        Std::Tdata,
        Std::Tbss,
    ];
    // What has a priority stands before what has none, and there is room behind both.
    if part.sort == Order::Priority && LISTS.iter().any(|(_, std)| std.id() == part.output) {
        return Kind::List;
    }
    if part.sort != Order::Input || part.merge.is_some() {
        return Kind::None;
    }
    if WITH_GAPS.iter().any(|std| std.id() == part.output) {
        return Kind::Gaps;
    }
    if LISTS.iter().any(|(_, std)| std.id() == part.output) {
        return Kind::List;
    }
    let output = &outputs.sections[part.output.index()];
    match Filler::of(&output.name) {
        Some(filler) if !output.is_alloc() => Kind::Filled(filler),
        _ => Kind::None,
    }
}

/// Whether the next link of this output shall be able to be incremental, as far as the options say.
///
/// # Errors
/// The option that stands against it; nothing if it was not asked for.
pub fn wanted(args: &Args) -> Result<(), Option<&'static str>> {
    if matches!(args.incremental, Incremental::Auto | Incremental::Off) {
        return Err(None);
    }
    let against = [
        (args.kind == OutputKind::Relocatable, "-r"),
        (
            !args.scripts.is_empty()
                || args.default_script.is_some()
                || !args.section_ordering.is_empty(),
            "a linker script",
        ),
        (
            !args.defsyms.iter().all(Defsym::is_plain),
            "--defsym with an expression",
        ),
        (!args.wrap.is_empty(), "--wrap"),
        (args.emit_relocs, "--emit-relocs"),
        (args.icf != IcfMode::None, "--icf"),
        (
            args.pack_dyn_relocs == PackDynRelocs::Relr,
            "-z pack-relative-relocs",
        ),
        (args.gdb_index, "--gdb-index"),
        (
            args.compress_debug != CompressDebug::None,
            "--compress-debug-sections",
        ),
        (args.output_format != OutputFormat::Elf, "--oformat"),
        (args.retain_symbols_file.is_some(), "--retain-symbols-file"),
        (!args.unique.is_empty() || args.unique_orphans, "--unique"),
        (args.z.unique_symbol, "-z unique-symbol"),
        (args.z.report_relative_reloc, "-z report-relative-reloc"),
        (!args.remaps.is_empty(), "--remap-inputs"),
        (args.print_map || args.map_file.is_some(), "-Map"),
        (args.cref, "--cref"),
        (args.trace > 0 || !args.trace_symbols.is_empty(), "--trace"),
        (args.print_gc_sections, "--print-gc-sections"),
        (args.print_memory_usage, "--print-memory-usage"),
        (args.stats.is_some(), "--stats"),
        (args.noinhibit_exec, "--noinhibit-exec"),
    ];
    match against.into_iter().find(|(is, _)| *is) {
        Some((_, option)) => Err(Some(option)),
        None => Ok(()),
    }
}
