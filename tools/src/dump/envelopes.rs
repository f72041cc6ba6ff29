//! Records in envelopes: of kinds that came to the format later, or that this program does not know at all.
//!
//! What all of them have in common is shown and checked: what keeps them, and that what they refer to is there. Bodies
//! are looked into only where SPEC.md has settled them.

use super::model::Model;
use super::output::{Text, View, grouped};
use anyhow::{Result, bail};
use format_spec::canonical;
use format_spec::digest::Digest;
use format_spec::envelope::{Class, Envelope, Strength};
use format_spec::file::{IndexSlot, VectorSlot};
use format_spec::ids::{Address, NameId};
use format_spec::kinds::{BODY_VERSION, CompilerBody, LastUseBody, Manifest, TypeBody};
use format_spec::program::{Index, has_envelopes};
use serde::Serialize;
use store::engine::Record;
use store::program::{ProgramError, Programs};

/// A record in a list.
#[derive(Serialize)]
pub struct Row {
    key: String,
    address: u64,
    /// What keeps it.
    class: String,
    body_version: u8,
    references: Vec<Reference>,
    names: usize,
    pieces: usize,
    /// Size of its body, bytes.
    bytes: u64,
}

#[derive(Serialize)]
struct Reference {
    strength: &'static str,
    /// The record that it leads to; `None` if that is gone.
    address: Option<u64>,
    /// The index that this is in.
    index: Option<u8>,
}

/// Heading for [`Row`]s.
pub const HEADING: &str =
    "key               offset  kept                  version  refs  names  pieces       bytes";

/// The index that the user means.
///
/// # Errors
/// If there is none, or its records are shown by another command.
pub fn index(which: &str) -> Result<IndexSlot> {
    let by_name = || Index::ALL.into_iter().find(|index| index.name() == which);
    let slot = match which.parse() {
        Ok(number) => IndexSlot::new(number),
        Err(_) => by_name().map(Index::slot),
    };
    match (slot, slot.and_then(Index::at)) {
        (None, _) => bail!("{which}: there is no such index; `indices` lists them"),
        (Some(slot), _) if has_envelopes(slot) => Ok(slot),
        (Some(_), Some(known)) => bail!("{which}: shown by the command `{}`", known.name()),
        (Some(_), None) => bail!("{which}: its records cannot be shown"),
    }
}

/// The records of an index, in the order of their keys' first bits.
pub fn list<'s>(model: Model<'s>, index: IndexSlot) -> impl Iterator<Item = Result<Row>> + use<'s> {
    let snapshot = model.programs.snapshot();
    snapshot.iter(index).map(move |record| {
        let record = record?;
        let envelope = model.programs.envelope(&record)?;
        let mut references = Vec::with_capacity(envelope.references.len());
        for reference in envelope.references {
            let address = reference.address();
            let target = address
                .map(|address| snapshot.record_at(address))
                .transpose()?;
            references.push(Reference {
                strength: match reference.strength() {
                    Some(Strength::Strong) => "strong",
                    Some(Strength::Owner) => "owner",
                    Some(Strength::Weak) => "weak",
                    None => "unknown",
                },
                address: address.map(|address| address.0),
                index: target
                    .and_then(|target| target.index())
                    .map(IndexSlot::number),
            });
        }
        Ok(Row {
            key: record.key.to_string(),
            address: record.address.0,
            class: class(&envelope),
            body_version: envelope.body_version,
            references,
            names: envelope.names.len(),
            pieces: envelope.pieces.len(),
            bytes: envelope.body.len() as u64,
        })
    })
}

fn class(envelope: &Envelope<'_>) -> String {
    match envelope.class() {
        Some(Class::Needed) => "while needed".to_owned(),
        Some(Class::Root) => "always".to_owned(),
        Some(Class::AttachedToAll) => "with all its owners".to_owned(),
        Some(Class::AttachedToAny) => "with one owner".to_owned(),
        Some(Class::Cached) => "while used".to_owned(),
        None => format!("unknown ({})", envelope.class),
    }
}

impl View for Row {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        let style = out.style;
        writeln!(
            out,
            "{}  {:>#10x}  {:<20}  {:>7}  {:>4}  {:>5}  {:>6}  {:>10}",
            style.digest(&self.key[..12]),
            self.address,
            self.class,
            self.body_version,
            self.references.len(),
            self.names,
            self.pieces,
            grouped(self.bytes)
        )
    }
}

/// Checks a record of an index: its envelope, all that it refers to, and its body if it is known.
///
/// # Errors
/// If something is not as SPEC.md says.
pub fn check(
    programs: &Programs<'_>,
    index: IndexSlot,
    record: &Record<'_>,
) -> Result<(), ProgramError> {
    // Through the snapshot, for its lifetime.
    let record = programs.snapshot().record_at(record.address)?;
    let envelope = programs.envelope(&record)?;
    for reference in envelope.references {
        let Some(address) = reference.address() else {
            continue;
        };
        let target = programs.snapshot().record_at(address)?;
        let Some(of) = target.index() else {
            return Err(damaged(programs, address, "a record is of no index"));
        };
        if reference.strength() == Some(Strength::Strong)
            && (Index::at(of).is_some_and(Index::is_replaceable)
                || !is_newest(programs, of, &target)?)
        {
            let what = "it needs a record that another one may take the place of";
            return Err(damaged(programs, record.address, what));
        }
    }
    for name in envelope.names {
        programs.name(*name)?;
    }
    for piece in envelope.pieces {
        programs.piece(*piece)?;
    }
    match Index::at(index) {
        Some(known) if !body_is_right(programs, known, &record, &envelope)? => {
            let what = "its key or its body is not what its index asks for";
            Err(damaged(programs, record.address, what))
        }
        _ => Ok(()),
    }
}

fn is_newest(
    programs: &Programs<'_>,
    index: IndexSlot,
    record: &Record<'_>,
) -> Result<bool, ProgramError> {
    let newest = programs.snapshot().get(index, record.key)?;
    Ok(newest.is_some_and(|newest| newest.address == record.address))
}

/// Whether key and body are as the sections about the index say, as far as they are settled.
fn body_is_right(
    programs: &Programs<'_>,
    index: Index,
    record: &Record<'_>,
    envelope: &Envelope<'_>,
) -> Result<bool, ProgramError> {
    let has_keys_of_owners = matches!(
        index,
        Index::DebugInformation | Index::Placements | Index::Referrers | Index::LastUses
    );
    if has_keys_of_owners && !has_key_of_owner(programs, record, envelope)? {
        return Ok(false);
    }
    if envelope.body_version != BODY_VERSION {
        return Ok(true);
    }
    Ok(match index {
        Index::Types => TypeBody::parse(envelope).is_some(),
        Index::Manifests => Manifest::parse(envelope).is_some(),
        Index::Captured => canonical::captured(envelope.body) == *record.key,
        Index::Compilers => match CompilerBody::parse(envelope) {
            Some(body) => {
                let path = envelope.names.first().copied().unwrap_or(NameId(0));
                let path = programs.name(path)?;
                canonical::compiler(path, body.size, body.modified) == *record.key
            }
            None => false,
        },
        Index::LastUses => LastUseBody::parse(envelope).is_some(),
        _ => true,
    })
}

fn has_key_of_owner(
    programs: &Programs<'_>,
    record: &Record<'_>,
    envelope: &Envelope<'_>,
) -> Result<bool, ProgramError> {
    for reference in envelope.references {
        if reference.strength() == Some(Strength::Owner)
            && let Some(address) = reference.address()
        {
            let owner: Digest = *programs.snapshot().record_at(address)?.key;
            if owner == *record.key {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Checks an element of a vector whose elements need not be known.
///
/// # Errors
/// If it leads to no record.
pub fn check_element(
    programs: &Programs<'_>,
    vector: VectorSlot,
    element: u32,
) -> Result<(), ProgramError> {
    let snapshot = programs.snapshot();
    match snapshot.vector_get(vector, element)? {
        Some(Address(0)) | None => Ok(()),
        Some(address) => Ok(snapshot.record_at(address).map(drop)?),
    }
}

fn damaged(programs: &Programs<'_>, address: Address, what: &'static str) -> ProgramError {
    ProgramError::Damaged {
        path: programs.snapshot().store().path().to_owned(),
        address,
        what,
    }
}
