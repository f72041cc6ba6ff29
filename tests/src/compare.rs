//! The same command by a compiler as it is, and through `repo-cc`.
//!
//! Both run in a directory of the same name with the same files, one after the
//! other, so that nothing that they print or write may differ: not even debug
//! information, which holds the directory's name. What does differ is what the
//! test says: which outputs are tickets.

use crate::binaries::Binaries;
use crate::build::{Family, Toolchain};
use crate::process::{Run, run, run_with_input};
use crate::programs::Language;
use crate::scratch::Scratch;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// What `repo-cc` asks of a compiler besides what the build asks.
pub const SECTION_OPTIONS: [&str; 2] = ["-ffunction-sections", "-fdata-sections"];

/// A file as a command left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its bytes; for a symbolic link, where it points.
    pub bytes: Vec<u8>,
    /// Its permissions.
    pub mode: u32,
    /// Whether it is a symbolic link.
    pub link: bool,
}

/// What a command did.
#[derive(Debug)]
pub struct Outcome {
    /// What it printed and how it ended.
    pub run: Run,
    /// The files of its directory afterwards, by relative path.
    pub files: BTreeMap<String, File>,
}

/// A directory with sources for which commands are compared.
#[derive(Debug)]
pub struct Comparison {
    /// Where everything is.
    pub scratch: Scratch,
    plain: Toolchain,
    through: Toolchain,
    language: Language,
    sources: Vec<(String, Vec<u8>)>,
    input: Vec<u8>,
}

impl Comparison {
    /// For a compiler of `family`; `None` where the machine has none.
    pub fn new(family: Family, language: Language) -> Option<Comparison> {
        let plain = Toolchain::plain(family)?;
        let through = plain.through_repository(Binaries::get());
        Some(Comparison {
            scratch: Scratch::new(),
            plain,
            through,
            language,
            sources: Vec::new(),
            input: Vec::new(),
        })
    }

    /// With a source in the directory.
    #[must_use]
    pub fn source(mut self, name: &str, text: impl AsRef<[u8]>) -> Comparison {
        self.sources.push((name.into(), text.as_ref().to_vec()));
        self
    }

    /// With this on standard input.
    #[must_use]
    pub fn input(mut self, text: &str) -> Comparison {
        self.input = text.as_bytes().to_vec();
        self
    }

    /// The directory in which the commands run.
    pub fn directory(&self) -> PathBuf {
        self.scratch.join("work")
    }

    /// The directory anew, with nothing but the sources.
    pub fn reset(&self) {
        let directory = self.directory();
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                panic!("{}: {error}", directory.display())
            }
            _ => fs::create_dir(&directory).expect("a directory can be made"),
        }
        for (name, bytes) in &self.sources {
            self.scratch.write(Path::new("work").join(name), bytes);
        }
    }

    fn run(&self, toolchain: &Toolchain, arguments: &[&str]) -> Outcome {
        let mut command = toolchain.command(&self.scratch, self.language);
        command.current_dir(self.directory()).args(arguments);
        let run = if self.input.is_empty() {
            run(&mut command)
        } else {
            run_with_input(&mut command, &self.input)
        };
        Outcome {
            run,
            files: files_in(&self.directory()),
        }
    }

    /// What the compiler does as it is.
    pub fn plain(&self, arguments: &[&str]) -> Outcome {
        self.reset();
        self.run(&self.plain, arguments)
    }

    /// What it does through `repo-cc`.
    pub fn through(&self, arguments: &[&str]) -> Outcome {
        self.reset();
        self.run(&self.through, arguments)
    }

    /// Further commands in the directory as the last one left it, through `repo-cc`.
    pub fn then(&self, arguments: &[&str]) -> Outcome {
        self.run(&self.through, arguments)
    }

    /// Further commands, by the compiler as it is.
    pub fn then_plain(&self, arguments: &[&str]) -> Outcome {
        self.run(&self.plain, arguments)
    }

    /// A further command by a shell script that has the compiler through
    /// `repo-cc` and the arguments as `"$@"`.
    pub fn in_shell(&self, script: &str, arguments: &[&str]) -> Outcome {
        let mut words = vec!["/bin/sh".into(), "-c".into(), script.into(), "sh".into()];
        words.extend_from_slice(self.through.driver(self.language));
        let shell = Toolchain {
            cc: words.clone(),
            cxx: words,
        };
        self.run(&shell, arguments)
    }

    /// Compares a command that leaves tickets. Everything must be as the
    /// compiler does it with [`SECTION_OPTIONS`], but for `tickets`, which must be
    /// exactly those objects that are tickets now.
    #[track_caller]
    pub fn compile(&self, arguments: &[&str], tickets: &[&str]) -> Outcome {
        let with_sections: Vec<&str> = SECTION_OPTIONS.iter().chain(arguments).copied().collect();
        let plain = self.plain(&with_sections);
        let through = self.through(arguments);
        assert_same(&plain, &through, tickets);
        through
    }

    /// Compares a command on whose outputs nothing may differ.
    #[track_caller]
    pub fn pass(&self, arguments: &[&str]) -> Outcome {
        let plain = self.plain(arguments);
        let through = self.through(arguments);
        assert_same(&plain, &through, &[]);
        through
    }
}

/// Asserts that two commands did the same, but for the files that are tickets.
#[track_caller]
pub fn assert_same(plain: &Outcome, through: &Outcome, tickets: &[&str]) {
    let both = || format!("{}\n{}", plain.run.report(), through.run.report());
    assert_eq!(plain.run.status, through.run.status, "{}", both());
    assert!(plain.run.stdout == through.run.stdout, "{}", both());
    assert!(plain.run.stderr == through.run.stderr, "{}", both());
    let names = |outcome: &Outcome| outcome.files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(plain), names(through), "{}", both());
    for (name, file) in &through.files {
        let expected = &plain.files[name];
        assert_eq!(expected.mode, file.mode, "mode of {name}\n{}", both());
        assert_eq!(expected.link, file.link, "{name}\n{}", both());
        let is_ticket = is_ticket(&file.bytes);
        assert_eq!(
            tickets.contains(&name.as_str()),
            is_ticket,
            "is {name} a ticket?\n{}",
            both()
        );
        assert!(
            is_ticket || expected.bytes == file.bytes,
            "{name} differs\n{}",
            both()
        );
    }
    for name in tickets {
        assert!(through.files.contains_key(*name), "no {name}\n{}", both());
    }
}

/// Whether these are the bytes of a ticket: a relocatable ELF object with a
/// note of owner `REPO`.
pub fn is_ticket(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
        && bytes.get(16..18) == Some(&[1, 0])
        && bytes.windows(5).any(|window| window == b"REPO\0")
}

/// Whether the file is a ticket.
///
/// # Panics
/// If it cannot be read.
#[track_caller]
pub fn is_ticket_file(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    match fs::read(path) {
        Ok(bytes) => is_ticket(&bytes),
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

/// The files below a directory, by relative path.
fn files_in(directory: &Path) -> BTreeMap<String, File> {
    let mut files = BTreeMap::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(current) = todo.pop() {
        for entry in fs::read_dir(&current).expect("a directory can be read") {
            let path = entry.expect("a directory can be read").path();
            let metadata = fs::symlink_metadata(&path).expect("a file that was just seen");
            if metadata.is_dir() {
                todo.push(path);
                continue;
            }
            let link = metadata.is_symlink();
            let bytes = if link {
                let target = fs::read_link(&path).expect("a link can be read");
                target.into_os_string().into_encoded_bytes()
            } else if metadata.is_file() {
                fs::read(&path).expect("a file can be read")
            } else {
                Vec::new()
            };
            let name = path
                .strip_prefix(directory)
                .expect("found in it")
                .to_string_lossy()
                .into_owned();
            let mode = metadata.permissions().mode();
            files.insert(name, File { bytes, mode, link });
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(files: &[(&str, &[u8])]) -> Outcome {
        let file = |bytes: &[u8]| File {
            bytes: bytes.to_vec(),
            mode: 0o644,
            link: false,
        };
        Outcome {
            run: run(&mut std::process::Command::new("true")),
            files: files
                .iter()
                .map(|(name, bytes)| ((*name).to_owned(), file(bytes)))
                .collect(),
        }
    }

    #[test]
    fn the_same_is_the_same() {
        let ticket = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0 REPO\0";
        assert!(is_ticket(ticket));
        let plain = outcome(&[("a.d", b"x"), ("a.o", b"object")]);
        let through = outcome(&[("a.d", b"x"), ("a.o", ticket)]);
        assert_same(&plain, &through, &["a.o"]);
        let differs = |plain: &Outcome, through: &Outcome, tickets: &[&str]| {
            std::panic::catch_unwind(|| assert_same(plain, through, tickets)).is_err()
        };
        assert!(differs(&plain, &through, &[]));
        assert!(differs(&plain, &plain, &["a.o"]));
        assert!(differs(&plain, &outcome(&[("a.d", b"x")]), &["a.o"]));
        let other = outcome(&[("a.d", b"y"), ("a.o", ticket)]);
        assert!(differs(&plain, &other, &["a.o"]));
    }
}
