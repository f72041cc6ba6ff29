//! Lists of small things: names, pieces, types.

use super::model::{Likeness, Model, flag_letters, is_digest_prefix, piece_text};
use super::output::{Text, View, grouped, hex, printable};
use anyhow::Result;
use format_spec::file::SHORT_KEY;
use format_spec::ids::{NameId, PieceId};
use format_spec::program::Index;
use serde::Serialize;

/// An interned name.
#[derive(Serialize)]
pub struct Name {
    id: u32,
    name: String,
}

/// The names that contain `pattern`, as objects have them or as the source does, by id.
pub fn names<'s>(
    model: Model<'s>,
    pattern: Option<&str>,
) -> impl Iterator<Item = Result<Name>> + use<'s> {
    let pattern = pattern.map(str::to_owned);
    (0..model.programs.name_count()).filter_map(move |id| {
        let id = id as u32;
        let read = || {
            let wanted = match &pattern {
                None => true,
                Some(pattern) => model.likeness(NameId(id), pattern)? != Likeness::None,
            };
            let name = wanted.then(|| model.name(NameId(id))).transpose()?;
            Ok(name.map(|name| Name { id, name }))
        };
        read().transpose()
    })
}

impl View for Name {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        writeln!(out, "{:>8}  {}", self.id, self.name)
    }
}

/// A mergeable piece.
#[derive(Serialize)]
pub struct Piece {
    id: u32,
    /// What it is found by, in hexadecimal.
    key: String,
    section: String,
    flags: String,
    entsize: u32,
    align: u64,
    size: u32,
    text: String,
    /// Its bytes, in hexadecimal.
    bytes: String,
}

/// Heading for [`Piece`]s.
pub const PIECE_HEADING: &str = "      id  key           section       flags  size  align  content";

/// The pieces with a key or content like `pattern`, by id.
pub fn pieces<'s>(
    model: Model<'s>,
    pattern: Option<&str>,
) -> impl Iterator<Item = Result<Piece>> + use<'s> {
    let pattern = pattern.map(str::to_owned);
    (0..model.programs.piece_count()).filter_map(move |id| {
        let piece = match piece(model, id as u32) {
            Ok(piece) => piece,
            Err(error) => return Some(Err(error)),
        };
        let wanted = pattern.as_ref().is_none_or(|pattern| {
            let is_key =
                is_digest_prefix(pattern) && piece.key.starts_with(&pattern.to_ascii_lowercase());
            is_key || piece.text.contains(pattern)
        });
        wanted.then_some(Ok(piece))
    })
}

fn piece(model: Model<'_>, id: u32) -> Result<Piece> {
    let view = model.programs.piece(PieceId(id))?;
    Ok(Piece {
        id,
        key: view.record.key().to_string()[..2 * SHORT_KEY].to_owned(),
        section: model.name(view.header.section_name)?,
        flags: flag_letters(view.header.sh_flags),
        entsize: view.header.entsize.into(),
        align: 1 << view.header.align_log2,
        size: view.bytes.len() as u32,
        text: piece_text(&view),
        bytes: hex(view.bytes),
    })
}

impl View for Piece {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        let style = out.style;
        writeln!(
            out,
            "{:>8}  {}  {:<12}  {:<5}  {:>4}  {:>5}  {}",
            self.id,
            style.digest(&self.key[..12]),
            self.section,
            self.flags,
            self.size,
            self.align,
            self.text
        )
    }
}

/// A DWARF type.
#[derive(Serialize)]
pub struct Type {
    signature: String,
    tag: String,
    name: String,
    references: Vec<String>,
    bytes: u64,
}

/// Heading for [`Type`]s.
pub const TYPE_HEADING: &str = "signature     tag                          refs   bytes  name";

/// The types whose name contains `pattern`.
pub fn types<'s>(
    model: Model<'s>,
    pattern: Option<&str>,
) -> impl Iterator<Item = Result<Type>> + use<'s> {
    let pattern = pattern.map(str::to_owned);
    model
        .programs
        .records(Index::Types)
        .filter_map(move |record| {
            let read = || {
                let view = model.programs.type_entry(&record?)?;
                let mut references = Vec::with_capacity(view.references.len());
                for reference in view.references {
                    let address = reference.address().unwrap_or_default();
                    let other = model.programs.snapshot().record_at(address)?;
                    references.push(other.key().to_string());
                }
                let tag = gimli::DwTag(view.header.tag);
                anyhow::Ok(Type {
                    signature: view.record.key().to_string()[..2 * SHORT_KEY].to_owned(),
                    tag: tag
                        .static_string()
                        .map_or_else(|| format!("{:#x}", tag.0), str::to_owned),
                    name: printable(model.programs.name(view.name)?).into_owned(),
                    references,
                    bytes: view.bytes.len() as u64,
                })
            };
            match read() {
                Ok(entry) => {
                    let wanted = pattern
                        .as_ref()
                        .is_none_or(|pattern| entry.name.contains(pattern));
                    wanted.then_some(Ok(entry))
                }
                Err(error) => Some(Err(error)),
            }
        })
}

impl View for Type {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        let style = out.style;
        writeln!(
            out,
            "{}  {:<27}  {:>4}  {:>6}  {}",
            style.digest(&self.signature[..12]),
            self.tag,
            self.references.len(),
            grouped(self.bytes),
            self.name
        )
    }
}
