//! The rest of the program, as the state file has it: what names mean, who has which group, where equal pieces are.

use super::state::{
    ADDED, GroupRecord, List, MentionRecord, NONE, NameKey, NameRecord, PieceRecord, State, Table,
    hash_piece, key_of,
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
            let name = match mention.name & ADDED {
                0 => NameAt::Table(mention.name as u32),
                _ => NameAt::Added(mention.name & !ADDED),
            };
            added_mentions.entry(name).or_default().push(mention.file);
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

    /// The name at an index of the table.
    pub fn name_at(&self, index: u32) -> Option<&'s NameRecord> {
        self.names.get(index as usize)
    }

    /// The names that incremental links have added.
    pub fn added(&self) -> impl Iterator<Item = (NameAt, &NameRecord)> {
        self.added
            .values()
            .map(|(at, record)| (NameAt::Added(*at), record))
    }

    /// The files that mention a name.
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
        files
    }

    /// The file whose group of a signature is linked.
    pub fn owner(&self, signature: &[u8]) -> Option<u32> {
        let key = key_of(signature);
        let found = self.groups.binary_search_by_key(&key, |record| record.key);
        let owner = match found {
            Ok(found) => self.groups[found].owner,
            Err(_) => *self.added_groups.get(&key)?,
        };
        Some(owner).filter(|owner| *owner != NONE)
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
