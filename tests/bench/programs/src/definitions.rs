//! Compiles of which most definitions are known: what an edit of one function costs, beside clang alone.
//!
//! `sqlite3.c` at -O2, of which one function's body is edited at a time: one that nobody else has looked into, a small one that its
//! callers have inlined, one that many have. Processor time, which a busy machine changes least; clang compiles the same text
//! before each. ccache, which keeps whole objects, takes its time too for each of these.

use crate::measure::run;
use anyhow::{Context as _, Result, ensure};
use repo_tests::binaries::Binaries;
use repo_tests::sources::{crate_directory, project_root};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// What was done to the source, milliseconds of processor time.
pub struct Edit {
    what: &'static str,
    clang: f64,
    ccache: Option<f64>,
    ours: f64,
}

/// What is edited, each from the source as it was.
const EDITS: [(&str, &str, &str); 6] = [
    ("first compile", "", ""),
    ("nothing", "", ""),
    (
        "a comment line at the top",
        "#define SQLITE_CORE 1\n",
        "/* edited */\n#define SQLITE_CORE 1\n",
    ),
    (
        "a function of the locks (`unixLock`)",
        "  if( pFile->eFileLock>=eFileLock ){",
        "  if( pFile->eFileLock>=eFileLock && eFileLock!=99 ){",
    ),
    (
        "a helper that others inline (`sqlite3VListAdd`)",
        "nInt = nName/4 + 3;",
        "nInt = nName/4 + 4;",
    ),
    (
        "a helper that 400 inline (`sqlite3Strlen30`)",
        "int sqlite3Strlen30(const char *z){\n  if( z==0 ) return 0;",
        "int sqlite3Strlen30(const char *z){\n  if( z==0 ) return 1;",
    ),
];

/// Measures all of it; `directory` is for scratch files.
///
/// # Errors
/// If there is no clang 19, or the plugin was built without LLVM's headers.
pub fn measure(binaries: &Binaries, directory: &Path) -> Result<Vec<Edit>> {
    let built = Command::new("cargo")
        .args(["build", "--quiet", "--release", "--package", "repo-plugin"])
        .current_dir(project_root())
        .status()?;
    ensure!(built.success(), "the plugin cannot be built");
    let sqlite = crate_directory("libsqlite3-sys")?.join("sqlite3");
    for header in ["sqlite3.h", "sqlite3ext.h"] {
        fs::copy(sqlite.join(header), directory.join(header))?;
    }
    let text = fs::read_to_string(sqlite.join("sqlite3.c"))?;
    let command = |launcher: Option<&Path>, output: &str| {
        let mut command = match launcher {
            Some(launcher) => {
                let mut command = Command::new(launcher);
                command.arg("clang-19");
                command
            }
            None => Command::new("clang-19"),
        };
        command
            .current_dir(directory)
            .env("CCACHE_DIR", directory.join("ccache"))
            .env("REPO_FILE", directory.join("definitions.repo"))
            .env("XDG_CACHE_HOME", directory.join("cache"))
            .env("XDG_STATE_HOME", directory.join("state"))
            .env("REPO_CC_PRUNE", "1")
            .args(["-O2", "-c", "sqlite3.c", "-o", output]);
        command
    };
    let mut edits = Vec::new();
    for (what, from, to) in EDITS {
        ensure!(text.contains(from), "{what}: sqlite3.c is another one");
        fs::write(directory.join("sqlite3.c"), text.replacen(from, to, 1))?;
        let clang = run(&mut command(None, "alone.o")).context("clang-19")?[1];
        let ccache = run(&mut command(Some(Path::new("ccache")), "ccache.o"));
        let log = directory.join("log");
        let mut ours = command(Some(binaries.path("repo-cc")), "ours.o");
        let ours = run(ours.env("REPO_LOG", &log))?[1];
        let said = fs::read_to_string(&log)?;
        ensure!(
            said.contains("for digests") || what == "nothing",
            "nothing was left out: {said}"
        );
        fs::remove_file(&log)?;
        edits.push(Edit {
            what,
            clang,
            ccache: ccache.ok().map(|costs| costs[1]),
            ours,
        });
    }
    Ok(edits)
}

impl Edit {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        json!({ "edit": self.what, "clang": self.clang, "ccache": self.ccache, "ours": self.ours })
    }
}

/// A table of them.
pub fn print(all: &[Edit]) {
    println!("| edited in sqlite3.c, -O2 | clang alone, s | ccache, s | repo-cc, s | of clang |");
    println!("|---|---|---|---|---|");
    for edit in all {
        let seconds = |milliseconds: f64| format!("{:.2}", milliseconds / 1e3);
        println!(
            "| {} | {} | {} | {} | {:.3} |",
            edit.what,
            seconds(edit.clang),
            edit.ccache.map_or("–".to_owned(), seconds),
            seconds(edit.ours),
            edit.ours / edit.clang
        );
    }
}
