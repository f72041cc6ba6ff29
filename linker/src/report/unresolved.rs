//! What is said of a link as a whole: symbols that nothing defines or that two files
//! define, sections that nothing reaches.

use crate::args::{Args, UnresolvedPolicy};
use crate::base::ids::{FileId, SymbolId};
use crate::elf::c;
use crate::graph::trace::Needs;
use crate::input::file::Files;
use crate::input::parts::Place;
use crate::messages::diag::{Diagnostics, Place as MessagePlace, SHOWN_REFERENCES, Severity};
use crate::report::source_lines;
use crate::report::undefined_hints;
use crate::resolve::input_sections::{Sections, state};
use crate::resolve::resolution::Duplicate;
use crate::resolve::symbol_facts::Referred;
use crate::resolve::symbol_table::SymbolTable;
use std::collections::{BTreeSet, HashMap};
use tickets::TicketError;

/// Reports names that two files define, with both places.
pub fn report_duplicates(
    args: &Args,
    files: &Files,
    symbols: &SymbolTable,
    sections: &Sections,
    duplicates: &[Duplicate],
    diag: &Diagnostics,
) {
    if args.allow_multiple_definition {
        return;
    }
    let ruined = refuse_ruined_tickets(files, symbols, duplicates, diag);
    for duplicate in duplicates {
        if ruined == Some(duplicate.symbol) {
            continue;
        }
        let key = symbols.key(duplicate.symbol);
        let at = |file: FileId, index: u32| {
            let input = files.get(file);
            let mut place = MessagePlace::file(input.to_string());
            if let Some(object) = input.object()
                && let Some(symbol) = object.symbol(index)
                && let Place::Section(number) = symbol.place
                && let Some(section) = object.section(number)
            {
                place.section = Some((
                    String::from_utf8_lossy(&object.full_name(number, &section)).into_owned(),
                    symbol.value,
                ));
            }
            if let Some(object) = input.object()
                && let Some(symbol) = object.symbol(index)
                && let Place::Section(number) = symbol.place
            {
                place.source = source_lines::find(object, sections, file, number, symbol.value);
            }
            place.order.input = file.0;
            place
        };
        diag.duplicate(
            symbols.name(duplicate.symbol),
            &at(key.file(), key.index()),
            &at(duplicate.file, duplicate.index),
        );
    }
}

/// A ticket whose note was removed or renamed is taken for an object, in which the explanation that stops `ld -r` is
/// defined twice. Gives that symbol, of which nothing else is to be said.
fn refuse_ruined_tickets(
    files: &Files,
    symbols: &SymbolTable,
    duplicates: &[Duplicate],
    diag: &Diagnostics,
) -> Option<SymbolId> {
    let explanation = symbols.find(tickets::DOTTED_EXPLANATION.as_bytes())?;
    let twice = |duplicate: &&Duplicate| duplicate.symbol == explanation;
    let ruined: BTreeSet<FileId> = duplicates
        .iter()
        .filter(twice)
        .map(|duplicate| duplicate.file)
        .collect();
    for &file in &ruined {
        let what = "its note is not there any more".to_owned();
        let error = TicketError::Edited { what };
        diag.error(format!("{}: {error}", files.get(file)));
    }
    (!ruined.is_empty()).then_some(explanation)
}

/// An object that holds nothing but gcc's intermediate code says so with a symbol. Without its plugin there would be
/// nothing of it in the output, so that must be a file of which this is meant (`may_be`).
pub fn refuse_intermediate_code(
    files: &Files,
    symbols: &SymbolTable,
    may_be: impl Fn(FileId) -> bool,
    diag: &Diagnostics,
) {
    let Some(id) = symbols.find(b"__gnu_lto_slim") else {
        return;
    };
    let key = symbols.key(id);
    if key.in_object() && !may_be(key.file()) {
        diag.error(format!(
            "{}: holds only gcc's intermediate code for link-time optimisation, and no plugin takes it; link with gcc \
             (without -fno-lto), or compile with -ffat-lto-objects",
            files.get(key.file())
        ));
    }
}

/// Where the global offset table is nobody else can say: references to its name are computed, not looked up (psABI,
/// "Global Offset Table").
pub fn refuse_other_tables(files: &Files, symbols: &SymbolTable, diag: &Diagnostics) {
    let name = b"_GLOBAL_OFFSET_TABLE_";
    let Some(key) = symbols.find(name).map(|id| symbols.key(id)) else {
        return;
    };
    if key.in_object() {
        diag.error(format!(
            "{}: multiple definition of `_GLOBAL_OFFSET_TABLE_': only the linker defines it",
            files.get(key.file())
        ));
    }
}

/// Reports references to what nothing defines, as the options want it.
pub fn report_undefined(
    args: &Args,
    files: &Files,
    symbols: &SymbolTable,
    sections: &Sections,
    needs: &Needs,
    diag: &Diagnostics,
) {
    let severity = |id| match args.unresolved {
        UnresolvedPolicy::Warn if !symbols.facts(id).has(Referred::NOT_DEFAULT) => {
            Severity::Warning
        }
        _ => Severity::Error,
    };
    let mut described: HashMap<SymbolId, usize> = HashMap::new();
    for reference in &needs.undefined {
        let name = symbols.name(reference.symbol);
        let input = sections.at(files, reference.section);
        let (file, number) = (input.file, input.number);
        let mut place = MessagePlace::file(files.get(file).to_string());
        place.section = Some((
            String::from_utf8_lossy(&input.full_name()).into_owned(),
            reference.offset,
        ));
        place.order.input = file.0;
        place.order.offset = reference.offset;
        // Of many references the first few are shown.
        let count = described.entry(reference.symbol).or_default();
        *count += 1;
        if *count <= SHOWN_REFERENCES {
            describe(&mut place, files, sections, file, number, reference.offset);
        }
        diag.undefined(severity(reference.symbol), name, place);
    }
    if !needs.undefined.is_empty() {
        undefined_hints::add(files, symbols, sections, &needs.undefined, diag);
    }
}

/// Adds the function and the source line of a place.
pub(crate) fn describe(
    place: &mut MessagePlace,
    files: &Files,
    sections: &Sections,
    file: FileId,
    number: u32,
    offset: u64,
) {
    let object = files.object(file);
    place.source = source_lines::find(object, sections, file, number, offset);
    let function = (1..object.symbol_count()).find(|index| {
        object.symbol(*index).is_some_and(|symbol| {
            symbol.kind() == c::STT_FUNC
                && symbol.place == Place::Section(number)
                && offset
                    .checked_sub(symbol.value)
                    .is_some_and(|within| within < symbol.size)
        })
    });
    place.function = function.map(|index| object.symbol_name(index).to_vec());
}

/// `-t`: the members of archives that are linked, as `archive(member)`.
pub fn trace_members(args: &Args, files: &Files, linked: &[bool]) {
    if args.trace == 0 {
        return;
    }
    let members = files
        .iter()
        .zip(linked)
        .filter(|((_, file), linked)| **linked && file.member.is_some());
    for ((_, file), _) in members {
        crate::say!("{file}");
    }
}

/// `--print-gc-sections`, in GNU ld's words.
pub fn print_unused(files: &Files, sections: &Sections) {
    for (id, file) in files.iter().filter(|(id, _)| sections.is_linked(*id)) {
        let Some(object) = file.object() else {
            continue;
        };
        for number in 1..object.section_count() {
            let bits = sections.state(sections.id(id, number));
            let unused = bits & (state::ALIVE | state::ALLOC | state::DISCARDED) == state::ALLOC;
            if let (true, Some(section)) = (unused, object.section(number)) {
                crate::tell!(
                    "repo-ld: removing unused section '{}' in file '{file}'",
                    String::from_utf8_lossy(&object.full_name(number, &section))
                );
            }
        }
    }
}

/// `-z report-relative-reloc`: the places that the dynamic linker relocates by the base address.
pub fn print_relative(
    files: &Files,
    symbols: &SymbolTable,
    sections: &Sections,
    needs: &Needs,
    diag: &Diagnostics,
) {
    for (section, offset, symbol) in &needs.relative {
        let (file, number) = sections.origin(*section);
        let name = files
            .object(file)
            .section(number)
            .map_or(&b""[..], |section| section.name);
        let target = match symbol {
            Some(symbol) => format!("'{}'", diag.show_name(symbols.name(*symbol))),
            None => "a local symbol".into(),
        };
        crate::tell!(
            "repo-ld: {}:({}+{offset:#x}): R_X86_64_RELATIVE against {target}",
            files.get(file),
            String::from_utf8_lossy(name)
        );
    }
}
