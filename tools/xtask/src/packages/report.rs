//! Comparing the builds of a package, and telling: as a table, in detail, as JSON.

use crate::packages::build::{self, Built, Options, SCRIPT, Way};
use crate::packages::outcomes::{Outcome, Outcomes};
use crate::packages::source;
use crate::packages::table::{Language, Package};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// How many differences are printed for a package; JSON has all.
const SHOWN: usize = 20;

/// All builds of a package.
pub struct PackageResult {
    name: String,
    reference: Result<Built, String>,
    others: Vec<(Way, Result<Compared, String>)>,
}

/// A build by repo-ld beside the reference.
struct Compared {
    built: Built,
    differences: Vec<Difference>,
}

/// A test that ended differently; `None` where it was not run.
#[derive(Debug, PartialEq, Eq)]
struct Difference {
    test: String,
    reference: Option<Outcome>,
    ours: Option<Outcome>,
}

impl PackageResult {
    /// Builds and tests `package` in each way.
    pub fn of(package: &Package, options: &Options, tickets: bool) -> PackageResult {
        let text = |error: anyhow::Error| format!("{error:#}");
        // Asked once, so that what is edited meanwhile is not in one build and missing in another.
        let identity = source::identity(&package.source).map_err(text);
        let build = |way| {
            let identity = identity.as_ref().map_err(String::clone)?;
            build::build(package, way, options, identity).map_err(text)
        };
        let reference = build(Way::System);
        let mut others = Vec::new();
        if let Ok(reference) = &reference {
            let mut ways = vec![Way::Objects];
            if tickets && package.language == Language::C {
                ways.push(Way::Tickets);
            }
            for way in ways {
                let compared = build(way).map(|built| Compared {
                    differences: differences(&reference.outcomes, &built.outcomes),
                    built,
                });
                others.push((way, compared));
            }
        }
        PackageResult {
            name: format!("{}{}", package.name, options.flags.remark()),
            reference,
            others,
        }
    }

    /// Whether every build is there, was linked by repo-ld, and its tests ended as the reference's; and whether there
    /// were any.
    pub fn is_good(&self) -> bool {
        let passed =
            |(name, outcome): (&String, &Outcome)| *outcome == Outcome::Pass && name != SCRIPT;
        let tested = |built: &Built| built.outcomes.iter().any(passed);
        let good = |compared: &Compared| {
            compared.differences.is_empty()
                && compared.built.outputs.unexplained.is_empty()
                && compared.built.outputs.linked > 0
        };
        self.reference.as_ref().is_ok_and(tested)
            && self
                .others
                .iter()
                .all(|(_, result)| result.as_ref().is_ok_and(good))
    }
}

fn differences(reference: &Outcomes, ours: &Outcomes) -> Vec<Difference> {
    let names: BTreeSet<&String> = reference.keys().chain(ours.keys()).collect();
    let mut differences = Vec::new();
    for name in names {
        let (reference, ours) = (reference.get(name).copied(), ours.get(name).copied());
        if reference != ours {
            differences.push(Difference {
                test: name.clone(),
                reference,
                ours,
            });
        }
    }
    differences
}

fn count(outcomes: &Outcomes, outcome: Outcome) -> usize {
    outcomes.values().filter(|&&o| o == outcome).count()
}

/// `passed/failed/skipped`, or only what there is.
fn counts(outcomes: &Outcomes) -> String {
    let mut text = format!("{} passed", count(outcomes, Outcome::Pass));
    for (outcome, word) in [(Outcome::Fail, "failed"), (Outcome::Skip, "skipped")] {
        let number = count(outcomes, outcome);
        if number > 0 {
            let _ = write!(text, ", {number} {word}");
        }
    }
    text
}

/// One line for each build by repo-ld, in Markdown.
pub fn table(results: &[PackageResult]) -> String {
    let mut text = String::from(
        "| package | from | outputs linked | tests with ld | tests with repo-ld | differences |\n|---|---|---|---|---|---|\n",
    );
    for result in results {
        let reference = match &result.reference {
            Ok(reference) => counts(&reference.outcomes),
            Err(_) => {
                let _ = writeln!(text, "| {} | | | failed | | |", result.name);
                continue;
            }
        };
        for (way, ours) in &result.others {
            let from = match way {
                Way::Tickets => "tickets",
                _ => "objects",
            };
            let _ = write!(text, "| {} | {from} | ", result.name);
            let _ = match ours {
                Ok(Compared { built, differences }) => {
                    let outputs = &built.outputs;
                    let all = outputs.linked + outputs.unexplained.len();
                    writeln!(
                        text,
                        "{} of {all} | {reference} | {} | {} |",
                        outputs.linked,
                        counts(&built.outcomes),
                        differences.len()
                    )
                }
                Err(_) => writeln!(text, "| {reference} | failed | |"),
            };
        }
    }
    text
}

/// What is not as it should be.
pub fn details(result: &PackageResult) -> String {
    let mut text = String::new();
    let name = &result.name;
    if let Err(error) = &result.reference {
        let _ = writeln!(text, "xtask: {name} with ld: {error}");
    }
    for (way, ours) in &result.others {
        let way = way.name();
        match ours {
            Err(error) => {
                let _ = writeln!(text, "xtask: {name} with {way}: {error}");
            }
            Ok(Compared { built, differences }) => {
                for file in &built.outputs.unexplained {
                    let _ = writeln!(text, "xtask: {name} with {way}: not by repo-ld: {file}");
                }
                for difference in differences.iter().take(SHOWN) {
                    let Difference {
                        test,
                        reference,
                        ours,
                    } = difference;
                    let word = |outcome: &Option<Outcome>| match outcome {
                        None => "not run".to_owned(),
                        Some(outcome) => format!("{outcome:?}").to_lowercase(),
                    };
                    let _ = writeln!(
                        text,
                        "xtask: {name} with {way}: {test}: {}, with ld {}",
                        word(ours),
                        word(reference)
                    );
                }
                if differences.len() > SHOWN {
                    let more = differences.len() - SHOWN;
                    let _ = writeln!(text, "xtask: {name} with {way}: {more} more (--json)");
                }
            }
        }
    }
    text
}

/// Everything but the outcomes that are equal.
pub fn json(results: &[PackageResult]) -> Value {
    let built = |built: &Built| {
        json!({
            "passed": count(&built.outcomes, Outcome::Pass),
            "failed": count(&built.outcomes, Outcome::Fail),
            "skipped": count(&built.outcomes, Outcome::Skip),
            "build_seconds": built.seconds[0],
            "test_seconds": built.seconds[1],
        })
    };
    let of_difference = |difference: &Difference| {
        json!({
            "test": difference.test,
            "ld": difference.reference,
            "repo-ld": difference.ours,
        })
    };
    let of_way = |(way, ours): &(Way, Result<Compared, String>)| match ours {
        Err(error) => json!({ "from": way.name(), "error": error }),
        Ok(ours) => {
            let mut value = built(&ours.built);
            value["from"] = way.name().into();
            value["linked"] = ours.built.outputs.linked.into();
            value["not_by_repo_ld"] = ours.built.outputs.unexplained.clone().into();
            value["differences"] = ours.differences.iter().map(of_difference).collect();
            value
        }
    };
    let of_package = |result: &PackageResult| {
        json!({
            "package": result.name,
            "good": result.is_good(),
            "ld": result.reference.as_ref().map_or_else(|error| json!({ "error": error }), built),
            "builds": result.others.iter().map(of_way).collect::<Vec<_>>(),
        })
    };
    results.iter().map(of_package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_differently_or_is_missing_is_a_difference() {
        let outcomes = |pairs: &[(&str, Outcome)]| -> Outcomes {
            let owned = pairs
                .iter()
                .map(|(name, outcome)| ((*name).to_owned(), *outcome));
            owned.collect()
        };
        let reference = outcomes(&[
            ("a", Outcome::Pass),
            ("b", Outcome::Pass),
            ("c", Outcome::Fail),
            ("d", Outcome::Skip),
        ]);
        let ours = outcomes(&[
            ("a", Outcome::Pass),
            ("b", Outcome::Fail),
            ("c", Outcome::Fail),
        ]);
        let difference = |test: &str, reference, ours| Difference {
            test: test.to_owned(),
            reference,
            ours,
        };
        assert_eq!(
            differences(&reference, &ours),
            [
                difference("b", Some(Outcome::Pass), Some(Outcome::Fail)),
                difference("d", Some(Outcome::Skip), None),
            ]
        );
    }
}
