//! Slots of the global offset table, entries of the procedure linkage table, and
//! copies: who needs which, and where it stands in its section.
//!
//! Symbols get their slots in the order of their ids (locals after globals), so
//! the tables do not depend on the order in which the scan came by.

use crate::base::ids::{FileId, PartId, SymbolId};
use crate::base::key::rank;
use crate::elf::x86_64::plt;
use crate::graph::relocation_action::Mode;
use crate::graph::trace::Needs;
use crate::input::file::Files;
use crate::resolve::output_sections::subpart;
use crate::resolve::symbol_facts::{Bound, Defined, Demand, SymbolFacts};
use crate::resolve::symbol_table::SymbolTable;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::ops::Deref;
use std::sync::atomic::Ordering::Relaxed;

/// Whose an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A global symbol.
    Global(SymbolId),
    /// A local symbol of a file.
    Local(FileId, u32),
}

/// No slot.
pub const NONE: u32 = u32::MAX;

/// A symbol with slots or entries.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Whose they are.
    pub owner: Owner,
    /// Which they are.
    pub slots: Slots,
}

impl Deref for Entry {
    type Target = Slots;

    fn deref(&self) -> &Slots {
        &self.slots
    }
}

/// The slots and entries of one symbol. GOT slots are counted in words from the start of `.got`.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Slots {
    /// What is known of the symbol.
    pub facts: SymbolFacts,
    /// Slot with the address.
    pub got: u32,
    /// Slot through which the symbol's direct PLT entry jumps.
    pub jump: u32,
    /// Slot with the offset from the thread pointer.
    pub tpoff: u32,
    /// First of two slots: module and offset.
    pub tls_pair: u32,
    /// First of two slots: a TLS descriptor.
    pub descriptor: u32,
    /// Number of the lazy PLT entry.
    pub lazy: u32,
    /// Number of the direct PLT entry.
    pub direct: u32,
}

/// A variable of a shared object that lives in the executable.
#[derive(Clone, Copy, Debug)]
pub struct Copied {
    /// The symbol.
    pub symbol: SymbolId,
    /// It is read-only after relocation.
    pub read_only: bool,
    /// Offset among the copies of its kind.
    pub offset: u64,
    /// Whether a relocation is made: not for further names of one that is there already.
    pub first: bool,
}

impl Copied {
    /// The part of the output that it is in.
    pub fn part(&self) -> PartId {
        if self.read_only {
            subpart::RELRO_COPIES
        } else {
            subpart::COPIES
        }
    }
}

/// All slots, entries and copies.
pub struct Got {
    /// Symbols with slots.
    pub entries: Vec<Entry>,
    by_symbol: Vec<u32>,
    by_local: FxHashMap<(FileId, u32), u32>,
    /// Words of `.got`.
    pub words: u32,
    /// First of two slots: the `tls_index` pair of the module itself.
    pub module: u32,
    /// Indices of [`Got::entries`] with lazy PLT entries, in order.
    pub lazy: Vec<u32>,
    /// Indices of [`Got::entries`] with direct PLT entries, in order.
    pub direct: Vec<u32>,
    /// Copies.
    pub copies: Vec<Copied>,
    /// Sizes of the two kinds of copies: writable and read-only, with alignment.
    pub copy_sizes: [(u64, u64); 2],
    /// Dynamic relocations for the slots.
    pub counts: Counts,
    /// Room for more relative relocations, of files.
    pub spare: Spare,
}

/// What nobody needs yet. The dynamic linker does not skip relative relocations that are none, so that each of them is about a word
/// that nobody reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spare {
    /// How many; they are counted among the slots' own, behind which they are.
    pub relocations: u32,
    /// The word, in `.got`.
    pub word: u32,
    /// Slots, direct PLT entries, relocations and dynamic symbols for more imported symbols: how many of each. The relocations
    /// are counted among the slots' own that name symbols.
    pub imports: u32,
    /// The first of their slots.
    pub import_words: u32,
    /// Relocations that name symbols, for files that come to have more of them: of type `R_X86_64_NONE` until then. They are
    /// counted among the slots' own.
    pub symbolic: u32,
}

/// Numbers of dynamic relocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `R_X86_64_RELATIVE`.
    pub relative: u32,
    /// Relative ones that are in `.relr.dyn`.
    pub packed: u32,
    /// Those that name a symbol or are for thread-local storage.
    pub symbolic: u32,
    /// `R_X86_64_IRELATIVE`.
    pub irelative: u32,
}

/// What a GOT slot needs from the dynamic linker. Made by [`slot_relocation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotRelocation {
    /// Nothing: the value is known.
    None,
    /// The base address is added.
    Relative,
    /// The symbol's address is looked up.
    Symbolic,
    /// A resolver is called.
    Irelative,
}

/// How the slot with a symbol's address is filled in.
pub fn slot_relocation(mode: Mode, facts: SymbolFacts) -> SlotRelocation {
    if facts.has(Bound::IMPORTED) {
        SlotRelocation::Symbolic
    } else if facts.has(Defined::IFUNC) && !facts.has(Demand::CANONICAL_PLT) {
        SlotRelocation::Irelative
    } else if mode.pic && !facts.has(Defined::ABSOLUTE | Bound::UNDEFINED_WEAK) {
        SlotRelocation::Relative
    } else {
        SlotRelocation::None
    }
}

impl Got {
    /// Whether the resolvers of indirect functions are called where the slots of lazy PLT entries are filled in, behind these. What they call by way of
    /// such an entry, of a program that may be anywhere, would lead nowhere before that.
    pub fn resolves_behind_lazy(&self) -> bool {
        !self.lazy.is_empty()
    }

    /// Hands out slots, entries and copies.
    pub fn allocate(files: &Files, symbols: &SymbolTable, needs: &Needs, mode: Mode) -> Got {
        let wanting: Vec<SymbolId> = symbols
            .ids()
            .filter(|id| symbols.facts(*id).has(Demand::ENTRY))
            .collect();
        let mut got = Got {
            entries: Vec::with_capacity(wanting.len() + needs.locals.len()),
            by_symbol: Vec::new(),
            by_local: FxHashMap::default(),
            words: 0,
            module: NONE,
            lazy: Vec::new(),
            direct: Vec::new(),
            copies: Vec::new(),
            copy_sizes: [(0, 1); 2],
            counts: Counts::default(),
            spare: Spare::default(),
        };
        if !wanting.is_empty() {
            got.by_symbol = vec![NONE; symbols.id_limit()];
        }
        for id in wanting {
            let mut facts = symbols.facts(id);
            if facts.has(Demand::COPY) {
                got.copy(files, symbols, id);
                facts = symbols.facts(id);
            }
            got.by_symbol[id.index()] = got.entries.len() as u32;
            got.add(Owner::Global(id), facts, mode);
        }
        for need in &needs.locals {
            let object = files.object(need.file);
            let symbol = object.symbol(need.index);
            let kind = symbol.map_or(0, |symbol| symbol.kind());
            let mut facts = need.needs.facts();
            if kind == crate::elf::c::STT_GNU_IFUNC {
                facts |= Defined::IFUNC;
            }
            if symbol.is_some_and(|symbol| symbol.place == crate::input::parts::Place::Absolute) {
                facts |= Defined::ABSOLUTE;
            }
            got.by_local
                .insert((need.file, need.index), got.entries.len() as u32);
            got.add(Owner::Local(need.file, need.index), facts, mode);
        }
        if needs.tls_module.load(Relaxed) {
            got.module = got.words;
            got.words += 2;
            got.counts.symbolic += u32::from(mode.shared);
        }
        got
    }

    /// Slots and entries that an earlier link has handed out: of some symbols, of `ids`.
    pub(crate) fn known(entries: Vec<Entry>, ids: usize, words: u32, module: u32) -> Got {
        let mut by_symbol = vec![NONE; ids];
        for (number, entry) in (0..).zip(&entries) {
            if let Owner::Global(id) = entry.owner {
                by_symbol[id.index()] = number;
            }
        }
        Got {
            entries,
            by_symbol,
            by_local: FxHashMap::default(),
            words,
            module,
            lazy: Vec::new(),
            direct: Vec::new(),
            copies: Vec::new(),
            copy_sizes: [(0, 1); 2],
            counts: Counts::default(),
            spare: Spare::default(),
        }
    }

    /// Makes room for so many relative relocations more.
    pub fn make_room(&mut self, relocations: u32) {
        if relocations > 0 {
            let word = self.take(1);
            (self.spare.relocations, self.spare.word) = (relocations, word);
            self.counts.relative += relocations;
        }
    }

    /// Makes room for so many imported symbols more.
    pub fn make_import_room(&mut self, imports: u32) {
        self.spare.imports = imports;
        self.spare.import_words = self.take(imports);
        self.counts.symbolic += imports;
    }

    /// Hands out the module's own slots of thread-local storage, if it has none.
    pub fn make_module_room(&mut self, mode: Mode) {
        if self.module == NONE {
            self.module = self.take(2);
            self.counts.symbolic += u32::from(mode.shared);
        }
    }

    /// Makes room for so many relocations more that name symbols.
    pub fn make_symbolic_room(&mut self, relocations: u32) {
        self.spare.symbolic = relocations;
        self.counts.symbolic += relocations;
    }

    /// Number of direct PLT entries, with those that nobody uses yet.
    pub fn direct_entries(&self) -> u64 {
        self.direct.len() as u64 + u64::from(self.spare.imports)
    }

    fn take(&mut self, words: u32) -> u32 {
        self.words += words;
        self.words - words
    }

    fn add(&mut self, owner: Owner, facts: SymbolFacts, mode: Mode) {
        let index = self.entries.len() as u32;
        let imported = facts.has(Bound::IMPORTED);
        let mut slots = Slots {
            facts,
            got: NONE,
            jump: NONE,
            tpoff: NONE,
            tls_pair: NONE,
            descriptor: NONE,
            lazy: NONE,
            direct: NONE,
        };
        if facts.has(Demand::GOT) {
            slots.got = self.take(1);
            match slot_relocation(mode, facts) {
                SlotRelocation::None => {}
                SlotRelocation::Relative if mode.pack => self.counts.packed += 1,
                SlotRelocation::Relative => self.counts.relative += 1,
                SlotRelocation::Symbolic => self.counts.symbolic += 1,
                SlotRelocation::Irelative => self.counts.irelative += 1,
            }
        }
        if facts.has(Demand::PLT) {
            if imported && (slots.got == NONE || facts.has(Demand::CANONICAL_PLT)) {
                slots.lazy = self.lazy.len() as u32;
                self.lazy.push(index);
            } else {
                // A canonical entry of an IFUNC cannot jump through the slot that holds its own address.
                slots.jump = if slots.got != NONE && !facts.has(Demand::CANONICAL_PLT) {
                    slots.got
                } else {
                    self.counts.irelative += 1;
                    self.take(1)
                };
                slots.direct = self.direct.len() as u32;
                self.direct.push(index);
            }
        }
        if facts.has(Demand::TPOFF) {
            slots.tpoff = self.take(1);
            self.counts.symbolic += u32::from(imported || mode.shared);
        }
        if facts.has(Demand::TLSGD) {
            slots.tls_pair = self.take(2);
            self.counts.symbolic += if imported { 2 } else { u32::from(mode.shared) };
        }
        if facts.has(Demand::TLSDESC) {
            slots.descriptor = self.take(2);
            self.counts.symbolic += 1;
        }
        self.entries.push(Entry { owner, slots });
    }

    /// Whether there are TLS descriptors.
    pub fn has_descriptors(&self) -> bool {
        self.entries.iter().any(|slots| slots.descriptor != NONE)
    }

    /// Makes room for a copy of a variable, for all the names that it has in its shared object.
    fn copy(&mut self, files: &Files, symbols: &SymbolTable, id: SymbolId) {
        if self.copies.iter().any(|copied| copied.symbol == id) {
            return;
        }
        let key = symbols.key(id);
        let file = files.get(key.file());
        let Some(shared) = file.shared() else { return };
        let Some(sym) = shared.syms.get(key.index() as usize) else {
            return;
        };
        let read_only = shared.is_read_only(key.index());
        let align = shared.alignment(key.index());
        let (size, kind_align) = &mut self.copy_sizes[usize::from(read_only)];
        let (offset, end) = crate::layout::placement::append(*size, sym.st_size, align);
        *size = end;
        *kind_align = (*kind_align).max(align);
        self.copies.push(Copied {
            symbol: id,
            read_only,
            offset,
            first: true,
        });
        for index in shared.globals() {
            let alias = &shared.syms[index as usize];
            let same =
                { alias.st_value } == { sym.st_value } && { alias.st_shndx } == { sym.st_shndx };
            if !same
                || !shared.is_defined(index)
                || !shared.is_default(index)
                || index == key.index()
            {
                continue;
            }
            let other = symbols.of(file, index);
            if other != id
                && symbols.key(other).file() == key.file()
                && symbols.key(other).rank() == rank::SHARED
            {
                symbols.add(other, Bound::IMPORTED);
                symbols.add(other, Demand::COPY | Demand::DYNSYM);
                self.copies.push(Copied {
                    symbol: other,
                    read_only,
                    offset,
                    first: false,
                });
            }
        }
        self.counts.symbolic += 1;
    }

    /// Where the copy of a shared object's variable is, if there is one: the part, and the offset in it.
    pub fn copy_of(&self, id: SymbolId) -> Option<(PartId, u64)> {
        let copied = self.copies.iter().find(|copied| copied.symbol == id)?;
        Some((copied.part(), copied.offset))
    }

    /// The slots of a global symbol.
    #[inline]
    pub fn of_global(&self, id: SymbolId) -> Option<&Slots> {
        let index = *self.by_symbol.get(id.index())?;
        self.entries.get(index as usize).map(Deref::deref)
    }

    /// The slots of a local symbol.
    #[inline]
    pub fn of_local(&self, file: FileId, index: u32) -> Option<&Slots> {
        self.entries
            .get(*self.by_local.get(&(file, index))? as usize)
            .map(Deref::deref)
    }

    /// Size of a direct PLT entry.
    pub fn direct_size(ibt: bool) -> u64 {
        (if ibt {
            plt::DIRECT_IBT_SIZE
        } else {
            plt::DIRECT_SIZE
        }) as u64
    }
}
