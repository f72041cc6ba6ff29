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
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// Has the driver answer, and ends as it ended.
///
/// # Errors
/// If the driver cannot be run.
pub fn answer(invocation: &Invocation, log: &Log) -> Result<Infallible, (u8, String)> {
    let program = &invocation.program;
    let repo_ld = linker_dir::find_repo_ld();
    let args = match &repo_ld {
        Some(repo_ld) => invocation.with_directory_of_linker(repo_ld, log),
        None => invocation.args.clone(),
    };
    let answered = Command::new(&program.path)
        .arg0(&program.argv0)
        .args(args)
        .stdin(Stdio::inherit())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| invocation.cannot_run(error))?;
    let mut text = answered.stdout;
    if let Some(repo_ld) = &repo_ld {
        text = with_program(&text, repo_ld);
    }
    let mut out = io::stdout().lock();
    // Nobody hears of it if nobody listens, as of the driver itself.
    let _ = out.write_all(&text).and_then(|()| out.flush());
    end_like(match (answered.status.code(), answered.status.signal()) {
        (Some(code), _) => Ending::Exit(code),
        (None, signal) => Ending::Signal(signal.unwrap_or(libc::SIGKILL)),
    })
}

/// The answer, with the program in place of links to it.
fn with_program(answer: &[u8], program: &Path) -> Vec<u8> {
    let leads_there = |path: &[u8]| {
        let to = fs::read_link(OsStr::from_bytes(path));
        to.is_ok_and(|to| to == program)
    };
    let mut text = Vec::with_capacity(answer.len());
    for line in answer.split_inclusive(|byte| *byte == b'\n') {
        let path = line.strip_suffix(b"\n").unwrap_or(line);
        let shown = match leads_there(path) {
            true => program.as_os_str().as_bytes(),
            false => path,
        };
        text.extend_from_slice(shown);
        text.extend_from_slice(&line[path.len()..]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::with_program;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    #[test]
    fn links_are_replaced_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let program = Path::new("/b/repo-ld");
        let [ours, other] = ["ld", "other"].map(|name| dir.path().join(name));
        symlink(program, &ours).expect("a link");
        symlink("/usr/bin/ld", &other).expect("a link");
        let (ours, other) = (ours.display(), other.display());
        for (answer, expected) in [
            (format!("{ours}\n"), "/b/repo-ld\n".to_owned()),
            (format!("{ours}"), "/b/repo-ld".to_owned()),
            (format!("ld\n{other}\n"), format!("ld\n{other}\n")),
            (String::new(), String::new()),
        ] {
            assert_eq!(
                with_program(answer.as_bytes(), program),
                expected.as_bytes()
            );
        }
    }
}
