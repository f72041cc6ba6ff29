//! Symbols: those for debuggers, and those for the dynamic linker.

use super::{Output, demand, string};
use crate::elf::{Shdr, Sym, c, shf};
use crate::link::incremental::reason::Reason;
use crate::link::incremental::state::{List, NONE, NameKey, NameRecord, Table, key_of};
use crate::resolve::output_sections::Std;
use crate::resolve::symbol_facts::{Defined, Demand};
use rustc_hash::FxHashMap;

pub(super) fn check(output: &Output) -> Result<(), Reason> {
    let mut known: FxHashMap<NameKey, NameRecord> = FxHashMap::default();
    let names: &[NameRecord] = output.state.table(Table::Names);
    let added = output.state.list::<NameRecord>(List::Names);
    let added = added.into_iter().map(|(_, record)| record);
    for record in names.iter().copied().chain(added) {
        known.insert(record.key, record);
    }
    dynamic(output, &known)?;
    table(output, &known)
}

/// The dynamic linker finds each name where it is, and what it is to find has its place.
fn dynamic(output: &Output, known: &FxHashMap<NameKey, NameRecord>) -> Result<(), Reason> {
    let symbols: &[Sym] = output.table(Std::DynSym)?;
    for record in known.values().filter(|record| record.dynamic != 0) {
        let number = record.dynamic;
        let symbol = symbols.get(number as usize);
        let symbol = symbol.ok_or_else(|| format!("there is no symbol {number} in .dynsym"))?;
        let name = output.dynamic_string(symbol.st_name.into())?;
        let show = || String::from_utf8_lossy(name).into_owned();
        demand(!name.is_empty(), || {
            format!("symbol {number} of .dynsym has no name")
        })?;
        // What has a version has that in its name as well.
        if key_of(name) != record.key {
            continue;
        }
        let is_here = record.definer != NONE || record.facts.has(Demand::COPY);
        demand(
            is_here != ({ symbol.st_shndx } == c::SHN_UNDEF) || record.definer == NONE,
            || format!("{} of .dynsym is defined, or is not", show()),
        )?;
        let special = Defined::TLS | Defined::IFUNC | Demand::CANONICAL_PLT;
        let is_plain = !record.facts.has(special) && record.is_placed != 0;
        demand(
            !is_here || !is_plain || { symbol.st_value } == record.address,
            || format!("{} of .dynsym has another address", show()),
        )?;
    }
    Ok(())
}

/// Local symbols come first; each is in its section; and names mean what they mean.
fn table(output: &Output, known: &FxHashMap<NameKey, NameRecord>) -> Result<(), Reason> {
    let facts = &output.state.header().facts;
    let section = output
        .section(Std::Symtab)
        .filter(|section| section.header != 0);
    let Some(section) = section else {
        return Ok(());
    };
    let header = output.range(
        facts.section_headers + 64 * u64::from(section.header),
        size_of::<Shdr>() as u64,
    );
    let header: Shdr = bytemuck::pod_read_unaligned(header.ok_or(".symtab has no header")?);
    let symbols = output.range(section.offset, 24 * facts.symbols);
    let symbols: &[Sym] = symbols
        .and_then(|bytes| bytemuck::try_cast_slice(bytes).ok())
        .ok_or(".symtab is not in the file")?;
    let strings = output.contents(Std::Strtab)?;
    let strings = usize::try_from(facts.strings)
        .ok()
        .and_then(|end| strings.get(..end));
    let strings = strings.ok_or(".strtab is not in the file")?;
    let by_header: FxHashMap<u32, _> = output
        .sections
        .iter()
        .map(|section| (section.header, section))
        .collect();
    for (number, symbol) in (0u32..).zip(symbols) {
        let name = string(strings, symbol.st_name.into());
        let name = name.ok_or_else(|| format!("symbol {number} has no name"))?;
        let show = || format!("symbol {number}, {},", String::from_utf8_lossy(name));
        let is_local = symbol.binding() == c::STB_LOCAL;
        demand(is_local == (number < header.sh_info), || {
            format!("{} is in the wrong half of .symtab", show())
        })?;
        let index = u32::from(symbol.st_shndx);
        if index == c::SHN_UNDEF.into() || index >= c::SHN_LORESERVE.into() {
            continue;
        }
        let section = by_header.get(&index);
        let section = section.ok_or_else(|| format!("{} is in no section", show()))?;
        let is_loaded = section.flags & shf::ALLOC != 0 && symbol.kind() != c::STT_TLS;
        let end = section.address + section.size;
        let is_in = (section.address..=end).contains(&{ symbol.st_value });
        demand(is_in || !is_loaded || name.is_empty() || is_local, || {
            format!("{} is not in its section", show())
        })?;
        let record = known.get(&key_of(name)).filter(|_| !is_local);
        if let Some(record) = record
            && record.definer != NONE
            && record.is_placed != 0
            && !record
                .facts
                .has(Defined::TLS | Defined::IFUNC | Demand::CANONICAL_PLT)
        {
            demand({ symbol.st_value } == record.address, || {
                format!("{} has another address", show())
            })?;
        }
    }
    Ok(())
}
