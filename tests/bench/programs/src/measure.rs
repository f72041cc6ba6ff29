//! Interleaved runs, and what is made of them.

use anyhow::{Context as _, Result, bail};
use repo_tests::sources::project_root;
use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Instant;

/// A quantity of one contestant, once for each run, sorted.
#[derive(Clone, Debug)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// Of these values.
    pub fn new(mut values: Vec<f64>) -> Sample {
        values.sort_by(f64::total_cmp);
        Sample(values)
    }

    /// The middle one.
    pub fn median(&self) -> f64 {
        self.0[self.0.len() / 2]
    }

    /// The least.
    pub fn min(&self) -> f64 {
        self.0[0]
    }

    /// The greatest.
    pub fn max(&self) -> f64 {
        self.0[self.0.len() - 1]
    }
}

/// What the runs of one contestant took.
#[derive(Clone, Debug)]
pub struct Costs {
    /// Wall time, milliseconds.
    pub wall: Sample,
    /// Time of all processors, user's and system's, milliseconds: what a busy machine
    /// changes least.
    pub processor: Sample,
    /// The most memory that was resident, megabytes.
    pub memory: Sample,
}

/// Runs every command `runs` times, in turns, after one run of each that does
/// not count; returns their costs in the same order.
///
/// # Errors
/// If a command fails.
pub fn interleaved(commands: &mut [Command], runs: usize) -> Result<Vec<Costs>> {
    forget_peak()?;
    let mut measured = vec![[const { Vec::new() }; 3]; commands.len()];
    for round in 0..=runs {
        for (command, measured) in commands.iter_mut().zip(&mut measured) {
            let values = run(command)?;
            if round > 0 {
                for (list, value) in measured.iter_mut().zip(values) {
                    list.push(value);
                }
            }
        }
    }
    let costs = measured.into_iter().map(|values| {
        let [wall, processor, memory] = values.map(Sample::new);
        Costs {
            wall,
            processor,
            memory,
        }
    });
    Ok(costs.collect())
}

/// A process begins with the most memory that the one had which made it. So that this is little: gives back
/// what is not used, and begins to count anew.
fn forget_peak() -> Result<()> {
    // SAFETY: gives free memory back; nothing points to it.
    unsafe { libc::malloc_trim(0) };
    fs::write("/proc/self/clear_refs", "5").context("cannot reset the peak of memory")
}

/// Wall time, processor time (milliseconds) and memory (megabytes) of one run.
///
/// # Errors
/// If the command fails.
pub fn run(command: &mut Command) -> Result<[f64; 3]> {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {:?}", command.get_program()))?;
    let mut errors = Vec::new();
    if let Some(stream) = &mut child.stderr {
        stream.read_to_end(&mut errors)?;
    }
    let (status, usage) = wait(child.id() as libc::pid_t)?.context("the child is lost")?;
    let wall = start.elapsed().as_secs_f64() * 1e3;
    if status != 0 {
        bail!("{command:?}\n{}", String::from_utf8_lossy(&errors));
    }
    let time = |value: libc::timeval| value.tv_sec as f64 * 1e3 + value.tv_usec as f64 / 1e3;
    let mut processor = time(usage.ru_utime) + time(usage.ru_stime);
    let mut memory = usage.ru_maxrss;
    // What it has left running works on its account, and shall not disturb the next.
    while let Some((_, usage)) = wait(-1)? {
        processor += time(usage.ru_utime) + time(usage.ru_stime);
        memory = memory.max(usage.ru_maxrss);
    }
    Ok([wall, processor, memory as f64 * 1024.0 / 1e6])
}

/// Builds the plugin for clang 19, optimised, beside the programs.
///
/// # Errors
/// If it cannot be built.
pub fn build_plugin() -> Result<()> {
    let built = Command::new("cargo")
        .args(["build", "--quiet", "--release", "--package", "repo-plugin"])
        .current_dir(project_root())
        .status()?;
    if !built.success() {
        bail!("the plugin cannot be built");
    }
    Ok(())
}

/// Makes this process the parent of what its children leave running.
///
/// # Errors
/// If the kernel is too old.
pub fn adopt_orphans() -> Result<()> {
    // SAFETY: a system call without pointers.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(())
}

/// Waits for a child, or with -1 for any; its status as `wait4` has it, and what it used. `None` if there is none.
fn wait(id: libc::pid_t) -> Result<Option<(i32, libc::rusage)>> {
    let mut status = 0;
    // SAFETY: all bits zero are a `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: the two places are ours, and the child is one that nobody has waited for.
        if unsafe { libc::wait4(id, &mut status, 0, &mut usage) } >= 0 {
            return Ok(Some((status, usage)));
        }
        let error = std::io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ECHILD) => return Ok(None),
            Some(libc::EINTR) => {}
            _ => return Err(error.into()),
        }
    }
}
