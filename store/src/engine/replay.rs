//! Making tables from the log: what recovery and verification are built on.
//!
//! The bytes of every table are a function of the log. [`Tables`] computes
//! that function in memory, from a trailer whose tables are known to be good
//! (a checkpoint, or the empty ones of revision 0), one transaction after the
//! other. Recovery writes the result over the tables in the file; verification
//! compares it with them.

use super::error::Fault;
use super::log::{end_of, items};
use super::map::View;
use super::table::{self, words};
use bytemuck::Zeroable;
use format_spec::file::{INDEX_SLOTS, ItemKind, TableRef, Trailer, VECTOR_SLOTS};
use format_spec::ids::Address;
use std::sync::atomic::Ordering;

/// What one transaction added, in the order of the log.
#[derive(Default)]
pub(super) struct Additions {
    /// For each index: the hash of each key, and the record's address.
    pub indices: [Vec<(u64, Address)>; INDEX_SLOTS],
    /// How many of them were new keys.
    pub new_keys: [u64; INDEX_SLOTS],
    /// For each vector: the elements.
    pub vectors: [Vec<Address>; VECTOR_SLOTS],
}

impl Additions {
    /// Reads them from the transaction of `trailer`.
    pub fn read(view: View<'_>, trailer: &Trailer) -> Result<Additions, Fault> {
        let mut additions = Additions::default();
        for item in items(view, trailer.start, trailer.offset) {
            let item = item?;
            let slot = usize::from(item.slot);
            let no_slot = Fault::new(item.offset, "item's slot is out of range");
            if let Some(record) = item.record()? {
                let hash = format_spec::table::hash(record.key);
                let entries = additions.indices.get_mut(slot).ok_or(no_slot)?;
                entries.push((hash, record.address));
                if item.kind == ItemKind::Record {
                    additions.new_keys[slot] += 1;
                }
            }
            let pushed = item.pushed()?;
            if !pushed.is_empty() {
                let elements = additions.vectors.get_mut(slot).ok_or(no_slot)?;
                elements.extend_from_slice(pushed);
            }
        }
        Ok(additions)
    }
}

/// A table in memory, and where in the file it belongs.
struct MemoryTable {
    kind: ItemKind,
    table: TableRef,
    words: Vec<u64>,
}

impl MemoryTable {
    fn load(
        view: View<'_>,
        kind: ItemKind,
        table: TableRef,
        mut keep: impl FnMut(usize, u64) -> bool,
    ) -> Result<MemoryTable, Fault> {
        let mut loaded = Vec::new();
        if !table.is_none() {
            for (place, word) in words(view, table)?.iter().enumerate() {
                let word = word.load(Ordering::Relaxed);
                loaded.push(if keep(place, word) { word } else { 0 });
            }
        }
        Ok(MemoryTable {
            kind,
            table,
            words: loaded,
        })
    }
}

/// All tables as of one trailer, and those that are no longer in use.
pub(super) struct Tables {
    trailer: Trailer,
    indices: Vec<MemoryTable>,
    vectors: Vec<MemoryTable>,
    finished: Vec<MemoryTable>,
}

impl Tables {
    /// Those of `trailer`, as they are in the file, without what was added
    /// to them later.
    pub fn load(view: View<'_>, trailer: &Trailer) -> Result<Tables, Fault> {
        let end = end_of(trailer);
        let mut indices = Vec::new();
        for root in &trailer.indices {
            let keep = |_, word| format_spec::table::address(word).0 < end;
            indices.push(MemoryTable::load(
                view,
                ItemKind::IndexTable,
                root.table,
                keep,
            )?);
        }
        let mut vectors = Vec::new();
        for root in &trailer.vectors {
            let keep = |place, _| (place as u64) < root.length;
            vectors.push(MemoryTable::load(
                view,
                ItemKind::VectorTable,
                root.table,
                keep,
            )?);
        }
        Ok(Tables {
            trailer: *trailer,
            indices,
            vectors,
            finished: Vec::new(),
        })
    }

    /// Those of the first trailer of a file: none.
    pub fn empty(trailer: &Trailer) -> Tables {
        let none = |kind| MemoryTable {
            kind,
            table: TableRef::NONE,
            words: Vec::new(),
        };
        Tables {
            trailer: Trailer {
                indices: Zeroable::zeroed(),
                vectors: Zeroable::zeroed(),
                ..*trailer
            },
            indices: (0..INDEX_SLOTS)
                .map(|_| none(ItemKind::IndexTable))
                .collect(),
            vectors: (0..VECTOR_SLOTS)
                .map(|_| none(ItemKind::VectorTable))
                .collect(),
            finished: Vec::new(),
        }
    }

    /// The trailer that the tables are of.
    pub fn trailer(&self) -> &Trailer {
        &self.trailer
    }

    /// Does to the tables what the transaction of `trailer`, the next one, did.
    pub fn apply(&mut self, view: View<'_>, trailer: &Trailer) -> Result<(), Fault> {
        let additions = Additions::read(view, trailer)?;
        let wrong = |what| Fault::new(trailer.offset, what);
        for slot in 0..INDEX_SLOTS {
            let (old, new) = (self.trailer.indices[slot], trailer.indices[slot]);
            let entries = &additions.indices[slot];
            let current = &mut self.indices[slot];
            let mut used = old.used;
            if new.table != old.table {
                let shape = table::shape(new.table)?;
                words(view, new.table)?;
                let has_replaced = old.used != old.count;
                let grown = table::rebuild(view, &current.words, old.table, shape, has_replaced)?
                    .ok_or(wrong("table is too small for its words"))?;
                let grown = MemoryTable {
                    kind: current.kind,
                    table: new.table,
                    words: grown,
                };
                self.finished.push(std::mem::replace(current, grown));
                used = old.count;
            }
            if !entries.is_empty() {
                let shape = table::shape(new.table)?;
                if !table::add_all(&mut current.words, shape, entries) {
                    return Err(wrong("table is too small for its words"));
                }
            }
            if new.used != used + entries.len() as u64
                || new.count != old.count + additions.new_keys[slot]
            {
                return Err(wrong("index's counts do not agree with the log"));
            }
        }
        for slot in 0..VECTOR_SLOTS {
            let (old, new) = (self.trailer.vectors[slot], trailer.vectors[slot]);
            let elements = &additions.vectors[slot];
            let current = &mut self.vectors[slot];
            if new.table != old.table {
                let mut grown = vec![0; words(view, new.table)?.len()];
                grown
                    .get_mut(..old.length as usize)
                    .zip(current.words.get(..old.length as usize))
                    .map(|(grown, old)| grown.copy_from_slice(old))
                    .ok_or(wrong("vector's table is too small"))?;
                let grown = MemoryTable {
                    kind: current.kind,
                    table: new.table,
                    words: grown,
                };
                self.finished.push(std::mem::replace(current, grown));
            }
            if new.length != old.length + elements.len() as u64 {
                return Err(wrong("vector's length does not agree with the log"));
            }
            current
                .words
                .get_mut(old.length as usize..new.length as usize)
                .map(|room| room.copy_from_slice(bytemuck::cast_slice(elements)))
                .ok_or(wrong("vector's table is too small"))?;
        }
        self.trailer = *trailer;
        Ok(())
    }

    /// All tables that any of the replayed trailers refers to, and their words.
    pub fn all(&self) -> impl Iterator<Item = (TableRef, &[u64])> {
        self.memory_tables()
            .map(|memory| (memory.table, memory.words.as_slice()))
    }

    fn memory_tables(&self) -> impl Iterator<Item = &MemoryTable> {
        let current = self.indices.iter().chain(&self.vectors);
        (self.finished.iter().chain(current)).filter(|memory| !memory.table.is_none())
    }

    /// Checks that the tables in the file have exactly these words; if not
    /// `strictly`, there may be more that belong to later transactions.
    pub fn compare(&self, view: View<'_>, strictly: bool) -> Result<(), Fault> {
        let end = end_of(&self.trailer);
        for memory in self.memory_tables() {
            let in_file = words(view, memory.table)?;
            for (place, (word, &expected)) in in_file.iter().zip(&memory.words).enumerate() {
                let word = word.load(Ordering::Relaxed);
                let may_be_later = !strictly
                    && expected == 0
                    && (memory.kind == ItemKind::VectorTable
                        || format_spec::table::address(word).0 >= end);
                if word != expected && !may_be_later {
                    let offset = memory.table.address() + place as u64 * 8;
                    return Err(Fault::new(offset, "table does not agree with the log"));
                }
            }
        }
        Ok(())
    }
}
