//! Copying what is live into a new file, and putting that into the old one's place.
//!
//! The new file is made beside the old one, as `NAME.gc-tmp`. Two compactors in one
//! directory would be in each other's way, so each locks the directory (`flock`, which
//! the kernel undoes however the process ends); who has the lock may take away what a
//! killed one left.
//!
//! The only moment that decides is the renaming. Before it, the old file is whole and
//! in use; after it, the new one, which was verified and is on the disk.

use crate::report::Report;
use crate::roots::{Survey, Wishes, survey};
use anyhow::{Context, Result, bail};
use format_spec::file::{INDEX_SLOTS, VECTOR_SLOTS};
use format_spec::ids::Address;
use format_spec::program::{Index, TicketHeader};
use rustix::fs::FlockOperation;
use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use store::engine::{Durability, OpenOptions, Snapshot, Store};
use store::guard;
use store::program::{Copier, Programs, Repository, TicketView};

/// Rounds of catching up with writers before the lock is taken all the same.
const ROUNDS: usize = 8;

/// Who wants to know how far it is.
pub trait Observer {
    /// Something of so many steps begins.
    fn begin(&self, what: &'static str, steps: u64);
    /// A step of it is done.
    fn step(&self);
}

/// An observer that does not care.
pub struct Silent;

impl Observer for Silent {
    fn begin(&self, _: &'static str, _: u64) {}
    fn step(&self) {}
}

/// What a compaction of the repository at `path` would throw away.
///
/// # Errors
/// If it cannot be opened or is damaged.
pub fn dry_run(path: &Path, wishes: &Wishes) -> Result<Report> {
    let repository = Repository::open_read_only(path)?;
    let programs = repository.programs()?;
    let survey = survey(&programs, wishes)?;
    Report::new(&programs, &survey, true)
}

/// Compacts the repository at `path`.
///
/// # Errors
/// If it is damaged, or something cannot be written. Then it is as it was before.
pub fn compact(path: &Path, wishes: &Wishes, observer: &dyn Observer) -> Result<Report> {
    // Renaming onto a symbolic link would replace the link.
    let path =
        std::fs::canonicalize(path).with_context(|| format!("{}: cannot open", path.display()))?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    let _only = lock_directory(directory)?;
    let old = Repository::open(&path)?;
    let metadata = std::fs::metadata(&path)?;
    if metadata.nlink() > 1 {
        bail!(
            "{}: has {} names (hard links); compacting would separate them",
            path.display(),
            metadata.nlink()
        );
    }
    let programs = old.programs()?;
    refuse_unknown(&programs)?;
    observer.begin("looking for tickets", 0);
    let survey = survey(&programs, wishes)?;
    let mut report = Report::new(&programs, &survey, false)?;

    let temporary = Temporary::new(&path)?;
    let new = temporary.create(old.uuid())?;
    let mut copier = Copier::new(&new)?;
    copy_live(&programs, &survey, &mut copier, wishes.now, observer)?;
    copier.commit()?;
    observer.begin("verifying", 0);
    new.store().verify()?;

    let mut seen = programs.snapshot();
    for _ in 0..ROUNDS {
        let now = old.programs()?;
        if now.snapshot().revision() == seen.revision() {
            break;
        }
        copy_added(&now, seen.size(), &new)?;
        seen = now.snapshot();
    }
    swap(&old, &new, seen, &temporary, directory)?;
    report.bytes_after = Some(std::fs::metadata(&path)?.len());
    Ok(report)
}

/// The last of what writers added, and the renaming, while they wait.
fn swap(
    old: &Repository,
    new: &Repository,
    seen: Snapshot<'_>,
    temporary: &Temporary,
    directory: &Path,
) -> Result<()> {
    // Never committed: it is the old file's write lock that matters.
    let lock = old.store().begin(Durability::Lazy)?;
    let last = lock.base();
    if last.revision() != seen.revision() {
        copy_added(&Programs::new(last), seen.size(), new)?;
    }
    new.store().sync()?;
    temporary.take_place(directory)?;
    drop(lock);
    Ok(())
}

/// Refuses what this program does not know how to copy, rather than lose it.
fn refuse_unknown(programs: &Programs<'_>) -> Result<()> {
    let snapshot = programs.snapshot();
    for slot in 0..INDEX_SLOTS as u8 {
        if slot > Index::Images as u8 && snapshot.count(slot) > 0 {
            bail!(
                "{}: has records in index {slot}, which this version of repo-gc does not know",
                snapshot.store().path().display()
            );
        }
    }
    for slot in 2..VECTOR_SLOTS as u8 {
        if snapshot.vector_len(slot) > 0 {
            bail!(
                "{}: has elements in vector {slot}, which this version of repo-gc does not know",
                snapshot.store().path().display()
            );
        }
    }
    Ok(())
}

fn copy_live(
    programs: &Programs<'_>,
    survey: &Survey,
    copier: &mut Copier<'_>,
    now: u64,
    observer: &dyn Observer,
) -> Result<()> {
    // In the order of paths: what was built together is linked together.
    let mut order: Vec<_> = survey.live.iter().collect();
    order.sort_unstable_by(|a, b| (a.1, a.0).cmp(&(b.1, b.0)));
    observer.begin("copying", order.len() as u64);
    for (&address, _) in order {
        copier.compilation(programs, &programs.compilation_at(address)?)?;
        observer.step();
    }
    copy_types(programs, 0, copier)?;
    for ticket in survey.tickets.iter().filter(|ticket| ticket.gone.is_none()) {
        let record = programs.snapshot().get(Index::Tickets as u8, &ticket.key)?;
        let record = record.context("a ticket's record disappeared")?;
        let compilation = programs.compilation_at(ticket.compilation)?;
        let address = copier.compilation(programs, &compilation)?;
        copier.ticket(&programs.ticket(&record)?, address)?;
    }
    for (path, compilation) in &survey.found {
        let compilation = programs.compilation_at(*compilation)?;
        let address = copier.compilation(programs, &compilation)?;
        let header = TicketHeader {
            compilation: address,
            written: now,
        };
        let path = path.as_os_str().as_bytes();
        copier.ticket(
            &TicketView {
                header: &header,
                path,
            },
            address,
        )?;
    }
    for (key, _, _) in survey.images.iter().filter(|(_, _, gone)| gone.is_none()) {
        let record = programs.snapshot().get(Index::Images as u8, key)?;
        let record = record.context("an image's record disappeared")?;
        copier.image(programs, &programs.image(&record)?)?;
    }
    Ok(())
}

/// Copies everything that was added at `since` or after: it is all new, so it is live.
fn copy_added(programs: &Programs<'_>, since: u64, new: &Repository) -> Result<()> {
    refuse_unknown(programs)?;
    let is_new = |address: Address| address.0 >= since;
    let mut copier = Copier::new(new)?;
    for record in programs.records(Index::Compilations) {
        let record = record?;
        if is_new(record.address) {
            copier.compilation(programs, &programs.compilation_at(record.address)?)?;
        }
    }
    copy_types(programs, since, &mut copier)?;
    for record in programs.records(Index::Tickets) {
        let record = record?;
        if is_new(record.address) {
            // It may name a compilation that was dead until then.
            let view = programs.ticket(&record)?;
            let compilation = programs.compilation_at(view.header.compilation)?;
            let address = copier.compilation(programs, &compilation)?;
            copier.ticket(&view, address)?;
        }
    }
    for record in programs.records(Index::Images) {
        let record = record?;
        if is_new(record.address) {
            copier.image(programs, &programs.image(&record)?)?;
        }
    }
    Ok(copier.commit()?)
}

/// Types have no roots yet (nothing refers to them but other types), so all are kept.
fn copy_types(programs: &Programs<'_>, since: u64, copier: &mut Copier<'_>) -> Result<()> {
    let mut addresses = Vec::new();
    for record in programs.records(Index::Types) {
        let record = record?;
        if record.address.0 >= since {
            addresses.push(record.address);
        }
    }
    addresses.sort_unstable();
    for address in addresses {
        let record = programs.snapshot().record_at(address)?;
        copier.type_entry(programs, &programs.type_entry(&record)?)?;
    }
    Ok(())
}

/// Makes this the only compactor that works in `directory`.
fn lock_directory(directory: &Path) -> Result<File> {
    let file =
        File::open(directory).with_context(|| format!("{}: cannot open", directory.display()))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            bail!("{}: another repo-gc is at work here", directory.display())
        }
        Err(error) => Err(error).with_context(|| format!("{}: cannot lock", directory.display())),
    }
}

/// The new file while it has its temporary name; removed if it is not to be.
struct Temporary {
    path: PathBuf,
    place: PathBuf,
    /// Removes the file, also if the process is ended by a signal.
    file: RefCell<Option<guard::Temporary>>,
}

/// What is added to the repository's name, of which only so much is kept as there is room for.
const SUFFIX: &[u8] = b".gc-tmp";

impl Temporary {
    fn new(place: &Path) -> Result<Temporary> {
        let name = place.file_name().unwrap_or_default().to_owned();
        // The longest that a file system has.
        const LONGEST: usize = 255;
        let mut name = name.into_vec();
        name.truncate(LONGEST - SUFFIX.len());
        name.extend_from_slice(SUFFIX);
        let path = place.with_file_name(OsString::from_vec(name));
        // What a killed compactor left.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("{}: cannot remove", path.display()))
            }
            _ => Ok(Temporary {
                path,
                place: place.to_owned(),
                file: RefCell::new(None),
            }),
        }
    }

    fn create(&self, uuid: [u8; 16]) -> Result<Repository> {
        let options = OpenOptions {
            create: true,
            uuid: Some(uuid),
            ..OpenOptions::default()
        };
        let store = Store::open(&self.path, &options)?;
        self.file
            .replace(guard::Temporary::of_file(&self.path).ok());
        Ok(Repository::new(store))
    }

    /// Gives the file the owner and permissions of the old one, and its name.
    fn take_place(&self, directory: &Path) -> Result<()> {
        let cannot = |what: &'static str| format!("{}: cannot {what}", self.path.display());
        let old = std::fs::metadata(&self.place)?;
        let new = std::fs::metadata(&self.path)?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
            std::os::unix::fs::chown(&self.path, Some(old.uid()), Some(old.gid()))
                .with_context(|| cannot("give it the owner of the old file"))?;
        }
        std::fs::set_permissions(&self.path, old.permissions())
            .with_context(|| cannot("set the permissions"))?;
        match self.file.take() {
            Some(file) => file.rename(&self.place),
            None => std::fs::rename(&self.path, &self.place),
        }
        .with_context(|| cannot("rename"))?;
        guard::output_is_complete();
        // From here on the new file is the repository, whatever happens: a directory
        // that cannot be synced leaves one or the other, and both are good.
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After the renaming there is nothing of this name.
        let _ = std::fs::remove_file(&self.path);
    }
}
