//! `cargo xtask attack`: runs `repo-attack` (`tests/attack`), which is a program of its own because it needs the linker, for
//! which the other commands need not wait.

use anyhow::{Context as _, Result};
use repo_tests::sources::project_root;
use std::process::{Command, ExitCode};

/// Runs the attacks with these arguments.
///
/// # Errors
/// If cargo cannot be run.
pub fn attack(arguments: &[String]) -> Result<ExitCode> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["run", "--quiet", "--package", "repo-attack", "--"])
        .args(arguments)
        .current_dir(project_root())
        .status()
        .context("cannot run cargo")?;
    Ok(match status.success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
