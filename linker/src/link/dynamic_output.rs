//! Whether an output is one for the dynamic linker.

use crate::args::{Args, OutputKind};
use crate::elf::shf;
use crate::input::file::Files;
use crate::resolve::output_sections::Outputs;
use crate::resolve::section_rules::FileNames;

/// Whether the output has a dynamic section.
pub(crate) fn is_dynamic(args: &Args, files: &Files) -> bool {
    match args.kind {
        OutputKind::Pie | OutputKind::StaticPie | OutputKind::Shared => true,
        OutputKind::StaticExec | OutputKind::Relocatable => false,
        OutputKind::DynamicExec => files.iter().any(|(_, file)| file.shared().is_some()),
    }
}

/// Whether a script discards `.dynamic` of an executable that needs no shared objects, as that of the kernel's decompressor
/// does: it places itself, and there is nothing that would read the other tables.
pub(crate) fn gives_dynamic_up(args: &Args, files: &Files, outputs: &Outputs) -> bool {
    let rules = outputs.rules.as_deref();
    let flags = shf::ALLOC | shf::WRITE;
    args.kind != OutputKind::Shared
        && files.iter().all(|(_, file)| file.shared().is_none())
        && rules.is_some_and(|rules| rules.discards(FileNames::NONE, b".dynamic", flags))
}
