//! Reading what test suites print: the outcome of each test by name.
//!
//! A name that comes again gets a number (`name #2`), so that no outcome hides another.

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What became of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It passed.
    Pass,
    /// It failed.
    Fail,
    /// It was not run, and says so.
    Skip,
}

/// By name of the test.
pub type Outcomes = BTreeMap<String, Outcome>;

/// How a test suite tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `PASS: name`, `FAIL: name`, `SKIP: name`, as automake's; what the table's own scripts print.
    Automake,
    /// `*** name OK ***`, `*** name FAILED ***`.
    Stars,
    /// `ok 1 - name`, `not ok 2 - name`, `ok 3 # skip why` (Test Anything Protocol), with lines `== script` between.
    Tap,
    /// The summary lines of Perl's prove: `test.t .. ok`.
    Prove,
    /// SQLite's: `name... Ok`, `! name expected: […]`.
    Sqlite,
    /// Redis's: `[ok]: name (3 ms)`, `[err]: name in file`.
    Redis,
    /// JUnit's XML in this file beside the build's directory.
    Junit(&'static str),
    /// `cargo test`'s: `test name ... ok`, with `Running …` and `Doc-tests …` lines between.
    Cargo,
}

/// Adds what `text`, a test suite's output, tells in `format`. `tree` is the build's directory.
///
/// # Errors
/// If the format has a file of its own, and it cannot be read.
pub fn read(format: Format, text: &str, tree: &Path, outcomes: &mut Outcomes) -> Result<()> {
    let text = &without_colours(text);
    match format {
        Format::Automake => automake(text, outcomes),
        Format::Stars => stars(text, outcomes),
        Format::Tap => tap(text, outcomes),
        Format::Prove => prove(text, outcomes),
        Format::Sqlite => sqlite(text, outcomes),
        Format::Redis => redis(text, outcomes),
        Format::Junit(name) => {
            let path = tree.join(name);
            let text = fs::read_to_string(&path)
                .with_context(|| format!("no test results in {}", path.display()))?;
            junit(&text, outcomes);
        }
        Format::Cargo => cargo(text, outcomes),
    }
    Ok(())
}

/// Without the sequences that set colours: `ESC [ 1 ; 32 m` (ECMA-48, SGR).
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut plain = String::from(parts.next().unwrap_or(""));
    for part in parts {
        let parameters = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        match parameters.strip_prefix('m') {
            Some(rest) => plain.push_str(rest),
            None => plain.push_str(part),
        }
    }
    plain
}

fn add(outcomes: &mut Outcomes, name: &str, outcome: Outcome) {
    let mut unique = name.to_owned();
    let mut number = 1;
    while outcomes.contains_key(&unique) {
        number += 1;
        unique = format!("{name} #{number}");
    }
    outcomes.insert(unique, outcome);
}

fn automake(text: &str, outcomes: &mut Outcomes) {
    for line in text.lines() {
        for (word, outcome) in [
            ("PASS: ", Outcome::Pass),
            ("FAIL: ", Outcome::Fail),
            ("SKIP: ", Outcome::Skip),
        ] {
            if let Some(name) = line.strip_prefix(word) {
                add(outcomes, name.trim(), outcome);
            }
        }
    }
}

fn stars(text: &str, outcomes: &mut Outcomes) {
    for line in text.lines() {
        let inner = line
            .trim()
            .strip_prefix("*** ")
            .and_then(|line| line.strip_suffix(" ***"));
        for (word, outcome) in [(" OK", Outcome::Pass), (" FAILED", Outcome::Fail)] {
            if let Some(name) = inner.and_then(|inner| inner.strip_suffix(word)) {
                add(outcomes, name, outcome);
            }
        }
    }
}

fn tap(text: &str, outcomes: &mut Outcomes) {
    let mut script = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            script = name;
            continue;
        }
        let (outcome, rest) = if let Some(rest) = line.strip_prefix("ok ") {
            (Outcome::Pass, rest)
        } else if let Some(rest) = line.strip_prefix("not ok ") {
            (Outcome::Fail, rest)
        } else {
            continue;
        };
        let number_end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        if number_end == 0 {
            continue;
        }
        let (number, description) = rest.split_at(number_end);
        let (description, directive) = description.split_once('#').unwrap_or((description, ""));
        let directive = directive.trim_start().to_ascii_lowercase();
        let outcome = match outcome {
            _ if directive.starts_with("skip") => Outcome::Skip,
            // A known breakage: the same in both builds, or else a difference.
            Outcome::Fail if directive.starts_with("todo") => Outcome::Skip,
            outcome => outcome,
        };
        let description = description.trim_matches([' ', '-']);
        add(
            outcomes,
            &format!("{script} {number} {description}"),
            outcome,
        );
    }
}

fn prove(text: &str, outcomes: &mut Outcomes) {
    // What fails has its result in a line of its own.
    let mut open = None;
    for line in text.lines() {
        let (name, result) = match (line.split_once(" ."), open.take()) {
            (Some((name, rest)), _) if name.ends_with(".t") => {
                (name, rest.trim_start_matches(['.', ' ']))
            }
            (_, Some(name)) => (name, line),
            _ => continue,
        };
        let outcome = if result.starts_with("ok") {
            Outcome::Pass
        } else if result.starts_with("skipped") {
            Outcome::Skip
        } else if result.starts_with("Dubious") || result.starts_with("Failed") {
            Outcome::Fail
        } else {
            open = Some(name).filter(|_| result.is_empty() && !line.is_empty());
            continue;
        };
        let name = name.rsplit('/').next().unwrap_or(name);
        add(outcomes, name, outcome);
    }
}

fn sqlite(text: &str, outcomes: &mut Outcomes) {
    let is_name = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
    for line in text.lines() {
        if let Some((name, rest)) = line.split_once("...") {
            let outcome = match rest.trim() {
                "Ok" => Outcome::Pass,
                "Omitted" => Outcome::Skip,
                _ => continue,
            };
            if is_name(name) {
                add(outcomes, name, outcome);
            }
        } else if let Some(rest) = line.strip_prefix("! ")
            && let Some((name, _)) = rest.split_once(" expected:")
        {
            add(outcomes, name, Outcome::Fail);
        }
    }
}

fn redis(text: &str, outcomes: &mut Outcomes) {
    for line in text.lines() {
        for (word, outcome) in [
            ("[ok]: ", Outcome::Pass),
            ("[err]: ", Outcome::Fail),
            ("[exception]: ", Outcome::Fail),
            ("[ignore]: ", Outcome::Skip),
        ] {
            let Some(rest) = line.strip_prefix(word) else {
                continue;
            };
            // What is added differs from run to run: times, and where it failed.
            let name = match outcome {
                Outcome::Pass => rest.rsplit_once(" (").map_or(rest, |(name, _)| name),
                _ => rest.split_once(" in tests/").map_or(rest, |(name, _)| name),
            };
            add(outcomes, name, outcome);
        }
    }
}

/// `<testcase name="…" …/>`, or with `<failure`, `<error` or `<skipped` inside.
fn junit(text: &str, outcomes: &mut Outcomes) {
    for case in text.split("<testcase ").skip(1) {
        let (head, rest) = case.split_once('>').unwrap_or((case, ""));
        let Some(name) = head
            .split_once("name=\"")
            .and_then(|(_, rest)| rest.split_once('"'))
        else {
            continue;
        };
        let body = if head.ends_with('/') {
            ""
        } else {
            rest.split_once("</testcase>")
                .map_or(rest, |(body, _)| body)
        };
        let outcome = if body.contains("<failure") || body.contains("<error") {
            Outcome::Fail
        } else if body.contains("<skipped") || head.contains("result=\"suppressed\"") {
            Outcome::Skip
        } else {
            Outcome::Pass
        };
        add(outcomes, name.0, outcome);
    }
}

fn cargo(text: &str, outcomes: &mut Outcomes) {
    let mut binary = "";
    for line in text.lines() {
        let trimmed = line.trim_start();
        if let Some(rest) = trimmed.strip_prefix("Running ") {
            // `Running unittests src/lib.rs (target/debug/deps/regex-0123456789abcdef)`
            binary = rest.split_once(" (").map_or(rest, |(name, _)| name);
        } else if trimmed.starts_with("Doc-tests ") {
            binary = trimmed;
        } else if let Some((name, result)) = trimmed
            .strip_prefix("test ")
            .and_then(|rest| rest.rsplit_once(" ... "))
        {
            let outcome = if result.starts_with("ok") {
                Outcome::Pass
            } else if result.starts_with("ignored") {
                Outcome::Skip
            } else {
                Outcome::Fail
            };
            add(outcomes, &format!("{binary}: {name}"), outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(format: Format, text: &str) -> Vec<(String, Outcome)> {
        let mut outcomes = Outcomes::new();
        read(format, text, Path::new("."), &mut outcomes).unwrap();
        outcomes.into_iter().collect()
    }

    fn pairs(expected: &[(&str, Outcome)]) -> Vec<(String, Outcome)> {
        let owned = |(name, outcome): &(&str, Outcome)| (String::from(*name), *outcome);
        expected.iter().map(owned).collect()
    }

    use Outcome::{Fail, Pass, Skip};

    #[test]
    fn repeated_names_are_numbered() {
        let text = "PASS: a\nnoise\nFAIL: a\nSKIP: b\n";
        let expected = [("a", Pass), ("a #2", Fail), ("b", Skip)];
        assert_eq!(of(Format::Automake, text), pairs(&expected));
    }

    #[test]
    fn zlib() {
        let text = "\t\t*** zlib test OK ***\n\t\t*** zlib shared test FAILED ***\n";
        let expected = [("zlib shared test", Fail), ("zlib test", Pass)];
        assert_eq!(of(Format::Stars, text), pairs(&expected));
    }

    #[test]
    fn test_anything_protocol() {
        let text = "== t1.sh\nok 1 - plain\nnot ok 2 - broken\nok 3 # skip no tty (missing TTY)\n\
                    not ok 4 - known # TODO known breakage\n1..4\n== t2.sh\nok 1 - plain\nok, he said\n";
        let expected = [
            ("t1.sh 1 plain", Pass),
            ("t1.sh 2 broken", Fail),
            ("t1.sh 3 ", Skip),
            ("t1.sh 4 known", Skip),
            ("t2.sh 1 plain", Pass),
        ];
        assert_eq!(of(Format::Tap, text), pairs(&expected));
    }

    #[test]
    fn prove_lines() {
        let text = "../../test/recipes/01-test_abort.t .................... ok\n\
                    02-a.t ... skipped: no shared\n03-b.t .. Failed 1/2 subtests\n\
                    04-c.t .. \nDubious, test returned 1\nFailed 1/1 subtests\n05-d.t .. \n\nok\n";
        let expected = [
            ("01-test_abort.t", Pass),
            ("02-a.t", Skip),
            ("03-b.t", Fail),
            ("04-c.t", Fail),
        ];
        assert_eq!(of(Format::Prove, text), pairs(&expected));
    }

    #[test]
    fn databases() {
        let text = "func-1.1... Ok\nfunc-1.2...\n! func-1.2 expected: [1]\n! func-1.2 got:      [2]\nTime: a... b\n";
        let expected = [("func-1.1", Pass), ("func-1.2", Fail)];
        assert_eq!(of(Format::Sqlite, text), pairs(&expected));
        let text = "[\x1b[0;32;49mok\x1b[0m]: SET (and GET) works (12 ms)\n[err]: BITOP in tests/unit/bitops.tcl\nExpected 1\n[ignore]: big: large memory\n";
        let expected = [
            ("BITOP", Fail),
            ("SET (and GET) works", Pass),
            ("big: large memory", Skip),
        ];
        assert_eq!(of(Format::Redis, text), pairs(&expected));
    }

    #[test]
    fn junit_cases() {
        let text = r#"<testsuite><testcase name="a.b" status="run" /><testcase name="c" status="run"><failure>x > y</failure></testcase><testcase name="d" ><skipped>no</skipped></testcase></testsuite>"#;
        let mut outcomes = Outcomes::new();
        junit(text, &mut outcomes);
        let expected = [("a.b", Pass), ("c", Fail), ("d", Skip)];
        assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), pairs(&expected));
    }

    #[test]
    fn cargo_test() {
        let text = "     Running unittests src/lib.rs (target/debug/deps/regex-0123)\n\nrunning 2 tests\n\
                    test a::b ... ok\ntest c - should panic ... FAILED\n\ntest result: FAILED. 1 passed\n   Doc-tests regex\n\
                    test src/lib.rs - (line 3) ... ignored\n";
        let expected = [
            ("Doc-tests regex: src/lib.rs - (line 3)", Skip),
            ("unittests src/lib.rs: a::b", Pass),
            ("unittests src/lib.rs: c - should panic", Fail),
        ];
        assert_eq!(of(Format::Cargo, text), pairs(&expected));
    }
}
