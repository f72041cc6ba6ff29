//! Comparing two compilations of the same, definition by definition.
//!
//! A definition is what its symbol says, and the section in which it is, with all that is reached from it without a name that others
//! could know; those as they come first. What cannot matter is left out: in which fragment a table is that nobody names (that of its
//! only user, or its own), what section names end in, and how long the last frame description of an object is padded.

use super::graft::range;
use blake3::Hasher;
use format_spec::digest::Digest;
use format_spec::fragment::{SectionKind, WideFixupRecord};
use rustc_hash::FxHashMap;
use std::fmt;
use store::program::build::{Compilation, Fixups, Place, Section, Target};

const STT_FUNC: u8 = 2;

/// What a compilation's definitions are, by name.
pub type Definitions = FxHashMap<Vec<u8>, Digest>;

/// What two compiles of the same have made.
#[derive(Debug, Default)]
pub struct Comparison {
    definitions: usize,
    different: Vec<String>,
    missing: Vec<String>,
    more: Vec<String>,
}

impl Comparison {
    /// Compares what was made `whole` with what was `made` of parts.
    pub fn new(whole: &Definitions, made: &Definitions) -> Comparison {
        let mut comparison = Comparison {
            definitions: whole.len(),
            ..Comparison::default()
        };
        let mut names: Vec<_> = whole.keys().chain(made.keys()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let list = match (whole.get(name), made.get(name)) {
                (Some(whole), Some(made)) if whole == made => continue,
                (Some(_), Some(_)) => &mut comparison.different,
                (Some(_), None) => &mut comparison.missing,
                (None, _) => &mut comparison.more,
            };
            list.push(String::from_utf8_lossy(name).into_owned());
        }
        comparison
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.different.is_empty() && self.missing.is_empty() && self.more.is_empty() {
            return write!(f, "verified: {} definitions are equal", self.definitions);
        }
        write!(f, "DIFFERENT: of {} definitions", self.definitions)?;
        for (what, names) in [
            ("differ", &self.different),
            ("are missing", &self.missing),
            ("are too many", &self.more),
        ] {
            if !names.is_empty() {
                write!(f, "; {what}: {}", names.join(", "))?;
            }
        }
        Ok(())
    }
}

/// All global symbols of a compilation, and how often it has each internal function: each of those must be one.
pub fn definitions(from: &Compilation<'_>) -> Definitions {
    let mut member_of = vec![0; from.sections.len()];
    for (member, fragment) in from.fragments.iter().enumerate() {
        member_of[range(&fragment.sections)].fill(member);
    }
    let mut result = Definitions::default();
    let mut internal: FxHashMap<&[u8], u64> = FxHashMap::default();
    for symbol in &from.symbols[..from.first_global as usize] {
        if symbol.info & 15 == STT_FUNC {
            *internal.entry(from.name(symbol.name)).or_default() += 1;
        }
    }
    for (name, count) in internal {
        let name = [name, b" (internal)"].concat();
        result.insert(name, Digest(*blake3::hash(&count.to_le_bytes()).as_bytes()));
    }
    for symbol in &from.symbols[from.first_global as usize..] {
        let mut walk = Walk {
            from,
            member_of: &member_of,
            hasher: Hasher::new(),
            sections: Vec::new(),
            number_of: FxHashMap::default(),
        };
        walk.part(&[symbol.info, symbol.other]);
        walk.part(&symbol.value.to_le_bytes());
        walk.part(&symbol.size.to_le_bytes());
        match symbol.place {
            Place::Section(section) => walk.all_from(section),
            Place::Undefined => walk.part(b"undefined"),
            Place::Absolute | Place::Common | Place::Piece(_) => walk.part(b"other"),
        }
        let name = from.name(symbol.name).to_vec();
        result.insert(name, Digest(*walk.hasher.finalize().as_bytes()));
    }
    result
}

struct Walk<'c, 'a> {
    from: &'c Compilation<'a>,
    member_of: &'c [usize],
    hasher: Hasher,
    /// In the order in which they are reached.
    sections: Vec<u32>,
    number_of: FxHashMap<u32, u32>,
}

impl Walk<'_, '_> {
    fn part(&mut self, bytes: &[u8]) {
        self.hasher.update(&(bytes.len() as u64).to_le_bytes());
        self.hasher.update(bytes);
    }

    fn reach(&mut self, section: u32) -> u32 {
        *self.number_of.entry(section).or_insert_with(|| {
            self.sections.push(section);
            self.sections.len() as u32 - 1
        })
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
        self.part(base.unwrap_or(name));
        for word in [section.sh_type, section.sh_flags, section.entsize] {
            self.part(&word.to_le_bytes());
        }
        self.part(&[section.kind as u8, section.align_log2]);
        let fragment = &from.fragments[self.member_of[number as usize]];
        self.part(&[u8::from(fragment.group != 0)]);
        match (section.kind, section.bytes.get(4..)) {
            (SectionKind::Unwind, Some(record)) => {
                let end = record.iter().rposition(|byte| *byte != 0);
                let record = record[..end.map_or(0, |end| end + 1)].to_vec();
                self.part(&record);
            }
            _ => {
                self.part(&section.size.to_le_bytes());
                self.part(&section.bytes);
            }
        }
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
                    self.part(&[piece.align_log2]);
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
    }
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
