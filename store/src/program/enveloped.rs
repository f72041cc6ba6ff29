//! Records in envelopes (SPEC.md, section 24): reading them, and adding them as the kinds that are to come will.
//!
//! Whoever adds one looks here at what it refers to, once; and the snapshot gets the feature that says that there are
//! such records. Whoever verifies or copies them looks again, and into the bodies of those kinds that SPEC.md has settled.

use super::dependencies::LIST_VERSION;
use super::view::Programs;
use super::{ProgramError, Result, columns};
use crate::engine::{Reader, Record, Transaction};
use format_spec::canonical;
use format_spec::digest::Digest;
use format_spec::envelope::{Envelope, EnvelopeError, Strength, unpack};
use format_spec::file::{Features, IndexSlot, MAX_ADDRESS};
use format_spec::ids::{Address, NameId};
use format_spec::kinds::{
    BODY_VERSION, CompilerBody, Condition, LastUseBody, Manifest, PrefixBody, TypeBody,
};
use format_spec::program::{Index, Vector, has_envelopes};

/// What a snapshot has in which there are envelopes.
pub(super) const FEATURES: Features = Features {
    compatible: Features::ENVELOPES,
    read_compatible: 0,
    incompatible: 0,
};

/// Shorter bodies are not compressed.
const LEAST_COMPRESSED: usize = 32;

impl<'s> Programs<'s> {
    /// The envelope that a record is in, whose bytes are those that were written.
    ///
    /// # Errors
    /// If it is in none, or its bytes are not those; [`ProgramError::NewerRecord`] if it is one of another version.
    pub fn envelope(&self, record: &Record<'s>) -> Result<Envelope<'s>> {
        if !record.is_whole() {
            return Err(self.wrong(record, "a record's bytes are not those that were written"));
        }
        let refused = |error| match error {
            EnvelopeError::Version(version) => ProgramError::NewerRecord {
                path: self.snapshot().store().path().to_owned(),
                address: record.address,
                version,
            },
            EnvelopeError::Malformed(what) => self.wrong(record, what),
        };
        let plain = self.made(record, |_| {
            let decompressed = |block: &[u8], size| {
                let mut body = columns::is_possible(block.len(), size).then(|| vec![0; size])?;
                columns::decompress(block, &mut body)?;
                Some(body)
            };
            unpack(record.value, decompressed)
                .map(Some)
                .map_err(refused)
        })?;
        Envelope::parse(plain, record.address).map_err(refused)
    }

    /// Checks a record in an envelope: that all that it refers to is there and may be referred to so, and what
    /// [`Programs::check_body`] checks.
    ///
    /// # Errors
    /// If it is not as SPEC.md says.
    pub fn check_enveloped(&self, record: &Record<'s>) -> Result<()> {
        let envelope = self.envelope(record)?;
        let snapshot = self.snapshot();
        for reference in envelope.references {
            let Some(address) = reference.address() else {
                continue;
            };
            let target = snapshot.record_at(address)?;
            let Some(of) = target.index() else {
                return Err(self.wrong(record, "it refers to a record of no index"));
            };
            let is_newest = || -> Result<bool> {
                let newest = snapshot.get(of, &target.key())?;
                Ok(newest.is_some_and(|newest| newest.address == address))
            };
            if reference.strength() == Some(Strength::Strong)
                && (Index::at(of).is_some_and(Index::is_replaceable) || !is_newest()?)
            {
                let what = "it needs a record that another one may take the place of";
                return Err(self.wrong(record, what));
            }
        }
        for name in envelope.names {
            self.name(*name)?;
        }
        for piece in envelope.pieces {
            self.piece(*piece)?;
        }
        self.check_body(record, &envelope)
    }

    /// Checks key and body of a record in an envelope, as far as they are settled for its index: digests among them.
    ///
    /// # Errors
    /// If they are not as SPEC.md says.
    pub fn check_body(&self, record: &Record<'s>, envelope: &Envelope<'s>) -> Result<()> {
        let Some(index) = record.index().and_then(Index::at) else {
            return Ok(());
        };
        let is_settled = envelope.body_version == BODY_VERSION;
        let is_right = match index {
            Index::DebugInformation | Index::Placements | Index::Referrers => {
                self.has_key_of_owner(record, envelope)?
            }
            Index::LastUses => {
                self.has_key_of_owner(record, envelope)?
                    && (!is_settled || LastUseBody::parse(envelope).is_some())
            }
            Index::Captured if envelope.body_version == LIST_VERSION => {
                canonical::captured(self.captured_bytes(record)?) == record.key()
            }
            _ if !is_settled => true,
            Index::Prefixes => match (PrefixBody::parse(envelope), envelope.names) {
                (Some(_), [path]) => Digest::of(self.name(*path)?) == record.key(),
                _ => false,
            },
            Index::Types => {
                let all = 0..envelope.references.len() as u32;
                TypeBody::parse(envelope).is_some() && self.lead_to(envelope, all, Index::Types)?
            }
            Index::Manifests => match Manifest::parse(envelope) {
                Some(manifest) => {
                    let results = manifest.results.iter();
                    let captured = results.clone().flat_map(|result| {
                        let places = [result.diagnostics, result.dependencies, result.files];
                        places.into_iter().filter_map(|place| place.checked_sub(1))
                    });
                    let compilations =
                        results.filter_map(|result| result.compilation.checked_sub(1));
                    self.lead_to(envelope, compilations, Index::Compilations)?
                        && self.lead_to(envelope, captured, Index::Captured)?
                        && self.are_conditions(manifest.conditions)?
                }
                None => false,
            },
            Index::Captured => canonical::captured(envelope.body) == record.key(),
            Index::Compilers => match (CompilerBody::parse(envelope), envelope.names) {
                (Some(body), [path]) => {
                    let path = self.name(*path)?;
                    canonical::compiler(path, body.size, body.modified) == record.key()
                }
                _ => false,
            },
            _ => true,
        };
        match is_right {
            true => Ok(()),
            false => Err(self.wrong(record, "its key or body is not what its index asks for")),
        }
    }

    /// Whether the references in these places lead to records of an index, as far as they are not gone.
    fn lead_to(
        &self,
        envelope: &Envelope<'_>,
        places: impl IntoIterator<Item = u32>,
        index: Index,
    ) -> Result<bool> {
        for place in places {
            let reference = envelope.references.get(place as usize);
            let Some(address) = reference.and_then(|reference| reference.address()) else {
                continue;
            };
            if self.snapshot().record_at(address)?.index() != Some(index.slot()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn are_conditions(&self, names: &[NameId]) -> Result<bool> {
        for name in names {
            if Condition::parse(self.name(*name)?).is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn has_key_of_owner(&self, record: &Record<'_>, envelope: &Envelope<'_>) -> Result<bool> {
        for reference in envelope.references {
            if reference.strength() == Some(Strength::Owner)
                && let Some(address) = reference.address()
                && self.snapshot().record_at(address)?.key() == record.key()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn wrong(&self, record: &Record<'_>, what: &'static str) -> ProgramError {
        ProgramError::Damaged {
            path: self.snapshot().store().path().to_owned(),
            address: record.address,
            what,
        }
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
            let newest = transaction.get(of, &target.key())?;
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
    let compress = |body: &[u8]| {
        let mut block = Vec::new();
        (body.len() >= LEAST_COMPRESSED).then(|| columns::compress(body, &mut block))?;
        Some(block)
    };
    let encoded = envelope.pack(Address(MAX_ADDRESS), compress);
    encoded.map_err(|error| ProgramError::malformed(error.to_string()))
}
