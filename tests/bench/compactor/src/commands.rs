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

fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times
        .get(times.len() / 2)
        .map_or(f64::NAN, Duration::as_secs_f64)
}
