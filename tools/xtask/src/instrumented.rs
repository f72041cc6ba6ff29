//! Tests that need a build of their own: the store's under a scheduler that
//! tries interleavings, and under AddressSanitizer. Each has its own target
//! directory, so that nothing else is built anew.

use anyhow::{Context as _, Result};
use repo_tests::sources::project_root;
use std::process::Command;

struct Build {
    what: &'static str,
    directory: &'static str,
    flags: &'static str,
    /// Arguments of `cargo test -p store`.
    arguments: &'static [&'static str],
}

const BUILDS: [Build; 2] = [
    Build {
        what: "interleavings of threads",
        directory: "target/shuttle",
        flags: "--cfg shuttle",
        arguments: &["--test", "interleavings"],
    },
    // All that handles files; without the process that may not have the address
    // space that AddressSanitizer wants.
    Build {
        what: "the store under AddressSanitizer",
        directory: "target/asan",
        flags: "-Zsanitizer=address",
        arguments: &[
            "--target=x86_64-unknown-linux-gnu",
            "--lib",
            "--test=faults",
            "--test=file_systems",
            "--test=golden",
            "--test=model",
            "--test=power_cut",
            "--test=processes",
            "--test=program",
            "--",
            "--skip=short_of_address_space",
        ],
    },
];

/// Runs them all; whether they passed.
///
/// # Errors
/// If cargo cannot be run.
pub fn test() -> Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut passed = true;
    for build in BUILDS {
        eprintln!("xtask: {}", build.what);
        let status = Command::new(&cargo)
            .args(["test", "-p", "store", "--target-dir", build.directory])
            .args(build.arguments)
            .current_dir(project_root())
            .env("RUSTFLAGS", build.flags)
            // -Z options, of whatever version this compiler is.
            .env("RUSTC_BOOTSTRAP", "1")
            // What a signal handler may be reading is never freed, by design (`store::guard`).
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .status()
            .context("cannot run cargo")?;
        passed &= status.success();
    }
    Ok(passed)
}
