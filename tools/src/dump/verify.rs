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
use format_spec::canonical::{Encoder, FragmentEncoder, PieceFacts, SectionFacts};
use format_spec::digest::Digest;
use format_spec::file::{Features, IndexSlot, VectorSlot};
use format_spec::fragment::TargetKind;
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::program::{
    Index, NameHeader, SymbolRecord, Vector, has_envelopes, has_kept_elements, index_in_words,
    name_key, piece_key,
};
use serde::Serialize;
use store::engine::{Record, Snapshot};
use store::program::{FragmentView, PieceView, ProgramError, Programs};

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
        encoder: Encoder::new(),
        buffer: Vec::new(),
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

fn piece_facts<'s>(
    programs: Programs<'s>,
    piece: &PieceView<'s>,
) -> Result<PieceFacts<'s>, ProgramError> {
    Ok(PieceFacts {
        section_name: programs.name(piece.header.section_name)?,
        sh_flags: piece.header.sh_flags,
        entsize: piece.header.entsize.into(),
        align_log2: piece.header.align_log2,
        bytes: piece.bytes,
    })
}

struct Checker<'s> {
    programs: Programs<'s>,
    snapshot: Snapshot<'s>,
    encoder: Encoder,
    /// A fragment's body, and what else is hashed; keeps its memory.
    buffer: Vec<u8>,
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
        let digest = self.fragment_digest(&view)?;
        self.same(record, digest)
    }

    fn fragment_digest(&mut self, view: &FragmentView<'s>) -> Result<Digest, ProgramError> {
        let record = view.record();
        let programs = self.programs;
        let Some(body) = view.body() else {
            return self.damaged(&record, "fixups and bytes are not in their places");
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.extend_from_slice(body);
        let mut writer = FragmentEncoder::new(
            &mut buffer,
            0,
            view.section_count() as u32,
            view.targets().len() as u32,
            view.bindable_count(),
        );
        for target in view.targets() {
            match target.kind() {
                Some(kind @ (TargetKind::Global | TargetKind::Local | TargetKind::OwnNamed)) => {
                    writer.target_name(kind, programs.name(NameId(target.value()))?)
                }
                Some(TargetKind::OwnAnonymous) => {
                    let address = view.anonymous().get(target.value() as usize);
                    let Some(&address) = address.filter(|address| **address < record.address)
                    else {
                        return self.damaged(&record, "refers to a later fragment");
                    };
                    writer.target_anonymous(&programs.fragment(address)?.record().key());
                }
                Some(TargetKind::Section) => writer.target_section(target.value()),
                Some(TargetKind::Piece) => {
                    let piece = programs.piece(PieceId(target.value()))?;
                    writer.target_piece(&piece_facts(programs, &piece)?);
                }
                None => return self.damaged(&record, "a target's kind is unknown"),
            }
        }
        for section in view.sections() {
            let facts = SectionFacts {
                size: section.size,
                sh_type: section.record.sh_type,
                sh_flags: section.record.sh_flags,
                entsize: section.entsize,
                kind: section.record.kind,
                align_log2: section.record.align_log2,
                bits: section.record.bits,
                target_bits: section.record.target_bits,
                link: section.link,
                fixup_count: section.record.fixup_count,
            };
            writer.section(programs.name(section.record.name)?, &facts);
        }
        let digest = writer.finish();
        self.buffer = buffer;
        Ok(digest)
    }

    fn compilation(&mut self, record: &Record<'s>) -> Result<(), ProgramError> {
        let programs = self.programs;
        let view = programs.compilation_at(record.address)?;
        // This loads it, which checks what members say of their fragments.
        if !linker::repository::split::outline_is_right(&programs.load_checked(&view)?) {
            return self.damaged(record, "the outline is not that of the members");
        }
        let mut encoder = std::mem::take(&mut self.encoder);
        let mut writer = encoder.compilation(view.header());
        for member in view.members() {
            let fragment = programs.fragment(member.fragment)?;
            writer.member(
                &fragment.record().key(),
                programs.name(member.suffix)?,
                member.group,
            );
        }
        let mut bindings = Vec::new();
        for member in 0..view.members().len() {
            bindings.extend(view.bindings_of(member).iter());
        }
        for symbol in view.symbols() {
            let piece = match symbol.bits & SymbolRecord::PIECE {
                0 => None,
                _ => Some(programs.piece(PieceId(symbol.section))?),
            };
            let piece = match &piece {
                Some(piece) => Some(piece_facts(programs, piece)?),
                None => None,
            };
            let (value, size) = view.value_and_size(symbol);
            writer.symbol(
                programs.name(symbol.name)?,
                symbol,
                value,
                size,
                piece.as_ref(),
            );
        }
        for group in view.groups() {
            writer.group(programs.name(group.signature)?, group.flags);
        }
        writer.bindings(&bindings);
        let digest = writer.finish();
        self.encoder = encoder;
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
