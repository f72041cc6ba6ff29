//! `--stats`: where the bytes are, what is shared, and how large the object files
//! would be.
//!
//! The object files are not there any more, so each compilation is joined to an ELF
//! object again, in memory, and its size counted once for each ticket on record that
//! names it (and once if none does). That is what the repository stands for, and
//! what its size is compared with.

use super::compilations::tickets_by_compilation;
use super::fragments::kind_name;
use super::model::Model;
use super::output::{Text, View, grouped};
use super::progress::Progress;
use anyhow::{Context, Result};
use format_spec::file::{IndexSlot, VectorSlot};
use format_spec::fragment::{FragmentHeader, SectionKind, SectionRecord};
use format_spec::ids::Address;
use format_spec::program::{Index, NameHeader, PieceHeader};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use store::engine::{Record, Snapshot};
use store::program::section_kind;

/// Where the bytes are, and how much they are worth.
#[derive(Debug, Serialize)]
pub struct Stats {
    /// Bytes of the snapshot.
    repository_bytes: u64,
    /// Bytes by kind; they add up to `repository_bytes`. What is in a pack has its share of the pack's.
    bytes: BTreeMap<String, u64>,
    definitions: Definitions,
    pieces: u64,
    names: u64,
    compilations: u64,
    tickets: u64,
    objects: Objects,
}

#[derive(Debug, Default, Serialize)]
struct Definitions {
    /// Fragments stored.
    stored: u64,
    /// Fragments of which more than one compilation is made.
    shared: u64,
    /// Members of all compilations: how many definitions there would be without sharing.
    referenced: u64,
    /// Section bytes stored.
    stored_bytes: u64,
    /// Section bytes of all members.
    referenced_bytes: u64,
}

#[derive(Debug, Default, Serialize)]
struct Objects {
    /// Object files that tickets (or compilations without one) stand for.
    count: u64,
    /// Their size together, each compilation joined again.
    bytes: u64,
    /// `repository_bytes` / `bytes`.
    ratio: Option<f64>,
}

/// Head, key and check of a record, and the zeros behind that.
fn overhead(record: &Record<'_>) -> u64 {
    record.size() - record.value.len() as u64
}

/// How many bytes of the file one of a record's stands for: fewer than one, if it is in a pack.
fn share(snapshot: &Snapshot<'_>, record: &Record<'_>) -> Result<f64> {
    let pack = snapshot.pack_of(record.address)?;
    Ok(pack.map_or(1.0, |pack| pack.stored as f64 / pack.unpacked.max(1) as f64))
}

/// Bytes by kind.
#[derive(Default)]
struct Kinds {
    bytes: BTreeMap<String, f64>,
    /// Of the record that is being counted.
    share: f64,
}

impl Kinds {
    fn add(&mut self, kind: &str, number: u64) {
        *self.bytes.entry(kind.to_owned()).or_default() += number as f64 * self.share;
    }
}

/// Counts.
pub fn collect(model: &Model<'_>) -> Result<Stats> {
    let snapshot = model.programs.snapshot();
    let mut kinds = Kinds::default();
    let mut definitions = Definitions::default();
    let mut sizes: HashMap<Address, u64> = HashMap::new();
    let total =
        snapshot.count(Index::Fragments.slot()) + 2 * snapshot.count(Index::Compilations.slot());
    let progress = Progress::new("counting", total);

    for record in model.programs.records(Index::Fragments) {
        let record = record?;
        kinds.share = share(&snapshot, &record)?;
        let view = model.programs.fragment(record.address)?;
        let (mut size, mut recorded) = (0_u64, 0_u64);
        for (number, section) in (0..).zip(view.sections()) {
            let kind = section_kind(section.record).unwrap_or(SectionKind::Other);
            let stored = section.stored.len() as u64;
            size = size.saturating_add(stored);
            let as_stored = model
                .programs
                .fragment_section_as_stored(record.address, number)?;
            let (kind, stored) = match as_stored.section.compressed {
                Some(compressed) => (
                    format!("compressed {}", kind_name(kind)),
                    compressed.size() as u64,
                ),
                None => (format!("section {}", kind_name(kind)), stored),
            };
            kinds.add(&kind, stored);
            recorded = recorded.saturating_add(stored);
        }
        let records = size_of::<FragmentHeader>()
            + view.section_count() * size_of::<SectionRecord>()
            + size_of_val(view.anonymous())
            + size_of_val(view.targets());
        kinds.add("fragment records", records as u64);
        let rest = (record.value.len() as u64).saturating_sub(records as u64 + recorded);
        kinds.add("fixups", rest);
        kinds.add("keys and heads", overhead(&record));
        sizes.insert(record.address, size);
        definitions.stored += 1;
        definitions.stored_bytes += size;
        progress.step();
    }

    let mut users: HashMap<Address, u32> = HashMap::new();
    for compilation in model.compilations() {
        let compilation = compilation?;
        let mut own = HashSet::new();
        for member in compilation.members() {
            definitions.referenced += 1;
            definitions.referenced_bytes += sizes.get(&member.fragment).copied().unwrap_or(0);
            if own.insert(member.fragment) {
                *users.entry(member.fragment).or_default() += 1;
            }
        }
        let record = compilation.record();
        kinds.share = share(&snapshot, &record)?;
        let form = match compilation.base() {
            Some(_) => Some("compilation differences"),
            None if record.value.len() != compilation.size() => Some("compressed compilations"),
            None => None,
        };
        if let Some(form) = form {
            kinds.add(form, record.value.len() as u64);
            kinds.add("keys and heads", overhead(&record));
            progress.step();
            continue;
        }
        kinds.add(
            "compilation members",
            size_of_val(compilation.members()) as u64,
        );
        kinds.add(
            "compilation symbols",
            size_of_val(compilation.symbols()) as u64,
        );
        kinds.add(
            "compilation groups",
            size_of_val(compilation.groups()) as u64,
        );
        let known = size_of_val(compilation.members())
            + size_of_val(compilation.symbols())
            + size_of_val(compilation.groups());
        kinds.add(
            "compilation bindings and heads",
            (record.value.len() - known) as u64,
        );
        kinds.add("keys and heads", overhead(&record));
        progress.step();
    }
    definitions.shared = users.values().filter(|&&users| users > 1).count() as u64;

    for slot in IndexSlot::all() {
        let (kind, head) = match Index::at(slot) {
            Some(Index::Fragments | Index::Compilations) => continue,
            Some(Index::Names) => ("names".to_owned(), size_of::<NameHeader>()),
            Some(Index::Pieces) => ("pieces".to_owned(), size_of::<PieceHeader>()),
            Some(index) => (index.name().to_owned(), 0),
            None => (format!("index {slot}, of an unknown kind"), 0),
        };
        for record in snapshot.iter(slot) {
            let record = record?;
            kinds.share = share(&snapshot, &record)?;
            kinds.add(&kind, record.value.len().saturating_sub(head) as u64);
            kinds.add("keys and heads", overhead(&record) + head as u64);
        }
    }
    kinds.share = 1.0;
    let mut tries = 0;
    for slot in IndexSlot::all() {
        tries += snapshot.index_size(slot)?.bytes;
    }
    for slot in VectorSlot::all() {
        tries += snapshot.vector_size(slot)?.bytes;
    }
    kinds.add("tries of the indices", tries);
    let mut trailers = 0;
    for revision in snapshot.revisions() {
        trailers += revision?.trailer().size();
    }
    kinds.add("transaction trailers", trailers);
    let bytes = kinds.bytes.into_iter();
    let mut bytes: BTreeMap<_, _> = bytes.map(|(kind, bytes)| (kind, bytes as u64)).collect();
    let known: u64 = bytes.values().sum();
    // Leaves and nodes that others have taken the place of, records that were replaced, pushes, padding.
    bytes.insert(
        "superseded and other".to_owned(),
        snapshot.size().saturating_sub(known),
    );

    let objects = objects(model, snapshot.size(), &progress)?;
    progress.finish();
    Ok(Stats {
        repository_bytes: snapshot.size(),
        bytes,
        definitions,
        pieces: snapshot.count(Index::Pieces.slot()),
        names: snapshot.count(Index::Names.slot()),
        compilations: snapshot.count(Index::Compilations.slot()),
        tickets: snapshot.count(Index::Tickets.slot()),
        objects,
    })
}

fn objects(model: &Model<'_>, repository_bytes: u64, progress: &Progress) -> Result<Objects> {
    let tickets = tickets_by_compilation(model)?;
    let mut objects = Objects::default();
    for compilation in model.compilations() {
        let compilation = compilation?;
        let record = compilation.record();
        let object = linker::repository::join::join(&model.programs.load(&compilation)?)
            .with_context(|| format!("compilation {:.12}", record.key()))?;
        let times = tickets
            .get(&record.address)
            .map_or(1, |paths| paths.len() as u64);
        objects.count += times;
        objects.bytes += times * object.len() as u64;
        progress.step();
    }
    if objects.bytes > 0 {
        objects.ratio = Some(repository_bytes as f64 / objects.bytes as f64);
    }
    Ok(objects)
}

impl View for Stats {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        let style = out.style;
        let percent = |part: u64| 100.0 * part as f64 / self.repository_bytes.max(1) as f64;
        writeln!(out, "{}", style.heading("bytes by kind"))?;
        let mut kinds: Vec<_> = self.bytes.iter().filter(|(_, bytes)| **bytes > 0).collect();
        kinds.sort_by(|a, b| b.1.cmp(a.1));
        for (kind, &bytes) in kinds {
            writeln!(
                out,
                "  {kind:<30} {:>15}  {:>5.1}%",
                grouped(bytes),
                percent(bytes)
            )?;
        }
        writeln!(
            out,
            "  {:<30} {:>15}",
            "repository",
            grouped(self.repository_bytes)
        )?;
        let d = &self.definitions;
        writeln!(out, "\n{}", style.heading("definitions"))?;
        writeln!(
            out,
            "  {} stored, {} of them shared by several compilations",
            grouped(d.stored),
            grouped(d.shared)
        )?;
        writeln!(
            out,
            "  {} without sharing ({} bytes instead of {})",
            grouped(d.referenced),
            grouped(d.referenced_bytes),
            grouped(d.stored_bytes)
        )?;
        writeln!(
            out,
            "  {} pieces, {} names, {} compilations, {} tickets on record",
            grouped(self.pieces),
            grouped(self.names),
            grouped(self.compilations),
            grouped(self.tickets)
        )?;
        writeln!(out, "\n{}", style.heading("object files"))?;
        write!(
            out,
            "  {} objects of {} bytes together, as --materialize writes them",
            grouped(self.objects.count),
            grouped(self.objects.bytes)
        )?;
        match self.objects.ratio {
            Some(ratio) => writeln!(out, ": the repository is {ratio:.2} times that"),
            None => writeln!(out),
        }
    }
}
