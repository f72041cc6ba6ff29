//! The targets: what is run on hostile bytes, and what must hold.

mod compiles;
mod link;
mod parsers;
mod program;
mod repository;
mod tickets;

use crate::Random;
use crate::mutate::{archive, elf, line, program as programs, repository as repositories, text};
use std::path::Path;

/// Something that reads untrusted bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Archives: members and the symbol index.
    Archive,
    /// Archives, written anew with other bytes for some members.
    ArchiveWriter,
    /// Command lines.
    Args,
    /// Whole links: options and several files ([`line::Line`]).
    Link,
    /// Objects whose lines have moved, in their debug information.
    MovedLines,
    /// Relocatable objects: split, digested, joined.
    Object,
    /// A repository's records, read in a link of tickets.
    Program,
    /// How a ticket was made: words that are recorded and read back.
    Recipe,
    /// The store's file.
    Repository,
    /// Linker scripts: parsed, expressions evaluated.
    Script,
    /// Shared objects.
    Shared,
    /// Sources, as `repo-cc` reads them.
    Source,
    /// The notes of tickets and fat objects, and how they say that they were made.
    TicketNote,
    /// Version scripts and dynamic lists.
    VersionScript,
}

impl Target {
    /// All of them.
    pub const ALL: [Target; 14] = [
        Target::Archive,
        Target::ArchiveWriter,
        Target::Args,
        Target::Link,
        Target::MovedLines,
        Target::Object,
        Target::Program,
        Target::Recipe,
        Target::Repository,
        Target::Script,
        Target::Shared,
        Target::Source,
        Target::TicketNote,
        Target::VersionScript,
    ];

    /// Its name, which is that of its directory of sound inputs and of its program in `tests/fuzz`.
    pub fn name(self) -> &'static str {
        match self {
            Target::Archive => "archive",
            Target::ArchiveWriter => "archive_writer",
            Target::Args => "args",
            Target::Link => "link",
            Target::MovedLines => "moved_lines",
            Target::Object => "object",
            Target::Program => "program",
            Target::Recipe => "recipe",
            Target::Repository => "repository",
            Target::Script => "script",
            Target::Shared => "shared",
            Target::Source => "source",
            Target::TicketNote => "ticket_note",
            Target::VersionScript => "version_script",
        }
    }

    /// Runs it.
    ///
    /// # Panics
    /// If what must hold does not.
    pub fn run(self, bytes: &[u8]) {
        match self {
            Target::Archive => parsers::archive(bytes),
            Target::ArchiveWriter => tickets::archive_writer(bytes),
            Target::Args => parsers::args(bytes),
            Target::Link => link::run(bytes),
            Target::MovedLines => compiles::moved_lines(bytes),
            Target::Object => parsers::object(bytes),
            Target::Program => program::run(bytes),
            Target::Recipe => tickets::recipe(bytes),
            Target::Repository => repository::run(bytes),
            Target::Script => parsers::script(bytes),
            Target::Shared => parsers::shared(bytes),
            Target::Source => compiles::source(bytes),
            Target::TicketNote => tickets::note(bytes),
            Target::VersionScript => parsers::version_script(bytes),
        }
    }

    /// Changes something, so that the result is at most `limit` bytes long.
    pub fn mutate(self, bytes: &mut Vec<u8>, random: &mut Random, limit: usize) {
        match self {
            Target::Archive | Target::ArchiveWriter => archive::mutate(bytes, random, limit),
            Target::Args => {
                text::mutate(bytes, text::ARGUMENTS, random, limit);
                // One word a line.
                if random.one_in(2) {
                    bytes
                        .iter_mut()
                        .filter(|byte| **byte == b' ')
                        .for_each(|byte| *byte = b'\n');
                }
            }
            Target::Link => line::mutate(bytes, link::seeds(), random, limit),
            Target::MovedLines | Target::Object | Target::Shared => {
                elf::mutate(bytes, random, limit)
            }
            Target::Program => programs::mutate(bytes, random),
            Target::Recipe | Target::TicketNote => {
                text::mutate(bytes, text::ARGUMENTS, random, limit)
            }
            Target::Repository => repositories::mutate(bytes, random, limit),
            Target::Script => text::mutate(bytes, text::SCRIPT, random, limit),
            Target::Source => text::mutate(bytes, text::SOURCE, random, limit),
            Target::VersionScript => text::mutate(bytes, text::VERSION_SCRIPT, random, limit),
        }
    }

    /// Inputs to begin from: the files of its directory in `tests/fuzz/corpus`, and lines and a repository that
    /// are made of them.
    pub fn seeds(self) -> Vec<Vec<u8>> {
        if self == Target::Link {
            return link::seeds().iter().map(line::Line::encode).collect();
        }
        if self == Target::Program {
            return vec![program::seed().to_vec()];
        }
        if self == Target::TicketNote {
            return tickets::seeds();
        }
        // What writes archives begins from the same ones as what reads them.
        let directory = match self {
            Target::ArchiveWriter => Target::Archive.name(),
            _ => self.name(),
        };
        corpus(directory)
            .into_iter()
            .map(|(_, bytes)| bytes)
            .collect()
    }
}

/// The sound inputs of a target, by name.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/corpus")
        .join(target);
    let entries = std::fs::read_dir(&directory)
        .unwrap_or_else(|why| panic!("{}: {why}", directory.display()));
    let mut files: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let path = entry.expect("a directory of ours").path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            (name, std::fs::read(&path).expect("a file of ours"))
        })
        .collect();
    files.sort();
    files
}
