//! Running a program, with a limit on its time.
//!
//! A test that waits for ever tells nothing. A process that lives longer than
//! [`LIMIT`] is killed and the test fails with what it had printed. The limit is
//! far above what anything here takes, so that a slow machine does not hit it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// How long one process may run.
pub const LIMIT: Duration = Duration::from_secs(600);

/// What a process did.
#[derive(Debug)]
pub struct Run {
    /// The command, as one could type it.
    pub command: String,
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
}

impl Run {
    /// The run, if it ended with exit code 0.
    ///
    /// # Panics
    /// Otherwise, with all that is known about it.
    #[track_caller]
    pub fn ok(self) -> Run {
        assert!(self.status.success(), "{}", self.report());
        self
    }

    /// The run, if it ended by itself with the exit code `code`.
    ///
    /// # Panics
    /// Otherwise.
    #[track_caller]
    pub fn code(self, code: i32) -> Run {
        assert_eq!(self.status.code(), Some(code), "{}", self.report());
        self
    }

    /// The run, if it failed as a program should: an exit code of its own (no
    /// signal, no panic of Rust's) and something on standard error.
    ///
    /// # Panics
    /// Otherwise.
    #[track_caller]
    pub fn failed(self) -> Run {
        let code = self.status.code();
        assert!(
            code.is_some_and(|c| c != 0 && c != 101) && !self.stderr.is_empty(),
            "expected an error message and a failing exit code\n{}",
            self.report()
        );
        self
    }

    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text.
    pub fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Everything, for a failing assertion.
    pub fn report(&self) -> String {
        let mut text = format!("$ {}\n{}\n", self.command, self.status);
        for (name, bytes) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            let bytes = String::from_utf8_lossy(bytes);
            let tail = tail(&bytes, 6000);
            let _ = write!(text, "--- {name}\n{tail}\n");
        }
        text
    }
}

/// The last `limit` bytes or fewer of `text`.
fn tail(text: &str, limit: usize) -> &str {
    let mut start = text.len().saturating_sub(limit);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// Has `command` begin with the signals as a terminal's processes have them: what is started by `nohup`, or with `&` in a
/// script, ignores some of them, and so do its children, whose shells then cannot even trap them.
pub fn with_default_signals(command: &mut Command) -> &mut Command {
    let set = || {
        for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTERM] {
            // SAFETY: `signal` is async-signal-safe, and the process has no handlers that could still be asked for.
            if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: between `fork` and `exec` only `signal` is called, and no memory is allocated.
    unsafe { command.pre_exec(set) }
}

/// Runs `command` to its end with nothing on its standard input.
///
/// # Panics
/// If it cannot be started, or outlives [`LIMIT`].
#[track_caller]
pub fn run(command: &mut Command) -> Run {
    run_with_input(command, b"")
}

/// Runs `command` to its end with `input` on its standard input.
///
/// # Panics
/// If it cannot be started, or outlives [`LIMIT`].
#[track_caller]
pub fn run_with_input(command: &mut Command, input: &[u8]) -> Run {
    let line = command_line(command);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if input.is_empty() {
        Stdio::null()
    } else {
        Stdio::piped()
    });
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => panic!("$ {line}\ncannot be started: {error}"),
    };
    let pid = rustix::process::Pid::from_child(&child);
    let writer = child.stdin.take().map(|mut pipe| {
        let input = input.to_vec();
        // A program may exit without reading everything: not our failure.
        std::thread::spawn(move || drop(pipe.write_all(&input)))
    });
    let (send, receive) = mpsc::channel();
    let waiter = std::thread::spawn(move || drop(send.send(child.wait_with_output())));
    let mut late = false;
    let output = receive.recv_timeout(LIMIT).unwrap_or_else(|_| {
        late = true;
        // An error is no matter: the process may just have ended.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        receive.recv().expect("the waiting thread reports once")
    });
    waiter.join().expect("the waiting thread does not panic");
    if let Some(writer) = writer {
        writer.join().expect("the writing thread does not panic");
    }
    let output = match output {
        Ok(output) => output,
        Err(error) => panic!("$ {line}\ncannot be waited for: {error}"),
    };
    let run = Run {
        command: line,
        status: output.status,
        stdout: output.stdout,
        stderr: output.stderr,
    };
    assert!(!late, "killed after {LIMIT:?}\n{}", run.report());
    run
}

/// `command` as one would type it into a shell.
pub fn command_line(command: &Command) -> String {
    let mut line = String::new();
    if let Some(directory) = command.get_current_dir() {
        let _ = write!(line, "cd {} && ", quote(&directory.to_string_lossy()));
    }
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
            let _ = write!(line, "{name}={} ", quote(&value));
        }
    }
    line.push_str(&quote(&command.get_program().to_string_lossy()));
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&quote(&argument.to_string_lossy()));
    }
    line
}

/// `word` in single quotes where a shell would need them.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=+:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_keeps_output_and_code() {
        let run = run_with_input(
            Command::new("sh").args(["-c", "cat; echo e >&2; exit 3"]),
            b"in",
        );
        let run = run.code(3);
        assert_eq!((run.text().as_str(), run.errors().as_str()), ("in", "e\n"));
        assert_eq!(run.command, "sh -c 'cat; echo e >&2; exit 3'");
    }

    #[test]
    fn quoting_survives_a_shell() {
        let word = r#"a'b "c" $d"#;
        let run = run(Command::new("sh").args(["-c", &format!("printf %s {}", quote(word))])).ok();
        assert_eq!(run.text(), word);
    }
}
