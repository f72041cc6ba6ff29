//! The storage engine alone, for something other than programs: a backup that
//! keeps each piece of content once.
//!
//! ```text
//! cargo run --example backup -- BACKUP add DIRECTORY     adds what is new, as a new revision
//! cargo run --example backup -- BACKUP revisions         what was added when
//! cargo run --example backup -- BACKUP list [REVISION]   files at a revision
//! cargo run --example backup -- BACKUP cat FILE [REVISION]
//! ```
//!
//! Index 0 holds contents by their digest: a record that is there already is
//! not stored again. Index 1, which is replaced, holds for the digest of each
//! path its newest content; older revisions still have the older one. Vector 0
//! lists all paths in the order in which they were first seen.

use format_spec::digest::Digest;
use format_spec::file::{IndexSlot, VectorSlot};
use std::error::Error;
use std::fs;
use std::path::Path;
use store::engine::{Durability, OpenOptions, Reader, Snapshot, Store};

const CONTENTS: IndexSlot = IndexSlot::of::<0>();
const PATHS: IndexSlot = IndexSlot::of::<1>();
const ALL_PATHS: VectorSlot = VectorSlot::of::<0>();

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let open = |create| {
        let options = OpenOptions {
            create,
            ..OpenOptions::default()
        };
        Store::open(words[0], &options)
    };
    match words[..] {
        [_, "add", directory] => add(&open(true)?, Path::new(directory)),
        [_, "revisions"] => revisions(&open(false)?),
        [_, "list"] => list(open(false)?.snapshot()?),
        [_, "list", revision] => list(open(false)?.snapshot_at(revision.parse()?)?),
        [_, "cat", file] => cat(open(false)?.snapshot()?, file),
        [_, "cat", file, revision] => cat(open(false)?.snapshot_at(revision.parse()?)?, file),
        _ => Err("usage: backup BACKUP add DIRECTORY | revisions | list [REVISION] | cat FILE [REVISION]".into()),
    }
}

fn add(store: &Store, directory: &Path) -> Result<(), Box<dyn Error>> {
    // Read and digest before the transaction: it keeps other writers waiting.
    let mut files = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(path) = pending.pop() {
        let kind = fs::symlink_metadata(&path)?.file_type();
        if kind.is_dir() {
            for entry in fs::read_dir(&path)? {
                pending.push(entry?.path());
            }
        } else if kind.is_file() {
            let name = path.strip_prefix(directory)?.to_string_lossy().into_owned();
            let content = fs::read(&path)?;
            files.push((name, Digest::of(&content), content));
        }
    }
    let mut transaction = store.begin(Durability::Durable)?;
    let before = transaction.base().size();
    for (name, digest, content) in &files {
        transaction.insert(CONTENTS, digest, content)?;
        // The content's digest and the name, under the digest of the name.
        let mut value = digest.0.to_vec();
        value.extend_from_slice(name.as_bytes());
        let key = Digest::of(name.as_bytes());
        let is_new = transaction.get(PATHS, &key)?.is_none();
        let address = transaction.replace(PATHS, &key, &value)?;
        if is_new {
            transaction.push(ALL_PATHS, address)?;
        }
    }
    let revision = transaction.commit()?;
    let grown = store.size()? - before;
    println!(
        "{} files, revision {revision}, {grown} bytes more",
        files.len()
    );
    Ok(())
}

fn revisions(store: &Store) -> Result<(), Box<dyn Error>> {
    for snapshot in store.snapshot()?.revisions() {
        let snapshot = snapshot?;
        println!(
            "{:6}  {:10} s  {:8} files  {:8} contents  {:12} bytes",
            snapshot.revision(),
            snapshot.time() / 1_000_000_000,
            snapshot.count(PATHS),
            snapshot.count(CONTENTS),
            snapshot.size(),
        );
    }
    Ok(())
}

/// The name and the content's digest in a record of `PATHS`.
fn parse(value: &[u8]) -> Option<(&str, Digest)> {
    let (digest, name) = value.split_first_chunk::<32>()?;
    Some((std::str::from_utf8(name).ok()?, Digest(*digest)))
}

fn list(snapshot: Snapshot<'_>) -> Result<(), Box<dyn Error>> {
    for element in 0..snapshot.vector_len(ALL_PATHS) as u32 {
        let Some(address) = snapshot.vector_get(ALL_PATHS, element)? else {
            break;
        };
        // The record that was first; its key leads to the newest.
        let key = snapshot.record_at(address)?.key();
        let newest = snapshot.get(PATHS, &key)?.ok_or("path without a record")?;
        let (name, digest) = parse(newest.value).ok_or("not a backup")?;
        println!("{digest:.16}  {name}");
    }
    Ok(())
}

fn cat(snapshot: Snapshot<'_>, file: &str) -> Result<(), Box<dyn Error>> {
    let key = Digest::of(file.as_bytes());
    let record = snapshot
        .get(PATHS, &key)?
        .ok_or("no such file in this revision")?;
    let (_, digest) = parse(record.value).ok_or("not a backup")?;
    let content = snapshot
        .get(CONTENTS, &digest)?
        .ok_or("content is missing")?;
    std::io::Write::write_all(&mut std::io::stdout(), content.value)?;
    Ok(())
}
