//! `--print-timing`: how long each phase took, and by how many threads.

use crate::args::{Args, TimingForm};
use crate::messages::progress::{Position, Progress};
use crate::messages::stdio;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Collects the time of each phase, and tells the progress display of it.
pub struct Timing {
    wanted: Option<TimingForm>,
    start: Instant,
    last: Instant,
    phases: Vec<(&'static str, Duration)>,
    progress: Progress,
}

impl Timing {
    /// Starts the clock.
    pub fn new(args: &Args) -> Timing {
        let now = Instant::now();
        Timing {
            wanted: args.print_timing,
            start: now,
            last: now,
            phases: Vec::new(),
            progress: Progress::new(args.progress),
        }
    }

    /// A phase is over.
    pub fn phase(&mut self, name: &'static str) {
        self.progress.phase_ended(name);
        if self.wanted.is_some() {
            let now = Instant::now();
            self.phases.push((name, now - self.last));
            self.last = now;
        }
    }

    /// For phases that say how far they are.
    pub fn position(&self) -> &Position {
        self.progress.position()
    }

    /// Time since the start.
    pub fn total(&self) -> Duration {
        self.start.elapsed()
    }

    /// `--stats`: the time and the sizes, on standard error, or in a file as GNU ld (from 2.46) names it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_stats(
        &self,
        file: Option<&Path>,
        files: usize,
        output_size: u64,
    ) -> io::Result<()> {
        let text = format!(
            "repo-ld: total time in link: {:.6}\nrepo-ld: files read: {files}\nrepo-ld: size of the output: {output_size}\n",
            self.start.elapsed().as_secs_f64()
        );
        match file.map(|file| file.as_os_str().as_bytes()) {
            None => stdio::print_error(format_args!("{text}")),
            Some(b"-") => stdio::print(format_args!("{text}")),
            Some([b'+', name @ ..]) => File::options()
                .append(true)
                .create(true)
                .open(OsStr::from_bytes(name))?
                .write_all(text.as_bytes())?,
            Some(name) => fs::write(OsStr::from_bytes(name), text)?,
        }
        Ok(())
    }

    /// Ends the progress display, and prints all phases on standard error.
    pub fn finish(&mut self) {
        self.progress.finish();
        let threads = rayon::current_num_threads();
        match self.wanted {
            None => {}
            Some(TimingForm::Table) => stdio::print_error(format_args!(
                "{}",
                table(&self.phases, self.total(), threads)
            )),
            Some(TimingForm::Json) => crate::tell!("{}", json(&self.phases, self.total(), threads)),
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn table(phases: &[(&str, Duration)], total: Duration, threads: usize) -> String {
    let mut text = String::new();
    let share = |time: Duration| 100.0 * time.as_secs_f64() / total.as_secs_f64().max(1e-9);
    let plural = if threads == 1 { "" } else { "s" };
    let last = format!("total, {threads} thread{plural}");
    for (name, time) in phases.iter().copied().chain([(&*last, total)]) {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{:>9.3} ms {:>5.1} %  {name}",
            milliseconds(time),
            share(time)
        );
    }
    text
}

/// One line: `{"phases":[{"name":"open inputs","ms":1.234},…],"total_ms":5.678,"threads":2}`. Names of phases need no quoting.
fn json(phases: &[(&str, Duration)], total: Duration, threads: usize) -> String {
    let phases: Vec<String> = phases
        .iter()
        .map(|(name, time)| format!(r#"{{"name":"{name}","ms":{:.3}}}"#, milliseconds(*time)))
        .collect();
    format!(
        r#"{{"phases":[{}],"total_ms":{:.3},"threads":{threads}}}"#,
        phases.join(","),
        milliseconds(total)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_people_and_for_programs() {
        let phases = [
            ("one", Duration::from_micros(1500)),
            ("two", Duration::from_millis(1)),
        ];
        let total = Duration::from_millis(3);
        assert_eq!(
            table(&phases, total, 1),
            "    1.500 ms  50.0 %  one\n    1.000 ms  33.3 %  two\n    3.000 ms 100.0 %  total, 1 thread\n"
        );
        assert_eq!(
            json(&phases, total, 2),
            r#"{"phases":[{"name":"one","ms":1.500},{"name":"two","ms":1.000}],"total_ms":3.000,"threads":2}"#
        );
    }
}
