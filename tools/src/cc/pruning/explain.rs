//! What became of each definition, and why, in words.
//!
//! Why a definition is new can be said if the compile before is known: of those that were explained, the last report of each translation
//! unit is kept beside what else is known of this user's compiles. It is read for this only.

use super::super::memo::shared;
use pruning::changes::Changes;
use pruning::graph::Flags;
use pruning::protocol::{Defined, Report, State};
use rustc_hash::FxHashMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use store::guard::Temporary;

/// What the names of the kept reports begin with.
pub const NAME: &str = "definitions-of-";

/// Says it, a line for each definition. `refused`: names of what could not be recorded, and why. `has_graph`: also what each depends on, and
/// which of its users have a say in it.
pub fn say(report: &Report, refused: &[(String, String)], unit: &str, has_graph: bool) {
    let refused: FxHashMap<&str, &str> = (refused.iter())
        .map(|(name, why)| (name.as_str(), why.as_str()))
        .collect();
    if let Some(whole) = &report.whole {
        eprintln!("repo-cc: nothing is left out: {whole}");
    }
    let place = place(unit);
    let before = place.as_deref().and_then(read);
    let changes = before.as_ref().map(|before| Changes::new(before, report));
    for (at, defined) in report.definitions.iter().enumerate() {
        if Flags(defined.flags).has(Flags::CONTENT) {
            continue;
        }
        let state = state(defined);
        let why = match (&defined.why, refused.get(defined.name.as_str())) {
            (Some(why), _) => format!(" ({why})"),
            (None, Some(why)) => format!(" (and not recorded: {why})"),
            (None, None) => String::new(),
        };
        let change = changes.as_ref().filter(|_| defined.state == State::New);
        let change = change.and_then(|changes| changes.why(at as u32));
        let change = change.map_or_else(String::new, |change| {
            format!("; since the last compile: {change}")
        });
        eprintln!(
            "repo-cc: {}: {state}{why} [{}]{change}",
            defined.shown(),
            &defined.digest[..16]
        );
        if has_graph {
            graph(report, defined);
        }
    }
    if let Some(place) = place {
        keep(report, &place);
    }
}

/// Says what a definition depends on.
fn graph(report: &Report, defined: &Defined) {
    let names = |list: &[u32]| {
        let found = list
            .iter()
            .filter_map(|at| report.definitions.get(*at as usize));
        let names: Vec<&str> = found.map(Defined::shown).collect();
        names.join(", ")
    };
    for (what, list) in [
        ("depends on", &defined.follows),
        ("depends on its users", &defined.contributors),
    ] {
        if !list.is_empty() {
            eprintln!("repo-cc:   {what} {}", names(list));
        }
    }
}

/// In a word.
fn state(defined: &Defined) -> &'static str {
    let flags = Flags(defined.flags);
    match defined.state {
        State::New if flags.has(Flags::NEVER) => "compiled each time",
        State::New if flags.has(Flags::LOCAL) => "a part of its users",
        State::New => "new",
        State::Known => "known",
        State::KnownKept => "known, kept for inlining",
        State::Unreached => "not needed",
    }
}

fn place(unit: &str) -> Option<PathBuf> {
    let directory = shared::directory().ok()?;
    Some(directory.join(format!("{NAME}{unit}")))
}

fn read(place: &Path) -> Option<Report> {
    serde_json::from_slice(&fs::read(place).ok()?).ok()
}

/// Keeps a report for the next time; if that cannot be, less is said then.
fn keep(report: &Report, place: &Path) {
    let write = || -> std::io::Result<()> {
        let bytes = serde_json::to_vec(report)?;
        let (temporary, mut file) = Temporary::create(".repo-cc-", place, 0o600)?;
        file.write_all(&bytes)?;
        temporary.rename(place)
    };
    let _ = write();
}
