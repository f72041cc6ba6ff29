//! A progress bar on standard error, if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// How far something is that may last.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// At the beginning of `total` steps.
    pub fn new(what: &'static str, total: u64) -> Progress {
        // indicatif draws on standard error, and nothing where that is no terminal.
        let bar = ProgressBar::new(total);
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {percent}% {eta}") {
            bar.set_style(style);
        }
        bar.set_message(what);
        Progress { bar }
    }

    /// One step is done.
    pub fn step(&self) {
        self.bar.inc(1);
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
