//! `cargo xtask demo`: the first thing to see of the project.
//!
//! It builds Lua's interpreter by the machine's gcc through `repo-cc`, links it
//! by `repo-ld`, runs it, edits one function, and builds and runs it again. Each
//! step prints the command that it runs, so that one can do the same by hand;
//! answers are compared with the right ones, and a wrong one fails the demo.

use crate::machine;
use anyhow::{Context as _, Result, bail, ensure};
use repo_tests::binaries::Binaries;
use repo_tests::build::{object_path, parallel};
use repo_tests::process::command_line;
use repo_tests::programs;
use repo_tests::sources::{our_file, project_root};
use repo_tests::tools;
use serde_json::Value;
use std::fs;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The function that the demo edits: `string.upper`, in `lstrlib.c`.
const EDITED_FILE: &str = "lstrlib.c";
const EDITED_FUNCTION: &str = "str_upper";
const BEFORE: &str = "p[i] = toupper(uchar(s[i]));";
const AFTER: &str = "p[i] = i % 2 ? s[i] : toupper(uchar(s[i]));";

/// Runs the demo.
///
/// # Errors
/// If gcc or the sources cannot be had, a command fails, or an answer is wrong.
pub fn demo() -> Result<ExitCode> {
    let gcc = find_gcc()?;
    title("This project's programs, optimised");
    println!("$ cargo build --release --bin repo-cc --bin repo-ld …");
    let binaries = Binaries::release(&[])?;
    let demo = Demo::prepare(gcc, &binaries)?;

    title("Lua 5.4, built by gcc through repo-cc");
    println!("A ticket stands where each object would be; the code is in the repository.");
    let time = demo.compile(&demo.sources)?;
    println!("{} files compiled in {}", demo.sources.len(), seconds(time));

    title("Linked by repo-ld from the repository");
    let time = demo.link()?;
    println!("linked in {}", seconds(time));

    title("It runs, and its answers are right");
    demo.run_script()?;
    demo.expect_upper("HELLO, WORLD")?;

    title("What the repository holds");
    demo.show(demo.dump(&["--stats"]))?;
    let before = demo.revision()?;

    title("One function edited");
    demo.edit()?;

    title("Rebuilt: only that function's fragment is new");
    let edited = demo.directory.join(EDITED_FILE);
    let time = demo.compile(&[edited])?;
    println!("compiled in {}", seconds(time));
    let digest = demo.expect_one_change(&before)?;
    demo.show_head(
        demo.dump(&["fragments", digest.get(..16).unwrap_or(&digest)]),
        16,
    )?;

    title("Relinked, and it does the new thing");
    let time = demo.link()?;
    println!("relinked in {}", seconds(time));
    demo.expect_upper("HeLlO, wOrLd")?;

    println!(
        "\nAll of this is in {}; look around:",
        demo.directory.display()
    );
    println!("  export REPO_FILE={}", demo.repository.display());
    println!("  {} --help", binaries.path("repo-dump").display());
    Ok(ExitCode::SUCCESS)
}

/// The machine's gcc; installed first if there is none and we may.
fn find_gcc() -> Result<PathBuf> {
    machine::install(&machine::missing([
        tools::describe("gcc"),
        tools::describe("ld"),
    ]))?;
    match tools::find("gcc") {
        Some(gcc) => Ok(gcc),
        None => bail!("the demo needs a C compiler; as root: apt-get install gcc libc6-dev"),
    }
}

/// Where things are.
struct Demo<'a> {
    gcc: PathBuf,
    binaries: &'a Binaries,
    directory: PathBuf,
    repository: PathBuf,
    sources: Vec<PathBuf>,
    flags: Vec<String>,
    libraries: Vec<&'static str>,
}

impl<'a> Demo<'a> {
    /// Puts a copy of Lua's sources, which one may edit, into `target/demo`.
    fn prepare(gcc: PathBuf, binaries: &'a Binaries) -> Result<Demo<'a>> {
        title("Lua's sources, from the lua-src crate");
        println!("$ cargo metadata --locked --manifest-path tests/sources/Cargo.toml");
        let lua = programs::lua()?;
        let directory = project_root().join("target/demo");
        if directory.exists() {
            fs::remove_dir_all(&directory)
                .with_context(|| format!("cannot empty {}", directory.display()))?;
        }
        fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let mut from = std::collections::BTreeSet::new();
        for source in &lua.sources {
            from.extend(source.parent());
        }
        for directory_of_sources in from {
            for entry in directory_of_sources.read_dir()? {
                let path = entry?.path();
                if path
                    .extension()
                    .is_some_and(|extension| extension == "c" || extension == "h")
                {
                    let to = directory.join(path.file_name().unwrap_or_default());
                    fs::copy(&path, &to)
                        .with_context(|| format!("cannot copy {}", path.display()))?;
                }
            }
        }
        let here = |path: &PathBuf| directory.join(path.file_name().unwrap_or_default());
        let sources = lua.sources.iter().map(here).collect();
        // The copies are found without -I.
        let flags = lua
            .flags
            .into_iter()
            .filter(|flag| !flag.starts_with("-I"))
            .collect();
        println!("copied to {}", directory.display());
        let repository = directory.join("program.repo");
        Ok(Demo {
            gcc,
            binaries,
            directory,
            repository,
            sources,
            flags,
            libraries: lua.libraries,
        })
    }

    /// `repo-cc gcc -O2`, in the demo's directory with its repository.
    fn compiler(&self) -> Command {
        let mut command = Command::new(self.binaries.path("repo-cc"));
        command.arg(&self.gcc).arg("-O2");
        command
            .current_dir(&self.directory)
            .env("REPO_FILE", &self.repository);
        command
    }

    /// `repo-dump` with `arguments`, on the demo's repository.
    fn dump(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.binaries.path("repo-dump"));
        command.args(arguments);
        command
            .current_dir(&self.directory)
            .env("REPO_FILE", &self.repository);
        command
    }

    /// Compiles `sources`, several at once, and says how long it took.
    fn compile(&self, sources: &[PathBuf]) -> Result<Duration> {
        let command = |source: &Path| {
            let name = Path::new(source.file_name().unwrap_or_default());
            let mut command = self.compiler();
            command.args(&self.flags).arg("-c").arg(name).arg("-o");
            command.arg(object_path(Path::new(""), source));
            command
        };
        if let Some(first) = sources.first() {
            println!("$ {}", self.short(&command(first)));
        }
        if sources.len() > 1 {
            println!("  … and {} more like it", sources.len() - 1);
        }
        let failed = Mutex::new(None);
        let start = Instant::now();
        parallel(sources.len(), |index| {
            if let Err(error) = checked(&mut command(&sources[index])) {
                failed
                    .lock()
                    .unwrap_or_else(|poison| poison.into_inner())
                    .get_or_insert(error);
            }
        });
        let time = start.elapsed();
        match failed
            .into_inner()
            .unwrap_or_else(|poison| poison.into_inner())
        {
            Some(error) => Err(error),
            None => Ok(time),
        }
    }

    fn link(&self) -> Result<Duration> {
        let mut command = self.compiler();
        command.args(["-o", "lua"]);
        command.args(
            self.sources
                .iter()
                .map(|source| object_path(Path::new(""), source)),
        );
        command.args(&self.libraries);
        let line = self.short(&command);
        let words: Vec<_> = line.split(' ').collect();
        let is_object = |word: &&str| word.ends_with(".o");
        let first = words.iter().position(is_object).unwrap_or(0);
        let last = words.iter().rposition(is_object).unwrap_or(0);
        println!(
            "$ {} … {}",
            words[..=first].join(" "),
            words[last..].join(" ")
        );
        let start = Instant::now();
        checked(&mut command)?;
        Ok(start.elapsed())
    }

    fn lua(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("./lua");
        command.args(arguments).current_dir(&self.directory);
        command
    }

    /// The workload of the tests checks each of its own answers.
    fn run_script(&self) -> Result<()> {
        let script = our_file("workload.lua");
        fs::copy(&script, self.directory.join("workload.lua"))
            .with_context(|| format!("cannot copy {}", script.display()))?;
        let mut command = self.lua(&["workload.lua"]);
        println!("$ {}", self.short(&command));
        let text = checked(&mut command)?;
        for line in text.lines().take(4) {
            println!("{line}");
        }
        println!("… {} answers checked", text.lines().count());
        Ok(())
    }

    fn expect_upper(&self, want: &str) -> Result<()> {
        let mut command = self.lua(&["-e", "print(string.upper('hello, world'))"]);
        println!("$ {}", self.short(&command));
        let got = checked(&mut command)?;
        print!("{got}");
        ensure!(
            got.trim_end() == want,
            "wrong answer: {:?}, not {want:?}",
            got.trim_end()
        );
        Ok(())
    }

    /// The number of the repository's newest transaction.
    fn revision(&self) -> Result<String> {
        let text = checked(&mut self.dump(&["--json", "header"]))?;
        let header: Value = serde_json::from_str(&text).context("repo-dump's JSON")?;
        Ok(header["revision"].to_string())
    }

    /// Shows what the repository has since `before`, which must be one version of
    /// one function; returns its digest.
    fn expect_one_change(&self, before: &str) -> Result<String> {
        let after = self.revision()?;
        self.show(self.dump(&["--diff", before, &after]))?;
        let text = checked(&mut self.dump(&["--json", "--diff", before, &after]))?;
        let diff: Value = serde_json::from_str(&text).context("repo-dump's JSON")?;
        let tickets = diff["tickets"].as_array().map_or(&[][..], Vec::as_slice);
        let changes = |ticket: &Value| ticket["definitions"].as_array().cloned();
        let changes: Vec<Value> = tickets.iter().filter_map(changes).flatten().collect();
        let names: Vec<_> = changes
            .iter()
            .map(|change| change["name"].to_string())
            .collect();
        match &changes[..] {
            [one] if one["name"] == EDITED_FUNCTION => Ok(one["after"]["digest"]
                .as_str()
                .unwrap_or_default()
                .to_owned()),
            _ => bail!("the edit of {EDITED_FUNCTION} changed {}", names.join(", ")),
        }
    }

    fn edit(&self) -> Result<()> {
        let file = self.directory.join(EDITED_FILE);
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let count = text.matches(BEFORE).count();
        ensure!(
            count == 1,
            "{} has the line to edit {count} times",
            file.display()
        );
        fs::write(&file, text.replace(BEFORE, AFTER))
            .with_context(|| file.display().to_string())?;
        println!("in {EDITED_FILE}, function {EDITED_FUNCTION}:\n-    {BEFORE}\n+    {AFTER}");
        Ok(())
    }

    /// Prints the command and what it says.
    fn show(&self, mut command: Command) -> Result<()> {
        println!("$ {}", self.short(&command));
        print!("{}", checked(&mut command)?);
        Ok(())
    }

    /// Prints the command and the first lines of what it says.
    fn show_head(&self, mut command: Command, lines: usize) -> Result<()> {
        println!("$ {}", self.short(&command));
        let text = checked(&mut command)?;
        for line in text.lines().take(lines) {
            println!("{line}");
        }
        if text.lines().count() > lines {
            println!("  …");
        }
        Ok(())
    }

    /// The command as one would type it in the demo's directory, with the
    /// project's programs on the path.
    fn short(&self, command: &Command) -> String {
        let mut plain = Command::new(Path::new(command.get_program()));
        plain.args(command.get_args());
        let line = command_line(&plain);
        let directory = format!("{}/", self.binaries.directory().display());
        line.replace(&directory, "").replace("/usr/bin/", "")
    }
}

/// Runs a command and returns what it wrote to standard output.
fn checked(command: &mut Command) -> Result<String> {
    let line = command_line(command);
    let output = command
        .output()
        .with_context(|| format!("cannot run {line}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{line}\nfailed: {}\n{}", output.status, errors.trim_end());
    }
    eprint!("{errors}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn title(text: &str) {
    if std::io::stdout().is_terminal() {
        println!("\n\x1b[1m# {text}\x1b[0m");
    } else {
        println!("\n# {text}");
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}
