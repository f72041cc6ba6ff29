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
use crate::elf::shf;
use crate::input::file::Files;
use crate::input::object::{Fixups, Object};
use crate::input::parts::Section;
use crate::input::standard_sections::TEXT_PREFIXES;
use crate::messages::diag::Diagnostics;
use crate::resolve::output_sections::{Custom, Order, Outputs, Std};
use crate::resolve::unique_sections::Unique;
use rayon::prelude::*;
use std::borrow::Cow;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use store::prefetch::prefetch;

mod classify;

use classify::{
    Found, Rulings, Share, classify, has_known_type, has_valid_alignment, is_root, is_table,
    is_unloaded_debug, loaded_bits, two_relocation_sections,
};
pub use classify::{is_sframe, merge_part, why_discarded};

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

/// An input section, with its file and its object.
#[derive(Clone, Copy)]
pub struct SectionRef<'f, 'a> {
    /// Its number in the link.
    pub id: SectionId,
    /// Its file.
    pub file: FileId,
    /// Its number in the file.
    pub number: u32,
    /// Number, in the file, of the section with its relocations; 0 for none.
    pub relocations: u32,
    /// The file's object.
    pub object: &'f Object<'a>,
}

impl<'f, 'a> SectionRef<'f, 'a> {
    /// Its fixups.
    #[inline]
    pub fn fixups(&self) -> Fixups<'f> {
        self.object.fixups(self.number, self.relocations)
    }

    /// Its bytes.
    #[inline]
    pub fn bytes(&self) -> &'f [u8] {
        self.object.section_bytes(self.number)
    }

    /// Its name as its file has it, which a ticket may store by parts; empty if there is none.
    pub fn full_name(&self) -> Cow<'f, [u8]> {
        self.header().map_or(Cow::Borrowed(&b""[..]), |section| {
            self.object.full_name(self.number, &section)
        })
    }

    /// What its header says.
    pub fn header(&self) -> Option<Section<'a>> {
        self.object.section(self.number)
    }
}

/// What the linker consumes from the linked files beside their contents.
#[derive(Default)]
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
        let rulings = Rulings {
            rules: rules.as_deref(),
            unloaded,
            unique,
            diag,
        };
        let found: Vec<(FileId, Found<'a>, &mut [PartId])> = slices
            .into_par_iter()
            .map(|(i, (((part, relocations), state), owner))| {
                let id = FileId(i as u32);
                owner.fill(id);
                let file = files.get(id);
                let object = files.object(id);
                let share = Share {
                    part,
                    relocations,
                    states: state,
                };
                let (found, part) = classify(file, object, rulings, share);
                (id, found, part)
            })
            .collect();

        let mut facts = SectionFacts::default();
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
        let mut facts = SectionFacts::default();
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
            let is_under = |prefix: &&'static [u8]| {
                let rest = section.name.strip_prefix(*prefix);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
            };
            let prefixes = TEXT_PREFIXES.into_iter().map(str::as_bytes);
            if let Some(name) = prefixes.into_iter().find(is_under) {
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

    /// A section with all that it is looked up by.
    #[inline]
    pub fn at<'f, 'a>(&self, files: &'f Files<'a>, id: SectionId) -> SectionRef<'f, 'a> {
        let (file, number) = self.origin(id);
        SectionRef {
            id,
            file,
            number,
            relocations: self.relocations[id.index()],
            object: files.object(file),
        }
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

fn per_file<'s, T>(base: &[u32], mut array: &'s mut [T]) -> Vec<&'s mut [T]> {
    let mut slices = Vec::with_capacity(base.len());
    for pair in base.windows(2) {
        let (head, tail) = array.split_at_mut((pair[1] - pair[0]) as usize);
        slices.push(head);
        array = tail;
    }
    slices
}
