//! What the README says is so: its variables are those of the code and of the manual, and its links, options and commands
//! are there.

use manual::environment::VARIABLES;
use repo_tests::binaries::{Binaries, INSTALLED};
use repo_tests::process::run;
use repo_tests::scratch::Scratch;
use repo_tests::sources::project_root;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn readme() -> String {
    fs::read_to_string(project_root().join("README.md")).expect("the README")
}

/// What stands between backticks in a text.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether a word is written as variables are.
fn is_name(word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    word.len() > 3
        && word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.chars().all(is_part)
}

/// The sources of the four programs, without their tests.
fn sources() -> Vec<(PathBuf, String)> {
    let root = project_root();
    let mut directories: Vec<PathBuf> = [
        "linker/src",
        "store/src",
        "store/tickets/src",
        "compactor/src",
        "tools/src",
        "tools/pruning/src",
        "format-spec/src",
    ]
    .map(|directory| root.join(directory))
    .to_vec();
    let mut sources = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("a directory of sources") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                directories.push(path);
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
                let text = fs::read_to_string(&path).expect("a source");
                let end = text.find("#[cfg(test)]").unwrap_or(text.len());
                sources.push((path, text[..end].to_owned()));
            }
        }
    }
    assert!(sources.len() > 100, "{} sources", sources.len());
    sources
}

/// The variables that the code names: in files that look at the environment, all strings that are written as variables
/// are; in others, those that are called as ours.
fn of_the_code() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, text) in sources() {
        let code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        let code = code.collect::<Vec<_>>().join("\n");
        let looks = code.contains("env::");
        let strings = code
            .split('"')
            .skip(1)
            .step_by(2)
            .filter(|string| is_name(string));
        names.extend(
            strings
                .filter(|name| looks || name.starts_with("REPO_"))
                .map(str::to_owned),
        );
        if code.contains("env::temp_dir()") {
            names.insert("TMPDIR".to_owned());
        }
    }
    names
}

#[test]
fn every_variable_is_in_the_table_and_in_the_code() {
    let readme = readme();
    let table = readme
        .split_once("| variable | read by |")
        .expect("the table of variables")
        .1;
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let first = rows.filter_map(|row| row.split('|').nth(1));
    let told: BTreeSet<String> = first.flat_map(quoted).map(str::to_owned).collect();
    let manual: BTreeSet<String> = VARIABLES
        .iter()
        .map(|variable| variable.name.to_owned())
        .collect();
    assert_eq!(told, of_the_code(), "the README's table, and the code");
    assert_eq!(told, manual, "the README's table, and the manual");
}

#[test]
fn links_lead_somewhere() {
    let root = project_root();
    let mut seen = 0;
    for page in [
        "README.md",
        "tests/bench/RESULTS.md",
        "tools/xtask/PACKAGES.md",
        "store/CHECKS.md",
        "store/SECURITY.md",
        "tools/LIMITS.md",
        "format-spec/SPEC.md",
    ] {
        let page = root.join(page);
        let text =
            fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        let targets = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'))
            .map(|(target, _)| target);
        for target in targets.filter(|target| !target.contains("://") && !target.starts_with('#')) {
            let path = page.parent().unwrap_or(Path::new("")).join(target);
            assert!(path.exists(), "{}: {target}", page.display());
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen} links");
}

/// The words of a text that are long options.
fn options(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let words = text.split(|c: char| !is_part(c));
    let options = words.filter(|word| word.starts_with("--") && word.len() > 3);
    options.map(str::to_owned).collect()
}

/// Those of other programs.
const OTHERS: [&str; 1] = ["--workspace"];

#[test]
fn options_and_commands_are_there() {
    let readme = readme();
    let scratch = Scratch::new();
    let binaries = Binaries::get();
    let help = |program: &str, words: &[&str]| {
        run(scratch
            .command(binaries.path(program))
            .args(words)
            .arg("--help"))
        .ok()
        .text()
    };
    let verbs = help("xtask", &[]);
    let mut known: BTreeSet<String> = OTHERS.map(str::to_owned).into();
    for program in INSTALLED {
        known.extend(options(&help(program, &[])));
    }
    let called = readme
        .split("cargo xtask ")
        .skip(1)
        .filter_map(|rest| rest.split(|c: char| !c.is_ascii_lowercase()).next());
    let called: BTreeSet<&str> = called.collect();
    assert!(
        called.contains("demo") && called.contains("test"),
        "{called:?}"
    );
    for verb in called {
        assert!(
            verbs.contains(&format!("\n  {verb} ")),
            "cargo xtask {verb}"
        );
        known.extend(options(&help("xtask", &[verb])));
    }
    let told = options(&readme);
    assert!(told.len() > 10, "{told:?}");
    let unknown: Vec<_> = told.difference(&known).collect();
    assert!(unknown.is_empty(), "no program has {unknown:?}");
}
