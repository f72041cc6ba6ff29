//! What keeps a record: a path to it from something that is live by itself.

use crate::damage::unless_damaged;
use crate::roots::{Kept, Survey, Wishes, survey};
use crate::trace::{Trace, mark_roots};
use anyhow::{Result, bail};
use format_spec::envelope::Class;
use format_spec::file::IndexSlot;
use format_spec::ids::Address;
use format_spec::program::{Index, has_envelopes, index_in_words};
use serde::Serialize;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use store::engine::Record;
use store::program::Programs;

/// So many digits of a digest are needed at least.
const LEAST_DIGITS: usize = 4;

/// What keeps a record.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// The repository.
    pub repository: String,
    /// What was asked for.
    pub what: String,
    /// From what is live by itself to what was asked for; empty if nothing keeps it.
    pub path: Vec<Step>,
}

/// A record on the path.
#[derive(Debug, Serialize)]
pub struct Step {
    /// The record.
    pub what: String,
    /// Why it is live by itself; of the others, it is because the step before needs it.
    pub why: Option<String>,
}

impl Explanation {
    /// Finds the record whose digest begins with these digits, and what keeps it.
    ///
    /// # Errors
    /// If there is none, or there are several, or the repository is damaged.
    pub fn new(programs: &Programs<'_>, digits: &str, wishes: &Wishes) -> Result<Explanation> {
        let digits = digits.to_ascii_lowercase();
        if digits.len() < LEAST_DIGITS || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            bail!("--explain {digits}: not {LEAST_DIGITS} or more hexadecimal digits of a digest");
        }
        let record = find(programs, &digits)?;
        let mut survey = survey(programs, wishes)?;
        if let Some(max_size) = wishes.max_size {
            crate::budget::restrict(programs, &mut survey, max_size)?;
        }
        let mut trace = Trace::with_keepers();
        mark_roots(programs, &survey, &survey.unused, &mut trace)?;
        let mut path = Vec::new();
        if trace.is_live(record.address) {
            let mut address = record.address;
            loop {
                let keeper = trace.keeper_of(address);
                let why = match keeper {
                    Some(_) => None,
                    None => Some(root(programs, &survey, address)?),
                };
                path.push(Step {
                    what: describe(programs, address, keeper)?,
                    why,
                });
                match keeper {
                    // Each was found before what it keeps, so this ends.
                    Some(keeper) => address = keeper,
                    None => break,
                }
            }
            path.reverse();
        }
        Ok(Explanation {
            repository: programs.snapshot().store().path().display().to_string(),
            what: describe(programs, record.address, None)?,
            path,
        })
    }

    /// Writes it for people.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        if self.path.is_empty() {
            let what = &self.what;
            return writeln!(out, "{what}: nothing keeps it; repo-gc throws it away");
        }
        for step in &self.path {
            match &step.why {
                Some(why) => writeln!(out, "{why}")?,
                None => writeln!(out, "  needs")?,
            }
            writeln!(out, "  {}", step.what)?;
        }
        Ok(())
    }
}

/// The one record whose digest begins so.
fn find<'s>(programs: &Programs<'s>, digits: &str) -> Result<Record<'s>> {
    let snapshot = programs.snapshot();
    let mut found: Vec<Record<'s>> = Vec::new();
    // Names and pieces have no digests.
    let indices = IndexSlot::all().filter(|index| *index > Index::Pieces.slot());
    for index in indices {
        for record in snapshot.iter(index) {
            if let Some(record) = unless_damaged(record.map_err(Into::into))?
                && record.key().to_string().starts_with(digits)
            {
                found.push(record);
            }
        }
    }
    match &found[..] {
        [one] => Ok(*one),
        [] => bail!(
            "{}: no record has a digest that begins with {digits}",
            snapshot.store().path().display()
        ),
        several => {
            let several = several.iter().take(8);
            let several = several.map(|record| describe(programs, record.address, None));
            let several: Result<Vec<_>> = several.collect();
            bail!("--explain {digits} may be: {}", several?.join("; "))
        }
    }
}

/// A record in words; of a fragment, also its name in the compilation that keeps it.
fn describe(programs: &Programs<'_>, address: Address, keeper: Option<Address>) -> Result<String> {
    let snapshot = programs.snapshot();
    let record = snapshot.record_at(address).map_err(Into::into);
    let Some(record) = unless_damaged(record)? else {
        return Ok(format!("a damaged record at offset {:#x}", address.0));
    };
    let key = record.key();
    let Some(index) = record.index() else {
        return Ok(format!("{key}"));
    };
    Ok(match Index::at(index) {
        Some(Index::Compilations) => format!("compilation {key}"),
        Some(Index::Fragments) => {
            let name = match keeper {
                Some(keeper) => name_of_member(programs, keeper, address)?,
                None => None,
            };
            let name = name.map_or_else(String::new, |name| format!(" ({name})"));
            format!("fragment {key}{name}")
        }
        Some(Index::Tickets) => {
            let path = unless_damaged(programs.ticket(&record).map(|ticket| ticket.path))?;
            format!("ticket {}", shown(path))
        }
        Some(Index::Images) => {
            let path = unless_damaged(programs.image(&record).map(|image| image.path))?;
            format!("output {}", shown(path))
        }
        _ => format!("{key} of {}", index_in_words(index)),
    })
}

fn shown(path: Option<&[u8]>) -> String {
    let path = PathBuf::from(OsStr::from_bytes(path.unwrap_or(b"?")));
    path.display().to_string()
}

/// The name of a fragment in a compilation.
fn name_of_member(
    programs: &Programs<'_>,
    compilation: Address,
    fragment: Address,
) -> Result<Option<String>> {
    let name = || {
        let view = programs.compilation_at(compilation)?;
        let member = view
            .members()
            .iter()
            .find(|member| member.fragment == fragment);
        match member {
            Some(member) => Ok(Some(programs.name(member.suffix)?)),
            None => Ok(None),
        }
    };
    let name = unless_damaged(name())?.flatten();
    let name = name.filter(|name| !name.is_empty());
    Ok(name.map(|name| String::from_utf8_lossy(name).into_owned()))
}

/// Why a record is live by itself.
fn root(programs: &Programs<'_>, survey: &Survey, address: Address) -> Result<String> {
    if let Some(kept) = survey.live.get(&address) {
        return Ok(match kept {
            Kept::Ticket(path) => format!("the ticket {} names", path.display()),
            Kept::Image(path) => format!("the output {} was made of", path.display()),
            Kept::Young => "younger than --grace:".to_owned(),
            Kept::Needed => "needed:".to_owned(),
        });
    }
    if address >= survey.young {
        return Ok("younger than --grace:".to_owned());
    }
    let record = programs.snapshot().record_at(address)?;
    let index = record.index();
    if let Some(index) = index.filter(|index| has_envelopes(*index)) {
        let envelope = programs.envelope(&record)?;
        return Ok(match envelope.class() {
            Some(Class::Cached) if index == Index::Manifests.slot() => {
                let days = survey.used.iter().find(|(_, used)| *used == address);
                match days {
                    Some((day, _)) => format!("asked for by a compile on day {day} since 1970:"),
                    None => "asked for by compiles:".to_owned(),
                }
            }
            Some(Class::Cached) => "kept while it is used:".to_owned(),
            None => "of a kind that is not known, and kept:".to_owned(),
            _ => "kept for its own sake:".to_owned(),
        });
    }
    Ok("the file is there:".to_owned())
}
