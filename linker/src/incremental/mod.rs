//! Incremental links: what a link leaves for the next one of the same output, and the link that changes only what was edited.
//!
//! A full link with `--incremental` leaves [`Room`] in the output and a [state file](state) beside the repository: which
//! inputs there were, where everything stands, what every name means, who mentions it. The next link compares the inputs'
//! time stamps with it. If nothing has changed, there is nothing to do. If some objects have, these alone are read again
//! ([`relink`]): the same functions that resolve, trace, and write all files run over these few, in a world whose
//! other symbols are what the state says ([`world`]), and their part of the output is written again in its place.
//!
//! The rule is that of the whole linker: never wrong. Whatever is not known to be harmless (a name that was not there, a
//! definition that is gone, a slot that is missing, no room left) makes a full link of it, and the log says why.

mod capture;
mod filler;
mod layout;
mod manifest;
mod names;
mod patch;
mod placing;
mod relink;
mod room;
mod state;
mod world;

pub(crate) use capture::{Finished, capture};
pub use filler::{Filler, fill_parts, padding};
pub(crate) use relink::{Outcome, relink, verify};
pub use room::{Kind, Room};

use crate::args::{
    Args, CompressDebug, IcfMode, Incremental, OutputFormat, OutputKind, PackDynRelocs,
};
use std::borrow::Cow;

/// Why a link is not incremental.
pub(crate) type Reason = Cow<'static, str>;

/// Whether the next link of this output shall be able to be incremental, as far as the options say.
///
/// # Errors
/// The option that stands against it; nothing if it was not asked for.
pub(crate) fn wanted(args: &Args) -> Result<(), Option<&'static str>> {
    if args.incremental == Incremental::Off {
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
        (!args.defsyms.is_empty(), "--defsym"),
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
        (args.dependency_file.is_some(), "--dependency-file"),
        (args.trace > 0 || !args.trace_symbols.is_empty(), "--trace"),
        (args.print_gc_sections, "--print-gc-sections"),
        (args.stats.is_some(), "--stats"),
        (args.noinhibit_exec, "--noinhibit-exec"),
    ];
    match against.into_iter().find(|(is, _)| *is) {
        Some((_, option)) => Err(Some(option)),
        None => Ok(()),
    }
}
