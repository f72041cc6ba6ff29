//! Copying programs from one repository into another: how a compactor makes a new
//! file.
//!
//! Addresses and dense ids differ between the two, so everything is read back into
//! memory and added anew, name by name, piece by piece, fragment by fragment; what is
//! there already is found by its digest. All digests are computed again from what was
//! read: damage is found here and never copied. Everything is one transaction.

use super::add::Adder;
use super::outputs::{ImageView, TypeView};
use super::prepare::Prepared;
use super::view::{CompilationView, Programs, TicketView};
use super::{ProgramError, Repository, Result};
use crate::engine::{Durability, Reader, Record};
use format_spec::digest::Digest;
use format_spec::ids::Address;
use format_spec::program::{ImageHeader, ImageInputRecord, Index, TicketHeader, TypeHeader};

/// Adds what it is given to one repository, and commits it at the end.
pub struct Copier<'d> {
    adder: Adder<'d>,
}

impl<'d> Copier<'d> {
    /// Copies into `destination`, whose write lock it takes.
    ///
    /// # Errors
    /// If the destination cannot be written or is damaged.
    pub fn new(destination: &'d Repository) -> Result<Copier<'d>> {
        let transaction = destination.store().begin(Durability::Durable)?;
        Ok(Copier {
            adder: Adder::new(transaction)?,
        })
    }

    /// Copies a compilation with all that it is made of, and returns where it is now.
    ///
    /// # Errors
    /// [`ProgramError::Damaged`] if its content does not have its digest; and what
    /// comes from reading the source and writing the destination.
    pub fn compilation(
        &mut self,
        source: &Programs<'_>,
        view: &CompilationView<'_>,
    ) -> Result<Address> {
        let digest = view.record().key;
        if let Some(known) = self.find(Index::Compilations, digest)? {
            return Ok(known);
        }
        let damaged = |what| ProgramError::Damaged {
            path: source.snapshot().store().path().to_owned(),
            address: view.record().address,
            what,
        };
        // The outline is no part of the digest.
        if !view.outline_is_whole() {
            return Err(damaged("the outline does not have its checksum"));
        }
        let prepared = Prepared::new(source.load(view)?)?;
        if prepared.digest != *digest {
            return Err(damaged(
                "the compilation's content does not have its digest",
            ));
        }
        Ok(self.adder.add_unseen(&prepared)?.address)
    }

    /// Copies the record of a ticket, which names the compilation that is now at
    /// `compilation` in the destination.
    ///
    /// # Errors
    /// If the destination cannot be written.
    pub fn ticket(&mut self, ticket: &TicketView<'_>, compilation: Address) -> Result<()> {
        let header = TicketHeader {
            compilation,
            written: ticket.header.written,
        };
        let mut value = bytemuck::bytes_of(&header).to_vec();
        value.extend_from_slice(ticket.path);
        self.replace(Index::Tickets, &Digest::of(ticket.path), &value)
    }

    /// Copies a type; those that it refers to must have been copied before, as they
    /// are if types are copied in the order of their addresses.
    ///
    /// # Errors
    /// If one that it refers to is not there; and as above.
    pub fn type_entry(&mut self, source: &Programs<'_>, view: &TypeView<'_>) -> Result<Address> {
        let mut references = Vec::with_capacity(view.references.len());
        for &reference in view.references {
            let other = source.snapshot().record_at(reference)?;
            let Some(address) = self.find(Index::Types, other.key)? else {
                return Err(ProgramError::Damaged {
                    path: source.snapshot().store().path().to_owned(),
                    address: view.record.address,
                    what: "the type refers to one that is not among the types",
                });
            };
            references.push(address);
        }
        let name = source.name(view.header.name)?;
        let header = TypeHeader {
            name: self.adder.name(&Digest::of(name), name)?,
            ..*view.header
        };
        let mut value = bytemuck::bytes_of(&header).to_vec();
        align(&mut value);
        value.extend_from_slice(bytemuck::cast_slice(&references));
        value.extend_from_slice(view.bytes);
        let transaction = &mut self.adder.transaction;
        Ok(transaction.insert(Index::Types.slot(), view.record.key, &value)?)
    }

    /// Copies an image and the compilations that are its inputs.
    ///
    /// # Errors
    /// As above.
    pub fn image(&mut self, source: &Programs<'_>, view: &ImageView<'_>) -> Result<()> {
        let header: ImageHeader = *view.header;
        let mut value = bytemuck::bytes_of(&header).to_vec();
        align(&mut value);
        value.extend_from_slice(view.path);
        align(&mut value);
        for input in view.inputs {
            let compilation = match input.compilation {
                Address(0) => Address(0),
                address => self.compilation(source, &source.compilation_at(address)?)?,
            };
            let path = source.name(input.path)?;
            let input = ImageInputRecord {
                compilation,
                path: self.adder.name(&Digest::of(path), path)?,
                reserved: 0,
            };
            value.extend_from_slice(bytemuck::bytes_of(&input));
        }
        align(&mut value);
        value.extend_from_slice(bytemuck::cast_slice(view.placements));
        self.replace(Index::Images, view.record.key, &value)
    }

    /// Commits, and returns when everything is on the disk.
    ///
    /// # Errors
    /// If it cannot be written: then nothing was added.
    pub fn commit(self) -> Result<()> {
        self.adder.transaction.commit()?;
        Ok(())
    }

    fn find(&self, index: Index, digest: &Digest) -> Result<Option<Address>> {
        let found: Option<Record<'_>> = self.adder.transaction.get(index.slot(), digest)?;
        Ok(found.map(|record| record.address))
    }

    fn replace(&mut self, index: Index, digest: &Digest, value: &[u8]) -> Result<()> {
        self.adder
            .transaction
            .replace(index.slot(), digest, value)?;
        Ok(())
    }
}

pub(super) fn align(value: &mut Vec<u8>) {
    value.resize(value.len().next_multiple_of(8), 0);
}
