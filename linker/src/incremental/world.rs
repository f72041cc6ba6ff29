//! The rest of the program, as the state file has it: what names mean, who has which group, where equal pieces are.

use super::state::{
    ADDED, GroupRecord, NONE, NameKey, NameRecord, NewGroup, NewMention, NewName, NewPiece,
    PieceRecord, State, Table, hash_piece, key_of,
};
use rustc_hash::FxHashMap;
use std::cell::RefCell;

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
    /// By output section, where it is in the file.
    output: &'s [u8],
    /// Pieces that this link adds, by part: where the next one goes, and what was added.
    new: RefCell<Vec<AddedPiece>>,
}

/// A piece that this link adds.
#[derive(Clone)]
pub(super) struct AddedPiece {
    pub part: u32,
    pub offset: u64,
    pub bytes: Vec<u8>,
}

impl<'s> World<'s> {
    /// Reads what incremental links have added; `output` are the bytes of the output as it stands.
    pub fn new(state: &'s State, output: &'s [u8]) -> World<'s> {
        let mut added = FxHashMap::default();
        let mut at = state.header().new_names;
        while at != 0
            && let Some(name) = state.records::<NewName>(at, 1).first()
        {
            added.insert(name.record.key, (at, name.record));
            // Each is behind the one that was added before it, so that the list ends.
            at = if name.next < at { name.next } else { 0 };
        }
        let mut added_pieces: FxHashMap<u64, Vec<PieceRecord>> = FxHashMap::default();
        let mut at = state.header().new_pieces;
        while at != 0
            && let Some(piece) = state.records::<NewPiece>(at, 1).first()
        {
            added_pieces
                .entry(piece.record.hash)
                .or_default()
                .push(piece.record);
            at = if piece.next < at { piece.next } else { 0 };
        }
        let mut added_mentions: FxHashMap<NameAt, Vec<u32>> = FxHashMap::default();
        let mut at = state.header().new_mentions;
        while at != 0
            && let Some(mention) = state.records::<NewMention>(at, 1).first()
        {
            let name = match mention.name & ADDED {
                0 => NameAt::Table(mention.name as u32),
                _ => NameAt::Added(mention.name & !ADDED),
            };
            added_mentions.entry(name).or_default().push(mention.file);
            at = if mention.next < at { mention.next } else { 0 };
        }
        let mut added_groups: FxHashMap<NameKey, u32> = FxHashMap::default();
        let mut at = state.header().new_groups;
        while at != 0
            && let Some(group) = state.records::<NewGroup>(at, 1).first()
        {
            added_groups.insert(group.record.key, group.record.owner);
            at = if group.next < at { group.next } else { 0 };
        }
        World {
            added_groups,
            added_mentions,
            state,
            names: state.table(Table::Names),
            added,
            groups: state.table(Table::Groups),
            pieces: state.table(Table::Pieces),
            added_pieces,
            output,
            new: RefCell::default(),
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

    /// Where in a part a piece of these bytes and alignment is. `start` is where the part begins in the output's file.
    pub fn piece(&self, part: u32, start: u64, bytes: &[u8], align: u64) -> Option<u64> {
        let hash = hash_piece(bytes);
        let first = self.pieces.partition_point(|record| record.hash < hash);
        let known = self.pieces[first..]
            .iter()
            .take_while(|record| record.hash == hash);
        let added = self.added_pieces.get(&hash).into_iter().flatten();
        let is_it = |record: &&PieceRecord| {
            let at = start.checked_add(record.offset.into());
            let at = at.and_then(|at| usize::try_from(at).ok());
            record.part == part
                && u64::from(record.offset).is_multiple_of(align.max(1))
                && at.and_then(|at| self.output.get(at..at.checked_add(bytes.len())?))
                    == Some(bytes)
        };
        if let Some(found) = known.chain(added).find(is_it) {
            return Some(found.offset.into());
        }
        let new = self.new.borrow();
        let mut new = new.iter().filter(|piece| piece.part == part);
        let found =
            new.find(|piece| piece.bytes == bytes && piece.offset.is_multiple_of(align.max(1)));
        found.map(|piece| piece.offset)
    }

    /// Adds a piece at the end of a part, whose pieces end at `end` and have room to `limit`. `None` if there is none.
    pub fn add_piece(
        &self,
        part: u32,
        end: u64,
        limit: u64,
        bytes: &[u8],
        align: u64,
    ) -> Option<u64> {
        let mut new = self.new.borrow_mut();
        let last = new.iter().rev().find(|piece| piece.part == part);
        let end = last.map_or(end, |piece| piece.offset + piece.bytes.len() as u64);
        let offset = end.next_multiple_of(align.max(1));
        let next = offset.checked_add(bytes.len() as u64)?;
        if next > limit || u32::try_from(offset).is_err() {
            return None;
        }
        new.push(AddedPiece {
            part,
            offset,
            bytes: bytes.to_vec(),
        });
        Some(offset)
    }

    /// The pieces that were added.
    pub fn take_new_pieces(&self) -> Vec<AddedPiece> {
        std::mem::take(&mut self.new.borrow_mut())
    }
}
