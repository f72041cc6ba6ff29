//! This project's own programs, built once for the tests.
//!
//! `cargo test` builds the programs of a package for that package's own tests
//! only, so the end-to-end tests ask cargo for them: with the same profile and
//! target directory as the test that asks, so that nearly everything is there
//! already. Cargo's own lock serialises test binaries that ask at once.

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The programs that users have.
pub const INSTALLED: &[&str] = &["repo-cc", "repo-ld", "repo-dump", "repo-gc"];

/// Names a directory with the programs, and the plugin, for tests of what is installed: then nothing is built.
const PROGRAMS_VARIABLE: &str = "REPO_TESTS_PROGRAMS";

/// Where the project's programs are.
#[derive(Clone, Debug)]
pub struct Binaries {
    programs: HashMap<String, PathBuf>,
}

impl Binaries {
    /// The programs of the profile in which the calling test was built.
    ///
    /// # Panics
    /// If they cannot be built.
    pub fn get() -> &'static Binaries {
        static BINARIES: OnceLock<Binaries> = OnceLock::new();
        BINARIES.get_or_init(|| {
            if let Some(directory) = std::env::var_os(PROGRAMS_VARIABLE) {
                return Binaries::within(Path::new(&directory));
            }
            match build(&["--bins"], &like_this_test()) {
                Ok(binaries) => binaries,
                Err(error) => panic!("{error:#}"),
            }
        })
    }

    /// The programs of a directory.
    fn within(directory: &Path) -> Binaries {
        let programs = INSTALLED
            .iter()
            .map(|name| ((*name).to_owned(), directory.join(name)));
        Binaries {
            programs: programs.filter(|(_, path)| path.is_file()).collect(),
        }
    }

    /// The programs that users have, optimised, and those that are called `others`.
    ///
    /// # Errors
    /// If they cannot be built.
    pub fn release(others: &[&str]) -> Result<Binaries> {
        let names = INSTALLED.iter().chain(others);
        let chosen: Vec<_> = names.flat_map(|name| ["--bin", name]).collect();
        build(&chosen, &["--release".into()])
    }

    /// The absolute path of the program called `name`.
    ///
    /// # Panics
    /// If the workspace has none of that name.
    #[track_caller]
    pub fn path(&self, name: &str) -> &Path {
        match self.programs.get(name) {
            Some(path) => path,
            None => panic!("the workspace has no program {name}"),
        }
    }

    /// The directory in which they all are.
    #[track_caller]
    pub fn directory(&self) -> &Path {
        self.path("repo-ld")
            .parent()
            .expect("a program is in a directory")
    }
}

/// The pass plugin for clang 19, built in the profile of the calling test; `None` if it is empty because LLVM's headers are not there.
///
/// # Panics
/// If it cannot be built.
pub fn plugin() -> Option<&'static Path> {
    static PLUGIN: OnceLock<Option<PathBuf>> = OnceLock::new();
    let made = PLUGIN.get_or_init(|| {
        if let Some(directory) = std::env::var_os(PROGRAMS_VARIABLE) {
            return Some(Path::new(&directory).join("librepo_plugin.so")).filter(|it| it.is_file());
        }
        let messages = messages(&["--package", "repo-plugin"], &like_this_test());
        let messages = messages.unwrap_or_else(|error| panic!("{error:#}"));
        let library = messages
            .iter()
            .rfind(|message| message["target"]["name"] == "repo_plugin")?;
        let library = PathBuf::from(library["filenames"][0].as_str()?);
        // As repo-cc finds out.
        let bytes = std::fs::read(&library).ok()?;
        let entry = b"llvmGetPassPluginInfo";
        bytes
            .windows(entry.len())
            .any(|window| window == entry)
            .then_some(library)
    });
    made.as_deref()
}

/// Cargo's arguments for the profile and the target directory of this test:
/// it is `TARGET_DIR[/TRIPLE]/PROFILE/deps/NAME-HASH`.
fn like_this_test() -> Vec<String> {
    let mut arguments = Vec::new();
    let Ok(test) = std::env::current_exe() else {
        return arguments;
    };
    let directories: Vec<&Path> = test.ancestors().skip(1).collect();
    let Some(root) = directories
        .iter()
        .position(|d| d.join("CACHEDIR.TAG").exists())
    else {
        return arguments;
    };
    arguments.push(format!("--target-dir={}", directories[root].display()));
    let name = |index: usize| {
        directories[index]
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
    };
    // Inwards from the target directory: a triple, perhaps; the profile; deps.
    let inner: Vec<_> = (0..root)
        .rev()
        .map(name)
        .filter(|name| name != "deps")
        .collect();
    if let [triple, _] = &inner[..] {
        arguments.push(format!("--target={triple}"));
    }
    match inner.last().map(|name| &**name) {
        None | Some("debug") => {}
        Some(profile) => arguments.push(format!("--profile={profile}")),
    }
    arguments
}

fn build(chosen: &[&str], arguments: &[String]) -> Result<Binaries> {
    let mut chosen = chosen.to_vec();
    chosen.push("--workspace");
    let mut programs = HashMap::new();
    for message in messages(&chosen, arguments)? {
        let name = message["target"]["name"].as_str();
        if let (Some(name), Some(path)) = (name, message["executable"].as_str()) {
            programs.insert(name.to_owned(), PathBuf::from(path));
        }
    }
    Ok(Binaries { programs })
}

/// What cargo says while it builds.
fn messages(chosen: &[&str], arguments: &[String]) -> Result<Vec<Value>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--message-format=json"])
        .args(chosen)
        .args(arguments)
        .current_dir(crate::sources::project_root())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("the project's programs cannot be built");
    }
    let lines = output.stdout.split(|&byte| byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line).context("cargo's messages"))
        .collect()
}
