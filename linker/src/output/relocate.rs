//! Applying relocations to bytes that were just copied to the output.

mod unloaded;

use crate::base::ids::{FileId, SectionId, SymbolId};
use crate::base::key::rank;
use crate::elf::x86_64::relax::NextReloc;
use crate::elf::x86_64::reloc::{self, ApplyError, Field, apply};
use crate::elf::{Rela, c};
use crate::graph::relocation_action::{self, Mode, Plan, is_distance, plan};
use crate::input::file::File;
use crate::input::object::{Fixups, Object, Referent};
use crate::input::parts::{Fixup, FixupLoop, Target};
use crate::layout::address_map::{Places, SymbolValue};
use crate::layout::got::{NONE, Slots};
use crate::messages::diag::Diagnostics;
use crate::resolve::input_sections::state;
use crate::resolve::symbol_facts::{Bound, Defined, Demand, SymbolFacts};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use store::prefetch::prefetch;

/// What relocations are computed from.
#[derive(Clone, Copy)]
pub struct Relocator<'l, 'a> {
    /// Addresses.
    pub places: &'l Places<'l, 'a>,
    /// Each global symbol.
    pub values: &'l [SymbolValue],
    /// The output's kind.
    pub mode: Mode,
    /// Index in `.dynsym` of each global symbol.
    pub dynamic_index: &'l (dyn Fn(SymbolId) -> u32 + Sync),
    /// Values must fit their fields; without it (`-z noreloc-overflow`) they are cut.
    pub check_overflow: bool,
    /// Set if what was loaded from a slot does not fit where the slot's distance would have fitted: the link can
    /// be had without relaxing.
    pub too_far: &'l AtomicBool,
    /// For messages.
    pub diag: &'l Diagnostics,
}

/// How many fixups ahead what their targets need is fetched.
pub const FETCHED: usize = 12;

/// Where the dynamic relocations of one file go.
#[derive(Default)]
pub struct DynamicSlots<'o> {
    /// `R_X86_64_RELATIVE`.
    pub relative: &'o mut [Rela],
    /// Those with a symbol.
    pub symbolic: &'o mut [Rela],
    /// `R_X86_64_IRELATIVE`.
    pub irelative: &'o mut [Rela],
    /// There were more than there is room for.
    is_overrun: bool,
}

impl DynamicSlots<'_> {
    fn take(slots: &mut &mut [Rela], is_overrun: &mut bool, rela: Rela) {
        // The scan has counted them with the same rules; but a repository's outline may lie.
        if let Some((first, rest)) = std::mem::take(slots).split_first_mut() {
            *first = rela;
            *slots = rest;
        } else {
            *is_overrun = true;
        }
    }

    /// Whether exactly those have been written for which there was room.
    pub fn is_full(&self) -> bool {
        !self.is_overrun
            && self.relative.is_empty()
            && self.symbolic.is_empty()
            && self.irelative.is_empty()
    }
}

/// What a fixup's target turned out to be.
struct Resolved {
    /// S.
    address: u64,
    /// A, or 0 if it went into the choice of a piece.
    addend: i64,
    /// What is known of the symbol.
    facts: SymbolFacts,
    symbol: Option<SymbolId>,
    /// The target is not in the output.
    dead: bool,
}

/// The section in which relocations are applied.
pub struct Site<'s, 'a> {
    /// Its file.
    pub file_id: FileId,
    /// Its file.
    pub file: &'s File<'a>,
    /// Its file.
    pub object: &'s Object<'a>,
    /// The section.
    pub section: SectionId,
    /// Its number in the file.
    pub number: u32,
    /// Address of its first byte; for debugging information, 0.
    pub address: u64,
    /// What an offset in the section must be reduced by to be an offset in the bytes (for records of `.eh_frame`).
    pub skipped: u64,
    /// Relative relocations of words at even offsets are in `.relr.dyn`.
    pub packs: bool,
    /// The section's words are written in reverse order, the last one first: offset of the last.
    pub reversed: Option<u64>,
}

/// What is known of symbols whose address is not all that relocations need to know.
const SPECIAL: SymbolFacts = Bound::IMPORTED
    .facts()
    .and(Defined::IFUNC.and(Defined::TLS).facts());

/// What is known of symbols whose value does not move with the output, or that are nowhere.
const NUMBER: SymbolFacts = Defined::ABSOLUTE
    .facts()
    .and(Bound::UNDEFINED_WEAK.and(Bound::UNDEFINED).facts());

/// What is done for a fixup, and where.
#[derive(Clone, Copy)]
struct Step {
    plan: Plan,
    /// Of the place in the section's bytes.
    offset: u64,
    /// Its address.
    place: u64,
}

/// The fixups of a section on their way into its bytes.
struct Applying<'s, 'r, 'd, 'l, 'a, 'b> {
    relocator: &'s Relocator<'l, 'a>,
    site: &'s Site<'r, 'b>,
    bytes: &'s mut [u8],
    dynamic: &'s mut DynamicSlots<'d>,
    /// All of them.
    fixups: Fixups<'s>,
    /// See [`Object::first_global`].
    first_global: u32,
    /// Of the next one.
    index: usize,
    /// It was used up by the last one.
    skip: bool,
}

impl FixupLoop for Applying<'_, '_, '_, '_, '_, '_> {
    #[inline(always)]
    fn ahead(&mut self, target: Target) {
        let site = self.site;
        let relocator = self.relocator;
        relocator.fetch(
            site.file_id,
            site.file,
            site.object,
            self.first_global,
            target,
        );
    }

    /// Applies the next fixup, or passes over it. The frequent sorts need no call.
    #[inline(always)]
    fn each(&mut self, fixup: Fixup) {
        let (relocator, site, first_global) = (self.relocator, self.site, self.first_global);
        self.index += 1;
        if self.skip {
            self.skip = false;
            return;
        }
        let is_done = site.reversed.is_none()
            && (relocator.distance(site, first_global, self.bytes, &fixup)
                || relocator.word(site, first_global, self.bytes, &fixup, self.dynamic));
        if !is_done {
            let next = || self.fixups.get(self.index);
            self.skip = relocator.apply(site, self.bytes, &fixup, next, self.dynamic);
        }
    }
}

impl Relocator<'_, '_> {
    #[inline(always)]
    fn resolve(&self, site: &Site, fixup: &Fixup) -> Option<Resolved> {
        let first_global = site.object.first_global();
        match fixup.target {
            Target::Symbol(index) if index >= first_global => {
                let symbol = self
                    .places
                    .symbols
                    .at(site.file.slot_base, first_global, index);
                let SymbolValue {
                    address, mut facts, ..
                } = *self.values.get(symbol.index())?;
                if facts.has(Bound::UNDEFINED) && !facts.has(Bound::IMPORTED) {
                    // With --noinhibit-exec there is an output all the same. The scan has asked for nothing then.
                    facts |= Bound::UNDEFINED_WEAK;
                }
                Some(Resolved {
                    address,
                    addend: fixup.addend,
                    facts,
                    symbol: Some(symbol),
                    dead: false,
                })
            }
            target => self.resolve_local(site, fixup, target),
        }
    }

    fn resolve_local(&self, site: &Site, fixup: &Fixup, target: Target) -> Option<Resolved> {
        let mut found = Resolved {
            address: 0,
            addend: fixup.addend,
            facts: SymbolFacts::NONE,
            symbol: None,
            dead: false,
        };
        let (number, value, kind) = match site.object.own_referent(target) {
            Referent::Place {
                section,
                offset,
                kind,
            } => (section, offset, kind),
            Referent::Piece(piece) => {
                found.address = self.places.piece(piece)?;
                return Some(found);
            }
            Referent::Null => {
                found.facts = Defined::ABSOLUTE.facts();
                return Some(found);
            }
            Referent::Absolute { value, kind } => {
                found.facts = (Defined::ABSOLUTE | Defined::of_kind(kind)).facts();
                found.address = value;
                return Some(found);
            }
            Referent::Global(_) | Referent::Missing(_) => return None,
        };
        found.facts |= Defined::of_kind(kind);
        let is_section = kind == c::STT_SECTION;
        let section = self.places.sections.get(site.file_id, number)?;
        let address = if let Some(address) = self.places.in_copied(section, value) {
            Some(address)
        } else if is_section && self.places.is_merged(section) {
            // The addend chooses the piece.
            found.addend = 0;
            let offset = value.wrapping_add(fixup.addend as u64);
            let size = site.object.extent(number).map_or(0, |(size, _)| size);
            if offset > size {
                self.complain(
                    site,
                    fixup,
                    format_args!("refers to what is outside of the mergeable section {number}"),
                );
            }
            self.places.in_section(section, offset)
        } else {
            self.places.in_section(section, value)
        };
        match address {
            Some(address) => found.address = address,
            None => found.dead = true,
        }
        if found.facts.has(Defined::IFUNC)
            && let Target::Symbol(index) = target
            && let Some(slots) = self.places.got.of_local(site.file_id, index)
        {
            found.facts |= slots.facts.among(Demand::CANONICAL_PLT);
        }
        Some(found)
    }

    fn slots(&self, site: &Site, fixup: &Fixup, target: &Resolved) -> Option<&Slots> {
        match (target.symbol, fixup.target) {
            (Some(symbol), _) => self.places.got.of_global(symbol),
            (None, Target::Symbol(index)) => self.places.got.of_local(site.file_id, index),
            _ => None,
        }
    }

    /// Says that a fixup with this target will be applied soon.
    #[inline(always)]
    pub fn fetch(
        &self,
        id: FileId,
        file: &File,
        object: &Object,
        first_global: u32,
        target: Target,
    ) {
        match target {
            Target::Symbol(index) if index >= first_global => {
                let symbol = self.places.symbols.at(file.slot_base, first_global, index);
                if let Some(value) = self.values.get(symbol.index()) {
                    prefetch(value);
                }
            }
            Target::Symbol(_) => {}
            Target::Section(number) => {
                if let Some(section) = self.places.sections.get(id, number) {
                    self.places.fetch(section);
                }
            }
            Target::Piece(piece) => {
                if let Some(repository) = object.repository() {
                    let pieces = self.places.pieces.of_repository(repository.id);
                    pieces.fetch(piece);
                }
            }
        }
    }

    /// Applies the fixups of a loaded section to its bytes.
    pub fn loaded(
        &self,
        site: &Site,
        bytes: &mut [u8],
        fixups: Fixups,
        dynamic: &mut DynamicSlots,
    ) {
        fixups.for_each_ahead(
            FETCHED,
            &mut Applying {
                relocator: self,
                site,
                bytes,
                dynamic,
                fixups,
                first_global: site.object.first_global(),
                index: 0,
                skip: false,
            },
        );
    }

    /// Applies a fixup of any sort. Returns whether the next one is used up by that.
    #[inline(never)]
    fn apply(
        &self,
        site: &Site,
        bytes: &mut [u8],
        fixup: &Fixup,
        next: impl FnOnce() -> Option<Fixup>,
        dynamic: &mut DynamicSlots,
    ) -> bool {
        // What has no target was reported by the scan; but it does not look at what an outline tells.
        let Some(target) = self.resolve(site, fixup) else {
            if site.object.is_outlined() {
                self.complain(site, fixup, format_args!("its target does not exist"));
            }
            return false;
        };
        let offset = match site.reversed {
            None => fixup.offset.wrapping_sub(site.skipped),
            Some(last) => last.wrapping_sub(fixup.offset),
        };
        let place = site.address.wrapping_add(offset);
        let next = || {
            let next = next()?;
            Some(NextReloc {
                offset: next.offset.wrapping_sub(site.skipped),
                r_type: next.r_type,
            })
        };
        let plan = plan(
            self.mode,
            bytes,
            offset,
            fixup.r_type,
            fixup.addend,
            target.facts,
            next,
        );
        let step = Step {
            plan,
            offset,
            place,
        };
        let value = target.address.wrapping_add(target.addend as u64);
        let simple = !target.facts.has(SPECIAL);
        let result = match plan {
            Plan::PcRelative(field) | Plan::Plt(field) if simple => {
                store(bytes, offset, field, value.wrapping_sub(place))
            }
            Plan::Absolute(Field::Word64) if simple => {
                let moves =
                    !target.dead && !target.facts.has(Defined::ABSOLUTE | Bound::UNDEFINED_WEAK);
                let is_packed = site.packs && relocation_action::is_packed(fixup.offset);
                if self.mode.pic && moves && !is_packed {
                    let rela = Rela::new(place, reloc::R_X86_64_RELATIVE, 0, value as i64);
                    DynamicSlots::take(&mut dynamic.relative, &mut dynamic.is_overrun, rela);
                }
                store(
                    bytes,
                    offset,
                    Field::Word64,
                    if target.dead { 0 } else { value },
                )
            }
            Plan::None => Ok(()),
            _ => self.other(site, bytes, fixup, &target, step, dynamic),
        };
        if let Err(why) = result {
            self.failed_at(site, fixup, &target, step, why, bytes);
        }
        plan.takes_next()
    }

    /// Reports that a value does not fit, unless that shall not be checked.
    #[cold]
    fn failed_at(
        &self,
        site: &Site,
        fixup: &Fixup,
        target: &Resolved,
        step: Step,
        why: ApplyError,
        bytes: &mut [u8],
    ) {
        let Step { plan, offset, .. } = step;
        if matches!(plan, Plan::GotToPc(_) | Plan::GotToImmediate(_))
            && matches!(why, ApplyError::Overflow { .. })
        {
            self.too_far.store(true, Relaxed);
        }
        match why {
            ApplyError::Overflow { value, field } if !self.check_overflow => {
                let place = usize::try_from(offset).ok();
                if let Some(place) = place.and_then(|offset| bytes.get_mut(offset..)) {
                    reloc::truncate(place, field, value);
                }
            }
            why => self.failed(site, fixup, target, why),
        }
    }

    /// Applies the most frequent sorts of fixups: the distance, in 32 bits, to a place in the output, to a global symbol
    /// that is defined here and is nothing special, or to its slot. `false` if it is another one, or does not fit.
    #[inline(always)]
    fn distance(&self, site: &Site, first_global: u32, bytes: &mut [u8], fixup: &Fixup) -> bool {
        let is_slot = fixup.r_type == reloc::R_X86_64_GOTPCREL;
        if !(is_slot || is_distance(fixup.r_type)) {
            return false;
        }
        let address = match self.value(site, first_global, fixup.target) {
            Some(value) if is_slot && value.got != NONE => self.places.slot(value.got),
            Some(value) if !is_slot && !value.facts.has(SPECIAL) => value.address,
            _ => return false,
        };
        let offset = fixup.offset.wrapping_sub(site.skipped);
        let place = site.address.wrapping_add(offset);
        let distance = address
            .wrapping_add(fixup.addend as u64)
            .wrapping_sub(place) as i64;
        let field = field_at::<4>(bytes, offset);
        match (i32::try_from(distance), field) {
            (Ok(distance), Some(field)) => {
                *field = distance.to_le_bytes();
                true
            }
            _ => false,
        }
    }

    /// The second sort: the address, in 64 bits, of such a place or symbol.
    #[inline(always)]
    fn word(
        &self,
        site: &Site,
        first_global: u32,
        bytes: &mut [u8],
        fixup: &Fixup,
        dynamic: &mut DynamicSlots,
    ) -> bool {
        if fixup.r_type != reloc::R_X86_64_64 {
            return false;
        }
        let Some(target) = self.value(site, first_global, fixup.target) else {
            return false;
        };
        let offset = fixup.offset.wrapping_sub(site.skipped);
        let Some(field) = field_at::<8>(bytes, offset) else {
            return false;
        };
        if target.facts.has(SPECIAL | NUMBER) {
            return false;
        }
        let value = target.address.wrapping_add(fixup.addend as u64);
        *field = value.to_le_bytes();
        if self.mode.pic && !(site.packs && relocation_action::is_packed(fixup.offset)) {
            let place = site.address.wrapping_add(offset);
            let rela = Rela::new(place, reloc::R_X86_64_RELATIVE, 0, value as i64);
            DynamicSlots::take(&mut dynamic.relative, &mut dynamic.is_overrun, rela);
        }
        true
    }

    /// What a target is, if that is known without much ado.
    #[inline(always)]
    fn value(&self, site: &Site, first_global: u32, target: Target) -> Option<SymbolValue> {
        match target {
            Target::Symbol(index) if index >= first_global => {
                let symbols = self.places.symbols;
                let symbol = symbols.at(site.file.slot_base, first_global, index);
                self.values.get(symbol.index()).copied()
            }
            target => Some(SymbolValue {
                address: self.plain(site, target)?,
                facts: SymbolFacts::NONE,
                got: NONE,
            }),
        }
    }

    /// Address of a local target that is nothing special.
    #[inline(always)]
    fn plain(&self, site: &Site, target: Target) -> Option<u64> {
        let (number, value) = match site.object.own_referent(target) {
            Referent::Place {
                section,
                offset,
                kind,
            } if Defined::of_kind(kind).is_empty() => (section, offset),
            Referent::Piece(piece) => return self.places.piece(piece),
            _ => return None,
        };
        let section = self.places.sections.get(site.file_id, number)?;
        self.places.in_copied(section, value)
    }

    fn other(
        &self,
        site: &Site,
        bytes: &mut [u8],
        fixup: &Fixup,
        target: &Resolved,
        step: Step,
        dynamic: &mut DynamicSlots,
    ) -> Result<(), ApplyError> {
        let Step {
            plan,
            offset,
            place,
        } = step;
        let places = self.places;
        let addend = target.addend as u64;
        let slots = self.slots(site, fixup, target);
        // An IFUNC's address is that of its PLT entry, except where the resolver's result can be filled in.
        let plt = slots.and_then(|slots| places.plt_entry(slots));
        let address = match plt {
            Some(entry)
                if target.facts.has(Defined::IFUNC) && !target.facts.has(Bound::IMPORTED) =>
            {
                entry
            }
            _ => target.address,
        };
        let value = address.wrapping_add(addend);
        let slot = |pick: fn(&Slots) -> u32| match slots.map(pick) {
            Some(number) if number != NONE => places.slot(number),
            // The scan has asked for it, or for nothing where nothing is; but an outline may lie.
            _ => {
                if site.object.is_outlined() && !target.facts.has(Bound::UNDEFINED_WEAK) {
                    self.complain(
                        site,
                        fixup,
                        format_args!("the outline does not say that it needs a slot"),
                    );
                }
                0
            }
        };
        let got = places.got_base();
        let thread_pointer = places.segments.tls.map_or(0, |tls| tls.thread_pointer);
        let tls_start = places.segments.tls.map_or(0, |tls| tls.start);
        let tpoff = target.address.wrapping_sub(thread_pointer);
        let distance = |bytes: &mut [u8], field, to: u64, from: u64| {
            store(
                bytes,
                offset,
                field,
                to.wrapping_add(addend).wrapping_sub(from),
            )
        };
        match plan {
            Plan::None => Ok(()),
            Plan::Absolute(field) if target.facts.has(Bound::UNDEFINED_WEAK) && !self.mode.pic => {
                store(bytes, offset, field, addend)
            }
            Plan::Absolute(Field::Word64) => {
                let word = self.word64(site, fixup, target, value, place, dynamic);
                store(bytes, offset, Field::Word64, word)
            }
            Plan::Absolute(field) => store(bytes, offset, field, value),
            Plan::PcRelative(field) => distance(bytes, field, address, place),
            Plan::Plt(field) => distance(bytes, field, plt.unwrap_or(target.address), place),
            Plan::PltGot(field) => distance(bytes, field, plt.unwrap_or(target.address), got),
            Plan::GotRelative(field) => distance(bytes, field, address, got),
            Plan::GotPc(field) => distance(bytes, field, got, place),
            Plan::GotOffset(field) => distance(bytes, field, slot(|slots| slots.got), got),
            Plan::GotSlot(field) => distance(bytes, field, slot(|slots| slots.got), place),
            Plan::GotToPc(load) => load.to_pc_relative(bytes, offset, target.address, place),
            Plan::GotToImmediate(load) => load.to_immediate(bytes, offset, target.address),
            Plan::Size(field)
                if target.facts.has(Bound::IMPORTED)
                    && !target.facts.has(Bound::UNDEFINED_WEAK) =>
            {
                let symbol = target.symbol.map_or(0, |id| (self.dynamic_index)(id));
                let rela = Rela::new(place, fixup.r_type, symbol, target.addend);
                DynamicSlots::take(&mut dynamic.symbolic, &mut dynamic.is_overrun, rela);
                store(bytes, offset, field, 0)
            }
            Plan::Size(field) => store(
                bytes,
                offset,
                field,
                self.size(site, fixup, target).wrapping_add(addend),
            ),
            Plan::TlsPair(field) => distance(bytes, field, slot(|slots| slots.tls_pair), place),
            Plan::TlsPairToExec(sequence) => sequence.to_le(bytes, offset, tpoff),
            Plan::TlsPairToInitial(sequence) => {
                sequence.to_ie(bytes, offset, slot(|slots| slots.tpoff), place)
            }
            Plan::TlsModule(field) => distance(bytes, field, places.slot(places.got.module), place),
            Plan::TlsModuleToExec(sequence) => sequence.to_le(bytes, offset),
            // Nothing is there to have an offset.
            Plan::ModuleOffset(field) if target.facts.has(Bound::UNDEFINED_WEAK) => {
                store(bytes, offset, field, addend)
            }
            Plan::ModuleOffset(field) => {
                let base = if self.mode.shared {
                    tls_start
                } else {
                    thread_pointer
                };
                distance(bytes, field, target.address, base)
            }
            Plan::TlsSlot(field) => distance(bytes, field, slot(|slots| slots.tpoff), place),
            Plan::TlsSlotToExec(access) => access.to_le(bytes, offset, tpoff),
            Plan::TlsOffset(field) => store(bytes, offset, field, tpoff.wrapping_add(addend)),
            Plan::TlsDescriptor(field) => {
                distance(bytes, field, slot(|slots| slots.descriptor), place)
            }
            Plan::DescriptorToExec(access) => access.to_le(bytes, offset, tpoff),
            Plan::DescriptorToInitial(access) => {
                access.to_ie(bytes, offset, slot(|slots| slots.tpoff), place)
            }
            Plan::DescriptorCallToNop(call) => call.to_nop(bytes, offset),
            // The scan has reported it.
            Plan::Impossible(_) => Ok(()),
        }
    }

    /// What is written for a word that holds an address, whose `value` is known so far, and its dynamic relocation, if it
    /// has one.
    fn word64(
        &self,
        site: &Site,
        fixup: &Fixup,
        target: &Resolved,
        value: u64,
        place: u64,
        dynamic: &mut DynamicSlots,
    ) -> u64 {
        let places = self.places;
        let addend = target.addend as u64;
        if target.facts.has(Bound::IMPORTED) {
            let writable = places.sections.state(site.section) & state::WRITE != 0;
            // Neither copied nor called by way of a PLT entry: its address comes at run time.
            let patched = target
                .symbol
                .is_some_and(|id| places.symbols.key(id).rank() == rank::SHARED)
                && !target.facts.has(Demand::COPY | Demand::CANONICAL_PLT);
            if self.mode.pic || writable || patched {
                let symbol = target.symbol.map_or(0, |id| (self.dynamic_index)(id));
                DynamicSlots::take(
                    &mut dynamic.symbolic,
                    &mut dynamic.is_overrun,
                    Rela::new(place, reloc::R_X86_64_64, symbol, target.addend),
                );
                return 0;
            }
        } else if target.facts.has(Defined::IFUNC)
            && !(self.mode.pic && target.facts.has(Demand::CANONICAL_PLT))
        {
            if self.mode.pic {
                let resolver = target.address.wrapping_add(addend);
                DynamicSlots::take(
                    &mut dynamic.irelative,
                    &mut dynamic.is_overrun,
                    Rela::new(place, reloc::R_X86_64_IRELATIVE, 0, resolver as i64),
                );
                return resolver;
            }
        } else if self.mode.pic
            && !target.dead
            && !target.facts.has(Defined::ABSOLUTE | Bound::UNDEFINED_WEAK)
            && (!site.packs || !relocation_action::is_packed(fixup.offset))
        {
            DynamicSlots::take(
                &mut dynamic.relative,
                &mut dynamic.is_overrun,
                Rela::new(place, reloc::R_X86_64_RELATIVE, 0, value as i64),
            );
        }
        value
    }

    fn size(&self, site: &Site, fixup: &Fixup, target: &Resolved) -> u64 {
        match (target.symbol, fixup.target) {
            (Some(symbol), _) => {
                let key = self.places.symbols.key(symbol);
                let Some(file) = self.places.files.definer(key) else {
                    return 0;
                };
                match (file.object(), file.shared()) {
                    (Some(object), _) => {
                        let own = object.symbol(key.index()).map_or(0, |symbol| symbol.size);
                        self.places.definitions.size(symbol, own)
                    }
                    (_, Some(shared)) => shared
                        .syms
                        .get(key.index() as usize)
                        .map_or(0, |sym| sym.st_size),
                    _ => 0,
                }
            }
            (None, Target::Symbol(index)) => {
                site.object.symbol(index).map_or(0, |symbol| symbol.size)
            }
            (None, Target::Section(_) | Target::Piece(_)) => 0,
        }
    }

    #[cold]
    fn failed(&self, site: &Site, fixup: &Fixup, target: &Resolved, why: ApplyError) {
        let name = match (target.symbol, fixup.target) {
            (Some(symbol), _) => self.places.symbols.name(symbol),
            (None, Target::Symbol(index)) => site.object.symbol_name(index),
            (None, Target::Section(_) | Target::Piece(_)) => b"",
        };
        let name = if name.is_empty() {
            "a local section".into()
        } else {
            format!("'{}'", self.diag.show_name(name))
        };
        let r_type = reloc::name(fixup.r_type);
        let note = match why {
            ApplyError::Overflow { .. } => {
                format!("\n>>> relocation truncated to fit: {r_type} against {name}")
            }
            _ => String::new(),
        };
        let text = self.describe(site, fixup, format_args!("{why}; references {name}{note}"));
        match why {
            ApplyError::Overflow { .. } => self.diag.pardonable(text),
            _ => self.diag.error(text),
        }
    }

    #[cold]
    fn complain(&self, site: &Site, fixup: &Fixup, what: std::fmt::Arguments) {
        self.diag.error(self.describe(site, fixup, what));
    }

    fn describe(&self, site: &Site, fixup: &Fixup, what: std::fmt::Arguments) -> String {
        let place = site.file.at_fixup(site.number, fixup);
        format!("{place}: {what}")
    }
}

/// The bytes of a field, if they are there.
#[inline(always)]
fn field_at<const SIZE: usize>(bytes: &mut [u8], offset: u64) -> Option<&mut [u8; SIZE]> {
    let at = usize::try_from(offset).ok()?;
    bytes.get_mut(at..)?.first_chunk_mut()
}

#[inline(always)]
fn store(bytes: &mut [u8], offset: u64, field: Field, value: u64) -> Result<(), ApplyError> {
    match usize::try_from(offset)
        .ok()
        .and_then(|offset| bytes.get_mut(offset..))
    {
        Some(place) => apply(place, field, value),
        None => Err(ApplyError::OutsideSection),
    }
}
