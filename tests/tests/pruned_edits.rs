//! Sources of other people's programs are edited at random, again and again, and compiled in parts: each time what comes of it is what
//! compiling all of it gives.
//!
//! The draw is the same at every run. `$REPO_TESTS_EDITS` sets how many edits each source gets (2), `$REPO_TESTS_SOURCES_OF` how many sources
//! of each program (2), `$REPO_TESTS_SEED` where the draw begins. `$REPO_TESTS_COMMANDS` names a file with more sources, each in a line with the options
//! that it is compiled with behind it; then only these are compiled.

use repo_tests::binaries::{self, Binaries};
use repo_tests::draw::{Draw, setting};
use repo_tests::mutations::{self, Edited};
use repo_tests::process::run;
use repo_tests::programs::{self, Language, Program};
use repo_tests::require;
use repo_tests::scratch::Scratch;
use repo_tests::tools;
use std::fs;
use std::path::{Path, PathBuf};

const LEVELS: &[&str] = &["-O0", "-O1", "-O2", "-O3", "-Os"];

/// A source, with the headers that it may include, in a directory of its own.
struct Unit {
    scratch: Scratch,
    clang: PathBuf,
    name: String,
    /// A copy of the source, that is edited.
    source: PathBuf,
    is_cxx: bool,
    options: Vec<String>,
    /// The source, and the headers that it includes.
    files: Vec<PathBuf>,
    counts: Counts,
}

/// What came of the edits.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    compiled: usize,
    refused: usize,
    /// No object was made in parts.
    whole: usize,
    known: usize,
    new: usize,
}

/// Copies what may be a header, with its directories.
fn copy_headers(from: &Path, to: &Path, depth: usize) {
    for entry in fs::read_dir(from).expect("a directory").flatten() {
        let path = entry.path();
        let name = path.file_name().expect("a name");
        if path.is_dir() && depth > 0 {
            copy_headers(&path, &to.join(name), depth - 1);
        }
        let endings = ["h", "hpp", "inc", "def", "hh", "ipp"];
        let is_header = (path.extension()).is_some_and(|end| endings.iter().any(|it| end == *it));
        if path.is_file() && is_header {
            fs::create_dir_all(to).expect("a directory can be made");
            fs::copy(&path, to.join(name)).expect("a header can be copied");
        }
    }
}

impl Unit {
    /// `None` if it cannot be compiled so, or is no text.
    fn new(clang: &Path, source: &Path, options: &[String], level: &str) -> Option<Unit> {
        let scratch = Scratch::new();
        let text = fs::read_to_string(source).ok()?;
        let mut own = vec![level.to_owned()];
        let mut file = None;
        for (number, option) in options.iter().enumerate() {
            match option
                .strip_prefix("-I")
                .filter(|path| Path::new(path).is_dir())
            {
                Some(directory) => {
                    let copy = scratch.join(format!("include{number}"));
                    copy_headers(Path::new(directory), &copy, 8);
                    fs::create_dir_all(&copy).ok()?;
                    if let Ok(inside) = source.strip_prefix(directory) {
                        file.get_or_insert(copy.join(inside));
                    }
                    own.push(format!("-I{}", copy.display()));
                    // What is included and no header.
                    own.extend(["-idirafter".to_owned(), directory.to_owned()]);
                }
                None => own.push(option.clone()),
            }
        }
        if file.is_none() {
            // Sources include what is in the directories beside their own.
            let around = source.parent()?.parent()?;
            copy_headers(around, &scratch.join("source"), 2);
            file = Some(
                scratch
                    .join("source")
                    .join(source.strip_prefix(around).ok()?),
            );
        }
        let file = scratch.write(file?, text);
        let name = source.file_name()?.to_str()?.to_owned();
        let is_cxx = !name.ends_with(".c");
        let mut unit = Unit {
            clang: clang.to_owned(),
            is_cxx,
            options: own,
            files: Vec::new(),
            counts: Counts::default(),
            name,
            source: file,
            scratch,
        };
        let mut list = unit.scratch.command(clang);
        list.args(&unit.options)
            .args(["-MM", "-MT", "x"])
            .arg(&unit.source);
        let output = list
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        let list = String::from_utf8(output.stdout).ok()?;
        let words = list
            .split_ascii_whitespace()
            .skip(1)
            .filter(|word| *word != "\\");
        let root = unit.scratch.path().to_owned();
        unit.files = words.map(|word| root.join(word)).collect();
        unit.files.retain(|file| file.starts_with(&root));
        Some(unit)
    }

    /// Compiles it, and has it compared; what is said, or that it is no good source.
    fn compile(&mut self) -> Result<String, String> {
        let mut command = self.scratch.command(Binaries::get().path("repo-cc"));
        command
            .args(["--verify", "--verbose"])
            .arg(&self.clang)
            .args(&self.options)
            .args(["-w", "-Wno-error", "-c"])
            .arg(&self.source)
            .args(["-o", "out.o"])
            // Each is a compile, and __TIME__ the same in all.
            .env("REPO_CC_DISABLE", "1")
            .env("SOURCE_DATE_EPOCH", "1000000000");
        let ran = run(&mut command);
        let said = ran.errors();
        if said.contains("verified: ") {
            self.counts.compiled += 1;
            self.counts.whole += usize::from(!said.contains(" known ("));
            for line in said
                .lines()
                .filter(|line| line.contains(" definitions new, "))
            {
                let mut words = line.split(": ").nth(2).unwrap_or_default().split(' ');
                let mut next = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
                self.counts.new += next();
                let known = line.split(" definitions new, ").nth(1).unwrap_or_default();
                let known = known.split(' ').next().and_then(|word| word.parse().ok());
                self.counts.known += known.unwrap_or(0);
            }
            return Ok(said);
        }
        if ran.status.success() {
            return Ok(said);
        }
        Err(said)
    }

    /// Draws an edit of the source, or of a header, and compiles; takes back what is no good source.
    fn edit(&mut self, serial: usize, draw: &mut Draw) -> Option<String> {
        let file = match draw.below(3) {
            0 => self.files[draw.below(self.files.len())].clone(),
            _ => self.source.clone(),
        };
        let before = fs::read_to_string(&file).ok()?;
        let is_cxx = self.is_cxx;
        let Edited { text, what } = mutations::edit(&before, is_cxx, serial, draw)?;
        let what = format!("{what} of {}", file.display());
        fs::write(&file, text).expect("written");
        match self.compile() {
            Ok(said) => {
                assert!(
                    said.contains("verified: ") && !said.contains("DIFFERENT"),
                    "{} {:?}: {what}: {said}\n",
                    self.name,
                    self.options
                );
                Some(what)
            }
            Err(said) => {
                let is_wrong_source = said.contains(" error: ") && !said.contains("DIFFERENT");
                assert!(
                    is_wrong_source,
                    "{} {:?}: {what}: {said}\n",
                    self.name, self.options
                );
                self.counts.refused += 1;
                fs::write(&file, before).expect("written");
                None
            }
        }
    }

    /// So many edits that can be compiled.
    fn edits(&mut self, count: usize, draw: &mut Draw) {
        let said = self.compile();
        let said = said.unwrap_or_else(|said| panic!("{}: {said}", self.name));
        assert!(said.contains("verified: "), "{}: {said}", self.name);
        let mut made = 0;
        for serial in 0..20 * count {
            made += usize::from(self.edit(serial, draw).is_some());
            if made == count {
                break;
            }
        }
        eprintln!("{} {}: {:?}", self.name, self.options[0], self.counts);
    }
}

/// Sources with their options.
fn subjects(draw: &mut Draw) -> Vec<(PathBuf, Vec<String>)> {
    if let Ok(file) = std::env::var("REPO_TESTS_COMMANDS") {
        let lines = fs::read_to_string(file).expect("a list of sources");
        let lines = lines.lines().map(|line| {
            let mut words = line.split(' ').map(str::to_owned);
            (
                PathBuf::from(words.next().unwrap_or_default()),
                words.collect(),
            )
        });
        return lines.collect();
    }
    let count = setting("REPO_TESTS_SOURCES_OF", 2) as usize;
    let all: [fn() -> anyhow::Result<Program>; 3] =
        [programs::lua, programs::zstd, programs::cadical];
    let mut subjects = Vec::new();
    for program in all {
        let program = program().expect("the sources are there");
        let endings = match program.language {
            Language::C => ".c",
            Language::Cxx => ".cpp",
        };
        let mut sources = program.sources;
        sources.retain(|source| source.to_string_lossy().ends_with(endings));
        for _ in 0..count {
            let source = sources[draw.below(sources.len())].clone();
            subjects.push((source, program.flags.clone()));
        }
    }
    subjects
}

#[test]
fn what_is_compiled_in_parts_is_what_is_compiled_whole() {
    let [clang] = require!("clang-19");
    if binaries::plugin().is_none() {
        return tools::skip("llvm-19-dev");
    }
    let mut draw = Draw(setting("REPO_TESTS_SEED", 24));
    let edits = setting("REPO_TESTS_EDITS", 2) as usize;
    let mut total = Counts::default();
    for (number, (source, options)) in subjects(&mut draw).into_iter().enumerate() {
        let level = LEVELS[(number + draw.below(2)) % LEVELS.len()];
        let Some(mut unit) = Unit::new(&clang, &source, &options, level) else {
            panic!("{} cannot be compiled", source.display());
        };
        unit.edits(edits, &mut draw);
        total.compiled += unit.counts.compiled;
        total.known += unit.counts.known;
        total.new += unit.counts.new;
        total.whole += unit.counts.whole;
    }
    eprintln!("{total:?}");
    // It is no test if nothing is left out.
    assert!(total.known > total.compiled, "{total:?}");
}
