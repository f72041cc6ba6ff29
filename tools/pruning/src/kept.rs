//! What the repository keeps of the graph of definitions: what each depends on, and what tells one digest of a name from another
//! (SPEC.md, section 26, version 2 of the body).
//!
//! Only of compiles that are explained: in C++ most nodes are inline functions of headers, whose names alone take a fifth of what the code
//! takes. Such a compile adds one record: of the definitions whose code the repository has, and of all that they depend on and that is
//! stored nowhere by itself (constants, what was inlined wherever it is used), as far as no record has them. What others tell stands
//! there by name and digest. So an edit of one function adds the few nodes that it has made new, and the graph of a compilation is put
//! together of several records. Digests are cut to a few bytes: they are compared, and say nothing by themselves.

use crate::graph::Flags;
use crate::protocol::{Defined, Report, State};
use format_spec::digest::Digest;
use format_spec::envelope::{put_number, take_number};
use format_spec::ids::NameId;
use format_spec::program::{Index, PROMOTED};
use rustc_hash::{FxHashMap, FxHashSet};
use store::program::{ProgramError, Programs};

/// The version of the body.
pub const BODY_VERSION: u8 = 2;
/// At most so many fragments keep a record: that one of them lives is enough.
pub const MOST_OWNERS: usize = 16;

/// The first bytes of a definition's digest.
pub type Short = [u8; SHORT];
/// How many bytes.
const SHORT: usize = 6;

/// What a definition is, as far as its digest tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Of what is said of it as a whole.
    pub head: [u8; 4],
    /// Of its code or initializer.
    pub body: Short,
    /// A hash for each kind of property of which the head is.
    pub properties: [u8; 8],
    /// As in [`Flags`].
    pub flags: u32,
    /// The number of its component in this record.
    pub component: u32,
    /// What it depends on: numbers of nodes.
    pub follows: Vec<u32>,
    /// Who has a say in it: numbers of nodes.
    pub contributors: Vec<u32>,
}

/// A definition in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name, in the module that was compiled.
    pub name: Vec<u8>,
    /// Its digest.
    pub digest: Short,
    /// `None` if another record has it.
    pub content: Option<Content>,
}

/// What one compile has added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Those with content first.
    pub nodes: Vec<Node>,
}

/// The first bytes of a digest in hexadecimal; zeros if it is none.
fn cut<const N: usize>(digest: &str) -> [u8; N] {
    let whole = Digest::from_hex(digest).unwrap_or(Digest([0; 32])).0;
    let mut short = [0; N];
    short.copy_from_slice(&whole[..N]);
    short
}

impl Graph {
    /// What is to be kept of a compile, beside what `is_kept`: from the definitions whose code is stored, by their indices.
    pub fn new(report: &Report, stored: &[u32], is_kept: impl Fn(Short, &[u8]) -> bool) -> Graph {
        let all = &report.definitions;
        let mut number_of: FxHashMap<u32, u32> = FxHashMap::default();
        let mut order: Vec<u32> = Vec::new();
        // A node is told in full here, unless that is done elsewhere, or its digest is all that there is to say.
        let is_elsewhere = |at: u32| {
            let defined = &all[at as usize];
            let is_constant = is_constant(defined.flags);
            let is_leaf = is_constant && defined.follows.is_empty();
            is_leaf || !is_constant && is_kept(cut(&defined.digest), defined.name.as_bytes())
        };
        let stored: Vec<u32> = stored
            .iter()
            .copied()
            .filter(|at| !is_elsewhere(*at))
            .collect();
        let links = |defined: &Defined| {
            let links = defined.follows.iter().chain(&defined.contributors).copied();
            links
                .filter(|at| (*at as usize) < all.len())
                .collect::<Vec<_>>()
        };
        let mut elsewhere: Vec<u32> = Vec::new();
        let mut seen: FxHashSet<u32> = stored.iter().copied().collect();
        let mut next = stored;
        next.reverse();
        while let Some(at) = next.pop() {
            let Some(defined) = all.get(at as usize) else {
                continue;
            };
            order.push(at);
            for target in links(defined)
                .into_iter()
                .filter(|target| seen.insert(*target))
            {
                match is_elsewhere(target) {
                    true => elsewhere.push(target),
                    false => next.push(target),
                }
            }
        }
        let full = order.len();
        order.extend(elsewhere);
        for (number, at) in order.iter().enumerate() {
            number_of.insert(*at, number as u32);
        }
        let numbers = |list: &[u32]| {
            list.iter()
                .filter_map(|at| number_of.get(at).copied())
                .collect()
        };
        let nodes = order.iter().enumerate().map(|(number, at)| {
            let defined = &all[*at as usize];
            // What is known by its content needs no name.
            let name = match is_constant(defined.flags) {
                true => Vec::new(),
                false => defined.name.clone().into_bytes(),
            };
            Node {
                name,
                digest: cut(&defined.digest),
                content: (number < full).then(|| Content {
                    head: cut(&defined.head),
                    body: cut(&defined.body),
                    properties: defined.properties,
                    flags: defined.flags,
                    component: defined.component,
                    follows: numbers(&defined.follows),
                    contributors: numbers(&defined.contributors),
                }),
            }
        });
        let mut graph = Graph {
            nodes: nodes.collect(),
        };
        graph.number_components();
        graph
    }

    /// Numbers components in the order in which they come first.
    fn number_components(&mut self) {
        let mut number_of: FxHashMap<u32, u32> = FxHashMap::default();
        for content in self
            .nodes
            .iter_mut()
            .filter_map(|node| node.content.as_mut())
        {
            let next = number_of.len() as u32;
            content.component = *number_of.entry(content.component).or_insert(next);
        }
    }

    /// The key of its record, and the record's names and body; `find` knows the names that the repository has.
    ///
    /// # Errors
    /// Those of `find`.
    pub fn encode<E>(
        &self,
        mut find: impl FnMut(&[u8]) -> Result<Option<NameId>, E>,
    ) -> Result<(Digest, Vec<NameId>, Vec<u8>), E> {
        let full = self
            .nodes
            .iter()
            .filter(|node| node.content.is_some())
            .count();
        let mut names = Vec::new();
        let mut body = Vec::new();
        put_number(&mut body, self.nodes.len() as u64);
        put_number(&mut body, full as u64);
        for node in &self.nodes {
            let name = &node.name[..];
            match find(name)?.filter(|_| !name.is_empty()) {
                Some(id) => {
                    put_number(&mut body, 2 * names.len() as u64 + 1);
                    names.push(id);
                }
                None => {
                    put_number(&mut body, 2 * name.len() as u64);
                    body.extend_from_slice(name);
                }
            }
        }
        let contents = || self.nodes.iter().filter_map(|node| node.content.as_ref());
        for (at, content) in contents().enumerate() {
            put_number(&mut body, u64::from(content.flags));
            put_number(&mut body, u64::from(content.component));
            for list in [&content.follows, &content.contributors] {
                put_number(&mut body, list.len() as u64);
                for target in list {
                    // Near ones are small: twice the distance forwards, or backwards and one.
                    let (at, target) = (at as u64, u64::from(*target));
                    put_number(
                        &mut body,
                        if target < at {
                            2 * (at - target) + 1
                        } else {
                            2 * (target - at)
                        },
                    );
                }
            }
        }
        // Kind by kind: most are the same in most definitions.
        for kind in 0..8 {
            body.extend(contents().map(|content| content.properties[kind]));
        }
        body.extend(contents().flat_map(|content| content.head));
        body.extend(contents().flat_map(|content| content.body));
        body.extend(self.nodes.iter().flat_map(|node| node.digest));
        // What is in the nodes follows from their digests.
        let mut key = blake3::Hasher::new_derive_key("program-repository graph of definitions 1");
        for node in &self.nodes {
            key.update(&[u8::from(node.content.is_some())]);
            key.update(&node.digest);
            key.update(&(node.name.len() as u64).to_le_bytes());
            key.update(&node.name);
        }
        Ok((Digest(*key.finalize().as_bytes()), names, body))
    }

    /// Reads a body; `None` if it is none.
    fn decode(mut body: &[u8], names: &[Vec<u8>]) -> Option<Graph> {
        let count = usize::try_from(take_number(&mut body)?).ok()?;
        let full = usize::try_from(take_number(&mut body)?).ok()?;
        // Each has its digest at least.
        if full > count || count > body.len() / SHORT {
            return None;
        }
        let mut nodes = Vec::with_capacity(count);
        for _ in 0..count {
            let code = take_number(&mut body)?;
            let number = usize::try_from(code >> 1).ok()?;
            let name = if code & 1 == 1 {
                names.get(number)?.clone()
            } else {
                let (name, rest) = body.split_at_checked(number)?;
                body = rest;
                name.to_vec()
            };
            nodes.push(Node {
                name,
                digest: Short::default(),
                content: None,
            });
        }
        for (at, node) in nodes.iter_mut().enumerate().take(full) {
            let flags = u32::try_from(take_number(&mut body)?).ok()?;
            let component = u32::try_from(take_number(&mut body)?).ok()?;
            let mut lists = [Vec::new(), Vec::new()];
            for list in &mut lists {
                for _ in 0..take_number(&mut body)? {
                    let code = take_number(&mut body)?;
                    let distance = usize::try_from(code >> 1).ok()?;
                    let target = match code & 1 {
                        0 => at.checked_add(distance)?,
                        _ => at.checked_sub(distance)?,
                    };
                    list.push(u32::try_from(target).ok().filter(|_| target < count)?);
                }
            }
            let [follows, contributors] = lists;
            node.content = Some(Content {
                head: [0; 4],
                body: Short::default(),
                properties: [0; 8],
                flags,
                component,
                follows,
                contributors,
            });
        }
        if body.len() != full * (8 + 4 + SHORT) + count * SHORT {
            return None;
        }
        let mut take = |size: usize| {
            let (taken, rest) = body.split_at(size);
            body = rest;
            taken
        };
        let properties = take(8 * full);
        let (heads, bodies, digests) = (take(4 * full), take(SHORT * full), take(SHORT * count));
        for (at, node) in nodes.iter_mut().enumerate() {
            node.digest.copy_from_slice(&digests[SHORT * at..][..SHORT]);
            if let Some(content) = &mut node.content {
                content.head.copy_from_slice(&heads[4 * at..][..4]);
                content.body.copy_from_slice(&bodies[SHORT * at..][..SHORT]);
                for (kind, property) in content.properties.iter_mut().enumerate() {
                    *property = properties[kind * full + at];
                }
            }
        }
        Some(Graph { nodes })
    }
}

fn is_constant(flags: u32) -> bool {
    Flags(flags).has(Flags::CONTENT)
}

/// All that a repository keeps.
#[derive(Debug, Default)]
pub struct Kept {
    graphs: Vec<Graph>,
    /// By digest and name, where it is told in full.
    places: FxHashMap<(Short, Vec<u8>), (u32, u32)>,
}

impl Kept {
    /// Reads all records.
    ///
    /// # Errors
    /// If the repository is damaged.
    pub fn read(programs: &Programs<'_>) -> Result<Kept, ProgramError> {
        let mut kept = Kept::default();
        for record in programs.snapshot().iter(Index::Definitions.slot()) {
            let envelope = programs.envelope(&record?)?;
            if envelope.body_version != BODY_VERSION {
                continue;
            }
            let names = envelope
                .names
                .iter()
                .map(|id| Ok(programs.name(*id)?.to_vec()));
            let names: Vec<Vec<u8>> = names.collect::<Result<_, ProgramError>>()?;
            if let Some(graph) = Graph::decode(envelope.body, &names) {
                kept.add(graph);
            }
        }
        Ok(kept)
    }

    fn add(&mut self, graph: Graph) {
        let number = self.graphs.len() as u32;
        for (at, node) in graph.nodes.iter().enumerate() {
            if node.content.is_some() {
                let key = (node.digest, node.name.clone());
                self.places.insert(key, (number, at as u32));
            }
        }
        self.graphs.push(graph);
    }

    /// Whether something is known of this digest of a name.
    pub fn has(&self, digest: Short, name: &[u8]) -> bool {
        self.place(digest, name).is_some()
    }

    fn place(&self, digest: Short, name: &[u8]) -> Option<(u32, u32)> {
        self.places.get(&(digest, name.to_vec())).copied()
    }

    /// Digests and names of all definitions that are called so, or of which the digest begins so in hexadecimal.
    pub fn find(&self, which: &str) -> Vec<(Short, Vec<u8>)> {
        let prefix = which.to_ascii_lowercase();
        let prefix = prefix.get(..2 * SHORT).unwrap_or(&prefix);
        let is_prefix = prefix.len() >= 4;
        let is_meant = |digest: &Short, name: &[u8]| {
            let is_named = shown(name) == which.as_bytes() || name == which.as_bytes();
            is_named || is_prefix && hex(digest).starts_with(prefix)
        };
        let all = self
            .places
            .keys()
            .filter(|(digest, name)| is_meant(digest, name));
        let mut found: Vec<_> = all.cloned().collect();
        found.sort_unstable();
        found
    }

    fn node(&self, (graph, at): (u32, u32)) -> &Node {
        &self.graphs[graph as usize].nodes[at as usize]
    }

    /// The definitions with these digests, and all that is behind them, as a compile would report it. Of those that nothing is known of there
    /// is the digest only: their head is empty.
    pub fn report(&self, starts: &[(Short, Vec<u8>)]) -> Report {
        let mut number_of: FxHashMap<(Short, &[u8]), u32> = FxHashMap::default();
        let mut components: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut places: Vec<Option<(u32, u32)>> = Vec::new();
        let mut nodes: Vec<&Node> = Vec::new();
        let mut links: Vec<(Vec<u32>, Vec<u32>)> = Vec::new();
        macro_rules! number {
            ($node:expr) => {{
                let node: &Node = $node;
                let place = self.place(node.digest, &node.name);
                *number_of
                    .entry((node.digest, &node.name[..]))
                    .or_insert_with(|| {
                        nodes.push(place.map_or(node, |place| self.node(place)));
                        places.push(place);
                        nodes.len() as u32 - 1
                    })
            }};
        }
        for (digest, name) in starts {
            if let Some(place) = self.place(*digest, name) {
                let _ = number!(self.node(place));
            }
        }
        let mut at = 0;
        while at < nodes.len() {
            let mut of = (Vec::new(), Vec::new());
            let node: &Node = nodes[at];
            if let (Some((graph, _)), Some(content)) = (places[at], &node.content) {
                let all = &self.graphs[graph as usize].nodes;
                of.0.extend(content.follows.iter().map(|to| number!(&all[*to as usize])));
                of.1.extend(
                    content
                        .contributors
                        .iter()
                        .map(|to| number!(&all[*to as usize])),
                );
            }
            links.push(of);
            at += 1;
        }
        let definitions = nodes
            .iter()
            .zip(&places)
            .zip(links)
            .map(|((node, place), links)| {
                let (follows, contributors) = links;
                let next = components.len() as u32;
                let content = node.content.as_ref();
                let component = match (place, content) {
                    (Some((graph, _)), Some(content)) => (*graph, content.component),
                    _ => (u32::MAX, next),
                };
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let short = shown(&node.name);
                Defined {
                    name: text(&node.name),
                    original: (short.len() < node.name.len()).then(|| text(short)),
                    digest: hex(&node.digest),
                    head: content.map_or_else(String::new, |content| hex(&content.head)),
                    body: content.map_or_else(String::new, |content| hex(&content.body)),
                    properties: content.map_or([0; 8], |content| content.properties),
                    flags: match content {
                        Some(content) => content.flags,
                        None if node.name.is_empty() => Flags::CONTENT.0,
                        None => 0,
                    },
                    state: State::Known,
                    why: None,
                    follows,
                    contributors,
                    component: *components.entry(component).or_insert(next),
                    alias_of: None,
                }
            });
        Report {
            definitions: definitions.collect(),
            ..Report::default()
        }
    }
}

/// The name in the source of one in the module (`promote` of `walk.cpp`).
fn shown(name: &[u8]) -> &[u8] {
    let end = memchr::memmem::rfind(name, PROMOTED);
    &name[..end.unwrap_or(name.len())]
}

/// In hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(seed: u8) -> String {
        hex(&crate::digest_of(&[seed]))
    }

    fn defined(name: &str, seed: u8, state: State, follows: &[u32]) -> Defined {
        Defined {
            name: name.to_owned(),
            digest: digest(seed),
            head: digest(100),
            body: digest(seed ^ 0x80),
            properties: [seed; 8],
            state,
            follows: follows.to_vec(),
            component: u32::from(seed),
            ..Defined::default()
        }
    }

    fn is_known(_: Short, name: &[u8]) -> bool {
        name == b"known"
    }

    fn report() -> Report {
        Report {
            definitions: vec![
                defined("top", 1, State::New, &[1, 2]),
                defined("helper.repo.0123456789abcdef", 2, State::New, &[3]),
                defined("known", 3, State::Known, &[3]),
                defined(".str.7", 4, State::New, &[]),
                defined("apart", 5, State::New, &[]),
            ],
            ..Report::default()
        }
    }

    /// The names of even length are in the repository.
    fn round(graph: &Graph) -> Option<Graph> {
        let (mut ids, mut list) = (FxHashMap::default(), Vec::new());
        let find = |name: &[u8]| -> Result<Option<NameId>, ()> {
            Ok(name.len().is_multiple_of(2).then(|| {
                list.push(name.to_vec());
                let id = NameId(list.len() as u32);
                ids.insert(id, name.to_vec());
                id
            }))
        };
        let (_, names, body) = graph.encode(find).ok()?;
        let names: Vec<Vec<u8>> = names.iter().map(|id| ids[id].clone()).collect();
        for end in 0..body.len() {
            assert_eq!(Graph::decode(&body[..end], &names), None, "cut at {end}");
        }
        Graph::decode(&body, &names)
    }

    #[test]
    fn a_record_has_what_is_stored_and_what_that_needs() {
        let graph = Graph::new(&report(), &[0], is_known);
        let names: Vec<_> = graph.nodes.iter().map(|node| node.name.clone()).collect();
        assert_eq!(names[0], b"top");
        assert_eq!(names.len(), 4, "{names:?}");
        let full = graph.nodes.iter().filter(|node| node.content.is_some());
        assert_eq!(full.count(), 3);
        assert_eq!(graph.nodes[3].name, b"known");
        assert_eq!(round(&graph), Some(graph));
    }

    #[test]
    fn records_of_several_compiles_are_one_graph() {
        let mut kept = Kept::default();
        kept.add(Graph::new(&report(), &[0], is_known));
        let top = cut(&digest(1));
        let of = |kept: &Kept| {
            let found = kept.report(&[(top, b"top".to_vec())]).definitions;
            let mut all: Vec<_> = found
                .iter()
                .map(|defined| (defined.shown().to_owned(), defined.head.is_empty()))
                .collect();
            all.sort();
            all
        };
        let expected = |is_known: bool| {
            let mut all = vec![
                (".str.7".to_owned(), false),
                ("helper".to_owned(), false),
                ("known".to_owned(), !is_known),
                ("top".to_owned(), false),
            ];
            all.sort();
            all
        };
        assert_eq!(of(&kept), expected(false));
        kept.add(Graph::new(&report(), &[2], |_, _| false));
        assert_eq!(of(&kept), expected(true));
        assert_eq!(kept.find("helper")[0].0, cut::<SHORT>(&digest(2)));
        assert_eq!(kept.find(&digest(2)[..8]), kept.find("helper"));
        assert!(!kept.has(cut(&digest(5)), b"apart"));
    }

    #[test]
    fn numbers_that_lead_nowhere_are_refused() {
        let mut graph = Graph::new(&report(), &[0], is_known);
        if let Some(content) = &mut graph.nodes[0].content {
            content.follows.push(99);
        }
        assert_eq!(round(&graph), None);
    }
}
