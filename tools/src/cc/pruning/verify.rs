//! Comparing two compilations of the same, definition by definition.
//!
//! A definition is what its symbol says, and the section in which it is, with all that is reached from it without a name that others
//! could know; those as they come first. What nobody names from outside (lists of constructors, and what these call) is compared by its
//! content. What cannot matter is left out: in which fragment a table is that nobody names (that of its only user, or its own), what
//! section names end in, and how long the last frame description of an object is padded.
//!
//! With what a compile without us makes, less can be compared: internals have other names, and the optimizer sees other things. But what
//! others can name must be there, of the same kind, and variables must begin with the same bytes.

use super::graft::range;
use blake3::Hasher;
use format_spec::digest::Digest;
use format_spec::fragment::{SectionKind, WideFixupRecord};
use format_spec::program::PROMOTED;
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt;
use store::program::build::{Compilation, Fixups, Place, Section, Target};

const STT_FUNC: u8 = 2;
const STT_OBJECT: u8 = 1;
const STB_GLOBAL: u8 = 1;
const SHF_MERGE: u32 = 0x10;
const SHF_STRINGS: u32 = 0x20;

/// What stands behind the names of internal functions.
const INTERNAL: &[u8] = b" (internal)";
/// Beginnings of the names of sections in which only what somebody refers to matters.
const ORDINARY: [&[u8]; 4] = [b".text", b".rodata", b".data", b".bss"];

/// A part of a definition: what it is, and the digest of its content.
type Part = (String, Digest);

/// What a compilation's definitions are, by name.
pub type Definitions = FxHashMap<Vec<u8>, Vec<Part>>;

/// What two compiles of the same have made.
#[derive(Debug, Default)]
pub struct Comparison {
    definitions: usize,
    /// Names, and what of them differs.
    different: Vec<String>,
    missing: Vec<String>,
    more: Vec<String>,
}

/// More names are not said.
const MOST_NAMES: usize = 20;

impl Comparison {
    /// Compares what was made `whole` with what was `made` of parts, which of these may have the one and lack the other ([`unreached`] in
    /// one of them).
    pub fn new(
        whole: &Definitions,
        made: &Definitions,
        unreached: &FxHashSet<Vec<u8>>,
    ) -> Comparison {
        let mut comparison = Comparison {
            definitions: whole.len(),
            ..Comparison::default()
        };
        let mut names: Vec<_> = whole.keys().chain(made.keys()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let text = String::from_utf8_lossy(name).into_owned();
            match (whole.get(name), made.get(name)) {
                (Some(whole), Some(made)) if whole == made => {}
                (Some(whole), Some(made)) => {
                    let part = first_difference(whole, made);
                    comparison.different.push(format!("{text} ({part})"));
                }
                // Nobody reaches it: without optimisation it is written all the same.
                (Some(_), None) if name.ends_with(INTERNAL) || unreached.contains(name) => {}
                (Some(_), None) => comparison.missing.push(text),
                (None, _) if unreached.contains(name) => {}
                (None, _) => comparison.more.push(text),
            }
        }
        comparison
    }

    /// Whether both are the same.
    pub fn is_equal(&self) -> bool {
        self.different.is_empty() && self.missing.is_empty() && self.more.is_empty()
    }
}

/// Which part of two definitions differs first.
fn first_difference(whole: &[Part], made: &[Part]) -> String {
    let both = whole.iter().zip(made);
    let found = both.clone().find(|(whole, made)| whole != made);
    match found {
        Some(((what, _), (other, _))) if what == other => what.clone(),
        Some(((what, _), (other, _))) => format!("{what}, but {other}"),
        None => format!("{} parts, but {}", whole.len(), made.len()),
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_equal() {
            return write!(f, "{} definitions are equal", self.definitions);
        }
        write!(f, "DIFFERENT: of {} definitions", self.definitions)?;
        for (what, names) in [
            ("differ", &self.different),
            ("are missing", &self.missing),
            ("are too many", &self.more),
        ] {
            if names.is_empty() {
                continue;
            }
            let said = &names[..names.len().min(MOST_NAMES)];
            write!(f, "; {} {what}: {}", names.len(), said.join(", "))?;
            if said.len() < names.len() {
                write!(f, ", ...")?;
            }
        }
        Ok(())
    }
}

/// In which member each section is.
fn members(from: &Compilation<'_>) -> Vec<usize> {
    let mut member_of = vec![0; from.sections.len()];
    for (member, fragment) in from.fragments.iter().enumerate() {
        member_of[range(&fragment.sections)].fill(member);
    }
    member_of
}

/// All global symbols of a compilation, how often it has each internal function (each of those must be one), and what is in no symbol's reach.
pub fn definitions(from: &Compilation<'_>) -> Definitions {
    let member_of = members(from);
    let mut result = Definitions::default();
    let mut internal: FxHashMap<&[u8], u64> = FxHashMap::default();
    for symbol in &from.symbols[..from.first_global as usize] {
        if symbol.info & 15 == STT_FUNC {
            *internal.entry(from.name(symbol.name)).or_default() += 1;
        }
    }
    for (name, count) in internal {
        let name = [name, INTERNAL].concat();
        let count = (
            "how often it is there".to_owned(),
            Digest::of(&count.to_le_bytes()),
        );
        result.insert(name, vec![count]);
    }
    let mut is_reached = vec![false; from.sections.len()];
    let is_used = used_by_others(from, &member_of);
    for (index, symbol) in from
        .symbols
        .iter()
        .enumerate()
        .skip(from.first_global as usize)
    {
        let mut walk = Walk::new(from, &member_of);
        walk.part(&[symbol.info, symbol.other]);
        walk.part(&symbol.value.to_le_bytes());
        walk.part(&symbol.size.to_le_bytes());
        let kind = match symbol.place {
            Place::Section(_) => "defined",
            Place::Undefined => "undefined",
            Place::Absolute => "absolute",
            Place::Common => "common",
            Place::Piece(_) => "in a piece",
        };
        walk.part(kind.as_bytes());
        walk.ends("its symbol".to_owned());
        if let Place::Section(section) = symbol.place {
            walk.all_from(section);
        }
        (walk.sections.iter())
            .chain(&walk.equals)
            .for_each(|section| is_reached[*section as usize] = true);
        let name = from.name(symbol.name);
        // An internal that the code generator has folded into all who use it is there, or not.
        if is_used[index] || memchr::memmem::find(name, PROMOTED).is_none() {
            result.insert(name.to_vec(), walk.parts);
        }
    }
    nameless(from, &member_of, &mut is_reached, &mut result);
    result
}

/// What is discardable and nobody reaches who is not. Compiles have such: what the optimizer has found to be used no more after it had
/// removed for the last time what is not used. When that is depends on what else is compiled.
pub fn unreached(
    from: &Compilation<'_>,
    is_discardable: impl Fn(&[u8]) -> bool,
) -> FxHashSet<Vec<u8>> {
    let member_of = members(from);
    let mut is_root = vec![false; from.fragments.len()];
    for (member, fragment) in from.fragments.iter().enumerate() {
        // Lists of constructors, and whatever else has a section of its own.
        is_root[member] = from.sections[range(&fragment.sections)]
            .iter()
            .any(|section| {
                let name = from.name(section.name);
                let is_ordinary = ORDINARY.iter().any(|begin| name.starts_with(begin));
                let is_table = [&b".gcc_except_table"[..], b".eh_frame"]
                    .iter()
                    .any(|begin| name.starts_with(begin));
                !is_ordinary && !is_table && section.size > 0
            });
    }
    let place = |symbol: u32| match from.symbols[symbol as usize].place {
        Place::Section(section) => Some(member_of[section as usize]),
        _ => None,
    };
    let globals = from.first_global..from.symbols.len() as u32;
    let name = |symbol: u32| from.name(from.symbols[symbol as usize].name);
    for symbol in globals.clone() {
        if let Some(member) = place(symbol) {
            is_root[member] |= !is_discardable(name(symbol));
        }
    }
    let mut next: Vec<usize> = (0..is_root.len()).filter(|at| is_root[*at]).collect();
    let mut is_reached = is_root;
    while let Some(member) = next.pop() {
        let fragment = &from.fragments[member];
        let bound = from.bindings[range(&fragment.bindings)].iter();
        for to in bound.filter_map(|symbol| place(*symbol)) {
            if !std::mem::replace(&mut is_reached[to], true) {
                next.push(to);
            }
        }
    }
    // What only they refer to need not be named either.
    let mut used_by = vec![[false; 2]; from.symbols.len()];
    for (fragment, is_reached) in from.fragments.iter().zip(&is_reached) {
        for bound in &from.bindings[range(&fragment.bindings)] {
            used_by[*bound as usize][usize::from(*is_reached)] = true;
        }
    }
    let may_lack = globals.filter(|symbol| match place(*symbol) {
        Some(member) => !is_reached[member],
        None => used_by[*symbol as usize] == [true, false],
    });
    may_lack.map(|symbol| name(symbol).to_vec()).collect()
}

/// By symbol, whether a fragment refers to it in which it is not.
fn used_by_others(from: &Compilation<'_>, member_of: &[usize]) -> Vec<bool> {
    let mut is_used = vec![false; from.symbols.len()];
    for (member, fragment) in from.fragments.iter().enumerate() {
        for bound in &from.bindings[range(&fragment.bindings)] {
            let is_own = match from.symbols[*bound as usize].place {
                Place::Section(section) => member_of[section as usize] == member,
                _ => false,
            };
            is_used[*bound as usize] |= !is_own;
        }
    }
    is_used
}

/// What no global symbol leads to: lists of constructors first, and what is left then. Code and data in ordinary sections that nobody reaches
/// may be there or not.
fn nameless(
    from: &Compilation<'_>,
    member_of: &[usize],
    is_reached: &mut [bool],
    result: &mut Definitions,
) {
    let mut order: Vec<u32> = (0..from.sections.len() as u32).collect();
    order.sort_by_key(|section| from.sections[*section as usize].kind != SectionKind::InitArray);
    let mut found: Vec<(String, Digest, Vec<Part>)> = Vec::new();
    for section in order {
        let of = &from.sections[section as usize];
        // A frame description is reached from what it describes. Compilers leave sections in which nothing is, and constants of code that has
        // gone: those are known by their content to who needs them.
        let is_empty =
            (of.size == 0 || of.sh_flags & SHF_MERGE != 0) && fixups(from, of).is_empty();
        let name = from.name(of.name);
        let is_ordinary = ORDINARY.iter().any(|begin| name.starts_with(begin));
        let is_passed_over = is_empty || is_ordinary || of.kind == SectionKind::Unwind;
        if is_reached[section as usize] || is_passed_over {
            continue;
        }
        let mut walk = Walk::new(from, member_of);
        walk.all_from(section);
        walk.sections
            .iter()
            .for_each(|section| is_reached[*section as usize] = true);
        let all: Vec<u8> = walk.parts.iter().flat_map(|(_, digest)| digest.0).collect();
        let name = walk.parts.first().map(|(what, _)| what.clone());
        found.push((name.unwrap_or_default(), Digest::of(&all), walk.parts));
    }
    found.sort_by(|a, b| (&a.0, a.1.0).cmp(&(&b.0, b.1.0)));
    for (number, (name, _, parts)) in found.into_iter().enumerate() {
        result.insert(format!("{name} (nameless {number})").into_bytes(), parts);
    }
}

/// What others can name of a compilation, and what all compilers agree upon.
pub fn surface(from: &Compilation<'_>) -> Definitions {
    let mut result = Definitions::default();
    let member_of = members(from);
    for symbol in &from.symbols[from.first_global as usize..] {
        let name = from.name(symbol.name);
        let is_ours = memchr::memmem::find(name, PROMOTED).is_some();
        let (Place::Section(section), false) = (symbol.place, is_ours) else {
            continue;
        };
        let of = &from.sections[section as usize];
        let is_strong = symbol.info >> 4 == STB_GLOBAL;
        let in_group = from.fragments[member_of[section as usize]].group != 0;
        // What is inline may be there or not, as the optimizer has it.
        if !is_strong || in_group {
            continue;
        }
        let kind = Digest::of(&[symbol.info, symbol.other]);
        let mut parts = vec![("its kind".to_owned(), kind)];
        if symbol.info & 15 == STT_OBJECT {
            parts.push((
                "its size".to_owned(),
                Digest::of(&symbol.size.to_le_bytes()),
            ));
            parts.push(("its bytes".to_owned(), Digest::of(&of.bytes)));
        }
        result.insert(name.to_vec(), parts);
    }
    result
}

struct Walk<'c, 'a> {
    from: &'c Compilation<'a>,
    member_of: &'c [usize],
    hasher: Hasher,
    parts: Vec<Part>,
    /// In the order in which they are reached.
    sections: Vec<u32>,
    number_of: FxHashMap<u32, u32>,
    /// Those that are taken for one of them.
    equals: Vec<u32>,
}

impl<'c, 'a> Walk<'c, 'a> {
    fn new(from: &'c Compilation<'a>, member_of: &'c [usize]) -> Walk<'c, 'a> {
        Walk {
            from,
            member_of,
            hasher: Hasher::new(),
            parts: Vec::new(),
            sections: Vec::new(),
            number_of: FxHashMap::default(),
            equals: Vec::new(),
        }
    }

    /// The part that was hashed since the last one is this.
    fn ends(&mut self, what: String) {
        let digest = Digest(*self.hasher.finalize().as_bytes());
        self.hasher.reset();
        self.parts.push((what, digest));
    }

    fn part(&mut self, bytes: &[u8]) {
        self.hasher.update(&(bytes.len() as u64).to_le_bytes());
        self.hasher.update(bytes);
    }

    fn reach(&mut self, section: u32) -> u32 {
        if let Some(number) = self.number_of.get(&section) {
            return *number;
        }
        let number = match self.equal_table(section) {
            Some(number) => {
                self.equals.push(section);
                number
            }
            None => {
                self.sections.push(section);
                self.sections.len() as u32 - 1
            }
        };
        self.number_of.insert(section, number);
        number
    }

    /// The number of a table of constants that has been reached and is the equal of this one: the repository has both once.
    fn equal_table(&self, number: u32) -> Option<u32> {
        let from = self.from;
        let section = &from.sections[number as usize];
        let is_table = |section: &Section<'_>| {
            from.name(section.name).starts_with(b".rodata") && fixups(from, section).is_empty()
        };
        let is_equal = |other: &u32| {
            let of = &from.sections[*other as usize];
            let facts = |of: &Section<'_>| (of.sh_type, of.sh_flags, of.align_log2, of.size);
            facts(of) == facts(section) && of.bytes == section.bytes && is_table(of)
        };
        let found = is_table(section).then(|| self.sections.iter().position(is_equal))?;
        found.map(|at| at as u32)
    }

    fn all_from(&mut self, section: u32) {
        self.reach(section);
        let mut at = 0;
        while let Some(&section) = self.sections.get(at) {
            at += 1;
            self.section(section);
            // Frame descriptions refer to the code, and not the other way round.
            let from = self.from;
            let fragment = &from.fragments[self.member_of[section as usize]];
            if from.sections[section as usize].kind == SectionKind::Text {
                for other in fragment.sections.clone() {
                    let of = &from.sections[other as usize];
                    if of.kind == SectionKind::Unwind {
                        self.reach(other);
                    }
                }
            }
        }
    }

    fn section(&mut self, number: u32) {
        let from = self.from;
        let section = &from.sections[number as usize];
        let name = from.name(section.name);
        let anonymous = [&b".rodata"[..], b".data.rel.ro"];
        let base = anonymous.into_iter().find(|base| name.starts_with(base));
        let name = base.unwrap_or(name);
        self.part(name);
        for word in [section.sh_type, section.sh_flags, section.entsize] {
            self.part(&word.to_le_bytes());
        }
        self.part(&[section.kind as u8, section.align_log2]);
        let fragment = &from.fragments[self.member_of[number as usize]];
        match (fragment.group as usize).checked_sub(1) {
            Some(group) => {
                let group = &from.groups[group];
                self.part(from.name(group.signature));
                self.part(&group.flags.to_le_bytes());
            }
            None => self.part(b"no group"),
        }
        if section.kind == SectionKind::Unwind {
            for record in unwind_records(&section.bytes) {
                self.part(record);
            }
        } else {
            self.part(&section.size.to_le_bytes());
            self.part(&section.bytes);
        }
        let shown = String::from_utf8_lossy(name).into_owned();
        self.ends(shown.clone());
        for fixup in fixups(from, section) {
            self.part(&fixup.offset.to_le_bytes());
            self.part(&fixup.fixup_type.to_le_bytes());
            if fixup.target == WideFixupRecord::NO_TARGET {
                self.part(&fixup.addend.to_le_bytes());
                continue;
            }
            let index = fixup.target as usize;
            let target = from.targets[range(&fragment.targets)][index];
            let bound = from.bindings[range(&fragment.bindings)].get(index);
            let bound = bound.map(|bound| &from.symbols[*bound as usize]);
            let mut addend = fixup.addend;
            match (target, bound) {
                (Target::Section(section), _) => {
                    let section = self.reach(fragment.sections.start + section);
                    self.part(&section.to_le_bytes());
                }
                (Target::Piece(piece), _) => {
                    let piece = &from.pieces[piece as usize];
                    self.part(from.name(piece.section_name));
                    // Constants are aligned as the strictest of the object's is, of whatever function that is.
                    if piece.sh_flags & SHF_STRINGS != 0 {
                        self.part(&[piece.align_log2]);
                    }
                    self.part(&piece.sh_flags.to_le_bytes());
                    self.part(&piece.entsize.to_le_bytes());
                    self.part(piece.bytes);
                }
                (Target::Global(name), Some(bound)) => {
                    self.part(from.name(name));
                    self.part(&[bound.other]);
                }
                (_, Some(bound)) => match bound.place {
                    Place::Section(section) => {
                        let section = self.reach(section);
                        self.part(&section.to_le_bytes());
                        addend += bound.value as i64;
                    }
                    _ => self.part(from.name(bound.name)),
                },
                (_, None) => self.part(b"nothing"),
            }
            self.part(&addend.to_le_bytes());
        }
        self.ends(format!("what {shown} refers to"));
    }
}

/// The records of frame descriptions, without what only fills them up (`DW_CFA_nop` is zero), and without their lengths, which count that:
/// the last of an object is filled up further than others.
fn unwind_records(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let length = u32::from_le_bytes(*length) as usize;
        let (record, rest) = rest.split_at(length.min(rest.len()));
        let end = record.iter().rposition(|byte| *byte != 0);
        records.push(&record[..end.map_or(0, |end| end + 1)]);
        bytes = rest;
    }
    records.push(bytes);
    records
}

fn fixups(from: &Compilation<'_>, section: &Section<'_>) -> Vec<WideFixupRecord> {
    match &section.fixups {
        Fixups::Narrow(all) => {
            let fixups = from.fixups[range(all)].iter();
            fixups
                .map(|fixup| WideFixupRecord {
                    target: fixup.target().unwrap_or(WideFixupRecord::NO_TARGET),
                    ..WideFixupRecord::from(*fixup)
                })
                .collect()
        }
        Fixups::Wide(all) => from.wide_fixups[range(all)].to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_descriptions_are_equal_however_they_are_filled_up() {
        let records = |lengths: [u8; 2]| {
            let mut bytes = Vec::new();
            for (length, value) in lengths.into_iter().zip([7, 8]) {
                bytes.extend([length, 0, 0, 0]);
                bytes.extend([0, 0, 0, 0, value, 0, 9]);
                bytes.resize(bytes.len() + usize::from(length) - 7, 0);
            }
            bytes
        };
        let plain = records([8, 8]);
        assert_eq!(unwind_records(&plain).len(), 3);
        for other in [[12, 8], [8, 12], [12, 12]] {
            assert_eq!(unwind_records(&plain), unwind_records(&records(other)));
        }
        let mut other = plain.clone();
        other[8] = 1;
        assert_ne!(unwind_records(&plain), unwind_records(&other));
        // Lengths that lead out of the section are no reason to stop.
        assert_eq!(unwind_records(&[255, 255, 255, 255, 1]), [&[1][..], &[]]);
        assert_eq!(unwind_records(&[1, 2]), [&[1, 2]]);
    }
}
