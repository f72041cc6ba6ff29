//! A progress bar on standard error, if that is a terminal and it takes longer than a second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What is shorter shows nothing.
const DELAY: Duration = Duration::from_secs(1);

/// How far something is that may last.
pub struct Progress {
    bar: ProgressBar,
    start: Instant,
    shown: AtomicBool,
}

impl Progress {
    /// At the beginning of `total` steps.
    pub fn new(what: &'static str, total: u64) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {percent}% {eta}") {
            bar.set_style(style);
        }
        bar.set_message(what);
        Progress {
            bar,
            start: Instant::now(),
            shown: AtomicBool::new(false),
        }
    }

    /// One step is done.
    pub fn step(&self) {
        self.bar.inc(1);
        if !self.shown.load(Relaxed)
            && self.start.elapsed() >= DELAY
            && !self.shown.swap(true, Relaxed)
        {
            // indicatif draws nothing where standard error is no terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// All is done: takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
