//! The input sections of all linked files: one number each, attributes in
//! arrays by that number.
//!
//! Building the table is one parallel pass over the section headers. Names are
//! not hashed: nearly all sections go to a standard part, which
//! [`standard_part`] finds by looking at a few letters; the rest
//! is compared with the handful of other kinds that the same file has had, and
//! the kinds of all files are brought together afterwards.

use crate::args::{Args, StripMode};
use crate::base::ids::{FileId, PartId, SectionId};
use crate::elf::c;
use crate::elf::is_debug;
use crate::elf::shf;
use crate::input::elf_object::NAMES_AHEAD;
use crate::input::file::{File, Files};
use crate::input::object::Object;
use crate::input::parts::Section;
use crate::input::ticket_object::TicketObject;
use crate::messages::diag::Diagnostics;
use crate::repository::split::piece_section_name;
use crate::resolve::output_sections::{
    Custom, MergeKind, Order, Outputs, Std, is_writable, runs_backwards, standard_part,
};
use crate::resolve::section_rules::{FileNames, Route, Rules};
use crate::resolve::unique_sections::Unique;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use store::prefetch::prefetch;

/// Bits of a section's state.
pub mod state {
    /// Will be in the output, or has an influence on it.
    pub const ALIVE: u8 = 1;
    /// Lost against the same COMDAT group in an earlier file, sent to `/DISCARD/` by a linker script, or not for
    /// linked files at all (`SHF_EXCLUDE`): see [`crate::resolve::input_sections::why_discarded`].
    pub const DISCARDED: u8 = 2;
    /// Kept by garbage collection whoever refers to it.
    pub const ROOT: u8 = 4;
    /// Loaded at run time.
    pub const ALLOC: u8 = 8;
    /// Some frame description belongs to it.
    pub const HAS_FDE: u8 = 16;
    /// May be written to at run time.
    pub const WRITE: u8 = 32;
    /// It has bytes in the file, that is, it is not `SHT_NOBITS`.
    pub const BITS: u8 = 64;
    /// `.eh_frame`: taken apart, not copied.
    pub const EH_FRAME: u8 = 128;
}

/// All input sections.
pub struct Sections {
    /// First section of each file, and the end of the last one.
    base: Vec<u32>,
    /// Part of the output for each section; [`PartId::NONE`] for what is not copied.
    pub part: Vec<PartId>,
    /// Number, in the file, of the section with its relocations; 0 for none.
    pub relocations: Vec<u32>,
    state: Vec<AtomicU8>,
    file: Vec<FileId>,
}

/// What the pass over one file's headers finds beside the arrays.
struct Found<'a> {
    loaded_size: u64,
    customs: Customs<'a>,
    executable_stack: Option<bool>,
    properties: Vec<u32>,
    frames: Vec<u32>,
    sframes: Vec<u32>,
    link_order: Vec<(u32, u32)>,
    warnings: Vec<u32>,
    /// What standard parts hold whose [`shf::REMARKS`] concern the output section, each once.
    remarks: Vec<(PartId, u64)>,
}

/// The kinds of sections of one file that no standard part takes.
#[derive(Default)]
struct Customs<'a> {
    list: Vec<Custom<'a>>,
    /// Their indices. Only kept where there are more than a handful.
    index: FxHashMap<Custom<'a>, usize>,
}

impl<'a> Customs<'a> {
    /// Up to so many it is cheaper to compare with each.
    const HANDFUL: usize = 8;

    fn find(&self, custom: &Custom<'a>) -> Option<usize> {
        match self.list.len() <= Self::HANDFUL {
            true => self.list.iter().position(|known| known == custom),
            false => self.index.get(custom).copied(),
        }
    }

    fn push(&mut self, custom: Custom<'a>) -> usize {
        let number = self.list.len();
        self.list.push(custom);
        if self.list.len() > Self::HANDFUL {
            for (i, custom) in self.list.iter().enumerate().skip(self.index.len()) {
                self.index.insert(custom.clone(), i);
            }
        }
        number
    }
}

/// What the linker consumes from the linked files beside their contents.
pub struct SectionFacts {
    /// Bytes of all loaded sections, before anything is left out or merged.
    pub loaded_size: u64,
    /// Files whose `.note.GNU-stack` asks for an executable stack.
    pub executable_stack: Vec<FileId>,
    /// `.note.gnu.property` sections of each file.
    pub properties: Vec<(FileId, Vec<u32>)>,
    /// `.eh_frame` sections, in order.
    pub frames: Vec<SectionId>,
    /// `.sframe` sections, in order.
    pub sframes: Vec<SectionId>,
    /// Sections with `SHF_LINK_ORDER`, each with the section that it is about, in order.
    pub link_order: Vec<(SectionId, SectionId)>,
    /// Sections that hold warnings about symbols (see [`gnu_warning`](crate::report::gnu_warning)).
    pub warnings: Vec<SectionId>,
}

/// What the names of sections begin with that hold warnings about symbols.
pub const WARNING_PREFIX: &[u8] = b".gnu.warning";

/// Addresses that are significant, for identical code folding (LLVM's extension).
const SHT_LLVM_ADDRSIG: u32 = 0x6fff_4c03;
/// How often functions of an object were seen to call each other (LLVM's "Call Graph Profile Section").
const SHT_LLVM_CALL_GRAPH_PROFILE: u32 = 0x6fff_4c09;

/// What becomes of sections that are not loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unloaded {
    /// They are linked.
    Keep,
    /// Debugging information is left out.
    DropDebug,
    /// All are left out: nothing could find them in an output without section headers.
    Drop,
}

impl Unloaded {
    /// As the options say.
    pub fn from_args(args: &Args) -> Unloaded {
        match args.strip {
            _ if !args.z.section_header => Unloaded::Drop,
            StripMode::None => Unloaded::Keep,
            StripMode::Debug | StripMode::All => Unloaded::DropDebug,
        }
    }
}

/// The greatest alignment of a section, in bytes.
const LARGEST_ALIGNMENT: u64 = 1 << 30;

/// Parts above this are numbers in the file's own list while the table is being built.
const LOCAL_PART: u32 = 1 << 31;

impl Sections {
    /// Numbers and classifies the sections of the files that are linked.
    pub fn build<'a>(
        files: &Files<'a>,
        linked: &[bool],
        unloaded: Unloaded,
        unique: Option<&Unique>,
        outputs: &mut Outputs<'a>,
        diag: &Diagnostics,
    ) -> (Sections, SectionFacts) {
        let (base, total) = bases(files, linked);
        let mut part = vec![PartId::NONE; total as usize];
        let mut relocations = vec![0u32; total as usize];
        let mut state: Vec<AtomicU8> = Vec::new();
        state.resize_with(total as usize, AtomicU8::default);
        let mut owner = vec![FileId::LINKER; total as usize];

        let slices = per_file(&base, &mut part)
            .into_iter()
            .zip(per_file(&base, &mut relocations))
            .zip(per_file(&base, &mut state))
            .zip(per_file(&base, &mut owner))
            .enumerate()
            .filter(|(_, (((part, _), _), _))| !part.is_empty())
            .collect::<Vec<_>>();
        let rules = outputs.rules.clone();
        let rules = rules.as_deref();
        let found: Vec<(FileId, Found<'a>, &mut [PartId])> = slices
            .into_par_iter()
            .map(|(i, (((part, relocations), state), owner))| {
                let id = FileId(i as u32);
                owner.fill(id);
                let file = files.get(id);
                let object = files.object(id);
                let found = classify_file(
                    file,
                    object,
                    rules,
                    unloaded,
                    unique,
                    part,
                    relocations,
                    state,
                    diag,
                );
                (id, found, part)
            })
            .collect();

        let mut facts = SectionFacts {
            loaded_size: 0,
            executable_stack: Vec::new(),
            properties: Vec::new(),
            frames: Vec::new(),
            sframes: Vec::new(),
            link_order: Vec::new(),
            warnings: Vec::new(),
        };
        for (id, found, part) in found {
            facts.loaded_size = facts.loaded_size.saturating_add(found.loaded_size);
            if found.executable_stack == Some(true) {
                facts.executable_stack.push(id);
            }
            for (part, remarks) in found.remarks {
                let output = outputs.parts[part.index()].output;
                outputs.sections[output.index()].flags |= remarks;
            }
            facts.properties.push((id, found.properties));
            facts
                .frames
                .extend(found.frames.iter().map(|n| SectionId(base[id.index()] + n)));
            facts.sframes.extend(
                found
                    .sframes
                    .iter()
                    .map(|n| SectionId(base[id.index()] + n)),
            );
            let global = |number: u32| SectionId(base[id.index()] + number);
            let link_order = found.link_order.into_iter();
            facts
                .link_order
                .extend(link_order.map(|(section, about)| (global(section), global(about))));
            facts
                .warnings
                .extend(found.warnings.into_iter().map(global));
            if found.customs.list.is_empty() {
                continue;
            }
            let global: Vec<PartId> = found
                .customs
                .list
                .iter()
                .map(|custom| {
                    outputs.custom(custom).unwrap_or_else(|| {
                        diag.error(format!(
                            "{}: too many different output sections",
                            files.get(id)
                        ));
                        PartId::NONE
                    })
                })
                .collect();
            for slot in part
                .iter_mut()
                .filter(|slot| slot.0 >= LOCAL_PART && **slot != PartId::NONE)
            {
                *slot = global[(slot.0 - LOCAL_PART) as usize];
            }
        }
        (
            Sections {
                base,
                part,
                relocations,
                state,
                file: owner,
            },
            facts,
        )
    }

    /// Numbers the sections of the files that are linked, as [`Sections::build`] does, for an output that has no
    /// parts: a relocatable object. What `.note.GNU-stack` says is in its flags, and stays there.
    pub fn number(
        files: &Files,
        linked: &[bool],
        args: &Args,
        diag: &Diagnostics,
    ) -> (Sections, SectionFacts) {
        let strip_debug = args.strip != StripMode::None;
        let (base, total) = bases(files, linked);
        let mut sections = Sections {
            part: vec![PartId::NONE; total as usize],
            relocations: vec![0; total as usize],
            state: Vec::new(),
            file: vec![FileId::LINKER; total as usize],
            base,
        };
        sections
            .state
            .resize_with(total as usize, AtomicU8::default);
        let mut facts = SectionFacts {
            loaded_size: 0,
            executable_stack: Vec::new(),
            properties: Vec::new(),
            frames: Vec::new(),
            sframes: Vec::new(),
            link_order: Vec::new(),
            warnings: Vec::new(),
        };
        for (file, input) in files.iter() {
            let range = sections.of_file(file);
            if range.is_empty() {
                continue;
            }
            sections.file[range.start as usize..range.end as usize].fill(file);
            let mut properties = Vec::new();
            let object = files.object(file);
            for number in 1..object.section_count() {
                let id = sections.id(file, number);
                match object.relocation_section(number) {
                    Ok(None) => {}
                    Ok(Some(target)) => {
                        let target = sections.id(file, target);
                        let slot = &mut sections.relocations[target.index()];
                        if *slot != 0 {
                            diag.error(two_relocation_sections(input, target.0 - range.start));
                        }
                        *slot = number;
                        continue;
                    }
                    Err(why) => {
                        diag.error(format!("{input}: {why}"));
                        continue;
                    }
                }
                let Some(section) = object.section(number) else {
                    continue;
                };
                let is_dropped = strip_debug && is_unloaded_debug(&section)
                    || args.discard_sframe && is_sframe(&section);
                if is_table(&section) || is_dropped {
                    continue;
                }
                if !has_known_type(input, number, &section, diag)
                    || !has_valid_alignment(input, number, &section, diag)
                {
                    continue;
                }
                // The output would keep the type, and its readers would take the section at its word.
                if matches!(
                    section.sh_type,
                    c::SHT_DYNSYM | c::SHT_DYNAMIC | c::SHT_HASH | c::SHT_RELR
                ) {
                    diag.error(format!(
                        "{input}: section {number} ({}) is of type {:#x}, which is for linked files",
                        String::from_utf8_lossy(section.name),
                        section.sh_type
                    ));
                    continue;
                }
                if section.name == b".note.gnu.property" && section.sh_type == c::SHT_NOTE {
                    properties.push(number);
                    continue;
                }
                let mut bits = loaded_bits(&section);
                if section.name == b".eh_frame" && section.flags & shf::ALLOC != 0 {
                    facts.frames.push(id);
                    bits |= state::EH_FRAME;
                }
                if section.flags & shf::RETAIN != 0 || is_root(&section) {
                    bits |= state::ROOT;
                }
                *sections.state[id.index()].get_mut() = bits;
            }
            facts.properties.push((file, properties));
        }
        (sections, facts)
    }

    /// `-z keep-text-section-prefix`: sends code that compilers have marked as hot, unlikely and so on to output sections
    /// of those names, in place of places of their own in `.text`.
    pub fn keep_text_prefixes<'a>(&mut self, files: &Files<'a>, outputs: &mut Outputs<'a>) {
        const PREFIXES: [&[u8]; 6] = [
            b".text.hot",
            b".text.unknown",
            b".text.unlikely",
            b".text.startup",
            b".text.exit",
            b".text.split",
        ];
        for index in 0..self.part.len() {
            let part = self.part[index];
            let is_text = outputs
                .parts
                .get(part.index())
                .is_some_and(|part| part.output == Std::Text.id());
            if part == PartId::NONE || !is_text {
                continue;
            }
            let (file, number) = self.origin(SectionId(index as u32));
            let Some(section) = files.object(file).section(number) else {
                continue;
            };
            let is_under = |prefix: &&[u8]| {
                let rest = section.name.strip_prefix(*prefix);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
            };
            if let Some(name) = PREFIXES.into_iter().find(is_under) {
                let own = Custom {
                    name,
                    sh_type: c::SHT_PROGBITS,
                    flags: shf::ALLOC | shf::EXEC,
                    merge: None,
                    sort: Order::Input,
                    rule: None,
                    alone: None,
                };
                self.part[index] = outputs.custom(&own).unwrap_or(part);
            }
        }
    }

    /// Leaves sections out of the output.
    pub fn discard(&mut self, ids: &[SectionId]) {
        for id in ids {
            let state = self.state[id.index()].get_mut();
            *state = *state & state::ALLOC | state::DISCARDED;
            self.part[id.index()] = PartId::NONE;
        }
    }

    /// Number of sections.
    pub fn count(&self) -> usize {
        self.part.len()
    }

    /// The id of a file's section. `number` must be below the file's section count.
    #[inline]
    pub fn id(&self, file: FileId, number: u32) -> SectionId {
        SectionId(self.base[file.index()] + number)
    }

    /// The id of a file's section, if there is one of that number.
    #[inline]
    pub fn get(&self, file: FileId, number: u32) -> Option<SectionId> {
        let id = self.base[file.index()].checked_add(number)?;
        (id < self.base[file.index() + 1]).then_some(SectionId(id))
    }

    /// Says that a section's origin and relocations will be needed soon.
    #[inline]
    pub fn fetch_origin(&self, id: SectionId) {
        if let (Some(file), Some(relocations)) =
            (self.file.get(id.index()), self.relocations.get(id.index()))
        {
            prefetch(file);
            prefetch(relocations);
        }
    }

    /// File and number of a section.
    #[inline]
    pub fn origin(&self, id: SectionId) -> (FileId, u32) {
        let file = self.file[id.index()];
        (file, id.0 - self.base[file.index()])
    }

    /// Ids of a file's sections.
    #[inline]
    pub fn of_file(&self, file: FileId) -> std::ops::Range<u32> {
        self.base[file.index()]..self.base[file.index() + 1]
    }

    /// Whether the file's sections are in the table.
    pub fn is_linked(&self, file: FileId) -> bool {
        !self.of_file(file).is_empty()
    }

    /// A section's [`state`] bits.
    #[inline]
    pub fn state(&self, id: SectionId) -> u8 {
        self.state[id.index()].load(Relaxed)
    }

    /// Whether it will be in the output.
    #[inline]
    pub fn is_alive(&self, id: SectionId) -> bool {
        self.state(id) & state::ALIVE != 0
    }

    /// Adds bits; says which were there before.
    #[inline]
    pub fn add_state(&self, id: SectionId, bits: u8) -> u8 {
        let slot = &self.state[id.index()];
        let old = slot.load(Relaxed);
        if old & bits == bits {
            old
        } else {
            slot.fetch_or(bits, Relaxed)
        }
    }

    /// Takes a section out.
    pub fn remove_state(&self, id: SectionId, bits: u8) {
        self.state[id.index()].fetch_and(!bits, Relaxed);
    }

    /// Cuts an array by section into one slice a file.
    pub fn split<'s, T>(&self, array: &'s mut [T]) -> Vec<&'s mut [T]> {
        per_file(&self.base, array)
    }
}

/// The first section of each file, with the end of the last one, and their number.
fn bases(files: &Files, linked: &[bool]) -> (Vec<u32>, u32) {
    let mut base = Vec::with_capacity(linked.len() + 1);
    let mut total = 0u32;
    for (file, linked) in files.0.iter().zip(linked) {
        base.push(total);
        if let (Some(object), true) = (file.object(), *linked) {
            total += object.section_count();
        }
    }
    base.push(total);
    (base, total)
}

/// Whether a section says which file this is.
fn is_build_id(section: &Section) -> bool {
    section.name == b".note.gnu.build-id" && section.sh_type == c::SHT_NOTE
}

/// Why a section that is [`state::DISCARDED`] is not in the output, for messages.
pub fn why_discarded(section: &Section) -> &'static str {
    if section.flags & shf::LINK_ORDER != 0 {
        "the section that it is about is discarded"
    } else if section.flags & shf::EXCLUDE != 0 {
        "its flag SHF_EXCLUDE keeps it out of linked files"
    } else if section.flags & shf::GROUP != 0 {
        "another file's COMDAT group was taken in place of its own"
    } else if is_build_id(section) {
        "the build id of an input is not the output's"
    } else if section.name.starts_with(WARNING_PREFIX) {
        "it holds a warning for the linker"
    } else {
        "the linker script says so"
    }
}

fn two_relocation_sections(file: &File, target: u32) -> String {
    format!("{file}: section {target} has two relocation sections")
}

/// A table of the file, which the output has its own of.
fn is_table(section: &Section) -> bool {
    match section.sh_type {
        c::SHT_NULL | c::SHT_SYMTAB | c::SHT_GROUP | c::SHT_SYMTAB_SHNDX => true,
        // They count symbols by their indices, which are others in the output.
        SHT_LLVM_ADDRSIG | SHT_LLVM_CALL_GRAPH_PROFILE | c::SHT_REL => true,
        // The strings of stabs are contents like others: each file's begin where its first stab says.
        c::SHT_STRTAB => section.flags & shf::ALLOC == 0 && !section.name.starts_with(b".stab"),
        _ => false,
    }
}

/// Refuses a section that must be understood to be linked, and is not: its type is one that the gABI has yet to define, or
/// its flags say that whoever does not know the type must not touch it, or a program wants to be loaded with it that knows
/// more of it than we do.
fn has_known_type(file: &File, number: u32, section: &Section, diag: &Diagnostics) -> bool {
    let unknown = match section.sh_type {
        ..=c::SHT_SYMTAB_SHNDX | c::SHT_CREL => false,
        c::SHT_LOOS..=c::SHT_HIOS => section.flags & shf::OS_NONCONFORMING != 0,
        c::SHT_LOPROC..=c::SHT_HIPROC => false,
        c::SHT_LOUSER.. => section.flags & shf::ALLOC != 0,
        _ => true,
    };
    if unknown {
        diag.error(format!(
            "{file}: section {number} ({}) is of unknown type {:#x}",
            String::from_utf8_lossy(section.name),
            section.sh_type
        ));
    }
    !unknown
}

fn has_valid_alignment(file: &File, number: u32, section: &Section, diag: &Diagnostics) -> bool {
    let valid = section.align.is_power_of_two() && section.align <= LARGEST_ALIGNMENT;
    if !valid {
        diag.error(format!(
            "{file}: section {number} ({}): alignment {:#x} is not a power of two up to 1 GiB",
            String::from_utf8_lossy(section.name),
            section.align
        ));
    }
    valid
}

/// The [`state`] bits that follow from type and flags, of a section that is alive.
fn loaded_bits(section: &Section) -> u8 {
    let mut bits = state::ALIVE;
    if section.flags & shf::ALLOC != 0 {
        bits |= state::ALLOC;
    }
    if section.flags & shf::WRITE != 0 {
        bits |= state::WRITE;
    }
    if section.sh_type != c::SHT_NOBITS {
        bits |= state::BITS;
    }
    bits
}

/// Whether a section holds stack traces in the form that is called SFrame.
pub fn is_sframe(section: &Section) -> bool {
    section.name == b".sframe" && section.flags & shf::ALLOC != 0
}

fn is_unloaded_debug(section: &Section) -> bool {
    section.flags & shf::ALLOC == 0 && is_debug(section.name)
}

fn per_file<'s, T>(base: &[u32], mut array: &'s mut [T]) -> Vec<&'s mut [T]> {
    let mut slices = Vec::with_capacity(base.len());
    for pair in base.windows(2) {
        let (head, tail) = array.split_at_mut((pair[1] - pair[0]) as usize);
        slices.push(head);
        array = tail;
    }
    slices
}

/// The shapes of a ticket's sections that have been classified already: what was found for the first section of a shape
/// holds for the others.
struct KnownShapes<'f, 'a> {
    ticket: Option<&'f TicketObject<'a>>,
    /// By shape: the first section that was classified, or 0.
    first: Vec<u32>,
}

impl<'f, 'a> KnownShapes<'f, 'a> {
    /// `differ`: sections may differ by more than their shape.
    fn new(object: &'f Object<'a>, differ: bool) -> Self {
        let ticket = match object {
            Object::Ticket(ticket) if !differ => Some(ticket),
            _ => None,
        };
        KnownShapes {
            ticket,
            first: vec![0; ticket.map_or(0, TicketObject::shape_count)],
        }
    }

    /// A section that was classified and is like this one, and the size of this one.
    #[inline]
    fn like(&self, number: u32) -> Option<(u32, u64)> {
        let ticket = self.ticket?;
        let first = *self.first.get(ticket.shape(number)?)?;
        let (size, align) = ticket.extent(number)?;
        (first != 0 && align <= LARGEST_ALIGNMENT).then_some((first, size))
    }

    /// From now on others are like this section.
    fn remember(&mut self, number: u32, section: &Section) {
        // Whether it is taken apart into pieces depends on its size; what it is about is its own.
        if section.flags & (shf::MERGE | shf::LINK_ORDER) != 0 {
            return;
        }
        let shape = self.ticket.and_then(|ticket| ticket.shape(number));
        if let Some(first) = shape.and_then(|shape| self.first.get_mut(shape)) {
            *first = number;
        }
    }
}

#[allow(clippy::too_many_arguments)] // a file, options, and the file's share of each array
fn classify_file<'a>(
    file: &File<'a>,
    object: &Object<'a>,
    rules: Option<&Rules>,
    unloaded: Unloaded,
    unique: Option<&Unique>,
    part: &mut [PartId],
    relocations: &mut [u32],
    states: &mut [AtomicU8],
    diag: &Diagnostics,
) -> Found<'a> {
    let mut found = Found {
        loaded_size: 0,
        customs: Customs::default(),
        executable_stack: None,
        properties: Vec::new(),
        frames: Vec::new(),
        sframes: Vec::new(),
        link_order: Vec::new(),
        warnings: Vec::new(),
        remarks: Vec::new(),
    };
    let mut known = KnownShapes::new(object, rules.is_some() || unique.is_some());
    // What a script discards, and sections that are about others, each with the other.
    let (mut discarded, mut about) = (Vec::new(), Vec::new());
    for number in 1..object.section_count() {
        object.prefetch_name(number.saturating_add(NAMES_AHEAD as u32));
        match object.relocation_section(number) {
            Ok(None) => {}
            Ok(Some(target)) => {
                let slot = &mut relocations[target as usize];
                if *slot != 0 {
                    diag.error(two_relocation_sections(file, target));
                }
                *slot = number;
                continue;
            }
            Err(why) => {
                diag.error(format!("{file}: {why}"));
                continue;
            }
        }
        if object.has_own_fixups(number) {
            relocations[number as usize] = number;
        }
        if let Some((like, size)) = known.like(number) {
            let state = *states[like as usize].get_mut();
            *states[number as usize].get_mut() = state;
            part[number as usize] = part[like as usize];
            if state & state::ALLOC != 0 {
                found.loaded_size = found.loaded_size.saturating_add(size);
            }
            if state & state::EH_FRAME != 0 {
                found.frames.push(number);
            }
            continue;
        }
        let Some(section) = object.section(number) else {
            continue;
        };
        if is_table(&section) {
            continue;
        }
        if !has_known_type(file, number, &section, diag) {
            continue;
        }
        if section.flags & shf::ALLOC != 0 {
            found.loaded_size = found.loaded_size.saturating_add(section.size);
        }
        if section.flags & shf::EXCLUDE != 0 {
            // Who refers to it must be told that it is not there.
            *states[number as usize].get_mut() =
                loaded_bits(&section) & state::ALLOC | state::DISCARDED;
            continue;
        }
        if is_build_id(&section) {
            // The output is another file, whose build id is its own.
            *states[number as usize].get_mut() =
                loaded_bits(&section) & state::ALLOC | state::DISCARDED;
            continue;
        }
        if rules.is_none() && is_list_end(file, &section) {
            continue;
        }
        if !has_valid_alignment(file, number, &section, diag) {
            continue;
        }
        let mut bits = loaded_bits(&section);
        if section.name == b".note.GNU-stack" {
            found.executable_stack = Some(section.flags & shf::EXEC != 0);
            continue;
        }
        if section.name.starts_with(WARNING_PREFIX) {
            found.warnings.push(number);
        }
        let route = rules.map(|rules| rules.route_section(file, object, number, &section));
        if route == Some(Route::Discard) {
            *states[number as usize].get_mut() = bits & state::ALLOC | state::DISCARDED;
            discarded.push(number);
            continue;
        }
        match section.name {
            b".note.gnu.property" if section.sh_type == c::SHT_NOTE => {
                found.properties.push(number);
                continue;
            }
            // Assemblers leave empty ones where there is nothing to tell.
            _ if is_sframe(&section) => {
                if section.size != 0 {
                    found.sframes.push(number);
                }
                continue;
            }
            b".eh_frame" if section.flags & shf::ALLOC != 0 => {
                found.frames.push(number);
                *states[number as usize].get_mut() = bits | state::EH_FRAME;
                known.remember(number, &section);
                continue;
            }
            _ => {}
        }
        let is_dropped = match unloaded {
            Unloaded::Keep => false,
            Unloaded::DropDebug => is_unloaded_debug(&section),
            Unloaded::Drop => section.flags & shf::ALLOC == 0,
        };
        if is_dropped {
            continue;
        }
        let kept = matches!(route, Some(Route::Rule { keep: true, .. }));
        // A script with a layout says itself what is kept, as with GNU ld: lists of constructors are not, without `KEEP`.
        let is_root = match route {
            None => is_root(&section),
            Some(_) => kept || is_lone_note(&section),
        };
        if section.flags & shf::RETAIN != 0 || is_root {
            bits |= state::ROOT;
        }
        *states[number as usize].get_mut() = bits;
        // Some compilers mark what is about nothing in particular, too.
        if section.flags & shf::LINK_ORDER != 0 && section.link != 0 {
            if section.link >= object.section_count() {
                diag.error(format!(
                    "{file}: section {number} ({}) is about section {}, which does not exist",
                    String::from_utf8_lossy(section.name),
                    section.link
                ));
                continue;
            }
            found.link_order.push((number, section.link));
            if rules.is_some() {
                about.push((number, section.link));
            }
        }
        let alone = unique
            .is_some_and(|unique| unique.covers(section.name))
            .then_some(number);
        let standard = if section.flags & shf::ALLOC != 0 && alone.is_none() {
            standard_part(section.name)
        } else {
            None
        };
        if standard.is_some_and(is_writable) {
            *states[number as usize].get_mut() |= state::WRITE;
        }
        let merge = merge_kind(&section);
        part[number as usize] = match (standard, route) {
            (Some(part), None) if merge.is_none() => {
                let remark = (part, section.flags & shf::REMARKS);
                if remark.1 != 0 && !found.remarks.contains(&remark) {
                    found.remarks.push(remark);
                }
                part
            }
            (standard, route) => {
                let custom = match route {
                    Some(route) => ruled(&section, route, merge),
                    None => custom(&section, standard, merge),
                };
                local_part(&mut found.customs, Custom { alone, ..custom })
            }
        };
        known.remember(number, &section);
    }
    if !discarded.is_empty() && !about.is_empty() {
        discard_what_is_about(discarded, &about, part, states);
        let is_left = |number: u32, states: &mut [AtomicU8]| {
            *states[number as usize].get_mut() & state::DISCARDED == 0
        };
        found
            .link_order
            .retain(|(number, _)| is_left(*number, states));
    }
    // A section with relocations is not taken apart into pieces.
    for number in 1..object.section_count() as usize {
        let slot = part[number];
        if relocations[number] == 0 || slot.0 < LOCAL_PART || slot == PartId::NONE {
            continue;
        }
        let mut plain = found.customs.list[(slot.0 - LOCAL_PART) as usize].clone();
        if plain.merge.take().is_some() {
            part[number] = local_part(&mut found.customs, plain);
        }
    }
    found
}

/// A section that is about another (`SHF_LINK_ORDER`) is discarded with it. `about` are these, each with the other.
fn discard_what_is_about(
    mut discarded: Vec<u32>,
    about: &[(u32, u32)],
    part: &mut [PartId],
    states: &mut [AtomicU8],
) {
    let mut about_each: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    for (number, other) in about {
        about_each.entry(*other).or_default().push(*number);
    }
    while let Some(other) = discarded.pop() {
        // Taken out: what is about itself, or in a circle, is done once.
        for number in about_each.remove(&other).unwrap_or_default() {
            let state = states[number as usize].get_mut();
            *state = *state & state::ALLOC | state::DISCARDED;
            part[number as usize] = PartId::NONE;
            discarded.push(number);
        }
    }
}

fn local_part<'a>(customs: &mut Customs<'a>, custom: Custom<'a>) -> PartId {
    let index = match customs.find(&custom) {
        Some(index) => index,
        None => customs.push(custom),
    };
    PartId(LOCAL_PART + index as u32)
}

/// The words that gcc's `crtbegin.o` and `crtend.o` put around the old constructor lists. The lists of other files
/// become part of `.init_array`, where these words must not be.
fn is_list_end(file: &File, section: &Section) -> bool {
    let of_gcc = || {
        let name = file
            .path
            .file_name()
            .map_or(&b""[..], |name| name.as_encoded_bytes());
        file.member.is_none() && (name.starts_with(b"crtbegin") || name.starts_with(b"crtend"))
    };
    runs_backwards(section.name) && of_gcc()
}

/// What the default layout keeps (`KEEP` in GNU ld's script), and what runs without being named.
fn is_root(section: &Section) -> bool {
    matches!(
        section.sh_type,
        c::SHT_INIT_ARRAY | c::SHT_FINI_ARRAY | c::SHT_PREINIT_ARRAY
    ) || is_lone_note(section)
        || [&b".init"[..], b".fini", b".jcr"].contains(&section.name)
        || [
            &b".init_array"[..],
            b".fini_array",
            b".preinit_array",
            b".ctors",
            b".dtors",
        ]
        .iter()
        .any(|prefix| section.name.starts_with(prefix))
}

/// Whether it is a note that belongs to the whole file.
fn is_lone_note(section: &Section) -> bool {
    section.sh_type == c::SHT_NOTE && section.flags & shf::GROUP == 0
}

/// Whether and how a section's pieces may be merged.
fn merge_kind(section: &Section) -> Option<MergeKind> {
    if section.flags & shf::MERGE == 0
        || section.flags & shf::WRITE != 0
        || section.sh_type == c::SHT_NOBITS
    {
        return None;
    }
    if section.entsize == 0
        || !section.size.is_multiple_of(section.entsize)
        || section.size > u32::MAX.into()
        || section.size == 0
    {
        return None;
    }
    let strings = section.flags & shf::STRINGS != 0;
    // Wider characters than the specification's are no strings; nor is anything that one could not step through.
    if strings && !matches!(section.entsize, 1 | 2 | 4) {
        return None;
    }
    Some(MergeKind {
        strings,
        entsize: section.entsize as u32,
    })
}

/// The part of the output that takes a mergeable piece of a section like this.
pub fn merge_part<'a>(
    outputs: &mut Outputs<'a>,
    section: &Section<'a>,
) -> Option<(PartId, MergeKind)> {
    let standard = if section.flags & shf::ALLOC != 0 {
        standard_part(section.name)
    } else {
        None
    };
    let kind = merge_kind(section)?;
    let custom = match outputs.rules.as_deref() {
        None => custom(section, standard, Some(kind)),
        Some(rules) => {
            let usual = piece_section_name(section.name, kind.strings, section.entsize, 1);
            let names = [&*usual, section.name];
            match rules.route_by_names(FileNames::NONE, &names, section.flags) {
                Route::Discard => return None,
                route => ruled(section, route, Some(kind)),
            }
        }
    };
    Some((outputs.custom(&custom)?, kind))
}

/// What a linker script's rule says of a section.
fn ruled<'a>(section: &Section<'a>, route: Route, merge: Option<MergeKind>) -> Custom<'a> {
    let plain = custom(section, None, merge);
    match route {
        Route::Rule { rule, .. } => Custom {
            name: b"",
            rule: Some(rule),
            // The rule says, or `SHF_LINK_ORDER` does, when it is known what all rules have taken.
            sort: Order::Input,
            ..plain
        },
        Route::Discard | Route::Orphan => plain,
    }
}

fn custom<'a>(
    section: &Section<'a>,
    standard: Option<PartId>,
    merge: Option<MergeKind>,
) -> Custom<'a> {
    // Pieces of `.rodata.str1.1` go to `.rodata`; of other standard names to the name without suffix.
    let name = match standard {
        None => section.name,
        Some(_) => {
            let end = section.name[1..]
                .iter()
                .position(|b| *b == b'.')
                .map_or(section.name.len(), |i| i + 1);
            if section.name.starts_with(b".data.rel.ro") {
                &section.name[..12]
            } else {
                &section.name[..end]
            }
        }
    };
    let mut keep = shf::LOADING | shf::REMARKS;
    if section.flags & shf::ALLOC == 0 {
        // What is not in memory is in no thread's.
        keep &= !shf::TLS;
    }
    let sh_type = match section.sh_type {
        c::SHT_NOTE
        | c::SHT_NOBITS
        | c::SHT_INIT_ARRAY
        | c::SHT_FINI_ARRAY
        | c::SHT_PREINIT_ARRAY => section.sh_type,
        _ => c::SHT_PROGBITS,
    };
    Custom {
        name,
        sh_type,
        flags: section.flags & keep,
        merge,
        sort: match section.flags & shf::LINK_ORDER != 0 && section.link != 0 {
            true => Order::Linked,
            false => Order::Input,
        },
        alone: None,
        rule: None,
    }
}
