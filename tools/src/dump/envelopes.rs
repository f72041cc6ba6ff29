//! Records in envelopes: of kinds that came to the format later, or that this program does not know at all.
//!
//! What all of them have in common is shown: what keeps them, and to what they refer.

use super::model::Model;
use super::output::{Text, View, grouped};
use anyhow::{Result, bail};
use format_spec::envelope::{Class, Envelope, Strength};
use format_spec::file::IndexSlot;
use format_spec::program::{Index, has_envelopes};
use serde::Serialize;

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
            key: record.key().to_string(),
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
