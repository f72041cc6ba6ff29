//! The order of what is in a compilation: the same, whichever of its definitions were known.
//!
//! A compiler writes functions and data as they stand in the module; where some of them come from the repository, these came behind the
//! others, and a program that was linked of them had its functions in another order than one that was compiled at once. So members
//! are put in the module's order, which the plugin's report has; what has no name there follows by the names of its sections, and symbols
//! stand by name. Only lists (of constructors, and whatever else is read as one) stay as they were: of these nothing is left out.
//!
//! At last what is internal is local again, under its name in the source: it was promoted (SPEC.md, section 26) so that its users find it
//! by a name, and fragments and memos keep that name; but a compilation says by number which symbol is meant, and two compilations that
//! have an internal of one name each have their own.

use super::graft::{copy_fixups, range};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use store::program::build::{Compilation, Fragment, Group, Name, Place, Section, Symbol, Target};

const STT_SECTION: u8 = 3;
const STV_HIDDEN: u8 = 2;

/// Sections without symbols that are told from others of their name by what is in them.
const BY_CONTENT: [&[u8]; 5] = [
    b".rodata",
    b".data.rel.ro",
    b".eh_frame",
    b".gcc_except_table",
    b".comment",
];

/// Where a member stands: by its first definition in the module, if it has one; else by its first section.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Position<'a> {
    Definition(u32),
    Named(&'a [u8], &'a [u8]),
    Nameless(&'a [u8], Cow<'a, [u8]>),
}

/// Puts a compilation, which has no outline then, in order; `positions` says where in the module a name is defined.
pub fn in_order<'a>(from: Compilation<'a>, positions: &FxHashMap<&[u8], usize>) -> Compilation<'a> {
    let members = order_of_members(&from, positions);
    let mut number_of = vec![0; members.len()];
    for (number, member) in members.iter().enumerate() {
        number_of[*member] = number as u32;
    }
    let mut out = Compilation {
        machine: from.machine,
        os_abi: from.os_abi,
        abi_version: from.abi_version,
        e_flags: from.e_flags,
        bits: from.bits,
        digest_order: (from.digest_order.iter())
            .map(|member| number_of[*member as usize])
            .collect(),
        first_global: from.first_global,
        ..Compilation::default()
    };
    let mut section_of = vec![0; from.sections.len()];
    for member in &members {
        copy_member(
            &from,
            &from.fragments[*member],
            &number_of,
            &mut section_of,
            &mut out,
        );
    }
    order_groups(&from, &mut out);
    order_symbols(&from, &section_of, &mut out);
    (out.names, out.pieces) = (from.names, from.pieces);
    out
}

fn order_of_members(from: &Compilation<'_>, positions: &FxHashMap<&[u8], usize>) -> Vec<usize> {
    let mut member_of = vec![0; from.sections.len()];
    for (member, fragment) in from.fragments.iter().enumerate() {
        member_of[range(&fragment.sections)].fill(member);
    }
    let mut defined: Vec<Option<u32>> = vec![None; from.fragments.len()];
    let mut name_of: Vec<Option<&[u8]>> = vec![None; from.fragments.len()];
    for symbol in &from.symbols {
        let Place::Section(section) = symbol.place else {
            continue;
        };
        if symbol.info & 15 == STT_SECTION {
            continue;
        }
        let (member, name) = (member_of[section as usize], from.name(symbol.name));
        if let Some(position) = positions.get(name).map(|at| *at as u32) {
            let first = &mut defined[member];
            *first = Some(first.map_or(position, |first| first.min(position)));
        }
        let first = &mut name_of[member];
        *first = Some(first.map_or(name, |first| first.min(name)));
    }
    let position = |member: usize| {
        let fragment = &from.fragments[member];
        let first = from.sections[range(&fragment.sections)].first();
        let section = first.map_or(&[][..], |section| from.name(section.name));
        match (defined[member], name_of[member]) {
            (Some(position), _) => Position::Definition(position),
            (None, Some(name)) => Position::Named(section, name),
            (None, None) => {
                let is_known = BY_CONTENT.iter().any(|name| section.starts_with(name));
                let content = match first {
                    Some(first) if is_known => Cow::Borrowed(&first.bytes[..]),
                    _ => Cow::default(),
                };
                Position::Nameless(section, content)
            }
        }
    };
    let mut members: Vec<usize> = (0..from.fragments.len()).collect();
    members.sort_by_cached_key(|member| position(*member));
    members
}

/// Copies a member, with its bindings as they were; notes where its sections have come to be.
fn copy_member<'a>(
    from: &Compilation<'a>,
    fragment: &Fragment,
    number_of: &[u32],
    section_of: &mut [u32],
    out: &mut Compilation<'a>,
) {
    let first_section = out.sections.len() as u32;
    for (section, new) in fragment.sections.clone().zip(first_section..) {
        section_of[section as usize] = new;
        let section = &from.sections[section as usize];
        let fixups = copy_fixups(from, &section.fixups, out);
        out.sections.push(Section {
            fixups,
            frame: None,
            ..section.clone()
        });
    }
    let first_target = out.targets.len() as u32;
    let targets = from.targets[range(&fragment.targets)].iter();
    out.targets.extend(targets.map(|target| match *target {
        Target::OwnAnonymous(member) => Target::OwnAnonymous(number_of[member as usize]),
        other => other,
    }));
    let first_binding = out.bindings.len() as u32;
    out.bindings
        .extend_from_slice(&from.bindings[range(&fragment.bindings)]);
    out.fragments.push(Fragment {
        sections: first_section..out.sections.len() as u32,
        targets: first_target..out.targets.len() as u32,
        bindings: first_binding..out.bindings.len() as u32,
        plain: None,
        ..fragment.clone()
    });
}

/// Groups stand in the order in which members are in them.
fn order_groups(from: &Compilation<'_>, out: &mut Compilation<'_>) {
    let mut place_of = vec![0; from.groups.len()];
    let mut groups: Vec<Group> = Vec::with_capacity(from.groups.len());
    for fragment in &mut out.fragments {
        let Some(group) = (fragment.group as usize).checked_sub(1) else {
            continue;
        };
        if place_of[group] == 0 {
            groups.push(from.groups[group]);
            place_of[group] = groups.len() as u32;
        }
        fragment.group = place_of[group];
    }
    let empty = place_of.iter().zip(&from.groups);
    groups.extend(
        empty
            .filter(|(place, _)| **place == 0)
            .map(|(_, group)| *group),
    );
    out.groups = groups;
}

/// Local symbols stand by their sections, those of sections behind the others, and global ones by name.
fn order_symbols(from: &Compilation<'_>, section_of: &[u32], out: &mut Compilation<'_>) {
    let place = |symbol: &Symbol| match symbol.place {
        Place::Section(section) => Place::Section(section_of[section as usize]),
        other => other,
    };
    let rank = |symbol: &Symbol| match place(symbol) {
        Place::Section(section) => (0, section),
        Place::Piece(_) => (1, 0),
        _ => (2, 0),
    };
    let first_global = from.first_global as usize;
    let mut locals: Vec<usize> = (1..first_global).collect();
    let key = |symbol: &Symbol| (rank(symbol), symbol.value, from.name(symbol.name));
    locals.sort_by_cached_key(|at| {
        let symbol = &from.symbols[*at];
        (symbol.info & 15 == STT_SECTION, key(symbol), symbol.size)
    });
    let mut globals: Vec<usize> = (first_global..from.symbols.len()).collect();
    globals.sort_by_cached_key(|at| from.name(from.symbols[*at].name));
    let mut new_of = vec![0; from.symbols.len()];
    out.symbols.push(from.symbols[0]);
    for old in locals.into_iter().chain(globals) {
        new_of[old] = out.symbols.len() as u32;
        let symbol = &from.symbols[old];
        out.symbols.push(Symbol {
            place: place(symbol),
            ..*symbol
        });
    }
    for binding in &mut out.bindings {
        *binding = new_of[*binding as usize];
    }
}

/// The compilation (without an outline) in which what was promoted is local, or nothing if it has none of that. Members, and what is in
/// them, are the same. `suffix` stands behind the names of what was promoted.
pub fn with_local_internals<'a>(from: &Compilation<'a>, suffix: &[u8]) -> Option<Compilation<'a>> {
    let source_name = |symbol: &Symbol| {
        let is_defined = matches!(symbol.place, Place::Section(_));
        let name = from.name(symbol.name).strip_suffix(suffix);
        name.filter(|_| is_defined && symbol.other & 3 == STV_HIDDEN)
    };
    let first_global = from.first_global as usize;
    let globals = first_global..from.symbols.len();
    let (internal, global): (Vec<usize>, Vec<usize>) =
        globals.partition(|at| source_name(&from.symbols[*at]).is_some());
    if internal.is_empty() {
        return None;
    }
    let mut out = from.clone();
    let mut names: FxHashMap<&[u8], Name> = FxHashMap::default();
    names.extend(
        (0_u32..)
            .zip(&from.names)
            .map(|(at, name)| (*name, Name(at))),
    );
    let first_section = (1..first_global)
        .find(|at| from.symbols[*at].info & 15 == STT_SECTION)
        .unwrap_or(first_global);
    // Symbols of sections stand behind other local ones.
    let order = (0..first_section)
        .chain(internal.iter().copied())
        .chain(first_section..first_global)
        .chain(global);
    let mut new_of = vec![0; from.symbols.len()];
    out.symbols.clear();
    for old in order {
        new_of[old] = out.symbols.len() as u32;
        out.symbols.push(from.symbols[old]);
    }
    for old in internal {
        let symbol = &mut out.symbols[new_of[old] as usize];
        let Some(name) = source_name(symbol) else {
            continue;
        };
        symbol.name = *names.entry(name).or_insert_with(|| {
            out.names.push(name);
            Name(out.names.len() as u32 - 1)
        });
        // STB_LOCAL, STV_DEFAULT.
        (symbol.info, symbol.other) = (symbol.info & 15, symbol.other & !3);
        out.first_global += 1;
    }
    for binding in &mut out.bindings {
        *binding = new_of[*binding as usize];
    }
    Some(out)
}
