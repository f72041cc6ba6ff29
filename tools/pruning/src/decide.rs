//! What is to become of each definition.
//!
//! *Roots* are written whoever uses them; all others, if somebody does. A definition is *known* if the repository has its fragment and
//! all that must be there as well for it to be used; an alias of a function is, if that is. Compiled are the roots that are not known, and what they reach: of that, what is
//! known goes after the optimizer has had it for inlining. All else goes at once.
//!
//! Who uses what is *sealed* does not depend on what that is, and may be known though it is new. Then it is compiled as a root is, for
//! what comes from the repository needs it.

use crate::graph::{Digests, Flags, Kind, Module};
use rustc_hash::FxHashMap;

/// What is to become of a definition; as in `walk.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Action {
    /// It is compiled.
    Compile = 0,
    /// Nothing of it is compiled: it goes at once.
    Drop = 1,
    /// It goes after the inliner.
    DropLate = 2,
    /// It is compiled, and written whoever uses it.
    Write = 3,
}

impl Action {
    /// Whether its code is generated.
    pub fn is_compiled(self) -> bool {
        matches!(self, Action::Compile | Action::Write)
    }
}

/// What a repository says of a digest.
pub struct Found {
    /// The names of what must be there as well.
    pub dependents: Vec<Vec<u8>>,
}

/// A definition, and what becomes of it.
#[derive(Clone, Debug)]
pub struct Decision {
    /// What becomes of it.
    pub action: Action,
    /// The repository has it.
    pub known: bool,
    /// Why it is not taken from there, if there is a reason beside that it is new.
    pub why: Option<String>,
}

/// Marks what constructors may change before it is written (they may be run by the compiler).
pub fn mark_constructed(module: &mut Module) {
    let constructors = (0..module.definitions.len() as u32).filter(|at| {
        module.definitions[*at as usize]
            .flags
            .has(Flags::CONSTRUCTOR)
    });
    let reached = module.reach(constructors.collect::<Vec<_>>(), |_| false);
    for (definition, is_reached) in module.definitions.iter_mut().zip(reached) {
        if is_reached && definition.kind == Kind::Variable && !definition.flags.has(Flags::CONTENT)
        {
            definition.flags.0 |= Flags::CONSTRUCTED.0 | Flags::NEVER.0;
            let why = "constructors may change it".to_owned();
            definition.reason.get_or_insert(why);
        }
    }
}

/// Without optimisation a compiler writes what others can name, whether somebody uses it or not (clang emits inline functions that
/// only code uses which it has found to be dead itself): then nothing of that is discardable.
pub fn mark_written(module: &mut Module) {
    if module.level > 0 {
        return;
    }
    for definition in &mut module.definitions {
        let others = [Flags::LOCAL, Flags::CONTENT, Flags::AVAILABLE_EXTERNALLY];
        if !others.iter().any(|flag| definition.flags.has(*flag)) {
            definition.flags.0 &= !Flags::DISCARDABLE.0;
        }
    }
}

/// Decides; `find` asks the repository.
pub fn decide(
    module: &Module,
    digests: &Digests,
    prune: bool,
    mut find: impl FnMut(&[u8; 32]) -> Option<Found>,
) -> Vec<Decision> {
    let count = module.definitions.len();
    let mut found: Vec<Option<Found>> = Vec::with_capacity(count);
    let mut decisions: Vec<Decision> = Vec::with_capacity(count);
    for (definition, digest) in module.definitions.iter().zip(&digests.of) {
        let may = !definition.flags.has(Flags::NEVER)
            && !definition.flags.has(Flags::LOCAL)
            && !definition.flags.has(Flags::AVAILABLE_EXTERNALLY)
            && definition.alias_of.is_none();
        let is_found = match may && prune && module.whole.is_none() {
            true => find(digest),
            false => None,
        };
        decisions.push(Decision {
            action: Action::Compile,
            known: is_found.is_some(),
            why: definition.reason.clone().or_else(|| module.whole.clone()),
        });
        found.push(is_found);
    }
    if !prune || module.whole.is_some() {
        return decisions;
    }
    let by_name: ByName<'_> = (module.definitions.iter().enumerate())
        .map(|(at, definition)| (&definition.name[..], at as u32))
        .collect();
    without_dependents(module, &by_name, &found, &mut decisions);
    for (at, definition) in module.definitions.iter().enumerate() {
        if let Some(function) = definition.alias_of {
            decisions[at].known = decisions[function as usize].known;
        }
    }
    let is_root = |at: &u32| {
        let flags = module.definitions[*at as usize].flags;
        !flags.has(Flags::DISCARDABLE)
    };
    let (known_roots, mut compiled_roots): (Vec<u32>, Vec<u32>) = (0..count as u32)
        .filter(is_root)
        .partition(|at| decisions[*at as usize].known);
    let mut written = vec![false; count];
    let reached = loop {
        let reached = module.reach(compiled_roots.iter().copied(), |at| {
            decisions[at as usize].known
        });
        let used = needed_by_known(module, &by_name, &found, &decisions, &known_roots, &reached);
        let before = compiled_roots.len();
        for at in used {
            if !decisions[at as usize].known && !std::mem::replace(&mut written[at as usize], true)
            {
                compiled_roots.push(at);
            }
        }
        if compiled_roots.len() == before {
            break reached;
        }
    };
    for (at, decision) in decisions.iter_mut().enumerate() {
        decision.action = match (reached[at], decision.known) {
            (false, _) => Action::Drop,
            (true, true) => Action::DropLate,
            (true, false) if written[at] => Action::Write,
            (true, false) => Action::Compile,
        };
    }
    decisions
}

/// Definitions by their names.
type ByName<'m> = FxHashMap<&'m [u8], u32>;

/// What of this module is needed by what comes from the repository if `reached` is compiled; it may be not known itself.
fn needed_by_known(
    module: &Module,
    by_name: &ByName<'_>,
    found: &[Option<Found>],
    decisions: &[Decision],
    known_roots: &[u32],
    reached: &[bool],
) -> Vec<u32> {
    let mut next = known_roots.to_vec();
    for (at, _) in reached.iter().enumerate().filter(|(_, reached)| **reached) {
        next.extend(module.references_of(at as u32).iter().map(|r| r.target));
    }
    let mut is_used = vec![false; reached.len()];
    let mut used = Vec::new();
    while let Some(at) = next.pop() {
        let (true, Some(found)) = (decisions[at as usize].known, &found[at as usize]) else {
            continue;
        };
        if std::mem::replace(&mut is_used[at as usize], true) {
            continue;
        }
        for needed in found
            .dependents
            .iter()
            .filter_map(|name| by_name.get(&name[..]))
        {
            used.push(*needed);
            next.push(*needed);
        }
    }
    used
}

/// Takes back that something is known, if it needs what is not.
fn without_dependents(
    module: &Module,
    by_name: &ByName<'_>,
    found: &[Option<Found>],
    decisions: &mut [Decision],
) {
    let is_sealed = |at: u32| module.definitions[at as usize].flags.has(Flags::SEALED);
    // Who needs each, and then all that follows from one that is not there.
    let mut needed_by = vec![Vec::new(); decisions.len()];
    let mut next = Vec::new();
    for (at, found) in found.iter().enumerate() {
        let Some(found) = found else { continue };
        for name in &found.dependents {
            match by_name.get(&name[..]) {
                // What it is does not matter: it can be compiled.
                Some(needed) if is_sealed(*needed) => {}
                Some(needed) if decisions[*needed as usize].known => {
                    needed_by[*needed as usize].push(at);
                }
                _ => {
                    if std::mem::replace(&mut decisions[at].known, false) {
                        let name = String::from_utf8_lossy(name);
                        decisions[at].why = Some(format!("needs {name}, which is not there"));
                        next.push(at);
                    }
                }
            }
        }
    }
    while let Some(gone) = next.pop() {
        for at in std::mem::take(&mut needed_by[gone]) {
            if std::mem::replace(&mut decisions[at].known, false) {
                let name = String::from_utf8_lossy(&module.definitions[gone].name);
                decisions[at].why = Some(format!("needs {name}, which cannot be used"));
                next.push(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Reference;
    use crate::graph::tests::module;

    fn actions(module: &Module, known: &[&str], needs: &[(&str, &str)]) -> Vec<Action> {
        let digests = module.digests(b"");
        let names = module.definitions.iter().map(|d| d.name.clone());
        let name_of: FxHashMap<[u8; 32], Vec<u8>> = digests.of.iter().copied().zip(names).collect();
        decide(module, &digests, true, |digest| {
            let name = std::str::from_utf8(&name_of[digest]).unwrap();
            known.contains(&name).then(|| Found {
                dependents: needs
                    .iter()
                    .filter(|(who, _)| *who == name)
                    .map(|(_, what)| what.as_bytes().to_vec())
                    .collect(),
            })
        })
        .into_iter()
        .map(|decision| decision.action)
        .collect()
    }

    #[test]
    fn what_new_roots_reach_is_kept_until_it_was_inlined() {
        use Action::{Compile, Drop, DropLate};
        let mut module = module(&[
            ("new", 1, &["used"]),
            ("used", 2, &[]),
            ("other", 3, &["inline"]),
            ("inline", 4, &[]),
        ]);
        module.definitions[3].flags = Flags::DISCARDABLE;
        assert_eq!(
            actions(&module, &["used", "other"], &[]),
            [Compile, DropLate, Drop, Drop]
        );
        // Nobody has compiled it, and nobody needs it.
        assert_eq!(
            actions(&module, &["new", "used", "other"], &[]),
            [Drop, Drop, Drop, Drop]
        );
        // But who needs it is not there without it.
        assert_eq!(
            actions(&module, &["new", "used", "other"], &[("other", "inline")]),
            [Drop, Drop, Compile, Compile]
        );
        assert_eq!(
            actions(
                &module,
                &["new", "used", "other", "inline"],
                &[("other", "inline")]
            ),
            [Drop, Drop, Drop, Drop]
        );
    }

    #[test]
    fn an_alias_goes_where_its_function_goes() {
        use Action::{Compile, Drop, DropLate};
        let mut module = module(&[
            ("function", 1, &["alias"]),
            ("alias", 2, &["function"]),
            ("user", 3, &["alias"]),
        ]);
        module.references[0].flags |= Reference::CONTRIBUTION;
        module.definitions[1].alias_of = Some(0);
        assert_eq!(
            actions(&module, &["function", "user"], &[]),
            [Drop, Drop, Drop]
        );
        assert_eq!(
            actions(&module, &["function"], &[]),
            [DropLate, DropLate, Compile]
        );
        // That it is known itself means nothing.
        assert_eq!(
            actions(&module, &["alias", "user"], &[]),
            [Compile, Compile, Drop]
        );
    }

    #[test]
    fn what_is_sealed_is_compiled_for_those_who_are_known() {
        use Action::{Compile, Drop, DropLate, Write};
        let mut module = module(&[
            ("user", 1, &["sealed"]),
            ("sealed", 2, &["inline"]),
            ("inline", 3, &[]),
            ("new", 4, &["middle"]),
            ("middle", 5, &[]),
        ]);
        module.references[0].flags = Reference::NEED;
        module.definitions[1].flags = Flags(Flags::SEALED.0 | Flags::DISCARDABLE.0);
        let needs = [("user", "sealed"), ("middle", "sealed")];
        assert_eq!(
            actions(&module, &["user", "inline", "new", "middle"], &needs),
            [Drop, Write, DropLate, Drop, Drop]
        );
        assert_eq!(
            actions(&module, &["user", "sealed", "inline", "middle"], &needs),
            [Drop, Drop, Drop, Compile, DropLate]
        );
        // Nobody known uses it.
        assert_eq!(
            actions(&module, &["inline"], &[]),
            [Compile, Compile, DropLate, Compile, Compile]
        );
    }

    #[test]
    fn without_optimisation_what_nobody_uses_is_written() {
        let functions: &[(&str, u8, &[&str])] = &[("used", 1, &[]), ("inline", 2, &[])];
        for (level, expected) in [(0, Action::Compile), (2, Action::Drop)] {
            let mut module = module(functions);
            module.level = level;
            module.definitions[1].flags = Flags::DISCARDABLE;
            mark_written(&mut module);
            assert_eq!(
                actions(&module, &["used"], &[]),
                [Action::Drop, expected],
                "level {level}"
            );
        }
    }

    #[test]
    fn who_needs_who_needs_what_is_missing_is_not_known() {
        use Action::{Compile, Drop};
        let mut module = module(&[
            ("a", 1, &["b"]),
            ("b", 2, &["c"]),
            ("c", 3, &[]),
            ("d", 4, &[]),
        ]);
        for at in [1, 2] {
            module.definitions[at].flags = Flags::DISCARDABLE;
        }
        assert_eq!(
            actions(&module, &["a", "b", "d"], &[("a", "b"), ("b", "c")]),
            [Compile, Compile, Compile, Drop]
        );
    }
}
