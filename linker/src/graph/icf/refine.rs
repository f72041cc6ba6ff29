//! The coarsest stable partition of what may be folded.
//!
//! A class is a number that all of its members have, and nobody else. Only classes with several
//! members are looked at again: one that is alone stays alone.

use super::Candidate;
use super::form::{Form, Former, digest};
use rayon::prelude::*;

/// The candidates whose bytes another one has too, in the same order.
pub fn shared(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let digests: Vec<u64> = candidates
        .par_iter()
        .map(|candidate| candidate.digest)
        .collect();
    let mut members = groups((0..candidates.len() as u32).collect(), &digests).members;
    members.par_sort_unstable();
    members
        .into_iter()
        .map(|number| candidates[number as usize])
        .collect()
}

/// Finds the class of each candidate.
pub fn classes(former: &Former, candidates: &[Candidate]) -> Vec<u64> {
    let (mut classes, references): (Vec<u64>, Vec<Box<[u32]>>) = candidates
        .par_iter()
        .map_init(Form::default, |form, candidate| {
            former.write(candidate.id, form);
            let references = form.references.as_slice().into();
            (form.digest(candidate.digest), references)
        })
        .unzip();
    // What refers to no candidate is in its class for good, and so are all others in the class.
    let mut active = groups((0..candidates.len() as u32).collect(), &classes);
    let of = |number: u32| &references[number as usize];
    active.retain(|group| !of(group[0]).is_empty());
    while !active.members.is_empty() {
        let next: Vec<u64> = active
            .members
            .par_iter()
            .map_init(Vec::new, |words, number| {
                words.clear();
                words.extend(of(*number).iter().map(|other| classes[*other as usize]));
                digest(classes[*number as usize], bytemuck::cast_slice(words))
            })
            .collect();
        for (number, class) in active.members.iter().zip(next) {
            classes[*number as usize] = class;
        }
        let (before, count) = (active.ends.len(), active.members.len());
        active = groups(active.members, &classes);
        if active.ends.len() == before && active.members.len() == count {
            break;
        }
    }
    classes
}

/// Groups of numbers.
pub struct Groups {
    /// The members of all groups, those of one together and in order.
    pub members: Vec<u32>,
    /// Where each group ends in them.
    ends: Vec<u32>,
}

impl Groups {
    /// The members of each group.
    pub fn each(&self) -> impl Iterator<Item = &[u32]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts
            .zip(&self.ends)
            .map(|(start, end)| &self.members[*start as usize..*end as usize])
    }

    fn retain(&mut self, keep: impl Fn(&[u32]) -> bool) {
        let mut kept = Groups {
            members: Vec::new(),
            ends: Vec::new(),
        };
        for group in self.each().filter(|group| keep(group)) {
            kept.push(group.iter().copied());
        }
        *self = kept;
    }

    fn push(&mut self, group: impl Iterator<Item = u32>) {
        self.members.extend(group);
        self.ends.push(self.members.len() as u32);
    }
}

/// Groups numbers by their classes, and leaves out those that are alone.
pub fn groups(numbers: Vec<u32>, classes: &[u64]) -> Groups {
    let mut sorted: Vec<(u64, u32)> = numbers
        .into_par_iter()
        .map(|number| (classes[number as usize], number))
        .collect();
    sorted.par_sort_unstable();
    let mut groups = Groups {
        members: Vec::new(),
        ends: Vec::new(),
    };
    for group in sorted.chunk_by(|(one, _), (other, _)| one == other) {
        if group.len() > 1 {
            groups.push(group.iter().map(|(_, number)| *number));
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_alone_is_in_no_group() {
        let classes = [7, 3, 7, 5, 3, 7];
        let mut groups = groups(vec![5, 4, 3, 2, 1, 0], &classes);
        let each: Vec<&[u32]> = groups.each().collect();
        assert_eq!(each, [&[1, 4][..], &[0, 2, 5]]);
        groups.retain(|group| group.len() > 2);
        assert_eq!(groups.members, [0, 2, 5]);
        assert_eq!(groups.ends, [3]);
    }
}
