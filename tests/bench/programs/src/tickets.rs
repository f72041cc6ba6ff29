//! A link from tickets only: every object and every archive member among a
//! linker's arguments, the compiler's and the system's own too, is imported and
//! exchanged for its ticket. What remains are shared objects, linker scripts and
//! the few objects that cannot be split.

use anyhow::{Context as _, Result, ensure};
use bumpalo::Bump;
use linker::repository::import::prepare;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use store::program::{Addition, Prepared, Repository};
use tickets::archive::Archive;
use tickets::ticket_bytes;

/// Bytes of objects that are imported in one transaction.
const BATCH: usize = 16 << 20;

/// A link from tickets.
pub struct Exchanged {
    /// The linker's arguments.
    pub words: Vec<OsString>,
    /// Bytes of the objects and archives that were exchanged.
    pub bytes: u64,
}

/// The arguments `words` of a linker with tickets in place of objects, and
/// archives of tickets in place of archives. The tickets are in `directory`,
/// and what they name is in `repository`.
///
/// # Errors
/// If a file cannot be read, imported or written.
pub fn exchange(
    words: &[OsString],
    repository: &Repository,
    directory: &Path,
) -> Result<Exchanged> {
    let directories: Vec<PathBuf> = words
        .iter()
        .filter_map(|word| word.as_bytes().strip_prefix(b"-L"))
        .map(|path| PathBuf::from(OsStr::from_bytes(path)))
        .collect();
    let mut exchanged: HashMap<PathBuf, OsString> = HashMap::new();
    let mut is_static = false;
    let mut result = Vec::new();
    // Of the libraries: linker scripts ask for them by name (`libgcc_s.so` for `-lgcc`).
    let mut places = Vec::new();
    let mut bytes_in_all = 0;
    let mut is_value = false;
    for word in words {
        let bytes = word.as_bytes();
        let path = match bytes {
            _ if std::mem::take(&mut is_value) => None,
            b"-o" | b"-m" | b"-z" | b"-plugin" | b"-dynamic-linker" => {
                is_value = true;
                None
            }
            b"-static" | b"-Bstatic" => {
                is_static = true;
                None
            }
            b"-Bdynamic" => {
                is_static = false;
                None
            }
            [b'-', b'l', name @ ..] => library(&directories, OsStr::from_bytes(name), is_static),
            [b'-', ..] => None,
            _ => Some(PathBuf::from(word)),
        };
        let new = match path {
            None => None,
            Some(path) => match exchanged.get(&path) {
                Some(known) => Some(known.clone()),
                None => {
                    let number = exchanged.len();
                    let new = exchange_file(&path, repository, directory, number)?;
                    if new.is_some() {
                        bytes_in_all += fs::metadata(&path)?.len();
                        if bytes.starts_with(b"-l") {
                            let mut place = OsString::from("-L");
                            place.push(directory.join(number.to_string()));
                            places.push(place);
                        }
                    }
                    exchanged.extend(new.clone().map(|new| (path, new)));
                    new
                }
            },
        };
        result.push(new.unwrap_or_else(|| word.clone()));
    }
    places.append(&mut result);
    Ok(Exchanged {
        words: places,
        bytes: bytes_in_all,
    })
}

/// The archive that `-l` means, if it means one.
fn library(directories: &[PathBuf], name: &OsStr, is_static: bool) -> Option<PathBuf> {
    let file = |suffix: &str| {
        let mut file = OsString::from("lib");
        file.push(name);
        file.push(suffix);
        file
    };
    for directory in directories {
        if !is_static && directory.join(file(".so")).exists() {
            return None;
        }
        let archive = directory.join(file(".a"));
        if archive.exists() {
            return Some(archive);
        }
    }
    None
}

/// The file that stands for an object or an archive; `None` for anything else.
fn exchange_file(
    path: &Path,
    repository: &Repository,
    directory: &Path,
    number: usize,
) -> Result<Option<OsString>> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    // `crtbegin.o` is known by its name.
    let directory = directory.join(number.to_string());
    let new = directory.join(path.file_name().unwrap_or_default());
    let is_object = bytes.starts_with(b"\x7fELF\x02") && bytes.get(16) == Some(&1);
    if is_object {
        fs::create_dir_all(&directory)?;
        let tickets = import(repository, &[(path.to_owned(), &bytes[..])])?;
        fs::write(&new, &tickets[0])?;
        return Ok(Some(new.into_os_string()));
    }
    if !Archive::is_archive(&bytes) {
        return Ok(None);
    }
    fs::create_dir_all(&directory)?;
    let archive = Archive::parse(&bytes)?;
    ensure!(!archive.is_thin(), "{}: is thin", path.display());
    let mut members = Vec::new();
    for member in archive.members() {
        let member = member?;
        let name = PathBuf::from(member.display_name().into_owned());
        members.push((name, archive.inline_data(&member).unwrap_or_default()));
    }
    let mut command = Command::new("ar");
    command.arg("qc").arg(&new);
    let mut start = 0;
    while start < members.len() {
        let mut size = 0;
        let fits = members[start..].iter().take_while(|(_, bytes)| {
            size += bytes.len();
            size < BATCH
        });
        let end = start + fits.count().max(1);
        let tickets = import(repository, &members[start..end])?;
        for (index, ticket) in tickets.into_iter().enumerate() {
            // Several members may have one name.
            let file = directory.join(format!("{}.o", start + index));
            fs::write(&file, ticket)?;
            command.arg(file);
        }
        start = end;
    }
    let done = command.output().context("cannot run ar")?;
    let why = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "ar: {why}");
    Ok(Some(new.into_os_string()))
}

/// Imports objects in one transaction; returns the bytes of their tickets, and
/// of each object that cannot be split its own.
fn import(repository: &Repository, objects: &[(PathBuf, &[u8])]) -> Result<Vec<Vec<u8>>> {
    let arena = Bump::new();
    let mut prepared = Vec::with_capacity(objects.len());
    for (path, bytes) in objects {
        prepared.push(match prepare(path, bytes, &arena) {
            Ok((mut prepared, _)) => {
                // As `repo-cc` records what it compiles.
                prepared.compress();
                Some(prepared)
            }
            Err(why) if why.is_not_splittable() => None,
            Err(why) => return Err(why.into()),
        });
    }
    let additions: Vec<_> = prepared
        .iter()
        .flatten()
        .map(|prepared| Addition {
            prepared,
            ticket: None,
        })
        .collect();
    repository.add(&additions)?;
    let file = |(prepared, (_, bytes)): (&Option<Prepared>, &(PathBuf, &[u8]))| match prepared {
        Some(prepared) => Ok(ticket_bytes(repository, &prepared.digest, &[])?),
        None => Ok(bytes.to_vec()),
    };
    prepared.iter().zip(objects).map(file).collect()
}
