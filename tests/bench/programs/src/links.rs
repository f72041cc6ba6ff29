//! Links by every linker, with the arguments that gcc or rustc gives its own.

use crate::measure::{Costs, interleaved};
use crate::subjects::{Origin, Sources, Subject};
use crate::tickets;
use anyhow::{Context as _, Result, ensure};
use repo_tests::binaries::Binaries;
use repo_tests::programs::Language;
use repo_tests::tools;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use store::program::Repository;

/// A linker, and what it is told so that all do the same: two threads, and either one process, or as it is called
/// by default. Some then return when the output is complete, and leave the end of their memory to another process.
struct Contestant {
    name: &'static str,
    program: PathBuf,
    arguments: &'static [&'static str],
    tickets: bool,
}

fn contestants(binaries: &Binaries) -> Vec<Contestant> {
    const ALONE: &[&str] = &["--threads=2", "--no-fork"];
    const DEFAULT: &[&str] = &["--threads=2"];
    const OURS: &[&str] = &["--threads=2", "--no-fork", "--no-incremental"];
    const OURS_BY_DEFAULT: &[&str] = &["--threads=2", "--no-incremental"];
    let ours = |name, arguments, tickets| Contestant {
        name,
        program: binaries.path("repo-ld").to_owned(),
        arguments,
        tickets,
    };
    let mut list = vec![
        ours("repo-ld", OURS, false),
        ours("repo-ld, default", OURS_BY_DEFAULT, false),
        ours("repo-ld, tickets", OURS, true),
        ours("…, default", OURS_BY_DEFAULT, true),
    ];
    let (wild, mold) = (tools::on_path("wild"), tools::find("mold"));
    let peers: [(&'static str, Option<PathBuf>, &'static [&'static str]); 6] = [
        ("wild", wild.clone(), ALONE),
        ("wild, default", wild, DEFAULT),
        ("mold", mold.clone(), ALONE),
        ("mold, default", mold, DEFAULT),
        ("lld", tools::find("ld.lld"), DEFAULT),
        ("ld", tools::find("ld"), &[]),
    ];
    for (name, program, arguments) in peers {
        if let Some(program) = program {
            list.push(Contestant {
                name,
                program,
                arguments,
                tickets: false,
            });
        }
    }
    list
}

/// What was measured for one program.
pub struct Links {
    name: String,
    /// Bytes of the objects and archives that are linked.
    input: u64,
    repository: u64,
    output: Vec<(&'static str, u64)>,
    costs: Vec<(&'static str, Costs)>,
}

/// Compiles `subject` both ways and links it by everyone, `runs` times.
///
/// # Errors
/// If a compile or a link fails.
pub fn measure(
    subject: &Subject,
    binaries: &Binaries,
    directory: &Path,
    runs: usize,
) -> Result<Links> {
    let directory = directory.join(subject.directory_name());
    fs::create_dir_all(&directory)?;
    let repository = directory.join("program.repo");
    let words = match &subject.origin {
        Origin::Sources(sources) => compile(sources, &directory)?,
        Origin::Crate(krate) => {
            let (objects, words) = krate.build()?;
            // Where imports look for them.
            symlink(objects, directory.join("objects"))?;
            arguments_of_driver(&find("gcc")?, &words, &directory)?
        }
    };
    let opened = Repository::open_or_create(&repository)?;
    let ticketed = tickets::exchange(&words, &opened, &directory.join("tickets"))?;
    drop(opened);

    let contestants = contestants(binaries);
    let mut commands = Vec::new();
    let mut outputs = Vec::new();
    for (index, contestant) in contestants.iter().enumerate() {
        let output = directory.join(format!("output-{index}"));
        let mut command = Command::new(&contestant.program);
        command.args(contestant.arguments);
        command.args(if contestant.tickets {
            &ticketed.words
        } else {
            &words
        });
        command.arg("--gc-sections").arg("-o").arg(&output);
        // Tickets say where their repository is; without them, it is a plain link.
        command.env_remove("REPO_FILE");
        fs::write(
            directory.join(format!("link-{index}.rsp")),
            response(&command),
        )?;
        commands.push(command);
        outputs.push(output);
    }
    let costs = interleaved(&mut commands, runs)?;
    let size = |path: &PathBuf| fs::metadata(path).map_or(0, |data| data.len());
    let names: Vec<_> = contestants
        .iter()
        .map(|contestant| contestant.name)
        .collect();
    Ok(Links {
        name: subject.name.clone(),
        input: ticketed.bytes,
        repository: size(&repository),
        output: names
            .iter()
            .copied()
            .zip(outputs.iter().map(size))
            .collect(),
        costs: names.into_iter().zip(costs).collect(),
    })
}

fn find(program: &str) -> Result<OsString> {
    let path = tools::find(program).with_context(|| format!("needs {program}"))?;
    Ok(path.into_os_string())
}

/// Compiles sources; returns the arguments that the compiler gives its linker.
fn compile(sources: &Sources, directory: &Path) -> Result<Vec<OsString>> {
    let gcc = find(match sources.language {
        Language::C => "gcc",
        _ => "g++",
    })?;
    let objects = sources.compile(std::slice::from_ref(&gcc), &[], &directory.join("objects"))?;
    let words: Vec<OsString> = (sources.link.iter().map(OsString::from))
        .chain(objects.into_iter().map(PathBuf::into_os_string))
        .chain(sources.libraries.iter().map(OsString::from))
        .collect();
    arguments_of_driver(&gcc, &words, directory)
}

/// The arguments that gcc, given `words`, gives its linker, without the plugin
/// for link-time optimisation, which some peers do not have, and without `-o`.
pub fn arguments_of_driver(
    gcc: &OsString,
    words: &[OsString],
    directory: &Path,
) -> Result<Vec<OsString>> {
    let listener = directory.join("listener");
    fs::create_dir_all(&listener)?;
    let list = listener.join("arguments");
    let script = listener.join("ld");
    fs::write(
        &script,
        format!("#!/bin/sh\nprintf '%s\\0' \"$@\" > '{}'\n", list.display()),
    )?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let done = Command::new(gcc)
        .arg(format!("-B{}", listener.display()))
        .args(["-fno-lto", "-fno-use-linker-plugin"])
        .args(words)
        .output()
        .context("cannot run gcc")?;
    ensure!(
        done.status.success(),
        "gcc fails: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    let bytes = fs::read(&list).context("gcc did not call the linker")?;
    let mut words: Vec<OsString> = bytes
        .split(|&byte| byte == 0)
        .map(|word| OsString::from_vec(word.to_vec()))
        .collect();
    words.pop();
    // Each linker has an output of its own.
    if let Some(at) = words.iter().position(|word| word == "-o") {
        words.drain(at..(at + 2).min(words.len()));
    }
    Ok(words)
}

/// A command's arguments as a response file.
fn response(command: &Command) -> Vec<u8> {
    let mut text = Vec::new();
    for word in command.get_args() {
        for byte in word.as_encoded_bytes() {
            if !byte.is_ascii_alphanumeric() && !b"-_./=,:+".contains(byte) {
                text.push(b'\\');
            }
            text.push(*byte);
        }
        text.push(b'\n');
    }
    text
}

/// The head of the table.
pub fn print_head() {
    println!(
        "Full links: median ms [min to max], and the ratio to repo-ld from objects; the same of \
         processor time; peak memory.\n"
    );
}

impl Links {
    /// One program's part of the table.
    pub fn print(&self) {
        let mega = |bytes: u64| bytes as f64 / 1e6;
        println!(
            "{}: {:.2} MB of objects and archives, {:.2} MB of repository",
            self.name,
            mega(self.input),
            mega(self.repository),
        );
        let reference = &self.costs[0].1;
        for ((name, costs), (_, size)) in self.costs.iter().zip(&self.output) {
            println!(
                "  {name:<18} {:9.2} [{:8.2} to {:8.2}]  {:5.2}   cpu {:9.2}  {:5.2}   memory {:6.0} MB   output {:8.3} MB",
                costs.wall.median(),
                costs.wall.min(),
                costs.wall.max(),
                costs.wall.median() / reference.wall.median(),
                costs.processor.median(),
                costs.processor.median() / reference.processor.median(),
                costs.memory.median(),
                mega(*size)
            );
        }
        println!();
    }

    /// The same for a program.
    pub fn to_json(&self) -> Value {
        let reference = &self.costs[0].1;
        let linkers: Vec<_> = self
            .costs
            .iter()
            .zip(&self.output)
            .map(|((name, costs), (_, size))| {
                json!({
                    "linker": name,
                    "median_ms": costs.wall.median(),
                    "min_ms": costs.wall.min(),
                    "max_ms": costs.wall.max(),
                    "ratio": costs.wall.median() / reference.wall.median(),
                    "processor_ms": costs.processor.median(),
                    "processor_ratio": costs.processor.median() / reference.processor.median(),
                    "memory_mb": costs.memory.median(),
                    "output_bytes": size,
                })
            })
            .collect();
        json!({
            "program": self.name,
            "input_bytes": self.input,
            "repository_bytes": self.repository,
            "linkers": linkers,
        })
    }
}
