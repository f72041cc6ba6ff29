//! Classifying: what becomes of each section of a file, by its header, a script's patterns and options.
//!
//! Tickets have many sections of few *shapes* (name, type and flags): what was decided for the first of a shape holds for
//! the others.

use super::{
    LARGEST_ALIGNMENT, LOCAL_PART, SHT_LLVM_ADDRSIG, SHT_LLVM_CALL_GRAPH_PROFILE, Unloaded,
    WARNING_PREFIX, state,
};
use crate::base::ids::PartId;
use crate::elf::{c, is_debug, shf};
use crate::input::elf_object::NAMES_AHEAD;
use crate::input::file::File;
use crate::input::object::Object;
use crate::input::parts::Section;
use crate::messages::diag::Diagnostics;
use crate::repository::split::piece_section_name;
use crate::resolve::output_sections::{
    Custom, MergeKind, Order, Outputs, is_writable, runs_backwards, standard_part,
};
use crate::resolve::section_rules::{FileNames, Route, Rules};
use crate::resolve::unique_sections::Unique;
use rustc_hash::FxHashMap;
use std::sync::atomic::AtomicU8;

/// What the pass over one file's headers finds beside the arrays.
#[derive(Default)]
pub(super) struct Found<'a> {
    pub(super) loaded_size: u64,
    pub(super) customs: Customs<'a>,
    pub(super) executable_stack: Option<bool>,
    pub(super) properties: Vec<u32>,
    pub(super) frames: Vec<u32>,
    pub(super) sframes: Vec<u32>,
    pub(super) link_order: Vec<(u32, u32)>,
    pub(super) warnings: Vec<u32>,
    /// What standard parts hold whose [`shf::REMARKS`] concern the output section, each once.
    pub(super) remarks: Vec<(PartId, u64)>,
}

/// The kinds of sections of one file that no standard part takes.
#[derive(Default)]
pub(super) struct Customs<'a> {
    pub(super) list: Vec<Custom<'a>>,
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

pub(super) fn two_relocation_sections(file: &File, target: u32) -> String {
    format!("{file}: section {target} has two relocation sections")
}

/// A table of the file, which the output has its own of.
pub(super) fn is_table(section: &Section) -> bool {
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
pub(super) fn has_known_type(
    file: &File,
    number: u32,
    section: &Section,
    diag: &Diagnostics,
) -> bool {
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

pub(super) fn has_valid_alignment(
    file: &File,
    number: u32,
    section: &Section,
    diag: &Diagnostics,
) -> bool {
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
pub(super) fn loaded_bits(section: &Section) -> u8 {
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

pub(super) fn is_unloaded_debug(section: &Section) -> bool {
    section.flags & shf::ALLOC == 0 && is_debug(section.name)
}

/// The shapes of sections that have been classified already: what was found for the first section of a shape holds for the
/// others.
struct KnownShapes<'f, 'a> {
    object: &'f Object<'a>,
    /// By shape: the first section that was classified, or 0.
    first: Vec<u32>,
}

impl<'f, 'a> KnownShapes<'f, 'a> {
    /// `differ`: sections may differ by more than their shape.
    fn new(object: &'f Object<'a>, differ: bool) -> Self {
        let count = if differ { 0 } else { object.shape_count() };
        KnownShapes {
            object,
            first: vec![0; count],
        }
    }

    /// A section that was classified and is like this one, and the size of this one.
    #[inline]
    fn like(&self, number: u32) -> Option<(u32, u64)> {
        if self.first.is_empty() {
            return None;
        }
        let first = *self.first.get(self.object.shape(number)?)?;
        let (size, align) = self.object.extent(number)?;
        (first != 0 && align <= LARGEST_ALIGNMENT).then_some((first, size))
    }

    /// From now on others are like this section.
    fn remember(&mut self, number: u32, section: &Section) {
        // Whether it is taken apart into pieces depends on its size; what it is about is its own.
        if section.flags & (shf::MERGE | shf::LINK_ORDER) != 0 {
            return;
        }
        if self.first.is_empty() {
            return;
        }
        let shape = self.object.shape(number);
        if let Some(first) = shape.and_then(|shape| self.first.get_mut(shape)) {
            *first = number;
        }
    }
}

/// What decides about the sections of all files.
#[derive(Clone, Copy)]
pub(super) struct Rulings<'c> {
    /// A script's patterns, if it has a layout.
    pub(super) rules: Option<&'c Rules>,
    /// What of the sections that are not loaded is left out.
    pub(super) unloaded: Unloaded,
    /// `--unique`.
    pub(super) unique: Option<&'c Unique>,
    pub(super) diag: &'c Diagnostics,
}

/// A file's share of the arrays over all sections.
pub(super) struct Share<'c> {
    /// The part of the output that each goes to.
    pub(super) part: &'c mut [PartId],
    /// The section with each one's relocations, or 0.
    pub(super) relocations: &'c mut [u32],
    /// [`state`] bits.
    pub(super) states: &'c mut [AtomicU8],
}

/// Goes through the section headers of a file and decides what becomes of each. The parts are given back: those that are no
/// standard ones are numbered by file so far.
pub(super) fn classify<'c, 'a>(
    file: &'c File<'a>,
    object: &'c Object<'a>,
    rulings: Rulings<'c>,
    share: Share<'c>,
) -> (Found<'a>, &'c mut [PartId]) {
    let mut classifier = Classifier {
        file,
        object,
        rulings,
        known: KnownShapes::new(object, rulings.rules.is_some() || rulings.unique.is_some()),
        share,
        found: Found::default(),
        discarded: Vec::new(),
        about: Vec::new(),
    };
    for number in 1..object.section_count() {
        object.prefetch_name(number.saturating_add(NAMES_AHEAD as u32));
        if !classifier.is_relocations(number)
            && !classifier.is_known(number)
            && let Some(section) = object.section(number)
        {
            classifier.section(number, &section);
        }
    }
    classifier.discard_what_is_about();
    classifier.keep_relocated_in_one_piece();
    (classifier.found, classifier.share.part)
}

/// One file's sections, as they are gone through.
struct Classifier<'c, 'a> {
    file: &'c File<'a>,
    object: &'c Object<'a>,
    rulings: Rulings<'c>,
    share: Share<'c>,
    known: KnownShapes<'c, 'a>,
    found: Found<'a>,
    /// What a script discards.
    discarded: Vec<u32>,
    /// Sections that are about others, each with the other.
    about: Vec<(u32, u32)>,
}

impl<'a> Classifier<'_, 'a> {
    fn set_state(&mut self, number: u32, bits: u8) {
        *self.share.states[number as usize].get_mut() = bits;
    }

    /// Whether a section has only relocations of another, which is remembered.
    fn is_relocations(&mut self, number: u32) -> bool {
        let relocations = &mut self.share.relocations;
        match self.object.relocation_section(number) {
            Ok(None) => {
                if self.object.has_own_fixups(number) {
                    relocations[number as usize] = number;
                }
                false
            }
            Ok(Some(target)) => {
                let slot = &mut relocations[target as usize];
                if *slot != 0 {
                    let diag = self.rulings.diag;
                    diag.error(two_relocation_sections(self.file, target));
                }
                *slot = number;
                true
            }
            Err(why) => {
                self.rulings.diag.error(format!("{}: {why}", self.file));
                true
            }
        }
    }

    /// Whether what is known of a section like this one says all of it.
    fn is_known(&mut self, number: u32) -> bool {
        let Some((like, size)) = self.known.like(number) else {
            return false;
        };
        let state = *self.share.states[like as usize].get_mut();
        self.set_state(number, state);
        self.share.part[number as usize] = self.share.part[like as usize];
        if state & state::ALLOC != 0 {
            self.found.loaded_size = self.found.loaded_size.saturating_add(size);
        }
        if state & state::EH_FRAME != 0 {
            self.found.frames.push(number);
        }
        true
    }

    fn section(&mut self, number: u32, section: &Section<'a>) {
        let Rulings { rules, diag, .. } = self.rulings;
        if is_table(section) || !has_known_type(self.file, number, section, diag) {
            return;
        }
        if section.flags & shf::ALLOC != 0 {
            self.found.loaded_size = self.found.loaded_size.saturating_add(section.size);
        }
        // Who refers to what is excluded must be told that it is not there. The output is another file than its inputs:
        // its build id is its own.
        if section.flags & shf::EXCLUDE != 0 || is_build_id(section) {
            self.set_state(
                number,
                loaded_bits(section) & state::ALLOC | state::DISCARDED,
            );
            return;
        }
        if rules.is_none() && is_list_end(self.file, section)
            || !has_valid_alignment(self.file, number, section, diag)
        {
            return;
        }
        if section.name == b".note.GNU-stack" {
            self.found.executable_stack = Some(section.flags & shf::EXEC != 0);
            return;
        }
        if section.name.starts_with(WARNING_PREFIX) {
            self.found.warnings.push(number);
        }
        let route = rules.map(|rules| rules.route_section(self.file, self.object, number, section));
        if route == Some(Route::Discard) {
            self.set_state(
                number,
                loaded_bits(section) & state::ALLOC | state::DISCARDED,
            );
            self.discarded.push(number);
            return;
        }
        if self.is_gathered(number, section) || self.is_dropped(section) {
            return;
        }
        self.keep(number, section, route.as_ref());
        if self.note_link(number, section) {
            self.give_part(number, section, route);
            self.known.remember(number, section);
        }
    }

    /// Whether a section is one of those that the linker makes anew of all files' together.
    fn is_gathered(&mut self, number: u32, section: &Section) -> bool {
        match section.name {
            b".note.gnu.property" if section.sh_type == c::SHT_NOTE => {
                self.found.properties.push(number);
            }
            // Assemblers leave empty ones where there is nothing to tell.
            _ if is_sframe(section) => {
                if section.size != 0 {
                    self.found.sframes.push(number);
                }
            }
            b".eh_frame" if section.flags & shf::ALLOC != 0 => {
                self.found.frames.push(number);
                self.set_state(number, loaded_bits(section) | state::EH_FRAME);
                self.known.remember(number, section);
            }
            _ => return false,
        }
        true
    }

    /// Whether options leave a section out.
    fn is_dropped(&self, section: &Section) -> bool {
        match self.rulings.unloaded {
            Unloaded::Keep => false,
            Unloaded::DropDebug => is_unloaded_debug(section),
            Unloaded::Drop => section.flags & shf::ALLOC == 0,
        }
    }

    /// Says whether a section is linked whoever refers to it.
    fn keep(&mut self, number: u32, section: &Section, route: Option<&Route>) {
        // A script with a layout says itself what is kept, as with GNU ld: lists of constructors are not, without `KEEP`.
        let is_root = match route {
            None => is_root(section),
            Some(route) => matches!(route, Route::Rule { keep: true, .. }) || is_lone_note(section),
        };
        let mut bits = loaded_bits(section);
        if section.flags & shf::RETAIN != 0 || is_root {
            bits |= state::ROOT;
        }
        self.set_state(number, bits);
    }

    /// Notes which section this one is about (`SHF_LINK_ORDER`). `false`: there is no such section, which is reported.
    fn note_link(&mut self, number: u32, section: &Section) -> bool {
        // Some compilers mark what is about nothing in particular, too.
        if section.flags & shf::LINK_ORDER == 0 || section.link == 0 {
            return true;
        }
        if section.link >= self.object.section_count() {
            self.rulings.diag.error(format!(
                "{}: section {number} ({}) is about section {}, which does not exist",
                self.file,
                String::from_utf8_lossy(section.name),
                section.link
            ));
            return false;
        }
        self.found.link_order.push((number, section.link));
        if self.rulings.rules.is_some() {
            self.about.push((number, section.link));
        }
        true
    }

    /// Finds the part of the output that a section goes to.
    fn give_part(&mut self, number: u32, section: &Section<'a>, route: Option<Route>) {
        let unique = self.rulings.unique;
        let alone = unique
            .is_some_and(|unique| unique.covers(section.name))
            .then_some(number);
        let standard = if section.flags & shf::ALLOC != 0 && alone.is_none() {
            standard_part(section.name)
        } else {
            None
        };
        if standard.is_some_and(is_writable) {
            *self.share.states[number as usize].get_mut() |= state::WRITE;
        }
        let merge = merge_kind(section);
        let found = &mut self.found;
        self.share.part[number as usize] = match (standard, route) {
            (Some(part), None) if merge.is_none() => {
                let remark = (part, section.flags & shf::REMARKS);
                if remark.1 != 0 && !found.remarks.contains(&remark) {
                    found.remarks.push(remark);
                }
                part
            }
            (standard, route) => {
                let custom = match route {
                    Some(route) => ruled(section, route, merge),
                    None => custom(section, standard, merge),
                };
                local_part(&mut found.customs, Custom { alone, ..custom })
            }
        };
    }

    /// Discards what is about sections that a script discards, and what is about these.
    fn discard_what_is_about(&mut self) {
        if self.discarded.is_empty() || self.about.is_empty() {
            return;
        }
        let states = &mut self.share.states;
        let mut about_each: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for (number, other) in &self.about {
            about_each.entry(*other).or_default().push(*number);
        }
        while let Some(other) = self.discarded.pop() {
            // Taken out: what is about itself, or in a circle, is done once.
            for number in about_each.remove(&other).unwrap_or_default() {
                let state = states[number as usize].get_mut();
                *state = *state & state::ALLOC | state::DISCARDED;
                self.share.part[number as usize] = PartId::NONE;
                self.discarded.push(number);
            }
        }
        let is_left = |number: u32| *states[number as usize].get_mut() & state::DISCARDED == 0;
        let mut is_left = is_left;
        (self.found.link_order).retain(|(number, _)| is_left(*number));
    }

    /// A section with relocations is not taken apart into pieces.
    fn keep_relocated_in_one_piece(&mut self) {
        for number in 1..self.object.section_count() as usize {
            let slot = self.share.part[number];
            if self.share.relocations[number] == 0 || slot.0 < LOCAL_PART || slot == PartId::NONE {
                continue;
            }
            let customs = &mut self.found.customs;
            let mut plain = customs.list[(slot.0 - LOCAL_PART) as usize].clone();
            if plain.merge.take().is_some() {
                self.share.part[number] = local_part(customs, plain);
            }
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
pub(super) fn is_root(section: &Section) -> bool {
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
