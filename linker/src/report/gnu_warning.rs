//! Warnings that libraries attach to their symbols: a section `.gnu.warning.NAME` holds the text that whoever links
//! a reference to `NAME` is to be shown ("the `gets' function is dangerous and should not be used"). The C library has
//! them for what cannot be used safely, and for what a static program cannot do alone.
//!
//! As with GNU ld a symbol's warning is given once, at the first reference, by an object other than the one that has
//! the warning; and a shared object's counts only where its definition is the one that is used. Other than with GNU
//! ld, references from sections that are not linked do not count. A section `.gnu.warning` itself is about its file.

use crate::base::ids::{FileId, SectionId, SymbolId};
use crate::base::key::rank;
use crate::input::file::Files;
use crate::input::parts::Target;
use crate::messages::diag::{Diagnostics, Place};
use crate::report::unresolved::describe;
use crate::resolve::input_sections::{Sections, WARNING_PREFIX, state};
use crate::resolve::symbol_facts::Referred;
use crate::resolve::symbol_table::SymbolTable;
use std::collections::BTreeMap;

/// Gives the warnings of all symbols that are referred to. `held` are the sections of objects that hold warnings.
pub fn report(
    files: &Files,
    symbols: &SymbolTable,
    sections: &Sections,
    held: &[SectionId],
    diag: &Diagnostics,
) {
    let mut wanted = BTreeMap::new();
    for section in held {
        let input = sections.at(files, *section);
        let Some(section) = input.header() else {
            continue;
        };
        let (file, text) = (input.file, input.bytes());
        match about(section.name) {
            Some(b"") => diag.warn(format!("{}: {}", files.get(file), shown(text))),
            Some(name) => want(&mut wanted, symbols, symbols.find(name), file, text),
            None => {}
        }
    }
    for (file, shared) in files.iter() {
        for (section, text) in shared.shared().into_iter().flat_map(|s| s.sections()) {
            let Some(name) = about(section).filter(|name| !name.is_empty()) else {
                continue;
            };
            let used = symbols.find(name).filter(|id| {
                let key = symbols.key(*id);
                key.rank() == rank::SHARED && key.file() == file
            });
            want(&mut wanted, symbols, used, file, text);
        }
    }
    if wanted.is_empty() {
        return;
    }
    for (id, _) in files.iter().filter(|(id, _)| sections.is_linked(*id)) {
        warn_of(id, files, symbols, sections, &mut wanted, diag);
    }
}

/// Texts by symbol, each with the file that has it.
type Wanted<'t> = BTreeMap<SymbolId, (FileId, &'t [u8])>;

/// The symbol that a section of this name warns of; empty for one that warns of its file.
fn about(section: &[u8]) -> Option<&[u8]> {
    match section.strip_prefix(WARNING_PREFIX)? {
        b"" => Some(b""),
        [b'.', name @ ..] if !name.is_empty() => Some(name),
        _ => None,
    }
}

/// Notes a warning, if some object refers to the symbol. Of several the first counts.
fn want<'t>(
    wanted: &mut Wanted<'t>,
    symbols: &SymbolTable,
    id: Option<SymbolId>,
    file: FileId,
    text: &'t [u8],
) {
    if let Some(id) = id.filter(|id| symbols.facts(*id).has(Referred::BY_OBJECT)) {
        wanted.entry(id).or_insert((file, text));
    }
}

/// Gives the warnings of the symbols that a file refers to, and takes them out of `wanted`.
fn warn_of(
    id: FileId,
    files: &Files,
    symbols: &SymbolTable,
    sections: &Sections,
    wanted: &mut Wanted,
    diag: &Diagnostics,
) {
    let (file, object) = (files.get(id), files.object(id));
    let warned = |target: Target| match target {
        Target::Symbol(index) if index >= file.first_global() => {
            Some(symbols.of(file, index)).filter(|symbol| *symbol != SymbolId::NONE)
        }
        _ => None,
    };
    let mentions = (file.first_global()..file.symbol_count())
        .filter_map(|index| wanted.get(&symbols.of(file, index)));
    if !mentions.into_iter().any(|(owner, _)| *owner != id) {
        return;
    }
    for index in sections.of_file(id) {
        let section = SectionId(index);
        if !sections.is_alive(section) || sections.state(section) & state::ALLOC == 0 {
            continue;
        }
        let (_, number) = sections.origin(section);
        object
            .fixups(number, sections.relocations[section.index()])
            .for_each(|fixup| {
                let Some(symbol) = warned(fixup.target) else {
                    return;
                };
                if wanted.get(&symbol).is_none_or(|(owner, _)| *owner == id) {
                    return;
                }
                let Some((_, text)) = wanted.remove(&symbol) else {
                    return;
                };
                let name = object.section(number).map_or(&b""[..], |found| found.name);
                let mut place = Place::file(file.to_string());
                place.section = Some((String::from_utf8_lossy(name).into_owned(), fixup.offset));
                place.order.input = id.0;
                place.order.offset = fixup.offset;
                describe(&mut place, files, sections, id, number, fixup.offset);
                diag.warn_at(shown(text), &place);
            });
    }
}

/// A warning's text: up to the zero at its end.
fn shown(text: &[u8]) -> String {
    let end = text.iter().position(|byte| *byte == 0);
    let text = String::from_utf8_lossy(&text[..end.unwrap_or(text.len())]);
    text.trim_end().to_owned()
}
