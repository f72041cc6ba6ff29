//! The definitions of a translation unit, what they refer to, and their digests.
//!
//! A definition's digest covers what it is and, by *following* references, what those are whose content its code depends on. Where
//! definitions follow each other in circles, they get one digest together, into which each of them and all that they follow outside
//! go in an order that is that of their names: it is the same wherever the walk begins. Two passes, both linear: components (Tarjan), then
//! digests, of what is followed first.

use blake3::Hasher;
use std::ops::Range;

/// What a definition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A function.
    Function,
    /// A variable, or a constant.
    Variable,
    /// Another name.
    Alias,
    /// A function that another one chooses at load time.
    Ifunc,
}

impl Kind {
    /// As in `walk.h`.
    pub fn of(number: u32) -> Kind {
        match number {
            0 => Kind::Function,
            1 => Kind::Variable,
            2 => Kind::Alias,
            _ => Kind::Ifunc,
        }
    }
}

/// What is known of a definition; as in `walk.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// It goes if nobody uses it.
    pub const DISCARDABLE: Flags = Flags(1);
    /// It has a local symbol or none, and is part of whoever uses it.
    pub const LOCAL: Flags = Flags(2);
    /// It was internal, and has a hidden name now.
    pub const PROMOTED: Flags = Flags(4);
    /// Its content is all that it is.
    pub const CONTENT: Flags = Flags(8);
    /// It is there for inlining only.
    pub const AVAILABLE_EXTERNALLY: Flags = Flags(16);
    /// Constructors may change it before it is written.
    pub const CONSTRUCTED: Flags = Flags(32);
    /// Never taken from the repository.
    pub const NEVER: Flags = Flags(64);
    /// A list of constructors.
    pub const CONSTRUCTOR: Flags = Flags(128);
    /// A list that only LLVM reads.
    pub const LLVM: Flags = Flags(256);
    /// Its users see a declaration only.
    pub const SEALED: Flags = Flags(512);

    /// Whether all of `other` are set.
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// From a definition to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Its index among the definitions.
    pub target: u32,
    /// [`Reference::FOLLOW`] and its like.
    pub flags: u32,
}

impl Reference {
    /// The code of the one depends on what the other is.
    pub const FOLLOW: u32 = 1;
    /// The other must stay as it is, but nothing behind it.
    pub const HOLD: u32 = 2;
    /// From what is used to its user.
    pub const CONTRIBUTION: u32 = 4;
    /// The other must stay, with all that it needs, as long as the one is compiled.
    pub const KEEP: u32 = 8;
    /// The other must be somewhere: with all that it needs, unless the repository has it.
    pub const NEED: u32 = 16;

    /// Whether digests follow it.
    pub fn is_followed(self) -> bool {
        self.flags & Reference::FOLLOW != 0
    }
}

/// A definition.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Its name in the module that is compiled.
    pub name: Vec<u8>,
    /// If it was promoted: its name before.
    pub original: Option<Vec<u8>>,
    /// Why it is never taken from the repository.
    pub reason: Option<String>,
    /// What it is.
    pub kind: Kind,
    /// What is known of it.
    pub flags: Flags,
    /// Where its references are, in the order in which they occur first.
    pub references: Range<u32>,
    /// Digest of what is said of it as a whole.
    pub head: [u8; 32],
    /// Digest of its code or initializer, in which others stand by their names.
    pub body: [u8; 32],
    /// Hashes of the kinds of properties that `head` is of, to say which is another.
    pub properties: [u8; 8],
    /// Of an alias that goes with a function: that function.
    pub alias_of: Option<u32>,
}

#[cfg(test)]
impl Definition {
    /// A function with this name, head and body.
    pub(crate) fn function(name: &[u8], references: Range<u32>, body: u8) -> Definition {
        Definition {
            name: name.to_vec(),
            original: None,
            reason: None,
            kind: Kind::Function,
            flags: Flags::default(),
            references,
            head: crate::digest_of(name),
            body: [body; 32],
            properties: [0; 8],
            alias_of: None,
        }
    }
}

/// A translation unit.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// All definitions.
    pub definitions: Vec<Definition>,
    /// The references of all of them.
    pub references: Vec<Reference>,
    /// What surrounds all.
    pub environment: Vec<u8>,
    /// Why nothing of it can be taken from the repository.
    pub whole: Option<String>,
    /// 0 for -O0.
    pub level: u32,
    /// Something works by itself that is there because a template was instantiated, whoever asked for that.
    pub has_unasked: bool,
    /// A text may say where a type or a lambda without a name stands.
    pub tells_places: bool,
    /// Assembly may read other files.
    pub reads_files: bool,
}

/// What was found out of a module's definitions.
#[derive(Clone, Debug, Default)]
pub struct Digests {
    /// By definition.
    pub of: Vec<[u8; 32]>,
    /// By definition, the number of its component.
    pub component: Vec<u32>,
}

impl Module {
    /// The references of a definition.
    pub fn references_of(&self, definition: u32) -> &[Reference] {
        let range = &self.definitions[definition as usize].references;
        &self.references[range.start as usize..range.end as usize]
    }

    /// The digests of all definitions, in what `environment` is the compiler's identity and options.
    pub fn digests(&self, environment: &[u8]) -> Digests {
        let components = self.components();
        let mut component = vec![0; self.definitions.len()];
        for (number, members) in components.iter().enumerate() {
            for member in members {
                component[*member as usize] = number as u32;
            }
        }
        let mut surroundings =
            Hasher::new_derive_key("program-repository definition environment 2");
        for part in [environment, &self.environment] {
            surroundings.update(&(part.len() as u64).to_le_bytes());
            surroundings.update(part);
        }
        let surroundings = *surroundings.finalize().as_bytes();
        let mut of = vec![[0; 32]; self.definitions.len()];
        for members in &components {
            self.component_digests(members, &component, &surroundings, &mut of);
        }
        Digests { of, component }
    }

    fn component_digests(
        &self,
        members: &[u32],
        component: &[u32],
        surroundings: &[u8; 32],
        of: &mut [[u8; 32]],
    ) {
        let own = component[members[0] as usize];
        let mut in_order = members.to_vec();
        in_order.sort_by(|a, b| self.name(*a).cmp(self.name(*b)));
        let mut hasher = Hasher::new_derive_key("program-repository definition component 1");
        hasher.update(surroundings);
        hasher.update(&(members.len() as u32).to_le_bytes());
        for member in &in_order {
            let definition = &self.definitions[*member as usize];
            hasher.update(&definition.head);
            hasher.update(&definition.body);
            let mut users = Vec::new();
            for reference in self.references_of(*member) {
                if !reference.is_followed() {
                    hasher.update(&[0]);
                } else if reference.flags & Reference::CONTRIBUTION != 0 {
                    // Where somebody is used has no order of its own.
                    users.push(self.name(reference.target));
                } else if component[reference.target as usize] == own {
                    hasher.update(&[1]);
                    let name = self.name(reference.target);
                    hasher.update(&(name.len() as u64).to_le_bytes());
                    hasher.update(name);
                } else {
                    hasher.update(&[2]);
                    hasher.update(&of[reference.target as usize]);
                }
            }
            users.sort_unstable();
            users.dedup();
            for name in users {
                hasher.update(&[3]);
                hasher.update(&(name.len() as u64).to_le_bytes());
                hasher.update(name);
            }
            hasher.update(&[4]);
        }
        let whole = *hasher.finalize().as_bytes();
        for member in members {
            let definition = &self.definitions[*member as usize];
            let mut hasher = Hasher::new_derive_key("program-repository definition 1");
            hasher.update(&whole);
            hasher.update(&definition.head);
            hasher.update(&definition.body);
            of[*member as usize] = *hasher.finalize().as_bytes();
        }
    }

    fn name(&self, definition: u32) -> &[u8] {
        &self.definitions[definition as usize].name
    }

    /// The strongly connected components of what is followed, each after those that it follows (Tarjan, without recursion).
    fn components(&self) -> Vec<Vec<u32>> {
        const NEW: u32 = u32::MAX;
        let count = self.definitions.len();
        let mut number = vec![NEW; count];
        let mut low = vec![0; count];
        let mut on_stack = vec![false; count];
        let mut stack = Vec::new();
        let mut next = 0;
        let mut components = Vec::new();
        for start in 0..count as u32 {
            if number[start as usize] != NEW {
                continue;
            }
            let mut calls = vec![(start, self.definitions[start as usize].references.start)];
            while let Some((at, reference)) = calls.last_mut() {
                let index = *at as usize;
                if number[index] == NEW {
                    number[index] = next;
                    low[index] = next;
                    next += 1;
                    stack.push(*at);
                    on_stack[index] = true;
                }
                let mut below = None;
                while *reference < self.definitions[index].references.end {
                    let to = self.references[*reference as usize];
                    *reference += 1;
                    let target = to.target as usize;
                    if !to.is_followed() {
                        continue;
                    }
                    if number[target] == NEW {
                        below = Some(to.target);
                        break;
                    }
                    if on_stack[target] {
                        low[index] = low[index].min(number[target]);
                    }
                }
                if let Some(below) = below {
                    calls.push((below, self.definitions[below as usize].references.start));
                    continue;
                }
                let done = *at;
                calls.pop();
                if let Some((above, _)) = calls.last() {
                    let above = *above as usize;
                    low[above] = low[above].min(low[done as usize]);
                }
                if low[done as usize] == number[done as usize] {
                    let mut members = Vec::new();
                    while let Some(member) = stack.pop() {
                        on_stack[member as usize] = false;
                        members.push(member);
                        if member == done {
                            break;
                        }
                    }
                    components.push(members);
                }
            }
        }
        components
    }

    /// What must stay so that `starts` can be compiled: all that they follow or keep, and what these hold. What is held and
    /// `known` needs nothing itself.
    pub fn reach(
        &self,
        starts: impl IntoIterator<Item = u32>,
        known: impl Fn(u32) -> bool,
    ) -> Vec<bool> {
        const WHOLE: u8 = 2;
        let mut reached = vec![0; self.definitions.len()];
        let mut next: Vec<u32> = starts.into_iter().collect();
        while let Some(at) = next.pop() {
            if std::mem::replace(&mut reached[at as usize], WHOLE) == WHOLE {
                continue;
            }
            for reference in self.references_of(at) {
                let target = reference.target;
                let needs = Reference::FOLLOW | Reference::KEEP;
                let holds = reference.flags & Reference::HOLD != 0;
                let wants = reference.flags & (Reference::HOLD | Reference::NEED) != 0;
                if reference.flags & needs != 0 || wants && !known(target) {
                    next.push(target);
                } else if holds && reached[target as usize] == 0 {
                    reached[target as usize] = 1;
                }
            }
        }
        reached.into_iter().map(|how| how > 0).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Functions with these names and bodies, which follow each other as the names say.
    pub(crate) fn module(functions: &[(&str, u8, &[&str])]) -> Module {
        let mut module = Module::default();
        for (name, body, follows) in functions {
            let first = module.references.len() as u32;
            for other in *follows {
                let target = functions.iter().position(|(name, ..)| name == other);
                module.references.push(Reference {
                    target: target.expect("a function") as u32,
                    flags: Reference::FOLLOW,
                });
            }
            let references = first..module.references.len() as u32;
            let function = Definition::function(name.as_bytes(), references, *body);
            module.definitions.push(function);
        }
        module
    }

    fn by_name(functions: &[(&str, u8, &[&str])]) -> Vec<(String, [u8; 32])> {
        let module = module(functions);
        let digests = module.digests(b"here").of;
        let names = functions.iter().map(|(name, ..)| (*name).to_owned());
        let mut all: Vec<_> = names.zip(digests).collect();
        all.sort();
        all
    }

    #[test]
    fn circles_have_the_same_digests_wherever_the_walk_begins() {
        let mut functions: Vec<(&str, u8, &[&str])> = vec![
            ("main", 1, &["even", "alone"]),
            ("even", 2, &["odd", "leaf"]),
            ("odd", 3, &["even", "odd"]),
            ("leaf", 4, &[]),
            ("alone", 5, &["alone"]),
            ("a", 6, &["b", "odd"]),
            ("b", 7, &["c", "leaf"]),
            ("c", 8, &["a", "b"]),
        ];
        let expected = by_name(&functions);
        for turn in 0..functions.len() {
            functions.rotate_left(1);
            assert_eq!(by_name(&functions), expected, "{turn}");
            functions.reverse();
            assert_eq!(by_name(&functions), expected, "{turn}, backwards");
            functions.reverse();
        }
    }

    #[test]
    fn who_follows_a_changed_one_is_new_and_nobody_else() {
        let with = |leaf, even| {
            by_name(&[
                ("main", 1, &["even"]),
                ("even", even, &["odd", "leaf"]),
                ("odd", 3, &["even"]),
                ("leaf", leaf, &[]),
                ("other", 5, &[]),
            ])
        };
        let changed = |a: Vec<(String, [u8; 32])>, b: Vec<(String, [u8; 32])>| -> Vec<String> {
            a.into_iter()
                .zip(b)
                .filter(|(a, b)| a.1 != b.1)
                .map(|(a, _)| a.0)
                .collect()
        };
        assert_eq!(
            changed(with(4, 2), with(9, 2)),
            ["even", "leaf", "main", "odd"]
        );
        assert_eq!(changed(with(4, 2), with(4, 9)), ["even", "main", "odd"]);
    }

    #[test]
    fn a_long_chain_needs_no_stack() {
        let names: Vec<String> = (0..200_000).map(|n| n.to_string()).collect();
        let mut module = module(&[]);
        for (at, name) in names.iter().enumerate() {
            let next = (at + 1) % names.len();
            module.references.push(Reference {
                target: next as u32,
                flags: Reference::FOLLOW,
            });
            let references = at as u32..at as u32 + 1;
            let function = Definition::function(name.as_bytes(), references, 0);
            module.definitions.push(function);
        }
        assert_eq!(module.components().len(), 1);
    }
}
