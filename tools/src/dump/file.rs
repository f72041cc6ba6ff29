//! Views of the file itself: header, transactions, indices.

use super::output::{Text, View, grouped, printable, size, time};
use anyhow::Result;
use format_spec::file::{IndexRoot, VERSION};
use linker::ticket::format_uuid;
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;
use store::engine::Snapshot;

/// The head of the file.
#[derive(Serialize)]
pub struct Header {
    path: String,
    uuid: String,
    format: u32,
    created: String,
    file_bytes: u64,
    revision: u64,
    committed: String,
    snapshot_bytes: u64,
}

impl Header {
    /// Of the file that `snapshot` is of.
    pub fn new(snapshot: &Snapshot<'_>) -> Result<Header> {
        let store = snapshot.store();
        Ok(Header {
            path: printable(store.path().as_os_str().as_bytes()).into_owned(),
            uuid: format_uuid(&store.uuid()),
            format: VERSION,
            created: time(store.created()),
            file_bytes: std::fs::metadata(store.path())?.len(),
            revision: snapshot.revision(),
            committed: time(snapshot.time()),
            snapshot_bytes: snapshot.size(),
        })
    }
}

impl View for Header {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        out.field("repository", &self.path)?;
        out.field("uuid", &self.uuid)?;
        out.field("format", self.format)?;
        out.field("created", &self.created)?;
        out.field(
            "size",
            format_args!(
                "{} ({} bytes)",
                size(self.file_bytes),
                grouped(self.file_bytes)
            ),
        )?;
        out.field(
            "revision",
            format_args!(
                "{} of {}, {} bytes",
                self.revision,
                self.committed,
                grouped(self.snapshot_bytes)
            ),
        )
    }
}

/// One transaction.
#[derive(Serialize)]
pub struct Revision {
    revision: u64,
    committed: String,
    /// Bytes that the transaction appended.
    bytes: u64,
    /// Offset of its trailer.
    trailer: u64,
    /// Keys that it added, by index.
    new_fragments: u64,
    new_compilations: u64,
    tickets: u64,
}

/// Heading for [`Revision`]s.
pub const REVISION_HEADING: &str =
    "revision  committed                  bytes     trailer  +fragments  +compilations  tickets";

/// The transactions up to `newest`, newest first.
pub fn revisions<'s>(newest: Snapshot<'s>) -> impl Iterator<Item = Result<Revision>> + use<'s> {
    newest.revisions().map(|snapshot| {
        let snapshot = snapshot?;
        let trailer = snapshot.trailer();
        let before = if snapshot.revision() > 0 {
            Some(snapshot.store().snapshot_at(snapshot.revision() - 1)?)
        } else {
            None
        };
        let grown = |index: format_spec::program::Index| {
            let old = before.map_or(0, |before| before.count(index as u8));
            snapshot.count(index as u8).saturating_sub(old)
        };
        Ok(Revision {
            revision: snapshot.revision(),
            committed: time(snapshot.time()),
            bytes: snapshot.size().saturating_sub(trailer.start),
            trailer: trailer.offset,
            new_fragments: grown(format_spec::program::Index::Fragments),
            new_compilations: grown(format_spec::program::Index::Compilations),
            tickets: snapshot.count(format_spec::program::Index::Tickets as u8),
        })
    })
}

impl View for Revision {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        writeln!(
            out,
            "{:>8}  {}  {:>10}  {:>#10x}  {:>10}  {:>13}  {:>7}",
            self.revision,
            self.committed,
            self.bytes,
            self.trailer,
            self.new_fragments,
            self.new_compilations,
            self.tickets
        )
    }
}

/// An index or vector.
#[derive(Serialize)]
pub struct Table {
    kind: &'static str,
    slot: usize,
    name: &'static str,
    /// Keys or elements.
    records: u64,
    /// Words in use: of a hash table, with what was replaced since it was made.
    used: u64,
    /// Words that the table has room for.
    capacity: u64,
    /// Offset of the table; 0 if there is none.
    table: u64,
}

/// Heading for [`Table`]s.
pub const TABLE_HEADING: &str =
    "          slot  name               records        used    capacity   fill       table";

const INDEX_NAMES: [&str; 9] = [
    "names",
    "pieces",
    "fragments",
    "compilations",
    "tickets",
    "types",
    "images",
    "definitions",
    "manifests",
];
const VECTOR_NAMES: [&str; 2] = ["names", "pieces"];

/// All indices and vectors that have a name or something in them.
pub fn tables(snapshot: &Snapshot<'_>) -> Vec<Table> {
    let capacity = |table: format_spec::file::TableRef| {
        if table.is_none() {
            0
        } else {
            1_u64.checked_shl(table.log2()).unwrap_or(0)
        }
    };
    let trailer = snapshot.trailer();
    let indices = trailer.indices.iter().enumerate().map(|(slot, root)| {
        let IndexRoot { table, count, used } = *root;
        Table {
            kind: "index",
            slot,
            name: INDEX_NAMES.get(slot).copied().unwrap_or("(unknown)"),
            records: count,
            used,
            capacity: capacity(table),
            table: table.address(),
        }
    });
    let vectors = trailer
        .vectors
        .iter()
        .enumerate()
        .map(|(slot, root)| Table {
            kind: "vector",
            slot,
            name: VECTOR_NAMES.get(slot).copied().unwrap_or("(unknown)"),
            records: root.length,
            used: root.length,
            capacity: capacity(root.table),
            table: root.table.address(),
        });
    indices
        .chain(vectors)
        .filter(|table| table.name != "(unknown)" || table.records > 0)
        .collect()
}

impl View for Table {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        let fill = if self.capacity == 0 {
            0.0
        } else {
            100.0 * self.used as f64 / self.capacity as f64
        };
        writeln!(
            out,
            "{:<8}  {:>4}  {:<14}  {:>10}  {:>10}  {:>10}  {fill:>4.0}%  {:>#10x}",
            self.kind, self.slot, self.name, self.records, self.used, self.capacity, self.table
        )
    }
}
