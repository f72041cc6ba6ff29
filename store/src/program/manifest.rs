//! Manifests: what invocations of a compiler have made, and of what (SPEC.md, section 27).
//!
//! Whoever runs compilers makes the keys, and says what must be so for a result to be used again; here that is written and
//! read. To know the day on which a manifest was used last is for a compactor ([`record_use`]).

use super::adder::Adder;
use super::enveloped::{insert_enveloped, replace_enveloped};
use super::ticket_record::Ticket;
use super::view::Programs;
use super::{ProgramError, Result, dependencies};
use crate::engine::{Durability, Reader, Record, Store};
use format_spec::canonical;
use format_spec::digest::Digest;
use format_spec::envelope::{Class, Envelope, Reference, Strength};
use format_spec::ids::{Address, NameId};
use format_spec::kinds::{BODY_VERSION, LastUseBody, Manifest, ManifestHeader, ManifestResult};
use format_spec::program::Index;
use std::collections::HashMap;
use std::path::Path;

/// So many results of one invocation are kept: the newest ones.
pub const RESULTS_KEPT: usize = 8;

const NANOSECONDS_PER_DAY: u64 = 86_400_000_000_000;

/// What an invocation has made.
#[derive(Clone, Copy, Debug)]
pub struct NewResult<'a> {
    /// The digest of the parts.
    pub key: &'a Digest,
    /// What tells this invocation from others.
    pub parts: &'a [Vec<u8>],
    /// What must be so for the result to be used again: encoded [`Condition`](format_spec::kinds::Condition)s.
    pub conditions: &'a [Vec<u8>],
    /// The compilation, which is there.
    pub compilation: Option<&'a Digest>,
    /// What was written to standard error.
    pub diagnostics: &'a [u8],
    /// Whether that is for a terminal.
    pub is_coloured: bool,
    /// The bytes of the dependency file, if there is one.
    pub dependencies: Option<&'a [u8]>,
    /// Files that are kept whole, as SPEC.md has them.
    pub files: Option<&'a [u8]>,
}

/// A manifest that is there.
#[derive(Clone, Copy, Debug)]
pub struct ManifestView<'s> {
    record: Record<'s>,
    envelope: Envelope<'s>,
    manifest: Manifest<'s>,
}

impl<'s> ManifestView<'s> {
    /// Its body.
    pub fn manifest(&self) -> &Manifest<'s> {
        &self.manifest
    }

    /// Its record.
    pub fn record(&self) -> Record<'s> {
        self.record
    }

    fn at(&self, place: u32) -> Option<Address> {
        self.envelope.references.get(place as usize)?.address()
    }
}

impl<'s> Programs<'s> {
    /// The manifest of this key.
    ///
    /// # Errors
    /// If the repository is damaged.
    pub fn manifest(&self, key: &Digest) -> Result<Option<ManifestView<'s>>> {
        match self.snapshot().get(Index::Manifests.slot(), key)? {
            Some(record) => self.manifest_of(&record).map(Some),
            None => Ok(None),
        }
    }

    /// The manifest that a record is.
    ///
    /// # Errors
    /// If it is none.
    pub fn manifest_of(&self, record: &Record<'s>) -> Result<ManifestView<'s>> {
        let envelope = self.envelope(record)?;
        let manifest = Manifest::parse(&envelope).ok_or_else(|| ProgramError::Damaged {
            path: self.snapshot().store().path().to_owned(),
            address: record.address,
            what: "not a manifest that this program can read",
        })?;
        Ok(ManifestView {
            record: *record,
            envelope,
            manifest,
        })
    }

    /// The compilation that a result is.
    ///
    /// # Errors
    /// If the repository is damaged.
    pub fn compilation_of(
        &self,
        manifest: &ManifestView<'s>,
        result: &ManifestResult,
    ) -> Result<Option<Digest>> {
        let place = result.compilation.checked_sub(1);
        let Some(address) = place.and_then(|place| manifest.at(place)) else {
            return Ok(None);
        };
        let record = self.snapshot().record_at(address)?;
        let is_one = record.index() == Some(Index::Compilations.slot());
        Ok(is_one.then(|| record.key()))
    }

    /// The bytes that a record has captured.
    ///
    /// # Errors
    /// If it is none.
    pub fn captured_bytes(&self, record: &Record<'s>) -> Result<&'s [u8]> {
        let envelope = self.envelope(record)?;
        if envelope.body_version != dependencies::LIST_VERSION {
            return Ok(envelope.body);
        }
        let mut paths = Vec::with_capacity(envelope.names.len());
        for name in envelope.names {
            paths.push(dependencies::path_of(self.name(*name)?));
        }
        let paths: Option<Vec<&[u8]>> = paths.into_iter().collect();
        let text = paths.and_then(|paths| dependencies::unpack(envelope.body, paths.into_iter()));
        let text = text.ok_or_else(|| ProgramError::Damaged {
            path: self.snapshot().store().path().to_owned(),
            address: record.address,
            what: "not a list of files that this program can read",
        })?;
        // Under the record's own address the envelope is kept; no record is at this one.
        let place = Address(record.address.0 + 1);
        let store = self.snapshot().store();
        let kept = store.kept(place).unwrap_or_else(|| {
            let mut words = vec![text.len() as u64];
            words.resize(1 + text.len().div_ceil(8), 0);
            bytemuck::cast_slice_mut(&mut words[1..])[..text.len()].copy_from_slice(&text);
            store.keep(place, words)
        });
        let (size, words) = kept.split_first().unwrap_or((&0, &[]));
        let bytes: &[u8] = bytemuck::cast_slice(words);
        Ok(bytes.get(..*size as usize).unwrap_or_default())
    }

    /// Captured bytes, by 1 + their place in the references of a manifest; for 0 there are none.
    ///
    /// # Errors
    /// If the repository is damaged.
    pub fn captured(
        &self,
        manifest: &ManifestView<'s>,
        place_and_one: u32,
    ) -> Result<Option<&'s [u8]>> {
        let Some(address) = place_and_one.checked_sub(1).and_then(|at| manifest.at(at)) else {
            return Ok(None);
        };
        let record = self.snapshot().record_at(address)?;
        if record.index() != Some(Index::Captured.slot()) {
            return Ok(None);
        }
        self.captured_bytes(&record).map(Some)
    }
}

/// Adds a result to the manifest of its key, as the newest one. One of the same conditions gives way to it.
///
/// # Errors
/// If the compilation is not there, or the repository is damaged or cannot be written.
pub fn record_result(store: &Store, new: &NewResult<'_>) -> Result<()> {
    let recording = Recording::new(&Programs::new(store.snapshot()?), new)?;
    let mut adder = Adder::new(store.begin(Durability::Lazy)?)?;
    recording.add(&mut adder)?;
    adder.transaction.commit()?;
    Ok(())
}

/// A result of which all has been looked up that can be without the lock.
pub(super) struct Recording<'n> {
    new: &'n NewResult<'n>,
    conditions: Vec<&'n [u8]>,
    /// The ids of parts and conditions, as far as they have some: names keep their ids.
    known: Vec<Option<NameId>>,
}

impl<'n> Recording<'n> {
    /// Looks its names up.
    pub(super) fn new(programs: &Programs<'_>, new: &'n NewResult<'n>) -> Result<Recording<'n>> {
        let conditions = in_order(new);
        let names = (new.parts.iter().map(Vec::as_slice)).chain(conditions.iter().copied());
        let known = names
            .map(|name| programs.find_name(name))
            .collect::<Result<_>>()?;
        Ok(Recording {
            new,
            conditions,
            known,
        })
    }

    /// Adds it to what a transaction will commit, in which its compilation may be.
    pub(super) fn add(&self, adder: &mut Adder<'_>) -> Result<()> {
        let new = self.new;
        let mut ids = Vec::with_capacity(self.known.len());
        let names = (new.parts.iter().map(Vec::as_slice)).chain(self.conditions.iter().copied());
        for (name, known) in names.zip(&self.known) {
            ids.push(match known {
                Some(id) => *id,
                None => adder.name(name)?,
            });
        }
        let (parts, condition_ids) = ids.split_at(new.parts.len());
        let of_files: HashMap<&[u8], NameId> = (self.conditions.iter().zip(condition_ids))
            .filter_map(|(condition, id)| Some((dependencies::path_of(condition)?, *id)))
            .collect();
        let mut made = Builder::default();
        let compilation = match new.compilation {
            Some(digest) => {
                let found = (adder.transaction).get(Index::Compilations.slot(), digest)?;
                let gone =
                    || ProgramError::malformed("a manifest of a compilation that is not there");
                1 + made.reference(found.ok_or_else(gone)?.address)
            }
            None => 0,
        };
        let result = ManifestResult {
            compilation,
            diagnostics: made.captured(adder, new.diagnostics)?,
            dependencies: match new.dependencies {
                Some(bytes) => match dependencies::pack(bytes, &of_files) {
                    Some(list) => made.list(adder, bytes, &list)?,
                    None => made.captured_even_if_empty(adder, bytes)?,
                },
                None => 0,
            },
            files: match new.files {
                Some(bytes) => made.captured_even_if_empty(adder, bytes)?,
                None => 0,
            },
            reserved: 0,
            bits: match new.is_coloured && !new.diagnostics.is_empty() {
                true => ManifestResult::COLOURED,
                false => 0,
            },
        };
        // Runs of ids are recorded in a few bytes.
        let mut conditions = condition_ids.to_vec();
        conditions.sort_unstable();
        made.result(result, conditions.into_iter());
        let base = Programs::new(adder.transaction.base());
        // One that is damaged is of no use to anybody.
        if let Ok(Some(older)) = base.manifest(new.key) {
            made.keep(&older)?;
        }
        let body = made.body(parts.len(), today(adder.transaction.base().store()));
        let names: Vec<NameId> = parts.iter().chain(&made.conditions).copied().collect();
        let envelope = Envelope {
            class: Class::Cached as u8,
            body_version: BODY_VERSION,
            references: &made.references,
            names: &names,
            pieces: &[],
            body: &body,
        };
        let slot = Index::Manifests.slot();
        // It says of itself that it was used today.
        replace_enveloped(&mut adder.transaction, slot, new.key, &envelope)?;
        Ok(())
    }
}

/// The conditions of a result, those of files in the order of the dependency file: they get their ids in it, and another unit includes
/// them in the same order, more or less.
fn in_order<'a>(new: &NewResult<'a>) -> Vec<&'a [u8]> {
    let listed = dependencies::listed(new.dependencies.unwrap_or_default());
    let places: HashMap<&[u8], usize> = listed.zip(0..).collect();
    let mut conditions: Vec<&[u8]> = new.conditions.iter().map(Vec::as_slice).collect();
    conditions.sort_by_key(|condition| {
        let place = dependencies::path_of(condition).and_then(|path| places.get(path));
        place.copied().unwrap_or(usize::MAX)
    });
    conditions
}

/// A manifest that is being made.
#[derive(Default)]
struct Builder {
    references: Vec<Reference>,
    places: HashMap<Address, u32>,
    conditions: Vec<NameId>,
    numbers: HashMap<NameId, usize>,
    results: Vec<ManifestResult>,
    /// The numbers of each result's conditions.
    of_results: Vec<Vec<usize>>,
}

impl Builder {
    fn reference(&mut self, address: Address) -> u32 {
        *self.places.entry(address).or_insert_with(|| {
            self.references
                .push(Reference::new(address, Strength::Strong));
            self.references.len() as u32 - 1
        })
    }

    fn captured(&mut self, adder: &mut Adder<'_>, bytes: &[u8]) -> Result<u32> {
        match bytes.is_empty() {
            true => Ok(0),
            false => self.captured_even_if_empty(adder, bytes),
        }
    }

    fn captured_even_if_empty(&mut self, adder: &mut Adder<'_>, bytes: &[u8]) -> Result<u32> {
        let envelope = Envelope {
            class: Class::Needed as u8,
            body_version: BODY_VERSION,
            references: &[],
            names: &[],
            pieces: &[],
            body: bytes,
        };
        let (slot, key) = (Index::Captured.slot(), canonical::captured(bytes));
        let address = insert_enveloped(&mut adder.transaction, slot, &key, &envelope)?;
        Ok(1 + self.reference(address))
    }

    /// A dependency file that is recorded as a list.
    fn list(
        &mut self,
        adder: &mut Adder<'_>,
        bytes: &[u8],
        (names, body): &(Vec<NameId>, Vec<u8>),
    ) -> Result<u32> {
        let envelope = Envelope {
            class: Class::Needed as u8,
            body_version: dependencies::LIST_VERSION,
            references: &[],
            names,
            pieces: &[],
            body,
        };
        let (slot, key) = (Index::Captured.slot(), canonical::captured(bytes));
        let address = insert_enveloped(&mut adder.transaction, slot, &key, &envelope)?;
        Ok(1 + self.reference(address))
    }

    fn result(&mut self, result: ManifestResult, conditions: impl Iterator<Item = NameId>) {
        let mut numbers = Vec::new();
        for name in conditions {
            let next = self.conditions.len();
            let number = *self.numbers.entry(name).or_insert(next);
            if number == next {
                self.conditions.push(name);
            }
            numbers.push(number);
        }
        numbers.sort_unstable();
        numbers.dedup();
        // For the same inputs there is one result, or one for terminals and one for files.
        let same = (self.results.iter().zip(&self.of_results))
            .any(|(known, of_it)| known.bits == result.bits && *of_it == numbers);
        if !same && self.results.len() < RESULTS_KEPT {
            self.results.push(result);
            self.of_results.push(numbers);
        }
    }

    /// Takes over what an older manifest has.
    fn keep(&mut self, older: &ManifestView<'_>) -> Result<()> {
        for (number, result) in older.manifest.results.iter().enumerate() {
            let mut take_or_none = |place: u32| match place.checked_sub(1) {
                Some(place) => match older.at(place) {
                    Some(address) => Ok(1 + self.reference(address)),
                    None => Err(ProgramError::malformed("a strong reference leads nowhere")),
                },
                None => Ok(0),
            };
            let taken = ManifestResult {
                compilation: take_or_none(result.compilation)?,
                diagnostics: take_or_none(result.diagnostics)?,
                dependencies: take_or_none(result.dependencies)?,
                files: take_or_none(result.files)?,
                bits: result.bits,
                reserved: 0,
            };
            let conditions = older.manifest.conditions_of(number).map(|(_, name)| name);
            self.result(taken, conditions);
            if self.results.len() == RESULTS_KEPT {
                break;
            }
        }
        Ok(())
    }

    fn body(&self, part_count: usize, day: u32) -> Vec<u8> {
        let header = ManifestHeader {
            part_count: part_count as u32,
            condition_count: self.conditions.len() as u32,
            result_count: self.results.len() as u32,
            day,
        };
        let mut body = bytemuck::bytes_of(&header).to_vec();
        body.extend_from_slice(bytemuck::cast_slice(&self.results));
        for numbers in &self.of_results {
            let mut words = vec![0_u64; header.words()];
            for number in numbers {
                words[number / 64] |= 1 << (number % 64);
            }
            body.extend_from_slice(bytemuck::cast_slice(&words));
        }
        body
    }
}

/// Days since 1970, by the store's clock.
fn today(store: &Store) -> u32 {
    u32::try_from(store.now() / NANOSECONDS_PER_DAY).unwrap_or(u32::MAX)
}

fn write_use(adder: &mut Adder<'_>, key: &Digest, used: Address, day: u32) -> Result<()> {
    let body = LastUseBody { day, reserved: 0 };
    let envelope = Envelope {
        class: Class::AttachedToAll as u8,
        body_version: BODY_VERSION,
        references: &[Reference::new(used, Strength::Owner)],
        names: &[],
        pieces: &[],
        body: bytemuck::bytes_of(&body),
    };
    let slot = Index::LastUses.slot();
    replace_enveloped(&mut adder.transaction, slot, key, &envelope)?;
    Ok(())
}

impl<'s> Programs<'s> {
    /// The day, since 1970, on which a manifest was used last, as far as that is on record.
    ///
    /// # Errors
    /// If the repository is damaged.
    pub fn last_use(&self, manifest: &ManifestView<'s>) -> Result<u32> {
        let written = manifest.manifest.day;
        let slot = Index::LastUses.slot();
        let Some(record) = (self.snapshot()).get(slot, &manifest.record.key())? else {
            return Ok(written);
        };
        // One of an older manifest says nothing that this one does not.
        let envelope = self.envelope(&record)?;
        let used = LastUseBody::parse(&envelope).map_or(0, |body| body.day);
        Ok(used.max(written))
    }
}

/// Puts on record that a result of a manifest has been used: the day, and for the ticket that was made of it the ticket's own record, as if its
/// compilation had just been added. If all of that is there already, nothing is written and no lock taken.
///
/// # Errors
/// If the repository is damaged or cannot be written.
pub fn record_use(
    programs: &Programs<'_>,
    manifest: &ManifestView<'_>,
    ticket: Option<(&Path, &Digest)>,
) -> Result<()> {
    let store = programs.snapshot().store();
    let day = today(store);
    // What is damaged is written again.
    let is_used = programs.last_use(manifest).is_ok_and(|used| used >= day);
    let slot = Index::Compilations.slot();
    let address = |found: Option<Record<'_>>| {
        found
            .map(|record| record.address)
            .ok_or_else(|| ProgramError::malformed("the compilation of a manifest is gone"))
    };
    let ticket = ticket.map(|(path, compilation)| (Ticket::new(path), compilation));
    let is_on_record = match &ticket {
        Some((ticket, compilation)) => {
            let found = address(programs.snapshot().get(slot, compilation)?)?;
            ticket.is_on_record(programs, store, found)?
        }
        None => true,
    };
    if is_used && is_on_record {
        return Ok(());
    }
    let mut adder = Adder::new(store.begin(Durability::Lazy)?)?;
    if let Some((ticket, compilation)) = &ticket {
        let found = address(adder.transaction.get(slot, compilation)?)?;
        adder.ticket(ticket, found)?;
    }
    if !is_used {
        let key = manifest.record.key();
        // Another process may have replaced it meanwhile; then that one was used as well.
        let newest = adder.transaction.get(Index::Manifests.slot(), &key)?;
        if let Some(newest) = newest.map(|record| record.address) {
            write_use(&mut adder, &key, newest, day)?;
        }
    }
    adder.transaction.commit()?;
    Ok(())
}
