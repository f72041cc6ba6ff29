//! Names that others find in the output: those that come, and those that are gone.
//!
//! `.gnu.hash` wants the symbols of one bucket one behind the other. A full link leaves places behind all of them. What comes
//! takes the place of one that is gone from its bucket, or else the whole bucket moves there, a few symbols; whatever names
//! them by their numbers does so by the new ones then. What is gone stays where it is, without a name, so that the others of
//! its bucket are found.
//!
//! `.hash` has all symbols, in any order. As it is small where there is one, it is written anew.

use super::again::Again;
use super::export::{Export, Exported};
use super::patch::Patch;
use super::reason::Reason;
use super::state::{DAMAGED, Facts, NameRecord, OutputRecord, PartRecord, State, Table};
use super::strings::add_string;
use super::world::NameAt;
use crate::base::ids::PartId;
use crate::elf::hash_tables::{self, gnu_hash, sysv_hash};
use crate::elf::version_tables;
use crate::elf::{Rela, Sym, c};
use crate::layout::address_map::{Places, SymbolValue};
use crate::layout::symtab;
use crate::resolve::output_sections::{Outputs, Std, subpart};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What becomes of the table of names that others find.
#[derive(Default)]
pub(super) struct Exports {
    /// Those that come.
    pub added: Vec<Export>,
    /// The numbers of those that are gone.
    gone: Vec<u32>,
    /// Numbers that symbols had, and those that they have now.
    moved: BTreeMap<u32, u32>,
    /// The names of the moved ones that the files do not speak of, with their new records.
    pub names: Vec<(NameAt, NameRecord)>,
    /// What changes in `.gnu.hash`: words by their places in it.
    words: BTreeMap<u64, u32>,
}

/// `.gnu.hash` and `.dynsym` as they are. Without the first, what is told of it is nothing.
pub(super) struct Found<'o> {
    hash: &'o [u8],
    pub symbols: &'o [Sym],
    pub strings: &'o [u8],
    buckets: u32,
    first: u32,
    bloom_words: u32,
    bloom_shift: u32,
}

impl<'o> Found<'o> {
    pub fn new(state: &State, old: &'o [u8]) -> Option<Found<'o>> {
        let sections: &[OutputRecord] = state.table(Table::Outputs);
        let find = |std: Std| {
            let section = sections.iter().find(|section| section.id == std.id().0)?;
            let start = usize::try_from(section.offset).ok()?;
            old.get(start..start.checked_add(usize::try_from(section.size).ok()?)?)
        };
        let hash = find(Std::GnuHash).unwrap_or(b"");
        let symbols = bytemuck::try_cast_slice(find(Std::DynSym)?).ok()?;
        let strings = find(Std::DynStr)?;
        if hash.is_empty() {
            return Some(Found {
                hash,
                symbols,
                strings,
                buckets: 0,
                first: 0,
                bloom_words: 0,
                bloom_shift: 0,
            });
        }
        let field = |at: usize| {
            let bytes = hash.get(at..)?.first_chunk::<4>()?;
            Some(u32::from_le_bytes(*bytes))
        };
        let found = Found {
            symbols,
            strings,
            buckets: field(0)?,
            first: field(4)?,
            bloom_words: field(8)?,
            bloom_shift: field(12)?,
            hash,
        };
        let is_good =
            found.buckets > 0 && found.bloom_words.is_power_of_two() && found.bloom_shift < 32;
        is_good.then_some(found)
    }

    fn bucket_at(&self, bucket: u32) -> u64 {
        16 + 8 * u64::from(self.bloom_words) + 4 * u64::from(bucket)
    }

    fn chain_at(&self, symbol: u32) -> u64 {
        let number = symbol.wrapping_sub(self.first);
        self.bucket_at(self.buckets) + 4 * u64::from(number)
    }

    fn name(&self, symbol: u32) -> Option<&'o [u8]> {
        let at = self.symbols.get(symbol as usize)?.st_name as usize;
        self.strings.get(at..)?.split(|byte| *byte == 0).next()
    }
}

impl Exports {
    /// Whether there is nothing to do.
    pub fn is_nothing(&self) -> bool {
        self.added.is_empty() && self.gone.is_empty()
    }

    /// What becomes of it when the symbols of the numbers `gone` are.
    pub fn without(gone: Vec<u32>) -> Exports {
        Exports {
            gone,
            ..Exports::default()
        }
    }

    /// Finds places for `added` names, of which the hashes are told; `old` is the output.
    ///
    /// # Errors
    /// If there are none.
    pub fn add(
        &mut self,
        again: Again,
        old: &[u8],
        facts: &mut Facts,
        added: Vec<(Export, u32)>,
    ) -> Result<(), Reason> {
        if added.is_empty() && self.is_nothing() {
            return Ok(());
        }
        if facts.spare_exports[0] == 0 && !added.is_empty() {
            return Err("a script among the inputs says which names others find".into());
        }
        let found = Found::new(again.state, old).ok_or(DAMAGED)?;
        for (export, hash) in added {
            let index = self.place(&found, facts, hash)?;
            self.added.push(Export { index, ..export });
        }
        self.names.clear();
        self.rename(again, &found)
    }

    /// A word of the hash table.
    fn word(&self, found: &Found, at: u64) -> Result<u32, Reason> {
        if let Some(word) = self.words.get(&at) {
            return Ok(*word);
        }
        let start = usize::try_from(at).ok();
        let bytes = start.and_then(|start| found.hash.get(start..)?.first_chunk::<4>());
        bytes
            .map(|bytes| u32::from_le_bytes(*bytes))
            .ok_or_else(|| DAMAGED.into())
    }

    /// Whether nobody has a number.
    fn is_free(&self, found: &Found, symbol: u32) -> bool {
        let taken = self.added.iter().any(|export| export.index == symbol)
            || self.moved.values().any(|now| *now == symbol);
        let has_name = found
            .symbols
            .get(symbol as usize)
            .is_some_and(|it| it.st_name != 0);
        !taken && (!has_name || self.gone.contains(&symbol))
    }

    fn place(&mut self, found: &Found, facts: &mut Facts, hash: u32) -> Result<u32, Reason> {
        if found.hash.is_empty() {
            // Any place is as good. Those behind what may still be imported are for what is defined.
            let [imports, .., first] = facts.spare_imports;
            let [next, left] = &mut facts.spare_exports;
            let mut places = first.saturating_add(imports)..*next;
            if let Some(free) = places.find(|place| self.is_free(found, *place)) {
                return Ok(free);
            }
            let rest = left.checked_sub(1);
            *left = rest.ok_or("there is no room for more names that others find")?;
            *next += 1;
            return Ok(*next - 1);
        }
        let bloom = 16 + 8 * u64::from((hash / 64) & (found.bloom_words - 1));
        for bit in [hash % 64, (hash >> found.bloom_shift) % 64] {
            let at = bloom + u64::from(bit / 32) * 4;
            let word = self.word(found, at)? | 1 << (bit % 32);
            self.words.insert(at, word);
        }
        let bucket = found.bucket_at(hash % found.buckets);
        let start = self.word(found, bucket)?;
        // A bucket without symbols has 0.
        let mut chain: Vec<u32> = Vec::new();
        let mut is_whole = start == 0;
        while !is_whole {
            let symbol = start.saturating_add(chain.len() as u32);
            let word = self.word(found, found.chain_at(symbol))?;
            if symbol < found.first || symbol as usize >= found.symbols.len() {
                return Err(DAMAGED.into());
            }
            chain.push(symbol);
            if self.is_free(found, symbol) {
                self.words
                    .insert(found.chain_at(symbol), hash & !1 | word & 1);
                return Ok(symbol);
            }
            is_whole = word & 1 != 0;
        }
        let [next, left] = &mut facts.spare_exports;
        // A bucket that ends where the places begin that nobody has grows where it is.
        let is_last = chain.last().is_some_and(|last| last + 1 == *next);
        let count = match is_last {
            true => 1,
            false => chain.len() as u32 + 1,
        };
        let rest = left.checked_sub(count);
        *left = rest.ok_or("there is no room for more names that others find")?;
        let at = *next;
        *next += count;
        if is_last {
            let last = found.chain_at(at - 1);
            let word = self.word(found, last)? & !1;
            self.words.insert(last, word);
            self.words.insert(found.chain_at(at), hash | 1);
            return Ok(at);
        }
        for (symbol, now) in chain.iter().zip(at..) {
            let word = self.word(found, found.chain_at(*symbol))? & !1;
            self.words.insert(found.chain_at(now), word);
            self.move_symbol(*symbol, now);
        }
        let index = at + chain.len() as u32;
        self.words.insert(found.chain_at(index), hash | 1);
        self.words.insert(bucket, at);
        Ok(index)
    }

    /// A symbol that may have been added or moved already has another number.
    fn move_symbol(&mut self, from: u32, to: u32) {
        if let Some(export) = self.added.iter_mut().find(|export| export.index == from) {
            export.index = to;
            return;
        }
        let moved = self.moved.iter().find(|(_, now)| **now == from);
        let first = moved.map_or(from, |(first, _)| *first);
        self.moved.insert(first, to);
    }

    /// Finds the names of what has moved.
    fn rename(&mut self, again: Again, found: &Found) -> Result<(), Reason> {
        for (from, to) in &self.moved {
            let name = found.name(*from).ok_or(DAMAGED)?;
            let known = again
                .world
                .name(name)
                .filter(|(_, record)| record.dynamic == *from);
            let address = found.symbols.get(*from as usize).map(|it| it.st_value);
            let Some((at, record)) = known else {
                if again.world.name(name).is_none() && is_copied(again.state, address) {
                    // Another name of a copied variable, which nobody mentions.
                    continue;
                }
                let name = String::from_utf8_lossy(name);
                return Err(format!("{name} would have another place in .dynsym").into());
            };
            let dynamic = *to;
            self.names.push((at, NameRecord { dynamic, ..record }));
        }
        Ok(())
    }

    /// The number that a symbol has now.
    pub fn now(&self, index: u32) -> u32 {
        self.moved.get(&index).copied().unwrap_or(index)
    }

    /// Moves symbols, and whatever names them, and takes away what is gone: before anything else is written.
    ///
    /// # Errors
    /// If the output is not what the state says.
    pub fn write_moved(&self, patch: &mut Patch, outputs: &Outputs) -> Result<(), Reason> {
        self.move_symbols(patch, outputs)
            .ok_or_else(|| DAMAGED.into())
    }

    fn move_symbols(&self, patch: &mut Patch, outputs: &Outputs) -> Option<()> {
        let table = outputs.std(Std::DynSym);
        let versions = outputs.std(Std::VerSym);
        let symbol_at = |index: u32| table.offset + 24 * u64::from(index);
        let version_at = |index: u32| versions.offset + 2 * u64::from(index);
        let nobody = Sym {
            st_info: c::STB_WEAK << 4,
            ..bytemuck::Zeroable::zeroed()
        };
        let mut read = Vec::with_capacity(self.moved.len());
        for (from, to) in &self.moved {
            let symbol: [u8; 24] = *patch.at(symbol_at(*from))?;
            let version: [u8; 2] = match versions.size {
                0 => [0; 2],
                _ => *patch.at(version_at(*from))?,
            };
            read.push((*to, symbol, version));
        }
        for index in self.moved.keys().chain(&self.gone) {
            let bytes = bytemuck::bytes_of(&nobody);
            patch.bytes(symbol_at(*index), 24)?.copy_from_slice(bytes);
            if versions.size > 0 {
                let local = version_tables::LOCAL.to_le_bytes();
                patch.bytes(version_at(*index), 2)?.copy_from_slice(&local);
            }
        }
        for (index, symbol, version) in read {
            patch.bytes(symbol_at(index), 24)?.copy_from_slice(&symbol);
            if versions.size > 0 {
                patch.bytes(version_at(index), 2)?.copy_from_slice(&version);
            }
        }
        let hash = outputs.std(Std::GnuHash).offset;
        // (Without that table there is none.)
        for (at, word) in &self.words {
            let place = patch.bytes(hash + at, 4)?;
            place.copy_from_slice(&word.to_le_bytes());
        }
        self.move_relocations(patch, outputs)
    }

    fn move_relocations(&self, patch: &mut Patch, outputs: &Outputs) -> Option<()> {
        if self.moved.is_empty() {
            return Some(());
        }
        for std in [Std::RelaDyn, Std::RelaPlt] {
            let table = outputs.std(std);
            let range = table.offset as usize..(table.offset + table.size) as usize;
            let records: &[Rela] = bytemuck::try_cast_slice(patch.image.get(range)?).ok()?;
            let moved = |(index, rela): (usize, &Rela)| {
                let info = rela.r_info;
                let now = self.moved.get(&((info >> 32) as u32))?;
                (info >> 32 != 0).then(|| (index, u64::from(*now) << 32 | info & 0xffff_ffff))
            };
            let all: Vec<(usize, u64)> = records.iter().enumerate().filter_map(moved).collect();
            for (index, info) in all {
                let place = patch.bytes(table.offset + 24 * index as u64 + 8, 8)?;
                place.copy_from_slice(&info.to_le_bytes());
            }
        }
        Some(())
    }

    /// Writes what comes.
    ///
    /// # Errors
    /// If there is no room.
    pub fn write_added(
        &self,
        patch: &mut Patch,
        places: &Places,
        values: &[SymbolValue],
        facts: &mut Facts,
    ) -> Result<(), Reason> {
        let outputs = places.outputs;
        for export in &self.added {
            let (symbol, full) = match &export.what {
                Exported::Symbol(symbol) => {
                    let full = places.symbols.name(*symbol);
                    let symbol = symtab::defined_symbol(places, values, *symbol);
                    (symbol.ok_or(DAMAGED)?, full)
                }
                Exported::Copy { name, sym, std, .. } => {
                    let section = u16::try_from(outputs.std(*std).header);
                    let section = section.map_err(|_| DAMAGED)?;
                    (
                        Sym {
                            st_shndx: section,
                            ..*sym
                        },
                        &name[..],
                    )
                }
            };
            let name = full.split(|byte| *byte == b'@').next().unwrap_or(full);
            let st_name = add_string(patch, outputs, facts, name)?;
            let symbol = Sym { st_name, ..symbol };
            let at = outputs.std(Std::DynSym).offset + 24 * u64::from(export.index);
            let place = patch.bytes(at, 24).ok_or(DAMAGED)?;
            place.copy_from_slice(bytemuck::bytes_of(&symbol));
            let versions = outputs.std(Std::VerSym);
            if versions.size > 0 {
                let at = versions.offset + 2 * u64::from(export.index);
                let place = patch.bytes(at, 2).ok_or(DAMAGED)?;
                place.copy_from_slice(&export.version.to_le_bytes());
            } else if export.version != version_tables::GLOBAL {
                return Err("the first symbol has a version".into());
            }
        }
        Ok(())
    }
}

/// Writes `.hash` anew, if there is one: behind all changes of `.dynsym`.
pub(super) fn write_sysv(patch: &mut Patch, outputs: &Outputs) -> Option<()> {
    let [table, symbols, strings] = [Std::Hash, Std::DynSym, Std::DynStr].map(|std| {
        let section = outputs.std(std);
        [section.offset, section.size]
    });
    if table[1] == 0 {
        return Some(());
    }
    let bytes = make_sysv(patch.image, table, symbols, strings)?;
    let start = usize::try_from(table[0]).ok()?;
    if !patch.image.get(start..)?.starts_with(&bytes) {
        patch.bytes(table[0], table[1])?.copy_from_slice(&bytes);
    }
    Some(())
}

/// `--verify-incremental`: whether `.hash`, if there is one, is that of the symbols.
///
/// # Errors
/// If not.
pub(super) fn check_sysv(state: &State, output: &[u8]) -> Result<(), Reason> {
    let sections: &[OutputRecord] = state.table(Table::Outputs);
    let [table, symbols, strings] = [Std::Hash, Std::DynSym, Std::DynStr].map(|std| {
        let found = sections.iter().find(|section| section.id == std.id().0);
        found.map_or([0; 2], |section| [section.offset, section.size])
    });
    if table[1] == 0 {
        return Ok(());
    }
    let bytes = make_sysv(output, table, symbols, strings).ok_or(DAMAGED)?;
    let there = usize::try_from(table[0])
        .ok()
        .and_then(|at| output.get(at..));
    match there.is_some_and(|there| there.starts_with(&bytes)) {
        true => Ok(()),
        false => Err(".hash is another".into()),
    }
}

/// `.hash` for the symbols of an output; of each section, offset and size.
fn make_sysv(
    output: &[u8],
    [_, size]: [u64; 2],
    symbols: [u64; 2],
    strings: [u64; 2],
) -> Option<Vec<u8>> {
    let section = |[at, size]: [u64; 2]| {
        let start = usize::try_from(at).ok()?;
        output.get(start..start.checked_add(usize::try_from(size).ok()?)?)
    };
    let symbols: &[Sym] = bytemuck::try_cast_slice(section(symbols)?).ok()?;
    let strings = section(strings)?;
    let hash = |symbol: &Sym| {
        let name = strings.get(symbol.st_name as usize..)?;
        Some(sysv_hash(name.split(|byte| *byte == 0).next()?))
    };
    let hashes: Option<Vec<u32>> = symbols.iter().skip(1).map(hash).collect();
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    if bytes.len() != hash_tables::sysv_size(symbols.len()) {
        return None;
    }
    hash_tables::write_sysv(&mut bytes, &hashes?);
    Some(bytes)
}

/// Whether something is copied from a shared object at an address.
fn is_copied(state: &State, address: Option<u64>) -> bool {
    let parts: &[PartRecord] = state.table(Table::Parts);
    let sections: &[OutputRecord] = state.table(Table::Outputs);
    let is_in = |part: PartId| {
        let part = parts.get(part.index())?;
        let section = sections.get(part.output as usize)?;
        let start = section.address.checked_add(part.offset)?;
        Some((start..start.checked_add(part.size)?).contains(&address?))
    };
    let copies = [subpart::COPIES, subpart::RELRO_COPIES];
    copies.into_iter().any(|part| is_in(part) == Some(true))
}

/// `--verify-incremental`: whether all symbols that the files define and others find are found: `defined` are their numbers in `.dynsym`.
///
/// # Errors
/// If one is not.
pub(super) fn check(
    state: &State,
    old: &[u8],
    defined: impl Iterator<Item = u32>,
) -> Result<(), Reason> {
    let Some(found) = Found::new(state, old).filter(|found| !found.hash.is_empty()) else {
        return Ok(());
    };
    // What is imported is before the first that can be found.
    let defined = defined.filter(|index| *index >= found.first);
    let nothing = Exports::default();
    let mut chains: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    for index in defined {
        let name = found.name(index).ok_or(DAMAGED)?;
        let hash = gnu_hash(name);
        let bucket = hash % found.buckets;
        if let std::collections::hash_map::Entry::Vacant(entry) = chains.entry(bucket) {
            let mut chain = Vec::new();
            let mut symbol = nothing.word(&found, found.bucket_at(bucket))?;
            while symbol != 0 {
                chain.push(symbol);
                let word = nothing.word(&found, found.chain_at(symbol))?;
                symbol = match word & 1 {
                    0 => symbol + 1,
                    _ => 0,
                };
            }
            entry.insert(chain);
        }
        let word = nothing.word(&found, found.chain_at(index))?;
        let bloom = 16 + 8 * u64::from((hash / 64) & (found.bloom_words - 1));
        let mut passes = true;
        for bit in [hash % 64, (hash >> found.bloom_shift) % 64] {
            let half = nothing.word(&found, bloom + u64::from(bit / 32) * 4)?;
            passes &= half & (1 << (bit % 32)) != 0;
        }
        if !chains[&bucket].contains(&index) || word | 1 != hash | 1 || !passes {
            let name = String::from_utf8_lossy(name);
            return Err(format!("{name} is not found in .gnu.hash").into());
        }
    }
    Ok(())
}
