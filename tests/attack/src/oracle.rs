//! What must hold of a process that has ended, whatever was done to it or to its files.

use crate::{Failure, Verdict};
use repo_tests::process::Run;
use std::os::unix::process::ExitStatusExt as _;

/// It ended by itself, with exit code 0 or 1, without a panic; and if with 1, it said why.
///
/// # Errors
/// What it did instead.
pub fn ends_cleanly(run: &Run) -> Verdict {
    check_end(run)?;
    match run.status.code() {
        Some(0) => Ok(()),
        Some(2) if !has_more_codes(run) => Err(Failure::broken(format!(
            "another exit code than 0 and 1\n{}",
            run.report()
        ))),
        Some(1 | 2) if says_why(run) => Ok(()),
        Some(1 | 2) => Err(Failure::broken(format!(
            "failed without an error message\n{}",
            run.report()
        ))),
        _ => Err(Failure::broken(format!(
            "another exit code than 0 and 1\n{}",
            run.report()
        ))),
    }
}

/// The same for a process that cannot say why, because its standard error is closed or full.
///
/// # Errors
/// What it did instead.
pub fn ends_silently(run: &Run) -> Verdict {
    check_end(run)?;
    match run.status.code() {
        Some(0 | 1) => Ok(()),
        Some(2) if has_more_codes(run) => Ok(()),
        _ => Err(Failure::broken(format!(
            "another exit code than 0 and 1\n{}",
            run.report()
        ))),
    }
}

/// The same for a process under a limit on the size of files. A compiler that has died of it is not ours: its driver
/// tells of it, and has an exit code of its own for that.
///
/// # Errors
/// What it did instead.
pub fn ends_below_file_size(run: &Run) -> Verdict {
    let is_of_the_compiler = run
        .errors()
        .contains("File size limit exceeded signal terminated program");
    if is_of_the_compiler && matches!(run.status.code(), Some(1..=4)) {
        return check_end(run);
    }
    ends_cleanly(run)
}

/// It succeeded.
///
/// # Errors
/// What it did instead.
pub fn succeeds(run: &Run) -> Verdict {
    ends_cleanly(run)?;
    match run.status.success() {
        true => Ok(()),
        false => Err(Failure::broken(format!("failed\n{}", run.report()))),
    }
}

fn check_end(run: &Run) -> Verdict {
    let broken = |what: &str| Err(Failure::broken(format!("{what}\n{}", run.report())));
    let errors = run.errors();
    if errors.contains("panicked at") || errors.contains("stack overflow") {
        return broken("a panic");
    }
    if let Some(signal) = run.status.signal() {
        return broken(&format!("died of signal {signal}"));
    }
    // What the compiler's driver or a shell says of a child that a signal ended.
    let died =
        |line: &&str| line.contains("terminated with signal") || line.contains("core dumped");
    match errors.lines().find(died) {
        Some(line) => broken(&format!("a child died: {line}")),
        None => Ok(()),
    }
}

/// `repo-dump` and `repo-gc` end with 2 if they cannot do what is asked: with 1, the first says that it has found something.
fn has_more_codes(run: &Run) -> bool {
    ["repo-dump", "repo-gc"]
        .iter()
        .any(|name| run.command.contains(name))
}

fn says_why(run: &Run) -> bool {
    let said = run.errors() + &run.text();
    said.lines().any(|line| !line.trim().is_empty())
}
