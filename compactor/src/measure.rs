//! How large a compacted file would be, without making it: every record that would be copied, once.
//!
//! Each takes as many bytes as now, of a pack its share, but for compilations that are recorded as differences and would be whole. Names and
//! pieces are numbered from 0, so those that are in use are marked by their numbers.

use crate::damage::unless_damaged;
use crate::roots::Survey;
use crate::trace::Trace;
use anyhow::Result;
use format_spec::digest::Digest;
use format_spec::file::IndexSlot;
use format_spec::fragment::TargetKind;
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::program::{Index, SymbolRecord, Vector, has_envelopes};
use std::collections::HashSet;
use store::engine::Record;
use store::program::Programs;

/// What a record costs in its index: a word of a leaf, which is between half and all full, and its share of the nodes.
const INDEXED: u64 = 12;
/// What a numbered one costs beside: a word in a vector's leaf.
const NUMBERED: u64 = 8;
/// Header, state, and a transaction or two.
const FRAME: u64 = 8 << 10;
/// Head, key and check of a record with a whole key.
const RECORD: u64 = 8 + 32 + 4;

/// About how many bytes the compacted file would have.
///
/// # Errors
/// If an index is damaged.
pub fn bytes_after(programs: &Programs<'_>, survey: &Survey, trace: &Trace) -> Result<u64> {
    let mut meter = Meter::new(programs);
    for &address in survey.live.keys() {
        unless_damaged(meter.compilation(address))?;
    }
    let snapshot = programs.snapshot();
    for record in snapshot.iter(Index::Fragments.slot()) {
        if let Some(record) = unless_damaged(record.map_err(Into::into))?
            && trace.is_live(record.address)
        {
            meter.waiting.push(record.address);
        }
    }
    meter.follow()?;
    meter.files(survey)?;
    for index in IndexSlot::all().filter(|index| has_envelopes(*index)) {
        for record in snapshot.iter(index) {
            if let Some(record) = unless_damaged(record.map_err(Into::into))?
                && trace.is_live(record.address)
            {
                meter.enveloped(&record)?;
            }
        }
    }
    meter.numbered()?;
    Ok(meter.bytes)
}

/// Adds up what records take, each once.
pub(crate) struct Meter<'p, 's> {
    programs: &'p Programs<'s>,
    names: Used,
    pieces: Used,
    fragments: HashSet<Address>,
    /// Fragments that are in use and have not been looked at.
    waiting: Vec<Address>,
    bytes: u64,
}

/// Which numbers are in use.
struct Used {
    marks: Vec<bool>,
    /// Those whose records have not been added up yet.
    new: Vec<u32>,
}

impl Used {
    fn new(count: u64) -> Used {
        Used {
            marks: vec![false; count as usize],
            new: Vec::new(),
        }
    }

    fn mark(&mut self, number: u32) {
        if let Some(mark) = self.marks.get_mut(number as usize)
            && !std::mem::replace(mark, true)
        {
            self.new.push(number);
        }
    }
}

impl<'p, 's> Meter<'p, 's> {
    /// That of an empty file.
    pub fn new(programs: &'p Programs<'s>) -> Meter<'p, 's> {
        Meter {
            programs,
            names: Used::new(programs.name_count()),
            pieces: Used::new(programs.piece_count()),
            fragments: HashSet::new(),
            waiting: Vec::new(),
            bytes: FRAME,
        }
    }

    /// Adds the live records of tickets and images.
    ///
    /// # Errors
    /// If an index is damaged.
    pub fn files(&mut self, survey: &Survey) -> Result<()> {
        for ticket in survey.tickets.iter().filter(|ticket| ticket.gone.is_none()) {
            let size = RECORD + 16 + ticket.path.as_os_str().len() as u64;
            self.record(size.next_multiple_of(8));
        }
        for (path, _) in &survey.found {
            let size = RECORD + 16 + path.as_os_str().len() as u64;
            self.record(size.next_multiple_of(8));
        }
        let images = survey.images.iter().filter(|(_, _, gone)| gone.is_none());
        let images: HashSet<Digest> = images.map(|(key, _, _)| *key).collect();
        for record in self.programs.records(Index::Images) {
            if let Some(record) = unless_damaged(record)?
                && images.contains(&record.key())
                && let Some(image) = unless_damaged(self.programs.image(&record))?
            {
                image.inputs.iter().for_each(|input| self.name(input.path));
                self.record(self.stored(record.address, record.size()));
            }
        }
        Ok(())
    }

    /// Adds what was found to be live: compilations, fragments, and records in envelopes. What is damaged takes nothing.
    /// Gives how many bytes there are now.
    ///
    /// # Errors
    /// If an index is damaged.
    pub fn add(&mut self, found: &[Address]) -> Result<u64> {
        for &address in found {
            let record = self.programs.snapshot().record_at(address);
            let Some(record) = unless_damaged(record.map_err(Into::into))? else {
                continue;
            };
            match record.index() {
                Some(index) if index == Index::Compilations.slot() => {
                    unless_damaged(self.compilation(address))?;
                }
                Some(index) if index == Index::Fragments.slot() => self.waiting.push(address),
                Some(index) if has_envelopes(index) => self.enveloped(&record)?,
                _ => {}
            }
        }
        self.follow()?;
        self.numbered()?;
        Ok(self.bytes)
    }

    fn enveloped(&mut self, record: &Record<'s>) -> Result<()> {
        if let Some(envelope) = unless_damaged(self.programs.envelope(record))? {
            envelope.names.iter().for_each(|name| self.name(*name));
            envelope.pieces.iter().for_each(|piece| self.piece(*piece));
            self.record(self.stored(record.address, record.size()));
        }
        Ok(())
    }

    /// How many bytes of the file the record at `address` stands for, which would have `size` by itself. (What is damaged is left out elsewhere.)
    fn stored(&self, address: Address, size: u64) -> u64 {
        match self.programs.snapshot().pack_of(address) {
            Ok(Some(pack)) => size * pack.stored / pack.unpacked.max(1),
            _ => size,
        }
    }

    fn record(&mut self, size: u64) {
        self.bytes += size + INDEXED;
    }

    fn name(&mut self, name: NameId) {
        self.names.mark(name.0);
    }

    fn piece(&mut self, piece: PieceId) {
        self.pieces.mark(piece.0);
    }

    fn compilation(&mut self, address: Address) -> store::program::Result<()> {
        let view = self.programs.compilation_at(address)?;
        // What is recorded whole is copied as it is, compressed or not; of a difference it is not known how small it gets.
        self.record(match view.base() {
            Some(_) => RECORD + view.size() as u64,
            None => self.stored(view.record().address, view.record().size()),
        });
        for member in view.members() {
            self.waiting.push(member.fragment);
            self.name(member.suffix);
        }
        for symbol in view.symbols() {
            self.name(symbol.name);
            if symbol.bits & SymbolRecord::PIECE != 0 {
                self.piece(PieceId(symbol.section));
            }
        }
        view.groups()
            .iter()
            .for_each(|group| self.name(group.signature));
        Ok(())
    }

    /// Looks at the fragments that are waiting, and at those that they refer to.
    fn follow(&mut self) -> Result<()> {
        while let Some(address) = self.waiting.pop() {
            if self.fragments.insert(address) {
                unless_damaged(self.fragment(address))?;
            }
        }
        Ok(())
    }

    fn fragment(&mut self, address: Address) -> store::program::Result<()> {
        let view = self.programs.fragment(address)?;
        self.record(self.stored(address, view.record().size()));
        self.waiting.extend(view.anonymous());
        for section in view.sections() {
            self.name(section.record.name);
        }
        for target in view.targets() {
            match target.kind() {
                Some(TargetKind::Global | TargetKind::Local | TargetKind::OwnNamed) => {
                    self.name(NameId(target.value()));
                }
                Some(TargetKind::Piece) => self.piece(PieceId(target.value())),
                _ => {}
            }
        }
        Ok(())
    }

    /// The pieces and names that are in use.
    fn numbered(&mut self) -> Result<()> {
        for number in std::mem::take(&mut self.pieces.new) {
            if let Some(piece) = unless_damaged(self.programs.piece(PieceId(number)))? {
                let size = self.stored(piece.record.address, piece.record.size());
                self.record(size + NUMBERED);
                self.name(piece.header.section_name);
            }
        }
        for number in std::mem::take(&mut self.names.new) {
            if let Some(name) = unless_damaged(self.programs.name(NameId(number)))? {
                // Head, short key, number and check.
                let size = (8 + 8 + 4 + 4 + name.len() as u64).next_multiple_of(8);
                let address = self
                    .programs
                    .snapshot()
                    .vector_get(Vector::Names.slot(), number);
                let size = match address {
                    Ok(Some(address)) => self.stored(address, size),
                    _ => size,
                };
                self.record(size + NUMBERED);
            }
        }
        Ok(())
    }
}
