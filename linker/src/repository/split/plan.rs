//! Which section belongs to which fragment.
//!
//! Every section that a symbol names is the heart of a fragment of its own. A section
//! without symbols (*anonymous*: a jump table, an exception table, a
//! switch table, a pointer that an exception table needs) belongs to the fragment
//! that refers to it if only one does; if several do, it is a fragment that is known
//! by its content. Fragments known by content must not refer to each other in a
//! circle, or none of them would have a digest: so anonymous sections that form a
//! circle become one fragment first (or, where they may not be joined, are known
//! by their section names).
//!
//! FDEs belong to the fragment of the function that they describe. Each distinct CIE
//! is a fragment. Debug sections (not those in groups) are one fragment, apart from the
//! code; references from it do not count, so that `-g` changes nothing else.

use super::SplitError;
use super::frames::{self, Entry, EntryKind};
use super::graph::{Graph, Lists, Sets};
use super::input::Input;
use super::merge::{self, MergeSection};
use super::names;
use object::LittleEndian as LE;
use object::elf;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// An `.eh_frame` section taken apart.
pub struct FrameSection {
    /// Its section index.
    pub section: u32,
    /// Its entries.
    pub entries: Vec<Entry>,
}

/// An entry of one of the [`Plan::frames`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRef {
    /// Index among the frame sections.
    pub frame: u32,
    /// Index of the entry.
    pub entry: u32,
}

/// What a fragment is made of.
pub enum Content {
    /// Sections `Plan::section_list[sections]`, and FDEs `Plan::fdes[fdes]`.
    Sections {
        /// Range of [`Plan::section_list`].
        sections: Range<usize>,
        /// Range of [`Plan::fdes`].
        fdes: Range<usize>,
    },
    /// One CIE, by its index in [`Plan::cies`].
    Cie(u32),
    /// The terminator of an `.eh_frame`.
    Terminator(EntryRef),
}

/// A fragment to be.
pub struct PlannedFragment {
    /// What it is made of.
    pub content: Content,
    /// 1 + its section group, or 0.
    pub group: u32,
    /// Whether others know it by its content.
    pub anonymous: bool,
}

/// The division of an object into fragments.
pub struct Plan {
    /// For each section how it is cut into pieces, if it is.
    pub merge: Vec<Option<MergeSection>>,
    /// The `.eh_frame` sections that are taken apart.
    pub frames: Vec<FrameSection>,
    /// The distinct CIEs.
    pub cies: Vec<EntryRef>,
    /// For each entry of each frame section: for an FDE the index of its CIE among `cies`.
    pub cie_of: Vec<Vec<u32>>,
    /// FDEs, grouped by fragment.
    pub fdes: Vec<EntryRef>,
    /// Sections, grouped by fragment, ascending.
    pub section_list: Vec<u32>,
    /// The fragments in the order of their first section.
    pub fragments: Vec<PlannedFragment>,
    /// For each section its fragment, or [`NONE`].
    pub fragment_of: Vec<u32>,
    /// For each of `cies` its fragment.
    pub cie_fragment: Vec<u32>,
    /// Fragments, each after the anonymous ones that it refers to.
    pub digest_order: Vec<u32>,
}

/// No fragment, no piece, no symbol.
pub const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Of the object's own structure, or dropped.
    Gone,
    /// Part of a fragment.
    Content,
    /// Part of the debug fragment.
    Debug,
    /// Cut into pieces.
    Cut,
    /// Taken apart into CIEs and FDEs.
    Frames,
}

/// The bytes of a CIE and its relocations: offset, symbol and type, addend.
type CieContent<'a> = (&'a [u8], Vec<(u64, u64, i64)>);

/// Why an object is not divided.
type Reason = String;

impl Plan {
    /// Divides an object; the inner error says why it must stay in one piece.
    ///
    /// # Errors
    /// As for [`split`](super::split).
    pub fn split(input: &Input<'_>) -> Result<Result<Plan, Reason>, SplitError> {
        if let Some(reason) = &input.keep_whole {
            return Ok(Err(reason.clone()));
        }
        let merge = merge::cut(input);
        let mut roles = roles(input, &merge);
        let frames = match take_frames(input, &mut roles) {
            Ok(frames) => frames,
            Err(reason) => return Ok(Err(reason)),
        };
        let mut planner = Planner::new(input, merge, roles, frames);
        if let Err(reason) = planner.find_cies_and_owners_of_fdes() {
            return Ok(Err(reason));
        }
        if let Err(reason) = planner.drop_empty() {
            return Ok(Err(reason));
        }
        planner.unite_debug();
        let components = planner.unite_anonymous();
        Ok(Ok(planner.finish(&components)))
    }

    /// One fragment for all, one for each group, and one for debug sections.
    ///
    /// # Errors
    /// As for [`split`](super::split).
    pub fn whole(input: &Input<'_>) -> Result<Plan, SplitError> {
        let merge = input.section_numbers().map(|_| None).collect::<Vec<_>>();
        let roles = roles(input, &merge);
        let mut planner = Planner::new(input, merge, roles, Vec::new());
        planner.by_section_name.fill(true);
        planner.unite_debug();
        let mut first_of_group: FxHashMap<u32, u32> = FxHashMap::default();
        for section in input.section_numbers() {
            if planner.roles[section as usize] == Role::Content {
                let first = *first_of_group
                    .entry(input.group[section as usize])
                    .or_insert(section);
                planner.sets.union(first, section);
            }
        }
        Ok(planner.finish(&Lists::new()))
    }
}

fn roles(input: &Input<'_>, merge: &[Option<MergeSection>]) -> Vec<Role> {
    input
        .section_numbers()
        .map(|number| {
            let index = number as usize;
            let section = input.section(number);
            if !input.is_content[index] {
                Role::Gone
            } else if merge[index].is_some() {
                Role::Cut
            } else if section.flags() & u64::from(elf::SHF_ALLOC) == 0
                && section.name.starts_with(b".debug_")
                && input.group[index] == 0
            {
                Role::Debug
            } else {
                Role::Content
            }
        })
        .collect()
}

/// Takes the `.eh_frame` sections apart. One that holds at most a terminator stays
/// as it is (it may have a symbol, as in crtbegin.o and crtend.o).
fn take_frames(input: &Input<'_>, roles: &mut [Role]) -> Result<Vec<FrameSection>, Reason> {
    let mut frames = Vec::new();
    for section in input.section_numbers() {
        let index = section as usize;
        if roles[index] != Role::Content
            || input.section(section).name != b".eh_frame"
            || input.section(section).sh_type() == elf::SHT_NOBITS
        {
            continue;
        }
        let entries = frames::parse(input.data[index], input.relocations[index])
            .map_err(|why| format!("section .eh_frame: {why}"))?;
        if entries
            .iter()
            .all(|entry| entry.kind == EntryKind::Terminator)
        {
            continue;
        }
        if input.first_symbol[index].is_some() || input.group[index] != 0 {
            return Err("section .eh_frame has a symbol or is in a group".into());
        }
        roles[index] = Role::Frames;
        frames.push(FrameSection { section, entries });
    }
    Ok(frames)
}

struct Planner<'i, 'a> {
    input: &'i Input<'a>,
    merge: Vec<Option<MergeSection>>,
    roles: Vec<Role>,
    frames: Vec<FrameSection>,
    cies: Vec<EntryRef>,
    cie_of: Vec<Vec<u32>>,
    /// FDEs with the section of the function that they describe.
    fdes: Vec<(u32, EntryRef)>,
    /// Sections that are known by their section names, for want of something better.
    by_section_name: Vec<bool>,
    /// Sections that go together. Indices beyond the sections are CIEs.
    sets: Sets,
}

impl<'i, 'a> Planner<'i, 'a> {
    fn new(
        input: &'i Input<'a>,
        merge: Vec<Option<MergeSection>>,
        roles: Vec<Role>,
        frames: Vec<FrameSection>,
    ) -> Self {
        let count = roles.len();
        Planner {
            input,
            merge,
            roles,
            frames,
            cies: Vec::new(),
            cie_of: Vec::new(),
            fdes: Vec::new(),
            by_section_name: vec![false; count],
            sets: Sets::new(count),
        }
    }

    fn symbol_section(&self, relocation: &elf::Rela64<LE>) -> Option<u32> {
        match relocation.r_sym(LE, false) {
            0 => None,
            symbol => self.input.section_of(symbol),
        }
    }

    /// Finds equal CIEs, and for each FDE the section that it describes.
    fn find_cies_and_owners_of_fdes(&mut self) -> Result<(), Reason> {
        let mut known: FxHashMap<CieContent<'_>, u32> = FxHashMap::default();
        for (frame_index, frame) in self.frames.iter().enumerate() {
            let data = self.input.data[frame.section as usize];
            let relocations = self.input.relocations[frame.section as usize];
            let mut cie_of = vec![NONE; frame.entries.len()];
            for (entry_index, entry) in frame.entries.iter().enumerate() {
                let this = EntryRef {
                    frame: frame_index as u32,
                    entry: entry_index as u32,
                };
                match entry.kind {
                    EntryKind::Terminator => {}
                    EntryKind::Cie => {
                        let fixups = relocations[entry.relocations.clone()]
                            .iter()
                            .map(|relocation| {
                                (
                                    relocation.r_offset.get(LE) - entry.bytes.start as u64,
                                    relocation.r_info.get(LE),
                                    relocation.r_addend.get(LE),
                                )
                            })
                            .collect();
                        let next = self.cies.len() as u32;
                        let cie = *known
                            .entry((&data[entry.bytes.clone()], fixups))
                            .or_insert(next);
                        if cie == next {
                            self.cies.push(this);
                        }
                        cie_of[entry_index] = cie;
                    }
                    EntryKind::Fde { cie } => {
                        cie_of[entry_index] = cie_of[cie];
                        let function = self
                            .symbol_section(&relocations[entry.relocations.start])
                            .filter(|section| self.roles[*section as usize] == Role::Content)
                            .ok_or("an FDE describes a function that is not in this object")?;
                        self.fdes.push((function, this));
                    }
                }
            }
            self.cie_of.push(cie_of);
        }
        Ok(())
    }

    /// Compilers write empty `.text`, `.data`, `.bss` and (clang, for C++20) `.linker-options`
    /// sections into every object: those that nothing refers to are dropped.
    fn drop_empty(&mut self) -> Result<(), Reason> {
        let mut referenced = self.input.is_referred_to.clone();
        for section in self.input.section_numbers() {
            let link = self.input.section(section).link();
            if self.input.is_content[section as usize] {
                referenced[link as usize] = true;
            }
        }
        for section in self.input.section_numbers() {
            let index = section as usize;
            if self.roles[index] == Role::Content
                && self.input.size[index] == 0
                && !referenced[index]
                && self.input.first_symbol[index].is_none()
                && self.input.group[index] == 0
                && matches!(
                    self.input.section(section).name,
                    b".text" | b".data" | b".bss" | b".linker-options"
                )
            {
                self.roles[index] = Role::Gone;
            }
            if self.roles[index] == Role::Frames && referenced[index] {
                return Err("section .eh_frame is referred to".into());
            }
        }
        Ok(())
    }

    fn unite_debug(&mut self) {
        let mut first = None;
        for section in self.input.section_numbers() {
            if self.roles[section as usize] == Role::Debug {
                self.sets.union(*first.get_or_insert(section), section);
                self.by_section_name[section as usize] = true;
            }
        }
    }

    fn is_anonymous(&self, section: u32) -> bool {
        let index = section as usize;
        self.roles[index] == Role::Content
            && self.input.first_symbol[index].is_none()
            && !self.by_section_name[index]
    }

    /// Calls `edge` for every reference from a section, or from CIE `k` (as
    /// number of sections + `k`), to an anonymous section or to a CIE.
    fn for_each_reference(&self, edge: &mut impl FnMut(u32, u32)) {
        let count = self.roles.len() as u32;
        // Asked for each relocation.
        let anonymous: Vec<bool> = (0..count)
            .map(|section| self.is_anonymous(section))
            .collect();
        for section in self.input.section_numbers() {
            let index = section as usize;
            if self.roles[index] != Role::Content {
                continue;
            }
            for relocation in self.input.relocations[index] {
                if let Some(target) = self.symbol_section(relocation)
                    && anonymous[target as usize]
                {
                    edge(section, target);
                }
            }
            // A section that is linked to another lives and dies with it (gABI,
            // SHF_LINK_ORDER), as if the other referred to it.
            let link = self.input.section(section).link();
            if link != 0 {
                if self.is_anonymous(section) && self.roles[link as usize] == Role::Content {
                    edge(link, section);
                }
                if self.is_anonymous(link) {
                    edge(section, link);
                }
            }
        }
        let mut from_entry = |from: u32, entry: EntryRef| {
            let frame = &self.frames[entry.frame as usize];
            let relocations = self.input.relocations[frame.section as usize];
            for relocation in &relocations[frame.entries[entry.entry as usize].relocations.clone()]
            {
                if let Some(target) = self.symbol_section(relocation)
                    && anonymous[target as usize]
                {
                    edge(from, target);
                }
            }
        };
        for &(function, fde) in &self.fdes {
            from_entry(function, fde);
        }
        for (index, &cie) in self.cies.iter().enumerate() {
            from_entry(count + index as u32, cie);
        }
        for &(function, fde) in &self.fdes {
            edge(
                function,
                count + self.cie_of[fde.frame as usize][fde.entry as usize],
            );
        }
    }

    /// Gives anonymous sections to their owners. The result is the nodes
    /// (sections, and CIEs beyond them), each component after those it refers to.
    fn unite_anonymous(&mut self) -> Lists {
        let count = self.roles.len() as u32;
        let nodes = count as usize + self.cies.len();
        let mut edges: Vec<(u32, u32)> = Vec::new();
        let mut last_from = vec![NONE; nodes];
        self.for_each_reference(&mut |from, to| {
            if from != to && std::mem::replace(&mut last_from[to as usize], from) != from {
                edges.push((from, to));
            }
        });
        let node_is_anonymous =
            |planner: &Self, node: u32| node >= count || planner.is_anonymous(node);
        let components = Graph::new(
            nodes,
            edges
                .iter()
                .copied()
                .filter(|(from, _)| node_is_anonymous(self, *from)),
        )
        .components();
        // Circles become one, or lose their anonymity.
        for component in components.iter().filter(|component| component.len() > 1) {
            let first = component[0];
            let alike = component.iter().all(|&node| {
                node < count
                    && self.may_be_owned(node)
                    && self.input.group[node as usize] == self.input.group[first as usize]
            });
            for &node in component {
                if alike {
                    self.sets.union(first, node);
                } else if node < count {
                    self.by_section_name[node as usize] = true;
                }
            }
        }
        // Predecessors first: the owner of a referrer is known before the owner
        // of what it refers to is asked for.
        let referrers = Graph::new(nodes, edges.iter().map(|&(from, to)| (to, from)));
        for component in components.iter().rev() {
            let first = component[0];
            if first >= count || !self.is_anonymous(first) || !self.may_be_owned(first) {
                continue;
            }
            let own = self.sets.find(first);
            let mut owner = None;
            let mut several = false;
            for &member in component {
                for &referrer in referrers.successors(member) {
                    if referrer >= count {
                        several = true;
                        continue;
                    }
                    let set = self.sets.find(referrer);
                    if set != own {
                        several |= *owner.get_or_insert(set) != set;
                    }
                }
            }
            if let Some(owner) = owner
                && !several
                && self.input.group[owner as usize] == self.input.group[first as usize]
            {
                self.sets.union(owner, own);
            }
        }
        components
    }

    fn may_be_owned(&self, section: u32) -> bool {
        let facts = self.input.section(section);
        let linked = facts.flags() & u64::from(elf::SHF_LINK_ORDER) != 0;
        self.is_anonymous(section)
            && facts.flags() & u64::from(elf::SHF_GNU_RETAIN) == 0
            && facts.flags() & u64::from(elf::SHF_ALLOC) != 0
            && matches!(facts.sh_type(), elf::SHT_PROGBITS | elf::SHT_NOBITS)
            && (names::is_ordinary(facts.name) || linked)
    }

    fn finish(mut self, components: &Lists) -> Plan {
        let count = self.roles.len();
        let mut fragments = Vec::new();
        let mut fragment_of = vec![NONE; count];
        let mut sizes: Vec<u32> = Vec::new();
        let mut cie_fragment = vec![NONE; self.cies.len()];
        // A set's representative is its least section, so fragments are met in order.
        for section in 0..count as u32 {
            match self.roles[section as usize] {
                Role::Content | Role::Debug => {
                    let first = self.sets.find(section);
                    if first == section {
                        fragment_of[section as usize] = fragments.len() as u32;
                        fragments.push(PlannedFragment {
                            content: Content::Sections {
                                sections: 0..0,
                                fdes: 0..0,
                            },
                            group: self.input.group[section as usize],
                            anonymous: true,
                        });
                        sizes.push(0);
                    }
                    let fragment = fragment_of[first as usize];
                    fragment_of[section as usize] = fragment;
                    sizes[fragment as usize] += 1;
                    fragments[fragment as usize].anonymous &= self.is_anonymous(section);
                }
                Role::Frames => {
                    // The frame sections are in ascending order.
                    let found = self
                        .frames
                        .binary_search_by_key(&section, |frame| frame.section);
                    let Ok(index) = found else { continue };
                    for (entry_index, entry) in self.frames[index].entries.iter().enumerate() {
                        let this = EntryRef {
                            frame: index as u32,
                            entry: entry_index as u32,
                        };
                        let content = match entry.kind {
                            EntryKind::Terminator => Content::Terminator(this),
                            EntryKind::Cie => {
                                let cie = self.cie_of[index][entry_index];
                                if self.cies[cie as usize] != this {
                                    continue;
                                }
                                cie_fragment[cie as usize] = fragments.len() as u32;
                                Content::Cie(cie)
                            }
                            EntryKind::Fde { .. } => continue,
                        };
                        fragments.push(PlannedFragment {
                            content,
                            group: 0,
                            anonymous: true,
                        });
                        sizes.push(0);
                    }
                }
                Role::Gone | Role::Cut => {}
            }
        }
        let mut starts = Vec::with_capacity(sizes.len());
        let mut start = 0usize;
        for size in &sizes {
            starts.push(start);
            start += *size as usize;
        }
        let mut section_list = vec![0; start];
        let mut next = starts.clone();
        for (section, &fragment) in fragment_of.iter().enumerate() {
            if fragment != NONE {
                section_list[next[fragment as usize]] = section as u32;
                next[fragment as usize] += 1;
            }
        }
        // Stable: the FDEs of a fragment keep their order.
        self.fdes
            .sort_by_key(|(function, _)| fragment_of[*function as usize]);
        let mut fde = 0;
        for (index, fragment) in fragments.iter_mut().enumerate() {
            if let Content::Sections { sections, fdes } = &mut fragment.content {
                *sections = starts[index]..next[index];
                let begin = fde;
                while self
                    .fdes
                    .get(fde)
                    .is_some_and(|(function, _)| fragment_of[*function as usize] == index as u32)
                {
                    fde += 1;
                }
                *fdes = begin..fde;
            }
        }
        let digest_order = digest_order(components, &fragments, &fragment_of, &cie_fragment);
        Plan {
            merge: self.merge,
            frames: self.frames,
            cies: self.cies,
            cie_of: self.cie_of,
            fdes: self.fdes.into_iter().map(|(_, fde)| fde).collect(),
            section_list,
            fragments,
            fragment_of,
            cie_fragment,
            digest_order,
        }
    }
}

/// Anonymous fragments in an order in which each comes after those that it refers
/// to, then all others. A fragment of several components belongs where
/// the last of them is: the others are owned, so only it refers to them.
fn digest_order(
    components: &Lists,
    fragments: &[PlannedFragment],
    fragment_of: &[u32],
    cie_fragment: &[u32],
) -> Vec<u32> {
    let mut order = Vec::with_capacity(fragments.len());
    let mut placed = vec![false; fragments.len()];
    for node in components.iter().rev().flatten() {
        let node = *node as usize;
        let fragment = match node.checked_sub(fragment_of.len()) {
            Some(cie) => cie_fragment[cie],
            None => fragment_of[node],
        };
        if fragment != NONE
            && fragments[fragment as usize].anonymous
            && !std::mem::replace(&mut placed[fragment as usize], true)
        {
            order.push(fragment);
        }
    }
    order.reverse();
    order.extend((0..fragments.len() as u32).filter(|&fragment| !placed[fragment as usize]));
    order
}
