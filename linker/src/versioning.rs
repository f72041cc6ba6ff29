//! Versions of the output's symbols: what version scripts, dynamic lists and
//! `.symver` directives say of each definition and reference.
//!
//! A definition's version is the one in its name (`f@@V`, or `f@V` if it is not the
//! default one), else that of the version script's node that mentions it. A
//! reference `f@V` means exactly that version of a shared object's symbol.

use crate::args::{Args, OutputKind};
use crate::diag::Diagnostics;
use crate::file::Files;
use crate::ids::{FileId, SymbolId};
use crate::search::{Environment, Search};
use crate::symbols::{Key, SymbolTable, flag, rank};
use crate::version_script::{self, Matcher, VersionNode, VersionScript};
use crate::versions::{self, Definition};
use rayon::prelude::*;

/// Versions that the output defines, and which symbol has which.
#[derive(Default)]
pub struct Versioning {
    nodes: Vec<VersionNode>,
    /// Index in `.gnu.version_d` by node; anonymous nodes have [`versions::GLOBAL`].
    indices: Vec<u16>,
    matcher: Matcher,
    /// The symbols of dynamic lists.
    pub dynamic_list: Option<Matcher>,
    /// Index of each definition's version; empty if nothing is versioned.
    versions: Vec<u16>,
}

/// Reads the scripts and lists of the command line; `embedded` are those that linker scripts hold.
pub fn read(args: &Args, embedded: Vec<VersionScript>, diag: &Diagnostics) -> Versioning {
    let mut nodes: Vec<VersionNode> = Vec::new();
    let search = Search::new(args, Environment::of_process());
    let load = |path: &std::path::Path| match std::fs::read(
        search.script(path).as_deref().unwrap_or(path),
    ) {
        Ok(text) => Some(text),
        Err(why) => {
            diag.error(format!("cannot open {}: {why}", path.display()));
            None
        }
    };
    for path in &args.version_scripts {
        match load(path).map(|text| version_script::parse(&text)) {
            Some(Ok(script)) => nodes.extend(script.nodes),
            Some(Err(why)) => diag.error(format!("{}:{why}", path.display())),
            None => {}
        }
    }
    nodes.extend(embedded.into_iter().flat_map(|script| script.nodes));
    let mut listed = Vec::new();
    let lists = args
        .dynamic_lists
        .iter()
        .chain(&args.export_dynamic_symbol_lists);
    for path in lists {
        match load(path).map(|text| version_script::parse_dynamic_list(&text)) {
            Some(Ok(patterns)) => listed.extend(patterns),
            Some(Err(why)) => diag.error(format!("{}:{why}", path.display())),
            None => {}
        }
    }
    let mut dynamic_list = Matcher::of_list(&listed);
    args.export_dynamic_symbols
        .iter()
        .for_each(|glob| dynamic_list.add_glob(glob));
    let mut next = versions::GLOBAL;
    let indices = nodes
        .iter()
        .map(|node| match node.name {
            Some(_) => {
                next += 1;
                next
            }
            None => versions::GLOBAL,
        })
        .collect();
    Versioning {
        matcher: Matcher::new(&nodes),
        nodes,
        indices,
        dynamic_list: Some(dynamic_list).filter(|list| !list.is_empty()),
        versions: Vec::new(),
    }
}

/// The name without its version, and the version with whether it is the default one.
pub fn split(name: &[u8]) -> (&[u8], Option<(&[u8], bool)>) {
    match memchr::memchr(b'@', name) {
        None => (name, None),
        Some(at) => match name[at..].strip_prefix(b"@@") {
            Some(version) => (&name[..at], Some((version, true))),
            None => (&name[..at], Some((&name[at + 1..], false))),
        },
    }
}

impl Versioning {
    /// Gives every definition its version, and makes local what a script wants local.
    pub fn assign(
        &mut self,
        files: &Files,
        symbols: &SymbolTable,
        args: &Args,
        diag: &Diagnostics,
    ) {
        bind_versioned_references(files, symbols);
        if args.kind != OutputKind::Shared && self.nodes.is_empty() {
            return;
        }
        let versions: Vec<u16> = symbols
            .ids()
            .map(|id| self.version_of(files, symbols, id, diag))
            .collect();
        if versions.iter().any(|version| *version != versions::GLOBAL) {
            self.versions = versions;
        }
        if args.no_undefined_version {
            for (script, node) in self.nodes.iter().enumerate() {
                let single = VersionScript {
                    nodes: vec![node.clone()],
                };
                for (name, line) in single.literal_globals() {
                    let defined = symbols.find(&name).is_some_and(|id| {
                        let key = symbols.key(id);
                        key.in_object() || key.rank() == rank::LINKER
                    });
                    if !defined {
                        let version = self.nodes[script].name.as_deref().unwrap_or(b"");
                        diag.error(format!(
                            "version script assignment of '{}' to symbol '{}' failed: symbol not defined (line {line})",
                            String::from_utf8_lossy(version),
                            String::from_utf8_lossy(&name)
                        ));
                    }
                }
            }
        }
    }

    fn version_of(
        &self,
        files: &Files,
        symbols: &SymbolTable,
        id: SymbolId,
        diag: &Diagnostics,
    ) -> u16 {
        let key = symbols.key(id);
        if !key.in_object() && key.rank() != rank::LINKER {
            return versions::GLOBAL;
        }
        let name = match key.in_object() {
            true => files.get(key.file()).symbol_name(key.index()),
            false => symbols.name(id),
        };
        let (base, explicit) = split(name);
        // `f@` has no version.
        if let Some((version, is_default)) = explicit.filter(|(version, _)| !version.is_empty()) {
            let node = self
                .nodes
                .iter()
                .position(|node| node.name.as_deref() == Some(version));
            let Some(node) = node else {
                diag.error(format!(
                    "{}: version '{}' of symbol '{}' is not in the version script",
                    files.get(key.file()),
                    String::from_utf8_lossy(version),
                    diag.show_name(base)
                ));
                return versions::GLOBAL;
            };
            return self.indices[node] | if is_default { 0 } else { versions::HIDDEN };
        }
        match self.matcher.find(base) {
            Some(verdict) if verdict.is_local => {
                symbols.add_flags(id, flag::FORCED_LOCAL);
                versions::LOCAL
            }
            Some(verdict) => self
                .indices
                .get(verdict.node as usize)
                .copied()
                .unwrap_or(versions::GLOBAL),
            None => versions::GLOBAL,
        }
    }

    /// The entry in `.gnu.version` for a definition.
    pub fn version(&self, id: SymbolId) -> u16 {
        self.versions
            .get(id.index())
            .copied()
            .unwrap_or(versions::GLOBAL)
    }

    /// What goes into `.gnu.version_d`; empty if the output defines no versions. `name` is the output's own.
    pub fn definitions<'n>(&'n self, name: &'n [u8]) -> Vec<Definition<'n>> {
        let mut definitions = Vec::new();
        for (node, index) in self.nodes.iter().zip(&self.indices) {
            if let Some(name) = &node.name {
                let parents = node.parents.iter().map(|parent| &parent[..]).collect();
                definitions.push(Definition {
                    name,
                    index: *index,
                    parents,
                    base: false,
                });
            }
        }
        if !definitions.is_empty() {
            definitions.insert(
                0,
                Definition {
                    name,
                    index: versions::GLOBAL,
                    parents: Vec::new(),
                    base: true,
                },
            );
        }
        definitions
    }
}

/// References to `f@V` mean the shared object that defines that version of `f`, be it the default one or not.
fn bind_versioned_references(files: &Files, symbols: &SymbolTable) {
    let wanted: Vec<SymbolId> = symbols
        .ids()
        .filter(|id| {
            symbols.flags(*id) & flag::REFERENCED != 0
                && symbols.key(*id) == Key::NONE
                && memchr::memchr(b'@', symbols.name(*id)).is_some()
        })
        .collect();
    for id in wanted {
        let (name, Some((version, _))) = split(symbols.name(id)) else {
            continue;
        };
        let found = files.iter().find_map(|(file, input)| {
            let shared = input.shared()?;
            let index = (shared.first_global..input.symbol_count()).find(|index| {
                shared.is_defined(*index)
                    && shared.name(*index) == name
                    && shared.version(*index) == Some(version)
            })?;
            Some((file, index, shared.syms[index as usize]))
        });
        let found: Option<(FileId, u32, crate::elf::Sym)> = found;
        if let Some((file, index, sym)) = found {
            symbols.set_key(id, Key::new(rank::SHARED, file, index));
            use crate::elf::c;
            symbols.add_flags(
                id,
                match sym.kind() {
                    c::STT_TLS => flag::TLS,
                    c::STT_FUNC | c::STT_GNU_IFUNC => flag::FUNCTION,
                    _ => 0,
                },
            );
        }
    }
}
