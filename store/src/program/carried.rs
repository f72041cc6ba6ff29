//! Where in the destination of a copy is what has been copied: so names are not hashed again for each compilation that has them,
//! and fragments are neither read nor looked up.
//!
//! Names and pieces have dense ids, so these are arrays; of a fragment it is an address.

use super::Result;
use super::adder::Adder;
use super::build::{Name, Piece};
use super::copy_check::Verified;
use super::encode::{self, Translation};
use super::fragment_view::{self, Id};
use super::view::Programs;
use crate::addresses::AddressMap;
use crate::engine::Known;
use format_spec::fragment::FragmentHeader;
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::program::Index;
use std::sync::Arc;

/// No name and no piece has this id: there is no room for so many.
const NONE: u32 = u32::MAX;

/// What of one file is where in another, and what of it is known to have its digest.
#[derive(Debug, Default)]
pub struct Carried {
    /// Device and inode number of the file that all this is about.
    source: Option<(u64, u64)>,
    /// The destination was empty before, so that it has no names and fragments but these.
    is_all: bool,
    /// By the source's ids.
    names: Vec<NameId>,
    pieces: Vec<PieceId>,
    fragments: AddressMap,
    verified: Arc<Verified>,
}

impl Carried {
    /// What is in an empty destination.
    pub(super) fn empty() -> Carried {
        Carried {
            is_all: true,
            ..Carried::default()
        }
    }

    /// What is known of a record of an index of the source that has not been copied: where the source has one of each key, it is not there.
    fn known(&self, source: &Programs<'_>, index: Index) -> Known {
        match self.is_all && !source.snapshot().has_replaced(index.slot()) {
            true => Known::Nowhere,
            false => Known::Nothing,
        }
    }

    /// Forgets all, if it is of another file than this.
    pub(super) fn of(&mut self, source: &Programs<'_>) {
        let identity = source.snapshot().store().identity();
        if self.source != Some(identity) {
            *self = Carried {
                source: Some(identity),
                is_all: self.is_all && self.source.is_none(),
                ..Carried::default()
            };
        }
    }

    /// What is known to have its digest.
    pub(super) fn verified(&self) -> &Arc<Verified> {
        &self.verified
    }

    /// What is known of ids; `fragments` are those that the translation's numbers of fragments stand for.
    pub(super) fn translation<'t>(&'t self, fragments: &'t [Address]) -> Translation<'t> {
        Translation {
            names: &self.names,
            pieces: &self.pieces,
            fragments,
        }
    }

    /// Where a fragment is, if it has been copied.
    pub(super) fn fragment(&self, address: Address) -> Option<Address> {
        self.fragments.get(address)
    }

    /// Copies a name, unless it has been.
    pub(super) fn name(
        &mut self,
        adder: &mut Adder<'_>,
        source: &Programs<'_>,
        id: NameId,
    ) -> Result<NameId> {
        let at = id.0 as usize;
        if let Some(known) = self.names.get(at).filter(|known| known.0 != NONE) {
            return Ok(*known);
        }
        let bytes = source.name(id)?;
        let known = match bytes {
            // It is in every file from the beginning.
            [] => Known::Nothing,
            _ => self.known(source, Index::Names),
        };
        let name = adder.name_if(bytes, known)?;
        if self.names.len() <= at {
            self.names.resize(at + 1, NameId(NONE));
        }
        self.names[at] = name;
        Ok(name)
    }

    /// Copies a piece, unless it has been.
    pub(super) fn piece(
        &mut self,
        adder: &mut Adder<'_>,
        source: &Programs<'_>,
        id: PieceId,
    ) -> Result<PieceId> {
        let at = id.0 as usize;
        if let Some(known) = self.pieces.get(at).filter(|known| known.0 != NONE) {
            return Ok(*known);
        }
        let view = source.piece(id)?;
        let name = self.name(adder, source, view.header.section_name)?;
        let piece = Piece {
            section_name: Name(0),
            sh_flags: view.header.sh_flags,
            entsize: view.header.entsize.into(),
            align_log2: view.header.align_log2,
            bytes: view.bytes,
        };
        let (piece, _) = adder.piece(&piece, &[name], Known::Nothing)?;
        if self.pieces.len() <= at {
            self.pieces.resize(at + 1, PieceId(NONE));
        }
        self.pieces[at] = piece;
        Ok(piece)
    }

    /// Copies a fragment as it is recorded, unless it has been copied; those that it refers to must have been.
    pub(super) fn copy_fragment(
        &mut self,
        adder: &mut Adder<'_>,
        source: &Programs<'_>,
        address: Address,
    ) -> Result<Address> {
        if let Some(known) = self.fragment(address) {
            return Ok(known);
        }
        let record = source.snapshot().record_at(address)?;
        let not_one = || source.damaged(address, "not a fragment");
        for id in fragment_view::ids(record.value).ok_or_else(not_one)? {
            match id {
                Id::Name(name) => drop(self.name(adder, source, name)?),
                Id::Piece(piece) => drop(self.piece(adder, source, piece)?),
            }
        }
        let others = fragment_view::anonymous(record.value).ok_or_else(not_one)?;
        let others: Option<Vec<Address>> =
            others.iter().map(|other| self.fragment(*other)).collect();
        let others = others.ok_or_else(|| source.damaged(address, "refers to a later fragment"))?;
        let translation = self.translation(&others);
        let known = self.known(source, Index::Fragments);
        let (new, _) = adder.insert(Index::Fragments, &record.key(), known, |out| {
            let start = out.len();
            out.extend_from_slice(record.value);
            number_anonymous(&mut out[start..]);
            encode::translate_fragment(&mut out[start..], translation)
        })?;
        self.fragments.insert(address, new);
        Ok(new)
    }
}

/// Puts the number of each anonymous fragment that a fragment's value refers to in the place of its address.
fn number_anonymous(value: &mut [u8]) {
    let header = value.get(..size_of::<FragmentHeader>());
    let header: Option<FragmentHeader> = header.map(bytemuck::pod_read_unaligned);
    let parts = header.and_then(|header| header.parts());
    let places = parts.and_then(|parts| value.get_mut(parts.anonymous));
    let places = places
        .unwrap_or_default()
        .chunks_exact_mut(size_of::<Address>());
    for (number, place) in (0..).zip(places) {
        place.copy_from_slice(bytemuck::bytes_of(&Address(number)));
    }
}
