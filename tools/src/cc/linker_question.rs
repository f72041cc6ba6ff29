//! `-print-prog-name=ld`: which linker will be used.
//!
//! Configure scripts ask that once, and keep the answer in the build tree for good (libtool links by it). Drivers name the link by which they find `repo-ld`, which is in
//! the user's cache ([`linker_dir`]), and caches may be removed at any time. So the answer is the program that the link leads to. (clang does not
//! heed `--ld-path` when it is asked this.)

use super::invocation::Invocation;
use super::linker_dir;
use super::log::Log;
use super::run::{Ending, end_like};
use std::convert::Infallible;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Has the driver answer, and ends as it ended.
///
/// # Errors
/// If the driver cannot be run.
pub fn answer(invocation: &Invocation, log: &Log) -> Result<Infallible, (u8, String)> {
    let program = &invocation.program;
    let args = match linker_dir::find_repo_ld() {
        Some(repo_ld) => invocation.with_directory_of_linker(&repo_ld, log),
        None => invocation.args.clone(),
    };
    let answered = Command::new(&program.path)
        .arg0(&program.argv0)
        .args(args)
        .stdin(Stdio::inherit())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| invocation.cannot_run(error))?;
    let text = with_programs(&answered.stdout, linker_dir::leads_to);
    let mut out = io::stdout().lock();
    // Nobody hears of it if nobody listens, as of the driver itself.
    let _ = out.write_all(&text).and_then(|()| out.flush());
    end_like(match (answered.status.code(), answered.status.signal()) {
        (Some(code), _) => Ending::Exit(code),
        (None, signal) => Ending::Signal(signal.unwrap_or(libc::SIGKILL)),
    })
}

/// The answer, with the programs that lines lead to in place of links.
fn with_programs(answer: &[u8], leads_to: impl Fn(&Path) -> Option<PathBuf>) -> Vec<u8> {
    let mut text = Vec::with_capacity(answer.len());
    for line in answer.split_inclusive(|byte| *byte == b'\n') {
        let path = line.strip_suffix(b"\n").unwrap_or(line);
        match leads_to(Path::new(OsStr::from_bytes(path))) {
            Some(program) => {
                text.extend_from_slice(program.as_os_str().as_bytes());
                text.extend_from_slice(&line[path.len()..]);
            }
            None => text.extend_from_slice(line),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::with_programs;
    use std::path::Path;

    #[test]
    fn links_are_replaced_and_nothing_else() {
        let leads = |path: &Path| (path == Path::new("/c/ld")).then(|| "/b/repo-ld".into());
        for (answer, expected) in [
            ("/c/ld\n", "/b/repo-ld\n"),
            ("/c/ld", "/b/repo-ld"),
            ("ld\n/usr/bin/ld\n", "ld\n/usr/bin/ld\n"),
            ("", ""),
        ] {
            assert_eq!(with_programs(answer.as_bytes(), leads), expected.as_bytes());
        }
    }
}
