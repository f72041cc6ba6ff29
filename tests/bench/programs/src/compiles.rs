//! Compiles that need not be done: what it takes to find that out, beside ccache in its direct mode.
//!
//! The same commands in turns, each with a store of its own that knows the result, the dependency file that build systems ask for
//! included. What counts is the ratio of two runs that follow each other.

use crate::measure::run;
use anyhow::{Context as _, Result, bail};
use repo_tests::binaries::Binaries;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Something to be compiled.
struct Subject {
    name: &'static str,
    compiler: &'static str,
    source: PathBuf,
    options: Vec<String>,
}

/// What was measured of one, milliseconds.
pub struct Compiles {
    name: &'static str,
    headers: usize,
    compiler: f64,
    first: f64,
    ccache: f64,
    ours: f64,
    /// Of runs that follow each other, sorted.
    ratios: Vec<f64>,
}

fn middle(mut values: Vec<f64>) -> (f64, Vec<f64>) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values)
}

/// Many headers, of which each is small.
fn five_hundred(directory: &Path) -> Result<PathBuf> {
    let mut source = String::new();
    for number in 0..500 {
        let text = format!(
            "#ifndef H{number}\n#define H{number}\nstatic inline int h{number}(int x) {{ return x + {number}; }}\n#endif\n"
        );
        fs::create_dir_all(directory.join("inc"))?;
        fs::write(directory.join(format!("inc/h{number}.h")), text)?;
        writeln!(source, "#include \"h{number}.h\"")?;
    }
    source += "int main(void) { return h0(1) + h499(2); }\n";
    let path = directory.join("many.c");
    fs::write(&path, source)?;
    Ok(path)
}

fn subjects(directory: &Path) -> Result<Vec<Subject>> {
    let small = directory.join("small.c");
    fs::write(&small, include_str!("hello.c"))?;
    let many = five_hundred(directory)?;
    let mut subjects = vec![
        Subject {
            name: "small C",
            compiler: "gcc",
            source: small,
            options: vec!["-O2".into(), "-g".into()],
        },
        Subject {
            name: "C, 500 headers",
            compiler: "gcc",
            source: many,
            options: vec!["-O2".into(), "-g".into(), "-Iinc".into()],
        },
    ];
    let llvm = Path::new("/usr/lib/llvm-19/include");
    if llvm.join("clang/Frontend/CompilerInstance.h").exists() {
        let big = directory.join("big.cc");
        let text = "#include <clang/Frontend/CompilerInstance.h>\n#include <clang/Sema/Sema.h>\n\
                    #include <clang/Tooling/Tooling.h>\n#include <regex>\n#include <map>\n\
                    int f(const std::map<int, std::regex> &m) { return m.size(); }\n";
        fs::write(&big, text)?;
        subjects.push(Subject {
            name: "C++, clang's headers",
            compiler: "g++",
            source: big,
            options: vec![
                "-O2".into(),
                "-std=c++17".into(),
                "-I/usr/lib/llvm-19/include".into(),
            ],
        });
    } else {
        eprintln!("without libclang-19-dev there is no large C++ source");
    }
    Ok(subjects)
}

/// Measures all of it.
///
/// # Errors
/// If a compiler fails, or there is no ccache.
pub fn measure(binaries: &Binaries, directory: &Path, runs: usize) -> Result<Vec<Compiles>> {
    let subjects = subjects(directory)?;
    // What is younger than some seconds is read each time, by us, or not trusted, by ccache.
    std::thread::sleep(Duration::from_secs(3));
    subjects
        .iter()
        .map(|subject| one(subject, binaries, directory, runs))
        .collect()
}

fn one(subject: &Subject, binaries: &Binaries, directory: &Path, runs: usize) -> Result<Compiles> {
    let command = |launcher: Option<&Path>, name: &str| {
        let mut command = match launcher {
            Some(launcher) => {
                let mut command = Command::new(launcher);
                command.arg(subject.compiler);
                command
            }
            None => Command::new(subject.compiler),
        };
        command
            .current_dir(directory)
            .env("CCACHE_DIR", directory.join("ccache"))
            .env("REPO_FILE", directory.join("compiles.repo"))
            .env("XDG_CACHE_HOME", directory.join("cache"))
            .env("XDG_STATE_HOME", directory.join("state"))
            .args(&subject.options)
            .args(["-MD", "-MF", &format!("{name}.d"), "-c"])
            .arg(&subject.source)
            .args(["-o", &format!("{name}.o")]);
        command
    };
    let mut alone = command(None, "alone");
    let (compiler, _) = middle(
        (0..5)
            .map(|_| Ok(run(&mut alone)?[0]))
            .collect::<Result<_>>()?,
    );
    let mut ccache = command(Some(Path::new("ccache")), "ccache");
    let mut ours = command(Some(binaries.path("repo-cc")), "ours");
    let log = directory.join("log");
    ours.env("REPO_LOG", &log);
    let first = run(&mut ours)?[0];
    run(&mut ours)?;
    for _ in 0..2 {
        run(&mut ccache)?;
    }
    let text = fs::read_to_string(&log).context("no log")?;
    let last = text.lines().last().unwrap_or_default();
    if !last.contains("hit: the compiler is not run") {
        bail!("{}: no hit: {last}", subject.name);
    }
    fs::remove_file(&log)?;
    let mut ours = command(Some(binaries.path("repo-cc")), "ours");
    let (mut of_ccache, mut of_ours) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        of_ccache.push(run(&mut ccache)?[0]);
        of_ours.push(run(&mut ours)?[0]);
    }
    let ratios = of_ours.iter().zip(&of_ccache).map(|(a, b)| a / b).collect();
    let dependencies = fs::read_to_string(directory.join("ours.d"))?;
    Ok(Compiles {
        name: subject.name,
        headers: dependencies
            .split_whitespace()
            .filter(|word| *word != "\\")
            .count()
            - 2,
        compiler,
        first,
        ccache: middle(of_ccache).0,
        ours: middle(of_ours).0,
        ratios: middle(ratios).1,
    })
}

impl Compiles {
    fn quantile(&self, part: f64) -> f64 {
        self.ratios[((self.ratios.len() - 1) as f64 * part) as usize]
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name, "headers": self.headers, "compiler": self.compiler, "first": self.first,
            "ccache": self.ccache, "ours": self.ours,
            "ratio": [self.quantile(0.5), self.quantile(0.25), self.quantile(0.75)],
        })
    }
}

/// A table of them.
pub fn print(all: &[Compiles]) {
    println!(
        "| hit of | headers | compiler alone | first, repo-cc | ccache | repo-cc | ratio [quartiles] |"
    );
    println!("|---|---|---|---|---|---|---|");
    for it in all {
        println!(
            "| {} | {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.2} [{:.2}–{:.2}] |",
            it.name,
            it.headers,
            it.compiler,
            it.first,
            it.ccache,
            it.ours,
            it.quantile(0.5),
            it.quantile(0.25),
            it.quantile(0.75)
        );
    }
}
