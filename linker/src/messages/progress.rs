//! The progress display: the phase of the link, and a bar over the bytes written.
//!
//! It is for links that take longer than a second, on a terminal. Most links are over
//! in milliseconds and must not pay for it: whether there is a terminal is asked when a
//! link has gone on for [`PATIENCE`], and only then is there a thread that draws. The
//! thread sleeps on a channel, so that it ends as soon as the link does.

use crate::args::ProgressMode;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Links that are shorter do not even ask for a terminal.
const PATIENCE: Duration = Duration::from_millis(30);
/// Links that are shorter show nothing.
const DELAY: Duration = Duration::from_secs(1);
/// Time between two pictures.
const REFRESH: Duration = Duration::from_millis(100);

/// What goes on when a phase has ended, by that phase's name.
const NEXT: &[(&str, &str)] = &[
    ("", "opening inputs"),
    ("open inputs", "optimising"),
    ("optimise", "reading names"),
    ("intern names", "extracting archive members"),
    ("extract members", "numbering sections"),
    ("number sections", "resolving symbols"),
    ("resolve symbols", "binding symbols"),
    ("bind symbols", "reading frames"),
    ("read frames", "tracing and scanning"),
    ("trace and scan", "allocating slots"),
    ("allocate slots", "merging pieces"),
    ("merge pieces", "folding identical code"),
    ("fold identical code", "laying out frames"),
    ("lay out frames", "counting symbols"),
    ("count symbols", "laying out"),
    ("lay out", "computing addresses"),
    ("compute addresses", "creating the output"),
    ("create output", WRITING),
    ("write", "finishing the output"),
];
const WRITING: &str = "writing";

/// How far the link is. Phases say it, the display shows it.
#[derive(Debug, Default)]
pub struct Position {
    /// Index in [`NEXT`].
    phase: AtomicUsize,
    /// Bytes of the output that are written.
    written: AtomicU64,
    /// Bytes of the output.
    total: AtomicU64,
}

impl Position {
    /// Says how large the output will be, in bytes.
    pub fn set_total(&self, bytes: u64) {
        self.total.store(bytes, Relaxed);
    }

    /// Says that so many more bytes of the output are written.
    pub fn add_written(&self, bytes: u64) {
        self.written.fetch_add(bytes, Relaxed);
    }
}

/// The display of one link.
pub struct Progress {
    start: Instant,
    position: Arc<Position>,
    drawing: Drawing,
}

enum Drawing {
    /// Not decided yet.
    Undecided,
    /// There is nothing to be shown.
    Off,
    /// A line for each phase: standard error is no terminal, and the display was asked for.
    Lines,
    /// A thread draws. Closing the channel ends it.
    Bar(Sender<()>, JoinHandle<()>),
}

impl Progress {
    /// A display for a link that begins now.
    pub fn new(mode: ProgressMode) -> Progress {
        let mut progress = Progress {
            start: Instant::now(),
            position: Arc::default(),
            drawing: match mode {
                ProgressMode::Auto => Drawing::Undecided,
                ProgressMode::Never => Drawing::Off,
                ProgressMode::Always => Drawing::Lines,
            },
        };
        if mode == ProgressMode::Always && std::io::stderr().is_terminal() {
            progress.draw(Duration::ZERO);
        }
        progress.say();
        progress
    }

    /// For the phases that say more than that they have ended.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// A phase has ended.
    pub fn phase_ended(&mut self, name: &str) {
        match self.drawing {
            Drawing::Off => return,
            Drawing::Undecided => {
                let elapsed = self.start.elapsed();
                if elapsed < PATIENCE {
                    return;
                }
                if !std::io::stderr().is_terminal() {
                    self.drawing = Drawing::Off;
                    return;
                }
                self.draw(DELAY.saturating_sub(elapsed));
            }
            Drawing::Lines | Drawing::Bar(..) => {}
        }
        if let Some(next) = NEXT.iter().position(|(ended, _)| *ended == name) {
            self.position.phase.store(next, Relaxed);
            self.say();
        }
    }

    /// Takes the display away: before messages, and at the end.
    pub fn finish(&mut self) {
        if let Drawing::Bar(stop, thread) = std::mem::replace(&mut self.drawing, Drawing::Off) {
            drop(stop);
            // It has panicked at worst, and then there is nothing to be taken away.
            let _ = thread.join();
        }
    }

    fn say(&self) {
        if let Drawing::Lines = self.drawing {
            crate::tell!("repo-ld: {}", doing(&self.position));
        }
    }

    fn draw(&mut self, delay: Duration) {
        let (stop, stopped) = mpsc::channel();
        let position = Arc::clone(&self.position);
        let thread = std::thread::Builder::new()
            .name("progress".into())
            .spawn(move || draw(&position, &stopped, delay));
        self.drawing = match thread {
            Ok(thread) => Drawing::Bar(stop, thread),
            // A link without a display is as good.
            Err(_) => Drawing::Off,
        };
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

fn doing(position: &Position) -> &'static str {
    NEXT.get(position.phase.load(Relaxed))
        .map_or("linking", |(_, doing)| doing)
}

/// Draws until the channel is closed.
fn draw(position: &Position, stopped: &Receiver<()>, delay: Duration) {
    let goes_on = |time| matches!(stopped.recv_timeout(time), Err(RecvTimeoutError::Timeout));
    if !delay.is_zero() && !goes_on(delay) {
        return;
    }
    let plain = style("repo-ld: {msg}");
    let with_bar = style("repo-ld: {msg} [{wide_bar:.cyan/blue}] {bytes}/{total_bytes}");
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    loop {
        let doing = doing(position);
        if doing == WRITING {
            bar.set_style(with_bar.clone());
            bar.set_length(position.total.load(Relaxed));
            bar.set_position(position.written.load(Relaxed));
        } else {
            bar.set_style(plain.clone());
        }
        bar.set_message(doing);
        bar.tick();
        if !goes_on(REFRESH) {
            break;
        }
    }
    bar.finish_and_clear();
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_right() {
        for template in [
            "repo-ld: {msg}",
            "repo-ld: {msg} [{wide_bar:.cyan/blue}] {bytes}/{total_bytes}",
        ] {
            ProgressStyle::with_template(template).unwrap();
        }
    }

    #[test]
    fn phases_move_the_position() {
        // The display itself is for a terminal; the position is for whatever shows it.
        let mut progress = Progress {
            start: Instant::now(),
            position: Arc::default(),
            drawing: Drawing::Lines,
        };
        assert_eq!(doing(progress.position()), "opening inputs");
        progress.phase_ended("create output");
        assert_eq!(doing(progress.position()), WRITING);
        // A phase that the table does not have changes nothing.
        progress.phase_ended("something new");
        assert_eq!(doing(progress.position()), WRITING);
    }
}
