//! `cargo xtask test`.

use crate::{instrumented, machine};
use anyhow::{Context as _, Result};
use repo_tests::sources::project_root;
use repo_tests::tools::{SKIPPED, TOOLS};
use std::collections::BTreeSet;
use std::process::{Command, ExitCode};

/// Runs all tests, with `arguments` for `cargo test`; without any, also those
/// that need a build of their own. Then tells what was skipped.
///
/// # Errors
/// If cargo cannot be run.
pub fn test(no_install: bool, arguments: &[String]) -> Result<ExitCode> {
    if !no_install {
        machine::install(&machine::missing(TOOLS))?;
    }
    let root = project_root();
    let list = root.join("target/skipped-tests");
    std::fs::create_dir_all(root.join("target")).context("cannot make target/")?;
    std::fs::write(&list, "").with_context(|| format!("cannot write {}", list.display()))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["test", "--workspace", "--no-fail-fast"])
        .args(arguments)
        .current_dir(root)
        .env(SKIPPED, &list)
        .status()
        .context("cannot run cargo")?;
    let mut passed = status.success();
    if arguments.is_empty() {
        passed &= instrumented::test()?;
    }

    let skipped = std::fs::read_to_string(&list).unwrap_or_default();
    let skipped: BTreeSet<&str> = skipped.lines().collect();
    if skipped.is_empty() {
        eprintln!("xtask: no test was skipped");
    } else {
        eprintln!("xtask: tests that could not run here:");
        for line in skipped {
            eprintln!("  {line}");
        }
    }
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
