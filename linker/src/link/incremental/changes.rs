//! What an incremental link tells the state.

use super::edited::Edited;
use super::holds::{self, HoldRecord};
use super::lists::ListChange;
use super::names::{Known, Names};
use super::pieces::AddedPiece;
use super::records::{Images, Range};
use super::state::{
    ADDED, ChunkRecord, Facts, FileRecord, FreeRecord, GroupRecord, List, MANY, MentionRecord,
    NONE, NameRecord, PartRecord, PieceRecord, PlaceRecord, State, Table, file, hash_piece, key_of,
};
use super::world::{NameAt, World};
use crate::base::ids::{SectionId, SymbolId};
use crate::base::key::rank;
use crate::elf::build_id::ChunkDigest;
use crate::layout::address_map::{Places, SymbolValue};
use crate::layout::got::{self, Slots};
use crate::resolve::symbol_facts::{Referred, SymbolFacts};
use rustc_hash::FxHashMap;

/// What the state must be told.
#[derive(Default)]
pub(super) struct Changes {
    pub files: Vec<FileChange>,
    /// What known names mean now.
    pub names: Vec<(NameAt, NameRecord)>,
    pub new_names: Vec<NameRecord>,
    /// For which names what is linked newly is linked.
    pub holds: Vec<HoldRecord>,
    /// The files that newly mention a name.
    pub mentions: Vec<(NameMention, u32)>,
    /// Those that newly define one.
    pub definitions: Vec<(NameMention, u32)>,
    pub pieces: Vec<AddedPiece>,
    pub groups: Vec<GroupRecord>,
    /// By part that has new chunks: where the next one would go.
    pub next: Vec<(u32, u64)>,
    pub facts: Option<Facts>,
    pub digests: Vec<ChunkDigest>,
    /// Slots that names have come to have.
    pub slots: Vec<Slots>,
    /// Lists of functions that are others now.
    pub lists: Vec<ListChange>,
    /// Ranges that are nobody's, if these are others now.
    pub free: Option<Vec<FreeRecord>>,
    /// Where the output has changed.
    pub stale: Vec<Range>,
}

/// Of which name there is a new mention.
#[derive(Clone, Copy)]
pub(super) enum NameMention {
    Known(NameAt),
    /// Index among the new names.
    New(usize),
}

/// What is new of a file.
pub(super) struct FileChange {
    pub file: u32,
    pub record: FileRecord,
    pub chunks: Vec<ChunkRecord>,
    pub places: Vec<PlaceRecord>,
}

impl Changes {
    /// Writes it down, of an output whose images are so now. `None` if there is no space.
    pub fn apply(self, state: &mut State, images: Option<Images>) -> Option<()> {
        for change in self.files {
            let old: &[FileRecord] = state.table(Table::Files);
            let old = *old.get(change.file as usize)?;
            let chunks = state.replace(old.chunks, &change.chunks)?;
            let places = state.replace(old.places, &change.places)?;
            let record = state.record_mut::<FileRecord>(Table::Files, change.file as usize)?;
            *record = FileRecord {
                chunks,
                places,
                ..change.record
            };
        }
        if !self.slots.is_empty() {
            state.extend(Table::Slots, &self.slots)?;
        }
        for list in &self.lists {
            list.apply(state)?;
        }
        if let Some(free) = &self.free {
            state.replace_table(Table::Free, free)?;
        }
        for (part, next) in self.next {
            let part = state.record_mut::<PartRecord>(Table::Parts, part as usize)?;
            part.next = next;
        }
        if let Some(facts) = self.facts {
            state.header_mut().facts = facts;
        }
        for (at, record) in self.names {
            *match at {
                NameAt::Table(index) => state.record_mut(Table::Names, index as usize)?,
                NameAt::Added(at) => state.record_at(at)?,
            } = record;
        }
        let new = self.new_names.into_iter();
        let new: Option<Vec<u64>> = new.map(|record| state.push(List::Names, record)).collect();
        let new = new?;
        let lists = [
            (List::Mentions, self.mentions),
            (List::Definitions, self.definitions),
        ];
        for (list, mentions) in lists {
            for (name, file) in mentions {
                let name = match name {
                    NameMention::Known(NameAt::Table(index)) => index.into(),
                    NameMention::Known(NameAt::Added(at)) => at | ADDED,
                    NameMention::New(index) => new.get(index)? | ADDED,
                };
                let mention = MentionRecord {
                    name,
                    file,
                    padding: 0,
                };
                state.push(list, mention)?;
            }
        }
        for hold in self.holds {
            state.push(List::Holds, hold)?;
        }
        for piece in self.pieces {
            let record = PieceRecord {
                hash: hash_piece(&piece.bytes),
                part: piece.part,
                offset: u32::try_from(piece.offset).ok()?,
            };
            state.push(List::Pieces, record)?;
            let part = state.record_mut::<PartRecord>(Table::Parts, piece.part as usize)?;
            part.next = part.next.max(piece.offset + piece.bytes.len() as u64);
        }
        for (index, digest) in self.digests.into_iter().enumerate() {
            *state.record_mut::<ChunkDigest>(Table::Digests, index)? = digest;
        }
        for record in self.groups {
            state.push(List::Groups, record)?;
        }
        state.note_images(&images?, &self.stale)
    }
}

impl Changes {
    /// Which slots names have come to have.
    pub fn note_grants(&mut self, names: &Names) {
        let slots = names.grants.iter().map(|(_, grant)| grant.slots);
        self.slots = slots.collect();
    }

    /// Which lists are others; who mentions their ends finds them where they are now.
    pub fn note_lists(&mut self, world: &World, lists: &[ListChange]) {
        for (name, end) in lists.iter().filter_map(ListChange::end) {
            let Some((at, record)) = world
                .name(name)
                .filter(|(_, record)| record.definer == NONE)
            else {
                continue;
            };
            match self.names.iter_mut().find(|(known, _)| *known == at) {
                Some((_, record)) => record.address = end,
                None => self.names.push((
                    at,
                    NameRecord {
                        address: end,
                        ..record
                    },
                )),
            }
        }
        self.lists = lists.to_vec();
    }

    /// What the names of the files mean now, and who mentions them newly. `ids` are the files' numbers in the state.
    pub fn note_names(
        &mut self,
        world: &World,
        places: &Places,
        names: &Names,
        values: &[SymbolValue],
        edited: &Edited,
        ids: &[u32],
    ) {
        let mut new_at: FxHashMap<SymbolId, usize> = FxHashMap::default();
        for known in &names.list {
            let value = values[known.symbol.index()];
            match (known.at, known.record) {
                (Some(at), Some(old)) => {
                    let mut record = old;
                    if let Some(own) = known.own {
                        record.address = value.address;
                        record.rank = places.symbols.key(known.symbol).rank() as u16;
                        record.definer = ids[own.index() - 1];
                        if record.definer != old.definer {
                            let definition = (NameMention::Known(at), record.definer);
                            self.definitions.push(definition);
                        }
                    }
                    if known.is_hidden && ids != [record.hidden_by] {
                        record.hidden_by = MANY;
                    }
                    record.facts |= match u64::from(old.rank) {
                        rank::NONE if known.own.is_some() => value.facts,
                        _ => value.facts.among(Referred::BY_OBJECT | Referred::STRONGLY),
                    };
                    if known.own.is_some() {
                        record.is_placed = is_placed(places, known.symbol).into();
                    }
                    if world.record(at) != Some(record) {
                        self.names.push((at, record));
                    }
                }
                (None, Some(mut record)) => {
                    // It is imported from now on, or others find it.
                    new_at.insert(known.symbol, self.new_names.len());
                    if let Some(own) = known.own {
                        let definition = NameMention::New(self.new_names.len());
                        record.address = value.address;
                        record.rank = places.symbols.key(known.symbol).rank() as u16;
                        record.definer = ids[own.index() - 1];
                        record.is_placed = is_placed(places, known.symbol).into();
                        record.hidden_by = hidden_by(known, ids);
                        self.definitions.push((definition, record.definer));
                    }
                    self.new_names.push(record);
                }
                _ => {
                    let Some(own) = known.own else { continue };
                    new_at.insert(known.symbol, self.new_names.len());
                    let definition = NameMention::New(self.new_names.len());
                    self.definitions.push((definition, ids[own.index() - 1]));
                    self.new_names.push(NameRecord {
                        key: key_of(places.symbols.name(known.symbol)),
                        address: value.address,
                        facts: value.facts,
                        slots: got::NONE,
                        definer: ids[own.index() - 1],
                        dynamic: 0,
                        rank: places.symbols.key(known.symbol).rank() as u16,
                        is_placed: is_placed(places, known.symbol).into(),
                        hidden_by: hidden_by(known, ids),
                    });
                }
            }
        }
        for at in &names.gone {
            if let Some(record) = world.record(*at) {
                // Slots that it had are nobody's from now on.
                let record = NameRecord {
                    definer: NONE,
                    rank: rank::NONE as u16,
                    is_placed: 0,
                    dynamic: 0,
                    slots: got::NONE,
                    // What shared objects say of it they say of whoever defines it next.
                    facts: record
                        .facts
                        .among(SymbolFacts::BY_SHARED | Referred::PLAINLY_BY_SHARED),
                    ..record
                };
                self.names.push((*at, record));
            }
        }
        self.names.extend(names.exports.names.iter().copied());
        self.note_mentions(world, places, names, &new_at, ids);
        self.note_holds(world, places, ids);
        self.holds.extend(holds::of_imports(world.state, edited));
    }

    fn note_holds(&mut self, world: &World, places: &Places, ids: &[u32]) {
        let known: &[FileRecord] = world.state.table(Table::Files);
        let is_new = |id: u32| {
            let record = known.get(id as usize);
            record.is_none_or(|record| record.bits & file::LINKED == 0)
        };
        if ids.iter().any(|id| is_new(*id)) {
            let files: Vec<_> = places.files.iter().skip(1).collect();
            self.holds = holds::of_drawn(&files, ids, places.symbols, is_new);
        }
    }

    fn note_mentions(
        &mut self,
        world: &World,
        places: &Places,
        names: &Names,
        new_at: &FxHashMap<SymbolId, usize>,
        ids: &[u32],
    ) {
        for ((_, file), id) in places.files.iter().skip(1).zip(ids) {
            for index in file.first_global()..file.symbol_count() {
                let symbol = places.symbols.of(file, index);
                let Some(known) = names.of(symbol) else {
                    continue;
                };
                match known.at {
                    Some(at) if !world.is_mentioned(at, *id) => {
                        self.mentions.push((NameMention::Known(at), *id));
                    }
                    Some(_) => {}
                    None => {
                        if let Some(new) = new_at.get(&symbol) {
                            self.mentions.push((NameMention::New(*new), *id));
                        }
                    }
                }
            }
        }
    }
}

/// Who says of a new name that it is not everybody's.
fn hidden_by(known: &Known, ids: &[u32]) -> u32 {
    match (known.is_hidden, ids) {
        (false, _) => NONE,
        (true, [only]) => *only,
        _ => MANY,
    }
}

fn is_placed(places: &Places, symbol: SymbolId) -> bool {
    match places.definitions.section(symbol) {
        SectionId::NONE => true,
        section => places.in_section(section, 0).is_some(),
    }
}
