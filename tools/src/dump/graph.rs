//! What was kept of single definitions by compiles that were explained: what each depends on, and why two of one name have different
//! digests.

use super::compilations;
use super::model::Model;
use super::output::{Text, View};
use anyhow::{Result, bail};
use format_spec::digest::Digest;
use format_spec::program::SymbolRecord;
use pruning::changes::Changes;
use pruning::graph::Flags;
use pruning::kept::{Kept, Short, hex};
use pruning::memo;
use pruning::protocol::{Defined, Report};
use serde::Serialize;
use std::collections::HashMap;
use std::path::Path;

/// A definition, and what it depends on.
#[derive(Serialize)]
pub struct Row {
    name: String,
    digest: String,
    /// Other digests for which the same code was made: then it is not known for which of them it is here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    or: Vec<String>,
    /// What its code depends on.
    depends_on: Vec<Link>,
    /// Which of its users have a say in it.
    depends_on_users: Vec<Link>,
}

#[derive(Serialize)]
struct Link {
    name: String,
    digest: String,
}

/// What is shown of a graph.
#[derive(Serialize)]
pub struct Shown {
    /// If it is of a compilation: its digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    compilation: Option<String>,
    definitions: Vec<Row>,
    /// Names of the compilation of which nothing is kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<String>,
}

/// What of a compilation was found.
#[derive(Default)]
struct OfCompilation {
    starts: Vec<(Short, Vec<u8>)>,
    /// By the first digest, the others with the same code.
    or: HashMap<Short, Vec<Short>>,
    unknown: Vec<String>,
}

/// The graph of a compilation (a ticket file or a digest), or the definitions that have this name or digest, and what is behind them.
///
/// # Errors
/// If there is nothing of the kind.
pub fn show(model: &Model<'_>, which: &str) -> Result<Shown> {
    let kept = Kept::read(&model.programs)?;
    if !Path::new(which).is_file() {
        let starts = kept.find(which);
        if !starts.is_empty() {
            let rows = rows(model, &kept, &starts, &OfCompilation::default(), true);
            return Ok(Shown {
                compilation: None,
                definitions: rows,
                unknown: Vec::new(),
            });
        }
    }
    let Ok(digest) = compilations::find(model, which) else {
        bail!(
            "{which}: neither a compilation nor a definition of which repo-cc has kept what it depends on"
        );
    };
    let of = of_compilation(model, &kept, &digest)?;
    Ok(Shown {
        compilation: Some(digest.to_string()),
        definitions: rows(model, &kept, &of.starts, &of, false),
        unknown: of.unknown,
    })
}

/// What is kept of the definitions of a compilation: found by their names and code.
fn of_compilation(model: &Model<'_>, kept: &Kept, digest: &Digest) -> Result<OfCompilation> {
    let compilation = model.programs.compilation(digest)?;
    let mut known: HashMap<_, Vec<Short>> = HashMap::new();
    for (digest, fragment, name) in memo::heads(&model.programs)? {
        let mut short = Short::default();
        short.copy_from_slice(&digest.0[..size_of::<Short>()]);
        if kept.has(short, model.programs.name(name)?) {
            known.entry((fragment, name)).or_default().push(short);
        }
    }
    let mut of = OfCompilation::default();
    let all = model.definitions(&compilation);
    for (member, symbols) in compilation.members().iter().zip(all) {
        let globals: Vec<&SymbolRecord> = symbols
            .into_iter()
            .filter(|symbol| symbol.info >> 4 != 0)
            .collect();
        let found = globals.iter().find_map(|symbol| {
            let digests = known.get(&(member.fragment, symbol.name))?;
            Some((symbol.name, &digests[..]))
        });
        match found {
            Some((name, [first, others @ ..])) => {
                let name = model.programs.name(name)?.to_vec();
                of.starts.push((*first, name));
                if !others.is_empty() {
                    of.or.insert(*first, others.to_vec());
                }
            }
            _ => {
                for symbol in globals {
                    of.unknown.push(model.name(symbol.name)?);
                }
            }
        }
    }
    Ok(of)
}

fn is_constant(defined: &Defined) -> bool {
    Flags(defined.flags).has(Flags::CONTENT)
}

/// Rows for these definitions, or for all that is behind them as well.
fn rows(
    model: &Model<'_>,
    kept: &Kept,
    starts: &[(Short, Vec<u8>)],
    of: &OfCompilation,
    only_starts: bool,
) -> Vec<Row> {
    let report = kept.report(starts);
    let name = |defined: &Defined| match is_constant(defined) {
        true => "a constant".to_owned(),
        false => model.name_text(defined.shown().as_bytes()),
    };
    let links = |list: &[u32]| -> Vec<Link> {
        let found = list
            .iter()
            .filter_map(|at| report.definitions.get(*at as usize));
        let links = found.map(|defined| Link {
            name: name(defined),
            digest: defined.digest.clone(),
        });
        links.collect()
    };
    let or: HashMap<String, Vec<String>> = (of.or.iter())
        .map(|(first, others)| (hex(first), others.iter().map(|other| hex(other)).collect()))
        .collect();
    let count = if only_starts {
        starts.len()
    } else {
        usize::MAX
    };
    let mut rows: Vec<Row> = (report.definitions.iter().take(count))
        // Of those without a head only the digest is known.
        .filter(|defined| !is_constant(defined) && !defined.head.is_empty())
        .map(|defined| Row {
            name: name(defined),
            digest: defined.digest.clone(),
            or: or.get(&defined.digest).cloned().unwrap_or_default(),
            depends_on: links(&defined.follows),
            depends_on_users: links(&defined.contributors),
        })
        .collect();
    rows.sort_by(|a, b| (&a.name, &a.digest).cmp(&(&b.name, &b.digest)));
    rows
}

impl View for Shown {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        let style = out.style;
        if let Some(compilation) = &self.compilation {
            out.field("compilation", style.digest(compilation))?;
        }
        for row in &self.definitions {
            write!(
                out,
                "{} {}",
                style.digest(&row.digest),
                style.name(&row.name)
            )?;
            if !row.or.is_empty() {
                let others = row.or.join(", ");
                write!(out, " (or {others}, for which the same code was made)")?;
            }
            writeln!(out)?;
            for (what, links) in [
                ("depends on", &row.depends_on),
                ("depends on its user", &row.depends_on_users),
            ] {
                for link in links {
                    let digest = style.digest(&link.digest);
                    writeln!(out, "    {what} {} {}", digest, link.name)?;
                }
            }
        }
        for name in &self.unknown {
            writeln!(
                out,
                "{:16} {}",
                "",
                style.dim(format!("{name}: nothing is kept of it"))
            )?;
        }
        Ok(())
    }
}

/// Why two definitions differ.
#[derive(Serialize)]
pub struct Why {
    from: Link,
    to: Link,
    /// `None` if they are the same.
    why: Option<String>,
}

/// Why the definition with the digest `to` is another than that with the digest `from`; of a name of which there are two, they may be
/// called by it.
///
/// # Errors
/// If there are no such definitions, or several.
pub fn why(model: &Model<'_>, from: &str, to: &str) -> Result<Why> {
    let kept = Kept::read(&model.programs)?;
    let [from, to] = [from, to].map(|which| -> Result<Report> {
        match &kept.find(which)[..] {
            one @ [_] => Ok(kept.report(one)),
            [] => bail!("{which}: nothing is kept of such a definition"),
            several => {
                let all: Vec<String> = several.iter().map(|(digest, _)| hex(digest)).collect();
                bail!("{which}: there are several: {}", all.join(", "))
            }
        }
    });
    let (from, to) = (from?, to?);
    let (Some(old), Some(new)) = (from.definitions.first(), to.definitions.first()) else {
        bail!("nothing is kept of them");
    };
    let link = |defined: &Defined| Link {
        name: model.name_text(defined.shown().as_bytes()),
        digest: defined.digest.clone(),
    };
    if old.shown() != new.shown() {
        let (old, new) = (link(old).name, link(new).name);
        bail!("{old} and {new} are definitions of different names");
    }
    Ok(Why {
        from: link(old),
        to: link(new),
        why: Changes::new(&from, &to).why(0),
    })
}

impl View for Why {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        let style = out.style;
        let why = match &self.why {
            Some(why) => why,
            None => "they are the same",
        };
        writeln!(
            out,
            "{} {} → {}: {why}",
            style.name(&self.to.name),
            style.digest(&self.from.digest),
            style.digest(&self.to.digest)
        )
    }
}
