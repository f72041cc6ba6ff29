//! What a repository keeps of a definition that was compiled: index "definitions" (SPEC.md, section 26).
//!
//! Under the definition's digest: its fragment and those that are part of it (its anonymous data, its internal functions), with all
//! that a compilation says of its members beside them: suffixes, groups, symbols, bindings. So a compilation can be put together of
//! such records. And the names of what must be there as well, and how variables were aligned that its code relies on.

use crate::kept::{self, Graph};
use format_spec::digest::Digest;
use format_spec::envelope::{Class, Envelope, Reference, Strength, put_number, take_number};
use format_spec::ids::{Address, NameId};
use format_spec::program::Index;
use rustc_hash::FxHashMap;
use store::engine::{Durability, Store};
use store::program::{ProgramError, Programs, insert_enveloped, replace_enveloped};

/// The version of the body. (1 was the same in words of four bytes, 2 is [`kept`].)
const BODY_VERSION: u8 = 3;
/// What stands in for no number.
pub const NONE: u32 = u32::MAX;

/// A symbol that members define, or are bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<N> {
    /// Its name.
    pub name: N,
    /// The member that defines it, or [`NONE`].
    pub member: u32,
    /// The member's section in which it is.
    pub section: u32,
    /// ELF `st_info`.
    pub info: u8,
    /// ELF `st_other`.
    pub other: u8,
    /// As in the compilation.
    pub bits: u16,
    /// ELF `st_value`.
    pub value: u64,
    /// ELF `st_size`.
    pub size: u64,
}

/// A fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<N, F> {
    /// The fragment.
    pub fragment: F,
    /// What the names of its sections end in.
    pub suffix: N,
    /// 1 + index of its group, or 0.
    pub group: u32,
    /// How many bindings it has.
    pub bindings: u32,
}

/// What a bindable target is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// One of the symbols.
    Symbol(u32),
    /// A section of a member.
    Section(u32, u32),
}

/// What is kept of a definition. `N` are names, `F` fragments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memo<N, F> {
    /// The fragments, that of the definition first.
    pub members: Vec<Member<N, F>>,
    /// All symbols.
    pub symbols: Vec<Symbol<N>>,
    /// The bindings of all members, one after another.
    pub bindings: Vec<Binding>,
    /// Signatures and flags of section groups.
    pub groups: Vec<(N, u32)>,
    /// What must be there as well.
    pub dependents: Vec<N>,
    /// Variables, and the binary logarithm of the alignment that they have at least.
    pub alignments: Vec<(N, u32)>,
}

/// What is to be stored.
pub type New = Memo<Vec<u8>, Digest>;
/// What was found.
pub type Found<'s> = Memo<&'s [u8], Address>;

struct Numbers<'b>(&'b [u8]);

impl Numbers<'_> {
    fn wide(&mut self) -> Option<u64> {
        take_number(&mut self.0)
    }

    fn next(&mut self) -> Option<u32> {
        u32::try_from(self.wide()?).ok()
    }

    /// One that may be [`NONE`].
    fn optional(&mut self) -> Option<u32> {
        match self.wide()? {
            0 => Some(NONE),
            number => u32::try_from(number - 1).ok(),
        }
    }

    /// Each has a byte at least, so that no count asks for much room.
    fn list<T>(
        &mut self,
        count: u32,
        mut one: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        (0..count).map(|_| one(self)).collect()
    }
}

/// The record of a definition digest, if there is one that can be read.
///
/// # Errors
/// If the repository is damaged.
pub fn find<'s>(
    programs: &Programs<'s>,
    digest: &[u8; 32],
) -> Result<Option<Found<'s>>, ProgramError> {
    let slot = Index::Definitions.slot();
    let Some(record) = programs.snapshot().get(slot, &Digest(*digest))? else {
        return Ok(None);
    };
    let envelope = programs.envelope(&record)?;
    if envelope.body_version != BODY_VERSION {
        return Ok(None);
    }
    let Some(memo) = parse(envelope.body) else {
        return Ok(None);
    };
    let name = |place: u32| -> Result<Option<&'s [u8]>, ProgramError> {
        match envelope.names.get(place as usize) {
            Some(id) => Ok(Some(programs.name(*id)?)),
            None => Ok(None),
        }
    };
    let fragment = |place: u32| envelope.references.get(place as usize)?.address();
    translate(memo, name, |place| Ok(fragment(place)))
}

/// Of all records: the digest, the definition's fragment, and its name.
///
/// # Errors
/// If the repository is damaged.
pub fn heads(programs: &Programs<'_>) -> Result<Vec<(Digest, Address, NameId)>, ProgramError> {
    let mut heads = Vec::new();
    for record in programs.snapshot().iter(Index::Definitions.slot()) {
        let record = record?;
        let envelope = programs.envelope(&record)?;
        if envelope.body_version != BODY_VERSION {
            continue;
        }
        let Some(memo) = parse(envelope.body) else {
            continue;
        };
        let fragment = memo.members.first().map(|member| member.fragment as usize);
        let fragment = fragment.and_then(|place| envelope.references.get(place)?.address());
        let name = memo.symbols.first().map(|symbol| symbol.name as usize);
        let name = name.and_then(|place| envelope.names.get(place).copied());
        if let (Some(fragment), Some(name)) = (fragment, name) {
            heads.push((record.key(), fragment, name));
        }
    }
    Ok(heads)
}

/// The memo with other names and fragments; `None` if one is missing.
fn translate<N, F, M, G, E>(
    memo: Memo<N, F>,
    mut name: impl FnMut(N) -> Result<Option<M>, E>,
    mut fragment: impl FnMut(F) -> Result<Option<G>, E>,
) -> Result<Option<Memo<M, G>>, E> {
    macro_rules! some {
        ($value:expr) => {
            match $value? {
                Some(value) => value,
                None => return Ok(None),
            }
        };
    }
    let mut result = Memo {
        members: Vec::with_capacity(memo.members.len()),
        symbols: Vec::with_capacity(memo.symbols.len()),
        bindings: memo.bindings,
        groups: Vec::new(),
        dependents: Vec::new(),
        alignments: Vec::new(),
    };
    for member in memo.members {
        result.members.push(Member {
            fragment: some!(fragment(member.fragment)),
            suffix: some!(name(member.suffix)),
            group: member.group,
            bindings: member.bindings,
        });
    }
    for symbol in memo.symbols {
        result.symbols.push(Symbol {
            name: some!(name(symbol.name)),
            member: symbol.member,
            section: symbol.section,
            info: symbol.info,
            other: symbol.other,
            bits: symbol.bits,
            value: symbol.value,
            size: symbol.size,
        });
    }
    for (signature, flags) in memo.groups {
        result.groups.push((some!(name(signature)), flags));
    }
    for dependent in memo.dependents {
        result.dependents.push(some!(name(dependent)));
    }
    for (variable, align) in memo.alignments {
        result.alignments.push((some!(name(variable)), align));
    }
    Ok(Some(result))
}

/// Reads a body, in which names and fragments are places.
fn parse(body: &[u8]) -> Option<Memo<u32, u32>> {
    let mut numbers = Numbers(body);
    let [members, symbols, bindings, groups, dependents, alignments] = {
        let mut counts = [0; 6];
        for count in &mut counts {
            *count = numbers.next()?;
        }
        counts
    };
    let memo = Memo {
        members: numbers.list(members, |numbers| {
            Some(Member {
                fragment: numbers.next()?,
                suffix: numbers.next()?,
                group: numbers.next()?,
                bindings: numbers.next()?,
            })
        })?,
        symbols: numbers.list(symbols, |numbers| {
            Some(Symbol {
                name: numbers.next()?,
                member: numbers.optional()?,
                section: numbers.next()?,
                info: u8::try_from(numbers.next()?).ok()?,
                other: u8::try_from(numbers.next()?).ok()?,
                bits: u16::try_from(numbers.next()?).ok()?,
                value: numbers.wide()?,
                size: numbers.wide()?,
            })
        })?,
        bindings: numbers.list(bindings, |numbers| {
            Some(match (numbers.next()?, numbers.optional()?) {
                (symbol, NONE) => Binding::Symbol(symbol),
                (member, section) => Binding::Section(member, section),
            })
        })?,
        groups: numbers.list(groups, |numbers| Some((numbers.next()?, numbers.next()?)))?,
        dependents: numbers.list(dependents, Numbers::next)?,
        alignments: numbers.list(alignments, |numbers| {
            Some((numbers.next()?, numbers.next()?))
        })?,
    };
    (memo.is_sound() && numbers.0.is_empty()).then_some(memo)
}

impl<N, F> Memo<N, F> {
    /// Whether all numbers lead to something of it.
    fn is_sound(&self) -> bool {
        let members = self.members.len() as u32;
        let bindings: u64 = self.members.iter().map(|m| u64::from(m.bindings)).sum();
        members > 0
            && bindings == self.bindings.len() as u64
            && self
                .members
                .iter()
                .all(|m| m.group as usize <= self.groups.len())
            && self
                .symbols
                .iter()
                .all(|s| s.member == NONE || s.member < members)
            && self.bindings.iter().all(|binding| match binding {
                Binding::Symbol(symbol) => (*symbol as usize) < self.symbols.len(),
                Binding::Section(member, _) => *member < members,
            })
    }
}

/// `None` for what has no encoding: values of 63 bits and more.
fn encode(memo: &Memo<u32, u32>) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    let mut put = |number: u64| put_number(&mut body, number);
    let optional = |number: u32| match number {
        NONE => 0,
        number => u64::from(number) + 1,
    };
    for count in [
        memo.members.len(),
        memo.symbols.len(),
        memo.bindings.len(),
        memo.groups.len(),
        memo.dependents.len(),
        memo.alignments.len(),
    ] {
        put(count as u64);
    }
    for member in &memo.members {
        let all = [
            member.fragment,
            member.suffix,
            member.group,
            member.bindings,
        ];
        all.into_iter().for_each(|number| put(number.into()));
    }
    for symbol in &memo.symbols {
        if symbol.value >> 62 != 0 || symbol.size >> 62 != 0 {
            return None;
        }
        put(symbol.name.into());
        put(optional(symbol.member));
        put(symbol.section.into());
        put(symbol.info.into());
        put(symbol.other.into());
        put(symbol.bits.into());
        put(symbol.value);
        put(symbol.size);
    }
    for binding in &memo.bindings {
        let (first, second) = match *binding {
            Binding::Symbol(symbol) => (symbol, NONE),
            Binding::Section(member, section) => (member, section),
        };
        put(first.into());
        put(optional(second));
    }
    for (signature, flags) in &memo.groups {
        put((*signature).into());
        put((*flags).into());
    }
    for dependent in &memo.dependents {
        put((*dependent).into());
    }
    for (variable, align) in &memo.alignments {
        put((*variable).into());
        put((*align).into());
    }
    Some(body)
}

/// What storing did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stored {
    /// Records that were written.
    pub written: u32,
    /// Records that were there, the same.
    pub same: u32,
    /// Bytes of the graph's record, before it was compressed.
    pub graph_bytes: usize,
}

/// Stores what was compiled, under the definitions' digests, and a graph, which some of these fragments keep. All names and fragments must be in the repository. What is there
/// and the same is not written again; what is there and not the same is replaced.
///
/// # Errors
/// If the repository is damaged, or cannot be written.
pub fn store(
    store: &Store,
    memos: &[([u8; 32], New)],
    graph: &Graph,
    fragments: &[Digest],
) -> Result<Stored, ProgramError> {
    let mut stored = Stored::default();
    let programs = Programs::new(store.snapshot()?);
    let mut prepared = Vec::new();
    for (digest, memo) in memos {
        let mut places = FxHashMap::default();
        let mut names = Vec::new();
        let mut references = Vec::new();
        let by_place = translate(
            memo.clone(),
            |name: Vec<u8>| -> Result<Option<u32>, ProgramError> {
                if let Some(place) = places.get(&name) {
                    return Ok(Some(*place));
                }
                // The empty name is the same in all repositories.
                let id = match name.is_empty() {
                    true => Some(NameId(0)),
                    false => programs.find_name(&name)?,
                };
                Ok(id.map(|id| {
                    names.push(id);
                    let place = names.len() as u32 - 1;
                    places.insert(name, place);
                    place
                }))
            },
            |fragment: Digest| {
                let record = programs
                    .snapshot()
                    .get(Index::Fragments.slot(), &fragment)?;
                Ok(record.map(|record| {
                    references.push(Reference::new(record.address, Strength::Owner));
                    references.len() as u32 - 1
                }))
            },
        )?;
        let Some(by_place) = by_place else { continue };
        let Some(body) = encode(&by_place) else {
            continue;
        };
        let there = programs
            .snapshot()
            .get(Index::Definitions.slot(), &Digest(*digest))?;
        let is_same = there.as_ref().is_some_and(|record| {
            programs.envelope(record).is_ok_and(|there| {
                there.body == body && there.names == names && there.references == references
            })
        });
        if is_same {
            stored.same += 1;
            continue;
        }
        prepared.push((digest, names, references, body, there.is_some()));
    }
    let graph = new_graph(&programs, graph, fragments)?;
    // So many that other writers need not wait long.
    let mut chunks: Vec<_> = prepared.chunks(500).collect();
    if chunks.is_empty() && graph.is_some() {
        chunks.push(&[]);
    }
    let last = chunks.len();
    for (number, some) in chunks.into_iter().enumerate() {
        let mut transaction = store.begin(Durability::Lazy)?;
        for (digest, names, references, body, is_there) in some {
            let envelope = Envelope {
                class: Class::AttachedToAll as u8,
                body_version: BODY_VERSION,
                references,
                names,
                pieces: &[],
                body,
            };
            let slot = Index::Definitions.slot();
            let add = if *is_there {
                replace_enveloped
            } else {
                insert_enveloped
            };
            add(&mut transaction, slot, &Digest(**digest), &envelope)?;
            stored.written += 1;
        }
        if let (true, Some(graph)) = (number + 1 == last, &graph) {
            let envelope = Envelope {
                class: Class::AttachedToAny as u8,
                body_version: kept::BODY_VERSION,
                references: &graph.owners,
                names: &graph.names,
                pieces: &[],
                body: &graph.body,
            };
            let slot = Index::Definitions.slot();
            insert_enveloped(&mut transaction, slot, &graph.key, &envelope)?;
            stored.graph_bytes = graph.body.len();
        }
        transaction.commit()?;
    }
    Ok(stored)
}

/// A graph as it is written.
struct NewGraph {
    key: Digest,
    owners: Vec<Reference>,
    names: Vec<NameId>,
    body: Vec<u8>,
}

/// The record of a graph, if there is none as yet. Some of the fragments keep it.
fn new_graph(
    programs: &Programs<'_>,
    graph: &Graph,
    fragments: &[Digest],
) -> Result<Option<NewGraph>, ProgramError> {
    if graph.nodes.is_empty() {
        return Ok(None);
    }
    let (key, names, body) = graph.encode(|name| programs.find_name(name))?;
    let snapshot = programs.snapshot();
    if snapshot.get(Index::Definitions.slot(), &key)?.is_some() {
        return Ok(None);
    }
    let step = fragments.len().div_ceil(kept::MOST_OWNERS).max(1);
    let mut owners = Vec::new();
    for fragment in fragments.iter().step_by(step) {
        let record = snapshot.get(Index::Fragments.slot(), fragment)?;
        owners.extend(record.map(|record| Reference::new(record.address, Strength::Owner)));
    }
    if owners.is_empty() {
        return Ok(None);
    }
    Ok(Some(NewGraph {
        key,
        owners,
        names,
        body,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Memo<u32, u32> {
        Memo {
            members: vec![
                Member {
                    fragment: 0,
                    suffix: 1,
                    group: 1,
                    bindings: 2,
                },
                Member {
                    fragment: 1,
                    suffix: 0,
                    group: 0,
                    bindings: 0,
                },
            ],
            symbols: vec![Symbol {
                name: 2,
                member: 0,
                section: 0,
                info: 0x12,
                other: 2,
                bits: 4,
                value: 1 << 40,
                size: 77,
            }],
            bindings: vec![Binding::Symbol(0), Binding::Section(1, 0)],
            groups: vec![(2, 1)],
            dependents: vec![3, 4],
            alignments: vec![(5, 4)],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(parse(&encode(&sample()).unwrap()), Some(sample()));
    }

    #[test]
    fn every_cut_and_every_number_that_leads_nowhere_is_refused() {
        let bytes = encode(&sample()).unwrap();
        for end in 0..bytes.len() {
            assert_eq!(parse(&bytes[..end]), None, "cut at {end}");
        }
        let mut memo = sample();
        memo.bindings[0] = Binding::Symbol(1);
        assert_eq!(parse(&encode(&memo).unwrap()), None);
        let mut memo = sample();
        memo.members[0].bindings = 1;
        assert_eq!(parse(&encode(&memo).unwrap()), None);
        let mut memo = sample();
        memo.members[1].group = 2;
        assert_eq!(parse(&encode(&memo).unwrap()), None);
    }
}
