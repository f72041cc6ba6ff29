//! The symbol table: every distinct global name has a dense [`SymbolId`].
//!
//! *Interning.* Millions of names have to be compared before anything else can
//! happen, so this is done in two parallel steps without locks. First the files
//! are cut into runs, and for each run every name is hashed and put into one of
//! a number of buckets, by hash. Then each bucket is made into a hash table of
//! its own, by one thread, taking the runs in order. A name's id is its number
//! in its bucket, interleaved with the bucket's number. So ids depend on the
//! inputs only, and not on the threads.
//!
//! *Names of repositories* have dense ids of their own. Of all tickets' mentions of
//! such a name only the first, in the order of the files, takes part in the
//! above; the others look up in an array what became of it. So each name is read
//! and hashed once, and the ids are the same as if all had been.
//!
//! *Slots.* Each file's globals have consecutive slots in one array that says
//! which id a file's symbol has. Fixups are followed through it.
//!
//! *Facts* ([`SymbolFacts`]) and definitions are arrays by id. Definitions are found by an atomic minimum
//! over keys that hold the kind of the definition and the place of the file on
//! the command line ([`resolution`](crate::resolve::resolution)).

use crate::base::atomic_min::Least32;
use crate::base::ids::{FileId, SymbolId};
use crate::base::interner::Distinct;
use crate::base::interner::hash_name;
use crate::base::key::Key;
use crate::input::file::{Body, File, Files};
use crate::input::object::{Object, Repository};
use crate::input::parts::RepositoryId;
use crate::messages::diag::Diagnostics;
use crate::resolve::lazy_shared_names;
use crate::resolve::name_buckets::{Mention, Names, bucket_of};
use crate::resolve::symbol_facts::{Part, SymbolFacts};
use format_spec::ids::NameId;
use rayon::prelude::*;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The names of a run of files, by bucket, and the slots of those that have a version.
type RunOfMentions<'a> = (Vec<Vec<Mention<'a>>>, Vec<u32>);

/// What became of the names of one repository, by [`NameId`]: first the least slot that has
/// the name; in the end that slot's symbol.
type RepositoryNames = Least32;

/// All global symbols.
pub struct SymbolTable<'a> {
    /// Slots whose names in their objects have a version (`f@V`, `f@@V`), in order.
    versioned: Vec<u32>,
    buckets: Vec<Distinct<'a>>,
    bucket_bits: u32,
    /// Ids of all files' globals, file after file.
    slots: Vec<AtomicU32>,
    /// By repository.
    repositories: Vec<RepositoryNames>,
    /// [`Key`] of the winning definition, by id.
    keys: Vec<AtomicU64>,
    /// [`SymbolFacts`], by id.
    facts: Vec<AtomicU32>,
}

/// If a repository knows so many times as many names as the files mention, those that are mentioned are gathered to be
/// looked at, not all.
const RARE: usize = 8;

/// Number of names for which one more bucket is worth while.
const NAMES_PER_BUCKET: usize = 16 * 1024;

/// The part of a name by which it is interned: `f` for `f` and for `f@@V`, all of `f@V`; and whether it has a version.
#[inline]
fn interned_name(name: &[u8]) -> (&[u8], bool) {
    match memchr::memchr(b'@', name) {
        Some(at) if name[at..].starts_with(b"@@") => (&name[..at], true),
        Some(_) => (name, true),
        None => (name, false),
    }
}

impl<'a> SymbolTable<'a> {
    /// Interns the global names of all files, and gives each file its slots.
    pub fn intern(files: &mut Files<'a>, diag: &Diagnostics) -> SymbolTable<'a> {
        SymbolTable::intern_as(files, interned_name, diag)
    }

    /// As [`SymbolTable::intern`], but of names that only shared objects define some may be left out, if that is less work.
    pub fn intern_mentioned(files: &mut Files<'a>, diag: &Diagnostics) -> SymbolTable<'a> {
        lazy_shared_names::hide(files);
        SymbolTable::intern(files, diag)
    }

    /// Interns the names as they are written: `f` and `f@@V` are two for whoever only joins objects.
    pub fn intern_written(files: &mut Files<'a>, diag: &Diagnostics) -> SymbolTable<'a> {
        SymbolTable::intern_as(files, |name| (name, false), diag)
    }

    fn intern_as(
        files: &mut Files<'a>,
        known_as: impl Fn(&'a [u8]) -> (&'a [u8], bool) + Copy + Sync,
        diag: &Diagnostics,
    ) -> SymbolTable<'a> {
        let mut slot_count = 0u32;
        for file in &mut files.0 {
            file.slot_base = slot_count;
            slot_count += file.symbol_count() - file.first_global();
        }
        let total = slot_count as usize;
        let bucket_count = (total / NAMES_PER_BUCKET).next_power_of_two().clamp(1, 256);
        let bucket_bits = bucket_count.trailing_zeros();
        let slots: Vec<AtomicU32> = (0..total)
            .into_par_iter()
            .with_min_len(1 << 16)
            .map(|_| AtomicU32::new(u32::MAX))
            .collect();
        let repositories = first_mentions(files, diag);

        let mentions: Vec<RunOfMentions<'a>> = runs(&files.0, total)
            .into_par_iter()
            .map(|run| {
                // Most of a ticket's names were mentioned before.
                let names: usize = run
                    .iter()
                    .map(|file| {
                        (file.symbol_count() - file.first_global()) as usize
                            / if by_id(file).is_some() { 8 } else { 1 }
                    })
                    .sum();
                let capacity = names / bucket_count + names / bucket_count / 4 + 4;
                let mut buckets: Vec<Vec<Mention>> = (0..bucket_count)
                    .map(|_| Vec::with_capacity(capacity))
                    .collect();
                let mut versioned = Vec::new();
                for file in run {
                    mention(
                        file,
                        known_as,
                        &repositories,
                        diag,
                        |name, has_version, slot| {
                            if has_version {
                                versioned.push(slot);
                            }
                            let hash = hash_name(name);
                            buckets[bucket_of(hash, bucket_bits)].push(Mention {
                                name,
                                hash: hash as u32,
                                slot,
                            });
                        },
                    );
                }
                (buckets, versioned)
            })
            .collect();

        let mut buckets: Vec<Distinct<'a>> = (0..bucket_count)
            .into_par_iter()
            .map(|number| {
                let count: usize = mentions.iter().map(|(run, _)| run[number].len()).sum();
                let mut bucket = Distinct::with_capacity(count / 3);
                for (run, _) in &mentions {
                    let added = bucket.add_all(&run[number], |mention, local, _| {
                        slots[mention.slot as usize]
                            .store((local << bucket_bits) | number as u32, Relaxed);
                    });
                    added.expect("there are fewer names than slots, which 32 bits count");
                }
                bucket
            })
            .collect();

        let mut versioned: Vec<u32> = mentions.into_iter().flat_map(|(_, slots)| slots).collect();
        all_mentions(files, &repositories, &mut versioned);
        for (repository, names) in (0..).map(RepositoryId).zip(&repositories) {
            let settle = |name: u32| {
                if let Some(symbol) = slots.get(names.get(name) as usize) {
                    names.set(name, symbol.load(Relaxed));
                }
            };
            match names.len() / RARE > total {
                true => firsts(files, repository, names)
                    .into_par_iter()
                    .for_each(settle),
                false => (0..names.len() as u32)
                    .into_par_iter()
                    .with_min_len(1 << 16)
                    .for_each(settle),
            }
        }
        files.0.par_iter().for_each(|file| {
            let Some((repository, globals)) = by_id(file) else {
                return;
            };
            let names = &repositories[repository.id.0 as usize];
            for (slot, name) in globals {
                slots[slot as usize].store(names.get(name.0), Relaxed);
            }
        });

        let mut names = Names {
            buckets: &mut buckets,
            bucket_bits,
        };
        lazy_shared_names::find(files, &mut names, !versioned.is_empty(), |slot, symbol| {
            slots[slot as usize].store(symbol.0, Relaxed);
        });

        let ids = buckets.iter().map(Distinct::len).max().unwrap_or(0) << bucket_bits;
        SymbolTable {
            versioned,
            buckets,
            bucket_bits,
            slots,
            repositories,
            keys: (0..ids)
                .into_par_iter()
                .with_min_len(1 << 16)
                .map(|_| AtomicU64::new(u64::MAX))
                .collect(),
            facts: (0..ids)
                .into_par_iter()
                .with_min_len(1 << 16)
                .map(|_| AtomicU32::new(0))
                .collect(),
        }
    }

    /// Whether some symbol's name in an object has a version.
    pub fn has_versions(&self) -> bool {
        !self.versioned.is_empty()
    }

    /// Symbols of objects whose names have a version, in the order of the files: file, index in it, and id.
    pub fn versioned<'s>(
        &'s self,
        files: &'s Files<'a>,
    ) -> impl Iterator<Item = (FileId, u32, SymbolId)> + 's {
        self.versioned.iter().filter_map(move |slot| {
            let after = files.0.partition_point(|file| file.slot_base <= *slot);
            let id = FileId(after.checked_sub(1)? as u32);
            let file = files.get(id);
            let index = slot - file.slot_base + file.first_global();
            Some((id, index, self.of(file, index)))
        })
    }

    /// Makes all mentions of one symbol mean another.
    pub fn rebind_all(&self, from: SymbolId, to: SymbolId) {
        self.slots.par_iter().for_each(|slot| {
            if slot.load(Relaxed) == from.0 {
                slot.store(to.0, Relaxed);
            }
        });
        for names in &self.repositories {
            (0..names.len() as u32).into_par_iter().for_each(|name| {
                if names.get(name) == from.0 {
                    names.set(name, to.0);
                }
            });
        }
    }

    /// One past the largest id. Not every number below is a symbol: see [`SymbolTable::name`].
    pub fn id_limit(&self) -> usize {
        self.keys.len()
    }

    /// All ids, in parallel order.
    pub fn ids(&self) -> impl IndexedParallelIterator<Item = SymbolId> + use<> {
        (0..self.keys.len() as u32)
            .into_par_iter()
            .with_min_len(1 << 14)
            .map(SymbolId)
    }

    /// The id of a global symbol of a file.
    #[inline]
    pub fn of(&self, file: &File, index: u32) -> SymbolId {
        self.at(file.slot_base, file.first_global(), index)
    }

    /// As [`SymbolTable::of`], for a loop that has the file's numbers at hand.
    #[inline]
    pub fn at(&self, slot_base: u32, first_global: u32, index: u32) -> SymbolId {
        // A damaged input may give any index; it must not lead around to another file's.
        let slot = u64::from(slot_base) + u64::from(index.wrapping_sub(first_global));
        match self.slots.get(slot as usize) {
            Some(id) => SymbolId(id.load(Relaxed)),
            None => SymbolId::NONE,
        }
    }

    /// Makes a file's symbol mean another (`--wrap`, versions).
    pub fn rebind(&self, file: &File, index: u32, id: SymbolId) {
        self.slots[(file.slot_base + (index - file.first_global())) as usize].store(id.0, Relaxed);
    }

    /// The id of a name, if any file mentions it.
    pub fn find(&self, name: &[u8]) -> Option<SymbolId> {
        let hash = hash_name(name);
        let number = bucket_of(hash, self.bucket_bits);
        let local = self.buckets[number].find(hash as u32, name)?;
        Some(SymbolId((local << self.bucket_bits) | number as u32))
    }

    /// The id of a name of a repository, if a ticket mentions it as that of a global symbol.
    pub fn of_name(&self, repository: RepositoryId, name: NameId) -> Option<SymbolId> {
        let names = self.repositories.get(repository.0 as usize)?;
        let id = SymbolId(names.get(name.0));
        (id != SymbolId::NONE).then_some(id)
    }

    /// A symbol's name; empty if the number is no symbol.
    #[inline]
    pub fn name(&self, id: SymbolId) -> &'a [u8] {
        let bucket = &self.buckets[id.index() & ((1 << self.bucket_bits) - 1)];
        let local = (id.index() >> self.bucket_bits) as u32;
        bucket.get(local).unwrap_or(b"")
    }

    /// The winning definition.
    #[inline]
    pub fn key(&self, id: SymbolId) -> Key {
        Key(self.keys[id.index()].load(Relaxed))
    }

    /// Offers a definition; the smallest key wins.
    #[inline]
    pub fn offer(&self, id: SymbolId, key: Key) {
        // Most offers come when the definition is known already: do not write then.
        let slot = &self.keys[id.index()];
        if slot.load(Relaxed) > key.0 {
            slot.fetch_min(key.0, Relaxed);
        }
    }

    /// Replaces a definition.
    pub fn set_key(&self, id: SymbolId, key: Key) {
        self.keys[id.index()].store(key.0, Relaxed);
    }

    /// Forgets all definitions.
    pub fn clear_keys(&self) {
        self.keys
            .par_iter()
            .with_min_len(1 << 16)
            .for_each(|key| key.store(u64::MAX, Relaxed));
    }

    /// What is known of a symbol.
    #[inline]
    pub fn facts(&self, id: SymbolId) -> SymbolFacts {
        SymbolFacts::of_bits(self.facts[id.index()].load(Relaxed))
    }

    /// Adds to what is known of a symbol: a part of it.
    #[inline]
    pub fn add(&self, id: SymbolId, part: impl Part) {
        self.add_facts(id, part.into());
    }

    /// As [`SymbolTable::add`], of several parts: what is known of another symbol, or was known in the link before.
    #[inline]
    pub fn add_facts(&self, id: SymbolId, facts: SymbolFacts) {
        let (slot, bits) = (&self.facts[id.index()], facts.to_bits());
        if slot.load(Relaxed) & bits != bits {
            slot.fetch_or(bits, Relaxed);
        }
    }

    /// Takes back what was known of a symbol: a part of it, where that follows from a definition that it does not have any more.
    pub fn take_back(&self, id: SymbolId, part: impl Part) {
        let facts: SymbolFacts = part.into();
        self.facts[id.index()].fetch_and(!facts.to_bits(), Relaxed);
    }
}

/// Cuts the files into runs of about equal numbers of names.
fn runs<'f, 'a>(files: &'f [File<'a>], total: usize) -> Vec<&'f [File<'a>]> {
    let target = (total / 64).max(8 * 1024);
    let mut runs = Vec::new();
    let (mut start, mut names) = (0, 0);
    for (i, file) in files.iter().enumerate() {
        names += (file.symbol_count() - file.first_global()) as usize;
        if names >= target {
            runs.push(&files[start..=i]);
            (start, names) = (i + 1, 0);
        }
    }
    if start < files.len() {
        runs.push(&files[start..]);
    }
    runs
}

/// The dense ids, in its repository, of a file's global names, and the slot of each; `None` if it has names itself.
fn by_id<'f, 'a>(
    file: &'f File<'a>,
) -> Option<(Repository<'a>, impl Iterator<Item = (u32, NameId)> + 'f)> {
    let object = file.object()?;
    let repository = object.repository()?;
    Some((repository, (file.slot_base..).zip(object.global_names())))
}

/// Finds the least slot of each name of the repositories.
fn first_mentions(files: &Files, diag: &Diagnostics) -> Vec<RepositoryNames> {
    let mut repositories: Vec<RepositoryNames> = Vec::new();
    let all = files.0.iter().filter_map(File::object);
    for Repository { id, programs } in all.filter_map(Object::repository) {
        let index = id.0 as usize;
        if index >= repositories.len() {
            repositories.resize_with(index + 1, || Least32::new(0));
        }
        if repositories[index].len() == 0 {
            let count = usize::try_from(programs.name_count()).unwrap_or(usize::MAX);
            repositories[index] = Least32::new(count);
        }
    }
    files.0.par_iter().for_each(|file| {
        let Some((repository, globals)) = by_id(file) else {
            return;
        };
        let names = &repositories[repository.id.0 as usize];
        for (slot, name) in globals {
            if !names.lower(name.0, slot) {
                diag.error(format!(
                    "{file}: the repository has no name {}, which a symbol should have",
                    name.0
                ));
            }
        }
    });
    repositories
}

/// The names of a repository that any ticket mentions, by the least slot of each, which is in `names`.
fn firsts(files: &Files, repository: RepositoryId, names: &RepositoryNames) -> Vec<u32> {
    let of_file = |file: &File| {
        let of_it = by_id(file).filter(|(its, _)| its.id == repository);
        let globals = of_it.into_iter().flat_map(|(_, globals)| globals);
        let first = globals.filter(|(slot, name)| names.get(name.0) == *slot);
        first.map(|(_, name)| name.0).collect::<Vec<u32>>()
    };
    files.0.par_iter().flat_map_iter(of_file).collect()
}

/// To `slots`, those of some names, adds those of the tickets' other mentions of the same names.
fn all_mentions(files: &Files, repositories: &[RepositoryNames], slots: &mut Vec<u32>) {
    if slots.is_empty() || repositories.is_empty() {
        return;
    }
    let first: HashSet<u32> = slots.iter().copied().collect();
    for file in &files.0 {
        let Some((repository, globals)) = by_id(file) else {
            continue;
        };
        let names = &repositories[repository.id.0 as usize];
        for (slot, name) in globals {
            let least = names.get(name.0);
            if least != slot && first.contains(&least) {
                slots.push(slot);
            }
        }
    }
    slots.sort_unstable();
}

/// Calls `f` with the name, whether it has a version, and the slot of each global of a file that takes part in resolution by name;
/// for tickets, only with those that are the first of their name.
fn mention<'a>(
    file: &File<'a>,
    known_as: impl Fn(&'a [u8]) -> (&'a [u8], bool),
    repositories: &[RepositoryNames],
    diag: &Diagnostics,
    mut f: impl FnMut(&'a [u8], bool, u32),
) {
    let first = file.first_global();
    if let Some((repository, globals)) = by_id(file) {
        let names = &repositories[repository.id.0 as usize];
        for (slot, id) in globals {
            if names.get(id.0) == slot {
                match repository.programs.name(id) {
                    Ok(name) => {
                        let (name, has_version) = known_as(name);
                        f(name, has_version, slot);
                    }
                    Err(why) => diag.error(format!("{file}: {why}")),
                }
            }
        }
        return;
    }
    if let Body::Shared(shared) = &file.body {
        for index in shared.globals() {
            // What is not the default version of its name is found by version only.
            if !shared.is_defined(index) || shared.is_default(index) {
                f(shared.name(index), false, file.slot_base + (index - first));
            }
        }
        return;
    }
    for index in first..file.symbol_count() {
        let (name, has_version) = known_as(file.symbol_name(index));
        f(name, has_version, file.slot_base + (index - first));
    }
}
