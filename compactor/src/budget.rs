//! A repository of no more than so many bytes.
//!
//! What may go for that is what compilers need not do again: manifests, and what only they keep. Those that were used longest
//! ago go first; no others, and nothing that is young or that a ticket or an output needs. What each of them takes depends on
//! what the others keep already, as they share names and fragments: so one begins with all that stays in any case, and adds
//! them from the one that was used last, until there is no more room.

use crate::measure::Meter;
use crate::roots::Survey;
use crate::trace::{Trace, mark_roots};
use anyhow::Result;
use store::program::Programs;

/// Takes manifests for unused, until what is left has at most about `max_size` bytes. Warns if that is not enough.
///
/// # Errors
/// If the repository is damaged.
pub fn restrict(programs: &Programs<'_>, survey: &mut Survey, max_size: u64) -> Result<()> {
    let mut used = std::mem::take(&mut survey.used);
    used.sort_unstable();
    let mut unused = survey.unused.clone();
    unused.extend(used.iter().map(|(_, address)| *address));
    let mut trace = Trace::in_order();
    mark_roots(programs, survey, &unused, &mut trace)?;
    let mut meter = Meter::new(programs);
    meter.files(survey)?;
    let least = meter.add(&trace.take_found())?;
    if least > max_size {
        let path = programs.snapshot().store().path().display();
        survey.warnings.push(format!(
            "{path}: what tickets and outputs need, or is young, takes about {least} bytes: more than --max-size"
        ));
    }
    let mut bytes = least;
    while let Some((day, address)) = used.pop() {
        if bytes <= max_size {
            trace.mark(address);
            trace.follow(programs)?;
            bytes = meter.add(&trace.take_found())?;
        }
        // The one that was too much goes, and all that were used before it.
        match bytes > max_size {
            true => survey.unused.push(address),
            false => survey.used.push((day, address)),
        }
    }
    Ok(())
}
