//! Links of a program of which little was edited since the last one: `repo-ld`, incrementally, beside full links of the same
//! inputs by every linker of the machine that is fast.
//!
//! The programs: one of many small units, at two sizes, so that it is seen what grows with the program; and with `--big`, LLVM's and clang's
//! static libraries, a quarter of them and all ([`large`](crate::large)).
//! Each edit is real: other objects are put in the old ones' places, compiled before. What `repo-ld` did is read in its log;
//! a link that was to be incremental and was not fails the benchmark. Wall time, as a user waits for it.

use crate::large::{self, Share};
use crate::links::arguments_of_driver;
use crate::measure::{Sample, run};
use anyhow::{Context as _, Result, ensure};
use repo_tests::binaries::Binaries;
use repo_tests::build::parallel;
use repo_tests::tools;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Units of the generated programs.
const SIZES: [usize; 2] = [1250, 5000];

/// Functions of a unit.
const FUNCTIONS: usize = 5;

/// Units that call one function: so many, but not most of the program.
const CALLERS: usize = 1000;

/// Units that include the header that is edited.
const INCLUDERS: usize = 50;

/// What was measured of one edit of one program.
pub struct Relink {
    program: String,
    edit: &'static str,
    output: u64,
    /// Bytes of what is kept for the next link, but for the images of the output.
    state: u64,
    objects: usize,
    /// Of `repo-ld`, milliseconds, and megabytes.
    ours: Sample,
    memory: f64,
    /// Full links by others, and by `repo-ld` with and without what the next one needs.
    peers: Vec<(&'static str, f64)>,
}

/// A program, and how it is edited.
pub struct Program {
    /// What it is called in the table.
    pub name: String,
    /// Where it is.
    pub directory: PathBuf,
    /// What linkers are told, but for the output.
    pub words: Vec<OsString>,
    /// How it is edited.
    pub edits: Vec<Edit>,
}

/// An edit: what is copied where, version after version.
pub struct Edit {
    /// What it is called in the table.
    pub what: &'static str,
    /// The versions, each as files that are copied: from where to where.
    pub versions: Vec<Vec<(PathBuf, PathBuf)>>,
}

/// Measures all of it.
///
/// # Errors
/// If a compile or a link fails, or a link was not incremental.
pub fn measure(
    binaries: &Binaries,
    directory: &Path,
    runs: usize,
    big: bool,
) -> Result<Vec<Relink>> {
    let mut all = Vec::new();
    for units in SIZES {
        eprintln!("compiling {units} units …");
        let program = generated(&directory.join(format!("units-{units}")), units, runs)?;
        relink(binaries, &program, runs, &mut all)?;
    }
    if big {
        for (name, share) in [("quarter", Share::Quarter), ("full", Share::Full)] {
            eprintln!("compiling units beside LLVM's libraries …");
            match large::program(&directory.join(name), runs, share) {
                Ok(program) => relink(binaries, &program, runs, &mut all)?,
                Err(error) => eprintln!("LLVM: {error:#}"),
            }
        }
    }
    Ok(all)
}

fn relink(
    binaries: &Binaries,
    program: &Program,
    runs: usize,
    all: &mut Vec<Relink>,
) -> Result<()> {
    let output = program.directory.join("program");
    let log = program.directory.join("log");
    let link = |linker: &Path, options: &[&str], output: &Path| {
        let mut command = Command::new(linker);
        command.args(options).args(&program.words);
        command
            .arg("-o")
            .arg(output)
            .env("REPO_FILE", program.directory.join("program.repo"))
            .env("REPO_LOG", &log);
        command
    };
    let ours = binaries.path("repo-ld");
    let again = || link(ours, &["--incremental"], &output);
    run(&mut again())?;
    let mut peers: Vec<(&'static str, PathBuf, &[&str])> = vec![
        ("repo-ld, full", ours.into(), &["--no-incremental"]),
        (
            "repo-ld, full, and what the next needs",
            ours.into(),
            &["--incremental-full"],
        ),
    ];
    for (name, path) in [
        ("wild", tools::on_path("wild")),
        ("mold", tools::find("mold")),
        ("lld", tools::find("ld.lld")),
    ] {
        peers.extend(path.map(|path| (name, path, &[][..])));
    }
    let mut full = Vec::new();
    for (name, path, options) in &peers {
        let output = program.directory.join("other");
        let mut times = Vec::new();
        for _ in 0..=runs.min(7) {
            times.push(run(&mut link(path, options, &output))?[0]);
        }
        // The first one finds no output.
        full.push((*name, Sample::new(times.split_off(1)).median()));
    }
    for edit in &program.edits {
        let (mut times, mut memory, mut objects) = (Vec::new(), 0.0f64, 0);
        for (round, version) in edit.versions.iter().enumerate() {
            for (from, to) in version {
                fs::copy(from, to).with_context(|| to.display().to_string())?;
            }
            let [wall, _, resident] = run(&mut again())?;
            let said = fs::read_to_string(&log)?;
            let last = said.lines().last().unwrap_or_default();
            let relinked = last.split("incremental link: ").nth(1);
            let relinked = relinked.and_then(|rest| rest.split(' ').next()?.parse().ok());
            objects = relinked.with_context(|| format!("{}: {last}", edit.what))?;
            // The first copies the output.
            if round > 0 {
                times.push(wall);
                memory = memory.max(resident);
            }
        }
        all.push(Relink {
            program: program.name.clone(),
            edit: edit.what,
            output: fs::metadata(&output)?.len(),
            state: state_size(&program.directory.join("program.repo.links"), &output)?,
            objects,
            ours: Sample::new(times),
            memory,
            peers: full.clone(),
        });
    }
    Ok(())
}

/// What the state of an output takes of the disk, which is less than its length: room for later is a hole.
fn state_size(folder: &Path, output: &Path) -> Result<u64> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_named = path.extension().is_some_and(|it| it == "output");
        if is_named && fs::read_link(&path)? == output {
            return Ok(512 * fs::metadata(path.with_extension(""))?.blocks());
        }
    }
    anyhow::bail!("{}: no state of {}", folder.display(), output.display())
}

/// A program of so many units, in which everything calls something.
fn generated(directory: &Path, units: usize, runs: usize) -> Result<Program> {
    fs::create_dir_all(directory)?;
    let object = |unit: usize| directory.join(format!("unit{unit}.o"));
    let version = |unit: usize, number: usize| directory.join(format!("unit{unit}.{number}.o"));
    // Where, and what text.
    let mut texts: Vec<(PathBuf, String)> = Vec::new();
    for unit in 0..units {
        texts.push((object(unit), source(unit, units, [0; 4])));
    }
    let mut edits = vec![Edit {
        what: "nothing",
        versions: vec![Vec::new(); runs + 1],
    }];
    let kinds = [
        ("the body of one function", 0, 7..8),
        ("a string", 1, 8..9),
        (
            "a function that 1,000 units call (of the small program 400) outgrows its place",
            2,
            0..1,
        ),
        ("an inline function of 50 units", 3, 0..INCLUDERS),
    ];
    for (what, kind, edited) in kinds {
        let mut versions = Vec::new();
        for number in 1..=runs + 1 {
            let mut edit = [0; 4];
            edit[kind] = number;
            let mut files = Vec::new();
            for unit in edited.clone() {
                let from = version(unit, 100 * (kind + 1) + number);
                texts.push((from.clone(), source(unit, units, edit)));
                files.push((from, object(unit)));
            }
            versions.push(files);
        }
        edits.push(Edit { what, versions });
    }
    let failed = Mutex::new(String::new());
    parallel(texts.len(), |index| {
        let (object, text) = &texts[index];
        let path = object.with_extension("c");
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-ffunction-sections", "-c"]).arg(&path);
        gcc.arg("-o").arg(object);
        let done = fs::write(&path, text).and_then(|()| gcc.output());
        let why = match done {
            Ok(output) if output.status.success() => return,
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => error.to_string(),
        };
        *failed.lock().unwrap_or_else(|poison| poison.into_inner()) = why;
    });
    let why = failed.into_inner().unwrap_or_default();
    ensure!(why.is_empty(), "cannot compile: {why}");
    let words: Vec<OsString> = (0..units).map(|unit| object(unit).into()).collect();
    Ok(Program {
        name: format!("{units} units"),
        words: arguments_of_driver(&"gcc".into(), &words, directory)?,
        directory: directory.to_owned(),
        edits,
    })
}

/// The text of a unit; `edit` has the numbers of body, string, length, and inline function.
fn source(unit: usize, units: usize, edit: [usize; 4]) -> String {
    let [body, string, length, inline] = edit;
    let mut text = String::from("extern int busy(int);\n#include <string.h>\n");
    if unit < INCLUDERS {
        let _ = writeln!(
            text,
            "static __attribute__((noinline)) int inlined(int x) {{ return x * {} + 1; }}",
            inline + 3
        );
    }
    if unit == 0 {
        let _ = writeln!(text, "int busy(int x) {{");
        for step in 0..10 + 60 * length {
            let _ = writeln!(text, "  x = (x ^ {step}) * 31;");
        }
        text.push_str("  return x;\n}\n");
    }
    for function in 0..FUNCTIONS {
        let next = (unit + 1) % units;
        let _ = writeln!(text, "extern int f{next}_{function}(int);");
        let _ = writeln!(text, "int f{unit}_{function}(int x) {{");
        for step in 0..12 {
            let _ = writeln!(
                text,
                "  x = (x ^ {}) * {} + (x >> {});",
                step * unit,
                step + 3,
                step % 7
            );
        }
        if function == 0 {
            let _ = writeln!(
                text,
                "  x += {body} + (int)strlen(\"unit {unit}, string {string}\" + (x & 3));"
            );
        }
        if function == 1 && unit < CALLERS.min(units / 3) {
            let _ = writeln!(text, "  x += busy(x);");
        }
        if function == 2 && unit < INCLUDERS {
            let _ = writeln!(text, "  x += inlined(x);");
        }
        let _ = writeln!(text, "  return x & 1 ? x : f{next}_{function}(x >> 1);\n}}");
    }
    if unit == 0 {
        text.push_str("int main(void) { return f0_0(1) & 1; }\n");
    }
    text
}

impl Relink {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        let peers: Vec<_> = self
            .peers
            .iter()
            .map(|(name, milliseconds)| json!({ "linker": name, "median_ms": milliseconds }))
            .collect();
        json!({
            "program": self.program,
            "output_bytes": self.output,
            "state_bytes": self.state,
            "edit": self.edit,
            "objects_linked_again": self.objects,
            "median_ms": self.ours.median(),
            "min_ms": self.ours.min(),
            "max_ms": self.ours.max(),
            "memory_mb": self.memory,
            "full_links": peers,
        })
    }
}

/// A table of them.
pub fn print(all: &[Relink]) {
    println!(
        "| program | state, MB | edited | objects linked again | repo-ld, ms | memory, MB | full links, ms |"
    );
    println!("|---|---|---|---|---|---|---|");
    for relink in all {
        let peers: Vec<String> = relink
            .peers
            .iter()
            .map(|(name, milliseconds)| format!("{name} {milliseconds:.0}"))
            .collect();
        println!(
            "| {}, {:.0} MB | {:.1} | {} | {} | {:.1} [{:.1} to {:.1}] | {:.0} | {} |",
            relink.program,
            relink.output as f64 / 1e6,
            relink.state as f64 / 1e6,
            relink.edit,
            relink.objects,
            relink.ours.median(),
            relink.ours.min(),
            relink.ours.max(),
            relink.memory,
            peers.join(", ")
        );
    }
}
