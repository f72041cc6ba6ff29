//! Output sections and their parts: which exist, in which order they stand, and
//! which input sections go where, when no linker script says otherwise.
//!
//! An output section is a list of *parts*; a part takes the input sections of one rule of
//! the script (`*(.text.hot .text.hot.*)`), or the merged pieces of one kind, or
//! something that the linker makes. Without a script the sections and parts are those of
//! [`crate::input::standard_sections`]; a linker script gives others.

use crate::base::ids::{OutputId, PartId};
use crate::elf::c;
use crate::elf::shf;
pub use crate::input::standard_sections::{
    Order, STANDARD_COUNT, Std, is_writable, runs_backwards, standard_part, subpart,
};
use crate::input::standard_sections::{SUBPARTS, is_relro_name, rank};
use crate::resolve::section_rules::Rules;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// The kind of a mergeable part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MergeKind {
    /// NUL-terminated strings, not constants.
    pub strings: bool,
    /// Size of an element or character.
    pub entsize: u32,
}

impl MergeKind {
    /// The flags of a section that holds nothing but pieces of this kind.
    pub fn flags(self) -> u64 {
        match self.strings {
            true => shf::MERGE | shf::STRINGS,
            false => shf::MERGE,
        }
    }
}

/// A part of an output section.
#[derive(Clone, Debug)]
pub struct Part {
    /// The output section.
    pub output: OutputId,
    /// Its place among the section's parts.
    pub order: i32,
    /// The order of what is in it.
    pub sort: Order,
    /// Set if the part holds merged pieces.
    pub merge: Option<MergeKind>,
    /// The rule of the linker script whose sections these are; `None` without a script, and for what it does not name.
    pub rule: Option<u32>,
    /// Set if the part holds the common blocks that a linker script's rule takes: whether they are thread-local.
    pub commons: Option<bool>,
}

/// An output section. What follows the blank line is decided by layout.
#[derive(Clone, Debug)]
pub struct OutputSection<'a> {
    /// Its name.
    pub name: Cow<'a, [u8]>,
    /// `SHT_*`.
    pub sh_type: u32,
    /// `SHF_*`.
    pub flags: u64,
    /// Size of an entry, for tables.
    pub entsize: u64,
    /// Read-only after relocation.
    pub relro: bool,
    /// Sort key of its place in the file.
    pub rank: u32,

    /// Address; 0 if not loaded.
    pub address: u64,
    /// What must be added to the address to have the load address; not 0 only if a linker script says so.
    pub load_offset: u64,
    /// File offset.
    pub offset: u64,
    /// Size in memory.
    pub size: u64,
    /// Bytes behind it that are nobody's, into which it may grow.
    pub room: u64,
    /// Alignment.
    pub align: u64,
    /// Index in the section header table; 0 if it is not in the output.
    pub header: u32,
    /// For relocations that `--emit-relocs` keeps: the section that they are about.
    pub relocates: Option<OutputId>,
    /// With `SHF_LINK_ORDER`: where the section is that the first one in it is about.
    pub linked: Option<OutputId>,
    /// A script wants none of its bytes in the file (`NOLOAD`).
    pub no_load: bool,
}

impl<'a> OutputSection<'a> {
    /// One with nothing in it yet.
    fn new(name: impl Into<Cow<'a, [u8]>>, sh_type: u32, flags: u64) -> OutputSection<'a> {
        OutputSection {
            name: name.into(),
            sh_type,
            flags,
            entsize: 0,
            relro: false,
            rank: 0,
            address: 0,
            load_offset: 0,
            offset: 0,
            size: 0,
            room: 0,
            align: 1,
            header: 0,
            relocates: None,
            linked: None,
            no_load: false,
        }
    }
}

impl OutputSection<'_> {
    /// Loaded into memory.
    pub fn is_alloc(&self) -> bool {
        self.flags & shf::ALLOC != 0
    }
    /// Takes no space in the file.
    pub fn is_nobits(&self) -> bool {
        self.sh_type == c::SHT_NOBITS
    }
    /// Thread-local without bytes: takes no address space either.
    pub fn is_tbss(&self) -> bool {
        self.is_nobits() && self.flags & shf::TLS != 0
    }
    /// Size in the file.
    pub fn file_size(&self) -> u64 {
        if self.is_nobits() { 0 } else { self.size }
    }
}

/// Where an input section goes, if not into a standard part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Custom<'a> {
    /// Name of the output section.
    pub name: &'a [u8],
    /// `SHT_*`.
    pub sh_type: u32,
    /// The `SHF_*` that count for the output.
    pub flags: u64,
    /// Set if it is mergeable.
    pub merge: Option<MergeKind>,
    /// How the sections of this kind are ordered.
    pub sort: Order,
    /// The section's number in its file, if it shall have an output section of its own (`--unique`).
    pub alone: Option<u32>,
    /// The rule of the linker script that takes it; then the name does not count.
    pub rule: Option<u32>,
}

/// The output sections and parts of a link.
#[derive(Clone)]
pub struct Outputs<'a> {
    /// By [`OutputId`].
    pub sections: Vec<OutputSection<'a>>,
    /// By [`PartId`].
    pub parts: Vec<Part>,
    /// The patterns of a linker script. Then the standard sections are not in the output themselves: each is a view of
    /// what the script's sections hold of its kind.
    pub rules: Option<Arc<Rules>>,
    index: Index<'a>,
    /// See [`Outputs::by_address`].
    by_address: OnceLock<Vec<(u64, u32)>>,
}

/// What [`Outputs::custom`] finds sections and parts by: inputs may have tens of thousands of names.
#[derive(Clone, Default)]
struct Index<'a> {
    /// The sections of a name, in order.
    named: FxHashMap<Cow<'a, [u8]>, Vec<u32>>,
    /// The parts of a section, in order.
    parts_of: FxHashMap<OutputId, Vec<u32>>,
    /// How many sections and parts are in it. Those that came later are added when something is looked up.
    covers: (usize, usize),
}

impl<'a> Index<'a> {
    fn update(&mut self, sections: &[OutputSection<'a>], parts: &[Part]) {
        for (number, section) in sections.iter().enumerate().skip(self.covers.0) {
            let same = self.named.entry(section.name.clone()).or_default();
            same.push(number as u32);
        }
        for (number, part) in parts.iter().enumerate().skip(self.covers.1) {
            let together = self.parts_of.entry(part.output).or_default();
            together.push(number as u32);
        }
        self.covers = (sections.len(), parts.len());
    }
}

impl<'a> Default for Outputs<'a> {
    fn default() -> Self {
        let sections = Std::ALL.iter().map(|std| {
            let row = std.row();
            OutputSection {
                relro: row.relro,
                rank: std.rank(),
                ..OutputSection::new(row.name.as_bytes(), row.sh_type, row.flags)
            }
        });
        let part = |output: OutputId, order: i32, sort: Order| Part {
            output,
            order,
            sort,
            merge: None,
            rule: None,
            commons: None,
        };
        let main = (0..STANDARD_COUNT).map(|i| part(OutputId(i), 0, Order::Input));
        let subs = SUBPARTS
            .iter()
            .map(|sub| part(sub.std.id(), sub.order, sub.sort));
        Outputs {
            sections: sections.collect(),
            parts: main.chain(subs).collect(),
            rules: None,
            index: Index::default(),
            by_address: OnceLock::new(),
        }
    }
}

impl<'a> Outputs<'a> {
    /// The output section of a standard kind.
    pub fn std(&self, std: Std) -> &OutputSection<'a> {
        &self.sections[std.id().index()]
    }

    /// The output section of a standard kind.
    pub fn std_mut(&mut self, std: Std) -> &mut OutputSection<'a> {
        &mut self.sections[std.id().index()]
    }

    /// `-z rodynamic`: `.dynamic` is read-only from the start, before the code.
    pub fn make_dynamic_read_only(&mut self) {
        let dynamic = self.std_mut(Std::Dynamic);
        dynamic.flags &= !shf::WRITE;
        dynamic.relro = false;
        dynamic.rank = Std::RelaPlt.rank() + 1;
    }

    /// The output section of a name.
    pub fn find(&self, name: &[u8]) -> Option<OutputId> {
        self.sections
            .iter()
            .position(|section| *section.name == *name)
            .map(|i| OutputId(i as u32))
    }

    /// The part for input sections of a custom kind, made if need be.
    pub fn custom(&mut self, custom: &Custom<'a>) -> Option<PartId> {
        let kept = custom.flags & (shf::LOADING | shf::REMARKS);
        // Sections of one name go together if they are loaded alike.
        let ruled = match (custom.rule, &self.rules) {
            (Some(rule), Some(rules)) => Some(rules.rules.get(rule as usize)?.output.index()),
            _ => None,
        };
        let scripted = self.rules.is_some();
        self.index.update(&self.sections, &self.parts);
        let named = match custom.alone {
            None => self.index.named.get(custom.name),
            Some(_) => None,
        };
        let found = ruled.or_else(|| {
            let fits = |number: &u32| match scripted {
                true => *number >= STANDARD_COUNT,
                false => {
                    let flags = self.sections[*number as usize].flags;
                    !Std::ALL
                        .get(*number as usize)
                        .is_some_and(|std| std.is_made())
                        && (flags ^ kept) & (shf::ALLOC | shf::TLS) == 0
                }
            };
            named?
                .iter()
                .copied()
                .find(fits)
                .map(|number| number as usize)
        });
        let output = match found {
            Some(i) => {
                let section = &mut self.sections[i];
                section.flags |= kept;
                // Bytes among what has none: then all of it is in the file.
                if i >= STANDARD_COUNT as usize
                    && section.is_nobits()
                    && custom.sh_type != c::SHT_NOBITS
                {
                    section.sh_type = custom.sh_type;
                    section.rank =
                        rank(&section.name, section.sh_type, section.flags, section.relro);
                }
                OutputId(i as u32)
            }
            None => {
                // The image of thread-local storage is one range, whatever its sections are called.
                let relro = kept & shf::TLS != 0 || is_relro_name(custom.name);
                let rank = rank(custom.name, custom.sh_type, kept, relro);
                let id = OutputId(next_number(self.sections.len())?);
                self.sections.push(OutputSection {
                    relro,
                    rank,
                    ..OutputSection::new(custom.name, custom.sh_type, kept)
                });
                id
            }
        };
        let same = |part: &Part| {
            part.merge == custom.merge
                && part.sort == custom.sort
                && part.rule == custom.rule
                && (part.order == own_place(custom))
        };
        let together = self.index.parts_of.get(&output);
        let mut together = together.into_iter().flatten().copied();
        if let Some(known) = together.find(|number| same(&self.parts[*number as usize])) {
            return Some(PartId(known));
        }
        let id = PartId(next_number(self.parts.len())?);
        self.parts.push(Part {
            output,
            order: own_place(custom),
            sort: custom.sort,
            merge: custom.merge,
            rule: custom.rule,
            commons: None,
        });
        Some(id)
    }

    /// A part for the common blocks that a linker script's rule takes; `None` if there are too many parts.
    pub fn add_commons(&mut self, output: OutputId, rule: u32, tls: bool) -> Option<PartId> {
        let id = PartId(next_number(self.parts.len())?);
        self.parts.push(Part {
            output,
            // They come behind what has a section.
            order: 1,
            sort: Order::Input,
            merge: None,
            rule: Some(rule),
            commons: Some(tls),
        });
        Some(id)
    }

    /// The outputs of a link whose linker script has these sections, and these patterns: the sections' numbers follow
    /// the standard ones.
    pub fn scripted(names: impl Iterator<Item = Vec<u8>>, rules: Rules) -> Outputs<'a> {
        let mut outputs = Outputs {
            rules: Some(Arc::new(rules)),
            ..Outputs::default()
        };
        for name in names {
            outputs.add(Cow::Owned(name));
        }
        outputs
    }

    /// Adds a section of which nothing but its name is known.
    pub fn add(&mut self, name: Cow<'a, [u8]>) -> OutputId {
        self.sections
            .push(OutputSection::new(name, c::SHT_PROGBITS, 0));
        OutputId((self.sections.len() - 1) as u32)
    }

    /// Whether an output section holds lists of functions that are run in order, so that the old kind of list must be
    /// reversed to be among them.
    #[inline]
    pub fn is_function_list(&self, id: OutputId) -> bool {
        id == Std::InitArray.id()
            || id == Std::FiniArray.id()
            || self.rules.is_some()
                && matches!(
                    &*self.sections[id.index()].name,
                    b".init_array" | b".fini_array"
                )
    }

    /// Addresses and header numbers of the sections that have addresses, in the order of the addresses. To be asked for
    /// when all have theirs.
    pub fn by_address(&self) -> &[(u64, u32)] {
        self.by_address.get_or_init(|| {
            let standing = self
                .sections
                .iter()
                .filter(|section| section.header != 0 && section.is_alloc() && !section.is_tbss());
            let mut list: Vec<(u64, u32)> = standing
                .map(|section| (section.address, section.header))
                .collect();
            list.sort_by_key(|(address, _)| *address);
            list
        })
    }

    /// Says what [`by_address`](Self::by_address) gives, where not all sections that stand are here: their addresses and header
    /// numbers, in the order of the sections.
    pub fn set_by_address(&mut self, mut standing: Vec<(u64, u32)>) {
        standing.sort_by_key(|(address, _)| *address);
        self.by_address = OnceLock::from(standing);
    }

    /// Ids of the output sections in the order of the file.
    pub fn in_order(&self) -> Vec<OutputId> {
        let mut ids: Vec<OutputId> = (0..self.sections.len() as u32).map(OutputId).collect();
        ids.sort_by_key(|id| self.sections[id.index()].rank);
        ids
    }
}

/// The number of the next of `count` sections or parts. They are fewer than 2^24: that is what a place of a merged piece
/// has room for.
fn next_number(count: usize) -> Option<u32> {
    u32::try_from(count).ok().filter(|n| *n < 0xff_ffff)
}

/// The place of a part that is made for sections of a custom kind, among those of its output section. What is ordered as
/// the sections that it is about comes behind what is not, as with GNU ld.
fn own_place(custom: &Custom) -> i32 {
    match (custom.merge, custom.sort) {
        (Some(_), _) => 1,
        (None, Order::Linked) => 2,
        (None, _) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u64 = shf::ALLOC;
    const AW: u64 = shf::ALLOC | shf::WRITE;
    const AX: u64 = shf::ALLOC | shf::EXEC;

    #[test]
    fn orphans_stand_behind_sections_with_their_flags() {
        let mut outputs = Outputs::default();
        let custom = |name, flags| Custom {
            name,
            sh_type: c::SHT_PROGBITS,
            flags,
            merge: None,
            sort: Order::Input,
            alone: None,
            rule: None,
        };
        outputs.custom(&custom(b"code", AX)).unwrap();
        outputs.custom(&custom(b"constants", A)).unwrap();
        outputs.custom(&custom(b"notes", 0)).unwrap();
        let order = outputs.in_order();
        let at = |name: &[u8]| {
            order
                .iter()
                .position(|id| *outputs.sections[id.index()].name == *name)
                .unwrap()
        };
        assert!(at(b".text") < at(b"code") && at(b"code") < at(b".fini"));
        assert!(at(b".rodata") < at(b"constants") && at(b"constants") < at(b".eh_frame_hdr"));
        assert!(at(b".ldata") < at(b"notes") && at(b"notes") < at(b".symtab"));
    }

    #[test]
    fn names_of_what_the_linker_makes_are_not_shared_with_inputs() {
        let mut outputs = Outputs::default();
        for (name, flags, std) in [
            (&b".symtab"[..], 0, Std::Symtab),
            (b".got", AW, Std::Got),
            (b".dynsym", A, Std::DynSym),
        ] {
            let custom = Custom {
                name,
                sh_type: c::SHT_PROGBITS,
                flags,
                merge: None,
                sort: Order::Input,
                alone: None,
                rule: None,
            };
            let part = outputs.custom(&custom).unwrap();
            assert_ne!(outputs.parts[part.index()].output, std.id());
            assert_eq!(outputs.custom(&custom), Some(part), "and it is found again");
        }
    }
}
