//! What the compactor did, or would do.

use crate::json::in_seconds;
use crate::roots::{Gone, Searched, Survey};
use crate::trace::Trace;
use anyhow::Result;
use format_spec::file::IndexSlot;
use format_spec::ids::Address;
use format_spec::program::{Index, has_envelopes};
use serde::Serialize;
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use store::program::Programs;

/// A run of the compactor.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The repository.
    pub repository: String,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// Size of the file before.
    pub bytes_before: u64,
    /// Size of the file after; in a dry run about what it would be.
    pub bytes_after: u64,
    /// Counts of what stays.
    pub kept: Counts,
    /// Counts of what goes.
    pub gone: Counts,
    /// Tickets that go, and why.
    pub tickets: Vec<Item>,
    /// Images that go, and why.
    pub images: Vec<Item>,
    /// Compilations that go, and why.
    pub compilations: Vec<Item>,
    /// Where tickets were looked for in full.
    pub searched: Vec<Searched>,
    /// Records of other kinds: how many of each stay, and how many go.
    pub others: Vec<Others>,
    /// What incremental links had kept of outputs that are gone.
    pub states_gone: StatesGone,
    /// How long writers had to wait at once.
    #[serde(serialize_with = "in_seconds", rename = "longest_hold_seconds")]
    pub longest_hold: Duration,
    /// What the user may want to know.
    pub warnings: Vec<String>,
}

/// Files beside the repository that were removed, because the outputs are gone of which they are.
#[derive(Debug, Default, Serialize)]
pub struct StatesGone {
    /// Outputs.
    pub outputs: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Numbers of things.
#[derive(Debug, Default, Serialize)]
pub struct Counts {
    /// Records of ticket files.
    pub tickets: u64,
    /// Records of linked outputs.
    pub images: u64,
    /// Compilations.
    pub compilations: u64,
}

/// Records of an index that need not be known.
#[derive(Debug, Serialize)]
pub struct Others {
    /// The index's number.
    pub index: u8,
    /// What its records are, if this program knows.
    pub name: Option<&'static str>,
    /// How many stay.
    pub kept: u64,
    /// How many go.
    pub gone: u64,
}

/// Something that goes.
#[derive(Debug, Serialize)]
pub struct Item {
    /// A path, or a digest with the paths of the tickets on record.
    pub what: String,
    /// Why.
    pub reason: &'static str,
}

impl Report {
    /// What becomes of `programs` according to `survey` and `trace`.
    ///
    /// # Errors
    /// If the repository is damaged.
    pub fn new(
        programs: &Programs<'_>,
        survey: &Survey,
        trace: &Trace,
        dry_run: bool,
    ) -> Result<Report> {
        let snapshot = programs.snapshot();
        let store = snapshot.store();
        let indices = IndexSlot::all().filter(|index| has_envelopes(*index));
        let others = indices.filter(|index| snapshot.count(*index) > 0);
        let others = others.map(|index| Others {
            index: index.number(),
            name: Index::at(index).map(Index::name),
            kept: trace.count(index),
            gone: snapshot.count(index).saturating_sub(trace.count(index)),
        });
        let mut report = Report {
            repository: store.path().display().to_string(),
            dry_run,
            bytes_before: store.file().metadata()?.len(),
            bytes_after: 0,
            kept: Counts::default(),
            gone: Counts::default(),
            tickets: Vec::new(),
            images: Vec::new(),
            compilations: Vec::new(),
            searched: survey.searched.clone(),
            others: others.collect(),
            states_gone: StatesGone::default(),
            longest_hold: Duration::ZERO,
            warnings: survey.warnings.clone(),
        };
        for ticket in &survey.tickets {
            match ticket.gone {
                None => report.kept.tickets += 1,
                Some(gone) => report.tickets.push(item(ticket.path.display(), gone)),
            }
        }
        for (_, path, gone) in &survey.images {
            match gone {
                None => report.kept.images += 1,
                Some(gone) => report.images.push(item(path.display(), *gone)),
            }
        }
        report.kept.tickets += survey.found.len() as u64;
        report.kept.compilations = survey.live.len() as u64;
        let mut known: HashMap<Address, Vec<&Path>> = HashMap::new();
        for ticket in &survey.tickets {
            known
                .entry(ticket.compilation)
                .or_default()
                .push(&ticket.path);
        }
        for (address, digest) in &survey.dead {
            let paths = known.get(address).map_or(&[][..], |paths| paths);
            let paths: Vec<_> = paths
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            let what = match &paths[..] {
                [] => format!("{digest:.16}"),
                paths => format!("{digest:.16} ({})", paths.join(", ")),
            };
            report.compilations.push(item(what, Gone::NoTicket));
        }
        report.gone = Counts {
            tickets: report.tickets.len() as u64,
            images: report.images.len() as u64,
            compilations: report.compilations.len() as u64,
        };
        Ok(report)
    }

    /// Whether a dry run has found that a twentieth or more of the file would go: to copy the rest costs time, and wears the disk.
    pub fn is_worth_while(&self) -> bool {
        let freed = self.bytes_before.saturating_sub(self.bytes_after);
        freed > 0 && freed >= self.bytes_before / 20
    }

    /// Writes it for people.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        if self.dry_run {
            for (kind, items) in [
                ("ticket", &self.tickets),
                ("image", &self.images),
                ("compilation", &self.compilations),
            ] {
                for item in items {
                    writeln!(out, "{kind} {}: {}", item.what, item.reason)?;
                }
            }
        }
        for place in &self.searched {
            let (path, known) = (place.path.display(), place.remembered);
            let how = match (known, place.absent) {
                (_, true) => "is remembered, and not there now".to_owned(),
                (true, _) => format!("is remembered, {}", files(place.files)),
                (false, _) if self.dry_run => {
                    format!("would be remembered, {}", files(place.files))
                }
                (false, _) => files(place.files),
            };
            writeln!(out, "root {path}: {how}")?;
        }
        let verb = if self.dry_run { "would keep" } else { "kept" };
        for others in &self.others {
            let (index, name) = (others.index, others.name.unwrap_or("of an unknown kind"));
            let all = others.kept + others.gone;
            writeln!(
                out,
                "{verb} {} of {all} records in index {index}: {name}",
                others.kept
            )?;
        }
        writeln!(
            out,
            "{}: {verb} {} of {} compilations, {} of {} tickets, {} of {} images",
            self.repository,
            self.kept.compilations,
            self.kept.compilations + self.gone.compilations,
            self.kept.tickets,
            self.kept.tickets + self.gone.tickets,
            self.kept.images,
            self.kept.images + self.gone.images,
        )?;
        let StatesGone { outputs, bytes } = self.states_gone;
        if outputs > 0 {
            writeln!(
                out,
                "removed what links kept of {outputs} outputs that are gone, {bytes} bytes"
            )?;
        }
        let (before, after) = (self.bytes_before, self.bytes_after);
        if !self.dry_run {
            return writeln!(out, "{before} bytes before, {after} after");
        }
        // A file that has nothing to lose may be smaller than it would be after: what a new one begins with is not free.
        let freed = before.saturating_sub(after);
        writeln!(
            out,
            "{before} bytes now, about {after} after: {} would go; nothing was changed",
            in_units(freed)
        )
    }
}

fn files(count: u64) -> String {
    match count {
        1 => "1 file with tickets in it".to_owned(),
        count => format!("{count} files with tickets in it"),
    }
}

/// A number of bytes, for people.
fn in_units(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{:.1} KB", bytes as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

fn item(what: impl std::fmt::Display, gone: Gone) -> Item {
    Item {
        what: what.to_string(),
        reason: gone.reason(),
    }
}
