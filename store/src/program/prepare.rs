//! Digests of everything in a compilation, and the values of its fragments, made before any lock is taken.
//!
//! A fragment is hashed where its value is made, so its bytes are copied once ([`encode`]).

use super::build::{Compilation, Place, Section, Target};
use super::encode::Form;
use super::{ProgramError, encode, outline};
use format_spec::canonical::{Encoder, FragmentEncoder, PieceFacts, SectionFacts};
use format_spec::digest::Digest;
use format_spec::fragment::{FragmentHeader, SectionRecord};
use format_spec::program::SymbolRecord;
use std::ops::Range;

/// A compilation with the digests of its parts: ready to be added to any
/// repository.
pub struct Prepared<'a> {
    /// The compilation.
    pub compilation: Compilation<'a>,
    /// Its digest.
    pub digest: Digest,
    /// The digests of its fragments.
    pub fragments: Vec<Digest>,
    /// The values of all fragments, with the compilation's numbers for ids and addresses.
    values: Vec<u8>,
    /// Where in `values` each fragment's is.
    value_of: Vec<Range<usize>>,
    is_compressed: bool,
}

impl<'a> Prepared<'a> {
    /// Computes the digests.
    ///
    /// # Errors
    /// [`ProgramError::Malformed`] if anonymous fragments refer to each other in a circle, if
    /// `digest_order` does not have each fragment once, or if what is said of members, sections and
    /// bindings for the outline cannot be recorded; [`ProgramError::TooLarge`].
    pub fn new(compilation: Compilation<'a>) -> Result<Prepared<'a>, ProgramError> {
        outline::check(&compilation)?;
        let mut encoder = Encoder::new();
        let mut fragments: Vec<Option<Digest>> = vec![None; compilation.fragments.len()];
        let mut values = Vec::with_capacity(values_size(&compilation));
        let mut value_of = vec![0..0; compilation.fragments.len()];
        for &number in &compilation.digest_order {
            let index = number as usize;
            if index >= fragments.len() {
                return Err(ProgramError::malformed(
                    "the digest order names no fragment",
                ));
            }
            values.resize(values.len().next_multiple_of(8), 0);
            let start = values.len();
            let body = encode::fragment(&compilation, index, &mut values)?;
            value_of[index] = start..values.len();
            let digest = digest(&compilation, index, &fragments, &mut values, (start, body))?;
            fragments[index] = Some(digest);
        }
        let fragments = fragments
            .into_iter()
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| ProgramError::malformed("a fragment is missing in the digest order"))?;
        let digest = compilation_digest(&compilation, &fragments, &mut encoder);
        Ok(Prepared {
            compilation,
            digest,
            fragments,
            values,
            value_of,
            is_compressed: false,
        })
    }

    /// Has what becomes smaller by that recorded compressed: debug information (SPEC 18, "Compressed"), and in a small repository all, in packs
    /// (SPEC 5) as far as it is small. (Only what is not there already is compressed, when it is [added](super::Repository::add).)
    pub fn compress(&mut self) {
        self.is_compressed = true;
    }

    /// In which form it is to be recorded in a repository of this size.
    pub(super) fn form(&self, size: u64) -> Form {
        match self.is_compressed {
            true => Form::in_repository(size),
            false => Form::Plain,
        }
    }

    /// In which form a fragment is recorded where what is added has this one.
    pub(super) fn form_of(&self, fragment: usize, form: Form) -> Form {
        form.of_value(self.value(fragment).len())
    }

    /// Appends a fragment's value in a form, otherwise as [`Prepared::value`] gives it, to `out`, which must have a multiple of 8 bytes.
    pub(super) fn encode(
        &self,
        fragment: usize,
        form: Form,
        out: &mut Vec<u8>,
    ) -> Result<(), ProgramError> {
        let plain = self.value(fragment);
        match form {
            Form::Plain => out.extend_from_slice(plain),
            _ => encode::compressed_fragment(&self.compilation, fragment, (plain, form), out)?,
        }
        Ok(())
    }

    /// A fragment's value in the plain form, with the compilation's numbers for ids and addresses.
    pub(super) fn value(&self, fragment: usize) -> &[u8] {
        &self.values[self.value_of[fragment].clone()]
    }
}

/// About as many bytes as the values of all fragments have.
fn values_size(compilation: &Compilation<'_>) -> usize {
    let sections = compilation.sections.iter();
    let bytes: usize = sections.map(|section| section.bytes.len() + 48).sum();
    bytes
        + size_of_val(&compilation.fixups[..])
        + size_of_val(&compilation.wide_fixups[..])
        + 8 * compilation.targets.len()
        + 48 * compilation.fragments.len()
}

/// What the encoder wants to know of a section whose record is this.
fn facts(section: &Section<'_>, record: &SectionRecord) -> SectionFacts {
    SectionFacts {
        size: section.size,
        sh_type: section.sh_type,
        sh_flags: section.sh_flags,
        entsize: section.entsize,
        kind: section.kind as u8,
        align_log2: section.align_log2,
        bits: record.bits,
        target_bits: record.target_bits,
        link: section.link,
        fixup_count: record.fixup_count,
    }
}

fn piece_facts<'c>(compilation: &'c Compilation<'_>, number: u32) -> PieceFacts<'c> {
    let piece = &compilation.pieces[number as usize];
    PieceFacts {
        section_name: compilation.name(piece.section_name),
        sh_flags: piece.sh_flags,
        entsize: piece.entsize,
        align_log2: piece.align_log2,
        bytes: piece.bytes,
    }
}

/// The digest of the fragment whose value is at the end of `values`, from `start` on, with its body from `body` on.
fn digest(
    compilation: &Compilation<'_>,
    index: usize,
    known: &[Option<Digest>],
    values: &mut Vec<u8>,
    (start, body): (usize, usize),
) -> Result<Digest, ProgramError> {
    let fragment = &compilation.fragments[index];
    let mut record_at = start + size_of::<FragmentHeader>();
    let mut writer = FragmentEncoder::new(
        values,
        body,
        fragment.sections.len() as u32,
        fragment.targets.len() as u32,
        fragment.bindings.len() as u32,
    );
    let targets = fragment.targets.start as usize..fragment.targets.end as usize;
    for target in &compilation.targets[targets] {
        let kind = target.kind();
        match *target {
            Target::Global(name) | Target::Local(name) | Target::OwnNamed(name) => {
                writer.target_name(kind, compilation.name(name));
            }
            Target::OwnAnonymous(other) => {
                let digest = known
                    .get(other as usize)
                    .copied()
                    .flatten()
                    .ok_or_else(|| {
                        ProgramError::malformed(
                            "anonymous fragments refer to each other in a circle",
                        )
                    })?;
                writer.target_anonymous(&digest);
            }
            Target::Section(index) => writer.target_section(index),
            Target::Piece(piece) => writer.target_piece(&piece_facts(compilation, piece)),
        }
    }
    let sections = fragment.sections.start as usize..fragment.sections.end as usize;
    for section in &compilation.sections[sections] {
        let range = record_at..record_at + size_of::<SectionRecord>();
        record_at = range.end;
        let record = bytemuck::pod_read_unaligned(writer.written(range));
        writer.section(compilation.name(section.name), &facts(section, &record));
    }
    Ok(writer.finish())
}

fn compilation_digest(
    compilation: &Compilation<'_>,
    fragments: &[Digest],
    encoder: &mut Encoder,
) -> Digest {
    let mut writer = encoder.compilation(&encode::compilation_header(compilation));
    for (fragment, digest) in compilation.fragments.iter().zip(fragments) {
        writer.member(digest, compilation.name(fragment.suffix), fragment.group);
    }
    for symbol in &compilation.symbols {
        let piece = match symbol.place {
            Place::Piece(piece) => Some(piece_facts(compilation, piece)),
            _ => None,
        };
        let record = SymbolRecord {
            name: format_spec::ids::NameId(0),
            section: symbol.section_field(),
            value: 0,
            size: 0,
            info: symbol.info,
            other: symbol.other,
            bits: symbol.bits
                | if piece.is_some() {
                    SymbolRecord::PIECE
                } else {
                    0
                },
        };
        writer.symbol(
            compilation.name(symbol.name),
            &record,
            symbol.value,
            symbol.size,
            piece.as_ref(),
        );
    }
    for group in &compilation.groups {
        writer.group(compilation.name(group.signature), group.flags);
    }
    writer.bindings(&compilation.bindings);
    writer.finish()
}
