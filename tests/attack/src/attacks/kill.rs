//! Kills. A process that is killed at any instruction must leave files that are whole and a repository that the next one
//! opens without repair.

use crate::field::UNITS;
use crate::oracle::{ends_cleanly, succeeds};
use crate::{Failure, Field, Verdict};
use repo_tests::process::{Run, command_line, run};
use repo_tests::tools::on_path;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A process that runs beside others.
struct Running {
    line: String,
    child: Child,
    was_shot: bool,
}

fn start(mut command: Command) -> Result<Running, Failure> {
    let line = command_line(&command);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let child = command.spawn();
    let child = child.map_err(|why| Failure::Impossible(format!("{line}: {why}")))?;
    Ok(Running {
        line,
        child,
        was_shot: false,
    })
}

impl Running {
    /// Kills it alone, as the kernel does when memory runs out, or with its children, as a terminal does.
    fn shoot(&mut self, with_children: bool) {
        // It has not been waited for, so the number is still its own.
        let pid = Pid::from_child(&self.child);
        let _ = match with_children {
            true => kill_process_group(pid, Signal::KILL),
            false => kill_process(pid, Signal::KILL),
        };
        self.was_shot = true;
    }

    /// Waits for its end, and its children's: they have its standard error.
    fn finish(self) -> Result<(Run, bool), Failure> {
        let output = self.child.wait_with_output();
        let output = output.map_err(|why| Failure::Impossible(why.to_string()))?;
        let was_killed = self.was_shot && output.status.signal() == Some(9);
        let run = Run {
            command: self.line,
            status: output.status,
            stdout: output.stdout,
            stderr: output.stderr,
        };
        Ok((run, was_killed))
    }
}

/// Two compiles, a link, a compactor and a reader at once; one or two of them die.
pub fn at_a_moment(field: &mut Field) -> Verdict {
    let first = field.random.below(UNITS.len());
    let units = [UNITS[first], UNITS[(first + 1) % UNITS.len()]];
    for unit in units {
        field.edit(unit)?;
    }
    let mut commands: Vec<Command> = units.iter().map(|unit| field.compile(unit)).collect();
    commands.extend([field.link(), field.verify()]);
    if field.random.one_in(2) {
        commands.push(field.compact());
    }
    let mut running = commands
        .into_iter()
        .map(start)
        .collect::<Result<Vec<_>, _>>()?;
    // Not a wait for something: the moment is the attack. Most of what can break is done in the first 80 ms.
    for _ in 0..1 + field.random.below(2) {
        std::thread::sleep(Duration::from_micros(field.random.below(80_000) as u64));
        let victim = field.random.below(running.len());
        let with_children = field.random.one_in(2);
        running[victim].shoot(with_children);
    }
    for one in running {
        let (run, was_killed) = one.finish()?;
        // A compiler whose driver is shot may be told of it; the others know nothing of the deaths beside them.
        if !was_killed {
            ends_cleanly(&run)?;
        }
    }
    remove_plain_objects(field);
    field.survives()
}

/// An object of the compiler's own, which it writes in place, may have been left half-written: that is the compiler's, and
/// make would have to take it away, too.
fn remove_plain_objects(field: &Field) {
    for unit in UNITS {
        let path = field.ticket(unit);
        let is_ticket = std::fs::read(&path)
            .is_ok_and(|bytes| bytes.windows(5).any(|window| window == b"REPO\0"));
        if !is_ticket {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The calls by which our programs change files.
const CALLS: [&str; 9] = [
    "pwrite64,pwritev,write,writev",
    "rename,renameat,renameat2",
    "linkat,link",
    "ftruncate,fallocate",
    "fsync,fdatasync,sync_file_range,msync",
    "unlink,unlinkat",
    "openat",
    "flock,fcntl",
    "mmap,munmap",
];

/// One of our programs dies at one of its system calls.
pub fn at_a_call(field: &mut Field) -> Verdict {
    if on_path("strace").is_none() {
        return Err(Failure::Impossible("there is no strace".into()));
    }
    let unit = UNITS[field.random.below(UNITS.len())];
    field.edit(unit)?;
    let command = match field.random.below(4) {
        0 => field.compact(),
        1 => {
            succeeds(&run(&mut field.compile(unit)))?;
            field.link_alone()
        }
        _ => field.compile(unit),
    };
    let calls = CALLS[field.random.below(CALLS.len())];
    let number = 1 + field.random.below(match calls {
        "openat" | "mmap,munmap" => 60,
        _ => 8,
    });
    let mut traced = Command::new("strace");
    traced
        .args(["-qq", "-o", "/dev/null", "-e", "trace=none", "-e"])
        .arg(format!("inject={calls}:signal=KILL:when={number}"))
        .arg(command.get_program())
        .args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        traced.current_dir(directory);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => traced.env(name, value),
            None => traced.env_remove(name),
        };
    }
    let traced = run(&mut traced);
    if traced.errors().contains("ptrace") {
        return Err(Failure::Impossible("strace may not trace here".into()));
    }
    if traced.status.signal() != Some(9) {
        ends_cleanly(&traced)?;
    }
    remove_plain_objects(field);
    let _ = std::fs::remove_file(field.scratch.join("program"));
    field.survives()
}
