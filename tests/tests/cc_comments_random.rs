//! Comments and blank lines come, go and change at random places of real sources and their headers, and now and then something else:
//! whenever the compiler is not run, it would have made the same object. (With debug information, that is another one than before: where lines
//! have moved.)
//!
//! The draw is the same at every run. `$REPO_TESTS_EDITS` sets how many edits each source gets (6), `$REPO_TESTS_SOURCES_OF` how many sources of each
//! program (1), `$REPO_TESTS_SEED` where the draw begins. `$REPO_TESTS_COMMANDS` names a file with more sources, each in a line with
//! the options that it is compiled with behind it, and `$REPO_TESTS_BELOW` the directory that they and their headers are below, which is copied; then only
//! these are compiled.

use repo_tests::binaries::Binaries;
use repo_tests::draw::{Draw, setting};
use repo_tests::edited_trees::{Counts, copy_tree};
use repo_tests::process::run;
use repo_tests::programs::{self, Language, Program};
use repo_tests::scratch::{Scratch, settle};
use repo_tests::tools;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A source in a copy of its program's tree.
struct Unit {
    scratch: Scratch,
    compiler: PathBuf,
    source: PathBuf,
    options: Vec<String>,
    /// The source, and the headers of the tree that it includes.
    files: Vec<PathBuf>,
    draw: Draw,
}

impl Unit {
    fn new(
        compiler: &Path,
        tree: &Path,
        source: &Path,
        options: &[String],
        seed: u64,
    ) -> Option<Unit> {
        let scratch = Scratch::new();
        let copy = scratch.join("tree");
        copy_tree(tree, &copy).expect("copied");
        let moved = |text: &str| text.replace(tree.to_str().expect("UTF-8"), "tree");
        let mut unit = Unit {
            compiler: compiler.to_owned(),
            source: moved(source.to_str()?).into(),
            options: options.iter().map(|option| moved(option)).collect(),
            files: Vec::new(),
            draw: Draw(seed),
            scratch,
        };
        let mut list = unit.command(&unit.compiler.clone());
        let list = run(list.arg("-MM").arg(&unit.source));
        if !list.status.success() {
            return None;
        }
        let text = list.text();
        let words = text.split_whitespace().filter(|word| *word != "\\");
        unit.files = words.skip(1).map(PathBuf::from).collect();
        Some(unit)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = self.scratch.command(program);
        command
            .current_dir(self.scratch.path())
            .env("REPO_CC_PRUNE", "0")
            .args(&self.options);
        command
    }

    /// What the compiler makes; `None` if it does not accept the source.
    fn real(&self) -> Option<Vec<u8>> {
        let mut command = self.command(&self.compiler);
        command.arg("-c").arg(&self.source).args([
            "-ffunction-sections",
            "-fdata-sections",
            "-o",
            "real.o",
        ]);
        let is_made = run(&mut command).status.success();
        is_made.then(|| fs::read(self.scratch.join("real.o")).expect("an object"))
    }

    /// Compiles through `repo-cc`; whether the compiler was not run.
    fn is_hit(&self) -> bool {
        settle();
        self.compile("0")
    }

    /// The ticket of what is there now.
    fn ticket(&self) -> Vec<u8> {
        fs::read(self.scratch.join("a.o")).expect("an output")
    }

    /// Compiles through `repo-cc`, which is to know nothing if it is switched off; whether the compiler was not run.
    fn compile(&self, is_off: &str) -> bool {
        let log = self.scratch.join("log");
        let _ = fs::remove_file(&log);
        let _ = fs::remove_file(self.scratch.join("a.o"));
        let mut command = self.scratch.command(Binaries::get().path("repo-cc"));
        command
            .current_dir(self.scratch.path())
            .env("REPO_CC_PRUNE", "0")
            .env("REPO_CC_DISABLE", is_off)
            .arg("--log")
            .arg(&log)
            .arg(&self.compiler)
            .args(&self.options)
            .arg("-c")
            .arg(&self.source)
            .args(["-o", "a.o"]);
        run(&mut command);
        let log = fs::read_to_string(log).unwrap_or_default();
        log.contains("hit: the compiler is not run")
    }

    /// Edits one of the files; says which, and what it was.
    fn edit(&mut self) -> (PathBuf, Vec<u8>, String) {
        let file = self.files[self.draw.below(self.files.len())].clone();
        let path = self.scratch.join(&file);
        let before = fs::read(&path).expect("a source");
        let mut lines: Vec<Vec<u8>> = before
            .split_inclusive(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect();
        let at = self.draw.below(lines.len().max(1));
        let number = self.draw.below(1000);
        let is_only_comments = self.draw.below(8) > 0;
        if lines.is_empty() {
            lines.push(b"\n".to_vec());
        }
        let what = match self.draw.below(if is_only_comments { 7 } else { 10 }) {
            0 => {
                lines.insert(at, format!("// comment {number}\n").into_bytes());
                "a comment more"
            }
            1 => {
                lines.insert(at, format!("/* comment\n * {number}\n */\n").into_bytes());
                "a long comment more"
            }
            2 => {
                let line = &mut lines[at];
                let end = line.len() - usize::from(line.ends_with(b"\n"));
                line.splice(end..end, format!(" // {number}").into_bytes());
                "a comment at the end of a line"
            }
            3 => {
                let line = &mut lines[at];
                let blank = line.iter().position(|byte| *byte == b' ').unwrap_or(0);
                line.splice(blank..blank, format!("/* {number} */").into_bytes());
                "a comment in a line"
            }
            4 => {
                lines.insert(at, b"\n".to_vec());
                "a blank line more"
            }
            5 => {
                let is_left_out = |line: &Vec<u8>| {
                    let line = line.trim_ascii();
                    line.is_empty() || line.starts_with(b"//")
                };
                if let Some(found) = lines.iter().skip(at).position(is_left_out) {
                    lines.remove(at + found);
                }
                "a blank line or comment less"
            }
            6 => {
                let is_inside = |line: &Vec<u8>| line.trim_ascii_start().starts_with(b"* ");
                if let Some(found) = lines.iter().skip(at).position(is_inside) {
                    lines[at + found] = format!(" * {number}\n").into_bytes();
                }
                "other words in a comment"
            }
            7 => {
                let line = &mut lines[at];
                let byte = self.draw.below(line.len().max(1));
                if byte + 1 < line.len() {
                    line.remove(byte);
                }
                "a character less"
            }
            8 => {
                lines.insert(at, format!("extern int extra_{number};\n").into_bytes());
                "a declaration more"
            }
            _ => {
                let line = &mut lines[at];
                if let Some(digit) = line.iter().position(u8::is_ascii_digit) {
                    line[digit] = b'0' + (number % 10) as u8;
                }
                "another digit"
            }
        };
        fs::write(&path, lines.concat()).expect("written");
        let said = format!("{}:{}: {what}", file.display(), at + 1);
        (path, before, said)
    }

    fn edits(&mut self, count: u64, counts: &mut Counts) {
        let Some(mut object) = self.real() else {
            return;
        };
        self.is_hit();
        for _ in 0..count {
            let (path, before, said) = self.edit();
            let is_hit = self.is_hit();
            let Some(real) = self.real() else {
                assert!(!is_hit, "{}: {said}: refused", self.source.display());
                counts.refused += 1;
                fs::write(path, before).expect("written");
                continue;
            };
            let is_same = real == object;
            if is_hit {
                let ticket = self.ticket();
                assert!(!self.compile("1"), "it was not to be known");
                assert!(
                    ticket == self.ticket(),
                    "{} {} {}: {said}: another object",
                    self.compiler.display(),
                    self.options.join(" "),
                    self.source.display()
                );
            }
            counts.add(is_hit, is_same);
            object = real;
        }
    }
}

fn of_program(program: &Program, compilers: [&'static str; 2]) {
    let mut draw = Draw(setting("REPO_TESTS_SEED", 1));
    let mut counts = Counts::default();
    for name in compilers {
        let Some([compiler]) = tools::require([name]) else {
            continue;
        };
        for levels in [&["-O1"][..], &["-g"], &["-g", "-O2"]] {
            for _ in 0..setting("REPO_TESTS_SOURCES_OF", 1) {
                let source = &program.sources[draw.below(program.sources.len())];
                let tree = source.parent().expect("a directory");
                let mut options = program.flags.clone();
                options.extend(levels.iter().map(|level| (*level).to_owned()));
                let seed = draw.below(usize::MAX) as u64;
                let unit = Unit::new(&compiler, tree, source, &options, seed);
                let Some(mut unit) = unit else { continue };
                unit.edits(setting("REPO_TESTS_EDITS", 6), &mut counts);
            }
        }
    }
    eprintln!("{}: {counts:?}", program.name);
    assert!(counts.hits > 0, "{counts:?}");
}

fn has_commands() -> bool {
    std::env::var_os("REPO_TESTS_COMMANDS").is_some()
}

#[test]
fn of_lua() {
    if !has_commands() {
        let program = programs::lua().expect("its sources");
        assert_eq!(program.language, Language::C);
        of_program(&program, ["gcc", "clang"]);
    }
}

#[test]
fn of_cadical() {
    if !has_commands() {
        let program = programs::cadical().expect("its sources");
        of_program(&program, ["g++", "clang++"]);
    }
}

#[test]
fn of_commands() {
    let Some(list) = std::env::var_os("REPO_TESTS_COMMANDS") else {
        return;
    };
    let below = std::env::var_os("REPO_TESTS_BELOW").expect("$REPO_TESTS_BELOW");
    let mut draw = Draw(setting("REPO_TESTS_SEED", 1));
    let mut counts = Counts::default();
    for line in fs::read_to_string(list).expect("a list").lines() {
        let mut words = line.split_whitespace().map(str::to_owned);
        let (Some(compiler), Some(source)) = (words.next(), words.next()) else {
            continue;
        };
        let Some([compiler]) = tools::require([&*compiler.leak()]) else {
            continue;
        };
        let options: Vec<String> = words.collect();
        let seed = draw.below(usize::MAX) as u64;
        let unit = Unit::new(
            &compiler,
            Path::new(&below),
            Path::new(&source),
            &options,
            seed,
        );
        let Some(mut unit) = unit else {
            eprintln!("{source}: not compiled");
            continue;
        };
        unit.edits(setting("REPO_TESTS_EDITS", 6), &mut counts);
        eprintln!("{source}: {counts:?}");
    }
}
