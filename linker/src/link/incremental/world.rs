//! The rest of the program, as the state file has it: what names mean, who has which group, where equal pieces are.

use super::names::BY_SHARED;
use super::state::{
    ADDED, FileRecord, GroupRecord, List, MentionRecord, NONE, NameKey, NameRecord, PieceRecord,
    State, Table, file, hash_piece, key_of,
};
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

/// The program around what is linked again.
pub(super) struct World<'s> {
    pub state: &'s State,
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
    pub fn new(state: &'s State) -> World<'s> {
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
        let key = key_of(name);
        let found = self.names.binary_search_by_key(&key, |record| record.key);
        match found {
            Ok(index) => Some((NameAt::Table(index as u32), self.names[index])),
            Err(_) => {
                let (at, record) = self.added.get(&key)?;
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
            ids.contains(&record.hidden_by)
                && record.definer != NONE
                && (exports || record.flags & BY_SHARED != 0)
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

    /// The linked files that mention a name.
    pub fn mentioning(&self, at: NameAt) -> Vec<u32> {
        let mut files = self.added_mentions.get(&at).cloned().unwrap_or_default();
        if let NameAt::Table(index) = at {
            let index = index as usize;
            let starts: &[u32] = self.state.table(Table::Mentions);
            let all: &[u32] = self.state.table(Table::Mentioning);
            if let Some([start, end]) = starts.get(index..index.saturating_add(2)) {
                files.extend(all.get(*start as usize..*end as usize).unwrap_or(&[]));
            }
        }
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

    /// Where in a part a piece of these bytes and alignment is; `there` are the bytes of the part in the output.
    pub fn piece(&self, part: u32, there: &[u8], bytes: &[u8], align: u64) -> Option<u64> {
        let hash = hash_piece(bytes);
        let first = self.pieces.partition_point(|record| record.hash < hash);
        let known = self.pieces[first..]
            .iter()
            .take_while(|record| record.hash == hash);
        let added = self.added_pieces.get(&hash).into_iter().flatten();
        let is_it = |record: &&PieceRecord| {
            let at = record.offset as usize;
            record.part == part
                && u64::from(record.offset).is_multiple_of(align.max(1))
                && there.get(at..at.saturating_add(bytes.len())) == Some(bytes)
        };
        known
            .chain(added)
            .find(is_it)
            .map(|found| found.offset.into())
    }
}
