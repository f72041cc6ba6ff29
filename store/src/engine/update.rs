//! Bringing a committed transaction's additions into the tables.
//!
//! Before the commit it is decided, for each table, whether the additions go
//! into the free words of the table that is there or into a new one
//! ([`plan_index`], [`plan_vector`]): the trailer must say so. New tables are
//! written with the transaction, additions to old ones after it ([`write`]).

use super::Store;
use super::error::{Error, Fault, Result};
use super::replay::Additions;
use super::snapshot::Snapshot;
use super::sync::Word;
use super::table::{self, Placed};
use format_spec::file::{IndexRoot, TableRef, Trailer, VectorRoot};
use format_spec::ids::Address;
use format_spec::table::{MAX_LOG2, MIN_LOG2, Shape};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// What becomes of one table.
pub(super) enum Plan {
    /// These words are written into free places of the table.
    Scattered(Vec<Placed>),
    /// These words are written from some place of the table on.
    Run(u64, Vec<u64>),
    /// A new table with these words (a power of two of them) takes its place.
    New(Vec<u64>),
}

/// Above one addition to so many words of a table, the whole table is written
/// at once rather than each word.
const WORDS_PER_SCATTERED_WRITE: u64 = 128;

/// Decides about the table of an index, to which `entries` are to be added.
pub(super) fn plan_index(
    base: &Snapshot<'_>,
    root: &IndexRoot,
    entries: &[(u64, Address)],
) -> Result<Plan, PlanError> {
    if !root.table.is_none() {
        let shape = table::shape(root.table)?;
        if !table::is_full(shape, root.used + entries.len() as u64)
            && let Some(plan) = plan_in_place(base, root.table, shape, entries)?
        {
            return Ok(plan);
        }
    }
    let old = load(base, root.table)?;
    let wanted = root.count + entries.len() as u64;
    for log2 in table::log2_for(wanted)..=MAX_LOG2 {
        let Some(shape) = Shape::new(log2) else {
            break;
        };
        let has_replaced = root.used != root.count;
        let Some(mut words) = table::rebuild(base.view(), &old, root.table, shape, has_replaced)?
        else {
            continue;
        };
        if table::add_all(&mut words, shape, entries) {
            return Ok(Plan::New(words));
        }
    }
    Err(PlanError::TooLarge)
}

/// Why there is no plan.
pub(super) enum PlanError {
    /// The file is damaged.
    Fault(Fault),
    /// No table is large enough.
    TooLarge,
}

impl From<Fault> for PlanError {
    fn from(fault: Fault) -> Self {
        PlanError::Fault(fault)
    }
}

impl PlanError {
    pub fn at(self, store: &Store) -> Error {
        match self {
            PlanError::Fault(fault) => store.error(fault),
            PlanError::TooLarge => Error::TooLarge {
                path: store.path().to_owned(),
                what: "no table is large enough",
            },
        }
    }
}

/// Places for all entries in the table that is there, or `None` if one does
/// not fit. Places that already hold the very word count as free: they are
/// what a killed writer had already done.
fn plan_in_place(
    base: &Snapshot<'_>,
    table: TableRef,
    shape: Shape,
    entries: &[(u64, Address)],
) -> Result<Option<Plan>, Fault> {
    let words = table::words(base.view(), table)?;
    if entries.len() as u64 * WORDS_PER_SCATTERED_WRITE >= shape.words() {
        let mut copy = copy_of(words);
        let end = base.view().end();
        for word in &mut copy {
            // Likewise: what a killed writer had already added.
            if format_spec::table::address(*word).0 >= end {
                *word = 0;
            }
        }
        let fits = table::add_all(&mut copy, shape, entries);
        return Ok(fits.then_some(Plan::Run(0, copy)));
    }
    let mut taken: HashMap<u64, u64> = HashMap::with_capacity(entries.len());
    let mut placed = Vec::with_capacity(entries.len());
    for &(hash, address) in entries {
        let word = shape.word(hash, address);
        let place = table::free_place(shape, hash, |place| {
            let there = words[place as usize].load(Ordering::Relaxed);
            (there == 0 || there == word) && !taken.contains_key(&place)
        });
        let Some(place) = place else {
            return Ok(None);
        };
        taken.insert(place, word);
        placed.push((place, word));
    }
    Ok(Some(Plan::Scattered(placed)))
}

/// Decides about the table of a vector, onto which `elements` are to be pushed.
pub(super) fn plan_vector(
    base: &Snapshot<'_>,
    root: &VectorRoot,
    elements: &[Address],
) -> Result<Plan, Fault> {
    let added: &[u64] = bytemuck::cast_slice(elements);
    let length = root.length + added.len() as u64;
    if !root.table.is_none() && length <= table::words(base.view(), root.table)?.len() as u64 {
        return Ok(Plan::Run(root.length, added.to_vec()));
    }
    let mut words = load(base, root.table)?;
    words.truncate(root.length as usize);
    words.extend_from_slice(added);
    let capacity = length.next_power_of_two().max(1 << MIN_LOG2);
    words.resize(capacity as usize, 0);
    Ok(Plan::New(words))
}

/// Writes the additions to a table that is there, below `end`.
pub(super) fn write(store: &Store, table: TableRef, plan: &Plan, end: u64) -> Result<()> {
    match plan {
        Plan::Scattered(placed) => store.write_words(table.address(), placed, end)?,
        Plan::Run(place, words) => {
            store.write_at(bytemuck::cast_slice(words), table.address() + place * 8)?;
        }
        Plan::New(_) => {}
    }
    Ok(())
}

/// Does the additions of `trailer`'s transaction, which is committed, on top
/// of `base` again, whether they were done, in part or not at all.
pub(super) fn finish(
    store: &Store,
    base: &Snapshot<'_>,
    trailer: &Trailer,
    additions: &Additions,
) -> Result<()> {
    let before = base.trailer();
    let roots = before.indices.iter().zip(&trailer.indices);
    for ((old, new), entries) in roots.zip(&additions.indices) {
        if old.table != new.table || entries.is_empty() {
            continue;
        }
        let shape = table::shape(old.table).map_err(|fault| store.error(fault))?;
        let plan = plan_in_place(base, old.table, shape, entries)
            .map_err(|fault| store.error(fault))?
            .ok_or_else(|| {
                let what = "table is too small for its words";
                store.error(Fault::new(old.table.address(), what))
            })?;
        write(store, old.table, &plan, base.view().end())?;
    }
    let roots = before.vectors.iter().zip(&trailer.vectors);
    for ((old, new), elements) in roots.zip(&additions.vectors) {
        if old.table != new.table || elements.is_empty() {
            continue;
        }
        let plan = plan_vector(base, old, elements).map_err(|fault| store.error(fault))?;
        write(store, old.table, &plan, base.view().end())?;
    }
    Ok(())
}

fn load(base: &Snapshot<'_>, table: TableRef) -> Result<Vec<u64>, Fault> {
    if table.is_none() {
        return Ok(Vec::new());
    }
    Ok(copy_of(table::words(base.view(), table)?))
}

fn copy_of(words: &[Word]) -> Vec<u64> {
    (words.iter())
        .map(|word| word.load(Ordering::Relaxed))
        .collect()
}
