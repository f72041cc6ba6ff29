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
