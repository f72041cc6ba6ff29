//! Why a definition has another digest than in the compile before: what was said of it as a whole, its code, or something that it
//! depends on, and then which, down to where the change is.

use crate::graph::Flags;
use crate::protocol::{Defined, Report};
use rustc_hash::{FxHashMap, FxHashSet};

/// What `head` is of: names of the kinds of properties, as in `walk.h`.
const PROPERTIES: [&str; 8] = [
    "its type",
    "its linkage, visibility or section group",
    "its attributes or calling convention",
    "its section or alignment",
    "its being of each thread",
    "its being constant",
    "what is attached to it",
    "its personality or collector",
];

/// The reports of two compiles of a translation unit.
pub struct Changes<'r> {
    before: &'r Report,
    after: &'r Report,
    /// By name in the source.
    old: FxHashMap<&'r str, u32>,
    /// Constants have names that mean nothing: their digests do.
    old_digests: FxHashSet<&'r str>,
}

impl<'r> Changes<'r> {
    /// What has changed from `before` to `after`.
    pub fn new(before: &'r Report, after: &'r Report) -> Changes<'r> {
        let old = before.definitions.iter().enumerate();
        let old = old.map(|(at, defined)| (defined.shown(), at as u32));
        Changes {
            before,
            after,
            old: old.collect(),
            old_digests: (before.definitions.iter())
                .map(|defined| defined.digest.as_str())
                .collect(),
        }
    }

    /// Why the definition `at` of the later compile differs from what it was; `None` if it does not.
    pub fn why(&self, at: u32) -> Option<String> {
        self.reason(at, &mut FxHashSet::default())
    }

    fn reason(&self, at: u32, seen: &mut FxHashSet<u32>) -> Option<String> {
        let new = self.after.definitions.get(at as usize)?;
        if let Some(known) = self.of_content(new) {
            return known;
        }
        let Some(old) = self.old.get(new.shown()) else {
            return Some("it was not there before".to_owned());
        };
        let old = &self.before.definitions[*old as usize];
        if old.digest == new.digest {
            return None;
        }
        seen.insert(at);
        if let Some(own) = own_change(old, new) {
            return Some(own);
        }
        // What it depends on; and that which others of the same circle depend on.
        let mut next = vec![at];
        while let Some(of) = next.pop() {
            let of = self.after.definitions.get(of as usize)?;
            for target in &of.follows {
                if seen.contains(target) {
                    continue;
                }
                let is_circle = self.component(*target) == Some(new.component);
                let name = self.name(*target);
                if let Some(why) = self.own(*target) {
                    return Some(format!("it depends on {name}: {why}"));
                }
                if is_circle {
                    seen.insert(*target);
                    next.push(*target);
                } else if let Some(why) = self.reason(*target, seen) {
                    return Some(format!("it depends on {name}: {why}"));
                }
            }
        }
        if self.names(self.before, &old.contributors) != self.names(self.after, &new.contributors) {
            return Some("others use it".to_owned());
        }
        let changed = new
            .contributors
            .iter()
            .find(|user| !seen.contains(user) && self.differs(**user));
        Some(match changed {
            Some(user) => format!("{}, who uses it, is another", self.name(*user)),
            None => "the compiler, its options or the target are others, or what it depends on is followed otherwise".to_owned(),
        })
    }

    /// What of a definition itself is another.
    fn own(&self, at: u32) -> Option<String> {
        let new = self.after.definitions.get(at as usize)?;
        if let Some(known) = self.of_content(new) {
            return known;
        }
        let old = self.old.get(new.shown());
        let old = old.map(|old| &self.before.definitions[*old as usize]);
        match old {
            None => Some("it was not there before".to_owned()),
            Some(old) => own_change(old, new),
        }
    }

    /// Of what is known by its content only: whether there was none such.
    fn of_content(&self, new: &Defined) -> Option<Option<String>> {
        let is_content = Flags(new.flags).has(Flags::CONTENT);
        let was_there = self.old_digests.contains(new.digest.as_str());
        is_content.then(|| (!was_there).then(|| "it is another, or was not there".to_owned()))
    }

    fn differs(&self, at: u32) -> bool {
        let Some(new) = self.after.definitions.get(at as usize) else {
            return false;
        };
        let old = self.old.get(new.shown());
        old.is_none_or(|old| self.before.definitions[*old as usize].digest != new.digest)
    }

    fn component(&self, at: u32) -> Option<u32> {
        self.after
            .definitions
            .get(at as usize)
            .map(|defined| defined.component)
    }

    fn name(&self, at: u32) -> &'r str {
        match self.after.definitions.get(at as usize) {
            Some(defined) if Flags(defined.flags).has(Flags::CONTENT) => "a constant",
            Some(defined) => defined.shown(),
            None => "?",
        }
    }

    fn names<'a>(&self, of: &'a Report, list: &[u32]) -> Vec<&'a str> {
        let found = list
            .iter()
            .filter_map(|at| of.definitions.get(*at as usize));
        let mut names: Vec<&str> = found.map(Defined::shown).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// What of the definition itself is another, if that can be said.
fn own_change(old: &Defined, new: &Defined) -> Option<String> {
    if old.head.is_empty() || new.head.is_empty() {
        // One of which only the digest was kept.
        let is_other = old.digest != new.digest;
        return is_other.then(|| "it is another; more was not kept of it".to_owned());
    }
    if old.head != new.head {
        let kinds = old.properties.iter().zip(&new.properties).zip(PROPERTIES);
        let other = kinds.filter(|((old, new), _)| old != new);
        let other: Vec<&str> = other.map(|(_, kind)| kind).collect();
        let which = match other.is_empty() {
            true => "type, attributes, linkage, section".to_owned(),
            false => other.join(", "),
        };
        return Some(format!(
            "what is said of it as a whole is another ({which})"
        ));
    }
    (old.body != new.body).then(|| "its code or content is another".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names, bodies, and whom they follow.
    fn report(all: &[(&str, &str, &[&str])]) -> Report {
        let place = |name: &&str| all.iter().position(|(it, ..)| it == name).unwrap() as u32;
        // As good as a digest: the bodies of all that can be reached.
        let digest = |name: &str| {
            let mut seen = vec![place(&name)];
            let mut at = 0;
            while at < seen.len() {
                let more = all[seen[at] as usize].2.iter().map(place);
                let more: Vec<u32> = more.filter(|it| !seen.contains(it)).collect();
                seen.extend(more);
                at += 1;
            }
            seen.sort_unstable();
            seen.iter()
                .map(|at| all[*at as usize].1)
                .collect::<String>()
        };
        let definitions = all
            .iter()
            .enumerate()
            .map(|(at, (name, body, follows))| Defined {
                name: (*name).to_owned(),
                head: "said".to_owned(),
                body: (*body).to_owned(),
                digest: digest(name) + name,
                follows: follows.iter().map(place).collect(),
                // Those of one letter are a circle.
                component: if name.len() == 1 { 1000 } else { at as u32 },
                ..Defined::default()
            });
        Report {
            definitions: definitions.collect(),
            ..Report::default()
        }
    }

    #[test]
    fn the_change_is_found_wherever_it_is() {
        let all = |leaf, b| {
            report(&[
                ("top", "1", &["middle"]),
                ("middle", "2", &["other", "leaf"]),
                ("other", "3", &[]),
                ("leaf", leaf, &[]),
                ("a", "5", &["b"]),
                ("b", b, &["c"]),
                ("c", "7", &["a", "leaf"]),
            ])
        };
        let (before, after) = (all("4", "6"), all("x", "6"));
        let changes = Changes::new(&before, &after);
        let why = |at| changes.why(at).unwrap_or_default();
        assert_eq!(
            why(0),
            "it depends on middle: it depends on leaf: its code or content is another"
        );
        assert_eq!(why(2), "");
        assert_eq!(why(3), "its code or content is another");
        assert_eq!(why(4), "it depends on leaf: its code or content is another");
        let after = all("4", "y");
        let changes = Changes::new(&before, &after);
        let why = |at| changes.why(at).unwrap_or_default();
        assert_eq!(why(6), "it depends on b: its code or content is another");
        assert_eq!(why(0), "");
        let none = report(&[]);
        let changes = Changes::new(&none, &after);
        assert_eq!(
            changes.why(0).unwrap_or_default(),
            "it was not there before"
        );
        assert_eq!(changes.why(99), None);
    }
}
