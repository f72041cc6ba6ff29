//! From the roots to everything that they reach.
//!
//! A task has sections that became alive on a stack, and visits the newest first. Which task marks a section
//! first does not matter: what is found is sorted afterwards. From time to time a task with a long stack gives
//! the older half of it, from where most is still to be reached, to another task, so that there is work for all
//! threads to the end.

use super::{Found, Needs, Tracer};
use crate::base::ids::{FileId, PartId, SectionId, SymbolId};
use crate::input::object::{Object, Soon};
use crate::resolve::input_sections::state;
use rayon::Scope;
use rayon::prelude::*;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// After so many visits a task looks whether it has enough to share.
const VISITS: u32 = 512;
/// What is worth a task of its own.
const SHARE: usize = 64;

/// Sections that were taken from the stack, and wait until what the visit needs has been fetched. Each thing that is
/// fetched tells where the next is, so it takes as many steps.
#[derive(Default)]
struct Coming {
    sections: VecDeque<SectionId>,
}

impl Coming {
    /// How many visits before its own each step is done.
    const STEPS: [usize; 4] = [8, 6, 4, 2];

    /// The section to be visited next; `None` when there are no more.
    fn next(&mut self, tracer: &Tracer, queue: &mut Vec<SectionId>) -> Option<SectionId> {
        while self.sections.len() <= Coming::STEPS[0]
            && let Some(id) = queue.pop()
        {
            self.sections.push_back(id);
            let last = self.sections.len() - 1;
            for (step, before) in Coming::STEPS.iter().enumerate() {
                let behind = Coming::STEPS[0] - before;
                let place = last.checked_sub(behind);
                if let Some(id) = place.and_then(|place| self.sections.get(place)) {
                    tracer.fetch(*id, step);
                }
            }
        }
        self.sections.pop_front()
    }
}

impl Tracer<'_, '_> {
    /// Marks and visits what the roots reach.
    pub(super) fn follow(&self, roots: &[SymbolId], needs: &Needs) -> Found {
        let mut frontier = self.kept();
        for root in roots {
            self.reach_symbol(*root, &mut frontier);
        }
        let done = Mutex::default();
        while !frontier.is_empty() {
            let share = frontier.len().div_ceil(rayon::current_num_threads() * 4);
            rayon::scope(|scope| {
                for queue in frontier.chunks(share.max(SHARE)) {
                    let queue = queue.to_vec();
                    scope.spawn(|scope| self.visit_reached(queue, needs, scope, &done));
                }
            });
            frontier.clear();
            // Metadata lives with the section that it is about; and it may refer to others.
            for (section, about) in self.link_order {
                if self.sections.is_alive(*about) {
                    self.reach(*section, &mut frontier);
                }
            }
        }
        Found::unite(done.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is linked whether anything refers to it or not. Nothing else is alive after this.
    fn kept(&self) -> Vec<SectionId> {
        (0..self.files.0.len())
            .into_par_iter()
            .map(|i| {
                let mut kept = Vec::new();
                let pruned = self.files.0[i].object().is_some_and(Object::is_pruned);
                let followed = self.gc || self.prune && pruned;
                for id in self.sections.of_file(FileId(i as u32)) {
                    let id = SectionId(id);
                    let bits = self.sections.state(id);
                    if bits & (state::ALIVE | state::ALLOC | state::EH_FRAME)
                        != state::ALIVE | state::ALLOC
                    {
                        continue;
                    }
                    let part = self.sections.part[id.index()];
                    // What is about others is kept with these, also where somebody walks over all of it.
                    let bounded =
                        part != PartId::NONE && self.bounded[part.index()] && !self.is_metadata(id);
                    if bits & state::ROOT != 0 || !followed || bounded {
                        kept.push(id);
                    } else {
                        self.sections.remove_state(id, state::ALIVE);
                    }
                }
                kept
            })
            .flatten()
            .collect()
    }

    /// Fetches what a later visit needs.
    #[inline(always)]
    fn fetch(&self, id: SectionId, step: usize) {
        if step == 0 {
            self.sections.fetch_origin(id);
            return;
        }
        let (file, number) = self.sections.origin(id);
        let object = self.files.object(file);
        if !object.is_scattered() {
            return;
        }
        match step {
            1 => {
                object.fetch(number, Soon::Section);
                self.frames.of(file).fetch(number);
            }
            2 => object.fetch(number, Soon::Member),
            _ => object.fetch(number, Soon::References),
        }
    }

    /// Visits the sections of `queue` and what they reach.
    fn visit_reached<'s>(
        &'s self,
        queue: Vec<SectionId>,
        needs: &'s Needs,
        scope: &Scope<'s>,
        done: &'s Mutex<Vec<Found>>,
    ) {
        let mut found = Found {
            queue,
            ..Found::default()
        };
        let mut visits = 0;
        let mut coming = Coming::default();
        while let Some(id) = coming.next(self, &mut found.queue) {
            self.visit(id, needs, &mut found);
            visits += 1;
            if visits >= VISITS && found.queue.len() >= 2 * SHARE {
                visits = 0;
                let older = found.queue.len() / 2;
                let newer = found.queue.split_off(older);
                let older = std::mem::replace(&mut found.queue, newer);
                scope.spawn(|scope| self.visit_reached(older, needs, scope, done));
            }
        }
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        done.push(found);
    }
}
