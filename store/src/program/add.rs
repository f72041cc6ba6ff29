//! Adding compilations.
//!
//! Three steps. Without the lock: digests (see [`Prepared`]) and a first look-up, of
//! the compilation, and if it is not there, of its fragments, pieces and names. With
//! the lock: what was missing is looked up again (another process may have added
//! it) and only what is still missing is encoded and appended: names first, since
//! records hold their ids, then pieces, then fragments in the order in which they depend on each
//! other, then the compilation. A compilation that is there already takes no lock.

use super::build::{Compilation, Fixups, Place, Section, Symbol, Target};
use super::outline::outline;
use super::prepare::{self, Prepared};
use super::view::{self, Programs, outline_crc};
use super::{ProgramError, Result};
use crate::engine::{Durability, Record, Store, Transaction};
use format_spec::digest::Digest;
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::program::{
    CompilationHeader, FragmentHeader, GroupRecord, Index, MemberRecord, NameHeader, PieceHeader,
    SectionRecord, SymbolRecord, TargetRecord, TicketHeader, Vector,
};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A compilation to be added.
pub struct Addition<'p, 'a> {
    /// The compilation.
    pub prepared: &'p Prepared<'a>,
    /// The absolute path of the ticket file that will name it, if there is to be one.
    pub ticket: Option<&'p Path>,
}

/// What adding a compilation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// The compilation's digest.
    pub digest: Option<Digest>,
    /// Where it is.
    pub address: Address,
    /// Whether it was not there before.
    pub is_new: bool,
    /// Fragments that were not there before.
    pub new_fragments: u32,
    /// Fragments that were.
    pub shared_fragments: u32,
    /// Pieces that were not there before.
    pub new_pieces: u32,
    /// Pieces that were.
    pub shared_pieces: u32,
    /// Names that were not there before.
    pub new_names: u32,
    /// Bytes of all values that were added.
    pub new_bytes: u64,
}

/// What was found of a compilation without the lock.
struct Found {
    compilation: Option<Address>,
    name_digests: Vec<Digest>,
    names: Vec<Option<NameId>>,
    pieces: Vec<Option<PieceId>>,
    fragments: Vec<Option<Address>>,
}

/// Adds compilations, and the records of their tickets, in one transaction.
pub(super) fn add(store: &Store, additions: &[Addition<'_, '_>]) -> Result<Vec<Added>> {
    let programs = Programs::new(store.snapshot()?);
    let found = additions
        .iter()
        .map(|addition| find(&programs, addition.prepared))
        .collect::<Result<Vec<_>>>()?;
    let mut nothing_to_do = true;
    for (addition, found) in additions.iter().zip(&found) {
        nothing_to_do &= match (found.compilation, addition.ticket) {
            (Some(_), None) => true,
            (Some(compilation), Some(path)) => ticket_is_recorded(&programs, path, compilation)?,
            (None, _) => false,
        };
    }
    if nothing_to_do {
        return Ok(additions
            .iter()
            .zip(&found)
            .map(|(addition, found)| {
                known(addition.prepared, found.compilation.unwrap_or_default())
            })
            .collect());
    }
    let mut adder = Adder::new(store.begin(Durability::Lazy)?)?;
    let mut results = Vec::with_capacity(additions.len());
    for (addition, found) in additions.iter().zip(found) {
        let prepared = addition.prepared;
        // Again, now that nobody else can add it.
        let address = match found.compilation {
            Some(address) => Some(address),
            None => adder
                .transaction
                .get(Index::Compilations as u8, &prepared.digest)?
                .map(|record| record.address),
        };
        let added = match address {
            Some(address) => known(prepared, address),
            None => adder.compilation(prepared, found)?,
        };
        if let Some(path) = addition.ticket {
            adder.ticket(path, added.address)?;
        }
        results.push(added);
    }
    adder.transaction.commit()?;
    Ok(results)
}

fn known(prepared: &Prepared<'_>, address: Address) -> Added {
    Added {
        digest: Some(prepared.digest),
        address,
        shared_fragments: prepared.fragments.len() as u32,
        shared_pieces: prepared.pieces.len() as u32,
        ..Added::default()
    }
}

fn find(programs: &Programs<'_>, prepared: &Prepared<'_>) -> Result<Found> {
    let snapshot = programs.snapshot();
    let address = |index: Index, digest: &Digest| -> Result<Option<Address>> {
        Ok(snapshot
            .get(index as u8, digest)?
            .map(|record| record.address))
    };
    let compilation = address(Index::Compilations, &prepared.digest)?;
    if compilation.is_some() {
        return Ok(Found {
            compilation,
            name_digests: Vec::new(),
            names: Vec::new(),
            pieces: Vec::new(),
            fragments: Vec::new(),
        });
    }
    let name_digests: Vec<Digest> = prepared
        .compilation
        .names
        .iter()
        .map(|name| Digest::of(name))
        .collect();
    Ok(Found {
        compilation,
        names: name_digests
            .iter()
            .map(|digest| programs.find_name_by_digest(digest))
            .collect::<Result<_>>()?,
        name_digests,
        pieces: prepared
            .pieces
            .iter()
            .map(|digest| programs.find_piece(digest))
            .collect::<Result<_>>()?,
        fragments: prepared
            .fragments
            .iter()
            .map(|digest| address(Index::Fragments, digest))
            .collect::<Result<_>>()?,
    })
}

fn ticket_key(path: &Path) -> Digest {
    Digest::of(path.as_os_str().as_bytes())
}

/// A record of a ticket that is older than this is written again when the ticket is,
/// even if it says the same: so a compactor that sees no ticket file and an old record
/// knows that nobody is about to write the file. Its grace period must be longer.
pub const TICKET_REFRESH_NANOSECONDS: u64 = 600_000_000_000;

pub(super) fn now() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}

fn is_fresh(header: &TicketHeader, compilation: Address) -> bool {
    header.compilation == compilation
        && header.written.saturating_add(TICKET_REFRESH_NANOSECONDS) > now()
}

fn ticket_is_recorded(programs: &Programs<'_>, path: &Path, compilation: Address) -> Result<bool> {
    match programs
        .snapshot()
        .get(Index::Tickets as u8, &ticket_key(path))?
    {
        Some(record) => Ok(is_fresh(programs.ticket(&record)?.header, compilation)),
        None => Ok(false),
    }
}

pub(super) struct Adder<'s> {
    pub(super) transaction: Transaction<'s>,
    /// The value at hand; keeps its memory.
    pub(super) value: Vec<u8>,
    added: Added,
}

impl<'s> Adder<'s> {
    /// Adds to what `transaction` will commit.
    pub(super) fn new(transaction: Transaction<'s>) -> Result<Adder<'s>> {
        let mut adder = Adder {
            transaction,
            value: Vec::new(),
            added: Added::default(),
        };
        adder.intern_empty_name()?;
        Ok(adder)
    }

    /// Adds a compilation of which nothing has been looked up.
    pub(super) fn add_unseen(&mut self, prepared: &Prepared<'_>) -> Result<Added> {
        let names = prepared.compilation.names.iter();
        let found = Found {
            compilation: None,
            name_digests: names.map(|name| Digest::of(name)).collect(),
            names: vec![None; prepared.compilation.names.len()],
            pieces: vec![None; prepared.pieces.len()],
            fragments: vec![None; prepared.fragments.len()],
        };
        self.compilation(prepared, found)
    }

    fn damaged(&self, address: Address, what: &'static str) -> ProgramError {
        ProgramError::Damaged {
            path: self.transaction.base().store().path().to_owned(),
            address,
            what,
        }
    }

    /// A record that may have come since the first look-up.
    fn get_again<T>(
        &self,
        index: Index,
        digest: &Digest,
        read: impl Fn(&Record<'_>) -> Option<T>,
        what: &'static str,
    ) -> Result<Option<T>> {
        match self.transaction.get(index as u8, digest)? {
            None => Ok(None),
            Some(record) => match read(&record) {
                Some(found) => Ok(Some(found)),
                None => Err(self.damaged(record.address, what)),
            },
        }
    }

    fn next_id(&self, vector: Vector, what: &'static str) -> Result<u32> {
        u32::try_from(self.transaction.vector_len(vector as u8))
            .map_err(|_| self.damaged(Address(0), what))
    }

    /// Id 0 is the empty name in every repository.
    fn intern_empty_name(&mut self) -> Result<()> {
        if self.transaction.vector_len(Vector::Names as u8) == 0 {
            self.name(&Digest::of(&[]), &[])?;
        }
        Ok(())
    }

    fn insert(&mut self, index: Index, digest: &Digest) -> Result<Address> {
        self.added.new_bytes += self.value.len() as u64;
        Ok(self.transaction.insert(index as u8, digest, &self.value)?)
    }

    pub(super) fn name(&mut self, digest: &Digest, bytes: &[u8]) -> Result<NameId> {
        if let Some(id) = self.get_again(Index::Names, digest, view::name_id, "not a name")? {
            return Ok(id);
        }
        let id = NameId(self.next_id(Vector::Names, "there are too many names")?);
        self.value.clear();
        self.value
            .extend_from_slice(bytemuck::bytes_of(&NameHeader { id }));
        self.value.extend_from_slice(bytes);
        let address = self.insert(Index::Names, digest)?;
        self.transaction.push(Vector::Names as u8, address)?;
        self.added.new_names += 1;
        Ok(id)
    }

    fn compilation(&mut self, prepared: &Prepared<'_>, found: Found) -> Result<Added> {
        self.added = Added::default();
        let compilation = &prepared.compilation;
        let mut names = Vec::with_capacity(found.names.len());
        for (index, known) in found.names.iter().enumerate() {
            names.push(match known {
                Some(id) => *id,
                None => self.name(&found.name_digests[index], compilation.names[index])?,
            });
        }
        let mut pieces = Vec::with_capacity(found.pieces.len());
        for (index, known) in found.pieces.iter().enumerate() {
            pieces.push(match known {
                Some(id) => {
                    self.added.shared_pieces += 1;
                    *id
                }
                None => self.piece(prepared, index, &names)?,
            });
        }
        let mut fragments = vec![Address(0); found.fragments.len()];
        for &number in &compilation.digest_order {
            let index = number as usize;
            let digest = &prepared.fragments[index];
            let known = match found.fragments[index] {
                Some(address) => Some(address),
                None => self.get_again(
                    Index::Fragments,
                    digest,
                    |record| Some(record.address),
                    "not a fragment",
                )?,
            };
            fragments[index] = match known {
                Some(address) => {
                    self.added.shared_fragments += 1;
                    address
                }
                None => {
                    self.encode_fragment(compilation, index, &names, &pieces, &fragments)?;
                    self.added.new_fragments += 1;
                    self.insert(Index::Fragments, digest)?
                }
            };
        }
        self.encode_compilation(compilation, &names, &pieces, &fragments);
        let address = self.insert(Index::Compilations, &prepared.digest)?;
        Ok(Added {
            digest: Some(prepared.digest),
            address,
            is_new: true,
            ..self.added
        })
    }

    fn piece(
        &mut self,
        prepared: &Prepared<'_>,
        index: usize,
        names: &[NameId],
    ) -> Result<PieceId> {
        let digest = &prepared.pieces[index];
        if let Some(id) = self.get_again(Index::Pieces, digest, view::piece_id, "not a piece")? {
            self.added.shared_pieces += 1;
            return Ok(id);
        }
        let piece = &prepared.compilation.pieces[index];
        let id = PieceId(self.next_id(Vector::Pieces, "there are too many pieces")?);
        let header = PieceHeader {
            section_name: names[piece.section_name.0 as usize],
            sh_flags: piece.sh_flags,
            entsize: piece.entsize,
            align_log2: piece.align_log2,
            reserved: [0; 3],
            id,
            size: u32::try_from(piece.bytes.len())
                .map_err(|_| ProgramError::TooLarge(piece.bytes.len() as u64))?,
        };
        self.value.clear();
        self.value.extend_from_slice(bytemuck::bytes_of(&header));
        self.value.extend_from_slice(piece.bytes);
        let address = self.insert(Index::Pieces, digest)?;
        self.transaction.push(Vector::Pieces as u8, address)?;
        self.added.new_pieces += 1;
        Ok(id)
    }

    /// Leaves the fragment's value in `self.value`: head, sections, anonymous
    /// addresses, targets, then the fixups of all sections, then their bytes.
    fn encode_fragment(
        &mut self,
        compilation: &Compilation<'_>,
        index: usize,
        names: &[NameId],
        pieces: &[PieceId],
        fragments: &[Address],
    ) -> Result<()> {
        let fragment = &compilation.fragments[index];
        let range = |range: &std::ops::Range<u32>| range.start as usize..range.end as usize;
        let sections = &compilation.sections[range(&fragment.sections)];
        let targets = &compilation.targets[range(&fragment.targets)];
        let mut anonymous: Vec<Address> = Vec::new();
        let mut records: Vec<TargetRecord> = Vec::with_capacity(targets.len());
        for target in targets {
            let value = match *target {
                Target::Global(name) | Target::Local(name) | Target::OwnNamed(name) => {
                    names[name.0 as usize].0
                }
                Target::OwnAnonymous(other) => {
                    anonymous.push(fragments[other as usize]);
                    anonymous.len() as u32 - 1
                }
                Target::Section(section) => section,
                Target::Piece(piece) => pieces[piece as usize].0,
            };
            records.push(TargetRecord {
                kind: target.kind() as u32,
                value,
            });
        }
        let head = size_of::<FragmentHeader>()
            + size_of_val(sections) / size_of::<Section<'_>>() * size_of::<SectionRecord>()
            + size_of_val(&anonymous[..])
            + size_of_val(&records[..]);
        let mut fixups_at = head as u64;
        let place_fixups = |section: &Section<'_>, at: u64| match section.fixups {
            Fixups::Narrow(_) => at,
            Fixups::Wide(_) => at.next_multiple_of(8),
        };
        for section in sections {
            fixups_at = place_fixups(section, fixups_at);
            fixups_at += compilation.fixup_bytes(section).len() as u64;
        }
        let mut data_at = fixups_at;
        let total = data_at
            + sections
                .iter()
                .map(|section| section.bytes.len() as u64)
                .sum::<u64>();
        if total > u64::from(u32::MAX) {
            return Err(ProgramError::TooLarge(total));
        }
        let value = &mut self.value;
        value.clear();
        value.reserve(total as usize);
        value.extend_from_slice(bytemuck::bytes_of(&FragmentHeader {
            section_count: sections.len() as u32,
            anonymous_count: anonymous.len() as u32,
            target_count: records.len() as u32,
            bindable_count: fragment.bindings.len() as u32,
        }));
        let mut fixups_at = head as u64;
        for section in sections {
            fixups_at = place_fixups(section, fixups_at);
            let (Fixups::Narrow(fixups) | Fixups::Wide(fixups)) = &section.fixups;
            value.extend_from_slice(bytemuck::bytes_of(&SectionRecord {
                size: section.size,
                name: names[section.name.0 as usize],
                sh_type: section.sh_type,
                sh_flags: section.sh_flags,
                entsize: section.entsize,
                kind: section.kind as u8,
                align_log2: section.align_log2,
                bits: Compilation::section_bits(section),
                reserved: 0,
                link: section.link,
                fixups: fixups_at as u32,
                fixup_count: fixups.len() as u32,
                data: data_at as u32,
                reserved2: 0,
            }));
            fixups_at += compilation.fixup_bytes(section).len() as u64;
            data_at += section.bytes.len() as u64;
        }
        value.extend_from_slice(bytemuck::cast_slice(&anonymous));
        value.extend_from_slice(bytemuck::cast_slice(&records));
        for section in sections {
            value.resize(place_fixups(section, value.len() as u64) as usize, 0);
            value.extend_from_slice(compilation.fixup_bytes(section));
        }
        for section in sections {
            value.extend_from_slice(section.bytes);
        }
        debug_assert_eq!(value.len() as u64, total);
        Ok(())
    }

    /// Leaves the compilation's value in `self.value`.
    fn encode_compilation(
        &mut self,
        compilation: &Compilation<'_>,
        names: &[NameId],
        pieces: &[PieceId],
        fragments: &[Address],
    ) {
        let mut wide: Vec<u64> = Vec::new();
        let symbols: Vec<SymbolRecord> = compilation
            .symbols
            .iter()
            .map(|symbol| symbol_record(symbol, names, pieces, &mut wide))
            .collect();
        let outline = outline(compilation, names, pieces);
        let value = &mut self.value;
        value.clear();
        let members = compilation.fragments.iter().zip(fragments);
        let members: Vec<MemberRecord> = members
            .zip(&outline.members)
            .map(|((fragment, address), (first_piece, bits))| MemberRecord {
                fragment: *address,
                first_section: fragment.sections.start,
                first_binding: fragment.bindings.start,
                suffix: names[fragment.suffix.0 as usize],
                group: fragment.group,
                first_piece: *first_piece,
                bits: *bits,
            })
            .collect();
        let header = CompilationHeader {
            wide_count: wide.len() as u32,
            shape_count: outline.shapes.len() as u32,
            piece_count: outline.pieces.len() as u32,
            outline_crc: outline_crc([
                bytemuck::cast_slice(&members),
                bytemuck::cast_slice(&outline.shapes),
                bytemuck::cast_slice(&outline.sections),
                bytemuck::cast_slice(&outline.pieces),
                &outline.uses,
            ]),
            ..prepare::header(compilation)
        };
        value.extend_from_slice(bytemuck::bytes_of(&header));
        value.extend_from_slice(bytemuck::cast_slice(&members));
        let align = |value: &mut Vec<u8>| value.resize(value.len().next_multiple_of(8), 0);
        value.extend_from_slice(bytemuck::cast_slice(&symbols));
        align(value);
        for group in &compilation.groups {
            value.extend_from_slice(bytemuck::bytes_of(&GroupRecord {
                signature: names[group.signature.0 as usize],
                flags: group.flags,
            }));
        }
        value.extend_from_slice(bytemuck::cast_slice(&compilation.bindings));
        align(value);
        value.extend_from_slice(bytemuck::cast_slice(&wide));
        value.extend_from_slice(bytemuck::cast_slice(&outline.shapes));
        align(value);
        value.extend_from_slice(bytemuck::cast_slice(&outline.sections));
        align(value);
        value.extend_from_slice(bytemuck::cast_slice(&outline.pieces));
        align(value);
        value.extend_from_slice(&outline.uses);
    }

    fn ticket(&mut self, path: &Path, compilation: Address) -> Result<()> {
        let key = ticket_key(path);
        let recorded = self.get_again(
            Index::Tickets,
            &key,
            |record| {
                let header = record.value.get(..size_of::<TicketHeader>())?;
                Some(bytemuck::pod_read_unaligned::<TicketHeader>(header))
            },
            "not a ticket's record",
        )?;
        if recorded.is_some_and(|header| is_fresh(&header, compilation)) {
            return Ok(());
        }
        self.value.clear();
        self.value
            .extend_from_slice(bytemuck::bytes_of(&TicketHeader {
                compilation,
                written: now(),
            }));
        self.value.extend_from_slice(path.as_os_str().as_bytes());
        self.transaction
            .replace(Index::Tickets as u8, &key, &self.value)?;
        Ok(())
    }
}

fn symbol_record(
    symbol: &Symbol,
    names: &[NameId],
    pieces: &[PieceId],
    wide: &mut Vec<u64>,
) -> SymbolRecord {
    let mut bits = symbol.bits;
    let section = match symbol.place {
        Place::Piece(piece) => {
            bits |= SymbolRecord::PIECE;
            pieces[piece as usize].0
        }
        _ => symbol.section_field(),
    };
    let (value, size) = match (u32::try_from(symbol.value), u32::try_from(symbol.size)) {
        (Ok(value), Ok(size)) => (value, size),
        _ => {
            bits |= SymbolRecord::WIDE;
            wide.extend([symbol.value, symbol.size]);
            (wide.len() as u32 - 2, 0)
        }
    };
    SymbolRecord {
        name: names[symbol.name.0 as usize],
        section,
        value,
        size,
        info: symbol.info,
        other: symbol.other,
        bits,
    }
}
