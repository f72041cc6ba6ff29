//! What compilers have made, by what they were asked: a list, or one in full with all that must be so for it to be used again.

use super::model::Model;
use super::output::{Text, View, printable, time};
use anyhow::{Result, bail};
use format_spec::kinds::{Condition, TextKeeps};
use format_spec::program::Index;
use serde::Serialize;
use store::engine::Record;
use store::program::manifest::ManifestView;

/// A manifest in a list.
#[derive(Serialize)]
pub struct Row {
    key: String,
    /// The day of its last use.
    used: String,
    results: usize,
    conditions: usize,
    /// The arguments, as far as they are of the key.
    command: Vec<String>,
}

/// Heading for [`Row`]s.
pub const HEADING: &str = "key           used        results  conditions  command";

/// What stands before the arguments, among the parts of a key.
const BEFORE_ARGUMENTS: &[u8] = b"--";

/// The manifests of which the command contains `pattern`, if that is given.
pub fn list<'s>(
    model: Model<'s>,
    pattern: Option<&str>,
) -> impl Iterator<Item = Result<Row>> + use<'s> {
    let pattern = pattern.map(str::to_owned);
    let records = model.programs.records(Index::Manifests);
    records.filter_map(move |record| {
        let row = record
            .map_err(Into::into)
            .and_then(|record| row(&model, &record));
        let is_wanted = |row: &Row| match &pattern {
            Some(pattern) => {
                row.command.join(" ").contains(pattern) || row.key.starts_with(pattern)
            }
            None => true,
        };
        match row {
            Ok(row) if !is_wanted(&row) => None,
            other => Some(other),
        }
    })
}

fn names(model: &Model<'_>, ids: &[format_spec::ids::NameId]) -> Result<Vec<Vec<u8>>> {
    let names = ids.iter().map(|id| Ok(model.programs.name(*id)?.to_vec()));
    names.collect()
}

fn row(model: &Model<'_>, record: &Record<'_>) -> Result<Row> {
    let view = model.programs.manifest_of(record)?;
    let manifest = view.manifest();
    let parts = names(model, manifest.parts)?;
    let start = parts.iter().position(|part| part == BEFORE_ARGUMENTS);
    let command = parts.iter().skip(start.map_or(0, |at| at + 1));
    Ok(Row {
        key: record.key().to_string(),
        used: date(model.programs.last_use(&view)?),
        results: manifest.results.len(),
        conditions: manifest.conditions.len(),
        command: command.map(|word| printable(word).into_owned()).collect(),
    })
}

/// A day since 1970.
fn date(day: u32) -> String {
    // A time, of which only the date is of interest.
    let time = time(u64::from(day).saturating_mul(86_400_000_000_000));
    time.chars().take(10).collect()
}

impl View for Row {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        let style = out.style;
        let used = &self.used;
        writeln!(
            out,
            "{}  {used:<10}  {:>7}  {:>10}  {}",
            style.digest(&self.key[..12]),
            self.results,
            self.conditions,
            self.command.join(" ")
        )
    }
}

/// A manifest in full.
#[derive(Serialize)]
pub struct Detail {
    #[serde(flatten)]
    row: Row,
    /// All parts of its key.
    parts: Vec<String>,
    made: Vec<Made>,
}

/// What was made of inputs as they were once.
#[derive(Serialize)]
struct Made {
    compilation: Option<String>,
    /// Bytes of diagnostics.
    diagnostics: Option<String>,
    /// Whether these are for a terminal.
    coloured: bool,
    dependency_file: bool,
    /// Bytes of files that are kept whole, as they are stored.
    files: usize,
    /// What must be so.
    conditions: Vec<Shown>,
}

#[derive(Serialize)]
struct Shown {
    kind: &'static str,
    what: String,
    digest: Option<String>,
}

/// The manifest whose key begins so.
///
/// # Errors
/// If there is none, or more than one.
pub fn detail(model: &Model<'_>, which: &str) -> Result<Detail> {
    let wanted = which.to_ascii_lowercase();
    let mut found: Option<Record<'_>> = None;
    for record in model.programs.records(Index::Manifests) {
        let record = record?;
        if record.key().to_string().starts_with(&wanted) {
            if found.is_some() {
                bail!("{which}: more than one manifest has a key that begins so");
            }
            found = Some(record);
        }
    }
    let Some(record) = found else {
        bail!("{which}: there is no manifest with such a key; `manifests` lists them");
    };
    let view = model.programs.manifest_of(&record)?;
    let parts = names(model, view.manifest().parts)?;
    let results = 0..view.manifest().results.len();
    Ok(Detail {
        row: row(model, &record)?,
        parts: parts
            .iter()
            .map(|part| printable(part).into_owned())
            .collect(),
        made: results
            .map(|number| made(model, &view, number))
            .collect::<Result<_>>()?,
    })
}

fn made(model: &Model<'_>, view: &ManifestView<'_>, number: usize) -> Result<Made> {
    let (programs, result) = (&model.programs, &view.manifest().results[number]);
    let diagnostics = programs.captured(view, result.diagnostics)?;
    let mut conditions = Vec::new();
    for (_, name) in view.manifest().conditions_of(number) {
        conditions.push(match Condition::parse(programs.name(name)?) {
            Some(condition) => shown(&condition),
            None => Shown {
                kind: "unknown",
                what: String::new(),
                digest: None,
            },
        });
    }
    conditions.sort_by(|a, b| (a.kind, &a.what).cmp(&(b.kind, &b.what)));
    let compilation = programs.compilation_of(view, result)?;
    Ok(Made {
        compilation: compilation.map(|digest| digest.to_string()),
        diagnostics: diagnostics.map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
        coloured: result.bits & format_spec::kinds::ManifestResult::COLOURED != 0,
        dependency_file: result.dependencies > 0,
        files: programs
            .captured(view, result.files)?
            .map_or(0, <[u8]>::len),
        conditions,
    })
}

fn shown(condition: &Condition<'_>) -> Shown {
    let text = |bytes: &[u8]| printable(bytes).into_owned();
    let (kind, what, digest) = match condition {
        Condition::File(digest, path) => ("file", text(path), Some(digest.to_string())),
        Condition::Text { rest, keeps, path } => {
            let kind = match keeps {
                TextKeeps::Order => "text",
                TextKeeps::Places => "text, in its places",
                TextKeeps::PlacesOrMoved => "text, in its places or moved",
                TextKeeps::BytesOrMoved => "file, or its text moved",
            };
            (kind, text(path), Some(rest.to_string()))
        }
        Condition::Bodies { used, .. } => {
            let count = used.len() / 2;
            ("bodies", format!("those of {count} functions"), None)
        }
        Condition::Listing(digest, path) => ("listing", text(path), Some(digest.to_string())),
        Condition::Absent(path) | Condition::NotListed(path) => ("absent", text(path), None),
        Condition::Nothing(path) => ("nothing", text(path), None),
        Condition::NotPrecompiled(path) => ("not precompiled", text(path), None),
        Condition::Present(path) => ("present", text(path), None),
        Condition::Variable(what) => ("variable", text(what), None),
        Condition::Search(directories) => {
            let directories = directories.split(|byte| *byte == 0);
            let directories = directories.filter(|directory| !directory.is_empty());
            let texts = directories.map(text).collect::<Vec<_>>();
            ("search", texts.join(":"), None)
        }
        Condition::NotFound { first, count, name } => {
            let what = format!("{} (in {count} directories from {first})", text(name));
            ("not found", what, None)
        }
    };
    Shown { kind, what, digest }
}

impl View for Detail {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        let style = out.style;
        out.field("manifest", style.digest(&self.row.key))?;
        out.field("used", &self.row.used)?;
        out.field("command", self.row.command.join(" "))?;
        for made in &self.made {
            writeln!(out, "\n{}", style.heading("result"))?;
            if let Some(compilation) = &made.compilation {
                out.field("compilation", style.digest(compilation))?;
            }
            if made.files > 0 {
                out.field("files", format_args!("{} bytes, packed", made.files))?;
            }
            out.field(
                "dependencies",
                if made.dependency_file { "yes" } else { "no" },
            )?;
            if let Some(diagnostics) = &made.diagnostics {
                out.field("diagnostics", printable(diagnostics.as_bytes()))?;
            }
            for condition in &made.conditions {
                let digest = condition
                    .digest
                    .as_deref()
                    .map_or("", |digest| &digest[..12]);
                writeln!(
                    out,
                    "  {:<15}  {:<12}  {}",
                    condition.kind,
                    style.digest(digest),
                    condition.what
                )?;
            }
        }
        Ok(())
    }
}
