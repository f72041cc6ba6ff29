//! The output's `.symtab` and `.strtab`.
//!
//! Each file counts what it contributes, in parallel; the sums say where each file
//! writes; then each file writes, in parallel. Local symbols of all files come
//! first, as the gABI demands.

use crate::args::{Args, DiscardLocals, StripMode};
use crate::base::ids::{FileId, PartId, SectionId, SymbolId};
use crate::base::key::{Key, rank};
use crate::elf::shf;
use crate::elf::{Sym, c};
use crate::graph::icf::Folds;
use crate::input::file::{Body, File, Files};
use crate::input::object::Object;
use crate::input::parts::{Place, Symbol};
use crate::layout::address_map::{Places, SymbolValue};
use crate::layout::section_index::SectionIndex;
use crate::resolve::input_sections::{Sections, state};
use crate::resolve::linker_symbols::Meaning;
use crate::resolve::local_suffixes::Numbering;
use crate::resolve::output_sections::{OutputSection, Outputs, Std, subpart};
use crate::resolve::retain_symbols_file::Retained;
use crate::resolve::room::Room;
use crate::resolve::symbol_facts::{Bound, Defined, Demand, Referred, SymbolFacts};
use crate::resolve::symbol_table::SymbolTable;
use rayon::prelude::*;

/// What a file contributes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    /// Number of local symbols.
    pub locals: u32,
    /// Number of global symbols.
    pub globals: u32,
    /// Bytes of names, with their NULs.
    pub names: u64,
    /// Whether one of them [`is_gnu`].
    pub gnu: bool,
}

/// Shares of all files, by [`FileId`], and where each begins.
pub struct SymtabLayout {
    /// What each file contributes.
    pub shares: Vec<Share>,
    /// Symbols of output sections, behind the null symbol.
    pub section_symbols: u32,
    /// Local symbols behind those of all files that stand for nothing yet.
    pub spare_locals: u32,
    /// Number of local symbols, the null symbol and the spare ones included.
    pub local_count: u32,
    /// Number of all symbols.
    pub count: u32,
    /// Size of `.strtab`.
    pub names: u64,
    /// Symbols that no object defines: imported and linker-defined ones; first those that nobody outside can see.
    pub others: Vec<SymbolId>,
    /// By file: what is behind the names of its local symbols, those that others could see aside. Empty without
    /// `-z unique-symbol`.
    suffixes: Vec<Vec<Box<[u8]>>>,
}

impl SymtabLayout {
    /// Whether some symbol is of a kind that only GNU systems know.
    pub fn has_gnu(&self) -> bool {
        self.shares.iter().any(|share| share.gnu)
    }

    /// Makes room for symbols of output sections.
    pub fn add_section_symbols(&mut self, count: u32) {
        self.section_symbols += count;
        self.local_count += count;
        self.count += count;
    }
}

/// Whether only GNU systems know a symbol's kind: an indirect function, or one that is unique in the process.
pub fn is_gnu(symbol: Symbol) -> bool {
    symbol.kind() == c::STT_GNU_IFUNC || symbol.binding() == STB_GNU_UNIQUE
}

/// A symbol of which there is one in a process, whichever way its objects were loaded.
const STB_GNU_UNIQUE: u8 = 10;

/// What decides about symbols before there are addresses.
#[derive(Clone, Copy)]
pub struct Chooser<'l, 'a> {
    /// The inputs.
    pub files: &'l Files<'a>,
    /// Their symbols.
    pub symbols: &'l SymbolTable<'a>,
    /// The input sections.
    pub sections: &'l Sections,
    /// Which of them stand for others.
    pub folds: &'l Folds,
    /// Options.
    pub args: &'l Args,
    /// The names that stay, if the command line says so.
    pub retained: Option<&'l Retained>,
}

impl<'a> Chooser<'_, 'a> {
    /// Counts everything. `None` with `-s`.
    pub fn layout(&self, room: Room) -> Option<SymtabLayout> {
        if self.args.strip == StripMode::All {
            return None;
        }
        let mut shares: Vec<Share> = self
            .files
            .0
            .par_iter()
            .enumerate()
            .map(|(i, file)| {
                let mut share = Share::default();
                self.each(FileId(i as u32), file, |_, symbol, name, global| {
                    share.gnu |= is_gnu(symbol);
                    *(if global {
                        &mut share.globals
                    } else {
                        &mut share.locals
                    }) += 1;
                    share.names += name.len() as u64 + 1;
                });
                if share.names > 0 {
                    share.locals += room.of_locals(share.locals);
                }
                share
            })
            .collect();
        let mut others: Vec<SymbolId> =
            self.symbols.ids().filter(|id| self.is_other(*id)).collect();
        others.sort_by_key(|id| !is_local(self.symbols, *id));
        let locals = others.partition_point(|id| is_local(self.symbols, *id));
        shares[0] = Share {
            locals: locals as u32,
            globals: (others.len() - locals) as u32,
            names: others
                .iter()
                .map(|id| self.symbols.name(*id).len() as u64 + 1)
                .sum(),
            gnu: false,
        };
        let of_files = shares.iter().map(|share| share.locals).sum::<u32>();
        let spare_locals = room.of_all_locals(of_files + 1);
        let local_count = 1 + of_files + spare_locals;
        let count = local_count + shares.iter().map(|share| share.globals).sum::<u32>();
        let suffixes = self.suffixes();
        for (share, suffixes) in shares.iter_mut().zip(&suffixes) {
            share.names += suffixes
                .iter()
                .map(|suffix| suffix.len() as u64)
                .sum::<u64>();
        }
        let names = 1 + shares.iter().map(|share| share.names).sum::<u64>();
        Some(SymtabLayout {
            shares,
            section_symbols: 0,
            spare_locals,
            local_count,
            count,
            names,
            others,
            suffixes,
        })
    }

    fn suffixes(&self) -> Vec<Vec<Box<[u8]>>> {
        if !self.args.z.unique_symbol {
            return Vec::new();
        }
        let mut numbering = Numbering::default();
        let mut of_file = |(id, file): (FileId, &File<'a>)| {
            let mut suffixes = Vec::new();
            self.each(id, file, |index, symbol, name, _| {
                if index < file.first_global() {
                    suffixes.push(numbering.suffix(symbol.kind(), name));
                }
            });
            suffixes
        };
        self.files.iter().map(&mut of_file).collect()
    }

    fn is_other(&self, id: SymbolId) -> bool {
        let bits = self.symbols.facts(id);
        match self.symbols.key(id).rank() {
            rank::LINKER => {
                bits.has(Referred::BY_OBJECT) && self.is_retained(self.symbols.name(id))
            }
            rank::SHARED | rank::NONE => {
                (bits.has(Bound::IMPORTED) && bits.has(Demand::OF_DYNAMIC_LINKER))
                    // Relocations that are kept name it.
                    || (self.args.emit_relocs && bits.has(Referred::BY_OBJECT))
            }
            _ => false,
        }
    }

    /// Calls `f` with each symbol that a file contributes: index, symbol, name, and whether it is global in the output.
    pub fn each(
        &self,
        id: FileId,
        file: &File<'a>,
        mut f: impl FnMut(u32, Symbol, &'a [u8], bool),
    ) {
        let Body::Object(object) = &file.body else {
            return;
        };
        if !self.sections.is_linked(id) {
            return;
        }
        let first_global = object.first_global();
        if self.args.discard_locals != DiscardLocals::All {
            for index in 1..first_global {
                let Some(symbol) = object.symbol(index) else {
                    continue;
                };
                if symbol.kind() == c::STT_SECTION
                    || symbol.place == Place::Undefined
                    || !self.is_kept(id, symbol)
                {
                    continue;
                }
                let name = object.symbol_name(index);
                if name.is_empty() || self.is_temporary(id, symbol, name) || !self.is_retained(name)
                {
                    continue;
                }
                f(index, symbol, name, false);
            }
        }
        for index in first_global..object.symbol_count() {
            let Some(symbol) = object.symbol(index) else {
                continue;
            };
            if symbol.place == Place::Undefined {
                continue;
            }
            let name = self.symbols.of(file, index);
            let key = self.symbols.key(name);
            if key.file() != id
                || key.index() != index
                || !key.in_object()
                || !self.is_kept(id, symbol)
                || !self.is_retained(self.symbols.name(name))
            {
                continue;
            }
            let hidden = self.symbols.facts(name).has(NOT_VISIBLE);
            // The table has the name at hand, but for its version.
            let name = match self.symbols.has_versions() {
                false => self.symbols.name(name),
                true => object.symbol_name(index),
            };
            f(index, symbol, name, !hidden);
        }
    }

    fn is_retained(&self, name: &[u8]) -> bool {
        self.retained.is_none_or(|retained| retained.keeps(name))
    }

    fn is_kept(&self, file: FileId, symbol: Symbol) -> bool {
        let Place::Section(number) = symbol.place else {
            return true;
        };
        self.sections.get(file, number).is_some_and(|id| {
            let bits = self.sections.state(id);
            (bits & state::ALIVE != 0 || self.folds.of(id).is_some())
                && (self.sections.part[id.index()] != PartId::NONE || bits & state::EH_FRAME != 0)
        })
    }

    fn is_temporary(&self, file: FileId, symbol: Symbol, name: &[u8]) -> bool {
        if !name.starts_with(b".L") {
            return false;
        }
        match self.args.discard_locals {
            DiscardLocals::None => false,
            DiscardLocals::Temporaries | DiscardLocals::All => true,
            DiscardLocals::SecMerge => {
                let Place::Section(number) = symbol.place else {
                    return false;
                };
                let section = self.files.object(file).section(number);
                section.is_some_and(|section| section.flags & shf::MERGE != 0)
            }
        }
    }
}

/// Where one file writes its symbols.
pub struct SymbolSlots<'o> {
    /// Its local symbols.
    pub locals: &'o mut [Sym],
    /// Its global symbols.
    pub globals: &'o mut [Sym],
    /// Its names.
    pub names: &'o mut [u8],
    /// Place of its names in `.strtab`.
    pub names_offset: u64,
}

/// Writes what a file contributes.
pub fn write_file<'a>(
    layout: &SymtabLayout,
    chooser: &Chooser<'_, 'a>,
    places: &Places<'_, 'a>,
    values: &[SymbolValue],
    id: FileId,
    slots: SymbolSlots,
) {
    let file = chooser.files.get(id);
    let (mut local, mut global, mut at) = (0, 0, 0usize);
    let mut suffixes = layout.suffixes.get(id.index()).into_iter().flatten();
    let SymbolSlots {
        locals,
        globals,
        names,
        names_offset,
    } = slots;
    chooser.each(id, file, |index, symbol, name, is_global| {
        let object = chooser.files.object(id);
        let mut sym = Sym {
            st_name: (names_offset + at as u64) as u32,
            st_info: symbol.info,
            st_other: symbol.other,
            st_shndx: c::SHN_ABS,
            st_value: 0,
            st_size: size_of(places, id, object, index, symbol),
        };
        names[at..at + name.len()].copy_from_slice(name);
        at += name.len();
        if index < object.first_global()
            && let Some(suffix) = suffixes.next()
        {
            names[at..at + suffix.len()].copy_from_slice(suffix);
            at += suffix.len();
        }
        names[at] = 0;
        at += 1;
        let mut bits = SymbolFacts::NONE;
        let value = if index < object.first_global() {
            places.local(id, object, index).unwrap_or(0)
        } else {
            let name = chooser.symbols.of(file, index);
            bits = chooser.symbols.facts(name);
            if bits.has(Defined::IFUNC) {
                places.definition(name)
            } else {
                values[name.index()].address
            }
        };
        sym.st_value = value;
        if !is_global {
            sym.st_info = symbol.info & 15;
        }
        // Any file may have said so.
        if bits.has(Referred::NOT_DEFAULT) {
            sym.st_other = match bits {
                _ if bits.has(Referred::INTERNAL) => c::STV_INTERNAL,
                _ if bits.has(Referred::HIDDEN) => c::STV_HIDDEN,
                _ => c::STV_PROTECTED,
            };
        }
        sym.st_shndx = section_of(chooser, places, id, index, symbol).st_shndx();
        if symbol.place == Place::Common {
            sym.st_info = (sym.st_info & 0xf0)
                | if symbol.kind() == c::STT_TLS {
                    c::STT_TLS
                } else {
                    c::STT_OBJECT
                };
        }
        if symbol.kind() == c::STT_TLS && symbol.place != Place::Absolute {
            sym.st_value = value.wrapping_sub(places.segments.tls.map_or(0, |tls| tls.start));
        }
        let slot = if is_global {
            &mut globals[global]
        } else {
            &mut locals[local]
        };
        *slot = sym;
        *(if is_global { &mut global } else { &mut local }) += 1;
    });
    fill_room(places, locals, local, globals, global);
    names[at..].fill(0);
}

/// Fills the room for more symbols: that of locals with symbols of a section, which nobody shows; and where a file has had
/// more globals in an earlier link, with its last one again.
fn fill_room(
    places: &Places,
    locals: &mut [Sym],
    local: usize,
    globals: &mut [Sym],
    global: usize,
) {
    locals[local..].fill(spare_local(places.outputs));
    let (written, room) = globals.split_at_mut(global);
    if let Some(last) = written.last() {
        room.fill(*last);
    }
}

/// A local symbol that says nothing: one of a section, which nobody shows.
pub fn spare_local(outputs: &Outputs) -> Sym {
    let text = outputs.std(Std::Text);
    Sym {
        st_name: 0,
        st_info: c::STT_SECTION,
        st_other: 0,
        st_shndx: SectionIndex::of_header(text.header).st_shndx(),
        st_value: text.address,
        st_size: 0,
    }
}

/// The section of the output that a file's symbol is in.
pub fn section_of(
    chooser: &Chooser,
    places: &Places,
    id: FileId,
    index: u32,
    symbol: Symbol,
) -> SectionIndex {
    match symbol.place {
        Place::Section(number) => header_of(places, chooser.sections.id(id, number)),
        Place::Common => {
            let name = chooser.symbols.of(chooser.files.get(id), index);
            header_of_part(places.outputs, places.common_part(name))
        }
        _ => SectionIndex::ABSOLUTE,
    }
}

/// The output section of a part.
fn header_of_part(outputs: &Outputs, part: PartId) -> SectionIndex {
    let output = outputs.parts[part.index()].output;
    SectionIndex::of_header(outputs.sections[output.index()].header)
}

/// A symbol's size in bytes: its object's word for it, unless only a jump is left of its function, or it is a common
/// block that another object wants larger.
fn size_of(places: &Places, file: FileId, object: &Object, index: u32, symbol: Symbol) -> u64 {
    if symbol.place == Place::Common {
        let name = places.symbols.of(places.files.get(file), index);
        return places.definitions.size(name, symbol.size);
    }
    let jump = match symbol.place {
        Place::Section(number) => places
            .sections
            .get(file, number)
            .and_then(|section| places.folds.jump_size(section, object, number)),
        _ => None,
    };
    jump.map_or(symbol.size, |size| size.min(symbol.size))
}

/// The output section of an input section.
fn header_of(places: &Places, id: SectionId) -> SectionIndex {
    let outputs = places.outputs;
    let part = places.sections.part[id.index()];
    let output = match part {
        PartId::NONE => outputs.parts[Std::EhFrame.part().index()].output,
        part => outputs.parts[part.index()].output,
    };
    let section = &outputs.sections[output.index()];
    match section.header {
        // It is empty: the symbol says where it would be, in the last section before.
        0 if section.is_alloc() => nearest_header(outputs, section.address),
        0 => SectionIndex::ABSOLUTE,
        header => SectionIndex::of_header(header),
    }
}

/// What is known of symbols that are not visible outside of the output.
const NOT_VISIBLE: SymbolFacts = Referred::NOT_EXPORTED
    .facts()
    .and(Bound::FORCED_LOCAL.facts());

/// A symbol of the linker that is not visible outside of the output.
fn is_local(symbols: &SymbolTable, id: SymbolId) -> bool {
    symbols.key(id).rank() == rank::LINKER && symbols.facts(id).has(NOT_VISIBLE)
}

/// The last section before an address, or the first section.
fn nearest_header(outputs: &Outputs, address: u64) -> SectionIndex {
    let sections = outputs.by_address();
    let before = sections.partition_point(|(start, _)| *start <= address);
    let nearest = sections.get(before.saturating_sub(1));
    nearest.map_or(SectionIndex::ABSOLUTE, |(_, header)| {
        SectionIndex::of_header(*header)
    })
}

/// Writes the symbols that no object defines.
pub fn write_others(
    layout: &SymtabLayout,
    chooser: &Chooser,
    places: &Places,
    values: &[SymbolValue],
    slots: SymbolSlots,
) {
    let SymbolSlots {
        locals,
        globals,
        names,
        names_offset,
    } = slots;
    let mut at = 0usize;
    for (slot, id) in locals.iter_mut().chain(globals).zip(&layout.others) {
        let name = chooser.symbols.name(*id);
        names[at..at + name.len()].copy_from_slice(name);
        names[at + name.len()] = 0;
        let (symbol, _) = external_symbol(places, values, *id);
        *slot = Sym {
            st_name: (names_offset + at as u64) as u32,
            ..symbol
        };
        at += name.len() + 1;
    }
}

/// The output's symbol for a name that no object defines, without its name, and its section.
pub fn external_symbol(
    places: &Places,
    values: &[SymbolValue],
    id: SymbolId,
) -> (Sym, SectionIndex) {
    let mut section = SectionIndex::UNDEFINED;
    let key = places.symbols.key(id);
    let bits = places.symbols.facts(id);
    let mut sym = Sym {
        st_name: 0,
        st_info: c::STB_GLOBAL << 4,
        st_other: 0,
        st_shndx: c::SHN_UNDEF,
        st_value: 0,
        st_size: 0,
    };
    match key.rank() {
        rank::SHARED => {
            let theirs = places
                .files
                .get(key.file())
                .shared()
                .and_then(|shared| shared.syms.get(key.index() as usize));
            if let Some(theirs) = theirs {
                let kind = if theirs.kind() == c::STT_GNU_IFUNC {
                    c::STT_FUNC
                } else {
                    theirs.kind()
                };
                sym.st_info = (c::STB_GLOBAL << 4) | kind;
                if bits.has(Demand::COPY) {
                    let copy = places.got.copy_of(id);
                    let part = copy.map_or(subpart::COPIES, |(part, _)| part);
                    section = header_of_part(places.outputs, part);
                    sym.st_size = theirs.st_size;
                    sym.st_value = values[id.index()].address;
                    // `environ` of libc is as weak in the copy.
                    if theirs.binding() == c::STB_WEAK {
                        sym.st_info = (c::STB_WEAK << 4) | kind;
                    }
                } else if bits.has(Demand::CANONICAL_PLT) {
                    // Undefined with a value: the address that everyone shall take.
                    sym.st_value = values[id.index()].address;
                }
            }
            if !bits.has(Referred::STRONGLY)
                && bits.has(Referred::BY_OBJECT)
                && section == SectionIndex::UNDEFINED
            {
                sym.st_info = (c::STB_WEAK << 4) | (sym.st_info & 15);
            }
        }
        rank::LINKER => {
            sym.st_value = values[id.index()].address;
            section = SectionIndex::ABSOLUTE;
            if bits.has(Defined::TLS) {
                let start = places.segments.tls.map_or(0, |tls| tls.start);
                sym.st_info |= c::STT_TLS;
                sym.st_value = sym.st_value.wrapping_sub(start);
            } else if bits.has(Defined::FUNCTION) {
                sym.st_info |= c::STT_FUNC;
            } else if is_alias_of_data(places, key) {
                sym.st_info |= c::STT_OBJECT;
            }
            let assigned = places.assigned_output(key);
            let assigned = assigned.map(|output| places.outputs.sections[output.index()].header);
            if let Some(header) = assigned.filter(|header| *header != 0) {
                section = SectionIndex::of_header(header);
            } else if !bits.has(Defined::ABSOLUTE) {
                let at = values[id.index()].address;
                let inside = |s: &&OutputSection| s.address <= at && at <= s.address + s.size;
                // Thread-local data without bytes has no addresses of its own.
                let stands = |s: &&OutputSection| s.header != 0 && s.is_alloc() && !s.is_tbss();
                let sections = || places.outputs.sections.iter().filter(stands);
                // Between two sections: behind the first.
                let before = || {
                    let before = sections().filter(|s| s.address <= at);
                    before.max_by_key(|s| s.address)
                };
                // A start is a start, be it where another section ends.
                let starts = |s: &&OutputSection| s.address == at && s.size > 0;
                let meaning = places.linker_symbols.get(key.index() as usize);
                let meaning = meaning.map(|(_, meaning)| meaning);
                // The bounds of a section are in it, and those of one that is not there where it would begin.
                let bounded = match meaning {
                    Some(Meaning::Start(id) | Meaning::Stop(id)) => Some(*id),
                    Some(Meaning::StartOfBss) => Some(Std::Bss.id()),
                    _ => places.assigned_output(key),
                };
                let bounded = bounded.map(|id| &places.outputs.sections[id.index()]);
                let is_start = match bounded {
                    Some(bounded) => bounded.header == 0,
                    None => meaning == Some(&Meaning::GotBase),
                };
                let start = sections().find(starts).filter(|_| is_start);
                section = bounded
                    .filter(|bounded| stands(bounded))
                    .or(start)
                    .or_else(|| sections().find(inside))
                    .or_else(before)
                    .map_or(SectionIndex::ABSOLUTE, |s| {
                        SectionIndex::of_header(s.header)
                    });
            }
            if is_local(places.symbols, id) {
                sym.st_info &= 15;
            }
            if bits.has(Referred::INTERNAL) {
                sym.st_other = c::STV_INTERNAL;
            } else if bits.has(Referred::HIDDEN) {
                sym.st_other = c::STV_HIDDEN;
            } else if bits.has(Referred::PROTECTED) {
                sym.st_other = c::STV_PROTECTED;
            }
        }
        _ => {
            if bits.has(Bound::UNDEFINED_WEAK) && !bits.has(Referred::STRONGLY) {
                sym.st_info = c::STB_WEAK << 4;
            }
            // Nobody has said what it is but those who ask for it.
            if bits.has(Demand::TLSGD | Demand::TPOFF | Demand::TLSDESC) {
                sym.st_info |= c::STT_TLS;
            }
        }
    }
    sym.st_shndx = section.st_shndx();
    (sym, section)
}

/// Whether a script makes the symbol of this key another name of a variable.
fn is_alias_of_data(places: &Places, key: Key) -> bool {
    let Some(alias) = places.assigned(key).and_then(|assigned| assigned.alias) else {
        return false;
    };
    let key = places.symbols.key(alias);
    let kind = places.files.definer(key).and_then(|file| match &file.body {
        Body::Object(object) => object.symbol(key.index()).map(|symbol| symbol.kind()),
        Body::Shared(shared) => shared.syms.get(key.index() as usize).map(|sym| sym.kind()),
        Body::Linker(_) => None,
    });
    key.rank() == rank::COMMON || matches!(kind, Some(c::STT_OBJECT | c::STT_COMMON))
}

/// The symbol of an exported definition in an object, without its name.
pub fn defined_symbol(places: &Places, values: &[SymbolValue], id: SymbolId) -> Option<Sym> {
    let key = places.symbols.key(id);
    let object: &Object = places.files.definer(key)?.object()?;
    let symbol = object.symbol(key.index())?;
    let bits = places.symbols.facts(id);
    let section = places.definitions.section(id);
    let mut kind = symbol.kind();
    let mut value = values[id.index()].address;
    let mut binding = symbol.binding();
    let index = match symbol.place {
        Place::Section(_) => header_of(places, section),
        Place::Common => header_of_part(places.outputs, places.common_part(id)),
        _ => SectionIndex::ABSOLUTE,
    };
    if kind == c::STT_GNU_IFUNC && bits.has(Demand::CANONICAL_PLT) {
        // Others take the PLT entry for the function's address.
        kind = c::STT_FUNC;
    }
    if kind == c::STT_COMMON {
        kind = c::STT_OBJECT;
    }
    if bits.has(Defined::TLS) {
        value = value.wrapping_sub(places.segments.tls.map_or(0, |tls| tls.start));
    }
    if binding == c::STB_LOCAL {
        binding = c::STB_GLOBAL;
    }
    let visibility = if bits.has(Referred::PROTECTED) {
        c::STV_PROTECTED
    } else {
        c::STV_DEFAULT
    };
    Some(Sym {
        st_name: 0,
        st_info: (binding << 4) | kind,
        st_other: visibility,
        st_shndx: index.st_shndx(),
        st_value: value,
        st_size: size_of(places, key.file(), object, key.index(), symbol),
    })
}
