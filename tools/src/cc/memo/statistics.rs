//! What `--show-stats` says and `--zero-stats` forgets.

use super::counts::Counts;
use super::shared;
use crate::cc::import::Importer;
use crate::cc::invocation::Asked;
use format_spec::program::Index;
use serde::Serialize;
use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Wishes {
    /// To show them.
    pub show: bool,
    /// To set them to zero.
    pub zero: bool,
    /// As JSON.
    pub json: bool,
}

#[derive(Serialize)]
struct Report {
    repository: String,
    /// Size of the repository's file.
    bytes: u64,
    /// Commands whose results are known.
    manifests: u64,
    /// Compiles that were looked up, and how many of them were found.
    looked_up: u64,
    hits: u64,
    counts: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    name: String,
    count: u64,
}

/// Shows the counters of the repository of the working directory, and sets them to zero, as asked.
///
/// # Errors
/// In words.
pub fn statistics(asked: &Asked<'_>, wishes: Wishes) -> Result<(), String> {
    let directory = env::current_dir().map_err(|error| error.to_string())?;
    let mut importer = Importer::new(asked);
    let Some(repository) = importer.existing(&directory.join("x")) else {
        return Err("there is no repository here".into());
    };
    let own = shared::directory().map_err(|error| error.to_string())?;
    let counts = Counts::open(Some(&own), repository.uuid());
    if wishes.show {
        let snapshot = (repository.store().snapshot()).map_err(|error| error.to_string())?;
        let all = counts.all();
        let of = |beginning: &str| -> u64 {
            let matching = all.iter().filter(|(name, _)| name.starts_with(beginning));
            matching.map(|(_, count)| count).sum()
        };
        let hits = of(super::counts::HITS);
        let report = Report {
            repository: repository.path().display().to_string(),
            bytes: size(repository.path()),
            manifests: snapshot.count(Index::Manifests.slot()),
            looked_up: hits + of("miss"),
            hits,
            counts: (all.iter())
                .map(|(name, count)| Line {
                    name: name.clone(),
                    count: *count,
                })
                .collect(),
        };
        let written = match wishes.json {
            true => report.as_json(),
            false => report.as_text(),
        };
        let mut out = io::stdout().lock();
        (out.write_all(written?.as_bytes())).map_err(|error| error.to_string())?;
    }
    if wishes.zero {
        counts.zero();
    }
    Ok(())
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

impl Report {
    fn as_json(&self) -> Result<String, String> {
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        Ok(text + "\n")
    }

    fn as_text(&self) -> Result<String, String> {
        let mut rows = vec![
            ("repository", self.repository.clone()),
            ("size", format!("{:.1} MB", self.bytes as f64 / 1e6)),
            ("manifests", self.manifests.to_string()),
        ];
        if self.looked_up > 0 {
            let share = self.hits as f64 * 100.0 / self.looked_up as f64;
            rows.push((
                "hits",
                format!("{} of {} ({share:.1} %)", self.hits, self.looked_up),
            ));
        }
        let counts = self.counts.iter();
        rows.extend(counts.map(|line| (&line.name[..], line.count.to_string())));
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut text: String = (rows.iter())
            .map(|(name, value)| format!("{name:width$}  {value}\n"))
            .collect();
        if self.counts.is_empty() {
            text += "nothing counted\n";
        }
        Ok(text)
    }
}
