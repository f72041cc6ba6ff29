//! Inputs that no compiler wrote: those of `tests/hostile`, given to the programs themselves.

use crate::field::UNITS;
use crate::oracle::ends_cleanly;
use crate::{Failure, Field, Verdict};
use repo_hostile::Target;
use repo_tests::process::run;

/// A changed object, archive, shared object, script or ticket is linked, shown, and compiled in place of a source.
pub fn input(field: &mut Field) -> Verdict {
    const TARGETS: [Target; 6] = [
        Target::Archive,
        Target::Object,
        Target::Object,
        Target::Script,
        Target::Shared,
        Target::VersionScript,
    ];
    let mut bytes;
    let choice = field.random.below(TARGETS.len() + 2);
    let target = TARGETS.get(choice).copied();
    match target {
        Some(target) => {
            bytes = field.random.pick(&target.seeds());
            for _ in 0..1 + field.random.below(3) {
                target.mutate(&mut bytes, &mut field.random, 64 << 10);
            }
        }
        None => {
            let unit = UNITS[field.random.below(UNITS.len())];
            bytes = field.read(&field.ticket(unit))?;
            match field.random.one_in(2) {
                true => repo_hostile::mutate::blindly(&mut bytes, &mut field.random),
                false => Target::Object.mutate(&mut bytes, &mut field.random, 64 << 10),
            }
        }
    }
    field.put(&field.scratch.join("input"), &bytes)?;
    let _ = std::fs::remove_file(field.scratch.join("program"));
    let mut link = field.link_alone();
    match target {
        Some(Target::VersionScript) => link.arg("--version-script=input"),
        Some(Target::Script) if field.random.one_in(2) => link.arg("--script=input"),
        _ => link.arg("input"),
    };
    let linked = run(&mut link);
    ends_cleanly(&linked)?;
    if !linked.status.success() && field.scratch.join("program").exists() {
        return Err(Failure::broken(format!(
            "an output after an error\n{}",
            linked.report()
        )));
    }
    ends_cleanly(&run(field.ours("repo-dump").arg("input")))?;
    ends_cleanly(&run(field.compact().args(["--root", "input"])))?;
    field.survives()
}
