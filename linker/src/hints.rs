//! What may help with an undefined symbol: a similar name, a name that C and C++ write differently, a definition that
//! nobody else can see or that was left out, a class without its key function.

use crate::diag::{Diagnostics, demangle, near_name};
use crate::file::Files;
use crate::object::Place;
use crate::sections::{Sections, state, why_discarded};
use crate::symbols::{Key, SymbolTable, flag};

/// Undefined symbols beyond this number get no hints: looking for them takes time.
const MOST_HINTS: usize = 32;

/// Adds hints to the undefined symbols that were reported.
pub fn add(files: &Files, symbols: &SymbolTable, sections: &Sections, diag: &Diagnostics) {
    for name in diag.undefined_symbols().iter().take(MOST_HINTS) {
        if let Some(hint) = find(files, symbols, sections, name, diag) {
            diag.hint(name, hint);
        }
    }
}

fn find(
    files: &Files,
    symbols: &SymbolTable,
    sections: &Sections,
    name: &[u8],
    diag: &Diagnostics,
) -> Option<String> {
    if let Some(hint) = discarded_definition(files, symbols, sections, name) {
        return Some(hint);
    }
    if symbols
        .find(name)
        .is_some_and(|id| symbols.flags(id) & flag::NOT_DEFAULT != 0)
    {
        return Some(
            "it was declared with a visibility by which only an object of this link can define it"
                .into(),
        );
    }
    if name.starts_with(b"_ZTV") {
        return Some(
            "the vtable symbol may be undefined because the class is missing its key function: the first virtual \
             function that is neither inline nor pure"
                .into(),
        );
    }
    let defined: Vec<(&[u8], Key)> = (0..symbols.id_limit() as u32)
        .map(crate::ids::SymbolId)
        .map(|id| (symbols.name(id), symbols.key(id)))
        .filter(|(name, key)| !name.is_empty() && (key.in_object() || is_shared(*key)))
        .collect();
    let place = |key: Key| files.get(key.file()).to_string();
    // A C function that is called as C++, and the other way round.
    let shown = demangle(name);
    let plain = shown.split('(').next().unwrap_or_default();
    if name.starts_with(b"_Z") {
        if let Some((_, key)) = defined.iter().find(|(other, _)| *other == plain.as_bytes()) {
            return Some(format!(
                "did you mean: extern \"C\" {plain}\n>>> defined in: {}",
                place(*key)
            ));
        }
    } else {
        // `_Z4namei`: the name with its length in front.
        let mangled = [format!("_Z{}", name.len()).as_bytes(), name].concat();
        let mut overloads = defined
            .iter()
            .filter(|(other, _)| other.starts_with(&mangled));
        let found = overloads.find(|(other, _)| {
            let shown = demangle(other);
            shown.split('(').next().map(str::as_bytes) == Some(name)
        });
        if let Some((other, key)) = found {
            return Some(format!(
                "did you mean to declare {} as extern \"C\"?\n>>> defined in: {}",
                demangle(other),
                place(*key)
            ));
        }
    }
    // A local definition.
    for (id, file) in files.iter().filter(|(id, _)| sections.is_linked(*id)) {
        let Some(object) = file.object() else {
            continue;
        };
        let local = (1..object.first_global()).find(|index| {
            object.symbol_name(*index) == name
                && object
                    .symbol(*index)
                    .is_some_and(|symbol| matches!(symbol.place, Place::Section(_)))
        });
        if local.is_some() {
            let _ = id;
            return Some(format!("a local symbol of this name is defined in: {file}"));
        }
    }
    let near = near_name(name, defined.iter().map(|(name, _)| *name))?;
    let (_, key) = defined.iter().find(|(name, _)| *name == near)?;
    Some(format!(
        "did you mean: {}\n>>> defined in: {}",
        diag.show_name(near),
        place(*key)
    ))
}

/// Where a name would be defined, had the section not been left out.
fn discarded_definition(
    files: &Files,
    symbols: &SymbolTable,
    sections: &Sections,
    name: &[u8],
) -> Option<String> {
    let id = symbols.find(name)?;
    files.iter().find_map(|(number, file)| {
        let object = file.object().filter(|_| sections.is_linked(number))?;
        (file.first_global()..file.symbol_count()).find_map(|index| {
            let section = match object.symbol(index)?.place {
                Place::Section(section) => section,
                // A script can say so of all common blocks.
                Place::Common if symbols.of(file, index) == id => {
                    return Some(format!("defined in discarded section `COMMON' of {file}"));
                }
                _ => return None,
            };
            let state = sections.state(sections.get(number, section)?);
            if symbols.of(file, index) != id || state & state::DISCARDED == 0 {
                return None;
            }
            let section = object.section(section)?;
            Some(format!(
                "defined in discarded section `{}' of {file}: {}",
                String::from_utf8_lossy(section.name),
                why_discarded(&section)
            ))
        })
    })
}

fn is_shared(key: Key) -> bool {
    key.rank() == crate::symbols::rank::SHARED
}
