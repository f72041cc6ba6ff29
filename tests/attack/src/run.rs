//! Making tries, keeping what failed, and the table.

use crate::{Attack, Failure, Field, Verdict};
use repo_hostile::Random;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long to go on.
#[derive(Clone, Copy, Debug)]
pub enum Extent {
    /// As often as the table says.
    Short,
    /// All kinds in turn, for so long.
    Time(Duration),
}

/// What became of a kind of attack.
#[derive(Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// How many tries were made.
    pub tries: u32,
    /// Why it cannot be made here.
    pub impossible: Option<String>,
    /// What failed: why, and where the directory is.
    pub failures: Vec<(String, PathBuf)>,
}

/// Makes tries of `attacks`, and keeps those that fail in `keep`. `report` is told of each failure at once.
pub fn run(
    attacks: &[&'static Attack],
    extent: Extent,
    seed: u64,
    keep: &Path,
    report: &mut dyn FnMut(&str),
) -> Vec<Row> {
    let mut works: Vec<(Row, Result<Field, Failure>)> = Vec::new();
    for (number, attack) in attacks.iter().enumerate() {
        let row = Row {
            name: attack.name,
            tries: 0,
            impossible: None,
            failures: Vec::new(),
        };
        works.push((row, Field::new(seed.wrapping_add(number as u64) << 8)));
    }
    let begun = Instant::now();
    let mut round = 0;
    loop {
        let mut is_over = true;
        for (number, (attack, (row, field))) in attacks.iter().zip(&mut works).enumerate() {
            let goes_on = match extent {
                Extent::Short => round < attack.short,
                Extent::Time(time) => begun.elapsed() < time,
            };
            if !goes_on || row.impossible.is_some() {
                continue;
            }
            is_over = false;
            let field = match field {
                Ok(field) => field,
                Err(Failure::Impossible(why)) => {
                    row.impossible = Some(why.clone());
                    continue;
                }
                Err(Failure::Broken(why)) => {
                    row.failures.push((why.clone(), PathBuf::new()));
                    row.impossible = Some("the program does not work without any attack".into());
                    continue;
                }
            };
            // Each try has numbers of its own, so that one can be made again without those before it.
            field.random = Random::new(seed ^ u64::from(round) << 20 ^ (number as u64) << 56);
            match attempt(attack, field) {
                Ok(()) => row.tries += 1,
                Err(Failure::Impossible(why)) => row.impossible = Some(why),
                Err(Failure::Broken(why)) => {
                    row.tries += 1;
                    let name = format!("{}-{seed}-{round}", attack.name);
                    let kept = keep_directory(field, &keep.join(name), &why);
                    report(&format!("{}: {why}\nkept: {}", attack.name, kept.display()));
                    row.failures.push((why, kept));
                }
            }
        }
        round += 1;
        if is_over {
            return works.into_iter().map(|(row, _)| row).collect();
        }
    }
}

fn attempt(attack: &Attack, field: &mut Field) -> Verdict {
    field.restore()?;
    // What cannot even be started, or never ends, is a panic of the process runner's.
    let attempted = catch_unwind(AssertUnwindSafe(|| (attack.attempt)(field)));
    attempted.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(Failure::Broken(text.unwrap_or_else(|| "a panic".into())))
    })
}

/// Copies the directory as the attack has left it, with the reason.
fn keep_directory(field: &Field, to: &Path, why: &str) -> PathBuf {
    let _ = std::fs::remove_dir_all(to);
    let _ = to.parent().map(std::fs::create_dir_all);
    let copied = Command::new("cp")
        .arg("-a")
        .args([field.scratch.path(), to])
        .status();
    let _ = std::fs::write(to.join("WHY"), why);
    match copied {
        Ok(status) if status.success() => to.to_owned(),
        _ => PathBuf::from("(could not be kept)"),
    }
}

/// The rows as a table.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::from("| attack | tries | failures | |\n|---|---|---|---|\n");
    for row in rows {
        let note = row.impossible.as_deref().unwrap_or("");
        let (name, tries, failures) = (row.name, row.tries, row.failures.len());
        let _ = writeln!(text, "| {name} | {tries} | {failures} | {} |", note.trim());
    }
    text
}
