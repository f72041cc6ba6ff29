//! Digests of what is in a repository, computed again from what is in the file, as it is there: for who checks it.
//!
//! (Those of what is yet to be recorded: [`Prepared`](super::Prepared).)

use super::compilation_view::CompilationView;
use super::fragment_view::FragmentView;
use super::view::Programs;
use super::{ProgramError, Result};
use format_spec::canonical::{Encoder, FragmentEncoder, PieceFacts, SectionFacts};
use format_spec::digest::Digest;
use format_spec::fragment::TargetKind;
use format_spec::ids::{NameId, PieceId};
use format_spec::program::SymbolRecord;

/// Computes one digest after another; keeps its memory.
#[derive(Default)]
pub struct Digester {
    encoder: Encoder,
    /// What is hashed of a fragment.
    buffer: Vec<u8>,
}

impl Digester {
    /// The digest of a fragment.
    ///
    /// # Errors
    /// [`ProgramError::Damaged`] if it has none, because what it refers to is not there; and what comes from reading.
    pub fn fragment(&mut self, programs: &Programs<'_>, view: &FragmentView<'_>) -> Result<Digest> {
        let damaged = |what| programs.damaged(view.record().address, what);
        let body = view.body();
        let body =
            body.ok_or_else(|| damaged("a fragment's fixups and bytes are not in their places"))?;
        self.buffer.clear();
        self.buffer.extend_from_slice(body);
        let mut writer = FragmentEncoder::new(
            &mut self.buffer,
            0,
            view.section_count() as u32,
            view.targets().len() as u32,
            view.bindable_count(),
        );
        for target in view.targets() {
            match target.kind() {
                Some(kind @ (TargetKind::Global | TargetKind::Local | TargetKind::OwnNamed)) => {
                    writer.target_name(kind, programs.name(NameId(target.value()))?);
                }
                Some(TargetKind::OwnAnonymous) => {
                    let other = view.anonymous().get(target.value() as usize);
                    // Of those before it alone: so there are no circles.
                    let other = other.filter(|other| **other < view.record().address);
                    let other = other.ok_or_else(|| damaged("refers to a later fragment"))?;
                    writer.target_anonymous(&programs.snapshot().record_at(*other)?.key());
                }
                Some(TargetKind::Section) => writer.target_section(target.value()),
                Some(TargetKind::Piece) => {
                    writer.target_piece(&piece_facts(programs, PieceId(target.value()))?);
                }
                None => return Err(damaged("a target's kind is unknown")),
            }
        }
        for section in view.sections() {
            let record = section.record;
            let facts = SectionFacts {
                size: section.size,
                sh_type: record.sh_type,
                sh_flags: record.sh_flags,
                entsize: section.entsize,
                kind: record.kind,
                align_log2: record.align_log2,
                bits: record.bits,
                target_bits: record.target_bits,
                link: section.link,
                fixup_count: record.fixup_count,
            };
            writer.section(programs.name(record.name)?, &facts);
        }
        Ok(writer.finish())
    }

    /// The digest of a compilation.
    ///
    /// # Errors
    /// What comes from reading.
    pub fn compilation(
        &mut self,
        programs: &Programs<'_>,
        view: &CompilationView<'_>,
    ) -> Result<Digest> {
        let mut writer = self.encoder.compilation(view.header());
        for member in view.members() {
            let fragment = programs.snapshot().record_at(member.fragment)?;
            writer.member(&fragment.key(), programs.name(member.suffix)?, member.group);
        }
        for symbol in view.symbols() {
            let piece = match symbol.bits & SymbolRecord::PIECE {
                0 => None,
                _ => Some(piece_facts(programs, PieceId(symbol.section))?),
            };
            let (value, size) = view.value_and_size(symbol);
            let name = programs.name(symbol.name)?;
            writer.symbol(name, symbol, value, size, piece.as_ref());
        }
        for group in view.groups() {
            writer.group(programs.name(group.signature)?, group.flags);
        }
        for symbol in view.bindings().iter() {
            writer.bindings(&[symbol]);
        }
        Ok(writer.finish())
    }
}

fn piece_facts<'s>(
    programs: &Programs<'s>,
    piece: PieceId,
) -> Result<PieceFacts<'s>, ProgramError> {
    let piece = programs.piece(piece)?;
    Ok(PieceFacts {
        section_name: programs.name(piece.header.section_name)?,
        sh_flags: piece.header.sh_flags,
        entsize: piece.header.entsize.into(),
        align_log2: piece.header.align_log2,
        bytes: piece.bytes,
    })
}
