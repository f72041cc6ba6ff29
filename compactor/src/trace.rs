//! Records in envelopes: which of them are live, and copying them (SPEC.md, sections 24 and 25).
//!
//! They are records of kinds that this program need not know. What keeps them is in their envelopes: they are roots, or
//! needed by others, or attached to what is live, which may be a compilation, a fragment or an image. What is found to be
//! live is marked, by the address of its record in the old file; an attached record that is not live waits for an owner
//! that is not, and is looked at again when that is marked, perhaps because a writer has revived it meanwhile. An
//! attached record that is needed, or young, keeps its owners instead.
//!
//! Then what is marked is copied, in the order of addresses: so what a record refers to is there before it.
//! A record of which that is damaged, or is not as the specification asks, is dropped; so is what cannot be without it.

use crate::copying::Parts;
use crate::damage;
use crate::roots::Survey;
use anyhow::{Result, bail};
use format_spec::envelope::{Class, Envelope, Reference, Strength};
use format_spec::file::{INDEX_SLOTS, IndexSlot, VECTOR_SLOTS, VectorSlot};
use format_spec::ids::Address;
use format_spec::program::{Index, has_envelopes, has_kept_elements, index_in_words};
use std::collections::HashMap;
use store::addresses::{AddressMap, AddressSet};
use store::engine::{Durability, Record};
use store::program::{Carried, Copier, Programs, Repository};

/// What is live, what of it is copied, and where that is now.
#[derive(Debug, Default)]
pub struct Trace {
    /// What is live: compilations, fragments, tickets, images, and records in envelopes.
    live: AddressSet,
    /// What is live on account of something that cannot be without it, or of its age.
    needed: AddressSet,
    /// What is live and has not been asked yet what it keeps.
    unasked: Vec<Address>,
    /// What is needed and has not been asked yet for its owners.
    unasked_for_owners: Vec<Address>,
    /// What is kept while it is used, and was not.
    unused: AddressSet,
    /// Attached records that are not live, by an owner that is not.
    waiting: HashMap<Address, Vec<Address>>,
    /// Records in envelopes that are live and not copied yet.
    uncopied: AddressSet,
    /// Where tickets, images and records in envelopes are in the new file.
    carried: AddressMap,
    /// How many records in envelopes are live, by index.
    counts: [u64; INDEX_SLOTS],
    /// How many elements of the vectors have been marked and copied.
    marked_elements: [u64; VECTOR_SLOTS],
    copied_elements: [u64; VECTOR_SLOTS],
    /// What keeps each live record that is no root, if somebody asks for that.
    keepers: Option<HashMap<Address, Address>>,
    /// What is live, in the order in which that was found, if somebody asks for that.
    found: Option<Vec<Address>>,
    /// The record that is being asked what it keeps; no address while roots are marked.
    asked: Address,
    /// What copiers know of what is copied.
    known: Option<Carried>,
    /// What was dropped, for the user.
    pub warnings: Vec<String>,
}

impl Trace {
    /// One that remembers what keeps each record.
    pub fn with_keepers() -> Trace {
        Trace {
            keepers: Some(HashMap::new()),
            ..Trace::default()
        }
    }

    /// One that remembers the order in which records are found to be live.
    pub fn in_order() -> Trace {
        Trace {
            found: Some(Vec::new()),
            ..Trace::default()
        }
    }

    /// One that copies from `programs` into `new` what is not copied yet. If it is not [committed](Trace::committed), what it has copied is copied again.
    ///
    /// # Errors
    /// If the new file cannot be written.
    pub fn copier<'d>(
        &mut self,
        programs: &Programs<'_>,
        new: &'d Repository,
        durability: Durability,
    ) -> Result<Copier<'d>> {
        let mut copier = Copier::new(new, durability)?;
        copier.pack_as(programs);
        if let Some(known) = self.known.take() {
            copier.follow(known);
        }
        Ok(copier)
    }

    /// Commits what a [copier](Trace::copier) has copied.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn committed(&mut self, copier: Copier<'_>) -> Result<()> {
        self.known = Some(copier.commit()?);
        Ok(())
    }

    /// What keeps a live record, if it is no root, and that is remembered.
    pub fn keeper_of(&self, address: Address) -> Option<Address> {
        self.keepers.as_ref()?.get(&address).copied()
    }

    /// What was found to be live since this was asked for last, if that is remembered.
    pub fn take_found(&mut self) -> Vec<Address> {
        self.found.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Marks a record as live.
    pub fn mark(&mut self, address: Address) {
        if self.live.insert(address) {
            self.unasked.push(address);
            if let Some(found) = &mut self.found {
                found.push(address);
            }
            if let Some(keepers) = &mut self.keepers
                && self.asked != Address(0)
            {
                keepers.insert(address, self.asked);
            }
        }
    }

    /// Marks a record as live, for itself and not on account of its owners, which it keeps.
    pub fn need(&mut self, address: Address) {
        self.mark(address);
        if self.needed.insert(address) {
            self.unasked_for_owners.push(address);
        }
    }

    /// Takes records that are kept while they are used for unused: they are no roots.
    pub fn unused(&mut self, addresses: impl IntoIterator<Item = Address>) {
        self.unused.extend(addresses);
    }

    /// Whether a record is live, as far as it has been [followed](Trace::follow).
    pub fn is_live(&self, address: Address) -> bool {
        self.live.contains(address)
    }

    /// Remembers where a ticket or an image is in the new file, and marks it.
    pub fn carried(&mut self, old: Address, new: Address) {
        self.mark(old);
        self.carried.insert(old, new);
    }

    /// How many records in envelopes of an index are live.
    pub fn count(&self, index: IndexSlot) -> u64 {
        self.counts[usize::from(index.number())]
    }

    /// Looks at all records in envelopes. Those at `young` or later are live, whatever they are.
    ///
    /// # Errors
    /// If an index is damaged, or there is an envelope of another version.
    pub fn look_at_all(&mut self, programs: &Programs<'_>, young: Address) -> Result<()> {
        let snapshot = programs.snapshot();
        for index in IndexSlot::all().filter(|index| has_envelopes(*index)) {
            let mut found = 0;
            for record in snapshot.iter(index) {
                found += 1;
                let Some(record) = damage::unless_damaged(record.map_err(Into::into))? else {
                    self.drop(programs, &a_record_of(index), None, IS_DAMAGED);
                    continue;
                };
                if record.address >= young {
                    self.need(record.address);
                } else if let Some(envelope) = damage::unless_damaged(programs.envelope(&record))? {
                    self.look_at(record.address, &envelope);
                } else {
                    let address = Some(record.address);
                    self.drop(programs, &a_record_of(index), address, IS_DAMAGED);
                }
            }
            // There is no telling what a damaged index hides.
            let count = snapshot.count(index);
            if found != count {
                bail!(
                    "{}: {} is damaged: it has {found} of {count} records",
                    snapshot.store().path().display(),
                    index_in_words(index),
                );
            }
        }
        self.follow(programs)
    }

    /// A record that is not live by its age.
    fn look_at(&mut self, address: Address, envelope: &Envelope<'_>) {
        match envelope.class() {
            Some(Class::Needed) => {}
            Some(Class::Cached) if self.unused.contains(address) => {}
            Some(Class::Root | Class::Cached) | None => self.mark(address),
            Some(Class::AttachedToAll) => {
                match owners(envelope).find(|owner| !self.is_live(*owner)) {
                    Some(missing) => self.waiting.entry(missing).or_default().push(address),
                    None => self.mark(address),
                }
            }
            Some(Class::AttachedToAny) => {
                if owners(envelope).any(|owner| self.is_live(owner)) {
                    return self.mark(address);
                }
                for owner in owners(envelope) {
                    self.waiting.entry(owner).or_default().push(address);
                }
            }
        }
    }

    /// Marks what is live on account of what has been marked, and of vectors' elements.
    ///
    /// # Errors
    /// If an index is damaged, or there is an envelope of another version.
    pub fn follow(&mut self, programs: &Programs<'_>) -> Result<()> {
        let snapshot = programs.snapshot();
        for vector in VectorSlot::all().filter(|vector| has_kept_elements(*vector)) {
            let place = usize::from(vector.number());
            for element in self.marked_elements[place]..snapshot.vector_len(vector) {
                let address = snapshot.vector_get(vector, element as u32)?;
                self.need_found(target(programs, address.unwrap_or_default())?);
            }
            self.marked_elements[place] = snapshot.vector_len(vector);
        }
        // If there are none, nobody asks what fragments the live compilations are made of.
        let has_any = |index: IndexSlot| has_envelopes(index) && snapshot.count(index) > 0;
        if !IndexSlot::all().any(has_any) && self.keepers.is_none() {
            return Ok(());
        }
        loop {
            if let Some(address) = self.unasked.pop() {
                self.asked = address;
                self.ask(programs, address)?;
                for waiting in self.waiting.remove(&address).unwrap_or_default() {
                    if !self.is_live(waiting)
                        && let Some(envelope) = envelope_at(programs, waiting)?
                    {
                        self.look_at(waiting, &envelope);
                    }
                }
            } else if let Some(address) = self.unasked_for_owners.pop() {
                self.asked = address;
                self.ask_for_owners(programs, address)?;
            } else {
                self.asked = Address(0);
                return Ok(());
            }
        }
    }

    /// Marks what a live record keeps. What is damaged keeps nothing: it will be dropped when it is to be copied.
    fn ask(&mut self, programs: &Programs<'_>, address: Address) -> Result<()> {
        let record = programs.snapshot().record_at(address).map_err(Into::into);
        let Some(record) = damage::unless_damaged(record)? else {
            return Ok(());
        };
        match record.index() {
            Some(index) if index == Index::Compilations.slot() => {
                let marked = programs.with_compilation(address, |view| {
                    for member in view.members() {
                        self.mark(member.fragment);
                    }
                });
                damage::unless_damaged(marked)?;
            }
            Some(index) if index == Index::Fragments.slot() => {
                if let Some(view) = damage::unless_damaged(programs.fragment(address))? {
                    for anonymous in view.anonymous() {
                        self.mark(*anonymous);
                    }
                }
            }
            Some(index) if has_envelopes(index) => {
                self.counts[usize::from(index.number())] += 1;
                self.uncopied.insert(address);
                if let Some(envelope) = damage::unless_damaged(programs.envelope(&record))? {
                    let keeps_all = envelope.class().is_none();
                    for reference in envelope.references {
                        let address = reference.address().unwrap_or_default();
                        match reference.strength() {
                            Some(Strength::Strong) => self.need_found(target(programs, address)?),
                            _ if keeps_all => self.need_found(owner(programs, address)?),
                            _ => {}
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Marks what a needed record is attached to.
    fn ask_for_owners(&mut self, programs: &Programs<'_>, address: Address) -> Result<()> {
        let Some(envelope) = envelope_at(programs, address)? else {
            return Ok(());
        };
        if envelope.class().is_some_and(Class::is_attached) {
            for reference in envelope.references {
                if reference.strength() == Some(Strength::Owner) {
                    let address = reference.address().unwrap_or_default();
                    self.need_found(owner(programs, address)?);
                }
            }
        }
        Ok(())
    }

    fn need_found(&mut self, record: Option<Record<'_>>) {
        if let Some(record) = record {
            self.need(record.address);
        }
    }

    /// Copies what is marked and not copied yet, and the vectors' new elements.
    ///
    /// # Errors
    /// If something cannot be read, but for damage, or not be written.
    pub(crate) fn copy<'d>(
        &mut self,
        programs: &Programs<'_>,
        mut copier: Copier<'d>,
        parts: &Parts,
    ) -> Result<Copier<'d>> {
        let snapshot = programs.snapshot();
        copier.require(snapshot.features());
        for address in std::mem::take(&mut self.uncopied).iter() {
            let record = snapshot.record_at(address)?;
            let index = record.index();
            let copied = self.copy_record(programs, &mut copier, &record)?;
            copier = parts.next(copier)?;
            match (copied, index) {
                (Some(new), _) => {
                    self.carried.insert(address, new);
                }
                (None, Some(index)) => self.counts[usize::from(index.number())] -= 1,
                (None, None) => {}
            }
        }
        for vector in VectorSlot::all().filter(|vector| has_kept_elements(*vector)) {
            let place = usize::from(vector.number());
            for element in self.copied_elements[place]..snapshot.vector_len(vector) {
                let address = snapshot
                    .vector_get(vector, element as u32)?
                    .unwrap_or_default();
                let new = match target(programs, address)? {
                    Some(record) => self.located(programs, &mut copier, &record)?,
                    None => None,
                };
                if new.is_none() && address != Address(0) {
                    let what = format!("element {element} of vector {vector}");
                    self.drop(programs, &what, Some(address), "is damaged or gone");
                }
                // In its place: others may know it by its number.
                copier.push(vector, new.unwrap_or_default())?;
                copier = parts.next(copier)?;
            }
            self.copied_elements[place] = snapshot.vector_len(vector);
        }
        Ok(copier)
    }

    /// Copies a record in an envelope; `None` if it is dropped.
    fn copy_record(
        &mut self,
        programs: &Programs<'_>,
        copier: &mut Copier<'_>,
        record: &Record<'_>,
    ) -> Result<Option<Address>> {
        let what = || record.index().map_or_else(String::new, a_record_of);
        // Through the snapshot, for its lifetime.
        let record = programs.snapshot().record_at(record.address)?;
        let Some(envelope) = damage::unless_damaged(programs.envelope(&record))? else {
            self.drop(programs, &what(), Some(record.address), IS_DAMAGED);
            return Ok(None);
        };
        let mut references = Vec::with_capacity(envelope.references.len());
        for reference in envelope.references {
            let (Some(address), Some(strength)) = (reference.address(), reference.strength())
            else {
                references.push(*reference);
                continue;
            };
            let found = match strength {
                Strength::Strong => target(programs, address)?,
                Strength::Owner | Strength::Weak => newest(programs, address)?,
            };
            let new = match found {
                Some(found) => self.located(programs, copier, &found)?,
                None => None,
            };
            if new.is_none() && strength == Strength::Strong {
                let why = format!("needs what is damaged or gone at offset {:#x}", address.0);
                self.drop(programs, &what(), Some(record.address), &why);
                return Ok(None);
            }
            references.push(Reference::new(new.unwrap_or_default(), strength));
        }
        // An owner may have been found to be damaged, or been replaced: then this is of no use any more.
        let is_owner = |reference: &&Reference| reference.strength() == Some(Strength::Owner);
        let mut owners = references.iter().filter(is_owner);
        let is_orphan = match envelope.class() {
            Some(Class::AttachedToAll) => owners.any(|owner| owner.address().is_none()),
            Some(Class::AttachedToAny) => owners.all(|owner| owner.address().is_none()),
            _ => false,
        };
        if is_orphan {
            return Ok(None);
        }
        let checked = programs.check_body(&record, &envelope);
        let copied =
            checked.and_then(|()| copier.enveloped(programs, &record, &envelope, &references));
        let copied = damage::unless_damaged(copied)?;
        if copied.is_none() {
            self.drop(programs, &what(), Some(record.address), IS_DAMAGED);
        }
        Ok(copied)
    }

    /// Where a record is in the new file, to which it is copied if it is live and its content is all that it is.
    fn located(
        &self,
        programs: &Programs<'_>,
        copier: &mut Copier<'_>,
        record: &Record<'_>,
    ) -> Result<Option<Address>> {
        if let Some(new) = self.carried.get(record.address) {
            return Ok(Some(new));
        }
        let Some(index) = record.index().filter(|index| is_of_content(*index)) else {
            return Ok(None);
        };
        match copier.find_content(programs, index, record)? {
            Some(new) => Ok(Some(new)),
            None if self.is_live(record.address) => {
                let copied = copier.content(programs, record);
                Ok(damage::unless_damaged(copied)?.flatten())
            }
            None => Ok(None),
        }
    }

    fn drop(&mut self, programs: &Programs<'_>, what: &str, address: Option<Address>, why: &str) {
        let path = programs.snapshot().store().path().display();
        let at = address.map_or_else(String::new, |address| {
            format!(" at offset {:#x}", address.0)
        });
        self.warnings
            .push(format!("{path}: {what}{at} {why}; dropped"));
    }
}

const IS_DAMAGED: &str = "is damaged";

fn a_record_of(index: IndexSlot) -> String {
    format!("a record of {}", index_in_words(index))
}

fn owners(envelope: &Envelope<'_>) -> impl Iterator<Item = Address> {
    let is_owner = |reference: &&Reference| reference.strength() == Some(Strength::Owner);
    let owners = envelope.references.iter().filter(is_owner);
    owners.filter_map(|owner| owner.address())
}

/// Names, pieces, fragments and compilations, which are found by what is in them.
fn is_of_content(index: IndexSlot) -> bool {
    index <= Index::Compilations.slot()
}

/// The envelope of the record at an address; `None` if it is in none, or damaged.
fn envelope_at<'s>(programs: &Programs<'s>, address: Address) -> Result<Option<Envelope<'s>>> {
    let record = programs.snapshot().record_at(address).map_err(Into::into);
    match damage::unless_damaged(record)? {
        Some(record) if record.index().is_some_and(has_envelopes) => {
            Ok(damage::unless_damaged(programs.envelope(&record))?)
        }
        _ => Ok(None),
    }
}

/// The record at an address, if there is one of which no other one has taken the place.
fn newest<'s>(programs: &Programs<'s>, address: Address) -> Result<Option<Record<'s>>> {
    let snapshot = programs.snapshot();
    let record = damage::unless_damaged(snapshot.record_at(address).map_err(Into::into))?;
    let Some((record, index)) = record.and_then(|record| Some((record, record.index()?))) else {
        return Ok(None);
    };
    let newest = damage::unless_damaged(snapshot.get(index, &record.key()).map_err(Into::into))?;
    let is_newest = newest
        .flatten()
        .is_some_and(|newest| newest.address == address);
    Ok(is_newest.then_some(record))
}

/// The record at an address, if a strong reference or a vector may lead to it.
fn target<'s>(programs: &Programs<'s>, address: Address) -> Result<Option<Record<'s>>> {
    let may_be = |record: &Record<'_>| {
        let index = record.index().and_then(Index::at);
        !index.is_some_and(Index::is_replaceable)
    };
    Ok(newest(programs, address)?.filter(may_be))
}

/// The record at an address, if a record that is attached to it can keep it. Tickets and images live as long as their files.
fn owner<'s>(programs: &Programs<'s>, address: Address) -> Result<Option<Record<'s>>> {
    let is_of_file = |record: &Record<'_>| {
        let index = record.index();
        index == Some(Index::Tickets.slot()) || index == Some(Index::Images.slot())
    };
    Ok(newest(programs, address)?.filter(|record| !is_of_file(record)))
}

/// Marks what the survey has found, and what that keeps; manifests in `unused` are no roots.
pub(crate) fn mark_roots(
    programs: &Programs<'_>,
    survey: &Survey,
    unused: &[Address],
    trace: &mut Trace,
) -> Result<()> {
    let snapshot = programs.snapshot();
    for compilation in survey.live.keys() {
        trace.mark(*compilation);
    }
    let tickets = survey.tickets.iter().filter(|ticket| ticket.gone.is_none());
    let tickets = tickets.map(|ticket| (Index::Tickets, &ticket.key));
    let images = survey.images.iter().filter(|(_, _, gone)| gone.is_none());
    let images = images.map(|(key, _, _)| (Index::Images, key));
    for (index, key) in tickets.chain(images) {
        if let Some(record) = snapshot.get(index.slot(), key)? {
            trace.mark(record.address);
        }
    }
    trace.unused(unused.iter().copied());
    trace.look_at_all(programs, survey.young)
}
