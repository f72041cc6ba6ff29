//! Archivers, called through us: `ar`, `ranlib` and their like.
//!
//! They run as they are, for tickets are objects to them. Afterwards the archive is looked at: if it holds tickets, it is put
//! on record in their repositories, so that `repo-gc` keeps what its members name also when their own files are gone; and
//! the user is told, once for each repository, what is to be done before others are given such an archive.

use super::compiler::is_x86_64_elf;
use super::invocation::Asked;
use super::response;
use format_spec::program::Index;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use store::engine::OpenOptions;
use store::program::locate::Environment;
use store::program::{Repository, waiting};
use tickets::Ticket;
use tickets::file::{TicketFile, look_at};

/// What a name says of a program that has to do with archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `ar`.
    Archiver,
    /// `ranlib`.
    Indexer,
    /// `gcc-nm`, which belongs to them.
    Lister,
}

impl Tool {
    /// Reads the name: `ar` and `ranlib`, plain or of gcc, LLVM or a triple for x86-64, and `gcc-nm`; all with a version or
    /// without.
    pub fn parse(program: &OsStr) -> Option<Tool> {
        let name = Path::new(program).file_name()?.to_str()?;
        let is_version = |word: &str| word.bytes().all(|c| c.is_ascii_digit() || c == b'.');
        let stem = match name.rsplit_once('-') {
            Some((stem, version)) if is_version(version) => stem,
            _ => name,
        };
        let (prefix, tool) = match stem.rsplit_once('-') {
            Some((prefix, tool)) => (Some(prefix), tool),
            None => (None, stem),
        };
        let (triple, of) = match prefix.map(|prefix| (prefix, prefix.rsplit_once('-'))) {
            None => (None, None),
            Some((_, Some((triple, of @ ("gcc" | "llvm"))))) => (Some(triple), Some(of)),
            Some((of @ ("gcc" | "llvm"), _)) => (None, Some(of)),
            Some((triple, _)) => (Some(triple), None),
        };
        if triple.is_some_and(|triple| !triple.starts_with("x86_64") || !is_x86_64_elf(triple)) {
            return None;
        }
        match (tool, of) {
            ("ar", _) => Some(Tool::Archiver),
            ("ranlib", _) => Some(Tool::Indexer),
            ("nm", Some("gcc")) => Some(Tool::Lister),
            _ => None,
        }
    }

    /// The archives that a call with these arguments changes, as far as that can be told.
    pub fn changes(self, args: &[OsString]) -> Vec<PathBuf> {
        let Ok(args) = response::expand(args) else {
            return Vec::new();
        };
        match self {
            Tool::Archiver => changed_by_ar(&args).into_iter().collect(),
            Tool::Indexer => args
                .iter()
                .filter(|word| !word.as_bytes().starts_with(b"-"))
                .map(PathBuf::from)
                .collect(),
            Tool::Lister => Vec::new(),
        }
    }
}

/// The archive of a call of `ar` that changes it: `ar [--option]... [-]operations [relative-to] [count] archive [file]...`.
fn changed_by_ar(args: &[OsString]) -> Option<PathBuf> {
    let mut operations: Vec<u8> = Vec::new();
    let mut words = args.iter();
    let first = loop {
        let word = words.next()?;
        match word.as_bytes() {
            b"--plugin" | b"--target" | b"--output" | b"--record-libdeps" => {
                words.next();
            }
            [b'-', b'-', ..] => {}
            [b'-', b'X', ..] => {}
            [b'-', letters @ ..] => operations.extend_from_slice(letters),
            letters if operations.is_empty() => operations.extend_from_slice(letters),
            _ => break word,
        }
    };
    let has = |letters: &[u8]| operations.iter().any(|letter| letters.contains(letter));
    if has(b"Mptx") || !has(b"rqmds") {
        return None;
    }
    // Before the archive there may stand the member beside which others are put, and a count.
    let before = usize::from(has(b"abi")) + usize::from(has(b"N"));
    let archive = [first].into_iter().chain(words).nth(before)?;
    Some(archive.into())
}

/// After `tool` has changed the archive at `path`: puts it on record, and tells the user what is to be known of it.
pub fn look_after(tool: Tool, path: &Path, asked: &Asked<'_>) {
    let Ok(path) = std::fs::canonicalize(path) else {
        return;
    };
    let TicketFile::Archive { tickets, .. } = look_at(&path) else {
        return;
    };
    if is_probe(&path) {
        return;
    }
    let environment = Environment::current();
    let mut seen = HashSet::new();
    for ticket in &tickets {
        if !seen.insert((ticket.uuid, &ticket.repository)) {
            continue;
        }
        let options = OpenOptions {
            patience: Some(waiting::patience(|line| linker::tell!("repo-cc: {line}"))),
            ..OpenOptions::default()
        };
        let shown = path.display();
        let opened = ticket.open_repository(asked.repo, &path, &environment, &options);
        let repository = match opened {
            Ok(repository) => repository,
            Err(error) => {
                let log = asked.log;
                log.note(format_args!("{shown}: not put on record: {error}"));
                continue;
            }
        };
        let is_told = is_to_be_told(tool, &path, &repository);
        match repository.record_file(&path, &ticket.compilation) {
            Ok(true) if is_told && tickets.iter().any(|one| is_bare(one, ticket)) => {
                tell(tool, &path, &repository, asked);
            }
            Ok(_) => asked.log.note(format_args!("{shown}: on record")),
            Err(error) => asked
                .log
                .note(format_args!("{shown}: not put on record: {error}")),
        }
    }
}

/// Whether `one` is no object, and of the same repository as `other`.
fn is_bare(one: &Ticket, other: &Ticket) -> bool {
    !one.is_fat && one.uuid == other.uuid
}

/// Whether an archive is one of those by which configure scripts and the like try what a machine has.
fn is_probe(path: &Path) -> bool {
    let is_probes = |part: Component<'_>| matches!(part, Component::Normal(name) if name == "CMakeFiles" || name == "meson-private");
    let is_conftest = |name: &OsStr| name.to_string_lossy().contains("conftest");
    path.components().any(is_probes) || path.file_name().is_some_and(is_conftest)
}

/// Whether the user does not know yet what is to be said of archives: this is the first that is on record. One that `ranlib` is
/// run on, but that no `ar` has made under this path, was installed: of these, the first in its directory.
fn is_to_be_told(tool: Tool, path: &Path, repository: &Repository) -> bool {
    let Ok(programs) = repository.programs() else {
        return false;
    };
    let directory = path.parent();
    let is_known = |other: &Path| match tool {
        Tool::Indexer => other == path || other.parent() == directory,
        _ => true,
    };
    !programs.records(Index::Tickets).any(|record| {
        let record = record.and_then(|record| programs.ticket(&record));
        record.is_ok_and(|ticket| {
            let other = Path::new(OsStr::from_bytes(ticket.path));
            other.extension() == Some(OsStr::new("a")) && is_known(other)
        })
    })
}

fn tell(tool: Tool, path: &Path, repository: &Repository, asked: &Asked<'_>) {
    let shown = path.display();
    let directory = path.parent().unwrap_or(Path::new("/")).display();
    let repository = repository.path().display();
    asked.log.warn(match tool {
        Tool::Indexer => format!(
            "{shown} holds tickets, which are of no use without {repository}; if it was installed for others: \
             repo-dump --materialize {directory} --in-place"
        ),
        _ => format!(
            "{shown} holds tickets, which are of no use without {repository}; before it is installed for others: \
             compile with REPO_CC_FAT=1, or use repo-dump --materialize DIRECTORY --in-place on what was installed \
             (this is said once)"
        ),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let tool = |name: &str| Tool::parse(OsStr::new(name));
        for name in [
            "ar",
            "/usr/bin/ar",
            "gcc-ar",
            "gcc-ar-12",
            "llvm-ar-19",
            "x86_64-linux-gnu-ar",
        ] {
            assert_eq!(tool(name), Some(Tool::Archiver), "{name}");
        }
        for name in ["ranlib", "gcc-ranlib", "x86_64-linux-gnu-gcc-ranlib-12"] {
            assert_eq!(tool(name), Some(Tool::Indexer), "{name}");
        }
        assert_eq!(tool("gcc-nm-12"), Some(Tool::Lister));
        for name in [
            "tar",
            "nm",
            "gcc",
            "repo-ar",
            "aarch64-linux-gnu-ar",
            "arm-gcc-ar",
            "",
            "far-2",
        ] {
            assert_eq!(tool(name), None, "{name}");
        }
    }

    #[test]
    fn archives_that_are_changed() {
        let changes = |tool: Tool, line: &str| {
            let words: Vec<_> = line.split_whitespace().map(OsString::from).collect();
            let paths = tool.changes(&words).into_iter();
            paths
                .map(|path| path.display().to_string())
                .collect::<Vec<_>>()
                .join(" ")
        };
        for line in [
            "rcs x.a a.o b.o",
            "-rcs x.a a.o",
            "qc x.a a.o",
            "s x.a",
            "-r -c x.a a.o",
            "--plugin p.so crs x.a a.o",
            "--plugin=p.so -X64 rcsD x.a",
            "ra before.o x.a a.o",
            "dN 2 x.a a.o",
        ] {
            assert_eq!(changes(Tool::Archiver, line), "x.a", "{line}");
        }
        for line in ["t x.a", "x x.a", "-p x.a a.o", "-M", "--version", "rcs", ""] {
            assert_eq!(changes(Tool::Archiver, line), "", "{line}");
        }
        assert_eq!(changes(Tool::Indexer, "-D x.a"), "x.a");
        assert_eq!(changes(Tool::Lister, "x.a"), "");
    }

    #[test]
    fn probes() {
        for path in [
            "/b/CMakeFiles/_CMakeLTOTest-C/bin/libfoo.a",
            "/b/libconftest.a",
            "/b/meson-private/x.a",
        ] {
            assert!(is_probe(Path::new(path)), "{path}");
        }
        assert!(!is_probe(Path::new("/b/lib/libz.a")));
    }
}
