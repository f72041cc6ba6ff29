//! Bodies of functions in headers of real sources are edited at random: whenever clang is not run for a source, because it makes no code of what
//! was edited, it would have made the same object, byte for byte; with `-g`, the one that comes of it when lines are moved in its debug information.
//!
//! Of two sources the first is compiled, so that it is known that the header is in order; it is about the second that something is learned. The draw
//! is the same at every run. `$REPO_TESTS_EDITS` sets how many edits each pair gets (6), `$REPO_TESTS_SOURCES_OF` how many pairs (2),
//! `$REPO_TESTS_SEED` where the draw begins. `$REPO_TESTS_COMMANDS` names a file with other sources, each in a line with the options that it is compiled with
//! behind it, and `$REPO_TESTS_BELOW` the directory that they and their headers are below, which is copied.

use repo_tests::binaries::{self, Binaries};
use repo_tests::draw::{Draw, setting};
use repo_tests::edited_trees::{Counts, copy_tree};
use repo_tests::process::run;
use repo_tests::programs;
use repo_tests::require;
use repo_tests::scratch::{Scratch, settle};
use repo_tests::tools;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Two sources in a copy of their program's tree.
struct Pair {
    scratch: Scratch,
    clang: PathBuf,
    sources: [String; 2],
    options: Vec<String>,
    /// The headers of the tree that both include.
    headers: Vec<String>,
    draw: Draw,
}

impl Pair {
    fn new(
        clang: &Path,
        tree: &Path,
        sources: [&Path; 2],
        options: &[String],
        seed: u64,
    ) -> Option<Pair> {
        let scratch = Scratch::new();
        copy_tree(tree, &scratch.join("tree")).expect("copied");
        let moved = |text: &str| text.replace(tree.to_str().expect("UTF-8"), "tree");
        let mut pair = Pair {
            clang: clang.to_owned(),
            sources: [moved(sources[0].to_str()?), moved(sources[1].to_str()?)],
            options: options.iter().map(|option| moved(option)).collect(),
            headers: Vec::new(),
            draw: Draw(seed),
            scratch,
        };
        let included = |source: &str| {
            let mut list = pair.command(&pair.clang);
            let list = run(list.arg("-MM").arg(source));
            let text = list.text();
            let words = text.split_whitespace().filter(|word| *word != "\\");
            let names: BTreeSet<String> = words.skip(2).map(str::to_owned).collect();
            list.status.success().then_some(names)
        };
        let (first, second) = (included(&pair.sources[0])?, included(&pair.sources[1])?);
        pair.headers = first.intersection(&second).cloned().collect();
        (!pair.headers.is_empty()).then_some(pair)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = self.scratch.command(program);
        command.current_dir(self.scratch.path()).args(&self.options);
        command
    }

    /// What the compiler makes of the second source; `None` if it does not accept it.
    fn real(&self) -> Option<Vec<u8>> {
        let mut command = self.command(&self.clang);
        command.arg("-c").arg(&self.sources[1]).args([
            "-ffunction-sections",
            "-fdata-sections",
            "-o",
            "real.o",
        ]);
        let is_made = run(&mut command).status.success();
        is_made.then(|| fs::read(self.scratch.join("real.o")).expect("an object"))
    }

    /// Whether the ticket of the second source is that of what a compile makes.
    fn is_as_compiled(&self) -> bool {
        let ticket = || fs::read(self.scratch.join("1.o")).expect("a ticket");
        let found = ticket();
        self.compile_with(1, "1");
        found == ticket()
    }

    /// Compiles a source through `repo-cc`; whether that went well, and whether the compiler was not run.
    fn compile(&self, number: usize) -> (bool, bool) {
        settle();
        self.compile_with(number, "0")
    }

    /// The same; `is_off`: nothing is to be known.
    fn compile_with(&self, number: usize, is_off: &str) -> (bool, bool) {
        let log = self.scratch.join("log");
        let _ = fs::remove_file(&log);
        let mut command = self.scratch.command(Binaries::get().path("repo-cc"));
        command
            .current_dir(self.scratch.path())
            .env("REPO_CC_DISABLE", is_off)
            .arg("--log")
            .arg(&log)
            .arg(&self.clang)
            .args(&self.options)
            .arg("-c")
            .arg(&self.sources[number])
            .args(["-o", &format!("{number}.o")]);
        let is_made = run(&mut command).status.success();
        let log = fs::read_to_string(log).unwrap_or_default();
        (is_made, log.contains("hit: the compiler is not run"))
    }

    /// Edits what may be the body of a function in a header; says which, and what it was.
    fn edit(&mut self) -> (PathBuf, Vec<u8>, String) {
        loop {
            let name = self.headers[self.draw.below(self.headers.len())].clone();
            let path = self.scratch.join(&name);
            let before = fs::read(&path).expect("a header");
            let mut lines: Vec<Vec<u8>> = before
                .split_inclusive(|byte| *byte == b'\n')
                .map(<[u8]>::to_vec)
                .collect();
            let opens =
                |line: &Vec<u8>| line.trim_ascii_end().ends_with(b"{") && line.contains(&b')');
            let starts: Vec<usize> = (0..lines.len()).filter(|at| opens(&lines[*at])).collect();
            if starts.is_empty() || self.draw.below(12) == 0 {
                continue;
            }
            let start = starts[self.draw.below(starts.len())];
            let is_closed = |line: &Vec<u8>| line.trim_ascii().starts_with(b"}");
            let Some(size) = lines.iter().skip(start + 1).take(30).position(is_closed) else {
                continue;
            };
            let at = start + 1 + self.draw.below(size.max(1));
            let number = self.draw.below(1000);
            let what = match self.draw.below(6) {
                0 => {
                    lines.insert(at, b"while (false) ;\n".to_vec());
                    "a statement more"
                }
                1 => {
                    let again = lines[at].clone();
                    lines.insert(at, again);
                    "a line again"
                }
                2 => {
                    lines.remove(at);
                    "a line less"
                }
                3 => {
                    let line = &mut lines[at];
                    line.splice(0..0, b"if (sizeof (int) == 77) ".iter().copied());
                    "a condition more"
                }
                4 => {
                    lines[at] = format!("; // {number}\n").into_bytes();
                    "a line that is nothing"
                }
                _ => {
                    let line = &mut lines[at];
                    match line.iter().position(u8::is_ascii_digit) {
                        Some(digit) => line[digit] = b'0' + (number % 10) as u8,
                        None => continue,
                    }
                    "another digit"
                }
            };
            fs::write(&path, lines.concat()).expect("written");
            return (path, before, format!("{name}:{}: {what}", at + 1));
        }
    }

    fn edits(&mut self, count: u64, counts: &mut Counts) {
        let Some(mut object) = self.real() else {
            return;
        };
        self.compile(0);
        self.compile(1);
        for _ in 0..count {
            let (path, before, said) = self.edit();
            let (is_made, _) = self.compile(0);
            let real = self.real();
            let (true, Some(real)) = (is_made, real) else {
                counts.refused += 1;
                fs::write(path, before).expect("written");
                continue;
            };
            let (is_made, is_hit) = self.compile(1);
            assert!(is_made, "{said}");
            let is_same = real == object;
            let is_moved = is_hit && self.options.contains(&"-g".to_owned());
            assert!(
                is_same || !is_hit || is_moved && self.is_as_compiled(),
                "{} {}: {said}: another object",
                self.options.join(" "),
                self.sources[1],
            );
            counts.add(is_hit, is_same);
            object = real;
        }
    }
}

#[test]
fn of_cadical() {
    let [clang] = require!("clang-19");
    if binaries::plugin().is_none() {
        return tools::skip("llvm-19-dev");
    }
    if std::env::var_os("REPO_TESTS_COMMANDS").is_some() {
        return;
    }
    let program = programs::cadical().expect("its sources");
    let mut draw = Draw(setting("REPO_TESTS_SEED", 1));
    let mut counts = Counts::default();
    for number in 0..setting("REPO_TESTS_SOURCES_OF", 2) {
        let mut source = || &program.sources[draw.below(program.sources.len())];
        let (first, second) = (source(), source());
        let tree = first.parent().expect("a directory");
        let mut options = program.flags.clone();
        let own: [&[&str]; 3] = [&["-O1"], &["-O2"], &["-O1", "-g"]];
        let own = own[number as usize % own.len()].iter();
        options.extend(own.chain(&["-w", "-DNDEBUG"]).map(|it| (*it).to_owned()));
        let seed = draw.below(usize::MAX) as u64;
        let pair = Pair::new(&clang, tree, [first, second], &options, seed);
        if let Some(mut pair) = pair {
            pair.edits(setting("REPO_TESTS_EDITS", 6), &mut counts);
        }
    }
    eprintln!("{counts:?}");
    assert!(counts.hits > 0, "{counts:?}");
}

#[test]
fn of_commands() {
    let Some(list) = std::env::var_os("REPO_TESTS_COMMANDS") else {
        return;
    };
    let below = std::env::var_os("REPO_TESTS_BELOW").expect("$REPO_TESTS_BELOW");
    let [clang] = require!("clang-19");
    assert!(binaries::plugin().is_some(), "no plugin");
    let mut draw = Draw(setting("REPO_TESTS_SEED", 1));
    let mut counts = Counts::default();
    let list = fs::read_to_string(list).expect("a list");
    let lines: Vec<Vec<String>> = list
        .lines()
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect();
    for _ in 0..setting("REPO_TESTS_SOURCES_OF", 2) {
        let (first, second) = (
            &lines[draw.below(lines.len())],
            &lines[draw.below(lines.len())],
        );
        let sources = [Path::new(&first[0]), Path::new(&second[0])];
        let seed = draw.below(usize::MAX) as u64;
        let pair = Pair::new(&clang, Path::new(&below), sources, &second[1..], seed);
        let Some(mut pair) = pair else { continue };
        pair.edits(setting("REPO_TESTS_EDITS", 6), &mut counts);
        eprintln!("{} {}: {counts:?}", first[0], second[0]);
    }
}
