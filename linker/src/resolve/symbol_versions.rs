//! Versions of the output's symbols: what version scripts, dynamic lists and
//! `.symver` directives say of each definition and reference.
//!
//! A definition's version is the one in its name (`f@@V`, or `f@V` if it is not the
//! default one), else that of the version script's node that mentions it. A
//! reference `f@V` means exactly that version of a shared object's symbol.

use crate::args::environment::Environment;
use crate::args::{Args, OutputKind};
use crate::base::ids::{FileId, SymbolId};
use crate::base::key::{Key, rank};
use crate::elf::version_tables::{self, Definition};
use crate::elf::{Sym, c};
use crate::input::file::Files;
use crate::input::library_search::Search;
use crate::input::parts::Place;
use crate::messages::diag::Diagnostics;
use crate::resolve::resolution::Duplicate;
use crate::resolve::symbol_facts::{Bound, Defined, Referred};
use crate::resolve::symbol_table::SymbolTable;
use crate::script::version_script::{
    self, Language, Matcher, VersionNode, VersionPattern, VersionScript,
};
use rayon::prelude::*;
use std::collections::{HashMap, HashSet};

/// Versions that the output defines, and which symbol has which.
#[derive(Clone, Default)]
pub struct Versioning {
    nodes: Vec<VersionNode>,
    /// Index in `.gnu.version_d` by node; anonymous nodes have [`version_tables::GLOBAL`].
    indices: Vec<u16>,
    matcher: Matcher,
    /// The version of definitions that have no other (`--default-symver`).
    default: u16,
    /// The symbols of dynamic lists.
    pub dynamic_list: Option<Matcher>,
    /// Index of each definition's version; empty if nothing is versioned.
    versions: Vec<u16>,
}

/// Reads the scripts and lists of the command line; `embedded` are those that linker scripts hold.
pub fn read(args: &Args, embedded: Vec<VersionScript>, diag: &Diagnostics) -> Versioning {
    let mut nodes: Vec<VersionNode> = Vec::new();
    if args.default_symver {
        nodes.push(VersionNode {
            name: Some(output_name(args).to_vec()),
            ..VersionNode::default()
        });
    }
    let search = Search::new(args, Environment::of_process());
    let load = |path: &std::path::Path| match crate::input::unseekable::read(
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
    if args.dynamic_list_cpp_new {
        listed.extend([&b"operator new*"[..], b"operator delete*"].map(cxx_pattern));
    }
    if args.dynamic_list_cpp_typeinfo {
        listed.extend([&b"typeinfo name for*"[..], b"typeinfo for*"].map(cxx_pattern));
    }
    let mut dynamic_list = Matcher::of_list(&listed);
    args.export_dynamic_symbols
        .iter()
        .for_each(|glob| dynamic_list.add_glob(glob));
    let mut next = version_tables::GLOBAL;
    let indices = nodes
        .iter()
        .map(|node| match node.name {
            Some(_) => {
                next += 1;
                next
            }
            None => version_tables::GLOBAL,
        })
        .collect();
    Versioning {
        matcher: Matcher::new(&nodes),
        default: version_tables::GLOBAL + u16::from(args.default_symver),
        nodes,
        indices,
        dynamic_list: Some(dynamic_list).filter(|list| !list.is_empty()),
        versions: Vec::new(),
    }
}

/// The name by which the output's base version is known: its own.
pub fn output_name(args: &Args) -> &[u8] {
    use std::os::unix::ffi::OsStrExt;
    match &args.soname {
        Some(soname) => soname,
        None => args
            .output
            .file_name()
            .map_or(&b""[..], |name| name.as_bytes()),
    }
}

/// A pattern for demangled names, as in `extern "C++"`.
fn cxx_pattern(text: &[u8]) -> VersionPattern {
    VersionPattern {
        text: text.to_vec(),
        quoted: false,
        language: Language::Cxx,
        line: 0,
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
        if args.kind != OutputKind::Shared {
            preempt_versions(files, symbols);
        }
        self.define_missing(files, symbols, args, diag);
        if args.kind != OutputKind::Shared && self.nodes.is_empty() {
            return;
        }
        let own: Vec<OwnRules> = self.nodes.iter().map(OwnRules::new).collect();
        let versions: Vec<u16> = symbols
            .ids()
            .map(|id| self.version_of(files, symbols, &own, id))
            .collect();
        if versions
            .iter()
            .any(|version| *version != version_tables::GLOBAL)
        {
            self.versions = versions;
        }
        if args.no_undefined_version {
            // `f@V` is a definition of `f` as far as a script can say it.
            let explicit: HashSet<&[u8]> = symbols
                .versioned(files)
                .filter(|(file, index, id)| wins(symbols, *file, *index, *id))
                .map(|(file, index, _)| split(files.get(file).symbol_name(index)).0)
                .collect();
            for (script, node) in self.nodes.iter().enumerate() {
                let single = VersionScript {
                    nodes: vec![node.clone()],
                };
                for (name, line) in single.literal_globals() {
                    let defined = symbols.find(&name).is_some_and(|id| {
                        let key = symbols.key(id);
                        key.in_object() || key.rank() == rank::LINKER
                    });
                    if !defined && !explicit.contains(&name[..]) {
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

    /// Versions that definitions name and no script defines: an error for a shared object. An executable needs no
    /// script to define a version (GNU ld's manual, "VERSION Command").
    fn define_missing(
        &mut self,
        files: &Files,
        symbols: &SymbolTable,
        args: &Args,
        diag: &Diagnostics,
    ) {
        for (file, index, id) in symbols.versioned(files) {
            let name = files.get(file).symbol_name(index);
            let (_, Some((version, _))) = split(name) else {
                continue;
            };
            if self.knows(version) || !wins(symbols, file, index, id) {
                continue;
            }
            if args.kind == OutputKind::Shared {
                diag.error(format!(
                    "{}: version node not found for symbol {}: no version script defines version '{}'",
                    files.get(file),
                    diag.show_name(name),
                    String::from_utf8_lossy(version)
                ));
            } else if is_wanted(symbols, self, args, id) {
                self.add_version(version);
            }
        }
    }

    /// Versions in the names that scripts assign to: as for definitions by objects. `assigned` are such names, each with
    /// where that is in a script.
    pub fn check_assigned(
        &mut self,
        assigned: &[(String, &[u8])],
        symbols: &SymbolTable,
        args: &Args,
        diag: &Diagnostics,
    ) {
        for (place, name) in assigned {
            let (_, Some((version, is_default))) = split(name) else {
                continue;
            };
            let shown = diag.show_name(name);
            if is_default {
                diag.error(format!(
                    "{place}: a script cannot define the default version of a symbol: {shown} \
                     (a version script gives a symbol its default version)"
                ));
                continue;
            }
            let defined = symbols
                .find(name)
                .filter(|id| symbols.key(*id).rank() == rank::LINKER);
            let (Some(id), false) = (defined, self.knows(version)) else {
                continue;
            };
            if args.kind == OutputKind::Shared {
                diag.error(format!(
                    "{place}: version node not found for symbol {shown}: no version script defines version '{}'",
                    String::from_utf8_lossy(version)
                ));
            } else if is_wanted(symbols, self, args, id) {
                self.add_version(version);
            }
        }
    }

    /// Whether a version is defined, or is none.
    fn knows(&self, version: &[u8]) -> bool {
        let mut nodes = self.nodes.iter();
        version.is_empty() || nodes.any(|node| node.name.as_deref() == Some(version))
    }

    /// Defines a version that no script has.
    fn add_version(&mut self, version: &[u8]) {
        let last = self.indices.iter().copied().max();
        self.indices
            .push(last.unwrap_or(version_tables::GLOBAL) + 1);
        self.nodes.push(VersionNode {
            name: Some(version.to_vec()),
            ..VersionNode::default()
        });
    }

    fn version_of(
        &self,
        files: &Files,
        symbols: &SymbolTable,
        own: &[OwnRules],
        id: SymbolId,
    ) -> u16 {
        let key = symbols.key(id);
        if !key.in_object() && key.rank() != rank::LINKER {
            return version_tables::GLOBAL;
        }
        let name = match key.in_object() {
            true => files.get(key.file()).symbol_name(key.index()),
            false => symbols.name(id),
        };
        let (base, explicit) = split(name);
        if let Some((version, is_default)) = explicit {
            let hidden = if is_default {
                0
            } else {
                version_tables::HIDDEN
            };
            // `f@@` is exported without a version whatever the script says. A version without a node was reported, or
            // is of no interest to an executable.
            let node = self
                .nodes
                .iter()
                .position(|node| node.name.as_deref() == Some(version));
            if node.is_some_and(|node| own[node].hide(base)) {
                symbols.add(id, Bound::FORCED_LOCAL);
                return version_tables::LOCAL;
            }
            return hidden | node.map_or(version_tables::GLOBAL, |node| self.indices[node]);
        }
        match self.matcher.find(base) {
            Some(verdict) if verdict.is_local => {
                symbols.add(id, Bound::FORCED_LOCAL);
                version_tables::LOCAL
            }
            Some(verdict) => match self.indices.get(verdict.node as usize) {
                Some(index) if *index != version_tables::GLOBAL => *index,
                _ => self.default,
            },
            None => self.default,
        }
    }

    /// The entry in `.gnu.version` for one definition; makes it local if a script wants that. For a few of them, without
    /// [`assign`](Self::assign).
    pub fn of_definition(
        &self,
        files: &Files,
        symbols: &SymbolTable,
        args: &Args,
        id: SymbolId,
    ) -> u16 {
        if args.kind != OutputKind::Shared && self.nodes.is_empty() {
            return version_tables::GLOBAL;
        }
        let own: Vec<OwnRules> = self.nodes.iter().map(OwnRules::new).collect();
        self.version_of(files, symbols, &own, id)
    }

    /// Whether a dynamic list names a symbol.
    pub fn is_listed(&self, name: &[u8]) -> bool {
        let list = self.dynamic_list.as_ref();
        list.is_some_and(|list| list.matches(split(name).0))
    }

    /// The entry in `.gnu.version` for a definition.
    pub fn version(&self, id: SymbolId) -> u16 {
        self.versions
            .get(id.index())
            .copied()
            .unwrap_or(version_tables::GLOBAL)
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
                    index: version_tables::GLOBAL,
                    parents: Vec::new(),
                    base: true,
                },
            );
        }
        definitions
    }
}

/// What a node says of the symbols whose definitions name its version.
struct OwnRules {
    globals: Matcher,
    locals: Matcher,
}

impl OwnRules {
    fn new(node: &VersionNode) -> OwnRules {
        OwnRules {
            globals: Matcher::of_list(&node.globals),
            locals: Matcher::of_list(node.locals.iter().filter(|local| local.text != b"*")),
        }
    }

    /// A node's `local:` also takes what was given its version by name, unless its `global:` does. `*` means everything
    /// else, and not what was named; GNU ld hides that, too.
    fn hide(&self, base: &[u8]) -> bool {
        self.locals.matches(base) && !self.globals.matches(base)
    }
}

/// Whether a symbol's definition is this one.
fn wins(symbols: &SymbolTable, file: FileId, index: u32, id: SymbolId) -> bool {
    let key = symbols.key(id);
    key.in_object() && (key.file(), key.index()) == (file, index)
}

/// References to `f@V` mean an object's definition `f@@V`, which is known as `f`. Before resolution.
pub fn unite_default_versions(files: &Files, symbols: &SymbolTable) {
    let mut defaults: HashSet<(SymbolId, &[u8])> = HashSet::new();
    let mut references: Vec<(SymbolId, &[u8], &[u8])> = Vec::new();
    for (file, index, id) in symbols.versioned(files) {
        let file = files.get(file);
        let symbol = file.object().and_then(|object| object.symbol(index));
        let (Some(symbol), (base, Some((version, is_default)))) =
            (symbol, split(file.symbol_name(index)))
        else {
            continue;
        };
        match (is_default, symbol.place == Place::Undefined) {
            (true, false) => drop(defaults.insert((id, version))),
            (false, true) => references.push((id, base, version)),
            _ => {}
        }
    }
    for (id, base, version) in references {
        if let Some(base) = symbols.find(base)
            && defaults.contains(&(base, version))
        {
            symbols.rebind_all(id, base);
        }
    }
}

/// What `.symver f, f@V` of an object says beside giving `f` another name: that `f` itself is not a name for others any
/// more. With `f@V`, references to `f` mean that; with `f@@V`, which is a second definition of `f` at the same place, the
/// duplicate is none.
pub fn settle_aliases(files: &Files, symbols: &SymbolTable, duplicates: &mut Vec<Duplicate>) {
    let symbol = |file: FileId, index| files.get(file).object().and_then(|o| o.symbol(index));
    let same_place = |file: FileId, one: u32, other: u32| {
        let at = |index| symbol(file, index).map(|symbol| (symbol.place, symbol.value));
        at(one).is_some() && at(one) == at(other)
    };
    duplicates.retain(|duplicate| {
        let key = symbols.key(duplicate.symbol);
        let same = key.file() == duplicate.file
            && same_place(duplicate.file, key.index(), duplicate.index);
        let versioned = |index| {
            split(files.get(duplicate.file).symbol_name(index))
                .1
                .is_some()
        };
        if same && versioned(duplicate.index) {
            let key = Key::new(key.rank(), duplicate.file, duplicate.index);
            symbols.set_key(duplicate.symbol, key);
        }
        !same
    });
    let mut aliases: HashMap<SymbolId, SymbolId> = HashMap::new();
    for (file, index, id) in symbols.versioned(files) {
        let (base, Some((version, false))) = split(files.get(file).symbol_name(index)) else {
            continue;
        };
        let Some(base) = symbols
            .find(base)
            .filter(|_| wins(symbols, file, index, id))
        else {
            continue;
        };
        let key = symbols.key(base);
        if !key.in_object() {
            continue;
        }
        match split(files.get(key.file()).symbol_name(key.index())).1 {
            None if key.file() == file && same_place(file, key.index(), index) => {
                aliases.insert(base, id);
            }
            // `f@@V` is also found as `f@V`.
            Some((default, true)) if default == version => duplicates.push(Duplicate {
                symbol: base,
                file,
                index,
            }),
            _ => {}
        }
    }
    // Who else defines the plain name is said of the name that stands for both from now on.
    for duplicate in duplicates.iter_mut() {
        if let Some(id) = aliases.get(&duplicate.symbol) {
            duplicate.symbol = *id;
        }
    }
    for (base, id) in aliases {
        let said = Referred::BY_OBJECT
            | Referred::STRONGLY
            | Referred::BY_SHARED
            | Referred::PLAINLY_BY_SHARED;
        symbols.add(id, Referred::from(symbols.facts(base).among(said)));
        symbols.take_back(base, said);
        symbols.set_key(base, Key::NONE);
        symbols.rebind_all(base, id);
    }
}

/// References to `f@V` mean the shared object that defines that version of `f`, be it the default one or not.
fn bind_versioned_references(files: &Files, symbols: &SymbolTable) {
    let mut wanted: Vec<SymbolId> = symbols
        .versioned(files)
        .map(|(_, _, id)| id)
        .filter(|id| symbols.facts(*id).has(Referred::BY_OBJECT) && symbols.key(*id) == Key::NONE)
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    for id in wanted {
        let (name, Some((version, _))) = split(symbols.name(id)) else {
            continue;
        };
        let found = find_version(files, name, version);
        if let Some((file, index, sym)) = found {
            symbols.set_key(id, Key::new(rank::SHARED, file, index));
            symbols.add(
                id,
                match sym.kind() {
                    c::STT_TLS => Defined::TLS,
                    c::STT_FUNC | c::STT_GNU_IFUNC => Defined::FUNCTION,
                    _ => Defined::NONE,
                },
            );
        }
    }
}

/// Where a shared object defines a version of a name, be it the default one or not.
fn find_version(files: &Files, name: &[u8], version: &[u8]) -> Option<(FileId, u32, Sym)> {
    files.iter().find_map(|(file, input)| {
        let shared = input.shared()?;
        let index = (shared.first_global..input.symbol_count()).find(|index| {
            shared.is_defined(*index)
                && shared.name(*index) == name
                && shared.version(*index) == Some(version)
        })?;
        Some((file, index, shared.syms[index as usize]))
    })
}

/// A definition of `f@V` by an executable takes the place of that of a shared object.
fn preempt_versions(files: &Files, symbols: &SymbolTable) {
    for (file, index, id) in symbols.versioned(files) {
        if let (name, Some((version, _))) = split(files.get(file).symbol_name(index))
            && wins(symbols, file, index, id)
            && find_version(files, name, version).is_some()
        {
            symbols.add(id, Defined::BY_SHARED);
        }
    }
}

/// Whether a definition is to be found by others at run time, if its visibility allows it; all that
/// `--dynamic-list-data` names aside.
pub fn is_wanted(
    symbols: &SymbolTable,
    versioning: &Versioning,
    args: &Args,
    id: SymbolId,
) -> bool {
    let bits = symbols.facts(id);
    let seen = match bits.has(Defined::UNLIKE_SHARED) {
        false => Referred::BY_SHARED | Defined::BY_SHARED,
        // A program's variable `time` is not what a library calls as `time@GLIBC_2.2.5`.
        true => Referred::PLAINLY_BY_SHARED | Defined::BY_SHARED,
    };
    args.kind == OutputKind::Shared
        || args.export_dynamic
        || bits.has(seen)
        || versioning.is_listed(symbols.name(id))
}
