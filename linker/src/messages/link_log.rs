//! The log of links: one line for each, appended to the file that `--log` or
//! `$REPO_LOG` names. It says what was linked and why in this way; `repo-cc` writes its
//! lines to the same file.

use crate::args::Args;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// What a line says.
pub struct Line<'l> {
    /// Linked objects that are tickets.
    pub tickets: usize,
    /// Linked objects that are not.
    pub objects: usize,
    /// Size of the output, bytes.
    pub output_size: u64,
    /// Time for everything, the output's last rename included.
    pub time: Duration,
    /// Why it was not incremental, if it was to be.
    pub full: Option<&'l str>,
    /// What the user may want to know besides.
    pub remark: Option<&'l dyn Display>,
}

/// Appends the line of a link that succeeded. A log that cannot be written does not fail it.
pub fn linked(args: &Args, line: &Line<'_>) {
    let Line {
        tickets,
        objects,
        output_size,
        time,
        full,
        remark,
    } = line;
    let why = full.unwrap_or("no placement to keep");
    let remark = remark.map_or(String::new(), |remark| format!("; {remark}"));
    append(
        args,
        format_args!(
            "full link ({why}): {tickets} tickets, {objects} objects, {output_size} bytes, {:.1} ms{remark}",
            time.as_secs_f64() * 1e3
        ),
    );
}

/// Appends the line of an incremental link: of `linked` objects so many were linked again, and in so many only addresses are others.
pub fn relinked(args: &Args, linked: usize, [again, readdressed]: [usize; 2], time: Duration) {
    let time = time.as_secs_f64() * 1e3;
    let also = match readdressed {
        0 => String::new(),
        count => format!(" and addresses in {count} more"),
    };
    append(
        args,
        format_args!("incremental link: {again} of {linked} objects{also}, {time:.1} ms"),
    );
}

/// Appends why a full link has left nothing for the next one.
pub fn not_kept(args: &Args, why: &str) {
    append(args, format_args!("no state for the next link: {why}"));
}

/// Appends the line of a link that failed.
pub fn failed(args: &Args) {
    append(args, format_args!("failed"));
}

fn append(args: &Args, what: std::fmt::Arguments<'_>) {
    let from_environment = || {
        std::env::var_os("REPO_LOG")
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
    };
    let Some(path) = args.log.clone().or_else(from_environment) else {
        return;
    };
    // One write at the end of the file, so that lines of processes that run at once do not mix.
    let line = format!("repo-ld: {}: {what}\n", args.output.display());
    let written = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    // Who asks for it on the command line looks there afterwards. The environment is for whole builds, whose probes
    // take any word on standard error for a failure.
    if let (Err(why), true) = (written, args.log.is_some()) {
        crate::tell!(
            "repo-ld: warning: cannot write the log {}: {why}",
            path.display()
        );
    }
}
