//! Damage to repositories and tickets. Whatever was changed, programs end cleanly; a link gives the right program or an error.

use crate::field::UNITS;
use crate::oracle::ends_cleanly;
use crate::{Failure, Field, Verdict};
use repo_hostile::mutate;
use repo_tests::process::run;

/// Everything that reads a repository ends cleanly on the one that is there. Returns whether `--verify` finds nothing.
fn readers_end(field: &mut Field) -> Result<bool, Failure> {
    let verified = run(&mut field.verify());
    ends_cleanly(&verified)?;
    let listing = ["fragments", "compilations", "tickets", "images", "--stats"];
    let mut dump = field.ours("repo-dump");
    dump.arg(listing[field.random.below(listing.len())]);
    ends_cleanly(&run(&mut dump))?;
    let unit = UNITS[field.random.below(UNITS.len())];
    let mut join = field.ours("repo-dump");
    join.args(["--materialize", &format!("{unit}.o"), "-o", "joined.o"]);
    ends_cleanly(&run(&mut join))?;
    Ok(verified.status.success())
}

/// Those that write end cleanly, too.
fn writers_end(field: &mut Field) -> Verdict {
    let unit = UNITS[field.random.below(UNITS.len())];
    field.edit(unit)?;
    // The compiler's exit code; that of a compile without its repository is that of the ordinary road.
    ends_cleanly(&run(&mut field.compile(unit)))?;
    ends_cleanly(&run(&mut field.compact()))?;
    ends_cleanly(&run(&mut field.verify()))
}

/// One bit.
pub fn bit(field: &mut Field) -> Verdict {
    let mut bytes = field.good().to_vec();
    let place = field.random.below(bytes.len());
    let bit = field.random.below(8);
    bytes[place] ^= 1 << bit;
    field.put(&field.scratch.repository(), &bytes)?;
    let is_sound = readers_end(field)?;
    match field.links_or_refuses()? {
        Some(_) => {}
        None => {
            return Err(Failure::broken(format!(
                "bit {bit} of byte {place:#x} flipped: a link succeeds with another program \
                 (repo-dump --verify {} it)",
                if is_sound { "does not see" } else { "sees" }
            )));
        }
    }
    writers_end(field)
}

/// The end is missing, or something else is there.
pub fn cut(field: &mut Field) -> Verdict {
    let unit = UNITS[field.random.below(UNITS.len())];
    let is_ticket = field.random.one_in(3);
    let path = match is_ticket {
        true => field.ticket(unit),
        false => field.scratch.repository(),
    };
    let mut bytes = field.read(&path)?;
    let at = field.random.below(bytes.len());
    match field.random.below(3) {
        0 => bytes.truncate(at),
        1 => bytes[at..].fill(0),
        _ => bytes[at..].fill_with(|| field.random.number() as u8),
    }
    field.put(&path, &bytes)?;
    readers_end(field)?;
    match field.links_or_refuses()? {
        Some(_) => {}
        None => {
            return Err(Failure::broken(format!(
                "{} changed from {at:#x} on: a link succeeds with another program",
                path.display()
            )));
        }
    }
    match is_ticket {
        true => Ok(()),
        false => writers_end(field),
    }
}

/// Records contradict each other, and every checksum is right. That is what the repository's owner could have put there, so
/// another program is no failure.
pub fn records(field: &mut Field) -> Verdict {
    let mut bytes = field.good().to_vec();
    mutate::program::mutate(&mut bytes, &mut field.random);
    changed(field, &bytes)
}

/// The same of what the store's engine reads.
pub fn tables(field: &mut Field) -> Verdict {
    let mut bytes = field.good().to_vec();
    let limit = bytes.len();
    for _ in 0..1 + field.random.below(3) {
        mutate::repository::mutate(&mut bytes, &mut field.random, limit);
    }
    changed(field, &bytes)
}

fn changed(field: &mut Field, bytes: &[u8]) -> Verdict {
    field.put(&field.scratch.repository(), bytes)?;
    // The program may be any: it is not run.
    let _ = std::fs::remove_file(field.scratch.join("program"));
    let linked = run(&mut field.link());
    ends_cleanly(&linked)?;
    if !linked.status.success() && field.scratch.join("program").exists() {
        return Err(Failure::broken(format!(
            "an output after an error\n{}",
            linked.report()
        )));
    }
    readers_end(field)?;
    writers_end(field)
}
