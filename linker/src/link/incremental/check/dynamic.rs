//! What the dynamic linker is told: `.dynamic`, and versions.

use super::{Output, demand};
use crate::elf::x86_64::reloc;
use crate::elf::{Dyn, Rela, Sym, Vernaux, Verneed, c, version_tables};
use crate::link::incremental::exports;
use crate::link::incremental::reason::Reason;
use crate::resolve::output_sections::Std;
use rustc_hash::FxHashSet;

pub(super) fn check(output: &Output) -> Result<(), Reason> {
    let entries: &[Dyn] = output.table(Std::Dynamic)?;
    if entries.is_empty() {
        return Ok(());
    }
    let end = entries.iter().position(|entry| { entry.d_tag } == 0);
    let end = end.ok_or(".dynamic has no end")?;
    let (entries, rest) = entries.split_at(end);
    demand(rest.iter().all(|entry| { entry.d_tag } == 0), || {
        "there is something behind the end of .dynamic".into()
    })?;
    let all = |tag: u32| {
        let found = entries
            .iter()
            .filter(move |entry| { entry.d_tag } == tag.into());
        found.map(|entry| entry.d_val)
    };
    let get = |tag: u32| all(tag).next();
    tags(output, &get)?;
    let mut names: FxHashSet<&[u8]> = FxHashSet::default();
    for at in all(c::DT_NEEDED) {
        let name = output.dynamic_string(at)?;
        demand(!name.is_empty() && names.insert(name), || {
            format!("{} is needed twice", String::from_utf8_lossy(name))
        })?;
    }
    if let Some(count) = get(c::DT_RELACOUNT) {
        let table: &[Rela] = output.table(Std::RelaDyn)?;
        let mut first = table
            .iter()
            .take(usize::try_from(count).unwrap_or(usize::MAX));
        let is_good = count <= table.len() as u64
            && first.all(|rela| rela.r_type() == reloc::R_X86_64_RELATIVE);
        demand(is_good, || "DT_RELACOUNT is another".into())?;
    }
    let symbols: &[Sym] = output.table(Std::DynSym)?;
    for symbol in symbols {
        output.dynamic_string(symbol.st_name.into())?;
    }
    versions(output, &get, &names, symbols.len())?;
    exports::check_sysv(output.state, output.bytes)
}

/// Tags that say where sections are, and how large.
fn tags(output: &Output, get: &dyn Fn(u32) -> Option<u64>) -> Result<(), Reason> {
    let places = [
        (c::DT_STRTAB, c::DT_STRSZ, Std::DynStr),
        (c::DT_SYMTAB, 0, Std::DynSym),
        (c::DT_HASH, 0, Std::Hash),
        (c::DT_GNU_HASH, 0, Std::GnuHash),
        (c::DT_RELA, c::DT_RELASZ, Std::RelaDyn),
        (c::DT_JMPREL, c::DT_PLTRELSZ, Std::RelaPlt),
        (c::DT_VERSYM, 0, Std::VerSym),
        (c::DT_VERNEED, 0, Std::VerNeed),
        (c::DT_VERDEF, 0, Std::VerDef),
        (c::DT_INIT_ARRAY, c::DT_INIT_ARRAYSZ, Std::InitArray),
        (c::DT_FINI_ARRAY, c::DT_FINI_ARRAYSZ, Std::FiniArray),
        (
            c::DT_PREINIT_ARRAY,
            c::DT_PREINIT_ARRAYSZ,
            Std::PreinitArray,
        ),
    ];
    for (tag, size_tag, std) in places {
        let (address, size) = output.extent(std);
        let is_good = match get(tag) {
            None => size == 0,
            Some(value) => value == address && size > 0,
        };
        demand(is_good, || format!("tag {tag:#x} of .dynamic is another"))?;
        if size_tag != 0 {
            let is_good = get(size_tag).unwrap_or(0) == size;
            demand(is_good, || {
                format!("tag {size_tag:#x} of .dynamic is another")
            })?;
        }
    }
    if let Some(address) = get(c::DT_PLTGOT) {
        demand(address == output.extent(Std::GotPlt).0, || {
            "DT_PLTGOT is another".into()
        })?;
    }
    Ok(())
}

/// The versions that are needed are those of libraries that are, and each symbol has one that there is.
fn versions(
    output: &Output,
    get: &dyn Fn(u32) -> Option<u64>,
    libraries: &FxHashSet<&[u8]>,
    symbols: usize,
) -> Result<(), Reason> {
    let mut known: FxHashSet<u16> =
        FxHashSet::from_iter([version_tables::LOCAL, version_tables::GLOBAL]);
    let table = output.contents(Std::VerNeed)?;
    let short = || Reason::from("a record of .gnu.version_r is not in it");
    let (mut at, mut count) = (0usize, 0u64);
    while !table.is_empty() {
        let file: Verneed = record(table, at).ok_or_else(short)?;
        let library = output.dynamic_string(file.vn_file.into())?;
        demand(libraries.contains(library), || {
            let library = String::from_utf8_lossy(library);
            format!("a version is needed of {library}, which is not")
        })?;
        count += 1;
        let mut place = at + file.vn_aux as usize;
        for left in (0..file.vn_cnt).rev() {
            let version: Vernaux = record(table, place).ok_or_else(short)?;
            let name = output.dynamic_string(version.vna_name.into())?;
            let index = version.vna_other & !version_tables::HIDDEN;
            let is_good = version_tables::hash(name) == { version.vna_hash }
                && !name.is_empty()
                && known.insert(index)
                && (version.vna_next == 0) == (left == 0);
            demand(is_good, || {
                format!(
                    "the version {} is not as it must be",
                    String::from_utf8_lossy(name)
                )
            })?;
            place += version.vna_next as usize;
        }
        match file.vn_next {
            0 => break,
            next => at += next as usize,
        }
    }
    demand(get(c::DT_VERNEEDNUM).unwrap_or(0) == count, || {
        "DT_VERNEEDNUM is another".into()
    })?;
    let own = get(c::DT_VERDEFNUM).unwrap_or(0);
    let own = u16::try_from(own).map_err(|_| "there are too many versions")?;
    known.extend(2..own + 1);
    let (all, _) = output.contents(Std::VerSym)?.as_chunks::<2>();
    demand(all.is_empty() || all.len() == symbols, || {
        "there are more or fewer versions than symbols".into()
    })?;
    let is_known = |version: &[u8; 2]| {
        known.contains(&(u16::from_le_bytes(*version) & !version_tables::HIDDEN))
    };
    demand(all.iter().all(is_known), || {
        "a symbol has a version that there is not".into()
    })
}

fn record<T: bytemuck::Pod>(table: &[u8], at: usize) -> Option<T> {
    let bytes = table.get(at..at.checked_add(size_of::<T>())?)?;
    Some(bytemuck::pod_read_unaligned(bytes))
}
