//! What is printed, but for diagnostics: to standard output the lists that options ask for (`--trace`,
//! `--print-memory-usage`, …), help and versions; to standard error what GNU ld tells there.
//!
//! A reader that has seen enough, as `head`, closes the pipe: that is no reason for a link to fail, and still less to
//! panic, as `println!` does. Where the text cannot be written for another reason the user is told, once.

use std::fmt::Arguments;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Writes, as `println!` does.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {
        $crate::messages::stdio::print(format_args!("{}\n", format_args!($($text)*)))
    };
}

/// Writes to standard error, as `eprintln!` does. Who cannot be told cannot be told that either: that is no reason to panic.
#[macro_export]
macro_rules! tell {
    ($($text:tt)*) => {
        $crate::messages::stdio::print_error(format_args!("{}\n", format_args!($($text)*)))
    };
}

/// Writes to standard error, if that is possible.
pub fn print_error(text: Arguments<'_>) {
    // At once, for lines of several processes in one log.
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}

/// Writes. What fails is told once and does not end the link: the output is another thing.
pub fn print(text: Arguments<'_>) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if let Err(why) = try_print(text)
        && !TOLD.swap(true, Relaxed)
    {
        tell!("repo-ld: warning: cannot write to standard output: {why}");
    }
}

/// Writes at once. A closed pipe is no failure.
///
/// # Errors
/// If it cannot be written.
pub fn try_print(text: Arguments<'_>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Err(why) if why.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
