//! Links by every linker, with the arguments that gcc gives its own.

use crate::measure::{Costs, interleaved};
use crate::subjects::Subject;
use crate::tickets;
use anyhow::{Context as _, Result, ensure};
use repo_tests::binaries::Binaries;
use repo_tests::programs::Language;
use repo_tests::tools;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use store::program::Repository;

/// A linker, and what it is told so that all do the same: two threads, no
/// process of its own that one does not wait for.
struct Contestant {
    name: &'static str,
    program: PathBuf,
    arguments: &'static [&'static str],
    tickets: bool,
}

fn contestants(binaries: &Binaries) -> Vec<Contestant> {
    let ours = |name, tickets| Contestant {
        name,
        program: binaries.path("repo-ld").to_owned(),
        arguments: &["--threads=2"],
        tickets,
    };
    let mut list = vec![ours("repo-ld", false), ours("repo-ld, tickets", true)];
    let peers: [(&'static str, Option<PathBuf>, &'static [&'static str]); 4] = [
        (
            "wild",
            tools::on_path("wild"),
            &["--threads=2", "--no-fork"],
        ),
        ("mold", tools::find("mold"), &["--threads=2", "--no-fork"]),
        ("lld", tools::find("ld.lld"), &["--threads=2"]),
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
    objects: u64,
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
    let driver = if subject.language == Language::C {
        "gcc"
    } else {
        "g++"
    };
    let gcc = tools::find(driver)
        .with_context(|| format!("needs {driver}"))?
        .into_os_string();
    let repository = directory.join("program.repo");
    let objects = subject.compile(&[gcc.clone()], &[], &directory.join("objects"))?;
    let words = arguments_of_gcc(&gcc, subject, &objects, &directory)?;
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
            &ticketed
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
        objects: objects.iter().map(size).sum(),
        repository: size(&repository),
        output: names
            .iter()
            .copied()
            .zip(outputs.iter().map(size))
            .collect(),
        costs: names.into_iter().zip(costs).collect(),
    })
}

/// The arguments that gcc gives its linker for this link, without the plugin
/// for link-time optimisation, which some peers do not have.
fn arguments_of_gcc(
    gcc: &OsString,
    subject: &Subject,
    inputs: &[PathBuf],
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
        .args(&subject.link)
        .args(inputs)
        .args(&subject.libraries)
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
            "{}: {:.2} MB of objects, {:.2} MB of repository",
            self.name,
            mega(self.objects),
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
            "object_bytes": self.objects,
            "repository_bytes": self.repository,
            "linkers": linkers,
        })
    }
}
