//! Copying programs from one repository into another: how a compactor makes a new
//! file.
//!
//! Addresses and dense ids differ between the two, so these are translated; all else of a record stays as it is recorded. What is there already
//! is known from its address ([`Carried`]), or found by its digest. All digests are computed again of what is
//! read ([`Checker`]): damage is found here and never copied. What is copied is one transaction, or several,
//! as the caller likes ([`Copier::commit_and_go_on`]).
//!
//! Records in envelopes are copied without a look into their bodies: what they refer to is in lists, which are translated.
//! Which of them are live, and where what they refer to is now, is for the caller to know.

use super::adder::Adder;
use super::carried::Carried;
use super::copy_check::{Checked, Checker, Verified};
use super::encode::{self, CompilationValue};
use super::outputs::ImageView;
use super::view::{self, Programs, TicketView};
use super::{ProgramError, Repository, Result, recorded, replace_enveloped};
use crate::engine::{Durability, Known, Reader, Record};
use format_spec::digest::Digest;
use format_spec::envelope::{Envelope, Reference};
use format_spec::file::{Features, IndexSlot, VectorSlot};
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::program::{
    ImageHeader, ImageInputRecord, Index, NameHeader, PieceHeader, SymbolRecord, TicketHeader,
    Vector, name_key, piece_key,
};
use std::mem::offset_of;
use std::sync::Arc;

/// Adds what it is given to one repository, and commits it at the end.
pub struct Copier<'d> {
    adder: Adder<'d>,
    carried: Carried,
    /// A compilation's value; keeps its memory.
    value: Vec<u8>,
}

impl<'d> Copier<'d> {
    /// Copies into `destination`, whose write lock it takes; its commit waits for what `durability` says.
    ///
    /// # Errors
    /// If the destination cannot be written or is damaged.
    pub fn new(destination: &'d Repository, durability: Durability) -> Result<Copier<'d>> {
        let mut transaction = destination.store().begin(durability)?;
        let mut carried = Carried::default();
        if transaction.base().revision() == 0 {
            transaction.fill_leaves();
            carried = Carried::empty();
        }
        Ok(Copier {
            adder: Adder::new(transaction)?,
            carried,
            value: Vec::new(),
        })
    }

    /// Packs what is small enough for that (SPEC 5), if `source` is a small repository that does.
    pub fn pack_as(&mut self, source: &Programs<'_>) {
        if encode::packs(&source.snapshot()) {
            self.adder.transaction.pack();
        }
    }

    /// Goes on from what earlier ones have copied, and [committed](Self::commit), into the same destination.
    pub fn follow(&mut self, carried: Carried) {
        self.carried = carried;
    }

    /// What of the source is known to have its digest, for who checks what is to be copied.
    pub fn verified(&mut self, source: &Programs<'_>) -> Arc<Verified> {
        self.carried.of(source);
        self.carried.verified().clone()
    }

    /// Copies the compilation at `address` with all that it is made of, and returns where it is now.
    ///
    /// # Errors
    /// [`ProgramError::Damaged`] if its content does not have its digest; and what
    /// comes from reading the source and writing the destination.
    pub fn compilation(&mut self, source: &Programs<'_>, address: Address) -> Result<Address> {
        let digest = source.snapshot().record_at(address)?.key();
        if let Some(known) = self.find(Index::Compilations.slot(), &digest)? {
            return Ok(known);
        }
        let verified = self.verified(source);
        let checked = Checker::new(source, &verified).compilation(address)?;
        self.checked(source, &checked)
    }

    /// Adds a compilation of `source` that was checked, with all that it is made of, and returns where it is now.
    ///
    /// # Errors
    /// What comes from reading the source and writing the destination.
    pub fn checked<'s>(&mut self, source: &Programs<'s>, checked: &Checked<'s>) -> Result<Address> {
        self.carried.of(source);
        let (adder, carried) = (&mut self.adder, &mut self.carried);
        for fragment in checked.fragments() {
            carried.copy_fragment(adder, source, *fragment)?;
        }
        let view = checked.view(source)?;
        let mut fragments = Vec::with_capacity(view.members().len());
        for member in view.members() {
            // It is one of those above.
            fragments.push(carried.fragment(member.fragment).unwrap_or_default());
            carried.name(adder, source, member.suffix)?;
        }
        for symbol in view.symbols() {
            carried.name(adder, source, symbol.name)?;
            if symbol.bits & SymbolRecord::PIECE != 0 {
                carried.piece(adder, source, PieceId(symbol.section))?;
            }
        }
        for group in view.groups() {
            carried.name(adder, source, group.signature)?;
        }
        for shape in view.shapes() {
            carried.name(adder, source, shape.name)?;
        }
        for piece in view.pieces() {
            carried.piece(adder, source, *piece)?;
        }
        let translation = carried.translation(&fragments);
        CompilationValue::of_view(&view).translate(translation, &mut self.value);
        // As it was: how much of the source is left, and so how large what it is copied to becomes, is not known here.
        let compressed = match source.is_compressed(&checked.record())? {
            true => recorded::compressed(&self.value),
            false => None,
        };
        let value = compressed.as_ref().unwrap_or(&self.value);
        let key = checked.record().key();
        let (address, _) = adder.insert(Index::Compilations, &key, Known::Nothing, |out| {
            out.extend_from_slice(value);
            Ok(())
        })?;
        Ok(address)
    }

    /// Copies the record of a ticket, which names the compilation that is now at
    /// `compilation` in the destination.
    ///
    /// # Errors
    /// If the destination cannot be written.
    pub fn ticket(&mut self, ticket: &TicketView<'_>, compilation: Address) -> Result<Address> {
        let header = TicketHeader {
            compilation,
            written: ticket.header.written,
        };
        let mut value = bytemuck::bytes_of(&header).to_vec();
        value.extend_from_slice(ticket.path);
        self.replace(Index::Tickets, &Digest::of(ticket.path), &value)
    }

    /// Copies a fragment that no compilation need have, with what it is made of, and returns where it is now.
    ///
    /// # Errors
    /// As above.
    pub fn fragment(&mut self, source: &Programs<'_>, address: Address) -> Result<Address> {
        let verified = self.verified(source);
        let all = Checker::new(source, &verified).fragment(address)?;
        for fragment in all {
            (self.carried).copy_fragment(&mut self.adder, source, fragment)?;
        }
        let copied = self.carried.fragment(address);
        copied.ok_or_else(|| damaged(source, address, "not a fragment"))
    }

    /// Copies pieces, and returns what ids they have now, in the same order.
    ///
    /// # Errors
    /// As above.
    pub fn pieces(&mut self, source: &Programs<'_>, pieces: &[PieceId]) -> Result<Vec<PieceId>> {
        self.carried.of(source);
        let mut ids = Vec::with_capacity(pieces.len());
        for &id in pieces {
            let piece = source.piece(id)?;
            let key = piece_key(&source.snapshot().store().uuid(), piece.header, piece.bytes);
            if !piece.record.has_key(&key) {
                let what = "a piece's content does not have its key";
                return Err(damaged(source, piece.record.address, what));
            }
            ids.push(self.carried.piece(&mut self.adder, source, id)?);
        }
        Ok(ids)
    }

    /// The id of a name in the destination, to which it is copied.
    ///
    /// # Errors
    /// As above.
    pub fn name(&mut self, source: &Programs<'_>, name: NameId) -> Result<NameId> {
        self.carried.of(source);
        self.carried.name(&mut self.adder, source, name)
    }

    /// Copies a record whose content is all that it is: a name, a piece, a fragment or a compilation. Returns where it is now;
    /// `None` if it is of another index.
    ///
    /// # Errors
    /// As above.
    pub fn content(
        &mut self,
        source: &Programs<'_>,
        record: &Record<'_>,
    ) -> Result<Option<Address>> {
        let id = |place: usize| {
            let bytes = record.value.get(place..place + size_of::<u32>());
            let bytes =
                bytes.ok_or_else(|| damaged(source, record.address, "the record is cut off"))?;
            Ok::<u32, ProgramError>(bytemuck::pod_read_unaligned(bytes))
        };
        Ok(match record.index().and_then(Index::at) {
            Some(Index::Names) => {
                let id = self.name(source, NameId(id(offset_of!(NameHeader, id))?))?;
                (self.adder.transaction).vector_get(Vector::Names.slot(), id.0)?
            }
            Some(Index::Pieces) => {
                let ids = self.pieces(source, &[PieceId(id(offset_of!(PieceHeader, id))?)])?;
                let id = ids.first().copied().unwrap_or_default();
                (self.adder.transaction).vector_get(Vector::Pieces.slot(), id.0)?
            }
            Some(Index::Fragments) => Some(self.fragment(source, record.address)?),
            Some(Index::Compilations) => Some(self.compilation(source, record.address)?),
            _ => None,
        })
    }

    /// Copies a record with its envelope; `references` are those of the envelope, as they are to be in the destination.
    ///
    /// # Errors
    /// As above.
    pub fn enveloped(
        &mut self,
        source: &Programs<'_>,
        record: &Record<'_>,
        envelope: &Envelope<'_>,
        references: &[Reference],
    ) -> Result<Address> {
        let index =
            (record.index()).ok_or_else(|| damaged(source, record.address, "is in no index"))?;
        let mut names = Vec::with_capacity(envelope.names.len());
        for name in envelope.names {
            names.push(self.name(source, *name)?);
        }
        let pieces = match envelope.pieces {
            [] => Vec::new(),
            pieces => self.pieces(source, pieces)?,
        };
        let envelope = Envelope {
            references,
            names: &names,
            pieces: &pieces,
            ..*envelope
        };
        replace_enveloped(&mut self.adder.transaction, index, &record.key(), &envelope)
    }

    /// Adds an element to the end of a vector.
    ///
    /// # Errors
    /// If there is no room for it.
    pub fn push(&mut self, vector: VectorSlot, element: Address) -> Result<()> {
        self.adder.transaction.push(vector, element)?;
        Ok(())
    }

    /// Sets features of the destination.
    pub fn require(&mut self, features: Features) {
        self.adder.transaction.require(features);
    }

    /// Copies an image and the compilations that are its inputs.
    ///
    /// # Errors
    /// As above.
    pub fn image(&mut self, source: &Programs<'_>, view: &ImageView<'_>) -> Result<Address> {
        let header: ImageHeader = *view.header;
        let mut value = bytemuck::bytes_of(&header).to_vec();
        align(&mut value);
        value.extend_from_slice(view.path);
        align(&mut value);
        for input in view.inputs {
            let compilation = match input.compilation {
                Address(0) => Address(0),
                address => self.compilation(source, address)?,
            };
            let input = ImageInputRecord {
                compilation,
                path: self.name(source, input.path)?,
                reserved: 0,
            };
            value.extend_from_slice(bytemuck::bytes_of(&input));
        }
        self.replace(Index::Images, &view.record.key(), &value)
    }

    /// How much the transaction has that is not committed: records and elements of vectors.
    pub fn added(&self) -> usize {
        self.adder.transaction.added()
    }

    /// Says that there will be about so many records in an index ([`Transaction::expect`](crate::engine::Transaction::expect)).
    pub fn expect(&mut self, index: IndexSlot, records: u64) {
        self.adder.transaction.expect(index, records);
    }

    /// Commits, waiting for nothing, and goes on in the next transaction. Other writers are kept waiting all the while.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn commit_and_go_on(self) -> Result<Copier<'d>> {
        let transaction = self.adder.transaction.commit_and_go_on()?;
        Ok(Copier {
            adder: Adder::new(transaction)?,
            ..self
        })
    }

    /// Commits. Returns what is copied now, for the next one to [follow](Self::follow).
    ///
    /// # Errors
    /// If it cannot be written: then nothing was added.
    pub fn commit(self) -> Result<Carried> {
        self.adder.transaction.commit()?;
        Ok(self.carried)
    }

    /// Where the record of a key is in the destination.
    ///
    /// # Errors
    /// If the destination is damaged.
    pub fn find(&self, index: IndexSlot, key: &Digest) -> Result<Option<Address>> {
        let found: Option<Record<'_>> = self.adder.transaction.get(index, key)?;
        Ok(found.map(|record| record.address))
    }

    /// Where a record is in the destination whose content is all that it is: a name, a piece, a fragment or a compilation.
    ///
    /// # Errors
    /// If the source or the destination is damaged.
    pub fn find_content(
        &self,
        source: &Programs<'_>,
        index: IndexSlot,
        record: &Record<'_>,
    ) -> Result<Option<Address>> {
        let transaction = &self.adder.transaction;
        let uuid = transaction.base().store().uuid();
        let find_name = |bytes: &[u8]| {
            let key = name_key(&uuid, bytes);
            transaction.find(Index::Names.slot(), &key, |found| {
                view::is_name(found, bytes)
            })
        };
        let found = match Index::at(index) {
            Some(Index::Names) => {
                let id = view::name_id(record);
                let id = id.ok_or_else(|| damaged(source, record.address, "not a name"))?;
                find_name(source.name(id)?)?
            }
            Some(Index::Pieces) => {
                let id = view::piece_id(record);
                let id = id.ok_or_else(|| damaged(source, record.address, "not a piece"))?;
                let piece = source.piece(id)?;
                let name = find_name(source.name(piece.header.section_name)?)?;
                let Some(section_name) = name.and_then(|name| view::name_id(&name)) else {
                    return Ok(None);
                };
                let header = PieceHeader {
                    section_name,
                    ..*piece.header
                };
                let key = piece_key(&uuid, &header, piece.bytes);
                transaction.find(index, &key, |found| {
                    view::is_piece(found, &header, piece.bytes)
                })?
            }
            _ => transaction.get(index, &record.key())?,
        };
        Ok(found.map(|found| found.address))
    }

    fn replace(&mut self, index: Index, digest: &Digest, value: &[u8]) -> Result<Address> {
        let transaction = &mut self.adder.transaction;
        Ok(transaction.replace(index.slot(), digest, value)?)
    }
}

fn damaged(source: &Programs<'_>, address: Address, what: &'static str) -> ProgramError {
    ProgramError::Damaged {
        path: source.snapshot().store().path().to_owned(),
        address,
        what,
    }
}

pub(super) fn align(value: &mut Vec<u8>) {
    value.resize(value.len().next_multiple_of(8), 0);
}
