//! What is told to the user, and what to the log.
//!
//! On success nothing is written to the standard streams. With `--verbose`,
//! each decision is one line on standard error; with `--log` or `$REPO_LOG`, one
//! line in a file that many processes append to.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

/// Where decisions are reported.
#[derive(Debug, Default)]
pub struct Log {
    /// The log file.
    pub file: Option<PathBuf>,
    /// The command line names it, not the environment.
    pub asked: bool,
    /// Also to standard error.
    pub verbose: bool,
    /// What concerns the question whether a compile is needed, to standard error.
    pub explain: bool,
}

impl Log {
    /// Whether anybody wants to know.
    pub fn wanted(&self) -> bool {
        self.verbose || self.file.is_some()
    }

    /// Reports a decision, in one line. A log that cannot be written does not
    /// fail a build. The user is told if the command line asks for it; the
    /// environment is for whole builds, whose probes take any word on standard
    /// error for a failure.
    pub fn note(&self, line: impl Display) {
        if !self.wanted() {
            return;
        }
        let line = format!("repo-cc: {line}\n");
        if self.verbose {
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
        if let Some(path) = &self.file {
            // One write at the end of the file, so that lines of processes
            // that run at once do not mix.
            let written = OpenOptions::new()
                .append(true)
                .create(true)
                .open(path)
                .and_then(|mut file| file.write_all(line.as_bytes()));
            if let (Err(error), true) = (written, self.asked || self.verbose) {
                linker::tell!(
                    "repo-cc: warning: cannot write the log {}: {error}",
                    path.display()
                );
            }
        }
    }

    /// Says why a compile is done, if that is asked for.
    pub fn explain(&self, line: impl Display) {
        if self.explain || self.verbose {
            self.decide(line);
        }
    }

    /// Says what is decided of a compile; `--explain` asks for that, too.
    pub fn decide(&self, line: impl Display) {
        if self.explain && !self.verbose {
            let _ = std::io::stderr().write_all(format!("repo-cc: {line}\n").as_bytes());
        }
        self.note(line);
    }

    /// Tells the user something that the log should have as well.
    pub fn warn(&self, line: impl Display) {
        let line = format!("warning: {line}");
        if !self.verbose {
            let _ = writeln!(std::io::stderr(), "repo-cc: {line}");
        }
        self.note(line);
    }
}
