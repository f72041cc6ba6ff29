//! Recording linked images: what an output was made of, so that a compactor keeps
//! that for as long as the output exists, and tools can tell.
//!
//! With them, archives of tickets that the link has seen: such a one may be installed, and keeps its members alive when
//! the objects that it was made of are gone. One record says where it is, once; what is in it, the compactor looks up there.

use super::Result;
use super::adder::Adder;
use super::copy::align;
use super::view::Programs;
use crate::engine::{Durability, Reader, Store};
use format_spec::digest::Digest;
use format_spec::ids::Address;
use format_spec::program::{ImageHeader, ImageInputRecord, Index, TicketHeader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// An input of an image that is to be recorded.
#[derive(Clone, Debug)]
pub struct NewImageInput {
    /// The compilation; `None` for an input that is none of this repository.
    pub compilation: Option<Digest>,
    /// The file, `archive(member)` for a member of an archive.
    pub path: Vec<u8>,
}

/// An image that is to be recorded.
#[derive(Clone, Debug)]
pub struct NewImage<'a> {
    /// The output's absolute path.
    pub path: &'a Path,
    /// Digest of the options that shape the output.
    pub options: Digest,
    /// Size of the output, bytes.
    pub output_size: u64,
    /// What was linked, in command-line order.
    pub inputs: &'a [NewImageInput],
    /// The archives with tickets of this repository.
    pub archives: &'a [SeenArchive],
}

/// An archive that has tickets.
#[derive(Clone, Debug)]
pub struct SeenArchive {
    /// The archive's absolute path, without symbolic links.
    pub path: PathBuf,
    /// The compilation that one of the tickets in it names.
    pub compilation: Digest,
}

/// Records an image in the repository of `store`, in place of an older one of the same
/// output. Nothing is written if that says the same already.
///
/// # Errors
/// If the repository is damaged, or cannot be written.
pub fn record_image(store: &Store, image: &NewImage<'_>) -> Result<()> {
    let key = Digest::of(image.path.as_os_str().as_bytes());
    let programs = Programs::new(store.snapshot()?);
    let unknown: Vec<_> = (image.archives.iter())
        .map(|archive| (archive, Digest::of(archive.path.as_os_str().as_bytes())))
        .filter(|(_, key)| {
            // Whatever the record says: where the archive is, it does say. (What the disk has damaged is made anew.)
            let known = programs.snapshot().get(Index::Tickets.slot(), key);
            !known.is_ok_and(|known| known.is_some_and(|record| record.is_whole()))
        })
        .collect();
    let is_known = is_recorded(&programs, &key, image)?;
    if is_known && unknown.is_empty() {
        return Ok(());
    }
    let mut adder = Adder::new(store.begin(Durability::Lazy)?)?;
    for (archive, key) in unknown {
        adder.archive(archive, &key, store.now())?;
    }
    if !is_known {
        adder.image(image, &key, store.now())?;
    }
    adder.transaction.commit()?;
    Ok(())
}

impl Adder<'_> {
    /// Adds the record of an archive, which is that of a ticket.
    fn archive(&mut self, archive: &SeenArchive, key: &Digest, now: u64) -> Result<()> {
        let index = Index::Compilations.slot();
        // It may have gone since it was read, if the compactor ran.
        let Some(compilation) = self.transaction.get(index, &archive.compilation)? else {
            return Ok(());
        };
        let header = TicketHeader {
            compilation: compilation.address,
            written: now,
        };
        let mut value = bytemuck::bytes_of(&header).to_vec();
        value.extend_from_slice(archive.path.as_os_str().as_bytes());
        self.transaction
            .replace(Index::Tickets.slot(), key, &value)?;
        Ok(())
    }

    fn image(&mut self, image: &NewImage<'_>, key: &Digest, now: u64) -> Result<()> {
        let path = image.path.as_os_str().as_bytes();
        let header = ImageHeader {
            options: image.options,
            written: now,
            output_size: image.output_size,
            path_size: path.len() as u32,
            input_count: image.inputs.len() as u32,
            reserved: [0; 2],
        };
        let mut value = bytemuck::bytes_of(&header).to_vec();
        align(&mut value);
        value.extend_from_slice(path);
        align(&mut value);
        for input in image.inputs {
            // It may have gone since it was read, if the compactor ran: then it is none of ours.
            let compilation = match &input.compilation {
                Some(digest) => self.transaction.get(Index::Compilations.slot(), digest)?,
                None => None,
            };
            let record = ImageInputRecord {
                compilation: compilation.map_or(Address(0), |record| record.address),
                path: self.name(&input.path)?,
                reserved: 0,
            };
            value.extend_from_slice(bytemuck::bytes_of(&record));
        }
        self.transaction
            .replace(Index::Images.slot(), key, &value)?;
        Ok(())
    }
}

fn is_recorded(programs: &Programs<'_>, key: &Digest, image: &NewImage<'_>) -> Result<bool> {
    let Some(record) = programs.snapshot().get(Index::Images.slot(), key)? else {
        return Ok(false);
    };
    let known = programs.image(&record)?;
    if known.header.options != image.options
        || known.header.output_size != image.output_size
        || known.inputs.len() != image.inputs.len()
    {
        return Ok(false);
    }
    for (known, input) in known.inputs.iter().zip(image.inputs) {
        let compilation = match known.compilation {
            Address(0) => None,
            address => Some(programs.snapshot().record_at(address)?.key()),
        };
        if compilation != input.compilation || programs.name(known.path)? != input.path {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Repository;

    #[test]
    fn an_image_is_recorded_once_and_replaced_when_it_changes() {
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::open_or_create(&dir.path().join("r.repo")).unwrap();
        let input = |path: &str| NewImageInput {
            compilation: None,
            path: path.into(),
        };
        let mut inputs = vec![input("/lib/libc.so.6"), input("a.a(x.o)")];
        let record = |inputs: &[NewImageInput], size| {
            let image = NewImage {
                path: Path::new("/tmp/out"),
                options: Digest::of(b""),
                output_size: size,
                inputs,
                archives: &[],
            };
            record_image(repository.store(), &image).unwrap();
            repository.programs().unwrap().snapshot().revision()
        };
        let first = record(&inputs, 100);
        assert_eq!(record(&inputs, 100), first);
        assert!(record(&inputs, 101) > first);
        inputs.pop();
        record(&inputs, 101);
        let programs = repository.programs().unwrap();
        let images: Vec<_> = programs
            .records(Index::Images)
            .map(|r| r.unwrap())
            .collect();
        assert_eq!(images.len(), 1);
        let view = programs.image(&images[0]).unwrap();
        assert_eq!(view.path, b"/tmp/out");
        assert_eq!(view.inputs.len(), 1);
        assert_eq!(
            programs.name(view.inputs[0].path).unwrap(),
            b"/lib/libc.so.6"
        );
    }
}
