//! Making a new, empty repository file, whole or not at all.

use super::system::System;
use bytemuck::Zeroable;
use format_spec::file::{
    BYTE_ORDER, Features, FileHeader, FileState, LOG_OFFSET, MAGIC, STATE_OFFSET, StateWord,
    VERSION,
};
use format_spec::trailer::{Trailer, TrailerStart, Tries};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::path::Path;

/// The checksum that a header should have.
pub(super) fn header_checksum(header: &FileHeader) -> u32 {
    crc32fast::hash(&bytemuck::bytes_of(header)[..offset_of!(FileHeader, checksum)])
}

/// The trailer of revision 0.
pub(super) fn first_trailer(time: u64, nonce: u64) -> Vec<u8> {
    let start = TrailerStart {
        offset: LOG_OFFSET,
        time,
        start: LOG_OFFSET,
        nonce,
        ..TrailerStart::zeroed()
    };
    // There is one of every number of tries.
    Trailer::make(&start, &Tries::default(), crc32fast::hash(&[])).unwrap_or_default()
}

/// The directory in which a file is.
pub(super) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes a repository at `path`, whole or not at all. If somebody else makes
/// it at the same time, theirs stays.
pub(super) fn create(path: &Path, uuid: Option<[u8; 16]>, system: &dyn System) -> io::Result<()> {
    let directory = directory_of(path);
    if let Ok(file) = system.open_unnamed(directory) {
        write_empty(&file, uuid, system)?;
        match system.link_unnamed(&file, path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                // Perhaps there is no /proc, or there are no links here.
            }
            _ => return Ok(()),
        }
    }
    // The file system has no files without names: one with a name that nobody
    // else uses.
    let temporary = directory.join(format!(".{:016x}.repo.tmp", system.random()?));
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL;
    let file = rustix::fs::open(&temporary, flags, Mode::RUSR | Mode::WUSR)?.into();
    let made = write_empty(&file, uuid, system).and_then(|()| {
        match system.rename_new(&temporary, path) {
            // Not known to this file system; but then links may be.
            Err(error) if is_unsupported(&error) => system.link(&temporary, path),
            other => other,
        }
    });
    // Gone already if it was renamed.
    let _ = std::fs::remove_file(&temporary);
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if is_unsupported(&error) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "its file system can neither link files nor rename without replacing",
        )),
        other => other,
    }
}

/// Whether this is how file systems say that they cannot do such a thing.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw_os_error),
        Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM)
    )
}

/// Writes an empty repository into a new file, and waits until it is on the disk.
pub(super) fn write_empty(
    file: &File,
    uuid: Option<[u8; 16]>,
    system: &dyn System,
) -> io::Result<()> {
    let uuid = match uuid {
        Some(uuid) => uuid,
        None => {
            let [high, low] = [system.random()?, system.random()?];
            // RFC 9562: version 4, variant 10.
            let uuid = u128::from(high) << 64 | u128::from(low);
            (uuid & !(0xf << 76 | 0b11 << 62) | 4 << 76 | 0b10 << 62).to_be_bytes()
        }
    };
    let now = system.now();
    let mut header = FileHeader {
        magic: MAGIC,
        version: VERSION,
        byte_order: BYTE_ORDER,
        uuid,
        created: now,
        features: Features::default(),
        reserved: 0,
        checksum: 0,
    };
    header.checksum = header_checksum(&header);
    let first = StateWord::new(LOG_OFFSET);
    let (device, inode) = system.identity(file)?;
    let state = FileState {
        head: first,
        visible: first,
        checkpoint: first,
        durable: first,
        boot_id: system.boot_id(),
        device,
        inode,
        doubt: 0,
        swept: StateWord::new(0),
        rising: StateWord::new(0),
    };
    let mut bytes = vec![0; LOG_OFFSET as usize];
    let (header_room, rest) = bytes.split_at_mut(STATE_OFFSET as usize);
    header_room[..size_of::<FileHeader>()].copy_from_slice(bytemuck::bytes_of(&header));
    rest[..size_of::<FileState>()].copy_from_slice(bytemuck::bytes_of(&state));
    bytes.extend_from_slice(&first_trailer(now, system.random()?));
    system.write_at(file, &bytes, 0)?;
    system.sync(file)
}
