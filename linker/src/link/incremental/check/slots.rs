//! GOT, PLT, and the relocations that have them filled in.

use super::{Output, demand};
use crate::args::TextRel;
use crate::elf::x86_64::{plt, reloc};
use crate::elf::{Rela, Sym, c, shf};
use crate::layout::got::{Got, NONE, Slots};
use crate::link::incremental::reason::Reason;
use crate::link::incremental::state::{List, NameRecord, Table, fact};
use crate::resolve::output_sections::Std;
use crate::resolve::symbol_facts::{Bound, Defined, Demand};
use rustc_hash::FxHashMap;

pub(super) fn check(output: &Output) -> Result<(), Reason> {
    let symbols: &[Sym] = output.table(Std::DynSym)?;
    let dynamic: &[Rela] = output.table(Std::RelaDyn)?;
    for rela in dynamic {
        relocation(output, symbols, rela)?;
    }
    let behind_lazy = lazy(output, symbols)?;
    let mut at: FxHashMap<u64, &Rela> = FxHashMap::default();
    for rela in dynamic.iter().chain(behind_lazy) {
        at.insert(rela.r_offset, rela);
    }
    let all: &[Slots] = output.state.table(Table::Slots);
    let names: &[NameRecord] = output.state.table(Table::Names);
    let added = output.state.list::<NameRecord>(List::Names);
    let added = added.iter().map(|(_, record)| record);
    for record in names.iter().chain(added) {
        if let Some(slots) = all.get(record.slots as usize) {
            let of_name = OfName {
                output,
                at: &at,
                record,
                slots,
            };
            of_name.check()?;
        }
    }
    Ok(())
}

/// A relocation is about something that is there.
fn relocation(output: &Output, symbols: &[Sym], rela: &Rela) -> Result<(), Reason> {
    let (place, kind) = (rela.r_offset, rela.r_type());
    if kind == reloc::R_X86_64_NONE {
        return Ok(());
    }
    let mut sections = output.sections.iter();
    let section = sections.find(|section| {
        let is_tbss = section.flags & shf::TLS != 0 && section.sh_type == c::SHT_NOBITS;
        section.flags & shf::ALLOC != 0
            && !is_tbss
            && (section.address..section.address + section.size).contains(&place)
    });
    let section =
        section.ok_or_else(|| format!("a relocation is about {place:#x}, where nothing is"))?;
    let may_be_read_only = output.args.z.text != TextRel::Error;
    demand(section.flags & shf::WRITE != 0 || may_be_read_only, || {
        format!("a relocation is about {place:#x}, which is read-only")
    })?;
    let symbol = rela.symbol();
    demand(symbol == 0 || (symbol as usize) < symbols.len(), || {
        format!("the relocation of {place:#x} names no symbol")
    })?;
    if kind == reloc::R_X86_64_COPY {
        let value = symbols.get(symbol as usize).map(|symbol| symbol.st_value);
        demand(value == Some(place), || {
            format!("what is copied to {place:#x} has another address")
        })?;
    }
    Ok(())
}

/// The PLT through which functions are bound when they are called first. Gives the relocations of indirect functions that stand behind its own.
fn lazy<'o>(output: &'o Output, symbols: &[Sym]) -> Result<&'o [Rela], Reason> {
    let relocations: &[Rela] = output.table(Std::RelaPlt)?;
    let is_irelative = |rela: &Rela| rela.r_type() == reloc::R_X86_64_IRELATIVE;
    let own = relocations.iter().position(is_irelative);
    let (relocations, behind) = relocations.split_at(own.unwrap_or(relocations.len()));
    for rela in behind {
        demand(is_irelative(rela), || {
            "there is a lazy PLT entry behind indirect functions".into()
        })?;
        relocation(output, symbols, rela)?;
    }
    let is_ibt = output.state.header().facts.bits & fact::IBT != 0;
    let [entries, second, words] =
        [Std::Plt, Std::PltSec, Std::GotPlt].map(|std| output.contents(std));
    let (entries, second, words) = (entries?, second?, words?);
    let [base, second_base, got] =
        [Std::Plt, Std::PltSec, Std::GotPlt].map(|std| output.extent(std).0);
    for (n, rela) in relocations.iter().enumerate() {
        let bad = || Reason::from(format!("lazy PLT entry {n} is not as it must be"));
        let slot = got + 8 * (plt::GOT_PLT_RESERVED + n) as u64;
        let place = plt::HEADER_SIZE + n * plt::LAZY_SIZE;
        let entry = base + place as u64;
        let mut lazy = [0; plt::LAZY_SIZE];
        let written = match is_ibt {
            true => plt::write_lazy_ibt(&mut lazy, entry, n as u64, base),
            false => plt::write_lazy(&mut lazy, entry, slot, n as u64, base),
        };
        written.map_err(|_| bad())?;
        let mut is_good = rela.r_type() == reloc::R_X86_64_JUMP_SLOT
            && { rela.r_offset } == slot
            && entries.get(place..).is_some_and(|it| it.starts_with(&lazy));
        let start = plt::lazy_slot_value(entry, is_ibt).to_le_bytes();
        let word = 8 * (plt::GOT_PLT_RESERVED + n);
        is_good &= words.get(word..).is_some_and(|it| it.starts_with(&start));
        if is_ibt {
            let place = n * plt::SECOND_SIZE;
            let mut entry = [0; plt::SECOND_SIZE];
            plt::write_second(&mut entry, second_base + place as u64, slot).map_err(|_| bad())?;
            is_good &= second.get(place..).is_some_and(|it| it.starts_with(&entry));
        }
        let symbol = symbols.get(rela.symbol() as usize);
        is_good &= rela.symbol() != 0 && symbol.is_some();
        demand(is_good, || bad().into_owned())?;
    }
    Ok(behind)
}

/// The slots of one name.
struct OfName<'n> {
    output: &'n Output<'n>,
    /// Relocations by place.
    at: &'n FxHashMap<u64, &'n Rela>,
    record: &'n NameRecord,
    slots: &'n Slots,
}

impl OfName<'_> {
    fn bad(&self, what: &str) -> String {
        let dynamic = self.record.dynamic as usize;
        let symbols: &[Sym] = self.output.table(Std::DynSym).unwrap_or(&[]);
        let name = symbols.get(dynamic).map_or(0, |symbol| symbol.st_name);
        let name = self.output.dynamic_string(name.into()).unwrap_or(b"");
        let (name, address) = (String::from_utf8_lossy(name), self.record.address);
        format!("{what} of {name} (symbol {dynamic}, {address:#x}) is another")
    }

    fn check(&self) -> Result<(), Reason> {
        let known = self.record.facts;
        let facts = &self.output.state.header().facts;
        let is_imported = known.has(Bound::IMPORTED);
        let is_shared = facts.bits & fact::SHARED != 0;
        let slots = self.slots;
        if slots.got != NONE && !known.has(Defined::IFUNC | Demand::CANONICAL_PLT) {
            self.address(slots.got)?;
        }
        let of_threads = [
            (slots.tpoff, reloc::R_X86_64_TPOFF64, is_shared),
            (slots.tls_pair, reloc::R_X86_64_DTPMOD64, is_shared),
            (slots.descriptor, reloc::R_X86_64_TLSDESC, true),
        ];
        for (word, r_type, always) in of_threads {
            if word != NONE && (is_imported || always) {
                self.relocated(word, r_type)?;
            }
        }
        if slots.tls_pair != NONE && is_imported {
            self.relocated(slots.tls_pair + 1, reloc::R_X86_64_DTPOFF64)?;
        }
        if slots.tpoff != NONE && !is_imported && !is_shared {
            let value = self.record.address.wrapping_sub(facts.thread_pointer);
            demand(self.word(slots.tpoff) == Some(value), || {
                self.bad("the offset from the thread pointer")
            })?;
        }
        if slots.direct != NONE {
            self.direct()?;
        }
        Ok(())
    }

    fn place(&self, word: u32) -> u64 {
        self.output.extent(Std::Got).0 + 8 * u64::from(word)
    }

    fn word(&self, word: u32) -> Option<u64> {
        let bytes = self.output.contents(Std::Got).ok()?;
        let bytes = bytes.get(8 * word as usize..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    }

    /// A slot that the dynamic linker fills in with what belongs to the name.
    fn relocated(&self, word: u32, r_type: u32) -> Result<(), Reason> {
        let rela = self.at.get(&self.place(word));
        let is_good = rela.is_some_and(|rela| {
            let is_imported = self.record.facts.has(Bound::IMPORTED);
            rela.r_type() == r_type && (!is_imported || rela.symbol() == self.record.dynamic)
        });
        demand(is_good, || {
            self.bad(&format!("the relocation of slot {word}"))
        })
    }

    /// The slot with the address.
    fn address(&self, word: u32) -> Result<(), Reason> {
        let facts = self.record.facts;
        if facts.has(Bound::IMPORTED) {
            return self.relocated(word, reloc::R_X86_64_GLOB_DAT);
        }
        // Nobody has anything there any more.
        if self.record.is_placed == 0 {
            return Ok(());
        }
        let address = self.record.address;
        demand(self.word(word) == Some(address), || self.bad("the slot"))?;
        let is_pic = self.output.state.header().facts.bits & fact::PIC != 0;
        if is_pic && !facts.has(Defined::ABSOLUTE | Bound::UNDEFINED_WEAK) {
            let rela = self.at.get(&self.place(word));
            let is_good = rela.is_some_and(|rela| {
                rela.r_type() == reloc::R_X86_64_RELATIVE && { rela.r_addend } as u64 == address
            });
            demand(is_good, || self.bad("the relocation of the slot"))?;
        }
        Ok(())
    }

    /// The PLT entry that jumps through a slot of `.got`.
    fn direct(&self) -> Result<(), Reason> {
        let is_ibt = self.output.state.header().facts.bits & fact::IBT != 0;
        let size = Got::direct_size(is_ibt);
        let at = u64::from(self.slots.direct) * size;
        let address = self.output.extent(Std::PltGot).0 + at;
        let slot = self.place(self.slots.jump);
        let (mut short, mut long) = ([0; plt::DIRECT_SIZE], [0; plt::DIRECT_IBT_SIZE]);
        let written = match is_ibt {
            true => plt::write_direct_ibt(&mut long, address, slot),
            false => plt::write_direct(&mut short, address, slot),
        };
        let expected: &[u8] = if is_ibt { &long } else { &short };
        let there = self.output.contents(Std::PltGot)?.get(at as usize..);
        let is_good = written.is_ok() && there.is_some_and(|it| it.starts_with(expected));
        demand(is_good, || self.bad("the PLT entry"))?;
        match self.record.facts.has(Bound::IMPORTED) {
            false => Ok(()),
            true => self.relocated(self.slots.jump, reloc::R_X86_64_GLOB_DAT),
        }
    }
}
