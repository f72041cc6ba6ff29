//! What the compactor did, or would do.

use crate::roots::{Gone, Survey};
use crate::trace::Trace;
use anyhow::Result;
use format_spec::file::IndexSlot;
use format_spec::program::{Index, has_envelopes};
use serde::Serialize;
use std::io::Write;
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
    /// Size of the file after; unknown in a dry run.
    pub bytes_after: Option<u64>,
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
    /// Records of other kinds: how many of each stay, and how many go.
    pub others: Vec<Others>,
    /// What the user may want to know.
    pub warnings: Vec<String>,
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
            bytes_after: None,
            kept: Counts::default(),
            gone: Counts::default(),
            tickets: Vec::new(),
            images: Vec::new(),
            compilations: Vec::new(),
            others: others.collect(),
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
        for (_, digest) in &survey.dead {
            report
                .compilations
                .push(item(format_args!("{digest:.16}"), Gone::NoTicket));
        }
        report.gone = Counts {
            tickets: report.tickets.len() as u64,
            images: report.images.len() as u64,
            compilations: report.compilations.len() as u64,
        };
        Ok(report)
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
        match self.bytes_after {
            Some(after) => writeln!(out, "{} bytes before, {after} after", self.bytes_before),
            None => writeln!(out, "{} bytes now; nothing was changed", self.bytes_before),
        }
    }
}

fn item(what: impl std::fmt::Display, gone: Gone) -> Item {
    Item {
        what: what.to_string(),
        reason: gone.reason(),
    }
}
