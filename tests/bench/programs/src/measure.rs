//! Interleaved runs, and what is made of them.

use anyhow::{Context as _, Result, bail};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Wall times of one contestant, in milliseconds, sorted.
#[derive(Clone, Debug)]
pub struct Times(Vec<f64>);

impl Times {
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

/// Runs every command `runs` times, in turns, after one run of each that does
/// not count; returns their times in the same order.
///
/// # Errors
/// If a command fails.
pub fn interleaved(commands: &mut [Command], runs: usize) -> Result<Vec<Times>> {
    let mut times = vec![Vec::new(); commands.len()];
    for round in 0..=runs {
        for (command, times) in commands.iter_mut().zip(&mut times) {
            let start = Instant::now();
            let output = command
                .stdin(Stdio::null())
                .output()
                .with_context(|| format!("cannot run {:?}", command.get_program()))?;
            let time = start.elapsed().as_secs_f64() * 1e3;
            if !output.status.success() {
                bail!("{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
            }
            if round > 0 {
                times.push(time);
            }
        }
    }
    let sorted = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        Times(times)
    };
    Ok(times.into_iter().map(sorted).collect())
}
