//! Archivers, called through us: `ar`, `ranlib` and their like.
//!
//! They run as they are, for tickets are objects to them. Afterwards the archive is looked at: if it holds tickets, it is put
//! on record in their repositories, so that `repo-gc` keeps what its members name also when their own files are gone; and
//! the user is told, once for each repository, what is to be done before others are given such an archive.

use super::invocation::Asked;
use super::tool::Tool;
use format_spec::program::Index;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};
use store::engine::OpenOptions;
use store::program::locate::Environment;
use store::program::{Repository, waiting};
use tickets::Ticket;
use tickets::file::{TicketFile, look_at};

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
