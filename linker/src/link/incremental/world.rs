//! The rest of the program, as the state file has it: what names mean, who has which group, where equal pieces are.

use super::state::{
    ADDED, FileRecord, GroupRecord, List, MentionRecord, NONE, NameKey, NameRecord, PieceRecord,
    State, Table, file, hash_piece, key_of,
};
use crate::resolve::symbol_facts::SymbolFacts;
use rustc_hash::FxHashMap;

/// Where a name's record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum NameAt {
    /// In [`Table::Names`], at this index.
    Table(u32),
    /// An incremental link has added it: offset in the file.
    Added(u64),
}

/// Which name a record of a file's is about.
fn name_of(mention: &MentionRecord) -> NameAt {
    match mention.name & ADDED {
        0 => NameAt::Table(mention.name as u32),
        _ => NameAt::Added(mention.name & !ADDED),
    }
}

/// The index of the record of a key in a table that is sorted by keys. Keys are digests, evenly spread, so that where one stands
/// can be guessed; from there the search goes in growing steps, over few lines of the table.
fn find_key(names: &[NameRecord], key: &NameKey) -> Option<usize> {
    let last = names.len().checked_sub(1)?;
    let guess = ((u128::from(key[0]) * names.len() as u128) >> 64) as usize;
    let (mut low, mut high) = (guess, guess);
    let mut step = 8;
    while low > 0 && names[low].key > *key {
        low = low.saturating_sub(step);
        step *= 2;
    }
    step = 8;
    while high < last && names[high].key < *key {
        high = (high + step).min(last);
        step *= 2;
    }
    let found = names[low..=high].binary_search_by_key(key, |record| record.key);
    found.ok().map(|index| low + index)
}

/// The program around what is linked again.
pub(super) struct World<'s> {
    pub state: &'s State,
    /// The output is only compared: all is as it was, also what there was to warn of.
    pub is_as_before: bool,
    names: &'s [NameRecord],
    added: FxHashMap<NameKey, (u64, NameRecord)>,
    groups: &'s [GroupRecord],
    added_groups: FxHashMap<NameKey, u32>,
    pieces: &'s [PieceRecord],
    added_pieces: FxHashMap<u64, Vec<PieceRecord>>,
    added_mentions: FxHashMap<NameAt, Vec<u32>>,
    added_definitions: FxHashMap<u32, Vec<NameAt>>,
}

impl<'s> World<'s> {
    /// Reads what incremental links have added.
    pub fn new(state: &'s State, is_as_before: bool) -> World<'s> {
        let mut added = FxHashMap::default();
        for (at, record) in state.list::<NameRecord>(List::Names) {
            added.entry(record.key).or_insert((at, record));
        }
        let mut added_pieces: FxHashMap<u64, Vec<PieceRecord>> = FxHashMap::default();
        for (_, record) in state.list::<PieceRecord>(List::Pieces) {
            added_pieces.entry(record.hash).or_default().push(record);
        }
        let mut added_groups: FxHashMap<NameKey, u32> = FxHashMap::default();
        for (_, record) in state.list::<GroupRecord>(List::Groups) {
            added_groups.entry(record.key).or_insert(record.owner);
        }
        let mut added_mentions: FxHashMap<NameAt, Vec<u32>> = FxHashMap::default();
        for (_, mention) in state.list::<MentionRecord>(List::Mentions) {
            let files = added_mentions.entry(name_of(&mention)).or_default();
            files.push(mention.file);
        }
        let mut added_definitions: FxHashMap<u32, Vec<NameAt>> = FxHashMap::default();
        for (_, mention) in state.list::<MentionRecord>(List::Definitions) {
            let names = added_definitions.entry(mention.file).or_default();
            names.push(name_of(&mention));
        }
        World {
            state,
            is_as_before,
            names: state.table(Table::Names),
            added,
            groups: state.table(Table::Groups),
            added_groups,
            pieces: state.table(Table::Pieces),
            added_pieces,
            added_mentions,
            added_definitions,
        }
    }

    /// What a name means.
    pub fn name(&self, name: &[u8]) -> Option<(NameAt, NameRecord)> {
        self.by_key(&key_of(name))
    }

    /// What the name of a key means.
    pub fn by_key(&self, key: &NameKey) -> Option<(NameAt, NameRecord)> {
        match find_key(self.names, key) {
            Some(index) => Some((NameAt::Table(index as u32), self.names[index])),
            None => {
                let (at, record) = self.added.get(key)?;
                Some((NameAt::Added(*at), *record))
            }
        }
    }

    /// The names that only one of some files keeps from being seen from outside; `exports` if all others are.
    pub fn hidden_by(&self, ids: &[u32], exports: bool) -> Vec<NameAt> {
        let hidden: &[[u32; 2]] = self.state.table(Table::Hidden);
        let of_file = |id: &u32| {
            let first = hidden.partition_point(|[file, _]| file < id);
            let end = hidden.partition_point(|[file, _]| file <= id);
            hidden.get(first..end).unwrap_or(&[])
        };
        let in_table = ids.iter().flat_map(of_file).filter_map(|[_, name]| {
            let record = self.names.get(*name as usize)?;
            Some((NameAt::Table(*name), record))
        });
        let added = self.added.values();
        let added = added.map(|(at, record)| (NameAt::Added(*at), record));
        let is_hidden = |(_, record): &(NameAt, &NameRecord)| {
            ids.binary_search(&record.hidden_by).is_ok()
                && record.definer != NONE
                && (exports || record.facts.has(SymbolFacts::BY_SHARED))
        };
        let all = in_table.chain(added).filter(is_hidden);
        all.map(|(at, _)| at).collect()
    }

    /// The record of a name.
    pub fn record(&self, at: NameAt) -> Option<NameRecord> {
        match at {
            NameAt::Table(index) => self.names.get(index as usize).copied(),
            NameAt::Added(at) => self.state.records(at, 1).first().copied(),
        }
    }

    /// The names that a file has come to define in incremental links.
    pub fn defined_since(&self, file: u32) -> &[NameAt] {
        self.added_definitions.get(&file).map_or(&[], Vec::as_slice)
    }

    /// The files that the full link had which mention a name, in order.
    fn mentioning_at_first(&self, at: NameAt) -> &'s [u32] {
        let NameAt::Table(index) = at else { return &[] };
        let index = index as usize;
        let starts: &[u32] = self.state.table(Table::Mentions);
        let all: &[u32] = self.state.table(Table::Mentioning);
        let range = starts.get(index..index.saturating_add(2));
        let range = range.map_or(0..0, |ends| ends[0] as usize..ends[1] as usize);
        all.get(range).unwrap_or(&[])
    }

    /// Whether it is known of a file that it mentions a name.
    pub fn is_mentioned(&self, at: NameAt, file: u32) -> bool {
        let added = self.added_mentions.get(&at);
        self.mentioning_at_first(at).binary_search(&file).is_ok()
            || added.is_some_and(|files| files.contains(&file))
    }

    /// The linked files that mention a name.
    pub fn mentioning(&self, at: NameAt) -> Vec<u32> {
        let mut files = self.added_mentions.get(&at).cloned().unwrap_or_default();
        files.extend(self.mentioning_at_first(at));
        let known: &[FileRecord] = self.state.table(Table::Files);
        let is_linked = |id: &u32| {
            let file = known.get(*id as usize);
            file.is_some_and(|file| file.bits & file::LINKED != 0)
        };
        files.retain(is_linked);
        files
    }

    /// The file whose group of a signature is linked.
    pub fn owner(&self, signature: &[u8]) -> Option<u32> {
        let key = key_of(signature);
        let found = self.groups.binary_search_by_key(&key, |record| record.key);
        let in_table = found.ok().map(|found| self.groups[found].owner);
        let owner = self.added_groups.get(&key).copied().or(in_table);
        owner.filter(|owner| *owner != NONE)
    }

    /// Where in a part a piece of these bytes and alignment is; `there` are the bytes of the part in the output, and its address.
    pub fn piece(
        &self,
        part: u32,
        (there, base): (&[u8], u64),
        bytes: &[u8],
        align: u64,
    ) -> Option<u64> {
        let hash = hash_piece(bytes);
        let first = self.pieces.partition_point(|record| record.hash < hash);
        let known = self.pieces[first..]
            .iter()
            .take_while(|record| record.hash == hash);
        let added = self.added_pieces.get(&hash).into_iter().flatten();
        let is_it = |record: &&PieceRecord| {
            let at = record.offset as usize;
            record.part == part
                && (base.wrapping_add(record.offset.into())).is_multiple_of(align.max(1))
                && there.get(at..at.saturating_add(bytes.len())) == Some(bytes)
        };
        known
            .chain(added)
            .find(is_it)
            .map(|found| found.offset.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_key_is_found_and_no_other(
            keys in prop::collection::btree_set(prop_oneof![any::<u64>(), 0u64..40, u64::MAX - 40..=u64::MAX], 0..300),
            others in prop::collection::vec(any::<u64>(), 0..20),
        ) {
            let record = |key: &u64| NameRecord { key: [*key, 7], ..bytemuck::Zeroable::zeroed() };
            let names: Vec<NameRecord> = keys.iter().map(record).collect();
            for (index, key) in keys.iter().enumerate() {
                prop_assert_eq!(find_key(&names, &[*key, 7]), Some(index));
                prop_assert_eq!(find_key(&names, &[*key, 8]), None);
            }
            for other in others.iter().filter(|other| !keys.contains(other)) {
                prop_assert_eq!(find_key(&names, &[*other, 7]), None);
            }
        }
    }
}
