//! The contents of sections that the linker makes: headers, tables for the dynamic
//! linker, GOT, PLT, notes.

use crate::args::{Args, OutputKind};
use crate::base::ids::{OutputId, SymbolId};
use crate::base::key::rank;
use crate::elf::build_id;
use crate::elf::hash_tables;
use crate::elf::string_table::StringTable;
use crate::elf::version_tables;
use crate::elf::x86_64::plt;
use crate::elf::x86_64::reloc;
use crate::elf::{Ehdr, Rela, Shdr, Sym, c, shf};
use crate::graph::relocation_action::Mode;
use crate::graph::sframe::Sframe;
use crate::layout::address_map::{Places, SymbolValue};
use crate::layout::dynamic::{Dynamic, DynamicSymbol};
use crate::layout::got::{Entry, NONE, Owner, SlotRelocation, slot_relocation};
use crate::layout::relr;
use crate::layout::section_index::TableFields;
use crate::layout::symtab::{self, SymtabLayout, defined_symbol, external_symbol};
use crate::messages::diag::Diagnostics;
use crate::output::relocate::DynamicSlots;
use crate::resolve::output_sections::Std;
use crate::resolve::room::{NOP, Room};
use crate::resolve::symbol_facts::{Bound, Defined, Demand};

/// Standard sections that are made here (as opposed to pieced together by the writer).
const MADE: &[Std] = &[
    Std::Interp,
    Std::NoteProperty,
    Std::NoteBuildId,
    Std::NotePackage,
    Std::Hash,
    Std::GnuHash,
    Std::DynSym,
    Std::DynStr,
    Std::VerSym,
    Std::VerDef,
    Std::VerNeed,
    Std::RelrDyn,
    Std::RelaPlt,
    Std::Plt,
    Std::PltGot,
    Std::PltSec,
    Std::EhFrameHdr,
    Std::Sframe,
    Std::Dynamic,
    Std::Got,
    Std::GotPlt,
    Std::ShStrtab,
];

/// What the linker makes.
pub struct Made<'l, 'a> {
    /// Addresses.
    pub places: &'l Places<'l, 'a>,
    /// Address of each global symbol.
    pub values: &'l [SymbolValue],
    /// The output's kind.
    pub mode: Mode,
    /// Options.
    pub args: &'l Args,
    /// The dynamic symbols, if the output has any.
    pub dynamic: Option<&'l Dynamic<'a>>,
    /// Entries of `.dynamic`.
    pub dynamic_entries: Vec<(u32, u64)>,
    /// The run-time linker's path, NUL-terminated.
    pub interpreter: &'l [u8],
    /// `.note.gnu.property`.
    pub properties: &'l [u8],
    /// `.note.package`.
    pub package: &'l [u8],
    /// Length of the build id.
    pub build_id_len: Option<usize>,
    /// Names of the output sections.
    pub section_names: StringTable<'l>,
    /// `.sframe`.
    pub sframe: Option<&'l Sframe>,
    /// The words of `.relr.dyn`.
    pub relr_table: &'l [u64],
    /// The symbol table.
    pub symtab: Option<&'l SymtabLayout>,
    /// Address of the entry point.
    pub entry: u64,
    /// Sizes that were reserved, by output section.
    pub sizes: Vec<u64>,
    /// The run path and its like, joined, each with its NUL: they come last in `.dynstr`.
    pub joined_strings: &'l [u8],
    /// For messages.
    pub diag: &'l Diagnostics,
}

/// A relative relocation that nobody needs, of a word that nobody reads.
pub fn spare_relocation(place: u64) -> Rela {
    Rela::new(place, reloc::R_X86_64_RELATIVE, 0, 0)
}

impl<'a> Made<'_, 'a> {
    /// The sections that are in the output and are made here.
    pub fn sections(&self) -> impl Iterator<Item = OutputId> + '_ {
        MADE.iter()
            .map(|std| std.id())
            .filter(|id| self.size(*id) > 0)
    }

    /// Bytes that are made for a section. (Input sections of the same name may follow.)
    pub fn size(&self, id: OutputId) -> u64 {
        self.sizes[id.index()]
    }

    /// Writes a section.
    pub fn write(&self, id: OutputId, out: &mut [u8]) {
        let is = |std: Std| id == std.id();
        match () {
            () if is(Std::Interp) => copy(out, self.interpreter),
            () if is(Std::NoteProperty) => copy(out, self.properties),
            () if is(Std::NotePackage) => copy(out, self.package),
            () if is(Std::NoteBuildId) => {
                out.fill(0);
                copy_start(out, &build_id::note_header(self.build_id_len.unwrap_or(0)));
            }
            () if is(Std::ShStrtab) => copy(out, self.section_names.bytes()),
            () if is(Std::Dynamic) => self.write_dynamic(out),
            () if is(Std::Got) => self.write_slots(out),
            () if is(Std::GotPlt) => self.write_got_plt(out),
            () if is(Std::Plt) => self.checked("PLT", self.write_plt(out)),
            () if is(Std::PltSec) => self.checked("PLT", self.write_plt_sec(out)),
            () if is(Std::PltGot) => self.checked("PLT", self.write_direct(out)),
            () if is(Std::RelaPlt) => self.write_rela_plt(out),
            () if is(Std::Sframe) => {
                let address = self.places.outputs.std(Std::Sframe).address;
                if let Some(sframe) = self.sframe {
                    let address_of = |section, offset| self.places.in_section(section, offset);
                    sframe.write(self.places.files, address_of, address, out, self.diag);
                }
            }
            () if is(Std::RelrDyn) => copy(out, bytemuck::cast_slice(self.relr_table)),
            () => {
                if let Some(dynamic) = self.dynamic {
                    self.write_symbols(dynamic, id, out);
                }
            }
        }
    }

    fn checked(&self, what: &str, result: Result<(), reloc::ApplyError>) {
        if let Err(why) = result {
            self.diag.error(format!("{what}: {why}"));
        }
    }

    fn write_symbols(&self, dynamic: &Dynamic<'a>, id: OutputId, out: &mut [u8]) {
        let is = |std: Std| id == std.id();
        if is(Std::DynStr) {
            let strings = dynamic.strings.bytes();
            let (head, tail) = out.split_at_mut(strings.len());
            head.copy_from_slice(strings);
            let (joined, spare) = tail.split_at_mut(self.joined_strings.len());
            joined.copy_from_slice(self.joined_strings);
            spare.fill(0);
        } else if is(Std::DynSym) {
            let syms: &mut [Sym] = bytemuck::cast_slice_mut(out);
            syms[0] = bytemuck::Zeroable::zeroed();
            for (slot, symbol) in syms[1..].iter_mut().zip(dynamic.all_symbols()) {
                *slot = match symbol {
                    Some(symbol) => Sym {
                        st_name: dynamic.strings.get(symbol.name).unwrap_or(0),
                        ..self.dynamic_symbol(symbol.id)
                    },
                    // Nobody is called so.
                    None => Sym {
                        st_info: c::STB_WEAK << 4,
                        ..bytemuck::Zeroable::zeroed()
                    },
                };
            }
        } else if is(Std::GnuHash) {
            if let Some(shape) = &dynamic.gnu_hash {
                shape.write(out, dynamic.first_defined(), &dynamic.hashes);
            }
        } else if is(Std::Hash) {
            let hash = |symbol: Option<&DynamicSymbol>| {
                hash_tables::sysv_hash(symbol.map_or(b"", |symbol| symbol.name))
            };
            let hashes: Vec<u32> = dynamic.all_symbols().map(hash).collect();
            hash_tables::write_sysv(out, &hashes);
        } else if is(Std::VerSym) {
            copy_start(out, &[0, 0]);
            for (slot, symbol) in out[2..].chunks_exact_mut(2).zip(dynamic.all_symbols()) {
                let version = symbol.map_or(version_tables::LOCAL, |symbol| symbol.version);
                slot.copy_from_slice(&version.to_le_bytes());
            }
        } else if is(Std::VerDef) {
            let dynstr = |name: &[u8]| dynamic.strings.get(name).unwrap_or(0);
            copy(
                out,
                &version_tables::write_definitions(&dynamic.definitions, dynstr),
            );
        } else if is(Std::VerNeed) {
            copy(
                out,
                &version_tables::write_needs(&dynamic.needs, |name| {
                    dynamic.strings.get(name).unwrap_or(0)
                }),
            );
        }
    }

    fn dynamic_symbol(&self, id: SymbolId) -> Sym {
        let key = self.places.symbols.key(id);
        if key.in_object()
            && let Some(sym) = defined_symbol(self.places, self.values, id)
        {
            return sym;
        }
        debug_assert!(!matches!(
            key.rank(),
            rank::STRONG | rank::WEAK | rank::COMMON
        ));
        external_symbol(self.places, self.values, id).0
    }

    fn write_dynamic(&self, out: &mut [u8]) {
        for (slot, (tag, value)) in out.chunks_exact_mut(16).zip(&self.dynamic_entries) {
            slot[..8].copy_from_slice(&u64::from(*tag).to_le_bytes());
            slot[8..].copy_from_slice(&value.to_le_bytes());
        }
    }

    fn tpoff(&self, address: u64) -> u64 {
        address.wrapping_sub(self.places.segments.tls.map_or(0, |tls| tls.thread_pointer))
    }

    fn dtpoff(&self, address: u64) -> u64 {
        address.wrapping_sub(self.places.segments.tls.map_or(0, |tls| tls.start))
    }

    /// The address that a GOT slot holds before relocation.
    fn slot_value(&self, slots: &Entry) -> u64 {
        match slots.owner {
            _ if slots.facts.has(Bound::IMPORTED) => 0,
            Owner::Global(id) if slots.facts.has(Demand::CANONICAL_PLT) => {
                self.values[id.index()].address
            }
            Owner::Local(..) if slots.facts.has(Demand::CANONICAL_PLT) => {
                self.places.plt_entry(slots).unwrap_or(0)
            }
            owner => self.places.owner(owner),
        }
    }

    /// Writes the words of `.got`.
    fn write_slots(&self, out: &mut [u8]) {
        out.fill(0);
        let mut put = |slot: u32, value: u64| {
            let at = 8 * slot as usize;
            out[at..at + 8].copy_from_slice(&value.to_le_bytes());
        };
        let got = self.places.got;
        for slots in &got.entries {
            let imported = slots.facts.has(Bound::IMPORTED);
            let address = || self.places.owner(slots.owner);
            if slots.got != NONE {
                put(slots.got, self.slot_value(slots));
            }
            if slots.jump != NONE && slots.jump != slots.got {
                put(slots.jump, address());
            }
            if slots.tpoff != NONE && !imported && !self.mode.shared {
                put(slots.tpoff, self.tpoff(address()));
            }
            if slots.tls_pair != NONE && !imported {
                if !self.mode.shared {
                    // The executable is module 1.
                    put(slots.tls_pair, 1);
                }
                put(slots.tls_pair + 1, self.dtpoff(address()));
            }
        }
        if got.module != NONE && !self.mode.shared {
            put(got.module, 1);
        }
    }

    fn index(&self, owner: Owner) -> u32 {
        match (owner, self.dynamic) {
            (Owner::Global(id), Some(dynamic)) => dynamic.index(id),
            _ => 0,
        }
    }

    /// Writes the dynamic relocations of `.got`, and those that copy variables.
    pub fn write_got(&self, slots: DynamicSlots) {
        let DynamicSlots {
            relative,
            symbolic,
            irelative,
            ..
        } = slots;
        let (mut relative, mut symbolic, mut irelative) = (
            relative.iter_mut(),
            symbolic.iter_mut(),
            irelative.iter_mut(),
        );
        let got = self.places.got;
        if got.spare.relocations > 0 {
            // They are the last ones.
            let spare = spare_relocation(self.places.slot(got.spare.word));
            let count = got.spare.relocations as usize;
            relative
                .by_ref()
                .rev()
                .take(count)
                .for_each(|slot| *slot = spare);
        }
        // The counts were made by the same rules when the slots were handed out.
        fn put<'o>(slots: &mut impl Iterator<Item = &'o mut Rela>, rela: Rela) {
            if let Some(slot) = slots.next() {
                *slot = rela;
            }
        }
        for entry in &got.entries {
            let imported = entry.facts.has(Bound::IMPORTED);
            let symbol = if imported { self.index(entry.owner) } else { 0 };
            let address = || self.places.owner(entry.owner);
            if entry.got != NONE {
                let place = self.places.slot(entry.got);
                match slot_relocation(self.mode, entry.facts) {
                    SlotRelocation::None => {}
                    SlotRelocation::Relative if self.mode.pack => {}
                    SlotRelocation::Relative => {
                        let value = self.slot_value(entry) as i64;
                        put(
                            &mut relative,
                            Rela::new(place, reloc::R_X86_64_RELATIVE, 0, value),
                        );
                    }
                    SlotRelocation::Symbolic => put(
                        &mut symbolic,
                        Rela::new(place, reloc::R_X86_64_GLOB_DAT, symbol, 0),
                    ),
                    SlotRelocation::Irelative => {
                        put(
                            &mut irelative,
                            Rela::new(place, reloc::R_X86_64_IRELATIVE, 0, address() as i64),
                        );
                    }
                }
            }
            if entry.jump != NONE && entry.jump != entry.got {
                let place = self.places.slot(entry.jump);
                put(
                    &mut irelative,
                    Rela::new(place, reloc::R_X86_64_IRELATIVE, 0, address() as i64),
                );
            }
            if entry.tpoff != NONE && (imported || self.mode.shared) {
                let addend = if imported { 0 } else { self.dtpoff(address()) };
                let place = self.places.slot(entry.tpoff);
                put(
                    &mut symbolic,
                    Rela::new(place, reloc::R_X86_64_TPOFF64, symbol, addend as i64),
                );
            }
            if entry.tls_pair != NONE && (imported || self.mode.shared) {
                let place = self.places.slot(entry.tls_pair);
                put(
                    &mut symbolic,
                    Rela::new(place, reloc::R_X86_64_DTPMOD64, symbol, 0),
                );
                if imported {
                    put(
                        &mut symbolic,
                        Rela::new(place + 8, reloc::R_X86_64_DTPOFF64, symbol, 0),
                    );
                }
            }
            if entry.descriptor != NONE {
                let addend = if imported { 0 } else { self.dtpoff(address()) };
                let place = self.places.slot(entry.descriptor);
                put(
                    &mut symbolic,
                    Rela::new(place, reloc::R_X86_64_TLSDESC, symbol, addend as i64),
                );
            }
        }
        if got.module != NONE && self.mode.shared {
            put(
                &mut symbolic,
                Rela::new(self.places.slot(got.module), reloc::R_X86_64_DTPMOD64, 0, 0),
            );
        }
        for copied in got.copies.iter().filter(|copied| copied.first) {
            let index = self.index(Owner::Global(copied.symbol));
            let place = self.values[copied.symbol.index()].address;
            put(
                &mut symbolic,
                Rela::new(place, reloc::R_X86_64_COPY, index, 0),
            );
        }
        for _ in 0..got.spare.symbolic {
            put(&mut symbolic, Rela::new(0, reloc::R_X86_64_NONE, 0, 0));
        }
        // Those of symbols that are not imported yet ask for nobody's address.
        if let Some(dynamic) = self.dynamic {
            let first = dynamic.first_defined() - dynamic.spare_symbols;
            for n in 0..got.spare.imports {
                let place = self.places.slot(got.spare.import_words + n);
                let rela = Rela::new(place, reloc::R_X86_64_GLOB_DAT, first + n, 0);
                put(&mut symbolic, rela);
            }
        }
    }

    fn lazy_slot(&self, n: usize) -> u64 {
        self.places.outputs.std(Std::GotPlt).address + 8 * (plt::GOT_PLT_RESERVED + n) as u64
    }

    fn lazy_entry(&self, n: usize) -> u64 {
        self.places.outputs.std(Std::Plt).address + (plt::HEADER_SIZE + n * plt::LAZY_SIZE) as u64
    }

    /// Address of an entry of `.plt.sec`.
    fn plt_sec_entry(&self, n: usize) -> u64 {
        self.places.outputs.std(Std::PltSec).address + (n * plt::SECOND_SIZE) as u64
    }

    fn write_got_plt(&self, out: &mut [u8]) {
        out.fill(0);
        let dynamic = self.places.outputs.std(Std::Dynamic);
        let start = if dynamic.size > 0 { dynamic.address } else { 0 };
        copy_start(out, &start.to_le_bytes());
        let slots = out.chunks_exact_mut(8).skip(plt::GOT_PLT_RESERVED);
        for (n, slot) in slots.enumerate().take(self.places.got.lazy.len()) {
            slot.copy_from_slice(
                &plt::lazy_slot_value(self.lazy_entry(n), self.places.ibt).to_le_bytes(),
            );
        }
    }

    fn write_plt(&self, out: &mut [u8]) -> Result<(), reloc::ApplyError> {
        let (plt_address, got_plt) = (
            self.places.outputs.std(Std::Plt).address,
            self.places.got_base(),
        );
        let (header, entries) = out
            .split_first_chunk_mut()
            .ok_or(reloc::ApplyError::OutsideSection)?;
        plt::write_header(header, plt_address, got_plt)?;
        for n in 0..self.places.got.lazy.len() {
            let entry = entries
                .get_mut(n * plt::LAZY_SIZE..)
                .and_then(|rest| rest.first_chunk_mut());
            let entry = entry.ok_or(reloc::ApplyError::OutsideSection)?;
            match self.places.ibt {
                true => plt::write_lazy_ibt(entry, self.lazy_entry(n), n as u64, plt_address)?,
                false => plt::write_lazy(
                    entry,
                    self.lazy_entry(n),
                    self.lazy_slot(n),
                    n as u64,
                    plt_address,
                )?,
            }
        }
        Ok(())
    }

    fn write_plt_sec(&self, out: &mut [u8]) -> Result<(), reloc::ApplyError> {
        for (n, entry) in out.chunks_exact_mut(plt::SECOND_SIZE).enumerate() {
            let entry = entry
                .first_chunk_mut()
                .ok_or(reloc::ApplyError::OutsideSection)?;
            plt::write_second(entry, self.plt_sec_entry(n), self.lazy_slot(n))?;
        }
        Ok(())
    }

    fn write_direct(&self, out: &mut [u8]) -> Result<(), reloc::ApplyError> {
        let got = self.places.got;
        let size = crate::layout::got::Got::direct_size(self.places.ibt) as usize;
        out.fill(NOP);
        for (entry, index) in out.chunks_exact_mut(size).zip(&got.direct) {
            let slots = &got.entries[*index as usize];
            let address = self.places.plt_entry(slots).unwrap_or(0);
            let slot = self.places.slot(slots.jump);
            match self.places.ibt {
                true => plt::write_direct_ibt(
                    entry
                        .first_chunk_mut()
                        .ok_or(reloc::ApplyError::OutsideSection)?,
                    address,
                    slot,
                )?,
                false => plt::write_direct(
                    entry
                        .first_chunk_mut()
                        .ok_or(reloc::ApplyError::OutsideSection)?,
                    address,
                    slot,
                )?,
            }
        }
        Ok(())
    }

    fn write_rela_plt(&self, out: &mut [u8]) {
        let got = self.places.got;
        let relas: &mut [Rela] = bytemuck::cast_slice_mut(out);
        for (n, (slot, index)) in relas.iter_mut().zip(&got.lazy).enumerate() {
            let symbol = self.index(got.entries[*index as usize].owner);
            // Where the entry's jump is that the dynamic linker may make a direct one.
            let jump = match self.args.z.mark_plt {
                true if self.places.ibt => self.plt_sec_entry(n) + plt::ENDBR64_SIZE as u64,
                true => self.lazy_entry(n),
                false => 0,
            };
            *slot = Rela::new(
                self.lazy_slot(n),
                reloc::R_X86_64_JUMP_SLOT,
                symbol,
                jump as i64,
            );
        }
    }

    /// Writes the ELF header and the program headers.
    pub fn write_headers(&self, out: &mut [u8]) {
        let segments = self.places.segments;
        let table = self.table_fields();
        let mut ident = [0; 16];
        ident[..4].copy_from_slice(&c::ELFMAG);
        ident[4..8].copy_from_slice(&[c::ELFCLASS64, c::ELFDATA2LSB, c::EV_CURRENT, self.os_abi()]);
        let mut ehdr = Ehdr {
            e_ident: ident,
            e_type: if self.args.kind.is_pic() {
                c::ET_DYN
            } else {
                c::ET_EXEC
            },
            e_machine: c::EM_X86_64,
            e_version: 1,
            e_entry: self.entry,
            e_phoff: size_of::<Ehdr>() as u64,
            e_shoff: segments.shoff,
            e_flags: 0,
            e_ehsize: size_of::<Ehdr>() as u16,
            e_phentsize: 56,
            e_phnum: segments.phdrs.len() as u16,
            e_shentsize: size_of::<Shdr>() as u16,
            e_shnum: table.e_shnum,
            e_shstrndx: table.e_shstrndx,
        };
        if !self.args.z.section_header {
            (
                ehdr.e_shoff,
                ehdr.e_shentsize,
                ehdr.e_shnum,
                ehdr.e_shstrndx,
            ) = (0, 0, 0, 0);
        }
        copy_start(out, bytemuck::bytes_of(&ehdr));
        copy_start(
            &mut out[size_of::<Ehdr>()..],
            bytemuck::cast_slice(&segments.phdrs),
        );
    }

    /// `ELFOSABI_GNU` if some symbol is of a kind that only GNU systems know: indirect functions, unique symbols.
    fn os_abi(&self) -> u8 {
        let entries = &self.places.got.entries;
        let is_gnu = |symbol: &DynamicSymbol| {
            let key = self.places.symbols.key(symbol.id);
            let object = self
                .places
                .files
                .definer(key)
                .and_then(|file| file.object());
            let own = object.and_then(|object| object.symbol(key.index()));
            key.in_object() && own.is_some_and(symtab::is_gnu)
        };
        let special = match self.symtab {
            Some(symtab) => symtab.has_gnu(),
            None => {
                let dynamic = self.dynamic.into_iter();
                dynamic.flat_map(Dynamic::all_symbols).flatten().any(is_gnu)
            }
        };
        match special || entries.iter().any(|slots| slots.facts.has(Defined::IFUNC)) {
            true => c::ELFOSABI_GNU,
            false => 0,
        }
    }

    fn table_fields(&self) -> TableFields {
        let names = self.places.outputs.std(Std::ShStrtab).header;
        TableFields::new(self.places.segments.sections.len() + 1, names)
    }

    /// Writes the section header table.
    pub fn write_section_headers(&self, out: &mut [u8]) {
        let shdrs: &mut [Shdr] = bytemuck::cast_slice_mut(out);
        let outputs = self.places.outputs;
        let table = self.table_fields();
        shdrs[0] = Shdr {
            sh_size: table.sh_size,
            sh_link: table.sh_link,
            ..bytemuck::Zeroable::zeroed()
        };
        let header = |std: Std| outputs.std(std).header;
        let has_room = Room::of(self.args) != Room::NONE;
        for (shdr, id) in shdrs[1..].iter_mut().zip(&self.places.segments.sections) {
            let section = &outputs.sections[id.index()];
            // With a linker script a standard section is a view of the section that its contents are in.
            let is = |std: Std| outputs.std(std).header == section.header;
            let (mut link, mut info, mut entsize, mut flags) =
                (0, 0, section.entsize, header_flags(section.flags));
            match section.sh_type {
                c::SHT_DYNSYM => (link, info, entsize) = (header(Std::DynStr), 1, 24),
                c::SHT_SYMTAB => {
                    (link, info, entsize) = (
                        header(Std::Strtab),
                        self.symtab.map_or(1, |symtab| symtab.local_count),
                        24,
                    );
                }
                c::SHT_SYMTAB_SHNDX => (link, entsize) = (header(Std::Symtab), 4),
                c::SHT_HASH => (link, entsize) = (header(Std::DynSym), 4),
                c::SHT_GNU_HASH => link = header(Std::DynSym),
                c::SHT_GNU_VERSYM => (link, entsize) = (header(Std::DynSym), 2),
                c::SHT_GNU_VERDEF => {
                    let count = |dynamic: &Dynamic| dynamic.definitions.len() as u32;
                    (link, info) = (header(Std::DynStr), self.dynamic.map_or(0, count));
                }
                c::SHT_GNU_VERNEED => {
                    (link, info) = (
                        header(Std::DynStr),
                        self.dynamic.map_or(0, |dynamic| dynamic.needs.len() as u32),
                    );
                }
                c::SHT_DYNAMIC => (link, entsize) = (header(Std::DynStr), 16),
                _ if section.linked.is_some() => {
                    link = section
                        .linked
                        .map_or(0, |id| outputs.sections[id.index()].header);
                }
                c::SHT_RELA if section.relocates.is_some() => {
                    let target = section.relocates.unwrap_or(*id);
                    link = header(Std::Symtab);
                    info = outputs.sections[target.index()].header;
                    flags |= u64::from(c::SHF_INFO_LINK);
                }
                c::SHT_RELA => {
                    entsize = 24;
                    // Where there are no dynamic symbols the table names none; it is about some table all the same.
                    link = match header(Std::DynSym) {
                        0 => header(Std::Symtab),
                        dynsym => dynsym,
                    };
                    if is(Std::RelaPlt) {
                        info = header(Std::GotPlt);
                        flags |= u64::from(c::SHF_INFO_LINK);
                    }
                }
                c::SHT_INIT_ARRAY
                | c::SHT_FINI_ARRAY
                | c::SHT_PREINIT_ARRAY
                | c::SHT_RELR
                | relr::SHT_ANDROID_RELR => entsize = 8,
                _ if is(Std::Got) || is(Std::GotPlt) => entsize = 8,
                _ if is(Std::Plt) || is(Std::PltSec) => entsize = 16,
                _ if is(Std::PltGot) => {
                    entsize = crate::layout::got::Got::direct_size(self.places.ibt)
                }
                _ => {}
            }
            *shdr = Shdr {
                sh_name: self.section_names.get(&section.name).unwrap_or(0),
                sh_type: section.sh_type,
                sh_flags: flags,
                sh_addr: section.address,
                sh_offset: section.offset,
                sh_size: match self.symtab {
                    // What is behind the last symbol is room for more.
                    Some(symtab) if has_room && *id == Std::Symtab.id() => {
                        24 * u64::from(symtab.count)
                    }
                    Some(symtab) if has_room && *id == Std::Strtab.id() => symtab.names,
                    _ => section.size,
                },
                sh_link: link,
                sh_info: info,
                sh_addralign: section.align.max(1),
                sh_entsize: entsize,
            };
        }
    }
}

fn copy(out: &mut [u8], bytes: &[u8]) {
    let (head, tail) = out.split_at_mut(bytes.len().min(out.len()));
    head.copy_from_slice(&bytes[..head.len()]);
    tail.fill(0);
}

fn copy_start(out: &mut [u8], bytes: &[u8]) {
    let len = bytes.len().min(out.len());
    out[..len].copy_from_slice(&bytes[..len]);
}

/// The entry point's address: a symbol, else a number, else the start of the code.
pub fn entry_address(
    args: &Args,
    places: &Places,
    values: &[SymbolValue],
    diag: &Diagnostics,
) -> u64 {
    let name = args.entry_name();
    if let Some(id) = places.symbols.find(name) {
        let key = places.symbols.key(id);
        if key.in_object() || key.rank() == rank::LINKER {
            return values[id.index()].address;
        }
    }
    if let Some(address) = args.entry.as_ref().and_then(|entry| entry.address()) {
        return address;
    }
    let shown = String::from_utf8_lossy(name);
    let text = places.outputs.std(Std::Text);
    // A shared object need not have a start, and where there is no code there is none.
    if args.kind == OutputKind::Shared || text.size == 0 {
        if args.kind != OutputKind::Shared || args.entry_is_asked {
            diag.warn(format!(
                "cannot find entry symbol {shown}; not setting start address"
            ));
        }
        return 0;
    }
    let text = text.address;
    diag.warn(format!(
        "cannot find entry symbol {shown}; defaulting to {text:#018x}"
    ));
    text
}

/// Flags in `sh_flags` of an output section that come from what is in it.
fn header_flags(flags: u64) -> u64 {
    flags & (shf::LOADING | shf::REMARKS | shf::MERGE | shf::STRINGS | shf::INFO_LINK)
}
