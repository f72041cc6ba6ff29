//! Who defines and who mentions a symbol: `--cref`, `-y`, and why an archive member or
//! a shared object is part of the link.
//!
//! Nothing of this is kept while symbols are resolved. It is found out afterwards from
//! the files' symbol tables, by who asks.

use crate::args::Args;
use crate::base::ids::{FileId, SymbolId};
use crate::base::key::rank;
use crate::input::file::{Body, File, Files};
use crate::input::parts::Place;
use crate::messages::diag::Diagnostics;
use crate::report::columns::pad;
use crate::resolve::symbol_table::SymbolTable;
use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};

/// How a file mentions a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mention {
    /// It defines it, or has a common block of the name.
    Definition,
    /// It refers to it.
    Reference,
}

/// The global symbols that a file mentions.
fn mentions<'f>(
    file: &'f File<'_>,
    symbols: &'f SymbolTable<'_>,
) -> impl Iterator<Item = (SymbolId, Mention)> + 'f {
    let indices = match file.body {
        Body::Linker(_) => 0..0,
        _ => file.first_global()..file.symbol_count(),
    };
    indices.filter_map(move |index| {
        let id = symbols.of(file, index);
        if id == SymbolId::NONE {
            return None;
        }
        let defined = match &file.body {
            Body::Object(object) => object.symbol(index)?.place != Place::Undefined,
            Body::Shared(shared) => shared.is_defined(index),
            Body::Linker(_) => false,
        };
        Some((
            id,
            match defined {
                true => Mention::Definition,
                false => Mention::Reference,
            },
        ))
    })
}

/// Whether what a file mentions counts: it is a linked object, or a shared object.
fn counts(file: &File, linked: bool) -> bool {
    file.shared().is_some() || linked && file.object().is_some()
}

/// Why files are part of the link.
pub struct Reasons {
    /// By file: who refers to which symbol of it.
    by_file: Vec<Option<(FileId, SymbolId)>>,
}

impl Reasons {
    /// Follows references as the search for archive members does: from what is linked in any case.
    pub fn new(
        required: &[SymbolId],
        files: &Files,
        symbols: &SymbolTable,
        linked: &[bool],
    ) -> Reasons {
        let mut by_file = vec![None; files.0.len()];
        let mut queue: VecDeque<FileId> = files
            .iter()
            .zip(linked)
            .filter(|((_, file), linked)| **linked && file.object().is_some() && !file.lazy)
            .map(|((id, _), _)| id)
            .collect();
        let mut reach = |by: FileId, symbol: SymbolId, queue: &mut VecDeque<FileId>| {
            let key = symbols.key(symbol);
            if key.rank() > rank::SHARED || key.file() == by {
                return;
            }
            let (file, slot) = (files.get(key.file()), &mut by_file[key.file().index()]);
            if slot.is_none() && (file.lazy || file.as_needed) {
                *slot = Some((by, symbol));
                if file.object().is_some() {
                    queue.push_back(key.file());
                }
            }
        };
        for symbol in required {
            reach(FileId::LINKER, *symbol, &mut queue);
        }
        while let Some(id) = queue.pop_front() {
            let file = files.get(id);
            file.for_wanted(|index, _| reach(id, symbols.of(file, index), &mut queue));
        }
        Reasons { by_file }
    }

    /// Who refers to which symbol of a file; [`FileId::LINKER`] for an option such as `-u`. `None` if nothing asks for the
    /// file: it is linked in any case, or not at all.
    pub fn of(&self, file: FileId) -> Option<(FileId, SymbolId)> {
        self.by_file.get(file.index()).copied().flatten()
    }
}

/// Files that mention a symbol: those that define it first, then in the order of the link.
pub type Table = Vec<(SymbolId, Vec<FileId>)>;

/// The symbols that linked objects mention, by name, each with its files.
pub fn table(files: &Files, symbols: &SymbolTable, linked: &[bool]) -> Table {
    let mut found: HashMap<SymbolId, Vec<(bool, FileId)>> = HashMap::new();
    for ((id, file), linked) in files.iter().zip(linked) {
        if counts(file, *linked) && file.object().is_some() {
            for (symbol, mention) in mentions(file, symbols) {
                let is_reference = mention == Mention::Reference;
                found.entry(symbol).or_default().push((is_reference, id));
            }
        }
    }
    // Of what shared objects define and refer to, only that which objects mention is of interest.
    for (id, file) in files.iter().filter(|(_, file)| file.shared().is_some()) {
        for (symbol, mention) in mentions(file, symbols) {
            if let Some(mentions) = found.get_mut(&symbol) {
                mentions.push((mention == Mention::Reference, id));
            }
        }
    }
    let mut table: Table = found
        .into_iter()
        .map(|(symbol, mut mentions)| {
            mentions.sort_unstable();
            mentions.dedup_by_key(|(_, file)| *file);
            (symbol, mentions.into_iter().map(|(_, file)| file).collect())
        })
        .collect();
    table.sort_unstable_by_key(|(symbol, _)| symbols.name(*symbol));
    table
}

/// Writes the table as GNU ld does.
///
/// # Errors
/// Of the file.
pub fn write(
    out: &mut impl Write,
    table: &Table,
    files: &Files,
    symbols: &SymbolTable,
    diag: &Diagnostics,
) -> io::Result<()> {
    const COLUMN: usize = 50;
    writeln!(out, "\nCross Reference Table\n")?;
    writeln!(out, "{:<COLUMN$}File", "Symbol")?;
    for (symbol, mentions) in table {
        let name = diag.show_name(symbols.name(*symbol));
        write!(out, "{name}")?;
        let mut written = name.len();
        for file in mentions {
            pad(out, written, COLUMN)?;
            writeln!(out, "{}", files.get(*file))?;
            written = 0;
        }
    }
    Ok(())
}

/// `-y`: says which files define and mention the symbols, in GNU ld's words.
pub fn trace(
    args: &Args,
    files: &Files,
    symbols: &SymbolTable,
    linked: &[bool],
    diag: &Diagnostics,
) {
    let wanted: Vec<SymbolId> = args
        .trace_symbols
        .iter()
        .filter_map(|name| symbols.find(name))
        .collect();
    if wanted.is_empty() {
        return;
    }
    for ((_, file), linked) in files.iter().zip(linked) {
        if !counts(file, *linked) {
            continue;
        }
        for (symbol, mention) in mentions(file, symbols).filter(|(id, _)| wanted.contains(id)) {
            let what = match mention {
                Mention::Definition => "definition of",
                Mention::Reference => "reference to",
            };
            let name = diag.show_name(symbols.name(symbol));
            crate::tell!("repo-ld: {file}: {what} {name}");
        }
    }
}
