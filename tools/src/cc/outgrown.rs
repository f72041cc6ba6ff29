//! Having a repository compacted that has become larger than the user wants it: `$REPO_MAX_SIZE`. Nothing of that is in the way
//! of the compile: `repo-gc --idle` is started and left alone, and is stopped as long as the build runs.

use super::log::Log;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use store::program::budget::{VARIABLE, is_to_be_compacted, size};

/// Looks at a repository to which something was added.
pub fn look_at(repository: &Path, log: &Log) {
    let Some(text) = std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) else {
        return;
    };
    let Some(max_size) = text.to_str().and_then(size) else {
        return log.note(format_args!(
            "${VARIABLE} is no size (such as 20G): {}",
            text.display()
        ));
    };
    if !is_to_be_compacted(repository, max_size) {
        return;
    }
    let shown = repository.display();
    match start(repository, max_size) {
        Ok(()) => log.note(format_args!(
            "{shown}: larger than ${VARIABLE}; repo-gc --idle was started"
        )),
        Err(error) => log.note(format_args!(
            "{shown}: larger than ${VARIABLE}, but repo-gc cannot be started: {error}"
        )),
    }
}

fn start(repository: &Path, max_size: u64) -> std::io::Result<()> {
    let program = std::env::current_exe()?.with_file_name("repo-gc");
    let mut command = Command::new(program);
    command.arg("--idle").arg("--repo").arg(repository);
    command.arg("--max-size").arg(max_size.to_string());
    // Who waits for the end of the build's output, or interrupts the build, means the build.
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.process_group(0).current_dir("/");
    command.spawn().map(drop)
}
