//! `--remap-inputs=PATTERN=FILE`, `--remap-inputs-file`: another file in the place of an input, as GNU ld (from 2.41) and lld
//! have it, to try out a change without changing a build's command lines.
//!
//! A pattern is compared with an input's whole path as it is opened: as the command line or a script gives it, or for `-l`
//! as it was found. Names without wildcards come before patterns, and of either kind the first. `/dev/null` leaves an input
//! out.

use crate::args::{Args, Remap};
use crate::base::glob::{Glob, has_wildcard};
use crate::messages::diag::Diagnostics;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// Which inputs stand for others.
pub struct Remaps {
    exact: Vec<(Vec<u8>, PathBuf)>,
    patterns: Vec<(Glob, PathBuf)>,
}

impl Remaps {
    /// What the options say. A file that cannot be read, or a line that cannot be understood, is an error.
    pub fn new(args: &Args, diag: &Diagnostics) -> Remaps {
        let mut remaps = Remaps {
            exact: Vec::new(),
            patterns: Vec::new(),
        };
        for remap in &args.remaps {
            match remap {
                Remap::One(text) => {
                    if !remaps.add(text, |byte| byte == b'=') {
                        diag.error(format!(
                            "option '--remap-inputs': expected PATTERN=FILE, found '{}'",
                            String::from_utf8_lossy(text)
                        ));
                    }
                }
                Remap::File(path) => remaps.add_file(path, diag),
            }
        }
        remaps
    }

    fn add_file(&mut self, path: &Path, diag: &Diagnostics) {
        let text = match crate::input::unseekable::read(path) {
            Ok(text) => text,
            Err(why) => {
                let path = path.display();
                return diag.error(format!("--remap-inputs-file: cannot read {path}: {why}"));
            }
        };
        for (line, number) in text.split(|byte| *byte == b'\n').zip(1..) {
            // There is no quoting.
            let line = line.split(|byte| *byte == b'#').next().unwrap_or(line);
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            if !self.add(line, |byte| byte == b'=' || byte.is_ascii_whitespace()) {
                diag.error(format!(
                    "{}:{number}: expected PATTERN=FILE, found '{}'",
                    path.display(),
                    String::from_utf8_lossy(line)
                ));
            }
        }
    }

    /// Adds a pattern and the file behind the separator; says whether both are there.
    fn add(&mut self, text: &[u8], separates: impl Fn(u8) -> bool) -> bool {
        let Some(at) = text.iter().position(|byte| separates(*byte)) else {
            return false;
        };
        let (pattern, mut file) = (&text[..at], text[at + 1..].trim_ascii());
        if text[at] != b'=' {
            // `PATTERN = FILE`.
            file = file.strip_prefix(b"=").unwrap_or(file).trim_ascii();
        }
        if pattern.is_empty() || file.is_empty() {
            return false;
        }
        let file = PathBuf::from(std::ffi::OsString::from_vec(file.to_vec()));
        match has_wildcard(pattern) {
            false => self.exact.push((pattern.to_vec(), file)),
            true => self.patterns.push((Glob::new(pattern), file)),
        }
        true
    }

    /// The file to open for an input; `None` if it is to be left out.
    pub fn apply(&self, path: PathBuf) -> Option<PathBuf> {
        let name = path.as_os_str().as_bytes();
        let exact = self.exact.iter().find(|(known, _)| known == name);
        let found = exact.map(|(_, file)| file).or_else(|| {
            let mut patterns = self.patterns.iter();
            let pattern = patterns.find(|(pattern, _)| pattern.matches(name));
            pattern.map(|(_, file)| file)
        });
        match found {
            None => Some(path),
            Some(file) if file == Path::new("/dev/null") => None,
            Some(file) => Some(file.clone()),
        }
    }
}
