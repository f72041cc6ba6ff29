//! Commands before and after a compaction, and beside one: real links and builds, which are given.

use anyhow::{Context, Result, ensure};
use rustix::fs::Advice;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A command, and the repository that it uses.
pub struct Measured {
    /// For the shell.
    pub command: String,
    /// The repository.
    pub repository: PathBuf,
    /// The program `repo-gc`.
    pub gc: PathBuf,
    /// How often it is run each way.
    pub times: u32,
}

impl Measured {
    /// Runs the command with nothing of the repository in memory, and with all of it, before and after a compaction.
    ///
    /// # Errors
    /// If something fails.
    pub fn links(&self) -> Result<()> {
        let mut medians = Vec::new();
        for when in ["before", "after"] {
            let (mut cold, mut warm) = (Vec::new(), Vec::new());
            for _ in 0..self.times {
                forget(&self.repository)?;
                cold.push(self.run()?);
                warm.push(self.run()?);
            }
            let found = [median(&mut cold), median(&mut warm)];
            println!(
                "{when} the compaction: {:.3} s cold, {:.3} s warm (medians of {})",
                found[0], found[1], self.times
            );
            medians.push(found);
            if when == "before" {
                let mut gc = self.compaction(&["--grace", "0"]);
                ensure!(gc.status()?.success(), "repo-gc failed");
            }
        }
        if let [before, after] = medians[..] {
            println!(
                "after / before: {:.2} cold, {:.2} warm",
                after[0] / before[0],
                after[1] / before[1]
            );
        }
        Ok(())
    }

    /// Runs the command by itself and beside `repo-gc --idle`, which begins anew as often as it ends, in turns.
    ///
    /// # Errors
    /// If something fails.
    pub fn beside(&self) -> Result<()> {
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..self.times {
            alone.push(self.run()?);
            let mut gc = self.compaction(&["--idle", "--grace", "0"]).spawn()?;
            beside.push(self.run()?);
            // It may have ended.
            let _ = gc.kill();
            gc.wait()?;
        }
        let (alone, beside) = (median(&mut alone), median(&mut beside));
        println!(
            "{alone:.3} s alone, {beside:.3} s beside repo-gc --idle: {:.3} (medians of {})",
            beside / alone,
            self.times
        );
        Ok(())
    }

    /// Starts `repo-gc --idle` on what it takes for a machine with nothing to do, as often as asked; says how long it goes on when there is something.
    ///
    /// # Errors
    /// If something fails.
    pub fn stops(&self) -> Result<()> {
        let proc = tempfile::tempdir()?;
        let runs = |tasks: u32| -> Result<()> {
            let (new, stat) = (proc.path().join("new"), proc.path().join("stat"));
            std::fs::write(&new, format!("procs_running {tasks}\nprocs_blocked 0\n"))?;
            Ok(std::fs::rename(new, stat)?)
        };
        let mut took = Vec::new();
        let mut ended = 0;
        for number in 0..self.times {
            runs(1)?;
            let words = format!("--proc={}", proc.path().display());
            let mut gc = self
                .compaction(&["--idle", "--grace", "0", &words])
                .spawn()?;
            // It begins after two seconds.
            for is_to_be_stopped in [true, false] {
                while state_of_child(gc.id())
                    .is_none_or(|(state, _)| (state == 'T') != is_to_be_stopped)
                {
                    ensure!(gc.try_wait()?.is_none(), "repo-gc has ended");
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            let some_time = Duration::from_millis(u64::from(number) * 37 % 500);
            std::thread::sleep(some_time);
            runs(64)?;
            let begun = Instant::now();
            let stopped = loop {
                match state_of_child(gc.id()) {
                    Some(('T', _)) => break true,
                    Some(_) if gc.try_wait()?.is_none() => {}
                    _ => break false,
                }
                std::thread::sleep(Duration::from_micros(200));
            };
            match stopped {
                true => took.push(begun.elapsed()),
                false => ended += 1,
            }
            let _ = gc.kill();
            gc.wait()?;
        }
        let middle = median(&mut took);
        let longest = took.last().map_or(f64::NAN, Duration::as_secs_f64);
        println!(
            "stopped {} times, after {:.1} ms (median) and {:.1} ms (longest); had ended before {ended} times",
            took.len(),
            middle * 1e3,
            longest * 1e3
        );
        Ok(())
    }

    fn compaction(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.gc);
        command
            .args(words)
            .arg("--repo")
            .arg(&self.repository)
            .stdout(Stdio::null());
        command
    }

    fn run(&self) -> Result<Duration> {
        let begun = Instant::now();
        let status = Command::new("sh").arg("-c").arg(&self.command).status()?;
        ensure!(status.success(), "{}: {status}", self.command);
        Ok(begun.elapsed())
    }
}

/// Has the kernel forget what it has in memory of a file, as far as nobody has it mapped.
fn forget(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    // What is not on the disk is not forgotten.
    file.sync_all()?;
    Ok(rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?)
}

/// The state (proc(5)) and the id of the process that works for a `repo-gc --idle`.
fn state_of_child(supervisor: u32) -> Option<(char, u32)> {
    let children = format!("/proc/{supervisor}/task/{supervisor}/children");
    let children = std::fs::read_to_string(children).ok()?;
    let id = children.split_whitespace().next()?.parse().ok()?;
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let state = stat.rsplit_once(") ")?.1.chars().next()?;
    Some((state, id))
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times
        .get(times.len() / 2)
        .map_or(f64::NAN, Duration::as_secs_f64)
}
