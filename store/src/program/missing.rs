//! A compilation that is being added: what of it is there already, how far it has come, and the values of what is to be inserted as they
//! will be recorded. All of that is found out and made without the lock.

use super::addition::Added;
use super::build::Piece;
use super::encode::{self, CompilationValue, Form, Translation};
use super::look::{Look, Numbers, look};
use super::prepare::Prepared;
use super::view::{self, Programs};
use super::{ProgramError, Result, difference, recorded};
use crate::engine::{Record, Snapshot};
use format_spec::digest::Digest;
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::program::{Index, PieceHeader, name_key, piece_key};
use std::ops::Range;

/// What is known of a compilation that is being added.
pub(super) enum State<'p> {
    /// It is there.
    There(Address),
    /// It was not when it was looked up.
    Missing(Box<Missing<'p>>),
}

impl<'p> State<'p> {
    /// Looks for a compilation and its parts, and makes what is to be inserted.
    pub(super) fn of(programs: &Programs<'_>, prepared: &'p Prepared<'_>) -> Result<State<'p>> {
        let snapshot = programs.snapshot();
        let form = prepared.form(snapshot.size());
        let mut missing = Missing::new(prepared, form, &snapshot.store().uuid());
        let are_certain = missing.look(&snapshot)?;
        let all_there = missing.names.missing.is_empty()
            && missing.pieces.missing.is_empty()
            && missing.fragments.missing.is_empty();
        let index = Index::Compilations.slot();
        let known = look(&snapshot, index, &prepared.digest, |_| true)?;
        // What is recorded as a difference is there if its base is.
        let opens = |known: &Record<'_>| match recorded::is_made(known.value) {
            false => Ok(true),
            true => view::is_there(programs.compilation_at(known.address)),
        };
        match known {
            Look::There(known) if all_there && opens(&known)? => {
                return Ok(State::There(known.address));
            }
            Look::There(_) => missing.is_damaged = true,
            Look::Absent if are_certain => missing.absent_in = Some(snapshot.revision()),
            Look::Absent | Look::Unsure => {}
        }
        missing.values = Values::compressed(prepared, form, &missing.fragments.missing)?;
        Ok(State::Missing(Box::new(missing)))
    }
}

/// A compilation that is being added, and how far that has come.
pub(super) struct Missing<'p> {
    pub(super) prepared: &'p Prepared<'p>,
    /// In which form what is missing is recorded.
    pub(super) form: Form,
    /// It is there, but not all that it is made of is as it was written.
    pub(super) is_damaged: bool,
    /// The revision in which all that is missing was certainly absent, if it was, but for what this writer has added.
    pub(super) absent_in: Option<u64>,
    pub(super) names: Numbers<NameId>,
    pub(super) pieces: Numbers<PieceId>,
    pub(super) fragments: Numbers<Address>,
    /// Values of the fragments that are missing.
    values: Values,
    value: CompilationValue<'p>,
    /// The compilation's value, once all that it is made of is there.
    pub(super) made: Option<Made>,
    /// What it may be recorded as a difference to.
    pub(super) base: Option<Address>,
    pub(super) added: Added,
}

/// A compilation's value.
pub(super) struct Made {
    /// As it is read.
    pub(super) plain: Vec<u8>,
    /// As a difference, or compressed, if it is to be recorded so.
    pub(super) other: Option<Vec<u8>>,
}

impl Made {
    /// As it is to be recorded.
    pub(super) fn recorded(&self) -> &[u8] {
        self.other.as_ref().unwrap_or(&self.plain)
    }
}

/// Values of fragments that are recorded otherwise than [`Prepared::value`] has them.
#[derive(Default)]
struct Values {
    bytes: Vec<u8>,
    /// By the place in the list of those that are missing.
    of: Vec<Range<usize>>,
}

impl Values {
    /// Those of `fragments`, if some are to be compressed.
    fn compressed(prepared: &Prepared<'_>, form: Form, fragments: &[u32]) -> Result<Values> {
        let mut values = Values::default();
        if form == Form::Plain {
            return Ok(values);
        }
        values.of.reserve(fragments.len());
        let form_of = |number: u32| prepared.form_of(number as usize, form);
        let is_compressible = |number: u32| {
            encode::is_compressible(&prepared.compilation, number as usize, form_of(number))
        };
        // None becomes larger by that, but while it is made.
        let plain = |number: &u32| match is_compressible(*number) {
            true => prepared.value(*number as usize).len(),
            false => 0,
        };
        values.bytes.reserve(fragments.iter().map(plain).sum());
        for &number in fragments {
            values
                .bytes
                .resize(values.bytes.len().next_multiple_of(8), 0);
            let start = values.bytes.len();
            if is_compressible(number) {
                prepared.encode(number as usize, form_of(number), &mut values.bytes)?;
            }
            values.of.push(start..values.bytes.len());
        }
        Ok(values)
    }
}

impl<'p> Missing<'p> {
    /// None of the parts is known; `uuid` is the repository's.
    pub(super) fn new(prepared: &'p Prepared<'_>, form: Form, uuid: &[u8; 16]) -> Missing<'p> {
        let compilation = &prepared.compilation;
        let all = |count: usize| 0..count as u32;
        let names = compilation.names.iter().map(|name| name_key(uuid, name));
        let names: Vec<Digest> = names.collect();
        let pieces = compilation.pieces.len();
        let order = compilation.digest_order.iter().copied();
        Missing {
            prepared,
            form,
            is_damaged: false,
            absent_in: None,
            names: Numbers::unknown(all(names.len()), names),
            pieces: Numbers::unknown(all(pieces), vec![Digest([0; 32]); pieces]),
            fragments: Numbers::unknown(order, prepared.fragments.clone()),
            values: Values::default(),
            value: CompilationValue::new(compilation),
            made: None,
            base: None,
            added: Added {
                digest: Some(prepared.digest),
                is_new: true,
                ..Added::default()
            },
        }
    }

    /// Looks for the parts. Whether all that are missing then are absent for certain.
    fn look(&mut self, snapshot: &Snapshot<'_>) -> Result<bool> {
        let compilation = &self.prepared.compilation;
        let uuid = snapshot.store().uuid();
        let index = Index::Names.slot();
        self.names.look_for(snapshot, index, |number, key| {
            let name = compilation.names[number];
            let found = look(snapshot, index, key, |record| view::is_name(record, name))?;
            Ok(found.and_then(|record| view::name_id(&record)))
        })?;
        let is_known = self.names.known();
        let mut headers = Vec::with_capacity(compilation.pieces.len());
        for (piece, key) in compilation.pieces.iter().zip(&mut self.pieces.keys) {
            let name = piece.section_name.0 as usize;
            // There is no piece with a name that is not there.
            let header = match is_known[name] {
                true => Some(piece_header(piece, self.names.of[name], PieceId(0))?),
                false => None,
            };
            if let Some(header) = &header {
                *key = piece_key(&uuid, header, piece.bytes);
            }
            headers.push(header);
        }
        let index = Index::Pieces.slot();
        self.pieces.look_for(snapshot, index, |number, key| {
            let (Some(header), piece) = (&headers[number], &compilation.pieces[number]) else {
                return Ok(Look::Absent);
            };
            let is_it = |record: &Record<'_>| view::is_piece(record, header, piece.bytes);
            let found = look(snapshot, index, key, is_it)?;
            Ok(found.and_then(|record| view::piece_id(&record)))
        })?;
        let index = Index::Fragments.slot();
        self.fragments.look_for(snapshot, index, |_, key| {
            let found = look(snapshot, index, key, |_| true)?;
            Ok(found.and_then(|record| Some(record.address)))
        })?;
        self.added.shared_pieces = (self.pieces.of.len() - self.pieces.missing.len()) as u32;
        self.added.shared_fragments =
            (self.fragments.of.len() - self.fragments.missing.len()) as u32;
        Ok(self.names.is_certain && self.pieces.is_certain && self.fragments.is_certain)
    }

    /// Appends the value of the fragment that is to be added next, as it is to be recorded.
    pub(super) fn append_fragment(&self, number: usize, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        let form = self.prepared.form_of(number, self.form);
        match self.values.of.get(self.fragments.done) {
            Some(range) if !range.is_empty() => {
                out.extend_from_slice(&self.values.bytes[range.clone()]);
            }
            // Not made before: nobody waits for the lock.
            None if encode::is_compressible(&self.prepared.compilation, number, form) => {
                self.prepared.encode(number, form, out)?;
            }
            _ => out.extend_from_slice(self.prepared.value(number)),
        }
        encode::translate_fragment(&mut out[start..], self.translation())
    }

    /// The ids and addresses that are known by now.
    pub(super) fn translation(&self) -> Translation<'_> {
        Translation {
            names: &self.names.of,
            pieces: &self.pieces.of,
            fragments: &self.fragments.of,
        }
    }

    /// Whether all that the compilation is made of is there.
    fn has_parts(&self) -> bool {
        self.names.next().is_none()
            && self.pieces.next().is_none()
            && self.fragments.next().is_none()
    }

    /// Bytes of the compilation's value.
    pub(super) fn size(&self) -> usize {
        self.value.size()
    }

    /// Makes the compilation's value, if all that it is made of is there and it is not made yet: as a difference to its base, if that is
    /// worth it, or whole, or compressed.
    pub(super) fn make(&mut self, programs: &Programs<'_>) {
        if self.made.is_some() || !self.has_parts() {
            return;
        }
        let translation = Translation {
            names: &self.names.of,
            pieces: &self.pieces.of,
            fragments: &self.fragments.of,
        };
        let mut plain = Vec::new();
        self.value.translate(translation, &mut plain);
        let mut other = None;
        // What is there will not be recorded again.
        if !self.is_damaged {
            other = self
                .base
                .and_then(|base| difference_to(programs, base, &plain));
            if other.is_none() && self.form.of_value(plain.len()) == Form::Compressed {
                other = recorded::compressed(&plain);
            }
        }
        self.made = Some(Made { plain, other });
    }
}

/// The compilation whose value is `plain` as a difference to that at `base`, if that is worth it.
pub(super) fn difference_to(
    programs: &Programs<'_>,
    base: Address,
    plain: &[u8],
) -> Option<Vec<u8>> {
    let (base, value) = programs.base_for_successor(base)?;
    difference::difference(base, value, plain)
}

/// The head of a piece's value.
pub(super) fn piece_header(
    piece: &Piece<'_>,
    section_name: NameId,
    id: PieceId,
) -> Result<PieceHeader> {
    let entsize = u16::try_from(piece.entsize);
    Ok(PieceHeader {
        section_name,
        sh_flags: piece.sh_flags,
        id,
        entsize: entsize
            .map_err(|_| ProgramError::malformed("a piece's elements are too large"))?,
        align_log2: piece.align_log2,
        reserved: 0,
    })
}
