//! What a repository keeps of a definition that was compiled: index "definitions" (SPEC.md, section 26).
//!
//! Under the definition's digest: its fragment and those that are part of it (its anonymous data, its internal functions), with all
//! that a compilation says of its members beside them: suffixes, groups, symbols, bindings. So a compilation can be put together of
//! such records. And the names of what must be there as well, and how variables were aligned that its code relies on.
//!
//! How that is written, and how little of it: [`body`].

mod body;

use crate::kept::{self, Graph};
use body::Written;
use format_spec::digest::Digest;
use format_spec::envelope::{Class, Envelope, Reference, Strength};
use format_spec::ids::{Address, NameId};
use format_spec::program::Index;
use store::engine::{Durability, Store};
use store::program::{ProgramError, Programs, insert_enveloped, replace_enveloped};

/// The version of the body. (1 and 3 had all symbols and bindings, 2 is [`kept`].)
const BODY_VERSION: u8 = 4;
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

/// The record of a definition digest, if there is one of this version.
fn envelope_of<'s>(
    programs: &Programs<'s>,
    digest: &[u8; 32],
) -> Result<Option<Envelope<'s>>, ProgramError> {
    let slot = Index::Definitions.slot();
    let Some(record) = programs.snapshot().get(slot, &Digest(*digest))? else {
        return Ok(None);
    };
    let envelope = programs.envelope(&record)?;
    Ok((envelope.body_version == BODY_VERSION).then_some(envelope))
}

/// The memo of a record, by the repository's numbers for names and fragments; `None` if it is none.
fn read(
    programs: &Programs<'_>,
    envelope: &Envelope<'_>,
) -> Result<Option<Memo<NameId, Address>>, ProgramError> {
    let fragments = envelope.references.iter().map(|it| it.address());
    let Some(fragments) = fragments.collect::<Option<Vec<Address>>>() else {
        return Ok(None);
    };
    let targets = fragments.iter().map(|it| programs.bindable_targets(*it));
    let targets = targets.collect::<Result<Vec<_>, ProgramError>>()?;
    let written = Written::parse(envelope.body, envelope.names);
    Ok(written.and_then(|written| written.complete(&fragments, &targets)))
}

/// What the repository keeps of a definition digest, if there is a record that can be read.
///
/// # Errors
/// If the repository is damaged.
pub fn find<'s>(
    programs: &Programs<'s>,
    digest: &[u8; 32],
) -> Result<Option<Found<'s>>, ProgramError> {
    let Some(envelope) = envelope_of(programs, digest)? else {
        return Ok(None);
    };
    let Some(memo) = read(programs, &envelope)? else {
        return Ok(None);
    };
    let name = |id: NameId| programs.name(id).map(Some);
    translate(memo, name, |fragment| Ok(Some(fragment)))
}

/// The names of what must be there as well, if there is a record of this definition digest that can be read.
///
/// # Errors
/// If the repository is damaged.
pub fn find_dependents<'s>(
    programs: &Programs<'s>,
    digest: &[u8; 32],
) -> Result<Option<Vec<&'s [u8]>>, ProgramError> {
    let Some(envelope) = envelope_of(programs, digest)? else {
        return Ok(None);
    };
    let Some(memo) = read(programs, &envelope)? else {
        return Ok(None);
    };
    let names = memo.dependents.iter().map(|name| programs.name(*name));
    names.collect::<Result<_, _>>().map(Some)
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
        let fragment = envelope.references.first().and_then(|it| it.address());
        let written = Written::parse(envelope.body, envelope.names);
        let name = written.and_then(|written| Some(written.symbols.first()?.name));
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
        let by_number = translate(
            memo.clone(),
            |name: Vec<u8>| match name.is_empty() {
                true => Ok(Some(NameId(0))),
                false => programs.find_name(&name),
            },
            |fragment: Digest| -> Result<_, ProgramError> {
                let slot = Index::Fragments.slot();
                let record = programs.snapshot().get(slot, &fragment)?;
                Ok(record.map(|record| record.address))
            },
        )?;
        let Some(by_number) = by_number else { continue };
        let fragments = by_number.members.iter().map(|it| it.fragment);
        let targets = fragments.clone().map(|it| programs.bindable_targets(it));
        let targets = targets.collect::<Result<Vec<_>, ProgramError>>()?;
        let written = Written::new(&by_number, &targets).and_then(|it| it.encode());
        let Some((body, names)) = written else {
            continue;
        };
        let references = fragments.map(|it| Reference::new(it, Strength::Owner));
        let references: Vec<Reference> = references.collect();
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
