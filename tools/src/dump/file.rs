//! Views of the file itself: header, transactions, indices.

use super::output::{Text, View, grouped, printable, size, time};
use anyhow::Result;
use format_spec::file::{Features, IndexSlot, VERSION, VectorSlot};
use format_spec::program::{Index, Vector, has_envelopes, has_kept_elements};
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;
use store::engine::{Snapshot, TrieSize};
use tickets::ticket::format_uuid;

/// The head of the file.
#[derive(Serialize)]
pub struct Header {
    path: String,
    uuid: String,
    format: u32,
    /// The bits of the snapshot's features.
    features: Bits,
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
            features: Bits::new(snapshot.features()),
            created: time(store.created()),
            file_bytes: store.file().metadata()?.len(),
            revision: snapshot.revision(),
            committed: time(snapshot.time()),
            snapshot_bytes: snapshot.size(),
        })
    }
}

/// Features, by what they mean to a program that does not know them.
#[derive(Serialize)]
struct Bits {
    compatible: u64,
    read_compatible: u64,
    incompatible: u64,
}

impl Bits {
    fn new(features: Features) -> Bits {
        Bits {
            compatible: features.compatible,
            read_compatible: features.read_compatible,
            incompatible: features.incompatible,
        }
    }

    /// For people. A program that shows them knows all but compatible ones, or does not write.
    fn in_words(&self) -> String {
        let mut words = Vec::new();
        if self.compatible & Features::ENVELOPES != 0 {
            words.push("envelopes".to_owned());
        }
        if self.incompatible & Features::PACKS != 0 {
            words.push("packs".to_owned());
        }
        for (kind, bits) in [
            ("compatible", self.compatible & !Features::ENVELOPES),
            ("read-compatible", self.read_compatible),
            ("incompatible", self.incompatible & !Features::PACKS),
        ] {
            if bits != 0 {
                words.push(format!("{kind} {bits:#x}"));
            }
        }
        match words.is_empty() {
            true => "none".to_owned(),
            false => words.join(", "),
        }
    }
}

impl View for Header {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        out.field("repository", &self.path)?;
        out.field("uuid", &self.uuid)?;
        out.field("format", self.format)?;
        out.field("features", self.features.in_words())?;
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
        let grown = |index: Index| {
            let old = before.map_or(0, |before| before.count(index.slot()));
            snapshot.count(index.slot()).saturating_sub(old)
        };
        Ok(Revision {
            revision: snapshot.revision(),
            committed: time(snapshot.time()),
            bytes: snapshot.size().saturating_sub(trailer.start),
            trailer: trailer.offset,
            new_fragments: grown(Index::Fragments),
            new_compilations: grown(Index::Compilations),
            tickets: snapshot.count(Index::Tickets.slot()),
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
    /// Whether every repository has it, perhaps empty.
    #[serde(skip)]
    is_in_all: bool,
    /// Keys or elements.
    records: u64,
    /// Words that its leaves have room for.
    capacity: u64,
    /// Nodes of its trie.
    nodes: u64,
    /// Leaves of its trie.
    leaves: u64,
    /// Bytes of both.
    bytes: u64,
}

/// The name of what this program does not know.
const UNKNOWN: &str = "unknown kind";

/// Heading for [`Table`]s.
pub const TABLE_HEADING: &str =
    "          slot  name                  records    capacity   fill   nodes  leaves       bytes";

/// All indices and vectors that have something in them, and those that every repository has.
///
/// # Errors
/// If a trie is damaged.
pub fn tables(snapshot: &Snapshot<'_>) -> Result<Vec<Table>> {
    let table =
        |kind, slot, (name, is_in_all): (Option<&'static str>, bool), records, size: TrieSize| {
            Table {
                kind,
                slot,
                name: name.unwrap_or(UNKNOWN),
                is_in_all,
                records,
                capacity: size.words,
                nodes: size.nodes,
                leaves: size.leaves,
                bytes: size.bytes,
            }
        };
    let tries = snapshot.trailer().tries();
    let mut tables = Vec::new();
    for (index, root) in IndexSlot::all().zip(&tries.indices) {
        let slot = usize::from(index.number());
        let size = snapshot.index_size(index)?;
        tables.push(table(
            "index",
            slot,
            (Index::at(index).map(Index::name), !has_envelopes(index)),
            root.count,
            size,
        ));
    }
    for (vector, root) in VectorSlot::all().zip(&tries.vectors) {
        let slot = usize::from(vector.number());
        let size = snapshot.vector_size(vector)?;
        tables.push(table(
            "vector",
            slot,
            (
                Vector::at(vector).map(Vector::name),
                !has_kept_elements(vector),
            ),
            root.length,
            size,
        ));
    }
    tables.retain(|table| table.records > 0 || table.is_in_all);
    Ok(tables)
}

impl View for Table {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        let fill = if self.capacity == 0 {
            0.0
        } else {
            100.0 * self.records as f64 / self.capacity as f64
        };
        writeln!(
            out,
            "{:<8}  {:>4}  {:<17}  {:>10}  {:>10}  {fill:>4.0}%  {:>6}  {:>6}  {:>10}",
            self.kind,
            self.slot,
            self.name,
            self.records,
            self.capacity,
            self.nodes,
            self.leaves,
            self.bytes
        )
    }
}
