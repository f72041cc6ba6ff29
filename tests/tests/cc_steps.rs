//! Calls of several steps through `repo-cc` (several sources, sources with their link): what the driver would have done, and what
//! of it is known is not done again.

use repo_tests::binaries::Binaries;
use repo_tests::compare::is_ticket_file;
use repo_tests::process::{Run, run};
use repo_tests::scratch::{Scratch, settle};
use repo_tests::tools;
use std::fs;
use std::path::{Path, PathBuf};

struct Field {
    scratch: Scratch,
    compiler: PathBuf,
    /// What sources end with.
    suffix: &'static str,
}

impl Field {
    /// For each compiler that there is.
    fn each(test: impl Fn(&Field)) {
        for (name, suffix) in [
            ("gcc", "c"),
            ("g++", "cc"),
            ("clang", "c"),
            ("clang++", "cc"),
        ] {
            let Some([compiler]) = tools::require([name]) else {
                continue;
            };
            let scratch = Scratch::new();
            scratch.write("inc/known.h", "#define SIX 6\n");
            scratch.write(
                format!("a.{suffix}"),
                "#include \"known.h\"\n#ifdef __cplusplus\nextern \"C\"\n#endif\nint g(int);\n\
                 int main(void) { int unused; return g(SIX); }\n",
            );
            scratch.write(
                format!("b.{suffix}"),
                "#ifdef __cplusplus\nextern \"C\"\n#endif\nint g(int x) { int idle; return x - 6; }\n",
            );
            fs::create_dir(scratch.join("tmp")).expect("a directory");
            test(&Field {
                scratch,
                compiler,
                suffix,
            });
        }
    }

    /// Through `repo-cc`; and what it says of it.
    #[track_caller]
    fn call(&self, words: &[&str]) -> (Run, String) {
        settle();
        let _ = fs::remove_file(self.scratch.join("log"));
        let mut command = self.scratch.command(Binaries::get().path("repo-cc"));
        command.arg("--log").arg(self.scratch.join("log"));
        command.env("TMPDIR", self.scratch.join("tmp"));
        let done = run(command.arg(&self.compiler).args(self.words(words)));
        let log = fs::read_to_string(self.scratch.join("log")).unwrap_or_default();
        let left: Vec<_> = fs::read_dir(self.scratch.join("tmp")).unwrap().collect();
        assert!(left.is_empty(), "{words:?} leaves {left:?}");
        (done, log)
    }

    /// The words for this compiler's language.
    fn words(&self, words: &[&str]) -> Vec<String> {
        let word = |word: &&str| match word.strip_suffix(".c") {
            Some(stem) => format!("{stem}.{}", self.suffix),
            None => (*word).to_owned(),
        };
        words.iter().map(word).collect()
    }

    /// As it stands, in one call of the compiler.
    fn plain(&self, words: &[&str]) -> Run {
        let mut command = self.scratch.command(Binaries::get().path("repo-cc"));
        command.env("REPO_CC_DISABLE", "1").arg(&self.compiler);
        run(command.args(self.words(words)))
    }

    /// As often is a compile not done.
    #[track_caller]
    fn hits(&self, words: &[&str], count: usize) -> Run {
        let (done, log) = self.call(words);
        let shown = format!("{words:?}: {log}\n{}", done.report());
        assert_eq!(
            log.matches("hit: the compiler is not run").count(),
            count,
            "{shown}"
        );
        done.ok()
    }

    #[track_caller]
    fn executes(&self, name: &str) {
        run(&mut self.scratch.command(Path::new(".").join(name))).ok();
    }
}

#[test]
fn what_is_known_of_a_program_of_one_call_is_not_compiled() {
    Field::each(|it| {
        for words in [
            &["-Wall", "-Iinc", "a.c", "b.c", "-o", "program"][..],
            &[
                "-O2", "-g", "-Wall", "-o", "program", "b.c", "-Iinc", "a.c", "-pthread", "-lm",
            ],
            &[
                "-pie",
                "-fPIE",
                "-Iinc",
                "-Wl,-z,now",
                "a.c",
                "b.c",
                "-o",
                "program",
                "-L.",
            ],
        ] {
            let said = it.plain(words).ok().errors();
            for count in [0, 2, 2] {
                let _ = fs::remove_file(it.scratch.join("program"));
                let done = it.hits(words, count);
                it.executes("program");
                assert_eq!((done.text(), done.errors()), (String::new(), said.clone()));
            }
            // A header that one of them reads.
            it.scratch
                .write("inc/known.h", "#define SIX (3 + 3) // changed\n");
            it.hits(words, 1);
            it.executes("program");
            it.scratch.write("inc/known.h", "#define SIX 6\n");
        }
        // With an object, and to the usual output; as a library.
        it.hits(&["-c", "b.c"], 0);
        it.hits(&["-Iinc", "b.o", "a.c"], 0);
        it.executes("a.out");
        it.hits(&["-Iinc", "b.o", "a.c"], 1);
        it.executes("a.out");
        let library = ["-fPIC", "-shared", "b.c", "-o", "libb.so"];
        it.hits(&library, 0);
        it.hits(&library, 1);
        it.hits(
            &[
                "-Iinc",
                "a.c",
                "-L.",
                "-lb",
                "-Wl,-rpath,$ORIGIN",
                "-o",
                "program",
            ],
            1,
        );
        it.executes("program");
    });
}

#[test]
fn several_sources_become_tickets_that_are_known() {
    Field::each(|it| {
        let words = ["-Iinc", "-MD", "-c", "a.c", "b.c"];
        for count in [0, 2] {
            for name in ["a.o", "b.o", "a.d", "b.d"] {
                let _ = fs::remove_file(it.scratch.join(name));
            }
            it.hits(&words, count);
            assert!(
                is_ticket_file(it.scratch.join("a.o")) && is_ticket_file(it.scratch.join("b.o"))
            );
            let dependencies = fs::read_to_string(it.scratch.join("a.d")).unwrap();
            assert!(dependencies.starts_with("a.o: ") && dependencies.contains("inc/known.h"));
            assert!(it.scratch.join("b.d").exists());
        }
        it.hits(&["a.o", "b.o", "-o", "program"], 0);
        it.executes("program");
    });
}

/// The driver goes on after a source that is wrong, and does not link.
#[test]
fn failures_are_those_of_the_driver() {
    Field::each(|it| {
        it.scratch
            .write("wrong.c", "int wrong(void) { return missing; }\n");
        for words in [
            &["-Wall", "-Iinc", "wrong.c", "a.c", "b.c", "-o", "program"][..],
            &["-Wall", "-Iinc", "a.c", "wrong.c", "-o", "program"],
            &["-Wall", "-Iinc", "-c", "a.c", "wrong.c"],
            &["-Iinc", "a.c", "nowhere.c", "-o", "program"],
            &["-Iinc", "a.c", "nowhere.o", "-o", "program"],
        ] {
            let plain = it.plain(words).failed();
            for _ in 0..2 {
                let (done, log) = it.call(words);
                assert_eq!(done.errors(), plain.errors(), "{words:?}: {log}");
                assert_eq!(done.status, plain.status, "{words:?}");
                assert!(!it.scratch.join("program").exists());
            }
        }
        // What is undefined is said of the source, and the code is the driver's.
        let words = ["-g", "-Iinc", "a.c", "-o", "program"];
        let plain = it.plain(&words).failed();
        for _ in 0..2 {
            let (done, _) = it.call(&words);
            let said = done.errors();
            let place = format!("a.{}:6", it.suffix);
            assert!(said.contains("undefined symbol: g"), "{said}");
            assert!(said.contains(&place), "{said}");
            assert_eq!(done.status, plain.status);
        }
    });
}

/// What a compile makes for a link is of the repository of what is linked, wherever the files for a moment are.
#[test]
fn the_repository_is_that_of_the_output() {
    Field::each(|it| {
        let ours = Binaries::get().path("repo-cc");
        let mut first = it.scratch.command(ours);
        first
            .env("REPO_FILE", it.scratch.join("program.repo"))
            .arg(&it.compiler);
        run(first.args(it.words(&["-c", "b.c"]))).ok();
        let size = || fs::metadata(it.scratch.join("program.repo")).unwrap().len();
        let before = size();
        let mut second = it.scratch.command(ours);
        second.env_remove("REPO_FILE").arg(&it.compiler);
        run(second.args(it.words(&["-Iinc", "a.c", "b.o", "-o", "program"]))).ok();
        it.executes("program");
        assert!(size() > before);
    });
}

#[test]
fn it_is_said_why_a_call_is_done_as_it_stands() {
    Field::each(|it| {
        let mut command = it.scratch.command(Binaries::get().path("repo-cc"));
        command.arg("--explain").arg(&it.compiler);
        let words = ["-Iinc", "-MD", "a.c", "b.c", "-o", "program"];
        let done = run(command.args(it.words(&words))).ok();
        let said = done.errors();
        assert!(
            said.contains("compiled each time: a dependency file"),
            "{said}"
        );
        it.executes("program");
    });
}

/// The steps make no link larger, and take the room from none: an output gets it if there would be a repository without them.
#[test]
fn links_are_incremental_where_they_were() {
    Field::each(|it| {
        let ours = Binaries::get().path("repo-cc");
        let link = |repository: bool, other: &str| {
            let log = it.scratch.join("log");
            let _ = fs::remove_file(&log);
            let mut command = it.scratch.command(ours);
            command.env_remove("REPO_LD_INCREMENTAL");
            if !repository {
                command.env_remove("REPO_FILE");
            }
            command.arg("--log").arg(&log).arg(&it.compiler);
            let words = it.words(&["-Iinc", "a.c", other, "-o", "program"]);
            run(command.args(words)).ok();
            it.executes("program");
            let size = fs::metadata(it.scratch.join("program")).unwrap().len();
            (fs::read_to_string(&log).unwrap(), size)
        };
        let edit = |text: &str| {
            let name = format!("a.{}", it.suffix);
            let before = fs::read_to_string(it.scratch.join(&name)).unwrap();
            it.scratch.write(&name, before + text);
        };
        let (log, small) = link(false, "b.c");
        assert!(log.contains("full link (no placement"), "{log}");
        it.hits(&["-c", "b.c"], 0);
        for (repository, other) in [(true, "b.c"), (true, "b.o"), (false, "b.o")] {
            let (log, large) = link(repository, other);
            assert!(large > small, "{log}");
            edit(&format!(
                "int more_{repository}_{}(void) {{ return 1; }}\n",
                &other[2..]
            ));
            let (log, _) = link(repository, other);
            assert!(
                log.contains("incremental link: "),
                "{repository} {other}: {log}"
            );
            fs::remove_file(it.scratch.join("program")).unwrap();
        }
    });
}

#[test]
fn an_output_that_is_a_source_is_for_the_compiler() {
    Field::each(|it| {
        let a = format!("a.{}", it.suffix);
        let b = format!("b.{}", it.suffix);
        let link = format!("link.{}", it.suffix);
        std::os::unix::fs::symlink(&b, it.scratch.join(&link)).expect("a link");
        let before = fs::read(it.scratch.join(&b)).expect("a source");
        // They are known.
        it.call(&["-c", &b, "-o", "b.o"]).0.ok();
        it.call(&["-Iinc", &a, &b, "-o", "program"]).0.ok();
        for words in [
            &["-c", &b, "-o", &b][..],
            &["-c", &b, "-o", &link],
            &["-Iinc", &a, &b, "-o", &b],
            &["-Iinc", &a, &b, "-o", &link],
        ] {
            let (ours, log) = it.call(words);
            assert!(!log.contains(": hit: "), "{words:?}: {log}");
            // gcc refuses; clang does what it is told.
            if it.compiler.ends_with("gcc") || it.compiler.ends_with("g++") {
                ours.failed();
                assert!(
                    fs::read(it.scratch.join(&b)).expect("a source") == before,
                    "{words:?}"
                );
                continue;
            }
            ours.ok();
            fs::write(it.scratch.join(&b), &before).expect("written");
            let _ = fs::remove_file(it.scratch.join(&link));
            std::os::unix::fs::symlink(&b, it.scratch.join(&link)).expect("a link");
        }
    });
}
