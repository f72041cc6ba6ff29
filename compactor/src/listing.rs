//! What keeps compilations: the prefixes that are remembered, the archives and tickets on record, and the outputs.

use crate::damage::unless_damaged;
use crate::json::as_text;
use anyhow::Result;
use format_spec::program::Index;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use store::program::Programs;
use tickets::file::{TicketFile, look_at};

/// All that is known to keep compilations of a repository.
#[derive(Debug, Serialize)]
pub struct Listing {
    /// The repository.
    pub repository: String,
    /// Directories that the user has named, in which all files are looked at.
    pub prefixes: Vec<KnownPrefix>,
    /// Archives on record.
    pub archives: Vec<KnownArchive>,
    /// Directories in which tickets on record are, and beside these all files are looked at.
    pub directories: Vec<KnownDirectory>,
    /// Outputs of links.
    pub outputs: Vec<KnownOutput>,
}

/// A directory that the user has named.
#[derive(Debug, Serialize)]
pub struct KnownPrefix {
    /// The directory.
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// When it was named, in nanoseconds since 1970.
    pub named: u64,
    /// Whether it is there.
    pub exists: bool,
}

/// An archive.
#[derive(Debug, Serialize)]
pub struct KnownArchive {
    /// The archive.
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// How many tickets of this repository are in it.
    pub tickets: u64,
}

/// A directory with tickets.
#[derive(Debug, Serialize)]
pub struct KnownDirectory {
    /// The directory.
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// How many tickets in it are on record, and there.
    pub tickets: u64,
    /// How many are on record, and not there any more.
    pub gone: u64,
}

/// What was linked.
#[derive(Debug, Serialize)]
pub struct KnownOutput {
    /// The output.
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// How many inputs it has that are compilations of this repository.
    pub inputs: u64,
    /// Whether it is there.
    pub exists: bool,
}

impl Listing {
    /// Looks all up.
    ///
    /// # Errors
    /// If the repository is damaged.
    pub fn new(programs: &Programs<'_>) -> Result<Listing> {
        let store = programs.snapshot().store();
        let prefixes = programs.prefixes()?.into_iter().map(|prefix| KnownPrefix {
            exists: prefix.path.is_dir(),
            path: prefix.path,
            named: prefix.named,
        });
        let mut listing = Listing {
            repository: store.path().display().to_string(),
            prefixes: prefixes.collect(),
            archives: Vec::new(),
            directories: Vec::new(),
            outputs: Vec::new(),
        };
        let mut directories: BTreeMap<PathBuf, [u64; 2]> = BTreeMap::new();
        for record in programs.records(Index::Tickets) {
            let Some(record) = unless_damaged(record)? else {
                continue;
            };
            let path = PathBuf::from(OsStr::from_bytes(programs.ticket(&record)?.path));
            if let TicketFile::Archive { tickets, .. } = look_at(&path) {
                let own = tickets.iter().filter(|ticket| ticket.uuid == store.uuid());
                let tickets = own.count() as u64;
                listing.archives.push(KnownArchive { path, tickets });
                continue;
            }
            let is_gone = !path.exists();
            let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
            directories.entry(directory).or_default()[usize::from(is_gone)] += 1;
        }
        listing.archives.sort_by(|a, b| a.path.cmp(&b.path));
        let directories = directories.into_iter();
        listing.directories = directories
            .map(|(path, [tickets, gone])| KnownDirectory {
                path,
                tickets,
                gone,
            })
            .collect();
        for record in programs.records(Index::Images) {
            let Some(record) = unless_damaged(record)? else {
                continue;
            };
            let image = programs.image(&record)?;
            let path = PathBuf::from(OsStr::from_bytes(image.path));
            let inputs = image.inputs.iter();
            listing.outputs.push(KnownOutput {
                inputs: inputs.filter(|input| input.compilation.0 != 0).count() as u64,
                exists: path.symlink_metadata().is_ok(),
                path,
            });
        }
        listing.outputs.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(listing)
    }

    /// Writes it for people.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let absent = |exists: bool| match exists {
            true => "",
            false => ", not there now",
        };
        for prefix in &self.prefixes {
            let path = prefix.path.display();
            writeln!(
                out,
                "prefix {path}: searched each time{}",
                absent(prefix.exists)
            )?;
        }
        for archive in &self.archives {
            let (path, tickets) = (archive.path.display(), archive.tickets);
            writeln!(out, "archive {path}: {}", counted(tickets, "ticket"))?;
        }
        for directory in &self.directories {
            let path = directory.path.display();
            let tickets = counted(directory.tickets, "ticket");
            let gone = match directory.gone {
                0 => String::new(),
                gone => format!(", {gone} gone"),
            };
            writeln!(out, "directory {path}: {tickets}{gone}")?;
        }
        for output in &self.outputs {
            let path = output.path.display();
            let inputs = counted(output.inputs, "ticket");
            let absent = absent(output.exists);
            writeln!(out, "output {path}: made of {inputs}{absent}")?;
        }
        let known = counted(self.prefixes.len() as u64, "remembered prefix");
        writeln!(
            out,
            "{}: {}{}; repo-gc --root DIRECTORY adds one, --forget DIRECTORY removes it",
            self.repository,
            known,
            if self.prefixes.len() == 1 { "" } else { "es" },
        )
    }
}

fn counted(count: u64, what: &str) -> String {
    let plural = match count {
        1 => "",
        _ if what.ends_with('x') => "",
        _ => "s",
    };
    format!("{count} {what}{plural}")
}
