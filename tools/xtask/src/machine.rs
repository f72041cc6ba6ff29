//! Getting the machine's own tools: by `apt-get` where we are root on a system
//! that has it, otherwise by telling which packages have them.

use anyhow::{Context as _, Result};
use repo_tests::tools::{self, Tool};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};

/// The tools among `wanted` that this machine lacks.
pub fn missing<'a>(wanted: impl IntoIterator<Item = &'a Tool>) -> Vec<&'a Tool> {
    wanted
        .into_iter()
        .filter(|tool| tools::find(tool.name).is_none())
        .collect()
}

/// Tries to install `missing`. What cannot be installed is said and is no
/// error: the tests that need it say so themselves.
///
/// # Errors
/// If apt-get cannot be started at all.
pub fn install(missing: &[&Tool]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = missing.iter().map(|tool| tool.name).collect();
    eprintln!("xtask: missing: {}", names.join(", "));
    if !rustix::process::geteuid().is_root() || tools::on_path("apt-get").is_none() {
        let packages: BTreeSet<_> = missing
            .iter()
            .filter_map(|tool| tool.packages.last())
            .copied()
            .collect();
        let packages: Vec<_> = packages.into_iter().collect();
        eprintln!(
            "xtask: Debian has them in these packages: {}",
            packages.join(" ")
        );
        return Ok(());
    }
    apt_get(&["update", "--quiet"])?;
    let mut packages = BTreeSet::new();
    for tool in missing {
        match tool.packages.iter().find(|package| is_known(package)) {
            Some(package) => drop(packages.insert(*package)),
            None => eprintln!("xtask: apt knows no package with {}", tool.name),
        }
    }
    let mut arguments = vec!["install", "--yes", "--quiet", "--no-install-recommends"];
    arguments.extend(packages);
    apt_get(&arguments)
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    eprintln!("xtask: $ apt-get {}", arguments.join(" "));
    let status = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context("cannot run apt-get")?;
    if !status.success() {
        eprintln!("xtask: apt-get failed ({status}); going on with what is there");
    }
    Ok(())
}

/// Whether apt could install `package`.
fn is_known(package: &str) -> bool {
    let output = Command::new("apt-cache").args(["policy", package]).output();
    output.is_ok_and(|output| {
        let text = String::from_utf8_lossy(&output.stdout);
        text.contains("Candidate:") && !text.contains("Candidate: (none)")
    })
}
