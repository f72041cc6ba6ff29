//! After a link: the image is recorded in the repositories that its tickets come
//! from, so that their compactor keeps what the output was made of.

use crate::args::Args;
use crate::file::Files;
use crate::object::Object;
use format_spec::digest::Digest;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use store::engine::Store;
use store::program::{NewImage, NewImageInput, ProgramError, record_image};

/// Records the output of a link in the repository of each ticket that was linked. A link
/// without tickets is recorded nowhere.
///
/// # Errors
/// If a repository cannot be written. The output is right all the same.
pub fn record(
    args: &Args,
    files: &Files,
    linked: &[bool],
    output_size: u64,
) -> Result<(), ProgramError> {
    let mut stores: BTreeMap<[u8; 16], &Store> = BTreeMap::new();
    for ((_, file), linked) in files.iter().zip(linked) {
        if let (Some(Object::Ticket(ticket)), true) = (file.object(), *linked) {
            stores.insert(ticket.store().uuid(), ticket.store());
        }
    }
    if stores.is_empty() {
        return Ok(());
    }
    // An output that is no file of its own (`/dev/null`) cannot keep anything alive.
    let Ok(path) = std::fs::canonicalize(&args.output) else {
        return Ok(());
    };
    if !path.is_file() {
        return Ok(());
    }
    for (uuid, store) in stores {
        let mut inputs = Vec::new();
        for ((_, file), linked) in files.iter().zip(linked) {
            let compilation = match file.object() {
                None if file.shared().is_none() => continue,
                Some(_) if !linked => continue,
                Some(Object::Ticket(ticket)) if ticket.store().uuid() == uuid => {
                    Some(ticket.digest())
                }
                _ => None,
            };
            let whole = std::path::absolute(file.path).unwrap_or_else(|_| file.path.to_owned());
            let mut path = whole.into_os_string().into_encoded_bytes();
            if let Some(member) = file.member {
                path.extend([b"(", member, b")"].concat());
            }
            inputs.push(NewImageInput { compilation, path });
        }
        let options = options_digest();
        record_image(
            store,
            &NewImage {
                path: &path,
                options,
                output_size,
                inputs: &inputs,
            },
        )?;
    }
    Ok(())
}

/// Digest of the command line.
fn options_digest() -> Digest {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut bytes = Vec::new();
    for word in &words {
        bytes.extend_from_slice(word.as_bytes());
        bytes.push(0);
    }
    Digest::of(&bytes)
}
