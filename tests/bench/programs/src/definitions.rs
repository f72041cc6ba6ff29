//! Compiles of which most definitions are known: what an edit of one function costs, beside clang alone.
//!
//! A source at -O2, of which one function's body is edited at a time: one that nobody else has looked into, a small one that its
//! callers have inlined, one that many have. Processor time, which a busy machine changes least; clang compiles the same text
//! before each. ccache, which keeps whole objects, takes its time too for each of these. Of processor time, how much the digests
//! take as well: as the plugin counts it.
//!
//! `lua` (a file of Lua's library) takes seconds, `sqlite` (all of SQLite) three compiles of twenty seconds for each edit: a name
//! on the command line chooses.

use crate::measure::{build_plugin, run};
use anyhow::{Context as _, Result, ensure};
use repo_tests::binaries::Binaries;
use repo_tests::sources::crate_directory;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A source, and what is done to it.
struct Subject {
    name: &'static str,
    /// Crate, directory in it, file.
    source: [&'static str; 3],
    options: &'static [&'static str],
    /// What was done, what is there, what stands there then; each from the source as it was.
    edits: &'static [(&'static str, &'static str, &'static str)],
}

const SUBJECTS: [Subject; 2] = [
    Subject {
        name: "lua",
        source: ["lua-src", "lua-5.4.9", "lstrlib.c"],
        options: &["-std=gnu99", "-DLUA_USE_LINUX"],
        edits: &[
            ("first compile", "", ""),
            ("nothing", "", ""),
            (
                "a comment line at the top",
                "#define lstrlib_c\n",
                "/* edited */\n#define lstrlib_c\n",
            ),
            (
                "a function (`str_reverse`)",
                "p[i] = s[l - i - 1];",
                "p[i] = s[l - i - 1] ^ 1;",
            ),
            (
                "a helper that others inline (`posrelatI`)",
                "  else return len + (size_t)pos + 1;",
                "  else return len + (size_t)pos + 2;",
            ),
        ],
    },
    Subject {
        name: "sqlite",
        source: ["libsqlite3-sys", "sqlite3", "sqlite3.c"],
        options: &[],
        edits: &[
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
        ],
    },
];

/// What was done to the source, milliseconds of processor time.
pub struct Edit {
    subject: &'static str,
    what: &'static str,
    clang: f64,
    ccache: Option<f64>,
    ours: f64,
    digests: Option<f64>,
}

/// Measures the subjects that are `chosen`, and says each row when it is done; `directory` is for scratch files.
///
/// # Errors
/// If there is no clang 19, or the plugin was built without LLVM's headers.
pub fn measure(
    binaries: &Binaries,
    directory: &Path,
    chosen: impl Fn(&str) -> bool,
) -> Result<Vec<Edit>> {
    build_plugin()?;
    let mut edits = Vec::new();
    for subject in SUBJECTS.iter().filter(|subject| chosen(subject.name)) {
        measure_subject(subject, binaries, directory, &mut edits)?;
    }
    Ok(edits)
}

fn measure_subject(
    subject: &Subject,
    binaries: &Binaries,
    directory: &Path,
    edits: &mut Vec<Edit>,
) -> Result<()> {
    let [package, inside, file] = subject.source;
    let sources: PathBuf = crate_directory(package)?.join(inside);
    let text = fs::read_to_string(sources.join(file))?;
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
            .args(subject.options)
            .arg("-I")
            .arg(&sources)
            .args(["-O2", "-c", file, "-o", output]);
        command
    };
    for (what, from, to) in subject.edits {
        ensure!(text.contains(from), "{what}: {file} is another one");
        fs::write(directory.join(file), text.replacen(from, to, 1))?;
        let clang = run(&mut command(None, "alone.o")).context("clang-19")?[1];
        let ccache = run(&mut command(Some(Path::new("ccache")), "ccache.o"));
        let log = directory.join("log");
        let mut ours = command(Some(binaries.path("repo-cc")), "ours.o");
        let ours = run(ours.env("REPO_LOG", &log))?[1];
        let said = fs::read_to_string(&log)?;
        let is_known = said.contains("hit: the compiler is not run");
        ensure!(
            said.contains("for digests") || is_known,
            "nothing was left out: {said}"
        );
        fs::remove_file(&log)?;
        let digests = said.split(" ms for digests").next().unwrap_or_default();
        let digests = digests.rsplit(' ').next().unwrap_or_default();
        let edit = Edit {
            subject: subject.name,
            what,
            clang,
            ccache: ccache.ok().map(|costs| costs[1]),
            ours,
            digests: digests.parse().ok(),
        };
        eprintln!("{}", edit.to_json());
        edits.push(edit);
    }
    Ok(())
}

impl Edit {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "subject": self.subject, "edit": self.what, "clang": self.clang, "ccache": self.ccache,
            "ours": self.ours, "digests": self.digests
        })
    }
}

/// A table of them.
pub fn print(all: &[Edit]) {
    println!(
        "| edited, -O2 | clang alone, s | ccache, s | repo-cc, s | of clang | digests, of clang |"
    );
    println!("|---|---|---|---|---|---|");
    for edit in all {
        let seconds = |milliseconds: f64| format!("{:.2}", milliseconds / 1e3);
        println!(
            "| {}: {} | {} | {} | {} | {:.3} | {} |",
            edit.subject,
            edit.what,
            seconds(edit.clang),
            edit.ccache.map_or("–".to_owned(), seconds),
            seconds(edit.ours),
            edit.ours / edit.clang,
            (edit.digests).map_or("–".to_owned(), |time| format!("{:.3}", time / edit.clang))
        );
    }
}
