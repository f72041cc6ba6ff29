//! Ordinary objects in place of tickets: of one, of those in an archive, and of all below a directory. `repo-dump --materialize` does
//! nothing else, and `repo-cc` does it for tools that change objects.
//!
//! Each file is written beside its place, and renamed into it: who looks sees the old one or the new one, whole. In place it
//! keeps mode, owner and time of modification: it is what it was, so nothing that was made of it has to be made again.
//!
//! A thin archive is a list of files. In place, those are made objects first, and the list is made to fit them; elsewhere
//! becomes an ordinary archive, which needs no other files.

use super::output::{Text, View};
use ::tickets::archive::{Archive, ArchiveError, Member, MemberBody, THIN_MAGIC};
use ::tickets::archive_writer::{self, Outside};
use ::tickets::file::{Contents, MemberError, bytes_at, member_bytes};
use ::tickets::{DOTTED_EXPLANATION, Ticket, TicketError, edits, is_ticket, within_fat};
use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use std::collections::HashMap;
use std::fs::{self, File, FileTimes, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use store::engine::OpenOptions;
use store::guard::{self, Temporary};
use store::program::locate::Environment;
use store::program::{Repository, waiting};

const PREFIX: &str = ".repo-dump-";

/// Where what is made goes.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// There; for a directory, below it.
    At(&'a Path),
    /// Where the ticket is.
    InPlace,
}

/// What was done.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Files that were written.
    files: u64,
    /// Objects in them that were tickets.
    objects: u64,
    /// Files that hold tickets, and are as they were: named on standard error, with the reasons.
    failed: u64,
}

impl Report {
    /// Whether all was done.
    pub fn is_good(&self) -> bool {
        self.failed == 0
    }
}

impl View for Report {
    fn text(&self, out: &mut Text<'_>) -> io::Result<()> {
        let plural = |number: u64| if number == 1 { "" } else { "s" };
        writeln!(
            out,
            "{} object{} in {} file{}",
            self.objects,
            plural(self.objects),
            self.files,
            plural(self.files)
        )?;
        if self.failed > 0 {
            writeln!(out, "{} as before", self.failed)?;
        }
        Ok(())
    }
}

/// Makes objects of tickets.
pub struct Maker<'a> {
    /// Who tells the user what.
    program: &'static str,
    option: Option<&'a Path>,
    environment: Environment,
    /// Those of the tickets so far.
    repositories: Vec<(PathBuf, Repository)>,
    /// The files that were replaced in place; of archives where each member's header was, and is.
    replaced: HashMap<PathBuf, HashMap<u64, u64>>,
    /// Whether directories are made where they are missing, as in the tree.
    makes_directories: bool,
    report: Report,
}

impl<'a> Maker<'a> {
    /// `option` is the argument of `--repo`; `program` is who does it.
    pub fn new(program: &'static str, option: Option<&'a Path>) -> Maker<'a> {
        Maker {
            program,
            option,
            environment: Environment::current(),
            repositories: Vec::new(),
            replaced: HashMap::new(),
            makes_directories: false,
            report: Report::default(),
        }
    }

    /// Makes what is at `path`: a ticket, an archive, or a directory.
    ///
    /// # Errors
    /// If it is none of these; if a file cannot be read or written; if a ticket cannot be made an object. In directories,
    /// that is told, and counted in the report.
    pub fn make(mut self, path: &Path, place: Place<'_>) -> Result<Report> {
        if path.is_dir() {
            self.makes_directories = matches!(place, Place::At(_));
            self.tree(path, place)?;
            return Ok(self.report);
        }
        // A link stays, and what it leads to is written.
        let target = match place {
            Place::At(output) => output.to_owned(),
            Place::InPlace => fs::canonicalize(path).with_context(|| cannot_read(path))?,
        };
        if let (Place::InPlace, Kind::ThinArchive) = (place, kind_of(&target)) {
            for file in files_of_thin(path)? {
                self.file(&file, &file, place)?;
            }
        }
        let has_tickets = self.file(path, &target, place)?;
        let may_have_none = matches!(place, Place::InPlace) && kind_of(path) != Kind::Other;
        if !has_tickets && !may_have_none {
            bail!(
                "{}: not a ticket, and no archive of tickets",
                path.display()
            );
        }
        Ok(self.report)
    }

    /// Makes what is to be at `target` of the file at `path`. Whether it has tickets.
    fn file(&mut self, path: &Path, target: &Path, place: Place<'_>) -> Result<bool> {
        let Some(made) = self.made(path, place)? else {
            return Ok(false);
        };
        if let (true, Some(directory)) = (self.makes_directories, target.parent()) {
            let cannot = || format!("{}: cannot make", directory.display());
            fs::create_dir_all(directory).with_context(cannot)?;
        }
        put(path, target, place, &made.bytes)?;
        if let Place::InPlace = place {
            let target = fs::canonicalize(target).with_context(|| cannot_read(target))?;
            self.replaced.insert(target, made.moved);
        }
        self.report.files += 1;
        self.report.objects += made.objects;
        Ok(true)
    }

    /// What is to take the place of the file at `path`. `None` if it has no tickets.
    fn made(&mut self, path: &Path, place: Place<'_>) -> Result<Option<Made>> {
        let contents = Contents::of_file(path).with_context(|| cannot_read(path))?;
        let Some(contents) = contents else {
            bail!("{}: not a ticket, but no regular file", path.display());
        };
        if !Archive::is_archive(&contents) {
            let object = self.object(path, &contents);
            let object = object.with_context(|| path.display().to_string())?;
            return Ok(object.map(|bytes| Made {
                bytes,
                objects: 1,
                moved: HashMap::new(),
            }));
        }
        let archive = Archive::parse(&contents).with_context(|| path.display().to_string())?;
        if let (Place::InPlace, true) = (place, archive.is_thin()) {
            return self.thin_again(path, &archive, &contents);
        }
        // What is needed of a thin archive that holds no ticket may not be there.
        if archive.is_thin() && !has_tickets(path, &contents) {
            return Ok(None);
        }
        let mut objects = 0;
        let outside = |member: &Member<'_>| match member_bytes(path, member) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => Err(Failed::of_member(path, error)),
        };
        let made = archive_writer::made_whole(&contents, outside, |name, body| {
            let object = self.object(path, body);
            let object = object.with_context(|| format!("{}({name})", path.display()))?;
            objects += u64::from(object.is_some());
            Ok::<_, Failed>(object)
        });
        let bytes = match made {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(Failed(error)) => return Err(error),
        };
        let moved = match archive.is_thin() {
            true => HashMap::new(),
            false => header_offsets(&archive)?
                .into_iter()
                .zip(header_offsets(&Archive::parse(&bytes)?)?)
                .collect(),
        };
        Ok(Some(Made {
            bytes,
            objects,
            moved,
        }))
    }

    /// The thin archive at `path` as it fits files that were tickets. `None` if it names none of these.
    fn thin_again(
        &self,
        path: &Path,
        archive: &Archive<'_>,
        contents: &[u8],
    ) -> Result<Option<Made>> {
        let mut is_of_tickets = has_tickets(path, contents);
        for symbol in archive.symbols().into_iter().flatten() {
            is_of_tickets |= symbol?.0 == DOTTED_EXPLANATION.as_bytes();
        }
        for member in archive.members() {
            let file = fs::canonicalize(member?.thin_path(path));
            is_of_tickets |= file.is_ok_and(|file| self.replaced.contains_key(&file));
        }
        if !is_of_tickets {
            return Ok(None);
        }
        let made = archive_writer::thin_again(contents, |member| {
            let file = member.thin_path(path);
            let place = match member.body {
                MemberBody::Nested { header_offset } => {
                    let file = fs::canonicalize(&file).unwrap_or_default();
                    let moved = self.replaced.get(&file);
                    let now = moved.and_then(|moved| moved.get(&header_offset));
                    Some(now.copied().unwrap_or(header_offset))
                }
                _ => None,
            };
            let bytes = bytes_at(&file, place).map_err(|error| Failed::of_member(path, error))?;
            if is_ticket(&bytes) {
                return Err(Failed(anyhow!(
                    "{}: a thin archive, whose member {} is a ticket: materialize that first",
                    path.display(),
                    file.display()
                )));
            }
            Ok(Outside { bytes, place })
        });
        match made {
            Ok(bytes) if bytes == contents => Ok(None),
            Ok(bytes) => Ok(Some(Made {
                bytes,
                objects: 0,
                moved: HashMap::new(),
            })),
            Err(Failed(error)) => Err(error),
        }
    }

    /// The object that a ticket stands for. `None` if it is none.
    fn object(&mut self, path: &Path, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
        // Of a fat object that somebody has changed, too: it is the object now.
        if let Some(object) = within_fat(bytes) {
            return Ok(Some(object.to_vec()));
        }
        let Some(ticket) = Ticket::parse(bytes)? else {
            return Ok(None);
        };
        let repository = self.repository(path, &ticket).map_err(plain)?;
        if !ticket.is_sealed {
            edits::check(bytes, &ticket, repository).map_err(plain)?;
        }
        let programs = repository.programs()?;
        let compilation = programs.compilation(&ticket.compilation)?;
        Ok(Some(linker::repository::join::join(
            &programs.load(&compilation)?,
        )?))
    }

    fn repository(&mut self, near: &Path, ticket: &Ticket) -> Result<&Repository, TicketError> {
        let is_its = |(path, repository): &(PathBuf, Repository)| {
            repository.uuid() == ticket.uuid && *path == ticket.repository
        };
        let index = match self.repositories.iter().position(is_its) {
            Some(index) => index,
            None => {
                let program = self.program;
                let options = OpenOptions {
                    read_only: true,
                    patience: Some(waiting::patience(move |line| {
                        linker::tell!("{program}: {line}")
                    })),
                    ..OpenOptions::default()
                };
                let opened =
                    ticket.open_repository(self.option, near, &self.environment, &options)?;
                self.repositories.push((ticket.repository.clone(), opened));
                self.repositories.len() - 1
            }
        };
        Ok(&self.repositories[index].1)
    }

    /// All files below `root`. Symbolic links are not followed.
    fn tree(&mut self, root: &Path, place: Place<'_>) -> Result<()> {
        let mut directories = vec![root.to_owned()];
        // They come last: what they name may be anywhere.
        let mut thin_archives = Vec::new();
        while let Some(directory) = directories.pop() {
            let entries = fs::read_dir(&directory).with_context(|| cannot_read(&directory))?;
            let mut entries: Vec<_> = entries
                .collect::<io::Result<_>>()
                .with_context(|| cannot_read(&directory))?;
            entries.sort_by_key(fs::DirEntry::file_name);
            for entry in entries {
                let path = entry.path();
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => directories.push(path),
                    Ok(kind) if kind.is_file() => match kind_of(&path) {
                        Kind::ThinArchive => thin_archives.push(path),
                        Kind::ObjectOrArchive => self.file_of_tree(root, &path, place),
                        Kind::Other => {}
                    },
                    _ => {}
                }
            }
        }
        for path in thin_archives {
            self.file_of_tree(root, &path, place);
        }
        Ok(())
    }

    fn file_of_tree(&mut self, root: &Path, path: &Path, place: Place<'_>) {
        let target = match place {
            Place::InPlace => path.to_owned(),
            Place::At(output) => output.join(path.strip_prefix(root).unwrap_or(path)),
        };
        if let Err(error) = self.file(path, &target, place) {
            self.report.failed += 1;
            linker::tell!("{}: {}", self.program, store::describe(error.as_ref()));
        }
    }
}

/// What takes the place of a file.
struct Made {
    bytes: Vec<u8>,
    /// Objects in it that were tickets.
    objects: u64,
    /// Of an archive where each member's header was, and is.
    moved: HashMap<u64, u64>,
}

fn header_offsets(archive: &Archive<'_>) -> Result<Vec<u64>> {
    let offsets = archive.members().map(|member| Ok(member?.header_offset));
    offsets.collect()
}

/// The files that a thin archive names, each once.
fn files_of_thin(path: &Path) -> Result<Vec<PathBuf>> {
    let contents = Contents::of_file(path).with_context(|| cannot_read(path))?;
    let Some(contents) = contents else {
        return Ok(Vec::new());
    };
    let archive = Archive::parse(&contents).with_context(|| path.display().to_string())?;
    let mut files = Vec::new();
    for member in archive.members() {
        let member = member.with_context(|| path.display().to_string())?;
        let file = member.thin_path(path);
        let file = fs::canonicalize(&file).with_context(|| cannot_read(&file))?;
        if !files.contains(&file) {
            files.push(file);
        }
    }
    Ok(files)
}

/// An error that is ours, or the archive's.
struct Failed(anyhow::Error);

impl Failed {
    /// A member of the thin archive at `path` cannot be read.
    fn of_member(path: &Path, error: MemberError) -> Failed {
        let thin = format!("{}: a thin archive", path.display());
        Failed(anyhow::Error::new(error).context(thin))
    }
}

impl From<ArchiveError> for Failed {
    fn from(error: ArchiveError) -> Failed {
        Failed(error.into())
    }
}

impl From<anyhow::Error> for Failed {
    fn from(error: anyhow::Error) -> Failed {
        Failed(error)
    }
}

/// The repository's own error, if it is one, with advice.
fn plain(error: TicketError) -> anyhow::Error {
    match error {
        TicketError::Repository(error) => super::advised(error),
        error => error.into(),
    }
}

fn cannot_read(path: &Path) -> String {
    format!("{}: cannot read", path.display())
}

/// Whether some member of a thin archive is a ticket.
fn has_tickets(path: &Path, contents: &[u8]) -> bool {
    use ::tickets::file::{TicketFile, look_into};
    matches!(look_into(path, contents), TicketFile::Archive { tickets, .. } if !tickets.is_empty())
}

/// What a file is by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A relocatable object, or an archive with its members in it.
    ObjectOrArchive,
    ThinArchive,
    Other,
}

fn kind_of(path: &Path) -> Kind {
    let mut start = [0; 18];
    let opened = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .and_then(|mut file| file.read_exact(&mut start));
    let is_object = start.starts_with(b"\x7fELF") && start[16..] == [1, 0];
    match opened {
        Ok(()) if start.starts_with(THIN_MAGIC) => Kind::ThinArchive,
        Ok(()) if is_object || Archive::is_archive(&start) => Kind::ObjectOrArchive,
        _ => Kind::Other,
    }
}

/// Writes `bytes`, which were made of the file at `path`, to `target`.
fn put(path: &Path, target: &Path, place: Place<'_>, bytes: &[u8]) -> Result<()> {
    let cannot = || format!("{}: cannot write", target.display());
    match place {
        Place::InPlace => replace(target, bytes).with_context(cannot),
        Place::At(_) if fs::metadata(target).is_ok_and(|metadata| !metadata.is_file()) => {
            if target.is_dir() {
                return Err(anyhow!(
                    "{}: a directory; {} is made a file",
                    target.display(),
                    path.display()
                ));
            }
            fs::write(target, bytes).with_context(cannot)
        }
        Place::At(_) => guard::replace(PREFIX, target, 0o666, bytes).with_context(cannot),
    }
}

/// Puts a file with these bytes in the place of `target`, with its mode, owner and times.
fn replace(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let before = fs::symlink_metadata(target)?;
    let (temporary, mut file) = Temporary::create(PREFIX, target, 0o600)?;
    file.write_all(bytes)?;
    let now = file.metadata()?;
    if (now.uid(), now.gid()) != (before.uid(), before.gid()) {
        std::os::unix::fs::fchown(&file, Some(before.uid()), Some(before.gid()))?;
    }
    file.set_permissions(Permissions::from_mode(before.mode() & 0o7777))?;
    let times = FileTimes::new().set_modified(before.modified()?);
    file.set_times(times.set_accessed(before.accessed()?))?;
    let still = fs::symlink_metadata(target)?;
    let what = |metadata: &fs::Metadata| {
        (
            metadata.ino(),
            metadata.size(),
            metadata.mtime(),
            metadata.mtime_nsec(),
        )
    };
    if what(&still) != what(&before) {
        return Err(io::Error::other("another process writes it"));
    }
    temporary.rename(target)
}
