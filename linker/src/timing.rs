//! `--print-timing`: how long each phase took.

use std::time::{Duration, Instant};

/// Collects the time of each phase.
pub struct Timing {
    wanted: bool,
    start: Instant,
    last: Instant,
    phases: Vec<(&'static str, Duration)>,
}

impl Timing {
    /// Starts the clock.
    pub fn new(wanted: bool) -> Timing {
        let now = Instant::now();
        Timing {
            wanted,
            start: now,
            last: now,
            phases: Vec::new(),
        }
    }

    /// A phase is over.
    pub fn phase(&mut self, name: &'static str) {
        if self.wanted {
            let now = Instant::now();
            self.phases.push((name, now - self.last));
            self.last = now;
        }
    }

    /// Time since the start.
    pub fn total(&self) -> Duration {
        self.start.elapsed()
    }

    /// `--stats`: the time and the sizes, on standard error.
    pub fn print_stats(&self, files: usize, output_size: u64) {
        eprintln!(
            "repo-ld: total time in link: {:.6}",
            self.start.elapsed().as_secs_f64()
        );
        eprintln!("repo-ld: files read: {files}");
        eprintln!("repo-ld: size of the output: {output_size}");
    }

    /// Prints all phases on standard error.
    pub fn print(&self) {
        if !self.wanted {
            return;
        }
        for (name, time) in &self.phases {
            eprintln!("{:>9.3} ms  {name}", time.as_secs_f64() * 1e3);
        }
        eprintln!(
            "{:>9.3} ms  total",
            self.start.elapsed().as_secs_f64() * 1e3
        );
    }
}
