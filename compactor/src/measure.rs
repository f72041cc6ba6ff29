//! How large a compacted file would be, without making it: every record that would be copied, once.
//!
//! Each takes as many bytes as now, but for compilations that are recorded as differences and would be whole. Names and
//! pieces are numbered from 0, so those that are in use are marked by their numbers.

use crate::damage::unless_damaged;
use crate::roots::Survey;
use crate::trace::Trace;
use anyhow::Result;
use format_spec::digest::Digest;
use format_spec::file::IndexSlot;
use format_spec::fragment::TargetKind;
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::program::{Index, SymbolRecord, has_envelopes};
use std::collections::HashSet;
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
    let mut meter = Meter {
        programs,
        names: vec![false; programs.name_count() as usize],
        pieces: vec![false; programs.piece_count() as usize],
        fragments: HashSet::new(),
        waiting: Vec::new(),
        bytes: FRAME,
    };
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
    for ticket in survey.tickets.iter().filter(|ticket| ticket.gone.is_none()) {
        meter.record(RECORD + 16 + ticket.path.as_os_str().len() as u64);
    }
    for (path, _) in &survey.found {
        meter.record(RECORD + 16 + path.as_os_str().len() as u64);
    }
    let images = survey.images.iter().filter(|(_, _, gone)| gone.is_none());
    let images: HashSet<Digest> = images.map(|(key, _, _)| *key).collect();
    for record in programs.records(Index::Images) {
        if let Some(record) = unless_damaged(record)?
            && images.contains(&record.key())
            && let Some(image) = unless_damaged(programs.image(&record))?
        {
            image.inputs.iter().for_each(|input| meter.name(input.path));
            meter.record(record.size());
        }
    }
    for index in IndexSlot::all().filter(|index| has_envelopes(*index)) {
        for record in snapshot.iter(index) {
            if let Some(record) = unless_damaged(record.map_err(Into::into))?
                && trace.is_live(record.address)
                && let Some(envelope) = unless_damaged(programs.envelope(&record))?
            {
                envelope.names.iter().for_each(|name| meter.name(*name));
                envelope.pieces.iter().for_each(|piece| meter.piece(*piece));
                meter.record(record.size());
            }
        }
    }
    meter.numbered()?;
    Ok(meter.bytes)
}

struct Meter<'p, 's> {
    programs: &'p Programs<'s>,
    /// By number: whether it is in use.
    names: Vec<bool>,
    pieces: Vec<bool>,
    fragments: HashSet<Address>,
    /// Fragments that are in use and have not been looked at.
    waiting: Vec<Address>,
    bytes: u64,
}

impl Meter<'_, '_> {
    fn record(&mut self, size: u64) {
        self.bytes += size.next_multiple_of(8) + INDEXED;
    }

    fn name(&mut self, name: NameId) {
        if let Some(used) = self.names.get_mut(name.0 as usize) {
            *used = true;
        }
    }

    fn piece(&mut self, piece: PieceId) {
        if let Some(used) = self.pieces.get_mut(piece.0 as usize) {
            *used = true;
        }
    }

    fn compilation(&mut self, address: Address) -> store::program::Result<()> {
        let view = self.programs.compilation_at(address)?;
        // What is recorded whole is copied as it is, compressed or not; of a difference it is not known how small it gets.
        self.record(match view.base() {
            Some(_) => RECORD + view.size() as u64,
            None => view.record().size(),
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
        self.record(view.record().size());
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
        let used = |marks: &[bool]| -> Vec<u32> {
            let numbers = (0..).zip(marks).filter(|(_, used)| **used);
            numbers.map(|(number, _)| number).collect()
        };
        for number in used(&self.pieces) {
            if let Some(piece) = unless_damaged(self.programs.piece(PieceId(number)))? {
                self.record(piece.record.size() + NUMBERED);
                self.name(piece.header.section_name);
            }
        }
        for number in used(&self.names) {
            if let Some(name) = unless_damaged(self.programs.name(NameId(number)))? {
                // Head, short key, number and check.
                self.record(8 + 8 + 4 + 4 + name.len() as u64 + NUMBERED);
            }
        }
        Ok(())
    }
}
