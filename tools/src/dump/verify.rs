//! `--verify`: everything that can be checked, is.
//!
//! The engine checks its part: the checksum of every transaction, the chain, every
//! word of every table. Here the content is checked: the digest of every name, piece,
//! fragment and compilation is computed again from what is in the file, dense ids
//! against the vectors, and every reference from one record to another, also where what
//! a record is need not be known. All problems are collected, each with its offset.

use super::model::Model;
use super::output::{Text, View, grouped};
use super::progress::Progress;
use anyhow::Result;
use format_spec::digest::Digest;
use format_spec::file::{Features, IndexSlot, VectorSlot};
use format_spec::ids::Address;
use format_spec::program::{
    Index, NameHeader, Vector, has_envelopes, has_kept_elements, index_in_words, name_key,
    piece_key,
};
use serde::Serialize;
use store::engine::{Record, Snapshot};
use store::program::{Digester, ProgramError, Programs};

/// What `--verify` found.
#[derive(Debug, Serialize)]
pub struct Report {
    repository: String,
    revision: u64,
    /// Records whose content was checked.
    records: u64,
    bytes: u64,
    problems: Vec<Problem>,
}

/// Something that is not as it must be.
#[derive(Debug, Serialize)]
struct Problem {
    /// Where in the file, if the check knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    message: String,
}

impl Report {
    /// Whether everything is as it must be.
    pub fn is_good(&self) -> bool {
        self.problems.is_empty()
    }
}

/// More problems than these are only counted: a damaged table makes one of every record.
const LIMIT: usize = 1000;

/// Checks everything.
pub fn verify(model: &Model<'_>) -> Result<Report> {
    let snapshot = model.programs.snapshot();
    let mut problems = Vec::new();
    if let Err(error) = snapshot.store().verify() {
        problems.push(problem(error.into()));
    }
    let total = IndexSlot::all().map(|index| snapshot.count(index)).sum();
    let progress = Progress::new("verifying", total);
    let mut checker = Checker {
        programs: model.programs,
        snapshot,
        digester: Digester::default(),
    };
    let mut records = 0;
    for index in IndexSlot::all() {
        let mut found = 0;
        for record in snapshot.iter(index) {
            let result = record.map_err(ProgramError::from).and_then(|record| {
                found += 1;
                match Index::at(index) {
                    Some(known) if !has_envelopes(index) => checker.record(known, &record),
                    _ => checker.programs.check_enveloped(&record),
                }
            });
            if let Err(error) = result
                && problems.len() < LIMIT
            {
                problems.push(problem(error));
            }
            progress.step();
        }
        records += found;
        let counted = snapshot.count(index);
        if found != counted {
            problems.push(Problem {
                offset: Some(snapshot.trailer().offset),
                message: format!(
                    "{} has {found} records, but {counted} are counted",
                    index_in_words(index)
                ),
            });
        }
        let is_told = snapshot.features().compatible & Features::ENVELOPES != 0;
        if counted > 0 && has_envelopes(index) && !is_told {
            problems.push(Problem {
                offset: Some(snapshot.trailer().offset),
                message: format!(
                    "{} has records, but no feature says so",
                    index_in_words(index)
                ),
            });
        }
    }
    for vector in VectorSlot::all().filter(|vector| has_kept_elements(*vector)) {
        for element in 0..snapshot.vector_len(vector) {
            let result = checker.element(vector, element as u32);
            if let Err(error) = result
                && problems.len() < LIMIT
            {
                problems.push(problem(error));
            }
        }
    }
    for (index, vector) in [
        (Index::Names, Vector::Names),
        (Index::Pieces, Vector::Pieces),
    ] {
        let (count, length) = (
            snapshot.count(index.slot()),
            snapshot.vector_len(vector.slot()),
        );
        if count != length {
            problems.push(Problem {
                offset: Some(snapshot.trailer().offset),
                message: format!("{count} records in index {index:?}, but {length} dense ids"),
            });
        }
    }
    progress.finish();
    Ok(Report {
        repository: snapshot.store().path().display().to_string(),
        revision: snapshot.revision(),
        records,
        bytes: snapshot.size(),
        problems,
    })
}

fn problem(error: ProgramError) -> Problem {
    let offset = match &error {
        ProgramError::Damaged { address, .. } => Some(address.0),
        ProgramError::Engine(store::engine::Error::Damaged { offset, .. }) => Some(*offset),
        _ => None,
    };
    Problem {
        offset,
        message: error.to_string(),
    }
}

struct Checker<'s> {
    programs: Programs<'s>,
    snapshot: Snapshot<'s>,
    digester: Digester,
}

impl<'s> Checker<'s> {
    fn damaged<T>(&self, record: &Record<'_>, what: &'static str) -> Result<T, ProgramError> {
        Err(ProgramError::Damaged {
            path: self.snapshot.store().path().to_owned(),
            address: record.address,
            what,
        })
    }

    fn same(&self, record: &Record<'_>, computed: Digest) -> Result<(), ProgramError> {
        if record.has_key(&computed) {
            return Ok(());
        }
        self.damaged(
            record,
            "content does not have the digest that it is stored under",
        )
    }

    fn record(&mut self, index: Index, record: &Record<'s>) -> Result<(), ProgramError> {
        match index {
            Index::Names => self.name(record),
            Index::Pieces => self.piece(record),
            Index::Fragments => self.fragment(record),
            Index::Compilations => self.compilation(record),
            Index::Tickets => self.ticket(record),
            Index::Images => self.image(record),
            _ => Ok(()),
        }
    }

    /// An element of a vector that need not be known.
    fn element(&self, vector: VectorSlot, element: u32) -> Result<(), ProgramError> {
        match self.snapshot.vector_get(vector, element)? {
            Some(Address(0)) | None => Ok(()),
            Some(address) => Ok(self.snapshot.record_at(address).map(drop)?),
        }
    }

    fn name(&mut self, record: &Record<'s>) -> Result<(), ProgramError> {
        let Some((head, bytes)) = record
            .value
            .split_first_chunk::<{ size_of::<NameHeader>() }>()
        else {
            return self.damaged(record, "not a name");
        };
        let header: NameHeader = bytemuck::pod_read_unaligned(head);
        self.same(record, name_key(&self.snapshot.store().uuid(), bytes))?;
        let element = self
            .snapshot
            .vector_get(Vector::Names.slot(), header.id.0)?;
        if element != Some(record.address) {
            return self.damaged(record, "a name's id is not its place");
        }
        Ok(())
    }

    fn piece(&mut self, record: &Record<'s>) -> Result<(), ProgramError> {
        let Some(head) = record
            .value
            .first_chunk::<{ size_of::<format_spec::program::PieceHeader>() }>()
        else {
            return self.damaged(record, "not a piece");
        };
        let header: format_spec::program::PieceHeader = bytemuck::pod_read_unaligned(head);
        let view = self.programs.piece(header.id)?;
        if view.record.address != record.address {
            return self.damaged(record, "a piece's id is not its place");
        }
        let uuid = self.snapshot.store().uuid();
        self.same(record, piece_key(&uuid, view.header, view.bytes))
    }

    fn fragment(&mut self, record: &Record<'s>) -> Result<(), ProgramError> {
        let view = self.programs.fragment(record.address)?;
        let digest = self.digester.fragment(&self.programs, &view)?;
        self.same(record, digest)
    }

    fn compilation(&mut self, record: &Record<'s>) -> Result<(), ProgramError> {
        let programs = self.programs;
        let view = programs.compilation_at(record.address)?;
        // This loads it, which checks what members say of their fragments.
        if !linker::repository::split::outline_is_right(&programs.load_checked(&view)?) {
            return self.damaged(record, "the outline is not that of the members");
        }
        let digest = self.digester.compilation(&programs, &view)?;
        self.same(record, digest)
    }

    fn ticket(&mut self, record: &Record<'s>) -> Result<(), ProgramError> {
        let view = self.programs.ticket(record)?;
        self.programs.compilation_at(view.header.compilation)?;
        self.same(record, Digest::of(view.path))
    }

    fn image(&mut self, record: &Record<'s>) -> Result<(), ProgramError> {
        let view = self.programs.image(record)?;
        for input in view.inputs {
            self.programs.name(input.path)?;
            if input.compilation.0 != 0 {
                self.programs.compilation_at(input.compilation)?;
            }
        }
        self.same(record, Digest::of(view.path))
    }
}

impl View for Report {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        let style = out.style;
        for problem in &self.problems {
            writeln!(out, "{} {}", style.bad("damaged:"), problem.message)?;
        }
        let verdict = match self.problems.len() {
            0 => "everything is in order".to_owned(),
            1 => "1 problem".to_owned(),
            LIMIT.. => format!("more than {LIMIT} problems"),
            n => format!("{n} problems"),
        };
        writeln!(
            out,
            "{}: revision {}, {} bytes, {} records: {verdict}",
            self.repository,
            self.revision,
            grouped(self.bytes),
            grouped(self.records)
        )
    }
}
