//! Records in envelopes (SPEC.md, section 24): reading them, and adding them as the kinds that are to come will.
//!
//! Whoever adds one looks here at what it refers to, once, so that a compactor can rely on it; and the
//! snapshot gets the feature that says that there are such records.

use super::view::Programs;
use super::{ProgramError, Result};
use crate::engine::{Reader, Record, Transaction};
use format_spec::digest::Digest;
use format_spec::envelope::{Envelope, EnvelopeError, Strength};
use format_spec::file::{Features, IndexSlot, MAX_ADDRESS};
use format_spec::ids::Address;
use format_spec::program::{Index, Vector, has_envelopes};

/// What a snapshot has in which there are envelopes.
pub(super) const FEATURES: Features = Features {
    compatible: Features::ENVELOPES,
    read_compatible: 0,
    incompatible: 0,
};

impl<'s> Programs<'s> {
    /// The envelope that a record is in, whose bytes are those that were written.
    ///
    /// # Errors
    /// If it is in none, or its bytes are not those; [`ProgramError::NewerRecord`] if it is one of another version.
    pub fn envelope(&self, record: &Record<'s>) -> Result<Envelope<'s>> {
        let path = || self.snapshot().store().path().to_owned();
        let address = record.address;
        let damaged = |what| ProgramError::Damaged {
            path: path(),
            address,
            what,
        };
        if !record.is_whole() {
            return Err(damaged("a record's bytes are not those that were written"));
        }
        Envelope::parse(record.value, address).map_err(|error| match error {
            EnvelopeError::Version(version) => ProgramError::NewerRecord {
                path: path(),
                address,
                version,
            },
            EnvelopeError::Malformed(what) => damaged(what),
        })
    }
}

/// Adds a record in an envelope to `index`, unless there is one of this key. Returns where it is, or the one that
/// is there.
///
/// # Errors
/// [`ProgramError::Malformed`] if it refers to what is not there, or may not be referred to so, or if the index has no
/// envelopes; else those of [`Transaction::insert`].
pub fn insert_enveloped(
    transaction: &mut Transaction<'_>,
    index: IndexSlot,
    key: &Digest,
    envelope: &Envelope<'_>,
) -> Result<Address> {
    let value = value(transaction, index, envelope)?;
    transaction.require(FEATURES);
    Ok(transaction.insert(index, key, &value)?)
}

/// Adds a record in an envelope to `index`, in place of any older one of its key.
///
/// # Errors
/// As [`insert_enveloped`].
pub fn replace_enveloped(
    transaction: &mut Transaction<'_>,
    index: IndexSlot,
    key: &Digest,
    envelope: &Envelope<'_>,
) -> Result<Address> {
    let value = value(transaction, index, envelope)?;
    transaction.require(FEATURES);
    Ok(transaction.replace(index, key, &value)?)
}

fn value(
    transaction: &Transaction<'_>,
    index: IndexSlot,
    envelope: &Envelope<'_>,
) -> Result<Vec<u8>> {
    if !has_envelopes(index) {
        return Err(ProgramError::malformed(
            "the records of this index have no envelopes",
        ));
    }
    for reference in envelope.references {
        let Some(address) = reference.address() else {
            continue;
        };
        let target = transaction.record_at(address)?;
        let Some(of) = target.index() else {
            return Err(ProgramError::malformed(
                "a reference leads to a record of no index",
            ));
        };
        if reference.strength() == Some(Strength::Strong)
            && Index::at(of).is_some_and(Index::is_replaceable)
        {
            return Err(ProgramError::malformed(
                "a strong reference leads to a record that another one may take the place of",
            ));
        }
        // The newest record of a key is the one that is copied.
        let is_newest = || -> Result<bool> {
            let newest = transaction.get(of, target.key)?;
            Ok(newest.is_some_and(|newest| newest.address == address))
        };
        if reference.strength() != Some(Strength::Weak) && !is_newest()? {
            return Err(ProgramError::malformed(
                "a reference leads to a record that another one has taken the place of",
            ));
        }
    }
    let names = transaction.vector_len(Vector::Names.slot());
    let pieces = transaction.vector_len(Vector::Pieces.slot());
    if (envelope.names.iter()).any(|name| u64::from(name.0) >= names)
        || (envelope.pieces.iter()).any(|piece| u64::from(piece.0) >= pieces)
    {
        return Err(ProgramError::malformed(
            "there is no name or piece of this id",
        ));
    }
    let encoded = envelope.encode(Address(MAX_ADDRESS));
    encoded.map_err(|error| ProgramError::malformed(error.to_string()))
}
