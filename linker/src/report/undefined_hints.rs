//! What may help with an undefined symbol: a similar name, a name that C and C++ write differently, a definition that
//! nobody else can see or that was left out, a class without its key function.
//!
//! A function is not meant by who needs a variable, nor a thread's own variable by who needs an ordinary one: so what is
//! needed is found out, as far as the references say, and only names of its kind are proposed.

use crate::base::ids::SymbolId;
use crate::base::key::Key;
use crate::elf::c;
use crate::elf::x86_64::reloc::{self, Class};
use crate::graph::trace::UndefinedReference;
use crate::input::file::Files;
use crate::input::parts::Place;
use crate::messages::diag::{Diagnostics, demangle, near_name};
use crate::resolve::input_sections::{Sections, state, why_discarded};
use crate::resolve::symbol_facts::Referred;
use crate::resolve::symbol_table::SymbolTable;

/// Undefined symbols beyond this number get no hints: looking for them takes time.
const MOST_HINTS: usize = 32;

/// Of many references to a symbol so many are asked what kind of symbol they need.
const MOST_ASKED: usize = 64;

/// What a symbol is to its users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Function,
    Data,
    /// Data of which each thread has its own.
    ThreadData,
}

impl Kind {
    /// That of a symbol with this `STT_*`; `None` if it does not say: assemblers' labels.
    fn of_type(kind: u8) -> Option<Kind> {
        match kind {
            c::STT_FUNC | c::STT_GNU_IFUNC => Some(Kind::Function),
            c::STT_OBJECT | c::STT_COMMON => Some(Kind::Data),
            c::STT_TLS => Some(Kind::ThreadData),
            _ => None,
        }
    }

    /// Whether a definition of the kind `defined` may be what is needed. Nothing but what says so is a thread's own.
    fn may_be(needed: Option<Kind>, defined: Option<Kind>) -> bool {
        match (needed, defined) {
            (Some(needed), Some(defined)) => needed == defined,
            (Some(kind), None) | (None, Some(kind)) => kind != Kind::ThreadData,
            (None, None) => true,
        }
    }
}

/// Adds hints to the undefined symbols that were reported: those of `references`.
pub fn add(
    files: &Files,
    symbols: &SymbolTable,
    sections: &Sections,
    references: &[UndefinedReference],
    diag: &Diagnostics,
) {
    for name in diag.undefined_symbols().iter().take(MOST_HINTS) {
        let needed = symbols
            .find(name)
            .and_then(|id| needed_kind(files, sections, references, id, name));
        if let Some(hint) = find(files, symbols, sections, name, needed, diag) {
            diag.hint(name, hint);
        }
    }
}

fn find(
    files: &Files,
    symbols: &SymbolTable,
    sections: &Sections,
    name: &[u8],
    needed: Option<Kind>,
    diag: &Diagnostics,
) -> Option<String> {
    if let Some(hint) = discarded_definition(files, symbols, sections, name) {
        return Some(hint);
    }
    if symbols
        .find(name)
        .is_some_and(|id| symbols.facts(id).has(Referred::NOT_DEFAULT))
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
        .map(crate::base::ids::SymbolId)
        .map(|id| (symbols.name(id), symbols.key(id)))
        .filter(|(name, key)| !name.is_empty() && (key.in_object() || is_shared(*key)))
        .filter(|(name, key)| Kind::may_be(needed, defined_kind(files, name, *key)))
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

/// What kind of symbol is needed, by the first reference that says so, and by the name. `None` if nothing does: a C function's
/// address may be wanted, or a variable's.
fn needed_kind(
    files: &Files,
    sections: &Sections,
    references: &[UndefinedReference],
    symbol: SymbolId,
    name: &[u8],
) -> Option<Kind> {
    let mut of_symbol = references
        .iter()
        .filter(|reference| reference.symbol == symbol)
        .take(MOST_ASKED);
    let by_use = of_symbol.find_map(|reference| {
        match reloc::howto(reference.r_type).class {
            class if class.is_tls() => Some(Kind::ThreadData),
            // Compilers call what they have not seen by way of the PLT, and nothing else.
            Class::PltPcRelative => Some(Kind::Function),
            Class::PcRelative => {
                // `lea` takes the address of anything; what is read, written or compared is data.
                let (file, number) = sections.origin(reference.section);
                let bytes = files.object(file).section_bytes(number);
                let at = usize::try_from(reference.offset).ok()?;
                let before = bytes.get(at.checked_sub(2)?..at)?;
                let (opcode, operands) = (before[0], before[1]);
                let is_relative = operands & 0xc7 == 0x05;
                (is_relative && opcode != LEA && opcode != CALLS).then_some(Kind::Data)
            }
            _ => None,
        }
    });
    by_use.or_else(|| kind_by_name(name))
}

/// The opcode of `lea`, and that of the calls and jumps through memory.
const LEA: u8 = 0x8d;
const CALLS: u8 = 0xff;

/// What a C++ name says: functions have parameters.
fn kind_by_name(name: &[u8]) -> Option<Kind> {
    if !name.starts_with(b"_Z") || name.starts_with(b"_ZZ") {
        return None;
    }
    // Tables, type information, guards of static variables.
    if name.starts_with(b"_ZT") || name.starts_with(b"_ZG") {
        return Some(Kind::Data)
            .filter(|_| !matches!(name.get(3), Some(b'h' | b'v' | b'c' | b'W')));
    }
    let shown = demangle(name);
    let is_rust = name.len() > 20 && name[name.len() - 20..].starts_with(b"17h");
    match shown.contains('(') && !shown.contains("{lambda(") {
        true => Some(Kind::Function),
        false if is_rust || shown.as_bytes() == name => None,
        false => Some(Kind::Data),
    }
}

/// What kind of symbol a definition is.
fn defined_kind(files: &Files, name: &[u8], key: Key) -> Option<Kind> {
    let file = files.get(key.file());
    let kind = match (file.object(), file.shared()) {
        (Some(object), _) => object.symbol(key.index())?.kind(),
        (_, Some(shared)) => shared.syms.get(key.index() as usize)?.kind(),
        _ => return None,
    };
    Kind::of_type(kind).or_else(|| kind_by_name(name))
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
    key.rank() == crate::base::key::rank::SHARED
}
