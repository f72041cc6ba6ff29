//! After a full link: which files speak of a name, and which of them say that it is not everybody's.

use super::known::linked;
use super::state::{Builder, MANY, NONE, NameKey, NameRecord, Table};
use crate::base::ids::SymbolId;
use crate::elf::c;
use crate::link::resolved::Resolved;
use crate::resolve::symbol_facts::{Referred, SymbolFacts};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The names that only one file keeps from being seen from outside, with that file, in order.
pub(super) fn hidden(exports: bool, records: &[NameRecord]) -> Vec<[u32; 2]> {
    let keeps = |record: &NameRecord| {
        let is_one = record.hidden_by != NONE && record.hidden_by != MANY;
        is_one && (exports || record.facts.has(SymbolFacts::BY_SHARED))
    };
    let named = (0..).zip(records).filter(|(_, record)| keeps(record));
    let mut hidden: Vec<[u32; 2]> = named
        .map(|(name, record)| [record.hidden_by, name])
        .collect();
    hidden.sort_unstable();
    hidden
}

/// Notes who says that a name is not everybody's.
pub(super) fn note_hidden(
    resolved: &Resolved,
    keys: &[(NameKey, SymbolId)],
    records: &mut [NameRecord],
) {
    let symbols = &resolved.symbols;
    let is_hidden = |id: SymbolId| symbols.facts(id).has(Referred::NOT_DEFAULT);
    let mut number: FxHashMap<SymbolId, u32> = FxHashMap::default();
    for (index, (_, id)) in (0..).zip(keys) {
        if is_hidden(*id) {
            number.insert(*id, index);
        }
    }
    if number.is_empty() {
        return;
    }
    let linked: Vec<_> = linked(resolved).collect();
    let said: Vec<(u32, u32)> = linked
        .par_iter()
        .flat_map_iter(|((id, file), _)| {
            let object = file.object();
            let globals = match object {
                Some(_) => file.first_global()..file.symbol_count(),
                None => 0..0,
            };
            let said = |index: u32| {
                let name = number.get(&symbols.of(file, index))?;
                let says = object?.symbol(index)?.other & 3 != c::STV_DEFAULT;
                says.then_some((*name, id.0))
            };
            globals.filter_map(said).collect::<Vec<_>>()
        })
        .collect();
    for (name, file) in said {
        let record = &mut records[name as usize];
        record.hidden_by = match record.hidden_by {
            NONE => file,
            other if other == file => file,
            _ => MANY,
        };
    }
}

/// For each name the files that mention it.
pub(super) fn mentions(resolved: &Resolved, keys: &[(NameKey, SymbolId)], builder: &mut Builder) {
    let symbols = &resolved.symbols;
    let mut number = vec![NONE; symbols.id_limit()];
    for (index, (_, id)) in (0..).zip(keys) {
        number[id.index()] = index;
    }
    let each = |f: &(dyn Fn(usize, u32) + Sync)| {
        let linked: Vec<_> = linked(resolved).collect();
        linked.par_iter().for_each(|((id, file), _)| {
            if file.object().is_none() {
                return;
            }
            for index in file.first_global()..file.symbol_count() {
                let symbol = symbols.of(file, index);
                let name = number.get(symbol.index()).copied().unwrap_or(NONE);
                if name != NONE {
                    f(name as usize, id.0);
                }
            }
        });
    };
    let counts: Vec<AtomicU32> = keys.iter().map(|_| AtomicU32::new(0)).collect();
    each(&|name, _| _ = counts[name].fetch_add(1, Relaxed));
    let mut starts = vec![0u32; keys.len() + 1];
    for (name, count) in counts.iter().enumerate() {
        starts[name + 1] = starts[name] + count.load(Relaxed);
    }
    let count = starts.last().copied().unwrap_or(0);
    let mentioning: Vec<AtomicU32> = (0..count).map(|_| AtomicU32::new(NONE)).collect();
    // Each name's own are filled from behind, in any order.
    each(&|name, file| {
        let left = counts[name].fetch_sub(1, Relaxed);
        mentioning[(starts[name] + left - 1) as usize].store(file, Relaxed);
    });
    let mut mentioning: Vec<u32> = mentioning.into_iter().map(AtomicU32::into_inner).collect();
    // The state is the same whoever came first.
    let mut rest = &mut mentioning[..];
    let mut slices = Vec::with_capacity(keys.len());
    for counted in starts.windows(2) {
        let (own, others) = rest.split_at_mut((counted[1] - counted[0]) as usize);
        slices.push(own);
        rest = others;
    }
    slices.par_iter_mut().for_each(|own| own.sort_unstable());
    builder.table(Table::Mentions, &starts);
    builder.table(Table::Mentioning, &mentioning);
}
