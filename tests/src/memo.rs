//! Compiling twice, with and without the memory of `repo-cc`: what was not compiled must be what a compile makes.

use crate::binaries::Binaries;
use crate::compare::is_ticket;
use crate::process::{Run, run};
use crate::scratch::{Scratch, settle};
use crate::tools;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory with a source in C or C++ and a compiler for it.
#[derive(Debug)]
pub struct Memo {
    /// Where it is.
    pub scratch: Scratch,
    /// The compiler.
    pub compiler: PathBuf,
    /// `a.c` or `a.cc`.
    pub source: &'static str,
    /// What is set for each compile.
    pub environment: Vec<(String, String)>,
}

/// What a compile left.
#[derive(Debug, PartialEq, Eq)]
pub struct Left {
    /// The output.
    pub ticket: Vec<u8>,
    /// The dependency file.
    pub dependencies: Option<Vec<u8>>,
    /// What the compiler said, without what `repo-cc` says.
    pub errors: String,
    /// What it printed.
    pub output: String,
}

/// What is compiled at first, with `inc/first.h`, `inc/second.h` and `inc/third.h`.
pub const SOURCE: &str = r#"#include <stddef.h>
#include "first.h"
#include <second.h>
#if __has_include("asked.h")
int asked = 1;
#endif
#ifdef EXTRA
int extra = EXTRA;
#endif
int f(int x) { return x + FIRST + SECOND; }
int g(void) { int unused; return f(1); }
"#;

/// The variable that says whether definitions are left out.
const PRUNE: &str = "REPO_CC_PRUNE";

impl Memo {
    /// One for each compiler and language that there is.
    pub fn each(test: impl Fn(&Memo)) {
        Memo::of(
            &[
                ("gcc", "a.c"),
                ("g++", "a.cc"),
                ("clang", "a.c"),
                ("clang++", "a.cc"),
            ],
            test,
        );
    }

    /// One for each family of compilers, and one for each language.
    pub fn two(test: impl Fn(&Memo)) {
        Memo::of(&[("gcc", "a.c"), ("clang++", "a.cc")], test);
    }

    /// One for each of these compilers that there is, with the name of its source.
    pub fn of(compilers: &[(&'static str, &'static str)], test: impl Fn(&Memo)) {
        for (name, source) in compilers {
            if let Some([compiler]) = tools::require([*name]) {
                test(&Memo::new(compiler, source));
            }
        }
    }

    /// One for this compiler.
    pub fn new(compiler: PathBuf, source: &'static str) -> Memo {
        let scratch = Scratch::new();
        scratch.write(source, SOURCE);
        scratch.write("inc/first.h", "#define FIRST 1\n");
        scratch.write(
            "inc/second.h",
            "#include \"third.h\"\n#define SECOND THIRD\n",
        );
        scratch.write("inc/third.h", "#define THIRD 3\n");
        fs::create_dir_all(scratch.join("early")).expect("a directory");
        Memo {
            scratch,
            compiler,
            source,
            environment: Vec::new(),
        }
    }

    /// The arguments of a compile, with more before them.
    pub fn words<'w>(&self, more: &[&'w str]) -> Vec<&'w str>
    where
        'static: 'w,
    {
        let mut words = vec!["-Iearly", "-Iinc", "-c", self.source, "-o", "a.o"];
        words.splice(0..0, more.iter().copied());
        words
    }

    /// A compile through `repo-cc`.
    pub fn command(&self, words: &[&str], directory: &Path) -> Command {
        let mut command = self.scratch.command(Binaries::get().path("repo-cc"));
        command
            .current_dir(directory)
            .env_remove("PWD")
            .arg("--explain")
            .arg("--log")
            .arg(self.scratch.join("log"))
            .arg(&self.compiler)
            .args(words);
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        command
    }

    /// Runs a compile; says what the log has, too.
    pub fn run(&self, words: &[&str], directory: &Path, is_off: bool) -> (Run, String) {
        settle();
        let _ = fs::remove_file(self.scratch.join("log"));
        let mut command = self.command(words, directory);
        if is_off {
            // What is left out of a compile is another matter.
            command.env("REPO_CC_DISABLE", "1");
            if !self.environment.iter().any(|(name, _)| name == PRUNE) {
                command.env(PRUNE, "1");
            }
        }
        let run = run(&mut command);
        let log = fs::read_to_string(self.scratch.join("log")).unwrap_or_default();
        (run, log)
    }

    /// What a compile has left.
    pub fn left(&self, run: Run, directory: &Path, words: &[&str]) -> Left {
        let run = run.ok();
        let object = words
            .iter()
            .position(|word| *word == "-o")
            .map(|at| words[at + 1]);
        let object = directory.join(object.unwrap_or("a.o"));
        let file = words
            .iter()
            .position(|word| *word == "-MF")
            .map(|at| words[at + 1]);
        let dependencies = match file {
            Some(file) => directory.join(file),
            None => object.with_extension("d"),
        };
        // What we say ourselves is in the log, too.
        let errors = run.errors();
        let of_compiler = errors.lines().filter(|line| !line.starts_with("repo-cc: "));
        Left {
            ticket: fs::read(&object).expect("an output"),
            dependencies: fs::read(dependencies).ok(),
            errors: of_compiler.collect::<Vec<_>>().join("\n"),
            output: run.text(),
        }
    }

    /// Removes what compiles leave.
    pub fn clean(&self, directory: &Path) {
        for name in ["a.o", "a.d", "b.o", "dep", "dep2", "sub/b.o", "sub/b.d"] {
            let _ = fs::remove_file(directory.join(name));
        }
    }

    /// Compiles in `directory`, and asserts that all is as it is without the memory; whether it was a hit.
    #[track_caller]
    pub fn compile_in(&self, words: &[&str], directory: &Path) -> bool {
        self.compile_and_compare(words, directory, None).0
    }

    /// As `compile_in`, where it may be known what a real compile leaves; says that, too.
    #[track_caller]
    pub fn compile_and_compare(
        &self,
        words: &[&str],
        directory: &Path,
        real: Option<Left>,
    ) -> (bool, Left) {
        self.clean(directory);
        let (run, log) = self.run(words, directory, false);
        let left = self.left(run, directory, words);
        let is_fat = self
            .environment
            .iter()
            .any(|(name, _)| name == "REPO_CC_FAT");
        assert!(is_fat || is_ticket(&left.ticket), "{log}");
        let real = real.unwrap_or_else(|| {
            self.clean(directory);
            let (run, _) = self.run(words, directory, true);
            self.left(run, directory, words)
        });
        assert!(
            left.ticket == real.ticket,
            "other tickets: {}\n{log}",
            words.join(" ")
        );
        assert_eq!(left, real, "{log}");
        (log.contains("hit: the compiler is not run"), real)
    }

    /// As `compile_in`, in the directory itself.
    #[track_caller]
    pub fn compile(&self, words: &[&str]) -> bool {
        self.compile_in(words, self.scratch.path())
    }

    /// A hit.
    #[track_caller]
    pub fn hit(&self, words: &[&str]) {
        assert!(self.compile(words), "a miss of {}", words.join(" "));
    }

    /// A miss, and a hit afterwards.
    #[track_caller]
    pub fn miss(&self, words: &[&str]) {
        let (is_hit, real) = self.compile_and_compare(words, self.scratch.path(), None);
        assert!(!is_hit, "a hit of {}", words.join(" "));
        let (is_hit, _) = self.compile_and_compare(words, self.scratch.path(), Some(real));
        assert!(is_hit, "a miss of {}", words.join(" "));
    }

    /// Never a hit.
    #[track_caller]
    pub fn never(&self, words: &[&str]) {
        for _ in 0..2 {
            assert!(!self.compile(words), "a hit of {}", words.join(" "));
        }
    }
}
