//! Whether what is to be copied has its digests: most of the work of a copy, which several threads do at once.
//!
//! Digests are computed of what is in the file, as it is there; only what is recorded compressed is decompressed for that, to
//! memory that is used again. A fragment that several compilations have is hashed once. Nothing is kept with the store: a repository that is copied
//! may be larger than memory.

use super::Result;
use super::compilation_view::CompilationView;
use super::digester::Digester;
use super::fragment_view::{self, FragmentView};
use super::recorded::Fresh;
use super::view::{COMPILATION, FRAGMENT, Programs};
use crate::addresses::AddressSet;
use crate::engine::Record;
use format_spec::ids::Address;
use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

/// The fragments of one file that are known to have their digests.
#[derive(Debug, Default)]
pub struct Verified {
    fragments: RwLock<AddressSet>,
}

impl Verified {
    /// Those of `addresses` that are not known.
    fn unknown(&self, addresses: impl Iterator<Item = Address>) -> Vec<Address> {
        let known = self.fragments.read();
        let known = known.unwrap_or_else(PoisonError::into_inner);
        addresses
            .filter(|address| !known.contains(*address))
            .collect()
    }

    fn add(&self, addresses: &[Address]) {
        let known = self.fragments.write();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        known.extend(addresses.iter().copied());
    }
}

/// A compilation that has its digest, as have all that it is made of.
pub struct Checked<'s> {
    record: Record<'s>,
    value: Fresh<'s>,
    /// Its fragments in the order of their addresses, each once: so each comes after those that it refers to.
    fragments: Vec<Address>,
}

impl<'s> Checked<'s> {
    /// Its record, of which the key is the digest.
    pub fn record(&self) -> Record<'s> {
        self.record
    }

    /// Its fragments, each after those that it refers to.
    pub(super) fn fragments(&self) -> &[Address] {
        &self.fragments
    }

    pub(super) fn view(&self, programs: &Programs<'s>) -> Result<CompilationView<'_>> {
        view(programs, self.record, &self.value)
    }
}

/// A view of a compilation whose value is kept elsewhere.
fn view<'v>(
    programs: &Programs<'_>,
    record: Record<'v>,
    value: &'v Fresh<'_>,
) -> Result<CompilationView<'v>> {
    let view = CompilationView::cut(record, value.bytes()).and_then(CompilationView::checked);
    view.ok_or_else(|| programs.damaged(record.address, "not a compilation"))
}

/// Checks one thing after another.
pub struct Checker<'p, 's> {
    programs: &'p Programs<'s>,
    verified: &'p Verified,
    digester: Digester,
}

impl<'s> Programs<'s> {
    /// Has `look` look at the compilation at `address`, of which nothing is kept afterwards.
    ///
    /// # Errors
    /// If there is none, or the repository is damaged.
    pub fn with_compilation<T>(
        &self,
        address: Address,
        look: impl FnOnce(&CompilationView<'_>) -> T,
    ) -> Result<T> {
        let record = self.whole(self.snapshot().record_at(address)?, COMPILATION)?;
        let value = self.fresh_compilation(&record)?;
        Ok(look(&view(self, record, &value)?))
    }
}

impl<'p, 's> Checker<'p, 's> {
    /// Checks what is in `programs`, but for what is `verified`.
    pub fn new(programs: &'p Programs<'s>, verified: &'p Verified) -> Checker<'p, 's> {
        Checker {
            programs,
            verified,
            digester: Digester::default(),
        }
    }

    /// Checks the compilation at `address` with all that it is made of.
    ///
    /// # Errors
    /// [`ProgramError::Damaged`](super::ProgramError::Damaged) if something does not have its digest; and what comes from reading.
    pub fn compilation(&mut self, address: Address) -> Result<Checked<'s>> {
        let programs = self.programs;
        let damaged = |what| programs.damaged(address, what);
        let record = programs.whole(programs.snapshot().record_at(address)?, COMPILATION)?;
        let value = programs.fresh_compilation(&record)?;
        let view = view(programs, record, &value)?;
        // The outline is no part of the digest.
        if !view.outline_is_whole() {
            return Err(damaged("the outline does not have its checksum"));
        }
        let mut fragments: Vec<Address> = view.members().iter().map(|m| m.fragment).collect();
        fragments.sort_unstable();
        fragments.dedup();
        let unknown = self.verified.unknown(fragments.iter().copied());
        for fragment in &unknown {
            self.check_fragment(*fragment, |other| fragments.binary_search(&other).is_ok())?;
        }
        for (index, member) in view.members().iter().enumerate() {
            let record = programs.snapshot().record_at(member.fragment)?;
            let counts = fragment_view::counts(record.value);
            if counts != Some((view.sections_of(index).len(), view.bindings_of(index).len())) {
                return Err(damaged(
                    "a member's numbers of sections and bindings are not its fragment's",
                ));
            }
        }
        if !record.has_key(&self.digester.compilation(programs, &view)?) {
            return Err(damaged(
                "the compilation's content does not have its digest",
            ));
        }
        self.verified.add(&unknown);
        Ok(Checked {
            record,
            value,
            fragments,
        })
    }

    /// Checks a fragment with those that it refers to, and returns them, each after those that it refers to.
    ///
    /// # Errors
    /// As above.
    pub fn fragment(&mut self, address: Address) -> Result<Vec<Address>> {
        let mut found = HashSet::new();
        let mut next = vec![address];
        while let Some(address) = next.pop() {
            if found.insert(address) {
                let record = self.programs.snapshot().record_at(address)?;
                let others = fragment_view::anonymous(record.value);
                let others =
                    others.ok_or_else(|| self.programs.damaged(address, "not a fragment"))?;
                next.extend(others);
            }
        }
        let mut all: Vec<Address> = found.iter().copied().collect();
        all.sort_unstable();
        let unknown = self.verified.unknown(all.iter().copied());
        for fragment in &unknown {
            self.check_fragment(*fragment, |other| found.contains(&other))?;
        }
        self.verified.add(&unknown);
        Ok(all)
    }

    /// Checks a fragment; those that it refers to must be among `others`, which are all checked.
    fn check_fragment(&mut self, address: Address, others: impl Fn(Address) -> bool) -> Result<()> {
        let programs = self.programs;
        let record = programs.whole(programs.snapshot().record_at(address)?, FRAGMENT)?;
        let not_one = || programs.damaged(address, "not a fragment");
        let plain;
        let value = match fragment_view::is_compressed(record.value) {
            false => record.value,
            true => {
                let (words, size) = fragment_view::plain(record.value).ok_or_else(not_one)?;
                plain = words;
                &bytemuck::cast_slice::<u64, u8>(&plain)[..size]
            }
        };
        let view = FragmentView::new(record, value).ok_or_else(not_one)?;
        let all_known = |other: &Address| *other < address && others(*other);
        if !view.anonymous().iter().all(all_known) {
            let what = "an anonymous fragment is not in the compilation";
            return Err(programs.damaged(address, what));
        }
        match record.has_key(&self.digester.fragment(programs, &view)?) {
            true => Ok(()),
            false => {
                let what = "a fragment's content does not have its digest";
                Err(programs.damaged(address, what))
            }
        }
    }
}
