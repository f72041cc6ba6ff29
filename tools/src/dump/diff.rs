//! `--diff A B`: which definitions are new, gone or changed: what one wants to know
//! after an edit.
//!
//! Two tickets (or compilations by digest) are compared definition by definition;
//! two revisions, ticket by ticket, and the changed ones definition by definition. A
//! definition is known by its name; of several with one name (static functions in
//! different scopes) the first is compared with the first, and so on. Anonymous
//! data has no name but its content, so it can only be new or gone; but a source has
//! one debug information.

use super::compilations;
use super::model::{Model, best_name, source_name};
use super::output::{Text, View, printable};
use anyhow::{Result, bail};
use format_spec::digest::Digest;
use format_spec::fragment::SectionKind;
use format_spec::program::{Index, SymbolRecord};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use store::program::{Programs, section_kind};

/// What differs between two things.
#[derive(Debug, Serialize)]
pub struct Diff {
    from: String,
    to: String,
    tickets: Vec<TicketChange>,
    /// Definitions that are the same in both.
    unchanged: u64,
}

#[derive(Debug, Serialize)]
struct TicketChange {
    /// The ticket's path; none where two compilations were compared.
    path: Option<String>,
    change: Change,
    definitions: Vec<DefinitionChange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Change {
    New,
    Gone,
    Changed,
    /// The same fragment with another linkage or visibility.
    Relinked,
}

#[derive(Debug, Serialize)]
struct DefinitionChange {
    change: Change,
    name: Option<String>,
    /// What it is, if it has no name.
    #[serde(skip_serializing_if = "Option::is_none")]
    what: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Version>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Version>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Version {
    digest: String,
    size: u64,
    #[serde(skip)]
    linkage: (u8, u8),
}

/// Compares what `a` and `b` name.
pub fn diff(model: &Model<'_>, a: &str, b: &str) -> Result<Diff> {
    let mut diff = Diff {
        from: a.to_owned(),
        to: b.to_owned(),
        tickets: Vec::new(),
        unchanged: 0,
    };
    if let (Some(old), Some(new)) = (revision(a), revision(b)) {
        let store = model.programs.snapshot().store();
        let at = |number| -> Result<Model<'_>> {
            Ok(Model {
                programs: Programs::new(store.snapshot_at(number)?),
                demangle: model.demangle,
            })
        };
        diff.from = format!("revision {old}");
        diff.to = format!("revision {new}");
        diff.revisions(&at(old)?, &at(new)?)?;
    } else if revision(a).is_some() || revision(b).is_some() {
        bail!("--diff compares two tickets or two revisions, not one with the other");
    } else {
        let old = definitions(model, &compilations::find(model, a)?)?;
        let new = definitions(model, &compilations::find(model, b)?)?;
        let changes = diff.compare(old, new);
        if !changes.is_empty() {
            diff.tickets.push(TicketChange {
                path: None,
                change: Change::Changed,
                definitions: changes,
            });
        }
    }
    Ok(diff)
}

/// A revision's number: digits, and no file of that name.
fn revision(text: &str) -> Option<u64> {
    if Path::new(text).exists() {
        return None;
    }
    text.parse().ok()
}

/// A definition's name, or what it is if it has none, and which of those with this name it is. Of those without a name debug
/// information is known by what it is; others have their digest in place of a number.
type Key = (Known, String);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    As(String),
    Nameless(String),
}

fn definitions(model: &Model<'_>, digest: &Digest) -> Result<BTreeMap<Key, Version>> {
    let compilation = model.programs.compilation(digest)?;
    let symbols = model.definitions(&compilation);
    let mut definitions = BTreeMap::new();
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for (member, symbols) in compilation.members().iter().zip(symbols) {
        let fragment = model.programs.fragment(member.fragment)?;
        let digest = fragment.record().key().to_string();
        let sizes = fragment.sections().map(|section| section.size);
        let linkage = linkage(&symbols);
        let key = match best_name(&symbols) {
            Some(name) => {
                let name = model.name(name)?;
                let count = counts.entry(name.clone()).or_default();
                *count += 1;
                (Known::As(name), count.to_string())
            }
            None => {
                let what = model.nameless(&fragment, source_name(&compilation), 1)?;
                let section = fragment.section(0);
                let kind = section.and_then(|section| section_kind(section.record));
                let number = match kind {
                    Some(SectionKind::Debug) => {
                        let count = counts.entry(what.clone()).or_default();
                        *count += 1;
                        count.to_string()
                    }
                    _ => digest.clone(),
                };
                (Known::Nameless(what), number)
            }
        };
        let version = Version {
            digest,
            size: sizes.fold(0, u64::saturating_add),
            linkage,
        };
        definitions.insert(key, version);
    }
    Ok(definitions)
}

/// Binding and visibility of the symbol by which a definition is known.
fn linkage(symbols: &[&SymbolRecord]) -> (u8, u8) {
    let global = symbols.iter().find(|symbol| symbol.info >> 4 != 0);
    global
        .or(symbols.first())
        .map_or((0, 0), |symbol| (symbol.info, symbol.other))
}

impl DefinitionChange {
    fn new(change: Change, known: Known, before: Option<Version>, after: Option<Version>) -> Self {
        let (name, what) = match known {
            Known::As(name) => (Some(name), None),
            Known::Nameless(what) => (None, Some(what)),
        };
        DefinitionChange {
            change,
            name,
            what,
            before,
            after,
        }
    }
}

impl Diff {
    fn compare(
        &mut self,
        mut old: BTreeMap<Key, Version>,
        new: BTreeMap<Key, Version>,
    ) -> Vec<DefinitionChange> {
        let mut changes = Vec::new();
        for (key, after) in new {
            let before = old.remove(&key);
            let change = match &before {
                None => Change::New,
                Some(before) if before.digest != after.digest => Change::Changed,
                Some(before) if before.linkage != after.linkage => Change::Relinked,
                Some(_) => {
                    self.unchanged += 1;
                    continue;
                }
            };
            changes.push(DefinitionChange::new(change, key.0, before, Some(after)));
        }
        changes.extend(
            old.into_iter().map(|(key, before)| {
                DefinitionChange::new(Change::Gone, key.0, Some(before), None)
            }),
        );
        changes
    }

    fn revisions(&mut self, old: &Model<'_>, new: &Model<'_>) -> Result<()> {
        let mut before = tickets(old)?;
        for (path, digest) in tickets(new)? {
            let (change, from) = match before.remove(&path) {
                None => (Change::New, BTreeMap::new()),
                Some(same) if same == digest => continue,
                Some(other) => (Change::Changed, definitions(old, &other)?),
            };
            let definitions = self.compare(from, definitions(new, &digest)?);
            self.tickets.push(TicketChange {
                path: Some(printable(&path).into_owned()),
                change,
                definitions,
            });
        }
        for (path, digest) in before {
            let definitions = self.compare(definitions(old, &digest)?, BTreeMap::new());
            self.tickets.push(TicketChange {
                path: Some(printable(&path).into_owned()),
                change: Change::Gone,
                definitions,
            });
        }
        Ok(())
    }
}

/// The tickets on record and what they name.
fn tickets(model: &Model<'_>) -> Result<BTreeMap<Vec<u8>, Digest>> {
    let mut tickets = BTreeMap::new();
    for record in model.programs.records(Index::Tickets) {
        let view = model.programs.ticket(&record?)?;
        let compilation = model.programs.compilation_at(view.header.compilation)?;
        tickets.insert(view.path.to_vec(), compilation.record().key());
    }
    Ok(tickets)
}

impl View for Diff {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        let style = out.style;
        for ticket in &self.tickets {
            if let Some(path) = &ticket.path {
                let change = match ticket.change {
                    Change::New => "new ticket",
                    Change::Gone => "gone ticket",
                    Change::Changed | Change::Relinked => "changed ticket",
                };
                writeln!(out, "{} {path}", style.heading(change))?;
            }
            for definition in &ticket.definitions {
                let name = definition.name.as_ref().or(definition.what.as_ref());
                let name = name.map_or("", String::as_str);
                let short =
                    |version: &Version| format!("{} {}", &version.digest[..12], version.size);
                match (&definition.before, &definition.after) {
                    (None, Some(after)) => {
                        writeln!(out, "+ {}  {}", style.name(name), style.dim(short(after)))?;
                    }
                    (Some(before), Some(after)) if before.digest == after.digest => {
                        writeln!(
                            out,
                            "= {name}  {}",
                            style.dim("other linkage or visibility")
                        )?;
                    }
                    (Some(before), Some(after)) => writeln!(
                        out,
                        "~ {}  {}",
                        style.digest(name),
                        style.dim(format_args!("{} -> {}", short(before), short(after)))
                    )?,
                    (before, None) => {
                        let before = before.as_ref().map(short).unwrap_or_default();
                        writeln!(out, "- {}  {}", style.bad(name), style.dim(before))?;
                    }
                }
            }
        }
        let all = self.tickets.iter().flat_map(|ticket| &ticket.definitions);
        let count = |change| all.clone().filter(|d| d.change == change).count();
        writeln!(
            out,
            "{} -> {}: {} new, {} gone, {} changed, {} relinked, {} unchanged in changed tickets",
            self.from,
            self.to,
            count(Change::New),
            count(Change::Gone),
            count(Change::Changed),
            count(Change::Relinked),
            self.unchanged
        )
    }
}
