//! What is live, and why.
//!
//! The repository has a record of every ticket that it was told of, with the path at
//! which it was written. What is at that path now decides. But tickets travel: they are
//! moved and copied, and packed into archives whose members are then deleted. So the
//! directories of all tickets on record, and those above them, are searched for files
//! that are tickets or archives of tickets; not recursively, so that this stays cheap.
//! The user can name more places, which are searched in full, and directories among them are remembered: so prefixes are
//! known that libraries are installed into. Files that are found so are put on record, with one of the compilations that
//! they name, to be found again. Links, too, put archives of tickets on record that they have read.
//!
//! What compilers have made is found again by manifests: these are kept while somebody uses them, and with them what they name.
//!
//! Where in doubt (a file that may not be read, a damaged ticket), it counts as live.

use crate::damage::{self, Damaged};
use crate::json::as_text;
use crate::priority::Rank;
use anyhow::Result;
use format_spec::digest::Digest;
use format_spec::ids::Address;
use format_spec::program::Index;
use rustix::fs::OFlags;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use store::engine::{Record, Snapshot};
use store::program::{ProgramError, Programs};
use tickets::Ticket;
use tickets::file::{TicketFile, look_at};

/// For how long what was found out usually holds: builds that put old tickets back do it through `repo-cc`, which says so.
pub const HOLDS: Duration = Duration::from_secs(600);

/// For how many records there is memory in any case.
pub const PART: usize = 128 << 10;

/// What the survey is told.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// The present time, in nanoseconds since 1970.
    pub now: u64,
    /// What was added less than so many nanoseconds ago is live.
    pub grace: u64,
    /// Manifests that were not used for so many nanoseconds go.
    pub unused: u64,
    /// So many bytes the repository is to have at most: manifests go for that, those first that were used longest ago.
    pub max_size: Option<u64>,
    /// What was found out holds for so long: if the copying took longer (`--idle` may stop it for hours), files are looked at again.
    pub holds: Duration,
    /// A transaction of the new file has about so many records: it remembers some 50 bytes of each.
    pub part: usize,
    /// So many threads may read and check what is copied.
    pub threads: usize,
    /// How far behind others this work is.
    pub rank: Rank,
    /// More places where tickets may be, beside the prefixes that the repository remembers.
    pub roots: Vec<PathBuf>,
}

/// A place that is searched in full, and what was found there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Searched {
    /// The directory or file.
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// The repository remembers it; otherwise it was named this time only.
    pub remembered: bool,
    /// It is not there: what is on record below it is kept, as it may be back.
    pub absent: bool,
    /// Files in it with tickets of this repository.
    pub files: u64,
}

impl Wishes {
    /// Whether something of this time is protected. So is what is of the future: clocks err.
    fn protects(&self, time: u64) -> bool {
        time.saturating_add(self.grace) > self.now
    }

    /// Whether what was used last on this day (since 1970) was used long enough ago.
    fn is_unused_since(&self, day: u32) -> bool {
        const DAY: u64 = 86_400_000_000_000;
        let end = (u64::from(day) + 1).saturating_mul(DAY);
        self.unused == 0 || end.saturating_add(self.unused) <= self.now
    }
}

/// Why something is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    /// A ticket file names it. Ordered by path: so compilations are copied.
    Ticket(PathBuf),
    /// A linked output was made of it.
    Image(PathBuf),
    /// It is younger than the grace period.
    Young,
    /// A record of another kind, which is kept, needs it.
    Needed,
}

/// Why something is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gone {
    /// The file does not exist any more.
    NoFile,
    /// Another file is in its place, or a ticket of another repository.
    OtherFile,
    /// No ticket names it.
    NoTicket,
    /// The ticket file names a compilation that is not in the repository.
    NoCompilation,
    /// What it names, or is made of, is damaged.
    Damaged,
}

impl Gone {
    /// For people.
    pub fn reason(self) -> &'static str {
        match self {
            Gone::NoFile => "the file does not exist any more",
            Gone::OtherFile => "another file is in its place",
            Gone::NoTicket => "no ticket names it",
            Gone::NoCompilation => "the repository does not have what it names",
            Gone::Damaged => "what it is made of is damaged; build it again",
        }
    }
}

/// A ticket's record.
#[derive(Clone, Debug)]
pub struct TicketFate {
    /// The key of the record.
    pub key: Digest,
    /// The file.
    pub path: PathBuf,
    /// Why the record goes, if it does.
    pub gone: Option<Gone>,
    /// The compilation that the ticket names: where it is.
    pub compilation: Address,
}

/// What is live.
#[derive(Debug, Default)]
pub struct Survey {
    /// All tickets on record, by path.
    pub tickets: Vec<TicketFate>,
    /// Files with tickets that are not on record, and a compilation that each names.
    pub found: Vec<(PathBuf, Address)>,
    /// The images, by path, and whether they go.
    pub images: Vec<(Digest, PathBuf, Option<Gone>)>,
    /// The manifests that nobody has used lately.
    pub unused: Vec<Address>,
    /// The others that are old enough to go, with the day (since 1970) of their last use.
    pub used: Vec<(u32, Address)>,
    /// The live compilations and why.
    pub live: HashMap<Address, Kept>,
    /// The others, in the order of their addresses.
    pub dead: Vec<(Address, Digest)>,
    /// What is here or later is younger than the grace period.
    pub young: Address,
    /// The places that are searched in full.
    pub searched: Vec<Searched>,
    /// What the user may want to know.
    pub warnings: Vec<String>,
}

impl Survey {
    /// Marks what names damaged compilations as gone, and warns.
    pub fn lose(&mut self, damaged: &Damaged) {
        for ticket in &mut self.tickets {
            if let (None, Some(why)) = (ticket.gone, damaged.why(ticket.compilation)) {
                ticket.gone = Some(Gone::Damaged);
                let path = ticket.path.display();
                self.warnings.push(format!("{path}: build it again: {why}"));
            }
        }
        self.found.retain(|(path, compilation)| {
            let Some(why) = damaged.why(*compilation) else {
                return true;
            };
            let path = path.display();
            self.warnings.push(format!("{path}: build it again: {why}"));
            false
        });
        self.live.retain(|live, _| damaged.why(*live).is_none());
    }
}

/// Looks at everything that may be a root of `programs`.
///
/// # Errors
/// If the repository is damaged, or a place that the user named cannot be searched.
pub fn survey(programs: &Programs<'_>, wishes: &Wishes) -> Result<Survey> {
    let mut surveyor = Surveyor {
        programs,
        wishes,
        uuid: programs.snapshot().store().uuid(),
        seen: HashSet::new(),
        out: Survey::default(),
    };
    surveyor.prefixes()?;
    surveyor.records()?;
    surveyor.places()?;
    surveyor.images()?;
    surveyor.compilations()?;
    surveyor.archives_gone();
    surveyor.manifests()?;
    let mut out = surveyor.out;
    out.tickets.sort_by(|a, b| a.path.cmp(&b.path));
    out.found.sort();
    out.images.sort_by(|a, b| a.1.cmp(&b.1));
    out.dead.sort_unstable_by_key(|(address, _)| *address);
    Ok(out)
}

struct Surveyor<'p, 's> {
    programs: &'p Programs<'s>,
    wishes: &'p Wishes,
    uuid: [u8; 16],
    /// Files that have been looked at.
    seen: HashSet<PathBuf>,
    out: Survey,
}

impl Surveyor<'_, '_> {
    fn keep(&mut self, compilation: Address, why: Kept) {
        let entry = self.out.live.entry(compilation);
        entry
            .and_modify(|before| {
                if why < *before {
                    *before = why.clone();
                }
            })
            .or_insert(why);
    }

    fn warn(&mut self, path: &Path, what: impl std::fmt::Display) {
        self.out
            .warnings
            .push(format!("{}: {what}", path.display()));
    }

    /// A record of an index, if it is not damaged: then it is dropped, and the user told.
    fn whole<'s>(
        &mut self,
        record: Result<Record<'s>, ProgramError>,
        what: &str,
    ) -> Result<Option<Record<'s>>> {
        let offset = match record {
            Ok(record) if record.is_whole() => return Ok(Some(record)),
            Ok(record) => format!(" at offset {:#x}", record.address.0),
            Err(error) if damage::is_of_record(&error) => String::new(),
            Err(error) => return Err(error.into()),
        };
        let repository = self.programs.snapshot().store().path().to_owned();
        self.warn(
            &repository,
            format_args!("{what}{offset} is damaged; dropped"),
        );
        Ok(None)
    }

    /// The places that are searched in full: those that are remembered, and those that the user names.
    fn prefixes(&mut self) -> Result<()> {
        let wishes = self.wishes;
        let mut places = Vec::new();
        for prefix in self.programs.prefixes()? {
            let absent = !prefix.path.is_dir();
            if absent {
                let what = "is a remembered --root, but not there now; what is on record below it is kept \
                            (--forget, if it is gone for good)";
                self.warn(&prefix.path, what);
            }
            places.push((prefix.path, true, absent));
        }
        for root in &wishes.roots {
            let root = std::fs::canonicalize(root)
                .map_err(|error| anyhow::anyhow!("--root {}: {error}", root.display()))?;
            if !places.iter().any(|(known, ..)| *known == root) {
                places.push((root, false, false));
            }
        }
        let places = places
            .into_iter()
            .map(|(path, remembered, absent)| Searched {
                path,
                remembered,
                absent,
                files: 0,
            });
        self.out.searched = places.collect();
        Ok(())
    }

    /// Whether a file cannot be looked at because a remembered prefix is not there.
    fn is_absent(&self, path: &Path) -> bool {
        let places = self.out.searched.iter();
        places
            .filter(|place| place.absent)
            .any(|place| path.starts_with(&place.path))
    }

    /// Tickets on record.
    fn records(&mut self) -> Result<()> {
        for record in self.programs.records(Index::Tickets) {
            let Some(record) = self.whole(record, "a ticket's record")? else {
                continue;
            };
            let view = self.programs.ticket(&record)?;
            let path = PathBuf::from(OsStr::from_bytes(view.path));
            let mut compilation = view.header.compilation;
            let found = look_at(&path);
            let gone = match found {
                TicketFile::Ticket(ticket) if ticket.uuid == self.uuid => {
                    // If the file was put back from elsewhere, it is right, not the record.
                    match self.find(&path, &ticket)? {
                        Some(address) => {
                            compilation = address;
                            None
                        }
                        None => Some(Gone::NoCompilation),
                    }
                }
                TicketFile::Archive { tickets, problem } => {
                    if let Some(problem) = problem {
                        self.warn(&path, problem);
                    }
                    match self.keep_all(&path, &tickets)? {
                        Some(address) => {
                            compilation = address;
                            None
                        }
                        None => Some(Gone::OtherFile),
                    }
                }
                TicketFile::Gone if self.is_absent(&path) => None,
                TicketFile::Gone => Some(Gone::NoFile),
                TicketFile::Ticket(_) | TicketFile::Other => Some(Gone::OtherFile),
                TicketFile::Damaged(why) => {
                    self.warn(&path, format_args!("{why}; kept"));
                    None
                }
                TicketFile::Unreadable(error) => {
                    self.warn(&path, format_args!("cannot be read: {error}; kept"));
                    None
                }
            };
            let young = gone.is_some() && self.wishes.protects(view.header.written);
            if young {
                self.keep(compilation, Kept::Young);
            } else if gone.is_none() {
                self.keep(compilation, Kept::Ticket(path.clone()));
            }
            self.seen.insert(path.clone());
            self.out.tickets.push(TicketFate {
                key: record.key(),
                path,
                gone: gone.filter(|_| !young),
                compilation,
            });
        }
        Ok(())
    }

    /// Keeps what these tickets in the file at `path` name, as far as they are this
    /// repository's, and returns the first of it.
    fn keep_all(&mut self, path: &Path, tickets: &[Ticket]) -> Result<Option<Address>> {
        let mut first = None;
        for ticket in tickets {
            if ticket.uuid != self.uuid {
                continue;
            }
            if let Some(address) = self.find(path, ticket)? {
                self.keep(address, Kept::Ticket(path.to_owned()));
                first = first.or(Some(address));
            }
        }
        Ok(first)
    }

    /// Where the compilation is that a ticket of this repository names.
    fn find(&mut self, path: &Path, ticket: &Ticket) -> Result<Option<Address>> {
        let snapshot = self.programs.snapshot();
        match snapshot.get(Index::Compilations.slot(), &ticket.compilation)? {
            Some(record) => Ok(Some(record.address)),
            // A build has made it since, with its ticket: catching up finds both.
            None if is_there_by_now(snapshot, &ticket.compilation)? => Ok(None),
            None => {
                let digest = ticket.compilation;
                self.warn(
                    path,
                    format_args!("the repository has no compilation {digest:.16}; build it again"),
                );
                Ok(None)
            }
        }
    }

    /// Files that are not on record.
    fn places(&mut self) -> Result<()> {
        let mut directories = BTreeSet::new();
        let repository = self.programs.snapshot().store().path().to_owned();
        let top = repository.parent().unwrap_or(Path::new("/")).to_owned();
        let home = std::env::var_os("HOME").map(PathBuf::from);
        for ticket in &self.out.tickets {
            for directory in searched(&ticket.path, &top, home.as_deref()) {
                if !directories.insert(directory.to_owned()) {
                    // Nor are those above it new.
                    break;
                }
            }
        }
        for directory in directories {
            // A directory that is gone has no tickets.
            if let Ok(entries) = std::fs::read_dir(&directory) {
                for entry in entries.flatten() {
                    self.file(&entry.path())?;
                }
            }
        }
        for path in self.inputs()? {
            self.file(&path)?;
        }
        let mut searched = std::mem::take(&mut self.out.searched);
        for place in searched.iter().filter(|place| !place.absent) {
            if place.path.is_dir() {
                self.tree(&place.path)?;
            } else {
                self.file(&place.path)?;
            }
        }
        let tickets = self.out.tickets.iter();
        let present = tickets.filter(|ticket| ticket.gone.is_none());
        let present = present.map(|ticket| &ticket.path);
        for path in present.chain(self.out.found.iter().map(|(path, _)| path)) {
            let places = searched.iter_mut();
            places
                .filter(|place| path.starts_with(&place.path))
                .for_each(|place| place.files += 1);
        }
        self.out.searched = searched;
        Ok(())
    }

    /// Files with tickets that links have read: those, too, may be where no record says. That their output is gone does not
    /// matter.
    fn inputs(&self) -> Result<BTreeSet<PathBuf>> {
        let mut paths = BTreeSet::new();
        for record in self.programs.records(Index::Images) {
            let Some(record) = damage::unless_damaged(record)? else {
                continue;
            };
            let Some(image) = damage::unless_damaged(self.programs.image(&record))? else {
                continue;
            };
            let tickets = image.inputs.iter();
            for input in tickets.filter(|input| input.compilation != Address(0)) {
                let Some(path) = damage::unless_damaged(self.programs.name(input.path))? else {
                    continue;
                };
                // `archive(member)`
                let archive = path
                    .strip_suffix(b")")
                    .and_then(|rest| rest.iter().rposition(|byte| *byte == b'('))
                    .map(|end| &path[..end]);
                for path in [Some(path), archive].into_iter().flatten() {
                    paths.insert(plain(Path::new(OsStr::from_bytes(path))));
                }
            }
        }
        Ok(paths)
    }

    fn tree(&mut self, root: &Path) -> Result<()> {
        let mut directories = vec![root.to_owned()];
        while let Some(directory) = directories.pop() {
            let entries = match std::fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) => {
                    self.warn(&directory, format_args!("cannot be searched: {error}"));
                    continue;
                }
            };
            for entry in entries.flatten() {
                // Of the entry itself: symbolic links to directories are not followed.
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => directories.push(entry.path()),
                    Ok(_) => self.file(&entry.path())?,
                    Err(_) => {}
                }
            }
        }
        Ok(())
    }

    /// A file that is perhaps a ticket or an archive of tickets.
    fn file(&mut self, path: &Path) -> Result<()> {
        if self.seen.contains(path) || !may_have_tickets(path) {
            return Ok(());
        }
        self.seen.insert(path.to_owned());
        let tickets = match look_at(path) {
            TicketFile::Ticket(ticket) => vec![ticket],
            TicketFile::Archive { tickets, problem } => {
                if let Some(problem) = problem {
                    self.warn(path, problem);
                }
                tickets
            }
            TicketFile::Damaged(why) => {
                self.warn(path, why);
                Vec::new()
            }
            TicketFile::Gone | TicketFile::Other | TicketFile::Unreadable(_) => Vec::new(),
        };
        if let Some(first) = self.keep_all(path, &tickets)? {
            self.out.found.push((path.to_owned(), first));
        }
        Ok(())
    }

    fn images(&mut self) -> Result<()> {
        for record in self.programs.records(Index::Images) {
            let Some(record) = self.whole(record, "an image's record")? else {
                continue;
            };
            let view = self.programs.image(&record)?;
            let path = PathBuf::from(OsStr::from_bytes(view.path));
            let is_gone = match std::fs::symlink_metadata(&path) {
                Ok(_) => false,
                Err(error) => {
                    error.kind() == std::io::ErrorKind::NotFound && !self.is_absent(&path)
                }
            };
            let young = self.wishes.protects(view.header.written);
            let gone = (is_gone && !young).then_some(Gone::NoFile);
            if gone.is_none() {
                for input in view.inputs {
                    if input.compilation != Address(0) {
                        self.keep(input.compilation, Kept::Image(path.clone()));
                    }
                }
            }
            self.out.images.push((record.key(), path, gone));
        }
        Ok(())
    }

    /// Compilations that nothing names: kept while they are young.
    fn compilations(&mut self) -> Result<()> {
        for snapshot in self.programs.snapshot().revisions() {
            let snapshot = snapshot?;
            if !self.wishes.protects(snapshot.time()) {
                // Neither are earlier ones: time does not go backwards.
                self.out.young = Address(snapshot.size());
                break;
            }
        }
        for record in self.programs.records(Index::Compilations) {
            // A damaged one is dropped when it cannot be copied: until then, it is known by its address.
            let Some(record) = damage::unless_damaged(record)? else {
                continue;
            };
            if self.out.live.contains_key(&record.address) {
                continue;
            }
            if record.address >= self.out.young {
                self.keep(record.address, Kept::Young);
            } else {
                self.out.dead.push((record.address, record.key()));
            }
        }
        Ok(())
    }
}

impl Surveyor<'_, '_> {
    /// Says so if archives of tickets are gone, and what they named goes: nobody knows of a copy that was made by `cp` or `install`, and
    /// that no link has read.
    fn archives_gone(&mut self) {
        let dead: HashSet<Address> = self.out.dead.iter().map(|(address, _)| *address).collect();
        let archives = self.out.tickets.iter().filter(|ticket| {
            ticket.gone == Some(Gone::NoFile)
                && ticket.path.extension() == Some(OsStr::new("a"))
                && dead.contains(&ticket.compilation)
        });
        let Some(first) = archives.clone().map(|ticket| ticket.path.clone()).min() else {
            return;
        };
        let others = match archives.count() - 1 {
            0 => String::new(),
            others => format!(" (and so are {others} others)"),
        };
        let what = format_args!(
            "is gone{others}, and what its members name goes; if it was copied, repo-gc --root DIRECTORY, once, keeps it alive there"
        );
        self.warn(&first, what);
    }

    /// Manifests whose last use is long ago. (Who uses one puts that on record each day.)
    fn manifests(&mut self) -> Result<()> {
        for record in self.programs.records(Index::Manifests) {
            // A damaged one is dropped, with a warning, when it is looked at for what it keeps.
            let Some(record) = damage::unless_damaged(record)? else {
                continue;
            };
            let manifest = damage::unless_damaged(self.programs.manifest_of(&record))?;
            let day = match &manifest {
                Some(manifest) => damage::unless_damaged(self.programs.last_use(manifest))?,
                None => None,
            };
            match day {
                Some(day) if self.wishes.is_unused_since(day) => {
                    self.out.unused.push(record.address);
                }
                Some(day) if record.address < self.out.young => {
                    self.out.used.push((day, record.address));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The directories in which files beside the ticket at `path` are looked for: its own
/// and those above it; up to that of the repository if that is above, else to the last
/// below the home directory or the top level (`/tmp`, `/home`: other people's places).
fn searched<'a>(
    path: &'a Path,
    top: &'a Path,
    home: Option<&'a Path>,
) -> impl Iterator<Item = &'a Path> {
    let below_top = path.starts_with(top);
    path.ancestors()
        .skip(1)
        .enumerate()
        .take_while(move |(distance, directory)| {
            let is_own = *distance == 0;
            let inside = if below_top {
                directory.starts_with(top)
            } else {
                Some(*directory) != home
                    && directory.parent().is_some_and(|up| up != Path::new("/"))
            };
            is_own || (inside && directory.parent().is_some())
        })
        .map(|(_, directory)| directory)
}

/// The path of a file without `..`, as links have it of their command lines: so that it is known by one path.
fn plain(path: &Path) -> PathBuf {
    let climbs = path.components().any(|part| part == Component::ParentDir);
    let plain = climbs.then(|| std::fs::canonicalize(path).ok()).flatten();
    plain.unwrap_or_else(|| path.to_owned())
}

/// Whether a file begins like an archive or a relocatable ELF object.
fn may_have_tickets(path: &Path) -> bool {
    // Not even opened if it is no file; the flags see to what takes its place meanwhile.
    if !std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let mut start = [0; 18];
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = std::fs::File::options()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)
        .and_then(|mut file| file.read_exact(&mut start));
    // A file that is too short for a header, or not readable, has no tickets for us.
    opened.is_ok()
        && (start.starts_with(b"!<arch>\n")
            || start.starts_with(b"!<thin>\n")
            || (start.starts_with(b"\x7fELF") && start[16..] == [1, 0]))
}

/// Whether a compilation has been added since.
fn is_there_by_now(then: Snapshot<'_>, compilation: &Digest) -> Result<bool> {
    let now = then.store().snapshot()?;
    Ok(now.get(Index::Compilations.slot(), compilation)?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn searched_of(path: &str, top: &str) -> Vec<String> {
        searched(Path::new(path), Path::new(top), Some(Path::new("/home/u")))
            .map(|directory| directory.display().to_string())
            .collect()
    }

    #[test]
    fn archives_are_looked_for_above_the_objects_but_not_everywhere() {
        assert_eq!(
            searched_of("/home/u/p/build/CMakeFiles/x.dir/a.o", "/home/u/p"),
            [
                "/home/u/p/build/CMakeFiles/x.dir",
                "/home/u/p/build/CMakeFiles",
                "/home/u/p/build",
                "/home/u/p"
            ]
        );
        assert_eq!(
            searched_of("/home/u/p/a.o", "/home/u/.local/state/program-repository"),
            ["/home/u/p"]
        );
        assert_eq!(searched_of("/tmp/t/x/a.o", "/r"), ["/tmp/t/x", "/tmp/t"]);
        assert_eq!(searched_of("/tmp/a.o", "/r"), ["/tmp"]);
        assert_eq!(searched_of("/tmp/t/a.o", "/"), ["/tmp/t", "/tmp"]);
    }

    #[test]
    fn the_grace_period_protects_the_young_and_the_future() {
        let wishes = Wishes {
            now: 1000,
            grace: 100,
            unused: 0,
            max_size: None,
            holds: HOLDS,
            part: PART,
            threads: 2,
            rank: Rank::Behind,
            roots: Vec::new(),
        };
        assert!(wishes.protects(901) && wishes.protects(5000) && wishes.protects(u64::MAX));
        assert!(!wishes.protects(900) && !wishes.protects(0));
        let none = Wishes { grace: 0, ..wishes };
        assert!(!none.protects(1000));
        const DAY: u64 = 86_400_000_000_000;
        let month = Wishes {
            now: 100 * DAY,
            unused: 30 * DAY,
            ..none
        };
        assert!(month.is_unused_since(0) && month.is_unused_since(69));
        assert!(!month.is_unused_since(70) && !month.is_unused_since(u32::MAX));
        // What was used today, too.
        let all = Wishes { unused: 0, ..month };
        assert!(all.is_unused_since(100));
    }
}
