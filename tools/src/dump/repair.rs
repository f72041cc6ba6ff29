//! `--repair`: what the disk has damaged is made good, as far as that can be done.
//!
//! Indices and vectors follow from the log: their leaves are made again from it. A record that is
//! damaged cannot be made again here (a compile that adds the same mends it). What is made of
//! it is left out by a compaction that drops nothing else, which says what must be built again.

use super::model::Model;
use super::output::{Text, View};
use super::verify::{self, verify};
use anyhow::{Context, Result};
use compactor::compact::compact;
use compactor::observer::Silent;
use compactor::priority::Rank;
use compactor::roots::{HOLDS, PART, Wishes};
use serde::Serialize;
use std::time::{SystemTime, UNIX_EPOCH};
use store::program::Repository;

/// What `--repair` did.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Leaves of indices and vectors that were made again.
    leaves: u64,
    /// What was dropped, and what the user should do.
    dropped: Vec<String>,
    /// What is found afterwards.
    after: verify::Report,
}

impl Report {
    /// Whether everything is as it must be, now.
    pub fn is_good(&self) -> bool {
        self.after.is_good()
    }
}

fn look(repository: &Repository) -> Result<verify::Report> {
    verify(&Model {
        programs: repository.programs()?,
        demangle: false,
    })
}

/// Repairs `repository`, which is open for writing.
///
/// # Errors
/// If it cannot be repaired: then it is as it was, but for leaves. The only way is a new one.
pub fn repair(repository: &Repository) -> Result<Report> {
    let mut report = Report {
        leaves: 0,
        dropped: Vec::new(),
        after: look(repository)?,
    };
    if report.is_good() {
        return Ok(report);
    }
    // If the log cannot be followed, the indices may be good all the same.
    let leaves = repository.store().rewrite_leaves();
    report.leaves = *leaves.as_ref().unwrap_or(&0);
    report.after = look(repository)?;
    if report.is_good() {
        return Ok(report);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let all = Wishes {
        now: u64::try_from(now.as_nanos())?,
        grace: u64::MAX,
        unused: u64::MAX,
        max_size: None,
        holds: HOLDS,
        part: PART,
        threads: 1,
        rank: Rank::Behind,
        roots: Vec::new(),
    };
    let compacted = compact(repository, &all, &Silent).with_context(|| match leaves {
        Ok(_) => "cannot be repaired: remove it, and build again".to_owned(),
        Err(error) => format!("cannot be repaired: remove it, and build again ({error})"),
    })?;
    report.dropped = compacted.warnings;
    let path = repository.path();
    let options = store::engine::OpenOptions {
        read_only: true,
        ..store::engine::OpenOptions::default()
    };
    report.after = look(&Repository::open_with(path, &options)?)?;
    Ok(report)
}

impl View for Report {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        if self.leaves > 0 {
            writeln!(out, "repaired: {} leaves of indices", self.leaves)?;
        }
        for dropped in &self.dropped {
            writeln!(out, "dropped: {dropped}")?;
        }
        self.after.text(out)
    }
}
