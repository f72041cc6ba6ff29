//! Where a package's source comes from, and getting it once into `target/packages/NAME/source`.
//!
//! Debian's sources come by apt-get with a configuration of our own (lists, cache and sources below
//! `target/packages/apt`), so that nothing of the system's changes and no root is needed.

use crate::packages::table::Source;
use anyhow::{Context as _, Result, bail, ensure};
use repo_tests::process::command_line;
use repo_tests::sources::project_root;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The suite and component of Debian's sources.
const DEBIAN: &str = "http://deb.debian.org/debian bookworm main";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// What tells two states of a source apart: of this project's own files their content, which is another in each run; of
/// anything else its version, which stands for the same files for ever.
///
/// # Errors
/// If a file of this project cannot be read.
pub fn identity(source: &Source) -> Result<String> {
    let below = match *source {
        Source::ThisProject => ".",
        Source::Own(directory) => directory,
        _ => return Ok(format!("{source:?}")),
    };
    let mut hasher = DefaultHasher::new();
    for name in own_files(below)? {
        fs::read(project_root().join(&name))?.hash(&mut hasher);
        name.hash(&mut hasher);
    }
    Ok(format!("{source:?} {:016x}", hasher.finish()))
}

/// Makes `directory` hold the source with this identity, unless it does already.
///
/// # Errors
/// If the source cannot be had, with the command that failed.
pub fn get(source: &Source, identity: &str, root: &Path, directory: &Path) -> Result<()> {
    let noted = directory.with_extension("identity");
    if directory.exists() {
        if fs::read_to_string(&noted).is_ok_and(|noted| noted == identity) {
            return Ok(());
        }
        fs::remove_dir_all(directory)?;
    }
    let unfinished = directory.with_extension("unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)?;
    }
    if let Some(parent) = directory.parent() {
        fs::create_dir_all(parent)?;
    }
    match *source {
        Source::Debian(name) => debian(name, &root.join("apt"), &unfinished)?,
        Source::Git { url, tag } => run(Command::new("git")
            .args(["clone", "--quiet", "--depth=1", "--branch", tag, url])
            .arg(&unfinished))?,
        Source::Crate { name, version } => registry(name, version, root, &unfinished)?,
        Source::ThisProject => copy_own(".", &unfinished)?,
        Source::Own(name) => copy_own(name, &unfinished)?,
    }
    fs::rename(&unfinished, directory)?;
    fs::write(&noted, identity)?;
    Ok(())
}

/// Copies a source tree with its times, so that make sees what it should see.
///
/// # Errors
/// If cp fails.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    run(Command::new("cp").arg("-a").arg(from).arg(to))
}

fn debian(name: &str, apt: &Path, to: &Path) -> Result<()> {
    let configuration = apt.join("apt.conf");
    if !configuration.exists() {
        for directory in ["sources.d", "lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(apt.join(directory))?;
        }
        fs::write(
            apt.join("sources.list"),
            format!("deb-src [signed-by={KEYRING}] {DEBIAN}\n"),
        )?;
        let here = apt.display();
        let text = format!(
            "Dir::Etc::sourcelist \"{here}/sources.list\";\nDir::Etc::sourceparts \"{here}/sources.d\";\n\
             Dir::State::lists \"{here}/lists\";\nDir::Cache \"{here}/cache\";\nAPT::Sandbox::User \"\";\n"
        );
        fs::write(&configuration, text)?;
        let update = run(apt_get(&configuration).args(["--quiet", "update"]));
        if update.is_err() {
            let _ = fs::remove_file(&configuration);
        }
        update?;
    }
    let downloads = apt.join("downloads").join(name);
    fs::create_dir_all(&downloads)?;
    run(apt_get(&configuration)
        .args(["--quiet", "source", "--download-only", name])
        .current_dir(&downloads))?;
    let description = repo_tests::sources::files(&downloads, ".dsc")?
        .pop()
        .context("no .dsc file")?;
    run(Command::new("dpkg-source")
        .args(["--no-check", "--no-copy", "-x"])
        .args([&description, to]))
}

fn apt_get(configuration: &Path) -> Command {
    let mut command = Command::new("apt-get");
    command.env("APT_CONFIG", configuration);
    command
}

/// A crate of the registry: cargo downloads it as a dependency of an empty package.
fn registry(name: &str, version: &str, root: &Path, to: &Path) -> Result<()> {
    let asking = root.join("crates").join(name);
    fs::create_dir_all(asking.join("src"))?;
    fs::write(asking.join("src/lib.rs"), "")?;
    let manifest = asking.join("Cargo.toml");
    let text = format!(
        "[package]\nname = \"asks-for-{name}\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n{name} = \"={version}\"\n"
    );
    fs::write(&manifest, text)?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run(Command::new(&cargo)
        .args(["fetch", "--quiet", "--manifest-path"])
        .arg(&manifest))?;
    let unpacked = unpacked_crate(&format!("{name}-{version}"))?;
    copy(&unpacked, to)?;
    let manifest = to.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)?;
    if !text.lines().any(|line| line.trim() == "[workspace]") {
        // It must not take itself for a member of this project's workspace, in whose target it is.
        fs::write(&manifest, text + "\n[workspace]\n")?;
    }
    if !to.join("Cargo.lock").exists() {
        run(Command::new(&cargo)
            .args(["generate-lockfile", "--quiet"])
            .current_dir(to))?;
    }
    Ok(())
}

/// Where cargo has unpacked `NAME-VERSION`.
fn unpacked_crate(name: &str) -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home
        .or_else(|| std::env::home_dir().map(|home| home.join(".cargo")))
        .context("no home directory")?;
    let registries = home.join("registry/src");
    let entries = registries
        .read_dir()
        .with_context(|| format!("cannot read {}", registries.display()))?;
    for entry in entries {
        let path = entry?.path().join(name);
        if path.is_dir() {
            return Ok(path);
        }
    }
    bail!("cargo has not unpacked {name} in {}", registries.display())
}

/// Copies the files of this project below a directory, as they are now.
fn copy_own(below: &str, to: &Path) -> Result<()> {
    let root = project_root();
    for name in own_files(below)? {
        let to = to.join(name.strip_prefix(below).unwrap_or(&name));
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        let from = root.join(&name);
        fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    Ok(())
}

/// The files of this project below a directory that git knows and that are there.
fn own_files(below: &str) -> Result<Vec<PathBuf>> {
    let root = project_root();
    let output = Command::new("git")
        .args(["ls-files", "-z", "--", below])
        .current_dir(root)
        .output()?;
    ensure!(output.status.success(), "git ls-files failed");
    let text = String::from_utf8(output.stdout).context("a file name that is not UTF-8")?;
    let names = text.split_terminator('\0').map(PathBuf::from);
    Ok(names.filter(|name| root.join(name).is_file()).collect())
}

fn run(command: &mut Command) -> Result<()> {
    let line = command_line(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {line}"))?;
    ensure!(
        output.status.success(),
        "{line}\nfailed: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_copied_again_if_it_is_another() {
        let own = Source::Own("tools/xtask/src/packages");
        let directory = tempfile::tempdir().unwrap();
        let to = directory.path().join("source");
        let copied = |identity: &str| {
            get(&own, identity, directory.path(), &to).unwrap();
            fs::read_to_string(to.join("source.rs")).unwrap()
        };
        let ours = include_str!("source.rs");
        assert_eq!(copied("one"), ours);
        fs::write(to.join("source.rs"), "edited").unwrap();
        assert_eq!(copied("one"), "edited");
        assert_eq!(copied("two"), ours);
    }

    #[test]
    fn versions_and_contents_are_identities() {
        let of_crate = |version| {
            let name = "a";
            identity(&Source::Crate { name, version }).unwrap()
        };
        assert_ne!(of_crate("1.0.0"), of_crate("1.0.1"));
        let own = identity(&Source::Own("tools/xtask/src/packages")).unwrap();
        assert_eq!(
            own,
            identity(&Source::Own("tools/xtask/src/packages")).unwrap()
        );
        assert_ne!(own, identity(&Source::ThisProject).unwrap());
    }
}
