//! `cargo xtask corpus`: whether two linkers write the same bytes.
//!
//! A change that only arranges the linker anew must leave every output as it was. `--record DIR` links many inputs by a
//! linker, copies that linker to DIR, and writes down a digest of everything that each link has left: files, messages, exit
//! code. `--compare DIR` links all again, by another linker, and tells where it differs; there both linkers' files are kept.
//! DIR is outside the source tree; the [inputs](mod@inputs) are compiled there once, and the [links](mod@cases) are the same
//! each time.

mod cases;
mod inputs;

use anyhow::{Context as _, Result, bail};
use cases::Case;
use repo_tests::build::parallel;
use repo_tests::sources::project_root;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::Instant;

/// What is asked for.
#[derive(clap::Args)]
pub struct Arguments {
    /// Link by the linker and remember in DIR what it made
    #[arg(long, value_name = "DIR", conflicts_with = "compare")]
    record: Option<PathBuf>,
    /// Link by the linker and compare with what is remembered in DIR
    #[arg(long, value_name = "DIR", required_unless_present = "record")]
    compare: Option<PathBuf>,
    /// The linker
    #[arg(long, value_name = "FILE", default_value = "target/quick/repo-ld")]
    linker: PathBuf,
    /// How many links with random options are among them; compared are those that were recorded
    #[arg(long, value_name = "N", default_value_t = 1500)]
    random: usize,
    /// Only links whose names have this in them
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

/// Records or compares.
///
/// # Errors
/// If inputs cannot be compiled, or DIR not be written.
pub fn corpus(arguments: &Arguments) -> Result<ExitCode> {
    let directory = arguments.record.as_ref().or(arguments.compare.as_ref());
    let directory = directory.context("--record or --compare")?;
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let directory = directory.canonicalize()?;
    if directory.starts_with(project_root()) {
        bail!("{} is in the source tree", directory.display());
    }
    let linker = fs::canonicalize(&arguments.linker)
        .with_context(|| format!("no linker {}", arguments.linker.display()))?;
    let kept = directory.join("repo-ld");
    if arguments.record.is_some() {
        fs::copy(&linker, &kept).context("cannot keep the linker")?;
    }
    let inputs = inputs::make(&directory, &kept)?;
    let mut cases = cases::all(&inputs, arguments.random);
    cases.retain(|case| case.name.contains(&arguments.only));
    let place = Place {
        directory: &directory,
    };
    let begin = Instant::now();
    let found = place.link_all(&linker, &cases);
    eprintln!("xtask: {} links in {:.0?}", cases.len(), begin.elapsed());
    let list = directory.join("digests");
    if arguments.record.is_some() {
        let mut text = String::new();
        for (case, outcome) in cases.iter().zip(&found) {
            let _ = writeln!(text, "{} {outcome}", case.name);
        }
        fs::write(&list, text).context("cannot write digests")?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = fs::read_to_string(&list).context("nothing is recorded here")?;
    let recorded: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .collect();
    let mut differ = 0;
    for (case, outcome) in cases.iter().zip(&found) {
        let Some(before) = recorded.get(&case.name[..]) else {
            continue;
        };
        if before == outcome {
            continue;
        }
        differ += 1;
        println!("{}: {before} -> {outcome}", case.name);
        if differ <= 50 {
            let kept = place.keep(case, &kept, &linker)?;
            println!("  {}", kept.display());
        }
    }
    println!("{differ} of {} links differ", cases.len());
    Ok(ExitCode::from(u8::from(differ > 0)))
}

/// Where links are made: each in a directory of its own, with a link `in` to the inputs, so that no path depends on which
/// thread makes it.
struct Place<'l> {
    directory: &'l Path,
}

impl Place<'_> {
    fn link_all(&self, linker: &Path, cases: &[Case]) -> Vec<String> {
        let outcomes = Mutex::new(vec![String::new(); cases.len()]);
        parallel(cases.len(), |index| {
            let directory = self.directory.join(format!("run/{index}"));
            let outcome = self.link(linker, &cases[index], &directory);
            let outcome = outcome.unwrap_or_else(|error| format!("{error:#}"));
            let _ = fs::remove_dir_all(&directory);
            if let Ok(mut outcomes) = outcomes.lock() {
                outcomes[index] = outcome;
            }
        });
        outcomes.into_inner().unwrap_or_default()
    }

    /// Makes one link in `directory`, whose files stay there. Returns exit code and digest.
    fn link(&self, linker: &Path, case: &Case, directory: &Path) -> Result<String> {
        let _ = fs::remove_dir_all(directory);
        fs::create_dir_all(directory)?;
        symlink(self.directory.join("inputs"), directory.join("in"))?;
        let mut command = Command::new(linker);
        command.args(&case.arguments).current_dir(directory);
        for name in ["REPO_LOG", "LD_RUN_PATH", "LD_LIBRARY_PATH"] {
            command.env_remove(name);
        }
        command.env("REPO_FILE", self.directory.join("inputs/program.repo"));
        // A link that finds what the one before has left may change its output instead of making it.
        command.env("REPO_LD_INCREMENTAL", "0");
        command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        let output = command.output().context("cannot run the linker")?;
        fs::write(directory.join("stdout"), &output.stdout)?;
        fs::write(directory.join("stderr"), &output.stderr)?;
        let mut names = Vec::new();
        for entry in directory.read_dir()? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.push(entry.file_name());
            }
        }
        names.sort();
        let mut digest = blake3::Hasher::new();
        for name in names {
            let bytes = fs::read(directory.join(&name))?;
            digest.update(name.as_encoded_bytes());
            digest.update(&(bytes.len() as u64).to_le_bytes());
            digest.update(&bytes);
        }
        let digest = &digest.finalize().to_hex()[..16];
        let code = match output.status.code() {
            Some(code) => code.to_string(),
            None => "killed".to_owned(),
        };
        Ok(format!("{code} {digest}"))
    }

    /// Makes the link by both linkers, and leaves their files.
    fn keep(&self, case: &Case, old: &Path, new: &Path) -> Result<PathBuf> {
        let directory = self.directory.join("different").join(&case.name);
        for (linker, name) in [(old, "old"), (new, "new")] {
            self.link(linker, case, &directory.join(name))?;
        }
        fs::write(directory.join("arguments"), case.arguments.join(" "))?;
        Ok(directory)
    }
}
