//! After a link: the image is recorded in the repositories that its tickets come
//! from, so that their compactor keeps what the output was made of. So are archives of tickets, which may be installed and
//! outlive the objects that they were made of.

use crate::args::Args;
use crate::input::file::Files;
use crate::input::object::{Object, Source};
use crate::input::temporary_name::lasting;
use format_spec::digest::Digest;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use store::engine::{Store, Trust};
use store::program::locate::Environment;
use store::program::{NewImage, NewImageInput, ProgramError, SeenArchive, record_image};

/// What a link's images say of its inputs, for the repository of each ticket that was linked. A link without tickets
/// is recorded nowhere.
pub struct Images<'f>(Vec<OfStore<'f>>);

/// What one repository is told.
struct OfStore<'f> {
    store: &'f Store,
    inputs: Vec<NewImageInput>,
    archives: Vec<SeenArchive>,
}

impl<'f> Images<'f> {
    /// Collects it. This takes some milliseconds for thousands of inputs, and needs nothing of the output.
    pub fn collect(files: &'f Files, linked: &[bool]) -> Images<'f> {
        let mut stores: BTreeMap<[u8; 16], &Store> = BTreeMap::new();
        for ((_, file), linked) in files.iter().zip(linked) {
            if let (Some(Object(Source::Ticket(ticket))), true) = (file.object(), *linked) {
                stores.insert(ticket.store().uuid(), ticket.store());
            }
        }
        let temporary = std::env::temp_dir();
        let inputs = |uuid: [u8; 16]| {
            let mut inputs = Vec::new();
            for ((_, file), linked) in files.iter().zip(linked) {
                let compilation = match file.object() {
                    None if file.shared().is_none() => continue,
                    Some(_) if !linked => continue,
                    Some(Object(Source::Ticket(ticket))) if ticket.store().uuid() == uuid => {
                        Some(ticket.digest())
                    }
                    _ => None,
                };
                let whole = std::path::absolute(file.path).unwrap_or_else(|_| file.path.to_owned());
                let mut path = lasting(whole.as_os_str().as_bytes(), &temporary).into_owned();
                if let Some(member) = file.member {
                    path.extend([b"(", member, b")"].concat());
                }
                inputs.push(NewImageInput { compilation, path });
            }
            inputs
        };
        let stores = stores.into_values().map(|store| OfStore {
            store,
            inputs: inputs(store.uuid()),
            archives: archives(files, store),
        });
        Images(stores.collect())
    }

    /// Records the output, which is there.
    ///
    /// # Errors
    /// If a repository cannot be written. The output is right all the same.
    pub fn record(&self, args: &Args, output_size: u64) -> Result<(), ProgramError> {
        if self.0.is_empty() {
            return Ok(());
        }
        // An output that is no file of its own (`/dev/null`) cannot keep anything alive.
        let Ok(path) = std::fs::canonicalize(&args.output) else {
            return Ok(());
        };
        if !path.is_file() {
            return Ok(());
        }
        for of in &self.0 {
            let archives: &[SeenArchive] = match is_own(of.store, args) {
                true => &of.archives,
                false => &[],
            };
            record_image(
                of.store,
                &NewImage {
                    path: &path,
                    options: options_digest(),
                    output_size,
                    inputs: &of.inputs,
                    archives,
                },
            )?;
        }
        Ok(())
    }
}

/// The archives with tickets of a repository, whether they were needed or not.
fn archives(files: &Files, store: &Store) -> Vec<SeenArchive> {
    let mut seen: HashSet<&Path> = HashSet::new();
    let mut archives = Vec::new();
    for (_, file) in files.iter() {
        // Members of an archive follow each other, and there are few archives.
        if let (Some(Object(Source::Ticket(ticket))), Some(_)) = (file.object(), file.member)
            && ticket.store().uuid() == store.uuid()
            && seen.insert(file.path)
            && let Ok(path) = std::fs::canonicalize(file.path)
        {
            archives.push(SeenArchive {
                path,
                compilation: ticket.digest(),
            });
        }
    }
    archives
}

/// Whether a repository is the user's own, or was named by hand: who links from others' may be somebody whose archives their
/// owner's compactor could not even look at.
fn is_own(store: &Store, args: &Args) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let is_users = store.file().metadata().is_ok_and(|of| of.uid() == user);
    is_users || args.repo.is_some() || Environment::current().trust_in(store.path()) == Trust::Named
}

/// Tells the user that an output is recorded nowhere, if that is news: who links from a repository that belongs to others
/// knows that. It is no warning that `--fatal-warnings` makes an error, as the output is there.
pub fn tell_unrecorded(args: &Args, why: &ProgramError) {
    let source = std::error::Error::source(why);
    let kind = std::iter::successors(source, |error| error.source())
        .find_map(|error| error.downcast_ref::<std::io::Error>())
        .map(std::io::Error::kind);
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    if !matches!(kind, Some(PermissionDenied | ReadOnlyFilesystem)) {
        crate::tell!(
            "repo-ld: warning: {} is complete, but repo-gc will not know what it was made of: {}",
            args.output.display(),
            store::describe(why)
        );
    }
}

/// Digest of the command line, but for what is another in each run.
fn options_digest() -> Digest {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let temporary = std::env::temp_dir();
    let mut bytes = Vec::new();
    for word in &words {
        bytes.extend_from_slice(&lasting(word.as_bytes(), &temporary));
        bytes.push(0);
    }
    Digest::of(&bytes)
}
