//! Warnings about the link as a whole: common symbols that meet, stacks and segments that are executable, text
//! relocations, processor features that not all code has. The words are those of GNU ld, because build scripts look for
//! them; when each is given is told in its manual ("Command-line Options").

use crate::args::{Args, OutputKind, TextRel};
use crate::base::ids::{FileId, SymbolId};
use crate::base::key::rank;
use crate::elf::{Phdr, c};
use crate::input::file::Files;
use crate::input::parts::Place;
use crate::layout::dynamic;
use crate::layout::program_headers;
use crate::messages::diag::{Diagnostic, Diagnostics};
use crate::resolve::input_sections::Sections;
use crate::resolve::resolution::Shrunk;
use crate::resolve::symbol_table::SymbolTable;
use std::collections::HashMap;

/// `--warn-common`: a common symbol meets another, or a definition. In the order of the files, as if each met what was
/// there before it.
pub fn commons(
    args: &Args,
    files: &Files,
    symbols: &SymbolTable,
    sections: &Sections,
    diag: &Diagnostics,
) {
    if !args.warn_common {
        return;
    }
    /// The first mention of a symbol: as a common block of a size, or as a definition.
    type First = (FileId, Option<u64>);
    let mut first: HashMap<SymbolId, First> = HashMap::new();
    for (id, file) in files.iter().filter(|(id, _)| sections.is_linked(*id)) {
        let Some(object) = file.object() else {
            continue;
        };
        for index in file.first_global()..file.symbol_count() {
            let Some(symbol) = object.symbol(index) else {
                continue;
            };
            let size = match symbol.place {
                Place::Undefined => continue,
                Place::Common => Some(symbol.size),
                _ if symbol.is_weak() => continue,
                _ => None,
            };
            let name = symbols.of(file, index);
            let Some((other, before)) = first.get(&name).copied() else {
                first.insert(name, (id, size));
                continue;
            };
            let shown = diag.show_name(symbols.name(name));
            let other = files.get(other);
            let (what, note) = match (before, size) {
                (Some(before), Some(size)) if before == size => (
                    format!("{file}: multiple common of `{shown}' (multiple common symbols)"),
                    format!("{other}: previous common is here"),
                ),
                (Some(before), Some(size)) if before < size => (
                    format!("{file}: common of `{shown}' overriding smaller common"),
                    format!("{other}: smaller common is here"),
                ),
                (Some(_), Some(_)) => (
                    format!("{file}: common of `{shown}' overridden by larger common"),
                    format!("{other}: larger common is here"),
                ),
                (Some(_), None) => (
                    format!("{file}: definition of `{shown}' overriding common"),
                    format!("{other}: common is here"),
                ),
                (None, Some(_)) => (
                    format!("{file}: common of `{shown}' overridden by definition"),
                    format!("{other}: defined here"),
                ),
                (None, None) => continue,
            };
            diag.report(Diagnostic::warning(what).note(note).at(id.0, index.into()));
            // What is larger, or defined, is what later ones meet.
            if size.is_none_or(|size| before.is_some_and(|before| size > before)) {
                first.insert(name, (id, size));
            }
        }
    }
}

/// Decides whether the stack is executable, and says so.
pub fn executable_stack(args: &Args, files: &Files, asking: &[FileId], diag: &Diagnostics) -> bool {
    if let Some(asked) = args.z.execstack {
        // In GNU ld's words.
        let because = "because of -z execstack command line option";
        match (asked && args.warn_execstack_option, args.error_execstack) {
            (false, _) => {}
            (true, false) => {
                let text = format!("enabling an executable stack {because}");
                diag.report(Diagnostic::warning(text).lasting());
            }
            (true, true) => diag.error(format!("creating an executable stack {because}")),
        }
        return asked;
    }
    for file in asking {
        let text = format!(
            "{}: requires executable stack (because the .note.GNU-stack section is executable)",
            files.get(*file)
        );
        if args.error_execstack && !args.z.execstack_if_needed {
            diag.error(text);
        } else if args.warn_execstack && !args.z.execstack_if_needed {
            diag.report(Diagnostic::warning(text).lasting());
        }
    }
    !asking.is_empty()
}

/// `--warn-rwx-segments`, `--error-rwx-segments`: a segment can be written and executed, or thread-local storage executed.
pub fn rwx_segments(args: &Args, phdrs: &[Phdr], diag: &Diagnostics) {
    let (warns, fails) = (args.warn_rwx_segments, args.error_rwx_segments);
    if !(warns || fails) || args.kind == OutputKind::Relocatable {
        return;
    }
    let say = |text: String| match fails {
        true => diag.error(text),
        false => diag.warn(text),
    };
    let all = c::PF_R | c::PF_W | c::PF_X;
    for phdr in phdrs.iter().filter(|phdr| { phdr.p_memsz } > 0) {
        let output = args.output.display();
        match phdr.p_type {
            c::PT_LOAD if { phdr.p_flags } & all == all => {
                say(format!("{output} has a LOAD segment with RWX permissions"))
            }
            c::PT_TLS if { phdr.p_flags } & c::PF_X != 0 => say(format!(
                "{output} has a TLS segment with execute permission"
            )),
            _ => {}
        }
    }
}

/// The image is to begin in the middle of a page, and does not.
pub fn image_base(args: &Args, diag: &Diagnostics) {
    if let Some((given, base)) = program_headers::given_base(args)
        && base != given
    {
        diag.warn(format!(
            "address of `text-segment' isn't multiple of maximum page size: {given:#x}; the image begins at {base:#x}"
        ));
    }
}

/// The output has relocations in read-only segments.
pub fn text_relocations(args: &Args, needed: bool, diag: &Diagnostics) {
    if needed && args.z.text == TextRel::Warn {
        diag.warn(match args.kind {
            OutputKind::Shared => "creating DT_TEXTREL in a shared object",
            OutputKind::Pie | OutputKind::StaticPie => "creating DT_TEXTREL in a PIE",
            _ => "creating DT_TEXTREL in a PDE",
        });
    }
}

/// Common blocks in whose place something smaller is used, in GNU ld's words.
pub fn shrunk_commons(files: &Files, symbols: &SymbolTable, shrunk: &[Shrunk], diag: &Diagnostics) {
    for shrunk in shrunk {
        let (common, variable) = (files.get(shrunk.common.file()), shrunk.variable.file());
        let symbol = common
            .object()
            .and_then(|object| object.symbol(shrunk.common.index()));
        let sym = files
            .get(variable)
            .shared()
            .and_then(|shared| shared.syms.get(shrunk.variable.index() as usize));
        // A label has no size that it could have changed.
        if sym.is_some_and(|sym| sym.st_size == 0) {
            continue;
        }
        diag.warn(format!(
            "size of symbol `{}' changed from {} in {common} to {} in {}",
            diag.show_name(symbols.name(shrunk.symbol)),
            symbol.map_or(0, |symbol| symbol.size),
            sym.map_or(0, |sym| sym.st_size),
            files.get(variable)
        ));
    }
}

/// `--require-defined`: a symbol that must be there is not.
pub fn required_symbols(args: &Args, files: &Files, symbols: &SymbolTable, diag: &Diagnostics) {
    if args.require_defined.is_empty() {
        return;
    }
    // That the name is required does not make a shared object under `--as-needed` needed.
    let used = dynamic::used(files, symbols, false);
    for name in &args.require_defined {
        let defined = symbols.find(name).is_some_and(|id| {
            let key = symbols.key(id);
            match key.rank() {
                rank::SHARED => used[key.file().index()],
                rank => key.in_object() || rank == rank::LINKER,
            }
        });
        if !defined {
            let shown = diag.show_name(name);
            diag.report(
                Diagnostic::error(format!("undefined symbol: {shown}")).note(format!(
                    "required symbol `{shown}' not defined (--require-defined)"
                )),
            );
        }
    }
}
