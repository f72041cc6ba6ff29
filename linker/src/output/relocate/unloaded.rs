//! Relocations of sections that are not loaded: debugging information.
//!
//! There are many: two for each variable and function. Nearly all of them are offsets, in 32 bits, in a few sections of
//! the same file, `.debug_str` above all, whose pieces were merged. So what is needed for the last few such sections is
//! kept at hand ([`Seen`]). From tickets they are mostly about the pieces themselves, and these have a loop of their own
//! at the end of [`Relocator::unloaded`]. Everything else takes the road of all relocations.

use super::{FETCHED, Relocator, Site, store};
use crate::base::ids::{SectionId, SymbolId};
use crate::base::key;
use crate::elf::c;
use crate::elf::x86_64::reloc;
use crate::graph::merge::PlacedPieces;
use crate::input::object::{Fixups, Referent};
use crate::input::parts::{Fixup, Place, Target};
use crate::layout::address_map::Places;
use crate::resolve::input_sections::state;
use crate::resolve::symbol_facts::Bound;
use format_spec::fragment::FixupRecord;

/// Sections that are referred to by their section symbols, or from tickets by their numbers; direct-mapped by these.
#[derive(Default)]
struct Seen<'p> {
    entries: [Option<(Key, Section<'p>)>; 4],
}

/// How a fixup names a section.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    /// The index of its section symbol.
    Symbol(u32),
    /// Its number.
    Number(u32),
}

/// A section that is not loaded itself, and is in the output.
#[derive(Clone, Copy)]
enum Section<'p> {
    /// Address of its first byte.
    Whole(u64),
    /// Address of the pieces of its part, and its own.
    Merged(u64, PlacedPieces<'p>),
}

impl<'p> Seen<'p> {
    /// Applies a fixup, if it is the offset, in 32 bits, of a place in a section that is not loaded. `false` if it is not,
    /// or does not fit.
    #[inline(always)]
    fn apply(
        &mut self,
        places: &Places<'p, '_>,
        site: &Site,
        bytes: &mut [u8],
        fixup: &Fixup,
    ) -> bool {
        if fixup.r_type != reloc::R_X86_64_32 {
            return false;
        }
        let addend = fixup.addend as u64;
        let value = match fixup.target {
            Target::Symbol(symbol) if symbol < site.object.first_global() => {
                let section = self.section(Key::Symbol(symbol), symbol, || {
                    Section::of_symbol(places, site, symbol)
                });
                match section {
                    Some(Section::Whole(address)) => Some(address.wrapping_add(addend)),
                    Some(Section::Merged(base, pieces)) => {
                        pieces.place(addend).map(|at| base.wrapping_add(at))
                    }
                    None => None,
                }
            }
            Target::Section(number) => {
                let section = self.section(Key::Number(number), number, || {
                    Section::of_number(places, site, number)
                });
                match section {
                    Some(Section::Whole(address)) => Some(address.wrapping_add(addend)),
                    _ => None,
                }
            }
            Target::Piece(_) | Target::Symbol(_) => None,
        };
        let field = usize::try_from(fixup.offset)
            .ok()
            .and_then(|at| bytes.get_mut(at..));
        match (
            value.map(u32::try_from),
            field.and_then(|field| field.first_chunk_mut()),
        ) {
            (Some(Ok(value)), Some(field)) => {
                *field = value.to_le_bytes();
                true
            }
            _ => false,
        }
    }

    /// The section with a key, which is looked for if it is not at hand. `number` is that in the key.
    #[inline(always)]
    fn section(
        &mut self,
        key: Key,
        number: u32,
        find: impl FnOnce() -> Option<Section<'p>>,
    ) -> Option<&Section<'p>> {
        let entry = &mut self.entries[number as usize % 4];
        match entry {
            Some((known, _)) if *known == key => {}
            _ => *entry = Some((key, find()?)),
        }
        entry.as_ref().map(|(_, section)| section)
    }
}

impl<'p> Section<'p> {
    /// The section of a section symbol, if references to it need nothing but its place.
    fn of_symbol(places: &Places<'p, '_>, site: &Site, symbol: u32) -> Option<Section<'p>> {
        let symbol = site.object.symbol(symbol)?;
        let (Place::Section(number), c::STT_SECTION, 0) =
            (symbol.place, symbol.kind(), symbol.value)
        else {
            return None;
        };
        Section::of_number(places, site, number)
    }

    /// As [`Section::of_symbol`], of a section of this number.
    fn of_number(places: &Places<'p, '_>, site: &Site, number: u32) -> Option<Section<'p>> {
        let section = places.sections.get(site.file_id, number)?;
        let bits = places.sections.state(section);
        if bits & (state::ALIVE | state::ALLOC | state::EH_FRAME) != state::ALIVE {
            return None;
        }
        if places.is_merged(section) {
            let part = places.sections.part[section.index()];
            let input = places.placement.offset(section) as usize;
            return Some(Section::Merged(
                places.part(part),
                places.merged.pieces(input)?,
            ));
        }
        places.in_section(section, 0).map(Section::Whole)
    }
}

impl Relocator<'_, '_> {
    /// Applies the fixups of a section that is not loaded: debugging information. What refers to code that is not
    /// in the output becomes `tombstone`, so that debuggers see no code there.
    ///
    /// Of functions that are one now, one is described. But breakpoints can be set at the lines of all.
    pub fn unloaded(&self, site: &Site, bytes: &mut [u8], fixups: Fixups, tombstone: u64) {
        let folds = self.places.folds;
        let describes = !folds.is_empty()
            && site
                .object
                .section(site.number)
                .is_some_and(|section| section.name != b".debug_line");
        // What the fixup refers to was folded: whether that is not described, and how far the description's
        // subject is away.
        let folded = |fixup: &Fixup| {
            let id = match folds.is_empty() {
                false => self.target_section(site, fixup.target)?,
                true => return None,
            };
            let Some(leader) = folds.jump(id) else {
                return (describes && folds.of(id).is_some()).then_some((true, 0));
            };
            let places = self.places;
            let distance = places
                .in_section(leader, 0)?
                .wrapping_sub(places.in_section(id, 0)?);
            Some((describes, distance))
        };
        let mut seen = Seen::default();
        let mut rest = |bytes: &mut [u8], fixup: Fixup| {
            if seen.apply(self.places, site, bytes, &fixup) {
                return;
            }
            let Some(target) = self.resolve(site, &fixup) else {
                self.complain(site, &fixup, format_args!("the symbol does not exist"));
                return;
            };
            let (is_folded, distance) = folded(&fixup).unwrap_or((false, 0));
            let is_dead =
                target.dead || target.symbol.is_some_and(|id| self.is_dead(id)) || is_folded;
            let value = target
                .address
                .wrapping_add(distance)
                .wrapping_add(target.addend as u64);
            let howto = reloc::howto(fixup.r_type);
            let result = match howto.class {
                reloc::Class::None => Ok(()),
                _ if is_dead => store(bytes, fixup.offset, howto.field, tombstone),
                reloc::Class::Absolute => store(bytes, fixup.offset, howto.field, value),
                reloc::Class::TlsModuleOffset => {
                    let start = self.places.segments.tls.map_or(0, |tls| tls.start);
                    store(bytes, fixup.offset, howto.field, value.wrapping_sub(start))
                }
                reloc::Class::TlsOffset => {
                    let pointer = self.places.segments.tls.map_or(0, |tls| tls.thread_pointer);
                    store(
                        bytes,
                        fixup.offset,
                        howto.field,
                        value.wrapping_sub(pointer),
                    )
                }
                reloc::Class::PcRelative | reloc::Class::PltPcRelative => store(
                    bytes,
                    fixup.offset,
                    howto.field,
                    value.wrapping_sub(fixup.offset),
                ),
                reloc::Class::Size => {
                    let size = self.size(site, &fixup, &target);
                    store(
                        bytes,
                        fixup.offset,
                        howto.field,
                        size.wrapping_add(target.addend as u64),
                    )
                }
                _ => {
                    self.complain(
                        site,
                        &fixup,
                        format_args!(
                            "this relocation has no meaning in a section that is not loaded"
                        ),
                    );
                    Ok(())
                }
            };
            if let Err(why) = result {
                self.failed(site, &fixup, &target, why);
            }
        };
        let Some(repository) = site.object.repository() else {
            return fixups.for_each(|fixup| rest(bytes, fixup));
        };
        let pieces = self.places.pieces.of_repository(repository.id);
        let first_global = site.object.first_global();
        let later = |target| match target {
            Target::Piece(id) => pieces.fetch(id),
            target => self.fetch(site.file_id, site.file, site.object, first_global, target),
        };
        // The part that the last piece was in, and its address.
        let mut last = None;
        let piece = |bytes: &mut [u8], fixup: &FixupRecord, id| {
            let Some((part, offset)) = pieces.of(id) else {
                return false;
            };
            let base = match last {
                Some((known, base)) if known == part => base,
                _ => last.insert((part, self.places.part(part))).1,
            };
            let value = base
                .wrapping_add(offset)
                .wrapping_add(i64::from(fixup.addend) as u64);
            let field = bytes.get_mut(fixup.offset as usize..);
            match (
                u32::try_from(value),
                field.and_then(|field| field.first_chunk_mut()),
            ) {
                (Ok(value), Some(field)) if fixup.fixup_type() == reloc::R_X86_64_32 => {
                    *field = value.to_le_bytes();
                    true
                }
                _ => false,
            }
        };
        fixups.for_each_piece(bytes, FETCHED, later, piece, rest);
    }

    fn is_dead(&self, id: SymbolId) -> bool {
        let section = self.places.definitions.section(id);
        if section == SectionId::NONE {
            // A common block that is not linked is not defined by anybody any more.
            let undefined = Bound::UNDEFINED | Bound::UNDEFINED_WEAK | Bound::IMPORTED;
            let symbols = self.places.symbols;
            return symbols.key(id) == key::Key::NONE && !symbols.facts(id).has(undefined);
        }
        !self.places.sections.is_alive(section) && self.places.folds.of(section).is_none()
    }

    /// The input section that a fixup refers to.
    fn target_section(&self, site: &Site, target: Target) -> Option<SectionId> {
        match site.object.referent(target) {
            Referent::Global(index) => {
                let symbol = self.places.symbols.of(site.file, index);
                let section = self.places.definitions.section(symbol);
                (section != SectionId::NONE).then_some(section)
            }
            Referent::Place { section, .. } => self.places.sections.get(site.file_id, section),
            _ => None,
        }
    }
}
